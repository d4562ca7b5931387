#include "report/original_table.h"

#include <math.h>
#include <stdlib.h>

#include "report/table.h"

/* What the original's authors report of their common chip. */
static const double REPORTED_RATIO = 2.9, REPORTED_AREA_PART = 0.91, REPORTED_HBM_GB = 64;
static const char REPORTED_CORES[] = "many vector cores, large tensor cores";

/* Throughput over the reference, over the models that have one. */
struct summary {
  double mean, geomean, median, least, most;
  uint32_t n;
};

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static struct summary summarise(const struct pz_original *r, const struct pz_original_row *row) {
  struct summary s = {0};
  double ratio[PZ_SEARCH_MOST_MODELS], sum = 0, logs = 0;
  for (uint32_t m = 0; m < r->n_models; m++)
    if (row->reference[m] > 0 && row->samples_per_s[m] > 0) {
      ratio[s.n] = row->samples_per_s[m] / row->reference[m];
      sum += ratio[s.n];
      logs += log(ratio[s.n++]);
    }
  if (!s.n) return s;
  qsort(ratio, s.n, sizeof *ratio, by_value);
  s.mean = sum / s.n;
  s.geomean = exp(logs / s.n);
  s.median = (ratio[(s.n - 1) / 2] + ratio[s.n / 2]) / 2;
  s.least = ratio[0];
  s.most = ratio[s.n - 1];
  return s;
}

/* The assumption that a row of the sequence corrects, or that stands alone. */
static const char *row_name(const struct pz_original_row *row) {
  if (row->walk) return "the original's, and its walk over areas";
  if (row->assumptions == PZ_ASSUME_ALL) return "the original's, exact search";
  for (enum pz_assumption a = 0; a < PZ_ASSUMPTIONS; a++) {
    bool here = row->alone
                    ? pz_assumed(row->assumptions, a)
                    : row->assumptions == ((pz_assumptions)PZ_ASSUME_ALL >> (a + 1) << (a + 1));
    if (here) return pz_assumption_at(a)->name;
  }
  return "";
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *set_json(pz_assumptions set) {
  json_t *list = json_array();
  for (enum pz_assumption a = 0; a < PZ_ASSUMPTIONS; a++)
    if (pz_assumed(set, a)) json_array_append_new(list, json_string(pz_assumption_at(a)->name));
  return list;
}

static json_t *row_json(const struct pz_original *r, const struct pz_original_row *row) {
  struct summary s = summarise(r, row);
  json_t *models = json_array();
  for (uint32_t m = 0; m < r->n_models; m++)
    json_array_append_new(models, json_pack("{s:s,s:f,s:f}", "model", r->models[m],
                                            "throughput_samples_s", row->samples_per_s[m],
                                            "reference_samples_s", row->reference[m]));
  return json_pack("{s:o,s:s,s:b,s:s,s:f,s:f,s:{s:f,s:f,s:f,s:f,s:f},s:f,s:o}", "assumptions",
                   set_json(row->assumptions), "search", row->walk ? "walk over areas" : "exact",
                   "alone", row->alone, "chip", row->chip.name, "hbm_gib", row->hbm_gib,
                   "area_part", row->area_part, "ratio_to_reference", "mean", s.mean,
                   "geometric_mean", s.geomean, "median", s.median, "least", s.least, "most",
                   s.most, "gap", row->gap, "models", models);
}

json_t *pz_original_json(const struct pz_original *r) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < r->n_rows; i++) json_array_append_new(rows, row_json(r, &r->rows[i]));
  return json_pack("{s:{s:f,s:f,s:f,s:s},s:o}", "original_reports", "ratio_to_reference",
                   REPORTED_RATIO, "area_part_over", REPORTED_AREA_PART, "hbm_gb_at_most",
                   REPORTED_HBM_GB, "cores", REPORTED_CORES, "rows", rows);
}

/* ---- text ----------------------------------------------------------------------------------- */

static void put_row(struct pz_table *t, const struct pz_original *r,
                    const struct pz_original_row *row, const char *name) {
  struct summary s = summarise(r, row);
  pz_table_cell(t, "%s", name);
  pz_table_cell(t, "%s", row->chip.name);
  pz_table_cell(t, "%.0f", row->hbm_gib);
  pz_table_cell(t, "%.1f%%", 100 * row->area_part);
  pz_table_cell(t, "%.2f", s.mean);
  pz_table_cell(t, "%.2f", s.geomean);
  pz_table_cell(t, "%.2f", s.median);
  pz_table_cell(t, "%.2f .. %.2f", s.least, s.most);
  if (row->walk)
    pz_table_cell(t, "-");
  else
    pz_table_cell(t, "%.2g%%", 100 * row->gap);
}

static void begin(struct pz_table *t, struct pz_arena *arena, const char *title) {
  const char *heads[] = {title,      "common chip", ">HBM GiB", ">area", ">mean",
                         ">geomean", ">median",     ">range",   ">gap",  NULL};
  pz_table_init(t, arena, heads);
}

static enum pz_status print_rows(const struct pz_original *r, bool alone, const char *title,
                                 struct pz_arena *arena, FILE *out) {
  struct pz_table t;
  begin(&t, arena, title);
  for (uint32_t i = 0; i < r->n_rows; i++)
    if (r->rows[i].alone == alone) put_row(&t, r, &r->rows[i], row_name(&r->rows[i]));
  return pz_table_print(&t, 0, out);
}

enum pz_status pz_original_print(const struct pz_original *r, struct pz_arena *arena, FILE *out) {
  fprintf(
      out,
      "The original reports for its common chip: %.1f times tpuv4 with expert plans on average, "
      "over %.0f%% of the area,\n%s, HBM of at most %.0f GB.\n\n",
      REPORTED_RATIO, 100 * REPORTED_AREA_PART, REPORTED_CORES, REPORTED_HBM_GB);
  enum pz_status status = print_rows(r, false, "assumptions, corrected from here on", arena, out);
  fputc('\n', out);
  if (status == PZ_OK)
    status = print_rows(r, true, "one assumption, all others corrected", arena, out);
  fputs("\nmean .. range: throughput of the common chip over that of tpuv4 with expert plans under "
        "the "
        "same assumptions;\ngap: no chip's objective is higher by more than this\n",
        out);
  return status;
}
