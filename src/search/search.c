#include "search/search.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/tech.h"

enum { LEAST_BATCH = 8, MOST_BATCH = 64, EFFORTS = PZ_EFFORT_FULL };
#define NO_MEMORY "out of memory for the search"

const char *const pz_exit_kind_names[PZ_OUT_KINDS] = {"tables", "schedules", "evaluated"};

/* What a chip is judged by beside the models. */
struct nature {
  double area_um2, watts;
};

struct memo {
  struct pz_evaluation e;
  bool known, kept; /* kept: the journal has it */
};

struct pz_search {
  const struct pz_search_task *task;
  const struct pz_point *points;
  uint32_t n_points, n_models;
  struct pz_pool *pool;
  struct pz_search_options o;
  struct pz_bounds *bounds;
  struct pz_evaluator *evaluators; /* by worker */
  unsigned n_workers;
  struct nature *nature; /* by point */
  double *bound;         /* samples/s, by point and model */
  struct memo *memo;     /* by point, model and effort */
  struct pz_arena arena;
};

static double *bound_at(const struct pz_search *s, uint32_t point, uint32_t model) {
  return &s->bound[(size_t)point * s->n_models + model];
}

static struct memo *memo_at(const struct pz_search *s, uint32_t point, uint32_t model,
                            enum pz_effort effort) {
  return &s->memo[((size_t)point * s->n_models + model) * EFFORTS + (size_t)effort - 1];
}

static double rate(const struct pz_search *s, double time_s) {
  return time_s < HUGE_VAL ? (double)s->task->o.batch / time_s : 0;
}

static double value_of(const struct pz_search *s, const struct pz_objective *o, uint32_t point,
                       const double *samples_per_s) {
  return pz_objective_value(o, samples_per_s, s->nature[point].area_um2, s->nature[point].watts);
}

/* ---- bounds of every chip ------------------------------------------------------------------- */

enum { CHUNK = 32 };

static bool stopped(const struct pz_search *s) { return s->o.stop && atomic_load(s->o.stop); }

static void bound_chunk(void *ctx, size_t i, unsigned worker) {
  struct pz_search *s = ctx;
  struct pz_bounds_at *at = s->evaluators[worker].at;
  if (stopped(s)) return;
  for (uint32_t p = (uint32_t)i * CHUNK; p < s->n_points && p < (i + 1) * CHUNK; p++) {
    pz_bounds_go(at, &s->points[p]);
    for (uint32_t m = 0; m < s->n_models; m++)
      *bound_at(s, p, m) = rate(s, pz_bounds_model_s(at, m));
  }
}

static void look_at_chips(struct pz_search *s) {
  for (uint32_t p = 0; p < s->n_points; p++) {
    struct pz_chip c;
    pz_space_chip(s->task->space, &s->points[p], &c);
    struct pz_area area = pz_chip_area(&c);
    s->nature[p] = (struct nature){pz_area_total_um2(&area), pz_chip_peak_watts(&c)};
  }
}

/* ---- what was found earlier ----------------------------------------------------------------- */

static int by_id(const void *a, const void *b) {
  const struct pz_point *x = a, *y = b;
  return (x->id > y->id) - (x->id < y->id);
}

static enum pz_status take(void *into, const struct pz_entry *entry) {
  struct pz_search *s = into;
  struct pz_point key = {.id = entry->id};
  const struct pz_point *p = bsearch(&key, s->points, s->n_points, sizeof *p, by_id);
  if (!p || entry->model >= s->n_models || entry->e.effort < PZ_EFFORT_QUICK ||
      entry->e.effort > PZ_EFFORT_FULL)
    return PZ_BAD_INPUT;
  struct memo *m = memo_at(s, (uint32_t)(p - s->points), entry->model, entry->e.effort);
  uint16_t *layers = pz_arena_alloc(&s->arena, entry->e.plan.n_stages, sizeof *layers);
  if (!layers) return PZ_NO_MEMORY;
  if (entry->e.plan.n_stages)
    memcpy(layers, entry->e.plan.layers, entry->e.plan.n_stages * sizeof *layers);
  *m = (struct memo){entry->e, true, true};
  m->e.plan.layers = layers;
  return PZ_OK;
}

/* ---- making --------------------------------------------------------------------------------- */

static enum pz_status make(struct pz_search *s, struct pz_error *err) {
  size_t n = s->n_points, m = s->n_models;
  enum pz_status status =
      pz_bounds_new(s->task, s->points, s->n_points, s->pool, s->o.stop, &s->bounds, err);
  if (status != PZ_OK) return status;
  s->evaluators = calloc(s->n_workers, sizeof *s->evaluators);
  s->nature = calloc(n, sizeof *s->nature);
  s->bound = calloc(n * m, sizeof *s->bound);
  s->memo = calloc(n * m * EFFORTS, sizeof *s->memo);
  if (!s->evaluators || !s->nature || !s->bound || !s->memo)
    return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  for (unsigned i = 0; i < s->n_workers && status == PZ_OK; i++)
    status = pz_evaluator_init(&s->evaluators[i], s->task, s->bounds, s->o.exhaustive, err);
  if (status != PZ_OK) return status;
  look_at_chips(s);
  pz_pool_for(s->pool, (n + CHUNK - 1) / CHUNK, bound_chunk, s);
  if (stopped(s)) return pz_fail(err, PZ_STOPPED, "stopped");
  return s->o.journal ? s->o.journal->recall(s->o.journal->ctx, take, s, err) : PZ_OK;
}

enum pz_status pz_search_new(const struct pz_search_task *task, const struct pz_point *points,
                             uint32_t n_points, struct pz_pool *pool,
                             const struct pz_search_options *o, struct pz_search **out,
                             struct pz_error *err) {
  struct pz_search *s = calloc(1, sizeof *s);
  if (!s) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  s->task = task;
  s->points = points;
  s->n_points = n_points;
  s->n_models = task->portfolio->n_models;
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
  free(s->evaluators);
  free(s->nature);
  free(s->bound);
  free(s->memo);
  free(s);
}

/* ---- one chip of a contest ------------------------------------------------------------------ */

struct run {
  struct pz_search *s;
  struct pz_contest *c;
  uint32_t *order;         /* of points, by bound */
  uint32_t at, n;          /* the batch */
  bool any;                /* is there a best yet? */
  struct pz_error *errors; /* by item of the batch */
};

/* Ties go to the smaller chip, then to the lower id. */
static bool smaller(const struct pz_search *s, uint32_t a, uint32_t b) {
  if (s->nature[a].area_um2 != s->nature[b].area_um2)
    return s->nature[a].area_um2 < s->nature[b].area_um2;
  return s->points[a].id < s->points[b].id;
}

/* Could this chip be the best, with this value or less? */
static bool may_win(const struct run *r, uint32_t point, double value) {
  if (!r->any) return value > 0;
  return value > r->c->value || (value == r->c->value && smaller(r->s, point, r->c->best));
}

static enum pz_status evaluate(struct pz_search *s, uint32_t point, uint32_t model,
                               enum pz_effort effort, unsigned worker, struct pz_error *err) {
  struct memo *m = memo_at(s, point, model, effort);
  if (m->known) return PZ_OK;
  enum pz_status status = pz_evaluate(&s->evaluators[worker], &s->points[point], model,
                                      pz_task_most_hbm(s->task), effort, &m->e, err);
  m->known = status == PZ_OK;
  return status;
}

/* Samples/s of the contest's models: found, and at most. */
struct rates {
  double found[PZ_SEARCH_MOST_MODELS], most[PZ_SEARCH_MOST_MODELS];
};

static void set_rates(const struct pz_search *s, uint32_t point, uint32_t model,
                      enum pz_effort effort, struct rates *v) {
  const struct pz_evaluation *e = &memo_at(s, point, model, effort)->e;
  v->found[model] = rate(s, e->time_s);
  v->most[model] = rate(s, e->least_s);
}

/* The samples/s of a model below which the chip cannot win, whatever the others do up to their
 * bounds; by bisection, a hair below. */
static double least_rate(const struct run *r, uint32_t point, uint32_t model,
                         const struct rates *v) {
  struct rates u = *v;
  double low = 0, high = v->most[model];
  for (int i = 0; i < 50; i++) {
    u.most[model] = (low + high) / 2;
    if (may_win(r, point, value_of(r->s, &r->c->objective, point, u.most)))
      high = u.most[model];
    else
      low = u.most[model];
  }
  return low * (1 - 1e-9);
}

/* A first look at a model; false: it shows that the chip cannot win, with the bound in *v. */
static bool look_at_model(const struct run *r, uint32_t point, uint32_t model, unsigned worker,
                          struct rates *v, struct pz_error *err) {
  struct memo *m = memo_at(r->s, point, model, PZ_EFFORT_QUICK);
  const struct pz_objective *o = &r->c->objective;
  if (!m->known && r->any && !r->s->o.exhaustive) {
    struct pz_evaluation e;
    double least = least_rate(r, point, model, v);
    double limit_s = least > 0 ? (double)r->s->task->o.batch / least : HUGE_VAL;
    err->status =
        pz_evaluate_within(&r->s->evaluators[worker], &r->s->points[point], model,
                           pz_task_most_hbm(r->s->task), PZ_EFFORT_QUICK, limit_s, &e, err);
    if (err->status != PZ_OK) return false;
    if (e.effort == PZ_EFFORT_NONE) {
      v->most[model] = rate(r->s, e.least_s);
      return false;
    }
    m->e = e;
    m->known = true;
  }
  err->status = evaluate(r->s, point, model, PZ_EFFORT_QUICK, worker, err);
  if (err->status != PZ_OK) return false;
  set_rates(r->s, point, model, PZ_EFFORT_QUICK, v);
  return r->s->o.exhaustive || may_win(r, point, value_of(r->s, o, point, v->most));
}

/* Model by model, until the chip cannot win any more.  False: it cannot. */
static bool first_look(const struct run *r, uint32_t point, unsigned worker, struct rates *v,
                       struct pz_error *err) {
  const struct pz_objective *o = &r->c->objective;
  for (uint32_t i = 0; i < o->n; i++)
    if (!look_at_model(r, point, o->models[i], worker, v, err)) return false;
  return true;
}

static void consider(void *ctx, size_t i, unsigned worker) {
  struct run *r = ctx;
  uint32_t point = r->order[r->at + i];
  struct rates v = {{0}, {0}};
  if (stopped(r->s)) return;
  for (uint32_t m = 0; m < r->s->n_models; m++) v.most[m] = *bound_at(r->s, point, m);
  bool whole = first_look(r, point, worker, &v, &r->errors[i]);
  double bound = value_of(r->s, &r->c->objective, point, v.most);
  double found = value_of(r->s, &r->c->objective, point, v.found);
  r->c->standing[point] = (struct pz_standing){whole ? PZ_OUT_EVALUATED : PZ_OUT_SCHEDULES,
                                               whole ? found : bound, bound};
}

/* Again with full effort, where schedules were left open. */
static void consider_again(void *ctx, size_t i, unsigned worker) {
  struct run *r = ctx;
  uint32_t point = r->order[r->at + i];
  const struct pz_objective *o = &r->c->objective;
  struct rates v;
  if (stopped(r->s)) return;
  for (uint32_t k = 0; k < o->n; k++) {
    uint32_t m = o->models[k];
    set_rates(r->s, point, m, PZ_EFFORT_QUICK, &v);
    if (!(v.found[m] < v.most[m])) continue;
    r->errors[i].status = evaluate(r->s, point, m, PZ_EFFORT_FULL, worker, &r->errors[i]);
    if (r->errors[i].status != PZ_OK) return;
    set_rates(r->s, point, m, PZ_EFFORT_FULL, &v);
  }
  r->c->standing[point].value = value_of(r->s, o, point, v.found);
  r->c->standing[point].bound = value_of(r->s, o, point, v.most);
}

/* ---- a contest ------------------------------------------------------------------------------ */

struct ranked {
  double value, area_um2;
  uint32_t point;
};

static int by_value(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  if (x->value != y->value) return x->value > y->value ? -1 : 1;
  if (x->area_um2 != y->area_um2) return x->area_um2 < y->area_um2 ? -1 : 1;
  return x->point < y->point ? -1 : 1;
}

/* Points by bound; each stands as excluded until it is considered. */
static enum pz_status rank_points(struct run *r, struct pz_error *err) {
  struct pz_search *s = r->s;
  struct ranked *list = calloc(s->n_points, sizeof *list);
  r->order = pz_arena_alloc(&s->arena, s->n_points, sizeof *r->order);
  r->c->standing = pz_arena_alloc(&s->arena, s->n_points, sizeof *r->c->standing);
  if (!list || !r->order || !r->c->standing) {
    free(list);
    return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  }
  for (uint32_t p = 0; p < s->n_points; p++) {
    double value = value_of(s, &r->c->objective, p, bound_at(s, p, 0));
    list[p] = (struct ranked){value, s->nature[p].area_um2, p};
    r->c->standing[p] = (struct pz_standing){PZ_OUT_TABLES, value, value};
  }
  qsort(list, s->n_points, sizeof *list, by_value);
  for (uint32_t p = 0; p < s->n_points; p++) r->order[p] = list[p].point;
  free(list);
  return PZ_OK;
}

static void merge(struct run *r) {
  for (uint32_t i = 0; i < r->n; i++) {
    uint32_t point = r->order[r->at + i];
    const struct pz_standing *st = &r->c->standing[point];
    if (st->kind != PZ_OUT_EVALUATED || !may_win(r, point, st->value)) continue;
    r->c->best = point;
    r->c->value = st->value;
    r->any = true;
  }
}

/* What is new of these chips goes to the journal. */
static enum pz_status keep(struct pz_search *s, const uint32_t *points, uint32_t n,
                           struct pz_error *err) {
  const struct pz_journal *j = s->o.journal;
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; j && i < n; i++)
    for (uint32_t m = 0; m < s->n_models; m++)
      for (enum pz_effort e = PZ_EFFORT_QUICK; e <= PZ_EFFORT_FULL && status == PZ_OK; e++) {
        struct memo *memo = memo_at(s, points[i], m, e);
        if (!memo->known || memo->kept) continue;
        struct pz_entry entry = {s->points[points[i]].id, m, memo->e};
        status = j->evaluated(j->ctx, &entry, err);
        memo->kept = true;
      }
  return j && status == PZ_OK ? j->commit(j->ctx, err) : status;
}

/* "18 stages x 56 replicas, tensor 1" of the first model. */
static void plan_text(const struct run *r, char *buf, size_t size) {
  uint32_t model = r->c->objective.models[0];
  const struct pz_evaluation *e = pz_search_evaluation(r->s, r->c->best, model);
  if (!e) return;
  const struct pz_load *l = &r->s->task->portfolio->loads[e->plan.load];
  snprintf(buf, size, ": %u stages x %" PRId64 ", tensor %" PRId64 ", microbatch %" PRId64,
           e->plan.n_stages, e->plan.d, l->tp, l->mbs);
}

/* After this batch: those whose bounds are not above the best are done with.  By bisection, since
 * bounds fall along the order. */
static uint32_t candidates_left(const struct run *r) {
  uint32_t low = r->at + r->n, high = r->s->n_points, first = low;
  if (r->s->o.exhaustive) return high - low;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (may_win(r, r->order[middle], r->c->standing[r->order[middle]].bound))
      low = middle + 1;
    else
      high = middle;
  }
  return low - first;
}

static void show(const struct run *r) {
  char note[200] = "", plan[80] = "";
  struct pz_chip c;
  if (!r->s->o.progress || !r->any) return;
  pz_space_chip(r->s->task->space, &r->s->points[r->c->best], &c);
  plan_text(r, plan, sizeof plan);
  uint32_t done = r->s->n_points - candidates_left(r);
  snprintf(note, sizeof note, "%u evaluated, %u excluded, best %.4g with %s%s", r->c->n_evaluated,
           done - r->c->n_evaluated, r->c->value, c.name, plan);
  pz_progress_update(r->s->o.progress, done, note);
}

/* The chips of a batch, together.  The first error in their order counts. */
static enum pz_status run_batch(struct run *r, pz_pool_fn *fn, struct pz_error *err) {
  for (uint32_t i = 0; i < r->n; i++) r->errors[i] = (struct pz_error){0};
  pz_pool_for(r->s->pool, r->n, fn, r);
  enum pz_status kept = keep(r->s, &r->order[r->at], r->n, err);
  if (kept != PZ_OK) return kept;
  if (stopped(r->s)) return pz_fail(err, PZ_STOPPED, "stopped");
  for (uint32_t i = 0; i < r->n; i++)
    if (r->errors[i].status != PZ_OK) {
      if (err && err->status == PZ_OK) *err = r->errors[i];
      return r->errors[i].status;
    }
  merge(r);
  return PZ_OK;
}

static bool goes_on(const struct run *r) {
  if (r->at >= r->s->n_points) return false;
  uint32_t next = r->order[r->at];
  return r->s->o.exhaustive || may_win(r, next, r->c->standing[next].bound);
}

/* Chips in the order of their bounds, as long as one may win.  The first batches are small: with a
 * good chip known early, fewer are looked at. */
static enum pz_status first_pass(struct run *r, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  for (uint32_t size = LEAST_BATCH; status == PZ_OK && goes_on(r); r->at += r->n) {
    uint32_t left = r->s->n_points - r->at;
    r->n = left < size ? left : size;
    size = 2 * size < MOST_BATCH ? 2 * size : MOST_BATCH;
    status = run_batch(r, consider, err);
    for (uint32_t i = 0; i < r->n; i++)
      r->c->n_evaluated += r->c->standing[r->order[r->at + i]].kind == PZ_OUT_EVALUATED;
    if (status == PZ_OK) show(r);
  }
  return status;
}

/* The evaluated chips that open schedules may still carry above the best: the most promising first.
 */
static enum pz_status second_pass(struct run *r, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  struct pz_search *s = r->s;
  struct ranked *list = calloc(s->n_points, sizeof *list);
  uint32_t n = 0;
  if (!list) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t p = 0; p < s->n_points; p++) {
    const struct pz_standing *st = &r->c->standing[p];
    if (st->kind == PZ_OUT_EVALUATED && st->bound > st->value && st->bound > r->c->value)
      list[n++] = (struct ranked){st->bound, s->nature[p].area_um2, p};
  }
  qsort(list, n, sizeof *list, by_value);
  for (uint32_t i = 0; i < n; i++) r->order[i] = list[i].point;
  free(list);
  for (r->at = 0; r->at < n && status == PZ_OK; r->at += r->n) {
    for (r->n = 0; r->n < LEAST_BATCH && r->at + r->n < n; r->n++)
      if (!(r->c->standing[r->order[r->at + r->n]].bound > r->c->value)) break;
    if (!r->n) break;
    status = run_batch(r, consider_again, err);
  }
  return status;
}

/* How sure it is: what open schedules might still hide. */
static void conclude(struct run *r) {
  struct pz_contest *c = r->c;
  c->n_looked = 0;
  c->n_open = 0;
  c->bound = c->value;
  for (uint32_t p = 0; p < r->s->n_points; p++) {
    const struct pz_standing *st = &c->standing[p];
    c->n_looked += st->kind != PZ_OUT_TABLES;
    if (st->kind != PZ_OUT_EVALUATED || !(st->bound > c->value)) continue;
    c->bound = fmax(c->bound, st->bound);
    for (uint32_t i = 0; i < c->objective.n; i++) {
      const struct pz_evaluation *e = pz_search_evaluation(r->s, p, c->objective.models[i]);
      c->n_open += e ? e->n_open : 0;
    }
  }
  c->n_excluded = r->s->n_points - c->n_evaluated;
}

/* Is the best chip as good with this memory? */
static enum pz_status as_good(struct run *r, double hbm_gib, bool *same, struct pz_error *err) {
  const struct pz_contest *c = r->c;
  *same = true;
  for (uint32_t i = 0; i < c->objective.n && *same; i++) {
    uint32_t m = c->objective.models[i];
    const struct pz_evaluation *most = pz_search_evaluation(r->s, c->best, m);
    struct pz_evaluation e;
    if (!most) return pz_fail(err, PZ_INTERNAL, "the best chip was not evaluated");
    enum pz_status status = pz_evaluate(&r->s->evaluators[0], &r->s->points[c->best], m, hbm_gib,
                                        most->effort, &e, err);
    if (status != PZ_OK) return status;
    *same = e.time_s <= most->time_s;
  }
  return PZ_OK;
}

/* More memory is never slower, and the search has the most: the least that is as good. */
static enum pz_status least_memory(struct run *r, struct pz_error *err) {
  struct pz_contest *c = r->c;
  const struct pz_choices *hbm = &r->s->task->o.hbm_gib;
  enum pz_status status = PZ_OK;
  bool same = false;
  for (int h = 0; h < hbm->n && !same && status == PZ_OK; h++) {
    c->hbm_gib = (double)hbm->v[h];
    status = as_good(r, c->hbm_gib, &same, err);
  }
  return status;
}

static enum pz_status nothing_fits(const struct run *r, struct pz_error *err) {
  const struct pz_objective *o = &r->c->objective;
  for (uint32_t i = 0; i < o->n; i++) {
    double most = 0;
    for (uint32_t p = 0; p < r->s->n_points; p++)
      most = fmax(most, *bound_at(r->s, p, o->models[i]));
    if (most > 0 && i + 1 < o->n) continue;
    return pz_fail(err, PZ_NO_ANSWER,
                   "%s fits no chip of the space: no plan on %" PRId64 " devices with %.6g GiB",
                   r->s->task->portfolio->models[o->models[i]], r->s->task->o.devices,
                   pz_task_most_hbm(r->s->task));
  }
  return PZ_INTERNAL;
}

enum pz_status pz_search_run(struct pz_search *s, struct pz_contest *c, struct pz_error *err) {
  struct run r = {.s = s, .c = c};
  *c = (struct pz_contest){.objective = c->objective};
  enum pz_status status = rank_points(&r, err);
  r.errors = calloc(MOST_BATCH, sizeof *r.errors);
  if (status == PZ_OK && !r.errors) status = pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  if (status == PZ_OK) status = first_pass(&r, err);
  if (status == PZ_OK && r.any) status = second_pass(&r, err);
  free(r.errors);
  if (status != PZ_OK) return status;
  if (!r.any) return nothing_fits(&r, err);
  conclude(&r);
  if (s->o.progress) pz_progress_update(s->o.progress, s->n_points, NULL);
  return least_memory(&r, err);
}

/* ---- asking --------------------------------------------------------------------------------- */

const struct pz_evaluation *pz_search_evaluation(const struct pz_search *s, uint32_t point,
                                                 uint32_t model) {
  for (enum pz_effort e = PZ_EFFORT_FULL; e >= PZ_EFFORT_QUICK; e--) {
    const struct memo *m = memo_at(s, point, model, e);
    if (m->known) return &m->e;
  }
  return NULL;
}

enum pz_status pz_search_evaluate(struct pz_search *s, uint32_t point, uint32_t model,
                                  enum pz_effort effort, const struct pz_evaluation **out,
                                  struct pz_error *err) {
  enum pz_status status = evaluate(s, point, model, effort, 0, err);
  if (status == PZ_OK) *out = &memo_at(s, point, model, effort)->e;
  return status;
}

double pz_search_bound(const struct pz_search *s, uint32_t point, uint32_t model) {
  return *bound_at(s, point, model);
}

struct pz_evaluator *pz_search_evaluator(struct pz_search *s) {
  return &s->evaluators[0];
}

uint64_t pz_search_loads(const struct pz_search *s) {
  uint64_t n = 0;
  for (unsigned i = 0; i < s->n_workers; i++) n += s->evaluators[i].n_loads;
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
    v[o->models[i]] = e ? rate(s, bound ? e->least_s : e->time_s) : 0;
  }
  return value_of(s, o, point, v);
}

double pz_search_table_bound(const struct pz_search *s, const struct pz_objective *o,
                             uint32_t point) {
  return value_of(s, o, point, bound_at(s, point, 0));
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
  err->status = stopped(x->s) ? PZ_STOPPED : x->fn(x->ctx, i, &x->s->evaluators[worker], err);
}

enum pz_status pz_search_each(struct pz_search *s, size_t n, pz_search_fn *fn, void *ctx,
                              struct pz_error *err) {
  struct each x = {s, fn, ctx, calloc(n + 1, sizeof *x.errors)};
  enum pz_status status = PZ_OK;
  if (!x.errors) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  pz_pool_for(s->pool, n, do_one, &x);
  for (size_t i = 0; i < n && status == PZ_OK; i++) status = x.errors[i].status;
  for (size_t i = 0; i < n && status != PZ_OK && err && err->status == PZ_OK; i++)
    if (x.errors[i].status == status) *err = x.errors[i];
  free(x.errors);
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
    status = evaluate(x->s, x->points[i], x->o->models[k], PZ_EFFORT_QUICK,
                      (unsigned)(e - x->s->evaluators), err);
  return status;
}

enum pz_status pz_search_look(struct pz_search *s, const uint32_t *points, uint32_t n,
                              const struct pz_objective *o, struct pz_error *err) {
  struct look x = {s, points, o};
  enum pz_status status = pz_search_each(s, n, look_at_one, &x, err);
  enum pz_status kept = keep(s, points, n, err);
  return status == PZ_OK ? kept : status;
}
