/* Times of products on many chips that nobody has measured.  Of the relaxation: what a product takes on the cores, in
 * cycles, and at the memory, kept apart, since each depends on few of a chip's numbers (mapper.h: pz_map_sweep).  Of
 * chips with nested mappings: the mapping.  For one thread; what is kept is forgotten when it grows large, and is the
 * same whatever was asked before.  A table that threads and ranks share holds nested mappings, the dearest, too. */
#ifndef PZ_COST_PRODUCT_TIMES_H
#define PZ_COST_PRODUCT_TIMES_H

#include "chip/chip.h"
#include "core/shared_table.h"

struct pz_product_times;

/* `shared`: borrowed, or NULL. */
PZ_NODISCARD enum pz_status pz_product_times_new(const struct pz_shared_table *shared,
                                                 struct pz_product_times **out,
                                                 struct pz_error *err);
void pz_product_times_free(struct pz_product_times *t); /* accepts NULL */

/* Chips with rules.nested_mapping: as pz_map_product.  Others: latency and its parts; of cores, compute_s is all of it
 * and local_s and glb_s are 0.  No energy and no tiles.  The chip must have no calibration but what its class reaches (chip/cold.def).  Errors as pz_map_product. */
PZ_NODISCARD enum pz_status pz_product_times_get(struct pz_product_times *t,
                                                 const struct pz_product *p,
                                                 const struct pz_chip *c, struct pz_mapping *out,
                                                 struct pz_error *err);

/* Of the relaxation: seconds on the cores.  Not kept. */
PZ_NODISCARD enum pz_status pz_product_core_s(const struct pz_product *p, const struct pz_chip *c,
                                              double *out, struct pz_error *err);

/* The least bytes that any tile in the chip's global buffer moves to and from HBM, by the relaxation. */
PZ_NODISCARD enum pz_status pz_product_times_hbm_bytes(struct pz_product_times *t,
                                                       const struct pz_product *p,
                                                       const struct pz_chip *c, double *out,
                                                       struct pz_error *err);

#endif
