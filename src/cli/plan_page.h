/* --report: training plans as one HTML page. */
#ifndef PZ_CLI_PLAN_PAGE_H
#define PZ_CLI_PLAN_PAGE_H

#include "cli/machine_options.h"
#include "core/arena.h"

struct pz_plan_page_row {
  int64_t devices, batch;
  const struct pz_training_run *run; /* NULL: nothing fits */
  double tokens_per_s_per_device;    /* of the devices at hand */
};

struct pz_plan_page {
  const char *path, *model;
  const struct pz_machine *machine;
  bool weak;                           /* the batch grows with the devices */
  const struct pz_plan_page_row *rows; /* at least one has a run */
  uint32_t n;
};

/* Write it.  Each run is predicted again with its events, one at a time. */
PZ_NODISCARD enum pz_status pz_plan_page_write(const struct pz_plan_page *p, struct pz_arena *arena,
                                               struct pz_error *err);

#endif
