/* The residual capacity over time, for placing tasks one by one at their earliest start. */
#ifndef PZ_SCHEDULE_MODEL_PROFILE_H
#define PZ_SCHEDULE_MODEL_PROFILE_H

#include "schedule/model/problem.h"

/* residual[i] is the capacity that is free from time[i] to time[i + 1].  The last interval has
 * no end, and there all capacity is free. */
struct pz_profile {
  const struct pz_problem *problem;
  double *time;
  int32_t (*residual)[PZ_RESOURCES];
  uint32_t n; /* number of intervals */
};

/* Returns an empty profile with room for all tasks of the problem. */
struct pz_profile pz_profile_new(struct pz_call *call, const struct pz_problem *problem);

/* Makes all capacity free. */
void pz_profile_clear(struct pz_profile *profile);

/* Returns the earliest start, not before `ready`, at which the mode fits over its whole
 * duration. */
double pz_profile_earliest(const struct pz_profile *profile, double ready,
                           const struct pz_mode *mode);

/* Subtracts the capacity that a mode uses, from its start to its end. */
void pz_profile_occupy(struct pz_profile *profile, double start, const struct pz_mode *mode);

#endif
