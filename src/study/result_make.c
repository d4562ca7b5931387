/* Makes the result of a study whose objective runs are done.  pz_result_build() fills it in this
 * order: the inputs; an answer for each objective run, whose plans are made again and whose
 * objective is checked against that of the search; one step on every axis away from the best
 * chip (sensitivity.h); the constants of data-sheet chips moved over their ranges
 * (robustness.h); other ways to execute a step; the Pareto front (pareto.h); and the reference
 * chip.  All parts are allocated in the arena of the result. */
#include "study/result_make.h"

#include <math.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "study/pareto.h"
#include "study/robustness.h"

struct result_maker {
  struct pz_call *call;
  struct pz_call result_call; /* allocates in the arena of the result */
  struct pz_result *result;
  struct pz_study *study;
  struct pz_watch watch;
  const struct pz_objective_run *common;
  struct pz_step steps[PZ_MOST_STEPS]; /* neighbours of the best chip, for the sensitivity */
};

/* ---- answers -------------------------------------------------------------------------------- */

/* Returns the best plan of a model on a chip, and its throughput in *samples_per_s.  Joules are
 * those of static power over the step and of operations.  Chips of a library state no power at full
 * load, because the library has no static power and no links. */
static const struct pz_training_answer *make_training_answer(struct result_maker *maker,
                                                             const struct pz_chip *chip,
                                                             double limit_watts, uint32_t model,
                                                             double *samples_per_s) {
  const struct pz_training_question *question = &maker->study->training;
  struct pz_training_answer *training = pz_alloc(&maker->result_call, 1, sizeof *training);
  struct pz_found_plan found;
  double dynamic_j = 0, static_watts = pz_chip_taken(chip).static_watts;
  if (!pz_training_find_plan(maker->call, maker->study->evaluator, 0, chip, model, &found,
                             &dynamic_j))
    pz_raise(maker->call, PZ_BAD_INPUT, "no plan of %s fits on %s", question->models[model],
             chip->name);
  double joules = (double)question->devices * static_watts * found.p.step_s + dynamic_j;
  bool library = pz_tech_is_library(pz_tech_at(chip->tech));
  *training = (struct pz_training_answer){
      .plan = found.plan,
      .step_s = found.p.step_s,
      .mfu = found.p.mfu,
      .mfu_conventional = found.p.mfu_conventional,
      .joules = joules,
      .full_watts = library ? 0 : joules / ((double)question->devices * found.p.step_s),
      .peak_bytes = found.p.peak_bytes,
      .usable_bytes = found.p.usable_bytes,
      .parts = found.p.parts,
      .limit_watts = limit_watts};
  if (found.plan.stage_recompute) /* the original belongs to the evaluator, until its next call */
    training->plan.stage_recompute =
        pz_copy(&maker->result_call, found.plan.stage_recompute, (size_t)found.plan.pp,
                sizeof *found.plan.stage_recompute);
  *samples_per_s =
      (double)(question->model_batch[model] ? question->model_batch[model] : question->batch) /
      training->step_s;
  return training;
}

/* Returns the best partition of a model on the best chip of a run, and its throughput in
 * *samples_per_s.  It is made again from its evaluation, which checks the evaluation. */
static const struct pz_partition *make_partition(struct result_maker *maker,
                                                 const struct pz_objective_run *run,
                                                 const struct pz_answer *answer, uint32_t model,
                                                 double *samples_per_s) {
  struct pz_study *study = maker->study;
  struct pz_original_worker *worker = pz_original_worker(study->evaluator, 0);
  struct pz_partition *plan = pz_alloc(&maker->result_call, 1, sizeof *plan);
  struct pz_evaluation known_evaluation;
  if (!pz_search_known(study->search, &run->best, model, &known_evaluation))
    pz_raise(maker->call, PZ_INTERNAL, "the best chip was not evaluated");
  struct pz_evaluation evaluation = pz_original_evaluate(
      maker->call, worker, &run->best, model, answer->hbm_gib, known_evaluation.effort, HUGE_VAL);
  pz_original_restore_plan(&maker->result_call, worker, answer->chip, answer->hbm_gib, &evaluation,
                           plan);
  *samples_per_s = (double)study->options.batch / evaluation.step_s;
  return plan;
}

/* Raises an error unless the plans of an answer give the objective of the search, because the
 * evaluations of a saved run may have been changed. */
static void check_objective(struct result_maker *maker, const struct pz_objective_run *run,
                            const struct pz_answer *answer) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_taken taken = pz_chip_taken(answer->chip);
  for (uint32_t k = 0; k < run->objective.n; k++) {
    uint32_t i = run->objective.models[k];
    const struct pz_training_answer *training = answer->models[k].training;
    double step_s = training ? training->step_s : answer->models[k].plan->step_s;
    steps[i] = (struct pz_step_cost){step_s, 0};
    if (training)
      steps[i].dynamic_j = training->joules - run->objective.devices * taken.static_watts * step_s;
  }
  double value = pz_objective_value(&run->objective, steps, &taken);
  /* Sums may be rounded in another order; the comparison is false for NaN. */
  bool same = fabs(value - run->value) <= 1e-9 * fabs(run->value);
  if (!same)
    pz_raise(maker->call, PZ_BAD_INPUT,
             "chip %s has an objective of %.9g by its plans, and %.9g by the saved evaluations; "
             "accepted: --fresh",
             answer->chip->name, value, run->value);
}

/* Sets the models of an answer: plans on its chip, throughputs and ratios to the reference. */
static void make_answer_models(struct result_maker *maker, const struct pz_objective_run *run,
                               struct pz_answer *answer) {
  const struct pz_study *study = maker->study;
  double ratios[PZ_SEARCH_MOST_MODELS];
  const char *names[PZ_SEARCH_MOST_MODELS];
  double limit_watts = study->limits.watts > 0 ? study->limits.watts : answer->peak_watts;
  answer->n_models = run->objective.n;
  answer->models = pz_alloc(&maker->result_call, answer->n_models, sizeof *answer->models);
  for (uint32_t k = 0; k < answer->n_models; k++) {
    struct pz_answer_model *out = &answer->models[k];
    uint32_t model = run->objective.models[k];
    if (study->options.evaluator == PZ_EVALUATOR_TRAINING)
      out->training =
          make_training_answer(maker, answer->chip, limit_watts, model, &out->samples_per_s);
    else
      out->plan = make_partition(maker, run, answer, model, &out->samples_per_s);
    double reference = run->objective.batch[model] / study->reference_step[model].step_s;
    out->model = maker->result->inputs.models[model].name;
    out->ratio = reference > 0 ? out->samples_per_s / reference : (double)NAN;
    ratios[k] = out->ratio;
    names[k] = out->model;
  }
  answer->ratios = pz_ratios_of(ratios, names, answer->n_models);
}

/* Sets the best chip of objective run i with its cost, uncertainty, certificate and models. */
static void make_answer(struct result_maker *maker, uint32_t i, struct pz_answer *answer) {
  struct pz_study *study = maker->study;
  const struct pz_objective_run *run = &study->objective_run[i];
  struct pz_chip *chip = pz_alloc(&maker->result_call, 1, sizeof *chip);
  answer->hbm_gib = pz_study_smallest_memory(maker->call, study, run);
  pz_study_chip(study, run, answer->hbm_gib, chip);
  answer->chip = chip;
  struct pz_taken taken = pz_chip_taken(chip);
  answer->name = pz_copy_text(&maker->result_call, pz_study_run_name(study, i));
  answer->chip_id = pz_space_id(&study->space, &run->best);
  answer->area_mm2 = taken.mm2;
  answer->area_part = study->limits.mm2 > 0 ? taken.mm2 / study->limits.mm2 : 0;
  answer->peak_watts = taken.watts;
  answer->dollars = taken.dollars;
  answer->owner_dollars = taken.owner_dollars;
  answer->edge_mm = taken.edge_mm;
  answer->edge_room_mm = taken.edge_room_mm;
  answer->objective = run->value;
  /* Both chips that the objective compares were never measured; their errors are independent. */
  enum pz_objective_kind kind = study->options.objective;
  bool is_ratio = kind == PZ_OBJECTIVE_GEOMEAN || kind == PZ_OBJECTIVE_WEIGHTED;
  double spread = pz_cold_spread(), factor = 1 + sqrt(2) * spread;
  if (study->options.evaluator == PZ_EVALUATOR_TRAINING && is_ratio)
    answer->uncertainty = (struct pz_uncertainty){spread, run->value / factor, run->value * factor};
  /* The best chip is counted as evaluated, although its box may be open or closed by a bound. */
  enum pz_box_end end = PZ_BOX_EVALUATED;
  for (uint32_t k = 0; k < run->n_boxes; k++)
    if (pz_box_has(&run->boxes[k].box, &run->best)) end = run->boxes[k].end;
  answer->certificate =
      (struct pz_certificate){.n_chips = run->chips,
                              .n_infeasible = run->infeasible,
                              .n_excluded = run->by_bound - (end == PZ_BOX_BOUND),
                              .n_excluded_by_schedules = run->n_partly - (end == PZ_BOX_PARTLY),
                              .n_evaluated = run->n_evaluated + (end != PZ_BOX_EVALUATED),
                              .n_boxes = run->n_boxes,
                              .n_rounds = (int64_t)run->rounds,
                              .n_open = run->n_open,
                              .gap = run->bound / run->value - 1,
                              .finished = run->finished};
  make_answer_models(maker, run, answer);
  check_objective(maker, run, answer);
}

/* ---- the reference chip --------------------------------------------------------------------- */

/* Sets the plans of all models on the reference chip, and the data of that chip. */
static void make_references(struct result_maker *maker) {
  struct pz_result *result = maker->result;
  const struct pz_study *study = maker->study;
  const struct pz_chip *chip = &study->reference_chip;
  bool training = study->options.evaluator == PZ_EVALUATOR_TRAINING;
  result->n_references = study->options.n_models;
  result->references =
      pz_alloc(&maker->result_call, result->n_references, sizeof *result->references);
  for (uint32_t i = 0; i < result->n_references; i++) {
    const struct pz_reference *reference = &study->reference[i];
    struct pz_result_reference *out = &result->references[i];
    *out = (struct pz_result_reference){.model = result->inputs.models[i].name,
                                        .samples_per_s = reference->samples_per_s,
                                        .hbm_gib = reference->hbm_gib,
                                        .expert = reference->expert};
    if (training) {
      double limit_watts = chip->watts > 0 ? chip->watts : study->reference_taken.watts;
      out->hbm_gib = (double)pz_chip_hbm_bytes(chip) / 0x1p30;
      out->training = make_training_answer(maker, chip, limit_watts, i, &out->samples_per_s);
    } else if (reference->expert) {
      struct pz_reference_plan plan = {.tp = reference->plan.tp,
                                       .pp = reference->plan.stages,
                                       .dp = reference->plan.replicas,
                                       .mbs = reference->plan.mbs,
                                       .recompute = reference->plan.recompute};
      out->plan = pz_copy(&maker->result_call, &plan, 1, sizeof plan);
    }
  }
  /* The reference chip exists, so the power of its data sheet is used if that is lower. */
  struct pz_taken built = study->reference_taken;
  if (chip->watts > 0 && chip->watts < built.watts) built.watts = chip->watts;
  const char *breaks = training ? pz_limits_broken(&study->limits, &built, &built) : NULL;
  result->reference_chip = (struct pz_result_chip_summary){
      .name = pz_copy_text(&maker->result_call, chip->name),
      .area_mm2 = study->reference_taken.mm2,
      .peak_watts = study->reference_taken.watts,
      .dollars = study->reference_taken.dollars,
      .clock_hz = chip->clock_hz,
      .tdp_watts = chip->watts,
      .breaks = breaks ? pz_copy_text(&maker->result_call, breaks) : NULL};
}

/* ---- around the best chip ------------------------------------------------------------------- */

/* Sets the plans of the models on a neighbour of the best chip, if all of them fit there, and the
 * part of the step time that changes most. */
static void make_step_models(struct result_maker *maker, const struct pz_answer *best,
                             const struct pz_step *found, struct pz_result_step *out) {
  const struct pz_objective *objective = &maker->common->objective;
  if (!found->plans) return;
  for (uint32_t i = 0; i < best->n_models; i++)
    if (!found->plans[objective->models[i]].fits) return;
  out->n_models = best->n_models;
  out->models = pz_alloc(&maker->result_call, best->n_models, sizeof *out->models);
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_step_plan *plan = &found->plans[objective->models[i]];
    out->models[i] = (struct pz_step_answer){best->models[i].model, plan->step_s, plan->parts,
                                             pz_copy_text(&maker->result_call, plan->text)};
  }
  /* Finds the part of step time that changes the objective most, averaged over the models. */
  const struct pz_part_info *part;
  for (size_t k = 0; (part = pz_time_part_at(k)) != NULL; k++) {
    double mean_change = 0;
    for (uint32_t i = 0; i < out->n_models; i++) {
      const struct pz_training_answer *best_training = best->models[i].training;
      mean_change +=
          (pz_time_part(&out->models[i].parts, part) - pz_time_part(&best_training->parts, part)) /
          best_training->step_s / out->n_models;
    }
    /* If the objective rises, the part that shrinks most counts, otherwise the one that grows
     * most. */
    bool smaller_change =
        out->change > 0 ? mean_change >= out->where_change : mean_change <= out->where_change;
    if (out->where && smaller_change) continue;
    out->where = part->label;
    out->where_change = mean_change;
  }
}

/* Evaluates the neighbours of the best chip and stores how the objective changes. */
static void make_sensitivity(struct result_maker *maker) {
  struct pz_result *result = maker->result;
  const struct pz_answer *best = pz_result_best(result);
  double value = maker->common->value;
  result->n_sensitivity = pz_sensitivity_steps(maker->call, maker->study, maker->common,
                                               best->hbm_gib, maker->watch, maker->steps);
  result->sensitivity =
      pz_alloc(&maker->result_call, result->n_sensitivity, sizeof *result->sensitivity);
  for (uint32_t i = 0; i < result->n_sensitivity; i++) {
    const struct pz_step *step = &maker->steps[i];
    result->sensitivity[i] = (struct pz_result_step){
        .parameter = step->parameter,
        .from = pz_copy_text(&maker->result_call, step->from),
        .to = pz_copy_text(&maker->result_call, step->to),
        .objective = step->value,
        .change = step->value / value - 1,
        .change_at_most = step->bound / value - 1,
        .area_mm2 = step->taken.mm2,
        .peak_watts = step->taken.watts,
        .dollars = step->taken.dollars,
        .breaks = step->breaks ? pz_copy_text(&maker->result_call, step->breaks) : NULL};
    make_step_models(maker, best, step, &result->sensitivity[i]);
  }
}

/* Returns the objective of the best chip with the best plans that `question` allows. */
static double objective_with(struct result_maker *maker,
                             const struct pz_training_question *question) {
  struct pz_study *study = maker->study;
  const struct pz_objective *objective = &maker->common->objective;
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS] = {{0}};
  struct pz_box best_box = pz_box_of(&maker->common->best);
  struct pz_boxed chip;
  pz_boxed_set(&study->space, &best_box, &chip);
  struct pz_evaluator *evaluator = pz_training_create(maker->call, question, &chip.lo, NULL,
                                                      pz_training_times(study->evaluator, 0));
  pz_defer(maker->call, pz_evaluator_free, evaluator);
  for (uint32_t i = 0; i < objective->n; i++) {
    struct pz_evaluation evaluation = evaluator->ops->evaluate(
        maker->call, evaluator, 0, &chip, objective->models[i], PZ_EFFORT_FULL, HUGE_VAL);
    steps[objective->models[i]] = (struct pz_step_cost){evaluation.step_s, evaluation.dynamic_j};
  }
  pz_close(maker->call, evaluator);
  return pz_objective_value(objective, steps, &chip.least);
}

/* Computes the Pareto front if the options ask for it, and stores its chips by name. */
static void make_front(struct result_maker *maker) {
  const struct pz_study *study = maker->study;
  if (!study->options.pareto) return;
  struct pz_front front = pz_pareto_front(maker->call, maker->study, maker->watch);
  pz_front_thin(&front, study->options.pareto_tolerance);
  struct pz_result_front *out = pz_alloc(&maker->result_call, 1, sizeof *out);
  out->points = pz_alloc(&maker->result_call, front.n, sizeof *out->points);
  for (uint32_t i = 0; i < front.n; i++) {
    const struct pz_front_point *point = &front.points[i];
    struct pz_chip chip;
    pz_space_chip(&study->space, &study->points[point->point], &chip);
    out->points[i] =
        (struct pz_result_front_chip){.chip = pz_copy_text(&maker->result_call, chip.name),
                                      .objective = point->value,
                                      .area_mm2 = point->area_um2 / 1e6,
                                      .peak_watts = point->watts,
                                      .knee = point->knee};
  }
  out->n_points = front.n;
  out->tolerance = study->options.pareto_tolerance;
  out->n_front_chips = front.n_full;
  out->n_evaluated = front.n_evaluated;
  maker->result->front = out;
}

/* ---- the result ----------------------------------------------------------------------------- */

/* Fills the result with answers, neighbours of the best chip, Pareto front and reference chip.  The
 * common answer is made first, then those of single models, the last one first. */
void pz_result_build(struct pz_call *call, struct pz_result *result, struct pz_study *study,
                     struct pz_watch watch) {
  struct result_maker maker = {.call = call,
                               .result_call = pz_call_in(call, result->arena),
                               .result = result,
                               .study = study,
                               .watch = watch,
                               .common = &study->objective_run[study->n_runs - 1]};
  json_t *inputs = pz_json_built(call, pz_study_inputs(study));
  char *text = pz_json_format(call, inputs, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
  pz_result_set_inputs(call, result, text);
  result->n_answers = study->n_runs;
  result->answers = pz_alloc(&maker.result_call, result->n_answers, sizeof *result->answers);
  for (uint32_t left = result->n_answers; left > 0; left--)
    make_answer(&maker, left - 1, &result->answers[left - 1]);
  make_sensitivity(&maker);
  if (study->options.evaluator == PZ_EVALUATOR_TRAINING && maker.common->finished)
    result->robustness = pz_robustness_make(&maker.result_call, study, maker.common, maker.steps,
                                            result->n_sensitivity, watch);
  /* The objective if operators run one after another, or overlap in whole layers only. */
  struct pz_training_question serial = study->training, whole = study->training;
  if (study->options.evaluator == PZ_EVALUATOR_TRAINING && !study->training.serial) {
    struct pz_executions *executions = pz_alloc(&maker.result_call, 1, sizeof *executions);
    serial.serial = true;
    whole.whole = true;
    executions->serial = objective_with(&maker, &serial);
    executions->whole = objective_with(&maker, &whole);
    result->executions = executions;
  }
  make_front(&maker);
  make_references(&maker);
}
