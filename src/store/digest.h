/* Digests of the parts of a run file: a part that was changed by anything but this program, such as
 * a failing disk, is found before an answer is made of it.  They are no signature: who changes a
 * part on purpose can change its digest too, and 'phaze verify' is what finds that.
 *
 * The digest of a part is the sum, modulo 2^64, of the hashes of its rows, so that it follows a
 * row that is written or removed without the others being read. */
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

/* Sum of the hashes of the rows that a statement gives; it is reset. */
PZ_NODISCARD enum pz_status pz_digest_rows(const struct pz_db *db, sqlite3_stmt *stmt,
                                           uint64_t *sum, struct pz_error *err);

/* Set the digest of a part from all of its rows, or add to it: in the transaction that changes
 * them. */
PZ_NODISCARD enum pz_status pz_digest_store(const struct pz_db *db, enum pz_part part,
                                            struct pz_error *err);
PZ_NODISCARD enum pz_status pz_digest_add(const struct pz_db *db, enum pz_part part, uint64_t sum,
                                          struct pz_error *err);

/* That of a part as its rows are. */
PZ_NODISCARD enum pz_status pz_digest_part(const struct pz_db *db, enum pz_part part, uint64_t *sum,
                                           struct pz_error *err);
extern const char *const pz_part_names[PZ_PARTS];

/* Does SQLite find its file whole, and is every part what its digest says?  PZ_BAD_INPUT names the
 * first that is not. */
PZ_NODISCARD enum pz_status pz_digest_check(const struct pz_db *db, struct pz_error *err);

#endif
