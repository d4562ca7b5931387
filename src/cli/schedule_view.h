/* Output of 'phaze schedule': the schedules of a model's layers, of a plan's passes, or of an instance. */
#ifndef PZ_CLI_SCHEDULE_VIEW_H
#define PZ_CLI_SCHEDULE_VIEW_H

#include "core/call.h"
#include "report/schedule_table.h"

struct pz_schedule_view {
  const struct pz_layer_schedule *const *list; /* one for an instance */
  const double *seconds;                       /* solving time of each; NULL: unknown */
  uint32_t n;
  const char *model;                      /* NULL: an instance */
  const struct pz_workload *workload;     /* of a model without a plan, else NULL */
  const struct pz_plan_schedules *passes; /* of a model with a plan, else NULL */
  const char *chip, *cluster;             /* cluster of a plan; NULL: the chip's own link */
  const struct pz_schedule_options *how;
  bool whole;  /* all layers are listed, so that there are totals */
  bool charts; /* draw each schedule as a chart */
};

/* Returns the schedules as JSON, a new reference, or prints them as text. */
json_t *pz_schedule_view_json(const struct pz_schedule_view *v);
void pz_schedule_view_print(struct pz_call *call, const struct pz_schedule_view *v);

#endif
