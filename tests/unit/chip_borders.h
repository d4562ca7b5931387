/* Functions of src/chip for tests and benchmarks that check a status. */
#ifndef PZ_TESTS_CHIP_BORDERS_H
#define PZ_TESTS_CHIP_BORDERS_H

#include "chip/chip.h"
#include "chip/cold.h"

/* Reads a chip by the name of a preset or the path of a file into a struct of the caller. */
static inline enum pz_status pz_test_chip_read(const char *name, struct pz_chip *out,
                                               struct pz_error *err) {
  struct pz_chip *loaded = NULL;
  enum pz_status status = pz_chip_load(name, &loaded, err);
  if (status != PZ_OK) return status;
  *out = *loaded;
  pz_chip_free(loaded);
  return PZ_OK;
}

/* Reads the text of a chip.json into a struct of the caller. */
static inline enum pz_status pz_test_chip_parse(const char *name, const char *text, size_t bytes,
                                                struct pz_chip *out, struct pz_error *err) {
  struct pz_chip *loaded = NULL;
  enum pz_status status = pz_chip_parse(name, text, bytes, &loaded, err);
  if (status != PZ_OK) return status;
  *out = *loaded;
  pz_chip_free(loaded);
  return PZ_OK;
}

static inline enum pz_status pz_test_chip_load_described(const char *name, struct pz_chip *out,
                                                         struct pz_error *err) {
  enum pz_status status = pz_test_chip_read(name, out, err);
  if (status == PZ_OK) pz_chip_remove_measurements(out);
  return status;
}

/* Arguments of the functions below. */
struct chip_test_arguments {
  const char *name, *text;
  size_t bytes;
  const struct pz_cold *constants;
  const struct pz_chip *given;
  struct pz_chip *chip;
  const struct pz_cluster *net, **widened;
  struct pz_cluster *wide;
  int64_t devices;
};

static inline void check_chip_in_border(struct pz_call *call, void *ctx) {
  const struct chip_test_arguments *args = ctx;
  pz_chip_check(call, args->given);
}

static inline enum pz_status pz_test_chip_check(const struct pz_chip *chip, struct pz_error *err) {
  struct chip_test_arguments args = {.given = chip};
  return pz_border(check_chip_in_border, &args, err);
}

static inline void parse_units_in_border(struct pz_call *call, void *ctx) {
  const struct chip_test_arguments *args = ctx;
  pz_chip_read_text(call, args->name, args->text, args->bytes, true, args->chip);
}

/* Like pz_test_chip_parse(), with numbers out of their usual range. */
static inline enum pz_status pz_test_chip_parse_units(const char *name, const char *text,
                                                      size_t bytes, struct pz_chip *out,
                                                      struct pz_error *err) {
  struct chip_test_arguments args = {.name = name, .text = text, .bytes = bytes, .chip = out};
  return pz_border(parse_units_in_border, &args, err);
}

static inline void make_cold_in_border(struct pz_call *call, void *ctx) {
  const struct chip_test_arguments *args = ctx;
  pz_chip_make_cold(call, args->chip, args->constants);
}

static inline enum pz_status pz_test_chip_make_cold(struct pz_chip *chip,
                                                    const struct pz_cold *constants,
                                                    struct pz_error *err) {
  struct chip_test_arguments args = {.chip = chip, .constants = constants};
  return pz_border(make_cold_in_border, &args, err);
}

static inline void check_cluster_in_border(struct pz_call *call, void *ctx) {
  const struct chip_test_arguments *args = ctx;
  pz_cluster_check(call, args->net);
}

static inline enum pz_status pz_test_cluster_check(const struct pz_cluster *net,
                                                   struct pz_error *err) {
  struct chip_test_arguments args = {.net = net};
  return pz_border(check_cluster_in_border, &args, err);
}

static inline void widen_cluster_in_border(struct pz_call *call, void *ctx) {
  const struct chip_test_arguments *args = ctx;
  *args->widened = pz_cluster_widen(call, args->net, args->devices, args->wide);
}

static inline enum pz_status pz_test_cluster_widen(const struct pz_cluster *net, int64_t devices,
                                                   struct pz_cluster *wide,
                                                   const struct pz_cluster **out,
                                                   struct pz_error *err) {
  struct chip_test_arguments args = {.net = net, .devices = devices, .wide = wide, .widened = out};
  return pz_border(widen_cluster_in_border, &args, err);
}

#endif
