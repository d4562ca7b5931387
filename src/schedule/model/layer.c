#include "schedule/model/layer.h"

#include <math.h>

#include "schedule/model/rate_modes.h"

#define NO_MEMORY "out of memory for the schedule problem"

const char *const pz_modes_names[] = {"all", "cores", "two", NULL};

struct maker {
  struct pz_cost *cost;
  struct pz_chip chip; /* the whole one */
  struct pz_cluster net;
  const struct pz_layer_options *options;
  struct pz_arena *arena;
  int32_t capacity[PZ_RESOURCES];
  double hbm_part, glb_part; /* of the whole rates, that the part of the chip at hand can draw */
  struct pz_task *tasks;
  struct pz_vec *full; /* by task: its modes at full rate, struct pz_full_mode */
  struct pz_error *err;
};

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
  return op->op_class == PZ_CLASS_TENSOR   ? ON_TENSOR
         : op->op_class == PZ_CLASS_VECTOR ? ON_VECTOR
         : op->op_class == PZ_CLASS_FUSED  ? ON_BOTH
                                           : ON_NONE;
}

/* No longer, on no more cores, and no more asked of the memories: at any rates the other is not
 * needed. */
static bool dominates(const struct pz_mode *a, const struct pz_mode *b) {
  return a->s <= b->s && a->hbm_s <= b->hbm_s && a->glb_s <= b->glb_s && pz_mode_fits(b->use, a);
}

static enum pz_status add_mode(struct maker *m, const struct pz_op *op, int32_t tensor,
                               int32_t vector, struct pz_vec *full) {
  struct pz_estimate e;
  enum pz_status status = cost_there(m, op, &e);
  if (status != PZ_OK) return status;
  struct pz_full_mode f = {.at = {.use = {tensor, vector, op->op_class == PZ_CLASS_COLLECTIVE},
                                  .label = tensor ? tensor : vector,
                                  .s = e.latency_s,
                                  .j = e.energy_j,
                                  .hbm_s = e.hbm_s,
                                  .glb_s = e.glb_s}};
  for (uint32_t i = 0; i < full->n && m->chip.rules.rate_levels; i++)
    if (dominates(&pz_vec_at(full, struct pz_full_mode, i)->at, &f.at)) return PZ_OK;
  return pz_vec_push(full, &f) ? PZ_OK : pz_fail(m->err, PZ_NO_MEMORY, NO_MEMORY);
}

/* A group's operators on so many cores, all of them before the next part of the chip: going there
 * costs more than asking. */
static enum pz_status add_modes(struct maker *m, const struct pz_ops *ops, enum group g,
                                int32_t tensor, int32_t vector) {
  enum pz_status status = PZ_OK;
  use_part(m, tensor, vector);
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++)
    if (group_of(&ops->op[i]) == g) status = add_mode(m, &ops->op[i], tensor, vector, &m->full[i]);
  return status;
}

static bool has_group(const struct pz_ops *ops, enum group g) {
  for (uint32_t i = 0; i < ops->n; i++)
    if (group_of(&ops->op[i]) == g) return true;
  return false;
}

/* Vector cores that go with so many tensor cores. */
static int32_t vector_share(const struct maker *m, int32_t cores) {
  int64_t t = m->capacity[PZ_TENSOR_CORES], v = m->capacity[PZ_VECTOR_CORES];
  return t > 0 ? (int32_t)((cores * v + t - 1) / t) : 0;
}

/* 1, 2, 4 .. and all cores; 0, and no more, where there are none. */
static int32_t next_cores(int32_t cores, int32_t most) {
  return cores == most ? -1 : 2 * cores < most ? 2 * cores : most;
}

static enum pz_status full_rate_modes(struct maker *m, const struct pz_ops *ops) {
  enum pz_status status = PZ_OK;
  for (enum group g = ON_NONE; g < GROUPS && status == PZ_OK; g++) {
    if (!has_group(ops, g)) continue;
    int32_t most_t = g == ON_TENSOR || g == ON_BOTH ? m->capacity[PZ_TENSOR_CORES] : 0;
    int32_t most_v = g == ON_VECTOR || g == ON_BOTH ? m->capacity[PZ_VECTOR_CORES] : 0;
    for (int32_t t = most_t > 0; t >= 0 && status == PZ_OK; t = next_cores(t, most_t))
      if (g == ON_BOTH && !m->chip.rules.rate_levels)
        status = add_modes(m, ops, g, t, vector_share(m, t));
      else
        for (int32_t v = most_v > 0; v >= 0 && status == PZ_OK; v = next_cores(v, most_v))
          status = add_modes(m, ops, g, t, v);
  }
  return status;
}

/* One operator after the other, each in its fastest mode. */
static double serial_s(const struct maker *m, uint32_t n) {
  double sum = 0;
  for (uint32_t i = 0; i < n; i++) {
    double least = HUGE_VAL;
    for (uint32_t k = 0; k < m->full[i].n; k++)
      least = fmin(least, pz_vec_at(&m->full[i], struct pz_full_mode, k)->at.s);
    sum += least;
  }
  return sum;
}

/* As fast as the cores are, without a share of any rate. */
static bool plain_modes(const struct pz_vec *full, struct pz_vec *out) {
  for (uint32_t i = 0; i < full->n; i++)
    if (!pz_vec_push(out, &pz_vec_at(full, struct pz_full_mode, i)->at)) return false;
  return true;
}

static enum pz_status all_modes(struct maker *m, const struct pz_ops *ops) {
  m->full = pz_arena_alloc(m->arena, ops->n, sizeof *m->full);
  if (!m->full) return pz_fail(m->err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t i = 0; i < ops->n; i++)
    pz_vec_init(&m->full[i], m->arena, sizeof(struct pz_full_mode));
  enum pz_status status = full_rate_modes(m, ops);
  if (status != PZ_OK) return status;
  bool shared = m->options->modes == PZ_MODES_ALL;
  double serial = serial_s(m, ops->n) * (1 + 1e-9);
  for (uint32_t i = 0; i < ops->n; i++) {
    struct pz_vec modes;
    pz_vec_init(&modes, m->arena, sizeof(struct pz_mode));
    bool done = !shared                     ? plain_modes(&m->full[i], &modes)
                : m->chip.rules.rate_levels ? pz_rate_modes(&m->full[i], serial, &modes)
                                            : pz_full_rate_modes(&m->full[i], &modes);
    if (!done) return pz_fail(m->err, PZ_NO_MEMORY, NO_MEMORY);
    m->tasks[i].modes = modes.items;
    m->tasks[i].n_modes = modes.n;
  }
  return PZ_OK;
}

/* ---- two modes ------------------------------------------------------------------------------- */

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
    struct pz_mode *modes = pz_arena_alloc(m->arena, 2, sizeof *modes);
    if (!modes) return pz_fail(m->err, PZ_NO_MEMORY, NO_MEMORY);
    m->tasks[i].modes = modes;
    m->tasks[i].n_modes = pz_two_modes(ops->op[i].op_class, m->capacity, e[i][0].latency_s,
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
  struct pz_edge *edges = pz_arena_alloc(m->arena, n_edges, sizeof *edges);
  if (!m->tasks || !edges) return pz_fail(m->err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    m->tasks[i] = (struct pz_task){.name = op->name, .id = i, .op_class = op->op_class};
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
