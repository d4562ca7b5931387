/* Comparisons as JSON and as tables.  pz_comparison_*() print the searched chip beside the baselines;
 * pz_compared_chips_*() and pz_rented_chips_*() print the JSON of pz_chips_compare() and pz_chips_rent(), whose list "chips"
 * has one row for each chip and model, all models of a chip together. */
#include "report/comparison.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "report/original_table.h"
#include "report/ratios.h"
#include "study/result_json.h"

/* Returns the time of each method in seconds, by objective run and name. */
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

json_t *pz_comparison_document(struct pz_call *call, const struct pz_result *r) {
  enum pz_objective_kind kind = r->inputs.options.objective;
  json_t *root = pz_json_built(call, pz_comparison_json(r));
  json_t *rest = pz_json_built(
      call,
      json_pack("{s:{s:s,s:s},s:o,s:o,s:o}", "objective", "name", pz_objective_names[kind],
                "meaning", pz_objective_unit(kind), "original_reports", pz_original_reported_json(),
                "inputs", pz_result_inputs_json(r), "timing", timing_json(r->comparison)));
  if (json_object_update(root, rest) != 0)
    pz_raise(call, PZ_NO_MEMORY, "out of memory while building JSON");
  return root;
}

/* ---- baselines as tables -------------------------------------------------------------------- */

/* Chip, HBM and area; "-" if the method has no answer. */
static void chip_cells(struct pz_table *t, const struct pz_method_result *m) {
  bool found = m->chip != NULL;
  pz_table_known(t, found, "%s", found ? m->chip : "");
  pz_table_known(t, found, "%.0f", m->hbm_gib);
  pz_table_known(t, found, "%.1f", m->area_mm2);
}

/* The number of chips tried and the time; the time is unknown for results that were read from a saved run. */
static void effort_cells(struct pz_table *t, const struct pz_method_result *m) {
  pz_table_cell(t, "%u", m->n_evaluated);
  pz_table_known(t, m->seconds > 0, "%.2f", m->seconds);
}

/* Prints the comparison for one model. */
static void print_one_model(struct pz_call *call, const struct pz_comparison_run *run, FILE *out) {
  static const char *const heads[] = {"method",       "chip",       ">hbm GiB",
                                      ">mm2",         ">samples/s", ">reference",
                                      ">chips tried", ">seconds",   NULL};
  struct pz_table *t = pz_table_new(call, heads);
  char buf[32];
  for (uint32_t i = 0; i < run->n_methods; i++) {
    const struct pz_method_result *m = &run->methods[i];
    pz_table_cell(t, "%s", m->name);
    chip_cells(t, m);
    pz_table_cell(t, "%s", pz_text_number(buf, sizeof buf, m->models[0].samples_per_s));
    pz_ratio_cell(t, m->models[0].samples_per_s, m->models[0].ratio);
    effort_cells(t, m);
  }
  fprintf(out, "%s\n", run->name);
  pz_table_print(t, 0, out);
  fputc('\n', out);
}

/* Prints the comparison of one chip for all models: a column for each model as far as there is room. */
static void print_common_chip(struct pz_call *call, const struct pz_result *r,
                              const struct pz_comparison_run *run, FILE *out) {
  enum { BEFORE = 4, AFTER = 4, MOST_MODELS = PZ_TABLE_MOST_COLUMNS - 1 - BEFORE - AFTER };
  const char *heads[PZ_TABLE_MOST_COLUMNS + 1] = {"method", "chip", ">hbm GiB", ">mm2"};
  uint32_t n = run->methods[0].n_models;
  if (n > MOST_MODELS) n = MOST_MODELS;
  for (uint32_t k = 0; k < n; k++)
    heads[BEFORE + k] = pz_format(call, ">%s", run->methods[0].models[k].model);
  heads[BEFORE + n] = ">objective";
  heads[BEFORE + n + 1] = ">median";
  heads[BEFORE + n + 2] = ">chips tried";
  heads[BEFORE + n + 3] = ">seconds";
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < run->n_methods; i++) {
    const struct pz_method_result *m = &run->methods[i];
    pz_table_cell(t, "%s", m->name);
    chip_cells(t, m);
    for (uint32_t k = 0; k < n; k++)
      pz_ratio_cell(t, m->models[k].samples_per_s, m->models[k].ratio);
    pz_table_cell(t, "%.4g", m->objective);
    pz_table_known(t, m->ratios.n_models > 1, "%.2fx", m->ratios.median);
    effort_cells(t, m);
  }
  fprintf(out, "One chip for all models: throughput over the reference; objective: %s\n",
          pz_objective_unit(r->inputs.options.objective));
  pz_table_print(t, 0, out);
  fprintf(out, "A chip for each model alone: --json, the report, or 'phaze compare MODEL'.\n");
  const struct pz_ratios *searched = &run->methods[run->n_methods - 1].ratios;
  if (searched->n_models < 2) return;
  fprintf(out, "\nThe searched chip: %.4g times the reference (", searched->geometric_mean);
  pz_ratios_print(searched, out);
  fprintf(out, ").\n");
}

void pz_comparison_table(struct pz_call *call, const struct pz_result *r, FILE *out) {
  const struct pz_comparison *c = r->comparison;
  const struct pz_comparison_run *last = &c->runs[c->n_runs - 1];
  bool several_models = c->n_runs > 1;
  if (several_models)
    print_common_chip(call, r, last, out);
  else
    print_one_model(call, last, out);
  for (uint32_t i = 0; i < c->n_runs; i++) {
    const struct pz_method_result *first = &c->runs[i].methods[0];
    if (first->n_models == 1 && !first->models[0].expert_plan)
      fprintf(out, "%s: no expert plan is known or fits; its expert rows have the best plan.\n",
              first->models[0].model);
  }
  if (!several_models || r->inputs.options.objective != PZ_OBJECTIVE_GEOMEAN) return;
  const struct pz_method_result *m = &last->methods[last->n_methods - 1];
  fputc('\n', out);
  pz_original_reported_print(out);
  fprintf(out,
          "Here: %.4g times, %.1f%% of the area, %" PRId64 " vector cores of %" PRId64
          " lanes, %" PRId64 " tensor cores of %" PRId64 "x%" PRId64
          ", %.0f GiB.\n--original-assumptions shows why they differ.\n",
          m->objective, 100 * m->area_part, m->vector_cores, m->lanes, m->tensor_cores, m->rows,
          m->cols, m->hbm_gib);
}

/* ---- given chips ---------------------------------------------------------------------------- */

struct chip_rows {
  const json_t *rows;
  const struct pz_study_options *options;
  size_t n_chips;
};

static struct chip_rows chip_rows_of(const json_t *root, const struct pz_study_options *o) {
  const json_t *rows = json_object_get(root, "chips");
  return (struct chip_rows){rows, o, json_array_size(rows) / o->n_models};
}

static const json_t *chip_row(const struct chip_rows *x, size_t chip, uint32_t model) {
  return json_array_get(x->rows, chip * x->options->n_models + model);
}

static double number_in(const json_t *row, const char *key) {
  return json_number_value(json_object_get(row, key));
}

static const char *text_in(const json_t *row, const char *key) {
  return json_string_value(json_object_get(row, key));
}

/* A model that fits into memory has a plan. */
static bool has_plan(const json_t *row) { return text_in(row, "plan") != NULL; }

static void number_cell(struct pz_table *t, const json_t *row, const char *key) {
  char buf[32];
  pz_table_cell(t, "%s", pz_text_number(buf, sizeof buf, number_in(row, key)));
}

/* Adds a positive number, or "-" if it is unknown (0). */
static void positive_cell(struct pz_table *t, double v, int decimals, const char *unit) {
  pz_table_known(t, v > 0, "%.*f%s", decimals, v, unit);
}

static void print_chips_for_model(struct pz_call *call, const struct chip_rows *x, uint32_t model,
                                  FILE *out) {
  static const char *const heads[] = {"chip", ">step s",   ">samples/s", ">ratio", ">MFU",
                                      ">W",   ">J/sample", "plan",       NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (size_t i = 0; i < x->n_chips; i++) {
    const json_t *row = chip_row(x, i, model);
    pz_table_cell(t, "%s", text_in(row, "chip"));
    if (!has_plan(row)) {
      for (int k = 0; k < 6; k++) pz_table_cell(t, "-");
      pz_table_cell(t, "no feasible plan: memory");
      continue;
    }
    number_cell(t, row, "step_s");
    number_cell(t, row, "samples_per_s");
    positive_cell(t, number_in(row, "ratio"), 2, "x");
    pz_table_cell(t, "%.0f%%", 100 * number_in(row, "mfu"));
    pz_table_cell(t, "%.0f", number_in(row, "watts"));
    number_cell(t, row, "joules_per_sample");
    pz_table_cell(t, "%s", text_in(row, "plan"));
  }
  fprintf(out, "%s on %" PRId64 " devices, batch %" PRId64 ":\n\n", x->options->models[model],
          x->options->devices, x->options->batch);
  pz_table_print(t, 0, out);
  fputc('\n', out);
}

/* Returns the geometric mean over the models of a chip's number over that of the first chip, or 0 if a model has no plan on
 * one of the two. */
static double mean_over_first_chip(const struct chip_rows *x, size_t chip, const char *key) {
  double sum = 0;
  for (uint32_t m = 0; m < x->options->n_models; m++)
    sum += log(number_in(chip_row(x, chip, m), key) / number_in(chip_row(x, 0, m), key));
  return isfinite(sum) ? exp(sum / x->options->n_models) : 0;
}

/* Prints data of the chips themselves, and throughput per joule and per dollar. */
static void print_chip_costs(struct pz_call *call, const struct chip_rows *x, FILE *out) {
  static const char *const heads[] = {"chip",   "known",   ">error",  ">TFLOP/s", ">GHz",
                                      ">mm2",   ">peak W", ">TDP",    ">$",       ">throughput",
                                      ">per J", ">per $",  "network", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  double first_dollars = number_in(chip_row(x, 0, 0), "dollars");
  for (size_t i = 0; i < x->n_chips; i++) {
    const json_t *row = chip_row(x, i, 0);
    double throughput = mean_over_first_chip(x, i, "samples_per_s"), per_joule = 0;
    if (throughput > 0) per_joule = 1 / mean_over_first_chip(x, i, "joules_per_sample");
    pz_table_cell(t, "%s", text_in(row, "chip"));
    pz_table_cell(t, "%s", text_in(row, "known"));
    positive_cell(t, 100 * number_in(row, "expected_error"), 1, "%");
    pz_table_cell(t, "%.0f", number_in(row, "tensor_flop_per_s") / 1e12);
    pz_table_cell(t, "%.2f", number_in(row, "clock_hz") / 1e9);
    pz_table_cell(t, "%.0f", number_in(row, "area_mm2"));
    pz_table_cell(t, "%.0f", number_in(row, "peak_watts"));
    positive_cell(t, number_in(row, "tdp_watts"), 0, "");
    pz_table_cell(t, "%.0f", number_in(row, "dollars"));
    positive_cell(t, throughput, 2, "x");
    positive_cell(t, per_joule, 2, "x");
    positive_cell(t, throughput * first_dollars / number_in(row, "dollars"), 2, "x");
    pz_table_cell(t, "%s", text_in(row, "cluster"));
  }
  pz_table_print(t, 0, out);
}

void pz_compared_chips_table(struct pz_call *call, const json_t *root,
                             const struct pz_study_options *o, FILE *out) {
  struct chip_rows x = chip_rows_of(root, o);
  for (uint32_t m = 0; m < o->n_models; m++) print_chips_for_model(call, &x, m, out);
  print_chip_costs(call, &x, out);
  fprintf(
      out,
      "\nRatios are to %s%s. Area, peak W and dollars are those of one bill for all chips ('phaze\n"
      "chip'), W and J/sample those of the plan's operators and static power.\n"
      "error: mean over chips known in the same way of the errors of their published runs, dense "
      "in\n"
      "16 bits. Measured are operators; cold is a chip by its data sheet and what all chips of "
      "its\n"
      "class reach, with more error where no run of it was used (doc/unbuilt.md).\n",
      text_in(chip_row(&x, 0, 0), "chip"),
      o->n_models > 1 ? ", throughput by the geometric mean over the models" : "");
}

/* ---- rented chips --------------------------------------------------------------------------- */

/* Returns whether the deadline of a row is "met", "uncertain" or "missed", as `word` says. */
static bool deadline_is(const json_t *row, const char *word) {
  const char *deadline = text_in(row, "deadline");
  return deadline && strcmp(deadline, word) == 0;
}

static bool misses_deadline(const json_t *row) { return deadline_is(row, "missed"); }

/* Writes "1,050,000" into buf, or four digits if it is below 10, and returns buf. */
static char *dollars_text(char *buf, size_t size, double dollars) {
  if (dollars < 10) return pz_text_number(buf, size, dollars);
  return pz_text_count(buf, size, (int64_t)floor(dollars + 0.5));
}

static void append_rented_row(struct pz_table *t, const json_t *row, bool has_prices,
                              bool has_deadline) {
  bool fits = has_plan(row);
  pz_table_cell(t, "%s", text_in(row, "chip"));
  pz_table_cell(t, "%.0f", number_in(row, "devices"));
  positive_cell(t, number_in(row, "days"), 1, "");
  if (has_deadline) pz_table_cell(t, "%s", fits ? text_in(row, "deadline") : "-");
  if (has_prices && fits) {
    char low[40], high[40];
    double dollars_high = number_in(row, "run_dollars_high"); /* 0: the error is unknown */
    pz_table_number(t, number_in(row, "run_dollars"));
    pz_table_known(t, dollars_high > 0, "%s to %s",
                   dollars_text(low, sizeof low, number_in(row, "run_dollars_low")),
                   dollars_text(high, sizeof high, dollars_high));
    number_cell(t, row, "dollars_per_device_hour");
    pz_table_number(t, number_in(row, "tokens_per_dollar"));
  } else if (has_prices) {
    for (int i = 0; i < 4; i++) pz_table_cell(t, "-");
  }
  pz_table_cell(t, "%s", text_in(row, "known"));
  positive_cell(t, 100 * number_in(row, "expected_error"), 1, "%");
  pz_table_cell(t, "%s", fits ? text_in(row, "plan") : "no feasible plan: memory");
}

/* Prints the chips whose lowest expected cost is at most the highest expected cost of the cheapest ones. */
static void print_as_cheap(const struct chip_rows *x, uint32_t model, const json_t *cheapest,
                           FILE *out) {
  const char *before = "; within the errors as cheap: ";
  for (size_t i = 0; i < x->n_chips; i++) {
    const json_t *other = chip_row(x, i, model);
    if (other == cheapest || !has_plan(other) || misses_deadline(other)) continue;
    if (number_in(other, "run_dollars_low") > number_in(cheapest, "run_dollars_high")) continue;
    fprintf(out, "%s%.0f x %s", before, number_in(other, "devices"), text_in(other, "chip"));
    before = ", ";
  }
}

/* Prints the cheapest chips that meet the deadline, or else the fastest ones.  Without prices there is a cheapest row only
 * to complain that no chip meets the deadline. */
static void print_cheapest(const struct chip_rows *x, uint32_t model, const char *deadline,
                           FILE *out) {
  const json_t *cheapest = NULL, *fastest = NULL;
  for (size_t i = 0; i < x->n_chips; i++) {
    const json_t *row = chip_row(x, i, model);
    if (json_is_true(json_object_get(row, "cheapest"))) cheapest = row;
    if (!has_plan(row)) continue;
    if (!fastest || number_in(row, "days") < number_in(fastest, "days")) fastest = row;
  }
  if (!fastest) return;
  const json_t *row = cheapest ? cheapest : fastest;
  bool missed = misses_deadline(row);
  double dollars = number_in(row, "run_dollars");
  char buf[40];
  if (!cheapest && !missed) return;
  if (missed)
    fprintf(out, "\nno chip ends within %s; nearest", deadline ? deadline : "");
  else if (deadline)
    fprintf(out, "\ncheapest within %s", deadline);
  else
    fprintf(out, "\ncheapest");
  fprintf(out, ": %.0f x %s, %.1f days", number_in(row, "devices"), text_in(row, "chip"),
          number_in(row, "days"));
  if (dollars > 0) fprintf(out, ", $%s", dollars_text(buf, sizeof buf, dollars));
  if (deadline_is(row, "uncertain"))
    fprintf(out, " (uncertain: %.1f days at the upper end of its error)",
            number_in(row, "days_high"));
  if (cheapest) print_as_cheap(x, model, cheapest, out);
  fputc('\n', out);
}

bool pz_compared_chips_none(const json_t *root, const struct pz_study_options *o) {
  struct chip_rows x = chip_rows_of(root, o);
  for (uint32_t m = 0; m < o->n_models; m++) {
    size_t unusable = 0;
    for (size_t i = 0; i < x.n_chips; i++) {
      const json_t *row = chip_row(&x, i, m);
      if (!has_plan(row) || misses_deadline(row)) unusable++;
    }
    if (unusable == x.n_chips) return true;
  }
  return false;
}

void pz_rented_chips_table(struct pz_call *call, const json_t *root,
                           const struct pz_study_options *o, const struct pz_rent_titles *titles,
                           FILE *out) {
  struct chip_rows x = chip_rows_of(root, o);
  bool has_prices = false;
  for (size_t i = 0; i < json_array_size(x.rows); i++)
    if (number_in(json_array_get(x.rows, i), "run_dollars") > 0) has_prices = true;
  const char *heads[12] = {"chip", ">devices", ">days"};
  size_t n = 3;
  if (titles->deadline) heads[n++] = "deadline";
  if (has_prices) {
    heads[n++] = ">dollars";
    heads[n++] = ">range";
    heads[n++] = ">$/h";
    heads[n++] = ">tokens/$";
  }
  heads[n++] = "known";
  heads[n++] = ">error";
  heads[n++] = "plan";
  for (uint32_t m = 0; m < o->n_models; m++) {
    struct pz_table *t = pz_table_new(call, heads);
    for (size_t i = 0; i < x.n_chips; i++)
      append_rented_row(t, chip_row(&x, i, m), has_prices, titles->deadline != NULL);
    fprintf(out, "%s, %s tokens, batch %" PRId64 "%s%s:\n\n", o->models[m], titles->tokens,
            o->batch, titles->deadline ? ", within " : "",
            titles->deadline ? titles->deadline : "");
    pz_table_print(t, 0, out);
    print_cheapest(&x, m, titles->deadline, out);
    fputc('\n', out);
  }
  fprintf(out,
          "Counted is training alone: no failures, checkpoints, restarts, storage or traffic "
          "('phaze predict\n"
          "--mtbf-hours' has failures). error: mean over chips known in the same way of the errors "
          "of their\n"
          "published runs; range: dollars with that error.%s\n",
          titles->deadline ? " uncertain: in time, but not at the upper end of it." : "");
}
