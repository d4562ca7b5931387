/* Is the best chip the best because of what is not known of chips without measurements?  It and others when each of the
 * constants of cold.def has the least or the most of its range. */
#ifndef PZ_STUDY_ROBUSTNESS_H
#define PZ_STUDY_ROBUSTNESS_H

#include "study/sensitivity.h"

/* Of candidates that are better than the best chip by more than the search's gap the best: its number, -1 where none is. */
struct pz_moved {
  double value; /* of the best chip */
  int better;
  double better_value;
};

/* With these constants of chips, by an objective with its reference; candidates beyond the limits do not count.  By the
 * calling thread, which is this worker of the search's pool. */
PZ_NODISCARD enum pz_status pz_moved_find(struct pz_study *s, const struct pz_objective *o,
                                          const struct pz_cold *k, const struct pz_point *best,
                                          const struct pz_point *candidates, uint32_t n,
                                          unsigned worker, struct pz_moved *out,
                                          struct pz_error *err);

/* On all threads, of the evaluator training; `steps`: of the sensitivity.  The arena holds it. */
PZ_NODISCARD enum pz_status pz_robustness_make(struct pz_study *s, const struct pz_objective_run *c,
                                               const struct pz_step *steps, uint32_t n_steps,
                                               struct pz_watch watch, struct pz_arena *arena,
                                               struct pz_robustness **out, struct pz_error *err);

#endif
