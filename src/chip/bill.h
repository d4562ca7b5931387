/* What a chip costs to build and to run: area and power, from its description and its technology. */
#ifndef PZ_CHIP_BILL_H
#define PZ_CHIP_BILL_H

#include "chip/chip.h"

/* Area by component, um2. */
struct pz_area {
  double tensor_um2, tensor_local_um2, vector_um2, vector_local_um2, glb_um2, hbm_um2;
};

struct pz_area pz_chip_area(const struct pz_chip *c);
double pz_area_total_um2(const struct pz_area *a);

/* Power at full speed of everything at once: the most the description can draw, W. */
double pz_chip_peak_watts(const struct pz_chip *c);

#endif
