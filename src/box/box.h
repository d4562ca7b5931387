/* A box of chips: of one technology, array and HBM generation, from a lowest to a highest value on every axis. */
#ifndef PZ_BOX_BOX_H
#define PZ_BOX_BOX_H

#include "box/range_space.h"

struct pz_box {
  uint32_t kind;
  uint8_t lo[PZ_RANGE_AXES], hi[PZ_RANGE_AXES]; /* both inclusive */
};

enum pz_box_end { PZ_BOX_INFEASIBLE, PZ_BOX_BOUND, PZ_BOX_EVALUATED, PZ_BOX_OPEN };
extern const char *const pz_box_end_names[]; /* ends with NULL */

/* A box of the certificate: how it left the search, with the bound or value. */
struct pz_closed_box {
  struct pz_box box;
  enum pz_box_end end;
  double bound;
};

/* All chips of one kind. */
struct pz_box pz_box_all(const struct pz_range_space *s, uint32_t kind);

int64_t pz_box_chips(const struct pz_box *b);

/* Its smallest and its largest chip. */
void pz_box_lo(const struct pz_range_space *s, const struct pz_box *b, struct pz_chip *out);
void pz_box_hi(const struct pz_range_space *s, const struct pz_box *b, struct pz_chip *out);

#endif
