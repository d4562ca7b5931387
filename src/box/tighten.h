/* Parts of a box that cannot hold the best chip are cut off; what is left is split. */
#ifndef PZ_BOX_TIGHTEN_H
#define PZ_BOX_TIGHTEN_H

#include "box/box.h"
#include "box/judge.h"
#include "core/vec.h"

/* One box in the hands of one thread. */
struct pz_box_task {
  const struct pz_range_space *s;
  const struct pz_limits *limits;
  struct pz_judge *judge;
  double cutoff;          /* a value that is not above it does not matter */
  struct pz_vec *boxes;   /* closed ones: struct pz_closed_box */
  enum pz_status *status; /* of bounds that could not be found: nothing is closed by them */
  struct pz_error *err;
};

/* Close slabs of the box by limits and by peak rates until nothing changes.  *left: false where nothing is left. */
PZ_NODISCARD enum pz_status pz_box_tighten(const struct pz_box_task *t, struct pz_box *b,
                                           bool *left);

/* Where to split a box of more than one chip: [lo, *at] and [*at + 1, hi] of the axis whose halves have the lowest bounds. */
enum pz_range_axis pz_box_split_axis(const struct pz_box_task *t, const struct pz_box *b,
                                     uint8_t *at);

/* Take from the box its chip that takes all it can: from the smallest upward, whatever gains most for its part of the limits. */
void pz_box_greedy(const struct pz_box_task *t, const struct pz_box *b, struct pz_box *chip);

#endif
