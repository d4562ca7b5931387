#include "baseline/baseline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"

static const struct pz_baseline table[] = {
    {"tpuv4-expert", "the original system's TPUv4, experts' plans", pz_baseline_tpuv4_expert},
    {"tpuv4-placed", "the same chip, plans by the placement search", pz_baseline_tpuv4_placed},
    {"tpuv4-real-expert", "the real TPUv4, experts' plans", pz_baseline_tpuv4_real_expert},
    {"tpuv4-real-placed", "the same chip, plans by the placement search",
     pz_baseline_tpuv4_real_placed},
    {"spotlight-expert", "Bayesian optimisation of the chip alone, experts' plans",
     pz_baseline_spotlight_expert},
    {"spotlight-placed", "the same chip, plans by the placement search",
     pz_baseline_spotlight_placed},
    {"original", "the original system's sweep over decreasing areas", pz_baseline_original},
    {"random", "the best of as many random chips as the search evaluated", pz_baseline_random},
};

const struct pz_baseline *pz_baseline_at(size_t i) {
  return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

const struct pz_baseline *pz_baseline_find(const char *name) {
  for (size_t i = 0; pz_baseline_at(i); i++)
    if (strcmp(table[i].name, name) == 0) return &table[i];
  return NULL;
}

static enum pz_status may_go_on(const struct pz_baseline_question *q, struct pz_error *err) {
  return q->stop && atomic_load(q->stop) ? pz_fail(err, PZ_STOPPED, "stopped") : PZ_OK;
}

typedef enum pz_status model_fn(void *ctx, uint32_t model, struct pz_original_worker *e,
                                struct pz_error *err);

struct each {
  const struct pz_baseline_question *q;
  model_fn *fn;
  void *ctx;
};

static enum pz_status do_model(void *ctx, size_t i, unsigned worker, struct pz_error *err) {
  const struct each *x = ctx;
  return x->fn(x->ctx, x->q->objective->models[i], pz_original_worker(x->q->by, worker), err);
}

/* A piece of work for each model of the objective. */
static enum pz_status each_model(const struct pz_baseline_question *q, model_fn *fn, void *ctx,
                                 struct pz_error *err) {
  struct each x = {q, fn, ctx};
  struct pz_search_work work = {.fn = do_model, .ctx = &x};
  enum pz_status status = PZ_OK;
  if (q->worker < 0) return pz_search_deal(q->search, q->objective->n, &work, err);
  for (uint32_t i = 0; i < q->objective->n && status == PZ_OK; i++)
    status = do_model(&x, i, (unsigned)q->worker, err);
  return status;
}

/* ---- the best plans on a chip --------------------------------------------------------------- */

/* A chip; its point if it is of the space.  What its models do with the memory that was asked for,
 * or with the most; and the least with which each does the same. */
struct site {
  const struct pz_baseline_question *q;
  const struct pz_chip *chip;
  const struct pz_point *point;
  double hbm_gib; /* 0: the most */
  double rate[PZ_SEARCH_MOST_MODELS], least_gib[PZ_SEARCH_MOST_MODELS];
};

static enum pz_status rate(const struct site *at, struct pz_original_worker *e, uint32_t model,
                           double hbm_gib, double *samples_per_s, struct pz_error *err) {
  struct pz_evaluation v = {.step_s = HUGE_VAL};
  enum pz_status status = may_go_on(at->q, err);
  if (status == PZ_OK)
    status =
        at->point
            ? pz_original_value(e, at->point, model, hbm_gib, PZ_EFFORT_FULL, HUGE_VAL, &v, err)
            : pz_original_value_of_chip(e, at->chip, model, hbm_gib, PZ_EFFORT_FULL, &v, err);
  *samples_per_s = v.step_s < HUGE_VAL ? (double)at->q->task->o.batch / v.step_s : 0;
  return status;
}

/* More memory is never slower. */
static enum pz_status place_model(void *ctx, uint32_t m, struct pz_original_worker *e,
                                  struct pz_error *err) {
  struct site *at = ctx;
  const struct pz_choices *hbm = &at->q->task->o.hbm_gib;
  double most = at->hbm_gib > 0 ? at->hbm_gib : pz_task_most_hbm(at->q->task), now = -1;
  enum pz_status status = rate(at, e, m, most, &at->rate[m], err);
  at->least_gib[m] = most;
  if (at->hbm_gib > 0) return status;
  for (int h = 0; h + 1 < hbm->n && now < at->rate[m] && status == PZ_OK; h++) {
    status = rate(at, e, m, (double)hbm->v[h], &now, err);
    if (now >= at->rate[m]) at->least_gib[m] = (double)hbm->v[h];
  }
  return status;
}

static enum pz_status place(struct site *at, struct pz_baseline_answer *out, struct pz_error *err) {
  struct pz_baseline_answer a = {.chip = *at->chip, .n_evaluated = 1};
  enum pz_status status = each_model(at->q, place_model, at, err);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < at->q->objective->n; i++) {
    uint32_t m = at->q->objective->models[i];
    a.samples_per_s[m] = at->rate[m];
    a.hbm_gib = fmax(a.hbm_gib, at->least_gib[m]);
  }
  *out = a;
  return PZ_OK;
}

enum pz_status pz_baseline_place(const struct pz_baseline_question *q, const struct pz_chip *chip,
                                 double hbm_gib, struct pz_baseline_answer *out,
                                 struct pz_error *err) {
  return place(&(struct site){.q = q, .chip = chip, .hbm_gib = hbm_gib}, out, err);
}

enum pz_status pz_baseline_place_point(const struct pz_baseline_question *q, uint32_t point,
                                       double hbm_gib, struct pz_baseline_answer *out,
                                       struct pz_error *err) {
  struct pz_chip chip;
  pz_space_chip(q->task->space, &q->points[point], &chip);
  struct site at = {.q = q, .chip = &chip, .point = &q->points[point], .hbm_gib = hbm_gib};
  return place(&at, out, err);
}

struct expert {
  const struct pz_baseline_question *q;
  const struct pz_chip *chip;
  struct pz_reference reference[PZ_SEARCH_MOST_MODELS];
};

static enum pz_status ask_expert(void *ctx, uint32_t m, struct pz_original_worker *e,
                                 struct pz_error *err) {
  struct expert *x = ctx;
  enum pz_status status = may_go_on(x->q, err);
  return status == PZ_OK ? pz_reference_on(e, x->chip, m, &x->reference[m], err) : status;
}

enum pz_status pz_baseline_expert(const struct pz_baseline_question *q, const struct pz_chip *chip,
                                  struct pz_baseline_answer *out, struct pz_error *err) {
  struct expert x = {.q = q, .chip = chip};
  struct pz_baseline_answer a = {.chip = *chip, .n_evaluated = 1};
  enum pz_status status = each_model(q, ask_expert, &x, err);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < q->objective->n; i++) {
    uint32_t m = q->objective->models[i];
    a.samples_per_s[m] = x.reference[m].samples_per_s;
    a.expert[m] = x.reference[m].expert;
    a.hbm_gib = fmax(a.hbm_gib, x.reference[m].hbm_gib);
  }
  *out = a;
  return PZ_OK;
}

/* ---- the best of several chips -------------------------------------------------------------- */

double pz_baseline_area_um2(const struct pz_baseline_question *q, uint32_t point) {
  struct pz_chip chip;
  pz_space_chip(q->task->space, &q->points[point], &chip);
  return pz_chip_taken(&chip).mm2 * 1e6;
}

static bool may_lead(const struct pz_baseline_best *best, const struct pz_baseline_best *now) {
  if (!best->any) return now->value > 0;
  if (now->value != best->value) return now->value > best->value;
  if (now->area_um2 != best->area_um2) return now->area_um2 < best->area_um2;
  return now->point < best->point;
}

static unsigned worker_of(const struct pz_baseline_question *q) {
  return q->worker < 0 ? 0 : (unsigned)q->worker;
}

/* What a model's step takes there: at least, by a first look, or found with full effort. */
static enum pz_status look(const struct pz_baseline_question *q, uint32_t point, uint32_t model,
                           enum pz_effort effort, double *step_s, struct pz_error *err) {
  const struct pz_point *p = &q->points[point];
  struct pz_evaluation e;
  enum pz_status status = may_go_on(q, err);
  if (status == PZ_OK)
    status = pz_search_evaluate(q->search, worker_of(q), p, model, PZ_EFFORT_QUICK, &e, err);
  if (status == PZ_OK && effort == PZ_EFFORT_FULL && e.least_s < e.step_s)
    status = pz_search_evaluate(q->search, worker_of(q), p, model, PZ_EFFORT_FULL, &e, err);
  if (status == PZ_OK) *step_s = effort == PZ_EFFORT_FULL ? e.step_s : e.least_s;
  return status;
}

/* A chip and its value: at first the bound from the tables. */
struct shown {
  struct pz_baseline_best now;
  struct pz_taken taken;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
};

static void judge(const struct pz_baseline_question *q, struct shown *c) {
  c->now.value = pz_objective_value(q->objective, c->steps, &c->taken);
}

static enum pz_status show(const struct pz_baseline_question *q, uint32_t point, struct shown *c,
                           struct pz_error *err) {
  struct pz_box b = pz_box_of(&q->points[point]);
  struct pz_boxed chip;
  *c = (struct shown){.now = {.any = true, .point = point}};
  pz_boxed_set(q->task->space, &b, &chip);
  c->taken = chip.least;
  c->now.area_um2 = c->taken.mm2 * 1e6;
  return pz_search_bound(q->search, worker_of(q), q->objective, &chip, c->steps, &c->now.value,
                         err);
}

/* Effort is spent only as long as the chip may still be the best. */
static enum pz_status see(const struct pz_baseline_question *q, uint32_t point,
                          struct pz_baseline_best *best, struct pz_error *err) {
  const struct pz_objective *o = q->objective;
  struct shown c;
  enum pz_status status = show(q, point, &c, err);
  for (enum pz_effort effort = PZ_EFFORT_QUICK; effort <= PZ_EFFORT_FULL; effort++)
    for (uint32_t i = 0; i < o->n && status == PZ_OK && may_lead(best, &c.now); i++) {
      status = look(q, point, o->models[i], effort, &c.steps[o->models[i]].step_s, err);
      judge(q, &c);
    }
  c.now.n_seen = best->n_seen;
  if (status == PZ_OK && may_lead(best, &c.now)) *best = c.now;
  return status;
}

enum pz_status pz_baseline_value(const struct pz_baseline_question *q, uint32_t point,
                                 double *value, struct pz_error *err) {
  const struct pz_objective *o = q->objective;
  struct shown c;
  enum pz_status status = show(q, point, &c, err);
  for (uint32_t i = 0; i < o->n && status == PZ_OK && c.now.value > 0; i++) {
    double *step_s = &c.steps[o->models[i]].step_s;
    status = look(q, point, o->models[i], PZ_EFFORT_FULL, step_s, err);
    if (!(*step_s < HUGE_VAL)) return *value = 0, status;
  }
  judge(q, &c);
  *value = c.now.value;
  return status;
}

struct ranked {
  double bound;
  uint32_t point;
};

static int by_bound(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  if (x->bound != y->bound) return x->bound > y->bound ? -1 : 1;
  return (x->point > y->point) - (x->point < y->point);
}

enum pz_status pz_baseline_see(const struct pz_baseline_question *q, const uint32_t *points,
                               uint32_t n, struct pz_baseline_best *best, struct pz_error *err) {
  struct ranked *list = pz_calloc(n ? n : 1, sizeof *list);
  enum pz_status status = PZ_OK;
  if (!list) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the chips to look at");
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    struct shown c;
    status = show(q, points[i], &c, err);
    list[i] = (struct ranked){c.now.value, points[i]};
  }
  qsort(list, n, sizeof *list, by_bound);
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) status = see(q, list[i].point, best, err);
  best->n_seen += n;
  pz_free(list);
  return status;
}

enum pz_status pz_baseline_conclude(const struct pz_baseline_question *q,
                                    const struct pz_baseline_best *best,
                                    struct pz_baseline_answer *out, struct pz_error *err) {
  if (!best->any)
    return pz_fail(err, PZ_NO_ANSWER, "none of the %u chips evaluated can run all models",
                   best->n_seen);
  enum pz_status status = pz_baseline_place_point(q, best->point, 0, out, err);
  if (status == PZ_OK) out->n_evaluated = best->n_seen;
  return status;
}
