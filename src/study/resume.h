/* The search state of a finished run, restored from its file. */
#ifndef PZ_STUDY_RESUME_H
#define PZ_STUDY_RESUME_H

#include "core/json.h"
#include "store/run_file.h"
#include "study/study.h"

/* Run the objective runs of a study of the run's inputs: they find every evaluation in its journal, and
 * chips stand as the run has them.  PZ_BAD_INPUT when something else comes out. */
PZ_NODISCARD enum pz_status pz_resume_runs(struct pz_study *s, struct pz_run_file *f,
                                           const json_t *result, struct pz_watch watch,
                                           struct pz_error *err);

#endif
