#include "core/csv.h"
#include "core/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

struct reader {
  const char *name, *at, *end;
  struct pz_arena *arena;
  struct pz_vec cells;
  struct pz_vec lines; /* where each row begins */
  int line, newlines;  /* where we are; line ends inside the quotes of this row */
  struct pz_error *err;
};

static enum pz_status fail(struct reader *r, const char *what, const char *accepted) {
  enum pz_status status =
      pz_fail(r->err, PZ_BAD_INPUT, "%s:%d: %s; accepted: %s", r->name, r->line, what, accepted);
  pz_error_at(r->err, r->name, r->line, 0);
  return status;
}

static enum pz_status keep(struct reader *r, const char *text, size_t n) {
  char *copy = pz_arena_alloc(r->arena, n + 1, 1);
  if (copy && n) memcpy(copy, text, n);
  const char *cell = copy;
  if (copy && pz_vec_push(&r->cells, &cell)) return PZ_OK;
  return pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
}

/* The closing quote of a cell that begins at `at`, or NULL; two quotes stand for one. */
static const char *closing(const char *at, const char *end) {
  for (at++; at < end; at++)
    if (*at == '"') {
      if (at + 1 >= end || at[1] != '"') return at;
      at++;
    }
  return NULL;
}

static enum pz_status quoted(struct reader *r) {
  const char *close = closing(r->at, r->end);
  if (!close) return fail(r, "a quote is not closed", "one behind the cell, two for one inside");
  char *out = pz_arena_alloc(r->arena, (size_t)(close - r->at), 1);
  size_t n = 0;
  if (!out) return pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
  for (r->at++; r->at < close; r->at++) {
    r->at += *r->at == '"';
    r->newlines += *r->at == '\n';
    out[n++] = *r->at;
  }
  r->at = close + 1;
  const char *cell = out;
  if (pz_vec_push(&r->cells, &cell)) return PZ_OK;
  return pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
}

static enum pz_status plain(struct reader *r) {
  const char *start = r->at;
  while (r->at < r->end && *r->at != ',' && *r->at != '\n' && *r->at != '\r') r->at++;
  return keep(r, start, (size_t)(r->at - start));
}

/* One line; *n is the number of its cells. */
static enum pz_status line(struct reader *r, uint32_t *n) {
  uint32_t first = r->cells.n;
  for (;;) {
    enum pz_status status = r->at < r->end && *r->at == '"' ? quoted(r) : plain(r);
    if (status != PZ_OK) return status;
    if (r->cells.n - first > PZ_CSV_MOST_COLUMNS)
      return fail(r, "more than 256 columns", "at most 256");
    if (r->at < r->end && *r->at == ',') {
      r->at++;
      continue;
    }
    if (r->at < r->end && *r->at == '\r') r->at++;
    if (r->at < r->end && *r->at != '\n')
      return fail(r, "text after a closing quote, or a carriage return without a line feed",
                  "a comma or the end of the line there");
    if (r->at < r->end) r->at++;
    *n = r->cells.n - first;
    return PZ_OK;
  }
}

static enum pz_status check_heads(struct reader *r, const struct pz_csv *csv) {
  r->line = 1;
  char what[120];
  for (uint32_t i = 0; i < csv->columns; i++)
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(csv->cells[i], csv->cells[k]) == 0) {
        snprintf(what, sizeof what, "columns %u and %u are both '%.60s'", k + 1, i + 1,
                 csv->cells[i]);
        return fail(r, what, "each name once");
      }
  return PZ_OK;
}

enum pz_status pz_csv_parse(const char *name, const char *text, size_t bytes,
                            struct pz_arena *arena, struct pz_csv *out, struct pz_error *err) {
  struct reader r = {
      .name = name, .at = text, .end = text + bytes, .arena = arena, .line = 1, .err = err};
  struct pz_csv csv = {0};
  pz_vec_init(&r.cells, arena, sizeof(const char *));
  pz_vec_init(&r.lines, arena, sizeof(uint32_t));
  const char *nul = memchr(text, '\0', bytes);
  size_t good = nul ? (size_t)(nul - text) : pz_text_utf8(text, bytes);
  for (size_t i = 0; good < bytes && i < good; i++) r.line += text[i] == '\n';
  if (good < bytes)
    return fail(&r, nul ? "a NUL byte" : "a byte that is not UTF-8", "a text file in UTF-8");
  if (bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0) r.at += 3;
  for (bool head = true; r.at < r.end || head; head = false) {
    uint32_t n = 0, begin = (uint32_t)r.line;
    r.newlines = 0;
    if (csv.rows == PZ_CSV_MOST_ROWS)
      return pz_fail(err, PZ_LIMIT, "%s: accepted: at most %d rows", name, PZ_CSV_MOST_ROWS);
    enum pz_status status = line(&r, &n);
    if (status != PZ_OK) return status;
    if (head)
      csv.columns = n;
    else if (n == csv.columns && pz_vec_push(&r.lines, &begin))
      csv.rows++;
    else if (n == 1 && !**pz_vec_at(&r.cells, const char *, r.cells.n - 1))
      r.cells.n--;
    else {
      char what[60], accepted[60];
      snprintf(what, sizeof what, "%u cell%s", n, pz_text_s(n));
      snprintf(accepted, sizeof accepted, "%u, as many as the header has", csv.columns);
      return fail(&r, what, accepted);
    }
    r.line += 1 + r.newlines;
  }
  csv.cells = r.cells.items;
  csv.lines = r.lines.items;
  *out = csv;
  return check_heads(&r, &csv);
}

uint32_t pz_csv_column(const struct pz_csv *csv, const char *head) {
  for (uint32_t i = 0; i < csv->columns; i++)
    if (strcmp(csv->cells[i], head) == 0) return i;
  return PZ_NONE;
}

const char *pz_csv_cell(const struct pz_csv *csv, uint32_t r, uint32_t column) {
  return csv->cells[(size_t)(r + 1) * csv->columns + column];
}

enum pz_status pz_csv_number(const char *name, const struct pz_csv *csv, uint32_t r,
                             uint32_t column, double most, double *out, struct pz_error *err) {
  const char *text = pz_csv_cell(csv, r, column);
  char *end;
  errno = 0;
  double v = *text ? strtod(text, &end) : 0;
  if (*text && (*end || errno || !(v >= 0 && v <= most)))
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s:%u: column '%s' is '%.40s'; accepted: a number from 0 to %g", name,
                   csv->lines[r], csv->cells[column], text, most);
  *out = v;
  return PZ_OK;
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool is_number(const char *s) {
  char *end;
  strtod(s, &end);
  return end != s && !*end;
}

void pz_csv_put(const char *s, FILE *out) {
  const char *mark = *s && strchr("=+-@\t\r", *s) && !is_number(s) ? "'" : "";
  if (!s[strcspn(s, ",\"\r\n")]) {
    fprintf(out, "%s%s", mark, s);
    return;
  }
  fprintf(out, "\"%s", mark);
  for (; *s; s++) {
    if (*s == '"') fputc('"', out);
    fputc(*s, out);
  }
  fputc('"', out);
}

/* ---- files ---------------------------------------------------------------------------------- */

static bool has_end(const char *name, const char *end) {
  size_t n = strlen(name), k = strlen(end);
  return n > k && strcmp(name + n - k, end) == 0;
}

enum pz_status pz_csv_files(const char *path, struct pz_arena *arena, const char *const **files,
                            struct pz_error *err) {
  const char *const *names = NULL;
  struct pz_vec list;
  bool directory = pz_file_is_directory(path), room = true;
  enum pz_status status = directory ? pz_file_list(path, arena, &names, err) : PZ_OK;
  if (status != PZ_OK) return status;
  pz_vec_init(&list, arena, sizeof(const char *));
  if (!directory) room = pz_vec_push(&list, &path) != NULL;
  for (; directory && *names && room; names++) {
    if (!has_end(*names, ".csv") && !has_end(*names, "_perf.txt")) continue;
    const char *file = pz_arena_printf(arena, "%s/%s", path, *names);
    room = file && pz_vec_push(&list, &file);
  }
  if (!room || !pz_vec_push(&list, NULL))
    return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", path);
  *files = list.items;
  return PZ_OK;
}

/* ---- raising -------------------------------------------------------------------------------- */

struct pz_csv *pz_csv_read(struct pz_call *call, const char *name, const char *text, size_t bytes) {
  struct pz_csv *csv = pz_alloc(call, 1, sizeof *csv);
  pz_must(call, pz_csv_parse(name, text, bytes, call->arena, csv, pz_call_error(call)));
  return csv;
}

double pz_csv_real(struct pz_call *call, const char *name, const struct pz_csv *csv, uint32_t r,
                   uint32_t column, double most) {
  double number = 0;
  pz_must(call, pz_csv_number(name, csv, r, column, most, &number, pz_call_error(call)));
  return number;
}

const char *const *pz_csv_list(struct pz_call *call, const char *path) {
  const char *const *files = NULL;
  pz_must(call, pz_csv_files(path, call->arena, &files, pz_call_error(call)));
  return files;
}
