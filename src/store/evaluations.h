/* The table of evaluations: a row is a pz_entry. */
#ifndef PZ_STORE_EVALUATIONS_H
#define PZ_STORE_EVALUATIONS_H

#include "search/search.h"
#include "store/db.h"

/* As many as placement has layers. */
enum { PZ_RUN_MOST_STAGES = 1024 };

/* Write one; read all by key; the row of one key, whole. */
extern const char pz_evaluations_insert[], pz_evaluations_select[], pz_evaluations_find[];

/* Write one with the statement prepared from pz_evaluations_insert; one with the same key is
 * replaced. */
PZ_NODISCARD enum pz_status pz_evaluations_write(const struct pz_db *db, sqlite3_stmt *insert,
                                                 const struct pz_entry *entry,
                                                 struct pz_error *err);

/* Set the key that the statement prepared from pz_evaluations_find looks for. */
void pz_evaluations_bind_key(sqlite3_stmt *find, const struct pz_entry *entry);

/* The row the statement prepared from pz_evaluations_select is at; its plan lies in `layers`.
 * PZ_BAD_INPUT with row and column for what no evaluation can be. */
PZ_NODISCARD enum pz_status pz_evaluations_read(const struct pz_db *db, sqlite3_stmt *select,
                                                uint16_t layers[PZ_RUN_MOST_STAGES],
                                                struct pz_entry *out, struct pz_error *err);

/* Refuse that row. */
enum pz_status pz_evaluations_refuse(const struct pz_db *db, sqlite3_stmt *select, const char *why,
                                     struct pz_error *err);

#endif
