/* The table of the baselines, and what they share: the best plans and plans of human experts on
 * one chip, model by model in parallel (for_each_model), and the best of several chips
 * (pz_baseline_consider), of which bounds exclude most without evaluation. */
#include "baseline/baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"

/* Raises PZ_STOPPED if the question asks to stop. */
void pz_baseline_check_stop(struct pz_call *call, const struct pz_baseline_question *question) {
  if (question->stop && atomic_load(question->stop)) pz_raise(call, PZ_STOPPED, "stopped");
}

/* ---- plans on one chip ---------------------------------------------------------------------- */

/* Evaluates one model on a chip.  `ctx` contains the chip and receives the result. */
typedef void model_fn(struct pz_call *call, void *ctx, uint32_t model,
                      struct pz_original_worker *worker);

struct model_tasks {
  const struct pz_baseline_question *question;
  model_fn *evaluate;
  void *ctx; /* passed to evaluate() */
};

/* Evaluates the i-th model of the question's objective, for pz_search_run_tasks(). */
static void run_model_task(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  const struct model_tasks *tasks = ctx;
  const struct pz_baseline_question *question = tasks->question;
  pz_baseline_check_stop(call, question);
  tasks->evaluate(call, tasks->ctx, question->objective->models[i],
                  pz_original_worker(question->evaluator, worker));
}

/* Evaluates every model of the question: in parallel, or if other tasks run at the same time, one
 * after another by the worker of the calling task. */
static void for_each_model(struct pz_call *call, const struct pz_baseline_question *question,
                           model_fn *evaluate, void *ctx) {
  struct model_tasks model_tasks = {question, evaluate, ctx};
  if (question->worker == PZ_BASELINE_ALL) {
    struct pz_search_tasks tasks = {.fn = run_model_task, .ctx = &model_tasks};
    pz_search_run_tasks(call, question->search, question->objective->n, &tasks);
    return;
  }
  for (uint32_t i = 0; i < question->objective->n; i++)
    run_model_task(call, &model_tasks, i, (unsigned)question->worker);
}

/* Arguments of place_model(): a chip on which the best plans are searched, and the results by model. */
struct placing {
  const struct pz_baseline_question *question;
  const struct pz_chip *chip;
  const struct pz_point *point; /* NULL if the chip is not a point of the design space */
  double samples_per_s[PZ_SEARCH_MOST_MODELS];
  double least_gib[PZ_SEARCH_MOST_MODELS]; /* least memory that reaches samples_per_s */
};

/* Returns the samples per second of a model with its best plan, or 0 if no plan fits. */
static double throughput_with(struct pz_call *call, const struct placing *placing,
                              struct pz_original_worker *worker, uint32_t model, double hbm_gib) {
  pz_baseline_check_stop(call, placing->question);
  struct pz_evaluation evaluation =
      placing->point
          ? pz_original_evaluate(call, worker, placing->point, model, hbm_gib, PZ_EFFORT_FULL,
                                 HUGE_VAL)
          : pz_original_evaluate_chip(call, worker, placing->chip, model, hbm_gib, PZ_EFFORT_FULL);
  return evaluation.step_s < HUGE_VAL ? (double)placing->question->task->o.batch / evaluation.step_s
                                      : 0;
}

/* Finds the throughput of a model with the largest choice of HBM per device, and the smallest choice
 * with which it is as high (a model_fn). */
static void place_model(struct pz_call *call, void *ctx, uint32_t model,
                        struct pz_original_worker *worker) {
  struct placing *placing = ctx;
  const struct pz_choices *hbm = &placing->question->task->o.hbm_gib; /* ascending */
  double most_gib = (double)hbm->v[hbm->n - 1];
  placing->samples_per_s[model] = throughput_with(call, placing, worker, model, most_gib);
  placing->least_gib[model] = most_gib;
  for (int i = 0; i + 1 < hbm->n; i++) {
    double gib = (double)hbm->v[i];
    if (throughput_with(call, placing, worker, model, gib) >= placing->samples_per_s[model]) {
      placing->least_gib[model] = gib;
      return;
    }
  }
}

/* Finds the best plans of all models of the question on a chip.  `point` is NULL if the chip is not a
 * point of the design space. */
struct pz_baseline_answer pz_baseline_place(struct pz_call *call,
                                            const struct pz_baseline_question *question,
                                            const struct pz_chip *chip,
                                            const struct pz_point *point) {
  struct placing placing = {.question = question, .chip = chip, .point = point};
  struct pz_baseline_answer answer = {.chip = *chip, .n_evaluated = 1};
  for_each_model(call, question, place_model, &placing);
  for (uint32_t i = 0; i < question->objective->n; i++) {
    uint32_t model = question->objective->models[i];
    answer.samples_per_s[model] = placing.samples_per_s[model];
    answer.hbm_gib = fmax(answer.hbm_gib, placing.least_gib[model]);
  }
  return answer;
}

/* Finds the best plans of the question's models on the chip of the space with this index. */
struct pz_baseline_answer pz_baseline_place_point(struct pz_call *call,
                                                  const struct pz_baseline_question *question,
                                                  uint32_t point) {
  struct pz_chip chip;
  pz_space_chip(question->task->space, &question->points[point], &chip);
  return pz_baseline_place(call, question, &chip, &question->points[point]);
}

/* A chip, and the throughput of each model on it with its expert's plan. */
struct expert_plans {
  const struct pz_chip *chip;
  struct pz_reference reference[PZ_SEARCH_MOST_MODELS];
};

/* Evaluates the plan of a human expert for one model (expert_plan.h). */
static void find_expert_plan(struct pz_call *call, void *ctx, uint32_t model,
                             struct pz_original_worker *worker) {
  struct expert_plans *plans = ctx;
  plans->reference[model] = pz_reference_on(call, worker, plans->chip, model);
}

/* Evaluates the experts' plans of all models of the question on a chip. */
struct pz_baseline_answer pz_baseline_expert(struct pz_call *call,
                                             const struct pz_baseline_question *question,
                                             const struct pz_chip *chip) {
  struct expert_plans plans = {.chip = chip};
  struct pz_baseline_answer answer = {.chip = *chip, .n_evaluated = 1};
  for_each_model(call, question, find_expert_plan, &plans);
  for (uint32_t i = 0; i < question->objective->n; i++) {
    uint32_t model = question->objective->models[i];
    answer.samples_per_s[model] = plans.reference[model].samples_per_s;
    answer.expert[model] = plans.reference[model].expert;
    answer.hbm_gib = fmax(answer.hbm_gib, plans.reference[model].hbm_gib);
  }
  return answer;
}

/* ---- the best of several chips -------------------------------------------------------------- */

/* Returns the area of a chip of the space, square micrometres. */
double pz_baseline_area_um2(const struct pz_baseline_question *question, uint32_t point) {
  struct pz_chip chip;
  pz_space_chip(question->task->space, &question->points[point], &chip);
  return pz_chip_taken(&chip).mm2 * 1e6;
}

/* A chip that may become the best.  Step times are lower bounds, and the value is an upper bound,
 * until they are evaluated. */
struct candidate_chip {
  struct pz_baseline_best rank; /* value, area and index, by which chips are compared */
  struct pz_taken taken;        /* area, power and cost of the chip */
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS]; /* by model */
};

/* Returns whether a candidate may be better than the best chip so far.  Its value may be an upper
 * bound; if it is exact, the answer is, too.  Of equal values, the smaller area is better, and of
 * equal areas, the lower index. */
static bool may_be_best(const struct pz_baseline_best *best,
                        const struct pz_baseline_best *candidate) {
  if (!best->has_chip) return candidate->value > 0;
  if (candidate->value != best->value) return candidate->value > best->value;
  if (candidate->area_um2 != best->area_um2) return candidate->area_um2 < best->area_um2;
  return candidate->point < best->point;
}

/* Sets a candidate to the chip of a point: its area, an upper bound on its value, and lower bounds on
 * the step times of the models.  The bounds are those of the search, for a box (a range on each axis of
 * the design space) that contains only this point. */
static void bound_chip(struct pz_call *call, const struct pz_baseline_question *question,
                       uint32_t point, struct candidate_chip *candidate) {
  struct pz_box box = pz_box_of(&question->points[point]);
  struct pz_boxed chip;
  *candidate = (struct candidate_chip){.rank = {.has_chip = true, .point = point}};
  pz_boxed_set(question->task->space, &box, &chip);
  candidate->taken = chip.least;
  candidate->rank.area_um2 = candidate->taken.mm2 * 1e6;
  unsigned worker = (unsigned)pz_max(question->worker, 0);
  candidate->rank.value = pz_search_upper_bound(call, question->search, worker, question->objective,
                                                &chip, candidate->steps);
}

/* Returns the step time of a model on a chip, in seconds: with quick effort a lower bound, with
 * full effort that of the best plan found. */
static double evaluate_step(struct pz_call *call, const struct pz_baseline_question *question,
                            uint32_t point, uint32_t model, enum pz_effort effort) {
  const struct pz_point *chip_point = &question->points[point];
  unsigned worker = (unsigned)pz_max(question->worker, 0);
  pz_baseline_check_stop(call, question);
  struct pz_evaluation evaluation =
      pz_search_evaluate_chip(call, question->search, worker, chip_point, model, PZ_EFFORT_QUICK);
  bool is_open = evaluation.least_s < evaluation.step_s; /* more effort may find a faster plan */
  if (effort == PZ_EFFORT_FULL && is_open)
    evaluation =
        pz_search_evaluate_chip(call, question->search, worker, chip_point, model, PZ_EFFORT_FULL);
  return effort == PZ_EFFORT_FULL ? evaluation.step_s : evaluation.least_s;
}

/* Returns the objective of a chip with full effort for every model, or 0 if a model has no plan. */
double pz_baseline_value(struct pz_call *call, const struct pz_baseline_question *question,
                         uint32_t point) {
  const struct pz_objective *objective = question->objective;
  struct candidate_chip candidate;
  bound_chip(call, question, point, &candidate);
  for (uint32_t i = 0; i < objective->n && candidate.rank.value > 0; i++) {
    uint32_t model = objective->models[i];
    candidate.steps[model].step_s = evaluate_step(call, question, point, model, PZ_EFFORT_FULL);
    if (!(candidate.steps[model].step_s < HUGE_VAL)) return 0;
  }
  return pz_objective_value(objective, candidate.steps, &candidate.taken);
}

struct ranked_point {
  double bound; /* upper bound on the value of the chip */
  uint32_t point;
};

/* Compares two chips for qsort(): the higher bound first, then the lower index. */
static int compare_ranked(const void *left, const void *right) {
  const struct ranked_point *first = left, *second = right;
  if (first->bound != second->bound) return first->bound > second->bound ? -1 : 1;
  return (first->point > second->point) - (first->point < second->point);
}

/* Makes *best the best of these chips and of the previous *best.  Chips are considered in descending
 * order of their upper bounds, so that the first ones exclude most of the others. */
void pz_baseline_consider(struct pz_call *call, const struct pz_baseline_question *question,
                          const uint32_t *points, uint32_t n, struct pz_baseline_best *best) {
  struct ranked_point *ranked = pz_alloc(call, n, sizeof *ranked);
  for (uint32_t i = 0; i < n; i++) {
    struct candidate_chip candidate;
    bound_chip(call, question, points[i], &candidate);
    ranked[i] = (struct ranked_point){candidate.rank.value, points[i]};
  }
  qsort(ranked, n, sizeof *ranked, compare_ranked);
  for (uint32_t k = 0; k < n; k++) {
    /* Replace the bounds on the models' steps one by one, first by those of a quick evaluation, then
     * by exact times, as long as the chip may be better than the best. */
    const struct pz_objective *objective = question->objective;
    struct candidate_chip candidate;
    bound_chip(call, question, ranked[k].point, &candidate);
    for (enum pz_effort effort = PZ_EFFORT_QUICK; effort <= PZ_EFFORT_FULL; effort++)
      for (uint32_t i = 0; i < objective->n && may_be_best(best, &candidate.rank); i++) {
        uint32_t model = objective->models[i];
        candidate.steps[model].step_s =
            evaluate_step(call, question, ranked[k].point, model, effort);
        candidate.rank.value = pz_objective_value(objective, candidate.steps, &candidate.taken);
      }
    candidate.rank.n_considered = best->n_considered;
    if (may_be_best(best, &candidate.rank)) *best = candidate.rank;
  }
  best->n_considered += n;
}

/* Returns the best plans on the best chip. */
struct pz_baseline_answer pz_baseline_conclude(struct pz_call *call,
                                               const struct pz_baseline_question *question,
                                               const struct pz_baseline_best *best) {
  if (!best->has_chip)
    pz_raise(call, PZ_NO_ANSWER, "none of the %u chips evaluated can run all models",
             best->n_considered);
  struct pz_baseline_answer answer = pz_baseline_place_point(call, question, best->point);
  answer.n_evaluated = best->n_considered;
  return answer;
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct pz_baseline baselines[] = {
    {"tpuv4-expert", "the original system's TPUv4, experts' plans", pz_baseline_existing_chip,
     "tpuv4", true},
    {"tpuv4-placed", "the same chip, plans by the placement search", pz_baseline_existing_chip,
     "tpuv4", false},
    {"tpuv4-real-expert", "the real TPUv4, experts' plans", pz_baseline_existing_chip, "tpuv4-real",
     true},
    {"tpuv4-real-placed", "the same chip, plans by the placement search", pz_baseline_existing_chip,
     "tpuv4-real", false},
    {"spotlight-expert", "Bayesian optimisation of the chip alone, experts' plans",
     pz_baseline_spotlight, NULL, true},
    {"spotlight-placed", "the same chip, plans by the placement search", pz_baseline_spotlight,
     NULL, false},
    {"original", "the original system's sweep over decreasing areas", pz_baseline_sweep, NULL,
     false},
    {"random", "the best of as many random chips as the search evaluated", pz_baseline_random, NULL,
     false},
};

const struct pz_baseline *pz_baseline_at(size_t i) {
  return i < sizeof baselines / sizeof *baselines ? &baselines[i] : NULL;
}

/* Returns the baseline of this name, or NULL. */
const struct pz_baseline *pz_baseline_find(const char *name) {
  for (size_t i = 0; pz_baseline_at(i); i++)
    if (strcmp(baselines[i].name, name) == 0) return &baselines[i];
  return NULL;
}
