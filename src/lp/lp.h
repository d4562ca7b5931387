/* A linear program with integers, built column by column and row by row; solved by CBC, or written
 * to a file for other solvers. */
#ifndef PZ_LP_LP_H
#define PZ_LP_LP_H

#include "core/vec.h"

struct pz_lp {
  struct pz_vec cols, rows, entries; /* struct pz_lp_col, pz_lp_row, pz_lp_entry */
  struct pz_vec notes;               /* const char *: lines at the head of a file */
  bool failed;                       /* memory ran out somewhere */
};

enum { PZ_LP_NAME = 24 }; /* bytes of a name; letters first, for files */

struct pz_lp_col {
  double lower, upper, cost;
  bool integer;
  char name[PZ_LP_NAME];
};

enum pz_lp_sense { PZ_LP_EQUAL, PZ_LP_AT_LEAST, PZ_LP_AT_MOST };

struct pz_lp_row {
  enum pz_lp_sense sense;
  double right;
  char name[PZ_LP_NAME];
};

struct pz_lp_entry {
  uint32_t row, col;
  double value;
};

void pz_lp_init(struct pz_lp *lp, struct pz_arena *arena);
/* Each returns its index.  A column: from `lower` to `upper` (DBL_MAX: no limit). */
uint32_t pz_lp_col(struct pz_lp *lp, struct pz_lp_col col, const char *name, ...) PZ_PRINTF(3, 4);
uint32_t pz_lp_row(struct pz_lp *lp, enum pz_lp_sense sense, double right, const char *name, ...)
    PZ_PRINTF(4, 5);
void pz_lp_put(struct pz_lp *lp, uint32_t row, uint32_t col, double value);
/* A line at the head of a file. */
void pz_lp_note(struct pz_lp *lp, const char *line);

struct pz_lp_result {
  bool found;   /* x is a solution */
  bool optimal; /* and no other is better */
  bool failed;  /* for lack of memory, or CBC ended before it had a result, mostly for that ... */
  int signal;   /* ... by this signal; 0: none */
  double objective, bound;
  double *x; /* by column, in the model's arena */
};

/* In a process of its own: CBC ends the program where it lacks memory, and on some models that it
 * finds hard.  `seconds`: a limit; 0: none.  `start`, where not NULL, is a solution to begin with. */
void pz_lp_solve(const struct pz_lp *lp, double seconds, const double *start,
                 struct pz_lp_result *out);

/* As an .lp or .mps file (by the name's end), beside and then renamed. */
PZ_NODISCARD enum pz_status pz_lp_write(const struct pz_lp *lp, const char *path,
                                        struct pz_error *err);

#endif
