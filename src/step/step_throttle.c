#include "step/step_throttle.h"

#include "chip/chip.h"

static struct pz_chip slower_chip(const struct pz_chip *like, double part) {
  struct pz_chip c = *like;
  c.clock_hz *= part;
  c.glb_bytes_per_s *= part;
  c.tensor.local_bytes_per_s *= part;
  c.tensor.local_total_bytes_per_s *= part;
  return c;
}

static enum pz_status at_part(const struct pz_job *job, const struct pz_plan *plan, double part,
                              struct pz_throttled_step *out, struct pz_error *err) {
  struct pz_chip c = slower_chip(job->chip, part);
  struct pz_job slower = *job;
  struct pz_prediction p;
  slower.chip = &c;
  enum pz_status status = pz_predict(&slower, plan, &p, NULL, err);
  if (status == PZ_OK) status = pz_step_energy(&slower, plan, &p, &out->energy, err);
  if (status != PZ_OK) return status;
  p.mfu *= part;
  out->p = p;
  out->clock_hz = c.clock_hz;
  return PZ_OK;
}

enum pz_status pz_step_throttle(const struct pz_job *job, const struct pz_plan *plan,
                                const struct pz_prediction *priced, double limit_watts,
                                struct pz_throttled_step *out, struct pz_error *err) {
  enum { STEPS = 16 };
  double low = 0.2, high = 1; /* parts of the chip's clock */
  struct pz_throttled_step x = {.clock_hz = job->chip->clock_hz, .p = *priced}, one;
  enum pz_status status = pz_step_energy(job, plan, priced, &x.energy, err);
  x.full_watts = x.energy.watts;
  if (status != PZ_OK || !(x.energy.watts > limit_watts)) {
    if (status == PZ_OK) *out = x;
    return status;
  }
  for (int i = 0; i < STEPS; i++) { /* watts grow with the clock */
    double middle = (low + high) / 2;
    status = at_part(job, plan, middle, &one, err);
    if (status != PZ_OK) return status;
    if (one.energy.watts > limit_watts)
      high = middle;
    else
      low = middle;
  }
  status = at_part(job, plan, low, &x, err);
  if (status == PZ_OK) *out = x;
  return status;
}
