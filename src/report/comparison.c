#include "report/comparison.h"

#include <math.h>
#include <string.h>

#include "baseline/baseline.h"
#include "chip/tech.h"
#include "core/alloc.h"
#include "core/text.h"
#include "report/original_table.h"
#include "report/ratios.h"
#include "report/result.h"

/* What one way of choosing came to in one objective_run. */
struct way {
  const char *name, *about;
  const struct pz_objective_run *objective_run;
  bool any; /* it has an answer */
  struct pz_baseline_answer answer;
  double value; /* of the objective run's objective */
};

static double area_um2(const struct way *w) {
  struct pz_area area = pz_chip_area(&w->answer.chip);
  return pz_area_total_um2(&area);
}

static struct way of_search(const struct pz_study *s, const struct pz_objective_run *c) {
  struct way w = {.name = "search",
                  .about = "every chip of the space, evaluated or excluded by a bound",
                  .objective_run = c,
                  .any = true,
                  .value = c->value};
  w.answer = (struct pz_baseline_answer){.hbm_gib = c->hbm_gib, .n_evaluated = c->n_looked};
  pz_study_chip(s, c, &w.answer.chip);
  for (uint32_t i = 0; i < c->objective.n; i++) {
    uint32_t m = c->objective.models[i];
    const struct pz_evaluation *e = pz_search_evaluation(s->search, c->best, m);
    if (e) w.answer.samples_per_s[m] = (double)s->o.batch / e->time_s;
  }
  return w;
}

/* `by` as in a baseline's question. */
static enum pz_status of_baseline(const struct pz_compared_task *t, const struct pz_baseline *b,
                                  const struct pz_objective_run *objective_run,
                                  struct pz_evaluator *by, struct way *out, struct pz_error *err) {
  const struct pz_study *s = t->study;
  struct pz_error why = {0};
  struct way w = {.name = b->name, .about = b->about, .objective_run = objective_run};
  struct pz_baseline_question q = {.search = s->search,
                                   .task = &s->task,
                                   .points = s->points,
                                   .n_points = s->n_points,
                                   .objective = &objective_run->objective,
                                   .evaluations = objective_run->n_looked,
                                   .seed = t->seed,
                                   .stop = t->stop,
                                   .by = by};
  enum pz_status status = b->run(&q, &w.answer, &why);
  if (status != PZ_OK && status != PZ_NO_ANSWER) return pz_fail(err, status, "%s", why.message);
  w.any = status == PZ_OK;
  if (w.any)
    w.value = pz_objective_value(q.objective, w.answer.samples_per_s, area_um2(&w),
                                 pz_chip_peak_watts(&w.answer.chip));
  *out = w;
  return PZ_OK;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *models_json(const struct pz_study *s, const struct way *w) {
  json_t *list = json_array();
  const struct pz_objective *o = &w->objective_run->objective;
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t m = o->models[i];
    double rate = w->any ? w->answer.samples_per_s[m] : 0, ref = s->reference[m].samples_per_s;
    json_array_append_new(list, json_pack("{s:s,s:f,s:o,s:b}", "model", s->portfolio.models[m],
                                          "throughput_samples_s", rate, "ratio_to_reference",
                                          ref > 0 ? json_real(rate / ref) : json_null(),
                                          "expert_plan", w->answer.expert[m]));
  }
  return list;
}

static json_t *way_json(const struct pz_study *s, const struct way *w) {
  const struct pz_chip *chip = &w->answer.chip;
  double area = w->any ? area_um2(w) : 0;
  json_t *models = models_json(s, w);
  return json_pack(
      "{s:s,s:s,s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:o,s:o,s:I}", "name", w->name, "about",
      w->about, "chip", w->any ? json_string(chip->name) : json_null(), "tensor_cores",
      (json_int_t)chip->tensor.cores, "rows", (json_int_t)chip->tensor.rows, "cols",
      (json_int_t)chip->tensor.cols, "vector_cores", (json_int_t)chip->vector.cores, "lanes",
      (json_int_t)chip->vector.lanes, "glb_bytes", (json_int_t)chip->glb_bytes, "hbm_gib",
      w->answer.hbm_gib, "area_mm2", area / 1e6, "area_part", area / s->space.budget_um2,
      "objective", w->value, "ratios", pz_ratios_json(models), "models", models, "evaluated",
      (json_int_t)w->answer.n_evaluated);
}

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the comparison");
}

/* A objective run's ways, in their order, and what they took. */
struct made {
  const struct pz_compared_task *t;
  json_t *ways[PZ_SEARCH_MOST_MODELS + 1], *seconds[PZ_SEARCH_MOST_MODELS + 1];
};

static enum pz_status make_objective_run(void *ctx, size_t i, struct pz_evaluator *by,
                                         struct pz_error *err) {
  struct made *m = ctx;
  const struct pz_study *s = m->t->study;
  struct way w = {0};
  for (size_t k = 0; pz_baseline_at(k); k++) {
    double since = pz_clock_s();
    enum pz_status status = of_baseline(m->t, pz_baseline_at(k), &s->objective_run[i], by, &w, err);
    if (status != PZ_OK) return status;
    if (json_array_append_new(m->ways[i], way_json(s, &w)) != 0) return no_memory(err);
    json_object_set_new(m->seconds[i], w.name, json_real(pz_clock_s() - since));
    pz_progress_add(m->t->progress, 1);
  }
  w = of_search(s, &s->objective_run[i]);
  bool added = json_array_append_new(m->ways[i], way_json(s, &w)) == 0;
  /* asked here: another thread writes the document */
  return added && !pz_alloc_json_failed() ? PZ_OK : no_memory(err);
}

/* Models alone beside each other, then the one chip for all on all threads. */
static enum pz_status run_runs(struct made *m, struct pz_error *err) {
  const struct pz_compared_task *t = m->t;
  uint32_t last = t->study->n_runs - 1;
  uint64_t ways = 0;
  while (pz_baseline_at(ways)) ways++;
  pz_progress_next(t->progress, "comparison", "baselines", ways * t->study->n_runs);
  enum pz_status status = pz_search_each(t->study->search, last, make_objective_run, m, err);
  if (status == PZ_OK) status = make_objective_run(m, last, NULL, err);
  pz_progress_finish(t->progress, NULL);
  return status;
}

static enum pz_status make_objective_runs(const struct pz_compared_task *t, json_t *objective_runs,
                                          json_t *timing, struct pz_error *err) {
  struct made m = {.t = t};
  for (uint32_t i = 0; i < t->study->n_runs; i++) {
    const char *name = pz_study_run_name(t->study, i);
    m.ways[i] = json_array();
    m.seconds[i] = json_object();
    json_object_set_new(timing, name, m.seconds[i]);
    if (json_array_append_new(objective_runs,
                              json_pack("{s:s,s:o}", "name", name, "ways", m.ways[i])))
      return no_memory(err);
  }
  return run_runs(&m, err);
}

enum pz_status pz_compared_make(const struct pz_compared_task *t, json_t **out, json_t **timing,
                                struct pz_error *err) {
  json_t *objective_runs = json_array(), *took = json_object();
  enum pz_status status =
      objective_runs && took ? make_objective_runs(t, objective_runs, took, err) : no_memory(err);
  json_t *made = status == PZ_OK ? json_pack("{s:I,s:O}", "seed", (json_int_t)t->seed,
                                             "objective_runs", objective_runs)
                                 : NULL;
  if (status == PZ_OK && !made) status = no_memory(err);
  json_decref(objective_runs);
  if (status != PZ_OK) {
    json_decref(took);
    return status;
  }
  *out = made;
  *timing = took;
  return PZ_OK;
}

uint64_t pz_compared_seed(const json_t *comparison) {
  return (uint64_t)json_integer_value(json_object_get(comparison, "seed"));
}

static bool way_fits(const json_t *way, const char *name, uint32_t n_models) {
  const json_t *chip = pz_result_at(way, "chip"), *models = pz_result_at(way, "models");
  bool good = strcmp(pz_result_text(way, "name"), name) == 0 &&
              (json_is_string(chip) || json_is_null(chip)) && json_array_size(models) == n_models;
  for (size_t i = 0; i < json_array_size(models) && good; i++)
    good = pz_result_at(json_array_get(models, i), "ratio_to_reference") != NULL;
  return good;
}

enum pz_status pz_compared_check(const struct pz_study *s, const json_t *comparison,
                                 struct pz_error *err) {
  const json_t *objective_runs = pz_result_at(comparison, "objective_runs");
  bool good = json_array_size(objective_runs) == s->n_runs;
  for (uint32_t i = 0; i < s->n_runs && good; i++) {
    const json_t *c = json_array_get(objective_runs, i), *ways = pz_result_at(c, "ways");
    uint32_t n_models = i + 1 < s->n_runs ? 1 : s->portfolio.n_models;
    size_t n = 0;
    good = strcmp(pz_result_text(c, "name"), pz_study_run_name(s, i)) == 0;
    for (; pz_baseline_at(n) && good; n++)
      good = way_fits(json_array_get(ways, n), pz_baseline_at(n)->name, n_models);
    good = good && json_array_size(ways) == n + 1 &&
           way_fits(json_array_get(ways, n), "search", n_models);
  }
  return good ? PZ_OK
              : pz_fail(err, PZ_BAD_INPUT, "the comparison is not of this run; see phaze verify");
}

json_t *pz_compared_json(const struct pz_study *s, const json_t *comparison) {
  return json_pack("{s:O,s:O,s:{s:s,s:s},s:o,s:o}", "objective_runs",
                   json_object_get(comparison, "objective_runs"), "seed",
                   json_object_get(comparison, "seed"), "objective", "name",
                   pz_objective_names[s->o.objective], "meaning", pz_objective_unit(s->o.objective),
                   "original_reports", pz_original_reported_json(), "inputs", pz_study_inputs(s));
}

/* ---- text ----------------------------------------------------------------------------------- */

/* The chip; "-" where the way has no answer. */
static void put_chip(struct pz_table *t, const json_t *way) {
  bool any = json_is_string(pz_result_at(way, "chip"));
  pz_table_cell(t, "%s", any ? pz_result_text(way, "chip") : "-");
  if (any) {
    pz_table_cell(t, "%.0f", pz_result_number(way, "hbm_gib"));
    pz_table_cell(t, "%.1f", pz_result_number(way, "area_mm2"));
  } else {
    pz_table_cell(t, "-");
    pz_table_cell(t, "-");
  }
}

/* How much it looked at and how long that took; "-" for what a run had kept. */
static void put_effort(struct pz_table *t, const json_t *result, const json_t *objective_run,
                       const json_t *way) {
  const json_t *all =
      pz_result_at(pz_result_at(result, "timing"), pz_result_text(objective_run, "name"));
  const json_t *seconds = pz_result_at(all, pz_result_text(way, "name"));
  pz_table_cell(t, "%.0f", pz_result_number(way, "evaluated"));
  if (seconds)
    pz_table_cell(t, "%.2f", json_number_value(seconds));
  else
    pz_table_cell(t, "-");
}

/* One model by itself. */
static enum pz_status print_objective_run(const json_t *result, const json_t *objective_run,
                                          struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"method",       "chip",       ">hbm GiB",
                                      ">mm2",         ">samples/s", ">reference",
                                      ">chips tried", ">seconds",   NULL};
  struct pz_table t;
  char buf[32];
  size_t i;
  json_t *w;
  fprintf(out, "%s\n", pz_result_text(objective_run, "name"));
  pz_table_init(&t, arena, heads);
  json_array_foreach((json_t *)(uintptr_t)pz_result_at(objective_run, "ways"), i, w) {
    const json_t *m = json_array_get(pz_result_at(w, "models"), 0);
    pz_table_cell(&t, "%s", pz_result_text(w, "name"));
    put_chip(&t, w);
    pz_table_cell(&t, "%s",
                  pz_text_number(buf, sizeof buf, pz_result_number(m, "throughput_samples_s")));
    pz_result_ratio(&t, m);
    put_effort(&t, result, objective_run, w);
  }
  enum pz_status status = pz_table_print(&t, 0, out);
  fputc('\n', out);
  return status;
}

static void put_median(struct pz_table *t, const json_t *way) {
  const json_t *ratios = pz_result_at(way, "ratios");
  if (json_is_object(ratios))
    pz_table_cell(t, "%.2fx", pz_result_number(ratios, "median"));
  else
    pz_table_cell(t, "-");
}

/* A mean may rest on one model: what is beside it for the searched chip, the last way. */
static void print_range(const json_t *way, FILE *out) {
  const json_t *ratios = pz_result_at(way, "ratios");
  if (!json_is_object(ratios)) return;
  fprintf(out, "\nThe searched chip: %.4g times the reference (",
          pz_result_number(ratios, "geometric_mean"));
  pz_ratios_print(ratios, out);
  fprintf(out, ").\n");
}

/* One chip for all: a column for each model, as far as there is room. */
static enum pz_status print_common(const json_t *result, const json_t *objective_run,
                                   struct pz_arena *arena, FILE *out) {
  enum { BEFORE = 4, AFTER = 4 };
  const char *heads[PZ_TABLE_MOST_COLUMNS + 1] = {"method", "chip", ">hbm GiB", ">mm2"};
  const json_t *ways = pz_result_at(objective_run, "ways"),
               *models = pz_result_at(json_array_get(ways, 0), "models");
  size_t most = PZ_TABLE_MOST_COLUMNS - 1 - BEFORE - AFTER, n = json_array_size(models);
  struct pz_table t;
  if (n > most) n = most;
  for (size_t k = 0; k < n; k++) {
    heads[BEFORE + k] =
        pz_arena_printf(arena, ">%s", pz_result_text(json_array_get(models, k), "model"));
    if (!heads[BEFORE + k]) return PZ_NO_MEMORY;
  }
  heads[BEFORE + n] = ">objective";
  heads[BEFORE + n + 1] = ">median";
  heads[BEFORE + n + 2] = ">chips tried";
  heads[BEFORE + n + 3] = ">seconds";
  fprintf(out, "One chip for all models: throughput over the reference; objective: %s\n",
          pz_result_text(pz_result_at(result, "objective"), "meaning"));
  pz_table_init(&t, arena, heads);
  for (size_t i = 0; i < json_array_size(ways); i++) {
    const json_t *w = json_array_get(ways, i);
    pz_table_cell(&t, "%s", pz_result_text(w, "name"));
    put_chip(&t, w);
    for (size_t k = 0; k < n; k++)
      pz_result_ratio(&t, json_array_get(pz_result_at(w, "models"), k));
    pz_table_cell(&t, "%.4g", pz_result_number(w, "objective"));
    put_median(&t, w);
    put_effort(&t, result, objective_run, w);
  }
  enum pz_status status = pz_table_print(&t, 0, out);
  print_range(json_array_get(ways, json_array_size(ways) - 1), out);
  return status;
}

/* What the original system's authors report, and what ours is. */
static void print_original(const json_t *objective_run, FILE *out) {
  const json_t *ways = pz_result_at(objective_run, "ways"),
               *w = json_array_get(ways, json_array_size(ways) - 1);
  fputc('\n', out);
  pz_original_reported_print(out);
  fprintf(
      out,
      "Here: %.4g times, %.1f%% of the area, %.0f vector cores of %.0f lanes, %.0f tensor cores "
      "of %.0fx%.0f, %.0f GiB.\n--original-assumptions shows why they differ.\n",
      pz_result_number(w, "objective"), 100 * pz_result_number(w, "area_part"),
      pz_result_number(w, "vector_cores"), pz_result_number(w, "lanes"),
      pz_result_number(w, "tensor_cores"), pz_result_number(w, "rows"), pz_result_number(w, "cols"),
      pz_result_number(w, "hbm_gib"));
}

/* Rows called expert that are not. */
static void print_no_experts(const json_t *objective_runs, FILE *out) {
  for (size_t i = 0; i < json_array_size(objective_runs); i++) {
    const json_t *ways = pz_result_at(json_array_get(objective_runs, i), "ways");
    const json_t *first = json_array_get(ways, 0), *models = pz_result_at(first, "models");
    const json_t *m = json_array_get(models, 0);
    if (json_array_size(models) == 1 && !json_is_true(pz_result_at(m, "expert_plan")))
      fprintf(out, "%s: no expert plan is known or fits; its expert rows have the best plan.\n",
              pz_result_text(m, "model"));
  }
}

enum pz_status pz_compared_print(const json_t *result, struct pz_arena *arena, FILE *out) {
  const json_t *objective_runs = pz_result_at(result, "objective_runs");
  size_t n = json_array_size(objective_runs);
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < n && status == PZ_OK; i++) {
    const json_t *c = json_array_get(objective_runs, i);
    bool common = n > 1 && i + 1 == n;
    status =
        common ? print_common(result, c, arena, out) : print_objective_run(result, c, arena, out);
  }
  if (status == PZ_OK) print_no_experts(objective_runs, out);
  bool plain = strcmp(pz_result_text(pz_result_at(result, "objective"), "name"), "throughput") == 0;
  if (status == PZ_OK && n > 1 && plain) print_original(json_array_get(objective_runs, n - 1), out);
  return status;
}
