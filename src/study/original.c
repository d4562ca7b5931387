/* The best chip under the assumptions of the original system, a published research program that the
 * evaluator original repeats. pz_original_run() first follows that program's own way of looking for
 * a chip, then searches exactly with all assumptions, with one after another corrected, with none
 * and, if asked for, with each of them alone.  Rows whose assumptions give chips the same
 * capabilities share a study. */
#include <math.h>
#include <string.h>

#include "baseline/baseline.h"
#include "chip/chip.h"
#include "core/status.h"
#include "core/text.h"
#include "study/study.h"

/* Runs the search procedure of the original system (pz_baseline_sweep).  Returns the chip that it
 * ends with, and sets the memory of this chip and the throughput of every model on it in *row. */
static struct pz_chip run_original_search(struct pz_call *call, struct pz_study *study,
                                          struct pz_original_row *row) {
  struct pz_objective objective = pz_study_objective(study, study->n_runs - 1);
  struct pz_baseline_question question = {.search = study->search,
                                          .task = &study->task,
                                          .points = study->points,
                                          .n_points = study->n_points,
                                          .objective = &objective,
                                          .evaluator = study->evaluator,
                                          .worker = PZ_BASELINE_ALL};
  struct pz_baseline_answer answer = pz_baseline_sweep(call, NULL, &question);
  row->hbm_gib = answer.hbm_gib;
  memcpy(row->samples_per_s, answer.samples_per_s, sizeof row->samples_per_s);
  return answer.chip;
}

/* Searches the best chip for all models together exactly.  Returns this chip, and sets its memory,
 * the throughput of every model (0 if it does not fit) and the proved gap in *row. */
static struct pz_chip run_exact_search(struct pz_call *call, struct pz_study *study,
                                       struct pz_original_row *row) {
  uint32_t common = study->n_runs - 1;
  const struct pz_objective_run *run = &study->objective_run[common];
  struct pz_chip chip;
  pz_study_run_objective(call, study, common);
  row->hbm_gib = pz_study_smallest_memory(call, study, run);
  pz_study_chip(study, run, row->hbm_gib, &chip);
  row->gap = run->value > 0 ? run->bound / run->value - 1 : 0;
  for (uint32_t model = 0; model < study->portfolio.n_models; model++) {
    struct pz_evaluation evaluation;
    bool fits = pz_search_known(study->search, &run->best, model, &evaluation) &&
                evaluation.step_s < HUGE_VAL;
    row->samples_per_s[model] = fits ? (double)study->options.batch / evaluation.step_s : 0;
  }
  return chip;
}

/* Fills a row on a study that was opened with the row's assumptions about capabilities. */
static void run_row(struct pz_call *call, struct pz_study *study, struct pz_original_row *row,
                    struct pz_watch watch) {
  bool arithmetic_mean = pz_assumed(row->assumptions, PZ_ASSUME_ARITHMETIC_MEAN);
  study->task.assumptions = row->assumptions;
  study->options.objective = arithmetic_mean ? PZ_OBJECTIVE_MEAN : PZ_OBJECTIVE_GEOMEAN;
  pz_study_find_references(call, study, watch);
  struct pz_chip chip =
      row->walk ? run_original_search(call, study, row) : run_exact_search(call, study, row);
  pz_text_copy(row->chip, sizeof row->chip, chip.name);
  row->area_part = pz_chip_taken(&chip).mm2 / study->limits.mm2;
  for (uint32_t model = 0; model < study->portfolio.n_models; model++)
    row->reference[model] = study->reference[model].samples_per_s;
}

/* The assumptions that change the capabilities of a chip, and with them the study.  The others only
 * change the stages of the expert plan and the comparison of chips. */
static const pz_assumptions CAPABILITIES =
    ~(1U << PZ_ASSUME_SHIFTED_EXPERT | 1U << PZ_ASSUME_ARITHMETIC_MEAN);

struct original_question {
  const struct pz_study_options *options;
  bool alone;
  unsigned threads;
  pz_progress_fn *progress;
  void *progress_ctx;
  struct pz_original *out;
};

/* Makes all rows of the answer.  Rows whose assumptions agree in CAPABILITIES run on one study. */
static void run_original(struct pz_call *call, void *ctx) {
  struct original_question *request = ctx;
  struct pz_study_options options = pz_study_options_default();
  atomic_bool *stop = pz_alloc(call, 1, sizeof *stop);
  struct pz_progress *progress = request->progress ? pz_alloc(call, 1, sizeof *progress) : NULL;
  struct pz_study_watch watch = {{stop, progress}, NULL};
  pz_require_options(call, &options, sizeof options, request->options, "pz_study_options_default");
  if (progress) pz_progress_start_call(progress, request->progress, request->progress_ctx, stop);
  pz_require(call, request->out, "out");
  pz_require_range(call, "number of models", options.n_models, 1, PZ_SEARCH_MOST_MODELS);
  struct pz_original *original = pz_alloc(call, 1, sizeof *original);
  original->n_models = options.n_models;
  for (uint32_t model = 0; model < options.n_models; model++)
    original->models[model] = options.models[model];
  /* The rows: the original's own search; exact searches with the first k assumptions corrected; and
   * one with each assumption alone.  The last assumption alone also ends the second sequence. */
  struct pz_original_row *row = original->rows;
  *row++ = (struct pz_original_row){.assumptions = PZ_ASSUME_ALL, .walk = true};
  for (unsigned k = 0; k <= PZ_ASSUMPTIONS; k++)
    *row++ = (struct pz_original_row){.assumptions = (pz_assumptions)PZ_ASSUME_ALL >> k << k};
  for (unsigned k = 0; k < PZ_ASSUMPTIONS && request->alone; k++)
    *row++ = (struct pz_original_row){.assumptions = 1U << k, .alone = true};
  original->n_rows = (uint32_t)(row - original->rows);
  options.evaluator = PZ_EVALUATOR_ORIGINAL;
  struct pz_study *study = pz_alloc(call, 1, sizeof *study);
  for (uint32_t first = 0; first < original->n_rows; first++) {
    bool done = original->rows[first].area_part > 0; /* on the study of an earlier row */
    if (done) continue;
    options.assumptions = original->rows[first].assumptions & CAPABILITIES;
    pz_study_open(call, study, &options, request->threads);
    pz_study_start(call, study, &watch);
    for (uint32_t i = first; i < original->n_rows; i++)
      if ((original->rows[i].assumptions & CAPABILITIES) == options.assumptions)
        run_row(call, study, &original->rows[i], watch.watch);
    pz_close(call, study);
  }
  *request->out = *original;
}

enum pz_status pz_original_run(const struct pz_study_options *options, bool alone, unsigned threads,
                               pz_progress_fn *progress, void *ctx, struct pz_original *out,
                               struct pz_error *err) {
  struct original_question request = {options, alone, threads, progress, ctx, out};
  return pz_border(run_original, &request, err);
}
