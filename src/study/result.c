#include "study/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/bill.h"
#include "core/alloc.h"
#include "study/pareto.h"
#include "study/sensitivity.h"

void pz_result_init(struct pz_result *r, struct pz_arena *arena) {
  *r = (struct pz_result){.arena = arena};
}

const struct pz_result_chip *pz_result_chip(const struct pz_result *r, uint32_t id) {
  uint32_t lo = 0, hi = r->n_chips;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (r->chips[mid].id < id)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < r->n_chips && r->chips[lo].id == id ? &r->chips[lo] : NULL;
}

static enum pz_status no_memory(struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for the result");
}

/* ---- ratios --------------------------------------------------------------------------------- */

struct ratio {
  double v;
  uint32_t at; /* in the list of models */
};

static int by_size(const void *a, const void *b) {
  const struct ratio *x = a, *y = b;
  if (x->v != y->v) return x->v < y->v ? -1 : 1;
  return (x->at > y->at) - (x->at < y->at);
}

struct pz_ratios pz_ratios_of(const double *ratios, const char *const *models, uint32_t n_all) {
  struct ratio list[PZ_SEARCH_MOST_MODELS];
  uint32_t n = 0;
  double logs = 0;
  for (uint32_t i = 0; i < n_all; i++) {
    if (!(ratios[i] > 0)) continue;
    list[n++] = (struct ratio){ratios[i], i};
    logs += log(ratios[i]);
  }
  if (n < 2) return (struct pz_ratios){.n_models = n};
  qsort(list, n, sizeof *list, by_size);
  uint32_t last = n - 1, most = last;
  while (most > 0 && list[most - 1].v == list[last].v) most--;
  return (struct pz_ratios){.n_models = n,
                            .geometric_mean = exp(logs / n),
                            .median = (list[last / 2].v + list[n / 2].v) / 2,
                            .least_model = models[list[0].at],
                            .most_model = models[list[most].at],
                            .least = list[0].v,
                            .most = list[most].v};
}

/* ---- inputs --------------------------------------------------------------------------------- */

/* A text of an object, copied; "" where there is none, NULL when out of memory. */
static const char *copy_text(struct pz_arena *arena, const json_t *o, const char *key) {
  const char *text = json_string_value(json_object_get(o, key));
  return pz_arena_strdup(arena, text ? text : "");
}

static bool set_models(struct pz_result *r, const json_t *models) {
  struct pz_result_inputs *in = &r->inputs;
  bool good = true;
  for (uint32_t i = 0; i < in->options.n_models && good; i++) {
    const json_t *m = json_array_get(models, i);
    in->models[i] = (struct pz_result_input_model){in->options.models[i],
                                                   json_integer_value(json_object_get(m, "seq")),
                                                   copy_text(r->arena, m, "digest")};
    good = in->models[i].digest;
  }
  return good;
}

static enum pz_status set_space(struct pz_result *r, const json_t *space, struct pz_error *err) {
  struct pz_result_inputs *in = &r->inputs;
  char *text = pz_json_dump(json_object_get(space, "base"), JSON_COMPACT);
  struct pz_chip base;
  if (!text) return pz_fail(err, PZ_BAD_INPUT, "inputs: the space has no base chip");
  enum pz_status status = pz_chip_parse("inputs: base chip", text, strlen(text), &base, err);
  pz_free(text);
  if (status != PZ_OK) return status;
  struct pz_area area = pz_chip_area(&base);
  in->base_um2 = pz_area_total_um2(&area);
  in->budget_um2 = json_number_value(json_object_get(space, "budget_um2"));
  in->space_name = copy_text(r->arena, space, "name");
  in->space_about = copy_text(r->arena, space, "about");
  return in->space_name && in->space_about ? PZ_OK : no_memory(err);
}

static enum pz_status set_inputs(struct pz_result *r, const json_t *root, struct pz_error *err) {
  struct pz_result_inputs *in = &r->inputs;
  const json_t *cluster = json_object_get(root, "cluster");
  enum pz_status status = pz_study_from_inputs(root, r->arena, &in->options, err);
  if (status == PZ_OK) status = set_space(r, json_object_get(root, "space"), err);
  if (status != PZ_OK) return status;
  in->cluster_name = copy_text(r->arena, cluster, "name");
  in->cluster_about = copy_text(r->arena, cluster, "about");
  bool good = set_models(r, json_object_get(root, "models"));
  return good && in->cluster_name && in->cluster_about ? PZ_OK : no_memory(err);
}

enum pz_status pz_result_set_inputs(struct pz_result *r, const char *json, struct pz_error *err) {
  json_t *root = NULL;
  enum pz_status status = pz_json_parse("inputs", json, strlen(json), &root, err);
  if (status == PZ_OK) status = set_inputs(r, root, err);
  json_decref(root);
  if (status != PZ_OK) return status;
  r->inputs.json = pz_arena_strdup(r->arena, json);
  return r->inputs.json ? PZ_OK : no_memory(err);
}

/* ---- answers -------------------------------------------------------------------------------- */

/* What is being made, and of what. */
struct maker {
  struct pz_result *r;
  struct pz_study *s;
  struct pz_error *err;
};

static struct pz_certificate certificate_of(const struct pz_study *s,
                                            const struct pz_objective_run *c) {
  return (struct pz_certificate){.n_chips = s->n_points,
                                 .n_evaluated = c->n_evaluated,
                                 .n_excluded = c->n_excluded,
                                 .n_excluded_by_schedules = c->n_looked - c->n_evaluated,
                                 .n_open = c->n_open,
                                 .gap = c->bound / c->value - 1};
}

/* What the model does on an objective run's best chip, with its plan. */
static enum pz_status make_model(const struct maker *m, const struct pz_objective_run *c,
                                 const struct pz_chip *chip, uint32_t model,
                                 struct pz_answer_model *out) {
  struct pz_study *s = m->s;
  double reference = s->reference[model].samples_per_s;
  struct pz_evaluator *e = pz_search_evaluator(s->search);
  struct pz_evaluation v;
  const struct pz_evaluation *most = pz_search_evaluation(s->search, c->best, model);
  if (!most) return pz_fail(m->err, PZ_INTERNAL, "the best chip was not evaluated");
  enum pz_status status =
      pz_evaluate(e, &s->points[c->best], model, c->hbm_gib, most->effort, &v, m->err);
  if (status == PZ_OK)
    status = pz_evaluation_model_plan(e, chip, c->hbm_gib, &v, m->r->arena, &out->plan, m->err);
  if (status != PZ_OK) return status;
  out->model = m->r->inputs.models[model].name;
  out->samples_per_s = (double)s->o.batch / v.time_s;
  out->ratio = reference > 0 ? out->samples_per_s / reference : (double)NAN;
  return PZ_OK;
}

static struct pz_ratios answer_ratios(const struct pz_answer *a) {
  double ratios[PZ_SEARCH_MOST_MODELS];
  const char *models[PZ_SEARCH_MOST_MODELS];
  for (uint32_t i = 0; i < a->n_models; i++) {
    ratios[i] = a->models[i].ratio;
    models[i] = a->models[i].model;
  }
  return pz_ratios_of(ratios, models, a->n_models);
}

/* The objective again from the throughputs told: what was found earlier may have been kept wrongly.
 */
static enum pz_status check_objective(const struct maker *m, const struct pz_objective_run *c,
                                      const struct pz_answer *a) {
  double rates[PZ_SEARCH_MOST_MODELS] = {0};
  struct pz_area area = pz_chip_area(&a->chip);
  for (uint32_t k = 0; k < c->objective.n; k++)
    rates[c->objective.models[k]] = a->models[k].samples_per_s;
  double value = pz_objective_value(&c->objective, rates, pz_area_total_um2(&area), a->peak_watts);
  if (fabs(value - c->value) <= 1e-12 * fabs(c->value)) return PZ_OK;
  return pz_fail(
      m->err, PZ_BAD_INPUT,
      "chip %s has an objective of %.9g by its plans, and %.9g by the saved evaluations; accepted: "
      "--fresh",
      a->chip.name, value, c->value);
}

static enum pz_status make_answer(const struct maker *m, uint32_t i, struct pz_answer *a) {
  const struct pz_study *s = m->s;
  const struct pz_objective_run *c = &s->objective_run[i];
  pz_study_chip(s, c, &a->chip);
  struct pz_area area = pz_chip_area(&a->chip);
  a->name = pz_arena_strdup(m->r->arena, pz_study_run_name(s, i));
  a->n_models = c->objective.n;
  a->models = pz_arena_alloc(m->r->arena, a->n_models, sizeof *a->models);
  if (!a->name || !a->models) return no_memory(m->err);
  a->chip_id = s->points[c->best].id;
  a->hbm_gib = (double)pz_chip_hbm_bytes(&a->chip) / 0x1p30;
  a->area_mm2 = pz_area_total_um2(&area) / 1e6;
  a->area_part = pz_area_total_um2(&area) / s->space.budget_um2;
  a->peak_watts = pz_chip_peak_watts(&a->chip);
  a->objective = c->value;
  a->certificate = certificate_of(s, c);
  for (uint32_t k = 0; k < a->n_models; k++) {
    enum pz_status status = make_model(m, c, &a->chip, c->objective.models[k], &a->models[k]);
    if (status != PZ_OK) return status;
  }
  a->ratios = answer_ratios(a);
  return check_objective(m, c, a);
}

static enum pz_status make_answers(const struct maker *m) {
  struct pz_result *r = m->r;
  enum pz_status status = PZ_OK;
  r->n_answers = m->s->n_runs;
  r->answers = pz_arena_alloc(r->arena, r->n_answers, sizeof *r->answers);
  if (!r->answers) return no_memory(m->err);
  for (uint32_t i = r->n_answers; i-- > 0 && status == PZ_OK;)
    status = make_answer(m, i, &r->answers[i]);
  return status;
}

/* ---- references, sensitivity, front --------------------------------------------------------- */

static enum pz_status make_references(const struct maker *m) {
  struct pz_result *r = m->r;
  const struct pz_study *s = m->s;
  r->n_references = s->portfolio.n_models;
  r->references = pz_arena_alloc(r->arena, r->n_references, sizeof *r->references);
  if (!r->references) return no_memory(m->err);
  for (uint32_t i = 0; i < r->n_references; i++) {
    const struct pz_reference *ref = &s->reference[i];
    struct pz_result_reference *o = &r->references[i];
    *o = (struct pz_result_reference){.model = r->inputs.models[i].name,
                                      .samples_per_s = ref->samples_per_s,
                                      .hbm_gib = ref->hbm_gib,
                                      .expert = ref->expert};
    if (!ref->expert) continue;
    struct pz_reference_plan *plan = pz_arena_alloc(r->arena, 1, sizeof *plan);
    if (!plan) return no_memory(m->err);
    *plan = (struct pz_reference_plan){ref->plan.stages, ref->plan.d, ref->plan.t, ref->plan.mbs,
                                       ref->plan.recompute};
    o->plan = plan;
  }
  r->reference_chip = (struct pz_result_chip_summary){PZ_REFERENCE_CHIP, s->reference_um2 / 1e6,
                                                      s->reference_watts};
  return PZ_OK;
}

static enum pz_status make_sensitivity(const struct maker *m) {
  struct pz_result *r = m->r;
  const struct pz_objective_run *c = &m->s->objective_run[m->s->n_runs - 1];
  struct pz_step steps[PZ_MOST_STEPS];
  enum pz_status status = pz_sensitivity(m->s, c, steps, &r->n_sensitivity, m->err);
  if (status != PZ_OK) return status;
  r->sensitivity = pz_arena_alloc(r->arena, r->n_sensitivity, sizeof *r->sensitivity);
  if (!r->sensitivity) return no_memory(m->err);
  for (uint32_t i = 0; i < r->n_sensitivity; i++) {
    const struct pz_step *t = &steps[i];
    r->sensitivity[i] = (struct pz_result_step){.parameter = t->what,
                                                .from = t->from,
                                                .to = t->to,
                                                .objective = t->value,
                                                .change = t->value / c->value - 1,
                                                .change_at_most = t->bound / c->value - 1,
                                                .area_mm2 = t->area_um2 / 1e6,
                                                .within_budget = t->within,
                                                .over_budget = t->over};
  }
  return PZ_OK;
}

static enum pz_status copy_front(const struct maker *m, const struct pz_front *front) {
  struct pz_result *r = m->r;
  const struct pz_study *s = m->s;
  r->front = pz_arena_alloc(r->arena, 1, sizeof *r->front);
  if (!r->front) return no_memory(m->err);
  r->front->points = pz_arena_alloc(r->arena, front->n, sizeof *r->front->points);
  if (!r->front->points) return no_memory(m->err);
  for (uint32_t i = 0; i < front->n; i++) {
    const struct pz_front_point *p = &front->points[i];
    struct pz_chip chip;
    pz_space_chip(&s->space, &s->points[p->point], &chip);
    r->front->points[i] =
        (struct pz_result_front_chip){.chip = pz_arena_strdup(r->arena, chip.name),
                                      .objective = p->value,
                                      .area_mm2 = p->area_um2 / 1e6,
                                      .peak_watts = p->watts,
                                      .knee = p->knee};
    if (!r->front->points[i].chip) return no_memory(m->err);
  }
  r->front->n_points = front->n;
  r->front->tolerance = s->o.pareto_tolerance;
  r->front->n_front_chips = front->n_full;
  r->front->n_evaluated = front->n_evaluated;
  return PZ_OK;
}

static enum pz_status make_front(const struct maker *m) {
  struct pz_front front;
  if (!m->s->o.pareto) return PZ_OK;
  enum pz_status status = pz_front_find(m->s, &front, m->err);
  if (status != PZ_OK) return status;
  pz_front_thin(&front, m->s->o.pareto_tolerance);
  return copy_front(m, &front);
}

/* ---- all of it ------------------------------------------------------------------------------ */

static enum pz_status take_inputs(const struct maker *m) {
  json_t *inputs = pz_study_inputs(m->s);
  char *text = inputs ? pz_json_dump(inputs, JSON_INDENT(1) | JSON_PRESERVE_ORDER) : NULL;
  enum pz_status status = text ? pz_result_set_inputs(m->r, text, m->err) : no_memory(m->err);
  pz_free(text);
  json_decref(inputs);
  return status;
}

enum pz_status pz_result_make(struct pz_result *r, struct pz_study *s, struct pz_error *err) {
  struct maker m = {r, s, err};
  enum pz_status status = take_inputs(&m);
  if (status == PZ_OK) status = make_sensitivity(&m);
  if (status == PZ_OK) status = make_front(&m);
  if (status == PZ_OK) status = make_answers(&m);
  return status == PZ_OK ? make_references(&m) : status;
}
