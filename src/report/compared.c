#include "report/compared.h"

#include <math.h>
#include <string.h>

#include "chip/tech.h"
#include "core/text.h"
#include "report/table.h"

void pz_compared_search(const struct pz_study *s, uint32_t contest, struct pz_compared *out) {
  const struct pz_contest *c = &s->contest[contest];
  out->name = "search";
  out->about = "every chip of the space, evaluated or excluded by a bound";
  out->contest = contest;
  out->value = c->value;
  out->answer = (struct pz_baseline_answer){.hbm_gib = c->hbm_gib, .n_evaluated = c->n_looked};
  pz_study_chip(s, c, &out->answer.chip);
  for (uint32_t i = 0; i < c->objective.n; i++) {
    uint32_t m = c->objective.models[i];
    const struct pz_evaluation *e = pz_search_evaluation(s->search, c->best, m);
    if (e) out->answer.samples_per_s[m] = (double)s->o.batch / e->time_s;
  }
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *models_json(const struct pz_study *s, const struct pz_compared *c) {
  json_t *list = json_array();
  const struct pz_objective *o = &s->contest[c->contest].objective;
  for (uint32_t i = 0; i < o->n; i++) {
    uint32_t m = o->models[i];
    double rate = c->answer.samples_per_s[m], ref = s->reference[m].samples_per_s;
    json_array_append_new(list, json_pack("{s:s,s:f,s:o}", "model", s->portfolio.models[m],
                                          "throughput_samples_s", rate, "ratio_to_reference",
                                          ref > 0 ? json_real(rate / ref) : json_null()));
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
  return json_pack("{s:o,s:{s:s,s:s},s:o,s:o}", "contests", contests, "objective", "name",
                   pz_objective_names[s->o.objective], "meaning", pz_objective_unit(s->o.objective),
                   "inputs", pz_study_inputs(s), "timing", timing);
}

/* ---- text ----------------------------------------------------------------------------------- */

static double num(const json_t *o, const char *key) {
  return json_number_value(json_object_get(o, key));
}

static const char *str(const json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return s ? s : "";
}

static const json_t *at(const json_t *o, const char *key) { return json_object_get(o, key); }

static void ratio_cell(struct pz_table *t, const json_t *m) {
  const json_t *ratio = at(m, "ratio_to_reference");
  if (!(num(m, "throughput_samples_s") > 0))
    pz_table_cell(t, "%s", "no fit");
  else if (json_is_number(ratio))
    pz_table_cell(t, "%.2fx", json_number_value(ratio));
  else
    pz_table_cell(t, "%s", "-");
}

static double seconds_of(const json_t *result, const json_t *contest, const json_t *way) {
  return num(at(at(result, "timing"), str(contest, "name")), str(way, "name"));
}

/* One model by itself. */
static enum pz_status print_contest(const json_t *result, const json_t *contest,
                                    struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"way",        "chip",       ">hbm GiB", ">mm2", ">samples/s",
                                      ">reference", ">evaluated", ">seconds", NULL};
  struct pz_table t;
  char buf[32];
  size_t i;
  json_t *w;
  fprintf(out, "%s\n", str(contest, "name"));
  pz_table_init(&t, arena, heads);
  json_array_foreach((json_t *)(uintptr_t)at(contest, "ways"), i, w) {
    const json_t *m = json_array_get(at(w, "models"), 0);
    pz_table_cell(&t, "%s", str(w, "name"));
    pz_table_cell(&t, "%s", str(w, "chip"));
    pz_table_cell(&t, "%.0f", num(w, "hbm_gib"));
    pz_table_cell(&t, "%.1f", num(w, "area_mm2"));
    pz_table_cell(&t, "%s", pz_text_number(buf, sizeof buf, num(m, "throughput_samples_s")));
    ratio_cell(&t, m);
    pz_table_cell(&t, "%.0f", num(w, "evaluated"));
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
  const json_t *ways = at(contest, "ways"), *models = at(json_array_get(ways, 0), "models");
  size_t most = PZ_TABLE_MOST_COLUMNS - 1 - BEFORE - AFTER, n = json_array_size(models);
  struct pz_table t;
  if (n > most) n = most;
  for (size_t k = 0; k < n; k++) {
    heads[BEFORE + k] = pz_arena_printf(arena, ">%s", str(json_array_get(models, k), "model"));
    if (!heads[BEFORE + k]) return PZ_NO_MEMORY;
  }
  heads[BEFORE + n] = ">objective";
  heads[BEFORE + n + 1] = ">evaluated";
  heads[BEFORE + n + 2] = ">seconds";
  fprintf(out, "One chip for all: throughput over the reference, and %s\n",
          str(at(result, "objective"), "meaning"));
  pz_table_init(&t, arena, heads);
  for (size_t i = 0; i < json_array_size(ways); i++) {
    const json_t *w = json_array_get(ways, i);
    pz_table_cell(&t, "%s", str(w, "name"));
    pz_table_cell(&t, "%s", str(w, "chip"));
    pz_table_cell(&t, "%.0f", num(w, "hbm_gib"));
    pz_table_cell(&t, "%.1f", num(w, "area_mm2"));
    for (size_t k = 0; k < n; k++) ratio_cell(&t, json_array_get(at(w, "models"), k));
    pz_table_cell(&t, "%.4g", num(w, "objective"));
    pz_table_cell(&t, "%.0f", num(w, "evaluated"));
    pz_table_cell(&t, "%.2f", seconds_of(result, contest, w));
  }
  return pz_table_print(&t, 0, out);
}

/* What the original system's authors report, and what ours is. */
static void print_original(const json_t *contest, FILE *out) {
  const json_t *ways = at(contest, "ways"), *w = json_array_get(ways, json_array_size(ways) - 1);
  fprintf(
      out,
      "\nThe original reports for its common chip: 2.9 times tpuv4-expert on average, over 91%% "
      "of the area, many vector cores,\nlarge tensor cores, HBM of at most 64 GB (with "
      "communication a thousand times too cheap).  Here: %.4g times,\n%.1f%% of the area, "
      "%.0f vector cores of %.0f lanes, %.0f tensor cores of %.0fx%.0f, %.0f GiB.\n",
      num(w, "objective"), 100 * num(w, "area_part"), num(w, "vector_cores"), num(w, "lanes"),
      num(w, "tensor_cores"), num(w, "rows"), num(w, "cols"), num(w, "hbm_gib"));
}

enum pz_status pz_compared_print(const json_t *result, struct pz_arena *arena, FILE *out) {
  const json_t *contests = at(result, "contests");
  size_t n = json_array_size(contests);
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < n && status == PZ_OK; i++) {
    const json_t *c = json_array_get(contests, i);
    bool common = n > 1 && i + 1 == n;
    status = common ? print_common(result, c, arena, out) : print_contest(result, c, arena, out);
  }
  bool plain = strcmp(str(at(result, "objective"), "name"), "throughput") == 0;
  if (status == PZ_OK && n > 1 && plain) print_original(json_array_get(contests, n - 1), out);
  return status;
}
