/* The measured part of a chip description, to and from JSON. */
#ifndef PZ_CHIP_CALIBRATION_H
#define PZ_CHIP_CALIBRATION_H

#include "core/fields.h"

/* One number of a calibration or of one of its kernels: where it stands, its range and what an
 * uncalibrated chip has. */
struct pz_constant {
  const char *key; /* the last word is its name */
  size_t offset;   /* in struct pz_calibration, struct pz_kernel */
  double min, max, absent;
};

const struct pz_constant *pz_calibration_constants(size_t *n);
const struct pz_constant *pz_kernel_constants(size_t *n);

/* A kernel without a name that says nothing. */
struct pz_kernel pz_kernel_none(void);

/* Field "calibration" of a chip.json; absent fields get the values of an uncalibrated chip. */
void pz_calibration_read(struct pz_fields *f, int64_t glb_bytes, struct pz_calibration *c);

/* That of an uncalibrated chip. */
void pz_calibration_none(int64_t glb_bytes, struct pz_calibration *c);

/* Are all its numbers finite, and its lists no longer than they can be?  So that JSON can hold
 * it. */
bool pz_calibration_is_finite(const struct pz_calibration *c);

/* New reference, the caller's. */
json_t *pz_calibration_json(const struct pz_calibration *c);

#endif
