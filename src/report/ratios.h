/* Throughput over that of the reference chip: a summary in words, and a table cell. */
#ifndef PZ_REPORT_RATIOS_H
#define PZ_REPORT_RATIOS_H

#include <stdio.h>

#include "report/table.h"
#include "study/result.h"

/* Prints "geometric mean over 6 models; median 3.40, from 2.40 for bert-large to 15.71 for
 * gpt3-175b". */
void pz_ratios_print(const struct pz_ratios *ratios, FILE *out);

/* Adds a ratio, "no fit" if no plan fits, or "-" if the reference has no throughput. */
void pz_ratio_cell(struct pz_table *table, double samples_per_s, double ratio);

#endif
