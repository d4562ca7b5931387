/* A prediction with its detail, for programs: options checked, a plan made of them, and told. */
#include <math.h>
#include <string.h>

#include "chip/chip_json.h"
#include "core/alloc.h"
#include "core/sized.h"
#include "place/expected_error.h"
#include "place/training_options.h"

/* What a caller holds; the run stands first. */
struct owned {
  struct pz_training_run run;
  struct pz_arena arena;
};

/* How wrong predictions of such runs have been. */
static struct pz_expectation expectation(const struct pz_training_run *r,
                                         const struct pz_chip *chip, const struct pz_cluster *net) {
  const struct pz_training_options *o = &r->plan;
  struct pz_run_kind kind = {
      .chip = chip->name,
      .framework = o->framework,
      .one_node = !net || o->devices <= net->level[0].devices,
      .work = pz_work_name(r->p.active_params < r->p.params, o->precision == PZ_PRECISION_FP8)};
  struct pz_expected_error e = pz_expected_error(&kind);
  return (struct pz_expectation){.runs = e.rows,
                                 .error = e.mean,
                                 .bias = e.bias,
                                 .of = pz_likeness_texts[e.like],
                                 .same_chip = e.like <= PZ_LIKE_CHIP};
}

static enum pz_status predict(const char *model, const struct pz_chip *chip,
                              const struct pz_cluster *net, struct owned *own,
                              struct pz_error *err) {
  struct pz_training_run *r = &own->run;
  struct pz_training_plan plan = pz_training_plan_of(&r->plan);
  struct pz_training_model m = pz_training_model_of(model, &r->plan);
  struct pz_prediction_detail detail = {.arena = &own->arena, .no_events = !r->plan.events};
  struct pz_cluster wide;
  enum pz_status status = PZ_OK;
  if (net) {
    wide = *net;
    status = pz_cluster_reach(&wide, r->plan.devices, "devices", err);
  }
  if (status == PZ_OK)
    status = pz_predict(&m, chip, net ? &wide : NULL, &plan, &r->p, &detail, err);
  if (status != PZ_OK) return status;
  if (!isfinite(r->p.step_s) || !isfinite(r->p.hfu) || !isfinite(r->p.peak_bytes))
    return pz_fail(err, PZ_BAD_INPUT, "the prediction of %s on %s is not a finite number", model,
                   chip->name);
  r->hbm_bytes = (double)pz_chip_hbm_bytes(chip);
  r->plan.seq = (int64_t)(r->p.tokens / (double)r->plan.batch + 0.5);
  r->expected = expectation(r, chip, net);
  r->stages = detail.stages;
  r->layers = detail.layers;
  r->events = detail.run.events;
  r->n_events = detail.run.n_events;
  return PZ_OK;
}

static enum pz_status own_plan(struct owned *own, struct pz_error *err) {
  struct pz_training_options *o = &own->run.plan;
  const int64_t *stages = o->stage_recompute;
  int64_t *copy = NULL;
  o->attention_library = pz_arena_strdup(&own->arena, o->attention_library);
  if (stages) copy = pz_arena_alloc(&own->arena, (size_t)o->pp, sizeof *copy);
  if (!o->attention_library || (stages && !copy))
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the prediction");
  if (copy) memcpy(copy, stages, (size_t)o->pp * sizeof *copy);
  o->stage_recompute = copy;
  return PZ_OK;
}

enum pz_status pz_training_predict(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net,
                                   const struct pz_training_options *options,
                                   struct pz_training_run **out, struct pz_error *err) {
  struct pz_training_options o = pz_training_options_default();
  enum pz_status status = pz_sized_take(&o, sizeof o, options, "pz_training_options_default", err);
  if (status == PZ_OK) status = pz_need(model, "model", err);
  if (status == PZ_OK) status = pz_need(out, "out", err);
  if (status == PZ_OK) status = pz_chip_check(chip, err);
  if (status == PZ_OK && net) status = pz_cluster_check(net, err);
  if (status == PZ_OK) status = pz_training_options_fill(&o, err);
  if (status != PZ_OK) return status;
  struct owned *own = pz_calloc(1, sizeof *own);
  if (!own) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the prediction");
  own->run.plan = o;
  pz_arena_init(&own->arena, NULL);
  status = own_plan(own, err);
  if (status == PZ_OK) status = predict(model, chip, net, own, err);
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
