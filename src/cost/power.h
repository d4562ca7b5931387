/* Power of what a chip runs: the energy of operators, static power, and the clock that the power
 * limit allows.
 *
 * The model.  Dynamic power is proportional to f V^2 (f: clock, V: supply voltage), and V falls
 * linearly with f down to a floor (pz_tech_voltage2).  Static power is proportional to the area; a
 * part of it, that of the clock network, also follows f V^2. Simplifications: the chip has one
 * clock and one temperature; power is averaged over one operator, so that a short peak never lowers
 * the clock; the clock is constant during an operator. */
#ifndef PZ_COST_POWER_H
#define PZ_COST_POWER_H

#include <phaze/phaze.h>

#include "chip/chip.h"

struct pz_op;
struct pz_tech_info;

/* The quantities that determine the clock of a chip. */
struct pz_power_law {
  const struct pz_tech_info
      *tech;       /* NULL for the original system's library: its clock is constant */
  double clock_hz; /* nominal clock, for which times are stated */
  double most_hz;  /* highest clock that is used, at most clock_hz */
  /* Below these clocks the cores request less than the full rate of HBM and of the global buffer,
   * in proportion to the clock. */
  double hbm_hz, glb_hz;
  double watts;     /* power limit, or 0 if none */
  double mm2;       /* area whose static power counts */
  double core_part; /* energy of the cores over that of the technology */
};

/* Returns the power law of a chip. */
struct pz_power_law pz_power_law_of(const struct pz_chip *chip);

/* The energy of one call, and its times at the chip's nominal clock.  Cycles of the cores follow
 * the clock; buffers and HBM keep the rates of the chip as long as the cores request them. */
struct pz_work {
  double core_j;    /* energy of the cores at the voltage of the technology's reference clock */
  double outside_j; /* energy of HBM and links, whatever the clock */
  double startup_s, hbm_s;
  double core_s; /* time of the cycles of the cores, and of buffers unless the chip is a GPU */
  double array_s, lane_s; /* times of tensor cores with their buffers, and of vector lanes */
  double glb_s;           /* time of the global buffer */
};

/* Return the longest time of a resource on the chip, without start-up and HBM, and the latency of
 * the call, both at the nominal clock. */
double pz_work_chip_s(const struct pz_work *work);
double pz_work_s(const struct pz_work *work);

/* Sets *out to the time, power and energy of calls that follow each other, or that begin every
 * interval_s if that is longer, at the highest clock whose power is within the limit. */
void pz_power_run(const struct pz_power_law *law, const struct pz_work *work, double interval_s,
                  struct pz_power *out);

/* Sets *out to what the chip sustains when it runs GEMMs that take a second at the nominal clock
 * and full rate, and returns their number of multiply-accumulates. */
double pz_power_products(const struct pz_chip *chip, struct pz_power *out);

/* Returns the power of a chip at rest in watts. */
double pz_power_idle_watts(const struct pz_chip *chip);

/* ---- energy of single operators, in J at the reference clock --------------------------------- */

/* Returns the energy of `macs` multiply-accumulates, with reads from global and local buffers. */
double pz_power_product_j(const struct pz_chip *chip, double macs);

/* Returns the bits of a value of an operand. */
static inline int pz_format_bits(enum pz_format format) {
  if (format == PZ_FORMAT_16BIT) return 16;
  return format == PZ_FORMAT_NVFP4 ? 4 : 8;
}

/* Returns the energy of a GEMM over that in 16 bits: it is proportional to the bits that are moved
 * and multiplied.  Measured with loops of 0.3 s (NVIDIA AIConfigurator): 8 bits 0.52 to 0.54 on an
 * H200 and a GB200; 4 bits 0.26 pJ/FLOP of 0.71 on a B200, with its casts. */
static inline double pz_power_width_part(enum pz_format format) {
  return pz_format_bits(format) / 16.0;
}

/* Returns the vector operations whose energy a value of a vector operator costs: its arithmetic,
 * and address, load, convert and store.  The original system counts only the arithmetic. */
double pz_power_lane_ops(const struct pz_chip *chip, int kind, enum pz_direction direction);

/* Returns the energy of attention: that of its GEMMs, and of the softmax of its scores, each of
 * which takes `cycles` cycles of a vector lane. */
double pz_power_attention_j(const struct pz_chip *chip, double macs, double scores, double cycles);

#endif
