/* A size of a microbatch and of the tensor-parallel, context-parallel and expert-parallel groups, with the model of a step
 * that all plans of this size share. */
#ifndef PZ_PLACE_STEP_SHAPE_H
#define PZ_PLACE_STEP_SHAPE_H

#include "place/plan_question.h"

struct pz_step_shape {
  int64_t tp, cp, ep, mbs;
  bool sp;
  struct pz_step_model *m; /* NULL: made again when a plan is priced */
  double once_s,
      several_s; /* a microbatch through all layers, as the only one and as one of several */
  uint32_t first_grid, n_grids;
  uint64_t timed_for; /* key of the chip */
  enum pz_status status;
  struct pz_error err;
};

/* One stage, one replica, nothing sharded or computed again. */
struct pz_plan pz_step_shape_plan(const struct pz_plan_question *q, const struct pz_step_shape *x);

/* The model for the question's chip, where there is none.  Errors as pz_step_model_new. */
PZ_NODISCARD enum pz_status pz_step_shape_open(const struct pz_plan_question *q,
                                               struct pz_step_shape *x, struct pz_error *err);
void pz_step_shape_close(struct pz_step_shape *x);

/* once_s and several_s of an open shape, in that of these orders of a pipeline (a set) that is fastest.  The shape holds the message of an
 * error. */
PZ_NODISCARD enum pz_status pz_step_shape_time(const struct pz_plan_question *q,
                                               struct pz_step_shape *x, unsigned orders);

/* The part of all microbatches that every device has to work on, if all have the same. */
double pz_step_shape_share(const struct pz_plan_question *q, const struct pz_step_shape *x);

static inline double pz_layer_step_s(const struct pz_layer_step *t) {
  return t->forward_s + t->backward_s;
}

#endif
