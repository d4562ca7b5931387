#include "cost/measured_ops.h"

#include <stdio.h>
#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "cost/silicon_table.h"

/* A table with columns op and kernel_us. */
static enum pz_status read_own(const char *name, const struct pz_csv *csv, struct pz_arena *arena,
                               const struct pz_ops_row **out, struct pz_error *err) {
  uint32_t at = pz_csv_column(csv, "kernel_us");
  const struct pz_ops_row *read = NULL;
  char list[700];
  if (at == PZ_NONE)
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s:1: no column 'kernel_us'; accepted: a table with op, batch, m, n, k, "
                   "kernel_us; or of %s",
                   name, pz_silicon_accepted(list, sizeof list));
  enum pz_status status = pz_ops_read(name, csv, arena, &read, err);
  struct pz_ops_row *rows = pz_arena_alloc(arena, csv->rows, sizeof *rows);
  if (status == PZ_OK && !rows) status = pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  for (uint32_t i = 0; i < csv->rows && status == PZ_OK; i++) {
    char where[300];
    snprintf(where, sizeof where, "%.250s:%u", name, csv->lines[i]);
    rows[i] = read[i];
    status = pz_ops_read_us(where, "kernel_us", pz_csv_cell(csv, i, at), false, &rows[i].us, err);
  }
  if (status == PZ_OK) *out = rows;
  return status;
}

enum pz_status pz_measured_read(const char *name, const struct pz_csv *csv, struct pz_arena *arena,
                                struct pz_measured *out, struct pz_error *err) {
  const struct pz_ops_row *rows = NULL;
  if (csv->rows == 0 || csv->rows > PZ_OPS_MOST_ROWS)
    return pz_fail(err, PZ_BAD_INPUT, "%s: %u rows; accepted: 1 to %d", name, csv->rows,
                   PZ_OPS_MOST_ROWS);
  enum pz_status status = pz_silicon_is(csv) ? pz_silicon_read(name, csv, arena, &rows, err)
                                             : read_own(name, csv, arena, &rows, err);
  if (status == PZ_OK) *out = (struct pz_measured){.name = name, .rows = rows, .n = csv->rows};
  return status;
}

/* ---- files ---------------------------------------------------------------------------------- */

static enum pz_status load_csv(const char *path, struct pz_arena *arena, struct pz_csv *csv,
                               struct pz_error *err) {
  char *text = NULL;
  size_t bytes = 0;
  enum pz_status status = pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, err);
  if (status == PZ_OK) status = pz_csv_parse(path, text, bytes, arena, csv, err);
  pz_free(text);
  return status;
}

struct tables {
  struct pz_arena *arena;
  struct pz_vec rows, skipped;
};

static enum pz_status skip_file(struct tables *t, const char *file, const char *why,
                                struct pz_error *err) {
  const char *text = pz_arena_printf(t->arena, "%s is skipped: %s", file, why);
  return text && pz_vec_push(&t->skipped, &text) ? PZ_OK
                                                 : pz_fail(err, PZ_NO_MEMORY, "out of memory");
}

static enum pz_status add_file(struct tables *t, const char *file, struct pz_error *err) {
  struct pz_measured m;
  struct pz_csv csv;
  if (!pz_file_is_regular(file)) return skip_file(t, file, "it is not a regular file", err);
  enum pz_status status = load_csv(file, t->arena, &csv, err);
  if (status != PZ_OK) return status;
  if (csv.rows == 0) return skip_file(t, file, "it has no rows", err);
  status = pz_measured_read(file, &csv, t->arena, &m, err);
  if (status != PZ_OK) return status;
  if (t->rows.n + m.n > PZ_OPS_MOST_ROWS_IN_ALL)
    return pz_fail(err, PZ_BAD_INPUT, "%s: more than %d rows in all tables", file,
                   PZ_OPS_MOST_ROWS_IN_ALL);
  for (uint32_t i = 0; i < m.n; i++)
    if (!pz_vec_push(&t->rows, &m.rows[i])) return pz_fail(err, PZ_NO_MEMORY, "out of memory");
  return PZ_OK;
}

enum pz_status pz_measured_load(const char *path, struct pz_arena *arena, struct pz_measured *out,
                                struct pz_error *err) {
  const char *const *files = NULL;
  struct tables t = {.arena = arena};
  if (!pz_file_is_directory(path)) {
    struct pz_csv csv;
    enum pz_status status = load_csv(path, arena, &csv, err);
    return status == PZ_OK ? pz_measured_read(path, &csv, arena, out, err) : status;
  }
  pz_vec_init(&t.rows, arena, sizeof(struct pz_ops_row));
  pz_vec_init(&t.skipped, arena, sizeof(const char *));
  enum pz_status status = pz_csv_files(path, arena, &files, err);
  for (; status == PZ_OK && *files; files++) status = add_file(&t, *files, err);
  if (status == PZ_OK && t.rows.n == 0)
    status = pz_fail(err, PZ_BAD_INPUT,
                     "%s: no table of operators; accepted: files with rows that end with .csv or "
                     "_perf.txt",
                     path);
  if (status == PZ_OK)
    *out = (struct pz_measured){path, t.rows.items, t.rows.n, t.skipped.items, t.skipped.n};
  return status;
}

/* ---- one chip ------------------------------------------------------------------------------- */

/* The chip that all rows name, or NULL. */
static const char *only_chip(const struct pz_measured *m) {
  for (uint32_t i = 0; i < m->n; i++)
    if (!m->rows[i].chip || strcmp(m->rows[i].chip, m->rows[0].chip) != 0) return NULL;
  return m->rows[0].chip;
}

enum pz_status pz_measured_of_chip(const struct pz_measured *m, const struct pz_chip *chip,
                                   struct pz_arena *arena, struct pz_measured *out,
                                   struct pz_error *err) {
  const char *only = only_chip(m);
  struct pz_ops_row *rows = pz_arena_alloc(arena, m->n, sizeof *rows);
  uint32_t n = 0;
  if (!rows) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", m->name);
  for (uint32_t i = 0; i < m->n; i++) {
    const struct pz_ops_row *row = &m->rows[i];
    bool own = only || !row->chip || strcmp(row->chip, chip->name) == 0;
    if (own && !row->reason && !row->slow && !pz_ops_not_on(chip, row)) rows[n++] = *row;
  }
  if (n == 0)
    return pz_fail(err, PZ_BAD_INPUT, "%s: none of %u rows is of %s and predicted", m->name, m->n,
                   chip->name);
  *out = (struct pz_measured){.name = m->name, .rows = rows, .n = n};
  return PZ_OK;
}
