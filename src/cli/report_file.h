/* The file of a report. */
#ifndef PZ_CLI_REPORT_FILE_H
#define PZ_CLI_REPORT_FILE_H

#include "core/json.h"

/* DIR/report.html into buf. */
PZ_NODISCARD enum pz_status pz_report_path(const char *dir, char *buf, size_t size,
                                           struct pz_error *err);

/* The page of a result with comparison and detail, and unless `csv` is NULL the data of its charts
 * as files in that directory.  Unless `document` is NULL it takes the data (new reference). */
PZ_NODISCARD enum pz_status pz_report_write(const struct pz_result *r, const char *path,
                                            const char *csv, json_t **document,
                                            struct pz_error *err);

/* Does the file at `path` hold the page of the result, byte for byte?  *there says whether there is
 * one.  What is no regular file is PZ_IO. */
PZ_NODISCARD enum pz_status pz_report_same(const struct pz_result *r, const char *path, bool *there,
                                           bool *same, struct pz_error *err);

/* Write the page unless it stands there; *written says which. */
PZ_NODISCARD enum pz_status pz_report_update(const struct pz_result *r, const char *path,
                                             bool *written, struct pz_error *err);

#endif
