/* A cache of the times of GEMMs on many unmeasured chips, for searches over chips.
 *
 * For chips whose mappings are the relaxation of mapper.h, the time of a GEMM on the cores (in
 * cycles) and at the memory are cached separately, because each depends on few of a chip's numbers
 * (pz_sweep_mappings).  For chips with nested mappings the whole mapping is cached, also in a table
 * that threads and ranks share.  A large cache is emptied, with the same results.  For one
 * thread. */
#ifndef PZ_COST_PRODUCT_TIMES_H
#define PZ_COST_PRODUCT_TIMES_H

#include "chip/chip.h"
#include "core/shared_table.h"

struct pz_product_times;

/* Creates an object that the caller frees.  `shared` is borrowed and may be NULL. */
struct pz_product_times *pz_product_times_new(struct pz_call *call,
                                              const struct pz_shared_table *shared);
void pz_product_times_free(struct pz_product_times *times); /* accepts NULL */

/* Returns the mapping of a GEMM.  On chips with rules.nested_mapping it is that of
 * pz_find_mapping().  On others it has latency and times but no energy and no tiles, and compute_s
 * is the time of the cores with their buffers.  The chip must have no calibration except what its
 * class reaches (chip/cold.def).  Raises the errors of pz_find_mapping(). */
struct pz_mapping pz_product_times_mapping(struct pz_call *call, struct pz_product_times *times,
                                           const struct pz_product *product,
                                           const struct pz_chip *chip);

/* Returns the seconds of a GEMM on the cores in the relaxation, without a cache. */
double pz_product_core_s(struct pz_call *call, const struct pz_product *product,
                         const struct pz_chip *chip);

/* Returns the least HBM traffic of a GEMM with any tile in the global buffer, in the relaxation. */
double pz_product_times_hbm_bytes(struct pz_call *call, struct pz_product_times *times,
                                  const struct pz_product *product, const struct pz_chip *chip);

#endif
