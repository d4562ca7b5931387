/* Tables of kernels that ran beside communication on one device.  The columns are compute (gemm,
 * attention, or an element-wise operator of cost/ops_table.h), m, n, k, beside, sms (cores that a
 * resident kernel occupies), compute_alone_us and compute_together_us; the columns slowdown,
 * side_alone_gb_s and side_together_gb_s are accepted and not used. */
#ifndef PZ_COST_BESIDE_TABLE_H
#define PZ_COST_BESIDE_TABLE_H

#include "core/csv.h"
#include "cost/cost.h"

enum { PZ_BESIDE_MOST_ROWS = 100000 };

/* The communication beside a kernel.  pz_beside_names has the words of column `beside`. */
enum pz_beside_activity {
  PZ_BESIDE_RESIDENT,  /* a copy kernel on some of the cores, like the kernels of collectives */
  PZ_BESIDE_ENGINE,    /* the copy engine, between buffers of the device */
  PZ_BESIDE_TO_HOST,   /* a transfer to the host */
  PZ_BESIDE_FROM_HOST, /* a transfer from the host */
  PZ_BESIDE_ACTIVITIES
};
extern const char *const pz_beside_names[PZ_BESIDE_ACTIVITIES + 1]; /* ends with NULL */

struct pz_beside_row {
  const char *compute; /* the kernel: a word of column `compute` */
  int64_t m, n, k;
  int64_t sms; /* cores that the resident kernel occupies */
  enum pz_beside_activity beside;
  double alone_s, together_s; /* measured times of the kernel, alone and beside communication */
  double own_alone_s; /* predicted time alone, or 0 for attention, whose heads are unknown */
  double slowdown;    /* predicted ratio of both times, or 0 if not modelled */
  const char *reason; /* reason why the slowdown is not modelled, or "" if it is */
};

/* Reads and predicts a table; the result has csv->rows rows. */
const struct pz_beside_row *pz_beside_predict_csv(struct pz_call *call, struct pz_cost *cost,
                                                  const char *name, const struct pz_csv *csv);

#endif
