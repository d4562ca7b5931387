#include "step/constant_effects.h"

#include <math.h>
#include <string.h>

#include "core/vec.h"
#include "plan/plan_fields.h"
#include "step/prediction_parts.h"

static const double RAISE = 1.1, NOTHING = 1e-9;

/* The bubble follows the other parts, so that it is named only where it changes alone. */
static const char *changed_part(const struct pz_prediction *a, const struct pz_prediction *b) {
  const struct pz_part_info *p;
  const char *found = "memory";
  double most = NOTHING * a->step_s;
  for (size_t i = 0; (p = pz_time_part_at(i)); i++) {
    double by = fabs(pz_time_part(&b->parts, p) - pz_time_part(&a->parts, p));
    if (p->offset == offsetof(struct pz_training_parts, bubble_s)) by /= 1e6;
    if (by <= most) continue;
    most = by;
    found = p->label;
  }
  return found;
}

static enum pz_status raise_one(const struct pz_job *job, const struct pz_plan *plan,
                                const struct pz_prediction *before,
                                const struct pz_constant_info *info, struct pz_constant_effect *out,
                                struct pz_error *err) {
  struct pz_constants raised = pz_constants_default;
  struct pz_job with = *job;
  struct pz_prediction p;
  double value;
  memcpy(&value, (const char *)&raised + info->offset, sizeof value);
  double more = value * RAISE;
  memcpy((char *)&raised + info->offset, &more, sizeof more);
  with.constants = &raised;
  enum pz_status status = pz_predict(&with, plan, &p, NULL, err);
  if (status == PZ_OK)
    *out = (struct pz_constant_effect){.info = info,
                                       .value = value,
                                       .step_change = p.step_s / before->step_s - 1,
                                       .memory_change = p.peak_bytes / before->peak_bytes - 1,
                                       .part = changed_part(before, &p)};
  return status;
}

enum pz_status pz_constant_effects(const struct pz_job *job, const struct pz_plan *plan,
                                   struct pz_arena *arena, struct pz_constant_effect **list,
                                   uint32_t *n, struct pz_error *err) {
  const struct pz_constant_info *info;
  struct pz_vec found;
  struct pz_constant_effect e;
  struct pz_prediction before;
  pz_vec_init(&found, arena, sizeof e);
  enum pz_status status = pz_predict(job, plan, &before, NULL, err);
  for (size_t i = 0; (info = pz_constant_at(i)) && status == PZ_OK; i++) {
    status = raise_one(job, plan, &before, info, &e, err);
    bool counts =
        status == PZ_OK && (fabs(e.step_change) > NOTHING || fabs(e.memory_change) > NOTHING);
    if (counts && !pz_vec_push(&found, &e))
      status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the constants");
  }
  if (status != PZ_OK) return status;
  *list = found.items;
  *n = found.n;
  return PZ_OK;
}
