/* The tables of a run file: creating and recognising them. */
#ifndef PZ_STORE_SCHEMA_H
#define PZ_STORE_SCHEMA_H

#include "store/db.h"

/* Make the tables in an empty database.  Then all is in the file: pz_schema_log may follow. */
PZ_NODISCARD enum pz_status pz_schema_make(const struct pz_db *db, const char *inputs,
                                           struct pz_error *err);

/* Is it a run file with exactly these tables?  So no views, triggers or virtual tables of other
 * hands are ever run.  `advice` ends the message. */
PZ_NODISCARD enum pz_status pz_schema_check(const struct pz_db *db, const char *advice,
                                            struct pz_error *err);

/* Write with a log: readers and the writer do not wait for each other, and a commit survives the
 * process.  PZ_IO where the file system cannot. */
PZ_NODISCARD enum pz_status pz_schema_log(const struct pz_db *db, struct pz_error *err);

#endif
