/* Tables of bounds, and the bounds of chips and boxes that follow from them.
 *
 * pz_bounds_create() collects the operators of all variants, each once (collect_operators), and
 * their dependencies as one graph for each layer and direction.  Then it fills the tables in
 * parallel: one for each shape of tensor core (fill_shape) and one for each number of lanes
 * (fill_lanes).  In the tables of work, an operator may run on any number of cores that is a mode
 * of the chip (all cores, or a power of two): least_work() takes the cheapest, so that the sum over
 * a layer bounds every schedule.
 *
 * pz_bounds_go() selects the rows of a chip, pz_bounds_go_box() the least of all rows in a box, and
 * pz_bounds_layer_s() combines them. */
#include "evaluate/bounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/map.h"
#include "core/num.h"
#include "core/vec.h"
#include "cost/cost.h"
#include "partition/problem.h"
#include "workload/op.h"

/* Limits of the numbers of cores with a row (struct core_list), and of the operators of a layer. */
enum { MOST_CORES = 2 * PZ_SPACE_MOST_VALUES, MOST_OPS = 1024 };

/* A distinct operator: operators that cost the same are one item.  Items with GEMMs come first. */
struct item {
  const struct pz_op *op;
  uint32_t gemm; /* index of its GEMM, or PZ_NONE if it has none */
  struct pz_product_extra extra;
};

/* The dependency graph of a layer in one direction. */
struct layer_graph {
  uint32_t first_op, n_ops;
  double link_s; /* seconds of collectives on the link */
  double hbm_s;  /* seconds of HBM traffic without that of GEMMs */
};

/* An operator of a graph: its item, and its predecessors in `preds`. */
struct graph_op {
  uint32_t item, first_pred, n_pred;
};

/* Numbers of cores with a row in the tables: those of an axis, and powers of two, which are
 * modes in which operators may run. */
struct core_list {
  int64_t cores[MOST_CORES];
  int n;
  uint16_t of_axis[PZ_SPACE_MOST_VALUES]; /* from the index on the axis to the index in `cores` */
};

/* The table of one shape of tensor core.  In the sizes of the arrays, "axis" is an index on the
 * axis of tensor cores, and "cores" an index in core_list. */
struct shape {
  bool is_used;      /* the shape has a table */
  bool is_within;    /* the shape has chips within the limit of area */
  bool impossible;   /* the mapper finds no tile for the shape */
  int most_axis;     /* index on the axis of the largest number of cores in the table */
  double *core_s;    /* [cores][gemm]: seconds of a GEMM on the tensor cores */
  double *hbm_s;     /* [glb][gemm]: seconds of its HBM traffic */
  double *startup_s; /* [gemm] */
  double *work_s;    /* [axis][graph]: core-seconds on tensor cores over their number */
  double *traffic_s; /* [glb][graph]: seconds of the HBM traffic of GEMMs */
};

/* The table of one number of lanes, for operators other than GEMMs. */
struct lanes {
  double *latency_s; /* [cores][item]: seconds of an operator on this number of vector cores */
  double *work_s;    /* [axis][graph]: core-seconds on vector cores over their number */
};

struct pz_bounds {
  const struct pz_original_task *task;
  struct pz_watch watch;
  struct pz_cost *cost; /* cost model of each worker */
  unsigned n_workers;
  struct pz_vec items, gemms, graphs, ops, preds;
  uint32_t n_gemm_items, n_other_items;
  uint32_t *first_graph; /* first graph of each variant, which has two for each layer */
  struct core_list tensor, vector;
  int64_t glb_bytes[PZ_SPACE_MOST_VALUES]; /* bytes of each value of the axis */
  struct shape shape[PZ_SPACE_MOST_ARRAYS];
  int n_lanes; /* number of different lane counts */
  struct lanes lanes[PZ_SPACE_MOST_VALUES];
  struct pz_point lanes_at[PZ_SPACE_MOST_VALUES]; /* a chip with that number of lanes */
  struct pz_place_bound (*lower_bound)[2];        /* by variant, and by whether it recomputes */
};

/* ---- operators and graphs ------------------------------------------------------------------- */

/* The collection of distinct operators; the maps find items and GEMMs that are listed already. */
struct collector {
  struct pz_bounds *bounds;
  struct pz_map items, gemms;
};

/* Returns the index of the item that an operator belongs to, which is added if it is new.
 * `in_bounds` is a call that allocates in the memory of the bounds. */
static uint32_t find_or_add_item(struct pz_call *in_bounds, struct collector *collector,
                                 const struct pz_op *op) {
  struct pz_bounds *bounds = collector->bounds;
  const struct pz_chip *chip = &bounds->task->space->base;
  struct pz_product_extra extra = pz_cost_extra(chip, op);
  struct {
    int64_t kind, direction, class, batch, m, n, k, read, written;
    double tail_ops;
  } key = {op->kind,   op->direction, op->op_class,   op->dims.batch,    op->dims.m,
           op->dims.n, op->dims.k,    op->bytes_read, op->bytes_written, extra.tail_ops};
  uint32_t index = pz_map_get(&collector->items, &key, sizeof key);
  if (index != PZ_NONE) return index;
  struct item item = {.op = op, .gemm = PZ_NONE};
  bool is_gemm = op->matmul_flop && !pz_op_mixes_tokens(op->kind); /* not attention or a scan */
  if (is_gemm) {
    item.extra = extra;
    item.gemm = pz_map_get(&collector->gemms, &op->dims, sizeof op->dims);
    if (item.gemm == PZ_NONE) {
      item.gemm = bounds->gemms.n;
      pz_append(in_bounds, &bounds->gemms, &op->dims);
      pz_map_set(in_bounds, &collector->gemms, &op->dims, sizeof op->dims, item.gemm);
    }
  }
  index = bounds->items.n;
  pz_append(in_bounds, &bounds->items, &item);
  pz_map_set(in_bounds, &collector->items, &key, sizeof key, index);
  return index;
}

/* Appends the dependency graph of a layer in one direction. */
static void add_graph(struct pz_call *in_bounds, struct collector *collector,
                      const struct pz_ops *ops) {
  struct pz_bounds *bounds = collector->bounds;
  struct layer_graph graph = {.first_op = bounds->ops.n, .n_ops = ops->n};
  if (ops->n > MOST_OPS)
    pz_raise(in_bounds, PZ_LIMIT, "a layer of %u operators; accepted: at most %d", ops->n,
             MOST_OPS);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    struct graph_op graph_op = {.first_pred = bounds->preds.n, .n_pred = op->n_pred};
    graph_op.item = find_or_add_item(in_bounds, collector, op);
    pz_append(in_bounds, &bounds->ops, &graph_op);
    for (uint32_t k = 0; k < op->n_pred; k++) pz_append(in_bounds, &bounds->preds, &op->pred[k]);
  }
  pz_append(in_bounds, &bounds->graphs, &graph);
}

/* Lists the distinct operators of all variants, and a graph for each layer and direction. */
static void collect_operators(struct pz_call *call, struct pz_call *in_bounds,
                              struct pz_bounds *bounds) {
  const struct pz_portfolio *portfolio = bounds->task->portfolio;
  struct collector collector = {.bounds = bounds};
  pz_map_init(&collector.items, call->arena);
  pz_map_init(&collector.gemms, call->arena);
  pz_vec_init(&bounds->items, in_bounds->arena, sizeof(struct item));
  pz_vec_init(&bounds->gemms, in_bounds->arena, sizeof(struct pz_dims));
  pz_vec_init(&bounds->graphs, in_bounds->arena, sizeof(struct layer_graph));
  pz_vec_init(&bounds->ops, in_bounds->arena, sizeof(struct graph_op));
  pz_vec_init(&bounds->preds, in_bounds->arena, sizeof(uint32_t));
  bounds->first_graph = pz_alloc(in_bounds, portfolio->n_variants, sizeof *bounds->first_graph);
  for (uint32_t variant = 0; variant < portfolio->n_variants; variant++) {
    const struct pz_workload *workload = portfolio->variants[variant].w;
    bounds->first_graph[variant] = bounds->graphs.n;
    for (uint32_t i = 0; i < workload->n_layers; i++)
      for (int direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++)
        add_graph(in_bounds, &collector, &workload->layers[i].ops[direction]);
  }
  /* items with GEMMs come first, so that a chip needs one loop for them and one for the others */
  uint32_t n = bounds->items.n, next = 0;
  uint32_t *sorted_index = pz_alloc(in_bounds, n, sizeof *sorted_index);
  struct item *sorted = pz_alloc(in_bounds, n, sizeof *sorted);
  for (uint32_t i = 0; i < n; i++)
    if (pz_vec_at(&bounds->items, struct item, i)->gemm != PZ_NONE) sorted_index[i] = next++;
  bounds->n_gemm_items = next;
  bounds->n_other_items = n - next;
  for (uint32_t i = 0; i < n; i++)
    if (pz_vec_at(&bounds->items, struct item, i)->gemm == PZ_NONE) sorted_index[i] = next++;
  for (uint32_t i = 0; i < n; i++)
    sorted[sorted_index[i]] = *pz_vec_at(&bounds->items, struct item, i);
  bounds->items.items = sorted;
  for (uint32_t i = 0; i < bounds->ops.n; i++) {
    struct graph_op *op = pz_vec_at(&bounds->ops, struct graph_op, i);
    op->item = sorted_index[op->item];
  }
}

/* Prepares the lower bounds on the step of a variant, with and without recomputation.  The layers of
 * the chain have no times here: pz_place_bound_time_s() gets them for each chip. */
static void fill_lower_bound(struct pz_call *in_bounds, struct pz_bounds *bounds,
                             uint32_t variant) {
  const struct pz_variant *model_variant = &bounds->task->portfolio->variants[variant];
  uint32_t n = model_variant->w->n_layers;
  uint32_t *counts = pz_alloc(in_bounds, n, sizeof *counts);
  struct pz_place_width *chain = pz_alloc(in_bounds, 1, sizeof *chain);
  struct pz_layer_time(*no_times)[2] = pz_alloc(in_bounds, n, sizeof *no_times);
  for (uint32_t i = 0; i < n; i++) counts[i] = (uint32_t)model_variant->w->layers[i].count;
  const bool take_lower_bounds = false; /* of no_times, which are all 0 */
  *chain = pz_place_layer_chain(in_bounds, model_variant->w, no_times, take_lower_bounds);
  for (int recompute = 0; recompute < 2; recompute++) {
    struct pz_place_problem problem = pz_task_problem(
        bounds->task, model_variant,
        (double)bounds->task->o.hbm_gib.v[bounds->task->o.hbm_gib.n - 1], recompute);
    problem.widths = chain;
    pz_place_bound_prepare(in_bounds, &problem, counts, n,
                           &bounds->lower_bound[variant][recompute]);
  }
}

/* Compares two numbers of cores for qsort(). */
static int compare_sizes(const void *a, const void *b) {
  int64_t first = *(const int64_t *)a, second = *(const int64_t *)b;
  return (first > second) - (first < second);
}

/* Lists the numbers of cores of an axis and the powers of two below the largest, ascending. */
static void list_cores(const struct pz_space *space, enum pz_axis axis, struct core_list *list) {
  int64_t on_axis[PZ_SPACE_MOST_VALUES] = {0};
  int n = space->n[axis], count = 0; /* `count` includes duplicates */
  for (int i = 0; i < n; i++) {
    struct pz_point point = {0};
    struct pz_chip chip;
    point.at[axis] = (uint8_t)i;
    pz_space_chip(space, &point, &chip);
    on_axis[i] = axis == PZ_AXIS_TENSOR_CORES ? chip.tensor.cores : chip.vector.cores;
    list->cores[count++] = on_axis[i];
  }
  for (int64_t power = 1; power < on_axis[n - 1]; power *= 2) list->cores[count++] = power;
  qsort(list->cores, (size_t)count, sizeof *list->cores, compare_sizes);
  for (int i = 0; i < count; i++) /* keep the first of equal numbers */
    if (i == 0 || list->cores[i] != list->cores[list->n - 1])
      list->cores[list->n++] = list->cores[i];
  for (int i = 0, at = 0; i < n; i++) {
    while (list->cores[at] != on_axis[i]) at++;
    list->of_axis[i] = (uint16_t)at;
  }
}

/* Returns the least core-seconds of an operator over the numbers of cores on which it may run: all
 * cores of the chip, or a power of two.  The result is divided by the number of cores of the chip,
 * which has the index `axis` on the axis.  latency[i * stride] is the latency on list->cores[i]
 * cores without the `startup` seconds. */
static double least_work(const struct core_list *list, int axis, const double *latency,
                         size_t stride, double startup) {
  int64_t all_cores = list->cores[list->of_axis[axis]];
  double least = HUGE_VAL;
  for (int index = 0; index <= list->of_axis[axis]; index++) {
    int64_t cores = list->cores[index];
    bool is_power_of_two = (cores & (cores - 1)) == 0;
    bool is_mode = cores == all_cores || (cores < all_cores && is_power_of_two);
    double work = (double)cores * (startup + latency[(size_t)index * stride]);
    if (is_mode && work < least) least = work;
  }
  return least / (double)all_cores;
}

/* ---- the tables of shapes ------------------------------------------------------------------- */

/* Marks the shapes that need tables, with their largest number of cores: those with which the
 * smallest chip is within the limit of area, and one step beyond, because neighbours of these
 * chips are also bounded. */
static void mark_used_shapes(struct pz_bounds *bounds) {
  const struct pz_space *space = bounds->task->space;
  for (int i = 0; i < space->n_arrays; i++) {
    struct shape *shape = &bounds->shape[i];
    for (int cores = 0; cores < space->n[PZ_AXIS_TENSOR_CORES]; cores++) {
      struct pz_point point = {.kind = (uint32_t)i,
                               .at = {[PZ_AXIS_TENSOR_CORES] = (uint8_t)cores}};
      struct pz_chip chip;
      pz_space_chip(space, &point, &chip);
      shape->most_axis = cores;
      if (bounds->task->most_mm2 > 0 && pz_chip_taken(&chip).mm2 > bounds->task->most_mm2) break;
      shape->is_within = true;
    }
  }
  for (int i = 0; i < space->n_arrays; i++) {
    bool lower = i > 0 && bounds->shape[i - 1].is_within;
    bool higher = i + 1 < space->n_arrays && bounds->shape[i + 1].is_within;
    bounds->shape[i].is_used = bounds->shape[i].is_within || lower || higher;
  }
}

/* A chip of one shape, whose GEMMs sweep_shape() maps. */
struct shape_sweep {
  const struct pz_bounds *bounds;
  struct shape *shape;
  const struct pz_chip *chip;
};

/* Maps all GEMMs on one shape of tensor core, for all numbers of cores and sizes of the global buffer.
 * fill_shape() runs it by pz_border(), which catches the error that the shape has no mapping. */
static void sweep_shape(struct pz_call *call, void *ctx) {
  const struct shape_sweep *sweep = ctx;
  const struct pz_bounds *bounds = sweep->bounds;
  struct shape *shape = sweep->shape;
  uint32_t n = bounds->gemms.n;
  double core_s[MOST_CORES], hbm_s[PZ_SPACE_MOST_VALUES];
  struct pz_sweep sizes = {bounds->tensor.cores, bounds->glb_bytes,
                           (size_t)bounds->tensor.of_axis[shape->most_axis] + 1,
                           (size_t)bounds->task->space->n[PZ_AXIS_GLB_MIB]};
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_dims *dims = pz_vec_at(&bounds->gemms, struct pz_dims, i);
    struct pz_product product = {dims->batch, dims->m, dims->n, dims->k, false};
    shape->startup_s[i] = pz_sweep_mappings(call, &product, sweep->chip, &sizes, core_s, hbm_s);
    for (size_t c = 0; c < sizes.n_cores; c++) shape->core_s[c * n + i] = core_s[c];
    for (size_t glb = 0; glb < sizes.n_glb; glb++) shape->hbm_s[glb * n + i] = hbm_s[glb];
  }
}

/* Fills the table of a shape: the times of all GEMMs, and the sums of their work and HBM traffic over
 * each graph.  If the mapper finds no tile for the shape, the shape is impossible, and *why is the
 * mapper's error. */
static void fill_shape(struct pz_call *call, struct pz_bounds *bounds, uint32_t array,
                       struct pz_error *why) {
  struct shape *shape = &bounds->shape[array];
  struct pz_point point = {.kind = array};
  struct pz_chip chip;
  pz_space_chip(bounds->task->space, &point, &chip);
  struct shape_sweep sweep = {bounds, shape, &chip};
  enum pz_status status = pz_border(sweep_shape, &sweep, why);
  shape->impossible = status == PZ_BAD_INPUT;
  if (shape->impossible) return;
  if (status != PZ_OK) pz_raise_again(call, why);
  /* the least work of each GEMM by number of cores, and then the sums over each graph */
  double *work = pz_alloc(call, (size_t)(shape->most_axis + 1) * bounds->gemms.n, sizeof(double));
  for (int cores = 0; cores <= shape->most_axis; cores++)
    for (uint32_t i = 0; i < bounds->gemms.n; i++)
      work[(size_t)cores * bounds->gemms.n + i] = least_work(
          &bounds->tensor, cores, &shape->core_s[i], bounds->gemms.n, shape->startup_s[i]);
  size_t n_gemms = bounds->gemms.n, n_graphs = bounds->graphs.n;
  size_t n_glb = (size_t)bounds->task->space->n[PZ_AXIS_GLB_MIB];
  for (uint32_t k = 0; k < n_graphs; k++) {
    const struct layer_graph *graph = pz_vec_at(&bounds->graphs, struct layer_graph, k);
    const struct graph_op *ops = pz_vec_at(&bounds->ops, struct graph_op, graph->first_op);
    for (uint32_t i = 0; i < graph->n_ops; i++) {
      const struct item *item = pz_vec_at(&bounds->items, struct item, ops[i].item);
      if (item->gemm == PZ_NONE) continue;
      for (size_t cores = 0; cores <= (size_t)shape->most_axis; cores++)
        shape->work_s[cores * n_graphs + k] += work[cores * n_gemms + item->gemm];
      for (size_t glb = 0; glb < n_glb; glb++)
        shape->traffic_s[glb * n_graphs + k] += /* extra.hbm_s is negative for shared operands */
            fmax(0, shape->hbm_s[glb * n_gemms + item->gemm] + item->extra.hbm_s);
    }
  }
}

/* ---- the tables of lanes -------------------------------------------------------------------- */

/* Returns the index of the table (struct lanes) for the number of lanes of a chip. */
static uint32_t lanes_of_chip(const struct pz_bounds *bounds, const struct pz_point *point) {
  const struct pz_space *space = bounds->task->space;
  if (space->value[PZ_AXIS_LANES][0] != PZ_SPACE_AS_COLUMNS) return point->at[PZ_AXIS_LANES];
  uint32_t i = 0;
  while (space->array[bounds->lanes_at[i].kind].cols != space->array[point->kind].cols) i++;
  return i;
}

/* Lists a chip for each different number of lanes: those of the axis, or if vector cores have as many
 * lanes as an array has columns (PZ_SPACE_AS_COLUMNS), those of the arrays without duplicates. */
static void list_lanes(struct pz_bounds *bounds) {
  const struct pz_space *space = bounds->task->space;
  bool as_columns = space->value[PZ_AXIS_LANES][0] == PZ_SPACE_AS_COLUMNS;
  int n_values = as_columns ? space->n_arrays : space->n[PZ_AXIS_LANES];
  for (int i = 0; i < n_values; i++) {
    struct pz_point point = {.at = {[PZ_AXIS_LANES] = (uint8_t)i}};
    bool is_listed = false;
    if (as_columns) point = (struct pz_point){.kind = (uint32_t)i};
    for (int k = 0; k < bounds->n_lanes && as_columns && !is_listed; k++)
      is_listed = space->array[bounds->lanes_at[k].kind].cols == space->array[i].cols;
    if (!is_listed) bounds->lanes_at[bounds->n_lanes++] = point;
  }
}

/* Fills the tables of one number of lanes: latencies of all operators that are not GEMMs, and
 * the work of vector operators by graph. */
static void fill_lanes(struct pz_call *call, struct pz_bounds *bounds, uint32_t index,
                       unsigned worker) {
  const struct pz_space *space = bounds->task->space;
  struct lanes *lanes = &bounds->lanes[index];
  struct pz_cost *cost = &bounds->cost[worker];
  struct pz_chip chip;
  pz_space_chip(space, &bounds->lanes_at[index], &chip);
  for (int cores = 0; cores < bounds->vector.n; cores++) {
    chip.vector.cores = bounds->vector.cores[cores];
    pz_cost_set_chip(cost, &chip, &bounds->task->net);
    for (uint32_t i = 0; i < bounds->n_other_items; i++) {
      const struct pz_op *op = pz_vec_at(&bounds->items, struct item, bounds->n_gemm_items + i)->op;
      struct pz_estimate estimate = {0};
      /* fused attention also needs tensor cores, which are unknown here, so that its bound is 0 */
      if (!op->matmul_flop) estimate = pz_estimate_op(call, cost, op, NULL);
      lanes->latency_s[(size_t)cores * bounds->n_other_items + i] = estimate.latency_s;
    }
  }
  for (uint32_t k = 0; k < bounds->graphs.n; k++) {
    const struct layer_graph *graph = pz_vec_at(&bounds->graphs, struct layer_graph, k);
    const struct graph_op *ops = pz_vec_at(&bounds->ops, struct graph_op, graph->first_op);
    for (uint32_t i = 0; i < graph->n_ops; i++) {
      uint32_t item = ops[i].item;
      if (item < bounds->n_gemm_items ||
          pz_vec_at(&bounds->items, struct item, item)->op->op_class != PZ_CLASS_VECTOR)
        continue;
      const double *latency = &lanes->latency_s[item - bounds->n_gemm_items];
      for (int axis = 0; axis < space->n[PZ_AXIS_VECTOR_CORES]; axis++)
        lanes->work_s[(size_t)axis * bounds->graphs.n + k] +=
            least_work(&bounds->vector, axis, latency, bounds->n_other_items, 0);
    }
  }
}

/* Tables that are filled in parallel. */
struct table_filling {
  struct pz_bounds *bounds;
  struct pz_error *why_impossible; /* error of each shape that is impossible */
};

/* Fills the table of task i: a shape, or after the shapes a number of lanes. */
static void fill_table(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  const struct table_filling *filling = ctx;
  struct pz_bounds *bounds = filling->bounds;
  size_t n_shapes = (size_t)bounds->task->space->n_arrays;
  if (bounds->watch.stop && atomic_load(bounds->watch.stop)) pz_raise(task, PZ_STOPPED, "stopped");
  if (i >= n_shapes)
    fill_lanes(task, bounds, (uint32_t)(i - n_shapes), worker);
  else if (bounds->shape[i].is_used)
    fill_shape(task, bounds, (uint32_t)i, &filling->why_impossible[i]);
  else
    return;
  pz_progress_add(bounds->watch.progress, 1);
}

/* Allocates the tables and fills them in parallel.  If the mapper finds no tile for any shape that has
 * chips within the limit of area, raises the mapper's error for the first of these shapes. */
static void fill_tables(struct pz_call *call, struct pz_call *in_bounds, struct pz_bounds *bounds,
                        struct pz_pool *pool) {
  const struct pz_space *space = bounds->task->space;
  int n_shapes = space->n_arrays, n_used = bounds->n_lanes, n_glb = space->n[PZ_AXIS_GLB_MIB];
  const struct pz_error *first_error = NULL;
  struct table_filling filling = {bounds,
                                  pz_alloc(call, (size_t)n_shapes, sizeof *filling.why_impossible)};
  for (int i = 0; i < n_shapes; i++) {
    struct shape *shape = &bounds->shape[i];
    if (!shape->is_used) continue;
    shape->core_s = pz_alloc(
        in_bounds, (size_t)(bounds->tensor.of_axis[shape->most_axis] + 1) * bounds->gemms.n,
        sizeof(double));
    shape->hbm_s = pz_alloc(in_bounds, (size_t)n_glb * bounds->gemms.n, sizeof(double));
    shape->startup_s = pz_alloc(in_bounds, bounds->gemms.n, sizeof(double));
    shape->work_s =
        pz_alloc(in_bounds, (size_t)(shape->most_axis + 1) * bounds->graphs.n, sizeof(double));
    shape->traffic_s = pz_alloc(in_bounds, (size_t)n_glb * bounds->graphs.n, sizeof(double));
    n_used++;
  }
  for (int i = 0; i < bounds->n_lanes; i++) {
    bounds->lanes[i].latency_s =
        pz_alloc(in_bounds, (size_t)bounds->vector.n * bounds->n_other_items, sizeof(double));
    bounds->lanes[i].work_s = pz_alloc(
        in_bounds, (size_t)space->n[PZ_AXIS_VECTOR_CORES] * bounds->graphs.n, sizeof(double));
  }
  pz_progress_next(bounds->watch.progress, "tables", "tables", (uint64_t)n_used);
  pz_defer(call, pz_progress_close, bounds->watch.progress);
  pz_pool_run(call, pool, (size_t)(n_shapes + bounds->n_lanes), fill_table, &filling);
  pz_close(call, bounds->watch.progress);
  for (int i = 0; i < n_shapes; i++) {
    if (!bounds->shape[i].is_within) continue;
    if (!bounds->shape[i].impossible) return; /* at least one shape can be used */
    if (!first_error) first_error = &filling.why_impossible[i];
  }
  if (first_error) pz_raise(call, PZ_BAD_INPUT, "%s", first_error->message);
}

/* Releases the cost models of all workers; a pz_close_fn. */
static void release_costs(void *bounds) {
  struct pz_bounds *released = bounds;
  for (unsigned i = 0; released->cost && i < released->n_workers; i++)
    pz_cost_release(&released->cost[i]);
}

/* Collects the operators of all variants and fills the tables. */
struct pz_bounds *pz_bounds_create(struct pz_call *call, const struct pz_original_task *task,
                                   struct pz_pool *pool, struct pz_watch watch) {
  struct pz_call in_bounds, work = pz_scratch(call);
  struct pz_bounds *bounds = pz_object_new(call, sizeof *bounds, &in_bounds);
  uint32_t n_variants = task->portfolio->n_variants;
  bounds->task = task;
  bounds->watch = watch;
  bounds->n_workers = pz_pool_threads(pool);
  bounds->cost = pz_alloc(&in_bounds, bounds->n_workers, sizeof *bounds->cost);
  for (unsigned i = 0; i < bounds->n_workers; i++)
    pz_cost_init(&bounds->cost[i], &task->space->base, &task->net);
  pz_defer(call, release_costs, bounds);
  list_cores(task->space, PZ_AXIS_TENSOR_CORES, &bounds->tensor);
  list_cores(task->space, PZ_AXIS_VECTOR_CORES, &bounds->vector);
  list_lanes(bounds);
  for (int i = 0; i < task->space->n[PZ_AXIS_GLB_MIB]; i++) {
    struct pz_point point = {.at = {[PZ_AXIS_GLB_MIB] = (uint8_t)i}};
    struct pz_chip chip;
    pz_space_chip(task->space, &point, &chip);
    bounds->glb_bytes[i] = chip.glb_bytes;
  }
  mark_used_shapes(bounds);
  collect_operators(&work, &in_bounds, bounds);
  /* Times of collectives on the link, and HBM times of operators other than GEMMs, are the same on all
   * chips of the space, so that those of the base chip are used. */
  pz_cost_set_chip(&bounds->cost[0], &bounds->task->space->base, &bounds->task->net);
  for (uint32_t k = 0; k < bounds->graphs.n; k++) {
    struct layer_graph *graph = pz_vec_at(&bounds->graphs, struct layer_graph, k);
    const struct graph_op *ops = pz_vec_at(&bounds->ops, struct graph_op, graph->first_op);
    for (uint32_t i = 0; i < graph->n_ops; i++) {
      const struct pz_op *op = pz_vec_at(&bounds->items, struct item, ops[i].item)->op;
      if (op->matmul_flop) continue;
      struct pz_estimate estimate = pz_estimate_op(call, &bounds->cost[0], op, NULL);
      graph->hbm_s += estimate.hbm_s;
      if (op->op_class == PZ_CLASS_COLLECTIVE) graph->link_s += estimate.latency_s;
    }
  }
  bounds->lower_bound = pz_alloc(&in_bounds, n_variants, sizeof *bounds->lower_bound);
  for (uint32_t variant = 0; variant < n_variants; variant++)
    fill_lower_bound(&in_bounds, bounds, variant);
  fill_tables(&work, &in_bounds, bounds, pool);
  pz_scratch_end(&work);
  pz_undefer(call, bounds);
  return pz_object_keep(call, bounds);
}

void pz_bounds_free(struct pz_bounds *bounds) {
  if (bounds) release_costs(bounds);
  pz_object_free(bounds);
}

/* ---- at a chip or a box --------------------------------------------------------------------- */

struct pz_bounds_at {
  const struct pz_bounds *bounds;
  bool impossible;   /* no GEMM can be mapped */
  double *latency_s; /* latency of each item on all cores */
  /* by graph: the rows of the tables for the current chip, or for a box the rows of box_s */
  const double *tensor_s, *vector_s, *traffic_s;
  double *box_s;                           /* tensor_s, vector_s and traffic_s of a box */
  double *core_s, *gemm_hbm_s, *startup_s; /* least times of each GEMM in a box */
  double *fwd_s, *bwd_s;                   /* bounds of each layer of a variant */
  /* by model: the variant that had the least bound on an earlier chip, or 0 for the first variant */
  uint32_t likely_best[PZ_SEARCH_MOST_MODELS];
};

/* Returns a work space for one thread, which is not at a chip yet. */
struct pz_bounds_at *pz_bounds_at_new(struct pz_call *call, const struct pz_bounds *bounds) {
  struct pz_bounds_at *position = pz_alloc(call, 1, sizeof *position);
  uint32_t layers = bounds->task->portfolio->most_layers;
  position->bounds = bounds;
  position->latency_s = pz_alloc(call, bounds->items.n, sizeof *position->latency_s);
  position->box_s = pz_alloc(call, 3 * (size_t)bounds->graphs.n, sizeof *position->box_s);
  position->core_s = pz_alloc(call, 3 * (size_t)bounds->gemms.n, sizeof *position->core_s);
  position->gemm_hbm_s = position->core_s + bounds->gemms.n;
  position->startup_s = position->core_s + 2 * (size_t)bounds->gemms.n;
  position->fwd_s = pz_alloc(call, layers, sizeof *position->fwd_s);
  position->bwd_s = pz_alloc(call, layers, sizeof *position->bwd_s);
  return position;
}

/* Returns whether the tables have rows for this chip. */
bool pz_bounds_cover(const struct pz_bounds_at *position, const struct pz_point *point) {
  const struct shape *shape = &position->bounds->shape[point->kind];
  return shape->is_used && point->at[PZ_AXIS_TENSOR_CORES] <= shape->most_axis;
}

/* Sets the latencies of all items with GEMMs from rows of the tables.  The vector cores of the chip
 * at `point` execute what is fused into the GEMMs. */
static void set_gemm_latencies(struct pz_bounds_at *position, const double *core_s,
                               const double *hbm_s, const double *startup_s,
                               const struct pz_point *point) {
  const struct item *items = position->bounds->items.items;
  struct pz_chip chip;
  pz_space_chip(position->bounds->task->space, point, &chip);
  double lane_ops_per_s = (double)(chip.vector.cores * chip.vector.lanes) * chip.clock_hz;
  for (uint32_t i = 0; i < position->bounds->n_gemm_items; i++) {
    uint32_t k = items[i].gemm;
    position->latency_s[i] =
        startup_s[k] + pz_cost_with_extra_s(&items[i].extra, core_s[k], hbm_s[k], lane_ops_per_s);
  }
}

/* Selects the rows of the tables for a chip, and combines them to latencies of all operators.
 * Returns false if no GEMM can be mapped to the chip. */
bool pz_bounds_go(struct pz_bounds_at *position, const struct pz_point *point) {
  const struct pz_bounds *bounds = position->bounds;
  const struct shape *shape = &bounds->shape[point->kind];
  const struct lanes *lanes = &bounds->lanes[lanes_of_chip(bounds, point)];
  size_t n_gemms = bounds->gemms.n, others = bounds->n_other_items, n_graphs = bounds->graphs.n;
  uint8_t tensor = point->at[PZ_AXIS_TENSOR_CORES], vector = point->at[PZ_AXIS_VECTOR_CORES];
  uint8_t glb = point->at[PZ_AXIS_GLB_MIB];
  position->impossible = shape->impossible;
  if (shape->impossible) return false;
  set_gemm_latencies(position, &shape->core_s[bounds->tensor.of_axis[tensor] * n_gemms],
                     &shape->hbm_s[glb * n_gemms], shape->startup_s, point);
  memcpy(&position->latency_s[bounds->n_gemm_items],
         &lanes->latency_s[bounds->vector.of_axis[vector] * others],
         others * sizeof *position->latency_s);
  position->tensor_s = &shape->work_s[tensor * n_graphs];
  position->vector_s = &lanes->work_s[vector * n_graphs];
  position->traffic_s = &shape->traffic_s[glb * n_graphs];
  return true;
}

/* Sets each of n values to the smaller of itself and that of a row. */
static void lower_to_row(double *least, const double *row, size_t n) {
  for (size_t i = 0; i < n; i++) least[i] = row[i] < least[i] ? row[i] : least[i];
}

/* Sets every value of the work space to its minimum over the chips of the box.  Rates that depend
 * on the clock are those of the largest chip of the box. */
void pz_bounds_go_box(struct pz_bounds_at *position, const struct pz_box *box) {
  const struct pz_bounds *bounds = position->bounds;
  const struct shape *shape = &bounds->shape[box->kind];
  size_t n_gemms = bounds->gemms.n, others = bounds->n_other_items, n_graphs = bounds->graphs.n;
  struct pz_point point = pz_box_point(box), hi = point;
  memcpy(hi.at, box->hi, sizeof hi.at);
  position->impossible =
      !shape->is_used || shape->impossible || point.at[PZ_AXIS_TENSOR_CORES] > shape->most_axis;
  if (position->impossible) return;
  for (size_t i = 0; i < 3 * n_gemms; i++) position->core_s[i] = HUGE_VAL;
  for (size_t i = 0; i < 3 * n_graphs; i++) position->box_s[i] = HUGE_VAL;
  for (size_t i = 0; i < bounds->items.n; i++) position->latency_s[i] = HUGE_VAL;
  int most_tensor = hi.at[PZ_AXIS_TENSOR_CORES] < shape->most_axis ? hi.at[PZ_AXIS_TENSOR_CORES]
                                                                   : shape->most_axis;
  for (int cores = point.at[PZ_AXIS_TENSOR_CORES]; cores <= most_tensor; cores++) {
    lower_to_row(position->core_s, &shape->core_s[bounds->tensor.of_axis[cores] * n_gemms],
                 n_gemms);
    lower_to_row(position->box_s, &shape->work_s[(size_t)cores * n_graphs], n_graphs);
  }
  for (size_t glb = point.at[PZ_AXIS_GLB_MIB]; glb <= hi.at[PZ_AXIS_GLB_MIB]; glb++) {
    lower_to_row(position->gemm_hbm_s, &shape->hbm_s[glb * n_gemms], n_gemms);
    lower_to_row(position->box_s + 2 * n_graphs, &shape->traffic_s[glb * n_graphs], n_graphs);
  }
  lower_to_row(position->startup_s, shape->startup_s, n_gemms);
  /* one table, unless lanes are an axis of the space */
  for (uint32_t k = lanes_of_chip(bounds, &point); k <= lanes_of_chip(bounds, &hi); k++)
    for (size_t cores = point.at[PZ_AXIS_VECTOR_CORES]; cores <= hi.at[PZ_AXIS_VECTOR_CORES];
         cores++) {
      const struct lanes *lanes = &bounds->lanes[k];
      lower_to_row(&position->latency_s[bounds->n_gemm_items],
                   &lanes->latency_s[bounds->vector.of_axis[cores] * others], others);
      lower_to_row(position->box_s + n_graphs, &lanes->work_s[cores * n_graphs], n_graphs);
    }
  set_gemm_latencies(position, position->core_s, position->gemm_hbm_s, position->startup_s, &hi);
  position->tensor_s = position->box_s;
  position->vector_s = position->box_s + n_graphs;
  position->traffic_s = position->box_s + 2 * n_graphs;
}

/* ---- layers, variants, models --------------------------------------------------------------- */

/* Returns the longest path through a graph with these latencies of items. */
static double longest_path(const struct pz_bounds *bounds, const struct layer_graph *graph,
                           const double *latency) {
  const struct graph_op *ops = pz_vec_at(&bounds->ops, struct graph_op, graph->first_op);
  const uint32_t *preds = bounds->preds.items;
  double end[MOST_OPS], longest = 0;
  for (uint32_t i = 0; i < graph->n_ops; i++) {
    double start = 0;
    const uint32_t *pred = &preds[ops[i].first_pred];
    for (uint32_t k = 0; k < ops[i].n_pred; k++)
      if (end[pred[k]] > start) start = end[pred[k]];
    end[i] = start + latency[ops[i].item];
    if (end[i] > longest) longest = end[i];
  }
  return longest;
}

/* Returns a lower bound on the seconds of a layer: the largest of the work of each resource and of
 * the longest path, lowered by more than the rounding error of sums in another order. */
double pz_bounds_layer_s(struct pz_bounds_at *position, uint32_t variant, uint32_t layer,
                         enum pz_direction direction) {
  static const double ROUNDING = 1 - 1e-9;
  const struct pz_bounds *bounds = position->bounds;
  uint32_t graph_index = bounds->first_graph[variant] + 2 * layer + (uint32_t)direction;
  const struct layer_graph *graph = pz_vec_at(&bounds->graphs, struct layer_graph, graph_index);
  double work = pz_fmax(position->tensor_s[graph_index], position->vector_s[graph_index]);
  work = pz_fmax(work, pz_fmax(position->traffic_s[graph_index] + graph->hbm_s, graph->link_s));
  return pz_fmax(work, longest_path(bounds, graph, position->latency_s)) * ROUNDING;
}

/* Returns a lower bound on the step of a variant on the current chip, in seconds. */
double pz_bounds_variant_s(struct pz_bounds_at *position, uint32_t variant, bool recompute,
                           double limit_s) {
  uint32_t n = position->bounds->task->portfolio->variants[variant].w->n_layers;
  for (uint32_t i = 0; i < n; i++) {
    position->fwd_s[i] = pz_bounds_layer_s(position, variant, i, PZ_FORWARD);
    position->bwd_s[i] = pz_bounds_layer_s(position, variant, i, PZ_BACKWARD);
  }
  return pz_bounds_times_s(position, variant, recompute, position->fwd_s, position->bwd_s, limit_s);
}

/* Returns a lower bound on the step of a variant whose layers take fwd_s and bwd_s, in seconds. */
double pz_bounds_times_s(const struct pz_bounds_at *position, uint32_t variant, bool recompute,
                         const double *fwd_s, const double *bwd_s, double limit_s) {
  return pz_place_bound_time_s(&position->bounds->lower_bound[variant][recompute], fwd_s, bwd_s,
                               limit_s);
}

/* Returns the smaller lower bound of a variant with and without recomputation, in seconds. */
static double variant_bound(struct pz_bounds_at *position, uint32_t variant, double limit_s) {
  double saved = pz_bounds_variant_s(position, variant, false, limit_s);
  double recomputed = pz_bounds_times_s(position, variant, true, position->fwd_s, position->bwd_s,
                                        saved < limit_s ? saved : limit_s);
  return saved < recomputed ? saved : recomputed;
}

/* Returns the least bound over all variants of a model.  The variant with the least bound on the last
 * chip comes first, because its bound is a limit at which the computation of the others can stop. */
double pz_bounds_model_s(struct pz_bounds_at *position, uint32_t model) {
  if (position->impossible) return HUGE_VAL;
  const struct pz_portfolio *portfolio = position->bounds->task->portfolio;
  uint32_t first = position->likely_best[model];
  if (!first) first = portfolio->first[model]; /* no other variant has had a lesser bound yet */
  double best = variant_bound(position, first, HUGE_VAL);
  for (uint32_t variant = portfolio->first[model]; variant < portfolio->first[model + 1];
       variant++) {
    if (variant == first) continue;
    double bound = variant_bound(position, variant, best);
    if (bound < best) {
      best = bound;
      position->likely_best[model] = variant;
    }
  }
  return best;
}
