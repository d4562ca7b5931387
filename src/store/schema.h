/* The tables of a run file: creating and recognising them. */
#ifndef PZ_STORE_SCHEMA_H
#define PZ_STORE_SCHEMA_H

#include "store/db.h"

/* Creates the tables in an empty database, in one transaction. */
void pz_schema_make(struct pz_call *call, struct pz_db *db, const char *inputs);

/* Checks that the database is a run file with exactly these tables, so that no foreign view,
 * trigger or virtual table is ever executed.  `advice` ends the error message. */
void pz_schema_check(struct pz_call *call, const struct pz_db *db, const char *advice);

/* Switches to the write-ahead log: readers and the writer do not wait for each other, and a commit
 * survives the process. Raises PZ_IO where the file system does not support it. */
void pz_schema_log(struct pz_call *call, const struct pz_db *db);

#endif
