/* Access to SQLite.  pz_db_open() opens a path as a URI and restricts what its schema may do;
 * pz_db_prepare(), pz_db_write() and pz_db_next() execute statements; pz_db_raise() maps SQLite's
 * error codes to a status.
 *
 * SQLite never calls back into this program, so no error can cross one of its frames. */
#include "store/db.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
  LOCK_TIMEOUT_MS = 5000, /* for locks of other programs, such as an sqlite3 shell */
  LONGEST_URI = 3 * PZ_DB_LONGEST_PATH + 32
};

/* Maps SQLite's error code to a status.  `verb` is what failed: open, read or write. */
_Noreturn void pz_db_raise(struct pz_call *call, const struct pz_db *db, const char *verb) {
  int code = db->conn ? sqlite3_extended_errcode(db->conn) : SQLITE_NOMEM, family = code & 0xff;
  int system_errno = db->conn ? sqlite3_system_errno(db->conn) : 0;
  /* The errno is stale unless a system call has failed. */
  if (family != SQLITE_IOERR && family != SQLITE_CANTOPEN) system_errno = 0;
  /* Reading can fail to write, because SQLite writes at least the index of the log. */
  bool cannot_write = code == SQLITE_IOERR_WRITE || code == SQLITE_IOERR_FSYNC ||
                      code == SQLITE_IOERR_TRUNCATE || code == SQLITE_IOERR_SHMSIZE;
  bool is_full = family == SQLITE_FULL || system_errno == ENOSPC || system_errno == EFBIG;
  if (cannot_write || is_full) verb = "write";
  enum pz_status status = PZ_IO;
  switch (family) {
  case SQLITE_NOMEM: status = PZ_NO_MEMORY; break;
  case SQLITE_TOOBIG: status = PZ_LIMIT; break;
  case SQLITE_ERROR:
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_FORMAT: status = PZ_BAD_INPUT; break;
  case SQLITE_CONSTRAINT:
  case SQLITE_MISMATCH:
  case SQLITE_MISUSE:
  case SQLITE_RANGE: status = PZ_INTERNAL; break;
  default: break;
  }
  /* Without memory, SQLite may not have replaced the message of an earlier error. */
  bool has_message = db->conn && family != SQLITE_NOMEM;
  pz_raise_at(call, status, db->path, 0, 0, "%s: cannot %s: %s%s%s%s", db->path, verb,
              has_message ? sqlite3_errmsg(db->conn) : "out of memory", system_errno ? ": " : "",
              system_errno ? strerror(system_errno) : "",
              status == PZ_BAD_INPUT ? "; accepted: a file as SQLite wrote it" : "");
}

void pz_db_open(struct pz_call *call, struct pz_db *db, const char *path, enum pz_db_mode mode) {
  static const int flags[] = {[PZ_DB_FROZEN] = SQLITE_OPEN_READONLY,
                              [PZ_DB_READ] = SQLITE_OPEN_READONLY,
                              [PZ_DB_WRITE] = SQLITE_OPEN_READWRITE,
                              [PZ_DB_CREATE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE};
  char uri[LONGEST_URI];
  *db = (struct pz_db){0};
  if (strlen(path) >= sizeof db->path) pz_raise(call, PZ_LIMIT, "%s: the path is too long", path);
  memcpy(db->path, path, strlen(path) + 1);
  /* The option "immutable" requires a URI.  All characters but letters, digits and "._-" are
   * escaped, also slashes, because two of them would begin a host name. */
  size_t n = (size_t)snprintf(uri, sizeof uri, "file:");
  for (const char *c = path; *c && n + 4 < sizeof uri; c++) { /* an escape has 3 characters */
    bool is_plain = isalnum((unsigned char)*c) || strchr("._-", *c);
    n += (size_t)snprintf(uri + n, sizeof uri - n, is_plain ? "%c" : "%%%02X", (unsigned char)*c);
  }
  snprintf(uri + n, sizeof uri - n, "%s", mode == PZ_DB_FROZEN ? "?immutable=1" : "");
  if (sqlite3_open_v2(uri, &db->conn, flags[mode] | SQLITE_OPEN_URI, NULL) != SQLITE_OK)
    pz_db_raise(call, db, "open");
  sqlite3_extended_result_codes(db->conn, 1);
  sqlite3_db_config(db->conn, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config(db->conn, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  sqlite3_busy_timeout(db->conn, LOCK_TIMEOUT_MS);
  pz_db_exec(call, db, "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY");
}

void pz_db_close(void *ctx) {
  struct pz_db *db = ctx;
  sqlite3_close(db->conn);
  db->conn = NULL;
}

struct pz_db *pz_db_open_in_call(struct pz_call *call, const char *path, enum pz_db_mode mode) {
  struct pz_db *db = pz_alloc(call, 1, sizeof *db);
  pz_defer(call, pz_db_close, db);
  pz_db_open(call, db, path, mode);
  return db;
}

void pz_db_exec(struct pz_call *call, const struct pz_db *db, const char *sql) {
  if (sqlite3_exec(db->conn, sql, NULL, NULL, NULL) != SQLITE_OK) pz_db_raise(call, db, "write");
}

/* Finalizes a statement when its call ends (a callback of pz_defer). */
static void finalize_statement(void *stmt) { sqlite3_finalize(stmt); }

sqlite3_stmt *pz_db_prepare(struct pz_call *call, const struct pz_db *db, const char *sql) {
  sqlite3_stmt *stmt = NULL;
  if (sqlite3_prepare_v2(db->conn, sql, -1, &stmt, NULL) != SQLITE_OK)
    pz_db_raise(call, db, "read");
  pz_defer(call, finalize_statement, stmt);
  return stmt;
}

void pz_db_write(struct pz_call *call, const struct pz_db *db, sqlite3_stmt *stmt) {
  if (sqlite3_step(stmt) != SQLITE_DONE) pz_db_raise(call, db, "write");
  sqlite3_reset(stmt);
}

bool pz_db_next(struct pz_call *call, const struct pz_db *db, sqlite3_stmt *stmt) {
  int code = sqlite3_step(stmt);
  if (code != SQLITE_ROW && code != SQLITE_DONE) pz_db_raise(call, db, "read");
  return code == SQLITE_ROW;
}

/* Returns the first column of the first row of a query, or 0. */
int64_t pz_db_number(struct pz_call *call, const struct pz_db *db, const char *sql) {
  sqlite3_stmt *stmt = pz_db_prepare(call, db, sql);
  int64_t number = pz_db_next(call, db, stmt) ? sqlite3_column_int64(stmt, 0) : 0;
  pz_close(call, stmt);
  return number;
}

/* Rolls a transaction back when its call ends before the commit (a callback of pz_defer), unless
 * SQLite has done so itself, as it does after some errors. */
static void roll_back(void *ctx) {
  const struct pz_db *db = ctx;
  if (!sqlite3_get_autocommit(db->conn)) sqlite3_exec(db->conn, "ROLLBACK", NULL, NULL, NULL);
}

void pz_db_begin(struct pz_call *call, struct pz_db *db) {
  pz_db_exec(call, db, "BEGIN IMMEDIATE");
  pz_defer(call, roll_back, db);
}

void pz_db_commit(struct pz_call *call, struct pz_db *db) {
  pz_db_exec(call, db, "COMMIT");
  pz_undefer(call, db);
}
