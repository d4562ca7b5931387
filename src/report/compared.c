#include "report/compared.h"

#include <math.h>
#include <string.h>

#include "chip/tech.h"
#include "core/text.h"
#include "report/result.h"

void pz_compared_search(const struct pz_study *s, uint32_t contest, struct pz_compared *out) {
  const struct pz_contest *c = &s->contest[contest];
  *out = (struct pz_compared){.name = "search",
                              .about = "every chip of the space, evaluated or excluded by a bound",
                              .contest = contest,
                              .value = c->value};
  out->answer = (struct pz_baseline_answer){.hbm_gib = c->hbm_gib, .n_evaluated = c->n_looked};
  pz_study_chip(s, c, &out->answer.chip);
  for (uint32_t i = 0; i < c->objective.n; i++) {
    uint32_t m = c->objective.models[i];
    const struct pz_evaluation *e = pz_search_evaluation(s->search, c->best, m);
    if (e) out->answer.samples_per_s[m] = (double)s->o.batch / e->time_s;
  }
}

double pz_compared_area_um2(const struct pz_compared *c) {
  struct pz_area area = pz_chip_area(&c->answer.chip);
  return pz_area_total_um2(&area);
}

enum pz_status pz_compared_baseline(const struct pz_compared_task *t, struct pz_compared *out,
                                    struct pz_error *err) {
  const struct pz_study *s = t->study;
  const struct pz_contest *contest = &s->contest[t->contest];
  struct pz_compared c = {
      .name = t->baseline->name, .about = t->baseline->about, .contest = t->contest};
  struct pz_baseline_question q = {.search = s->search,
                                   .task = &s->task,
                                   .points = s->points,
                                   .n_points = s->n_points,
                                   .objective = &contest->objective,
                                   .evaluations = contest->n_looked,
                                   .seed = t->seed,
                                   .stop = t->stop};
  enum pz_status status = t->baseline->run(&q, &c.answer, err);
  if (status != PZ_OK) return status;
  c.value = pz_objective_value(q.objective, c.answer.samples_per_s, pz_compared_area_um2(&c),
                               pz_chip_peak_watts(&c.answer.chip));
  *out = c;
  return PZ_OK;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *models_json(const struct pz_study *s, const struct pz_compared *c) {
  json_t *list = json_array();
  const struct pz_objective *o = &s->contest[c->contest].objective;
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t m = o->models[i];
    double rate = c->answer.samples_per_s[m], ref = s->reference[m].samples_per_s;
    json_array_append_new(list, json_pack("{s:s,s:f,s:o,s:b}", "model", s->portfolio.models[m],
                                          "throughput_samples_s", rate, "ratio_to_reference",
                                          ref > 0 ? json_real(rate / ref) : json_null(),
                                          "expert_plan", c->answer.expert[m]));
  }
  return list;
}

static json_t *row_json(const struct pz_study *s, const struct pz_compared *c) {
  const struct pz_chip *chip = &c->answer.chip;
  struct pz_area area = pz_chip_area(chip);
  return json_pack(
      "{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:o,s:I}", "chip", chip->name, "tensor_cores",
      (json_int_t)chip->tensor.cores, "rows", (json_int_t)chip->tensor.rows, "cols",
      (json_int_t)chip->tensor.cols, "vector_cores", (json_int_t)chip->vector.cores, "lanes",
      (json_int_t)chip->vector.lanes, "glb_bytes", (json_int_t)chip->glb_bytes, "hbm_gib",
      c->answer.hbm_gib, "area_mm2", pz_area_total_um2(&area) / 1e6, "area_part",
      pz_area_total_um2(&area) / s->space.budget_um2, "objective", c->value, "models",
      models_json(s, c), "evaluated", (json_int_t)c->answer.n_evaluated);
}

/* What the original system's authors say of their common chip. */
static const double ORIGINAL_RATIO = 2.9, ORIGINAL_AREA_PART = 0.91, ORIGINAL_HBM_GB = 64;

static json_t *original_json(void) {
  return json_pack("{s:f,s:f,s:f,s:s}", "ratio_to_reference", ORIGINAL_RATIO, "area_part_over",
                   ORIGINAL_AREA_PART, "hbm_gb_at_most", ORIGINAL_HBM_GB, "cores",
                   "many vector cores, large tensor cores");
}

/* Contest by contest, way by way. */
json_t *pz_compared_json(const struct pz_study *s, const struct pz_compared *list, uint32_t n) {
  json_t *contests = json_array(), *timing = json_object();
  for (uint32_t k = 0; k < s->n_contests; k++) {
    json_t *ways = json_array(), *seconds = json_object();
    for (uint32_t i = 0; i < n; i++) {
      if (list[i].contest != k) continue;
      json_t *row = row_json(s, &list[i]);
      json_object_set_new(row, "name", json_string(list[i].name));
      json_object_set_new(row, "about", json_string(list[i].about));
      json_array_append_new(ways, row);
      json_object_set_new(seconds, list[i].name, json_real(list[i].seconds));
    }
    const char *name = pz_study_contest_name(s, k);
    json_array_append_new(contests, json_pack("{s:s,s:o}", "name", name, "ways", ways));
    json_object_set_new(timing, name, seconds);
  }
  return json_pack("{s:o,s:{s:s,s:s},s:o,s:o,s:o}", "contests", contests, "objective", "name",
                   pz_objective_names[s->o.objective], "meaning", pz_objective_unit(s->o.objective),
                   "original_reports", original_json(), "inputs", pz_study_inputs(s), "timing",
                   timing);
}

/* ---- text ----------------------------------------------------------------------------------- */

static double seconds_of(const json_t *result, const json_t *contest, const json_t *way) {
  return pz_result_number(
      pz_result_at(pz_result_at(result, "timing"), pz_result_text(contest, "name")),
      pz_result_text(way, "name"));
}

/* One model by itself. */
static enum pz_status print_contest(const json_t *result, const json_t *contest,
                                    struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"way",        "chip",       ">hbm GiB", ">mm2", ">samples/s",
                                      ">reference", ">looked at", ">seconds", NULL};
  struct pz_table t;
  char buf[32];
  size_t i;
  json_t *w;
  fprintf(out, "%s\n", pz_result_text(contest, "name"));
  pz_table_init(&t, arena, heads);
  json_array_foreach((json_t *)(uintptr_t)pz_result_at(contest, "ways"), i, w) {
    const json_t *m = json_array_get(pz_result_at(w, "models"), 0);
    pz_table_cell(&t, "%s", pz_result_text(w, "name"));
    pz_table_cell(&t, "%s", pz_result_text(w, "chip"));
    pz_table_cell(&t, "%.0f", pz_result_number(w, "hbm_gib"));
    pz_table_cell(&t, "%.1f", pz_result_number(w, "area_mm2"));
    pz_table_cell(&t, "%s",
                  pz_text_number(buf, sizeof buf, pz_result_number(m, "throughput_samples_s")));
    pz_result_ratio(&t, m);
    pz_table_cell(&t, "%.0f", pz_result_number(w, "evaluated"));
    pz_table_cell(&t, "%.2f", seconds_of(result, contest, w));
  }
  enum pz_status status = pz_table_print(&t, 0, out);
  fputc('\n', out);
  return status;
}

/* One chip for all: a column for each model, as far as there is room. */
static enum pz_status print_common(const json_t *result, const json_t *contest,
                                   struct pz_arena *arena, FILE *out) {
  enum { BEFORE = 4, AFTER = 3 };
  const char *heads[PZ_TABLE_MOST_COLUMNS + 1] = {"way", "chip", ">hbm GiB", ">mm2"};
  const json_t *ways = pz_result_at(contest, "ways"),
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
  heads[BEFORE + n + 1] = ">looked at";
  heads[BEFORE + n + 2] = ">seconds";
  fprintf(out, "One chip for all: throughput over the reference, and %s\n",
          pz_result_text(pz_result_at(result, "objective"), "meaning"));
  pz_table_init(&t, arena, heads);
  for (size_t i = 0; i < json_array_size(ways); i++) {
    const json_t *w = json_array_get(ways, i);
    pz_table_cell(&t, "%s", pz_result_text(w, "name"));
    pz_table_cell(&t, "%s", pz_result_text(w, "chip"));
    pz_table_cell(&t, "%.0f", pz_result_number(w, "hbm_gib"));
    pz_table_cell(&t, "%.1f", pz_result_number(w, "area_mm2"));
    for (size_t k = 0; k < n; k++)
      pz_result_ratio(&t, json_array_get(pz_result_at(w, "models"), k));
    pz_table_cell(&t, "%.4g", pz_result_number(w, "objective"));
    pz_table_cell(&t, "%.0f", pz_result_number(w, "evaluated"));
    pz_table_cell(&t, "%.2f", seconds_of(result, contest, w));
  }
  return pz_table_print(&t, 0, out);
}

/* What the original system's authors report, and what ours is. */
static void print_original(const json_t *contest, FILE *out) {
  const json_t *ways = pz_result_at(contest, "ways"),
               *w = json_array_get(ways, json_array_size(ways) - 1);
  fprintf(
      out,
      "\nThe original reports for its common chip: %.1f times tpuv4-expert on average, over %.0f%% "
      "of the area, many vector cores,\nlarge tensor cores, HBM of at most %.0f GB (with "
      "communication a thousand times too cheap).  Here: %.4g times,\n%.1f%% of the area, "
      "%.0f vector cores of %.0f lanes, %.0f tensor cores of %.0fx%.0f, %.0f GiB.\n",
      ORIGINAL_RATIO, 100 * ORIGINAL_AREA_PART, ORIGINAL_HBM_GB, pz_result_number(w, "objective"),
      100 * pz_result_number(w, "area_part"), pz_result_number(w, "vector_cores"),
      pz_result_number(w, "lanes"), pz_result_number(w, "tensor_cores"),
      pz_result_number(w, "rows"), pz_result_number(w, "cols"), pz_result_number(w, "hbm_gib"));
}

/* Rows called expert that are not. */
static void print_no_experts(const json_t *contests, FILE *out) {
  for (size_t i = 0; i < json_array_size(contests); i++) {
    const json_t *ways = pz_result_at(json_array_get(contests, i), "ways");
    const json_t *first = json_array_get(ways, 0), *models = pz_result_at(first, "models");
    const json_t *m = json_array_get(models, 0);
    if (json_array_size(models) == 1 && !json_is_true(pz_result_at(m, "expert_plan")))
      fprintf(out,
              "%s: no expert plan is known or fits; its rows called expert have the best one.\n",
              pz_result_text(m, "model"));
  }
}

enum pz_status pz_compared_print(const json_t *result, struct pz_arena *arena, FILE *out) {
  const json_t *contests = pz_result_at(result, "contests");
  size_t n = json_array_size(contests);
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < n && status == PZ_OK; i++) {
    const json_t *c = json_array_get(contests, i);
    bool common = n > 1 && i + 1 == n;
    status = common ? print_common(result, c, arena, out) : print_contest(result, c, arena, out);
  }
  if (status == PZ_OK) print_no_experts(contests, out);
  bool plain = strcmp(pz_result_text(pz_result_at(result, "objective"), "name"), "throughput") == 0;
  if (status == PZ_OK && n > 1 && plain) print_original(json_array_get(contests, n - 1), out);
  return status;
}
