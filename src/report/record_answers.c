/* Records of the answers about training plans: `phaze predict`, `place`, `diff` and `tune`.  They
 * consist of the records in record_training.c and of what the question was. */
#include "report/records.h"

#include "plan/plan_fields.h"

/* ---- questions ------------------------------------------------------------------------------ */

/* Rows for the member `asked` of an answer.  ASKED_NAMES, the model, chip and network, come first
 * in the answer; ASKED_FILES and ASKED_WARNINGS come after the prediction. */
#define ASKED_NAMES(S, asked)                                                                      \
  PZ_ROW_AS(S, asked.model, PZ_FIELD_TEXT, "model", NULL, "Model"),                                \
      PZ_ROW_AS(S, asked.chip, PZ_FIELD_TEXT, "chip", NULL, "Chip"),                               \
      PZ_ROW_AS(S, asked.cluster, PZ_FIELD_TEXT_OR_NULL, "cluster", NULL,                          \
                "Network; null: the chip's own link")
#define ASKED_WARNINGS(S, asked)                                                                   \
  PZ_ROW_BY(S, asked.warning, "warnings", &warnings_codec, "Remarks on the network")
#define ASKED_FILES(S, asked)                                                                      \
  PZ_ROW_AS(S, asked.chip_file, PZ_FIELD_TEXT_OR_NULL, "chip_file", NULL,                          \
            "File of the chip, if it is no preset", .omitted = PZ_OMITTED_IF_NULL),                \
      PZ_ROW_AS(S, asked.cluster_file, PZ_FIELD_TEXT_OR_NULL, "cluster_file", NULL,                \
                "File of the cluster, if it is no preset", .omitted = PZ_OMITTED_IF_NULL)

static json_t *write_warnings(const void *member) {
  const char *warning = *(const char *const *)member;
  json_t *list = json_array();
  if (*warning) json_array_append_new(list, json_string(warning));
  return list;
}
PZ_CODEC(warnings, "array of texts", NULL);

#define ROW_COST(S)                                                                                \
  PZ_ROW_IN(S, cost, PZ_FIELD_OPTIONAL, "cost", &pz_run_cost_record,                               \
            "Cost of the whole training run; null: --tokens was not given")

/* ---- predict -------------------------------------------------------------------------------- */

#define CHANGE struct pz_plan_change
static const struct pz_field change_fields[] = {
    PZ_ROW(CHANGE, options, PZ_FIELD_TEXT, NULL, "Options to change"),
    PZ_ROW_AS(CHANGE, p.step_s, PZ_FIELD_REAL, "step_s", "s", "Step after the change"),
    PZ_ROW_AS(CHANGE, p.peak_bytes, PZ_FIELD_REAL, "peak_bytes", "B", "Peak memory after it"),
};
static const struct pz_record change_record = PZ_RECORD(change_fields, CHANGE);

#define CONSTANT struct pz_constant_effect
static const struct pz_field constant_fields[] = {
    PZ_ROW(CONSTANT, name, PZ_FIELD_TEXT, NULL, "Constant of the model"),
    PZ_ROW(CONSTANT, value, PZ_FIELD_REAL, NULL, "Its value"),
    PZ_ROW(CONSTANT, unit, PZ_FIELD_TEXT, NULL, "Its unit"),
    PZ_ROW(CONSTANT, kind, PZ_FIELD_TEXT, NULL, "Where the value comes from"),
    PZ_ROW(CONSTANT, source, PZ_FIELD_TEXT, NULL, "Source"),
    PZ_ROW(CONSTANT, part, PZ_FIELD_TEXT, NULL, "Part of the step that changes most, or memory"),
    PZ_ROW(CONSTANT, step_change, PZ_FIELD_REAL, "ratio", "Change of the step if it is raised"),
    PZ_ROW(CONSTANT, memory_change, PZ_FIELD_REAL, "ratio", "Change of the peak memory"),
};
static const struct pz_record constant_record = PZ_RECORD(constant_fields, CONSTANT);

/* Returns an object with the source of every field of a plan. */
static json_t *origins(const struct pz_field_origin *fields, uint32_t n) {
  json_t *object = json_object();
  for (uint32_t i = 0; i < n; i++)
    json_object_set_new(object, fields[i].name, pz_record_text(fields[i].from));
  return object;
}

#define EXPLANATION struct pz_explanation
static json_t *write_explained_fields(const void *value) {
  const EXPLANATION *explanation = value;
  return origins(explanation->fields, explanation->n_fields);
}
PZ_CODEC(explained_fields, "object, plan field to text", NULL);
static const struct pz_field explanation_fields[] = {
    PZ_ROW_MADE("from", &explained_fields_codec, NULL, "Where each field of the plan comes from"),
    PZ_ROW(EXPLANATION, raised_by, PZ_FIELD_REAL, "ratio", "By how much constants were raised"),
    PZ_ROW_MANY(EXPLANATION, constants, n_constants, PZ_FIELD_LIST, "constants", &constant_record,
                "Constants that count for the plan"),
};
static const struct pz_record explanation_record = PZ_RECORD(explanation_fields, EXPLANATION);

#define PREDICT struct pz_predict_answer
static const struct pz_field predict_fields[] = {
    ASKED_NAMES(PREDICT, asked),
    PZ_ROW_FLAT(PREDICT, run, &pz_training_run_record),
    PZ_ROW(PREDICT, no_network, PZ_FIELD_BOOL, NULL, "Collectives and transfers take no time",
           .omitted = PZ_OMITTED_IF_EMPTY),
    ASKED_FILES(PREDICT, asked),
    ASKED_WARNINGS(PREDICT, asked),
    ROW_COST(PREDICT),
    PZ_ROW_VIA(PREDICT, fits_with, struct pz_plan_changes, list, PZ_FIELD_LIST, "fits_with", NULL,
               "Changes after which a plan fits that does not", .omitted = PZ_OMITTED_IF_NULL,
               .count_offset = offsetof(struct pz_plan_changes, n), .record = &change_record),
    PZ_ROW_IN(PREDICT, explanation, PZ_FIELD_OPTIONAL, "explain", &explanation_record,
              "Fields of the plan and constants of the model (--explain)",
              .omitted = PZ_OMITTED_IF_NULL),
};
const struct pz_record pz_predict_answer_record = PZ_RECORD(predict_fields, PREDICT);

/* ---- place ---------------------------------------------------------------------------------- */

#define DIFF struct pz_plan_diff
#define COMPARED struct pz_compared_plan
static json_t *write_gain(const void *value) {
  const DIFF *diff = ((const COMPARED *)value)->diff;
  return json_real(1 - diff->b.p.step_s / diff->a.p.step_s);
}
PZ_CODEC(gain, "number", NULL);
static const struct pz_field compared_fields[] = {
    PZ_ROW(COMPARED, file, PZ_FIELD_TEXT, NULL, "File of the user's plan"),
    PZ_ROW_VIA(COMPARED, diff, DIFF, changes, PZ_FIELD_TEXT, "changes", NULL,
               "Changes from it to the chosen plan"),
    PZ_ROW_VIA(COMPARED, diff, DIFF, verdict, PZ_FIELD_TEXT, "verdict", NULL,
               "The chosen plan beside it"),
    PZ_ROW_MADE("gain", &gain_codec, "ratio", "Share of the user's step that is saved"),
    PZ_ROW_VIA(COMPARED, diff, DIFF, a, PZ_FIELD_STRUCT, "prediction", NULL,
               "Prediction of the user's plan", .record = &pz_training_run_record),
};
static const struct pz_record compared_record = PZ_RECORD(compared_fields, COMPARED);

/* A flag that is omitted if nothing was asked about it. */
#define ROW_FLAG(S, f, ...)                                                                        \
  {                                                                                                \
    .key = #f, .type = PZ_FIELD_BOOL, .via = true, .via_offset = offsetof(S, f),                   \
    .omitted = PZ_OMITTED_IF_NULL, .meaning = __VA_ARGS__                                          \
  }

#define PLACE struct pz_place_answer
static const struct pz_field place_fields[] = {
    ASKED_NAMES(PLACE, asked),
    PZ_ROW(PLACE, devices, PZ_FIELD_INT, NULL, "Devices of the question"),
    PZ_ROW(PLACE, batch, PZ_FIELD_INT, NULL, "Samples of a step"),
    PZ_ROW_FLAT(PLACE, placed, &pz_placed_plans_record),
    ASKED_FILES(PLACE, asked),
    ASKED_WARNINGS(PLACE, asked),
    ROW_COST(PLACE),
    PZ_ROW_IN(PLACE, compared, PZ_FIELD_OPTIONAL, "compare", &compared_record,
              "The user's plan beside the chosen one (--compare)", .omitted = PZ_OMITTED_IF_NULL),
    ROW_FLAG(PLACE, late, "No plan ends by the deadline (--deadline)"),
};
const struct pz_record pz_place_answer_record = PZ_RECORD(place_fields, PLACE);

/* ---- place with several numbers of devices -------------------------------------------------- */

#define CHOSEN struct pz_scaled_plan
static const struct pz_field chosen_run_fields[] = {
    PZ_ROW_AS(struct pz_training_run, p.step_s, PZ_FIELD_REAL, "step_s", "s",
              "Time of a training step"),
    PZ_ROW_AS(struct pz_training_run, p.mfu, PZ_FIELD_REAL, "mfu", "ratio",
              "Model FLOP utilisation"),
    PZ_ROW_AS(struct pz_training_run, p.mfu_conventional, PZ_FIELD_REAL, "mfu_conventional",
              "ratio", "MFU as papers print it"),
    PZ_ROW_AS(struct pz_training_run, plan.devices, PZ_FIELD_INT, "devices_used", NULL,
              "Devices that the plan uses"),
};
static const struct pz_record chosen_run_record =
    PZ_RECORD(chosen_run_fields, struct pz_training_run);
#define OF_ROW(f, unit, meaning)                                                                   \
  PZ_ROW_VIA(CHOSEN, row, struct pz_scaling_row, f, PZ_FIELD_REAL, #f, unit, meaning)
static const struct pz_field chosen_fields[] = {
    PZ_ROW_FLAT(CHOSEN, run, &chosen_run_record),
    PZ_ROW(CHOSEN, tokens_per_s, PZ_FIELD_REAL, "1/s", "Tokens per second"),
    OF_ROW(tokens_per_s_per_device, "1/s", "Tokens per second and device"),
    OF_ROW(efficiency, "ratio", "Tokens per device over those of the first row"),
    PZ_ROW_TO(CHOSEN, plan, &pz_found_plan_record, "The chosen plan"),
    PZ_ROW_IN(CHOSEN, cost, PZ_FIELD_OPTIONAL, "cost", &pz_run_cost_record,
              "Cost of the whole training run (--tokens)", .omitted = PZ_OMITTED_IF_NULL),
    ROW_FLAG(CHOSEN, cheapest, "The cheapest number of devices within the deadline"),
    ROW_FLAG(CHOSEN, late, "No plan ends by the deadline (--deadline)"),
};
static const struct pz_record chosen_record = PZ_RECORD(chosen_fields, CHOSEN);

#define SCALED struct pz_scaled_plans
#define OF_SCALED(f, meaning)                                                                      \
  PZ_ROW_VIA(SCALED, row, struct pz_scaling_row, f, PZ_FIELD_INT, #f, NULL, meaning)
static const struct pz_field scaled_fields[] = {
    OF_SCALED(devices, "Number of devices"),
    OF_SCALED(batch, "Samples of a step"),
    PZ_ROW(SCALED, fits, PZ_FIELD_BOOL, NULL, "A plan fits; further fields are of this plan"),
    PZ_ROW_TO(SCALED, certificate, &pz_plan_certificate_record, "Proof that the plan is the best"),
    PZ_ROW(SCALED, stopped, PZ_FIELD_BOOL, NULL, "The search ended early",
           .omitted = PZ_OMITTED_IF_EMPTY),
    PZ_ROW_FLAT(SCALED, chosen, &chosen_record),
};
static const struct pz_record scaled_record = PZ_RECORD(scaled_fields, SCALED);

#define SCALING struct pz_scaling_answer
static json_t *write_scaling(const void *value) {
  return json_string(((const SCALING *)value)->weak ? "weak" : "strong");
}
PZ_CODEC(scaling, "text", NULL);
static const struct pz_field scaling_fields[] = {
    ASKED_NAMES(SCALING, asked),
    PZ_ROW_MADE("scaling", &scaling_codec, NULL, "weak (batch per device) or strong (one batch)"),
    PZ_ROW_MANY(SCALING, rows, n_rows, PZ_FIELD_LIST, "rows", &scaled_record, "Numbers of devices"),
    ASKED_WARNINGS(SCALING, asked),
};
const struct pz_record pz_scaling_answer_record = PZ_RECORD(scaling_fields, SCALING);

/* ---- diff ----------------------------------------------------------------------------------- */

#define DIFFERENCE struct pz_field_difference
static const struct pz_field difference_fields[] = {
    PZ_ROW_AS(DIFFERENCE, name, PZ_FIELD_TEXT, "field", NULL, "Field of the run"),
    PZ_ROW(DIFFERENCE, a, PZ_FIELD_TEXT, NULL, "Value in A"),
    PZ_ROW(DIFFERENCE, b, PZ_FIELD_TEXT, NULL, "Value in B"),
};
static const struct pz_record difference_record = PZ_RECORD(difference_fields, DIFFERENCE);

#define STEP struct pz_diff_change
static json_t *write_step_fits(const void *value) {
  return json_boolean(pz_prediction_fits(&((const STEP *)value)->p));
}
PZ_CODEC(step_fits, "true or false", NULL);
static const struct pz_field path_fields[] = {
    PZ_ROW(STEP, change, PZ_FIELD_TEXT, NULL, "Change of the plan"),
    PZ_ROW(STEP, fields, PZ_FIELD_COUNT, NULL, "Fields that change together"),
    PZ_ROW_AS(STEP, p.step_s, PZ_FIELD_REAL, "step_s", "s", "Step after the change"),
    PZ_ROW_AS(STEP, step_s, PZ_FIELD_REAL, "difference_s", "s", "What the change adds to the step"),
    PZ_ROW_AS(STEP, p.peak_bytes, PZ_FIELD_REAL, "peak_bytes", "B", "Peak memory after it"),
    PZ_ROW_AS(STEP, peak_bytes, PZ_FIELD_REAL, "difference_bytes", "B",
              "What the change adds to the peak memory"),
    PZ_ROW_MADE("fits", &step_fits_codec, NULL, "The plan after the change fits in memory"),
};
static const struct pz_record path_record = PZ_RECORD(path_fields, STEP);

#define VALUE struct pz_compared_value
static const struct pz_field value_fields[] = {
    PZ_ROW(VALUE, a, PZ_FIELD_REAL, NULL, "Value of A"),
    PZ_ROW(VALUE, b, PZ_FIELD_REAL, NULL, "Value of B"),
    PZ_ROW(VALUE, difference, PZ_FIELD_REAL, NULL, "b - a"),
};
static const struct pz_record value_record = PZ_RECORD(value_fields, VALUE);

struct pz_compared_value pz_compare_values(double a, double b) {
  return (struct pz_compared_value){a, b, b - a};
}

/* Returns an object with the values of both runs for each part of a step, by the name of the
 * part. */
static json_t *write_compared_parts(const void *member) {
  const DIFF *diff = *(const DIFF *const *)member;
  const struct pz_part_info *part;
  json_t *object = json_object();
  for (size_t i = 0; (part = pz_time_part_at(i)) != NULL; i++) {
    const struct pz_compared_value value = pz_compare_values(pz_time_part(&diff->a.p.parts, part),
                                                             pz_time_part(&diff->b.p.parts, part));
    json_object_set_new(object, part->key, pz_record_json(&value_record, &value));
  }
  return object;
}

/* Returns an object with the values of both runs for each part of the peak memory. */
static json_t *write_compared_memory(const void *member) {
  const DIFF *diff = *(const DIFF *const *)member;
  const struct pz_part_info *part;
  json_t *object = json_object();
  for (size_t i = 0; (part = pz_memory_part_at(i)) != NULL; i++) {
    const struct pz_compared_value value = pz_compare_values(pz_memory_part(&diff->a.p.peak, part),
                                                             pz_memory_part(&diff->b.p.peak, part));
    json_object_set_new(object, part->key, pz_record_json(&value_record, &value));
  }
  return object;
}
PZ_CODEC(compared_parts, "object, part to object", &value_record);
PZ_CODEC(compared_memory, "object, part to object", &value_record);

#define SIDE struct pz_diff_run
static const struct pz_field side_fields[] = {
    ASKED_NAMES(SIDE, asked),
    PZ_ROW_FLAT(SIDE, run, &pz_training_run_record),
};
static const struct pz_record side_record = PZ_RECORD(side_fields, SIDE);

#define BOTH struct pz_diff_answer
#define OF_DIFF(f, t, unit, ...) PZ_ROW_VIA(BOTH, diff, DIFF, f, t, #f, unit, __VA_ARGS__)
static const struct pz_field diff_fields[] = {
    OF_DIFF(changes, PZ_FIELD_TEXT, NULL, "Changes from A to B"),
    OF_DIFF(verdict, PZ_FIELD_TEXT, NULL, "B beside A"),
    PZ_ROW_IN(BOTH, a, PZ_FIELD_STRUCT, "a", &side_record, "Prediction of A"),
    PZ_ROW_IN(BOTH, b, PZ_FIELD_STRUCT, "b", &side_record, "Prediction of B"),
    OF_DIFF(fields, PZ_FIELD_LIST, NULL, "Fields that differ", .record = &difference_record,
            .count_offset = offsetof(DIFF, n_fields)),
    PZ_ROW_IN(BOTH, step_s, PZ_FIELD_STRUCT, "step_s", &value_record, "Time of a training step",
              .unit = "s"),
    PZ_ROW_BY(BOTH, diff, "parts", &compared_parts_codec, "Parts of the step", .unit = "s"),
    PZ_ROW_IN(BOTH, peak_bytes, PZ_FIELD_STRUCT, "peak_bytes", &value_record, "Peak memory",
              .unit = "B"),
    PZ_ROW_BY(BOTH, diff, "memory", &compared_memory_codec, "Peak memory by use", .unit = "B"),
    OF_DIFF(path, PZ_FIELD_LIST, NULL, "Changes on the way from A to B", .record = &path_record,
            .count_offset = offsetof(DIFF, n_path)),
};
const struct pz_record pz_diff_answer_record = PZ_RECORD(diff_fields, BOTH);

/* ---- tune ----------------------------------------------------------------------------------- */

#define TUNED struct pz_tuned_change
static json_t *write_document(const void *member) {
  return json_incref((json_t *)(uintptr_t) * (const json_t *const *)member);
}
PZ_CODEC(document, "object, plan file", NULL);

#define OF_CHANGE(f, t, key, unit, ...)                                                            \
  PZ_ROW_VIA(TUNED, change, CHANGE, f, t, key, unit, __VA_ARGS__)
static const struct pz_field tuned_fields[] = {
    PZ_ROW(TUNED, field, PZ_FIELD_TEXT_OR_NULL, NULL, "Field that changes; null: several"),
    OF_CHANGE(options, PZ_FIELD_TEXT, "options", NULL, "Options to change"),
    OF_CHANGE(megatron, PZ_FIELD_TEXT_OR_NULL, "megatron", NULL,
              "The same as arguments of Megatron-LM; null: the run has none"),
    OF_CHANGE(p.step_s, PZ_FIELD_REAL, "step_s", "s", "Step after the change"),
    OF_CHANGE(gain, PZ_FIELD_REAL, "gain", "ratio", "Share of the run's step that it saves"),
    OF_CHANGE(p.mfu, PZ_FIELD_REAL, "mfu", "ratio", "Model FLOP utilisation"),
    OF_CHANGE(p.mfu_conventional, PZ_FIELD_REAL, "mfu_conventional", "ratio",
              "MFU as papers print it"),
    OF_CHANGE(p.peak_bytes, PZ_FIELD_REAL, "peak_bytes", "B", "Peak memory"),
    PZ_ROW_BY(TUNED, plan, "plan", &document_codec, "The run with the change, as a plan file"),
};
const struct pz_record pz_tuned_change_record = PZ_RECORD(tuned_fields, TUNED);

#define TUNE struct pz_tune_answer
#define MEASURED struct pz_measured_step
static const struct pz_field measured_fields[] = {
    PZ_ROW(MEASURED, step_s, PZ_FIELD_REAL, "s", "Measured time of a step"),
    PZ_ROW(MEASURED, predicted_s, PZ_FIELD_REAL, "s", "Prediction before correction"),
    PZ_ROW(MEASURED, error, PZ_FIELD_REAL, "ratio", "Predicted over measured, minus 1"),
};
static const struct pz_record measured_record = PZ_RECORD(measured_fields, MEASURED);

static json_t *write_run_origins(const void *value) {
  const struct pz_plan_tuning *tuning = ((const TUNE *)value)->tuning;
  return origins(tuning->fields, tuning->n_fields);
}
PZ_CODEC(run_origins, "object, plan field to text", NULL);

#define OF_TUNING(f, t, key, ...)                                                                  \
  PZ_ROW_VIA(TUNE, tuning, struct pz_plan_tuning, f, t, key, NULL, __VA_ARGS__)
#define OF_TUNED_RUN(f, ...)                                                                       \
  PZ_ROW_VIA(TUNE, run, struct pz_run_plan, f, PZ_FIELD_TEXTS, #f, NULL, __VA_ARGS__,              \
             .count_offset = offsetof(struct pz_run_plan, n_##f))
static const struct pz_field tune_fields[] = {
    PZ_ROW_BY(TUNE, run_plan, "run", &document_codec, "The run as a plan file"),
    PZ_ROW_MADE("from", &run_origins_codec, NULL, "Where each field of the run comes from"),
    OF_TUNED_RUN(ignored, "Arguments that were left out (--ignore)"),
    OF_TUNED_RUN(notes, "Remarks on the run"),
    OF_TUNING(own, PZ_FIELD_STRUCT, "prediction", "Prediction of the run",
              .record = &pz_training_run_record),
    PZ_ROW_IN(TUNE, measured, PZ_FIELD_OPTIONAL, "measured", &measured_record,
              "The measured step; null: not measured"),
    PZ_ROW_IN(TUNE, best, PZ_FIELD_OPTIONAL, "best", &pz_tuned_change_record,
              "The best plan for the same devices and batch; null: none fits"),
    PZ_ROW_IN(TUNE, overlapped, PZ_FIELD_OPTIONAL, "overlapped", &pz_tuned_change_record,
              "The best plan with every overlap turned on; null: the run has them"),
    OF_TUNING(certificate, PZ_FIELD_STRUCT, "certificate", "Proof that the plan is the best",
              .record = &pz_short_certificate_record),
    OF_TUNING(stopped, PZ_FIELD_BOOL, "stopped", "The search ended early",
              .omitted = PZ_OMITTED_IF_EMPTY),
    PZ_ROW_MANY(TUNE, changes, n_changes, PZ_FIELD_LIST, "changes", &pz_tuned_change_record,
                "Single changes that save most"),
};
const struct pz_record pz_tune_answer_record = PZ_RECORD(tune_fields, TUNE);
