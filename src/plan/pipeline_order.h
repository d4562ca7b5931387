/* Pipeline orders: which stage runs which chunk of the model, and for how many microbatches a stage
 * keeps activations.
 *
 * The model is cut into chunks, groups of consecutive layers, which are numbered from its input to
 * its output.  Each of p stages holds one or several chunks; its slots number them.  Most orders
 * give chunk j to stage j mod p.  V-shaped orders (ZB-V, DualPipeV) give stage k the chunks k and
 * 2p - 1 - k, so that the first stage has both the input and the output.  DualPipe sends half of
 * the microbatches in at each end: the model has p chunks, and stage k holds chunk k for one half
 * and chunk p - 1 - k for the other, so that every parameter is held twice.
 *
 * A microbatch is in flight on a stage, for one of its chunks, from the forward pass to the end of
 * the backward pass. */
#ifndef PZ_PLAN_PIPELINE_ORDER_H
#define PZ_PLAN_PIPELINE_ORDER_H

#include "core/call.h"

struct pz_pipeline_shape {
  enum pz_pipeline_order order; /* with several chunks per stage, interleaved or V-shaped */
  uint32_t stages;
  uint32_t chunks;       /* chunks of the model per stage, without the second copies of DualPipe */
  uint32_t microbatches; /* microbatches of a replica per step */
};

/* Returns whether every microbatch passes each stage twice: ZB-V, DualPipeV and DualPipe. */
bool pz_is_v_pipeline(enum pz_pipeline_order order);

/* Returns whether gradients of weights and of inputs are computed in separate passes. */
bool pz_pipeline_splits_backward(enum pz_pipeline_order order);

/* Returns the required number of chunks per stage, or 0 for any above 1 (interleaved). */
uint32_t pz_pipeline_chunks(enum pz_pipeline_order order);

/* Returns the number of copies of each parameter: 2 for DualPipe, otherwise 1. */
uint32_t pz_pipeline_copies(enum pz_pipeline_order order);

/* Returns whether the input and the output of the model are on different stages. */
static inline bool pz_pipeline_separates_ends(const struct pz_pipeline_shape *shape) {
  return shape->stages > 1 && !pz_is_v_pipeline(shape->order);
}

/* Returns the number of slots of a stage: the chunks that it holds, with second copies. */
uint32_t pz_pipeline_slots(const struct pz_pipeline_shape *shape);

/* Returns the chunk in a slot of a stage. */
uint32_t pz_pipeline_chunk_at(const struct pz_pipeline_shape *shape, uint32_t stage, uint32_t slot);

/* Returns the stage that holds a chunk.  In DualPipe this is the stage of the first copy. */
uint32_t pz_pipeline_stage_of(const struct pz_pipeline_shape *shape, uint32_t chunk);

/* Returns the number of microbatches in flight for the chunk in a slot at the moment when the
 * stage has the most microbatches in flight.  At this moment, the chunk in the last slot begins
 * a backward pass. */
uint32_t pz_pipeline_in_flight(const struct pz_pipeline_shape *shape, uint32_t stage,
                               uint32_t slot);

/* Returns the number of moments at which a stage may need the most memory; which one does
 * depends on the sizes of its chunks.  Each is the beginning of a backward pass. */
uint32_t pz_pipeline_moments(const struct pz_pipeline_shape *shape);

/* Describes one of these moments: the slot whose backward pass begins, and the number of
 * microbatches in flight in each slot.  Returns false if there are too few microbatches for this
 * moment. */
bool pz_pipeline_moment(const struct pz_pipeline_shape *shape, uint32_t stage, uint32_t moment,
                        uint32_t *backward_slot, uint32_t *in_flight);

/* Like pz_pipeline_moment(), for an order with several moments, but computes in constant time
 * the bytes of all microbatches in flight. forward_sums[k] is the sum of the bytes per
 * microbatch of the first k slots, and backward_sums[k] that of the last k slots. */
bool pz_pipeline_moment_bytes(const struct pz_pipeline_shape *shape, uint32_t stage,
                              uint32_t moment, const double *forward_sums,
                              const double *backward_sums, uint32_t *backward_slot, double *bytes);

/* Maximum number of passes of a simulated step. */
enum { PZ_PIPELINE_MOST_EVENTS = 1 << 24 };

/* Raises PZ_BAD_USE for numbers of stages, chunks or microbatches that the order cannot run, and
 * PZ_LIMIT above PZ_PIPELINE_MOST_EVENTS. */
void pz_require_pipeline(struct pz_call *call, const struct pz_pipeline_shape *shape);

/* Returns whether pz_require_pipeline() accepts the shape. */
bool pz_pipeline_can_run(const struct pz_pipeline_shape *shape);

#endif
