/* Mixed-integer linear programs: built column by column and row by row, solved by CBC, or written
 * to a file for other solvers.
 *
 * A program lives as long as the call that builds it, in whose arena it allocates.  What the
 * program models is not known here. */
#ifndef PZ_LP_LP_H
#define PZ_LP_LP_H

#include "core/vec.h"

struct pz_lp {
  struct pz_call *call;
  struct pz_vec cols, rows, entries; /* struct pz_lp_col, pz_lp_row, pz_lp_entry */
  struct pz_vec notes;               /* const char *: comment lines at the head of a file */
};

enum { PZ_LP_NAME = 24 }; /* bytes of a row's or column's name, which begins with a letter */

struct pz_lp_col {
  double lower, upper; /* limits of the variable; upper is DBL_MAX if there is none */
  double cost;         /* coefficient of the objective, which is minimised */
  bool integer;
  char name[PZ_LP_NAME];
};

enum pz_lp_sense { PZ_LP_EQUAL, PZ_LP_AT_LEAST, PZ_LP_AT_MOST };

/* A constraint: the sum of entries times variables is equal to, at least or at most `right`. */
struct pz_lp_row {
  enum pz_lp_sense sense;
  double right;
  char name[PZ_LP_NAME];
};

/* A non-zero coefficient of the matrix. */
struct pz_lp_entry {
  uint32_t row, col;
  double value;
};

/* Initialises an empty program, which allocates in the arena of the call. */
void pz_lp_init(struct pz_lp *lp, struct pz_call *call);

/* Append a column or a row with a formatted name, and return its index. */
uint32_t pz_lp_add_column(struct pz_lp *lp, struct pz_lp_col column, const char *name, ...)
    PZ_PRINTF(3, 4);
uint32_t pz_lp_add_row(struct pz_lp *lp, enum pz_lp_sense sense, double right, const char *name,
                       ...) PZ_PRINTF(4, 5);

/* Sets an entry of the matrix.  Each may be set once. */
void pz_lp_set_entry(struct pz_lp *lp, uint32_t row, uint32_t col, double value);

/* Appends a comment line at the head of a file.  The line is not copied. */
void pz_lp_add_note(struct pz_lp *lp, const char *line);

struct pz_lp_result {
  bool found;              /* there is a solution */
  bool optimal;            /* no other solution is better */
  double objective, bound; /* value of the solution, and a lower bound on that of all solutions */
  const double *solution;  /* by column */
};

/* Solves the program by CBC, in a process of its own, because CBC ends the process when it lacks
 * memory, and on some models that it finds hard.  `seconds` is a time limit, or 0; `start` is a
 * solution to begin with, or NULL.  Raises PZ_NO_MEMORY if CBC ends before it has a result. */
struct pz_lp_result pz_lp_solve(struct pz_call *call, const struct pz_lp *lp, double seconds,
                                const double *start);

/* Writes the program as an .lp or .mps file, by the end of the path.  Replaces a file. */
void pz_lp_save(struct pz_call *call, const struct pz_lp *lp, const char *path);

#endif
