/* Assumptions of the original system's released code that this program does not share.  Each can be
 * switched on alone, so that its effect on the answer can be measured; 0 is this program's own
 * model. */
#ifndef PZ_SEARCH_ASSUMPTION_H
#define PZ_SEARCH_ASSUMPTION_H

#include "chip/chip.h"
#include "chip/cluster.h"

enum pz_assumption {
  PZ_ASSUME_FAST_NETWORK,        /* milliseconds of compute are added to seconds of communication */
  PZ_ASSUME_NO_WEIGHT_GRADIENTS, /* a product has one gradient product backward, not two */
  PZ_ASSUME_FIXED_BANDWIDTH,     /* on-chip words per cycle that no chip exceeds; see the .c file */
  PZ_ASSUME_SHIFTED_EXPERT,      /* the expert plan's stages are off by one layer */
  PZ_ASSUME_FIRST_STAGE,         /* gradients of the first stage alone are all-reduced */
  PZ_ASSUME_ARITHMETIC_MEAN,     /* the chip with the largest sum of samples/s wins */
  PZ_ASSUMPTIONS
};

typedef unsigned pz_assumptions; /* a set: bit 1 << enum pz_assumption */

enum { PZ_ASSUME_ALL = (1 << PZ_ASSUMPTIONS) - 1 };

struct pz_assumption_info {
  const char *name;      /* for tables and JSON */
  const char *corrected; /* what this program assumes instead */
};
const struct pz_assumption_info *pz_assumption_at(enum pz_assumption a);

static inline bool pz_assumed(pz_assumptions set, enum pz_assumption a) { return set >> a & 1; }

/* The chip or the network as these assumptions have it. */
void pz_assume_chip(pz_assumptions set, struct pz_chip *c);
void pz_assume_network(pz_assumptions set, struct pz_cluster *net);

#endif
