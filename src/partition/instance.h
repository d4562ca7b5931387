/* Placement problems in the original program's JSON format. */
#ifndef PZ_PARTITION_INSTANCE_H
#define PZ_PARTITION_INSTANCE_H

#include "partition/problem.h"

struct pz_instance {
  const char *name; /* the caller's */
  struct pz_place_problem p;
  struct pz_fixed fixed; /* the expert plan to compare with */
  struct pz_place_solution plan;
  double solve_s;            /* that finding it took */
  double fixed_s;            /* time of a batch with the expert plan ... */
  struct pz_error fixed_err; /* ... or why it has none */
};

/* The problem and its expert plan; the arena holds them. */
PZ_NODISCARD enum pz_status pz_place_parse(const char *name, const char *text, size_t bytes,
                                           struct pz_arena *arena, struct pz_instance *out,
                                           struct pz_error *err);

/* The best plan, and the time of the expert's.  `check`: by the independent checker.  PZ_NO_ANSWER
 * when no plan fits; the message says how much memory would do. */
PZ_NODISCARD enum pz_status pz_place_instance(struct pz_instance *x, bool check,
                                              struct pz_arena *arena, struct pz_error *err);

#endif
