/* The inputs of a study as JSON and back.  pz_study_hash_models() reduces what each model
 * computes to a hash, pz_study_inputs() writes all options with the contents of the files that
 * they name, and pz_study_options_from_inputs() restores the options.  A saved run holds this
 * JSON: a search continues only if its inputs are equal. */
#include "study/study.h"

#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/fields.h"
#include "core/map.h"
#include "workload/workload.h"

/* ---- models --------------------------------------------------------------------------------- */

/* Hashes the JSON of each model's workload; with the evaluator original, its first variant. */
void pz_study_hash_models(struct pz_call *call, struct pz_study *study) {
  struct pz_error *err = pz_call_error(call);
  for (uint32_t i = 0; i < study->options.n_models; i++) {
    struct pz_workload *loaded = NULL;
    const struct pz_workload *workload;
    if (study->options.evaluator == PZ_EVALUATOR_TRAINING) {
      struct pz_workload_options workload_options = study->options.workload;
      if (study->training.model_seq[i]) workload_options.seq = study->training.model_seq[i];
      pz_must(call, pz_workload_load(study->names[i], &workload_options, &loaded, err));
      pz_defer(call, pz_workload_close, loaded);
      workload = loaded;
      study->seq[i] = workload->options.seq;
    } else {
      workload = study->portfolio.variants[study->portfolio.first[i]].w;
      study->seq[i] = study->portfolio.seq[i];
    }
    json_t *json = pz_workload_json(call, workload);
    struct pz_buffer *text = pz_buffer_new(call);
    pz_json_add(call, text, json, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(study->digest[i], sizeof study->digest[i], "%016llx",
             (unsigned long long)pz_hash(text->text, text->bytes));
    pz_close(call, json);
    pz_close(call, text);
    if (!loaded) continue;
    if (loaded->warning) pz_note_add(call, &study->notes, 0, loaded->warning);
    pz_close(call, loaded);
  }
}

/* ---- writing -------------------------------------------------------------------------------- */

static const char *const execution_names[] = {"scheduled", "serial", NULL};

/* Returns the choices of an option as a JSON list. */
static json_t *choices_json(const struct pz_choices *choices) {
  json_t *list = json_array();
  for (int i = 0; i < choices->n; i++) json_array_append_new(list, json_integer(choices->v[i]));
  return list;
}

/* Returns the inputs as JSON: options, contents of the space and cluster, digests of models. */
json_t *pz_study_inputs(const struct pz_study *study) {
  const struct pz_study_options *options = &study->options;
  const struct pz_workload_options *workload_options = &options->workload;
  json_t *models = json_array(), *weights = json_array(), *dims = json_array();
  for (uint32_t i = 0; i < options->n_models; i++) {
    json_array_append_new(models, json_pack("{s:s,s:I,s:s}", "name", options->models[i], "seq",
                                            (json_int_t)study->seq[i], "digest", study->digest[i]));
    json_array_append_new(weights, json_real(options->weight[i]));
  }
  for (int i = 0; i < PZ_MOST_DIMS && workload_options->dims[i]; i++)
    json_array_append_new(dims, json_string(workload_options->dims[i]));
  /* How ONNX files are read; texts that were not given are null. */
  json_t *import = json_pack("{s:o,s:s?,s:s?,s:i}", "dims", dims, "layers",
                             workload_options->layers, "batch_dim", workload_options->batch_dim,
                             "unknown_ops", (int)workload_options->unknown_ops);
  json_t *evaluator_json; /* options of the evaluator */
  bool training = study->options.evaluator == PZ_EVALUATOR_TRAINING;
  if (training) {
    evaluator_json =
        json_pack("{s:I,s:f,s:s}", "scale_up", (json_int_t)options->scale_up, "outer_bytes_per_s",
                  options->outer_bytes_per_s, "execution", execution_names[options->serial]);
    if (options->memory_margin)
      json_object_set_new(evaluator_json, "memory_margin", json_string(options->memory_margin));
  } else {
    evaluator_json =
        json_pack("{s:o,s:o,s:o,s:o,s:f,s:I,s:I}", "cluster", pz_cluster_json(&study->task.net),
                  "mbs", choices_json(&options->mbs), "hbm_gib", choices_json(&options->hbm_gib),
                  "tp", choices_json(&options->tp), "state", options->state, "steps",
                  (json_int_t)options->steps, "assumptions", (json_int_t)options->assumptions);
  }
  return json_pack(
      "{s:s,s:s,s:o,s:o,s:f,s:f,s:f,s:I,s:I,s:I,s:s,s:o,s:b,s:f,s:b,s:b,s:f,s:o,s:o}", "version",
      pz_version(), "evaluator", pz_evaluator_names[options->evaluator], "models", models, "space",
      pz_space_json(&study->space), "limit_mm2", study->limits.mm2, "limit_watts",
      study->limits.watts, "limit_dollars", study->limits.dollars, "devices",
      (json_int_t)options->devices, "batch", (json_int_t)options->batch, "seq",
      (json_int_t)workload_options->seq, "objective", pz_objective_names[options->objective],
      "weights", weights, "each_model", options->each_model, "gap", options->gap, "exhaustive",
      options->exhaustive, "pareto", options->pareto, "pareto_tolerance", options->pareto_tolerance,
      "import", import, training ? "training" : "original", evaluator_json);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* Readers record the first error and go on: pz_fields_end() has to know all keys. */

/* Returns a copy of a text member of an object, or NULL if it is no text. */
static const char *member_text(struct pz_call *call, const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? pz_copy_text(call, text) : NULL;
}

/* Reads a list of increasing positive numbers, as pz_choices_read() returns them. */
static void read_choices(struct pz_fields *fields, const char *key, struct pz_choices *out) {
  const json_t *list = pz_fields_value(fields, key);
  size_t n = json_array_size(list);
  bool valid = n >= 1 && n <= PZ_CHOICES_MOST;
  int64_t previous = 0;
  out->n = 0;
  for (size_t i = 0; i < n && valid; i++) {
    int64_t value = json_integer_value(json_array_get(list, i));
    valid = value > previous && value <= 1 << 20;
    out->v[out->n++] = value;
    previous = value;
  }
  if (!valid) pz_fields_refuse(fields, key, "a list of increasing positive integers");
}

/* Reads the options with which ONNX files are imported. */
static void read_import(struct pz_call *call, struct pz_fields *fields,
                        struct pz_workload_options *workload_options) {
  const json_t *import = pz_fields_value(fields, "import"), *dims = json_object_get(import, "dims");
  json_int_t unknown = json_integer_value(json_object_get(import, "unknown_ops"));
  size_t n = json_array_size(dims);
  bool valid =
      json_is_object(import) && n <= PZ_MOST_DIMS && unknown >= 0 && unknown <= PZ_UNKNOWN_VECTOR;
  for (size_t i = 0; i < n && valid; i++) {
    const char *text = json_string_value(json_array_get(dims, i));
    workload_options->dims[i] = text ? pz_copy_text(call, text) : NULL;
    valid = workload_options->dims[i];
  }
  workload_options->layers = member_text(call, import, "layers");
  workload_options->batch_dim = member_text(call, import, "batch_dim");
  workload_options->unknown_ops = (enum pz_unknown_ops)unknown;
  if (!valid) pz_fields_refuse(fields, "import", "how ONNX files are read");
}

/* Returns the index of a text in a list that ends with NULL. */
static int read_name(struct pz_fields *fields, const char *key, const char *const *names) {
  const char *name = pz_fields_text_or(fields, key, "");
  for (int i = 0; names[i]; i++)
    if (strcmp(names[i], name) == 0) return i;
  pz_fields_refuse(fields, key, names[1]);
  return 0;
}

/* Reads all members of the inputs, and raises the first error after the last member. */
struct pz_study_options pz_study_options_from_inputs(struct pz_call *call, const json_t *inputs) {
  static const struct pz_range COUNT = {1, 1 << 30}, SEQ = {0, 1 << 24};
  static const struct pz_range STEPS = {1, 1000000000000000}, SET = {0, PZ_ASSUME_ALL};
  struct pz_fields fields = pz_fields_of(call, "inputs", inputs);
  struct pz_study_options options = pz_study_options_default();
  (void)pz_fields_text_or(&fields, "version", "");
  options.devices = pz_fields_int(&fields, "devices", COUNT);
  options.batch = pz_fields_int(&fields, "batch", COUNT);
  options.workload.seq = pz_fields_int(&fields, "seq", SEQ);
  options.limit_mm2 = pz_fields_real(&fields, "limit_mm2", 0, 1e9);
  options.limit_watts = pz_fields_real(&fields, "limit_watts", 0, 1e9);
  options.limit_dollars = pz_fields_real(&fields, "limit_dollars", 0, 1e9);
  options.each_model = pz_fields_bool_or(&fields, "each_model", false);
  options.gap = pz_fields_real(&fields, "gap", 0, 1);
  options.exhaustive = pz_fields_bool_or(&fields, "exhaustive", false);
  options.pareto = pz_fields_bool_or(&fields, "pareto", false);
  options.pareto_tolerance = pz_fields_real(&fields, "pareto_tolerance", 0, 1);
  const json_t *models = pz_fields_value(&fields, "models"),
               *weights = pz_fields_value(&fields, "weights");
  size_t n = json_array_size(models);
  bool valid = n >= 1 && n <= PZ_SEARCH_MOST_MODELS && json_array_size(weights) == n;
  for (size_t i = 0; i < n && valid; i++) {
    options.models[i] = member_text(call, json_array_get(models, i), "name");
    options.weight[i] = json_number_value(json_array_get(weights, i));
    valid = options.models[i] && options.weight[i] > 0;
  }
  options.n_models = (uint32_t)n;
  if (!valid) pz_fields_refuse(&fields, "models", "models with names, as many weights above 0");
  read_import(call, &fields, &options.workload);
  options.objective = (enum pz_objective_kind)read_name(&fields, "objective", pz_objective_names);
  options.evaluator = (enum pz_evaluator_kind)read_name(&fields, "evaluator", pz_evaluator_names);
  if (options.evaluator == PZ_EVALUATOR_TRAINING) {
    options.scale_up = pz_fields_int(&fields, "training.scale_up", COUNT);
    options.outer_bytes_per_s = pz_fields_real(&fields, "training.outer_bytes_per_s", 1, 1e18);
    options.serial = read_name(&fields, "training.execution", execution_names) == 1;
    const char *margin = pz_fields_text_or(&fields, "training.memory_margin", NULL);
    if (margin) options.memory_margin = pz_copy_text(call, margin);
  } else {
    const json_t *cluster = pz_fields_value(&fields, "original.cluster");
    if (json_is_object(cluster)) options.cluster_text = pz_json_format(call, cluster, JSON_COMPACT);
    read_choices(&fields, "original.mbs", &options.mbs);
    read_choices(&fields, "original.hbm_gib", &options.hbm_gib);
    read_choices(&fields, "original.tp", &options.tp);
    options.state = pz_fields_real(&fields, "original.state", 1, 100);
    options.steps = pz_fields_int(&fields, "original.steps", STEPS);
    options.assumptions = (unsigned)pz_fields_int(&fields, "original.assumptions", SET);
    if (!options.cluster_text) pz_fields_refuse(&fields, "original.cluster", "a cluster");
  }
  const json_t *space = pz_fields_value(&fields, "space");
  if (json_is_object(space)) options.space_text = pz_json_format(call, space, JSON_COMPACT);
  if (!options.space_text) pz_fields_refuse(&fields, "space", "a space");
  pz_fields_end(call, &fields);
  return options;
}
