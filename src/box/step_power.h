/* Power of a chip in its steps, by what their operators do, and how fast it is within a limit of power.
 *
 * A search limits the watts of the bill, which counts arrays at full rate and little traffic beside them; a step whose
 * operators move more takes more, and the chip then lowers its clock (step/step_energy.h). */
#ifndef PZ_BOX_STEP_POWER_H
#define PZ_BOX_STEP_POWER_H

#include "box/judge.h"

struct pz_step_power {
  bool known; /* not for nodes of libraries, which have no bill of HBM, links and static power */
  double limit_watts;
  double full_watts[PZ_JUDGE_MOST_MODELS]; /* of a device at the chip's own clock, by model */
  double clock_hz[PZ_JUDGE_MOST_MODELS], step_s[PZ_JUDGE_MOST_MODELS]; /* within the limit */
};

/* Of plans that were found for the chip. */
PZ_NODISCARD enum pz_status pz_step_power(const struct pz_judge_question *q,
                                          const struct pz_chip *chip,
                                          const struct pz_found_plan *plans, double limit_watts,
                                          struct pz_step_power *out, struct pz_error *err);

/* The mean over models of how much faster a chip is than another, each within its limit. */
double pz_step_power_ratio(const struct pz_judge_question *q, const struct pz_step_power *x,
                           const struct pz_step_power *to);

/* Of all models. */
double pz_step_power_most_watts(const struct pz_judge_question *q, const struct pz_step_power *x);
double pz_step_power_least_clock(const struct pz_judge_question *q, const struct pz_step_power *x);

#endif
