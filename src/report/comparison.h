/* Comparisons: the search beside the baselines, as a table and as JSON, and given chips beside each other as tables. */
#ifndef PZ_REPORT_COMPARISON_H
#define PZ_REPORT_COMPARISON_H

#include <stdio.h>

#include "core/json.h"
#include "study/result.h"

/* With what it was made of, for machines.  New reference; NULL: no memory. */
json_t *pz_comparison_report_json(const struct pz_result *r);

PZ_NODISCARD enum pz_status pz_comparison_print(const struct pz_result *r, struct pz_arena *arena,
                                                FILE *out);

/* What pz_chips_compare answered to these options. */
PZ_NODISCARD enum pz_status pz_compared_chips_print(const json_t *root,
                                                    const struct pz_study_options *o,
                                                    struct pz_arena *arena, FILE *out);

/* What pz_chips_rent answered; tokens and deadline (NULL: none) as they were written. */
struct pz_rent_titles {
  const char *tokens, *deadline;
};
PZ_NODISCARD enum pz_status pz_rented_chips_print(const json_t *root,
                                                  const struct pz_study_options *o,
                                                  const struct pz_rent_titles *titles,
                                                  struct pz_arena *arena, FILE *out);
/* Has one of the models no chip that it fits on, or none that meets the deadline? */
bool pz_compared_chips_none(const json_t *root, const struct pz_study_options *o);

#endif
