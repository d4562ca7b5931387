/* Reader of DeepSpeed's configuration, the JSON that a launch script of Megatron-DeepSpeed writes.
 * The configuration must agree with the arguments of the script.  It also states what the arguments
 * do not: overlap, the type of gradients, and an optimizer on the host.  Defaults are those of
 * DeepSpeed's runtime/zero/config.py. */
#include <string.h>

#include "core/fields.h"
#include "core/text.h"
#include "launch/megatron_reader.h"
#include "launch/run_readers.h"

/* clang-format off */
/* Keys that are read or do not change the plan. */
static const char *const deepspeed_keys[] = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "steps_per_print", "gradient_clipping",
    "communication_data_type", "data_types", "bf16", "fp16", "zero_optimization", "wall_clock_breakdown", "memory_breakdown", "dump_state",
    "scheduler", "flops_profiler", "comms_logger", "tensorboard", "wandb", "csv_monitor", "checkpoint", "zero_allow_untested_optimizer",
    "zero_force_ds_cpu_optimizer", NULL};
static const char *const zero_keys[] = {
    "stage", "overlap_comm", "stage3_prefetch_bucket_size", "stage3_max_live_parameters", "stage3_max_reuse_distance",
    "stage3_param_persistence_threshold", "stage3_model_persistence_threshold", "stage3_gather_16bit_weights_on_model_save",
    "stage3_gather_fp16_weights_on_model_save", "reduce_bucket_size", "allgather_bucket_size", "sub_group_size", "contiguous_gradients",
    "reduce_scatter", "allgather_partitions", "offload_optimizer", "cpu_offload", "round_robin_gradients", "load_from_fp32_weights",
    "elastic_checkpoint", "ignore_unused_parameters", "log_trace_cache_warnings", "enable_sanity_checks", NULL};
/* Keys that change the step and are not covered, unless their value turns nothing on. */
static const char *const zero_refused[] = {
    "offload_param", "cpu_offload_param", "zero_quantized_weights", "zero_quantized_gradients", "zero_hpz_partition_size", "mics_shard_size",
    "zenflow", NULL};
/* clang-format on */

/* Returns whether a value has an effect, unlike false, null, 0, 1, -1 and {"device": "none"}. */
static bool turns_on(const json_t *value) {
  const char *device = json_string_value(json_object_get(value, "device"));
  if (device) return strcmp(device, "none") != 0;
  if (json_is_number(value)) return json_number_value(value) > 1;
  return !json_is_null(value) && !json_is_false(value);
}

/* Raises an error if a number or switch has another type or range, unless it is "auto". */
static void check_values(struct pz_call *call, const json_t *config) {
  static const char *const counts[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps", "zero_optimization.stage"};
  static const char *const switches[] = {"bf16.enabled", "fp16.enabled",
                                         "zero_optimization.overlap_comm"};
  struct pz_fields fields = pz_fields_of(call, "deepspeed.json", config);
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    const char *word = json_string_value(pz_fields_value(&fields, counts[i]));
    bool is_zero_stage = i == sizeof counts / sizeof *counts - 1;
    struct pz_range range = {is_zero_stage ? 0 : 1, is_zero_stage ? 3 : 1 << 24};
    if (!word || strcmp(word, "auto") != 0) (void)pz_fields_int_or(&fields, counts[i], range, 0);
  }
  for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
    const char *word = json_string_value(pz_fields_value(&fields, switches[i]));
    if (!word || strcmp(word, "auto") != 0) (void)pz_fields_bool_or(&fields, switches[i], false);
  }
  pz_must(call, fields.status);
}

/* Raises an error if the configuration and the arguments state different numbers. */
static void check_agreement(struct pz_megatron_reader *reader, const json_t *config) {
  static const struct {
    const char *key, *argument;
    enum pz_plan_field field;
  } shared[] = {{"train_batch_size", "--global-batch-size", PZ_PLAN_BATCH},
                {"train_micro_batch_size_per_gpu", "--micro-batch-size", PZ_PLAN_MBS},
                {"zero_optimization.stage", "--zero-stage", PZ_PLAN_ZERO}};
  struct pz_fields fields = pz_fields_of(reader->call, "deepspeed.json", config);
  for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
    const json_t *value = pz_fields_value(&fields, shared[i].key);
    bool is_stage = shared[i].field == PZ_PLAN_ZERO;
    bool is_known = is_stage || pz_given(reader, (int)shared[i].field);
    int64_t given = is_stage ? reader->run->plan.zero : reader->given[shared[i].field].count;
    if (is_known && json_is_integer(value) && json_integer_value(value) != given)
      pz_raise(reader->call, PZ_BAD_INPUT, "%s is %lld; accepted: %lld, as %s", shared[i].key,
               (long long)json_integer_value(value), (long long)given, shared[i].argument);
  }
}

/* Raises an error for keys that are not covered or look misspelt, and lists other unknown keys. */
static void check_keys(struct pz_megatron_reader *reader, json_t *object, const char *prefix,
                       const char *const *known) {
  json_t *value;
  const char *key;
  json_object_foreach(object, key, value) {
    bool is_left_out = pz_name_is_among(reader->options->ignore, key);
    bool is_refused = pz_name_is_among(zero_refused, key) && !is_left_out;
    if (pz_name_is_among(known, key) || (is_refused && !turns_on(value))) continue;
    if (is_refused)
      pz_raise(reader->call, PZ_BAD_INPUT,
               "%s%s is not covered; accepted: the run without it (--ignore %s)", prefix, key, key);
    const char *meant = is_left_out ? NULL : pz_text_misspelt(key, pz_name_in_list, known);
    if (meant)
      pz_raise(reader->call, PZ_BAD_INPUT,
               "%s%.60s is no key; did you mean %s? (--ignore %.60s leaves it out)", prefix, key,
               meant, key);
    pz_add_ignored(reader, pz_format(reader->call, "deepspeed.%s%.60s", prefix, key));
  }
}

/* Reads from a configuration what the arguments do not state: overlap, the type of gradients, and
 * the optimizer on the host.  A NULL configuration has DeepSpeed's defaults, with which only ZeRO
 * stage 3 overlaps its communication and prefetches weights. */
static void read_config(struct pz_megatron_reader *reader, json_t *config) {
  struct pz_plan *plan = &reader->run->plan;
  json_t *zero = json_object_get(config, "zero_optimization");
  const char *type = json_string_value(json_object_get(config, "communication_data_type"));
  const json_t *overlap = json_object_get(zero, "overlap_comm");
  const json_t *prefetch = json_object_get(zero, "stage3_prefetch_bucket_size");
  check_values(reader->call, config);
  check_agreement(reader, config);
  check_keys(reader, config, "", deepspeed_keys);
  check_keys(reader, zero, "zero_optimization.", zero_keys);
  bool overlaps_by_default = plan->zero == 3;
  bool overlaps = json_is_boolean(overlap) ? json_is_true(overlap) : overlaps_by_default;
  bool prefetches = !json_is_number(prefetch) || json_number_value(prefetch) > 0;
  plan->overlap = 0;
  if (overlaps && plan->zero > 1) plan->overlap |= PZ_OVERLAP_GRAD;
  if (overlaps && prefetches && plan->zero == 3) plan->overlap |= PZ_OVERLAP_PARAM;
  plan->grad_bytes = 0;
  if (type) plan->grad_bytes = strcmp(type, "fp32") == 0 ? 4 : 2;
  const json_t *offload = json_object_get(zero, "offload_optimizer");
  if (!offload) offload = json_object_get(zero, "cpu_offload");
  const char *device = json_string_value(json_object_get(offload, "device"));
  if (device && strcmp(device, "cpu") != 0 && strcmp(device, "none") != 0)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "zero_optimization.offload_optimizer.device is '%.20s'; accepted: cpu or none",
             device);
  if (!offload || !turns_on(offload)) return;
  plan->offload |= PZ_OFFLOAD_OPTIMIZER;
  reader->run->from[PZ_PLAN_OFFLOAD] = "DeepSpeed's configuration";
}

/* Arguments of read_document(). */
struct config_reading {
  struct pz_megatron_reader *reader;
  struct pz_document document;
};

/* Parses the JSON of a configuration and reads it.  The reader raises errors in the given call,
 * so that pz_read_deepspeed_config() can catch them, and allocates in its own arena as before. */
static void read_document(struct pz_call *call, void *ctx) {
  const struct config_reading *reading = ctx;
  struct pz_megatron_reader *reader = reading->reader;
  const struct pz_document *document = &reading->document;
  struct pz_call inner = pz_call_in(call, reader->call->arena);
  json_t *config = pz_json_read(call, "deepspeed.json", document->text, document->bytes);
  reader->call = &inner;
  read_config(reader, config);
}

/* Reads the configuration that the script writes, or its defaults if the script writes none.  Errors
 * in the configuration are caught (by a border, core/call.h) and raised again with the name and the
 * line of the script in front. */
void pz_read_deepspeed_config(struct pz_megatron_reader *reader) {
  static const char origin[] = "DeepSpeed's configuration";
  struct config_reading reading = {.reader = reader};
  if (!pz_script_document(reader->text, reader->bytes, ".json", &reading.document)) {
    pz_megatron_add_note(reader, "DeepSpeed's configuration is not in the script: overlap_comm and "
                                 "communication_data_type are predicted as by default");
    read_config(reader, NULL);
    return;
  }
  struct pz_call *call = reader->call;
  struct pz_error err = {0};
  enum pz_status status = pz_border(read_document, &reading, &err);
  reader->call = call; /* read_document() replaced it by a call that has ended */
  if (status != PZ_OK)
    pz_raise(call, status, "%s:%u: DeepSpeed's configuration: %s", reader->name,
             reading.document.line, err.message);
  reader->run->from[PZ_PLAN_OVERLAP] = origin;
  if (reader->run->plan.grad_bytes > 0) reader->run->from[PZ_PLAN_GRAD_BYTES] = origin;
}
