/* The expert plans of the original system, evaluated with the same costs as all other plans.
 * pz_expert_evaluate() loads the model at the plan's tensor-parallel degree with every
 * microbatch size of the portfolio, and lets pz_plan_find_best() find the best of them with a
 * fixed number of stages. */
#include "baseline/expert_plan.h"

#include <math.h>
#include <string.h>

#include "workload/workload.h"

/* Model, pipeline stages, and tensor-parallel degree of each plan. */
static const struct pz_expert experts[] = {
    {"bert-large", 8, 1}, {"megatron-bert", 8, 1}, {"llama2-7b", 8, 1},     {"gpt2-xl", 32, 1},
    {"opt-350m", 12, 1},  {"megatron-2.5b", 8, 4}, {"megatron-8.3b", 8, 8}, {"gpt3-175b", 32, 4},
};

/* Returns the expert's plan for a model, or NULL if none is known. */
const struct pz_expert *pz_expert_find(const char *model) {
  for (size_t i = 0; i < sizeof experts / sizeof *experts; i++)
    if (strcmp(experts[i].model, model) == 0) return &experts[i];
  return NULL;
}

/* Loads the model with tensor-parallel degree tp and every microbatch size of the portfolio.
 * Returns their number; the workloads are freed when the call ends, or with pz_close(). */
static uint32_t load_expert_variants(struct pz_call *call, const struct pz_portfolio *portfolio,
                                     uint32_t model, int64_t tp, struct pz_variant *variants) {
  /* Of the portfolio's variants, those of one tensor-parallel degree (here the first) have each
   * microbatch size once. */
  int64_t first_tp = portfolio->variants[portfolio->first[model]].tp;
  uint32_t n = 0;
  for (uint32_t index = portfolio->first[model]; index < portfolio->first[model + 1]; index++) {
    const struct pz_variant *variant = &portfolio->variants[index];
    struct pz_workload_options options = portfolio->built;
    if (variant->tp != first_tp) continue;
    variants[n] = (struct pz_variant){
        .model = model, .mbs = variant->mbs, .tp = tp, .microbatches = variant->microbatches};
    options.mbs = variant->mbs;
    options.tp = tp;
    pz_must(call, pz_workload_load(portfolio->models[model], &options, &variants[n].w,
                                   pz_call_error(call)));
    pz_defer(call, pz_workload_close, variants[n].w);
    n++;
  }
  return n;
}

/* Evaluates the expert's plan of a model on a chip with the best microbatch size that fits.  The time
 * is HUGE_VAL if there is no such plan, or if it needs more devices or memory than there are. */
struct pz_expert_result pz_expert_evaluate(struct pz_call *call, struct pz_original_worker *worker,
                                           const struct pz_chip *chip, uint32_t model,
                                           double hbm_gib) {
  const struct pz_portfolio *portfolio = worker->task->portfolio;
  const struct pz_expert *expert = pz_expert_find(portfolio->models[model]);
  bool shifted = pz_assumed(worker->task->assumptions, PZ_ASSUME_SHIFTED_EXPERT);
  struct pz_plan_inputs inputs = pz_original_inputs(worker, model, hbm_gib, PZ_EFFORT_FULL);
  struct pz_expert_result best = {.time_s = HUGE_VAL};
  pz_cost_set_chip(&worker->cost, chip, &worker->task->net);
  bool has_devices = expert && expert->stages * expert->tp <= worker->task->o.devices;
  if (!has_devices) return best;
  struct pz_call work = pz_scratch(call);
  struct pz_variant *variants = pz_alloc(&work, inputs.n_variants, sizeof *variants);
  const struct pz_fixed expert_plan = {.stages = expert->stages,
                                       .split = shifted ? PZ_SPLIT_COMPAT : PZ_SPLIT_EVEN};
  inputs.variants = variants;
  inputs.n_variants = load_expert_variants(&work, portfolio, model, expert->tp, variants);
  inputs.given = &expert_plan;
  inputs.quick_steps = inputs.steps; /* all layer schedules are searched with the full effort */
  struct pz_plan_choice choice = pz_plan_find_best(&work, &inputs, HUGE_VAL);
  if (choice.time_s < HUGE_VAL)
    best = (struct pz_expert_result){.time_s = choice.time_s,
                                     .stages = expert->stages,
                                     .tp = expert->tp,
                                     .replicas = choice.plan.replicas,
                                     .mbs = variants[choice.plan.variant].mbs,
                                     .recompute = choice.plan.recompute,
                                     .n_open = choice.n_open_here};
  for (uint32_t i = 0; i < inputs.n_variants; i++) pz_close(&work, variants[i].w);
  pz_scratch_end(&work);
  return best;
}

/* ---- the reference -------------------------------------------------------------------------- */

/* Returns the throughput of a model with 32 GiB per device, or with the first of the task's larger
 * memories in which its plan fits, or 0 if it fits in none.  The plan is the row of experts[] if
 * uses_expert_plan is true, otherwise the best plan that the placement search finds. */
static struct pz_reference evaluate_with_least_memory(struct pz_call *call,
                                                      struct pz_original_worker *worker,
                                                      const struct pz_chip *chip, uint32_t model,
                                                      bool uses_expert_plan) {
  enum { LEAST_GIB = 32 };
  const struct pz_choices *hbm = &worker->task->o.hbm_gib;
  struct pz_reference reference = {.expert = uses_expert_plan};
  for (int i = -1; i < hbm->n && !(reference.samples_per_s > 0); i++) { /* -1: LEAST_GIB */
    double time_s, gib = i < 0 ? LEAST_GIB : (double)hbm->v[i];
    if (i >= 0 && gib <= LEAST_GIB) continue;
    if (uses_expert_plan) {
      reference.plan = pz_expert_evaluate(call, worker, chip, model, gib);
      time_s = reference.plan.time_s;
    } else {
      time_s = pz_original_evaluate_chip(call, worker, chip, model, gib, PZ_EFFORT_FULL).step_s;
    }
    bool fits = time_s < HUGE_VAL;
    if (!fits) continue;
    reference.samples_per_s = (double)worker->task->o.batch / time_s;
    reference.hbm_gib = gib;
  }
  return reference;
}

/* Returns the throughput with which other plans of a model on this chip are compared: that of the
 * plan of an expert (a row of experts[]), or if there is none for the model or it does not fit in
 * any memory, that of the best plan that the placement search finds. */
struct pz_reference pz_reference_on(struct pz_call *call, struct pz_original_worker *worker,
                                    const struct pz_chip *chip, uint32_t model) {
  const bool expert_plan = true, best_plan = false;
  if (pz_expert_find(worker->task->portfolio->models[model])) {
    struct pz_reference reference =
        evaluate_with_least_memory(call, worker, chip, model, expert_plan);
    if (reference.samples_per_s > 0) return reference;
  }
  return evaluate_with_least_memory(call, worker, chip, model, best_plan);
}

/* Returns the throughput of a model on the reference chip. */
struct pz_reference pz_reference_of_model(struct pz_call *call, struct pz_original_worker *worker,
                                          uint32_t model) {
  struct pz_chip chip;
  pz_chip_read(call, PZ_REFERENCE_CHIP, &chip);
  pz_assume_chip(worker->task->assumptions, &chip);
  return pz_reference_on(call, worker, &chip, model);
}
