/* The search: the best chip of a space under limits, by best-first branch and bound over boxes of chips, with a proof.
 *
 * A box is closed where the chip that takes least breaks a limit, or where what the evaluators say of its chips is not above
 * the best known by more than the gap.  Else its axes are tightened by both rules (branch and reduce: Ryoo and Sahinidis,
 * 1996) and it is split, down to single chips, which are evaluated: with little effort first, with more where an interval is
 * left that may hold the best.  Boxes are taken in rounds of a fixed number, each judged against the best of the rounds
 * before: the result and the certificate are the same for any number of threads and ranks, and after any interruption. */
#ifndef PZ_SEARCH_SEARCH_H
#define PZ_SEARCH_SEARCH_H

#include "core/arena.h"
#include "search/question.h"

struct pz_search;

/* The question is copied, what it points to is borrowed.  On success *out is the caller's to free. */
PZ_NODISCARD enum pz_status pz_search_new(const struct pz_search_question *q, struct pz_pool *pool,
                                          struct pz_search **out, struct pz_error *err);
void pz_search_free(struct pz_search *s); /* accepts NULL */

/* Find the best chip by run->objective, in run->most_rounds; `number`: which objective run it is, in the store.  Evaluations of earlier ones are
 * used again.  PZ_NO_ANSWER where no chip within the limits runs every entry, PZ_STOPPED when stopped. */
PZ_NODISCARD enum pz_status pz_search_run(struct pz_search *s, uint32_t number,
                                          struct pz_objective_run *run, struct pz_error *err);

/* What is known of an entry on a chip: the evaluation with the most effort; false: nothing. */
bool pz_search_known(struct pz_search *s, const struct pz_point *p, uint32_t entry,
                     struct pz_evaluation *out);

/* The same with one effort, found if need be by a worker; kept for the next. */
PZ_NODISCARD enum pz_status pz_search_evaluate(struct pz_search *s, unsigned worker,
                                               const struct pz_point *p, uint32_t entry,
                                               enum pz_effort effort, struct pz_evaluation *out,
                                               struct pz_error *err);

/* Every evaluation that is known, by chip, entry and effort. */
PZ_NODISCARD enum pz_status pz_search_all_known(struct pz_search *s, struct pz_arena *arena,
                                                struct pz_found_step **out, uint32_t *n,
                                                struct pz_error *err);

/* No evaluation of an objective on this chip is above it, by level 0 of the evaluators. */
PZ_NODISCARD enum pz_status pz_search_bound(struct pz_search *s, unsigned worker,
                                            const struct pz_objective *o, const struct pz_boxed *b,
                                            struct pz_step_cost *steps, double *value,
                                            struct pz_error *err);

const struct pz_search_question *pz_search_asked(const struct pz_search *s);
struct pz_pool *pz_search_pool(const struct pz_search *s);

/* Independent pieces of work i = 0 .. n-1 on all threads; the first error in their order counts.  With `pack` on the threads
 * of all ranks: what a piece leaves in its own place is packed where it was done and unpacked on the other ranks. */
struct pz_search_work {
  enum pz_status (*fn)(void *ctx, size_t i, unsigned worker, struct pz_error *err);
  void (*pack)(void *ctx, size_t i, struct pz_buffer *out); /* NULL: every rank does all of it */
  enum pz_status (*unpack)(void *ctx, size_t i, struct pz_bytes *in);
  void *ctx;
  bool wide; /* each piece uses all threads itself: a rank does one at a time */
};
PZ_NODISCARD enum pz_status pz_search_deal(struct pz_search *s, size_t n,
                                           const struct pz_search_work *w, struct pz_error *err);

/* The order of chips among equals: fewer tensor cores, a smaller array, ... first. */
int pz_point_order(const struct pz_space *s, const struct pz_point *a, const struct pz_point *b);

/* PZ_NO_ANSWER for a space whose chips all break a limit, with the least that they do by. */
enum pz_status pz_search_nothing_fits(const struct pz_space *s, const struct pz_excess *x,
                                      struct pz_error *err);

/* The chips of a space within limits, in that order.  PZ_LIMIT where the space is too large to be listed; PZ_NO_ANSWER when
 * there are none: the message says how far the smallest is. */
PZ_NODISCARD enum pz_status pz_space_list(const struct pz_space *s, const struct pz_limits *l,
                                          struct pz_arena *arena, struct pz_point **out,
                                          uint32_t *n, struct pz_error *err);

#endif
