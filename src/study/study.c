#include "study/study.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/fields.h"
#include "core/map.h"
#include "core/options.h"
#include "workload/workload.h"

struct pz_study_options pz_study_options_default(void) {
  struct pz_study_options o = {.size = sizeof o,
                               .space = "paper",
                               .cluster = "paper",
                               .mbs = pz_choices_powers(32),
                               .hbm_gib = {{32, 64, 80}, 3},
                               .tp = pz_choices_powers(8),
                               .devices = 1024,
                               .batch = 4096,
                               .state = 3,
                               .pareto_tolerance = 0.01,
                               .workload = pz_workload_options_default(),
                               .steps = PZ_LAYER_STEPS};
  for (int i = 0; i < PZ_SEARCH_MOST_MODELS; i++) o.weight[i] = 1;
  return o;
}

/* ---- reading -------------------------------------------------------------------------------- */

static enum pz_status read_cluster(const struct pz_study_options *o, struct pz_cluster *net,
                                   struct pz_error *err) {
  const char *text = o->cluster_text;
  enum pz_status status = text ? pz_cluster_parse("cluster", text, strlen(text), net, err)
                               : pz_cluster_load(o->cluster, net, err);
  return status == PZ_OK ? pz_cluster_reach(net, o->devices, "devices", err) : status;
}

static enum pz_status set_task(struct pz_study *s, struct pz_error *err) {
  enum { QUICK_STEPS = 2000 };
  struct pz_search_task *t = &s->task;
  enum pz_status status = read_cluster(&s->o, &t->net, err);
  if (status != PZ_OK) return status;
  t->assumptions = s->o.assumptions;
  pz_assume_network(t->assumptions, &t->net);
  int64_t quick = s->o.steps < QUICK_STEPS ? s->o.steps : QUICK_STEPS;
  t->space = &s->space;
  t->portfolio = &s->portfolio;
  t->o = (struct pz_task_options){.devices = s->o.devices,
                                  .batch = s->o.batch,
                                  .state = s->o.state,
                                  .hbm_gib = s->o.hbm_gib,
                                  .quick_steps = quick,
                                  .steps = s->o.steps};
  return PZ_OK;
}

/* ---- checks --------------------------------------------------------------------------------- */

static enum pz_status check_real(const char *what, double v, double min, double max,
                                 struct pz_error *err) {
  if (v >= min && v <= max) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE, "%s %g; accepted: %g to %g", what, v, min, max);
}

static enum pz_status check_models(const struct pz_study_options *o, struct pz_error *err) {
  enum pz_status status =
      pz_need_range("number of models", o->n_models, 1, PZ_SEARCH_MOST_MODELS, err);
  for (uint32_t i = 0; i < o->n_models && status == PZ_OK; i++) {
    status = pz_need(o->models[i], "the name of a model", err);
    if (status == PZ_OK && !(o->weight[i] > 0 && o->weight[i] < 1e9))
      status = pz_fail(err, PZ_BAD_USE, "weight %g; accepted: above 0", o->weight[i]);
  }
  return status;
}

static enum pz_status check_choices(const struct pz_study_options *o, struct pz_error *err) {
  enum pz_status s = pz_choices_check("mbs", &o->mbs, 1, err);
  if (s == PZ_OK) s = pz_choices_check("tp", &o->tp, 1, err);
  if (s == PZ_OK) s = pz_choices_check("hbm_gib", &o->hbm_gib, 1, err);
  if (s == PZ_OK)
    s = pz_need_range("objective", (int64_t)o->objective, 0, PZ_OBJECTIVE_PER_MM2, err);
  if (s == PZ_OK) s = pz_need_range("assumptions", o->assumptions, 0, PZ_ASSUME_ALL, err);
  return s;
}

static enum pz_status check_options(const struct pz_study_options *o, struct pz_error *err) {
  static const int64_t STEPS = 1000000000000000;
  enum pz_status s = check_models(o, err);
  if (s == PZ_OK && !o->space_text) s = pz_need(o->space, "space", err);
  if (s == PZ_OK && !o->cluster_text) s = pz_need(o->cluster, "cluster", err);
  if (s == PZ_OK) s = pz_need_range("devices", o->devices, 1, 1 << 30, err);
  if (s == PZ_OK) s = pz_need_range("batch", o->batch, 1, 1 << 30, err);
  if (s == PZ_OK) s = pz_need_range("steps", o->steps, 1, STEPS, err);
  if (s == PZ_OK) s = check_choices(o, err);
  if (s == PZ_OK) s = check_real("state", o->state, 1, 100, err);
  if (s == PZ_OK) s = check_real("pareto_tolerance", o->pareto_tolerance, 0, 1, err);
  return s;
}

/* Inputs, results and pages are UTF-8, and a name stands in all of them. */
static enum pz_status check_names(const struct pz_study_options *o, struct pz_error *err) {
  for (uint32_t i = 0; i < o->n_models; i++) {
    json_t *name = json_string(o->models[i]);
    json_decref(name);
    if (!name)
      return pz_fail(err, PZ_BAD_USE, "model %u: '%s' is not UTF-8; accepted: a file name in UTF-8",
                     i + 1, o->models[i]);
  }
  return PZ_OK;
}

static enum pz_status read_inputs(struct pz_study *s, struct pz_error *err) {
  const char *text = s->o.space_text;
  enum pz_status status = check_options(&s->o, err);
  if (status == PZ_OK) status = check_names(&s->o, err);
  if (status != PZ_OK) return status;
  status = text ? pz_space_parse("space", text, strlen(text), &s->space, err)
                : pz_space_load(s->o.space, &s->space, err);
  if (status == PZ_OK && s->o.budget) status = pz_space_set_budget(&s->space, s->o.budget, err);
  pz_assume_chip(s->o.assumptions, &s->space.base);
  if (status == PZ_OK) status = set_task(s, err);
  if (status == PZ_OK)
    status = pz_space_points(&s->space, &s->arena, &s->points, &s->n_points, err);
  if (status != PZ_OK) return status;
  struct pz_variant_choices choices = {&s->o.mbs, &s->o.tp, s->o.batch, s->o.devices};
  return pz_portfolio_init(&s->portfolio, s->o.models, s->o.n_models, &choices, &s->o.workload,
                           err);
}

enum pz_status pz_study_init(struct pz_study *s, const struct pz_study_options *o, unsigned threads,
                             struct pz_error *err) {
  *s = (struct pz_study){.o = *o};
  s->o.workload.input_gradients_only = pz_assumed(o->assumptions, PZ_ASSUME_NO_WEIGHT_GRADIENTS);
  pz_arena_init(&s->arena, NULL);
  enum pz_status status = read_inputs(s, err);
  if (status == PZ_OK) status = pz_pool_new(threads, &s->pool, err);
  s->n_runs = s->portfolio.n_models > 1 ? s->portfolio.n_models + 1 : 1;
  if (status != PZ_OK) pz_study_release(s);
  return status;
}

void pz_study_release(struct pz_study *s) {
  if (!s) return;
  pz_search_free(s->search);
  pz_pool_free(s->pool);
  pz_portfolio_release(&s->portfolio);
  pz_arena_release(&s->arena);
  *s = (struct pz_study){.n_runs = 0};
}

/* ---- inputs as JSON ------------------------------------------------------------------------- */

static json_t *choices_json(const struct pz_choices *c) {
  json_t *list = json_array();
  for (int i = 0; i < c->n; i++) json_array_append_new(list, json_integer(c->v[i]));
  return list;
}

/* A model by name and by what it computes: a file may change under its name. */
static json_t *model_json(const struct pz_study *s, uint32_t i) {
  const struct pz_workload *w = s->portfolio.variants[s->portfolio.first[i]].w;
  json_t *built = pz_workload_json(w);
  char *text = built ? pz_json_dump(built, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
  char digest[24] = "";
  if (text)
    snprintf(digest, sizeof digest, "%016llx", (unsigned long long)pz_hash(text, strlen(text)));
  else
    pz_json_lost_set(true); /* memory is what it lacked: no inputs with another digest */
  pz_free(text);
  json_decref(built);
  return json_pack("{s:s,s:I,s:s}", "name", s->portfolio.models[i], "seq",
                   (json_int_t)s->portfolio.seq[i], "digest", digest);
}

static json_t *space_json(const struct pz_space *s) {
  json_t *o = json_pack("{s:s,s:s,s:f,s:f,s:o}", "name", s->name, "about", s->about, "budget_um2",
                        s->budget_um2, "least_part", s->least_part, "base", pz_chip_json(&s->base));
  for (enum pz_axis a = 0; a < PZ_AXES; a++) {
    if (s->value[a][0] == 0) continue; /* lanes that follow the columns */
    json_t *list = json_array();
    for (int i = 0; i < s->n[a]; i++)
      json_array_append_new(list,
                            json_integer(a == PZ_AXIS_GLB ? s->value[a][i] >> 20 : s->value[a][i]));
    json_object_set_new(o, pz_axis_name(a), list);
  }
  return o;
}

/* How ONNX files are read; texts that are not given are null. */
static json_t *import_json(const struct pz_workload_options *w) {
  json_t *dims = json_array();
  for (int i = 0; i < PZ_MOST_DIMS && w->dims[i]; i++)
    json_array_append_new(dims, json_string(w->dims[i]));
  return json_pack("{s:o,s:s?,s:s?,s:i}", "dims", dims, "layers", w->layers, "batch_dim",
                   w->batch_dim, "unknown_ops", (int)w->unknown_ops);
}

json_t *pz_study_inputs(const struct pz_study *s) {
  json_t *models = json_array(), *weights = json_array();
  for (uint32_t i = 0; i < s->portfolio.n_models; i++) {
    json_array_append_new(models, model_json(s, i));
    json_array_append_new(weights, json_real(s->o.weight[i]));
  }
  json_t *inputs = json_pack(
      "{s:s,s:o,s:o,s:o,s:I,s:I,s:I,s:o,s:o,s:o,s:s,s:o,s:f,s:I,s:b,s:b,s:f,s:o}", "version",
      pz_version(), "models", models, "space", space_json(&s->space), "cluster",
      pz_cluster_json(&s->task.net), "devices", (json_int_t)s->o.devices, "batch",
      (json_int_t)s->o.batch, "seq", (json_int_t)s->o.workload.seq, "mbs", choices_json(&s->o.mbs),
      "hbm_gib", choices_json(&s->o.hbm_gib), "tp", choices_json(&s->o.tp), "objective",
      pz_objective_names[s->o.objective], "weights", weights, "state", s->o.state, "steps",
      (json_int_t)s->o.steps, "exhaustive", s->o.exhaustive, "pareto", s->o.pareto,
      "pareto_tolerance", s->o.pareto_tolerance, "import", import_json(&s->o.workload));
  if (inputs && s->o.boxes && json_object_set_new(inputs, "boxes", json_true()) != 0) {
    json_decref(inputs);
    return NULL;
  }
  return inputs;
}

/* ---- and back ------------------------------------------------------------------------------- */

static char *text_of(const json_t *value, struct pz_arena *arena) {
  char *text = pz_json_dump(value, JSON_COMPACT),
       *kept = text ? pz_arena_strdup(arena, text) : NULL;
  pz_free(text);
  return kept;
}

/* Ascending positive numbers, as pz_choices_parse would have made them. */
static bool read_choices(const json_t *list, struct pz_choices *out) {
  size_t n = json_array_size(list);
  out->n = 0;
  if (n < 1 || n > PZ_CHOICES_MOST) return false;
  for (size_t i = 0; i < n; i++) {
    int64_t v = json_integer_value(json_array_get(list, i));
    if (v <= (i ? out->v[i - 1] : 0) || v > 1 << 20) return false;
    out->v[out->n++] = v;
  }
  return true;
}

static bool read_models(const json_t *inputs, struct pz_arena *arena, struct pz_study_options *o) {
  const json_t *models = json_object_get(inputs, "models");
  const json_t *weights = json_object_get(inputs, "weights");
  size_t n = json_array_size(models);
  if (n < 1 || n > PZ_SEARCH_MOST_MODELS || json_array_size(weights) != n) return false;
  for (size_t i = 0; i < n; i++) {
    const char *name = json_string_value(json_object_get(json_array_get(models, i), "name"));
    o->models[i] = name ? pz_arena_strdup(arena, name) : NULL;
    o->weight[i] = json_number_value(json_array_get(weights, i));
    if (!o->models[i] || !(o->weight[i] > 0)) return false;
  }
  o->n_models = (uint32_t)n;
  return true;
}

/* The text of a field, or NULL where it is null; false: no memory. */
static bool read_text(const json_t *o, const char *key, struct pz_arena *arena, const char **out) {
  const char *text = json_string_value(json_object_get(o, key));
  *out = text ? pz_arena_strdup(arena, text) : NULL;
  return !text || *out;
}

static bool read_import(const json_t *inputs, struct pz_arena *arena,
                        struct pz_workload_options *w) {
  const json_t *o = json_object_get(inputs, "import"), *dims = json_object_get(o, "dims");
  json_int_t unknown = json_integer_value(json_object_get(o, "unknown_ops"));
  size_t n = json_array_size(dims);
  if (n > PZ_MOST_DIMS || unknown < PZ_UNKNOWN_REFUSE || unknown > PZ_UNKNOWN_VECTOR) return false;
  for (size_t i = 0; i < n; i++) {
    const char *dim = json_string_value(json_array_get(dims, i));
    w->dims[i] = dim ? pz_arena_strdup(arena, dim) : NULL;
    if (!w->dims[i]) return false;
  }
  w->unknown_ops = (enum pz_unknown_ops)unknown;
  return read_text(o, "layers", arena, &w->layers) &&
         read_text(o, "batch_dim", arena, &w->batch_dim);
}

static bool read_objective(const json_t *inputs, struct pz_study_options *o) {
  const char *name = json_string_value(json_object_get(inputs, "objective"));
  for (int i = 0; name && pz_objective_names[i]; i++)
    if (strcmp(pz_objective_names[i], name) == 0) {
      o->objective = (enum pz_objective_kind)i;
      return true;
    }
  return false;
}

enum pz_status pz_study_from_inputs(const json_t *inputs, struct pz_arena *arena,
                                    struct pz_study_options *out, struct pz_error *err) {
  static const struct pz_range MANY = {1, 1 << 30}, STEPS = {1, 1000000000000000},
                               SEQ = {0, 1 << 24};
  struct pz_fields f = {.name = "inputs", .root = inputs, .err = err};
  struct pz_study_options o = pz_study_options_default();
  o.devices = pz_fields_int(&f, "devices", MANY);
  o.batch = pz_fields_int(&f, "batch", MANY);
  o.workload.seq = pz_fields_int(&f, "seq", SEQ);
  o.steps = pz_fields_int(&f, "steps", STEPS);
  o.state = pz_fields_real(&f, "state", 1, 100);
  o.exhaustive = pz_fields_bool_or(&f, "exhaustive", false);
  o.pareto = pz_fields_bool_or(&f, "pareto", false);
  o.boxes = pz_fields_bool_or(&f, "boxes", false);
  o.pareto_tolerance = pz_fields_real(&f, "pareto_tolerance", 0, 1);
  if (f.status != PZ_OK) return f.status;
  o.space_text = text_of(json_object_get(inputs, "space"), arena);
  o.cluster_text = text_of(json_object_get(inputs, "cluster"), arena);
  if (!o.space_text || !o.cluster_text || !read_models(inputs, arena, &o) ||
      !read_objective(inputs, &o) || !read_import(inputs, arena, &o.workload) ||
      !read_choices(json_object_get(inputs, "mbs"), &o.mbs) ||
      !read_choices(json_object_get(inputs, "tp"), &o.tp) ||
      !read_choices(json_object_get(inputs, "hbm_gib"), &o.hbm_gib))
    return pz_fail(err, PZ_BAD_INPUT, "the inputs of the run are not valid");
  *out = o;
  return PZ_OK;
}

/* ---- running -------------------------------------------------------------------------------- */

static enum pz_status find_reference(void *ctx, size_t i, struct pz_evaluator *e,
                                     struct pz_error *err) {
  struct pz_study *s = ctx;
  enum pz_status status = pz_reference_find(e, (uint32_t)i, &s->reference[i], err);
  pz_progress_add(pz_search_progress(s->search), 1);
  return status;
}

static enum pz_status measure_reference(struct pz_study *s, struct pz_error *err) {
  struct pz_chip chip;
  enum pz_status status = pz_chip_load(PZ_REFERENCE_CHIP, &chip, err);
  if (status != PZ_OK) return status;
  struct pz_area area = pz_chip_area(&chip);
  s->reference_um2 = pz_area_total_um2(&area);
  s->reference_watts = pz_chip_peak_watts(&chip);
  return PZ_OK;
}

enum pz_status pz_study_prepare(struct pz_study *s, const struct pz_search_options *o,
                                struct pz_error *err) {
  struct pz_search_options with = *o;
  pz_search_free(s->search); /* of an earlier call that was stopped */
  s->search = NULL;
  with.exhaustive = s->o.exhaustive;
  with.boxes = s->o.boxes;
  enum pz_status status = measure_reference(s, err);
  if (status == PZ_OK)
    status = pz_search_new(&s->task, s->points, s->n_points, s->pool, &with, &s->search, err);
  return status == PZ_OK ? pz_study_references(s, err) : status;
}

static void pack_reference(void *ctx, size_t i, struct pz_buffer *out) {
  const struct pz_study *s = ctx;
  pz_buffer_append(out, (const char *)&s->reference[i], sizeof s->reference[i]);
}

static enum pz_status unpack_reference(void *ctx, size_t i, struct pz_bytes *in) {
  struct pz_study *s = ctx;
  pz_progress_add(pz_search_progress(s->search), 1);
  return pz_bytes_take(in, &s->reference[i], sizeof s->reference[i]) ? PZ_OK : PZ_BAD_INPUT;
}

enum pz_status pz_study_references(struct pz_study *s, struct pz_error *err) {
  struct pz_search_items items = {find_reference, pack_reference, unpack_reference, s, false};
  struct pz_progress *progress = pz_search_progress(s->search);
  pz_progress_next(progress, "reference", "models", s->portfolio.n_models);
  enum pz_status status = pz_search_deal(s->search, s->portfolio.n_models, &items, err);
  pz_progress_finish(progress, NULL);
  return status;
}

const char *pz_study_run_name(const struct pz_study *s, uint32_t i) {
  return i < s->portfolio.n_models ? s->portfolio.models[i] : "common";
}

struct pz_objective pz_study_objective(const struct pz_study *s, uint32_t i) {
  struct pz_objective o = {.kind = s->o.objective,
                           .reference_watts = s->reference_watts,
                           .reference_um2 = s->reference_um2};
  for (uint32_t m = 0; m < s->portfolio.n_models; m++) {
    if (i == s->portfolio.n_models || i == m) o.models[o.n++] = m;
    /* nothing to compare with: the throughput itself decides */
    o.reference[m] = s->reference[m].samples_per_s > 0 ? s->reference[m].samples_per_s : 1;
    o.weight[m] = s->o.weight[m];
    if (i == s->portfolio.n_models) {
      const struct pz_evaluation *e = pz_search_evaluation(s->search, s->objective_run[m].best, m);
      o.best_alone[m] = e ? (double)s->o.batch / e->time_s : 1;
    }
  }
  return o;
}

enum pz_status pz_study_run(struct pz_study *s, uint32_t i, struct pz_error *err) {
  s->objective_run[i] = (struct pz_objective_run){.objective = pz_study_objective(s, i)};
  return pz_search_run(s->search, &s->objective_run[i], err);
}

void pz_study_chip(const struct pz_study *s, const struct pz_objective_run *c,
                   struct pz_chip *out) {
  pz_space_chip(&s->space, &s->points[c->best], out);
  out->hbm.bytes_per_stack = (int64_t)(c->hbm_gib * 0x1p30) / out->hbm.stacks;
}
