/* A plan with nothing unset: what a user leaves open is as the framework does it, or follows from the other fields. */
#ifndef PZ_PLAN_PLAN_FILL_H
#define PZ_PLAN_PLAN_FILL_H

#include "plan/plan.h"

/* Fill in what is unset: by the framework's defaults (on this chip, where the framework is unset too) or from the other
 * fields; seq 0 stays: it is the model's.  PZ_BAD_USE for numbers out of range, devices that the degrees do not divide,
 * and a batch that replicas and microbatches do not divide. */
PZ_NODISCARD enum pz_status pz_plan_fill(struct pz_plan *p, const struct pz_chip *chip,
                                         struct pz_error *err);

/* Of these, what follows from the precision of a plan with a framework.  PZ_BAD_USE: fields of another precision, or a
 * chip (NULL: any) without it. */
PZ_NODISCARD enum pz_status pz_plan_fill_precision(struct pz_plan *p, const struct pz_chip *chip,
                                                   struct pz_error *err);

#endif
