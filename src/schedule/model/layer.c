/* Makes the scheduling problem of a layer (layer.h).
 *
 * Each operator is costed on parts of the chip with every number of cores, powers of two or all (add_full_modes), and
 * gets modes at full and at lower rates (set_all_modes); or it gets the two modes of the original system
 * (set_two_modes).  Changing the part of the chip costs more than asking for a cost, so that the outer loops are over
 * parts and the inner ones over operators. */
#include "schedule/model/layer.h"

#include <math.h>

#include "schedule/model/rate_modes.h"

const char *const pz_modes_names[] = {"all", "cores", "two", NULL};

struct layer_builder {
  struct pz_cost *cost;
  struct pz_chip chip; /* the whole chip */
  struct pz_cluster net;
  const struct pz_ops *ops;
  const struct pz_layer_options *options;
  struct pz_arena *arena; /* of the problem */
  int32_t capacity[PZ_RESOURCES];
  double hbm_fraction, glb_fraction; /* of the whole chip's rates that the current part can draw */
  struct pz_task *tasks;
  struct pz_vec *full_modes; /* by task: struct pz_full_mode */
};

/* Costs operators on a part of the chip from now on. */
static void use_part(struct layer_builder *b, int32_t tensor, int32_t vector) {
  struct pz_chip part = pz_chip_part(&b->chip, tensor, vector);
  pz_cost_set_chip(b->cost, &part, &b->net);
  b->hbm_fraction = pz_chip_hbm_bytes_per_s(&part) / pz_chip_hbm_bytes_per_s(&b->chip);
  b->glb_fraction = part.glb_bytes_per_s / b->chip.glb_bytes_per_s;
}

/* The cost of an operator on the current part, with times at the memories as if they had the whole chip's rate. */
static struct pz_estimate cost_on_part(struct pz_call *call, struct layer_builder *b,
                                       const struct pz_op *op) {
  struct pz_estimate e;
  pz_must(call, pz_cost_op(b->cost, op, &e, pz_call_error(call)));
  e.hbm_s *= b->hbm_fraction;
  e.glb_s *= b->glb_fraction;
  return e;
}

/* ---- every number of cores ------------------------------------------------------------------ */

/* Operators that use the same kinds of cores. */
enum core_group { ON_NONE, ON_TENSOR, ON_VECTOR, ON_BOTH, CORE_GROUPS };

static enum core_group core_group_of(const struct pz_op *op) {
  switch (op->op_class) {
  case PZ_CLASS_TENSOR: return ON_TENSOR;
  case PZ_CLASS_VECTOR: return ON_VECTOR;
  case PZ_CLASS_FUSED: return ON_BOTH;
  default: return ON_NONE;
  }
}

static bool has_core_group(const struct pz_ops *ops, enum core_group g) {
  for (uint32_t i = 0; i < ops->n; i++)
    if (core_group_of(&ops->op[i]) == g) return true;
  return false;
}

/* Whether mode a makes mode b superfluous at any rates: it takes no longer, uses no more cores and needs no more of the
 * memories. */
static bool dominates_at_any_rate(const struct pz_mode *a, const struct pz_mode *b) {
  return a->s <= b->s && a->hbm_s <= b->hbm_s && a->glb_s <= b->glb_s && pz_mode_fits(b->use, a);
}

/* Adds the full-rate modes of a group's operators on this number of cores. */
static void add_full_modes(struct pz_call *call, struct layer_builder *b, const struct pz_ops *ops,
                           enum core_group g, int32_t tensor, int32_t vector) {
  use_part(b, tensor, vector);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    struct pz_vec *full = &b->full_modes[i];
    if (core_group_of(op) != g) continue;
    struct pz_estimate e = cost_on_part(call, b, op);
    struct pz_full_mode f = {.at = {.use = {tensor, vector, op->op_class == PZ_CLASS_COLLECTIVE},
                                    .label = tensor ? tensor : vector,
                                    .s = e.latency_s,
                                    .j = e.energy_j,
                                    .hbm_s = e.hbm_s,
                                    .glb_s = e.glb_s}};
    bool dominated = false;
    for (uint32_t k = 0; k < full->n && b->chip.rules.rate_levels && !dominated; k++)
      dominated = dominates_at_any_rate(&pz_vec_at(full, struct pz_full_mode, k)->at, &f.at);
    if (!dominated) pz_append(call, full, &f);
  }
}

/* The number of cores after this one: 1, 2, 4 etc., then all.  -1 after the last; 0 is the only one if there are none. */
static int32_t next_cores(int32_t cores, int32_t most) {
  if (cores == most) return -1;
  return 2 * cores < most ? 2 * cores : most;
}

/* The vector cores that go with this number of tensor cores, in the chip's proportion. */
static int32_t vector_share(const struct layer_builder *b, int32_t cores) {
  int64_t t = b->capacity[PZ_TENSOR_CORES], v = b->capacity[PZ_VECTOR_CORES];
  return t > 0 ? (int32_t)((cores * v + t - 1) / t) : 0;
}

static void list_full_modes(struct pz_call *call, struct layer_builder *b,
                            const struct pz_ops *ops) {
  for (enum core_group g = ON_NONE; g < CORE_GROUPS; g++) {
    if (!has_core_group(ops, g)) continue;
    int32_t most_t = g == ON_TENSOR || g == ON_BOTH ? b->capacity[PZ_TENSOR_CORES] : 0;
    int32_t most_v = g == ON_VECTOR || g == ON_BOTH ? b->capacity[PZ_VECTOR_CORES] : 0;
    bool in_proportion = g == ON_BOTH && !b->chip.rules.rate_levels;
    for (int32_t t = most_t > 0; t >= 0; t = next_cores(t, most_t)) {
      if (in_proportion) {
        add_full_modes(call, b, ops, g, t, vector_share(b, t));
        continue;
      }
      for (int32_t v = most_v > 0; v >= 0; v = next_cores(v, most_v))
        add_full_modes(call, b, ops, g, t, v);
    }
  }
}

/* The time of the operators one after another, each in its fastest mode. */
static double serial_s(const struct layer_builder *b, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    double least = HUGE_VAL;
    for (uint32_t k = 0; k < b->full_modes[i].n; k++)
      least = fmin(least, pz_vec_at(&b->full_modes[i], struct pz_full_mode, k)->at.s);
    sum += least;
  }
  return sum;
}

static void set_all_modes(struct pz_call *call, struct layer_builder *b, const struct pz_ops *ops) {
  b->full_modes = pz_alloc(call, ops->n, sizeof *b->full_modes);
  for (uint32_t i = 0; i < ops->n; i++)
    pz_vec_init(&b->full_modes[i], call->arena, sizeof(struct pz_full_mode));
  list_full_modes(call, b, ops);
  bool shares_rates = b->options->modes == PZ_MODES_ALL;
  double limit_s = serial_s(b, ops->n) * (1 + 1e-9);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_vec *full = &b->full_modes[i];
    struct pz_vec modes;
    pz_vec_init(&modes, call->arena, sizeof(struct pz_mode));
    if (shares_rates && b->chip.rules.rate_levels)
      pz_append_rate_modes(call, full, limit_s, &modes);
    else if (shares_rates)
      pz_append_full_rate_modes(call, full, &modes);
    else
      for (uint32_t k = 0; k < full->n; k++)
        pz_append(call, &modes, &pz_vec_at(full, struct pz_full_mode, k)->at);
    b->tasks[i].modes = modes.items;
    b->tasks[i].n_modes = modes.n;
  }
}

/* ---- two modes ------------------------------------------------------------------------------ */

/* Sets the two modes of the original system: one core of each class that the operator uses, or the whole chip. */
static void set_two_modes(struct pz_call *call, struct layer_builder *b, const struct pz_ops *ops) {
  struct pz_estimate *single = pz_alloc(call, ops->n, sizeof *single);
  struct pz_estimate *all = pz_alloc(call, ops->n, sizeof *all);
  use_part(b, 1, 1);
  for (uint32_t i = 0; i < ops->n; i++) single[i] = cost_on_part(call, b, &ops->op[i]);
  use_part(b, 0, 0);
  for (uint32_t i = 0; i < ops->n; i++) all[i] = cost_on_part(call, b, &ops->op[i]);
  for (uint32_t i = 0; i < ops->n; i++) {
    struct pz_mode *modes = pz_alloc(call, 2, sizeof *modes);
    struct pz_task *task = &b->tasks[i];
    task->modes = modes;
    task->n_modes = pz_two_modes(ops->op[i].op_class, b->capacity, single[i].latency_s,
                                 all[i].latency_s, b->options->exclusive, modes);
    modes[0].j = single[i].energy_j;
    if (task->n_modes > 1) modes[1].j = all[i].energy_j;
  }
}

/* ---- the problem ---------------------------------------------------------------------------- */

static void set_modes(struct pz_call *call, void *ctx) {
  struct layer_builder *b = ctx;
  struct pz_call result = pz_call_in(call, b->arena);
  if (b->options->modes == PZ_MODES_TWO)
    set_two_modes(&result, b, b->ops);
  else
    set_all_modes(&result, b, b->ops);
}

struct pz_problem pz_layer_problem_build(struct pz_call *call, struct pz_cost *cost,
                                         const struct pz_ops *ops,
                                         const struct pz_layer_options *options) {
  struct layer_builder b = {.cost = cost,
                            .chip = cost->chip,
                            .net = cost->net,
                            .ops = ops,
                            .options = options,
                            .arena = call->arena};
  uint32_t n_edges = 0, e = 0;
  b.capacity[PZ_TENSOR_CORES] = (int32_t)cost->chip.tensor.cores;
  b.capacity[PZ_VECTOR_CORES] = (int32_t)cost->chip.vector.cores;
  b.capacity[PZ_LINK] = 1;
  b.capacity[PZ_HBM_RATE] = b.capacity[PZ_GLB_RATE] = PZ_RATE_PARTS;
  for (uint32_t i = 0; i < ops->n; i++) n_edges += ops->op[i].n_pred;
  b.tasks = pz_alloc(call, ops->n, sizeof *b.tasks);
  struct pz_edge *edges = pz_alloc(call, n_edges, sizeof *edges);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    b.tasks[i] = (struct pz_task){.name = op->name, .id = i, .op_class = op->op_class};
    for (uint32_t k = 0; k < op->n_pred; k++) edges[e++] = (struct pz_edge){op->pred[k], i};
  }
  /* the cost gets its whole chip back, also after an error */
  struct pz_error err = {0};
  enum pz_status status = pz_border(set_modes, &b, &err);
  pz_cost_set_chip(cost, &b.chip, &b.net);
  if (status != PZ_OK) pz_raise_again(call, &err);
  return pz_problem_build(call, b.capacity, b.tasks, ops->n, edges, n_edges);
}
