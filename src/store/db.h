/* SQLite wrapper: opening in one of four ways, errors that name the file, and statements that write
 * or return rows.  Knows no tables. */
#ifndef PZ_STORE_DB_H
#define PZ_STORE_DB_H

#include <sqlite3.h>

#include "core/status.h"

enum { PZ_DB_LONGEST_PATH = 4096 };

enum pz_db_mode {
  PZ_DB_FROZEN, /* reads; nobody writes meanwhile: takes no locks and leaves no trace */
  PZ_DB_READ,   /* reads beside a writer, or what a killed writer left; may leave a -shm file */
  PZ_DB_WRITE,
  PZ_DB_CREATE
};

struct pz_db {
  sqlite3 *conn;
  char path[PZ_DB_LONGEST_PATH];
};

/* Open `path`, or leave *db closed.  What the file holds is not looked at before the first
 * statement.  Its schema is not trusted: no functions with side effects, no writes to internals. */
PZ_NODISCARD enum pz_status pz_db_open(struct pz_db *db, const char *path, enum pz_db_mode mode,
                                       struct pz_error *err);
/* Accepts one that is closed. */
void pz_db_close(struct pz_db *db);

/* The error SQLite reports last, as "PATH: cannot VERB: ...". */
enum pz_status pz_db_fail(const struct pz_db *db, const char *verb, struct pz_error *err);

/* Statements without results. */
PZ_NODISCARD enum pz_status pz_db_exec(const struct pz_db *db, const char *sql,
                                       struct pz_error *err);

/* On success *out is the caller's, for sqlite3_finalize. */
PZ_NODISCARD enum pz_status pz_db_prepare(const struct pz_db *db, const char *sql,
                                          sqlite3_stmt **out, struct pz_error *err);

/* Run a statement that gives no rows, and make it ready for the next. */
PZ_NODISCARD enum pz_status pz_db_write(const struct pz_db *db, sqlite3_stmt *stmt,
                                        struct pz_error *err);

/* Go to the next row; *row is false after the last. */
PZ_NODISCARD enum pz_status pz_db_next(const struct pz_db *db, sqlite3_stmt *stmt, bool *row,
                                       struct pz_error *err);

/* The one number a query gives; 0 when it gives none. */
PZ_NODISCARD enum pz_status pz_db_number(const struct pz_db *db, const char *sql, int64_t *out,
                                         struct pz_error *err);

/* A transaction is open. */
bool pz_db_within(const struct pz_db *db);

/* Begin, unless within one; commit, if within one; drop, if within one. */
PZ_NODISCARD enum pz_status pz_db_begin(const struct pz_db *db, struct pz_error *err);
PZ_NODISCARD enum pz_status pz_db_commit(const struct pz_db *db, struct pz_error *err);
void pz_db_drop(const struct pz_db *db);

#endif
