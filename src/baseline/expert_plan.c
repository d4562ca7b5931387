/* The expert plans of the original system, evaluated with the same costs as all other plans.  pz_expert_evaluate()
 * loads the model at the plan's tensor-parallel degree with every microbatch size of the portfolio, and lets
 * pz_plan_find_best() find the best of them with a fixed number of stages. */
#include "baseline/expert_plan.h"

#include <math.h>
#include <string.h>

static const struct pz_expert experts[] = {
    {"bert-large", 8, 1}, {"megatron-bert", 8, 1}, {"llama2-7b", 8, 1},     {"gpt2-xl", 32, 1},
    {"opt-350m", 12, 1},  {"megatron-2.5b", 8, 4}, {"megatron-8.3b", 8, 8}, {"gpt3-175b", 32, 4},
};

const struct pz_expert *pz_expert_find(const char *model) {
  for (size_t i = 0; i < sizeof experts / sizeof *experts; i++)
    if (strcmp(experts[i].model, model) == 0) return &experts[i];
  return NULL;
}

static void free_workload(void *workload) { pz_workload_free(workload); }

/* Loads the model with tensor-parallel degree t and every microbatch size of the portfolio.  Returns their number; the
 * workloads are freed when the call ends, or with pz_close(). */
static uint32_t load_expert_variants(struct pz_call *call, const struct pz_portfolio *p,
                                     uint32_t model, int64_t t, struct pz_variant *list) {
  int64_t first_tp =
      p->variants[p->first[model]].tp; /* with it, each microbatch size occurs once */
  uint32_t n = 0;
  for (uint32_t v = p->first[model]; v < p->first[model + 1]; v++) {
    const struct pz_variant *variant = &p->variants[v];
    struct pz_workload_options o = p->built;
    if (variant->tp != first_tp) continue;
    list[n] = (struct pz_variant){
        .model = model, .mbs = variant->mbs, .tp = t, .microbatches = variant->microbatches};
    o.mbs = variant->mbs;
    o.tp = t;
    pz_must(call, pz_workload_load(p->models[model], &o, &list[n].w, pz_call_error(call)));
    pz_defer(call, free_workload, list[n].w);
    n++;
  }
  return n;
}

struct pz_expert_result pz_expert_evaluate(struct pz_call *call, struct pz_original_worker *w,
                                           const struct pz_chip *chip, uint32_t model,
                                           double hbm_gib) {
  const struct pz_portfolio *p = w->task->portfolio;
  const struct pz_expert *expert = pz_expert_find(p->models[model]);
  bool shifted = pz_assumed(w->task->assumptions, PZ_ASSUME_SHIFTED_EXPERT);
  struct pz_plan_inputs in = pz_original_inputs(w, model, hbm_gib, PZ_EFFORT_FULL);
  struct pz_expert_result best = {.time_s = HUGE_VAL};
  pz_cost_set_chip(&w->cost, chip, &w->task->net);
  bool has_devices = expert && expert->stages * expert->t <= w->task->o.devices;
  if (!has_devices) return best; /* not even for one replica */
  struct pz_call work = pz_scratch(call);
  struct pz_variant *list = pz_alloc(&work, in.n_variants, sizeof *list);
  const struct pz_fixed given = {.stages = expert->stages,
                                 .split = shifted ? PZ_SPLIT_COMPAT : PZ_SPLIT_EVEN};
  in.variants = list;
  in.n_variants = load_expert_variants(&work, p, model, expert->t, list);
  in.given = &given;
  in.quick_steps = in.steps;
  struct pz_plan_choice found = pz_plan_find_best(&work, &in, HUGE_VAL);
  if (found.time_s < HUGE_VAL)
    best = (struct pz_expert_result){.time_s = found.time_s,
                                     .stages = expert->stages,
                                     .t = expert->t,
                                     .d = found.plan.d,
                                     .mbs = list[found.plan.variant].mbs,
                                     .recompute = found.plan.recompute,
                                     .n_open = found.n_open_here};
  for (uint32_t i = 0; i < in.n_variants; i++) pz_close(&work, list[i].w);
  pz_scratch_end(&work);
  return best;
}

/* ---- the reference -------------------------------------------------------------------------- */

/* Evaluates the plan that r->expert says with this memory.  If it fits, its throughput is stored. */
static void try_memory(struct pz_call *call, struct pz_original_worker *w,
                       const struct pz_chip *chip, uint32_t model, double hbm_gib,
                       struct pz_reference *r) {
  double time_s;
  if (r->expert) {
    r->plan = pz_expert_evaluate(call, w, chip, model, hbm_gib);
    time_s = r->plan.time_s;
  } else {
    time_s = pz_original_evaluate_chip(call, w, chip, model, hbm_gib, PZ_EFFORT_FULL).step_s;
  }
  if (!(time_s < HUGE_VAL)) return;
  r->samples_per_s = (double)w->task->o.batch / time_s;
  r->hbm_gib = hbm_gib;
}

/* Tries 32 GiB and then the larger memories, until the plan fits. */
static void try_memories(struct pz_call *call, struct pz_original_worker *w,
                         const struct pz_chip *chip, uint32_t model, struct pz_reference *r) {
  enum { LEAST_GIB = 32 };
  const struct pz_choices *hbm = &w->task->o.hbm_gib;
  try_memory(call, w, chip, model, LEAST_GIB, r);
  for (int h = 0; h < hbm->n && !(r->samples_per_s > 0); h++)
    if (hbm->v[h] > LEAST_GIB) try_memory(call, w, chip, model, (double)hbm->v[h], r);
}

struct pz_reference pz_reference_on(struct pz_call *call, struct pz_original_worker *w,
                                    const struct pz_chip *chip, uint32_t model) {
  struct pz_reference r = {.expert = pz_expert_find(w->task->portfolio->models[model])};
  if (r.expert) try_memories(call, w, chip, model, &r);
  if (!(r.samples_per_s > 0)) {
    r = (struct pz_reference){.expert = false};
    try_memories(call, w, chip, model, &r);
  }
  return r;
}

struct pz_reference pz_reference_of_model(struct pz_call *call, struct pz_original_worker *w,
                                          uint32_t model) {
  struct pz_chip chip;
  pz_chip_read(call, PZ_REFERENCE_CHIP, &chip);
  pz_assume_chip(w->task->assumptions, &chip);
  return pz_reference_on(call, w, &chip, model);
}
