/* The cost breakdown of a chip as text and JSON, compared with known dies, and the constants behind it. */
#ifndef PZ_CLI_CHIP_BILL_H
#define PZ_CLI_CHIP_BILL_H

#include "chip/chip.h"
#include "core/call.h"
#include "core/json.h"

/* Returns what is known of the dies of a preset and the errors of the breakdown, a new reference, or NULL if nothing is
 * known. */
json_t *pz_bill_known(struct pz_call *call, const char *chip, const struct pz_chip *c);

/* Prints the breakdown of area, power, production cost and edge.  `chip` is the name of a preset or a path. */
void pz_bill_show(struct pz_call *call, const char *chip, const struct pz_chip *c);

/* Prints area and power of every preset with known dies, computed and known, and the mean errors.  Presets with the same
 * die count once in the mean error of the area. */
void pz_bill_show_dies(struct pz_call *call, bool as_json);

/* Prints the constants of silicon.def, and those of chip/cold.def: the efficiency of programs on unmeasured chips. */
void pz_bill_show_constants(struct pz_call *call, bool as_json);

#endif
