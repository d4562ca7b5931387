/* A small linear program that stays solved while columns are added and costs change:
 *     minimize the sum of costs, subject to: each row is at least its right-hand side, and
 *     columns are at least 0.
 *
 * Primal simplex with a dense basis inverse, for up to some hundred rows, where setting up a
 * library takes longer than solving.  Right-hand sides are perturbed against cycling, and the
 * number of pivots is limited, so callers must check the dual values that they use.  The program
 * lives as long as the call that builds it, in whose arena it allocates. */
#ifndef PZ_LP_SIMPLEX_H
#define PZ_LP_SIMPLEX_H

#include "core/vec.h"

enum { PZ_SIMPLEX_CANDIDATES = 24 };

struct pz_simplex {
  struct pz_call *call;
  struct pz_vec cols, entries; /* struct simplex_column, struct simplex_entry (simplex.c) */
  uint32_t n_rows, most_rows;
  double *inverse;              /* basis inverse: most_rows values for each row */
  double *right, *value, *dual; /* by row: right-hand side, value of the basic column, dual value */
  double *column;               /* by row: the inverse times the entering column */
  uint32_t *basic;              /* by row: index of its basic column */
  uint32_t *list;               /* by row; scratch */
  struct {
    uint32_t col;
    double reduced;                   /* reduced cost when the column became a candidate */
  } candidate[PZ_SIMPLEX_CANDIDATES]; /* columns that may enter the basis, the best first */
  uint32_t n_candidates;
  int64_t work; /* effort so far; a microsecond is some thousand units */
};

/* Initialises a program without columns, for up to most_rows rows. */
void pz_simplex_init(struct pz_simplex *lp, struct pz_call *call, uint32_t most_rows);

/* Append a row or a column, and return its index.  All rows come before the first column. */
uint32_t pz_simplex_add_row(struct pz_simplex *lp, double right);
uint32_t pz_simplex_add_column(struct pz_simplex *lp, double cost);

/* Sets an entry of the last column. */
void pz_simplex_set_entry(struct pz_simplex *lp, uint32_t row, double value);

/* Changes the cost of a column. */
void pz_simplex_set_cost(struct pz_simplex *lp, uint32_t col, double cost);

/* Solves the program from the current basis, and sets `dual`.  Returns whether there is a
 * solution. */
bool pz_simplex_solve(struct pz_simplex *lp);

/* Writes the values of the basic columns into value[], by column.  The values of other columns,
 * which are zero, are not written. */
void pz_simplex_get_values(const struct pz_simplex *lp, double *value);

#endif
