/* A training plan as text: its degrees, the layers of its stages, and what is recomputed. */
#ifndef PZ_PLAN_PLAN_TEXT_H
#define PZ_PLAN_PLAN_TEXT_H

#include "plan/plan.h"

/* Returns what is recomputed: "stages 1-3: 4 of 10 layers; stage 4: none", or "none", "selective" or "full" if all stages are
 * alike.  NULL: out of memory. */
char *pz_stage_recompute_text(const struct pz_training_run *r, struct pz_arena *arena);

/* Returns the layers of the stages: "10 a stage", or "stage 1: 9; stages 2-7: 10; stage 8: 9".  NULL: out of memory. */
char *pz_stage_layers_text(const struct pz_training_run *r, struct pz_arena *arena);

/* Returns the fields in which plan b differs from plan a, as options: "--tp 4 --dp 16".  NULL: out of memory. */
char *pz_plan_options_text(const struct pz_plan *a, const struct pz_plan *b,
                           struct pz_arena *arena);

#endif
