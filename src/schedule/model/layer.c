/* Builds the scheduling problem of a layer (layer.h).
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
  int32_t capacity[PZ_RESOURCES];
  double hbm_fraction, glb_fraction; /* bandwidths of the current part / those of the chip */
  struct pz_task *tasks;
  struct pz_vec *full_modes; /* by task: struct pz_full_mode */
};

/* Makes the cost model estimate operators on a part of the chip with these numbers of cores. */
static void use_part(struct layer_builder *builder, int32_t tensor_cores, int32_t vector_cores) {
  struct pz_chip part = pz_chip_part(&builder->chip, tensor_cores, vector_cores);
  pz_cost_set_chip(builder->cost, &part, &builder->net);
  builder->hbm_fraction = pz_chip_hbm_bytes_per_s(&part) / pz_chip_hbm_bytes_per_s(&builder->chip);
  builder->glb_fraction = part.glb_bytes_per_s / builder->chip.glb_bytes_per_s;
}

/* Returns the cost of an operator on the current part.  Times at the memories are those at the
 * whole chip's bandwidths. */
static struct pz_estimate cost_on_part(struct pz_call *call, struct layer_builder *builder,
                                       const struct pz_op *op) {
  struct pz_estimate estimate = pz_estimate_op(call, builder->cost, op, NULL);
  estimate.hbm_s *= builder->hbm_fraction;
  estimate.glb_s *= builder->glb_fraction;
  return estimate;
}

/* ---- every number of cores ------------------------------------------------------------------ */

/* Groups of operators by the kinds of cores on which they run. */
enum core_group { ON_NONE, ON_TENSOR, ON_VECTOR, ON_BOTH, CORE_GROUPS };

/* Returns the group of an operator. */
static enum core_group core_group_of(const struct pz_op *op) {
  switch (op->op_class) {
  case PZ_CLASS_TENSOR: return ON_TENSOR;
  case PZ_CLASS_VECTOR: return ON_VECTOR;
  case PZ_CLASS_FUSED: return ON_BOTH;
  default: return ON_NONE;
  }
}

/* Adds to each operator of a group its mode at the full rate on these numbers of cores, unless another
 * mode is at least as good. */
static void add_full_modes(struct pz_call *call, struct layer_builder *builder,
                           enum core_group group, int32_t tensor_cores, int32_t vector_cores) {
  use_part(builder, tensor_cores, vector_cores);
  for (uint32_t i = 0; i < builder->ops->n; i++) {
    const struct pz_op *op = &builder->ops->op[i];
    struct pz_vec *full = &builder->full_modes[i];
    if (core_group_of(op) != group) continue;
    struct pz_estimate estimate = cost_on_part(call, builder, op);
    bool uses_link = op->op_class == PZ_CLASS_COLLECTIVE;
    struct pz_full_mode mode = {.mode = {.use = {tensor_cores, vector_cores, uses_link},
                                         .label = tensor_cores ? tensor_cores : vector_cores,
                                         .duration = estimate.latency_s,
                                         .energy_j = estimate.energy_j,
                                         .hbm_s = estimate.hbm_s,
                                         .glb_s = estimate.glb_s}};
    /* without rate levels, a mode holds the share of bandwidth that it needs, so that a faster mode may
     * not fit where a slower one does */
    bool can_prune = builder->chip.rules.rate_levels;
    bool dominated = false;
    for (uint32_t k = 0; k < full->n && can_prune && !dominated; k++) {
      /* a mode that needs no more of anything is better at all rates */
      const struct pz_mode *other = &pz_vec_at(full, struct pz_full_mode, k)->mode;
      bool takes_no_longer = other->duration <= estimate.latency_s;
      bool moves_no_more = other->hbm_s <= estimate.hbm_s && other->glb_s <= estimate.glb_s;
      dominated = takes_no_longer && moves_no_more && pz_mode_fits(mode.mode.use, other);
    }
    if (!dominated) pz_append(call, full, &mode);
  }
}

/* Returns the number of cores to try after this one, in the order 1, 2, 4 etc. up to all cores, or
 * -1 after the last.  If there are no cores, 0 is the only number. */
static int32_t next_cores(int32_t cores, int32_t most) {
  if (cores == most) return -1;
  return 2 * cores < most ? 2 * cores : most;
}

/* Lists the modes of all operators at full rate, on 1, 2, 4 etc. and on all cores of each kind that they
 * use.  The operators of a group are costed together, so that each part of the chip is set up once.
 * If the chip's rules have no rate levels, fused operators get vector cores in proportion to their
 * tensor cores, rounded up. */
static void list_full_modes(struct pz_call *call, struct layer_builder *builder) {
  bool has_group[CORE_GROUPS] = {false};
  int64_t all_tensor = builder->capacity[PZ_TENSOR_CORES];
  int64_t all_vector = builder->capacity[PZ_VECTOR_CORES];
  for (uint32_t i = 0; i < builder->ops->n; i++)
    has_group[core_group_of(&builder->ops->op[i])] = true;
  for (enum core_group group = ON_NONE; group < CORE_GROUPS; group++) {
    if (!has_group[group]) continue;
    int32_t most_tensor = group == ON_TENSOR || group == ON_BOTH ? (int32_t)all_tensor : 0;
    int32_t most_vector = group == ON_VECTOR || group == ON_BOTH ? (int32_t)all_vector : 0;
    bool in_proportion = group == ON_BOTH && !builder->chip.rules.rate_levels;
    for (int32_t tensor = most_tensor > 0; tensor >= 0; tensor = next_cores(tensor, most_tensor)) {
      if (in_proportion) {
        int64_t vector = all_tensor > 0 ? (tensor * all_vector + all_tensor - 1) / all_tensor : 0;
        add_full_modes(call, builder, group, tensor, (int32_t)vector);
        continue;
      }
      for (int32_t vector = most_vector > 0; vector >= 0; vector = next_cores(vector, most_vector))
        add_full_modes(call, builder, group, tensor, vector);
    }
  }
}

/* Sets the modes of all operators: with every number of cores, and if bandwidths are shared, at
 * lower rates too.  Modes that take longer than a serial schedule of all operators are left out. */
static void set_all_modes(struct pz_call *call, struct layer_builder *builder) {
  uint32_t n = builder->ops->n;
  builder->full_modes = pz_alloc(call, n, sizeof *builder->full_modes);
  for (uint32_t i = 0; i < n; i++)
    pz_vec_init(&builder->full_modes[i], call->arena, sizeof(struct pz_full_mode));
  list_full_modes(call, builder);
  bool shares_rates = builder->options->modes == PZ_MODES_ALL; /* of HBM and global buffer */
  double serial_s = 0; /* time of all operators one after another in their fastest modes */
  for (uint32_t i = 0; i < n; i++) {
    double least_s = HUGE_VAL;
    for (uint32_t k = 0; k < builder->full_modes[i].n; k++) {
      const struct pz_full_mode *full = pz_vec_at(&builder->full_modes[i], struct pz_full_mode, k);
      least_s = fmin(least_s, full->mode.duration);
    }
    serial_s += least_s;
  }
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_vec *full = &builder->full_modes[i];
    struct pz_vec modes;
    pz_vec_init(&modes, call->arena, sizeof(struct pz_mode));
    if (shares_rates && builder->chip.rules.rate_levels)
      pz_append_rate_modes(call, full, serial_s * (1 + 1e-9), &modes);
    else if (shares_rates)
      pz_append_full_rate_modes(call, full, &modes);
    else
      for (uint32_t k = 0; k < full->n; k++)
        pz_append(call, &modes, &pz_vec_at(full, struct pz_full_mode, k)->mode);
    builder->tasks[i].modes = modes.items;
    builder->tasks[i].n_modes = modes.n;
  }
}

/* ---- two modes ------------------------------------------------------------------------------ */

/* Sets the two modes of the original system: one core of each class that the operator uses, or
 * the whole chip. */
static void set_two_modes(struct pz_call *call, struct layer_builder *builder) {
  const struct pz_ops *ops = builder->ops;
  struct pz_estimate *single = pz_alloc(call, ops->n, sizeof *single);
  struct pz_estimate *whole = pz_alloc(call, ops->n, sizeof *whole);
  use_part(builder, 1, 1);
  for (uint32_t i = 0; i < ops->n; i++) single[i] = cost_on_part(call, builder, &ops->op[i]);
  use_part(builder, 0, 0); /* 0 stands for all cores */
  for (uint32_t i = 0; i < ops->n; i++) whole[i] = cost_on_part(call, builder, &ops->op[i]);
  for (uint32_t i = 0; i < ops->n; i++) {
    struct pz_mode *modes = pz_alloc(call, 2, sizeof *modes);
    struct pz_task *task = &builder->tasks[i];
    task->modes = modes;
    task->n_modes = pz_two_modes(ops->op[i].op_class, builder->capacity, single[i].latency_s,
                                 whole[i].latency_s, builder->options->exclusive, modes);
    modes[0].energy_j = single[i].energy_j;
    if (task->n_modes > 1) modes[1].energy_j = whole[i].energy_j;
  }
}

/* ---- the problem ---------------------------------------------------------------------------- */

/* Makes the cost model estimate operators on the whole chip again. */
static void restore_chip(void *layer_builder) {
  struct layer_builder *builder = layer_builder;
  pz_cost_set_chip(builder->cost, &builder->chip, &builder->net);
}

/* Builds the scheduling problem of a layer.  The cost model is used for parts of the chip meanwhile,
 * and afterwards estimates operators on the whole chip again. */
struct pz_problem pz_layer_problem_build(struct pz_call *call, struct pz_cost *cost,
                                         const struct pz_ops *ops,
                                         const struct pz_layer_options *options) {
  struct layer_builder *builder = pz_alloc(call, 1, sizeof *builder);
  uint32_t n_edges = 0, edge = 0;
  builder->cost = cost;
  builder->chip = cost->chip;
  builder->net = cost->net;
  builder->ops = ops;
  builder->options = options;
  builder->capacity[PZ_TENSOR_CORES] = (int32_t)cost->chip.tensor.cores;
  builder->capacity[PZ_VECTOR_CORES] = (int32_t)cost->chip.vector.cores;
  builder->capacity[PZ_LINK] = 1;
  builder->capacity[PZ_HBM_RATE] = builder->capacity[PZ_GLB_RATE] = PZ_RATE_PARTS;
  for (uint32_t i = 0; i < ops->n; i++) n_edges += ops->op[i].n_pred;
  builder->tasks = pz_alloc(call, ops->n, sizeof *builder->tasks);
  struct pz_edge *edges = pz_alloc(call, n_edges, sizeof *edges);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    builder->tasks[i] = (struct pz_task){.name = op->name, .id = i, .op_class = op->op_class};
    for (uint32_t k = 0; k < op->n_pred; k++) edges[edge++] = (struct pz_edge){op->pred[k], i};
  }
  pz_defer(call, restore_chip, builder);
  if (options->modes == PZ_MODES_TWO)
    set_two_modes(call, builder);
  else
    set_all_modes(call, builder);
  pz_close(call, builder);
  return pz_problem_build(call, builder->capacity, builder->tasks, ops->n, edges, n_edges);
}
