/* A chip description as one plain struct without pointers, read from and written to JSON.  Knows
 * nothing of models or latencies. */
#ifndef PZ_CHIP_CHIP_H
#define PZ_CHIP_CHIP_H

#include "chip/calibration.h"
#include "chip/tech.h"
#include "core/json.h"

/* What streams through a buffer stands there in slices of this many values, or of the array's rows
 * if those are fewer. */
enum { PZ_CHIP_SLICE = 32, PZ_CHIP_MOST_BYTES = 1 << 20 };

/* "scheduled", "stream"; NULL behind the last. */
extern const char *const pz_chip_execution_names[];

/* The length below which a dimension longer than the array is not divided: the array's shorter
 * side, or an eighth of it where filling the array takes no time. */
int64_t pz_chip_least_tile(const struct pz_chip *c);

/* The bytes that a tensor core's buffer and the global buffer need for tiles of every product. */
int64_t pz_chip_least_local_bytes(const struct pz_chip *c);
int64_t pz_chip_least_glb_bytes(const struct pz_chip *c);

/* The chip with only so many of its cores (0: all of that class) and what they can draw of HBM and
 * global buffer. */
struct pz_chip pz_chip_part(const struct pz_chip *c, int64_t tensor_cores, int64_t vector_cores);

/* A chip as its data sheet describes it, without what measurements say: to be compared with chips that
 * nobody has built. */
PZ_NODISCARD enum pz_status pz_chip_load_described(const char *chip, struct pz_chip *out,
                                                   struct pz_error *err);

/* Bytes that a multiply-accumulate of a large product takes from the buffer of its core. */
double pz_chip_local_bytes_per_mac(const struct pz_chip *c);

/* Dynamic power of products at the full rate of the arrays, which the mapper finds for chips that nobody has measured; the
 * bill has that of long products as GPUs run them, at 0.8 of it. */
double pz_chip_full_product_watts(const struct pz_chip *c, const struct pz_bill *b);

/* How this kind of vector operator was measured, or NULL. */
const struct pz_kernel *pz_chip_kernel(const struct pz_chip *c, const char *kind);

#endif
