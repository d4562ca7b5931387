/* Output of 'phaze schedule': the schedules of a model's layers, of a plan's passes, or of an instance. */
#ifndef PZ_CLI_SCHEDULE_VIEW_H
#define PZ_CLI_SCHEDULE_VIEW_H

#include "report/schedule_table.h"

struct pz_schedule_view {
  const struct pz_layer_schedule *const *list; /* of an instance: one */
  const double *seconds;                       /* what solving each took; NULL: not known */
  uint32_t n;
  const char *model;                      /* NULL: an instance */
  const struct pz_workload *workload;     /* of a model alone ... */
  const struct pz_plan_schedules *passes; /* ... or as a plan runs it */
  const char *chip, *cluster;             /* cluster: of a plan; NULL: the chip's own link */
  const struct pz_schedule_options *how;
  bool whole;  /* all layers of the model: with totals */
  bool charts; /* draw every schedule of a model */
};

/* NULL when out of memory. */
json_t *pz_schedule_view_json(const struct pz_schedule_view *v);

PZ_NODISCARD enum pz_status pz_schedule_view_print(const struct pz_schedule_view *v,
                                                   struct pz_arena *arena);

#endif
