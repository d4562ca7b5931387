/* Operations on one box: bounds, cutting off parts that cannot contain the best chip, splitting,
 * and a greedy chip. */
#ifndef PZ_SEARCH_TIGHTEN_H
#define PZ_SEARCH_TIGHTEN_H

#include "core/vec.h"
#include "search/question.h"

/* The processing of one box by one thread. */
struct pz_box_task {
  const struct pz_search_question *question;
  const struct pz_objective *objective;
  unsigned worker;
  bool has_cheap_bounds; /* see struct pz_evaluator_ops */
  double cutoff;         /* chips are of interest only if their value is above it */
  struct pz_vec *closed; /* receives the slabs that are cut off: struct pz_closed_box */
};

/* The levels of bounds (struct pz_evaluator_ops): quick ones, and tighter ones that cost more. */
enum { PZ_QUICK_BOUND = 0, PZ_TIGHT_BOUND = 1 };

/* Returns an upper bound on the value of every chip of the box; *steps receives the lower bounds on
 * steps, indexed by entry, that it follows from.  With PZ_TIGHT_BOUND, the computation ends as soon
 * as the bound is not above the cutoff. */
double pz_box_bound(struct pz_call *call, const struct pz_box_task *task,
                    const struct pz_boxed *boxed, int level, struct pz_step_cost *steps);

/* Returns the quick bound (PZ_QUICK_BOUND) on the value of every chip of a box. */
double pz_box_quick_bound(struct pz_call *call, const struct pz_box_task *task,
                          const struct pz_box *box);

/* Cuts off slabs of chips that violate a limit, and if bounds are cheap, slabs whose bound is not
 * above the cutoff, until nothing changes.  Returns false if nothing remains of the box. */
bool pz_box_tighten(struct pz_call *call, const struct pz_box_task *task, struct pz_box *box);

/* A split of a box in two: chips with an index up to `index` on an axis, and chips above it. */
struct pz_box_split {
  enum pz_axis axis;
  uint8_t index;
};
/* Chooses where to split a box of several chips: on the axis whose halves have the least estimated
 * values, or if bounds are expensive, on the axis with the largest ratio of its ends. */
struct pz_box_split pz_box_choose_split(struct pz_call *call, const struct pz_box_task *task,
                                        const struct pz_box *box);

/* Returns a good chip of the box.  Beginning with the smallest chip, repeatedly raises the axis
 * with the largest gain in value per additional use of the limits. */
struct pz_point pz_box_greedy(struct pz_call *call, const struct pz_box_task *task,
                              const struct pz_box *box);

#endif
