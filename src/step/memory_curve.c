#include "step/memory_curve.h"

#include "core/num.h"
#include "plan/pipeline_order.h"
#include "plan/plan_fields.h"
#include "step/step_model.h"

/* ---- bytes of a chunk ----------------------------------------------------------------------- */

/* Every chunk as a stage of its own that holds all its microbatches: one microbatch more is one chunk more. */
static struct pz_plan chunks_as_stages(const struct pz_plan *p,
                                       const struct pz_pipeline_shape *shape, int64_t *recomputed) {
  struct pz_plan x = *p;
  x.pp = p->pp * p->vpp;
  x.vpp = 1;
  x.pipeline = PZ_PIPELINE_GPIPE;
  for (int64_t j = 0; p->stage_recompute && j < x.pp; j++)
    recomputed[j] = p->stage_recompute[pz_pipeline_stage_of(shape, (uint32_t)j)];
  if (p->stage_recompute) x.stage_recompute = recomputed;
  return x;
}

static double bytes_with(const struct pz_step_model *m, const struct pz_plan *p,
                         int64_t microbatches, int64_t chunk) {
  struct pz_training_memory x = pz_training_memory(&m->memory, p, microbatches, chunk);
  return pz_training_memory_sum(&x);
}

/* What each chunk of the model saves from its forward pass to its backward pass. */
static double *chunk_bytes(struct pz_call *call, const struct pz_memory_question *q) {
  const struct pz_plan *plan = &q->run->plan;
  struct pz_job job = {.model = q->model, .chip = q->chip, .net = q->net};
  int64_t n = plan->pp * plan->vpp;
  double *saved = pz_alloc(call, (size_t)n, sizeof *saved);
  int64_t *recomputed = pz_alloc(call, (size_t)n, sizeof *recomputed);
  struct pz_step_model *m = pz_step_model_new(call, &job, plan);
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  struct pz_plan x = chunks_as_stages(plan, &shape, recomputed);
  for (int64_t j = 0; j < n; j++) saved[j] = bytes_with(m, &x, 3, j) - bytes_with(m, &x, 2, j);
  pz_close(call, m);
  return saved;
}

/* ---- passes --------------------------------------------------------------------------------- */

struct curves {
  const struct pz_training_run *run;
  struct pz_pipeline_shape shape;
  struct pz_memory_curve *stages;
  const double *saved; /* by chunk of the model */
  bool *
      reversed; /* by stage, its slot for a chunk, and microbatch: the first backward pass is over */
};

static void allocate(struct pz_call *call, struct curves *x) {
  const struct pz_training_run *r = x->run;
  size_t units = (size_t)x->shape.stages * pz_pipeline_slots(&x->shape) * x->shape.microbatches;
  x->stages = pz_alloc(call, (size_t)r->plan.pp, sizeof *x->stages);
  x->reversed = pz_alloc(call, units, sizeof *x->reversed);
  struct pz_stage_pass *passes = pz_alloc(call, r->n_events, sizeof *passes);
  for (uint32_t i = 0; i < r->n_events; i++) x->stages[r->events[i].stage].n++;
  for (int64_t k = 0; k < r->plan.pp; k++) {
    x->stages[k].passes = passes;
    passes += x->stages[k].n;
    x->stages[k].n = 0;
  }
}

/* The memory model frees activations with the first of two backward passes. */
static void add_pass(struct curves *x, const struct pz_pipeline_event *e) {
  struct pz_memory_curve *s = &x->stages[e->stage];
  size_t unit = (size_t)e->chunk * x->shape.stages + e->stage;
  bool *reversed = &x->reversed[unit * x->shape.microbatches + e->microbatch];
  double saved = x->saved[pz_pipeline_chunk_at(&x->shape, e->stage, e->chunk)];
  double now = s->n ? s->passes[s->n - 1].activation_bytes : 0;
  bool weights = e->backward && *reversed;
  if (!weights) now += e->backward ? -saved : saved;
  if (e->backward) *reversed = true;
  s->passes[s->n++] = (struct pz_stage_pass){e, weights, now};
  s->most_bytes = pz_fmax(s->most_bytes, now);
}

/* Constants of layers are counted with activations.  With one microbatch a framework may add gradients of its layers
 * while activations go: both together are at most the peak. */
static double constant_bytes(const struct curves *x, int64_t stage) {
  const struct pz_training_memory *m = &x->run->stages[stage];
  double most = x->stages[stage].most_bytes;
  double all = m->weight_bytes + m->gradient_bytes + m->optimizer_bytes + m->reserve_bytes +
               pz_fmax(0, m->activation_bytes - most);
  double peak = pz_training_memory_sum(m);
  return x->run->p.microbatches == 1 ? pz_fmin(all, peak - most) : all;
}

struct pz_memory_curve *pz_memory_curves(struct pz_call *call, const struct pz_memory_question *q) {
  if (!q->run->n_events)
    pz_raise(call, PZ_BAD_USE, "a memory curve of a run without events; accepted: with them");
  struct curves x = {.run = q->run, .shape = pz_plan_pipeline_shape(&q->run->plan)};
  x.saved = chunk_bytes(call, q);
  allocate(call, &x);
  for (uint32_t i = 0; i < q->run->n_events; i++) add_pass(&x, &q->run->events[i]);
  for (int64_t k = 0; k < q->run->plan.pp; k++) x.stages[k].constant_bytes = constant_bytes(&x, k);
  return x.stages;
}
