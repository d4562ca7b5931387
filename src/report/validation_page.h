/* A validation as one HTML file that opens offline: predicted against measured, a point a run, and
 * the errors by group. */
#ifndef PZ_REPORT_VALIDATION_PAGE_H
#define PZ_REPORT_VALIDATION_PAGE_H

#include "core/json.h"
#include "study/validate.h"

/* HTML text, the caller's to pz_free. */
PZ_NODISCARD enum pz_status pz_validation_page(const struct pz_validation *v, char **text,
                                               size_t *bytes, struct pz_error *err);

#endif
