/* Digests of the parts of a run file.  They show that a part was changed by anything but this
 * program, such as a failing disk, before an answer is made from it.  They are not signatures:
 * whoever changes a part on purpose can change its digest, too; 'phaze verify' detects that.
 *
 * The digest of a part is the sum, modulo 2^64, of the hashes of its rows.  When a row is added,
 * the digest is updated without reading the other rows. */
#ifndef PZ_STORE_DIGEST_H
#define PZ_STORE_DIGEST_H

#include "store/db.h"

enum pz_part {
  PZ_PART_INPUTS,
  PZ_PART_RESULT,
  PZ_PART_COMPARISON,
  PZ_PART_DETAIL,
  PZ_PART_ROUNDS,
  PZ_PART_BOXES,
  PZ_PART_EVALUATIONS,
  PZ_PART_TIMINGS,
  PZ_PARTS
};
extern const char *const pz_part_names[PZ_PARTS];

/* Returns the sum of the hashes of the rows that a statement returns, and resets the statement. */
uint64_t pz_digest_rows(struct pz_call *call, const struct pz_db *db, sqlite3_stmt *stmt);

/* Returns the digest of a part, computed from its rows. */
uint64_t pz_digest_part(struct pz_call *call, const struct pz_db *db, enum pz_part part);

/* Stores the digest of a part after its rows were changed, or adds the digest of new rows to it.
 * Both are called in the transaction that changes the rows. */
void pz_digest_store(struct pz_call *call, const struct pz_db *db, enum pz_part part);
void pz_digest_add(struct pz_call *call, const struct pz_db *db, enum pz_part part, uint64_t sum);

/* Checks the file with SQLite's own test and every part against its digest.  Raises PZ_BAD_INPUT
 * for the first part that differs. */
void pz_digest_check(struct pz_call *call, const struct pz_db *db);

#endif
