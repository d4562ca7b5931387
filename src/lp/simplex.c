#include "lp/simplex.h"

#include <math.h>
#include <string.h>

/* Columns that every row has: what it has too much, and what it lacks, at a high cost. */
enum { SLACK = 1 << 29, SHORT = 1 << 30, CANDIDATES = PZ_SIMPLEX_CANDIDATES };

static const double SHORT_COST = 1e4, LEAST = 1e-10;

struct col {
  double cost;
  uint32_t first, n; /* entries */
  bool basic;
};

struct entry {
  double value;
  uint32_t row;
};

bool pz_simplex_init(struct pz_simplex *x, uint32_t most_rows, struct pz_arena *arena) {
  size_t n = most_rows;
  *x = (struct pz_simplex){.most_rows = most_rows};
  pz_vec_init(&x->cols, arena, sizeof(struct col));
  pz_vec_init(&x->entries, arena, sizeof(struct entry));
  x->inverse = pz_arena_alloc(arena, n * n, sizeof *x->inverse);
  x->right = pz_arena_alloc(arena, n, sizeof *x->right);
  x->value = pz_arena_alloc(arena, n, sizeof *x->value);
  x->dual = pz_arena_alloc(arena, n, sizeof *x->dual);
  x->column = pz_arena_alloc(arena, n, sizeof *x->column);
  x->list = pz_arena_alloc(arena, n, sizeof *x->list);
  x->basic = pz_arena_alloc(arena, n, sizeof *x->basic);
  return x->inverse && x->right && x->value && x->dual && x->column && x->list && x->basic;
}

/* ---- the model ------------------------------------------------------------------------------ */

static struct col *col_at(const struct pz_simplex *x, uint32_t c) {
  return pz_vec_at(&x->cols, struct col, c);
}

static const struct entry *entries_of(const struct pz_simplex *x, const struct col *col) {
  return pz_vec_at(&x->entries, struct entry, col->first);
}

static double *line_at(const struct pz_simplex *x, uint32_t row) {
  return &x->inverse[(size_t)row * x->most_rows];
}

/* Moved by parts of a millionth, another for each row.  What it lacks, all, is basic. */
uint32_t pz_simplex_row(struct pz_simplex *x, double right) {
  uint32_t row = x->n_rows++;
  x->value[row] = x->right[row] = right - 1e-6 * right * (1 + fmod(row * 0.6180339887498949, 1));
  line_at(x, row)[row] = 1;
  x->basic[row] = SHORT + row;
  return row;
}

uint32_t pz_simplex_col(struct pz_simplex *x, double cost) {
  struct col c = {.cost = cost, .first = x->entries.n};
  if (!pz_vec_push(&x->cols, &c)) x->failed = true;
  return x->cols.n - 1;
}

void pz_simplex_put(struct pz_simplex *x, uint32_t row, double value) {
  struct entry e = {value, row};
  if (x->failed || !pz_vec_push(&x->entries, &e))
    x->failed = true;
  else
    col_at(x, x->cols.n - 1)->n++;
}

void pz_simplex_cost(struct pz_simplex *x, uint32_t col, double cost) {
  col_at(x, col)->cost = cost;
}

/* ---- the simplex ---------------------------------------------------------------------------- */

static double basic_cost(const struct pz_simplex *x, uint32_t row) {
  uint32_t b = x->basic[row];
  return b >= SHORT ? SHORT_COST : b >= SLACK ? 0 : col_at(x, b)->cost;
}

static void find_duals(struct pz_simplex *x) {
  memset(x->dual, 0, x->n_rows * sizeof *x->dual);
  for (uint32_t k = 0; k < x->n_rows; k++) {
    double cost = basic_cost(x, k);
    if (!(cost < 0 || cost > 0)) continue;
    const double *line = line_at(x, k);
    for (uint32_t i = 0; i < x->n_rows; i++) x->dual[i] += cost * line[i];
  }
  x->work += (int64_t)x->n_rows * x->n_rows;
}

static double reduced_cost(struct pz_simplex *x, uint32_t c) {
  if (c >= SLACK) return x->dual[c - SLACK];
  const struct col *col = col_at(x, c);
  const struct entry *e = entries_of(x, col);
  double d = col->cost;
  for (uint32_t k = 0; k < col->n; k++) d -= e[k].value * x->dual[e[k].row];
  x->work += 8 + 4 * (int64_t)col->n;
  return d;
}

static void keep_candidate(struct pz_simplex *x, uint32_t c, double d) {
  if (x->n_candidates == CANDIDATES && x->candidate[CANDIDATES - 1].reduced <= d) return;
  uint32_t at = x->n_candidates < CANDIDATES ? x->n_candidates++ : CANDIDATES - 1;
  for (; at > 0 && x->candidate[at - 1].reduced > d; at--) x->candidate[at] = x->candidate[at - 1];
  x->candidate[at].col = c;
  x->candidate[at].reduced = d;
}

/* Those whose costs are furthest below what they are worth. */
static void find_candidates(struct pz_simplex *x) {
  x->n_candidates = 0;
  for (uint32_t c = 0; c < x->cols.n; c++) {
    double d = col_at(x, c)->basic ? 0 : reduced_cost(x, c);
    if (d < -LEAST) keep_candidate(x, c, d);
  }
  for (uint32_t i = 0; i < x->n_rows; i++)
    if (x->dual[i] < -LEAST) keep_candidate(x, SLACK + i, x->dual[i]);
}

/* The best candidate as things stand; PZ_NONE: no column is worth more than it costs. */
static uint32_t choose_entering(struct pz_simplex *x, double *reduced) {
  for (int pass = 0; pass < 2; pass++) {
    uint32_t best = PZ_NONE;
    *reduced = -LEAST;
    for (uint32_t k = 0; k < x->n_candidates; k++) {
      uint32_t c = x->candidate[k].col;
      double d = c < SLACK && col_at(x, c)->basic ? 0 : reduced_cost(x, c);
      if (d < *reduced) *reduced = d, best = c;
    }
    if (best != PZ_NONE) return best;
    if (pass == 0) find_candidates(x);
  }
  return PZ_NONE;
}

/* The inverse times the entering column. */
static void find_column(struct pz_simplex *x, uint32_t entering) {
  memset(x->column, 0, x->n_rows * sizeof *x->column);
  if (entering >= SLACK) {
    for (uint32_t k = 0; k < x->n_rows; k++) x->column[k] = -line_at(x, k)[entering - SLACK];
    return;
  }
  const struct col *col = col_at(x, entering);
  const struct entry *e = entries_of(x, col);
  for (uint32_t k = 0; k < x->n_rows; k++)
    for (uint32_t i = 0; i < col->n; i++) x->column[k] += e[i].value * line_at(x, k)[e[i].row];
}

/* The row whose basic value is used up first; of those nearly as early the one with the largest
 * pivot. */
static uint32_t choose_leaving(const struct pz_simplex *x) {
  uint32_t best = PZ_NONE;
  double least = 0;
  for (uint32_t k = 0; k < x->n_rows; k++) {
    if (x->column[k] < 1e-9) continue;
    double ratio = fmax(0, x->value[k]) / x->column[k];
    if (best == PZ_NONE || ratio < least - 1e-12 ||
        (ratio < least + 1e-12 && x->column[k] > x->column[best])) {
      least = best == PZ_NONE ? ratio : fmin(least, ratio);
      best = k;
    }
  }
  return best;
}

/* The entering column is now basic in this row. */
static void eliminate(struct pz_simplex *x, uint32_t entering, uint32_t row) {
  double by = 1 / x->column[row], *line = line_at(x, row);
  for (uint32_t i = 0; i < x->n_rows; i++) line[i] *= by;
  for (uint32_t k = 0; k < x->n_rows; k++) {
    double f = x->column[k], *other = line_at(x, k);
    if (k == row || !(f < 0 || f > 0)) continue;
    for (uint32_t i = 0; i < x->n_rows; i++) other[i] -= f * line[i];
  }
  if (x->basic[row] < SLACK) col_at(x, x->basic[row])->basic = false;
  if (entering < SLACK) col_at(x, entering)->basic = true;
  x->basic[row] = entering;
  x->work += (int64_t)x->n_rows * x->n_rows;
}

static void pivot(struct pz_simplex *x, uint32_t entering, uint32_t row, double reduced) {
  double step = fmax(0, x->value[row]) / x->column[row];
  for (uint32_t k = 0; k < x->n_rows; k++) x->value[k] -= x->column[k] * step;
  x->value[row] = step;
  eliminate(x, entering, row);
  const double *line = line_at(x, row);
  for (uint32_t i = 0; i < x->n_rows; i++) x->dual[i] += reduced * line[i];
}

/* Do the basic values still make the right-hand sides? */
static bool drifted(struct pz_simplex *x) {
  double *sum = x->column;
  memset(sum, 0, x->n_rows * sizeof *sum);
  for (uint32_t k = 0; k < x->n_rows; k++) {
    uint32_t b = x->basic[k];
    if (b >= SLACK) {
      sum[b & (SLACK - 1)] += b >= SHORT ? x->value[k] : -x->value[k];
      continue;
    }
    const struct col *col = col_at(x, b);
    const struct entry *e = entries_of(x, col);
    for (uint32_t i = 0; i < col->n; i++) sum[e[i].row] += e[i].value * x->value[k];
  }
  for (uint32_t i = 0; i < x->n_rows; i++)
    if (!(fabs(sum[i] - x->right[i]) < 1e-7 * (1 + fabs(x->right[i])))) return true;
  return false;
}

static uint32_t largest_short(const struct pz_simplex *x) {
  uint32_t row = PZ_NONE;
  double most = 1e-9;
  for (uint32_t k = 0; k < x->n_rows; k++)
    if (x->basic[k] >= SHORT && fabs(x->column[k]) > most) most = fabs(x->column[k]), row = k;
  return row;
}

/* The inverse once more, from the columns. */
static void invert(struct pz_simplex *x) {
  uint32_t *list = x->list;
  memcpy(list, x->basic, x->n_rows * sizeof *list);
  for (uint32_t k = 0; k < x->n_rows; k++) {
    memset(line_at(x, k), 0, x->most_rows * sizeof *x->inverse);
    line_at(x, k)[k] = 1;
    x->basic[k] = SHORT + k;
    if (list[k] < SLACK) col_at(x, list[k])->basic = false;
  }
  for (uint32_t k = 0; k < x->n_rows; k++) {
    if (list[k] >= SHORT) continue;
    find_column(x, list[k]);
    uint32_t row = largest_short(x);
    if (row != PZ_NONE) eliminate(x, list[k], row);
  }
  for (uint32_t k = 0; k < x->n_rows; k++) {
    x->value[k] = 0;
    for (uint32_t i = 0; i < x->n_rows; i++) x->value[k] += line_at(x, k)[i] * x->right[i];
  }
  find_duals(x);
}

static bool optimize(struct pz_simplex *x) {
  uint32_t most = 50 * x->n_rows + 1000;
  find_duals(x);
  x->n_candidates = 0;
  for (uint32_t k = 0; k < most && !x->failed; k++) {
    double reduced;
    uint32_t entering = choose_entering(x, &reduced);
    if (entering == PZ_NONE) return true;
    find_column(x, entering);
    uint32_t row = choose_leaving(x);
    if (row == PZ_NONE) return false;
    pivot(x, entering, row, reduced);
  }
  return false;
}

bool pz_simplex_solve(struct pz_simplex *x) {
  if (x->failed) return false;
  if (optimize(x) && !drifted(x)) return true;
  invert(x);
  return optimize(x) && !drifted(x);
}

void pz_simplex_values(const struct pz_simplex *x, double *value) {
  for (uint32_t k = 0; k < x->n_rows; k++)
    if (x->basic[k] < SLACK) value[x->basic[k]] = fmax(0, x->value[k]);
}
