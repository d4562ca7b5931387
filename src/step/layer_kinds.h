/* Repeated layers of a model in the order in which they run.  Most models have one kind of them; others
 * begin with dense layers before those with experts, or let kinds of attention alternate. */
#ifndef PZ_STEP_LAYER_KINDS_H
#define PZ_STEP_LAYER_KINDS_H

#include "core/status.h"

struct pz_layer_kinds {
  uint32_t n;      /* kinds */
  uint32_t *layer; /* by kind: index of the layer in the workload */
  int64_t n_blocks;
  int64_t *before; /* by kind, n_blocks + 1 each: so many of the first i layers are of it */
};

/* Is it one of the repeated layers? */
bool pz_is_block(const struct pz_layer *l);

/* Memory of its own: pz_layer_kinds_free.  A model without repeated layers has its first for one. */
PZ_NODISCARD enum pz_status pz_layer_kinds_of(const struct pz_workload *w,
                                              struct pz_layer_kinds *out, struct pz_error *err);
void pz_layer_kinds_free(struct pz_layer_kinds *k);

/* Layers of a kind among the n from `start` on. */
static inline int64_t pz_kind_count(const struct pz_layer_kinds *k, uint32_t kind, int64_t start,
                                    int64_t n) {
  if (k->n == 1) return n;
  const int64_t *before = k->before + (int64_t)kind * (k->n_blocks + 1);
  return before[start + n] - before[start];
}

#endif
