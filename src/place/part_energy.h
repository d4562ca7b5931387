/* Energy of the parts of a step on a chip, beside static power: place/plan_finder.h says what counts. */
#ifndef PZ_PLACE_PART_ENERGY_H
#define PZ_PLACE_PART_ENERGY_H

#include "place/part_rates.h"

/* Of all devices, without recomputation, in the shape where that takes least. */
PZ_NODISCARD enum pz_status pz_part_energy_least_j(struct pz_part_tables *t,
                                                   const struct pz_chip *chip, double voltage2,
                                                   double *joules);

/* Of all devices of a plan; PZ_BAD_USE where the space has no such shape. */
PZ_NODISCARD enum pz_status pz_part_energy_plan_j(struct pz_part_tables *t,
                                                  const struct pz_chip *chip, double voltage2,
                                                  const struct pz_plan *plan, double *joules);

#endif
