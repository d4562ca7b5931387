/* Resource profile over time, for placing tasks one by one at their earliest start. */
#ifndef PZ_SCHEDULE_MODEL_PROFILE_H
#define PZ_SCHEDULE_MODEL_PROFILE_H

#include "schedule/model/problem.h"

/* left[i] is free from time[i] to time[i + 1]; the last interval, where all is, has no end. */
struct pz_profile {
  const struct pz_problem *p;
  double *time;
  int32_t (*left)[PZ_RESOURCES];
  uint32_t n;
};

/* Sized for every task of the problem once.  False: no memory. */
bool pz_profile_init(struct pz_profile *f, const struct pz_problem *p, struct pz_arena *arena);
void pz_profile_clear(struct pz_profile *f);

/* The earliest start from `ready` on: there, or where the use changes. */
double pz_profile_earliest(const struct pz_profile *f, double ready, const struct pz_mode *m);
void pz_profile_occupy(struct pz_profile *f, double start, const struct pz_mode *m);

#endif
