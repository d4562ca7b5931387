/* The common chip under the original system's assumptions, as a table and as JSON, beside what the
 * original's authors report. */
#ifndef PZ_REPORT_ORIGINAL_TABLE_H
#define PZ_REPORT_ORIGINAL_TABLE_H

#include <stdio.h>

#include "core/arena.h"
#include "core/json.h"

/* What the original's authors report of their common chip.  New reference; NULL: no memory. */
json_t *pz_original_reported_json(void);
void pz_original_reported_print(FILE *out);

/* New reference; NULL: no memory. */
json_t *pz_original_json(const struct pz_original *r);

PZ_NODISCARD enum pz_status pz_original_print(const struct pz_original *r, struct pz_arena *arena,
                                              FILE *out);

#endif
