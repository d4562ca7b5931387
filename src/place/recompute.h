/* What backward computes again of a layer when a compiler removes what nobody reads: results of some
 * products may be kept (names of MaxText's remat policies), everything else that backward needs is
 * computed from them and from the layer's input. */
#ifndef PZ_PLACE_RECOMPUTE_H
#define PZ_PLACE_RECOMPUTE_H

#include "core/status.h"

/* Products whose results are kept, a set. */
enum pz_kept {
  PZ_KEPT_QKV = 1,
  PZ_KEPT_CONTEXT = 2, /* of the attention */
  PZ_KEPT_OUT = 4,     /* the projection behind the attention */
  PZ_KEPT_MLP_IN = 8,
  PZ_KEPT_MLP_OUT = 16
};

/* A set of enum pz_module of names, with spaces or commas between them; short forms are known too (norm, act).  False: unknown. */
bool pz_modules_parse(const char *names, unsigned *out);

/* Does the forward operator belong to one of them? */
bool pz_in_modules(const struct pz_layer *l, const struct pz_op *op, unsigned modules);

/* Bytes of a layer that are made again in place of being kept. */
double pz_modules_bytes(const struct pz_layer *l, unsigned modules);

/* The set a policy names: "minimal" (all products but the attention's), "minimal_with_context",
 * "custom" (queries, keys, values: what the published recipes keep), or "custom: NAME ... kept" with
 * the names of what is kept.  False: unknown. */
bool pz_kept_parse(const char *policy, unsigned *out);

/* Which forward operators of a layer run again, one flag each; `again` has room for all. */
PZ_NODISCARD enum pz_status pz_recompute_ops(const struct pz_layer *l, unsigned kept, bool *again,
                                             struct pz_error *err);

/* Bytes of a layer that are kept: its input and those results. */
double pz_recompute_kept_bytes(const struct pz_layer *l, unsigned kept);

#endif
