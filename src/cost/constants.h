/* Constants of the model of a training run, one table: constants.def. */
#ifndef PZ_COST_CONSTANTS_H
#define PZ_COST_CONSTANTS_H

#include <stddef.h>

#include "chip/chip.h"

struct pz_constants {
#define CONSTANT(name, value, unit, kind, source) double name;
#include "cost/constants.def"
};

extern const struct pz_constants pz_constants_default;

/* The one rule for what a device offers: the bytes that the allocator of a process can reserve, which are the HBM less the
 * CUDA context and the buffers of collectives, and the HBM with which it can reserve so many.  Gaps between blocks are part of
 * what a plan reserves (pz_plan_reserved in step/training_memory.h). */
double pz_usable_bytes(const struct pz_chip *chip, const struct pz_constants *k);
double pz_hbm_needed(const struct pz_chip *chip, const struct pz_constants *k, double bytes);

/* Of these, what lies beside the allocator: context and collectives' buffers. */
double pz_reserved_bytes(const struct pz_chip *chip, const struct pz_constants *k);

/* The same of the host's memory: bytes for each device that activations and optimizer state may fill there. */
double pz_usable_host_bytes(const struct pz_chip *chip, const struct pz_constants *k);

/* A row of the table, and where it stands in struct pz_constants. */
struct pz_constant_info {
  const char *name, *unit, *kind, *source;
  size_t offset;
};

/* NULL behind the last. */
const struct pz_constant_info *pz_constant_at(size_t i);

#endif
