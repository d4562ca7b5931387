/* A workload from a plan of layers: each is built, differentiated, fused and accounted for, and the
 * sums are taken.  Shared by the model families and the ONNX importer. */
#ifndef PZ_WORKLOAD_ASSEMBLE_H
#define PZ_WORKLOAD_ASSEMBLE_H

#include "workload/build.h"

/* The workload with the memory behind it; freed by pz_workload_free(&o->w). */
struct pz_owned {
  struct pz_workload w;
  struct pz_arena arena;
  int adaptable; /* linear layers that may have adapters, a set of enum pz_lora_module */
};

struct pz_layer_plan {
  const char *name;
  int64_t count;
  bool repeated; /* made again under full recomputation */
  int64_t buffer_bytes;
  void (*build)(struct pz_builder *b, void *ctx);
  void *ctx;
  const uint32_t *from; /* as in pz_layer; NULL: the layer before */
  uint32_t n_from;
};

/* NULL when out of memory. */
struct pz_owned *pz_owned_new(const struct pz_mem *mem);

/* Build the layers into o->w, with the options that stand there. */
PZ_NODISCARD enum pz_status pz_assemble(struct pz_owned *o, const struct pz_layer_plan *plan,
                                        uint32_t n);

/* The sentence for a status that pz_assemble gave. */
enum pz_status pz_assemble_fail(const char *name, enum pz_status status, struct pz_error *err);

/* The order of a model's layers as segments, the shortest description by repeated units: of `layer`, n
 * indices of layers in the order in which they run, into w->order. */
PZ_NODISCARD enum pz_status pz_order_set(struct pz_workload *w, const uint32_t *layer, uint32_t n,
                                         struct pz_arena *arena);

#endif
