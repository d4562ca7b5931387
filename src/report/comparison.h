/* The search beside the baselines: as JSON, which is what runs keep, and from that as text. */
#ifndef PZ_REPORT_COMPARISON_H
#define PZ_REPORT_COMPARISON_H

#include <stdio.h>

#include "core/progress.h"
#include "study/study.h"

enum { PZ_COMPARED_SEED = 1 }; /* where none is asked for */

struct pz_compared_task {
  struct pz_study *study;       /* its objective runs have been run */
  uint64_t seed;                /* of the baselines that draw at random */
  const atomic_bool *stop;      /* NULL: never */
  struct pz_progress *progress; /* NULL: none */
};

/* Every baseline, then the search, objective run by objective run: {seed, objective runs: [{name, ways}]}, nothing of
 * it from the clock.  A way that has no answer to a objective run has no chip there.  New references;
 * `timing` is the seconds that ways took, by objective run and name. */
PZ_NODISCARD enum pz_status pz_compared_make(const struct pz_compared_task *t, json_t **out,
                                             json_t **timing, struct pz_error *err);

/* The seed that a comparison was made with. */
uint64_t pz_compared_seed(const json_t *comparison);

/* PZ_BAD_INPUT unless a comparison that was kept has every way for every objective run of the study,
 * which need not have been run. */
PZ_NODISCARD enum pz_status pz_compared_check(const struct pz_study *s, const json_t *comparison,
                                              struct pz_error *err);

/* A comparison with what it was made of, for machines and for the text.  New reference; NULL: no
 * memory. */
json_t *pz_compared_json(const struct pz_study *s, const json_t *comparison);

/* That for people; under "timing" may stand what pz_compared_make measured. */
PZ_NODISCARD enum pz_status pz_compared_print(const json_t *result, struct pz_arena *arena,
                                              FILE *out);

#endif
