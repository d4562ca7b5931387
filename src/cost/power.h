/* Power of what a chip runs: energy of what an operator does, static power, and the clock that the chip's limit allows.
 * Dynamic power grows with f V^2, and V follows f down to a floor.  Power is averaged over one operator. */
#ifndef PZ_COST_POWER_H
#define PZ_COST_POWER_H

#include <phaze/phaze.h>

#include "chip/chip.h"

struct pz_op;
struct pz_tech_info;

/* What decides about the clock of a chip. */
struct pz_power_law {
  const struct pz_tech_info *
      tech; /* NULL: one of the original libraries, which has no static power and keeps its clock */
  double clock_hz; /* that times are stated for */
  double most_hz;  /* at which it runs where its watts allow: at most clock_hz */
  /* below these, cores ask HBM and the global buffer for less than their rates, in proportion */
  double hbm_hz, glb_hz;
  double watts;     /* limit; 0: none */
  double mm2;       /* whose static power counts */
  double core_part; /* of the cores' energy, over what the technology says */
};

struct pz_power_law pz_power_law_of(const struct pz_chip *c);

/* What one call does, and its time at the chip's clock.  Cycles of the cores follow the clock; buffers and HBM keep the rates
 * that the chip states as long as cores ask for them. */
struct pz_work {
  double core_j;    /* at the voltage of the technology's reference clock */
  double outside_j; /* of HBM and links, whatever the clock */
  double startup_s, hbm_s;
  double core_s; /* cycles of the cores, and of buffers unless the chip is a GPU */
  /* at the tensor cores and their buffers, at the vector cores, at the global buffer */
  double array_s, lane_s, glb_s;
};

/* On chip, without start-up, and all of it, at the chip's clock. */
double pz_work_chip_s(const struct pz_work *w);
double pz_work_s(const struct pz_work *w);

/* Calls follow each other, or come every interval_s where that is longer: at the highest clock whose watts are within
 * the limit. */
void pz_power_run(const struct pz_power_law *law, const struct pz_work *w, double interval_s,
                  struct pz_power *out);

/* A second of products at full rate, at the chip's clock; returns how many multiply-accumulates these are. */
double pz_power_products(const struct pz_chip *c, struct pz_power *out);

/* Of a chip at rest. */
double pz_power_idle_watts(const struct pz_chip *c);

/* ---- energy of what is computed, J at the reference clock ------------------------------------------ */

/* A product of so many multiply-accumulates on the tensor cores, operands from global and local buffers included; the
 * global buffer hands them over in tiles that a quarter of a core's buffer holds the sums of. */
double pz_power_product_j(const struct pz_chip *c, double macs);

/* Bits of an operand's value. */
static inline int pz_format_bits(enum pz_format f) {
  return f == PZ_FORMAT_16BIT ? 16 : f == PZ_FORMAT_NVFP4 ? 4 : 8;
}

/* Energy of a product over that in 16 bit: in proportion to the bits that move and are multiplied.  8 bit: 0.52 to 0.54 on
 * an H200 and a GB200; 4 bit: 0.26 pJ a FLOP of 0.71 on a B200, with its casts (NVIDIA AIConfigurator, loops of 0.3 s). */
static inline double pz_power_width_part(enum pz_format f) { return pz_format_bits(f) / 16.0; }

/* Lane operations that a value of a vector operator takes energy for: address, load, convert and store
 * beside the arithmetic.  The original libraries count the arithmetic. */
double pz_power_lane_ops(const struct pz_chip *c, int kind, enum pz_direction direction);

/* Products of attention and the softmax of its scores, `cycles` of a lane each. */
double pz_power_attention_j(const struct pz_chip *c, double macs, double scores, double cycles);

#endif
