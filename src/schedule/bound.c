/* Lower bounds at the root: the longest path; and for every mix of resources and every tail, the
 * work of all tasks that still have that much behind them (or before them) must be done before it.
 */
#include <math.h>
#include <stdlib.h>

#include "schedule/context.h"

struct keyed {
  double key;
  uint32_t task;
};

static int descending(const void *a, const void *b) {
  const struct keyed *x = a, *y = b;
  return x->key < y->key ? 1 : x->key > y->key ? -1 : x->task < y->task ? -1 : 1;
}

/* Work of the tasks with key at least k, plus k: tails at the end, or heads at the beginning. */
static double work_bound(const struct pz_context *c, struct keyed *list, const double *key) {
  double sum[PZ_MIXES] = {0}, bound = 0;
  for (uint32_t i = 0; i < c->p->n; i++) list[i] = (struct keyed){key[i], i};
  qsort(list, c->p->n, sizeof *list, descending);
  for (uint32_t i = 0; i < c->p->n; i++)
    for (int k = 0; k < PZ_MIXES; k++) {
      sum[k] += c->work[list[i].task][k];
      bound = fmax(bound, sum[k] + list[i].key);
    }
  return bound;
}

void pz_bound_root(struct pz_context *c) {
  struct keyed *list = pz_arena_alloc(c->arena, c->p->n, sizeof *list);
  for (uint32_t i = 0; i < c->p->n; i++)
    c->bound_s = fmax(c->bound_s, c->head_s[i] + c->least_s[i] + c->tail_s[i]);
  if (!list) return; /* the path alone is a bound too */
  c->bound_s = fmax(c->bound_s, work_bound(c, list, c->tail_s));
  c->bound_s = fmax(c->bound_s, work_bound(c, list, c->head_s));
}
