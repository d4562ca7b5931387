#include "step/step_energy.h"

#include "chip/chip.h"
#include "core/num.h"
#include "cost/attention.h"
#include "cost/constants.h"
#include "cost/power.h"
#include "workload/op.h"

/* Dynamic energy of an operator at the chip's clock: all but HBM and links follows V^2. */
static double op_dynamic_j(struct pz_call *call, struct pz_cost *cost, const struct pz_op *op,
                           double voltage2) {
  const struct pz_tech_info *t = pz_tech_at(cost->chip.tech);
  if (op->op_class == PZ_CLASS_NONE) return 0;
  if (op->op_class == PZ_CLASS_COLLECTIVE && op->dims.batch <= 1) return 0;
  struct pz_estimate e = pz_estimate_op(call, cost, op, NULL);
  if (cost->chip.cold && op->op_class != PZ_CLASS_COLLECTIVE)
    return e.energy_j - e.latency_s * pz_power_idle_watts(&cost->chip);
  double all = e.energy_j - e.latency_s * cost->static_watts;
  double outside = op->op_class == PZ_CLASS_COLLECTIVE
                       ? all
                       : e.hbm_s * pz_chip_hbm_bytes_per_s(&cost->chip) * t->hbm_j;
  outside = pz_fmin(outside, all);
  return outside + voltage2 * (all - outside);
}

static double pass_j(struct pz_call *call, struct pz_cost *cost, const struct pz_ops *ops,
                     double voltage2) {
  double sum = 0;
  for (uint32_t i = 0; i < ops->n; i++) sum += op_dynamic_j(call, cost, &ops->op[i], voltage2);
  return sum;
}

/* Of all repeated layers, those that are recomputed. */
static double recomputed_layers(const struct pz_step_model *m, const struct pz_plan *p) {
  double layers = 0;
  for (int64_t chunk = 0; chunk < p->pp * p->vpp; chunk++)
    layers += (double)pz_plan_recomputed_layers(p, chunk % p->pp,
                                                pz_plan_chunk_layers(p, m->n_blocks, chunk));
  return m->n_blocks < 1 ? 0 : layers / (double)m->n_blocks;
}

/* The part of a repeated layer's forward pass that backward recomputes, over all layers of the kind. */
static double recomputed_part(const struct pz_step_model *m, const struct pz_plan *p,
                              uint32_t kind) {
  const struct pz_layer_step *once = &m->steps->block[kind], *recomputed = &m->steps->again[kind];
  double forward = pz_kernels_s(&once->forward);
  if (!(forward > 0)) return 0;
  return recomputed_layers(m, p) *
         (pz_kernels_s(&recomputed->backward) - pz_kernels_s(&once->backward)) / forward;
}

static double layer_j(const struct pz_layer_step *l) { return l->forward_j + l->backward_j; }

/* The same as microbatch_j, by the schedules of layers. */
static double scheduled_j(const struct pz_step_model *m, const struct pz_plan *p) {
  const struct pz_model_steps *t = m->steps;
  double sum = layer_j(&t->before) + layer_j(&t->after), again = recomputed_layers(m, p);
  for (uint32_t k = 0; k < m->kinds.n; k++)
    sum += (double)m->w->layers[m->kinds.layer[k]].count *
           ((1 - again) * layer_j(&t->block[k]) + again * layer_j(&t->again[k]));
  return sum;
}

/* One microbatch through all layers, on one device of each stage. */
static double microbatch_j(struct pz_call *call, struct pz_step_model *m, const struct pz_plan *p,
                           double voltage2) {
  uint32_t kind = 0;
  double sum = 0;
  pz_step_model_time(call, m, p, pz_plan_microbatches(p), PZ_TIMING_SOLVED);
  if (m->cost.chip.cold && pz_step_is_scheduled(&m->cost.chip, p)) return scheduled_j(m, p);
  for (uint32_t i = 0; i < m->w->n_layers; i++) {
    const struct pz_layer *l = &m->w->layers[i];
    double forward = pass_j(call, &m->cost, &l->ops[PZ_FORWARD], voltage2);
    double backward = pass_j(call, &m->cost, &l->ops[PZ_BACKWARD], voltage2);
    double recomputed = 0;
    if (kind < m->kinds.n && m->kinds.layer[kind] == i) recomputed = recomputed_part(m, p, kind++);
    sum += (double)l->count * ((1 + recomputed) * forward + backward);
  }
  return sum;
}

double pz_exchange_bytes(const struct pz_plan *p) {
  static const double WEIGHT_BYTES = 2;
  return p->grad_bytes + (p->zero == 3 ? 2 : 1) * WEIGHT_BYTES;
}

/* The optimizer, once for each copy of its state, and the exchange of gradients and of sharded weights. */
static double update_j(const struct pz_step_model *m, const struct pz_plan *p, double params) {
  static const double MANY = 1e6;
  const struct pz_chip *c = &m->cost.chip;
  struct pz_power u;
  double copies = (double)pz_plan_replicas(p);
  double others = copies - 1;
  params *= (double)m->w->totals.model_trained_params / (double)m->w->totals.model_params;
  u = pz_cost_optimizer_step(&m->cost, MANY * pz_plan_optimizer_bytes(p, m->memory.experts), MANY,
                             m->k->optimizer_efficiency);
  if (c->cold) u.joules -= u.latency_s * pz_power_idle_watts(c);
  return params * (p->zero ? 1 : copies) * u.joules / MANY +
         params * others * pz_exchange_bytes(p) * pz_tech_at(c->tech)->link_j;
}

/* Of a chip whatever it does: at rest, where the law of power has the rest (cost/power.h). */
static double static_watts(const struct pz_chip *c) {
  return c->cold ? pz_power_idle_watts(c) : pz_power_static_watts(c);
}

/* Measured chips that launch kernels lower their clock in long GEMMs, as their calibration knows. */
static double voltage2_of(const struct pz_chip *c) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  if (pz_tech_is_library(t)) return 1;
  return pz_tech_voltage2(t, pz_fmin(c->clock_hz, t->reference_hz));
}

double pz_step_dynamic_j(struct pz_call *call, struct pz_step_model *m, const struct pz_plan *p,
                         double params) {
  double one = microbatch_j(call, m, p, voltage2_of(&m->cost.chip));
  double passes = (double)(p->tp * pz_plan_cp(p) * p->dp * pz_plan_microbatches(p));
  return passes * one + update_j(m, p, params);
}

struct pz_step_energy pz_step_energy(struct pz_call *call, const struct pz_job *job,
                                     const struct pz_plan *p, const struct pz_prediction *priced) {
  struct pz_step_energy e = {0};
  double devices = (double)pz_plan_devices(p), step_s = priced->step_s;
  struct pz_step_model *m = pz_step_model_new(call, job, p);
  e.dynamic_j = pz_step_dynamic_j(call, m, p, priced->params);
  pz_close(call, m);
  e.static_j = devices * step_s * static_watts(job->chip);
  double all = e.dynamic_j + e.static_j;
  e.watts = all / (devices * step_s);
  e.joules_per_sample = all / (double)p->batch;
  return e;
}

/* ---- operators ------------------------------------------------------------------------------ */

/* What the cores compute of an operator: FLOP of its products, of causal attention to keys that tokens attend to; lane
 * operations of an element-wise one. */
static double operations_of(const struct pz_cost *cost, const struct pz_op *op,
                            const struct pz_work *w) {
  if (!op->matmul_flop) return w->lane_s * pz_chip_vector_op_per_s(&cost->chip);
  bool half = op->kind == PZ_OP_ATTENTION && cost->causal;
  return (double)op->matmul_flop * (half ? pz_attention_causal_part(&op->dims, op->span, 0) : 1);
}

static void list_pass(struct pz_call *call, struct pz_step_model *m, const struct pz_layer *l,
                      const struct pz_ops *ops, pz_step_operator_fn *fn, void *ctx) {
  const struct pz_chip *c = &m->cost.chip;
  double bytes_per_s = pz_chip_hbm_bytes_per_s(c) * c->calibration.hbm_read_efficiency;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    struct pz_estimate e;
    struct pz_work w;
    if (op->op_class == PZ_CLASS_NONE || op->op_class == PZ_CLASS_COLLECTIVE) continue;
    e = pz_estimate_op(call, &m->cost, op, &w);
    bool slowed = c->cold && e.latency_s > (1 + 1e-6) * pz_work_s(&w);
    struct pz_step_operator x = {l,
                                 op,
                                 operations_of(&m->cost, op, &w),
                                 e.hbm_s * bytes_per_s,
                                 e.latency_s,
                                 slowed ? "watts" : pz_bound_name(e.bound),
                                 (double)l->count};
    fn(call, ctx, &x);
  }
}

void pz_step_operators(struct pz_call *call, const struct pz_job *job, const struct pz_plan *plan,
                       pz_step_operator_fn *fn, void *ctx) {
  struct pz_step_model *m = pz_step_model_new(call, job, plan);
  for (uint32_t i = 0; i < m->w->n_layers; i++)
    for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
      list_pass(call, m, &m->w->layers[i], &m->w->layers[i].ops[d], fn, ctx);
  pz_close(call, m);
}
