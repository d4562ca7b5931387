/* Column generation over feasible subsets, see column_generation.c.  The linear program stays
 * loaded while modes are eliminated. */
#ifndef PZ_SCHEDULE_COLGEN_COLUMN_GENERATION_H
#define PZ_SCHEDULE_COLGEN_COLUMN_GENERATION_H

#include "schedule/model/context.h"

struct pz_colgen;

enum { PZ_COLGEN_MOST_TASKS = 256 };

/* NULL when it is switched off, there are too many tasks, no task takes time, or no memory. */
struct pz_colgen *pz_colgen_new(struct pz_context *c);
void pz_colgen_free(struct pz_colgen *x);

/* Dual values, shares of modes and the bound, kept in the context; what is found in about `steps`
 * steps. */
void pz_colgen_run(struct pz_colgen *x, struct pz_context *c, int64_t steps);

/* Randomised rounding: schedules with modes drawn by their shares. */
void pz_colgen_round(const struct pz_colgen *x, struct pz_context *c, int64_t draws);

#endif
