/* What an architect wants to know about the best chip of the evaluator training: how it compares
 * with existing chips, what it becomes under tighter limits, the roofline and schedules of its
 * operators, and what it is made of. */
#ifndef PZ_STUDY_TRAINING_DETAIL_H
#define PZ_STUDY_TRAINING_DETAIL_H

#include "study/study.h"

/* Returns an object that is released when the call ends.  Its lists `chips`, `front`, `roofline` and `bills` have flat
 * objects as rows; `layers` holds schedules of the best chip's layers, as pz_detail_json() writes them.
 *
 * All chips are used in the network of the search.  Points of the front are searched among chips with the node, array and
 * HBM of the best chip, under tighter limits: their throughput is exact, and `gap` is what is proved about better chips
 * among these (null: nothing). */
json_t *pz_training_detail(struct pz_call *call, struct pz_study *study, struct pz_watch watch);

#endif
