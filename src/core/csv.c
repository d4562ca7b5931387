/* The reader splits the text into cells line by line (read_line, read_quoted_cell, read_plain_cell) after it has checked
 * that the text is UTF-8, because every cell may end up in a message. */
#include "core/csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"

struct csv_reader {
  struct pz_call *call;
  const char *name, *at, *end;
  struct pz_vec cells;
  int line, newlines; /* the current line; line breaks within quotes of the current row */
};

static _Noreturn void raise_at_line(struct csv_reader *r, const char *found, const char *accepted) {
  pz_raise_at(r->call, PZ_BAD_INPUT, r->name, r->line, 0, "%s:%d: %s; accepted: %s", r->name,
              r->line, found, accepted);
}

/* The quote that closes the cell at `at`, or NULL.  Two quotes within a cell stand for one. */
static const char *closing_quote(const char *at, const char *end) {
  for (at++; at < end; at++) {
    if (*at != '"') continue;
    bool doubled = at + 1 < end && at[1] == '"';
    if (!doubled) return at;
    at++;
  }
  return NULL;
}

static void read_quoted_cell(struct csv_reader *r) {
  const char *close = closing_quote(r->at, r->end);
  if (!close) raise_at_line(r, "a quote is not closed", "one behind the cell, two for one inside");
  char *cell = pz_alloc(r->call, (size_t)(close - r->at), 1);
  size_t n = 0;
  for (r->at++; r->at < close; r->at++) {
    if (*r->at == '"') r->at++;
    if (*r->at == '\n') r->newlines++;
    cell[n++] = *r->at;
  }
  r->at = close + 1;
  pz_append(r->call, &r->cells, &cell);
}

static void read_plain_cell(struct csv_reader *r) {
  const char *start = r->at;
  while (r->at < r->end && *r->at != ',' && *r->at != '\n' && *r->at != '\r') r->at++;
  size_t n = (size_t)(r->at - start);
  char *cell = pz_alloc(r->call, n + 1, 1);
  memcpy(cell, start, n);
  pz_append(r->call, &r->cells, &cell);
}

/* Reads one line and returns the number of its cells. */
static uint32_t read_line(struct csv_reader *r) {
  uint32_t first = r->cells.n;
  for (;;) {
    if (r->at < r->end && *r->at == '"')
      read_quoted_cell(r);
    else
      read_plain_cell(r);
    if (r->cells.n - first > PZ_CSV_MOST_COLUMNS)
      raise_at_line(r, "more than 256 columns", "at most 256");
    if (r->at == r->end || *r->at != ',') break;
    r->at++;
  }
  if (r->at < r->end && *r->at == '\r') r->at++;
  if (r->at < r->end && *r->at != '\n')
    raise_at_line(r, "text after a closing quote, or a carriage return without a line feed",
                  "a comma or the end of the line there");
  if (r->at < r->end) r->at++;
  return r->cells.n - first;
}

static void require_text(struct csv_reader *r, const char *text, size_t bytes) {
  const char *nul = memchr(text, '\0', bytes);
  size_t good = nul ? (size_t)(nul - text) : pz_text_utf8(text, bytes);
  if (good == bytes) return;
  for (size_t i = 0; i < good; i++) r->line += text[i] == '\n';
  raise_at_line(r, nul ? "a NUL byte" : "a byte that is not UTF-8", "a text file in UTF-8");
}

static void require_unique_headers(struct csv_reader *r, const struct pz_csv *csv) {
  r->line = 1;
  for (uint32_t i = 0; i < csv->columns; i++)
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(csv->cells[i], csv->cells[k]) == 0)
        raise_at_line(
            r,
            pz_format(r->call, "columns %u and %u are both '%.60s'", k + 1, i + 1, csv->cells[i]),
            "each name once");
}

struct pz_csv *pz_csv_read(struct pz_call *call, const char *name, const char *text, size_t bytes) {
  struct csv_reader r = {.call = call, .name = name, .at = text, .end = text + bytes, .line = 1};
  struct pz_csv *csv = pz_alloc(call, 1, sizeof *csv);
  struct pz_vec lines;
  pz_vec_init(&r.cells, call->arena, sizeof(const char *));
  pz_vec_init(&lines, call->arena, sizeof(uint32_t));
  require_text(&r, text, bytes);
  bool byte_order_mark = bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
  if (byte_order_mark) r.at += 3;
  csv->columns = read_line(&r);
  r.line += 1 + r.newlines;
  while (r.at < r.end) {
    uint32_t begin = (uint32_t)r.line;
    r.newlines = 0;
    if (csv->rows == PZ_CSV_MOST_ROWS)
      pz_raise(call, PZ_LIMIT, "%s: accepted: at most %d rows", name, PZ_CSV_MOST_ROWS);
    uint32_t n = read_line(&r);
    bool empty = n == 1 && !**pz_vec_at(&r.cells, const char *, r.cells.n - 1);
    if (n == csv->columns) {
      pz_append(call, &lines, &begin);
      csv->rows++;
    } else if (empty) {
      r.cells.n--;
    } else {
      raise_at_line(&r, pz_format(call, "%u cell%s", n, pz_text_s(n)),
                    pz_format(call, "%u, as many as the header has", csv->columns));
    }
    r.line += 1 + r.newlines;
  }
  csv->cells = r.cells.items;
  csv->lines = lines.items;
  require_unique_headers(&r, csv);
  return csv;
}

uint32_t pz_csv_column(const struct pz_csv *csv, const char *header) {
  for (uint32_t i = 0; i < csv->columns; i++)
    if (strcmp(csv->cells[i], header) == 0) return i;
  return PZ_NONE;
}

const char *pz_csv_cell(const struct pz_csv *csv, uint32_t r, uint32_t column) {
  return csv->cells[(size_t)(r + 1) * csv->columns + column];
}

double pz_csv_real(struct pz_call *call, const char *name, const struct pz_csv *csv, uint32_t r,
                   uint32_t column, double most) {
  const char *text = pz_csv_cell(csv, r, column);
  char *end;
  if (!*text) return 0;
  errno = 0;
  double value = strtod(text, &end);
  bool accepted = !*end && !errno && value >= 0 && value <= most;
  if (!accepted)
    pz_raise(call, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: a number from 0 to %g",
             name, csv->lines[r], csv->cells[column], text, most);
  return value;
}

/* ---- writing -------------------------------------------------------------------------------- */

static bool is_number(const char *s) {
  char *end;
  strtod(s, &end);
  return end != s && !*end;
}

void pz_csv_put(const char *s, FILE *out) {
  bool like_formula = *s && strchr("=+-@\t\r", *s) && !is_number(s);
  const char *mark = like_formula ? "'" : "";
  bool needs_quotes = s[strcspn(s, ",\"\r\n")];
  if (!needs_quotes) {
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

static bool ends_with(const char *name, const char *end) {
  size_t n = strlen(name), k = strlen(end);
  return n > k && strcmp(name + n - k, end) == 0;
}

const char *const *pz_csv_list(struct pz_call *call, const char *path) {
  struct pz_vec files;
  pz_vec_init(&files, call->arena, sizeof(const char *));
  if (!pz_file_is_directory(path)) {
    pz_append(call, &files, &path);
  } else {
    for (const char *const *name = pz_file_names_in(call, path); *name; name++) {
      if (!ends_with(*name, ".csv") && !ends_with(*name, "_perf.txt")) continue;
      const char *file = pz_format(call, "%s/%s", path, *name);
      pz_append(call, &files, &file);
    }
  }
  pz_append(call, &files, NULL);
  return files.items;
}

/* ---- for callers that return a status ---------------------------------------------------------- */

struct request {
  const char *name, *text;
  size_t bytes;
  struct pz_arena *arena;
  const struct pz_csv *csv;
  uint32_t row, column;
  double most, number;
  const char *const *files;
};

static void parse(struct pz_call *call, void *ctx) {
  struct request *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  x->csv = pz_csv_read(&own, x->name, x->text, x->bytes);
}

enum pz_status pz_csv_parse(const char *name, const char *text, size_t bytes,
                            struct pz_arena *arena, struct pz_csv *out, struct pz_error *err) {
  struct request x = {.name = name, .text = text, .bytes = bytes, .arena = arena};
  enum pz_status status = pz_border(parse, &x, err);
  if (status == PZ_OK) *out = *x.csv;
  return status;
}

static void read_number(struct pz_call *call, void *ctx) {
  struct request *x = ctx;
  x->number = pz_csv_real(call, x->name, x->csv, x->row, x->column, x->most);
}

enum pz_status pz_csv_number(const char *name, const struct pz_csv *csv, uint32_t r,
                             uint32_t column, double most, double *out, struct pz_error *err) {
  struct request x = {.name = name, .csv = csv, .row = r, .column = column, .most = most};
  enum pz_status status = pz_border(read_number, &x, err);
  if (status == PZ_OK) *out = x.number;
  return status;
}

static void list_files(struct pz_call *call, void *ctx) {
  struct request *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  x->files = pz_csv_list(&own, x->name);
}

enum pz_status pz_csv_files(const char *path, struct pz_arena *arena, const char *const **files,
                            struct pz_error *err) {
  struct request x = {.name = path, .arena = arena};
  enum pz_status status = pz_border(list_files, &x, err);
  if (status == PZ_OK) *files = x.files;
  return status;
}
