#include "schedule/pack.h"

#include <string.h>

enum { TOLLS = 4 };

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

bool pz_packer_init(struct pz_packer *x, const struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n;
  *x = (struct pz_packer){.p = c->p, .mode_at = c->mode_at};
  x->rate = pz_arena_alloc(arena, c->n_modes, sizeof *x->rate);
  x->apart = pz_arena_alloc(arena, n, sizeof *x->apart);
  x->chain = pz_arena_alloc(arena, n, sizeof *x->chain);
  x->dear = pz_arena_alloc(arena, n, sizeof *x->dear);
  x->order = pz_arena_alloc(arena, n, sizeof *x->order);
  x->over = pz_arena_alloc(arena, n, sizeof *x->over);
  x->most_of = pz_arena_alloc(arena, n, sizeof *x->most_of);
  return x->rate && x->apart && x->chain && x->dear && x->order && x->over && x->most_of &&
         find_order(x, arena);
}

/* ---- tolls ---------------------------------------------------------------------------------- */

/* A pack costs at most the tolls of the room it takes and, for one task of each chain, the most by
 * which its rate is over the tolls of its mode. */
static void find_over(struct pz_packer *x, const double toll[PZ_RESOURCES]) {
  for (uint32_t i = 0; i < x->p->n; i++) {
    x->over[i] = 0;
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
      const struct pz_mode *mode = &x->p->tasks[i].modes[m];
      double over = x->rate[x->mode_at[i] + m];
      if (over <= x->over[i]) continue;
      for (int r = 0; r < PZ_RESOURCES; r++)
        if (mode->use[r]) over -= toll[r] * mode->use[r] / x->p->capacity[r];
      x->over[i] = pz_larger(x->over[i], over);
    }
  }
}

static double sum_of_chains(struct pz_packer *x) {
  double sum = 0;
  memset(x->most_of, 0, x->n_chains * sizeof *x->most_of);
  for (uint32_t i = 0; i < x->p->n; i++)
    x->most_of[x->chain[i]] = pz_larger(x->most_of[x->chain[i]], x->over[i]);
  for (uint32_t k = 0; k < x->n_chains; k++) sum += x->most_of[k];
  return sum;
}

/* Tolls that make that little, one resource after another. */
static void choose_tolls(struct pz_packer *x) {
  double least = 0;
  memset(x->toll, 0, sizeof x->toll);
  find_over(x, x->toll);
  least = sum_of_chains(x);
  for (int r = 0; r < PZ_RESOURCES; r++) {
    double best = 0;
    for (int k = 1; k <= TOLLS; k++) {
      double sum = 0;
      x->toll[r] = (double)k / TOLLS;
      find_over(x, x->toll);
      sum = sum_of_chains(x);
      for (int q = 0; q < PZ_RESOURCES; q++) sum += x->toll[q];
      if (sum < least) least = sum, best = x->toll[r];
    }
    x->toll[r] = best;
  }
  find_over(x, x->toll);
}

/* ---- the search ----------------------------------------------------------------------------- */

/* What tasks from order[at] on can add at most: the dearest of each chain, or by tolls. */
static double most_more(struct pz_packer *x, uint32_t at, const struct pz_bits *apart,
                        const int32_t room[PZ_RESOURCES]) {
  double by_rate = 0, by_toll = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (x->toll[r] > 0) by_toll += x->toll[r] * room[r] / x->p->capacity[r];
  for (uint32_t k = 0; k < x->n_chains; k++) x->most_of[k] = -1;
  for (uint32_t k = at; k < x->n_order; k++) {
    uint32_t i = x->order[k];
    if (pz_bits_has(apart, i)) continue;
    double *most = &x->most_of[x->chain[i]];
    if (*most < 0) by_rate += x->dear[i], *most = 0; /* the first is the dearest */
    if (x->over[i] > *most) by_toll += x->over[i] - *most, *most = x->over[i];
  }
  return pz_smaller(by_rate, by_toll);
}

static void keep_best(struct pz_packer *x) {
  const struct pz_pack *now = &x->now;
  x->best.price = now->price;
  x->best.n = now->n;
  memcpy(x->best.task, now->task, now->n * sizeof *now->task);
  memcpy(x->best.mode, now->mode, now->n * sizeof *now->mode);
}

static void extend(struct pz_packer *x, uint32_t at, const struct pz_bits *apart,
                   const int32_t room[PZ_RESOURCES]);

/* Every mode of the task that fits, with what it can be extended to. */
static void try_task(struct pz_packer *x, uint32_t at, const struct pz_bits *apart,
                     const int32_t room[PZ_RESOURCES]) {
  uint32_t i = x->order[at];
  struct pz_pack *now = &x->now;
  double before = now->price;
  struct pz_bits both = *apart;
  pz_bits_merge(&both, &x->apart[i]);
  for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++) {
    const struct pz_mode *mode = &x->p->tasks[i].modes[m];
    uint32_t index = x->mode_at[i] + m;
    if (x->rate[index] <= 0 || !pz_mode_fits(room, mode)) continue;
    int32_t left[PZ_RESOURCES];
    for (int r = 0; r < PZ_RESOURCES; r++) left[r] = room[r] - mode->use[r];
    now->price = before + x->rate[index];
    now->task[now->n] = i;
    now->mode[now->n++] = m;
    extend(x, at + 1, &both, left);
    now->n--;
  }
  now->price = before;
}

/* Extend the pack by tasks from order[at] on. */
static void extend(struct pz_packer *x, uint32_t at, const struct pz_bits *apart,
                   const int32_t room[PZ_RESOURCES]) {
  if (x->now.price > x->best.price) keep_best(x);
  for (; at < x->n_order; at++) {
    if (pz_bits_has(apart, x->order[at])) continue;
    double most = x->now.price + most_more(x, at, apart, room);
    if (most <= x->best.price) return;
    if (++x->looks > x->most_looks) {
      x->most = pz_larger(x->most, most);
      return;
    }
    try_task(x, at, apart, room);
  }
}

void pz_packer_begin(struct pz_packer *x) {
  x->n_order = 0;
  x->most = 0;
  for (uint32_t i = 0; i < x->p->n; i++) {
    x->dear[i] = 0;
    for (uint32_t m = 0; m < x->p->tasks[i].n_modes; m++)
      x->dear[i] = pz_larger(x->dear[i], x->rate[x->mode_at[i] + m]);
    if (x->dear[i] <= 0) continue;
    uint32_t at = x->n_order++;
    for (; at > 0 && x->dear[x->order[at - 1]] < x->dear[i]; at--) x->order[at] = x->order[at - 1];
    x->order[at] = i;
  }
  choose_tolls(x);
}

void pz_packer_dearest(struct pz_packer *x, uint32_t k) {
  const struct pz_bits none = {{0}};
  x->looks = 0;
  x->now.n = x->best.n = 0;
  x->now.price = 0;
  x->best.price = 1;
  try_task(x, k, &none, x->p->capacity);
  x->most = pz_larger(x->most, x->best.price);
}
