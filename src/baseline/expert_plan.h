/* The expert plans for models on 1024 TPUv4s, and their throughput, which is the reference of
 * all comparisons. */
#ifndef PZ_BASELINE_EXPERT_PLAN_H
#define PZ_BASELINE_EXPERT_PLAN_H

#include "evaluate/original.h"

/* An expert's plan for a model.  It has as many replicas as the devices allow. */
struct pz_expert {
  const char *model;
  int64_t stages, tp; /* pipeline stages and tensor-parallel degree */
};

/* Returns the expert's plan for a model, or NULL if none is known. */
const struct pz_expert *pz_expert_find(const char *model);

/* An expert's plan with the best microbatch size and recomputation that fit. */
struct pz_expert_result {
  double time_s; /* HUGE_VAL if it does not fit */
  int64_t stages, tp, replicas, mbs;
  bool recompute;
  uint32_t n_open; /* layer schedules of this microbatch size that are not proved optimal */
};

/* Evaluates the expert's plan of a model on a chip.  Layers are split evenly; the embedding is
 * in the first stage and the head in the last. */
struct pz_expert_result pz_expert_evaluate(struct pz_call *call, struct pz_original_worker *worker,
                                           const struct pz_chip *chip, uint32_t model,
                                           double hbm_gib);

/* The throughput that other plans of a model on a chip are compared with. */
struct pz_reference {
  double samples_per_s, hbm_gib; /* 0 if no plan fits */
  bool expert;                   /* the plan is the expert's, not one of the placement search */
  struct pz_expert_result plan;  /* the expert's plan, if `expert` is true */
};

/* Returns the throughput of a model on a chip with the expert's plan and the least memory of at
 * least 32 GiB with which it fits.  If no expert's plan is known or it never fits, returns the
 * throughput of the best plan with memories in the same order. */
struct pz_reference pz_reference_on(struct pz_call *call, struct pz_original_worker *worker,
                                    const struct pz_chip *chip, uint32_t model);

/* The chip that all chips are compared with. */
#define PZ_REFERENCE_CHIP "tpuv4"

/* Returns pz_reference_on() for PZ_REFERENCE_CHIP. */
struct pz_reference pz_reference_of_model(struct pz_call *call, struct pz_original_worker *worker,
                                          uint32_t model);

#endif
