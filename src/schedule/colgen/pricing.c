#include "schedule/colgen/pricing.h"

#include <stdlib.h>
#include <string.h>

/* Tuned: multipliers first change by 1/FIRST_STEP, last by 1/LAST_STEP, half as much each time. */
enum { FIRST_STEP = 4, LAST_STEP = 32 };
/* Tuned: wide modes have rates near 1; the second part of the choices has rates below half of this,
 * those of half the chip. */
static const double WIDE_RATE = 1.4;

/* ---- what does not change -------------------------------------------------------------------- */

/* The longest path through tasks of no chain yet is the next chain. */
static uint32_t next_chain(struct pz_pricing *x, const struct pz_bits *before, uint32_t *length,
                           uint32_t *from) {
  uint32_t last = PZ_NONE;
  for (uint32_t i = 0; i < x->p->n; i++) {
    if (x->chain[i] != PZ_NONE) continue;
    length[i] = 1;
    from[i] = PZ_NONE;
    for (uint32_t k = 0; k < i; k++)
      if (x->chain[k] == PZ_NONE && pz_bits_has(&before[i], k) && length[k] >= length[i]) {
        length[i] = length[k] + 1;
        from[i] = k;
      }
    if (last == PZ_NONE || length[i] > length[last]) last = i;
  }
  for (uint32_t i = last; i != PZ_NONE; i = from[i]) x->chain[i] = x->n_chains;
  if (last != PZ_NONE) x->n_chains++;
  return last == PZ_NONE ? 0 : length[last];
}

static bool find_order(struct pz_pricing *x, struct pz_arena *arena) {
  uint32_t n = x->p->n;
  struct pz_bits *after;
  uint32_t *length, *from;
  if (!PZ_ARRAY(arena, after, n) || !PZ_ARRAY(arena, length, n) || !PZ_ARRAY(arena, from, n))
    return false;
  pz_bits_order(x->p, x->incompatible, after);
  for (uint32_t i = 0; i < n; i++) x->chain[i] = PZ_NONE;
  while (next_chain(x, x->incompatible, length, from) > 1) {
  }
  for (uint32_t i = 0; i < n; i++)
    if (x->chain[i] == PZ_NONE) x->chain[i] = x->n_chains++;
  for (uint32_t i = 0; i < n; i++) {
    pz_bits_merge(&x->incompatible[i], &after[i]);
    pz_bits_set(&x->incompatible[i], i);
  }
  return true;
}

static void find_interchangeable(struct pz_pricing *x) {
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t k = 0; k < x->p->n; k++)
      if (i != k && pz_same_modes(&x->p->tasks[i], &x->p->tasks[k]))
        pz_bits_set(&x->interchangeable[i], k);
}

/* Resources that some task uses, and what one of each is of the whole. */
static void find_units(struct pz_pricing *x) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    x->unit[r] = x->p->capacity[r] ? 1.0 / x->p->capacity[r] : 0;
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
      for (int r = 0; r < PZ_RESOURCES; r++)
        x->used[r] = x->used[r] || x->p->tasks[i].modes[m].use[r] > 0;
}

bool pz_pricing_init(struct pz_pricing *x, const struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n, modes = c->n_modes;
  *x = (struct pz_pricing){.p = c->p, .o = c->o, .mode_at = c->mode_at};
  if (!PZ_ARRAY(arena, x->rate, modes) || !PZ_ARRAY(arena, x->incompatible, n) ||
      !PZ_ARRAY(arena, x->interchangeable, n) || !PZ_ARRAY(arena, x->preferred, n) ||
      !PZ_ARRAY(arena, x->chain, n) || !PZ_ARRAY(arena, x->best_value, n) ||
      !PZ_ARRAY(arena, x->order, modes) || !PZ_ARRAY(arena, x->most_of, n) ||
      !PZ_ARRAY(arena, x->reduced_of, n) || !find_order(x, arena))
    return false;
  find_interchangeable(x);
  find_units(x);
  return PZ_ARRAY(arena, x->more, (size_t)(x->n_chains + 1) * modes);
}

/* ---- resource multipliers -------------------------------------------------------------------- */

static double reduced_rate(const struct pz_pricing *x, const struct pz_choice *c,
                           const double multiplier[PZ_RESOURCES]) {
  double reduced = c->rate;
  for (int r = 0; r < PZ_RESOURCES; r++) reduced -= multiplier[r] * x->unit[r] * c->of.use[r];
  return reduced;
}

/* Lagrangian bound: a subset of choices from this one on has at most the value of the multipliers
 * of the whole capacity and, for one task of each chain, the largest reduced rate. */
static double value_by_multipliers(struct pz_pricing *x, uint32_t from,
                                   const double multiplier[PZ_RESOURCES]) {
  double sum = 0;
  memset(x->most_of, 0, x->n_chains * sizeof *x->most_of);
  for (uint32_t k = from; k < x->n_order; k++) {
    double reduced = reduced_rate(x, &x->order[k], multiplier),
           *most = &x->most_of[x->order[k].chain];
    if (reduced > *most) sum += reduced - *most, *most = reduced;
  }
  for (int r = 0; r < PZ_RESOURCES; r++) sum += multiplier[r];
  return sum;
}

/* One multiplier a step down or up, where that lowers the bound. */
static double try_multiplier(struct pz_pricing *x, uint32_t from, double *multiplier, int r,
                             double step, double least) {
  for (int way = -1; way <= 1; way += 2) {
    double was = multiplier[r];
    multiplier[r] = pz_fmax(0, was + way * step);
    double sum = value_by_multipliers(x, from, multiplier);
    if (sum < least)
      least = sum;
    else
      multiplier[r] = was;
  }
  return least;
}

/* Multipliers of a low bound: coordinate descent from the last ones or those of the part before, by
 * decreasing steps. */
static void choose_multipliers(struct pz_pricing *x, int part) {
  double *multiplier = x->multiplier[part];
  uint32_t from = x->part[part];
  double least = value_by_multipliers(x, from, multiplier);
  if (part > 0) {
    double other = value_by_multipliers(x, from, x->multiplier[part - 1]);
    if (other < least) memcpy(multiplier, x->multiplier[part - 1], sizeof x->multiplier[part]);
    least = pz_fmin(least, other);
  }
  for (int64_t k = FIRST_STEP; k <= LAST_STEP; k *= 2)
    for (int r = 0; r < PZ_RESOURCES; r++)
      if (x->used[r]) least = try_multiplier(x, from, multiplier, r, 1.0 / (double)k, least);
  for (uint32_t k = from; k < x->n_order; k++)
    x->order[k].reduced[part] = reduced_rate(x, &x->order[k], multiplier);
}

/* ---- the search ------------------------------------------------------------------------------ */

/* Of the choices after the subset's last one, those that can run beside it. */
static uint32_t find_extensions(const struct pz_pricing *x, const struct pz_extension *from,
                                uint32_t n_from, const struct pz_bits *incompatible,
                                const int32_t residual[PZ_RESOURCES], struct pz_extension *more) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < n_from; k++) {
    const struct pz_choice *c = &x->order[from[k].choice];
    if (!pz_bits_has(incompatible, c->task) && pz_mode_fits(residual, &c->of))
      more[n++].choice = from[k].choice;
  }
  return n;
}

/* What each and those after it can add at most: the best of each chain, or by multipliers. */
static void bound_extensions(struct pz_pricing *x, struct pz_extension *more, uint32_t n,
                             const int32_t residual[PZ_RESOURCES], int part) {
  double by_rate = 0, by_multiplier = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    by_multiplier += x->multiplier[part][r] * x->unit[r] * residual[r];
  for (uint32_t k = 0; k < n; k++) {
    uint32_t chain = x->order[more[k].choice].chain;
    x->most_of[chain] = x->reduced_of[chain] = 0;
  }
  for (uint32_t k = n; k-- > 0;) {
    const struct pz_choice *c = &x->order[more[k].choice];
    double *most = &x->most_of[c->chain], *reduced = &x->reduced_of[c->chain];
    if (c->rate > *most) by_rate += c->rate - *most, *most = c->rate;
    if (c->reduced[part] > *reduced)
      by_multiplier += c->reduced[part] - *reduced, *reduced = c->reduced[part];
    more[k].by_multipliers = x->o->pricing_multipliers && by_multiplier < by_rate;
    more[k].most = more[k].by_multipliers ? by_multiplier : by_rate;
  }
}

static void keep_best(struct pz_pricing *x) {
  const struct pz_subset *now = &x->now;
  x->best.value = now->value;
  x->best.n = now->n;
  memcpy(x->best.task, now->task, now->n * sizeof *now->task);
  memcpy(x->best.mode, now->mode, now->n * sizeof *now->mode);
}

/* Dominance: could another task take the place of this one, which has no lower value there and runs
 * beside all that can still be added?  If that one is added too, the two can exchange their
 * modes. */
static bool replaceable(const struct pz_pricing *x, uint32_t i, const struct pz_bits *incompatible,
                        const struct pz_bits *incompatible_with_it) {
  for (int w = 0; w < PZ_BITS_WORDS; w++)
    for (uint64_t list = x->preferred[i].w[w] & ~incompatible->w[w]; list; list &= list - 1) {
      uint32_t q = (uint32_t)(64 * w + __builtin_ctzll(list));
      struct pz_bits more = pz_bits_minus(&x->incompatible[q], incompatible_with_it);
      pz_bits_clear(&more, q);
      uint64_t any = 0;
      for (int k = 0; k < PZ_BITS_WORDS; k++) any |= more.w[k] & x->priced.w[k];
      if (!any) return true;
    }
  return false;
}

static void extend(struct pz_pricing *x, const struct pz_extension *from, uint32_t n_from,
                   const struct pz_bits *incompatible, const int32_t residual[PZ_RESOURCES],
                   int part);

/* The choice, with what it can be extended to. */
static void try_choice(struct pz_pricing *x, uint32_t k, const struct pz_extension *after,
                       uint32_t n_after, const struct pz_bits *incompatible,
                       const int32_t residual[PZ_RESOURCES], int part) {
  const struct pz_choice *c = &x->order[k];
  struct pz_subset *now = &x->now;
  double before = now->value;
  struct pz_bits both = *incompatible;
  pz_bits_merge(&both, &x->incompatible[c->task]);
  if (x->o->pricing_dominance && replaceable(x, c->task, incompatible, &both)) {
    x->n_replaced++;
    return;
  }
  int32_t left[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) left[r] = residual[r] - c->of.use[r];
  now->value = before + c->rate;
  now->task[now->n] = c->task;
  now->mode[now->n++] = c->mode;
  while (part + 1 < PZ_PRICING_PARTS && k + 1 >= x->part[part + 1]) part++;
  extend(x, after, n_after, &both, left, part);
  now->n--;
  now->value = before;
}

/* Extend the subset by choices of the list. */
static void extend(struct pz_pricing *x, const struct pz_extension *from, uint32_t n_from,
                   const struct pz_bits *incompatible, const int32_t residual[PZ_RESOURCES],
                   int part) {
  if (x->now.value > x->best.value) keep_best(x);
  struct pz_extension *more = &x->more[(size_t)x->now.n * x->n_order];
  uint32_t n = find_extensions(x, from, n_from, incompatible, residual, more);
  x->nodes += 1;
  bound_extensions(x, more, n, residual, part);
  for (uint32_t k = 0; k < n; k++) {
    double most = x->now.value + more[k].most;
    if (most <= x->best.value) {
      x->n_cut += more[k].by_multipliers;
      return;
    }
    if (x->nodes > x->most_nodes) {
      x->most = pz_fmax(x->most, most);
      return;
    }
    try_choice(x, more[k].choice, &more[k + 1], n - k - 1, incompatible, residual, part);
  }
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* Does b come before a, of the same modes, in every one of them, and does its advantage not shrink
 * where a's rate is higher?  Then a subset that has a in a mode, without b or with b in one of
 * lower rate, has no more value than with the two exchanged. */
static bool comes_before(const struct pz_pricing *x, uint32_t b, uint32_t a) {
  const double *of_a = &x->rate[x->mode_at[a]], *of_b = &x->rate[x->mode_at[b]];
  uint32_t n = x->p->tasks[a].n_modes;
  for (uint32_t m = 0; m < n; m++) {
    if (of_b[m] < of_a[m] || (of_b[m] <= of_a[m] && b > a)) return false;
    for (uint32_t k = 0; k < n; k++)
      if (of_a[m] > of_a[k] && of_b[m] - of_a[m] < of_b[k] - of_a[k] - 1e-14) return false;
  }
  return true;
}

static void find_preferred(struct pz_pricing *x) {
  for (uint32_t i = 0; i < x->p->n; i++) {
    x->preferred[i] = (struct pz_bits){{0}};
    for (uint32_t q = 0; q < x->p->n; q++)
      if (pz_bits_has(&x->interchangeable[i], q) && comes_before(x, q, i))
        pz_bits_set(&x->preferred[i], q);
  }
}

static int by_rate(const void *a, const void *b) {
  const struct pz_choice *x = a, *y = b;
  if (x->rate > y->rate || x->rate < y->rate) return x->rate > y->rate ? -1 : 1;
  return x->task != y->task ? (x->task < y->task ? -1 : 1) : (int)x->mode - (int)y->mode;
}

static void find_choices(struct pz_pricing *x) {
  x->n_order = 0;
  x->priced = (struct pz_bits){{0}};
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      double rate = x->rate[x->mode_at[i] + m];
      if (rate <= 0) continue;
      struct pz_choice *c = &x->order[x->n_order++];
      *c = (struct pz_choice){.rate = rate, .task = i, .mode = m, .chain = x->chain[i]};
      c->of = x->p->tasks[i].modes[m];
      pz_bits_set(&x->priced, i);
    }
  qsort(x->order, x->n_order, sizeof *x->order, by_rate);
}

void pz_pricing_begin(struct pz_pricing *x) {
  double below = WIDE_RATE;
  find_choices(x);
  find_preferred(x);
  for (int k = 0; k < PZ_PRICING_PARTS; k++, below /= 2) {
    x->part[k] = k ? x->part[k - 1] : 0;
    while (k && x->part[k] < x->n_order && x->order[x->part[k]].rate > below) x->part[k]++;
    if (x->o->pricing_multipliers) choose_multipliers(x, k);
  }
}

void pz_pricing_reset(struct pz_pricing *x) {
  x->most = 0;
  for (uint32_t i = 0; i < x->p->n; i++) x->best_value[i] = 1;
}

void pz_pricing_solve(struct pz_pricing *x, uint32_t k) {
  static const struct pz_bits none;
  double *best_value = &x->best_value[x->order[k].task];
  x->nodes = 0;
  x->now.n = x->best.n = 0;
  x->now.value = 0;
  x->best.value = *best_value;
  for (uint32_t q = k + 1; q < x->n_order; q++) x->more[q].choice = q;
  if (pz_mode_fits(x->p->capacity, &x->order[k].of))
    try_choice(x, k, &x->more[k + 1], x->n_order - k - 1, &none, x->p->capacity, 0);
  *best_value = x->best.value;
  x->most = pz_fmax(x->most, x->best.value);
}
