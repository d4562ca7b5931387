#include "evaluate/portfolio.h"

#include <string.h>

#include "core/text.h"
#include "partition/problem.h"
#include "workload/workload.h"

struct maker {
  struct pz_portfolio *p;
  const struct pz_variant_choices *c;
  struct pz_error *err;
};

static enum pz_status check_model(const struct maker *m, uint32_t i, const struct pz_workload *w) {
  if (w->totals.layers > PZ_PLACE_MOST_LAYERS)
    return pz_fail(m->err, PZ_LIMIT, "%s has %lld layers; accepted: at most %d", m->p->models[i],
                   (long long)w->totals.layers, PZ_PLACE_MOST_LAYERS);
  m->p->seq[i] = w->options.seq;
  m->p->sample_flop[i] = (double)(w->totals.matmul_forward_flop + w->totals.matmul_backward_flop) /
                         (double)w->options.mbs;
  return w->warning ? pz_note_add(&m->p->notes, 0, w->warning, m->err) : PZ_OK;
}

/* The undivided model: is it known, how large is it? */
static enum pz_status look_at(const struct maker *m, uint32_t i) {
  struct pz_workload_options o = m->p->built;
  struct pz_workload *w = NULL;
  for (uint32_t k = 0; k < i; k++)
    if (strcmp(m->p->models[k], m->p->models[i]) == 0)
      return pz_fail(m->err, PZ_BAD_USE, "%s is given twice", m->p->models[i]);
  enum pz_status status = pz_workload_load(m->p->models[i], &o, &w, m->err);
  if (status == PZ_OK) status = check_model(m, i, w);
  pz_workload_free(w);
  return status;
}

static enum pz_status add_model(const struct maker *m, uint32_t i) {
  struct pz_portfolio *p = m->p;
  struct pz_variant *list = &p->variants[p->n_variants];
  uint32_t n = 0;
  if (!pz_text_is_plain(p->models[i])) /* kept, and shown in tables and pages */
    return pz_fail(m->err, PZ_BAD_INPUT, "%s: accepted: a path without control characters",
                   p->models[i]);
  enum pz_status status = look_at(m, i);
  if (status == PZ_OK)
    status = pz_variants_load(p->models[i], m->c, &p->built, &p->notes, list, &n, m->err);
  for (uint32_t k = 0; k < n; k++) {
    list[k].model = i;
    if (list[k].w->n_layers > p->most_layers) p->most_layers = list[k].w->n_layers;
  }
  p->first[i] = p->n_variants;
  p->n_variants += n;
  return status;
}

enum pz_status pz_portfolio_init(struct pz_portfolio *p, const char *const *models,
                                 uint32_t n_models, const struct pz_variant_choices *choices,
                                 const struct pz_workload_options *how, struct pz_error *err) {
  struct maker m = {p, choices, err};
  if (n_models < 1 || n_models > PZ_SEARCH_MOST_MODELS)
    return pz_fail(err, PZ_BAD_USE, "%u models; accepted: 1 to %d", n_models,
                   PZ_SEARCH_MOST_MODELS);
  *p = (struct pz_portfolio){.n_models = n_models, .built = *how};
  pz_arena_init(&p->arena, NULL);
  pz_vec_init(&p->notes, &p->arena, sizeof(struct pz_note));
  p->variants =
      pz_arena_alloc(&p->arena, (size_t)n_models * (size_t)(choices->mbs->n * choices->tp->n),
                     sizeof *p->variants);
  enum pz_status status =
      p->variants ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the models");
  for (uint32_t i = 0; i < n_models && status == PZ_OK; i++) {
    p->models[i] = pz_arena_strdup(&p->arena, models[i]);
    status = p->models[i] ? add_model(&m, i)
                          : pz_fail(err, PZ_NO_MEMORY, "out of memory for the models");
  }
  p->first[n_models] = p->n_variants;
  if (status != PZ_OK) pz_portfolio_release(p);
  return status;
}

void pz_portfolio_release(struct pz_portfolio *p) {
  if (!p) return;
  for (uint32_t i = 0; p->variants && i < p->n_variants; i++) pz_workload_free(p->variants[i].w);
  pz_arena_release(&p->arena);
  *p = (struct pz_portfolio){0};
}
