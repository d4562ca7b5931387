/* Fits positive constants to measured times by a deterministic coordinate search. */
#ifndef PZ_COST_FIT_H
#define PZ_COST_FIT_H

enum { PZ_FIT_MOST_CONSTANTS = 16 };

struct pz_fit {
  struct pz_fit_constant {
    double *value;   /* the constant, which the search changes in place */
    double min, max; /* allowed range of the constant */
    double initial;  /* value of the constant at which the search begins */
  } constants[PZ_FIT_MOST_CONSTANTS];
  int n;
  /* Returns the mean loss over the measured rows with the present values of the constants. */
  double (*loss)(void *ctx);
  void *ctx;
};

/* Adds a constant that may move from `min` to `max`, unless it is 0. */
void pz_fit_add(struct pz_fit *fit, double *value, double min, double max);

/* Returns a penalty for constants that moved away from their initial values, to be added to the sum
 * of the row losses.  It keeps a few rows that hardly depend on a constant from moving it far. */
double pz_fit_prior(const struct pz_fit *fit);

/* Returns the loss of one row whose predicted time is exp(log_ratio) times its measured time: the
 * square of log_ratio, which continues as a straight line beyond 0.3 (Huber 1964), because tables
 * contain disturbed measurements. */
double pz_fit_row_loss(double log_ratio);

/* Moves the constants to values with the smallest loss that the search finds. */
void pz_fit_search(struct pz_fit *fit);

#endif
