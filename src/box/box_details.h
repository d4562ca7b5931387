/* What an architect asks of the best chip of a space: one step on every axis, the chips of today beside it, what it becomes
 * under tighter limits, the roofline of its operators. */
#ifndef PZ_BOX_BOX_DETAILS_H
#define PZ_BOX_BOX_DETAILS_H

#include "box/saved_run.h"

enum { PZ_BOX_MOST_STEPS = 2 * (PZ_RANGE_AXES + 2) };

/* The best chip with one axis, its array or its HBM a value lower or higher. */
struct pz_box_step {
  const char *axis;
  char from[24], to[24];
  double change;      /* of the value: 0.01 is 1% more; -1: no plan fits */
  const char *breaks; /* the limit that it breaks; NULL: none */
  struct pz_taken taken;
};

PZ_NODISCARD enum pz_status pz_box_steps(const struct pz_range_space *s,
                                         const struct pz_box_options *o, const struct pz_box *best,
                                         struct pz_box_step steps[PZ_BOX_MOST_STEPS], uint32_t *n,
                                         struct pz_error *err);
json_t *pz_box_steps_json(const struct pz_box_step *steps, uint32_t n);

/* {sensitivity, chips, front, operators}: lists of flat objects.  Chips stand in the network of the search.  Points of the
 * front are searched among chips with the array and the HBM of the best, under tighter limits: their throughput is exact,
 * `gap` what is proved among these chips (null: nothing).  A new reference. */
PZ_NODISCARD enum pz_status pz_box_details(const struct pz_range_space *s,
                                           const struct pz_box_options *o,
                                           const struct pz_box *best, json_t **out,
                                           struct pz_error *err);

#endif
