/* Objectives: one number for a chip from the throughput of each model on it.  An objective is one
 * row of the table in objective.c.  It must not decrease when a throughput increases: bounds rely
 * on it. */
#ifndef PZ_SEARCH_OBJECTIVE_H
#define PZ_SEARCH_OBJECTIVE_H

#include "search/portfolio.h"

struct pz_objective {
  enum pz_objective_kind kind;
  uint32_t n;
  uint32_t models[PZ_SEARCH_MOST_MODELS];   /* of the portfolio */
  double reference[PZ_SEARCH_MOST_MODELS];  /* samples/s, by model of the portfolio */
  double weight[PZ_SEARCH_MOST_MODELS];     /* likewise */
  double best_alone[PZ_SEARCH_MOST_MODELS]; /* samples/s, for regret */
  double reference_watts, reference_um2;    /* of the reference chip: peak, area */
};

/* samples_per_s by model of the portfolio. */
double pz_objective_value(const struct pz_objective *o, const double *samples_per_s,
                          double area_um2, double watts);

#endif
