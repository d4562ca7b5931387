/* A validation as one HTML file that opens offline: predicted against measured step times with one point for each run, and
 * the errors by group. */
#ifndef PZ_REPORT_VALIDATION_PAGE_H
#define PZ_REPORT_VALIDATION_PAGE_H

#include "core/json.h"
#include "study/validate.h"

struct pz_buffer *pz_validation_html(struct pz_call *call, const struct pz_validation *v);

#endif
