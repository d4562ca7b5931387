/* One run of 'phaze search' or 'phaze compare' as a command: progress, signals, notes, the HTML
 * report, and the exit status. */
#ifndef PZ_CLI_STUDY_RUN_H
#define PZ_CLI_STUDY_RUN_H

#include "cli/study_options.h"
#include "core/progress.h"

struct pz_study_run {
  const struct pz_common *common;
  const struct pz_study_settings *s;
  struct pz_study_options study; /* by the settings */
  struct pz_run_options options; /* likewise */
  struct pz_run *run;            /* NULL: not begun */
  double start_s;
  struct pz_progress progress;
  struct pz_error *err;
};

/* What is wrong with the arguments, or NULL. */
const char *pz_study_run_misuse(const struct pz_study_settings *s, int n_models);

/* Options read; and if it is to be opened, inputs too, nothing searched yet.  To be ended, whatever comes back. */
PZ_NODISCARD enum pz_status pz_study_run_begin(struct pz_study_run *r, char **models, int n_models,
                                               bool open);

/* The result: from the directory, or by searching. */
PZ_NODISCARD enum pz_status pz_study_run_search(struct pz_study_run *r);

/* DIR/report.html, unless one stands there that shows the same, or none is wanted. */
PZ_NODISCARD enum pz_status pz_study_run_report(struct pz_study_run *r);

/* Release all of it; the exit status for what the run came to, with what there is to say. */
enum pz_exit pz_study_run_end(struct pz_study_run *r, enum pz_status status);

#endif
