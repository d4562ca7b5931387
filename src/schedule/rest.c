#include "schedule/rest.h"

#include <string.h>

enum { MOST_PAST = 4096, PAST_PER_STEP = 16 };

struct past {
  struct pz_bits done;
  double delay_s;
};

static struct pz_partial *node_at(const struct pz_rest *x, uint32_t picked) {
  return (struct pz_partial *)(void *)(x->nodes + picked * x->node_bytes);
}

/* ---- delays --------------------------------------------------------------------------------- */

double pz_rest_delay(const struct pz_rest *x, double t, const struct pz_bits *done) {
  double alone_s = 0;
  for (int w = 0; w < x->g->words; w++)
    for (uint64_t left = done->w[w]; left; left &= left - 1)
      alone_s += x->g->c->least_s[64 * w + __builtin_ctzll(left)];
  return t - alone_s;
}

static double slack(const struct pz_rest *x) { return 1e-12 * x->g->c->scale; }

bool pz_rest_seen(struct pz_rest *x, const struct pz_partial *rest) {
  struct past now = {rest->started, pz_rest_delay(x, rest->t, &rest->started)};
  x->g->c->steps += x->past.n / PAST_PER_STEP;
  for (uint32_t k = 0; k < x->past.n; k++) {
    const struct past *p = pz_vec_at(&x->past, struct past, k);
    if (p->delay_s > now.delay_s + slack(x)) continue;
    struct pz_bits more = pz_bits_minus(&p->done, &now.done);
    if (pz_bits_empty(&more)) return true;
  }
  if (x->past.n < MOST_PAST) (void)pz_vec_push(&x->past, &now); /* it may be forgotten */
  return false;
}

bool pz_rest_is_better(const struct pz_rest *x, double delay_s, const struct pz_bits *started,
                       double next) {
  return delay_s <= pz_rest_delay(x, next, started) + slack(x);
}

/* ---- starts --------------------------------------------------------------------------------- */

/* The tasks picked start together, after what they need. */
static const struct pz_partial *start(struct pz_rest *x, const struct pz_partial *rest, uint32_t n,
                                      const struct pz_bits *needs) {
  struct pz_partial *to = node_at(x, n);
  pz_partial_copy(to, rest);
  pz_partial_alone(x->g, to, needs);
  for (uint32_t k = 0; k < n; k++)
    pz_partial_start(x->g, to, x->picked[k].task, x->picked[k].mode, to);
  return to;
}

/* Each is the first of those alike that are ready. */
static bool in_order(const struct pz_rest *x, const struct pz_partial *n, uint32_t picked) {
  for (uint32_t k = 0; k < picked; k++)
    if (!pz_partial_first(x->g, n, x->picked[k].task)) return false;
  return true;
}

struct visit {
  pz_rest_visitor *with;
  void *to;
};

static struct pz_bits needs_with(const struct pz_rest *x, const struct pz_partial *rest,
                                 const struct pz_bits *needs, uint32_t i) {
  struct pz_bits more = pz_bits_minus(&x->g->before[i], &rest->finished);
  pz_bits_merge(&more, needs);
  return more;
}

/* Could some task that waits for this one join those picked when the first of them ends, by prices
 * and by its path? */
static bool leads_on(const struct pz_rest *x, const struct pz_partial *n, uint32_t i) {
  const struct pz_context *c = x->g->c;
  const struct pz_task *t = &x->g->p->tasks[i];
  double next = n->run[0].end;
  for (uint32_t k = 1; k < n->n_running; k++) next = pz_smaller(next, n->run[k].end);
  for (uint32_t k = 0; k < t->n_succ; k++) {
    const struct pz_task *u = &x->g->p->tasks[t->succ[k]];
    for (uint32_t m = 0; m < u->n_modes; m++) {
      uint32_t at = c->mode_at[t->succ[k]] + m;
      if (c->dropped[at] || x->alone[at]) continue;
      double bound = next + u->modes[m].s + c->tail_s[t->succ[k]];
      for (int f = 0; f < c->n_prices; f++)
        bound = pz_larger(bound, n->t + n->left[f] - c->prices[f].least[t->succ[k]] +
                                     c->prices[f].rate[at] * u->modes[m].s);
      if (pz_better(c, bound, c->best_s)) return true;
    }
  }
  return false;
}

/* What runs alone before them too, because something that joins them later needs it: of the tasks
 * that are needed and after which none is, one more, in one order. */
static void need(struct pz_rest *x, const struct pz_partial *rest, uint32_t n, uint32_t rank,
                 const struct pz_bits *needs, const struct pz_bits *apart, const struct visit *v) {
  const struct pz_growth *g = x->g;
  for (; rank < g->p->n && !x->stopped; rank++) {
    uint32_t i = g->by_path[rank];
    bool out = pz_bits_has(&rest->started, i) || pz_bits_has(needs, i) || pz_bits_has(apart, i);
    for (uint32_t k = 0; k < n; k++) out = out || x->picked[k].task == i;
    if (out || pz_bits_empty(&g->after[i])) continue;
    struct pz_bits more = needs_with(x, rest, needs, i), over = *apart;
    pz_bits_set(&more, i);
    pz_bits_merge(&over, &g->after[i]);
    const struct pz_partial *next = start(x, rest, n, &more);
    if (in_order(x, next, n) && leads_on(x, next, i) && v->with(v->to, next, n))
      need(x, rest, n, rank + 1, &more, &over, v);
  }
}

static void pick(struct pz_rest *x, const struct pz_partial *rest, uint32_t n,
                 const struct visit *v);

/* The task as the last of those picked, in every mode. */
static void pick_task(struct pz_rest *x, const struct pz_partial *rest, uint32_t n, uint32_t i,
                      const struct visit *v) {
  const struct pz_context *c = x->g->c;
  const struct pz_task *t = &x->g->p->tasks[i];
  for (uint32_t m = 0; m < t->n_modes && !x->stopped; m++) {
    if (c->dropped[c->mode_at[i] + m] || !pz_mode_fits(x->room[n], &t->modes[m])) continue;
    x->picked[n] = (struct pz_picked){i, m};
    for (int r = 0; r < PZ_RESOURCES; r++) x->room[n + 1][r] = x->room[n][r] - t->modes[m].use[r];
    const struct pz_partial *next = start(x, rest, n + 1, &x->needs[n + 1]);
    if (!in_order(x, next, n + 1) || !v->with(v->to, next, n + 1)) continue;
    if (n > 0) need(x, rest, n + 1, 0, &x->needs[n + 1], &x->apart[n + 1], v);
    pick(x, rest, n + 1, v);
  }
}

/* One more that may run beside those picked, in one order. */
static void pick(struct pz_rest *x, const struct pz_partial *rest, uint32_t n,
                 const struct visit *v) {
  const struct pz_growth *g = x->g;
  for (uint32_t r = n ? g->rank[x->picked[n - 1].task] + 1 : 0; r < g->p->n && !x->stopped; r++) {
    uint32_t i = g->by_path[r];
    if (pz_bits_has(&rest->started, i) || pz_bits_has(&x->needs[n], i) ||
        pz_bits_has(&x->apart[n], i))
      continue;
    x->needs[n + 1] = needs_with(x, rest, &x->needs[n], i);
    x->apart[n + 1] = x->apart[n];
    pz_bits_merge(&x->apart[n + 1], &g->after[i]);
    pick_task(x, rest, n, i, v);
  }
}

void pz_rest_starts(struct pz_rest *x, const struct pz_partial *rest, pz_rest_visitor *visit,
                    void *to) {
  memcpy(x->room[0], rest->free, sizeof x->room[0]);
  pick(x, rest, 0, &(struct visit){visit, to});
}

const struct pz_partial *pz_rest_finish(struct pz_rest *x, const struct pz_partial *rest) {
  struct pz_bits left = pz_bits_minus(&x->g->all, &rest->started);
  struct pz_partial *end = node_at(x, 0);
  pz_partial_copy(end, rest);
  pz_partial_alone(x->g, end, &left);
  return end;
}

/* ---- how often ------------------------------------------------------------------------------ */

/* The least of each resource that some mode of the task wants. */
static struct pz_mode least_use(const struct pz_context *c, uint32_t i) {
  const struct pz_task *t = &c->p->tasks[i];
  struct pz_mode least = {0};
  memcpy(least.use, c->p->capacity, sizeof least.use);
  for (uint32_t m = 0; m < t->n_modes; m++)
    for (int r = 0; r < PZ_RESOURCES && !c->dropped[c->mode_at[i] + m]; r++)
      if (t->modes[m].use[r] < least.use[r]) least.use[r] = t->modes[m].use[r];
  return least;
}

/* Does nothing else that takes time fit beside the task in this mode? */
static bool leaves_no_room(const struct pz_growth *g, const struct pz_mode *least, uint32_t i,
                           const struct pz_mode *m) {
  int32_t room[PZ_RESOURCES];
  for (int r = 0; r < PZ_RESOURCES; r++) room[r] = g->p->capacity[r] - m->use[r];
  for (uint32_t k = 0; k < g->p->n; k++) {
    bool apart = k == i || pz_bits_has(&g->before[i], k) || pz_bits_has(&g->after[i], k);
    if (!apart && g->c->least_s[k] > 0 && pz_mode_fits(room, &least[k])) return false;
  }
  return true;
}

/* Which modes leave no room, and whether the fastest mostly are such. */
static void look_at_room(struct pz_rest *x, struct pz_mode *least) {
  const struct pz_growth *g = x->g;
  uint32_t n = 0, alone = 0;
  for (uint32_t i = 0; i < g->p->n; i++) least[i] = least_use(g->c, i);
  for (uint32_t i = 0; i < g->p->n; i++) {
    if (g->c->least_s[i] <= 0) continue;
    for (uint32_t m = 0; m < g->p->tasks[i].n_modes; m++)
      x->alone[g->c->mode_at[i] + m] = leaves_no_room(g, least, i, &g->p->tasks[i].modes[m]);
    n++;
    alone += x->alone[g->c->mode_at[i] + pz_partial_fastest(g, i)];
  }
  x->often = 2 * alone > n && !g->instants;
}

bool pz_rest_init(struct pz_rest *x, struct pz_growth *g, struct pz_arena *arena) {
  uint32_t n = g->p->n;
  struct pz_mode *least = pz_arena_alloc(arena, n, sizeof *least);
  *x = (struct pz_rest){.g = g, .node_bytes = pz_partial_bytes(n)};
  x->alone = pz_arena_alloc(arena, g->c->n_modes, sizeof *x->alone);
  if (!least || !x->alone) return false;
  look_at_room(x, least);
  if (!x->often) return true;
  x->nodes = pz_arena_alloc(arena, (size_t)n + 1, x->node_bytes);
  x->picked = pz_arena_alloc(arena, n, sizeof *x->picked);
  x->needs = pz_arena_alloc(arena, (size_t)n + 1, sizeof *x->needs);
  x->apart = pz_arena_alloc(arena, (size_t)n + 1, sizeof *x->apart);
  x->room = pz_arena_alloc(arena, (size_t)n + 1, sizeof *x->room);
  pz_vec_init(&x->past, arena, sizeof(struct past));
  return x->nodes && x->picked && x->needs && x->apart && x->room;
}
