#include "report/table.h"

#include <stdarg.h>
#include <string.h>

#include "core/colour.h"

static void keep(struct pz_table *t, const char *text) {
  if (!text || !pz_vec_push(&t->cells, &text)) t->status = PZ_NO_MEMORY;
}

void pz_table_init(struct pz_table *t, struct pz_arena *arena, const char *const *heads) {
  *t = (struct pz_table){.arena = arena};
  pz_vec_init(&t->cells, arena, sizeof(const char *));
  for (; heads[t->columns] && t->columns < PZ_TABLE_MOST_COLUMNS; t->columns++) {
    const char *head = heads[t->columns];
    t->right[t->columns] = *head == '>';
    keep(t, head + (*head == '>'));
  }
}

void pz_table_cell(struct pz_table *t, const char *format, ...) {
  char text[512];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  keep(t, pz_arena_strdup(t->arena, text));
}

/* Columns on a terminal: bytes that are not UTF-8 continuations. */
static int width(const char *s) {
  int n = 0;
  for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
  return n;
}

static const char *cell(const struct pz_table *t, uint32_t i) {
  return *pz_vec_at(&t->cells, const char *, i);
}

static void measure(const struct pz_table *t, int wide[PZ_TABLE_MOST_COLUMNS]) {
  memset(wide, 0, PZ_TABLE_MOST_COLUMNS * sizeof *wide);
  for (uint32_t i = 0; i < t->cells.n; i++) {
    int w = width(cell(t, i)), c = (int)i % t->columns;
    if (w > wide[c]) wide[c] = w;
  }
}

int pz_table_width(const struct pz_table *t) {
  int wide[PZ_TABLE_MOST_COLUMNS], sum = 2 * (t->columns - 1);
  measure(t, wide);
  for (int c = 0; c < t->columns; c++) sum += wide[c];
  return sum;
}

enum pz_status pz_table_print(const struct pz_table *t, int indent, FILE *out) {
  int wide[PZ_TABLE_MOST_COLUMNS];
  if (t->status != PZ_OK) return t->status;
  measure(t, wide);
  const char *bold = pz_colour(out, PZ_BOLD), *plain = pz_colour(out, PZ_PLAIN);
  for (uint32_t i = 0; i < t->cells.n; i++) {
    const char *text = cell(t, i);
    int c = (int)i % t->columns, pad = wide[c] - width(text);
    bool last = c == t->columns - 1, bare = last && !*text, title = i < (uint32_t)t->columns;
    fprintf(out, "%*s%*s%s%s%s%*s%s",
            bare ? 0
            : c  ? 2
                 : indent,
            "", t->right[c] ? pad : 0, "", title ? bold : "", text, title ? plain : "",
            t->right[c] || last ? 0 : pad, "", last ? "\n" : "");
  }
  return PZ_OK;
}
