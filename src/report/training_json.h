/* Predictions, plans that a search found, and the cost of a training run as JSON.  All functions
 * return a new reference, or NULL if out of memory. */
#ifndef PZ_REPORT_TRAINING_JSON_H
#define PZ_REPORT_TRAINING_JSON_H

#include "core/json.h"

/* Returns a prediction: plan, step time and its parts, rates, memory of every stage. */
json_t *pz_training_run_json(const struct pz_training_run *run);

/* Returns the part of the step time of `other` that exceeds the same part of `best` most, and
 * the difference in *grown_s. Returns NULL if no part is longer. */
const struct pz_part_info *pz_grown_part(const struct pz_prediction *best,
                                         const struct pz_prediction *other, double *grown_s);

/* Returns one plan: its fields, step_s, mfu, mfu_conventional, devices_used and memory.  Unless
 * `best` is NULL, it also has `slower`, the relative difference to the step time of `best`, and
 * `grown_part`. */
json_t *pz_found_plan_json(const struct pz_training_run *run, const struct pz_training_run *best);

json_t *pz_plan_certificate_json(const struct pz_plan_certificate *proof);

/* Returns the prediction of the best plan, the plan, the certificate and the other plans. */
json_t *pz_found_plans_json(const struct pz_training_plans *plans);

/* Returns the cost of a training run, without what was not requested or is unknown. */
json_t *pz_run_cost_json(const struct pz_run_cost *cost);

#endif
