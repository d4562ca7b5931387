/* Files and locks of a run directory.  A writer calls pz_run_dir_lock(), then
 * pz_run_dir_move_aside() for --fresh, and pz_run_dir_prepare() and pz_run_dir_accept() around the
 * creation of a new run; a reader calls pz_run_dir_share().  A database consists of several files
 * (`companions`), which are always moved and removed together. */
#include "store/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Names of directories leave room for the names of runs, and those for the endings of their
 * companions. */
enum {
  MOST_OLD_RUNS = 9999,
  LONGEST_ENDING = 32,
  LONGEST_RUN = PZ_DB_LONGEST_PATH - LONGEST_ENDING,
  LONGEST_DIR = LONGEST_RUN - LONGEST_ENDING
};

/* The files of a database.  The database itself is the last, so that a log is never left beside a
 * name under which a new database could mistake it for its own. */
static const char *const companions[] = {"-journal", "-wal", "-shm", ""};
enum { N_COMPANIONS = sizeof companions / sizeof *companions };
typedef char companion_path[PZ_DB_LONGEST_PATH + LONGEST_ENDING];

/* Raises PZ_IO with the reason in errno: "PATH: cannot VERB: reason; accepted: ...". */
static _Noreturn void raise_io(struct pz_call *call, const char *path, const char *verb,
                               const char *accepted) {
  pz_raise_at(call, PZ_IO, path, 0, 0, "%s: cannot %s: %s; accepted: %s", path, verb,
              strerror(errno), accepted);
}

void pz_run_dir_init(struct pz_call *call, struct pz_run_dir *run_dir, const char *dir) {
  size_t n = strlen(dir);
  *run_dir = (struct pz_run_dir){.lock = -1};
  if (n == 0) pz_raise(call, PZ_BAD_USE, "the name of the run directory is empty");
  if (n > LONGEST_DIR) pz_raise(call, PZ_LIMIT, "%s: the path is too long", dir);
  memcpy(run_dir->dir, dir, n + 1);
  snprintf(run_dir->run, sizeof run_dir->run, "%.*s/run.sqlite", LONGEST_DIR, dir);
  snprintf(run_dir->lock_path, sizeof run_dir->lock_path, "%.*s/lock", LONGEST_DIR, dir);
}

void pz_run_dir_release(struct pz_run_dir *run_dir) {
  if (run_dir->lock >= 0) close(run_dir->lock);
  run_dir->lock = -1;
}

/* Locks a file without waiting; `operation` is LOCK_SH or LOCK_EX. Returns false, with errno, if
 * that fails. */
static bool try_lock(int fd, int operation) {
  int code = flock(fd, operation | LOCK_NB);
  while (code != 0 && errno == EINTR) code = flock(fd, operation | LOCK_NB);
  return code == 0;
}

/* Creates the directory and takes its exclusive lock, which flock() refuses to a second writer. */
void pz_run_dir_lock(struct pz_call *call, struct pz_run_dir *run_dir) {
  const char *path = run_dir->lock_path;
  if (mkdir(run_dir->dir, 0777) != 0 && errno != EEXIST)
    raise_io(call, run_dir->dir, "create the directory",
             "an existing directory, or one whose parent is writable");
  run_dir->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (run_dir->lock < 0)
    raise_io(call, path, "open it to write", "a directory that can be written to");
  if (try_lock(run_dir->lock, LOCK_EX)) return;
  if (errno != EWOULDBLOCK) raise_io(call, path, "lock it", "a file system with locks");
  pz_raise(call, PZ_IO,
           "%s: another phaze is running there; accepted: another directory, or this one after "
           "that has ended",
           run_dir->dir);
}

/* Takes a shared lock, which keeps writers out.  Returns false if there is a writer; a directory
 * without a lock file has none. */
bool pz_run_dir_share(struct pz_run_dir *run_dir) {
  run_dir->lock = open(run_dir->lock_path, O_RDONLY | O_CLOEXEC);
  if (run_dir->lock < 0 || try_lock(run_dir->lock, LOCK_SH)) return true;
  bool has_writer = errno == EWOULDBLOCK;
  pz_run_dir_release(run_dir);
  return !has_writer;
}

void pz_run_dir_check(struct pz_call *call, const struct pz_run_dir *run_dir) {
  for (int i = 0; i <= N_COMPANIONS; i++) { /* the files of the database, then the lock */
    bool is_companion = i < N_COMPANIONS;
    companion_path companion;
    struct stat file_state;
    const char *path = is_companion ? companion : run_dir->lock_path;
    if (is_companion) snprintf(companion, sizeof companion, "%s%s", run_dir->run, companions[i]);
    if (stat(path, &file_state) == 0 && !S_ISREG(file_state.st_mode))
      pz_raise_at(call, PZ_IO, path, 0, 0,
                  "%s: is not a regular file; accepted: the directory of a run", path);
  }
}

/* Asks the system for permission to write to the directory, the run and the lock. */
bool pz_run_dir_is_read_only(const struct pz_run_dir *run_dir) {
  const char *const paths[] = {run_dir->dir, run_dir->run, run_dir->lock_path};
  bool has_run = pz_run_dir_has_run(run_dir), refused = false;
  for (int i = 0; i < 3 && has_run && !refused; i++) /* a path that does not exist is not refused */
    refused = access(paths[i], W_OK) != 0 && (errno == EACCES || errno == EROFS || errno == EPERM);
  return refused;
}

bool pz_run_dir_has_run(const struct pz_run_dir *run_dir) {
  struct stat file_state;
  return lstat(run_dir->run, &file_state) == 0;
}

bool pz_run_dir_has_log(const struct pz_run_dir *run_dir) {
  companion_path path;
  struct stat file_state;
  snprintf(path, sizeof path, "%s-wal", run_dir->run);
  return stat(path, &file_state) == 0 && file_state.st_size > 0;
}

/* Merges the log into the database, so that one file remains to be renamed.  By default, SQLite merges
 * and removes the log when it closes the database.  This is switched off until the merge has
 * succeeded, because after a failure the log is renamed with the database and must not be lost. */
static void merge_log(struct pz_call *call, void *ctx) {
  const struct pz_run_dir *run_dir = ctx;
  struct pz_db *db = pz_db_open_in_call(call, run_dir->run, PZ_DB_WRITE);
  sqlite3_db_config(db->conn, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  (void)pz_db_number(call, db,
                     "PRAGMA user_version"); /* SQLite opens the log when it first reads */
  if (sqlite3_wal_checkpoint_v2(db->conn, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) ==
      SQLITE_OK)
    sqlite3_db_config(db->conn, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
}

/* Returns whether neither a database of this name nor a companion of it exists. */
static bool is_unused_name(const char *stem) {
  companion_path path;
  struct stat file_state;
  for (int i = 0; i < N_COMPANIONS; i++) {
    snprintf(path, sizeof path, "%s%s", stem, companions[i]);
    if (lstat(path, &file_state) == 0 || errno != ENOENT) return false;
  }
  return true;
}

/* Renames the run and its companions to the first of run-1.sqlite, run-2.sqlite ... that no file
 * has. */
void pz_run_dir_move_aside(struct pz_call *call, struct pz_run_dir *run_dir) {
  char new_stem[PZ_DB_LONGEST_PATH];
  if (is_unused_name(run_dir->run)) return;
  (void)!pz_border(merge_log, run_dir, NULL); /* after a failure, the log is renamed, too */
  for (int k = 1;; k++) {
    if (k > MOST_OLD_RUNS)
      pz_raise(call, PZ_LIMIT, "%s: it already holds %d old runs; accepted: another directory",
               run_dir->dir, MOST_OLD_RUNS);
    snprintf(new_stem, sizeof new_stem, "%.*s/run-%d.sqlite", LONGEST_DIR, run_dir->dir, k);
    if (is_unused_name(new_stem)) break;
  }
  for (int i = 0; i < N_COMPANIONS; i++) {
    companion_path old_path, new_path;
    snprintf(old_path, sizeof old_path, "%s%s", run_dir->run, companions[i]);
    snprintf(new_path, sizeof new_path, "%s%s", new_stem, companions[i]);
    if (rename(old_path, new_path) != 0 && errno != ENOENT)
      raise_io(call, run_dir->run, "rename it", "a writable directory");
  }
}

/* Removes a database and its companions (a callback of pz_defer).  `stem` is the path of the
 * database. */
static void remove_database(void *stem) {
  companion_path path;
  for (int i = 0; i < N_COMPANIONS; i++) {
    snprintf(path, sizeof path, "%s%s", (const char *)stem, companions[i]);
    unlink(path);
  }
}

/* Returns the path run.sqlite.part, where a new run is written until it is complete. */
char *pz_run_dir_prepare(struct pz_call *call, const struct pz_run_dir *run_dir) {
  if (!is_unused_name(run_dir->run))
    pz_raise(call, PZ_BAD_INPUT,
             "%s: is missing, but files that belong to it exist; accepted: another directory, or "
             "--fresh",
             run_dir->run);
  char *part = pz_format(call, "%.*s.part", LONGEST_RUN, run_dir->run);
  remove_database(part);
  pz_defer(call, remove_database, part);
  return part;
}

/* Renames the prepared file, which replaces the run atomically. */
void pz_run_dir_accept(struct pz_call *call, const struct pz_run_dir *run_dir, char *part) {
  if (rename(part, run_dir->run) != 0)
    raise_io(call, run_dir->run, "make it", "a directory that can be written to");
  int fd = open(run_dir->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) {
    fsync(fd); /* the new name has to be permanent, not only the file */
    close(fd);
  }
  pz_close(call, part);
}
