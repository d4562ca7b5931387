#include "baseline/expert_plan.h"

#include <math.h>
#include <string.h>

#include "place/fixed.h"
#include "place/model.h"
#include "workload/workload.h"

/* The original system's: stages and tensor parallel width. */
static const struct pz_expert table[] = {
    {"bert-large", 8, 1}, {"megatron-bert", 8, 1}, {"llama2-7b", 8, 1},     {"gpt2-xl", 32, 1},
    {"opt-350m", 12, 1},  {"megatron-2.5b", 8, 4}, {"megatron-8.3b", 8, 8}, {"gpt3-175b", 32, 4},
};

const struct pz_expert *pz_expert_find(const char *model) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strcmp(table[i].model, model) == 0) return &table[i];
  return NULL;
}

/* ---- one microbatch size -------------------------------------------------------------------- */

struct trial {
  struct pz_evaluator *e;
  const struct pz_expert *plan;
  double hbm_gib;
  struct pz_arena arena;
  struct pz_expert_result *best;
  struct pz_error *err;
};

/* The repeated layers are numbered from 0; what comes before and after goes along. */
static struct pz_fixed number_layers(const struct trial *t, const struct pz_workload *w,
                                     struct pz_place_width *width, struct pz_place_layer *layers) {
  int64_t first = 0, at = 0, most = 0;
  for (uint32_t i = 0; i < w->n_layers; at += w->layers[i++].count)
    if (w->layers[i].count > most) most = w->layers[i].count, first = at;
  memcpy(layers, width->layers, width->n * sizeof *layers);
  for (uint32_t i = 0; i < width->n; i++) layers[i].id = (int64_t)i - first;
  width->layers = layers;
  int64_t d = t->e->task->o.devices / (t->plan->stages * t->plan->t);
  return (struct pz_fixed){t->plan->stages, t->plan->t, d, most, true};
}

static enum pz_status schedule(struct trial *t, const struct pz_workload *w,
                               struct pz_layer_time (*times)[2], uint32_t *n_open) {
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int d = 0; d < 2; d++) {
      enum pz_status status = pz_layer_schedule(&t->e->cost, &w->layers[i].ops[d],
                                                t->e->task->o.steps, NULL, &times[i][d], t->err);
      if (status != PZ_OK) return status;
      *n_open += times[i][d].open;
    }
  return PZ_OK;
}

static enum pz_status judge(struct trial *t, const struct pz_variant *l,
                            struct pz_place_width *width, struct pz_fixed fixed, uint32_t n_open) {
  bool shifted = pz_assumed(t->e->task->assumptions, PZ_ASSUME_SHIFTED_EXPERT);
  enum pz_fixed_split split = shifted ? PZ_SPLIT_COMPAT : PZ_SPLIT_EVEN;
  if (fixed.d < 1) return PZ_OK; /* there are not devices enough for one replica */
  for (int r = 0; r < 2; r++) {
    struct pz_place_problem p = pz_task_problem(t->e->task, l, t->hbm_gib, r);
    struct pz_error why = {0};
    double time_s;
    p.widths = width;
    if (fixed.d > p.microbatches) fixed.d = p.microbatches;
    enum pz_status status =
        pz_fixed_time(&p, &fixed, split, pz_task_semantics(t->e->task), &time_s, &why);
    if (status != PZ_OK && status != PZ_NO_ANSWER)
      return pz_fail(t->err, status, "%s", why.message);
    if (status != PZ_OK || time_s >= t->best->time_s) continue;
    *t->best =
        (struct pz_expert_result){time_s, fixed.stages, fixed.t, fixed.d, l->mbs, r != 0, n_open};
  }
  return PZ_OK;
}

static enum pz_status try_load(struct trial *t, const struct pz_variant *l) {
  struct pz_place_width width;
  uint32_t n_open = 0;
  struct pz_layer_time(*times)[2] = pz_arena_alloc(&t->arena, l->w->n_layers, sizeof *times);
  struct pz_place_layer *layers =
      pz_arena_alloc(&t->arena, (size_t)l->w->totals.layers, sizeof *layers);
  if (!times || !layers) return pz_fail(t->err, PZ_NO_MEMORY, "out of memory for the plan");
  enum pz_status status = schedule(t, l->w, times, &n_open);
  if (status == PZ_OK)
    status = pz_place_chain(l->w, (const struct pz_layer_time(*)[2])times, &t->arena, &width, NULL,
                            t->err);
  if (status != PZ_OK) return status;
  return judge(t, l, &width, number_layers(t, l->w, &width, layers), n_open);
}

static enum pz_status try_microbatch(struct trial *t, const char *model,
                                     const struct pz_variant *like) {
  struct pz_workload_options o = t->e->task->portfolio->built;
  struct pz_variant l = {.mbs = like->mbs, .tp = t->plan->t, .microbatches = like->microbatches};
  o.mbs = l.mbs;
  o.tp = l.tp;
  enum pz_status status = pz_workload_load(model, &o, &l.w, t->err);
  if (status == PZ_OK) status = try_load(t, &l);
  pz_workload_free(l.w);
  return status;
}

/* ---- the calls ------------------------------------------------------------------------------ */

enum pz_status pz_expert_evaluate(struct pz_evaluator *e, const struct pz_chip *chip,
                                  uint32_t model, double hbm_gib, struct pz_expert_result *out,
                                  struct pz_error *err) {
  const struct pz_portfolio *p = e->task->portfolio;
  struct pz_expert_result best = {.time_s = HUGE_VAL};
  struct trial t = {.e = e,
                    .plan = pz_expert_find(p->models[model]),
                    .hbm_gib = hbm_gib,
                    .best = &best,
                    .err = err};
  enum pz_status status = PZ_OK;
  pz_arena_init(&t.arena, NULL);
  pz_cost_set_chip(&e->cost, chip, &e->task->net);
  bool enough = t.plan && t.plan->stages * t.plan->t <= e->task->o.devices; /* for one replica */
  int64_t tp = p->variants[p->first[model]].tp; /* every microbatch size stands there once */
  for (uint32_t l = p->first[model]; l < p->first[model + 1] && status == PZ_OK; l++)
    if (enough && p->variants[l].tp == tp)
      status = try_microbatch(&t, p->models[model], &p->variants[l]);
  pz_arena_release(&t.arena);
  if (status == PZ_OK) *out = best;
  return status;
}

/* With so much memory, by the plan that r->expert says. */
static enum pz_status try_memory(struct pz_evaluator *e, const struct pz_chip *chip, uint32_t model,
                                 double hbm_gib, struct pz_reference *r, struct pz_error *err) {
  struct pz_evaluation v = {.time_s = HUGE_VAL};
  enum pz_status status = r->expert
                              ? pz_expert_evaluate(e, chip, model, hbm_gib, &r->plan, err)
                              : pz_evaluate_chip(e, chip, model, hbm_gib, PZ_EFFORT_FULL, &v, err);
  double time_s = r->expert ? r->plan.time_s : v.time_s;
  if (status != PZ_OK || !(time_s < HUGE_VAL)) return status;
  r->samples_per_s = (double)e->task->o.batch / time_s;
  r->hbm_gib = hbm_gib;
  return PZ_OK;
}

/* With the least that it fits. */
static enum pz_status try_memories(struct pz_evaluator *e, const struct pz_chip *chip,
                                   uint32_t model, struct pz_reference *r, struct pz_error *err) {
  enum { LEAST_GIB = 32 };
  const struct pz_choices *hbm = &e->task->o.hbm_gib;
  enum pz_status status = try_memory(e, chip, model, LEAST_GIB, r, err);
  for (int h = 0; h < hbm->n && status == PZ_OK && !(r->samples_per_s > 0); h++)
    if (hbm->v[h] > LEAST_GIB) status = try_memory(e, chip, model, (double)hbm->v[h], r, err);
  return status;
}

enum pz_status pz_reference_on(struct pz_evaluator *e, const struct pz_chip *chip, uint32_t model,
                               struct pz_reference *out, struct pz_error *err) {
  struct pz_reference r = {.expert = pz_expert_find(e->task->portfolio->models[model])};
  enum pz_status status = PZ_OK;
  if (r.expert) status = try_memories(e, chip, model, &r, err);
  if (status == PZ_OK && !(r.samples_per_s > 0)) {
    r = (struct pz_reference){.expert = false};
    status = try_memories(e, chip, model, &r, err);
  }
  if (status == PZ_OK) *out = r;
  return status;
}

enum pz_status pz_reference_find(struct pz_evaluator *e, uint32_t model, struct pz_reference *out,
                                 struct pz_error *err) {
  struct pz_chip chip;
  enum pz_status status = pz_chip_load(PZ_REFERENCE_CHIP, &chip, err);
  if (status == PZ_OK) pz_assume_chip(e->task->assumptions, &chip);
  return status == PZ_OK ? pz_reference_on(e, &chip, model, out, err) : status;
}
