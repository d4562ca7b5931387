/* The best plan of a model on a chip: over variants of the workload (microbatch size, tensor-parallel degree), saved
 * activations or recompute, every division into pipeline stages, and every number of replicas.
 *
 * Exact for the layer times that were found.  The time of a layer is the makespan of its schedule.  Schedules are first
 * solved with few steps, and with more steps if they are not proven optimal and may decide which plan is best.  The lower
 * bound on all plans uses the lower bounds of such open schedules. */
#ifndef PZ_PARTITION_BEST_H
#define PZ_PARTITION_BEST_H

#include "cost/cost.h"
#include "partition/problem.h"
#include "workload/variants.h"

/* Functions of the caller that return lower bounds.  They save work and do not change the
 * answer.  `variant` and `layer` are indices of the lists in the inputs. */
struct pz_plan_bounds {
  void *ctx;
  /* A lower bound on the step time of every plan of the variant. */
  double (*variant_s)(void *ctx, uint32_t variant, bool recompute);
  /* A lower bound on the makespan of every schedule of the layer. */
  double (*layer_s)(void *ctx, uint32_t variant, uint32_t layer, enum pz_direction direction);
  /* A lower bound on the step time of every plan of the variant whose layers take at least fwd_s
   * and bwd_s (by layer).  A result that is not below limit_s may be any such number. */
  double (*plan_s)(void *ctx, uint32_t variant, bool recompute, const double *fwd_s,
                   const double *bwd_s, double limit_s);
};

/* The inputs belong to the caller and are only read, except that `cost` stores its estimates. */
struct pz_plan_inputs {
  struct pz_cost *cost;              /* the chip and its network */
  const struct pz_variant *variants; /* variants of one model; ties go to the one listed first */
  uint32_t n_variants;
  int64_t devices, batch; /* batch in samples */
  double hbm_bytes;       /* memory of a device */
  double state;           /* bytes of weights, gradients and optimizer state per byte of weights */
  double sample_flop;     /* work of all GEMMs of the model for a sample, forward and backward */
  enum pz_semantics semantics;
  int recompute;       /* PZ_RECOMPUTATION_NONE, _FULL, or PZ_AS_FRAMEWORK to try both */
  int64_t quick_steps; /* effort limit of every schedule at first */
  int64_t steps;       /* effort limit of schedules that may decide which plan is best */
  /* Stages and split of a given plan, with as many replicas as devices and microbatches allow.
   * If NULL, every division is tried. */
  const struct pz_fixed *given;
  const struct pz_plan_bounds *bounds; /* may be NULL */
  bool check; /* check the plans that the solver finds, but not those with given stages */
};

/* The decisions of a plan, from which pz_plan_rebuild() reconstructs it. */
struct pz_plan_record {
  uint32_t variant;
  bool recompute;
  int64_t replicas;
  uint32_t n_stages;
  const uint16_t *layers; /* number of layers by stage */
};

struct pz_plan_choice {
  bool below;    /* if false, no plan is below the limit, and the other members are not set */
  double time_s; /* step time of the best plan, or HUGE_VAL if no plan fits */
  double lower_bound_s; /* bound on all plans; below time_s only because of open schedules */
  uint32_t n_open;      /* open schedules (not proven optimal) of all variants that may still win */
  uint32_t n_open_here; /* open schedules of the plan's own variant */
  struct pz_plan_record plan;
  uint64_t n_scheduled; /* number of variants of which layers were scheduled */
};

/* Finds the best plan, or none if bounds show that no plan is below limit_s (HUGE_VAL for no
 * limit).  The choice does not depend on the bounds.  Among equally fast plans, the variant listed
 * first is chosen, and saved activations before recompute. */
struct pz_plan_choice pz_plan_find_best(struct pz_call *call, const struct pz_plan_inputs *inputs,
                                        double limit_s);

/* A solved problem at one tensor-parallel degree, with the data that describe its plan to users
 * (partition.h). */
struct pz_place_model {
  struct pz_place_problem problem; /* with the bandwidth of the network domain of the plan */
  struct pz_place_solution plan;
  int64_t mbs, seq, batch; /* samples, tokens, samples */
  double sample_flop;      /* as in the inputs */
  double peak_flop_per_s;  /* of a device */
  uint32_t n_open;         /* number of schedules that are not proven optimal */
  double worst_gap;        /* largest gap of these schedules, as a fraction of the makespan */
};

/* Rebuilds the plan of a choice that was made with the same inputs, and checks it.  Raises
 * PZ_INTERNAL if it differs from the record or from time_s. */
struct pz_place_model pz_plan_rebuild(struct pz_call *call, const struct pz_plan_inputs *inputs,
                                      const struct pz_plan_record *record, double time_s);

/* The best plans, one for each variant with and without recompute, the best first. */
struct pz_plan_list {
  struct pz_place_model *plans;
  uint32_t n; /* 0 if no plan fits */
  double lower_bound_s;
  /* if no plan fits: the least memory with which one would, its variant, and its recomputation */
  struct pz_fit fit;
  uint32_t fit_variant;
  bool fit_recompute;
};

/* Finds the best plan and up to n_next others.  It is no error if no plan fits.  Raises PZ_LIMIT for
 * more than PZ_PLACE_MOST_LAYERS layers, and the errors of the cost model, for example if no tile
 * fits.  Cost: two schedules for each distinct layer of each variant, and two placements for each
 * variant.  28 variants of 100 layers take tens of milliseconds. */
struct pz_plan_list pz_plan_list_best(struct pz_call *call, const struct pz_plan_inputs *inputs,
                                      uint32_t n_next);

/* Schedules a layer in one direction with at most `steps` steps.  Returns its makespan, a lower bound
 * on it, and the time of its collectives. */
struct pz_layer_time pz_layer_time_of(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_ops *ops, int64_t steps);

#endif
