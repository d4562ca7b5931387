/* The common chip under the assumptions of the original Phaze system, as a table and as JSON, beside the numbers that its
 * authors report. */
#ifndef PZ_REPORT_ORIGINAL_TABLE_H
#define PZ_REPORT_ORIGINAL_TABLE_H

#include <stdio.h>

#include "core/json.h"

/* The authors' numbers for their common chip.  pz_original_reported_json() returns a new reference, or NULL if out of
 * memory. */
json_t *pz_original_reported_json(void);
void pz_original_reported_print(FILE *out);

/* Returns a new reference, or NULL if out of memory. */
json_t *pz_original_json(const struct pz_original *original);

void pz_original_table(struct pz_call *call, const struct pz_original *original, FILE *out);

#endif
