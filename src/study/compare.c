#include "study/compare.h"

#include <math.h>
#include <string.h>

#include "baseline/baseline.h"
#include "chip/chip.h"
#include "core/alloc.h"

struct comparer {
  struct pz_study *s;
  uint64_t seed;
  struct pz_watch watch;
  struct pz_result *r;
  struct pz_comparison *c;
  char (*chip_names)[sizeof((struct pz_chip *)0)->name]; /* by objective run and method */
  struct asked *asked;                                   /* by objective run and baseline */
  uint32_t n_baselines;
};

static uint32_t count_baselines(void) {
  uint32_t n = 0;
  while (pz_baseline_at(n)) n++;
  return n;
}

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

/* As one die of the space's technology, whatever the real one is: tpuv4-real. */
static struct pz_taken taken_of(const struct pz_chip *chip) {
  struct pz_chip c = *chip;
  c.package = (struct pz_package){.dies = 0};
  return pz_chip_taken(&c);
}

/* The answer as it is told.  Memory was set aside before: methods are run on threads. */
static void set_method(const struct comparer *x, const struct pz_objective *o,
                       const struct pz_baseline_answer *a, bool any, struct pz_method_result *m) {
  const struct pz_chip *chip = &a->chip;
  double mm2 = any ? taken_of(chip).mm2 : 0;
  m->chip = any ? strcpy(chip_name_of(x, m), chip->name) : NULL;
  m->tensor_cores = chip->tensor.cores;
  m->rows = chip->tensor.rows;
  m->cols = chip->tensor.cols;
  m->vector_cores = chip->vector.cores;
  m->lanes = chip->vector.lanes;
  m->glb_bytes = chip->glb_bytes;
  m->hbm_gib = a->hbm_gib;
  m->area_mm2 = mm2;
  m->area_part = x->s->limits.mm2 > 0 ? mm2 / x->s->limits.mm2 : 0;
  m->ratios = set_models(x, o, a, any, m);
  m->n_evaluated = a->n_evaluated;
}

/* What a baseline answered: plain, as ranks send it to one another. */
struct asked {
  struct pz_baseline_answer answer;
  bool any; /* is there one? */
  double seconds;
};

/* `worker` as in a baseline's question. */
static enum pz_status ask_baseline(const struct comparer *x, uint32_t k,
                                   const struct pz_objective_run *run, int worker,
                                   struct asked *out, struct pz_error *err) {
  const struct pz_study *s = x->s;
  struct pz_error why = {0};
  struct pz_baseline_question q = {.search = s->search,
                                   .task = &s->task,
                                   .points = s->points,
                                   .n_points = s->n_points,
                                   .objective = &run->objective,
                                   .evaluations = run->n_evaluated + run->n_partly,
                                   .seed = x->seed,
                                   .stop = x->watch.stop,
                                   .by = s->by,
                                   .worker = worker};
  double since = pz_clock_s();
  enum pz_status status = pz_baseline_at(k)->run(&q, &out->answer, &why);
  if (status != PZ_OK && status != PZ_NO_ANSWER) return pz_fail(err, status, "%s", why.message);
  out->any = status == PZ_OK;
  out->seconds = pz_clock_s() - since;
  pz_progress_add(x->watch.progress, 1);
  return PZ_OK;
}

static struct asked *asked_at(const struct comparer *x, uint32_t run, uint32_t k) {
  return &x->asked[run * x->n_baselines + k];
}

/* By entry of the portfolio; 0: nothing fits. */
static double objective_of(const struct pz_objective *o, const double *samples_per_s,
                           const struct pz_chip *chip) {
  struct pz_step_cost steps[PZ_SEARCH_MOST_MODELS];
  struct pz_taken taken = taken_of(chip);
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t m = o->models[i];
    steps[m] =
        (struct pz_step_cost){samples_per_s[m] > 0 ? o->batch[m] / samples_per_s[m] : HUGE_VAL, 0};
  }
  return pz_objective_value(o, steps, &taken);
}

static void tell_baseline(const struct comparer *x, const struct pz_objective_run *run,
                          const struct asked *a, struct pz_method_result *m) {
  set_method(x, &run->objective, &a->answer, a->any, m);
  m->seconds = a->seconds;
  if (a->any)
    m->objective = objective_of(&run->objective, a->answer.samples_per_s, &a->answer.chip);
}

static void tell_search(const struct comparer *x, uint32_t i, struct pz_method_result *m) {
  const struct pz_objective_run *run = &x->s->objective_run[i];
  const struct pz_answer *answer = &x->r->answers[i];
  struct pz_baseline_answer a = {.chip = *answer->chip,
                                 .hbm_gib = answer->hbm_gib,
                                 .n_evaluated = run->n_evaluated + run->n_partly};
  for (uint32_t k = 0; k < run->objective.n; k++)
    a.samples_per_s[run->objective.models[k]] = answer->models[k].samples_per_s;
  set_method(x, &run->objective, &a, true, m);
  m->objective = run->value;
}

/* ---- one objective run ---------------------------------------------------------------------- */

/* All baselines of a model alone. */
static enum pz_status compare_run(void *ctx, size_t i, unsigned worker, struct pz_error *err) {
  const struct comparer *x = ctx;
  enum pz_status status = PZ_OK;
  for (uint32_t k = 0; k < x->n_baselines && status == PZ_OK; k++)
    status =
        ask_baseline(x, k, &x->s->objective_run[i], (int)worker, asked_at(x, (uint32_t)i, k), err);
  return status;
}

/* One baseline of the common chip, on all threads. */
static enum pz_status compare_common(void *ctx, size_t k, unsigned worker, struct pz_error *err) {
  const struct comparer *x = ctx;
  uint32_t last = x->s->n_runs - 1;
  (void)worker;
  return ask_baseline(x, (uint32_t)k, &x->s->objective_run[last], PZ_BASELINE_ALL,
                      asked_at(x, last, (uint32_t)k), err);
}

static void tell_run(const struct comparer *x, uint32_t i) {
  const struct pz_objective_run *run = &x->s->objective_run[i];
  struct pz_comparison_run *out = &x->c->runs[i];
  for (uint32_t k = 0; k < x->n_baselines; k++)
    tell_baseline(x, run, asked_at(x, i, k), &out->methods[k]);
  tell_search(x, i, &out->methods[out->n_methods - 1]);
}

/* ---- on any rank ---------------------------------------------------------------------------- */

static void pack_answers(const struct asked *list, uint32_t n, struct pz_buffer *out) {
  pz_buffer_append(out, (const char *)list, n * sizeof *list);
}

static enum pz_status unpack_answers(const struct comparer *x, struct asked *list, uint32_t n,
                                     struct pz_bytes *in) {
  pz_progress_add(x->watch.progress, n);
  return pz_bytes_take(in, list, n * sizeof *list) ? PZ_OK : PZ_BAD_INPUT;
}

static void pack_run(void *ctx, size_t i, struct pz_buffer *out) {
  const struct comparer *x = ctx;
  pack_answers(asked_at(x, (uint32_t)i, 0), x->n_baselines, out);
}

static enum pz_status unpack_run(void *ctx, size_t i, struct pz_bytes *in) {
  const struct comparer *x = ctx;
  return unpack_answers(x, asked_at(x, (uint32_t)i, 0), x->n_baselines, in);
}

static void pack_common(void *ctx, size_t k, struct pz_buffer *out) {
  const struct comparer *x = ctx;
  pack_answers(asked_at(x, x->s->n_runs - 1, (uint32_t)k), 1, out);
}

static enum pz_status unpack_common(void *ctx, size_t k, struct pz_bytes *in) {
  const struct comparer *x = ctx;
  return unpack_answers(x, asked_at(x, x->s->n_runs - 1, (uint32_t)k), 1, in);
}

/* ---- all of them ---------------------------------------------------------------------------- */

/* Memory for all answers, with the names of the methods. */
static bool lay_out_run(const struct comparer *x, uint32_t i) {
  struct pz_arena *arena = x->r->arena;
  struct pz_comparison_run *run = &x->c->runs[i];
  run->n_methods = x->n_baselines + 1;
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
      pz_arena_alloc(arena, (size_t)x->c->n_runs * (x->n_baselines + 1), sizeof *x->chip_names);
  x->asked = pz_calloc((size_t)x->c->n_runs * x->n_baselines, sizeof *x->asked);
  bool good = x->c->runs && x->chip_names && x->asked;
  for (uint32_t i = 0; i < x->c->n_runs && good; i++) good = lay_out_run(x, i);
  return good;
}

/* Models alone beside each other, then the one chip for all: its baselines one after another, each
 * on all threads of a rank. */
static enum pz_status ask_all(struct comparer *x, struct pz_error *err) {
  struct pz_search_work alone = {compare_run, pack_run, unpack_run, x, false};
  struct pz_search_work common = {compare_common, pack_common, unpack_common, x, true};
  uint32_t last = x->s->n_runs - 1;
  enum pz_status status = pz_search_deal(x->s->search, last, &alone, err);
  for (uint32_t i = 0; i < last && status == PZ_OK; i++) tell_run(x, i);
  if (status == PZ_OK) status = pz_search_deal(x->s->search, x->n_baselines, &common, err);
  if (status == PZ_OK) tell_run(x, last);
  return status;
}

enum pz_status pz_compare(struct pz_study *s, uint64_t seed, struct pz_watch watch,
                          struct pz_result *r, struct pz_error *err) {
  struct comparer x = {
      .s = s, .seed = seed, .watch = watch, .r = r, .n_baselines = count_baselines()};
  enum pz_status status = lay_out(&x) ? PZ_OK : no_memory(err);
  pz_progress_next(watch.progress, "comparison", "baselines", (uint64_t)x.n_baselines * s->n_runs);
  if (status == PZ_OK) status = ask_all(&x, err);
  pz_progress_finish(watch.progress, NULL);
  pz_free(x.asked);
  if (status == PZ_OK) r->comparison = x.c;
  return status;
}
