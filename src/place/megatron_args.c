#include "place/megatron_args.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "place/shell_words.h"

/* ---- arguments that are read ---------------------------------------------------------------- */

enum value {
  LAYERS,
  HIDDEN,
  FFN,
  HEADS,
  KV_CHANNELS,
  GROUPED,
  GROUPS,
  SEQ,
  POSITIONS,
  POSITION_TYPE,
  ROTARY,
  SWIGLU,
  NORM,
  UNTIED,
  NO_BIAS,
  QKV_BIAS,
  HIDDEN_DROPOUT,
  ATTENTION_DROPOUT,
  VOCAB,
  PADDED_VOCAB,
  VOCAB_MULTIPLE,
  TOKENIZER,
  MBS,
  BATCH,
  RAMPUP,
  TP,
  SP,
  CP,
  PP,
  CHUNK_LAYERS,
  CHUNKS,
  FIRST_LAYERS,
  LAST_LAYERS,
  EMBEDDING_AS_LAYER,
  LOSS_AS_LAYER,
  SELECTIVE,
  GRANULARITY,
  METHOD,
  AGAIN_LAYERS,
  MODULES,
  DISTRIBUTED,
  INSTANCES,
  FSDP2,
  FSDP2_KEEPS,
  FSDP,
  STRATEGY,
  OVERLAP_GRAD,
  OVERLAP_PARAM,
  OVERLAP_TP,
  NO_OVERLAP_P2P,
  GRAD_BF16,
  BF16,
  FP16,
  FP8,
  FP8_FORMAT,
  FP8_RECIPE,
  FLASH,
  BACKEND,
  IMPLEMENTATION,
  GRAPH,
  GRAPH_IMPL,
  NODES,
  PROCESSES,
  BATCH_NODES,
  BATCH_GPUS,
  BATCH_TASKS,
  BATCH_GRES,
  VALUES
};

enum kind { FLAG, COUNT, REAL, WORD };

struct argument {
  const char *name;
  enum kind kind;
  enum value value;
};

/* clang-format off */
static const struct argument arguments[] = {
    {"num-layers", COUNT, LAYERS}, {"encoder-num-layers", COUNT, LAYERS}, {"hidden-size", COUNT, HIDDEN},
    {"ffn-hidden-size", COUNT, FFN}, {"num-attention-heads", COUNT, HEADS}, {"kv-channels", COUNT, KV_CHANNELS},
    {"group-query-attention", FLAG, GROUPED}, {"num-query-groups", COUNT, GROUPS},
    {"seq-length", COUNT, SEQ}, {"encoder-seq-length", COUNT, SEQ}, {"max-position-embeddings", COUNT, POSITIONS},
    {"position-embedding-type", WORD, POSITION_TYPE}, {"use-rotary-position-embeddings", FLAG, ROTARY},
    {"swiglu", FLAG, SWIGLU}, {"normalization", WORD, NORM}, {"untie-embeddings-and-output-weights", FLAG, UNTIED},
    {"disable-bias-linear", FLAG, NO_BIAS}, {"add-qkv-bias", FLAG, QKV_BIAS},
    {"hidden-dropout", REAL, HIDDEN_DROPOUT}, {"attention-dropout", REAL, ATTENTION_DROPOUT},
    {"vocab-size", COUNT, VOCAB}, {"padded-vocab-size", COUNT, PADDED_VOCAB},
    {"make-vocab-size-divisible-by", COUNT, VOCAB_MULTIPLE}, {"tokenizer-type", WORD, TOKENIZER},
    {"micro-batch-size", COUNT, MBS}, {"global-batch-size", COUNT, BATCH}, {"rampup-batch-size", WORD, RAMPUP},
    {"tensor-model-parallel-size", COUNT, TP}, {"sequence-parallel", FLAG, SP}, {"context-parallel-size", COUNT, CP},
    {"pipeline-model-parallel-size", COUNT, PP}, {"num-layers-per-virtual-pipeline-stage", COUNT, CHUNK_LAYERS},
    {"num-virtual-stages-per-pipeline-rank", COUNT, CHUNKS},
    {"decoder-first-pipeline-num-layers", COUNT, FIRST_LAYERS}, {"decoder-last-pipeline-num-layers", COUNT, LAST_LAYERS},
    {"account-for-embedding-in-pipeline-split", FLAG, EMBEDDING_AS_LAYER}, {"account-for-loss-in-pipeline-split", FLAG, LOSS_AS_LAYER},
    {"recompute-activations", FLAG, SELECTIVE}, {"recompute-granularity", WORD, GRANULARITY},
    {"recompute-method", WORD, METHOD}, {"recompute-num-layers", COUNT, AGAIN_LAYERS}, {"recompute-modules", WORD, MODULES},
    {"use-distributed-optimizer", FLAG, DISTRIBUTED}, {"num-distributed-optimizer-instances", COUNT, INSTANCES},
    {"use-torch-fsdp2", FLAG, FSDP2}, {"torch-fsdp2-no-reshard-after-forward", FLAG, FSDP2_KEEPS},
    {"use-megatron-fsdp", FLAG, FSDP}, {"use-custom-fsdp", FLAG, FSDP}, {"data-parallel-sharding-strategy", WORD, STRATEGY},
    {"overlap-grad-reduce", FLAG, OVERLAP_GRAD}, {"overlap-param-gather", FLAG, OVERLAP_PARAM},
    {"tp-comm-overlap", FLAG, OVERLAP_TP}, {"no-overlap-p2p-communication", FLAG, NO_OVERLAP_P2P},
    {"grad-reduce-in-bf16", FLAG, GRAD_BF16}, {"bf16", FLAG, BF16}, {"fp16", FLAG, FP16},
    {"fp8-format", WORD, FP8_FORMAT}, {"fp8-hybrid", FLAG, FP8}, {"fp8-e4m3", FLAG, FP8}, {"fp8-recipe", WORD, FP8_RECIPE},
    {"use-flash-attn", FLAG, FLASH}, {"attention-backend", WORD, BACKEND}, {"transformer-impl", WORD, IMPLEMENTATION},
    {"enable-cuda-graph", FLAG, GRAPH}, {"external-cuda-graph", FLAG, GRAPH}, {"cuda-graph-impl", WORD, GRAPH_IMPL},
    {"nnodes", WORD, NODES}, {"nproc-per-node", WORD, PROCESSES},
};

/* Of the comments of a Slurm script. */
static const struct argument batch_arguments[] = {
    {"nodes", WORD, BATCH_NODES}, {"gpus-per-node", WORD, BATCH_GPUS}, {"ntasks-per-node", WORD, BATCH_TASKS}, {"gres", WORD, BATCH_GRES},
};

/* Arguments that shape the step and are not covered: by name, or by the beginning of the name where it ends with a star. */
static const struct refused {
  const char *name, *what;
  const char *neutral; /* a value with which it does nothing; NULL: none */
} refusals[] = {
    {"num-experts", "experts", "0"}, {"expert-model-parallel-size", "experts", "1"}, {"expert-tensor-parallel-size", "experts", "1"},
    {"expert*", "experts", NULL}, {"moe-*", "experts", NULL},
    {"hierarchical-context-parallel-sizes", "context parallelism", NULL},
    {"fp8*", "this choice of 8-bit precision", NULL}, {"fp4*", "4-bit precision", NULL}, 
    {"multi-latent-attention", "multi-latent attention", NULL}, {"mtp-num-layers", "multi-token prediction", NULL},
    {"window-size", "attention over a window", NULL}, {"qk-layernorm", "norms of query and key", NULL}, {"qk-l2-norm", "norms of query and key", NULL},
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
    "use-cpu-initialization", "no-initialization", "cp-comm-type", "ddp-*", "tp-comm-bootstrap-backend", "tp-comm-overlap-cfg",
    "attention-softmax-in-fp32", "empty-unused-memory-level", "enable-ft-package", "enable-one-logger", "inference-*", "fp8-margin", "fp8-interval", "fp8-amax-*", "no-fp8-wgrad",
    /* of launchers */
    "ntasks*", "nodes", "gres*", "gpus*", "cpus-per-task", "container-*", "no-container-*", "export*", "job-name", "output", "error", "label", "mpi",
    "time", "partition", "account", "kill-on-bad-exit", "hostfile", "hostname", "help", "module", "no-python",
};
/* clang-format on */

/* ---- reading -------------------------------------------------------------------------------- */

/* What was given for a value. */
struct given {
  const char *name, *text, *unknown;
  uint32_t line;
  int64_t n;
  double real;
  bool set;
};

struct reader {
  const char *name;
  const struct pz_megatron_options *o;
  struct pz_arena *arena;
  struct pz_shell_text text;
  struct given g[VALUES];
  struct pz_vec ignored, notes; /* const char * */
  struct pz_megatron_run *out;
  struct pz_error *err;
};

static enum pz_status no_memory(struct reader *r) {
  return pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
}

static enum pz_status wrong(struct reader *r, const struct given *g, const char *accepted) {
  enum pz_status status =
      pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: --%s %.60s; accepted: %s", r->name, g->line, g->name,
              g->text ? g->text : "without a value", accepted);
  pz_error_at(r->err, r->name, (int)g->line, 0);
  return status;
}

static enum pz_status add_text(struct reader *r, struct pz_vec *list, const char *text) {
  return text && pz_vec_push(list, &text) ? PZ_OK : no_memory(r);
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
static const char *value_at(const struct reader *r, uint32_t i, const char *equals,
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

static enum pz_status read_number(struct reader *r, struct given *g, enum kind kind) {
  char *end = NULL;
  if (g->unknown || !g->text)
    return g->unknown
               ? pz_fail(r->err, PZ_BAD_INPUT,
                         "%s:%u: --%s is '%.60s', and %s has no value in the text; accepted: --set "
                         "NAME=VALUE, or a number in its place",
                         r->name, g->line, g->name, g->text, g->unknown)
               : wrong(r, g, kind == COUNT ? "an integer from 1 to 2^26" : "a number from 0 to 1");
  if (kind == REAL) {
    g->real = strtod(g->text, &end);
    if (!*g->text || *end || !(g->real >= 0 && g->real < 1))
      return wrong(r, g, "a number from 0 to below 1");
    return PZ_OK;
  }
  size_t digits = strspn(g->text, "0123456789");
  if (!digits || g->text[digits] || digits > 9) return wrong(r, g, "an integer from 1 to 2^26");
  g->n = strtoll(g->text, NULL, 10);
  return g->n >= 1 && g->n <= 1 << 26 ? PZ_OK : wrong(r, g, "an integer from 1 to 2^26");
}

/* An argument that was given before with another value: the last counts, as argparse has it. */
static enum pz_status note_twice(struct reader *r, const struct given *old,
                                 const struct given *now) {
  if (!old->set || !old->text || !now->text || strcmp(old->text, now->text) == 0) return PZ_OK;
  char *text =
      pz_arena_printf(r->arena, "--%s is %.40s in line %u and %.40s in line %u: the last counts",
                      now->name, old->text, old->line, now->text, now->line);
  return r->notes.n < 20 ? add_text(r, &r->notes, pz_text_plain(text)) : PZ_OK;
}

static enum pz_status take(struct reader *r, const struct argument *a, uint32_t line,
                           const char *text, const char *unknown) {
  struct given *g = &r->g[a->value];
  struct given now = {.name = a->name, .line = line, .set = true};
  if (a->kind != FLAG) {
    now.text = text;
    now.unknown = unknown;
    if (!text) return wrong(r, &now, "a value behind it");
  }
  enum pz_status status = note_twice(r, g, &now);
  *g = now;
  if (status == PZ_OK && (a->kind == COUNT || a->kind == REAL)) status = read_number(r, g, a->kind);
  return status;
}

static enum pz_status refuse(struct reader *r, const struct refused *x, const char *name,
                             uint32_t line, const char *value) {
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

static enum pz_status ignore(struct reader *r, const char *name) {
  for (uint32_t i = 0; i < r->ignored.n; i++)
    if (strcmp(*pz_vec_at(&r->ignored, const char *, i), name) == 0) return PZ_OK;
  if (r->ignored.n >= 1000) return PZ_OK;
  return add_text(r, &r->ignored, name);
}

/* Does the caller want an argument left out, though it shapes the step? */
static bool is_left_out(const struct reader *r, const char *name) {
  for (const char *const *i = r->o->ignore; i && *i; i++)
    if (matches(strncmp(*i, "--", 2) == 0 ? *i + 2 : *i, name)) return true;
  return false;
}

/* The argument at word i. */
static enum pz_status read_argument(struct reader *r, uint32_t i) {
  const struct pz_shell_word *w = pz_vec_at(&r->text.words, struct pz_shell_word, i);
  const char *equals = strchr(w->text, '='), *unknown;
  size_t n = equals ? (size_t)(equals - w->text) : strlen(w->text);
  char *name = pz_arena_printf(r->arena, "%.*s", n < 80 ? (int)n - 2 : 78, w->text + 2);
  if (!name) return no_memory(r);
  pz_text_plain(name);
  const char *value = value_at(r, i, equals, &unknown);
  size_t most = sizeof arguments / sizeof *arguments;
  const struct argument *a =
      w->batch ? find(batch_arguments, 4, name) : find(arguments, most, name);
  if (a) return take(r, a, w->line, value, unknown);
  if (w->batch || is_silent(name)) return PZ_OK;
  const struct refused *x = find_refused(name);
  if (x && is_left_out(r, name))
    return add_text(r, &r->notes, pz_arena_printf(r->arena, "--%s is left out: %s", name, x->what));
  return x ? refuse(r, x, name, w->line, value) : ignore(r, name);
}

/* -N 4 of a Slurm comment. */
static enum pz_status read_letter(struct reader *r, uint32_t i) {
  static const struct argument nodes = {"nodes", WORD, BATCH_NODES};
  const struct pz_shell_word *w = pz_vec_at(&r->text.words, struct pz_shell_word, i);
  const char *unknown, *value = value_at(r, i, NULL, &unknown);
  return w->batch && strcmp(w->text, "-N") == 0 ? take(r, &nodes, w->line, value, unknown) : PZ_OK;
}

static enum pz_status read_words(struct reader *r) {
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
      status = add_text(r, &r->notes,
                        pz_arena_printf(r->arena,
                                        "variable %.40s has other values in lines %u and %u: the "
                                        "last before each use counts",
                                        v->name, v->other_line, v->line));
  }
  return status;
}

/* ---- the plan ------------------------------------------------------------------------------- */

static bool is_set(const struct reader *r, enum value v) { return r->g[v].set; }

static int64_t count_or(const struct reader *r, enum value v, int64_t absent) {
  return is_set(r, v) ? r->g[v].n : absent;
}

static bool says(const struct reader *r, enum value v, const char *word) {
  return is_set(r, v) && strcmp(r->g[v].text, word) == 0;
}

static enum pz_status need(struct reader *r, enum value v, const char *name) {
  if (is_set(r, v)) return PZ_OK;
  return pz_fail(r->err, PZ_BAD_INPUT, "%s: no --%s among the arguments", r->name, name);
}

/* A word among some; NULL in the list ends it. */
static enum pz_status need_word(struct reader *r, enum value v, const char *const *list,
                                const char *accepted) {
  if (!is_set(r, v)) return PZ_OK;
  for (; *list; list++)
    if (strcmp(r->g[v].text, *list) == 0) return PZ_OK;
  return wrong(r, &r->g[v], accepted);
}

/* Where a field comes from, from the first of two arguments that was given. */
static enum pz_status mark(struct reader *r, enum pz_run_field f, enum value a, enum value b) {
  const struct given *g = is_set(r, a) ? &r->g[a] : &r->g[b];
  if (!g->set) return PZ_OK;
  r->out->run.from[f] = pz_arena_printf(r->arena, "--%s, line %u", g->name, g->line);
  return r->out->run.from[f] ? PZ_OK : no_memory(r);
}

/* Nodes, or processes of one: a number, also where a script asks the batch system for its own. */
static enum pz_status launch_count(struct reader *r, enum value v, int64_t batch, int64_t absent,
                                   int64_t *out) {
  struct given *g = &r->g[v];
  *out = batch ? batch : absent;
  if (!g->set) return PZ_OK;
  bool asks = g->unknown && (strstr(g->unknown, "SLURM_") || strstr(g->unknown, "NNODES"));
  if (asks && batch) return PZ_OK;
  enum pz_status status = read_number(r, g, COUNT);
  if (status == PZ_OK) *out = g->n;
  return status;
}

/* gpu:8, gpu:h100:8 or 8 of Slurm's comments; 0: not told. */
static int64_t batch_count(const struct reader *r, enum value v) {
  if (!is_set(r, v) || r->g[v].unknown) return 0;
  const char *text = r->g[v].text, *colon = strrchr(text, ':');
  long n = strtol(colon ? colon + 1 : text, NULL, 10);
  return n > 0 && n <= 1 << 20 ? n : 0;
}

static enum pz_status read_devices(struct reader *r) {
  struct pz_training_options *o = &r->out->run.plan;
  int64_t nodes, processes, gpus = batch_count(r, BATCH_GPUS);
  if (r->o->devices) {
    o->devices = r->o->devices;
    r->out->run.from[PZ_RUN_DEVICES] = "--devices";
    return PZ_OK;
  }
  if (!gpus) gpus = batch_count(r, BATCH_GRES);
  if (!gpus) gpus = batch_count(r, BATCH_TASKS);
  enum pz_status status = launch_count(r, NODES, batch_count(r, BATCH_NODES), 1, &nodes);
  if (status == PZ_OK) status = launch_count(r, PROCESSES, gpus, 0, &processes);
  if (status != PZ_OK) return status;
  if (!processes || (double)nodes * (double)processes > 1 << 24)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: the number of devices is not stated; accepted: --devices N, or torchrun's "
                   "--nnodes and --nproc_per_node (at most 2^24 together)",
                   r->name);
  o->devices = nodes * processes;
  r->out->run.from[PZ_RUN_DEVICES] =
      pz_arena_printf(r->arena, "%" PRId64 " x %" PRId64 " processes", nodes, processes);
  return r->out->run.from[PZ_RUN_DEVICES] ? PZ_OK : no_memory(r);
}

static enum pz_status read_batch(struct reader *r) {
  struct pz_training_options *o = &r->out->run.plan;
  enum pz_status status = need(r, MBS, "micro-batch-size");
  if (status == PZ_OK) status = need(r, SEQ, "seq-length");
  o->mbs = count_or(r, MBS, 1);
  o->batch = count_or(r, BATCH, 0);
  o->seq = count_or(r, SEQ, 0);
  if (status == PZ_OK) status = mark(r, PZ_RUN_MBS, MBS, MBS);
  if (status == PZ_OK) status = mark(r, PZ_RUN_BATCH, BATCH, BATCH);
  if (status == PZ_OK) status = mark(r, PZ_RUN_SEQ, SEQ, SEQ);
  if (status == PZ_OK && is_set(r, RAMPUP))
    status = add_text(r, &r->notes,
                      "--rampup-batch-size: the prediction is of the full global batch size");
  return status;
}

/* Layers that the division into stages counts: embedding and loss may stand for one each. */
static int64_t counted_layers(const struct reader *r) {
  return count_or(r, LAYERS, 0) + is_set(r, EMBEDDING_AS_LAYER) + is_set(r, LOSS_AS_LAYER);
}

/* Layers of the first and the last stage where they differ from the others. */
static enum pz_status read_ends(struct reader *r) {
  struct pz_run_plan *run = &r->out->run;
  int64_t even = counted_layers(r) / (run->plan.pp * run->plan.vpp);
  bool first = is_set(r, FIRST_LAYERS), last = is_set(r, LAST_LAYERS);
  if ((first || last) && run->plan.vpp > 1)
    return wrong(r, &r->g[first ? FIRST_LAYERS : LAST_LAYERS], "stages without chunks");
  if (run->plan.pp == 1) return PZ_OK;
  if (first || last) {
    int64_t ends = first + last, layers = count_or(r, LAYERS, 0);
    int64_t rest = layers - count_or(r, FIRST_LAYERS, 0) - count_or(r, LAST_LAYERS, 0);
    int64_t others = run->plan.pp - ends;
    if (rest < 0 || (others ? rest % others : rest != 0))
      return wrong(r, &r->g[first ? FIRST_LAYERS : LAST_LAYERS],
                   "as many as leave the other stages whole layers");
    int64_t middle = others ? rest / others : 0;
    run->plan.first_layers = count_or(r, FIRST_LAYERS, middle);
    run->plan.last_layers = count_or(r, LAST_LAYERS, middle);
  } else if (is_set(r, EMBEDDING_AS_LAYER) || is_set(r, LOSS_AS_LAYER)) {
    r->out->ends_as_layers = true;
    run->plan.first_layers = even - is_set(r, EMBEDDING_AS_LAYER);
    run->plan.last_layers = even - is_set(r, LOSS_AS_LAYER);
  }
  enum pz_status status = mark(r, PZ_RUN_FIRST_LAYERS, FIRST_LAYERS, EMBEDDING_AS_LAYER);
  return status == PZ_OK ? mark(r, PZ_RUN_LAST_LAYERS, LAST_LAYERS, LOSS_AS_LAYER) : status;
}

static enum pz_status read_stages(struct reader *r) {
  struct pz_training_options *o = &r->out->run.plan;
  int64_t layers = counted_layers(r);
  bool uneven = is_set(r, FIRST_LAYERS) || is_set(r, LAST_LAYERS);
  o->pp = count_or(r, PP, 1);
  o->vpp = count_or(r, CHUNKS, 1);
  r->out->chunks_by_rank = is_set(r, CHUNKS);
  if (is_set(r, CHUNK_LAYERS) && is_set(r, CHUNKS))
    return wrong(r, &r->g[CHUNKS], "it or --num-layers-per-virtual-pipeline-stage, not both");
  if (!uneven && layers % o->pp)
    return wrong(r, &r->g[PP],
                 "a number that divides the layers, or --decoder-first-pipeline-num-"
                 "layers and --decoder-last-pipeline-num-layers");
  if (is_set(r, CHUNK_LAYERS)) {
    if (layers / o->pp % r->g[CHUNK_LAYERS].n || layers / o->pp < r->g[CHUNK_LAYERS].n)
      return wrong(r, &r->g[CHUNK_LAYERS], "a number that divides the layers of a stage");
    o->vpp = layers / o->pp / r->g[CHUNK_LAYERS].n;
  } else if (!uneven && layers / o->pp % o->vpp) {
    return wrong(r, &r->g[CHUNKS], "a number that divides the layers of a stage");
  }
  if (o->pp == 1) o->vpp = 1;
  enum pz_status status = mark(r, PZ_RUN_PP, PP, PP);
  if (status == PZ_OK) status = mark(r, PZ_RUN_VPP, CHUNK_LAYERS, CHUNKS);
  return status == PZ_OK ? read_ends(r) : status;
}

static enum pz_status read_recompute(struct reader *r) {
  static const char *const granularities[] = {"full", "selective", NULL};
  static const char *const methods[] = {"uniform", "block", NULL};
  static const char *const modules[] = {"core_attn", NULL};
  struct pz_training_options *o = &r->out->run.plan;
  enum pz_status status = need_word(r, GRANULARITY, granularities, "full or selective");
  if (status == PZ_OK) status = need_word(r, METHOD, methods, "uniform or block");
  if (status == PZ_OK)
    status = need_word(r, MODULES, modules, "core_attn; recomputing other modules is not covered");
  if (status != PZ_OK) return status;
  bool full = says(r, GRANULARITY, "full") && !is_set(r, SELECTIVE);
  bool selective = is_set(r, SELECTIVE) || says(r, GRANULARITY, "selective");
  o->recompute = full ? PZ_RECOMPUTATION_FULL
                      : (selective ? PZ_RECOMPUTATION_SELECTIVE : PZ_RECOMPUTATION_NONE);
  if (full && !is_set(r, METHOD))
    return wrong(r, &r->g[GRANULARITY], "with it --recompute-method uniform or block");
  if (full && says(r, METHOD, "block")) {
    status = need(r, AGAIN_LAYERS, "recompute-num-layers (with --recompute-method block)");
    o->recompute_layers = count_or(r, AGAIN_LAYERS, 0);
  } else if (full && count_or(r, AGAIN_LAYERS, 1) > 1) {
    return wrong(
        r, &r->g[AGAIN_LAYERS],
        "1; recomputing units of several layers (--recompute-method uniform) is not covered");
  }
  if (status == PZ_OK) status = mark(r, PZ_RUN_RECOMPUTE, SELECTIVE, GRANULARITY);
  if (status == PZ_OK && o->recompute_layers)
    status = mark(r, PZ_RUN_RECOMPUTE_LAYERS, AGAIN_LAYERS, AGAIN_LAYERS);
  return status;
}

/* ZeRO: the distributed optimizer is stage 1; FSDP divides what its strategy says. */
static enum pz_status read_sharding(struct reader *r) {
  static const char *const strategies[] = {"no_shard", "optim", "optim_grads", "optim_grads_params",
                                           NULL};
  struct pz_training_options *o = &r->out->run.plan;
  enum pz_status status =
      need_word(r, STRATEGY, strategies, "no_shard, optim, optim_grads or optim_grads_params");
  if (status != PZ_OK) return status;
  o->zero = is_set(r, DISTRIBUTED);
  if (is_set(r, FSDP)) {
    o->zero = 0;
    for (int i = 0; i < 4; i++)
      if (says(r, STRATEGY, strategies[i])) o->zero = i;
  }
  if (is_set(r, FSDP2)) o->zero = is_set(r, FSDP2_KEEPS) ? 2 : 3;
  status = mark(r, PZ_RUN_ZERO, is_set(r, FSDP2) ? FSDP2 : FSDP, DISTRIBUTED);
  int64_t copies = count_or(r, INSTANCES, 1), dp = o->devices / (o->tp * o->pp);
  if (status != PZ_OK || copies == 1 || !o->zero) return status;
  if (dp % copies) return wrong(r, &r->g[INSTANCES], "a number that divides the replicas");
  o->shard = dp / copies;
  return mark(r, PZ_RUN_SHARD, INSTANCES, INSTANCES);
}

/* What Megatron itself refuses about overlap. */
static enum pz_status check_overlap(struct reader *r) {
  const struct pz_training_options *o = &r->out->run.plan;
  if (is_set(r, OVERLAP_PARAM) && !(o->zero && is_set(r, OVERLAP_GRAD)))
    return wrong(r, &r->g[OVERLAP_PARAM],
                 "with it --overlap-grad-reduce and --use-distributed-optimizer");
  if (is_set(r, OVERLAP_TP) && o->tp > 1 && !is_set(r, SP))
    return wrong(r, &r->g[OVERLAP_TP], "with it --sequence-parallel");
  return PZ_OK;
}

/* Transfers between stages overlap with chunks alone, and then unless told otherwise. */
static enum pz_status read_overlap(struct reader *r) {
  struct pz_training_options *o = &r->out->run.plan;
  r->out->p2p_off = is_set(r, NO_OVERLAP_P2P);
  o->overlap = (is_set(r, OVERLAP_GRAD) ? PZ_OVERLAP_GRAD : 0) |
               (is_set(r, OVERLAP_PARAM) ? PZ_OVERLAP_PARAM : 0) |
               (is_set(r, OVERLAP_TP) ? PZ_OVERLAP_TP : 0) |
               (o->vpp > 1 && !r->out->p2p_off ? PZ_OVERLAP_P2P : 0);
  o->grad_bytes = is_set(r, GRAD_BF16) ? 2 : 4;
  enum pz_status status = check_overlap(r);
  if (status == PZ_OK)
    status =
        mark(r, PZ_RUN_OVERLAP, is_set(r, OVERLAP_TP) ? OVERLAP_TP : OVERLAP_PARAM, OVERLAP_GRAD);
  return status == PZ_OK ? mark(r, PZ_RUN_GRAD_BYTES, GRAD_BF16, GRAD_BF16) : status;
}

static enum pz_status read_kernels(struct reader *r) {
  static const char *const backends[] = {"auto", "flash", "fused", "unfused", "local", NULL};
  static const char *const kinds[] = {"local", "transformer_engine", NULL};
  static const char *const graphs[] = {"none", "local", "transformer_engine", NULL};
  struct pz_training_options *o = &r->out->run.plan;
  enum pz_status status = need_word(r, BACKEND, backends, "auto, flash, fused, unfused or local");
  if (status == PZ_OK) status = need_word(r, IMPLEMENTATION, kinds, "local or transformer_engine");
  if (status == PZ_OK)
    status = need_word(r, GRAPH_IMPL, graphs, "none, local or transformer_engine");
  if (status != PZ_OK) return status;
  bool plain = says(r, BACKEND, "unfused") || says(r, BACKEND, "local") ||
               (says(r, IMPLEMENTATION, "local") && !is_set(r, FLASH));
  bool graph = is_set(r, GRAPH) || (is_set(r, GRAPH_IMPL) && !says(r, GRAPH_IMPL, "none"));
  o->attention = plain ? PZ_ATTENTION_STANDARD : PZ_ATTENTION_FLASH;
  o->attention_library =
      says(r, BACKEND, "flash") ? "fa2" : (says(r, BACKEND, "fused") ? "cudnn" : "");
  o->execution = graph ? PZ_EXECUTION_GRAPH : PZ_EXECUTION_EAGER;
  status = mark(r, PZ_RUN_ATTENTION, BACKEND, is_set(r, FLASH) ? FLASH : IMPLEMENTATION);
  if (status == PZ_OK && o->attention_library[0])
    status = mark(r, PZ_RUN_ATTENTION_LIBRARY, BACKEND, BACKEND);
  return status == PZ_OK ? mark(r, PZ_RUN_EXECUTION, GRAPH, GRAPH_IMPL) : status;
}

static enum pz_status read_precision(struct reader *r) {
  static const char *const formats[] = {"hybrid", "e4m3", NULL};
  static const char *const recipes[] = {"delayed", "tensorwise", NULL};
  bool fp8 = is_set(r, FP8) || is_set(r, FP8_FORMAT);
  r->out->run.plan.precision = fp8 ? PZ_PRECISION_FP8 : PZ_PRECISION_BF16;
  enum pz_status status = need_word(r, FP8_FORMAT, formats, "hybrid or e4m3");
  if (status == PZ_OK && fp8)
    status = need_word(r, FP8_RECIPE, recipes,
                       "delayed or tensorwise; scales of blocks are not covered");
  return status == PZ_OK
             ? mark(r, PZ_RUN_PRECISION, fp8 ? (is_set(r, FP8) ? FP8 : FP8_FORMAT) : BF16, FP16)
             : status;
}

static enum pz_status read_plan(struct reader *r) {
  struct pz_training_options *o = &r->out->run.plan;
  *o = pz_training_options_default();
  if (!is_set(r, BF16) && !is_set(r, FP16))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: neither --bf16 nor --fp16: 32-bit training is not covered", r->name);
  o->tp = count_or(r, TP, 1);
  o->cp = count_or(r, CP, 1);
  o->sequence_parallel = is_set(r, SP) && o->tp > 1;
  enum pz_status status = mark(r, PZ_RUN_TP, TP, TP);
  if (status == PZ_OK) status = mark(r, PZ_RUN_CP, CP, CP);
  if (status == PZ_OK) status = mark(r, PZ_RUN_SP, SP, SP);
  if (status == PZ_OK) status = read_devices(r);
  if (status == PZ_OK) status = read_batch(r);
  if (status == PZ_OK) status = read_stages(r);
  if (status == PZ_OK) status = read_recompute(r);
  if (status == PZ_OK) status = read_sharding(r);
  if (status == PZ_OK) status = read_overlap(r);
  if (status == PZ_OK) status = read_precision(r);
  return status == PZ_OK ? read_kernels(r) : status;
}

/* ---- the model ------------------------------------------------------------------------------ */

struct shape {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, positions;
  bool gated, rotary, tied, biases, qkv_bias;
  double hidden_dropout, attention_dropout;
};

/* Vocabularies that a tokenizer's name fixes. */
static int64_t tokenizer_vocab(const struct reader *r) {
  if (says(r, TOKENIZER, "GPT2BPETokenizer")) return 50257;
  return says(r, TOKENIZER, "Llama2Tokenizer") ? 32000 : 0;
}

/* Padded as Megatron does, so that each device has a multiple of 128 rows. */
static enum pz_status read_vocab(struct reader *r, int64_t *out) {
  int64_t unit = count_or(r, VOCAB_MULTIPLE, 128) * r->out->run.plan.tp;
  int64_t vocab = r->o->vocab ? r->o->vocab : count_or(r, VOCAB, tokenizer_vocab(r));
  if (!r->o->vocab && is_set(r, PADDED_VOCAB)) return *out = r->g[PADDED_VOCAB].n, PZ_OK;
  if (!vocab)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: the size of the vocabulary is not stated; accepted: --vocab N, or "
                   "--vocab-size or --padded-vocab-size among the arguments",
                   r->name);
  *out = pz_ceil_div(vocab, unit) * unit;
  return PZ_OK;
}

static enum pz_status check_shape(struct reader *r) {
  static const char *const norms[] = {"LayerNorm", "RMSNorm", NULL};
  static const char *const positions[] = {"learned_absolute", "rope", NULL};
  bool gated = is_set(r, SWIGLU), rms = says(r, NORM, "RMSNorm");
  bool rotary = says(r, POSITION_TYPE, "rope") || is_set(r, ROTARY);
  enum pz_status status = need_word(r, NORM, norms, "LayerNorm or RMSNorm");
  if (status == PZ_OK) status = need_word(r, POSITION_TYPE, positions, "learned_absolute or rope");
  if (status != PZ_OK) return status;
  if (gated != rms || (gated && !rotary))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: a model with %s, %s and %s is not covered; accepted: GPT (gelu, LayerNorm) "
                   "or Llama (--swiglu, --normalization RMSNorm, --position-embedding-type rope)",
                   r->name, gated ? "swiglu" : "gelu", rms ? "RMSNorm" : "LayerNorm",
                   rotary ? "rotary positions" : "learned positions");
  if (!gated && is_set(r, GROUPED) && r->g[GROUPS].n != r->g[HEADS].n)
    return pz_fail(
        r->err, PZ_BAD_INPUT,
        "%s:%u: --group-query-attention with gelu is not covered; accepted: with --swiglu", r->name,
        r->g[GROUPED].line);
  return PZ_OK;
}

static enum pz_status read_shape(struct reader *r, struct shape *x) {
  enum pz_status status = need(r, LAYERS, "num-layers");
  if (status == PZ_OK) status = need(r, HIDDEN, "hidden-size");
  if (status == PZ_OK) status = need(r, HEADS, "num-attention-heads");
  if (status == PZ_OK) status = check_shape(r);
  if (status != PZ_OK) return status;
  bool gated = is_set(r, SWIGLU);
  x->layers = r->g[LAYERS].n;
  x->hidden = r->g[HIDDEN].n;
  x->heads = r->g[HEADS].n;
  if (!is_set(r, KV_CHANNELS) && x->hidden % x->heads)
    return wrong(r, &r->g[HEADS], "a number that divides --hidden-size, or --kv-channels");
  x->head_dim = count_or(r, KV_CHANNELS, x->hidden / x->heads);
  x->kv_heads = is_set(r, GROUPED) ? count_or(r, GROUPS, 1) : x->heads;
  x->ffn = count_or(r, FFN, gated ? x->hidden * 8 / 3 / 64 * 64 : 4 * x->hidden);
  x->positions = count_or(r, POSITIONS, count_or(r, SEQ, 0));
  x->gated = gated;
  x->rotary = says(r, POSITION_TYPE, "rope") || is_set(r, ROTARY);
  x->tied = !is_set(r, UNTIED);
  x->biases = !is_set(r, NO_BIAS);
  x->qkv_bias = is_set(r, QKV_BIAS);
  x->hidden_dropout = is_set(r, HIDDEN_DROPOUT) ? r->g[HIDDEN_DROPOUT].real : 0.1;
  x->attention_dropout = is_set(r, ATTENTION_DROPOUT) ? r->g[ATTENTION_DROPOUT].real : 0.1;
  if (!gated && x->head_dim * x->heads != x->hidden)
    return wrong(r, &r->g[KV_CHANNELS], "hidden-size / num-attention-heads, or with --swiglu");
  return read_vocab(r, &x->vocab);
}

/* The model as a configuration: Llama's shape (Qwen2's with a bias on query, key and value alone), GPT-2's, or with
 * rotary positions GPT-NeoX's without its parallel residual. */
static const char *config_text(struct pz_arena *arena, const struct shape *x) {
  bool qkv_only = x->qkv_bias && !x->biases;
  const char *family = x->gated ? (qkv_only ? "qwen2" : "llama") : "gpt_neox";
  if (!x->gated && !x->rotary)
    return pz_arena_printf(
        arena,
        "{\"model_type\":\"gpt2\",\"n_embd\":%" PRId64 ",\"n_layer\":%" PRId64
        ",\"n_head\":%" PRId64 ",\"n_inner\":%" PRId64 ",\"vocab_size\":%" PRId64
        ",\"n_positions\":%" PRId64
        ",\"resid_pdrop\":%g,\"embd_pdrop\":%g,\"attn_pdrop\":%g,\"tie_word_embeddings\":%s}",
        x->hidden, x->layers, x->heads, x->ffn, x->vocab, x->positions, x->hidden_dropout,
        x->hidden_dropout, x->attention_dropout, x->tied ? "true" : "false");
  char *common = pz_arena_printf(
      arena,
      "\"model_type\":\"%s\",\"hidden_size\":%" PRId64 ",\"num_hidden_layers\":%" PRId64
      ",\"num_attention_heads\":%" PRId64 ",\"intermediate_size\":%" PRId64
      ",\"vocab_size\":%" PRId64 ",\"max_position_embeddings\":%" PRId64
      ",\"attention_dropout\":%g,\"tie_word_embeddings\":%s",
      family, x->hidden, x->layers, x->heads, x->ffn, x->vocab, x->positions, x->attention_dropout,
      x->tied ? "true" : "false");
  if (!common) return NULL;
  if (!x->gated)
    return pz_arena_printf(arena,
                           "{%s,\"hidden_act\":\"gelu\",\"hidden_dropout\":%g,\"rotary_pct\":1.0,"
                           "\"use_parallel_residual\":false}",
                           common, x->hidden_dropout);
  const char *bias = x->biases ? "true" : "false";
  return pz_arena_printf(arena,
                         "{%s,\"hidden_act\":\"silu\",\"num_key_value_heads\":%" PRId64
                         ",\"head_dim\":%" PRId64 "%s%s%s%s}",
                         common, x->kv_heads, x->head_dim,
                         qkv_only ? "" : ",\"attention_bias\":", qkv_only ? "" : bias,
                         qkv_only ? "" : ",\"mlp_bias\":", qkv_only ? "" : bias);
}

static enum pz_status read_model(struct reader *r) {
  struct shape x = {.layers = 0};
  struct pz_run_plan *run = &r->out->run;
  enum pz_status status = read_shape(r, &x);
  if (status != PZ_OK) return status;
  run->model = pz_arena_printf(r->arena, "%s %" PRId64 " x %" PRId64, x.gated ? "Llama" : "GPT",
                               x.layers, x.hidden);
  run->config = config_text(r->arena, &x);
  if (!run->model || !run->config) return no_memory(r);
  r->out->layers = x.layers;
  r->out->vocab = x.vocab;
  if (x.gated && x.hidden_dropout > 0)
    status = add_text(r, &r->notes,
                      "dropout of hidden states is not counted for Llama's shape (--hidden-dropout "
                      "0 turns it off; Megatron's default is 0.1)");
  return status == PZ_OK ? mark(r, PZ_RUN_MODEL, LAYERS, LAYERS) : status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static enum pz_status read_all(struct reader *r, const char *text, size_t bytes) {
  enum pz_status status =
      pz_shell_read(r->name, text, bytes, r->o->presets, r->arena, &r->text, r->err);
  if (status == PZ_OK) status = read_words(r);
  if (status == PZ_OK) status = need(r, LAYERS, "num-layers");
  if (status == PZ_OK) status = read_plan(r);
  return status == PZ_OK ? read_model(r) : status;
}

enum pz_status pz_megatron_read(const char *name, const char *text, size_t bytes,
                                const struct pz_megatron_options *o, struct pz_arena *arena,
                                struct pz_megatron_run *out, struct pz_error *err) {
  struct pz_megatron_run m = {.layers = 0};
  struct reader *r = pz_arena_alloc(arena, 1, sizeof *r);
  if (!r) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  *r = (struct reader){.name = name, .o = o, .arena = arena, .out = &m, .err = err};
  pz_vec_init(&r->ignored, arena, sizeof(const char *));
  pz_vec_init(&r->notes, arena, sizeof(const char *));
  enum pz_status status = read_all(r, text, bytes);
  if (status != PZ_OK) return status;
  m.run.from[PZ_RUN_FRAMEWORK] = "Megatron's arguments";
  m.ignored = r->ignored.items;
  m.n_ignored = r->ignored.n;
  m.notes = r->notes.items;
  m.n_notes = r->notes.n;
  *out = m;
  return PZ_OK;
}
