/* Predicts every run of a table (--runs).  pz_predict_runs() reads the table, writes the CSV
 * file, and prints the errors by group and the reasons why rows are not predicted; or, if
 * nothing was measured, the predictions themselves. */
#include <math.h>
#include <string.h>

#include "cli/predict_options.h"
#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "report/records.h"
#include "report/table.h"

/* ---- tables --------------------------------------------------------------------------------- */

/* Prints the errors of step time and memory by group of runs. */
static void print_groups(struct pz_call *call, const struct pz_errors *list, uint32_t n) {
  struct pz_table *table = pz_table_new(
      call,
      "group|>runs|>not predicted|>mean error|>bias|>worst|>memory error|>bias|>runs with memory");
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_errors *group = &list[i];
    pz_table_cells(table, "%s|%u|%u", group->name, group->n, group->not_predicted);
    const struct {
      bool is_signed;
      double relative; /* NaN if unknown */
    } errors[] = {{false, group->mean},
                  {true, group->bias},
                  {true, group->worst},
                  {false, group->memory_mean},
                  {true, group->memory_bias}};
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++)
      pz_table_known(table, !isnan(errors[k].relative), errors[k].is_signed ? "%+.1f%%" : "%.1f%%",
                     100 * errors[k].relative);
    pz_table_cell(table, "%u", group->n_memory);
  }
  pz_table_print(table, 0, stdout);
}

/* Prints the prediction of each run, or the reason why there is none. */
static void print_rows(struct pz_call *call, const struct pz_runs *runs) {
  struct pz_table *table =
      pz_table_new(call, "run|>devices|>step (s)|>tokens/s a device|>memory (GB)|>of HBM|reason");
  for (uint32_t i = 0; i < runs->n_rows; i++) {
    const struct pz_run_row *row = &runs->rows[i];
    const struct pz_prediction *prediction = &row->p;
    pz_table_cell(table, "%s", row->id);
    if (!row->predicted) {
      pz_table_dashes(table, 5);
      pz_table_cell(table, "%s", row->reason);
      continue;
    }
    pz_table_cells(table, "%lld|%.4g|%.0f|%.1f|%.0f%%|%s", (long long)row->devices,
                   prediction->step_s, prediction->tokens_per_s_per_device,
                   prediction->peak_bytes / 1e9, 100 * prediction->peak_bytes / row->hbm_bytes,
                   pz_prediction_fits(prediction) ? "" : "does not fit");
  }
  pz_table_print(table, 0, stdout);
}

/* Prints every reason why rows were not predicted, their number and the first of them. */
static void print_reasons(struct pz_call *call, const struct pz_runs *runs) {
  struct pz_table *table = pz_table_new(call, ">rows|the first|reason");
  bool any = false;
  for (uint32_t i = 0; i < runs->n_rows; i++) {
    const struct pz_run_row *row = &runs->rows[i];
    if (row->predicted) continue;
    uint32_t first = 0, n = 0;
    while (strcmp(runs->rows[first].reason, row->reason) != 0) first++;
    if (first < i) continue; /* printed before */
    for (uint32_t k = i; k < runs->n_rows; k++)
      if (strcmp(runs->rows[k].reason, row->reason) == 0) n++;
    pz_table_cells(table, "%u|%s|%s", n, row->id, row->reason);
    any = true;
  }
  if (!any) return;
  printf("\nNot predicted:\n");
  pz_table_print(table, 0, stdout);
}

/* ---- the table ------------------------------------------------------------------------------ */

/* Predicts every run of a table, writes the CSV file, and prints errors or predictions. */
void pz_predict_runs(struct pz_call *call, const struct pz_predict_settings *settings) {
  const char *path = settings->runs, *csv_path = settings->csv;
  struct pz_error *err = pz_call_error(call);
  struct pz_runs *runs = NULL;
  unsigned threads = (unsigned)settings->threads;
  size_t bytes = 0;
  if (csv_path && pz_file_same(path, csv_path))
    pz_raise(call, PZ_BAD_USE, "--csv %s is the table that is read; accepted: another file",
             csv_path);
  if (csv_path) pz_file_require_output(call, csv_path, NULL, 0);
  const char *text = pz_file_text(call, path, PZ_CSV_MOST_BYTES, &bytes);
  if (settings->no_network)
    pz_must(call, pz_runs_predict_alone(path, text, bytes, threads, &runs, err));
  else
    pz_must(call, pz_runs_predict(path, text, bytes, threads, &runs, err));
  pz_defer(call, pz_object_free, runs);
  if (csv_path) {
    char *csv = NULL;
    size_t csv_bytes = 0;
    pz_must(call, pz_runs_csv(runs, &csv, &csv_bytes, err));
    pz_defer(call, pz_free, csv);
    pz_file_save(call, csv_path, csv, csv_bytes);
  }
  bool any_measured = false;
  for (uint32_t i = 0; i < runs->n_rows; i++)
    if (runs->rows[i].measured_s > 0 || runs->rows[i].measured_bytes > 0) any_measured = true;
  if (settings->common.json) {
    pz_command_print_json(call, pz_record_json(&pz_runs_record, runs));
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
