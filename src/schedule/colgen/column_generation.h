/* Column generation over feasible subsets (column_generation.c).  The linear program is kept and
 * used again after modes have been eliminated. */
#ifndef PZ_SCHEDULE_COLGEN_COLUMN_GENERATION_H
#define PZ_SCHEDULE_COLGEN_COLUMN_GENERATION_H

#include "schedule/model/context.h"

struct pz_colgen;

enum { PZ_COLGEN_MOST_TASKS = 256 };

/* Builds the linear program with a column for each mode and for the subsets of the incumbent.
 * Returns NULL if the technique is switched off, there are too many tasks, or no task takes time.
 * The result lives as long as the context. */
struct pz_colgen *pz_colgen_new(struct pz_context *context);

/* Generates columns in about this number of steps.  Sets dual values and shares of modes in the
 * context, and raises its lower bound. */
void pz_colgen_run(struct pz_colgen *colgen, int64_t steps);

/* Randomised rounding: makes this number of schedules with modes that are drawn by their shares
 * in the linear program. */
void pz_colgen_round(const struct pz_colgen *colgen, int64_t draws);

#endif
