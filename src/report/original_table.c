#include "report/original_table.h"

#include <math.h>

#include "report/table.h"
#include "study/result.h"

/* What the original's authors report of their common chip. */
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

/* What a row of the sequence corrects, or the assumption that stands alone. */
static void put_name(struct pz_table *t, const struct pz_original_row *row) {
  enum pz_assumption a = 0;
  if (row->assumptions == PZ_ASSUME_ALL) {
    pz_table_cell(t, "%s", row->walk ? "nothing; chip by the original's search" : "nothing");
    return;
  }
  if (row->alone)
    while (!pz_assumed(row->assumptions, a)) a++;
  else
    while (a + 1 < PZ_ASSUMPTIONS && !pz_assumed(row->assumptions, a + 1)) a++;
  const struct pz_assumption_info *info = pz_assumption_at(a);
  if (row->alone)
    pz_table_cell(t, "%s", info->name);
  else
    pz_table_cell(t, "+ %s%s", info->corrected, row->assumptions ? "" : " (all)");
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *set_json(pz_assumptions set) {
  json_t *list = json_array();
  for (enum pz_assumption a = 0; a < PZ_ASSUMPTIONS; a++)
    if (pz_assumed(set, a)) json_array_append_new(list, json_string(pz_assumption_at(a)->name));
  return list;
}

/* The models' ratios in few numbers, and their arithmetic mean. */
struct row_ratios {
  struct pz_ratios few;
  double ratio[PZ_SEARCH_MOST_MODELS]; /* NaN: none */
  double mean;
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
  x.few = pz_ratios_of(x.ratio, r->models, r->n_models);
  x.mean = x.few.n_models ? sum / x.few.n_models : 0;
  return x;
}

static json_t *ratios_json(const struct row_ratios *x) {
  const struct pz_ratios *f = &x->few;
  if (f->n_models < 2) return json_null();
  return json_pack("{s:I,s:f,s:f,s:{s:s,s:f},s:{s:s,s:f},s:f}", "models", (json_int_t)f->n_models,
                   "geometric_mean", f->geometric_mean, "median", f->median, "least", "model",
                   f->least_model, "ratio", f->least, "most", "model", f->most_model, "ratio",
                   f->most, "mean", x->mean);
}

static json_t *models_json(const struct pz_original *r, const struct pz_original_row *row,
                           const struct row_ratios *x) {
  json_t *models = json_array();
  for (uint32_t m = 0; m < r->n_models; m++)
    json_array_append_new(models,
                          json_pack("{s:s,s:f,s:f,s:o}", "model", r->models[m],
                                    "throughput_samples_s", row->samples_per_s[m],
                                    "reference_samples_s", row->reference[m], "ratio_to_reference",
                                    isnan(x->ratio[m]) ? json_null() : json_real(x->ratio[m])));
  return models;
}

static json_t *row_json(const struct pz_original *r, const struct pz_original_row *row) {
  struct row_ratios x = row_ratios(r, row);
  return json_pack("{s:o,s:s,s:b,s:s,s:f,s:f,s:o,s:f,s:o}", "assumptions",
                   set_json(row->assumptions), "search", row->walk ? "original" : "exact", "alone",
                   row->alone, "chip", row->chip, "hbm_gib", row->hbm_gib, "area_part",
                   row->area_part, "ratios", ratios_json(&x), "gap", row->gap, "models",
                   models_json(r, row, &x));
}

json_t *pz_original_json(const struct pz_original *r) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < r->n_rows; i++) json_array_append_new(rows, row_json(r, &r->rows[i]));
  return json_pack("{s:o,s:o}", "original_reports", pz_original_reported_json(), "rows", rows);
}

/* ---- text ----------------------------------------------------------------------------------- */

static void put_ratio(struct pz_table *t, const struct row_ratios *x, double ratio) {
  if (x->few.n_models > 1)
    pz_table_cell(t, "%.2f", ratio);
  else
    pz_table_cell(t, "-");
}

static void put_row(struct pz_table *t, const struct pz_original *r,
                    const struct pz_original_row *row) {
  struct row_ratios x = row_ratios(r, row);
  put_name(t, row);
  pz_table_cell(t, "%s", row->chip);
  pz_table_cell(t, "%.0f", row->hbm_gib);
  pz_table_cell(t, "%.1f%%", 100 * row->area_part);
  put_ratio(t, &x, x.mean);
  put_ratio(t, &x, x.few.geometric_mean);
  put_ratio(t, &x, x.few.median);
  if (x.few.n_models > 1)
    pz_table_cell(t, "%.2f .. %.2f", x.few.least, x.few.most);
  else
    pz_table_cell(t, "-");
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
    if (r->rows[i].alone == alone) put_row(&t, r, &r->rows[i]);
  return pz_table_print(&t, 0, out);
}

enum pz_status pz_original_print(const struct pz_original *r, struct pz_arena *arena, FILE *out) {
  pz_original_reported_print(out);
  fputc('\n', out);
  enum pz_status status = print_rows(r, false, "corrected so far", arena, out);
  bool alone = r->n_rows && r->rows[r->n_rows - 1].alone;
  if (alone) fputc('\n', out);
  if (status == PZ_OK && alone)
    status = print_rows(r, true, "not corrected, all others are", arena, out);
  fputs("\nmean, geomean, median, range: throughput of the common chip over that of tpuv4 with "
        "expert "
        "plans, both under\nthe assumptions of the row; gap: no chip's objective is higher by more "
        "than this\n",
        out);
  return status;
}
