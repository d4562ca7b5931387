/* A row of the table is one set of the original's assumptions: first all of them, then fewer as they are corrected, then
 * each one alone while all others are corrected.  Every row has the best common chip under its assumptions and its throughput
 * over that of the reference under the same assumptions. */
#include "report/original_table.h"

#include <math.h>

#include "report/table.h"
#include "study/result.h"

/* Numbers that the original's authors report for their common chip. */
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

/* Names the correction of a row, or the assumption that is not corrected in a row of one assumption. */
static void name_cell(struct pz_table *t, const struct pz_original_row *row) {
  if (row->assumptions == PZ_ASSUME_ALL) {
    pz_table_cell(t, "%s", row->walk ? "nothing; chip by the original's search" : "nothing");
    return;
  }
  enum pz_assumption a = 0;
  if (row->alone) {
    while (!pz_assumed(row->assumptions, a)) a++;
    pz_table_cell(t, "%s", pz_assumption_at(a)->name);
    return;
  }
  /* assumptions are corrected in their order, so that the newest correction is the last one before those that remain */
  while (a + 1 < PZ_ASSUMPTIONS && !pz_assumed(row->assumptions, a + 1)) a++;
  pz_table_cell(t, "+ %s%s", pz_assumption_at(a)->corrected, row->assumptions ? "" : " (all)");
}

/* ---- JSON ----------------------------------------------------------------------------------- */

struct row_ratios {
  double ratio[PZ_SEARCH_MOST_MODELS]; /* of each model; NaN if unknown */
  struct pz_ratios summary;
  double mean; /* arithmetic, over the models that have a ratio */
};

static struct row_ratios row_ratios(const struct pz_original *r,
                                    const struct pz_original_row *row) {
  struct row_ratios x = {.mean = 0};
  double sum = 0;
  for (uint32_t m = 0; m < r->n_models; m++) {
    bool known = row->reference[m] > 0 && row->samples_per_s[m] > 0;
    x.ratio[m] = known ? row->samples_per_s[m] / row->reference[m] : (double)NAN;
    if (known) sum += x.ratio[m];
  }
  x.summary = pz_ratios_of(x.ratio, r->models, r->n_models);
  x.mean = x.summary.n_models ? sum / x.summary.n_models : 0;
  return x;
}

static json_t *ratios_json(const struct row_ratios *x) {
  const struct pz_ratios *f = &x->summary;
  if (f->n_models < 2) return json_null();
  return json_pack("{s:I,s:f,s:f,s:{s:s,s:f},s:{s:s,s:f},s:f}", "models", (json_int_t)f->n_models,
                   "geometric_mean", f->geometric_mean, "median", f->median, "least", "model",
                   f->least_model, "ratio", f->least, "most", "model", f->most_model, "ratio",
                   f->most, "mean", x->mean);
}

static json_t *row_json(const struct pz_original *r, const struct pz_original_row *row) {
  struct row_ratios x = row_ratios(r, row);
  json_t *assumptions = json_array(), *models = json_array();
  for (enum pz_assumption a = 0; a < PZ_ASSUMPTIONS; a++)
    if (pz_assumed(row->assumptions, a))
      json_array_append_new(assumptions, json_string(pz_assumption_at(a)->name));
  for (uint32_t m = 0; m < r->n_models; m++)
    json_array_append_new(models,
                          json_pack("{s:s,s:f,s:f,s:o}", "model", r->models[m],
                                    "throughput_samples_s", row->samples_per_s[m],
                                    "reference_samples_s", row->reference[m], "ratio_to_reference",
                                    isnan(x.ratio[m]) ? json_null() : json_real(x.ratio[m])));
  return json_pack("{s:o,s:s,s:b,s:s,s:f,s:f,s:o,s:f,s:o}", "assumptions", assumptions, "search",
                   row->walk ? "original" : "exact", "alone", row->alone, "chip", row->chip,
                   "hbm_gib", row->hbm_gib, "area_part", row->area_part, "ratios", ratios_json(&x),
                   "gap", row->gap, "models", models);
}

json_t *pz_original_json(const struct pz_original *r) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < r->n_rows; i++) json_array_append_new(rows, row_json(r, &r->rows[i]));
  return json_pack("{s:o,s:o}", "original_reports", pz_original_reported_json(), "rows", rows);
}

/* ---- text ----------------------------------------------------------------------------------- */

static void append_row(struct pz_table *t, const struct pz_original *r,
                       const struct pz_original_row *row) {
  struct row_ratios x = row_ratios(r, row);
  bool several = x.summary.n_models > 1;
  name_cell(t, row);
  pz_table_cell(t, "%s", row->chip);
  pz_table_cell(t, "%.0f", row->hbm_gib);
  pz_table_cell(t, "%.1f%%", 100 * row->area_part);
  pz_table_known(t, several, "%.2f", x.mean);
  pz_table_known(t, several, "%.2f", x.summary.geometric_mean);
  pz_table_known(t, several, "%.2f", x.summary.median);
  pz_table_known(t, several, "%.2f .. %.2f", x.summary.least, x.summary.most);
  pz_table_known(t, !row->walk, "%.2g%%", 100 * row->gap);
}

static void print_rows(struct pz_call *call, const struct pz_original *r, bool alone,
                       const char *title, FILE *out) {
  const char *heads[] = {title,      "common chip", ">HBM GiB", ">area", ">mean",
                         ">geomean", ">median",     ">range",   ">gap",  NULL};
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < r->n_rows; i++)
    if (r->rows[i].alone == alone) append_row(t, r, &r->rows[i]);
  pz_table_print(t, 0, out);
}

void pz_original_table(struct pz_call *call, const struct pz_original *r, FILE *out) {
  bool any_alone = r->n_rows && r->rows[r->n_rows - 1].alone;
  pz_original_reported_print(out);
  fputc('\n', out);
  print_rows(call, r, false, "corrected so far", out);
  if (any_alone) {
    fputc('\n', out);
    print_rows(call, r, true, "not corrected, all others are", out);
  }
  fputs("\nmean, geomean, median, range: throughput of the common chip over that of tpuv4 with "
        "expert plans, both under\nthe assumptions of the row; gap: no chip's objective is higher "
        "by more than this\n",
        out);
}
