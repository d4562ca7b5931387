/* Neighbours of a plan: plans that differ by one change, on the same devices and with the same
 * batch.
 *
 * Each neighbour that its framework can run is priced if it stays within a limit of memory.  Two
 * questions are answered this way: which changes would make a run faster (pz_plan_tune), and which
 * would make a plan fit (pz_training_changes). */
#ifndef PZ_PLACE_NEIGHBOURS_H
#define PZ_PLACE_NEIGHBOURS_H

#include "core/call.h"
#include "plan/framework_rules.h"
#include "step/predict.h"

struct pz_neighbourhood {
  const struct pz_job *job;
  const struct pz_plan *plan; /* filled, with its sequence length */
  int64_t layers;             /* repeated layers of the model */
  int64_t devices_per_node;   /* devices of the innermost network level */
  struct pz_model_shape model;
  /* wanted overlaps, of which a neighbour has those that its framework supports */
  int overlap;
  uint64_t changeable_fields; /* all, or a set of PZ_PLAN_PIN(TP) etc. */
  double limit_bytes;         /* plans that need more memory are not simulated */
  bool etp_is_tp;             /* etp follows tp: experts are divided like the other layers */
};

/* Returns the neighbourhood of a plan, with the plan's own overlap.  All fields may be changed
 * except offload, which saves memory but no time. */
struct pz_neighbourhood pz_neighbourhood_make(struct pz_call *call, const struct pz_job *job,
                                              const struct pz_plan *plan);

/* Receives a neighbour, its prediction, and the field that was changed.  Returns whether the
 * neighbour is acceptable; then stronger changes of the same kind are not tried. */
typedef bool pz_neighbour_fn(struct pz_call *call, void *ctx, const struct pz_plan *plan,
                             const struct pz_prediction *prediction, enum pz_plan_field field);

/* Calls fn for every neighbour. */
void pz_neighbours_visit(struct pz_call *call, const struct pz_neighbourhood *neighbourhood,
                         pz_neighbour_fn *fn, void *ctx);

/* Returns whether a plan is within the memory limit and its offloaded part fits on the host. */
static inline bool pz_neighbour_fits(const struct pz_neighbourhood *neighbourhood,
                                     const struct pz_prediction *prediction) {
  return prediction->needed_bytes <= neighbourhood->limit_bytes &&
         prediction->host_bytes <= prediction->usable_host_bytes;
}

/* Compares two struct pz_plan_change for qsort(): by step, then by memory, then by field. */
int pz_plan_change_order(const void *a, const void *b);

#endif
