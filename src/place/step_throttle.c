#include "place/step_throttle.h"

#include "chip/chip.h"

static struct pz_chip slower_chip(const struct pz_chip *like, double part) {
  struct pz_chip c = *like;
  c.clock_hz *= part;
  c.glb_bytes_per_s *= part;
  c.tensor.local_bytes_per_s *= part;
  c.tensor.local_total_bytes_per_s *= part;
  return c;
}

static enum pz_status at_part(const struct pz_plan_question *q, const struct pz_found_plan *found,
                              double part, struct pz_throttled_step *out, struct pz_error *err) {
  struct pz_chip c = slower_chip(q->chip, part);
  struct pz_found_plan one = {.plan = found->plan};
  struct pz_step_model *m = NULL;
  enum pz_status status = pz_step_model_new(&q->model, &c, q->net, &one.plan, &m, err);
  if (status == PZ_OK) status = pz_step_price(m, &one.plan, &one.p, NULL, err);
  pz_step_model_free(m);
  if (status == PZ_OK) status = pz_step_energy(&q->model, &c, q->net, &one, &out->energy, err);
  if (status != PZ_OK) return status;
  one.p.mfu *= part;
  out->p = one.p;
  out->clock_hz = c.clock_hz;
  return PZ_OK;
}

enum pz_status pz_step_throttle(const struct pz_plan_question *q, const struct pz_found_plan *found,
                                double limit_watts, struct pz_throttled_step *out,
                                struct pz_error *err) {
  enum { STEPS = 16 };
  double low = 0.2, high = 1; /* parts of the chip's clock */
  struct pz_throttled_step x = {.clock_hz = q->chip->clock_hz, .p = found->p}, one;
  enum pz_status status = pz_step_energy(&q->model, q->chip, q->net, found, &x.energy, err);
  x.full_watts = x.energy.watts;
  if (status != PZ_OK || !(x.energy.watts > limit_watts)) {
    if (status == PZ_OK) *out = x;
    return status;
  }
  for (int i = 0; i < STEPS; i++) { /* watts grow with the clock */
    double middle = (low + high) / 2;
    status = at_part(q, found, middle, &one, err);
    if (status != PZ_OK) return status;
    if (one.energy.watts > limit_watts)
      high = middle;
    else
      low = middle;
  }
  status = at_part(q, found, low, &x, err);
  if (status == PZ_OK) *out = x;
  return status;
}
