#include "study/result_make.h"

#include <math.h>
#include <string.h>

#include "core/alloc.h"
#include "study/pareto.h"
#include "study/robustness.h"
#include "study/training_answer.h"

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the result");
}

/* What is being made, and of what. */
struct maker {
  struct pz_result *r;
  struct pz_study *s;
  struct pz_watch watch;
  struct pz_error *err;
  struct pz_step steps[PZ_MOST_STEPS]; /* of the sensitivity */
};

static const char *copy(const struct maker *m, const char *text) {
  return text ? pz_arena_strdup(m->r->arena, text) : NULL;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* The best chip was evaluated, though its box may be closed by a bound within the gap, or open. */
static struct pz_certificate certificate_of(const struct pz_objective_run *c) {
  enum pz_box_end end = PZ_BOX_EVALUATED;
  for (uint32_t i = 0; i < c->n_boxes; i++)
    if (pz_box_has(&c->boxes[i].box, &c->best)) end = c->boxes[i].end;
  return (struct pz_certificate){.n_chips = c->chips,
                                 .n_infeasible = c->infeasible,
                                 .n_excluded = c->by_bound - (end == PZ_BOX_BOUND),
                                 .n_excluded_by_schedules = c->n_partly - (end == PZ_BOX_PARTLY),
                                 .n_evaluated = c->n_evaluated + (end != PZ_BOX_EVALUATED),
                                 .n_boxes = c->n_boxes,
                                 .n_rounds = (int64_t)c->rounds,
                                 .n_open = c->n_open,
                                 .gap = c->bound / c->value - 1,
                                 .finished = c->finished};
}

/* Its plan again, from the evaluation, and checked. */
static enum pz_status partition_of(const struct maker *m, const struct pz_objective_run *c,
                                   const struct pz_answer *a, uint32_t model,
                                   struct pz_answer_model *out) {
  struct pz_study *s = m->s;
  struct pz_original_worker *w = pz_original_worker(s->by, 0);
  struct pz_partition *plan = pz_arena_alloc(m->r->arena, 1, sizeof *plan);
  struct pz_evaluation most, v;
  if (!plan) return no_memory(m->err);
  if (!pz_search_known(s->search, &c->best, model, &most))
    return pz_fail(m->err, PZ_INTERNAL, "the best chip was not evaluated");
  enum pz_status status =
      pz_original_value(w, &c->best, model, a->hbm_gib, most.effort, HUGE_VAL, &v, m->err);
  if (status == PZ_OK)
    status = pz_original_plan(w, a->chip, a->hbm_gib, &v, m->r->arena, plan, m->err);
  out->plan = plan;
  out->samples_per_s = (double)s->o.batch / v.step_s;
  return status;
}

static enum pz_status training_of(const struct maker *m, const struct pz_chip *chip,
                                  double limit_watts, uint32_t model,
                                  const struct pz_training_answer **out, double *samples_per_s) {
  struct pz_training_answer *a = pz_arena_alloc(m->r->arena, 1, sizeof *a);
  if (!a) return no_memory(m->err);
  *out = a;
  enum pz_status status =
      pz_training_answer_make(m->s->by, chip, model, limit_watts, m->r->arena, a, m->err);
  *samples_per_s = (double)pz_training_batch(&m->s->training, model) / a->step_s;
  return status;
}

/* What the model does on an objective run's best chip, with its plan. */
static enum pz_status make_model(const struct maker *m, const struct pz_objective_run *c,
                                 const struct pz_answer *a, uint32_t model,
                                 struct pz_answer_model *out) {
  double limit = m->s->limits.watts > 0 ? m->s->limits.watts : a->peak_watts;
  enum pz_status status =
      pz_study_is_training(m->s)
          ? training_of(m, a->chip, limit, model, &out->training, &out->samples_per_s)
          : partition_of(m, c, a, model, out);
  if (status != PZ_OK) return status;
  double reference = c->objective.batch[model] / m->s->reference_step[model].step_s;
  out->model = m->r->inputs.models[model].name;
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

/* Of a chip without measurements over another. */
static struct pz_uncertainty uncertainty_of(const struct pz_study *s, double value) {
  double both = 1 + sqrt(2) * pz_cold_spread();
  bool ratio = s->o.objective == PZ_OBJECTIVE_GEOMEAN || s->o.objective == PZ_OBJECTIVE_WEIGHTED;
  if (!pz_study_is_training(s) || !ratio) return (struct pz_uncertainty){0};
  return (struct pz_uncertainty){pz_cold_spread(), value / both, value * both};
}

/* The objective again from the throughputs told: what was found earlier may have been kept wrongly. */
static enum pz_status check_objective(const struct maker *m, const struct pz_objective_run *c,
                                      const struct pz_answer *a) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_taken taken = pz_chip_taken(a->chip);
  for (uint32_t k = 0; k < c->objective.n; k++) {
    uint32_t i = c->objective.models[k];
    const struct pz_training_answer *t = a->models[k].training;
    double step_s = t ? t->step_s : a->models[k].plan->step_s;
    steps[i] = (struct pz_step_cost){step_s, 0};
    if (t) steps[i].dynamic_j = t->joules - c->objective.devices * taken.static_watts * step_s;
  }
  double value = pz_objective_value(&c->objective, steps, &taken);
  if (fabs(value - c->value) <= 1e-9 * fabs(c->value)) return PZ_OK;
  return pz_fail(
      m->err, PZ_BAD_INPUT,
      "chip %s has an objective of %.9g by its plans, and %.9g by the saved evaluations; accepted: "
      "--fresh",
      a->chip->name, value, c->value);
}

static enum pz_status make_answer(const struct maker *m, uint32_t i, struct pz_answer *a) {
  struct pz_study *s = m->s;
  const struct pz_objective_run *c = &s->objective_run[i];
  enum pz_status status = pz_study_least_memory(s, c, &a->hbm_gib, m->err);
  if (status != PZ_OK) return status;
  struct pz_chip *chip = pz_arena_alloc(m->r->arena, 1, sizeof *chip);
  if (!chip) return no_memory(m->err);
  pz_study_chip(s, c, a->hbm_gib, chip);
  a->chip = chip;
  struct pz_taken taken = pz_chip_taken(a->chip);
  a->name = copy(m, pz_study_run_name(s, i));
  a->n_models = c->objective.n;
  a->models = pz_arena_alloc(m->r->arena, a->n_models, sizeof *a->models);
  if (!a->name || !a->models) return no_memory(m->err);
  a->chip_id = pz_space_id(&s->space, &c->best);
  a->area_mm2 = taken.mm2;
  a->area_part = s->limits.mm2 > 0 ? taken.mm2 / s->limits.mm2 : 0;
  a->peak_watts = taken.watts;
  a->dollars = taken.dollars;
  a->owner_dollars = taken.owner_dollars;
  a->edge_mm = taken.edge_mm;
  a->edge_room_mm = taken.edge_room_mm;
  a->objective = c->value;
  a->uncertainty = uncertainty_of(s, c->value);
  a->certificate = certificate_of(c);
  for (uint32_t k = 0; k < a->n_models && status == PZ_OK; k++)
    status = make_model(m, c, a, c->objective.models[k], &a->models[k]);
  if (status != PZ_OK) return status;
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

static enum pz_status make_expert(const struct maker *m, const struct pz_reference *ref,
                                  struct pz_result_reference *o) {
  struct pz_reference_plan *plan = pz_arena_alloc(m->r->arena, 1, sizeof *plan);
  if (!plan) return no_memory(m->err);
  *plan = (struct pz_reference_plan){.tp = ref->plan.t,
                                     .pp = ref->plan.stages,
                                     .dp = ref->plan.d,
                                     .mbs = ref->plan.mbs,
                                     .recompute = ref->plan.recompute};
  o->plan = plan;
  return PZ_OK;
}

static enum pz_status make_reference(const struct maker *m, uint32_t i,
                                     struct pz_result_reference *o) {
  struct pz_study *s = m->s;
  const struct pz_reference *ref = &s->reference[i];
  const struct pz_chip *c = &s->reference_chip;
  double limit = c->watts > 0 ? c->watts : s->reference_taken.watts;
  *o = (struct pz_result_reference){.model = m->r->inputs.models[i].name,
                                    .samples_per_s = ref->samples_per_s,
                                    .hbm_gib = ref->hbm_gib,
                                    .expert = ref->expert};
  if (!pz_study_is_training(s)) return ref->expert ? make_expert(m, ref, o) : PZ_OK;
  o->hbm_gib = (double)pz_chip_hbm_bytes(c) / 0x1p30;
  return training_of(m, c, limit, i, &o->training, &o->samples_per_s);
}

static enum pz_status make_references(const struct maker *m) {
  struct pz_result *r = m->r;
  const struct pz_study *s = m->s;
  const struct pz_chip *c = &s->reference_chip;
  enum pz_status status = PZ_OK;
  r->n_references = s->o.n_models;
  r->references = pz_arena_alloc(r->arena, r->n_references, sizeof *r->references);
  if (!r->references) return no_memory(m->err);
  for (uint32_t i = 0; i < r->n_references && status == PZ_OK; i++)
    status = make_reference(m, i, &r->references[i]);
  struct pz_taken known = s->reference_taken; /* it is built: its power is that of its data sheet */
  if (c->watts > 0 && c->watts < known.watts) known.watts = c->watts;
  const char *breaks =
      pz_study_is_training(s) ? pz_limits_broken(&s->limits, &known, &known) : NULL;
  r->reference_chip = (struct pz_result_chip_summary){.name = copy(m, c->name),
                                                      .area_mm2 = s->reference_taken.mm2,
                                                      .peak_watts = s->reference_taken.watts,
                                                      .dollars = s->reference_taken.dollars,
                                                      .clock_hz = c->clock_hz,
                                                      .tdp_watts = c->watts,
                                                      .breaks = copy(m, breaks)};
  return r->reference_chip.name ? status : no_memory(m->err);
}

/* The term that changes the steps most, towards what the objective does. */
static void find_where(const struct pz_answer *best, struct pz_result_step *s) {
  const struct pz_part_info *part;
  for (size_t k = 0; (part = pz_time_part_at(k)); k++) {
    double more = 0;
    for (uint32_t i = 0; i < s->n_models; i++) {
      const struct pz_training_answer *own = best->models[i].training;
      more += (pz_time_part(&s->models[i].parts, part) - pz_time_part(&own->parts, part)) /
              own->step_s / s->n_models;
    }
    if (s->where && (s->change > 0 ? more >= s->where_change : more <= s->where_change)) continue;
    s->where = part->label;
    s->where_change = more;
  }
}

static enum pz_status make_step_models(const struct maker *m, const struct pz_answer *best,
                                       const struct pz_step *t, struct pz_result_step *s) {
  const struct pz_objective *o = &m->s->objective_run[m->s->n_runs - 1].objective;
  for (uint32_t i = 0; i < best->n_models; i++)
    if (!t->plans || !t->plans[o->models[i]].fits) return PZ_OK;
  s->models = pz_arena_alloc(m->r->arena, best->n_models, sizeof *s->models);
  if (!s->models) return no_memory(m->err);
  for (; s->n_models < best->n_models; s->n_models++) {
    const struct pz_step_plan *p = &t->plans[o->models[s->n_models]];
    s->models[s->n_models] = (struct pz_step_answer){best->models[s->n_models].model, p->step_s,
                                                     p->parts, copy(m, p->text)};
    if (!s->models[s->n_models].plan) return no_memory(m->err);
  }
  find_where(best, s);
  return PZ_OK;
}

static enum pz_status make_sensitivity(struct maker *m) {
  struct pz_result *r = m->r;
  const struct pz_objective_run *c = &m->s->objective_run[m->s->n_runs - 1];
  const struct pz_answer *best = &r->answers[r->n_answers - 1];
  enum pz_status status =
      pz_sensitivity(m->s, c, best->hbm_gib, m->watch, m->steps, &r->n_sensitivity, m->err);
  if (status != PZ_OK) return status;
  r->sensitivity = pz_arena_alloc(r->arena, r->n_sensitivity, sizeof *r->sensitivity);
  if (!r->sensitivity) return no_memory(m->err);
  for (uint32_t i = 0; i < r->n_sensitivity && status == PZ_OK; i++) {
    const struct pz_step *t = &m->steps[i];
    r->sensitivity[i] = (struct pz_result_step){.parameter = t->what,
                                                .from = copy(m, t->from),
                                                .to = copy(m, t->to),
                                                .objective = t->value,
                                                .change = t->value / c->value - 1,
                                                .change_at_most = t->bound / c->value - 1,
                                                .area_mm2 = t->taken.mm2,
                                                .peak_watts = t->taken.watts,
                                                .dollars = t->taken.dollars,
                                                .breaks = copy(m, t->breaks)};
    if (!r->sensitivity[i].from || !r->sensitivity[i].to) return no_memory(m->err);
    status = make_step_models(m, best, t, &r->sensitivity[i]);
  }
  return status;
}

/* Of a best chip that is proved to be one. */
static enum pz_status make_robustness(const struct maker *m) {
  struct pz_result *r = m->r;
  if (!pz_study_is_training(m->s) || !m->s->objective_run[m->s->n_runs - 1].finished) return PZ_OK;
  return pz_robustness_make(m->s, &m->s->objective_run[m->s->n_runs - 1], m->steps,
                            r->n_sensitivity, m->watch, r->arena, &r->robustness, m->err);
}

/* The best chip by plans of another execution. */
static enum pz_status value_with(const struct maker *m, const struct pz_training_question *q,
                                 double *value) {
  struct pz_study *s = m->s;
  const struct pz_objective_run *c = &s->objective_run[s->n_runs - 1];
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS] = {{0}};
  struct pz_box b = pz_box_of(&c->best);
  struct pz_evaluator *by = NULL;
  struct pz_boxed chip;
  pz_boxed_set(&s->space, &b, &chip);
  enum pz_status status =
      pz_training_new(q, &chip.lo, NULL, pz_training_times(s->by, 0), &by, m->err);
  for (uint32_t i = 0; i < c->objective.n && status == PZ_OK; i++) {
    uint32_t k = c->objective.models[i];
    struct pz_evaluation e = {.step_s = HUGE_VAL};
    status = by->ops->value(by, 0, &chip, k, PZ_EFFORT_FULL, HUGE_VAL, &e, m->err);
    steps[k] = (struct pz_step_cost){e.step_s, e.dynamic_j};
  }
  if (status == PZ_OK) *value = pz_objective_value(&c->objective, steps, &chip.least);
  pz_evaluator_free(by);
  return status;
}

static enum pz_status make_executions(const struct maker *m) {
  struct pz_result *r = m->r;
  struct pz_training_question serial = m->s->training, whole = serial;
  if (!pz_study_is_training(m->s) || serial.serial) return PZ_OK;
  serial.serial = whole.whole = true;
  r->executions = pz_arena_alloc(r->arena, 1, sizeof *r->executions);
  if (!r->executions) return no_memory(m->err);
  enum pz_status status = value_with(m, &serial, &r->executions->serial);
  return status == PZ_OK ? value_with(m, &whole, &r->executions->whole) : status;
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
    r->front->points[i] = (struct pz_result_front_chip){.chip = copy(m, chip.name),
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
  enum pz_status status = pz_front_find(m->s, m->watch, &front, m->err);
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

enum pz_status pz_result_make(struct pz_result *r, struct pz_study *s, struct pz_watch watch,
                              struct pz_error *err) {
  struct maker m = {.r = r, .s = s, .watch = watch, .err = err};
  enum pz_status status = take_inputs(&m);
  if (status == PZ_OK) status = make_answers(&m);
  if (status == PZ_OK) status = make_sensitivity(&m);
  if (status == PZ_OK) status = make_robustness(&m);
  if (status == PZ_OK) status = make_executions(&m);
  if (status == PZ_OK) status = make_front(&m);
  return status == PZ_OK ? make_references(&m) : status;
}
