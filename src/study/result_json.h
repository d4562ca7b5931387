/* A result as JSON and back, for machines and for run files. */
#ifndef PZ_STUDY_RESULT_JSON_H
#define PZ_STUDY_RESULT_JSON_H

#include "core/json.h"
#include "study/result.h"

/* Writers return a new reference, or NULL if there is no memory. */

/* Returns the result of the search, without comparison and detail. */
json_t *pz_result_json(const struct pz_result *result);

/* Returns the result for output: like pz_result_json(), with the power of the best chip in each
 * step and the energy of the step of each model. */
json_t *pz_result_display_json(const struct pz_result *result);

/* Return the comparison with the baselines, and the data of a report. */
json_t *pz_comparison_json(const struct pz_result *result);
json_t *pz_detail_json(const struct pz_result *result);

/* Readers allocate in the arena of the result.  They raise PZ_BAD_INPUT if a comparison or a detail
 * does not belong to the answers that the result has. */
void pz_result_parse(struct pz_call *call, const json_t *json, struct pz_result *result);
void pz_comparison_parse(struct pz_call *call, const json_t *json, struct pz_result *result);
void pz_detail_parse(struct pz_call *call, const json_t *json, struct pz_result *result);

#endif
