/* Prices by packs.
 *
 * A pack is a set of tasks in modes that may run at the same time: none must come before another,
 * and together they fit.  At every moment of a schedule some pack runs, so the makespan is at least
 *     min  sum over packs of their time,   each task's mode covered by packs for its duration,
 *          modes chosen in parts,
 * a linear model with very many columns.  Its dual prices every mode so that no pack costs more
 * than one; rate times duration, summed over the tasks, is the bound, and holds for what is left of
 * a schedule too.  Packs are generated: solve with those there are, search the dearest pack at the
 * prices found, until none costs more than one.  Prices of an unfinished run are divided by the
 * dearest pack's, which makes them valid. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "schedule/price.h"

#include "schedule/bits.h"
#include "schedule/context.h"
#include "schedule/lp.h"

enum {
  WORDS = PZ_PRICE_MOST_TASKS / 64,
  MOST_ROUNDS = 200,
  MOST_LOOKS = 20000,
  MOST_MODES = 64,
  MOST_DRAWS = 64
};

struct pack {
  uint32_t task[PZ_PRICE_MOST_TASKS], mode[PZ_PRICE_MOST_TASKS];
  int n;
  double price;
};

_Static_assert((int)PZ_PRICE_MOST_TASKS <= (int)PZ_BITS, "sets hold every task");

struct pz_pricer {
  struct pz_context *c; /* of the call */
  const struct pz_problem *p;
  struct pz_arena arena;
  struct pz_lp_session *session;
  struct pz_bits *apart; /* by task: those that never run beside it, itself too */
  int *row;              /* by mode: its row, or -1 */
  uint32_t *part;        /* by mode: the column of its part */
  bool *off;             /* by mode: not allowed in the model now */
  double *rate;          /* by mode */
  double *dear;          /* by task: its dearest mode's rate */
  uint32_t *order;       /* tasks by falling dear, with dear > 0 */
  uint32_t n_order;
  struct pack now, best;
  double most; /* no pack costs more */
  int looks;
};

static bool find_apart(struct pz_pricer *x) {
  uint32_t n = x->p->n;
  struct pz_bits *after = pz_arena_alloc(&x->arena, n, sizeof *after);
  if (!after) return false;
  pz_bits_order(x->p, x->apart, after);
  for (uint32_t i = 0; i < n; i++) {
    pz_bits_merge(&x->apart[i], &after[i]);
    pz_bits_set(&x->apart[i], i);
  }
  return true;
}

/* ---- the dearest pack ----------------------------------------------------------------------- */

static double most_more(const struct pz_pricer *x, uint32_t at, const struct pz_bits *apart) {
  double sum = 0;
  for (uint32_t k = at; k < x->n_order; k++)
    if (!pz_bits_has(apart, x->order[k])) sum += x->dear[x->order[k]];
  return sum;
}

/* Extend the pack by tasks from order[at] on. */
static void extend(struct pz_pricer *x, uint32_t at, const struct pz_bits *apart,
                   const int32_t room[PZ_RESOURCES]) {
  struct pack *now = &x->now;
  if (now->price > x->best.price) x->best = *now;
  for (; at < x->n_order; at++) {
    uint32_t i = x->order[at];
    if (pz_bits_has(apart, i)) continue;
    double most = now->price + most_more(x, at, apart);
    if (most <= x->best.price) return;
    if (++x->looks > MOST_LOOKS) {
      x->most = fmax(x->most, most);
      return;
    }
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      const struct pz_mode *mode = &x->p->tasks[i].modes[m];
      uint32_t index = x->c->mode_at[i] + m;
      if (x->rate[index] <= 0 || !pz_mode_fits(room, mode)) continue;
      struct pz_bits both = *apart;
      int32_t left[PZ_RESOURCES];
      pz_bits_merge(&both, &x->apart[i]);
      for (int r = 0; r < PZ_RESOURCES; r++) left[r] = room[r] - mode->use[r];
      now->task[now->n] = i;
      now->mode[now->n++] = m;
      now->price += x->rate[index];
      extend(x, at + 1, &both, left);
      now->price -= x->rate[index];
      now->n--;
    }
  }
}

static void sort_tasks(struct pz_pricer *x) {
  x->n_order = 0;
  for (uint32_t i = 0; i < x->p->n; i++) {
    x->dear[i] = 0;
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
      x->dear[i] = fmax(x->dear[i], x->rate[x->c->mode_at[i] + m]);
    if (x->dear[i] <= 0) continue;
    uint32_t at = x->n_order++;
    for (; at > 0 && x->dear[x->order[at - 1]] < x->dear[i]; at--) x->order[at] = x->order[at - 1];
    x->order[at] = i;
  }
}

static void add_pack(struct pz_pricer *x, const struct pack *p) {
  int rows[PZ_PRICE_MOST_TASKS], n = 0;
  double ones[PZ_PRICE_MOST_TASKS];
  for (int i = 0; i < p->n; i++) {
    int row = x->row[x->c->mode_at[p->task[i]] + p->mode[i]];
    if (row < 0) continue;
    rows[n] = row;
    ones[n++] = 1;
  }
  if (n) pz_lp_session_col(x->session, 1, rows, ones, n);
}

/* The dearest pack of each task that comes first in it; `most` is the dearest of all.  Packs dearer
 * than one are added to the model.  Were there any? */
static bool add_dear_packs(struct pz_pricer *x) {
  bool any = false;
  sort_tasks(x);
  x->most = 0;
  for (uint32_t k = 0; k < x->n_order; k++) {
    uint32_t i = x->order[k];
    x->best = (struct pack){.price = 0};
    x->looks = 0;
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      const struct pz_mode *mode = &x->p->tasks[i].modes[m];
      double rate = x->rate[x->c->mode_at[i] + m];
      int32_t room[PZ_RESOURCES];
      if (rate <= 0) continue;
      for (int r = 0; r < PZ_RESOURCES; r++) room[r] = x->p->capacity[r] - mode->use[r];
      x->now = (struct pack){.task = {i}, .mode = {m}, .n = 1, .price = rate};
      extend(x, k + 1, &x->apart[i], room);
    }
    x->most = fmax(x->most, x->best.price);
    x->c->steps += x->looks / 2;
    if (x->best.price <= 1 + 1e-7) continue;
    add_pack(x, &x->best);
    any = true;
  }
  return any;
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Rows: one mode for each task; each mode's time covered.  Columns: parts of modes, and each mode
 * alone as a pack. */
static void build(struct pz_pricer *x, struct pz_lp *lp, double unit) {
  const struct pz_context *c = x->c;
  pz_lp_init(lp, &x->arena);
  for (uint32_t i = 0; i < x->p->n; i++) {
    uint32_t one = pz_lp_row(lp, 1, 1);
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      uint32_t at = c->mode_at[i] + m;
      x->row[at] = -1;
      if (c->dropped[at]) continue;
      uint32_t part = x->part[at] = pz_lp_col(lp, 0, DBL_MAX, 0, false);
      pz_lp_put(lp, one, part, 1);
      double s = x->p->tasks[i].modes[m].s / unit;
      if (s <= 0) continue;
      uint32_t row = pz_lp_row(lp, 0, DBL_MAX), alone = pz_lp_col(lp, 0, DBL_MAX, 1, false);
      pz_lp_put(lp, row, part, -s);
      pz_lp_put(lp, row, alone, 1);
      x->row[at] = (int)row;
    }
  }
}

/* What runs together in the incumbent, at each start. */
static void add_incumbent(struct pz_pricer *x) {
  const struct pz_slot *slots = x->c->best;
  for (uint32_t i = 0; i < x->p->n; i++) {
    struct pack *p = &x->now;
    *p = (struct pack){.n = 0};
    for (uint32_t k = 0; k < x->p->n; k++)
      if (slots[k].start <= slots[i].start && slots[k].end > slots[i].start) {
        p->task[p->n] = k;
        p->mode[p->n++] = slots[k].mode;
      }
    if (p->n > 1) add_pack(x, p);
  }
}

static void read_rates(struct pz_pricer *x, const double *dual) {
  for (uint32_t at = 0; at < x->c->n_modes; at++)
    x->rate[at] = x->row[at] < 0 ? 0 : fmin(1, fmax(0, dual[x->row[at]]));
}

static double bound_of(const struct pz_pricer *x) {
  double sum = 0;
  for (uint32_t i = 0; i < x->p->n; i++) {
    double least = DBL_MAX;
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
      if (!x->c->dropped[x->c->mode_at[i] + m])
        least = fmin(least, x->rate[x->c->mode_at[i] + m] * x->p->tasks[i].modes[m].s);
    sum += least;
  }
  return sum / fmax(1, x->most);
}

/* Keep the prices, made valid, in a free place or that of the weakest. */
static void keep_prices(struct pz_pricer *x) {
  struct pz_context *c = x->c;
  int at = c->n_prices;
  if (at == PZ_MOST_PRICES) {
    at = 0;
    for (int k = 1; k < PZ_MOST_PRICES; k++)
      if (c->prices[k].sum < c->prices[at].sum) at = k;
  }
  struct pz_prices *f = &c->prices[at];
  if (at == c->n_prices) {
    f->rate = pz_arena_alloc(c->arena, c->n_modes, sizeof *f->rate);
    f->least = pz_arena_alloc(c->arena, x->p->n, sizeof *f->least);
  }
  if (!f->rate || !f->least) return;
  for (uint32_t k = 0; k < c->n_modes; k++) f->rate[k] = x->rate[k] / fmax(1, x->most);
  if (at == c->n_prices) c->n_prices++;
}

static bool allocate(struct pz_pricer *x) {
  uint32_t n = x->p->n, modes = x->c->n_modes;
  x->apart = pz_arena_alloc(&x->arena, n, sizeof *x->apart);
  x->row = pz_arena_alloc(&x->arena, modes, sizeof *x->row);
  x->part = pz_arena_alloc(&x->arena, modes, sizeof *x->part);
  x->off = pz_arena_alloc(&x->arena, modes, sizeof *x->off);
  x->rate = pz_arena_alloc(&x->arena, modes, sizeof *x->rate);
  x->dear = pz_arena_alloc(&x->arena, n, sizeof *x->dear);
  x->order = pz_arena_alloc(&x->arena, n, sizeof *x->order);
  return x->apart && x->row && x->part && x->off && x->rate && x->dear && x->order;
}

struct pz_pricer *pz_pricer_open(struct pz_context *c) {
  struct pz_lp lp;
  if (c->p->n == 0 || c->p->n > PZ_PRICE_MOST_TASKS || !(c->scale > 0)) return NULL;
  struct pz_pricer *x = pz_arena_alloc(c->arena, 1, sizeof *x);
  if (!x) return NULL;
  *x = (struct pz_pricer){.c = c, .p = c->p};
  pz_arena_init(&x->arena, c->arena->mem);
  if (allocate(x) && find_apart(x)) {
    memcpy(x->off, c->dropped, c->n_modes * sizeof *x->off);
    build(x, &lp, c->scale / (c->p->n + 1));
    x->session = pz_lp_open(&lp);
  }
  if (x->session) {
    add_incumbent(x);
    return x;
  }
  pz_pricer_close(x);
  return NULL;
}

void pz_pricer_close(struct pz_pricer *x) {
  if (!x) return;
  pz_lp_close(x->session);
  pz_arena_release(&x->arena);
}

/* The model has the modes that the context has. */
static void follow(struct pz_pricer *x, struct pz_context *c) {
  x->c = c;
  for (uint32_t at = 0; at < c->n_modes; at++) {
    if (x->off[at] == c->dropped[at]) continue;
    x->off[at] = c->dropped[at];
    pz_lp_session_limit(x->session, x->part[at], x->off[at] ? 0 : DBL_MAX);
  }
}

static void read_parts(struct pz_pricer *x, const double *value) {
  for (uint32_t at = 0; at < x->c->n_modes; at++)
    x->c->part[at] = x->c->dropped[at] ? 0 : value[x->part[at]];
}

/* Rounds of solving and adding packs, until the bound is as good as the model's or reaches the
 * incumbent. */
static void generate(struct pz_pricer *x) {
  struct pz_lp_result r;
  double best = 0;
  for (int round = 0; round < MOST_ROUNDS; round++) {
    pz_lp_session_solve(x->session, &r);
    x->c->steps += 20 * (int64_t)x->p->n;
    if (r.status != PZ_LP_OPTIMAL) break;
    read_parts(x, r.x);
    read_rates(x, r.dual);
    bool more = add_dear_packs(x);
    double bound = bound_of(x);
    if (bound > best) {
      best = bound;
      keep_prices(x);
    }
    if (!more || !pz_better(x->c, bound, x->c->best_s)) break;
  }
}

void pz_pricer_run(struct pz_pricer *x, struct pz_context *c) {
  follow(x, c);
  generate(x);
  pz_bound_tighten(c);
}

/* ---- incumbents ----------------------------------------------------------------------------- */

/* The draws of one task are spread evenly (multiples of the golden ratio). */
void pz_pricer_round(const struct pz_pricer *x, struct pz_context *c, int draws) {
  struct pz_arena arena;
  uint32_t n = x->p->n;
  pz_arena_init(&arena, c->arena->mem);
  uint32_t *mode = pz_arena_alloc(&arena, n, sizeof *mode);
  double *priority = pz_arena_alloc(&arena, n, sizeof *priority);
  for (uint32_t i = 0; priority && i < n; i++) priority[i] = c->tail_s[i] + c->least_s[i];
  for (int k = 1; mode && priority && k <= draws && pz_open(c); k++) {
    for (uint32_t i = 0; i < n; i++) {
      double at = fmod(k * 0.6180339887498949 * (i + 1), 1);
      for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
        double part = c->part[c->mode_at[i] + m];
        if (part < 1e-9) continue;
        mode[i] = m;
        if ((at -= part) < 0) break;
      }
    }
    pz_local_try(c, mode, priority);
  }
  pz_arena_release(&arena);
}
