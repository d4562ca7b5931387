/* The residual capacity over time, for placing tasks one by one at their earliest start. */
#ifndef PZ_SCHEDULE_MODEL_PROFILE_H
#define PZ_SCHEDULE_MODEL_PROFILE_H

#include "schedule/model/problem.h"

/* left[i] is the residual capacity from time[i] to time[i + 1].  The last interval has no end, and all is free there. */
struct pz_profile {
  const struct pz_problem *p;
  double *time;
  int32_t (*left)[PZ_RESOURCES];
  uint32_t n;
};

/* Allocates a profile for all tasks of the problem.  Returns false if there is no memory. */
bool pz_profile_init(struct pz_profile *f, const struct pz_problem *p, struct pz_arena *arena);
void pz_profile_clear(struct pz_profile *f);

/* The earliest start of the mode, not before `ready`. */
double pz_profile_earliest(const struct pz_profile *f, double ready, const struct pz_mode *m);
void pz_profile_occupy(struct pz_profile *f, double start, const struct pz_mode *m);

#endif
