/* Sensitivity: the change of the objective for one step on each axis of the space, within the
 * budget or not. */
#ifndef PZ_STUDY_SENSITIVITY_H
#define PZ_STUDY_SENSITIVITY_H

#include "study/study.h"

struct pz_step {
  const char *what;  /* an axis, or hbm_gib */
  int64_t from, to;  /* values; of the global buffer MiB */
  bool within, over; /* the budget and the space's lower limit; over the budget */
  double area_um2;
  double value; /* of the objective, with the same memory ... */
  double bound; /* ... and at most, if schedules left open were as good as their bounds */
};

enum { PZ_MOST_STEPS = 2 * (PZ_AXES + 1) };

/* Steps from the best chip of an objective run, by axis, down before up. */
PZ_NODISCARD enum pz_status pz_sensitivity(struct pz_study *s, const struct pz_objective_run *c,
                                           struct pz_step steps[PZ_MOST_STEPS], uint32_t *n,
                                           struct pz_error *err);

#endif
