/* A training plan as text for people: the layers and recomputed layers of its stages, and the
 * difference between two plans. pz_plan_text() and pz_plan_line() of the public header are also in
 * plan_text.c. */
#ifndef PZ_PLAN_PLAN_TEXT_H
#define PZ_PLAN_PLAN_TEXT_H

#include "plan/plan.h"

/* Returns which layers are recomputed: "none", "selective", "full", "4 of 10 layers of each stage",
 * or by stage, such as "stages 1-3: 4 of 10 layers; stage 4: none". */
const char *pz_stage_recompute_text(struct pz_call *call, const struct pz_training_run *run);

/* Returns the number of layers of the stages: "10 a stage", or by stage, such as "stage 1: 9;
 * stages 2-8: 10". */
const char *pz_stage_layers_text(struct pz_call *call, const struct pz_training_run *run);

/* Returns the command-line options that change plan `from` to plan `to`: "--tp 4 --dp 16". */
const char *pz_plan_options_text(struct pz_call *call, const struct pz_plan *from,
                                 const struct pz_plan *to);

#endif
