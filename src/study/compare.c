#include "study/compare.h"

#include <math.h>
#include <string.h>

#include "baseline/baseline.h"
#include "chip/chip.h"

struct comparer {
  struct pz_study *s;
  uint64_t seed;
  struct pz_watch watch;
  struct pz_result *r;
  struct pz_comparison *c;
  char (*chip_names)[sizeof((struct pz_chip *)0)->name]; /* by objective run and method */
};

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the comparison");
}

/* ---- one method ----------------------------------------------------------------------------- */

/* Throughputs of the models of an objective run; rates are 0 without an answer. */
static struct pz_ratios set_models(const struct comparer *x, const struct pz_objective *o,
                                   const struct pz_baseline_answer *a, bool any,
                                   struct pz_method_result *m) {
  double ratios[PZ_SEARCH_MOST_MODELS];
  const char *names[PZ_SEARCH_MOST_MODELS];
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t model = o->models[i];
    double rate = any ? a->samples_per_s[model] : 0;
    double reference = x->s->reference[model].samples_per_s;
    ratios[i] = reference > 0 ? rate / reference : (double)NAN;
    names[i] = x->r->inputs.models[model].name;
    m->models[i] = (struct pz_method_model){names[i], rate, ratios[i], a->expert[model]};
  }
  return pz_ratios_of(ratios, names, o->n);
}

/* Where the name of a method's chip is kept. */
static char *chip_name_of(const struct comparer *x, const struct pz_method_result *m) {
  uint32_t i = 0;
  while (m < x->c->runs[i].methods || m >= x->c->runs[i].methods + x->c->runs[i].n_methods) i++;
  return x->chip_names[i * x->c->runs[i].n_methods + (size_t)(m - x->c->runs[i].methods)];
}

/* The answer as it is told.  Memory was set aside before: methods are run on threads. */
static void set_method(const struct comparer *x, const struct pz_objective *o,
                       const struct pz_baseline_answer *a, bool any, struct pz_method_result *m) {
  const struct pz_chip *chip = &a->chip;
  struct pz_area area = pz_chip_area(chip);
  double um2 = any ? pz_area_total_um2(&area) : 0;
  m->chip = any ? strcpy(chip_name_of(x, m), chip->name) : NULL;
  m->tensor_cores = chip->tensor.cores;
  m->rows = chip->tensor.rows;
  m->cols = chip->tensor.cols;
  m->vector_cores = chip->vector.cores;
  m->lanes = chip->vector.lanes;
  m->glb_bytes = chip->glb_bytes;
  m->hbm_gib = a->hbm_gib;
  m->area_mm2 = um2 / 1e6;
  m->area_part = um2 / x->s->space.budget_um2;
  m->ratios = set_models(x, o, a, any, m);
  m->n_evaluated = a->n_evaluated;
}

/* `by` as in a baseline's question. */
static enum pz_status run_baseline(const struct comparer *x, const struct pz_baseline *b,
                                   const struct pz_objective_run *run, struct pz_evaluator *by,
                                   struct pz_method_result *m, struct pz_error *err) {
  const struct pz_study *s = x->s;
  struct pz_error why = {0};
  struct pz_baseline_answer a = {0};
  struct pz_baseline_question q = {.search = s->search,
                                   .task = &s->task,
                                   .points = s->points,
                                   .n_points = s->n_points,
                                   .objective = &run->objective,
                                   .evaluations = run->n_looked,
                                   .seed = x->seed,
                                   .stop = x->watch.stop,
                                   .by = by};
  double since = pz_clock_s();
  enum pz_status status = b->run(&q, &a, &why);
  if (status != PZ_OK && status != PZ_NO_ANSWER) return pz_fail(err, status, "%s", why.message);
  bool any = status == PZ_OK;
  set_method(x, q.objective, &a, any, m);
  m->seconds = pz_clock_s() - since;
  if (any)
    m->objective = pz_objective_value(q.objective, a.samples_per_s, m->area_mm2 * 1e6,
                                      pz_chip_peak_watts(&a.chip));
  return PZ_OK;
}

static void tell_search(const struct comparer *x, const struct pz_objective_run *run,
                        struct pz_method_result *m) {
  const struct pz_study *s = x->s;
  struct pz_baseline_answer a = {.hbm_gib = run->hbm_gib, .n_evaluated = run->n_looked};
  pz_study_chip(s, run, &a.chip);
  for (uint32_t i = 0; i < run->objective.n; i++) {
    uint32_t model = run->objective.models[i];
    const struct pz_evaluation *e = pz_search_evaluation(s->search, run->best, model);
    if (e) a.samples_per_s[model] = (double)s->o.batch / e->time_s;
  }
  set_method(x, &run->objective, &a, true, m);
  m->objective = run->value;
}

/* ---- one objective run ---------------------------------------------------------------------- */

static uint32_t count_baselines(void) {
  uint32_t n = 0;
  while (pz_baseline_at(n)) n++;
  return n;
}

static enum pz_status compare_run(void *ctx, size_t i, struct pz_evaluator *by,
                                  struct pz_error *err) {
  const struct comparer *x = ctx;
  const struct pz_objective_run *run = &x->s->objective_run[i];
  struct pz_comparison_run *out = &x->c->runs[i];
  for (uint32_t k = 0; k + 1 < out->n_methods; k++) {
    enum pz_status status = run_baseline(x, pz_baseline_at(k), run, by, &out->methods[k], err);
    if (status != PZ_OK) return status;
    pz_progress_add(x->watch.progress, 1);
  }
  tell_search(x, run, &out->methods[out->n_methods - 1]);
  return PZ_OK;
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* Memory for all answers, with the names of the methods. */
static bool lay_out_run(const struct comparer *x, uint32_t i) {
  struct pz_arena *arena = x->r->arena;
  struct pz_comparison_run *run = &x->c->runs[i];
  run->n_methods = count_baselines() + 1;
  run->name = x->r->answers[i].name;
  run->methods = pz_arena_alloc(arena, run->n_methods, sizeof *run->methods);
  for (uint32_t k = 0; k < run->n_methods && run->methods; k++) {
    const struct pz_baseline *b = pz_baseline_at(k);
    struct pz_method_result *m = &run->methods[k];
    m->name = b ? b->name : PZ_METHOD_SEARCH;
    m->about = b ? b->about : "every chip of the space, evaluated or excluded by a bound";
    m->n_models = x->s->objective_run[i].objective.n;
    m->models = pz_arena_alloc(arena, m->n_models, sizeof *m->models);
    if (!m->models) return false;
  }
  return run->methods;
}

static bool lay_out(struct comparer *x) {
  struct pz_arena *arena = x->r->arena;
  x->c = pz_arena_alloc(arena, 1, sizeof *x->c);
  if (!x->c) return false;
  x->c->seed = x->seed;
  x->c->n_runs = x->s->n_runs;
  x->c->runs = pz_arena_alloc(arena, x->c->n_runs, sizeof *x->c->runs);
  x->chip_names =
      pz_arena_alloc(arena, (size_t)x->c->n_runs * (count_baselines() + 1), sizeof *x->chip_names);
  bool good = x->c->runs && x->chip_names;
  for (uint32_t i = 0; i < x->c->n_runs && good; i++) good = lay_out_run(x, i);
  return good;
}

/* Models alone beside each other, then the one chip for all on all threads. */
enum pz_status pz_compare(struct pz_study *s, uint64_t seed, struct pz_watch watch,
                          struct pz_result *r, struct pz_error *err) {
  struct comparer x = {.s = s, .seed = seed, .watch = watch, .r = r};
  uint32_t last = s->n_runs - 1;
  if (!lay_out(&x)) return no_memory(err);
  pz_progress_next(watch.progress, "comparison", "baselines",
                   (uint64_t)count_baselines() * s->n_runs);
  enum pz_status status = pz_search_each(s->search, last, compare_run, &x, err);
  if (status == PZ_OK) status = compare_run(&x, last, NULL, err);
  pz_progress_finish(watch.progress, NULL);
  if (status == PZ_OK) r->comparison = x.c;
  return status;
}
