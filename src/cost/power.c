/* The clock that a power limit allows, found by root finding over the power that a call draws at a
 * clock, and the energy of single operators.  cost/power.h states the model. */
#include "cost/power.h"

#include <math.h>

#include "chip/chip.h"
#include "cost/vector.h"
#include "workload/op.h"

/* Returns the power of a chip at rest, which is proportional to its area. */
double pz_power_idle_watts(const struct pz_chip *chip) {
  return pz_chip_bill(chip, PZ_BILL_LIKELY).area_mm2 * pz_tech_at(chip->tech)->static_w_per_mm2;
}

/* Returns the static watts of an area at a clock: leakage, HBM, regulators and the clock
 * network. */
static double static_watts(const struct pz_tech_info *tech, double mm2, double clock_hz) {
  return mm2 * (tech->static_w_per_mm2 + tech->clock_w_per_mm2 * clock_hz / tech->reference_hz *
                                             pz_tech_voltage2(tech, clock_hz));
}

/* Returns the static power of a chip at the clock it sustains (0 for those of the original
 * system). */
double pz_power_static_watts(const struct pz_chip *chip) {
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  if (pz_tech_is_library(tech)) return 0;
  double sustained_hz = fmin(chip->clock_hz, tech->reference_hz);
  return static_watts(tech, pz_chip_bill(chip, PZ_BILL_LIKELY).area_mm2, sustained_hz);
}

/* ---- the clock within a power limit ---------------------------------------------------------- */

/* Returns the numbers of a chip that determine its clock under a power limit.  The cores of a GPU
 * request the full HBM rate down to the clock that the technology sustains: copies on an H200 at
 * locked clocks keep 4.2 TB/s down to 1,500 MHz, and reach 0.78, 0.54 and 0.40 of it at 1,200, 900
 * and 600 MHz.  Other chips have DMA engines with clocks of their own. */
struct pz_power_law pz_power_law_of(const struct pz_chip *chip) {
  const struct pz_tech_info *bill_tech = pz_tech_at(pz_chip_bill_tech(chip));
  bool cores_request_hbm = chip->execution == PZ_CHIP_STREAM;
  double sustained_hz = fmin(chip->clock_hz, pz_tech_at(chip->tech)->reference_hz);
  double cores = (double)chip->tensor.cores, glb_core_bytes = chip->glb_core_bytes;
  double area_mm2 =
      chip->static_mm2 > 0 ? chip->static_mm2 : pz_chip_bill(chip, PZ_BILL_LIKELY).area_mm2;
  return (struct pz_power_law){
      .tech = pz_tech_is_library(bill_tech) ? NULL : bill_tech,
      .clock_hz = chip->clock_hz,
      .hbm_hz = cores_request_hbm ? sustained_hz : 0,
      .glb_hz = glb_core_bytes > 0 ? chip->glb_bytes_per_s / cores / glb_core_bytes : 0,
      .most_hz = chip->clock_hz,
      .watts = chip->watts,
      .core_part = chip->energy_part > 0 ? chip->energy_part : 1,
      .mm2 = area_mm2};
}

/* Returns the longest time of a resource on the chip at the nominal clock. */
double pz_work_chip_s(const struct pz_work *work) {
  return fmax(fmax(work->core_s, work->array_s), fmax(work->lane_s, work->glb_s));
}

/* Returns the latency of a call at the nominal clock. */
double pz_work_s(const struct pz_work *work) {
  return work->startup_s + fmax(pz_work_chip_s(work), work->hbm_s);
}

/* Returns time, power and energy of a call at a clock.  The time of the cores' cycles is inversely
 * proportional to the clock.  HBM and the global buffer keep their rates down to the clocks hbm_hz
 * and glb_hz. Calls begin every interval_s if that is longer than a call. */
static struct pz_power run_at_clock(const struct pz_power_law *law, const struct pz_work *work,
                                    double interval_s, double clock_hz) {
  double cores_s = fmax(work->core_s * law->clock_hz, work->glb_s * law->glb_hz) / clock_hz;
  double chip_s = fmax(cores_s, pz_work_chip_s(work));
  double work_s = fmax(chip_s, work->hbm_s * fmax(1, law->hbm_hz / clock_hz));
  double latency_s = work->startup_s + work_s, period_s = fmax(latency_s, interval_s);
  double voltage2 = law->tech ? pz_tech_voltage2(law->tech, clock_hz) : 1;
  double dynamic_j = work->core_j * law->core_part * voltage2 + work->outside_j;
  double static_j = law->tech ? static_watts(law->tech, law->mm2, clock_hz) * period_s : 0;
  double joules = dynamic_j + static_j;
  return (struct pz_power){latency_s, period_s > 0 ? joules / period_s : 0, joules, clock_hz};
}

/* Returns the highest clock between `low` and `high` whose power is within the limit, or `low` if
 * there is none.  Power grows with the clock and is above the limit at `high`.  The method is
 * regula falsi with the Illinois modification: the weight of an end that stays twice is halved. */
static double highest_clock_within(const struct pz_power_law *law, const struct pz_work *work,
                                   double interval_s, double low, double high) {
  enum { MOST_STEPS = 60 };
  static const double TOLERANCE = 1e-13;
  double below = run_at_clock(law, work, interval_s, low).watts - law->watts;
  if (below > 0) return low;
  double above = run_at_clock(law, work, interval_s, high).watts - law->watts;
  int last_moved = 0; /* 1 if the high end moved last, -1 if the low end did */
  for (int i = 0; i < MOST_STEPS && high - low > TOLERANCE * high; i++) {
    double middle = (low * above - high * below) / (above - below);
    if (!(middle > low && middle < high)) middle = (low + high) / 2;
    double excess = run_at_clock(law, work, interval_s, middle).watts - law->watts;
    if (excess > 0) {
      if (excess < TOLERANCE * law->watts) return middle;
      high = middle;
      above = excess;
      if (last_moved > 0) below /= 2;
      last_moved = 1;
    } else {
      low = middle;
      below = excess;
      if (excess > -TOLERANCE * law->watts) return low;
      if (last_moved < 0) above /= 2;
      last_moved = -1;
    }
  }
  return low;
}

/* Sets *out to time, power and energy of repeated calls at the highest clock within the power
 * limit.  If even the lowest clock draws too much, the chip waits between calls until the mean is
 * within it. */
void pz_power_run(const struct pz_power_law *law, const struct pz_work *work, double interval_s,
                  struct pz_power *out) {
  static const double LEAST_CLOCK = 0.05; /* lowest clock over the one that the chip sustains */
  *out = run_at_clock(law, work, interval_s, law->most_hz);
  bool has_limit = law->watts > 0;
  bool has_clocks = law->tech != NULL; /* else the clock is constant (struct pz_power_law) */
  if (!has_limit || out->watts <= law->watts || !has_clocks) return;
  /* Lower the clock until the power is within the limit. */
  double sustained_hz = fmin(law->clock_hz, law->tech->reference_hz);
  double least_hz = fmin(LEAST_CLOCK * sustained_hz, law->most_hz);
  double allowed_hz = highest_clock_within(law, work, interval_s, least_hz, law->most_hz);
  *out = run_at_clock(law, work, interval_s, allowed_hz);
  static const double ROUNDING = 1 + 1e-12;
  if (out->watts <= law->watts * ROUNDING) return;
  /* Idle power leaves dynamic_watts for the energy of the work; without any, it never ends. */
  double idle_watts = static_watts(law->tech, law->mm2, allowed_hz);
  double dynamic_watts = law->watts - idle_watts;
  double period_s = fmax(out->latency_s, interval_s);
  double dynamic_j = out->joules - idle_watts * period_s;
  out->latency_s = dynamic_watts > 0 ? dynamic_j / dynamic_watts : HUGE_VAL;
  out->watts = law->watts;
  out->joules = dynamic_watts > 0 ? law->watts * out->latency_s : HUGE_VAL;
}

/* Sets *out to the power and clock that the chip sustains in GEMMs that take one second at the
 * nominal clock, and returns their number of multiply-accumulates. */
double pz_power_products(const struct pz_chip *chip, struct pz_power *out) {
  double macs = pz_chip_tensor_flop_per_s(chip) / 2 * chip->calibration.tensor_efficiency;
  struct pz_work work = {.core_j = pz_power_product_j(chip, macs), .core_s = 1};
  struct pz_power_law law = pz_power_law_of(chip);
  pz_power_run(&law, &work, 0, out);
  return macs;
}

/* Returns the clock at which the model lets a chip run GEMMs.  For a chip known only by its data
 * sheet ("cold"), it is the highest one within the power limit.  For others it is the nominal
 * clock: measured GEMM rates already include the effect of the limit, and the chips of the original
 * system have one clock. */
double pz_chip_gemm_hz(const struct pz_chip *chip) {
  struct pz_power power = {.clock_hz = chip->clock_hz};
  bool is_unmeasured = chip->cold;
  if (is_unmeasured) (void)pz_power_products(chip, &power);
  return power.clock_hz;
}

/* ---- energy of single operators -------------------------------------------------------------- */

/* Returns the energy of multiply-accumulates in J.  Operands are read from the global buffer once
 * for each tile of side x side results, whose sums fill a quarter of a core's buffer.  A
 * multiply-accumulate then reads 2 e / side bytes from it for operands of e bytes. */
double pz_power_product_j(const struct pz_chip *chip, double macs) {
  const struct pz_tech_info *tech = pz_tech_at(pz_chip_bill_tech(chip));
  double side = sqrt((double)chip->tensor.local_bytes / 4 / (double)chip->rules.sum_bytes);
  return macs * (tech->mac_j + pz_chip_local_bytes_per_mac(chip) * tech->local_j +
                 2 * (double)chip->rules.operand_bytes / side * tech->glb_j);
}

/* Returns the vector operations whose energy a value of a vector operator costs. */
double pz_power_lane_ops(const struct pz_chip *chip, int kind, enum pz_direction direction) {
  /* MOVE: address, load, convert, store.  NORM: a norm in 32 bits squares, sums, reduces over the
   * row, loads again, scales twice, multiplies by the weight and converts. */
  static const double MOVE = 4, NORM = 14;
  double cycles = pz_vector_cycles(chip, kind, direction);
  if (pz_tech_is_library(pz_tech_at(chip->tech))) return cycles;
  bool is_norm = kind == PZ_OP_LAYERNORM || kind == PZ_OP_RMSNORM;
  return MOVE + (is_norm ? fmax(cycles, NORM) : cycles);
}

/* Returns the energy of attention in J: that of its GEMMs and of the softmax of its scores. */
double pz_power_attention_j(const struct pz_chip *chip, double macs, double scores, double cycles) {
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  if (pz_tech_is_library(tech)) return macs * tech->mac_j;
  return macs * (tech->mac_j + pz_chip_local_bytes_per_mac(chip) * tech->local_j) +
         scores * cycles * tech->lane_j;
}
