/* Primal simplex on a dense basis inverse (G. B. Dantzig; revised form).
 *
 * pz_simplex_solve() runs optimize(): find_duals(), then pivots, each with an entering column of negative reduced cost
 * (partial pricing over a list of candidates) and a leaving row by the ratio test.  If the solution has drifted from the
 * right-hand sides by rounding, invert() computes the inverse again from the columns. */
#include "lp/simplex.h"

#include <math.h>
#include <string.h>

/* Two implicit columns of every row: its surplus over the right-hand side, and its shortage, at a high cost.  Their numbers
 * are SURPLUS + row and SHORTAGE + row. */
enum { SURPLUS = 1 << 29, SHORTAGE = 1 << 30, CANDIDATES = PZ_SIMPLEX_CANDIDATES };

static const double SHORTAGE_COST = 1e4, LEAST_GAIN = 1e-10;

struct simplex_column {
  double cost;
  uint32_t first, n; /* its entries */
  bool basic;
};

struct simplex_entry {
  double value;
  uint32_t row;
};

bool pz_simplex_init(struct pz_simplex *x, uint32_t most_rows, struct pz_arena *arena) {
  size_t n = most_rows;
  *x = (struct pz_simplex){.most_rows = most_rows};
  pz_vec_init(&x->cols, arena, sizeof(struct simplex_column));
  pz_vec_init(&x->entries, arena, sizeof(struct simplex_entry));
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

static struct simplex_column *column_at(const struct pz_simplex *x, uint32_t c) {
  return pz_vec_at(&x->cols, struct simplex_column, c);
}

static const struct simplex_entry *entries_of(const struct pz_simplex *x,
                                              const struct simplex_column *col) {
  return pz_vec_at(&x->entries, struct simplex_entry, col->first);
}

static double *inverse_row(const struct pz_simplex *x, uint32_t row) {
  return &x->inverse[(size_t)row * x->most_rows];
}

/* The right-hand side is perturbed by one to two millionths, differently for each row: multiples of the golden ratio are
 * spread evenly.  The shortage of the row begins as its basic column. */
uint32_t pz_simplex_row(struct pz_simplex *x, double right) {
  uint32_t row = x->n_rows;
  x->n_rows++;
  x->right[row] = right - 1e-6 * right * (1 + fmod(row * 0.6180339887498949, 1));
  x->value[row] = x->right[row];
  inverse_row(x, row)[row] = 1;
  x->basic[row] = SHORTAGE + row;
  return row;
}

uint32_t pz_simplex_col(struct pz_simplex *x, double cost) {
  struct simplex_column c = {.cost = cost, .first = x->entries.n};
  if (!pz_vec_push(&x->cols, &c)) x->failed = true;
  return x->cols.n - 1;
}

void pz_simplex_put(struct pz_simplex *x, uint32_t row, double value) {
  struct simplex_entry e = {value, row};
  if (x->failed || !pz_vec_push(&x->entries, &e)) {
    x->failed = true;
    return;
  }
  column_at(x, x->cols.n - 1)->n++;
}

void pz_simplex_cost(struct pz_simplex *x, uint32_t col, double cost) {
  column_at(x, col)->cost = cost;
}

/* ---- the simplex ---------------------------------------------------------------------------- */

static double basic_cost(const struct pz_simplex *x, uint32_t row) {
  uint32_t basic = x->basic[row];
  if (basic >= SHORTAGE) return SHORTAGE_COST;
  return basic >= SURPLUS ? 0 : column_at(x, basic)->cost;
}

static void find_duals(struct pz_simplex *x) {
  memset(x->dual, 0, x->n_rows * sizeof *x->dual);
  for (uint32_t k = 0; k < x->n_rows; k++) {
    double cost = basic_cost(x, k);
    if (!(cost < 0 || cost > 0)) continue;
    const double *line = inverse_row(x, k);
    for (uint32_t i = 0; i < x->n_rows; i++) x->dual[i] += cost * line[i];
  }
  x->work += (int64_t)x->n_rows * x->n_rows;
}

/* The cost of a column less what it is worth by the dual values. */
static double reduced_cost(struct pz_simplex *x, uint32_t c) {
  if (c >= SURPLUS) return x->dual[c - SURPLUS];
  const struct simplex_column *col = column_at(x, c);
  const struct simplex_entry *e = entries_of(x, col);
  double reduced = col->cost;
  for (uint32_t k = 0; k < col->n; k++) reduced -= e[k].value * x->dual[e[k].row];
  x->work += 8 + 4 * (int64_t)col->n;
  return reduced;
}

/* Inserts a candidate in order; the worst is dropped if there are too many. */
static void insert_candidate(struct pz_simplex *x, uint32_t c, double reduced) {
  uint32_t at = x->n_candidates;
  if (at == CANDIDATES) {
    at = CANDIDATES - 1;
    if (x->candidate[at].reduced <= reduced) return;
  } else {
    x->n_candidates++;
  }
  for (; at > 0 && x->candidate[at - 1].reduced > reduced; at--)
    x->candidate[at] = x->candidate[at - 1];
  x->candidate[at].col = c;
  x->candidate[at].reduced = reduced;
}

/* Finds the columns with the most negative reduced costs. */
static void find_candidates(struct pz_simplex *x) {
  x->n_candidates = 0;
  for (uint32_t c = 0; c < x->cols.n; c++) {
    double reduced = column_at(x, c)->basic ? 0 : reduced_cost(x, c);
    if (reduced < -LEAST_GAIN) insert_candidate(x, c, reduced);
  }
  for (uint32_t i = 0; i < x->n_rows; i++)
    if (x->dual[i] < -LEAST_GAIN) insert_candidate(x, SURPLUS + i, x->dual[i]);
}

/* The candidate with the most negative reduced cost now.  PZ_NONE: there is none, and the basis is optimal. */
static uint32_t choose_entering(struct pz_simplex *x, double *least_reduced) {
  for (int pass = 0; pass < 2; pass++) {
    uint32_t best = PZ_NONE;
    *least_reduced = -LEAST_GAIN;
    for (uint32_t k = 0; k < x->n_candidates; k++) {
      uint32_t c = x->candidate[k].col;
      bool is_basic = c < SURPLUS && column_at(x, c)->basic;
      double reduced = is_basic ? 0 : reduced_cost(x, c);
      if (!(reduced < *least_reduced)) continue;
      *least_reduced = reduced;
      best = c;
    }
    if (best != PZ_NONE) return best;
    if (pass == 0) find_candidates(x);
  }
  return PZ_NONE;
}

/* Multiplies the inverse by the entering column. */
static void multiply_column(struct pz_simplex *x, uint32_t entering) {
  memset(x->column, 0, x->n_rows * sizeof *x->column);
  if (entering >= SURPLUS) {
    for (uint32_t k = 0; k < x->n_rows; k++) x->column[k] = -inverse_row(x, k)[entering - SURPLUS];
    return;
  }
  const struct simplex_column *col = column_at(x, entering);
  const struct simplex_entry *e = entries_of(x, col);
  for (uint32_t k = 0; k < x->n_rows; k++)
    for (uint32_t i = 0; i < col->n; i++) x->column[k] += e[i].value * inverse_row(x, k)[e[i].row];
}

/* The ratio test: the row whose basic value reaches 0 first.  Among rows with nearly equal ratios, the one with the largest
 * pivot.  PZ_NONE: none does. */
static uint32_t choose_leaving(const struct pz_simplex *x) {
  uint32_t best = PZ_NONE;
  double least = 0;
  for (uint32_t k = 0; k < x->n_rows; k++) {
    if (x->column[k] < 1e-9) continue;
    double ratio = fmax(0, x->value[k]) / x->column[k];
    bool is_less = best == PZ_NONE || ratio < least - 1e-12;
    if (is_less || (ratio < least + 1e-12 && x->column[k] > x->column[best])) {
      least = best == PZ_NONE ? ratio : fmin(least, ratio);
      best = k;
    }
  }
  return best;
}

/* Makes the entering column basic in a row, and updates the inverse. */
static void replace_basic(struct pz_simplex *x, uint32_t entering, uint32_t row) {
  double scale = 1 / x->column[row], *line = inverse_row(x, row);
  for (uint32_t i = 0; i < x->n_rows; i++) line[i] *= scale;
  for (uint32_t k = 0; k < x->n_rows; k++) {
    double factor = x->column[k], *other = inverse_row(x, k);
    if (k == row || !(factor < 0 || factor > 0)) continue;
    for (uint32_t i = 0; i < x->n_rows; i++) other[i] -= factor * line[i];
  }
  if (x->basic[row] < SURPLUS) column_at(x, x->basic[row])->basic = false;
  if (entering < SURPLUS) column_at(x, entering)->basic = true;
  x->basic[row] = entering;
  x->work += (int64_t)x->n_rows * x->n_rows;
}

/* Moves along the entering column until the row leaves the basis, and updates values and duals. */
static void pivot(struct pz_simplex *x, uint32_t entering, uint32_t row, double reduced) {
  double step = fmax(0, x->value[row]) / x->column[row];
  for (uint32_t k = 0; k < x->n_rows; k++) x->value[k] -= x->column[k] * step;
  x->value[row] = step;
  replace_basic(x, entering, row);
  const double *line = inverse_row(x, row);
  for (uint32_t i = 0; i < x->n_rows; i++) x->dual[i] += reduced * line[i];
}

/* Do the basic values no longer sum up to the right-hand sides? */
static bool has_drifted(struct pz_simplex *x) {
  double *sum = x->column;
  memset(sum, 0, x->n_rows * sizeof *sum);
  for (uint32_t k = 0; k < x->n_rows; k++) {
    uint32_t basic = x->basic[k];
    if (basic >= SURPLUS) {
      uint32_t row = basic & (SURPLUS - 1);
      sum[row] += basic >= SHORTAGE ? x->value[k] : -x->value[k];
      continue;
    }
    const struct simplex_column *col = column_at(x, basic);
    const struct simplex_entry *e = entries_of(x, col);
    for (uint32_t i = 0; i < col->n; i++) sum[e[i].row] += e[i].value * x->value[k];
  }
  for (uint32_t i = 0; i < x->n_rows; i++)
    if (!(fabs(sum[i] - x->right[i]) < 1e-7 * (1 + fabs(x->right[i])))) return true;
  return false;
}

/* Of the rows whose shortage is basic, the one with the largest pivot; PZ_NONE if all pivots are too small. */
static uint32_t largest_pivot(const struct pz_simplex *x) {
  uint32_t row = PZ_NONE;
  double most = 1e-9;
  for (uint32_t k = 0; k < x->n_rows; k++) {
    if (x->basic[k] < SHORTAGE || !(fabs(x->column[k]) > most)) continue;
    most = fabs(x->column[k]);
    row = k;
  }
  return row;
}

/* Computes the inverse again from the basic columns. */
static void invert(struct pz_simplex *x) {
  uint32_t *list = x->list;
  memcpy(list, x->basic, x->n_rows * sizeof *list);
  for (uint32_t k = 0; k < x->n_rows; k++) {
    memset(inverse_row(x, k), 0, x->most_rows * sizeof *x->inverse);
    inverse_row(x, k)[k] = 1;
    x->basic[k] = SHORTAGE + k;
    if (list[k] < SURPLUS) column_at(x, list[k])->basic = false;
  }
  for (uint32_t k = 0; k < x->n_rows; k++) {
    if (list[k] >= SHORTAGE) continue;
    multiply_column(x, list[k]);
    uint32_t row = largest_pivot(x);
    if (row != PZ_NONE) replace_basic(x, list[k], row);
  }
  for (uint32_t k = 0; k < x->n_rows; k++) {
    x->value[k] = 0;
    for (uint32_t i = 0; i < x->n_rows; i++) x->value[k] += inverse_row(x, k)[i] * x->right[i];
  }
  find_duals(x);
}

/* Pivots until the basis is optimal.  Returns false if it is not within the limit of pivots, or the program is unbounded. */
static bool optimize(struct pz_simplex *x) {
  uint32_t most_pivots = 50 * x->n_rows + 1000;
  find_duals(x);
  x->n_candidates = 0;
  for (uint32_t k = 0; k < most_pivots && !x->failed; k++) {
    double reduced;
    uint32_t entering = choose_entering(x, &reduced);
    if (entering == PZ_NONE) return true;
    multiply_column(x, entering);
    uint32_t row = choose_leaving(x);
    if (row == PZ_NONE) return false;
    pivot(x, entering, row, reduced);
  }
  return false;
}

bool pz_simplex_solve(struct pz_simplex *x) {
  if (x->failed) return false;
  if (optimize(x) && !has_drifted(x)) return true;
  invert(x);
  return optimize(x) && !has_drifted(x);
}

void pz_simplex_values(const struct pz_simplex *x, double *value) {
  for (uint32_t k = 0; k < x->n_rows; k++)
    if (x->basic[k] < SURPLUS) value[x->basic[k]] = fmax(0, x->value[k]);
}
