/* What a chip takes of area, power, money and edge, and may take. */
#ifndef PZ_SPACE_LIMITS_H
#define PZ_SPACE_LIMITS_H

#include "space/space.h"

/* 0: no limit. */
struct pz_limits {
  double mm2, watts, dollars;
  double least_mm2; /* of chips with several cores of both kinds */
};

/* What a chip takes.  More of any axis of a space never makes one smaller. */
struct pz_taken {
  double mm2, watts, dollars;
  double
      least_watts; /* it cannot take less: at rest; the same as watts where nothing lowers the clock */
  double static_watts;          /* whatever it does */
  double edge_mm, edge_room_mm; /* of its dies: needed, there */
  double owner_dollars;         /* chip, its part of server and network, energy of its life */
  double voltage2; /* the least at work, over that at its node's reference clock, squared */
  bool several;    /* cores of both kinds */
};

struct pz_taken pz_chip_taken(const struct pz_chip *c);

/* The first limit that every chip between two breaks, the smallest and the largest of which take this; NULL: none. */
const char *pz_limits_broken(const struct pz_limits *l, const struct pz_taken *least,
                             const struct pz_taken *most);

/* Limits that are not set yet (0) become those of a budget: a number of mm2, or a chip's area and, where its technology has
 * them, peak watts and dollars.  Without a budget (NULL) and any limit, the base chip's area is one.  least_mm2 follows.
 * PZ_BAD_USE where the budget is of another technology than the space, and `node` (NULL: none) was not chosen: the message
 * says what to write. */
PZ_NODISCARD enum pz_status pz_limits_complete(const struct pz_space *s, const char *budget,
                                               const char *node, struct pz_limits *limits,
                                               struct pz_error *err);

#endif
