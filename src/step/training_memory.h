/* The memory of a training plan on a device at its peak: weights, gradients, optimizer state,
 * activations of the microbatches in flight, the layer at hand, logits, buffers, and what
 * libraries keep.
 *
 * The peak is the worst moment of a stage while one microbatch goes forward and backward through
 * it and the others in flight wait: bytes live at each operator come from the layers' graphs. */
#ifndef PZ_STEP_TRAINING_MEMORY_H
#define PZ_STEP_TRAINING_MEMORY_H

#include "core/call.h"
#include "plan/plan.h"

struct pz_constants;

/* Repeated layers of a model in the order in which they run.  Most models have one kind of them;
 * others begin with dense layers before those with experts, or let kinds of attention alternate. */
struct pz_layer_kinds {
  uint32_t n;      /* kinds */
  uint32_t *layer; /* by kind: index of the layer in the workload */
  int64_t n_blocks;
  int64_t *before; /* by kind, n_blocks + 1 each: how many of the first i layers belong to it */
};

/* Returns whether the layer is one of the repeated transformer layers. */
bool pz_is_block(const struct pz_layer *layer);

/* Finds the kinds of repeated layers.  In a model without any, the first layer counts as one. */
struct pz_layer_kinds pz_layer_kinds_of(struct pz_call *call, const struct pz_workload *workload);

/* Returns how many of the n repeated layers from `start` on belong to a kind. */
static inline int64_t pz_kind_count(const struct pz_layer_kinds *kinds, uint32_t kind,
                                    int64_t start, int64_t n) {
  if (kinds->n == 1) return n;
  const int64_t *before = kinds->before + (int64_t)kind * (kinds->n_blocks + 1);
  return before[start + n] - before[start];
}

/* Kinds of layers whose attention bytes are stored; those of further kinds are computed again. */
enum { PZ_MEMORY_KINDS = 4 };

/* What the memory of all plans of a model on a chip depends on: bytes on one device. */
struct pz_memory_model {
  const struct pz_workload *w;
  const struct pz_layer_kinds *kinds; /* of repeated layers */
  double placeholder_bytes;           /* a 16-bit gradient of every matrix of a repeated layer */
  double matrix_params;               /* of the largest matrix */
  double layer_params;                /* of the largest layer */
  double routed_bytes;                /* of tokens that a layer sends to experts, at most */
  bool experts;                       /* the model has some */
  bool copies_context;                /* the result of attention is saved twice */
  bool one_copy;                      /* 8-bit operands with one scale need no transposed copy */
  double reserve_bytes;               /* work space of libraries */
  double measured; /* reserved bytes of a rehearsal over those predicted, or 0 if none */
  double core_bytes[PZ_MEMORY_KINDS]; /* by kind: what the attention core saves */
};

/* Makes the memory model.  It depends on the framework and the attention library of the plan. */
struct pz_memory_model pz_memory_model_of(const struct pz_workload *workload,
                                          const struct pz_layer_kinds *kinds,
                                          const struct pz_chip *chip, const struct pz_plan *plan);

/* Returns the bytes of a stage at its worst moment, with so many microbatches of a replica. */
struct pz_training_memory pz_training_memory(const struct pz_memory_model *model,
                                             const struct pz_plan *plan, int64_t microbatches,
                                             int64_t stage);

/* Returns the activations of one microbatch that are on the host between the forward and the
 * backward pass of a chunk, in bytes. */
double pz_chunk_offload_bytes(const struct pz_memory_model *model, const struct pz_plan *plan,
                              int64_t chunk);

/* Returns the most host memory that activations and optimizer state of a stage occupy, in bytes for
 * each device. */
double pz_host_bytes(const struct pz_memory_model *model, const struct pz_plan *plan,
                     int64_t microbatches, int64_t stage);

/* The bytes that PyTorch's allocator reserves for a stage with this peak: a device runs out of
 * memory when they reach its usable memory.  `low` and `high` are the interval that was measured
 * for such plans (step/memory_margin.def), or for this one in a rehearsal; a plan fits if `high`
 * does. With equal weights and optimizer state, all three increase with the peak. */
struct pz_reserved {
  double bytes, low, high;
};
struct pz_reserved pz_reserved_of(const struct pz_memory_model *model,
                                  const struct pz_constants *constants, const struct pz_plan *plan,
                                  const struct pz_training_memory *peak);

double pz_training_memory_sum(const struct pz_training_memory *memory);

#endif
