/* Linear programs: building them, solving them by CBC in a child process, and writing them.
 * pz_lp_solve() compresses the matrix by columns and forks; the child runs solve_by_cbc() and
 * writes the result to shared memory. pz_lp_save() writes one of two formats: write_lp_format()
 * (CPLEX, readable) or write_mps_format(). */

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

/* ---- building -------------------------------------------------------------------------------- */

void pz_lp_init(struct pz_lp *lp, struct pz_call *call) {
  *lp = (struct pz_lp){.call = call};
  pz_vec_init(&lp->cols, call->arena, sizeof(struct pz_lp_col));
  pz_vec_init(&lp->rows, call->arena, sizeof(struct pz_lp_row));
  pz_vec_init(&lp->entries, call->arena, sizeof(struct pz_lp_entry));
  pz_vec_init(&lp->notes, call->arena, sizeof(const char *));
}

uint32_t pz_lp_add_column(struct pz_lp *lp, struct pz_lp_col column, const char *name, ...) {
  va_list args;
  va_start(args, name);
  vsnprintf(column.name, sizeof column.name, name, args);
  va_end(args);
  pz_append(lp->call, &lp->cols, &column);
  return lp->cols.n - 1;
}

uint32_t pz_lp_add_row(struct pz_lp *lp, enum pz_lp_sense sense, double right, const char *name,
                       ...) {
  struct pz_lp_row row = {.sense = sense, .right = right};
  va_list args;
  va_start(args, name);
  vsnprintf(row.name, sizeof row.name, name, args);
  va_end(args);
  pz_append(lp->call, &lp->rows, &row);
  return lp->rows.n - 1;
}

/* An entry of zero is not stored. */
void pz_lp_set_entry(struct pz_lp *lp, uint32_t row, uint32_t col, double value) {
  struct pz_lp_entry entry = {row, col, value};
  bool is_zero = !(value < 0 || value > 0);
  if (!is_zero) pz_append(lp->call, &lp->entries, &entry);
}

void pz_lp_add_note(struct pz_lp *lp, const char *line) { pz_append(lp->call, &lp->notes, &line); }

/* The matrix in compressed form.  A line is a column, or a row if the matrix is compressed by rows.
 * Line k has the entries start[k] to start[k + 1] - 1; index[] is their position in the line. */
struct sparse_lines {
  int *start, *index;
  double *value;
};

/* Returns the matrix compressed by rows or by columns (lines), by a counting sort: start[k + 2]
 * first counts the entries of line k.  After the sums, start[k + 1] is the index at which the next
 * entry of line k is stored, and in the end that after its last one. */
static struct sparse_lines compress(const struct pz_lp *lp, bool by_row) {
  uint32_t n_lines = by_row ? lp->rows.n : lp->cols.n;
  const struct pz_lp_entry *entries = lp->entries.items;
  struct sparse_lines lines;
  lines.start = pz_alloc(lp->call, (size_t)n_lines + 2, sizeof *lines.start);
  lines.index = pz_alloc(lp->call, lp->entries.n, sizeof *lines.index);
  lines.value = pz_alloc(lp->call, lp->entries.n, sizeof *lines.value);
  for (uint32_t i = 0; i < lp->entries.n; i++)
    lines.start[(by_row ? entries[i].row : entries[i].col) + 2]++;
  for (uint32_t k = 0; k < n_lines; k++) lines.start[k + 2] += lines.start[k + 1];
  for (uint32_t i = 0; i < lp->entries.n; i++) {
    int *next = &lines.start[(by_row ? entries[i].row : entries[i].col) + 1];
    lines.index[*next] = (int)(by_row ? entries[i].col : entries[i].row);
    lines.value[*next] = entries[i].value;
    ++*next;
  }
  return lines;
}

/* ---- CBC ------------------------------------------------------------------------------------- */

/* The memory that both processes share: the result, and the solution by column. */
struct shared_result {
  bool completed; /* CBC has returned, so that the result is valid */
  struct pz_lp_result result;
  double solution[]; /* by column */
};

/* Solves the program and stores the result in the shared memory.  Runs in the child process and
 * must not raise an error.  `start` is a solution to begin with, or NULL; CBC asks for the indices
 * of its columns, which are all_columns: 0, 1, 2, ... */
static void solve_by_cbc(const struct pz_lp *lp, const struct sparse_lines *cols, double seconds,
                         const double *start, const int *all_columns,
                         struct shared_result *shared) {
  struct pz_lp_result *result = &shared->result;
  Cbc_Model *model = Cbc_newModel();
  Cbc_setLogLevel(model, 0);
  Cbc_setParameter(model, "log", "0");
  Cbc_setParameter(model, "ratioGap", "0");
  if (seconds > 0) Cbc_setMaximumSeconds(model, seconds);
  Cbc_loadProblem(model, (int)lp->cols.n, (int)lp->rows.n, cols->start, cols->index, cols->value,
                  NULL, NULL, NULL, NULL, NULL);
  for (uint32_t i = 0; i < lp->cols.n; i++) {
    const struct pz_lp_col *column = pz_vec_at(&lp->cols, struct pz_lp_col, i);
    Cbc_setColLower(model, (int)i, column->lower);
    Cbc_setColUpper(model, (int)i, column->upper);
    Cbc_setObjCoeff(model, (int)i, column->cost);
    if (column->integer) Cbc_setInteger(model, (int)i);
  }
  for (uint32_t i = 0; i < lp->rows.n; i++) { /* rows have no bounds at first */
    const struct pz_lp_row *row = pz_vec_at(&lp->rows, struct pz_lp_row, i);
    if (row->sense != PZ_LP_AT_MOST) Cbc_setRowLower(model, (int)i, row->right);
    if (row->sense != PZ_LP_AT_LEAST) Cbc_setRowUpper(model, (int)i, row->right);
  }
  if (start) Cbc_setMIPStartI(model, (int)lp->cols.n, all_columns, start);
  Cbc_solve(model);
  const double *solution = Cbc_bestSolution(model);
  result->found = solution != NULL;
  result->optimal = solution && Cbc_isProvenOptimal(model);
  if (solution) {
    memcpy(shared->solution, solution, lp->cols.n * sizeof *solution);
    result->objective = Cbc_getObjValue(model);
  }
  if (!Cbc_isProvenInfeasible(model)) result->bound = Cbc_getBestPossibleObjValue(model);
  if (result->optimal) result->bound = result->objective;
  shared->completed = true;
}

/* Solves the program in a child process, which cannot raise errors: memory is allocated before. */
struct pz_lp_result pz_lp_solve(struct pz_call *call, const struct pz_lp *lp, double seconds,
                                const double *start) {
  uint32_t n = lp->cols.n;
  struct sparse_lines cols = compress(lp, false);
  int *all_columns = pz_alloc(call, n, sizeof *all_columns);
  double *solution = pz_alloc(call, n, sizeof *solution);
  for (uint32_t i = 0; i < n; i++) all_columns[i] = (int)i;
  size_t bytes = sizeof(struct shared_result) + n * sizeof *solution;
  struct shared_result *shared =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) pz_raise_memory(call, "the ILP");
  *shared = (struct shared_result){.result = {.bound = -DBL_MAX}};
  pid_t parent = getpid(), child = fork();
  if (child == 0) {
    /* The child prints nothing, leaves no core file, and ends with its parent. */
    int null_device = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null_device >= 0) {
      dup2(null_device, STDOUT_FILENO);
      dup2(null_device, STDERR_FILENO); /* the C++ runtime reports there why it aborts */
    }
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bool parent_lives = getppid() == parent;
    if (parent_lives) solve_by_cbc(lp, &cols, seconds, start, all_columns, shared);
    _exit(!shared->completed);
  }
  int status = 0;
  pid_t ended = -1;
  if (child > 0) {
    do ended = waitpid(child, &status, 0);
    while (ended < 0 && errno == EINTR);
  }
  int signal_number = ended > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  bool completed = shared->completed;
  struct pz_lp_result result = shared->result;
  if (result.found) {
    memcpy(solution, shared->solution, n * sizeof *solution);
    result.solution = solution;
  }
  munmap(shared, bytes);
  if (!completed && signal_number)
    pz_raise(call, PZ_NO_MEMORY, "CBC ended with signal %d: out of memory for the ILP, or a fault",
             signal_number);
  if (!completed) pz_raise_memory(call, "the ILP");
  return result;
}

/* ---- files ----------------------------------------------------------------------------------- */

enum { TERMS_PER_LINE = 6 };

/* Prints a number into `text` and returns it: the first of 9, 13 or 17 digits that is exact. */
static const char *number_text(double value, char text[32]) {
  for (int digits = 9; digits <= 17; digits += 4) {
    snprintf(text, 32, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  return text;
}

/* Writes one term of a sum: the coefficient and the name of its column, such as " + 2 x". */
static void write_term(FILE *out, double value, const struct pz_lp_col *col) {
  char text[32];
  fprintf(out, " %c %s %s", value < 0 ? '-' : '+', number_text(value < 0 ? -value : value, text),
          col->name);
}

/* Writes the program in the LP format of CPLEX, which people can read. */
static void write_lp_format(FILE *out, const struct pz_lp *lp) {
  static const char *const senses[] = {"=", ">=", "<="};
  const struct pz_lp_col *columns = lp->cols.items;
  const struct pz_lp_row *constraints = lp->rows.items;
  struct sparse_lines rows = compress(lp, true);
  char text[32];
  fputs("Minimize\n obj:", out);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    double cost = columns[c].cost;
    if (cost < 0 || cost > 0) write_term(out, cost, &columns[c]);
  }
  fputs("\nSubject To\n", out);
  for (uint32_t row_index = 0; row_index < lp->rows.n; row_index++) {
    const struct pz_lp_row *row = &constraints[row_index];
    int first = rows.start[row_index], end = rows.start[row_index + 1];
    if (first == end) continue; /* the format has no empty rows */
    fprintf(out, " %s:", row->name);
    for (int k = first; k < end; k++) {
      if (k > first && (k - first) % TERMS_PER_LINE == 0) fputs("\n  ", out);
      write_term(out, rows.value[k], &columns[rows.index[k]]);
    }
    fprintf(out, " %s %s\n", senses[row->sense], number_text(row->right, text));
  }
  fputs("Bounds\n", out);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = &columns[c];
    fprintf(out, " %s <= %s", number_text(col->lower, text), col->name);
    if (col->upper < DBL_MAX) fprintf(out, " <= %s", number_text(col->upper, text));
    fputc('\n', out);
  }
  fputs("Generals\n", out);
  for (uint32_t c = 0; c < lp->cols.n; c++)
    if (columns[c].integer) fprintf(out, " %s\n", columns[c].name);
  fputs("End\n", out);
}

/* Writes the program in free-format MPS, which every solver accepts, with marked integer
 * columns. */
static void write_mps_format(FILE *out, const struct pz_lp *lp) {
  const struct pz_lp_col *columns = lp->cols.items;
  const struct pz_lp_row *constraints = lp->rows.items;
  struct sparse_lines cols = compress(lp, false);
  char text[32];
  bool integer = false;
  fputs("NAME schedule FREE\nROWS\n N obj\n", out);
  for (uint32_t row_index = 0; row_index < lp->rows.n; row_index++)
    fprintf(out, " %c %s\n", "EGL"[constraints[row_index].sense], constraints[row_index].name);
  fputs("COLUMNS\n", out);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = &columns[c];
    if (col->integer != integer)
      fprintf(out, " MARKER 'MARKER' '%s'\n", col->integer ? "INTORG" : "INTEND");
    integer = col->integer;
    fprintf(out, " %s obj %s\n", col->name, number_text(col->cost, text));
    for (int k = cols.start[c]; k < cols.start[c + 1]; k++)
      fprintf(out, " %s %s %s\n", col->name, constraints[cols.index[k]].name,
              number_text(cols.value[k], text));
  }
  if (integer) fputs(" MARKER 'MARKER' 'INTEND'\n", out);
  fputs("RHS\n", out);
  for (uint32_t row_index = 0; row_index < lp->rows.n; row_index++) {
    double right = constraints[row_index].right;
    if (right < 0 || right > 0)
      fprintf(out, " rhs %s %s\n", constraints[row_index].name, number_text(right, text));
  }
  fputs("BOUNDS\n", out);
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = &columns[c];
    fprintf(out, " LO bound %s %s\n", col->name, number_text(col->lower, text));
    if (col->upper < DBL_MAX)
      fprintf(out, " UP bound %s %s\n", col->name, number_text(col->upper, text));
  }
  fputs("ENDATA\n", out);
}

/* Writes the program as an .lp or .mps file, by the end of the path. */
void pz_lp_save(struct pz_call *call, const struct pz_lp *lp, const char *path) {
  const char *dot = strrchr(path, '.');
  const char *suffix = dot && dot > path ? dot : "";
  bool is_lp = strcmp(suffix, ".lp") == 0;
  if (!is_lp && strcmp(suffix, ".mps") != 0)
    pz_raise(call, PZ_BAD_INPUT, "%s: accepted: a name that ends with .lp or .mps", path);
  pz_file_require_output(call, path, NULL, 0);
  struct pz_buffer *buffer = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, buffer);
  for (uint32_t i = 0; i < lp->notes.n; i++)
    fprintf(out, "%c %s\n", is_lp ? '\\' : '*', *pz_vec_at(&lp->notes, const char *, i));
  if (is_lp)
    write_lp_format(out, lp);
  else
    write_mps_format(out, lp);
  pz_buffer_flush(call, out);
  pz_file_save(call, path, buffer->text, buffer->bytes);
}
