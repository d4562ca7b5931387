#include "schedule/layer.h"

#include <math.h>

const char *const pz_modes_names[] = {"all", "two", NULL};

/* 1, 2, 4 .. and all of 2^31 cores. */
enum { MOST_MODES = 33 };

struct maker {
  struct pz_cost *cost;
  struct pz_chip chip; /* the whole one */
  struct pz_cluster net;
  const struct pz_layer_options *options;
  struct pz_arena *arena;
  int32_t capacity[PZ_RESOURCES];
  struct pz_error *err;
};

static bool on_tensor_cores(const struct pz_op *op) {
  return op->op_class == PZ_CLASS_TENSOR || op->op_class == PZ_CLASS_FUSED;
}

static bool on_vector_cores(const struct pz_op *op) {
  return op->op_class == PZ_CLASS_VECTOR || op->op_class == PZ_CLASS_FUSED;
}

/* Cores of the class that counts: tensor cores where there are both. */
static int32_t most_cores(const struct maker *m, const struct pz_op *op) {
  return m->capacity[on_tensor_cores(op) ? PZ_TENSOR_CORES : PZ_VECTOR_CORES];
}

/* Vector cores that go with so many tensor cores. */
static int32_t vector_share(const struct maker *m, int32_t cores) {
  int64_t t = m->capacity[PZ_TENSOR_CORES], v = m->capacity[PZ_VECTOR_CORES];
  return (int32_t)((cores * v + t - 1) / t);
}

static int32_t rate_part(double s, double of_s) {
  return of_s > 0 ? (int32_t)ceil(fmin(1, s / of_s) * PZ_RATE_PARTS) : 0;
}

/* The operator on a part of the chip; times at memories as if they had the whole chip's rate. */
static enum pz_status cost_on(struct maker *m, const struct pz_op *op, int32_t tensor,
                              int32_t vector, struct pz_estimate *e) {
  struct pz_chip part = pz_chip_part(&m->chip, tensor, vector);
  pz_cost_set_chip(m->cost, &part, &m->net);
  enum pz_status status = pz_cost_op(m->cost, op, e, m->err);
  pz_cost_set_chip(m->cost, &m->chip, &m->net);
  if (status != PZ_OK) return status;
  e->hbm_s *= pz_chip_hbm_bytes_per_s(&part) / pz_chip_hbm_bytes_per_s(&m->chip);
  e->glb_s *= part.glb_bytes_per_s / m->chip.glb_bytes_per_s;
  return PZ_OK;
}

static enum pz_status mode_on(struct maker *m, const struct pz_op *op, int32_t cores,
                              struct pz_mode *out) {
  struct pz_estimate e;
  int32_t tensor = on_tensor_cores(op) ? cores : 0;
  int32_t vector = !on_vector_cores(op) ? 0 : tensor ? vector_share(m, cores) : cores;
  enum pz_status status = cost_on(m, op, tensor, vector, &e);
  if (status != PZ_OK) return status;
  bool link = op->op_class == PZ_CLASS_COLLECTIVE;
  *out = (struct pz_mode){.use = {tensor, vector, link, rate_part(e.hbm_s, e.latency_s),
                                  rate_part(e.glb_s, e.latency_s)},
                          .label = cores,
                          .s = e.latency_s,
                          .j = e.energy_j};
  return PZ_OK;
}

static enum pz_status all_modes(struct maker *m, const struct pz_op *op, struct pz_mode *modes,
                                uint32_t *n) {
  enum pz_status status = PZ_OK;
  int32_t most = on_tensor_cores(op) || on_vector_cores(op) ? most_cores(m, op) : 0;
  if (!most) return mode_on(m, op, 0, &modes[(*n)++]);
  for (int32_t cores = 1; status == PZ_OK; cores = 2 * cores < most ? 2 * cores : most) {
    status = mode_on(m, op, cores, &modes[(*n)++]);
    if (cores == most) break;
  }
  return status;
}

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
static enum pz_status two_modes(struct maker *m, const struct pz_op *op, struct pz_mode *modes,
                                uint32_t *n) {
  struct pz_estimate one, all;
  enum pz_task_class c = original_class(op);
  enum pz_status status = cost_on(m, op, 1, 1, &one);
  if (status == PZ_OK) status = cost_on(m, op, 0, 0, &all);
  if (status != PZ_OK) return status;
  *n = pz_two_modes(c, m->capacity, one.latency_s, all.latency_s, m->options->exclusive, modes);
  modes[0].j = one.energy_j;
  if (*n > 1) modes[1].j = all.energy_j;
  return PZ_OK;
}

static enum pz_status make_task(struct maker *m, const struct pz_op *op, struct pz_task *out) {
  struct pz_mode *modes = pz_arena_alloc(m->arena, MOST_MODES, sizeof *modes);
  if (!modes) return pz_fail(m->err, PZ_NO_MEMORY, "out of memory for the schedule problem");
  *out = (struct pz_task){.name = op->name, .op_class = op->op_class, .modes = modes};
  bool two = m->options->modes == PZ_MODES_TWO;
  return two ? two_modes(m, op, modes, &out->n_modes) : all_modes(m, op, modes, &out->n_modes);
}

static enum pz_status make_problem(struct maker *m, const struct pz_ops *ops,
                                   struct pz_problem *out) {
  uint32_t n_edges = 0, e = 0;
  for (uint32_t i = 0; i < ops->n; i++) n_edges += ops->op[i].n_pred;
  struct pz_task *tasks = pz_arena_alloc(m->arena, ops->n, sizeof *tasks);
  struct pz_edge *edges = pz_arena_alloc(m->arena, n_edges, sizeof *edges);
  if (!tasks || !edges)
    return pz_fail(m->err, PZ_NO_MEMORY, "out of memory for the schedule problem");
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++) {
    status = make_task(m, &ops->op[i], &tasks[i]);
    tasks[i].id = i;
    for (uint32_t k = 0; k < ops->op[i].n_pred; k++)
      edges[e++] = (struct pz_edge){ops->op[i].pred[k], i};
  }
  if (status != PZ_OK) return status;
  return pz_problem_make(m->arena, m->capacity, tasks, ops->n, edges, n_edges, out, m->err);
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
