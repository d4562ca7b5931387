/* Communication beside compute.  Kernels of collectives hold some of a chip's cores and a part of its memory's rate, so
 * that compute beside them is slower; engines of their own (copies to the host, links of TPUs) take nothing. */
#ifndef PZ_COST_BESIDE_H
#define PZ_COST_BESIDE_H

#include "core/num.h"
#include "workload/op.h"

struct pz_chip;
struct pz_constants;

/* Part of the chip's cores that kernels of collectives hold: 0 where links have engines of their own. */
double pz_beside_cores(const struct pz_constants *k, const struct pz_chip *c);

/* How many times longer kernels take while others hold `part` of the cores. */
double pz_beside_gemm(const struct pz_constants *k, const struct pz_chip *c,
                      const struct pz_dims *d, double part);
double pz_beside_attention(const struct pz_constants *k, double part);
double pz_beside_elementwise(const struct pz_constants *k, double part);

/* A collective of `side_s` beside compute of `compute_s` that it slows down so many times: both together. */
static inline double pz_beside_together_s(double side_s, double compute_s, double slowdown) {
  return pz_fmax(side_s, compute_s + side_s * (1 - 1 / slowdown));
}

/* Of these, what the collective adds. */
static inline double pz_beside_exposed_s(double side_s, double compute_s, double slowdown) {
  return pz_beside_together_s(side_s, compute_s, slowdown) - compute_s;
}

#endif
