/* A finder answers the same question of training plans for one chip after another.
 *
 * All chips must be unmeasured and of one class.  Each has its own network, and all networks
 * have the same number of devices in the innermost level.  Graphs, memory needs and times of
 * GEMMs are kept from chip to chip.  A finder belongs to one thread.  In the order of their
 * cost, its functions return a coarse lower bound of the step (the floor), a tighter bound, and
 * the best plan. */
#ifndef PZ_PLACE_PLAN_FINDER_H
#define PZ_PLACE_PLAN_FINDER_H

#include "place/plan_question.h"

struct pz_plan_finder;

/* A chip and the network that connects such chips. */
struct pz_finder_chip {
  const struct pz_chip *chip;
  const struct pz_cluster *net;
};

/* Makes a finder, which the caller frees.  The chip and network of the question are examples of
 * those that will follow.  Its objective must be time and its top 1.  Its texts and constants must
 * outlive the finder.  Raises the errors of pz_find_plans(). */
struct pz_plan_finder *pz_finder_new(struct pz_call *call, const struct pz_plan_question *question);
void pz_plan_finder_free(struct pz_plan_finder *finder); /* accepts NULL */

/* Returns the smaller of enough_s and a lower bound of the step on this chip.  The bound follows
 * from GEMMs on arrays that never wait for data, the lanes and compulsory bytes of element-wise
 * operators, exposed collectives, and the number of layers that the slowest stage has because of
 * memory.  It takes some ten microseconds if an earlier chip had the same HBM, array and link. */
double pz_finder_floor_s(struct pz_call *call, struct pz_plan_finder *finder,
                         struct pz_finder_chip finder_chip, double enough_s);

/* Returns a tighter bound, from simulated GEMM mappings and exposed collectives. */
double pz_finder_bound_s(struct pz_call *call, struct pz_plan_finder *finder,
                         struct pz_finder_chip finder_chip, double enough_s);

/* Returns a lower bound, in seconds, of the step on this chip of the plan that had the lowest bound
 * in the last call of pz_finder_bound_s(), or HUGE_VAL if there is no such plan.  With a chip that
 * has more of a resource, this shows the gain from the resource. */
double pz_finder_promising_s(struct pz_call *call, struct pz_plan_finder *finder,
                             struct pz_finder_chip finder_chip);

/* Returns the fastest plan with a step below cutoff_s (HUGE_VAL for no limit), or a result with
 * n = 0 if there is none.  The list is valid until the next call.  Sets *least_s to a lower
 * bound of the step, which is cutoff_s if no step is below that.  It is less than the step of
 * the plan only if a schedule of its passes may be shorter than the one that was found. */
struct pz_found_plans pz_finder_best(struct pz_call *call, struct pz_plan_finder *finder,
                                     struct pz_finder_chip finder_chip, double cutoff_s,
                                     double *least_s);

/* Returns the energy of a step on all devices without static power (pz_step_dynamic_j), for a plan
 * that the finder has found on this chip, of a model with this number of parameters. */
double pz_finder_plan_j(struct pz_call *call, struct pz_plan_finder *finder,
                        struct pz_finder_chip finder_chip, const struct pz_plan *plan,
                        double params);

/* Returns a lower bound of the energy of a step for all plans on the chip, and on chips of its
 * technology and array with a smaller global buffer.  voltage2 is the squared relative voltage. */
double pz_finder_least_j(struct pz_call *call, struct pz_plan_finder *finder,
                         const struct pz_chip *chip, double voltage2);

#endif
