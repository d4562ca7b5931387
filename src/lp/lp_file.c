/* A linear program as text: the readable .lp format of CPLEX, and free-format .mps, which every
 * solver accepts. */
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/file.h"
#include "lp/lp.h"

enum { TERMS_A_LINE = 6 };

/* Entries sorted by row or by column; those of line k from start[k] to start[k + 1]. */
struct sorted {
  const struct pz_lp_entry **entry;
  uint32_t *start;
};

static uint32_t line_of(const struct pz_lp_entry *e, bool by_row) {
  return by_row ? e->row : e->col;
}

static bool sort(const struct pz_lp *lp, bool by_row, struct sorted *out) {
  uint32_t lines = by_row ? lp->rows.n : lp->cols.n;
  out->entry = pz_arena_alloc(lp->cols.arena, lp->entries.n, sizeof(const struct pz_lp_entry *));
  out->start = pz_arena_alloc(lp->cols.arena, (size_t)lines + 2, sizeof *out->start);
  if (!out->entry || !out->start) return false;
  const struct pz_lp_entry *e = lp->entries.items;
  for (uint32_t i = 0; i < lp->entries.n; i++) out->start[line_of(&e[i], by_row) + 2]++;
  for (uint32_t k = 0; k < lines; k++) out->start[k + 2] += out->start[k + 1];
  for (uint32_t i = 0; i < lp->entries.n; i++)
    out->entry[out->start[line_of(&e[i], by_row) + 1]++] = &e[i];
  return true;
}

static const struct pz_lp_col *col_at(const struct pz_lp *lp, uint32_t i) {
  return pz_vec_at(&lp->cols, struct pz_lp_col, i);
}

static const struct pz_lp_row *row_at(const struct pz_lp *lp, uint32_t i) {
  return pz_vec_at(&lp->rows, struct pz_lp_row, i);
}

/* The fewest digits that give the number back. */
static const char *number(double v, char buf[32]) {
  for (int digits = 9; digits <= 17; digits += 4) {
    snprintf(buf, 32, "%.*g", digits, v);
    if (strtod(buf, NULL) == v) break;
  }
  return buf;
}

static void write_notes(FILE *f, const struct pz_lp *lp, char mark) {
  for (uint32_t i = 0; i < lp->notes.n; i++)
    fprintf(f, "%c %s\n", mark, *pz_vec_at(&lp->notes, const char *, i));
}

/* ---- .lp ------------------------------------------------------------------------------------ */

static void lp_row(FILE *f, const struct pz_lp *lp, const struct sorted *s, uint32_t r, bool lower,
                   bool second) {
  const struct pz_lp_row *row = row_at(lp, r);
  char buf[32];
  fprintf(f, " %s%s:", row->name, second ? "_most" : "");
  for (uint32_t k = s->start[r]; k < s->start[r + 1]; k++) {
    double v = s->entry[k]->value;
    if (k > s->start[r] && (k - s->start[r]) % TERMS_A_LINE == 0) fputs("\n  ", f);
    fprintf(f, " %c %s %s", v < 0 ? '-' : '+', number(v < 0 ? -v : v, buf),
            col_at(lp, s->entry[k]->col)->name);
  }
  const char *sense = row->lower >= row->upper ? "=" : lower ? ">=" : "<=";
  fprintf(f, " %s %s\n", sense, number(lower ? row->lower : row->upper, buf));
}

static void lp_bounds(FILE *f, const struct pz_lp *lp) {
  char buf[32];
  fputs("Bounds\n", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = col_at(lp, c);
    fprintf(f, " %s <= %s", number(col->lower, buf), col->name);
    if (col->upper < DBL_MAX) fprintf(f, " <= %s", number(col->upper, buf));
    fputc('\n', f);
  }
  fputs("Generals\n", f);
  for (uint32_t c = 0; c < lp->cols.n; c++)
    if (col_at(lp, c)->integer) fprintf(f, " %s\n", col_at(lp, c)->name);
}

static bool write_lp(FILE *f, const struct pz_lp *lp) {
  struct sorted s;
  char buf[32];
  if (!sort(lp, true, &s)) return false;
  write_notes(f, lp, '\\');
  fputs("Minimize\n obj:", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    double v = col_at(lp, c)->cost;
    if (v < 0 || v > 0)
      fprintf(f, " %c %s %s", v < 0 ? '-' : '+', number(v < 0 ? -v : v, buf), col_at(lp, c)->name);
  }
  fputs("\nSubject To\n", f);
  for (uint32_t r = 0; r < lp->rows.n; r++) {
    const struct pz_lp_row *row = row_at(lp, r);
    if (s.start[r] == s.start[r + 1]) continue; /* nothing in it: the format has no such row */
    bool lower = row->lower > -DBL_MAX, upper = row->upper < DBL_MAX;
    if (lower) lp_row(f, lp, &s, r, true, false);
    if (upper && row->upper > row->lower) lp_row(f, lp, &s, r, false, lower);
  }
  lp_bounds(f, lp);
  fputs("End\n", f);
  return true;
}

/* ---- .mps ----------------------------------------------------------------------------------- */

static char mps_sense(const struct pz_lp_row *r) {
  return r->lower >= r->upper ? 'E' : r->lower > -DBL_MAX ? 'G' : 'L';
}

static void mps_columns(FILE *f, const struct pz_lp *lp, const struct sorted *s) {
  char buf[32];
  bool integer = false;
  fputs("COLUMNS\n", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = col_at(lp, c);
    if (col->integer != integer)
      fprintf(f, " MARKER 'MARKER' '%s'\n", col->integer ? "INTORG" : "INTEND");
    integer = col->integer;
    fprintf(f, " %s obj %s\n", col->name, number(col->cost, buf));
    for (uint32_t k = s->start[c]; k < s->start[c + 1]; k++)
      fprintf(f, " %s %s %s\n", col->name, row_at(lp, s->entry[k]->row)->name,
              number(s->entry[k]->value, buf));
  }
  if (integer) fputs(" MARKER 'MARKER' 'INTEND'\n", f);
}

static void mps_bounds(FILE *f, const struct pz_lp *lp) {
  char buf[32];
  fputs("BOUNDS\n", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = col_at(lp, c);
    fprintf(f, " LO bound %s %s\n", col->name, number(col->lower, buf));
    if (col->upper < DBL_MAX) fprintf(f, " UP bound %s %s\n", col->name, number(col->upper, buf));
  }
}

static bool write_mps(FILE *f, const struct pz_lp *lp) {
  struct sorted s;
  char buf[32];
  if (!sort(lp, false, &s)) return false;
  write_notes(f, lp, '*');
  fputs("NAME schedule FREE\nROWS\n N obj\n", f);
  for (uint32_t r = 0; r < lp->rows.n; r++)
    fprintf(f, " %c %s\n", mps_sense(row_at(lp, r)), row_at(lp, r)->name);
  mps_columns(f, lp, &s);
  fputs("RHS\n", f);
  for (uint32_t r = 0; r < lp->rows.n; r++) {
    const struct pz_lp_row *row = row_at(lp, r);
    double v = row->lower > -DBL_MAX ? row->lower : row->upper;
    if (v < 0 || v > 0) fprintf(f, " rhs %s %s\n", row->name, number(v, buf));
  }
  fputs("RANGES\n", f);
  for (uint32_t r = 0; r < lp->rows.n; r++) {
    const struct pz_lp_row *row = row_at(lp, r);
    if (row->lower > -DBL_MAX && row->upper < DBL_MAX && row->upper > row->lower)
      fprintf(f, " range %s %s\n", row->name, number(row->upper - row->lower, buf));
  }
  mps_bounds(f, lp);
  fputs("ENDATA\n", f);
  return true;
}

/* ---- the call ------------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *end) {
  size_t n = strlen(path), k = strlen(end);
  return n > k && strcmp(path + n - k, end) == 0;
}

enum pz_status pz_lp_write(const struct pz_lp *lp, const char *path, struct pz_error *err) {
  bool as_lp = ends_with(path, ".lp");
  if (!as_lp && !ends_with(path, ".mps"))
    return pz_fail(err, PZ_BAD_INPUT, "%s: accepted: a name that ends with .lp or .mps", path);
  struct pz_buffer b = {0};
  FILE *f = lp->failed ? NULL : pz_buffer_stream(&b);
  bool ok = f && (as_lp ? write_lp(f, lp) : write_mps(f, lp));
  ok = f && pz_buffer_close(f) && ok;
  enum pz_status status = ok ? pz_file_write(path, b.text, b.bytes, err)
                             : pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", path);
  pz_free(b.text);
  return status;
}
