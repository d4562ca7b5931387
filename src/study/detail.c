/* Makes the data of a report.  pz_detail_build() lists all chips with their statuses
 * (pz_detail_list_chips), chooses the evaluated chips to show (show_best_chips, show_front), lists
 * the plans of these chips for all models (list_plans), restores every plan from the record of the
 * search and measures which resources its most frequent layer uses (describe_plan, one task for
 * each plan), and schedules every layer on the common chip, the best one for all models together
 * (schedule_model). */
#include "study/detail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/vec.h"
#include "schedule/model/layer.h"
#include "schedule/solve.h"
#include "study/tasks.h"

const char *const pz_chip_status_names[PZ_CHIP_STATUSES] = {"tables", "schedules", "evaluated"};

struct detail_maker {
  struct pz_study *study;
  struct pz_result *result;
  struct pz_vec shown, plans; /* struct pz_shown_chip, struct shown_plan */
};

struct shown_plan {
  struct pz_chip_plan plan;
  struct pz_point point;
};

/* ---- chips ---------------------------------------------------------------------------------- */

/* Compares chips by id, for qsort. */
static int compare_ids(const void *a, const void *b) {
  const struct pz_result_chip *first = a, *second = b;
  return (first->id > second->id) - (first->id < second->id);
}

/* Sets how every chip of a closed box was decided: in `list`, which has the order of the result's
 * chips, a status with the bound or the value of the box. */
static void set_box_statuses(const struct pz_study *study, const struct pz_result *result,
                             const struct pz_closed_box *closed, struct pz_chip_status *list) {
  struct pz_point point = pz_box_point(&closed->box);
  struct pz_chip_status status = {PZ_CHIP_EXCLUDED_BY_TABLES, closed->bound, closed->bound};
  if (closed->end == PZ_BOX_PARTLY) status.kind = PZ_CHIP_EXCLUDED_BY_SCHEDULES;
  if (closed->end == PZ_BOX_EVALUATED) {
    status.kind = PZ_CHIP_EVALUATED;
    status.value = closed->value;
  }
  for (;;) {
    const struct pz_result_chip *chip = pz_result_chip(result, pz_space_id(&study->space, &point));
    if (chip) list[chip - result->chips] = status;
    int axis = 0; /* advances to the next point of the box, axis 0 fastest */
    while (axis < PZ_AXES && point.at[axis] == closed->box.hi[axis]) {
      point.at[axis] = closed->box.lo[axis];
      axis++;
    }
    if (axis == PZ_AXES) return;
    point.at[axis]++;
  }
}

/* Sets the chips of the result, sorted by id, and how each objective run decided on them. */
void pz_detail_list_chips(struct pz_call *call, const struct pz_study *study,
                          struct pz_result *result) {
  struct pz_call result_call = pz_call_in(call, result->arena);
  struct pz_result_chip *chips = pz_alloc(&result_call, study->n_points, sizeof *chips);
  for (uint32_t i = 0; i < study->n_points; i++) {
    struct pz_chip chip;
    pz_space_chip(&study->space, &study->points[i], &chip);
    struct pz_taken taken = pz_chip_taken(&chip);
    chips[i] = (struct pz_result_chip){.id = pz_space_id(&study->space, &study->points[i]),
                                       .name = pz_copy_text(&result_call, chip.name),
                                       .tensor_cores = chip.tensor.cores,
                                       .rows = chip.tensor.rows,
                                       .cols = chip.tensor.cols,
                                       .vector_cores = chip.vector.cores,
                                       .lanes = chip.vector.lanes,
                                       .glb_bytes = chip.glb_bytes,
                                       .area_mm2 = taken.mm2,
                                       .watts = taken.watts};
  }
  qsort(chips, study->n_points, sizeof *chips, compare_ids);
  result->chips = chips;
  result->n_chips = study->n_points;
  for (uint32_t run = 0; run < study->n_runs; run++) {
    const struct pz_objective_run *objective_run = &study->objective_run[run];
    struct pz_chip_status *list = pz_alloc(&result_call, result->n_chips, sizeof *list);
    for (uint32_t i = 0; i < objective_run->n_boxes; i++)
      if (objective_run->boxes[i].end != PZ_BOX_INFEASIBLE)
        set_box_statuses(study, result, &objective_run->boxes[i], list);
    result->answers[run].status = list;
  }
}

/* ---- chips to show -------------------------------------------------------------------------- */

/* Compares chips by value, the best first, then by id, for qsort. */
static int compare_shown(const void *a, const void *b) {
  const struct pz_shown_chip *first = a, *second = b;
  if (first->value != second->value) return first->value > second->value ? -1 : 1;
  return (first->chip_id > second->chip_id) - (first->chip_id < second->chip_id);
}

/* Adds the evaluated chips of an objective run, the best first, at most PZ_MOST_SHOWN. */
static void show_best_chips(struct pz_call *call, struct detail_maker *maker, uint32_t run) {
  const struct pz_chip_status *status = maker->result->answers[run].status;
  uint32_t first = maker->shown.n;
  for (uint32_t i = 0; i < maker->result->n_chips; i++) {
    struct pz_shown_chip shown = {run, maker->result->chips[i].id, status[i].value, status[i].bound,
                                  true};
    if (status[i].kind == PZ_CHIP_EVALUATED && shown.value > 0)
      pz_append(call, &maker->shown, &shown);
  }
  if (maker->shown.n > first)
    qsort(pz_vec_at(&maker->shown, struct pz_shown_chip, first), maker->shown.n - first,
          sizeof(struct pz_shown_chip), compare_shown);
  if (maker->shown.n > first + PZ_MOST_SHOWN) maker->shown.n = first + PZ_MOST_SHOWN;
}

/* Adds the chips of the Pareto front, which were evaluated outside of the objective run.  Their
 * values are geometric means, so they are shown only for that objective. */
static void show_front(struct pz_call *call, struct detail_maker *maker) {
  const struct pz_result *result = maker->result;
  uint32_t common = result->n_answers - 1;
  if (!result->front || maker->study->options.objective != PZ_OBJECTIVE_GEOMEAN) return;
  for (uint32_t i = 0; i < result->n_chips; i++)
    for (uint32_t k = 0; k < result->front->n_points; k++) {
      const struct pz_result_front_chip *front_chip = &result->front->points[k];
      if (strcmp(result->chips[i].name, front_chip->chip) != 0) continue;
      struct pz_shown_chip shown = {common, result->chips[i].id, front_chip->objective,
                                    front_chip->objective, false};
      bool listed = false;
      for (uint32_t j = 0; j < maker->shown.n && !listed; j++) {
        const struct pz_shown_chip *other = pz_vec_at(&maker->shown, struct pz_shown_chip, j);
        listed = other->answer == common && other->chip_id == shown.chip_id;
      }
      if (!listed) pz_append(call, &maker->shown, &shown);
    }
}

/* ---- their plans ---------------------------------------------------------------------------- */

/* Compares plans by chip, then by model, for qsort. */
static int compare_plans(const void *a, const void *b) {
  const struct shown_plan *first = a, *second = b;
  if (first->plan.chip_id != second->plan.chip_id)
    return first->plan.chip_id < second->plan.chip_id ? -1 : 1;
  return (first->plan.model > second->plan.model) - (first->plan.model < second->plan.model);
}

/* Lists a plan for every shown chip and every model of its objective run that fits on it. */
static void list_plans(struct pz_call *call, struct detail_maker *maker) {
  const struct pz_study *study = maker->study;
  for (uint32_t i = 0; i < maker->shown.n; i++) {
    const struct pz_shown_chip *shown = pz_vec_at(&maker->shown, struct pz_shown_chip, i);
    const struct pz_objective *objective = &study->objective_run[shown->answer].objective;
    struct pz_point point = pz_space_point(&study->space, shown->chip_id);
    for (uint32_t k = 0; k < objective->n; k++) {
      struct shown_plan plan = {.plan = {.chip_id = shown->chip_id, .model = objective->models[k]},
                                .point = point};
      struct pz_evaluation evaluation;
      /* The rounds from which a run is restored do not contain the chips of the front. */
      if (!pz_search_known(study->search, &point, objective->models[k], &evaluation))
        evaluation = pz_search_evaluate_chip(call, study->search, 0, &point, objective->models[k],
                                             PZ_EFFORT_QUICK);
      if (evaluation.plan.n_stages) pz_append(call, &maker->plans, &plan);
    }
  }
  struct shown_plan *list = maker->plans.items;
  uint32_t n = 0;
  if (maker->plans.n) qsort(list, maker->plans.n, sizeof *list, compare_plans);
  for (uint32_t i = 0; i < maker->plans.n; i++)
    if (!n || compare_plans(&list[n - 1], &list[i]) != 0) list[n++] = list[i];
  maker->plans.n = n;
}

struct layer_schedule {
  struct pz_problem problem;
  struct pz_schedule schedule;
};

/* Schedules a layer on the chip of the evaluator, as the search does: with little effort first,
 * and with more if the schedule is not proved optimal. */
static void schedule_layer(struct pz_call *call, struct pz_original_worker *worker,
                           const struct pz_ops *ops, enum pz_effort effort,
                           struct layer_schedule *out) {
  struct pz_layer_options kind = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options quick = {.steps = worker->task->o.quick_steps};
  struct pz_solve_options full = {.steps = worker->task->o.steps};
  out->problem = pz_layer_problem_build(call, &worker->cost, ops, &kind);
  out->schedule = pz_schedule_find(call, &out->problem, &quick);
  if (effort < PZ_EFFORT_FULL || out->schedule.outcome == PZ_OUTCOME_OPTIMAL) return;
  struct pz_schedule more = pz_schedule_find(call, &out->problem, &full);
  double bound = out->schedule.lower_bound;
  if (more.makespan < out->schedule.makespan) out->schedule = more;
  if (more.lower_bound > bound) bound = more.lower_bound;
  out->schedule.lower_bound = bound;
  if (bound >= out->schedule.makespan) out->schedule.outcome = PZ_OUTCOME_OPTIMAL;
}

/* Sets `use` to the mean fraction of each resource that the most frequent layer of a workload uses
 * over the time of its forward and backward pass. */
static void measure_layer_use(struct pz_call *call, struct pz_original_worker *worker,
                              uint32_t variant, double *use) {
  const struct pz_workload *workload = worker->task->portfolio->variants[variant].w;
  const struct pz_layer *layer = &workload->layers[0];
  double total = 0, share[PZ_RESOURCES];
  for (uint32_t i = 1; i < workload->n_layers; i++)
    if (workload->layers[i].count > layer->count) layer = &workload->layers[i];
  for (enum pz_direction direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
    struct layer_schedule scheduled;
    schedule_layer(call, worker, &layer->ops[direction], PZ_EFFORT_QUICK, &scheduled);
    pz_schedule_use(&scheduled.problem, scheduled.schedule.slots, scheduled.schedule.makespan,
                    share);
    total += scheduled.schedule.makespan;
    for (int resource = 0; resource < PZ_RESOURCES; resource++)
      use[resource] += share[resource] * scheduled.schedule.makespan;
  }
  for (int resource = 0; resource < PZ_RESOURCES && total > 0; resource++) use[resource] /= total;
}

struct plan_description {
  struct detail_maker *maker;
  struct shown_plan *plan;
  unsigned worker;
};

/* Restores the plan of a shown chip from its evaluation, and stores its degrees, step parts and
 * resource use. */
static void restore_plan(struct pz_call *call, void *ctx) {
  struct plan_description *description = ctx;
  const struct pz_study *study = description->maker->study;
  struct pz_original_worker *worker = pz_original_worker(study->evaluator, description->worker);
  struct pz_chip_plan *plan = &description->plan->plan;
  struct pz_evaluation evaluation;
  struct pz_partition partition;
  struct pz_chip chip;
  pz_space_chip(&study->space, &description->plan->point, &chip);
  if (!pz_search_known(study->search, &description->plan->point, plan->model, &evaluation))
    pz_raise(call, PZ_INTERNAL, "the chip was not evaluated");
  pz_original_restore_plan(call, worker, &chip,
                           (double)study->task.o.hbm_gib.v[study->task.o.hbm_gib.n - 1],
                           &evaluation, &partition);
  plan->samples_per_s = (double)study->options.batch / evaluation.step_s;
  plan->pp = partition.pp;
  plan->dp = partition.dp;
  plan->tp = partition.tp;
  plan->mbs = partition.mbs;
  plan->recompute = partition.recompute;
  plan->parts = partition.parts;
  measure_layer_use(call, worker, evaluation.plan.variant, plan->use);
}

/* Task i: restores plan i.  A plan that contradicts its evaluation is an error of the input,
 * because the saved run was changed. */
static void describe_plan(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct detail_maker *maker = ctx;
  struct plan_description description = {maker, pz_vec_at(&maker->plans, struct shown_plan, i),
                                         worker};
  struct pz_error error = {0};
  enum pz_status status = pz_border(restore_plan, &description, &error);
  if (status == PZ_INTERNAL) error.status = PZ_BAD_INPUT;
  if (status != PZ_OK) pz_raise_again(call, &error);
}

/* ---- schedules of the common chip ----------------------------------------------------------- */

/* Appends the schedules of all layers of a model, forward and backward, on the common chip: the
 * best one of the last objective run, which is that of all models together. */
static void schedule_model(struct pz_call *call, struct detail_maker *maker, uint32_t model,
                           struct pz_vec *out) {
  struct pz_study *study = maker->study;
  const struct pz_objective_run *common = &study->objective_run[study->n_runs - 1];
  struct pz_original_worker *worker = pz_original_worker(study->evaluator, 0);
  struct pz_call result_call = pz_call_in(call, maker->result->arena);
  struct pz_evaluation known_evaluation;
  if (!pz_search_known(study->search, &common->best, model, &known_evaluation))
    pz_raise(call, PZ_BAD_INPUT, "the run does not have its best chip's plans");
  struct pz_evaluation evaluation = pz_original_evaluate(call, worker, &common->best, model,
                                                         pz_result_best(maker->result)->hbm_gib,
                                                         known_evaluation.effort, HUGE_VAL);
  const struct pz_workload *workload = study->portfolio.variants[evaluation.plan.variant].w;
  struct pz_call work = pz_scratch(call);
  for (uint32_t i = 0; i < workload->n_layers; i++)
    for (enum pz_direction direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++) {
      struct layer_schedule solved;
      struct pz_layer_schedule row = {.model = maker->result->inputs.models[model].name,
                                      .layer = workload->layers[i].name,
                                      .count = workload->layers[i].count,
                                      .direction = direction};
      schedule_layer(&work, worker, &workload->layers[i].ops[direction], known_evaluation.effort,
                     &solved);
      const bool has_statistics = true; /* as well as ids and modes of operators */
      const bool has_views = false;     /* operators without work */
      pz_layer_schedule_describe(&result_call, &solved.problem, &solved.schedule, has_statistics,
                                 has_views, &row);
      pz_append(call, out, &row);
    }
  pz_scratch_end(&work);
}

/* ---- the detail ----------------------------------------------------------------------------- */

/* Sets result->detail: the chips to show, their plans, and schedules of the layers.  The search
 * kept only short records of plans, so each is restored in full, as a task that any thread may run.
 * The layers of all models are scheduled on the common chip, the best one for all models. */
void pz_detail_build(struct pz_call *call, struct pz_study *study, struct pz_watch watch,
                     struct pz_result *result) {
  struct pz_call result_call = pz_call_in(call, result->arena);
  struct detail_maker maker = {.study = study, .result = result};
  struct pz_vec schedules;
  pz_vec_init(&maker.shown, result->arena, sizeof(struct pz_shown_chip));
  pz_vec_init(&maker.plans, result->arena, sizeof(struct shown_plan));
  pz_vec_init(&schedules, result->arena, sizeof(struct pz_layer_schedule));
  pz_study_phase_begin(call, watch.progress, "details", "models", study->portfolio.n_models);
  pz_detail_list_chips(call, study, result);
  for (uint32_t run = 0; run < study->n_runs; run++) show_best_chips(call, &maker, run);
  show_front(call, &maker);
  list_plans(call, &maker);
  struct pz_study_tasks tasks = {.run = describe_plan, .ctx = &maker};
  pz_study_run_tasks(call, study->search, maker.plans.n, &tasks);
  for (uint32_t i = 0; i < study->portfolio.n_models; i++) {
    if (watch.stop && atomic_load(watch.stop)) pz_raise(call, PZ_STOPPED, "stopped");
    schedule_model(call, &maker, i, &schedules);
    pz_progress_add(watch.progress, 1);
  }
  pz_study_phase_end(call, watch.progress);

  struct pz_result_detail *detail = pz_alloc(&result_call, 1, sizeof *detail);
  struct pz_chip_plan *plans = pz_alloc(&result_call, maker.plans.n, sizeof *plans);
  for (uint32_t i = 0; i < maker.plans.n; i++)
    plans[i] = pz_vec_at(&maker.plans, struct shown_plan, i)->plan;
  *detail = (struct pz_result_detail){.shown = maker.shown.items,
                                      .n_shown = maker.shown.n,
                                      .plans = plans,
                                      .n_plans = maker.plans.n,
                                      .schedules = schedules.items,
                                      .n_schedules = schedules.n};
  result->detail = detail;
}
