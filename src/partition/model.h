/* The placement problem of a workload on a chip: the time of a layer is the makespan of its
 * schedule. */
#ifndef PZ_PARTITION_MODEL_H
#define PZ_PARTITION_MODEL_H

#include "cost/cost.h"
#include "partition/problem.h"

/* A layer's schedule in one direction. */
struct pz_layer_time {
  double s, least_s; /* its makespan, and the bound: no schedule is shorter */
  double link_s;     /* collectives in it; may overlap with the rest */
  bool open;         /* not proven the best */
};

/* Schedule the operators with at most so many steps. */
PZ_NODISCARD enum pz_status pz_layer_schedule(struct pz_cost *cost, const struct pz_ops *ops,
                                              int64_t steps, const struct pz_mem *mem,
                                              struct pz_layer_time *out, struct pz_error *err);

/* What a layer of a width is made of, beside the problem's own numbers. */
struct pz_place_part {
  const char *name;
  double link_s[2]; /* collectives, by direction; may overlap with the rest */
};

/* A problem of one width, with what its plans are told with (plan.h). */
struct pz_place_model {
  struct pz_place_problem p;
  const struct pz_place_part *parts; /* as the layers of the one width */
  int64_t mbs, seq, batch;           /* samples, tokens, samples */
  double sample_flop;     /* of the products of a sample, forward and backward, whole model */
  double peak_flop_per_s; /* of a device */
  uint32_t n_open;        /* schedules that are not proven optimal ... */
  double worst_gap;       /* ... and how far the worst of them may be off */
};

/* A problem of one width, whose layers are yet to be set: so many devices with this much memory.
 * The bandwidth between them is that of the innermost level of the network that joins all of them;
 * plans that need fewer devices have that of the levels inside it. */
struct pz_place_problem pz_place_problem_on(const struct pz_cluster *net, int64_t devices,
                                            double hbm_bytes, double state, int64_t microbatches,
                                            bool recompute);

/* A workload's layers one by one, as often as they stand in the model, each with an edge to the
 * next: times[i] are those of w->layers[i], by direction.  `parts` may be NULL. */
PZ_NODISCARD enum pz_status pz_place_chain(const struct pz_workload *w,
                                           const struct pz_layer_time (*times)[2],
                                           struct pz_arena *arena, struct pz_place_width *out,
                                           const struct pz_place_part **parts,
                                           struct pz_error *err);

#endif
