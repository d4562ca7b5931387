/* The network between chips: levels from the chip outward, each joining groups of the one before.
 */
#ifndef PZ_CHIP_CLUSTER_H
#define PZ_CHIP_CLUSTER_H

#include "core/json.h"

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

#endif
