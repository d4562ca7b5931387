/* Checks a best chip against the uncertainty of chips without measurements.  Candidates are the
 * best chips of other kinds and chips one or two steps away, if they come within NEAR of the best.
 * Each constant of cold.def is set to either end of its range, and pz_moved_compare() finds whether
 * a candidate is then better than the best chip. */
#include "study/robustness.h"

#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "study/tasks.h"

/* Candidates are chips whose value is within this fraction of the best.  Changed constants move
 * the value of the best chip by some percent, and its distance from other chips by less. */
static const double NEAR = 0.03;

/* ---- values --------------------------------------------------------------------------------- */

/* Returns the objective of a chip if it is above `least` and the chip is within the limits, or else
 * 0.  The models are evaluated one after another, until an upper bound of the objective, by the
 * models so far and by bounds on the others, is too low. */
static double value_above(struct pz_call *call, struct pz_search *search,
                          const struct pz_objective *objective, unsigned worker,
                          const struct pz_point *point, double least) {
  const struct pz_search_question *question = pz_search_asked(search);
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS] = {{0}};
  struct pz_box point_box = pz_box_of(point);
  struct pz_boxed chip;
  pz_boxed_set(question->space, &point_box, &chip);
  if (pz_boxed_breaks(&chip, &question->limits)) return 0;
  /* This bound becomes the value when every model has been evaluated. */
  double bound = pz_search_upper_bound(call, search, worker, objective, &chip, steps);
  for (uint32_t i = 0; i < objective->n && bound > least; i++) {
    uint32_t model = objective->models[i];
    struct pz_evaluator *evaluator = question->entries[model].evaluator;
    double limit_s = pz_objective_limit_s(objective, steps, &chip.least, model, least);
    struct pz_evaluation evaluation =
        evaluator->ops->evaluate(call, evaluator, worker, &chip, model, PZ_EFFORT_FULL, limit_s);
    steps[model] = (struct pz_step_cost){evaluation.step_s, evaluation.dynamic_j};
    bound = pz_objective_value(objective, steps, &chip.least);
  }
  return bound > least ? bound : 0;
}

/* Compares the candidates with the best chip by an evaluator and a search with these constants. */
struct pz_moved pz_moved_compare(struct pz_call *call, struct pz_study *study,
                                 const struct pz_moved_question *question, unsigned worker) {
  struct pz_call scratch = pz_scratch(call);
  struct pz_space *space = pz_copy(&scratch, &study->space, 1, sizeof study->space);
  struct pz_search_question moved_question = *pz_search_asked(study->search);
  struct pz_box whole_space = pz_box_all(&study->space, 0);
  struct pz_boxed largest;
  space->constants = question->constants;
  pz_boxed_set(space, &whole_space, &largest);
  struct pz_evaluator *evaluator = pz_training_create(call, &study->training, &largest.hi, NULL,
                                                      pz_training_times(study->evaluator, worker));
  pz_defer(call, pz_evaluator_free, evaluator);
  moved_question.space = space;
  for (uint32_t i = 0; i < moved_question.n_entries; i++)
    moved_question.entries[i].evaluator = evaluator;
  struct pz_search *search = pz_search_create(call, &moved_question, NULL);
  pz_defer(call, pz_search_free, search);

  const struct pz_objective *objective = question->objective;
  struct pz_moved moved = {.better = -1}; /* no candidate is better so far */
  moved.value = value_above(call, search, objective, 0, question->best, 0);
  moved.better_value = moved.value * (1 + study->options.gap);
  for (uint32_t i = 0; i < question->n; i++) {
    double value =
        value_above(call, search, objective, 0, &question->candidates[i], moved.better_value);
    if (value > moved.better_value) {
      moved.better = (int)i;
      moved.better_value = value;
    }
  }
  pz_close(call, search);
  pz_close(call, evaluator);
  pz_scratch_end(&scratch);
  return moved;
}

/* ---- candidates ----------------------------------------------------------------------------- */

enum {
  MOST_KINDS = 24, /* combinations of node, array and HBM whose best chips are candidates */
  /* those, and the chips one or two different steps away */
  MOST_CANDIDATES = MOST_KINDS + PZ_MOST_STEPS * (PZ_MOST_STEPS + 1) / 2
};

/* A move sets one constant to an end of its range: move 2c sets constant c to the low end, and move
 * 2c + 1 to the high end. */
enum { N_MOVES = 2 * PZ_COLD_CONSTANTS };

/* The best chip of a run, its candidates, and the results of the moved constants. */
struct robustness_check {
  struct pz_study *study;
  const struct pz_objective_run *run;
  struct pz_watch watch;
  struct pz_point candidates[MOST_CANDIDATES];
  double values[MOST_CANDIDATES]; /* with the usual constants, or 0 if not near the best chip */
  uint32_t n;
  struct pz_moved moved[N_MOVES];
};

/* A chip that was evaluated for every model. */
struct evaluated_chip {
  struct pz_point point;
  double value;
};

/* Compares chips by kind (node, array, HBM), then by value, the best first, for qsort. */
static int compare_kinds(const void *a, const void *b) {
  const struct evaluated_chip *first = a, *second = b;
  if (first->point.kind != second->point.kind)
    return first->point.kind < second->point.kind ? -1 : 1;
  if (first->value != second->value) return first->value > second->value ? -1 : 1;
  return memcmp(first->point.at, second->point.at, sizeof first->point.at);
}

/* Compares chips by value, the best first; then like compare_kinds(), for qsort. */
static int compare_chip_values(const void *a, const void *b) {
  const struct evaluated_chip *first = a, *second = b;
  if (first->value != second->value) return first->value > second->value ? -1 : 1;
  return compare_kinds(a, b);
}

/* Returns the objective of a chip by the search's evaluations; 0 if a model has none. */
static double known_objective(const struct robustness_check *check,
                              const struct pz_objective *objective, const struct pz_point *point) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS] = {{0}};
  struct pz_chip chip;
  for (uint32_t i = 0; i < objective->n; i++) {
    struct pz_evaluation evaluation;
    if (!pz_search_known(check->study->search, point, objective->models[i], &evaluation)) return 0;
    steps[objective->models[i]] = (struct pz_step_cost){evaluation.step_s, evaluation.dynamic_j};
  }
  pz_space_chip(&check->study->space, point, &chip);
  struct pz_taken taken = pz_chip_taken(&chip);
  return pz_objective_value(objective, steps, &taken);
}

/* Adds a chip within the limits, unless it is the best chip or was added before. */
static void add_candidate(struct robustness_check *check, const struct pz_point *point) {
  const struct pz_space *space = &check->study->space;
  struct pz_box point_box = pz_box_of(point);
  struct pz_boxed chip;
  uint64_t id = pz_space_id(space, point);
  if (id == pz_space_id(space, &check->run->best)) return;
  for (uint32_t i = 0; i < check->n; i++)
    if (pz_space_id(space, &check->candidates[i]) == id) return;
  pz_boxed_set(space, &point_box, &chip);
  if (pz_boxed_breaks(&chip, &check->study->limits)) return;
  check->candidates[check->n] = *point;
  check->n++;
}

/* Adds the best evaluated chip of every kind, for the MOST_KINDS best kinds. */
static void add_best_of_kinds(struct pz_call *call, struct robustness_check *check) {
  uint32_t n_known = 0, n_chips = 0, n_kinds = 0;
  struct pz_call scratch = pz_scratch(call);
  const struct pz_found_step *known =
      pz_search_list_known(&scratch, check->study->search, &n_known);
  struct evaluated_chip *list = pz_alloc(&scratch, n_known, sizeof *list);
  for (uint32_t i = 0; i < n_known; i++) {
    if (i && known[i].chip_id == known[i - 1].chip_id)
      continue; /* evaluations are sorted by chip */
    struct evaluated_chip chip = {.point = pz_space_point(&check->study->space, known[i].chip_id)};
    chip.value = known_objective(check, &check->run->objective, &chip.point);
    if (chip.value > 0) list[n_chips++] = chip;
  }
  qsort(list, n_chips, sizeof *list, compare_kinds);
  for (uint32_t i = 0; i < n_chips; i++)
    if (!n_kinds || list[n_kinds - 1].point.kind != list[i].point.kind) list[n_kinds++] = list[i];
  qsort(list, n_kinds, sizeof *list, compare_chip_values);
  for (uint32_t i = 0; i < n_kinds && i < MOST_KINDS; i++) add_candidate(check, &list[i].point);
  pz_scratch_end(&scratch);
}

/* Task i: sets the value of candidate i, or 0 unless it is within NEAR of the best chip. */
static void evaluate_near(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct robustness_check *check = ctx;
  check->values[i] = value_above(call, check->study->search, &check->run->objective, worker,
                                 &check->candidates[i], (1 - NEAR) * check->run->value);
}

/* Collects candidates and keeps those whose value is near that of the best chip. */
static void find_candidates(struct pz_call *call, struct robustness_check *check,
                            const struct pz_step *steps, uint32_t n_steps) {
  struct pz_study_tasks tasks = {.run = evaluate_near, .ctx = check};
  tasks.results = check->values;
  tasks.result_bytes = sizeof *check->values;
  add_best_of_kinds(call, check);
  /* Candidates are one step away from the best chip, or two, such as on two axes. */
  const struct pz_point *best = &check->run->best;
  for (uint32_t i = 0; i < n_steps; i++) {
    add_candidate(check, &steps[i].point);
    for (uint32_t k = i + 1; k < n_steps; k++) {
      struct pz_point both = steps[i].point;
      const struct pz_point *second = &steps[k].point;
      if (second->kind != best->kind) both.kind = second->kind;
      for (int axis = 0; axis < PZ_AXES; axis++)
        if (second->at[axis] != best->at[axis]) both.at[axis] = second->at[axis];
      add_candidate(check, &both);
    }
  }
  pz_study_run_tasks(call, check->study->search, check->n, &tasks);
  uint32_t n_near = 0;
  for (uint32_t i = 0; i < check->n; i++)
    if (check->values[i] > 0) check->candidates[n_near++] = check->candidates[i];
  check->n = n_near;
}

/* ---- constants ------------------------------------------------------------------------------ */

/* Task `move`: finds the value of the best chip, and a better candidate, with one constant moved.
 * Constants of compiled programs apply to the chips of the space, those of launched kernels to the
 * reference chip, and the energy constant to both. */
static void compare_moved(struct pz_call *call, void *ctx, size_t move, unsigned worker) {
  struct robustness_check *check = ctx;
  struct pz_objective objective = check->run->objective;
  const struct pz_cold_info *moved = pz_cold_at(move / 2);
  const struct pz_cold *usual = check->study->space.constants;
  struct pz_cold constants = usual ? *usual : pz_cold_usual();
  constants.v[move / 2] = move % 2 ? moved->high : moved->low;
  bool energy = move / 2 == PZ_COLD_energy;
  bool compiled = strncmp(moved->name, "compiled_", 9) == 0;
  if (energy || !compiled) {
    /* Evaluates the reference chip again with changed constants. */
    struct pz_study *study = check->study;
    struct pz_chip chip = study->reference_chip;
    pz_chip_read(call, chip.name, &chip);
    pz_chip_make_cold(call, &chip, &constants);
    objective.reference_taken = pz_chip_taken(&chip);
    for (uint32_t i = 0; i < objective.n; i++) {
      struct pz_step_cost *step = &objective.reference[objective.models[i]];
      struct pz_found_plan plan;
      bool fits = pz_training_find_plan(call, study->evaluator, worker, &chip, objective.models[i],
                                        &plan, &step->dynamic_j);
      if (fits) step->step_s = plan.p.step_s;
    }
  }
  check->moved[move] = (struct pz_moved){
      .value = known_objective(check, &objective, &check->run->best), .better = -1};
  if (energy || compiled) {
    struct pz_moved_question question = {&objective, &constants, &check->run->best,
                                         check->candidates, check->n};
    check->moved[move] = pz_moved_compare(call, check->study, &question, worker);
  }
  pz_progress_add(check->watch.progress, 1);
}

/* ---- the answer ----------------------------------------------------------------------------- */

/* Compares the candidates under every move as tasks, and lists the moves that matter: those of
 * constants that change the value of the best chip or make a candidate better. */
struct pz_robustness *pz_robustness_make(struct pz_call *call, struct pz_study *study,
                                         const struct pz_objective_run *run,
                                         const struct pz_step *steps, uint32_t n_steps,
                                         struct pz_watch watch) {
  struct pz_call scratch = pz_scratch(call);
  struct robustness_check *check = pz_alloc(&scratch, 1, sizeof *check);
  check->study = study;
  check->run = run;
  check->watch = watch;
  struct pz_study_tasks tasks = {.run = compare_moved, .ctx = check, .progress = watch.progress};
  tasks.progress_units = 1;
  tasks.results = check->moved;
  tasks.result_bytes = sizeof *check->moved;
  pz_study_phase_begin(call, watch.progress, "robustness", "constants", N_MOVES);
  find_candidates(call, check, steps, n_steps);
  pz_study_run_tasks(call, study->search, N_MOVES, &tasks);
  pz_study_phase_end(call, watch.progress);

  struct pz_robustness *robustness = pz_alloc(call, 1, sizeof *robustness);
  *robustness = (struct pz_robustness){
      .n_candidates = check->n, .tolerance = study->options.gap, .robust = true};
  robustness->moves = pz_alloc(call, N_MOVES, sizeof *robustness->moves);
  for (size_t i = 0; i < N_MOVES; i++) {
    /* Lists both ends of a constant's range if one of them changes the value or the winner. */
    const struct pz_moved *moved = &check->moved[i], *ends = &check->moved[i / 2 * 2];
    bool low_matters = ends[0].better >= 0 || ends[0].value != run->value;
    bool high_matters = ends[1].better >= 0 || ends[1].value != run->value;
    if (!low_matters && !high_matters) continue;
    const struct pz_cold_info *constant = pz_cold_at(i / 2);
    struct pz_moved_constant *out = &robustness->moves[robustness->n_moves];
    *out = (struct pz_moved_constant){.constant = constant->name,
                                      .value = i % 2 ? constant->high : constant->low,
                                      .objective = moved->value,
                                      .change = moved->value / run->value - 1};
    if (moved->better >= 0) {
      struct pz_chip chip;
      pz_space_chip(&study->space, &check->candidates[moved->better], &chip);
      out->better = pz_copy_text(call, chip.name);
      out->better_by = moved->better_value / moved->value - 1;
      robustness->robust = false;
    }
    robustness->n_moves++;
  }
  pz_scratch_end(&scratch);
  return robustness;
}
