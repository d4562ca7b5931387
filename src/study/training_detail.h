/* Details about the best chip of the evaluator training for architects: comparison with existing
 * chips, the best chips under tighter limits, the roofline and schedules of its operators, and
 * its cost breakdown. */
#ifndef PZ_STUDY_TRAINING_DETAIL_H
#define PZ_STUDY_TRAINING_DETAIL_H

#include "study/study.h"

/* Returns an object that is released when the call ends.  Its lists `chips`, `front`, `roofline`
 * and `bills` have flat objects as rows; `layers` holds schedules of the best chip's layers, as
 * pz_detail_json() writes them.
 *
 * All chips are used in the network of the search.  Points of the front are searched among chips
 * with the node, array and HBM of the best chip, under tighter limits.  Their throughput is
 * exact, and `gap` bounds how much better another of these chips can be, or is null if nothing
 * is proved. */
json_t *pz_training_detail(struct pz_call *call, struct pz_study *study, struct pz_watch watch);

#endif
