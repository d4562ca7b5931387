/* Chips that nobody measured ("cold"): what programs reach of a data sheet, by class of machine.  The same constants for
 * every chip of a class; watts decide about the clock (cost/power.h). */
#ifndef PZ_CHIP_COLD_H
#define PZ_CHIP_COLD_H

#include "chip/chip.h"

/* Every constant is in cold.def, with its range and source. */
enum pz_cold_constant {
#define COLD(name, value, low, high, kind, source) PZ_COLD_##name,
#include "chip/cold.def"
  PZ_COLD_CONSTANTS
};

struct pz_cold {
  double v[PZ_COLD_CONSTANTS];
};

struct pz_cold pz_cold_usual(void);

/* A description without measurements: what its class reaches.  `k` NULL: as usual.
 * PZ_NO_MEMORY, for chips that launch kernels. */
PZ_NODISCARD enum pz_status pz_chip_set_class(struct pz_chip *c, const struct pz_cold *k,
                                              struct pz_error *err);

/* The chip by its data sheet: nothing that was measured on it stays, what its class reaches comes in its place. */
PZ_NODISCARD enum pz_status pz_chip_make_cold(struct pz_chip *c, const struct pz_cold *k,
                                              struct pz_error *err);

#endif
