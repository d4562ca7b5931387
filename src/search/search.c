#include "search/search.h"
#include "search/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"

#define NO_MEMORY "out of memory for the search"

const char *const pz_chip_status_names[PZ_CHIP_STATUSES] = {"tables", "schedules", "evaluated"};

/* ---- bounds of every chip ------------------------------------------------------------------- */

enum { CHUNK = 32 };

static void bound_chunk(void *ctx, size_t i, unsigned worker) {
  struct pz_search *s = ctx;
  struct pz_bounds_at *at = s->evaluators[worker].at;
  if (pz_search_stopped(s)) return;
  uint32_t p = (uint32_t)i * CHUNK, first = p;
  for (; p < s->n_points && p < (i + 1) * CHUNK; p++) {
    pz_bounds_go(at, &s->points[p]);
    for (uint32_t m = 0; m < s->n_models; m++)
      *pz_bound_at(s, p, m) = pz_rate(s, pz_bounds_model_s(at, m));
  }
  pz_progress_add(s->o.progress, p - first);
}

static void look_at_chips(struct pz_search *s) {
  for (uint32_t p = 0; p < s->n_points; p++) {
    struct pz_chip c;
    pz_space_chip(s->task->space, &s->points[p], &c);
    struct pz_area area = pz_chip_area(&c);
    s->nature[p] = (struct pz_nature){pz_area_total_um2(&area), pz_chip_peak_watts(&c)};
  }
}

/* ---- what was found earlier ----------------------------------------------------------------- */

static int by_id(const void *a, const void *b) {
  const struct pz_point *x = a, *y = b;
  return (x->id > y->id) - (x->id < y->id);
}

/* Can it be of this search?  Its variant must be the model's, its stages must have all the
 * layers. */
static bool plausible(const struct pz_search *s, const struct pz_entry *entry) {
  const struct pz_portfolio *p = s->task->portfolio;
  const struct pz_plan_record *plan = &entry->e.plan;
  int64_t layers = 0;
  if (entry->model >= s->n_models || entry->e.effort < PZ_EFFORT_QUICK ||
      entry->e.effort > PZ_EFFORT_FULL || entry->objective_run < 1)
    return false;
  if (!(entry->e.time_s < HUGE_VAL)) return true;
  if (plan->variant < p->first[entry->model] || plan->variant >= p->first[entry->model + 1])
    return false;
  for (uint32_t k = 0; k < plan->n_stages; k++) layers += plan->layers[k];
  return layers == p->variants[plan->variant].w->totals.layers && plan->d >= 1;
}

static enum pz_status take(void *into, const struct pz_entry *entry) {
  struct pz_search *s = into;
  struct pz_point key = {.id = entry->id};
  const struct pz_point *p = bsearch(&key, s->points, s->n_points, sizeof *p, by_id);
  if (!p || !plausible(s, entry)) return PZ_BAD_INPUT;
  struct pz_memo *m = pz_memo_at(s, (uint32_t)(p - s->points), entry->model, entry->e.effort);
  uint16_t *layers = pz_arena_alloc(&s->arena, entry->e.plan.n_stages, sizeof *layers);
  if (!layers) return PZ_NO_MEMORY;
  if (entry->e.plan.n_stages)
    memcpy(layers, entry->e.plan.layers, entry->e.plan.n_stages * sizeof *layers);
  *m = (struct pz_memo){entry->e, true, true, entry->objective_run};
  m->e.plan.layers = layers;
  return PZ_OK;
}

/* ---- making --------------------------------------------------------------------------------- */

static enum pz_status make(struct pz_search *s, struct pz_error *err) {
  size_t n = s->n_points, m = s->n_models;
  struct pz_watch watch = {s->o.stop, s->o.progress};
  enum pz_status status =
      pz_bounds_new(s->task, s->points, s->n_points, s->pool, watch, &s->bounds, err);
  if (status != PZ_OK) return status;
  s->evaluators = pz_calloc(s->n_workers, sizeof *s->evaluators);
  s->nature = pz_calloc(n, sizeof *s->nature);
  s->bound = pz_calloc(n * m, sizeof *s->bound);
  s->memo = pz_calloc(n * m * PZ_SEARCH_EFFORTS, sizeof *s->memo);
  if (!s->evaluators || !s->nature || !s->bound || !s->memo)
    return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  for (unsigned i = 0; i < s->n_workers && status == PZ_OK; i++)
    status = pz_evaluator_init(&s->evaluators[i], s->task, s->bounds, s->o.exhaustive, err);
  if (status != PZ_OK) return status;
  look_at_chips(s);
  pz_progress_next(s->o.progress, "bounds", "chips", n);
  pz_pool_for(s->pool, (n + CHUNK - 1) / CHUNK, bound_chunk, s);
  pz_progress_finish(s->o.progress, NULL);
  if (pz_search_stopped(s)) return pz_fail(err, PZ_STOPPED, "stopped");
  return s->o.journal ? s->o.journal->recall(s->o.journal->ctx, take, s, err) : PZ_OK;
}

enum pz_status pz_search_new(const struct pz_search_task *task, const struct pz_point *points,
                             uint32_t n_points, struct pz_pool *pool,
                             const struct pz_search_options *o, struct pz_search **out,
                             struct pz_error *err) {
  struct pz_search *s = pz_calloc(1, sizeof *s);
  if (!s) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  s->task = task;
  s->points = points;
  s->n_points = n_points;
  s->n_models = task->portfolio->n_models;
  s->objective_run = PZ_NO_RUN;
  s->pool = pool;
  s->o = *o;
  s->n_workers = pz_pool_threads(pool);
  pz_arena_init(&s->arena, NULL);
  enum pz_status status = make(s, err);
  if (status != PZ_OK) {
    pz_search_free(s);
    return status;
  }
  *out = s;
  return PZ_OK;
}

void pz_search_free(struct pz_search *s) {
  if (!s) return;
  for (unsigned i = 0; s->evaluators && i < s->n_workers; i++)
    pz_evaluator_release(&s->evaluators[i]);
  pz_bounds_free(s->bounds);
  pz_arena_release(&s->arena);
  pz_free(s->evaluators);
  pz_free(s->nature);
  pz_free(s->bound);
  pz_free(s->memo);
  pz_free(s);
}

/* ---- evaluations ---------------------------------------------------------------------------- */

enum pz_status pz_search_know(struct pz_search *s, uint32_t point, uint32_t model,
                              enum pz_effort effort, unsigned worker, struct pz_error *err) {
  struct pz_memo *m = pz_memo_at(s, point, model, effort);
  if (m->known) return PZ_OK;
  enum pz_status status = pz_evaluate(&s->evaluators[worker], &s->points[point], model,
                                      pz_task_most_hbm(s->task), effort, &m->e, err);
  m->known = status == PZ_OK;
  m->objective_run = s->objective_run;
  return status;
}

enum pz_status pz_search_keep(struct pz_search *s, const uint32_t *points, uint32_t n,
                              struct pz_error *err) {
  const struct pz_journal *j = s->o.journal;
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; j && i < n; i++)
    for (uint32_t m = 0; m < s->n_models; m++)
      for (enum pz_effort e = PZ_EFFORT_QUICK; e <= PZ_EFFORT_FULL && status == PZ_OK; e++) {
        struct pz_memo *memo = pz_memo_at(s, points[i], m, e);
        if (!memo->known || memo->kept) continue;
        struct pz_entry entry = {s->points[points[i]].id, m, memo->objective_run, memo->e};
        status = j->evaluated(j->ctx, &entry, err);
        memo->kept = true;
      }
  return j && status == PZ_OK ? j->commit(j->ctx, err) : status;
}

/* ---- asking --------------------------------------------------------------------------------- */

const struct pz_evaluation *pz_search_known(const struct pz_search *s, uint32_t point,
                                            uint32_t model, enum pz_effort effort) {
  const struct pz_memo *m = pz_memo_at(s, point, model, effort);
  return m->known ? &m->e : NULL;
}

const struct pz_evaluation *pz_search_evaluation(const struct pz_search *s, uint32_t point,
                                                 uint32_t model) {
  for (enum pz_effort e = PZ_EFFORT_FULL; e >= PZ_EFFORT_QUICK; e--) {
    const struct pz_memo *m = pz_memo_at(s, point, model, e);
    if (m->known) return &m->e;
  }
  return NULL;
}

enum pz_status pz_search_evaluate_by(struct pz_search *s, struct pz_evaluator *by, uint32_t point,
                                     uint32_t model, enum pz_effort effort,
                                     const struct pz_evaluation **out, struct pz_error *err) {
  unsigned worker = by ? (unsigned)(by - s->evaluators) : 0;
  enum pz_status status = pz_search_know(s, point, model, effort, worker, err);
  if (status == PZ_OK) *out = &pz_memo_at(s, point, model, effort)->e;
  return status;
}

enum pz_status pz_search_evaluate(struct pz_search *s, uint32_t point, uint32_t model,
                                  enum pz_effort effort, const struct pz_evaluation **out,
                                  struct pz_error *err) {
  return pz_search_evaluate_by(s, NULL, point, model, effort, out, err);
}

double pz_search_bound(const struct pz_search *s, uint32_t point, uint32_t model) {
  return *pz_bound_at(s, point, model);
}

struct pz_evaluator *pz_search_evaluator(struct pz_search *s) {
  return &s->evaluators[0];
}

struct pz_progress *pz_search_progress(const struct pz_search *s) {
  return s->o.progress;
}

uint64_t pz_search_variants(const struct pz_search *s) {
  uint64_t n = 0;
  for (unsigned i = 0; s && i < s->n_workers; i++) n += s->evaluators[i].n_variants;
  return n;
}

double pz_search_area_um2(const struct pz_search *s, uint32_t point) {
  return s->nature[point].area_um2;
}

double pz_search_watts(const struct pz_search *s, uint32_t point) { return s->nature[point].watts; }

double pz_search_value(const struct pz_search *s, const struct pz_objective *o, uint32_t point,
                       bool bound) {
  double v[PZ_SEARCH_MOST_MODELS] = {0};
  for (uint32_t i = 0; i < o->n; i++) {
    const struct pz_evaluation *e = pz_search_evaluation(s, point, o->models[i]);
    v[o->models[i]] = e ? pz_rate(s, bound ? e->least_s : e->time_s) : 0;
  }
  return pz_value_of(s, o, point, v);
}

double pz_search_table_bound(const struct pz_search *s, const struct pz_objective *o,
                             uint32_t point) {
  return pz_value_of(s, o, point, pz_bound_at(s, point, 0));
}

struct each {
  struct pz_search *s;
  pz_search_fn *fn;
  void *ctx;
  struct pz_error *errors;
};

static void do_one(void *ctx, size_t i, unsigned worker) {
  struct each *x = ctx;
  struct pz_error *err = &x->errors[i];
  err->status =
      pz_search_stopped(x->s) ? PZ_STOPPED : x->fn(x->ctx, i, &x->s->evaluators[worker], err);
}

enum pz_status pz_search_each(struct pz_search *s, size_t n, pz_search_fn *fn, void *ctx,
                              struct pz_error *err) {
  struct each x = {s, fn, ctx, pz_calloc(n + 1, sizeof *x.errors)};
  enum pz_status status = PZ_OK;
  if (!x.errors) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  pz_pool_for(s->pool, n, do_one, &x);
  for (size_t i = 0; i < n && status == PZ_OK; i++) status = x.errors[i].status;
  for (size_t i = 0; i < n && status != PZ_OK && err && err->status == PZ_OK; i++)
    if (x.errors[i].status == status) *err = x.errors[i];
  pz_free(x.errors);
  return status;
}

struct look {
  struct pz_search *s;
  const uint32_t *points;
  const struct pz_objective *o;
};

static enum pz_status look_at_one(void *ctx, size_t i, struct pz_evaluator *e,
                                  struct pz_error *err) {
  struct look *x = ctx;
  enum pz_status status = PZ_OK;
  for (uint32_t k = 0; k < x->o->n && status == PZ_OK; k++)
    status = pz_search_know(x->s, x->points[i], x->o->models[k], PZ_EFFORT_QUICK,
                            (unsigned)(e - x->s->evaluators), err);
  return status;
}

enum pz_status pz_search_look(struct pz_search *s, const uint32_t *points, uint32_t n,
                              const struct pz_objective *o, struct pz_error *err) {
  struct look x = {s, points, o};
  enum pz_status status = pz_search_each(s, n, look_at_one, &x, err);
  enum pz_status kept = pz_search_keep(s, points, n, err);
  return status == PZ_OK ? kept : status;
}
