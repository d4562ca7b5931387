/* The energy of a training step (step_energy.h).
 *
 * The dynamic energy of a microbatch is the sum over its operators, or that of the schedules of
 * its layers; the optimizer and the exchange of gradients are added once a step.
 * pz_step_operators() lists the operators for the roofline. */
#include "step/step_energy.h"

#include "chip/chip.h"
#include "core/num.h"
#include "cost/attention.h"
#include "cost/constants.h"
#include "cost/power.h"
#include "workload/op.h"

/* ---- dynamic energy ------------------------------------------------------------------------- */

/* Returns the dynamic joules of the operators of one direction of a layer at the chip's clock.  All
 * but HBM and links is proportional to voltage2, the squared voltage relative to that at the
 * reference clock of the technology. */
static double pass_j(struct pz_call *call, struct pz_cost *cost, const struct pz_ops *ops,
                     double voltage2) {
  const struct pz_chip *chip = &cost->chip;
  double hbm_bytes_per_s = pz_chip_hbm_bytes_per_s(chip), sum_j = 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    bool collective = op->op_class == PZ_CLASS_COLLECTIVE;
    if (op->op_class == PZ_CLASS_NONE || (collective && op->dims.batch <= 1)) continue;
    struct pz_estimate estimate = pz_estimate_op(call, cost, op, NULL);
    if (chip->cold && !collective) { /* the power law includes the voltage */
      sum_j += estimate.energy_j - estimate.latency_s * pz_power_idle_watts(chip);
      continue;
    }
    double total_j = estimate.energy_j - estimate.latency_s * cost->static_watts;
    double outside_j = total_j; /* HBM and links */
    if (!collective) outside_j = estimate.hbm_s * hbm_bytes_per_s * pz_tech_at(chip->tech)->hbm_j;
    outside_j = pz_fmin(outside_j, total_j);
    sum_j += outside_j + voltage2 * (total_j - outside_j);
  }
  return sum_j;
}

/* Returns the dynamic joules of a microbatch through all layers, on one device of each stage: from
 * the schedules of the layers if there are any, otherwise from their operators. */
static double microbatch_j(struct pz_call *call, struct pz_step_model *model,
                           const struct pz_plan *plan, double voltage2) {
  const struct pz_workload *workload = model->workload;
  const struct pz_layer_kinds *kinds = &model->kinds;
  double sum_j = 0, recomputed_part = 0; /* part of the repeated layers that is recomputed */
  for (int64_t i = 0; i < plan->pp * plan->vpp && model->n_blocks > 0; i++)
    recomputed_part += (double)pz_plan_recomputed_layers(
        plan, i % plan->pp, pz_plan_chunk_layers(plan, model->n_blocks, i));
  if (model->n_blocks > 0) recomputed_part /= (double)model->n_blocks;
  pz_step_model_time(call, model, plan, pz_plan_microbatches(plan), PZ_TIMING_SOLVED);
  const struct pz_model_steps *steps = model->steps;
  if (model->cost.chip.cold && pz_step_is_scheduled(&model->cost.chip, plan)) {
    const struct pz_layer_step *before = &steps->before, *after = &steps->after;
    sum_j = before->forward_j + before->backward_j + (after->forward_j + after->backward_j);
    for (uint32_t kind = 0; kind < kinds->n; kind++) {
      const struct pz_layer_step *block = &steps->block[kind], *again = &steps->again[kind];
      double layers = (double)workload->layers[kinds->layer[kind]].count;
      sum_j += layers * ((1 - recomputed_part) * (block->forward_j + block->backward_j) +
                         recomputed_part * (again->forward_j + again->backward_j));
    }
    return sum_j;
  }
  uint32_t kind = 0;
  for (uint32_t i = 0; i < workload->n_layers; i++) {
    const struct pz_layer *layer = &workload->layers[i];
    double forward_j = pass_j(call, &model->cost, &layer->ops[PZ_FORWARD], voltage2);
    double backward_j = pass_j(call, &model->cost, &layer->ops[PZ_BACKWARD], voltage2);
    double recomputed = 0; /* part of the forward pass that the backward pass runs again */
    if (kind < kinds->n && kinds->layer[kind] == i) {
      const struct pz_layer_step *block = &steps->block[kind], *again = &steps->again[kind];
      double forward_s = pz_kernels_s(&block->forward);
      if (forward_s > 0)
        recomputed = recomputed_part *
                     (pz_kernels_s(&again->backward) - pz_kernels_s(&block->backward)) / forward_s;
      kind++;
    }
    sum_j += (double)layer->count * ((1 + recomputed) * forward_j + backward_j);
  }
  return sum_j;
}

/* Returns the bytes that links carry for each shared parameter: its gradient, and its 16-bit weight
 * for each time that it is gathered. */
double pz_exchange_bytes(const struct pz_plan *plan) {
  static const double WEIGHT_BYTES = 2;
  double gathers = plan->zero == 3 ? 2 : 1;
  return plan->grad_bytes + gathers * WEIGHT_BYTES;
}

/* Returns the dynamic joules of a step on all devices: passes, optimizer and exchange. */
double pz_step_dynamic_j(struct pz_call *call, struct pz_step_model *model,
                         const struct pz_plan *plan, double params) {
  static const double MANY = 1e6; /* parameters of an update whose energy is computed and scaled */
  const struct pz_chip *chip = &model->cost.chip;
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  /* calibrations of chips without a technology model include the lower clock in long GEMMs */
  double voltage2 = 1;
  if (!pz_tech_is_library(tech))
    voltage2 = pz_tech_voltage2(tech, pz_fmin(chip->clock_hz, tech->reference_hz));
  /* passes of all microbatches on all devices; microbatch_j() sums over the stages */
  double one_j = microbatch_j(call, model, plan, voltage2);
  double passes = (double)(plan->tp * pz_plan_cp(plan) * plan->dp * pz_plan_microbatches(plan));

  /* the optimizer for each copy of its state, and the exchange of gradients and sharded weights */
  double copies = (double)pz_plan_replicas(plan);
  params *= (double)model->workload->totals.model_trained_params /
            (double)model->workload->totals.model_params;
  struct pz_power update = pz_cost_optimizer_step(
      &model->cost, MANY * pz_plan_optimizer_bytes(plan, model->memory.experts), MANY,
      model->constants->optimizer_efficiency);
  if (chip->cold) update.joules -= update.latency_s * pz_power_idle_watts(chip);
  double update_j = params * (plan->zero ? 1 : copies) * update.joules / MANY;
  double exchange_j = params * (copies - 1) * pz_exchange_bytes(plan) * tech->link_j;
  return passes * one_j + (update_j + exchange_j);
}

struct pz_step_energy pz_step_energy(struct pz_call *call, const struct pz_job *job,
                                     const struct pz_plan *plan,
                                     const struct pz_prediction *priced) {
  struct pz_step_model *model = pz_step_model_new(call, job, plan);
  struct pz_step_energy energy = pz_step_energy_with(call, job, model, plan, priced);
  pz_close(call, model);
  return energy;
}

struct pz_step_energy pz_step_energy_with(struct pz_call *call, const struct pz_job *job,
                                          struct pz_step_model *model, const struct pz_plan *plan,
                                          const struct pz_prediction *priced) {
  struct pz_step_energy energy = {0};
  double devices = (double)pz_plan_devices(plan), step_s = priced->step_s;
  energy.dynamic_j = pz_step_dynamic_j(call, model, plan, priced->params);
  /* on an unmeasured chip, the dynamic energy includes all but the idle power */
  double static_watts =
      job->chip->cold ? pz_power_idle_watts(job->chip) : pz_power_static_watts(job->chip);
  energy.static_j = devices * step_s * static_watts;
  double all_j = energy.dynamic_j + energy.static_j;
  energy.watts = all_j / (devices * step_s);
  energy.joules_per_sample = all_j / (double)plan->batch;
  return energy;
}

/* ---- operators ------------------------------------------------------------------------------ */

/* Calls fn for each operator of the plan's layers, forward and backward, with its time alone on the
 * chip.  Collectives are left out. */
void pz_step_operators(struct pz_call *call, const struct pz_job *job, const struct pz_plan *plan,
                       pz_step_operator_fn *fn, void *ctx) {
  struct pz_step_model *model = pz_step_model_new(call, job, plan);
  const struct pz_workload *workload = model->workload;
  const struct pz_chip *chip = &model->cost.chip;
  double hbm_bytes_per_s = pz_chip_hbm_bytes_per_s(chip) * chip->calibration.hbm_read_efficiency;
  for (uint32_t i = 0; i < 2 * workload->n_layers; i++) { /* each layer forward, then backward */
    const struct pz_layer *layer = &workload->layers[i / 2];
    const struct pz_ops *ops = &layer->ops[i % 2 ? PZ_BACKWARD : PZ_FORWARD];
    for (uint32_t k = 0; k < ops->n; k++) {
      const struct pz_op *op = &ops->op[k];
      if (op->op_class == PZ_CLASS_NONE || op->op_class == PZ_CLASS_COLLECTIVE) continue;
      struct pz_work work;
      struct pz_estimate estimate = pz_estimate_op(call, &model->cost, op, &work);
      /* only the power limit makes an operator slower than its work on every resource */
      bool power_limited = chip->cold && estimate.latency_s > (1 + 1e-6) * pz_work_s(&work);
      bool is_causal = op->kind == PZ_OP_ATTENTION && model->cost.causal;
      struct pz_step_operator listed = {.layer = layer,
                                        .op = op,
                                        .operations = (double)op->matmul_flop,
                                        .hbm_bytes = estimate.hbm_s * hbm_bytes_per_s,
                                        .seconds = estimate.latency_s,
                                        .bound = pz_bound_name(estimate.bound),
                                        .times = (double)layer->count};
      if (power_limited) listed.bound = "watts";
      if (!op->matmul_flop)
        listed.operations = work.lane_s * pz_chip_vector_op_per_s(chip);
      else if (is_causal)
        listed.operations *= pz_attention_causal_part(&op->dims, op->span, 0);
      fn(call, ctx, &listed);
    }
  }
  pz_close(call, model);
}
