/* Checks whether the choice of the best chip depends on constants of unmeasured chips.  The best
 * chip and others close to it are compared again with each constant of cold.def at either end of
 * its range. */
#ifndef PZ_STUDY_ROBUSTNESS_H
#define PZ_STUDY_ROBUSTNESS_H

#include "study/sensitivity.h"

/* Chips to compare when one of the constants is "moved", which means set to an end of its range. */
struct pz_moved_question {
  const struct pz_objective *objective; /* relative to the reference chip with these constants */
  const struct pz_cold *constants;      /* the constants of unmeasured chips, one of them moved */
  const struct pz_point *best, *candidates; /* candidates beyond the limits do not count */
  uint32_t n;
};

struct pz_moved {
  double value;        /* value of the best chip */
  int better;          /* index of the best candidate that exceeds the gap, or -1 if none */
  double better_value; /* value of that candidate */
};

/* Compares the candidates with the best chip under changed constants.  Runs in the calling
 * thread, which is this worker of the search's pool. */
struct pz_moved pz_moved_compare(struct pz_call *call, struct pz_study *study,
                                 const struct pz_moved_question *question, unsigned worker);

/* Returns whether run->best remains the best chip if the constants of unmeasured chips
 * (chip/cold.def) change, and the changes that matter.  Each constant in turn is set to the low and
 * to the high end of its range.  Requires the evaluator training, which judges chips by their best
 * training plans, and uses all threads.  `steps` are the chips one step away from run->best that
 * pz_sensitivity_steps() found.  These, combinations of two of them, and the best chips of other
 * kinds are candidates. */
struct pz_robustness *pz_robustness_make(struct pz_call *call, struct pz_study *study,
                                         const struct pz_objective_run *run,
                                         const struct pz_step *steps, uint32_t n_steps,
                                         struct pz_watch watch);

#endif
