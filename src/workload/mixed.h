/* Models whose layers differ: which layer is of which kind, and the shape of each kind. */
#ifndef PZ_WORKLOAD_MIXED_H
#define PZ_WORKLOAD_MIXED_H

#include "core/arena.h"
#include "workload/config.h"

/* Layers of one kind: "block" where there is only one, else "block_window", "block_moe", ... */
struct pz_kind {
  const char *name;
  int64_t count;
  struct pz_arch arch;
};

enum { PZ_MOST_KINDS = 8 };

/* Local and full attention from the fields layer_types, or where there is none by the rule that one
 * layer in `period`, the last, is full (0: all are local); nothing without a window or chunk. */
void pz_mixed_attention(struct pz_fields *c, struct pz_arch *a, int64_t period);

/* Mark layer i as having these properties. */
void pz_mixed_mark(struct pz_arch *a, int64_t layer, unsigned properties);

/* Give the layers in the list of field `key` these properties, or take them. */
void pz_mixed_list(struct pz_fields *c, struct pz_arch *a, const char *key, unsigned properties,
                   bool give);

/* The kinds of the first n layers, n being any number, in order of appearance; `of_layer` (n entries)
 * gets each layer's.  Returns their number, 0 when out of memory. */
int pz_mixed_kinds(const struct pz_arch *a, int64_t n, struct pz_arena *arena,
                   struct pz_kind *kinds, uint32_t *of_layer);

#endif
