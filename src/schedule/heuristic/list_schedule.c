/* Parallel list scheduling in order of time (Graham 1969), for problems of any size: whenever a task ends, ready tasks
 * start in the order of descending tails, as far as the residual capacity allows. */
#include "core/vec.h"
#include "schedule/heuristic/local_search.h"

/* Ready tasks that are tried before time advances; more of them would mostly not fit. */
enum { LOOKAHEAD = 8 };

struct keyed_task {
  double key;
  uint32_t task;
};

static bool comes_first(const void *a, const void *b) {
  const struct keyed_task *x = a, *y = b;
  return x->key > y->key || (x->key >= y->key && x->task < y->task);
}

struct list_scheduler {
  struct pz_context *c;
  const uint32_t *mode;
  struct pz_slot *slots;
  uint32_t *waits;       /* by task: predecessors that have not ended */
  struct pz_vec ready;   /* heap of struct keyed_task by longest path to the end */
  struct pz_vec running; /* heap of struct keyed_task by earliest end */
  int32_t free[PZ_RESOURCES];
};

static const struct pz_mode *chosen_mode(const struct list_scheduler *s, uint32_t i) {
  return &s->c->p->tasks[i].modes[s->mode[i]];
}

static void add_ready(struct pz_call *call, struct list_scheduler *s, uint32_t i) {
  struct keyed_task k = {s->c->tail_s[i] + s->c->least_s[i], i};
  pz_heap_add(call, &s->ready, comes_first, &k);
}

/* Starts ready tasks at t that fit. */
static void start_ready(struct pz_call *call, struct list_scheduler *s, double t) {
  struct keyed_task unfit[LOOKAHEAD];
  int n = 0;
  while (s->ready.n && n < LOOKAHEAD) {
    struct keyed_task k;
    pz_heap_pop(&s->ready, comes_first, &k);
    const struct pz_mode *m = chosen_mode(s, k.task);
    if (!pz_mode_fits(s->free, m)) {
      unfit[n++] = k;
      continue;
    }
    for (int r = 0; r < PZ_RESOURCES; r++) s->free[r] -= m->use[r];
    s->slots[k.task] = (struct pz_slot){t, t + m->s, s->mode[k.task]};
    struct keyed_task end = {-(t + m->s), k.task};
    pz_heap_add(call, &s->running, comes_first, &end);
  }
  while (n > 0) {
    n--;
    pz_heap_add(call, &s->ready, comes_first, &unfit[n]);
  }
}

/* Ends all tasks that end next.  Returns their end. */
static double end_next(struct pz_call *call, struct list_scheduler *s) {
  const struct keyed_task *first = s->running.items;
  double t = -first->key;
  while (s->running.n && -first->key <= t) {
    struct keyed_task k;
    pz_heap_pop(&s->running, comes_first, &k);
    const struct pz_task *task = &s->c->p->tasks[k.task];
    const struct pz_mode *m = chosen_mode(s, k.task);
    for (int r = 0; r < PZ_RESOURCES; r++) s->free[r] += m->use[r];
    for (uint32_t i = 0; i < task->n_succ; i++) {
      uint32_t next = task->succ[i];
      s->waits[next]--;
      if (!s->waits[next]) add_ready(call, s, next);
    }
  }
  return t;
}

void pz_list_schedule(struct pz_call *call, struct pz_context *c, const uint32_t *mode) {
  const struct pz_problem *p = c->p;
  struct pz_call scratch = pz_scratch(call);
  struct list_scheduler s = {.c = c, .mode = mode};
  double t = 0;
  s.slots = pz_alloc(&scratch, p->n, sizeof *s.slots);
  s.waits = pz_alloc(&scratch, p->n, sizeof *s.waits);
  pz_vec_init(&s.ready, scratch.arena, sizeof(struct keyed_task));
  pz_vec_init(&s.running, scratch.arena, sizeof(struct keyed_task));
  for (int r = 0; r < PZ_RESOURCES; r++) s.free[r] = p->capacity[r];
  for (uint32_t i = 0; i < p->n; i++) {
    s.waits[i] = p->tasks[i].n_pred;
    if (!s.waits[i]) add_ready(&scratch, &s, i);
  }
  while (s.ready.n || s.running.n) {
    start_ready(&scratch, &s, t);
    if (s.running.n) t = end_next(&scratch, &s);
  }
  if (p->n) {
    c->steps += p->n;
    pz_update_incumbent(c, s.slots, t, PZ_T_NONE);
  }
  pz_scratch_end(&scratch);
}
