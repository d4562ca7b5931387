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
PZ_NODISCARD enum pz_status pz_step_energy(const struct pz_job *job, const struct pz_plan *p,
                                           const struct pz_prediction *priced,
                                           struct pz_step_energy *out, struct pz_error *err);

struct pz_throttled_step {
  double clock_hz;        /* in the step; the chip's own: it is within the limit */
  struct pz_prediction p; /* at that clock; mfu, hfu: of the rate at the chip's own */
  struct pz_step_energy energy;
  double full_watts; /* what a device would take at its own clock */
};

/* A priced plan within a limit of power: where its energy over its time would pass the limit, the chip lowers its clock, as
 * it does in long GEMMs (cost/power.h).  The plan stays; cores, their buffers and the global buffer slow down with the
 * clock, HBM and links do not.  Not below a fifth of the chip's clock, whatever that takes.  Some twenty times the cost of
 * pricing one plan, where the clock is lowered. */
PZ_NODISCARD enum pz_status pz_step_throttle(const struct pz_job *job, const struct pz_plan *plan,
                                             const struct pz_prediction *priced, double limit_watts,
                                             struct pz_throttled_step *out, struct pz_error *err);

/* Every operator of a microbatch on a device of the plan, with what it takes: `times` that often in all layers of the
 * model; what is recomputed is not counted.  Ends with what fn returns where that is not PZ_OK. */
typedef enum pz_status pz_step_operator_fn(void *ctx, const struct pz_layer *layer,
                                           const struct pz_op *op, const struct pz_estimate *e,
                                           double times);
PZ_NODISCARD enum pz_status pz_step_operators(const struct pz_job *job, const struct pz_plan *plan,
                                              pz_step_operator_fn *fn, void *ctx,
                                              struct pz_error *err);

#endif
