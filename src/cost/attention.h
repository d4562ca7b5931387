/* Flash attention: both GEMMs and the softmax in one kernel, which never writes the scores (Dao et
 * al., arXiv 2205.14135).
 *
 * A calibrated chip describes the kernels of a library as attention_LIBRARY (forward) and
 * attention_LIBRARY_bwd, and those that its framework uses by default as `attention` and
 * `attention_bwd`.  An item is a block of queries of one head, worked on by one core.  The numbers
 * of a kernel are: efficiency, the part of the chip's peak rate that the GEMMs reach; cycles, of a
 * vector lane for a score (softmax); queries of an item; row_s, the time of both ends of an item at
 * head width 128; tail, the part of the longest item's time by which cores end apart in causal
 * attention; splits, the largest number of pieces into which the keys of a cache are cut if there
 * are fewer items than cores; startup_s.  A missing backward kernel is the forward kernel with 5/2
 * of the work, a missing library the default. */
#ifndef PZ_COST_ATTENTION_H
#define PZ_COST_ATTENTION_H

#include "cost/power.h"

struct pz_attention_work {
  struct pz_dims dims; /* batch = samples x heads, m queries, n keys, head width k */
  enum pz_direction direction;
  bool causal;         /* queries attend to earlier keys only; other scores are skipped */
  const char *library; /* library of the kernel: fa1, fa2, cudnn, ..., or NULL for the default */
  double bytes;        /* HBM traffic */
  double cache_bytes;  /* bytes of keys and values first moved to a paged cache (serving), or 0 */
  /* Queries of the whole sequence if this device has dims.m of them in two pieces, one from each
   * end of the sequence; 0 if dims.m are all of them */
  int64_t span;
};

/* Returns the part of queries x keys that a causal kernel computes, in blocks of queries and keys:
 * half of a square.  With n < span keys (sliding window) it is the band without the triangle before
 * its first keys, with blocks at both of its edges. */
double pz_attention_causal_part(const struct pz_dims *dims, int64_t span, double queries);

/* Sets *out to the estimate of flash attention, except the utilisation, and *work to its work. */
void pz_attention_cost(const struct pz_chip *chip, const struct pz_attention_work *attention,
                       struct pz_estimate *out, struct pz_work *work);

/* Returns the kernel of a library in a direction, or NULL if the chip has none. */
const struct pz_kernel *pz_attention_kernel(const struct pz_chip *chip, const char *library,
                                            enum pz_direction direction);

#endif
