/* The result of a search: as JSON, which is what runs keep, and from that as text. */
#ifndef PZ_REPORT_SEARCHED_H
#define PZ_REPORT_SEARCHED_H

#include <stdio.h>

#include "search/pareto.h"
#include "search/sensitivity.h"

/* What is told beside the contests. */
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
