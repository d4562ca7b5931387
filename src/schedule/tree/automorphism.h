/* Tasks that an automorphism of the problem exchanges. */
#ifndef PZ_SCHEDULE_TREE_AUTOMORPHISM_H
#define PZ_SCHEDULE_TREE_AUTOMORPHISM_H

#include "schedule/tree/branching.h"

/* Adds them to g->interchangeable; `deferred` tasks, if not NULL, are not there. */
void pz_automorphisms(struct pz_branching *g, const bool *deferred);

#endif
