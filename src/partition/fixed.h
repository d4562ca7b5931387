/* A plan given beforehand, as experts' plans are: repeated layers divided evenly into stages. */
#ifndef PZ_PARTITION_FIXED_H
#define PZ_PARTITION_FIXED_H

#include "partition/problem.h"

/* How its layers are divided. */
enum pz_fixed_split {
  PZ_SPLIT_EVEN,  /* layer i of L in stage floor(i p / L); what stands before or after goes along */
  PZ_SPLIT_COMPAT /* as the original program does, off by one: the first L nodes, ceil(L / p) each
                   */
};

struct pz_fixed {
  int64_t stages; /* 0: there is no such plan */
  enum pz_fixed_split split;
  int64_t t, d;
  int64_t first, layers; /* id of the first repeated layer; how many there are */
};

/* The plan in full; the arena holds it.  PZ_NO_ANSWER when it cannot be: `err` says why. */
PZ_NODISCARD enum pz_status pz_fixed_plan(const struct pz_place_problem *p,
                                          const struct pz_fixed *f, struct pz_arena *arena,
                                          struct pz_place_solution *out, struct pz_error *err);

#endif
