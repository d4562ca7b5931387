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

/* `list` has every way for every contest, ways in a row.  Seconds stand under "timing" alone. */
json_t *pz_compared_json(const struct pz_study *s, const struct pz_compared *list, uint32_t n);

PZ_NODISCARD enum pz_status pz_compared_print(const json_t *result, struct pz_arena *arena,
                                              FILE *out);

#endif
