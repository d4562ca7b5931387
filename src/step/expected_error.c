#include "step/expected_error.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "core/text.h"
#include "cost/constants.h"
#include "plan/pipeline_order.h"

/* ---- features ------------------------------------------------------------------------------- */

const char *const pz_feature_names[PZ_FEATURES] = {"chip_line", "layers",   "precision",
                                                   "framework", "sharding", "pipeline",
                                                   "devices",   "sequence", "context"};

#define LIKE "same chip line, layers, precision, framework"
const char *const pz_likeness_texts[PZ_FEATURES + 1] = {
    "all chips and frameworks",
    "same chip line",
    "same chip line and layers",
    "same chip line, layers and precision",
    LIKE,
    LIKE ", sharding",
    LIKE ", sharding, pipeline",
    LIKE ", sharding, pipeline, size",
    LIKE ", sharding, pipeline, size, sequence length",
    LIKE ", sharding, pipeline, size, sequence length, context parallelism"};

/* Values that use nothing; NULL: every value is used. */
static const char *const plain[PZ_FEATURES] = {[PZ_FEATURE_LAYERS] = "dense",
                                               [PZ_FEATURE_PRECISION] = "16-bit",
                                               [PZ_FEATURE_SHARDING] = "other",
                                               [PZ_FEATURE_PIPELINE] = "none",
                                               [PZ_FEATURE_CONTEXT] = "none"};

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

struct pz_run_features pz_run_features(const struct pz_plan *plan, const struct pz_prediction *p,
                                       const char *chip) {
  struct pz_run_features f = {.seq = (int64_t)(p->tokens / (double)plan->batch + 0.5),
                              .devices = pz_plan_devices(plan)};
  bool experts = p->active_params < p->params;
  const char *const values[PZ_FEATURES] = {
      [PZ_FEATURE_CHIP_LINE] = pz_chip_line(chip),
      [PZ_FEATURE_LAYERS] = pz_plan_adapts(plan)   ? "lora"
                            : p->scan_layers > 0   ? "state-space layers"
                            : p->sparse_layers > 0 ? "sparse attention"
                            : experts              ? "experts"
                                                   : "dense",
      [PZ_FEATURE_PRECISION] = plan->precision == PZ_PRECISION_FP8     ? "fp8"
                               : plan->precision == PZ_PRECISION_NVFP4 ? "nvfp4"
                                                                       : "16-bit",
      [PZ_FEATURE_FRAMEWORK] = pz_plan_framework(plan)->name,
      [PZ_FEATURE_SHARDING] = plan->zero == 3 ? "zero3" : "other",
      [PZ_FEATURE_PIPELINE] = plan->pp > 1 ? pz_pipeline_names[pz_plan_shape(plan).order] : "none",
      [PZ_FEATURE_SIZE] = f.devices <= 8     ? "1-8"
                          : f.devices <= 512 ? "9-512"
                                             : "513+",
      [PZ_FEATURE_SEQUENCE] = f.seq <= 4096    ? "1-4096"
                              : f.seq <= 16384 ? "4097-16384"
                                               : "16385+",
      [PZ_FEATURE_CONTEXT] = pz_plan_cp(plan) > 1 ? "cp" : "none"};
  for (int i = 0; i < PZ_FEATURES; i++) pz_text_copy(f.text[i], sizeof f.text[i], values[i]);
  f.text[PZ_FEATURE_CHIP_LINE][strcspn(f.text[PZ_FEATURE_CHIP_LINE], ",")] =
      '\0'; /* "h100, calibrated with ..." */
  return f;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* One line: runs with the same features; the longest sequence and the most devices among them. */
struct expected_row {
  struct pz_run_features f;
  unsigned rows;
  double mean, bias;
};

/* The row behind `text`; NULL: there is none.  The file is our own: a line that is no row ends it. */
static const char *next_row(const char *text, struct expected_row *r) {
  const char *at = text ? strchr(text, '\n') : NULL, *cell = at ? at + 1 : NULL;
  if (!at) return NULL;
  for (int i = 0; i < PZ_FEATURES; i++) {
    size_t n = strcspn(cell, ",\n");
    if (cell[n] != ',' || n >= sizeof r->f.text[i]) return NULL;
    memcpy(r->f.text[i], cell, n);
    r->f.text[i][n] = 0;
    cell += n + 1;
  }
  int n = sscanf(cell, "%u,%lf,%lf,%" SCNd64 ",%" SCNd64, &r->rows, &r->mean, &r->bias, &r->f.seq,
                 &r->f.devices);
  return n == 5 ? at + 1 : NULL;
}

/* What a table has that is like a run. */
struct likeness {
  struct pz_expectation sums[PZ_FEATURES + 1]; /* by the number of equal features, from the first */
  unsigned with[PZ_FEATURES];       /* features that are equal in a run with this one equal */
  int64_t longest, largest;         /* sequence, devices */
  int64_t devices[PZ_FEATURES + 1]; /* the most, by the number of equal features */
};

static void add_row(struct likeness *l, const struct expected_row *r,
                    const struct pz_run_features *f) {
  unsigned equal = 0;
  bool all = true;
  for (int i = 0; i < PZ_FEATURES; i++)
    if (strcmp(r->f.text[i], f->text[i]) == 0) equal |= 1U << i;
  for (int i = 0; i <= PZ_FEATURES && all; i++) {
    l->sums[i].runs += r->rows;
    l->sums[i].error += r->rows * r->mean;
    l->sums[i].bias += r->rows * r->bias;
    l->devices[i] = pz_max(l->devices[i], r->f.devices);
    all = equal >> i & 1;
  }
  for (int i = 0; i < PZ_FEATURES; i++)
    if (equal >> i & 1) l->with[i] |= equal;
  l->longest = pz_max(l->longest, r->f.seq);
  l->largest = pz_max(l->largest, r->f.devices);
}

/* ---- what no run has ------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void add_beyond(struct pz_expectation *e,
                                                             const char *form, ...) {
  size_t n = strlen(e->beyond);
  va_list args;
  va_start(args, form);
  if (n) n += (size_t)snprintf(e->beyond + n, sizeof e->beyond - n, "; ");
  if (n < sizeof e->beyond) vsnprintf(e->beyond + n, sizeof e->beyond - n, form, args);
  va_end(args);
}

/* A feature for people. */
static const char *feature_text(const struct pz_run_features *f, int i) {
  if (i == PZ_FEATURE_SHARDING) return "ZeRO-3";
  return i == PZ_FEATURE_CONTEXT ? "context parallelism" : f->text[i];
}

static bool uses(const struct pz_run_features *f, int i) {
  return plain[i] && strcmp(f->text[i], plain[i]) != 0;
}

static void find_numbers(const struct likeness *l, const struct pz_run_features *f,
                         struct pz_expectation *e) {
  char here[32], most[32];
  if (f->seq > l->longest)
    add_beyond(e, "sequence %s (longest validated %s)", pz_text_count(here, sizeof here, f->seq),
               pz_text_count(most, sizeof most, l->longest));
  if (f->devices > l->largest)
    add_beyond(e, "%s devices (most validated %s)", pz_text_count(here, sizeof here, f->devices),
               pz_text_count(most, sizeof most, l->largest));
}

/* A feature that no run has, or none on such a chip; then pairs of those that runs have apart. */
static void find_beyond(const struct likeness *l, const struct pz_run_features *f,
                        struct pz_expectation *e) {
  const char *line = f->text[PZ_FEATURE_CHIP_LINE];
  bool known[PZ_FEATURES] = {false};
  if (!l->with[PZ_FEATURE_CHIP_LINE]) add_beyond(e, "chip line %s", line);
  find_numbers(l, f, e);
  for (int i = 0; i < PZ_FEATURES; i++) {
    if (!uses(f, i) && i != PZ_FEATURE_FRAMEWORK) continue;
    bool here = l->with[i] & 1U << PZ_FEATURE_CHIP_LINE;
    if (!l->with[i])
      add_beyond(e, "%s", feature_text(f, i));
    else if (!here && l->with[PZ_FEATURE_CHIP_LINE])
      add_beyond(e, "%s on %s", feature_text(f, i), line);
    else
      known[i] = i != PZ_FEATURE_FRAMEWORK;
  }
  for (int i = 0; i < PZ_FEATURES; i++)
    for (int j = 0; j < i; j++)
      if (known[i] && known[j] && !(l->with[i] >> j & 1))
        add_beyond(e, "%s with %s", feature_text(f, i), feature_text(f, j));
}

/* ---- the look-up ---------------------------------------------------------------------------- */

struct pz_expectation pz_expected_error(const char *table, const struct pz_run_features *f) {
  struct likeness l = {.longest = 0};
  struct expected_row r;
  while ((table = next_row(table, &r)) != NULL) add_row(&l, &r, f);
  int equal = PZ_FEATURES;
  while (equal > 0 && l.sums[equal].runs < PZ_LEAST_EXPECTED) equal--;
  struct pz_expectation e = l.sums[equal];
  e.of = pz_likeness_texts[equal];
  e.same_chip = equal > PZ_FEATURE_CHIP_LINE;
  if (!e.runs) return e;
  e.error /= e.runs;
  e.bias /= e.runs;
  double doublings = log2((double)f->devices / (double)l.devices[equal]);
  e.error += pz_constants_default.error_growth * pz_fmax(0, doublings);
  find_beyond(&l, f, &e);
  return e;
}

struct pz_expectation pz_plan_expectation(const struct pz_plan *plan, const struct pz_prediction *p,
                                          const struct pz_chip *chip) {
  struct pz_run_features f = pz_run_features(plan, p, chip->name);
  struct pz_expectation e =
      pz_expected_error(pz_embedded_text(pz_embedded_expected, "expected_error"), &f);
  int64_t kind = pz_correction_kind(p->active_params < p->params, plan->precision);
  bool alike = chip->correction.kinds & kind;
  if (!(chip->correction.error > 0) || (!alike && chip->correction.error < e.error)) return e;
  e.runs = (uint32_t)chip->correction.steps;
  e.error = chip->correction.error;
  e.bias = 0;
  e.of = "your own steps, each predicted from the others";
  e.same_chip = true;
  return e;
}
