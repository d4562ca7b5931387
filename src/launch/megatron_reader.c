#include "launch/megatron_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/text.h"

/* ---- arguments that are read ---------------------------------------------------------------- */

/* AMOUNT: a count or 0; LIST: words up to the next argument. */
enum kind { FLAG, COUNT, AMOUNT, REAL, WORD, LIST };

struct argument {
  const char *name;
  enum kind kind;
  enum pz_megatron_value value;
};

/* clang-format off */
static const struct argument arguments[] = {
    {"num-layers", COUNT, PZ_ARG_LAYERS}, {"encoder-num-layers", COUNT, PZ_ARG_LAYERS}, {"hidden-size", COUNT, PZ_ARG_HIDDEN},
    {"ffn-hidden-size", COUNT, PZ_ARG_FFN}, {"num-attention-heads", COUNT, PZ_ARG_HEADS}, {"kv-channels", COUNT, PZ_ARG_KV_CHANNELS},
    {"group-query-attention", FLAG, PZ_ARG_GROUPED}, {"num-query-groups", COUNT, PZ_ARG_GROUPS},
    {"seq-length", COUNT, PZ_ARG_SEQ}, {"encoder-seq-length", COUNT, PZ_ARG_SEQ}, {"max-position-embeddings", COUNT, PZ_ARG_POSITIONS},
    {"position-embedding-type", WORD, PZ_ARG_POSITION_TYPE}, {"use-rotary-position-embeddings", FLAG, PZ_ARG_ROTARY},
    {"swiglu", FLAG, PZ_ARG_SWIGLU}, {"normalization", WORD, PZ_ARG_NORM}, {"untie-embeddings-and-output-weights", FLAG, PZ_ARG_UNTIED},
    {"disable-bias-linear", FLAG, PZ_ARG_NO_BIAS}, {"add-qkv-bias", FLAG, PZ_ARG_QKV_BIAS},
    {"hidden-dropout", REAL, PZ_ARG_HIDDEN_DROPOUT}, {"attention-dropout", REAL, PZ_ARG_ATTENTION_DROPOUT},
    {"vocab-size", COUNT, PZ_ARG_VOCAB}, {"padded-vocab-size", COUNT, PZ_ARG_PADDED_VOCAB},
    {"make-vocab-size-divisible-by", COUNT, PZ_ARG_VOCAB_MULTIPLE}, {"tokenizer-type", WORD, PZ_ARG_TOKENIZER},
    {"micro-batch-size", COUNT, PZ_ARG_MBS}, {"global-batch-size", COUNT, PZ_ARG_BATCH}, {"rampup-batch-size", WORD, PZ_ARG_RAMPUP},
    {"tensor-model-parallel-size", COUNT, PZ_ARG_TP}, {"sequence-parallel", FLAG, PZ_ARG_SP}, {"context-parallel-size", COUNT, PZ_ARG_CP}, {"cp-comm-type", WORD, PZ_ARG_CP_FORM},
    {"pipeline-model-parallel-size", COUNT, PZ_ARG_PP}, {"num-layers-per-virtual-pipeline-stage", COUNT, PZ_ARG_CHUNK_LAYERS},
    {"num-virtual-stages-per-pipeline-rank", COUNT, PZ_ARG_CHUNKS},
    {"decoder-first-pipeline-num-layers", COUNT, PZ_ARG_FIRST_LAYERS}, {"decoder-last-pipeline-num-layers", COUNT, PZ_ARG_LAST_LAYERS},
    {"account-for-embedding-in-pipeline-split", FLAG, PZ_ARG_EMBEDDING_AS_LAYER}, {"account-for-loss-in-pipeline-split", FLAG, PZ_ARG_LOSS_AS_LAYER},
    {"recompute-activations", FLAG, PZ_ARG_SELECTIVE}, {"recompute-granularity", WORD, PZ_ARG_GRANULARITY},
    {"recompute-method", WORD, PZ_ARG_METHOD}, {"recompute-num-layers", COUNT, PZ_ARG_AGAIN_LAYERS}, {"recompute-modules", LIST, PZ_ARG_MODULES},
    {"use-distributed-optimizer", FLAG, PZ_ARG_DISTRIBUTED}, {"num-distributed-optimizer-instances", COUNT, PZ_ARG_INSTANCES},
    {"use-torch-fsdp2", FLAG, PZ_ARG_FSDP2}, {"torch-fsdp2-no-reshard-after-forward", FLAG, PZ_ARG_FSDP2_KEEPS},
    {"use-megatron-fsdp", FLAG, PZ_ARG_FSDP}, {"use-custom-fsdp", FLAG, PZ_ARG_FSDP}, {"data-parallel-sharding-strategy", WORD, PZ_ARG_STRATEGY},
    {"overlap-grad-reduce", FLAG, PZ_ARG_OVERLAP_GRAD}, {"overlap-param-gather", FLAG, PZ_ARG_OVERLAP_PARAM},
    {"tp-comm-overlap", FLAG, PZ_ARG_OVERLAP_TP}, {"no-overlap-p2p-communication", FLAG, PZ_ARG_NO_OVERLAP_P2P},
    {"grad-reduce-in-bf16", FLAG, PZ_ARG_GRAD_BF16}, {"bf16", FLAG, PZ_ARG_BF16}, {"fp16", FLAG, PZ_ARG_FP16},
    {"fp8-format", WORD, PZ_ARG_FP8_FORMAT}, {"fp8-hybrid", FLAG, PZ_ARG_FP8}, {"fp8-e4m3", FLAG, PZ_ARG_FP8}, {"fp8-recipe", WORD, PZ_ARG_FP8_RECIPE},
    {"use-flash-attn", FLAG, PZ_ARG_FLASH}, {"attention-backend", WORD, PZ_ARG_BACKEND}, {"transformer-impl", WORD, PZ_ARG_IMPLEMENTATION},
    {"enable-cuda-graph", FLAG, PZ_ARG_GRAPH}, {"external-cuda-graph", FLAG, PZ_ARG_GRAPH}, {"cuda-graph-impl", WORD, PZ_ARG_GRAPH_IMPL},
    {"nnodes", WORD, PZ_ARG_NODES}, {"nproc-per-node", WORD, PZ_ARG_PROCESSES},
    {"num-experts", AMOUNT, PZ_ARG_EXPERTS}, {"moe-router-topk", COUNT, PZ_ARG_TOPK}, {"moe-ffn-hidden-size", COUNT, PZ_ARG_EXPERT_FFN},
    {"moe-shared-expert-intermediate-size", AMOUNT, PZ_ARG_SHARED_FFN}, {"moe-layer-freq", WORD, PZ_ARG_EXPERT_LAYERS},
    {"moe-grouped-gemm", FLAG, PZ_ARG_GROUPED_PRODUCTS}, {"moe-token-dispatcher-type", WORD, PZ_ARG_DISPATCHER},
    {"moe-router-num-groups", COUNT, PZ_ARG_EXPERT_GROUPS}, {"moe-router-group-topk", COUNT, PZ_ARG_GROUP_TOPK},
    {"moe-expert-capacity-factor", WORD, PZ_ARG_CAPACITY}, {"moe-pad-expert-input-to-capacity", FLAG, PZ_ARG_PADS},
    {"expert-model-parallel-size", COUNT, PZ_ARG_EP}, {"expert-tensor-parallel-size", COUNT, PZ_ARG_ETP},
    {"overlap-moe-expert-parallel-comm", FLAG, PZ_ARG_OVERLAP_EP}, {"moe-layer-recompute", FLAG, PZ_ARG_EXPERTS_AGAIN},
    {"multi-latent-attention", FLAG, PZ_ARG_LATENT}, {"q-lora-rank", COUNT, PZ_ARG_Q_RANK}, {"kv-lora-rank", COUNT, PZ_ARG_KV_RANK},
    {"qk-head-dim", COUNT, PZ_ARG_NOPE_DIM}, {"qk-pos-emb-head-dim", COUNT, PZ_ARG_ROPE_DIM}, {"v-head-dim", COUNT, PZ_ARG_V_DIM},
    {"qk-layernorm", FLAG, PZ_ARG_QK_NORM}, {"mtp-num-layers", AMOUNT, PZ_ARG_PREDICT_LAYERS},
};

/* Of the comments of a Slurm script. */
static const struct argument batch_arguments[] = {
    {"nodes", WORD, PZ_ARG_BATCH_NODES}, {"gpus-per-node", WORD, PZ_ARG_BATCH_GPUS}, {"ntasks-per-node", WORD, PZ_ARG_BATCH_TASKS}, {"gres", WORD, PZ_ARG_BATCH_GRES},
};

/* Arguments that shape the step and are not covered: by name, or by the beginning of the name where it ends with a star. */
static const struct refused {
  const char *name, *what;
  const char *neutral; /* a value with which it does nothing; NULL: none */
} refusals[] = {
    {"expert*", "this choice for experts", NULL}, {"moe-shared-expert-overlap", "shared experts beside the dispatch", NULL},
    {"moe-*", "this choice for experts", NULL},
    {"hierarchical-context-parallel-sizes", "context parallelism", NULL},
    {"fp8*", "this choice of 8-bit precision", NULL}, {"fp4*", "4-bit precision", NULL}, 
    {"window-size", "attention over a window", NULL}, {"qk-l2-norm", "norms of query and key", NULL},
    {"softmax-type", "attention sinks", "vanilla"},
    {"squared-relu", "the activation function squared ReLU", NULL}, {"quick-geglu", "the activation function GEGLU", NULL},
    {"pipeline-model-parallel-layout", "a layout of its own", NULL}, {"pipeline-model-parallel-split-rank", "encoders with decoders", NULL},
    {"encoder-tensor-model-parallel-size", "encoders with decoders", "0"}, {"encoder-pipeline-model-parallel-size", "encoders with decoders", "0"},
    {"decoder-num-layers", "encoders with decoders", NULL}, {"standalone-embedding-stage", "a stage for the embedding alone", NULL},
    {"use-tp-pp-dp-mapping", "replicas outside of stages in the order of ranks", NULL},
    {"cpu-offloading*", "activations kept on the host", NULL}, {"optimizer-cpu-offload", "an optimizer on the host", NULL},
    {"distribute-saved-activations", "saved activations divided over the tensor-parallel group", NULL},
    {"use-precision-aware-optimizer", "optimizer state in other types", NULL}, {"main-grads-dtype", "gradients in other types", "fp32"},
    {"main-params-dtype", "optimizer state in other types", "fp32"}, {"exp-avg-dtype", "optimizer state in other types", "fp32"},
    {"exp-avg-sq-dtype", "optimizer state in other types", "fp32"}, {"optimizer", "optimizers other than adam", "adam"},
    {"spec", "a model of its own", "local"}, {"heterogeneous-*", "layers that differ", NULL}, {"retro-*", "retrieval models", NULL},
    {"hybrid-*", "state-space layers", NULL}, {"is-hybrid-model", "state-space layers", NULL}, {"mamba-*", "state-space layers", NULL},
    {"yaml-cfg", "a configuration in YAML", NULL}, {"deepspeed*", "DeepSpeed", NULL}, {"zero-stage", "DeepSpeed", "0"},
    {"perform-rl-step", "reinforcement learning", NULL}, {"num-experts-per-tok", "experts", NULL},
    {"batch-size", "an argument of old versions (now --micro-batch-size)", NULL},
    {"model-parallel-size", "an argument of old versions (now --tensor-model-parallel-size)", NULL},
    {"checkpoint-activations", "an argument of old versions (now --recompute-activations or --recompute-granularity)", NULL},
};

/* Arguments that shape no step, which need no word. */
static const char *const silent[] = {
    "lr*", "min-lr", "weight-decay*", "start-weight-decay", "end-weight-decay", "adam-*", "clip-grad", "sgd-momentum", "override-opt*",
    "use-checkpoint-*", "train-*", "eval-*", "exit-*", "save*", "load*", "no-load-*", "no-save-*", "ckpt-*", "async-save", "use-dist-ckpt",
    "auto-detect-ckpt-format", "finetune", "log-*", "timing-log-*", "tensorboard-*", "wandb-*", "data-*", "split", "tokenizer-*", "vocab-file", "merge-file",
    "vocab-extra-ids", "mock-data", "num-workers", "num-dataset-builder-threads", "dataloader-type", "no-create-attention-mask-in-dataloader",
    "reset-*", "eod-mask-loss", "seed", "init-method-*", "loss-scale*", "initial-loss-scale", "min-loss-scale", "hysteresis", "norm-epsilon",
    "rotary-*", "use-rope-scaling", "rope-scaling-factor", "rope-type", "no-rope-fusion", "apply-layernorm-1p", "openai-gelu", "no-position-embedding",
    "use-mcore-models", "use-legacy-models", "distributed-*", "local-rank", "master-addr", "master-port", "node-rank", "rdzv-*", "max-restarts",
    "tee", "standalone", "role", "start-method", "profile*", "use-pytorch-profiler", "nccl-communicator-config-path", "manual-gc*", "no-one-logger",
    "one-logger-*", "accumulate-allreduce-grads-in-fp32", "no-check-for-nan-in-loss-and-grad", "check-for-*", "calculate-per-token-loss",
    "use-cpu-initialization", "no-initialization", "ddp-*", "tp-comm-bootstrap-backend", "tp-comm-overlap-cfg",
    "attention-softmax-in-fp32", "empty-unused-memory-level", "enable-ft-package", "enable-one-logger", "inference-*", "fp8-margin", "fp8-interval", "fp8-amax-*", "no-fp8-wgrad",
    "moe-router-*", "moe-aux-loss-coeff", "moe-z-loss-coeff", "moe-per-layer-logging", "moe-permute-fusion", "moe-enable-deepep", "moe-flex-dispatcher-backend",
    "moe-deepep-num-sms", "moe-hybridep-num-sms", "moe-input-jitter-eps", "mtp-loss-scaling-factor", "mscale*", "beta-fast", "beta-slow",
    "original-max-position-embeddings",
    /* of launchers */
    "ntasks*", "nodes", "gres*", "gpus*", "cpus-per-task", "container-*", "no-container-*", "export*", "job-name", "output", "error", "label", "mpi",
    "time", "partition", "account", "kill-on-bad-exit", "hostfile", "hostname", "help", "module", "no-python",
};
/* clang-format on */

/* ---- reading -------------------------------------------------------------------------------- */

enum pz_status pz_megatron_no_memory(struct pz_megatron_reader *r) {
  return pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
}

enum pz_status pz_megatron_wrong(struct pz_megatron_reader *r, const struct pz_megatron_given *g,
                                 const char *accepted) {
  enum pz_status status =
      pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: --%s %.60s; accepted: %s", r->name, g->line, g->name,
              g->text ? g->text : "without a value", accepted);
  pz_error_at(r->err, r->name, (int)g->line, 0);
  return status;
}

enum pz_status pz_megatron_add_text(struct pz_megatron_reader *r, struct pz_vec *list,
                                    const char *text) {
  return text && pz_vec_push(list, &text) ? PZ_OK : pz_megatron_no_memory(r);
}

/* Names are compared with dashes for underscores; one that ends with a star by its beginning. */
static bool matches(const char *pattern, const char *name) {
  for (; *pattern && *pattern != '*'; pattern++, name++)
    if (*pattern != (*name == '_' ? '-' : *name)) return false;
  return *pattern == '*' || !*name;
}

static const struct argument *find(const struct argument *list, size_t n, const char *name) {
  for (size_t i = 0; i < n; i++)
    if (matches(list[i].name, name)) return &list[i];
  return NULL;
}

static bool is_silent(const char *name) {
  for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
    if (matches(silent[i], name)) return true;
  return false;
}

static const struct refused *find_refused(const char *name) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
    if (matches(refusals[i].name, name)) return &refusals[i];
  return NULL;
}

/* The value of the argument at word i: behind its =, or the next word; NULL: there is none. */
static const char *value_at(const struct pz_megatron_reader *r, uint32_t i, const char *equals,
                            const char **unknown) {
  const struct pz_shell_word *w = pz_vec_at(&r->text.words, struct pz_shell_word, i);
  *unknown = NULL;
  if (equals) return *unknown = w->unknown, equals + 1;
  if (i + 1 >= r->text.words.n) return NULL;
  const struct pz_shell_word *next = w + 1;
  if (next->begins || strncmp(next->text, "--", 2) == 0) return NULL;
  *unknown = next->unknown;
  return next->text;
}

/* The same with all words up to the next argument, spaces between them. */
static const char *list_at(const struct pz_megatron_reader *r, uint32_t i, const char *equals,
                           const char **unknown) {
  const char *text = value_at(r, i, equals, unknown);
  for (uint32_t k = i + (equals ? 1 : 2); text && k < r->text.words.n; k++) {
    const struct pz_shell_word *w = pz_vec_at(&r->text.words, struct pz_shell_word, k);
    if (w->begins || strncmp(w->text, "--", 2) == 0 || strlen(text) > PZ_SHELL_MOST_VALUE) break;
    text = pz_arena_printf(r->arena, "%s %s", text, w->text);
    if (w->unknown) *unknown = w->unknown;
  }
  return text;
}

static enum pz_status read_number(struct pz_megatron_reader *r, struct pz_megatron_given *g,
                                  enum kind kind) {
  char *end = NULL;
  if (g->unknown || !g->text)
    return g->unknown
               ? pz_fail(r->err, PZ_BAD_INPUT,
                         "%s:%u: --%s is '%.60s', and %s has no value in the text; accepted: --set "
                         "NAME=VALUE, or a number in its place",
                         r->name, g->line, g->name, g->text, g->unknown)
               : pz_megatron_wrong(
                     r, g, kind == COUNT ? "an integer from 1 to 2^26" : "a number from 0 to 1");
  if (kind == REAL) {
    g->real = strtod(g->text, &end);
    if (!*g->text || *end || !(g->real >= 0 && g->real < 1))
      return pz_megatron_wrong(r, g, "a number from 0 to below 1");
    return PZ_OK;
  }
  const char *accepted = kind == AMOUNT ? "an integer from 0 to 2^26" : "an integer from 1 to 2^26";
  size_t digits = strspn(g->text, "0123456789");
  if (!digits || g->text[digits] || digits > 9) return pz_megatron_wrong(r, g, accepted);
  g->n = strtoll(g->text, NULL, 10);
  bool fits = g->n >= (kind == COUNT) && g->n <= 1 << 26;
  return fits ? PZ_OK : pz_megatron_wrong(r, g, accepted);
}

/* An argument that was given before with another value: the last counts, as argparse has it. */
static enum pz_status note_twice(struct pz_megatron_reader *r, const struct pz_megatron_given *old,
                                 const struct pz_megatron_given *now) {
  if (!old->set || !old->text || !now->text || strcmp(old->text, now->text) == 0) return PZ_OK;
  char *text =
      pz_arena_printf(r->arena, "--%s is %.40s in line %u and %.40s in line %u: the last counts",
                      now->name, old->text, old->line, now->text, now->line);
  return r->notes.n < 20 ? pz_megatron_add_text(r, &r->notes, pz_text_plain(text)) : PZ_OK;
}

static enum pz_status take(struct pz_megatron_reader *r, const struct argument *a, uint32_t line,
                           const char *text, const char *unknown) {
  struct pz_megatron_given *g = &r->g[a->value];
  struct pz_megatron_given now = {.name = a->name, .line = line, .set = true};
  if (a->kind != FLAG) {
    now.text = text;
    now.unknown = unknown;
    if (!text) return pz_megatron_wrong(r, &now, "a value behind it");
  }
  enum pz_status status = note_twice(r, g, &now);
  *g = now;
  if (status == PZ_OK && (a->kind == COUNT || a->kind == AMOUNT || a->kind == REAL))
    status = read_number(r, g, a->kind);
  return status;
}

static enum pz_status refuse(struct pz_megatron_reader *r, const struct refused *x,
                             const char *name, uint32_t line, const char *value) {
  if (x->neutral && value && strcmp(value, x->neutral) == 0) return PZ_OK;
  bool shown = value && x->neutral;
  enum pz_status status = pz_fail(
      r->err, PZ_BAD_INPUT,
      "%s:%u: --%.60s%s%.40s is not covered: %s; accepted: %s%sthe run without it (--ignore %.60s)",
      r->name, line, name, shown ? " " : "", shown ? value : "", x->what,
      x->neutral ? x->neutral : "", x->neutral ? ", or " : "", name);
  pz_error_at(r->err, r->name, (int)line, 0);
  return status;
}

static enum pz_status ignore(struct pz_megatron_reader *r, const char *name) {
  for (uint32_t i = 0; i < r->ignored.n; i++)
    if (strcmp(*pz_vec_at(&r->ignored, const char *, i), name) == 0) return PZ_OK;
  if (r->ignored.n >= 1000) return PZ_OK;
  return pz_megatron_add_text(r, &r->ignored, name);
}

/* Does the caller want an argument left out, though it shapes the step? */
static bool is_left_out(const struct pz_megatron_reader *r, const char *name) {
  for (const char *const *i = r->o->ignore; i && *i; i++)
    if (matches(strncmp(*i, "--", 2) == 0 ? *i + 2 : *i, name)) return true;
  return false;
}

/* The argument at word i. */
static enum pz_status read_argument(struct pz_megatron_reader *r, uint32_t i) {
  const struct pz_shell_word *w = pz_vec_at(&r->text.words, struct pz_shell_word, i);
  const char *equals = strchr(w->text, '='), *unknown;
  size_t n = equals ? (size_t)(equals - w->text) : strlen(w->text);
  char *name = pz_arena_printf(r->arena, "%.*s", n < 80 ? (int)n - 2 : 78, w->text + 2);
  if (!name) return pz_megatron_no_memory(r);
  pz_text_plain(name);
  const char *value = value_at(r, i, equals, &unknown);
  size_t most = sizeof arguments / sizeof *arguments;
  const struct argument *a =
      w->batch ? find(batch_arguments, 4, name) : find(arguments, most, name);
  if (a && !w->batch && is_left_out(r, name))
    return pz_megatron_add_text(r, &r->notes, pz_arena_printf(r->arena, "--%s is left out", name));
  if (a && a->kind == LIST) value = list_at(r, i, equals, &unknown);
  if (a) return take(r, a, w->line, value, unknown);
  if (w->batch || is_silent(name)) return PZ_OK;
  const struct refused *x = find_refused(name);
  if (x && is_left_out(r, name))
    return pz_megatron_add_text(r, &r->notes,
                                pz_arena_printf(r->arena, "--%s is left out: %s", name, x->what));
  return x ? refuse(r, x, name, w->line, value) : ignore(r, name);
}

/* -N 4 of a Slurm comment. */
static enum pz_status read_letter(struct pz_megatron_reader *r, uint32_t i) {
  static const struct argument nodes = {"nodes", WORD, PZ_ARG_BATCH_NODES};
  const struct pz_shell_word *w = pz_vec_at(&r->text.words, struct pz_shell_word, i);
  const char *unknown, *value = value_at(r, i, NULL, &unknown);
  return w->batch && strcmp(w->text, "-N") == 0 ? take(r, &nodes, w->line, value, unknown) : PZ_OK;
}

static enum pz_status read_words(struct pz_megatron_reader *r) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < r->text.words.n && status == PZ_OK; i++) {
    const char *text = pz_vec_at(&r->text.words, struct pz_shell_word, i)->text;
    if (strncmp(text, "--", 2) == 0 && text[2])
      status = read_argument(r, i);
    else if (text[0] == '-')
      status = read_letter(r, i);
  }
  for (uint32_t i = 0; i < r->text.variables.n && status == PZ_OK; i++) {
    const struct pz_shell_variable *v = pz_vec_at(&r->text.variables, struct pz_shell_variable, i);
    if (v->other_line && !v->preset && r->notes.n < 20)
      status = pz_megatron_add_text(
          r, &r->notes,
          pz_arena_printf(r->arena,
                          "variable %.40s has other values in lines %u and %u: the "
                          "last before each use counts",
                          v->name, v->other_line, v->line));
  }
  return status;
}

/* ---- the plan ------------------------------------------------------------------------------- */

enum pz_status pz_megatron_need(struct pz_megatron_reader *r, enum pz_megatron_value v,
                                const char *name) {
  if (pz_megatron_has(r, v)) return PZ_OK;
  return pz_fail(r->err, PZ_BAD_INPUT, "%s: no --%s among the arguments", r->name, name);
}

/* A word among some; NULL in the list ends it. */
enum pz_status pz_megatron_need_word(struct pz_megatron_reader *r, enum pz_megatron_value v,
                                     const char *const *list, const char *accepted) {
  if (!pz_megatron_has(r, v)) return PZ_OK;
  for (; *list; list++)
    if (strcmp(r->g[v].text, *list) == 0) return PZ_OK;
  return pz_megatron_wrong(r, &r->g[v], accepted);
}

/* Where a field comes from, from the first of two arguments that was given. */
enum pz_status pz_megatron_mark(struct pz_megatron_reader *r, int f, enum pz_megatron_value a,
                                enum pz_megatron_value b) {
  const struct pz_megatron_given *g = pz_megatron_has(r, a) ? &r->g[a] : &r->g[b];
  if (!g->set) return PZ_OK;
  r->out->run.from[f] = pz_arena_printf(r->arena, "--%s, line %u", g->name, g->line);
  return r->out->run.from[f] ? PZ_OK : pz_megatron_no_memory(r);
}

/* Nodes, or processes of one: a number, also where a script asks the batch system for its own. */
static enum pz_status launch_count(struct pz_megatron_reader *r, enum pz_megatron_value v,
                                   int64_t batch, int64_t absent, int64_t *out) {
  struct pz_megatron_given *g = &r->g[v];
  *out = batch ? batch : absent;
  if (!g->set) return PZ_OK;
  bool asks = g->unknown && (strstr(g->unknown, "SLURM_") || strstr(g->unknown, "NNODES"));
  if (asks && batch) return PZ_OK;
  enum pz_status status = read_number(r, g, COUNT);
  if (status == PZ_OK) *out = g->n;
  return status;
}

/* gpu:8, gpu:h100:8 or 8 of Slurm's comments; 0: not told. */
static int64_t batch_count(const struct pz_megatron_reader *r, enum pz_megatron_value v) {
  if (!pz_megatron_has(r, v) || r->g[v].unknown) return 0;
  const char *text = r->g[v].text, *colon = strrchr(text, ':');
  long n = strtol(colon ? colon + 1 : text, NULL, 10);
  return n > 0 && n <= 1 << 20 ? n : 0;
}

static enum pz_status read_devices(struct pz_megatron_reader *r) {
  struct pz_plan *o = &r->out->run.plan;
  int64_t nodes, processes, gpus = batch_count(r, PZ_ARG_BATCH_GPUS);
  if (r->o->devices) {
    o->devices = r->o->devices;
    r->out->run.from[PZ_PLAN_DEVICES] = "--devices";
    return PZ_OK;
  }
  if (!gpus) gpus = batch_count(r, PZ_ARG_BATCH_GRES);
  if (!gpus) gpus = batch_count(r, PZ_ARG_BATCH_TASKS);
  enum pz_status status =
      launch_count(r, PZ_ARG_NODES, batch_count(r, PZ_ARG_BATCH_NODES), 1, &nodes);
  if (status == PZ_OK) status = launch_count(r, PZ_ARG_PROCESSES, gpus, 0, &processes);
  if (status != PZ_OK) return status;
  if (!processes || (double)nodes * (double)processes > 1 << 24)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: the number of devices is not stated; accepted: --devices N, or torchrun's "
                   "--nnodes and --nproc_per_node (at most 2^24 together)",
                   r->name);
  o->devices = nodes * processes;
  r->out->run.from[PZ_PLAN_DEVICES] =
      pz_arena_printf(r->arena, "%" PRId64 " x %" PRId64 " processes", nodes, processes);
  return r->out->run.from[PZ_PLAN_DEVICES] ? PZ_OK : pz_megatron_no_memory(r);
}

static enum pz_status read_batch(struct pz_megatron_reader *r) {
  struct pz_plan *o = &r->out->run.plan;
  enum pz_status status = pz_megatron_need(r, PZ_ARG_MBS, "micro-batch-size");
  if (status == PZ_OK) status = pz_megatron_need(r, PZ_ARG_SEQ, "seq-length");
  o->mbs = pz_megatron_count(r, PZ_ARG_MBS, 1);
  o->batch = pz_megatron_count(r, PZ_ARG_BATCH, 0);
  o->seq = pz_megatron_count(r, PZ_ARG_SEQ, 0);
  if (status == PZ_OK) status = pz_megatron_mark(r, PZ_PLAN_MBS, PZ_ARG_MBS, PZ_ARG_MBS);
  if (status == PZ_OK) status = pz_megatron_mark(r, PZ_PLAN_BATCH, PZ_ARG_BATCH, PZ_ARG_BATCH);
  if (status == PZ_OK) status = pz_megatron_mark(r, PZ_PLAN_SEQ, PZ_ARG_SEQ, PZ_ARG_SEQ);
  if (status == PZ_OK && pz_megatron_has(r, PZ_ARG_RAMPUP))
    status = pz_megatron_add_text(
        r, &r->notes, "--rampup-batch-size: the prediction is of the full global batch size");
  return status;
}

/* Layers that the division into stages counts: embedding and loss may stand for one each. */
static int64_t counted_layers(const struct pz_megatron_reader *r) {
  return pz_megatron_count(r, PZ_ARG_LAYERS, 0) + pz_megatron_has(r, PZ_ARG_EMBEDDING_AS_LAYER) +
         pz_megatron_has(r, PZ_ARG_LOSS_AS_LAYER);
}

/* Layers of the first and the last stage where they differ from the others. */
static enum pz_status read_ends(struct pz_megatron_reader *r) {
  struct pz_run_plan *run = &r->out->run;
  int64_t even = counted_layers(r) / (run->plan.pp * run->plan.vpp);
  bool first = pz_megatron_has(r, PZ_ARG_FIRST_LAYERS),
       last = pz_megatron_has(r, PZ_ARG_LAST_LAYERS);
  if ((first || last) && run->plan.vpp > 1)
    return pz_megatron_wrong(r, &r->g[first ? PZ_ARG_FIRST_LAYERS : PZ_ARG_LAST_LAYERS],
                             "stages without chunks");
  if (run->plan.pp == 1) return PZ_OK;
  if (first || last) {
    int64_t ends = first + last, layers = pz_megatron_count(r, PZ_ARG_LAYERS, 0);
    int64_t rest = layers - pz_megatron_count(r, PZ_ARG_FIRST_LAYERS, 0) -
                   pz_megatron_count(r, PZ_ARG_LAST_LAYERS, 0);
    int64_t others = run->plan.pp - ends;
    if (rest < 0 || (others ? rest % others : rest != 0))
      return pz_megatron_wrong(r, &r->g[first ? PZ_ARG_FIRST_LAYERS : PZ_ARG_LAST_LAYERS],
                               "as many as leave the other stages whole layers");
    int64_t middle = others ? rest / others : 0;
    run->plan.first_layers = pz_megatron_count(r, PZ_ARG_FIRST_LAYERS, middle);
    run->plan.last_layers = pz_megatron_count(r, PZ_ARG_LAST_LAYERS, middle);
  } else if (pz_megatron_has(r, PZ_ARG_EMBEDDING_AS_LAYER) ||
             pz_megatron_has(r, PZ_ARG_LOSS_AS_LAYER)) {
    r->out->ends_as_layers = true;
    run->plan.first_layers = even - pz_megatron_has(r, PZ_ARG_EMBEDDING_AS_LAYER);
    run->plan.last_layers = even - pz_megatron_has(r, PZ_ARG_LOSS_AS_LAYER);
  }
  enum pz_status status =
      pz_megatron_mark(r, PZ_PLAN_FIRST_LAYERS, PZ_ARG_FIRST_LAYERS, PZ_ARG_EMBEDDING_AS_LAYER);
  return status == PZ_OK
             ? pz_megatron_mark(r, PZ_PLAN_LAST_LAYERS, PZ_ARG_LAST_LAYERS, PZ_ARG_LOSS_AS_LAYER)
             : status;
}

static enum pz_status read_stages(struct pz_megatron_reader *r) {
  struct pz_plan *o = &r->out->run.plan;
  int64_t layers = counted_layers(r);
  bool uneven = pz_megatron_has(r, PZ_ARG_FIRST_LAYERS) || pz_megatron_has(r, PZ_ARG_LAST_LAYERS);
  o->pp = pz_megatron_count(r, PZ_ARG_PP, 1);
  o->vpp = pz_megatron_count(r, PZ_ARG_CHUNKS, 1);
  r->out->chunks_by_rank = pz_megatron_has(r, PZ_ARG_CHUNKS);
  if (pz_megatron_has(r, PZ_ARG_CHUNK_LAYERS) && pz_megatron_has(r, PZ_ARG_CHUNKS))
    return pz_megatron_wrong(r, &r->g[PZ_ARG_CHUNKS],
                             "it or --num-layers-per-virtual-pipeline-stage, not both");
  if (!uneven && layers % o->pp)
    return pz_megatron_wrong(r, &r->g[PZ_ARG_PP],
                             "a number that divides the layers, or --decoder-first-pipeline-num-"
                             "layers and --decoder-last-pipeline-num-layers");
  if (pz_megatron_has(r, PZ_ARG_CHUNK_LAYERS)) {
    if (layers / o->pp % r->g[PZ_ARG_CHUNK_LAYERS].n ||
        layers / o->pp < r->g[PZ_ARG_CHUNK_LAYERS].n)
      return pz_megatron_wrong(r, &r->g[PZ_ARG_CHUNK_LAYERS],
                               "a number that divides the layers of a stage");
    o->vpp = layers / o->pp / r->g[PZ_ARG_CHUNK_LAYERS].n;
  } else if (!uneven && layers / o->pp % o->vpp) {
    return pz_megatron_wrong(r, &r->g[PZ_ARG_CHUNKS],
                             "a number that divides the layers of a stage");
  }
  if (o->pp == 1) o->vpp = 1;
  enum pz_status status = pz_megatron_mark(r, PZ_PLAN_PP, PZ_ARG_PP, PZ_ARG_PP);
  if (status == PZ_OK)
    status = pz_megatron_mark(r, PZ_PLAN_VPP, PZ_ARG_CHUNK_LAYERS, PZ_ARG_CHUNKS);
  return status == PZ_OK ? read_ends(r) : status;
}

/* Modules of selective recomputation; the attention core by itself is what a plan says with none. */
static enum pz_status read_modules(struct pz_megatron_reader *r) {
  struct pz_plan *o = &r->out->run.plan;
  struct pz_plan asked = *o;
  int set = 0;
  if (o->recompute != PZ_RECOMPUTATION_SELECTIVE) return PZ_OK;
  if (pz_megatron_has(r, PZ_ARG_MODULES) &&
      pz_plan_field_read(&asked, PZ_PLAN_RECOMPUTE_MODULES, r->g[PZ_ARG_MODULES].text, NULL) !=
          PZ_OK)
    return pz_megatron_wrong(
        r, &r->g[PZ_ARG_MODULES],
        "layernorm, moe_act, mla_up_proj, mlp, moe, shared_experts, core_attn");
  if (pz_megatron_has(r, PZ_ARG_MODULES)) set = asked.recompute_modules;
  if (pz_megatron_has(r, PZ_ARG_EXPERTS_AGAIN))
    set = (set ? set : PZ_MODULE_CORE) | PZ_MODULE_EXPERTS;
  o->recompute_modules = set == PZ_MODULE_CORE ? 0 : set;
  return set ? pz_megatron_mark(r, PZ_PLAN_RECOMPUTE_MODULES, PZ_ARG_MODULES, PZ_ARG_EXPERTS_AGAIN)
             : PZ_OK;
}

static enum pz_status read_recompute(struct pz_megatron_reader *r) {
  static const char *const granularities[] = {"full", "selective", NULL};
  static const char *const methods[] = {"uniform", "block", NULL};
  struct pz_plan *o = &r->out->run.plan;
  enum pz_status status =
      pz_megatron_need_word(r, PZ_ARG_GRANULARITY, granularities, "full or selective");
  if (status == PZ_OK)
    status = pz_megatron_need_word(r, PZ_ARG_METHOD, methods, "uniform or block");
  if (status != PZ_OK) return status;
  bool full =
      pz_megatron_says(r, PZ_ARG_GRANULARITY, "full") && !pz_megatron_has(r, PZ_ARG_SELECTIVE);
  bool selective = pz_megatron_has(r, PZ_ARG_SELECTIVE) ||
                   pz_megatron_says(r, PZ_ARG_GRANULARITY, "selective") ||
                   pz_megatron_has(r, PZ_ARG_EXPERTS_AGAIN);
  o->recompute = full ? PZ_RECOMPUTATION_FULL
                      : (selective ? PZ_RECOMPUTATION_SELECTIVE : PZ_RECOMPUTATION_NONE);
  if (full && !pz_megatron_has(r, PZ_ARG_METHOD))
    return pz_megatron_wrong(r, &r->g[PZ_ARG_GRANULARITY],
                             "with it --recompute-method uniform or block");
  if (full && pz_megatron_says(r, PZ_ARG_METHOD, "block")) {
    status = pz_megatron_need(r, PZ_ARG_AGAIN_LAYERS,
                              "recompute-num-layers (with --recompute-method block)");
    o->recompute_layers = pz_megatron_count(r, PZ_ARG_AGAIN_LAYERS, 0);
  } else if (full && pz_megatron_count(r, PZ_ARG_AGAIN_LAYERS, 1) > 1) {
    return pz_megatron_wrong(
        r, &r->g[PZ_ARG_AGAIN_LAYERS],
        "1; recomputing units of several layers (--recompute-method uniform) is not covered");
  }
  if (status == PZ_OK) status = read_modules(r);
  if (status == PZ_OK)
    status = pz_megatron_mark(r, PZ_PLAN_RECOMPUTE, PZ_ARG_SELECTIVE, PZ_ARG_GRANULARITY);
  if (status == PZ_OK && o->recompute_layers)
    status =
        pz_megatron_mark(r, PZ_PLAN_RECOMPUTE_LAYERS, PZ_ARG_AGAIN_LAYERS, PZ_ARG_AGAIN_LAYERS);
  return status;
}

/* ZeRO: the distributed optimizer is stage 1; FSDP divides what its strategy says. */
static enum pz_status read_sharding(struct pz_megatron_reader *r) {
  static const char *const strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params",
                                           NULL};
  struct pz_plan *o = &r->out->run.plan;
  enum pz_status status = pz_megatron_need_word(
      r, PZ_ARG_STRATEGY, strategies, "no_shard, optim, optim_grads or optim_grads_params");
  if (status != PZ_OK) return status;
  o->zero = pz_megatron_has(r, PZ_ARG_DISTRIBUTED);
  if (pz_megatron_has(r, PZ_ARG_FSDP)) {
    o->zero = 0;
    for (int i = 0; i < 4; i++)
      if (pz_megatron_says(r, PZ_ARG_STRATEGY, strategies[i])) o->zero = i;
  }
  if (pz_megatron_has(r, PZ_ARG_FSDP2)) o->zero = pz_megatron_has(r, PZ_ARG_FSDP2_KEEPS) ? 2 : 3;
  status = pz_megatron_mark(r, PZ_PLAN_ZERO,
                            pz_megatron_has(r, PZ_ARG_FSDP2) ? PZ_ARG_FSDP2 : PZ_ARG_FSDP,
                            PZ_ARG_DISTRIBUTED);
  int64_t copies = pz_megatron_count(r, PZ_ARG_INSTANCES, 1), dp = o->devices / (o->tp * o->pp);
  if (status != PZ_OK || copies == 1 || !o->zero) return status;
  if (dp % copies)
    return pz_megatron_wrong(r, &r->g[PZ_ARG_INSTANCES], "a number that divides the replicas");
  o->shard = dp / copies;
  return pz_megatron_mark(r, PZ_PLAN_SHARD, PZ_ARG_INSTANCES, PZ_ARG_INSTANCES);
}

/* What Megatron itself refuses about overlap. */
static enum pz_status check_overlap(struct pz_megatron_reader *r) {
  const struct pz_plan *o = &r->out->run.plan;
  if (pz_megatron_has(r, PZ_ARG_OVERLAP_PARAM) &&
      !(o->zero && pz_megatron_has(r, PZ_ARG_OVERLAP_GRAD)))
    return pz_megatron_wrong(r, &r->g[PZ_ARG_OVERLAP_PARAM],
                             "with it --overlap-grad-reduce and --use-distributed-optimizer");
  if (pz_megatron_has(r, PZ_ARG_OVERLAP_TP) && o->tp > 1 && !pz_megatron_has(r, PZ_ARG_SP))
    return pz_megatron_wrong(r, &r->g[PZ_ARG_OVERLAP_TP], "with it --sequence-parallel");
  return PZ_OK;
}

/* Transfers between stages overlap with chunks alone, and then unless told otherwise. */
static enum pz_status read_overlap(struct pz_megatron_reader *r) {
  struct pz_plan *o = &r->out->run.plan;
  r->out->p2p_off = pz_megatron_has(r, PZ_ARG_NO_OVERLAP_P2P);
  o->overlap = (pz_megatron_has(r, PZ_ARG_OVERLAP_GRAD) ? PZ_OVERLAP_GRAD : 0) |
               (pz_megatron_has(r, PZ_ARG_OVERLAP_PARAM) ? PZ_OVERLAP_PARAM : 0) |
               (pz_megatron_has(r, PZ_ARG_OVERLAP_TP) ? PZ_OVERLAP_TP : 0) |
               (pz_megatron_has(r, PZ_ARG_OVERLAP_EP) ? PZ_OVERLAP_EP : 0) |
               (o->vpp > 1 && !r->out->p2p_off ? PZ_OVERLAP_P2P : 0);
  o->grad_bytes = pz_megatron_has(r, PZ_ARG_GRAD_BF16) ? 2 : 4;
  enum pz_status status = check_overlap(r);
  if (status == PZ_OK)
    status = pz_megatron_mark(r, PZ_PLAN_OVERLAP,
                              pz_megatron_has(r, PZ_ARG_OVERLAP_TP) ? PZ_ARG_OVERLAP_TP
                                                                    : PZ_ARG_OVERLAP_PARAM,
                              PZ_ARG_OVERLAP_GRAD);
  return status == PZ_OK
             ? pz_megatron_mark(r, PZ_PLAN_GRAD_BYTES, PZ_ARG_GRAD_BF16, PZ_ARG_GRAD_BF16)
             : status;
}

static enum pz_status read_kernels(struct pz_megatron_reader *r) {
  static const char *const backends[] = {"auto", "flash", "fused", "unfused", "local", NULL};
  static const char *const kinds[] = {"local", "transformer_engine", NULL};
  static const char *const graphs[] = {"none", "local", "transformer_engine", NULL};
  struct pz_plan *o = &r->out->run.plan;
  enum pz_status status =
      pz_megatron_need_word(r, PZ_ARG_BACKEND, backends, "auto, flash, fused, unfused or local");
  if (status == PZ_OK)
    status = pz_megatron_need_word(r, PZ_ARG_IMPLEMENTATION, kinds, "local or transformer_engine");
  if (status == PZ_OK)
    status =
        pz_megatron_need_word(r, PZ_ARG_GRAPH_IMPL, graphs, "none, local or transformer_engine");
  if (status != PZ_OK) return status;
  bool plain =
      pz_megatron_says(r, PZ_ARG_BACKEND, "unfused") ||
      pz_megatron_says(r, PZ_ARG_BACKEND, "local") ||
      (pz_megatron_says(r, PZ_ARG_IMPLEMENTATION, "local") && !pz_megatron_has(r, PZ_ARG_FLASH));
  bool graph =
      pz_megatron_has(r, PZ_ARG_GRAPH) ||
      (pz_megatron_has(r, PZ_ARG_GRAPH_IMPL) && !pz_megatron_says(r, PZ_ARG_GRAPH_IMPL, "none"));
  o->attention = plain ? PZ_ATTENTION_STANDARD : PZ_ATTENTION_FLASH;
  o->attention_library = pz_megatron_says(r, PZ_ARG_BACKEND, "flash")
                             ? "fa2"
                             : (pz_megatron_says(r, PZ_ARG_BACKEND, "fused") ? "cudnn" : "");
  o->execution = graph ? PZ_EXECUTION_GRAPH : PZ_EXECUTION_EAGER;
  status =
      pz_megatron_mark(r, PZ_PLAN_ATTENTION, PZ_ARG_BACKEND,
                       pz_megatron_has(r, PZ_ARG_FLASH) ? PZ_ARG_FLASH : PZ_ARG_IMPLEMENTATION);
  if (status == PZ_OK && o->attention_library[0])
    status = pz_megatron_mark(r, PZ_PLAN_ATTENTION_LIBRARY, PZ_ARG_BACKEND, PZ_ARG_BACKEND);
  return status == PZ_OK ? pz_megatron_mark(r, PZ_PLAN_EXECUTION, PZ_ARG_GRAPH, PZ_ARG_GRAPH_IMPL)
                         : status;
}

static enum pz_status read_precision(struct pz_megatron_reader *r) {
  static const char *const formats[] = {"hybrid", "e4m3", NULL};
  static const char *const recipes[] = {"delayed", "tensorwise", NULL};
  bool fp8 = pz_megatron_has(r, PZ_ARG_FP8) || pz_megatron_has(r, PZ_ARG_FP8_FORMAT);
  r->out->run.plan.precision = fp8 ? PZ_PRECISION_FP8 : PZ_PRECISION_BF16;
  enum pz_status status = pz_megatron_need_word(r, PZ_ARG_FP8_FORMAT, formats, "hybrid or e4m3");
  if (status == PZ_OK && fp8)
    status = pz_megatron_need_word(r, PZ_ARG_FP8_RECIPE, recipes,
                                   "delayed or tensorwise; scales of blocks are not covered");
  return status == PZ_OK
             ? pz_megatron_mark(
                   r, PZ_PLAN_PRECISION,
                   fp8 ? (pz_megatron_has(r, PZ_ARG_FP8) ? PZ_ARG_FP8 : PZ_ARG_FP8_FORMAT)
                       : PZ_ARG_BF16,
                   PZ_ARG_FP16)
             : status;
}

static enum pz_status read_plan(struct pz_megatron_reader *r) {
  static const char *const forms[] = {"p2p", "a2a", NULL};
  struct pz_plan *o = &r->out->run.plan;
  *o = pz_plan_default();
  o->framework = pz_framework_find("megatron");
  if (!pz_megatron_has(r, PZ_ARG_BF16) && !pz_megatron_has(r, PZ_ARG_FP16))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: neither --bf16 nor --fp16: 32-bit training is not covered", r->name);
  o->tp = pz_megatron_count(r, PZ_ARG_TP, 1);
  o->cp = pz_megatron_count(r, PZ_ARG_CP, 1);
  o->cp_form = pz_megatron_says(r, PZ_ARG_CP_FORM, "a2a") ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
  o->sp = pz_megatron_has(r, PZ_ARG_SP) && o->tp > 1;
  enum pz_status status =
      pz_megatron_need_word(r, PZ_ARG_CP_FORM, forms, "p2p or a2a; others are not covered");
  if (status == PZ_OK) status = pz_megatron_mark(r, PZ_PLAN_TP, PZ_ARG_TP, PZ_ARG_TP);
  if (status == PZ_OK) status = pz_megatron_mark(r, PZ_PLAN_CP, PZ_ARG_CP, PZ_ARG_CP);
  if (status == PZ_OK) status = pz_megatron_mark(r, PZ_PLAN_SP, PZ_ARG_SP, PZ_ARG_SP);
  if (status == PZ_OK) status = read_devices(r);
  if (status == PZ_OK) status = read_batch(r);
  if (status == PZ_OK) status = read_stages(r);
  if (status == PZ_OK) status = read_recompute(r);
  if (status == PZ_OK) status = read_sharding(r);
  if (status == PZ_OK) status = read_overlap(r);
  if (status == PZ_OK) status = read_precision(r);
  if (status == PZ_OK) status = pz_megatron_read_experts(r);
  return status == PZ_OK ? read_kernels(r) : status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static enum pz_status read_all(struct pz_megatron_reader *r, const char *text, size_t bytes) {
  enum pz_status status =
      pz_shell_read(r->name, text, bytes, r->o->presets, r->arena, &r->text, r->err);
  if (status == PZ_OK) status = read_words(r);
  if (status == PZ_OK) status = pz_megatron_need(r, PZ_ARG_LAYERS, "num-layers");
  if (status == PZ_OK) status = read_plan(r);
  return status == PZ_OK ? pz_megatron_read_model(r) : status;
}

enum pz_status pz_megatron_read(const char *name, const char *text, size_t bytes,
                                const struct pz_megatron_options *o, struct pz_arena *arena,
                                struct pz_megatron_run *out, struct pz_error *err) {
  struct pz_megatron_run m = {.layers = 0};
  struct pz_megatron_reader *r = pz_arena_alloc(arena, 1, sizeof *r);
  if (!r) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  *r = (struct pz_megatron_reader){.name = name, .o = o, .arena = arena, .out = &m, .err = err};
  pz_vec_init(&r->ignored, arena, sizeof(const char *));
  pz_vec_init(&r->notes, arena, sizeof(const char *));
  enum pz_status status = read_all(r, text, bytes);
  if (status != PZ_OK) return status;
  m.run.from[PZ_PLAN_FRAMEWORK] = "Megatron's arguments";
  m.ignored = r->ignored.items;
  m.n_ignored = r->ignored.n;
  m.notes = r->notes.items;
  m.n_notes = r->notes.n;
  *out = m;
  return PZ_OK;
}
