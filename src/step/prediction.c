#include "step/prediction.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/record.h"
#include "core/trace_events.h"
#include "core/vec.h"
#include "plan/plan_fields.h"

/* ---- terms by name -------------------------------------------------------------------------- */

#define TIME(f, label)                                                                             \
  { #f, label, offsetof(struct pz_training_parts, f), 0 }
#define TIME_HIDDEN(f, label, h)                                                                   \
  { #f, label, offsetof(struct pz_training_parts, f), offsetof(struct pz_prediction, h) }
#define HELD(f, label)                                                                             \
  { #f, label, offsetof(struct pz_training_memory, f), 0 }

static const struct pz_part_info times[] = {
    TIME(products_s, "GEMMs"),
    TIME(attention_s, "attention"),
    TIME(elementwise_s, "element-wise"),
    TIME(launch_s, "launches"),
    TIME_HIDDEN(tensor_s, "tensor-parallel collectives", tensor_hidden_s),
    TIME_HIDDEN(expert_s, "experts' all-to-all", expert_hidden_s),
    TIME(transfer_s, "stage transfers"),
    TIME(bubble_s, "pipeline bubble"),
    TIME_HIDDEN(gradient_s, "gradient exchange", gradient_hidden_s),
    TIME(optimizer_s, "optimizer")};

static const struct pz_part_info memory[] = {HELD(weight_bytes, "weights"),
                                             HELD(gradient_bytes, "gradients"),
                                             HELD(optimizer_bytes, "optimizer"),
                                             HELD(activation_bytes, "activations"),
                                             HELD(work_bytes, "work of a layer"),
                                             HELD(logit_bytes, "logits and loss"),
                                             HELD(communication_bytes, "communication"),
                                             HELD(reserve_bytes, "libraries")};

const struct pz_part_info *pz_time_part_at(size_t i) {
  return i < sizeof times / sizeof *times ? &times[i] : NULL;
}

const struct pz_part_info *pz_memory_part_at(size_t i) {
  return i < sizeof memory / sizeof *memory ? &memory[i] : NULL;
}

/* A pass takes (kernels^n + launches^n)^(1/n); what it takes longer than the kernels is printed as launches. */
bool pz_launch_bound(const struct pz_training_parts *x) {
  double kernels_s = x->products_s + x->attention_s + x->elementwise_s + x->tensor_s + x->expert_s;
  return x->launch_s > kernels_s * (pow(2, 1 / pz_constants_default.smooth) - 1);
}

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

/* ---- constants that count ------------------------------------------------------------------- */

static const double RAISE = 1.1, NOTHING = 1e-9;

/* The bubble follows the other terms, so that it is named only where it changes alone. */
static const char *changed_part(const struct pz_prediction *a, const struct pz_prediction *b) {
  const struct pz_part_info *p;
  const char *found = "memory";
  double most = NOTHING * a->step_s;
  for (size_t i = 0; (p = pz_time_part_at(i)); i++) {
    double by = fabs(pz_time_part(&b->parts, p) - pz_time_part(&a->parts, p));
    if (p->offset == offsetof(struct pz_training_parts, bubble_s)) by /= 1e6;
    if (by <= most) continue;
    most = by;
    found = p->label;
  }
  return found;
}

static enum pz_status raise_one(const struct pz_job *job, const struct pz_plan *plan,
                                const struct pz_prediction *before,
                                const struct pz_constant_info *info, struct pz_constant_effect *out,
                                struct pz_error *err) {
  struct pz_constants raised = pz_constants_default;
  struct pz_job with = *job;
  struct pz_prediction p;
  double value;
  memcpy(&value, (const char *)&raised + info->offset, sizeof value);
  double more = value * RAISE;
  memcpy((char *)&raised + info->offset, &more, sizeof more);
  with.constants = &raised;
  enum pz_status status = pz_predict(&with, plan, &p, NULL, err);
  if (status == PZ_OK)
    *out = (struct pz_constant_effect){.info = info,
                                       .value = value,
                                       .step_change = p.step_s / before->step_s - 1,
                                       .memory_change = p.peak_bytes / before->peak_bytes - 1,
                                       .part = changed_part(before, &p)};
  return status;
}

enum pz_status pz_constant_effects(const struct pz_job *job, const struct pz_plan *plan,
                                   struct pz_arena *arena, struct pz_constant_effect **list,
                                   uint32_t *n, struct pz_error *err) {
  const struct pz_constant_info *info;
  struct pz_vec found;
  struct pz_constant_effect e;
  struct pz_prediction before;
  pz_vec_init(&found, arena, sizeof e);
  enum pz_status status = pz_predict(job, plan, &before, NULL, err);
  for (size_t i = 0; (info = pz_constant_at(i)) && status == PZ_OK; i++) {
    status = raise_one(job, plan, &before, info, &e, err);
    bool counts =
        status == PZ_OK && (fabs(e.step_change) > NOTHING || fabs(e.memory_change) > NOTHING);
    if (counts && !pz_vec_push(&found, &e))
      status = pz_fail(err, PZ_NO_MEMORY, "out of memory for the constants");
  }
  if (status != PZ_OK) return status;
  *list = found.items;
  *n = found.n;
  return PZ_OK;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

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
    PZ_FIELD(struct pz_prediction, tokens, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, params, PZ_FIELD_REAL),
    PZ_FIELD(struct pz_prediction, microbatches, PZ_FIELD_INT),
    PZ_FIELD(struct pz_prediction, peak_bytes, PZ_FIELD_REAL),
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
  return json_pack("{s:f,s:f,s:I,s:s,s:b,s:o}", "mean", e->error, "bias", e->bias, "runs",
                   (json_int_t)e->runs, "of", e->of, "same_chip", e->same_chip, "beyond", beyond);
}

json_t *pz_training_run_json(const struct pz_training_run *r) {
  json_t *j = pz_record_json(&prediction_record, &r->p), *stages = json_array();
  for (int64_t k = 0; k < r->plan.pp; k++)
    json_array_append_new(stages, memory_json(&r->stages[k]));
  json_object_set_new(j, "hbm_bytes", json_real(r->hbm_bytes));
  json_object_set_new(j, "usable_bytes", json_real(r->p.usable_bytes));
  json_object_set_new(j, "fits", json_boolean(pz_prediction_fits(&r->p)));
  json_object_set_new(j, "memory", memory_json(&r->p.peak));
  json_object_set_new(j, "stages", stages);
  json_object_set_new(j, "parts", time_json(&r->p, false));
  json_object_set_new(j, "hidden", time_json(&r->p, true));
  json_object_set_new(j, "launch_bound", json_boolean(pz_launch_bound(&r->p.parts)));
  json_object_set_new(j, "expected_error", expected_json(&r->expected));
  if (r->refusal[0]) json_object_set_new(j, "refusal", json_string(r->refusal));
  json_object_set_new(j, "plan", pz_plan_json(&r->plan));
  return j;
}

/* ---- the trace ------------------------------------------------------------------------------ */

static void add_event(struct pz_trace_events *t, const struct pz_training_run *r,
                      const struct pz_pipeline_event *e) {
  const char *kind = e->backward ? "backward" : "forward";
  char chunk[48];
  if (r->plan.vpp > 1) {
    snprintf(chunk, sizeof chunk, "%s chunk %u, microbatch", kind, e->chunk + 1);
    kind = chunk;
  }
  pz_trace_span(t, (int)e->stage + 1, kind, (int64_t)e->microbatch + 1,
                (const double[2]){e->start_s, e->end_s});
}

enum pz_status pz_prediction_trace(const struct pz_training_run *r, const char *model, char **text,
                                   struct pz_error *err) {
  const struct pz_prediction *p = &r->p;
  struct pz_trace_events t;
  if (r->n_events > PZ_PREDICTION_TRACE_MOST)
    return pz_fail(err, PZ_LIMIT, "a trace of %u events; accepted: at most %d (fewer microbatches)",
                   r->n_events, PZ_PREDICTION_TRACE_MOST);
  if (!(p->step_s < 1e6))
    return pz_fail(err, PZ_LIMIT, "a trace of a step of %g s; accepted: below 1e6 s", p->step_s);
  double update = p->step_s - p->parts.optimizer_s, exchange = update - p->parts.gradient_s;
  pz_trace_begin(&t, "ms");
  pz_trace_name(&t, "process_name", PZ_TRACE_PROCESS, 0,
                json_sprintf("%s: one replica of %lld", model, (long long)r->plan.dp));
  for (uint32_t i = 0; i < r->n_events; i++) add_event(&t, r, &r->events[i]);
  for (int k = 1; k <= (int)r->plan.pp; k++) {
    pz_trace_name(&t, "thread_name", PZ_TRACE_PROCESS, k, json_sprintf("stage %d", k));
    pz_trace_span(&t, k, "gradient exchange", -1, (const double[2]){exchange, update});
    pz_trace_span(&t, k, "optimizer", -1, (const double[2]){update, p->step_s});
  }
  return pz_trace_end(&t, text, err);
}
