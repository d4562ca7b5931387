/* The list of all records, and their schema. */
#include "report/records.h"

#include <string.h>

#include "core/text.h"
#include "core/vec.h"
#include "partition/partition.h"
#include "plan/plan_fields.h"

static const struct pz_named_record records[] = {
    {"predict", "phaze predict: a prediction with what it was asked for",
     &pz_predict_answer_record},
    {"prediction", "Prediction of a training plan", &pz_training_run_record},
    {"place", "phaze place: the chosen plan", &pz_place_answer_record},
    {"scaling", "phaze place with several --devices", &pz_scaling_answer_record},
    {"plans", "The chosen plan with its prediction, proof and alternatives",
     &pz_placed_plans_record},
    {"found_plan", "A plan that a search found", &pz_found_plan_record},
    {"certificate", "Proof that a plan is the best of its space", &pz_plan_certificate_record},
    {"memory", "Peak memory of a device by use", &pz_training_memory_record},
    {"cost", "Cost of a whole training run", &pz_run_cost_record},
    {"partitioned", "Plan of a partition, and its stages", &pz_partition_record},
    {"partition", "phaze place on chips of the original system", &pz_partition_answer_record},
    {"tune", "phaze tune", &pz_tune_answer_record},
    {"change", "A change of a run that phaze tune proposes", &pz_tuned_change_record},
    {"diff", "phaze diff", &pz_diff_answer_record},
    {"runs", "phaze predict --runs", &pz_runs_record},
    {"rehearsal", "phaze rehearse --results", &pz_rehearsal_record},
    {"calibration", "phaze calibrate --ops", &pz_calibrated_record},
    {"correction", "phaze calibrate --steps", &pz_step_calibration_record},
    {"network", "phaze calibrate --network", &pz_network_calibration_record},
    {"estimate", "phaze estimate MODEL", &pz_model_estimate_record},
    {"gemm", "phaze estimate --gemm", &pz_mapped_product_record},
    {"schedule", "phaze schedule: the schedules of a model or a plan", &pz_schedule_answer_record},
    {"solved", "One schedule: that of a layer, or of phaze schedule --instance",
     &pz_solved_schedule_record},
    {"validation", "phaze validate, with --rows", &pz_validation_rows_record},
    {"cold_errors", "phaze validate --cold: chips as if nothing had been measured on them",
     &pz_cold_errors_record},
    {"models", "phaze models", &pz_listed_models_record},
    {"dies", "phaze chips --dies", &pz_known_dies_record},
    {"constants", "phaze chips --constants", &pz_silicon_constants_record},
    {"rates", "Peak rates of a chip: the field derived of phaze chip", &pz_chip_rates_record},
    {"power", "phaze chip --power", &pz_power_comparison_record},
    {"timing", "Time of a search: the field timing of phaze search", &pz_search_times_record},
};

const struct pz_named_record *pz_named_record_at(size_t i) {
  return i < sizeof records / sizeof *records ? &records[i] : NULL;
}

/* ---- schema --------------------------------------------------------------------------------- */

/* Returns the name of a record in the list, or NULL. */
static const char *record_name(const struct pz_record *record) {
  for (size_t i = 0; i < sizeof records / sizeof *records; i++)
    if (records[i].record == record) return records[i].name;
  return NULL;
}

/* Returns the description of the JSON value of a field, such as "number" or "array of objects". */
static const char *schema_type(const struct pz_field *field) {
  switch (field->type) {
  case PZ_FIELD_REAL: return "number";
  case PZ_FIELD_REAL_OR_NULL:
  case PZ_FIELD_REAL_KNOWN: return "number or null";
  case PZ_FIELD_INT:
  case PZ_FIELD_COUNT:
  case PZ_FIELD_BIG_COUNT: return "integer";
  case PZ_FIELD_BOOL: return "true or false";
  case PZ_FIELD_TEXT:
  case PZ_FIELD_CHARS:
  case PZ_FIELD_ENUM: return "text";
  case PZ_FIELD_TEXT_OR_NULL:
  case PZ_FIELD_CHARS_KNOWN: return "text or null";
  case PZ_FIELD_TEXTS: return "array of texts";
  case PZ_FIELD_REALS:
  case PZ_FIELD_REAL_LIST: return "array of numbers";
  case PZ_FIELD_COUNTS:
  case PZ_FIELD_INT_LIST: return "array of integers";
  case PZ_FIELD_STRUCT:
  case PZ_FIELD_FLAT: return "object";
  case PZ_FIELD_OPTIONAL: return field->omitted == PZ_OMITTED_IF_NULL ? "object" : "object or null";
  case PZ_FIELD_LIST: return "array of objects";
  case PZ_FIELD_TABLE: return "object, table";
  case PZ_FIELD_CUSTOM: return field->codec->type;
  }
  return "";
}

struct schema {
  struct pz_call *call;
  bool optional;      /* the fields belong to a part of an object that can be missing */
  struct pz_vec rows; /* struct pz_schema_row */
};

static void add_record(struct schema *schema, const char *prefix, const struct pz_record *record);

/* Adds the fields of a member whose fields are written among those of the outer object.  If a codec
 * writes them, or they are behind a pointer, all of them can be missing. */
static void add_part(struct schema *schema, const char *prefix, const struct pz_field *field) {
  bool was_optional = schema->optional;
  schema->optional = was_optional || field->codec || field->via;
  add_record(schema, prefix, field->codec ? field->codec->record : field->record);
  schema->optional = was_optional;
}

/* Adds a field, and the fields of its object unless they are listed under a name of their own. */
static void add_field(struct schema *schema, const char *prefix, const struct pz_field *field) {
  const struct pz_record *inner = field->record;
  if (!inner && field->codec) inner = field->codec->record;
  const char *type = schema_type(field), *name = inner ? record_name(inner) : NULL;
  if (field->type == PZ_FIELD_FLAT) {
    if (name)
      pz_append(schema->call, &schema->rows,
                &(struct pz_schema_row){.path = pz_format(schema->call, "%s...", prefix),
                                        .type = pz_format(schema->call, "fields of %s", name),
                                        .meaning = ""});
    else if (inner)
      add_part(schema, prefix, field);
    else
      pz_append(schema->call, &schema->rows,
                &(struct pz_schema_row){.path = pz_format(schema->call, "%s...", prefix),
                                        .type = "fields of plan",
                                        .meaning = ""});
    return;
  }
  const char *path = pz_format(schema->call, "%s%s", prefix, field->key);
  const struct pz_schema_row row = {
      .path = path,
      .type = name ? pz_format(schema->call, "%s, %s", type, name) : type,
      .unit = field->unit ? field->unit : "",
      .meaning = field->meaning ? field->meaning : "",
      .optional = schema->optional || field->omitted != PZ_WRITTEN_ALWAYS};
  pz_append(schema->call, &schema->rows, &row);
  if (!inner || name) return;
  const char *suffix = strncmp(type, "array", 5) == 0 ? "[]." : ".";
  if (strstr(type, " to object")) suffix = ".NAME.";
  add_record(schema, pz_format(schema->call, "%s%s", path, suffix), inner);
}

static void add_record(struct schema *schema, const char *prefix, const struct pz_record *record) {
  for (size_t i = 0; i < record->n_fields; i++) add_field(schema, prefix, &record->fields[i]);
}

/* Returns the fields of a record, and of the objects in it that have no name of their own. */
struct pz_schema pz_record_schema(struct pz_call *call, const struct pz_record *record) {
  struct schema schema = {.call = call};
  pz_vec_init(&schema.rows, call->arena, sizeof(struct pz_schema_row));
  add_record(&schema, "", record);
  return (struct pz_schema){schema.rows.items, schema.rows.n};
}

/* Returns the fields of a plan.  Lengths of lists are no fields of their own in JSON. */
struct pz_schema pz_plan_schema(struct pz_call *call) {
  struct schema schema = {.call = call};
  pz_vec_init(&schema.rows, call->arena, sizeof(struct pz_schema_row));
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    static const char *const types[] = {
        [PZ_PLAN_KIND_COUNT] = "integer",         [PZ_PLAN_KIND_NUMBER] = "integer",
        [PZ_PLAN_KIND_CHOICE] = "text",           [PZ_PLAN_KIND_SET] = "text, words with commas",
        [PZ_PLAN_KIND_SWITCH] = "true or false",  [PZ_PLAN_KIND_FLAG] = "true or false",
        [PZ_PLAN_KIND_REAL] = "number",           [PZ_PLAN_KIND_TEXT] = "text",
        [PZ_PLAN_KIND_LIST] = "array of integers"};
    const struct pz_plan_field_info *field = pz_plan_field((enum pz_plan_field)i);
    if (field->kind == PZ_PLAN_KIND_LENGTH) continue;
    const struct pz_schema_row row = {.path = field->name,
                                      .type = types[field->kind],
                                      .unit = "",
                                      .meaning = field->help,
                                      .optional = true};
    pz_append(call, &schema.rows, &row);
  }
  return (struct pz_schema){schema.rows.items, schema.rows.n};
}

#define ROW struct pz_schema_row
static const struct pz_field row_fields[] = {
    PZ_ROW_AS(ROW, path, PZ_FIELD_TEXT, "field", NULL,
              "Name; a.b is a field of an object, [] an item"),
    PZ_ROW(ROW, type, PZ_FIELD_TEXT, NULL, "What JSON contains"),
    PZ_ROW(ROW, unit, PZ_FIELD_TEXT, NULL, "Unit"),
    PZ_ROW(ROW, optional, PZ_FIELD_BOOL, NULL, "The field is left out where it says nothing"),
    PZ_ROW(ROW, meaning, PZ_FIELD_TEXT, NULL, "Meaning"),
};
static const struct pz_record row_record = PZ_RECORD(row_fields, ROW);

#define SCHEMA struct pz_schema
static const struct pz_field schema_fields[] = {
    PZ_ROW_MANY(SCHEMA, rows, n_rows, PZ_FIELD_LIST, "fields", &row_record, "Fields"),
};
const struct pz_record pz_schema_record = PZ_RECORD(schema_fields, SCHEMA);
