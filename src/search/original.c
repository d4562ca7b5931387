#include "search/original.h"

#include <math.h>
#include <stdlib.h>

#include "chip/tech.h"

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

/* ---- the original's walk -------------------------------------------------------------------- */

/* Chips in buckets of area, the largest first; it ends when the best of the last five buckets do
 * not rise from one to the next. */
enum { BUCKET_UM2 = 10000, BUCKETS_LOOKED_BACK = 5 };

struct bucket_entry {
  int64_t bucket;
  uint32_t point;
};

static int larger_first(const void *a, const void *b) {
  const struct bucket_entry *x = a, *y = b;
  if (x->bucket != y->bucket) return x->bucket > y->bucket ? -1 : 1;
  return x->point < y->point ? -1 : 1;
}

static enum pz_status value_of(struct pz_study *s, const struct pz_objective *o, uint32_t point,
                               double *value, struct pz_error *err) {
  double rate[PZ_SEARCH_MOST_MODELS] = {0};
  for (uint32_t i = 0; i < o->n; i++) {
    const struct pz_evaluation *e = NULL;
    enum pz_status status =
        pz_search_evaluate(s->search, point, o->models[i], PZ_EFFORT_FULL, &e, err);
    if (status != PZ_OK) return status;
    if (!(e->time_s < HUGE_VAL)) { /* a chip that one model does not fit on is passed over */
      *value = -1;
      return PZ_OK;
    }
    rate[o->models[i]] = (double)s->o.batch / e->time_s;
  }
  *value = pz_objective_value(o, rate, pz_search_area_um2(s->search, point),
                              pz_search_watts(s->search, point));
  return PZ_OK;
}

static bool has_converged(const double *best, uint32_t n) {
  if (n < BUCKETS_LOOKED_BACK) return false;
  for (uint32_t i = n - BUCKETS_LOOKED_BACK; i + 1 < n; i++)
    if (best[i] < best[i + 1]) return false;
  return true;
}

/* `best` has room for a value of every bucket. */
static enum pz_status walk_buckets(struct pz_study *s, const struct bucket_entry *list,
                                   double *best, struct pz_contest *c, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  uint32_t n_buckets = 0;
  c->value = -1;
  for (uint32_t i = 0; i < s->n_points && status == PZ_OK; i++) {
    double value = -1;
    bool first = i == 0 || list[i].bucket != list[i - 1].bucket;
    if (first && has_converged(best, n_buckets)) break;
    if (first) best[n_buckets++] = -1;
    status = value_of(s, &c->objective, list[i].point, &value, err);
    best[n_buckets - 1] = fmax(best[n_buckets - 1], value);
    if (value > c->value) c->value = value, c->best = list[i].point;
  }
  if (status == PZ_OK && !(c->value > 0))
    return pz_fail(err, PZ_NO_ANSWER, "the original's walk met no chip that takes all models");
  c->bound = c->value;
  return status == PZ_OK ? pz_search_least_memory(s->search, c, err) : status;
}

static enum pz_status walk(struct pz_study *s, struct pz_contest *c, struct pz_error *err) {
  struct bucket_entry *list = calloc(s->n_points, sizeof *list);
  double *best = calloc(s->n_points, sizeof *best);
  enum pz_status status = PZ_NO_MEMORY;
  if (list && best) {
    for (uint32_t i = 0; i < s->n_points; i++)
      list[i] = (struct bucket_entry){(int64_t)(pz_search_area_um2(s->search, i) / BUCKET_UM2), i};
    qsort(list, s->n_points, sizeof *list, larger_first);
    status = walk_buckets(s, list, best, c, err);
  }
  free(list);
  free(best);
  return status == PZ_NO_MEMORY ? pz_fail(err, status, "out of memory for the walk") : status;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void take_answer(const struct pz_study *s, const struct pz_contest *c,
                        struct pz_original_row *row) {
  struct pz_area area;
  pz_study_chip(s, c, &row->chip);
  area = pz_chip_area(&row->chip);
  row->hbm_gib = c->hbm_gib;
  row->area_part = pz_area_total_um2(&area) / s->space.budget_um2;
  row->gap = c->value > 0 ? c->bound / c->value - 1 : 0;
  for (uint32_t m = 0; m < s->portfolio.n_models; m++) {
    const struct pz_evaluation *e = pz_search_evaluation(s->search, c->best, m);
    row->samples_per_s[m] = e && e->time_s < HUGE_VAL ? (double)s->o.batch / e->time_s : 0;
    row->reference[m] = s->reference[m].samples_per_s;
  }
}

/* A row on a study that makes its assumptions but for those that do not change what a chip can do:
 * how stages of the expert plan are cut, and how chips are compared. */
static enum pz_status run_row(struct pz_study *s, struct pz_original_row *row,
                              struct pz_error *err) {
  bool mean = pz_assumed(row->assumptions, PZ_ASSUME_ARITHMETIC_MEAN);
  uint32_t common = s->n_contests - 1;
  s->task.assumptions = row->assumptions;
  s->o.objective = mean ? PZ_OBJECTIVE_MEAN : PZ_OBJECTIVE_GEOMEAN;
  enum pz_status status = pz_study_references(s, err);
  if (status == PZ_OK && row->walk) {
    struct pz_contest *c = &s->contest[common];
    *c = (struct pz_contest){.objective = pz_study_objective(s, common)};
    status = walk(s, c, err);
  } else if (status == PZ_OK) {
    status = pz_study_contest(s, common, err);
  }
  if (status == PZ_OK) take_answer(s, &s->contest[common], row);
  return status;
}

static pz_assumptions study_key(pz_assumptions set) {
  return set & ~(1U << PZ_ASSUME_SHIFTED_EXPERT | 1U << PZ_ASSUME_ARITHMETIC_MEAN);
}

/* Every row that shares the study of the given one. */
static enum pz_status run_study(const struct pz_study_options *o, unsigned threads,
                                struct pz_original *r, uint32_t first, struct pz_error *err) {
  struct pz_study_options with = *o;
  struct pz_search_options search = {.stop = NULL};
  struct pz_study s;
  with.assumptions = study_key(r->rows[first].assumptions);
  enum pz_status status = pz_study_init(&s, &with, threads, err);
  if (status != PZ_OK) return status;
  status = pz_study_prepare(&s, &search, err);
  for (uint32_t i = first; i < r->n_rows && status == PZ_OK; i++)
    if (study_key(r->rows[i].assumptions) == with.assumptions)
      status = run_row(&s, &r->rows[i], err);
  pz_study_release(&s);
  return status;
}

enum pz_status pz_original_run(const struct pz_study_options *o, bool alone, unsigned threads,
                               struct pz_progress *progress, struct pz_original *out,
                               struct pz_error *err) {
  struct pz_original r = {.n_models = o->n_models};
  enum pz_status status = PZ_OK;
  for (uint32_t m = 0; m < o->n_models; m++) r.models[m] = o->models[m];
  r.n_rows = list_rows(alone, r.rows);
  for (uint32_t i = 0; i < r.n_rows && status == PZ_OK; i++) {
    if (progress) pz_progress_set(progress, i, r.n_rows, NULL);
    if (r.rows[i].area_part > 0) continue; /* done with an earlier one */
    status = run_study(o, threads, &r, i, err);
  }
  if (status == PZ_OK) *out = r;
  return status;
}
