/* The best chip under the assumptions of the original system.  Each row of the answer makes a set of assumptions:
 * pz_original_run() first follows the original's own way of looking for a chip, then searches exactly with all
 * assumptions, with one after another corrected, with none, and, if asked for, with each of them alone.  Rows whose
 * assumptions change nothing about what a chip can do share a study. */
#include <math.h>
#include <string.h>

#include "baseline/baseline.h"
#include "chip/chip.h"
#include "core/status.h"
#include "core/text.h"
#include "study/study.h"

/* Lists the rows: the original's own search; then, for k = 0 to all, the first k assumptions corrected; then each assumption
 * alone.  The last assumption alone occurs twice, because it also ends the sequence. */
static uint32_t list_rows(bool alone, struct pz_original_row rows[PZ_ORIGINAL_MOST_ROWS]) {
  uint32_t n = 0;
  rows[n++] = (struct pz_original_row){.assumptions = PZ_ASSUME_ALL, .walk = true};
  for (unsigned k = 0; k <= PZ_ASSUMPTIONS; k++)
    rows[n++] = (struct pz_original_row){.assumptions = (pz_assumptions)PZ_ASSUME_ALL >> k << k};
  for (unsigned a = 0; a < PZ_ASSUMPTIONS && alone; a++)
    rows[n++] = (struct pz_original_row){.assumptions = 1U << a, .alone = true};
  return n;
}

/* Sets the throughputs of a row and returns the chip that the original's own search ends with. */
static struct pz_chip run_original_search(struct pz_call *call, struct pz_study *s,
                                          struct pz_original_row *row) {
  struct pz_objective objective = pz_study_objective(s, s->n_runs - 1);
  struct pz_baseline_question q = {.search = s->search,
                                   .task = &s->task,
                                   .points = s->points,
                                   .n_points = s->n_points,
                                   .objective = &objective,
                                   .by = s->by,
                                   .worker = PZ_BASELINE_ALL};
  struct pz_baseline_answer a = pz_baseline_sweep(call, &q);
  row->hbm_gib = a.hbm_gib;
  memcpy(row->samples_per_s, a.samples_per_s, sizeof row->samples_per_s);
  return a.chip;
}

/* Sets the throughputs and the gap of a row and returns the best chip of an exact search. */
static struct pz_chip run_exact_search(struct pz_call *call, struct pz_study *s,
                                       struct pz_original_row *row) {
  uint32_t common = s->n_runs - 1;
  const struct pz_objective_run *run = &s->objective_run[common];
  struct pz_chip chip;
  pz_study_run_objective(call, s, common);
  row->hbm_gib = pz_study_smallest_memory(call, s, run);
  pz_study_chip(s, run, row->hbm_gib, &chip);
  row->gap = run->value > 0 ? run->bound / run->value - 1 : 0;
  for (uint32_t m = 0; m < s->portfolio.n_models; m++) {
    struct pz_evaluation e;
    bool fits = pz_search_known(s->search, &run->best, m, &e) && e.step_s < HUGE_VAL;
    row->samples_per_s[m] = fits ? (double)s->o.batch / e.step_s : 0;
  }
  return chip;
}

/* Runs a row on a study that makes all of its assumptions except those that study_assumptions() leaves out. */
static void run_row(struct pz_call *call, struct pz_study *s, struct pz_original_row *row,
                    struct pz_watch watch) {
  bool mean = pz_assumed(row->assumptions, PZ_ASSUME_ARITHMETIC_MEAN);
  s->task.assumptions = row->assumptions;
  s->o.objective = mean ? PZ_OBJECTIVE_MEAN : PZ_OBJECTIVE_GEOMEAN;
  pz_study_find_references(call, s, watch);
  struct pz_chip chip =
      row->walk ? run_original_search(call, s, row) : run_exact_search(call, s, row);
  pz_text_copy(row->chip, sizeof row->chip, chip.name);
  row->area_part = pz_chip_taken(&chip).mm2 / s->limits.mm2;
  for (uint32_t m = 0; m < s->portfolio.n_models; m++)
    row->reference[m] = s->reference[m].samples_per_s;
}

/* The assumptions that change what a chip can do.  The others are how stages of the expert plan are cut, and how chips are
 * compared. */
static pz_assumptions study_assumptions(pz_assumptions set) {
  return set & ~(1U << PZ_ASSUME_SHIFTED_EXPERT | 1U << PZ_ASSUME_ARITHMETIC_MEAN);
}

struct original_question {
  const struct pz_study_options *options;
  bool alone;
  unsigned threads;
  pz_progress_fn *progress;
  void *progress_ctx;
  struct pz_original *out;
};

static void run_original(struct pz_call *call, void *ctx) {
  struct original_question *x = ctx;
  struct pz_study_options o = pz_study_options_default();
  atomic_bool *stop = pz_alloc(call, 1, sizeof *stop);
  struct pz_progress *progress = x->progress ? pz_alloc(call, 1, sizeof *progress) : NULL;
  struct pz_study_watch watch = {{stop, progress}, NULL};
  pz_require_options(call, &o, sizeof o, x->options, "pz_study_options_default");
  if (progress) pz_progress_start_call(progress, x->progress, x->progress_ctx, stop);
  pz_require(call, x->out, "out");
  pz_require_range(call, "number of models", o.n_models, 1, PZ_SEARCH_MOST_MODELS);
  struct pz_original *r = pz_alloc(call, 1, sizeof *r);
  r->n_models = o.n_models;
  for (uint32_t m = 0; m < o.n_models; m++) r->models[m] = o.models[m];
  r->n_rows = list_rows(x->alone, r->rows);
  o.evaluator = PZ_EVALUATOR_ORIGINAL;
  struct pz_study *s = pz_alloc(call, 1, sizeof *s);
  for (uint32_t first = 0; first < r->n_rows; first++) {
    bool done = r->rows[first].area_part > 0; /* with the study of an earlier row */
    if (done) continue;
    o.assumptions = study_assumptions(r->rows[first].assumptions);
    pz_study_open(call, s, &o, x->threads);
    pz_study_start(call, s, &watch);
    for (uint32_t i = first; i < r->n_rows; i++)
      if (study_assumptions(r->rows[i].assumptions) == o.assumptions)
        run_row(call, s, &r->rows[i], watch.watch);
    pz_close(call, s);
  }
  *x->out = *r;
}

enum pz_status pz_original_run(const struct pz_study_options *options, bool alone, unsigned threads,
                               pz_progress_fn *progress, void *ctx, struct pz_original *out,
                               struct pz_error *err) {
  struct original_question x = {options, alone, threads, progress, ctx, out};
  return pz_border(run_original, &x, err);
}
