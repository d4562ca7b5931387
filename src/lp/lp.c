/* Linear programs: building them, solving them by CBC in a child process, and writing them to files.
 *
 * pz_lp_solve() compresses the matrix by columns and forks; the child runs solve_by_cbc() and leaves the result in shared
 * memory.  pz_lp_save() writes one of two formats: write_lp_format() (CPLEX, readable) or write_mps_format(). */

/* MAP_ANONYMOUS is not part of POSIX. */
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

#include "core/buffer.h"
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

static const struct pz_lp_col *lp_column(const struct pz_lp *lp, uint32_t i) {
  return pz_vec_at(&lp->cols, struct pz_lp_col, i);
}

static const struct pz_lp_row *lp_row(const struct pz_lp *lp, uint32_t i) {
  return pz_vec_at(&lp->rows, struct pz_lp_row, i);
}

/* The matrix by columns or by rows: entries of line k are start[k] to start[k + 1] - 1, each with its index in the other
 * direction. */
struct sparse_lines {
  int *start, *index;
  double *value;
};

/* Compresses the matrix by a counting sort of its entries.  Returns false if memory ran out, now or while the program was
 * built. */
static bool compress(const struct pz_lp *lp, bool by_row, struct sparse_lines *out) {
  struct pz_arena *arena = lp->cols.arena;
  uint32_t n_lines = by_row ? lp->rows.n : lp->cols.n;
  out->start = pz_arena_alloc(arena, (size_t)n_lines + 2, sizeof *out->start);
  out->index = pz_arena_alloc(arena, lp->entries.n, sizeof *out->index);
  out->value = pz_arena_alloc(arena, lp->entries.n, sizeof *out->value);
  if (lp->failed || !out->start || !out->index || !out->value) return false;
  const struct pz_lp_entry *entries = lp->entries.items;
  for (uint32_t i = 0; i < lp->entries.n; i++)
    out->start[(by_row ? entries[i].row : entries[i].col) + 2]++;
  for (uint32_t k = 0; k < n_lines; k++) out->start[k + 2] += out->start[k + 1];
  for (uint32_t i = 0; i < lp->entries.n; i++) {
    int *next = &out->start[(by_row ? entries[i].row : entries[i].col) + 1];
    out->index[*next] = (int)(by_row ? entries[i].col : entries[i].row);
    out->value[*next] = entries[i].value;
    ++*next;
  }
  return true;
}

/* ---- CBC ------------------------------------------------------------------------------------ */

static void load_into_cbc(Cbc_Model *m, const struct pz_lp *lp, const struct sparse_lines *cols) {
  Cbc_loadProblem(m, (int)lp->cols.n, (int)lp->rows.n, cols->start, cols->index, cols->value, NULL,
                  NULL, NULL, NULL, NULL);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = lp_column(lp, c);
    Cbc_setColLower(m, (int)c, col->lower);
    Cbc_setColUpper(m, (int)c, col->upper);
    Cbc_setObjCoeff(m, (int)c, col->cost);
    if (col->integer) Cbc_setInteger(m, (int)c);
  }
  for (uint32_t r = 0; r < lp->rows.n; r++) {
    const struct pz_lp_row *row = lp_row(lp, r);
    if (row->sense != PZ_LP_AT_MOST) Cbc_setRowLower(m, (int)r, row->right);
    if (row->sense != PZ_LP_AT_LEAST) Cbc_setRowUpper(m, (int)r, row->right);
  }
}

/* The result is in memory that both processes share; the solution follows it. */
static double *shared_solution(struct pz_lp_result *shared) {
  return (double *)(void *)(shared + 1);
}

/* Runs in the child process. */
static void solve_by_cbc(const struct pz_lp *lp, const struct sparse_lines *cols, double seconds,
                         const double *start, struct pz_lp_result *out) {
  uint32_t n = lp->cols.n;
  int *all_columns = start ? pz_arena_alloc(lp->cols.arena, n, sizeof *all_columns) : NULL;
  if (start && !all_columns) return;
  Cbc_Model *m = Cbc_newModel();
  Cbc_setLogLevel(m, 0);
  Cbc_setParameter(m, "log", "0");
  Cbc_setParameter(m, "ratioGap", "0");
  if (seconds > 0) Cbc_setMaximumSeconds(m, seconds);
  load_into_cbc(m, lp, cols);
  if (start) {
    for (uint32_t c = 0; c < n; c++) all_columns[c] = (int)c;
    Cbc_setMIPStartI(m, (int)n, all_columns, start);
  }
  Cbc_solve(m);
  const double *x = Cbc_bestSolution(m);
  out->found = x != NULL;
  out->optimal = x && Cbc_isProvenOptimal(m);
  if (x) {
    memcpy(shared_solution(out), x, n * sizeof *x);
    out->objective = Cbc_getObjValue(m);
  }
  if (!Cbc_isProvenInfeasible(m)) out->bound = Cbc_getBestPossibleObjValue(m);
  if (out->optimal) out->bound = out->objective;
  out->failed = false;
}

/* The child prints nothing, leaves no core file, and ends with its parent. */
static void restrict_child(void) {
  int null_device = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null_device >= 0) {
    dup2(null_device, STDOUT_FILENO);
    dup2(null_device, STDERR_FILENO); /* the C++ runtime writes there why it aborts */
  }
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Waits for the child, and returns the signal that ended it; 0: none. */
static int wait_for_child(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 0;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void pz_lp_solve(const struct pz_lp *lp, double seconds, const double *start,
                 struct pz_lp_result *out) {
  struct sparse_lines cols;
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
    bool parent_lives = getppid() == parent;
    if (parent_lives) solve_by_cbc(lp, &cols, seconds, start, shared);
    _exit(shared->failed);
  }
  int signal_number = child > 0 ? wait_for_child(child) : 0;
  *out = *shared;
  out->signal = signal_number;
  if (out->found) {
    out->x = pz_arena_alloc(lp->cols.arena, lp->cols.n, sizeof *out->x);
    if (out->x)
      memcpy(out->x, shared_solution(shared), lp->cols.n * sizeof *out->x);
    else
      out->failed = true;
  }
  munmap(shared, bytes);
}

/* ---- files ---------------------------------------------------------------------------------- */

enum { TERMS_PER_LINE = 6 };

/* Prints a number with the fewest digits, of 9, 13 and 17, that read back as the same number. */
static const char *number_text(double v, char buf[32]) {
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
  fprintf(f, " %c %s %s", v < 0 ? '-' : '+', number_text(v < 0 ? -v : v, buf), col->name);
}

/* The format of CPLEX, which is readable. */
static bool write_lp_format(FILE *f, const struct pz_lp *lp) {
  static const char *const senses[] = {"=", ">=", "<="};
  struct sparse_lines rows;
  char buf[32];
  if (!compress(lp, true, &rows)) return false;
  write_notes(f, lp, '\\');
  fputs("Minimize\n obj:", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    double cost = lp_column(lp, c)->cost;
    if (cost < 0 || cost > 0) write_term(f, cost, lp_column(lp, c));
  }
  fputs("\nSubject To\n", f);
  for (uint32_t r = 0; r < lp->rows.n; r++) {
    const struct pz_lp_row *row = lp_row(lp, r);
    int first = rows.start[r], end = rows.start[r + 1];
    if (first == end) continue; /* the format has no empty rows */
    fprintf(f, " %s:", row->name);
    for (int k = first; k < end; k++) {
      if (k > first && (k - first) % TERMS_PER_LINE == 0) fputs("\n  ", f);
      write_term(f, rows.value[k], lp_column(lp, (uint32_t)rows.index[k]));
    }
    fprintf(f, " %s %s\n", senses[row->sense], number_text(row->right, buf));
  }
  fputs("Bounds\n", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = lp_column(lp, c);
    fprintf(f, " %s <= %s", number_text(col->lower, buf), col->name);
    if (col->upper < DBL_MAX) fprintf(f, " <= %s", number_text(col->upper, buf));
    fputc('\n', f);
  }
  fputs("Generals\n", f);
  for (uint32_t c = 0; c < lp->cols.n; c++)
    if (lp_column(lp, c)->integer) fprintf(f, " %s\n", lp_column(lp, c)->name);
  fputs("End\n", f);
  return true;
}

/* Free-format MPS, which every solver accepts. */
static bool write_mps_format(FILE *f, const struct pz_lp *lp) {
  struct sparse_lines cols;
  char buf[32];
  bool integer = false;
  if (!compress(lp, false, &cols)) return false;
  write_notes(f, lp, '*');
  fputs("NAME schedule FREE\nROWS\n N obj\n", f);
  for (uint32_t r = 0; r < lp->rows.n; r++)
    fprintf(f, " %c %s\n", "EGL"[lp_row(lp, r)->sense], lp_row(lp, r) -> name);
  fputs("COLUMNS\n", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = lp_column(lp, c);
    if (col->integer != integer)
      fprintf(f, " MARKER 'MARKER' '%s'\n", col->integer ? "INTORG" : "INTEND");
    integer = col->integer;
    fprintf(f, " %s obj %s\n", col->name, number_text(col->cost, buf));
    for (int k = cols.start[c]; k < cols.start[c + 1]; k++)
      fprintf(f, " %s %s %s\n", col->name, lp_row(lp, (uint32_t)cols.index[k])->name,
              number_text(cols.value[k], buf));
  }
  if (integer) fputs(" MARKER 'MARKER' 'INTEND'\n", f);
  fputs("RHS\n", f);
  for (uint32_t r = 0; r < lp->rows.n; r++) {
    double right = lp_row(lp, r)->right;
    if (right < 0 || right > 0)
      fprintf(f, " rhs %s %s\n", lp_row(lp, r)->name, number_text(right, buf));
  }
  fputs("BOUNDS\n", f);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = lp_column(lp, c);
    fprintf(f, " LO bound %s %s\n", col->name, number_text(col->lower, buf));
    if (col->upper < DBL_MAX)
      fprintf(f, " UP bound %s %s\n", col->name, number_text(col->upper, buf));
  }
  fputs("ENDATA\n", f);
  return true;
}

static bool ends_with(const char *path, const char *end) {
  size_t n = strlen(path), k = strlen(end);
  return n > k && strcmp(path + n - k, end) == 0;
}

void pz_lp_save(struct pz_call *call, const struct pz_lp *lp, const char *path) {
  bool is_lp = ends_with(path, ".lp");
  if (!is_lp && !ends_with(path, ".mps"))
    pz_raise(call, PZ_BAD_INPUT, "%s: accepted: a name that ends with .lp or .mps", path);
  pz_must(call, pz_file_output(path, NULL, 0, pz_call_error(call)));
  struct pz_buffer *b = pz_buffer_new(call);
  FILE *f = pz_buffer_open(call, b);
  bool written = is_lp ? write_lp_format(f, lp) : write_mps_format(f, lp);
  pz_buffer_flush(call, f);
  if (!written) pz_raise(call, PZ_NO_MEMORY, "%s: out of memory", path);
  pz_must(call, pz_file_write(path, b->text, b->bytes, pz_call_error(call)));
}

/* ---- for callers that return a status ---- */

struct save_args {
  const struct pz_lp *lp;
  const char *path;
};

static void save_lp(struct pz_call *call, void *ctx) {
  const struct save_args *args = ctx;
  pz_lp_save(call, args->lp, args->path);
}

enum pz_status pz_lp_write(const struct pz_lp *lp, const char *path, struct pz_error *err) {
  struct save_args args = {lp, path};
  return pz_border(save_lp, &args, err);
}
