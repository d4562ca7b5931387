/* Compares the search with the baselines of baseline/baseline.h.  pz_compare_methods() first
 * runs all baselines of each model alone, one model per thread, then those of the chip for all
 * models, each on all threads.  The answers are plain structs, which ranks exchange;
 * fill_method() turns each into a row of the comparison. */
#include "study/compare.h"

#include <math.h>

#include "baseline/baseline.h"
#include "chip/chip.h"
#include "study/tasks.h"

struct baseline_outcome {
  struct pz_baseline_answer answer;
  bool found; /* the baseline has an answer */
  double seconds;
};

struct method_comparison {
  struct pz_study *study;
  uint64_t seed;
  struct pz_watch watch;
  struct pz_result *result;
  uint32_t n_baselines;
  struct baseline_outcome *outcomes; /* indexed by objective run and baseline */
};

/* ---- running baselines ---------------------------------------------------------------------- */

/* Arguments of answer_question(), which runs a baseline within a border of its own, so that the
 * comparison goes on if the baseline finds no answer. */
struct baseline_run {
  const struct pz_baseline *baseline;
  const struct pz_baseline_question *question;
  struct pz_baseline_answer *answer;
};

static void answer_question(struct pz_call *call, void *ctx) {
  const struct baseline_run *run = ctx;
  *run->answer = run->baseline->answer(call, run->baseline, run->question);
}

/* Runs a baseline for objective run i.  `worker` is the thread that runs it, or PZ_BASELINE_ALL. */
static void run_baseline(struct pz_call *call, const struct method_comparison *comparison,
                         uint32_t baseline, size_t i, int worker, struct baseline_outcome *out) {
  const struct pz_study *study = comparison->study;
  const struct pz_objective_run *run = &study->objective_run[i];
  struct pz_error why = {0};
  struct pz_baseline_question question = {.search = study->search,
                                          .task = &study->task,
                                          .points = study->points,
                                          .n_points = study->n_points,
                                          .objective = &run->objective,
                                          .evaluations = run->n_evaluated + run->n_partly,
                                          .seed = comparison->seed,
                                          .stop = comparison->watch.stop,
                                          .evaluator = study->evaluator,
                                          .worker = worker};
  double start_s = pz_clock_s();
  struct baseline_run arguments = {pz_baseline_at(baseline), &question, &out->answer};
  enum pz_status status = pz_border(answer_question, &arguments, &why);
  if (status != PZ_OK && status != PZ_NO_ANSWER) pz_raise_again(call, &why);
  out->found = status == PZ_OK;
  out->seconds = pz_clock_s() - start_s;
  pz_progress_add(comparison->watch.progress, 1);
}

/* Task i: runs all baselines for model i alone, in the calling thread. */
static void run_baselines_of_model(struct pz_call *call, void *ctx, size_t i, unsigned worker) {
  const struct method_comparison *comparison = ctx;
  for (uint32_t k = 0; k < comparison->n_baselines; k++)
    run_baseline(call, comparison, k, i, (int)worker,
                 &comparison->outcomes[i * comparison->n_baselines + k]);
}

/* Task k: runs baseline k for all models together, on all threads. */
static void run_common_baseline(struct pz_call *call, void *ctx, size_t k, unsigned worker) {
  const struct method_comparison *comparison = ctx;
  uint32_t last = comparison->study->n_runs - 1;
  (void)worker;
  run_baseline(call, comparison, (uint32_t)k, last, PZ_BASELINE_ALL,
               &comparison->outcomes[last * comparison->n_baselines + k]);
}

/* ---- the rows ------------------------------------------------------------------------------- */

/* Fills the row of a method except its name; throughputs are 0 if no chip was `found`. */
static void fill_method(struct pz_call *result_call, const struct method_comparison *comparison,
                        const struct pz_objective *objective,
                        const struct pz_baseline_answer *answer, bool found,
                        struct pz_method_result *method) {
  const struct pz_chip *chip = &answer->chip;
  double ratios[PZ_SEARCH_MOST_MODELS];
  const char *names[PZ_SEARCH_MOST_MODELS];
  double mm2 = found ? pz_chip_taken(chip).mm2 : 0;
  method->chip = found ? pz_copy_text(result_call, chip->name) : NULL;
  method->tensor_cores = chip->tensor.cores;
  method->rows = chip->tensor.rows;
  method->cols = chip->tensor.cols;
  method->vector_cores = chip->vector.cores;
  method->lanes = chip->vector.lanes;
  method->glb_bytes = chip->glb_bytes;
  method->hbm_gib = answer->hbm_gib;
  method->area_mm2 = mm2;
  method->area_part = comparison->study->limits.mm2 > 0 ? mm2 / comparison->study->limits.mm2 : 0;
  method->n_evaluated = answer->n_evaluated;
  method->n_models = objective->n;
  method->models = pz_alloc(result_call, objective->n, sizeof *method->models);
  for (uint32_t i = 0; i < objective->n; i++) {
    uint32_t model = objective->models[i];
    double rate = found ? answer->samples_per_s[model] : 0;
    double reference = comparison->study->reference[model].samples_per_s;
    ratios[i] = reference > 0 ? rate / reference : (double)NAN;
    names[i] = comparison->result->inputs.models[model].name;
    method->models[i] = (struct pz_method_model){names[i], rate, ratios[i], answer->expert[model]};
  }
  method->ratios = pz_ratios_of(ratios, names, objective->n);
}

/* Fills the methods of objective run i: all baselines, then the search. */
static void fill_run(struct pz_call *result_call, const struct method_comparison *comparison,
                     uint32_t i, struct pz_comparison_run *out) {
  const struct pz_objective_run *run = &comparison->study->objective_run[i];
  const struct pz_objective *objective = &run->objective;
  const struct pz_answer *answer = &comparison->result->answers[i];
  out->name = answer->name;
  out->n_methods = comparison->n_baselines + 1;
  out->methods = pz_alloc(result_call, out->n_methods, sizeof *out->methods);
  for (uint32_t k = 0; k < comparison->n_baselines; k++) {
    const struct baseline_outcome *outcome = &comparison->outcomes[i * comparison->n_baselines + k];
    struct pz_method_result *method = &out->methods[k];
    method->name = pz_baseline_at(k)->name;
    method->about = pz_baseline_at(k)->about;
    method->seconds = outcome->seconds;
    fill_method(result_call, comparison, objective, &outcome->answer, outcome->found, method);
    if (!outcome->found) continue;
    struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
    struct pz_taken taken = pz_chip_taken(&outcome->answer.chip);
    for (uint32_t j = 0; j < objective->n; j++) {
      uint32_t model = objective->models[j];
      double rate = outcome->answer.samples_per_s[model]; /* 0 if the model does not fit */
      steps[model] = (struct pz_step_cost){rate > 0 ? objective->batch[model] / rate : HUGE_VAL, 0};
    }
    method->objective = pz_objective_value(objective, steps, &taken);
  }
  struct pz_method_result *search = &out->methods[comparison->n_baselines];
  struct pz_baseline_answer chosen = {.chip = *answer->chip,
                                      .hbm_gib = answer->hbm_gib,
                                      .n_evaluated = run->n_evaluated + run->n_partly};
  for (uint32_t k = 0; k < objective->n; k++)
    chosen.samples_per_s[objective->models[k]] = answer->models[k].samples_per_s;
  search->name = PZ_METHOD_SEARCH;
  search->about = "every chip of the space, evaluated or excluded by a bound";
  search->objective = run->value;
  fill_method(result_call, comparison, objective, &chosen, true, search);
}

/* Runs the baselines of single models as tasks, then the common ones, and lists all methods. */
void pz_compare_methods(struct pz_call *call, struct pz_study *study, uint64_t seed,
                        struct pz_watch watch, struct pz_result *result) {
  struct pz_call result_call = pz_call_in(call, result->arena), work = pz_scratch(call);
  struct method_comparison methods = {study, seed, watch, result, 0, NULL};
  uint32_t last = study->n_runs - 1;
  while (pz_baseline_at(methods.n_baselines)) methods.n_baselines++;
  methods.outcomes =
      pz_alloc(&work, (size_t)study->n_runs * methods.n_baselines, sizeof *methods.outcomes);
  struct pz_study_tasks tasks = {.run = run_baselines_of_model, .ctx = &methods};
  tasks.results = methods.outcomes;
  tasks.result_bytes = methods.n_baselines * sizeof *methods.outcomes;
  tasks.progress = watch.progress;
  tasks.progress_units = methods.n_baselines;
  pz_study_phase_begin(call, watch.progress, "comparison", "baselines",
                       (uint64_t)methods.n_baselines * study->n_runs);
  pz_study_run_tasks(call, study->search, last, &tasks);
  tasks.run = run_common_baseline;
  tasks.results = &methods.outcomes[(size_t)last * methods.n_baselines];
  tasks.result_bytes = sizeof *methods.outcomes;
  tasks.progress_units = 1;
  tasks.uses_all_threads = true;
  pz_study_run_tasks(call, study->search, methods.n_baselines, &tasks);
  pz_study_phase_end(call, watch.progress);

  struct pz_comparison *comparison = pz_alloc(&result_call, 1, sizeof *comparison);
  comparison->seed = seed;
  comparison->n_runs = study->n_runs;
  comparison->runs = pz_alloc(&result_call, comparison->n_runs, sizeof *comparison->runs);
  for (uint32_t i = 0; i < comparison->n_runs; i++)
    fill_run(&result_call, &methods, i, &comparison->runs[i]);
  pz_scratch_end(&work);
  result->comparison = comparison;
}
