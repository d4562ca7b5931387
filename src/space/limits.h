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

/* Of each limit that chips break, what the one nearest to it takes; all 0 at first. */
enum { PZ_EXCESSES = 5 };
struct pz_excess {
  double taken[PZ_EXCESSES], limit[PZ_EXCESSES];
};
void pz_excess_add(struct pz_excess *x, const struct pz_limits *l, const struct pz_taken *least,
                   const struct pz_taken *most);
/* "30 mm2 of at most 20, 45 W of at most 40" into buf.  Returns buf. */
char *pz_excess_text(const struct pz_excess *x, char *buf, size_t size);

/* Limits that are not set yet (0) become those of a budget: a number of mm2, or a chip's area and, where its technology has
 * them, peak watts and dollars.  Without a budget (NULL) and any limit, the base chip's area is one.  least_mm2 follows.
 * PZ_BAD_USE where the budget is of another technology than the space, and `node` (NULL: none) was not chosen: the message
 * says what to write. */
PZ_NODISCARD enum pz_status pz_limits_complete(const struct pz_space *s, const char *budget,
                                               const char *node, struct pz_limits *limits,
                                               struct pz_error *err);

#endif
