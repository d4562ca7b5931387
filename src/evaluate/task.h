/* The inputs of a search: space, models, cluster, and how a plan is judged.  Read-only after
 * construction, so that threads share it. */
#ifndef PZ_EVALUATE_TASK_H
#define PZ_EVALUATE_TASK_H

#include "chip/chip.h"
#include "core/pool.h"
#include "evaluate/assumption.h"
#include "evaluate/portfolio.h"
#include "partition/problem.h"
#include "space/limits.h"

struct pz_task_options {
  int64_t devices, batch;
  double state;               /* bytes held for a byte of parameters */
  struct pz_choices hbm_gib;  /* of a chip; more is never slower, so the search takes the most */
  int64_t quick_steps, steps; /* of a schedule: at first, and where it decides */
};

struct pz_original_task {
  const struct pz_space *space;
  const struct pz_portfolio *portfolio;
  struct pz_cluster net;
  pz_assumptions assumptions; /* of the original system; 0: none */
  struct pz_task_options o;
  double most_mm2; /* of the limits; 0: none */
};

/* Whose gradients the data-parallel all-reduce is charged for. */
enum pz_semantics pz_task_semantics(const struct pz_original_task *t);

/* The placement problem of a variant with this much memory, without layers. */
struct pz_place_problem pz_task_problem(const struct pz_original_task *t,
                                        const struct pz_variant *l, double hbm_gib, bool recompute);

/* The most memory there is to choose, GiB. */
double pz_task_most_hbm(const struct pz_original_task *t);

#endif
