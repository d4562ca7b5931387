/* Predictions, plans that a search found, and what a run costs, as JSON.  New references; NULL: no memory. */
#ifndef PZ_REPORT_TRAINING_JSON_H
#define PZ_REPORT_TRAINING_JSON_H

#include "core/json.h"

/* The plan, step time and its terms, rates, memory of every stage. */
json_t *pz_training_run_json(const struct pz_training_run *r);

/* The term of the step that is longest beyond that of `best`, and by how much; NULL: none is. */
const struct pz_part_info *pz_grown_part(const struct pz_prediction *best,
                                         const struct pz_prediction *other, double *grew_s);

/* One plan: its fields, step_s, mfu, mfu_conventional, devices_used, memory.  `best` NULL, or what it is compared with:
 * then also `slower` (parts of the best's time) and `grown_part`. */
json_t *pz_found_plan_json(const struct pz_training_run *r, const struct pz_training_run *best);

json_t *pz_plan_certificate_json(const struct pz_plan_certificate *c);

/* All of a search: the prediction of the best plan, the plan, the certificate, the others. */
json_t *pz_found_plans_json(const struct pz_training_plans *p);

/* What was not asked for, or is not known, is left out. */
json_t *pz_run_cost_json(const struct pz_run_cost *c);

#endif
