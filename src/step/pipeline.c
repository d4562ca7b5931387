/* Simulates a pipeline event by event, and bounds its time from below (pipeline.h).
 *
 * Every order is a fixed list of passes for each stage, so that the result does not depend on the
 * order in which the simulation visits the stages: each stage runs as many passes as have their
 * input, until all are done. 1F1B, GPipe and interleaved stages compute their next pass; the orders
 * that split backward passes list all of them first.  Both halves of DualPipe mirror each other, so
 * that only one of them is simulated. */
#include "step/pipeline.h"

#include "core/num.h"
#include "plan/pipeline_order.h"

/* The part of a pipeline that is simulated: all of it, or in DualPipe half of its stages and
 * microbatches, with all chunks of the model from input to output. */
struct line {
  const struct pz_pipeline *pipeline;
  uint32_t stages, chunks, microbatches; /* `chunks` counts those of all stages */
  bool is_v;      /* the second half of the chunks runs back over the stages */
  bool is_half;   /* the line is one half of DualPipe */
  bool is_listed; /* each stage has a list of its passes */
};

/* Returns the stages, chunks and microbatches of a pipeline that are simulated. */
static struct line make_line(const struct pz_pipeline *pipeline) {
  bool halved = pipeline->order == PZ_PIPELINE_DUALPIPE;
  bool v = pz_is_v_pipeline(pipeline->order); /* two chunks per stage */
  uint32_t stages = halved ? pipeline->stages / 2 : pipeline->stages;
  return (struct line){.pipeline = pipeline,
                       .stages = stages,
                       .chunks = (v ? 2 : pipeline->chunks) * stages,
                       .microbatches = halved ? pipeline->microbatches / 2 : pipeline->microbatches,
                       .is_v = v,
                       .is_half = halved,
                       .is_listed = pz_pipeline_splits_backward(pipeline->order)};
}

/* Returns the chunk of the model in a slot of a stage. */
static uint32_t chunk_at(const struct line *line, uint32_t stage, uint32_t slot) {
  return line->is_v && slot ? line->chunks - 1 - stage : slot * line->stages + stage;
}

/* Returns the seconds to transfer a microbatch from a chunk to the next one, or its gradient back;
 * at the turn of a V both are on one stage. */
static double hop_s(const struct line *line, uint32_t chunk) {
  /* DualPipe is simulated as a V of half its stages, whose turn is between two devices */
  bool at_turn = line->is_v && chunk + 1 == line->stages && !line->is_half;
  bool same_stage = line->is_v ? at_turn : line->stages == 1;
  return same_stage ? 0 : line->pipeline->transfer_s;
}

/* ---- passes --------------------------------------------------------------------------------- */

enum pass_kind {
  FORWARD,
  INPUTS,  /* the input gradients of a backward pass */
  WEIGHTS, /* the weight gradients of a backward pass */
  BACKWARD /* a whole backward pass */
};

struct pass {
  uint32_t microbatch;
  uint16_t slot;  /* slot of the stage that holds the chunk */
  uint8_t kind;   /* enum pass_kind */
  bool with_next; /* a forward pass that runs together with the backward pass after it */
};

/* Returns the seconds of a pass of one microbatch through a chunk. */
static double pass_s(const struct line *line, uint32_t chunk, enum pass_kind kind) {
  const struct pz_pipeline *pipeline = line->pipeline;
  double weights_s = pipeline->weight_s ? pipeline->weight_s[chunk] : 0;
  if (kind == FORWARD) return pipeline->forward_s[chunk];
  if (kind == WEIGHTS) return weights_s;
  return pipeline->backward_s[chunk] - (kind == INPUTS ? weights_s : 0);
}

/* Returns the time of a chunk's forward pass together with a backward pass of the stage's other
 * chunk: at least as long as either of them. */
static double pair_s(const struct line *line, uint32_t chunk) {
  const struct pz_pipeline *pipeline = line->pipeline;
  double forward_s = pipeline->forward_s[chunk];
  double backward_s = pipeline->backward_s[line->chunks - 1 - chunk];
  if (!pipeline->paired_s) return forward_s + backward_s;
  return pz_fmax(pipeline->paired_s[chunk], pz_fmax(forward_s, backward_s));
}

/* ---- orders with split backward passes ------------------------------------------------------ */

/* The slots of a stage in a V: the near chunk on the way to the turn, the far one behind it. */
enum { NEAR = false, FAR = true };

/* The passes of a stage in their order. */
struct pass_list {
  struct pass *passes;
  uint32_t n, microbatches;
  uint32_t forwards[2], backwards[2]; /* the next microbatch of each slot */
  uint32_t first_waiting; /* passes before this index have no weight gradients left to compute */
};

/* Appends a pass of the near or the far chunk, unless the microbatch does not exist. */
static void append_pass(struct pass_list *list, enum pass_kind kind, bool far,
                        uint32_t microbatch) {
  if (microbatch >= list->microbatches) return;
  list->passes[list->n++] =
      (struct pass){.microbatch = microbatch, .slot = far, .kind = (uint8_t)kind};
}

/* Appends the next pass of a slot that has this kind: forward, backward, or gradients of inputs. */
static void append_next(struct pass_list *list, enum pass_kind kind, bool far) {
  uint32_t *next = kind == FORWARD ? &list->forwards[far] : &list->backwards[far];
  append_pass(list, kind, far, *next);
  (*next)++;
}

/* Appends the next backward pass of a slot: gradients of inputs, then those of weights. */
static void append_both_gradients(struct pass_list *list, bool far) {
  append_next(list, INPUTS, far);
  append_pass(list, WEIGHTS, far, list->backwards[far] - 1);
}

/* Lists the passes of ZB-H1 as Megatron-DeepSpeed does (deepspeed_zbh1_schedule.py), and of ZB-2P
 * likewise with more microbatches in flight.  Forward passes are as in 1F1B.  Gradients of weights
 * are delayed while the stage holds the activations of fewer microbatches than the first stage may
 * hold, and follow each backward pass when no forward pass is left.
 *
 * The order does not depend on the times.  If a stage ran whatever is ready first, a shorter pass
 * could make the step longer (Graham, SIAM J. Appl. Math. 17, 1969). */
static void list_zero_bubble(struct pass_list *list, enum pz_pipeline_order order, uint32_t stages,
                             uint32_t stage) {
  /* forward passes that this stage and the first one may run before the first backward pass */
  uint32_t in_flight = stages - stage, first_in_flight = stages;
  if (order == PZ_PIPELINE_ZB_2P) {
    in_flight = 2 * in_flight - 1;
    first_in_flight = 2 * stages - 1;
  }
  uint32_t weights = 0; /* microbatches with gradients of weights, which free their activations */
  while (weights < list->microbatches) {
    bool has_forward = list->forwards[NEAR] < list->microbatches;
    if (has_forward) append_next(list, FORWARD, NEAR);
    bool is_warm_up = has_forward && list->forwards[NEAR] < in_flight;
    if (is_warm_up) continue;
    append_next(list, INPUTS, NEAR);
    if (!has_forward || list->forwards[NEAR] - weights == first_in_flight)
      append_pass(list, WEIGHTS, NEAR, weights++);
  }
}

/* Lists the passes of a stage in ZB-V, phase by phase as the code of its authors.  `remaining`
 * counts the stages from this one to the turn of the V. */
static void list_zb_v(struct pass_list *list, uint32_t stages, uint32_t stage) {
  uint32_t remaining = stages - stage;
  uint32_t n_passes = (uint32_t)pz_max(list->microbatches, 2 * (int64_t)stages - 1);
  /* warm-up: forward passes until the first microbatch is back from the turn, then also far ones */
  for (uint32_t i = 0; i < 2 * remaining - 1; i++) append_next(list, FORWARD, NEAR);
  for (uint32_t i = 0; i < stage; i++) {
    append_next(list, FORWARD, FAR);
    append_next(list, FORWARD, NEAR);
  }
  for (uint32_t i = 0; i < remaining; i++) {
    append_next(list, FORWARD, FAR);
    append_both_gradients(list, FAR);
  }
  /* steady state: one pass of each kind and chunk in turn */
  while (list->forwards[FAR] < n_passes) {
    if (list->forwards[NEAR] < n_passes) append_next(list, FORWARD, NEAR);
    append_both_gradients(list, NEAR);
    append_next(list, FORWARD, FAR);
    append_both_gradients(list, FAR);
  }
  /* cool-down: gradients of inputs first, because other stages wait for them */
  uint32_t weights = list->backwards[NEAR];
  for (uint32_t i = 0; i < stage; i++) {
    append_next(list, INPUTS, NEAR);
    append_next(list, INPUTS, FAR);
  }
  for (uint32_t i = 0; i < remaining; i++) {
    append_next(list, INPUTS, NEAR);
    append_pass(list, WEIGHTS, NEAR, weights++);
  }
  /* then the gradients of weights that are left, of the far chunk and of the near one */
  for (uint32_t i = n_passes - stage; i < n_passes; i++) append_pass(list, WEIGHTS, FAR, i);
  for (uint32_t i = n_passes - stage; i < n_passes; i++) append_pass(list, WEIGHTS, NEAR, i);
}

/* Appends a forward pass of the far or near chunk, and with it a backward pass of the other. */
static void append_pair(struct pass_list *list, bool forward_far) {
  append_next(list, FORWARD, forward_far);
  list->passes[list->n - 1].with_next = true;
  append_next(list, BACKWARD, !forward_far);
}

/* Appends the gradients of weights of the first backward pass that has none yet. */
static void append_waiting_weights(struct pass_list *list) {
  while (list->passes[list->first_waiting].kind != INPUTS) list->first_waiting++;
  const struct pass *inputs = &list->passes[list->first_waiting];
  list->first_waiting++;
  append_pass(list, WEIGHTS, inputs->slot, inputs->microbatch);
}

/* Lists the passes of a stage in DualPipe and DualPipeV, phase by phase as the code of their
 * authors. later_stages are those between this one and the turn of the V. */
static void list_dualpipe(struct pass_list *list, uint32_t stages, uint32_t stage) {
  uint32_t later_stages = stages - stage - 1, pairs = list->microbatches - 2 * stages + stage + 1;
  /* warm-up: forward passes, then also backward passes of the far chunk */
  for (uint32_t i = 0; i < 2 * later_stages; i++) append_next(list, FORWARD, NEAR);
  for (uint32_t i = 0; i < stage + 1; i++) {
    append_next(list, FORWARD, NEAR);
    append_next(list, FORWARD, FAR);
  }
  for (uint32_t i = 0; i < later_stages; i++) {
    append_next(list, INPUTS, FAR);
    append_waiting_weights(list);
    append_next(list, FORWARD, FAR);
  }
  /* steady state: pairs of a forward and a backward pass */
  for (uint32_t i = 0; i < pairs; i++) {
    append_pair(list, NEAR);
    /* at the turn, the first pair of passes runs in series, so that its result is sent sooner */
    if (i == 0 && !later_stages) list->passes[list->n - 2].with_next = false;
    append_pair(list, FAR);
  }
  for (uint32_t i = 0; i < later_stages; i++) {
    append_next(list, BACKWARD, FAR);
    append_pair(list, FAR);
  }
  /* cool-down: the second half of the backward passes leaves gradients of weights for waits */
  for (uint32_t i = 0; i < 2 * (stage + 1); i++)
    append_next(list, i < stage + 1 ? BACKWARD : INPUTS, i % 2 ? NEAR : FAR);
  for (uint32_t i = 0; i < later_stages; i++) {
    append_waiting_weights(list);
    append_next(list, INPUTS, NEAR);
  }
  for (uint32_t i = 0; i < stage + 1; i++) append_waiting_weights(list);
}

/* ---- the simulation ------------------------------------------------------------------------- */

/* The progress of a stage in the simulation. */
struct stage {
  uint32_t done[BACKWARD + 1]; /* passes that have run, by kind */
  struct pass *list;           /* all passes in their order, or NULL if each is computed */
  uint32_t n, next;            /* length of the list, and index of the next pass */
  uint32_t warm_up;            /* forward passes before the first backward pass (no list) */
  double free_s;               /* end of the last pass that was started */
};

struct simulation {
  struct line line;
  struct stage *stages;
  double *forward_end_s, *backward_end_s; /* by chunk and microbatch; negative before the pass */
  struct pz_pipeline_event *events;       /* NULL if events are not stored */
  uint32_t n_events;
};

/* Returns the index of a chunk and a microbatch in the tables of end times. */
static size_t end_index(const struct simulation *simulation, uint32_t chunk, uint32_t microbatch) {
  return (size_t)chunk * simulation->line.microbatches + microbatch;
}

/* Returns when the input of a pass arrives at its stage, or a negative number if it is unknown. */
static double ready_s(const struct simulation *simulation, uint32_t stage,
                      const struct pass *pass) {
  const struct line *line = &simulation->line;
  uint32_t chunk = chunk_at(line, stage, pass->slot);
  double end_s;
  if (pass->kind == WEIGHTS) return 0; /* follows its gradients of inputs in the same stage */
  if (pass->kind == FORWARD) {
    if (chunk == 0) return 0;
    end_s = simulation->forward_end_s[end_index(simulation, chunk - 1, pass->microbatch)];
    return end_s < 0 ? end_s : end_s + hop_s(line, chunk - 1);
  }
  if (chunk + 1 == line->chunks)
    return simulation->forward_end_s[end_index(simulation, chunk, pass->microbatch)];
  end_s = simulation->backward_end_s[end_index(simulation, chunk + 1, pass->microbatch)];
  return end_s < 0 ? end_s : end_s + hop_s(line, chunk);
}

/* Records the end of a pass: one event, or in DualPipe one for each direction. */
static void end_pass(struct simulation *simulation, uint32_t stage, const struct pass *pass,
                     double start_s, double end_s) {
  const struct line *line = &simulation->line;
  struct stage *state = &simulation->stages[stage];
  uint32_t chunk = chunk_at(line, stage, pass->slot), microbatch = pass->microbatch;
  size_t index = end_index(simulation, chunk, microbatch);
  bool backward = pass->kind != FORWARD;
  if (!backward) simulation->forward_end_s[index] = end_s;
  if (backward && pass->kind != WEIGHTS) simulation->backward_end_s[index] = end_s;
  state->free_s = end_s;
  state->done[pass->kind]++;
  state->next++;
  uint32_t n_events = simulation->n_events;
  simulation->n_events += line->is_half ? 2 : 1;
  if (!simulation->events) return; /* events are only counted */
  struct pz_pipeline_event *event = &simulation->events[n_events];
  *event = (struct pz_pipeline_event){stage, pass->slot, microbatch, backward, start_s, end_s};
  if (!line->is_half) return;
  /* slot 0 belongs to the half that enters at the first stage, slot 1 to the mirrored one */
  uint32_t mirrored = line->chunks - 1 - chunk, other = line->microbatches + microbatch;
  event[0] = (struct pz_pipeline_event){chunk, 0, microbatch, backward, start_s, end_s};
  event[1] = (struct pz_pipeline_event){mirrored, 1, other, backward, start_s, end_s};
}

/* Returns the forward passes of a stage before its first backward pass.
 *
 * GPipe runs all forward passes first.  In 1F1B, forward and backward passes alternate after a
 * warm-up of one forward pass for each later stage.  Interleaved stages run a group of as many
 * microbatches as stages through each chunk in turn, and warm up with 2 (p - k - 1) + (v - 1) p
 * passes of stage k of p with v chunks. */
static uint32_t warm_up_passes(const struct pz_pipeline *pipeline, uint32_t stage) {
  uint32_t n_forwards = pipeline->microbatches * pipeline->chunks;
  uint32_t warm_up = pipeline->stages - stage - 1;
  if (pipeline->chunks > 1) warm_up = 2 * warm_up + (pipeline->chunks - 1) * pipeline->stages;
  bool is_all = pipeline->order == PZ_PIPELINE_GPIPE || warm_up > n_forwards;
  return is_all ? n_forwards : warm_up;
}

/* Stores the next pass of a stage, or two that run together.  Returns their number, or 0 if the
 * stage is done.  Without a list, the pass follows from the number of those that have run.
 * Interleaved backward passes go through the last chunk first. */
static uint32_t next_passes(const struct simulation *simulation, uint32_t stage,
                            struct pass passes[2]) {
  const struct pz_pipeline *pipeline = simulation->line.pipeline;
  const struct stage *state = &simulation->stages[stage];
  if (simulation->line.is_listed) {
    if (state->next == state->n) return 0;
    passes[0] = state->list[state->next];
    if (!passes[0].with_next) return 1;
    passes[1] = state->list[state->next + 1];
    return 2;
  }
  uint32_t stages = pipeline->stages, chunks = pipeline->chunks, warm_up = state->warm_up;
  uint32_t n_forwards = pipeline->microbatches * chunks;
  uint32_t forwards = state->done[FORWARD], backwards = state->done[BACKWARD];
  if (backwards == n_forwards) return 0;
  bool backward = forwards == n_forwards || (forwards > warm_up && forwards - warm_up > backwards);
  uint32_t index = backward ? backwards : forwards; /* of the pass among those of its direction */
  uint32_t group_passes = stages * chunks;          /* passes of a group through all chunks */
  passes[0] = (struct pass){.microbatch = index, .kind = backward ? BACKWARD : FORWARD};
  if (chunks == 1) return 1;
  uint32_t slot = index % group_passes / stages;
  passes[0].microbatch = index / group_passes * stages + index % group_passes % stages;
  passes[0].slot = (uint16_t)(backward ? chunks - 1 - slot : slot);
  return 1;
}

/* Runs the next passes of a stage.  Returns false if it is done or their input is unknown. */
static bool advance_stage(struct simulation *simulation, uint32_t stage) {
  const struct line *line = &simulation->line;
  struct pass passes[2];
  uint32_t n = next_passes(simulation, stage, passes);
  double start_s = simulation->stages[stage].free_s;
  if (!n) return false;
  for (uint32_t i = 0; i < n; i++) {
    double input_s = ready_s(simulation, stage, &passes[i]);
    if (input_s < 0) return false;
    start_s = pz_fmax(start_s, input_s);
  }
  uint32_t chunk = chunk_at(line, stage, passes[0].slot);
  double duration_s = n == 2 ? pair_s(line, chunk) : pass_s(line, chunk, passes[0].kind);
  for (uint32_t i = 0; i < n; i++)
    end_pass(simulation, stage, &passes[i], start_s, start_s + duration_s);
  return true;
}

/* Simulates a pipeline: lists the passes of each stage if the order needs it, then goes over the
 * stages forward and backward, and lets each run as many passes as have their input, until all have
 * run.  Every round makes progress, because stages wait for each other only along the line. */
struct pz_pipeline_run pz_pipeline_simulate(struct pz_call *call,
                                            const struct pz_pipeline *pipeline,
                                            struct pz_call *events) {
  struct pz_pipeline_shape shape = {pipeline->order, pipeline->stages, pipeline->chunks,
                                    pipeline->microbatches};
  pz_require_pipeline(call, &shape);
  struct simulation simulation = {.line = make_line(pipeline)};
  const struct line *line = &simulation.line;
  size_t units = (size_t)line->chunks * line->microbatches;
  uint32_t n_events = (uint32_t)units * 2; /* a forward and a backward pass, unless listed */
  simulation.stages = pz_alloc(call, line->stages, sizeof *simulation.stages);
  simulation.forward_end_s = pz_alloc(call, units, sizeof(double));
  simulation.backward_end_s = pz_alloc(call, units, sizeof(double));
  for (size_t i = 0; i < units; i++)
    simulation.forward_end_s[i] = simulation.backward_end_s[i] = -1;
  for (uint32_t stage = 0; stage < line->stages && !line->is_listed; stage++)
    simulation.stages[stage].warm_up = warm_up_passes(pipeline, stage);
  if (line->is_listed) {
    /* for each chunk and microbatch: a forward pass, gradients of inputs and of weights */
    struct pass *passes = pz_alloc(call, 3 * units, sizeof *passes);
    uint32_t n_passes = 0;
    for (uint32_t stage = 0; stage < line->stages; stage++) {
      struct pass_list list = {.passes = passes + n_passes, .microbatches = line->microbatches};
      if (pipeline->order == PZ_PIPELINE_ZB_V)
        list_zb_v(&list, line->stages, stage);
      else if (pz_is_v_pipeline(pipeline->order))
        list_dualpipe(&list, line->stages, stage);
      else
        list_zero_bubble(&list, pipeline->order, line->stages, stage);
      simulation.stages[stage].list = list.passes;
      simulation.stages[stage].n = list.n;
      n_passes += list.n;
    }
    n_events = n_passes * (line->is_half ? 2 : 1);
  }
  if (events) simulation.events = pz_alloc(events, n_events, sizeof *simulation.events);
  while (simulation.n_events < n_events) {
    uint32_t before = simulation.n_events;
    for (uint32_t stage = 0; stage < line->stages; stage++)
      while (advance_stage(&simulation, stage)) {
      }
    for (uint32_t stage = line->stages; stage > 0; stage--)
      while (advance_stage(&simulation, stage - 1)) {
      }
    if (simulation.n_events == before)
      pz_raise(call, PZ_INTERNAL, "a pipeline of %u stages waits for itself", pipeline->stages);
  }
  struct pz_pipeline_run run = {.events = simulation.events,
                                .n_events = events ? simulation.n_events : 0};
  for (uint32_t stage = 0; stage < line->stages; stage++)
    run.end_s = pz_fmax(run.end_s, simulation.stages[stage].free_s);
  return run;
}

/* ---- the bound ------------------------------------------------------------------------------ */

/* Returns the seconds in which a stage of a V runs all its passes one after another.  In DualPipe,
 * the time of a forward with a backward pass replaces the sum of both. */
static double busy_s(const struct line *line, uint32_t stage) {
  const struct pz_pipeline *pipeline = line->pipeline;
  const double *forward_s = pipeline->forward_s, *backward_s = pipeline->backward_s;
  uint32_t near = stage, far = line->chunks - 1 - stage, later_stages = line->stages - 1 - stage;
  double passes_s =
      line->microbatches * (forward_s[near] + backward_s[near] + forward_s[far] + backward_s[far]);
  if (pipeline->order == PZ_PIPELINE_ZB_V || !pipeline->paired_s) return passes_s;
  /* The pairs in list_dualpipe() with a near and with a far forward pass: `pairs` of each, one near
   * one less at the turn, and later_stages more far ones. */
  double pairs = line->microbatches - 2.0 * line->stages + stage + 1;
  return passes_s +
         (pairs - !later_stages) * (pair_s(line, near) - forward_s[near] - backward_s[far]) +
         (pairs + later_stages) * (pair_s(line, far) - forward_s[far] - backward_s[near]);
}

/* Returns a lower bound of the time of a pipeline in a V: the maximum over all stages of the start
 * and the sum of their passes.  A stage starts when the first microbatch arrives (arrival_s).  Its
 * passes after the warm-up (the forward passes before its first backward pass) start when that
 * microbatch has gone through all chunks and back to the far chunk of the stage (return_s). */
static double v_bound_s(const struct pz_pipeline *pipeline) {
  struct line line = make_line(pipeline);
  double bound_s = 0, arrival_s = 0, return_s = 0;
  for (uint32_t chunk = 0; chunk < line.chunks; chunk++)
    return_s += pipeline->forward_s[chunk] + (chunk + 1 < line.chunks ? hop_s(&line, chunk) : 0);
  for (uint32_t stage = 0; stage < line.stages; stage++) {
    uint32_t far = line.chunks - 1 - stage;
    /* in DualPipe and DualPipeV, the stage at the turn runs one more near forward pass */
    bool has_extra = stage + 1 == line.stages && pipeline->order != PZ_PIPELINE_ZB_V;
    double near_passes = (double)pz_min(line.microbatches, (int64_t)far + has_extra);
    double far_passes = (double)pz_min(line.microbatches, (int64_t)stage + 1);
    double warm_up_s =
        near_passes * pipeline->forward_s[stage] + far_passes * pipeline->forward_s[far];
    double start_s = pz_fmax(arrival_s, return_s - warm_up_s);
    bound_s = pz_fmax(bound_s, busy_s(&line, stage) + start_s);
    arrival_s += pipeline->forward_s[stage] + hop_s(&line, stage);
    return_s += pass_s(&line, far, INPUTS) + hop_s(&line, far - 1);
  }
  return bound_s;
}

/* Returns a lower bound of a pipeline's time: the maximum over all stages of the sum of their
 * passes, plus the time in which a microbatch goes forward through the stages before (before the
 * first of these passes) and back through them (after the last). */
double pz_pipeline_bound_s(const struct pz_pipeline *pipeline) {
  double before_s = 0, bound_s = 0;
  if (pz_is_v_pipeline(pipeline->order)) return v_bound_s(pipeline);
  for (uint32_t stage = 0; stage < pipeline->stages; stage++) {
    double own_s = 0;
    for (uint32_t slot = 0; slot < pipeline->chunks; slot++) {
      size_t chunk = (size_t)slot * pipeline->stages + stage;
      own_s += pipeline->forward_s[chunk] + pipeline->backward_s[chunk];
    }
    bound_s = pz_fmax(bound_s, pipeline->microbatches * own_s + before_s);
    /* zero-bubble orders may compute weight gradients while a microbatch returns */
    bool may_wait = pz_pipeline_splits_backward(pipeline->order);
    double back_s = may_wait ? 0 : pipeline->backward_s[stage];
    before_s += pipeline->forward_s[stage] + back_s;
  }
  return bound_s;
}
