/* Evaluates the neighbours of the best chip: one step away on every axis of the space, with another
 * array, with other HBM stacks, and with the evaluator original with another memory size.  All of
 * them are evaluated, within the limits or not. */
#include "study/sensitivity.h"

#include <math.h>
#include <stdio.h>

#include "study/tasks.h"

/* The step time of a model on a neighbour of the best chip, its lower bound, and the plan. */
struct step_outcome {
  struct pz_step_cost found, least;
  struct pz_step_plan plan;
};

struct sensitivity {
  struct pz_study *study;
  const struct pz_objective_run *run;
  double hbm_gib; /* memory of the best chip */
  struct pz_watch watch;
  struct pz_step *steps;
  uint32_t n;
  double step_hbm_gib[PZ_MOST_STEPS];
  struct step_outcome outcomes[PZ_MOST_STEPS * PZ_SEARCH_MOST_MODELS]; /* by step, then model */
};

/* ---- listing -------------------------------------------------------------------------------- */

/* Adds the chip at a point as a neighbour of the best chip, with its cost and a limit it breaks. */
static struct pz_step *add_step(struct sensitivity *sensitivity, const char *parameter,
                                const struct pz_point *point, double hbm_gib) {
  struct pz_step *step = &sensitivity->steps[sensitivity->n];
  struct pz_chip chip;
  pz_space_chip(&sensitivity->study->space, point, &chip);
  *step = (struct pz_step){.parameter = parameter, .point = *point, .taken = pz_chip_taken(&chip)};
  step->breaks = pz_limits_broken(&sensitivity->study->limits, &step->taken, &step->taken);
  sensitivity->step_hbm_gib[sensitivity->n] = hbm_gib;
  sensitivity->n++;
  return step;
}

/* Returns the index of the array that differs from array `from` in one side alone, its rows or else
 * its columns, by the least change up (step 1) or down (step -1), or -1 if none does. */
static int next_array(const struct pz_space *space, int from, bool rows, int step) {
  const struct pz_array_shape *best_array = &space->array[from];
  int nearest = -1;
  int64_t least_change = 0;
  for (int i = 0; i < space->n_arrays; i++) {
    const struct pz_array_shape *shape = &space->array[i];
    int64_t rows_change = shape->rows - best_array->rows;
    int64_t cols_change = shape->cols - best_array->cols;
    int64_t change = step * (rows ? rows_change : cols_change);
    bool other_side_differs = (rows ? cols_change : rows_change) != 0;
    if (other_side_differs || change <= 0) continue;
    if (nearest >= 0 && change >= least_change) continue;
    nearest = i;
    least_change = change;
  }
  return nearest;
}

/* Adds the best chip with array `to` as a neighbour, or returns NULL without such an array.  The
 * kind of a point numbers its node, array and HBM, of which HBM varies fastest. */
static struct pz_step *add_array_step(struct sensitivity *sensitivity, int from, int to,
                                      const char *parameter) {
  const struct pz_space *space = &sensitivity->study->space;
  struct pz_point point = sensitivity->run->best;
  if (to < 0 || to >= space->n_arrays) return NULL;
  point.kind = (uint32_t)((int)point.kind + (to - from) * space->n_hbm);
  return add_step(sensitivity, parameter, &point, sensitivity->hbm_gib);
}

/* Adds the nearest arrays with more or fewer rows or columns. */
static void add_array_steps(struct sensitivity *sensitivity) {
  const struct pz_space *space = &sensitivity->study->space;
  int best_array = pz_space_kind(space, sensitivity->run->best.kind).array;
  uint32_t n_before = sensitivity->n;
  for (int side = 0; side < 2; side++)
    for (int direction = -1; direction <= 1; direction += 2) {
      bool rows = side == 0;
      int to = next_array(space, best_array, rows, direction);
      struct pz_step *step = add_array_step(sensitivity, best_array, to, rows ? "rows" : "cols");
      if (!step) continue;
      snprintf(step->from, sizeof step->from, "%lld",
               (long long)(rows ? space->array[best_array].rows : space->array[best_array].cols));
      snprintf(step->to, sizeof step->to, "%lld",
               (long long)(rows ? space->array[to].rows : space->array[to].cols));
    }
  if (sensitivity->n > n_before) return;
  /* If no array differs in one side alone, the neighbours in the list are used. */
  for (int direction = -1; direction <= 1; direction += 2) {
    struct pz_step *step = add_array_step(sensitivity, best_array, best_array + direction, "array");
    if (!step) continue;
    const struct pz_array_shape *from = &space->array[best_array],
                                *to_array = &space->array[best_array + direction];
    snprintf(step->from, sizeof step->from, "%lldx%lld", (long long)from->rows,
             (long long)from->cols);
    snprintf(step->to, sizeof step->to, "%lldx%lld", (long long)to_array->rows,
             (long long)to_array->cols);
  }
}

/* Lists the neighbours on every axis of the space, with other arrays, HBM and memory. */
static void list_steps(struct sensitivity *sensitivity) {
  const struct pz_space *space = &sensitivity->study->space;
  for (enum pz_axis axis = 0; axis < PZ_AXES; axis++)
    for (int direction = -1; direction <= 1; direction += 2) {
      struct pz_point point = sensitivity->run->best;
      int from = point.at[axis], to = from + direction;
      if (to < 0 || to >= space->n[axis]) continue;
      point.at[axis] = (uint8_t)to;
      const char *name = pz_axis_name(axis);
      struct pz_step *step = add_step(sensitivity, name, &point, sensitivity->hbm_gib);
      snprintf(step->from, sizeof step->from, "%d", space->value[axis][from]);
      snprintf(step->to, sizeof step->to, "%d", space->value[axis][to]);
    }
  add_array_steps(sensitivity);

  /* The HBM stacks before and after those of the best chip in the list of the space. */
  int best_hbm = pz_space_kind(space, sensitivity->run->best.kind).hbm;
  for (int direction = -1; direction <= 1; direction += 2) {
    struct pz_point point = sensitivity->run->best;
    if (best_hbm + direction < 0 || best_hbm + direction >= space->n_hbm) continue;
    point.kind = (uint32_t)((int)point.kind + direction);
    struct pz_step *step = add_step(sensitivity, "hbm", &point, sensitivity->hbm_gib);
    snprintf(step->from, sizeof step->from, "%s", pz_space_hbm_name(space, best_hbm));
    snprintf(step->to, sizeof step->to, "%s", pz_space_hbm_name(space, best_hbm + direction));
  }

  /* The next smaller and larger memory, which only the evaluator original chooses by itself. */
  if (sensitivity->study->options.evaluator == PZ_EVALUATOR_TRAINING) return;
  const struct pz_choices *sizes = &sensitivity->study->options.hbm_gib;
  int best_size = 0;
  while (best_size + 1 < sizes->n && (double)sizes->v[best_size] < sensitivity->hbm_gib)
    best_size++;
  for (int direction = -1; direction <= 1; direction += 2) {
    if (best_size + direction < 0 || best_size + direction >= sizes->n) continue;
    struct pz_step *step = add_step(sensitivity, "hbm_gib", &sensitivity->run->best,
                                    (double)sizes->v[best_size + direction]);
    snprintf(step->from, sizeof step->from, "%lld", (long long)sizes->v[best_size]);
    snprintf(step->to, sizeof step->to, "%lld", (long long)sizes->v[best_size + direction]);
  }
}

/* ---- evaluating ----------------------------------------------------------------------------- */

/* Task i: finds the best plan of model i % n of the objective on neighbour i / n. */
static void evaluate_step(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct sensitivity *sensitivity = ctx;
  struct pz_study *study = sensitivity->study;
  struct step_outcome *out = &sensitivity->outcomes[i];
  const struct pz_objective *objective = &sensitivity->run->objective;
  size_t step = i / objective->n;
  uint32_t model = objective->models[i % objective->n];
  const struct pz_point *point = &sensitivity->steps[step].point;
  struct pz_evaluation evaluation = {.step_s = HUGE_VAL};
  if (study->options.evaluator == PZ_EVALUATOR_TRAINING) {
    struct pz_box point_box = pz_box_of(point);
    struct pz_boxed chip;
    struct pz_found_plan found;
    struct pz_step_plan *plan = &out->plan;
    pz_boxed_set(&study->space, &point_box, &chip);
    plan->fits = pz_training_find_plan(call, study->evaluator, worker, &chip.lo, model, &found,
                                       &evaluation.dynamic_j);
    if (plan->fits) {
      plan->step_s = found.p.step_s;
      evaluation.step_s = found.p.step_s;
      evaluation.least_s = found.p.step_s;
      plan->parts = found.p.parts;
      pz_plan_text(&found.plan, plan->text, sizeof plan->text);
    }
  } else {
    evaluation =
        pz_original_evaluate(call, pz_original_worker(study->evaluator, worker), point, model,
                             sensitivity->step_hbm_gib[step], PZ_EFFORT_FULL, HUGE_VAL);
  }
  out->found = (struct pz_step_cost){evaluation.step_s, evaluation.dynamic_j};
  out->least = (struct pz_step_cost){evaluation.step_s < HUGE_VAL ? evaluation.least_s : HUGE_VAL,
                                     evaluation.dynamic_j};
  pz_progress_add(sensitivity->watch.progress, 1);
}

/* Evaluates each model on each neighbour as a task, then finds the objective and its bound. */
uint32_t pz_sensitivity_steps(struct pz_call *call, struct pz_study *study,
                              const struct pz_objective_run *run, double hbm_gib,
                              struct pz_watch watch, struct pz_step steps[PZ_MOST_STEPS]) {
  const struct pz_objective *objective = &run->objective;
  struct pz_call study_call = pz_call_in(call, &study->arena), scratch = pz_scratch(call);
  struct sensitivity *sensitivity = pz_alloc(&scratch, 1, sizeof *sensitivity);
  sensitivity->study = study;
  sensitivity->run = run;
  sensitivity->hbm_gib = hbm_gib;
  sensitivity->watch = watch;
  sensitivity->steps = steps;
  list_steps(sensitivity);
  size_t n_evaluations = (size_t)sensitivity->n * objective->n;
  struct pz_study_tasks tasks = {.run = evaluate_step, .ctx = sensitivity};
  tasks.progress = watch.progress;
  tasks.progress_units = 1;
  tasks.results = sensitivity->outcomes;
  tasks.result_bytes = sizeof *sensitivity->outcomes;
  pz_study_phase_begin(call, watch.progress, "sensitivity", "evaluations", n_evaluations);
  pz_study_run_tasks(call, study->search, n_evaluations, &tasks);
  pz_study_phase_end(call, watch.progress);
  for (uint32_t i = 0; i < sensitivity->n; i++) {
    struct pz_step_cost found[PZ_SEARCH_MOST_MODELS], least[PZ_SEARCH_MOST_MODELS];
    struct pz_step_plan *plans = NULL;
    if (study->options.evaluator == PZ_EVALUATOR_TRAINING)
      plans = pz_alloc(&study_call, PZ_SEARCH_MOST_MODELS, sizeof *plans);
    for (uint32_t k = 0; k < objective->n; k++) {
      const struct step_outcome *outcome = &sensitivity->outcomes[i * objective->n + k];
      found[objective->models[k]] = outcome->found;
      least[objective->models[k]] = outcome->least;
      if (plans) plans[objective->models[k]] = outcome->plan;
    }
    steps[i].value = pz_objective_value(objective, found, &steps[i].taken);
    steps[i].bound = pz_objective_value(objective, least, &steps[i].taken);
    steps[i].plans = plans;
  }
  uint32_t n = sensitivity->n;
  pz_scratch_end(&scratch);
  return n;
}
