/* Parts of a box that cannot hold the best chip are cut off; what is left is split. */
#ifndef PZ_SEARCH_TIGHTEN_H
#define PZ_SEARCH_TIGHTEN_H

#include "core/vec.h"
#include "search/question.h"

/* One box in the hands of one thread. */
struct pz_box_task {
  const struct pz_search_question *q;
  const struct pz_objective *o;
  unsigned worker;
  bool cheap;           /* bounds of level 0 may be asked for often */
  double cutoff;        /* a value that is not above it does not matter */
  struct pz_vec *boxes; /* closed ones: struct pz_closed_box */
  struct pz_error *err;
};

/* An upper bound on what chips of the box are worth, and the lower bounds on steps (by entry) that it follows from: of level
 * 0, and of level 1, with which it ends at the cutoff or below it. */
PZ_NODISCARD enum pz_status pz_box_bound(const struct pz_box_task *t, const struct pz_boxed *b,
                                         int level, struct pz_step_cost *steps, double *bound);

/* Close a box. */
PZ_NODISCARD enum pz_status pz_box_close(const struct pz_box_task *t,
                                         const struct pz_closed_box *b);

/* Close slabs of the box by limits and, where they are cheap, bounds until nothing changes.  *left: false where nothing is
 * left. */
PZ_NODISCARD enum pz_status pz_box_tighten(const struct pz_box_task *t, struct pz_box *b,
                                           bool *left);

/* Where to split a box of more than one chip: [lo, *at] and [*at + 1, hi] of the axis whose halves are worth least; where
 * nothing is known of that, of the widest. */
PZ_NODISCARD enum pz_status pz_box_split_axis(const struct pz_box_task *t, const struct pz_box *b,
                                              enum pz_axis *axis, uint8_t *at);

/* Take from the box its chip that takes all it can: from the smallest upward, whatever gains most for its part of the
 * limits. */
PZ_NODISCARD enum pz_status pz_box_greedy(const struct pz_box_task *t, const struct pz_box *b,
                                          struct pz_point *chip);

#endif
