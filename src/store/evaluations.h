/* The table of evaluations: a row is a pz_entry. */
#ifndef PZ_STORE_EVALUATIONS_H
#define PZ_STORE_EVALUATIONS_H

#include "search/search.h"
#include "store/db.h"

/* As many as placement has layers. */
enum { PZ_RUN_MOST_STAGES = 1024 };

extern const char pz_evaluations_insert[], pz_evaluations_select[];

/* Write one with the statement prepared from pz_evaluations_insert; one with the same key is
 * replaced. */
PZ_NODISCARD enum pz_status pz_evaluations_write(const struct pz_db *db, sqlite3_stmt *insert,
                                                 const struct pz_entry *entry,
                                                 struct pz_error *err);

/* The row the statement prepared from pz_evaluations_select is at; its plan lies in `layers`.
 * PZ_BAD_INPUT with row and column for what no evaluation can be. */
PZ_NODISCARD enum pz_status pz_evaluations_read(const struct pz_db *db, sqlite3_stmt *select,
                                                uint16_t layers[PZ_RUN_MOST_STAGES],
                                                struct pz_entry *out, struct pz_error *err);

/* Refuse that row. */
enum pz_status pz_evaluations_refuse(const struct pz_db *db, sqlite3_stmt *select, const char *why,
                                     struct pz_error *err);

#endif
