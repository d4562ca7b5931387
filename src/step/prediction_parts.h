/* The parts of a prediction by name: of the step's time, and of a stage's memory.  Tables, JSON and
 * CSV go through these lists, so that a part is named once. */
#ifndef PZ_STEP_PREDICTION_PARTS_H
#define PZ_STEP_PREDICTION_PARTS_H

#include "core/status.h"

static inline double pz_time_part(const struct pz_training_parts *x, const struct pz_part_info *p) {
  return *(const double *)(const void *)((const char *)x + p->offset);
}

static inline double pz_memory_part(const struct pz_training_memory *x,
                                    const struct pz_part_info *p) {
  return *(const double *)(const void *)((const char *)x + p->offset);
}

/* Do launches take longer than the kernels they start?  Such steps differ by up to 1.9 times between runs of the
 * same code. */
bool pz_launch_bound(const struct pz_training_parts *x);

/* 0 where nothing is. */
static inline double pz_hidden_part(const struct pz_prediction *x, const struct pz_part_info *p) {
  return p->hidden ? *(const double *)(const void *)((const char *)x + p->hidden) : 0;
}

/* The part of the step that is longest beyond that of `best`, and by how much; NULL: none is. */
const struct pz_part_info *pz_grown_part(const struct pz_prediction *best,
                                         const struct pz_prediction *other, double *grew_s);

#endif
