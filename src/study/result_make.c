/* Makes the result of a study whose objective runs are done.  pz_result_build() fills it in this order: the inputs; an
 * answer for each objective run, whose plans are made again and whose objective is checked against that of the search; one
 * step on every axis away from the best chip (sensitivity.h); the constants of data-sheet chips moved over their ranges
 * (robustness.h); other ways to execute a step; the Pareto front (pareto.h); and the reference chip.  All parts are
 * allocated in the arena of the result. */
#include "study/result_make.h"

#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "study/pareto.h"
#include "study/robustness.h"

struct result_maker {
  struct pz_call *call;
  struct pz_call own; /* allocates in the result */
  struct pz_result *r;
  struct pz_study *s;
  struct pz_watch watch;
  const struct pz_objective_run *common;
  struct pz_step steps[PZ_MOST_STEPS]; /* of the sensitivity */
};

static const char *copy_or_null(struct result_maker *m, const char *text) {
  return text ? pz_copy_text(&m->own, text) : NULL;
}

/* ---- answers -------------------------------------------------------------------------------- */

/* Counts of an objective run.  The best chip was evaluated, although its box may be open, or closed by a bound within the
 * gap: it is counted as evaluated in any case. */
static struct pz_certificate make_certificate(const struct pz_objective_run *run) {
  enum pz_box_end end = PZ_BOX_EVALUATED;
  for (uint32_t i = 0; i < run->n_boxes; i++)
    if (pz_box_has(&run->boxes[i].box, &run->best)) end = run->boxes[i].end;
  return (struct pz_certificate){.n_chips = run->chips,
                                 .n_infeasible = run->infeasible,
                                 .n_excluded = run->by_bound - (end == PZ_BOX_BOUND),
                                 .n_excluded_by_schedules = run->n_partly - (end == PZ_BOX_PARTLY),
                                 .n_evaluated = run->n_evaluated + (end != PZ_BOX_EVALUATED),
                                 .n_boxes = run->n_boxes,
                                 .n_rounds = (int64_t)run->rounds,
                                 .n_open = run->n_open,
                                 .gap = run->bound / run->value - 1,
                                 .finished = run->finished};
}

/* Finds the best plan of a model on a chip with its energy: static power of all devices over the step, and the dynamic
 * energy of its operations.  Chips of a library, which has no static power and links, have no power at full load. */
static const struct pz_training_answer *make_training_answer(struct result_maker *m,
                                                             const struct pz_chip *chip,
                                                             double limit_watts, uint32_t model,
                                                             double *samples_per_s) {
  const struct pz_training_question *q = &m->s->training;
  struct pz_training_answer *a = pz_alloc(&m->own, 1, sizeof *a);
  struct pz_found_plan found;
  double dynamic_j = 0, static_watts = pz_chip_taken(chip).static_watts;
  if (!pz_training_find_plan(m->call, m->s->by, 0, chip, model, &found, &dynamic_j))
    pz_raise(m->call, PZ_BAD_INPUT, "no plan of %s fits on %s", q->models[model], chip->name);
  double joules = (double)q->devices * static_watts * found.p.step_s + dynamic_j;
  bool library = pz_tech_is_library(pz_tech_at(chip->tech));
  *a = (struct pz_training_answer){.plan = found.plan,
                                   .step_s = found.p.step_s,
                                   .mfu = found.p.mfu,
                                   .mfu_conventional = found.p.mfu_conventional,
                                   .joules = joules,
                                   .full_watts =
                                       library ? 0 : joules / ((double)q->devices * found.p.step_s),
                                   .peak_bytes = found.p.peak_bytes,
                                   .usable_bytes = found.p.usable_bytes,
                                   .parts = found.p.parts,
                                   .limit_watts = limit_watts};
  if (found.plan.stage_recompute) /* belongs to the evaluator, until its next call */
    a->plan.stage_recompute = pz_copy(&m->own, found.plan.stage_recompute, (size_t)found.plan.pp,
                                      sizeof *found.plan.stage_recompute);
  *samples_per_s = (double)pz_training_batch(q, model) / a->step_s;
  return a;
}

/* Makes the partition of a model on the best chip again, which checks it. */
static const struct pz_partition *make_partition(struct result_maker *m,
                                                 const struct pz_objective_run *run,
                                                 const struct pz_answer *a, uint32_t model,
                                                 double *samples_per_s) {
  struct pz_study *s = m->s;
  struct pz_original_worker *worker = pz_original_worker(s->by, 0);
  struct pz_partition *plan = pz_alloc(&m->own, 1, sizeof *plan);
  struct pz_call own = pz_call_in(m->call, m->r->arena);
  struct pz_evaluation known;
  if (!pz_search_known(s->search, &run->best, model, &known))
    pz_raise(m->call, PZ_INTERNAL, "the best chip was not evaluated");
  struct pz_evaluation e =
      pz_original_evaluate(m->call, worker, &run->best, model, a->hbm_gib, known.effort, HUGE_VAL);
  pz_original_restore_plan(&own, worker, a->chip, a->hbm_gib, &e, plan);
  *samples_per_s = (double)s->o.batch / e.step_s;
  return plan;
}

/* The objective is computed again from the throughputs of the plans, because evaluations that a run file saved may have
 * been changed. */
static void check_objective(struct result_maker *m, const struct pz_objective_run *run,
                            const struct pz_answer *a) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_taken taken = pz_chip_taken(a->chip);
  for (uint32_t k = 0; k < run->objective.n; k++) {
    uint32_t i = run->objective.models[k];
    const struct pz_training_answer *t = a->models[k].training;
    double step_s = t ? t->step_s : a->models[k].plan->step_s;
    steps[i] = (struct pz_step_cost){step_s, 0};
    if (t) steps[i].dynamic_j = t->joules - run->objective.devices * taken.static_watts * step_s;
  }
  double value = pz_objective_value(&run->objective, steps, &taken);
  bool same = fabs(value - run->value) <= 1e-9 * fabs(run->value); /* false for NaN */
  if (!same)
    pz_raise(m->call, PZ_BAD_INPUT,
             "chip %s has an objective of %.9g by its plans, and %.9g by the saved evaluations; "
             "accepted: --fresh",
             a->chip->name, value, run->value);
}

/* The objective compares a chip that was never measured with another such chip: both errors count, as independent ones. */
static struct pz_uncertainty objective_uncertainty(const struct pz_study *s, double value) {
  double both = 1 + sqrt(2) * pz_cold_spread();
  bool ratio = s->o.objective == PZ_OBJECTIVE_GEOMEAN || s->o.objective == PZ_OBJECTIVE_WEIGHTED;
  if (!pz_study_is_training(s) || !ratio) return (struct pz_uncertainty){0};
  return (struct pz_uncertainty){pz_cold_spread(), value / both, value * both};
}

/* Sets the models of an answer: their plans on its chip, throughputs, and ratios to the reference. */
static void make_answer_models(struct result_maker *m, const struct pz_objective_run *run,
                               struct pz_answer *a) {
  const struct pz_study *s = m->s;
  double ratios[PZ_SEARCH_MOST_MODELS];
  const char *names[PZ_SEARCH_MOST_MODELS];
  double limit_watts = s->limits.watts > 0 ? s->limits.watts : a->peak_watts;
  a->n_models = run->objective.n;
  a->models = pz_alloc(&m->own, a->n_models, sizeof *a->models);
  for (uint32_t k = 0; k < a->n_models; k++) {
    struct pz_answer_model *out = &a->models[k];
    uint32_t model = run->objective.models[k];
    if (pz_study_is_training(s))
      out->training = make_training_answer(m, a->chip, limit_watts, model, &out->samples_per_s);
    else
      out->plan = make_partition(m, run, a, model, &out->samples_per_s);
    double reference = run->objective.batch[model] / s->reference_step[model].step_s;
    out->model = m->r->inputs.models[model].name;
    out->ratio = reference > 0 ? out->samples_per_s / reference : (double)NAN;
    ratios[k] = out->ratio;
    names[k] = out->model;
  }
  a->ratios = pz_ratios_of(ratios, names, a->n_models);
}

static void make_answer(struct result_maker *m, uint32_t i, struct pz_answer *a) {
  struct pz_study *s = m->s;
  const struct pz_objective_run *run = &s->objective_run[i];
  struct pz_chip *chip = pz_alloc(&m->own, 1, sizeof *chip);
  a->hbm_gib = pz_study_smallest_memory(m->call, s, run);
  pz_study_chip(s, run, a->hbm_gib, chip);
  a->chip = chip;
  struct pz_taken taken = pz_chip_taken(chip);
  a->name = pz_copy_text(&m->own, pz_study_run_name(s, i));
  a->chip_id = pz_space_id(&s->space, &run->best);
  a->area_mm2 = taken.mm2;
  a->area_part = s->limits.mm2 > 0 ? taken.mm2 / s->limits.mm2 : 0;
  a->peak_watts = taken.watts;
  a->dollars = taken.dollars;
  a->owner_dollars = taken.owner_dollars;
  a->edge_mm = taken.edge_mm;
  a->edge_room_mm = taken.edge_room_mm;
  a->objective = run->value;
  a->uncertainty = objective_uncertainty(s, run->value);
  a->certificate = make_certificate(run);
  make_answer_models(m, run, a);
  check_objective(m, run, a);
}

/* ---- the reference chip --------------------------------------------------------------------- */

static void make_references(struct result_maker *m) {
  struct pz_result *r = m->r;
  const struct pz_study *s = m->s;
  const struct pz_chip *chip = &s->reference_chip;
  bool training = pz_study_is_training(s);
  r->n_references = s->o.n_models;
  r->references = pz_alloc(&m->own, r->n_references, sizeof *r->references);
  for (uint32_t i = 0; i < r->n_references; i++) {
    const struct pz_reference *ref = &s->reference[i];
    struct pz_result_reference *out = &r->references[i];
    *out = (struct pz_result_reference){.model = r->inputs.models[i].name,
                                        .samples_per_s = ref->samples_per_s,
                                        .hbm_gib = ref->hbm_gib,
                                        .expert = ref->expert};
    if (training) {
      double limit_watts = chip->watts > 0 ? chip->watts : s->reference_taken.watts;
      out->hbm_gib = (double)pz_chip_hbm_bytes(chip) / 0x1p30;
      out->training = make_training_answer(m, chip, limit_watts, i, &out->samples_per_s);
    } else if (ref->expert) {
      struct pz_reference_plan plan = {.tp = ref->plan.t,
                                       .pp = ref->plan.stages,
                                       .dp = ref->plan.d,
                                       .mbs = ref->plan.mbs,
                                       .recompute = ref->plan.recompute};
      out->plan = pz_copy(&m->own, &plan, 1, sizeof plan);
    }
  }
  /* The reference chip exists, so that the power of its data sheet counts if that is lower. */
  struct pz_taken built = s->reference_taken;
  if (chip->watts > 0 && chip->watts < built.watts) built.watts = chip->watts;
  const char *breaks = training ? pz_limits_broken(&s->limits, &built, &built) : NULL;
  r->reference_chip = (struct pz_result_chip_summary){.name = copy_or_null(m, chip->name),
                                                      .area_mm2 = s->reference_taken.mm2,
                                                      .peak_watts = s->reference_taken.watts,
                                                      .dollars = s->reference_taken.dollars,
                                                      .clock_hz = chip->clock_hz,
                                                      .tdp_watts = chip->watts,
                                                      .breaks = copy_or_null(m, breaks)};
}

/* ---- around the best chip ------------------------------------------------------------------- */

/* Finds the part of step time that changes most in the direction of the objective, averaged over the models. */
static void find_changed_part(const struct pz_answer *best, struct pz_result_step *step) {
  const struct pz_part_info *part;
  for (size_t k = 0; (part = pz_time_part_at(k)) != NULL; k++) {
    double more = 0;
    for (uint32_t i = 0; i < step->n_models; i++) {
      const struct pz_training_answer *own = best->models[i].training;
      more += (pz_time_part(&step->models[i].parts, part) - pz_time_part(&own->parts, part)) /
              own->step_s / step->n_models;
    }
    bool smaller_change =
        step->change > 0 ? more >= step->where_change : more <= step->where_change;
    if (step->where && smaller_change) continue;
    step->where = part->label;
    step->where_change = more;
  }
}

/* Sets the plans of a step on an axis, unless a model does not fit there. */
static void make_step_models(struct result_maker *m, const struct pz_answer *best,
                             const struct pz_step *found, struct pz_result_step *out) {
  const struct pz_objective *o = &m->common->objective;
  if (!found->plans) return;
  for (uint32_t i = 0; i < best->n_models; i++)
    if (!found->plans[o->models[i]].fits) return;
  out->n_models = best->n_models;
  out->models = pz_alloc(&m->own, best->n_models, sizeof *out->models);
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_step_plan *p = &found->plans[o->models[i]];
    out->models[i] = (struct pz_step_answer){best->models[i].model, p->step_s, p->parts,
                                             pz_copy_text(&m->own, p->text)};
  }
  find_changed_part(best, out);
}

static void make_sensitivity(struct result_maker *m) {
  struct pz_result *r = m->r;
  const struct pz_answer *best = pz_result_best(r);
  double value = m->common->value;
  r->n_sensitivity =
      pz_sensitivity_steps(m->call, m->s, m->common, best->hbm_gib, m->watch, m->steps);
  r->sensitivity = pz_alloc(&m->own, r->n_sensitivity, sizeof *r->sensitivity);
  for (uint32_t i = 0; i < r->n_sensitivity; i++) {
    const struct pz_step *step = &m->steps[i];
    r->sensitivity[i] = (struct pz_result_step){.parameter = step->what,
                                                .from = copy_or_null(m, step->from),
                                                .to = copy_or_null(m, step->to),
                                                .objective = step->value,
                                                .change = step->value / value - 1,
                                                .change_at_most = step->bound / value - 1,
                                                .area_mm2 = step->taken.mm2,
                                                .peak_watts = step->taken.watts,
                                                .dollars = step->taken.dollars,
                                                .breaks = copy_or_null(m, step->breaks)};
    make_step_models(m, best, step, &r->sensitivity[i]);
  }
}

static void free_deferred_evaluator(void *evaluator) { pz_evaluator_free(evaluator); }

/* The objective of the best chip with the best plans under the restrictions of q. */
static double objective_with(struct result_maker *m, const struct pz_training_question *q) {
  struct pz_study *s = m->s;
  const struct pz_objective *o = &m->common->objective;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS] = {{0}};
  struct pz_box one = pz_box_of(&m->common->best);
  struct pz_boxed chip;
  pz_boxed_set(&s->space, &one, &chip);
  struct pz_evaluator *by =
      pz_training_create(m->call, q, &chip.lo, NULL, pz_training_times(s->by, 0));
  pz_defer(m->call, free_deferred_evaluator, by);
  for (uint32_t i = 0; i < o->n; i++) {
    struct pz_evaluation e =
        by->ops->evaluate(m->call, by, 0, &chip, o->models[i], PZ_EFFORT_FULL, HUGE_VAL);
    steps[o->models[i]] = (struct pz_step_cost){e.step_s, e.dynamic_j};
  }
  pz_close(m->call, by);
  return pz_objective_value(o, steps, &chip.least);
}

/* What the two ways to overlap operators are worth on the best chip. */
static void make_executions(struct result_maker *m) {
  struct pz_training_question serial = m->s->training, whole = m->s->training;
  if (!pz_study_is_training(m->s) || serial.serial) return;
  serial.serial = true;
  whole.whole = true;
  struct pz_executions *executions = pz_alloc(&m->own, 1, sizeof *executions);
  executions->serial = objective_with(m, &serial);
  executions->whole = objective_with(m, &whole);
  m->r->executions = executions;
}

static void make_front(struct result_maker *m) {
  const struct pz_study *s = m->s;
  if (!s->o.pareto) return;
  struct pz_front front = pz_pareto_front(m->call, m->s, m->watch);
  pz_front_thin(&front, s->o.pareto_tolerance);
  struct pz_result_front *out = pz_alloc(&m->own, 1, sizeof *out);
  out->points = pz_alloc(&m->own, front.n, sizeof *out->points);
  for (uint32_t i = 0; i < front.n; i++) {
    const struct pz_front_point *p = &front.points[i];
    struct pz_chip chip;
    pz_space_chip(&s->space, &s->points[p->point], &chip);
    out->points[i] = (struct pz_result_front_chip){.chip = pz_copy_text(&m->own, chip.name),
                                                   .objective = p->value,
                                                   .area_mm2 = p->area_um2 / 1e6,
                                                   .peak_watts = p->watts,
                                                   .knee = p->knee};
  }
  out->n_points = front.n;
  out->tolerance = s->o.pareto_tolerance;
  out->n_front_chips = front.n_full;
  out->n_evaluated = front.n_evaluated;
  m->r->front = out;
}

/* ---- the result ----------------------------------------------------------------------------- */

void pz_result_build(struct pz_call *call, struct pz_result *r, struct pz_study *s,
                     struct pz_watch watch) {
  struct result_maker m = {.call = call,
                           .own = pz_call_in(call, r->arena),
                           .r = r,
                           .s = s,
                           .watch = watch,
                           .common = &s->objective_run[s->n_runs - 1]};
  json_t *inputs = pz_json_built(call, pz_study_inputs(s));
  char *text = pz_json_dump(inputs, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
  if (!text) pz_raise(call, PZ_NO_MEMORY, "out of memory for the result");
  pz_defer(call, pz_free, text);
  pz_result_set_inputs(call, r, text);
  r->n_answers = s->n_runs;
  r->answers = pz_alloc(&m.own, r->n_answers, sizeof *r->answers);
  for (uint32_t left = r->n_answers; left > 0; left--)
    make_answer(&m, left - 1, &r->answers[left - 1]);
  make_sensitivity(&m);
  if (pz_study_is_training(s) && m.common->finished)
    r->robustness = pz_robustness_make(&m.own, s, m.common, m.steps, r->n_sensitivity, watch);
  make_executions(&m);
  make_front(&m);
  make_references(&m);
}
