/* Barriers: a lower bound for modes that force an inefficient split of the schedule.
 *
 * A task in a long mode delays its successors: a successor j that needs most of the chip can then
 * start only in a short interval.  Every task that cannot run concurrently with j ends before j
 * starts or begins after it.  At dual prices (price.c), the tasks done by a time cost no more than
 * that time; so if no sum of prices comes near the earliest start of j without exceeding the
 * latest, the difference is idle time: a lower bound for schedules with that mode.  The mirror
 * image holds for the predecessors of the task, and its end. */
#include <float.h>

#include "schedule/bits.h"
#include "schedule/context.h"

/* Those beyond count as if they could be parted. */
enum { MOST_PARTED = 8 };

enum { LOOKS_PER_STEP = 256 };

struct barrier {
  const struct pz_context *c;
  const struct pz_problem *p;
  struct pz_bits *before, *after; /* by task; exchanged where time runs back, as are */
  const double *head, *tail;
  struct pz_bits *beside; /* by mode: tasks that have a mode with which there is room for both */
  double *path;           /* see context.h */
  bool back;
  int64_t looks, most_looks;
};

/* ---- what does not change ------------------------------------------------------------------- */

static bool has_room(const struct barrier *x, const int32_t room[PZ_RESOURCES], uint32_t k) {
  const struct pz_task *t = &x->p->tasks[k];
  for (uint32_t m = 0; m < t->n_modes; m++)
    if (!x->c->dropped[x->c->mode_at[k] + m] && pz_mode_fits(room, &t->modes[m])) return true;
  return false;
}

static void find_beside(struct barrier *x) {
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      uint32_t at = x->c->mode_at[i] + m;
      int32_t room[PZ_RESOURCES];
      if (x->c->dropped[at]) continue;
      for (int r = 0; r < PZ_RESOURCES; r++)
        room[r] = x->p->capacity[r] - x->p->tasks[i].modes[m].use[r];
      for (uint32_t k = 0; k < x->p->n; k++)
        if (has_room(x, room, k)) pz_bits_set(&x->beside[at], k);
      x->looks += x->p->n;
    }
}

static bool prepare(struct barrier *x, const struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n;
  *x = (struct barrier){.c = c, .p = c->p, .head = c->head_s, .tail = c->tail_s};
  x->before = pz_arena_alloc(arena, n, sizeof *x->before);
  x->after = pz_arena_alloc(arena, n, sizeof *x->after);
  x->beside = pz_arena_alloc(arena, c->n_modes, sizeof *x->beside);
  x->path = pz_arena_alloc(arena, (size_t)n * n, sizeof *x->path);
  if (!x->before || !x->after || !x->beside || !x->path) return false;
  pz_bits_order(c->p, x->before, x->after);
  pz_window_paths(c, x->before, x->path);
  find_beside(x);
  return true;
}

static void turn_round(struct barrier *x) {
  struct pz_bits *before = x->before;
  x->before = x->after;
  x->after = before;
  x->back = !x->back;
  x->head = x->back ? x->c->tail_s : x->c->head_s;
  x->tail = x->back ? x->c->head_s : x->c->tail_s;
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* Prices of tasks: done before j starts, parted by it, or one or the other as a whole. */
struct parting {
  double all, sure, loose;
  double whole[MOST_PARTED];
  uint32_t n;
};

/* The dearest are kept as they are. */
static void put_whole(struct parting *s, double price) {
  uint32_t at = 0;
  if (s->n < MOST_PARTED) {
    s->whole[s->n++] = price;
    return;
  }
  for (uint32_t k = 1; k < s->n; k++)
    if (s->whole[k] < s->whole[at]) at = k;
  s->loose += pz_smaller(price, s->whole[at]);
  s->whole[at] = pz_larger(price, s->whole[at]);
}

/* The largest sum of some of them up to `most`. */
static double largest_sum(const struct parting *s, double most) {
  double sums[1 << MOST_PARTED] = {0}, best = 0;
  uint32_t n = 1;
  for (uint32_t k = 0; k < s->n; k++, n *= 2)
    for (uint32_t q = 0; q < n; q++) {
      double sum = sums[n + q] = sums[q] + s->whole[k];
      if (sum <= most && sum > best) best = sum;
    }
  return best;
}

/* ---- the bound ------------------------------------------------------------------------------ */

/* The task in question, in its mode, and the one that waits for it: its earliest and latest start
 * in a schedule better than the best, its least time then. */
struct span {
  uint32_t task, mode, j;
  double from, to, least_s;
  struct pz_bits beside; /* j, in the modes that it can have */
};

static void find_span(const struct barrier *x, struct span *s) {
  const struct pz_context *c = x->c;
  const struct pz_task *t = &x->p->tasks[s->j];
  s->least_s = DBL_MAX;
  for (uint32_t m = 0; m < t->n_modes; m++) {
    uint32_t at = c->mode_at[s->j] + m;
    if (c->dropped[at] || !pz_better(c, s->from + t->modes[m].s + x->tail[s->j], c->best_s))
      continue;
    s->least_s = pz_smaller(s->least_s, t->modes[m].s);
    pz_bits_merge(&s->beside, &x->beside[at]);
  }
  s->to = c->best_s - x->tail[s->j] - s->least_s;
}

/* False: no better schedule has both. */
static bool put(const struct barrier *x, const struct span *s, uint32_t k, double price,
                struct parting *out) {
  double least = x->c->least_s[k];
  bool before = x->head[k] + least <= s->to;
  bool after = pz_better(x->c, s->from + s->least_s + least + x->tail[k], x->c->best_s);
  bool beside = pz_bits_has(&s->beside, k);
  out->all += price;
  if (price <= 0 || k == s->j || pz_bits_has(&x->after[s->j], k)) return true;
  bool sure = k == s->task || pz_bits_has(&x->before[s->j], k) || (!beside && before && !after);
  if (sure)
    out->sure += price;
  else if (beside)
    out->loose += price;
  else if (before)
    put_whole(out, price);
  return before || after || beside;
}

static double bound_at(struct barrier *x, struct span *s) {
  const struct pz_context *c = x->c;
  struct parting sums = {0};
  find_span(x, s);
  if (s->least_s == DBL_MAX) return c->best_s;
  for (uint32_t k = 0; k < x->p->n; k++) {
    double price = c->prices.least[k];
    if (k == s->task)
      price = c->prices.rate[c->mode_at[k] + s->mode] * x->p->tasks[k].modes[s->mode].s;
    if (!put(x, s, k, price, &sums)) return c->best_s;
  }
  x->looks += x->p->n;
  if (sums.sure > s->to) return c->best_s;
  double lost = s->from - sums.loose - sums.sure;
  if (lost > 0) lost -= largest_sum(&sums, s->to - sums.sure);
  return sums.all + pz_larger(0, lost);
}

/* A bound for schedules with the task in this mode, by each task that waits for it and that it
 * holds up. */
static double bound_with(struct barrier *x, uint32_t i, uint32_t m) {
  double bound = 0, s = x->p->tasks[i].modes[m].s;
  for (uint32_t j = 0; j < x->p->n; j++) {
    if (!pz_bits_has(&x->after[i], j)) continue;
    double path = x->back ? x->path[j * x->p->n + i] : x->path[i * x->p->n + j];
    struct span span = {.task = i, .mode = m, .j = j, .from = x->head[i] + s + path};
    if (span.from > x->head[j]) bound = pz_larger(bound, bound_at(x, &span));
  }
  return bound;
}

static bool drop(struct pz_context *c, struct barrier *x) {
  bool any = false;
  for (uint32_t i = 0; i < c->p->n; i++)
    for (uint32_t m = 0; m < c->p->tasks[i].n_modes && x->looks < x->most_looks; m++) {
      uint32_t at = c->mode_at[i] + m;
      if (c->dropped[at] || pz_better(c, bound_with(x, i, m), c->best_s)) continue;
      c->dropped[at] = any = true;
    }
  return any;
}

bool pz_barrier_drop(struct pz_context *c, int64_t steps) {
  struct pz_arena arena;
  struct barrier x;
  bool any = false;
  bool worth = c->prices.sum > 0 && c->p->n <= PZ_EXACT_MOST_TASKS &&
               (int64_t)c->n_modes * c->n_modes / LOOKS_PER_STEP < steps;
  pz_arena_init(&arena, c->arena->mem);
  if (worth && prepare(&x, c, &arena)) {
    x.most_looks = steps * LOOKS_PER_STEP;
    any = drop(c, &x);
    turn_round(&x);
    any = drop(c, &x) || any;
    c->steps += x.looks / LOOKS_PER_STEP;
  }
  pz_arena_release(&arena);
  if (any) pz_bound_tighten(c);
  return any;
}
