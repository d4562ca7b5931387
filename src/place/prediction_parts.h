/* The parts of a prediction by name: of the step's time, and of a stage's memory.  Tables, JSON and
 * CSV go through these lists, so that a part is named once. */
#ifndef PZ_PLACE_PREDICTION_PARTS_H
#define PZ_PLACE_PREDICTION_PARTS_H

#include "core/status.h"

struct pz_part_info {
  const char *key;   /* of JSON and CSV */
  const char *label; /* for people */
  size_t offset;     /* of a double */
  size_t hidden;     /* in struct pz_prediction: what of it runs beside compute; 0: nothing */
};

/* Part i of struct pz_training_parts, of struct pz_training_memory; NULL behind the last. */
const struct pz_part_info *pz_time_part_at(size_t i);
const struct pz_part_info *pz_memory_part_at(size_t i);

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

#endif
