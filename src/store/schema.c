#include "store/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/digest.h"

/* "phaz"; a change to a table is a new version. */
#define APPLICATION "1885888890"
#define VERSION "6"

/* By name.  STRICT: a column holds its type or nothing is stored. */
static const struct {
  const char *name, *sql;
} tables[] = {
    {"boxes", "CREATE TABLE boxes(run INTEGER NOT NULL, i INTEGER NOT NULL, kind INTEGER NOT NULL, "
              "lo TEXT NOT NULL, hi TEXT NOT NULL, how TEXT NOT NULL, bound REAL NOT NULL, "
              "value REAL NOT NULL, PRIMARY KEY(run, i)) STRICT, WITHOUT ROWID"},
    {"digests", "CREATE TABLE digests(part TEXT PRIMARY KEY, digest INTEGER NOT NULL) "
                "STRICT, WITHOUT ROWID"},
    {"evaluations", "CREATE TABLE evaluations(chip INTEGER NOT NULL, model INTEGER NOT NULL, "
                    "effort INTEGER NOT NULL, step_s REAL NOT NULL, least_s REAL NOT NULL, "
                    "dynamic_j REAL NOT NULL, n_open INTEGER NOT NULL, variant INTEGER NOT NULL, "
                    "recompute INTEGER NOT NULL, dp INTEGER NOT NULL, stages TEXT NOT NULL, "
                    "PRIMARY KEY(chip, model, effort)) STRICT, WITHOUT ROWID"},
    {"rounds", "CREATE TABLE rounds(run INTEGER NOT NULL, round INTEGER NOT NULL, "
               "found BLOB NOT NULL, PRIMARY KEY(run, round)) STRICT, WITHOUT ROWID"},
    {"run", "CREATE TABLE run(one INTEGER PRIMARY KEY CHECK(one = 1), inputs TEXT NOT NULL, "
            "result TEXT, comparison TEXT, detail TEXT) STRICT"},
    {"timings", "CREATE TABLE timings(what TEXT PRIMARY KEY, seconds REAL NOT NULL) "
                "STRICT, WITHOUT ROWID"},
};
enum { N_TABLES = sizeof tables / sizeof *tables };

static enum pz_status make_tables(const struct pz_db *db, const char *inputs,
                                  struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = pz_db_exec(
      db, "PRAGMA application_id = " APPLICATION "; PRAGMA user_version = " VERSION, err);
  for (int i = 0; i < N_TABLES && status == PZ_OK; i++) status = pz_db_exec(db, tables[i].sql, err);
  if (status == PZ_OK)
    status = pz_db_prepare(db, "INSERT INTO run(one, inputs) VALUES(1, ?)", &stmt, err);
  if (status == PZ_OK) {
    sqlite3_bind_text(stmt, 1, inputs, -1, SQLITE_STATIC);
    status = pz_db_write(db, stmt, err);
  }
  sqlite3_finalize(stmt);
  for (enum pz_part p = 0; p < PZ_PARTS && status == PZ_OK; p++)
    status = pz_digest_store(db, p, err);
  return status;
}

enum pz_status pz_schema_make(const struct pz_db *db, const char *inputs, struct pz_error *err) {
  enum pz_status status = pz_db_begin(db, err);
  if (status == PZ_OK) status = make_tables(db, inputs, err);
  return status == PZ_OK ? pz_db_commit(db, err) : status;
}

enum pz_status pz_schema_log(const struct pz_db *db, struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  bool row = false, on = false;
  enum pz_status status = pz_db_prepare(db, "PRAGMA journal_mode = WAL", &stmt, err);
  if (status == PZ_OK) status = pz_db_next(db, stmt, &row, err);
  const unsigned char *mode = row ? sqlite3_column_text(stmt, 0) : NULL;
  on = mode && strcmp((const char *)mode, "wal") == 0;
  sqlite3_finalize(stmt);
  if (status != PZ_OK || on) return status;
  return pz_fail(err, PZ_IO,
                 "%s: SQLite's write-ahead log does not work on this file system; accepted: a "
                 "local one",
                 db->path);
}

/* ---- checking ------------------------------------------------------------------------------- */

static enum pz_status refuse(const struct pz_db *db, const char *what, const char *advice,
                             struct pz_error *err) {
  enum pz_status status = pz_fail(err, PZ_BAD_INPUT, "%s: %s%s", db->path, what, advice);
  pz_error_at(err, db->path, 0, 0);
  return status;
}

static enum pz_status check_head(const struct pz_db *db, const char *advice, struct pz_error *err) {
  int64_t application = 0, version = 0;
  char what[120];
  enum pz_status status = pz_db_number(db, "PRAGMA application_id", &application, NULL);
  if (status == PZ_OK) status = pz_db_number(db, "PRAGMA user_version", &version, NULL);
  if (status != PZ_OK && status != PZ_BAD_INPUT) return pz_db_fail(db, "read", err);
  if (status == PZ_BAD_INPUT || application != atoll(APPLICATION))
    return refuse(db, "is not a phaze run file", advice, err);
  if (version == atoll(VERSION)) return PZ_OK;
  snprintf(what, sizeof what,
           "is a run file of version %" PRId64 ", and this phaze writes version " VERSION, version);
  return refuse(db, what, advice, err);
}

static bool is_table(sqlite3_stmt *stmt, int i) {
  const char *name = (const char *)sqlite3_column_text(stmt, 0);
  const char *sql = (const char *)sqlite3_column_text(stmt, 1);
  return i < N_TABLES && name && sql && strcmp(name, tables[i].name) == 0 &&
         strcmp(sql, tables[i].sql) == 0;
}

enum pz_status pz_schema_check(const struct pz_db *db, const char *advice, struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  bool row = true, same = true;
  int n = 0;
  enum pz_status status = check_head(db, advice, err);
  if (status == PZ_OK)
    status = pz_db_prepare(db, "SELECT name, sql FROM sqlite_schema ORDER BY name", &stmt, err);
  while (status == PZ_OK && row && same) {
    status = pz_db_next(db, stmt, &row, err);
    if (status == PZ_OK && row) same = is_table(stmt, n++);
  }
  sqlite3_finalize(stmt);
  if (status != PZ_OK) return status;
  return same && n == N_TABLES
             ? PZ_OK
             : refuse(db, "its tables are not those of a phaze run file", advice, err);
}
