/* Plans one change away from a plan, on the same devices with the same batch: each that its framework can run is priced, if it is within a limit of memory.
 * What would make a run faster (pz_plan_tune) and what would make a plan fit (pz_training_changes) are questions to the same
 * neighbours. */
#ifndef PZ_PLACE_NEIGHBOURS_H
#define PZ_PLACE_NEIGHBOURS_H

#include "plan/framework_rules.h"
#include "step/predict.h"

struct pz_neighbourhood {
  const struct pz_job *job;
  const struct pz_plan *plan; /* filled; its seq is set */
  int64_t layers, node;       /* repeated layers; devices of the innermost network level */
  struct pz_model_shape model;
  int overlap;        /* wanted: a changed plan has what of it its framework can do there */
  uint64_t fields;    /* that are changed: all, or a set of PZ_PLAN_PIN(TP) ... */
  double limit_bytes; /* plans that need more are of no use: of them memory alone is found */
  bool etp_is_tp;     /* experts are divided as the other layers are, whatever tp */
};

/* Layers, node and shape of the model are found; the overlap is the plan's own. */
PZ_NODISCARD enum pz_status pz_neighbourhood_of(const struct pz_job *job,
                                                const struct pz_plan *plan,
                                                struct pz_neighbourhood *out, struct pz_error *err);

/* A neighbour, the field that was changed; *taken: it is what was looked for (of recomputed layers, more are then not
 * tried).  Ends with what fn returns where that is not PZ_OK. */
typedef enum pz_status pz_neighbour_fn(void *ctx, const struct pz_plan *plan,
                                       const struct pz_prediction *p, enum pz_plan_field field,
                                       bool *taken);
PZ_NODISCARD enum pz_status pz_neighbours(const struct pz_neighbourhood *n, pz_neighbour_fn *fn,
                                          void *ctx, struct pz_error *err);

/* Is the plan within the limit, and what it has on the host within the host's memory? */
static inline bool pz_neighbour_fits(const struct pz_neighbourhood *n,
                                     const struct pz_prediction *p) {
  return p->needed_bytes <= n->limit_bytes && p->host_bytes <= p->usable_host_bytes;
}

/* Set gain and options of a change of the run; the arena holds the text. */
PZ_NODISCARD enum pz_status pz_plan_change_tell(const struct pz_training_run *run,
                                                struct pz_plan_change *c, struct pz_arena *arena,
                                                struct pz_error *err);

#endif
