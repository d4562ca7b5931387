/* phaze predict --runs: every run of a table, the errors by group, and the table with predictions. */
#include <math.h>
#include <string.h>

#include "cli/predict_options.h"
#include "core/alloc.h"
#include "core/file.h"
#include "report/table.h"
#include "step/prediction.h"
#include "step/run_table.h"

/* ---- errors of a group ---------------------------------------------------------------------- */

struct sum {
  uint32_t n;
  double absolute, bias, worst;
};

static void sum_add(struct sum *s, double error) {
  s->n++;
  s->absolute += fabs(error);
  s->bias += error;
  if (fabs(error) > fabs(s->worst)) s->worst = error;
}

struct group {
  const char *name;
  uint32_t skipped;
  struct sum time, memory;
};

static struct group *group_of(struct group *list, uint32_t *n, const char *name) {
  for (uint32_t i = 0; i < *n; i++)
    if (strcmp(list[i].name, name) == 0) return &list[i];
  list[*n] = (struct group){.name = name};
  return &list[(*n)++];
}

static void group_add(struct group *g, const struct pz_run_row *row) {
  bool measured = row->predicted && row->measured_s > 0;
  if (measured)
    sum_add(&g->time, row->p.step_s / row->measured_s - 1);
  else
    g->skipped++;
  if (row->predicted && row->measured_bytes > 0)
    sum_add(&g->memory, row->p.peak_bytes / row->measured_bytes - 1);
}

/* Groups of the rows of quality ok, or of the others, and all of them together as the last. */
static uint32_t collect(const struct pz_run_table *t, bool ok, struct group *list) {
  struct group all = {.name = ok ? "all" : "all others"};
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n_rows; i++) {
    const struct pz_run_row *row = &t->rows[i];
    if ((strcmp(row->quality, "ok") == 0) != ok) continue;
    group_add(group_of(list, &n, row->group), row);
    group_add(&all, row);
  }
  if (n || ok) list[n++] = all;
  return n;
}

/* ---- told ----------------------------------------------------------------------------------- */

static void sum_cells(struct pz_table *t, const struct sum *s, bool worst) {
  if (s->n) {
    pz_table_cell(t, "%.1f%%", 100 * s->absolute / s->n);
    pz_table_cell(t, "%+.1f%%", 100 * s->bias / s->n);
    if (worst) pz_table_cell(t, "%+.1f%%", 100 * s->worst);
    return;
  }
  for (int i = 0; i < 2 + worst; i++) pz_table_cell(t, "-");
}

static enum pz_status print_groups(const struct group *list, uint32_t n, struct pz_arena *arena) {
  static const char *const heads[] = {
      "group",  ">runs",         ">not predicted", ">mean error",       ">bias",
      ">worst", ">memory error", ">bias",          ">runs with memory", NULL};
  struct pz_table table;
  pz_table_init(&table, arena, heads);
  for (uint32_t i = 0; i < n; i++) {
    pz_table_cell(&table, "%s", list[i].name);
    pz_table_cell(&table, "%u", list[i].time.n);
    pz_table_cell(&table, "%u", list[i].skipped);
    sum_cells(&table, &list[i].time, true);
    sum_cells(&table, &list[i].memory, false);
    pz_table_cell(&table, "%u", list[i].memory.n);
  }
  return pz_table_print(&table, 0, stdout);
}

static json_t *sum_json(const struct sum *s, const char *key) {
  return s->n ? json_real((key[0] == 'm'   ? s->absolute / s->n
                           : key[0] == 'b' ? s->bias / s->n
                                           : s->worst))
              : json_null();
}

/* A cell may be any bytes. */
static json_t *cell_json(const char *text) {
  json_t *s = json_string(text);
  return s ? s : json_string("(not UTF-8)");
}

static json_t *groups_json(const struct group *list, uint32_t n) {
  json_t *groups = json_array();
  for (uint32_t i = 0; i < n; i++) {
    const struct group *g = &list[i];
    json_array_append_new(
        groups,
        json_pack("{s:o,s:I,s:I,s:o,s:o,s:o,s:I,s:o,s:o,s:o}", "group", cell_json(g->name), "runs",
                  (json_int_t)g->time.n, "not_predicted", (json_int_t)g->skipped, "mean_error",
                  sum_json(&g->time, "mean"), "bias", sum_json(&g->time, "bias"), "worst",
                  sum_json(&g->time, "worst"), "memory_runs", (json_int_t)g->memory.n,
                  "memory_mean_error", sum_json(&g->memory, "mean"), "memory_bias",
                  sum_json(&g->memory, "bias"), "memory_worst", sum_json(&g->memory, "worst")));
  }
  return groups;
}

/* Rows without a measured time are not compared but listed. */
static bool is_measured(const struct pz_run_table *t) {
  for (uint32_t i = 0; i < t->n_rows; i++)
    if (t->rows[i].measured_s > 0 || t->rows[i].measured_bytes > 0) return true;
  return false;
}

static enum pz_status print_rows(const struct pz_run_table *t, struct pz_arena *arena) {
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
static enum pz_status print_reasons(const struct pz_run_table *t, struct pz_arena *arena) {
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

static json_t *rows_json(const struct pz_run_table *t) {
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

static enum pz_status print_runs(const struct pz_run_table *t, const struct group *good,
                                 uint32_t n_good, const struct group *other, uint32_t n_other,
                                 struct pz_arena *arena) {
  if (!is_measured(t)) return print_rows(t, arena);
  enum pz_status status = print_groups(good, n_good, arena);
  if (status == PZ_OK && n_other) {
    printf("\nRows whose quality is not ok:\n");
    status = print_groups(other, n_other, arena);
  }
  return status == PZ_OK ? print_reasons(t, arena) : status;
}

static enum pz_status tell(const struct pz_run_table *t, bool json, struct pz_arena *arena,
                           struct pz_error *err) {
  struct group *good = pz_arena_alloc(arena, t->n_rows + 1, sizeof *good),
               *other = pz_arena_alloc(arena, t->n_rows + 1, sizeof *other);
  if (!good || !other) return PZ_NO_MEMORY;
  uint32_t n_good = collect(t, true, good), n_other = collect(t, false, other);
  if (!json) return print_runs(t, good, n_good, other, n_other, arena);
  return pz_command_json(json_pack("{s:o,s:o,s:o}", "groups", groups_json(good, n_good),
                                   "other_quality", groups_json(other, n_other), "rows",
                                   rows_json(t)),
                         err);
}

/* ---- the table with what was predicted ------------------------------------------------------ */

static void put_row(const struct pz_run_table *t, uint32_t i, FILE *out) {
  const struct pz_run_row *row = &t->rows[i];
  const struct pz_prediction *p = &row->p;
  const struct pz_part_info *part;
  for (uint32_t c = 0; c < t->csv.columns; c++) {
    if (pz_run_table_is_result(t->csv.cells[c])) continue;
    pz_csv_put(pz_csv_cell(&t->csv, i, c), out);
    fputc(',', out);
  }
  if (row->predicted) fprintf(out, "%.6g", p->step_s);
  fputc(',', out);
  if (row->predicted && row->measured_s > 0) fprintf(out, "%.5f", p->step_s / row->measured_s - 1);
  fputc(',', out);
  if (row->predicted) fprintf(out, "%.0f", p->peak_bytes);
  fputc(',', out);
  if (row->predicted && row->measured_bytes > 0)
    fprintf(out, "%.5f", p->peak_bytes / row->measured_bytes - 1);
  fputc(',', out);
  if (row->predicted) fputc(pz_prediction_fits(p) ? '1' : '0', out);
  for (size_t k = 0; (part = pz_time_part_at(k)); k++) {
    fputc(',', out);
    if (row->predicted) fprintf(out, "%.5g", pz_time_part(&p->parts, part));
  }
  if (row->predicted)
    fprintf(out, ",%.5g,%.5g,%.5g,", p->tensor_hidden_s, p->expert_hidden_s, p->gradient_hidden_s);
  else
    fputs(",,,,", out);
  pz_csv_put(row->reason, out);
  fputc('\n', out);
}

static void put_heads(const struct pz_run_table *t, FILE *out) {
  const struct pz_part_info *part;
  for (uint32_t c = 0; c < t->csv.columns; c++) {
    if (pz_run_table_is_result(t->csv.cells[c])) continue;
    pz_csv_put(t->csv.cells[c], out);
    fputc(',', out);
  }
  fputs("predicted_step_s,error,predicted_peak_bytes,memory_error,fits", out);
  for (size_t k = 0; (part = pz_time_part_at(k)); k++) fprintf(out, ",%s", part->key);
  fputs(",tensor_hidden_s,expert_hidden_s,gradient_hidden_s,reason\n", out);
}

static enum pz_status write_csv(const struct pz_run_table *t, const char *path,
                                struct pz_error *err) {
  struct pz_buffer text = {0};
  FILE *out = pz_buffer_stream(&text);
  if (!out) return pz_fail(err, PZ_NO_MEMORY, "out of memory for %s", path);
  put_heads(t, out);
  for (uint32_t i = 0; i < t->n_rows; i++) put_row(t, i, out);
  enum pz_status status = pz_buffer_close(out)
                              ? pz_file_write(path, text.text, text.bytes, err)
                              : pz_fail(err, PZ_NO_MEMORY, "out of memory for %s", path);
  pz_free(text.text);
  return status;
}

enum pz_status pz_predict_runs(const struct pz_predict_settings *s, struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_run_table t;
  if (s->csv && pz_file_same(s->runs, s->csv))
    return pz_fail(err, PZ_BAD_USE, "--csv %s is the table that is read; accepted: another file",
                   s->csv);
  enum pz_status status = s->csv ? pz_file_writable(s->csv, err) : PZ_OK;
  if (status == PZ_OK) status = pz_file_read(s->runs, PZ_CSV_MOST_BYTES, &text, &bytes, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&arena, NULL);
  status = pz_run_table_read(s->runs, text, bytes, (unsigned)s->threads, &arena, &t, err);
  if (status == PZ_OK && s->csv) status = write_csv(&t, s->csv, err);
  if (status == PZ_OK) status = tell(&t, s->common.json, &arena, err);
  pz_arena_release(&arena);
  pz_free(text);
  return status;
}
