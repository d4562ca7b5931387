#include "place/part_energy.h"

#include <math.h>

#include "chip/chip.h"

/* Of a part of a shape on one device, as the bill has it (chip/bill.c). */
static double part_j(const struct pz_part_tables *tables, const struct pz_chip *c, double voltage2,
                     const double *traffic, size_t at) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  const struct pz_part_work *w = &tables->work[at];
  double mac_j = t->mac_j + pz_chip_local_bytes_per_mac(c) * t->local_j;
  return voltage2 * ((w->macs + w->attention_flop / 2) * mac_j +
                     (w->attention_ops + w->ops + w->tail_ops) * t->lane_j) +
         (w->bytes + traffic[at]) * (t->hbm_j + t->glb_j);
}

enum pz_status pz_part_energy_least_j(struct pz_part_tables *t, const struct pz_chip *chip,
                                      double voltage2, double *joules) {
  const double *traffic = NULL;
  double least = HUGE_VAL;
  enum pz_status status = pz_part_traffic(t, chip, &traffic);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < t->space->shapes.n; i++)
    least = pz_fmin(least,
                    t->share[i] * part_j(t, chip, voltage2, traffic, pz_part_at(i, PZ_PART_WHOLE)));
  /* sums in another order */
  return *joules = least * (double)t->space->q->plan.devices * (1 - 1e-9), PZ_OK;
}

/* The shape of a plan; shapes.n: none. */
static uint32_t shape_of(const struct pz_plan_space *s, const struct pz_plan *p) {
  uint32_t i = 0;
  for (; i < s->shapes.n; i++) {
    const struct pz_step_shape *x = pz_vec_at(&s->shapes, struct pz_step_shape, i);
    if (x->tp == p->tp && x->cp == pz_plan_cp(p) && x->mbs == p->mbs && x->ep == pz_plan_ep(p) &&
        (x->tp == 1 || x->sp == p->sp))
      break;
  }
  return i;
}

enum pz_status pz_part_energy_plan_j(struct pz_part_tables *t, const struct pz_chip *chip,
                                     double voltage2, const struct pz_plan *plan, double *joules) {
  const double *traffic = NULL;
  struct pz_part_counts all = {{0}};
  double sum = 0;
  uint32_t shape = shape_of(t->space, plan);
  if (shape == t->space->shapes.n)
    return pz_fail(t->space->err, PZ_BAD_USE, "a plan of another finder");
  enum pz_status status = pz_part_traffic(t, chip, &traffic);
  if (status != PZ_OK) return status;
  const struct pz_step_shape *x = pz_vec_at(&t->space->shapes, struct pz_step_shape, shape);
  for (int64_t c = 0; c < plan->pp * plan->vpp; c++) pz_part_counts_add(x, plan, c, 1, &all);
  for (int p = 0; p < PZ_PART_SEND; p++)
    sum += all.n[p] * part_j(t, chip, voltage2, traffic, pz_part_at(shape, p));
  double group = (double)(x->tp * x->cp), microbatches = (double)(t->space->q->plan.batch / x->mbs);
  return *joules = sum * group * microbatches, PZ_OK;
}
