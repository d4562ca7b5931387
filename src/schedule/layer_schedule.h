/* The schedule of a layer as programs and reports are told of it: plain, with copies of all
 * names. */
#ifndef PZ_SCHEDULE_LAYER_SCHEDULE_H
#define PZ_SCHEDULE_LAYER_SCHEDULE_H

#include "schedule/model/problem.h"
#include "schedule/solve.h"

/* A solved problem of one direction of a layer, told; the arena holds what `out` points to. */
PZ_NODISCARD enum pz_status
pz_layer_schedule_tell(const struct pz_layer *layer, enum pz_direction direction,
                       const struct pz_problem *problem, const struct pz_schedule *schedule,
                       struct pz_arena *arena, struct pz_layer_schedule *out, struct pz_error *err);

#endif
