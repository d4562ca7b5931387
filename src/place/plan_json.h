/* A plan as JSON, and its fields for results that hold plans. */
#ifndef PZ_PLACE_PLAN_JSON_H
#define PZ_PLACE_PLAN_JSON_H

#include "core/record.h"
#include "place/plan.h"

/* Of struct pz_model_plan. */
extern const struct pz_record pz_model_plan_record;

/* `whole`: with every stage.  New reference; NULL: no memory. */
json_t *pz_plan_json(const struct pz_model_plan *p, bool whole);

#endif
