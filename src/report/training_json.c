#include "report/training_json.h"

#include <string.h>

#include "core/record.h"
#include "plan/plan_fields.h"

/* ---- a prediction --------------------------------------------------------------------------- */

static json_t *time_json(const struct pz_prediction *x, bool hidden) {
  json_t *j = json_object();
  const struct pz_part_info *p;
  for (size_t i = 0; (p = pz_time_part_at(i)); i++)
    if (!hidden || p->hidden)
      json_object_set_new(j, p->key,
                          json_real(hidden ? pz_hidden_part(x, p) : pz_time_part(&x->parts, p)));
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

static json_t *expected_json(const struct pz_expectation *e) {
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
  json_object_set_new(j, "parts", time_json(&r->p, false));
  json_object_set_new(j, "hidden", time_json(&r->p, true));
  if (r->p.host_bytes > 0) {
    json_object_set_new(j, "host_bytes", json_real(r->p.host_bytes));
    json_object_set_new(j, "usable_host_bytes", json_real(r->p.usable_host_bytes));
    json_object_set_new(j, "offload_s", json_real(r->p.offload_s));
  }
  json_object_set_new(j, "launch_bound", json_boolean(r->launch_bound));
  json_object_set_new(j, "expected_error", expected_json(&r->expected));
  if (r->refusal[0]) json_object_set_new(j, "refusal", json_string(r->refusal));
  json_object_set_new(j, "plan", pz_plan_json(&r->plan));
  return j;
}

/* ---- plans that were found ------------------------------------------------------------------ */

const struct pz_part_info *pz_grown_part(const struct pz_prediction *best,
                                         const struct pz_prediction *other, double *grew_s) {
  const struct pz_part_info *most = NULL, *part;
  *grew_s = 0;
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
    double grew = pz_time_part(&other->parts, part) - pz_time_part(&best->parts, part);
    if (!(grew > *grew_s)) continue;
    *grew_s = grew;
    most = part;
  }
  return most;
}

/* Layers by stage: all, or those that are recomputed. */
static json_t *layers_json(const struct pz_training_run *r, bool recomputed) {
  json_t *list = json_array();
  for (int64_t k = 0; k < r->plan.pp; k++) {
    struct pz_stage_layers x = pz_training_run_stage(r, k);
    json_array_append_new(list, json_integer((json_int_t)(recomputed ? x.again : x.layers)));
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
  json_object_set_new(j, "stage_layers", layers_json(r, false));
  json_object_set_new(j, "recompute_by_stage", layers_json(r, true));
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

/* In a word: "partial" where only some layers are recomputed. */
static const char *recompute_word(const struct pz_training_run *r) {
  int64_t n = 0;
  if (r->plan.recompute != PZ_RECOMPUTATION_FULL) return pz_recomputation_names[r->plan.recompute];
  for (int64_t k = 0; k < r->plan.pp; k++) n += pz_training_run_stage(r, k).again;
  return n == r->layers ? "full" : n ? "partial" : "none";
}

json_t *pz_found_plans_json(const struct pz_training_plans *p) {
  const struct pz_training_run *best = p->runs[0];
  json_t *j = pz_training_run_json(best), *others = json_array();
  for (uint32_t i = 1; i < p->n; i++)
    json_array_append_new(others, pz_found_plan_json(p->runs[i], best));
  json_object_set_new(j, "devices_used", json_integer((json_int_t)best->plan.devices));
  json_object_set_new(j, "recompute", json_string(recompute_word(best)));
  json_object_set_new(j, "plan", pz_found_plan_json(best, NULL));
  json_object_set_new(j, "certificate", pz_plan_certificate_json(&p->certificate));
  if (p->stopped) json_object_set_new(j, "stopped", json_true());
  json_object_set_new(j, "others", others);
  json_t *switched = json_array();
  for (uint32_t i = 0; i < p->n_switched; i++)
    json_array_append_new(switched, json_pack("{s:s,s:f}", "option", p->switched[i].option, "gain",
                                              p->switched[i].gain));
  json_object_set_new(j, "switched", switched);
  if (p->all_devices)
    json_object_set_new(j, "all_devices", pz_found_plan_json(p->all_devices, best));
  if (p->fastest) json_object_set_new(j, "fastest", pz_found_plan_json(p->fastest, best));
  if (p->experts) /* how these are divided is said of every plan */
    json_object_set_new(json_object_get(j, "plan"), "ep", json_integer((json_int_t)best->plan.ep));
  for (uint32_t i = 1; p->experts && i < p->n; i++)
    json_object_set_new(json_array_get(others, i - 1), "ep",
                        json_integer((json_int_t)p->runs[i]->plan.ep));
  return j;
}

/* ---- what a run costs ------------------------------------------------------------------------ */

#define REAL(f) PZ_FIELD(struct pz_run_cost, f, PZ_FIELD_REAL)
static const struct pz_field cost_fields[] = {
    REAL(steps),       REAL(seconds),     REAL(device_hours), REAL(dollars),
    REAL(energy_j),    REAL(job_mtbf_s),  REAL(checkpoint_s), REAL(restart_s),
    REAL(interval_s),  REAL(goodput),     REAL(all_seconds),  REAL(all_device_hours),
    REAL(all_dollars), REAL(all_energy_j)};
static const struct pz_record cost_record = PZ_RECORD(cost_fields, struct pz_run_cost);

/* What was not asked for, or is not known, is 0 and left out; with failures a checkpoint or a restart
 * may take no time. */
json_t *pz_run_cost_json(const struct pz_run_cost *c) {
  json_t *j = pz_record_json(&cost_record, c);
  for (size_t i = 0; i < sizeof cost_fields / sizeof *cost_fields && j; i++) {
    bool kept =
        c->goodput > 0 && (cost_fields[i].offset == offsetof(struct pz_run_cost, checkpoint_s) ||
                           cost_fields[i].offset == offsetof(struct pz_run_cost, restart_s));
    if (!kept && json_real_value(json_object_get(j, cost_fields[i].key)) == 0)
      json_object_del(j, cost_fields[i].key);
  }
  return j;
}
