/* The best chip of a space of ranges under limits, by best-first branch and bound over boxes of chips.
 *
 * A box is closed where the chip that takes least breaks a limit, or where the value of the chip that has most, which
 * no chip of the box exceeds, is not above the best known by more than the gap.  Else its axes are tightened by both
 * rules (branch and reduce: Ryoo and Sahinidis, 1996) and it is split.  Boxes are taken in rounds of a fixed number,
 * each judged against the best of the rounds before: the same for any number of threads. */
#ifndef PZ_BOX_BOX_SEARCH_H
#define PZ_BOX_BOX_SEARCH_H

#include <phaze/phaze.h>

#include "box/box.h"
#include "box/judge.h"
#include "box/step_power.h"
#include "core/arena.h"

struct pz_box_options {
  struct pz_judge_question question;
  struct pz_limits limits;
  double gap;               /* 0.01: 1% */
  int64_t rounds;           /* of boxes, at most; 0: until the gap is proved */
  double seconds;           /* hint: no round begins after these; 0: none */
  unsigned threads;         /* 0: one per processor */
  const char *journal;      /* file of the rounds, from which the search goes on; NULL: none */
  const char *inputs;       /* with a journal: a text of all that the search depends on */
  pz_progress_fn *progress; /* NULL: none */
  void *ctx;
};

struct pz_box_chip {
  struct pz_chip chip;
  struct pz_taken taken;
  double value;
  struct pz_steps steps;
  struct pz_found_plan plans[PZ_JUDGE_MOST_MODELS]; /* stage_recompute: in the arena */
  struct pz_step_power
      power; /* within the limit of watts or, without one, the bill's; the reference: its data sheet's */
};

struct pz_box_result {
  bool found;
  struct pz_box best_box; /* of one chip */
  struct pz_box_chip best, reference;
  const char *reference_breaks; /* a limit; NULL: none */
  struct pz_closed_box *boxes;
  uint32_t n_boxes;
  int64_t chips, closed, evaluated; /* of the space; in closed boxes; one by one */
  uint64_t rounds, bounds;          /* of boxes; boxes whose largest chip was priced */
  double gap;                       /* proved: no chip is better by more */
  bool finished;
};

/* PZ_STOPPED where progress says so; PZ_NO_ANSWER where no chip is within the limits.  The arena holds boxes and plans. */
PZ_NODISCARD enum pz_status pz_box_search(const struct pz_range_space *s,
                                          const struct pz_box_options *o, struct pz_arena *arena,
                                          struct pz_box_result *out, struct pz_error *err);

/* The chip that values are told in times of: the description of an H100, as all chips here run compiled programs. */
PZ_NODISCARD enum pz_status pz_box_reference_chip(struct pz_chip *out, struct pz_error *err);

#endif
