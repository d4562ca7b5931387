/* Fits positive constants to measured times: a coordinate search with shrinking steps, without draws. */
#ifndef PZ_COST_FIT_H
#define PZ_COST_FIT_H

enum { PZ_FIT_MOST_CONSTANTS = 16 };

struct pz_fit {
  struct pz_fit_constant {
    double *at, min, max;
    double first; /* where the search begins */
  } v[PZ_FIT_MOST_CONSTANTS];
  int n;
  /* Mean loss over the rows, HUGE_VAL where a row has no prediction. */
  double (*loss)(void *ctx);
  void *ctx;
};

/* Adds a constant that may move from `min` to `max`, unless it is 0. */
void pz_fit_add(struct pz_fit *f, double *at, double min, double max);

/* Loss of constants that moved away from where they began, to be added to the sum over rows: few rows do not move a constant
 * far that they hardly show. */
double pz_fit_prior(const struct pz_fit *f);

/* Loss of one row, by the logarithm of predicted over measured time: its square, and beyond 0.3 a line (Huber 1964), since
 * tables have rows that were disturbed. */
double pz_fit_row_loss(double e);

/* Moves the constants to where the loss is smallest. */
void pz_fit_search(struct pz_fit *f);

#endif
