/* The result of a search: the chip, its plans, sensitivity, the reference, the proof. */
#ifndef PZ_REPORT_RESULT_TABLE_H
#define PZ_REPORT_RESULT_TABLE_H

#include <stdio.h>

#include "core/json.h"

/* Prints the result for people. */
void pz_result_table(struct pz_call *call, const struct pz_result *result, FILE *out);

/* Returns the result as JSON, with the time that the search needed. */
json_t *pz_result_document(struct pz_call *call, const struct pz_result *result, json_t *timing);

#endif
