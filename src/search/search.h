/* The search: the best chip of a space under limits, by best-first branch and bound over boxes of
 * chips, with a proof.
 *
 * A box is closed if its smallest chip violates a limit, or if the evaluators' bound on its chips
 * is not above the best known value by more than the gap.  Otherwise its axes are tightened by both
 * rules (branch and reduce: Ryoo and Sahinidis, 1996) and it is split, down to single chips, which
 * are evaluated: with little effort first, with full effort if an interval remains that may contain
 * the best value.
 *
 * Boxes are processed in rounds of a fixed number, and every box is judged against the best chip of
 * the rounds before.  Therefore the result and the certificate are the same for any number of
 * threads and ranks, and after any interruption. */
#ifndef PZ_SEARCH_SEARCH_H
#define PZ_SEARCH_SEARCH_H

#include "search/question.h"

struct pz_search;

/* Creates a search, which the caller frees.  What the question points to is borrowed. */
struct pz_search *pz_search_create(struct pz_call *call, const struct pz_search_question *question,
                                   struct pz_pool *pool);
void pz_search_free(void *search); /* a struct pz_search or NULL; for pz_defer(), too */

/* Finds the best chip by run->objective in at most run->most_rounds rounds.  `number` is the number
 * of the objective run in the store.  Evaluations of earlier runs are reused.  Raises PZ_NO_ANSWER
 * if no chip within the limits runs every entry, and PZ_STOPPED when the search was stopped. */
void pz_search_optimize(struct pz_call *call, struct pz_search *search, uint32_t number,
                        struct pz_objective_run *run);

/* Copies the known evaluation of an entry on a chip with the most effort, if there is one. */
bool pz_search_known(struct pz_search *search, const struct pz_point *chip, uint32_t entry,
                     struct pz_evaluation *out);

/* Returns the evaluation with the given effort, which a worker computes unless it is known. */
struct pz_evaluation pz_search_evaluate_chip(struct pz_call *call, struct pz_search *search,
                                             unsigned worker, const struct pz_point *chip,
                                             uint32_t entry, enum pz_effort effort);

/* Returns all known evaluations, sorted by chip, entry and effort. */
struct pz_found_step *pz_search_list_known(struct pz_call *call, struct pz_search *search,
                                           uint32_t *n);

/* Returns an upper bound on the value of every chip of a box, from the quick bounds of the
 * evaluators.  *steps receives the lower bounds on the steps, indexed by entry. */
double pz_search_upper_bound(struct pz_call *call, struct pz_search *search, unsigned worker,
                             const struct pz_objective *objective, const struct pz_boxed *box,
                             struct pz_step_cost *steps);

/* Returns the question that the search was created with. */
const struct pz_search_question *pz_search_asked(const struct pz_search *search);

/* Independent tasks 0 .. n-1.  With `pack`, they are shared by the threads of all ranks: the result
 * of task i is packed on the rank that ran it, and unpacked on the others.  Without `pack`, every
 * rank runs all of them. */
struct pz_search_tasks {
  pz_task_fn *fn;
  void (*pack)(struct pz_call *call, void *ctx, size_t i, struct pz_buffer *out);
  void (*unpack)(struct pz_call *call, void *ctx, size_t i, struct pz_bytes *in);
  void *ctx;
  bool wide; /* a task uses all threads itself, so that a rank runs one task at a time */
};
/* Runs the tasks and raises the error of the lowest task that has one. */
void pz_search_run_tasks(struct pz_call *call, struct pz_search *search, size_t n,
                         const struct pz_search_tasks *tasks);

/* ---- small spaces as lists of chips (listing.c) --------------------------------------------- */

/* Compares chips for the choice among equals: fewer tensor cores first, then the smaller array, and
 * then less of each other axis. */
int pz_point_order(const struct pz_space *space, const struct pz_point *a,
                   const struct pz_point *b);

/* Raises PZ_NO_ANSWER with the smallest excesses over limits that all chips violate. */
_Noreturn void pz_search_raise_nothing_fits(struct pz_call *call, const struct pz_space *space,
                                            const struct pz_excess *excess);

/* Returns the chips of a space within limits, sorted by pz_point_order().  Raises PZ_LIMIT if
 * the space is too large to be listed, and PZ_NO_ANSWER if no chip is within the limits. */
struct pz_point *pz_space_list_within(struct pz_call *call, const struct pz_space *space,
                                      const struct pz_limits *limits, uint32_t *n);

#endif
