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
  int64_t work; /* effort so far, in units of which some thousand are a microsecond */
};

void pz_simplex_init(struct pz_simplex *lp, struct pz_call *call, uint32_t most_rows);

/* Append a row or a column, and return its index.  All rows come before the first column. */
uint32_t pz_simplex_add_row(struct pz_simplex *lp, double right);
uint32_t pz_simplex_add_column(struct pz_simplex *lp, double cost);

/* Sets an entry of the last column. */
void pz_simplex_set_entry(struct pz_simplex *lp, uint32_t row, double value);

/* Changes the cost of a column. */
void pz_simplex_set_cost(struct pz_simplex *lp, uint32_t col, double cost);

/* Solves from the current basis; afterwards `dual` has the dual values.  Returns false if there is
 * no solution. */
bool pz_simplex_solve(struct pz_simplex *lp);

/* Writes the values of the basic columns into value[], by column.  All other columns are zero; they
 * are not written. */
void pz_simplex_get_values(const struct pz_simplex *lp, double *value);

#endif
