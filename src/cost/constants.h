/* The constants of the model of a training run; constants.def is their table. */
#ifndef PZ_COST_CONSTANTS_H
#define PZ_COST_CONSTANTS_H

#include <stddef.h>

#include "chip/chip.h"

struct pz_constants {
#define CONSTANT(name, value, unit, kind, source) double name;
#include "cost/constants.def"
};

extern const struct pz_constants pz_constants_default;

/* Returns the bytes of HBM that the allocator of a process cannot use: on a GPU those of the CUDA
 * context and of the buffers of collectives, on other chips those of the runtime. */
double pz_reserved_bytes(const struct pz_chip *chip, const struct pz_constants *constants);

/* Returns the bytes of HBM that the allocator of a process can reserve, including gaps between
 * blocks.  All checks of whether a plan fits use this function. */
double pz_usable_bytes(const struct pz_chip *chip, const struct pz_constants *constants);

/* Returns the bytes of the host's memory that offloaded state of one device may fill. */
double pz_usable_host_bytes(const struct pz_chip *chip, const struct pz_constants *constants);

/* A row of the table, and the offset of its value in struct pz_constants. */
struct pz_constant_info {
  const char *name, *unit, *kind, *source;
  size_t offset;
};

/* Returns row i of the table, or NULL after the last. */
const struct pz_constant_info *pz_constant_at(size_t i);

#endif
