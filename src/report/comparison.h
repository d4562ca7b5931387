/* Comparisons as tables and JSON: the searched chip with baselines, given chips with each other,
 * bought or rented, and the common chip under the assumptions of the original Phaze system. */
#ifndef PZ_REPORT_COMPARISON_H
#define PZ_REPORT_COMPARISON_H

#include <stdio.h>

#include "core/json.h"
#include "study/result.h"

/* Returns the comparison with the baselines and its inputs, as JSON and as a table. */
json_t *pz_comparison_document(struct pz_call *call, const struct pz_result *result);
void pz_comparison_table(struct pz_call *call, const struct pz_result *result, FILE *out);

/* Prints the JSON that pz_chips_compare() returned for these options. */
void pz_compared_chips_table(struct pz_call *call, const json_t *root,
                             const struct pz_study_options *options, FILE *out);

/* Prints the JSON of pz_chips_rent() with tokens and deadline (or NULL) as the user wrote them. */
struct pz_rent_titles {
  const char *tokens, *deadline;
};
void pz_rented_chips_table(struct pz_call *call, const json_t *root,
                           const struct pz_study_options *options,
                           const struct pz_rent_titles *titles, FILE *out);

/* Returns whether one of the models fits on no chip, or meets the deadline on none. */
bool pz_compared_chips_none(const json_t *root, const struct pz_study_options *options);

/* Returns the common chip under the assumptions of the original system, beside the numbers that
 * its authors report. pz_original_json() returns a new reference, or NULL if out of memory. */
json_t *pz_original_json(const struct pz_original *original);
void pz_original_table(struct pz_call *call, const struct pz_original *original, FILE *out);

#endif
