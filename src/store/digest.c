#include "store/digest.h"

#include <string.h>

#include "core/map.h"
#include "core/num.h"

const char *const pz_part_names[PZ_PARTS] = {"inputs", "result", "comparison",  "detail",
                                             "rounds", "boxes",  "evaluations", "timings"};

static const char *const queries[PZ_PARTS] = {
    [PZ_PART_INPUTS] = "SELECT inputs FROM run",
    [PZ_PART_RESULT] = "SELECT result FROM run",
    [PZ_PART_COMPARISON] = "SELECT comparison FROM run",
    [PZ_PART_DETAIL] = "SELECT detail FROM run",
    [PZ_PART_ROUNDS] = "SELECT * FROM rounds",
    [PZ_PART_BOXES] = "SELECT * FROM boxes",
    [PZ_PART_EVALUATIONS] = "SELECT * FROM evaluations",
    [PZ_PART_TIMINGS] = "SELECT * FROM timings",
};

/* ---- rows ----------------------------------------------------------------------------------- */

/* A cell with its type and column; *whole is false where there was no memory for a text. */
static uint64_t hash_cell(sqlite3_stmt *stmt, int column, bool *whole) {
  int type = sqlite3_column_type(stmt, column);
  uint64_t bits = 0, hash;
  if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
    const void *bytes = type == SQLITE_TEXT ? (const void *)sqlite3_column_text(stmt, column)
                                            : sqlite3_column_blob(stmt, column);
    size_t n = (size_t)sqlite3_column_bytes(stmt, column);
    *whole = *whole && (bytes || (type == SQLITE_BLOB && !n));
    hash = bytes ? pz_hash(bytes, n) : 0;
  } else {
    double real = sqlite3_column_double(stmt, column);
    int64_t integer = sqlite3_column_int64(stmt, column);
    if (type == SQLITE_FLOAT) memcpy(&bits, &real, sizeof bits);
    if (type == SQLITE_INTEGER) memcpy(&bits, &integer, sizeof bits);
    hash = pz_hash(&bits, sizeof bits);
  }
  hash += (uint64_t)column * 16 + (uint64_t)type;
  return pz_random_next(&hash);
}

/* Cells follow each other: two that change places give another sum. */
static uint64_t hash_row(sqlite3_stmt *stmt, bool *whole) {
  uint64_t hash = 1;
  for (int i = 0; i < sqlite3_column_count(stmt); i++) {
    hash ^= hash_cell(stmt, i, whole);
    hash = pz_random_next(&hash);
  }
  return hash;
}

enum pz_status pz_digest_rows(const struct pz_db *db, sqlite3_stmt *stmt, uint64_t *sum,
                              struct pz_error *err) {
  bool row = true, whole = true;
  enum pz_status status = PZ_OK;
  *sum = 0;
  while (status == PZ_OK && row && whole) {
    status = pz_db_next(db, stmt, &row, err);
    if (status == PZ_OK && row) *sum += hash_row(stmt, &whole);
  }
  sqlite3_reset(stmt);
  if (status != PZ_OK || whole) return status;
  return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory while reading", db->path);
}

enum pz_status pz_digest_part(const struct pz_db *db, enum pz_part part, uint64_t *sum,
                              struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = pz_db_prepare(db, queries[part], &stmt, err);
  if (status == PZ_OK) status = pz_digest_rows(db, stmt, sum, err);
  sqlite3_finalize(stmt);
  return status;
}

/* ---- what is kept of them ------------------------------------------------------------------- */

/* As SQLite's integers are: signed. */
static int64_t to_signed(uint64_t sum) {
  int64_t value;
  memcpy(&value, &sum, sizeof value);
  return value;
}

static enum pz_status write_digest(const struct pz_db *db, enum pz_part part, uint64_t sum,
                                   struct pz_error *err) {
  static const char sql[] = "INSERT OR REPLACE INTO digests(part, digest) VALUES(?, ?)";
  sqlite3_stmt *stmt = NULL;
  enum pz_status status = pz_db_prepare(db, sql, &stmt, err);
  if (status == PZ_OK) {
    sqlite3_bind_text(stmt, 1, pz_part_names[part], -1, SQLITE_STATIC);
    sqlite3_bind_int64(stmt, 2, to_signed(sum));
    status = pz_db_write(db, stmt, err);
  }
  sqlite3_finalize(stmt);
  return status;
}

/* *found is false where there is none. */
static enum pz_status read_digest(const struct pz_db *db, enum pz_part part, uint64_t *sum,
                                  bool *found, struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  enum pz_status status =
      pz_db_prepare(db, "SELECT digest FROM digests WHERE part = ?", &stmt, err);
  *sum = 0;
  if (status == PZ_OK) {
    sqlite3_bind_text(stmt, 1, pz_part_names[part], -1, SQLITE_STATIC);
    status = pz_db_next(db, stmt, found, err);
  }
  if (status == PZ_OK && *found) *sum = (uint64_t)sqlite3_column_int64(stmt, 0);
  sqlite3_finalize(stmt);
  return status;
}

enum pz_status pz_digest_store(const struct pz_db *db, enum pz_part part, struct pz_error *err) {
  uint64_t sum = 0;
  enum pz_status status = pz_digest_part(db, part, &sum, err);
  return status == PZ_OK ? write_digest(db, part, sum, err) : status;
}

enum pz_status pz_digest_add(const struct pz_db *db, enum pz_part part, uint64_t sum,
                             struct pz_error *err) {
  uint64_t before = 0;
  bool found = false;
  enum pz_status status = read_digest(db, part, &before, &found, err);
  return status == PZ_OK ? write_digest(db, part, before + sum, err) : status;
}

/* ---- checking ------------------------------------------------------------------------------- */

static enum pz_status refuse(const struct pz_db *db, const char *what, const char *name,
                             struct pz_error *err) {
  enum pz_status status =
      pz_fail(err, PZ_BAD_INPUT,
              "%s: the file is damaged: %s%s; accepted: a copy of it from before, or --fresh",
              db->path, what, name);
  pz_error_at(err, db->path, 0, 0);
  return status;
}

static enum pz_status check_file(const struct pz_db *db, struct pz_error *err) {
  sqlite3_stmt *stmt = NULL;
  bool row = false;
  char what[200] = "";
  enum pz_status status = pz_db_prepare(db, "PRAGMA integrity_check(1)", &stmt, err);
  if (status == PZ_OK) status = pz_db_next(db, stmt, &row, err);
  const char *text = row ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
  if (text) strncat(what, text, sizeof what - 1);
  bool whole = strcmp(what, "ok") == 0;
  sqlite3_finalize(stmt);
  if (status != PZ_OK || whole) return status;
  if (!text) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory while reading", db->path);
  return refuse(db, what, "", err);
}

enum pz_status pz_digest_check(const struct pz_db *db, struct pz_error *err) {
  enum pz_status status = check_file(db, err);
  for (enum pz_part p = 0; p < PZ_PARTS && status == PZ_OK; p++) {
    uint64_t kept = 0, sum = 0;
    bool found = false;
    status = read_digest(db, p, &kept, &found, err);
    if (status == PZ_OK) status = pz_digest_part(db, p, &sum, err);
    if (status == PZ_OK && (!found || kept != sum))
      status = refuse(db, "another digest than recorded: ", pz_part_names[p], err);
  }
  return status;
}
