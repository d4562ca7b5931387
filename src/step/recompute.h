/* What backward recomputes of a layer when a compiler removes what nobody reads: results of some
 * GEMMs may be saved (names of MaxText's remat policies), everything else that backward needs is
 * computed from them and from the layer's input. */
#ifndef PZ_STEP_RECOMPUTE_H
#define PZ_STEP_RECOMPUTE_H

#include "core/call.h"
#include "plan/plan.h"

/* A set of enum pz_module of names, with spaces or commas between them; short forms are known too (norm, act).  False: unknown. */
bool pz_modules_parse(const char *names, int *out);

/* Does the forward operator belong to one of them? */
bool pz_in_modules(const struct pz_layer *l, const struct pz_op *op, int modules);

/* Bytes of a layer that are recomputed in place of being saved in this form. */
double pz_modules_bytes(const struct pz_layer *l, int modules, enum pz_saved_form form);

/* Bytes of a layer that go to the host: what these modules read (enum pz_offload_module), but for what is recomputed. */
double pz_offloaded_bytes(const struct pz_layer *l, int modules, int recomputed,
                          enum pz_saved_form form);

/* The set a policy names: "minimal" (all GEMMs but the attention's), "minimal_with_context",
 * "custom" (the layer's input, queries, keys, values in the host's memory: what the published recipes for TPU v6e do,
 * benchmarks/maxtext_trillium_model_configs.py), or "custom: NAME ... kept" with
 * the names of what is saved.  False: unknown. */
bool pz_saved_parse(const char *policy, int *out);

/* Does full recomputation leave out what is saved or not read: a compiled program, or one that saves results of GEMMs? */
bool pz_recomputes_needed(const struct pz_plan *p);

/* Which forward operators of a layer are recomputed then, one flag each. */
const bool *pz_recompute_ops(struct pz_call *call, const struct pz_layer *l, int saved);

/* Bytes of a layer that are saved on the device: its input and those results. */
double pz_saved_bytes(const struct pz_layer *l, int saved);

#endif
