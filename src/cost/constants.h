/* Constants of the model of a training run, one table: constants.def. */
#ifndef PZ_COST_CONSTANTS_H
#define PZ_COST_CONSTANTS_H

#include <stddef.h>

struct pz_constants {
#define CONSTANT(name, value, unit, kind, source) double name;
#include "cost/constants.def"
#undef CONSTANT
};

extern const struct pz_constants pz_constants_default;

/* A row of the table, and where it stands in struct pz_constants. */
struct pz_constant_info {
  const char *name, *unit, *kind, *source;
  size_t offset;
};

/* NULL behind the last. */
const struct pz_constant_info *pz_constant_at(size_t i);

#endif
