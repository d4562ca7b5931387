#include "report/comparison.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "report/original_table.h"
#include "report/ratios.h"
#include "study/result_json.h"

/* Seconds that methods took, by objective run and name. */
static json_t *timing_json(const struct pz_comparison *c) {
  json_t *timing = json_object();
  for (uint32_t i = 0; i < c->n_runs; i++) {
    json_t *one = json_object();
    for (uint32_t k = 0; k < c->runs[i].n_methods; k++) {
      const struct pz_method_result *m = &c->runs[i].methods[k];
      if (m->seconds > 0) json_object_set_new(one, m->name, json_real(m->seconds));
    }
    json_object_set_new(timing, c->runs[i].name, one);
  }
  return timing;
}

json_t *pz_comparison_report_json(const struct pz_result *r) {
  enum pz_objective_kind kind = r->inputs.options.objective;
  json_t *root = pz_comparison_json(r);
  json_t *rest =
      json_pack("{s:{s:s,s:s},s:o,s:o,s:o}", "objective", "name", pz_objective_names[kind],
                "meaning", pz_objective_unit(kind), "original_reports", pz_original_reported_json(),
                "inputs", pz_result_inputs_json(r), "timing", timing_json(r->comparison));
  bool good = root && rest && json_object_update(root, rest) == 0;
  json_decref(rest);
  if (good) return root;
  json_decref(root);
  return NULL;
}

/* ---- text ----------------------------------------------------------------------------------- */

/* The chip; "-" where the method has no answer. */
static void put_chip(struct pz_table *t, const struct pz_method_result *m) {
  pz_table_cell(t, "%s", m->chip ? m->chip : "-");
  if (m->chip) {
    pz_table_cell(t, "%.0f", m->hbm_gib);
    pz_table_cell(t, "%.1f", m->area_mm2);
  } else {
    pz_table_cell(t, "-");
    pz_table_cell(t, "-");
  }
}

/* How much it looked at and how long that took; "-" for what a run had kept. */
static void put_effort(struct pz_table *t, const struct pz_method_result *m) {
  pz_table_cell(t, "%u", m->n_evaluated);
  if (m->seconds > 0)
    pz_table_cell(t, "%.2f", m->seconds);
  else
    pz_table_cell(t, "-");
}

/* One model by itself. */
static enum pz_status print_run(const struct pz_comparison_run *run, struct pz_arena *arena,
                                FILE *out) {
  static const char *const heads[] = {"method",       "chip",       ">hbm GiB",
                                      ">mm2",         ">samples/s", ">reference",
                                      ">chips tried", ">seconds",   NULL};
  struct pz_table t;
  char buf[32];
  fprintf(out, "%s\n", run->name);
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < run->n_methods; i++) {
    const struct pz_method_result *m = &run->methods[i];
    pz_table_cell(&t, "%s", m->name);
    put_chip(&t, m);
    pz_table_cell(&t, "%s", pz_text_number(buf, sizeof buf, m->models[0].samples_per_s));
    pz_ratio_cell(&t, m->models[0].samples_per_s, m->models[0].ratio);
    put_effort(&t, m);
  }
  enum pz_status status = pz_table_print(&t, 0, out);
  fputc('\n', out);
  return status;
}

static void put_median(struct pz_table *t, const struct pz_ratios *r) {
  if (r->n_models > 1)
    pz_table_cell(t, "%.2fx", r->median);
  else
    pz_table_cell(t, "-");
}

/* A mean may rest on one model: what is beside it for the searched chip, the last method. */
static void print_range(const struct pz_method_result *search, FILE *out) {
  if (search->ratios.n_models < 2) return;
  fprintf(out, "\nThe searched chip: %.4g times the reference (", search->ratios.geometric_mean);
  pz_ratios_print(&search->ratios, out);
  fprintf(out, ").\n");
}

/* One chip for all: a column for each model, as far as there is room. */
static enum pz_status print_common(const struct pz_result *r, const struct pz_comparison_run *run,
                                   struct pz_arena *arena, FILE *out) {
  enum { BEFORE = 4, AFTER = 4 };
  const char *heads[PZ_TABLE_MOST_COLUMNS + 1] = {"method", "chip", ">hbm GiB", ">mm2"};
  uint32_t most = PZ_TABLE_MOST_COLUMNS - 1 - BEFORE - AFTER, n = run->methods[0].n_models;
  struct pz_table t;
  if (n > most) n = most;
  for (uint32_t k = 0; k < n; k++) {
    heads[BEFORE + k] = pz_arena_printf(arena, ">%s", run->methods[0].models[k].model);
    if (!heads[BEFORE + k]) return PZ_NO_MEMORY;
  }
  heads[BEFORE + n] = ">objective";
  heads[BEFORE + n + 1] = ">median";
  heads[BEFORE + n + 2] = ">chips tried";
  heads[BEFORE + n + 3] = ">seconds";
  fprintf(out, "One chip for all models: throughput over the reference; objective: %s\n",
          pz_objective_unit(r->inputs.options.objective));
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < run->n_methods; i++) {
    const struct pz_method_result *m = &run->methods[i];
    pz_table_cell(&t, "%s", m->name);
    put_chip(&t, m);
    for (uint32_t k = 0; k < n; k++)
      pz_ratio_cell(&t, m->models[k].samples_per_s, m->models[k].ratio);
    pz_table_cell(&t, "%.4g", m->objective);
    put_median(&t, &m->ratios);
    put_effort(&t, m);
  }
  enum pz_status status = pz_table_print(&t, 0, out);
  fprintf(out, "A chip for each model alone: --json, the report, or 'phaze compare MODEL'.\n");
  print_range(&run->methods[run->n_methods - 1], out);
  return status;
}

/* What the original system's authors report, and what ours is. */
static void print_original(const struct pz_method_result *m, FILE *out) {
  fputc('\n', out);
  pz_original_reported_print(out);
  fprintf(out,
          "Here: %.4g times, %.1f%% of the area, %" PRId64 " vector cores of %" PRId64
          " lanes, %" PRId64 " tensor cores of %" PRId64 "x%" PRId64
          ", %.0f GiB.\n--original-assumptions shows why they differ.\n",
          m->objective, 100 * m->area_part, m->vector_cores, m->lanes, m->tensor_cores, m->rows,
          m->cols, m->hbm_gib);
}

/* Rows called expert that are not. */
static void print_no_experts(const struct pz_comparison *c, FILE *out) {
  for (uint32_t i = 0; i < c->n_runs; i++) {
    const struct pz_method_result *first = &c->runs[i].methods[0];
    if (first->n_models == 1 && !first->models[0].expert_plan)
      fprintf(out, "%s: no expert plan is known or fits; its expert rows have the best plan.\n",
              first->models[0].model);
  }
}

enum pz_status pz_comparison_print(const struct pz_result *r, struct pz_arena *arena, FILE *out) {
  const struct pz_comparison *c = r->comparison;
  const struct pz_comparison_run *last = &c->runs[c->n_runs - 1];
  bool many = c->n_runs > 1;
  enum pz_status status = many ? print_common(r, last, arena, out) : print_run(last, arena, out);
  if (status != PZ_OK) return status;
  print_no_experts(c, out);
  if (many && r->inputs.options.objective == PZ_OBJECTIVE_GEOMEAN)
    print_original(&last->methods[last->n_methods - 1], out);
  return PZ_OK;
}

/* ---- chips beside each other ---------------------------------------------------------------- */

struct chips_table {
  const json_t *rows; /* of one chip after another, one for each model */
  const struct pz_study_options *o;
  size_t n; /* chips */
};

static const json_t *row_at(const struct chips_table *x, size_t chip, uint32_t model) {
  return json_array_get(x->rows, chip * x->o->n_models + model);
}

static double real(const json_t *row, const char *key) {
  return json_number_value(json_object_get(row, key));
}

static const char *text(const json_t *row, const char *key) {
  return json_string_value(json_object_get(row, key));
}

static void number_cell(struct pz_table *t, const json_t *row, const char *key) {
  char buf[32];
  pz_table_cell(t, "%s", pz_text_number(buf, sizeof buf, real(row, key)));
}

/* "-" where there is none. */
static void known_cell(struct pz_table *t, double v, int decimals, const char *unit) {
  if (v > 0)
    pz_table_cell(t, "%.*f%s", decimals, v, unit);
  else
    pz_table_cell(t, "-");
}

static enum pz_status print_model(const struct chips_table *x, uint32_t model,
                                  struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"chip", ">step s",   ">samples/s", ">ratio", ">MFU",
                                      ">W",   ">J/sample", "plan",       NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (size_t i = 0; i < x->n; i++) {
    const json_t *row = row_at(x, i, model);
    pz_table_cell(&t, "%s", text(row, "chip"));
    if (!text(row, "plan")) {
      for (int k = 0; k < 6; k++) pz_table_cell(&t, "-");
      pz_table_cell(&t, "no feasible plan: memory");
      continue;
    }
    number_cell(&t, row, "step_s");
    number_cell(&t, row, "samples_per_s");
    known_cell(&t, real(row, "ratio"), 2, "x");
    pz_table_cell(&t, "%.0f%%", 100 * real(row, "mfu"));
    pz_table_cell(&t, "%.0f", real(row, "watts"));
    number_cell(&t, row, "joules_per_sample");
    pz_table_cell(&t, "%s", text(row, "plan"));
  }
  fprintf(out, "%s on %" PRId64 " devices, batch %" PRId64 ":\n\n", x->o->models[model],
          x->o->devices, x->o->batch);
  enum pz_status status = pz_table_print(&t, 0, out);
  fputc('\n', out);
  return status;
}

/* Geometric mean over the models of a chip's number over the first chip's; 0: one of them does not fit. */
static double mean_over_first(const struct chips_table *x, size_t chip, const char *key) {
  double sum = 0;
  for (uint32_t m = 0; m < x->o->n_models; m++)
    sum += log(real(row_at(x, chip, m), key) / real(row_at(x, 0, m), key));
  return isfinite(sum) ? exp(sum / x->o->n_models) : 0;
}

/* The chips themselves, and what their throughput costs. */
static enum pz_status print_bills(const struct chips_table *x, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"chip",   "known",   ">error",  ">TFLOP/s", ">GHz",
                                      ">mm2",   ">peak W", ">TDP",    ">$",       ">throughput",
                                      ">per J", ">per $",  "network", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (size_t i = 0; i < x->n; i++) {
    const json_t *row = row_at(x, i, 0);
    double ratio = mean_over_first(x, i, "samples_per_s");
    pz_table_cell(&t, "%s", text(row, "chip"));
    pz_table_cell(&t, "%s", text(row, "known"));
    known_cell(&t, 100 * real(row, "expected_error"), 1, "%");
    pz_table_cell(&t, "%.0f", real(row, "tensor_flop_per_s") / 1e12);
    pz_table_cell(&t, "%.2f", real(row, "clock_hz") / 1e9);
    pz_table_cell(&t, "%.0f", real(row, "area_mm2"));
    pz_table_cell(&t, "%.0f", real(row, "peak_watts"));
    known_cell(&t, real(row, "tdp_watts"), 0, "");
    pz_table_cell(&t, "%.0f", real(row, "dollars"));
    known_cell(&t, ratio, 2, "x");
    known_cell(&t, ratio > 0 ? 1 / mean_over_first(x, i, "joules_per_sample") : 0, 2, "x");
    known_cell(&t, ratio * real(row_at(x, 0, 0), "dollars") / real(row, "dollars"), 2, "x");
    pz_table_cell(&t, "%s", text(row, "cluster"));
  }
  return pz_table_print(&t, 0, out);
}

static void print_notes(const struct chips_table *x, FILE *out) {
  fprintf(
      out,
      "\nRatios are to %s%s. Area, peak W and dollars are those of one bill for all chips ('phaze\n"
      "chip'), W and J/sample those of the plan's operators and static power.\n"
      "error: mean over chips known in the same way of the errors of their published runs, dense "
      "in\n"
      "16 bits. Measured are operators; cold is a chip by its data sheet and what all chips of "
      "its\n"
      "class reach, with more error where no run of it was used (doc/unbuilt.md).\n",
      text(row_at(x, 0, 0), "chip"),
      x->o->n_models > 1 ? ", throughput by the geometric mean over the models" : "");
}

enum pz_status pz_compared_chips_print(const json_t *root, const struct pz_study_options *o,
                                       struct pz_arena *arena, FILE *out) {
  const json_t *rows = json_object_get(root, "chips");
  struct chips_table x = {rows, o, json_array_size(rows) / o->n_models};
  enum pz_status status = PZ_OK;
  for (uint32_t m = 0; m < o->n_models && status == PZ_OK; m++)
    status = print_model(&x, m, arena, out);
  if (status == PZ_OK) status = print_bills(&x, arena, out);
  print_notes(&x, out);
  return status;
}

/* ---- rented chips --------------------------------------------------------------------------- */

static bool is_true(const json_t *row, const char *key) {
  return json_is_true(json_object_get(row, key));
}

static bool is_deadline(const json_t *row, const char *word) {
  const char *deadline = text(row, "deadline");
  return deadline && strcmp(deadline, word) == 0;
}

static bool is_missed(const json_t *row) { return is_deadline(row, "missed"); }

/* 1,050,000; below 10 with its cents and less.  Returns buf. */
static char *dollars_text(char *buf, size_t size, double dollars) {
  return dollars < 10 ? pz_text_number(buf, size, dollars)
                      : pz_text_count(buf, size, (int64_t)floor(dollars + 0.5));
}

/* "950,000 to 1,050,000", "-" where the error is not known. */
static void range_cell(struct pz_table *t, const json_t *row) {
  char low[40], high[40];
  if (!(real(row, "run_dollars_high") > 0)) {
    pz_table_cell(t, "-");
    return;
  }
  pz_table_cell(t, "%s to %s", dollars_text(low, sizeof low, real(row, "run_dollars_low")),
                dollars_text(high, sizeof high, real(row, "run_dollars_high")));
}

static void rented_row(struct pz_table *t, const json_t *row, bool price, bool deadline) {
  bool fits = text(row, "plan");
  pz_table_cell(t, "%s", text(row, "chip"));
  pz_table_cell(t, "%.0f", real(row, "devices"));
  known_cell(t, real(row, "days"), 1, "");
  if (deadline) pz_table_cell(t, "%s", fits ? text(row, "deadline") : "-");
  if (price && fits) {
    pz_table_number(t, real(row, "run_dollars"));
    range_cell(t, row);
    number_cell(t, row, "dollars_per_device_hour");
    pz_table_number(t, real(row, "tokens_per_dollar"));
  }
  for (int i = 0; price && !fits && i < 4; i++) pz_table_cell(t, "-");
  pz_table_cell(t, "%s", text(row, "known"));
  known_cell(t, 100 * real(row, "expected_error"), 1, "%");
  pz_table_cell(t, "%s", fits ? text(row, "plan") : "no feasible plan: memory");
}

/* The row to rent, and those that the errors do not tell from it. */
static void print_cheapest(const struct chips_table *x, uint32_t model, const char *deadline,
                           FILE *out) {
  const json_t *best = NULL, *nearest = NULL;
  char dollars[40];
  for (size_t i = 0; i < x->n; i++) {
    const json_t *row = row_at(x, i, model);
    if (is_true(row, "cheapest")) best = row;
    if (text(row, "plan") && (!nearest || real(row, "days") < real(nearest, "days"))) nearest = row;
  }
  if (!nearest) return;
  const json_t *row = best ? best : nearest;
  bool missed = is_missed(row);
  if (!best && !missed) return; /* without prices */
  fprintf(out,
          missed     ? "\nno chip ends within %s%s"
          : deadline ? "\ncheapest within %s%s"
                     : "\ncheapest%s%s",
          deadline ? deadline : "", missed ? "; nearest" : "");
  fprintf(out, ": %.0f x %s, %.1f days", real(row, "devices"), text(row, "chip"),
          real(row, "days"));
  if (real(row, "run_dollars") > 0)
    fprintf(out, ", $%s", dollars_text(dollars, sizeof dollars, real(row, "run_dollars")));
  if (is_deadline(row, "uncertain"))
    fprintf(out, " (uncertain: %.1f days at the upper end of its error)", real(row, "days_high"));
  const char *before = "; within the errors as cheap: ";
  for (size_t i = 0; best && i < x->n; i++) {
    const json_t *other = row_at(x, i, model);
    if (other == best || !text(other, "plan") || is_missed(other)) continue;
    if (real(other, "run_dollars_low") > real(best, "run_dollars_high")) continue;
    fprintf(out, "%s%.0f x %s", before, real(other, "devices"), text(other, "chip"));
    before = ", ";
  }
  fputc('\n', out);
}

bool pz_compared_chips_none(const json_t *root, const struct pz_study_options *o) {
  const json_t *rows = json_object_get(root, "chips");
  struct chips_table x = {rows, o, json_array_size(rows) / o->n_models};
  bool none = false;
  for (uint32_t m = 0; m < o->n_models; m++) {
    size_t missed = 0;
    for (size_t i = 0; i < x.n; i++)
      missed += !text(row_at(&x, i, m), "plan") || is_missed(row_at(&x, i, m));
    none |= missed == x.n;
  }
  return none;
}

enum pz_status pz_rented_chips_print(const json_t *root, const struct pz_study_options *o,
                                     const struct pz_rent_titles *titles, struct pz_arena *arena,
                                     FILE *out) {
  const json_t *rows = json_object_get(root, "chips");
  struct chips_table x = {rows, o, json_array_size(rows) / o->n_models};
  bool price = false;
  for (size_t i = 0; i < json_array_size(rows); i++)
    price |= real(json_array_get(rows, i), "run_dollars") > 0;
  const char *heads[12] = {"chip", ">devices", ">days"};
  size_t n = 3;
  if (titles->deadline) heads[n++] = "deadline";
  if (price)
    heads[n++] = ">dollars", heads[n++] = ">range", heads[n++] = ">$/h", heads[n++] = ">tokens/$";
  heads[n++] = "known", heads[n++] = ">error", heads[n] = "plan";
  enum pz_status status = PZ_OK;
  for (uint32_t m = 0; m < o->n_models && status == PZ_OK; m++) {
    struct pz_table t;
    pz_table_init(&t, arena, heads);
    for (size_t i = 0; i < x.n; i++) rented_row(&t, row_at(&x, i, m), price, titles->deadline);
    fprintf(out, "%s, %s tokens, batch %" PRId64 "%s%s:\n\n", o->models[m], titles->tokens,
            o->batch, titles->deadline ? ", within " : "",
            titles->deadline ? titles->deadline : "");
    status = pz_table_print(&t, 0, out);
    if (status == PZ_OK) print_cheapest(&x, m, titles->deadline, out);
    fputc('\n', out);
  }
  fprintf(out,
          "Counted is training alone: no failures, checkpoints, restarts, storage or traffic "
          "('phaze predict\n"
          "--mtbf-hours' has failures). error: mean over chips known in the same way of the errors "
          "of their\n"
          "published runs; range: dollars with that error.%s\n",
          titles->deadline ? " uncertain: in time, but not at the upper end of it." : "");
  return status;
}
