#include "place/constant_effects.h"

#include <math.h>
#include <string.h>

#include "core/vec.h"
#include "place/prediction_parts.h"
#include "place/training_options.h"

static const double RAISE = 1.1, NOTHING = 1e-9;

struct job {
  struct pz_training_plan plan;
  struct pz_training_model model;
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  struct pz_prediction before;
};

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

static enum pz_status raise_one(const struct job *j, const struct pz_constant_info *info,
                                struct pz_constant_effect *out, struct pz_error *err) {
  struct pz_constants raised = pz_constants_default;
  struct pz_training_plan plan = j->plan;
  struct pz_prediction p;
  double value;
  memcpy(&value, (const char *)&raised + info->offset, sizeof value);
  double more = value * RAISE;
  memcpy((char *)&raised + info->offset, &more, sizeof more);
  plan.constants = &raised;
  enum pz_status status = pz_predict(&j->model, j->chip, j->net, &plan, &p, NULL, err);
  if (status == PZ_OK)
    *out = (struct pz_constant_effect){.info = info,
                                       .value = value,
                                       .step_change = p.step_s / j->before.step_s - 1,
                                       .memory_change = p.peak_bytes / j->before.peak_bytes - 1,
                                       .part = changed_part(&j->before, &p)};
  return status;
}

enum pz_status pz_constant_effects(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net,
                                   const struct pz_training_options *options,
                                   struct pz_arena *arena, struct pz_constant_effect **list,
                                   uint32_t *n, struct pz_error *err) {
  struct job j = {.plan = pz_training_plan_of(options),
                  .model = pz_training_model_of(model, options),
                  .chip = chip,
                  .net = net};
  const struct pz_constant_info *info;
  struct pz_vec found;
  struct pz_constant_effect e;
  pz_vec_init(&found, arena, sizeof e);
  enum pz_status status = pz_predict(&j.model, chip, net, &j.plan, &j.before, NULL, err);
  for (size_t i = 0; (info = pz_constant_at(i)) && status == PZ_OK; i++) {
    status = raise_one(&j, info, &e, err);
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
