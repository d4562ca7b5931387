/* What a chip may take of area, power, money and edge. */
#ifndef PZ_BOX_LIMITS_H
#define PZ_BOX_LIMITS_H

#include "chip/chip.h"

/* 0: no limit. */
struct pz_limits {
  double mm2, watts, dollars;
};

/* What a chip takes.  More of any axis of a space never makes one smaller. */
struct pz_taken {
  double mm2, watts, dollars;
  double static_watts;          /* at its clock, whatever it does */
  double edge_mm, edge_room_mm; /* of its dies: needed, there */
  double owner_dollars;         /* chip, its part of server and network, energy of its life */
  double voltage2;              /* at its clock, over that at its node's sustained one, squared */
};

struct pz_taken pz_chip_taken(const struct pz_chip *c);

/* The first limit that every chip between two breaks, the smallest and the largest of which take this; NULL: none. */
const char *pz_limits_broken(const struct pz_limits *l, const struct pz_taken *least,
                             const struct pz_taken *most);

#endif
