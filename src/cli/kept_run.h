/* A study saved in a run directory: opened to resume or to reuse, and finished. */
#ifndef PZ_CLI_KEPT_RUN_H
#define PZ_CLI_KEPT_RUN_H

#include "store/run_file.h"
#include "study/study.h"

/* Open the directory for this study. */
PZ_NODISCARD enum pz_status pz_kept_run_open(const char *dir, const struct pz_study *s, bool fresh,
                                             struct pz_run_file **out, struct pz_error *err);

/* Chips, how each left each objective run, how long it took, and the result, which finishes the run. */
PZ_NODISCARD enum pz_status pz_kept_run_finish(struct pz_run_file *f, const struct pz_study *s,
                                               const json_t *result, const json_t *timing,
                                               struct pz_error *err);

/* What other ways to choose came to; a comparison that was kept before is replaced. */
PZ_NODISCARD enum pz_status pz_kept_run_compared(struct pz_run_file *f, const json_t *comparison,
                                                 struct pz_error *err);

#endif
