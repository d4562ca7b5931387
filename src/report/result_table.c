#include "report/result_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "chip/bill.h"
#include "core/text.h"
#include "report/plan_table.h"
#include "report/ratios.h"
#include "report/result.h"

/* ---- JSON ----------------------------------------------------------------------------------- */

struct writer {
  struct pz_study *s;
  struct pz_arena arena;
  struct pz_error *err;
};

static json_t *certificate_json(const struct pz_study *s, const struct pz_objective_run *c) {
  return json_pack("{s:I,s:I,s:I,s:I,s:I,s:f}", "chips", (json_int_t)s->n_points, "evaluated",
                   (json_int_t)c->n_evaluated, "excluded", (json_int_t)c->n_excluded,
                   "excluded_by_schedules", (json_int_t)(c->n_looked - c->n_evaluated),
                   "open_schedules", (json_int_t)c->n_open, "gap", c->bound / c->value - 1);
}

/* What the model does on a objective run's best chip, with its plan. */
static enum pz_status model_json(struct writer *w, const struct pz_objective_run *c,
                                 const struct pz_chip *chip, uint32_t model, json_t **out) {
  struct pz_study *s = w->s;
  const struct pz_reference *ref = &s->reference[model];
  struct pz_evaluator *e = pz_search_evaluator(s->search);
  struct pz_evaluation v;
  struct pz_place_model made;
  struct pz_plan plan;
  const struct pz_evaluation *most = pz_search_evaluation(s->search, c->best, model);
  if (!most) return pz_fail(w->err, PZ_INTERNAL, "the best chip was not evaluated");
  enum pz_status status =
      pz_evaluate(e, &s->points[c->best], model, c->hbm_gib, most->effort, &v, w->err);
  if (status == PZ_OK)
    status = pz_evaluation_plan(e, chip, c->hbm_gib, &v, &w->arena, &made, &plan, w->err);
  if (status != PZ_OK) return status;
  struct pz_planned p = {&made, &plan, v.plan.recompute, s->o.batch,
                         pz_chip_tensor_flop_per_s(chip)};
  double rate = (double)s->o.batch / v.time_s;
  bool compared = ref->samples_per_s > 0;
  *out = json_pack("{s:s,s:f,s:o,s:o}", "model", s->portfolio.models[model], "throughput_samples_s",
                   rate, "ratio_to_reference",
                   compared ? json_real(rate / ref->samples_per_s) : json_null(), "plan",
                   pz_planned_json(&p, true));
  return PZ_OK;
}

static void add_chip(const struct pz_study *s, const struct pz_chip *chip, json_t *o) {
  struct pz_area area = pz_chip_area(chip);
  double um2 = pz_area_total_um2(&area);
  json_object_set_new(o, "chip", pz_chip_json(chip));
  json_object_set_new(o, "hbm_gib", json_real((double)pz_chip_hbm_bytes(chip) / 0x1p30));
  json_object_set_new(o, "area_mm2", json_real(um2 / 1e6));
  json_object_set_new(o, "area_part", json_real(um2 / s->space.budget_um2));
  json_object_set_new(o, "peak_watts", json_real(pz_chip_peak_watts(chip)));
}

/* The objective again from the throughputs told: what was found earlier may have been kept wrongly.
 */
static enum pz_status check_value(const struct writer *w, const struct pz_objective_run *c,
                                  const struct pz_chip *chip, const json_t *models) {
  double rates[PZ_SEARCH_MOST_MODELS] = {0};
  struct pz_area area = pz_chip_area(chip);
  for (uint32_t k = 0; k < c->objective.n; k++)
    rates[c->objective.models[k]] =
        json_number_value(json_object_get(json_array_get(models, k), "throughput_samples_s"));
  double value =
      pz_objective_value(&c->objective, rates, pz_area_total_um2(&area), pz_chip_peak_watts(chip));
  if (fabs(value - c->value) <= 1e-12 * fabs(c->value)) return PZ_OK;
  return pz_fail(
      w->err, PZ_BAD_INPUT,
      "chip %s has an objective of %.9g by its plans, and %.9g by the saved evaluations; accepted: "
      "--fresh",
      chip->name, value, c->value);
}

static enum pz_status objective_run_json(struct writer *w, uint32_t i, json_t *o) {
  const struct pz_objective_run *c = &w->s->objective_run[i];
  struct pz_chip chip;
  json_t *models = json_array();
  pz_study_chip(w->s, c, &chip);
  add_chip(w->s, &chip, o);
  json_object_set_new(o, "objective", json_real(c->value));
  json_object_set_new(o, "models", models);
  for (uint32_t k = 0; k < c->objective.n; k++) {
    json_t *m = NULL;
    enum pz_status status = model_json(w, c, &chip, c->objective.models[k], &m);
    if (status != PZ_OK) return status;
    json_array_append_new(models, m);
  }
  json_object_set_new(o, "ratios", pz_ratios_json(models));
  return check_value(w, c, &chip, models);
}

static json_t *references_json(const struct pz_study *s) {
  json_t *list = json_array();
  for (uint32_t m = 0; m < s->portfolio.n_models; m++) {
    const struct pz_reference *r = &s->reference[m];
    json_t *o =
        json_pack("{s:s,s:f,s:f,s:b}", "model", s->portfolio.models[m], "throughput_samples_s",
                  r->samples_per_s, "hbm_gib", r->hbm_gib, "expert", r->expert);
    if (r->expert)
      json_object_set_new(o, "plan",
                          json_pack("{s:I,s:I,s:I,s:I,s:b}", "n_stages", (json_int_t)r->plan.stages,
                                    "data_parallel", (json_int_t)r->plan.d, "tensor_parallel",
                                    (json_int_t)r->plan.t, "microbatch", (json_int_t)r->plan.mbs,
                                    "recompute", r->plan.recompute));
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *steps_json(const struct pz_study *s, const struct pz_searched_extra *x) {
  json_t *list = json_array();
  double base = s->objective_run[s->n_runs - 1].value;
  for (uint32_t i = 0; i < x->n_steps; i++) {
    const struct pz_step *t = &x->steps[i];
    json_array_append_new(list, json_pack("{s:s,s:I,s:I,s:f,s:f,s:f,s:f,s:b,s:b}", "parameter",
                                          t->what, "from", (json_int_t)t->from, "to",
                                          (json_int_t)t->to, "objective", t->value, "change",
                                          t->value / base - 1, "change_at_most",
                                          t->bound / base - 1, "area_mm2", t->area_um2 / 1e6,
                                          "within_budget", t->within, "over_budget", t->over));
  }
  return list;
}

static json_t *front_json(const struct pz_study *s, const struct pz_front *f) {
  json_t *list = json_array();
  for (uint32_t i = 0; i < f->n; i++) {
    struct pz_chip chip;
    pz_space_chip(&s->space, &s->points[f->points[i].point], &chip);
    json_array_append_new(list,
                          json_pack("{s:s,s:f,s:f,s:f,s:b}", "chip", chip.name, "objective",
                                    f->points[i].value, "area_mm2", f->points[i].area_um2 / 1e6,
                                    "peak_watts", f->points[i].watts, "knee", f->points[i].knee));
  }
  return json_pack("{s:o,s:f,s:I,s:I}", "points", list, "tolerance", s->o.pareto_tolerance,
                   "front_chips", (json_int_t)f->n_full, "evaluated", (json_int_t)f->n_evaluated);
}

static enum pz_status fill(struct writer *w, const struct pz_searched_extra *x, json_t *root) {
  struct pz_study *s = w->s;
  uint32_t common = s->n_runs - 1;
  json_t *best = json_object(), *alone = json_array();
  json_object_set_new(root, "best", best);
  json_object_set_new(root, "per_model", alone);
  enum pz_status status = objective_run_json(w, common, best);
  for (uint32_t m = 0; m < s->portfolio.n_models && status == PZ_OK; m++) {
    json_t *o = json_pack("{s:s}", "model", s->portfolio.models[m]);
    json_array_append_new(alone, o);
    status = objective_run_json(w, m, o);
    json_object_set_new(o, "certificate", certificate_json(s, &s->objective_run[m]));
  }
  json_object_set_new(root, "certificate", certificate_json(s, &s->objective_run[common]));
  json_object_set_new(root, "reference", references_json(s));
  json_object_set_new(root, "reference_chip",
                      json_pack("{s:s,s:f,s:f}", "name", PZ_REFERENCE_CHIP, "area_mm2",
                                s->reference_um2 / 1e6, "peak_watts", s->reference_watts));
  json_object_set_new(root, "sensitivity", steps_json(s, x));
  if (x->front) json_object_set_new(root, "pareto", front_json(s, x->front));
  json_object_set_new(root, "objective",
                      json_pack("{s:s,s:s}", "name", pz_objective_names[s->o.objective], "meaning",
                                pz_objective_unit(s->o.objective)));
  json_object_set_new(root, "inputs", pz_study_inputs(s));
  return status;
}

enum pz_status pz_searched_json(struct pz_study *s, const struct pz_searched_extra *x, json_t **out,
                                struct pz_error *err) {
  struct writer w = {.s = s, .err = err};
  json_t *root = json_object();
  pz_arena_init(&w.arena, NULL);
  enum pz_status status = fill(&w, x, root);
  pz_arena_release(&w.arena);
  if (status == PZ_OK)
    *out = root;
  else
    json_decref(root);
  return status;
}

/* ---- text ----------------------------------------------------------------------------------- */

static void print_chip(const json_t *best, FILE *out) {
  const json_t *chip = pz_result_at(best, "chip"), *tensor = pz_result_at(chip, "tensor"),
               *vector = pz_result_at(chip, "vector");
  char flop[32];
  double macs = pz_result_number(tensor, "cores") * pz_result_number(tensor, "rows") *
                pz_result_number(tensor, "cols");
  fprintf(out, "  tensor cores   %.0f of %.0fx%.0f, %s\n", pz_result_number(tensor, "cores"),
          pz_result_number(tensor, "rows"), pz_result_number(tensor, "cols"),
          pz_text_si(flop, sizeof flop, 2 * macs * pz_result_number(chip, "clock_hz"), "FLOP/s"));
  fprintf(out, "  vector cores   %.0f of %.0f lane%s\n", pz_result_number(vector, "cores"),
          pz_result_number(vector, "lanes"), pz_text_s(pz_result_number(vector, "lanes")));
  fprintf(out, "  global buffer  %.0f MiB\n",
          pz_result_number(pz_result_at(chip, "glb"), "bytes") / 0x1p20);
  fprintf(out, "  HBM            %.0f GiB\n", pz_result_number(best, "hbm_gib"));
  fprintf(out, "  area           %.1f mm2, %.1f%% of the budget\n",
          pz_result_number(best, "area_mm2"), 100 * pz_result_number(best, "area_part"));
  fprintf(out, "  peak           %.0f W\n\n", pz_result_number(best, "peak_watts"));
}

static void plan_cells(struct pz_table *t, const json_t *plan) {
  pz_table_cell(t, "%.0f", pz_result_number(plan, "n_stages"));
  pz_table_cell(t, "%.0f", pz_result_number(plan, "data_parallel"));
  pz_table_cell(t, "%.0f", pz_result_number(plan, "tensor_parallel"));
  pz_table_cell(t, "%.0f", pz_result_number(plan, "microbatch"));
  pz_table_cell(t, "%s", json_is_true(pz_result_at(plan, "recompute")) ? "recomputed" : "kept");
}

static enum pz_status print_models(const json_t *best, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {
      "model",       ">samples/s",  ">reference", ">stages", ">replicas", ">tensor parallel",
      ">microbatch", "activations", ">of peak",   NULL};
  struct pz_table t;
  char buf[32];
  size_t i;
  json_t *m;
  pz_table_init(&t, arena, heads);
  json_array_foreach((json_t *)(uintptr_t)pz_result_at(best, "models"), i, m) {
    pz_table_cell(&t, "%s", pz_result_text(m, "model"));
    pz_table_cell(&t, "%s",
                  pz_text_number(buf, sizeof buf, pz_result_number(m, "throughput_samples_s")));
    pz_result_ratio(&t, m);
    plan_cells(&t, pz_result_at(m, "plan"));
    pz_table_cell(&t, "%.0f%%",
                  100 * pz_result_number(pz_result_at(m, "plan"), "flop_utilisation"));
  }
  return pz_table_print(&t, 0, out);
}

/* What limits a plan: compute is the chip's, the rest the network's and the pipeline's. */
static enum pz_status print_parts(const json_t *best, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"step time",  ">seconds", ">compute",   ">collectives",
                                      ">transfers", ">bubble",  ">gradients", NULL};
  static const char *const keys[] = {"compute_s", "collectives_s", "transfers_s", "bubble_s",
                                     "exchange_s"};
  const json_t *models = pz_result_at(best, "models");
  struct pz_table t;
  fputc('\n', out);
  pz_table_init(&t, arena, heads);
  for (size_t i = 0; i < json_array_size(models); i++) {
    const json_t *m = json_array_get(models, i), *plan = pz_result_at(m, "plan");
    double step_s = pz_result_number(plan, "step_s");
    pz_table_cell(&t, "%s", pz_result_text(m, "model"));
    pz_table_cell(&t, "%.4g", step_s);
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
      pz_table_cell(&t, "%.0f%%",
                    100 * pz_result_number(pz_result_at(plan, "parts"), keys[k]) / step_s);
  }
  return pz_table_print(&t, 0, out);
}

static enum pz_status print_alone(const json_t *result, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"model",      "chip",       ">hbm GiB", ">mm2",
                                      ">samples/s", ">reference", ">common",  NULL};
  const json_t *list = pz_result_at(result, "per_model"),
               *common = pz_result_at(pz_result_at(result, "best"), "models");
  struct pz_table t;
  char buf[32];
  size_t i;
  json_t *o;
  if (json_array_size(list) < 2) return PZ_OK;
  fprintf(out, "\nThe best chip for each model alone; common: the part of that throughput on the "
               "common chip:\n");
  pz_table_init(&t, arena, heads);
  json_array_foreach((json_t *)(uintptr_t)list, i, o) {
    const json_t *m = json_array_get(pz_result_at(o, "models"), 0);
    double rate = pz_result_number(m, "throughput_samples_s");
    pz_table_cell(&t, "%s", pz_result_text(o, "model"));
    pz_table_cell(&t, "%s", pz_result_text(pz_result_at(o, "chip"), "name"));
    pz_table_cell(&t, "%.0f", pz_result_number(o, "hbm_gib"));
    pz_table_cell(&t, "%.1f", pz_result_number(o, "area_mm2"));
    pz_table_cell(&t, "%s", pz_text_number(buf, sizeof buf, rate));
    pz_result_ratio(&t, m);
    pz_table_cell(&t, "%.1f%%",
                  100 * pz_result_number(json_array_get(common, i), "throughput_samples_s") / rate);
  }
  return pz_table_print(&t, 0, out);
}

static const char *budget_text(const json_t *step) {
  if (json_is_true(pz_result_at(step, "within_budget"))) return "within";
  return json_is_true(pz_result_at(step, "over_budget")) ? "over" : "too small for the space";
}

static enum pz_status print_steps(const json_t *result, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"parameter", ">from", ">to",    ">objective",
                                      ">at most",  ">mm2",  "budget", NULL};
  struct pz_table t;
  size_t i;
  json_t *o;
  if (!json_array_size(pz_result_at(result, "sensitivity"))) return PZ_OK;
  fprintf(out, "\nSensitivity: change of the objective one step away on each axis:\n");
  pz_table_init(&t, arena, heads);
  json_array_foreach((json_t *)(uintptr_t)pz_result_at(result, "sensitivity"), i, o) {
    pz_table_cell(&t, "%s", pz_result_text(o, "parameter"));
    pz_table_cell(&t, "%.0f", pz_result_number(o, "from"));
    pz_table_cell(&t, "%.0f", pz_result_number(o, "to"));
    pz_table_cell(&t, "%+.2f%%", 100 * pz_result_number(o, "change"));
    pz_table_cell(&t, "%+.2f%%", 100 * pz_result_number(o, "change_at_most"));
    pz_table_cell(&t, "%.1f", pz_result_number(o, "area_mm2"));
    pz_table_cell(&t, "%s", budget_text(o));
  }
  return pz_table_print(&t, 0, out);
}

static void print_front_size(const json_t *front, size_t shown, FILE *out) {
  double all = pz_result_number(front, "front_chips");
  fprintf(out, "\nThe Pareto front of throughput against area and peak watts");
  if ((double)shown < all)
    fprintf(out, ", %zu of %.0f chips (each other one is within %.4g%% of one shown):\n", shown,
            all, 100 * pz_result_number(front, "tolerance"));
  else
    fprintf(out, ", %zu chip%s:\n", shown, pz_text_s((double)shown));
}

static enum pz_status print_front(const json_t *result, struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"chip", ">reference", ">mm2", ">peak W", "", NULL};
  const json_t *front = pz_result_at(result, "pareto"), *points = pz_result_at(front, "points");
  struct pz_table t;
  size_t i;
  json_t *o;
  if (!json_array_size(points)) return PZ_OK;
  print_front_size(front, json_array_size(points), out);
  pz_table_init(&t, arena, heads);
  json_array_foreach((json_t *)(uintptr_t)points, i, o) {
    pz_table_cell(&t, "%s", pz_result_text(o, "chip"));
    pz_table_cell(&t, "%.4fx", pz_result_number(o, "objective"));
    pz_table_cell(&t, "%.2f", pz_result_number(o, "area_mm2"));
    pz_table_cell(&t, "%.1f", pz_result_number(o, "peak_watts"));
    pz_table_cell(&t, "%s", json_is_true(pz_result_at(o, "knee")) ? "knee" : "");
  }
  return pz_table_print(&t, 0, out);
}

/* ---- what the reference is ------------------------------------------------------------------ */

enum referred { EXPERT_PLAN, BEST_PLAN, NO_PLAN, REFERRED };

struct references {
  const json_t *list;
  enum referred which;
  size_t n[REFERRED];
  double least_gib; /* of those with a plan */
};

static enum referred referred_of(const json_t *o) {
  if (!(pz_result_number(o, "throughput_samples_s") > 0)) return NO_PLAN;
  return json_is_true(pz_result_at(o, "expert")) ? EXPERT_PLAN : BEST_PLAN;
}

/* The models of one kind. */
static const char *referred_name(const void *ctx, size_t i) {
  const struct references *r = ctx;
  for (size_t k = 0; k < json_array_size(r->list); k++) {
    const json_t *o = json_array_get(r->list, k);
    if (referred_of(o) == r->which && i-- == 0) return pz_result_text(o, "model");
  }
  return NULL;
}

static void print_referred(struct references *r, const char *before, enum referred which,
                           const char *after, FILE *out) {
  char names[1024];
  r->which = which;
  fprintf(out, "%s%s%s", before, pz_text_join(names, sizeof names, referred_name, r), after);
}

static struct references count_references(const json_t *list) {
  struct references r = {.list = list, .least_gib = HUGE_VAL};
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *o = json_array_get(list, i);
    enum referred which = referred_of(o);
    r.n[which]++;
    if (which != NO_PLAN) r.least_gib = fmin(r.least_gib, pz_result_number(o, "hbm_gib"));
  }
  return r;
}

static void print_reference_memory(const struct references *r, FILE *out) {
  bool both = r->n[EXPERT_PLAN] && r->n[BEST_PLAN];
  if (r->least_gib < HUGE_VAL) fprintf(out, "%s %.0f GiB", both ? ", with" : " and", r->least_gib);
  for (size_t i = 0; i < json_array_size(r->list); i++) {
    const json_t *o = json_array_get(r->list, i);
    if (referred_of(o) != NO_PLAN && pz_result_number(o, "hbm_gib") > r->least_gib)
      fprintf(out, ", for %s %.0f GiB", pz_result_text(o, "model"), pz_result_number(o, "hbm_gib"));
  }
}

static void print_references(const json_t *result, FILE *out) {
  struct references r = count_references(pz_result_at(result, "reference"));
  bool both = r.n[EXPERT_PLAN] && r.n[BEST_PLAN];
  fprintf(out, "\nThe reference is " PZ_REFERENCE_CHIP);
  if (both) {
    print_referred(&r, " with the expert plan (", EXPERT_PLAN, ")", out);
    print_referred(&r, " or, where none is known or feasible, the best plan (", BEST_PLAN, ")",
                   out);
  } else if (r.n[EXPERT_PLAN] || r.n[BEST_PLAN]) {
    fprintf(out, " with the %s plan", r.n[EXPERT_PLAN] ? "expert" : "best");
  }
  print_reference_memory(&r, out);
  if (r.n[BEST_PLAN] && !both)
    print_referred(&r, " (no expert plan is known or feasible for ", BEST_PLAN, ")", out);
  if (r.n[NO_PLAN]) print_referred(&r, "; no plan is feasible for ", NO_PLAN, "", out);
  fprintf(out, ".\n");
}

static void print_proof(const json_t *result, FILE *out) {
  const json_t *c = pz_result_at(result, "certificate");
  char chips[32], evaluated[32], excluded[32];
  double n = pz_result_number(c, "chips"), tried = pz_result_number(c, "evaluated");
  fprintf(out, "%s of %s chip%s %s evaluated; bounds excluded %s, %.0f of them after scheduling.",
          pz_text_count(evaluated, sizeof evaluated, (int64_t)tried),
          pz_text_count(chips, sizeof chips, (int64_t)n), n > 1 ? "s" : "",
          tried > 1 ? "were" : "was",
          pz_text_count(excluded, sizeof excluded, (int64_t)pz_result_number(c, "excluded")),
          pz_result_number(c, "excluded_by_schedules"));
  double open = pz_result_number(c, "open_schedules");
  if (open > 0)
    fprintf(out, "  %.0f %s not proven optimal: no chip is more than %.2g%% better.\n", open,
            open > 1 ? "schedules are" : "schedule is", 100 * pz_result_number(c, "gap"));
  else
    fprintf(out, "  No chip is better.\n");
}

/* The objective, and what it hides: a mean may rest on one model. */
static void print_value(const json_t *result, FILE *out) {
  const json_t *best = pz_result_at(result, "best"), *ratios = pz_result_at(best, "ratios"),
               *objective = pz_result_at(result, "objective");
  double all = (double)json_array_size(pz_result_at(best, "models"));
  bool plain = strcmp(pz_result_text(objective, "name"), "throughput") == 0;
  bool ratio = plain || strcmp(pz_result_text(objective, "name"), "regret") == 0; /* of one model */
  if (plain && pz_result_number(ratios, "models") == all) {
    fprintf(out, "%.4g times the reference (", pz_result_number(best, "objective"));
    pz_ratios_print(ratios, out);
    fprintf(out, ")\n\n");
    return;
  }
  fprintf(out, "%.4g %s\n", pz_result_number(best, "objective"),
          ratio && all < 2 ? "times the reference" : pz_result_text(objective, "meaning"));
  if (json_is_object(ratios)) {
    fprintf(out, "Throughput: %.4g times the reference (",
            pz_result_number(ratios, "geometric_mean"));
    pz_ratios_print(ratios, out);
    fprintf(out, ")\n");
  }
  fputc('\n', out);
}

enum pz_status pz_searched_print(const json_t *result, struct pz_arena *arena, FILE *out) {
  const json_t *best = pz_result_at(result, "best");
  size_t n = json_array_size(pz_result_at(best, "models"));
  fprintf(out, "The best chip for %s%s: %s\n", n > 1 ? "all " : "",
          n > 1 ? "models"
                : pz_result_text(json_array_get(pz_result_at(best, "models"), 0), "model"),
          pz_result_text(pz_result_at(best, "chip"), "name"));
  print_value(result, out);
  print_chip(best, out);
  enum pz_status status = print_models(best, arena, out);
  if (status == PZ_OK) status = print_parts(best, arena, out);
  if (status == PZ_OK) status = print_alone(result, arena, out);
  if (status == PZ_OK) status = print_steps(result, arena, out);
  if (status == PZ_OK) status = print_front(result, arena, out);
  if (status != PZ_OK) return status;
  print_references(result, out);
  print_proof(result, out);
  return PZ_OK;
}
