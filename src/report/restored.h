/* The search state of a finished run, restored from its file. */
#ifndef PZ_REPORT_RESTORED_H
#define PZ_REPORT_RESTORED_H

#include "core/json.h"
#include "search/study.h"
#include "store/run_file.h"

/* Run the contests of a study of the run's inputs: they find every evaluation in its journal, and
 * chips stand as the run has them.  PZ_BAD_INPUT when something else comes out. */
PZ_NODISCARD enum pz_status pz_restored_contests(struct pz_study *s, struct pz_run_file *f,
                                                 const json_t *result, struct pz_watch watch,
                                                 struct pz_error *err);

#endif
