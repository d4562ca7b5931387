/* A small linear program that stays solved while columns are added and costs change:
 *     minimize the sum of costs, subject to: each row is at least its right-hand side, and columns are at least 0.
 *
 * Primal simplex with a dense basis inverse, for up to some hundred rows, where setting up a library takes longer than
 * solving.  Right-hand sides are perturbed against cycling, and the number of pivots is limited, so callers must check the
 * dual values that they use.  Used by column generation, which it knows nothing about. */
#ifndef PZ_LP_SIMPLEX_H
#define PZ_LP_SIMPLEX_H

#include "core/vec.h"

enum { PZ_SIMPLEX_CANDIDATES = 24 };

struct pz_simplex {
  struct pz_vec cols, entries;
  uint32_t n_rows, most_rows;
  double *inverse;              /* of the basis: most_rows values for each row */
  double *right, *value, *dual; /* by row: right-hand side, value of the basic column, dual value */
  double *column;               /* by row; scratch */
  uint32_t *basic;              /* by row: its basic column */
  uint32_t *list;               /* by row; scratch */
  struct {
    uint32_t col;
    double reduced;                   /* reduced cost when it was found */
  } candidate[PZ_SIMPLEX_CANDIDATES]; /* to enter the basis, the best first */
  uint32_t n_candidates;
  int64_t work; /* done so far; some thousand units are a microsecond */
  bool failed;  /* memory ran out */
};

/* Returns false if memory ran out. */
bool pz_simplex_init(struct pz_simplex *lp, uint32_t most_rows, struct pz_arena *arena);

/* Append a row or a column, and return its index.  All rows come before the first column. */
uint32_t pz_simplex_row(struct pz_simplex *lp, double right);
uint32_t pz_simplex_col(struct pz_simplex *lp, double cost);

/* Sets an entry of the last column. */
void pz_simplex_put(struct pz_simplex *lp, uint32_t row, double value);

/* Changes the cost of a column. */
void pz_simplex_cost(struct pz_simplex *lp, uint32_t col, double cost);

/* Solves from the current basis; afterwards `dual` has the dual values.  Returns false if there is no solution. */
bool pz_simplex_solve(struct pz_simplex *lp);

/* Writes the values of the basic columns, by column.  All others are zero and not written. */
void pz_simplex_values(const struct pz_simplex *lp, double *value);

#endif
