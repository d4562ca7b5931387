/* The bill of a chip, printed and as JSON; the known dies beside it; the constants behind it. */
#ifndef PZ_CLI_CHIP_BILL_H
#define PZ_CLI_CHIP_BILL_H

#include "chip/chip.h"
#include "core/json.h"

/* What is known of the preset's dies, with the bill's errors; NULL where nothing is. */
PZ_NODISCARD enum pz_status pz_bill_known_json(const char *chip, const struct pz_chip *c,
                                               json_t **out, struct pz_error *err);

PZ_NODISCARD enum pz_status pz_bill_print(const char *chip, const struct pz_chip *c,
                                          struct pz_error *err);

/* Every preset of a known die: area and watts by the bill and as known, errors, their means; by die
 * for areas, so that presets of one die count once. */
PZ_NODISCARD enum pz_status pz_bill_print_dies(bool as_json, struct pz_error *err);

/* silicon.def, and chip/cold.def: what programs reach on chips that nobody measured. */
PZ_NODISCARD enum pz_status pz_bill_print_constants(bool as_json, struct pz_error *err);

#endif
