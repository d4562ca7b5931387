/* Upper bounds on the throughput of every chip of a space, before any is evaluated.
 *
 * Shared work is done once: products by tensor-core shape, number of cores and global buffer;
 * vector operators by lanes and cores.  The bound of a chip then takes table look-ups: for each
 * layer the longest path with every operator on all cores, or the work of one resource over its
 * capacity, whichever is more; and from the layers the lower bound on the step time of any plan
 * (place/lower_bound.h).  Some 50 microseconds per chip for six models with 24 variants each. */
#ifndef PZ_EVALUATE_BOUNDS_H
#define PZ_EVALUATE_BOUNDS_H

#include <stdatomic.h>

#include "core/progress.h"
#include "evaluate/task.h"
#include "space/box.h"

struct pz_bounds;

/* What long work is watched with; each may be NULL. */
struct pz_watch {
  const atomic_bool *stop; /* ends the work soon when true */
  struct pz_progress *progress;
};

/* On success *out is the caller's to free.  PZ_STOPPED when stopped. */
PZ_NODISCARD enum pz_status pz_bounds_new(const struct pz_original_task *task, struct pz_pool *pool,
                                          struct pz_watch watch, struct pz_bounds **out,
                                          struct pz_error *err);
void pz_bounds_free(struct pz_bounds *b);

/* One thread's work space. */
struct pz_bounds_at;
struct pz_bounds_at *pz_bounds_at_new(const struct pz_bounds *b, struct pz_arena *arena);

/* Do the tables reach this point?  They do for chips within the limit of area, and one step beyond. */
bool pz_bounds_cover(const struct pz_bounds_at *at, const struct pz_point *p);

/* At that chip: is there no way to map products on its tensor cores?  Then no plan fits. */
bool pz_bounds_impossible(const struct pz_bounds_at *at);

/* Go to a chip that they cover. */
void pz_bounds_go(struct pz_bounds_at *at, const struct pz_point *p);

/* Go to a box.  Each table is taken at the best of its values in the box, so that what follows is a bound for each of its
 * chips that they cover. */
void pz_bounds_go_box(struct pz_bounds_at *at, const struct pz_box *box);

/* At that chip: no plan of a variant takes less; HUGE_VAL if none fits.  With a limit, anything not
 * below it means "not below it". */
double pz_bounds_variant_s(struct pz_bounds_at *at, uint32_t variant, bool recompute,
                           double limit_s);

/* The least over all variants of a model. */
double pz_bounds_model_s(struct pz_bounds_at *at, uint32_t model);

/* The same with other times of the layers than the tables', by layer. */
double pz_bounds_times_s(const struct pz_bounds_at *at, uint32_t variant, bool recompute,
                         const double *fwd_s, const double *bwd_s, double limit_s);

/* At that chip: no schedule of a layer is shorter. */
double pz_bounds_layer_s(struct pz_bounds_at *at, uint32_t variant, uint32_t layer,
                         enum pz_direction direction);

#endif
