/* Plans that a search found, and its certificate, as JSON. */
#ifndef PZ_PLACE_FOUND_PLAN_JSON_H
#define PZ_PLACE_FOUND_PLAN_JSON_H

#include "core/json.h"

/* One plan: its fields, step_s, mfu, mfu_conventional, devices_used, memory.  `best` NULL, or what it is compared with:
 * then also `slower` (parts of the best's time) and `grown_part`.  New reference; NULL: no memory. */
json_t *pz_found_plan_json(const struct pz_training_run *r, const struct pz_training_run *best);

json_t *pz_plan_certificate_json(const struct pz_plan_certificate *c);

/* All of a search: the prediction of the best plan, the plan, the certificate, the others. */
json_t *pz_found_plans_json(const struct pz_training_plans *p);

#endif
