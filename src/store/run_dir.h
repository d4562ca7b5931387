/* The directory of a run: created if needed, locked against a second phaze; a new run file replaces
 * an old one atomically, and the old one is renamed.
 *
 *     DIR/lock                the lock; the kernel releases it when the process ends
 *     DIR/run.sqlite          the run, with -wal and -shm files while it is written
 *     DIR/run-1.sqlite ...    runs renamed by --fresh */
#ifndef PZ_STORE_RUN_DIR_H
#define PZ_STORE_RUN_DIR_H

#include "core/status.h"
#include "store/db.h"

struct pz_run_dir {
  char run[PZ_DB_LONGEST_PATH];
  char dir[PZ_DB_LONGEST_PATH];
  int lock; /* descriptor, -1: not held */
};

/* Names only: nothing is touched. */
PZ_NODISCARD enum pz_status pz_run_dir_init(struct pz_run_dir *d, const char *dir,
                                            struct pz_error *err);
/* Lets the lock go.  Accepts one that holds none. */
void pz_run_dir_release(struct pz_run_dir *d);

/* Make the directory, not its parents, and lock it to write.  PZ_IO when another phaze has it. */
PZ_NODISCARD enum pz_status pz_run_dir_lock(struct pz_run_dir *d, struct pz_error *err);

/* Is a file of it no regular file?  Waiting for the writer of a pipe would not end.  PZ_IO says
 * which. */
PZ_NODISCARD enum pz_status pz_run_dir_check(const struct pz_run_dir *d, struct pz_error *err);

/* Does it hold a run, and is not to be written to by us? */
bool pz_run_dir_is_shut(const struct pz_run_dir *d);

/* Keep writers out while reading, as far as there is a lock file; false, and no lock, when there is
 * a writer. */
bool pz_run_dir_share(struct pz_run_dir *d);

/* Is there a run; does a log lie beside it that is not merged? */
bool pz_run_dir_has_run(const struct pz_run_dir *d);
bool pz_run_dir_has_log(const struct pz_run_dir *d);

/* Move the run, with its log, to the first free run-N.sqlite.  Nothing to move is no error. */
PZ_NODISCARD enum pz_status pz_run_dir_move_aside(struct pz_run_dir *d, struct pz_error *err);

/* Where a new run is to be prepared; what a killed process left there is removed. */
PZ_NODISCARD enum pz_status pz_run_dir_part(const struct pz_run_dir *d,
                                            char part[PZ_DB_LONGEST_PATH], struct pz_error *err);
/* Make what was prepared the run, or remove it. */
PZ_NODISCARD enum pz_status pz_run_dir_accept(const struct pz_run_dir *d, const char *part,
                                              struct pz_error *err);
void pz_run_dir_discard(const char *part);

#endif
