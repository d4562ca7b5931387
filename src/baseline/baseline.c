/* The table of the baselines, and what they share: the best plans and the experts' plans on one
 * chip, model by model in parallel (for_each_model), and the best of several chips
 * (pz_baseline_see), with as little effort as proves it. */
#include "baseline/baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"

void pz_baseline_check_stop(struct pz_call *call, const struct pz_baseline_question *question) {
  if (question->stop && atomic_load(question->stop)) pz_raise(call, PZ_STOPPED, "stopped");
}

/* ---- plans on one chip ---------------------------------------------------------------------- */

/* Evaluates one model on a chip, which ctx holds together with the result. */
typedef void model_fn(struct pz_call *call, void *ctx, uint32_t model,
                      struct pz_original_worker *worker);

struct model_tasks {
  const struct pz_baseline_question *question;
  model_fn *fn;
  void *ctx;
};

static void run_model_task(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  const struct model_tasks *tasks = ctx;
  const struct pz_baseline_question *question = tasks->question;
  pz_baseline_check_stop(call, question);
  tasks->fn(call, tasks->ctx, question->objective->models[i],
            pz_original_worker(question->by, worker));
}

/* Calls fn for every model of the question: in parallel, or by the worker of the calling task if
 * other tasks run beside it. */
static void for_each_model(struct pz_call *call, const struct pz_baseline_question *question,
                           model_fn *fn, void *ctx) {
  struct model_tasks model_tasks = {question, fn, ctx};
  if (question->worker < 0) {
    struct pz_search_tasks tasks = {.fn = run_model_task, .ctx = &model_tasks};
    pz_search_run_tasks(call, question->search, question->objective->n, &tasks);
    return;
  }
  for (uint32_t i = 0; i < question->objective->n; i++)
    run_model_task(call, &model_tasks, i, (unsigned)question->worker);
}

/* The question for the best plans on a chip, and the answers by model. */
struct placing {
  const struct pz_baseline_question *question;
  const struct pz_chip *chip;
  const struct pz_point *point; /* NULL if the chip is not of the space */
  double samples_per_s[PZ_SEARCH_MOST_MODELS];
  double least_gib[PZ_SEARCH_MOST_MODELS]; /* the least memory with the same throughput */
};

/* Samples per second with the best plan; 0 if none fits. */
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

/* Finds the throughput of a model with the largest memory, and the least memory with the same
 * throughput.  More memory is never slower, so that the first choice that is as fast as the
 * largest is the least. */
static void place_model(struct pz_call *call, void *ctx, uint32_t model,
                        struct pz_original_worker *worker) {
  struct placing *placing = ctx;
  const struct pz_choices *hbm = &placing->question->task->o.hbm_gib;
  double most_gib = pz_task_most_hbm(placing->question->task);
  placing->samples_per_s[model] = throughput_with(call, placing, worker, model, most_gib);
  placing->least_gib[model] = most_gib;
  for (int h = 0; h + 1 < hbm->n; h++) {
    double gib = (double)hbm->v[h];
    if (throughput_with(call, placing, worker, model, gib) >= placing->samples_per_s[model]) {
      placing->least_gib[model] = gib;
      return;
    }
  }
}

/* Finds the best plans of all models of the question on a chip. */
static struct pz_baseline_answer place_models(struct pz_call *call, struct placing *placing) {
  struct pz_baseline_answer answer = {.chip = *placing->chip, .n_evaluated = 1};
  for_each_model(call, placing->question, place_model, placing);
  for (uint32_t i = 0; i < placing->question->objective->n; i++) {
    uint32_t model = placing->question->objective->models[i];
    answer.samples_per_s[model] = placing->samples_per_s[model];
    answer.hbm_gib = fmax(answer.hbm_gib, placing->least_gib[model]);
  }
  return answer;
}

struct pz_baseline_answer pz_baseline_place(struct pz_call *call,
                                            const struct pz_baseline_question *question,
                                            const struct pz_chip *chip) {
  struct placing placing = {.question = question, .chip = chip};
  return place_models(call, &placing);
}

struct pz_baseline_answer pz_baseline_place_point(struct pz_call *call,
                                                  const struct pz_baseline_question *question,
                                                  uint32_t point) {
  struct pz_chip chip;
  pz_space_chip(question->task->space, &question->points[point], &chip);
  struct placing placing = {.question = question, .chip = &chip, .point = &question->points[point]};
  return place_models(call, &placing);
}

/* The experts' plans on a chip, by model. */
struct expert_plans {
  const struct pz_chip *chip;
  struct pz_reference reference[PZ_SEARCH_MOST_MODELS];
};

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

/* A chip with its steps and its value, which are bounds until they are evaluated. */
struct seen_chip {
  struct pz_baseline_best now;
  struct pz_taken taken;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
};

/* Returns whether a chip, whose value may be an upper bound, may be better than the best one so
 * far. */
static bool may_lead(const struct pz_baseline_best *best, const struct pz_baseline_best *now) {
  if (!best->any) return now->value > 0;
  if (now->value != best->value) return now->value > best->value;
  if (now->area_um2 != best->area_um2) return now->area_um2 < best->area_um2;
  return now->point < best->point;
}

static unsigned worker_of(const struct pz_baseline_question *question) {
  return question->worker < 0 ? 0 : (unsigned)question->worker;
}

/* Sets the area of a chip, and upper bounds on its value and lower bounds on its steps. */
static void bound_chip(struct pz_call *call, const struct pz_baseline_question *question,
                       uint32_t point, struct seen_chip *seen) {
  struct pz_box box = pz_box_of(&question->points[point]);
  struct pz_boxed chip;
  *seen = (struct seen_chip){.now = {.any = true, .point = point}};
  pz_boxed_set(question->task->space, &box, &chip);
  seen->taken = chip.least;
  seen->now.area_um2 = seen->taken.mm2 * 1e6;
  seen->now.value = pz_search_upper_bound(call, question->search, worker_of(question),
                                          question->objective, &chip, seen->steps);
}

/* Returns the step of a model on a chip: with quick effort a lower bound, with full effort the
 * best that was found. */
static double evaluate_step(struct pz_call *call, const struct pz_baseline_question *question,
                            uint32_t point, uint32_t model, enum pz_effort effort) {
  const struct pz_point *chip_point = &question->points[point];
  unsigned worker = worker_of(question);
  pz_baseline_check_stop(call, question);
  struct pz_evaluation evaluation =
      pz_search_evaluate_chip(call, question->search, worker, chip_point, model, PZ_EFFORT_QUICK);
  if (effort == PZ_EFFORT_FULL && evaluation.least_s < evaluation.step_s)
    evaluation =
        pz_search_evaluate_chip(call, question->search, worker, chip_point, model, PZ_EFFORT_FULL);
  return effort == PZ_EFFORT_FULL ? evaluation.step_s : evaluation.least_s;
}

/* Updates *best by a chip.  Effort is spent only while the chip may still be the best. */
static void see_chip(struct pz_call *call, const struct pz_baseline_question *question,
                     uint32_t point, struct pz_baseline_best *best) {
  const struct pz_objective *objective = question->objective;
  struct seen_chip seen;
  bound_chip(call, question, point, &seen);
  for (enum pz_effort effort = PZ_EFFORT_QUICK; effort <= PZ_EFFORT_FULL; effort++)
    for (uint32_t i = 0; i < objective->n && may_lead(best, &seen.now); i++) {
      uint32_t model = objective->models[i];
      seen.steps[model].step_s = evaluate_step(call, question, point, model, effort);
      seen.now.value = pz_objective_value(objective, seen.steps, &seen.taken);
    }
  seen.now.n_seen = best->n_seen;
  if (may_lead(best, &seen.now)) *best = seen.now;
}

/* Returns the objective of a chip with full effort for every model; 0 if a model has no plan. */
double pz_baseline_value(struct pz_call *call, const struct pz_baseline_question *question,
                         uint32_t point) {
  const struct pz_objective *objective = question->objective;
  struct seen_chip seen;
  bound_chip(call, question, point, &seen);
  for (uint32_t i = 0; i < objective->n && seen.now.value > 0; i++) {
    uint32_t model = objective->models[i];
    seen.steps[model].step_s = evaluate_step(call, question, point, model, PZ_EFFORT_FULL);
    if (!(seen.steps[model].step_s < HUGE_VAL)) return 0;
  }
  return pz_objective_value(objective, seen.steps, &seen.taken);
}

struct ranked_point {
  double bound;
  uint32_t point;
};

static int compare_ranked(const void *a, const void *b) {
  const struct ranked_point *x = a, *y = b;
  if (x->bound != y->bound) return x->bound > y->bound ? -1 : 1;
  return (x->point > y->point) - (x->point < y->point);
}

/* Updates *best by these chips, the most promising first, so that bounds exclude most of the
 * others. */
void pz_baseline_see(struct pz_call *call, const struct pz_baseline_question *question,
                     const uint32_t *points, uint32_t n, struct pz_baseline_best *best) {
  struct ranked_point *list = pz_alloc(call, n, sizeof *list);
  for (uint32_t i = 0; i < n; i++) {
    struct seen_chip seen;
    bound_chip(call, question, points[i], &seen);
    list[i] = (struct ranked_point){seen.now.value, points[i]};
  }
  qsort(list, n, sizeof *list, compare_ranked);
  for (uint32_t i = 0; i < n; i++) see_chip(call, question, list[i].point, best);
  best->n_seen += n;
}

/* Returns the answer for the best chip; an error if there is none. */
struct pz_baseline_answer pz_baseline_conclude(struct pz_call *call,
                                               const struct pz_baseline_question *question,
                                               const struct pz_baseline_best *best) {
  if (!best->any)
    pz_raise(call, PZ_NO_ANSWER, "none of the %u chips evaluated can run all models", best->n_seen);
  struct pz_baseline_answer answer = pz_baseline_place_point(call, question, best->point);
  answer.n_evaluated = best->n_seen;
  return answer;
}

/* ---- the table ------------------------------------------------------------------------------ */

static const struct pz_baseline baselines[] = {
    {"tpuv4-expert", "the original system's TPUv4, experts' plans", pz_baseline_tpuv4_expert},
    {"tpuv4-placed", "the same chip, plans by the placement search", pz_baseline_tpuv4_placed},
    {"tpuv4-real-expert", "the real TPUv4, experts' plans", pz_baseline_tpuv4_real_expert},
    {"tpuv4-real-placed", "the same chip, plans by the placement search",
     pz_baseline_tpuv4_real_placed},
    {"spotlight-expert", "Bayesian optimisation of the chip alone, experts' plans",
     pz_baseline_spotlight_expert},
    {"spotlight-placed", "the same chip, plans by the placement search",
     pz_baseline_spotlight_placed},
    {"original", "the original system's sweep over decreasing areas", pz_baseline_sweep},
    {"random", "the best of as many random chips as the search evaluated", pz_baseline_random},
};

const struct pz_baseline *pz_baseline_at(size_t i) {
  return i < sizeof baselines / sizeof *baselines ? &baselines[i] : NULL;
}

const struct pz_baseline *pz_baseline_find(const char *name) {
  for (size_t i = 0; pz_baseline_at(i); i++)
    if (strcmp(baselines[i].name, name) == 0) return &baselines[i];
  return NULL;
}
