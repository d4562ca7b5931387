/* The models of a search, built once: a variant is one of them at a microbatch size and a
 * tensor-parallel degree.  Read-only after construction, so that threads share it. */
#ifndef PZ_EVALUATE_PORTFOLIO_H
#define PZ_EVALUATE_PORTFOLIO_H

#include "core/arena.h"
#include "core/options.h"
#include "workload/variants.h"

struct pz_portfolio {
  struct pz_arena arena;
  uint32_t n_models, n_variants;
  const char *models[PZ_SEARCH_MOST_MODELS];
  uint32_t first[PZ_SEARCH_MOST_MODELS + 1]; /* variants of model i: first[i] .. first[i + 1] */
  int64_t seq[PZ_SEARCH_MOST_MODELS];
  double sample_flop[PZ_SEARCH_MOST_MODELS]; /* of the products, forward and backward */
  struct pz_variant *variants;
  uint32_t most_layers;             /* distinct ones of any variant */
  struct pz_workload_options built; /* how: mbs and tp are each variant's */
  struct pz_vec notes;              /* struct pz_note: what the user should know of the models */
};

/* Widths that do not divide a model or are above the devices, and microbatch sizes above the batch,
 * are left out for it, with a note; none left is an error, and so are unknown models, one given
 * twice, and models with more layers than placement takes.  Texts in `how` stay the caller's and
 * must live as long.  On success the portfolio is the caller's to release. */
PZ_NODISCARD enum pz_status pz_portfolio_init(struct pz_portfolio *p, const char *const *models,
                                              uint32_t n_models,
                                              const struct pz_variant_choices *choices,
                                              const struct pz_workload_options *how,
                                              struct pz_error *err);
void pz_portfolio_release(struct pz_portfolio *p);

#endif
