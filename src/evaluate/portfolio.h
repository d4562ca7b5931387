/* The models of a search, built once and then shared by all threads.  A variant is a model with a
 * microbatch size and a tensor-parallel degree. */
#ifndef PZ_EVALUATE_PORTFOLIO_H
#define PZ_EVALUATE_PORTFOLIO_H

#include "core/call.h"
#include "core/options.h"
#include "workload/variants.h"

struct pz_portfolio {
  struct pz_arena arena;
  uint32_t n_models, n_variants;
  const char *models[PZ_SEARCH_MOST_MODELS];
  uint32_t first[PZ_SEARCH_MOST_MODELS + 1]; /* variants of model i: first[i] to first[i + 1] - 1 */
  int64_t seq[PZ_SEARCH_MOST_MODELS];
  /* flop of the GEMMs of a sample, forward and backward */
  double sample_flop[PZ_SEARCH_MOST_MODELS];
  struct pz_variant *variants;
  uint32_t most_layers;             /* largest number of distinct layers that a variant has */
  struct pz_workload_options built; /* options of all variants, which differ in mbs and tp */
  struct pz_vec notes;              /* struct pz_note: notes on the models for the user */
};

/* Builds a portfolio, which the caller releases.  The texts in `options` are borrowed.
 * Tensor-parallel degrees that do not divide a model or exceed the devices, and microbatch sizes
 * above the batch, are left out for that model, with a note.  Raises an error if no variant of a
 * model remains, and for unknown models, a model that is given twice, and models with more
 * layers than placement supports. */
void pz_portfolio_build(struct pz_call *call, struct pz_portfolio *out, const char *const *models,
                        uint32_t n_models, const struct pz_variant_choices *choices,
                        const struct pz_workload_options *options);
void pz_portfolio_release(void *portfolio);

#endif
