/* Objectives: one number for a chip from the throughput of each model on it.  An objective is one
 * row of the table in objective.c.  It must not decrease when a throughput increases: bounds rely
 * on it. */
#ifndef PZ_SEARCH_OBJECTIVE_H
#define PZ_SEARCH_OBJECTIVE_H

#include "search/portfolio.h"

enum pz_objective_kind {
  PZ_OBJECTIVE_GEOMEAN,  /* geometric mean of throughputs over the reference's */
  PZ_OBJECTIVE_MEAN,     /* arithmetic mean of throughputs, the original's */
  PZ_OBJECTIVE_WEIGHTED, /* geometric mean with weights */
  PZ_OBJECTIVE_REGRET,   /* the least part that a model keeps of its own best chip's throughput */
  PZ_OBJECTIVE_PER_WATT, /* geometric mean per peak watt, over the reference chip's */
  PZ_OBJECTIVE_PER_MM2   /* geometric mean per area, over the reference chip's */
};

extern const char *const pz_objective_names[]; /* ends with NULL */

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

/* What the number means: "times the reference", "samples/s". */
const char *pz_objective_unit(enum pz_objective_kind kind);

#endif
