/* One simulated step for the page: the passes of every stage and what they leave in memory, as datasets "pipelines" (a row
 * for a run) and "stages" (a row for each stage of a run). */
#ifndef PZ_REPORT_STEP_VIEW_H
#define PZ_REPORT_STEP_VIEW_H

#include "core/json.h"
#include "step/memory_curve.h"

/* Passes in a page: more would make it slow to open. */
enum { PZ_STEP_VIEW_MOST = 1 << 17 };

struct pz_step_view {
  int64_t devices; /* of the question, which names the run */
  const struct pz_training_run *run;
  const struct pz_memory_curve *curves; /* of its stages */
  uint32_t most; /* passes to tell; of more, the first and the last of each stage */
};

/* Add it to `datasets`.  False when out of memory. */
bool pz_step_view_add(json_t *datasets, const struct pz_step_view *v);

#endif
