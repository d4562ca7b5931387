/* Power of an operator that a chip runs again and again: energy of what it does, static power, and the
 * clock that the chip's limit allows.  Dynamic power grows with f V^2, and V follows f. */
#ifndef PZ_COST_POWER_H
#define PZ_COST_POWER_H

#include <phaze/phaze.h>

/* What one call does, and its time at the chip's clock: the cores' part follows the clock. */
struct pz_work {
  double macs, mac_part; /* energy of a multiply-accumulate over that of 16 bits */
  double lane_ops, local_bytes, glb_bytes, hbm_bytes;
  double activity; /* part of the cores' energy: data that are all zero switch no wires */
  double startup_s, core_s, hbm_s;
};

/* Sustained: calls follow each other, or come every interval_s where that is longer.  The limit is
 * chip->watts; 0: none.  A chip of one of the original libraries has no static power and keeps its
 * clock. */
void pz_power_sustained(const struct pz_chip *c, const struct pz_work *w, double interval_s,
                        struct pz_power *out);

/* Of a chip at rest. */
double pz_power_idle_watts(const struct pz_chip *c);

/* Lane operations that a value of a vector operator takes energy for: address, load, convert and store
 * beside the arithmetic.  The original libraries count the arithmetic. */
double pz_power_lane_ops(const struct pz_chip *c, int kind, enum pz_direction direction);

/* Energy of products of attention and of the softmax of its scores, `cycles` of a lane each. */
double pz_power_attention_j(const struct pz_chip *c, double macs, double scores, double cycles);

#endif
