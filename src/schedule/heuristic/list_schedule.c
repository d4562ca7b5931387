/* Parallel list scheduling in order of time (Graham 1969), for problems of any size: whenever a
 * task ends, ready tasks start in order of decreasing tail, as far as the residual capacity
 * allows. */
#include "core/vec.h"
#include "schedule/heuristic/local_search.h"

/* Ready tasks tried before time advances: the others would mostly not fit. */
enum { LOOKAHEAD = 8 };

struct keyed {
  double key;
  uint32_t task;
};

static bool comes_first(const void *a, const void *b) {
  const struct keyed *x = a, *y = b;
  return x->key > y->key || (x->key >= y->key && x->task < y->task);
}

struct list_scheduler {
  struct pz_context *c;
  const uint32_t *mode;
  struct pz_slot *slots;
  uint32_t *waits;
  struct pz_vec ready, running; /* heaps of struct keyed: by way to the end, by earliest end */
  int32_t free[PZ_RESOURCES];
  bool failed; /* out of memory */
};

static void take(struct list_scheduler *g, const struct pz_mode *m, int32_t sign) {
  for (int r = 0; r < PZ_RESOURCES; r++) g->free[r] += sign * m->use[r];
}

static const struct pz_mode *mode_of(const struct list_scheduler *g, uint32_t i) {
  return &g->c->p->tasks[i].modes[g->mode[i]];
}

static void push(struct list_scheduler *g, struct pz_vec *heap, double key, uint32_t task) {
  g->failed |= !pz_heap_push(heap, comes_first, &(struct keyed){key, task});
}

static void make_ready(struct list_scheduler *g, uint32_t i) {
  push(g, &g->ready, g->c->tail_s[i] + g->c->least_s[i], i);
}

static void start_ready(struct list_scheduler *g, double t) {
  struct keyed held[LOOKAHEAD];
  int n = 0;
  while (g->ready.n && n < LOOKAHEAD) {
    struct keyed k;
    pz_heap_pop(&g->ready, comes_first, &k);
    const struct pz_mode *m = mode_of(g, k.task);
    if (!pz_mode_fits(g->free, m)) {
      held[n++] = k;
      continue;
    }
    take(g, m, -1);
    g->slots[k.task] = (struct pz_slot){t, t + m->s, g->mode[k.task]};
    push(g, &g->running, -(t + m->s), k.task);
  }
  while (n > 0) {
    n--;
    push(g, &g->ready, held[n].key, held[n].task);
  }
}

/* Everything that ends next. */
static double finish(struct list_scheduler *g) {
  const struct keyed *first = g->running.items;
  double t = -first->key;
  while (g->running.n && -first->key <= t) {
    struct keyed k;
    pz_heap_pop(&g->running, comes_first, &k);
    const struct pz_task *task = &g->c->p->tasks[k.task];
    take(g, mode_of(g, k.task), 1);
    for (uint32_t i = 0; i < task->n_succ; i++)
      if (--g->waits[task->succ[i]] == 0) make_ready(g, task->succ[i]);
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
  } while (!g->failed && (g->running.n || g->ready.n));
  if (g->failed) return;
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
  pz_vec_init(&g.ready, &arena, sizeof(struct keyed));
  pz_vec_init(&g.running, &arena, sizeof(struct keyed));
  g.failed = !g.slots || !g.waits;
  if (!g.failed && n) run(&g);
  pz_arena_release(&arena);
  return !g.failed ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the schedule");
}
