/* The fields of a result, as tables that core/record.h writes to JSON and reads back.  The
 * tables come in the order of the document; fields that are no plain values have codecs (chip,
 * plan, ratios, uncertainty).  pz_result_parse() and its relatives read a document and check
 * that its parts fit each other: every model has its plan, and comparison and detail belong to
 * the result. */
#include "study/result_json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/record.h"
#include "partition/partition.h"
#include "plan/plan_fields.h"

/* Defines the table of a struct's fields and the record NAME_record that contains it. */
#define RECORD(name, type, ...)                                                                    \
  static const struct pz_field name##_fields[] = {__VA_ARGS__};                                    \
  static const struct pz_record name##_record = PZ_RECORD(name##_fields, type)

/* ---- chips and ratios ----------------------------------------------------------------------- */

static json_t *write_chip(const void *value) {
  return pz_chip_json(*(const struct pz_chip *const *)value);
}

static void read_chip(struct pz_call *call, const json_t *json, void *value) {
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  pz_chip_read_json(call, "the result's chip", json, true, chip);
  *(const struct pz_chip **)value = chip;
}

static const struct pz_field_codec chip_codec = {.write = write_chip, .read = read_chip};

RECORD(least, struct pz_ratios, PZ_FIELD_AS(struct pz_ratios, least_model, PZ_FIELD_TEXT, "model"),
       PZ_FIELD_AS(struct pz_ratios, least, PZ_FIELD_REAL, "ratio"));

RECORD(most, struct pz_ratios, PZ_FIELD_AS(struct pz_ratios, most_model, PZ_FIELD_TEXT, "model"),
       PZ_FIELD_AS(struct pz_ratios, most, PZ_FIELD_REAL, "ratio"));

RECORD(ratios, struct pz_ratios, PZ_FIELD_AS(struct pz_ratios, n_models, PZ_FIELD_COUNT, "models"),
       PZ_FIELD(struct pz_ratios, geometric_mean, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_ratios, median, PZ_FIELD_REAL),
       {.key = "least", .type = PZ_FIELD_STRUCT, .offset = 0, .record = &least_record},
       {.key = "most", .type = PZ_FIELD_STRUCT, .offset = 0, .record = &most_record});

/* Ratios are summarised for two or more models; otherwise they are null. */
static json_t *write_ratios(const void *value) {
  const struct pz_ratios *ratios = value;
  return ratios->n_models < 2 ? json_null() : pz_record_json(&ratios_record, ratios);
}

static void read_ratios(struct pz_call *call, const json_t *json, void *value) {
  *(struct pz_ratios *)value = (struct pz_ratios){0};
  if (!json_is_null(json)) pz_record_parse(call, &ratios_record, json, "ratios", value);
}

static const struct pz_field_codec ratios_codec = {.write = write_ratios, .read = read_ratios};

/* ---- answers -------------------------------------------------------------------------------- */

static json_t *write_plan(const void *value) { return pz_plan_json(value); }

static void read_plan(struct pz_call *call, const json_t *json, void *value) {
  struct pz_plan *plan = value;
  *plan = pz_plan_default();
  for (enum pz_plan_field field = 0; field < PZ_PLAN_FIELDS; field++) {
    const json_t *member = json_object_get(json, pz_plan_field(field)->name);
    if (member) pz_read_plan_json_field(call, plan, field, member);
  }
}

static const struct pz_field_codec plan_codec = {.write = write_plan, .read = read_plan};

RECORD(parts, struct pz_training_parts,
       PZ_FIELD(struct pz_training_parts, products_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_parts, attention_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_parts, elementwise_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_parts, launch_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_parts, tensor_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_parts, expert_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_parts, transfer_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_parts, bubble_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_parts, gradient_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_parts, waiting_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_parts, optimizer_s, PZ_FIELD_REAL));

RECORD(training, struct pz_training_answer,
       PZ_FIELD_BY(struct pz_training_answer, plan, "plan", &plan_codec),
       PZ_FIELD(struct pz_training_answer, step_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_answer, mfu, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_answer, mfu_conventional, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_answer, joules, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_answer, peak_bytes, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_training_answer, usable_bytes, PZ_FIELD_REAL),
       PZ_FIELD_IN(struct pz_training_answer, parts, PZ_FIELD_STRUCT, "parts", &parts_record),
       PZ_FIELD(struct pz_training_answer, full_watts, PZ_FIELD_REAL_KNOWN),
       PZ_FIELD(struct pz_training_answer, limit_watts, PZ_FIELD_REAL));

RECORD(answer_model, struct pz_answer_model, PZ_FIELD(struct pz_answer_model, model, PZ_FIELD_TEXT),
       PZ_FIELD_AS(struct pz_answer_model, samples_per_s, PZ_FIELD_REAL, "throughput_samples_s"),
       PZ_FIELD_AS(struct pz_answer_model, ratio, PZ_FIELD_REAL_OR_NULL, "ratio_to_reference"),
       PZ_FIELD_IN(struct pz_answer_model, plan, PZ_FIELD_OPTIONAL, "plan", &pz_partition_record),
       PZ_FIELD_IN(struct pz_answer_model, training, PZ_FIELD_OPTIONAL, "training",
                   &training_record));

RECORD(certificate, struct pz_certificate,
       PZ_FIELD_AS(struct pz_certificate, n_chips, PZ_FIELD_INT, "chips"),
       PZ_FIELD_AS(struct pz_certificate, n_infeasible, PZ_FIELD_INT, "infeasible"),
       PZ_FIELD_AS(struct pz_certificate, n_excluded, PZ_FIELD_INT, "excluded"),
       PZ_FIELD_AS(struct pz_certificate, n_excluded_by_schedules, PZ_FIELD_INT,
                   "excluded_by_schedules"),
       PZ_FIELD_AS(struct pz_certificate, n_evaluated, PZ_FIELD_INT, "evaluated"),
       PZ_FIELD_AS(struct pz_certificate, n_boxes, PZ_FIELD_INT, "boxes"),
       PZ_FIELD_AS(struct pz_certificate, n_rounds, PZ_FIELD_INT, "rounds"),
       PZ_FIELD_AS(struct pz_certificate, n_open, PZ_FIELD_INT, "open_schedules"),
       PZ_FIELD(struct pz_certificate, gap, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_certificate, finished, PZ_FIELD_BOOL));

RECORD(uncertainty, struct pz_uncertainty, PZ_FIELD(struct pz_uncertainty, spread, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_uncertainty, low, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_uncertainty, high, PZ_FIELD_REAL));

static json_t *write_uncertainty(const void *value) {
  const struct pz_uncertainty *uncertainty = value;
  return uncertainty->spread > 0 ? pz_record_json(&uncertainty_record, uncertainty) : json_null();
}

static void read_uncertainty(struct pz_call *call, const json_t *json, void *value) {
  *(struct pz_uncertainty *)value = (struct pz_uncertainty){0};
  if (!json_is_null(json)) pz_record_parse(call, &uncertainty_record, json, "uncertainty", value);
}

static const struct pz_field_codec uncertainty_codec = {.write = write_uncertainty,
                                                        .read = read_uncertainty};

#define ANSWER_FIELDS                                                                              \
  PZ_FIELD_BY(struct pz_answer, chip, "chip", &chip_codec),                                        \
      PZ_FIELD(struct pz_answer, chip_id, PZ_FIELD_INT),                                           \
      PZ_FIELD(struct pz_answer, hbm_gib, PZ_FIELD_REAL),                                          \
      PZ_FIELD(struct pz_answer, area_mm2, PZ_FIELD_REAL),                                         \
      PZ_FIELD(struct pz_answer, area_part, PZ_FIELD_REAL),                                        \
      PZ_FIELD(struct pz_answer, peak_watts, PZ_FIELD_REAL),                                       \
      PZ_FIELD(struct pz_answer, dollars, PZ_FIELD_REAL_KNOWN),                                    \
      PZ_FIELD(struct pz_answer, owner_dollars, PZ_FIELD_REAL_KNOWN),                              \
      PZ_FIELD(struct pz_answer, edge_mm, PZ_FIELD_REAL_KNOWN),                                    \
      PZ_FIELD(struct pz_answer, edge_room_mm, PZ_FIELD_REAL_KNOWN),                               \
      PZ_FIELD(struct pz_answer, objective, PZ_FIELD_REAL),                                        \
      PZ_FIELD_BY(struct pz_answer, uncertainty, "uncertainty", &uncertainty_codec),               \
      PZ_FIELD_MANY(struct pz_answer, models, PZ_FIELD_LIST, "models", &answer_model_record),      \
      PZ_FIELD_BY(struct pz_answer, ratios, "ratios", &ratios_codec)

/* The best chip of all models.  Its certificate is a member of the result. */
RECORD(best, struct pz_answer, ANSWER_FIELDS);

/* The best chip of one model alone. */
RECORD(alone, struct pz_answer, PZ_FIELD_AS(struct pz_answer, name, PZ_FIELD_TEXT, "model"),
       ANSWER_FIELDS,
       PZ_FIELD_IN(struct pz_answer, certificate, PZ_FIELD_STRUCT, "certificate",
                   &certificate_record));

/* ---- references, steps, front --------------------------------------------------------------- */

RECORD(expert, struct pz_reference_plan,
       PZ_FIELD_AS(struct pz_reference_plan, pp, PZ_FIELD_INT, "n_stages"),
       PZ_FIELD_AS(struct pz_reference_plan, dp, PZ_FIELD_INT, "data_parallel"),
       PZ_FIELD_AS(struct pz_reference_plan, tp, PZ_FIELD_INT, "tensor_parallel"),
       PZ_FIELD_AS(struct pz_reference_plan, mbs, PZ_FIELD_INT, "microbatch"),
       PZ_FIELD(struct pz_reference_plan, recompute, PZ_FIELD_BOOL));

RECORD(reference, struct pz_result_reference,
       PZ_FIELD(struct pz_result_reference, model, PZ_FIELD_TEXT),
       PZ_FIELD_AS(struct pz_result_reference, samples_per_s, PZ_FIELD_REAL,
                   "throughput_samples_s"),
       PZ_FIELD(struct pz_result_reference, hbm_gib, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_reference, expert, PZ_FIELD_BOOL),
       PZ_FIELD_IN(struct pz_result_reference, plan, PZ_FIELD_OPTIONAL, "plan", &expert_record),
       PZ_FIELD_IN(struct pz_result_reference, training, PZ_FIELD_OPTIONAL, "training",
                   &training_record));

RECORD(summary, struct pz_result_chip_summary,
       PZ_FIELD(struct pz_result_chip_summary, name, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_result_chip_summary, area_mm2, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_chip_summary, peak_watts, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_chip_summary, dollars, PZ_FIELD_REAL_KNOWN),
       PZ_FIELD(struct pz_result_chip_summary, clock_hz, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_chip_summary, tdp_watts, PZ_FIELD_REAL_KNOWN),
       PZ_FIELD(struct pz_result_chip_summary, breaks, PZ_FIELD_TEXT_OR_NULL));

RECORD(step_answer, struct pz_step_answer, PZ_FIELD(struct pz_step_answer, model, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_step_answer, step_s, PZ_FIELD_REAL),
       PZ_FIELD_IN(struct pz_step_answer, parts, PZ_FIELD_STRUCT, "parts", &parts_record),
       PZ_FIELD(struct pz_step_answer, plan, PZ_FIELD_TEXT));

RECORD(step, struct pz_result_step, PZ_FIELD(struct pz_result_step, parameter, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_result_step, from, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_result_step, to, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_result_step, objective, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_step, change, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_step, change_at_most, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_step, area_mm2, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_step, peak_watts, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_step, dollars, PZ_FIELD_REAL_KNOWN),
       PZ_FIELD(struct pz_result_step, breaks, PZ_FIELD_TEXT_OR_NULL),
       PZ_FIELD(struct pz_result_step, where, PZ_FIELD_TEXT_OR_NULL),
       PZ_FIELD(struct pz_result_step, where_change, PZ_FIELD_REAL),
       PZ_FIELD_MANY(struct pz_result_step, models, PZ_FIELD_LIST, "models", &step_answer_record));

RECORD(moved, struct pz_moved_constant, PZ_FIELD(struct pz_moved_constant, constant, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_moved_constant, value, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_moved_constant, objective, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_moved_constant, change, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_moved_constant, better, PZ_FIELD_TEXT_OR_NULL),
       PZ_FIELD(struct pz_moved_constant, better_by, PZ_FIELD_REAL));

RECORD(robustness, struct pz_robustness,
       PZ_FIELD_MANY(struct pz_robustness, moves, PZ_FIELD_LIST, "constants", &moved_record),
       PZ_FIELD_AS(struct pz_robustness, n_candidates, PZ_FIELD_COUNT, "candidates"),
       PZ_FIELD(struct pz_robustness, tolerance, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_robustness, robust, PZ_FIELD_BOOL));

RECORD(executions, struct pz_executions, PZ_FIELD(struct pz_executions, serial, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_executions, whole, PZ_FIELD_REAL));

RECORD(front_chip, struct pz_result_front_chip,
       PZ_FIELD(struct pz_result_front_chip, chip, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_result_front_chip, objective, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_front_chip, area_mm2, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_front_chip, peak_watts, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_result_front_chip, knee, PZ_FIELD_BOOL));

RECORD(front, struct pz_result_front,
       PZ_FIELD_MANY(struct pz_result_front, points, PZ_FIELD_LIST, "points", &front_chip_record),
       PZ_FIELD(struct pz_result_front, tolerance, PZ_FIELD_REAL),
       PZ_FIELD_AS(struct pz_result_front, n_front_chips, PZ_FIELD_COUNT, "front_chips"),
       PZ_FIELD_AS(struct pz_result_front, n_evaluated, PZ_FIELD_COUNT, "evaluated"));

/* ---- the result ----------------------------------------------------------------------------- */

/* The members of the result except its answers. */
RECORD(rest, struct pz_result,
       PZ_FIELD_MANY(struct pz_result, references, PZ_FIELD_LIST, "reference", &reference_record),
       PZ_FIELD_IN(struct pz_result, reference_chip, PZ_FIELD_STRUCT, "reference_chip",
                   &summary_record),
       PZ_FIELD_MANY(struct pz_result, sensitivity, PZ_FIELD_LIST, "sensitivity", &step_record),
       PZ_FIELD_IN(struct pz_result, robustness, PZ_FIELD_OPTIONAL, "robustness",
                   &robustness_record),
       PZ_FIELD_IN(struct pz_result, executions, PZ_FIELD_OPTIONAL, "executions",
                   &executions_record),
       PZ_FIELD_IN(struct pz_result, front, PZ_FIELD_OPTIONAL, "pareto", &front_record));

json_t *pz_result_inputs_json(const struct pz_result *result) {
  return pz_json_parse_again(result->inputs.json);
}

/* Returns the number of answers for one model alone.  If there is a single model, its answer is
 * listed both as the common one and as its own. */
static uint32_t count_alone(const struct pz_result *result) {
  uint32_t n_models = result->inputs.options.n_models;
  return result->n_answers > 1 || n_models == 1 ? n_models : 0;
}

json_t *pz_result_json(const struct pz_result *result) {
  const struct pz_answer *best = pz_result_best(result);
  const struct pz_study_options *options = &result->inputs.options;
  uint32_t n_alone = count_alone(result);
  json_t *rest = pz_record_json(&rest_record, result), *alone = json_array();
  bool complete = rest && alone;
  for (uint32_t model = 0; model < n_alone && complete; model++)
    complete =
        json_array_append_new(alone, pz_record_json(&alone_record, &result->answers[model])) == 0;
  json_t *root =
      json_pack("{s:o,s:o,s:o}", "best", pz_record_json(&best_record, best), "per_model", alone,
                "certificate", pz_record_json(&certificate_record, &best->certificate));
  json_t *objective = json_pack("{s:s,s:s,s:s}", "name", pz_objective_names[options->objective],
                                "meaning", pz_objective_unit(options->objective), "evaluator",
                                pz_evaluator_names[options->evaluator]);
  complete = root && complete && json_object_update(root, rest) == 0;
  if (json_object_set_new(root, "objective", objective) != 0) complete = false;
  if (json_object_set_new(root, "inputs", pz_result_inputs_json(result)) != 0) complete = false;
  json_decref(rest);
  if (complete) return root;
  json_decref(root);
  return NULL;
}

/* Adds the power of one device during a step, and the energy of all devices over the step. */
json_t *pz_result_display_json(const struct pz_result *result) {
  const struct pz_answer *best = pz_result_best(result);
  json_t *root = pz_result_json(result), *shown = json_object_get(root, "best");
  if (!root || !best->n_models || !best->models[0].training) return root;
  json_t *watts = json_array();
  for (uint32_t i = 0; i < best->n_models; i++) {
    const struct pz_training_answer *training = best->models[i].training;
    json_array_append_new(watts,
                          training->full_watts > 0 ? json_real(training->full_watts) : json_null());
    json_object_set_new(json_array_get(json_object_get(shown, "models"), i), "joules",
                        json_real(training->joules));
  }
  json_object_set_new(shown, "power",
                      json_pack("{s:f,s:o,s:f}", "limit_watts",
                                best->models[0].training->limit_watts, "full_watts", watts,
                                "gemm_hz", pz_chip_gemm_hz(best->chip)));
  return root;
}

void pz_result_parse(struct pz_call *call, const json_t *json, struct pz_result *result) {
  struct pz_call result_call = pz_call_in(call, result->arena);
  const json_t *inputs = json_object_get(json, "inputs");
  if (!inputs) pz_raise(call, PZ_BAD_INPUT, "the result has no inputs");
  char *text = pz_json_format(call, inputs, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
  pz_result_set_inputs(call, result, text);
  const struct pz_study_options *options = &result->inputs.options;
  result->n_answers = options->n_models > 1 && options->each_model ? options->n_models + 1 : 1;
  result->answers = pz_alloc(&result_call, result->n_answers, sizeof *result->answers);

  const json_t *alone = json_object_get(json, "per_model");
  uint32_t n_alone = count_alone(result);
  if (json_array_size(alone) != n_alone)
    pz_raise(call, PZ_BAD_INPUT, "the result has %zu models alone; accepted: %u",
             json_array_size(alone), n_alone);
  for (uint32_t model = 0; model < n_alone; model++) {
    struct pz_answer *answer = &result->answers[model];
    pz_record_parse(&result_call, &alone_record, json_array_get(alone, model),
                    "the result: per_model", answer);
    if (answer->n_models != 1 || !answer->name)
      pz_raise(call, PZ_BAD_INPUT, "the result: per_model has %u models; accepted: 1",
               answer->n_models);
  }

  struct pz_answer *best = &result->answers[result->n_answers - 1];
  pz_record_parse(&result_call, &best_record, json_object_get(json, "best"), "the result: best",
                  best);
  pz_record_parse(&result_call, &certificate_record, json_object_get(json, "certificate"),
                  "the result: certificate", &best->certificate);
  if (best->n_models != options->n_models)
    pz_raise(call, PZ_BAD_INPUT, "the result: best has %u models; accepted: %u", best->n_models,
             options->n_models);
  if (!best->name) best->name = "common";
  for (uint32_t i = 0; i < result->n_answers; i++)
    for (uint32_t k = 0; k < result->answers[i].n_models; k++) {
      const struct pz_answer_model *model = &result->answers[i].models[k];
      bool has_plan = options->evaluator == PZ_EVALUATOR_TRAINING ? model->training != NULL
                                                                  : model->plan != NULL;
      if (!has_plan) pz_raise(call, PZ_BAD_INPUT, "the result: %s has no plan", model->model);
    }

  /* A record refuses unknown keys, so its own keys are copied into an object without the others. */
  json_t *rest = pz_json_built(call, json_object());
  for (size_t i = 0; i < rest_record.n_fields; i++) {
    const char *key = rest_record.fields[i].key;
    json_t *value = json_object_get(json, key);
    if (value && json_object_set(rest, key, value) != 0) pz_raise_memory(call, "the result");
  }
  pz_record_parse(&result_call, &rest_record, rest, "the result", result);
  if (result->n_references != options->n_models)
    pz_raise(call, PZ_BAD_INPUT, "the result has %u references; accepted: %u", result->n_references,
             options->n_models);
}

/* ---- the comparison ------------------------------------------------------------------------- */

RECORD(method_model, struct pz_method_model, PZ_FIELD(struct pz_method_model, model, PZ_FIELD_TEXT),
       PZ_FIELD_AS(struct pz_method_model, samples_per_s, PZ_FIELD_REAL, "throughput_samples_s"),
       PZ_FIELD_AS(struct pz_method_model, ratio, PZ_FIELD_REAL_OR_NULL, "ratio_to_reference"),
       PZ_FIELD(struct pz_method_model, expert_plan, PZ_FIELD_BOOL));

RECORD(method, struct pz_method_result, PZ_FIELD(struct pz_method_result, name, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_method_result, about, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_method_result, chip, PZ_FIELD_TEXT_OR_NULL),
       PZ_FIELD(struct pz_method_result, tensor_cores, PZ_FIELD_INT),
       PZ_FIELD(struct pz_method_result, rows, PZ_FIELD_INT),
       PZ_FIELD(struct pz_method_result, cols, PZ_FIELD_INT),
       PZ_FIELD(struct pz_method_result, vector_cores, PZ_FIELD_INT),
       PZ_FIELD(struct pz_method_result, lanes, PZ_FIELD_INT),
       PZ_FIELD(struct pz_method_result, glb_bytes, PZ_FIELD_INT),
       PZ_FIELD(struct pz_method_result, hbm_gib, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_method_result, area_mm2, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_method_result, area_part, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_method_result, objective, PZ_FIELD_REAL),
       PZ_FIELD_BY(struct pz_method_result, ratios, "ratios", &ratios_codec),
       PZ_FIELD_MANY(struct pz_method_result, models, PZ_FIELD_LIST, "models",
                     &method_model_record),
       PZ_FIELD_AS(struct pz_method_result, n_evaluated, PZ_FIELD_COUNT, "evaluated"));

RECORD(comparison_run, struct pz_comparison_run,
       PZ_FIELD(struct pz_comparison_run, name, PZ_FIELD_TEXT),
       PZ_FIELD_MANY(struct pz_comparison_run, methods, PZ_FIELD_LIST, "methods", &method_record));

RECORD(comparison, struct pz_comparison, PZ_FIELD(struct pz_comparison, seed, PZ_FIELD_INT),
       PZ_FIELD_MANY(struct pz_comparison, runs, PZ_FIELD_LIST, "objective_runs",
                     &comparison_run_record));

json_t *pz_comparison_json(const struct pz_result *result) {
  return pz_record_json(&comparison_record, result->comparison);
}

/* Returns whether every answer has all methods in the comparison, the search as the last. */
static bool comparison_fits(const struct pz_result *result,
                            const struct pz_comparison *comparison) {
  if (comparison->n_runs != result->n_answers) return false;
  for (uint32_t i = 0; i < comparison->n_runs; i++) {
    const struct pz_comparison_run *run = &comparison->runs[i];
    if (!run->name || strcmp(run->name, result->answers[i].name) != 0) return false;
    if (run->n_methods != comparison->runs[0].n_methods || run->n_methods == 0) return false;
    for (uint32_t k = 0; k < run->n_methods; k++) {
      const struct pz_method_result *method = &run->methods[k];
      if (!method->name || !method->about || method->n_models != result->answers[i].n_models)
        return false;
    }
    if (strcmp(run->methods[run->n_methods - 1].name, PZ_METHOD_SEARCH) != 0) return false;
  }
  return true;
}

void pz_comparison_parse(struct pz_call *call, const json_t *json, struct pz_result *result) {
  struct pz_call result_call = pz_call_in(call, result->arena);
  struct pz_comparison *comparison = pz_alloc(&result_call, 1, sizeof *comparison);
  pz_record_parse(&result_call, &comparison_record, json, "the comparison", comparison);
  if (!comparison_fits(result, comparison))
    pz_raise(call, PZ_BAD_INPUT, "the comparison is not of this run; see phaze verify");
  result->comparison = comparison;
}

/* ---- the detail ----------------------------------------------------------------------------- */

#define USE_FIELDS(s)                                                                              \
  PZ_FIELD_AS(s, use[PZ_TENSOR_CORES], PZ_FIELD_REAL, "tensor_use"),                               \
      PZ_FIELD_AS(s, use[PZ_VECTOR_CORES], PZ_FIELD_REAL, "vector_use"),                           \
      PZ_FIELD_AS(s, use[PZ_LINK], PZ_FIELD_REAL, "link_use"),                                     \
      PZ_FIELD_AS(s, use[PZ_HBM_RATE], PZ_FIELD_REAL, "hbm_use"),                                  \
      PZ_FIELD_AS(s, use[PZ_GLB_RATE], PZ_FIELD_REAL, "glb_use")

RECORD(chip_plan, struct pz_chip_plan, PZ_FIELD(struct pz_chip_plan, chip_id, PZ_FIELD_INT),
       PZ_FIELD(struct pz_chip_plan, model, PZ_FIELD_COUNT),
       PZ_FIELD(struct pz_chip_plan, samples_per_s, PZ_FIELD_REAL),
       PZ_FIELD_AS(struct pz_chip_plan, pp, PZ_FIELD_INT, "n_stages"),
       PZ_FIELD_AS(struct pz_chip_plan, dp, PZ_FIELD_INT, "data_parallel"),
       PZ_FIELD_AS(struct pz_chip_plan, tp, PZ_FIELD_INT, "tensor_parallel"),
       PZ_FIELD_AS(struct pz_chip_plan, mbs, PZ_FIELD_INT, "microbatch"),
       PZ_FIELD(struct pz_chip_plan, recompute, PZ_FIELD_BOOL),
       PZ_FIELD_AS(struct pz_chip_plan, parts.compute_s, PZ_FIELD_REAL, "compute_s"),
       PZ_FIELD_AS(struct pz_chip_plan, parts.collectives_s, PZ_FIELD_REAL, "collectives_s"),
       PZ_FIELD_AS(struct pz_chip_plan, parts.transfers_s, PZ_FIELD_REAL, "transfers_s"),
       PZ_FIELD_AS(struct pz_chip_plan, parts.bubble_s, PZ_FIELD_REAL, "bubble_s"),
       PZ_FIELD_AS(struct pz_chip_plan, parts.exchange_s, PZ_FIELD_REAL, "exchange_s"),
       USE_FIELDS(struct pz_chip_plan));

static const char *const class_names[] = {"tensor", "vector", "fused", "none", "collective", NULL};
static const char *const direction_names[] = {"forward", "backward", NULL};

RECORD(operator, struct pz_scheduled_operator,
       PZ_FIELD(struct pz_scheduled_operator, name, PZ_FIELD_TEXT),
       PZ_FIELD_NAMED(struct pz_scheduled_operator, op_class, "class", class_names),
       PZ_FIELD(struct pz_scheduled_operator, tensor_cores, PZ_FIELD_INT),
       PZ_FIELD(struct pz_scheduled_operator, vector_cores, PZ_FIELD_INT),
       PZ_FIELD(struct pz_scheduled_operator, start_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_scheduled_operator, end_s, PZ_FIELD_REAL),
       PZ_FIELD_AS(struct pz_scheduled_operator, used[PZ_LINK], PZ_FIELD_REAL, "link"),
       PZ_FIELD_AS(struct pz_scheduled_operator, used[PZ_HBM_RATE], PZ_FIELD_REAL, "hbm"),
       PZ_FIELD_AS(struct pz_scheduled_operator, used[PZ_GLB_RATE], PZ_FIELD_REAL, "glb"),
       PZ_FIELD_AS(struct pz_scheduled_operator, used[PZ_POWER], PZ_FIELD_REAL, "power"));

RECORD(schedule, struct pz_layer_schedule, PZ_FIELD(struct pz_layer_schedule, model, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_layer_schedule, layer, PZ_FIELD_TEXT),
       PZ_FIELD(struct pz_layer_schedule, count, PZ_FIELD_INT),
       PZ_FIELD_NAMED(struct pz_layer_schedule, direction, "direction", direction_names),
       PZ_FIELD(struct pz_layer_schedule, makespan_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_layer_schedule, lower_bound_s, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_layer_schedule, optimal, PZ_FIELD_BOOL),
       PZ_FIELD(struct pz_layer_schedule, serial_s, PZ_FIELD_REAL),
       USE_FIELDS(struct pz_layer_schedule),
       PZ_FIELD_AS(struct pz_layer_schedule, use[PZ_POWER], PZ_FIELD_REAL, "power_use"),
       PZ_FIELD_MANY(struct pz_layer_schedule, operators, PZ_FIELD_TABLE, "operators",
                     &operator_record));

RECORD(shown, struct pz_shown_chip, PZ_FIELD(struct pz_shown_chip, answer, PZ_FIELD_COUNT),
       PZ_FIELD(struct pz_shown_chip, chip_id, PZ_FIELD_INT),
       PZ_FIELD(struct pz_shown_chip, value, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_shown_chip, bound, PZ_FIELD_REAL),
       PZ_FIELD(struct pz_shown_chip, evaluated, PZ_FIELD_BOOL));

RECORD(detail, struct pz_result_detail,
       PZ_FIELD_MANY(struct pz_result_detail, shown, PZ_FIELD_TABLE, "chips", &shown_record),
       PZ_FIELD_MANY(struct pz_result_detail, plans, PZ_FIELD_TABLE, "plans", &chip_plan_record),
       PZ_FIELD_MANY(struct pz_result_detail, schedules, PZ_FIELD_LIST, "schedules",
                     &schedule_record));

json_t *pz_detail_json(const struct pz_result *result) {
  return pz_record_json(&detail_record, result->detail);
}

/* Returns whether the detail refers to models and answers of the result, and has names. */
static bool detail_fits(const struct pz_result *result, const struct pz_result_detail *detail) {
  for (uint32_t i = 0; i < detail->n_plans; i++)
    if (detail->plans[i].model >= result->inputs.options.n_models) return false;
  for (uint32_t i = 0; i < detail->n_shown; i++)
    if (detail->shown[i].answer >= result->n_answers) return false;
  for (uint32_t i = 0; i < detail->n_schedules; i++)
    if (!detail->schedules[i].model || !detail->schedules[i].layer) return false;
  return true;
}

void pz_detail_parse(struct pz_call *call, const json_t *json, struct pz_result *result) {
  struct pz_call result_call = pz_call_in(call, result->arena);
  struct pz_result_detail *detail = pz_alloc(&result_call, 1, sizeof *detail);
  pz_record_parse(&result_call, &detail_record, json, "the report's data", detail);
  if (!detail_fits(result, detail))
    pz_raise(call, PZ_BAD_INPUT, "the report's data are not of this run; see phaze verify");
  result->detail = detail;
}
