/* Throughputs of several models over the reference's in few numbers: their geometric mean, which a
 * single model can carry, and beside it the median and the range. */
#ifndef PZ_REPORT_RATIOS_H
#define PZ_REPORT_RATIOS_H

#include <stdio.h>

#include "core/json.h"

/* {models, geometric_mean, median, least: {model, ratio}, most: {model, ratio}} of a result's
 * models that have a ratio_to_reference above 0; null for fewer than two.  The median of an even
 * number is the mean of the middle two; of equal ratios the first model counts.  New reference;
 * NULL: no memory. */
json_t *pz_ratios_json(const json_t *models);

/* "geometric mean over 6 models; median 3.40, from 2.40 for bert-large to 15.71 for gpt3-175b". */
void pz_ratios_print(const json_t *ratios, FILE *out);

#endif
