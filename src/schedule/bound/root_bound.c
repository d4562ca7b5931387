/* Lower bounds at the root: the longest path, and energetic reasoning (Baptiste, Le Pape and Nuijten 1999).  For every
 * combination of resources and every tail length, the work of all tasks with at least that tail (or head) must fit before
 * it.  A mode whose bound reaches the incumbent is eliminated (Sprecher, Hartmann and Drexl 1997), which improves the
 * bounds; pz_bound_tighten() repeats both until no mode is eliminated. */
#include "schedule/bound/root_bound.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "schedule/model/bits.h"

/* ---- heads and tails ------------------------------------------------------------------------- */

/* Head and tail tightening by energetic reasoning (Carlier and Latapie 1991; Baptiste, Le Pape and Nuijten 1999).  All
 * predecessors of a task must be done before it starts.  This bounds its head along the longest path, and because
 * predecessors that have some head, and some path from their end to the task, must fit in between; their work is measured
 * by combinations of resources and by dual values.  The same holds in reverse for tails, and for all tasks between start
 * and end of the schedule.  Not tried for more than MAX_HEAD_TAIL_TASKS tasks. */
enum { MAX_HEAD_TAIL_TASKS = 128 };

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

static bool begin_head_tail(struct head_tail *x, struct pz_context *c, struct pz_arena *arena) {
  uint32_t n = c->p->n;
  *x = (struct head_tail){.c = c, .n = n};
  if (!PZ_ARRAY(arena, x->work, n) || !PZ_ARRAY(arena, x->path, (size_t)n * n) ||
      !PZ_ARRAY(arena, x->before, n) || !PZ_ARRAY(arena, x->after, n) ||
      !PZ_ARRAY(arena, x->items, n))
    return false;
  pz_bits_order(c->p, x->before, x->after);
  return true;
}

/* Sets the energy of every task by each surrogate resource that some task uses, and by dual values. */
static void measure_work(struct head_tail *x) {
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

/* Inserts an item; items are sorted by descending tail. */
static void insert_item(struct head_tail *x, double head, double tail, uint32_t task) {
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

/* Raises most[] to a head, plus a tail, plus the work of all items with at least that head and that tail, for every
 * tail. */
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

/* A lower bound of the time that the items take with their heads and tails. */
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
      if (pz_bits_has(&x->before[j], i)) insert_item(x, c->head_s[i], x->path[i * x->n + j], i);
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
        insert_item(x, x->path[j * x->n + i], c->tail_s[i], i);
    c->tail_s[j] = pz_fmax(c->tail_s[j], energy_bound(x));
  }
}

/* Raises heads and tails, and returns a lower bound of the makespan.  If some tasks are left out, raises only tails and
 * returns 0.  Does nothing if there are too many tasks or no memory. */
static double tighten_heads_and_tails(struct pz_context *c, const bool *without) {
  struct pz_arena arena;
  struct head_tail x;
  double bound = 0;
  pz_arena_init(&arena, c->arena->mem);
  if (c->p->n <= MAX_HEAD_TAIL_TASKS && begin_head_tail(&x, c, &arena)) {
    x.without = without;
    measure_work(&x);
    longest_paths(c, x.before, x.path);
    if (!without) tighten_heads(&x);
    tighten_tails(&x);
    x.n_items = 0;
    for (uint32_t i = 0; i < x.n && !without; i++) insert_item(&x, c->head_s[i], c->tail_s[i], i);
    if (!without) bound = energy_bound(&x);
  }
  pz_arena_release(&arena);
  return bound;
}

/* ---- at the root ----------------------------------------------------------------------------- */

static void path_tails(struct pz_context *c, const bool *without) {
  memset(c->tail_s, 0, c->p->n * sizeof *c->tail_s);
  for (uint32_t i = c->p->n; i-- > 0;)
    for (uint32_t k = 0; k < c->p->tasks[i].n_succ; k++) {
      uint32_t s = c->p->tasks[i].succ[k];
      if (!without || !without[s])
        c->tail_s[i] = pz_fmax(c->tail_s[i], c->tail_s[s] + c->least_s[s]);
    }
}

void pz_bound_tails(struct pz_context *c, const bool *without) {
  c->derived = false;
  path_tails(c, without);
  if (c->head_tail && c->o->head_tail_tightening) tighten_heads_and_tails(c, without);
}

/* Sets the least time and work over the modes that are left, and heads and tails by paths.  Returns false if a task has no
 * mode left. */
static bool derive_paths_and_work(struct pz_context *c) {
  const struct pz_problem *p = c->p;
  memset(c->head_s, 0, p->n * sizeof *c->head_s);
  for (uint32_t i = 0; i < p->n; i++) {
    const struct pz_task *t = &p->tasks[i];
    c->least_s[i] = DBL_MAX;
    for (int k = 0; k < PZ_MIXES; k++) c->work[i][k] = DBL_MAX;
    for (uint32_t m = 0; m < t->n_modes; m++) {
      if (c->eliminated[c->mode_at[i] + m]) continue;
      c->least_s[i] = pz_fmin(c->least_s[i], t->modes[m].s);
      for (int k = 0; k < PZ_MIXES; k++)
        c->work[i][k] = pz_fmin(c->work[i][k], pz_mode_share(c, &t->modes[m], k) * t->modes[m].s);
    }
    if (c->least_s[i] == DBL_MAX) return false;
    for (uint32_t k = 0; k < t->n_pred; k++)
      c->head_s[i] = pz_fmax(c->head_s[i], c->head_s[t->pred[k]] + c->least_s[t->pred[k]]);
  }
  path_tails(c, NULL);
  return true;
}

struct keyed {
  double key;
  uint32_t task;
};

static int descending(const void *a, const void *b) {
  const struct keyed *x = a, *y = b;
  return x->key < y->key ? 1 : x->key > y->key ? -1 : x->task < y->task ? -1 : 1;
}

/* A lower bound: for every key (head or tail) k, k plus the work of the tasks with at least that key. */
static double work_bound(const struct pz_context *c, struct keyed *list, const double *key) {
  double sum[PZ_MIXES] = {0}, bound = 0;
  for (uint32_t i = 0; i < c->p->n; i++) list[i] = (struct keyed){key[i], i};
  qsort(list, c->p->n, sizeof *list, descending);
  for (uint32_t i = 0; i < c->p->n; i++)
    for (int k = 0; k < PZ_MIXES; k++) {
      sum[k] += c->work[list[i].task][k];
      bound = pz_fmax(bound, sum[k] + list[i].key);
    }
  return bound;
}

static void bound_root(struct pz_context *c, struct keyed *list) {
  double bound = 0;
  for (uint32_t i = 0; i < c->p->n; i++)
    bound = pz_fmax(bound, c->head_s[i] + c->least_s[i] + c->tail_s[i]);
  pz_update_bound(c, bound, PZ_T_NONE);
  if (!list || !c->o->energetic_bound) return; /* without memory, the longest path is the bound */
  bound = work_bound(c, list, c->tail_s);
  bound = pz_fmax(bound, work_bound(c, list, c->head_s));
  c->count[PZ_T_energetic_bound].calls++;
  pz_update_bound(c, bound, PZ_T_energetic_bound);
}

/* A lower bound of schedules that have this mode. */
static double mode_bound(const struct pz_context *c, uint32_t i, uint32_t m,
                         const double total[PZ_MIXES]) {
  const struct pz_mode *mode = &c->p->tasks[i].modes[m];
  double bound = c->head_s[i] + mode->s + c->tail_s[i];
  for (int k = 0; k < PZ_MIXES && c->o->energetic_bound; k++)
    bound = pz_fmax(bound, total[k] - c->work[i][k] + pz_mode_share(c, mode, k) * mode->s);
  const struct pz_duals *f = &c->duals;
  return pz_fmax(bound, f->sum - f->least[i] + f->rate[c->mode_at[i] + m] * mode->s);
}

/* Eliminates modes whose bound reaches the incumbent.  Returns whether there were any. */
static bool eliminate_modes(struct pz_context *c) {
  double total[PZ_MIXES] = {0};
  bool any = false;
  c->count[PZ_T_mode_elimination].calls++;
  for (uint32_t i = 0; i < c->p->n; i++)
    for (int k = 0; k < PZ_MIXES; k++) total[k] += c->work[i][k];
  for (uint32_t i = 0; i < c->p->n; i++)
    for (uint32_t m = 0; m < c->p->tasks[i].n_modes; m++) {
      bool *eliminated = &c->eliminated[c->mode_at[i] + m];
      if (*eliminated || pz_better(c, mode_bound(c, i, m, total), c->best_s)) continue;
      *eliminated = any = true;
      c->derived = false;
      c->count[PZ_T_mode_elimination].prunes++;
    }
  return any;
}

double pz_duals_sum(const struct pz_context *c, const double *rate, double *least) {
  double sum = 0;
  for (uint32_t i = 0; i < c->p->n; i++) {
    const struct pz_task *t = &c->p->tasks[i];
    double value = DBL_MAX;
    for (uint32_t m = 0; m < t->n_modes; m++)
      if (!c->eliminated[c->mode_at[i] + m])
        value = pz_fmin(value, rate[c->mode_at[i] + m] * t->modes[m].s);
    if (least) least[i] = value;
    sum += value;
  }
  return sum;
}

/* Derives heads, tails and bounds again after modes were eliminated.  Returns false if a task has no mode left. */
static bool derive_bounds(struct pz_context *c, struct keyed *list) {
  if (c->derived) return true;
  if (!derive_paths_and_work(c)) return false;
  c->duals.sum = pz_duals_sum(c, c->duals.rate,
                              c->duals.least); /* modes of least value may have been eliminated */
  pz_update_bound(c, c->duals.sum, PZ_T_column_generation);
  if (c->head_tail && c->o->head_tail_tightening) {
    c->count[PZ_T_head_tail_tightening].calls++;
    pz_update_bound(c, tighten_heads_and_tails(c, NULL), PZ_T_head_tail_tightening);
  }
  bound_root(c, list);
  c->derived = true;
  return true;
}

void pz_bound_tighten(struct pz_context *c) {
  struct keyed *list = pz_arena_alloc(c->arena, c->p->n, sizeof *list);
  for (bool again = true; again && (c->bound_s <= 0 || pz_open(c));) {
    if (!derive_bounds(c, list)) { /* no schedule is better than the incumbent */
      pz_update_bound(c, c->best_s, PZ_T_mode_elimination);
      return;
    }
    again = c->best_s < DBL_MAX && c->o->mode_elimination && eliminate_modes(c);
  }
}
