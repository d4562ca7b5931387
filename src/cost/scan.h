/* State-space layers: Mamba-2's scan (Dao and Gu, arXiv 2405.21060) and the gated delta rule (Yang
 * et al., arXiv 2412.06464), computed in chunks of tokens.  Some kernels work on all chunks at a
 * time (GEMMs of a chunk's tokens with each other and with states), and a pass hands the state from
 * one chunk to the next.  What they compute, read and write is counted from state-spaces/mamba
 * (ops/triton/ssd_combined.py) and fla-org/flash-linear-attention (ops/gated_delta_rule/chunk.py),
 * forward and backward; how fast they are is in `scan_*` of constants.def. */
#ifndef PZ_COST_SCAN_H
#define PZ_COST_SCAN_H

#include "chip/chip.h"

struct pz_scan_work {
  int kind; /* PZ_OP_SSM_SCAN or PZ_OP_DELTA_RULE */
  enum pz_direction direction;
  /* batch = samples x heads, m tokens of a sample; Mamba-2: width n of a state and k of a head;
   * delta rule: width n of a value and k of a key */
  struct pz_dims dims;
  int64_t chunk; /* tokens of a chunk */
  double bytes;  /* inputs read once and results written once */
  double macs;   /* a lower bound on multiply-accumulates; kernels compute whole chunks */
  bool warm;     /* the call is repeated, so that data can stay in the global buffer */
  bool served;   /* forward by kernels of serving libraries, whose tiles are fixed */
};

/* The work of a scan on any chip. */
struct pz_scan_counts {
  double macs, bytes, lane_ops; /* multiply-accumulates, memory traffic, and vector operations */
  double pass_macs, pass_bytes; /* of these, those of the pass over the chunks */
  double kernels;               /* number of kernels */
};

/* Returns what the kernels of a scan compute, read and write. */
struct pz_scan_counts pz_scan_counts(const struct pz_scan_work *work);

/* Returns the work of an operator of a graph. */
struct pz_scan_work pz_scan_work_of(const struct pz_op *op);

struct pz_scan_time {
  double startup_s;
  double compute_s; /* time of GEMMs and lanes, and of chunks that wait for the chunk before */
  double hbm_s, lane_s;
  double work_s; /* compute and HBM traffic together, which overlap in part */
};

/* Sets *out to the times of a scan on a chip. */
void pz_scan_time(const struct pz_chip *chip, const struct pz_scan_work *work,
                  struct pz_scan_time *out);

#endif
