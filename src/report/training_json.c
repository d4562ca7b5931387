/* JSON of predictions (pz_training_run_json), of plans that a search found (pz_found_plans_json and its parts), and of the
 * cost of a whole training run (pz_run_cost_json).  jansson passes the failure of an allocation on to the whole document, so
 * that nothing is checked in between. */
#include "report/training_json.h"

#include <string.h>

#include "core/record.h"
#include "plan/plan_fields.h"

/* ---- a prediction --------------------------------------------------------------------------- */

/* The parts of the step time in seconds, by name. */
static json_t *time_parts_json(const struct pz_prediction *x) {
  json_t *parts = json_object();
  for (size_t i = 0; pz_time_part_at(i); i++) {
    const struct pz_part_info *part = pz_time_part_at(i);
    json_object_set_new(parts, part->key, json_real(pz_time_part(&x->parts, part)));
  }
  return parts;
}

/* Communication time that is hidden behind computation, by name of the part. */
static json_t *hidden_parts_json(const struct pz_prediction *x) {
  json_t *parts = json_object();
  for (size_t i = 0; pz_time_part_at(i); i++) {
    const struct pz_part_info *part = pz_time_part_at(i);
    if (part->hidden) json_object_set_new(parts, part->key, json_real(pz_hidden_part(x, part)));
  }
  return parts;
}

static json_t *memory_json(const struct pz_training_memory *x) {
  json_t *parts = json_object();
  for (size_t i = 0; pz_memory_part_at(i); i++) {
    const struct pz_part_info *part = pz_memory_part_at(i);
    json_object_set_new(parts, part->key, json_real(pz_memory_part(x, part)));
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

/* The expected error; null if no validated run is comparable.  `beyond` lists, separated by "; ", in what the question is
 * beyond all validated runs. */
static json_t *expected_error_json(const struct pz_expectation *e) {
  if (!e->runs) return json_null();
  json_t *beyond = json_array();
  for (const char *at = e->beyond; *at;) {
    const char *end = strstr(at, "; ");
    size_t n = end ? (size_t)(end - at) : strlen(at);
    json_array_append_new(beyond, json_stringn(at, n));
    at += end ? n + 2 : n;
  }
  return json_pack("{s:f,s:I,s:s,s:o}", "error", e->error, "runs", (json_int_t)e->runs, "of", e->of,
                   "beyond", beyond);
}

json_t *pz_training_run_json(const struct pz_training_run *r) {
  json_t *j = pz_record_json(&prediction_record, &r->p), *stages = json_array();
  json_t *busy = json_array(), *reserved = json_array();
  for (int64_t k = 0; k < r->plan.pp; k++) {
    json_array_append_new(stages, memory_json(&r->stages[k]));
    json_array_append_new(busy, json_real(r->stage_s[k]));
    json_array_append_new(reserved, json_real(r->reserved_bytes[k]));
  }
  json_object_set_new(j, "tokens_per_day", json_real(r->p.tokens / r->p.step_s * 86400));
  if (r->watts > 0) json_object_set_new(j, "watts", json_real(r->watts));
  json_object_set_new(j, "hbm_bytes", json_real(r->hbm_bytes));
  json_object_set_new(j, "usable_bytes", json_real(r->p.usable_bytes));
  json_object_set_new(j, "fits", json_boolean(pz_prediction_fits(&r->p)));
  json_object_set_new(j, "memory", memory_json(&r->p.peak));
  json_object_set_new(j, "stages", stages);
  json_object_set_new(j, "stage_s", busy);
  json_object_set_new(j, "reserved_stages", reserved);
  json_object_set_new(j, "parts", time_parts_json(&r->p));
  json_object_set_new(j, "hidden", hidden_parts_json(&r->p));
  if (r->p.host_bytes > 0) {
    json_object_set_new(j, "host_bytes", json_real(r->p.host_bytes));
    json_object_set_new(j, "usable_host_bytes", json_real(r->p.usable_host_bytes));
    json_object_set_new(j, "offload_s", json_real(r->p.offload_s));
  }
  json_object_set_new(j, "launch_bound", json_boolean(r->launch_bound));
  json_object_set_new(j, "expected_error", expected_error_json(&r->expected));
  if (r->refusal[0]) json_object_set_new(j, "refusal", json_string(r->refusal));
  json_object_set_new(j, "plan", pz_plan_json(&r->plan));
  return j;
}

/* ---- found plans ---------------------------------------------------------------------------- */

const struct pz_part_info *pz_grown_part(const struct pz_prediction *best,
                                         const struct pz_prediction *other, double *grew_s) {
  const struct pz_part_info *most = NULL;
  *grew_s = 0;
  for (size_t i = 0; pz_time_part_at(i); i++) {
    const struct pz_part_info *part = pz_time_part_at(i);
    double grew = pz_time_part(&other->parts, part) - pz_time_part(&best->parts, part);
    if (!(grew > *grew_s)) continue;
    *grew_s = grew;
    most = part;
  }
  return most;
}

/* The number of layers in each stage: all of them, or only those that are recomputed. */
static json_t *stage_layers_json(const struct pz_training_run *r, bool recomputed) {
  json_t *list = json_array();
  for (int64_t k = 0; k < r->plan.pp; k++) {
    struct pz_stage_layers stage = pz_training_run_stage(r, k);
    json_array_append_new(list,
                          json_integer((json_int_t)(recomputed ? stage.again : stage.layers)));
  }
  return list;
}

json_t *pz_found_plan_json(const struct pz_training_run *r, const struct pz_training_run *best) {
  const struct pz_plan *o = &r->plan;
  const struct pz_prediction *p = &r->p;
  json_t *j =
      json_pack("{s:f,s:f,s:f,s:I,s:I,s:f,s:f,s:f}", "step_s", p->step_s, "mfu", p->mfu,
                "mfu_conventional", p->mfu_conventional, "devices_used", (json_int_t)o->devices,
                "microbatches", (json_int_t)p->microbatches, "samples_per_s", p->samples_per_s,
                "tokens_per_s_per_device", p->tokens_per_s_per_device, "peak_bytes", p->peak_bytes);
  if (p->host_bytes > 0) json_object_set_new(j, "host_bytes", json_real(p->host_bytes));
  json_t *plan = pz_plan_json(o);
  if (j && plan) json_object_update(j, plan);
  json_decref(plan);
  json_object_set_new(j, "stage_layers", stage_layers_json(r, false));
  json_object_set_new(j, "recompute_by_stage", stage_layers_json(r, true));
  if (best) {
    double grew;
    const struct pz_part_info *part = pz_grown_part(&best->p, p, &grew);
    json_object_set_new(j, "slower", json_real(p->step_s / best->p.step_s - 1));
    json_object_set_new(j, "grown_part", part ? json_string(part->key) : json_null());
    json_object_set_new(j, "grown_s", json_real(grew));
  }
  return j;
}

json_t *pz_plan_certificate_json(const struct pz_plan_certificate *c) {
  return json_pack("{s:I,s:I,s:I,s:I,s:I,s:f}", "plans", (json_int_t)c->plans, "solved",
                   (json_int_t)c->solved, "excluded", (json_int_t)(c->by_bound + c->by_memory),
                   "excluded_by_bound", (json_int_t)c->by_bound, "excluded_by_memory",
                   (json_int_t)c->by_memory, "gap", c->gap);
}

/* Returns "full", "none", "selective", or "partial" if only some of the layers are recomputed in full. */
static const char *recompute_word(const struct pz_training_run *r) {
  if (r->plan.recompute != PZ_RECOMPUTATION_FULL) return pz_recomputation_names[r->plan.recompute];
  int64_t n_recomputed = 0;
  for (int64_t k = 0; k < r->plan.pp; k++) n_recomputed += pz_training_run_stage(r, k).again;
  if (n_recomputed == r->layers) return "full";
  return n_recomputed > 0 ? "partial" : "none";
}

json_t *pz_found_plans_json(const struct pz_training_plans *p) {
  const struct pz_training_run *best = p->runs[0];
  json_t *root = pz_training_run_json(best), *plan = pz_found_plan_json(best, NULL);
  json_t *others = json_array(), *switched = json_array();
  /* `ep` is a plan's own field only if it was searched; for models with experts it is added in any case */
  if (p->experts) json_object_set_new(plan, "ep", json_integer((json_int_t)best->plan.ep));
  for (uint32_t i = 1; i < p->n; i++) {
    json_t *other = pz_found_plan_json(p->runs[i], best);
    if (p->experts) json_object_set_new(other, "ep", json_integer((json_int_t)p->runs[i]->plan.ep));
    json_array_append_new(others, other);
  }
  for (uint32_t i = 0; i < p->n_switched; i++)
    json_array_append_new(switched, json_pack("{s:s,s:f}", "option", p->switched[i].option, "gain",
                                              p->switched[i].gain));
  json_object_set_new(root, "devices_used", json_integer((json_int_t)best->plan.devices));
  json_object_set_new(root, "recompute", json_string(recompute_word(best)));
  json_object_set_new(root, "plan", plan);
  json_object_set_new(root, "certificate", pz_plan_certificate_json(&p->certificate));
  if (p->stopped) json_object_set_new(root, "stopped", json_true());
  json_object_set_new(root, "others", others);
  json_object_set_new(root, "switched", switched);
  if (p->all_devices)
    json_object_set_new(root, "all_devices", pz_found_plan_json(p->all_devices, best));
  if (p->fastest) json_object_set_new(root, "fastest", pz_found_plan_json(p->fastest, best));
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

/* A cost that was not requested or is unknown is 0 and omitted.  With failures (goodput), a checkpoint or a restart may take
 * no time, and their zeros are included. */
json_t *pz_run_cost_json(const struct pz_run_cost *c) {
  json_t *j = pz_record_json(&cost_record, c);
  for (size_t i = 0; i < sizeof cost_fields / sizeof *cost_fields && j; i++) {
    const struct pz_field *f = &cost_fields[i];
    bool of_failures = f->offset == offsetof(struct pz_run_cost, checkpoint_s) ||
                       f->offset == offsetof(struct pz_run_cost, restart_s);
    bool unknown = json_real_value(json_object_get(j, f->key)) == 0;
    if (unknown && !(of_failures && c->goodput > 0)) json_object_del(j, f->key);
  }
  return j;
}
