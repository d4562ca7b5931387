/* The table of the baselines, and what they share: the best plans and the experts' plans on one chip, model by model in
 * parallel (for_each_model), and the best of several chips (pz_baseline_see), with as little effort as proves it. */
#include "baseline/baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"

void pz_baseline_check_stop(struct pz_call *call, const struct pz_baseline_question *q) {
  if (q->stop && atomic_load(q->stop)) pz_raise(call, PZ_STOPPED, "stopped");
}

/* ---- plans on one chip ---------------------------------------------------------------------- */

/* Evaluates one model on the chip of ctx. */
typedef void model_fn(struct pz_call *call, void *ctx, uint32_t model,
                      struct pz_original_worker *w);

struct model_tasks {
  const struct pz_baseline_question *q;
  model_fn *fn;
  void *ctx;
};

static void run_model_task(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  const struct model_tasks *x = ctx;
  pz_baseline_check_stop(task, x->q);
  x->fn(task, x->ctx, x->q->objective->models[i], pz_original_worker(x->q->by, worker));
}

static void for_each_model(struct pz_call *call, const struct pz_baseline_question *q, model_fn *fn,
                           void *ctx) {
  struct model_tasks x = {q, fn, ctx};
  if (q->worker < 0) {
    struct pz_search_tasks tasks = {.fn = run_model_task, .ctx = &x};
    pz_search_run_tasks(call, q->search, q->objective->n, &tasks);
    return;
  }
  for (uint32_t i = 0; i < q->objective->n; i++) run_model_task(call, &x, i, (unsigned)q->worker);
}

/* The best plans on a chip. */
struct placing {
  const struct pz_baseline_question *q;
  const struct pz_chip *chip;
  const struct pz_point *point; /* NULL: the chip is not of the space */
  double samples_per_s[PZ_SEARCH_MOST_MODELS];
  double least_gib[PZ_SEARCH_MOST_MODELS]; /* the least memory with the same throughput */
};

static double throughput_with(struct pz_call *call, const struct placing *x,
                              struct pz_original_worker *w, uint32_t model, double hbm_gib) {
  pz_baseline_check_stop(call, x->q);
  struct pz_evaluation v =
      x->point ? pz_original_evaluate(call, w, x->point, model, hbm_gib, PZ_EFFORT_FULL, HUGE_VAL)
               : pz_original_evaluate_chip(call, w, x->chip, model, hbm_gib, PZ_EFFORT_FULL);
  return v.step_s < HUGE_VAL ? (double)x->q->task->o.batch / v.step_s : 0;
}

/* More memory is never slower, so that the first choice that is as fast as the largest is the least. */
static void place_model(struct pz_call *call, void *ctx, uint32_t m, struct pz_original_worker *w) {
  struct placing *x = ctx;
  const struct pz_choices *hbm = &x->q->task->o.hbm_gib;
  double most_gib = pz_task_most_hbm(x->q->task);
  x->samples_per_s[m] = throughput_with(call, x, w, m, most_gib);
  x->least_gib[m] = most_gib;
  for (int h = 0; h + 1 < hbm->n; h++) {
    double gib = (double)hbm->v[h];
    if (throughput_with(call, x, w, m, gib) >= x->samples_per_s[m]) {
      x->least_gib[m] = gib;
      return;
    }
  }
}

static struct pz_baseline_answer place_models(struct pz_call *call, struct placing *x) {
  struct pz_baseline_answer answer = {.chip = *x->chip, .n_evaluated = 1};
  for_each_model(call, x->q, place_model, x);
  for (uint32_t i = 0; i < x->q->objective->n; i++) {
    uint32_t m = x->q->objective->models[i];
    answer.samples_per_s[m] = x->samples_per_s[m];
    answer.hbm_gib = fmax(answer.hbm_gib, x->least_gib[m]);
  }
  return answer;
}

struct pz_baseline_answer pz_baseline_place(struct pz_call *call,
                                            const struct pz_baseline_question *q,
                                            const struct pz_chip *chip) {
  struct placing x = {.q = q, .chip = chip};
  return place_models(call, &x);
}

struct pz_baseline_answer pz_baseline_place_point(struct pz_call *call,
                                                  const struct pz_baseline_question *q,
                                                  uint32_t point) {
  struct pz_chip chip;
  pz_space_chip(q->task->space, &q->points[point], &chip);
  struct placing x = {.q = q, .chip = &chip, .point = &q->points[point]};
  return place_models(call, &x);
}

/* The experts' plans on a chip. */
struct expert_plans {
  const struct pz_chip *chip;
  struct pz_reference reference[PZ_SEARCH_MOST_MODELS];
};

static void find_expert_plan(struct pz_call *call, void *ctx, uint32_t m,
                             struct pz_original_worker *w) {
  struct expert_plans *x = ctx;
  x->reference[m] = pz_reference_on(call, w, x->chip, m);
}

struct pz_baseline_answer pz_baseline_expert(struct pz_call *call,
                                             const struct pz_baseline_question *q,
                                             const struct pz_chip *chip) {
  struct expert_plans x = {.chip = chip};
  struct pz_baseline_answer answer = {.chip = *chip, .n_evaluated = 1};
  for_each_model(call, q, find_expert_plan, &x);
  for (uint32_t i = 0; i < q->objective->n; i++) {
    uint32_t m = q->objective->models[i];
    answer.samples_per_s[m] = x.reference[m].samples_per_s;
    answer.expert[m] = x.reference[m].expert;
    answer.hbm_gib = fmax(answer.hbm_gib, x.reference[m].hbm_gib);
  }
  return answer;
}

/* ---- the best of several chips -------------------------------------------------------------- */

double pz_baseline_area_um2(const struct pz_baseline_question *q, uint32_t point) {
  struct pz_chip chip;
  pz_space_chip(q->task->space, &q->points[point], &chip);
  return pz_chip_taken(&chip).mm2 * 1e6;
}

/* A chip with its steps and its value, which are bounds until they are evaluated. */
struct seen_chip {
  struct pz_baseline_best now;
  struct pz_taken taken;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
};

static bool may_lead(const struct pz_baseline_best *best, const struct pz_baseline_best *now) {
  if (!best->any) return now->value > 0;
  if (now->value != best->value) return now->value > best->value;
  if (now->area_um2 != best->area_um2) return now->area_um2 < best->area_um2;
  return now->point < best->point;
}

static unsigned worker_of(const struct pz_baseline_question *q) {
  return q->worker < 0 ? 0 : (unsigned)q->worker;
}

static void bound_chip(struct pz_call *call, const struct pz_baseline_question *q, uint32_t point,
                       struct seen_chip *c) {
  struct pz_box b = pz_box_of(&q->points[point]);
  struct pz_boxed chip;
  *c = (struct seen_chip){.now = {.any = true, .point = point}};
  pz_boxed_set(q->task->space, &b, &chip);
  c->taken = chip.least;
  c->now.area_um2 = c->taken.mm2 * 1e6;
  c->now.value =
      pz_search_upper_bound(call, q->search, worker_of(q), q->objective, &chip, c->steps);
}

/* The step of a model on a chip: with quick effort a lower bound, with full effort the best that was found. */
static double evaluate_step(struct pz_call *call, const struct pz_baseline_question *q,
                            uint32_t point, uint32_t model, enum pz_effort effort) {
  const struct pz_point *p = &q->points[point];
  unsigned worker = worker_of(q);
  pz_baseline_check_stop(call, q);
  struct pz_evaluation e =
      pz_search_evaluate_chip(call, q->search, worker, p, model, PZ_EFFORT_QUICK);
  if (effort == PZ_EFFORT_FULL && e.least_s < e.step_s)
    e = pz_search_evaluate_chip(call, q->search, worker, p, model, PZ_EFFORT_FULL);
  return effort == PZ_EFFORT_FULL ? e.step_s : e.least_s;
}

/* Effort is spent only while the chip may still be the best. */
static void see_chip(struct pz_call *call, const struct pz_baseline_question *q, uint32_t point,
                     struct pz_baseline_best *best) {
  const struct pz_objective *o = q->objective;
  struct seen_chip c;
  bound_chip(call, q, point, &c);
  for (enum pz_effort effort = PZ_EFFORT_QUICK; effort <= PZ_EFFORT_FULL; effort++)
    for (uint32_t i = 0; i < o->n && may_lead(best, &c.now); i++) {
      uint32_t m = o->models[i];
      c.steps[m].step_s = evaluate_step(call, q, point, m, effort);
      c.now.value = pz_objective_value(o, c.steps, &c.taken);
    }
  c.now.n_seen = best->n_seen;
  if (may_lead(best, &c.now)) *best = c.now;
}

double pz_baseline_value(struct pz_call *call, const struct pz_baseline_question *q,
                         uint32_t point) {
  const struct pz_objective *o = q->objective;
  struct seen_chip c;
  bound_chip(call, q, point, &c);
  for (uint32_t i = 0; i < o->n && c.now.value > 0; i++) {
    uint32_t m = o->models[i];
    c.steps[m].step_s = evaluate_step(call, q, point, m, PZ_EFFORT_FULL);
    if (!(c.steps[m].step_s < HUGE_VAL)) return 0;
  }
  return pz_objective_value(o, c.steps, &c.taken);
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

void pz_baseline_see(struct pz_call *call, const struct pz_baseline_question *q,
                     const uint32_t *points, uint32_t n, struct pz_baseline_best *best) {
  struct ranked_point *list = pz_alloc(call, n, sizeof *list);
  for (uint32_t i = 0; i < n; i++) {
    struct seen_chip c;
    bound_chip(call, q, points[i], &c);
    list[i] = (struct ranked_point){c.now.value, points[i]};
  }
  qsort(list, n, sizeof *list, compare_ranked);
  for (uint32_t i = 0; i < n; i++) see_chip(call, q, list[i].point, best);
  best->n_seen += n;
}

struct pz_baseline_answer pz_baseline_conclude(struct pz_call *call,
                                               const struct pz_baseline_question *q,
                                               const struct pz_baseline_best *best) {
  if (!best->any)
    pz_raise(call, PZ_NO_ANSWER, "none of the %u chips evaluated can run all models", best->n_seen);
  struct pz_baseline_answer answer = pz_baseline_place_point(call, q, best->point);
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
