/* The tables of a run file.  A file is one of ours if it has our application id, this version, and
 * exactly the statements of `tables` as its schema: pz_schema_make() writes them, and
 * pz_schema_check() compares them. */
#include "store/schema.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/digest.h"

/* The application id spells "phaz" in ASCII.  Every change of a table needs a new version. */
#define APPLICATION "1885888890"
#define VERSION "6"

/* Sorted by name.  STRICT tables reject values of another type than the column's. */
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

void pz_schema_make(struct pz_call *call, struct pz_db *db, const char *inputs) {
  pz_db_begin(call, db);
  pz_db_exec(call, db, "PRAGMA application_id = " APPLICATION "; PRAGMA user_version = " VERSION);
  for (int i = 0; i < N_TABLES; i++) pz_db_exec(call, db, tables[i].sql);
  sqlite3_stmt *stmt = pz_db_prepare(call, db, "INSERT INTO run(one, inputs) VALUES(1, ?)");
  sqlite3_bind_text(stmt, 1, inputs, -1, SQLITE_STATIC);
  pz_db_write(call, db, stmt);
  pz_close(call, stmt);
  for (enum pz_part part = 0; part < PZ_PARTS; part++) pz_digest_store(call, db, part);
  pz_db_commit(call, db);
}

/* Turns the write-ahead log on.  The pragma returns the mode that is then in effect, which is another
 * one if the log is impossible. */
void pz_schema_log(struct pz_call *call, const struct pz_db *db) {
  sqlite3_stmt *stmt = pz_db_prepare(call, db, "PRAGMA journal_mode = WAL");
  bool row = pz_db_next(call, db, stmt);
  const unsigned char *mode = row ? sqlite3_column_text(stmt, 0) : NULL;
  bool is_on = mode && strcmp((const char *)mode, "wal") == 0;
  pz_close(call, stmt);
  if (!is_on)
    pz_raise(
        call, PZ_IO,
        "%s: SQLite's write-ahead log does not work on this file system; accepted: a local one",
        db->path);
}

/* Two numbers in the header of a database, which SQLite leaves to applications. */
struct file_header {
  const struct pz_db *db;
  int64_t application, version;
};

/* Reads the two numbers of a struct file_header within a border. */
static void read_header(struct pz_call *call, void *ctx) {
  struct file_header *header = ctx;
  header->application = pz_db_number(call, header->db, "PRAGMA application_id");
  header->version = pz_db_number(call, header->db, "PRAGMA user_version");
}

/* Raises PZ_BAD_INPUT, with a message that ends with `advice`, unless the database is a run file of
 * this version: its header has our two numbers, and its tables were made by our statements. */
void pz_schema_check(struct pz_call *call, const struct pz_db *db, const char *advice) {
  struct file_header header = {.db = db};
  struct pz_error error = {0};
  char version[120];
  const char *reason = NULL;
  enum pz_status status = pz_border(read_header, &header, &error);
  if (status != PZ_OK && status != PZ_BAD_INPUT) pz_raise_again(call, &error);
  if (status == PZ_BAD_INPUT || header.application != atoll(APPLICATION)) {
    reason = "is not a phaze run file"; /* as is any file that SQLite cannot read */
  } else if (header.version != atoll(VERSION)) {
    snprintf(version, sizeof version,
             "is a run file of version %" PRId64 ", and this phaze writes version " VERSION,
             header.version);
    reason = version;
  } else {
    bool same = true;
    int n = 0;
    sqlite3_stmt *stmt =
        pz_db_prepare(call, db, "SELECT name, sql FROM sqlite_schema ORDER BY name");
    while (same && pz_db_next(call, db, stmt)) {
      const char *name = (const char *)sqlite3_column_text(stmt, 0);
      const char *sql = (const char *)sqlite3_column_text(stmt, 1);
      same = n < N_TABLES && name && sql && strcmp(name, tables[n].name) == 0 &&
             strcmp(sql, tables[n].sql) == 0;
      n++;
    }
    pz_close(call, stmt);
    if (!same || n != N_TABLES) reason = "its tables are not those of a phaze run file";
  }
  if (reason) pz_raise_at(call, PZ_BAD_INPUT, db->path, 0, 0, "%s: %s%s", db->path, reason, advice);
}
