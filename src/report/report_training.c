/* Section of a report of the evaluator training: the object `search` (best chip, reference, inputs,
 * certificate), and datasets of the parts of each step, existing chips, the front, the roofline of
 * operators, cost breakdowns, and robustness. */
#include <string.h>

#include "chip/chip.h"
#include "plan/plan_fields.h"
#include "report/report_data.h"

/* ---- the chips ------------------------------------------------------------------------------ */

/* The plan of a model on one chip. */
struct trained_model {
  const char *model;
  double samples_per_s, ratio; /* ratio: throughput over that on the reference chip */
  const struct pz_training_answer *training;
};

/* Returns the plans of the models on one chip, with step times and the ratio to the reference. */
static json_t *models_json(const struct trained_model *list, uint32_t n) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_training_answer *training = list[i].training;
    json_array_append_new(rows, json_pack("{s:s,s:f,s:f,s:f,s:f,s:f,s:f,s:o}", "model",
                                          list[i].model, "step_s", training->step_s,
                                          "samples_per_s", list[i].samples_per_s, "times_reference",
                                          list[i].ratio, "mfu", training->mfu, "mfu_conventional",
                                          training->mfu_conventional, "joules", training->joules,
                                          "plan", pz_plan_json(&training->plan)));
  }
  return rows;
}

/* Returns the power during the step of each model, or null unless it is known for all models. */
static json_t *power_json(const struct trained_model *list, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!(list[i].training->full_watts > 0)) return json_null();
  json_t *watts = json_array();
  for (uint32_t i = 0; i < n; i++)
    json_array_append_new(watts, json_real(list[i].training->full_watts));
  return json_pack("{s:f,s:o}", "limit_watts", list[0].training->limit_watts, "full_watts", watts);
}

/* Returns the best chip with its cost, the uncertainty of its value, and its plans. */
static json_t *best_json(const struct pz_answer *best, const struct trained_model *list) {
  const struct pz_uncertainty *uncertainty = &best->uncertainty;
  json_t *range = json_null();
  if (uncertainty->spread > 0)
    range = json_pack("{s:f,s:f,s:f}", "spread", uncertainty->spread, "low", uncertainty->low,
                      "high", uncertainty->high);
  return json_pack("{s:s,s:f,s:f,s:o,s:f,s:f,s:f,s:f,s:f,s:f,s:o,s:o,s:o}", "name",
                   best->chip->name, "value", best->objective, "gemm_hz",
                   pz_chip_gemm_hz(best->chip), "uncertainty", range, "area_mm2", best->area_mm2,
                   "watts", best->peak_watts, "dollars", best->dollars, "owner_dollars",
                   best->owner_dollars, "edge_mm", best->edge_mm, "edge_room_mm",
                   best->edge_room_mm, "models", models_json(list, best->n_models), "power",
                   power_json(list, best->n_models), "chip", pz_chip_json(best->chip));
}

/* Returns the options that the page shows or that its formulas use. */
static json_t *inputs_json(const struct pz_result_inputs *inputs) {
  const struct pz_study_options *options = &inputs->options;
  json_t *models = json_array();
  for (uint32_t i = 0; i < options->n_models; i++)
    json_array_append_new(models, json_string(options->models[i]));
  return json_pack("{s:o,s:s,s:s,s:I,s:I,s:I,s:I,s:f,s:s,s:s,s:f,s:f,s:f,s:f}", "models", models,
                   "space", inputs->space_name, "evaluator", pz_evaluator_names[options->evaluator],
                   "devices", (json_int_t)options->devices, "batch", (json_int_t)options->batch,
                   "seq", (json_int_t)options->workload.seq, "scale_up",
                   (json_int_t)options->scale_up, "outer_bytes_per_s", options->outer_bytes_per_s,
                   "objective", pz_objective_names[options->objective], "meaning",
                   pz_objective_unit(options->objective), "limit_mm2", options->limit_mm2,
                   "limit_watts", options->limit_watts, "limit_dollars", options->limit_dollars,
                   "gap", options->gap);
}

/* ---- datasets ------------------------------------------------------------------------------- */

/* Adds the dataset `name` from the member `name` of the details, which is a list of flat
 * objects: one row for each object, with the members that the columns name. */
static void add_list_dataset(struct pz_call *call, json_t *datasets, const json_t *details,
                             const char *name, const char *columns) {
  json_t *rows = pz_dataset_new(call, datasets, name, columns);
  const json_t *list = json_object_get(details, name);
  if (!json_is_array(list))
    pz_raise(call, PZ_BAD_INPUT, "the report's data have no list '%s'", name);
  for (size_t i = 0; i < json_array_size(list); i++) {
    const json_t *object = json_array_get(list, i);
    json_t *row = json_array();
    for (const char *column = columns; *column;) {
      size_t bytes = strcspn(column, ",");
      json_t *value = json_object_getn(object, column, bytes);
      json_array_append_new(row, value ? json_incref(value) : json_null());
      column += bytes;
      if (*column == ',') column++;
    }
    pz_dataset_append(call, rows, row);
  }
}

/* Adds one row for each constant of unmeasured chips that was moved to an end of its range. */
static void add_robustness_dataset(struct pz_call *call, json_t *datasets,
                                   const struct pz_robustness *robustness) {
  json_t *rows = pz_dataset_new(call, datasets, "robustness",
                                "constant,value,usual,objective,change,better,better_by");
  for (uint32_t i = 0; robustness && i < robustness->n_moves; i++) {
    const struct pz_moved_constant *move = &robustness->moves[i];
    json_t *usual = json_null();
    for (size_t k = 0; pz_cold_at(k); k++)
      if (strcmp(pz_cold_at(k)->name, move->constant) == 0) usual = json_real(pz_cold_at(k)->value);
    pz_dataset_add(call, rows, "[s,f,o,f,f,s?,f]", move->constant, move->value, usual,
                   move->objective, move->change, move->better, move->better_by);
  }
}

/* Adds the datasets of details, steps and robustness, and sets the object `search`. */
void pz_report_training(struct pz_call *call, struct pz_report *report) {
  const struct pz_result *result = report->result;
  const struct pz_answer *answer = pz_result_best(result);
  const struct pz_result_chip_summary *reference_chip = &result->reference_chip;
  const struct pz_robustness *robustness = result->robustness;
  struct trained_model best[PZ_SEARCH_MOST_MODELS], reference[PZ_SEARCH_MOST_MODELS];
  json_t *datasets = report->datasets;
  json_t *details = pz_json_read(call, "the report's data", result->training_detail,
                                 strlen(result->training_detail));
  json_t *step = pz_dataset_new(call, datasets, "step", "model,part,seconds,share");
  for (uint32_t i = 0; i < answer->n_models; i++) {
    const struct pz_answer_model *model = &answer->models[i];
    const struct pz_result_reference *on_reference = &result->references[i];
    best[i] =
        (struct trained_model){model->model, model->samples_per_s, model->ratio, model->training};
    reference[i] = (struct trained_model){on_reference->model, on_reference->samples_per_s, 1,
                                          on_reference->training};
    for (size_t k = 0; pz_time_part_at(k); k++) {
      const struct pz_part_info *part = pz_time_part_at(k);
      double seconds = pz_time_part(&model->training->parts, part);
      if (seconds > 0)
        pz_dataset_add(call, step, "[s,s,f,f]", model->model, part->label, seconds,
                       seconds / model->training->step_s);
    }
  }
  add_list_dataset(call, datasets, details, "chips",
                   "chip,role,model,step_s,samples_per_s,mfu,mfu_conventional,watts,joules_per_"
                   "sample,value,area_mm2,peak_watts,gemm_hz,dollars,plan");
  add_list_dataset(call, datasets, details, "front",
                   "chip,throughput,area_mm2,watts,dollars,limit_watts,limit_dollars,gap");
  add_list_dataset(call, datasets, details, "roofline",
                   "model,layer,operator,direction,cores,operations,hbm_bytes,seconds,bound,times");
  add_list_dataset(call, datasets, details, "bills", "role,chip,sum,part,amount");
  add_robustness_dataset(call, datasets, robustness);
  json_t *robustness_json = json_null();
  if (robustness)
    robustness_json = json_pack("{s:I,s:f,s:b}", "candidates", (json_int_t)robustness->n_candidates,
                                "tolerance", robustness->tolerance, "robust", robustness->robust);
  /* How many chips of the space were decided, and the proven gap. */
  const struct pz_certificate *proof = &answer->certificate;
  int64_t evaluated = proof->n_evaluated + proof->n_excluded_by_schedules;
  int64_t closed = proof->n_infeasible + proof->n_excluded + evaluated;
  json_t *certificate =
      json_pack("{s:I,s:I,s:I,s:f,s:I,s:I,s:b}", "space", (json_int_t)proof->n_chips, "closed",
                (json_int_t)closed, "evaluated", (json_int_t)evaluated, "gap", proof->gap, "boxes",
                (json_int_t)proof->n_boxes, "rounds", (json_int_t)proof->n_rounds, "finished",
                proof->finished);
  json_t *reference_json = json_pack(
      "{s:s,s:f,s:f,s:f,s:o,s:o,s:s?}", "name", reference_chip->name, "area_mm2",
      reference_chip->area_mm2, "watts", reference_chip->peak_watts, "dollars",
      reference_chip->dollars, "models", models_json(reference, result->n_references), "power",
      power_json(reference, result->n_references), "breaks", reference_chip->breaks);
  report->search = pz_json_built(
      call, json_pack("{s:o,s:o,s:o,s:o,s:o}", "best", best_json(answer, best), "robustness",
                      robustness_json, "reference", reference_json, "certificate", certificate,
                      "inputs", inputs_json(&result->inputs)));
}
