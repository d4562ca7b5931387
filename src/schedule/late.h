/* Late tasks: short tasks without successors.  Exact search leaves them out of its tree and inserts
 * them into each complete schedule where they fit.  It then proves that no schedule of the others
 * is better than the shortest one into which the late tasks did not fit. */
#ifndef PZ_SCHEDULE_LATE_H
#define PZ_SCHEDULE_LATE_H

#include "schedule/partial.h"
#include "schedule/profile.h"

struct pz_late {
  bool *is;       /* by task */
  bool *failed;   /* by task: it did not fit once */
  double unfit_s; /* the shortest schedule into which they did not fit */
  struct pz_profile profile;
};

/* Put them into the complete schedule in g->slots; returns its makespan then. */
double pz_late_put(struct pz_late *x, const struct pz_growth *g, double makespan);

#endif
