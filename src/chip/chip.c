#include "chip/chip.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/embedded.h"
#include "core/alloc.h"
#include "core/fields.h"
#include "core/num.h"
#include "core/text.h"

const char *const pz_chip_execution_names[] = {"scheduled", "stream", "serial", NULL};
const char *const pz_calibrated_by_names[] = {"", "operators", "runs", NULL};

/* Without a list: 16 bit of both kinds, fp8 and nvfp4 where there is a rate for them. */
static int usual_precisions(const struct pz_chip *c) {
  return 1 << PZ_PRECISION_BF16 | 1 << PZ_PRECISION_FP16 |
         (c->calibration.fp8_speedup > 1) << PZ_PRECISION_FP8 |
         (c->calibration.nvfp4_speedup > 1) << PZ_PRECISION_NVFP4;
}

/* ---- the smallest buffers ------------------------------------------------------------------- */

int64_t pz_chip_least_tile(const struct pz_chip *c) {
  enum { PARTS = 8 };
  int64_t side = pz_min(c->tensor.rows, c->tensor.cols);
  return c->rules.fill ? side : pz_ceil_div(side, PARTS);
}

/* Where filling takes time a tile of the array's side is always tried; else a dimension is halved
 * as long as it is not below the least, and may end at twice that less two. */
static int64_t worst_tile(const struct pz_chip *c) {
  int64_t least = pz_chip_least_tile(c);
  return c->rules.fill ? least : pz_max(least, 2 * least - 2);
}

/* Bytes of a stationary operand, t x t values, and of the slices of the other two operands that
 * stream past it, the same whichever input is stationary; the sum, or the largest where each has
 * a part of its own. */
static int64_t tile_bytes(const struct pz_chip *c, int64_t t, bool results_stationary,
                          bool partitioned) {
  int64_t e = c->rules.operand_bytes, a = c->rules.sum_bytes;
  int64_t stream = t * pz_min(c->tensor.rows, PZ_CHIP_SLICE) * (c->rules.double_buffer ? 2 : 1);
  int64_t stationary = t * t * (results_stationary ? a : e), other = results_stationary ? e : a;
  return partitioned ? pz_max(stationary, stream * pz_max(e, other))
                     : stationary + stream * (e + other);
}

int64_t pz_chip_least_local_bytes(const struct pz_chip *c) {
  bool partitioned = c->rules.partitioned;
  if (c->calibration.n_tiles) /* libraries keep results */
    return tile_bytes(c, c->calibration.tiles[0], true, partitioned);
  int64_t t = worst_tile(c);
  return pz_min(tile_bytes(c, t, true, partitioned), tile_bytes(c, t, false, partitioned));
}

int64_t pz_chip_least_glb_bytes(const struct pz_chip *c) {
  int64_t t = worst_tile(c);
  return pz_min(tile_bytes(c, t, true, false), tile_bytes(c, t, false, false));
}

const char *pz_chip_preset_name(size_t i) { return pz_embedded_name(pz_embedded_chips, i); }

const char *pz_chip_preset_text(const char *name) {
  return name ? pz_embedded_text(pz_embedded_chips, name) : NULL;
}

enum pz_status pz_chip_read(const char *chip, struct pz_chip *out, struct pz_error *err) {
  return pz_chip_read_units(chip, false, out, err);
}

enum pz_status pz_chip_read_units(const char *chip, bool any_units, struct pz_chip *out,
                                  struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_need(chip, "chip", err);
  if (status != PZ_OK) return status;
  status = pz_embedded_load(pz_embedded_chips, "chip", "a name listed by 'phaze chips'", chip,
                            &text, &bytes, err);
  if (status == PZ_OK) status = pz_chip_read_text_units(chip, text, bytes, any_units, out, err);
  if (status == PZ_OK) out->any_units |= any_units;
  pz_free(text);
  return status;
}

/* ---- for programs ------------------------------------------------------------------------------- */

enum pz_status pz_chip_copy(const struct pz_chip *c, struct pz_chip **out, struct pz_error *err) {
  enum pz_status status = pz_need_each(err, {c, "chip"}, {out, "out"});
  if (status != PZ_OK) return status;
  struct pz_chip *made = pz_malloc(sizeof *made);
  if (!made) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the chip");
  *made = *c;
  *out = made;
  return PZ_OK;
}

enum pz_status pz_chip_load(const char *chip, struct pz_chip **out, struct pz_error *err) {
  struct pz_chip c;
  enum pz_status status = pz_chip_read(chip, &c, err);
  return status == PZ_OK ? pz_chip_copy(&c, out, err) : status;
}

enum pz_status pz_chip_parse(const char *name, const char *text, size_t bytes, struct pz_chip **out,
                             struct pz_error *err) {
  struct pz_chip c;
  enum pz_status status = pz_chip_read_text(name, text, bytes, &c, err);
  return status == PZ_OK ? pz_chip_copy(&c, out, err) : status;
}

void pz_chip_free(struct pz_chip *c) { pz_free(c); }

void pz_chip_name_calibrated(struct pz_chip *c, const char *path) {
  static const char with[] = ", calibrated with ", and[] = " and ";
  enum { MOST = 40 }; /* of a file's name */
  const char *slash = strrchr(path, '/'), *file = slash && slash[1] ? slash + 1 : path;
  char *at = strstr(c->name, with);
  const char *joint = at ? and : with;
  size_t n = strlen(c->name), file_n = strlen(file);
  /* a fit to operators takes the place of all before it, one to steps that of a correction */
  if (at && (c->correction.steps || n + sizeof and+MOST >= sizeof c->name)) {
    char *last = strstr(at, and);
    n = (size_t)((c->correction.steps && last ? last : at) - c->name);
    joint = c->correction.steps && last ? and : with;
  }
  snprintf(c->name + n, sizeof c->name - n, "%s%.*s%s", joint, file_n > MOST ? MOST - 3 : MOST,
           file, file_n > MOST ? "..." : "");
}

const char *pz_chip_name(const struct pz_chip *c) { return c->name; }

void pz_chip_describe(struct pz_chip *c) {
  if (!c->precisions) c->precisions = usual_precisions(c); /* some follow from measured rates */
  pz_calibration_none(c->glb_bytes, &c->calibration);
}

enum pz_status pz_chip_load_described(const char *chip, struct pz_chip *out, struct pz_error *err) {
  enum pz_status status = pz_chip_read(chip, out, err);
  if (status == PZ_OK) pz_chip_describe(out);
  return status;
}

double pz_chip_tensor_flop_per_s(const struct pz_chip *c) {
  return 2.0 * (double)c->tensor.cores * (double)c->tensor.rows * (double)c->tensor.cols *
         c->clock_hz;
}

double pz_chip_vector_op_per_s(const struct pz_chip *c) {
  return (double)c->vector.cores * (double)c->vector.lanes * c->clock_hz;
}

double pz_chip_hbm_bytes_per_s(const struct pz_chip *c) {
  return (double)c->hbm.stacks * c->hbm.bytes_per_s_per_stack;
}

int64_t pz_chip_hbm_bytes(const struct pz_chip *c) {
  return c->hbm.stacks * c->hbm.bytes_per_stack;
}

bool pz_chip_built(const struct pz_chip *c) {
  return c->execution == PZ_CHIP_STREAM || c->calibration.tensor_efficiency < 1;
}

enum pz_status pz_chip_can_run(const struct pz_chip *c, enum pz_precision precision,
                               struct pz_error *err) {
  char has[40] = "";
  enum pz_status status = pz_need_range("precision", (int64_t)precision, 0, PZ_PRECISIONS - 1, err);
  if (status != PZ_OK) return status;
  int set = c->precisions ? c->precisions : usual_precisions(c);
  if (!pz_chip_built(c) || set >> precision & 1) return PZ_OK;
  for (int i = 0; i < PZ_PRECISIONS; i++) {
    size_t n = strlen(has);
    if (set >> i & 1)
      snprintf(has + n, sizeof has - n, "%s%s", n ? ", " : "", pz_precision_names[i]);
  }
  return pz_fail(err, PZ_BAD_USE, "%s has no rate for precision %s; accepted: %s", c->name,
                 pz_precision_names[precision], has);
}

struct pz_chip pz_chip_part(const struct pz_chip *c, int64_t tensor_cores, int64_t vector_cores) {
  struct pz_chip part = *c;
  int64_t most = tensor_cores > vector_cores ? tensor_cores : vector_cores;
  if (tensor_cores) part.tensor.cores = tensor_cores;
  if (vector_cores) part.vector.cores = vector_cores;
  if (most && c->glb_core_bytes_per_s > 0)
    part.glb_bytes_per_s = fmin(c->glb_bytes_per_s, (double)most * c->glb_core_bytes_per_s);
  if (most && c->hbm.core_bytes_per_s > 0)
    part.hbm.bytes_per_s_per_stack =
        fmin(c->hbm.bytes_per_s_per_stack,
             (double)most * c->hbm.core_bytes_per_s / (double)c->hbm.stacks);
  return part;
}

const struct pz_kernel *pz_chip_kernel(const struct pz_chip *c, const char *kind) {
  for (int i = 0; i < c->calibration.n_kernels; i++)
    if (strcmp(c->calibration.kernels[i].kind, kind) == 0) return &c->calibration.kernels[i];
  return NULL;
}

/* ---- chips made from a base --------------------------------------------------------------------- */

static int64_t local_bytes(int64_t units, int64_t base_bytes, int64_t base_units) {
  enum { LEAST = 1024 };
  int64_t bytes = (int64_t)((double)base_bytes * (double)units / (double)base_units);
  return bytes > LEAST ? bytes : LEAST;
}

void pz_chip_resize(const struct pz_chip *base, const struct pz_chip_size *size,
                    struct pz_chip *out) {
  struct pz_chip c = *base;
  c.tensor.cores = size->tensor_cores;
  c.tensor.rows = size->rows;
  c.tensor.cols = size->cols;
  c.tensor.local_bytes = local_bytes(size->rows * size->cols, base->tensor.local_bytes,
                                     base->tensor.rows * base->tensor.cols);
  int64_t least = pz_chip_least_local_bytes(&c);
  if (c.tensor.local_bytes < least) c.tensor.local_bytes = least;
  c.vector.cores = size->vector_cores;
  c.vector.lanes = size->lanes;
  c.vector.local_bytes = local_bytes(size->lanes, base->vector.local_bytes, base->vector.lanes);
  c.glb_bytes = size->glb_bytes;
  c.watts = 0;
  c.calibrated_by = PZ_CALIBRATED_SOMEHOW;
  c.correction = (struct pz_correction){.steps = 0}; /* of the chip that was measured */
  c.package = (struct pz_package){.dies = 0};        /* that of the real chip holds its cores */
  *out = c;
}

void pz_chip_read_base(struct pz_fields *f, const char *usual, struct pz_chip *base) {
  const json_t *own = pz_fields_value(f, "base");
  if (!json_is_object(own)) {
    const char *name = pz_fields_text_or(f, "base", usual);
    struct pz_error why = {0};
    if (f->status == PZ_OK && (f->status = pz_chip_read(name, base, &why)) != PZ_OK)
      pz_fail(f->err, f->status, "%s: base: %s", f->name, why.message);
    return;
  }
  char *text = pz_json_dump(own, JSON_COMPACT), where[300];
  snprintf(where, sizeof where, "%.200s: base", f->name);
  if (!text)
    f->status = pz_fail(f->err, PZ_NO_MEMORY, "%s: out of memory", f->name);
  else if (f->status == PZ_OK)
    f->status = pz_chip_read_text(where, text, strlen(text), base, f->err);
  if (!json_object_get(own, "name")) pz_text_copy(base->name, sizeof base->name, "base");
  pz_free(text);
}

/* ---- dies that are known ------------------------------------------------------------------------ */

enum pz_status pz_known_load(const char *chip, struct pz_known *out, struct pz_error *err) {
  const char *text = pz_chip_preset_text(chip);
  json_t *root = NULL;
  *out = (struct pz_known){0};
  if (!text) return PZ_OK;
  enum pz_status status = pz_json_parse(chip, text, strlen(text), &root, err);
  if (status != PZ_OK) return status;
  struct pz_fields f = {.name = chip, .root = json_object_get(root, "known"), .err = err};
  struct pz_known k = {0};
  if (f.root) {
    pz_text_copy(k.die, sizeof k.die, pz_fields_text_or(&f, "die", ""));
    k.mm2 = pz_fields_real_or(&f, "mm2", 1, 1e6, 0);
    k.watts = pz_fields_real_or(&f, "watts", 1, 1e6, 0);
    k.fitted = pz_fields_bool_or(&f, "fitted", false);
    status = pz_fields_finish(&f);
  }
  json_decref(root);
  if (status == PZ_OK) *out = k;
  return status;
}

const char *pz_chip_line(const char *chip) {
  static const struct {
    const char *begin, *line;
  } lines[] = {{"v100", "v100"},       {"a100", "a100"},      {"h100", "hopper"},
               {"h200", "hopper"},     {"h800", "hopper"},    {"gb200", "blackwell"},
               {"gb300", "blackwell"}, {"b200", "blackwell"}, {"b300", "blackwell"},
               {"tpuv4-real", "tpuv4"}};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strncmp(chip, lines[i].begin, strlen(lines[i].begin)) == 0) return lines[i].line;
  return chip;
}
