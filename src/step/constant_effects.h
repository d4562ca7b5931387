/* Which constants of the model count for a plan: each is raised by a tenth, alone, and the plan is
 * predicted again. */
#ifndef PZ_STEP_CONSTANT_EFFECTS_H
#define PZ_STEP_CONSTANT_EFFECTS_H

#include "cost/constants.h"
#include "step/predict.h"

struct pz_constant_effect {
  const struct pz_constant_info *info;
  double value;
  double step_change, memory_change; /* parts of the step and of the peak, of a tenth more */
  const char *part;                  /* that changes most: of the step, or "memory" */
};

/* Those that change anything, in the order of constants.def; the plan is filled, as a run has it.  The
 * arena holds the list.  Cost: a prediction for each constant. */
PZ_NODISCARD enum pz_status pz_constant_effects(const struct pz_job *job,
                                                const struct pz_plan *plan, struct pz_arena *arena,
                                                struct pz_constant_effect **list, uint32_t *n,
                                                struct pz_error *err);

#endif
