/* Objectives: the value of a chip, computed from the steps of the entries on it and its costs.
 * Every objective is one row of the table in objective.c.  Bounds rely on monotonicity: a value
 * must not decrease when a step gets shorter or uses less energy, or when the chip costs less. */
#ifndef PZ_SEARCH_OBJECTIVE_H
#define PZ_SEARCH_OBJECTIVE_H

#include "evaluate/evaluator.h"

struct pz_objective {
  enum pz_objective_kind kind;
  uint32_t n;
  uint32_t models[PZ_SEARCH_MOST_MODELS]; /* the n entries of the portfolio that are included */
  /* The arrays below are indexed by the entry of the portfolio. */
  double batch[PZ_SEARCH_MOST_MODELS]; /* samples per step */
  double weight[PZ_SEARCH_MOST_MODELS];
  struct pz_step_cost reference[PZ_SEARCH_MOST_MODELS]; /* step on the reference chip */
  double best_alone[PZ_SEARCH_MOST_MODELS];             /* samples/s on the entry's own best chip */
  struct pz_taken reference_taken;                      /* costs of the reference chip */
  double devices;
};

/* Returns the value of a chip with these costs, and steps indexed by portfolio entry. */
double pz_objective_value(const struct pz_objective *objective, const struct pz_step_cost *steps,
                          const struct pz_taken *costs);

/* Returns the longest step of one entry, rounded up by 1e-9, with which the value still reaches
 * `least` while the other steps stay: HUGE_VAL if every step does, and 0 if none does. */
double pz_objective_limit_s(const struct pz_objective *objective, const struct pz_step_cost *steps,
                            const struct pz_taken *costs, uint32_t entry, double least);

/* Returns whether the objective divides by a cost that is unknown for technologies of 22 nm and
 * above, which are described by component libraries. */
bool pz_objective_needs_bill(enum pz_objective_kind kind);

#endif
