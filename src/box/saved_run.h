/* A saved search in a space of ranges, read again: what was asked, the result and the best chip. */
#ifndef PZ_BOX_SAVED_RUN_H
#define PZ_BOX_SAVED_RUN_H

#include "box/certificate.h"

/* To be released whatever comes back. */
struct pz_box_run {
  struct pz_arena arena;
  json_t *result;
  struct pz_box_inputs *in;
  struct pz_box best; /* of one chip */
  struct pz_chip best_chip;
};

/* PZ_BAD_INPUT also where its files are not those that the search wrote (box/run_digest.h). */
PZ_NODISCARD enum pz_status pz_box_run_read(const char *dir, struct pz_box_run *out,
                                            struct pz_error *err);
void pz_box_run_release(struct pz_box_run *r);

/* Where a chip stands in a space; PZ_BAD_INPUT where it is none of it. */
PZ_NODISCARD enum pz_status pz_range_find(const struct pz_range_space *s, const struct pz_chip *c,
                                          struct pz_box *out, struct pz_error *err);

#endif
