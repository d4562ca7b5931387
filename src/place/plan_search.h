/* The fastest training plan: over tensor and sequence parallelism, stages and chunks, replicas, microbatch, ZeRO
 * and recomputation, within memory, on whole nodes.  Every plan of the space is priced, or excluded by a lower bound
 * or by its memory, so what is found is the best by the model.
 *
 * The space: tp divides the heads and stays inside the innermost network level; dp times mbs divides the batch; chunks
 * are even, or the first and the last have fewer layers; interleaving where stages divide the microbatches; ZeRO 0 to 3
 * (2 and 3 with stages only where the framework can); recomputation none, selective, or of each stage the fewest whole
 * layers that memory asks for.  A job takes whole nodes or a part of one; nodes may stay idle. */
#ifndef PZ_PLACE_PLAN_SEARCH_H
#define PZ_PLACE_PLAN_SEARCH_H

#include "place/step_model.h"

struct pz_plan_question {
  struct pz_training_model model;
  const struct pz_chip *chip;
  const struct pz_cluster *net; /* NULL: the chip's own link */
  int64_t devices, batch;
  /* what is the same in every plan: framework, execution, overlap, grad_bytes, attention library, constants */
  struct pz_training_plan common;
  /* PZ_FREE, or pinned */
  int64_t tp, sp, pp, vpp, dp, mbs, zero, recompute;
  bool uniform;     /* the same recomputation in every stage */
  bool all_devices; /* none may stay idle */
  enum pz_plan_objective objective;
  uint32_t top;     /* plans to return; 0: 1 */
  unsigned threads; /* 0: one per processor */
};

struct pz_found_plan {
  struct pz_training_plan plan; /* stage_recompute: in the arena */
  struct pz_prediction p;
};

struct pz_found_plans {
  struct pz_found_plan *list; /* best first */
  uint32_t n;                 /* 0: nothing fits */
  struct pz_plan_certificate certificate;
  struct pz_found_plan least; /* where nothing fits: the plan that needs least memory */
  bool has_least;
};

/* Every degree free, one plan; the caller adds model, chip, network, devices, batch, common. */
struct pz_plan_question pz_plan_question_default(void);

/* PZ_BAD_USE where the question has no plan at all (the message says why); n 0 where none fits.  The arena holds the
 * plans.  Deterministic, whatever the threads. */
PZ_NODISCARD enum pz_status pz_plan_search(const struct pz_plan_question *q, struct pz_arena *arena,
                                           struct pz_found_plans *out, struct pz_error *err);

#endif
