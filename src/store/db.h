/* SQLite for run files: opening a database in one of four modes, statements, transactions, and
 * errors that name the file.  Knows no tables.
 *
 * Statements and transactions belong to the call: what pz_db_prepare() and pz_db_begin() open is
 * finalized or rolled back when the call ends with an error. */
#ifndef PZ_STORE_DB_H
#define PZ_STORE_DB_H

#include <sqlite3.h>

#include "core/call.h"

enum { PZ_DB_LONGEST_PATH = 4096 };

enum pz_db_mode {
  PZ_DB_FROZEN, /* for reading a file that nobody writes: uses no locks and creates no files */
  PZ_DB_READ,   /* for reading beside a writer, or after a killed one; may create a -shm file */
  PZ_DB_WRITE,
  PZ_DB_CREATE
};

struct pz_db {
  sqlite3 *conn; /* NULL if the database is closed */
  char path[PZ_DB_LONGEST_PATH];
};

/* Opens `path`.  The content is not read before the first statement.  The schema of the file is not
 * trusted: it can neither call functions with side effects nor write to internal tables.  The
 * caller closes *db with pz_db_close(), also when an error was raised. */
void pz_db_open(struct pz_call *call, struct pz_db *db, const char *path, enum pz_db_mode mode);

/* Closes a database that is open. */
void pz_db_close(void *db);

/* Returns a database that is closed when the call ends, or with pz_close(). */
struct pz_db *pz_db_open_in_call(struct pz_call *call, const char *path, enum pz_db_mode mode);

/* Raises SQLite's latest error as "PATH: cannot VERB: ...". */
_Noreturn void pz_db_raise(struct pz_call *call, const struct pz_db *db, const char *verb);

/* Executes statements without results. */
void pz_db_exec(struct pz_call *call, const struct pz_db *db, const char *sql);

/* Returns a statement that is finalized when the call ends, or with pz_close(). */
sqlite3_stmt *pz_db_prepare(struct pz_call *call, const struct pz_db *db, const char *sql);

/* Executes a statement that returns no rows, and resets it for the next use. */
void pz_db_write(struct pz_call *call, const struct pz_db *db, sqlite3_stmt *stmt);

/* Steps to the next row.  Returns false after the last one. */
bool pz_db_next(struct pz_call *call, const struct pz_db *db, sqlite3_stmt *stmt);

/* Returns the one number that a query returns, or 0 if it returns no row. */
int64_t pz_db_number(struct pz_call *call, const struct pz_db *db, const char *sql);

/* Begin and commit a transaction, which is rolled back if the call ends before the commit. */
void pz_db_begin(struct pz_call *call, struct pz_db *db);
void pz_db_commit(struct pz_call *call, struct pz_db *db);

#endif
