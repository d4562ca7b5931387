/* Changes of a plan as people write them: "tp 8, pp 2, recompute full", or the text of a plan that place, predict or diff
 * printed, copied. */
#ifndef PZ_PLAN_PLAN_WORDS_H
#define PZ_PLAN_PLAN_WORDS_H

#include "plan/plan_fields.h"

enum { PZ_PLAN_WORDS_MOST_BYTES = 4096 };

/* Sets the fields that the text names.  The arena holds texts of the plan.  PZ_BAD_USE: a word that is neither a field nor
 * a value, with the nearest field; a field that is named twice; PZ_LIMIT: a longer text. */
PZ_NODISCARD enum pz_status pz_plan_words_read(struct pz_plan *p, const char *text,
                                               struct pz_arena *arena, struct pz_error *err);

#endif
