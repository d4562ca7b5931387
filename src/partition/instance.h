/* Placement problems in the JSON format of the original program. */
#ifndef PZ_PARTITION_INSTANCE_H
#define PZ_PARTITION_INSTANCE_H

#include "partition/problem.h"

struct pz_instance {
  const char *name; /* not copied */
  struct pz_place_problem problem;
  struct pz_fixed fixed; /* the expert's plan to compare with */
  struct pz_place_solution plan;
  double solve_s;           /* time that finding the plan took */
  double fixed_s;           /* time of a batch with the expert's plan ... */
  const char *fixed_reason; /* ... or why there is none; NULL if there is one */
};

/* Reads the problem and its expert's plan. */
void pz_place_read_instance(struct pz_call *call, const char *name, const char *text, size_t bytes,
                            struct pz_instance *out);

/* Finds the best plan, and the time of the expert's plan.  `check` has the independent checker
 * look at the plan.  Raises PZ_NO_ANSWER if no plan fits; the message says how much memory would
 * do. */
void pz_place_solve_instance(struct pz_call *call, struct pz_instance *instance, bool check);

#endif
