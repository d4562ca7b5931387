/* A run's report as an HTML file, and its tables as CSV files. */
#ifndef PZ_CLI_REPORT_FILE_H
#define PZ_CLI_REPORT_FILE_H

#include "core/json.h"

/* DIR/report.html into buf; PZ_BAD_INPUT when it does not fit. */
PZ_NODISCARD enum pz_status pz_report_path(const char *dir, char *buf, size_t size,
                                           struct pz_error *err);

/* Write a story's document as a page; with `csv` its tables into that directory. */
PZ_NODISCARD enum pz_status pz_report_write(const json_t *document, const char *path,
                                            const char *csv, struct pz_error *err);

#endif
