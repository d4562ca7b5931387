/* Technology libraries: area and energy of chip components.  Every constant is in the table in
 * tech.c with its unit and source. */
#ifndef PZ_CHIP_TECH_H
#define PZ_CHIP_TECH_H

#include <phaze/phaze.h>

struct pz_tech_info {
  const char *name;
  double mac_um2, lane_um2; /* one multiplier of an array, one vector lane, with their registers */
  double sram_um2_per_byte; /* 0: from the 22 nm library's tables of macros */
  double hbm_phy_um2;       /* interface and controller of one stack */
  double mac_j, lane_j;     /* one multiply-accumulate (16 bit, 32-bit sum), one vector operation */
  double local_j, glb_j, hbm_j, link_j; /* one byte moved */
};

const struct pz_tech_info *pz_tech_at(enum pz_tech tech);

/* As a pz_name_at: NULL after the last. */
const char *pz_tech_name_at(const void *ctx, size_t i);

/* Area of a buffer: of a core, or the global one, um2. */
double pz_tech_local_um2(const struct pz_tech_info *t, int64_t bytes);
double pz_tech_glb_um2(const struct pz_tech_info *t, int64_t bytes);

#endif
