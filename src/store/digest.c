/* Digests of run files: pz_digest_rows() adds the hashes of rows, and the table `digests` has the
 * sum for each part.  pz_digest_check() compares the two. */
#include "store/digest.h"

#include <stdio.h>
#include <string.h>

#include "core/map.h"
#include "core/num.h"

const char *const pz_part_names[PZ_PARTS] = {"inputs", "result", "comparison",  "detail",
                                             "rounds", "boxes",  "evaluations", "timings"};

/* Queries for all rows of each part. */
static const char *const part_queries[PZ_PARTS] = {
    [PZ_PART_INPUTS] = "SELECT inputs FROM run",
    [PZ_PART_RESULT] = "SELECT result FROM run",
    [PZ_PART_COMPARISON] = "SELECT comparison FROM run",
    [PZ_PART_DETAIL] = "SELECT detail FROM run",
    [PZ_PART_ROUNDS] = "SELECT * FROM rounds",
    [PZ_PART_BOXES] = "SELECT * FROM boxes",
    [PZ_PART_EVALUATIONS] = "SELECT * FROM evaluations",
    [PZ_PART_TIMINGS] = "SELECT * FROM timings",
};

/* Returns the sum of the hashes of all rows that a statement returns.  The hashes of a row's cells are
 * chained, so that their order matters; those of rows are added, so that their order does not. */
uint64_t pz_digest_rows(struct pz_call *call, const struct pz_db *db, sqlite3_stmt *stmt) {
  uint64_t sum = 0;
  while (pz_db_next(call, db, stmt)) {
    uint64_t row_hash = 1;
    for (int column = 0; column < sqlite3_column_count(stmt); column++) {
      int type = sqlite3_column_type(stmt, column);
      uint64_t bits = 0, hash;
      if (type == SQLITE_TEXT || type == SQLITE_BLOB) {
        const void *bytes = type == SQLITE_TEXT ? (const void *)sqlite3_column_text(stmt, column)
                                                : sqlite3_column_blob(stmt, column);
        size_t n = (size_t)sqlite3_column_bytes(stmt, column);
        bool is_empty_blob = type == SQLITE_BLOB && n == 0;
        if (!bytes && !is_empty_blob) pz_raise_memory(call, db->path);
        hash = bytes ? pz_hash(bytes, n) : 0;
      } else {
        double real = sqlite3_column_double(stmt, column);
        int64_t integer = sqlite3_column_int64(stmt, column);
        if (type == SQLITE_FLOAT) memcpy(&bits, &real, sizeof bits);
        if (type == SQLITE_INTEGER) memcpy(&bits, &integer, sizeof bits);
        hash = pz_hash(&bits, sizeof bits);
      }
      /* Equal bytes hash differently in another column or as another type, a code from 1 to 5. */
      hash += (uint64_t)column * 16 + (uint64_t)type;
      row_hash ^= pz_random_next(&hash);
      row_hash = pz_random_next(&row_hash);
    }
    sum += row_hash;
  }
  sqlite3_reset(stmt);
  return sum;
}

uint64_t pz_digest_part(struct pz_call *call, const struct pz_db *db, enum pz_part part) {
  sqlite3_stmt *stmt = pz_db_prepare(call, db, part_queries[part]);
  uint64_t sum = pz_digest_rows(call, db, stmt);
  pz_close(call, stmt);
  return sum;
}

/* Sets the recorded digest of a part. */
static void write_digest(struct pz_call *call, const struct pz_db *db, enum pz_part part,
                         uint64_t sum) {
  int64_t stored; /* integers of SQLite are signed */
  memcpy(&stored, &sum, sizeof stored);
  sqlite3_stmt *stmt =
      pz_db_prepare(call, db, "INSERT OR REPLACE INTO digests(part, digest) VALUES(?, ?)");
  sqlite3_bind_text(stmt, 1, pz_part_names[part], -1, SQLITE_STATIC);
  sqlite3_bind_int64(stmt, 2, stored);
  pz_db_write(call, db, stmt);
  pz_close(call, stmt);
}

/* Reads the recorded digest of a part.  Returns false, and a sum of 0, if there is none. */
static bool read_digest(struct pz_call *call, const struct pz_db *db, enum pz_part part,
                        uint64_t *sum) {
  sqlite3_stmt *stmt = pz_db_prepare(call, db, "SELECT digest FROM digests WHERE part = ?");
  sqlite3_bind_text(stmt, 1, pz_part_names[part], -1, SQLITE_STATIC);
  bool found = pz_db_next(call, db, stmt);
  *sum = found ? (uint64_t)sqlite3_column_int64(stmt, 0) : 0;
  pz_close(call, stmt);
  return found;
}

/* Recomputes the digest of a part from all of its rows, and records it. */
void pz_digest_store(struct pz_call *call, const struct pz_db *db, enum pz_part part) {
  write_digest(call, db, part, pz_digest_part(call, db, part));
}

/* Adds the hashes of new rows, because the digest of a part is the sum over its rows. */
void pz_digest_add(struct pz_call *call, const struct pz_db *db, enum pz_part part, uint64_t sum) {
  uint64_t before;
  read_digest(call, db, part, &before);
  write_digest(call, db, part, before + sum);
}

void pz_digest_check(struct pz_call *call, const struct pz_db *db) {
  char finding[200] = "";
  sqlite3_stmt *stmt = pz_db_prepare(call, db, "PRAGMA integrity_check(1)");
  bool row = pz_db_next(call, db, stmt);
  const char *text = row ? (const char *)sqlite3_column_text(stmt, 0) : NULL;
  if (!text) pz_raise_memory(call, db->path);
  strncat(finding, text, sizeof finding - 1);
  pz_close(call, stmt);
  bool intact = strcmp(finding, "ok") == 0;
  for (enum pz_part part = 0; part < PZ_PARTS && intact; part++) {
    uint64_t stored;
    bool found = read_digest(call, db, part, &stored);
    intact = pz_digest_part(call, db, part) == stored && found;
    if (!intact)
      snprintf(finding, sizeof finding, "another digest than recorded: %s", pz_part_names[part]);
  }
  if (!intact)
    pz_raise_at(call, PZ_BAD_INPUT, db->path, 0, 0,
                "%s: the file is damaged: %s; accepted: a copy of it from before, or --fresh",
                db->path, finding);
}
