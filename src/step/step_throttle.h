/* A training step within a limit of power: where its energy over its time would pass the limit, the chip lowers its clock,
 * as it does in long products (cost/power.h).  The plan stays; cores, their buffers and the global buffer slow down with
 * the clock, HBM and links do not. */
#ifndef PZ_STEP_STEP_THROTTLE_H
#define PZ_STEP_STEP_THROTTLE_H

#include "step/step_energy.h"

struct pz_throttled_step {
  double clock_hz;        /* in the step; the chip's own: it is within the limit */
  struct pz_prediction p; /* at that clock; mfu: of the rate at the chip's own */
  struct pz_step_energy energy;
  double full_watts; /* what a device would take at its own clock */
};

/* Of a plan that was priced for the job.  Not below a fifth of the chip's clock, whatever
 * that takes.  Some twenty times the cost of pricing one plan, where the clock is lowered. */
PZ_NODISCARD enum pz_status pz_step_throttle(const struct pz_job *job, const struct pz_plan *plan,
                                             const struct pz_prediction *priced, double limit_watts,
                                             struct pz_throttled_step *out, struct pz_error *err);

#endif
