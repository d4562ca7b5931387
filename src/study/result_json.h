/* A result as JSON and back: for machines, and as run files keep it. */
#ifndef PZ_STUDY_RESULT_JSON_H
#define PZ_STUDY_RESULT_JSON_H

#include "core/json.h"
#include "study/result.h"

/* The result of the search, without comparison and detail.  New reference; NULL: no memory. */
json_t *pz_result_json(const struct pz_result *r);

/* The same for readers: with the watts of the best chip's steps (best.power) and joules of each model. */
json_t *pz_result_told_json(const struct pz_result *r);
/* Read it back into an initialised result; inputs come from its "inputs". */
PZ_NODISCARD enum pz_status pz_result_read(const json_t *json, struct pz_result *r,
                                           struct pz_error *err);

/* What was asked, whole.  New reference; NULL: no memory. */
json_t *pz_result_inputs_json(const struct pz_result *r);

/* The comparison as a run keeps it; `whole`: with what it was made of, for machines. */
json_t *pz_comparison_json(const struct pz_result *r);
PZ_NODISCARD enum pz_status pz_comparison_read(const json_t *json, struct pz_result *r,
                                               struct pz_error *err);

json_t *pz_detail_json(const struct pz_result *r);
PZ_NODISCARD enum pz_status pz_detail_read(const json_t *json, struct pz_result *r,
                                           struct pz_error *err);

#endif
