/* What a report of the evaluator original shows beside the answers: every chip and how it was
 * decided in each objective run, the plans of evaluated chips with what limits them, and the
 * schedules of the layers on the common chip. */
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

#endif
