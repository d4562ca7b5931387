/* The run file: all results of a search, saved so that it can resume after any interruption.
 *
 * DIR/run.sqlite has the tables
 *     run          inputs; the result, the comparison with baselines and a report's data, once made
 *     evaluations  the journal of the search
 *     chips        the chips of the space, for users and reports
 *     chip_statuses how each chip left each objective run
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

/* Look at the run in `dir`, finished or not, without changing it.  While there is neither a writer
 * nor a log to merge, new writers are kept out until it is closed; else readers and a writer go
 * side by side.  PZ_IO when there is no run. */
PZ_NODISCARD enum pz_status pz_run_file_look(const char *dir, struct pz_run_file **out,
                                             struct pz_error *err);

/* Is every part of the file what it was when it was written?  PZ_BAD_INPUT says which is not.  Reads
 * all of it. */
PZ_NODISCARD enum pz_status pz_run_file_check(struct pz_run_file *f, struct pz_error *err);

/* Opened to look, or because the directory cannot be written to. */
bool pz_run_file_is_read_only(const struct pz_run_file *f);

/* Commits first.  Accepts NULL. */
void pz_run_file_close(struct pz_run_file *f);

/* Live as long as the file.  Inputs are as they were when the run was made. */
const char *pz_run_file_inputs(const struct pz_run_file *f);
const struct pz_journal *pz_run_file_journal(struct pz_run_file *f);

/* Fill the table of chips, unless that was done before.  All or none; commits. */
PZ_NODISCARD enum pz_status pz_run_file_chips(struct pz_run_file *f,
                                              const struct pz_result_chip *chips, uint32_t n,
                                              struct pz_error *err);

/* Called with each, by id; its name lives as long as the call.  Anything but PZ_OK ends the
 * reading. */
typedef enum pz_status pz_take_chip(void *into, const struct pz_result_chip *chip);
PZ_NODISCARD enum pz_status pz_run_file_read_chips(struct pz_run_file *f, pz_take_chip *take,
                                                   void *into, struct pz_error *err);

/* Replace the chip statuses of one objective run; ids[i] is the chip of chip_statuses[i], each
 * once.  All or none; commits. */
PZ_NODISCARD enum pz_status pz_run_file_chip_statuses(struct pz_run_file *f,
                                                      const char *objective_run,
                                                      const uint32_t *ids,
                                                      const struct pz_chip_status *chip_statuses,
                                                      uint32_t n, struct pz_error *err);

/* Called with each; anything but PZ_OK ends the reading. */
typedef enum pz_status pz_take_chip_status(void *into, uint32_t id,
                                           const struct pz_chip_status *chip_status);

/* The chip statuses of an objective run by id; none is no error. */
PZ_NODISCARD enum pz_status pz_run_file_read_chip_statuses(struct pz_run_file *f,
                                                           const char *objective_run,
                                                           pz_take_chip_status *take, void *into,
                                                           struct pz_error *err);

/* Rows of all objective runs together. */
PZ_NODISCARD enum pz_status pz_run_file_count_chip_statuses(struct pz_run_file *f, int64_t *n,
                                                            struct pz_error *err);

/* Set how long something took; safe with the next commit. */
PZ_NODISCARD enum pz_status pz_run_file_set_timing(struct pz_run_file *f, const char *what,
                                                   double seconds, struct pz_error *err);
/* 0 when it was never set. */
PZ_NODISCARD enum pz_status pz_run_file_timing(struct pz_run_file *f, const char *what,
                                               double *seconds, struct pz_error *err);

/* Keep the result, which marks the run as finished; commits, and merges the log. */
PZ_NODISCARD enum pz_status pz_run_file_finish(struct pz_run_file *f, const char *result,
                                               struct pz_error *err);
/* The result (malloc'd, the caller's to free), or NULL for a run that has not finished. */
PZ_NODISCARD enum pz_status pz_run_file_result(struct pz_run_file *f, char **text,
                                               struct pz_error *err);

/* Keep what other ways to choose came to, instead of what was kept of them before; commits. */
PZ_NODISCARD enum pz_status
pz_run_file_set_comparison(struct pz_run_file *f, const char *comparison, struct pz_error *err);
/* That (malloc'd, the caller's to free), or NULL where it was not asked for. */
PZ_NODISCARD enum pz_status pz_run_file_comparison(struct pz_run_file *f, char **text,
                                                   struct pz_error *err);

/* The same for what a report shows beside the result. */
PZ_NODISCARD enum pz_status pz_run_file_set_detail(struct pz_run_file *f, const char *detail,
                                                   struct pz_error *err);
PZ_NODISCARD enum pz_status pz_run_file_detail(struct pz_run_file *f, char **text,
                                               struct pz_error *err);

#endif
