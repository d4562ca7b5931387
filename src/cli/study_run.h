/* One run of 'phaze search' or 'phaze compare' as a command: progress, signals, warnings, the HTML report, and what is said
 * after an interruption. */
#ifndef PZ_CLI_STUDY_RUN_H
#define PZ_CLI_STUDY_RUN_H

#include "cli/study_options.h"
#include "core/progress.h"

struct pz_study_run {
  const struct pz_common *common;
  const struct pz_study_settings *s;
  struct pz_study_options study;
  struct pz_run_options options;
  struct pz_run *run; /* NULL until it is opened */
  double start_s;
  struct pz_progress progress;
};

/* Returns an error message if the arguments are inconsistent, otherwise NULL. */
const char *pz_study_run_misuse(const struct pz_study_settings *s, int n_models);

/* Runs the work of a command.  If a signal interrupts it, stderr says how to resume, and the command exits with
 * PZ_EXIT_STOPPED. */
void pz_study_run_work(struct pz_call *call, struct pz_invocation *in,
                       const struct pz_study_settings *s, pz_call_fn *work, void *ctx);

/* Reads the settings and starts the progress. */
void pz_study_run_begin(struct pz_call *call, struct pz_study_run *r, char **models, int n_models);

/* Opens the run and reads its inputs; nothing is searched yet.  The run is closed when the call ends. */
void pz_study_run_open(struct pz_call *call, struct pz_study_run *r);

/* Loads the result from the folder of the run, or searches. */
void pz_study_run_search(struct pz_call *call, struct pz_study_run *r);

/* Writes DIR/report.html, unless it exists with the same contents or no report is wanted. */
void pz_study_run_report(struct pz_call *call, struct pz_study_run *r);

/* For pz_defer(). */
void pz_study_run_close(void *run);

#endif
