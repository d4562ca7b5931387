/* A prediction with its detail, for programs: the plan filled in and checked, priced, and held with what was found. */
#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/status.h"
#include "core/text.h"
#include "plan/framework_rules.h"
#include "plan/plan_fill.h"
#include "step/expected_error.h"
#include "step/predict.h"

/* What a caller holds; the run stands first. */
struct owned {
  struct pz_training_run run;
  struct pz_arena arena;
};

/* Why the framework of the plan cannot run it, if so; the prediction stands all the same. */
static void warn_of_framework(const char *model, struct pz_training_run *r) {
  struct pz_model_shape shape;
  struct pz_error why = {0};
  bool known = pz_model_shape_load(model, &shape, NULL) == PZ_OK;
  if (!known || pz_framework_trains(r->plan.framework, &shape, &why))
    (void)pz_framework_can(&r->plan, known ? &shape : NULL, &why);
  pz_text_copy(r->refusal, sizeof r->refusal, why.message);
}

static enum pz_status predict(const char *model, const struct pz_chip *chip,
                              const struct pz_cluster *net, bool events, struct owned *own,
                              struct pz_error *err) {
  struct pz_training_run *r = &own->run;
  struct pz_cluster wide;
  struct pz_job job = {.model = model, .chip = chip};
  struct pz_prediction_detail detail = {.arena = &own->arena, .no_events = !events};
  enum pz_status status = PZ_OK;
  if (net) {
    wide = *net;
    job.net = &wide;
    status = pz_cluster_reach(&wide, r->plan.devices, "devices", err);
  }
  if (status == PZ_OK) status = pz_predict(&job, &r->plan, &r->p, &detail, err);
  if (status != PZ_OK) return status;
  if (!isfinite(r->p.step_s) || !isfinite(r->p.hfu) || !isfinite(r->p.peak_bytes))
    return pz_fail(err, PZ_BAD_INPUT, "the prediction of %s on %s is not a finite number", model,
                   chip->name);
  r->hbm_bytes = (double)pz_chip_hbm_bytes(chip);
  r->plan.seq = (int64_t)(r->p.tokens / (double)r->plan.batch + 0.5);
  r->expected = pz_plan_expectation(&r->plan, &r->p, chip);
  warn_of_framework(model, r);
  r->stages = detail.stages;
  r->layers = detail.layers;
  r->events = detail.run.events;
  r->n_events = detail.run.n_events;
  return PZ_OK;
}

/* Copies of what the plan points to. */
static enum pz_status own_plan(struct owned *own, struct pz_error *err) {
  struct pz_plan *p = &own->run.plan;
  const int64_t *stages = p->stage_recompute;
  int64_t *copy = NULL;
  p->attention_library = pz_arena_strdup(&own->arena, p->attention_library);
  if (stages) copy = pz_arena_alloc(&own->arena, (size_t)p->pp, sizeof *copy);
  if (!p->attention_library || (stages && !copy))
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the prediction");
  if (copy) memcpy(copy, stages, (size_t)p->pp * sizeof *copy);
  p->stage_recompute = copy;
  return PZ_OK;
}

enum pz_status pz_training_predict(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net, const struct pz_plan *plan,
                                   bool events, struct pz_training_run **out,
                                   struct pz_error *err) {
  struct pz_plan p = pz_plan_default();
  enum pz_status status = pz_sized_take(&p, sizeof p, plan, "pz_plan_default", err);
  if (status == PZ_OK) status = pz_need(model, "model", err);
  if (status == PZ_OK) status = pz_need(out, "out", err);
  if (status == PZ_OK) status = pz_chip_check(chip, err);
  if (status == PZ_OK && net) status = pz_cluster_check(net, err);
  if (status == PZ_OK) status = pz_plan_fill(&p, chip, err);
  if (status != PZ_OK) return status;
  struct owned *own = pz_calloc(1, sizeof *own);
  if (!own) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the prediction");
  own->run.plan = p;
  pz_arena_init(&own->arena, NULL);
  status = own_plan(own, err);
  if (status == PZ_OK) status = predict(model, chip, net, events, own, err);
  if (status == PZ_OK)
    *out = &own->run;
  else
    pz_training_run_free(&own->run);
  return status;
}

void pz_training_run_free(struct pz_training_run *r) {
  struct owned *own = (struct owned *)(void *)r;
  if (!own) return;
  pz_arena_release(&own->arena);
  pz_free(own);
}
