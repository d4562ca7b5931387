/* Technology libraries: area and energy of chip components.  Every constant is in the table in
 * tech.c with its unit and source. */
#ifndef PZ_CHIP_TECH_H
#define PZ_CHIP_TECH_H

#include <phaze/phaze.h>

/* As a pz_name_at: NULL after the last. */
const char *pz_tech_name_at(const void *ctx, size_t i);

/* Area of a buffer: of a core, or the global one, um2. */
double pz_tech_local_um2(const struct pz_tech_info *t, int64_t bytes);
double pz_tech_glb_um2(const struct pz_tech_info *t, int64_t bytes);

#endif
