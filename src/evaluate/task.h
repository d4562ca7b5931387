/* The inputs of a search with the evaluator `original`: space, models, cluster, and how a plan
 * is judged.  Threads share them, because they do not change after construction. */
#ifndef PZ_EVALUATE_TASK_H
#define PZ_EVALUATE_TASK_H

#include "chip/chip.h"
#include "core/pool.h"
#include "evaluate/portfolio.h"
#include "partition/problem.h"
#include "space/limits.h"

struct pz_task_options {
  int64_t devices, batch;
  double state;               /* bytes of state per byte of parameters */
  struct pz_choices hbm_gib;  /* choices of the HBM of a chip; the search uses the largest */
  int64_t quick_steps, steps; /* limits of steps per schedule: with quick and with full effort */
};

/* Gives a chip the bandwidths and mapping rules of the original system's released code, if the set
 * has that assumption (PZ_ASSUME_FIXED_BANDWIDTH). */
void pz_assume_chip(pz_assumptions set, struct pz_chip *chip);

struct pz_original_task {
  const struct pz_space *space;
  const struct pz_portfolio *portfolio;
  struct pz_cluster net;
  pz_assumptions assumptions; /* assumptions of the original system, or 0 if none */
  struct pz_task_options o;
  double most_mm2; /* limit of the die area, or 0 if none */
};

/* Returns the placement problem of a variant on chips with this memory, without its layers. */
struct pz_place_problem pz_task_problem(const struct pz_original_task *task,
                                        const struct pz_variant *variant, double hbm_gib,
                                        bool recompute);

#endif
