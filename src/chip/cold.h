/* Unmeasured ("cold") chips: the fraction of a data sheet that programs achieve, by class of
 * machine.  The constants are the same for every chip of a class.  The clock follows from the power
 * limit (cost/power.h). */
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
  double v[PZ_COLD_CONSTANTS]; /* value of each enum pz_cold_constant */
};

/* Returns the likely values of cold.def. */
struct pz_cold pz_cold_usual(void);

/* Sets the calibration of a chip to that of its class.  NULL constants are those of cold.def. */
void pz_chip_set_class(struct pz_call *call, struct pz_chip *chip, const struct pz_cold *constants);

/* Like pz_chip_set_class(), without a call: returns false if the measured GPU, which each thread
 * reads once, cannot be read for lack of memory. */
bool pz_chip_try_class(struct pz_chip *chip, const struct pz_cold *constants);

/* Replaces everything that was measured on a chip by what its class achieves. */
void pz_chip_make_cold(struct pz_call *call, struct pz_chip *chip, const struct pz_cold *constants);

#endif
