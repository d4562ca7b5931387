/* The state of a finished search, restored from its run file. */
#ifndef PZ_STUDY_RESUME_H
#define PZ_STUDY_RESUME_H

#include "store/run_file.h"
#include "study/result.h"
#include "study/study.h"

/* Do the objective runs of a study of the run's inputs again: they find every evaluation in its
 * journal, and chips have the status that the run has for them.  PZ_BAD_INPUT when another chip
 * than `best` comes out. */
PZ_NODISCARD enum pz_status pz_resume_runs(struct pz_study *s, struct pz_run_file *f,
                                           const struct pz_answer *best, struct pz_watch watch,
                                           struct pz_error *err);

/* The chips of a run, and their status in each objective run, into its result. */
PZ_NODISCARD enum pz_status pz_resume_chips(struct pz_result *r, struct pz_run_file *f,
                                            struct pz_error *err);

#endif
