/* Predicts every run of a table (--runs).  pz_predict_runs() reads the table, writes the CSV file, and prints the errors
 * by group and the reasons why rows are not predicted; or, if nothing was measured, the predictions themselves. */
#include <math.h>
#include <string.h>

#include "cli/owned.h"
#include "cli/predict_options.h"
#include "core/csv.h"
#include "core/file.h"
#include "report/table.h"

static void append_error(struct pz_table *t, bool sign, double e) {
  if (isnan(e))
    pz_table_cell(t, "-");
  else
    pz_table_cell(t, sign ? "%+.1f%%" : "%.1f%%", 100 * e);
}

static void print_groups(struct pz_call *call, const struct pz_errors *list, uint32_t n) {
  static const char *const heads[] = {
      "group",  ">runs",         ">not predicted", ">mean error",       ">bias",
      ">worst", ">memory error", ">bias",          ">runs with memory", NULL};
  struct pz_table *table = pz_table_new(call, heads);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_errors *g = &list[i];
    pz_table_cell(table, "%s", g->name);
    pz_table_cell(table, "%u", g->n);
    pz_table_cell(table, "%u", g->not_predicted);
    append_error(table, false, g->mean);
    append_error(table, true, g->bias);
    append_error(table, true, g->worst);
    append_error(table, false, g->memory_mean);
    append_error(table, true, g->memory_bias);
    pz_table_cell(table, "%u", g->n_memory);
  }
  pz_table_print(table, 0, stdout);
}

static void print_rows(struct pz_call *call, const struct pz_runs *runs) {
  static const char *const heads[] = {"run",          ">devices", ">step (s)", ">tokens/s a device",
                                      ">memory (GB)", ">of HBM",  "reason",    NULL};
  struct pz_table *table = pz_table_new(call, heads);
  for (uint32_t i = 0; i < runs->n_rows; i++) {
    const struct pz_run_row *row = &runs->rows[i];
    pz_table_cell(table, "%s", row->id);
    if (!row->predicted) {
      for (int k = 0; k < 5; k++) pz_table_cell(table, "-");
      pz_table_cell(table, "%s", row->reason);
      continue;
    }
    pz_table_cell(table, "%lld", (long long)row->devices);
    pz_table_cell(table, "%.4g", row->p.step_s);
    pz_table_cell(table, "%.0f", row->p.tokens_per_s_per_device);
    pz_table_cell(table, "%.1f", row->p.peak_bytes / 1e9);
    pz_table_cell(table, "%.0f%%", 100 * row->p.peak_bytes / row->hbm_bytes);
    pz_table_cell(table, "%s", pz_prediction_fits(&row->p) ? "" : "does not fit");
  }
  pz_table_print(table, 0, stdout);
}

/* Prints each reason why rows are not predicted once, with the number of its rows and the first of them. */
static void print_reasons(struct pz_call *call, const struct pz_runs *runs) {
  static const char *const heads[] = {">rows", "the first", "reason", NULL};
  bool any = false;
  struct pz_table *table = pz_table_new(call, heads);
  for (uint32_t i = 0; i < runs->n_rows; i++) {
    const struct pz_run_row *row = &runs->rows[i];
    if (row->predicted) continue;
    uint32_t first = 0, n = 0;
    while (strcmp(runs->rows[first].reason, row->reason) != 0) first++;
    if (first < i) continue; /* printed before */
    for (uint32_t k = i; k < runs->n_rows; k++)
      if (strcmp(runs->rows[k].reason, row->reason) == 0) n++;
    pz_table_cell(table, "%u", n);
    pz_table_cell(table, "%s", row->id);
    pz_table_cell(table, "%s", row->reason);
    any = true;
  }
  if (!any) return;
  printf("\nNot predicted:\n");
  pz_table_print(table, 0, stdout);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *error_json(double e) { return isnan(e) ? json_null() : json_real(e); }

/* Cells of a table may contain any bytes. */
static json_t *cell_json(const char *text) {
  json_t *s = json_string(text);
  return s ? s : json_string("(not UTF-8)");
}

static json_t *groups_json(const struct pz_errors *list, uint32_t n) {
  json_t *groups = json_array();
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_errors *g = &list[i];
    json_array_append_new(
        groups, json_pack("{s:o,s:I,s:I,s:o,s:o,s:o,s:I,s:o,s:o,s:o}", "group", cell_json(g->name),
                          "runs", (json_int_t)g->n, "not_predicted", (json_int_t)g->not_predicted,
                          "mean_error", error_json(g->mean), "bias", error_json(g->bias), "worst",
                          error_json(g->worst), "memory_runs", (json_int_t)g->n_memory,
                          "memory_mean_error", error_json(g->memory_mean), "memory_bias",
                          error_json(g->memory_bias), "memory_worst", error_json(g->memory_worst)));
  }
  return groups;
}

static json_t *rows_json(const struct pz_runs *runs) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < runs->n_rows; i++) {
    const struct pz_run_row *row = &runs->rows[i];
    json_t *j = json_pack("{s:o}", "id", cell_json(row->id));
    json_object_set_new(j, "step_s", row->predicted ? json_real(row->p.step_s) : json_null());
    json_object_set_new(j, "peak_bytes",
                        row->predicted ? json_real(row->p.peak_bytes) : json_null());
    json_object_set_new(j, "fits",
                        row->predicted ? json_boolean(pz_prediction_fits(&row->p)) : json_null());
    json_object_set_new(j, "reason", row->predicted ? json_null() : cell_json(row->reason));
    json_array_append_new(rows, j);
  }
  return rows;
}

/* ---- the table ------------------------------------------------------------------------------ */

void pz_predict_runs(struct pz_call *call, const struct pz_predict_settings *s) {
  struct pz_error *err = pz_call_error(call);
  struct pz_runs *runs = NULL;
  unsigned threads = (unsigned)s->threads;
  size_t bytes = 0;
  if (s->csv && pz_file_same(s->runs, s->csv))
    pz_raise(call, PZ_BAD_USE, "--csv %s is the table that is read; accepted: another file",
             s->csv);
  if (s->csv) pz_file_require_output(call, s->csv, NULL, 0);
  const char *text = pz_file_text(call, s->runs, PZ_CSV_MOST_BYTES, &bytes);
  if (s->no_network)
    pz_must(call, pz_runs_predict_alone(s->runs, text, bytes, threads, &runs, err));
  else
    pz_must(call, pz_runs_predict(s->runs, text, bytes, threads, &runs, err));
  pz_defer(call, pz_free_runs, runs);
  if (s->csv) {
    char *csv = NULL;
    size_t csv_bytes = 0;
    pz_must(call, pz_runs_csv(runs, &csv, &csv_bytes, err));
    pz_defer(call, pz_free_text, csv);
    pz_file_save(call, s->csv, csv, csv_bytes);
  }
  bool any_measured = false;
  for (uint32_t i = 0; i < runs->n_rows; i++)
    if (runs->rows[i].measured_s > 0 || runs->rows[i].measured_bytes > 0) any_measured = true;
  if (s->common.json) {
    pz_command_print_json(call, json_pack("{s:o,s:o,s:o}", "groups",
                                          groups_json(runs->groups, runs->n_groups),
                                          "other_quality", groups_json(runs->apart, runs->n_apart),
                                          "rows", rows_json(runs)));
  } else if (any_measured) {
    print_groups(call, runs->groups, runs->n_groups);
    if (runs->n_apart) {
      printf("\nRows whose quality is not ok:\n");
      print_groups(call, runs->apart, runs->n_apart);
    }
    print_reasons(call, runs);
  } else {
    print_rows(call, runs);
  }
}
