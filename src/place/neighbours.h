/* Neighbours of a plan: plans one change away on the same devices with the same batch.
 *
 * Each neighbour that its framework can run is priced, if it is within a limit of memory.  What would make a run faster
 * (pz_plan_tune) and what would make a plan fit (pz_training_changes) are questions about the same neighbours. */
#ifndef PZ_PLACE_NEIGHBOURS_H
#define PZ_PLACE_NEIGHBOURS_H

#include "core/call.h"
#include "plan/framework_rules.h"
#include "step/predict.h"

struct pz_neighbourhood {
  const struct pz_job *job;
  const struct pz_plan *plan; /* filled, with its sequence length */
  int64_t layers, node;       /* repeated layers; devices of the innermost network level */
  struct pz_model_shape model;
  int overlap;        /* wanted: a neighbour overlaps what its framework can overlap of that */
  uint64_t fields;    /* fields that may be changed: all, or a set of PZ_PLAN_PIN(TP) etc. */
  double limit_bytes; /* of plans that need more, only the memory is computed */
  bool etp_is_tp;     /* experts are divided like the other layers, whatever tp */
};

/* The neighbourhood of a plan, with all fields but offload, which saves memory but no time, and the plan's own overlap. */
struct pz_neighbourhood pz_neighbourhood_make(struct pz_call *call, const struct pz_job *job,
                                              const struct pz_plan *plan);

/* Called for a neighbour and the field that was changed.  Returns whether it is what was looked for, so that stronger
 * changes of the same kind need not be tried. */
typedef bool pz_neighbour_fn(struct pz_call *call, void *ctx, const struct pz_plan *plan,
                             const struct pz_prediction *p, enum pz_plan_field field);

/* Calls fn for every neighbour. */
void pz_neighbours_visit(struct pz_call *call, const struct pz_neighbourhood *n,
                         pz_neighbour_fn *fn, void *ctx);

/* Whether the plan is within the limit, and what it offloads within the host's memory. */
static inline bool pz_neighbour_fits(const struct pz_neighbourhood *n,
                                     const struct pz_prediction *p) {
  return p->needed_bytes <= n->limit_bytes && p->host_bytes <= p->usable_host_bytes;
}

/* Sets gain and options of a change of the run. */
void pz_plan_change_describe(struct pz_call *call, const struct pz_training_run *run,
                             struct pz_plan_change *c);

#endif
