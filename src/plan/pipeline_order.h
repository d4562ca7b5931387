/* How an order of a pipeline assigns the chunks of the model to stages, and how many microbatches in flight a stage keeps.
 *
 * The model is cut into stages * chunks chunks, numbered from its input to its output.  Most orders give chunk j to
 * stage j mod p.  Orders in a V (ZB-V, DualPipeV) give stage k the chunks k and 2p - 1 - k, so that the stage with the
 * input has the output too.  DualPipe sends half of the microbatches in at each end: the model has p chunks, and stage
 * k holds chunk k for the one half and chunk p - 1 - k for the other, so that every parameter is held twice. */
#ifndef PZ_PLAN_PIPELINE_ORDER_H
#define PZ_PLAN_PIPELINE_ORDER_H

#include "core/call.h"

struct pz_pipeline_shape {
  enum pz_pipeline_order order; /* several chunks in no V: taken as interleaved */
  uint32_t stages, chunks;      /* chunks of the model for each stage */
  uint32_t microbatches;        /* of a replica */
};

/* Two passes through every stage: ZB-V, DualPipeV and DualPipe. */
bool pz_is_v_pipeline(enum pz_pipeline_order order);

/* ZB-H1 and ZB-2P: zero bubble without a V. */
bool pz_is_zero_bubble(enum pz_pipeline_order order);

/* Returns the number of microbatches whose forward pass a stage may run before the first backward pass, in these orders. */
uint32_t pz_zero_bubble_in_flight(enum pz_pipeline_order order, uint32_t stages, uint32_t stage);

/* Does the order compute gradients of weights separately from those of inputs? */
bool pz_pipeline_splits_backward(enum pz_pipeline_order order);

/* Returns the number of chunks of a stage that the order needs; 0: 2 or more. */
uint32_t pz_pipeline_chunks(enum pz_pipeline_order order);

/* Returns the number of copies of each parameter: 2 for DualPipe. */
uint32_t pz_pipeline_copies(enum pz_pipeline_order order);

/* Are the model's input and its output on different devices? */
static inline bool pz_pipeline_separates_ends(const struct pz_pipeline_shape *s) {
  return s->stages > 1 && !pz_is_v_pipeline(s->order);
}

/* Returns the number of chunks that a stage holds, with copies. */
uint32_t pz_pipeline_slots(const struct pz_pipeline_shape *s);

/* Which chunk of the model the stage holds in a slot, and which stage holds a chunk (of two copies the first; the
 * other one is on stage p - 1 - k). */
uint32_t pz_pipeline_chunk_at(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t slot);
uint32_t pz_pipeline_stage_of(const struct pz_pipeline_shape *s, uint32_t chunk);

/* Microbatches of the slot's chunk whose activations a stage keeps when most are kept in all; the one that runs is
 * among them.  That is so when the chunk in the last slot begins a backward pass. */
uint32_t pz_pipeline_in_flight(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t slot);

/* Moments of a stage at which a backward pass begins, of which one keeps most whatever the chunks keep: of interleaved
 * chunks the turns of a cycle, of others one. */
uint32_t pz_pipeline_moments(const struct pz_pipeline_shape *s);

/* The slot whose backward pass begins at the moment, and microbatches of a slot's chunk that are kept then, the one
 * that runs among them; false: there is no such moment. */
bool pz_pipeline_moment(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t moment,
                        uint32_t *backward_slot, uint32_t *in_flight);

/* Where there are several moments: the sum of what is kept then, each slot's microbatches times its bytes.  `sums` are those
 * of the slots' bytes from the first on, 0 before it, `back` from the last on.  Constant time. */
bool pz_pipeline_moment_bytes(const struct pz_pipeline_shape *s, uint32_t stage, uint32_t moment,
                              const double *sums, const double *back, uint32_t *backward_slot,
                              double *bytes);

/* Passes of a step that are simulated at most. */
enum { PZ_PIPELINE_MOST_EVENTS = 1 << 24 };

/* Raises PZ_BAD_USE for stages, chunks or microbatches that the order cannot run, and PZ_LIMIT above PZ_PIPELINE_MOST_EVENTS. */
void pz_require_pipeline(struct pz_call *call, const struct pz_pipeline_shape *s);

/* Returns whether the order can run these stages, chunks and microbatches. */
bool pz_pipeline_can_run(const struct pz_pipeline_shape *s);

/* ---- for callers that return a status ---- */
PZ_NODISCARD enum pz_status pz_pipeline_check(const struct pz_pipeline_shape *s,
                                              struct pz_error *err);

#endif
