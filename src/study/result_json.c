/* The fields of a result, as tables that core/record.h writes to JSON and reads back.  The
 * tables come in the order of the document; fields that are no plain values have codecs (chip,
 * plan, ratios, uncertainty).  pz_result_parse() and its relatives read a document and check
 * that its parts fit each other: every model has its plan, and comparison and detail belong to
 * the result. */
#include "study/result_json.h"

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

/* Fields of struct pz_OWNER whose type is PZ_FIELD_TYPE: under the name of the member, under
 * another key, as a record of their own, and as a list of records with its length in n_MEMBER. */
#define FIELD(owner, member, type) PZ_FIELD(struct pz_##owner, member, PZ_FIELD_##type)
#define FIELD_AS(owner, member, type, key)                                                         \
  PZ_FIELD_AS(struct pz_##owner, member, PZ_FIELD_##type, key)
#define FIELD_IN(owner, member, type, key, record)                                                 \
  PZ_FIELD_IN(struct pz_##owner, member, PZ_FIELD_##type, key, record)
#define FIELD_MANY(owner, member, type, key, record)                                               \
  PZ_FIELD_MANY(struct pz_##owner, member, PZ_FIELD_##type, key, record)

/* ---- chips and ratios ----------------------------------------------------------------------- */

/* Codec of a chip: the member is a pointer, and a parsed chip is allocated in the call. */
static json_t *write_chip(const void *value) {
  return pz_chip_json(*(const struct pz_chip *const *)value);
}

static void read_chip(struct pz_call *call, const json_t *json, void *value) {
  struct pz_chip *chip = pz_alloc(call, 1, sizeof *chip);
  pz_chip_read_json(call, "the result's chip", json, true, chip);
  *(const struct pz_chip **)value = chip;
}

static const struct pz_field_codec chip_codec = {.write = write_chip, .read = read_chip};

RECORD(least, struct pz_ratios, FIELD_AS(ratios, least_model, TEXT, "model"),
       FIELD_AS(ratios, least, REAL, "ratio"));

RECORD(most, struct pz_ratios, FIELD_AS(ratios, most_model, TEXT, "model"),
       FIELD_AS(ratios, most, REAL, "ratio"));

RECORD(ratios, struct pz_ratios, FIELD_AS(ratios, n_models, COUNT, "models"),
       FIELD(ratios, geometric_mean, REAL), FIELD(ratios, median, REAL),
       {.key = "least", .type = PZ_FIELD_STRUCT, .offset = 0, .record = &least_record},
       {.key = "most", .type = PZ_FIELD_STRUCT, .offset = 0, .record = &most_record});

/* Codec of ratios, which are a summary of two or more models and null for a single one. */
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

/* Sets the plan to its defaults and then to the fields that the JSON object has. */
static void read_plan(struct pz_call *call, const json_t *json, void *value) {
  struct pz_plan *plan = value;
  *plan = pz_plan_default();
  for (enum pz_plan_field field = 0; field < PZ_PLAN_FIELDS; field++) {
    const json_t *member = json_object_get(json, pz_plan_field(field)->name);
    if (member) pz_read_plan_json_field(call, plan, field, member);
  }
}

static const struct pz_field_codec plan_codec = {.write = write_plan, .read = read_plan};

RECORD(parts, struct pz_training_parts, FIELD(training_parts, products_s, REAL),
       FIELD(training_parts, attention_s, REAL), FIELD(training_parts, elementwise_s, REAL),
       FIELD(training_parts, launch_s, REAL), FIELD(training_parts, tensor_s, REAL),
       FIELD(training_parts, expert_s, REAL), FIELD(training_parts, transfer_s, REAL),
       FIELD(training_parts, bubble_s, REAL), FIELD(training_parts, gradient_s, REAL),
       FIELD(training_parts, waiting_s, REAL), FIELD(training_parts, optimizer_s, REAL));

RECORD(training, struct pz_training_answer,
       PZ_FIELD_BY(struct pz_training_answer, plan, "plan", &plan_codec),
       FIELD(training_answer, step_s, REAL), FIELD(training_answer, mfu, REAL),
       FIELD(training_answer, mfu_conventional, REAL), FIELD(training_answer, joules, REAL),
       FIELD(training_answer, peak_bytes, REAL), FIELD(training_answer, usable_bytes, REAL),
       FIELD_IN(training_answer, parts, STRUCT, "parts", &parts_record),
       FIELD(training_answer, full_watts, REAL_KNOWN), FIELD(training_answer, limit_watts, REAL));

RECORD(answer_model, struct pz_answer_model, FIELD(answer_model, model, TEXT),
       FIELD_AS(answer_model, samples_per_s, REAL, "throughput_samples_s"),
       FIELD_AS(answer_model, ratio, REAL_OR_NULL, "ratio_to_reference"),
       FIELD_IN(answer_model, plan, OPTIONAL, "plan", &pz_partition_record),
       FIELD_IN(answer_model, training, OPTIONAL, "training", &training_record));

RECORD(certificate, struct pz_certificate, FIELD_AS(certificate, n_chips, INT, "chips"),
       FIELD_AS(certificate, n_infeasible, INT, "infeasible"),
       FIELD_AS(certificate, n_excluded, INT, "excluded"),
       FIELD_AS(certificate, n_excluded_by_schedules, INT, "excluded_by_schedules"),
       FIELD_AS(certificate, n_evaluated, INT, "evaluated"),
       FIELD_AS(certificate, n_boxes, INT, "boxes"), FIELD_AS(certificate, n_rounds, INT, "rounds"),
       FIELD_AS(certificate, n_open, INT, "open_schedules"), FIELD(certificate, gap, REAL),
       FIELD(certificate, finished, BOOL));

RECORD(uncertainty, struct pz_uncertainty, FIELD(uncertainty, spread, REAL),
       FIELD(uncertainty, low, REAL), FIELD(uncertainty, high, REAL));

/* Codec of an uncertainty, which is null if its spread is 0 because the chips were measured. */
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
  PZ_FIELD_BY(struct pz_answer, chip, "chip", &chip_codec), FIELD(answer, chip_id, INT),           \
      FIELD(answer, hbm_gib, REAL), FIELD(answer, area_mm2, REAL), FIELD(answer, area_part, REAL), \
      FIELD(answer, peak_watts, REAL), FIELD(answer, dollars, REAL_KNOWN),                         \
      FIELD(answer, owner_dollars, REAL_KNOWN), FIELD(answer, edge_mm, REAL_KNOWN),                \
      FIELD(answer, edge_room_mm, REAL_KNOWN), FIELD(answer, objective, REAL),                     \
      PZ_FIELD_BY(struct pz_answer, uncertainty, "uncertainty", &uncertainty_codec),               \
      FIELD_MANY(answer, models, LIST, "models", &answer_model_record),                            \
      PZ_FIELD_BY(struct pz_answer, ratios, "ratios", &ratios_codec)

/* The best chip of all models.  Its certificate is a member of the result. */
RECORD(best, struct pz_answer, ANSWER_FIELDS);

/* The best chip of one model alone. */
RECORD(alone, struct pz_answer, FIELD_AS(answer, name, TEXT, "model"), ANSWER_FIELDS,
       FIELD_IN(answer, certificate, STRUCT, "certificate", &certificate_record));

/* ---- references, steps, front --------------------------------------------------------------- */

RECORD(expert, struct pz_reference_plan, FIELD_AS(reference_plan, pp, INT, "n_stages"),
       FIELD_AS(reference_plan, dp, INT, "data_parallel"),
       FIELD_AS(reference_plan, tp, INT, "tensor_parallel"),
       FIELD_AS(reference_plan, mbs, INT, "microbatch"), FIELD(reference_plan, recompute, BOOL));

RECORD(reference, struct pz_result_reference, FIELD(result_reference, model, TEXT),
       FIELD_AS(result_reference, samples_per_s, REAL, "throughput_samples_s"),
       FIELD(result_reference, hbm_gib, REAL), FIELD(result_reference, expert, BOOL),
       FIELD_IN(result_reference, plan, OPTIONAL, "plan", &expert_record),
       FIELD_IN(result_reference, training, OPTIONAL, "training", &training_record));

RECORD(summary, struct pz_result_chip_summary, FIELD(result_chip_summary, name, TEXT),
       FIELD(result_chip_summary, area_mm2, REAL), FIELD(result_chip_summary, peak_watts, REAL),
       FIELD(result_chip_summary, dollars, REAL_KNOWN), FIELD(result_chip_summary, clock_hz, REAL),
       FIELD(result_chip_summary, tdp_watts, REAL_KNOWN),
       FIELD(result_chip_summary, breaks, TEXT_OR_NULL));

RECORD(step_answer, struct pz_step_answer, FIELD(step_answer, model, TEXT),
       FIELD(step_answer, step_s, REAL),
       FIELD_IN(step_answer, parts, STRUCT, "parts", &parts_record),
       FIELD(step_answer, plan, TEXT));

RECORD(step, struct pz_result_step, FIELD(result_step, parameter, TEXT),
       FIELD(result_step, from, TEXT), FIELD(result_step, to, TEXT),
       FIELD(result_step, objective, REAL), FIELD(result_step, change, REAL),
       FIELD(result_step, change_at_most, REAL), FIELD(result_step, area_mm2, REAL),
       FIELD(result_step, peak_watts, REAL), FIELD(result_step, dollars, REAL_KNOWN),
       FIELD(result_step, breaks, TEXT_OR_NULL), FIELD(result_step, where, TEXT_OR_NULL),
       FIELD(result_step, where_change, REAL),
       FIELD_MANY(result_step, models, LIST, "models", &step_answer_record));

RECORD(moved, struct pz_moved_constant, FIELD(moved_constant, constant, TEXT),
       FIELD(moved_constant, value, REAL), FIELD(moved_constant, objective, REAL),
       FIELD(moved_constant, change, REAL), FIELD(moved_constant, better, TEXT_OR_NULL),
       FIELD(moved_constant, better_by, REAL));

RECORD(robustness, struct pz_robustness,
       FIELD_MANY(robustness, moves, LIST, "constants", &moved_record),
       FIELD_AS(robustness, n_candidates, COUNT, "candidates"), FIELD(robustness, tolerance, REAL),
       FIELD(robustness, robust, BOOL));

RECORD(executions, struct pz_executions, FIELD(executions, serial, REAL),
       FIELD(executions, whole, REAL));

RECORD(front_chip, struct pz_result_front_chip, FIELD(result_front_chip, chip, TEXT),
       FIELD(result_front_chip, objective, REAL), FIELD(result_front_chip, area_mm2, REAL),
       FIELD(result_front_chip, peak_watts, REAL), FIELD(result_front_chip, knee, BOOL));

RECORD(front, struct pz_result_front,
       FIELD_MANY(result_front, points, LIST, "points", &front_chip_record),
       FIELD(result_front, tolerance, REAL),
       FIELD_AS(result_front, n_front_chips, COUNT, "front_chips"),
       FIELD_AS(result_front, n_evaluated, COUNT, "evaluated"));

/* ---- the result ----------------------------------------------------------------------------- */

/* The members of the result except its answers, its inputs, and the parts made on demand. */
RECORD(rest, struct pz_result, FIELD_MANY(result, references, LIST, "reference", &reference_record),
       FIELD_IN(result, reference_chip, STRUCT, "reference_chip", &summary_record),
       FIELD_MANY(result, sensitivity, LIST, "sensitivity", &step_record),
       FIELD_IN(result, robustness, OPTIONAL, "robustness", &robustness_record),
       FIELD_IN(result, executions, OPTIONAL, "executions", &executions_record),
       FIELD_IN(result, front, OPTIONAL, "pareto", &front_record));

/* Returns a result as JSON: answers, the certificate of the best chip, and all other members. */
json_t *pz_result_json(const struct pz_result *result) {
  const struct pz_answer *best = pz_result_best(result);
  const struct pz_study_options *options = &result->inputs.options;
  /* The list "per_model" has the answers for one model alone.  The answer of a single model is
   * listed both as the common one and as its own. */
  bool has_alone = result->n_answers > 1 || options->n_models == 1;
  uint32_t n_alone = has_alone ? options->n_models : 0;
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
  if (json_object_set_new(root, "inputs", pz_json_parse_again(result->inputs.json)) != 0)
    complete = false;
  json_decref(rest);
  if (complete) return root;
  json_decref(root);
  return NULL;
}

/* Returns a result as JSON with the watts of one device and the joules of all during each step. */
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

/* Parses a result: the inputs first, which say how many answers and references it must have. */
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
  bool has_alone = result->n_answers > 1 || options->n_models == 1;
  uint32_t n_alone = has_alone ? options->n_models : 0;
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

RECORD(method_model, struct pz_method_model, FIELD(method_model, model, TEXT),
       FIELD_AS(method_model, samples_per_s, REAL, "throughput_samples_s"),
       FIELD_AS(method_model, ratio, REAL_OR_NULL, "ratio_to_reference"),
       FIELD(method_model, expert_plan, BOOL));

RECORD(method, struct pz_method_result, FIELD(method_result, name, TEXT),
       FIELD(method_result, about, TEXT), FIELD(method_result, chip, TEXT_OR_NULL),
       FIELD(method_result, tensor_cores, INT), FIELD(method_result, rows, INT),
       FIELD(method_result, cols, INT), FIELD(method_result, vector_cores, INT),
       FIELD(method_result, lanes, INT), FIELD(method_result, glb_bytes, INT),
       FIELD(method_result, hbm_gib, REAL), FIELD(method_result, area_mm2, REAL),
       FIELD(method_result, area_part, REAL), FIELD(method_result, objective, REAL),
       PZ_FIELD_BY(struct pz_method_result, ratios, "ratios", &ratios_codec),
       FIELD_MANY(method_result, models, LIST, "models", &method_model_record),
       FIELD_AS(method_result, n_evaluated, COUNT, "evaluated"));

RECORD(comparison_run, struct pz_comparison_run, FIELD(comparison_run, name, TEXT),
       FIELD_MANY(comparison_run, methods, LIST, "methods", &method_record));

RECORD(comparison, struct pz_comparison, FIELD(comparison, seed, INT),
       FIELD_MANY(comparison, runs, LIST, "objective_runs", &comparison_run_record));

json_t *pz_comparison_json(const struct pz_result *result) {
  return pz_record_json(&comparison_record, result->comparison);
}

/* Parses a comparison with baselines, which must belong to the answers of the result. */
void pz_comparison_parse(struct pz_call *call, const json_t *json, struct pz_result *result) {
  struct pz_call result_call = pz_call_in(call, result->arena);
  struct pz_comparison *comparison = pz_alloc(&result_call, 1, sizeof *comparison);
  pz_record_parse(&result_call, &comparison_record, json, "the comparison", comparison);
  /* Every answer must have all methods in the comparison, with the search as the last one. */
  bool fits = comparison->n_runs == result->n_answers;
  for (uint32_t i = 0; i < comparison->n_runs && fits; i++) {
    const struct pz_comparison_run *run = &comparison->runs[i];
    const struct pz_answer *answer = &result->answers[i];
    fits = run->name && strcmp(run->name, answer->name) == 0 && run->n_methods > 0 &&
           run->n_methods == comparison->runs[0].n_methods;
    for (uint32_t k = 0; k < run->n_methods && fits; k++) {
      const struct pz_method_result *method = &run->methods[k];
      bool is_search = k == run->n_methods - 1;
      fits = method->name && method->about && method->n_models == answer->n_models &&
             (!is_search || strcmp(method->name, PZ_METHOD_SEARCH) == 0);
    }
  }
  if (!fits) pz_raise(call, PZ_BAD_INPUT, "the comparison is not of this run; see phaze verify");
  result->comparison = comparison;
}

/* ---- the detail ----------------------------------------------------------------------------- */

#define USE_FIELDS(s)                                                                              \
  FIELD_AS(s, use[PZ_TENSOR_CORES], REAL, "tensor_use"),                                           \
      FIELD_AS(s, use[PZ_VECTOR_CORES], REAL, "vector_use"),                                       \
      FIELD_AS(s, use[PZ_LINK], REAL, "link_use"), FIELD_AS(s, use[PZ_HBM_RATE], REAL, "hbm_use"), \
      FIELD_AS(s, use[PZ_GLB_RATE], REAL, "glb_use")

RECORD(chip_plan, struct pz_chip_plan, FIELD(chip_plan, chip_id, INT),
       FIELD(chip_plan, model, COUNT), FIELD(chip_plan, samples_per_s, REAL),
       FIELD_AS(chip_plan, pp, INT, "n_stages"), FIELD_AS(chip_plan, dp, INT, "data_parallel"),
       FIELD_AS(chip_plan, tp, INT, "tensor_parallel"), FIELD_AS(chip_plan, mbs, INT, "microbatch"),
       FIELD(chip_plan, recompute, BOOL), FIELD_AS(chip_plan, parts.compute_s, REAL, "compute_s"),
       FIELD_AS(chip_plan, parts.collectives_s, REAL, "collectives_s"),
       FIELD_AS(chip_plan, parts.transfers_s, REAL, "transfers_s"),
       FIELD_AS(chip_plan, parts.bubble_s, REAL, "bubble_s"),
       FIELD_AS(chip_plan, parts.exchange_s, REAL, "exchange_s"), USE_FIELDS(chip_plan));

static const char *const class_names[] = {"tensor", "vector", "fused", "none", "collective", NULL};
static const char *const direction_names[] = {"forward", "backward", NULL};

RECORD(operator, struct pz_scheduled_operator, FIELD(scheduled_operator, name, TEXT),
       PZ_FIELD_NAMED(struct pz_scheduled_operator, op_class, "class", class_names),
       FIELD(scheduled_operator, tensor_cores, INT), FIELD(scheduled_operator, vector_cores, INT),
       FIELD(scheduled_operator, start_s, REAL), FIELD(scheduled_operator, end_s, REAL),
       FIELD_AS(scheduled_operator, used[PZ_LINK], REAL, "link"),
       FIELD_AS(scheduled_operator, used[PZ_HBM_RATE], REAL, "hbm"),
       FIELD_AS(scheduled_operator, used[PZ_GLB_RATE], REAL, "glb"),
       FIELD_AS(scheduled_operator, used[PZ_POWER], REAL, "power"));

RECORD(schedule, struct pz_layer_schedule, FIELD(layer_schedule, model, TEXT),
       FIELD(layer_schedule, layer, TEXT), FIELD(layer_schedule, count, INT),
       PZ_FIELD_NAMED(struct pz_layer_schedule, direction, "direction", direction_names),
       FIELD(layer_schedule, makespan_s, REAL), FIELD(layer_schedule, lower_bound_s, REAL),
       FIELD(layer_schedule, optimal, BOOL), FIELD(layer_schedule, serial_s, REAL),
       USE_FIELDS(layer_schedule), FIELD_AS(layer_schedule, use[PZ_POWER], REAL, "power_use"),
       FIELD_MANY(layer_schedule, operators, TABLE, "operators", &operator_record));

RECORD(shown, struct pz_shown_chip, FIELD(shown_chip, answer, COUNT),
       FIELD(shown_chip, chip_id, INT), FIELD(shown_chip, value, REAL),
       FIELD(shown_chip, bound, REAL), FIELD(shown_chip, evaluated, BOOL));

RECORD(detail, struct pz_result_detail,
       FIELD_MANY(result_detail, shown, TABLE, "chips", &shown_record),
       FIELD_MANY(result_detail, plans, TABLE, "plans", &chip_plan_record),
       FIELD_MANY(result_detail, schedules, LIST, "schedules", &schedule_record));

json_t *pz_detail_json(const struct pz_result *result) {
  return pz_record_json(&detail_record, result->detail);
}

/* Parses the data of a report, which must belong to the models and answers of the result. */
void pz_detail_parse(struct pz_call *call, const json_t *json, struct pz_result *result) {
  struct pz_call result_call = pz_call_in(call, result->arena);
  struct pz_result_detail *detail = pz_alloc(&result_call, 1, sizeof *detail);
  pz_record_parse(&result_call, &detail_record, json, "the report's data", detail);
  bool fits = true;
  for (uint32_t i = 0; i < detail->n_plans; i++)
    if (detail->plans[i].model >= result->inputs.options.n_models) fits = false;
  for (uint32_t i = 0; i < detail->n_shown; i++)
    if (detail->shown[i].answer >= result->n_answers) fits = false;
  for (uint32_t i = 0; i < detail->n_schedules; i++)
    if (!detail->schedules[i].model || !detail->schedules[i].layer) fits = false;
  if (!fits)
    pz_raise(call, PZ_BAD_INPUT, "the report's data are not of this run; see phaze verify");
  result->detail = detail;
}
