#include "box/box_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "box/journal.h"
#include "box/tighten.h"
#include "core/alloc.h"
#include "core/num.h"
#include "core/pool.h"
#include "core/progress.h"
#include "core/ranks.h"
#include "core/shared_table.h"
#include "core/vec.h"

/* What judges of threads and ranks share; used as it fills. */
enum { SHARED_BYTES = 192 << 20 };

enum { ROUND = 64, DIVES = 4, NEIGHBOURS = (PZ_RANGE_AXES + 1) * (PZ_RANGE_AXES + 1) };

/* An open box with an upper bound on its chips. */
struct open_box {
  struct pz_box box;
  double bound;
  uint64_t serial;
  bool dives; /* one of its chips is tried */
};

/* What a thread makes of a box. */
struct outcome {
  struct pz_arena arena;
  struct pz_vec boxes, children; /* struct pz_closed_box, struct open_box */
  struct pz_box candidate;       /* one chip */
  double value;                  /* its value, or at most the incumbent's */
  bool priced;
  enum pz_status status, failed;
  struct pz_error err;
};

struct driver {
  const struct pz_range_space *s;
  const struct pz_box_options *o;
  struct pz_arena *arena;
  struct pz_error *err;
  struct pz_pool *pool;
  struct pz_journal *journal; /* NULL: none is kept, or by another rank */
  bool replays;               /* the journal may have the next round */
  struct pz_judge **judge;    /* of every thread */
  unsigned threads;
  struct pz_judge_question question; /* the options', with what judges share: */
  struct pz_shared_table shared;
  void *block; /* its memory, unless that is of all ranks */
  struct pz_arena heap_arena;
  struct pz_vec heap;   /* struct open_box: the one with the largest bound is first */
  struct pz_vec closed; /* struct pz_closed_box */
  struct open_box round[ROUND];
  struct outcome outcome[ROUND];
  struct pz_box list[NEIGHBOURS];
  uint32_t n_round;
  uint64_t serial;
  double best;
  struct pz_box_result r;
};

/* ---- the open list -------------------------------------------------------------------------- */

static bool comes_first(const void *x, const void *y) {
  const struct open_box *a = x, *b = y;
  return a->bound != b->bound ? a->bound > b->bound : a->serial < b->serial;
}

static enum pz_status push_open(struct driver *d, struct open_box x) {
  x.serial = d->serial++;
  if (pz_heap_push(&d->heap, comes_first, &x)) return PZ_OK;
  return pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the boxes");
}

static struct open_box pop_open(struct driver *d) {
  struct open_box top;
  pz_heap_pop(&d->heap, comes_first, &top);
  return top;
}

/* ---- one box -------------------------------------------------------------------------------- */

static double cutoff_of(const struct driver *d) { return d->best * (1 + d->o->gap); }

static bool is_chip(const struct pz_box *b) { return memcmp(b->lo, b->hi, sizeof b->lo) == 0; }

static enum pz_status close_in(struct outcome *x, const struct pz_box *b, enum pz_box_end end,
                               double bound) {
  struct pz_closed_box one = {*b, end, bound};
  if (pz_vec_push(&x->boxes, &one)) return PZ_OK;
  return pz_fail(&x->err, PZ_NO_MEMORY, "out of memory for the boxes");
}

/* The value of a box of one chip, where it is above the incumbent's. */
static enum pz_status evaluate(const struct driver *d, struct pz_judge *j, const struct pz_box *b,
                               struct outcome *x) {
  struct pz_chip c;
  pz_box_lo(d->s, b, &c);
  struct pz_taken taken = pz_chip_taken(&c);
  x->candidate = *b;
  return pz_judge_value(j, &c, &taken, d->best, &x->value, NULL, NULL, &x->err);
}

/* Its largest chip does not close the box: two halves. */
static enum pz_status split(const struct pz_box_task *t, const struct pz_box *b, double bound,
                            struct outcome *x) {
  struct open_box low = {*b, bound, 0, false}, high = {*b, bound, 0, false};
  uint8_t at = 0;
  enum pz_range_axis a = pz_box_split_axis(t, b, &at);
  low.box.hi[a] = at;
  high.box.lo[a] = (uint8_t)(at + 1);
  if (pz_vec_push(&x->children, &low) && pz_vec_push(&x->children, &high)) return PZ_OK;
  return pz_fail(&x->err, PZ_NO_MEMORY, "out of memory for the boxes");
}

static enum pz_status bound_box(const struct driver *d, const struct pz_box_task *t,
                                struct pz_box *b, double *bound) {
  struct pz_chip lo, hi;
  pz_box_lo(d->s, b, &lo);
  pz_box_hi(d->s, b, &hi);
  struct pz_taken least = pz_chip_taken(&lo);
  return pz_judge_bound(t->judge, &hi, &least, t->cutoff, bound, t->err);
}

/* A good chip of a promising box. */
static enum pz_status dive(const struct driver *d, const struct pz_box_task *t,
                           const struct pz_box *b, struct outcome *x) {
  struct pz_box chip;
  pz_box_greedy(t, b, &chip);
  return evaluate(d, t->judge, &chip, x);
}

static enum pz_status work_on(const struct driver *d, const struct pz_box_task *t,
                              struct open_box one, struct outcome *x) {
  bool left = false;
  double bound = 0;
  if (one.bound <= t->cutoff) return close_in(x, &one.box, PZ_BOX_BOUND, one.bound);
  enum pz_status status = pz_box_tighten(t, &one.box, &left);
  if (status != PZ_OK || !left) return status;
  status = bound_box(d, t, &one.box, &bound);
  x->priced = true;
  if (status != PZ_OK) return status;
  bound = pz_fmin(bound, one.bound);
  if (bound <= t->cutoff) return close_in(x, &one.box, PZ_BOX_BOUND, bound);
  if (is_chip(&one.box)) {
    status = evaluate(d, t->judge, &one.box, x);
    return status == PZ_OK ? close_in(x, &one.box, PZ_BOX_EVALUATED, x->value) : status;
  }
  status = split(t, &one.box, bound, x);
  return status == PZ_OK && one.dives ? dive(d, t, &one.box, x) : status;
}

static void begin_outcome(struct outcome *x) {
  pz_arena_init(&x->arena, NULL);
  pz_vec_init(&x->boxes, &x->arena, sizeof(struct pz_closed_box));
  pz_vec_init(&x->children, &x->arena, sizeof(struct open_box));
  x->value = 0;
  x->priced = false;
  x->failed = PZ_OK;
}

static struct pz_box_task task_of(struct driver *d, unsigned worker, struct outcome *x) {
  return (struct pz_box_task){.s = d->s,
                              .limits = &d->o->limits,
                              .judge = d->judge[worker],
                              .cutoff = cutoff_of(d),
                              .boxes = &x->boxes,
                              .status = &x->failed,
                              .err = &x->err};
}

static void work(void *ctx, size_t i, unsigned worker) {
  struct driver *d = ctx;
  struct outcome *x = &d->outcome[i];
  struct pz_box_task t = task_of(d, worker, x);
  begin_outcome(x);
  x->status = work_on(d, &t, d->round[i], x);
  if (x->status == PZ_OK) x->status = x->failed;
}

/* ---- on any rank ---------------------------------------------------------------------------- */

/* What one box came to, of fixed size; boxes and children follow. */
struct packed_outcome {
  struct pz_box candidate;
  double value;
  uint32_t n_boxes, n_children;
  bool priced;
  enum pz_status status;
};

static void pack_outcome(void *ctx, size_t i, struct pz_buffer *out) {
  const struct driver *d = ctx;
  const struct outcome *x = &d->outcome[i];
  struct packed_outcome p = {x->candidate,  x->value,  x->boxes.n,
                             x->children.n, x->priced, x->status};
  pz_buffer_append(out, (const char *)&p, sizeof p);
  pz_buffer_append(out, x->boxes.items, p.n_boxes * sizeof(struct pz_closed_box));
  pz_buffer_append(out, x->children.items, p.n_children * sizeof(struct open_box));
  if (p.status != PZ_OK) pz_buffer_append(out, x->err.message, sizeof x->err.message);
}

static bool unpack_list(struct pz_vec *list, uint32_t n, size_t bytes, struct pz_bytes *in) {
  union {
    struct pz_closed_box closed;
    struct open_box open;
  } one;
  for (; n; n--)
    if (!pz_bytes_take(in, &one, bytes) || !pz_vec_push(list, &one)) return false;
  return true;
}

static enum pz_status unpack_outcome(void *ctx, size_t i, struct pz_bytes *in) {
  struct driver *d = ctx;
  struct outcome *x = &d->outcome[i];
  struct packed_outcome p;
  begin_outcome(x);
  if (!pz_bytes_take(in, &p, sizeof p)) return PZ_BAD_INPUT;
  x->candidate = p.candidate;
  x->value = p.value;
  x->priced = p.priced;
  x->status = p.status;
  if (!unpack_list(&x->boxes, p.n_boxes, sizeof(struct pz_closed_box), in) ||
      !unpack_list(&x->children, p.n_children, sizeof(struct open_box), in))
    return PZ_NO_MEMORY;
  return p.status == PZ_OK || pz_bytes_take(in, x->err.message, sizeof x->err.message)
             ? PZ_OK
             : PZ_BAD_INPUT;
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

/* The boxes of a round, on the threads of all ranks.  Like boxes go to the same rank, which maps the
 * products that they have in common once. */
static enum pz_status deal_round(struct driver *d, pz_pool_fn *fn) {
  struct ordered list[ROUND];
  uint32_t order[ROUND];
  struct pz_round round = {d, d->n_round, fn, pack_outcome, unpack_outcome, NULL, order};
  for (uint32_t i = 0; i < d->n_round; i++) list[i] = (struct ordered){&d->round[i].box, i};
  qsort(list, d->n_round, sizeof *list, by_box);
  for (uint32_t i = 0; i < d->n_round; i++) order[i] = list[i].item;
  for (uint32_t i = 0; i < d->n_round; i++) d->outcome[i] = (struct outcome){.status = PZ_OK};
  return pz_round_run(d->pool, &round, d->err);
}

/* Another program, model or space would show in the reference's steps or the number of chips. */
static enum pz_status check_ranks(const struct driver *d) {
  char text[64 + 32 * PZ_JUDGE_MOST_MODELS];
  int n = snprintf(text, sizeof text, "%lld", (long long)d->r.chips);
  for (uint32_t i = 0; i < d->o->question.n_models; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, " %a", d->r.reference.steps.step_s[i]);
  return pz_ranks_same("inputs", text, d->err);
}

/* ---- rounds --------------------------------------------------------------------------------- */

static enum pz_status take(struct driver *d, const struct pz_box *chip, double value) {
  if (!(value > d->best)) return PZ_OK;
  d->best = value;
  d->r.found = true;
  d->r.best_box = *chip;
  return PZ_OK;
}

static enum pz_status keep_closed(struct driver *d, const struct pz_closed_box *b) {
  int64_t n = pz_box_chips(&b->box);
  if (b->end != PZ_BOX_OPEN) d->r.closed += n;
  if (b->end == PZ_BOX_EVALUATED) d->r.evaluated += n;
  if (pz_vec_push(&d->closed, b)) return PZ_OK;
  return pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the boxes");
}

static enum pz_status note(struct driver *d, const struct pz_entry *e) {
  return d->journal ? pz_journal_add(d->journal, e, d->err) : PZ_OK;
}

/* What the search learns, from a thread or from the journal. */
static enum pz_status learn(struct driver *d, const struct pz_entry *e) {
  switch (e->kind) {
  case PZ_ENTRY_CLOSED: return keep_closed(d, &(struct pz_closed_box){e->box, e->end, e->value});
  case PZ_ENTRY_OPEN: return push_open(d, (struct open_box){e->box, e->value, 0, false});
  case PZ_ENTRY_CHIP: return take(d, &e->box, e->value);
  default: d->r.bounds += (uint64_t)e->value; return PZ_OK;
  }
}

static enum pz_status learn_and_note(struct driver *d, const struct pz_entry *e) {
  enum pz_status status = learn(d, e);
  return status == PZ_OK ? note(d, e) : status;
}

/* Entries of an outcome. */
static enum pz_status learn_outcome(struct driver *d, const struct outcome *x) {
  enum pz_status status =
      x->status == PZ_OK ? PZ_OK : pz_fail(d->err, x->status, "%s", x->err.message);
  for (uint32_t k = 0; k < x->boxes.n && status == PZ_OK; k++) {
    const struct pz_closed_box *b = pz_vec_at(&x->boxes, struct pz_closed_box, k);
    status = learn_and_note(d, &(struct pz_entry){PZ_ENTRY_CLOSED, b->box, b->end, b->bound});
  }
  for (uint32_t k = 0; k < x->children.n && status == PZ_OK; k++) {
    const struct open_box *b = pz_vec_at(&x->children, struct open_box, k);
    status = learn_and_note(d, &(struct pz_entry){PZ_ENTRY_OPEN, b->box, PZ_BOX_OPEN, b->bound});
  }
  if (status == PZ_OK && x->value > d->best)
    status = learn_and_note(
        d, &(struct pz_entry){PZ_ENTRY_CHIP, x->candidate, PZ_BOX_EVALUATED, x->value});
  return status;
}

/* Outcomes in the order of their boxes, whoever found them. */
static enum pz_status gather(struct driver *d, enum pz_status status) {
  struct pz_entry priced = {.kind = PZ_ENTRY_PRICED};
  for (uint32_t i = 0; i < d->n_round; i++) {
    struct outcome *x = &d->outcome[i];
    if (status == PZ_OK) status = learn_outcome(d, x);
    priced.value += x->priced;
    pz_arena_release(&x->arena);
  }
  if (status == PZ_OK) status = learn_and_note(d, &priced);
  return status == PZ_OK && d->journal ? pz_journal_end_round(d->journal, d->err) : status;
}

/* The digests of a journal keep damage out, not a journal that somebody else has made. */
static enum pz_status check_entry(const struct driver *d, const struct pz_entry *e) {
  bool in = e->kind == PZ_ENTRY_PRICED || e->box.kind < pz_range_kinds(d->s);
  for (enum pz_range_axis a = 0; a < PZ_RANGE_AXES; a++)
    in = in && (e->kind == PZ_ENTRY_PRICED || e->box.hi[a] < d->s->n[a]);
  if (in) return PZ_OK;
  return pz_fail(d->err, PZ_BAD_INPUT, "%s: a box that is not of space %s", d->o->journal,
                 d->s->name);
}

/* A round of the journal: rank 0 reads it for all. */
static enum pz_status replay(struct driver *d) {
  struct pz_entry e;
  struct pz_buffer b = {0};
  bool more = d->journal;
  enum pz_status status = PZ_OK;
  while (status == PZ_OK && more) {
    status = pz_journal_next(d->journal, &e, &more, d->err);
    if (status == PZ_OK && more) status = check_entry(d, &e);
    if (status == PZ_OK && more) status = learn(d, &e);
    if (status == PZ_OK && more && !pz_buffer_append(&b, (const char *)&e, sizeof e))
      status = pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the journal");
  }
  status = pz_ranks_share(&b, status, d->err);
  struct pz_bytes in = {b.text, b.bytes};
  while (status == PZ_OK && !pz_ranks_first() && pz_bytes_take(&in, &e, sizeof e))
    status = learn(d, &e);
  pz_free(b.text);
  return status;
}

/* One round: the boxes of d->round, each by one thread and judged against the best of the rounds before; what was found,
 * in their order.  A round that the journal has is read there. */
static enum pz_status run_round(struct driver *d, pz_pool_fn *fn) {
  if (d->replays) {
    d->replays = pz_journal_has(d->journal);
    enum pz_status status = pz_ranks_share_flag(&d->replays, d->err);
    if (status != PZ_OK) return status;
  }
  return d->replays ? replay(d) : gather(d, deal_round(d, fn));
}

static enum pz_status report(struct driver *d, bool ended) {
  char note[128];
  struct pz_progress_state state = {0};
  double top = d->heap.n ? pz_vec_at(&d->heap, struct open_box, 0)->bound : d->best;
  if (!d->o->progress) return PZ_OK;
  if (d->heap.n)
    snprintf(note, sizeof note, "%u boxes open; best %.4f; gap %.2f%%", d->heap.n, d->best,
             d->best > 0 && top < HUGE_VAL ? 100 * pz_fmax(0, top / d->best - 1) : 100.0);
  else
    snprintf(note, sizeof note, "best %.4f", d->best); /* closed boxes may have a gap */
  state.phase = "boxes";
  state.unit = "chips";
  state.done = (uint64_t)d->r.closed;
  state.total = (uint64_t)d->r.chips;
  state.note = note;
  state.ended = ended;
  return d->o->progress(d->o->ctx, &state)
             ? PZ_OK
             : pz_fail(d->err, PZ_STOPPED, "interrupted after %llu boxes",
                       (unsigned long long)d->r.bounds);
}

/* ---- good chips early ----------------------------------------------------------------------- */

static void start_kind(void *ctx, size_t i, unsigned worker) {
  struct driver *d = ctx;
  struct outcome *x = &d->outcome[i];
  begin_outcome(x);
  struct pz_box_task t = task_of(d, worker, x);
  struct pz_box b = d->round[i].box, chip;
  struct pz_chip lo;
  pz_box_lo(d->s, &b, &lo);
  struct pz_taken least = pz_chip_taken(&lo);
  x->status = PZ_OK;
  if (pz_limits_broken(t.limits, &least, &least)) return;
  pz_box_greedy(&t, &b, &chip);
  x->status = evaluate(d, t.judge, &chip, x);
  if (x->status == PZ_OK) x->status = x->failed;
}

static void try_chip(void *ctx, size_t i, unsigned worker) {
  struct driver *d = ctx;
  struct outcome *x = &d->outcome[i];
  begin_outcome(x);
  x->status = evaluate(d, d->judge[worker], &d->round[i].box, x);
}

static enum pz_status greedy_chips(struct driver *d) {
  uint32_t kinds = pz_range_kinds(d->s);
  enum pz_status status = PZ_OK;
  for (uint32_t k = 0; k < kinds && status == PZ_OK; k += d->n_round) {
    d->n_round = (uint32_t)pz_min(ROUND, kinds - k);
    for (uint32_t i = 0; i < d->n_round; i++) d->round[i].box = pz_box_all(d->s, k + i);
    status = run_round(d, start_kind);
  }
  return status;
}

/* A chip one step up on one axis and down on another, or up alone, within the space and the limits. */
static bool neighbour(const struct driver *d, int up, int down, struct pz_box *b) {
  struct pz_chip c;
  *b = d->r.best_box;
  if (up == down) return false;
  if (up < PZ_RANGE_AXES) {
    if (b->lo[up] + 1 >= d->s->n[up]) return false;
    b->lo[up]++;
  }
  if (down < PZ_RANGE_AXES) {
    if (b->lo[down] == 0) return false;
    b->lo[down]--;
  }
  memcpy(b->hi, b->lo, sizeof b->hi);
  pz_box_lo(d->s, b, &c);
  struct pz_taken t = pz_chip_taken(&c);
  return !pz_limits_broken(&d->o->limits, &t, &t);
}

/* Local search from the best chip: exchange a step of one axis for a step of another. */
static enum pz_status climb(struct driver *d) {
  enum pz_status status = PZ_OK;
  for (double before = -1; status == PZ_OK && d->r.found && d->best > before;) {
    uint32_t n = 0;
    before = d->best;
    for (int up = 0; up <= PZ_RANGE_AXES; up++)
      for (int down = 0; down <= PZ_RANGE_AXES; down++)
        if (neighbour(d, up, down, &d->list[n])) n++;
    for (uint32_t i = 0; i < n && status == PZ_OK; i += d->n_round) {
      d->n_round = (uint32_t)pz_min(ROUND, n - i);
      for (uint32_t k = 0; k < d->n_round; k++) d->round[k].box = d->list[i + k];
      status = run_round(d, try_chip);
    }
    if (status == PZ_OK) status = report(d, false);
  }
  return status;
}

/* ---- branch and bound ------------------------------------------------------------------------ */

/* By the clock of rank 0. */
static enum pz_status may_go_on(const struct driver *d, double start_s, bool *go) {
  *go = d->heap.n && !(d->o->rounds && (int64_t)d->r.rounds >= d->o->rounds);
  if (!*go || !(d->o->seconds > 0)) return PZ_OK;
  *go = pz_clock_s() - start_s <= d->o->seconds;
  return pz_ranks_share_flag(go, d->err);
}

static enum pz_status branch(struct driver *d, double start_s) {
  bool go = false;
  enum pz_status status = may_go_on(d, start_s, &go);
  while (status == PZ_OK && go) {
    d->n_round = 0;
    double before = d->best;
    while (d->heap.n && d->n_round < ROUND) {
      d->round[d->n_round] = pop_open(d);
      d->round[d->n_round].dives = d->n_round < DIVES;
      d->n_round++;
    }
    status = run_round(d, work);
    d->r.rounds++;
    if (status == PZ_OK && d->best > before) status = climb(d);
    if (status == PZ_OK) status = report(d, false);
    if (status == PZ_OK) status = may_go_on(d, start_s, &go);
  }
  return status;
}

/* ---- the reference -------------------------------------------------------------------------- */

enum pz_status pz_box_reference_chip(struct pz_chip *out, struct pz_error *err) {
  enum pz_status status = pz_chip_load_described("h100", out, err);
  if (status != PZ_OK) return status;
  out->execution = PZ_CHIP_SCHEDULED;
  out->clock_hz = pz_fmin(out->clock_hz, pz_tech_at(out->tech)->sustained_hz);
  return PZ_OK;
}

/* A found chip with its plans. */
static enum pz_status describe(struct driver *d, struct pz_box_chip *x) {
  x->taken = pz_chip_taken(&x->chip);
  enum pz_status status =
      pz_judge_value(d->judge[0], &x->chip, &x->taken, 0, &x->value, &x->steps, x->plans, d->err);
  for (uint32_t i = 0; i < d->o->question.n_models && status == PZ_OK; i++) {
    struct pz_plan *p = &x->plans[i].plan;
    if (!p->stage_recompute) continue;
    int64_t *copy = pz_arena_alloc(d->arena, (size_t)p->pp, sizeof *copy);
    if (!copy) return pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the plans");
    memcpy(copy, p->stage_recompute, (size_t)p->pp * sizeof *copy);
    p->stage_recompute = copy;
  }
  return status;
}

/* `limit`: 0: the bill's watts. */
static enum pz_status find_power(struct driver *d, struct pz_box_chip *x, double limit) {
  if (!(limit > 0)) limit = x->taken.watts;
  return pz_step_power(&d->o->question, &x->chip, x->plans, limit, &x->power, d->err);
}

static enum pz_status find_reference(struct driver *d) {
  struct pz_box_chip *x = &d->r.reference;
  enum pz_status status = pz_box_reference_chip(&x->chip, d->err);
  if (status == PZ_OK) status = describe(d, x);
  if (status != PZ_OK) return status;
  if (!(x->value > 0))
    return pz_fail(
        d->err, PZ_NO_ANSWER,
        "no plan of every model fits on %lld x %s, the reference; accepted: more devices",
        (long long)d->o->question.devices, x->chip.name);
  for (unsigned i = 0; i < d->threads; i++)
    pz_judge_set_reference(d->judge[i], &x->steps, &x->taken);
  x->value = 1;
  struct pz_taken known = x->taken; /* it is built: its power is that of its data sheet */
  if (x->chip.watts > 0) known.watts = pz_fmin(known.watts, x->chip.watts);
  d->r.reference_breaks = pz_limits_broken(&d->o->limits, &known, &known);
  return PZ_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

struct making {
  struct driver *d;
  struct pz_chip like;
  enum pz_status *status;
  struct pz_error *err;
};

static void make_judge(void *ctx, size_t i, unsigned worker) {
  struct making *m = ctx;
  (void)worker;
  m->status[i] = pz_judge_new(&m->d->question, &m->like, &m->d->judge[i], &m->err[i]);
}

/* With several ranks on a node or several threads; without memory for it each judge finds out all by itself. */
static enum pz_status share_memory(struct driver *d) {
  void *block = NULL;
  enum pz_status status = pz_ranks_shared(SHARED_BYTES, &block, d->err);
  if (!block && d->threads > 1) block = d->block = pz_calloc(1, SHARED_BYTES);
  pz_shared_table_init(&d->shared, block, SHARED_BYTES);
  d->question = d->o->question;
  d->question.shared = &d->shared;
  return status;
}

static enum pz_status make_judges(struct driver *d) {
  struct making m = {.d = d};
  struct pz_box all = pz_box_all(d->s, 0);
  enum pz_status status = pz_pool_new(d->o->threads, &d->pool, d->err);
  if (status != PZ_OK) return status;
  d->threads = pz_pool_threads(d->pool);
  d->judge = pz_arena_alloc(&d->heap_arena, d->threads, sizeof *d->judge);
  m.status = pz_arena_alloc(&d->heap_arena, d->threads, sizeof *m.status);
  m.err = pz_arena_alloc(&d->heap_arena, d->threads, sizeof *m.err);
  if (!d->judge || !m.status || !m.err)
    return pz_fail(d->err, PZ_NO_MEMORY, "out of memory for the search");
  status = share_memory(d);
  if (status != PZ_OK) return status;
  pz_box_hi(d->s, &all, &m.like);
  pz_pool_for(d->pool, d->threads, make_judge, &m);
  for (unsigned i = 0; i < d->threads && status == PZ_OK; i++)
    if (m.status[i] != PZ_OK) status = pz_fail(d->err, m.status[i], "%s", m.err[i].message);
  return status;
}

static enum pz_status no_chip(const struct driver *d) {
  const struct pz_limits *l = &d->o->limits;
  return pz_fail(d->err, PZ_NO_ANSWER,
                 "no chip of the space %s is within the limits of %g mm2, %g W and %g dollars (0: "
                 "none) and trains every model on %lld devices",
                 d->s->name, l->mm2, l->watts, l->dollars, (long long)d->o->question.devices);
}

/* What is still open belongs to the certificate too. */
static enum pz_status conclude(struct driver *d) {
  struct pz_box_result *r = &d->r;
  enum pz_status status = PZ_OK;
  r->finished = d->heap.n == 0;
  while (d->heap.n && status == PZ_OK) {
    struct open_box x = pop_open(d);
    struct pz_closed_box one = {x.box, PZ_BOX_OPEN, x.bound};
    status = keep_closed(d, &one);
  }
  if (status != PZ_OK) return status;
  if (!r->found) return no_chip(d);
  r->boxes = d->closed.items;
  r->n_boxes = d->closed.n;
  for (uint32_t i = 0; i < r->n_boxes; i++)
    if (r->boxes[i].end == PZ_BOX_BOUND || r->boxes[i].end == PZ_BOX_OPEN)
      r->gap = pz_fmax(r->gap, r->boxes[i].bound / d->best - 1);
  pz_box_lo(d->s, &r->best_box, &r->best.chip);
  status = describe(d, &r->best);
  if (status == PZ_OK) status = find_power(d, &r->best, d->o->limits.watts);
  return status == PZ_OK ? find_power(d, &r->reference, r->reference.chip.watts) : status;
}

/* All chips of a kind. */
static enum pz_status push_root(struct driver *d, uint32_t kind) {
  struct open_box root = {.box = pz_box_all(d->s, kind)};
  struct pz_chip lo, hi;
  pz_box_lo(d->s, &root.box, &lo);
  pz_box_hi(d->s, &root.box, &hi);
  struct pz_taken least = pz_chip_taken(&lo);
  enum pz_status status = pz_judge_floor(d->judge[0], &hi, &least, &root.bound, d->err);
  return status == PZ_OK ? push_open(d, root) : status;
}

/* Is what the objective divides by known of every chip? */
static enum pz_status check_objective(const struct driver *d) {
  for (int i = 0; i < d->s->n_nodes; i++) {
    const struct pz_tech_info *t = pz_tech_at(d->s->node[i]);
    if (d->o->question.objective != PZ_BOX_THROUGHPUT && pz_tech_is_library(t))
      return pz_fail(d->err, PZ_BAD_USE,
                     "--per %s: the space %s has chips of %s, whose library has no bill of HBM, "
                     "links and static power; accepted: chips of 16 nm or below",
                     pz_box_objective_names[d->o->question.objective], d->s->name, t->name);
  }
  return PZ_OK;
}

static enum pz_status run(struct driver *d) {
  double start_s = pz_clock_s();
  enum pz_status status = check_objective(d);
  d->replays = true;
  if (status == PZ_OK && d->o->journal)
    status = pz_journal_open(d->o->journal, d->o->inputs, &d->journal, d->err);
  if (status == PZ_OK) status = make_judges(d);
  if (status == PZ_OK) status = find_reference(d);
  if (status == PZ_OK) status = check_ranks(d);
  if (status == PZ_OK) status = greedy_chips(d);
  if (status == PZ_OK) status = climb(d);
  for (uint32_t k = 0; k < pz_range_kinds(d->s) && status == PZ_OK; k++) status = push_root(d, k);
  if (status == PZ_OK) status = branch(d, start_s);
  if (status == PZ_OK) status = report(d, true);
  return status == PZ_OK ? conclude(d) : status;
}

enum pz_status pz_box_search(const struct pz_range_space *s, const struct pz_box_options *o,
                             struct pz_arena *arena, struct pz_box_result *out,
                             struct pz_error *err) {
  struct driver *d = pz_calloc(1, sizeof *d);
  if (!d) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the search");
  d->s = s;
  d->o = o;
  d->arena = arena;
  d->err = err;
  d->r.chips = pz_range_chips(s);
  pz_arena_init(&d->heap_arena, NULL);
  pz_vec_init(&d->heap, &d->heap_arena, sizeof(struct open_box));
  pz_vec_init(&d->closed, arena, sizeof(struct pz_closed_box));
  enum pz_status status = run(d);
  for (unsigned i = 0; d->judge && i < d->threads; i++) pz_judge_free(d->judge[i]);
  if (d->pool) pz_pool_free(d->pool);
  pz_free(d->block);
  pz_journal_close(d->journal);
  if (status == PZ_OK) *out = d->r;
  pz_arena_release(&d->heap_arena);
  pz_free(d);
  return status;
}
