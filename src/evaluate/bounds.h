/* Upper bounds on the throughput of every chip of a space, before any is evaluated.
 *
 * Tables store the times of operators: GEMMs by the shape of the tensor cores, the number of cores
 * and the global buffer; vector operators by lanes and cores.  The bound of a chip then needs only
 * look-ups.  The bound of a layer is the larger of its critical path, with every
 * operator on all cores, and the work of each resource over its capacity; the bounds of the
 * layers give a lower bound on the step of any plan (partition/lower_bound.h).  A chip takes
 * about 50 microseconds for six models with 24 variants each. */
#ifndef PZ_EVALUATE_BOUNDS_H
#define PZ_EVALUATE_BOUNDS_H

#include <stdatomic.h>

#include "core/progress.h"
#include "evaluate/task.h"
#include "space/box.h"

struct pz_bounds;

/* Lets the caller stop long work and observe its progress.  Both members may be NULL. */
struct pz_watch {
  const atomic_bool *stop; /* the work ends soon after this becomes true */
  struct pz_progress *progress;
};

/* Computes the tables.  The caller frees them.  Raises PZ_STOPPED when stopped. */
struct pz_bounds *pz_bounds_create(struct pz_call *call, const struct pz_original_task *task,
                                   struct pz_pool *pool, struct pz_watch watch);
void pz_bounds_free(struct pz_bounds *bounds);

/* The work space of one thread, which is moved from chip to chip. */
struct pz_bounds_at;
struct pz_bounds_at *pz_bounds_at_new(struct pz_call *call, const struct pz_bounds *bounds);

/* Returns whether the tables cover this chip, which is at most one step above the area limit. */
bool pz_bounds_cover(const struct pz_bounds_at *position, const struct pz_point *point);

/* Moves the work space to a chip that the tables cover.  Returns false if no GEMM can be mapped to
 * the chip; then no plan fits. */
bool pz_bounds_go(struct pz_bounds_at *position, const struct pz_point *point);

/* Moves the work space to a box of chips.  Every table is used at its best value in the box, so
 * that the functions below return bounds for all of its chips that the tables have. */
void pz_bounds_go_box(struct pz_bounds_at *position, const struct pz_box *box);

/* Returns a lower bound on the step of every plan of a variant on the current chip, or HUGE_VAL
 * if none fits.  A result of limit_s or more only says that the bound is not below limit_s. */
double pz_bounds_variant_s(struct pz_bounds_at *position, uint32_t variant, bool recompute,
                           double limit_s);

/* Returns the least bound over all variants of a model. */
double pz_bounds_model_s(struct pz_bounds_at *position, uint32_t model);

/* Like pz_bounds_variant_s(), but with given times of the layers. */
double pz_bounds_times_s(const struct pz_bounds_at *position, uint32_t variant, bool recompute,
                         const double *fwd_s, const double *bwd_s, double limit_s);

/* Returns a lower bound on the length of every schedule of a layer on the current chip. */
double pz_bounds_layer_s(struct pz_bounds_at *position, uint32_t variant, uint32_t layer,
                         enum pz_direction direction);

#endif
