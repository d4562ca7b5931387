/* The result of a search: the chip, its plans, sensitivity, the reference, the proof. */
#ifndef PZ_REPORT_RESULT_TABLE_H
#define PZ_REPORT_RESULT_TABLE_H

#include <stdio.h>

#include "core/json.h"

void pz_result_table(struct pz_call *call, const struct pz_result *r, FILE *out);

/* The same for machines, with the time that the search needed. */
json_t *pz_result_document(struct pz_call *call, const struct pz_result *r, json_t *timing);

#endif
