/* The directory of a run: it is created if needed and locked against a second phaze; a new run file
 * replaces an old one atomically, and the old one is renamed.
 *
 *     DIR/lock                the lock, which the kernel releases when the process ends
 *     DIR/run.sqlite          the run, with -wal and -shm files while it is written
 *     DIR/run-1.sqlite ...    runs renamed by --fresh */
#ifndef PZ_STORE_RUN_DIR_H
#define PZ_STORE_RUN_DIR_H

#include "store/db.h"

struct pz_run_dir {
  char run[PZ_DB_LONGEST_PATH]; /* path of the database */
  char dir[PZ_DB_LONGEST_PATH];
  char lock_path[PZ_DB_LONGEST_PATH];
  int lock; /* file descriptor, or -1 if not locked */
};

/* Sets the names.  The file system is not touched. */
void pz_run_dir_init(struct pz_call *call, struct pz_run_dir *run_dir, const char *dir);

/* Releases the lock, if there is one. */
void pz_run_dir_release(struct pz_run_dir *run_dir);

/* Creates the directory, but not its parents, and locks it for writing.  Raises PZ_IO if another
 * phaze has locked it. */
void pz_run_dir_lock(struct pz_call *call, struct pz_run_dir *run_dir);

/* Raises PZ_IO for a file of the run that is not a regular file: opening a pipe would wait for its
 * writer forever. */
void pz_run_dir_check(struct pz_call *call, const struct pz_run_dir *run_dir);

/* Returns whether the directory has a run that this process is not permitted to write to. */
bool pz_run_dir_is_read_only(const struct pz_run_dir *run_dir);

/* Keeps writers out while reading, if there is a lock file.  Returns false, without a lock, if
 * there is a writer. */
bool pz_run_dir_share(struct pz_run_dir *run_dir);

/* Returns whether the directory has a run. */
bool pz_run_dir_has_run(const struct pz_run_dir *run_dir);

/* Returns whether a write-ahead log that was not merged into the run exists beside it. */
bool pz_run_dir_has_log(const struct pz_run_dir *run_dir);

/* Renames the run and its log to the first unused run-N.sqlite.  Does nothing if there is no
 * run. */
void pz_run_dir_move_aside(struct pz_call *call, struct pz_run_dir *run_dir);

/* Returns the path where a new run is prepared.  Files that a killed process left there are
 * removed, and so are those of this call when it ends before pz_run_dir_accept(). */
char *pz_run_dir_prepare(struct pz_call *call, const struct pz_run_dir *run_dir);

/* Makes the prepared file the run of the directory. */
void pz_run_dir_accept(struct pz_call *call, const struct pz_run_dir *run_dir, char *part);

#endif
