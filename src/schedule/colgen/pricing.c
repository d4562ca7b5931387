#include "schedule/colgen/pricing.h"

#include <stdlib.h>
#include <string.h>

/* One in so many of a resource's price, for changes of tolls. */
enum { FIRST_STEP = 4, LAST_STEP = 32 };

/* ---- what does not change ------------------------------------------------------------------- */

/* The longest way through tasks of no chain yet, each before the next, is the next chain. */
static uint32_t next_chain(struct pz_packer *x, const struct pz_bits *before, uint32_t *length,
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

static bool find_order(struct pz_packer *x, struct pz_arena *arena) {
  uint32_t n = x->p->n;
  struct pz_bits *after = pz_arena_alloc(arena, n, sizeof *after);
  uint32_t *length = pz_arena_alloc(arena, n, sizeof *length);
  uint32_t *from = pz_arena_alloc(arena, n, sizeof *from);
  if (!after || !length || !from) return false;
  pz_bits_order(x->p, x->apart, after);
  for (uint32_t i = 0; i < n; i++) x->chain[i] = PZ_NONE;
  while (next_chain(x, x->apart, length, from) > 1) {
  }
  for (uint32_t i = 0; i < n; i++)
    if (x->chain[i] == PZ_NONE) x->chain[i] = x->n_chains++;
  for (uint32_t i = 0; i < n; i++) {
    pz_bits_merge(&x->apart[i], &after[i]);
    pz_bits_set(&x->apart[i], i);
  }
  return true;
}

static void find_alike(struct pz_packer *x) {
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t k = 0; k < x->p->n; k++)
      if (i != k && pz_same_modes(&x->p->tasks[i], &x->p->tasks[k])) pz_bits_set(&x->alike[i], k);
}

/* Resources that some task uses, and what one of each is of the whole. */
static void find_units(struct pz_packer *x) {
  for (int r = 0; r < PZ_RESOURCES; r++)
    x->unit[r] = x->p->capacity[r] ? 1.0 / x->p->capacity[r] : 0;
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
      for (int r = 0; r < PZ_RESOURCES; r++)
        x->used[r] = x->used[r] || x->p->tasks[i].modes[m].use[r] > 0;
}

bool pz_packer_init(struct pz_packer *x, const struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n, modes = c->n_modes;
  *x = (struct pz_packer){.p = c->p, .mode_at = c->mode_at};
  x->rate = pz_arena_alloc(arena, modes, sizeof *x->rate);
  x->apart = pz_arena_alloc(arena, n, sizeof *x->apart);
  x->alike = pz_arena_alloc(arena, n, sizeof *x->alike);
  x->rather = pz_arena_alloc(arena, n, sizeof *x->rather);
  x->chain = pz_arena_alloc(arena, n, sizeof *x->chain);
  x->dearest = pz_arena_alloc(arena, n, sizeof *x->dearest);
  x->order = pz_arena_alloc(arena, modes, sizeof *x->order);
  x->most_of = pz_arena_alloc(arena, n, sizeof *x->most_of);
  x->over_of = pz_arena_alloc(arena, n, sizeof *x->over_of);
  if (!x->rate || !x->apart || !x->alike || !x->rather || !x->chain || !x->dearest || !x->order ||
      !x->most_of || !x->over_of || !find_order(x, arena))
    return false;
  find_alike(x);
  find_units(x);
  x->more = pz_arena_alloc(arena, (size_t)(x->n_chains + 1) * modes, sizeof *x->more);
  return x->more != NULL;
}

/* ---- tolls ---------------------------------------------------------------------------------- */

static double over_tolls(const struct pz_packer *x, const struct pz_choice *c,
                         const double toll[PZ_RESOURCES]) {
  double over = c->rate;
  for (int r = 0; r < PZ_RESOURCES; r++) over -= toll[r] * x->unit[r] * c->of.use[r];
  return over;
}

/* A pack of choices from this one on costs at most the tolls of all room and, for one task of each
 * chain, the most by which its rate is over the tolls of its mode. */
static double most_by_tolls(struct pz_packer *x, uint32_t from, const double toll[PZ_RESOURCES]) {
  double sum = 0;
  memset(x->most_of, 0, x->n_chains * sizeof *x->most_of);
  for (uint32_t k = from; k < x->n_order; k++) {
    double over = over_tolls(x, &x->order[k], toll), *most = &x->most_of[x->order[k].chain];
    if (over > *most) sum += over - *most, *most = over;
  }
  for (int r = 0; r < PZ_RESOURCES; r++) sum += toll[r];
  return sum;
}

/* One toll a step down or up, where that makes it less. */
static double try_toll(struct pz_packer *x, uint32_t from, double *toll, int r, double step,
                       double least) {
  for (int way = -1; way <= 1; way += 2) {
    double was = toll[r];
    toll[r] = pz_larger(0, was + way * step);
    double sum = most_by_tolls(x, from, toll);
    if (sum < least)
      least = sum;
    else
      toll[r] = was;
  }
  return least;
}

/* Tolls that make that little: from those of the last time or those of the part before, by smaller
 * and smaller steps. */
static void choose_tolls(struct pz_packer *x, int part) {
  double *toll = x->toll[part];
  uint32_t from = x->part[part];
  double least = most_by_tolls(x, from, toll);
  if (part > 0) {
    double other = most_by_tolls(x, from, x->toll[part - 1]);
    if (other < least) memcpy(toll, x->toll[part - 1], sizeof x->toll[part]);
    least = pz_smaller(least, other);
  }
  for (int k = FIRST_STEP; k <= LAST_STEP; k *= 2)
    for (int r = 0; r < PZ_RESOURCES; r++)
      if (x->used[r]) least = try_toll(x, from, toll, r, 1.0 / k, least);
  for (uint32_t k = from; k < x->n_order; k++)
    x->order[k].over[part] = over_tolls(x, &x->order[k], toll);
}

/* ---- the search ----------------------------------------------------------------------------- */

/* Of the choices that may come after the pack's last one, those that can run beside it. */
static uint32_t find_more(const struct pz_packer *x, const struct pz_more *from, uint32_t n_from,
                          const struct pz_bits *apart, const int32_t room[PZ_RESOURCES],
                          struct pz_more *more) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < n_from; k++) {
    const struct pz_choice *c = &x->order[from[k].choice];
    if (!pz_bits_has(apart, c->task) && pz_mode_fits(room, &c->of))
      more[n++].choice = from[k].choice;
  }
  return n;
}

/* What each and those after it can add at most: the dearest of each chain, or by tolls. */
static void find_most(struct pz_packer *x, struct pz_more *more, uint32_t n,
                      const int32_t room[PZ_RESOURCES], int part) {
  double by_rate = 0, by_toll = 0;
  for (int r = 0; r < PZ_RESOURCES; r++) by_toll += x->toll[part][r] * x->unit[r] * room[r];
  for (uint32_t k = 0; k < n; k++) {
    uint32_t chain = x->order[more[k].choice].chain;
    x->most_of[chain] = x->over_of[chain] = 0;
  }
  for (uint32_t k = n; k-- > 0;) {
    const struct pz_choice *c = &x->order[more[k].choice];
    double *most = &x->most_of[c->chain], *over = &x->over_of[c->chain];
    if (c->rate > *most) by_rate += c->rate - *most, *most = c->rate;
    if (c->over[part] > *over) by_toll += c->over[part] - *over, *over = c->over[part];
    more[k].most = pz_smaller(by_rate, by_toll);
  }
}

static void keep_best(struct pz_packer *x) {
  const struct pz_pack *now = &x->now;
  x->best.price = now->price;
  x->best.n = now->n;
  memcpy(x->best.task, now->task, now->n * sizeof *now->task);
  memcpy(x->best.mode, now->mode, now->n * sizeof *now->mode);
}

/* Could another task be in the place of this one, which costs no less there and runs beside all
 * that can still come?  Where that one is to come too, the two can change their modes. */
static bool replaceable(const struct pz_packer *x, uint32_t i, const struct pz_bits *apart,
                        const struct pz_bits *apart_with_it) {
  for (int w = 0; w < PZ_BITS_WORDS; w++)
    for (uint64_t list = x->rather[i].w[w] & ~apart->w[w]; list; list &= list - 1) {
      uint32_t q = (uint32_t)(64 * w + __builtin_ctzll(list));
      struct pz_bits more = pz_bits_minus(&x->apart[q], apart_with_it);
      pz_bits_clear(&more, q);
      uint64_t any = 0;
      for (int k = 0; k < PZ_BITS_WORDS; k++) any |= more.w[k] & x->priced.w[k];
      if (!any) return true;
    }
  return false;
}

static void extend(struct pz_packer *x, const struct pz_more *from, uint32_t n_from,
                   const struct pz_bits *apart, const int32_t room[PZ_RESOURCES], int part);

/* The choice, with what it can be extended to. */
static void try_choice(struct pz_packer *x, uint32_t k, const struct pz_more *after,
                       uint32_t n_after, const struct pz_bits *apart,
                       const int32_t room[PZ_RESOURCES], int part) {
  const struct pz_choice *c = &x->order[k];
  struct pz_pack *now = &x->now;
  double before = now->price;
  struct pz_bits both = *apart;
  pz_bits_merge(&both, &x->apart[c->task]);
  if (replaceable(x, c->task, apart, &both)) return;
  int32_t left[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) left[r] = room[r] - c->of.use[r];
  now->price = before + c->rate;
  now->task[now->n] = c->task;
  now->mode[now->n++] = c->mode;
  while (part + 1 < PZ_PACK_PARTS && k + 1 >= x->part[part + 1]) part++;
  extend(x, after, n_after, &both, left, part);
  now->n--;
  now->price = before;
}

/* Extend the pack by choices of the list. */
static void extend(struct pz_packer *x, const struct pz_more *from, uint32_t n_from,
                   const struct pz_bits *apart, const int32_t room[PZ_RESOURCES], int part) {
  if (x->now.price > x->best.price) keep_best(x);
  struct pz_more *more = &x->more[(size_t)x->now.n * x->n_order];
  uint32_t n = find_more(x, from, n_from, apart, room, more);
  x->looks += 1;
  find_most(x, more, n, room, part);
  for (uint32_t k = 0; k < n; k++) {
    double most = x->now.price + more[k].most;
    if (most <= x->best.price) return;
    if (x->looks > x->most_looks) {
      x->most = pz_larger(x->most, most);
      return;
    }
    try_choice(x, more[k].choice, &more[k + 1], n - k - 1, apart, room, part);
  }
}

/* ---- the calls ------------------------------------------------------------------------------ */

/* Does b come before a, of the same modes, in every one of them, and is it no less dearer in the
 * dearer ones?  Then what has a in a mode, without b or with b in a cheaper one, costs no more than
 * with the two exchanged. */
static bool comes_before(const struct pz_packer *x, uint32_t b, uint32_t a) {
  const double *of_a = &x->rate[x->mode_at[a]], *of_b = &x->rate[x->mode_at[b]];
  uint32_t n = x->p->tasks[a].n_modes;
  for (uint32_t m = 0; m < n; m++) {
    if (of_b[m] < of_a[m] || (of_b[m] <= of_a[m] && b > a)) return false;
    for (uint32_t k = 0; k < n; k++)
      if (of_a[m] > of_a[k] && of_b[m] - of_a[m] < of_b[k] - of_a[k] - 1e-14) return false;
  }
  return true;
}

static void find_rather(struct pz_packer *x) {
  for (uint32_t i = 0; i < x->p->n; i++) {
    x->rather[i] = (struct pz_bits){{0}};
    for (uint32_t q = 0; q < x->p->n; q++)
      if (pz_bits_has(&x->alike[i], q) && comes_before(x, q, i)) pz_bits_set(&x->rather[i], q);
  }
}

static int by_rate(const void *a, const void *b) {
  const struct pz_choice *x = a, *y = b;
  if (x->rate > y->rate || x->rate < y->rate) return x->rate > y->rate ? -1 : 1;
  return x->task != y->task ? (x->task < y->task ? -1 : 1) : (int)x->mode - (int)y->mode;
}

static void find_choices(struct pz_packer *x) {
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

void pz_packer_begin(struct pz_packer *x) {
  double below = 1.4; /* what takes all or most costs about 1: the second part has the halves */
  find_choices(x);
  find_rather(x);
  for (int k = 0; k < PZ_PACK_PARTS; k++, below /= 2) {
    x->part[k] = k ? x->part[k - 1] : 0;
    while (k && x->part[k] < x->n_order && x->order[x->part[k]].rate > below) x->part[k]++;
    choose_tolls(x, k);
  }
}

void pz_packer_forget(struct pz_packer *x) {
  x->most = 0;
  for (uint32_t i = 0; i < x->p->n; i++) x->dearest[i] = 1;
}

void pz_packer_dearest(struct pz_packer *x, uint32_t k) {
  static const struct pz_bits none;
  double *dearest = &x->dearest[x->order[k].task];
  x->looks = 0;
  x->now.n = x->best.n = 0;
  x->now.price = 0;
  x->best.price = *dearest;
  for (uint32_t q = k + 1; q < x->n_order; q++) x->more[q].choice = q;
  if (pz_mode_fits(x->p->capacity, &x->order[k].of))
    try_choice(x, k, &x->more[k + 1], x->n_order - k - 1, &none, x->p->capacity, 0);
  *dearest = x->best.price;
  x->most = pz_larger(x->most, x->best.price);
}
