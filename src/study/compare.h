/* Compares the search with other methods to choose a chip, each judged by the same costs, schedules
 * and placements.  Comparing given chips is another question: chip_comparison.c. */
#ifndef PZ_STUDY_COMPARE_H
#define PZ_STUDY_COMPARE_H

#include "study/result.h"
#include "study/study.h"

/* Runs every baseline for each objective run of a study that has been run, and sets the comparison,
 * in which the search is the last method.  Baselines draw at random from `seed`. */
void pz_compare_methods(struct pz_call *call, struct pz_study *study, uint64_t seed,
                        struct pz_watch watch, struct pz_result *result);

#endif
