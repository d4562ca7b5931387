/* How the objective changes one step away from the best chip of a run, on every axis. */
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
  const char *parameter; /* the axis, or "rows", "cols", "array", "hbm" or "hbm_gib" */
  char from[24], to[24]; /* values on the best chip and on the chip of the step */
  struct pz_point point;
  double value, bound; /* objective on the chip of the step, and its upper bound */
  struct pz_taken taken;
  const char *breaks; /* the limit that the chip breaks, or NULL */
  /* By model, in the arena of the study.  NULL with the evaluator original. */
  const struct pz_step_plan *plans;
};

/* Evaluates all steps and returns their number; hbm_gib is the memory of the best chip. */
uint32_t pz_sensitivity_steps(struct pz_call *call, struct pz_study *study,
                              const struct pz_objective_run *run, double hbm_gib,
                              struct pz_watch watch, struct pz_step steps[PZ_MOST_STEPS]);

#endif
