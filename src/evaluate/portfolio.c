/* Builds the portfolio of a search: for each model, check_model() loads it undivided, and then pz_variants_load()
 * builds a workload for each microbatch size and tensor-parallel degree. */
#include "evaluate/portfolio.h"

#include <string.h>

#include "core/text.h"
#include "partition/problem.h"
#include "workload/workload.h"

static void free_workload(void *workload) { pz_workload_free(workload); }

/* Checks that the undivided model is known, given once, and not too deep, and stores its size. */
static void check_model(struct pz_call *call, struct pz_portfolio *p, uint32_t i) {
  struct pz_workload_options o = p->built;
  struct pz_workload *w = NULL;
  if (!pz_text_is_plain(p->models[i])) /* the name is stored, and shown in tables and pages */
    pz_raise(call, PZ_BAD_INPUT, "%s: accepted: a path without control characters", p->models[i]);
  for (uint32_t k = 0; k < i; k++)
    if (strcmp(p->models[k], p->models[i]) == 0)
      pz_raise(call, PZ_BAD_USE, "%s is given twice", p->models[i]);
  pz_must(call, pz_workload_load(p->models[i], &o, &w, pz_call_error(call)));
  pz_defer(call, free_workload, w);
  if (w->totals.layers > PZ_PLACE_MOST_LAYERS)
    pz_raise(call, PZ_LIMIT, "%s has %lld layers; accepted: at most %d", p->models[i],
             (long long)w->totals.layers, PZ_PLACE_MOST_LAYERS);
  p->seq[i] = w->options.seq;
  p->sample_flop[i] = (double)(w->totals.matmul_forward_flop + w->totals.matmul_backward_flop) /
                      (double)w->options.mbs;
  if (w->warning) pz_note_add(call, &p->notes, 0, w->warning);
  pz_close(call, w);
}

static void add_model(struct pz_call *call, struct pz_portfolio *p, uint32_t i,
                      const struct pz_variant_choices *choices) {
  struct pz_variant *list = &p->variants[p->n_variants];
  check_model(call, p, i);
  uint32_t n = pz_variants_load(call, p->models[i], choices, &p->built, &p->notes, list);
  for (uint32_t k = 0; k < n; k++) {
    list[k].model = i;
    if (list[k].w->n_layers > p->most_layers) p->most_layers = list[k].w->n_layers;
  }
  p->first[i] = p->n_variants;
  p->n_variants += n;
}

static void release_portfolio(void *portfolio) { pz_portfolio_release(portfolio); }

void pz_portfolio_build(struct pz_call *call, struct pz_portfolio *out, const char *const *models,
                        uint32_t n_models, const struct pz_variant_choices *choices,
                        const struct pz_workload_options *how) {
  if (n_models < 1 || n_models > PZ_SEARCH_MOST_MODELS)
    pz_raise(call, PZ_BAD_USE, "%u models; accepted: 1 to %d", n_models, PZ_SEARCH_MOST_MODELS);
  struct pz_portfolio *p = pz_alloc(call, 1, sizeof *p);
  struct pz_call own = pz_call_in(call, &p->arena);
  p->n_models = n_models;
  p->built = *how;
  pz_arena_init(&p->arena, NULL);
  pz_defer(call, release_portfolio, p);
  pz_vec_init(&p->notes, &p->arena, sizeof(struct pz_note));
  size_t most_variants = (size_t)n_models * (size_t)(choices->mbs->n * choices->tp->n);
  p->variants = pz_alloc(&own, most_variants, sizeof *p->variants);
  for (uint32_t i = 0; i < n_models; i++) {
    p->models[i] = pz_copy_text(&own, models[i]);
    add_model(call, p, i, choices);
  }
  p->first[n_models] = p->n_variants;
  pz_undefer(call, p);
  *out = *p;
  out->notes.arena = &out->arena;
}

void pz_portfolio_release(struct pz_portfolio *p) {
  if (!p) return;
  for (uint32_t i = 0; p->variants && i < p->n_variants; i++) pz_workload_free(p->variants[i].w);
  pz_arena_release(&p->arena);
  *p = (struct pz_portfolio){0};
}
