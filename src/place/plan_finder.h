/* The same question of one chip after another, all of one class and unmeasured, each in a network of its own with as many
 * devices inside its innermost level: graphs, memory and the times of GEMMs are kept.  For one thread. */
#ifndef PZ_PLACE_PLAN_FINDER_H
#define PZ_PLACE_PLAN_FINDER_H

#include "place/plan_question.h"

struct pz_plan_finder;

/* The question's chip and network are the first.  Its objective must be time, its top 1, its texts and constants outlive
 * the finder.  Errors as pz_plan_search. */
PZ_NODISCARD enum pz_status pz_plan_finder_new(const struct pz_plan_question *q,
                                               struct pz_plan_finder **out, struct pz_error *err);
void pz_plan_finder_free(struct pz_plan_finder *f); /* accepts NULL */

/* No plan on this chip has a shorter step, or one shorter than enough_s: GEMMs on arrays that are never short of data,
 * lanes and compulsory bytes of element-wise operators, collectives that show, and the layers that memory makes the
 * slowest stage compute.  Some ten microseconds, when the chip's HBM, array and link have been met before. */
PZ_NODISCARD enum pz_status pz_plan_finder_floor_s(struct pz_plan_finder *f,
                                                   const struct pz_chip *chip,
                                                   const struct pz_cluster *net, double enough_s,
                                                   double *floor_s, struct pz_error *err);

/* The same with mapped GEMMs and exposed collectives; where no step can be shorter than `enough_s`, at least that. */
PZ_NODISCARD enum pz_status pz_plan_finder_bound_s(struct pz_plan_finder *f,
                                                   const struct pz_chip *chip,
                                                   const struct pz_cluster *net, double enough_s,
                                                   double *bound_s, struct pz_error *err);

/* The step, without its simulation, that the plan of the lowest bound of the last call of pz_plan_finder_bound_s has on
 * another chip, by the relaxation: how much a resource matters.  HUGE_VAL where there is none. */
PZ_NODISCARD enum pz_status pz_plan_finder_again_s(struct pz_plan_finder *f,
                                                   const struct pz_chip *chip,
                                                   const struct pz_cluster *net, double *step_s,
                                                   struct pz_error *err);

/* Energy of a step on all devices beside static power (pz_step_dynamic_j), of a plan that the finder has found on this
 * chip, with so many parameters. */
PZ_NODISCARD enum pz_status pz_plan_finder_plan_j(struct pz_plan_finder *f,
                                                  const struct pz_chip *chip,
                                                  const struct pz_cluster *net,
                                                  const struct pz_plan *plan, double params,
                                                  double *joules, struct pz_error *err);

/* No plan takes less on this chip, nor on one of its technology and array with a smaller global buffer: what is computed
 * without recomputation, in the shape where that takes least. */
PZ_NODISCARD enum pz_status pz_plan_finder_least_j(struct pz_plan_finder *f,
                                                   const struct pz_chip *chip, double voltage2,
                                                   double *joules, struct pz_error *err);

/* The fastest plan with a step shorter than cutoff_s (HUGE_VAL: any); out->n 0: there is none.  The list lives until the
 * next call.  No plan has a step below least_s, or one below cutoff_s: less than that of the plan only where a schedule may
 * be shorter than the one that was found. */
PZ_NODISCARD enum pz_status pz_plan_finder_find(struct pz_plan_finder *f,
                                                const struct pz_chip *chip,
                                                const struct pz_cluster *net, double cutoff_s,
                                                struct pz_found_plans *out, double *least_s,
                                                struct pz_error *err);

#endif
