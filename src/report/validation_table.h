/* A validation as tables for the terminal. */
#ifndef PZ_REPORT_VALIDATION_TABLE_H
#define PZ_REPORT_VALIDATION_TABLE_H

#include <stdio.h>

#include "study/validate.h"

/* Errors by group, totals, what is shown apart, and the order of plans; or, with `rows`, every
 * point.  PZ_NO_MEMORY is the only error. */
PZ_NODISCARD enum pz_status pz_validation_print(const struct pz_validation *v, bool rows,
                                                struct pz_arena *arena, FILE *out);

/* "vtrain_multi_node: mean error 5.6%, limit 5%". Returns buf. */
char *pz_broken_limit_text(const struct pz_broken_limit *b, char *buf, size_t size);

#endif
