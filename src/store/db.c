#include "store/db.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Others that hold a lock, such as a person's sqlite3, are waited for this long. */
enum { PATIENCE_MS = 5000, LONGEST_URI = 3 * PZ_DB_LONGEST_PATH + 32 };

/* Paths go as URIs in every mode, whatever the default of the library is: "immutable" needs it.
 * All but the plainest characters are escaped, slashes too, as two of them would begin a host. */
static void write_uri(char uri[LONGEST_URI], const char *path, const char *query) {
  size_t n = (size_t)snprintf(uri, LONGEST_URI, "file:");
  for (const char *c = path; *c && n + 4 < LONGEST_URI; c++)
    if (isalnum((unsigned char)*c) || strchr("._-", *c))
      uri[n++] = *c;
    else
      n += (size_t)snprintf(uri + n, LONGEST_URI - n, "%%%02X", (unsigned)(unsigned char)*c);
  snprintf(uri + n, LONGEST_URI - n, "%s", query);
}

static enum pz_status kind_of_error(int code) {
  switch (code & 0xff) {
  case SQLITE_NOMEM: return PZ_NO_MEMORY;
  case SQLITE_TOOBIG: return PZ_LIMIT;
  case SQLITE_ERROR:
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
  case SQLITE_FORMAT: return PZ_BAD_INPUT;
  case SQLITE_CONSTRAINT:
  case SQLITE_MISMATCH:
  case SQLITE_MISUSE:
  case SQLITE_RANGE: return PZ_INTERNAL;
  default: return PZ_IO;
  }
}

/* Reading can take writing too, of the index of the journal at least: there a disk is full. */
static bool is_of_writing(int code, int system) {
  switch (code) {
  case SQLITE_IOERR_WRITE:
  case SQLITE_IOERR_FSYNC:
  case SQLITE_IOERR_TRUNCATE:
  case SQLITE_IOERR_SHMSIZE: return true;
  default: return (code & 0xff) == SQLITE_FULL || system == ENOSPC || system == EFBIG;
  }
}

enum pz_status pz_db_fail(const struct pz_db *db, const char *verb, struct pz_error *err) {
  int code = db->conn ? sqlite3_extended_errcode(db->conn) : SQLITE_NOMEM;
  int system = db->conn ? sqlite3_system_errno(db->conn) : 0;
  bool tell = system && ((code & 0xff) == SQLITE_IOERR || (code & 0xff) == SQLITE_CANTOPEN);
  if (is_of_writing(code, tell ? system : 0)) verb = "write";
  bool known = db->conn && (code & 0xff) != SQLITE_NOMEM; /* else it may tell of something else */
  enum pz_status status = kind_of_error(code);
  pz_fail(err, status, "%s: cannot %s: %s%s%s%s", db->path, verb,
          known ? sqlite3_errmsg(db->conn) : "out of memory", tell ? ": " : "",
          tell ? strerror(system) : "",
          status == PZ_BAD_INPUT ? "; accepted: a file as SQLite wrote it" : "");
  pz_error_at(err, db->path, 0, 0);
  return status;
}

static void distrust(sqlite3 *conn) {
  sqlite3_extended_result_codes(conn, 1);
  sqlite3_db_config(conn, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
  sqlite3_db_config(conn, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
  sqlite3_busy_timeout(conn, PATIENCE_MS);
}

enum pz_status pz_db_open(struct pz_db *db, const char *path, enum pz_db_mode mode,
                          struct pz_error *err) {
  static const int flags[] = {[PZ_DB_FROZEN] = SQLITE_OPEN_READONLY,
                              [PZ_DB_READ] = SQLITE_OPEN_READONLY,
                              [PZ_DB_WRITE] = SQLITE_OPEN_READWRITE,
                              [PZ_DB_CREATE] = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE};
  char uri[LONGEST_URI];
  *db = (struct pz_db){0};
  if (strlen(path) >= sizeof db->path)
    return pz_fail(err, PZ_LIMIT, "%s: the path is too long", path);
  memcpy(db->path, path, strlen(path) + 1);
  write_uri(uri, path, mode == PZ_DB_FROZEN ? "?immutable=1" : "");
  enum pz_status status = PZ_OK;
  if (sqlite3_open_v2(uri, &db->conn, flags[mode] | SQLITE_OPEN_URI, NULL) != SQLITE_OK)
    status = pz_db_fail(db, "open", err);
  if (db->conn) distrust(db->conn);
  if (status == PZ_OK)
    status = pz_db_exec(db, "PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY", err);
  if (status != PZ_OK) pz_db_close(db);
  return status;
}

void pz_db_close(struct pz_db *db) {
  sqlite3_close(db->conn);
  db->conn = NULL;
}

enum pz_status pz_db_exec(const struct pz_db *db, const char *sql, struct pz_error *err) {
  return sqlite3_exec(db->conn, sql, NULL, NULL, NULL) == SQLITE_OK ? PZ_OK
                                                                    : pz_db_fail(db, "write", err);
}

enum pz_status pz_db_prepare(const struct pz_db *db, const char *sql, sqlite3_stmt **out,
                             struct pz_error *err) {
  return sqlite3_prepare_v2(db->conn, sql, -1, out, NULL) == SQLITE_OK
             ? PZ_OK
             : pz_db_fail(db, "read", err);
}

enum pz_status pz_db_write(const struct pz_db *db, sqlite3_stmt *stmt, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  if (sqlite3_step(stmt) != SQLITE_DONE) status = pz_db_fail(db, "write", err);
  sqlite3_reset(stmt);
  return status;
}

enum pz_status pz_db_next(const struct pz_db *db, sqlite3_stmt *stmt, bool *row,
                          struct pz_error *err) {
  int code = sqlite3_step(stmt);
  if (code != SQLITE_ROW && code != SQLITE_DONE) return pz_db_fail(db, "read", err);
  *row = code == SQLITE_ROW;
  return PZ_OK;
}

enum pz_status pz_db_number(const struct pz_db *db, const char *sql, int64_t *out,
                            struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  bool row = false;
  enum pz_status status = pz_db_prepare(db, sql, &stmt, err);
  if (status == PZ_OK) status = pz_db_next(db, stmt, &row, err);
  if (status == PZ_OK) *out = row ? sqlite3_column_int64(stmt, 0) : 0;
  sqlite3_finalize(stmt);
  return status;
}

bool pz_db_within(const struct pz_db *db) { return !sqlite3_get_autocommit(db->conn); }

enum pz_status pz_db_begin(const struct pz_db *db, struct pz_error *err) {
  return pz_db_within(db) ? PZ_OK : pz_db_exec(db, "BEGIN IMMEDIATE", err);
}

enum pz_status pz_db_commit(const struct pz_db *db, struct pz_error *err) {
  return pz_db_within(db) ? pz_db_exec(db, "COMMIT", err) : PZ_OK;
}

void pz_db_drop(const struct pz_db *db) {
  /* SQLite may have dropped it already, which is as good. */
  if (pz_db_within(db)) sqlite3_exec(db->conn, "ROLLBACK", NULL, NULL, NULL);
}
