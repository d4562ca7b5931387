#include "plan/pipeline_order.h"

#include "core/num.h"

bool pz_is_v_pipeline(enum pz_pipeline_order order) {
  return order == PZ_PIPELINE_ZB_V || order == PZ_PIPELINE_DUALPIPE_V ||
         order == PZ_PIPELINE_DUALPIPE;
}

bool pz_is_zero_bubble(enum pz_pipeline_order order) {
  return order == PZ_PIPELINE_ZB_H1 || order == PZ_PIPELINE_ZB_2P;
}

uint32_t pz_zero_bubble_in_flight(enum pz_pipeline_order order, uint32_t stages, uint32_t stage) {
  uint32_t later = stages - stage;
  return order == PZ_PIPELINE_ZB_2P ? 2 * later - 1 : later;
}

bool pz_pipeline_splits_backward(enum pz_pipeline_order order) {
  return pz_is_zero_bubble(order) || pz_is_v_pipeline(order);
}

uint32_t pz_pipeline_chunks(enum pz_pipeline_order order) {
  if (order == PZ_PIPELINE_INTERLEAVED) return 0;
  return order == PZ_PIPELINE_ZB_V || order == PZ_PIPELINE_DUALPIPE_V ? 2 : 1;
}

uint32_t pz_pipeline_copies(enum pz_pipeline_order order) {
  return order == PZ_PIPELINE_DUALPIPE ? 2 : 1;
}

uint32_t pz_pipeline_slots(const struct pz_pipeline_shape *s) {
  return s->chunks * pz_pipeline_copies(s->order);
}

uint32_t pz_pipeline_chunk_at(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t slot) {
  if (pz_is_v_pipeline(s->order) && slot) return s->stages * s->chunks - 1 - stage;
  return slot * s->stages + stage;
}

uint32_t pz_pipeline_stage_of(const struct pz_pipeline_shape *s, uint32_t chunk) {
  if (pz_is_v_pipeline(s->order) && chunk >= s->stages) return 2 * s->stages - 1 - chunk;
  return chunk % s->stages;
}

/* ---- microbatches in flight ----------------------------------------------------------------- */

/* As many as 1F1B keeps of a chunk, one for itself and one for each later chunk.  ZB-V has one of the first half less:
 * its forward comes after the backward of the second half, not beside it. */
static uint32_t v_in_flight(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t slot) {
  uint32_t later = s->stages * s->chunks - pz_pipeline_chunk_at(s, stage, slot);
  if (s->order == PZ_PIPELINE_ZB_V && slot == 0) later--;
  return (uint32_t)pz_min(later, s->microbatches / pz_pipeline_copies(s->order));
}

/* Interleaved as Megatron issues it: forward passes for p microbatches of a chunk at a time (Narayanan et al.,
 * arXiv 2104.04473). */
static uint32_t interleaved_in_flight(const struct pz_pipeline_shape *s, int64_t stage,
                                      int64_t slot) {
  int64_t p = s->stages, all = p * s->chunks;
  int64_t n = pz_min(all - p + 2 * (p - stage - 1) + 1, (int64_t)s->microbatches * s->chunks);
  return (uint32_t)(n / all * p + pz_max(0, pz_min(p, n % all - slot * p)));
}

/* Activations stay until the gradients of weights are found, which later stages put off: all stages hold the same number
 * (Qi et al., arXiv 2401.10241, section 2). */
static uint32_t zero_bubble_held(const struct pz_pipeline_shape *s) {
  return s->order == PZ_PIPELINE_ZB_2P ? 2 * s->stages - 1 : s->stages;
}

uint32_t pz_pipeline_in_flight(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t slot) {
  uint32_t most = s->stages - stage;
  if (pz_is_v_pipeline(s->order)) return v_in_flight(s, stage, slot);
  if (s->chunks > 1) return interleaved_in_flight(s, stage, slot);
  if (s->order == PZ_PIPELINE_GPIPE) return s->microbatches;
  if (pz_is_zero_bubble(s->order)) most = zero_bubble_held(s);
  return (uint32_t)pz_min(most, s->microbatches);
}

/* Passes of slot c among the first n, p of each slot at a time. */
static int64_t passes_of(int64_t n, int64_t p, int64_t slots, int64_t c) {
  return n / (p * slots) * p + pz_max(0, pz_min(p, n % (p * slots) - c * p));
}

/* Backward passes i of interleaved chunks: i forwards more than before the first are done.  What is kept changes by the
 * same from one to the next until the slot of one of the two passes changes: at the ends of such turns it is most. */
static bool interleaved_turn(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t moment,
                             int64_t *forwards, int64_t *backwards) {
  int64_t p = s->stages, v = s->chunks, all = (int64_t)s->microbatches * v;
  int64_t ahead = pz_min(p * v - p + 2 * (p - stage - 1) + 1, all);
  /* the first and the last of each turn of backwards, and of forwards */
  int64_t turn = moment / 4 * p, shift = (p - ahead % p) % p;
  int64_t i = turn + (moment % 4 == 1   ? p - 1
                      : moment % 4 == 2 ? shift
                      : moment % 4 == 3 ? pz_max(shift, 1) - 1
                                        : 0);
  *forwards = pz_min(ahead + i, all);
  *backwards = i;
  return i < all;
}

static bool interleaved_moment(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t moment,
                               uint32_t *slot, uint32_t *in_flight) {
  int64_t p = s->stages, v = s->chunks, forwards, i;
  if (!interleaved_turn(s, stage, moment, &forwards, &i)) return false;
  *slot = (uint32_t)(v - 1 - i / p % v);
  for (int64_t c = 0; c < v; c++)
    in_flight[c] = (uint32_t)(passes_of(forwards, p, v, c) - passes_of(i, p, v, v - 1 - c));
  return true;
}

/* Bytes of the first n passes of a round, p of each slot at a time in the order of the sums. */
static double bytes_of(int64_t n, int64_t p, const double *sums) {
  int64_t whole = n / p, rest = n % p;
  double bytes = (double)p * sums[whole];
  return rest ? bytes + (double)rest * (sums[whole + 1] - sums[whole]) : bytes;
}

bool pz_pipeline_moment_bytes(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t moment,
                              const double *sums, const double *back, uint32_t *backward_slot,
                              double *bytes) {
  int64_t p = s->stages, v = s->chunks, forwards, i;
  if (!interleaved_turn(s, stage, moment, &forwards, &i)) return false;
  *backward_slot = (uint32_t)(v - 1 - i / p % v);
  *bytes = (double)((forwards / (p * v) - i / (p * v)) * p) * sums[v] +
           bytes_of(forwards % (p * v), p, sums) - bytes_of(i % (p * v), p, back);
  return true;
}

uint32_t pz_pipeline_moments(const struct pz_pipeline_shape *s) {
  return s->chunks > 1 && !pz_is_v_pipeline(s->order) ? 4 * s->chunks : 1;
}

bool pz_pipeline_moment(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t moment,
                        uint32_t *backward_slot, uint32_t *in_flight) {
  uint32_t slots = pz_pipeline_slots(s);
  if (pz_pipeline_moments(s) > 1)
    return interleaved_moment(s, stage, moment, backward_slot, in_flight);
  *backward_slot = slots - 1;
  for (uint32_t c = 0; c < slots; c++) in_flight[c] = pz_pipeline_in_flight(s, stage, c);
  return moment == 0;
}

/* ---- checks --------------------------------------------------------------------------------- */

/* In DualPipe the forward passes of one direction run beside the backward passes of the other, and its published schedules begin with
 * enough of them to fill all stages twice. */
static void check_dualpipe_shape(struct pz_call *call, const struct pz_pipeline_shape *s) {
  bool both_ends = s->order == PZ_PIPELINE_DUALPIPE;
  if (both_ends && s->stages % 2)
    pz_raise(call, PZ_BAD_USE, "dualpipe over %u stages; accepted: even numbers", s->stages);
  if (both_ends && s->microbatches % 2)
    pz_raise(call, PZ_BAD_USE,
             "%u microbatches, half of them from each end; accepted: even numbers",
             s->microbatches);
  if (s->microbatches < 2 * (uint64_t)s->stages)
    pz_raise(call, PZ_BAD_USE, "%u microbatches in %s over %u stages; accepted: %llu and more",
             s->microbatches, both_ends ? "dualpipe" : "dualpipe-v", s->stages,
             2 * (unsigned long long)s->stages);
}

void pz_require_pipeline(struct pz_call *call, const struct pz_pipeline_shape *s) {
  uint32_t chunks = pz_pipeline_chunks(s->order);
  if (!s->stages || !s->chunks || !s->microbatches)
    pz_raise(call, PZ_BAD_USE,
             "a pipeline of %u stages, %u chunks, %u microbatches; accepted: 1 and above",
             s->stages, s->chunks, s->microbatches);
  if (chunks == 2 && s->chunks != 2)
    pz_raise(call, PZ_BAD_USE, "%u chunks a stage in a V; accepted: 2", s->chunks);
  if (chunks == 1 && s->chunks > 1)
    pz_raise(call, PZ_BAD_USE, "%u chunks a stage; accepted: 1, or interleaved", s->chunks);
  bool is_interleaved = !chunks && s->chunks > 1;
  if (is_interleaved && s->microbatches % s->stages)
    pz_raise(call, PZ_BAD_USE,
             "%u microbatches interleaved over %u stages; accepted: multiples of the stages",
             s->microbatches, s->stages);
  if (s->order == PZ_PIPELINE_DUALPIPE_V || s->order == PZ_PIPELINE_DUALPIPE)
    check_dualpipe_shape(call, s);
  double events = 2.0 * s->stages * s->chunks * s->microbatches;
  if (events > PZ_PIPELINE_MOST_EVENTS)
    pz_raise(call, PZ_LIMIT,
             "a pipeline of %.0f events (2 x stages x chunks x microbatches); accepted: at "
             "most %d",
             events, PZ_PIPELINE_MOST_EVENTS);
}

/* ---- for callers that return a status ---- */

static void check_pipeline(struct pz_call *call, void *ctx) {
  pz_require_pipeline(call, *(const struct pz_pipeline_shape *const *)ctx);
}

bool pz_pipeline_can_run(const struct pz_pipeline_shape *s) {
  return pz_border(check_pipeline, &s, NULL) == PZ_OK;
}

enum pz_status pz_pipeline_check(const struct pz_pipeline_shape *s, struct pz_error *err) {
  return pz_border(check_pipeline, &s, err);
}
