#include "study/result_make.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/json.h"
#include "study/pareto.h"
#include "study/sensitivity.h"

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the result");
}

/* ---- answers -------------------------------------------------------------------------------- */

/* What is being made, and of what. */
struct maker {
  struct pz_result *r;
  struct pz_study *s;
  struct pz_error *err;
};

static struct pz_certificate certificate_of(const struct pz_study *s,
                                            const struct pz_objective_run *c) {
  return (struct pz_certificate){.n_chips = s->n_points,
                                 .n_evaluated = c->n_evaluated,
                                 .n_excluded = c->n_excluded,
                                 .n_excluded_by_schedules = c->n_looked - c->n_evaluated,
                                 .n_open = c->n_open,
                                 .gap = c->bound / c->value - 1};
}

/* What the model does on an objective run's best chip, with its plan. */
static enum pz_status make_model(const struct maker *m, const struct pz_objective_run *c,
                                 const struct pz_chip *chip, uint32_t model,
                                 struct pz_answer_model *out) {
  struct pz_study *s = m->s;
  double reference = s->reference[model].samples_per_s;
  struct pz_evaluator *e = pz_search_evaluator(s->search);
  struct pz_evaluation v;
  const struct pz_evaluation *most = pz_search_evaluation(s->search, c->best, model);
  if (!most) return pz_fail(m->err, PZ_INTERNAL, "the best chip was not evaluated");
  enum pz_status status =
      pz_evaluate(e, &s->points[c->best], model, c->hbm_gib, most->effort, &v, m->err);
  if (status == PZ_OK)
    status = pz_evaluation_model_plan(e, chip, c->hbm_gib, &v, m->r->arena, &out->plan, m->err);
  if (status != PZ_OK) return status;
  out->model = m->r->inputs.models[model].name;
  out->samples_per_s = (double)s->o.batch / v.time_s;
  out->ratio = reference > 0 ? out->samples_per_s / reference : (double)NAN;
  return PZ_OK;
}

static struct pz_ratios answer_ratios(const struct pz_answer *a) {
  double ratios[PZ_SEARCH_MOST_MODELS];
  const char *models[PZ_SEARCH_MOST_MODELS];
  for (uint32_t i = 0; i < a->n_models; i++) {
    ratios[i] = a->models[i].ratio;
    models[i] = a->models[i].model;
  }
  return pz_ratios_of(ratios, models, a->n_models);
}

/* The objective again from the throughputs told: what was found earlier may have been kept wrongly.
 */
static enum pz_status check_objective(const struct maker *m, const struct pz_objective_run *c,
                                      const struct pz_answer *a) {
  double rates[PZ_SEARCH_MOST_MODELS] = {0};
  struct pz_area area = pz_chip_area(&a->chip);
  for (uint32_t k = 0; k < c->objective.n; k++)
    rates[c->objective.models[k]] = a->models[k].samples_per_s;
  double value = pz_objective_value(&c->objective, rates, pz_area_total_um2(&area), a->peak_watts);
  if (fabs(value - c->value) <= 1e-12 * fabs(c->value)) return PZ_OK;
  return pz_fail(
      m->err, PZ_BAD_INPUT,
      "chip %s has an objective of %.9g by its plans, and %.9g by the saved evaluations; accepted: "
      "--fresh",
      a->chip.name, value, c->value);
}

static enum pz_status make_answer(const struct maker *m, uint32_t i, struct pz_answer *a) {
  const struct pz_study *s = m->s;
  const struct pz_objective_run *c = &s->objective_run[i];
  pz_study_chip(s, c, &a->chip);
  struct pz_area area = pz_chip_area(&a->chip);
  a->name = pz_arena_strdup(m->r->arena, pz_study_run_name(s, i));
  a->n_models = c->objective.n;
  a->models = pz_arena_alloc(m->r->arena, a->n_models, sizeof *a->models);
  if (!a->name || !a->models) return no_memory(m->err);
  a->chip_id = s->points[c->best].id;
  a->hbm_gib = (double)pz_chip_hbm_bytes(&a->chip) / 0x1p30;
  a->area_mm2 = pz_area_total_um2(&area) / 1e6;
  a->area_part = pz_area_total_um2(&area) / s->space.budget_um2;
  a->peak_watts = pz_chip_peak_watts(&a->chip);
  a->objective = c->value;
  a->certificate = certificate_of(s, c);
  for (uint32_t k = 0; k < a->n_models; k++) {
    enum pz_status status = make_model(m, c, &a->chip, c->objective.models[k], &a->models[k]);
    if (status != PZ_OK) return status;
  }
  a->ratios = answer_ratios(a);
  return check_objective(m, c, a);
}

static enum pz_status make_answers(const struct maker *m) {
  struct pz_result *r = m->r;
  enum pz_status status = PZ_OK;
  r->n_answers = m->s->n_runs;
  r->answers = pz_arena_alloc(r->arena, r->n_answers, sizeof *r->answers);
  if (!r->answers) return no_memory(m->err);
  for (uint32_t i = r->n_answers; i-- > 0 && status == PZ_OK;)
    status = make_answer(m, i, &r->answers[i]);
  return status;
}

/* ---- references, sensitivity, front --------------------------------------------------------- */

static enum pz_status make_references(const struct maker *m) {
  struct pz_result *r = m->r;
  const struct pz_study *s = m->s;
  r->n_references = s->portfolio.n_models;
  r->references = pz_arena_alloc(r->arena, r->n_references, sizeof *r->references);
  if (!r->references) return no_memory(m->err);
  for (uint32_t i = 0; i < r->n_references; i++) {
    const struct pz_reference *ref = &s->reference[i];
    struct pz_result_reference *o = &r->references[i];
    *o = (struct pz_result_reference){.model = r->inputs.models[i].name,
                                      .samples_per_s = ref->samples_per_s,
                                      .hbm_gib = ref->hbm_gib,
                                      .expert = ref->expert};
    if (!ref->expert) continue;
    struct pz_reference_plan *plan = pz_arena_alloc(r->arena, 1, sizeof *plan);
    if (!plan) return no_memory(m->err);
    *plan = (struct pz_reference_plan){.tp = ref->plan.t,
                                       .pp = ref->plan.stages,
                                       .dp = ref->plan.d,
                                       .mbs = ref->plan.mbs,
                                       .recompute = ref->plan.recompute};
    o->plan = plan;
  }
  r->reference_chip = (struct pz_result_chip_summary){PZ_REFERENCE_CHIP, s->reference_um2 / 1e6,
                                                      s->reference_watts};
  return PZ_OK;
}

static enum pz_status make_sensitivity(const struct maker *m) {
  struct pz_result *r = m->r;
  const struct pz_objective_run *c = &m->s->objective_run[m->s->n_runs - 1];
  struct pz_step steps[PZ_MOST_STEPS];
  enum pz_status status = pz_sensitivity(m->s, c, steps, &r->n_sensitivity, m->err);
  if (status != PZ_OK) return status;
  r->sensitivity = pz_arena_alloc(r->arena, r->n_sensitivity, sizeof *r->sensitivity);
  if (!r->sensitivity) return no_memory(m->err);
  for (uint32_t i = 0; i < r->n_sensitivity; i++) {
    const struct pz_step *t = &steps[i];
    r->sensitivity[i] = (struct pz_result_step){.parameter = t->what,
                                                .from = t->from,
                                                .to = t->to,
                                                .objective = t->value,
                                                .change = t->value / c->value - 1,
                                                .change_at_most = t->bound / c->value - 1,
                                                .area_mm2 = t->area_um2 / 1e6,
                                                .within_budget = t->within,
                                                .over_budget = t->over};
  }
  return PZ_OK;
}

static enum pz_status copy_front(const struct maker *m, const struct pz_front *front) {
  struct pz_result *r = m->r;
  const struct pz_study *s = m->s;
  r->front = pz_arena_alloc(r->arena, 1, sizeof *r->front);
  if (!r->front) return no_memory(m->err);
  r->front->points = pz_arena_alloc(r->arena, front->n, sizeof *r->front->points);
  if (!r->front->points) return no_memory(m->err);
  for (uint32_t i = 0; i < front->n; i++) {
    const struct pz_front_point *p = &front->points[i];
    struct pz_chip chip;
    pz_space_chip(&s->space, &s->points[p->point], &chip);
    r->front->points[i] =
        (struct pz_result_front_chip){.chip = pz_arena_strdup(r->arena, chip.name),
                                      .objective = p->value,
                                      .area_mm2 = p->area_um2 / 1e6,
                                      .peak_watts = p->watts,
                                      .knee = p->knee};
    if (!r->front->points[i].chip) return no_memory(m->err);
  }
  r->front->n_points = front->n;
  r->front->tolerance = s->o.pareto_tolerance;
  r->front->n_front_chips = front->n_full;
  r->front->n_evaluated = front->n_evaluated;
  return PZ_OK;
}

static enum pz_status make_front(const struct maker *m) {
  struct pz_front front;
  if (!m->s->o.pareto) return PZ_OK;
  enum pz_status status = pz_front_find(m->s, &front, m->err);
  if (status != PZ_OK) return status;
  pz_front_thin(&front, m->s->o.pareto_tolerance);
  return copy_front(m, &front);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static enum pz_status take_inputs(const struct maker *m) {
  json_t *inputs = pz_study_inputs(m->s);
  char *text = inputs ? pz_json_dump(inputs, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
  enum pz_status status = text ? pz_result_set_inputs(m->r, text, m->err) : no_memory(m->err);
  pz_free(text);
  json_decref(inputs);
  return status;
}

enum pz_status pz_result_make(struct pz_result *r, struct pz_study *s, struct pz_error *err) {
  struct maker m = {r, s, err};
  enum pz_status status = take_inputs(&m);
  if (status == PZ_OK) status = make_sensitivity(&m);
  if (status == PZ_OK) status = make_front(&m);
  if (status == PZ_OK) status = make_answers(&m);
  return status == PZ_OK ? make_references(&m) : status;
}
