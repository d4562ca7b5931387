/* Primal simplex on a dense basis inverse (G. B. Dantzig; revised form).
 * pz_simplex_solve() runs optimize(): find_duals(), then pivots, each with an entering column of
 * negative reduced cost (partial pricing over a list of candidates) and a leaving row by the ratio
 * test.  If the solution has drifted from the right-hand sides by rounding, invert() computes the
 * inverse again from the columns. */
#include "lp/simplex.h"

#include <math.h>
#include <string.h>

/* Every row has two implicit columns: the surplus over its right-hand side (its slack variable),
 * and the shortage below it, an artificial variable with a high cost (the big-M method).  Their
 * indices are SURPLUS + row and SHORTAGE + row. */
enum { SURPLUS = 1 << 29, SHORTAGE = 1 << 30, CANDIDATES = PZ_SIMPLEX_CANDIDATES };

static const double SHORTAGE_COST = 1e4;
static const double LEAST_GAIN = 1e-10; /* reduced costs nearer to 0 are rounding errors */

struct simplex_column {
  double cost;
  uint32_t first, n; /* index of its first entry, and number of its entries */
  bool basic;
};

struct simplex_entry {
  double value;
  uint32_t row;
};

/* The inverse is a square matrix of most_rows rows. */
void pz_simplex_init(struct pz_simplex *lp, struct pz_call *call, uint32_t most_rows) {
  size_t n = most_rows;
  *lp = (struct pz_simplex){.call = call, .most_rows = most_rows};
  pz_vec_init(&lp->cols, call->arena, sizeof(struct simplex_column));
  pz_vec_init(&lp->entries, call->arena, sizeof(struct simplex_entry));
  lp->inverse = pz_alloc(call, n * n, sizeof *lp->inverse);
  lp->right = pz_alloc(call, n, sizeof *lp->right);
  lp->value = pz_alloc(call, n, sizeof *lp->value);
  lp->dual = pz_alloc(call, n, sizeof *lp->dual);
  lp->column = pz_alloc(call, n, sizeof *lp->column);
  lp->list = pz_alloc(call, n, sizeof *lp->list);
  lp->basic = pz_alloc(call, n, sizeof *lp->basic);
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Returns column col_index, which is not an implicit one. */
static struct simplex_column *column_at(const struct pz_simplex *lp, uint32_t col_index) {
  return pz_vec_at(&lp->cols, struct simplex_column, col_index);
}

/* Returns a row of the basis inverse: n_rows values. */
static double *inverse_row(const struct pz_simplex *lp, uint32_t row) {
  return &lp->inverse[(size_t)row * lp->most_rows];
}

/* Adds a row, whose artificial variable is basic at first.  Its right-hand side is lowered by one
 * to two millionths, differently in each row (multiples of the golden ratio are spread evenly),
 * because ties in the ratio test let the simplex method cycle. */
uint32_t pz_simplex_add_row(struct pz_simplex *lp, double right) {
  static const double PERTURBATION = 1e-6, GOLDEN_RATIO = 0.6180339887498949;
  uint32_t row = lp->n_rows;
  lp->n_rows++;
  lp->right[row] = right - PERTURBATION * right * (1 + fmod(row * GOLDEN_RATIO, 1));
  lp->value[row] = lp->right[row];
  inverse_row(lp, row)[row] = 1;
  lp->basic[row] = SHORTAGE + row;
  return row;
}

uint32_t pz_simplex_add_column(struct pz_simplex *lp, double cost) {
  struct simplex_column column = {.cost = cost, .first = lp->entries.n};
  pz_append(lp->call, &lp->cols, &column);
  return lp->cols.n - 1;
}

void pz_simplex_set_entry(struct pz_simplex *lp, uint32_t row, double value) {
  struct simplex_entry entry = {value, row};
  pz_append(lp->call, &lp->entries, &entry);
  column_at(lp, lp->cols.n - 1)->n++;
}

void pz_simplex_set_cost(struct pz_simplex *lp, uint32_t col, double cost) {
  column_at(lp, col)->cost = cost;
}

/* ---- the simplex ----------------------------------------------------------------------------- */

/* Sets lp->dual to the dual values of the basis: the costs of its columns times the inverse. */
static void find_duals(struct pz_simplex *lp) {
  memset(lp->dual, 0, lp->n_rows * sizeof *lp->dual);
  for (uint32_t k = 0; k < lp->n_rows; k++) {
    uint32_t basic = lp->basic[k];
    double cost = basic >= SHORTAGE ? SHORTAGE_COST : 0;
    if (basic < SURPLUS) cost = column_at(lp, basic)->cost;
    if (!(cost < 0 || cost > 0)) continue;
    const double *line = inverse_row(lp, k);
    for (uint32_t i = 0; i < lp->n_rows; i++) lp->dual[i] += cost * line[i];
  }
  lp->work += (int64_t)lp->n_rows * lp->n_rows;
}

/* Returns the reduced cost of a column: its cost minus the value of its entries at the dual prices.
 * Where it is negative, the column lowers the objective. */
static double reduced_cost(struct pz_simplex *lp, uint32_t col_index) {
  bool is_surplus = col_index >= SURPLUS; /* its cost is 0, and its only entry is -1 */
  if (is_surplus) return lp->dual[col_index - SURPLUS];
  const struct simplex_column *col = column_at(lp, col_index);
  const struct simplex_entry *entry = pz_vec_at(&lp->entries, struct simplex_entry, col->first);
  double reduced = col->cost;
  for (uint32_t k = 0; k < col->n; k++) reduced -= entry[k].value * lp->dual[entry[k].row];
  lp->work += 8 + 4 * (int64_t)col->n;
  return reduced;
}

/* Inserts a column into the candidates, sorted by reduced cost; if full, the worst is dropped. */
static void insert_candidate(struct pz_simplex *lp, uint32_t col_index, double reduced) {
  uint32_t at = lp->n_candidates;
  if (at == CANDIDATES) {
    at = CANDIDATES - 1;
    if (lp->candidate[at].reduced <= reduced) return;
  } else {
    lp->n_candidates++;
  }
  for (; at > 0 && lp->candidate[at - 1].reduced > reduced; at--)
    lp->candidate[at] = lp->candidate[at - 1];
  lp->candidate[at].col = col_index;
  lp->candidate[at].reduced = reduced;
}

/* Returns the column that enters the basis: the candidate that now has the most negative reduced
 * cost, to which *least_reduced is set.  If no candidate has a negative one, new candidates are
 * collected from all columns, and the second pass chooses among them.  Returns PZ_NONE if no column
 * has a negative reduced cost, so that the basis is optimal. */
static uint32_t choose_entering(struct pz_simplex *lp, double *least_reduced) {
  for (int pass = 0; pass < 2; pass++) {
    uint32_t best = PZ_NONE;
    *least_reduced = -LEAST_GAIN;
    for (uint32_t k = 0; k < lp->n_candidates; k++) {
      uint32_t col_index = lp->candidate[k].col;
      bool is_basic = col_index < SURPLUS && column_at(lp, col_index)->basic;
      double reduced = is_basic ? 0 : reduced_cost(lp, col_index);
      if (!(reduced < *least_reduced)) continue;
      *least_reduced = reduced;
      best = col_index;
    }
    if (best != PZ_NONE) return best;
    if (pass > 0) break;
    lp->n_candidates = 0;
    for (uint32_t col_index = 0; col_index < lp->cols.n; col_index++) {
      double reduced = column_at(lp, col_index)->basic ? 0 : reduced_cost(lp, col_index);
      if (reduced < -LEAST_GAIN) insert_candidate(lp, col_index, reduced);
    }
    for (uint32_t i = 0; i < lp->n_rows; i++)
      if (lp->dual[i] < -LEAST_GAIN) insert_candidate(lp, SURPLUS + i, lp->dual[i]);
  }
  return PZ_NONE;
}

/* Sets lp->column to the inverse times the entering column. */
static void multiply_column(struct pz_simplex *lp, uint32_t entering) {
  memset(lp->column, 0, lp->n_rows * sizeof *lp->column);
  if (entering >= SURPLUS) {
    for (uint32_t k = 0; k < lp->n_rows; k++)
      lp->column[k] = -inverse_row(lp, k)[entering - SURPLUS];
    return;
  }
  const struct simplex_column *col = column_at(lp, entering);
  const struct simplex_entry *entry = pz_vec_at(&lp->entries, struct simplex_entry, col->first);
  for (uint32_t k = 0; k < lp->n_rows; k++)
    for (uint32_t i = 0; i < col->n; i++)
      lp->column[k] += entry[i].value * inverse_row(lp, k)[entry[i].row];
}

/* Makes the entering column the basic column of a row, and updates the inverse by Gaussian
 * elimination with lp->column, which is the inverse times the entering column. */
static void replace_basic(struct pz_simplex *lp, uint32_t entering, uint32_t row) {
  double scale = 1 / lp->column[row], *line = inverse_row(lp, row);
  for (uint32_t i = 0; i < lp->n_rows; i++) line[i] *= scale;
  for (uint32_t k = 0; k < lp->n_rows; k++) {
    double factor = lp->column[k], *other = inverse_row(lp, k);
    if (k == row || !(factor < 0 || factor > 0)) continue;
    for (uint32_t i = 0; i < lp->n_rows; i++) other[i] -= factor * line[i];
  }
  if (lp->basic[row] < SURPLUS) column_at(lp, lp->basic[row])->basic = false;
  if (entering < SURPLUS) column_at(lp, entering)->basic = true;
  lp->basic[row] = entering;
  lp->work += (int64_t)lp->n_rows * lp->n_rows;
}

/* Returns whether rounding errors have accumulated: columns times values miss a right-hand side. */
static bool has_drifted(struct pz_simplex *lp) {
  double *sum = lp->column;
  memset(sum, 0, lp->n_rows * sizeof *sum);
  for (uint32_t k = 0; k < lp->n_rows; k++) {
    uint32_t basic = lp->basic[k];
    if (basic >= SURPLUS) {
      uint32_t row = basic & (SURPLUS - 1);
      sum[row] += basic >= SHORTAGE ? lp->value[k] : -lp->value[k];
      continue;
    }
    const struct simplex_column *col = column_at(lp, basic);
    const struct simplex_entry *entry = pz_vec_at(&lp->entries, struct simplex_entry, col->first);
    for (uint32_t i = 0; i < col->n; i++) sum[entry[i].row] += entry[i].value * lp->value[k];
  }
  for (uint32_t i = 0; i < lp->n_rows; i++)
    if (!(fabs(sum[i] - lp->right[i]) < 1e-7 * (1 + fabs(lp->right[i])))) return true;
  return false;
}

/* Computes the inverse and the values again from the basic columns, to remove rounding errors. The
 * basis begins with all shortages, whose inverse is the identity. The basic columns then enter one
 * after the other, each in the row of a shortage where its pivot is largest. */
static void invert(struct pz_simplex *lp) {
  uint32_t *list = lp->list;
  memcpy(list, lp->basic, lp->n_rows * sizeof *list);
  for (uint32_t k = 0; k < lp->n_rows; k++) {
    memset(inverse_row(lp, k), 0, lp->most_rows * sizeof *lp->inverse);
    inverse_row(lp, k)[k] = 1;
    lp->basic[k] = SHORTAGE + k;
    if (list[k] < SURPLUS) column_at(lp, list[k])->basic = false;
  }
  for (uint32_t k = 0; k < lp->n_rows; k++) {
    if (list[k] >= SHORTAGE) continue;
    multiply_column(lp, list[k]);
    uint32_t row = PZ_NONE;
    double most = 1e-9; /* smaller pivots are rounding errors */
    for (uint32_t i = 0; i < lp->n_rows; i++)
      if (lp->basic[i] >= SHORTAGE && fabs(lp->column[i]) > most) {
        most = fabs(lp->column[i]);
        row = i;
      }
    if (row != PZ_NONE) replace_basic(lp, list[k], row);
  }
  for (uint32_t k = 0; k < lp->n_rows; k++) {
    lp->value[k] = 0;
    for (uint32_t i = 0; i < lp->n_rows; i++) lp->value[k] += inverse_row(lp, k)[i] * lp->right[i];
  }
  find_duals(lp);
}

/* Pivots until the basis is optimal.  Returns false if the limit of pivots is reached, or if a
 * column can grow without end (an unbounded program). */
static bool optimize(struct pz_simplex *lp) {
  uint32_t most_pivots = 50 * lp->n_rows + 1000;
  find_duals(lp);
  lp->n_candidates = 0;
  for (uint32_t n_pivots = 0; n_pivots < most_pivots; n_pivots++) {
    double reduced;
    uint32_t entering = choose_entering(lp, &reduced);
    if (entering == PZ_NONE) return true;
    multiply_column(lp, entering);
    /* The leaving row is the one whose basic value reaches 0 first as the entering column grows
     * (the ratio test); among rows with nearly equal ratios, the one with the largest pivot. */
    uint32_t row = PZ_NONE;
    double least = 0;
    for (uint32_t k = 0; k < lp->n_rows; k++) {
      if (lp->column[k] < 1e-9) continue;
      double ratio = fmax(0, lp->value[k]) / lp->column[k];
      bool is_less = row == PZ_NONE || ratio < least - 1e-12;
      if (is_less || (ratio < least + 1e-12 && lp->column[k] > lp->column[row])) {
        least = row == PZ_NONE ? ratio : fmin(least, ratio);
        row = k;
      }
    }
    if (row == PZ_NONE) return false;
    /* The entering column grows until the basic column of the row is 0 and leaves the basis. */
    double step = fmax(0, lp->value[row]) / lp->column[row];
    for (uint32_t i = 0; i < lp->n_rows; i++) lp->value[i] -= lp->column[i] * step;
    lp->value[row] = step;
    replace_basic(lp, entering, row);
    const double *line = inverse_row(lp, row);
    for (uint32_t i = 0; i < lp->n_rows; i++) lp->dual[i] += reduced * line[i];
  }
  return false;
}

/* Solves the program from the current basis.  If the limit of pivots is reached or rounding errors
 * have accumulated, the inverse is computed again, once. */
bool pz_simplex_solve(struct pz_simplex *lp) {
  if (optimize(lp) && !has_drifted(lp)) return true;
  invert(lp);
  return optimize(lp) && !has_drifted(lp);
}

/* Writes the values of the basic columns into value[], by column. */
void pz_simplex_get_values(const struct pz_simplex *lp, double *value) {
  for (uint32_t k = 0; k < lp->n_rows; k++)
    if (lp->basic[k] < SURPLUS) value[lp->basic[k]] = fmax(0, lp->value[k]);
}
