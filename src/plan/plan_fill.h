/* Filling a plan: fields that a user leaves unset have the framework's defaults or follow from other fields. */
#ifndef PZ_PLAN_PLAN_FILL_H
#define PZ_PLAN_PLAN_FILL_H

#include "core/call.h"
#include "plan/plan.h"

/* Fills in what is unset, from the framework's defaults or from the other fields.  An unset framework follows from the chip, which may be
 * NULL.  seq 0 is kept, which stands for the model's own.  Raises PZ_BAD_USE for numbers out of range, for devices that the degrees
 * do not divide and for a batch that replicas and microbatches do not divide; the plan is then unchanged. */
void pz_fill_plan(struct pz_call *call, struct pz_plan *plan, const struct pz_chip *chip);

/* Like pz_fill_plan(), but returns false and the error in *why, which may be NULL, if the plan cannot be filled. */
bool pz_try_fill_plan(struct pz_plan *plan, const struct pz_chip *chip, struct pz_error *why);

/* Fills in what follows from the precision of a plan that has a framework.  Raises PZ_BAD_USE for fields of another precision, and for a
 * chip without it; NULL stands for any chip. */
void pz_fill_plan_precision(struct pz_call *call, struct pz_plan *plan, const struct pz_chip *chip);

/* ---- for callers that return a status ---- */
PZ_NODISCARD enum pz_status pz_plan_fill(struct pz_plan *p, const struct pz_chip *chip,
                                         struct pz_error *err);
PZ_NODISCARD enum pz_status pz_plan_fill_precision(struct pz_plan *p, const struct pz_chip *chip,
                                                   struct pz_error *err);

#endif
