/* What an architect asks of the best chip by training plans: the chips of today beside it, what it becomes under tighter
 * limits, the roofline and the schedules of its operators, and what it is made of. */
#ifndef PZ_STUDY_TRAINING_DETAIL_H
#define PZ_STUDY_TRAINING_DETAIL_H

#include "study/study.h"

/* {chips, front, roofline, bills}: lists of flat objects; layers: schedules of the best chip's layers, as pz_detail_json
 * writes them.  Chips stand in the network of the search.  Points of the front
 * are searched among chips with the node, array and HBM of the best, under tighter limits: their throughput is exact, `gap`
 * what is proved among these chips (null: nothing).  A new reference. */
PZ_NODISCARD enum pz_status pz_training_detail(struct pz_study *s, struct pz_watch watch,
                                               json_t **out, struct pz_error *err);

#endif
