#include "cost/power.h"

#include <math.h>

#include "chip/chip.h"
#include "cost/vector.h"
#include "workload/op.h"

static const struct pz_tech_info *tech_of(const struct pz_chip *c) {
  const struct pz_tech_info *t = pz_tech_at(pz_chip_bill_tech(c));
  return pz_tech_is_library(t) ? NULL : t;
}

double pz_power_idle_watts(const struct pz_chip *c) {
  return pz_chip_bill(c, PZ_BILL_LIKELY).area_mm2 * pz_tech_at(c->tech)->static_w_per_mm2;
}

/* At a clock: leakage, HBM and regulators at rest, and the clock's own network. */
static double static_watts(const struct pz_tech_info *t, double mm2, double clock_hz) {
  return mm2 * (t->static_w_per_mm2 +
                t->clock_w_per_mm2 * clock_hz / t->reference_hz * pz_tech_voltage2(t, clock_hz));
}

double pz_power_static_watts(const struct pz_chip *c) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  if (pz_tech_is_library(t)) return 0;
  return static_watts(t, pz_chip_bill(c, PZ_BILL_LIKELY).area_mm2,
                      fmin(c->clock_hz, t->reference_hz));
}

/* ---- sustained ------------------------------------------------------------------------------ */

/* Cores of a GPU ask for all of the HBM rate down to the clock that the technology sustains: copies on an H200 at locked
 * clocks keep 4.2 TB/s down to 1,500 MHz, and take 0.78, 0.54 and 0.40 of it at 1,200, 900 and 600.  Other chips have DMA
 * engines with clocks of their own. */
struct pz_power_law pz_power_law_of(const struct pz_chip *c) {
  bool cores_ask = c->execution == PZ_CHIP_STREAM;
  double cores = (double)c->tensor.cores;
  return (struct pz_power_law){
      .tech = tech_of(c),
      .clock_hz = c->clock_hz,
      .hbm_hz = cores_ask ? fmin(c->clock_hz, pz_tech_at(c->tech)->reference_hz) : 0,
      .glb_hz = c->glb_core_bytes > 0 ? c->glb_bytes_per_s / cores / c->glb_core_bytes : 0,
      .most_hz = c->clock_hz,
      .watts = c->watts,
      .core_part = c->energy_part > 0 ? c->energy_part : 1,
      .mm2 = c->static_mm2 > 0 ? c->static_mm2 : pz_chip_bill(c, PZ_BILL_LIKELY).area_mm2};
}

double pz_work_chip_s(const struct pz_work *w) {
  return fmax(fmax(w->core_s, w->array_s), fmax(w->lane_s, w->glb_s));
}

double pz_work_s(const struct pz_work *w) {
  return w->startup_s + fmax(pz_work_chip_s(w), w->hbm_s);
}

static void at_clock(const struct pz_power_law *l, const struct pz_work *w, double interval_s,
                     double clock_hz, struct pz_power *out) {
  double cores_s = fmax(w->core_s * l->clock_hz, w->glb_s * l->glb_hz) / clock_hz;
  double chip_s = fmax(cores_s, pz_work_chip_s(w));
  double work_s = fmax(chip_s, w->hbm_s * fmax(1, l->hbm_hz / clock_hz));
  double latency = w->startup_s + work_s, time = fmax(latency, interval_s);
  double dynamic =
      w->core_j * l->core_part * (l->tech ? pz_tech_voltage2(l->tech, clock_hz) : 1) + w->outside_j;
  double joules = dynamic + (l->tech ? static_watts(l->tech, l->mm2, clock_hz) * time : 0);
  *out = (struct pz_power){latency, time > 0 ? joules / time : 0, joules, clock_hz};
}

/* The highest clock within the watts, which grow with it, between one within and one beyond: regula falsi, whose ends take
 * turns (Illinois). */
static double clock_within(const struct pz_power_law *l, const struct pz_work *w, double interval_s,
                           double low, double high) {
  enum { STEPS = 60 };
  static const double NEAR = 1e-13;
  struct pz_power p;
  at_clock(l, w, interval_s, low, &p);
  double below = p.watts - l->watts;
  if (below > 0) return low;
  at_clock(l, w, interval_s, high, &p);
  double above = p.watts - l->watts;
  int side = 0;
  for (int i = 0; i < STEPS && high - low > NEAR * high; i++) {
    double middle = (low * above - high * below) / (above - below);
    if (!(middle > low && middle < high)) middle = (low + high) / 2;
    at_clock(l, w, interval_s, middle, &p);
    double here = p.watts - l->watts;
    if (here > 0) {
      if (here < NEAR * l->watts) return middle;
      high = middle;
      above = here;
      if (side > 0) below /= 2;
      side = 1;
    } else {
      low = middle;
      below = here;
      if (here > -NEAR * l->watts) return low;
      if (side < 0) above /= 2;
      side = -1;
    }
  }
  return low;
}

void pz_power_run(const struct pz_power_law *l, const struct pz_work *w, double interval_s,
                  struct pz_power *out) {
  static const double LEAST_CLOCK = 0.05; /* of the chip's, or of what its technology sustains */
  at_clock(l, w, interval_s, l->most_hz, out);
  if (l->watts <= 0 || out->watts <= l->watts || !l->tech) return;
  double sustained_hz = fmin(l->clock_hz, l->tech->reference_hz);
  double low = fmin(LEAST_CLOCK * sustained_hz, l->most_hz), high = l->most_hz;
  low = clock_within(l, w, interval_s, low, high);
  at_clock(l, w, interval_s, low, out);
  if (out->watts <= l->watts * (1 + 1e-12)) return;
  double least = static_watts(l->tech, l->mm2, low); /* it waits between calls */
  double room = l->watts - least, dynamic = out->joules - least * fmax(out->latency_s, interval_s);
  out->latency_s = room > 0 ? dynamic / room : HUGE_VAL;
  out->watts = l->watts;
  out->joules = room > 0 ? l->watts * out->latency_s : HUGE_VAL;
}

double pz_power_products(const struct pz_chip *c, struct pz_power *out) {
  double macs = pz_chip_tensor_flop_per_s(c) / 2 * c->calibration.tensor_efficiency;
  struct pz_work w = {.core_j = pz_power_product_j(c, macs), .core_s = 1};
  struct pz_power_law law = pz_power_law_of(c);
  pz_power_run(&law, &w, 0, out);
  return macs;
}

double pz_chip_gemm_hz(const struct pz_chip *c) {
  struct pz_power p = {.clock_hz = c->clock_hz};
  if (c->cold) (void)pz_power_products(c, &p);
  return p.clock_hz;
}

/* ---- energy of single operators -------------------------------------------------------------- */

double pz_power_product_j(const struct pz_chip *c, double macs) {
  const struct pz_tech_info *t = pz_tech_at(pz_chip_bill_tech(c));
  double tile = sqrt((double)c->tensor.local_bytes / 4 / (double)c->rules.sum_bytes);
  return macs * (t->mac_j + pz_chip_local_bytes_per_mac(c) * t->local_j +
                 2 * (double)c->rules.operand_bytes / tile * t->glb_j);
}

double pz_power_lane_ops(const struct pz_chip *c, int kind, enum pz_direction direction) {
  /* address, load, convert, store; a norm in 32 bits: square, sum, reduce over the row, load again,
   * scale twice, weight, convert */
  static const double MOVE = 4, NORM = 14;
  double cycles = pz_vector_cycles(c, kind, direction);
  if (pz_tech_is_library(pz_tech_at(c->tech))) return cycles;
  return MOVE + (kind == PZ_OP_LAYERNORM || kind == PZ_OP_RMSNORM ? fmax(cycles, NORM) : cycles);
}

double pz_power_attention_j(const struct pz_chip *c, double macs, double scores, double cycles) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  if (pz_tech_is_library(t)) return macs * t->mac_j;
  return macs * (t->mac_j + pz_chip_local_bytes_per_mac(c) * t->local_j) +
         scores * cycles * t->lane_j;
}
