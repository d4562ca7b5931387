/* torchtitan's job configuration as a run: TOML as its releases up to 0.2 read it (torchtitan/config/job_config.py), or a
 * script that writes it, as `--emit torchtitan` does.  A model is one of its packages by name and flavor, or a module of
 * the script that gives the arguments of one.  What is left out has torchtitan's default.  Keys that shape the step and are
 * not covered are errors, others that are not known are listed as ignored. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/num.h"
#include "core/status.h"
#include "core/text.h"
#include "launch/megatron_args.h"
#include "launch/run_readers.h"
#include "launch/toml.h"
#include "plan/plan.h"

/* Flavors of its packages that are built-in models. */
static const struct flavor {
  const char *name, *flavor, *model;
} flavors[] = {
    {"llama2", "7B", "llama2-7b"},
    {"llama2", "13B", "llama2-13b"},
    {"llama2", "70B", "llama2-70b"},
    {"llama3", "8B", "llama3.1-8b"},
    {"llama3", "70B", "llama3.1-70b"},
    {"llama3", "405B", "llama3.1-405b"},
    {"llama4", "17bx16e", "llama4-scout"},
    {"llama4", "17bx128e", "llama4-maverick"},
    {"qwen3", "0.6B", "qwen3-0.6b"},
    {"qwen3", "1.7B", "qwen3-1.7b"},
    {"qwen3", "4B", "qwen3-4b"},
    {"qwen3", "8B", "qwen3-8b"},
    {"qwen3", "14B", "qwen3-14b"},
    {"qwen3", "32B", "qwen3-32b"},
    {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
    {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
    {"deepseek_v3", "671B", "deepseek-v3"},
};

/* Keys that shape no step, or follow from others: by name, or by the beginning where it ends with a star. */
static const char *const silent[] = {"job.*",
                                     "profiling.*",
                                     "metrics.*",
                                     "optimizer.*",
                                     "lr_scheduler.*",
                                     "checkpoint.*",
                                     "comm.*",
                                     "validation.local_batch_size",
                                     "validation.seq_len",
                                     "validation.*",
                                     "experimental.*",
                                     "memory_estimation.*",
                                     "fault_tolerance.*",
                                     "debug.*",
                                     "float8.*",
                                     "quantize.*",
                                     "model.hf_assets_path",
                                     "model.tokenizer_path",
                                     "model.norm_type",
                                     "model.print_after_conversion",
                                     "training.steps",
                                     "training.max_norm",
                                     "training.dataset*",
                                     "training.gc_*",
                                     "training.seed",
                                     "training.deterministic",
                                     "training.mixed_precision_reduce",
                                     "training.dataloader.*",
                                     "activation_checkpoint.early_stop",
                                     "activation_checkpoint.debug",
                                     "activation_checkpoint.determinism_check",
                                     "activation_checkpoint.preserve_rng_state",
                                     "activation_checkpoint.visualize_*",
                                     "activation_checkpoint.per_op_sac_*",
                                     "parallelism.disable_loss_parallel",
                                     "parallelism.context_parallel_rotate_method",
                                     NULL};

/* Keys that shape the step and are not covered, unless they have this value. */
static const struct refused {
  const char *key, *neutral, *what;
} refused[] = {
    {"training.enable_cpu_offload", "false", "parameters and optimizer on the host"},
    {"training.mixed_precision_param", "bfloat16", "32-bit training"},
    {"training.dtype", "float32", "weights in another type"},
    {"parallelism.enable_compiled_autograd", "false", "a compiled backward pass"},
    {"parallelism.pipeline_parallel_split_points", "", "split points by name"},
    {"parallelism.pipeline_parallel_schedule_csv", "", "an order of its own"},
    {"optimizer.early_step_in_backward", "false", "the optimizer inside the backward pass"},
    {"fault_tolerance.enable", "false", "replica groups that come and go"},
};

struct titan {
  const char *name;
  const struct pz_run_plan_options *o;
  struct pz_arena *arena;
  struct pz_vec keys;           /* struct pz_toml_entry */
  bool *read;                   /* of each: it was asked for */
  struct pz_vec asked;          /* const char *, names of keys that were asked for */
  struct pz_vec ignored, notes; /* const char * */
  struct pz_run_plan *out;
  enum pz_status status; /* the first that went wrong; nothing is read behind it */
  struct pz_error *err;
};

static void titan_lose(struct titan *t) {
  if (t->status == PZ_OK) t->status = pz_fail(t->err, PZ_NO_MEMORY, "%s: out of memory", t->name);
}

static void titan_add(struct titan *t, struct pz_vec *list, const char *text) {
  if (!text || !pz_vec_push(list, &text)) titan_lose(t);
}

/* What is wrong with a key (NULL: with the whole). */
static void titan_wrong(struct titan *t, const struct pz_toml_entry *e, const char *accepted) {
  if (t->status != PZ_OK) return;
  if (!e) {
    t->status = pz_fail(t->err, PZ_BAD_INPUT, "%s: %s", t->name, accepted);
    return;
  }
  char value[64];
  pz_text_plain(pz_text_copy(value, sizeof value,
                             e->value.kind == PZ_TOML_ARRAY ? "an array" : e->value.text));
  t->status = pz_fail(t->err, PZ_BAD_INPUT, "%s:%u: %s is %s; accepted: %s", t->name, e->line,
                      e->name, value, accepted);
  pz_error_at(t->err, t->name, (int)e->line, 0);
}

static bool is_ignored(const struct titan *t, const char *key) {
  for (const char *const *x = t->o->ignore; x && *x; x++)
    if (strcmp(*x, key) == 0) return true;
  return false;
}

/* The key, NULL: it is not given. */
static const struct pz_toml_entry *titan_key(struct titan *t, const char *key) {
  const struct pz_toml_entry *found = NULL;
  titan_add(t, &t->asked, pz_arena_strdup(t->arena, key));
  for (uint32_t i = 0; i < t->keys.n; i++) {
    const struct pz_toml_entry *e = pz_vec_at(&t->keys, struct pz_toml_entry, i);
    if (strcmp(e->name, key) != 0) continue;
    t->read[i] = true;
    found = e;
  }
  return found && !is_ignored(t, key) ? found : NULL;
}

static void titan_mark(struct titan *t, int field, const struct pz_toml_entry *e) {
  if (!e) return;
  t->out->from[field] = pz_arena_printf(t->arena, "%s, line %u", e->name, e->line);
  if (!t->out->from[field]) titan_lose(t);
}

/* An integer of at least `least`; a field of the plan that it is, or -1. */
static int64_t titan_count(struct titan *t, const char *key, int64_t absent, int64_t least,
                           int field) {
  const struct pz_toml_entry *e = titan_key(t, key);
  char digits[16], accepted[64];
  size_t n = 0;
  if (!e) return absent;
  for (const char *c = e->value.text; *c && n < sizeof digits - 1; c++)
    if (*c != '_') digits[n++] = *c;
  digits[n] = '\0';
  size_t sign = digits[0] == '-';
  int64_t v = strtoll(digits, NULL, 10);
  bool number = e->value.kind == PZ_TOML_WORD && digits[sign] && n < 12 &&
                !digits[sign + strspn(digits + sign, "0123456789")];
  snprintf(accepted, sizeof accepted, "an integer from %" PRId64 " to 2^24", least);
  if (!number || v < least || v > 1 << 24) {
    titan_wrong(t, e, accepted);
    return absent;
  }
  if (field >= 0) titan_mark(t, field, e);
  return v;
}

static const char *titan_text(struct titan *t, const char *key, const char *absent, int field) {
  const struct pz_toml_entry *e = titan_key(t, key);
  if (!e) return absent;
  if (e->value.kind == PZ_TOML_ARRAY) titan_wrong(t, e, "a text");
  if (field >= 0) titan_mark(t, field, e);
  return e->value.text;
}

static bool titan_truth(struct titan *t, const char *key, bool absent, int field) {
  const struct pz_toml_entry *e = titan_key(t, key);
  if (!e) return absent;
  bool yes = strcmp(e->value.text, "true") == 0;
  if (!yes && strcmp(e->value.text, "false") != 0) titan_wrong(t, e, "true or false");
  if (field >= 0) titan_mark(t, field, e);
  return yes;
}

/* Is a word among the values of a key: a text with commas, or an array? */
static bool titan_has(struct titan *t, const char *key, const char *word, bool absent) {
  const struct pz_toml_entry *e = titan_key(t, key);
  if (!e) return absent;
  if (e->value.kind != PZ_TOML_ARRAY) return strstr(e->value.text, word);
  for (uint32_t i = 0; i < e->value.n; i++)
    if (strstr(e->value.items[i].text, word)) return true;
  return false;
}

/* ---- the model ------------------------------------------------------------------------------ */

/* "    dim=4096," of the script's module: an argument of the model. */
static bool module_value(const struct pz_document *d, const char *key, char *out, size_t size) {
  size_t n = strlen(key);
  for (const char *at = d->text, *end = d->text + d->bytes; at + n < end; at++) {
    bool starts = at > d->text && (at[-1] == ' ' || at[-1] == '(' || at[-1] == '\n');
    if (!starts || memcmp(at, key, n) != 0 || at[n] != '=') continue;
    size_t k = 0;
    for (at += n + 1; at < end && !strchr(",)\n", *at) && k + 1 < size; at++)
      if (*at != '\'' && *at != '"') out[k++] = *at;
    out[k] = '\0';
    return true;
  }
  return false;
}

static int64_t module_count(const struct pz_document *d, const char *key, int64_t absent) {
  char text[32];
  if (!module_value(d, key, text, sizeof text)) return absent;
  return pz_max(0, pz_min(strtoll(text, NULL, 10), 1 << 26));
}

static bool module_truth(const struct pz_document *d, const char *key) {
  char text[32];
  return module_value(d, key, text, sizeof text) && strcmp(text, "True") == 0;
}

/* Width of Llama's feed-forward layer: 8/3 of the hidden one, times a factor, up to a multiple. */
static int64_t llama_width(const struct pz_document *d, int64_t dim) {
  char text[32];
  int64_t multiple = module_count(d, "multiple_of", 256), width = 8 * dim / 3;
  if (module_value(d, "ffn_dim_multiplier", text, sizeof text)) {
    double factor = strtod(text, NULL);
    if (factor > 0 && factor < 1e6) width = (int64_t)(factor * (double)width);
  }
  return multiple > 0 && multiple <= 1 << 26 ? (width + multiple - 1) / multiple * multiple : width;
}

static void put_experts(const struct pz_document *d, bool latent, int64_t layers, FILE *out) {
  int64_t width = module_count(d, "moe_inter_dim", 0), dense = module_count(d, "n_dense_layers", 0);
  int64_t shared = module_count(d, "num_shared_experts", 0) * width;
  fprintf(out,
          " --num-experts %" PRId64 " --moe-router-topk %" PRId64 " --moe-ffn-hidden-size %" PRId64
          " --moe-grouped-gemm",
          module_count(d, "num_experts", 8), module_count(d, "top_k", 1), width);
  if (shared > 0) fprintf(out, " --moe-shared-expert-intermediate-size %" PRId64, shared);
  if (!latent) return;
  if (dense > 0 && dense < layers)
    fprintf(out, " --moe-layer-freq '([0]*%" PRId64 "+[1]*%" PRId64 ")'", dense, layers - dense);
  fprintf(out,
          " --multi-latent-attention --kv-lora-rank %" PRId64 " --qk-head-dim %" PRId64
          " --qk-pos-emb-head-dim %" PRId64 " --v-head-dim %" PRId64
          " --moe-router-num-groups %" PRId64 " --moe-router-group-topk %" PRId64,
          module_count(d, "kv_lora_rank", 512), module_count(d, "qk_nope_head_dim", 128),
          module_count(d, "qk_rope_head_dim", 64), module_count(d, "v_head_dim", 128),
          module_count(d, "num_expert_groups", 1), module_count(d, "num_limited_groups", 1));
  if (module_count(d, "q_lora_rank", 0) > 0)
    fprintf(out, " --q-lora-rank %" PRId64, module_count(d, "q_lora_rank", 0));
}

/* The module's model in the words of Megatron, which has a reader. */
static void put_module(const struct pz_document *d, FILE *out) {
  int64_t dim = module_count(d, "dim", 4096), layers = module_count(d, "n_layers", 32);
  int64_t heads = module_count(d, "n_heads", 32), head = module_count(d, "head_dim", 0);
  bool latent = module_count(d, "kv_lora_rank", 0) > 0;
  int64_t width = module_count(d, "hidden_dim", module_count(d, "inter_dim", 0));
  fprintf(out,
          "--num-layers %" PRId64 " --hidden-size %" PRId64 " --num-attention-heads %" PRId64
          " --ffn-hidden-size %" PRId64 " --vocab-size %" PRId64
          " --max-position-embeddings %" PRId64 " --seq-length 1"
          " --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear"
          " --hidden-dropout 0 --attention-dropout 0 --bf16 --micro-batch-size 1",
          layers, dim, heads, width ? width : llama_width(d, dim),
          module_count(d, "vocab_size", 128256), module_count(d, "max_seq_len", 2048));
  if (!latent)
    fprintf(out, " --group-query-attention --num-query-groups %" PRId64,
            module_count(d, "n_kv_heads", heads));
  if (head > 0) fprintf(out, " --kv-channels %" PRId64, head);
  if (module_truth(d, "qk_norm") || latent) fputs(" --qk-layernorm", out);
  if (!module_truth(d, "enable_weight_tying")) fputs(" --untie-embeddings-and-output-weights", out);
  if (latent || module_truth(d, "moe_enabled")) put_experts(d, latent, layers, out);
}

static void read_module(struct titan *t, const struct pz_document *d) {
  const struct pz_run_plan_options plain = {.devices = 1};
  struct pz_run_plan m;
  struct pz_error why = {0};
  struct pz_buffer b = {.text = NULL};
  FILE *out = pz_buffer_stream(&b);
  if (out) put_module(d, out);
  if (!out || !pz_buffer_close(out)) {
    pz_free(b.text);
    titan_lose(t);
    return;
  }
  enum pz_status status =
      pz_megatron_read(t->name, b.text, strlen(b.text), &plain, t->arena, &m, &why);
  pz_free(b.text);
  if (status != PZ_OK && t->status == PZ_OK)
    t->status =
        pz_fail(t->err, status, "%s:%u: the model's module: %s", t->name, d->line, why.message);
  if (status != PZ_OK) return;
  t->out->model = m.model;
  t->out->config = m.config;
  t->out->layers = m.layers;
  t->out->vocab = m.vocab;
}

static void read_model(struct titan *t, const char *text, size_t bytes) {
  const struct pz_toml_entry *name = titan_key(t, "model.name");
  const struct pz_toml_entry *flavor = titan_key(t, "model.flavor");
  struct pz_document d;
  if (!name || !flavor) {
    titan_wrong(t, NULL, "no model.name and model.flavor; accepted: torchtitan's configuration");
    return;
  }
  titan_mark(t, PZ_RUN_MODEL, flavor);
  for (size_t i = 0; i < sizeof flavors / sizeof *flavors; i++)
    if (strcmp(flavors[i].name, name->value.text) == 0 &&
        strcmp(flavors[i].flavor, flavor->value.text) == 0) {
      t->out->model = flavors[i].model;
      return;
    }
  if (pz_script_document(text, bytes, ".py", &d)) {
    read_module(t, &d);
    return;
  }
  titan_wrong(t, flavor,
              "with model.name: llama3 8B, 70B, 405B, llama2 7B, 13B, 70B, llama4 17bx16e, "
              "17bx128e, qwen3 0.6B to 32B, 30B-A3B, 235B-A22B, deepseek_v3 671B");
}

/* ---- the plan ------------------------------------------------------------------------------- */

/* The number behind an argument of torchrun; 0: there is none. */
static int64_t torchrun_count(const char *text, size_t bytes, const char *argument) {
  size_t n = strlen(argument);
  for (size_t i = 0; i + n + 1 < bytes; i++) {
    if (memcmp(text + i, argument, n) != 0) continue;
    if (text[i + n] != ' ' && text[i + n] != '=') continue;
    int64_t v = 0;
    for (i += n + 1; i < bytes && text[i] >= '0' && text[i] <= '9' && v < 1 << 24; i++)
      v = 10 * v + (text[i] - '0');
    return v;
  }
  return 0;
}

static int64_t stated_devices(struct titan *t, const char *text, size_t bytes) {
  int64_t nodes = torchrun_count(text, bytes, "--nnodes");
  int64_t each = torchrun_count(text, bytes, "--nproc-per-node");
  if (!each) each = torchrun_count(text, bytes, "--nproc_per_node");
  if (t->o->devices) {
    t->out->from[PZ_PLAN_DEVICES] = "--devices";
    return t->o->devices;
  }
  if (!each) return 0;
  if (!nodes) nodes = 1;
  t->out->from[PZ_PLAN_DEVICES] =
      pz_arena_printf(t->arena, "%" PRId64 " x %" PRId64 " processes", nodes, each);
  if (!t->out->from[PZ_PLAN_DEVICES]) titan_lose(t);
  return nodes <= 1 << 24 && each <= 1 << 24 ? nodes * each : 0;
}

/* Degrees, and the devices that follow from them or are stated; shards over cp too. */
static void read_degrees(struct titan *t, const char *text, size_t bytes) {
  static const enum pz_plan_field fields[] = {PZ_PLAN_TP, PZ_PLAN_CP, PZ_PLAN_PP, PZ_PLAN_EP};
  struct pz_plan *p = &t->out->plan;
  char key[80];
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    snprintf(key, sizeof key, "parallelism.%s", pz_plan_field(fields[i])->in[PZ_LAUNCH_TITAN]);
    pz_plan_field_store(p, fields[i], (double)titan_count(t, key, 1, 1, (int)fields[i]));
  }
  int64_t copies = titan_count(t, "parallelism.data_parallel_replicate_degree", 1, 1, -1);
  int64_t shard = titan_count(t, "parallelism.data_parallel_shard_degree", -1, -1, PZ_PLAN_SHARD);
  const char *reshard =
      titan_text(t, "parallelism.fsdp_reshard_after_forward", "default", PZ_PLAN_ZERO);
  double replica = (double)p->tp * (double)p->cp * (double)p->pp * (double)copies;
  if (t->status != PZ_OK) return;
  if (shard == 0 || replica > 1 << 24) {
    titan_wrong(t, titan_key(t, "parallelism.data_parallel_shard_degree"),
                "-1 or at least 1, and at most 2^24 devices together");
    return;
  }
  p->devices = stated_devices(t, text, bytes);
  if (!p->devices && shard > 0 && replica * (double)shard <= 1 << 24)
    p->devices = (int64_t)replica * shard;
  if (!p->devices || p->devices > 1 << 24) {
    titan_wrong(t, NULL,
                "the number of devices is not stated; accepted: --devices N, or "
                "parallelism.data_parallel_shard_degree (at most 2^24 together)");
    return;
  }
  if (shard < 0 && p->devices % (int64_t)replica == 0) shard = p->devices / (int64_t)replica;
  if (shard < 0 || (double)shard * replica != (double)p->devices) {
    t->status = pz_fail(t->err, PZ_BAD_INPUT,
                        "%s: %" PRId64
                        " devices with degrees that come to %g%s; accepted: parallelism degrees "
                        "with as many",
                        t->name, p->devices, replica * (double)(shard > 0 ? shard : 1),
                        shard < 0 ? " without shards" : "");
    return;
  }
  bool always = strcmp(reshard, "always") == 0, never = strcmp(reshard, "never") == 0;
  if (!always && !never && strcmp(reshard, "default") != 0)
    titan_wrong(t, titan_key(t, "parallelism.fsdp_reshard_after_forward"),
                "default, always or never");
  bool alone = p->tp == 1 && p->pp == 1 && !always;
  p->zero = always || (!never && p->pp == 1) ? 3 : 2;
  if (shard * p->cp == 1 && (copies > 1 || alone)) p->zero = 0;
  if (p->zero && copies > 1) p->shard = shard * p->cp;
  p->dp = copies * shard;
  p->sp = p->tp > 1;
}

static void read_division(struct titan *t, const struct pz_toml_entry *e) {
  struct pz_plan *p = &t->out->plan;
  int64_t *layers = e->value.n ? pz_arena_alloc(t->arena, e->value.n, sizeof *layers) : NULL;
  if (e->value.n && !layers) {
    titan_lose(t);
    return;
  }
  for (uint32_t i = 0; i < e->value.n; i++) {
    const struct pz_toml_value *part = &e->value.items[i];
    layers[i] = 0;
    for (uint32_t k = 0; k < part->n; k++)
      layers[i] += strncmp(part->items[k].text, "layers.", 7) == 0;
  }
  if (!pz_division_read(p, layers, e->value.n))
    titan_wrong(t, e,
                "lists of modules for chunks that the stages divide, with layers between the "
                "first and the last as even as can be");
  titan_mark(t, PZ_PLAN_VPP, e);
}

static void read_stages(struct titan *t) {
  static const struct {
    const char *name;
    int order, chunks;
  } orders[] = {{"1F1B", PZ_PIPELINE_1F1B, 1},
                {"Interleaved1F1B", PZ_PIPELINE_INTERLEAVED, 2},
                {"GPipe", PZ_PIPELINE_GPIPE, 1},
                {"ZBVZeroBubble", PZ_PIPELINE_ZB_V, 2},
                {"DualPipeV", PZ_PIPELINE_DUALPIPE_V, 2}};
  struct pz_plan *p = &t->out->plan;
  bool one = p->pp == 1; /* what is said of stages has no effect */
  const char *name =
      titan_text(t, "parallelism.pipeline_parallel_schedule", "1F1B", one ? -1 : PZ_PLAN_PIPELINE);
  const struct pz_toml_entry *parts = titan_key(t, "parallelism.module_fqns_per_model_part");
  (void)titan_key(t, "parallelism.pipeline_parallel_first_stage_less_layers");
  (void)titan_key(t, "parallelism.pipeline_parallel_last_stage_less_layers");
  int64_t each = titan_count(t, "parallelism.pipeline_parallel_layers_per_stage", 0, 1, -1);
  int64_t mbs =
      titan_count(t, "parallelism.pipeline_parallel_microbatch_size", 1, 1, one ? -1 : PZ_PLAN_MBS);
  p->vpp = 1;
  if (one) return;
  p->mbs = mbs;
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    if (strcmp(orders[i].name, name) != 0) continue;
    p->pipeline = orders[i].order;
    p->vpp = orders[i].chunks;
  }
  if (p->pipeline < 0)
    titan_wrong(t, titan_key(t, "parallelism.pipeline_parallel_schedule"),
                "1F1B, Interleaved1F1B, GPipe, ZBVZeroBubble or DualPipeV; others are not covered");
  if (parts)
    read_division(t, parts);
  else if (each && p->pipeline == PZ_PIPELINE_INTERLEAVED)
    titan_wrong(t, titan_key(t, "parallelism.pipeline_parallel_layers_per_stage"),
                "with Interleaved1F1B module_fqns_per_model_part, or neither of them (2 chunks a "
                "stage)");
}

static void read_batch(struct titan *t) {
  struct pz_plan *p = &t->out->plan;
  const char *local_key = titan_key(t, "training.local_batch_size") ? "training.local_batch_size"
                                                                    : "training.batch_size";
  int64_t local = titan_count(t, local_key, 8, 1, p->pp == 1 ? PZ_PLAN_MBS : -1);
  int64_t global = titan_count(t, "training.global_batch_size", -1, -1, PZ_PLAN_BATCH);
  if (global == 0)
    titan_wrong(t, titan_key(t, "training.global_batch_size"), "-1, or an integer from 1 to 2^24");
  p->seq = titan_count(t, "training.seq_len", 2048, 1, PZ_PLAN_SEQ);
  if (p->pp == 1) p->mbs = local;
  p->batch = global > 0 ? global : local * p->dp;
  if (global <= 0) titan_mark(t, PZ_PLAN_BATCH, titan_key(t, local_key));
  if (p->batch > 1 << 24)
    titan_wrong(t, NULL, "a global batch size above 2^24; accepted: at most that");
  if (p->pp > 1 && global > 0 && t->status == PZ_OK && global != local * p->dp)
    titan_add(
        t, &t->notes,
        "training.global_batch_size: accumulated passes of the pipeline are predicted as one");
}

static void read_recompute(struct titan *t) {
  struct pz_plan *p = &t->out->plan;
  const char *mode = titan_text(t, "activation_checkpoint.mode", "selective", PZ_PLAN_RECOMPUTE);
  const char *option = titan_text(t, "activation_checkpoint.selective_ac_option", "2", -1);
  bool op = strcmp(option, "op") == 0, half = strcmp(option, "2") == 0;
  bool all = strcmp(mode, "full") == 0, none = strcmp(mode, "none") == 0;
  if (!all && !none && strcmp(mode, "selective") != 0)
    titan_wrong(t, titan_key(t, "activation_checkpoint.mode"), "none, selective or full");
  else if (!all && !none && !op && !half)
    titan_wrong(t, titan_key(t, "activation_checkpoint.selective_ac_option"),
                "op or 2; other numbers of layers are not covered");
  p->recompute = all    ? PZ_RECOMPUTATION_FULL
                 : none ? PZ_RECOMPUTATION_NONE
                 : op   ? PZ_RECOMPUTATION_ALTERNATE
                        : PZ_RECOMPUTATION_HALF;
}

static void read_execution(struct titan *t) {
  struct pz_plan *p = &t->out->plan;
  bool compiled = titan_truth(t, "training.compile", false, PZ_PLAN_EXECUTION);
  bool model = titan_has(t, "compile.components", "model", true);
  compiled = titan_truth(t, "compile.enable", compiled, PZ_PLAN_EXECUTION) && model;
  bool tp = titan_truth(t, "parallelism.enable_async_tensor_parallel", false, -1);
  bool ep = titan_truth(t, "parallelism.pipeline_parallel_expert_parallel_overlap", false, -1);
  p->execution = compiled ? PZ_EXECUTION_COMPILE : PZ_EXECUTION_EAGER;
  p->overlap = (int)PZ_OVERLAP_GRAD | (int)PZ_OVERLAP_PARAM | (tp && compiled ? PZ_OVERLAP_TP : 0) |
               (ep ? PZ_OVERLAP_EP : 0);
  if (tp) titan_mark(t, PZ_PLAN_OVERLAP, titan_key(t, "parallelism.enable_async_tensor_parallel"));
  if (tp && !compiled && p->tp > 1)
    titan_add(t, &t->notes,
              "parallelism.enable_async_tensor_parallel has no effect without compile");
  bool fp8 = titan_has(t, "model.converters", "float8", false),
       mx = titan_has(t, "model.converters", "mx", false);
  if (fp8 && mx) titan_wrong(t, titan_key(t, "model.converters"), "float8 or mx");
  p->precision = fp8 || mx ? PZ_PRECISION_FP8 : PZ_PRECISION_BF16;
  if (fp8 || mx) {
    p->fp8_recipe = mx ? PZ_FP8_MX : PZ_FP8_CURRENT;
    titan_mark(t, PZ_PLAN_PRECISION, titan_key(t, "model.converters"));
    titan_mark(t, PZ_PLAN_FP8_RECIPE, titan_key(t, "model.converters"));
  }
  const struct pz_toml_entry *converters = titan_key(t, "model.converters");
  for (uint32_t i = 0;
       converters && converters->value.kind == PZ_TOML_ARRAY && i < converters->value.n; i++) {
    const char *converter = converters->value.items[i].text;
    if (strncmp(converter, "lora:", 5) == 0) {
      p->peft = converter; /* as `--emit torchtitan` names its own */
      titan_mark(t, PZ_PLAN_PEFT, converters);
    } else if (!strstr(converter, "float8") && !strstr(converter, "mx")) {
      titan_wrong(t, converters, "float8, mx or lora:RANK:MODULES");
    }
  }
  const char *optimizer = titan_text(t, "optimizer.name", "AdamW", -1);
  if (strcmp(optimizer, "AdamW") != 0 && strcmp(optimizer, "Adam") != 0)
    titan_wrong(t, titan_key(t, "optimizer.name"), "AdamW or Adam");
  int64_t etp = titan_count(t, "parallelism.expert_tensor_parallel_degree", 1, 1, -1);
  if (p->ep > 1 && etp > 1) p->etp = etp;
}

/* ---- the other keys ------------------------------------------------------------------------- */

static bool starts_like(const char *pattern, const char *name) {
  size_t n = strcspn(pattern, "*");
  return strncmp(pattern, name, n) == 0 && (pattern[n] == '*' || !name[n]);
}

static const char *asked_name(const void *ctx, size_t i) {
  const struct titan *t = ctx;
  return i < t->asked.n ? *pz_vec_at(&t->asked, const char *, i) : NULL;
}

/* The key that matters and that a name is meant for: a misspelt one, or one of another table.  NULL: none. */
static const char *meant_key(const struct titan *t, const char *name) {
  const char *leaf = strrchr(name, '.'), *own;
  for (size_t i = 0; leaf && (own = asked_name(t, i)); i++) {
    const char *end = strrchr(own, '.');
    if (end && strchr(leaf, '_') && strcmp(end, leaf) == 0) return own;
  }
  return pz_text_misspelt(name, asked_name, t);
}

/* 2: a key of this name shapes no step, 1: those with its beginning do not, 0: neither. */
static int silence(const char *name) {
  for (size_t k = 0; silent[k]; k++)
    if (starts_like(silent[k], name)) return strchr(silent[k], '*') ? 1 : 2;
  return 0;
}

/* Arguments behind the configuration, "--training.seq_len 8192", take the place of its keys. */
static void check_arguments(struct titan *t, const char *text, size_t bytes,
                            const struct pz_document *d) {
  for (size_t i = 1; i + 2 < bytes && t->status == PZ_OK; i++) {
    char name[80] = "", what[240];
    bool begins = strchr(" \t\n\"'(", text[i - 1]) && memcmp(text + i, "--", 2) == 0;
    if (!begins || (text + i >= d->text && text + i < d->text + d->bytes)) continue;
    for (size_t n = 0, k = i + 2; k < bytes && n + 1 < sizeof name; k++) {
      if (!islower((unsigned char)text[k]) && text[k] != '_' && text[k] != '.') break;
      name[n++] = text[k];
    }
    if (!strchr(name, '.') || silence(name) || is_ignored(t, name)) continue;
    snprintf(what, sizeof what,
             "--%s behind the configuration; accepted: the key in it (--ignore %s leaves it out)",
             name, name);
    titan_wrong(t, NULL, what);
  }
}

static void check_others(struct titan *t) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
    const struct pz_toml_entry *e = titan_key(t, refused[i].key);
    bool empty = e && e->value.kind == PZ_TOML_ARRAY && !e->value.n;
    char accepted[160];
    if (!e || empty || strcmp(e->value.text, refused[i].neutral) == 0) continue;
    snprintf(accepted, sizeof accepted, "%s; not covered: %s (--ignore %s predicts without it)",
             *refused[i].neutral ? refused[i].neutral : "none", refused[i].what, refused[i].key);
    titan_wrong(t, e, accepted);
  }
  for (uint32_t i = 0; i < t->keys.n; i++) {
    const struct pz_toml_entry *e = pz_vec_at(&t->keys, struct pz_toml_entry, i);
    bool left_out = is_ignored(t, e->name);
    if (left_out) titan_add(t, &t->notes, pz_arena_printf(t->arena, "%s is left out", e->name));
    if (left_out || t->read[i] || silence(e->name) == 2) continue;
    const char *meant = meant_key(t, e->name);
    if (meant && t->status == PZ_OK)
      t->status = pz_fail(t->err, PZ_BAD_INPUT,
                          "%s:%u: %s is no key; did you mean %s? (--ignore %s leaves it out)",
                          t->name, e->line, e->name, meant, e->name);
    if (!silence(e->name) && t->ignored.n < 1000) titan_add(t, &t->ignored, e->name);
  }
}

bool pz_torchtitan_is(const char *name, const char *text, size_t bytes) {
  struct pz_document d;
  size_t n = strlen(name), i = 0;
  if ((n > 5 && strcmp(name + n - 5, ".toml") == 0) || pz_script_document(text, bytes, ".toml", &d))
    return true;
  while (i < bytes && strchr(" \t\r\n#", text[i])) {
    if (text[i] == '#')
      while (i < bytes && text[i] != '\n') i++;
    else
      i++;
  }
  size_t start = i;
  if (i == bytes || text[i] != '[') return false;
  for (i++; i < bytes && (text[i] == '_' || text[i] == '.' || (text[i] >= 'a' && text[i] <= 'z'));)
    i++;
  return i < bytes && i > start + 1 && text[i] == ']'; /* [job] */
}

enum pz_status pz_torchtitan_read(const char *name, const char *text, size_t bytes,
                                  const struct pz_run_plan_options *o, struct pz_arena *arena,
                                  struct pz_run_plan *out, struct pz_error *err) {
  struct pz_run_plan r = pz_run_plan_default();
  struct titan t = {.name = name, .o = o, .arena = arena, .out = &r, .err = err};
  struct pz_document d = {text, bytes, 1};
  pz_vec_init(&t.ignored, arena, sizeof(const char *));
  pz_vec_init(&t.notes, arena, sizeof(const char *));
  pz_vec_init(&t.asked, arena, sizeof(const char *));
  if (o->vocab || (o->set && o->set[0]))
    return pz_fail(err, PZ_BAD_USE,
                   "--%s is for Megatron's arguments; %s is torchtitan's configuration",
                   o->vocab ? "vocab" : "set", name);
  (void)pz_script_document(text, bytes, ".toml", &d);
  enum pz_status status = pz_toml_read(name, d.text, d.bytes, d.line, arena, &t.keys, err);
  if (status != PZ_OK) return status;
  t.read = pz_arena_alloc(arena, t.keys.n + 1, sizeof *t.read);
  if (!t.read) titan_lose(&t);
  if (t.status != PZ_OK) return t.status;
  r.plan.framework = pz_framework_find("torchtitan");
  r.from[PZ_PLAN_FRAMEWORK] = "torchtitan's configuration";
  read_degrees(&t, text, bytes);
  if (t.status == PZ_OK) read_stages(&t);
  if (t.status == PZ_OK) read_batch(&t);
  if (t.status == PZ_OK) read_recompute(&t);
  if (t.status == PZ_OK) read_execution(&t);
  if (t.status == PZ_OK) read_model(&t, text, bytes);
  if (t.status == PZ_OK) check_others(&t);
  if (t.status == PZ_OK && d.text != text) check_arguments(&t, text, bytes, &d);
  if (t.status != PZ_OK) return t.status;
  r.ignored = t.ignored.items;
  r.n_ignored = t.ignored.n;
  r.notes = t.notes.items;
  r.n_notes = t.notes.n;
  *out = r;
  return PZ_OK;
}
