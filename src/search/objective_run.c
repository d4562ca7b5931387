/* An objective run: the best chip under one objective (for one model, or for all).  Chips are first
 * evaluated with little effort in the order of their bounds, then with more effort where schedules
 * that are not proven optimal might change the result. */
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "core/text.h"
#include "search/order.h"
#include "search/search.h"
#include "search/state.h"

enum { LEAST_BATCH = 8, MOST_BATCH = 64 };
#define NO_MEMORY "out of memory for the search"

/* ---- one chip of an objective run ------------------------------------------------------------ */

struct run {
  struct pz_search *s;
  struct pz_objective_run *c;
  struct pz_order *by_bound;
  const uint32_t *order; /* of points, by bound; in the second pass the open ones */
  uint32_t at, n, size;  /* the batch; how large the next may be */
  bool any;              /* is there a best yet? */
  bool again;            /* with full effort */
  struct item *items;    /* of the batch */
};

struct item {
  struct pz_error err;
  uint64_t n_variants; /* that it took */
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

/* Samples/s of the objective run's models: found, and at most. */
struct rates {
  double found[PZ_SEARCH_MOST_MODELS], most[PZ_SEARCH_MOST_MODELS];
};

static void set_rates(const struct pz_search *s, uint32_t point, uint32_t model,
                      enum pz_effort effort, struct rates *v) {
  const struct pz_evaluation *e = &pz_memo_at(s, point, model, effort)->e;
  v->found[model] = pz_rate(s, e->time_s);
  v->most[model] = pz_rate(s, e->least_s);
}

/* The samples/s of a model below which the chip cannot win, whatever the others do up to their
 * bounds; by bisection, a hair below. */
static double least_rate(const struct run *r, uint32_t point, uint32_t model,
                         const struct rates *v) {
  struct rates u = *v;
  double low = 0, high = v->most[model];
  for (int i = 0; i < 50; i++) {
    u.most[model] = (low + high) / 2;
    if (may_win(r, point, pz_value_of(r->s, &r->c->objective, point, u.most)))
      high = u.most[model];
    else
      low = u.most[model];
  }
  return low * (1 - 1e-9);
}

/* Was the evaluation made before or in this objective run?  One that a later objective run made,
 * or none, does not count: a run that was interrupted then goes the same way as one that was
 * not. */
static bool known_here(const struct run *r, const struct pz_memo *m) {
  return m->known && m->objective_run <= r->s->objective_run;
}

/* Evaluate the model there, unless bounds show on the way that the chip cannot win: then *cut. */
static enum pz_status look_at_model(const struct run *r, uint32_t point, uint32_t model,
                                    unsigned worker, struct rates *v, bool *cut,
                                    struct pz_error *err) {
  struct pz_memo *m = pz_memo_at(r->s, point, model, PZ_EFFORT_QUICK);
  if (!known_here(r, m) && r->any && !r->s->o.exhaustive) {
    struct pz_evaluation e;
    double least = least_rate(r, point, model, v);
    double limit_s = least > 0 ? (double)r->s->task->o.batch / least : HUGE_VAL;
    enum pz_status status =
        pz_evaluate_within(&r->s->evaluators[worker], &r->s->points[point], model,
                           pz_task_most_hbm(r->s->task), PZ_EFFORT_QUICK, limit_s, &e, err);
    if (status != PZ_OK) return status;
    *cut = e.effort == PZ_EFFORT_NONE;
    v->most[model] = pz_rate(r->s, e.least_s);
    if (*cut) return PZ_OK;
    m->e = e;
    m->known = m->changed = true;
    m->objective_run = r->s->objective_run;
  }
  enum pz_status status = pz_search_know(r->s, point, model, PZ_EFFORT_QUICK, worker, err);
  if (!known_here(r, m)) {
    m->objective_run = r->s->objective_run;
    m->changed = m->known;
  }
  if (status == PZ_OK) set_rates(r->s, point, model, PZ_EFFORT_QUICK, v);
  return status;
}

/* Model by model, until the chip cannot win any more.  *whole: every model was evaluated. */
static enum pz_status first_look(const struct run *r, uint32_t point, unsigned worker,
                                 struct rates *v, bool *whole, struct pz_error *err) {
  const struct pz_objective *o = &r->c->objective;
  for (uint32_t i = 0; i < o->n; i++) {
    bool cut = false;
    enum pz_status status = look_at_model(r, point, o->models[i], worker, v, &cut, err);
    *whole = status == PZ_OK && !cut && i + 1 == o->n;
    if (status != PZ_OK || cut) return status;
    if (!r->s->o.exhaustive && !may_win(r, point, pz_value_of(r->s, o, point, v->most)))
      return PZ_OK;
  }
  return PZ_OK;
}

static void consider_chip(struct run *r, size_t i, unsigned worker) {
  uint32_t point = r->order[r->at + i];
  struct rates v = {{0}, {0}};
  bool whole = false;
  if (pz_search_stopped(r->s)) return;
  for (uint32_t m = 0; m < r->s->n_models; m++) v.most[m] = *pz_bound_at(r->s, point, m);
  r->items[i].err.status = first_look(r, point, worker, &v, &whole, &r->items[i].err);
  double bound = pz_value_of(r->s, &r->c->objective, point, v.most);
  double found = pz_value_of(r->s, &r->c->objective, point, v.found);
  r->c->chip_status[point] = (struct pz_chip_status){
      whole ? PZ_CHIP_EVALUATED : PZ_CHIP_EXCLUDED_BY_SCHEDULES, whole ? found : bound, bound};
  if (r->any) pz_progress_add(r->s->o.progress, 1); /* before, nobody knows how many are left */
}

/* Again with full effort, where schedules were left open. */
static void consider_chip_again(struct run *r, size_t i, unsigned worker) {
  uint32_t point = r->order[r->at + i];
  const struct pz_objective *o = &r->c->objective;
  struct rates v;
  if (pz_search_stopped(r->s)) return;
  for (uint32_t k = 0; k < o->n; k++) {
    uint32_t m = o->models[k];
    set_rates(r->s, point, m, PZ_EFFORT_QUICK, &v);
    if (!(v.found[m] < v.most[m])) continue;
    struct pz_error *err = &r->items[i].err;
    err->status = pz_search_know(r->s, point, m, PZ_EFFORT_FULL, worker, err);
    if (err->status != PZ_OK) return;
    set_rates(r->s, point, m, PZ_EFFORT_FULL, &v);
  }
  r->c->chip_status[point].value = pz_value_of(r->s, o, point, v.found);
  r->c->chip_status[point].bound = pz_value_of(r->s, o, point, v.most);
  pz_progress_add(r->s->o.progress, 1);
}

/* ---- a chip of the batch on any rank --------------------------------------------------------- */

static void consider(void *ctx, size_t i, unsigned worker) {
  struct run *r = ctx;
  uint64_t before = r->s->evaluators[worker].n_variants;
  (r->again ? consider_chip_again : consider_chip)(r, i, worker);
  r->items[i].n_variants = r->s->evaluators[worker].n_variants - before;
}

static void pack_chip(void *ctx, size_t i, struct pz_buffer *out) {
  struct run *r = ctx;
  uint32_t point = r->order[r->at + i];
  const struct pz_error *err = &r->items[i].err;
  pz_buffer_append(out, (const char *)&err->status, sizeof err->status);
  if (err->status != PZ_OK) pz_buffer_append(out, (const char *)err, sizeof *err);
  pz_buffer_append(out, (const char *)&r->c->chip_status[point], sizeof(struct pz_chip_status));
  pz_buffer_append(out, (const char *)&r->items[i].n_variants, sizeof r->items[i].n_variants);
  pz_search_pack(r->s, point, out);
}

static enum pz_status unpack_chip(void *ctx, size_t i, struct pz_bytes *in) {
  struct run *r = ctx;
  uint32_t point = r->order[r->at + i];
  struct pz_error *err = &r->items[i].err;
  bool good = pz_bytes_take(in, &err->status, sizeof err->status);
  if (good && err->status != PZ_OK) good = pz_bytes_take(in, err, sizeof *err);
  if (!good || !pz_bytes_take(in, &r->c->chip_status[point], sizeof(struct pz_chip_status)) ||
      !pz_bytes_take(in, &r->items[i].n_variants, sizeof r->items[i].n_variants))
    return PZ_BAD_INPUT;
  r->s->n_variants_elsewhere += r->items[i].n_variants;
  if (r->any || r->again) pz_progress_add(r->s->o.progress, 1);
  return pz_search_unpack(r->s, point, in);
}

/* ---- an objective run ------------------------------------------------------------------------ */

static void merge(struct run *r) {
  for (uint32_t i = 0; i < r->n; i++) {
    uint32_t point = r->order[r->at + i];
    const struct pz_chip_status *st = &r->c->chip_status[point];
    if (st->kind != PZ_CHIP_EVALUATED || !may_win(r, point, st->value)) continue;
    r->c->best = point;
    r->c->value = st->value;
    r->any = true;
  }
}

/* ": 18 stages x 56, tensor 1, microbatch 4": the plan of the first model. */
static void plan_text(const struct run *r, char *buf, size_t size) {
  uint32_t model = r->c->objective.models[0];
  const struct pz_evaluation *e = pz_search_evaluation(r->s, r->c->best, model);
  if (!e) return;
  const struct pz_variant *l = &r->s->task->portfolio->variants[e->plan.variant];
  snprintf(buf, size, ": %u stage%s x %" PRId64 ", tensor %" PRId64 ", microbatch %" PRId64,
           e->plan.n_stages, e->plan.n_stages == 1 ? "" : "s", e->plan.d, l->tp, l->mbs);
}

static uint32_t next_size(uint32_t size) { return 2 * size < MOST_BATCH ? 2 * size : MOST_BATCH; }

/* After this batch: those whose bounds are above the best. */
static uint32_t candidates_left(const struct run *r) {
  uint32_t at = r->at + r->n;
  if (r->s->o.exhaustive) return r->s->n_points - at;
  return pz_order_above(r->by_bound, at, r->any ? r->c->value : 0);
}

/* So many chips rounded up to the batches in which they will be taken. */
static uint32_t whole_batches(const struct run *r, uint32_t n) {
  uint32_t sum = 0, rest = r->s->n_points - r->at - r->n;
  for (uint32_t size = r->size; sum < n; size = next_size(size)) sum += size;
  return sum < rest ? sum : rest;
}

/* Of the chips that the bounds leave: the total falls as the best one rises. */
static void show(const struct run *r) {
  char note[200] = "", plan[80] = "";
  struct pz_chip c;
  if (!r->s->o.progress) return;
  uint32_t done = r->at + r->n, total = done + whole_batches(r, candidates_left(r));
  if (r->any) {
    pz_space_chip(r->s->task->space, &r->s->points[r->c->best], &c);
    plan_text(r, plan, sizeof plan);
    snprintf(note, sizeof note, "best %.4g with %s%s, %u evaluated, %u excluded", r->c->value,
             c.name, plan, r->c->n_evaluated, r->s->n_points - total + done - r->c->n_evaluated);
  }
  pz_progress_set(r->s->o.progress, done, total, note);
}

/* What an objective run is called while it runs. */
static const char *label_of(const struct run *r) {
  const struct pz_objective *o = &r->c->objective;
  return o->n == 1 ? r->s->task->portfolio->models[o->models[0]] : "all models";
}

/* The chips of a batch, together.  The first error in their order counts. */
static enum pz_status run_batch(struct run *r, struct pz_error *err) {
  struct pz_round round = {r, r->n, consider, pack_chip, unpack_chip, r->s->o.stop, NULL};
  struct pz_error why = {0};
  for (uint32_t i = 0; i < r->n; i++) r->items[i] = (struct item){{0}, 0};
  enum pz_status done = pz_round_run(r->s->pool, &round, &why);
  enum pz_status kept = pz_search_keep(r->s, &r->order[r->at], r->n, err);
  if (kept != PZ_OK) return kept;
  if (done != PZ_OK) return pz_fail(err, done, "%s", why.message);
  for (uint32_t i = 0; i < r->n; i++)
    if (r->items[i].err.status != PZ_OK) {
      if (err && err->status == PZ_OK) *err = r->items[i].err;
      return r->items[i].err.status;
    }
  merge(r);
  return PZ_OK;
}

/* May the next chip win?  *goes. */
static enum pz_status look_ahead(const struct run *r, bool *goes, struct pz_error *err) {
  double cutoff = r->s->o.exhaustive ? 0 : r->any ? r->c->value : DBL_MIN;
  uint32_t known;
  enum pz_status status = pz_order_need(r->by_bound, r->at + 1, cutoff, &known, err);
  *goes = status == PZ_OK && known > r->at;
  if (!*goes || r->s->o.exhaustive) return status;
  uint32_t next = r->order[r->at];
  *goes = may_win(r, next, r->c->chip_status[next].bound);
  return PZ_OK;
}

/* The next batch, of chips in the order of their bounds. */
static enum pz_status first_batch(struct run *r, struct pz_error *err) {
  uint32_t known;
  enum pz_status status = pz_order_need(r->by_bound, r->at + r->size, 0, &known, err);
  if (status != PZ_OK) return status;
  r->n = known - r->at;
  r->size = next_size(r->size);
  status = run_batch(r, err);
  for (uint32_t i = 0; i < r->n; i++)
    r->c->n_evaluated += r->c->chip_status[r->order[r->at + i]].kind == PZ_CHIP_EVALUATED;
  return status;
}

/* Chips in the order of their bounds, as long as one may win.  The first batches are small: with a
 * good chip known early, fewer are looked at. */
static enum pz_status first_pass(struct run *r, struct pz_error *err) {
  bool goes = false;
  pz_progress_next(r->s->o.progress, label_of(r), "chips", r->s->n_points);
  r->size = LEAST_BATCH;
  enum pz_status status = look_ahead(r, &goes, err);
  while (status == PZ_OK && goes) {
    status = first_batch(r, err);
    if (status == PZ_OK) show(r);
    r->at += r->n;
    if (status == PZ_OK) status = look_ahead(r, &goes, err);
  }
  pz_order_end(r->by_bound);
  pz_progress_finish(r->s->o.progress, NULL);
  return status;
}

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

static void show_again(const struct run *r, uint32_t n) {
  char label[96];
  snprintf(label, sizeof label, "%.70s, open schedules", label_of(r));
  pz_progress_next(r->s->o.progress, label, "chips", n);
}

/* The evaluated chips that open schedules may still carry above the best: the most promising first.
 */
static enum pz_status second_pass(struct run *r, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  struct pz_search *s = r->s;
  struct ranked *list = pz_calloc(s->n_points, sizeof *list);
  uint32_t n = 0;
  if (!list) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t p = 0; p < s->n_points; p++) {
    const struct pz_chip_status *st = &r->c->chip_status[p];
    if (st->kind == PZ_CHIP_EVALUATED && st->bound > st->value && st->bound > r->c->value)
      list[n++] = (struct ranked){st->bound, s->nature[p].area_um2, p};
  }
  qsort(list, n, sizeof *list, by_value);
  uint32_t *order = pz_arena_alloc(&s->arena, n, sizeof *order);
  for (uint32_t i = 0; order && i < n; i++) order[i] = list[i].point;
  pz_free(list);
  if (!order) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  r->order = order;
  r->again = true;
  show_again(r, n);
  for (r->at = 0; r->at < n && status == PZ_OK; r->at += r->n) {
    for (r->n = 0; r->n < LEAST_BATCH && r->at + r->n < n; r->n++)
      if (!(r->c->chip_status[r->order[r->at + r->n]].bound > r->c->value)) break;
    if (!r->n) break;
    status = run_batch(r, err);
  }
  if (r->s->o.progress && status == PZ_OK) pz_progress_set(r->s->o.progress, r->at, r->at, NULL);
  pz_progress_finish(r->s->o.progress, NULL);
  return status;
}

/* How sure it is: what open schedules might still hide. */
static void conclude(struct run *r) {
  struct pz_objective_run *c = r->c;
  c->n_looked = 0;
  c->n_open = 0;
  c->bound = c->value;
  for (uint32_t p = 0; p < r->s->n_points; p++) {
    const struct pz_chip_status *st = &c->chip_status[p];
    c->n_looked += st->kind != PZ_CHIP_EXCLUDED_BY_TABLES;
    if (st->kind != PZ_CHIP_EVALUATED || !(st->bound > c->value)) continue;
    c->bound = fmax(c->bound, st->bound);
    for (uint32_t i = 0; i < c->objective.n; i++) {
      const struct pz_evaluation *e = pz_search_evaluation(r->s, p, c->objective.models[i]);
      c->n_open += e ? e->n_open : 0;
    }
  }
  c->n_excluded = r->s->n_points - c->n_evaluated;
}

/* Is the best chip as good with this memory? */
static enum pz_status as_good(struct pz_search *s, const struct pz_objective_run *c, double hbm_gib,
                              bool *same, struct pz_error *err) {
  *same = true;
  for (uint32_t i = 0; i < c->objective.n && *same; i++) {
    uint32_t m = c->objective.models[i];
    const struct pz_evaluation *most = pz_search_evaluation(s, c->best, m);
    struct pz_evaluation e;
    if (!most) return pz_fail(err, PZ_INTERNAL, "the best chip was not evaluated");
    enum pz_status status =
        pz_evaluate(&s->evaluators[0], &s->points[c->best], m, hbm_gib, most->effort, &e, err);
    if (status != PZ_OK) return status;
    *same = e.time_s <= most->time_s;
  }
  return PZ_OK;
}

/* More memory is never slower, and the search has the most: the least that is as good. */
static enum pz_status least_memory(struct pz_search *s, struct pz_objective_run *c,
                                   struct pz_error *err) {
  const struct pz_choices *hbm = &s->task->o.hbm_gib;
  enum pz_status status = PZ_OK;
  bool same = false;
  for (int h = 0; h < hbm->n && !same && status == PZ_OK; h++) {
    c->hbm_gib = (double)hbm->v[h];
    status = as_good(s, c, c->hbm_gib, &same, err);
  }
  return status;
}

static enum pz_status nothing_fits(const struct run *r, struct pz_error *err) {
  const struct pz_objective *o = &r->c->objective;
  enum pz_status status = pz_search_all_bounds(r->s, err);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < o->n; i++) {
    double most = 0;
    for (uint32_t p = 0; p < r->s->n_points; p++)
      most = fmax(most, *pz_bound_at(r->s, p, o->models[i]));
    if (most > 0 && i + 1 < o->n) continue;
    return pz_fail(
        err, PZ_NO_ANSWER,
        "%s runs on no chip of the space: no feasible plan on %" PRId64
        " device%s with %.6g GiB; 'phaze place %s --chip CHIP' reports the minimum memory",
        r->s->task->portfolio->models[o->models[i]], r->s->task->o.devices,
        pz_text_s((double)r->s->task->o.devices), pz_task_most_hbm(r->s->task),
        r->s->task->portfolio->models[o->models[i]]);
  }
  return PZ_INTERNAL;
}

enum pz_status pz_search_run(struct pz_search *s, struct pz_objective_run *c,
                             struct pz_error *err) {
  struct run r = {.s = s, .c = c};
  *c = (struct pz_objective_run){.objective = c->objective};
  s->objective_run = ++s->n_runs;
  enum pz_status status = pz_order_new(s, c, &r.by_bound, err);
  if (status == PZ_OK) r.order = pz_order_list(r.by_bound);
  r.items = pz_calloc(MOST_BATCH, sizeof *r.items);
  if (status == PZ_OK && !r.items) status = pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  if (status == PZ_OK) status = first_pass(&r, err);
  if (status == PZ_OK && r.any) status = second_pass(&r, err);
  s->objective_run = PZ_NO_RUN;
  pz_order_free(r.by_bound);
  pz_free(r.items);
  if (status != PZ_OK) return status;
  if (!r.any) return nothing_fits(&r, err);
  conclude(&r);
  return least_memory(s, c, err);
}
