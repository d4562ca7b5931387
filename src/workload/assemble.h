/* Assembling a workload from a list of layers: each layer is built, differentiated and fused, its
 * memory and traffic are computed, and the totals are summed up.  Model families and the ONNX
 * importer share it. */
#ifndef PZ_WORKLOAD_ASSEMBLE_H
#define PZ_WORKLOAD_ASSEMBLE_H

#include "workload/build.h"

/* A workload with the arena that contains it. pz_workload_free() of the member frees both. */
struct pz_owned_workload {
  struct pz_workload workload; /* must be the first member */
  struct pz_arena arena;
  int adaptable; /* set of enum pz_lora_module: linear layers that can have adapters */
};

/* Returns an empty workload and sets *workload_call to a call that allocates in its arena.  The
 * workload is freed when `call` ends, unless pz_undefer() hands it to the caller of the public
 * function. */
struct pz_owned_workload *pz_workload_new(struct pz_call *call, struct pz_call *workload_call);

/* Describes a layer that is to be built. */
struct pz_layer_plan {
  const char *name;
  int64_t count;
  bool repeated;        /* whether full recomputation repeats the forward pass of this layer */
  int64_t buffer_bytes; /* bytes of constants that eager code keeps for each instance */
  /* adds the forward operators of one instance to the builder */
  void (*build)(struct pz_builder *builder, void *ctx);
  void *ctx;
  const uint32_t *from; /* indices of the layers that it reads, or NULL for the layer before it */
  uint32_t n_from;
};

/* Builds the n layers of `plan` into owned->workload, with the options that are stored there.
 * `workload_call` allocates in the arena of *owned. */
void pz_assemble(struct pz_call *workload_call, struct pz_owned_workload *owned,
                 const struct pz_layer_plan *plan, uint32_t n);

/* Sets workload->order to a short description of the order of n layers: units that repeat.
 * sequence[i] is the index of the layer that runs at position i. */
void pz_describe_order(struct pz_call *call, struct pz_workload *workload, const uint32_t *sequence,
                       uint32_t n);

#endif
