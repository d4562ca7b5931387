#include "step/prediction_json.h"

#include "core/record.h"
#include "plan/plan_fields.h"
#include "step/prediction_parts.h"

/* ---- what it takes -------------------------------------------------------------------------- */

static json_t *time_json(const struct pz_training_parts *x) {
  json_t *j = json_object();
  const struct pz_part_info *p;
  for (size_t i = 0; (p = pz_time_part_at(i)); i++)
    json_object_set_new(j, p->key, json_real(pz_time_part(x, p)));
  return j;
}

static json_t *hidden_json(const struct pz_prediction *x) {
  json_t *j = json_object();
  const struct pz_part_info *p;
  for (size_t i = 0; (p = pz_time_part_at(i)); i++)
    if (p->hidden) json_object_set_new(j, p->key, json_real(pz_hidden_part(x, p)));
  return j;
}

static json_t *memory_json(const struct pz_training_memory *x) {
  json_t *j = json_object();
  const struct pz_part_info *p;
  for (size_t i = 0; (p = pz_memory_part_at(i)); i++)
    json_object_set_new(j, p->key, json_real(pz_memory_part(x, p)));
  return j;
}

static const struct pz_field prediction_fields[] = {
    PZ_FIELD(struct pz_prediction, step_s, PZ_FIELD_REAL),
    PZ_FIELD_AS(struct pz_prediction, bound_s, PZ_FIELD_REAL, "pipeline_bound_s"),
    PZ_FIELD(struct pz_prediction, samples_per_s, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, tokens_per_s_per_device, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, mfu, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, hfu, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, tokens, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, params, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, microbatches, PZ_FIELD_INT),
    PZ_FIELD(struct pz_prediction, peak_bytes, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, peak_stage, PZ_FIELD_COUNT)};
static const struct pz_record prediction_record =
    PZ_RECORD(prediction_fields, struct pz_prediction);

static json_t *expected_json(const struct pz_expectation *e) {
  if (!e->runs) return json_null();
  return json_pack("{s:f,s:f,s:I,s:s,s:b}", "mean", e->error, "bias", e->bias, "runs",
                   (json_int_t)e->runs, "of", e->of, "same_chip", e->same_chip);
}

json_t *pz_training_run_json(const struct pz_training_run *r) {
  json_t *j = pz_record_json(&prediction_record, &r->p), *stages = json_array();
  for (int64_t k = 0; k < r->plan.pp; k++)
    json_array_append_new(stages, memory_json(&r->stages[k]));
  json_object_set_new(j, "hbm_bytes", json_real(r->hbm_bytes));
  json_object_set_new(j, "fits", json_boolean(r->p.peak_bytes <= r->hbm_bytes));
  json_object_set_new(j, "memory", memory_json(&r->p.peak));
  json_object_set_new(j, "stages", stages);
  json_object_set_new(j, "parts", time_json(&r->p.parts));
  json_object_set_new(j, "hidden", hidden_json(&r->p));
  json_object_set_new(j, "launch_bound", json_boolean(pz_launch_bound(&r->p.parts)));
  json_object_set_new(j, "expected_error", expected_json(&r->expected));
  json_object_set_new(j, "plan", pz_plan_json(&r->plan));
  return j;
}
