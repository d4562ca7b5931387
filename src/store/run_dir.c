#include "store/run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory leaves room for the names in it, a database for the endings of its companions. */
enum {
  MOST_ASIDE = 9999,
  LONGEST_ENDING = 32,
  LONGEST_RUN = PZ_DB_LONGEST_PATH - LONGEST_ENDING,
  LONGEST_DIR = LONGEST_RUN - LONGEST_ENDING
};

/* What SQLite keeps beside a database; the database itself comes last, so that a log is never left
 * beside a name under which a new database could take it for its own. */
static const char *const companions[] = {"-journal", "-wal", "-shm", ""};
enum { N_COMPANIONS = sizeof companions / sizeof *companions };

static enum pz_status fail_io(struct pz_error *err, const char *path, const char *verb,
                              const char *accepted) {
  enum pz_status status =
      pz_fail(err, PZ_IO, "%s: cannot %s: %s; accepted: %s", path, verb, strerror(errno), accepted);
  pz_error_at(err, path, 0, 0);
  return status;
}

enum pz_status pz_run_dir_init(struct pz_run_dir *d, const char *dir, struct pz_error *err) {
  size_t n = strlen(dir);
  *d = (struct pz_run_dir){.lock = -1};
  if (n == 0) return pz_fail(err, PZ_BAD_USE, "the name of the run directory is empty");
  if (n > LONGEST_DIR) return pz_fail(err, PZ_LIMIT, "%s: the path is too long", dir);
  memcpy(d->dir, dir, n + 1);
  snprintf(d->run, sizeof d->run, "%.*s/run.sqlite", LONGEST_DIR, dir);
  return PZ_OK;
}

void pz_run_dir_release(struct pz_run_dir *d) {
  if (d->lock >= 0) close(d->lock);
  d->lock = -1;
}

static void write_lock_path(const struct pz_run_dir *d, char path[PZ_DB_LONGEST_PATH]) {
  snprintf(path, PZ_DB_LONGEST_PATH, "%.*s/lock", LONGEST_DIR, d->dir);
}

static bool try_lock(int fd, int how) {
  int code;
  do code = flock(fd, how | LOCK_NB);
  while (code != 0 && errno == EINTR);
  return code == 0;
}

enum pz_status pz_run_dir_lock(struct pz_run_dir *d, struct pz_error *err) {
  char path[PZ_DB_LONGEST_PATH];
  if (mkdir(d->dir, 0777) != 0 && errno != EEXIST)
    return fail_io(err, d->dir, "create the directory",
                   "an existing directory, or one whose parent is writable");
  write_lock_path(d, path);
  d->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (d->lock < 0)
    return fail_io(err, path, "open it to write", "a directory that can be written to");
  if (try_lock(d->lock, LOCK_EX)) return PZ_OK;
  enum pz_status status =
      errno == EWOULDBLOCK
          ? pz_fail(err, PZ_IO,
                    "%s: another phaze is running there; accepted: another directory, or this one "
                    "after that has ended",
                    d->dir)
          : fail_io(err, path, "lock it", "a file system with locks");
  pz_run_dir_release(d);
  return status;
}

static enum pz_status check_regular(const char *path, struct pz_error *err) {
  struct stat st;
  if (stat(path, &st) != 0 || S_ISREG(st.st_mode)) return PZ_OK;
  enum pz_status status =
      pz_fail(err, PZ_IO, "%s: is not a regular file; accepted: the directory of a run", path);
  pz_error_at(err, path, 0, 0);
  return status;
}

enum pz_status pz_run_dir_check(const struct pz_run_dir *d, struct pz_error *err) {
  char path[PZ_DB_LONGEST_PATH + LONGEST_ENDING];
  enum pz_status status = PZ_OK;
  for (int i = 0; i < N_COMPANIONS && status == PZ_OK; i++) {
    snprintf(path, sizeof path, "%s%s", d->run, companions[i]);
    status = check_regular(path, err);
  }
  if (status != PZ_OK) return status;
  write_lock_path(d, path);
  return check_regular(path, err);
}

static bool refuses_writing(const char *path) {
  return access(path, W_OK) != 0 && (errno == EACCES || errno == EROFS || errno == EPERM);
}

bool pz_run_dir_is_shut(const struct pz_run_dir *d) {
  char lock[PZ_DB_LONGEST_PATH];
  write_lock_path(d, lock);
  return pz_run_dir_has_run(d) &&
         (refuses_writing(d->dir) || refuses_writing(d->run) || refuses_writing(lock));
}

bool pz_run_dir_share(struct pz_run_dir *d) {
  char path[PZ_DB_LONGEST_PATH];
  write_lock_path(d, path);
  d->lock = open(path, O_RDONLY | O_CLOEXEC);
  if (d->lock < 0 || try_lock(d->lock, LOCK_SH)) return true;
  bool writer = errno == EWOULDBLOCK;
  pz_run_dir_release(d);
  return !writer;
}

bool pz_run_dir_has_run(const struct pz_run_dir *d) {
  struct stat st;
  return lstat(d->run, &st) == 0;
}

bool pz_run_dir_has_log(const struct pz_run_dir *d) {
  char path[PZ_DB_LONGEST_PATH + LONGEST_ENDING];
  struct stat st;
  snprintf(path, sizeof path, "%s-wal", d->run);
  return stat(path, &st) == 0 && st.st_size > 0;
}

/* ---- moving aside --------------------------------------------------------------------------- */

/* Merge the log, so that there is one file to keep.  Where that fails the log goes along: closing
 * must not remove the one beside what is not a database. */
static void merge_log(const struct pz_run_dir *d) {
  struct pz_db db;
  int64_t version;
  if (pz_db_open(&db, d->run, PZ_DB_WRITE, NULL) != PZ_OK) return;
  sqlite3_db_config(db.conn, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  /* SQLite finds the log when it first reads. */
  if (pz_db_number(&db, "PRAGMA user_version", &version, NULL) == PZ_OK &&
      sqlite3_wal_checkpoint_v2(db.conn, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL) == SQLITE_OK)
    sqlite3_db_config(db.conn, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL);
  pz_db_close(&db);
}

static bool is_free(const char *stem) {
  char path[PZ_DB_LONGEST_PATH + LONGEST_ENDING];
  struct stat st;
  for (int i = 0; i < N_COMPANIONS; i++) {
    snprintf(path, sizeof path, "%s%s", stem, companions[i]);
    if (lstat(path, &st) == 0 || errno != ENOENT) return false;
  }
  return true;
}

static bool move(const char *from, const char *to) {
  char a[PZ_DB_LONGEST_PATH + LONGEST_ENDING], b[sizeof a];
  for (int i = 0; i < N_COMPANIONS; i++) {
    snprintf(a, sizeof a, "%s%s", from, companions[i]);
    snprintf(b, sizeof b, "%s%s", to, companions[i]);
    if (rename(a, b) != 0 && errno != ENOENT) return false;
  }
  return true;
}

enum pz_status pz_run_dir_move_aside(struct pz_run_dir *d, struct pz_error *err) {
  char to[PZ_DB_LONGEST_PATH];
  int k = 1;
  if (is_free(d->run)) return PZ_OK;
  merge_log(d);
  do snprintf(to, sizeof to, "%.*s/run-%d.sqlite", LONGEST_DIR, d->dir, k);
  while (!is_free(to) && ++k <= MOST_ASIDE);
  if (k > MOST_ASIDE)
    return pz_fail(err, PZ_LIMIT, "%s: it already holds %d old runs; accepted: another directory",
                   d->dir, MOST_ASIDE);
  return move(d->run, to) ? PZ_OK : fail_io(err, d->run, "rename it", "a writable directory");
}

/* ---- a new run ------------------------------------------------------------------------------ */

void pz_run_dir_discard(const char *part) {
  char path[PZ_DB_LONGEST_PATH + LONGEST_ENDING];
  for (int i = 0; i < N_COMPANIONS; i++) {
    snprintf(path, sizeof path, "%s%s", part, companions[i]);
    unlink(path);
  }
}

enum pz_status pz_run_dir_part(const struct pz_run_dir *d, char part[PZ_DB_LONGEST_PATH],
                               struct pz_error *err) {
  if (!is_free(d->run))
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s: is missing, but files that belong to it exist; accepted: another "
                   "directory, or --fresh",
                   d->run);
  snprintf(part, PZ_DB_LONGEST_PATH, "%.*s.part", LONGEST_RUN, d->run);
  pz_run_dir_discard(part);
  return PZ_OK;
}

/* The name is to last, not only the file. */
static void sync_dir(const char *dir) {
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  close(fd);
}

enum pz_status pz_run_dir_accept(const struct pz_run_dir *d, const char *part,
                                 struct pz_error *err) {
  if (rename(part, d->run) != 0)
    return fail_io(err, d->run, "make it", "a directory that can be written to");
  sync_dir(d->dir);
  return PZ_OK;
}
