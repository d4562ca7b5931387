/* A training plan in words: its degrees, the layers of its stages, what is computed again. */
#ifndef PZ_PLAN_PLAN_TEXT_H
#define PZ_PLAN_PLAN_TEXT_H

#include "plan/plan.h"

/* "stages 1-3: 4 of 10 layers; stage 4: none", or "none", "selective", "full" where all stages are
 * alike. */
char *pz_found_recompute_text(const struct pz_training_run *r, struct pz_arena *arena);

/* "10 a stage", or "stage 1: 9; stages 2-7: 10; stage 8: 9". */
char *pz_found_layers_text(const struct pz_training_run *r, struct pz_arena *arena);

/* The fields in which b is another plan than a, as options: "--tp 4 --dp 16".  NULL: no memory. */
char *pz_plan_options_text(const struct pz_plan *a, const struct pz_plan *b,
                           struct pz_arena *arena);

#endif
