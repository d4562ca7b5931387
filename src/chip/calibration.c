#include "chip/chip.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

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
enum {
  NUMBERS = sizeof numbers / sizeof *numbers,
  KERNEL_NUMBERS = sizeof kernel_numbers / sizeof *kernel_numbers
};

const struct pz_key *pz_calibration_constants(size_t *n) {
  *n = NUMBERS;
  return numbers;
}

const struct pz_key *pz_kernel_constants(size_t *n) {
  *n = KERNEL_NUMBERS;
  return kernel_numbers;
}

struct pz_kernel pz_kernel_none(void) {
  struct pz_kernel k = {0};
  for (size_t i = 0; i < KERNEL_NUMBERS; i++)
    *(double *)((char *)&k + kernel_numbers[i].offset) = kernel_numbers[i].absent;
  return k;
}

static const struct pz_range ROW = {1, 1LL << 40}, TILE = {1, 1 << 20}, SPLITS = {1, 65536};

static void read_numbers(struct pz_fields *f, const struct pz_key *list, size_t n, void *out) {
  for (size_t i = 0; i < n; i++) {
    pz_fields_check_usual(f, &list[i]);
    *(double *)((char *)out + list[i].offset) =
        pz_fields_real_or(f, list[i].key, list[i].min, list[i].max, list[i].absent);
  }
}

static void read_kernels(struct pz_fields *f, struct pz_calibration *c) {
  const json_t *list = pz_fields_value(f, "calibration.kernels");
  if (!list) return;
  if (!json_is_object(list) || json_object_size(list) > PZ_CHIP_MOST_KERNELS) {
    pz_fields_refuse(f, "calibration.kernels", "an object of at most 48 kernels");
    return;
  }
  for (void *it = json_object_iter((json_t *)(uintptr_t)list); it && f->status == PZ_OK;
       it = json_object_iter_next((json_t *)(uintptr_t)list, it)) {
    struct pz_kernel *k = &c->kernels[c->n_kernels++];
    const json_t *value = json_object_iter_value(it);
    char where[300];
    snprintf(where, sizeof where, "%.200s: kernel %.60s", f->name, json_object_iter_key(it));
    struct pz_fields g = {.name = where, .root = value, .err = f->err, .status = f->status};
    g.any_units = f->any_units;
    pz_text_copy(k->kind, sizeof k->kind, json_object_iter_key(it));
    if (!json_is_object(value)) {
      f->status = pz_fail(f->err, PZ_BAD_INPUT, "%s is %s; accepted: an object", where,
                          pz_json_type(value));
      return;
    }
    read_numbers(&g, kernel_numbers, KERNEL_NUMBERS, k);
    k->long_row = pz_fields_int_or(&g, "long_row", ROW, 0);
    k->block_from = pz_fields_int_or(&g, "block_from", ROW, 0);
    f->status = pz_fields_finish(&g);
  }
}

static void read_tiles(struct pz_fields *f, struct pz_calibration *c) {
  const json_t *list = pz_fields_value(f, "calibration.tiles");
  c->most_tile_values = pz_fields_int_or(f, "calibration.most_tile_values", ROW, INT64_MAX);
  c->most_splits = pz_fields_int_or(f, "calibration.most_splits", SPLITS, 1);
  c->least_split_k = pz_fields_int_or(f, "calibration.least_split_k", ROW, 1);
  if (!list) return;
  bool good = json_is_array(list) && json_array_size(list) <= PZ_CHIP_MOST_TILES;
  int64_t before = 0;
  for (size_t i = 0; good && i < json_array_size(list); i++) {
    int64_t v = json_integer_value(json_array_get(list, i));
    good = v > before && v <= TILE.max;
    c->tiles[c->n_tiles++] = before = v;
  }
  if (!good) pz_fields_refuse(f, "calibration.tiles", "at most 8 ascending sizes");
}

void pz_calibration_none(int64_t glb_bytes, struct pz_calibration *c) {
  *c = (struct pz_calibration){.most_tile_values = INT64_MAX, .most_splits = 1, .least_split_k = 1};
  for (size_t i = 0; i < NUMBERS; i++)
    *(double *)((char *)c + numbers[i].offset) = numbers[i].absent;
  c->batched_startup_s = c->startup_s;
  c->warm_from_bytes = c->warm_to_bytes = (double)glb_bytes;
}

void pz_calibration_read(struct pz_fields *f, int64_t glb_bytes, struct pz_calibration *c) {
  read_numbers(f, numbers, NUMBERS, c);
  if (c->fp8_block_speedup > 0 && c->fp8_block_speedup < 1)
    pz_fields_refuse(f, "calibration.fp8_block_speedup", "0, or 1 to 16");
  if (c->nvfp4_speedup > 0 && c->nvfp4_speedup < 1)
    pz_fields_refuse(f, "calibration.nvfp4_speedup", "0, or 1 to 32");
  if (c->batched_startup_s < 0) c->batched_startup_s = c->startup_s;
  if (c->warm_from_bytes < 0) c->warm_from_bytes = (double)glb_bytes;
  if (c->warm_to_bytes < 0) c->warm_to_bytes = c->warm_from_bytes;
  if (c->warm_to_bytes < c->warm_from_bytes)
    pz_fields_refuse(f, "calibration.warm_to_bytes", "no less than warm_from_bytes");
  read_tiles(f, c);
  read_kernels(f, c);
}

/* Numbers that differ from an uncalibrated chip's. */
static void write_numbers(json_t *o, const struct pz_key *list, size_t n, const void *from) {
  for (size_t i = 0; i < n; i++) {
    double v = *(const double *)((const char *)from + list[i].offset);
    const char *dot = strrchr(list[i].key, '.');
    if (v != list[i].absent) json_object_set_new(o, dot ? dot + 1 : list[i].key, json_real(v));
  }
}

static json_t *kernel_json(const struct pz_kernel *k) {
  json_t *o = json_object();
  write_numbers(o, kernel_numbers, KERNEL_NUMBERS, k);
  if (k->long_row) json_object_set_new(o, "long_row", json_integer(k->long_row));
  if (k->block_from) json_object_set_new(o, "block_from", json_integer(k->block_from));
  return o;
}

json_t *pz_calibration_json(const struct pz_calibration *c) {
  json_t *o = json_object(), *tiles = json_array(), *kernels = json_object();
  write_numbers(o, numbers, NUMBERS, c);
  for (int i = 0; i < c->n_tiles; i++) json_array_append_new(tiles, json_integer(c->tiles[i]));
  for (int i = 0; i < c->n_kernels; i++)
    json_object_set_new(kernels, c->kernels[i].kind, kernel_json(&c->kernels[i]));
  if (c->n_tiles) {
    if (c->most_tile_values < INT64_MAX)
      json_object_set_new(o, "most_tile_values", json_integer(c->most_tile_values));
    json_object_set_new(o, "most_splits", json_integer(c->most_splits));
    json_object_set_new(o, "least_split_k", json_integer(c->least_split_k));
    json_object_set(o, "tiles", tiles);
  }
  if (c->n_kernels) json_object_set(o, "kernels", kernels);
  json_decref(tiles);
  json_decref(kernels);
  return o;
}

void pz_calibration_fields(json_t *list) {
#define KERNELS "calibration.kernels."
  static const struct pz_key rows[] = {
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
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    pz_key_describe(&rows[i],
                    strcmp(rows[i].key, "calibration.tiles") == 0 ? "at most 8 ascending sizes"
                    : rows[i].type == PZ_KEY_OTHER ? "an object of at most 48 kernels"
                                                   : NULL,
                    list);
}
