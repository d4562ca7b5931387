/* A plan given beforehand (expert plan): layers divided evenly into stages; what it takes. */
#ifndef PZ_PARTITION_FIXED_H
#define PZ_PARTITION_FIXED_H

#include "partition/problem.h"

/* A plan given beforehand: so many pipeline stages, tensor-parallel degree t, d replicas,
 * of so many repeated layers. */
struct pz_fixed {
  int64_t stages, t, d, layers;
  bool given;
};

/* How its layers are divided. */
enum pz_fixed_split {
  PZ_SPLIT_EVEN,  /* layer i of L in stage floor(i p / L); what stands before or after goes along */
  PZ_SPLIT_COMPAT /* as the original program does, off by one: the first L nodes, ceil(L / p) each
                   */
};

/* The plan in full; the arena holds it.  PZ_NO_ANSWER when it cannot be: `err` says why. */
PZ_NODISCARD enum pz_status pz_fixed_plan(const struct pz_place_problem *p,
                                          const struct pz_fixed *fixed, enum pz_fixed_split split,
                                          enum pz_semantics semantics, struct pz_arena *arena,
                                          struct pz_place_solution *out, struct pz_error *err);

/* Its time alone. */
PZ_NODISCARD enum pz_status pz_fixed_time(const struct pz_place_problem *p,
                                          const struct pz_fixed *fixed, enum pz_fixed_split split,
                                          enum pz_semantics semantics, double *time_s,
                                          struct pz_error *err);

#endif
