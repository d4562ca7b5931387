/* What a report shows beside the answers: every chip and how it left each objective run, the plans
 * of the evaluated ones with what limits them, and the schedules of the common chip's layers. */
#ifndef PZ_STUDY_DETAIL_H
#define PZ_STUDY_DETAIL_H

#include "study/result.h"
#include "study/study.h"

/* Into a result that was made of the study, whose objective runs are done; so that the detail does
 * not depend on what else was asked, before a comparison.  On all threads. */
PZ_NODISCARD enum pz_status pz_detail_make(struct pz_study *s, struct pz_watch watch,
                                           struct pz_result *r, struct pz_error *err);

/* Chips and their statuses alone. */
PZ_NODISCARD enum pz_status pz_detail_chips(const struct pz_study *s, struct pz_result *r,
                                            struct pz_error *err);

#endif
