/* Assumptions of the original system's released code that this program does not share.  Each can
 * be switched on alone to measure its effect on the answer; the empty set is this program's own
 * model. */
#ifndef PZ_EVALUATE_ASSUMPTION_H
#define PZ_EVALUATE_ASSUMPTION_H

#include "chip/chip.h"

/* Changes the chip or the network to what these assumptions say. */
void pz_assume_chip(pz_assumptions set, struct pz_chip *chip);
void pz_assume_network(pz_assumptions set, struct pz_cluster *net);

#endif
