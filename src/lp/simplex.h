/* A small linear program that is kept solved while columns are added and costs change:
 *     min sum of costs,  each row at least its right-hand side,  columns from 0 up.
 *
 * Primal simplex with a dense basis inverse, for up to some hundred rows, where the set-up of a
 * library takes longer than the solution.  Right-hand sides are perturbed against cycling, and the
 * number of pivots is limited: callers must check the dual values they use. */
#ifndef PZ_LP_SIMPLEX_H
#define PZ_LP_SIMPLEX_H

#include "core/vec.h"

enum { PZ_SIMPLEX_CANDIDATES = 24 };

struct pz_simplex {
  struct pz_vec cols, entries;
  uint32_t n_rows, most_rows;
  double *inverse;              /* lines of most_rows */
  double *right, *value, *dual; /* by row: right-hand side, basic value, dual value */
  double *column;               /* by row, for work */
  uint32_t *basic, *list;       /* by row: its basic column; for work */
  struct {
    uint32_t col;
    double reduced;
  } candidate[PZ_SIMPLEX_CANDIDATES]; /* for the basis, best first when they were found */
  uint32_t n_candidates;
  int64_t work; /* done so far, some thousand to a microsecond */
  bool failed;  /* out of memory */
};

/* False: no memory. */
bool pz_simplex_init(struct pz_simplex *x, uint32_t most_rows, struct pz_arena *arena);

/* Rows first, then columns; each returns its index. */
uint32_t pz_simplex_row(struct pz_simplex *x, double right);
uint32_t pz_simplex_col(struct pz_simplex *x, double cost);
/* In the last column. */
void pz_simplex_put(struct pz_simplex *x, uint32_t row, double value);
/* Another cost. */
void pz_simplex_cost(struct pz_simplex *x, uint32_t col, double cost);

/* From where it stands; `dual` is then by row.  False: no answer. */
bool pz_simplex_solve(struct pz_simplex *x);
/* Of the columns in the basis; the others' are zero. */
void pz_simplex_values(const struct pz_simplex *x, double *value);

#endif
