/* A finished run as it was kept: for what is told or checked of it. */
#ifndef PZ_REPORT_FINISHED_H
#define PZ_REPORT_FINISHED_H

#include "core/json.h"
#include "store/run_file.h"

/* Inputs and result, new references (NULL what could not be read).  PZ_BAD_INPUT for a run that has
 * not finished, or that another version made. */
PZ_NODISCARD enum pz_status pz_finished_read(struct pz_run_file *f, json_t **inputs,
                                             json_t **result, struct pz_error *err);

#endif
