#include "chip/chip.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/calibration.h"
#include "chip/embedded.h"
#include "chip/tech.h"
#include "core/alloc.h"
#include "core/fields.h"
#include "core/file.h"
#include "core/num.h"
#include "core/text.h"

/* Sizes beyond these are taken for mistakes. */
static const struct pz_range CORES = {1, 1 << 20}, SIDE = {1, 1 << 14}, BUFFER = {1, 1LL << 40},
                             REGISTERS = {2, 1 << 20}, STACKS = {1, 1024}, STACK = {1, 1LL << 50},
                             WORD = {1, 16};
static const double LEAST_RATE = 1, MOST_RATE = 1e18;

const char *const pz_chip_execution_names[] = {"scheduled", "stream", NULL};

static void read_tensor(struct pz_fields *f, struct pz_tensor_cores *t) {
  t->cores = pz_fields_int(f, "tensor.cores", CORES);
  t->rows = pz_fields_int(f, "tensor.rows", SIDE);
  t->cols = pz_fields_int(f, "tensor.cols", SIDE);
  t->local_bytes = pz_fields_int(f, "tensor.local_bytes", BUFFER);
  t->register_bytes = pz_fields_int_or(f, "tensor.register_bytes", REGISTERS, 32);
  t->local_bytes_per_s = pz_fields_real_or(f, "tensor.local_bytes_per_s", LEAST_RATE, MOST_RATE, 0);
  t->local_total_bytes_per_s =
      pz_fields_real_or(f, "tensor.local_total_bytes_per_s", LEAST_RATE, MOST_RATE, 0);
}

static void read_vector(struct pz_fields *f, struct pz_vector_cores *v) {
  v->cores = pz_fields_int(f, "vector.cores", CORES);
  v->lanes = pz_fields_int(f, "vector.lanes", CORES);
  int64_t standard = pz_max(16 * v->lanes, 1024);
  v->local_bytes = pz_fields_int_or(f, "vector.local_bytes", BUFFER, standard);
}

static void read_rules(struct pz_fields *f, struct pz_rules *r) {
  r->fill = pz_fields_bool_or(f, "rules.fill", true);
  r->duplex = pz_fields_bool_or(f, "rules.duplex", false);
  r->partitioned = pz_fields_bool_or(f, "rules.partitioned", false);
  r->double_buffer = pz_fields_bool_or(f, "rules.double_buffer", true);
  r->nested_mapping = pz_fields_bool_or(f, "rules.nested_mapping", true);
  r->rate_levels = pz_fields_bool_or(f, "rules.rate_levels", true);
  r->vector_memory = pz_fields_bool_or(f, "rules.vector_memory", true);
  r->operand_bytes = pz_fields_int_or(f, "rules.operand_bytes", WORD, 2);
  r->sum_bytes = pz_fields_int_or(f, "rules.sum_bytes", WORD, 4);
}

static void read_tech(struct pz_fields *f, const char *key, const char *absent,
                      enum pz_tech *tech) {
  char names[64], accepted[80];
  const char *name = pz_fields_text_or(f, key, absent);
  for (*tech = 0; *tech < PZ_TECHS; (*tech)++)
    if (strcmp(pz_tech_at(*tech)->name, name) == 0) return;
  *tech = PZ_TECH_22NM;
  snprintf(accepted, sizeof accepted, "one of %s",
           pz_text_join(names, sizeof names, pz_tech_name_at, NULL));
  pz_fields_refuse(f, key, accepted);
}

static void read_execution(struct pz_fields *f, enum pz_chip_execution *out) {
  const char *name = pz_fields_text_or(f, "execution", pz_chip_execution_names[PZ_CHIP_SCHEDULED]);
  for (int i = 0; i < PZ_CHIP_EXECUTIONS; i++)
    if (strcmp(pz_chip_execution_names[i], name) == 0) {
      *out = (enum pz_chip_execution)i;
      return;
    }
  pz_fields_refuse(f, "execution", "scheduled or stream");
}

static void read_package(struct pz_fields *f, struct pz_chip *c) {
  static const struct pz_range DIES = {0, 64}, COUNT = {0, 1 << 20}, BYTES = {0, 1LL << 40};
  struct pz_package *p = &c->package;
  p->dies = pz_fields_int_or(f, "package.dies", DIES, 0);
  p->io_dies = pz_fields_int_or(f, "package.io_dies", DIES, 0);
  read_tech(f, "package.tech", pz_tech_at(c->tech)->name, &p->tech);
  read_tech(f, "package.io_tech", pz_tech_at(c->tech)->name, &p->io_tech);
  p->cores = pz_fields_int_or(f, "package.cores", COUNT, 0);
  p->vector_cores = pz_fields_int_or(f, "package.vector_cores", COUNT, 0);
  p->core_bytes = pz_fields_int_or(f, "package.core_bytes", BYTES, 0);
  p->fp64_units = pz_fields_int_or(f, "package.fp64_units", COUNT, 0);
  p->sram_bytes = pz_fields_int_or(f, "package.sram_bytes", BYTES, 0);
  p->stacks = pz_fields_int_or(f, "package.stacks", COUNT, 0);
  p->die_bytes_per_s = pz_fields_real_or(f, "package.die_bytes_per_s", 0, MOST_RATE, 0);
  if (p->io_dies && pz_tech_is_library(pz_tech_at(p->io_tech)))
    pz_fields_refuse(f, "package.io_tech", "16nm, 7nm, 5nm or 3nm where there are I/O dies");
}

/* What one core can draw; all of them together can draw everything. */
static double read_core_rate(struct pz_fields *f, const char *key, const struct pz_chip *c,
                             double rate) {
  int64_t t = c->tensor.cores, v = c->vector.cores;
  double least = rate / (double)pz_min(t, v);
  return pz_fields_real_or(f, key, least > 0 ? least : LEAST_RATE, MOST_RATE, 0);
}

/* Without a list: 16 bit of both kinds, and fp8 where there is a rate for it. */
static int usual_precisions(const struct pz_chip *c) {
  return 1 << PZ_PRECISION_BF16 | 1 << PZ_PRECISION_FP16 |
         (c->calibration.fp8_speedup > 1) << PZ_PRECISION_FP8;
}

/* "fp16 bf16": words with a space between. */
static void read_precisions(struct pz_fields *f, struct pz_chip *c) {
  const char *at = pz_fields_text_or(f, "precisions", "");
  c->precisions = 0;
  while (*(at += strspn(at, " "))) {
    size_t n = strcspn(at, " ");
    int i = 0;
    while (i < PZ_PRECISIONS &&
           (strlen(pz_precision_names[i]) != n || strncmp(pz_precision_names[i], at, n) != 0))
      i++;
    if (i < PZ_PRECISIONS)
      c->precisions |= 1 << i;
    else
      pz_fields_refuse(f, "precisions", "words among bf16, fp8 and fp16 with a space between");
    at += n;
  }
}

static void read_chip(struct pz_fields *f, struct pz_chip *c) {
  /* where numbers are from; what 'phaze chip --json' says besides */
  static const char *const words[] = {"sources", "derived",  "area",    "known",
                                      "bill",    "area_mm2", "dollars", "ranges"};
  pz_text_plain(pz_text_copy(c->name, sizeof c->name, pz_fields_text_or(f, "name", f->name)));
  pz_text_copy(c->about, sizeof c->about, pz_fields_text_or(f, "about", ""));
  read_tech(f, "tech", "", &c->tech);
  read_execution(f, &c->execution);
  c->clock_hz = pz_fields_real(f, "clock_hz", 1, 1e12);
  read_tensor(f, &c->tensor);
  read_vector(f, &c->vector);
  c->glb_bytes = pz_fields_int(f, "glb.bytes", BUFFER);
  c->glb_bytes_per_s = pz_fields_real(f, "glb.bytes_per_s", LEAST_RATE, MOST_RATE);
  c->hbm.stacks = pz_fields_int(f, "hbm.stacks", STACKS);
  c->hbm.bytes_per_stack = pz_fields_int(f, "hbm.bytes_per_stack", STACK);
  c->hbm.bytes_per_s_per_stack =
      pz_fields_real(f, "hbm.bytes_per_s_per_stack", LEAST_RATE, MOST_RATE);
  c->glb_core_bytes_per_s = read_core_rate(f, "glb.core_bytes_per_s", c, c->glb_bytes_per_s);
  c->hbm.core_bytes_per_s =
      read_core_rate(f, "hbm.core_bytes_per_s", c, pz_chip_hbm_bytes_per_s(c));
  c->watts = pz_fields_real_or(f, "watts", 0, 1e6, 0);
  c->link_bytes_per_s = pz_fields_real_or(f, "link.bytes_per_s", LEAST_RATE, MOST_RATE, 0);
  c->link_latency_s = pz_fields_real_or(f, "link.latency_s", 0, 1, 0);
  c->collectives.efficiency = pz_fields_real_or(f, "link.efficiency", 0.01, 1, 0);
  c->collectives.startup_s = pz_fields_real_or(f, "link.startup_s", 0, 1, 0);
  c->collectives.switch_efficiency = pz_fields_real_or(f, "link.switch_efficiency", 0.01, 1, 0);
  read_rules(f, &c->rules);
  read_package(f, c);
  pz_calibration_read(f, c->glb_bytes, &c->calibration);
  read_precisions(f, c);
  pz_fields_allow(f, words, sizeof words / sizeof *words);
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

static void check_least(struct pz_fields *f, const char *key, int64_t value, int64_t least,
                        const char *of) {
  char accepted[80];
  snprintf(accepted, sizeof accepted, "at least the %" PRId64 " %s", least, of);
  if (f->status == PZ_OK && value < least) pz_fields_refuse(f, key, accepted);
}

static void check_buffers(struct pz_fields *f, const struct pz_chip *c) {
  const struct pz_calibration *lib = &c->calibration;
  if (f->status != PZ_OK) return;
  check_least(f, "tensor.local_bytes", c->tensor.local_bytes, pz_chip_least_local_bytes(c),
              "bytes of the smallest tile");
  check_least(f, "glb.bytes", c->glb_bytes, pz_chip_least_glb_bytes(c),
              "bytes of the smallest tile");
  check_least(f, "tensor.register_bytes", c->tensor.register_bytes,
              pz_max(c->rules.operand_bytes, c->rules.sum_bytes), "bytes of one value");
  if (lib->n_tiles)
    check_least(f, "calibration.most_tile_values", lib->most_tile_values,
                lib->tiles[0] * lib->tiles[0], "values of the smallest tile");
}

enum pz_status pz_chip_parse(const char *name, const char *text, size_t bytes, struct pz_chip *out,
                             struct pz_error *err) {
  json_t *root = NULL;
  enum pz_status status = pz_need_each(err, {name, "name"}, {text, "text"}, {out, "out"});
  if (status == PZ_OK) status = pz_json_parse(name, text, bytes, &root, err);
  if (status != PZ_OK) return status;
  struct pz_fields f = {.name = name, .root = root, .err = err};
  struct pz_chip chip = {0};
  read_chip(&f, &chip);
  check_buffers(&f, &chip);
  status = pz_fields_finish(&f);
  json_decref(root);
  if (status == PZ_OK) *out = chip;
  return status;
}

const char *pz_chip_preset_name(size_t i) { return pz_embedded_name(pz_embedded_chips, i); }

const char *pz_chip_preset_text(const char *name) {
  return name ? pz_embedded_text(pz_embedded_chips, name) : NULL;
}

static const char *preset_name(const void *ctx, size_t i) {
  (void)ctx;
  return pz_chip_preset_name(i);
}

static enum pz_status unknown_chip(const char *chip, struct pz_error *err) {
  char meant[240];
  return pz_fail(err, PZ_BAD_INPUT,
                 "unknown chip '%s'%s; accepted: a name listed by 'phaze chips', or the path of a "
                 "chip.json",
                 chip, pz_text_meant(meant, sizeof meant, chip, preset_name, NULL));
}

enum pz_status pz_chip_load(const char *chip, struct pz_chip *out, struct pz_error *err) {
  const char *preset = pz_chip_preset_text(chip);
  if (!chip || !out) return pz_need(NULL, chip ? "out" : "chip", err);
  if (preset) return pz_chip_parse(chip, preset, strlen(preset), out, err);
  if (!pz_file_named(chip)) return unknown_chip(chip, err);
  size_t bytes = 0;
  char *text = NULL;
  enum pz_status status = pz_file_read(chip, PZ_CHIP_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_chip_parse(chip, text, bytes, out, err);
  pz_free(text);
  return status;
}

enum pz_status pz_chip_load_described(const char *chip, struct pz_chip *out, struct pz_error *err) {
  enum pz_status status = pz_chip_load(chip, out, err);
  if (status != PZ_OK) return status;
  if (!out->precisions)
    out->precisions = usual_precisions(out); /* some follow from measured rates */
  pz_calibration_none(out->glb_bytes, &out->calibration);
  return PZ_OK;
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
