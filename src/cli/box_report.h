/* DIR/report.html of a search in a space of ranges. */
#ifndef PZ_CLI_BOX_REPORT_H
#define PZ_CLI_BOX_REPORT_H

#include "core/json.h"

/* The data of the page of a saved search, made from its inputs and its best chip: {version, search, datasets}. */
PZ_NODISCARD enum pz_status pz_box_report_data(const char *dir, unsigned threads, json_t **out,
                                               struct pz_error *err);

/* Write the page, and unless `csv` is NULL the data of its charts as files in that folder. */
PZ_NODISCARD enum pz_status pz_box_report_write(const json_t *data, const char *path,
                                                const char *csv, struct pz_error *err);

/* Does the file at `path` hold the page of the search, byte for byte?  *there: is there one? */
PZ_NODISCARD enum pz_status pz_box_report_same(const char *dir, const char *path, unsigned threads,
                                               bool *there, bool *same, struct pz_error *err);

#endif
