/* A row of the table is one set of the original's assumptions: first all of them, then fewer as they are corrected, then
 * each one alone while all others are corrected.  Every row has the best common chip under its assumptions and its throughput
 * over that of the reference under the same assumptions. */
#include "report/original_table.h"

#include <math.h>

#include "report/table.h"
#include "study/result.h"

/* Numbers that the authors of the original system report for their common chip. */
static const double REPORTED_RATIO = 2.9, REPORTED_AREA_PART = 0.91, REPORTED_HBM_GB = 64;
static const char REPORTED_CORES[] = "many vector cores, large tensor cores";

json_t *pz_original_reported_json(void) {
  return json_pack("{s:f,s:f,s:f,s:s}", "ratio_to_reference", REPORTED_RATIO, "area_part_over",
                   REPORTED_AREA_PART, "hbm_gb_at_most", REPORTED_HBM_GB, "cores", REPORTED_CORES);
}

void pz_original_reported_print(FILE *out) {
  fprintf(
      out,
      "The original reports for its common chip: %.1f times tpuv4 with expert plans on average, "
      "over %.0f%% of the area,\n%s, HBM of at most %.0f GB.\n",
      REPORTED_RATIO, 100 * REPORTED_AREA_PART, REPORTED_CORES, REPORTED_HBM_GB);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Throughput of the common chip of a row over that of the reference chip. */
struct row_ratios {
  double ratio[PZ_SEARCH_MOST_MODELS]; /* of each model; NaN if it is unknown */
  struct pz_ratios summary;
  double mean; /* arithmetic, over the models that have a ratio */
};

static struct row_ratios row_ratios(const struct pz_original *original,
                                    const struct pz_original_row *row) {
  struct row_ratios ratios = {.mean = 0};
  double sum = 0;
  for (uint32_t m = 0; m < original->n_models; m++) {
    bool known = row->reference[m] > 0 && row->samples_per_s[m] > 0;
    ratios.ratio[m] = known ? row->samples_per_s[m] / row->reference[m] : (double)NAN;
    if (known) sum += ratios.ratio[m];
  }
  ratios.summary = pz_ratios_of(ratios.ratio, original->models, original->n_models);
  ratios.mean = ratios.summary.n_models ? sum / ratios.summary.n_models : 0;
  return ratios;
}

static json_t *row_json(const struct pz_original *original, const struct pz_original_row *row) {
  struct row_ratios ratios = row_ratios(original, row);
  const struct pz_ratios *summary = &ratios.summary;
  json_t *assumptions = json_array(), *models = json_array(), *summary_json = json_null();
  for (enum pz_assumption a = 0; a < PZ_ASSUMPTIONS; a++)
    if (pz_assumed(row->assumptions, a))
      json_array_append_new(assumptions, json_string(pz_assumption_at(a)->name));
  for (uint32_t m = 0; m < original->n_models; m++) {
    double ratio = ratios.ratio[m];
    json_array_append_new(
        models, json_pack("{s:s,s:f,s:f,s:o}", "model", original->models[m], "throughput_samples_s",
                          row->samples_per_s[m], "reference_samples_s", row->reference[m],
                          "ratio_to_reference", isnan(ratio) ? json_null() : json_real(ratio)));
  }
  if (summary->n_models > 1)
    summary_json = json_pack("{s:I,s:f,s:f,s:{s:s,s:f},s:{s:s,s:f},s:f}", "models",
                             (json_int_t)summary->n_models, "geometric_mean",
                             summary->geometric_mean, "median", summary->median, "least", "model",
                             summary->least_model, "ratio", summary->least, "most", "model",
                             summary->most_model, "ratio", summary->most, "mean", ratios.mean);
  return json_pack("{s:o,s:s,s:b,s:s,s:f,s:f,s:o,s:f,s:o}", "assumptions", assumptions, "search",
                   row->walk ? "original" : "exact", "alone", row->alone, "chip", row->chip,
                   "hbm_gib", row->hbm_gib, "area_part", row->area_part, "ratios", summary_json,
                   "gap", row->gap, "models", models);
}

json_t *pz_original_json(const struct pz_original *original) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < original->n_rows; i++)
    json_array_append_new(rows, row_json(original, &original->rows[i]));
  return json_pack("{s:o,s:o}", "original_reports", pz_original_reported_json(), "rows", rows);
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Adds a cell with the correction that distinguishes a row from the row before it, or with the only assumption of a row
 * that is not corrected. */
static void append_correction(struct pz_table *table, const struct pz_original_row *row) {
  enum pz_assumption a = 0;
  if (row->assumptions == PZ_ASSUME_ALL) {
    pz_table_cell(table, "%s", row->walk ? "nothing; chip by the original's search" : "nothing");
  } else if (row->alone) {
    while (!pz_assumed(row->assumptions, a)) a++;
    pz_table_cell(table, "%s", pz_assumption_at(a)->name);
  } else {
    /* assumptions are corrected in their order, so that the newest correction is the last one before those that remain */
    while (a + 1 < PZ_ASSUMPTIONS && !pz_assumed(row->assumptions, a + 1)) a++;
    pz_table_cell(table, "+ %s%s", pz_assumption_at(a)->corrected,
                  row->assumptions ? "" : " (all)");
  }
}

static void print_rows(struct pz_call *call, const struct pz_original *original, bool alone,
                       const char *title, FILE *out) {
  const char *heads[] = {title,      "common chip", ">HBM GiB", ">area", ">mean",
                         ">geomean", ">median",     ">range",   ">gap",  NULL};
  struct pz_table *table = pz_table_new(call, heads);
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

void pz_original_table(struct pz_call *call, const struct pz_original *original, FILE *out) {
  bool any_alone = original->n_rows && original->rows[original->n_rows - 1].alone;
  pz_original_reported_print(out);
  fputc('\n', out);
  print_rows(call, original, false, "corrected so far", out);
  if (any_alone) {
    fputc('\n', out);
    print_rows(call, original, true, "not corrected, all others are", out);
  }
  fputs("\nmean, geomean, median, range: throughput of the common chip over that of tpuv4 with "
        "expert plans, both under\nthe assumptions of the row; gap: no chip's objective is higher "
        "by more than this\n",
        out);
}
