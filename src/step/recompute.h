/* Which operators and bytes of a layer are recomputed in the backward pass: everything that is
 * needed and not saved (a compiler removes what nobody reads), or the modules that the plan names;
 * and which saved tensors go to the host. */
#ifndef PZ_STEP_RECOMPUTE_H
#define PZ_STEP_RECOMPUTE_H

#include "core/call.h"
#include "plan/plan.h"

/* Parses names of modules, separated by spaces or commas, into a set of enum pz_module.  Short
 * forms are accepted (norm, act).  Returns false for unknown names. */
bool pz_modules_parse(const char *names, int *modules);

/* Returns whether a forward operator belongs to one of these modules. */
bool pz_in_modules(const struct pz_layer *layer, const struct pz_op *op, int modules);

/* Returns the saved bytes of a layer that are recomputed instead if these modules are, with
 * tensors saved in this form. */
double pz_modules_bytes(const struct pz_layer *layer, int modules, enum pz_saved_form form);

/* Returns the saved bytes of a layer that go to the host: the inputs of these modules (enum
 * pz_offload_module), without those that the modules `recomputed` compute again. */
double pz_offloaded_bytes(const struct pz_layer *layer, int modules, int recomputed,
                          enum pz_saved_form form);

/* Parses a policy of saved results into a set of GEMMs: "minimal" (all GEMMs but those of
 * attention), "minimal_with_context", "custom" (the layer's input, queries, keys and values in the
 * host's memory, as in the published recipes for TPU v6e,
 * benchmarks/maxtext_trillium_model_configs.py), or "custom: NAME ... kept" with the names of what
 * is saved.  Returns false for other policies. */
bool pz_saved_parse(const char *policy, int *saved);

/* Returns whether full recomputation leaves out what is saved or not read: in compiled programs,
 * and if results of GEMMs are saved. */
bool pz_recomputes_needed(const struct pz_plan *plan);

/* Returns a flag for each forward operator of a layer: whether the backward pass recomputes it if
 * only what it needs is recomputed, and the results of these GEMMs are saved. */
const bool *pz_recompute_ops(struct pz_call *call, const struct pz_layer *layer, int saved);

/* Returns the bytes that a layer saves then: its input, and the results of these GEMMs. */
double pz_saved_bytes(const struct pz_layer *layer, int saved);

#endif
