/* MAP_ANONYMOUS is not of POSIX. */
#define _DEFAULT_SOURCE /* NOLINT(bugprone-reserved-identifier) */

#include "lp/lp.h"

#include <Cbc_C_Interface.h>
#include <Clp_C_Interface.h>
#include <errno.h>
#include <fcntl.h>
#include <float.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

void pz_lp_init(struct pz_lp *lp, struct pz_arena *arena) {
  *lp = (struct pz_lp){0};
  pz_vec_init(&lp->cols, arena, sizeof(struct pz_lp_col));
  pz_vec_init(&lp->rows, arena, sizeof(struct pz_lp_row));
  pz_vec_init(&lp->entries, arena, sizeof(struct pz_lp_entry));
  pz_vec_init(&lp->notes, arena, sizeof(const char *));
}

uint32_t pz_lp_col(struct pz_lp *lp, double lower, double upper, double cost, bool integer) {
  struct pz_lp_col c = {.lower = lower, .upper = upper, .cost = cost, .integer = integer};
  snprintf(c.name, sizeof c.name, "c%u", lp->cols.n);
  lp->failed |= !pz_vec_push(&lp->cols, &c);
  return lp->cols.n - 1;
}

uint32_t pz_lp_row(struct pz_lp *lp, double lower, double upper) {
  struct pz_lp_row r = {.lower = lower, .upper = upper};
  snprintf(r.name, sizeof r.name, "r%u", lp->rows.n);
  lp->failed |= !pz_vec_push(&lp->rows, &r);
  return lp->rows.n - 1;
}

void pz_lp_put(struct pz_lp *lp, uint32_t row, uint32_t col, double value) {
  struct pz_lp_entry e = {row, col, value};
  if (value < 0 || value > 0) lp->failed |= !pz_vec_push(&lp->entries, &e);
}

void pz_lp_name(struct pz_lp *lp, uint32_t col, const char *format, ...) {
  va_list args;
  if (lp->failed) return;
  struct pz_lp_col *c = pz_vec_at(&lp->cols, struct pz_lp_col, col);
  va_start(args, format);
  vsnprintf(c->name, sizeof c->name, format, args);
  va_end(args);
}

void pz_lp_row_name(struct pz_lp *lp, uint32_t row, const char *format, ...) {
  va_list args;
  if (lp->failed) return;
  struct pz_lp_row *r = pz_vec_at(&lp->rows, struct pz_lp_row, row);
  va_start(args, format);
  vsnprintf(r->name, sizeof r->name, format, args);
  va_end(args);
}

void pz_lp_note(struct pz_lp *lp, const char *line) {
  lp->failed |= !line || !pz_vec_push(&lp->notes, &line);
}

/* ---- the libraries' form -------------------------------------------------------------------- */

/* Compressed columns, as both libraries want them. */
struct packed {
  int *start, *index;
  double *value, *col_lower, *col_upper, *cost, *row_lower, *row_upper;
};

static bool allocate(const struct pz_lp *lp, struct packed *p) {
  struct pz_arena *a = lp->cols.arena;
  size_t cols = lp->cols.n, rows = lp->rows.n, entries = lp->entries.n;
  p->start = pz_arena_alloc(a, cols + 2, sizeof *p->start);
  p->index = pz_arena_alloc(a, entries, sizeof *p->index);
  p->value = pz_arena_alloc(a, entries, sizeof *p->value);
  p->col_lower = pz_arena_alloc(a, cols, sizeof *p->col_lower);
  p->col_upper = pz_arena_alloc(a, cols, sizeof *p->col_upper);
  p->cost = pz_arena_alloc(a, cols, sizeof *p->cost);
  p->row_lower = pz_arena_alloc(a, rows, sizeof *p->row_lower);
  p->row_upper = pz_arena_alloc(a, rows, sizeof *p->row_upper);
  return p->start && p->index && p->value && p->col_lower && p->col_upper && p->cost &&
         p->row_lower && p->row_upper;
}

static bool pack(const struct pz_lp *lp, struct packed *p) {
  if (lp->failed || !allocate(lp, p)) return false;
  const struct pz_lp_entry *e = lp->entries.items;
  for (uint32_t i = 0; i < lp->entries.n; i++) p->start[e[i].col + 2]++;
  for (uint32_t c = 0; c < lp->cols.n; c++) p->start[c + 2] += p->start[c + 1];
  for (uint32_t i = 0; i < lp->entries.n; i++) {
    int at = p->start[e[i].col + 1]++;
    p->index[at] = (int)e[i].row;
    p->value[at] = e[i].value;
  }
  for (uint32_t c = 0; c < lp->cols.n; c++) {
    const struct pz_lp_col *col = pz_vec_at(&lp->cols, struct pz_lp_col, c);
    p->col_lower[c] = col->lower;
    p->col_upper[c] = col->upper;
    p->cost[c] = col->cost;
  }
  for (uint32_t r = 0; r < lp->rows.n; r++) {
    const struct pz_lp_row *row = pz_vec_at(&lp->rows, struct pz_lp_row, r);
    p->row_lower[r] = row->lower;
    p->row_upper[r] = row->upper;
  }
  return true;
}

static double *copied(const struct pz_lp *lp, const double *from, uint32_t n) {
  double *to = from ? pz_arena_alloc(lp->cols.arena, n, sizeof *to) : NULL;
  if (to) memcpy(to, from, n * sizeof *to);
  return to;
}

void pz_lp_solve(const struct pz_lp *lp, struct pz_lp_result *out) {
  struct packed p;
  *out = (struct pz_lp_result){.status = PZ_LP_FAILED, .bound = -DBL_MAX};
  if (!pack(lp, &p)) return;
  Clp_Simplex *m = Clp_newModel();
  Clp_setLogLevel(m, 0);
  Clp_loadProblem(m, (int)lp->cols.n, (int)lp->rows.n, p.start, p.index, p.value, p.col_lower,
                  p.col_upper, p.cost, p.row_lower, p.row_upper);
  Clp_dual(m, 0);
  Clp_primal(m, 0);
  if (Clp_status(m) == 0) {
    out->x = copied(lp, Clp_primalColumnSolution(m), lp->cols.n);
    out->found = out->x != NULL;
    out->objective = out->bound = Clp_objectiveValue(m);
    if (out->found) out->status = PZ_LP_OPTIMAL;
  }
  Clp_deleteModel(m);
}

static void set_limits(Cbc_Model *m, const struct pz_lp_limits *limits) {
  Cbc_setLogLevel(m, 0);
  Cbc_setParameter(m, "log", "0");
  Cbc_setParameter(m, "ratioGap", "0");
  if (limits->plain) Cbc_setParameter(m, "preprocess", "off");
  if (limits->seconds > 0) Cbc_setMaximumSeconds(m, limits->seconds);
  if (limits->nodes > 0) Cbc_setMaximumNodes(m, limits->nodes);
}

/* What the process of CBC hands over, in memory that both see; x follows. */
struct answer {
  enum pz_lp_status status;
  bool done, found;
  double objective, bound;
};

static double *answer_x(struct answer *a) { return (double *)(void *)(a + 1); }

static void collect(const struct pz_lp *lp, Cbc_Model *m, struct answer *out) {
  out->bound = Cbc_getBestPossibleObjValue(m);
  const double *x = Cbc_bestSolution(m);
  out->found = x != NULL;
  if (x) memcpy(answer_x(out), x, lp->cols.n * sizeof *x);
  if (out->found) out->objective = Cbc_getObjValue(m);
  out->status = Cbc_isProvenOptimal(m) && out->found ? PZ_LP_OPTIMAL
                : Cbc_isProvenInfeasible(m)          ? PZ_LP_INFEASIBLE
                : Cbc_isAbandoned(m)                 ? PZ_LP_FAILED
                                                     : PZ_LP_LIMIT;
  if (out->status == PZ_LP_OPTIMAL) out->bound = out->objective;
  out->done = true;
}

struct integer_model {
  const struct pz_lp *lp;
  const struct pz_lp_limits *limits;
  const struct packed *p;
  const double *start;
  const int *index;
};

static void solve_here(const struct integer_model *x, struct answer *out) {
  const struct packed *p = x->p;
  int cols = (int)x->lp->cols.n;
  Cbc_Model *m = Cbc_newModel();
  set_limits(m, x->limits);
  Cbc_loadProblem(m, cols, (int)x->lp->rows.n, p->start, p->index, p->value, p->col_lower,
                  p->col_upper, p->cost, p->row_lower, p->row_upper);
  for (int c = 0; c < cols; c++)
    if (pz_vec_at(&x->lp->cols, struct pz_lp_col, (uint32_t)c)->integer) Cbc_setInteger(m, c);
  if (x->start) Cbc_setMIPStartI(m, cols, x->index, x->start);
  Cbc_solve(m);
  collect(x->lp, m, out);
}

/* The child: silent, without a core file, and not longer there than its parent. */
static void solve_and_exit(const struct integer_model *x, struct answer *out, pid_t parent) {
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere >= 0) dup2(nowhere, STDOUT_FILENO);
  if (nowhere >= 0) dup2(nowhere, STDERR_FILENO); /* where the C++ runtime says why it aborts */
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) solve_here(x, out);
  _exit(out->done ? 0 : 1);
}

/* The signal that ended the process; 0: none. */
static int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return 0;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

void pz_lp_solve_integer(const struct pz_lp *lp, const struct pz_lp_limits *limits,
                         const double *start, struct pz_lp_result *out) {
  struct packed p;
  *out = (struct pz_lp_result){.status = PZ_LP_FAILED, .no_memory = true, .bound = -DBL_MAX};
  int *index = start ? pz_arena_alloc(lp->cols.arena, lp->cols.n, sizeof *index) : NULL;
  if (!pack(lp, &p) || (start && !index)) return;
  for (uint32_t c = 0; index && c < lp->cols.n; c++) index[c] = (int)c;
  size_t bytes = sizeof(struct answer) + lp->cols.n * sizeof(double);
  struct answer *answer =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (answer == MAP_FAILED) return;
  *answer = (struct answer){.status = PZ_LP_FAILED};
  const struct integer_model x = {lp, limits, &p, start, index};
  pid_t parent = getpid(), child = fork();
  if (child == 0) solve_and_exit(&x, answer, parent);
  if (child > 0) out->signal = wait_for(child);
  if (child > 0 && answer->done) {
    out->status = answer->status;
    out->bound = answer->bound;
    out->objective = answer->objective;
    out->x = answer->found ? copied(lp, answer_x(answer), lp->cols.n) : NULL;
    out->found = out->x != NULL;
    out->no_memory = answer->found && !out->found;
    if (out->no_memory) out->status = PZ_LP_FAILED;
  }
  munmap(answer, bytes);
}
