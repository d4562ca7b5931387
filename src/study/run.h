/* One run of a search, from its inputs to a result.  A run with a directory saves every part in
 * DIR/run.sqlite and finds it there again: an interrupted search continues, a finished one is
 * not repeated, and comparisons and reports start from the saved result. */
#ifndef PZ_STUDY_RUN_H
#define PZ_STUDY_RUN_H

#include "store/run_file.h"
#include "study/result.h"
#include "study/study.h"

struct pz_run {
  struct pz_run_options options;
  const char *dir; /* NULL if nothing is saved */
  struct pz_study study;
  struct pz_run_file *file; /* NULL if the run is not saved, or on ranks other than 0 */
  struct pz_result result;  /* has no answers before the search */
  struct pz_run_times times;
  double run_s[PZ_SEARCH_MOST_MODELS + 1]; /* seconds of each objective run, or 0 if not run */
  struct pz_progress progress;
  atomic_bool stop;
  struct pz_watch watch; /* points to `progress` and `stop` */
  bool reused;           /* the result was read from the directory */
  bool changed;          /* a result was found that the directory did not have */
  bool restored; /* the objective runs of `study` have been run, or restored from their rounds */
  bool has_study;
  bool read_only; /* the run file is opened for reading */
};

/* Opens a saved run for reading.  `check` refuses a file whose digests do not match its
 * contents.  The run is closed when the call ends. */
struct pz_run *pz_run_open_saved(struct pz_call *call, const struct pz_run_options *options,
                                 bool check);

/* Runs the search of a saved run again, into a run file in memory, for verification.  `replay`
 * restores its rounds instead of searching them.  `detail` asks for the report's data, and `seed`,
 * unless NULL, for the comparison.  All ranks call it.  The run is closed when the call ends. */
struct pz_run *pz_run_recompute(struct pz_call *call, const struct pz_run *saved, bool replay,
                                bool detail, const uint64_t *seed);

/* Like pz_run_compare(), but raises errors. */
void pz_run_find_comparison(struct pz_call *call, struct pz_run *run, const uint64_t *seed);

#endif
