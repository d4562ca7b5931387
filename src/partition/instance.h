/* Placement problems in the JSON format of the original program. */
#ifndef PZ_PARTITION_INSTANCE_H
#define PZ_PARTITION_INSTANCE_H

#include "partition/problem.h"

struct pz_instance {
  const char *name; /* name of the file in messages; not copied */
  struct pz_place_problem problem;
  struct pz_fixed fixed; /* the expert's plan to compare with */
  struct pz_place_solution plan;
  double solve_s;           /* time that finding the plan took */
  double fixed_s;           /* step time of the expert's plan, if fixed_reason is NULL */
  const char *fixed_reason; /* why the expert's plan cannot be evaluated, or NULL */
};

/* Reads the problem and its expert's plan. */
void pz_place_read_instance(struct pz_call *call, const char *name, const char *text, size_t bytes,
                            struct pz_instance *out);

#endif
