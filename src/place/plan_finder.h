/* A finder answers the same question of training plans for one chip after another.
 *
 * The chips must all be of one class and unmeasured, each in a network of its own with the same number of devices in its
 * innermost level.  Graphs, memory needs and times of GEMMs are stored between the chips.  A finder belongs to one
 * thread.  The functions return, in the order of their cost, a floor of the step, a bound, and the best plan. */
#ifndef PZ_PLACE_PLAN_FINDER_H
#define PZ_PLACE_PLAN_FINDER_H

#include "place/plan_question.h"

struct pz_plan_finder;

/* A chip in its network. */
struct pz_finder_chip {
  const struct pz_chip *chip;
  const struct pz_cluster *net;
};

/* Makes a finder, which the caller frees.  The question's chip and network are the first ones.  Its objective must be
 * time and its top 1.  Its texts and constants must outlive the finder.  Raises the errors of pz_find_plans(). */
struct pz_plan_finder *pz_finder_new(struct pz_call *call, const struct pz_plan_question *q);
void pz_plan_finder_free(struct pz_plan_finder *f); /* accepts NULL */

/* The smaller of enough_s and a lower bound of the step on this chip, from GEMMs on arrays that never wait for data, lanes and compulsory
 * bytes of element-wise operators, exposed collectives, and the layers that the slowest stage has because of memory.
 * Takes some ten microseconds if a chip with the same HBM, array and link was asked for before. */
double pz_finder_floor_s(struct pz_call *call, struct pz_plan_finder *f, struct pz_finder_chip on,
                         double enough_s);

/* The same with mapped GEMMs and exposed collectives. */
double pz_finder_bound_s(struct pz_call *call, struct pz_plan_finder *f, struct pz_finder_chip on,
                         double enough_s);

/* The lower bound on another chip of the plan that had the lowest bound in the last call of pz_finder_bound_s(); it shows
 * how much a resource matters.  HUGE_VAL if there is no such plan. */
double pz_finder_promising_s(struct pz_call *call, struct pz_plan_finder *f,
                             struct pz_finder_chip on);

/* The fastest plan with a step shorter than cutoff_s (HUGE_VAL: any); n is 0 if there is none.  The list is valid until
 * the next call.  *least_s is a lower bound of the step, or cutoff_s if no step is below that; it is less than the step of
 * the plan only where a schedule may be shorter than the one that was found. */
struct pz_found_plans pz_finder_best(struct pz_call *call, struct pz_plan_finder *f,
                                     struct pz_finder_chip on, double cutoff_s, double *least_s);

/* Energy of a step on all devices besides static power (pz_step_dynamic_j), for a plan with this number of parameters
 * that the finder has found on this chip. */
double pz_finder_plan_j(struct pz_call *call, struct pz_plan_finder *f, struct pz_finder_chip on,
                        const struct pz_plan *plan, double params);

/* A lower bound of that energy on this chip, and on chips of its technology and array with a smaller global buffer. */
double pz_finder_least_j(struct pz_call *call, struct pz_plan_finder *f, const struct pz_chip *chip,
                         double voltage2);

#endif
