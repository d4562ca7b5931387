/* phaze predict --runs: every run of a table, the errors by group, and the table with predictions. */
#include <math.h>
#include <string.h>

#include "cli/predict_options.h"
#include "core/csv.h"
#include "core/file.h"
#include "report/table.h"

static void error_cell(struct pz_table *t, bool sign, double e) {
  if (isnan(e))
    pz_table_cell(t, "-");
  else
    pz_table_cell(t, sign ? "%+.1f%%" : "%.1f%%", 100 * e);
}

static enum pz_status print_groups(const struct pz_errors *list, uint32_t n,
                                   struct pz_arena *arena) {
  static const char *const heads[] = {
      "group",  ">runs",         ">not predicted", ">mean error",       ">bias",
      ">worst", ">memory error", ">bias",          ">runs with memory", NULL};
  struct pz_table table;
  pz_table_init(&table, arena, heads);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_errors *g = &list[i];
    pz_table_cell(&table, "%s", g->name);
    pz_table_cell(&table, "%u", g->n);
    pz_table_cell(&table, "%u", g->not_predicted);
    error_cell(&table, false, g->mean);
    error_cell(&table, true, g->bias);
    error_cell(&table, true, g->worst);
    error_cell(&table, false, g->memory_mean);
    error_cell(&table, true, g->memory_bias);
    pz_table_cell(&table, "%u", g->n_memory);
  }
  return pz_table_print(&table, 0, stdout);
}

static json_t *error_json(double e) { return isnan(e) ? json_null() : json_real(e); }

/* A cell may be any bytes. */
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

/* Rows without a measured time are not compared but listed. */
static bool is_measured(const struct pz_runs *t) {
  for (uint32_t i = 0; i < t->n_rows; i++)
    if (t->rows[i].measured_s > 0 || t->rows[i].measured_bytes > 0) return true;
  return false;
}

static enum pz_status print_rows(const struct pz_runs *t, struct pz_arena *arena) {
  static const char *const heads[] = {"run",          ">devices", ">step (s)", ">tokens/s a device",
                                      ">memory (GB)", ">of HBM",  "reason",    NULL};
  struct pz_table table;
  pz_table_init(&table, arena, heads);
  for (uint32_t i = 0; i < t->n_rows; i++) {
    const struct pz_run_row *row = &t->rows[i];
    pz_table_cell(&table, "%s", row->id);
    if (!row->predicted) {
      for (int k = 0; k < 5; k++) pz_table_cell(&table, "-");
      pz_table_cell(&table, "%s", row->reason);
      continue;
    }
    pz_table_cell(&table, "%lld", (long long)row->devices);
    pz_table_cell(&table, "%.4g", row->p.step_s);
    pz_table_cell(&table, "%.0f", row->p.tokens_per_s_per_device);
    pz_table_cell(&table, "%.1f", row->p.peak_bytes / 1e9);
    pz_table_cell(&table, "%.0f%%", 100 * row->p.peak_bytes / row->hbm_bytes);
    pz_table_cell(&table, "%s", pz_prediction_fits(&row->p) ? "" : "does not fit");
  }
  return pz_table_print(&table, 0, stdout);
}

/* Why rows are not predicted: each reason once, with the number of its rows. */
static enum pz_status print_reasons(const struct pz_runs *t, struct pz_arena *arena) {
  static const char *const heads[] = {">rows", "the first", "reason", NULL};
  struct pz_table table;
  bool any = false;
  pz_table_init(&table, arena, heads);
  for (uint32_t i = 0; i < t->n_rows; i++) {
    uint32_t first = 0, n = 0;
    if (t->rows[i].predicted) continue;
    while (strcmp(t->rows[first].reason, t->rows[i].reason) != 0) first++;
    if (first < i) continue;
    for (uint32_t k = i; k < t->n_rows; k++) n += strcmp(t->rows[k].reason, t->rows[i].reason) == 0;
    pz_table_cell(&table, "%u", n);
    pz_table_cell(&table, "%s", t->rows[i].id);
    pz_table_cell(&table, "%s", t->rows[i].reason);
    any = true;
  }
  if (!any) return PZ_OK;
  printf("\nNot predicted:\n");
  return pz_table_print(&table, 0, stdout);
}

static json_t *rows_json(const struct pz_runs *t) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < t->n_rows; i++) {
    const struct pz_run_row *row = &t->rows[i];
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

static enum pz_status print_runs(const struct pz_runs *t, struct pz_arena *arena) {
  if (!is_measured(t)) return print_rows(t, arena);
  enum pz_status status = print_groups(t->groups, t->n_groups, arena);
  if (status == PZ_OK && t->n_apart) {
    printf("\nRows whose quality is not ok:\n");
    status = print_groups(t->apart, t->n_apart, arena);
  }
  return status == PZ_OK ? print_reasons(t, arena) : status;
}

static enum pz_status tell(const struct pz_runs *t, bool json, struct pz_error *err) {
  struct pz_arena arena;
  if (json)
    return pz_command_json(json_pack("{s:o,s:o,s:o}", "groups", groups_json(t->groups, t->n_groups),
                                     "other_quality", groups_json(t->apart, t->n_apart), "rows",
                                     rows_json(t)),
                           err);
  pz_arena_init(&arena, NULL);
  enum pz_status status = print_runs(t, &arena);
  pz_arena_release(&arena);
  return status;
}

static enum pz_status write_csv(const struct pz_runs *t, const char *path, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_runs_csv(t, &text, &bytes, err);
  if (status == PZ_OK) status = pz_file_write(path, text, bytes, err);
  pz_text_free(text);
  return status;
}

enum pz_status pz_predict_runs(const struct pz_predict_settings *s, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  struct pz_runs *t = NULL;
  enum pz_status (*predict)(const char *, const char *, size_t, unsigned, struct pz_runs **,
                            struct pz_error *) =
      s->no_network ? pz_runs_predict_alone : pz_runs_predict;
  if (s->csv && pz_file_same(s->runs, s->csv))
    return pz_fail(err, PZ_BAD_USE, "--csv %s is the table that is read; accepted: another file",
                   s->csv);
  enum pz_status status = s->csv ? pz_file_output(s->csv, NULL, 0, err) : PZ_OK;
  if (status == PZ_OK) status = pz_file_read(s->runs, PZ_CSV_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = predict(s->runs, text, bytes, (unsigned)s->threads, &t, err);
  if (status == PZ_OK && s->csv) status = write_csv(t, s->csv, err);
  if (status == PZ_OK) status = tell(t, s->common.json, err);
  pz_runs_free(t);
  pz_text_free(text);
  return status;
}
