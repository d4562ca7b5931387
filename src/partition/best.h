/* The best plan of a model on a chip: over workload variants (microbatch size, tensor-parallel
 * degree), with activations kept or recomputed, every division into pipeline stages and number of
 * replicas.
 *
 * Exact for the layer times found.  A layer's time is the makespan of its schedule; schedules are
 * solved with few steps first, and with more where those left open may decide which plan is best.
 * Times of schedules that stay open enter the lower bound with their own lower bounds. */
#ifndef PZ_PARTITION_BEST_H
#define PZ_PARTITION_BEST_H

#include "cost/cost.h"
#include "partition/problem.h"
#include "workload/variants.h"

/* Lower bounds that the caller has of its own.  They save work: the answer is the same without.
 * `variant` and `layer` are indices in the inputs' lists. */
struct pz_plan_bounds {
  void *ctx;
  /* No plan of the variant is faster, s. */
  double (*variant_s)(void *ctx, uint32_t variant, bool recompute);
  /* No schedule of the layer is shorter, s. */
  double (*layer_s)(void *ctx, uint32_t variant, uint32_t layer, enum pz_direction direction);
  /* No plan of the variant whose layers take at least these times (s, by layer) is faster.  From
   * limit_s on it may be anything that is not below limit_s. */
  double (*plan_s)(void *ctx, uint32_t variant, bool recompute, const double *fwd_s,
                   const double *bwd_s, double limit_s);
};

/* Everything is the caller's and only read, except the estimates that `cost` keeps. */
struct pz_plan_inputs {
  struct pz_cost *cost;              /* the chip and its network */
  const struct pz_variant *variants; /* of one model; ties go to the one listed first */
  uint32_t n_variants;
  int64_t devices, batch; /* batch in samples */
  double hbm_bytes;       /* of a device */
  double state;           /* bytes held for a byte of parameters: with gradients, optimizer state */
  double sample_flop;     /* of the products of a sample, forward and backward, whole model */
  enum pz_semantics semantics;
  int recompute;              /* PZ_RECOMPUTATION_NONE, _FULL, or PZ_AS_FRAMEWORK: both are tried */
  int64_t quick_steps, steps; /* of a schedule: at first, and where it decides */
  const struct pz_fixed
      *given; /* NULL: every division; else stages and split are set, and there are
                                   as many replicas as devices and microbatches allow */
  const struct pz_plan_bounds *bounds; /* NULL: none */
  bool check; /* every plan found by the independent checker (not those with given stages) */
};

/* A plan in few words. */
struct pz_plan_record {
  uint32_t variant;
  bool recompute;
  int64_t d;
  uint32_t n_stages;
  const uint16_t *layers; /* of each stage: how many */
};

/* What was found of it. */
struct pz_plan_choice {
  bool below;           /* false: there is no plan below the limit, and nothing else is told */
  double time_s;        /* of a batch with the best plan; HUGE_VAL: none fits */
  double lower_bound_s; /* no plan is faster; below time_s only for schedules left open ... */
  uint32_t n_open;      /* ... so many of them, of all variants that may still be better */
  uint32_t n_open_here; /* of the plan's own variant */
  struct pz_plan_record plan; /* its layers lie in the arena */
  uint64_t n_looked;          /* variants whose schedules were looked at */
};

/* The best plan, or nothing if bounds show on the way that no plan is below limit_s (HUGE_VAL: no
 * limit).  The choice depends on nothing but the inputs: not on the bounds.  Of equally fast plans
 * the variant listed first, activations kept rather than recomputed. */
PZ_NODISCARD enum pz_status pz_plan_choose(const struct pz_plan_inputs *in, double limit_s,
                                           struct pz_arena *arena, struct pz_plan_choice *out,
                                           struct pz_error *err);

/* A problem of one width, solved, with what its plan is told with (partition.h). */
struct pz_place_model {
  struct pz_place_problem p; /* with the bandwidth of the plan's domain */
  struct pz_place_solution plan;
  int64_t mbs, seq, batch; /* samples, tokens, samples */
  double sample_flop;      /* of the products of a sample, forward and backward, whole model */
  double peak_flop_per_s;  /* of a device */
  uint32_t n_open;         /* schedules that are not proven optimal ... */
  double worst_gap;        /* ... and how far the worst of them may be off */
};

/* The plan of a choice made with the same inputs, solved again from its record and checked by code
 * that shares nothing with the solver; the arena holds it.  PZ_INTERNAL when it is not as recorded,
 * or takes other than time_s. */
PZ_NODISCARD enum pz_status pz_plan_restore(const struct pz_plan_inputs *in,
                                            const struct pz_plan_record *record, double time_s,
                                            struct pz_arena *arena, struct pz_place_model *out,
                                            struct pz_error *err);

/* The best plans, one for each variant with and without recomputation, the best first. */
struct pz_plan_list {
  struct pz_place_model *plans;
  uint32_t n;           /* 0: no plan fits ... */
  double lower_bound_s; /* no plan is faster */
  struct pz_fit fit;    /* ... then the least memory with which one would, ... */
  uint32_t fit_variant; /* ... with this variant */
  bool fit_recompute;
};

/* The best plan and up to n_next others, in the arena; that none fits is no error.  Errors: no memory;
 * PZ_LIMIT for more than PZ_PLACE_MOST_LAYERS layers; what costs and schedules say of the chip (no
 * link, no tile fits).  Cost: two schedules for each distinct layer of each variant, and as many
 * placements as variants, twice: tens of milliseconds for 28 variants of 100 layers. */
PZ_NODISCARD enum pz_status pz_plan_best(const struct pz_plan_inputs *in, uint32_t n_next,
                                         struct pz_arena *arena, struct pz_plan_list *out,
                                         struct pz_error *err);

/* The time of a layer: the makespan of its schedule, found with at most so many steps. */
PZ_NODISCARD enum pz_status pz_layer_schedule(struct pz_cost *cost, const struct pz_ops *ops,
                                              int64_t steps, const struct pz_mem *mem,
                                              struct pz_layer_time *out, struct pz_error *err);

#endif
