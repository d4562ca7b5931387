/* A prediction as JSON. */
#ifndef PZ_PLACE_PREDICTION_JSON_H
#define PZ_PLACE_PREDICTION_JSON_H

#include "core/json.h"

/* The plan, step time and its parts, rates, memory of every stage.  New reference; NULL: no memory. */
json_t *pz_training_run_json(const struct pz_training_run *r);

/* The fields of a filled plan alone. */
json_t *pz_training_plan_json(const struct pz_training_options *o);

/* Do experts, or layers that predict further tokens, make the plan another than that of a dense model? */
bool pz_experts_told(const struct pz_training_options *o);

/* Modules of selective recomputation, in words: "layernorm,moe_act".  Returns buf. */
enum { PZ_MODULES_TEXT = 80 };
char *pz_modules_text(unsigned set, char *buf, size_t size);

/* What is run beside compute, in words: "grad,param", or "none".  Returns buf. */
char *pz_overlap_text(unsigned set, char *buf, size_t size);

#endif
