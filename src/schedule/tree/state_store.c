#include "schedule/tree/state_store.h"

#include <float.h>
#include <string.h>

#include "core/map.h"

enum {
  MOST_LISTS = 1 << 18,
  MOST_STATES = 1 << 20,
  MOST_LOOKS = 16 /* tuned: states compared with a new one, newest first */
};

/* ---- a state --------------------------------------------------------------------------------- */

size_t pz_state_bytes(uint32_t n_running) {
  return sizeof(struct pz_state) + n_running * sizeof(struct pz_running);
}

void pz_state_fill(struct pz_state *s, const struct pz_state *parent, const struct pz_partial *n) {
  *s = (struct pz_state){.parent = parent,
                         .t = n->t,
                         .next = DBL_MAX,
                         .started = n->started,
                         .ready = n->ready,
                         .left_s = n->left_s,
                         .alone_s = n->alone_s,
                         .n_running = n->n_running};
  memcpy(s->run, n->run, n->n_running * sizeof *s->run);
  for (uint32_t i = 0; i < n->n_running; i++) {
    s->next = pz_fmin(s->next, n->run[i].end);
    s->last = pz_fmax(s->last, n->run[i].end);
  }
}

/* ---- dominance ------------------------------------------------------------------------------- */

/* Nothing more starts before the next end: when they began does not matter.  (What runs in a beyond
 * that end runs in b too, no less wide, and so no slower, for of two modes neither is worse in
 * everything: it began in b no earlier.) */
static bool dominates(const struct pz_branching *g, const struct pz_state *a,
                      const struct pz_state *b) {
  return a->last <= b->last &&
         pz_partial_dominated(g, &(struct pz_going){b->next, b->run, b->n_running},
                              &(struct pz_going){0, a->run, a->n_running});
}

static struct pz_state **list_of(const struct pz_state_store *x, const struct pz_state *s) {
  return &x->list[pz_hash(&s->started, (size_t)x->g->words * 8) % x->n_lists];
}

bool pz_state_store_dominates(struct pz_state_store *x) {
  const struct pz_state *n = x->candidate;
  uint32_t looks = 0;
  bool better = false;
  if (!x->g->c->o->state_dominance) return false;
  for (struct pz_state **at = list_of(x, n), *s = *at; s && !better && looks < MOST_LOOKS;
       s = *at, looks++) {
    bool same = pz_branching_same(x->g, &s->started, &n->started);
    better = same && dominates(x->g, s, n);
    s->dominated = same && !better && dominates(x->g, n, s);
    if (s->dominated)
      *at = s->next_same;
    else
      at = &s->next_same;
  }
  x->g->c->steps += looks / PZ_LOOKS_PER_STEP;
  x->g->c->count[PZ_T_state_dominance].calls++;
  x->g->c->count[PZ_T_state_dominance].prunes += better;
  return better;
}

/* ---- the best -------------------------------------------------------------------------------- */

bool pz_state_store_add(struct pz_state_store *x) {
  size_t bytes = pz_state_bytes(x->candidate->n_running);
  struct pz_state *s = x->n < MOST_STATES ? pz_arena_alloc(x->arena, 1, bytes) : NULL;
  if (!s) return false;
  memcpy(s, x->candidate, bytes);
  double at = (s->bound - x->low_s) / (x->high_s - x->low_s) * PZ_STATE_BUCKETS;
  int b = at < 0 ? 0 : at < PZ_STATE_BUCKETS - 1 ? (int)at : PZ_STATE_BUCKETS - 1;
  uint32_t started = pz_bits_count(&s->started);
  struct pz_state **bucket = &x->bucket[(size_t)started * PZ_STATE_BUCKETS + (size_t)b];
  struct pz_state **list = list_of(x, s);
  if (b < x->lowest[started]) x->lowest[started] = b;
  s->below = *bucket;
  s->next_same = *list;
  *bucket = *list = s;
  x->n++;
  return true;
}

struct pz_state *pz_state_store_take(struct pz_state_store *x, uint32_t started, int most) {
  const struct pz_context *c = x->g->c;
  struct pz_state **bucket = &x->bucket[(size_t)started * PZ_STATE_BUCKETS], *s;
  for (int *at = &x->lowest[started]; *at <= most; ++*at)
    while ((s = bucket[*at])) {
      bucket[*at] = s->below;
      if (!s->dominated && pz_better(c, s->bound, c->best_s)) return s;
    }
  return NULL;
}

double pz_state_store_bound(const struct pz_state_store *x, int bucket) {
  return x->low_s + (x->high_s - x->low_s) * bucket / PZ_STATE_BUCKETS;
}

bool pz_state_store_init(struct pz_state_store *x, const struct pz_branching *g, int64_t steps,
                         struct pz_arena *arena) {
  uint32_t levels = g->p->n + 1;
  *x = (struct pz_state_store){
      .g = g, .arena = arena, .n_lists = 64, .low_s = g->c->bound_s, .high_s = g->c->best_s};
  while (x->n_lists < MOST_LISTS && x->n_lists < steps / 8) x->n_lists *= 2;
  x->candidate = pz_arena_alloc(arena, 1, pz_state_bytes(g->p->n));
  x->list = pz_arena_alloc(arena, x->n_lists, sizeof(struct pz_state *));
  x->bucket = pz_arena_alloc(arena, (size_t)levels * PZ_STATE_BUCKETS, sizeof(struct pz_state *));
  x->lowest = pz_arena_alloc(arena, levels, sizeof *x->lowest);
  for (uint32_t i = 0; x->lowest && i < levels; i++) x->lowest[i] = PZ_STATE_BUCKETS;
  return x->candidate && x->list && x->bucket && x->lowest;
}
