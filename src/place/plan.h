/* A plan to train a model on a cluster, as people and programs are told of it: degrees, times,
 * memory, stages.  A plain value: it knows nothing of the solver, the workload or the chip that it
 * was made with, and can be kept, printed and compared after they are gone. */
#ifndef PZ_PLACE_PLAN_H
#define PZ_PLACE_PLAN_H

#include "core/arena.h"

struct pz_place_model;
struct pz_plan;

/* What a training step is made of; the parts sum up to its time. */
struct pz_step_parts {
  double compute_s;     /* of the slowest stage, over the microbatches of a replica */
  double collectives_s; /* tensor-parallel ones, there */
  double transfers_s;   /* activations and gradients between stages, that compute does not hide */
  double bubble_s;      /* filling and draining the pipeline */
  double exchange_s;    /* gradient all-reduce between replicas */
};

/* Layers of the same name that follow each other. */
struct pz_plan_layers {
  const char *name;
  uint32_t count;
};

/* A pipeline stage.  Times are of one microbatch, bytes of one device. */
struct pz_plan_stage {
  const struct pz_plan_layers *layers; /* in the order of the model */
  uint32_t n_layers;                   /* entries of `layers` ... */
  uint32_t layer_count;                /* ... and layers in all */
  int64_t devices;                     /* of one replica: its tensor-parallel group */
  double forward_s, backward_s; /* with waiting for what comes from other stages; backward with
                                          recomputation where the plan has it */
  double load_s;                /* both together */
  double param_bytes;
  double optimizer_bytes;  /* gradients and optimizer state */
  double activation_bytes; /* of the microbatch at hand */
  double in_flight_bytes;  /* kept for the other microbatches in flight */
  double memory_bytes;     /* all of these */
};

/* Pointers lead into the arena that the plan was made in, which holds copies of all names: the plan
 * lives as long as it. */
struct pz_model_plan {
  uint32_t n_stages; /* pipeline parallel */
  int64_t tensor_parallel, data_parallel;
  int64_t batch_samples, microbatch_samples, seq_tokens;
  int64_t microbatches; /* of one replica in a step: the batch over the replicas, rounded up */
  bool recompute;       /* activations: else kept */
  int64_t devices_used;
  double hbm_bytes;       /* of a device */
  double step_s;          /* time of a global batch */
  double lower_bound_s;   /* no plan that was asked for is faster; below step_s only where layer
                            schedules are not proven optimal */
  double slowest_stage_s; /* of a microbatch: the pipeline's beat */
  struct pz_step_parts parts;
  double samples_per_s, tokens_per_s;
  double flop_utilisation;      /* products of a step over the peak of the devices in use */
  uint32_t n_open_schedules;    /* layer schedules, by direction, not proven optimal ... */
  double worst_schedule_gap;    /* ... and how far the worst may be off: 1 - bound / makespan */
  struct pz_plan_stage *stages; /* from the first to the last */
};

/* A solved placement problem, told as a plan.  `m` has the layers' names; lower_bound_s as in
 * pz_model_plan.  Everything is copied into the arena.  Errors: no memory.  Cost: stages x layers x
 * edges. */
PZ_NODISCARD enum pz_status pz_model_plan_make(const struct pz_place_model *m,
                                               const struct pz_plan *plan, double lower_bound_s,
                                               struct pz_arena *arena, struct pz_model_plan *out,
                                               struct pz_error *err);

/* "embedding, block x 11" into buf.  Returns buf. */
const char *pz_plan_stage_text(const struct pz_plan_stage *s, char *buf, size_t size);

#endif
