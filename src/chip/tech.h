/* Technology libraries: area, energy and price of chip components.  Every constant of 16 nm and below
 * is in silicon.def with its unit, range and source; those of the original library are in tech.c. */
#ifndef PZ_CHIP_TECH_H
#define PZ_CHIP_TECH_H

#include <phaze/phaze.h>

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
