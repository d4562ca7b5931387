/* Pipeline orders (pipeline_order.h): properties of the orders, the placement of chunks, the number
 * of microbatches in flight, and the check of a shape.  The numbers are formulas;
 * src/step/pipeline.c simulates the orders. */
#include "plan/pipeline_order.h"

#include "core/num.h"

bool pz_is_v_pipeline(enum pz_pipeline_order order) {
  return order == PZ_PIPELINE_ZB_V || order == PZ_PIPELINE_DUALPIPE_V ||
         order == PZ_PIPELINE_DUALPIPE;
}

bool pz_pipeline_splits_backward(enum pz_pipeline_order order) {
  return order == PZ_PIPELINE_ZB_H1 || order == PZ_PIPELINE_ZB_2P || pz_is_v_pipeline(order);
}

uint32_t pz_pipeline_chunks(enum pz_pipeline_order order) {
  if (order == PZ_PIPELINE_INTERLEAVED) return 0;
  return order == PZ_PIPELINE_ZB_V || order == PZ_PIPELINE_DUALPIPE_V ? 2 : 1;
}

uint32_t pz_pipeline_copies(enum pz_pipeline_order order) {
  return order == PZ_PIPELINE_DUALPIPE ? 2 : 1;
}

uint32_t pz_pipeline_slots(const struct pz_pipeline_shape *shape) {
  return shape->chunks * pz_pipeline_copies(shape->order);
}

uint32_t pz_pipeline_chunk_at(const struct pz_pipeline_shape *shape, uint32_t stage,
                              uint32_t slot) {
  if (pz_is_v_pipeline(shape->order) && slot) return shape->stages * shape->chunks - 1 - stage;
  return slot * shape->stages + stage;
}

uint32_t pz_pipeline_stage_of(const struct pz_pipeline_shape *shape, uint32_t chunk) {
  if (pz_is_v_pipeline(shape->order) && chunk >= shape->stages)
    return 2 * shape->stages - 1 - chunk;
  return chunk % shape->stages;
}

/* Returns how many of the first `passes` passes of a stage are passes of this slot (one of the chunks
 * that the stage holds), if the slots take turns of `turn` passes each: those of all complete cycles
 * through the slots, and those of the begun cycle. */
static int64_t passes_of_slot(int64_t passes, int64_t turn, int64_t slots, int64_t slot) {
  return passes / (turn * slots) * turn +
         pz_max(0, pz_min(turn, passes % (turn * slots) - slot * turn));
}

/* Returns the number of forward passes that a stage runs before its first backward pass ends, in
 * the interleaved order as Megatron issues it (Narayanan et al., arXiv 2104.04473): a warm-up of all
 * chunks but the last, and of two passes for each later stage, and one pass of the steady phase. */
static int64_t interleaved_warmup(const struct pz_pipeline_shape *shape, int64_t stage) {
  int64_t stages = shape->stages, chunks = shape->chunks;
  return pz_min(stages * chunks - stages + 2 * (stages - stage - 1) + 1,
                (int64_t)shape->microbatches * chunks);
}

/* Returns for how many microbatches a stage holds activations of the chunk in a slot, when it holds
 * most microbatches in all. */
uint32_t pz_pipeline_in_flight(const struct pz_pipeline_shape *shape, uint32_t stage,
                               uint32_t slot) {
  /* 1F1B: one for each stage from this one on */
  uint32_t in_flight = shape->stages - stage;
  if (pz_is_v_pipeline(shape->order)) {
    /* As in 1F1B, one microbatch for the chunk itself and one for each later chunk.  ZB-V has
     * one less in the first half, where a forward pass follows the backward pass of the second
     * half instead of running beside it.  Each copy of the model has its share of microbatches. */
    in_flight = shape->stages * shape->chunks - pz_pipeline_chunk_at(shape, stage, slot);
    if (shape->order == PZ_PIPELINE_ZB_V && slot == 0) in_flight--;
    return (uint32_t)pz_min(in_flight, shape->microbatches / pz_pipeline_copies(shape->order));
  }
  if (shape->chunks > 1)
    return (uint32_t)passes_of_slot(interleaved_warmup(shape, stage), shape->stages, shape->chunks,
                                    slot);
  if (shape->order == PZ_PIPELINE_GPIPE) return shape->microbatches;
  /* Activations are kept until the gradients of weights are computed, which later stages postpone,
   * so that all stages hold the same number (Qi et al., arXiv 2401.10241, section 2). */
  if (shape->order == PZ_PIPELINE_ZB_H1) in_flight = shape->stages;
  if (shape->order == PZ_PIPELINE_ZB_2P) in_flight = 2 * shape->stages - 1;
  return (uint32_t)pz_min(in_flight, shape->microbatches);
}

/* Sets the number of forward and backward passes that a stage has begun at a "moment", a point in the
 * interleaved order at which it may need the most memory.  Returns false if the step has too few
 * passes for it.  The stage alternates forward and backward passes, and each of its slots (chunks)
 * takes turns of as many passes as there are stages.  Within a turn, each pass changes the bytes in
 * flight by the same amount, so that they are largest at its begin or end.  Hence there are four
 * moments for each turn t: its first and its last backward pass (4t, 4t + 1), and the begin and the
 * end of the turn of forward passes beside it (4t + 2, 4t + 3). */
static bool find_interleaved_passes(const struct pz_pipeline_shape *shape, uint32_t stage,
                                    uint32_t moment, int64_t *forwards, int64_t *backwards) {
  int64_t stages = shape->stages, passes = (int64_t)shape->microbatches * shape->chunks;
  int64_t warmup = interleaved_warmup(shape, stage);
  /* passes from the beginning of a backward turn to that of a forward turn */
  int64_t shift = (stages - warmup % stages) % stages;
  enum { MOMENTS_PER_TURN = 4 };
  const int64_t offsets[MOMENTS_PER_TURN] = {0, stages - 1, shift, pz_max(shift, 1) - 1};
  *backwards = moment / MOMENTS_PER_TURN * stages + offsets[moment % MOMENTS_PER_TURN];
  *forwards = pz_min(warmup + *backwards, passes);
  return *backwards < passes;
}

/* Returns the bytes of the first `passes` passes of a cycle in which one slot after another runs
 * `turn` passes.  sums[k] is the sum of the bytes per pass of the first k slots. */
static double bytes_of_passes(int64_t passes, int64_t turn, const double *sums) {
  int64_t slots = passes / turn, rest = passes % turn;
  double bytes = (double)turn * sums[slots];
  return rest ? bytes + (double)rest * (sums[slots + 1] - sums[slots]) : bytes;
}

/* Sets the bytes in flight on a stage at a moment of the interleaved order.  In a cycle, each slot
 * (chunk) runs one turn of as many passes as there are stages.  The bytes are those of the complete
 * cycles in flight, plus those of the begun cycle of forward passes, less those of the begun cycle of
 * backward passes, which free them. */
bool pz_pipeline_moment_bytes(const struct pz_pipeline_shape *shape, uint32_t stage,
                              uint32_t moment, const double *forward_sums,
                              const double *backward_sums, uint32_t *backward_slot, double *bytes) {
  int64_t stages = shape->stages, slots = shape->chunks, cycle = stages * slots;
  int64_t forwards, backwards;
  if (!find_interleaved_passes(shape, stage, moment, &forwards, &backwards)) return false;
  *backward_slot = (uint32_t)(slots - 1 - backwards / stages % slots);
  int64_t whole_cycles = forwards / cycle - backwards / cycle;
  *bytes = (double)(whole_cycles * stages) * forward_sums[slots] +
           bytes_of_passes(forwards % cycle, stages, forward_sums) -
           bytes_of_passes(backwards % cycle, stages, backward_sums);
  return true;
}

uint32_t pz_pipeline_moments(const struct pz_pipeline_shape *shape) {
  return shape->chunks > 1 && !pz_is_v_pipeline(shape->order) ? 4 * shape->chunks : 1;
}

/* Sets the slot whose backward pass begins at a moment when the stage may need the most memory, and
 * the number of microbatches in flight in each slot.  Backward passes run the slots in reverse. */
bool pz_pipeline_moment(const struct pz_pipeline_shape *shape, uint32_t stage, uint32_t moment,
                        uint32_t *backward_slot, uint32_t *in_flight) {
  uint32_t slots = pz_pipeline_slots(shape);
  if (pz_pipeline_moments(shape) == 1) {
    *backward_slot = slots - 1;
    for (uint32_t slot = 0; slot < slots; slot++)
      in_flight[slot] = pz_pipeline_in_flight(shape, stage, slot);
    return moment == 0;
  }
  int64_t stages = shape->stages, n = shape->chunks, forwards, backwards;
  if (!find_interleaved_passes(shape, stage, moment, &forwards, &backwards)) return false;
  *backward_slot = (uint32_t)(n - 1 - backwards / stages % n);
  for (int64_t slot = 0; slot < n; slot++)
    in_flight[slot] = (uint32_t)(passes_of_slot(forwards, stages, n, slot) -
                                 passes_of_slot(backwards, stages, n, n - 1 - slot));
  return true;
}

/* Raises an error if the pipeline order cannot run with these stages, chunks and microbatches. */
void pz_require_pipeline(struct pz_call *call, const struct pz_pipeline_shape *shape) {
  uint32_t chunks = pz_pipeline_chunks(shape->order); /* required per stage; 0 if interleaved */
  if (!shape->stages || !shape->chunks || !shape->microbatches)
    pz_raise(call, PZ_BAD_USE,
             "a pipeline of %u stages, %u chunks, %u microbatches; accepted: 1 and above",
             shape->stages, shape->chunks, shape->microbatches);
  if (chunks == 2 && shape->chunks != 2)
    pz_raise(call, PZ_BAD_USE, "%u chunks a stage in a V; accepted: 2", shape->chunks);
  if (chunks == 1 && shape->chunks > 1)
    pz_raise(call, PZ_BAD_USE, "%u chunks a stage; accepted: 1, or interleaved", shape->chunks);
  bool is_interleaved = !chunks && shape->chunks > 1;
  if (is_interleaved && shape->microbatches % shape->stages)
    pz_raise(call, PZ_BAD_USE,
             "%u microbatches interleaved over %u stages; accepted: multiples of the stages",
             shape->microbatches, shape->stages);
  /* DualPipe and DualPipeV run forward passes of one direction beside backward passes of the
   * other.  Their published schedules begin with enough microbatches to fill all stages twice. */
  bool is_dualpipe = shape->order == PZ_PIPELINE_DUALPIPE;
  if (is_dualpipe && shape->stages % 2)
    pz_raise(call, PZ_BAD_USE, "dualpipe over %u stages; accepted: even numbers", shape->stages);
  if (is_dualpipe && shape->microbatches % 2)
    pz_raise(call, PZ_BAD_USE,
             "%u microbatches, half of them from each end; accepted: even numbers",
             shape->microbatches);
  bool fills_twice = is_dualpipe || shape->order == PZ_PIPELINE_DUALPIPE_V;
  if (fills_twice && shape->microbatches < 2 * (uint64_t)shape->stages)
    pz_raise(call, PZ_BAD_USE, "%u microbatches in %s over %u stages; accepted: %llu and more",
             shape->microbatches, is_dualpipe ? "dualpipe" : "dualpipe-v", shape->stages,
             2 * (unsigned long long)shape->stages);
  double events = 2.0 * shape->stages * shape->chunks * shape->microbatches;
  if (events > PZ_PIPELINE_MOST_EVENTS)
    pz_raise(call, PZ_LIMIT,
             "a pipeline of %.0f events (2 x stages x chunks x microbatches); accepted: at "
             "most %d",
             events, PZ_PIPELINE_MOST_EVENTS);
}

/* Checks a shape within a border, so that pz_pipeline_can_run() can return false instead of raising
 * an error. */
static void require_in_border(struct pz_call *call, void *ctx) {
  pz_require_pipeline(call, *(const struct pz_pipeline_shape *const *)ctx);
}

bool pz_pipeline_can_run(const struct pz_pipeline_shape *shape) {
  return pz_border(require_in_border, &shape, NULL) == PZ_OK;
}
