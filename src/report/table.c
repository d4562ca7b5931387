#include "report/table.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "core/progress.h"
#include "core/text.h"

static void keep(struct pz_table *t, const char *text) {
  if (!text || !pz_vec_push(&t->cells, &text)) t->status = PZ_NO_MEMORY;
}

void pz_table_cell(struct pz_table *t, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  keep(t, pz_arena_strdup(t->arena, pz_text_plain(text)));
}

void pz_table_init(struct pz_table *t, struct pz_arena *arena, const char *const *heads) {
  *t = (struct pz_table){.arena = arena};
  pz_vec_init(&t->cells, arena, sizeof(const char *));
  for (; heads[t->columns] && t->columns < PZ_TABLE_MOST_COLUMNS; t->columns++) {
    const char *head = heads[t->columns];
    t->right[t->columns] = *head == '>';
    pz_table_cell(t, "%s", head + (*head == '>'));
  }
}

static const char *cell(const struct pz_table *t, uint32_t i) {
  return *pz_vec_at(&t->cells, const char *, i);
}

static void measure(const struct pz_table *t, int wide[PZ_TABLE_MOST_COLUMNS]) {
  memset(wide, 0, PZ_TABLE_MOST_COLUMNS * sizeof *wide);
  for (uint32_t i = 0; i < t->cells.n; i++) {
    int w = pz_text_columns(cell(t, i)), c = (int)i % t->columns;
    if (w > wide[c]) wide[c] = w;
  }
}

int pz_table_width(const struct pz_table *t) {
  int wide[PZ_TABLE_MOST_COLUMNS], sum = 2 * (t->columns - 1);
  measure(t, wide);
  for (int c = 0; c < t->columns; c++) sum += wide[c];
  return sum;
}

/* One row's first column and those in [from, to). */
static void put_row(const struct pz_table *t, const int *wide, uint32_t row, int from, int to,
                    FILE *out) {
  const char *bold = row ? "" : pz_colour(out, PZ_BOLD),
             *plain = row ? "" : pz_colour(out, PZ_PLAIN);
  for (int c = 0; c < to; c = c ? c + 1 : from) {
    const char *text = cell(t, row * (uint32_t)t->columns + (uint32_t)c);
    int pad = wide[c] - pz_text_columns(text);
    bool last = c == to - 1 || from >= to, bare = last && !*text;
    fprintf(out, "%*s%*s%s%s%s%*s", c && !bare ? 2 : 0, "", t->right[c] ? pad : 0, "", bold, text,
            plain, t->right[c] || last ? 0 : pad, "");
  }
  fputc('\n', out);
}

/* The column after the last that fits beside the first and those from `from`. */
static int fitting(const struct pz_table *t, const int *wide, int from, int room) {
  int to = from, sum = wide[0];
  while (to < t->columns && (to == from || sum + 2 + wide[to] <= room)) sum += 2 + wide[to++];
  return to;
}

enum pz_status pz_table_print(const struct pz_table *t, int indent, FILE *out) {
  int wide[PZ_TABLE_MOST_COLUMNS], room = pz_terminal_columns(out) - indent, from = 1;
  if (t->status != PZ_OK) return t->status;
  measure(t, wide);
  do {
    int to = fitting(t, wide, from, room);
    if (from > 1) fputc('\n', out);
    for (uint32_t row = 0; row < t->cells.n / (uint32_t)t->columns; row++) {
      fprintf(out, "%*s", indent, "");
      put_row(t, wide, row, from, to > 1 ? to : 1, out);
    }
    from = to;
  } while (from < t->columns);
  return PZ_OK;
}

void pz_table_number(struct pz_table *t, double v) {
  char text[40];
  if (v >= 1e4 && v < 1e15)
    pz_table_cell(t, "%s", pz_text_count(text, sizeof text, (int64_t)floor(v + 0.5)));
  else
    pz_table_cell(t, "%s", pz_text_number(text, sizeof text, v));
}
