/* The result of a study. */
#ifndef PZ_STUDY_RESULT_MAKE_H
#define PZ_STUDY_RESULT_MAKE_H

#include "study/result.h"
#include "study/study.h"

/* The result of a study whose objective runs are done: sensitivity and front are computed, every
 * plan is made again and checked.  The result is initialised and empty. */
PZ_NODISCARD enum pz_status pz_result_make(struct pz_result *r, struct pz_study *s,
                                           struct pz_watch watch, struct pz_error *err);

#endif
