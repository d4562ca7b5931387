/* Small spaces as a list of their chips, in the order that breaks ties between chips (pz_point_order). */
#include <stdlib.h>

#include "search/search.h"

int pz_point_order(const struct pz_space *s, const struct pz_point *a, const struct pz_point *b) {
  static const enum pz_axis later_axes[] = {
      PZ_AXIS_VECTOR_CORES,        PZ_AXIS_LANES,     PZ_AXIS_GLB_MIB,    PZ_AXIS_LOCAL_KIB,
      PZ_AXIS_GLB_BYTES_PER_CYCLE, PZ_AXIS_CLOCK_MHZ, PZ_AXIS_HBM_STACKS, PZ_AXIS_LINK_GB_PER_S};
  const struct pz_array_shape *p = &s->array[pz_space_kind(s, a->kind).array];
  const struct pz_array_shape *q = &s->array[pz_space_kind(s, b->kind).array];
  int by_cores = a->at[PZ_AXIS_TENSOR_CORES] - b->at[PZ_AXIS_TENSOR_CORES];
  if (by_cores) return by_cores;
  if (p->rows != q->rows) return p->rows < q->rows ? -1 : 1;
  if (p->cols != q->cols) return p->cols < q->cols ? -1 : 1;
  for (size_t i = 0; i < sizeof later_axes / sizeof *later_axes; i++) {
    enum pz_axis axis = later_axes[i];
    if (a->at[axis] != b->at[axis]) return a->at[axis] - b->at[axis];
  }
  return (a->kind > b->kind) - (a->kind < b->kind);
}

_Noreturn void pz_search_raise_nothing_fits(struct pz_call *call, const struct pz_space *s,
                                            const struct pz_excess *x) {
  char excess[400];
  pz_raise(call, PZ_NO_ANSWER, "no chip of the space %s is within its limits: nearest are %s",
           s->name, pz_excess_text(x, excess, sizeof excess));
}

/* The space of the points that qsort compares, which has no argument for it. */
static _Thread_local const struct pz_space *sorted_space;

static int compare_points(const void *a, const void *b) {
  return pz_point_order(sorted_space, a, b);
}

struct pz_point *pz_space_list_within(struct pz_call *call, const struct pz_space *s,
                                      const struct pz_limits *l, uint32_t *n) {
  int64_t n_chips = pz_space_chips(s);
  if (n_chips > PZ_SPACE_MOST_LISTED)
    pz_raise(call, PZ_LIMIT,
             "the space %s has %lld chips; accepted by the evaluator original, and with --pareto: "
             "a space of at most %d; larger ones by --evaluator training alone",
             s->name, (long long)n_chips, PZ_SPACE_MOST_LISTED);
  struct pz_point *list = pz_alloc(call, (size_t)n_chips, sizeof *list);
  struct pz_excess excess = {{0}, {0}};
  *n = 0;
  for (int64_t id = 0; id < n_chips; id++) {
    struct pz_point p = pz_space_point(s, (uint64_t)id);
    struct pz_chip c;
    pz_space_chip(s, &p, &c);
    struct pz_taken t = pz_chip_taken(&c);
    if (!pz_limits_broken(l, &t, &t)) {
      list[*n] = p;
      ++*n;
    }
    pz_excess_add(&excess, l, &t, &t);
  }
  if (*n == 0) pz_search_raise_nothing_fits(call, s, &excess);
  sorted_space = s;
  qsort(list, *n, sizeof *list, compare_points);
  return list;
}

/* ---- for callers that return a status ---- */

struct space_list_args {
  const struct pz_space *space;
  const struct pz_limits *limits;
  struct pz_arena *arena;
  struct pz_point **out;
  uint32_t *n;
};

static void run_list_within(struct pz_call *call, void *ctx) {
  const struct space_list_args *x = ctx;
  struct pz_call in_arena = pz_call_in(call, x->arena);
  *x->out = pz_space_list_within(&in_arena, x->space, x->limits, x->n);
}

enum pz_status pz_space_list(const struct pz_space *s, const struct pz_limits *l,
                             struct pz_arena *arena, struct pz_point **out, uint32_t *n,
                             struct pz_error *err) {
  struct space_list_args x = {s, l, arena, out, n};
  return pz_border(run_list_within, &x, err);
}
