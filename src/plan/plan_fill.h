/* Fills a plan: replaces unset fields by defaults or by values that follow from other fields. */
#ifndef PZ_PLAN_PLAN_FILL_H
#define PZ_PLAN_PLAN_FILL_H

#include "core/call.h"
#include "plan/plan.h"

/* Sets all unset fields of a plan, except that a sequence length of 0 stays and stands for the
 * model's own.  An unset framework is chosen by the chip, which may be NULL.  Raises PZ_BAD_USE for
 * values out of range, devices that the degrees do not divide, and a batch that replicas and
 * microbatches do not divide.  The plan is then unchanged. */
void pz_fill_plan(struct pz_call *call, struct pz_plan *plan, const struct pz_chip *chip);

/* Like pz_fill_plan(), but if the plan cannot be filled, returns false and the error in *why, which
 * may be NULL. */
bool pz_try_fill_plan(struct pz_plan *plan, const struct pz_chip *chip, struct pz_error *why);

/* Sets the unset fields that follow from the precision of a plan, whose framework is set.  Raises
 * PZ_BAD_USE for fields that another precision needs, and for a chip that lacks the precision; a
 * NULL chip has all. */
void pz_fill_plan_precision(struct pz_call *call, struct pz_plan *plan, const struct pz_chip *chip);

#endif
