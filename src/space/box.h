/* A box of chips: of one technology, array and HBM generation, from a lowest to a highest value on every axis. */
#ifndef PZ_SPACE_BOX_H
#define PZ_SPACE_BOX_H

#include "space/limits.h"

struct pz_box {
  uint32_t kind;
  uint8_t lo[PZ_AXES], hi[PZ_AXES]; /* both inclusive */
};

/* How a box left a search. */
enum pz_box_end {
  PZ_BOX_INFEASIBLE, /* every chip breaks a limit */
  PZ_BOX_BOUND,      /* none is better than the best known by more than the gap */
  PZ_BOX_PARTLY,     /* the same of one chip, after some of its models were evaluated */
  PZ_BOX_EVALUATED,  /* one chip, every model */
  PZ_BOX_OPEN,       /* it did not: the search ended before */
  PZ_BOX_ENDS
};
extern const char *const pz_box_end_names[]; /* ends with NULL */

/* A box of the certificate. */
struct pz_closed_box {
  struct pz_box box;
  enum pz_box_end end;
  double bound; /* no chip of it is worth more */
  double value; /* of a chip that was evaluated; else 0 */
};

/* All chips of one kind. */
struct pz_box pz_box_all(const struct pz_space *s, uint32_t kind);

int64_t pz_box_chips(const struct pz_box *b);
bool pz_box_is_chip(const struct pz_box *b);
bool pz_box_has(const struct pz_box *b, const struct pz_point *p);
struct pz_box pz_box_of(const struct pz_point *p);
/* Its first chip, which a box of one has. */
struct pz_point pz_box_point(const struct pz_box *b);

/* A box with its smallest and its largest chip and what these take. */
struct pz_boxed {
  struct pz_box box;
  struct pz_chip lo, hi;
  struct pz_taken least, most;
};

void pz_boxed_set(const struct pz_space *s, const struct pz_box *b, struct pz_boxed *out);

/* The first limit that all of its chips break; NULL: none. */
const char *pz_boxed_breaks(const struct pz_boxed *x, const struct pz_limits *l);

/* Is every chip of the space in exactly one box?  The list is put into another order. */
bool pz_boxes_cover(const struct pz_space *s, struct pz_closed_box *list, uint32_t n);

#endif
