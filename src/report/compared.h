/* The search beside the baselines: as JSON, and from that as text. */
#ifndef PZ_REPORT_COMPARED_H
#define PZ_REPORT_COMPARED_H

#include <stdio.h>

#include "search/baseline.h"
#include "search/study.h"

/* What one way of choosing came to in one contest. */
struct pz_compared {
  const char *name, *about;
  uint32_t contest;
  struct pz_baseline_answer answer;
  double value;   /* of the contest's objective */
  double seconds; /* that it took */
};

/* The search's own answer to a contest. */
void pz_compared_search(const struct pz_study *s, uint32_t contest, struct pz_compared *out);

/* One baseline on one contest of a study whose search has run it. */
struct pz_compared_task {
  struct pz_study *study;
  const struct pz_baseline *baseline;
  uint32_t contest;
  uint64_t seed;
  const atomic_bool *stop; /* NULL: never */
};

/* Errors are the baseline's; `seconds` is left at 0. */
PZ_NODISCARD enum pz_status pz_compared_baseline(const struct pz_compared_task *t,
                                                 struct pz_compared *out, struct pz_error *err);

/* The area of the chip that a way came to. */
double pz_compared_area_um2(const struct pz_compared *c);

/* `list` has every way for every contest, ways in a row.  Seconds stand under "timing" alone. */
json_t *pz_compared_json(const struct pz_study *s, const struct pz_compared *list, uint32_t n);

PZ_NODISCARD enum pz_status pz_compared_print(const json_t *result, struct pz_arena *arena,
                                              FILE *out);

#endif
