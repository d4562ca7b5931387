/* Mixed-integer linear programs: built column by column and row by row, solved by CBC, or written to a file for other
 * solvers.
 *
 * The building functions do not report that memory ran out; they set `failed`, and solving or writing then fails.  What the
 * program models is not known here. */
#ifndef PZ_LP_LP_H
#define PZ_LP_LP_H

#include "core/vec.h"

struct pz_lp {
  struct pz_vec cols, rows, entries; /* struct pz_lp_col, pz_lp_row, pz_lp_entry */
  struct pz_vec notes;               /* const char *: comment lines at the head of a file */
  bool failed;                       /* memory ran out while it was built */
};

enum { PZ_LP_NAME = 24 }; /* bytes of a name, which starts with a letter */

struct pz_lp_col {
  double lower, upper, cost; /* upper is DBL_MAX for no limit */
  bool integer;
  char name[PZ_LP_NAME];
};

enum pz_lp_sense { PZ_LP_EQUAL, PZ_LP_AT_LEAST, PZ_LP_AT_MOST };

struct pz_lp_row {
  enum pz_lp_sense sense;
  double right; /* right-hand side */
  char name[PZ_LP_NAME];
};

struct pz_lp_entry {
  uint32_t row, col;
  double value;
};

void pz_lp_init(struct pz_lp *lp, struct pz_arena *arena);

/* Append a column or a row, and return its index. */
uint32_t pz_lp_col(struct pz_lp *lp, struct pz_lp_col col, const char *name, ...) PZ_PRINTF(3, 4);
uint32_t pz_lp_row(struct pz_lp *lp, enum pz_lp_sense sense, double right, const char *name, ...)
    PZ_PRINTF(4, 5);

/* Sets an entry of the matrix.  Each may be set once. */
void pz_lp_put(struct pz_lp *lp, uint32_t row, uint32_t col, double value);

/* Appends a comment line at the head of a file.  A NULL counts as memory that ran out. */
void pz_lp_note(struct pz_lp *lp, const char *line);

struct pz_lp_result {
  bool found;   /* x is a solution */
  bool optimal; /* no other solution is better */
  bool failed;  /* memory ran out, or CBC ended before it had a result, mostly for that reason */
  int signal;   /* that ended CBC, or 0 */
  double objective, bound;
  double *x; /* by column, in the arena of the program */
};

/* Solves the program by CBC, in a process of its own: CBC ends the process when it lacks memory, and on some models that it
 * finds hard.  `seconds` is a time limit, or 0; `start` is a solution to begin with, or NULL. */
void pz_lp_solve(const struct pz_lp *lp, double seconds, const double *start,
                 struct pz_lp_result *out);

/* Writes the program as an .lp or .mps file, by the end of the path.  An existing file is replaced as a whole. */
void pz_lp_save(struct pz_call *call, const struct pz_lp *lp, const char *path);

/* ---- for callers that return a status ---- */

PZ_NODISCARD enum pz_status pz_lp_write(const struct pz_lp *lp, const char *path,
                                        struct pz_error *err);

#endif
