/* The memory of a stage in the course of a step: the passes of the simulated pipeline in order,
 * and the activations after each of them.
 *
 * A forward pass saves what the backward pass of its chunk (the layers that a stage runs in one
 * pass) reads, and that pass frees it.  Memory that is allocated and freed within a pass (work
 * space, logits, communication) is not in the curve.  The predicted peak of the stage exceeds the
 * curve's highest point by at most these. */
#ifndef PZ_STEP_MEMORY_CURVE_H
#define PZ_STEP_MEMORY_CURVE_H

#include "core/call.h"

struct pz_stage_pass {
  const struct pz_pipeline_event *event; /* of the run */
  bool weights;            /* the second part of a split backward pass: gradients of weights */
  double activation_bytes; /* of all chunks, at the end of the pass; they change linearly in it */
};

struct pz_memory_curve {
  struct pz_stage_pass *passes; /* in the order of time */
  uint32_t n;
  double most_bytes;     /* of activations, at the highest point */
  double constant_bytes; /* besides: weights, gradients, optimizer state, libraries */
};

/* A predicted run with its events, and its model, chip and network. */
struct pz_memory_question {
  const char *model;
  const struct pz_chip *chip;
  const struct pz_cluster *net; /* NULL if the chip's own link */
  const struct pz_training_run *run;
};

/* Returns the curve of every stage.  Raises PZ_BAD_USE if the run has no events. */
struct pz_memory_curve *pz_memory_curves(struct pz_call *call,
                                         const struct pz_memory_question *question);

/* Returns the part of a predicted peak that is allocated and freed within a pass. */
static inline double pz_working_bytes(const struct pz_training_memory *memory) {
  return memory->work_bytes + memory->logit_bytes + memory->communication_bytes;
}

#endif
