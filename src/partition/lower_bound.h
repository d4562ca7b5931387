/* A lower bound on the step time of any plan of a model, in a fraction of a microsecond.
 *
 * Memory does not depend on the speed of a chip, so the numbers of stages it rules out are computed
 * once; afterwards only the layers' times enter.  Relaxations: stages share the work evenly except
 * for whole repeated layers, the largest stage has its even share of parameters, transfers are the
 * smallest between any two layers. */
#ifndef PZ_PARTITION_LOWER_BOUND_H
#define PZ_PARTITION_LOWER_BOUND_H

#include "partition/problem.h"

struct pz_place_bound {
  struct pz_place_problem p;          /* its layers' times are not looked at */
  uint32_t least_stages, most_stages; /* that memory and devices allow; most 0: none */
  const uint32_t *runs;               /* of equal layers: how many each has */
  uint32_t n_runs, main_run;          /* the longest */
  double transfer_s;                  /* between two stages, at least */
  double share;         /* of the work of a microbatch, if devices shared it all evenly */
  const double *params; /* by stages: of the stage that is charged, at least */
  const double *rounds; /* by stages: microbatches' times, at least */
  const struct pz_place_bound *inner; /* of each domain of the network, which p does not have */
  uint32_t n_inner;
};

/* For a problem of one width, a chain of runs of equal layers. */
PZ_NODISCARD enum pz_status pz_place_bound_init(struct pz_place_bound *x,
                                                const struct pz_place_problem *p,
                                                const uint32_t *runs, uint32_t n_runs,
                                                struct pz_arena *arena, struct pz_error *err);

/* No plan whose layers take at least these times (by run) is faster.  `limit_s`: nothing from there
 * on is of interest, and the result may be anything not below it.  HUGE_VAL: nothing fits. */
double pz_place_bound_time_s(const struct pz_place_bound *x, const double *fwd_s,
                             const double *bwd_s, double limit_s);

#endif
