/* A box of chips: all of one kind (technology, array and HBM generation), from a lowest to a
 * highest value on each axis. */
#ifndef PZ_SPACE_BOX_H
#define PZ_SPACE_BOX_H

#include "space/limits.h"

struct pz_box {
  uint32_t kind;
  uint8_t lo[PZ_AXES], hi[PZ_AXES]; /* lowest and highest index on each axis, both inclusive */
};

/* Why a search closed a box. */
enum pz_box_end {
  PZ_BOX_INFEASIBLE, /* every chip violates a limit */
  PZ_BOX_BOUND,      /* no chip is better than the best known one by more than the gap */
  PZ_BOX_PARTLY,     /* one chip, whose steps with some of the models show that it cannot win */
  PZ_BOX_EVALUATED,  /* one chip, evaluated with every model */
  PZ_BOX_OPEN,       /* not closed, because the search ended before */
  PZ_BOX_ENDS
};
extern const char *const pz_box_end_names[]; /* ends with NULL */

/* A box of the certificate, the list of boxes that proves the result of a search. */
struct pz_closed_box {
  struct pz_box box;
  enum pz_box_end end;
  double bound; /* no chip of the box has a higher value */
  double value; /* the objective of an evaluated chip, otherwise 0 */
};

/* Returns the box of all chips of one kind. */
struct pz_box pz_box_all(const struct pz_space *space, uint32_t kind);

/* Returns the number of chips of a box. */
int64_t pz_box_chips(const struct pz_box *box);

/* Returns whether a box has only one chip. */
bool pz_box_is_chip(const struct pz_box *box);

/* Returns whether a box contains a chip. */
bool pz_box_has(const struct pz_box *box, const struct pz_point *point);

/* Returns the box of one chip. */
struct pz_box pz_box_of(const struct pz_point *point);

/* Returns the smallest chip of a box. */
struct pz_point pz_box_point(const struct pz_box *box);

/* A box with its smallest and its largest chip on all axes, and their costs. */
struct pz_boxed {
  struct pz_box box;
  struct pz_chip lo, hi;
  struct pz_taken least, most;
};

/* Sets the smallest and the largest chip of a box. */
void pz_boxed_set(const struct pz_space *space, const struct pz_box *box, struct pz_boxed *out);

/* Returns the first limit that every chip of the box violates, or NULL. */
const char *pz_boxed_breaks(const struct pz_boxed *boxed, const struct pz_limits *limits);

/* Returns whether every chip of the space is in exactly one box.  The list is reordered. */
bool pz_boxes_cover(const struct pz_space *space, struct pz_closed_box *list, uint32_t n);

#endif
