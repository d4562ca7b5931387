/* A prediction with its detail, for programs: the plan filled in and checked, priced, and held with what was found; and
 * explained: where its fields come from, and the constants that count. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/held.h"
#include "core/status.h"
#include "core/text.h"
#include "plan/framework_rules.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "plan/plan_text.h"
#include "step/expected_error.h"
#include "step/prediction.h"
#include "step/step_energy.h"

/* Why the framework of the plan cannot run it, if so; the prediction stands all the same. */
static void warn_of_framework(const struct pz_model_shape *model, struct pz_training_run *r) {
  struct pz_error why = {0};
  if (pz_framework_trains(r->plan.framework, model, &why))
    (void)pz_framework_can_run(&r->plan, model, &why);
  pz_text_copy(r->refusal, sizeof r->refusal, why.message);
}

enum pz_status pz_training_own_plan(struct pz_plan *p, struct pz_arena *arena,
                                    struct pz_error *err) {
  const int64_t *stages = p->stage_recompute;
  int64_t *copy = NULL;
  p->attention_library = pz_arena_strdup(arena, p->attention_library);
  bool adapts = pz_plan_trains_adapters(p);
  p->peft = adapts ? pz_arena_strdup(arena, p->peft) : NULL;
  if (stages) copy = pz_arena_alloc(arena, (size_t)p->pp, sizeof *copy);
  if (!p->attention_library || (adapts && !p->peft) || (stages && !copy))
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the prediction");
  if (copy) memcpy(copy, stages, (size_t)p->pp * sizeof *copy);
  p->stage_recompute = copy;
  p->n_stage_recompute = copy ? p->pp : 0;
  return PZ_OK;
}

enum pz_status pz_training_run_make(const struct pz_job *job, const struct pz_plan *plan,
                                    bool events, struct pz_arena *arena,
                                    struct pz_training_run *out, struct pz_error *err) {
  struct pz_training_run r = {.plan = *plan};
  struct pz_model_shape model;
  struct pz_prediction_detail detail = {.arena = arena, .no_events = !events, .model = &model};
  enum pz_status status = pz_training_own_plan(&r.plan, arena, err);
  if (status == PZ_OK) status = pz_predict(job, &r.plan, &r.p, &detail, err);
  if (status != PZ_OK) return status;
  if (!isfinite(r.p.step_s) || !isfinite(r.p.hfu) || !isfinite(r.p.peak_bytes))
    return pz_fail(err, PZ_BAD_INPUT, "the prediction of %s on %s is not a finite number",
                   job->model, job->chip->name);
  r.hbm_bytes = (double)pz_chip_hbm_bytes(job->chip);
  r.plan.seq = (int64_t)(r.p.tokens / (double)r.plan.batch + 0.5);
  if (!job->net || !job->net->instant) /* steps without network are not among the validated runs */
    r.expected = pz_plan_expectation(&r.plan, &r.p, detail.layers, job->chip, job->net);
  struct pz_step_energy energy = {0};
  if (!pz_tech_is_library(pz_tech_at(job->chip->tech)))
    status = pz_step_energy(job, &r.plan, &r.p, &energy, err);
  if (status != PZ_OK) return status;
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
  r.layers_text = pz_stage_layers_text(&r, arena);
  r.recompute_text = pz_stage_recompute_text(&r, arena);
  if (!r.layers_text || !r.recompute_text)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the prediction");
  *out = r;
  return PZ_OK;
}

enum pz_status pz_training_question(struct pz_job *job, const struct pz_plan *plan, const void *out,
                                    struct pz_plan *p, struct pz_cluster *wide,
                                    struct pz_error *err) {
  *p = pz_plan_default();
  enum pz_status status = pz_sized_take(p, sizeof *p, plan, "pz_plan_default", err);
  if (status == PZ_OK) status = pz_need_each(err, {job->model, "model"}, {out, "out"});
  if (status == PZ_OK) status = pz_chip_check(job->chip, err);
  if (status == PZ_OK) status = pz_plan_fill(p, job->chip, err);
  return status == PZ_OK ? pz_cluster_take(job->net, p->devices, wide, &job->net, err) : status;
}

enum pz_status pz_training_predict(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net, const struct pz_plan *plan,
                                   bool events, struct pz_training_run **out,
                                   struct pz_error *err) {
  struct pz_job job = {.model = model, .chip = chip, .net = net};
  struct pz_plan p;
  struct pz_cluster wide;
  struct pz_arena *arena;
  void *made = NULL;
  enum pz_status status = pz_training_question(&job, plan, out, &p, &wide, err);
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the prediction", &made, &arena, err);
  if (status == PZ_OK) status = pz_training_run_make(&job, &p, events, arena, made, err);
  if (status != PZ_OK) return pz_held_free(made), status;
  *out = made;
  return PZ_OK;
}

void pz_training_run_free(struct pz_training_run *r) { pz_held_free(r); }

/* ---- explained ------------------------------------------------------------------------------ */

/* Where the value of a field comes from; `buf` may hold it. */
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

/* Fields that say something for this plan. */
static bool is_explained(const struct pz_plan *p, enum pz_plan_field f) {
  if (f == PZ_PLAN_RECOMPUTE_LAYERS || f == PZ_PLAN_FIRST_LAYERS || f == PZ_PLAN_LAST_LAYERS)
    return !pz_plan_is_unset(p, f);
  return pz_plan_field_is_relevant(p, f);
}

static enum pz_status explain_fields(const struct pz_plan *asked, const struct pz_plan *p,
                                     const struct pz_chip *chip, struct pz_arena *arena,
                                     struct pz_explanation *out, struct pz_error *err) {
  out->fields = pz_arena_alloc(arena, PZ_PLAN_FIELDS, sizeof *out->fields);
  bool room = out->fields != NULL;
  for (int i = 0; i < PZ_PLAN_FIELDS && room; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    char value[PZ_FIELD_TEXT_MOST], from[64];
    if (!is_explained(p, f)) continue;
    pz_plan_field_text(p, f, value, sizeof value);
    bool best = f == PZ_PLAN_ATTENTION_LIBRARY && strcmp(value, "-") == 0;
    struct pz_field_origin *o = &out->fields[out->n_fields++];
    o->name = pz_plan_field_name(f);
    o->value = pz_arena_strdup(arena, best ? "the chip's best" : value);
    o->from = pz_arena_strdup(arena, field_from(asked, p, chip, f, from, sizeof from));
    o->shown = true;
    room = o->value && o->from;
  }
  return room ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the explanation");
}

enum pz_status pz_training_explain(const char *model, const struct pz_chip *chip,
                                   const struct pz_cluster *net, const struct pz_plan *plan,
                                   struct pz_explanation **out, struct pz_error *err) {
  struct pz_job job = {.model = model, .chip = chip, .net = net};
  struct pz_plan p, asked = pz_plan_default();
  struct pz_cluster wide;
  struct pz_arena *arena;
  struct pz_training_run run;
  void *made = NULL;
  enum pz_status status = pz_training_question(&job, plan, out, &p, &wide, err);
  if (status == PZ_OK) status = pz_sized_take(&asked, sizeof asked, plan, "pz_plan_default", err);
  if (status == PZ_OK) status = pz_held_new(sizeof **out, "the explanation", &made, &arena, err);
  if (status != PZ_OK) return status;
  struct pz_explanation *e = made;
  e->raised_by = 0.1;
  status = pz_training_run_make(&job, &p, false, arena, &run, err);
  if (status == PZ_OK) status = explain_fields(&asked, &run.plan, chip, arena, e, err);
  if (status == PZ_OK)
    status = pz_constant_effects(&job, &run.plan, arena, &e->constants, &e->n_constants, err);
  return pz_held_give(status, made, out);
}

void pz_explanation_free(struct pz_explanation *e) { pz_held_free(e); }
