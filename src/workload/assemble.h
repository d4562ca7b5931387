/* Assembling a workload from a list of layers: each layer is built, differentiated, fused and
 * accounted for, and the totals are summed up.  Shared by the model families and the ONNX
 * importer. */
#ifndef PZ_WORKLOAD_ASSEMBLE_H
#define PZ_WORKLOAD_ASSEMBLE_H

#include "workload/build.h"

/* A workload with the arena that contains it.  pz_workload_free(&owned->workload) frees both. */
struct pz_owned_workload {
  struct pz_workload workload; /* must be the first member */
  struct pz_arena arena;
  int adaptable; /* linear layers that can have adapters, a set of enum pz_lora_module */
};

/* Returns an empty workload.  *own allocates in its arena.  It is freed when the call ends, unless
 * pz_undefer() hands it to the caller of the public function. */
struct pz_owned_workload *pz_workload_new(struct pz_call *call, struct pz_call *own);

/* A layer that is to be built. */
struct pz_layer_plan {
  const char *name;
  int64_t count;
  bool repeated;        /* full recomputation repeats its forward pass */
  int64_t buffer_bytes; /* constants that the implementation keeps for each layer */
  void (*build)(struct pz_builder *builder, void *ctx); /* adds the forward operators */
  void *ctx;
  const uint32_t *from; /* the layers that it reads, as in pz_layer; NULL for the layer before */
  uint32_t n_from;
};

/* Builds n layers into owned->workload, with the options that are stored there.  `own` allocates
 * in the arena of *owned. */
void pz_assemble(struct pz_call *own, struct pz_owned_workload *owned,
                 const struct pz_layer_plan *plan, uint32_t n);

/* Sets workload->order to the shortest description by repeated units of a sequence of layers.
 * sequence[i] is the index of the layer that runs at position i. */
void pz_describe_order(struct pz_call *call, struct pz_workload *workload, const uint32_t *sequence,
                       uint32_t n);

#endif
