/* Costs of a chip (area, power, money, die edge), and limits on them. */
#ifndef PZ_SPACE_LIMITS_H
#define PZ_SPACE_LIMITS_H

#include "space/space.h"

/* Limits on the costs of a chip; 0 stands for no limit. */
struct pz_limits {
  double mm2, watts, dollars;
  double least_mm2; /* least area of chips with several tensor cores and several vector cores */
};

/* The costs of a chip.  More of any axis of a space never lowers a cost. */
struct pz_taken {
  double mm2, watts, dollars;   /* die area, peak power, production cost */
  double least_watts;           /* power at rest; equal to watts if the clock is never lowered */
  double static_watts;          /* power that does not depend on the work */
  double edge_mm, edge_room_mm; /* die edge that the interfaces need, and that the dies have */
  double owner_dollars;         /* chip, share of server and network, and lifetime energy */
  double voltage2; /* least squared voltage, relative to that at the node's reference clock */
  bool several;    /* the chip has several tensor cores and several vector cores */
};

/* Returns the costs of a chip. */
struct pz_taken pz_chip_taken(const struct pz_chip *chip);

/* Returns the name of the first limit that every chip of a box violates, or NULL.  `least` and
 * `most` are the costs of the smallest and of the largest chip of the box. */
const char *pz_limits_broken(const struct pz_limits *limits, const struct pz_taken *least,
                             const struct pz_taken *most);

/* The smallest violation of each limit by the chips that were added; zero before the first. */
enum { PZ_EXCESSES = 5 };
struct pz_excess {
  double cost[PZ_EXCESSES], limit[PZ_EXCESSES];
};

/* Adds the limits that every chip of a box violates; `least` and `most` are as above. */
void pz_excess_add(struct pz_excess *excess, const struct pz_limits *limits,
                   const struct pz_taken *least, const struct pz_taken *most);

/* Writes "30 mm2 of at most 20, 45 W of at most 40" into buf, and returns it. */
char *pz_excess_text(const struct pz_excess *excess, char *buf, size_t size);

/* Sets the limits that are 0 from a budget: an area in mm2, or a chip, with its area and, if its
 * technology has them, its peak watts and dollars.  Without a budget (NULL) and any limit, the area
 * is limited to that of the base chip.  Then sets least_mm2.  Raises PZ_BAD_USE if the chip has
 * another technology than the space and no `node` was chosen (NULL). */
void pz_limits_apply_budget(struct pz_call *call, const struct pz_space *space, const char *budget,
                            const char *node, struct pz_limits *limits);

#endif
