/* Assumptions of the original system's released code that this program does not share.  Each can be
 * switched on alone, so that its effect on the answer can be measured; 0 is this program's own
 * model. */
#ifndef PZ_EVALUATE_ASSUMPTION_H
#define PZ_EVALUATE_ASSUMPTION_H

#include "chip/chip.h"

/* The chip or the network as these assumptions have it. */
void pz_assume_chip(pz_assumptions set, struct pz_chip *c);
void pz_assume_network(pz_assumptions set, struct pz_cluster *net);

#endif
