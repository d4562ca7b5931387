/* The search: every chip of a space is evaluated or excluded by a bound, so that the result comes
 * with a proof.
 *
 * Chips are taken in the order of their bounds, in batches of a fixed size, and compared with the
 * best of the batches before.  So the result, and the set of evaluated chips, is the same for any
 * number of threads, and after any interruption. */
#ifndef PZ_SEARCH_SEARCH_H
#define PZ_SEARCH_SEARCH_H

#include "core/ranks.h"
#include "search/journal.h"
#include "search/objective.h"

/* One question: the best chip by one objective. */
struct pz_objective_run {
  struct pz_objective objective;
  struct pz_chip_status *chip_status; /* by index of the point */
  uint32_t best;                      /* index of a point */
  double value, bound;                /* of the best; no chip of the space is above the bound */
  double hbm_gib;                     /* the least with which the best is as good */
  uint32_t n_evaluated, n_excluded, n_open;
  uint32_t n_looked; /* evaluated, or excluded by schedules: more than the tables were asked */
};

struct pz_search;

/* Tables and bounds.  On success *out is the caller's to free; task, points and pool are borrowed.
 */
PZ_NODISCARD enum pz_status pz_search_new(const struct pz_search_task *task,
                                          const struct pz_point *points, uint32_t n_points,
                                          struct pz_pool *pool, const struct pz_search_options *o,
                                          struct pz_search **out, struct pz_error *err);
void pz_search_free(struct pz_search *s);

/* Run an objective run for the objective in it; evaluations of earlier ones are used again.
 * PZ_NO_ANSWER when a model fits no chip, PZ_STOPPED when stopped. */
PZ_NODISCARD enum pz_status pz_search_run(struct pz_search *s, struct pz_objective_run *c,
                                          struct pz_error *err);

/* What is known of a model at a point with one effort, or NULL. */
const struct pz_evaluation *pz_search_known(const struct pz_search *s, uint32_t point,
                                            uint32_t model, enum pz_effort effort);

/* The same: the evaluation with the most effort, or NULL. */
const struct pz_evaluation *pz_search_evaluation(const struct pz_search *s, uint32_t point,
                                                 uint32_t model);

/* Evaluate it if need be. */
PZ_NODISCARD enum pz_status pz_search_evaluate(struct pz_search *s, uint32_t point, uint32_t model,
                                               enum pz_effort effort,
                                               const struct pz_evaluation **out,
                                               struct pz_error *err);

/* The same by one of the evaluators that pz_search_each hands out; no other piece of work may ask
 * for this model meanwhile.  NULL: that of the calling thread. */
PZ_NODISCARD enum pz_status pz_search_evaluate_by(struct pz_search *s, struct pz_evaluator *by,
                                                  uint32_t point, uint32_t model,
                                                  enum pz_effort effort,
                                                  const struct pz_evaluation **out,
                                                  struct pz_error *err);

/* Bounds of all points that have none yet: the next two ask for them. */
PZ_NODISCARD enum pz_status pz_search_all_bounds(struct pz_search *s, struct pz_error *err);

/* The bound on a model's samples/s at a point, from the tables. */
double pz_search_bound(const struct pz_search *s, uint32_t point, uint32_t model);

/* Independent pieces of work i = 0 .. n-1 on all threads, each with an evaluator of its own.  The
 * first error in their order counts. */
typedef enum pz_status pz_search_fn(void *ctx, size_t i, struct pz_evaluator *e,
                                    struct pz_error *err);
PZ_NODISCARD enum pz_status pz_search_each(struct pz_search *s, size_t n, pz_search_fn *fn,
                                           void *ctx, struct pz_error *err);

/* The same on the threads of all ranks: what a piece of work leaves in its own place is packed where
 * it was done and unpacked on the other ranks (core/ranks.h). */
struct pz_search_items {
  pz_search_fn *fn;
  void (*pack)(void *ctx, size_t i, struct pz_buffer *out); /* NULL: every rank does all of it */
  enum pz_status (*unpack)(void *ctx, size_t i, struct pz_bytes *in);
  void *ctx;
  bool wide; /* each piece uses all threads itself: a rank does one at a time */
};

/* Evaluations of a chip that this rank made since they were last packed, for the others. */
void pz_search_pack(struct pz_search *s, uint32_t point, struct pz_buffer *out);
PZ_NODISCARD enum pz_status pz_search_unpack(struct pz_search *s, uint32_t point,
                                             struct pz_bytes *in);

PZ_NODISCARD enum pz_status pz_search_deal(struct pz_search *s, size_t n,
                                           const struct pz_search_items *items,
                                           struct pz_error *err);

/* Chips' models evaluated with a first look, on all threads; kept as the rest. */
PZ_NODISCARD enum pz_status pz_search_look(struct pz_search *s, const uint32_t *points, uint32_t n,
                                           const struct pz_objective *o, struct pz_error *err);

/* The objective of an evaluated point: with what was found, or with the bounds of open schedules.
 */
double pz_search_value(const struct pz_search *s, const struct pz_objective *o, uint32_t point,
                       bool bound);
/* The same from the tables alone. */
double pz_search_table_bound(const struct pz_search *s, const struct pz_objective *o,
                             uint32_t point);

double pz_search_area_um2(const struct pz_search *s, uint32_t point);
double pz_search_watts(const struct pz_search *s, uint32_t point);

struct pz_evaluator *pz_search_evaluator(struct pz_search *s);
struct pz_progress *pz_search_progress(const struct pz_search *s); /* NULL: none */
/* Variants evaluated so far; NULL: none. */
uint64_t pz_search_variants(const struct pz_search *s);

#endif
