/* Head and tail tightening by energetic reasoning. */
#ifndef PZ_SCHEDULE_BOUND_HEAD_TAIL_H
#define PZ_SCHEDULE_BOUND_HEAD_TAIL_H

#include "schedule/model/context.h"

enum { PZ_HEAD_TAIL_MOST_TASKS = 128 };

/* Raises heads and tails, and returns a lower bound for the whole; 0: more tasks than that, or no
 * memory. */
double pz_head_tail_tighten(struct pz_context *c);
/* Tails alone, without some tasks that no other waits for. */
void pz_head_tail_tails(struct pz_context *c, const bool *without);

#endif
