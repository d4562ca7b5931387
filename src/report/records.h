/* The records that phaze prints as JSON, each described by one table of fields (core/record.h),
 * and a list of all of them, from which the schema in doc/fields.md is generated.
 *
 * The tables are in record_*.c, one file for each group of commands. */
#ifndef PZ_REPORT_RECORDS_H
#define PZ_REPORT_RECORDS_H

#include "core/record.h"

/* A record with its name in the schema. */
struct pz_named_record {
  const char *name;    /* "calibration" */
  const char *meaning; /* one line: what it describes, and which command prints it */
  const struct pz_record *record;
};

/* Returns named record i, or NULL after the last. */
const struct pz_named_record *pz_named_record_at(size_t i);

/* Results of `calibrate`: struct pz_calibrated, pz_step_calibration, pz_network_calibration. */
extern const struct pz_record pz_calibrated_record, pz_step_calibration_record,
    pz_network_calibration_record;
/* A factor of a part of the step: struct pz_step_factor. */
extern const struct pz_record pz_step_factor_record;

/* Writes the chip or the cluster behind a pointer as its JSON file; NULL is null. */
extern const struct pz_field_codec pz_chip_codec, pz_cluster_codec;

#endif
