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

/* Returns a list of the fields in which the question is beyond all validated runs.  The member is a
 * text in which "; " separates them. */
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

/* Row for a figure of the host, whose memory is used by plans with offloading. */
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

/* Row for a list with one element for every pipeline stage. */
#define BY_STAGE(f, t, key, unit, ...)                                                             \
  PZ_ROW_AS(RUN, f, t, key, unit, __VA_ARGS__, .count_offset = offsetof(RUN, plan.pp),             \
            .wide_count = true)
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
    BY_STAGE(stages, PZ_FIELD_LIST, "stages", NULL, "Peak memory of every stage by use",
             .record = &pz_training_memory_record),
    BY_STAGE(stage_s, PZ_FIELD_REAL_LIST, "stage_s", "s",
             "Busy time of a device of every stage in a step"),
    BY_STAGE(reserved_bytes, PZ_FIELD_REAL_LIST, "reserved_stages", "B",
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

/* Writes the time of a checkpoint or a restart, which may be 0, if failures were asked for: only
 * then the goodput is above 0. */
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

/* Row for a field of the cost, which is omitted if it is 0 because it was not asked for or is not
 * known. */
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

/* Returns the part of the step time that exceeds the same part of `best` most, or NULL if no part
 * is longer, and sets *grown_s to the difference. */
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

#define SLOWER struct pz_slower_plan
static const struct pz_field slower_fields[] = {
    PZ_ROW(SLOWER, slower, PZ_FIELD_REAL, "ratio", "Step over that of the chosen plan, minus 1"),
    PZ_ROW(SLOWER, grown_part, PZ_FIELD_TEXT_OR_NULL, NULL,
           "Part of the step that is longer by most; null: none"),
    PZ_ROW(SLOWER, grown_s, PZ_FIELD_REAL, "s", "Difference of this part"),
};
static const struct pz_record slower_record = PZ_RECORD(slower_fields, SLOWER);

#define FOUND struct pz_found_plan
/* Row for a list with a number of layers for every pipeline stage. */
#define LAYERS(f, key, meaning)                                                                    \
  PZ_ROW_AS(FOUND, f, PZ_FIELD_INT_LIST, key, NULL, meaning,                                       \
            .count_offset = offsetof(FOUND, n_stages))
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
    LAYERS(stage_layers, "stage_layers", "Layers of every stage"),
    LAYERS(recomputed_layers, "recompute_by_stage", "Layers of every stage that are recomputed"),
    PZ_ROW_FLAT(FOUND, slower, &slower_record),
    PZ_ROW(FOUND, ep, PZ_FIELD_INT, NULL, "Expert-parallel degree of models with experts",
           .omitted = PZ_OMITTED_IF_EMPTY),
};
const struct pz_record pz_found_plan_record = PZ_RECORD(found_fields, FOUND);

/* Returns the plan of a run with its layers by stage and, unless `best` is NULL, how much slower it
 * is than `best`.  Returns NULL if `run` is NULL. */
FOUND *pz_found_plan_new(struct pz_call *call, const RUN *run, const RUN *best, int64_t experts) {
  if (!run) return NULL;
  FOUND *found = pz_alloc(call, 1, sizeof *found);
  uint32_t n = (uint32_t)run->plan.pp;
  int64_t *layers = pz_alloc(call, n, sizeof *layers);
  int64_t *recomputed = pz_alloc(call, n, sizeof *recomputed);
  for (uint32_t k = 0; k < n; k++) {
    struct pz_stage_layers stage = pz_training_run_stage(run, k);
    layers[k] = stage.layers;
    recomputed[k] = stage.again;
  }
  *found =
      (FOUND){.run = run, .stage_layers = layers, .recomputed_layers = recomputed, .n_stages = n};
  /* `ep` is a field of the plan only if it was searched; models with experts always state it. */
  if (experts) found->ep = run->plan.ep;
  if (!best) return found;
  SLOWER *slower = pz_alloc(call, 1, sizeof *slower);
  const struct pz_part_info *part = pz_grown_part(&best->p, &run->p, &slower->grown_s);
  slower->slower = run->p.step_s / best->p.step_s - 1;
  slower->grown_part = part ? part->key : NULL;
  found->slower = slower;
  return found;
}

#define SWITCHED struct pz_switched
static const struct pz_field switched_fields[] = {
    PZ_ROW(SWITCHED, option, PZ_FIELD_TEXT, NULL, "Option beyond the framework's defaults"),
    PZ_ROW(SWITCHED, gain, PZ_FIELD_REAL, "ratio", "Step without it over the step, minus 1"),
};
static const struct pz_record switched_record = PZ_RECORD(switched_fields, SWITCHED);

#define PLACED struct pz_placed_plans
#define OF_PLANS(f, t, name, ...)                                                                  \
  PZ_ROW_VIA(PLACED, plans, struct pz_training_plans, f, t, name, NULL, __VA_ARGS__)
static const struct pz_field placed_fields[] = {
    PZ_ROW_FLAT(PLACED, best, &pz_training_run_record),
    PZ_ROW_VIA(PLACED, best, RUN, plan.devices, PZ_FIELD_INT, "devices_used", NULL,
               "Devices that the plan uses"),
    PZ_ROW(PLACED, recompute, PZ_FIELD_TEXT, NULL, "none, selective, partial or full"),
    PZ_ROW_TO(PLACED, plan, &pz_found_plan_record, "The chosen plan"),
    OF_PLANS(certificate, PZ_FIELD_STRUCT, "certificate",
             "Proof that the plan is the best of its space", .record = &pz_plan_certificate_record),
    OF_PLANS(stopped, PZ_FIELD_BOOL, "stopped", "The search ended early: this is the best so far",
             .omitted = PZ_OMITTED_IF_EMPTY),
    PZ_ROW_MANY(PLACED, others, n_others, PZ_FIELD_LIST, "others", &pz_found_plan_record,
                "The best plans of other kinds"),
    OF_PLANS(switched, PZ_FIELD_LIST, "switched", "Options that the plan switches on",
             .record = &switched_record,
             .count_offset = offsetof(struct pz_training_plans, n_switched)),
    PZ_ROW_IN(PLACED, all_devices, PZ_FIELD_OPTIONAL, "all_devices", &pz_found_plan_record,
              "The best plan on all devices, if the chosen one leaves some idle",
              .omitted = PZ_OMITTED_IF_NULL),
    PZ_ROW_IN(PLACED, fastest, PZ_FIELD_OPTIONAL, "fastest", &pz_found_plan_record,
              "The fastest plan, if a simpler one within the tie was chosen",
              .omitted = PZ_OMITTED_IF_NULL),
};
const struct pz_record pz_placed_plans_record = PZ_RECORD(placed_fields, PLACED);

/* Returns the chosen plan, which is the first of `plans`, with the plans that were not chosen and
 * their differences from it. */
PLACED *pz_placed_plans_new(struct pz_call *call, const struct pz_training_plans *plans) {
  PLACED *placed = pz_alloc(call, 1, sizeof *placed);
  const RUN *best = plans->runs[0];
  placed->plans = plans;
  placed->best = best;
  placed->plan = pz_found_plan_new(call, best, NULL, plans->experts);
  placed->all_devices = pz_found_plan_new(call, plans->all_devices, best, 0);
  placed->fastest = pz_found_plan_new(call, plans->fastest, best, 0);
  placed->n_others = plans->n - 1;
  struct pz_found_plan *others = pz_alloc(call, placed->n_others, sizeof *others);
  for (uint32_t i = 1; i < plans->n; i++)
    others[i - 1] = *pz_found_plan_new(call, plans->runs[i], best, plans->experts);
  placed->others = others;
  placed->recompute = pz_recomputation_names[best->plan.recompute];
  if (best->plan.recompute != PZ_RECOMPUTATION_FULL) return placed;
  /* Full recomputation of only some layers is called "partial", and that of no layer "none". */
  int64_t n_recomputed = 0;
  for (uint32_t k = 0; k < placed->plan->n_stages; k++)
    n_recomputed += placed->plan->recomputed_layers[k];
  if (n_recomputed < best->layers) placed->recompute = n_recomputed > 0 ? "partial" : "none";
  return placed;
}
