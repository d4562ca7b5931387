/* What one layer of a model takes on a device, forward and backward, of one microbatch: its operators one after
 * another as the chip runs them, launches by the host, collectives, and what is computed again. */
#ifndef PZ_PLACE_LAYER_TIME_H
#define PZ_PLACE_LAYER_TIME_H

#include "place/training.h"

/* One direction of a layer. */
struct pz_pass {
  double products_s, elementwise_s, collectives_s;
  double attention_s; /* the attention core, which selective recomputation runs again */
  double last_s;      /* of products_s: the last, whose result backward does not read */
  double n_ops;
};

struct pz_layer_time {
  struct pz_pass forward, backward; /* backward with what is computed again */
  double forward_s, backward_s;     /* with launches and exposed collectives */
  double launch_s;                  /* of these: waiting for the host */
  double hidden_s;                  /* collectives beside compute, not of these */
};

/* A plan with all that its layers are timed with. */
struct pz_step_work {
  struct pz_cost cost;
  const struct pz_constants *k;
  const struct pz_cluster *net;
  const struct pz_training_plan *plan;
  const struct pz_workload *w;
  const struct pz_workload *kept; /* the same model with all that the framework keeps in memory */
  int64_t rounds;                 /* microbatches of a replica */
  struct pz_prediction_detail *detail; /* NULL: not asked for */
  struct pz_error *err;
};

/* `again`: the plan's recomputation applies to the layer. */
PZ_NODISCARD enum pz_status pz_layer_time(struct pz_step_work *w, const struct pz_layer *l,
                                          bool again, struct pz_layer_time *out);

/* The part of the repeated layers that full recomputation concerns. */
double pz_recomputed_part(const struct pz_training_plan *p, const struct pz_layer *l);

/* Kernels of a pass, without launches and collectives. */
double pz_pass_kernels_s(const struct pz_pass *p);

/* Add `part` times a pass. */
void pz_pass_add(struct pz_pass *to, const struct pz_pass *from, double part);

#endif
