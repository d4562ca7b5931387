/* Reader of torchtitan's job configuration: TOML as its releases up to 0.2 read it
 * (torchtitan/config/job_config.py), or a script that writes it, as `--emit torchtitan` does.
 *
 * pz_torchtitan_read() reads the keys (toml.h) and then, group by group, the plan's fields from
 * them.  Keys that are not given have torchtitan's defaults.  The model is one of torchtitan's
 * packages by name and flavor, or a module of the script with the arguments of such a package,
 * which write_module_arguments() rewrites as arguments of Megatron-LM.  Keys that change the step
 * and are not covered are errors (check_other_keys), and other unknown keys are listed as
 * ignored. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/num.h"
#include "core/text.h"
#include "launch/megatron_args.h"
#include "launch/run_readers.h"
#include "launch/toml.h"
#include "plan/plan.h"

enum { MOST_COUNT = 1 << 24, MOST_IGNORED_KEYS = 1000 };

/* Flavors of torchtitan's packages that are built-in models. */
static const struct flavor {
  const char *name, *flavor, *model;
} flavors[] = {{"llama2", "7B", "llama2-7b"},         {"llama2", "13B", "llama2-13b"},
               {"llama2", "70B", "llama2-70b"},       {"llama3", "8B", "llama3.1-8b"},
               {"llama3", "70B", "llama3.1-70b"},     {"llama3", "405B", "llama3.1-405b"},
               {"llama4", "17bx16e", "llama4-scout"}, {"llama4", "17bx128e", "llama4-maverick"},
               {"qwen3", "0.6B", "qwen3-0.6b"},       {"qwen3", "1.7B", "qwen3-1.7b"},
               {"qwen3", "4B", "qwen3-4b"},           {"qwen3", "8B", "qwen3-8b"},
               {"qwen3", "14B", "qwen3-14b"},         {"qwen3", "32B", "qwen3-32b"},
               {"qwen3", "30B-A3B", "qwen3-30b-a3b"}, {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
               {"deepseek_v3", "671B", "deepseek-v3"}};

/* clang-format off */
/* Keys that do not change the step or follow from others.  A final star stands for any rest. */
static const char *const neutral_keys[] = {
    "job.*", "profiling.*", "metrics.*", "optimizer.*", "lr_scheduler.*", "checkpoint.*", "comm.*",
    "validation.local_batch_size", "validation.seq_len", "validation.*", "experimental.*", "memory_estimation.*",
    "fault_tolerance.*", "debug.*", "float8.*", "quantize.*", "model.hf_assets_path", "model.tokenizer_path",
    "model.norm_type", "model.print_after_conversion", "training.steps", "training.max_norm", "training.dataset*",
    "training.gc_*", "training.seed", "training.deterministic", "training.mixed_precision_reduce",
    "training.dataloader.*", "activation_checkpoint.early_stop", "activation_checkpoint.debug",
    "activation_checkpoint.determinism_check", "activation_checkpoint.preserve_rng_state",
    "activation_checkpoint.visualize_*", "activation_checkpoint.per_op_sac_*", "parallelism.disable_loss_parallel",
    "parallelism.context_parallel_rotate_method", NULL};
/* clang-format on */

/* Keys that change the step and are not covered, unless they have this value. */
static const struct refused_key {
  const char *key, *neutral, *effect;
} refused_keys[] = {
    {"training.enable_cpu_offload", "false", "parameters and optimizer on the host"},
    {"training.mixed_precision_param", "bfloat16", "32-bit training"},
    {"training.dtype", "float32", "weights in another type"},
    {"parallelism.enable_compiled_autograd", "false", "a compiled backward pass"},
    {"parallelism.pipeline_parallel_split_points", "", "split points by name"},
    {"parallelism.pipeline_parallel_schedule_csv", "", "an order of its own"},
    {"optimizer.early_step_in_backward", "false", "the optimizer inside the backward pass"},
    {"fault_tolerance.enable", "false", "replica groups that come and go"}};

/* The state of reading a configuration. */
struct titan_reader {
  struct pz_call *call;
  const char *name; /* name of the file, for messages */
  const char *text; /* the whole file, or the script that writes the configuration */
  size_t bytes;
  const struct pz_run_plan_options *options;
  struct pz_vec keys;           /* struct pz_toml_entry */
  bool *is_read;                /* is_read[i]: the reader has asked for key i */
  struct pz_vec asked;          /* const char *: names of keys that the reader knows */
  struct pz_vec ignored, notes; /* const char * */
  struct pz_run_plan *run;
};

/* ---- keys ----------------------------------------------------------------------------------- */

/* Raises an error about a key's value, or if `entry` is NULL about the whole configuration. */
static _Noreturn void reject_key(const struct titan_reader *reader,
                                 const struct pz_toml_entry *entry, const char *accepted) {
  char value[64];
  if (!entry) pz_raise(reader->call, PZ_BAD_INPUT, "%s: %s", reader->name, accepted);
  bool is_array = entry->value.kind == PZ_TOML_ARRAY;
  pz_text_plain(pz_text_copy(value, sizeof value, is_array ? "an array" : entry->value.text));
  pz_raise_at(reader->call, PZ_BAD_INPUT, reader->name, (int)entry->line, 0,
              "%s:%u: %s is %s; accepted: %s", reader->name, entry->line, entry->name, value,
              accepted);
}

/* Returns whether the user asks to ignore the key. */
static bool is_left_out(const struct titan_reader *reader, const char *key) {
  for (const char *const *name = reader->options->ignore; name && *name; name++)
    if (strcmp(*name, key) == 0) return true;
  return false;
}

/* Returns a key's entry, or NULL if it is not given or ignored, and notes the key as known. */
static const struct pz_toml_entry *find_key(struct titan_reader *reader, const char *key) {
  const struct pz_toml_entry *found = NULL;
  const char *name = pz_copy_text(reader->call, key);
  pz_append(reader->call, &reader->asked, &name);
  for (uint32_t i = 0; i < reader->keys.n; i++) {
    const struct pz_toml_entry *entry = pz_vec_at(&reader->keys, struct pz_toml_entry, i);
    if (strcmp(entry->name, key) != 0) continue;
    reader->is_read[i] = true;
    found = entry;
  }
  return found && !is_left_out(reader, key) ? found : NULL;
}

/* Stands for a field of the plan where a key sets none. */
enum { NO_FIELD = -1 };

/* Notes that a field of the plan comes from a key, if it is given and sets a field. */
static void set_key_origin(struct titan_reader *reader, int field,
                           const struct pz_toml_entry *entry) {
  if (field != NO_FIELD && entry)
    reader->run->from[field] = pz_format(reader->call, "%s, line %u", entry->name, entry->line);
}

/* Returns the value of a key that is an integer of at least `least`, or `absent` if the key is not
 * given.  `field` is the plan's field that the key sets, or NO_FIELD. */
static int64_t read_count(struct titan_reader *reader, const char *key, int64_t absent,
                          int64_t least, int field) {
  const struct pz_toml_entry *entry = find_key(reader, key);
  char digits[16], accepted[64];
  size_t n = 0;
  if (!entry) return absent;
  for (const char *c = entry->value.text; *c && n < sizeof digits - 1; c++)
    if (*c != '_') digits[n++] = *c; /* TOML allows 1_000 */
  digits[n] = '\0';
  const char *unsigned_digits = digits[0] == '-' ? digits + 1 : digits;
  bool is_number = entry->value.kind == PZ_TOML_WORD && n < 12 && *unsigned_digits &&
                   strspn(unsigned_digits, "0123456789") == strlen(unsigned_digits);
  int64_t value = strtoll(digits, NULL, 10);
  snprintf(accepted, sizeof accepted, "an integer from %" PRId64 " to 2^24", least);
  if (!is_number || value < least || value > MOST_COUNT) reject_key(reader, entry, accepted);
  set_key_origin(reader, field, entry);
  return value;
}

/* Returns the text of a key, or `absent`; `field` is the plan's field it sets, or NO_FIELD. */
static const char *read_text(struct titan_reader *reader, const char *key, const char *absent,
                             int field) {
  const struct pz_toml_entry *entry = find_key(reader, key);
  if (!entry) return absent;
  if (entry->value.kind == PZ_TOML_ARRAY) reject_key(reader, entry, "a text");
  set_key_origin(reader, field, entry);
  return entry->value.text;
}

/* Returns a key's truth value, or `absent`; `field` is the plan's field it sets, or NO_FIELD. */
static bool read_truth(struct titan_reader *reader, const char *key, bool absent, int field) {
  const struct pz_toml_entry *entry = find_key(reader, key);
  if (!entry) return absent;
  bool is_true = strcmp(entry->value.text, "true") == 0;
  if (!is_true && strcmp(entry->value.text, "false") != 0)
    reject_key(reader, entry, "true or false");
  set_key_origin(reader, field, entry);
  return is_true;
}

/* Returns whether the value of a key, a text with commas or an array, contains a word. */
static bool value_has_word(const struct pz_toml_entry *entry, const char *word) {
  if (entry->value.kind != PZ_TOML_ARRAY) return strstr(entry->value.text, word);
  for (uint32_t i = 0; i < entry->value.n; i++)
    if (strstr(entry->value.items[i].text, word)) return true;
  return false;
}

/* Appends a text to a list of texts, such as the notes. */
static void add_text(struct titan_reader *reader, struct pz_vec *list, const char *text) {
  pz_append(reader->call, list, &text);
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Copies the value of an argument in the Python module that describes the model, such as 4096 of
 * "dim=4096,".  Returns false if the argument is not given. */
static bool module_value(const struct pz_document *module, const char *key, char *out,
                         size_t size) {
  size_t n = strlen(key);
  const char *end = module->text + module->bytes;
  for (const char *at = module->text; at + n < end; at++) {
    bool begins_name = at > module->text && strchr(" (\n", at[-1]) && at[-1];
    if (!begins_name || memcmp(at, key, n) != 0 || at[n] != '=') continue;
    size_t length = 0;
    for (at += n + 1; at < end && !strchr(",)\n", *at) && length + 1 < size; at++)
      if (*at != '\'' && *at != '"') out[length++] = *at;
    out[length] = '\0';
    return true;
  }
  return false;
}

/* Returns an integer argument of the model in the script's module, or `absent`. */
static int64_t module_count(const struct pz_document *module, const char *key, int64_t absent) {
  char text[32];
  if (!module_value(module, key, text, sizeof text)) return absent;
  return pz_max(0, pz_min(strtoll(text, NULL, 10), 1 << 26));
}

/* Returns whether an argument of the model in the script's module is True. */
static bool module_truth(const struct pz_document *module, const char *key) {
  char text[32];
  return module_value(module, key, text, sizeof text) && strcmp(text, "True") == 0;
}

/* Writes Megatron's arguments for the experts of the script's module and, if `latent`, for latent
 * attention (DeepSeek-V3).  `layers` is the model's number of layers. */
static void write_expert_arguments(const struct pz_document *module, bool latent, int64_t layers,
                                   FILE *out) {
  int64_t width = module_count(module, "moe_inter_dim", 0);
  int64_t dense = module_count(module, "n_dense_layers", 0);
  int64_t shared = module_count(module, "num_shared_experts", 0) * width;
  int64_t q_rank = module_count(module, "q_lora_rank", 0);
  fprintf(out,
          " --num-experts %" PRId64 " --moe-router-topk %" PRId64 " --moe-ffn-hidden-size %" PRId64
          " --moe-grouped-gemm",
          module_count(module, "num_experts", 8), module_count(module, "top_k", 1), width);
  if (shared > 0) fprintf(out, " --moe-shared-expert-intermediate-size %" PRId64, shared);
  if (!latent) return;
  if (dense > 0 && dense < layers)
    fprintf(out, " --moe-layer-freq '([0]*%" PRId64 "+[1]*%" PRId64 ")'", dense, layers - dense);
  fprintf(out,
          " --multi-latent-attention --kv-lora-rank %" PRId64 " --qk-head-dim %" PRId64
          " --qk-pos-emb-head-dim %" PRId64 " --v-head-dim %" PRId64
          " --moe-router-num-groups %" PRId64 " --moe-router-group-topk %" PRId64,
          module_count(module, "kv_lora_rank", 512), module_count(module, "qk_nope_head_dim", 128),
          module_count(module, "qk_rope_head_dim", 64), module_count(module, "v_head_dim", 128),
          module_count(module, "num_expert_groups", 1),
          module_count(module, "num_limited_groups", 1));
  if (q_rank > 0) fprintf(out, " --q-lora-rank %" PRId64, q_rank);
}

/* Writes the model of the module as arguments of Megatron-LM, for its reader.  That reader also
 * requires a sequence length, a microbatch size and a precision, which the run does not get. */
static void write_module_arguments(const struct pz_document *module, FILE *out) {
  int64_t hidden = module_count(module, "dim", 4096), layers = module_count(module, "n_layers", 32);
  int64_t heads = module_count(module, "n_heads", 32);
  int64_t head_dim = module_count(module, "head_dim", 0);
  int64_t ffn = module_count(module, "hidden_dim", module_count(module, "inter_dim", 0));
  bool latent = module_count(module, "kv_lora_rank", 0) > 0;
  /* The width of Llama's feed-forward layer is 8/3 of the hidden size, times a factor, rounded up
   * to a multiple (torchtitan/models/llama3/model/model.py, FeedForward). */
  char text[32];
  int64_t multiple = module_count(module, "multiple_of", 256), llama_ffn = 8 * hidden / 3;
  if (module_value(module, "ffn_dim_multiplier", text, sizeof text)) {
    double factor = strtod(text, NULL);
    if (factor > 0 && factor < 1e6) llama_ffn = (int64_t)(factor * (double)llama_ffn);
  }
  if (multiple > 0 && multiple <= 1 << 26)
    llama_ffn = (llama_ffn + multiple - 1) / multiple * multiple;
  fprintf(out,
          "--num-layers %" PRId64 " --hidden-size %" PRId64 " --num-attention-heads %" PRId64
          " --ffn-hidden-size %" PRId64 " --vocab-size %" PRId64
          " --max-position-embeddings %" PRId64 " --seq-length 1"
          " --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear"
          " --hidden-dropout 0 --attention-dropout 0 --bf16 --micro-batch-size 1",
          layers, hidden, heads, ffn ? ffn : llama_ffn, module_count(module, "vocab_size", 128256),
          module_count(module, "max_seq_len", 2048));
  if (!latent)
    fprintf(out, " --group-query-attention --num-query-groups %" PRId64,
            module_count(module, "n_kv_heads", heads));
  if (head_dim > 0) fprintf(out, " --kv-channels %" PRId64, head_dim);
  if (module_truth(module, "qk_norm") || latent) fputs(" --qk-layernorm", out);
  if (!module_truth(module, "enable_weight_tying"))
    fputs(" --untie-embeddings-and-output-weights", out);
  if (latent || module_truth(module, "moe_enabled"))
    write_expert_arguments(module, latent, layers, out);
}

/* Arguments of read_module_model(), whose border lets errors name the module's place. */
struct module_reading {
  const struct titan_reader *reader;
  const struct pz_document *module;
  struct pz_run_plan run;
};

/* Reads the model of a module by way of Megatron-LM's arguments. */
static void read_module_model(struct pz_call *call, void *ctx) {
  static const struct pz_run_plan_options plain = {.devices = 1};
  struct module_reading *reading = ctx;
  struct pz_call results = pz_call_in(call, reading->reader->call->arena);
  struct pz_buffer *arguments = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, arguments);
  write_module_arguments(reading->module, out);
  pz_buffer_flush(call, out);
  pz_megatron_read(&results, reading->reader->name, arguments->text, strlen(arguments->text),
                   &plain, &reading->run);
}

/* Reads the model: a built-in one by name and flavor, or the shape in the script's module. */
static void read_model(struct titan_reader *reader) {
  const struct pz_toml_entry *name = find_key(reader, "model.name");
  const struct pz_toml_entry *flavor = find_key(reader, "model.flavor");
  struct pz_document module;
  if (!name || !flavor)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s: no model.name and model.flavor; accepted: torchtitan's configuration",
             reader->name);
  set_key_origin(reader, PZ_RUN_MODEL, flavor);
  for (size_t i = 0; i < sizeof flavors / sizeof *flavors; i++) {
    if (strcmp(flavors[i].name, name->value.text) != 0 ||
        strcmp(flavors[i].flavor, flavor->value.text) != 0)
      continue;
    reader->run->model = flavors[i].model;
    return;
  }
  if (!pz_script_document(reader->text, reader->bytes, ".py", &module))
    reject_key(reader, flavor,
               "with model.name: llama3 8B, 70B, 405B, llama2 7B, 13B, 70B, llama4 17bx16e, "
               "17bx128e, qwen3 0.6B to 32B, 30B-A3B, 235B-A22B, deepseek_v3 671B");
  struct module_reading reading = {.reader = reader, .module = &module};
  struct pz_error err = {0};
  enum pz_status status = pz_border(read_module_model, &reading, &err);
  if (status != PZ_OK)
    pz_raise(reader->call, status, "%s:%u: the model's module: %s", reader->name, module.line,
             err.message);
  reader->run->model = reading.run.model;
  reader->run->config = reading.run.config;
  reader->run->layers = reading.run.layers;
  reader->run->vocab = reading.run.vocab;
}

/* ---- the plan ------------------------------------------------------------------------------- */

/* Returns the number that an argument of torchrun has in the script, or 0 if it is not given. */
static int64_t torchrun_count(const struct titan_reader *reader, const char *argument) {
  size_t n = strlen(argument);
  const char *text = reader->text, *end = text + reader->bytes;
  const char *at = pz_find_text(text, reader->bytes, argument);
  while (at && at + n + 1 < end) {
    if (at[n] == ' ' || at[n] == '=') {
      int64_t value = 0;
      for (at += n + 1; at < end && isdigit((unsigned char)*at) && value < MOST_COUNT; at++)
        value = 10 * value + (*at - '0');
      return value;
    }
    at = pz_find_text(at + 1, (size_t)(end - at - 1), argument);
  }
  return 0;
}

/* Returns the number of devices that the user or torchrun's arguments state, or 0. */
static int64_t stated_devices(struct titan_reader *reader) {
  const char **origin = &reader->run->from[PZ_PLAN_DEVICES];
  if (reader->options->devices) {
    *origin = "--devices";
    return reader->options->devices;
  }
  int64_t nodes = torchrun_count(reader, "--nnodes");
  int64_t per_node = torchrun_count(reader, "--nproc-per-node");
  if (!per_node) per_node = torchrun_count(reader, "--nproc_per_node");
  if (!per_node) return 0;
  if (!nodes) nodes = 1;
  *origin = pz_format(reader->call, "%" PRId64 " x %" PRId64 " processes", nodes, per_node);
  return nodes <= MOST_COUNT && per_node <= MOST_COUNT ? nodes * per_node : 0;
}

/* Reads the degrees of parallelism, the ZeRO stage and the number of devices.  The degree of
 * sharding follows from the number of devices if it is not given (-1), and the number of devices
 * from the degrees.  A shard group of FSDP includes the context-parallel group. */
static void read_degrees(struct titan_reader *reader) {
  static const enum pz_plan_field fields[] = {PZ_PLAN_TP, PZ_PLAN_CP, PZ_PLAN_PP, PZ_PLAN_EP};
  static const char shard_key[] = "parallelism.data_parallel_shard_degree",
                    reshard_key[] = "parallelism.fsdp_reshard_after_forward";
  struct pz_plan *plan = &reader->run->plan;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    char key[80];
    snprintf(key, sizeof key, "parallelism.%s", pz_plan_field(fields[i])->in[PZ_LAUNCH_TITAN]);
    pz_plan_field_store(plan, fields[i], (double)read_count(reader, key, 1, 1, (int)fields[i]));
  }
  int64_t copies = read_count(reader, "parallelism.data_parallel_replicate_degree", 1, 1, NO_FIELD);
  int64_t shard = read_count(reader, shard_key, -1, -1, PZ_PLAN_SHARD);
  const char *reshard = read_text(reader, reshard_key, "default", PZ_PLAN_ZERO);
  double unsharded = (double)plan->tp * (double)plan->cp * (double)plan->pp * (double)copies;
  if (shard == 0 || unsharded > MOST_COUNT)
    reject_key(reader, find_key(reader, shard_key),
               "-1 or at least 1, and at most 2^24 devices together");
  plan->devices = stated_devices(reader);
  if (!plan->devices && shard > 0 && unsharded * (double)shard <= MOST_COUNT)
    plan->devices = (int64_t)unsharded * shard;
  if (!plan->devices || plan->devices > MOST_COUNT)
    reject_key(reader, NULL,
               "the number of devices is not stated; accepted: --devices N, or "
               "parallelism.data_parallel_shard_degree (at most 2^24 together)");
  if (shard < 0 && plan->devices % (int64_t)unsharded == 0)
    shard = plan->devices / (int64_t)unsharded;
  if (shard < 0 || (double)shard * unsharded != (double)plan->devices)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s: %" PRId64
             " devices with degrees that come to %g%s; accepted: parallelism degrees "
             "with as many",
             reader->name, plan->devices, unsharded * (double)(shard > 0 ? shard : 1),
             shard < 0 ? " without shards" : "");
  bool always = strcmp(reshard, "always") == 0, never = strcmp(reshard, "never") == 0;
  if (!always && !never && strcmp(reshard, "default") != 0)
    reject_key(reader, find_key(reader, reshard_key), "default, always or never");
  /* By default weights are resharded after the forward pass unless there are pipeline stages. */
  plan->zero = always || (!never && plan->pp == 1) ? 3 : 2;
  bool is_unsharded = shard * plan->cp == 1; /* then torchtitan replicates the model by DDP */
  bool needs_no_fsdp = plan->tp == 1 && plan->pp == 1 && !always;
  if (is_unsharded && (copies > 1 || needs_no_fsdp)) plan->zero = 0;
  if (plan->zero && copies > 1) plan->shard = shard * plan->cp;
  plan->dp = copies * shard;
  plan->sp = plan->tp > 1;
}

/* Reads the pipeline.  With one stage, its keys are accepted and have no effect. */
static void read_stages(struct titan_reader *reader) {
  static const struct {
    const char *name;
    int pipeline, chunks;
  } schedules[] = {{"1F1B", PZ_PIPELINE_1F1B, 1},
                   {"Interleaved1F1B", PZ_PIPELINE_INTERLEAVED, 2},
                   {"GPipe", PZ_PIPELINE_GPIPE, 1},
                   {"ZBVZeroBubble", PZ_PIPELINE_ZB_V, 2},
                   {"DualPipeV", PZ_PIPELINE_DUALPIPE_V, 2}};
  static const char schedule_key[] = "parallelism.pipeline_parallel_schedule",
                    layers_key[] = "parallelism.pipeline_parallel_layers_per_stage",
                    microbatch_key[] = "parallelism.pipeline_parallel_microbatch_size";
  struct pz_plan *plan = &reader->run->plan;
  bool has_stages = plan->pp > 1;
  const char *schedule =
      read_text(reader, schedule_key, "1F1B", has_stages ? (int)PZ_PLAN_PIPELINE : NO_FIELD);
  const struct pz_toml_entry *chunks = find_key(reader, "parallelism.module_fqns_per_model_part");
  (void)find_key(reader, "parallelism.pipeline_parallel_first_stage_less_layers");
  (void)find_key(reader, "parallelism.pipeline_parallel_last_stage_less_layers");
  int64_t stage_layers = read_count(reader, layers_key, 0, 1, NO_FIELD);
  int64_t mbs = read_count(reader, microbatch_key, 1, 1, has_stages ? (int)PZ_PLAN_MBS : NO_FIELD);
  plan->vpp = 1;
  if (!has_stages) return;
  plan->mbs = mbs;
  for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
    if (strcmp(schedules[i].name, schedule) != 0) continue;
    plan->pipeline = schedules[i].pipeline;
    plan->vpp = schedules[i].chunks;
  }
  if (plan->pipeline < 0)
    reject_key(reader, find_key(reader, schedule_key),
               "1F1B, Interleaved1F1B, GPipe, ZBVZeroBubble or DualPipeV; others are not covered");
  if (chunks) { /* lists of the chunks' modules */
    const struct pz_toml_value *lists = &chunks->value;
    int64_t *layers = pz_alloc(reader->call, lists->n, sizeof *layers);
    for (uint32_t i = 0; i < lists->n; i++)
      for (uint32_t k = 0; k < lists->items[i].n; k++)
        if (strncmp(lists->items[i].items[k].text, "layers.", 7) == 0) layers[i]++;
    if (!pz_plan_divide_layers(plan, layers, lists->n))
      reject_key(reader, chunks,
                 "lists of modules for chunks that the stages divide, with layers between the "
                 "first and the last as even as can be");
    set_key_origin(reader, PZ_PLAN_VPP, chunks);
  } else if (stage_layers && plan->pipeline == PZ_PIPELINE_INTERLEAVED)
    reject_key(reader, find_key(reader, layers_key),
               "with Interleaved1F1B module_fqns_per_model_part, or neither of them (2 chunks a "
               "stage)");
}

/* Reads the microbatch and global batch sizes and the sequence length. */
static void read_batch(struct titan_reader *reader) {
  static const char local_key[] = "training.local_batch_size", old_key[] = "training.batch_size",
                    global_key[] = "training.global_batch_size";
  struct pz_plan *plan = &reader->run->plan;
  bool has_stages = plan->pp > 1;
  const char *key = find_key(reader, local_key) ? local_key : old_key;
  int64_t local = read_count(reader, key, 8, 1, has_stages ? NO_FIELD : (int)PZ_PLAN_MBS);
  int64_t global = read_count(reader, global_key, -1, -1, PZ_PLAN_BATCH);
  if (global == 0)
    reject_key(reader, find_key(reader, global_key), "-1, or an integer from 1 to 2^24");
  plan->seq = read_count(reader, "training.seq_len", 2048, 1, PZ_PLAN_SEQ);
  if (!has_stages) plan->mbs = local;
  plan->batch = global > 0 ? global : local * plan->dp;
  if (global <= 0) set_key_origin(reader, PZ_PLAN_BATCH, find_key(reader, key));
  if (plan->batch > MOST_COUNT)
    reject_key(reader, NULL, "a global batch size above 2^24; accepted: at most that");
  if (has_stages && global > 0 && global != local * plan->dp)
    add_text(reader, &reader->notes,
             "training.global_batch_size: accumulated passes of the pipeline are predicted as one");
}

/* Reads activation checkpointing: of all layers, of selected operators, or of every second. */
static void read_recomputation(struct titan_reader *reader) {
  static const char mode_key[] = "activation_checkpoint.mode",
                    option_key[] = "activation_checkpoint.selective_ac_option";
  struct pz_plan *plan = &reader->run->plan;
  const char *mode = read_text(reader, mode_key, "selective", PZ_PLAN_RECOMPUTE);
  const char *option = read_text(reader, option_key, "2", NO_FIELD);
  if (strcmp(mode, "full") == 0) {
    plan->recompute = PZ_RECOMPUTATION_FULL;
  } else if (strcmp(mode, "none") == 0) {
    plan->recompute = PZ_RECOMPUTATION_NONE;
  } else if (strcmp(mode, "selective") != 0) {
    reject_key(reader, find_key(reader, mode_key), "none, selective or full");
  } else if (strcmp(option, "op") == 0) {
    plan->recompute = PZ_RECOMPUTATION_ALTERNATE;
  } else if (strcmp(option, "2") == 0) {
    plan->recompute = PZ_RECOMPUTATION_HALF;
  } else {
    reject_key(reader, find_key(reader, option_key),
               "op or 2; other numbers of layers are not covered");
  }
}

/* Reads whether the model is compiled and which communication overlaps with compute. */
static void read_execution(struct titan_reader *reader) {
  static const char async_key[] = "parallelism.enable_async_tensor_parallel";
  struct pz_plan *plan = &reader->run->plan;
  bool compiles = read_truth(reader, "training.compile", false, PZ_PLAN_EXECUTION);
  const struct pz_toml_entry *components = find_key(reader, "compile.components");
  bool compiles_model = !components || value_has_word(components, "model");
  compiles = read_truth(reader, "compile.enable", compiles, PZ_PLAN_EXECUTION) && compiles_model;
  bool overlaps_tp = read_truth(reader, async_key, false, NO_FIELD);
  bool overlaps_ep =
      read_truth(reader, "parallelism.pipeline_parallel_expert_parallel_overlap", false, NO_FIELD);
  plan->execution = compiles ? PZ_EXECUTION_COMPILE : PZ_EXECUTION_EAGER;
  plan->overlap = (int)PZ_OVERLAP_GRAD | (int)PZ_OVERLAP_PARAM;
  if (overlaps_tp && compiles) plan->overlap |= PZ_OVERLAP_TP;
  if (overlaps_ep) plan->overlap |= PZ_OVERLAP_EP;
  if (overlaps_tp) set_key_origin(reader, PZ_PLAN_OVERLAP, find_key(reader, async_key));
  if (overlaps_tp && !compiles && plan->tp > 1)
    add_text(reader, &reader->notes,
             "parallelism.enable_async_tensor_parallel has no effect without compile");
}

/* Reads model converters: to 8-bit precision, and to adapters, named "lora:RANK:MODULES". */
static void read_converters(struct titan_reader *reader) {
  struct pz_plan *plan = &reader->run->plan;
  const struct pz_toml_entry *converters = find_key(reader, "model.converters");
  bool fp8 = converters && value_has_word(converters, "float8");
  bool mx = converters && value_has_word(converters, "mx");
  if (fp8 && mx) reject_key(reader, converters, "float8 or mx");
  plan->precision = PZ_PRECISION_BF16;
  if (fp8 || mx) {
    plan->precision = PZ_PRECISION_FP8;
    plan->fp8_recipe = mx ? PZ_FP8_MX : PZ_FP8_CURRENT;
    set_key_origin(reader, PZ_PLAN_PRECISION, converters);
    set_key_origin(reader, PZ_PLAN_FP8_RECIPE, converters);
  }
  if (!converters || converters->value.kind != PZ_TOML_ARRAY) return;
  for (uint32_t i = 0; i < converters->value.n; i++) {
    const char *converter = converters->value.items[i].text;
    if (strncmp(converter, "lora:", 5) == 0) {
      plan->peft = converter;
      set_key_origin(reader, PZ_PLAN_PEFT, converters);
    } else if (!strstr(converter, "float8") && !strstr(converter, "mx")) {
      reject_key(reader, converters, "float8, mx or lora:RANK:MODULES");
    }
  }
}

/* ---- the other keys ------------------------------------------------------------------------- */

/* Returns the i-th key that the reader knows, or NULL after the last one (pz_name_at). */
static const char *asked_name(const void *ctx, size_t i) {
  const struct titan_reader *reader = ctx;
  return i < reader->asked.n ? *pz_vec_at(&reader->asked, const char *, i) : NULL;
}

/* How neutral_keys, which lists keys without effect on the step, contains a key: not at all (0), by
 * the beginning of its name, or by its own name. */
enum neutrality { NOT_NEUTRAL, NEUTRAL_BY_BEGINNING, NEUTRAL_BY_NAME };

/* Returns how neutral_keys contains a key. */
static enum neutrality find_neutrality(const char *name) {
  for (const char *const *known = neutral_keys; *known; known++) {
    size_t n = strcspn(*known, "*");
    bool is_pattern = (*known)[n] == '*';
    if (strncmp(*known, name, n) == 0 && (is_pattern || !name[n]))
      return is_pattern ? NEUTRAL_BY_BEGINNING : NEUTRAL_BY_NAME;
  }
  return NOT_NEUTRAL;
}

/* Refuses arguments that override keys of the configuration, "--training.seq_len 8192". */
static void check_overrides(struct titan_reader *reader, const struct pz_document *config) {
  const char *end = reader->text + reader->bytes;
  for (const char *at = reader->text + 1; at + 2 < end; at++) {
    bool is_argument = strchr(" \t\n\"'(", at[-1]) && memcmp(at, "--", 2) == 0;
    bool in_config = at >= config->text && at < config->text + config->bytes;
    if (!is_argument || in_config) continue;
    char name[80], problem[240];
    size_t n = 0;
    for (const char *c = at + 2; c < end && n + 1 < sizeof name; c++) {
      if (!islower((unsigned char)*c) && *c != '_' && *c != '.') break;
      name[n++] = *c;
    }
    name[n] = '\0';
    if (!strchr(name, '.') || find_neutrality(name) || is_left_out(reader, name)) continue;
    snprintf(problem, sizeof problem,
             "--%s behind the configuration; accepted: the key in it (--ignore %s leaves it out)",
             name, name);
    reject_key(reader, NULL, problem);
  }
}

/* Raises an error for keys that are not covered or look misspelt, and lists other unknown keys. */
static void check_other_keys(struct titan_reader *reader) {
  for (size_t i = 0; i < sizeof refused_keys / sizeof *refused_keys; i++) {
    const struct refused_key *refused = &refused_keys[i];
    const struct pz_toml_entry *entry = find_key(reader, refused->key);
    if (!entry) continue;
    bool is_empty = entry->value.kind == PZ_TOML_ARRAY && !entry->value.n;
    if (is_empty || strcmp(entry->value.text, refused->neutral) == 0) continue;
    char accepted[160];
    snprintf(accepted, sizeof accepted, "%s; not covered: %s (--ignore %s predicts without it)",
             *refused->neutral ? refused->neutral : "none", refused->effect, refused->key);
    reject_key(reader, entry, accepted);
  }
  for (uint32_t i = 0; i < reader->keys.n; i++) {
    const struct pz_toml_entry *entry = pz_vec_at(&reader->keys, struct pz_toml_entry, i);
    enum neutrality neutrality = find_neutrality(entry->name);
    if (is_left_out(reader, entry->name)) {
      add_text(reader, &reader->notes, pz_format(reader->call, "%s is left out", entry->name));
      continue;
    }
    if (reader->is_read[i] || neutrality == NEUTRAL_BY_NAME) continue;
    /* the key may be misspelt, or a name of several words may belong to another table */
    const char *meant = NULL, *leaf = strrchr(entry->name, '.');
    bool is_specific = leaf && strchr(leaf, '_');
    for (uint32_t k = 0; k < reader->asked.n && is_specific && !meant; k++) {
      const char *known = asked_name(reader, k), *known_leaf = strrchr(known, '.');
      if (known_leaf && strcmp(known_leaf, leaf) == 0) meant = known;
    }
    if (!meant) meant = pz_text_misspelt(entry->name, asked_name, reader);
    if (meant)
      pz_raise(reader->call, PZ_BAD_INPUT,
               "%s:%u: %s is no key; did you mean %s? (--ignore %s leaves it out)", reader->name,
               entry->line, entry->name, meant, entry->name);
    if (neutrality == NOT_NEUTRAL && reader->ignored.n < MOST_IGNORED_KEYS)
      add_text(reader, &reader->ignored, entry->name);
  }
}

/* ---- the run -------------------------------------------------------------------------------- */

/* Returns whether a text is torchtitan's configuration: a file or document *.toml, or a text whose
 * first line that is no comment is a table such as [job]. */
bool pz_torchtitan_is(const char *name, const char *text, size_t bytes) {
  struct pz_document document;
  size_t n = strlen(name), i = 0;
  bool is_toml = n > 5 && strcmp(name + n - 5, ".toml") == 0;
  if (is_toml || pz_script_document(text, bytes, ".toml", &document)) return true;
  while (i < bytes && strchr(" \t\r\n#", text[i])) {
    if (text[i] == '#')
      while (i < bytes && text[i] != '\n') i++;
    else
      i++;
  }
  size_t start = i;
  if (i == bytes || text[i] != '[') return false;
  i++;
  while (i < bytes && (text[i] == '_' || text[i] == '.' || (text[i] >= 'a' && text[i] <= 'z'))) i++;
  return i < bytes && i > start + 1 && text[i] == ']';
}

/* Reads a run from torchtitan's configuration, or from the script that writes it. */
void pz_torchtitan_read(struct pz_call *call, const char *name, const char *text, size_t bytes,
                        const struct pz_run_plan_options *options, struct pz_run_plan *run) {
  struct pz_document config = {text, bytes, 1};
  struct titan_reader reader = {
      .call = call, .name = name, .text = text, .bytes = bytes, .options = options, .run = run};
  *run = pz_run_plan_default();
  pz_vec_init(&reader.ignored, call->arena, sizeof(const char *));
  pz_vec_init(&reader.notes, call->arena, sizeof(const char *));
  pz_vec_init(&reader.asked, call->arena, sizeof(const char *));
  if (options->vocab || (options->set && options->set[0]))
    pz_raise(call, PZ_BAD_USE, "--%s is for Megatron's arguments; %s is torchtitan's configuration",
             options->vocab ? "vocab" : "set", name);
  bool is_script = pz_script_document(text, bytes, ".toml", &config);
  reader.keys = pz_toml_read(call, name, config.text, config.bytes, config.line);
  reader.is_read = pz_alloc(call, reader.keys.n, sizeof *reader.is_read);
  run->plan.framework = pz_framework_find("torchtitan");
  run->from[PZ_PLAN_FRAMEWORK] = "torchtitan's configuration";
  read_degrees(&reader);
  read_stages(&reader);
  read_batch(&reader);
  read_recomputation(&reader);
  read_execution(&reader);
  read_converters(&reader);
  struct pz_plan *plan = &reader.run->plan;
  const char *optimizer = read_text(&reader, "optimizer.name", "AdamW", NO_FIELD);
  if (strcmp(optimizer, "AdamW") != 0 && strcmp(optimizer, "Adam") != 0)
    reject_key(&reader, find_key(&reader, "optimizer.name"), "AdamW or Adam");
  int64_t etp = read_count(&reader, "parallelism.expert_tensor_parallel_degree", 1, 1, NO_FIELD);
  if (plan->ep > 1 && etp > 1) plan->etp = etp;
  read_model(&reader);
  check_other_keys(&reader);
  if (is_script) check_overrides(&reader, &config);
  run->ignored = reader.ignored.items;
  run->n_ignored = reader.ignored.n;
  run->notes = reader.notes.items;
  run->n_notes = reader.notes.n;
}
