/* A table of kernels that ran beside communication, as measured on one device: columns compute (gemm, attention, or an
 * element-wise operator of cost/ops_table.h), m, n, k, beside, sms (cores that a resident kernel holds),
 * compute_alone_us, compute_together_us; slowdown, side_alone_gb_s and side_together_gb_s may stand beside them and are
 * not used. */
#ifndef PZ_COST_BESIDE_TABLE_H
#define PZ_COST_BESIDE_TABLE_H

#include "core/csv.h"
#include "cost/cost.h"

enum { PZ_BESIDE_MOST_ROWS = 100000 };

/* What ran beside the kernel, with these words in column `beside`. */
enum pz_beside_what {
  PZ_BESIDE_RESIDENT,  /* resident copy: a kernel on some cores, as those of collectives are */
  PZ_BESIDE_ENGINE,    /* copy engine device to device */
  PZ_BESIDE_TO_HOST,   /* to the host */
  PZ_BESIDE_FROM_HOST, /* from the host */
  PZ_BESIDE_WHATS
};
extern const char *const pz_beside_names[PZ_BESIDE_WHATS];

struct pz_beside_row {
  const char *compute;
  int64_t m, n, k, sms;
  enum pz_beside_what beside;
  double alone_s, together_s; /* as measured */
  double own_alone_s; /* as the model predicts it; 0: attention, whose heads no column has */
  double slowdown;    /* by the law of cost/beside.h; 0: not covered */
  const char *reason; /* why not; "" if it is */
};

/* Rows in the arena, csv->rows of them. */
PZ_NODISCARD enum pz_status pz_beside_predict(struct pz_cost *cost, const char *name,
                                              const struct pz_csv *csv, struct pz_arena *arena,
                                              const struct pz_beside_row **rows,
                                              struct pz_error *err);

#endif
