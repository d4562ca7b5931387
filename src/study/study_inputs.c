/* The inputs of a study as JSON and back.  pz_study_hash_models() reduces what each model computes to a hash,
 * pz_study_inputs() writes all options with the contents of the files that they name, and pz_study_options_from_inputs()
 * restores the options.  A saved run holds this JSON: a search continues only if its inputs are equal. */
#include "study/study.h"

#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/fields.h"
#include "core/map.h"
#include "workload/workload.h"

/* ---- models --------------------------------------------------------------------------------- */

static void hash_workload(struct pz_call *call, const struct pz_workload *w, char out[24]) {
  json_t *built = pz_workload_json(w);
  char *text = built ? pz_json_dump(built, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
  json_decref(built);
  if (!text) pz_raise(call, PZ_NO_MEMORY, "out of memory for the models");
  snprintf(out, 24, "%016llx", (unsigned long long)pz_hash(text, strlen(text)));
  pz_free(text);
}

static void free_workload(void *w) { pz_workload_free(w); }

void pz_study_hash_models(struct pz_call *call, struct pz_study *s) {
  struct pz_error *err = pz_call_error(call);
  for (uint32_t i = 0; i < s->o.n_models; i++) {
    if (!pz_study_is_training(s)) {
      s->seq[i] = s->portfolio.seq[i];
      hash_workload(call, s->portfolio.variants[s->portfolio.first[i]].w, s->digest[i]);
      continue;
    }
    struct pz_workload_options o = s->o.workload;
    struct pz_workload *w = NULL;
    if (s->training.model_seq[i]) o.seq = s->training.model_seq[i];
    pz_must(call, pz_workload_load(s->names[i], &o, &w, err));
    pz_defer(call, free_workload, w);
    s->seq[i] = w->options.seq;
    hash_workload(call, w, s->digest[i]);
    if (w->warning) pz_must(call, pz_note_add(&s->notes, 0, w->warning, err));
    pz_close(call, w);
  }
}

/* ---- writing -------------------------------------------------------------------------------- */

static const char *const execution_names[] = {"scheduled", "serial", NULL};

static json_t *choices_json(const struct pz_choices *c) {
  json_t *list = json_array();
  for (int i = 0; i < c->n; i++) json_array_append_new(list, json_integer(c->v[i]));
  return list;
}

json_t *pz_study_inputs(const struct pz_study *s) {
  const struct pz_study_options *o = &s->o;
  const struct pz_workload_options *w = &o->workload;
  json_t *models = json_array(), *weights = json_array(), *dims = json_array();
  for (uint32_t i = 0; i < o->n_models; i++) {
    json_array_append_new(models, json_pack("{s:s,s:I,s:s}", "name", o->models[i], "seq",
                                            (json_int_t)s->seq[i], "digest", s->digest[i]));
    json_array_append_new(weights, json_real(o->weight[i]));
  }
  for (int i = 0; i < PZ_MOST_DIMS && w->dims[i]; i++)
    json_array_append_new(dims, json_string(w->dims[i]));
  /* How ONNX files are read; texts that were not given are null. */
  json_t *import = json_pack("{s:o,s:s?,s:s?,s:i}", "dims", dims, "layers", w->layers, "batch_dim",
                             w->batch_dim, "unknown_ops", (int)w->unknown_ops);
  json_t *own; /* the options of the evaluator */
  bool training = pz_study_is_training(s);
  if (training) {
    own = json_pack("{s:I,s:f,s:s}", "scale_up", (json_int_t)o->scale_up, "outer_bytes_per_s",
                    o->outer_bytes_per_s, "execution", execution_names[o->serial]);
    if (o->memory_margin) json_object_set_new(own, "memory_margin", json_string(o->memory_margin));
  } else {
    own = json_pack("{s:o,s:o,s:o,s:o,s:f,s:I,s:I}", "cluster", pz_cluster_json(&s->task.net),
                    "mbs", choices_json(&o->mbs), "hbm_gib", choices_json(&o->hbm_gib), "tp",
                    choices_json(&o->tp), "state", o->state, "steps", (json_int_t)o->steps,
                    "assumptions", (json_int_t)o->assumptions);
  }
  return json_pack("{s:s,s:s,s:o,s:o,s:f,s:f,s:f,s:I,s:I,s:I,s:s,s:o,s:b,s:f,s:b,s:b,s:f,s:o,s:o}",
                   "version", pz_version(), "evaluator", pz_evaluator_names[o->evaluator], "models",
                   models, "space", pz_space_json(&s->space), "limit_mm2", s->limits.mm2,
                   "limit_watts", s->limits.watts, "limit_dollars", s->limits.dollars, "devices",
                   (json_int_t)o->devices, "batch", (json_int_t)o->batch, "seq", (json_int_t)w->seq,
                   "objective", pz_objective_names[o->objective], "weights", weights, "each_model",
                   o->each_model, "gap", o->gap, "exhaustive", o->exhaustive, "pareto", o->pareto,
                   "pareto_tolerance", o->pareto_tolerance, "import", import,
                   training ? "training" : "original", own);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Readers keep the first error and go on, because pz_fields_end() has to know every key that is accepted. */

/* An object as text, or NULL if there is none. */
static const char *object_text(struct pz_call *call, struct pz_fields *f, const char *key) {
  const json_t *value = pz_fields_value(f, key);
  if (!json_is_object(value)) return NULL;
  char *text = pz_json_dump(value, JSON_COMPACT);
  if (!text) pz_raise(call, PZ_NO_MEMORY, "%s: out of memory", f->name);
  pz_defer(call, pz_free, text);
  const char *copy = pz_copy_text(call, text);
  pz_close(call, text);
  return copy;
}

/* A copy of a member of an object, or NULL if it is no text. */
static const char *member_text(struct pz_call *call, const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? pz_copy_text(call, text) : NULL;
}

/* Increasing positive numbers, as pz_choices_parse() makes them. */
static void read_choices(struct pz_fields *f, const char *key, struct pz_choices *out) {
  const json_t *list = pz_fields_value(f, key);
  size_t n = json_array_size(list);
  bool good = n >= 1 && n <= PZ_CHOICES_MOST;
  int64_t previous = 0;
  out->n = 0;
  for (size_t i = 0; i < n && good; i++) {
    int64_t value = json_integer_value(json_array_get(list, i));
    good = value > previous && value <= 1 << 20;
    out->v[out->n++] = value;
    previous = value;
  }
  if (!good) pz_fields_refuse(f, key, "a list of increasing positive integers");
}

static void read_input_models(struct pz_call *call, struct pz_fields *f,
                              struct pz_study_options *o) {
  const json_t *models = pz_fields_value(f, "models"), *weights = pz_fields_value(f, "weights");
  size_t n = json_array_size(models);
  bool good = n >= 1 && n <= PZ_SEARCH_MOST_MODELS && json_array_size(weights) == n;
  for (size_t i = 0; i < n && good; i++) {
    o->models[i] = member_text(call, json_array_get(models, i), "name");
    o->weight[i] = json_number_value(json_array_get(weights, i));
    good = o->models[i] && o->weight[i] > 0;
  }
  o->n_models = (uint32_t)n;
  if (!good) pz_fields_refuse(f, "models", "models with names, as many weights above 0");
}

static void read_import(struct pz_call *call, struct pz_fields *f, struct pz_workload_options *w) {
  const json_t *import = pz_fields_value(f, "import"), *dims = json_object_get(import, "dims");
  json_int_t unknown = json_integer_value(json_object_get(import, "unknown_ops"));
  size_t n = json_array_size(dims);
  bool good =
      json_is_object(import) && n <= PZ_MOST_DIMS && unknown >= 0 && unknown <= PZ_UNKNOWN_VECTOR;
  for (size_t i = 0; i < n && good; i++) {
    const char *text = json_string_value(json_array_get(dims, i));
    w->dims[i] = text ? pz_copy_text(call, text) : NULL;
    good = w->dims[i];
  }
  w->layers = member_text(call, import, "layers");
  w->batch_dim = member_text(call, import, "batch_dim");
  w->unknown_ops = (enum pz_unknown_ops)unknown;
  if (!good) pz_fields_refuse(f, "import", "how ONNX files are read");
}

/* The index of a text in a list that ends with NULL. */
static int read_name(struct pz_fields *f, const char *key, const char *const *names) {
  const char *name = pz_fields_text_or(f, key, "");
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0) return i;
  pz_fields_refuse(f, key, names[1]);
  return 0;
}

struct pz_study_options pz_study_options_from_inputs(struct pz_call *call, const json_t *inputs) {
  static const struct pz_range COUNT = {1, 1 << 30}, SEQ = {0, 1 << 24};
  static const struct pz_range STEPS = {1, 1000000000000000}, SET = {0, PZ_ASSUME_ALL};
  struct pz_fields f = pz_fields_of(call, "inputs", inputs);
  struct pz_study_options o = pz_study_options_default();
  (void)pz_fields_text_or(&f, "version", "");
  o.devices = pz_fields_int(&f, "devices", COUNT);
  o.batch = pz_fields_int(&f, "batch", COUNT);
  o.workload.seq = pz_fields_int(&f, "seq", SEQ);
  o.limit_mm2 = pz_fields_real(&f, "limit_mm2", 0, 1e9);
  o.limit_watts = pz_fields_real(&f, "limit_watts", 0, 1e9);
  o.limit_dollars = pz_fields_real(&f, "limit_dollars", 0, 1e9);
  o.each_model = pz_fields_bool_or(&f, "each_model", false);
  o.gap = pz_fields_real(&f, "gap", 0, 1);
  o.exhaustive = pz_fields_bool_or(&f, "exhaustive", false);
  o.pareto = pz_fields_bool_or(&f, "pareto", false);
  o.pareto_tolerance = pz_fields_real(&f, "pareto_tolerance", 0, 1);
  read_input_models(call, &f, &o);
  read_import(call, &f, &o.workload);
  o.objective = (enum pz_objective_kind)read_name(&f, "objective", pz_objective_names);
  o.evaluator = (enum pz_evaluator_kind)read_name(&f, "evaluator", pz_evaluator_names);
  if (o.evaluator == PZ_EVALUATOR_TRAINING) {
    o.scale_up = pz_fields_int(&f, "training.scale_up", COUNT);
    o.outer_bytes_per_s = pz_fields_real(&f, "training.outer_bytes_per_s", 1, 1e18);
    o.serial = read_name(&f, "training.execution", execution_names) == 1;
    const char *margin = pz_fields_text_or(&f, "training.memory_margin", NULL);
    if (margin) o.memory_margin = pz_copy_text(call, margin);
  } else {
    o.cluster_text = object_text(call, &f, "original.cluster");
    read_choices(&f, "original.mbs", &o.mbs);
    read_choices(&f, "original.hbm_gib", &o.hbm_gib);
    read_choices(&f, "original.tp", &o.tp);
    o.state = pz_fields_real(&f, "original.state", 1, 100);
    o.steps = pz_fields_int(&f, "original.steps", STEPS);
    o.assumptions = (unsigned)pz_fields_int(&f, "original.assumptions", SET);
    if (!o.cluster_text) pz_fields_refuse(&f, "original.cluster", "a cluster");
  }
  o.space_text = object_text(call, &f, "space");
  if (!o.space_text) pz_fields_refuse(&f, "space", "a space");
  pz_fields_end(call, &f);
  return o;
}
