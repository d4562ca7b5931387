/* JSON of predictions (pz_training_run_json), of plans that a search found (pz_found_plans_json
 * and its parts), and of the cost of a whole training run (pz_run_cost_json).  jansson passes
 * the failure of an allocation on to the whole document, so that nothing is checked in between. */
#include "report/training_json.h"

#include <string.h>

#include "core/record.h"
#include "plan/plan_fields.h"

/* ---- a prediction --------------------------------------------------------------------------- */

/* Returns the parts of a device's memory in bytes, by name. */
static json_t *memory_json(const struct pz_training_memory *memory) {
  json_t *parts = json_object();
  for (size_t i = 0; pz_memory_part_at(i); i++) {
    const struct pz_part_info *part = pz_memory_part_at(i);
    json_object_set_new(parts, part->key, json_real(pz_memory_part(memory, part)));
  }
  return parts;
}

static const struct pz_field prediction_fields[] = {
    PZ_FIELD(struct pz_prediction, step_s, PZ_FIELD_REAL),
    PZ_FIELD_AS(struct pz_prediction, bound_s, PZ_FIELD_REAL, "pipeline_bound_s"),
    PZ_FIELD(struct pz_prediction, samples_per_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, tokens_per_s_per_device, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, mfu, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, hfu, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, mfu_conventional, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, flop_per_s_per_device, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, tokens, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, params, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, microbatches, PZ_FIELD_INT),
    PZ_FIELD(struct pz_prediction, peak_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, reserved_low_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, reserved_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, needed_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, peak_stage, PZ_FIELD_COUNT)};
static const struct pz_record prediction_record =
    PZ_RECORD(prediction_fields, struct pz_prediction);

/* Returns the expected error, or null if no validated run is comparable.  `beyond` lists the
 * fields in which the question is beyond all validated runs, separated by "; ". */
static json_t *expected_error_json(const struct pz_expectation *expectation) {
  if (!expectation->runs) return json_null();
  json_t *beyond = json_array();
  for (const char *position = expectation->beyond; *position;) {
    const char *end = strstr(position, "; ");
    size_t n = end ? (size_t)(end - position) : strlen(position);
    json_array_append_new(beyond, json_stringn(position, n));
    position += end ? n + 2 : n;
  }
  return json_pack("{s:f,s:I,s:s,s:o}", "error", expectation->error, "runs",
                   (json_int_t)expectation->runs, "of", expectation->of, "beyond", beyond);
}

json_t *pz_training_run_json(const struct pz_training_run *run) {
  const struct pz_prediction *prediction = &run->p;
  json_t *root = pz_record_json(&prediction_record, prediction), *stages = json_array();
  json_t *busy = json_array(), *reserved = json_array();
  json_t *parts = json_object(), *hidden = json_object();
  for (int64_t k = 0; k < run->plan.pp; k++) {
    json_array_append_new(stages, memory_json(&run->stages[k]));
    json_array_append_new(busy, json_real(run->stage_s[k]));
    json_array_append_new(reserved, json_real(run->reserved_bytes[k]));
  }
  for (size_t i = 0; pz_time_part_at(i); i++) {
    const struct pz_part_info *part = pz_time_part_at(i);
    json_object_set_new(parts, part->key, json_real(pz_time_part(&prediction->parts, part)));
    if (part->hidden) /* communication that can be hidden behind computation */
      json_object_set_new(hidden, part->key, json_real(pz_hidden_part(prediction, part)));
  }
  json_object_set_new(root, "tokens_per_day",
                      json_real(prediction->tokens / prediction->step_s * 86400));
  if (run->watts > 0) json_object_set_new(root, "watts", json_real(run->watts));
  json_object_set_new(root, "hbm_bytes", json_real(run->hbm_bytes));
  json_object_set_new(root, "usable_bytes", json_real(prediction->usable_bytes));
  json_object_set_new(root, "fits", json_boolean(pz_prediction_fits(prediction)));
  json_object_set_new(root, "memory", memory_json(&prediction->peak));
  json_object_set_new(root, "stages", stages);
  json_object_set_new(root, "stage_s", busy);
  json_object_set_new(root, "reserved_stages", reserved);
  json_object_set_new(root, "parts", parts);
  json_object_set_new(root, "hidden", hidden);
  if (prediction->host_bytes > 0) {
    json_object_set_new(root, "host_bytes", json_real(prediction->host_bytes));
    json_object_set_new(root, "usable_host_bytes", json_real(prediction->usable_host_bytes));
    json_object_set_new(root, "offload_s", json_real(prediction->offload_s));
  }
  json_object_set_new(root, "launch_bound", json_boolean(run->launch_bound));
  json_object_set_new(root, "expected_error", expected_error_json(&run->expected));
  if (run->refusal[0]) json_object_set_new(root, "refusal", json_string(run->refusal));
  json_object_set_new(root, "plan", pz_plan_json(&run->plan));
  return root;
}

/* ---- found plans ---------------------------------------------------------------------------- */

const struct pz_part_info *pz_grown_part(const struct pz_prediction *best,
                                         const struct pz_prediction *other, double *grown_s) {
  const struct pz_part_info *grown_part = NULL;
  *grown_s = 0;
  for (size_t i = 0; pz_time_part_at(i); i++) {
    const struct pz_part_info *part = pz_time_part_at(i);
    double difference_s = pz_time_part(&other->parts, part) - pz_time_part(&best->parts, part);
    if (!(difference_s > *grown_s)) continue;
    *grown_s = difference_s;
    grown_part = part;
  }
  return grown_part;
}

/* Returns the number of layers in each stage: all of them, or only those that are recomputed. */
static json_t *stage_layers_json(const struct pz_training_run *run, bool recomputed) {
  json_t *list = json_array();
  for (int64_t k = 0; k < run->plan.pp; k++) {
    struct pz_stage_layers stage = pz_training_run_stage(run, k);
    json_array_append_new(list,
                          json_integer((json_int_t)(recomputed ? stage.again : stage.layers)));
  }
  return list;
}

json_t *pz_found_plan_json(const struct pz_training_run *run, const struct pz_training_run *best) {
  const struct pz_prediction *prediction = &run->p;
  json_t *root =
      json_pack("{s:f,s:f,s:f,s:I,s:I,s:f,s:f,s:f}", "step_s", prediction->step_s, "mfu",
                prediction->mfu, "mfu_conventional", prediction->mfu_conventional, "devices_used",
                (json_int_t)run->plan.devices, "microbatches", (json_int_t)prediction->microbatches,
                "samples_per_s", prediction->samples_per_s, "tokens_per_s_per_device",
                prediction->tokens_per_s_per_device, "peak_bytes", prediction->peak_bytes);
  if (prediction->host_bytes > 0)
    json_object_set_new(root, "host_bytes", json_real(prediction->host_bytes));
  json_t *plan = pz_plan_json(&run->plan);
  if (root && plan) json_object_update(root, plan);
  json_decref(plan);
  json_object_set_new(root, "stage_layers", stage_layers_json(run, false));
  json_object_set_new(root, "recompute_by_stage", stage_layers_json(run, true));
  if (best) {
    double grown_s;
    const struct pz_part_info *part = pz_grown_part(&best->p, prediction, &grown_s);
    json_object_set_new(root, "slower", json_real(prediction->step_s / best->p.step_s - 1));
    json_object_set_new(root, "grown_part", part ? json_string(part->key) : json_null());
    json_object_set_new(root, "grown_s", json_real(grown_s));
  }
  return root;
}

json_t *pz_plan_certificate_json(const struct pz_plan_certificate *proof) {
  return json_pack("{s:I,s:I,s:I,s:I,s:I,s:f}", "plans", (json_int_t)proof->plans, "solved",
                   (json_int_t)proof->solved, "excluded",
                   (json_int_t)(proof->by_bound + proof->by_memory), "excluded_by_bound",
                   (json_int_t)proof->by_bound, "excluded_by_memory", (json_int_t)proof->by_memory,
                   "gap", proof->gap);
}

/* Returns "full", "none", "selective", or "partial" if some layers are recomputed in full. */
static const char *recompute_word(const struct pz_training_run *run) {
  if (run->plan.recompute != PZ_RECOMPUTATION_FULL)
    return pz_recomputation_names[run->plan.recompute];
  int64_t n_recomputed = 0;
  for (int64_t k = 0; k < run->plan.pp; k++) n_recomputed += pz_training_run_stage(run, k).again;
  if (n_recomputed == run->layers) return "full";
  return n_recomputed > 0 ? "partial" : "none";
}

json_t *pz_found_plans_json(const struct pz_training_plans *plans) {
  const struct pz_training_run *best = plans->runs[0];
  json_t *root = pz_training_run_json(best), *plan = pz_found_plan_json(best, NULL);
  json_t *others = json_array(), *switched = json_array();
  /* `ep` is a field of the plan only if it was searched; models with experts always state it. */
  if (plans->experts) json_object_set_new(plan, "ep", json_integer((json_int_t)best->plan.ep));
  for (uint32_t i = 1; i < plans->n; i++) {
    json_t *other = pz_found_plan_json(plans->runs[i], best);
    if (plans->experts)
      json_object_set_new(other, "ep", json_integer((json_int_t)plans->runs[i]->plan.ep));
    json_array_append_new(others, other);
  }
  for (uint32_t i = 0; i < plans->n_switched; i++)
    json_array_append_new(switched, json_pack("{s:s,s:f}", "option", plans->switched[i].option,
                                              "gain", plans->switched[i].gain));
  json_object_set_new(root, "devices_used", json_integer((json_int_t)best->plan.devices));
  json_object_set_new(root, "recompute", json_string(recompute_word(best)));
  json_object_set_new(root, "plan", plan);
  json_object_set_new(root, "certificate", pz_plan_certificate_json(&plans->certificate));
  if (plans->stopped) json_object_set_new(root, "stopped", json_true());
  json_object_set_new(root, "others", others);
  json_object_set_new(root, "switched", switched);
  if (plans->all_devices)
    json_object_set_new(root, "all_devices", pz_found_plan_json(plans->all_devices, best));
  if (plans->fastest)
    json_object_set_new(root, "fastest", pz_found_plan_json(plans->fastest, best));
  return root;
}

/* ---- the cost of a training run ------------------------------------------------------------- */

#define REAL(f) PZ_FIELD(struct pz_run_cost, f, PZ_FIELD_REAL)
static const struct pz_field cost_fields[] = {
    REAL(steps),       REAL(seconds),     REAL(device_hours), REAL(dollars),
    REAL(energy_j),    REAL(job_mtbf_s),  REAL(checkpoint_s), REAL(restart_s),
    REAL(interval_s),  REAL(goodput),     REAL(all_seconds),  REAL(all_device_hours),
    REAL(all_dollars), REAL(all_energy_j)};
static const struct pz_record cost_record = PZ_RECORD(cost_fields, struct pz_run_cost);

/* A cost that was not requested or is unknown is 0 and is omitted.  If failures were requested,
 * so that there is a goodput, the times of a checkpoint and of a restart are included even if
 * they are 0. */
json_t *pz_run_cost_json(const struct pz_run_cost *cost) {
  json_t *root = pz_record_json(&cost_record, cost);
  for (size_t i = 0; i < sizeof cost_fields / sizeof *cost_fields && root; i++) {
    const struct pz_field *field = &cost_fields[i];
    bool of_failures = field->offset == offsetof(struct pz_run_cost, checkpoint_s) ||
                       field->offset == offsetof(struct pz_run_cost, restart_s);
    bool unknown = json_real_value(json_object_get(root, field->key)) == 0;
    if (unknown && !(of_failures && cost->goodput > 0)) json_object_del(root, field->key);
  }
  return root;
}
