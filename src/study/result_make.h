/* Makes the result of a study. */
#ifndef PZ_STUDY_RESULT_MAKE_H
#define PZ_STUDY_RESULT_MAKE_H

#include "study/result.h"
#include "study/study.h"

/* Fills an empty result from a study whose objective runs are done.  Every plan is made again
 * and checked; sensitivity, robustness and the Pareto front are computed here. */
void pz_result_build(struct pz_call *call, struct pz_result *result, struct pz_study *study,
                     struct pz_watch watch);

#endif
