#include "search/search.h"
#include "search/state.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "search/chip_boxes.h"

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
      if (*pz_bound_at(s, p, m) < 0) *pz_bound_at(s, p, m) = pz_rate(s, pz_bounds_model_s(at, m));
  }
  pz_progress_add(s->o.progress, p - first);
}

/* Bounds of a chunk: as they lie behind one another. */
static size_t chunk_bounds(const struct pz_search *s, size_t i) {
  size_t left = s->n_points - i * CHUNK;
  return (left < CHUNK ? left : CHUNK) * s->n_models;
}

static void pack_chunk(void *ctx, size_t i, struct pz_buffer *out) {
  const struct pz_search *s = ctx;
  pz_buffer_append(out, (const char *)pz_bound_at(s, (uint32_t)i * CHUNK, 0),
                   chunk_bounds(s, i) * sizeof *s->bound);
}

static enum pz_status unpack_chunk(void *ctx, size_t i, struct pz_bytes *in) {
  const struct pz_search *s = ctx;
  size_t n = chunk_bounds(s, i);
  pz_progress_add(s->o.progress, n / s->n_models);
  return pz_bytes_take(in, pz_bound_at(s, (uint32_t)i * CHUNK, 0), n * sizeof *s->bound)
             ? PZ_OK
             : PZ_BAD_INPUT;
}

enum pz_status pz_search_all_bounds(struct pz_search *s, struct pz_error *err) {
  size_t n = s->n_points;
  struct pz_round round = {
      s, (n + CHUNK - 1) / CHUNK, bound_chunk, pack_chunk, unpack_chunk, s->o.stop, NULL};
  bool known = true;
  for (size_t i = 0; i < n * s->n_models && known; i++) known = s->bound[i] >= 0;
  if (known) return PZ_OK;
  pz_progress_next(s->o.progress, "bounds", "chips", n);
  enum pz_status status = pz_round_run(s->pool, &round, err);
  pz_progress_finish(s->o.progress, NULL);
  return status;
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

/* `kept`: the journal has it. */
static enum pz_status take(struct pz_search *s, const struct pz_entry *entry, bool kept) {
  struct pz_point key = {.id = entry->id};
  const struct pz_point *p = bsearch(&key, s->points, s->n_points, sizeof *p, by_id);
  if (!p || !plausible(s, entry)) return PZ_BAD_INPUT;
  struct pz_memo *m = pz_memo_at(s, (uint32_t)(p - s->points), entry->model, entry->e.effort);
  uint16_t *layers = pz_arena_alloc(&s->arena, entry->e.plan.n_stages, sizeof *layers);
  if (!layers) return PZ_NO_MEMORY;
  if (entry->e.plan.n_stages)
    memcpy(layers, entry->e.plan.layers, entry->e.plan.n_stages * sizeof *layers);
  *m = (struct pz_memo){
      .e = entry->e, .known = true, .kept = kept || m->kept, .objective_run = entry->objective_run};
  m->e.plan.layers = layers;
  return PZ_OK;
}

/* The file is rank 0's: what it has goes to all. */
struct recalled {
  struct pz_search *s;
  struct pz_buffer b;
};

static void pack_entry(const struct pz_entry *entry, struct pz_buffer *out) {
  const struct pz_plan_record *plan = &entry->e.plan;
  pz_buffer_append(out, (const char *)entry, sizeof *entry);
  pz_buffer_append(out, (const char *)plan->layers, plan->n_stages * sizeof *plan->layers);
}

static enum pz_status take_and_pack(void *into, const struct pz_entry *entry) {
  struct recalled *x = into;
  if (pz_ranks_size() > 1) pack_entry(entry, &x->b);
  return x->b.failed ? PZ_NO_MEMORY : take(x->s, entry, true);
}

static enum pz_status unpack_entry(struct pz_search *s, struct pz_bytes *in,
                                   struct pz_entry *entry) {
  if (!pz_bytes_take(in, entry, sizeof *entry)) return PZ_BAD_INPUT;
  size_t bytes = entry->e.plan.n_stages * sizeof *entry->e.plan.layers;
  uint16_t *layers = bytes <= in->left ? pz_arena_alloc(&s->arena, bytes / 2, 2) : NULL;
  if (!layers) return bytes <= in->left ? PZ_NO_MEMORY : PZ_BAD_INPUT;
  entry->e.plan.layers = layers;
  return pz_bytes_take(in, layers, bytes) ? PZ_OK : PZ_BAD_INPUT;
}

static enum pz_status recall(struct pz_search *s, struct pz_error *err) {
  const struct pz_journal *j = s->o.journal;
  struct recalled x = {s, {0}};
  struct pz_entry entry;
  enum pz_status status = j ? j->recall(j->ctx, take_and_pack, &x, err) : PZ_OK;
  status = pz_ranks_share(&x.b, status, err);
  struct pz_bytes in = {x.b.text, x.b.bytes};
  while (status == PZ_OK && in.left && !pz_ranks_first()) {
    status = unpack_entry(s, &in, &entry);
    if (status == PZ_OK) status = take(s, &entry, true);
  }
  pz_free(x.b.text);
  return status;
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
  for (size_t i = 0; i < n * m; i++) s->bound[i] = -1;
  if (s->o.boxes) {
    s->boxes = pz_chip_boxes_new(s);
    if (!s->boxes) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  } else {
    status = pz_search_all_bounds(s, err);
  }
  return status == PZ_OK ? recall(s, err) : status;
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
  pz_chip_boxes_free(s->boxes);
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
  m->known = m->changed = status == PZ_OK;
  m->objective_run = s->objective_run;
  return status;
}

void pz_search_pack(struct pz_search *s, uint32_t point, struct pz_buffer *out) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < s->n_models * PZ_SEARCH_EFFORTS; k++)
    n += pz_memo_at(s, point, 0, PZ_EFFORT_QUICK)[k].changed;
  pz_buffer_append(out, (const char *)&n, sizeof n);
  for (uint32_t m = 0; m < s->n_models; m++)
    for (enum pz_effort e = PZ_EFFORT_QUICK; e <= PZ_EFFORT_FULL; e++) {
      struct pz_memo *memo = pz_memo_at(s, point, m, e);
      if (memo->changed)
        pack_entry(&(struct pz_entry){s->points[point].id, m, memo->objective_run, memo->e}, out);
      memo->changed = false;
    }
}

enum pz_status pz_search_unpack(struct pz_search *s, uint32_t point, struct pz_bytes *in) {
  struct pz_entry entry;
  uint32_t n;
  if (!pz_bytes_take(in, &n, sizeof n)) return PZ_BAD_INPUT;
  for (; n; n--) {
    enum pz_status status = unpack_entry(s, in, &entry);
    if (status == PZ_OK && entry.id != s->points[point].id) status = PZ_BAD_INPUT;
    if (status == PZ_OK) status = take(s, &entry, false);
    if (status != PZ_OK) return status;
  }
  return PZ_OK;
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
  uint64_t n = s ? s->n_variants_elsewhere : 0;
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

struct piece {
  struct pz_error err;
  uint64_t n_variants; /* that it took */
};

struct each {
  struct pz_search *s;
  const struct pz_search_items *items;
  struct piece *pieces;
};

static void do_one(void *ctx, size_t i, unsigned worker) {
  struct each *x = ctx;
  struct pz_evaluator *e = &x->s->evaluators[worker];
  struct piece *p = &x->pieces[i];
  uint64_t before = e->n_variants;
  p->err.status = pz_search_stopped(x->s) ? PZ_STOPPED : x->items->fn(x->items->ctx, i, e, &p->err);
  p->n_variants = e->n_variants - before;
}

/* A piece with an error brings that, any other what it made. */
static void pack_one(void *ctx, size_t i, struct pz_buffer *out) {
  const struct each *x = ctx;
  const struct piece *p = &x->pieces[i];
  pz_buffer_append(out, (const char *)&p->n_variants, sizeof p->n_variants);
  pz_buffer_append(out, (const char *)&p->err.status, sizeof p->err.status);
  if (p->err.status == PZ_OK)
    x->items->pack(x->items->ctx, i, out);
  else
    pz_buffer_append(out, (const char *)&p->err, sizeof p->err);
}

static enum pz_status unpack_one(void *ctx, size_t i, struct pz_bytes *in) {
  const struct each *x = ctx;
  struct piece *p = &x->pieces[i];
  if (!pz_bytes_take(in, &p->n_variants, sizeof p->n_variants) ||
      !pz_bytes_take(in, &p->err.status, sizeof p->err.status))
    return PZ_BAD_INPUT;
  x->s->n_variants_elsewhere += p->n_variants;
  if (p->err.status == PZ_OK) return x->items->unpack(x->items->ctx, i, in);
  return pz_bytes_take(in, &p->err, sizeof p->err) ? PZ_OK : PZ_BAD_INPUT;
}

enum pz_status pz_search_each(struct pz_search *s, size_t n, pz_search_fn *fn, void *ctx,
                              struct pz_error *err) {
  struct pz_search_items items = {.fn = fn, .ctx = ctx};
  return pz_search_deal(s, n, &items, err);
}

enum pz_status pz_search_deal(struct pz_search *s, size_t n, const struct pz_search_items *items,
                              struct pz_error *err) {
  struct each x = {s, items, pz_calloc(n + 1, sizeof *x.pieces)};
  struct pz_round round = {&x, n, do_one, pack_one, unpack_one, s->o.stop, NULL};
  enum pz_status status = PZ_OK;
  if (!x.pieces) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  if (items->pack)
    status = pz_round_run(items->wide ? NULL : s->pool, &round, err);
  else
    pz_pool_for(s->pool, n, do_one, &x);
  for (size_t i = 0; i < n && status == PZ_OK; i++) status = x.pieces[i].err.status;
  for (size_t i = 0; i < n && status != PZ_OK && err && err->status == PZ_OK; i++)
    if (x.pieces[i].err.status == status) *err = x.pieces[i].err;
  pz_free(x.pieces);
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

static void pack_look(void *ctx, size_t i, struct pz_buffer *out) {
  struct look *x = ctx;
  pz_search_pack(x->s, x->points[i], out);
}

static enum pz_status unpack_look(void *ctx, size_t i, struct pz_bytes *in) {
  struct look *x = ctx;
  return pz_search_unpack(x->s, x->points[i], in);
}

enum pz_status pz_search_look(struct pz_search *s, const uint32_t *points, uint32_t n,
                              const struct pz_objective *o, struct pz_error *err) {
  struct look x = {s, points, o};
  struct pz_search_items items = {look_at_one, pack_look, unpack_look, &x, false};
  enum pz_status status = pz_search_deal(s, n, &items, err);
  enum pz_status kept = pz_search_keep(s, points, n, err);
  return status == PZ_OK ? kept : status;
}
