/* The report of a run as a file. */
#ifndef PZ_CLI_REPORT_FILE_H
#define PZ_CLI_REPORT_FILE_H

#include "core/json.h"

/* Returns DIR/report.html. */
const char *pz_report_path(struct pz_call *call, const char *dir);

/* Computes what a report shows and a run lacks: its details and, by the evaluator original, the baselines. */
void pz_report_complete(struct pz_call *call, struct pz_run *run);

/* Writes the page of a complete result and returns its data.  Unless `csv` is NULL, the data of the charts are written as CSV
 * files into that folder. */
json_t *pz_report_write(struct pz_call *call, const struct pz_result *r, const char *path,
                        const char *csv);

/* Returns whether the file at `path` is the page of the result, byte for byte.  *exists says whether there is such a file.
 * Raises PZ_IO if it is not a regular file. */
bool pz_report_matches(struct pz_call *call, const struct pz_result *r, const char *path,
                       bool *exists);

/* Writes the page unless the file has the same contents, and returns whether it was written. */
bool pz_report_update(struct pz_call *call, const struct pz_result *r, const char *path);

#endif
