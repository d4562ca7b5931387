/* One simulated training step for the page: the passes of every stage and the activations that they hold in memory, as the
 * datasets "pipelines" (one row for each run) and "stages" (one row for each stage of a run). */
#ifndef PZ_REPORT_STEP_VIEW_H
#define PZ_REPORT_STEP_VIEW_H

#include "core/json.h"
#include "step/memory_curve.h"

/* Passes in one page: more would make it slow to open. */
enum { PZ_STEP_VIEW_MOST = 1 << 17 };

struct pz_step_view {
  int64_t devices; /* identifies the run in the datasets */
  const struct pz_training_run *run;
  const struct pz_memory_curve *curves; /* one for each stage */
  uint32_t
      most; /* passes to include; if there are more, the first and the last ones of each stage */
};

/* Adds the step to `datasets`, and the two datasets if they are missing. */
void pz_step_view_add(struct pz_call *call, json_t *datasets, const struct pz_step_view *v);

#endif
