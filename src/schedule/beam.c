/* Beam search: partial schedules grow task by task, and of those with as many tasks the most
 * promising are kept.  What promises is the priced bound (price.h): time in which less runs than
 * could is seen as lost at once. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "schedule/partial.h"

struct entry {
  struct pz_partial *node;
  struct pz_slot *slots;
  double score;
};

struct beam {
  struct pz_growth g;
  struct entry *now, *next; /* `next` is a heap, the worst first */
  uint32_t n_now, n_next, width;
  struct pz_partial *at, *child; /* an entry as time goes on, and it grown by one task */
};

static struct pz_partial *new_partial(struct pz_arena *arena, uint32_t n) {
  return pz_arena_alloc(arena, 1, pz_partial_bytes(n));
}

static bool prepare(struct beam *b, struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n;
  if (!pz_growth_init(&b->g, c, arena)) return false;
  b->at = new_partial(arena, n);
  b->child = new_partial(arena, n);
  b->now = pz_arena_alloc(arena, b->width, sizeof *b->now);
  b->next = pz_arena_alloc(arena, b->width, sizeof *b->next);
  if (!b->at || !b->child || !b->now || !b->next) return false;
  for (uint32_t i = 0; i < 2 * b->width; i++) {
    struct entry *e = i < b->width ? &b->now[i] : &b->next[i - b->width];
    e->node = new_partial(arena, n);
    e->slots = pz_arena_alloc(arena, n, sizeof *e->slots);
    if (!e->node || !e->slots) return false;
  }
  return true;
}

static void swap(struct entry *a, struct entry *b) {
  struct entry kept = *a;
  *a = *b;
  *b = kept;
}

static void sink(struct beam *b) {
  for (uint32_t i = 0;;) {
    uint32_t worst = i;
    for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < b->n_next; k++)
      if (b->next[k].score > b->next[worst].score) worst = k;
    if (worst == i) return;
    swap(&b->next[i], &b->next[worst]);
    i = worst;
  }
}

static void rise(struct beam *b, uint32_t i) {
  for (; i > 0 && b->next[i].score > b->next[(i - 1) / 2].score; i = (i - 1) / 2)
    swap(&b->next[i], &b->next[(i - 1) / 2]);
}

/* The same tasks at the same time, started in another order. */
static bool there(const struct beam *b, double score) {
  for (uint32_t i = 0; i < b->n_next; i++) {
    const struct pz_partial *n = b->next[i].node;
    if (fabs(b->next[i].score - score) < 1e-12 * score &&
        memcmp(&n->started, &b->child->started, sizeof n->started) == 0 &&
        pz_partial_dominated(&b->g, b->child, n->t, n->run, n->n_running))
      return true;
  }
  return false;
}

static void keep(struct beam *b, double score) {
  if (there(b, score)) return;
  bool full = b->n_next == b->width;
  struct entry *e = full ? &b->next[0] : &b->next[b->n_next++];
  pz_partial_copy(e->node, b->child);
  memcpy(e->slots, b->g.slots, b->g.p->n * sizeof *e->slots);
  e->score = score;
  if (full)
    sink(b);
  else
    rise(b, b->n_next - 1);
}

static void look_at_child(struct beam *b) {
  struct pz_context *c = b->g.c;
  c->steps++;
  if (pz_partial_complete(&b->g, b->child)) {
    pz_context_offer(c, b->g.slots, pz_partial_end(b->child));
    return;
  }
  double score = pz_partial_price_bound(&b->g, b->child);
  if (!pz_better(c, score, c->best_s)) return;
  double path = pz_partial_path_bound(&b->g, b->child);
  score = fmax(score, path) + 1e-3 * path; /* paths decide between equals */
  if (b->n_next < b->width || score < b->next[0].score) keep(b, score);
}

/* Every start now, and after every wait. */
static void grow(struct beam *b, const struct entry *e) {
  const struct pz_context *c = b->g.c;
  pz_partial_copy(b->at, e->node);
  memcpy(b->g.slots, e->slots, c->p->n * sizeof *e->slots);
  for (;;) {
    for (uint32_t i = 0; i < c->p->n; i++) {
      if (!pz_partial_eligible(&b->g, b->at, i)) continue;
      const struct pz_task *t = &c->p->tasks[i];
      for (uint32_t m = 0; m < t->n_modes; m++) {
        if (c->dropped[c->mode_at[i] + m] || !pz_partial_fits(b->at->free, &t->modes[m])) continue;
        pz_partial_start(&b->g, b->at, i, m, b->child);
        look_at_child(b);
      }
    }
    if (b->at->n_running == 0) return;
    pz_partial_advance(&b->g, b->at, b->child);
    pz_partial_copy(b->at, b->child);
    if (pz_partial_complete(&b->g, b->at))
      pz_context_offer(b->g.c, b->g.slots, pz_partial_end(b->at));
  }
}

static void run(struct beam *b, int64_t until) {
  struct pz_context *c = b->g.c;
  pz_partial_begin(&b->g, NULL, b->now[0].node);
  memcpy(b->now[0].slots, b->g.slots, c->p->n * sizeof *b->g.slots);
  for (b->n_now = 1; b->n_now > 0 && pz_open(c) && c->steps < until;) {
    b->n_next = 0;
    for (uint32_t i = 0; i < b->n_now; i++) grow(b, &b->now[i]);
    struct entry *list = b->now;
    b->now = b->next;
    b->next = list;
    b->n_now = b->n_next;
  }
}

enum pz_status pz_beam_search(struct pz_context *c, uint32_t width, int64_t steps,
                              struct pz_error *err) {
  struct pz_arena arena;
  if (c->p->n == 0 || c->p->n > PZ_EXACT_MOST_TASKS) return PZ_OK;
  pz_arena_init(&arena, c->arena->mem);
  struct beam b = {.width = width};
  bool ok = prepare(&b, c, &arena);
  if (ok) run(&b, c->steps + steps);
  pz_arena_release(&arena);
  return ok ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule search");
}
