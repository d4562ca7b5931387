/* The run file: all results of a search, saved so that it can resume after any interruption.
 *
 * DIR/run.sqlite has the tables
 *     run          inputs; the result, the comparison with baselines and a report's data, once made
 *     rounds       what every round of every objective run found: the search goes on from there
 *     boxes        the certificate of every objective run, once it has ended
 *     evaluations  of chips, likewise
 *     timings      everything that depends on the clock
 *     digests      of each of these parts
 *
 * SQLite with a write-ahead log.  Committed data survives kill -9; uncommitted data leaves no
 * trace.  One process writes, locked by DIR/lock; any number may read.  A run file made with other
 * inputs, by another version, or by another program is rejected and never written to.  Doubles are
 * restored bit for bit, including infinity (except the sign of zero); NaN is rejected. */
#ifndef PZ_STORE_RUN_FILE_H
#define PZ_STORE_RUN_FILE_H

#include "search/search.h"
#include "store/digest.h"

struct pz_run_file;

/* Begin or go on with the run in `dir`, which is made if missing (its parent is not).  `inputs` is
 * a JSON object: all that the answer depends on.  With `fresh`, a run that stands there is moved
 * aside to run-1.sqlite, run-2.sqlite ... and a new one begins; without, it must have been made
 * with equal inputs.  On success *out is the caller's to close.  In a directory
 * that cannot be written to a finished run is opened to look.  PZ_IO when another phaze has the
 * directory, or it cannot be written to; PZ_BAD_INPUT, with the input that differs, for a run that
 * is not this one. */
PZ_NODISCARD enum pz_status pz_run_file_open(const char *dir, const char *inputs, bool fresh,
                                             struct pz_run_file **out, struct pz_error *err);

/* One that is nowhere but in memory: what a run file should have. */
PZ_NODISCARD enum pz_status pz_run_file_in_memory(const char *inputs, struct pz_run_file **out,
                                                  struct pz_error *err);

/* Look at the run in `dir`, finished or not, without changing it.  While there is neither a writer
 * nor a log to merge, new writers are kept out until it is closed; else readers and a writer go
 * side by side.  PZ_IO when there is no run. */
PZ_NODISCARD enum pz_status pz_run_file_look(const char *dir, struct pz_run_file **out,
                                             struct pz_error *err);

/* Is every part of the file what it was when it was written?  PZ_BAD_INPUT says which is not.  Reads
 * all of it. */
PZ_NODISCARD enum pz_status pz_run_file_check(struct pz_run_file *f, struct pz_error *err);

/* Has a part the same rows in both? */
PZ_NODISCARD enum pz_status pz_run_file_same(const struct pz_run_file *f,
                                             const struct pz_run_file *g, enum pz_part part,
                                             bool *same, struct pz_error *err);

/* Opened to look, or because the directory cannot be written to. */
bool pz_run_file_is_read_only(const struct pz_run_file *f);

/* Accepts NULL. */
void pz_run_file_close(struct pz_run_file *f);

/* Live as long as the file.  Inputs are as they were when the run was made. */
const char *pz_run_file_inputs(const struct pz_run_file *f);
const struct pz_round_store *pz_run_file_rounds(struct pz_run_file *f);

/* Replace the certificates of all objective runs, and the evaluations.  All or none; commits. */
struct pz_run_tables {
  const struct pz_objective_run *runs;
  uint32_t n_runs;
  const struct pz_found_step *known;
  uint32_t n_known;
};
PZ_NODISCARD enum pz_status
pz_run_file_set_tables(struct pz_run_file *f, const struct pz_run_tables *t, struct pz_error *err);

/* Set how long something took; commits. */
PZ_NODISCARD enum pz_status pz_run_file_set_timing(struct pz_run_file *f, const char *what,
                                                   double seconds, struct pz_error *err);

/* A text of the table run: part RESULT, COMPARISON or DETAIL.  Setting it replaces what was kept before, commits, and
 * merges the log. */
PZ_NODISCARD enum pz_status pz_run_file_set_text(struct pz_run_file *f, enum pz_part part,
                                                 const char *text, struct pz_error *err);
/* That (malloc'd, the caller's to free), or NULL where there is none. */
PZ_NODISCARD enum pz_status pz_run_file_text(struct pz_run_file *f, enum pz_part part, char **text,
                                             struct pz_error *err);

#endif
