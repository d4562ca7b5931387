/* Heads and tails by energetic reasoning (Carlier and Latapie 1991; Baptiste, Le Pape and Nuijten
 * 1999).  All predecessors of a task must be done before it starts: along the longest path, and
 * because tasks that can start only after some time, and have some path before the task, must fit
 * in between; their work is measured by combinations of resources and by dual values.  The same in
 * reverse for tails, and for all tasks between start and end of the schedule. */
#include "schedule/bound/head_tail.h"

#include <string.h>

#include "schedule/model/bits.h"

struct item {
  double head, tail;
  const double *work; /* by measure */
};

struct head_tail {
  struct pz_context *c;
  uint32_t n;
  int n_measures;
  double (*work)[PZ_MEASURES]; /* by task */
  double *path;                /* from the end of i to the beginning of j, at i * n + j */
  struct pz_bits *before, *after;
  const bool *without; /* by task; NULL: with all */
  struct item *items;
  uint32_t n_items;
};

static bool prepare(struct head_tail *x, struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n;
  *x = (struct head_tail){.c = c, .n = n};
  x->work = pz_arena_alloc(arena, n, sizeof *x->work);
  x->path = pz_arena_alloc(arena, (size_t)n * n, sizeof *x->path);
  x->before = pz_arena_alloc(arena, n, sizeof *x->before);
  x->after = pz_arena_alloc(arena, n, sizeof *x->after);
  x->items = pz_arena_alloc(arena, n, sizeof *x->items);
  if (!x->work || !x->path || !x->before || !x->after || !x->items) return false;
  pz_bits_order(c->p, x->before, x->after);
  return true;
}

/* Energy by each surrogate resource that some task uses, and by dual values. */
static void measure(struct head_tail *x) {
  const struct pz_context *c = x->c;
  x->n_measures = 0;
  for (int k = 0; k < PZ_MIXES; k++) {
    double sum = 0;
    for (uint32_t i = 0; i < x->n; i++) sum += c->work[i][k];
    if (sum <= 0) continue;
    for (uint32_t i = 0; i < x->n; i++) x->work[i][x->n_measures] = c->work[i][k];
    x->n_measures++;
  }
  if (c->duals.sum <= 0) return;
  for (uint32_t i = 0; i < x->n; i++) x->work[i][x->n_measures] = c->duals.least[i];
  x->n_measures++;
}

static void longest_paths(const struct pz_context *c, const struct pz_bits *before, double *path) {
  uint32_t n = c->p->n;
  for (uint32_t j = 0; j < n; j++) {
    const struct pz_task *t = &c->p->tasks[j];
    for (uint32_t i = 0; i < n; i++) path[i * n + j] = 0;
    for (uint32_t k = 0; k < t->n_pred; k++) {
      uint32_t q = t->pred[k];
      for (uint32_t i = 0; i < q; i++)
        if (pz_bits_has(&before[q], i))
          path[i * n + j] = pz_fmax(path[i * n + j], path[i * n + q] + c->least_s[q]);
    }
  }
}

/* Kept by falling tail. */
static void put(struct head_tail *x, double head, double tail, uint32_t task) {
  uint32_t at = x->n_items++;
  for (; at > 0 && x->items[at - 1].tail < tail; at--) x->items[at] = x->items[at - 1];
  x->items[at] = (struct item){head, tail, x->work[task]};
}

static bool same_head_before(const struct head_tail *x, uint32_t h) {
  double head = x->items[h].head;
  for (uint32_t i = 0; i < h; i++)
    if (x->items[i].head >= head && x->items[i].head <= head) return true;
  return false;
}

/* Work of the items that have no smaller head, on top of it and of every tail. */
static void add_energy_from(const struct head_tail *x, double from, double most[PZ_MEASURES]) {
  double sum[PZ_MEASURES] = {0};
  for (uint32_t i = 0; i < x->n_items; i++) {
    const struct item *it = &x->items[i];
    if (it->head < from) continue;
    double rest = from + it->tail;
    for (int q = 0; q < x->n_measures; q += 4)
      for (int k = q; k < q + 4; k++) {
        sum[k] += it->work[k];
        most[k] = pz_fmax(most[k], sum[k] + rest);
      }
  }
}

/* The time that the items take with their heads and tails: for every head and tail, it and the work
 * of those that have no less. */
static double energy_bound(const struct head_tail *x) {
  double most[PZ_MEASURES] = {0}, bound = 0;
  for (uint32_t h = 0; h < x->n_items; h++)
    if (!same_head_before(x, h)) add_energy_from(x, x->items[h].head, most);
  for (int k = 0; k < PZ_MEASURES; k++) bound = pz_fmax(bound, most[k]);
  return bound;
}

static void tighten_heads(struct head_tail *x) {
  struct pz_context *c = x->c;
  for (uint32_t j = 0; j < x->n; j++) {
    const struct pz_task *t = &c->p->tasks[j];
    for (uint32_t k = 0; k < t->n_pred; k++)
      c->head_s[j] = pz_fmax(c->head_s[j], c->head_s[t->pred[k]] + c->least_s[t->pred[k]]);
    x->n_items = 0;
    for (uint32_t i = 0; i < j; i++)
      if (pz_bits_has(&x->before[j], i)) put(x, c->head_s[i], x->path[i * x->n + j], i);
    c->head_s[j] = pz_fmax(c->head_s[j], energy_bound(x));
  }
}

static void tighten_tails(struct head_tail *x) {
  struct pz_context *c = x->c;
  for (uint32_t j = x->n; j-- > 0;) {
    const struct pz_task *t = &c->p->tasks[j];
    for (uint32_t k = 0; k < t->n_succ; k++)
      if (!(x->without && x->without[t->succ[k]]))
        c->tail_s[j] = pz_fmax(c->tail_s[j], c->tail_s[t->succ[k]] + c->least_s[t->succ[k]]);
    x->n_items = 0;
    for (uint32_t i = j + 1; i < x->n; i++)
      if (pz_bits_has(&x->after[j], i) && !(x->without && x->without[i]))
        put(x, x->path[j * x->n + i], c->tail_s[i], i);
    c->tail_s[j] = pz_fmax(c->tail_s[j], energy_bound(x));
  }
}

double pz_head_tail_tighten(struct pz_context *c) {
  struct pz_arena arena;
  struct head_tail x;
  double bound = 0;
  pz_arena_init(&arena, c->arena->mem);
  if (c->p->n <= PZ_HEAD_TAIL_MOST_TASKS && prepare(&x, c, &arena)) {
    measure(&x);
    longest_paths(c, x.before, x.path);
    tighten_heads(&x);
    tighten_tails(&x);
    x.n_items = 0;
    for (uint32_t i = 0; i < x.n; i++) put(&x, c->head_s[i], c->tail_s[i], i);
    bound = energy_bound(&x);
  }
  pz_arena_release(&arena);
  return bound;
}

void pz_head_tail_tails(struct pz_context *c, const bool *without) {
  struct pz_arena arena;
  struct head_tail x;
  pz_arena_init(&arena, c->arena->mem);
  if (c->p->n <= PZ_HEAD_TAIL_MOST_TASKS && prepare(&x, c, &arena)) {
    x.without = without;
    measure(&x);
    longest_paths(c, x.before, x.path);
    tighten_tails(&x);
  }
  pz_arena_release(&arena);
}
