/* Tables of bounds, and the bounds of chips and boxes that follow from them.
 *
 * pz_bounds_create() collects the operators of all variants, each once (collect_operators), and their dependencies as
 * one graph for each layer and direction.  Then it fills the tables in parallel: one for each shape of tensor core
 * (fill_shape) and one for each number of lanes (fill_lanes).  In the tables of work, an operator may run on any number
 * of cores that is a mode of the chip (all cores, or a power of two): least_work() takes the cheapest, so that the sum
 * over a layer bounds every schedule.
 *
 * pz_bounds_go() selects the rows of a chip, pz_bounds_go_box() the least of all rows in a box, and pz_bounds_layer_s()
 * combines them. */
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

enum { MOST_CORES = 2 * PZ_SPACE_MOST_VALUES, MOST_OPS = 1024 };

/* A distinct operator: operators that cost the same are one item.  GEMMs are the first items. */
struct item {
  const struct pz_op *op;
  uint32_t gemm; /* index of its GEMM; PZ_NONE: it has none */
  struct pz_product_extra extra;
};

/* The dependency graph of a layer in one direction. */
struct layer_graph {
  uint32_t first_op, n_ops;
  double link_s; /* time on the link */
  double hbm_s;  /* time at the HBM, without GEMMs */
};

struct graph_op {
  uint32_t item, first_pred, n_pred;
};

/* Numbers of cores with a row in the tables: those of the axis, and the powers of two that are modes. */
struct core_list {
  int64_t n[MOST_CORES];
  int count;
  uint16_t of_axis[PZ_SPACE_MOST_VALUES]; /* from the index on the axis to the index in n */
};

/* The table of one shape of tensor core.  "axis" is the index on the axis of tensor cores, "cores" that in core_list.
 */
struct shape {
  bool is_used;      /* has a table */
  bool is_within;    /* has chips within the limit of area */
  bool impossible;   /* the mapper has no tile for it */
  int most_axis;     /* the largest number of cores in the table */
  double *core_s;    /* [cores][gemm] */
  double *hbm_s;     /* [glb][gemm] */
  double *startup_s; /* [gemm] */
  double *work_s;    /* [axis][graph]: core-seconds on tensor cores over their number */
  double *traffic_s; /* [glb][graph]: time of GEMMs at the HBM */
};

/* The table of one number of lanes, for operators other than GEMMs. */
struct lanes {
  double *latency_s; /* [cores][item] */
  double *work_s;    /* [axis][graph]: core-seconds on vector cores over their number */
};

struct pz_bounds {
  const struct pz_original_task *task;
  struct pz_watch watch;
  struct pz_cost *cost; /* of each worker */
  unsigned n_workers;
  struct pz_vec items, gemms, graphs, ops, preds;
  uint32_t n_gemm_items;
  uint32_t *first_graph; /* of each variant; two for each layer */
  struct core_list tensor, vector;
  int64_t glb_bytes[PZ_SPACE_MOST_VALUES]; /* by the index on the axis */
  struct shape shape[PZ_SPACE_MOST_ARRAYS];
  int n_lanes; /* different numbers of lanes */
  struct lanes lanes[PZ_SPACE_MOST_VALUES];
  struct pz_point lanes_at[PZ_SPACE_MOST_VALUES]; /* a chip with them */
  struct pz_place_bound (*lower_bound)[2];        /* by variant and recomputation */
};

static const struct item *item_at(const struct pz_bounds *b, uint32_t i) {
  return pz_vec_at(&b->items, struct item, i);
}

/* The number of items that are not GEMMs. */
static uint32_t n_others(const struct pz_bounds *b) { return b->items.n - b->n_gemm_items; }

/* ---- operators and graphs ------------------------------------------------------------------- */

struct collector {
  struct pz_bounds *b;
  struct pz_map items, gemms;
};

/* The index of the item that an operator belongs to, which is added if it is new. */
static uint32_t find_or_add_item(struct pz_call *own, struct collector *c, const struct pz_op *op) {
  struct pz_bounds *b = c->b;
  const struct pz_chip *chip = &b->task->space->base;
  struct pz_product_extra extra = pz_cost_extra(chip, op);
  struct {
    int64_t kind, direction, class, batch, m, n, k, read, written;
    double tail_ops;
  } key = {op->kind,   op->direction, op->op_class,   op->dims.batch,    op->dims.m,
           op->dims.n, op->dims.k,    op->bytes_read, op->bytes_written, extra.tail_ops};
  uint32_t index = pz_map_get(&c->items, &key, sizeof key);
  if (index != PZ_NONE) return index;
  struct item item = {.op = op, .gemm = PZ_NONE};
  if (op->matmul_flop && !pz_op_mixes_tokens(op->kind)) {
    item.extra = extra;
    item.gemm = pz_map_get(&c->gemms, &op->dims, sizeof op->dims);
    if (item.gemm == PZ_NONE) {
      item.gemm = b->gemms.n;
      pz_append(own, &b->gemms, &op->dims);
      pz_map_set(own, &c->gemms, &op->dims, sizeof op->dims, item.gemm);
    }
  }
  index = b->items.n;
  pz_append(own, &b->items, &item);
  pz_map_set(own, &c->items, &key, sizeof key, index);
  return index;
}

static void add_graph(struct pz_call *own, struct collector *c, const struct pz_ops *ops) {
  struct pz_bounds *b = c->b;
  struct layer_graph graph = {.first_op = b->ops.n, .n_ops = ops->n};
  if (ops->n > MOST_OPS)
    pz_raise(own, PZ_LIMIT, "a layer of %u operators; accepted: at most %d", ops->n, MOST_OPS);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    struct graph_op o = {.first_pred = b->preds.n, .n_pred = op->n_pred};
    o.item = find_or_add_item(own, c, op);
    pz_append(own, &b->ops, &o);
    for (uint32_t k = 0; k < op->n_pred; k++) pz_append(own, &b->preds, &op->pred[k]);
  }
  pz_append(own, &b->graphs, &graph);
}

/* Moves GEMMs to the front, so that a chip needs one loop for each kind of item. */
static void sort_items(struct pz_call *own, struct pz_bounds *b) {
  uint32_t n = b->items.n, next = 0;
  uint32_t *place = pz_alloc(own, n, sizeof *place);
  struct item *sorted = pz_alloc(own, n, sizeof *sorted);
  for (uint32_t i = 0; i < n; i++) {
    if (item_at(b, i)->gemm == PZ_NONE) continue;
    place[i] = next;
    next++;
  }
  b->n_gemm_items = next;
  for (uint32_t i = 0; i < n; i++) {
    if (item_at(b, i)->gemm != PZ_NONE) continue;
    place[i] = next;
    next++;
  }
  for (uint32_t i = 0; i < n; i++) sorted[place[i]] = *item_at(b, i);
  b->items.items = sorted;
  for (uint32_t i = 0; i < b->ops.n; i++) {
    struct graph_op *o = pz_vec_at(&b->ops, struct graph_op, i);
    o->item = place[o->item];
  }
}

static void collect_operators(struct pz_call *call, struct pz_call *own, struct pz_bounds *b) {
  const struct pz_portfolio *p = b->task->portfolio;
  struct collector c = {.b = b};
  pz_map_init(&c.items, call->arena);
  pz_map_init(&c.gemms, call->arena);
  pz_vec_init(&b->items, own->arena, sizeof(struct item));
  pz_vec_init(&b->gemms, own->arena, sizeof(struct pz_dims));
  pz_vec_init(&b->graphs, own->arena, sizeof(struct layer_graph));
  pz_vec_init(&b->ops, own->arena, sizeof(struct graph_op));
  pz_vec_init(&b->preds, own->arena, sizeof(uint32_t));
  b->first_graph = pz_alloc(own, p->n_variants, sizeof *b->first_graph);
  for (uint32_t v = 0; v < p->n_variants; v++) {
    const struct pz_workload *w = p->variants[v].w;
    b->first_graph[v] = b->graphs.n;
    for (uint32_t i = 0; i < w->n_layers; i++)
      for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++) add_graph(own, &c, &w->layers[i].ops[d]);
  }
  sort_items(own, b);
}

/* Time of each graph on the link, and at the HBM without GEMMs.  They do not depend on the chip. */
static void fill_links(struct pz_call *call, struct pz_bounds *b) {
  pz_cost_set_chip(&b->cost[0], &b->task->space->base, &b->task->net);
  for (uint32_t k = 0; k < b->graphs.n; k++) {
    struct layer_graph *g = pz_vec_at(&b->graphs, struct layer_graph, k);
    for (uint32_t i = 0; i < g->n_ops; i++) {
      uint32_t item = pz_vec_at(&b->ops, struct graph_op, g->first_op + i)->item;
      const struct pz_op *op = item_at(b, item)->op;
      struct pz_estimate e;
      if (op->matmul_flop) continue;
      pz_must(call, pz_cost_op(&b->cost[0], op, &e, pz_call_error(call)));
      g->hbm_s += e.hbm_s;
      if (op->op_class == PZ_CLASS_COLLECTIVE) g->link_s += e.latency_s;
    }
  }
}

/* What pz_place_bound_time_s() needs to know of a variant. */
static void fill_lower_bound(struct pz_call *own, struct pz_bounds *b, uint32_t variant) {
  const struct pz_variant *v = &b->task->portfolio->variants[variant];
  uint32_t n = v->w->n_layers;
  uint32_t *counts = pz_alloc(own, n, sizeof *counts);
  struct pz_place_width *width = pz_alloc(own, 1, sizeof *width);
  struct pz_layer_time(*no_times)[2] = pz_alloc(own, n, sizeof *no_times);
  for (uint32_t i = 0; i < n; i++) counts[i] = (uint32_t)v->w->layers[i].count;
  *width = pz_place_layer_chain(own, v->w, no_times, false);
  for (int recompute = 0; recompute < 2; recompute++) {
    struct pz_place_problem p = pz_task_problem(b->task, v, pz_task_most_hbm(b->task), recompute);
    p.widths = width;
    pz_place_bound_prepare(own, &p, counts, n, &b->lower_bound[variant][recompute]);
  }
}

/* ---- numbers of cores ----------------------------------------------------------------------- */

static int compare_sizes(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void list_cores(const struct pz_space *s, enum pz_axis axis, struct core_list *l) {
  int64_t on_axis[PZ_SPACE_MOST_VALUES] = {0};
  int n = s->n[axis], count = 0;
  for (int i = 0; i < n; i++) {
    struct pz_point p = {0};
    struct pz_chip c;
    p.at[axis] = (uint8_t)i;
    pz_space_chip(s, &p, &c);
    on_axis[i] = axis == PZ_AXIS_TENSOR_CORES ? c.tensor.cores : c.vector.cores;
    l->n[count++] = on_axis[i];
  }
  for (int64_t power = 1; power < on_axis[n - 1]; power *= 2) l->n[count++] = power;
  qsort(l->n, (size_t)count, sizeof *l->n, compare_sizes);
  for (int i = 0; i < count; i++)
    if (i == 0 || l->n[i] != l->n[l->count - 1]) l->n[l->count++] = l->n[i];
  for (int i = 0, at = 0; i < n; i++) {
    while (l->n[at] != on_axis[i]) at++;
    l->of_axis[i] = (uint16_t)at;
  }
}

/* The least core-seconds of an operator over the modes of a chip, divided by its number of cores, which is given by the
 * index on the axis.  latency[c * stride] is the latency on the c-th number of cores in the list. */
static double least_work(const struct core_list *l, int axis, const double *latency, size_t stride,
                         double startup) {
  int64_t all = l->n[l->of_axis[axis]];
  double least = HUGE_VAL;
  for (int c = 0; c <= l->of_axis[axis]; c++) {
    int64_t cores = l->n[c];
    bool is_mode = cores == all || (cores < all && (cores & (cores - 1)) == 0);
    double work = (double)cores * (startup + latency[(size_t)c * stride]);
    if (is_mode && work < least) least = work;
  }
  return least / (double)all;
}

/* ---- the tables of shapes ------------------------------------------------------------------- */

/* Marks the shapes that need tables, with their largest number of cores: those with which the smallest chip is within
 * the limit of area, and one step beyond, because neighbours of chips are asked for, too. */
static void mark_used_shapes(struct pz_bounds *b) {
  const struct pz_space *space = b->task->space;
  for (int i = 0; i < space->n_arrays; i++) {
    struct shape *s = &b->shape[i];
    for (int a = 0; a < space->n[PZ_AXIS_TENSOR_CORES]; a++) {
      struct pz_point p = {.kind = (uint32_t)i, .at = {[PZ_AXIS_TENSOR_CORES] = (uint8_t)a}};
      struct pz_chip c;
      pz_space_chip(space, &p, &c);
      s->most_axis = a;
      if (b->task->most_mm2 > 0 && pz_chip_taken(&c).mm2 > b->task->most_mm2) break;
      s->is_within = true;
    }
  }
  for (int i = 0; i < space->n_arrays; i++) {
    bool lower = i > 0 && b->shape[i - 1].is_within;
    bool higher = i + 1 < space->n_arrays && b->shape[i + 1].is_within;
    b->shape[i].is_used = b->shape[i].is_within || lower || higher;
  }
}

static double *new_table(struct pz_call *own, int rows, uint32_t columns) {
  return pz_alloc(own, (size_t)rows * columns, sizeof(double));
}

/* Maps all GEMMs on one shape.  Returns the status of the mapper, with its error in *err. */
static enum pz_status sweep_shape(struct pz_bounds *b, struct shape *s, const struct pz_chip *chip,
                                  struct pz_error *err) {
  uint32_t n = b->gemms.n;
  double core_s[MOST_CORES], hbm_s[PZ_SPACE_MOST_VALUES];
  struct pz_sweep sizes = {b->tensor.n, b->glb_bytes, (size_t)b->tensor.of_axis[s->most_axis] + 1,
                           (size_t)b->task->space->n[PZ_AXIS_GLB_MIB]};
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_dims *d = pz_vec_at(&b->gemms, struct pz_dims, i);
    struct pz_product p = {d->batch, d->m, d->n, d->k, false};
    enum pz_status status = pz_map_sweep(&p, chip, &sizes, core_s, hbm_s, &s->startup_s[i], err);
    if (status != PZ_OK) return status;
    for (size_t c = 0; c < sizes.n_cores; c++) s->core_s[c * n + i] = core_s[c];
    for (size_t g = 0; g < sizes.n_glb; g++) s->hbm_s[g * n + i] = hbm_s[g];
  }
  return PZ_OK;
}

/* Adds the GEMMs of a graph to the work and the traffic of the shape.  work[axis][gemm] is that of each GEMM. */
static void sum_shape(struct pz_bounds *b, struct shape *s, const double *work, uint32_t graph) {
  const struct layer_graph *g = pz_vec_at(&b->graphs, struct layer_graph, graph);
  int n_glb = b->task->space->n[PZ_AXIS_GLB_MIB];
  for (uint32_t i = 0; i < g->n_ops; i++) {
    const struct item *it = item_at(b, pz_vec_at(&b->ops, struct graph_op, g->first_op + i)->item);
    if (it->gemm == PZ_NONE) continue;
    for (int a = 0; a <= s->most_axis; a++)
      s->work_s[(size_t)a * b->graphs.n + graph] += work[(size_t)a * b->gemms.n + it->gemm];
    for (int m = 0; m < n_glb; m++)
      s->traffic_s[(size_t)m * b->graphs.n + graph] +=
          fmax(0, s->hbm_s[(size_t)m * b->gemms.n + it->gemm] + it->extra.hbm_s);
  }
}

/* A shape that the mapper has no tile for is impossible, with the reason in *why. */
static void fill_shape(struct pz_call *call, struct pz_bounds *b, uint32_t array,
                       struct pz_error *why) {
  struct shape *s = &b->shape[array];
  struct pz_point p = {.kind = array};
  struct pz_chip chip;
  pz_space_chip(b->task->space, &p, &chip);
  enum pz_status status = sweep_shape(b, s, &chip, why);
  s->impossible = status == PZ_BAD_INPUT;
  if (s->impossible) return;
  if (status != PZ_OK) pz_raise_again(call, why);
  double *work = new_table(call, s->most_axis + 1, b->gemms.n);
  for (int a = 0; a <= s->most_axis; a++)
    for (uint32_t i = 0; i < b->gemms.n; i++)
      work[(size_t)a * b->gemms.n + i] =
          least_work(&b->tensor, a, &s->core_s[i], b->gemms.n, s->startup_s[i]);
  for (uint32_t g = 0; g < b->graphs.n; g++) sum_shape(b, s, work, g);
}

/* ---- the tables of lanes -------------------------------------------------------------------- */

/* The index of the table for the lanes of a chip. */
static uint32_t lanes_of_chip(const struct pz_bounds *b, const struct pz_point *p) {
  const struct pz_space *s = b->task->space;
  if (s->value[PZ_AXIS_LANES][0] != PZ_SPACE_AS_COLUMNS) return p->at[PZ_AXIS_LANES];
  uint32_t i = 0;
  while (s->array[b->lanes_at[i].kind].cols != s->array[p->kind].cols) i++;
  return i;
}

/* Lists the different numbers of lanes: those of the axis, or the numbers of columns of the arrays. */
static void list_lanes(struct pz_bounds *b) {
  const struct pz_space *s = b->task->space;
  if (s->value[PZ_AXIS_LANES][0] != PZ_SPACE_AS_COLUMNS) {
    b->n_lanes = s->n[PZ_AXIS_LANES];
    for (int i = 0; i < b->n_lanes; i++)
      b->lanes_at[i] = (struct pz_point){.at = {[PZ_AXIS_LANES] = (uint8_t)i}};
    return;
  }
  for (int i = 0; i < s->n_arrays; i++) {
    int k = 0;
    while (k < b->n_lanes && s->array[b->lanes_at[k].kind].cols != s->array[i].cols) k++;
    if (k == b->n_lanes) b->lanes_at[b->n_lanes++] = (struct pz_point){.kind = (uint32_t)i};
  }
}

static void fill_lanes(struct pz_call *call, struct pz_bounds *b, uint32_t index, unsigned worker) {
  const struct pz_space *s = b->task->space;
  struct lanes *l = &b->lanes[index];
  struct pz_cost *cost = &b->cost[worker];
  struct pz_chip chip;
  pz_space_chip(s, &b->lanes_at[index], &chip);
  for (int c = 0; c < b->vector.count; c++) {
    chip.vector.cores = b->vector.n[c];
    pz_cost_set_chip(cost, &chip, &b->task->net);
    for (uint32_t i = 0; i < n_others(b); i++) {
      const struct pz_op *op = item_at(b, b->n_gemm_items + i)->op;
      struct pz_estimate e = {0};
      /* Fused attention needs tensor cores, too, which are unknown here: its bound is 0. */
      if (!op->matmul_flop) pz_must(call, pz_cost_op(cost, op, &e, pz_call_error(call)));
      l->latency_s[(size_t)c * n_others(b) + i] = e.latency_s;
    }
  }
  for (uint32_t k = 0; k < b->graphs.n; k++) {
    const struct layer_graph *g = pz_vec_at(&b->graphs, struct layer_graph, k);
    for (uint32_t i = 0; i < g->n_ops; i++) {
      uint32_t item = pz_vec_at(&b->ops, struct graph_op, g->first_op + i)->item;
      if (item < b->n_gemm_items || item_at(b, item)->op->op_class != PZ_CLASS_VECTOR) continue;
      const double *latency = &l->latency_s[item - b->n_gemm_items];
      for (int a = 0; a < s->n[PZ_AXIS_VECTOR_CORES]; a++)
        l->work_s[(size_t)a * b->graphs.n + k] +=
            least_work(&b->vector, a, latency, n_others(b), 0);
    }
  }
}

/* ---- filling all tables --------------------------------------------------------------------- */

struct table_filling {
  struct pz_bounds *b;
  struct pz_error *why_impossible; /* of each shape */
};

/* Tasks are the shapes, then the lanes. */
static void fill_table(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  const struct table_filling *f = ctx;
  struct pz_bounds *b = f->b;
  size_t n_shapes = (size_t)b->task->space->n_arrays;
  if (b->watch.stop && atomic_load(b->watch.stop)) pz_raise(task, PZ_STOPPED, "stopped");
  if (i >= n_shapes)
    fill_lanes(task, b, (uint32_t)(i - n_shapes), worker);
  else if (b->shape[i].is_used)
    fill_shape(task, b, (uint32_t)i, &f->why_impossible[i]);
  else
    return;
  pz_progress_add(b->watch.progress, 1);
}

static void finish_progress(void *progress) { pz_progress_finish(progress, NULL); }

/* Allocates the tables and fills them in parallel.  If no shape within the limit is possible, the reason of the first
 * is raised. */
static void fill_tables(struct pz_call *call, struct pz_call *own, struct pz_bounds *b,
                        struct pz_pool *pool) {
  const struct pz_space *space = b->task->space;
  int n_shapes = space->n_arrays, n_used = b->n_lanes, n_glb = space->n[PZ_AXIS_GLB_MIB];
  const struct pz_error *why = NULL;
  struct table_filling f = {b, pz_alloc(call, (size_t)n_shapes, sizeof *f.why_impossible)};
  for (int i = 0; i < n_shapes; i++) {
    struct shape *s = &b->shape[i];
    if (!s->is_used) continue;
    s->core_s = new_table(own, b->tensor.of_axis[s->most_axis] + 1, b->gemms.n);
    s->hbm_s = new_table(own, n_glb, b->gemms.n);
    s->startup_s = new_table(own, 1, b->gemms.n);
    s->work_s = new_table(own, s->most_axis + 1, b->graphs.n);
    s->traffic_s = new_table(own, n_glb, b->graphs.n);
    n_used++;
  }
  for (int i = 0; i < b->n_lanes; i++) {
    b->lanes[i].latency_s = new_table(own, b->vector.count, n_others(b));
    b->lanes[i].work_s = new_table(own, space->n[PZ_AXIS_VECTOR_CORES], b->graphs.n);
  }
  pz_progress_next(b->watch.progress, "tables", "tables", (uint64_t)n_used);
  pz_defer(call, finish_progress, b->watch.progress);
  pz_pool_run(call, pool, (size_t)(n_shapes + b->n_lanes), fill_table, &f);
  pz_close(call, b->watch.progress);
  for (int i = 0; i < n_shapes; i++) {
    if (!b->shape[i].is_within) continue;
    if (!b->shape[i].impossible) return;
    if (!why) why = &f.why_impossible[i];
  }
  if (why) pz_raise(call, PZ_BAD_INPUT, "%s", why->message);
}

/* ---- creation ------------------------------------------------------------------------------- */

static void release_costs(void *bounds) {
  struct pz_bounds *b = bounds;
  for (unsigned i = 0; b->cost && i < b->n_workers; i++) pz_cost_release(&b->cost[i]);
}

struct pz_bounds *pz_bounds_create(struct pz_call *call, const struct pz_original_task *task,
                                   struct pz_pool *pool, struct pz_watch watch) {
  struct pz_call own, work = pz_scratch(call);
  struct pz_bounds *b = pz_object_new(call, sizeof *b, &own);
  uint32_t n_variants = task->portfolio->n_variants;
  b->task = task;
  b->watch = watch;
  b->n_workers = pz_pool_threads(pool);
  b->cost = pz_alloc(&own, b->n_workers, sizeof *b->cost);
  for (unsigned i = 0; i < b->n_workers; i++)
    pz_cost_init(&b->cost[i], &task->space->base, &task->net);
  pz_defer(call, release_costs, b);
  list_cores(task->space, PZ_AXIS_TENSOR_CORES, &b->tensor);
  list_cores(task->space, PZ_AXIS_VECTOR_CORES, &b->vector);
  list_lanes(b);
  for (int i = 0; i < task->space->n[PZ_AXIS_GLB_MIB]; i++) {
    struct pz_point p = {.at = {[PZ_AXIS_GLB_MIB] = (uint8_t)i}};
    struct pz_chip c;
    pz_space_chip(task->space, &p, &c);
    b->glb_bytes[i] = c.glb_bytes;
  }
  mark_used_shapes(b);
  collect_operators(&work, &own, b);
  fill_links(call, b);
  b->lower_bound = pz_alloc(&own, n_variants, sizeof *b->lower_bound);
  for (uint32_t v = 0; v < n_variants; v++) fill_lower_bound(&own, b, v);
  fill_tables(&work, &own, b, pool);
  pz_scratch_end(&work);
  pz_undefer(call, b);
  return pz_object_keep(call, b);
}

void pz_bounds_free(struct pz_bounds *b) {
  if (b) release_costs(b);
  pz_object_free(b);
}

/* ---- at a chip or a box --------------------------------------------------------------------- */

struct pz_bounds_at {
  const struct pz_bounds *b;
  bool impossible;
  double *latency_s; /* of each item, on all cores */
  /* Of each graph: rows of the tables, or for a box, of box_s. */
  const double *tensor_s, *vector_s, *traffic_s;
  double *box_s;                           /* three rows */
  double *core_s, *gemm_hbm_s, *startup_s; /* of each GEMM in a box */
  double *fwd_s, *bwd_s;                   /* of each layer of a variant */
  uint32_t likely_best
      [PZ_SEARCH_MOST_MODELS]; /* the variant that was best at the last chip; 0: unknown */
};

struct pz_bounds_at *pz_bounds_at_new(struct pz_call *call, const struct pz_bounds *b) {
  struct pz_bounds_at *at = pz_alloc(call, 1, sizeof *at);
  uint32_t layers = b->task->portfolio->most_layers;
  at->b = b;
  at->latency_s = pz_alloc(call, b->items.n, sizeof *at->latency_s);
  at->box_s = pz_alloc(call, 3 * (size_t)b->graphs.n, sizeof *at->box_s);
  at->core_s = pz_alloc(call, 3 * (size_t)b->gemms.n, sizeof *at->core_s);
  at->gemm_hbm_s = at->core_s + b->gemms.n;
  at->startup_s = at->core_s + 2 * (size_t)b->gemms.n;
  at->fwd_s = pz_alloc(call, layers, sizeof *at->fwd_s);
  at->bwd_s = pz_alloc(call, layers, sizeof *at->bwd_s);
  return at;
}

bool pz_bounds_impossible(const struct pz_bounds_at *at) { return at->impossible; }

bool pz_bounds_cover(const struct pz_bounds_at *at, const struct pz_point *p) {
  const struct shape *s = &at->b->shape[p->kind];
  return s->is_used && p->at[PZ_AXIS_TENSOR_CORES] <= s->most_axis;
}

/* Lane operations per second of all vector cores. */
static double lane_ops_per_s(const struct pz_space *s, const struct pz_point *p) {
  struct pz_chip c;
  pz_space_chip(s, p, &c);
  return (double)(c.vector.cores * c.vector.lanes) * c.clock_hz;
}

static void set_gemm_latencies(struct pz_bounds_at *at, const double *core_s, const double *hbm_s,
                               const double *startup_s, double lane_ops) {
  const struct item *items = at->b->items.items;
  for (uint32_t i = 0; i < at->b->n_gemm_items; i++) {
    uint32_t k = items[i].gemm;
    at->latency_s[i] =
        startup_s[k] + pz_cost_with_extra_s(&items[i].extra, core_s[k], hbm_s[k], lane_ops);
  }
}

void pz_bounds_go(struct pz_bounds_at *at, const struct pz_point *p) {
  const struct pz_bounds *b = at->b;
  const struct shape *s = &b->shape[p->kind];
  const struct lanes *l = &b->lanes[lanes_of_chip(b, p)];
  size_t n_gemms = b->gemms.n, others = n_others(b), n_graphs = b->graphs.n;
  uint8_t tensor = p->at[PZ_AXIS_TENSOR_CORES], vector = p->at[PZ_AXIS_VECTOR_CORES];
  uint8_t glb = p->at[PZ_AXIS_GLB_MIB];
  at->impossible = s->impossible;
  if (s->impossible) return;
  set_gemm_latencies(at, &s->core_s[b->tensor.of_axis[tensor] * n_gemms], &s->hbm_s[glb * n_gemms],
                     s->startup_s, lane_ops_per_s(b->task->space, p));
  memcpy(&at->latency_s[b->n_gemm_items], &l->latency_s[b->vector.of_axis[vector] * others],
         others * sizeof *at->latency_s);
  at->tensor_s = &s->work_s[tensor * n_graphs];
  at->vector_s = &l->work_s[vector * n_graphs];
  at->traffic_s = &s->traffic_s[glb * n_graphs];
}

static void lower_to_row(double *least, const double *row, size_t n) {
  for (size_t i = 0; i < n; i++) least[i] = row[i] < least[i] ? row[i] : least[i];
}

static void set_all(double *list, double value, size_t n) {
  for (size_t i = 0; i < n; i++) list[i] = value;
}

void pz_bounds_go_box(struct pz_bounds_at *at, const struct pz_box *box) {
  const struct pz_bounds *b = at->b;
  const struct shape *s = &b->shape[box->kind];
  size_t n_gemms = b->gemms.n, others = n_others(b), n_graphs = b->graphs.n;
  struct pz_point lo = pz_box_point(box), hi = lo;
  memcpy(hi.at, box->hi, sizeof hi.at);
  at->impossible = !s->is_used || s->impossible || lo.at[PZ_AXIS_TENSOR_CORES] > s->most_axis;
  if (at->impossible) return;
  set_all(at->core_s, HUGE_VAL, 3 * n_gemms);
  set_all(at->box_s, HUGE_VAL, 3 * n_graphs);
  set_all(at->latency_s, HUGE_VAL, b->items.n);
  int most_tensor =
      hi.at[PZ_AXIS_TENSOR_CORES] < s->most_axis ? hi.at[PZ_AXIS_TENSOR_CORES] : s->most_axis;
  for (int a = lo.at[PZ_AXIS_TENSOR_CORES]; a <= most_tensor; a++) {
    lower_to_row(at->core_s, &s->core_s[b->tensor.of_axis[a] * n_gemms], n_gemms);
    lower_to_row(at->box_s, &s->work_s[(size_t)a * n_graphs], n_graphs);
  }
  for (size_t glb = lo.at[PZ_AXIS_GLB_MIB]; glb <= hi.at[PZ_AXIS_GLB_MIB]; glb++) {
    lower_to_row(at->gemm_hbm_s, &s->hbm_s[glb * n_gemms], n_gemms);
    lower_to_row(at->box_s + 2 * n_graphs, &s->traffic_s[glb * n_graphs], n_graphs);
  }
  lower_to_row(at->startup_s, s->startup_s, n_gemms);
  for (uint32_t k = lanes_of_chip(b, &lo); k <= lanes_of_chip(b, &hi); k++)
    for (size_t a = lo.at[PZ_AXIS_VECTOR_CORES]; a <= hi.at[PZ_AXIS_VECTOR_CORES]; a++) {
      const struct lanes *l = &b->lanes[k];
      lower_to_row(&at->latency_s[b->n_gemm_items], &l->latency_s[b->vector.of_axis[a] * others],
                   others);
      lower_to_row(at->box_s + n_graphs, &l->work_s[a * n_graphs], n_graphs);
    }
  set_gemm_latencies(at, at->core_s, at->gemm_hbm_s, at->startup_s,
                     lane_ops_per_s(b->task->space, &hi));
  at->tensor_s = at->box_s;
  at->vector_s = at->box_s + n_graphs;
  at->traffic_s = at->box_s + 2 * n_graphs;
}

/* ---- layers, variants, models --------------------------------------------------------------- */

static double longest_path(const struct pz_bounds *b, const struct layer_graph *g,
                           const double *latency) {
  const struct graph_op *ops = pz_vec_at(&b->ops, struct graph_op, g->first_op);
  const uint32_t *preds = b->preds.items;
  double end[MOST_OPS], longest = 0;
  for (uint32_t i = 0; i < g->n_ops; i++) {
    double start = 0;
    const uint32_t *pred = &preds[ops[i].first_pred];
    for (uint32_t k = 0; k < ops[i].n_pred; k++)
      if (end[pred[k]] > start) start = end[pred[k]];
    end[i] = start + latency[ops[i].item];
    if (end[i] > longest) longest = end[i];
  }
  return longest;
}

/* Schedulers add in another order, so that the bound is lowered by more than the rounding. */
double pz_bounds_layer_s(struct pz_bounds_at *at, uint32_t variant, uint32_t layer,
                         enum pz_direction direction) {
  static const double ROUNDING = 1 - 1e-9;
  const struct pz_bounds *b = at->b;
  uint32_t k = b->first_graph[variant] + 2 * layer + (uint32_t)direction;
  const struct layer_graph *g = pz_vec_at(&b->graphs, struct layer_graph, k);
  double work = pz_fmax(at->tensor_s[k], at->vector_s[k]);
  work = pz_fmax(work, pz_fmax(at->traffic_s[k] + g->hbm_s, g->link_s));
  return pz_fmax(work, longest_path(b, g, at->latency_s)) * ROUNDING;
}

double pz_bounds_variant_s(struct pz_bounds_at *at, uint32_t variant, bool recompute,
                           double limit_s) {
  uint32_t n = at->b->task->portfolio->variants[variant].w->n_layers;
  for (uint32_t i = 0; i < n; i++) {
    at->fwd_s[i] = pz_bounds_layer_s(at, variant, i, PZ_FORWARD);
    at->bwd_s[i] = pz_bounds_layer_s(at, variant, i, PZ_BACKWARD);
  }
  return pz_bounds_times_s(at, variant, recompute, at->fwd_s, at->bwd_s, limit_s);
}

double pz_bounds_times_s(const struct pz_bounds_at *at, uint32_t variant, bool recompute,
                         const double *fwd_s, const double *bwd_s, double limit_s) {
  return pz_place_bound_time_s(&at->b->lower_bound[variant][recompute], fwd_s, bwd_s, limit_s);
}

/* The bound of a variant with and without recomputation; the times of the layers are the same. */
static double variant_bound(struct pz_bounds_at *at, uint32_t variant, double limit_s) {
  double saved = pz_bounds_variant_s(at, variant, false, limit_s);
  double recomputed =
      pz_bounds_times_s(at, variant, true, at->fwd_s, at->bwd_s, saved < limit_s ? saved : limit_s);
  return saved < recomputed ? saved : recomputed;
}

double pz_bounds_model_s(struct pz_bounds_at *at, uint32_t model) {
  if (pz_bounds_impossible(at)) return HUGE_VAL;
  const struct pz_portfolio *p = at->b->task->portfolio;
  uint32_t first = at->likely_best[model] ? at->likely_best[model] : p->first[model];
  double best = variant_bound(at, first, HUGE_VAL);
  for (uint32_t v = p->first[model]; v < p->first[model + 1]; v++) {
    if (v == first) continue;
    double bound = variant_bound(at, v, best);
    if (bound < best) {
      best = bound;
      at->likely_best[model] = v;
    }
  }
  return best;
}
