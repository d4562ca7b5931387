/* The chips of a space one by one. */
#include <stdlib.h>

#include "search/search.h"

int pz_point_order(const struct pz_space *s, const struct pz_point *a, const struct pz_point *b) {
  static const enum pz_axis behind[] = {
      PZ_AXIS_VECTOR_CORES,        PZ_AXIS_LANES,     PZ_AXIS_GLB_MIB,    PZ_AXIS_LOCAL_KIB,
      PZ_AXIS_GLB_BYTES_PER_CYCLE, PZ_AXIS_CLOCK_MHZ, PZ_AXIS_HBM_STACKS, PZ_AXIS_LINK_GB_PER_S};
  struct pz_kind x = pz_space_kind(s, a->kind), y = pz_space_kind(s, b->kind);
  const struct pz_array_shape *p = &s->array[x.array], *q = &s->array[y.array];
  int cores = a->at[PZ_AXIS_TENSOR_CORES] - b->at[PZ_AXIS_TENSOR_CORES];
  if (cores) return cores;
  if (p->rows != q->rows) return p->rows < q->rows ? -1 : 1;
  if (p->cols != q->cols) return p->cols < q->cols ? -1 : 1;
  for (size_t i = 0; i < sizeof behind / sizeof *behind; i++)
    if (a->at[behind[i]] != b->at[behind[i]]) return a->at[behind[i]] - b->at[behind[i]];
  return (a->kind > b->kind) - (a->kind < b->kind);
}

enum pz_status pz_search_nothing_fits(const struct pz_space *s, const struct pz_excess *x,
                                      struct pz_error *err) {
  char excess[400];
  return pz_fail(err, PZ_NO_ANSWER, "no chip of the space %s is within its limits: nearest are %s",
                 s->name, pz_excess_text(x, excess, sizeof excess));
}

/* qsort has no place for it. */
static _Thread_local const struct pz_space *sorted;

static int by_order(const void *a, const void *b) { return pz_point_order(sorted, a, b); }

enum pz_status pz_space_list(const struct pz_space *s, const struct pz_limits *l,
                             struct pz_arena *arena, struct pz_point **out, uint32_t *n,
                             struct pz_error *err) {
  int64_t all = pz_space_chips(s);
  if (all > PZ_SPACE_MOST_LISTED)
    return pz_fail(err, PZ_LIMIT,
                   "the space %s has %lld chips; accepted by the evaluator original, and with "
                   "--pareto: a space of at most %d; larger ones by --evaluator training alone",
                   s->name, (long long)all, PZ_SPACE_MOST_LISTED);
  struct pz_point *list = pz_arena_alloc(arena, (size_t)all, sizeof *list);
  struct pz_excess excess = {{0}, {0}};
  if (!list) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the space");
  *n = 0;
  for (int64_t id = 0; id < all; id++) {
    struct pz_point p = pz_space_point(s, (uint64_t)id);
    struct pz_chip c;
    pz_space_chip(s, &p, &c);
    struct pz_taken t = pz_chip_taken(&c);
    if (!pz_limits_broken(l, &t, &t)) list[(*n)++] = p;
    pz_excess_add(&excess, l, &t, &t);
  }
  if (!*n) return pz_search_nothing_fits(s, &excess, err);
  sorted = s;
  qsort(list, *n, sizeof *list, by_order);
  *out = list;
  return PZ_OK;
}
