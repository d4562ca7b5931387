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
  uint32_t n;       /* number of kinds */
  uint32_t *layer;  /* index of each kind's layer in the workload */
  int64_t n_blocks; /* number of repeated layers of all kinds */
  /* [kind * (n_blocks + 1) + i]: how many of the first i repeated layers have this kind */
  int64_t *before;
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

/* The number of kinds of layers whose attention bytes are stored in the memory model. */
enum { PZ_MEMORY_KINDS = 4 };

/* Bytes and parameters on one device from which the memory of a model's plans is computed. */
struct pz_memory_model {
  const struct pz_workload *workload;
  const struct pz_layer_kinds *kinds; /* kinds of repeated layers */
  double placeholder_bytes;           /* 16-bit gradients of all matrices of a repeated layer */
  double matrix_params;               /* parameters of the largest matrix */
  double layer_params;                /* parameters of the largest layer */
  double routed_bytes;   /* the most bytes of tokens that a layer sends to its experts */
  bool experts;          /* the model has experts */
  bool copies_context;   /* the result of attention is saved twice */
  bool reads_any_order;  /* tensor cores need no transposed copy of 8-bit operands */
  double reserve_bytes;  /* workspaces of libraries */
  double measured_ratio; /* measured / predicted reserved bytes of a rehearsal, or 0 without one */
  double core_bytes[PZ_MEMORY_KINDS]; /* bytes that the attention core of each kind saves */
};

/* Makes the memory model.  It depends on the framework and the attention library of the plan. */
struct pz_memory_model pz_memory_model_of(const struct pz_workload *workload,
                                          const struct pz_layer_kinds *kinds,
                                          const struct pz_chip *chip, const struct pz_plan *plan);

/* Returns the memory of a stage when it needs the most; a replica runs `microbatches` in a step. */
struct pz_training_memory pz_training_memory(const struct pz_memory_model *model,
                                             const struct pz_plan *plan, int64_t microbatches,
                                             int64_t stage);

/* Returns the activations of one microbatch that are on the host between the forward and the
 * backward pass of a chunk, in bytes. */
double pz_chunk_offload_bytes(const struct pz_memory_model *model, const struct pz_plan *plan,
                              int64_t chunk);

/* Returns the most bytes of host memory that each device of a stage needs for offloaded data. */
double pz_host_bytes(const struct pz_memory_model *model, const struct pz_plan *plan,
                     int64_t microbatches, int64_t stage);

/* The bytes that PyTorch's allocator reserves for a stage with this peak: a device runs out of
 * memory when they reach its usable memory.  `low` and `high` bound the values that were
 * measured for such plans (step/memory_margin.def), or in a rehearsal of this plan.  A plan fits
 * if `high` fits.  All three increase with the peak if weights and optimizer state are equal. */
struct pz_reserved {
  double bytes, low, high;
};
struct pz_reserved pz_reserved_of(const struct pz_memory_model *model,
                                  const struct pz_constants *constants, const struct pz_plan *plan,
                                  const struct pz_training_memory *peak);

/* Returns the sum of all parts of a memory. */
double pz_training_memory_sum(const struct pz_training_memory *memory);

#endif
