/* Communication beside compute.  The kernels of collectives occupy some of a chip's cores and a
 * part of its memory rate, which slows down kernels that run at the same time.  Engines of their
 * own (copies to the host, links of TPUs) slow down nothing.  The law was measured on an H200 with
 * a copy kernel on 4 to 48 SMs (constants beside_* of constants.def). */
#ifndef PZ_COST_BESIDE_H
#define PZ_COST_BESIDE_H

#include "core/num.h"
#include "workload/op.h"

struct pz_chip;
struct pz_constants;

/* Returns the part of the cores that collectives occupy, or 0 if links have their own engines. */
double pz_beside_cores(const struct pz_constants *constants, const struct pz_chip *chip);

/* Return the slowdown of a GEMM, of attention and of an element-wise kernel while other kernels
 * occupy the part `occupied` of the cores: the time beside them over the time alone. */
double pz_beside_gemm(const struct pz_constants *constants, const struct pz_chip *chip,
                      const struct pz_dims *dims, double occupied);
double pz_beside_attention(const struct pz_constants *constants, double occupied);
double pz_beside_elementwise(const struct pz_constants *constants, double occupied);

/* Returns the seconds until both a collective and the compute beside it have ended, if compute
 * takes `slowdown` times as long while the collective runs. */
static inline double pz_beside_together_s(double collective_s, double compute_s, double slowdown) {
  return pz_fmax(collective_s, compute_s + collective_s * (1 - 1 / slowdown));
}

/* Returns the seconds by which a collective delays the compute beside it. */
static inline double pz_beside_exposed_s(double collective_s, double compute_s, double slowdown) {
  return pz_beside_together_s(collective_s, compute_s, slowdown) - compute_s;
}

#endif
