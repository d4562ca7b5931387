/* CSV tables.
 *
 * The reader first checks that the text is UTF-8, because every cell may end up in a message; then
 * it splits the text into cells line by line (read_line, read_quoted_cell). */
#include "core/csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "core/text.h"

/* The state of reading a table. */
struct csv_reader {
  struct pz_call *call;
  const char *name;     /* the name of the file, for messages */
  const char *at, *end; /* the text that has not been read yet */
  struct pz_vec cells;
  int line;     /* the line where the current row begins */
  int newlines; /* line breaks in quoted cells of the current row */
};

/* Raises "FILE:LINE: found; accepted: ..." for the current row. */
static _Noreturn void raise_at_line(const struct csv_reader *reader, const char *found,
                                    const char *accepted) {
  pz_raise_at(reader->call, PZ_BAD_INPUT, reader->name, reader->line, 0, "%s:%d: %s; accepted: %s",
              reader->name, reader->line, found, accepted);
}

/* Reads a cell in quotes, in which two quotes stand for one. */
static void read_quoted_cell(struct csv_reader *reader) {
  const char *close = reader->at + 1;
  while (close < reader->end) {
    bool is_quote = *close == '"';
    bool doubled = is_quote && close + 1 < reader->end && close[1] == '"';
    if (is_quote && !doubled) break;
    close += doubled ? 2 : 1;
  }
  if (close >= reader->end)
    raise_at_line(reader, "a quote is not closed", "one behind the cell, two for one inside");
  char *cell = pz_alloc(reader->call, (size_t)(close - reader->at), 1);
  size_t n = 0;
  for (const char *at = reader->at + 1; at < close; at++) {
    if (*at == '"') at++;
    if (*at == '\n') reader->newlines++;
    cell[n] = *at;
    n++;
  }
  reader->at = close + 1;
  pz_append(reader->call, &reader->cells, &cell);
}

/* Reads one line and returns the number of its cells. */
static uint32_t read_line(struct csv_reader *reader) {
  uint32_t first = reader->cells.n;
  bool has_next_cell = true;
  while (has_next_cell) {
    if (reader->at < reader->end && *reader->at == '"') {
      read_quoted_cell(reader);
    } else { /* a cell without quotes ends at a comma or at the end of the line */
      const char *end = reader->at;
      while (end < reader->end && *end != ',' && *end != '\n' && *end != '\r') end++;
      size_t n = (size_t)(end - reader->at);
      char *cell = pz_alloc(reader->call, n + 1, 1);
      memcpy(cell, reader->at, n);
      reader->at = end;
      pz_append(reader->call, &reader->cells, &cell);
    }
    if (reader->cells.n - first > PZ_CSV_MOST_COLUMNS)
      raise_at_line(reader, "more than 256 columns", "at most 256");
    has_next_cell = reader->at < reader->end && *reader->at == ',';
    if (has_next_cell) reader->at++;
  }
  if (reader->at < reader->end && *reader->at == '\r') reader->at++;
  if (reader->at < reader->end && *reader->at != '\n')
    raise_at_line(reader, "text after a closing quote, or a carriage return without a line feed",
                  "a comma or the end of the line there");
  if (reader->at < reader->end) reader->at++;
  return reader->cells.n - first;
}

/* Reads a table from a text; `name` stands for its file in messages. */
struct pz_csv *pz_csv_read(struct pz_call *call, const char *name, const char *text, size_t bytes) {
  struct csv_reader reader = {
      .call = call, .name = name, .at = text, .end = text + bytes, .line = 1};
  struct pz_csv *csv = pz_alloc(call, 1, sizeof *csv);
  struct pz_vec lines;
  pz_vec_init(&reader.cells, call->arena, sizeof(const char *));
  pz_vec_init(&lines, call->arena, sizeof(uint32_t));
  const char *nul = memchr(text, '\0', bytes);
  size_t valid = nul ? (size_t)(nul - text) : pz_text_utf8(text, bytes);
  if (valid < bytes) {
    for (size_t i = 0; i < valid; i++) reader.line += text[i] == '\n';
    raise_at_line(&reader, nul ? "a NUL byte" : "a byte that is not UTF-8", "a text file in UTF-8");
  }
  bool byte_order_mark = bytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0;
  if (byte_order_mark) reader.at += 3;
  csv->columns = read_line(&reader);
  reader.line += 1 + reader.newlines;
  while (reader.at < reader.end) {
    uint32_t line = (uint32_t)reader.line;
    reader.newlines = 0;
    if (csv->rows == PZ_CSV_MOST_ROWS)
      pz_raise(call, PZ_LIMIT, "%s: accepted: at most %d rows", name, PZ_CSV_MOST_ROWS);
    uint32_t n = read_line(&reader);
    bool is_empty = n == 1 && !**pz_vec_at(&reader.cells, const char *, reader.cells.n - 1);
    if (n == csv->columns) {
      pz_append(call, &lines, &line);
      csv->rows++;
    } else if (is_empty) {
      reader.cells.n--;
    } else {
      raise_at_line(&reader, pz_format(call, "%u cell%s", n, pz_text_s(n)),
                    pz_format(call, "%u, as many as the header has", csv->columns));
    }
    reader.line += 1 + reader.newlines;
  }
  csv->cells = reader.cells.items;
  csv->lines = lines.items;
  reader.line = 1; /* the line of the headers, which must be unique */
  for (uint32_t i = 0; i < csv->columns; i++)
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(csv->cells[i], csv->cells[k]) == 0)
        raise_at_line(
            &reader,
            pz_format(call, "columns %u and %u are both '%.60s'", k + 1, i + 1, csv->cells[i]),
            "each name once");
  return csv;
}

uint32_t pz_csv_column(const struct pz_csv *csv, const char *header) {
  for (uint32_t i = 0; i < csv->columns; i++)
    if (strcmp(csv->cells[i], header) == 0) return i;
  return PZ_NONE;
}

const char *pz_csv_cell(const struct pz_csv *csv, uint32_t row, uint32_t column) {
  return csv->cells[(size_t)(row + 1) * csv->columns + column];
}

/* Returns the number in a cell, from 0 to `most`, or 0 if the cell is empty. */
double pz_csv_real(struct pz_call *call, const char *name, const struct pz_csv *csv, uint32_t row,
                   uint32_t column, double most) {
  const char *text = pz_csv_cell(csv, row, column);
  char *end;
  if (!*text) return 0;
  errno = 0;
  double value = strtod(text, &end);
  bool accepted = !*end && !errno && value >= 0 && value <= most;
  if (!accepted)
    pz_raise(call, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: a number from 0 to %g",
             name, csv->lines[row], csv->cells[column], text, most);
  return value;
}

/* Writes a cell, quoted if necessary; an apostrophe keeps spreadsheets from executing formulas. */
void pz_csv_put(const char *text, FILE *out) {
  char *end;
  strtod(text, &end);
  bool is_number = end != text && !*end;
  bool like_formula = *text && strchr("=+-@\t\r", *text) && !is_number;
  const char *mark = like_formula ? "'" : "";
  bool needs_quotes = text[strcspn(text, ",\"\r\n")];
  if (!needs_quotes) {
    fprintf(out, "%s%s", mark, text);
    return;
  }
  fprintf(out, "\"%s", mark);
  for (; *text; text++) {
    if (*text == '"') fputc('"', out);
    fputc(*text, out);
  }
  fputc('"', out);
}

/* Returns the path, or if it is a folder, its files *.csv and *_perf.txt.  NULL ends the list. */
const char *const *pz_csv_list(struct pz_call *call, const char *path) {
  static const char *const endings[] = {".csv", "_perf.txt"};
  struct pz_vec files;
  pz_vec_init(&files, call->arena, sizeof(const char *));
  bool is_folder = pz_file_is_directory(path);
  const char *const *name = is_folder ? pz_file_names_in(call, path) : NULL;
  if (!is_folder) pz_append(call, &files, &path);
  for (; name && *name; name++) {
    size_t length = strlen(*name);
    for (int i = 0; i < 2; i++) {
      size_t suffix = strlen(endings[i]);
      bool matches = length > suffix && strcmp(*name + length - suffix, endings[i]) == 0;
      if (!matches) continue;
      const char *file = pz_format(call, "%s/%s", path, *name);
      pz_append(call, &files, &file);
    }
  }
  pz_append(call, &files, NULL);
  return files.items;
}
