/* A chip description as one plain struct without pointers, and the network between chips, read from and
 * written to JSON.  Knows nothing of models or latencies. */
#ifndef PZ_CHIP_CHIP_H
#define PZ_CHIP_CHIP_H

#include "core/fields.h"

/* What streams through a buffer stands there in slices of this many values, or of the array's rows
 * if those are fewer. */
enum { PZ_CHIP_SLICE = 32 };

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
void pz_chip_describe(struct pz_chip *c);
PZ_NODISCARD enum pz_status pz_chip_load_described(const char *chip, struct pz_chip *out,
                                                   struct pz_error *err);

/* Bytes that a multiply-accumulate of a large product takes from the buffer of its core. */
double pz_chip_local_bytes_per_mac(const struct pz_chip *c);

/* How much more power than at its node's sustained clock switching takes. */
double pz_chip_held_part(const struct pz_chip *c);

/* pz_chip_peak_watts of a chip whose breakdown is known. */
double pz_bill_peak_watts(const struct pz_chip *c, const struct pz_bill *b);

/* How this kind of vector operator was measured, or NULL. */
const struct pz_kernel *pz_chip_kernel(const struct pz_chip *c, const char *kind);

/* ---- chips and networks as JSON ----------------------------------------------------------------- */

/* The description as JSON, readable by pz_chip_parse.  New reference, the caller's. */
json_t *pz_chip_json(const struct pz_chip *c);

/* Is every field of a description that a program made or changed in the range that pz_chip_parse
 * and pz_cluster_parse accept?  PZ_BAD_USE for NULL, PZ_BAD_INPUT for a field. */
PZ_NODISCARD enum pz_status pz_chip_check(const struct pz_chip *c, struct pz_error *err);

/* In the layout that pz_cluster_parse reads; the reference is the caller's. */
json_t *pz_cluster_json(const struct pz_cluster *c);

/* ---- the network between chips: levels from the chip outward, each joining groups of the one before --- */

/* The innermost level that joins so many devices, or the outermost where none does; NULL where the
 * network has no levels. */
const struct pz_level *pz_cluster_level(const struct pz_cluster *net, int64_t devices);

/* Of a cluster that a program passes: PZ_BAD_INPUT says what cannot be. */
PZ_NODISCARD enum pz_status pz_cluster_check(const struct pz_cluster *c, struct pz_error *err);

/* The network that a caller gave, checked and with at least so many devices: a copy in *wide, which *out points to; NULL
 * for none. */
PZ_NODISCARD enum pz_status pz_cluster_take(const struct pz_cluster *net, int64_t devices,
                                            struct pz_cluster *wide, const struct pz_cluster **out,
                                            struct pz_error *err);

/* ---- chips of a design space that are made from a base chip ------------------------------------- */

struct pz_chip_size {
  int64_t tensor_cores, rows, cols, vector_cores, lanes, glb_bytes;
};

/* The base with other numbers of cores, array, lanes and global buffer.  A core's buffer grows with its units, as many
 * bytes each as in the base; that of a tensor core holds a tile at least.  What a data sheet says of the base's power does
 * not hold for it. */
void pz_chip_resize(const struct pz_chip *base, const struct pz_chip_size *size,
                    struct pz_chip *out);

/* Field "base" of a space.json: a chip's name or file, or the chip itself; absent: `usual`. */
void pz_chip_read_base(struct pz_fields *f, const char *usual, struct pz_chip *base);

/* ---- the measured part of a description --------------------------------------------------------- */

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

/* ---- technology libraries: area, energy and price of chip components ---------------------------- */

/* Every constant of 16 nm and below is in silicon.def with its unit, range and source; those of the original
 * library are in tech.c. */

/* As a pz_name_at: NULL after the last. */
const char *pz_tech_name_at(const void *ctx, size_t i);

/* Area of a buffer: of a core, or the global one, um2. */
double pz_tech_local_um2(const struct pz_tech_info *t, int64_t bytes);
double pz_tech_glb_um2(const struct pz_tech_info *t, int64_t bytes);

/* Is it one of the original system's libraries, which have no static power and not every block? */
bool pz_tech_is_library(const struct pz_tech_info *t);

/* The technology with the constants at one end of their ranges. */
struct pz_tech_info pz_tech_range(enum pz_tech tech, enum pz_bill_range range);

/* Square of the voltage at a clock, over that at the sustained clock. */
double pz_tech_voltage2(const struct pz_tech_info *t, double clock_hz);

/* A good die of this size, $. */
double pz_tech_die_dollars(const struct pz_tech_info *t, double mm2);

#endif
