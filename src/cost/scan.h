/* State-space layers: Mamba-2's scan (Dao and Gu, arXiv 2405.21060) and the gated delta rule (Yang et al., arXiv
 * 2412.06464), in chunks of tokens.  Kernels for all chunks at a time (products of a chunk's tokens with each other and
 * with states), and a pass over the chunks, one after the other, that hands the state on.  What they compute, read and
 * write is counted from state-spaces/mamba (ops/triton/ssd_combined.py) and fla-org/flash-linear-attention
 * (ops/gated_delta_rule/chunk.py), forward and backward; how fast, is `scan_*` of constants.def. */
#ifndef PZ_COST_SCAN_H
#define PZ_COST_SCAN_H

#include "chip/chip.h"

struct pz_scan_work {
  int kind; /* PZ_OP_SSM_SCAN, PZ_OP_DELTA_RULE */
  enum pz_direction direction;
  struct pz_dims
      dims; /* batch = samples x heads, m tokens of a sample; width n of a state and k of a head (Mamba-2), n
                          of a value and k of a key */
  int64_t chunk; /* tokens */
  double bytes;  /* inputs read once and results written once */
  double macs;   /* multiply-accumulates of the products at least; kernels compute whole chunks */
  bool warm;     /* as in pz_product */
  bool served;   /* forward by kernels of serving libraries, whose tiles are fixed */
};

/* What any chip has to do for it. */
struct pz_scan_counts {
  double macs, bytes, lane_ops;
  double kernels;
};

struct pz_scan_counts pz_scan_counts(const struct pz_scan_work *w);

/* The work of an operator of a graph. */
struct pz_scan_work pz_scan_work_of(const struct pz_op *op);

struct pz_scan_time {
  double startup_s;
  double compute_s; /* of products and lanes, and of chunks that wait for the one before */
  double hbm_s, lane_s;
  double work_s; /* both together: not less than either */
};

void pz_scan_time(const struct pz_chip *c, const struct pz_scan_work *w, struct pz_scan_time *out);

#endif
