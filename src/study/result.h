/* The result of a search as a plain struct: the inputs, the best chips with their plans and
 * certificates and, if asked for, a comparison of methods and the details of a report.  Tables,
 * JSON, pages and run files are made from it.  Only `seconds` depends on the clock. */
#ifndef PZ_STUDY_RESULT_H
#define PZ_STUDY_RESULT_H

#include "core/arena.h"
#include "core/call.h"

/* Initializes an empty result whose parts will be allocated in the arena. */
void pz_result_init(struct pz_result *result, struct pz_arena *arena);

/* Returns the answer for all models, or for the only one. */
static inline const struct pz_answer *pz_result_best(const struct pz_result *result) {
  return &result->answers[result->n_answers - 1];
}

/* Sets the inputs of the result from the JSON that run files contain. */
void pz_result_set_inputs(struct pz_call *call, struct pz_result *result, const char *json);

/* Summarizes throughput ratios; those that are not above 0 are left out. */
struct pz_ratios pz_ratios_of(const double *ratios, const char *const *models, uint32_t n);

#endif
