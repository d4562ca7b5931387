/* What a training plan costs, in time and memory.
 *
 * Operators run one after another on a device (a stream), as fast as the chip's calibration says,
 * or as the host launches them, whichever is slower; collectives beside them only where the plan's
 * overlap says so; stages are simulated event by event (pipeline.h).  doc/predict.md has the
 * model. */
#ifndef PZ_STEP_PREDICT_H
#define PZ_STEP_PREDICT_H

#include "core/call.h"
#include "plan/plan.h"
#include "step/pipeline.h"

struct pz_constants;
struct pz_model_shape;

/* What is trained, and on what: all that a prediction needs beside the plan. */
struct pz_product_times;

struct pz_job {
  const char *model, *config; /* its name or path; or the text of a config.json under this name */
  const struct pz_chip *chip;
  const struct pz_cluster *net;         /* NULL: the chip's own link */
  const struct pz_constants *constants; /* NULL: those of cost/constants.def */
  struct pz_product_times *times; /* of chips without measurements, borrowed; NULL: none kept */
};

/* More of a prediction, for those who ask; in the arena of the call. */
struct pz_prediction_detail {
  struct pz_training_memory *stages; /* of every stage */
  double *stage_s;                   /* of every stage: step without bubble */
  double *reserved_bytes;            /* of every stage: what the allocator reserves */
  struct pz_pipeline_run run;        /* every event of the simulated pipeline ... */
  bool no_events;                    /* ... or none */
  int64_t layers;                    /* repeated ones of the model */
  struct pz_model_shape *model;      /* filled in; NULL: not asked for */
};

/* `detail` may be NULL.  Raises PZ_BAD_USE for a plan that cannot be: the message says why. */
struct pz_prediction pz_predict(struct pz_call *call, const struct pz_job *job,
                                const struct pz_plan *plan, struct pz_prediction_detail *detail);

#endif
