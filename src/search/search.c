/* The search (search.h has the idea).  pz_search_optimize() is an objective run:
 *
 *     try_greedy_chips     a greedy chip of each kind, so that a good value is known early
 *     climb                local search from the best chip
 *     push_roots           one open box for each kind
 *     branch               rounds of open boxes: process_box() closes, splits or evaluates each
 *     conclude             the certificate and the bound
 *
 * run_round() is the only place where boxes are processed in parallel.  It reads the outcomes of a round from the
 * store, or shares its boxes among the threads of all ranks and stores them; then it merges the outcomes in the order
 * of the boxes, so that the state does not depend on who computed what.
 *
 * A task of a round ends at a border of its own: a failure is part of its outcome, which all ranks exchange. */
#include "search/search.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/num.h"
#include "core/text.h"
#include "search/state.h"

enum { SMALLEST_ROUND = 8, DIVES_OF_ROUND = 4 };

#define NO_MEMORY "out of memory for the search"

/* ---- known evaluations ---------------------------------------------------------------------- */

struct step_key {
  uint64_t id;
  uint32_t entry, effort;
};

static struct step_key key_of_step(const struct pz_search *s, const struct pz_point *p,
                                   uint32_t entry, enum pz_effort effort) {
  return (struct step_key){pz_space_id(s->q.space, p), entry, (uint32_t)effort};
}

static bool look_up_step(struct pz_search *s, const struct step_key *key,
                         struct pz_evaluation *out) {
  pthread_mutex_lock(&s->lock);
  uint32_t i = pz_map_get(&s->known_index, key, sizeof *key);
  if (i != PZ_NONE) *out = pz_vec_at(&s->known, struct pz_found_step, i)->e;
  pthread_mutex_unlock(&s->lock);
  return i != PZ_NONE;
}

/* Returns false if there is no memory.  Must not raise, because its caller holds the lock. */
static bool insert_step(struct pz_search *s, const struct step_key *key,
                        const struct pz_found_step *k) {
  struct pz_found_step own = *k;
  uint32_t n = k->e.plan.n_stages, index = s->known.n;
  own.e.plan.layers = NULL;
  if (n) {
    uint16_t *layers = pz_arena_alloc(s->arena, n, sizeof *layers);
    if (!layers) return false;
    memcpy(layers, k->e.plan.layers, n * sizeof *layers);
    own.e.plan.layers = layers;
  }
  return pz_vec_push(&s->known, &own) &&
         pz_map_put(&s->known_index, key, sizeof *key, index) == PZ_OK;
}

/* Remembers an evaluation, with a copy of its plan, unless it is known already. */
static void remember_step(struct pz_call *call, struct pz_search *s,
                          const struct pz_found_step *k) {
  struct step_key key = {k->id, k->entry, (uint32_t)k->e.effort};
  pthread_mutex_lock(&s->lock);
  bool is_known = pz_map_get(&s->known_index, &key, sizeof key) != PZ_NONE;
  bool stored = is_known || insert_step(s, &key, k);
  pthread_mutex_unlock(&s->lock);
  if (!stored) pz_raise(call, PZ_NO_MEMORY, NO_MEMORY);
}

bool pz_search_known(struct pz_search *s, const struct pz_point *p, uint32_t entry,
                     struct pz_evaluation *out) {
  struct step_key full = key_of_step(s, p, entry, PZ_EFFORT_FULL);
  struct step_key quick = key_of_step(s, p, entry, PZ_EFFORT_QUICK);
  return look_up_step(s, &full, out) || look_up_step(s, &quick, out);
}

struct pz_evaluation pz_search_evaluate_chip(struct pz_call *call, struct pz_search *s,
                                             unsigned worker, const struct pz_point *p,
                                             uint32_t entry, enum pz_effort effort) {
  const struct pz_search_entry *e = &s->q.entries[entry];
  struct step_key key = key_of_step(s, p, entry, effort);
  struct pz_box b = pz_box_of(p);
  struct pz_boxed chip;
  struct pz_evaluation evaluation;
  if (look_up_step(s, &key, &evaluation)) return evaluation;
  pz_boxed_set(s->q.space, &b, &chip);
  evaluation = e->by->ops->evaluate(call, e->by, worker, &chip, e->model, effort, HUGE_VAL);
  remember_step(call, s, &(struct pz_found_step){key.id, entry, evaluation});
  return evaluation;
}

static int compare_steps(const void *a, const void *b) {
  const struct pz_found_step *x = a, *y = b;
  if (x->id != y->id) return x->id < y->id ? -1 : 1;
  if (x->entry != y->entry) return x->entry < y->entry ? -1 : 1;
  return (x->e.effort > y->e.effort) - (x->e.effort < y->e.effort);
}

struct pz_found_step *pz_search_list_known(struct pz_call *call, struct pz_search *s, uint32_t *n) {
  *n = s->known.n;
  struct pz_found_step *list = pz_copy(call, s->known.items, *n, sizeof *list);
  if (*n) qsort(list, *n, sizeof *list, compare_steps);
  return list;
}

/* ---- searches ------------------------------------------------------------------------------- */

struct pz_search *pz_search_create(struct pz_call *call, const struct pz_search_question *q,
                                   struct pz_pool *pool) {
  struct pz_call own;
  struct pz_search *s = pz_object_new(call, sizeof *s, &own);
  s->q = *q;
  s->pool = pool;
  s->arena = own.arena;
  pz_map_init(&s->known_index, s->arena);
  pz_vec_init(&s->known, s->arena, sizeof(struct pz_found_step));
  pthread_mutex_init(&s->lock, NULL);
  return pz_object_keep(call, s);
}

void pz_search_free(struct pz_search *s) {
  if (s) pthread_mutex_destroy(&s->lock);
  pz_object_free(s);
}

const struct pz_search_question *pz_search_asked(const struct pz_search *s) { return &s->q; }

double pz_search_upper_bound(struct pz_call *call, struct pz_search *s, unsigned worker,
                             const struct pz_objective *o, const struct pz_boxed *b,
                             struct pz_step_cost *steps) {
  struct pz_box_task t = {.q = &s->q, .o = o, .worker = worker};
  return pz_box_bound(call, &t, b, 0, steps);
}

static bool is_stopped(const struct pz_search *s) { return s->q.stop && atomic_load(s->q.stop); }

/* ---- state of an objective run -------------------------------------------------------------- */

/* The order of the heap: chips that wait for full effort last, then by bound, then by age. */
static bool comes_first(const void *x, const void *y) {
  const struct pz_open_box *a = x, *b = y;
  if (a->effort != b->effort) return a->effort < b->effort;
  return a->bound != b->bound ? a->bound > b->bound : a->serial < b->serial;
}

static void push_open(struct pz_call *call, struct pz_driver *d, const struct pz_open_box *x) {
  struct pz_open_box box = *x;
  box.serial = d->serial;
  d->serial++;
  pz_heap_add(call, &d->heap, comes_first, &box);
}

/* Values that are not above the cutoff are of no interest.  Where ties go to the smaller chip, an equal value is. */
static double cutoff_of_run(const struct pz_driver *d) {
  if (d->s->q.exhaustive) return 0;
  if (!d->run->found) return DBL_MIN;
  if (d->smaller_wins_ties) return nextafter(d->run->value, 0);
  return d->run->value * (1 + d->s->q.gap);
}

/* Whether a chip with this value would replace the best one. */
static bool may_win(const struct pz_driver *d, const struct pz_point *p, double mm2, double value) {
  const struct pz_objective_run *r = d->run;
  if (!r->found) return value > 0;
  if (value != r->value || !d->smaller_wins_ties) return value > r->value;
  if (mm2 != d->best_mm2) return mm2 < d->best_mm2;
  return pz_point_order(d->s->q.space, p, &r->best) < 0;
}

static void add_closed(struct pz_call *call, struct pz_driver *d, const struct pz_closed_box *b) {
  struct pz_objective_run *r = d->run;
  int64_t n = pz_box_chips(&b->box);
  if (b->end != PZ_BOX_OPEN) r->closed += n;
  if (b->end == PZ_BOX_INFEASIBLE) r->infeasible += n;
  if (b->end == PZ_BOX_BOUND) r->by_bound += n;
  if (b->end == PZ_BOX_EVALUATED) r->n_evaluated++;
  if (b->end == PZ_BOX_PARTLY) r->n_partly++;
  if (b->end != PZ_BOX_INFEASIBLE) d->closed_bound = pz_fmax(d->closed_bound, b->bound);
  pz_append(call, &d->closed, b);
}

static void show_progress(const struct pz_driver *d) {
  const struct pz_objective_run *r = d->run;
  char note[160] = "";
  double gap = HUGE_VAL;
  if (!d->s->q.progress) return;
  if (r->found) {
    struct pz_chip c;
    pz_space_chip(d->s->q.space, &r->best, &c);
    snprintf(note, sizeof note, "%u boxes open, best %.4g with %s", d->heap.n, r->value, c.name);
    double top = d->heap.n ? pz_vec_at(&d->heap, struct pz_open_box, 0)->bound : r->value;
    if (d->heap.n || r->closed == r->chips)
      gap = pz_fmax(0, pz_fmax(top, d->closed_bound) / r->value - 1);
  }
  const double gap_and_target[] = {gap, d->smaller_wins_ties ? 0 : d->s->q.gap};
  pz_progress_gap(d->s->q.progress, (uint64_t)r->closed, (uint64_t)r->chips, gap_and_target, note);
}

/* ---- one chip ------------------------------------------------------------------------------- */

/* Steps of a chip, indexed by entry: as evaluated, and lower bounds. */
struct chip_steps {
  struct pz_step_cost found[PZ_SEARCH_MOST_MODELS], least[PZ_SEARCH_MOST_MODELS];
};

/* Evaluates one entry.  Returns false if it turned out on the way that the chip cannot win. */
static bool evaluate_entry(struct pz_call *call, struct pz_driver *d, unsigned worker,
                           const struct pz_boxed *chip, uint32_t m, enum pz_effort effort,
                           struct chip_steps *steps, struct pz_outcome *x) {
  struct pz_search *s = d->s;
  const struct pz_search_entry *e = &s->q.entries[m];
  struct pz_point p = pz_box_point(&chip->box);
  struct step_key key = key_of_step(s, &p, m, effort);
  struct pz_evaluation found;
  if (!look_up_step(s, &key, &found)) {
    bool is_limited = d->run->found && !s->q.exhaustive && effort == PZ_EFFORT_QUICK;
    double limit_s = HUGE_VAL;
    if (is_limited)
      limit_s =
          pz_objective_limit_s(&d->run->objective, steps->least, &chip->least, m, d->run->value);
    found = e->by->ops->evaluate(call, e->by, worker, chip, e->model, effort, limit_s);
    if (found.effort == PZ_EFFORT_NONE) {
      steps->least[m].step_s = pz_fmax(steps->least[m].step_s, limit_s);
      return false;
    }
    pz_append(call, &x->known, &(struct pz_found_step){key.id, m, found});
  }
  steps->found[m] = (struct pz_step_cost){found.step_s, found.dynamic_j};
  steps->least[m] = (struct pz_step_cost){found.least_s, found.dynamic_j};
  return true;
}

/* Evaluates all entries, until the chip cannot win; with full effort, those whose interval is still open again.
 * Returns whether every entry was evaluated. */
static bool evaluate_chip(struct pz_call *call, struct pz_driver *d, unsigned worker,
                          const struct pz_boxed *chip, enum pz_effort effort,
                          struct chip_steps *steps, struct pz_outcome *x) {
  const struct pz_objective *o = &d->run->objective;
  struct pz_point p = pz_box_point(&chip->box);
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t m = o->models[i];
    if (!evaluate_entry(call, d, worker, chip, m, PZ_EFFORT_QUICK, steps, x)) return false;
    bool is_open = steps->least[m].step_s < steps->found[m].step_s;
    if (effort == PZ_EFFORT_FULL && is_open &&
        !evaluate_entry(call, d, worker, chip, m, PZ_EFFORT_FULL, steps, x))
      return false;
    bool is_last = i + 1 == o->n;
    if (!is_last && !d->s->q.exhaustive &&
        !may_win(d, &p, chip->least.mm2, pz_objective_value(o, steps->least, &chip->least)))
      return false;
  }
  return o->n > 0;
}

/* Evaluates a chip only for its value: the certificate does not depend on it. */
static void try_chip(struct pz_call *call, struct pz_driver *d, const struct pz_box_task *t,
                     const struct pz_point *p, struct pz_outcome *x) {
  struct pz_box b = pz_box_of(p);
  struct pz_boxed chip;
  struct chip_steps steps;
  pz_boxed_set(d->s->q.space, &b, &chip);
  /* The smallest chip of a feasible box may violate a limit, that of its edge. */
  if (pz_boxed_breaks(&chip, &t->q->limits)) return;
  double bound = pz_box_bound(call, t, &chip, 0, steps.least);
  if (!may_win(d, p, chip.least.mm2, bound)) return;
  if (!evaluate_chip(call, d, t->worker, &chip, PZ_EFFORT_QUICK, &steps, x)) return;
  x->candidate = b;
  x->value = pz_objective_value(&d->run->objective, steps.found, &chip.least);
}

/* Evaluates a chip of the certificate, with lower bounds on its steps in steps->least.  It is closed, or opened again
 * for full effort. */
static void decide_chip(struct pz_call *call, struct pz_driver *d, const struct pz_box_task *t,
                        const struct pz_open_box *one, const struct pz_boxed *chip,
                        struct chip_steps *steps, struct pz_outcome *x) {
  const struct pz_objective *o = &d->run->objective;
  bool whole = evaluate_chip(call, d, t->worker, chip, one->effort, steps, x);
  double bound = pz_fmin(pz_objective_value(o, steps->least, &chip->least), one->bound);
  if (!whole) {
    pz_append(call, t->closed, &(struct pz_closed_box){one->box, PZ_BOX_PARTLY, bound, 0});
    return;
  }
  double value = pz_objective_value(o, steps->found, &chip->least);
  x->value = value;
  x->candidate = one->box;
  if (bound <= value || one->effort == PZ_EFFORT_FULL)
    pz_append(call, t->closed, &(struct pz_closed_box){one->box, PZ_BOX_EVALUATED, bound, value});
  else
    pz_append(call, &x->children,
              &(struct pz_open_box){one->box, bound, value, 0, PZ_EFFORT_FULL, false});
}

/* ---- one box -------------------------------------------------------------------------------- */

/* Evaluates a good chip of a promising box. */
static void dive(struct pz_call *call, struct pz_driver *d, const struct pz_box_task *t,
                 const struct pz_box *b, struct pz_outcome *x) {
  struct pz_point p = pz_box_greedy(call, t, b);
  try_chip(call, d, t, &p, x);
}

/* The three kinds of rounds.  This one processes a box of the certificate. */
static void process_box(struct pz_call *call, struct pz_driver *d, const struct pz_box_task *t,
                        size_t i, struct pz_outcome *x) {
  struct pz_open_box one = d->round[i];
  bool was_evaluated = one.effort == PZ_EFFORT_FULL;
  struct pz_boxed boxed;
  struct chip_steps steps;
  if (one.bound <= t->cutoff) {
    enum pz_box_end end = was_evaluated ? PZ_BOX_EVALUATED : PZ_BOX_BOUND;
    pz_append(call, t->closed, &(struct pz_closed_box){one.box, end, one.bound, one.value});
    return;
  }
  if (!was_evaluated && !pz_box_tighten(call, t, &one.box)) return;
  pz_boxed_set(d->s->q.space, &one.box, &boxed);
  double bound = pz_box_bound(call, t, &boxed, 1, steps.least);
  x->priced = true;
  one.bound = pz_fmin(bound, one.bound);
  if (one.bound <= t->cutoff && !was_evaluated) {
    pz_append(call, t->closed, &(struct pz_closed_box){one.box, PZ_BOX_BOUND, one.bound, 0});
    return;
  }
  if (pz_box_is_chip(&one.box)) {
    decide_chip(call, d, t, &one, &boxed, &steps, x);
    return;
  }
  struct pz_open_box low = {one.box, one.bound, 0, 0, PZ_EFFORT_QUICK, false}, high = low;
  struct pz_box_split split = pz_box_choose_split(call, t, &one.box);
  low.box.hi[split.axis] = split.at;
  high.box.lo[split.axis] = (uint8_t)(split.at + 1);
  pz_append(call, &x->children, &low);
  pz_append(call, &x->children, &high);
  if (one.dives) dive(call, d, t, &one.box, x);
}

/* Evaluates a greedy chip of all chips of a kind. */
static void try_greedy_chip(struct pz_call *call, struct pz_driver *d, const struct pz_box_task *t,
                            size_t i, struct pz_outcome *x) {
  struct pz_box smallest = d->round[i].box;
  struct pz_boxed chip;
  memcpy(smallest.hi, smallest.lo, sizeof smallest.hi);
  pz_boxed_set(d->s->q.space, &smallest, &chip);
  if (!pz_boxed_breaks(&chip, &t->q->limits)) dive(call, d, t, &d->round[i].box, x);
}

static void try_given_chip(struct pz_call *call, struct pz_driver *d, const struct pz_box_task *t,
                           size_t i, struct pz_outcome *x) {
  struct pz_point p = pz_box_point(&d->round[i].box);
  try_chip(call, d, t, &p, x);
}

struct round_task {
  struct pz_driver *d;
  size_t i;
  unsigned worker;
};

static struct pz_box_task box_task_of(struct pz_driver *d, unsigned worker, struct pz_outcome *x) {
  return (struct pz_box_task){.q = &d->s->q,
                              .o = &d->run->objective,
                              .worker = worker,
                              .cheap_bounds = d->cheap_bounds,
                              .cutoff = cutoff_of_run(d),
                              .closed = &x->boxes};
}

static void run_round_task(struct pz_call *call, void *ctx) {
  const struct round_task *r = ctx;
  struct pz_outcome *x = &r->d->outcome[r->i];
  struct pz_box_task t = box_task_of(r->d, r->worker, x);
  r->d->fn(call, r->d, &t, r->i, x);
}

/* Called by the threads of the pool. */
static void work_on_item(void *ctx, size_t i, unsigned worker) {
  struct round_task r = {ctx, i, worker};
  struct pz_outcome *x = &r.d->outcome[i];
  pz_outcome_begin(x);
  x->status = is_stopped(r.d->s) ? PZ_STOPPED : pz_border(run_round_task, &r, &x->err);
}

/* ---- rounds --------------------------------------------------------------------------------- */

struct ordered_box {
  const struct pz_box *box;
  uint32_t item;
};

static int compare_boxes(const void *a, const void *b) {
  const struct ordered_box *x = a, *y = b;
  if (x->box->kind != y->box->kind) return x->box->kind < y->box->kind ? -1 : 1;
  int by_lo = memcmp(x->box->lo, y->box->lo, sizeof x->box->lo);
  if (by_lo) return by_lo;
  return x->item < y->item ? -1 : 1;
}

/* Processes the boxes of a round on the threads of all ranks.  Similar boxes are given to the same rank, which maps the
 * GEMMs that they have in common only once. */
static void share_round(struct pz_call *call, struct pz_driver *d) {
  struct ordered_box list[PZ_MOST_ROUND];
  uint32_t order[PZ_MOST_ROUND];
  for (uint32_t i = 0; i < d->n_round; i++) list[i] = (struct ordered_box){&d->round[i].box, i};
  qsort(list, d->n_round, sizeof *list, compare_boxes);
  for (uint32_t i = 0; i < d->n_round; i++) {
    order[i] = list[i].item;
    pz_outcome_begin(&d->outcome[i]);
  }
  struct pz_round round = {.ctx = d,
                           .n = d->n_round,
                           .work = work_on_item,
                           .pack = pz_outcome_pack,
                           .unpack = pz_outcome_unpack,
                           .stop = d->s->q.stop,
                           .order = order};
  pz_must(call, pz_round_run(d->s->pool, &round, pz_call_error(call)));
}

/* Reads the outcomes of the round from the store.  Returns false if it does not have them.  Rank 0 has the store: its
 * bytes, or its error, are exchanged, so that all ranks do the same. */
static bool replay_round(struct pz_call *call, struct pz_driver *d) {
  const struct pz_round_store *store = d->s->q.store;
  struct pz_buffer *b = pz_buffer_new(call);
  struct pz_error *err = pz_call_error(call);
  enum pz_status status = PZ_OK;
  if (store) status = store->read(store->ctx, d->number, d->at_round, b, err);
  pz_must(call, pz_ranks_share(b, status, err));
  bool is_stored = b->text != NULL;
  if (is_stored) {
    struct pz_bytes in = {b->text, b->bytes};
    for (uint32_t i = 0; i < d->n_round; i++) pz_outcome_begin(&d->outcome[i]);
    for (uint32_t i = 0; i < d->n_round && status == PZ_OK; i++) {
      status = pz_outcome_unpack(d, i, &in);
      if (status == PZ_OK &&
          !pz_outcome_is_of(&d->outcome[i], &d->round[i].box, d->fn == process_box))
        status = PZ_BAD_INPUT;
    }
    if (status == PZ_NO_MEMORY) pz_raise(call, PZ_NO_MEMORY, NO_MEMORY);
    if (status != PZ_OK || in.left)
      pz_raise(call, PZ_BAD_INPUT, "round %u of objective run %u is not of this search",
               d->at_round, d->number);
  }
  pz_close(call, b);
  return is_stored;
}

/* Computes and stores a round.  Returns false if the time of the run ended during it: then the round counts as not
 * begun. (A search that is cancelled ends in pz_round_run() instead.) */
static bool compute_round(struct pz_call *call, struct pz_driver *d) {
  const struct pz_round_store *store = d->s->q.store;
  share_round(call, d);
  for (uint32_t i = 0; i < d->n_round; i++) {
    const struct pz_outcome *x = &d->outcome[i];
    if (x->status == PZ_OK) continue;
    if (x->status != PZ_STOPPED)
      pz_raise(call, x->status, "%s", x->err.message[0] ? x->err.message : "interrupted");
    d->out_of_time = true;
    return false;
  }
  if (store) { /* only rank 0 has it */
    struct pz_buffer *b = pz_buffer_new(call);
    for (uint32_t i = 0; i < d->n_round; i++) pz_outcome_pack(d, i, b);
    if (b->failed) pz_raise(call, PZ_NO_MEMORY, NO_MEMORY);
    pz_must(call, store->keep(store->ctx, d->number, d->at_round, b, pz_call_error(call)));
    pz_close(call, b);
  }
  return true;
}

/* Adds an outcome to the state of the run. */
static void merge_outcome(struct pz_call *call, struct pz_driver *d, const struct pz_outcome *x) {
  for (uint32_t k = 0; k < x->known.n; k++)
    remember_step(call, d->s, pz_vec_at(&x->known, struct pz_found_step, k));
  for (uint32_t k = 0; k < x->boxes.n; k++)
    add_closed(call, d, pz_vec_at(&x->boxes, struct pz_closed_box, k));
  for (uint32_t k = 0; k < x->children.n; k++)
    push_open(call, d, pz_vec_at(&x->children, struct pz_open_box, k));
  d->run->priced += x->priced;
  if (!(x->value > 0)) return;
  struct pz_point p = pz_box_point(&x->candidate);
  struct pz_chip c;
  pz_space_chip(d->s->q.space, &p, &c);
  double mm2 = pz_chip_taken(&c).mm2;
  if (!may_win(d, &p, mm2, x->value)) return;
  d->run->found = true;
  d->run->best = p;
  d->run->value = x->value;
  d->best_mm2 = mm2;
}

/* One round: every box of d->round is processed by one thread and judged against the best chip of the rounds before.
 * Outcomes are merged in the order of the boxes. */
static void run_round(struct pz_call *call, struct pz_driver *d, pz_round_fn *fn) {
  d->fn = fn;
  d->replays = d->replays && replay_round(call, d);
  bool done = d->replays || compute_round(call, d);
  for (uint32_t i = 0; i < d->n_round; i++) {
    if (done)
      merge_outcome(call, d, &d->outcome[i]);
    else if (fn == process_box)
      push_open(call, d, &d->round[i]);
    pz_arena_release(&d->outcome[i].arena);
  }
  if (done) d->at_round++;
}

static uint32_t next_round_size(uint32_t size) { return (uint32_t)pz_min(2 * size, PZ_MOST_ROUND); }

/* ---- good chips early ----------------------------------------------------------------------- */

/* The first rounds are small, so that a value is known early. */
static void try_greedy_chips(struct pz_call *call, struct pz_driver *d) {
  uint32_t kinds = pz_space_kinds(d->s->q.space), size = SMALLEST_ROUND;
  for (uint32_t k = 0; k < kinds && !d->out_of_time; k += d->n_round) {
    d->n_round = (uint32_t)pz_min(size, kinds - k);
    for (uint32_t i = 0; i < d->n_round; i++) d->round[i].box = pz_box_all(d->s->q.space, k + i);
    run_round(call, d, try_greedy_chip);
    size = next_round_size(size);
  }
}

/* Makes *b the best chip with one step up on one axis and one step down on another; PZ_AXES stands for no axis.
 * Returns false if that is not a chip of the space within the limits. */
static bool make_neighbour(const struct pz_driver *d, int up, int down, struct pz_box *b) {
  const struct pz_space *s = d->s->q.space;
  struct pz_boxed boxed;
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
  pz_boxed_set(s, b, &boxed);
  return !pz_boxed_breaks(&boxed, &d->s->q.limits);
}

/* Local search from the best chip: exchanges a step on one axis for a step on another, while the value rises by a tenth
 * of the gap that is asked for, or by 0.5%. */
static void climb(struct pz_call *call, struct pz_driver *d) {
  static const double PART_OF_GAP = 0.1, MOST_RISE = 0.005;
  struct pz_box list[(PZ_AXES + 1) * (PZ_AXES + 1)];
  double before = -1, enough = 1 + pz_fmin(PART_OF_GAP * d->s->q.gap, MOST_RISE);
  while (!d->out_of_time && d->run->found && d->run->value > before * enough) {
    uint32_t n = 0;
    before = d->run->value;
    for (int up = 0; up <= PZ_AXES; up++)
      for (int down = 0; down <= PZ_AXES; down++)
        if (make_neighbour(d, up, down, &list[n])) n++;
    for (uint32_t i = 0; i < n && !d->out_of_time; i += d->n_round) {
      d->n_round = (uint32_t)pz_min(PZ_MOST_ROUND, n - i);
      for (uint32_t k = 0; k < d->n_round; k++) d->round[k].box = list[i + k];
      run_round(call, d, try_given_chip);
    }
    show_progress(d);
  }
}

/* ---- branch and bound ------------------------------------------------------------------------ */

/* While the deadline is set, evaluators stop in the middle of a round when the time of the run is over. */
static void set_deadline(struct pz_driver *d, bool on) {
  const struct pz_search_question *q = &d->s->q;
  if (q->ending && q->seconds > 0) q->ending->end_s = on ? d->start_s + q->seconds : 0;
}

/* The clock of rank 0 decides for all ranks. */
static bool may_continue(struct pz_call *call, const struct pz_driver *d) {
  const struct pz_search_question *q = &d->s->q;
  int64_t most = d->run->most_rounds;
  bool rounds_are_left = !most || (int64_t)d->run->rounds < most;
  if (!d->heap.n || d->out_of_time || !rounds_are_left) return false;
  if (!(q->seconds > 0)) return true;
  bool time_is_left = pz_clock_s() - d->start_s <= q->seconds;
  pz_must(call, pz_ranks_share_flag(&time_is_left, pz_call_error(call)));
  return time_is_left;
}

/* An open box with all chips, for each kind. */
static void push_roots(struct pz_call *call, struct pz_driver *d) {
  struct pz_outcome unused = {.status = PZ_OK};
  struct pz_box_task t = box_task_of(d, 0, &unused);
  for (uint32_t k = 0; k < pz_space_kinds(d->s->q.space); k++) {
    struct pz_open_box root = {.box = pz_box_all(d->s->q.space, k), .effort = PZ_EFFORT_QUICK};
    struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
    struct pz_boxed boxed;
    pz_boxed_set(d->s->q.space, &root.box, &boxed);
    root.bound = pz_box_bound(call, &t, &boxed, 0, steps);
    push_open(call, d, &root);
  }
}

/* Rounds are small until a chip is known. */
static void branch(struct pz_call *call, struct pz_driver *d) {
  uint32_t size = d->cheap_bounds ? PZ_MOST_ROUND : SMALLEST_ROUND;
  while (may_continue(call, d)) {
    double before = d->run->value;
    for (d->n_round = 0; d->heap.n && d->n_round < size; d->n_round++) {
      pz_heap_pop(&d->heap, comes_first, &d->round[d->n_round]);
      d->round[d->n_round].dives = d->cheap_bounds && d->n_round < DIVES_OF_ROUND;
    }
    run_round(call, d, process_box);
    if (d->out_of_time) break;
    d->run->rounds++;
    if (d->run->found) size = next_round_size(size);
    if (d->cheap_bounds && d->run->value > before) climb(call, d);
    show_progress(d);
  }
}

/* ---- the end -------------------------------------------------------------------------------- */

static _Noreturn void raise_no_chip(struct pz_call *call, const struct pz_driver *d) {
  const struct pz_limits *l = &d->s->q.limits;
  const struct pz_objective *o = &d->run->objective;
  const char *name = o->n == 1 ? d->s->q.entries[o->models[0]].name : "every model";
  if (!d->run->finished)
    pz_raise(call, PZ_NO_ANSWER,
             "no chip that runs %s was found in %" PRIu64
             " round%s; accepted: more --rounds or --seconds",
             name, d->run->rounds, pz_text_s((double)d->run->rounds));
  struct pz_excess excess = {{0}, {0}};
  int64_t n_within = d->run->chips;
  for (uint32_t i = 0; i < d->closed.n; i++) {
    const struct pz_closed_box *c = pz_vec_at(&d->closed, struct pz_closed_box, i);
    struct pz_boxed boxed;
    pz_boxed_set(d->s->q.space, &c->box, &boxed);
    if (!pz_boxed_breaks(&boxed, l)) continue;
    pz_excess_add(&excess, l, &boxed.least, &boxed.most);
    n_within -= pz_box_chips(&c->box);
  }
  if (n_within == 0) pz_search_raise_nothing_fits(call, d->s->q.space, &excess);
  pz_raise(call, PZ_NO_ANSWER,
           "no chip of the space %s within its limits runs %s; 'phaze place MODEL --chip CHIP' "
           "says what a chip lacks",
           d->s->q.space->name, name);
}

/* Completes the certificate with the boxes that are still open, and computes the bound of the run. */
static void conclude(struct pz_call *call, struct pz_driver *d) {
  struct pz_objective_run *r = d->run;
  const struct pz_objective *o = &r->objective;
  r->finished = d->heap.n == 0 && !d->out_of_time;
  while (d->heap.n) {
    struct pz_open_box x;
    pz_heap_pop(&d->heap, comes_first, &x);
    enum pz_box_end end = x.effort == PZ_EFFORT_FULL ? PZ_BOX_EVALUATED : PZ_BOX_OPEN;
    add_closed(call, d, &(struct pz_closed_box){x.box, end, x.bound, x.value});
  }
  if (!r->found) raise_no_chip(call, d);
  r->boxes = d->closed.items;
  r->n_boxes = d->closed.n;
  r->bound = r->value;
  for (uint32_t i = 0; i < r->n_boxes; i++) {
    const struct pz_closed_box *b = &r->boxes[i];
    if (b->end == PZ_BOX_INFEASIBLE || !(b->bound > r->value)) continue;
    r->bound = pz_fmax(r->bound, b->bound);
    if (b->end != PZ_BOX_EVALUATED) continue;
    struct pz_point p = pz_box_point(&b->box);
    struct pz_evaluation e;
    for (uint32_t k = 0; k < o->n; k++)
      if (pz_search_known(d->s, &p, o->models[k], &e)) r->n_open += e.n_open;
  }
}

/* ---- an objective run ----------------------------------------------------------------------- */

/* Raises an error if the objective, or a limit, needs dollars or a bill that a technology of the space does not have.
 */
static void check_objective(struct pz_call *call, const struct pz_driver *d) {
  const struct pz_space *s = d->s->q.space;
  enum pz_objective_kind kind = d->run->objective.kind;
  bool needs_bill = pz_objective_needs_bill(kind);
  for (int i = 0; i < s->n_nodes; i++) {
    const struct pz_tech_info *t = pz_tech_at(s->node[i]);
    if ((needs_bill || d->s->q.limits.dollars > 0) && pz_tech_is_library(t))
      pz_raise(call, PZ_BAD_USE,
               "--%s%s: the space %s has chips of %s, whose library has no %s; accepted: chips "
               "of 16 nm or below",
               needs_bill ? "objective " : "limit-dollars",
               needs_bill ? pz_objective_names[kind] : "", s->name, t->name,
               needs_bill ? "bill of HBM, links and static power" : "prices");
  }
}

static bool all_have_cheap_bounds(const struct pz_search *s, const struct pz_objective *o) {
  for (uint32_t i = 0; i < o->n; i++)
    if (!s->q.entries[o->models[i]].by->ops->has_cheap_bounds) return false;
  return true;
}

/* Everything of a run that must end however the run ends. */
static void end_objective_run(void *driver) {
  struct pz_driver *d = driver;
  set_deadline(d, false);
  pz_progress_finish(d->s->q.progress, NULL);
  for (uint32_t i = 0; i < PZ_MOST_ROUND; i++) pz_arena_release(&d->outcome[i].arena);
}

void pz_search_optimize(struct pz_call *call, struct pz_search *s, uint32_t number,
                        struct pz_objective_run *run) {
  struct pz_call work = pz_scratch(call);
  struct pz_driver *d = pz_alloc(&work, 1, sizeof *d);
  const struct pz_objective *o = &run->objective;
  *run = (struct pz_objective_run){.objective = run->objective,
                                   .most_rounds = run->most_rounds,
                                   .chips = pz_space_chips(s->q.space)};
  d->s = s;
  d->run = run;
  d->number = number;
  d->replays = true;
  d->cheap_bounds = !s->q.exhaustive && all_have_cheap_bounds(s, o);
  d->smaller_wins_ties = !all_have_cheap_bounds(s, o);
  d->start_s = pz_clock_s();
  pz_vec_init(&d->heap, work.arena, sizeof(struct pz_open_box));
  pz_vec_init(&d->closed, s->arena, sizeof(struct pz_closed_box));
  pz_progress_next(s->q.progress, o->n == 1 ? s->q.entries[o->models[0]].name : "all models",
                   "chips", (uint64_t)run->chips);
  pz_defer(call, end_objective_run, d);
  show_progress(d);
  set_deadline(d, true);
  check_objective(call, d);
  if (d->cheap_bounds) {
    try_greedy_chips(call, d);
    climb(call, d);
  }
  set_deadline(d, false); /* the bounds of the roots give a gap to what was found */
  if (run->found || !d->out_of_time) push_roots(call, d);
  set_deadline(d, !d->out_of_time);
  branch(call, d);
  set_deadline(d, false);
  show_progress(d);
  pz_close(call, d);
  conclude(call, d);
  pz_scratch_end(&work);
}

/* ---- tasks ---------------------------------------------------------------------------------- */

/* Tasks whose function raises, or, for older callers, returns a status. */
struct shared_tasks {
  struct pz_search *s;
  pz_task_fn *fn;
  enum pz_status (*status_fn)(void *ctx, size_t i, unsigned worker, struct pz_error *err);
  void (*pack)(void *ctx, size_t i, struct pz_buffer *out);
  enum pz_status (*unpack)(void *ctx, size_t i, struct pz_bytes *in);
  void *ctx;
  bool wide;
  struct pz_error *errors; /* of each task */
};

struct shared_task {
  const struct shared_tasks *tasks;
  size_t i;
  unsigned worker;
};

static void call_task(struct pz_call *call, void *ctx) {
  const struct shared_task *t = ctx;
  t->tasks->fn(call, t->tasks->ctx, t->i, t->worker);
}

static void run_shared_task(void *ctx, size_t i, unsigned worker) {
  const struct shared_tasks *x = ctx;
  struct shared_task task = {x, i, worker};
  enum pz_status status = PZ_STOPPED;
  if (!is_stopped(x->s))
    status = x->fn ? pz_border(call_task, &task, &x->errors[i])
                   : x->status_fn(x->ctx, i, worker, &x->errors[i]);
  x->errors[i].status = status;
}

/* A task that failed sends its error, any other its result. */
static void pack_shared_task(void *ctx, size_t i, struct pz_buffer *out) {
  const struct shared_tasks *x = ctx;
  const struct pz_error *err = &x->errors[i];
  pz_buffer_append(out, (const char *)&err->status, sizeof err->status);
  if (err->status == PZ_OK)
    x->pack(x->ctx, i, out);
  else
    pz_buffer_append(out, (const char *)err, sizeof *err);
}

static enum pz_status unpack_shared_task(void *ctx, size_t i, struct pz_bytes *in) {
  const struct shared_tasks *x = ctx;
  struct pz_error *err = &x->errors[i];
  if (!pz_bytes_take(in, &err->status, sizeof err->status)) return PZ_BAD_INPUT;
  if (err->status == PZ_OK) return x->unpack(x->ctx, i, in);
  return pz_bytes_take(in, err, sizeof *err) ? PZ_OK : PZ_BAD_INPUT;
}

static void share_tasks(struct pz_call *call, struct shared_tasks *x, size_t n) {
  struct pz_call work = pz_scratch(call);
  x->errors = pz_alloc(&work, n, sizeof *x->errors);
  if (x->pack) {
    struct pz_round round = {
        x, n, run_shared_task, pack_shared_task, unpack_shared_task, x->s->q.stop, NULL};
    struct pz_pool *pool = x->wide ? NULL : x->s->pool;
    pz_must(call, pz_round_run(pool, &round, pz_call_error(call)));
  } else {
    pz_pool_for(x->s->pool, n, run_shared_task, x);
  }
  for (size_t i = 0; i < n; i++)
    if (x->errors[i].status != PZ_OK) pz_raise_again(call, &x->errors[i]);
  pz_scratch_end(&work);
}

void pz_search_run_tasks(struct pz_call *call, struct pz_search *s, size_t n,
                         const struct pz_search_tasks *tasks) {
  struct shared_tasks x = {.s = s,
                           .fn = tasks->fn,
                           .pack = tasks->pack,
                           .unpack = tasks->unpack,
                           .ctx = tasks->ctx,
                           .wide = tasks->wide};
  share_tasks(call, &x, n);
}

/* ---- for callers that return a status ---- */

/* Arguments and results of all functions below; each uses some of them. */
struct search_args {
  struct pz_search *search;
  const struct pz_search_question *question;
  struct pz_pool *pool;
  struct pz_objective_run *run;
  const struct pz_point *point;
  const struct pz_objective *objective;
  const struct pz_boxed *box;
  struct pz_step_cost *steps;
  struct shared_tasks *tasks;
  struct pz_arena *arena;
  size_t n_tasks;
  unsigned worker;
  uint32_t number, n_found;
  enum pz_effort effort;
  struct pz_evaluation evaluation;
  struct pz_found_step *found;
  double bound;
};

static void run_create(struct pz_call *call, void *ctx) {
  struct search_args *x = ctx;
  x->search = pz_search_create(call, x->question, x->pool);
}

enum pz_status pz_search_new(const struct pz_search_question *q, struct pz_pool *pool,
                             struct pz_search **out, struct pz_error *err) {
  struct search_args x = {.question = q, .pool = pool};
  enum pz_status status = pz_border(run_create, &x, err);
  if (status == PZ_OK) *out = x.search;
  return status;
}

static void run_optimize(struct pz_call *call, void *ctx) {
  const struct search_args *x = ctx;
  pz_search_optimize(call, x->search, x->number, x->run);
}

enum pz_status pz_search_run(struct pz_search *s, uint32_t number, struct pz_objective_run *run,
                             struct pz_error *err) {
  struct search_args x = {.search = s, .number = number, .run = run};
  return pz_border(run_optimize, &x, err);
}

static void run_evaluate_chip(struct pz_call *call, void *ctx) {
  struct search_args *x = ctx;
  x->evaluation =
      pz_search_evaluate_chip(call, x->search, x->worker, x->point, x->number, x->effort);
}

enum pz_status pz_search_evaluate(struct pz_search *s, unsigned worker, const struct pz_point *p,
                                  uint32_t entry, enum pz_effort effort, struct pz_evaluation *out,
                                  struct pz_error *err) {
  struct search_args x = {
      .search = s, .worker = worker, .point = p, .number = entry, .effort = effort};
  enum pz_status status = pz_border(run_evaluate_chip, &x, err);
  if (status == PZ_OK) *out = x.evaluation;
  return status;
}

static void run_list_known(struct pz_call *call, void *ctx) {
  struct search_args *x = ctx;
  struct pz_call in_arena = pz_call_in(call, x->arena);
  x->found = pz_search_list_known(&in_arena, x->search, &x->n_found);
}

enum pz_status pz_search_all_known(struct pz_search *s, struct pz_arena *arena,
                                   struct pz_found_step **out, uint32_t *n, struct pz_error *err) {
  struct search_args x = {.search = s, .arena = arena};
  enum pz_status status = pz_border(run_list_known, &x, err);
  *out = x.found;
  *n = x.n_found;
  return status;
}

static void run_upper_bound(struct pz_call *call, void *ctx) {
  struct search_args *x = ctx;
  x->bound = pz_search_upper_bound(call, x->search, x->worker, x->objective, x->box, x->steps);
}

enum pz_status pz_search_bound(struct pz_search *s, unsigned worker, const struct pz_objective *o,
                               const struct pz_boxed *b, struct pz_step_cost *steps, double *value,
                               struct pz_error *err) {
  struct search_args x = {
      .search = s, .worker = worker, .objective = o, .box = b, .steps = steps, .bound = HUGE_VAL};
  enum pz_status status = pz_border(run_upper_bound, &x, err);
  *value = x.bound;
  return status;
}

static void run_share_tasks(struct pz_call *call, void *ctx) {
  const struct search_args *x = ctx;
  share_tasks(call, x->tasks, x->n_tasks);
}

enum pz_status pz_search_deal(struct pz_search *s, size_t n, const struct pz_search_work *w,
                              struct pz_error *err) {
  struct shared_tasks tasks = {.s = s,
                               .status_fn = w->fn,
                               .pack = w->pack,
                               .unpack = w->unpack,
                               .ctx = w->ctx,
                               .wide = w->wide};
  struct search_args x = {.tasks = &tasks, .n_tasks = n};
  return pz_border(run_share_tasks, &x, err);
}
