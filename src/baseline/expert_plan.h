/* The expert plans for models on 1024 TPUv4s, and their throughput: the reference. */
#ifndef PZ_BASELINE_EXPERT_PLAN_H
#define PZ_BASELINE_EXPERT_PLAN_H

#include "evaluate/original.h"

/* Stages and width; replicas are as many as the devices allow. */
struct pz_expert {
  const char *model;
  int64_t stages, t;
};

/* NULL: none is known for this model. */
const struct pz_expert *pz_expert_find(const char *model);

/* What the plan comes to with the best microbatch size and recomputation that fit. */
struct pz_expert_result {
  double time_s; /* HUGE_VAL: it does not fit */
  int64_t stages, t, d, mbs;
  bool recompute;
  uint32_t n_open; /* schedules of that variant not proven the best */
};

/* Layers are split evenly, the embedding goes with the first stage and the head with the last. */
PZ_NODISCARD enum pz_status pz_expert_evaluate(struct pz_original_worker *e,
                                               const struct pz_chip *chip, uint32_t model,
                                               double hbm_gib, struct pz_expert_result *out,
                                               struct pz_error *err);

/* What a model does on a chip without a search for plans: the expert plan with 32 GiB; if that does
 * not fit, with the smallest memory to choose that does; if none is known or none fits, the best
 * plan there. */
struct pz_reference {
  double samples_per_s, hbm_gib; /* 0: nothing fits */
  bool expert;                   /* else: the placement search's plan */
  struct pz_expert_result plan;  /* of the expert */
};

PZ_NODISCARD enum pz_status pz_reference_on(struct pz_original_worker *e,
                                            const struct pz_chip *chip, uint32_t model,
                                            struct pz_reference *out, struct pz_error *err);

/* The chip that all are compared with. */
#define PZ_REFERENCE_CHIP "tpuv4"

/* The reference for a model: the same on that chip. */
PZ_NODISCARD enum pz_status pz_reference_find(struct pz_original_worker *e, uint32_t model,
                                              struct pz_reference *out, struct pz_error *err);

#endif
