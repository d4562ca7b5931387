/* Column generation over feasible subsets (column_generation.c).  The linear program is used again after modes have been
 * eliminated. */
#ifndef PZ_SCHEDULE_COLGEN_COLUMN_GENERATION_H
#define PZ_SCHEDULE_COLGEN_COLUMN_GENERATION_H

#include "schedule/model/context.h"

struct pz_colgen;

enum { PZ_COLGEN_MOST_TASKS = 256 };

/* Returns NULL if the technique is switched off, there are too many tasks, no task takes time, or there is no memory. */
struct pz_colgen *pz_colgen_new(struct pz_context *c);
void pz_colgen_free(struct pz_colgen *x);

/* Generates columns in about `steps` steps.  Sets dual values and shares of modes in the context, and raises its bound. */
void pz_colgen_run(struct pz_colgen *x, struct pz_context *c, int64_t steps);

/* Randomised rounding: makes schedules with modes that are drawn by their shares in the linear program. */
void pz_colgen_round(const struct pz_colgen *x, struct pz_context *c, int64_t draws);

#endif
