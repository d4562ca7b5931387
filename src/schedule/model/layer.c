#include "schedule/model/layer.h"

#include <math.h>

#define NO_MEMORY "out of memory for the schedule problem"

const char *const pz_modes_names[] = {"all", "cores", "two", NULL};

/* 1, 2, 4 .. and all of 2^31 cores. */
enum { MOST_MODES = 33 };

struct maker {
  struct pz_cost *cost;
  struct pz_chip chip; /* the whole one */
  struct pz_cluster net;
  const struct pz_layer_options *options;
  struct pz_arena *arena;
  int32_t capacity[PZ_RESOURCES];
  double hbm_part, glb_part; /* of the whole rates, that the part of the chip at hand can draw */
  struct pz_task *tasks;
  struct pz_mode (*modes)[MOST_MODES]; /* by task */
  struct pz_error *err;
};

static bool on_tensor_cores(const struct pz_op *op) {
  return op->op_class == PZ_CLASS_TENSOR || op->op_class == PZ_CLASS_FUSED;
}

static bool on_vector_cores(const struct pz_op *op) {
  return op->op_class == PZ_CLASS_VECTOR || op->op_class == PZ_CLASS_FUSED;
}

/* Vector cores that go with so many tensor cores. */
static int32_t vector_share(const struct maker *m, int32_t cores) {
  int64_t t = m->capacity[PZ_TENSOR_CORES], v = m->capacity[PZ_VECTOR_CORES];
  return t > 0 ? (int32_t)((cores * v + t - 1) / t) : 0;
}

static int32_t rate_part(double s, double of_s) {
  return of_s > 0 ? (int32_t)ceil(fmin(1, s / of_s) * PZ_RATE_PARTS) : 0;
}

/* Go to a part of the chip. */
static void use_part(struct maker *m, int32_t tensor, int32_t vector) {
  struct pz_chip part = pz_chip_part(&m->chip, tensor, vector);
  pz_cost_set_chip(m->cost, &part, &m->net);
  m->hbm_part = pz_chip_hbm_bytes_per_s(&part) / pz_chip_hbm_bytes_per_s(&m->chip);
  m->glb_part = part.glb_bytes_per_s / m->chip.glb_bytes_per_s;
}

/* The operator there; times at memories as if they had the whole chip's rate. */
static enum pz_status cost_there(struct maker *m, const struct pz_op *op, struct pz_estimate *e) {
  enum pz_status status = pz_cost_op(m->cost, op, e, m->err);
  if (status != PZ_OK) return status;
  e->hbm_s *= m->hbm_part;
  e->glb_s *= m->glb_part;
  return PZ_OK;
}

/* ---- every number of cores ------------------------------------------------------------------- */

/* Operators that take the same cores. */
enum group { ON_NONE, ON_TENSOR, ON_VECTOR, ON_BOTH, GROUPS };

static enum group group_of(const struct pz_op *op) {
  return (on_tensor_cores(op) ? ON_TENSOR : ON_NONE) + (on_vector_cores(op) ? ON_VECTOR : ON_NONE);
}

static enum pz_status add_mode(struct maker *m, const struct pz_op *op, int32_t tensor,
                               int32_t vector, struct pz_task *t) {
  struct pz_estimate e;
  enum pz_status status = cost_there(m, op, &e);
  if (status != PZ_OK) return status;
  struct pz_mode *mode = &m->modes[t - m->tasks][t->n_modes++];
  *mode = (struct pz_mode){.use = {tensor, vector, op->op_class == PZ_CLASS_COLLECTIVE},
                           .label = tensor ? tensor : vector,
                           .s = e.latency_s,
                           .j = e.energy_j};
  if (m->options->modes == PZ_MODES_ALL) {
    mode->use[PZ_HBM_RATE] = rate_part(e.hbm_s, e.latency_s);
    mode->use[PZ_GLB_RATE] = rate_part(e.glb_s, e.latency_s);
  }
  return PZ_OK;
}

/* A group's operators on so many cores, all of them before the next part of the chip: going there
 * costs more than asking. */
static enum pz_status add_modes(struct maker *m, const struct pz_ops *ops, enum group g,
                                int32_t cores) {
  enum pz_status status = PZ_OK;
  int32_t tensor = g == ON_TENSOR || g == ON_BOTH ? cores : 0;
  int32_t vector = g == ON_BOTH ? vector_share(m, cores) : g == ON_VECTOR ? cores : 0;
  use_part(m, tensor, vector);
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++)
    if (group_of(&ops->op[i]) == g) status = add_mode(m, &ops->op[i], tensor, vector, &m->tasks[i]);
  return status;
}

static bool has_group(const struct pz_ops *ops, enum group g) {
  for (uint32_t i = 0; i < ops->n; i++)
    if (group_of(&ops->op[i]) == g) return true;
  return false;
}

static enum pz_status all_modes(struct maker *m, const struct pz_ops *ops) {
  enum pz_status status = PZ_OK;
  for (enum group g = ON_NONE; g < GROUPS && status == PZ_OK; g++) {
    if (!has_group(ops, g)) continue;
    int32_t most = g == ON_NONE     ? 0
                   : g == ON_VECTOR ? m->capacity[PZ_VECTOR_CORES]
                                    : m->capacity[PZ_TENSOR_CORES];
    for (int32_t cores = most ? 1 : 0; status == PZ_OK;) {
      status = add_modes(m, ops, g, cores);
      if (cores == most) break;
      cores = 2 * cores < most ? 2 * cores : most;
    }
  }
  return status;
}

/* ---- two modes ------------------------------------------------------------------------------- */

static enum pz_task_class original_class(const struct pz_op *op) {
  switch (op->op_class) {
  case PZ_CLASS_TENSOR: return PZ_TASK_TENSOR;
  case PZ_CLASS_FUSED: return PZ_TASK_BOTH;
  case PZ_CLASS_NONE: return PZ_TASK_NONE;
  case PZ_CLASS_VECTOR:
  case PZ_CLASS_COLLECTIVE: break;
  }
  return PZ_TASK_VECTOR;
}

/* One core of each class the operator wants, or the whole chip. */
static enum pz_status two_modes(struct maker *m, const struct pz_ops *ops) {
  enum pz_status status = PZ_OK;
  struct pz_estimate(*e)[2] = pz_arena_alloc(m->arena, ops->n, sizeof *e);
  if (!e) return pz_fail(m->err, PZ_NO_MEMORY, NO_MEMORY);
  for (int all = 0; all < 2; all++) {
    use_part(m, all ? 0 : 1, all ? 0 : 1);
    for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++)
      status = cost_there(m, &ops->op[i], &e[i][all]);
  }
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++) {
    struct pz_mode *modes = m->modes[i];
    m->tasks[i].n_modes = pz_two_modes(original_class(&ops->op[i]), m->capacity, e[i][0].latency_s,
                                       e[i][1].latency_s, m->options->exclusive, modes);
    modes[0].j = e[i][0].energy_j;
    if (m->tasks[i].n_modes > 1) modes[1].j = e[i][1].energy_j;
  }
  return status;
}

/* ---- the problem ----------------------------------------------------------------------------- */

static enum pz_status make_problem(struct maker *m, const struct pz_ops *ops,
                                   struct pz_problem *out) {
  uint32_t n_edges = 0, e = 0;
  for (uint32_t i = 0; i < ops->n; i++) n_edges += ops->op[i].n_pred;
  m->tasks = pz_arena_alloc(m->arena, ops->n, sizeof *m->tasks);
  m->modes = pz_arena_alloc(m->arena, ops->n, sizeof *m->modes);
  struct pz_edge *edges = pz_arena_alloc(m->arena, n_edges, sizeof *edges);
  if (!m->tasks || !m->modes || !edges) return pz_fail(m->err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    m->tasks[i] =
        (struct pz_task){.name = op->name, .id = i, .op_class = op->op_class, .modes = m->modes[i]};
    for (uint32_t k = 0; k < op->n_pred; k++) edges[e++] = (struct pz_edge){op->pred[k], i};
  }
  bool two = m->options->modes == PZ_MODES_TWO;
  enum pz_status status = two ? two_modes(m, ops) : all_modes(m, ops);
  pz_cost_set_chip(m->cost, &m->chip, &m->net);
  if (status != PZ_OK) return status;
  return pz_problem_make(m->arena, m->capacity, m->tasks, ops->n, edges, n_edges, out, m->err);
}

enum pz_status pz_layer_problem(struct pz_cost *cost, const struct pz_ops *ops,
                                const struct pz_layer_options *options, struct pz_arena *arena,
                                struct pz_problem *out, struct pz_error *err) {
  struct maker m = {.cost = cost,
                    .chip = cost->chip,
                    .net = cost->net,
                    .options = options,
                    .arena = arena,
                    .err = err};
  m.capacity[PZ_TENSOR_CORES] = (int32_t)cost->chip.tensor.cores;
  m.capacity[PZ_VECTOR_CORES] = (int32_t)cost->chip.vector.cores;
  m.capacity[PZ_LINK] = 1;
  m.capacity[PZ_HBM_RATE] = m.capacity[PZ_GLB_RATE] = PZ_RATE_PARTS;
  return make_problem(&m, ops, out);
}
