/* The table of the model's constants, and the memory of device and host that a plan may fill. */
#include "cost/constants.h"

#include "core/num.h"

const struct pz_constants pz_constants_default = {
#define CONSTANT(name, value, unit, kind, source) .name = (value),
#include "cost/constants.def"
};

static const struct pz_constant_info table[] = {
#define CONSTANT(name, value, unit, kind, source)                                                  \
  {#name, unit, kind, source, offsetof(struct pz_constants, name)},
#include "cost/constants.def"
};

const struct pz_constant_info *pz_constant_at(size_t i) {
  return i < sizeof table / sizeof *table ? &table[i] : NULL;
}

/* Returns the bytes of HBM that the allocator of a process cannot use. */
double pz_reserved_bytes(const struct pz_chip *chip, const struct pz_constants *constants) {
  bool is_gpu = chip->execution == PZ_CHIP_STREAM;
  return is_gpu ? constants->context_bytes + constants->collective_bytes : constants->runtime_bytes;
}

/* Returns the bytes of HBM that the allocator of a process can reserve. */
double pz_usable_bytes(const struct pz_chip *chip, const struct pz_constants *constants) {
  return pz_fmax(0, (double)pz_chip_hbm_bytes(chip) - pz_reserved_bytes(chip, constants));
}

/* Returns the bytes of host memory that the offloaded state of one device may fill. */
double pz_usable_host_bytes(const struct pz_chip *chip, const struct pz_constants *constants) {
  return constants->host_job_part *
         (chip->host_bytes > 0 ? chip->host_bytes : constants->host_bytes);
}
