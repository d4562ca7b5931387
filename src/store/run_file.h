/* The run file: all results of a search, saved so that the search can resume after any
 * interruption.
 *
 * DIR/run.sqlite has the tables
 *     run          the inputs; later also the result, the comparison with baselines, and the data of
 *                  a report
 *     rounds       the outcome of every round of every objective run, from which a search resumes
 *     boxes        the certificate of every objective run that has ended
 *     evaluations  all evaluations of chips of the runs that have ended
 *     timings      everything that depends on the clock
 *     digests      a digest of each of these parts
 *
 * SQLite writes it with a write-ahead log.  Committed data survive kill -9, and uncommitted data
 * leave no trace.  One process writes, locked by DIR/lock; any number may read.  A run file made
 * with other inputs, by another version, or by another program is rejected and never written to.
 * Doubles are restored bit for bit, including infinity (but not the sign of zero); NaN is
 * rejected. */
#ifndef PZ_STORE_RUN_FILE_H
#define PZ_STORE_RUN_FILE_H

#include "search/search.h"
#include "store/digest.h"

struct pz_run_file;

/* Begins or resumes the run in `dir`, which is created if missing (its parent is not).  `inputs` is
 * a JSON object with everything that the answer depends on.  With `fresh`, an existing run is
 * renamed to run-1.sqlite, run-2.sqlite ...  and a new one begins; otherwise it must have been made
 * with equal inputs.  In a directory that cannot be written to, a finished run is opened read-only.
 * The caller closes the file with pz_run_file_close().
 *
 * Raises PZ_IO if another phaze uses the directory or if it cannot be written to, and PZ_BAD_INPUT,
 * with the input that differs, for a run with other inputs. */
struct pz_run_file *pz_run_file_open_for_writing(struct pz_call *call, const char *dir,
                                                 const char *inputs, bool fresh);

/* Returns a new run file in memory, with which 'phaze verify' compares a stored one. */
struct pz_run_file *pz_run_file_open_in_memory(struct pz_call *call, const char *inputs);

/* Opens the run in `dir`, finished or not, without changing it.  If there is neither a writer nor a
 * log to merge, new writers are kept out until the file is closed; otherwise readers and a writer
 * work side by side.  Raises PZ_IO if there is no run. */
struct pz_run_file *pz_run_file_open_for_reading(struct pz_call *call, const char *dir);

/* Closes and frees the file.  Does nothing if file is NULL. */
void pz_run_file_close(struct pz_run_file *file);

/* Reads the whole file and raises PZ_BAD_INPUT if a part is not as it was written. */
void pz_run_file_verify(struct pz_call *call, void *file); /* a pz_run_file; for pz_border() */

/* Returns whether a part has the same rows in both files. */
bool pz_run_file_has_same_part(struct pz_call *call, const struct pz_run_file *file,
                               const struct pz_run_file *other, enum pz_part part);

/* Returns whether the file was opened for reading, or its directory cannot be written to. */
bool pz_run_file_is_read_only(const struct pz_run_file *file);

/* Returns the inputs with which the run was made, as JSON text, and the store of its rounds.
 * Both live as long as the file. */
const char *pz_run_file_inputs(const struct pz_run_file *file);
const struct pz_round_store *pz_run_file_rounds(struct pz_run_file *file);

struct pz_run_tables {
  const struct pz_objective_run *runs;
  uint32_t n_runs;
  const struct pz_found_step *known;
  uint32_t n_known;
};

/* Replaces the certificates of all objective runs, and the evaluations, in one transaction. */
void pz_run_file_write_tables(struct pz_call *call, struct pz_run_file *file,
                              const struct pz_run_tables *tables);

/* Stores a duration under a name, in a transaction of its own. */
void pz_run_file_write_timing(struct pz_call *call, struct pz_run_file *file, const char *name,
                              double seconds);

/* Replaces the text of the part RESULT, COMPARISON or DETAIL in a transaction of its own, and
 * merges the log. */
void pz_run_file_write_text(struct pz_call *call, struct pz_run_file *file, enum pz_part part,
                            const char *text);

/* Returns the text, or NULL if the run has none yet. */
const char *pz_run_file_read_text(struct pz_call *call, struct pz_run_file *file,
                                  enum pz_part part);

#endif
