/* Comparisons as JSON and tables.  pz_comparison_*() show the searched chip beside the baselines;
 * pz_compared_chips_*() and pz_rented_chips_*() print the JSON of pz_chips_compare() and
 * pz_chips_rent(); pz_original_*() show the common chip under the assumptions of the original
 * system.  Each row of the last is a set of assumptions: all of them, then fewer as they are
 * corrected, then each one alone.  It has the best common chip and its throughput over that of the
 * reference, both under these assumptions. */
#include "report/comparison.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/text.h"
#include "report/dataset.h"
#include "report/ratios.h"
#include "report/table.h"
#include "study/result_json.h"

/* Numbers that the authors of the original system report for their common chip. */
static const double REPORTED_RATIO = 2.9, REPORTED_AREA_PART = 0.91, REPORTED_HBM_GB = 64;
static const char REPORTED_CORES[] = "many vector cores, large tensor cores";

/* Returns a new reference to what the authors report. */
static json_t *reported_json(void) {
  return json_pack("{s:f,s:f,s:f,s:s}", "ratio_to_reference", REPORTED_RATIO, "area_part_over",
                   REPORTED_AREA_PART, "hbm_gb_at_most", REPORTED_HBM_GB, "cores", REPORTED_CORES);
}

/* Prints what the authors report, in a sentence. */
static void print_reported(FILE *out) {
  fprintf(
      out,
      "The original reports for its common chip: %.1f times tpuv4 with expert plans on average, "
      "over %.0f%% of the area,\n%s, HBM of at most %.0f GB.\n",
      REPORTED_RATIO, 100 * REPORTED_AREA_PART, REPORTED_CORES, REPORTED_HBM_GB);
}

/* Returns the methods of each objective run, what the authors of the original report, and times. */
json_t *pz_comparison_document(struct pz_call *call, const struct pz_result *result) {
  enum pz_objective_kind kind = result->inputs.options.objective;
  const struct pz_comparison *comparison = result->comparison;
  /* Seconds of each method, by objective run and by name of the method. */
  json_t *timing = json_object();
  for (uint32_t i = 0; i < comparison->n_runs; i++) {
    const struct pz_comparison_run *run = &comparison->runs[i];
    json_t *seconds = json_object();
    for (uint32_t k = 0; k < run->n_methods; k++) {
      const struct pz_method_result *method = &run->methods[k];
      if (method->seconds > 0)
        json_object_set_new(seconds, method->name, json_real(method->seconds));
    }
    json_object_set_new(timing, run->name, seconds);
  }
  json_t *root = pz_json_built(call, pz_comparison_json(result));
  json_t *rest = pz_json_built(
      call, json_pack("{s:{s:s,s:s},s:o,s:o,s:o}", "objective", "name", pz_objective_names[kind],
                      "meaning", pz_objective_unit(kind), "original_reports", reported_json(),
                      "inputs", pz_json_parse_again(result->inputs.json), "timing", timing));
  if (json_object_update(root, rest) != 0) pz_raise_memory(call, "JSON");
  return root;
}

/* ---- baselines as tables -------------------------------------------------------------------- */

/* Adds the name of a method and its chip with HBM capacity and area, or dashes without one. */
static void append_found_chip(struct pz_table *table, const struct pz_method_result *method) {
  pz_table_cell(table, "%s", method->name);
  if (method->chip)
    pz_table_cells(table, "%s|%.0f|%.1f", method->chip, method->hbm_gib, method->area_mm2);
  else
    pz_table_dashes(table, 3);
}

/* Prints the comparison for one model. */
static void print_one_model(struct pz_call *call, const struct pz_comparison_run *run, FILE *out) {
  struct pz_table *table =
      pz_table_new(call, "method|chip|>hbm GiB|>mm2|>samples/s|>reference|>chips tried|>seconds");
  char buf[32];
  for (uint32_t i = 0; i < run->n_methods; i++) {
    const struct pz_method_result *method = &run->methods[i];
    double samples_per_s = method->models[0].samples_per_s;
    append_found_chip(table, method);
    pz_table_cell(table, "%s", pz_text_number(buf, sizeof buf, samples_per_s));
    pz_ratio_cell(table, samples_per_s, method->models[0].ratio);
    pz_table_cell(table, "%u", method->n_evaluated);
    pz_table_known(table, method->seconds > 0, "%.2f", method->seconds); /* saved runs have none */
  }
  fprintf(out, "%s\n", run->name);
  pz_table_print(table, 0, out);
  fputc('\n', out);
}

/* Prints the comparison of one chip for all models.  As many models as fit have a column. */
static void print_common_chip(struct pz_call *call, const struct pz_result *result,
                              const struct pz_comparison_run *run, FILE *out) {
  enum { BEFORE = 4, AFTER = 4, MOST_MODELS = PZ_TABLE_MOST_COLUMNS - 1 - BEFORE - AFTER };
  const char *heads[PZ_TABLE_MOST_COLUMNS + 1] = {"method", "chip", ">hbm GiB", ">mm2"};
  uint32_t n_models = run->methods[0].n_models;
  if (n_models > MOST_MODELS) n_models = MOST_MODELS;
  for (uint32_t k = 0; k < n_models; k++)
    heads[BEFORE + k] = pz_format(call, ">%s", run->methods[0].models[k].model);
  heads[BEFORE + n_models] = ">objective";
  heads[BEFORE + n_models + 1] = ">median";
  heads[BEFORE + n_models + 2] = ">chips tried";
  heads[BEFORE + n_models + 3] = ">seconds";
  struct pz_table *table = pz_table_with(call, heads);
  for (uint32_t i = 0; i < run->n_methods; i++) {
    const struct pz_method_result *method = &run->methods[i];
    append_found_chip(table, method);
    for (uint32_t k = 0; k < n_models; k++)
      pz_ratio_cell(table, method->models[k].samples_per_s, method->models[k].ratio);
    pz_table_cell(table, "%.4g", method->objective);
    pz_table_known(table, method->ratios.n_models > 1, "%.2fx", method->ratios.median);
    pz_table_cell(table, "%u", method->n_evaluated);
    pz_table_known(table, method->seconds > 0, "%.2f", method->seconds); /* saved runs have none */
  }
  fprintf(out, "One chip for all models: throughput over the reference; objective: %s\n",
          pz_objective_unit(result->inputs.options.objective));
  pz_table_print(table, 0, out);
  fprintf(out, "A chip for each model alone: --json, the report, or 'phaze compare MODEL'.\n");
  const struct pz_ratios *searched = &run->methods[run->n_methods - 1].ratios;
  if (searched->n_models < 2) return;
  fprintf(out, "\nThe searched chip: %.4g times the reference (", searched->geometric_mean);
  pz_ratios_print(searched, out);
  fprintf(out, ").\n");
}

/* Prints the chip for all models, or that of the only model, with the chips of the baselines. */
void pz_comparison_table(struct pz_call *call, const struct pz_result *result, FILE *out) {
  const struct pz_comparison *comparison = result->comparison;
  const struct pz_comparison_run *last = &comparison->runs[comparison->n_runs - 1];
  bool several_models = comparison->n_runs > 1;
  if (several_models)
    print_common_chip(call, result, last, out);
  else
    print_one_model(call, last, out);
  for (uint32_t i = 0; i < comparison->n_runs; i++) {
    const struct pz_method_result *first = &comparison->runs[i].methods[0];
    if (first->n_models == 1 && !first->models[0].expert_plan)
      fprintf(out, "%s: no expert plan is known or fits; its expert rows have the best plan.\n",
              first->models[0].model);
  }
  if (!several_models || result->inputs.options.objective != PZ_OBJECTIVE_GEOMEAN) return;
  const struct pz_method_result *searched = &last->methods[last->n_methods - 1];
  fputc('\n', out);
  print_reported(out);
  fprintf(out,
          "Here: %.4g times, %.1f%% of the area, %" PRId64 " vector cores of %" PRId64
          " lanes, %" PRId64 " tensor cores of %" PRId64 "x%" PRId64
          ", %.0f GiB.\n--original-assumptions shows why they differ.\n",
          searched->objective, 100 * searched->area_part, searched->vector_cores, searched->lanes,
          searched->tensor_cores, searched->rows, searched->cols, searched->hbm_gib);
}

/* ---- given chips ---------------------------------------------------------------------------- */

/* The rows of the list "chips": all models of the first chip, then of the second, ... A row has the
 * text "plan" only if the model fits into the memory of the chip. */
struct chip_rows {
  const json_t *rows;
  const struct pz_study_options *options;
  size_t n_chips;
};

static struct chip_rows chip_rows_of(const json_t *root, const struct pz_study_options *options) {
  const json_t *rows = json_object_get(root, "chips");
  return (struct chip_rows){rows, options, json_array_size(rows) / options->n_models};
}

/* Returns the row of a model on a chip. */
static const json_t *chip_row(const struct chip_rows *chips, size_t chip, uint32_t model) {
  return json_array_get(chips->rows, chip * chips->options->n_models + model);
}

static double number_in(const json_t *row, const char *key) {
  return json_number_value(json_object_get(row, key));
}

static const char *text_in(const json_t *row, const char *key) {
  return json_string_value(json_object_get(row, key));
}

/* Adds a number of a row in four digits. */
static void number_cell(struct pz_table *table, const json_t *row, const char *key) {
  char buf[32];
  pz_table_cell(table, "%s", pz_text_number(buf, sizeof buf, number_in(row, key)));
}

/* Adds a positive number, or a dash if it is unknown (0). */
static void positive_cell(struct pz_table *table, double value, int decimals, const char *unit) {
  pz_table_known(table, value > 0, "%.*f%s", decimals, value, unit);
}

/* Prints how each chip trains one model with its best plan. */
static void print_chips_for_model(struct pz_call *call, const struct chip_rows *chips,
                                  uint32_t model, FILE *out) {
  struct pz_table *table =
      pz_table_new(call, "chip|>step s|>samples/s|>ratio|>MFU|>W|>J/sample|plan");
  for (size_t i = 0; i < chips->n_chips; i++) {
    const json_t *row = chip_row(chips, i, model);
    pz_table_cell(table, "%s", text_in(row, "chip"));
    if (!text_in(row, "plan")) {
      pz_table_dashes(table, 6);
      pz_table_cell(table, "no feasible plan: memory");
      continue;
    }
    number_cell(table, row, "step_s");
    number_cell(table, row, "samples_per_s");
    positive_cell(table, number_in(row, "ratio"), 2, "x");
    pz_table_cells(table, "%.0f%%|%.0f", 100 * number_in(row, "mfu"), number_in(row, "watts"));
    number_cell(table, row, "joules_per_sample");
    pz_table_cell(table, "%s", text_in(row, "plan"));
  }
  fprintf(out, "%s on %" PRId64 " devices, batch %" PRId64 ":\n\n", chips->options->models[model],
          chips->options->devices, chips->options->batch);
  pz_table_print(table, 0, out);
  fputc('\n', out);
}

/* Returns the geometric mean over the models of (the chip's number / the first chip's number),
 * or 0 if a model has no plan on one of the two chips. */
static double mean_over_first_chip(const struct chip_rows *chips, size_t chip, const char *key) {
  double sum = 0;
  for (uint32_t model = 0; model < chips->options->n_models; model++)
    sum += log(number_in(chip_row(chips, chip, model), key) /
               number_in(chip_row(chips, 0, model), key));
  return isfinite(sum) ? exp(sum / chips->options->n_models) : 0;
}

/* Prints data of the chips, and throughput per joule and dollar relative to the first chip. */
static void print_chip_costs(struct pz_call *call, const struct chip_rows *chips, FILE *out) {
  struct pz_table *table = pz_table_new(
      call,
      "chip|known|>error|>TFLOP/s|>GHz|>mm2|>peak W|>TDP|>$|>throughput|>per J|>per $|network");
  double first_dollars = number_in(chip_row(chips, 0, 0), "dollars");
  for (size_t i = 0; i < chips->n_chips; i++) {
    const json_t *row = chip_row(chips, i, 0);
    double throughput = mean_over_first_chip(chips, i, "samples_per_s"), per_joule = 0;
    if (throughput > 0) per_joule = 1 / mean_over_first_chip(chips, i, "joules_per_sample");
    pz_table_cells(table, "%s|%s", text_in(row, "chip"), text_in(row, "known"));
    positive_cell(table, 100 * number_in(row, "expected_error"), 1, "%");
    pz_table_cells(table, "%.0f|%.2f|%.0f|%.0f", number_in(row, "tensor_flop_per_s") / 1e12,
                   number_in(row, "clock_hz") / 1e9, number_in(row, "area_mm2"),
                   number_in(row, "peak_watts"));
    positive_cell(table, number_in(row, "tdp_watts"), 0, "");
    pz_table_cell(table, "%.0f", number_in(row, "dollars"));
    positive_cell(table, throughput, 2, "x");
    positive_cell(table, per_joule, 2, "x");
    positive_cell(table, throughput * first_dollars / number_in(row, "dollars"), 2, "x");
    pz_table_cell(table, "%s", text_in(row, "cluster"));
  }
  pz_table_print(table, 0, out);
}

/* Prints a table for each model, then one with the data and the costs of the chips. */
void pz_compared_chips_table(struct pz_call *call, const json_t *root,
                             const struct pz_study_options *options, FILE *out) {
  struct chip_rows chips = chip_rows_of(root, options);
  for (uint32_t model = 0; model < options->n_models; model++)
    print_chips_for_model(call, &chips, model, out);
  print_chip_costs(call, &chips, out);
  fprintf(
      out,
      "\nRatios are to %s%s. Area, peak W and dollars are those of one bill for all chips ('phaze\n"
      "chip'), W and J/sample those of the plan's operators and static power.\n"
      "error: mean over chips known in the same way of the errors of their published runs, dense "
      "in\n"
      "16 bits. Measured are operators; cold is a chip by its data sheet and what all chips of "
      "its\n"
      "class reach, with more error where no run of it was used (doc/unbuilt.md).\n",
      text_in(chip_row(&chips, 0, 0), "chip"),
      options->n_models > 1 ? ", throughput by the geometric mean over the models" : "");
}

/* ---- rented chips --------------------------------------------------------------------------- */

/* Returns whether the deadline of a row is answered by "met", "uncertain" or "missed". */
static bool has_deadline_answer(const json_t *row, const char *answer) {
  const char *deadline = text_in(row, "deadline");
  return deadline && strcmp(deadline, answer) == 0;
}

/* Writes dollars as "1,050,000", or with four digits if below 10, and returns buf. */
static char *dollars_text(char *buf, size_t size, double dollars) {
  if (dollars < 10) return pz_text_number(buf, size, dollars);
  return pz_text_count(buf, size, (int64_t)floor(dollars + 0.5));
}

/* Prints the training run of one model on each chip.  Without prices there are no columns of
 * dollars, and without a deadline there is no column for it. */
static void print_rented_chips(struct pz_call *call, const struct chip_rows *chips, uint32_t model,
                               bool has_prices, bool has_deadline, FILE *out) {
  const char *heads[12] = {"chip", ">devices", ">days"};
  size_t n = 3;
  if (has_deadline) heads[n++] = "deadline";
  if (has_prices) {
    heads[n++] = ">dollars";
    heads[n++] = ">range";
    heads[n++] = ">$/h";
    heads[n++] = ">tokens/$";
  }
  heads[n++] = "known";
  heads[n++] = ">error";
  heads[n++] = "plan";
  struct pz_table *table = pz_table_with(call, heads);
  for (size_t i = 0; i < chips->n_chips; i++) {
    const json_t *row = chip_row(chips, i, model);
    bool fits = text_in(row, "plan") != NULL;
    pz_table_cells(table, "%s|%.0f", text_in(row, "chip"), number_in(row, "devices"));
    positive_cell(table, number_in(row, "days"), 1, "");
    if (has_deadline) pz_table_cell(table, "%s", fits ? text_in(row, "deadline") : "-");
    if (has_prices && fits) {
      char low[40], high[40];
      double dollars_high = number_in(row, "run_dollars_high"); /* 0 if the error is unknown */
      pz_table_number(table, number_in(row, "run_dollars"));
      pz_table_known(table, dollars_high > 0, "%s to %s",
                     dollars_text(low, sizeof low, number_in(row, "run_dollars_low")),
                     dollars_text(high, sizeof high, dollars_high));
      number_cell(table, row, "dollars_per_device_hour");
      pz_table_number(table, number_in(row, "tokens_per_dollar"));
    } else if (has_prices) {
      pz_table_dashes(table, 4);
    }
    pz_table_cell(table, "%s", text_in(row, "known"));
    positive_cell(table, 100 * number_in(row, "expected_error"), 1, "%");
    pz_table_cell(table, "%s", fits ? text_in(row, "plan") : "no feasible plan: memory");
  }
  pz_table_print(table, 0, out);
}

/* Prints the cheapest chip that meets the deadline, or the fastest one if all miss it.  Without
 * prices nothing is printed unless all chips miss the deadline. */
static void print_cheapest(const struct chip_rows *chips, uint32_t model, const char *deadline,
                           FILE *out) {
  const json_t *cheapest = NULL, *fastest = NULL;
  for (size_t i = 0; i < chips->n_chips; i++) {
    const json_t *row = chip_row(chips, i, model);
    if (json_is_true(json_object_get(row, "cheapest"))) cheapest = row;
    if (!text_in(row, "plan")) continue;
    if (!fastest || number_in(row, "days") < number_in(fastest, "days")) fastest = row;
  }
  if (!fastest) return;
  const json_t *best = cheapest ? cheapest : fastest;
  bool missed = has_deadline_answer(best, "missed");
  double dollars = number_in(best, "run_dollars");
  char buf[40];
  if (!cheapest && !missed) return;
  if (missed)
    fprintf(out, "\nno chip ends within %s; nearest", deadline ? deadline : "");
  else if (deadline)
    fprintf(out, "\ncheapest within %s", deadline);
  else
    fprintf(out, "\ncheapest");
  fprintf(out, ": %.0f x %s, %.1f days", number_in(best, "devices"), text_in(best, "chip"),
          number_in(best, "days"));
  if (dollars > 0) fprintf(out, ", $%s", dollars_text(buf, sizeof buf, dollars));
  if (has_deadline_answer(best, "uncertain"))
    fprintf(out, " (uncertain: %.1f days at the upper end of its error)",
            number_in(best, "days_high"));
  /* Lists the chips whose range of cost overlaps that of the cheapest one. */
  const char *before = "; within the errors as cheap: ";
  for (size_t i = 0; cheapest && i < chips->n_chips; i++) {
    const json_t *other = chip_row(chips, i, model);
    if (other == cheapest || !text_in(other, "plan") || has_deadline_answer(other, "missed"))
      continue;
    if (number_in(other, "run_dollars_low") > number_in(cheapest, "run_dollars_high")) continue;
    fprintf(out, "%s%.0f x %s", before, number_in(other, "devices"), text_in(other, "chip"));
    before = ", ";
  }
  fputc('\n', out);
}

/* Returns whether a model fits on no chip, or misses the deadline on all chips on which it fits. */
bool pz_compared_chips_none(const json_t *root, const struct pz_study_options *options) {
  struct chip_rows chips = chip_rows_of(root, options);
  for (uint32_t model = 0; model < options->n_models; model++) {
    size_t n_unusable = 0;
    for (size_t i = 0; i < chips.n_chips; i++) {
      const json_t *row = chip_row(&chips, i, model);
      if (!text_in(row, "plan") || has_deadline_answer(row, "missed")) n_unusable++;
    }
    if (n_unusable == chips.n_chips) return true;
  }
  return false;
}

/* Prints a table for each model, with columns of dollars if any chip has a price. */
void pz_rented_chips_table(struct pz_call *call, const json_t *root,
                           const struct pz_study_options *options,
                           const struct pz_rent_titles *titles, FILE *out) {
  struct chip_rows chips = chip_rows_of(root, options);
  const char *deadline = titles->deadline;
  bool has_prices = false;
  for (size_t i = 0; i < json_array_size(chips.rows); i++)
    if (number_in(json_array_get(chips.rows, i), "run_dollars") > 0) has_prices = true;
  for (uint32_t model = 0; model < options->n_models; model++) {
    fprintf(out, "%s, %s tokens, batch %" PRId64 "%s%s:\n\n", options->models[model],
            titles->tokens, options->batch, deadline ? ", within " : "", deadline ? deadline : "");
    print_rented_chips(call, &chips, model, has_prices, deadline != NULL, out);
    print_cheapest(&chips, model, deadline, out);
    fputc('\n', out);
  }
  fprintf(out,
          "Counted is training alone: no failures, checkpoints, restarts, storage or traffic "
          "('phaze predict\n"
          "--mtbf-hours' has failures). error: mean over chips known in the same way of the errors "
          "of their\n"
          "published runs; range: dollars with that error.%s\n",
          deadline ? " uncertain: in time, but not at the upper end of it." : "");
}

/* ---- the original's assumptions as JSON ----------------------------------------------------- */

/* Throughput of the common chip of a row over that of the reference chip. */
struct row_ratios {
  double ratio[PZ_SEARCH_MOST_MODELS]; /* of each model; NaN if it is unknown */
  struct pz_ratios summary;
  double mean; /* arithmetic mean over the models that have a ratio */
};

/* Returns the ratios of the models of a row, with their summary. */
static struct row_ratios row_ratios(const struct pz_original *original,
                                    const struct pz_original_row *row) {
  struct row_ratios ratios = {.mean = 0};
  double sum = 0;
  for (uint32_t model = 0; model < original->n_models; model++) {
    bool known = row->reference[model] > 0 && row->samples_per_s[model] > 0;
    ratios.ratio[model] = known ? row->samples_per_s[model] / row->reference[model] : (double)NAN;
    if (known) sum += ratios.ratio[model];
  }
  ratios.summary = pz_ratios_of(ratios.ratio, original->models, original->n_models);
  ratios.mean = ratios.summary.n_models ? sum / ratios.summary.n_models : 0;
  return ratios;
}

/* Returns the rows with the ratio of each model, beside the numbers of the authors. */
json_t *pz_original_json(const struct pz_original *original) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < original->n_rows; i++) {
    const struct pz_original_row *row = &original->rows[i];
    struct row_ratios ratios = row_ratios(original, row);
    const struct pz_ratios *summary = &ratios.summary;
    json_t *assumptions = json_array(), *models = json_array(), *summary_json = json_null();
    for (enum pz_assumption assumption = 0; assumption < PZ_ASSUMPTIONS; assumption++)
      if (pz_assumed(row->assumptions, assumption))
        json_array_append_new(assumptions, json_string(pz_assumption_at(assumption)->name));
    for (uint32_t model = 0; model < original->n_models; model++) {
      json_t *ratio = pz_dataset_real(ratios.ratio[model]);
      json_array_append_new(models, json_pack("{s:s,s:f,s:f,s:o}", "model", original->models[model],
                                              "throughput_samples_s", row->samples_per_s[model],
                                              "reference_samples_s", row->reference[model],
                                              "ratio_to_reference", ratio));
    }
    if (summary->n_models > 1)
      summary_json = json_pack("{s:I,s:f,s:f,s:{s:s,s:f},s:{s:s,s:f},s:f}", "models",
                               (json_int_t)summary->n_models, "geometric_mean",
                               summary->geometric_mean, "median", summary->median, "least", "model",
                               summary->least_model, "ratio", summary->least, "most", "model",
                               summary->most_model, "ratio", summary->most, "mean", ratios.mean);
    json_array_append_new(rows, json_pack("{s:o,s:s,s:b,s:s,s:f,s:f,s:o,s:f,s:o}", "assumptions",
                                          assumptions, "search", row->walk ? "original" : "exact",
                                          "alone", row->alone, "chip", row->chip, "hbm_gib",
                                          row->hbm_gib, "area_part", row->area_part, "ratios",
                                          summary_json, "gap", row->gap, "models", models));
  }
  return json_pack("{s:o,s:o}", "original_reports", reported_json(), "rows", rows);
}

/* ---- the original's assumptions as a table -------------------------------------------------- */

/* Adds a cell with the correction that distinguishes a row from the row before it, or with the
 * only assumption of a row that is not corrected. */
static void append_correction(struct pz_table *table, const struct pz_original_row *row) {
  enum pz_assumption assumption = 0;
  if (row->assumptions == PZ_ASSUME_ALL) {
    pz_table_cell(table, "%s", row->walk ? "nothing; chip by the original's search" : "nothing");
  } else if (row->alone) {
    while (!pz_assumed(row->assumptions, assumption)) assumption++;
    pz_table_cell(table, "%s", pz_assumption_at(assumption)->name);
  } else {
    /* Assumptions are corrected in order: the newest one precedes those that remain. */
    while (assumption + 1 < PZ_ASSUMPTIONS && !pz_assumed(row->assumptions, assumption + 1))
      assumption++;
    pz_table_cell(table, "+ %s%s", pz_assumption_at(assumption)->corrected,
                  row->assumptions ? "" : " (all)");
  }
}

/* Prints the rows that correct the assumptions step by step, or those of one assumption alone. */
static void print_original_rows(struct pz_call *call, const struct pz_original *original,
                                bool alone, const char *title, FILE *out) {
  const char *heads[] = {title,      "common chip", ">HBM GiB", ">area", ">mean",
                         ">geomean", ">median",     ">range",   ">gap",  NULL};
  struct pz_table *table = pz_table_with(call, heads);
  for (uint32_t i = 0; i < original->n_rows; i++) {
    const struct pz_original_row *row = &original->rows[i];
    if (row->alone != alone) continue;
    struct row_ratios ratios = row_ratios(original, row);
    const struct pz_ratios *summary = &ratios.summary;
    append_correction(table, row);
    pz_table_cells(table, "%s|%.0f|%.1f%%", row->chip, row->hbm_gib, 100 * row->area_part);
    if (summary->n_models > 1)
      pz_table_cells(table, "%.2f|%.2f|%.2f|%.2f .. %.2f", ratios.mean, summary->geometric_mean,
                     summary->median, summary->least, summary->most);
    else
      pz_table_dashes(table, 4);
    pz_table_known(table, !row->walk, "%.2g%%", 100 * row->gap);
  }
  pz_table_print(table, 0, out);
}

/* Prints the rows that correct the assumptions one after another, then those of one alone. */
void pz_original_table(struct pz_call *call, const struct pz_original *original, FILE *out) {
  bool any_alone = original->n_rows && original->rows[original->n_rows - 1].alone;
  print_reported(out);
  fputc('\n', out);
  print_original_rows(call, original, false, "corrected so far", out);
  if (any_alone) {
    fputc('\n', out);
    print_original_rows(call, original, true, "not corrected, all others are", out);
  }
  fputs("\nmean, geomean, median, range: throughput of the common chip over that of tpuv4 with "
        "expert plans, both under\nthe assumptions of the row; gap: no chip's objective is higher "
        "by more than this\n",
        out);
}
