/* Records of training plans: a prediction, plans that a search found with its certificate, the cost
 * of a whole training run, and the answers of `phaze predict`, `place`, `tune` and `diff`.
 *
 * Records come in the order in which they contain each other.  Values that are no member of a
 * struct are made by a function above the record that has them. */
#include "report/records.h"

#include <string.h>

#include "plan/plan_fields.h"

/* ---- a prediction --------------------------------------------------------------------------- */

#define MEMORY struct pz_training_memory
#define BYTES(f, meaning) PZ_ROW(MEMORY, f, PZ_FIELD_REAL, "B", meaning)
static const struct pz_field memory_fields[] = {
    BYTES(weight_bytes, "Weights"),
    BYTES(gradient_bytes, "Gradients"),
    BYTES(optimizer_bytes, "Optimizer state"),
    BYTES(activation_bytes, "Activations that are saved for the backward pass"),
    BYTES(work_bytes, "Results that the layer at hand computes again, and its work space"),
    BYTES(logit_bytes, "Logits and loss"),
    BYTES(communication_bytes, "Gathered weights, gradients before their scatter, transfers"),
    BYTES(reserve_bytes, "Work space of libraries"),
};
const struct pz_record pz_training_memory_record = PZ_RECORD(memory_fields, MEMORY);

#define PARTS struct pz_training_parts
#define SECONDS(f, meaning) PZ_ROW(PARTS, f, PZ_FIELD_REAL, "s", meaning)
static const struct pz_field part_fields[] = {
    SECONDS(products_s, "GEMMs"),
    SECONDS(attention_s, "Attention"),
    SECONDS(elementwise_s, "Element-wise operators"),
    SECONDS(launch_s, "Waiting for launches by the host"),
    SECONDS(tensor_s, "Tensor- and context-parallel collectives that are not hidden"),
    SECONDS(expert_s, "Expert-parallel collectives that are not hidden"),
    SECONDS(transfer_s, "Transfers between pipeline stages"),
    SECONDS(bubble_s, "Pipeline bubble"),
    SECONDS(gradient_s, "Collectives of gradients and weights that are not hidden"),
    SECONDS(waiting_s, "Waiting for the slowest of many devices"),
    SECONDS(optimizer_s, "Optimizer"),
};
static const struct pz_record part_record = PZ_RECORD(part_fields, PARTS);

#define PREDICTION struct pz_prediction
#define HIDDEN(f, key, meaning) PZ_ROW_AS(PREDICTION, f, PZ_FIELD_REAL, key, "s", meaning)
static const struct pz_field hidden_fields[] = {
    HIDDEN(tensor_hidden_s, "tensor_s", "Tensor- and context-parallel collectives"),
    HIDDEN(expert_hidden_s, "expert_s", "Expert-parallel collectives"),
    HIDDEN(gradient_hidden_s, "gradient_s", "Collectives of gradients and weights"),
};
static const struct pz_record hidden_record = PZ_RECORD(hidden_fields, PREDICTION);

#define REAL(f, unit, meaning) PZ_ROW(PREDICTION, f, PZ_FIELD_REAL, unit, meaning)
static const struct pz_field prediction_fields[] = {
    REAL(step_s, "s", "Time of a training step"),
    PZ_ROW_AS(PREDICTION, bound_s, PZ_FIELD_REAL, "pipeline_bound_s", "s",
              "Lower bound of the pipeline alone"),
    REAL(samples_per_s, "1/s", "Samples per second"),
    REAL(tokens_per_s_per_device, "1/s", "Tokens per second and device"),
    REAL(mfu, "ratio", "Model FLOP utilisation; attention counts the keys that a token attends to"),
    REAL(hfu, "ratio", "Hardware FLOP utilisation: the same with recomputation"),
    REAL(mfu_conventional, "ratio", "MFU as papers print it, with attention in full"),
    REAL(flop_per_s_per_device, "FLOP/s", "Model FLOP per second and device, as in that MFU"),
    REAL(tokens, NULL, "Tokens of a step"),
    REAL(params, NULL, "Parameters of the model"),
    PZ_ROW(PREDICTION, microbatches, PZ_FIELD_INT, NULL, "Microbatches of each replica in a step"),
    REAL(peak_bytes, "B", "Peak memory of all tensors, on the fullest stage"),
    REAL(reserved_low_bytes, "B", "Least memory that the allocator reserves, by the margin"),
    REAL(reserved_bytes, "B", "Memory that the allocator reserves"),
    REAL(needed_bytes, "B", "Most memory that the allocator reserves, by the margin"),
    PZ_ROW(PREDICTION, peak_stage, PZ_FIELD_COUNT, NULL, "The fullest stage, from 0"),
};
static const struct pz_record prediction_record = PZ_RECORD(prediction_fields, PREDICTION);

/* Fields in which the question is beyond all validated runs, which "; " separates. */
static json_t *write_beyond(const void *member) {
  json_t *list = json_array();
  for (const char *position = member; *position;) {
    const char *end = strstr(position, "; ");
    size_t n = end ? (size_t)(end - position) : strlen(position);
    json_array_append_new(list, json_stringn(position, n));
    position += end ? n + 2 : n;
  }
  return list;
}
PZ_CODEC(beyond, "array of texts", NULL);

#define EXPECTATION struct pz_expectation
static const struct pz_field expectation_fields[] = {
    PZ_ROW(EXPECTATION, error, PZ_FIELD_REAL, "ratio",
           "8 of 10 comparable runs are within this share of the predicted step"),
    PZ_ROW(EXPECTATION, runs, PZ_FIELD_COUNT, NULL, "Validated runs with its rarest feature"),
    PZ_ROW(EXPECTATION, of, PZ_FIELD_CHARS, NULL, "Where the error comes from"),
    PZ_ROW_BY(EXPECTATION, beyond, "beyond", &beyond_codec,
              "Features of the plan that no validated run has"),
};
static const struct pz_record expectation_record = PZ_RECORD(expectation_fields, EXPECTATION);

#define RUN struct pz_training_run
static json_t *write_expectation(const void *member) {
  const EXPECTATION *expected = member;
  return expected->runs ? pz_record_json(&expectation_record, expected) : json_null();
}
PZ_CODEC(expectation, "object or null", &expectation_record);

static json_t *write_plan(const void *member) { return pz_plan_json(member); }
PZ_CODEC(plan, "object, plan", NULL);

static json_t *write_tokens_per_day(const void *value) {
  const PREDICTION *prediction = &((const RUN *)value)->p;
  return json_real(prediction->tokens / prediction->step_s * 86400);
}
PZ_CODEC(tokens_per_day, "number", NULL);

static json_t *write_fits(const void *value) {
  return json_boolean(pz_prediction_fits(&((const RUN *)value)->p));
}
PZ_CODEC(fits, "true or false", NULL);

static json_t *write_stages(const void *value) {
  const RUN *run = value;
  json_t *list = json_array();
  for (int64_t k = 0; k < run->plan.pp; k++)
    json_array_append_new(list, pz_record_json(&pz_training_memory_record, &run->stages[k]));
  return list;
}
PZ_CODEC(stages, "array of objects", &pz_training_memory_record);

/* A list with a number for each pipeline stage. */
static json_t *stage_reals(const double *values, int64_t stages) {
  json_t *list = json_array();
  for (int64_t k = 0; k < stages; k++) json_array_append_new(list, json_real(values[k]));
  return list;
}
static json_t *write_stage_s(const void *value) {
  const RUN *run = value;
  return stage_reals(run->stage_s, run->plan.pp);
}
static json_t *write_reserved_stages(const void *value) {
  const RUN *run = value;
  return stage_reals(run->reserved_bytes, run->plan.pp);
}
PZ_CODEC(stage_s, "array of numbers", NULL);
PZ_CODEC(reserved_stages, "array of numbers", NULL);

/* Memory of the host, which is used by plans with offloading. */
#define HOST(f, unit, meaning) PZ_ROW(PREDICTION, f, PZ_FIELD_REAL, unit, meaning)
static const struct pz_field host_fields[] = {
    HOST(host_bytes, "B", "Memory of the host for each device"),
    HOST(usable_host_bytes, "B", "Memory of the host that each device may use"),
    HOST(offload_s, "s", "Transfers to and from the host that are not hidden"),
};
static const struct pz_record host_record = PZ_RECORD(host_fields, PREDICTION);
static json_t *write_host(const void *member) {
  const PREDICTION *prediction = member;
  return prediction->host_bytes > 0 ? pz_record_json(&host_record, prediction) : json_object();
}
PZ_CODEC(host, "object", &host_record);

static const struct pz_field run_fields[] = {
    PZ_ROW_IN(RUN, p, PZ_FIELD_FLAT, "", &prediction_record, NULL),
    PZ_ROW_MADE("tokens_per_day", &tokens_per_day_codec, NULL, "Tokens in a day"),
    PZ_ROW(RUN, watts, PZ_FIELD_REAL, "W", "Mean power of a device over the step",
           .omitted = PZ_OMITTED_IF_EMPTY),
    PZ_ROW(RUN, hbm_bytes, PZ_FIELD_REAL, "B", "Memory of a device"),
    PZ_ROW_AS(RUN, p.usable_bytes, PZ_FIELD_REAL, "usable_bytes", "B",
              "Memory of a device that the allocator can reserve"),
    PZ_ROW_MADE("fits", &fits_codec, NULL, "The plan fits in the memory of device and host"),
    PZ_ROW_IN(RUN, p.peak, PZ_FIELD_STRUCT, "memory", &pz_training_memory_record,
              "Peak memory of the fullest stage by use"),
    PZ_ROW_MADE("stages", &stages_codec, NULL, "Peak memory of every stage by use"),
    PZ_ROW_MADE("stage_s", &stage_s_codec, "s", "Busy time of a device of every stage in a step"),
    PZ_ROW_MADE("reserved_stages", &reserved_stages_codec, "B",
                "Memory that the allocator of every stage reserves"),
    PZ_ROW_IN(RUN, p.parts, PZ_FIELD_STRUCT, "parts", &part_record,
              "Parts of the step, which add up to step_s"),
    PZ_ROW_IN(RUN, p, PZ_FIELD_STRUCT, "hidden", &hidden_record,
              "Communication that is hidden behind computation"),
    PZ_ROW_IN(RUN, p, PZ_FIELD_FLAT, "", &host_record, NULL, .codec = &host_codec),
    PZ_ROW(RUN, launch_bound, PZ_FIELD_BOOL, NULL,
           "Launches take longer than the kernels they start; such steps vary by up to 1.9 times"),
    PZ_ROW_BY(RUN, expected, "expected_error", &expectation_codec,
              "Expected error of step_s; null: no validated run is comparable"),
    PZ_ROW(RUN, refusal, PZ_FIELD_CHARS, NULL, "Why the framework cannot run the plan",
           .omitted = PZ_OMITTED_IF_EMPTY),
    PZ_ROW_BY(RUN, plan, "plan", &plan_codec, "The plan with the framework's defaults filled in"),
};
const struct pz_record pz_training_run_record = PZ_RECORD(run_fields, RUN);

/* ---- the cost of a training run ------------------------------------------------------------- */

/* The times of a checkpoint and of a restart may be 0; they are written if failures were asked
 * for, so that there is a goodput. */
static json_t *write_checkpoint(const void *value) {
  const struct pz_run_cost *cost = value;
  return cost->goodput > 0 ? json_real(cost->checkpoint_s) : json_null();
}
static json_t *write_restart(const void *value) {
  const struct pz_run_cost *cost = value;
  return cost->goodput > 0 ? json_real(cost->restart_s) : json_null();
}
PZ_CODEC(checkpoint, "number", NULL);
PZ_CODEC(restart, "number", NULL);

/* What was not asked for or is not known is 0 and is omitted. */
#define COST(f, unit, meaning)                                                                     \
  PZ_ROW(struct pz_run_cost, f, PZ_FIELD_REAL, unit, meaning, .omitted = PZ_OMITTED_IF_EMPTY)
static const struct pz_field cost_fields[] = {
    COST(steps, NULL, "Steps of the run"),
    COST(seconds, "s", "Time without failures and checkpoints"),
    COST(device_hours, "h", "Hours of all devices"),
    COST(dollars, "$", "Price of these hours"),
    COST(energy_j, "J", "Energy of the devices"),
    COST(job_mtbf_s, "s", "Mean time between failures of the job"),
    PZ_ROW_MADE("checkpoint_s", &checkpoint_codec, "s", "Time of a checkpoint",
                .omitted = PZ_OMITTED_IF_NULL),
    PZ_ROW_MADE("restart_s", &restart_codec, "s", "Time of a restart",
                .omitted = PZ_OMITTED_IF_NULL),
    COST(interval_s, "s", "Time of training between two checkpoints"),
    COST(goodput, "ratio", "seconds over all_seconds"),
    COST(all_seconds, "s", "Time with failures and checkpoints"),
    COST(all_device_hours, "h", "Hours of all devices with failures"),
    COST(all_dollars, "$", "Price of these hours"),
    COST(all_energy_j, "J", "Energy of the devices with failures"),
};
const struct pz_record pz_run_cost_record = PZ_RECORD(cost_fields, struct pz_run_cost);

/* ---- found plans ---------------------------------------------------------------------------- */

#define PROOF struct pz_plan_certificate
static json_t *write_excluded(const void *value) {
  const PROOF *proof = value;
  return json_integer((json_int_t)(proof->by_bound + proof->by_memory));
}
PZ_CODEC(excluded, "integer", NULL);

#define PROOF_BEGIN                                                                                \
  PZ_ROW(PROOF, plans, PZ_FIELD_BIG_COUNT, NULL, "Plans of the space"),                            \
      PZ_ROW(PROOF, solved, PZ_FIELD_BIG_COUNT, NULL, "Plans that were simulated"),                \
      PZ_ROW_MADE("excluded", &excluded_codec, NULL, "Plans that bounds or memory exclude")
#define PROOF_END                                                                                  \
  PZ_ROW(PROOF, gap, PZ_FIELD_REAL, "ratio",                                                       \
         "Distance of the best plan to the least bound of undecided plans; 0: proved")
static const struct pz_field short_proof_fields[] = {PROOF_BEGIN, PROOF_END};
const struct pz_record pz_short_certificate_record = PZ_RECORD(short_proof_fields, PROOF);
static const struct pz_field proof_fields[] = {
    PROOF_BEGIN,
    PZ_ROW_AS(PROOF, by_bound, PZ_FIELD_BIG_COUNT, "excluded_by_bound", NULL,
              "Plans that a bound excludes"),
    PZ_ROW_AS(PROOF, by_memory, PZ_FIELD_BIG_COUNT, "excluded_by_memory", NULL,
              "Plans that do not fit in memory"),
    PROOF_END,
};
const struct pz_record pz_plan_certificate_record = PZ_RECORD(proof_fields, PROOF);

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

#define FOUND struct pz_found_plan
/* The number of layers of every stage: all of them, or those that are recomputed. */
static json_t *stage_layers(const FOUND *found, bool recomputed) {
  json_t *list = json_array();
  for (int64_t k = 0; k < found->run->plan.pp; k++) {
    struct pz_stage_layers stage = pz_training_run_stage(found->run, k);
    json_array_append_new(list,
                          json_integer((json_int_t)(recomputed ? stage.again : stage.layers)));
  }
  return list;
}
static json_t *write_stage_layers(const void *value) { return stage_layers(value, false); }
static json_t *write_recomputed_layers(const void *value) { return stage_layers(value, true); }
PZ_CODEC(stage_layers, "array of integers", NULL);
PZ_CODEC(recomputed_layers, "array of integers", NULL);

/* How a plan differs from the best one. */
struct slower_plan {
  double slower, grown_s;
  const char *grown_part;
};
static const struct pz_field slower_fields[] = {
    PZ_ROW(struct slower_plan, slower, PZ_FIELD_REAL, "ratio",
           "Step over that of the chosen plan, minus 1"),
    PZ_ROW(struct slower_plan, grown_part, PZ_FIELD_TEXT_OR_NULL, NULL,
           "Part of the step that is longer by most; null: none"),
    PZ_ROW(struct slower_plan, grown_s, PZ_FIELD_REAL, "s", "Difference of this part"),
};
static const struct pz_record slower_record = PZ_RECORD(slower_fields, struct slower_plan);
static json_t *write_slower(const void *value) {
  const FOUND *found = value;
  if (!found->best) return json_object();
  struct slower_plan plan = {.slower = found->run->p.step_s / found->best->p.step_s - 1};
  const struct pz_part_info *part = pz_grown_part(&found->best->p, &found->run->p, &plan.grown_s);
  plan.grown_part = part ? part->key : NULL;
  return pz_record_json(&slower_record, &plan);
}
PZ_CODEC(slower, "object", &slower_record);

/* `ep` is a field of the plan only if it was searched; models with experts always state it. */
static json_t *write_experts(const void *value) {
  const FOUND *found = value;
  return found->experts ? json_integer((json_int_t)found->run->plan.ep) : json_null();
}
PZ_CODEC(experts, "integer", NULL);

#define OF_RUN(f, t, key, unit, ...) PZ_ROW_VIA(FOUND, run, RUN, f, t, key, unit, __VA_ARGS__)
static const struct pz_field found_fields[] = {
    OF_RUN(p.step_s, PZ_FIELD_REAL, "step_s", "s", "Time of a training step"),
    OF_RUN(p.mfu, PZ_FIELD_REAL, "mfu", "ratio", "Model FLOP utilisation"),
    OF_RUN(p.mfu_conventional, PZ_FIELD_REAL, "mfu_conventional", "ratio",
           "MFU as papers print it"),
    OF_RUN(plan.devices, PZ_FIELD_INT, "devices_used", NULL, "Devices that the plan uses"),
    OF_RUN(p.microbatches, PZ_FIELD_INT, "microbatches", NULL, "Microbatches of each replica"),
    OF_RUN(p.samples_per_s, PZ_FIELD_REAL, "samples_per_s", "1/s", "Samples per second"),
    OF_RUN(p.tokens_per_s_per_device, PZ_FIELD_REAL, "tokens_per_s_per_device", "1/s",
           "Tokens per second and device"),
    OF_RUN(p.peak_bytes, PZ_FIELD_REAL, "peak_bytes", "B", "Peak memory of the fullest stage"),
    OF_RUN(p.host_bytes, PZ_FIELD_REAL, "host_bytes", "B", "Memory of the host per device",
           .omitted = PZ_OMITTED_IF_EMPTY),
    OF_RUN(plan, PZ_FIELD_FLAT, "", NULL, NULL, .codec = &plan_codec),
    PZ_ROW_MADE("stage_layers", &stage_layers_codec, NULL, "Layers of every stage"),
    PZ_ROW_MADE("recompute_by_stage", &recomputed_layers_codec, NULL,
                "Layers of every stage that are recomputed"),
    {.key = "", .type = PZ_FIELD_FLAT, .codec = &slower_codec, .record = &slower_record},
    PZ_ROW_MADE("ep", &experts_codec, NULL, "Expert-parallel degree",
                .omitted = PZ_OMITTED_IF_NULL),
};
const struct pz_record pz_found_plan_record = PZ_RECORD(found_fields, FOUND);

#define SWITCHED struct pz_switched
static const struct pz_field switched_fields[] = {
    PZ_ROW(SWITCHED, option, PZ_FIELD_TEXT, NULL, "Option beyond the framework's defaults"),
    PZ_ROW(SWITCHED, gain, PZ_FIELD_REAL, "ratio", "Step without it over the step, minus 1"),
};
static const struct pz_record switched_record = PZ_RECORD(switched_fields, SWITCHED);

#define PLANS struct pz_training_plans
/* "full", "none", "selective", or "partial" if some layers are recomputed in full. */
static json_t *write_recompute(const void *value) {
  const RUN *run = ((const PLANS *)value)->runs[0];
  if (run->plan.recompute != PZ_RECOMPUTATION_FULL)
    return json_string(pz_recomputation_names[run->plan.recompute]);
  int64_t n_recomputed = 0;
  for (int64_t k = 0; k < run->plan.pp; k++) n_recomputed += pz_training_run_stage(run, k).again;
  if (n_recomputed == run->layers) return json_string("full");
  return json_string(n_recomputed > 0 ? "partial" : "none");
}
PZ_CODEC(recompute, "text", NULL);

static json_t *write_best_run(const void *value) {
  return pz_record_json(&pz_training_run_record, ((const PLANS *)value)->runs[0]);
}
static json_t *write_best_devices(const void *value) {
  return json_integer((json_int_t)((const PLANS *)value)->runs[0]->plan.devices);
}
static json_t *write_best_plan(const void *value) {
  const PLANS *plans = value;
  const FOUND best = {.run = plans->runs[0], .experts = plans->experts};
  return pz_record_json(&pz_found_plan_record, &best);
}
static json_t *write_others(const void *value) {
  const PLANS *plans = value;
  json_t *list = json_array();
  for (uint32_t i = 1; i < plans->n; i++) {
    const FOUND other = {plans->runs[i], plans->runs[0], plans->experts};
    json_array_append_new(list, pz_record_json(&pz_found_plan_record, &other));
  }
  return list;
}
/* A plan that was not chosen, or null. */
static json_t *write_rejected(const PLANS *plans, const RUN *run) {
  const FOUND found = {.run = run, .best = plans->runs[0]};
  return run ? pz_record_json(&pz_found_plan_record, &found) : json_null();
}
static json_t *write_all_devices(const void *value) {
  return write_rejected(value, ((const PLANS *)value)->all_devices);
}
static json_t *write_fastest(const void *value) {
  return write_rejected(value, ((const PLANS *)value)->fastest);
}
PZ_CODEC(best_run, "object", &pz_training_run_record);
PZ_CODEC(best_devices, "integer", NULL);
PZ_CODEC(best_plan, "object", &pz_found_plan_record);
PZ_CODEC(others, "array of objects", &pz_found_plan_record);
PZ_CODEC(all_devices, "object", &pz_found_plan_record);
PZ_CODEC(fastest, "object", &pz_found_plan_record);

static const struct pz_field plans_fields[] = {
    {.key = "", .type = PZ_FIELD_FLAT, .codec = &best_run_codec, .record = &pz_training_run_record},
    PZ_ROW_MADE("devices_used", &best_devices_codec, NULL, "Devices that the plan uses"),
    PZ_ROW_MADE("recompute", &recompute_codec, NULL, "none, selective, partial or full"),
    PZ_ROW_MADE("plan", &best_plan_codec, NULL, "The chosen plan"),
    PZ_ROW_IN(PLANS, certificate, PZ_FIELD_STRUCT, "certificate", &pz_plan_certificate_record,
              "Proof that the plan is the best of its space"),
    PZ_ROW(PLANS, stopped, PZ_FIELD_BOOL, NULL, "The search ended early: this is the best so far",
           .omitted = PZ_OMITTED_IF_EMPTY),
    PZ_ROW_MADE("others", &others_codec, NULL, "The best plans of other kinds"),
    PZ_ROW_MANY(PLANS, switched, n_switched, PZ_FIELD_LIST, "switched", &switched_record,
                "Options that the plan switches on"),
    PZ_ROW_MADE("all_devices", &all_devices_codec, NULL,
                "The best plan on all devices, if the chosen one leaves some idle",
                .omitted = PZ_OMITTED_IF_NULL),
    PZ_ROW_MADE("fastest", &fastest_codec, NULL,
                "The fastest plan, if a simpler one within the tie was chosen",
                .omitted = PZ_OMITTED_IF_NULL),
};
const struct pz_record pz_training_plans_record = PZ_RECORD(plans_fields, PLANS);
