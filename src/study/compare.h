/* The search beside the other ways to choose a chip, each judged by the same costs, schedules and
 * placements.  Given chips beside each other are another question: chip_comparison.c. */
#ifndef PZ_STUDY_COMPARE_H
#define PZ_STUDY_COMPARE_H

#include "study/result.h"
#include "study/study.h"

/* Every baseline, then the search, for each objective run of a study that has been run; into the
 * result's comparison.  `seed` is of the baselines that draw at random, `watch` may be zero. */
PZ_NODISCARD enum pz_status pz_compare(struct pz_study *s, uint64_t seed, struct pz_watch watch,
                                       struct pz_result *r, struct pz_error *err);

#endif
