#include "cost/constants.h"

const struct pz_constants pz_constants_default = {
#define CONSTANT(name, value, unit, kind, source) .name = (value),
#include "cost/constants.def"
#undef CONSTANT
};

static const struct pz_constant_info table[] = {
#define CONSTANT(name, value, unit, kind, source)                                                  \
  {#name, unit, kind, source, offsetof(struct pz_constants, name)},
#include "cost/constants.def"
#undef CONSTANT
};

const struct pz_constant_info *pz_constant_at(size_t i) {
  return i < sizeof table / sizeof *table ? &table[i] : NULL;
}
