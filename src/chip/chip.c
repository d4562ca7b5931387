/* Chips: presets and files, copies for programs, and values that follow from a description.
 *
 * The fields of a description and their checks are in chip_json.c. */
#include "chip/chip.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/embedded.h"
#include "core/alloc.h"
#include "core/num.h"
#include "core/text.h"

const char *const pz_chip_execution_names[] = {"scheduled", "stream", "serial", NULL};
const char *const pz_calibrated_by_names[] = {"", "operators", "runs", NULL};

/* ---- presets and files ----------------------------------------------------------------------- */

const char *pz_chip_preset_name(size_t i) { return pz_embedded_name(pz_embedded_chips, i); }

const char *pz_chip_preset_text(const char *name) {
  return name ? pz_embedded_text(pz_embedded_chips, name) : NULL;
}

/* Reads a preset or a file.  any_units accepts numbers out of their usual range. */
void pz_chip_read_units(struct pz_call *call, const char *chip, bool any_units,
                        struct pz_chip *out) {
  size_t bytes;
  pz_require(call, chip, "chip");
  const char *text = pz_embedded_load(call, pz_embedded_chips, "chip",
                                      "a name listed by 'phaze chips'", chip, &bytes);
  pz_chip_read_text(call, chip, text, bytes, any_units, out);
  out->any_units |= any_units;
}

void pz_chip_read(struct pz_call *call, const char *chip, struct pz_chip *out) {
  pz_chip_read_units(call, chip, false, out);
}

/* Reads the base chip of a design space from its field "base": a chip as a JSON object, or the name
 * of a preset or file, whose errors are reported with the name of the design space. */
void pz_chip_read_base(struct pz_call *call, struct pz_fields *fields, const char *absent,
                       struct pz_chip *base) {
  const json_t *object = pz_fields_value(fields, "base");
  pz_must(call, fields->status);
  if (json_is_object(object)) {
    const char *name = pz_format(call, "%.200s: base", fields->name);
    pz_chip_read_json(call, name, object, false, base);
    if (!json_object_get(object, "name")) pz_text_copy(base->name, sizeof base->name, "base");
    return;
  }
  const char *name = pz_fields_text_or(fields, "base", absent);
  struct pz_error error = {0};
  struct pz_chip *loaded = NULL;
  pz_must(call, fields->status);
  enum pz_status status = pz_chip_load(name, &loaded, &error);
  if (status != PZ_OK) pz_raise(call, status, "%s: base: %s", fields->name, error.message);
  *base = *loaded;
  pz_chip_free(loaded);
}

/* ---- the interface for programs -------------------------------------------------------------- */

struct chip_arguments {
  enum { COPIED, LOADED, PARSED } source;
  const struct pz_chip *chip; /* the chip to copy, or to check for a precision */
  const char *name;           /* preset or path to load, or the name of `text` in messages */
  const char *text;           /* contents of a chip.json to parse */
  size_t bytes;
  enum pz_precision precision;
  struct pz_chip **out;
  struct pz_known *known;
};

/* Allocates a chip for a program: a copy, a preset or file, or a chip parsed from text. */
static void return_chip(struct pz_call *call, void *ctx) {
  const struct chip_arguments *args = ctx;
  struct pz_chip chip;
  switch (args->source) {
  case COPIED:
    pz_require(call, args->chip, "chip");
    chip = *args->chip;
    break;
  case LOADED: pz_chip_read(call, args->name, &chip); break;
  case PARSED: pz_chip_read_text(call, args->name, args->text, args->bytes, false, &chip); break;
  }
  pz_require(call, args->out, "out");
  struct pz_chip *copy = pz_malloc(sizeof *copy);
  if (!copy) pz_raise_memory(call, "the chip");
  *copy = chip;
  *args->out = copy;
}

enum pz_status pz_chip_copy(const struct pz_chip *chip, struct pz_chip **out,
                            struct pz_error *err) {
  struct chip_arguments args = {.source = COPIED, .chip = chip, .out = out};
  return pz_border(return_chip, &args, err);
}

enum pz_status pz_chip_load(const char *name, struct pz_chip **out, struct pz_error *err) {
  struct chip_arguments args = {.source = LOADED, .name = name, .out = out};
  return pz_border(return_chip, &args, err);
}

enum pz_status pz_chip_parse(const char *name, const char *text, size_t bytes, struct pz_chip **out,
                             struct pz_error *err) {
  struct chip_arguments args = {
      .source = PARSED, .name = name, .text = text, .bytes = bytes, .out = out};
  return pz_border(return_chip, &args, err);
}

void pz_chip_free(struct pz_chip *chip) { pz_free(chip); }

const char *pz_chip_name(const struct pz_chip *chip) { return chip->name; }

/* Returns whether a chip is taken to exist: it is a GPU, or its measured GEMMs miss the peak. */
bool pz_chip_built(const struct pz_chip *chip) {
  return chip->execution == PZ_CHIP_STREAM || chip->calibration.tensor_efficiency < 1;
}

/* Returns the default precisions: both of 16 bits, and narrower ones with a calibrated rate. */
static int default_precisions(const struct pz_chip *chip) {
  return 1 << PZ_PRECISION_BF16 | 1 << PZ_PRECISION_FP16 |
         (chip->calibration.fp8_speedup > 1) << PZ_PRECISION_FP8 |
         (chip->calibration.nvfp4_speedup > 1) << PZ_PRECISION_NVFP4;
}

/* Raises an error with the supported precisions if an existing chip lacks this one. */
static void check_precision(struct pz_call *call, void *ctx) {
  const struct chip_arguments *args = ctx;
  const struct pz_chip *chip = args->chip;
  pz_require_range(call, "precision", (int64_t)args->precision, 0, PZ_PRECISIONS - 1);
  int supported = chip->precisions ? chip->precisions : default_precisions(chip);
  if (!pz_chip_built(chip) || supported >> args->precision & 1) return;
  const char *accepted = "";
  for (int i = 0; i < PZ_PRECISIONS; i++)
    if (supported >> i & 1)
      accepted = pz_format(call, "%s%s%s", accepted, *accepted ? ", " : "", pz_precision_names[i]);
  pz_raise(call, PZ_BAD_USE, "%s has no rate for precision %s; accepted: %s", chip->name,
           pz_precision_names[args->precision], accepted);
}

enum pz_status pz_chip_can_run(const struct pz_chip *chip, enum pz_precision precision,
                               struct pz_error *err) {
  struct chip_arguments args = {.chip = chip, .precision = precision};
  return pz_border(check_precision, &args, err);
}

/* ---- the least buffers ----------------------------------------------------------------------- */

/* Returns the least length to which a longer dimension of a GEMM is divided. */
int64_t pz_chip_least_tile(const struct pz_chip *chip) {
  enum { PARTS = 8 };
  int64_t side = pz_min(chip->tensor.rows, chip->tensor.cols);
  return chip->rules.fill ? side : pz_ceil_div(side, PARTS);
}

enum { NO_LIBRARY = 0 }; /* instead of the side of a library's tile: the mapper chooses the side */

/* Returns the least size of a buffer in which the mapper finds a tile for any GEMM.  The buffer then
 * holds one operand (an input or the results) of side x side values, which stays in it, and slices
 * of the two other operands, which stream past.  The kernels of a library keep the results, and
 * their smallest tile has library_side; without a library, the operand that needs fewer bytes
 * stays.  In a partitioned buffer, each operand has a part of its own, and the returned size is that
 * of one part. */
static int64_t least_buffer_bytes(const struct pz_chip *chip, int64_t library_side,
                                  bool partitioned) {
  /* The mapper tries a dimension of the GEMM, its half (rounded up), and so on.  If filling the
   * array takes time, it also tries the side of the array, which is then the least tile.  Otherwise
   * it stops when the next half is below the least tile, which is at most at 2 * least - 2. */
  int64_t least = pz_chip_least_tile(chip);
  int64_t side = chip->rules.fill ? least : pz_max(least, 2 * least - 2);
  if (library_side != NO_LIBRARY) side = library_side;
  int64_t operand_bytes = chip->rules.operand_bytes, sum_bytes = chip->rules.sum_bytes;
  int64_t slice_values = side * pz_min(chip->tensor.rows, PZ_CHIP_SLICE);
  if (chip->rules.double_buffer) slice_values *= 2;
  int64_t results_stationary =
      side * side * sum_bytes + slice_values * (operand_bytes + operand_bytes);
  int64_t input_stationary =
      side * side * operand_bytes + slice_values * (operand_bytes + sum_bytes);
  if (partitioned) {
    results_stationary = pz_max(side * side * sum_bytes, slice_values * operand_bytes);
    input_stationary =
        pz_max(side * side * operand_bytes, slice_values * pz_max(operand_bytes, sum_bytes));
  }
  if (library_side != NO_LIBRARY) return results_stationary;
  return pz_min(results_stationary, input_stationary);
}

/* Returns the least size of a core's buffer with which GEMMs of any size can run. */
int64_t pz_chip_least_local_bytes(const struct pz_chip *chip) {
  bool has_library = chip->calibration.n_tiles > 0;
  int64_t smallest_side = has_library ? chip->calibration.tiles[0] : NO_LIBRARY;
  return least_buffer_bytes(chip, smallest_side, chip->rules.partitioned);
}

/* Returns the least size of the global buffer with which GEMMs of any size can run.  The tiles of a
 * library and the rule `partitioned` concern only the buffers of cores. */
int64_t pz_chip_least_glb_bytes(const struct pz_chip *chip) {
  const bool partitioned = false;
  return least_buffer_bytes(chip, NO_LIBRARY, partitioned);
}

/* ---- rates and parts ------------------------------------------------------------------------- */

double pz_chip_tensor_flop_per_s(const struct pz_chip *chip) {
  const struct pz_tensor_cores *tensor = &chip->tensor;
  return 2.0 * (double)tensor->cores * (double)tensor->rows * (double)tensor->cols * chip->clock_hz;
}

double pz_chip_vector_op_per_s(const struct pz_chip *chip) {
  return (double)chip->vector.cores * (double)chip->vector.lanes * chip->clock_hz;
}

double pz_chip_hbm_bytes_per_s(const struct pz_chip *chip) {
  return (double)chip->hbm.stacks * chip->hbm.bytes_per_s_per_stack;
}

int64_t pz_chip_hbm_bytes(const struct pz_chip *chip) {
  return chip->hbm.stacks * chip->hbm.bytes_per_stack;
}

/* Returns a chip with only some of its tensor and vector cores (0 for all of them).  HBM and global
 * buffer have at most the rate that these cores can draw. */
struct pz_chip pz_chip_part(const struct pz_chip *chip, int64_t tensor_cores,
                            int64_t vector_cores) {
  struct pz_chip part = *chip;
  int64_t cores = pz_max(tensor_cores, vector_cores);
  if (tensor_cores) part.tensor.cores = tensor_cores;
  if (vector_cores) part.vector.cores = vector_cores;
  if (cores && chip->glb_core_bytes_per_s > 0)
    part.glb_bytes_per_s = fmin(chip->glb_bytes_per_s, (double)cores * chip->glb_core_bytes_per_s);
  if (cores && chip->hbm.core_bytes_per_s > 0)
    part.hbm.bytes_per_s_per_stack =
        fmin(chip->hbm.bytes_per_s_per_stack,
             (double)cores * chip->hbm.core_bytes_per_s / (double)chip->hbm.stacks);
  return part;
}

/* Returns the measurements of a kind of vector operator, or NULL. */
const struct pz_kernel *pz_chip_kernel(const struct pz_chip *chip, const char *kind) {
  const struct pz_calibration *calibration = &chip->calibration;
  for (int i = 0; i < calibration->n_kernels; i++)
    if (strcmp(calibration->kernels[i].kind, kind) == 0) return &calibration->kernels[i];
  return NULL;
}

/* Removes the calibration of a chip, so that its data sheet can be compared with unbuilt chips. */
void pz_chip_remove_measurements(struct pz_chip *chip) {
  /* The precisions are set first, because some of them follow from calibrated rates. */
  if (!chip->precisions) chip->precisions = default_precisions(chip);
  pz_calibration_none(chip->glb_bytes, &chip->calibration);
}

/* Appends ", calibrated with FILE" to the name of a chip, or " and FILE" after the file of an earlier
 * fit, where FILE is the last part of `path`.  On a chip that has a correction by measured steps,
 * FILE replaces the file of that correction, which is the last one of the name.  If the name would
 * become too long, FILE replaces all files. */
void pz_chip_name_calibrated(struct pz_chip *chip, const char *path) {
  static const char first_prefix[] = ", calibrated with ", next_prefix[] = " and ";
  enum { MOST_FILE_CHARS = 40 };
  const char *slash = strrchr(path, '/'), *file = slash && slash[1] ? slash + 1 : path;
  const char *files = strstr(chip->name, first_prefix),
             *prefix = files ? next_prefix : first_prefix;
  size_t length = strlen(chip->name), file_length = strlen(file); /* length: the part that stays */
  bool has_correction = chip->correction.steps;
  bool is_long = length + MOST_FILE_CHARS + sizeof next_prefix >= sizeof chip->name;
  if (files && (has_correction || is_long)) {
    const char *correction_file = has_correction ? strstr(files, next_prefix) : NULL;
    length = (size_t)((correction_file ? correction_file : files) - chip->name);
    prefix = correction_file ? next_prefix : first_prefix;
  }
  bool is_cut = file_length > MOST_FILE_CHARS;
  snprintf(chip->name + length, sizeof chip->name - length, "%s%.*s%s", prefix,
           is_cut ? MOST_FILE_CHARS - 3 : MOST_FILE_CHARS, file, is_cut ? "..." : "");
}

/* Makes a chip of other sizes from a base.  Facts about the base as a product are dropped: its power
 * limit, the source of its calibration, its correction by measured steps, and its package. */
void pz_chip_resize(const struct pz_chip *base, const struct pz_chip_size *size,
                    struct pz_chip *out) {
  enum { LEAST_BUFFER = 1024 };
  struct pz_chip chip = *base;
  chip.tensor.cores = size->tensor_cores;
  chip.tensor.rows = size->rows;
  chip.tensor.cols = size->cols;
  chip.vector.cores = size->vector_cores;
  chip.vector.lanes = size->lanes;
  /* the buffers of cores are in proportion to their multipliers or lanes */
  double base_multipliers = (double)(base->tensor.rows * base->tensor.cols);
  double tensor_bytes =
      (double)base->tensor.local_bytes * (double)(size->rows * size->cols) / base_multipliers;
  double vector_bytes =
      (double)base->vector.local_bytes * (double)size->lanes / (double)base->vector.lanes;
  chip.tensor.local_bytes = pz_max((int64_t)tensor_bytes, LEAST_BUFFER);
  chip.tensor.local_bytes = pz_max(chip.tensor.local_bytes, pz_chip_least_local_bytes(&chip));
  chip.vector.local_bytes = pz_max((int64_t)vector_bytes, LEAST_BUFFER);
  chip.glb_bytes = size->glb_bytes;
  chip.watts = 0;
  chip.calibrated_by = PZ_CALIBRATED_SOMEHOW;
  chip.correction = (struct pz_correction){.steps = 0};
  chip.package = (struct pz_package){.dies = 0};
  *out = chip;
}

/* Reads the published facts about a die (area, power) from the field "known" of a preset. */
static void load_known(struct pz_call *call, void *ctx) {
  const struct chip_arguments *args = ctx;
  const char *text = pz_chip_preset_text(args->name);
  if (!text) return;
  const json_t *root = pz_json_read(call, args->name, text, strlen(text));
  struct pz_fields fields = pz_fields_of(call, args->name, json_object_get(root, "known"));
  if (!fields.root) return;
  struct pz_known known = {0};
  pz_text_copy(known.die, sizeof known.die, pz_fields_text_or(&fields, "die", ""));
  known.mm2 = pz_fields_real_or(&fields, "mm2", 1, 1e6, 0);
  known.watts = pz_fields_real_or(&fields, "watts", 1, 1e6, 0);
  known.fitted = pz_fields_bool_or(&fields, "fitted", false);
  pz_fields_end(call, &fields);
  *args->known = known;
}

enum pz_status pz_known_load(const char *chip, struct pz_known *out, struct pz_error *err) {
  struct chip_arguments args = {.name = chip, .known = out};
  *out = (struct pz_known){0};
  return pz_border(load_known, &args, err);
}

/* Returns the product line of a chip by the beginning of its name, such as "hopper" for h100, or the
 * name itself if the line is unknown. */
const char *pz_chip_line(const char *chip) {
  static const struct {
    const char *prefix, *line;
  } lines[] = {{"v100", "v100"},       {"a100", "a100"},      {"h100", "hopper"},
               {"h200", "hopper"},     {"h800", "hopper"},    {"gb200", "blackwell"},
               {"gb300", "blackwell"}, {"b200", "blackwell"}, {"b300", "blackwell"},
               {"tpuv4-real", "tpuv4"}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strncmp(chip, lines[i].prefix, strlen(lines[i].prefix)) == 0) return lines[i].line;
  return chip;
}
