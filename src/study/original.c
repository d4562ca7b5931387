/* The common chip under the original system's assumptions: by its own way of looking for one, then
 * by an exact search with all of them, with one after another corrected, with none, and with each
 * of them alone. */
#include <math.h>
#include <string.h>

#include "baseline/baseline.h"
#include "chip/chip.h"
#include "core/status.h"
#include "core/text.h"
#include "study/study.h"

/* First the original's own walk, then the sequence: the first k assumptions corrected, for k = 0 ..
 * all of them.  Then each alone; the last one alone is the sequence's last row but one. */
static uint32_t list_rows(bool alone, struct pz_original_row rows[PZ_ORIGINAL_MOST_ROWS]) {
  uint32_t n = 0;
  rows[n++] = (struct pz_original_row){.assumptions = PZ_ASSUME_ALL, .walk = true};
  for (unsigned k = 0; k <= PZ_ASSUMPTIONS; k++)
    rows[n++] = (struct pz_original_row){.assumptions = (pz_assumptions)PZ_ASSUME_ALL >> k << k};
  for (unsigned a = 0; a < PZ_ASSUMPTIONS && alone; a++)
    rows[n++] = (struct pz_original_row){.assumptions = 1U << a, .alone = true};
  return n;
}

/* The chip that the original's own search ends with. */
static enum pz_status walk(struct pz_study *s, struct pz_original_row *row, struct pz_chip *chip,
                           struct pz_error *err) {
  struct pz_objective objective = pz_study_objective(s, s->n_runs - 1);
  struct pz_baseline_question q = {.search = s->search,
                                   .task = &s->task,
                                   .points = s->points,
                                   .n_points = s->n_points,
                                   .objective = &objective,
                                   .by = s->by,
                                   .worker = PZ_BASELINE_ALL};
  struct pz_baseline_answer a;
  enum pz_status status = pz_baseline_original(&q, &a, err);
  if (status != PZ_OK) return status;
  *chip = a.chip;
  row->hbm_gib = a.hbm_gib;
  memcpy(row->samples_per_s, a.samples_per_s, sizeof row->samples_per_s);
  return PZ_OK;
}

static enum pz_status search(struct pz_study *s, struct pz_original_row *row, struct pz_chip *chip,
                             struct pz_error *err) {
  uint32_t common = s->n_runs - 1;
  const struct pz_objective_run *c = &s->objective_run[common];
  enum pz_status status = pz_study_run(s, common, err);
  if (status != PZ_OK) return status;
  status = pz_study_least_memory(s, c, &row->hbm_gib, err);
  if (status != PZ_OK) return status;
  pz_study_chip(s, c, row->hbm_gib, chip);
  row->gap = c->value > 0 ? c->bound / c->value - 1 : 0;
  for (uint32_t m = 0; m < s->portfolio.n_models; m++) {
    struct pz_evaluation e;
    bool known = pz_search_known(s->search, &c->best, m, &e) && e.step_s < HUGE_VAL;
    row->samples_per_s[m] = known ? (double)s->o.batch / e.step_s : 0;
  }
  return PZ_OK;
}

/* A row on a study that makes its assumptions but for those that do not change what a chip can do:
 * how stages of the expert plan are cut, and how chips are compared. */
static enum pz_status run_row(struct pz_study *s, struct pz_original_row *row,
                              struct pz_watch watch, struct pz_error *err) {
  struct pz_chip chip;
  bool mean = pz_assumed(row->assumptions, PZ_ASSUME_ARITHMETIC_MEAN);
  s->task.assumptions = row->assumptions;
  s->o.objective = mean ? PZ_OBJECTIVE_MEAN : PZ_OBJECTIVE_GEOMEAN;
  enum pz_status status = pz_study_references(s, watch, err);
  if (status == PZ_OK) status = row->walk ? walk(s, row, &chip, err) : search(s, row, &chip, err);
  if (status != PZ_OK) return status;
  pz_text_copy(row->chip, sizeof row->chip, chip.name);
  row->area_part = pz_chip_taken(&chip).mm2 / s->limits.mm2;
  for (uint32_t m = 0; m < s->portfolio.n_models; m++)
    row->reference[m] = s->reference[m].samples_per_s;
  return PZ_OK;
}

static pz_assumptions study_key(pz_assumptions set) {
  return set & ~(1U << PZ_ASSUME_SHIFTED_EXPERT | 1U << PZ_ASSUME_ARITHMETIC_MEAN);
}

/* Every row that shares the study of the given one. */
static enum pz_status run_study(const struct pz_study_options *o, unsigned threads,
                                struct pz_watch watch, struct pz_original *r, uint32_t first,
                                struct pz_error *err) {
  struct pz_study_options with = *o;
  struct pz_study_watch watched = {watch, NULL};
  struct pz_study s;
  with.evaluator = PZ_EVALUATOR_ORIGINAL;
  with.assumptions = study_key(r->rows[first].assumptions);
  enum pz_status status = pz_study_init(&s, &with, threads, err);
  if (status != PZ_OK) return status;
  status = pz_study_prepare(&s, &watched, err);
  for (uint32_t i = first; i < r->n_rows && status == PZ_OK; i++)
    if (study_key(r->rows[i].assumptions) == with.assumptions)
      status = run_row(&s, &r->rows[i], watch, err);
  pz_study_release(&s);
  return status;
}

static enum pz_status run_rows(const struct pz_study_options *o, bool alone, unsigned threads,
                               struct pz_watch watch, struct pz_original *out,
                               struct pz_error *err) {
  struct pz_original r = {.n_models = o->n_models};
  enum pz_status status = PZ_OK;
  for (uint32_t m = 0; m < o->n_models; m++) r.models[m] = o->models[m];
  r.n_rows = list_rows(alone, r.rows);
  for (uint32_t i = 0; i < r.n_rows && status == PZ_OK; i++) {
    if (r.rows[i].area_part > 0) continue; /* done with an earlier one */
    status = run_study(o, threads, watch, &r, i, err);
  }
  if (status == PZ_OK) *out = r;
  return status;
}

enum pz_status pz_original_run(const struct pz_study_options *options, bool alone, unsigned threads,
                               pz_progress_fn *progress, void *ctx, struct pz_original *out,
                               struct pz_error *err) {
  struct pz_study_options o = pz_study_options_default();
  struct pz_progress p;
  atomic_bool stop = false;
  struct pz_watch watch = {&stop, progress ? &p : NULL};
  enum pz_status status = pz_sized_take(&o, sizeof o, options, "pz_study_options_default", err);
  if (progress) pz_progress_start_call(&p, progress, ctx, &stop);
  if (status == PZ_OK) status = pz_need(out, "out", err);
  if (status == PZ_OK)
    status = pz_need_range("number of models", o.n_models, 1, PZ_SEARCH_MOST_MODELS, err);
  return status == PZ_OK ? run_rows(&o, alone, threads, watch, out, err) : status;
}
