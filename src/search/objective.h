/* Objectives: one number for a chip from the steps of the entries on it and what it takes.  An objective is one row of the
 * table in objective.c.  It must not decrease when a step gets shorter, takes less energy, or the chip takes less: bounds
 * rely on it. */
#ifndef PZ_SEARCH_OBJECTIVE_H
#define PZ_SEARCH_OBJECTIVE_H

#include "evaluate/evaluator.h"

struct pz_objective {
  enum pz_objective_kind kind;
  uint32_t n;
  uint32_t models[PZ_SEARCH_MOST_MODELS]; /* entries of the portfolio that count */
  double batch[PZ_SEARCH_MOST_MODELS];    /* samples of a step, by entry of the portfolio */
  double weight[PZ_SEARCH_MOST_MODELS];   /* likewise, and so are these: */
  struct pz_step_cost reference[PZ_SEARCH_MOST_MODELS]; /* on the reference chip */
  double best_alone[PZ_SEARCH_MOST_MODELS];             /* samples/s, for regret */
  struct pz_taken reference_taken;
  double devices;
};

/* Steps by entry of the portfolio. */
double pz_objective_value(const struct pz_objective *o, const struct pz_step_cost *steps,
                          const struct pz_taken *t);

/* The longest step of one entry, the others being as they are, with which the value reaches `least`, a hair above;
 * HUGE_VAL where any does, 0 where none. */
double pz_objective_limit_s(const struct pz_objective *o, const struct pz_step_cost *steps,
                            const struct pz_taken *t, uint32_t model, double least);

/* Energy of an entry's step on all devices, J. */
double pz_objective_joules(const struct pz_objective *o, const struct pz_step_cost *step,
                           const struct pz_taken *t);

/* Does it ask for energy? */
bool pz_objective_needs_energy(const struct pz_objective *o);
/* Does it divide by what the libraries of 22 nm and above do not know? */
bool pz_objective_needs_bill(enum pz_objective_kind kind);

#endif
