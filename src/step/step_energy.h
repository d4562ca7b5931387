/* Energy of a training step by what its operators do: dynamic energy of every pass on every device, and static power for as
 * long as the step takes.  For chips whose node has a bill (16 nm and below). */
#ifndef PZ_STEP_STEP_ENERGY_H
#define PZ_STEP_STEP_ENERGY_H

#include "step/step_model.h"

/* Of all devices of the plan. */
struct pz_step_energy {
  double dynamic_j, static_j;
  double watts; /* of one device, mean over the step */
  double joules_per_sample;
};

/* What a plan that was priced takes; chip and network as it was.  Errors as pz_step_model_new. */
struct pz_step_energy pz_step_energy(struct pz_call *call, const struct pz_job *job,
                                     const struct pz_plan *p, const struct pz_prediction *priced);

/* Bytes that links carry for each parameter that devices share: its gradient, and its weight for each gather. */
double pz_exchange_bytes(const struct pz_plan *p);

/* The dynamic part of a plan on the chip that the model is timed for; the clocks of operators of a chip that nobody measured
 * are those that its watts allow, with the energy of its clock network. */
double pz_step_dynamic_j(struct pz_call *call, struct pz_step_model *m, const struct pz_plan *p,
                         double params);

/* An operator of a microbatch on a device, alone on the chip: a point of the roofline, at most at the HBM rate and at the
 * peak of the cores that it runs on. */
struct pz_step_operator {
  const struct pz_layer *layer;
  const struct pz_op *op;
  double
      operations; /* FLOP of products, of causal attention without the masked half; lane operations of others */
  double hbm_bytes, seconds;
  const char *bound; /* pz_bound_name, or "watts": these lower its clock */
  double times;      /* so often in all layers of the model; what is recomputed is not counted */
};

/* Calls fn for all of them. */
typedef void pz_step_operator_fn(struct pz_call *call, void *ctx, const struct pz_step_operator *x);
void pz_step_operators(struct pz_call *call, const struct pz_job *job, const struct pz_plan *plan,
                       pz_step_operator_fn *fn, void *ctx);

#endif
