#include "search/search.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/map.h"
#include "core/num.h"
#include "core/text.h"
#include "core/vec.h"
#include "search/state.h"
#include "search/tighten.h"

enum { LEAST_ROUND = 8, DIVES = 4 };

#define NO_MEMORY "out of memory for the search"

/* ---- what is known -------------------------------------------------------------------------- */

struct key {
  uint64_t id;
  uint32_t entry, effort;
};

static struct key key_of(const struct pz_search *s, const struct pz_point *p, uint32_t entry,
                         enum pz_effort effort) {
  return (struct key){pz_space_id(s->q.space, p), entry, (uint32_t)effort};
}

static bool look_up(struct pz_search *s, const struct key *k, struct pz_evaluation *out) {
  pthread_mutex_lock(&s->lock);
  uint32_t i = pz_map_get(&s->map, k, sizeof *k);
  if (i != PZ_NONE) *out = pz_vec_at(&s->known, struct pz_found_step, i)->e;
  pthread_mutex_unlock(&s->lock);
  return i != PZ_NONE;
}

/* With a copy of its plan. */
enum pz_status pz_search_learn(struct pz_search *s, const struct pz_found_step *k,
                               struct pz_error *err) {
  struct key key = {k->id, k->entry, (uint32_t)k->e.effort};
  struct pz_found_step own = *k;
  enum pz_status status = PZ_OK;
  pthread_mutex_lock(&s->lock);
  if (pz_map_get(&s->map, &key, sizeof key) == PZ_NONE) {
    uint32_t n = k->e.plan.n_stages, at = s->known.n;
    uint16_t *layers = n ? pz_arena_alloc(&s->arena, n, sizeof *layers) : NULL;
    if (layers) memcpy(layers, k->e.plan.layers, n * sizeof *layers);
    own.e.plan.layers = layers;
    if ((n && !layers) || !pz_vec_push(&s->known, &own) ||
        pz_map_put(&s->map, &key, sizeof key, at) != PZ_OK)
      status = PZ_NO_MEMORY;
  }
  pthread_mutex_unlock(&s->lock);
  return status == PZ_OK ? PZ_OK : pz_fail(err, status, NO_MEMORY);
}

bool pz_search_known(struct pz_search *s, const struct pz_point *p, uint32_t entry,
                     struct pz_evaluation *out) {
  struct key full = key_of(s, p, entry, PZ_EFFORT_FULL),
             quick = key_of(s, p, entry, PZ_EFFORT_QUICK);
  return look_up(s, &full, out) || look_up(s, &quick, out);
}

enum pz_status pz_search_evaluate(struct pz_search *s, unsigned worker, const struct pz_point *p,
                                  uint32_t entry, enum pz_effort effort, struct pz_evaluation *out,
                                  struct pz_error *err) {
  const struct pz_search_entry *e = &s->q.entries[entry];
  struct key k = key_of(s, p, entry, effort);
  struct pz_box b = pz_box_of(p);
  struct pz_boxed chip;
  if (look_up(s, &k, out)) return PZ_OK;
  pz_boxed_set(s->q.space, &b, &chip);
  enum pz_status status =
      e->by->ops->value(e->by, worker, &chip, e->model, effort, HUGE_VAL, out, err);
  return status == PZ_OK ? pz_search_learn(s, &(struct pz_found_step){k.id, entry, *out}, err)
                         : status;
}

static int by_key(const void *a, const void *b) {
  const struct pz_found_step *x = a, *y = b;
  if (x->id != y->id) return x->id < y->id ? -1 : 1;
  if (x->entry != y->entry) return x->entry < y->entry ? -1 : 1;
  return (x->e.effort > y->e.effort) - (x->e.effort < y->e.effort);
}

enum pz_status pz_search_all_known(struct pz_search *s, struct pz_arena *arena,
                                   struct pz_found_step **out, uint32_t *n, struct pz_error *err) {
  *n = s->known.n;
  *out = pz_arena_alloc(arena, *n, sizeof **out);
  if (!*out) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  if (!*n) return PZ_OK;
  memcpy(*out, s->known.items, *n * sizeof **out);
  qsort(*out, *n, sizeof **out, by_key);
  return PZ_OK;
}

/* ---- making --------------------------------------------------------------------------------- */

enum pz_status pz_search_new(const struct pz_search_question *q, struct pz_pool *pool,
                             struct pz_search **out, struct pz_error *err) {
  struct pz_search *s = pz_calloc(1, sizeof *s);
  if (!s) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  s->q = *q;
  s->pool = pool;
  pthread_mutex_init(&s->lock, NULL);
  pz_arena_init(&s->arena, NULL);
  pz_map_init(&s->map, &s->arena);
  pz_vec_init(&s->known, &s->arena, sizeof(struct pz_found_step));
  *out = s;
  return PZ_OK;
}

void pz_search_free(struct pz_search *s) {
  if (!s) return;
  pz_arena_release(&s->arena);
  pthread_mutex_destroy(&s->lock);
  pz_free(s);
}

const struct pz_search_question *pz_search_asked(const struct pz_search *s) { return &s->q; }
struct pz_pool *pz_search_pool(const struct pz_search *s) {
  return s->pool;
}

enum pz_status pz_search_bound(struct pz_search *s, unsigned worker, const struct pz_objective *o,
                               const struct pz_boxed *b, struct pz_step_cost *steps, double *value,
                               struct pz_error *err) {
  struct pz_box_task t = {.q = &s->q, .o = o, .worker = worker, .err = err};
  return pz_box_bound(&t, b, 0, steps, value);
}

/* ---- an objective run ------------------------------------------------------------------------ */

static bool stopped(const struct pz_search *s) { return s->q.stop && atomic_load(s->q.stop); }

static bool comes_first(const void *x, const void *y) {
  const struct pz_open_box *a = x, *b = y;
  if (a->effort != b->effort) return a->effort < b->effort;
  return a->bound != b->bound ? a->bound > b->bound : a->serial < b->serial;
}

static enum pz_status push_open(struct pz_driver *d, struct pz_open_box x, struct pz_error *err) {
  x.serial = d->serial++;
  if (pz_heap_push(&d->heap, comes_first, &x)) return PZ_OK;
  return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
}

/* Values that are not above it do not matter.  Where ties go to the smaller chip, an equal one does. */
static double cutoff_of(const struct pz_driver *d) {
  if (d->s->q.exhaustive) return 0;
  if (!d->run->found) return DBL_MIN;
  return d->ties ? nextafter(d->run->value, 0) : d->run->value * (1 + d->s->q.gap);
}

/* Could this chip be the best, with this value or less? */
static bool may_win(const struct pz_driver *d, const struct pz_point *p, double mm2, double value) {
  const struct pz_objective_run *r = d->run;
  if (!r->found) return value > 0;
  if (value != r->value || !d->ties) return value > r->value;
  if (mm2 != d->best_mm2) return mm2 < d->best_mm2;
  return pz_point_order(d->s->q.space, p, &r->best) < 0;
}

/* ---- one chip ------------------------------------------------------------------------------- */

/* Of a chip, by entry. */
struct steps {
  struct pz_step_cost found[PZ_SEARCH_MOST_MODELS], least[PZ_SEARCH_MOST_MODELS];
};

/* The step of an entry; *cut: the chip cannot win. */
static enum pz_status evaluate_entry(struct pz_driver *d, unsigned worker, const struct pz_boxed *c,
                                     uint32_t m, enum pz_effort effort, struct steps *v, bool *cut,
                                     struct pz_outcome *x) {
  struct pz_search *s = d->s;
  const struct pz_search_entry *e = &s->q.entries[m];
  struct pz_point p = pz_box_point(&c->box);
  struct key k = key_of(s, &p, m, effort);
  struct pz_evaluation known;
  if (!look_up(s, &k, &known)) {
    bool limited = d->run->found && !s->q.exhaustive && effort == PZ_EFFORT_QUICK;
    double limit_s =
        limited ? pz_objective_limit_s(&d->run->objective, v->least, &c->least, m, d->run->value)
                : HUGE_VAL;
    enum pz_status status =
        e->by->ops->value(e->by, worker, c, e->model, effort, limit_s, &known, &x->err);
    if (status != PZ_OK) return status;
    *cut = known.effort == PZ_EFFORT_NONE;
    if (*cut) return v->least[m].step_s = pz_fmax(v->least[m].step_s, limit_s), PZ_OK;
    if (!pz_vec_push(&x->known, &(struct pz_found_step){k.id, m, known}))
      return pz_fail(&x->err, PZ_NO_MEMORY, NO_MEMORY);
  }
  v->found[m] = (struct pz_step_cost){known.step_s, known.dynamic_j};
  v->least[m] = (struct pz_step_cost){known.least_s, known.dynamic_j};
  return PZ_OK;
}

/* With the first effort every entry, until the chip cannot win; with more those that are not decided.  *whole: every entry
 * was evaluated. */
static enum pz_status evaluate_chip(struct pz_driver *d, unsigned worker, const struct pz_boxed *c,
                                    enum pz_effort effort, struct steps *v, bool *whole,
                                    struct pz_outcome *x) {
  const struct pz_objective *o = &d->run->objective;
  struct pz_point p = pz_box_point(&c->box);
  *whole = false;
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t m = o->models[i];
    bool cut = false;
    enum pz_status status = evaluate_entry(d, worker, c, m, PZ_EFFORT_QUICK, v, &cut, x);
    if (status == PZ_OK && effort == PZ_EFFORT_FULL && v->least[m].step_s < v->found[m].step_s)
      status = evaluate_entry(d, worker, c, m, PZ_EFFORT_FULL, v, &cut, x);
    if (status != PZ_OK || cut) return status;
    *whole = i + 1 == o->n;
    if (!*whole && !d->s->q.exhaustive &&
        !may_win(d, &p, c->least.mm2, pz_objective_value(o, v->least, &c->least)))
      return PZ_OK;
  }
  return PZ_OK;
}

/* A chip that is tried for its value alone. */
static enum pz_status try_chip(struct pz_driver *d, const struct pz_box_task *t,
                               const struct pz_point *p, struct pz_outcome *x) {
  struct pz_box b = pz_box_of(p);
  struct pz_boxed c;
  struct steps v;
  bool whole = false;
  double bound = 0;
  pz_boxed_set(d->s->q.space, &b, &c);
  if (pz_boxed_breaks(&c, &t->q->limits)) return PZ_OK; /* the smallest of a box may, by its edge */
  enum pz_status status = pz_box_bound(t, &c, 0, v.least, &bound);
  if (status != PZ_OK || !may_win(d, p, c.least.mm2, bound)) return status;
  status = evaluate_chip(d, t->worker, &c, PZ_EFFORT_QUICK, &v, &whole, x);
  if (status != PZ_OK || !whole) return status;
  x->candidate = b;
  x->value = pz_objective_value(&d->run->objective, v.found, &c.least);
  return PZ_OK;
}

/* A chip of the certificate, with lower bounds on its steps in v->least. */
static enum pz_status decide_chip(struct pz_driver *d, const struct pz_box_task *t,
                                  const struct pz_open_box *one, const struct pz_boxed *c,
                                  struct steps *v, struct pz_outcome *x) {
  const struct pz_objective *o = &d->run->objective;
  bool whole = false;
  enum pz_status status = evaluate_chip(d, t->worker, c, one->effort, v, &whole, x);
  if (status != PZ_OK) return status;
  double bound = pz_fmin(pz_objective_value(o, v->least, &c->least), one->bound);
  struct pz_closed_box closed = {one->box, whole ? PZ_BOX_EVALUATED : PZ_BOX_PARTLY, bound, 0};
  if (!whole) return pz_box_close(t, &closed);
  closed.value = x->value = pz_objective_value(o, v->found, &c->least);
  x->candidate = one->box;
  if (bound <= closed.value || one->effort == PZ_EFFORT_FULL) return pz_box_close(t, &closed);
  struct pz_open_box again = {one->box, bound, closed.value, 0, PZ_EFFORT_FULL, false};
  if (pz_vec_push(&x->children, &again)) return PZ_OK;
  return pz_fail(&x->err, PZ_NO_MEMORY, NO_MEMORY);
}

/* ---- one box -------------------------------------------------------------------------------- */

/* Its bound does not close the box: two halves. */
static enum pz_status split(const struct pz_box_task *t, const struct pz_box *b, double bound,
                            struct pz_outcome *x) {
  struct pz_open_box low = {*b, bound, 0, 0, PZ_EFFORT_QUICK, false}, high = low;
  enum pz_axis a;
  uint8_t at = 0;
  enum pz_status status = pz_box_split_axis(t, b, &a, &at);
  if (status != PZ_OK) return status;
  low.box.hi[a] = at;
  high.box.lo[a] = (uint8_t)(at + 1);
  if (pz_vec_push(&x->children, &low) && pz_vec_push(&x->children, &high)) return PZ_OK;
  return pz_fail(&x->err, PZ_NO_MEMORY, NO_MEMORY);
}

/* A good chip of a promising box. */
static enum pz_status dive(struct pz_driver *d, const struct pz_box_task *t, const struct pz_box *b,
                           struct pz_outcome *x) {
  struct pz_point p;
  enum pz_status status = pz_box_greedy(t, b, &p);
  return status == PZ_OK ? try_chip(d, t, &p, x) : status;
}

static enum pz_status work_on(struct pz_driver *d, const struct pz_box_task *t,
                              struct pz_open_box one, struct pz_outcome *x) {
  bool left = false, again = one.effort == PZ_EFFORT_FULL;
  struct pz_boxed b;
  struct steps v;
  double bound = 0;
  if (one.bound <= t->cutoff)
    return pz_box_close(t, &(struct pz_closed_box){one.box, again ? PZ_BOX_EVALUATED : PZ_BOX_BOUND,
                                                   one.bound, one.value});
  enum pz_status status = again ? PZ_OK : pz_box_tighten(t, &one.box, &left);
  if (status != PZ_OK || (!left && !again)) return status;
  pz_boxed_set(d->s->q.space, &one.box, &b);
  status = pz_box_bound(t, &b, 1, v.least, &bound);
  x->priced = true;
  if (status != PZ_OK) return status;
  one.bound = pz_fmin(bound, one.bound);
  if (one.bound <= t->cutoff && !again)
    return pz_box_close(t, &(struct pz_closed_box){one.box, PZ_BOX_BOUND, one.bound, 0});
  if (pz_box_is_chip(&one.box)) return decide_chip(d, t, &one, &b, &v, x);
  status = split(t, &one.box, one.bound, x);
  return status == PZ_OK && one.dives ? dive(d, t, &one.box, x) : status;
}

static struct pz_box_task task_of(struct pz_driver *d, unsigned worker, struct pz_outcome *x) {
  return (struct pz_box_task){.q = &d->s->q,
                              .o = &d->run->objective,
                              .worker = worker,
                              .cheap = d->cheap,
                              .cutoff = cutoff_of(d),
                              .boxes = &x->boxes,
                              .err = &x->err};
}

/* Kinds of rounds. */
static enum pz_status work_on_box(struct pz_driver *d, const struct pz_box_task *t, size_t i,
                                  struct pz_outcome *x) {
  return work_on(d, t, d->round[i], x);
}

static enum pz_status start_kind(struct pz_driver *d, const struct pz_box_task *t, size_t i,
                                 struct pz_outcome *x) {
  struct pz_box least = d->round[i].box;
  struct pz_boxed c;
  memcpy(least.hi, least.lo, sizeof least.hi);
  pz_boxed_set(d->s->q.space, &least, &c);
  return pz_boxed_breaks(&c, &t->q->limits) ? PZ_OK : dive(d, t, &d->round[i].box, x);
}

static enum pz_status try_one(struct pz_driver *d, const struct pz_box_task *t, size_t i,
                              struct pz_outcome *x) {
  struct pz_point p = pz_box_point(&d->round[i].box);
  return try_chip(d, t, &p, x);
}

static void work(void *ctx, size_t i, unsigned worker) {
  struct pz_driver *d = ctx;
  struct pz_outcome *x = &d->outcome[i];
  pz_outcome_begin(x);
  struct pz_box_task t = task_of(d, worker, x);
  if (stopped(d->s)) {
    x->status = PZ_STOPPED;
    return;
  }
  x->status = d->fn(d, &t, i, x);
}

/* ---- rounds --------------------------------------------------------------------------------- */

static enum pz_status close_box(struct pz_driver *d, const struct pz_closed_box *b,
                                struct pz_error *err) {
  struct pz_objective_run *r = d->run;
  int64_t n = pz_box_chips(&b->box);
  if (b->end != PZ_BOX_OPEN) r->closed += n;
  r->infeasible += b->end == PZ_BOX_INFEASIBLE ? n : 0;
  r->by_bound += b->end == PZ_BOX_BOUND ? n : 0;
  r->n_evaluated += b->end == PZ_BOX_EVALUATED;
  r->n_partly += b->end == PZ_BOX_PARTLY;
  if (b->end != PZ_BOX_INFEASIBLE) d->closed_bound = pz_fmax(d->closed_bound, b->bound);
  if (pz_vec_push(&d->closed, b)) return PZ_OK;
  return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
}

static void take(struct pz_driver *d, const struct pz_outcome *x) {
  struct pz_point p = pz_box_point(&x->candidate);
  struct pz_chip c;
  if (!(x->value > 0)) return;
  pz_space_chip(d->s->q.space, &p, &c);
  double mm2 = pz_chip_taken(&c).mm2;
  if (!may_win(d, &p, mm2, x->value)) return;
  d->run->found = true;
  d->run->best = p;
  d->run->value = x->value;
  d->best_mm2 = mm2;
}

/* What the search learns from an outcome. */
static enum pz_status learn(struct pz_driver *d, const struct pz_outcome *x, struct pz_error *err) {
  enum pz_status status =
      x->status == PZ_OK ? PZ_OK : pz_fail(err, x->status, "%s", x->err.message);
  for (uint32_t k = 0; k < x->known.n && status == PZ_OK; k++)
    status = pz_search_learn(d->s, pz_vec_at(&x->known, struct pz_found_step, k), err);
  for (uint32_t k = 0; k < x->boxes.n && status == PZ_OK; k++)
    status = close_box(d, pz_vec_at(&x->boxes, struct pz_closed_box, k), err);
  for (uint32_t k = 0; k < x->children.n && status == PZ_OK; k++)
    status = push_open(d, *pz_vec_at(&x->children, struct pz_open_box, k), err);
  if (status == PZ_OK) take(d, x);
  d->run->priced += x->priced;
  return status;
}

struct ordered {
  const struct pz_box *box;
  uint32_t item;
};

static int by_box(const void *a, const void *b) {
  const struct ordered *x = a, *y = b;
  if (x->box->kind != y->box->kind) return x->box->kind < y->box->kind ? -1 : 1;
  int by_lo = memcmp(x->box->lo, y->box->lo, sizeof x->box->lo);
  return by_lo ? by_lo : x->item < y->item ? -1 : 1;
}

/* The boxes of a round, on the threads of all ranks.  Like boxes go to the same rank, which maps the products that they have
 * in common once. */
static enum pz_status deal_round(struct pz_driver *d, struct pz_error *err) {
  struct ordered list[PZ_MOST_ROUND];
  uint32_t order[PZ_MOST_ROUND];
  struct pz_round round = {d,    d->n_round, work, pz_outcome_pack, pz_outcome_unpack, d->s->q.stop,
                           order};
  for (uint32_t i = 0; i < d->n_round; i++) list[i] = (struct ordered){&d->round[i].box, i};
  qsort(list, d->n_round, sizeof *list, by_box);
  for (uint32_t i = 0; i < d->n_round; i++) order[i] = list[i].item;
  for (uint32_t i = 0; i < d->n_round; i++) pz_outcome_begin(&d->outcome[i]);
  return pz_round_run(d->s->pool, &round, err);
}

/* A round as it is kept; rank 0 has the store. */
static enum pz_status keep_round(struct pz_driver *d, struct pz_error *err) {
  const struct pz_round_store *store = d->s->q.store;
  struct pz_buffer b = {0};
  if (!store) return PZ_OK;
  for (uint32_t i = 0; i < d->n_round; i++) pz_outcome_pack(d, i, &b);
  enum pz_status status = b.failed ? pz_fail(err, PZ_NO_MEMORY, NO_MEMORY)
                                   : store->keep(store->ctx, d->number, d->at_round, &b, err);
  pz_free(b.text);
  return status;
}

/* The outcomes of the round as the store has them; *has: false where it does not. */
static enum pz_status replay(struct pz_driver *d, bool *has, struct pz_error *err) {
  const struct pz_round_store *store = d->s->q.store;
  struct pz_buffer b = {0};
  enum pz_status status = store ? store->read(store->ctx, d->number, d->at_round, &b, err) : PZ_OK;
  status = pz_ranks_share(&b, status, err);
  *has = status == PZ_OK && b.text;
  struct pz_bytes in = {b.text, b.bytes};
  for (uint32_t i = 0; i < d->n_round && *has; i++) pz_outcome_begin(&d->outcome[i]);
  for (uint32_t i = 0; i < d->n_round && *has && status == PZ_OK; i++) {
    status = pz_outcome_unpack(d, i, &in);
    if (status == PZ_OK &&
        !pz_outcome_is_of(&d->outcome[i], &d->round[i].box, d->fn == work_on_box))
      status = PZ_BAD_INPUT;
  }
  if (status == PZ_OK && *has && in.left) status = PZ_BAD_INPUT;
  if (*has && status == PZ_NO_MEMORY) status = pz_fail(err, status, NO_MEMORY);
  if (*has && status == PZ_BAD_INPUT)
    status = pz_fail(err, status, "round %u of objective run %u is not of this search", d->at_round,
                     d->number);
  pz_free(b.text);
  return status;
}

/* A round is dealt and kept.  One in which the time was over (a search that is cancelled ends the dealing itself) is as if
 * it had not begun: *done is false. */
static enum pz_status make_round(struct pz_driver *d, bool *done, struct pz_error *err) {
  enum pz_status status = deal_round(d, err);
  const struct pz_outcome *x = d->outcome;
  while (status == PZ_OK && x < d->outcome + d->n_round && x->status == PZ_OK) x++;
  if (status != PZ_OK) return status;
  if (x == d->outcome + d->n_round) return *done = true, keep_round(d, err);
  if (x->status != PZ_STOPPED)
    return pz_fail(err, x->status, "%s", x->err.message[0] ? x->err.message : "interrupted");
  *done = false;
  d->over = true;
  return PZ_OK;
}

/* One round: the boxes of d->round, each by one thread and judged against the best of the rounds before; what was found, in
 * their order, whoever found it. */
static enum pz_status run_round(struct pz_driver *d, pz_round_fn *fn, struct pz_error *err) {
  bool done = false;
  d->fn = fn;
  enum pz_status status = d->replays ? replay(d, &done, err) : PZ_OK;
  d->replays = done;
  if (status == PZ_OK && !done) status = make_round(d, &done, err);
  for (uint32_t i = 0; i < d->n_round; i++) {
    if (status == PZ_OK && done)
      status = learn(d, &d->outcome[i], err);
    else if (status == PZ_OK && fn == work_on_box)
      status = push_open(d, d->round[i], err);
    pz_arena_release(&d->outcome[i].arena);
  }
  d->at_round += done;
  return status;
}

static void show(const struct pz_driver *d) {
  char note[160] = "";
  const struct pz_objective_run *r = d->run;
  double top = d->heap.n ? pz_vec_at(&d->heap, struct pz_open_box, 0)->bound : r->value,
         gap = HUGE_VAL;
  if (!d->s->q.progress) return;
  if (r->found) {
    struct pz_chip c;
    pz_space_chip(d->s->q.space, &r->best, &c);
    snprintf(note, sizeof note, "%u boxes open, best %.4g with %s", d->heap.n, r->value, c.name);
    if (d->heap.n || r->closed == r->chips)
      gap = pz_fmax(0, pz_fmax(top, d->closed_bound) / r->value - 1);
  }
  pz_progress_gap(d->s->q.progress, (uint64_t)r->closed, (uint64_t)r->chips,
                  (const double[]){gap, d->ties ? 0 : d->s->q.gap}, note);
}

/* ---- good chips early ----------------------------------------------------------------------- */

static uint32_t next_size(uint32_t size) { return (uint32_t)pz_min(2 * size, PZ_MOST_ROUND); }

/* Small rounds at first, so that a chip is known early. */
static enum pz_status greedy_chips(struct pz_driver *d, struct pz_error *err) {
  uint32_t kinds = pz_space_kinds(d->s->q.space), size = LEAST_ROUND;
  enum pz_status status = PZ_OK;
  for (uint32_t k = 0; k < kinds && status == PZ_OK && !d->over; k += d->n_round) {
    d->n_round = (uint32_t)pz_min(size, kinds - k);
    for (uint32_t i = 0; i < d->n_round; i++) d->round[i].box = pz_box_all(d->s->q.space, k + i);
    status = run_round(d, start_kind, err);
    size = next_size(size);
  }
  return status;
}

/* A chip one step up on one axis and down on another, or up alone, within the space and the limits. */
static bool neighbour(const struct pz_driver *d, int up, int down, struct pz_box *b) {
  const struct pz_space *s = d->s->q.space;
  struct pz_boxed c;
  *b = pz_box_of(&d->run->best);
  if (up == down) return false;
  if (up < PZ_AXES) {
    if (b->lo[up] + 1 >= s->n[up]) return false;
    b->lo[up]++;
  }
  if (down < PZ_AXES) {
    if (b->lo[down] == 0) return false;
    b->lo[down]--;
  }
  memcpy(b->hi, b->lo, sizeof b->hi);
  pz_boxed_set(s, b, &c);
  return !pz_boxed_breaks(&c, &d->s->q.limits);
}

/* Local search from the best chip: exchange a step of one axis for a step of another, while that brings a part of the gap
 * that is asked for. */
static enum pz_status climb(struct pz_driver *d, struct pz_error *err) {
  static const double PART = 0.1, MOST = 0.005;
  struct pz_box list[(PZ_AXES + 1) * (PZ_AXES + 1)];
  enum pz_status status = PZ_OK;
  double before = -1, enough = 1 + pz_fmin(PART * d->s->q.gap, MOST);
  while (status == PZ_OK && !d->over && d->run->found && d->run->value > before * enough) {
    uint32_t n = 0;
    before = d->run->value;
    for (int up = 0; up <= PZ_AXES; up++)
      for (int down = 0; down <= PZ_AXES; down++)
        if (neighbour(d, up, down, &list[n])) n++;
    for (uint32_t i = 0; i < n && status == PZ_OK && !d->over; i += d->n_round) {
      d->n_round = (uint32_t)pz_min(PZ_MOST_ROUND, n - i);
      for (uint32_t k = 0; k < d->n_round; k++) d->round[k].box = list[i + k];
      status = run_round(d, try_one, err);
    }
    show(d);
  }
  return status;
}

/* ---- branch and bound ------------------------------------------------------------------------ */

/* Evaluators end in the middle of a round when the time of the run is over. */
static void set_end(struct pz_driver *d, bool on) {
  const struct pz_search_question *q = &d->s->q;
  if (q->ending && q->seconds > 0) q->ending->end_s = on ? d->start_s + q->seconds : 0;
}

/* By the clock of rank 0. */
static enum pz_status may_go_on(const struct pz_driver *d, bool *go, struct pz_error *err) {
  const struct pz_search_question *q = &d->s->q;
  int64_t most = d->run->most_rounds;
  *go = d->heap.n && !d->over && !(most && (int64_t)d->run->rounds >= most);
  if (!*go || !(q->seconds > 0)) return PZ_OK;
  *go = pz_clock_s() - d->start_s <= q->seconds;
  return pz_ranks_share_flag(go, err);
}

/* Small rounds as long as no good chip is known. */
static enum pz_status branch(struct pz_driver *d, struct pz_error *err) {
  bool go = false;
  uint32_t size = d->cheap ? PZ_MOST_ROUND : LEAST_ROUND;
  enum pz_status status = may_go_on(d, &go, err);
  while (status == PZ_OK && go) {
    double before = d->run->value;
    for (d->n_round = 0; d->heap.n && d->n_round < size; d->n_round++) {
      pz_heap_pop(&d->heap, comes_first, &d->round[d->n_round]);
      d->round[d->n_round].dives = d->cheap && d->n_round < DIVES;
    }
    status = run_round(d, work_on_box, err);
    if (d->over) break;
    d->run->rounds++;
    if (d->run->found) size = next_size(size);
    if (status == PZ_OK && d->cheap && d->run->value > before) status = climb(d, err);
    show(d);
    if (status == PZ_OK) status = may_go_on(d, &go, err);
  }
  return status;
}

/* All chips of a kind. */
static enum pz_status push_roots(struct pz_driver *d, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  struct pz_outcome x = {.status = PZ_OK};
  struct pz_box_task t = task_of(d, 0, &x);
  t.err = err;
  for (uint32_t k = 0; k < pz_space_kinds(d->s->q.space) && status == PZ_OK; k++) {
    struct pz_open_box root = {.box = pz_box_all(d->s->q.space, k), .effort = PZ_EFFORT_QUICK};
    struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
    struct pz_boxed b;
    pz_boxed_set(d->s->q.space, &root.box, &b);
    status = pz_box_bound(&t, &b, 0, steps, &root.bound);
    if (status == PZ_OK) status = push_open(d, root, err);
  }
  return status;
}

/* ---- the end -------------------------------------------------------------------------------- */

static enum pz_status no_chip(const struct pz_driver *d, struct pz_error *err) {
  const struct pz_limits *l = &d->s->q.limits;
  const struct pz_objective *o = &d->run->objective;
  const char *name = o->n == 1 ? d->s->q.entries[o->models[0]].name : "every model";
  if (!d->run->finished)
    return pz_fail(err, PZ_NO_ANSWER,
                   "no chip that runs %s was found in %" PRIu64
                   " round%s; accepted: more --rounds or --seconds",
                   name, d->run->rounds, pz_text_s((double)d->run->rounds));
  struct pz_excess excess = {{0}, {0}};
  int64_t within = d->run->chips;
  for (uint32_t i = 0; i < d->closed.n; i++) {
    const struct pz_closed_box *c = pz_vec_at(&d->closed, struct pz_closed_box, i);
    struct pz_boxed b;
    pz_boxed_set(d->s->q.space, &c->box, &b);
    if (!pz_boxed_breaks(&b, l)) continue;
    pz_excess_add(&excess, l, &b.least, &b.most);
    within -= pz_box_chips(&c->box);
  }
  if (within == 0) return pz_search_nothing_fits(d->s->q.space, &excess, err);
  return pz_fail(
      err, PZ_NO_ANSWER,
      "no chip of the space %s within its limits runs %s; 'phaze place MODEL --chip CHIP' "
      "says what a chip lacks",
      d->s->q.space->name, name);
}

/* Schedules of chips that may be better that are not proven optimal. */
static uint32_t open_schedules(struct pz_driver *d, const struct pz_closed_box *b) {
  const struct pz_objective *o = &d->run->objective;
  struct pz_point p = pz_box_point(&b->box);
  struct pz_evaluation e;
  uint32_t n = 0;
  for (uint32_t i = 0; i < o->n; i++)
    if (pz_search_known(d->s, &p, o->models[i], &e)) n += e.n_open;
  return n;
}

/* What is still open belongs to the certificate too. */
static enum pz_status conclude(struct pz_driver *d, struct pz_error *err) {
  struct pz_objective_run *r = d->run;
  enum pz_status status = PZ_OK;
  r->finished = d->heap.n == 0 && !d->over;
  while (d->heap.n && status == PZ_OK) {
    struct pz_open_box x;
    pz_heap_pop(&d->heap, comes_first, &x);
    bool chip = x.effort == PZ_EFFORT_FULL;
    status = close_box(
        d, &(struct pz_closed_box){x.box, chip ? PZ_BOX_EVALUATED : PZ_BOX_OPEN, x.bound, x.value},
        err);
  }
  if (status != PZ_OK) return status;
  if (!r->found) return no_chip(d, err);
  r->boxes = d->closed.items;
  r->n_boxes = d->closed.n;
  r->bound = r->value;
  for (uint32_t i = 0; i < r->n_boxes; i++) {
    const struct pz_closed_box *b = &r->boxes[i];
    if (b->end == PZ_BOX_INFEASIBLE || !(b->bound > r->value)) continue;
    r->bound = pz_fmax(r->bound, b->bound);
    if (b->end == PZ_BOX_EVALUATED) r->n_open += open_schedules(d, b);
  }
  return PZ_OK;
}

/* Are dollars and what else the objective divides by known of every chip, if they matter? */
static enum pz_status check_objective(const struct pz_driver *d, struct pz_error *err) {
  const struct pz_space *s = d->s->q.space;
  enum pz_objective_kind kind = d->run->objective.kind;
  for (int i = 0; i < s->n_nodes; i++) {
    const struct pz_tech_info *t = pz_tech_at(s->node[i]);
    bool needs = pz_objective_needs_bill(kind);
    if ((needs || d->s->q.limits.dollars > 0) && pz_tech_is_library(t))
      return pz_fail(
          err, PZ_BAD_USE,
          "--%s%s: the space %s has chips of %s, whose library has no %s; accepted: chips "
          "of 16 nm or below",
          needs ? "objective " : "limit-dollars", needs ? pz_objective_names[kind] : "", s->name,
          t->name, needs ? "bill of HBM, links and static power" : "prices");
  }
  return PZ_OK;
}

static bool all_cheap(const struct pz_search *s, const struct pz_objective *o) {
  for (uint32_t i = 0; i < o->n; i++)
    if (!s->q.entries[o->models[i]].by->ops->cheap) return false;
  return true;
}

/* What an objective run is called while it runs. */
static const char *label_of(const struct pz_search *s, const struct pz_objective *o) {
  return o->n == 1 ? s->q.entries[o->models[0]].name : "all models";
}

enum pz_status pz_search_run(struct pz_search *s, uint32_t number, struct pz_objective_run *run,
                             struct pz_error *err) {
  struct pz_driver *d = pz_calloc(1, sizeof *d);
  if (!d) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  *run = (struct pz_objective_run){.objective = run->objective,
                                   .most_rounds = run->most_rounds,
                                   .chips = pz_space_chips(s->q.space)};
  d->s = s;
  d->run = run;
  d->number = number;
  d->replays = true;
  d->cheap = !s->q.exhaustive && all_cheap(s, &run->objective);
  d->ties = !all_cheap(s, &run->objective);
  d->start_s = pz_clock_s();
  pz_arena_init(&d->arena, NULL);
  pz_vec_init(&d->heap, &d->arena, sizeof(struct pz_open_box));
  pz_vec_init(&d->closed, &s->arena, sizeof(struct pz_closed_box));
  pz_progress_next(s->q.progress, label_of(s, &run->objective), "chips", (uint64_t)run->chips);
  show(d);
  set_end(d, true);
  enum pz_status status = check_objective(d, err);
  if (status == PZ_OK && d->cheap) status = greedy_chips(d, err);
  if (status == PZ_OK && d->cheap) status = climb(d, err);
  set_end(d, false); /* with these bounds what was found has a gap */
  if (status == PZ_OK && (run->found || !d->over)) status = push_roots(d, err);
  set_end(d, !d->over);
  if (status == PZ_OK) status = branch(d, err);
  set_end(d, false);
  if (status == PZ_OK) show(d);
  pz_progress_finish(s->q.progress, NULL);
  if (status == PZ_OK) status = conclude(d, err);
  pz_arena_release(&d->arena);
  pz_free(d);
  return status;
}

/* ---- pieces of work ------------------------------------------------------------------------- */

struct dealt {
  struct pz_search *s;
  const struct pz_search_work *w;
  struct pz_error *err; /* by piece */
};

static void do_piece(void *ctx, size_t i, unsigned worker) {
  struct dealt *x = ctx;
  x->err[i].status = stopped(x->s) ? PZ_STOPPED : x->w->fn(x->w->ctx, i, worker, &x->err[i]);
}

/* A piece with an error brings that, any other what it made. */
static void pack_piece(void *ctx, size_t i, struct pz_buffer *out) {
  const struct dealt *x = ctx;
  const struct pz_error *err = &x->err[i];
  pz_buffer_append(out, (const char *)&err->status, sizeof err->status);
  if (err->status == PZ_OK)
    x->w->pack(x->w->ctx, i, out);
  else
    pz_buffer_append(out, (const char *)err, sizeof *err);
}

static enum pz_status unpack_piece(void *ctx, size_t i, struct pz_bytes *in) {
  const struct dealt *x = ctx;
  struct pz_error *err = &x->err[i];
  if (!pz_bytes_take(in, &err->status, sizeof err->status)) return PZ_BAD_INPUT;
  if (err->status == PZ_OK) return x->w->unpack(x->w->ctx, i, in);
  return pz_bytes_take(in, err, sizeof *err) ? PZ_OK : PZ_BAD_INPUT;
}

enum pz_status pz_search_deal(struct pz_search *s, size_t n, const struct pz_search_work *w,
                              struct pz_error *err) {
  struct dealt x = {s, w, pz_calloc(n + 1, sizeof *x.err)};
  struct pz_round round = {&x, n, do_piece, pack_piece, unpack_piece, s->q.stop, NULL};
  enum pz_status status = PZ_OK;
  if (!x.err) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  if (w->pack)
    status = pz_round_run(w->wide ? NULL : s->pool, &round, err);
  else
    pz_pool_for(s->pool, n, do_piece, &x);
  for (size_t i = 0; i < n && status == PZ_OK; i++) status = x.err[i].status;
  for (size_t i = 0; i < n && status != PZ_OK && err && err->status == PZ_OK; i++)
    if (x.err[i].status == status) *err = x.err[i];
  pz_free(x.err);
  return status;
}
