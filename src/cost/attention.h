/* Flash attention: both products and the softmax in one kernel, scores never written.
 *
 * A calibrated chip describes the kernels of a library by `attention_LIBRARY` (forward) and
 * `attention_LIBRARY_bwd`, those its framework takes by default by `attention` and `attention_bwd`:
 * efficiency, the part of the chip's peak that the products reach; cycles, of a lane for a score:
 * the softmax; queries of an item; row_s, of the ends of an item at head width 128; tail, the part
 * of the longest item by which causal cores end apart; splits, into how many pieces the keys of a
 * cache are cut at most where items are fewer than cores; startup_s.
 * A missing derivative is the forward kernel at 5/2 of the work, a missing library the default. */
#ifndef PZ_COST_ATTENTION_H
#define PZ_COST_ATTENTION_H

#include "cost/power.h"

struct pz_attention_work {
  struct pz_dims dims; /* batch = samples x heads, m queries, n keys, head width k */
  enum pz_direction direction;
  bool causal;         /* the upper half of the scores is skipped */
  const char *library; /* of kernels: fa1, fa2, cudnn, ...; NULL: the default */
  double bytes;        /* between HBM and the chip */
  double cache_bytes;  /* of serving: keys and values moved to a paged cache first; 0: none */
  int64_t span; /* queries of which dims.m are here, in two pieces, one from each end; 0: dims.m */
};

/* Part of the queries x keys that a causal kernel computes, by blocks of queries and keys: half of a
 * square, or of a band of n < span keys (a sliding window) all but the triangle before its first keys,
 * with blocks at both of its edges. */
double pz_attention_causal_part(const struct pz_dims *d, int64_t span, double queries);

/* All of *out but the utilisation, and what it does. */
void pz_attention_cost(const struct pz_chip *c, const struct pz_attention_work *a,
                       struct pz_estimate *out, struct pz_work *w);

/* The kernel of a library in a direction, if the chip has one of exactly this name. */
const struct pz_kernel *pz_attention_kernel(const struct pz_chip *c, const char *library,
                                            enum pz_direction direction);

#endif
