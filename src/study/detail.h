/* The data of a report beside the answers.  Those of the evaluator original (detail.c): every chip
 * and how it was decided in each objective run, the plans of evaluated chips with what limits them,
 * and the schedules of the layers on the common chip.  Those of the evaluator training
 * (training_detail.c): a comparison with existing chips, the best chips under tighter limits, the
 * roofline and schedules of operators, and cost breakdowns. */
#ifndef PZ_STUDY_DETAIL_H
#define PZ_STUDY_DETAIL_H

#include "study/result.h"
#include "study/study.h"

/* Sets the detail of a result that was made of this study.  It runs on all threads.  It has to
 * be made before a comparison: otherwise it would depend on the evaluations of the baselines. */
void pz_detail_build(struct pz_call *call, struct pz_study *study, struct pz_watch watch,
                     struct pz_result *result);

/* Sets only the chips of the result and their statuses. */
void pz_detail_list_chips(struct pz_call *call, const struct pz_study *study,
                          struct pz_result *result);

/* Returns an object that is released when the call ends: lists `chips`, `front`, `roofline` and
 * `bills` of flat objects, and `layers`, which pz_detail_json() wrote.  All chips are used in the
 * network of the search.  Chips of the front have the node, array and HBM of the best chip, and
 * `gap` bounds how much better another of them can be, or is null if nothing is proved. */
json_t *pz_training_detail(struct pz_call *call, struct pz_study *study, struct pz_watch watch);

#endif
