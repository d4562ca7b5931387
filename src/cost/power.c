#include "cost/power.h"

#include <math.h>

#include "chip/chip.h"
#include "cost/vector.h"
#include "workload/op.h"

double pz_power_idle_watts(const struct pz_chip *c) {
  return pz_chip_bill(c, PZ_BILL_LIKELY).area_mm2 * pz_tech_at(c->tech)->static_w_per_mm2;
}

/* At a clock: leakage, HBM and regulators at rest, and the clock's own network. */
static double static_watts(const struct pz_tech_info *t, double mm2, double clock_hz) {
  return mm2 * (t->static_w_per_mm2 +
                t->clock_w_per_mm2 * clock_hz / t->sustained_hz * pz_tech_voltage2(t, clock_hz));
}

double pz_power_static_watts(const struct pz_chip *c) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  if (pz_tech_is_library(t)) return 0;
  return static_watts(t, pz_chip_bill(c, PZ_BILL_LIKELY).area_mm2,
                      fmin(c->clock_hz, t->sustained_hz));
}

/* ---- sustained ------------------------------------------------------------------------------ */

static double cores_j(const struct pz_tech_info *t, const struct pz_work *w) {
  return w->activity * (w->macs * w->mac_part * t->mac_j + w->lane_ops * t->lane_j +
                        w->local_bytes * t->local_j + w->glb_bytes * t->glb_j);
}

struct sustained {
  const struct pz_chip *chip;
  const struct pz_tech_info *tech;
  const struct pz_work *work;
  double interval_s, mm2;
};

static void at_clock(const struct sustained *s, double clock_hz, struct pz_power *out) {
  const struct pz_tech_info *t = s->tech;
  const struct pz_work *w = s->work;
  bool library = pz_tech_is_library(t);
  double core_s = w->core_s * s->chip->clock_hz / clock_hz;
  double latency = w->startup_s + fmax(core_s, w->hbm_s), time = fmax(latency, s->interval_s);
  double dynamic =
      cores_j(t, w) * (library ? 1 : pz_tech_voltage2(t, clock_hz)) + w->hbm_bytes * t->hbm_j;
  double joules = dynamic + (library ? 0 : static_watts(t, s->mm2, clock_hz) * time);
  *out = (struct pz_power){latency, time > 0 ? joules / time : 0, joules, clock_hz};
}

void pz_power_sustained(const struct pz_chip *c, const struct pz_work *w, double interval_s,
                        struct pz_power *out) {
  enum { STEPS = 40 };
  static const double LEAST_CLOCK = 0.2; /* of the chip's */
  struct sustained s = {.chip = c,
                        .tech = pz_tech_at(c->tech),
                        .work = w,
                        .interval_s = interval_s,
                        .mm2 = pz_chip_bill(c, PZ_BILL_LIKELY).area_mm2};
  at_clock(&s, c->clock_hz, out);
  if (c->watts <= 0 || out->watts <= c->watts || pz_tech_is_library(s.tech)) return;
  double low = LEAST_CLOCK * c->clock_hz, high = c->clock_hz;
  for (int i = 0; i < STEPS; i++) { /* watts grow with the clock */
    double middle = (low + high) / 2;
    at_clock(&s, middle, out);
    if (out->watts > c->watts)
      high = middle;
    else
      low = middle;
  }
  at_clock(&s, low, out);
}

/* ---- energy of single operators -------------------------------------------------------------- */

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
