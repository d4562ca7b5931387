#include "baseline/expert_plan.h"

#include <math.h>
#include <string.h>

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

/* ---- the plan on a chip --------------------------------------------------------------------- */

/* The model at the plan's tensor-parallel degree with every microbatch size of the portfolio; *n
 * workloads, on errors too, are the caller's to free. */
static enum pz_status load_variants(const struct pz_portfolio *p, uint32_t model, int64_t t,
                                    struct pz_variant *list, uint32_t *n, struct pz_error *err) {
  int64_t tp = p->variants[p->first[model]].tp; /* every microbatch size stands there once */
  enum pz_status status = PZ_OK;
  *n = 0;
  for (uint32_t l = p->first[model]; l < p->first[model + 1] && status == PZ_OK; l++) {
    struct pz_workload_options o = p->built;
    if (p->variants[l].tp != tp) continue;
    list[*n] = (struct pz_variant){.model = model,
                                   .mbs = p->variants[l].mbs,
                                   .tp = t,
                                   .microbatches = p->variants[l].microbatches};
    o.mbs = list[*n].mbs;
    o.tp = t;
    status = pz_workload_load(p->models[model], &o, &list[*n].w, err);
    if (status == PZ_OK) ++*n;
  }
  return status;
}

/* The best of them. */
static enum pz_status choose(struct pz_original_worker *e, const struct pz_expert *expert,
                             struct pz_plan_inputs in, struct pz_arena *arena,
                             struct pz_expert_result *out, struct pz_error *err) {
  bool shifted = pz_assumed(e->task->assumptions, PZ_ASSUME_SHIFTED_EXPERT);
  const struct pz_fixed given = {.stages = expert->stages,
                                 .split = shifted ? PZ_SPLIT_COMPAT : PZ_SPLIT_EVEN};
  struct pz_plan_choice found;
  in.given = &given;
  in.quick_steps = in.steps;
  enum pz_status status = pz_plan_choose(&in, HUGE_VAL, arena, &found, err);
  if (status != PZ_OK || !(found.time_s < HUGE_VAL)) return status;
  *out = (struct pz_expert_result){.time_s = found.time_s,
                                   .stages = expert->stages,
                                   .t = expert->t,
                                   .d = found.plan.d,
                                   .mbs = in.variants[found.plan.variant].mbs,
                                   .recompute = found.plan.recompute,
                                   .n_open = found.n_open_here};
  return PZ_OK;
}

/* ---- the calls ------------------------------------------------------------------------------ */

enum pz_status pz_expert_evaluate(struct pz_original_worker *e, const struct pz_chip *chip,
                                  uint32_t model, double hbm_gib, struct pz_expert_result *out,
                                  struct pz_error *err) {
  const struct pz_portfolio *p = e->task->portfolio;
  const struct pz_expert *expert = pz_expert_find(p->models[model]);
  struct pz_plan_inputs in = pz_original_inputs(e, model, hbm_gib, PZ_EFFORT_FULL);
  struct pz_expert_result best = {.time_s = HUGE_VAL};
  struct pz_arena arena;
  uint32_t n = 0;
  pz_arena_init(&arena, NULL);
  pz_cost_set_chip(&e->cost, chip, &e->task->net);
  struct pz_variant *list = pz_arena_alloc(&arena, in.n_variants, sizeof *list);
  bool enough = expert && expert->stages * expert->t <= e->task->o.devices; /* for one replica */
  enum pz_status status =
      list ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the expert plan");
  if (status == PZ_OK && enough) status = load_variants(p, model, expert->t, list, &n, err);
  in.variants = list;
  in.n_variants = n;
  if (status == PZ_OK && enough) status = choose(e, expert, in, &arena, &best, err);
  for (uint32_t i = 0; i < n; i++) pz_workload_free(list[i].w);
  pz_arena_release(&arena);
  if (status == PZ_OK) *out = best;
  return status;
}

/* With so much memory, by the plan that r->expert says. */
static enum pz_status try_memory(struct pz_original_worker *e, const struct pz_chip *chip,
                                 uint32_t model, double hbm_gib, struct pz_reference *r,
                                 struct pz_error *err) {
  struct pz_evaluation v = {.step_s = HUGE_VAL};
  enum pz_status status =
      r->expert ? pz_expert_evaluate(e, chip, model, hbm_gib, &r->plan, err)
                : pz_original_value_of_chip(e, chip, model, hbm_gib, PZ_EFFORT_FULL, &v, err);
  double time_s = r->expert ? r->plan.time_s : v.step_s;
  if (status != PZ_OK || !(time_s < HUGE_VAL)) return status;
  r->samples_per_s = (double)e->task->o.batch / time_s;
  r->hbm_gib = hbm_gib;
  return PZ_OK;
}

/* With the least that it fits. */
static enum pz_status try_memories(struct pz_original_worker *e, const struct pz_chip *chip,
                                   uint32_t model, struct pz_reference *r, struct pz_error *err) {
  enum { LEAST_GIB = 32 };
  const struct pz_choices *hbm = &e->task->o.hbm_gib;
  enum pz_status status = try_memory(e, chip, model, LEAST_GIB, r, err);
  for (int h = 0; h < hbm->n && status == PZ_OK && !(r->samples_per_s > 0); h++)
    if (hbm->v[h] > LEAST_GIB) status = try_memory(e, chip, model, (double)hbm->v[h], r, err);
  return status;
}

enum pz_status pz_reference_on(struct pz_original_worker *e, const struct pz_chip *chip,
                               uint32_t model, struct pz_reference *out, struct pz_error *err) {
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

enum pz_status pz_reference_find(struct pz_original_worker *e, uint32_t model,
                                 struct pz_reference *out, struct pz_error *err) {
  struct pz_chip chip;
  enum pz_status status = pz_chip_read(PZ_REFERENCE_CHIP, &chip, err);
  if (status == PZ_OK) pz_assume_chip(e->task->assumptions, &chip);
  return status == PZ_OK ? pz_reference_on(e, &chip, model, out, err) : status;
}
