/* phaze chip --power: predicted watts, clock and joules beside measured ones. */
#ifndef PZ_CLI_CHIP_POWER_H
#define PZ_CLI_CHIP_POWER_H

#include "core/json.h"

PZ_NODISCARD enum pz_status pz_chip_power_print(const struct pz_chip *c, const char *path,
                                                bool as_json, struct pz_error *err);

#endif
