/* Builds the portfolio of a search: for each model, check_model() loads it undivided, and then
 * pz_variants_load() builds a workload for each microbatch size and tensor-parallel degree. */
#include "evaluate/portfolio.h"

#include <string.h>

#include "core/text.h"
#include "partition/problem.h"
#include "workload/workload.h"

/* Checks that the undivided model is known, given only once and not too deep.  Stores its
 * sequence length and flop. */
static void check_model(struct pz_call *call, struct pz_portfolio *portfolio, uint32_t i) {
  struct pz_workload_options workload_options = portfolio->built;
  struct pz_workload *workload = NULL;
  if (!pz_text_is_plain(portfolio->models[i])) /* names are stored, and shown in tables and pages */
    pz_raise(call, PZ_BAD_INPUT, "%s: accepted: a path without control characters",
             portfolio->models[i]);
  for (uint32_t k = 0; k < i; k++)
    if (strcmp(portfolio->models[k], portfolio->models[i]) == 0)
      pz_raise(call, PZ_BAD_USE, "%s is given twice", portfolio->models[i]);
  pz_must(call, pz_workload_load(portfolio->models[i], &workload_options, &workload,
                                 pz_call_error(call)));
  pz_defer(call, pz_workload_close, workload);
  if (workload->totals.layers > PZ_PLACE_MOST_LAYERS)
    pz_raise(call, PZ_LIMIT, "%s has %lld layers; accepted: at most %d", portfolio->models[i],
             (long long)workload->totals.layers, PZ_PLACE_MOST_LAYERS);
  portfolio->seq[i] = workload->options.seq;
  portfolio->sample_flop[i] =
      (double)(workload->totals.matmul_forward_flop + workload->totals.matmul_backward_flop) /
      (double)workload->options.mbs;
  if (workload->warning) pz_note_add(call, &portfolio->notes, 0, workload->warning);
  pz_close(call, workload);
}

/* Loads the models and their variants into *out. */
void pz_portfolio_build(struct pz_call *call, struct pz_portfolio *out, const char *const *models,
                        uint32_t n_models, const struct pz_variant_choices *choices,
                        const struct pz_workload_options *options) {
  if (n_models < 1 || n_models > PZ_SEARCH_MOST_MODELS)
    pz_raise(call, PZ_BAD_USE, "%u models; accepted: 1 to %d", n_models, PZ_SEARCH_MOST_MODELS);
  struct pz_portfolio *portfolio = pz_alloc(call, 1, sizeof *portfolio);
  struct pz_call in_portfolio = pz_call_in(call, &portfolio->arena);
  portfolio->n_models = n_models;
  portfolio->built = *options;
  pz_arena_init(&portfolio->arena);
  pz_defer(call, pz_portfolio_release, portfolio);
  pz_vec_init(&portfolio->notes, &portfolio->arena, sizeof(struct pz_note));
  size_t most_variants = (size_t)n_models * (size_t)(choices->mbs->n * choices->tp->n);
  portfolio->variants = pz_alloc(&in_portfolio, most_variants, sizeof *portfolio->variants);
  for (uint32_t i = 0; i < n_models; i++) {
    portfolio->models[i] = pz_copy_text(&in_portfolio, models[i]);
    struct pz_variant *list = &portfolio->variants[portfolio->n_variants];
    check_model(call, portfolio, i);
    uint32_t n = pz_variants_load(call, portfolio->models[i], choices, &portfolio->built,
                                  &portfolio->notes, list);
    for (uint32_t k = 0; k < n; k++) {
      list[k].model = i;
      if (list[k].w->n_layers > portfolio->most_layers)
        portfolio->most_layers = list[k].w->n_layers;
    }
    portfolio->first[i] = portfolio->n_variants;
    portfolio->n_variants += n;
  }
  portfolio->first[n_models] = portfolio->n_variants;
  pz_undefer(call, portfolio);
  *out = *portfolio;
  out->notes.arena = &out->arena;
}

/* Releases a portfolio; a pz_close_fn that accepts NULL. */
void pz_portfolio_release(void *ctx) {
  struct pz_portfolio *portfolio = ctx;
  if (!portfolio) return;
  for (uint32_t i = 0; portfolio->variants && i < portfolio->n_variants; i++)
    pz_workload_free(portfolio->variants[i].w);
  pz_arena_release(&portfolio->arena);
  *portfolio = (struct pz_portfolio){0};
}
