#include "place/prediction_json.h"

#include <stdio.h>

#include "core/record.h"
#include "place/prediction_parts.h"
#include "place/training_options.h"

static char *set_text(const char *const *names, unsigned set, char *buf, size_t size) {
  size_t n = 0;
  snprintf(buf, size, "none");
  for (int i = 0; names[i] && n < size; i++)
    if (set >> i & 1) n += (size_t)snprintf(buf + n, size - n, "%s%s", n ? "," : "", names[i]);
  return buf;
}

char *pz_overlap_text(unsigned set, char *buf, size_t size) {
  return set_text(pz_overlap_names, set, buf, size);
}

char *pz_modules_text(unsigned set, char *buf, size_t size) {
  return set_text(pz_module_names, set, buf, size);
}

bool pz_experts_told(const struct pz_training_options *o) {
  return o->ep > 1 || o->etp > 0 || o->imbalance > 1 || o->mtp;
}

/* ---- the plan ------------------------------------------------------------------------------- */

/* Of experts, and modules: where the plan has something to tell. */
static void set_experts(json_t *j, const struct pz_training_options *o) {
  char modules[PZ_MODULES_TEXT];
  if (pz_experts_told(o)) {
    json_object_set_new(j, "ep", json_integer((json_int_t)o->ep));
    json_object_set_new(j, "etp", json_integer((json_int_t)pz_options_etp(o)));
    json_object_set_new(j, "imbalance", json_real(o->imbalance));
    json_object_set_new(j, "mtp", json_boolean(o->mtp));
  }
  if (pz_options_modules(o))
    json_object_set_new(
        j, "recompute_modules",
        json_string(pz_modules_text(pz_options_modules(o), modules, sizeof modules)));
}

json_t *pz_training_plan_json(const struct pz_training_options *o) {
  char overlap[40];
  json_t *j = json_pack("{s:s,s:I,s:I,s:b,s:I,s:s,s:I,s:I,s:I,s:I,s:I,s:I}", "framework",
                        o->framework, "devices", (json_int_t)o->devices, "tp", (json_int_t)o->tp,
                        "sp", o->sequence_parallel, "cp", (json_int_t)o->cp, "precision",
                        pz_precision_names[o->precision], "pp", (json_int_t)o->pp, "vpp",
                        (json_int_t)o->vpp, "dp", (json_int_t)o->dp, "mbs", (json_int_t)o->mbs,
                        "batch", (json_int_t)o->batch, "seq", (json_int_t)o->seq);
  if (o->cp_form) json_object_set_new(j, "cp_form", json_string(pz_context_names[o->cp_form]));
  json_t *more = json_pack(
      "{s:s,s:s,s:I,s:i,s:I,s:s,s:s,s:s,s:s,s:f}", "pipeline", pz_pipeline_names[o->pipeline],
      "recompute", pz_recomputation_names[o->recompute], "recompute_layers",
      (json_int_t)o->recompute_layers, "zero", o->zero, "shard", (json_int_t)o->shard, "attention",
      pz_attention_names[o->attention], "attention_library", o->attention_library, "overlap",
      pz_overlap_text(pz_options_overlap(o), overlap, sizeof overlap), "execution",
      pz_execution_names[o->execution], "grad_bytes", o->grad_bytes);
  if (j && more) json_object_update(j, more);
  json_decref(more);
  set_experts(j, o);
  return j;
}

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
  json_object_set_new(j, "plan", pz_training_plan_json(&r->plan));
  return j;
}
