/* The result of a search: as JSON, which is what runs keep, and from that as text. */
#ifndef PZ_REPORT_RESULT_TABLE_H
#define PZ_REPORT_RESULT_TABLE_H

#include <stdio.h>

#include "study/pareto.h"
#include "study/sensitivity.h"

/* What is told beside the objective_runs. */
struct pz_searched_extra {
  const struct pz_step *steps;
  uint32_t n_steps;
  const struct pz_front *front; /* NULL: not asked for */
};

/* A finished study without anything that depends on the clock.  Every plan is made again and
 * checked on the way.  New reference in *out. */
PZ_NODISCARD enum pz_status pz_searched_json(struct pz_study *s, const struct pz_searched_extra *x,
                                             json_t **out, struct pz_error *err);

/* The same for people. */
PZ_NODISCARD enum pz_status pz_searched_print(const json_t *result, struct pz_arena *arena,
                                              FILE *out);

#endif
