/* The measured part of a chip description: the numbers of calibration.def, tiles, and kernels, read
 * from and written to the field "calibration" of chip.json. */
#include "chip/chip.h"

#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "core/text.h"

static const struct pz_key numbers[] = {
#define NUMBER(name, min, max, absent, unit, ...)                                                  \
  PZ_KEY("calibration." #name, PZ_KEY_REAL, offsetof(struct pz_calibration, name), min, max,       \
         absent, unit, __VA_ARGS__),
#include "chip/calibration.def"
};
static const struct pz_key kernel_numbers[] = {
#define KERNEL_NUMBER(name, min, max, absent, unit, ...)                                           \
  PZ_KEY(#name, PZ_KEY_REAL, offsetof(struct pz_kernel, name), min, max, absent, unit, __VA_ARGS__),
#include "chip/calibration.def"
};
enum { NUMBERS = sizeof numbers / sizeof *numbers };
enum { KERNEL_NUMBERS = sizeof kernel_numbers / sizeof *kernel_numbers };

/* Returns the rows of NUMBER in calibration.def, and sets *n to how many there are. */
const struct pz_key *pz_calibration_constants(size_t *n) {
  *n = NUMBERS;
  return numbers;
}

/* Returns the rows of KERNEL_NUMBER in calibration.def, and sets *n to how many there are. */
const struct pz_key *pz_kernel_constants(size_t *n) {
  *n = KERNEL_NUMBERS;
  return kernel_numbers;
}

/* Sets the numbers that `keys` describes, at their offsets in the struct at `out`, to their values
 * on an uncalibrated chip (`absent`). */
static void set_absent(const struct pz_key *keys, size_t n_keys, void *out) {
  for (size_t i = 0; i < n_keys; i++) {
    double *member = (double *)((char *)out + keys[i].offset);
    *member = keys[i].absent;
  }
}

/* Returns a kernel in which every number has the value of an uncalibrated chip. */
struct pz_kernel pz_kernel_none(void) {
  struct pz_kernel kernel = {0};
  set_absent(kernel_numbers, KERNEL_NUMBERS, &kernel);
  return kernel;
}

/* Accepted numbers of values (in a row of a vector operator, in a tile of a GEMM, or along the inner
 * dimension of one of its parts), and of parts into which the inner dimension is split. */
static const struct pz_range VALUES = {1, 1LL << 40}, SPLITS = {1, 65536};

/* Reads the numbers that `keys` describes into the struct at `out`, at the offsets of the keys. */
static void read_numbers(struct pz_fields *file, const struct pz_key *keys, size_t n_keys,
                         void *out) {
  for (size_t i = 0; i < n_keys; i++) {
    double *member = (double *)((char *)out + keys[i].offset);
    pz_fields_check_usual(file, &keys[i]);
    *member = pz_fields_real_or(file, keys[i].key, keys[i].min, keys[i].max, keys[i].absent);
  }
}

/* Reads the field "calibration.kernels", an object with an entry for each kind of kernel. */
static void read_kernels(struct pz_fields *file, struct pz_calibration *calibration) {
  const json_t *kernels = pz_fields_value(file, "calibration.kernels");
  if (!kernels) return;
  if (!json_is_object(kernels) || json_object_size(kernels) > PZ_CHIP_MOST_KERNELS) {
    pz_fields_refuse(file, "calibration.kernels", "an object of at most 48 kernels");
    return;
  }
  json_t *object = (json_t *)(uintptr_t)kernels; /* jansson's iterators do not accept const */
  void *entry = json_object_iter(object);
  while (entry && file->status == PZ_OK) {
    struct pz_kernel *kernel = &calibration->kernels[calibration->n_kernels];
    const char *kind = json_object_iter_key(entry);
    char name[300];
    snprintf(name, sizeof name, "%.200s: kernel %.60s", file->name, kind);
    struct pz_fields fields = {.name = name,
                               .root = json_object_iter_value(entry),
                               .err = file->err,
                               .status = file->status,
                               .any_units = file->any_units};
    calibration->n_kernels++;
    pz_text_copy(kernel->kind, sizeof kernel->kind, kind);
    if (!json_is_object(fields.root)) {
      file->status = pz_fail(file->err, PZ_BAD_INPUT, "%s is %s; accepted: an object", name,
                             pz_json_type(fields.root));
      return;
    }
    read_numbers(&fields, kernel_numbers, KERNEL_NUMBERS, kernel);
    kernel->long_row = pz_fields_int_or(&fields, "long_row", VALUES, 0);
    kernel->block_from = pz_fields_int_or(&fields, "block_from", VALUES, 0);
    file->status = pz_fields_finish(&fields);
    entry = json_object_iter_next(object, entry);
  }
}

/* Sets the calibration of a chip without measurements, which reaches the rates of its data sheet and
 * needs no time to start an operator.  Repeated calls find their data in the global buffer exactly
 * if it fits: up to warm_from_bytes all of it, and from warm_to_bytes on none. */
void pz_calibration_none(int64_t glb_bytes, struct pz_calibration *calibration) {
  *calibration =
      (struct pz_calibration){.most_tile_values = INT64_MAX, .most_splits = 1, .least_split_k = 1};
  set_absent(numbers, NUMBERS, calibration);
  /* three numbers follow from others: their `absent` is -1 */
  calibration->batched_startup_s = calibration->startup_s; /* a batched GEMM starts as any GEMM */
  calibration->warm_from_bytes = (double)glb_bytes;
  calibration->warm_to_bytes = (double)glb_bytes;
}

/* Reads the field "calibration" of a chip.json.  A number whose default in calibration.def is -1
 * follows from another field if it is absent: from startup_s, or from the size of the global buffer. */
void pz_calibration_read(struct pz_fields *file, int64_t glb_bytes,
                         struct pz_calibration *calibration) {
  read_numbers(file, numbers, NUMBERS, calibration);
  if (calibration->fp8_block_speedup > 0 && calibration->fp8_block_speedup < 1)
    pz_fields_refuse(file, "calibration.fp8_block_speedup", "0, or 1 to 16");
  if (calibration->nvfp4_speedup > 0 && calibration->nvfp4_speedup < 1)
    pz_fields_refuse(file, "calibration.nvfp4_speedup", "0, or 1 to 32");
  /* -1: absent, the value follows from another field */
  if (calibration->batched_startup_s < 0) calibration->batched_startup_s = calibration->startup_s;
  if (calibration->warm_from_bytes < 0) calibration->warm_from_bytes = (double)glb_bytes;
  if (calibration->warm_to_bytes < 0) calibration->warm_to_bytes = calibration->warm_from_bytes;
  if (calibration->warm_to_bytes < calibration->warm_from_bytes)
    pz_fields_refuse(file, "calibration.warm_to_bytes", "no less than warm_from_bytes");
  /* The tiles of the library's GEMM kernels, and how it splits the inner dimension. */
  enum { LARGEST_TILE = 1 << 20 };
  const json_t *tiles = pz_fields_value(file, "calibration.tiles");
  calibration->most_tile_values =
      pz_fields_int_or(file, "calibration.most_tile_values", VALUES, INT64_MAX);
  calibration->most_splits = pz_fields_int_or(file, "calibration.most_splits", SPLITS, 1);
  calibration->least_split_k = pz_fields_int_or(file, "calibration.least_split_k", VALUES, 1);
  bool is_list = json_is_array(tiles) && json_array_size(tiles) <= PZ_CHIP_MOST_TILES;
  bool is_valid = is_list || !tiles;
  for (size_t i = 0; is_list && is_valid && i < json_array_size(tiles); i++) {
    int64_t tile = json_integer_value(json_array_get(tiles, i));
    int64_t least = i ? calibration->tiles[i - 1] + 1 : 1;
    is_valid = tile >= least && tile <= LARGEST_TILE;
    calibration->tiles[calibration->n_tiles] = tile;
    calibration->n_tiles++;
  }
  if (!is_valid) pz_fields_refuse(file, "calibration.tiles", "at most 8 ascending sizes");
  read_kernels(file, calibration);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes the numbers of the struct at `values` that differ from those of an uncalibrated chip. */
static void write_numbers(json_t *object, const struct pz_key *keys, size_t n_keys,
                          const void *values) {
  for (size_t i = 0; i < n_keys; i++) {
    double value = *(const double *)((const char *)values + keys[i].offset);
    const char *dot = strrchr(keys[i].key, '.'), *name = dot ? dot + 1 : keys[i].key;
    if (value != keys[i].absent) json_object_set_new(object, name, json_real(value));
  }
}

/* Returns the fields that differ from those of an uncalibrated chip. */
json_t *pz_calibration_json(const struct pz_calibration *calibration) {
  json_t *object = json_object(), *tiles = json_array(), *kernels = json_object();
  write_numbers(object, numbers, NUMBERS, calibration);
  for (int i = 0; i < calibration->n_tiles; i++)
    json_array_append_new(tiles, json_integer(calibration->tiles[i]));
  for (int i = 0; i < calibration->n_kernels; i++) {
    const struct pz_kernel *kernel = &calibration->kernels[i];
    json_t *entry = json_object();
    write_numbers(entry, kernel_numbers, KERNEL_NUMBERS, kernel);
    if (kernel->long_row) json_object_set_new(entry, "long_row", json_integer(kernel->long_row));
    if (kernel->block_from)
      json_object_set_new(entry, "block_from", json_integer(kernel->block_from));
    json_object_set_new(kernels, kernel->kind, entry);
  }
  if (calibration->n_tiles) {
    if (calibration->most_tile_values < INT64_MAX)
      json_object_set_new(object, "most_tile_values", json_integer(calibration->most_tile_values));
    json_object_set_new(object, "most_splits", json_integer(calibration->most_splits));
    json_object_set_new(object, "least_split_k", json_integer(calibration->least_split_k));
    json_object_set(object, "tiles", tiles);
  }
  if (calibration->n_kernels) json_object_set(object, "kernels", kernels);
  json_decref(tiles);
  json_decref(kernels);
  return object;
}

/* Describes the fields of a calibration for doc/fields.md: its numbers, tiles and kernels. */
void pz_calibration_fields(json_t *list) {
#define KERNELS "calibration.kernels."
  static const struct pz_key keys[] = {
      PZ_KEY("calibration.most_tile_values", PZ_KEY_INT, 0, 1, 0x1p40, 0, "",
             "Values of a tile at most; absent: any number"),
      PZ_KEY("calibration.most_splits", PZ_KEY_INT, 0, 1, 65536, 1, "",
             "Pieces at most that the inner dimension of a GEMM is divided into where cores idle"),
      PZ_KEY("calibration.least_split_k", PZ_KEY_INT, 0, 1, 0x1p40, 1, "",
             "Inner dimension of such a piece at least"),
      PZ_KEY("calibration.tiles", PZ_KEY_OTHER, 0, 0, 0, 0, "",
             "Sizes of tiles that the library has; absent: any"),
      PZ_KEY("calibration.kernels", PZ_KEY_OTHER, 0, 0, 0, 0, "",
             "Kinds of kernels that were measured (names: `phaze chip h200 --json`), by name; "
             "`default` "
             "is for those without a name here; absent: none"),
#define KERNEL_NUMBER(name, min, max, absent, unit, ...)                                           \
  PZ_KEY(KERNELS "KERNEL." #name, PZ_KEY_REAL, 0, min, max, absent, unit, __VA_ARGS__),
#include "chip/calibration.def"
      PZ_KEY(KERNELS "KERNEL.long_row", PZ_KEY_INT, 0, 1, 0x1p40, 0, "",
             "Rows beyond this many values do not stay on the core; absent: all do"),
      PZ_KEY(KERNELS "KERNEL.block_from", PZ_KEY_INT, 0, 1, 0x1p40, 0, "",
             "Rows beyond this are worked on by a block of threads; absent: none"),
  };
  for (size_t i = 0; i < NUMBERS; i++) pz_key_describe(&numbers[i], NULL, list);
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const char *accepted = NULL;
    if (keys[i].type == PZ_KEY_OTHER) accepted = "an object of at most 48 kernels";
    if (strcmp(keys[i].key, "calibration.tiles") == 0) accepted = "at most 8 ascending sizes";
    pz_key_describe(&keys[i], accepted, list);
  }
}
