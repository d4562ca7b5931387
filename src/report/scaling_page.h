/* The best plan for each number of devices, as one HTML file that opens offline: step time and tokens/s of a device where
 * there are several, the parts of the step, its pipeline and memory over time. */
#ifndef PZ_REPORT_SCALING_PAGE_H
#define PZ_REPORT_SCALING_PAGE_H

#include "core/json.h"

struct pz_scaling_row {
  int64_t devices, batch;
  const struct pz_training_run *run; /* the best plan; NULL: nothing fits */
  const char *plan;                  /* in words */
  double tokens_per_s_per_device;    /* of the devices at hand */
  const double *parts_s;             /* of the step, by part; NULL: nothing fits */
};

struct pz_scaling {
  const char *model, *chip, *cluster; /* cluster NULL: the chip's own link */
  bool weak;                          /* the batch grows with the devices */
  const struct pz_scaling_row *rows;  /* by devices, ascending; at least one has a plan */
  uint32_t n;
  const char *const *part_names; /* of the parts of a step */
  uint32_t n_parts;
  const char *explore; /* page of `phaze explore` that lies beside; NULL: none */
  const json_t *steps; /* datasets of every run, by pz_step_view_add */
};

/* HTML text, the caller's to pz_free. */
PZ_NODISCARD enum pz_status pz_scaling_page(const struct pz_scaling *s, char **text, size_t *bytes,
                                            struct pz_error *err);

#endif
