/* Predictions as objects for programs: pz_training_predict() completes, checks and prices a
 * plan, and pz_training_explain() lists the origins of its fields and the effects of constants. */
#include <math.h>
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

/* Replaces texts and arrays of the plan by copies in the arena of the call. */
void pz_training_own_plan(struct pz_call *call, struct pz_plan *plan) {
  plan->attention_library = pz_copy_text(call, plan->attention_library);
  plan->peft = pz_plan_trains_adapters(plan) ? pz_copy_text(call, plan->peft) : NULL;
  if (plan->stage_recompute)
    plan->stage_recompute =
        pz_copy(call, plan->stage_recompute, (size_t)plan->pp, sizeof *plan->stage_recompute);
  plan->n_stage_recompute = plan->stage_recompute ? plan->pp : 0;
}

/* Predicts a plan with energy, expected error and texts, and the simulated passes if `events`. */
struct pz_training_run pz_training_run_make(struct pz_call *call, const struct pz_job *job,
                                            const struct pz_plan *plan, bool events) {
  pz_require_plan(call, plan);
  struct pz_step_model *model = pz_step_model_new(call, job, plan);
  struct pz_training_run run = pz_training_run_price(call, job, model, plan, events);
  pz_close(call, model);
  return run;
}

struct pz_training_run pz_training_run_price(struct pz_call *call, const struct pz_job *job,
                                             struct pz_step_model *step_model,
                                             const struct pz_plan *plan, bool events) {
  struct pz_training_run run = {.plan = *plan};
  struct pz_model_shape model;
  struct pz_prediction_detail detail = {.no_events = !events, .model = &model};
  pz_training_own_plan(call, &run.plan);
  run.p = pz_predict_with(call, job, step_model, &run.plan, &detail);
  if (!isfinite(run.p.step_s) || !isfinite(run.p.hfu) || !isfinite(run.p.peak_bytes))
    pz_raise(call, PZ_BAD_INPUT, "the prediction of %s on %s is not a finite number", job->model,
             job->chip->name);
  run.hbm_bytes = (double)pz_chip_hbm_bytes(job->chip);
  run.plan.seq = (int64_t)(run.p.tokens / (double)run.plan.batch + 0.5);
  if (!job->net || !job->net->instant) /* no validated run is without a network */
    run.expected = pz_plan_expectation(&run.plan, &run.p, detail.layers, job->chip, job->net);
  struct pz_step_energy energy = {0};
  if (!pz_tech_is_library(pz_tech_at(job->chip->tech)))
    energy = pz_step_energy_with(call, job, step_model, &run.plan, &run.p);
  bool capped = job->chip->watts > 0 && energy.watts > job->chip->watts;
  run.watts = capped ? job->chip->watts : energy.watts;
  run.launch_bound = pz_launch_bound(&run.p.parts);
  run.stages = detail.stages;
  run.stage_s = detail.stage_s;
  run.reserved_bytes = detail.reserved_bytes;
  run.layers = detail.layers;
  struct pz_error why = {0}; /* the prediction is valid even if the framework cannot run the plan */
  if (pz_framework_trains(run.plan.framework, &model, &why))
    (void)pz_framework_can_run(&run.plan, &model, &why);
  pz_text_copy(run.refusal, sizeof run.refusal, why.message);
  run.events = detail.run.events;
  run.n_events = detail.run.n_events;
  run.layers_text = pz_stage_layers_text(call, &run);
  run.recompute_text = pz_stage_recompute_text(call, &run);
  return run;
}

/* Checks a caller's arguments, fills in the plan, and extends the network to all its devices. */
void pz_training_question(struct pz_call *call, struct pz_job *job, const struct pz_plan *plan,
                          struct pz_plan *filled, struct pz_cluster *wide) {
  *filled = pz_plan_default();
  pz_require_options(call, filled, sizeof *filled, plan, "pz_plan_default");
  pz_require(call, job->model, "model");
  pz_chip_check(call, job->chip);
  pz_fill_plan(call, filled, job->chip);
  job->net = pz_cluster_widen(call, job->net, filled->devices, wide);
}

/* The arguments of pz_training_predict() or of pz_training_explain(). */
struct run_args {
  struct pz_job job;
  const struct pz_plan *plan;
  bool events;
  struct pz_training_run **out;
  struct pz_explanation **explanation;
};

/* Completes the plan, predicts it, and stores the run in *args->out. */
static void predict_run(struct pz_call *call, void *ctx) {
  struct run_args *args = ctx;
  struct pz_plan plan;
  struct pz_cluster wide;
  struct pz_call result;
  pz_require(call, args->out, "out");
  pz_training_question(call, &args->job, args->plan, &plan, &wide);
  struct pz_training_run *run = pz_object_new(call, sizeof *run, &result);
  *run = pz_training_run_make(&result, &args->job, &plan, args->events);
  *args->out = pz_object_keep(call, run);
}

enum pz_status pz_training_predict(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net, const struct pz_plan *plan,
                                   bool events, struct pz_training_run **out,
                                   struct pz_error *err) {
  struct run_args args = {.job = {.model = model, .chip = chip, .net = net},
                          .plan = plan,
                          .events = events,
                          .out = out};
  return pz_border(predict_run, &args, err);
}

void pz_training_run_free(struct pz_training_run *run) { pz_object_free(run); }

/* ---- explained ------------------------------------------------------------------------------ */

/* Lists the relevant fields of a plan with their values and origins, such as "given" or "default of
 * nemo".  `asked` is the plan before its unset fields were filled in. */
static void explain_fields(struct pz_call *call, const struct pz_plan *asked,
                           const struct pz_plan *plan, const struct pz_chip *chip,
                           struct pz_explanation *explanation) {
  explanation->fields = pz_alloc(call, PZ_PLAN_FIELDS, sizeof *explanation->fields);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field field = (enum pz_plan_field)i;
    char value[PZ_FIELD_TEXT_MOST];
    bool is_layer_count = field == PZ_PLAN_RECOMPUTE_LAYERS || field == PZ_PLAN_FIRST_LAYERS ||
                          field == PZ_PLAN_LAST_LAYERS;
    if (is_layer_count && pz_plan_is_unset(plan, field)) continue;
    if (!is_layer_count && !pz_plan_field_is_relevant(plan, field)) continue;
    pz_plan_field_text(plan, field, value, sizeof value);
    const char *from = pz_plan_field(field)->from;
    if (!pz_plan_is_unset(asked, field))
      from = "given";
    else if (field == PZ_PLAN_FRAMEWORK && chip->execution != PZ_CHIP_STREAM)
      from = "default on such a chip";
    else if (field == PZ_PLAN_SP && plan->tp == 1)
      from = "off without tensor parallelism";
    else if (field == PZ_PLAN_DP && !asked->devices)
      from = "default";
    else if (!from)
      from = pz_format(call, "default of %s", pz_framework_names[plan->framework]);
    bool is_chip_best = field == PZ_PLAN_ATTENTION_LIBRARY && strcmp(value, "-") == 0;
    explanation->fields[explanation->n_fields++] = (struct pz_field_origin){
        .name = pz_plan_field_name(field),
        .value = pz_copy_text(call, is_chip_best ? "the chip's best" : value),
        .from = pz_copy_text(call, from),
        .shown = true};
  }
}

/* Predicts the plan, and explains its fields and the effects of constants in *args->explanation. */
static void explain_run(struct pz_call *call, void *ctx) {
  struct run_args *args = ctx;
  struct pz_plan plan, asked = pz_plan_default();
  struct pz_cluster wide;
  struct pz_call result;
  pz_require(call, args->explanation, "out");
  pz_training_question(call, &args->job, args->plan, &plan, &wide);
  pz_require_options(call, &asked, sizeof asked, args->plan, "pz_plan_default");
  struct pz_explanation *explanation = pz_object_new(call, sizeof *explanation, &result);
  const bool events = false;
  struct pz_training_run run = pz_training_run_make(&result, &args->job, &plan, events);
  explanation->raised_by = 0.1; /* as in pz_constant_effects() */
  explain_fields(&result, &asked, &run.plan, args->job.chip, explanation);
  explanation->constants =
      pz_constant_effects(&result, &args->job, &run.plan, &explanation->n_constants);
  *args->explanation = pz_object_keep(call, explanation);
}

enum pz_status pz_training_explain(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net, const struct pz_plan *plan,
                                   struct pz_explanation **out, struct pz_error *err) {
  struct run_args args = {
      .job = {.model = model, .chip = chip, .net = net}, .plan = plan, .explanation = out};
  return pz_border(explain_run, &args, err);
}

void pz_explanation_free(struct pz_explanation *explanation) { pz_object_free(explanation); }
