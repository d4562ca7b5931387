/* The network between chips: levels from the chip outward, each joining groups of the one before.
 */
#ifndef PZ_CHIP_CLUSTER_H
#define PZ_CHIP_CLUSTER_H

#include "core/json.h"

/* The innermost level that joins so many devices, or the outermost where none does; NULL where the
 * network has no levels. */
const struct pz_level *pz_cluster_level(const struct pz_cluster *net, int64_t devices);

#endif
