/* Runs a study. pz_study_open() checks the options, reads the inputs, and applies defaults;
 * pz_study_start() makes the evaluator and the search and finds the step times of the reference
 * chip, in whose units objectives are expressed; pz_study_run_objective() hands one objective to
 * the search.  The inputs as JSON are in study_inputs.c. */
#include "study/study.h"

#include <math.h>
#include <string.h>

#include "core/num.h"
#include "core/options.h"
#include "core/text.h"
#include "study/tasks.h"
#include "workload/workload.h"

/* Returns the default options of a study.  The design space and the network "paper" are those of
 * the published research system Phaze (ICML 2024), which is called the original system. */
struct pz_study_options pz_study_options_default(void) {
  struct pz_study_options options = {
      .size = sizeof options,
      .space = "paper",
      .cluster = "paper",
      .mbs = pz_choices_powers(32),
      .hbm_gib = {{32, 64, 80}, 3},
      .tp = pz_choices_powers(8),
      .devices = 1024,
      .batch = 4096,
      .state = 3, /* bytes for each byte of parameters, gradients and optimizer state included */
      .gap = -1,  /* depends on the evaluator (read_study_space) */
      .scale_up = 8,
      .outer_bytes_per_s = 50e9, /* one 400 Gb/s interface per device, as in a DGX H100 */
      .pareto_tolerance = 0.01,
      .workload = pz_workload_options_default(),
      .steps = PZ_LAYER_STEPS};
  for (int i = 0; i < PZ_SEARCH_MOST_MODELS; i++) options.weight[i] = 1;
  return options;
}

/* ---- checks --------------------------------------------------------------------------------- */

/* Raises an error unless a real option is in its range. */
static void check_real(struct pz_call *call, const char *name, double value, double min,
                       double max) {
  bool in_range = value >= min && value <= max; /* false for NaN */
  if (!in_range) pz_raise(call, PZ_BAD_USE, "%s %g; accepted: %g to %g", name, value, min, max);
}

/* Raises an error for the first option that is out of its range or contradicts another one. */
static void check_study_options(struct pz_call *call, const struct pz_study_options *options) {
  static const int64_t MOST_STEPS = 1000000000000000, MOST_ROUNDS = 1000000000000000;
  pz_require_range(call, "number of models", options->n_models, 1, PZ_SEARCH_MOST_MODELS);
  for (uint32_t i = 0; i < options->n_models; i++) {
    const char *name = options->models[i];
    pz_require(call, name, "the name of a model");
    /* Names are written to inputs, results and pages, all of which are UTF-8. */
    json_t *text = json_string(name);
    json_decref(text);
    if (!text)
      pz_raise(call, PZ_BAD_USE, "model %u: '%s' is not UTF-8; accepted: a file name in UTF-8",
               i + 1, name);
    if (!pz_text_is_plain(name))
      pz_raise(call, PZ_BAD_INPUT, "%s: accepted: a path without control characters", name);
    bool weight_in_range = options->weight[i] > 0 && options->weight[i] < 1e9;
    if (!weight_in_range)
      pz_raise(call, PZ_BAD_USE, "weight %g; accepted: above 0", options->weight[i]);
    for (uint32_t k = 0; k < i; k++)
      if (strcmp(options->models[k], name) == 0)
        pz_raise(call, PZ_BAD_USE, "%s is given twice", name);
  }
  if (!options->space_text) pz_require(call, options->space, "space");
  pz_require_range(call, "devices", options->devices, 1, 1 << 30);
  pz_require_range(call, "batch", options->batch, 1, 1 << 30);
  pz_require_range(call, "scale_up", options->scale_up, 1, 1 << 30);
  check_real(call, "outer_bytes_per_s", options->outer_bytes_per_s, 1, 1e18);
  check_real(call, "limit_mm2", options->limit_mm2, 0, 1e9);
  check_real(call, "limit_watts", options->limit_watts, 0, 1e9);
  check_real(call, "limit_dollars", options->limit_dollars, 0, 1e9);
  check_real(call, "gap", options->gap, -1, 1);
  pz_require_range(call, "rounds", options->rounds, 0, MOST_ROUNDS);
  check_real(call, "seconds", options->seconds, 0, 1e9);
  check_real(call, "pareto_tolerance", options->pareto_tolerance, 0, 1);
  pz_require_range(call, "objective", (int64_t)options->objective, 0, PZ_OBJECTIVES - 1);
  pz_require_range(call, "evaluator", (int64_t)options->evaluator, 0, PZ_EVALUATORS - 1);
  if (options->n_weight && options->n_weight != options->n_models)
    pz_raise(call, PZ_BAD_USE, "%u weights for %u models; accepted: one for each",
             options->n_weight, options->n_models);
  if (options->n_weight && options->objective != PZ_OBJECTIVE_WEIGHTED)
    pz_raise(call, PZ_BAD_USE, "weights with the objective %s; accepted: weighted",
             pz_objective_names[options->objective]);
  /* Options of the evaluator `original`, which judges chips as the original system does */
  pz_choices_require(call, "mbs", &options->mbs, 1);
  if (!options->cluster_text) pz_require(call, options->cluster, "cluster");
  pz_choices_require(call, "tp", &options->tp, 1);
  pz_choices_require(call, "hbm_gib", &options->hbm_gib, 1);
  pz_require_range(call, "steps", options->steps, 1, MOST_STEPS);
  check_real(call, "state", options->state, 1, 100);
  pz_require_range(call, "assumptions", options->assumptions, 0, PZ_ASSUME_ALL);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Reads the space and the limits, and decides the options whose defaults depend on the space. */
static void read_study_space(struct pz_call *call, struct pz_study *study) {
  struct pz_study_options *options = &study->options;
  const char *text = options->space_text;
  if (text)
    pz_space_read(call, "space", text, strlen(text), &study->space);
  else
    pz_space_read_named(call, options->space, &study->space);
  if (options->node) pz_space_choose_node(call, &study->space, options->node);

  if (options->evaluator == PZ_EVALUATOR_DEFAULT) {
    bool paper = strcmp(study->space.name, "paper") == 0;
    options->evaluator = paper ? PZ_EVALUATOR_ORIGINAL : PZ_EVALUATOR_TRAINING;
  }
  bool training = study->options.evaluator == PZ_EVALUATOR_TRAINING;
  if (options->gap < 0) options->gap = training ? 0.01 : 0;
  if (!training || options->objective == PZ_OBJECTIVE_REGRET) options->each_model = true;
  study->space.compiled = study->space.cold = training;
  if (!training && options->gap > 0)
    pz_raise(call, PZ_BAD_USE, "gap %g; accepted by the evaluator original: 0", options->gap);
  if (training && options->assumptions)
    pz_raise(call, PZ_BAD_USE, "assumptions; accepted by the evaluator training: none");

  study->limits = (struct pz_limits){
      .mm2 = options->limit_mm2, .watts = options->limit_watts, .dollars = options->limit_dollars};
  pz_limits_apply_budget(call, &study->space, options->budget, options->node, &study->limits);
  study->space.watts = study->limits.watts;
}

/* Reads the models and the question of the evaluator training. */
static void read_training_study(struct pz_call *call, struct pz_study *study) {
  struct pz_training_question *question = &study->training;
  *question = (struct pz_training_question){.n_models = study->options.n_models,
                                            .devices = study->options.devices,
                                            .batch = study->options.batch,
                                            .seq = study->options.workload.seq,
                                            .scale_up = study->options.scale_up,
                                            .outer_bytes_per_s = study->options.outer_bytes_per_s,
                                            .serial = study->options.serial,
                                            .precision = study->options.precision,
                                            .peft = study->options.peft,
                                            .fp8_recipe = study->options.fp8_recipe,
                                            .moment_bytes = study->options.moment_bytes,
                                            .mtp = study->options.mtp,
                                            .offload = study->options.offload,
                                            .memory_margin = study->options.memory_margin};
  struct pz_call study_call = pz_call_in(call, &study->arena);
  for (uint32_t i = 0; i < question->n_models; i++) {
    question->models[i] = pz_model_of_text(&study_call, study->options.models[i],
                                           &question->model_seq[i], &question->model_batch[i]);
    study->names[i] = question->models[i];
  }
  if (study->options.pareto)
    study->points =
        pz_space_list_within(&study_call, &study->space, &study->limits, &study->n_points);
}

/* Reads the network and the models of the evaluator original, and lists the chips. */
static void read_original_study(struct pz_call *call, struct pz_study *study) {
  enum {
    QUICK_STEPS = 2000, /* solver steps of a schedule at PZ_EFFORT_QUICK */
    FAST_NETWORK = 1000 /* speedup of the network by PZ_ASSUME_FAST_NETWORK */
  };
  const struct pz_study_options *options = &study->options;
  struct pz_original_task *task = &study->task;
  struct pz_error *err = pz_call_error(call);
  const char *text = options->cluster_text;
  pz_assume_chip(options->assumptions, &study->space.base);
  if (text)
    pz_must(call, pz_cluster_parse("cluster", text, strlen(text), &task->net, err));
  else
    pz_must(call, pz_cluster_load(options->cluster, &task->net, err));
  pz_must(call, pz_cluster_reach(&task->net, options->devices, "devices", err));
  task->assumptions = options->assumptions;
  bool fast_network = pz_assumed(task->assumptions, PZ_ASSUME_FAST_NETWORK);
  for (int i = 0; i < task->net.n_levels && fast_network; i++) {
    task->net.level[i].bytes_per_s *= FAST_NETWORK;
    task->net.level[i].latency_s /= FAST_NETWORK;
  }
  task->space = &study->space;
  task->portfolio = &study->portfolio;
  task->most_mm2 = study->limits.mm2;
  task->o = (struct pz_task_options){.devices = options->devices,
                                     .batch = options->batch,
                                     .state = options->state,
                                     .hbm_gib = options->hbm_gib,
                                     .quick_steps = pz_min(options->steps, QUICK_STEPS),
                                     .steps = options->steps};
  struct pz_call study_call = pz_call_in(call, &study->arena);
  study->points =
      pz_space_list_within(&study_call, &study->space, &study->limits, &study->n_points);
  struct pz_variant_choices choices = {&options->mbs, &options->tp, options->batch,
                                       options->devices};
  pz_portfolio_build(call, &study->portfolio, options->models, options->n_models, &choices,
                     &options->workload);
  for (uint32_t i = 0; i < options->n_models; i++) study->names[i] = study->portfolio.models[i];
}

/* Reads and checks the inputs of a study, which an error releases because that is deferred
 * first. */
void pz_study_open(struct pz_call *call, struct pz_study *study,
                   const struct pz_study_options *options, unsigned threads) {
  *study = (struct pz_study){.options = *options};
  study->options.workload.input_gradients_only =
      pz_assumed(options->assumptions, PZ_ASSUME_NO_WEIGHT_GRADIENTS);
  pz_arena_init(&study->arena);
  pz_vec_init(&study->notes, &study->arena, sizeof(struct pz_note));
  pz_defer(call, pz_study_release, study);
  check_study_options(call, &study->options);
  read_study_space(call, study);
  if (study->options.evaluator == PZ_EVALUATOR_TRAINING)
    read_training_study(call, study);
  else
    read_original_study(call, study);
  pz_study_hash_models(call, study);
  study->pool = pz_pool_open(call, threads);
  pz_undefer(call, study->pool); /* the study frees it */
  study->n_runs =
      study->options.each_model && study->options.n_models > 1 ? study->options.n_models + 1 : 1;
  for (uint32_t i = 0; i < study->n_runs; i++) study->most_rounds[i] = study->options.rounds;
}

/* Releases a struct pz_study, which may be NULL, and clears it. */
void pz_study_release(void *released) {
  struct pz_study *study = released;
  if (!study) return;
  pz_search_free(study->search);
  pz_evaluator_free(study->evaluator);
  pz_pool_free(study->pool);
  pz_portfolio_release(&study->portfolio);
  pz_arena_release(&study->arena);
  *study = (struct pz_study){.n_runs = 0};
}

/* ---- references ----------------------------------------------------------------------------- */

struct reference_task {
  struct pz_study *study;
  struct reference_result {
    struct pz_reference reference; /* evaluator original */
    struct pz_step_cost step;
  } found[PZ_SEARCH_MOST_MODELS];
};

/* Task i: finds the step time of model i on the reference chip. */
static void find_reference(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  struct reference_task *task = ctx;
  struct pz_study *study = task->study;
  struct reference_result *out = &task->found[i];
  struct pz_progress *progress = pz_search_asked(study->search)->progress;
  if (study->options.evaluator != PZ_EVALUATOR_TRAINING) {
    struct pz_reference *reference = &out->reference;
    *reference =
        pz_reference_of_model(call, pz_original_worker(study->evaluator, worker), (uint32_t)i);
    out->step.step_s = reference->samples_per_s > 0
                           ? (double)study->options.batch / reference->samples_per_s
                           : HUGE_VAL;
    pz_progress_add(progress, 1);
    return;
  }
  struct pz_found_plan plan;
  bool fits = pz_training_find_plan(call, study->evaluator, worker, &study->reference_chip,
                                    (uint32_t)i, &plan, &out->step.dynamic_j);
  pz_progress_add(progress, 1);
  if (!fits)
    pz_raise(call, PZ_NO_ANSWER,
             "no plan of %s fits on %lld x %s, the reference; accepted: more devices",
             study->names[i], (long long)study->options.devices, study->reference_chip.name);
  out->step.step_s = plan.p.step_s;
}

/* Finds the step time of every model on the reference chip, one task for each model. */
void pz_study_find_references(struct pz_call *call, struct pz_study *study, struct pz_watch watch) {
  struct reference_task task = {.study = study};
  struct pz_study_tasks tasks = {.run = find_reference, .ctx = &task, .results = task.found};
  tasks.result_bytes = sizeof *task.found;
  pz_study_phase_begin(call, watch.progress, "reference", "models", study->options.n_models);
  pz_study_run_tasks(call, study->search, study->options.n_models, &tasks);
  pz_study_phase_end(call, watch.progress);
  for (uint32_t i = 0; i < study->options.n_models; i++) {
    study->reference[i] = task.found[i].reference;
    study->reference_step[i] = task.found[i].step;
  }
}

/* ---- running -------------------------------------------------------------------------------- */

/* Makes the evaluator and the search, and evaluates the reference chip.  Those of an earlier call
 * that was stopped are freed first. */
void pz_study_start(struct pz_call *call, struct pz_study *study,
                    const struct pz_study_watch *watch) {
  bool training = study->options.evaluator == PZ_EVALUATOR_TRAINING;
  pz_search_free(study->search);
  pz_evaluator_free(study->evaluator);
  study->search = NULL;
  study->evaluator = NULL;
  study->ending = (struct pz_ending){.progress = watch->watch.progress};
  study->training.ending = &study->ending;

  pz_chip_read(call, training ? "h100" : PZ_REFERENCE_CHIP, &study->reference_chip);
  if (training) pz_chip_make_cold(call, &study->reference_chip, study->space.constants);
  study->reference_taken = pz_chip_taken(&study->reference_chip);

  if (training) {
    struct pz_box whole_space = pz_box_all(&study->space, 0);
    struct pz_boxed largest;
    pz_boxed_set(&study->space, &whole_space, &largest);
    study->evaluator = pz_training_create(call, &study->training, &largest.hi, study->pool, NULL);
  } else {
    study->evaluator = pz_original_create(call, &study->task, study->options.exhaustive,
                                          study->pool, watch->watch);
  }

  struct pz_search_question question = {.space = &study->space,
                                        .limits = study->limits,
                                        .n_entries = study->options.n_models,
                                        .gap = study->options.gap,
                                        .seconds = study->options.seconds,
                                        .exhaustive = study->options.exhaustive,
                                        .store = watch->store,
                                        .progress = watch->watch.progress,
                                        .stop = watch->watch.stop,
                                        .ending = &study->ending};
  for (uint32_t i = 0; i < study->options.n_models; i++)
    question.entries[i] = (struct pz_search_entry){study->evaluator, i, study->options.models[i]};
  study->search = pz_search_create(call, &question, study->pool);
  pz_study_find_references(call, study, watch->watch);
}

const char *pz_study_run_name(const struct pz_study *study, uint32_t i) {
  bool common = i + 1 == study->n_runs && study->options.n_models > 1;
  return common ? "common" : study->options.models[i];
}

/* Returns the objective of run i: its models, their weights, and what throughput is relative to. */
struct pz_objective pz_study_objective(struct pz_study *study, uint32_t i) {
  bool training = study->options.evaluator == PZ_EVALUATOR_TRAINING,
       common = i + 1 == study->n_runs;
  struct pz_objective objective = {.kind = study->options.objective,
                                   .reference_taken = study->reference_taken,
                                   .devices = (double)study->options.devices};
  for (uint32_t model = 0; model < study->options.n_models; model++) {
    struct pz_evaluation alone;
    int64_t batch = training ? study->training.batch : study->options.batch;
    bool has_own_batch = training && study->training.model_batch[model];
    objective.batch[model] = (double)(has_own_batch ? study->training.model_batch[model] : batch);
    if (common || i == model) objective.models[objective.n++] = model;
    objective.reference[model] = study->reference_step[model];
    /* If the model does not fit on the reference chip, its throughput is related to one sample per
     * second, so that the throughput itself is the objective. */
    bool has_reference = objective.reference[model].step_s < HUGE_VAL;
    if (!has_reference) objective.reference[model].step_s = objective.batch[model];
    objective.weight[model] = study->options.weight[model];
    objective.best_alone[model] = 1;
    if (common && study->n_runs > 1 &&
        pz_search_known(study->search, &study->objective_run[model].best, model, &alone))
      objective.best_alone[model] = objective.batch[model] / alone.step_s;
  }
  return objective;
}

/* Searches the chip with the highest objective of run i, in at most the rounds set for this run. */
void pz_study_run_objective(struct pz_call *call, struct pz_study *study, uint32_t i) {
  study->objective_run[i] = (struct pz_objective_run){.objective = pz_study_objective(study, i),
                                                      .most_rounds = study->most_rounds[i]};
  pz_search_optimize(call, study->search, i, &study->objective_run[i]);
}

/* ---- the best chip -------------------------------------------------------------------------- */

/* Returns the smallest GiB of HBM with which the best chip is as fast as with the largest, with
 * which the search evaluated it: more memory is never slower. */
double pz_study_smallest_memory(struct pz_call *call, struct pz_study *study,
                                const struct pz_objective_run *run) {
  const struct pz_choices *hbm = &study->options.hbm_gib;
  if (study->options.evaluator == PZ_EVALUATOR_TRAINING || !hbm->n) {
    struct pz_chip chip;
    pz_space_chip(&study->space, &run->best, &chip);
    return (double)pz_chip_hbm_bytes(&chip) / 0x1p30;
  }
  for (int choice = 0; choice < hbm->n; choice++) {
    bool as_fast = true;
    for (uint32_t i = 0; i < run->objective.n && as_fast; i++) {
      uint32_t model = run->objective.models[i];
      struct pz_evaluation largest;
      if (!pz_search_known(study->search, &run->best, model, &largest))
        pz_raise(call, PZ_INTERNAL, "the best chip was not evaluated");
      struct pz_evaluation evaluation =
          pz_original_evaluate(call, pz_original_worker(study->evaluator, 0), &run->best, model,
                               (double)hbm->v[choice], largest.effort, HUGE_VAL);
      as_fast = evaluation.step_s <= largest.step_s;
    }
    if (as_fast) return (double)hbm->v[choice];
  }
  return (double)hbm->v[hbm->n - 1];
}

/* Sets *out to the best chip of an objective run.  With the evaluator original, the memory is not a
 * property of the chip and is set here. */
void pz_study_chip(const struct pz_study *study, const struct pz_objective_run *run, double hbm_gib,
                   struct pz_chip *out) {
  pz_space_chip(&study->space, &run->best, out);
  if (study->options.evaluator != PZ_EVALUATOR_TRAINING)
    out->hbm.bytes_per_stack = (int64_t)(hbm_gib * 0x1p30) / out->hbm.stacks;
}
