/* Text tables: cells are stored as strings row by row, the first row being the column titles.
 * Printing measures all columns, then prints as many of them as fit into the terminal, and
 * repeats this until all columns are printed. */
#include "report/table.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "core/progress.h"
#include "core/text.h"

enum { LONGEST_CELL = 512, BETWEEN_COLUMNS = 2 };

/* ---- cells ---------------------------------------------------------------------------------- */

/* Adds a cell with the first `bytes` bytes of a text, cut at LONGEST_CELL. */
static void append_cell(struct pz_table *table, const char *text, size_t bytes) {
  char cell[LONGEST_CELL];
  snprintf(cell, sizeof cell, "%.*s", (int)bytes, text);
  const char *copy = pz_copy_text(&table->call, pz_text_plain(cell));
  pz_append(&table->call, &table->cells, &copy);
}

/* Divides `titles` at its bars and makes a table with them. */
struct pz_table *pz_table_new(struct pz_call *call, const char *titles) {
  const char *list[PZ_TABLE_MOST_COLUMNS + 1] = {NULL};
  char *rest = pz_copy_text(call, titles);
  for (int n = 0; rest && n < PZ_TABLE_MOST_COLUMNS; n++) {
    list[n] = rest;
    rest = strchr(rest, '|');
    if (rest) *rest++ = '\0';
  }
  return pz_table_with(call, list);
}

/* Makes a table whose first row are the titles; those that begin with '>' align right. */
struct pz_table *pz_table_with(struct pz_call *call, const char *const *titles) {
  struct pz_table *table = pz_alloc(call, 1, sizeof *table);
  table->call = *call;
  pz_vec_init(&table->cells, call->arena, sizeof(const char *));
  for (; table->columns < PZ_TABLE_MOST_COLUMNS && titles[table->columns]; table->columns++) {
    const char *title = titles[table->columns];
    bool right = title[0] == '>';
    table->right_aligned[table->columns] = right;
    append_cell(table, right ? title + 1 : title, strlen(title) - right);
  }
  return table;
}

static void append_formatted(struct pz_table *table, const char *format, va_list args)
    PZ_PRINTF(2, 0);

/* Adds a cell with a formatted text, which is cut at LONGEST_CELL. */
static void append_formatted(struct pz_table *table, const char *format, va_list args) {
  char cell[LONGEST_CELL];
  vsnprintf(cell, sizeof cell, format, args);
  append_cell(table, cell, strlen(cell));
}

/* Adds a cell with a formatted text to the current row. */
void pz_table_cell(struct pz_table *table, const char *format, ...) {
  va_list args;
  va_start(args, format);
  append_formatted(table, format, args);
  va_end(args);
}

/* Adds a formatted cell if the value is known, otherwise a dash. */
void pz_table_known(struct pz_table *table, bool known, const char *format, ...) {
  va_list args;
  if (!known) {
    pz_table_cell(table, "-");
    return;
  }
  va_start(args, format);
  append_formatted(table, format, args);
  va_end(args);
}

/* Counts how often a text contains a letter. */
static size_t count_letter(const char *text, char letter) {
  size_t n = 0;
  for (; *text; text++)
    if (*text == letter) n++;
  return n;
}

/* The compiler cannot check `divided`, but has checked the format that it is made from. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"

/* Formats all cells at once and then divides the text at a control character that replaces the bars
 * of the format and that no argument contains, because arguments may contain bars. */
void pz_table_cells(struct pz_table *table, const char *format, ...) {
  struct pz_call scratch = pz_scratch(&table->call);
  char *divided = pz_copy_text(&scratch, format), *text = divided;
  size_t n_bars = count_letter(format, '|'), n_found = n_bars + 1;
  char separator = '|';
  for (char next = 1; next < ' ' && n_found != n_bars; next++) {
    va_list args, again;
    for (char *at = divided; *at; at++)
      if (*at == separator) *at = next;
    separator = next;
    va_start(args, format);
    va_copy(again, args);
    size_t bytes = (size_t)vsnprintf(NULL, 0, divided, args) + 1;
    text = pz_alloc(&scratch, bytes, 1);
    vsnprintf(text, bytes, divided, again);
    va_end(again);
    va_end(args);
    n_found = count_letter(text, separator);
  }
  for (size_t i = 0; i <= n_bars; i++) {
    const char *end = i < n_bars ? strchr(text, separator) : NULL;
    size_t bytes = end ? (size_t)(end - text) : strlen(text);
    append_cell(table, text, bytes);
    text += bytes + 1;
  }
  pz_scratch_end(&scratch);
}

#pragma GCC diagnostic pop

void pz_table_dashes(struct pz_table *table, int n) {
  for (int i = 0; i < n; i++) pz_table_cell(table, "-");
}

/* Adds a number: from 10,000 on in full with commas, otherwise with four digits. */
void pz_table_number(struct pz_table *table, double value) {
  char text[40];
  if (value >= 1e4 && value < 1e15)
    pz_text_count(text, sizeof text, (int64_t)floor(value + 0.5));
  else
    pz_text_number(text, sizeof text, value);
  pz_table_cell(table, "%s", text);
}

/* ---- printing ------------------------------------------------------------------------------- */

/* Measures the widest cell of each column, in terminal columns. */
static void measure_columns(const struct pz_table *table, int width[PZ_TABLE_MOST_COLUMNS]) {
  memset(width, 0, PZ_TABLE_MOST_COLUMNS * sizeof *width);
  for (uint32_t i = 0; i < table->cells.n; i++) {
    int text_width = pz_text_columns(*pz_vec_at(&table->cells, const char *, i));
    int column = (int)i % table->columns;
    if (text_width > width[column]) width[column] = text_width;
  }
}

/* Returns the columns of the terminal that a row occupies, without indentation. */
int pz_table_width(const struct pz_table *table) {
  int width[PZ_TABLE_MOST_COLUMNS];
  int sum = BETWEEN_COLUMNS * (table->columns - 1);
  measure_columns(table, width);
  for (int column = 0; column < table->columns; column++) sum += width[column];
  return sum;
}

/* Prints the first column of a row and the columns from `from` to below `to`.  Titles are bold
 * on a terminal.  The last cell has no trailing spaces. */
static void print_row(const struct pz_table *table, const int *width, uint32_t row, int from,
                      int to, FILE *out) {
  const char *bold = row == 0 ? pz_colour(out, PZ_BOLD) : "";
  const char *plain = row == 0 ? pz_colour(out, PZ_PLAIN) : "";
  for (int column = 0; column < to; column++) {
    bool shown = column == 0 || column >= from;
    if (!shown) continue;
    uint32_t cell = row * (uint32_t)table->columns + (uint32_t)column;
    const char *text = *pz_vec_at(&table->cells, const char *, cell);
    bool last = column == to - 1 || from >= to;
    int padding = width[column] - pz_text_columns(text);
    int gap = column > 0 && !(last && !*text) ? BETWEEN_COLUMNS : 0;
    int left = table->right_aligned[column] ? padding : 0;
    int right = table->right_aligned[column] || last ? 0 : padding;
    fprintf(out, "%*s%s%s%s%*s", gap + left, "", bold, text, plain, right, "");
  }
  fputc('\n', out);
}

/* Prints as many columns at a time as fit into the terminal, each time with the first column. */
void pz_table_print(const struct pz_table *table, int indent, FILE *out) {
  int width[PZ_TABLE_MOST_COLUMNS];
  int room = pz_terminal_columns(out) - indent, from = 1;
  measure_columns(table, width);
  do {
    /* Finds the end `to` of the columns that fit beside the first one, but prints at least one. */
    int to = from, sum = width[0];
    while (to < table->columns) {
      sum += BETWEEN_COLUMNS + width[to];
      if (to > from && sum > room) break;
      to++;
    }
    if (from > 1) fputc('\n', out);
    for (uint32_t row = 0; row < table->cells.n / (uint32_t)table->columns; row++) {
      fprintf(out, "%*s", indent, "");
      print_row(table, width, row, from, to, out);
    }
    from = to;
  } while (from < table->columns);
}
