/* A prediction as JSON. */
#ifndef PZ_STEP_PREDICTION_JSON_H
#define PZ_STEP_PREDICTION_JSON_H

#include "core/json.h"

/* The plan, step time and its parts, rates, memory of every stage.  New reference; NULL: no memory. */
json_t *pz_training_run_json(const struct pz_training_run *r);

#endif
