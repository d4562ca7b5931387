/* The digest of a saved search: finds what changed by chance or by hand; no signature. */
#ifndef PZ_BOX_RUN_DIGEST_H
#define PZ_BOX_RUN_DIGEST_H

#include "core/json.h"

enum { PZ_RUN_DIGEST_TEXT = 17 };

/* Of result.json, whose own "digest" does not count, and the text of boxes.csv, in hexadecimal digits. */
PZ_NODISCARD enum pz_status pz_run_digest(const json_t *result, const char *boxes,
                                          char out[PZ_RUN_DIGEST_TEXT], struct pz_error *err);

/* PZ_BAD_INPUT where they are not what the search wrote: the digest in result.json is another.  `dir`: for the message. */
PZ_NODISCARD enum pz_status pz_run_digest_check(const char *dir, const json_t *result,
                                                const char *boxes, struct pz_error *err);

#endif
