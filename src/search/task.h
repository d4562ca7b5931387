/* The inputs of a search: space, models, cluster, and how a plan is judged.  Read-only after
 * construction, so that threads share it. */
#ifndef PZ_SEARCH_TASK_H
#define PZ_SEARCH_TASK_H

#include "chip/chip.h"
#include "core/pool.h"
#include "partition/problem.h"
#include "search/assumption.h"
#include "search/portfolio.h"
#include "search/space.h"

struct pz_task_options {
  int64_t devices, batch;
  double state;               /* bytes held for a byte of parameters */
  struct pz_choices hbm_gib;  /* of a chip; more is never slower, so the search takes the most */
  int64_t quick_steps, steps; /* of a schedule: at first, and where it decides */
};

struct pz_search_task {
  const struct pz_space *space;
  const struct pz_portfolio *portfolio;
  struct pz_cluster net;
  pz_assumptions assumptions; /* of the original system; 0: none */
  struct pz_task_options o;
};

/* Whose gradients the data-parallel all-reduce is charged for. */
enum pz_semantics pz_task_semantics(const struct pz_search_task *t);

/* The placement problem of a variant with this much memory, without layers. */
struct pz_place_problem pz_task_problem(const struct pz_search_task *t, const struct pz_variant *l,
                                        double hbm_gib, bool recompute);

/* The most memory there is to choose, GiB. */
double pz_task_most_hbm(const struct pz_search_task *t);

#endif
