/* A linear program, built row by row, and the libraries that solve it: Clp for the continuous one,
 * CBC with integers. */
#ifndef PZ_LP_LP_H
#define PZ_LP_LP_H

#include "core/vec.h"

struct pz_lp {
  struct pz_vec cols, rows, entries; /* struct pz_lp_col, pz_lp_row, pz_lp_entry */
  struct pz_vec notes;               /* const char *: lines at the head of a file */
  bool failed;                       /* memory ran out somewhere */
};

struct pz_lp_col {
  double lower, upper, cost;
  bool integer;
  char name[24];
};

struct pz_lp_row {
  double lower, upper;
  char name[24];
};

struct pz_lp_entry {
  uint32_t row, col;
  double value;
};

enum pz_lp_status { PZ_LP_OPTIMAL, PZ_LP_LIMIT, PZ_LP_INFEASIBLE, PZ_LP_FAILED };

struct pz_lp_result {
  enum pz_lp_status status;
  bool found; /* x is a solution */
  double objective, bound;
  double *x; /* by column, in the model's arena */
  bool
      no_memory; /* so it failed, or CBC ended before it had a result, mostly for that reason ... */
  int signal;    /* ... by this signal; 0: none */
};

void pz_lp_init(struct pz_lp *lp, struct pz_arena *arena);
/* Each returns its index. */
uint32_t pz_lp_col(struct pz_lp *lp, double lower, double upper, double cost, bool integer);
uint32_t pz_lp_row(struct pz_lp *lp, double lower, double upper);
void pz_lp_put(struct pz_lp *lp, uint32_t row, uint32_t col, double value);
/* At most 23 characters, letters first, for files. */
void pz_lp_name(struct pz_lp *lp, uint32_t col, const char *format, ...) PZ_PRINTF(3, 4);
void pz_lp_row_name(struct pz_lp *lp, uint32_t row, const char *format, ...) PZ_PRINTF(3, 4);

/* A line at the head of a file. */
void pz_lp_note(struct pz_lp *lp, const char *line);

/* The continuous model. */
void pz_lp_solve(const struct pz_lp *lp, struct pz_lp_result *out);

/* With integers, in a process of its own: CBC ends the program where it lacks memory, and on some
 * models that it finds hard.  Then the status is PZ_LP_FAILED.  `start`, where not NULL, is a solution to begin with.  A limit of 0 is none. */
struct pz_lp_limits {
  double seconds;
  int nodes;
  bool plain; /* without preprocessing, which in CBC 2.10 ends the program on some small models */
};
void pz_lp_solve_integer(const struct pz_lp *lp, const struct pz_lp_limits *limits,
                         const double *start, struct pz_lp_result *out);

/* As an .lp or .mps file (by the name's end), beside and then renamed. */
PZ_NODISCARD enum pz_status pz_lp_write(const struct pz_lp *lp, const char *path,
                                        struct pz_error *err);

#endif
