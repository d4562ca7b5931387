/* The energy of a training step from its operators: dynamic energy of every pass on every device,
 * and static power for the duration of the step.  For technologies of 16 nm and below. */
#ifndef PZ_STEP_STEP_ENERGY_H
#define PZ_STEP_STEP_ENERGY_H

#include "step/step_model.h"

struct pz_step_energy {
  double dynamic_j, static_j; /* of all devices of the plan */
  double watts;               /* of one device, mean over the step */
  double joules_per_sample;
};

/* Returns the energy of a priced plan.  Raises the errors of pz_step_model_new(). */
struct pz_step_energy pz_step_energy(struct pz_call *call, const struct pz_job *job,
                                     const struct pz_plan *plan,
                                     const struct pz_prediction *priced);

/* Like pz_step_energy(), with a model that other plans may share. */
struct pz_step_energy pz_step_energy_with(struct pz_call *call, const struct pz_job *job,
                                          struct pz_step_model *model, const struct pz_plan *plan,
                                          const struct pz_prediction *priced);

/* Returns the bytes that links carry for each parameter that devices share: its gradient, and its
 * weight for each time that it is gathered. */
double pz_exchange_bytes(const struct pz_plan *plan);

/* Returns the dynamic energy of a step on the chip that the model is timed for.  On an unmeasured
 * chip, operators run at the clock that its power limit allows, and the energy of the clock
 * network is included.  `params` counts the model's parameters. */
double pz_step_dynamic_j(struct pz_call *call, struct pz_step_model *model,
                         const struct pz_plan *plan, double params);

/* An operator of a microbatch on a device, alone on the chip: a point of the roofline. */
struct pz_step_operator {
  const struct pz_layer *layer;
  const struct pz_op *op;
  double operations; /* FLOP of GEMMs without masked halves, lane operations of others */
  double hbm_bytes, seconds;
  const char *bound; /* pz_bound_name(), or "watts" if the power limit lowers its clock */
  double times;      /* how often all layers of the model run it, recomputation not counted */
};

/* Calls fn for all operators of a plan's layers, forward and backward. */
typedef void pz_step_operator_fn(struct pz_call *call, void *ctx,
                                 const struct pz_step_operator *step_operator);
void pz_step_operators(struct pz_call *call, const struct pz_job *job, const struct pz_plan *plan,
                       pz_step_operator_fn *fn, void *ctx);

#endif
