/* A finished search as a plain struct: what was asked, the best chips with their plans and
 * certificates, and where asked for the other ways to choose, and the details that a report shows.
 * Tables, JSON, pages and run files are made from it; nothing in it depends on the clock except
 * `seconds`.  All memory is the result's own. */
#ifndef PZ_STUDY_RESULT_H
#define PZ_STUDY_RESULT_H

#include "core/arena.h"

/* An empty result whose parts will lie in the arena: they are freed with it. */
void pz_result_init(struct pz_result *r, struct pz_arena *arena);

/* The last answer: of all models, or of the one. */
static inline const struct pz_answer *pz_result_best(const struct pz_result *r) {
  return &r->answers[r->n_answers - 1];
}

/* What was asked, from the JSON that run files keep. */
PZ_NODISCARD enum pz_status pz_result_set_inputs(struct pz_result *r, const char *json,
                                                 struct pz_error *err);

/* The summary of throughput ratios; those that are not above 0 do not count. */
struct pz_ratios pz_ratios_of(const double *ratios, const char *const *models, uint32_t n);

#endif
