/* Throughput ratios in a sentence. */
#ifndef PZ_REPORT_RATIOS_H
#define PZ_REPORT_RATIOS_H

#include <stdio.h>

#include "report/table.h"
#include "study/result.h"

/* "geometric mean over 6 models; median 3.40, from 2.40 for bert-large to 15.71 for gpt3-175b". */
void pz_ratios_print(const struct pz_ratios *r, FILE *out);

/* A model's throughput over the reference's, as a cell. */
void pz_ratio_cell(struct pz_table *t, double samples_per_s, double ratio);

#endif
