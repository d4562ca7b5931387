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

static void find_alike(struct pz_packer *x) {
  for (uint32_t i = 0; i < x->p->n; i++)
    for (uint32_t k = 0; k < x->p->n; k++) {
      struct pz_bits more = pz_bits_minus(&x->apart[k], &x->apart[i]);
      pz_bits_clear(&more, k);
      if (i != k && pz_bits_empty(&more) && pz_same_modes(&x->p->tasks[i], &x->p->tasks[k]))
        pz_bits_set(&x->alike[i], k);
    }
}

bool pz_packer_init(struct pz_packer *x, const struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n;
  *x = (struct pz_packer){.p = c->p, .mode_at = c->mode_at};
  x->rate = pz_arena_alloc(arena, c->n_modes, sizeof *x->rate);
  x->apart = pz_arena_alloc(arena, n, sizeof *x->apart);
  x->alike = pz_arena_alloc(arena, n, sizeof *x->alike);
  x->rather = pz_arena_alloc(arena, n, sizeof *x->rather);
  x->chain = pz_arena_alloc(arena, n, sizeof *x->chain);
  x->dear = pz_arena_alloc(arena, n, sizeof *x->dear);
  x->order = pz_arena_alloc(arena, n, sizeof *x->order);
  x->over = pz_arena_alloc(arena, n, sizeof *x->over);
  x->most_of = pz_arena_alloc(arena, n, sizeof *x->most_of);
  x->over_of = pz_arena_alloc(arena, n, sizeof *x->over_of);
  x->more = pz_arena_alloc(arena, (size_t)(n + 1) * n, sizeof *x->more);
  if (!x->rate || !x->apart || !x->alike || !x->rather || !x->chain || !x->dear || !x->order ||
      !x->over || !x->most_of || !x->over_of || !x->more || !find_order(x, arena))
    return false;
  find_alike(x);
  return true;
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

/* The dearest mode of the task for which there is room; 0: none. */
static double dearest_in(const struct pz_packer *x, uint32_t i, const int32_t room[PZ_RESOURCES]) {
  const struct pz_task *t = &x->p->tasks[i];
  const double *rate = &x->rate[x->mode_at[i]];
  double most = 0;
  for (uint32_t m = t->n_modes; m-- > 0;)
    if (rate[m] > most && pz_mode_fits(room, &t->modes[m])) most = rate[m];
  return most;
}

/* Of those that may come after the pack's last task, those that can run beside it. */
static uint32_t find_more(const struct pz_packer *x, const struct pz_more *from, uint32_t n_from,
                          const struct pz_bits *apart, const int32_t room[PZ_RESOURCES],
                          struct pz_more *more) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < n_from; k++) {
    double dear = pz_bits_has(apart, from[k].task) ? 0 : dearest_in(x, from[k].task, room);
    if (dear > 0) more[n++] = (struct pz_more){.task = from[k].task, .dear = dear};
  }
  return n;
}

/* What each and those after it can add at most: the dearest of each chain, or by tolls. */
static void find_most(struct pz_packer *x, struct pz_more *more, uint32_t n,
                      const int32_t room[PZ_RESOURCES]) {
  double by_rate = 0, by_toll = 0;
  for (int r = 0; r < PZ_RESOURCES; r++)
    if (x->toll[r] > 0) by_toll += x->toll[r] * room[r] / x->p->capacity[r];
  for (uint32_t k = 0; k < n; k++)
    x->most_of[x->chain[more[k].task]] = x->over_of[x->chain[more[k].task]] = 0;
  for (uint32_t k = n; k-- > 0;) {
    uint32_t i = more[k].task;
    double *most = &x->most_of[x->chain[i]], *over = &x->over_of[x->chain[i]];
    double above = pz_smaller(x->over[i], more[k].dear);
    if (more[k].dear > *most) by_rate += more[k].dear - *most, *most = more[k].dear;
    if (above > *over) by_toll += above - *over, *over = above;
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

static void extend(struct pz_packer *x, const struct pz_more *from, uint32_t n_from,
                   const struct pz_bits *apart, const int32_t room[PZ_RESOURCES]);

/* Every mode of the task that fits, with what it can be extended to; not where another could be in
 * its place that costs no less. */
static void try_task(struct pz_packer *x, uint32_t i, const struct pz_more *after, uint32_t n_after,
                     const struct pz_bits *apart, const int32_t room[PZ_RESOURCES]) {
  struct pz_pack *now = &x->now;
  double before = now->price;
  struct pz_bits both = pz_bits_minus(&x->rather[i], apart);
  if (!pz_bits_empty(&both)) return;
  both = *apart;
  pz_bits_merge(&both, &x->apart[i]);
  for (uint32_t m = x->p->tasks[i].n_modes; m-- > 0;) {
    const struct pz_mode *mode = &x->p->tasks[i].modes[m];
    uint32_t index = x->mode_at[i] + m;
    if (x->rate[index] <= 0 || !pz_mode_fits(room, mode)) continue;
    int32_t left[PZ_RESOURCES];
    for (int r = 0; r < PZ_RESOURCES; r++) left[r] = room[r] - mode->use[r];
    now->price = before + x->rate[index];
    now->task[now->n] = i;
    now->mode[now->n++] = m;
    extend(x, after, n_after, &both, left);
    now->n--;
  }
  now->price = before;
}

/* Extend the pack by tasks of the list. */
static void extend(struct pz_packer *x, const struct pz_more *from, uint32_t n_from,
                   const struct pz_bits *apart, const int32_t room[PZ_RESOURCES]) {
  if (x->now.price > x->best.price) keep_best(x);
  struct pz_more *more = &x->more[(size_t)x->now.n * x->p->n];
  uint32_t n = find_more(x, from, n_from, apart, room, more);
  x->looks += 1;
  find_most(x, more, n, room);
  for (uint32_t k = 0; k < n; k++) {
    double most = x->now.price + more[k].most;
    if (most <= x->best.price) return;
    if (x->looks > x->most_looks) {
      x->most = pz_larger(x->most, most);
      return;
    }
    try_task(x, more[k].task, &more[k + 1], n - k - 1, apart, room);
  }
}

static bool no_cheaper(const struct pz_packer *x, uint32_t a, uint32_t b) {
  for (uint32_t m = 0; m < x->p->tasks[a].n_modes; m++)
    if (x->rate[x->mode_at[a] + m] < x->rate[x->mode_at[b] + m]) return false;
  return true;
}

static void find_rather(struct pz_packer *x) {
  for (uint32_t k = 0; k < x->n_order; k++) {
    uint32_t i = x->order[k];
    x->rather[i] = (struct pz_bits){{0}};
    for (uint32_t q = 0; q < k; q++)
      if (pz_bits_has(&x->alike[i], x->order[q]) && no_cheaper(x, x->order[q], i))
        pz_bits_set(&x->rather[i], x->order[q]);
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
  find_rather(x);
  choose_tolls(x);
}

void pz_packer_dearest(struct pz_packer *x, uint32_t k) {
  const struct pz_bits none = {{0}};
  x->looks = 0;
  x->now.n = x->best.n = 0;
  x->now.price = 0;
  x->best.price = 1;
  for (uint32_t q = k; q < x->n_order; q++) x->more[q].task = x->order[q];
  try_task(x, x->order[k], &x->more[k + 1], x->n_order - k - 1, &none, x->p->capacity);
  x->most = pz_larger(x->most, x->best.price);
}
