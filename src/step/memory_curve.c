/* Memory curves (memory_curve.h).  The bytes that a chunk saves come from the memory model, as the
 * difference that one more microbatch in flight makes; the events of the simulated pipeline say
 * when they are saved and freed. */
#include "step/memory_curve.h"

#include "core/num.h"
#include "plan/pipeline_order.h"
#include "plan/plan_fields.h"
#include "step/step_model.h"

/* Returns the bytes that each chunk of the model saves from its forward to its backward pass, for
 * one microbatch.  In the memory model, every chunk becomes a stage of its own (GPipe). */
static const double *chunk_bytes(struct pz_call *call, const struct pz_memory_question *question) {
  const struct pz_plan *plan = &question->run->plan;
  struct pz_job job = {.model = question->model, .chip = question->chip, .net = question->net};
  int64_t chunks = plan->pp * plan->vpp;
  double *saved_bytes = pz_alloc(call, (size_t)chunks, sizeof *saved_bytes);
  int64_t *recomputed = pz_alloc(call, (size_t)chunks, sizeof *recomputed);
  struct pz_step_model *model = pz_step_model_new(call, &job, plan);
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  struct pz_plan split = *plan;
  split.pp = chunks;
  split.vpp = 1;
  split.pipeline = PZ_PIPELINE_GPIPE;
  for (int64_t i = 0; plan->stage_recompute && i < chunks; i++)
    recomputed[i] = plan->stage_recompute[pz_pipeline_stage_of(&shape, (uint32_t)i)];
  if (plan->stage_recompute) split.stage_recompute = recomputed;
  for (int64_t i = 0; i < chunks; i++) {
    struct pz_training_memory two = pz_training_memory(&model->memory, &split, 2, i);
    struct pz_training_memory three = pz_training_memory(&model->memory, &split, 3, i);
    saved_bytes[i] = pz_training_memory_sum(&three) - pz_training_memory_sum(&two);
  }
  pz_close(call, model);
  return saved_bytes;
}

/* Returns for each stage the bytes of its activations after every pass of the simulated pipeline,
 * and the bytes that stay constant. */
struct pz_memory_curve *pz_memory_curves(struct pz_call *call,
                                         const struct pz_memory_question *question) {
  const struct pz_training_run *run = question->run;
  if (!run->n_events)
    pz_raise(call, PZ_BAD_USE, "a memory curve of a run without events; accepted: with them");
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(&run->plan);
  const double *saved_bytes = chunk_bytes(call, question);
  int64_t stages = run->plan.pp;
  size_t units = (size_t)shape.stages * pz_pipeline_slots(&shape) * shape.microbatches;
  struct pz_memory_curve *curves = pz_alloc(call, (size_t)stages, sizeof *curves);
  /* by slot, stage and microbatch: whether a backward pass has freed the activations */
  bool *freed = pz_alloc(call, units, sizeof *freed);
  struct pz_stage_pass *passes = pz_alloc(call, run->n_events, sizeof *passes);
  for (uint32_t i = 0; i < run->n_events; i++) curves[run->events[i].stage].n++;
  for (int64_t stage = 0; stage < stages; stage++) {
    curves[stage].passes = passes;
    passes += curves[stage].n;
    curves[stage].n = 0;
  }
  for (uint32_t i = 0; i < run->n_events; i++) {
    const struct pz_pipeline_event *event = &run->events[i];
    struct pz_memory_curve *curve = &curves[event->stage];
    size_t unit = (size_t)event->chunk * shape.stages + event->stage;
    bool *unit_freed = &freed[unit * shape.microbatches + event->microbatch];
    bool weights = event->backward && *unit_freed;
    double saved = saved_bytes[pz_pipeline_chunk_at(&shape, event->stage, event->chunk)];
    double bytes = curve->n ? curve->passes[curve->n - 1].activation_bytes : 0;
    if (!weights) bytes += event->backward ? -saved : saved;
    if (event->backward) *unit_freed = true;
    curve->passes[curve->n++] = (struct pz_stage_pass){event, weights, bytes};
    curve->most_bytes = pz_fmax(curve->most_bytes, bytes);
  }
  for (int64_t stage = 0; stage < stages; stage++) {
    const struct pz_training_memory *memory = &run->stages[stage];
    double most_bytes = curves[stage].most_bytes;
    /* predicted activations beyond the curve are data and buffers that all layers read */
    double constant_bytes = memory->weight_bytes + memory->gradient_bytes +
                            memory->optimizer_bytes + memory->reserve_bytes +
                            pz_fmax(0, memory->activation_bytes - most_bytes);
    /* with one microbatch, a framework may allocate gradients while it frees activations: their
     * sum is at most the peak */
    if (run->p.microbatches == 1)
      constant_bytes = pz_fmin(constant_bytes, pz_training_memory_sum(memory) - most_bytes);
    curves[stage].constant_bytes = constant_bytes;
  }
  return curves;
}
