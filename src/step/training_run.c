/* Predictions as objects for programs: pz_training_predict() fills in, checks and prices a plan,
 * and pz_training_explain() tells where its fields come from and which constants of the model
 * count. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "plan/framework_rules.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "plan/plan_text.h"
#include "step/expected_error.h"
#include "step/prediction.h"
#include "step/step_energy.h"

/* Stores why the framework of the plan cannot run it, if it cannot.  The prediction is valid
 * nevertheless. */
static void warn_of_framework(const struct pz_model_shape *model, struct pz_training_run *r) {
  struct pz_error why = {0};
  if (pz_framework_trains(r->plan.framework, model, &why))
    (void)pz_framework_can_run(&r->plan, model, &why);
  pz_text_copy(r->refusal, sizeof r->refusal, why.message);
}

void pz_training_own_plan(struct pz_call *call, struct pz_plan *p) {
  p->attention_library = pz_copy_text(call, p->attention_library);
  p->peft = pz_plan_trains_adapters(p) ? pz_copy_text(call, p->peft) : NULL;
  if (p->stage_recompute)
    p->stage_recompute =
        pz_copy(call, p->stage_recompute, (size_t)p->pp, sizeof *p->stage_recompute);
  p->n_stage_recompute = p->stage_recompute ? p->pp : 0;
}

struct pz_training_run pz_training_run_make(struct pz_call *call, const struct pz_job *job,
                                            const struct pz_plan *plan, bool events) {
  struct pz_training_run r = {.plan = *plan};
  struct pz_model_shape model;
  struct pz_prediction_detail detail = {.no_events = !events, .model = &model};
  pz_training_own_plan(call, &r.plan);
  r.p = pz_predict(call, job, &r.plan, &detail);
  if (!isfinite(r.p.step_s) || !isfinite(r.p.hfu) || !isfinite(r.p.peak_bytes))
    pz_raise(call, PZ_BAD_INPUT, "the prediction of %s on %s is not a finite number", job->model,
             job->chip->name);
  r.hbm_bytes = (double)pz_chip_hbm_bytes(job->chip);
  r.plan.seq = (int64_t)(r.p.tokens / (double)r.plan.batch + 0.5);
  if (!job->net || !job->net->instant) /* steps without network are not among the validated runs */
    r.expected = pz_plan_expectation(&r.plan, &r.p, detail.layers, job->chip, job->net);
  struct pz_step_energy energy = {0};
  if (!pz_tech_is_library(pz_tech_at(job->chip->tech)))
    energy = pz_step_energy(call, job, &r.plan, &r.p);
  bool capped = job->chip->watts > 0 && energy.watts > job->chip->watts;
  r.watts = capped ? job->chip->watts : energy.watts;
  r.launch_bound = pz_launch_bound(&r.p.parts);
  r.stages = detail.stages;
  r.stage_s = detail.stage_s;
  r.reserved_bytes = detail.reserved_bytes;
  r.layers = detail.layers;
  warn_of_framework(&model, &r);
  r.events = detail.run.events;
  r.n_events = detail.run.n_events;
  r.layers_text = pz_stage_layers_text(call, &r);
  r.recompute_text = pz_stage_recompute_text(call, &r);
  return r;
}

void pz_training_question(struct pz_call *call, struct pz_job *job, const struct pz_plan *plan,
                          struct pz_plan *p, struct pz_cluster *wide) {
  *p = pz_plan_default();
  pz_require_options(call, p, sizeof *p, plan, "pz_plan_default");
  pz_require(call, job->model, "model");
  pz_chip_check(call, job->chip);
  pz_fill_plan(call, p, job->chip);
  job->net = pz_cluster_widen(call, job->net, p->devices, wide);
}

struct run_args {
  struct pz_job job;
  const struct pz_plan *plan;
  bool events;
  struct pz_training_run **out;
  struct pz_explanation **explanation;
};

static void predict_run(struct pz_call *call, void *ctx) {
  struct run_args *args = ctx;
  struct pz_plan p;
  struct pz_cluster wide;
  struct pz_call own;
  pz_require(call, args->out, "out");
  pz_training_question(call, &args->job, args->plan, &p, &wide);
  struct pz_training_run *run = pz_object_new(call, sizeof *run, &own);
  *run = pz_training_run_make(&own, &args->job, &p, args->events);
  *args->out = pz_object_keep(call, run);
}

enum pz_status pz_training_predict(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net, const struct pz_plan *plan,
                                   bool events, struct pz_training_run **out,
                                   struct pz_error *err) {
  struct run_args x = {.job = {.model = model, .chip = chip, .net = net},
                       .plan = plan,
                       .events = events,
                       .out = out};
  return pz_border(predict_run, &x, err);
}

void pz_training_run_free(struct pz_training_run *r) { pz_object_free(r); }

/* ---- explained ------------------------------------------------------------------------------ */

/* Returns where the value of a field comes from; the text may be written into `buf`. */
static const char *field_from(const struct pz_plan *asked, const struct pz_plan *p,
                              const struct pz_chip *chip, enum pz_plan_field f, char *buf,
                              size_t size) {
  const char *from = pz_plan_field(f)->from;
  if (!pz_plan_is_unset(asked, f)) return "given";
  if (f == PZ_PLAN_FRAMEWORK && chip->execution != PZ_CHIP_STREAM) return "default on such a chip";
  if (f == PZ_PLAN_SP && p->tp == 1) return "off without tensor parallelism";
  if (f == PZ_PLAN_DP && !asked->devices) return "default";
  if (from) return from;
  snprintf(buf, size, "default of %s", pz_framework_names[p->framework]);
  return buf;
}

/* Returns whether a field is relevant for this plan. */
static bool is_explained(const struct pz_plan *p, enum pz_plan_field f) {
  if (f == PZ_PLAN_RECOMPUTE_LAYERS || f == PZ_PLAN_FIRST_LAYERS || f == PZ_PLAN_LAST_LAYERS)
    return !pz_plan_is_unset(p, f);
  return pz_plan_field_is_relevant(p, f);
}

static void explain_fields(struct pz_call *call, const struct pz_plan *asked,
                           const struct pz_plan *p, const struct pz_chip *chip,
                           struct pz_explanation *out) {
  out->fields = pz_alloc(call, PZ_PLAN_FIELDS, sizeof *out->fields);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    char value[PZ_FIELD_TEXT_MOST], from[64];
    if (!is_explained(p, f)) continue;
    pz_plan_field_text(p, f, value, sizeof value);
    bool best = f == PZ_PLAN_ATTENTION_LIBRARY && strcmp(value, "-") == 0;
    out->fields[out->n_fields++] = (struct pz_field_origin){
        .name = pz_plan_field_name(f),
        .value = pz_copy_text(call, best ? "the chip's best" : value),
        .from = pz_copy_text(call, field_from(asked, p, chip, f, from, sizeof from)),
        .shown = true};
  }
}

static void explain_run(struct pz_call *call, void *ctx) {
  struct run_args *args = ctx;
  struct pz_plan p, asked = pz_plan_default();
  struct pz_cluster wide;
  struct pz_call own;
  pz_require(call, args->explanation, "out");
  pz_training_question(call, &args->job, args->plan, &p, &wide);
  pz_require_options(call, &asked, sizeof asked, args->plan, "pz_plan_default");
  struct pz_explanation *e = pz_object_new(call, sizeof *e, &own);
  struct pz_training_run run = pz_training_run_make(&own, &args->job, &p, false);
  e->raised_by = 0.1;
  explain_fields(&own, &asked, &run.plan, args->job.chip, e);
  e->constants = pz_constant_effects(&own, &args->job, &run.plan, &e->n_constants);
  *args->explanation = pz_object_keep(call, e);
}

enum pz_status pz_training_explain(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net, const struct pz_plan *plan,
                                   struct pz_explanation **out, struct pz_error *err) {
  struct run_args x = {
      .job = {.model = model, .chip = chip, .net = net}, .plan = plan, .explanation = out};
  return pz_border(explain_run, &x, err);
}

void pz_explanation_free(struct pz_explanation *e) { pz_object_free(e); }
