/* Parallel list scheduling in order of time (Graham 1969), for problems of any size: whenever a
 * task ends, ready tasks start in order of decreasing tail, as far as the residual capacity
 * allows. */
#include "schedule/heuristic/list_schedule.h"

#include <math.h>

/* Ready tasks tried before time advances: the others would mostly not fit. */
enum { LOOKAHEAD = 8 };

struct keyed {
  double key;
  uint32_t task;
};

/* The largest key on top. */
struct heap {
  struct keyed *items;
  uint32_t n;
};

static bool above(struct keyed a, struct keyed b) {
  return a.key > b.key || (a.key >= b.key && a.task < b.task);
}

static void push(struct heap *h, double key, uint32_t task) {
  struct keyed item = {key, task};
  uint32_t i = h->n++;
  for (; i > 0 && above(item, h->items[(i - 1) / 2]); i = (i - 1) / 2)
    h->items[i] = h->items[(i - 1) / 2];
  h->items[i] = item;
}

static struct keyed pop(struct heap *h) {
  struct keyed top = h->items[0], last = h->items[--h->n];
  uint32_t i = 0;
  for (uint32_t k = 1; k < h->n; k = 2 * i + 1) {
    if (k + 1 < h->n && above(h->items[k + 1], h->items[k])) k++;
    if (!above(h->items[k], last)) break;
    h->items[i] = h->items[k];
    i = k;
  }
  h->items[i] = last;
  return top;
}

struct list_scheduler {
  struct pz_context *c;
  const uint32_t *mode;
  struct pz_slot *slots;
  uint32_t *waits;
  struct heap ready, running; /* by way to the end, by earliest end */
  int32_t free[PZ_RESOURCES];
};

static void take(struct list_scheduler *g, const struct pz_mode *m, int32_t sign) {
  for (int r = 0; r < PZ_RESOURCES; r++) g->free[r] += sign * m->use[r];
}

static const struct pz_mode *mode_of(const struct list_scheduler *g, uint32_t i) {
  return &g->c->p->tasks[i].modes[g->mode[i]];
}

static void make_ready(struct list_scheduler *g, uint32_t i) {
  push(&g->ready, g->c->tail_s[i] + g->c->least_s[i], i);
}

static void start_ready(struct list_scheduler *g, double t) {
  struct keyed held[LOOKAHEAD];
  int n = 0;
  while (g->ready.n && n < LOOKAHEAD) {
    struct keyed k = pop(&g->ready);
    const struct pz_mode *m = mode_of(g, k.task);
    if (!pz_mode_fits(g->free, m)) {
      held[n++] = k;
      continue;
    }
    take(g, m, -1);
    g->slots[k.task] = (struct pz_slot){t, t + m->s, g->mode[k.task]};
    push(&g->running, -(t + m->s), k.task);
  }
  while (n > 0) {
    n--;
    push(&g->ready, held[n].key, held[n].task);
  }
}

/* Everything that ends next. */
static double finish(struct list_scheduler *g) {
  double t = -g->running.items[0].key;
  while (g->running.n && -g->running.items[0].key <= t) {
    uint32_t i = pop(&g->running).task;
    const struct pz_task *task = &g->c->p->tasks[i];
    take(g, mode_of(g, i), 1);
    for (uint32_t k = 0; k < task->n_succ; k++)
      if (--g->waits[task->succ[k]] == 0) make_ready(g, task->succ[k]);
  }
  return t;
}

static void run(struct list_scheduler *g) {
  const struct pz_problem *p = g->c->p;
  double t = 0;
  for (int r = 0; r < PZ_RESOURCES; r++) g->free[r] = p->capacity[r];
  for (uint32_t i = 0; i < p->n; i++) {
    g->waits[i] = p->tasks[i].n_pred;
    if (!g->waits[i]) make_ready(g, i);
  }
  do {
    start_ready(g, t);
    if (g->running.n) t = finish(g);
  } while (g->running.n || g->ready.n);
  g->c->steps += p->n;
  pz_update_incumbent(g->c, g->slots, t, PZ_T_NONE);
}

enum pz_status pz_list_schedule(struct pz_context *c, const uint32_t *mode, struct pz_error *err) {
  struct pz_arena arena;
  uint32_t n = c->p->n;
  pz_arena_init(&arena, c->arena->mem);
  struct list_scheduler g = {.c = c, .mode = mode};
  g.slots = pz_arena_alloc(&arena, n, sizeof *g.slots);
  g.waits = pz_arena_alloc(&arena, n, sizeof *g.waits);
  g.ready.items = pz_arena_alloc(&arena, n, sizeof *g.ready.items);
  g.running.items = pz_arena_alloc(&arena, n, sizeof *g.running.items);
  bool ok = g.slots && g.waits && g.ready.items && g.running.items;
  if (ok && n) run(&g);
  pz_arena_release(&arena);
  return ok ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
}
