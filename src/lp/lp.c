/* MAP_ANONYMOUS is not of POSIX. */
#define _DEFAULT_SOURCE /* NOLINT(bugprone-reserved-identifier) */

#include "lp/lp.h"

#include <Cbc_C_Interface.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/file.h"

void pz_lp_init(struct pz_lp *lp, struct pz_arena *arena) {
  *lp = (struct pz_lp){0};
  pz_vec_init(&lp->cols, arena, sizeof(struct pz_lp_col));
  pz_vec_init(&lp->rows, arena, sizeof(struct pz_lp_row));
  pz_vec_init(&lp->entries, arena, sizeof(struct pz_lp_entry));
  pz_vec_init(&lp->notes, arena, sizeof(const char *));
}

uint32_t pz_lp_col(struct pz_lp *lp, struct pz_lp_col col, const char *name, ...) {
  va_list args;
  va_start(args, name);
  vsnprintf(col.name, sizeof col.name, name, args);
  va_end(args);
  lp->failed |= !pz_vec_push(&lp->cols, &col);
  return lp->cols.n - 1;
}

uint32_t pz_lp_row(struct pz_lp *lp, enum pz_lp_sense sense, double right, const char *name, ...) {
  struct pz_lp_row row = {.sense = sense, .right = right};
  va_list args;
  va_start(args, name);
  vsnprintf(row.name, sizeof row.name, name, args);
  va_end(args);
  lp->failed |= !pz_vec_push(&lp->rows, &row);
  return lp->rows.n - 1;
}

void pz_lp_put(struct pz_lp *lp, uint32_t row, uint32_t col, double value) {
  struct pz_lp_entry e = {row, col, value};
  if (value < 0 || value > 0) lp->failed |= !pz_vec_push(&lp->entries, &e);
}

void pz_lp_note(struct pz_lp *lp, const char *line) {
  lp->failed |= !line || !pz_vec_push(&lp->notes, &line);
}

static const struct pz_lp_col *col_at(const struct pz_lp *lp, uint32_t i) {
  return pz_vec_at(&lp->cols, struct pz_lp_col, i);
}

static const struct pz_lp_row *row_at(const struct pz_lp *lp, uint32_t i) {
  return pz_vec_at(&lp->rows, struct pz_lp_row, i);
}

/* Compressed rows or columns: entries of line k from start[k] to start[k + 1], each with its index
 * in the other direction. */
struct lines {
  int *start, *index;
  double *value;
};

static bool compress(const struct pz_lp *lp, bool by_row, struct lines *out) {
  struct pz_arena *arena = lp->cols.arena;
  uint32_t n = by_row ? lp->rows.n : lp->cols.n;
  out->start = pz_arena_alloc(arena, (size_t)n + 2, sizeof *out->start);
  out->index = pz_arena_alloc(arena, lp->entries.n, sizeof *out->index);
  out->value = pz_arena_alloc(arena, lp->entries.n, sizeof *out->value);
  if (lp->failed || !out->start || !out->index || !out->value) return false;
  const struct pz_lp_entry *e = lp->entries.items, *end = e + lp->entries.n;
  for (const struct pz_lp_entry *at = e; at < end; at++)
    out->start[(by_row ? at->row : at->col) + 2]++;
  for (uint32_t k = 0; k < n; k++) out->start[k + 2] += out->start[k + 1];
  for (const struct pz_lp_entry *at = e; at < end; at++) {
    int to = out->start[(by_row ? at->row : at->col) + 1]++;
    out->index[to] = (int)(by_row ? at->col : at->row);
    out->value[to] = at->value;
  }
  return true;
}

/* ---- CBC ------------------------------------------------------------------------------------ */

static void load(Cbc_Model *m, const struct pz_lp *lp, const struct lines *cols) {
  Cbc_loadProblem(m, (int)lp->cols.n, (int)lp->rows.n, cols->start, cols->index, cols->value, NULL,
                  NULL, NULL, NULL, NULL);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = col_at(lp, c);
    Cbc_setColLower(m, (int)c, col->lower);
    Cbc_setColUpper(m, (int)c, col->upper);
    Cbc_setObjCoeff(m, (int)c, col->cost);
    if (col->integer) Cbc_setInteger(m, (int)c);
  }
  for (uint32_t r = 0; r < lp->rows.n; r++) {
    const struct pz_lp_row *row = row_at(lp, r);
    if (row->sense != PZ_LP_AT_MOST) Cbc_setRowLower(m, (int)r, row->right);
    if (row->sense != PZ_LP_AT_LEAST) Cbc_setRowUpper(m, (int)r, row->right);
  }
}

/* The result, in memory that both processes see; x follows. */
static double *shared_x(struct pz_lp_result *shared) { return (double *)(void *)(shared + 1); }

static void solve_here(const struct pz_lp *lp, const struct lines *cols, double seconds,
                       const double *start, struct pz_lp_result *out) {
  int *index = start ? pz_arena_alloc(lp->cols.arena, lp->cols.n, sizeof *index) : NULL;
  if (start && !index) return;
  Cbc_Model *m = Cbc_newModel();
  Cbc_setLogLevel(m, 0);
  Cbc_setParameter(m, "log", "0");
  Cbc_setParameter(m, "ratioGap", "0");
  if (seconds > 0) Cbc_setMaximumSeconds(m, seconds);
  load(m, lp, cols);
  for (uint32_t c = 0; index && c < lp->cols.n; c++) index[c] = (int)c;
  if (index) Cbc_setMIPStartI(m, (int)lp->cols.n, index, start);
  Cbc_solve(m);
  const double *x = Cbc_bestSolution(m);
  out->found = x != NULL;
  out->optimal = x && Cbc_isProvenOptimal(m);
  if (x) memcpy(shared_x(out), x, lp->cols.n * sizeof *x);
  if (x) out->objective = Cbc_getObjValue(m);
  if (!Cbc_isProvenInfeasible(m)) out->bound = Cbc_getBestPossibleObjValue(m);
  if (out->optimal) out->bound = out->objective;
  out->failed = false;
}

/* The child is silent, without a core file, and not longer there than its parent. */
static void restrict_child(void) {
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO); /* where the C++ runtime says why it aborts */
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* The signal that ended the process; 0: none. */
static int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 0;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void pz_lp_solve(const struct pz_lp *lp, double seconds, const double *start,
                 struct pz_lp_result *out) {
  struct lines cols;
  *out = (struct pz_lp_result){.failed = true, .bound = -DBL_MAX};
  if (!compress(lp, false, &cols)) return;
  size_t bytes = sizeof *out + lp->cols.n * sizeof *out->x;
  struct pz_lp_result *shared =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return;
  *shared = *out;
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    restrict_child();
    if (getppid() == parent) solve_here(lp, &cols, seconds, start, shared);
    _exit(shared->failed);
  }
  int ended_by = child > 0 ? wait_for(child) : 0;
  *out = *shared;
  out->signal = ended_by;
  if (out->found) {
    out->x = pz_arena_alloc(lp->cols.arena, lp->cols.n, sizeof *out->x);
    if (out->x) memcpy(out->x, shared_x(shared), lp->cols.n * sizeof *out->x);
    out->failed = out->failed || !out->x;
  }
  munmap(shared, bytes);
}

/* ---- files ---------------------------------------------------------------------------------- */

enum { TERMS_A_LINE = 6 };

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

static void write_term(FILE *f, double v, const struct pz_lp_col *col) {
  char buf[32];
  fprintf(f, " %c %s %s", v < 0 ? '-' : '+', number(v < 0 ? -v : v, buf), col->name);
}

/* The readable format of CPLEX. */
static bool write_lp(FILE *f, const struct pz_lp *lp) {
  static const char *const senses[] = {"=", ">=", "<="};
  struct lines rows;
  char buf[32];
  if (!compress(lp, true, &rows)) return false;
  write_notes(f, lp, '\\');
  fputs("Minimize\n obj:", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    double cost = col_at(lp, c)->cost;
    if (cost < 0 || cost > 0) write_term(f, cost, col_at(lp, c));
  }
  fputs("\nSubject To\n", f);
  for (uint32_t r = 0; r < lp->rows.n; r++) {
    const struct pz_lp_row *row = row_at(lp, r);
    int first = rows.start[r], end = rows.start[r + 1];
    if (first == end) continue; /* nothing in it: the format has no such row */
    fprintf(f, " %s:", row->name);
    for (int k = first; k < end; k++) {
      if (k > first && (k - first) % TERMS_A_LINE == 0) fputs("\n  ", f);
      write_term(f, rows.value[k], col_at(lp, (uint32_t)rows.index[k]));
    }
    fprintf(f, " %s %s\n", senses[row->sense], number(row->right, buf));
  }
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
  fputs("End\n", f);
  return true;
}

/* Free-format MPS, which every solver accepts. */
static bool write_mps(FILE *f, const struct pz_lp *lp) {
  struct lines cols;
  char buf[32];
  bool integer = false;
  if (!compress(lp, false, &cols)) return false;
  write_notes(f, lp, '*');
  fputs("NAME schedule FREE\nROWS\n N obj\n", f);
  for (uint32_t r = 0; r < lp->rows.n; r++)
    fprintf(f, " %c %s\n", "EGL"[row_at(lp, r)->sense], row_at(lp, r) -> name);
  fputs("COLUMNS\n", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = col_at(lp, c);
    if (col->integer != integer)
      fprintf(f, " MARKER 'MARKER' '%s'\n", col->integer ? "INTORG" : "INTEND");
    integer = col->integer;
    fprintf(f, " %s obj %s\n", col->name, number(col->cost, buf));
    for (int k = cols.start[c]; k < cols.start[c + 1]; k++)
      fprintf(f, " %s %s %s\n", col->name, row_at(lp, (uint32_t)cols.index[k])->name,
              number(cols.value[k], buf));
  }
  if (integer) fputs(" MARKER 'MARKER' 'INTEND'\n", f);
  fputs("RHS\n", f);
  for (uint32_t r = 0; r < lp->rows.n; r++) {
    double right = row_at(lp, r)->right;
    if (right < 0 || right > 0) fprintf(f, " rhs %s %s\n", row_at(lp, r)->name, number(right, buf));
  }
  fputs("BOUNDS\n", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = col_at(lp, c);
    fprintf(f, " LO bound %s %s\n", col->name, number(col->lower, buf));
    if (col->upper < DBL_MAX) fprintf(f, " UP bound %s %s\n", col->name, number(col->upper, buf));
  }
  fputs("ENDATA\n", f);
  return true;
}

static bool ends_with(const char *path, const char *end) {
  size_t n = strlen(path), k = strlen(end);
  return n > k && strcmp(path + n - k, end) == 0;
}

enum pz_status pz_lp_write(const struct pz_lp *lp, const char *path, struct pz_error *err) {
  bool as_lp = ends_with(path, ".lp");
  if (!as_lp && !ends_with(path, ".mps"))
    return pz_fail(err, PZ_BAD_INPUT, "%s: accepted: a name that ends with .lp or .mps", path);
  enum pz_status status = pz_file_output(path, NULL, 0, err);
  if (status != PZ_OK) return status;
  struct pz_buffer b = {0};
  FILE *f = pz_buffer_stream(&b);
  bool ok = f && (as_lp ? write_lp(f, lp) : write_mps(f, lp));
  ok = f && pz_buffer_close(f) && ok;
  status = ok ? pz_file_write(path, b.text, b.bytes, err)
              : pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", path);
  pz_free(b.text);
  return status;
}
