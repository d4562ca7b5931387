/* What a stage holds in the course of a step: the passes of the simulated pipeline in order, and the activations after
 * each.
 *
 * A forward pass leaves behind what the backward pass of its chunk reads, and that pass frees it.  What the layer at hand
 * needs besides (work space, logits, communication) comes and goes within a pass and is not in the curve: the
 * predicted peak of the stage is above the curve's highest point, by at most these. */
#ifndef PZ_STEP_MEMORY_CURVE_H
#define PZ_STEP_MEMORY_CURVE_H

#include "core/call.h"

struct pz_stage_pass {
  const struct pz_pipeline_event *event; /* of the run */
  bool weights;            /* backward in two passes: this is the second, gradients of weights */
  double activation_bytes; /* at its end, of all chunks in flight; in between they change evenly */
};

struct pz_memory_curve {
  struct pz_stage_pass *passes; /* in order of time */
  uint32_t n;
  double most_bytes; /* of activations: at the busiest moment */
  double
      constant_bytes; /* beside them: weights, gradients, optimizer state, libraries, constants */
};

/* A run with its events, and what it was predicted for (net NULL: the chip's own link). */
struct pz_memory_question {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  const struct pz_training_run *run;
};

/* Of every stage.  Raises PZ_BAD_USE if the run has no events. */
struct pz_memory_curve *pz_memory_curves(struct pz_call *call, const struct pz_memory_question *q);

/* Of a predicted peak, what comes and goes within a pass. */
static inline double pz_working_bytes(const struct pz_training_memory *m) {
  return m->work_bytes + m->logit_bytes + m->communication_bytes;
}

#endif
