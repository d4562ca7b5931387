/* A validation as tables for the terminal. */
#ifndef PZ_REPORT_VALIDATION_TABLE_H
#define PZ_REPORT_VALIDATION_TABLE_H

#include <stdio.h>

#include "core/call.h"
#include "study/validate.h"

/* Prints errors by group, totals, groups that are not counted, and the order of plans; or with
 * `rows` every point; or the tables of a validation of chips without their measurements. */
void pz_validation_tables(struct pz_call *call, const struct pz_validation *validation, bool rows,
                          FILE *out);

/* Writes "GROUP: mean error 5.60%, limit 5.00%: worse by 0.60 points" and returns buf. */
char *pz_broken_limit_text(const struct pz_broken_limit *broken, char *buf, size_t size);

#endif
