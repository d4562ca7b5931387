/* The table of the model's constants, and the rules for how much of a device's and of the host's
 * memory a plan may fill. */
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

double pz_reserved_bytes(const struct pz_chip *chip, const struct pz_constants *k) {
  bool is_gpu = chip->execution == PZ_CHIP_STREAM;
  return is_gpu ? k->context_bytes + k->collective_bytes : k->runtime_bytes;
}

double pz_usable_bytes(const struct pz_chip *chip, const struct pz_constants *k) {
  return pz_fmax(0, (double)pz_chip_hbm_bytes(chip) - pz_reserved_bytes(chip, k));
}

double pz_hbm_needed(const struct pz_chip *chip, const struct pz_constants *k, double bytes) {
  return bytes + pz_reserved_bytes(chip, k);
}

double pz_usable_host_bytes(const struct pz_chip *chip, const struct pz_constants *k) {
  return k->host_job_part * (chip->host_bytes > 0 ? chip->host_bytes : k->host_bytes);
}
