/* Lists the chips of small spaces in the order that breaks ties (pz_point_order). */
#include <stdlib.h>

#include "search/search.h"

/* Compares two chips of a space for the choice among equal ones: the smaller chip comes first. */
int pz_point_order(const struct pz_space *space, const struct pz_point *a,
                   const struct pz_point *b) {
  static const enum pz_axis later_axes[] = {
      PZ_AXIS_VECTOR_CORES,        PZ_AXIS_LANES,     PZ_AXIS_GLB_MIB,    PZ_AXIS_LOCAL_KIB,
      PZ_AXIS_GLB_BYTES_PER_CYCLE, PZ_AXIS_CLOCK_MHZ, PZ_AXIS_HBM_STACKS, PZ_AXIS_LINK_GB_PER_S};
  const struct pz_array_shape *a_array = &space->array[pz_space_kind(space, a->kind).array];
  const struct pz_array_shape *b_array = &space->array[pz_space_kind(space, b->kind).array];
  int by_cores = a->at[PZ_AXIS_TENSOR_CORES] - b->at[PZ_AXIS_TENSOR_CORES];
  if (by_cores) return by_cores;
  if (a_array->rows != b_array->rows) return a_array->rows < b_array->rows ? -1 : 1;
  if (a_array->cols != b_array->cols) return a_array->cols < b_array->cols ? -1 : 1;
  for (size_t i = 0; i < sizeof later_axes / sizeof *later_axes; i++) {
    enum pz_axis axis = later_axes[i];
    if (a->at[axis] != b->at[axis]) return a->at[axis] - b->at[axis];
  }
  return (a->kind > b->kind) - (a->kind < b->kind);
}

_Noreturn void pz_search_raise_nothing_fits(struct pz_call *call, const struct pz_space *space,
                                            const struct pz_excess *excess) {
  char text[400];
  pz_raise(call, PZ_NO_ANSWER, "no chip of the space %s is within its limits: nearest are %s",
           space->name, pz_excess_text(excess, text, sizeof text));
}

/* The space of the chips that compare_points() compares, because qsort() cannot pass it. */
static _Thread_local const struct pz_space *sorted_space;

/* Compares two chips for qsort() by pz_point_order(). */
static int compare_points(const void *a, const void *b) {
  return pz_point_order(sorted_space, a, b);
}

/* Returns the chips of a small space that violate no limit, and sets *n to their number. */
struct pz_point *pz_space_list_within(struct pz_call *call, const struct pz_space *space,
                                      const struct pz_limits *limits, uint32_t *n) {
  int64_t n_chips = pz_space_chips(space);
  if (n_chips > PZ_SPACE_MOST_LISTED)
    pz_raise(call, PZ_LIMIT,
             "the space %s has %lld chips; accepted by the evaluator original, and with --pareto: "
             "a space of at most %d; larger ones by --evaluator training alone",
             space->name, (long long)n_chips, PZ_SPACE_MOST_LISTED);
  struct pz_point *list = pz_alloc(call, (size_t)n_chips, sizeof *list);
  struct pz_excess excess = {{0}, {0}}; /* for the message if no chip is within the limits */
  *n = 0;
  for (int64_t id = 0; id < n_chips; id++) {
    struct pz_point point = pz_space_point(space, (uint64_t)id);
    struct pz_chip chip;
    pz_space_chip(space, &point, &chip);
    struct pz_taken costs = pz_chip_taken(&chip);
    if (!pz_limits_broken(limits, &costs, &costs)) {
      list[*n] = point;
      ++*n;
    }
    pz_excess_add(&excess, limits, &costs, &costs);
  }
  if (*n == 0) pz_search_raise_nothing_fits(call, space, &excess);
  sorted_space = space;
  qsort(list, *n, sizeof *list, compare_points);
  return list;
}
