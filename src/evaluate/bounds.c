#include "evaluate/bounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/map.h"
#include "core/num.h"
#include "core/vec.h"
#include "cost/cost.h"
#include "partition/problem.h"
#include "workload/op.h"

#define NO_MEMORY "out of memory for the bounds"
enum { MOST_CORES = 2 * PZ_SPACE_MOST_VALUES, MOST_OPS = 1024 };

/* An operator as bounds see it: equal ones are one item.  Products come first. */
struct item {
  const struct pz_op *op;
  uint32_t product;
  struct pz_product_extra extra;
};

/* A layer in one direction. */
struct dag {
  uint32_t first_op, n_ops;
  double link_s, hbm_s; /* on the link; at the HBM, without products */
};

struct dag_op {
  uint32_t item, first_pred, n_pred;
};

/* Numbers of cores for which something is known: those of the axis and the powers of two that are
 * modes. */
struct core_list {
  int64_t n[MOST_CORES];
  int count;
  uint16_t of_axis[PZ_SPACE_MOST_VALUES];
};

/* Products on one shape of tensor core. */
struct shape {
  bool used, within; /* asked for; there are chips within the limit of area */
  bool impossible;   /* the mapper has no tile for it */
  int most_axis;     /* the largest number of cores, on the axis */
  double *core_s;    /* [cores][product] */
  double *hbm_s;     /* [glb][product] */
  double *startup_s; /* [product] */
  double *work_s;    /* [axis of cores][dag]: tensor cores' work over their number */
  double *traffic_s; /* [glb][dag]: at the HBM */
};

/* Other operators with so many lanes. */
struct lanes {
  double *latency_s; /* [cores][other] */
  double *work_s;    /* [axis of cores][dag] */
};

struct pz_bounds {
  const struct pz_original_task *task;
  struct pz_arena arena;
  struct pz_cost *cost; /* one for each worker */
  unsigned n_workers;
  struct pz_vec items, products, dags, ops, preds;
  uint32_t n_product_items;
  uint32_t *first_dag; /* by variant; two for each layer */
  struct core_list tensor, vector;
  int64_t glb_bytes[PZ_SPACE_MOST_VALUES]; /* of the axis */
  struct shape shape[PZ_SPACE_MOST_ARRAYS];
  int n_lanes; /* different numbers: */
  struct lanes lanes[PZ_SPACE_MOST_VALUES];
  struct pz_point lanes_at[PZ_SPACE_MOST_VALUES]; /* a chip that has them */
  struct pz_place_bound (*lower_bound)[2];        /* by variant and recomputation */
  struct pz_watch watch;
  struct pz_error err; /* the first of any worker */
};

static const struct item *item_at(const struct pz_bounds *b, uint32_t i) {
  return pz_vec_at(&b->items, struct item, i);
}

static uint32_t n_others(const struct pz_bounds *b) { return b->items.n - b->n_product_items; }

/* ---- items and graphs ----------------------------------------------------------------------- */

static bool is_product(const struct pz_op *op) {
  return op->matmul_flop && !pz_op_mixes_tokens(op->kind);
}

struct collector {
  struct pz_bounds *b;
  struct pz_map items, products;
};

static bool add_item(struct collector *c, const struct pz_op *op, uint32_t *out) {
  struct pz_bounds *b = c->b;
  const struct pz_chip *chip = &b->task->space->base;
  struct item item = {.op = op, .product = PZ_NONE};
  if (is_product(op)) item.extra = pz_cost_extra(chip, op);
  struct {
    int64_t kind, direction, class, batch, m, n, k, read, written;
    double tail_ops;
  } key = {op->kind,          op->direction,
           op->op_class,      op->dims.batch,
           op->dims.m,        op->dims.n,
           op->dims.k,        op->bytes_read,
           op->bytes_written, pz_cost_extra(chip, op).tail_ops};
  *out = pz_map_get(&c->items, &key, sizeof key);
  if (*out != PZ_NONE) return true;
  if (is_product(op)) {
    uint32_t at = pz_map_get(&c->products, &op->dims, sizeof op->dims);
    item.product = at == PZ_NONE ? b->products.n : at;
    if (at == PZ_NONE && (!pz_vec_push(&b->products, &op->dims) ||
                          pz_map_put(&c->products, &op->dims, sizeof op->dims, item.product)))
      return false;
  }
  *out = b->items.n;
  return pz_vec_push(&b->items, &item) && pz_map_put(&c->items, &key, sizeof key, *out) == PZ_OK;
}

static enum pz_status add_dag(struct collector *c, const struct pz_ops *ops) {
  struct pz_bounds *b = c->b;
  struct dag dag = {.first_op = b->ops.n, .n_ops = ops->n};
  if (ops->n > MOST_OPS)
    return pz_fail(&b->err, PZ_LIMIT, "a layer of %u operators; accepted: at most %d", ops->n,
                   MOST_OPS);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    struct dag_op o = {.first_pred = b->preds.n, .n_pred = op->n_pred};
    bool ok = add_item(c, op, &o.item) && pz_vec_push(&b->ops, &o);
    for (uint32_t k = 0; k < op->n_pred && ok; k++) ok = pz_vec_push(&b->preds, &op->pred[k]);
    if (!ok) return pz_fail(&b->err, PZ_NO_MEMORY, NO_MEMORY);
  }
  return pz_vec_push(&b->dags, &dag) ? PZ_OK : pz_fail(&b->err, PZ_NO_MEMORY, NO_MEMORY);
}

/* Products first: then what a chip must compute for each item is one loop of each kind. */
static enum pz_status sort_items(struct pz_bounds *b) {
  uint32_t n = b->items.n, at = 0;
  uint32_t *place = pz_arena_alloc(&b->arena, n, sizeof *place);
  struct item *sorted = pz_arena_alloc(&b->arena, n, sizeof *sorted);
  if (!place || !sorted) return pz_fail(&b->err, PZ_NO_MEMORY, NO_MEMORY);
  for (int other = 0; other < 2; other++) {
    for (uint32_t i = 0; i < n; i++)
      if ((item_at(b, i)->product == PZ_NONE) == other) place[i] = at++;
    if (!other) b->n_product_items = at;
  }
  for (uint32_t i = 0; i < n; i++) sorted[place[i]] = *item_at(b, i);
  b->items.items = sorted;
  for (uint32_t i = 0; i < b->ops.n; i++) {
    struct dag_op *o = pz_vec_at(&b->ops, struct dag_op, i);
    o->item = place[o->item];
  }
  return PZ_OK;
}

static enum pz_status collect(struct pz_bounds *b) {
  const struct pz_portfolio *p = b->task->portfolio;
  struct collector c = {.b = b};
  enum pz_status status = PZ_OK;
  pz_map_init(&c.items, &b->arena);
  pz_map_init(&c.products, &b->arena);
  b->first_dag = pz_arena_alloc(&b->arena, p->n_variants, sizeof *b->first_dag);
  if (!b->first_dag) return pz_fail(&b->err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t l = 0; l < p->n_variants; l++) {
    b->first_dag[l] = b->dags.n;
    for (uint32_t i = 0; i < p->variants[l].w->n_layers && status == PZ_OK; i++)
      for (int d = PZ_FORWARD; d <= PZ_BACKWARD && status == PZ_OK; d++)
        status = add_dag(&c, &p->variants[l].w->layers[i].ops[d]);
  }
  return status == PZ_OK ? sort_items(b) : status;
}

/* ---- core counts ---------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void list_cores(const struct pz_space *s, enum pz_axis axis, struct core_list *l) {
  int64_t v[PZ_SPACE_MOST_VALUES] = {0};
  int n = s->n[axis], count = 0;
  for (int i = 0; i < n; i++) {
    struct pz_point p = {0};
    struct pz_chip c;
    p.at[axis] = (uint8_t)i;
    pz_space_chip(s, &p, &c);
    l->n[count++] = v[i] = axis == PZ_AXIS_TENSOR_CORES ? c.tensor.cores : c.vector.cores;
  }
  for (int64_t c = 1; c < v[n - 1]; c *= 2) l->n[count++] = c;
  qsort(l->n, (size_t)count, sizeof *l->n, by_size);
  for (int i = 0; i < count; i++)
    if (i == 0 || l->n[i] != l->n[l->count - 1]) l->n[l->count++] = l->n[i];
  for (int i = 0, at = 0; i < n; i++) {
    while (l->n[at] != v[i]) at++;
    l->of_axis[i] = (uint16_t)at;
  }
}

/* Is an operator on so many cores a mode of a chip with `all`? */
static bool is_mode(int64_t cores, int64_t all) {
  return cores == all || (cores < all && (cores & (cores - 1)) == 0);
}

/* The least core-seconds of an operator over the modes of a chip with the axis' i-th number of
 * cores, over that number.  latency[c * stride] on the c-th number of the list. */
static double least_work(const struct core_list *l, int axis, const double *latency, size_t stride,
                         double startup) {
  int64_t all = l->n[l->of_axis[axis]];
  double least = HUGE_VAL;
  for (int c = 0; c <= l->of_axis[axis]; c++) {
    double work = (double)l->n[c] * (startup + latency[(size_t)c * stride]);
    if (is_mode(l->n[c], all) && work < least) least = work;
  }
  return least / (double)all;
}

/* ---- one shape of tensor core --------------------------------------------------------------- */

static enum pz_status sweep(struct pz_bounds *b, struct shape *s, const struct pz_chip *chip,
                            struct pz_error *err) {
  uint32_t n = b->products.n;
  double core_s[MOST_CORES], hbm_s[PZ_SPACE_MOST_VALUES];
  struct pz_sweep sizes = {b->tensor.n, b->glb_bytes, (size_t)b->tensor.of_axis[s->most_axis] + 1,
                           (size_t)b->task->space->n[PZ_AXIS_GLB_MIB]};
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_dims *d = pz_vec_at(&b->products, struct pz_dims, i);
    struct pz_product p = {d->batch, d->m, d->n, d->k, false};
    enum pz_status status = pz_map_sweep(&p, chip, &sizes, core_s, hbm_s, &s->startup_s[i], err);
    if (status != PZ_OK) return status;
    for (size_t c = 0; c < sizes.n_cores; c++) s->core_s[c * n + i] = core_s[c];
    for (size_t g = 0; g < sizes.n_glb; g++) s->hbm_s[g * n + i] = hbm_s[g];
  }
  return PZ_OK;
}

static void sum_shape(struct pz_bounds *b, struct shape *s, const double *work, uint32_t dag) {
  const struct dag *d = pz_vec_at(&b->dags, struct dag, dag);
  int n_glb = b->task->space->n[PZ_AXIS_GLB_MIB];
  for (uint32_t i = 0; i < d->n_ops; i++) {
    const struct item *it = item_at(b, pz_vec_at(&b->ops, struct dag_op, d->first_op + i)->item);
    if (it->product == PZ_NONE) continue;
    for (int a = 0; a <= s->most_axis; a++)
      s->work_s[(size_t)a * b->dags.n + dag] += work[(size_t)a * b->products.n + it->product];
    for (int g = 0; g < n_glb; g++)
      s->traffic_s[(size_t)g * b->dags.n + dag] +=
          fmax(0, s->hbm_s[(size_t)g * b->products.n + it->product] + it->extra.hbm_s);
  }
}

static double *table(int rows, uint32_t cols) {
  return pz_calloc((size_t)rows * cols + 1, sizeof(double));
}

/* Shapes are made by threads: their tables come from the C library, not from the arena. */
static enum pz_status fill_shape(struct pz_bounds *b, uint32_t array, struct pz_error *err) {
  struct shape *s = &b->shape[array];
  struct pz_point p = {.kind = array};
  struct pz_chip chip;
  int n_glb = b->task->space->n[PZ_AXIS_GLB_MIB];
  pz_space_chip(b->task->space, &p, &chip);
  s->core_s = table(b->tensor.of_axis[s->most_axis] + 1, b->products.n);
  s->hbm_s = table(n_glb, b->products.n);
  s->startup_s = table(1, b->products.n);
  s->work_s = table(s->most_axis + 1, b->dags.n);
  s->traffic_s = table(n_glb, b->dags.n);
  double *work = table(s->most_axis + 1, b->products.n);
  if (!s->core_s || !s->hbm_s || !s->startup_s || !s->work_s || !s->traffic_s || !work) {
    pz_free(work);
    return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  }
  enum pz_status status = sweep(b, s, &chip, err);
  for (int a = 0; status == PZ_OK && a <= s->most_axis; a++)
    for (uint32_t i = 0; i < b->products.n; i++)
      work[(size_t)a * b->products.n + i] =
          least_work(&b->tensor, a, &s->core_s[i], b->products.n, s->startup_s[i]);
  for (uint32_t d = 0; status == PZ_OK && d < b->dags.n; d++) sum_shape(b, s, work, d);
  pz_free(work);
  return status;
}

/* ---- one number of lanes -------------------------------------------------------------------- */

/* Chips with as many lanes have one table. */
static uint32_t lanes_of(const struct pz_bounds *b, const struct pz_point *p) {
  const struct pz_space *s = b->task->space;
  if (s->value[PZ_AXIS_LANES][0] != PZ_SPACE_AS_COLUMNS) return p->at[PZ_AXIS_LANES];
  uint32_t i = 0;
  while (s->array[b->lanes_at[i].kind].cols != s->array[p->kind].cols) i++;
  return i;
}

static void list_lanes(struct pz_bounds *b) {
  const struct pz_space *s = b->task->space;
  bool follow = s->value[PZ_AXIS_LANES][0] == PZ_SPACE_AS_COLUMNS;
  for (int i = 0; i < (follow ? s->n_arrays : s->n[PZ_AXIS_LANES]); i++) {
    struct pz_point p = {.kind = follow ? (uint32_t)i : 0};
    int k = 0;
    if (!follow) p.at[PZ_AXIS_LANES] = (uint8_t)i;
    while (follow && k < b->n_lanes && s->array[b->lanes_at[k].kind].cols != s->array[i].cols) k++;
    if (!follow || k == b->n_lanes) b->lanes_at[b->n_lanes++] = p;
  }
}

static enum pz_status cost_others(struct pz_bounds *b, struct lanes *l, const struct pz_chip *chip,
                                  unsigned worker, struct pz_error *err) {
  struct pz_cost *cost = &b->cost[worker];
  for (int c = 0; c < b->vector.count; c++) {
    struct pz_chip part = *chip;
    part.vector.cores = b->vector.n[c];
    pz_cost_set_chip(cost, &part, &b->task->net);
    for (uint32_t i = 0; i < n_others(b); i++) {
      const struct pz_op *op = item_at(b, b->n_product_items + i)->op;
      struct pz_estimate e = {0};
      /* attention in one piece takes tensor cores too, which are not known here: nothing is
       * claimed */
      enum pz_status status = op->matmul_flop ? PZ_OK : pz_cost_op(cost, op, &e, err);
      if (status != PZ_OK) return status;
      l->latency_s[(size_t)c * n_others(b) + i] = e.latency_s;
    }
  }
  return PZ_OK;
}

static void sum_lanes(struct pz_bounds *b, struct lanes *l, uint32_t dag) {
  const struct dag *d = pz_vec_at(&b->dags, struct dag, dag);
  int n = b->task->space->n[PZ_AXIS_VECTOR_CORES];
  for (uint32_t i = 0; i < d->n_ops; i++) {
    uint32_t item = pz_vec_at(&b->ops, struct dag_op, d->first_op + i)->item;
    if (item < b->n_product_items || item_at(b, item)->op->op_class != PZ_CLASS_VECTOR) continue;
    uint32_t at = item - b->n_product_items;
    for (int a = 0; a < n; a++)
      l->work_s[(size_t)a * b->dags.n + dag] +=
          least_work(&b->vector, a, &l->latency_s[at], n_others(b), 0);
  }
}

static enum pz_status fill_lanes(struct pz_bounds *b, uint32_t at, unsigned worker,
                                 struct pz_error *err) {
  const struct pz_space *s = b->task->space;
  struct lanes *l = &b->lanes[at];
  struct pz_chip chip;
  pz_space_chip(s, &b->lanes_at[at], &chip);
  l->latency_s = table(b->vector.count, n_others(b));
  l->work_s = table(s->n[PZ_AXIS_VECTOR_CORES], b->dags.n);
  if (!l->latency_s || !l->work_s) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  enum pz_status status = cost_others(b, l, &chip, worker, err);
  for (uint32_t d = 0; status == PZ_OK && d < b->dags.n; d++) sum_lanes(b, l, d);
  return status;
}

/* ---- what does not depend on the chip ------------------------------------------------------- */

/* Time on the link, and HBM traffic of operators that are no products. */
static enum pz_status fill_links(struct pz_bounds *b) {
  pz_cost_set_chip(&b->cost[0], &b->task->space->base, &b->task->net);
  for (uint32_t k = 0; k < b->dags.n; k++) {
    struct dag *d = pz_vec_at(&b->dags, struct dag, k);
    for (uint32_t i = 0; i < d->n_ops; i++) {
      const struct pz_op *op =
          item_at(b, pz_vec_at(&b->ops, struct dag_op, d->first_op + i)->item)->op;
      struct pz_estimate e;
      if (op->matmul_flop) continue;
      enum pz_status status = pz_cost_op(&b->cost[0], op, &e, &b->err);
      if (status != PZ_OK) return status;
      d->hbm_s += e.hbm_s;
      if (op->op_class == PZ_CLASS_COLLECTIVE) d->link_s += e.latency_s;
    }
  }
  return PZ_OK;
}

static enum pz_status fill_lower_bound(struct pz_bounds *b, uint32_t variant) {
  const struct pz_variant *l = &b->task->portfolio->variants[variant];
  uint32_t *runs = pz_arena_alloc(&b->arena, l->w->n_layers, sizeof *runs);
  struct pz_place_width *width = pz_arena_alloc(&b->arena, 1, sizeof *width);
  struct pz_layer_time(*none)[2] = pz_arena_alloc(&b->arena, l->w->n_layers, sizeof *none);
  if (!runs || !width || !none) return pz_fail(&b->err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t i = 0; i < l->w->n_layers; i++) runs[i] = (uint32_t)l->w->layers[i].count;
  enum pz_status status = pz_place_chain(l->w, none, false, &b->arena, width, &b->err);
  for (int r = 0; r < 2 && status == PZ_OK; r++) {
    struct pz_place_problem p = pz_task_problem(b->task, l, pz_task_most_hbm(b->task), r);
    p.widths = width;
    status = pz_place_bound_init(&b->lower_bound[variant][r], &p, runs, l->w->n_layers, &b->arena,
                                 &b->err);
  }
  return status;
}

/* ---- making --------------------------------------------------------------------------------- */

struct job {
  struct pz_bounds *b;
  struct pz_error *errors; /* by item */
};

/* Items of the parallel loop: shapes, then lanes. */
static void fill_one(void *ctx, size_t i, unsigned worker) {
  struct job *j = ctx;
  size_t shapes = (size_t)j->b->task->space->n_arrays;
  struct pz_error *err = &j->errors[i];
  enum pz_status status = PZ_OK;
  if (j->b->watch.stop && atomic_load(j->b->watch.stop)) {
    pz_fail(err, PZ_STOPPED, "stopped");
    return;
  }
  struct shape *s = i < shapes ? &j->b->shape[i] : NULL;
  if (s && s->used) status = fill_shape(j->b, (uint32_t)i, err);
  if (s && status == PZ_BAD_INPUT) {
    s->impossible = true;
    status = PZ_OK;
  }
  if (i >= shapes) status = fill_lanes(j->b, (uint32_t)(i - shapes), worker, err);
  err->status = status;
  if (!s || s->used) pz_progress_add(j->b->watch.progress, 1);
}

static uint64_t count_tables(const struct pz_bounds *b) {
  uint64_t n = (uint64_t)b->n_lanes;
  for (int i = 0; i < b->task->space->n_arrays; i++) n += b->shape[i].used;
  return n;
}

/* Nothing to search when no shape within the limits is possible: the first one's reason. */
static enum pz_status check_shapes(struct pz_bounds *b, const struct pz_error *errors) {
  const struct pz_error *why = NULL;
  for (int i = 0; i < b->task->space->n_arrays; i++) {
    if (!b->shape[i].within) continue;
    if (!b->shape[i].impossible) return PZ_OK;
    if (!why) why = &errors[i];
  }
  if (why) pz_fail(&b->err, PZ_BAD_INPUT, "%s", why->message);
  return why ? PZ_BAD_INPUT : PZ_OK;
}

static enum pz_status fill_tables(struct pz_bounds *b, struct pz_pool *pool) {
  size_t n = (size_t)(b->task->space->n_arrays + b->n_lanes);
  struct job j = {b, pz_arena_alloc(&b->arena, n, sizeof *j.errors)};
  if (!j.errors) return pz_fail(&b->err, PZ_NO_MEMORY, NO_MEMORY);
  pz_progress_next(b->watch.progress, "tables", "tables", count_tables(b));
  pz_pool_for(pool, n, fill_one, &j);
  pz_progress_finish(b->watch.progress, NULL);
  for (size_t i = 0; i < n; i++)
    if (j.errors[i].status != PZ_OK) {
      b->err = j.errors[i];
      return b->err.status;
    }
  return check_shapes(b, j.errors);
}

/* The largest number of cores with which the least of all else is within the limit of area, and one step beyond, which
 * neighbours of chips are asked for; the same of arrays. */
static void mark_used(struct pz_bounds *b) {
  const struct pz_space *space = b->task->space;
  for (int i = 0; i < space->n_arrays; i++) {
    struct shape *s = &b->shape[i];
    for (int a = 0; a < space->n[PZ_AXIS_TENSOR_CORES]; a++) {
      struct pz_point p = {.kind = (uint32_t)i, .at = {[PZ_AXIS_TENSOR_CORES] = (uint8_t)a}};
      struct pz_chip c;
      pz_space_chip(space, &p, &c);
      s->most_axis = a;
      if (b->task->most_mm2 > 0 && pz_chip_taken(&c).mm2 > b->task->most_mm2) break;
      s->within = true;
    }
  }
  for (int i = 0; i < space->n_arrays; i++)
    b->shape[i].used = b->shape[i].within || (i > 0 && b->shape[i - 1].within) ||
                       (i + 1 < space->n_arrays && b->shape[i + 1].within);
}

static void list_glb(struct pz_bounds *b) {
  for (int i = 0; i < b->task->space->n[PZ_AXIS_GLB_MIB]; i++) {
    struct pz_point p = {.at = {[PZ_AXIS_GLB_MIB] = (uint8_t)i}};
    struct pz_chip c;
    pz_space_chip(b->task->space, &p, &c);
    b->glb_bytes[i] = c.glb_bytes;
  }
}

static enum pz_status make(struct pz_bounds *b, struct pz_pool *pool) {
  uint32_t n_variants = b->task->portfolio->n_variants;
  b->cost = pz_arena_alloc(&b->arena, b->n_workers, sizeof *b->cost);
  b->lower_bound = pz_arena_alloc(&b->arena, n_variants, sizeof *b->lower_bound);
  if (!b->cost || !b->lower_bound) return pz_fail(&b->err, PZ_NO_MEMORY, NO_MEMORY);
  for (unsigned i = 0; i < b->n_workers; i++)
    pz_cost_init(&b->cost[i], &b->task->space->base, &b->task->net);
  list_cores(b->task->space, PZ_AXIS_TENSOR_CORES, &b->tensor);
  list_cores(b->task->space, PZ_AXIS_VECTOR_CORES, &b->vector);
  list_lanes(b);
  list_glb(b);
  mark_used(b);
  enum pz_status status = collect(b);
  if (status == PZ_OK) status = fill_links(b);
  for (uint32_t l = 0; l < n_variants && status == PZ_OK; l++) status = fill_lower_bound(b, l);
  return status == PZ_OK ? fill_tables(b, pool) : status;
}

enum pz_status pz_bounds_new(const struct pz_original_task *task, struct pz_pool *pool,
                             struct pz_watch watch, struct pz_bounds **out, struct pz_error *err) {
  struct pz_bounds *b = pz_calloc(1, sizeof *b);
  if (!b) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  b->task = task;
  b->watch = watch;
  b->n_workers = pz_pool_threads(pool);
  pz_arena_init(&b->arena, NULL);
  pz_vec_init(&b->items, &b->arena, sizeof(struct item));
  pz_vec_init(&b->products, &b->arena, sizeof(struct pz_dims));
  pz_vec_init(&b->dags, &b->arena, sizeof(struct dag));
  pz_vec_init(&b->ops, &b->arena, sizeof(struct dag_op));
  pz_vec_init(&b->preds, &b->arena, sizeof(uint32_t));
  enum pz_status status = make(b, pool);
  if (status == PZ_OK) {
    *out = b;
    return PZ_OK;
  }
  if (err && err->status == PZ_OK) *err = b->err;
  pz_bounds_free(b);
  return status;
}

static void free_shape(struct shape *s) {
  pz_free(s->core_s);
  pz_free(s->hbm_s);
  pz_free(s->startup_s);
  pz_free(s->work_s);
  pz_free(s->traffic_s);
}

void pz_bounds_free(struct pz_bounds *b) {
  if (!b) return;
  for (int i = 0; i < PZ_SPACE_MOST_ARRAYS; i++) free_shape(&b->shape[i]);
  for (int i = 0; i < PZ_SPACE_MOST_VALUES; i++) {
    pz_free(b->lanes[i].latency_s);
    pz_free(b->lanes[i].work_s);
  }
  for (unsigned i = 0; b->cost && i < b->n_workers; i++) pz_cost_release(&b->cost[i]);
  pz_arena_release(&b->arena);
  pz_free(b);
}

/* ---- at a chip ------------------------------------------------------------------------------ */

struct pz_bounds_at {
  const struct pz_bounds *b;
  bool impossible;
  double *latency_s;                             /* by item, on all cores */
  const double *tensor_s, *vector_s, *traffic_s; /* by dag: of the tables, or of a box: */
  double *box_s;                                 /* the three of a box */
  double *core_s, *product_hbm_s, *startup_s;    /* by product, likewise */
  double *fwd_s, *bwd_s;                         /* by layer of a variant */
  uint32_t hint[PZ_SEARCH_MOST_MODELS];          /* the variant that was best at the last chip */
};

struct pz_bounds_at *pz_bounds_at_new(const struct pz_bounds *b, struct pz_arena *arena) {
  struct pz_bounds_at *at = pz_arena_alloc(arena, 1, sizeof *at);
  uint32_t layers = b->task->portfolio->most_layers;
  if (!at) return NULL;
  at->b = b;
  at->latency_s = pz_arena_alloc(arena, b->items.n, sizeof *at->latency_s);
  at->box_s = pz_arena_alloc(arena, 3 * (size_t)b->dags.n, sizeof *at->box_s);
  at->core_s = pz_arena_alloc(arena, 3 * (size_t)b->products.n, sizeof *at->core_s);
  at->fwd_s = pz_arena_alloc(arena, layers, sizeof *at->fwd_s);
  at->bwd_s = pz_arena_alloc(arena, layers, sizeof *at->bwd_s);
  at->product_hbm_s = at->core_s ? at->core_s + b->products.n : NULL;
  at->startup_s = at->core_s ? at->core_s + 2 * (size_t)b->products.n : NULL;
  return at->latency_s && at->box_s && at->core_s && at->fwd_s && at->bwd_s ? at : NULL;
}

bool pz_bounds_impossible(const struct pz_bounds_at *at) { return at->impossible; }

bool pz_bounds_cover(const struct pz_bounds_at *at, const struct pz_point *p) {
  const struct shape *s = &at->b->shape[p->kind];
  return s->used && p->at[PZ_AXIS_TENSOR_CORES] <= s->most_axis;
}

static double lane_ops(const struct pz_space *s, const struct pz_point *p) {
  struct pz_chip c;
  pz_space_chip(s, p, &c);
  return (double)(c.vector.cores * c.vector.lanes) * c.clock_hz;
}

static void set_product_latencies(struct pz_bounds_at *at, const double *core_s,
                                  const double *hbm_s, const double *startup_s, double ops) {
  const struct item *items = at->b->items.items;
  for (uint32_t i = 0; i < at->b->n_product_items; i++) {
    uint32_t k = items[i].product;
    at->latency_s[i] =
        startup_s[k] + pz_cost_with_extra_s(&items[i].extra, core_s[k], hbm_s[k], ops);
  }
}

void pz_bounds_go(struct pz_bounds_at *at, const struct pz_point *p) {
  const struct pz_bounds *b = at->b;
  const struct pz_space *space = b->task->space;
  const struct shape *s = &b->shape[p->kind];
  const struct lanes *l = &b->lanes[lanes_of(b, p)];
  size_t n = b->products.n, others = n_others(b);
  at->impossible = s->impossible;
  if (s->impossible) return;
  set_product_latencies(at, &s->core_s[b->tensor.of_axis[p->at[PZ_AXIS_TENSOR_CORES]] * n],
                        &s->hbm_s[p->at[PZ_AXIS_GLB_MIB] * n], s->startup_s, lane_ops(space, p));
  memcpy(&at->latency_s[b->n_product_items],
         &l->latency_s[b->vector.of_axis[p->at[PZ_AXIS_VECTOR_CORES]] * others],
         others * sizeof *at->latency_s);
  at->tensor_s = &s->work_s[p->at[PZ_AXIS_TENSOR_CORES] * (size_t)b->dags.n];
  at->vector_s = &l->work_s[p->at[PZ_AXIS_VECTOR_CORES] * (size_t)b->dags.n];
  at->traffic_s = &s->traffic_s[p->at[PZ_AXIS_GLB_MIB] * (size_t)b->dags.n];
}

static void take_least(double *least, const double *row, size_t n) {
  for (size_t i = 0; i < n; i++) least[i] = row[i] < least[i] ? row[i] : least[i];
}

static void set_all(double *list, double value, size_t n) {
  for (size_t i = 0; i < n; i++) list[i] = value;
}

/* The best of the rows of one shape that lie in a box. */
static void take_shape(struct pz_bounds_at *at, const struct shape *s, const struct pz_point *lo,
                       const struct pz_point *hi) {
  const struct pz_bounds *b = at->b;
  size_t n = b->products.n, dags = b->dags.n;
  int most =
      hi->at[PZ_AXIS_TENSOR_CORES] < s->most_axis ? hi->at[PZ_AXIS_TENSOR_CORES] : s->most_axis;
  for (int a = lo->at[PZ_AXIS_TENSOR_CORES]; a <= most; a++) {
    take_least(at->core_s, &s->core_s[b->tensor.of_axis[a] * n], n);
    take_least(at->box_s, &s->work_s[(size_t)a * dags], dags);
  }
  for (size_t g = lo->at[PZ_AXIS_GLB_MIB]; g <= hi->at[PZ_AXIS_GLB_MIB]; g++) {
    take_least(at->product_hbm_s, &s->hbm_s[g * n], n);
    take_least(at->box_s + 2 * dags, &s->traffic_s[g * dags], dags);
  }
  take_least(at->startup_s, s->startup_s, n);
}

static void take_lanes(struct pz_bounds_at *at, const struct lanes *l, const struct pz_point *lo,
                       const struct pz_point *hi) {
  const struct pz_bounds *b = at->b;
  size_t others = n_others(b), dags = b->dags.n;
  for (size_t a = lo->at[PZ_AXIS_VECTOR_CORES]; a <= hi->at[PZ_AXIS_VECTOR_CORES]; a++) {
    take_least(&at->latency_s[b->n_product_items], &l->latency_s[b->vector.of_axis[a] * others],
               others);
    take_least(at->box_s + dags, &l->work_s[a * dags], dags);
  }
}

void pz_bounds_go_box(struct pz_bounds_at *at, const struct pz_box *box) {
  const struct pz_bounds *b = at->b;
  const struct shape *s = &b->shape[box->kind];
  struct pz_point lo = pz_box_point(box), hi = lo;
  memcpy(hi.at, box->hi, sizeof hi.at);
  at->impossible = !s->used || s->impossible || lo.at[PZ_AXIS_TENSOR_CORES] > s->most_axis;
  if (at->impossible) return;
  set_all(at->core_s, HUGE_VAL, 3 * (size_t)b->products.n);
  set_all(at->box_s, HUGE_VAL, 3 * (size_t)b->dags.n);
  set_all(at->latency_s, HUGE_VAL, b->items.n);
  take_shape(at, s, &lo, &hi);
  for (uint32_t l = lanes_of(b, &lo); l <= lanes_of(b, &hi); l++)
    take_lanes(at, &b->lanes[l], &lo, &hi);
  set_product_latencies(at, at->core_s, at->product_hbm_s, at->startup_s,
                        lane_ops(b->task->space, &hi));
  at->tensor_s = at->box_s;
  at->vector_s = at->box_s + b->dags.n;
  at->traffic_s = at->box_s + 2 * (size_t)b->dags.n;
}

static double longest_path(const struct pz_bounds *b, const struct dag *d, const double *latency) {
  const struct dag_op *ops = pz_vec_at(&b->ops, struct dag_op, d->first_op);
  const uint32_t *preds = b->preds.items;
  double end[MOST_OPS], longest = 0;
  for (uint32_t i = 0; i < d->n_ops; i++) {
    double start = 0;
    const uint32_t *pred = &preds[ops[i].first_pred];
    for (uint32_t k = 0; k < ops[i].n_pred; k++)
      if (end[pred[k]] > start) start = end[pred[k]];
    end[i] = start + latency[ops[i].item];
    if (end[i] > longest) longest = end[i];
  }
  return longest;
}

double pz_bounds_layer_s(struct pz_bounds_at *at, uint32_t variant, uint32_t layer,
                         enum pz_direction direction) {
  const struct pz_bounds *b = at->b;
  uint32_t k = b->first_dag[variant] + 2 * layer + (uint32_t)direction;
  const struct dag *d = pz_vec_at(&b->dags, struct dag, k);
  double work = pz_fmax(at->tensor_s[k], at->vector_s[k]);
  work = pz_fmax(work, pz_fmax(at->traffic_s[k] + d->hbm_s, d->link_s));
  /* sums in another order than the solvers' */
  return pz_fmax(work, longest_path(b, d, at->latency_s)) * (1 - 1e-9);
}

double pz_bounds_variant_s(struct pz_bounds_at *at, uint32_t variant, bool recompute,
                           double limit_s) {
  uint32_t n = at->b->task->portfolio->variants[variant].w->n_layers;
  for (uint32_t i = 0; i < n; i++) {
    at->fwd_s[i] = pz_bounds_layer_s(at, variant, i, PZ_FORWARD);
    at->bwd_s[i] = pz_bounds_layer_s(at, variant, i, PZ_BACKWARD);
  }
  return pz_place_bound_time_s(&at->b->lower_bound[variant][recompute], at->fwd_s, at->bwd_s,
                               limit_s);
}

double pz_bounds_times_s(const struct pz_bounds_at *at, uint32_t variant, bool recompute,
                         const double *fwd_s, const double *bwd_s, double limit_s) {
  return pz_place_bound_time_s(&at->b->lower_bound[variant][recompute], fwd_s, bwd_s, limit_s);
}

/* With the layers' times known already, both ways. */
static double variant_s(struct pz_bounds_at *at, uint32_t variant, double limit_s) {
  double kept = pz_bounds_variant_s(at, variant, false, limit_s);
  double again = pz_place_bound_time_s(&at->b->lower_bound[variant][1], at->fwd_s, at->bwd_s,
                                       kept < limit_s ? kept : limit_s);
  return kept < again ? kept : again;
}

double pz_bounds_model_s(struct pz_bounds_at *at, uint32_t model) {
  if (pz_bounds_impossible(at)) return HUGE_VAL;
  const struct pz_portfolio *p = at->b->task->portfolio;
  uint32_t first = at->hint[model] ? at->hint[model] : p->first[model];
  double best = variant_s(at, first, HUGE_VAL);
  for (uint32_t l = p->first[model]; l < p->first[model + 1]; l++) {
    double now = l == first ? best : variant_s(at, l, best);
    if (now < best) best = now, at->hint[model] = l;
  }
  return best;
}
