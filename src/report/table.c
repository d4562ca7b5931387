/* Text tables: cells are stored as strings row by row, the first row being the column titles.  Printing measures all columns
 * and then prints as many of them as fit into the terminal, again and again until all are printed.
 *
 * Adding a cell does not fail; a cell for which there was no memory is reported when the table is printed. */
#include "report/table.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "core/progress.h"
#include "core/text.h"

enum { LONGEST_CELL = 512, BETWEEN_COLUMNS = 2 };

/* ---- cells ---------------------------------------------------------------------------------- */

static void append_cell(struct pz_table *t, const char *format, va_list args) PZ_PRINTF(2, 0);

static void append_cell(struct pz_table *t, const char *format, va_list args) {
  char buf[LONGEST_CELL];
  vsnprintf(buf, sizeof buf, format, args);
  const char *text = pz_arena_strdup(t->arena, pz_text_plain(buf));
  if (!text || !pz_vec_push(&t->cells, &text)) t->status = PZ_NO_MEMORY;
}

void pz_table_cell(struct pz_table *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  append_cell(t, format, args);
  va_end(args);
}

void pz_table_known(struct pz_table *t, bool known, const char *format, ...) {
  va_list args;
  if (!known) {
    pz_table_cell(t, "-");
    return;
  }
  va_start(args, format);
  append_cell(t, format, args);
  va_end(args);
}

void pz_table_number(struct pz_table *t, double v) {
  char text[40];
  if (v >= 1e4 && v < 1e15)
    pz_table_cell(t, "%s", pz_text_count(text, sizeof text, (int64_t)floor(v + 0.5)));
  else
    pz_table_cell(t, "%s", pz_text_number(text, sizeof text, v));
}

void pz_table_init(struct pz_table *t, struct pz_arena *arena, const char *const *heads) {
  *t = (struct pz_table){.arena = arena};
  pz_vec_init(&t->cells, arena, sizeof(const char *));
  for (int i = 0; i < PZ_TABLE_MOST_COLUMNS && heads[i]; i++) {
    bool right = heads[i][0] == '>';
    t->right_aligned[i] = right;
    t->columns++;
    pz_table_cell(t, "%s", right ? heads[i] + 1 : heads[i]);
  }
}

struct pz_table *pz_table_new(struct pz_call *call, const char *const *heads) {
  struct pz_table *t = pz_alloc(call, 1, sizeof *t);
  pz_table_init(t, call->arena, heads);
  return t;
}

/* ---- printing ------------------------------------------------------------------------------- */

static const char *cell_text(const struct pz_table *t, uint32_t row, int column) {
  return *pz_vec_at(&t->cells, const char *, row *(uint32_t)t->columns + (uint32_t)column);
}

static void measure_columns(const struct pz_table *t, int width[PZ_TABLE_MOST_COLUMNS]) {
  memset(width, 0, PZ_TABLE_MOST_COLUMNS * sizeof *width);
  for (uint32_t i = 0; i < t->cells.n; i++) {
    int text_width = pz_text_columns(*pz_vec_at(&t->cells, const char *, i));
    int column = (int)i % t->columns;
    if (text_width > width[column]) width[column] = text_width;
  }
}

int pz_table_width(const struct pz_table *t) {
  int width[PZ_TABLE_MOST_COLUMNS];
  int sum = BETWEEN_COLUMNS * (t->columns - 1);
  measure_columns(t, width);
  for (int c = 0; c < t->columns; c++) sum += width[c];
  return sum;
}

/* Prints the first column of a row and the columns from `from` to below `to`.  Titles are bold on a terminal.  The last
 * cell has no trailing spaces. */
static void print_row(const struct pz_table *t, const int *width, uint32_t row, int from, int to,
                      FILE *out) {
  const char *bold = row == 0 ? pz_colour(out, PZ_BOLD) : "";
  const char *plain = row == 0 ? pz_colour(out, PZ_PLAIN) : "";
  for (int c = 0; c < to; c = c == 0 ? from : c + 1) {
    const char *text = cell_text(t, row, c);
    bool last = c == to - 1 || from >= to;
    int padding = width[c] - pz_text_columns(text);
    int gap = c > 0 && !(last && !*text) ? BETWEEN_COLUMNS : 0;
    int left = t->right_aligned[c] ? padding : 0;
    int right = t->right_aligned[c] || last ? 0 : padding;
    fprintf(out, "%*s%s%s%s%*s", gap + left, "", bold, text, plain, right, "");
  }
  fputc('\n', out);
}

/* Returns the end of the columns that fit into `room` beside the first column, beginning with column `from`; at least one
 * is printed even if it is too wide. */
static int columns_that_fit(const struct pz_table *t, const int *width, int from, int room) {
  int to = from, sum = width[0];
  while (to < t->columns) {
    sum += BETWEEN_COLUMNS + width[to];
    if (to > from && sum > room) break;
    to++;
  }
  return to;
}

enum pz_status pz_table_print(const struct pz_table *t, int indent, FILE *out) {
  int width[PZ_TABLE_MOST_COLUMNS];
  int room = pz_terminal_columns(out) - indent, from = 1;
  if (t->status != PZ_OK) return t->status;
  measure_columns(t, width);
  do {
    int to = columns_that_fit(t, width, from, room);
    if (from > 1) fputc('\n', out);
    for (uint32_t row = 0; row < t->cells.n / (uint32_t)t->columns; row++) {
      fprintf(out, "%*s", indent, "");
      print_row(t, width, row, from, to, out);
    }
    from = to;
  } while (from < t->columns);
  return PZ_OK;
}

void pz_table_write(struct pz_call *call, const struct pz_table *t, int indent, FILE *out) {
  if (pz_table_print(t, indent, out) != PZ_OK) pz_raise(call, PZ_NO_MEMORY, "out of memory");
}
