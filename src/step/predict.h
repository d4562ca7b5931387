/* Predicts the time and the memory of a training plan.
 *
 * Operators run one after another on a device (a stream), at the speed of the chip's calibration or
 * of the host's launches, whichever is slower.  Collectives run beside them only if the plan
 * overlaps them.  Stages are simulated event by event (pipeline.h).  See doc/predict.md. */
#ifndef PZ_STEP_PREDICT_H
#define PZ_STEP_PREDICT_H

#include "core/call.h"
#include "plan/plan.h"
#include "step/pipeline.h"

struct pz_constants;
struct pz_model_shape;
struct pz_product_times;

/* Everything that a prediction needs besides the plan: the model, the chip and the network. */
struct pz_job {
  const char *model;  /* name or path */
  const char *config; /* text of its config.json, or NULL to load the model by its name */
  const struct pz_chip *chip;
  const struct pz_cluster *net;         /* NULL for the chip's own link */
  const struct pz_constants *constants; /* NULL for the defaults (cost/constants.def) */
  struct pz_product_times *times;       /* known GEMM times of unmeasured chips; may be NULL */
};

/* Details of a prediction, allocated in the arena of the call. */
struct pz_prediction_detail {
  struct pz_training_memory *stages; /* peak of each stage */
  double *stage_s;                   /* busy time of each stage in a step, without the bubble */
  double *reserved_bytes;            /* bytes that the allocator reserves for each stage */
  struct pz_pipeline_run run;        /* the simulated pipeline with its events */
  bool no_events;                    /* input: events are not wanted, and `run` is not set */
  int64_t layers;                    /* repeated layers of the model */
  struct pz_model_shape *model;      /* input: where to store the shape, or NULL */
};

/* Predicts a plan without unset fields.  *detail may be NULL.  Raises PZ_BAD_USE for a plan that is
 * inconsistent or does not fit the model. */
struct pz_prediction pz_predict(struct pz_call *call, const struct pz_job *job,
                                const struct pz_plan *plan, struct pz_prediction_detail *detail);

#endif
