/* How the objective changes one step away from the best chip of an objective run, on every axis. */
#ifndef PZ_STUDY_SENSITIVITY_H
#define PZ_STUDY_SENSITIVITY_H

#include "study/study.h"

enum { PZ_MOST_STEPS = 2 * (PZ_AXES + 4) };

/* The best plan of a model on the chip of a step. */
struct pz_step_plan {
  bool fits;
  double step_s;
  struct pz_training_parts parts;
  char text[PZ_PLAN_TEXT_MOST];
};

struct pz_step {
  const char *what; /* the axis, "rows", "cols", "hbm" or "hbm_gib" */
  char from[24], to[24];
  struct pz_point point;
  double value, bound; /* of the objective: found, at most */
  struct pz_taken taken;
  const char *breaks; /* the limit that it does not keep; NULL: none */
  const struct pz_step_plan
      *plans; /* by model, in the study's arena; of the evaluator training, else NULL */
};

/* On all threads.  `hbm_gib`: of the best chip. */
PZ_NODISCARD enum pz_status pz_sensitivity(struct pz_study *s, const struct pz_objective_run *c,
                                           double hbm_gib, struct pz_watch watch,
                                           struct pz_step steps[PZ_MOST_STEPS], uint32_t *n,
                                           struct pz_error *err);

#endif
