/* What would have to change for a plan to fit in memory: the same devices and the same batch, with
 * more of it divided, or computed again. */
#ifndef PZ_PLACE_PLAN_CHANGES_H
#define PZ_PLACE_PLAN_CHANGES_H

#include "core/arena.h"

struct pz_plan_change {
  const char *text; /* as options: "--recompute full --zero 1" */
  double step_s, peak_bytes;
};

/* Changes after which the plan of a run fits, the fastest first: single ones, and where none of
 * them does, two together.  n 0: none does.  The arena holds the list.  Cost: some tens of
 * predictions. */
PZ_NODISCARD enum pz_status pz_plan_changes(const char *model, const struct pz_chip *chip,
                                            const struct pz_cluster *net,
                                            const struct pz_training_run *r, struct pz_arena *arena,
                                            struct pz_plan_change **list, uint32_t *n,
                                            struct pz_error *err);

#endif
