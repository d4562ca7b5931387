#include "launch/megatron_args.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "core/fields.h"
#include "core/num.h"
#include "core/text.h"
#include "launch/megatron_core.h"
#include "launch/run_readers.h"
#include "launch/shell_words.h"

/* ---- arguments that are read ---------------------------------------------------------------- */

enum kind { FLAG, COUNT, AMOUNT, REAL, WORD, LIST };

/* What an argument gives: a plain number of the plan by its PZ_PLAN_..., or another value. */
enum {
  ARG_BEFORE = PZ_PLAN_FIELDS - 1,
#define ARGUMENT(id, kind, name) ARG_##id,
#define ALSO(value, kind, name)
#define SBATCH(id, kind, name) ARG_##id,
#include "launch/megatron_arguments.def"
#undef ARGUMENT
#undef ALSO
#undef SBATCH
  ARGS
};

static const struct argument {
  const char *name;
  enum kind kind;
  int value;
  bool batch; /* of the comments of a Slurm script */
} arguments[] = {
#define ARGUMENT(id, kind, name) {name, kind, ARG_##id, false},
#define ALSO(value, kind, name) {name, kind, value, false},
#define SBATCH(id, kind, name) {name, kind, ARG_##id, true},
#include "launch/megatron_arguments.def"
};

/* clang-format off */
/* Arguments that shape the step and are not covered: by name, or by the beginning of the name where it ends with a star. */
static const struct refused {
  const char *name, *what;
  const char *neutral; /* a value with which it does nothing; NULL: none */
} refusals[] = {
    {"expert*", "this choice for experts", NULL}, {"moe-shared-expert-overlap", "shared experts beside the dispatch", NULL},
    {"moe-expert-rank-capacity-factor", "this choice for experts", NULL}, {"moe-*", "this choice for experts", NULL},
    {"hierarchical-context-parallel-sizes", "context parallelism", NULL},
    {"fp8*", "this choice of 8-bit precision", NULL}, {"fp4*", "4-bit precision", NULL}, 
    {"window-size", "attention over a window", NULL}, {"qk-l2-norm", "norms of query and key", NULL},
    {"softmax-type", "attention sinks", "vanilla"},
    {"squared-relu", "the activation function squared ReLU", NULL}, {"quick-geglu", "the activation function GEGLU", NULL},
    {"pipeline-model-parallel-split-rank", "encoders with decoders", NULL},
    {"encoder-tensor-model-parallel-size", "encoders with decoders", "0"}, {"encoder-pipeline-model-parallel-size", "encoders with decoders", "0"},
    {"decoder-num-layers", "encoders with decoders", NULL}, {"standalone-embedding-stage", "a stage for the embedding alone", NULL},
    {"use-tp-pp-dp-mapping", "replicas outside of stages in the order of ranks", NULL},
    {"cpu-offloading*", "activations kept on the host", NULL}, {"offload-optimizer-states", "an optimizer on the host between its steps", NULL},
    {"distribute-saved-activations", "saved activations divided over the tensor-parallel group", NULL},
    {"main-grads-dtype", "gradients in other types", "fp32"},
    {"optimizer", "optimizers other than adam", "adam"},
    {"spec", "a model of its own", "local"}, {"heterogeneous-*", "layers that differ", NULL}, {"retro-*", "retrieval models", NULL},
    {"hybrid-*", "state-space layers by ratios", NULL}, {"mamba-*", "state-space layers without --hybrid-layer-pattern", NULL},
    {"linear-*", "linear attention without --experimental-attention-variant", NULL},
    {"attention-output-gate", "a gate of attention's result", NULL},
    {"yaml-cfg", "a configuration in YAML", NULL}, {"deepspeed*", "this choice of DeepSpeed", NULL},
    {"mtp-hybrid-override-pattern", "layers that predict without --hybrid-layer-pattern", NULL},
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
    "moe-router-*", "moe-router-dtype", "params-dtype", "tp-comm-overlap-ag", "tp-comm-overlap-rs", "moe-aux-loss-coeff", "moe-z-loss-coeff", "moe-per-layer-logging", "moe-permute-fusion", "moe-enable-deepep",
    "moe-deepep-num-sms", "moe-hybridep-num-sms", "moe-input-jitter-eps", "mtp-loss-scaling-factor", "mscale*", "beta-fast", "beta-slow",
    "original-max-position-embeddings", "decoder-seq-length", "overlap-p2p-communication",
    "async-*", "ckpt-*", "dist-ckpt-*", "non-persistent-*", "use-persistent-ckpt-worker", "override-ckpt-iteration", "no-use-tokenizer-model-from-checkpoint-args",
    "dataloader-*", "no-mmap-bin-files", "disable-log-*", "no-log-*", "logging-level", "adlr-autoresume*", "inprocess-*", "fault-injector-*",
    "error-injection-*", "ft-*", "straggler-*", "flight-recorder-*", "otel-*", "rl-*", "no-rl-*", "grpo-*", "fim-*", "tiktoken-*", "trust-remote-code",
    "disable-gloo-process-groups", "check-weight-hash-*", "rerun-mode", "iterations-to-skip", "skip-train", "full-validation",
    "use-transformer-engine-op-fuser", "overlap-cpu-optimizer-d2h-h2d", "init-model-with-meta-device", "no-gradient-accumulation-fusion", "is-hybrid-model", "use-fused-weighted-squared-relu", "mtp-use-repeated-layer",
    /* of forks, and of their converters of checkpoints */
    "transformer-type", "patch-size", "target-tensor-model-parallel-size", "target-pipeline-model-parallel-size",
    /* of Megatron-DeepSpeed */
    "deepspeed-config", "deepspeed-activation-checkpointing", "no-pipeline-parallel", "layernorm-epsilon", "no-query-key-layer-scaling",
    /* of launchers */
    "ntasks*", "nodes", "gres*", "gpus*", "cpus-per-task", "container-*", "no-container-*", "export*", "job-name", "output", "error", "label", "mpi",
    "time", "partition", "account", "kill-on-bad-exit", "hostfile", "hostname", "help", "module", "no-python", NULL,
};
/* clang-format on */

/* What was given for a value. */
struct given {
  const char *name, *text, *unknown;
  uint32_t line;
  int64_t n;
  double real;
  bool set, flag;
};

struct reader {
  const char *name;
  const struct pz_run_plan_options *o;
  struct pz_arena *arena;
  struct pz_shell_text text;
  const char *document; /* the whole text */
  size_t document_bytes;
  struct given g[ARGS];
  struct pz_vec ignored, notes; /* const char * */
  uint32_t n_unknown;           /* names that were compared with those that matter */
  const char *letters;          /* of the layers of a hybrid with Mamba layers; NULL: it is none */
  const char *predict;          /* of a layer of it that predicts, or "" */
  bool lost;                    /* memory was, for something that is told */
  struct pz_run_plan *out;
  struct pz_error *err;
};

/* ---- reading -------------------------------------------------------------------------------- */

static bool has(const struct reader *r, int v) { return r->g[v].set; }

static int64_t count(const struct reader *r, int v, int64_t absent) {
  return has(r, v) ? r->g[v].n : absent;
}

static bool says(const struct reader *r, int v, const char *word) {
  return has(r, v) && strcmp(r->g[v].text, word) == 0;
}

static enum pz_status no_memory(struct reader *r) {
  return pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
}

static enum pz_status wrong(struct reader *r, int v, const char *accepted) {
  const struct given *g = &r->g[v];
  const char *value = g->flag ? "" : g->text ? g->text : "without a value";
  enum pz_status status = pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: --%s%s%.60s; accepted: %s", r->name,
                                  g->line, g->name, *value ? " " : "", value, accepted);
  pz_error_at(r->err, r->name, (int)g->line, 0);
  return status;
}

/* "at most the layers of a stage (8)" */
static const char *accepted_count(const struct reader *r, const char *rule, int64_t n) {
  const char *text = pz_arena_printf(r->arena, "%s (%" PRId64 ")", rule, n);
  return text ? text : rule;
}

/* To a list; NULL: there was no memory for it. */
static void add_text(struct reader *r, struct pz_vec *list, const char *text) {
  if (!text || !pz_vec_push(list, &text)) r->lost = true;
}

static void note(struct reader *r, const char *text) { add_text(r, &r->notes, text); }

static char dashed(char c) { return c == '_' ? '-' : c; }

/* Names are compared with dashes for underscores and up to their "="; one that ends with a star by its beginning. */
static bool matches(const char *pattern, const char *name) {
  for (; *pattern && *pattern != '*'; pattern++, name++)
    if (dashed(*pattern) != dashed(*name)) return false;
  return *pattern == '*' || !*name || *name == '=';
}

/* The argument of a plain number of the plan, without its dashes; NULL: it has none. */
static const char *field_name(int f) {
  const char *name = pz_plan_field((enum pz_plan_field)f)->in[PZ_LAUNCH_MEGATRON];
  return name ? name + 2 : NULL;
}

static bool find(const char *name, bool batch, struct argument *out) {
  for (int f = 0; f < PZ_PLAN_FIELDS && !batch; f++) {
    const char *own = field_name(f);
    if (!own || !matches(own, name)) continue;
    *out = (struct argument){own, COUNT, f, false};
    return true;
  }
  for (size_t i = 0; i < sizeof arguments / sizeof *arguments; i++) {
    if (arguments[i].batch != batch || !matches(arguments[i].name, name)) continue;
    *out = arguments[i];
    return true;
  }
  return false;
}

bool pz_megatron_reads(const char *name) {
  struct argument a;
  return find(name, false, &a);
}

/* Is it among names, NULL behind the last? */
static bool is_among(const char *const *names, const char *name) {
  for (; names && *names; names++)
    if (matches(strncmp(*names, "--", 2) == 0 ? *names + 2 : *names, name)) return true;
  return false;
}

static const struct refused *find_refused(const char *name) {
  for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
    if (matches(refusals[i].name, name)) return &refusals[i];
  return NULL;
}

/* Does a list that ends with NULL have the name itself, not by its beginning alone? */
static bool is_silent_name(const char *name) {
  for (const char *const *x = silent; *x; x++)
    if (!strchr(*x, '*') && matches(*x, name)) return true;
  return false;
}

/* Names that matter: those of plain numbers, of other arguments that are read, and of those that are refused. */
static const char *known_name(const void *ctx, size_t i) {
  static const size_t n_read = sizeof arguments / sizeof *arguments;
  (void)ctx;
  for (int f = 0; f < PZ_PLAN_FIELDS; f++)
    if (field_name(f) && i-- == 0) return field_name(f);
  for (size_t k = 0; k < n_read; k++)
    if (!arguments[k].batch && i-- == 0) return arguments[k].name;
  for (size_t k = 0; k < sizeof refusals / sizeof *refusals; k++)
    if (!strchr(refusals[k].name, '*') && i-- == 0) return refusals[k].name;
  return NULL;
}

/* The argument that matters and that a name is meant for, which may be a plan's "tp"; NULL: none. */
static const char *meant_name(struct reader *r, const char *given) {
  char name[80];
  struct argument a;
  pz_text_copy(name, sizeof name, given);
  name[strcspn(name, "=")] = '\0';
  enum pz_plan_field f = pz_plan_field_find(name);
  for (char *c = name; *c; c++) *c = dashed(*c);
  if (f != PZ_PLAN_FIELDS && field_name((int)f)) return field_name((int)f);
  if (find(name, false, &a)) return a.name;
  bool many = r->n_unknown++ > 4096; /* comparing them all would take long */
  return many || is_silent_name(name) ? NULL : pz_text_misspelt(name, known_name, NULL);
}

static enum pz_status misspelt(struct reader *r, const struct pz_shell_word *w, const char *name,
                               const char *meant) {
  int n = (int)strcspn(w->text, "="), own = (int)strcspn(name, "=");
  enum pz_status status =
      pz_fail(r->err, PZ_BAD_INPUT,
              "%s:%u: '%.*s' is no argument; did you mean --%s? (--ignore %.*s leaves it out)",
              r->name, w->line, n, w->text, meant, own < 60 ? own : 60, name);
  pz_error_at(r->err, r->name, (int)w->line, 0);
  return status;
}

/* The value of the argument at word i: behind its =, or the next word, of a list all up to the next argument with
 * spaces between them; NULL: there is none. */
static const char *value_at(const struct reader *r, uint32_t i, const char *equals, bool list,
                            const char **unknown) {
  const struct pz_shell_word *w = pz_vec_at(&r->text.words, struct pz_shell_word, i);
  const char *text = equals ? equals + 1 : NULL;
  *unknown = equals ? w->unknown : NULL;
  for (uint32_t k = i + 1; k < r->text.words.n && (!text || list); k++) {
    w = pz_vec_at(&r->text.words, struct pz_shell_word, k);
    if (w->begins || strncmp(w->text, "--", 2) == 0) break;
    if (text && strlen(text) > PZ_SHELL_MOST_VALUE) break;
    if (w->unknown) *unknown = w->unknown;
    text = text ? pz_arena_printf(r->arena, "%s %s", text, w->text) : w->text;
    if (!text) break;
  }
  return text;
}

static enum pz_status read_number(struct reader *r, int v, enum kind kind) {
  struct given *g = &r->g[v];
  const char *accepted = kind == REAL     ? "a number from 0 to below 1"
                         : kind == AMOUNT ? "an integer from 0 to 2^26"
                                          : "an integer from 1 to 2^26";
  char *end = NULL;
  if (g->unknown)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:%u: --%s is '%.60s', and %s has no value in the text; accepted: --set "
                   "NAME=VALUE, or a number in its place",
                   r->name, g->line, g->name, g->text, g->unknown);
  if (kind == REAL) {
    g->real = strtod(g->text, &end);
    bool part = *g->text && !*end && g->real >= 0 && g->real < 1;
    return part ? PZ_OK : wrong(r, v, accepted);
  }
  size_t digits = strspn(g->text, "0123456789");
  if (!digits || g->text[digits] || digits > 9) return wrong(r, v, accepted);
  g->n = strtoll(g->text, NULL, 10);
  bool fits = g->n >= (kind == COUNT) && g->n <= 1 << 26;
  return fits ? PZ_OK : wrong(r, v, accepted);
}

/* An argument that was given before with another value: the last counts, as argparse has it.  Tokenizers may differ
 * between branches of a script. */
static void note_twice(struct reader *r, int v, const struct given *old) {
  const struct given *now = &r->g[v];
  if (!old->set || !old->text || !now->text || strcmp(old->text, now->text) == 0) return;
  if (v == ARG_TOKENIZER || r->notes.n >= 20) return;
  char *text =
      pz_arena_printf(r->arena, "--%s is %.40s in line %u and %.40s in line %u: the last counts",
                      now->name, old->text, old->line, now->text, now->line);
  note(r, text ? pz_text_plain(text) : NULL);
}

static enum pz_status take(struct reader *r, const struct argument *a, uint32_t line,
                           const char *text, const char *unknown) {
  struct given old = r->g[a->value];
  bool number = a->kind == COUNT || a->kind == AMOUNT || a->kind == REAL;
  r->g[a->value] = (struct given){.name = a->name,
                                  .text = a->kind == FLAG ? NULL : text,
                                  .unknown = a->kind == FLAG ? NULL : unknown,
                                  .line = line,
                                  .set = true,
                                  .flag = a->kind == FLAG};
  if (a->kind != FLAG && !text) return wrong(r, a->value, "a value behind it");
  note_twice(r, a->value, &old);
  return number ? read_number(r, a->value, a->kind) : PZ_OK;
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

static void ignore(struct reader *r, const char *name) {
  if (!name) {
    r->lost = true;
    return;
  }
  for (uint32_t i = 0; i < r->ignored.n; i++)
    if (strcmp(*pz_vec_at(&r->ignored, const char *, i), name) == 0) return;
  if (r->ignored.n < 1000) add_text(r, &r->ignored, name);
}

/* Words behind an argument that may be its values. */
enum { ANY_VALUES = 1 << 30 };

/* The argument at word i; *values: how many words behind it may be its values. */
static enum pz_status read_argument(struct reader *r, uint32_t i, int *values) {
  const struct pz_shell_word *w = pz_vec_at(&r->text.words, struct pz_shell_word, i);
  const char *equals = strchr(w->text, '='), *unknown;
  size_t n = equals ? (size_t)(equals - w->text) : strlen(w->text);
  char *name = pz_arena_printf(r->arena, "%.*s", n < 80 ? (int)n - 2 : 78, w->text + 2);
  struct argument a = {.kind = FLAG};
  if (!name) return no_memory(r);
  pz_text_plain(name);
  bool known = find(name, w->batch, &a), left_out = !w->batch && is_among(r->o->ignore, name);
  const char *value = value_at(r, i, equals, a.kind == LIST, &unknown);
  *values = !known || a.kind == LIST ? ANY_VALUES : a.kind != FLAG && !equals;
  if (known && !left_out) return take(r, &a, w->line, value, unknown);
  const struct refused *x = known ? NULL : find_refused(name);
  bool named = known || left_out || w->batch || (x && !strchr(x->name, '*'));
  const char *meant = named ? NULL : meant_name(r, name);
  if (meant) return misspelt(r, w, name, meant);
  if (!known && (w->batch || is_among(silent, name))) return PZ_OK;
  if (left_out && (known || x))
    note(r,
         pz_arena_printf(r->arena, "--%s is left out%s%s", name, x ? ": " : "", x ? x->what : ""));
  else if (x)
    return refuse(r, x, name, w->line, value);
  else
    ignore(r, name);
  return PZ_OK;
}

/* -N 4 of a Slurm comment. */
static enum pz_status read_letter(struct reader *r, uint32_t i) {
  static const struct argument nodes = {"nodes", WORD, ARG_BATCH_NODES, true};
  const struct pz_shell_word *w = pz_vec_at(&r->text.words, struct pz_shell_word, i);
  const char *unknown, *value = value_at(r, i, NULL, false, &unknown);
  return w->batch && strcmp(w->text, "-N") == 0 ? take(r, &nodes, w->line, value, unknown) : PZ_OK;
}

/* Is a word an argument of the program that is read, not of its launcher? */
static bool is_own(const struct pz_shell_word *w) {
  struct argument a;
  return !w->batch && strncmp(w->text, "--", 2) == 0 && find(w->text + 2, false, &a) &&
         a.value != ARG_NODES && a.value != ARG_PROCESSES;
}

/* A word among the program's arguments that is neither an argument with two dashes nor the value of one.  What can only be
 * meant for an argument is an error. */
static enum pz_status read_stray(struct reader *r, const struct pz_shell_word *w, size_t dashes) {
  struct argument a;
  const char *name = w->text + dashes;
  const char *meant = dashes ? meant_name(r, name) : find(name, false, &a) ? a.name : NULL;
  if (is_among(r->o->ignore, name)) return PZ_OK;
  if (meant) return misspelt(r, w, name, meant);
  if (r->notes.n < 20) {
    char *text = pz_arena_printf(r->arena, "line %u: '%.60s' is not understood", w->line, w->text);
    note(r, text ? pz_text_plain(text) : NULL);
  }
  return PZ_OK;
}

/* Bytes before the name of an override of a configuration, "model.tensor_model_parallel_size=8"; 0: it is none. */
static size_t override_of(const char *text) {
  static const char *const objects[] = {"model.", "train.", "ddp.", "optimizer.", "trainer."};
  for (size_t i = 0; i < sizeof objects / sizeof *objects && strchr(text, '='); i++)
    if (strncmp(text, objects[i], strlen(objects[i])) == 0) return strlen(objects[i]);
  return 0;
}

/* Warns of arguments in branches that the script may not take, with the numbers of their lines,
 * or of the first of many. */
static void note_guesses(struct reader *r) {
  enum { MOST = 20 };
  const char *lines = "";
  uint32_t n = 0, last = 0;
  for (uint32_t i = 0; i < r->text.words.n && n < MOST && lines; i++) {
    const struct pz_shell_word *w = pz_vec_at(&r->text.words, struct pz_shell_word, i);
    if (!w->guessed || w->line == last || strncmp(w->text, "--", 2) != 0) continue;
    lines = pz_arena_printf(r->arena, "%s%s%u", lines, n++ ? ", " : "", w->line);
    last = w->line;
  }
  if (n)
    note(r, lines ? pz_arena_printf(r->arena,
                                    "arguments in line%s %s%s count, though the text does not "
                                    "decide whether they are run",
                                    pz_text_s(n), lines, n < MOST ? "" : " ...")
                  : NULL);
}

static enum pz_status read_words(struct reader *r) {
  const struct pz_shell_word *w = r->text.words.items;
  enum pz_status status = PZ_OK;
  bool list = false, open = false; /* of the program's arguments; they have begun in it */
  int values = 0;                  /* words that may still be those of the last argument */
  for (uint32_t i = 0; i < r->text.words.n && status == PZ_OK; i++, w++) {
    /* documents and mails put dashes of typography (U+2010 to U+2015, U+2212) in the place of a shell's */
    size_t dashes = strspn(w->text, "-\xe2\x80\x88\x90\x91\x92\x93\x94\x95"), n = strlen(w->text);
    bool typographic = dashes > strspn(w->text, "-"), named = strpbrk(w->text, "-_") != NULL;
    bool word = dashes && isalpha((unsigned char)w->text[dashes]);
    struct argument a;
    if (w->begins) {
      list = is_own(w);
      for (uint32_t k = 1; i + k < r->text.words.n && !w[k].begins && !list; k++)
        list = is_own(&w[k]);
      open = list && dashes;
      values = ANY_VALUES;
    }
    if (dashes > 1 && !typographic && n > 2) {
      status = read_argument(r, i, &values);
      open = open || (list && is_own(w));
    } else if (w->batch) {
      status = read_letter(r, i);
    } else if (word && (open || (typographic && meant_name(r, w->text + dashes)))) {
      status = read_stray(r, w, dashes);
      values = ANY_VALUES;
    } else if (override_of(w->text)) {
      status = read_stray(r, w, override_of(w->text));
    } else if (list && !dashes && n > 3 && strcmp(w->text + n - 3, ".py") == 0) {
      open = true;
      values = ANY_VALUES;
    } else if (list && named && find(w->text, false, &a)) {
      status = read_stray(r, w, 0);
    } else if (values) {
      values -= values < ANY_VALUES;
    } else if (open && n && !w->unknown) {
      status = read_stray(r, w, 0);
    }
  }
  note_guesses(r);
  return status;
}

/* ---- the plan ------------------------------------------------------------------------------- */

static enum pz_status need(struct reader *r, int v, const char *name) {
  if (has(r, v)) return PZ_OK;
  return pz_fail(
      r->err, PZ_BAD_INPUT,
      "%s: no --%s among the arguments; accepted: a plan in JSON, torchtitan's TOML, or a "
      "script with them",
      r->name, name);
}

/* Is the word that was given among those of a text, "auto, flash or local; others are not covered"? */
static enum pz_status need_word(struct reader *r, int v, const char *accepted) {
  if (!has(r, v)) return PZ_OK;
  size_t length = strlen(r->g[v].text);
  for (const char *at = accepted; *at && *at != ';'; at += strspn(at, ", ")) {
    size_t n = strcspn(at, ", ;");
    bool joins = n == 2 && memcmp(at, "or", n) == 0;
    if (!joins && n == length && memcmp(at, r->g[v].text, n) == 0) return PZ_OK;
    at += n;
  }
  return wrong(r, v, accepted);
}

/* Where a field comes from: the first of two arguments that was given. */
static void mark(struct reader *r, int f, int a, int b) {
  const struct given *g = has(r, a) ? &r->g[a] : &r->g[b];
  if (!g->set) return;
  r->out->from[f] = pz_arena_printf(r->arena, "--%s, line %u", g->name, g->line);
  if (!r->out->from[f]) r->lost = true;
}

/* clang-format off */
/* Fields and the arguments that they come from, of several the first that is given, unless its reader says so. */
static const struct { int field, argument; } origins[] = {
    {PZ_PLAN_MBS, PZ_PLAN_MBS}, {PZ_PLAN_BATCH, PZ_PLAN_BATCH}, {PZ_PLAN_SEQ, PZ_PLAN_SEQ}, {PZ_PLAN_TP, PZ_PLAN_TP}, {PZ_PLAN_CP, PZ_PLAN_CP},
    {PZ_PLAN_PP, PZ_PLAN_PP}, {PZ_PLAN_EP, PZ_PLAN_EP}, {PZ_PLAN_ETP, PZ_PLAN_ETP}, {PZ_PLAN_SP, ARG_SP}, {PZ_PLAN_MTP, ARG_PREDICT_LAYERS},
    {PZ_PLAN_FIRST_LAYERS, PZ_PLAN_FIRST_LAYERS}, {PZ_PLAN_FIRST_LAYERS, ARG_EMBEDDING_AS_LAYER},
    {PZ_PLAN_LAST_LAYERS, PZ_PLAN_LAST_LAYERS}, {PZ_PLAN_LAST_LAYERS, ARG_LOSS_AS_LAYER},
    {PZ_PLAN_VPP, ARG_CHUNK_LAYERS}, {PZ_PLAN_VPP, PZ_PLAN_VPP}, {PZ_PLAN_RECOMPUTE, ARG_SELECTIVE}, {PZ_PLAN_RECOMPUTE, ARG_GRANULARITY},
    {PZ_PLAN_RECOMPUTE_LAYERS, ARG_AGAIN_LAYERS}, {PZ_PLAN_ZERO, ARG_FSDP2}, {PZ_PLAN_ZERO, ARG_FSDP}, {PZ_PLAN_ZERO, ARG_DISTRIBUTED},
    {PZ_PLAN_ZERO, ARG_ZERO_STAGE}, {PZ_PLAN_SHARD, ARG_INSTANCES}, {PZ_PLAN_OFFLOAD, ARG_HOST_OPTIMIZER}, {PZ_PLAN_OFFLOAD, ARG_FINE_OFFLOAD},
    {PZ_PLAN_OFFLOAD, PZ_PLAN_OFFLOAD_LAYERS}, {PZ_PLAN_OFFLOAD, ARG_DEEP_HOST_LAYERS}, {PZ_PLAN_OFFLOAD, ARG_DEEP_HOST_OPTIMIZER},
    {PZ_PLAN_OVERLAP, ARG_OVERLAP_TP}, {PZ_PLAN_OVERLAP, ARG_OVERLAP_PARAM}, {PZ_PLAN_OVERLAP, ARG_OVERLAP_GRAD},
    {PZ_PLAN_GRAD_BYTES, ARG_GRAD_BF16}, {PZ_PLAN_FUSED_LOSS, ARG_LOSS_KERNEL}, {PZ_PLAN_FUSED_LOSS, ARG_LOSS_FUSION},
    {PZ_PLAN_BF16_FIRST_LAYERS, ARG_WIDE_START}, {PZ_PLAN_BF16_FIRST_LAYERS, ARG_WIDE_LAYERS}, {PZ_PLAN_BF16_LAYERS, ARG_WIDE_END},
    {PZ_PLAN_BF16_LAYERS, ARG_WIDE_LAYERS}, {PZ_PLAN_PRECISION, ARG_FP4_FORMAT}, {PZ_PLAN_PRECISION, ARG_FP8}, {PZ_PLAN_PRECISION, ARG_FP8_FORMAT},
    {PZ_PLAN_PRECISION, ARG_BF16}, {PZ_PLAN_PRECISION, ARG_FP16}, {PZ_PLAN_ACT_PRECISION, ARG_FP8_ACTIVATION},
    {PZ_PLAN_FP8_RECIPE, ARG_FP8_RECIPE}, {PZ_PLAN_FP8_RECIPE, ARG_FP8_FORMAT}, {PZ_PLAN_EXECUTION, ARG_GRAPH}, {PZ_PLAN_EXECUTION, ARG_GRAPH_IMPL},
    {PZ_PLAN_ATTENTION, ARG_BACKEND}, {PZ_PLAN_ATTENTION, ARG_FLASH}, {PZ_PLAN_ATTENTION, ARG_IMPLEMENTATION}, {PZ_RUN_MODEL, ARG_LAYERS},
};
/* clang-format on */

/* Plain numbers; what is not given is 1. */
static enum pz_status read_numbers(struct reader *r) {
  static const enum pz_plan_field fields[] = {PZ_PLAN_MBS, PZ_PLAN_BATCH, PZ_PLAN_SEQ,
                                              PZ_PLAN_TP,  PZ_PLAN_CP,    PZ_PLAN_PP};
  struct pz_plan *o = &r->out->plan;
  *o = pz_plan_default();
  o->framework = pz_framework_find(has(r, ARG_DEEPSPEED) ? "deepspeed" : "megatron");
  o->mbs = o->tp = o->cp = o->pp = o->vpp = o->ep = 1;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    if (has(r, (int)fields[i])) pz_plan_field_store(o, fields[i], (double)r->g[fields[i]].n);
  }
  o->cp_form = says(r, ARG_CP_FORM, "a2a") ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
  o->sp = has(r, ARG_SP) && o->tp > 1;
  if (has(r, ARG_SP) && o->tp == 1)
    note(r, "--sequence-parallel has no effect without --tensor-model-parallel-size above 1");
  if (has(r, ARG_BF16) && has(r, ARG_FP16)) return wrong(r, ARG_FP16, "--fp16 or --bf16, not both");
  if (!has(r, ARG_BF16) && !has(r, ARG_FP16))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: neither --bf16 nor --fp16; accepted: one of them, 32-bit "
                   "training is not covered",
                   r->name);
  return need_word(r, ARG_CP_FORM, "p2p or a2a; others are not covered");
}

/* Nodes, or processes of one: a number, also where a script asks the batch system for its own. */
static enum pz_status launch_count(struct reader *r, int v, int64_t batch, int64_t absent,
                                   int64_t *out) {
  const struct given *g = &r->g[v];
  *out = batch ? batch : absent;
  if (!g->set) return PZ_OK;
  bool asks = g->unknown && (strstr(g->unknown, "SLURM_") || strstr(g->unknown, "NNODES"));
  if (asks && batch) return PZ_OK;
  enum pz_status status = read_number(r, v, COUNT);
  if (status == PZ_OK) *out = g->n;
  return status;
}

/* gpu:8, gpu:h100:8 or 8 of Slurm's comments; 0: not told. */
static int64_t batch_count(const struct reader *r, int v) {
  if (!has(r, v) || r->g[v].unknown) return 0;
  const char *text = r->g[v].text, *colon = strrchr(text, ':');
  long n = strtol(colon ? colon + 1 : text, NULL, 10);
  return n > 0 && n <= 1 << 20 ? n : 0;
}

static enum pz_status read_devices(struct reader *r) {
  struct pz_run_plan *run = r->out;
  int64_t nodes, processes, gpus = batch_count(r, ARG_BATCH_GPUS);
  if (r->o->devices) {
    run->plan.devices = r->o->devices;
    run->from[PZ_PLAN_DEVICES] = "--devices";
    return PZ_OK;
  }
  if (!gpus) gpus = batch_count(r, ARG_BATCH_GRES);
  if (!gpus) gpus = batch_count(r, ARG_BATCH_TASKS);
  enum pz_status status = launch_count(r, ARG_NODES, batch_count(r, ARG_BATCH_NODES), 1, &nodes);
  if (status == PZ_OK) status = launch_count(r, ARG_PROCESSES, gpus, 0, &processes);
  if (status != PZ_OK) return status;
  if (!processes || (double)nodes * (double)processes > 1 << 24)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: the number of devices is not stated; accepted: --devices N, or torchrun's "
                   "--nnodes and --nproc_per_node (at most 2^24 together)",
                   r->name);
  run->plan.devices = nodes * processes;
  run->from[PZ_PLAN_DEVICES] =
      pz_arena_printf(r->arena, "%" PRId64 " x %" PRId64 " processes", nodes, processes);
  return run->from[PZ_PLAN_DEVICES] ? PZ_OK : no_memory(r);
}

static enum pz_status read_batch(struct reader *r) {
  enum pz_status status = need(r, PZ_PLAN_MBS, "micro-batch-size");
  if (status == PZ_OK) status = need(r, PZ_PLAN_SEQ, "seq-length");
  if (status == PZ_OK && has(r, ARG_POSITIONS) && r->g[ARG_POSITIONS].n < r->g[PZ_PLAN_SEQ].n)
    return wrong(r, ARG_POSITIONS, accepted_count(r, "at least --seq-length", r->g[PZ_PLAN_SEQ].n));
  if (status == PZ_OK && has(r, ARG_RAMPUP))
    note(r, "--rampup-batch-size: the prediction is of the full global batch size");
  return status;
}

/* Layers of the first and the last stage where they differ from the others; of `counted` layers, embedding and loss
 * may stand for one each. */
static enum pz_status read_ends(struct reader *r, int64_t counted) {
  struct pz_plan *o = &r->out->plan;
  int64_t first = count(r, PZ_PLAN_FIRST_LAYERS, 0), last = count(r, PZ_PLAN_LAST_LAYERS, 0);
  int64_t even = counted / (o->pp * o->vpp), others = o->pp - (first > 0) - (last > 0);
  int end = first ? PZ_PLAN_FIRST_LAYERS : PZ_PLAN_LAST_LAYERS;
  if ((first || last) && o->vpp > 1) return wrong(r, end, "stages without chunks");
  if (o->pp == 1) return PZ_OK;
  if (first || last) {
    int64_t rest = r->g[ARG_LAYERS].n - first - last, middle = others ? rest / others : 0;
    if (rest < 0 || (others ? rest % others : rest != 0))
      return wrong(r, end, "as many as leave the other stages whole layers");
    o->first_layers = first ? first : middle;
    o->last_layers = last ? last : middle;
  } else if (counted > r->g[ARG_LAYERS].n) {
    r->out->ends_as_layers = true;
    o->first_layers = even - has(r, ARG_EMBEDDING_AS_LAYER);
    o->last_layers = even - has(r, ARG_LOSS_AS_LAYER);
  }
  return PZ_OK;
}

/* Stages and chunks by their layers, as an argument has them. */
static enum pz_status divide_layers(struct reader *r, int v, const int64_t *chunks, uint32_t n,
                                    const char *accepted) {
  struct pz_plan *o = &r->out->plan;
  if (!pz_division_read(o, chunks, n)) return wrong(r, v, accepted);
  mark(r, PZ_PLAN_VPP, v, v);
  if (o->first_layers) mark(r, PZ_PLAN_FIRST_LAYERS, v, v);
  if (o->last_layers) mark(r, PZ_PLAN_LAST_LAYERS, v, v);
  return PZ_OK;
}

/* Et*18|t*21|t*20,L: layers of every chunk, t for each; of embedding, loss and multi-token prediction no number is read. */
static enum pz_status read_layout(struct reader *r) {
  static const char accepted[] =
      "as many layers t as --num-layers, in chunks that the stages divide, those between the first "
      "and the last as even as can be";
  enum { MOST_CHUNKS = 4096 };
  int64_t *chunks = pz_arena_alloc(r->arena, MOST_CHUNKS, sizeof *chunks), all = 0;
  uint32_t n = 1;
  if (!chunks) return no_memory(r);
  for (const char *at = r->g[ARG_LAYOUT].text; *at;) {
    char kind = *at++;
    unsigned long times = 1;
    if (kind == '|' && n++ < MOST_CHUNKS) continue;
    if (kind == ',') continue;
    if (!strchr("EtmL", kind) || n > MOST_CHUNKS) return wrong(r, ARG_LAYOUT, accepted);
    if (*at == '*') {
      char *end;
      times = strtoul(at + 1, &end, 10);
      if (end == at + 1 || times > 1 << 20) return wrong(r, ARG_LAYOUT, accepted);
      at = end;
    }
    if (kind != 't') continue;
    chunks[n - 1] += (int64_t)times;
    all += (int64_t)times;
  }
  if (all != r->g[ARG_LAYERS].n) return wrong(r, ARG_LAYOUT, accepted);
  return divide_layers(r, ARG_LAYOUT, chunks, n, accepted);
}

/* ---- hybrids -------------------------------------------------------------------------------- */

static bool is_delta(const struct reader *r) { return has(r, ARG_VARIANT); }

/* "MEM*" "|" "ME" "/" "*E": a letter for each layer, bars between stages or chunks, behind slashes the layers that
 * predict. */
static enum pz_status read_letters(struct reader *r) {
  static const char accepted[] = "a letter M, *, E or - for each layer, bars between stages, and "
                                 "behind each slash one and the same layer that predicts";
  const char *text = r->g[ARG_PATTERN].text, *slash = text ? strchr(text, '/') : NULL;
  if (!has(r, ARG_PATTERN)) return PZ_OK;
  size_t n = 0, all = slash ? (size_t)(slash - text) : strlen(text);
  char *letters = pz_arena_alloc(r->arena, all + 1, 1);
  if (!letters) return no_memory(r);
  for (size_t i = 0; i < all; i++) {
    if (!strchr("M*E-|", text[i])) return wrong(r, ARG_PATTERN, accepted);
    if (text[i] != '|') letters[n++] = text[i];
  }
  letters[n] = '\0';
  r->letters = letters;
  r->predict = "";
  int64_t depths = 0;
  for (const char *at = slash; at; at = strchr(at + 1, '/'), depths++) {
    size_t length = strcspn(at + 1, "/");
    char *one = pz_arena_printf(r->arena, "%.*s", (int)(length < 8 ? length : 8), at + 1);
    if (!one) return no_memory(r);
    if (!*one || strspn(one, "M*E-") != strlen(one) || (depths && strcmp(one, r->predict) != 0))
      return wrong(r, ARG_PATTERN, accepted);
    r->predict = one;
  }
  if (!n || n > PZ_MOST_MIXED_LAYERS || count(r, ARG_LAYERS, (int64_t)n) != (int64_t)n ||
      (depths && count(r, ARG_PREDICT_LAYERS, depths) != depths))
    return wrong(r, ARG_PATTERN, "as many layers as --num-layers and --mtp-num-layers, 1 to 1024");
  struct given *layers = &r->g[ARG_LAYERS], *predict = &r->g[ARG_PREDICT_LAYERS];
  if (!layers->set) *layers = r->g[ARG_PATTERN], layers->n = (int64_t)n;
  if (depths && !predict->set) *predict = r->g[ARG_PATTERN], predict->n = depths;
  return PZ_OK;
}

/* An argument that is read, where it is not covered. */
static enum pz_status refuse_given(struct reader *r, int v) {
  const struct given *g = &r->g[v];
  const struct refused *x = g->set && g->name ? find_refused(g->name) : NULL;
  return x ? refuse(r, x, g->name, g->line, g->text) : PZ_OK;
}

/* Arguments that hybrids alone have here; the first is that which others may have. */
static enum pz_status check_hybrid_arguments(struct reader *r) {
  static const int mamba[] = {ARG_SPEC,           ARG_SQUARED,     ARG_MAMBA_HEADS,
                              ARG_MAMBA_HEAD_DIM, ARG_MAMBA_STATE, ARG_MAMBA_GROUPS,
                              ARG_MOE_LATENT};
  static const int delta[] = {ARG_SHARED_GATE,   ARG_DELTA_PERIOD,    ARG_DELTA_CONV,
                              ARG_DELTA_KEY_DIM, ARG_DELTA_VALUE_DIM, ARG_DELTA_KEYS,
                              ARG_DELTA_VALUES,  ARG_OUT_GATE};
  enum pz_status status = PZ_OK;
  bool local = has(r, ARG_SPEC) && says(r, ARG_SPEC, "local");
  for (size_t i = local; i < sizeof mamba / sizeof *mamba && !r->letters && status == PZ_OK; i++)
    status = refuse_given(r, mamba[i]);
  for (size_t i = 0; i < sizeof delta / sizeof *delta && !is_delta(r) && status == PZ_OK; i++)
    status = refuse_given(r, delta[i]);
  return status;
}

/* Stages of a pattern with bars. */
static enum pz_status read_bars(struct reader *r) {
  static const char accepted[] = "bars between chunks that the stages divide, those between the "
                                 "first and the last as even as can be";
  const char *at = r->g[ARG_PATTERN].text;
  int64_t *chunks = pz_arena_alloc(r->arena, PZ_MOST_MIXED_LAYERS + 1, sizeof *chunks);
  uint32_t n = 1;
  if (!chunks) return no_memory(r);
  for (; *at && *at != '/' && n <= PZ_MOST_MIXED_LAYERS; at++)
    if (*at == '|')
      n++;
    else
      chunks[n - 1]++;
  if (n > PZ_MOST_MIXED_LAYERS) return wrong(r, ARG_PATTERN, accepted);
  return divide_layers(r, ARG_PATTERN, chunks, n, accepted);
}

static enum pz_status read_stages(struct reader *r) {
  static const char accepted[] = "a number that divides the layers of a stage";
  struct pz_plan *o = &r->out->plan;
  int64_t layers = r->g[ARG_LAYERS].n + has(r, ARG_EMBEDDING_AS_LAYER) + has(r, ARG_LOSS_AS_LAYER);
  int64_t stage = layers / o->pp, chunk = count(r, ARG_CHUNK_LAYERS, 0);
  bool uneven = has(r, PZ_PLAN_FIRST_LAYERS) || has(r, PZ_PLAN_LAST_LAYERS);
  if (has(r, ARG_ZBH1) && o->pp > 1) {
    o->pipeline = PZ_PIPELINE_ZB_H1;
    mark(r, PZ_PLAN_PIPELINE, ARG_ZBH1, ARG_ZBH1);
  }
  if (has(r, ARG_LAYOUT)) return read_layout(r);
  if (r->letters && strchr(r->g[ARG_PATTERN].text, '|')) return read_bars(r);
  o->vpp = count(r, PZ_PLAN_VPP, 1);
  r->out->chunks_by_rank = has(r, PZ_PLAN_VPP);
  if (chunk && has(r, PZ_PLAN_VPP))
    return wrong(r, PZ_PLAN_VPP, "it or --num-layers-per-virtual-pipeline-stage, not both");
  if (!uneven && layers % o->pp)
    return wrong(r, PZ_PLAN_PP,
                 "a number that divides the layers, or --decoder-first-pipeline-num-"
                 "layers and --decoder-last-pipeline-num-layers");
  if (chunk && (stage % chunk || stage < chunk)) return wrong(r, ARG_CHUNK_LAYERS, accepted);
  if (!chunk && !uneven && stage % o->vpp) return wrong(r, PZ_PLAN_VPP, accepted);
  if (chunk) o->vpp = stage / chunk;
  if (o->pp == 1 && o->vpp > 1)
    return wrong(r, chunk ? (int)ARG_CHUNK_LAYERS : (int)PZ_PLAN_VPP,
                 "with it --pipeline-model-parallel-size above 1");
  return read_ends(r, layers);
}

/* Modules of selective recomputation; the attention core by itself is what a plan says with none. */
static enum pz_status read_modules(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  struct pz_plan asked = *o;
  int set = 0;
  if (o->recompute != PZ_RECOMPUTATION_SELECTIVE) return PZ_OK;
  if (has(r, ARG_MODULES) &&
      pz_plan_field_read(&asked, PZ_PLAN_RECOMPUTE_MODULES, r->g[ARG_MODULES].text, NULL) != PZ_OK)
    return wrong(r, ARG_MODULES,
                 "layernorm, moe_act, mla_up_proj, mlp, moe, shared_experts, core_attn");
  if (has(r, ARG_MODULES)) set = asked.recompute_modules;
  if (has(r, ARG_EXPERTS_AGAIN)) set = (set ? set : PZ_MODULE_CORE) | PZ_MODULE_EXPERTS;
  o->recompute_modules = set == PZ_MODULE_CORE ? 0 : set;
  if (set) mark(r, PZ_PLAN_RECOMPUTE_MODULES, ARG_MODULES, ARG_EXPERTS_AGAIN);
  return PZ_OK;
}

/* Layers of the longest stage. */
static int64_t most_stage_layers(const struct reader *r) {
  const struct pz_plan *o = &r->out->plan;
  int64_t ends = o->first_layers + o->last_layers;
  int64_t others = pz_max(o->pp - (o->first_layers > 0) - (o->last_layers > 0), 1);
  int64_t middle = pz_ceil_div(pz_max(r->g[ARG_LAYERS].n - ends, 0), others);
  return o->vpp * pz_max(pz_max(o->first_layers, o->last_layers), pz_ceil_div(middle, o->vpp));
}

static enum pz_status read_recompute(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  enum pz_status status = need_word(r, ARG_GRANULARITY, "full or selective");
  if (status == PZ_OK) status = need_word(r, ARG_METHOD, "uniform or block");
  if (status != PZ_OK) return status;
  bool full = says(r, ARG_GRANULARITY, "full") && !has(r, ARG_SELECTIVE);
  bool selective =
      has(r, ARG_SELECTIVE) || says(r, ARG_GRANULARITY, "selective") || has(r, ARG_EXPERTS_AGAIN);
  o->recompute = full ? PZ_RECOMPUTATION_FULL
                      : (selective ? PZ_RECOMPUTATION_SELECTIVE : PZ_RECOMPUTATION_NONE);
  if (selective && !full && (has(r, ARG_METHOD) || has(r, ARG_AGAIN_LAYERS)))
    return wrong(r, has(r, ARG_METHOD) ? ARG_METHOD : ARG_AGAIN_LAYERS,
                 "with it --recompute-granularity full, not selective");
  if (!full && (has(r, ARG_METHOD) || has(r, ARG_AGAIN_LAYERS)))
    note(r, "--recompute-method and --recompute-num-layers have no effect without "
            "--recompute-granularity");
  if (full && !has(r, ARG_METHOD))
    return wrong(r, ARG_GRANULARITY, "with it --recompute-method uniform or block");
  if (full && says(r, ARG_METHOD, "block")) {
    status = need(r, ARG_AGAIN_LAYERS, "recompute-num-layers (with --recompute-method block)");
    o->recompute_layers = count(r, ARG_AGAIN_LAYERS, 0);
    if (o->recompute_layers > most_stage_layers(r))
      return wrong(
          r, ARG_AGAIN_LAYERS,
          accepted_count(r, "at most the layers of a pipeline stage", most_stage_layers(r)));
  } else if (full && count(r, ARG_AGAIN_LAYERS, 1) > 1) {
    return wrong(
        r, ARG_AGAIN_LAYERS,
        "1; recomputing units of several layers (--recompute-method uniform) is not covered");
  }
  return status == PZ_OK ? read_modules(r) : status;
}

/* ZeRO: the distributed optimizer is stage 1; FSDP divides what its strategy says. */
static enum pz_status read_sharding(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  enum pz_status status =
      need_word(r, ARG_STRATEGY, "no_shard, optim, optim_grads or optim_grads_params");
  if (status != PZ_OK) return status;
  o->zero = has(r, ARG_DISTRIBUTED) && !has(r, ARG_FSDP);
  for (int i = 1; has(r, ARG_FSDP) && i < 4; i++)
    if (says(r, ARG_STRATEGY, pz_core_strategies[i])) o->zero = i;
  if (has(r, ARG_FSDP2)) o->zero = has(r, ARG_FSDP2_KEEPS) ? 2 : 3;
  if (has(r, ARG_FSDP2) && (o->pp > 1 || count(r, PZ_PLAN_EP, 1) > 1 || has(r, ARG_DISTRIBUTED) ||
                            has(r, ARG_FP16) || !has(r, ARG_UNTIED)))
    return wrong(r, ARG_FSDP2,
                 "with it --untie-embeddings-and-output-weights and --bf16, one pipeline stage, no "
                 "expert parallelism and no --use-distributed-optimizer");
  int64_t stage = count(r, ARG_ZERO_STAGE, 0);
  if (stage > 3 || (stage && !has(r, ARG_DEEPSPEED)))
    return wrong(r, ARG_ZERO_STAGE, "0 to 3, with it --deepspeed");
  if (stage) o->zero = (int)stage;
  int64_t copies = count(r, ARG_INSTANCES, 1), replicas = o->devices / (o->tp * o->pp);
  if (copies == 1 || !o->zero) return PZ_OK;
  if (replicas % copies) return wrong(r, ARG_INSTANCES, "a number that divides the replicas");
  o->shard = replicas / copies;
  return PZ_OK;
}

/* Types of Adam's moments. */
static enum pz_status read_moments(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  static const char accepted[] = "fp32, bf16 or fp8; others are not covered";
  enum pz_status status = need_word(r, ARG_FIRST_MOMENT, accepted);
  if (status == PZ_OK) status = need_word(r, ARG_SECOND_MOMENT, accepted);
  if (status != PZ_OK) return status;
  const char *first = has(r, ARG_FIRST_MOMENT) ? r->g[ARG_FIRST_MOMENT].text : "fp32";
  const char *second = has(r, ARG_SECOND_MOMENT) ? r->g[ARG_SECOND_MOMENT].text : "fp32";
  if (strcmp(first, second) != 0)
    return wrong(r, has(r, ARG_SECOND_MOMENT) ? ARG_SECOND_MOMENT : ARG_FIRST_MOMENT,
                 "the same type for both moments");
  if (strcmp(first, "fp32") == 0) return PZ_OK;
  if (!has(r, ARG_PRECISION_AWARE))
    return wrong(r, ARG_FIRST_MOMENT, "with it --use-precision-aware-optimizer");
  o->moment_bytes = strcmp(first, "bf16") == 0 ? 2 : 1;
  mark(r, PZ_PLAN_MOMENT_BYTES, ARG_FIRST_MOMENT, ARG_FIRST_MOMENT);
  return PZ_OK;
}

/* Copies of weights: without a type of their own and in such an optimizer what bf16 leaves of fp32. */
static enum pz_status read_copies(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  enum pz_status status = need_word(r, ARG_MAIN_PARAMS, "fp32 or fp16; others are not covered");
  if (status != PZ_OK || !has(r, ARG_PRECISION_AWARE) || has(r, ARG_HOST_OPTIMIZER)) return status;
  if (says(r, ARG_MAIN_PARAMS, "fp16"))
    o->main_params = PZ_MAIN_FP16;
  else if (!(o->moment_bytes > 0) && o->zero == 1 && has(r, ARG_BF16))
    o->main_params = PZ_MAIN_REMAINDERS;
  mark(r, PZ_PLAN_MAIN_PARAMS, ARG_MAIN_PARAMS, ARG_PRECISION_AWARE);
  return PZ_OK;
}

static enum pz_status read_host_optimizer(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  if (!has(r, ARG_HOST_OPTIMIZER)) return PZ_OK;
  o->offload |= PZ_OFFLOAD_OPTIMIZER;
  if (has(r, ARG_HOST_FRACTION) &&
      (r->g[ARG_HOST_FRACTION].unknown ||
       pz_plan_field_read(o, PZ_PLAN_OFFLOAD_FRACTION, r->g[ARG_HOST_FRACTION].text, NULL) !=
           PZ_OK))
    return wrong(r, ARG_HOST_FRACTION, "a number from 0.01 to 1");
  if (o->offload_fraction == 1) o->offload_fraction = 0; /* all, as without it */
  return PZ_OK;
}

/* Activations on the host: of whole layers, or of modules; of DeepSpeed what recomputation saves. */
static enum pz_status read_host_layers(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  int layers = (int)PZ_PLAN_OFFLOAD_LAYERS;
  o->offload_layers = count(r, layers, 0);
  if (has(r, ARG_HOST_LAYERS) && !o->offload_layers)
    return wrong(r, ARG_HOST_LAYERS, "with it --cpu-offloading-num-layers");
  if (has(r, ARG_FINE_OFFLOAD) &&
      (!has(r, ARG_HOST_MODULES) ||
       pz_plan_field_read(o, PZ_PLAN_OFFLOAD_MODULES, r->g[ARG_HOST_MODULES].text, NULL) != PZ_OK))
    return wrong(r, ARG_FINE_OFFLOAD,
                 "with it --offload-modules of attn_norm, qkv_linear, core_attn, attn_proj, "
                 "mlp_norm, expert_fc1, moe_act, fused_group_mlp");
  if (o->offload_layers || o->offload_modules || has(r, ARG_DEEP_HOST_LAYERS))
    o->offload |= PZ_OFFLOAD_ACTIVATIONS;
  if (has(r, ARG_DEEP_HOST_OPTIMIZER)) o->offload |= PZ_OFFLOAD_OPTIMIZER;
  return PZ_OK;
}

/* Numbers of DeepSpeed's configuration, which may be "auto", and its switches. */
static enum pz_status check_deepspeed(const json_t *j, struct pz_error *err) {
  static const char *const counts[] = {"train_batch_size", "train_micro_batch_size_per_gpu",
                                       "gradient_accumulation_steps", "zero_optimization.stage"};
  static const char *const switches[] = {"bf16.enabled", "fp16.enabled",
                                         "zero_optimization.overlap_comm"};
  struct pz_fields f = {.name = "deepspeed.json", .root = j, .err = err};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    const char *word = json_string_value(pz_fields_value(&f, counts[i]));
    struct pz_range range = {i < 3, i < 3 ? 1 << 24 : 3};
    if (!word || strcmp(word, "auto") != 0) (void)pz_fields_int_or(&f, counts[i], range, 0);
  }
  for (size_t i = 0; i < sizeof switches / sizeof *switches; i++) {
    const char *word = json_string_value(pz_fields_value(&f, switches[i]));
    if (!word || strcmp(word, "auto") != 0) (void)pz_fields_bool_or(&f, switches[i], false);
  }
  return f.status;
}

/* clang-format off */
/* Keys of DeepSpeed's configuration that are read or have no effect on the plan. */
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
/* Those that shape the step and are not covered, unless they turn nothing on. */
static const char *const zero_refused[] = {
    "offload_param", "cpu_offload_param", "zero_quantized_weights", "zero_quantized_gradients", "zero_hpz_partition_size", "mics_shard_size",
    "zenflow", NULL};
/* clang-format on */

static const char *listed_key(const void *list, size_t i) { return ((const char *const *)list)[i]; }

/* false, 0 or 1 of a size, -1 of none, {"device": "none"} */
static bool turns_on(const json_t *value) {
  const char *device = json_string_value(json_object_get(value, "device"));
  if (device) return strcmp(device, "none") != 0;
  return json_is_number(value) ? json_number_value(value) > 1
                               : !json_is_null(value) && !json_is_false(value);
}

/* Keys of an object: others than those that are known are errors where they are misspelt, else they are listed. */
static enum pz_status check_keys(struct reader *r, json_t *object, const char *prefix,
                                 const char *const *known, struct pz_error *err) {
  json_t *value;
  const char *key;
  json_object_foreach(object, key, value) {
    bool left_out = is_among(r->o->ignore, key), refused = is_among(zero_refused, key);
    if (is_among(known, key) || (refused && !left_out && !turns_on(value))) continue;
    const char *meant = refused || left_out ? NULL : pz_text_misspelt(key, listed_key, known);
    if (refused && !left_out)
      return pz_fail(err, PZ_BAD_INPUT,
                     "%s%s is not covered; accepted: the run without it (--ignore %s)", prefix, key,
                     key);
    if (meant)
      return pz_fail(err, PZ_BAD_INPUT,
                     "%s%.60s is no key; did you mean %s? (--ignore %.60s leaves it out)", prefix,
                     key, meant, key);
    ignore(r, pz_arena_printf(r->arena, "deepspeed.%s%.60s", prefix, key));
  }
  return PZ_OK;
}

/* What the configuration says besides the arguments.  Without a value stage 3 alone overlaps its communication; weights are
 * then fetched ahead, unless the bucket of what is fetched has no room (runtime/zero/config.py). */
static enum pz_status read_configuration(struct reader *r, json_t *j, struct pz_error *err) {
  static const struct {
    const char *key, *argument;
    enum pz_plan_field field;
  } same[] = {{"train_batch_size", "--global-batch-size", PZ_PLAN_BATCH},
              {"train_micro_batch_size_per_gpu", "--micro-batch-size", PZ_PLAN_MBS},
              {"zero_optimization.stage", "--zero-stage", PZ_PLAN_ZERO}};
  struct pz_plan *o = &r->out->plan;
  struct pz_fields f = {.name = "deepspeed.json", .root = j, .err = err};
  json_t *zero = json_object_get(j, "zero_optimization");
  const char *type = json_string_value(json_object_get(j, "communication_data_type"));
  const json_t *beside = json_object_get(zero, "overlap_comm");
  const json_t *prefetch = json_object_get(zero, "stage3_prefetch_bucket_size");
  const json_t *away = json_object_get(zero, "offload_optimizer");
  enum pz_status status = check_deepspeed(j, err);
  for (size_t i = 0; i < sizeof same / sizeof *same && status == PZ_OK; i++) {
    const json_t *value = pz_fields_value(&f, same[i].key);
    bool stage = same[i].field == PZ_PLAN_ZERO, told = stage || has(r, (int)same[i].field);
    int64_t own = stage ? o->zero : r->g[same[i].field].n;
    if (told && json_is_integer(value) && json_integer_value(value) != own)
      return pz_fail(err, PZ_BAD_INPUT, "%s is %lld; accepted: %lld, as %s", same[i].key,
                     (long long)json_integer_value(value), (long long)own, same[i].argument);
  }
  if (status == PZ_OK) status = check_keys(r, j, "", deepspeed_keys, err);
  if (status == PZ_OK) status = check_keys(r, zero, "zero_optimization.", zero_keys, err);
  if (status != PZ_OK) return status;
  bool grad = o->zero > 1 && (json_is_boolean(beside) ? json_is_true(beside) : o->zero == 3);
  bool ahead = !json_is_number(prefetch) || json_number_value(prefetch) > 0;
  o->overlap =
      (grad ? PZ_OVERLAP_GRAD : 0) | (grad && ahead && o->zero == 3 ? PZ_OVERLAP_PARAM : 0);
  o->grad_bytes = !type ? 0 : strcmp(type, "fp32") == 0 ? 4 : 2;
  if (!away) away = json_object_get(zero, "cpu_offload");
  const char *device = json_string_value(json_object_get(away, "device"));
  if (device && strcmp(device, "cpu") != 0 && strcmp(device, "none") != 0)
    return pz_fail(err, PZ_BAD_INPUT,
                   "zero_optimization.offload_optimizer.device is '%.20s'; accepted: cpu or none",
                   device);
  if (!away || !turns_on(away)) return PZ_OK;
  o->offload |= PZ_OFFLOAD_OPTIMIZER;
  r->out->from[PZ_PLAN_OFFLOAD] = "DeepSpeed's configuration";
  return PZ_OK;
}

/* DeepSpeed's configuration, where the script writes it. */
static enum pz_status read_deepspeed(struct reader *r) {
  struct pz_document d;
  struct pz_error why = {0};
  json_t *j = NULL;
  if (!pz_script_document(r->document, r->document_bytes, ".json", &d)) {
    note(r, "DeepSpeed's configuration is not in the script: overlap_comm and "
            "communication_data_type are predicted as by default");
    return read_configuration(r, NULL, r->err);
  }
  enum pz_status status = pz_json_parse("deepspeed.json", d.text, d.bytes, &j, &why);
  if (status == PZ_OK) status = read_configuration(r, j, &why);
  json_decref(j);
  if (status != PZ_OK)
    return pz_fail(r->err, status, "%s:%u: DeepSpeed's configuration: %s", r->name, d.line,
                   why.message);
  r->out->from[PZ_PLAN_OVERLAP] = "DeepSpeed's configuration";
  if (r->out->plan.grad_bytes > 0) r->out->from[PZ_PLAN_GRAD_BYTES] = "DeepSpeed's configuration";
  return PZ_OK;
}

/* Transfers between stages overlap with chunks alone, and then unless told otherwise. */
static enum pz_status read_overlap(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  bool grad = has(r, ARG_OVERLAP_GRAD), param = has(r, ARG_OVERLAP_PARAM);
  bool tp = has(r, ARG_OVERLAP_TP);
  r->out->p2p_off = has(r, ARG_NO_OVERLAP_P2P);
  o->overlap = (grad ? PZ_OVERLAP_GRAD : 0) | (param ? PZ_OVERLAP_PARAM : 0) |
               (tp ? PZ_OVERLAP_TP : 0) | (has(r, ARG_OVERLAP_EP) ? PZ_OVERLAP_EP : 0) |
               (o->vpp > 1 && !r->out->p2p_off ? PZ_OVERLAP_P2P : 0);
  o->grad_bytes = has(r, ARG_GRAD_BF16) ? 2 : 4;
  o->fused_loss = has(r, ARG_LOSS_FUSION) && says(r, ARG_LOSS_KERNEL, "te");
  if (param && !(o->zero && grad))
    return wrong(r, ARG_OVERLAP_PARAM,
                 "with it --overlap-grad-reduce and --use-distributed-optimizer");
  if (tp && o->tp > 1 && !has(r, ARG_SP))
    return wrong(r, ARG_OVERLAP_TP, "with it --sequence-parallel");
  enum pz_status status = read_host_layers(r);
  if (status != PZ_OK) return status;
  if (has(r, ARG_DEEPSPEED)) return read_deepspeed(r);
  status = read_moments(r);
  if (status == PZ_OK) status = read_host_optimizer(r);
  return status == PZ_OK ? read_copies(r) : status;
}

/* Layers in 16 bit at both ends, one unless it is said. */
static void read_wide_layers(struct reader *r) {
  if (!has(r, ARG_WIDE_LAYERS)) return;
  r->out->plan.bf16_first_layers = count(r, ARG_WIDE_START, 1);
  r->out->plan.bf16_layers = count(r, ARG_WIDE_END, 1);
}

static enum pz_status read_precision(struct reader *r) {
  static const char recipes[] = "delayed, tensorwise, blockwise or mxfp8";
  struct pz_plan *p = &r->out->plan;
  bool fp8 = has(r, ARG_FP8) || has(r, ARG_FP8_FORMAT), fp4 = has(r, ARG_FP4_FORMAT);
  p->precision = fp4                ? PZ_PRECISION_NVFP4
                 : fp8              ? PZ_PRECISION_FP8
                 : has(r, ARG_FP16) ? PZ_PRECISION_FP16
                                    : PZ_PRECISION_BF16;
  p->act_precision = has(r, ARG_FP8_ACTIVATION);
  enum pz_status status = need_word(r, ARG_FP8_FORMAT, "hybrid or e4m3");
  if (status == PZ_OK) status = need_word(r, ARG_FP4_FORMAT, "e2m1");
  if (status == PZ_OK && fp4 && fp8)
    return wrong(r, ARG_FP4_FORMAT, "--fp4-format or --fp8-format, not both");
  if (status == PZ_OK && fp4)
    status = need_word(r, ARG_FP4_RECIPE, "nvfp4; others are not covered");
  if (status == PZ_OK && fp8) status = need_word(r, ARG_FP8_RECIPE, recipes);
  if (fp8 && !fp4)
    p->fp8_recipe = says(r, ARG_FP8_RECIPE, "tensorwise")  ? PZ_FP8_CURRENT
                    : says(r, ARG_FP8_RECIPE, "blockwise") ? PZ_FP8_BLOCKWISE
                    : says(r, ARG_FP8_RECIPE, "mxfp8")     ? PZ_FP8_MX
                                                           : PZ_FP8_DELAYED;
  read_wide_layers(r);
  return status;
}

/* CUDA graphs of modules; without a scope, or with that of the whole iteration, of everything. */
static enum pz_status read_graphs(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  bool graph = has(r, ARG_GRAPH) || (has(r, ARG_GRAPH_IMPL) && !says(r, ARG_GRAPH_IMPL, "none"));
  bool modules = graph && has(r, ARG_GRAPH_SCOPE) && !says(r, ARG_GRAPH_SCOPE, "full") &&
                 !says(r, ARG_GRAPH_SCOPE, "full_iteration");
  o->execution = graph && !modules ? PZ_EXECUTION_GRAPH : PZ_EXECUTION_EAGER;
  if (!modules) return PZ_OK;
  mark(r, PZ_PLAN_CUDA_GRAPHS, ARG_GRAPH_SCOPE, ARG_GRAPH_SCOPE);
  if (pz_plan_field_read(o, PZ_PLAN_CUDA_GRAPHS, r->g[ARG_GRAPH_SCOPE].text, NULL) == PZ_OK)
    return PZ_OK;
  return wrong(r, ARG_GRAPH_SCOPE,
               "full_iteration, or attn, mlp, moe_router, moe_preprocess, mamba");
}

static enum pz_status read_kernels(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  enum pz_status status = need_word(r, ARG_BACKEND, "auto, flash, fused, unfused or local");
  if (status == PZ_OK) status = need_word(r, ARG_IMPLEMENTATION, "local or transformer_engine");
  if (status == PZ_OK)
    status = need_word(r, ARG_GRAPH_IMPL, "none, local, transformer_engine or full_iteration");
  if (status != PZ_OK) return status;
  bool plain = says(r, ARG_BACKEND, "unfused") || says(r, ARG_BACKEND, "local") ||
               (says(r, ARG_IMPLEMENTATION, "local") && !has(r, ARG_FLASH));
  if (has(r, ARG_DEEPSPEED))
    plain = !has(r, ARG_FLASH) && !has(r, ARG_FLASH1) && !has(r, ARG_FLASH2);
  o->attention = plain ? PZ_ATTENTION_STANDARD : PZ_ATTENTION_FLASH;
  o->attention_library = has(r, ARG_FLASH1)                                    ? "fa1"
                         : has(r, ARG_FLASH2) || says(r, ARG_BACKEND, "flash") ? "fa2"
                         : says(r, ARG_BACKEND, "fused")                       ? "cudnn"
                                                                               : "";
  if (o->attention_library[0]) mark(r, PZ_PLAN_ATTENTION_LIBRARY, ARG_BACKEND, ARG_BACKEND);
  return read_graphs(r);
}

/* ---- experts -------------------------------------------------------------------------------- */

static bool has_experts(const struct reader *r) { return count(r, ARG_EXPERTS, 0) > 0; }

/* Rows up to a capacity: padded to it every device computes so many, else what comes counts as even. */
static enum pz_status read_capacity(struct reader *r) {
  const struct given *g = &r->g[ARG_CAPACITY];
  if (!g->set) return PZ_OK;
  char *end = NULL;
  double factor = strtod(g->text, &end);
  if (!*g->text || *end || !(factor >= 1 && factor <= 1e6))
    return wrong(r, ARG_CAPACITY,
                 "a number from 1; experts that get less than the mean are not covered");
  if (has(r, ARG_PADS)) {
    r->out->plan.imbalance = factor;
    mark(r, PZ_PLAN_IMBALANCE, ARG_CAPACITY, ARG_CAPACITY);
  } else {
    note(r, "--moe-expert-capacity-factor without padding: an even load is predicted");
  }
  return PZ_OK;
}

/* Its default, allgather, gathers all tokens on every device; that of flex is DeepEP. */
static enum pz_status read_dispatcher(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  bool flex = says(r, ARG_DISPATCHER, "flex"), hybrid = says(r, ARG_FLEX_BACKEND, "hybridep");
  o->dispatcher = !flex    ? PZ_DISPATCHER_ALLTOALL
                  : hybrid ? PZ_DISPATCHER_HYBRIDEP
                           : PZ_DISPATCHER_DEEPEP;
  mark(r, PZ_PLAN_DISPATCHER, flex ? ARG_FLEX_BACKEND : ARG_DISPATCHER, ARG_DISPATCHER);
  if (o->ep == 1) return PZ_OK;
  if (!has(r, ARG_DISPATCHER))
    return wrong(r, PZ_PLAN_EP,
                 "with it --moe-token-dispatcher-type alltoall or flex (the default, "
                 "allgather, is not covered)");
  enum pz_status status =
      need_word(r, ARG_DISPATCHER, "alltoall or flex; other dispatchers are not covered");
  return status == PZ_OK && flex
             ? need_word(r, ARG_FLEX_BACKEND, "deepep or hybridep; other backends are not covered")
             : status;
}

static enum pz_status check_expert_overlap(struct reader *r) {
  const struct pz_plan *o = &r->out->plan;
  if (!has(r, ARG_OVERLAP_EP)) return PZ_OK;
  if (o->ep == 1 || (o->pp > 1 && o->vpp == 1) || o->recompute == PZ_RECOMPUTATION_FULL ||
      o->recompute_modules & PZ_MODULE_EXPERTS)
    return wrong(r, ARG_OVERLAP_EP,
                 "with it --expert-model-parallel-size above 1, chunks where there are "
                 "stages, and no recomputation of whole layers or of moe");
  mark(r, PZ_PLAN_OVERLAP, ARG_OVERLAP_EP, ARG_OVERLAP_EP);
  return PZ_OK;
}

/* Experts are divided as the other layers are, unless told. */
static enum pz_status read_experts(struct reader *r) {
  struct pz_plan *o = &r->out->plan;
  o->ep = count(r, PZ_PLAN_EP, 1);
  o->mtp = count(r, ARG_PREDICT_LAYERS, 0) > 0;
  if (!has_experts(r)) {
    if (o->ep > 1) return wrong(r, PZ_PLAN_EP, "1, or with it --num-experts");
    o->overlap &= ~PZ_OVERLAP_EP;
    return PZ_OK;
  }
  o->etp = count(r, PZ_PLAN_ETP, o->tp);
  if (o->tp > 1 && !o->sp)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: experts with --tensor-model-parallel-size above 1; accepted: with it "
                   "--sequence-parallel",
                   r->name);
  enum pz_status status = read_dispatcher(r);
  if (status == PZ_OK) status = check_expert_overlap(r);
  if (status == PZ_OK) status = read_capacity(r);
  if (status == PZ_OK && !has(r, ARG_GROUPED_PRODUCTS))
    note(r, "no --moe-grouped-gemm: the experts' products are predicted as grouped ones");
  return status;
}

/* Python's ([0]*3+[1]*58): lists in sums, repeated. */
struct pattern {
  const char *at;
  char *out; /* 0 and 1 by layer */
  size_t n, most;
  int depth;
};

/* Is the next character this one?  Then it and the spaces around it are passed. */
static bool passes(struct pattern *p, char c) {
  p->at += strspn(p->at, " ");
  if (*p->at != c) return false;
  p->at++;
  p->at += strspn(p->at, " ");
  return true;
}

/* Appends a sum of lists or sums in brackets, each times a number; false: it is none, or has too many layers. */
static bool read_pattern(struct pattern *p) {
  do {
    size_t from = p->n;
    if (passes(p, '(')) {
      if (p->depth++ == 8 || !read_pattern(p) || !passes(p, ')')) return false;
      p->depth--;
    } else if (passes(p, '[')) {
      do {
        if ((*p->at != '0' && *p->at != '1') || p->n == p->most) return false;
        p->out[p->n++] = *p->at++;
      } while (passes(p, ','));
      if (!passes(p, ']')) return false;
    } else {
      return false;
    }
    if (!passes(p, '*')) continue;
    size_t digits = strspn(p->at, "0123456789"), length = p->n - from;
    unsigned long times = digits && digits < 8 ? strtoul(p->at, NULL, 10) : p->most + 1;
    if (times > p->most || from + length * times > p->most) return false;
    for (size_t i = 1; i < times; i++) memcpy(p->out + from + i * length, p->out + from, length);
    p->n = from + length * times;
    p->at += digits;
  } while (passes(p, '+'));
  return true;
}

/* A text with 1 for each layer that has experts: all, every n-th from the first, or as a list says. */
static enum pz_status expert_layers(struct reader *r, const char **out) {
  const struct given *g = &r->g[ARG_EXPERT_LAYERS];
  size_t layers = (size_t)r->g[ARG_LAYERS].n;
  const char *text = g->set ? g->text : "1";
  static const char accepted[] = "a number of layers, or a list with 0 or 1 for each layer";
  if (layers > 65536) return wrong(r, ARG_LAYERS, "at most 65536");
  struct pattern p = {.at = text, .out = pz_arena_alloc(r->arena, layers + 1, 1), .most = layers};
  if (!p.out) return no_memory(r);
  *out = p.out;
  size_t digits = strspn(text, "0123456789");
  if (digits && !text[digits]) {
    unsigned long every = digits < 8 ? strtoul(text, NULL, 10) : 0;
    if (!every) return wrong(r, ARG_EXPERT_LAYERS, accepted);
    for (size_t i = 0; i < layers; i++) p.out[i] = i % every ? '0' : '1';
    return PZ_OK;
  }
  if (!read_pattern(&p) || *p.at || p.n != layers) return wrong(r, ARG_EXPERT_LAYERS, accepted);
  return PZ_OK;
}

/* ---- the model ------------------------------------------------------------------------------ */

struct shape {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, positions;
  double hidden_dropout, attention_dropout;
};

/* Vocabularies that a tokenizer's name fixes. */
static int64_t tokenizer_vocab(const struct reader *r) {
  if (says(r, ARG_TOKENIZER, "GPT2BPETokenizer")) return 50257;
  return says(r, ARG_TOKENIZER, "Llama2Tokenizer") ? 32000 : 0;
}

/* Before it is padded, as Megatron does it for any plan (vocab_multiple in frameworks.def); with another multiple than the
 * usual 128, or where the padded one is named, padded for this plan. */
static enum pz_status read_vocab(struct reader *r, int64_t *out) {
  int64_t own = count(r, ARG_VOCAB_MULTIPLE, 128), unit = own == 128 ? 1 : own * r->out->plan.tp;
  int64_t vocab = r->o->vocab ? r->o->vocab : count(r, ARG_VOCAB, tokenizer_vocab(r));
  if (!r->o->vocab && has(r, ARG_PADDED_VOCAB)) return *out = r->g[ARG_PADDED_VOCAB].n, PZ_OK;
  if (!vocab)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: the size of the vocabulary is not stated; accepted: --vocab N, or "
                   "--vocab-size or --padded-vocab-size among the arguments",
                   r->name);
  *out = pz_ceil_div(vocab, unit) * unit;
  return PZ_OK;
}

/* Families with norms of query and key, experts or latent attention. */
static enum pz_status check_new_shape(struct reader *r) {
  bool experts = has_experts(r), norms = has(r, ARG_QK_NORM), latent = has(r, ARG_LATENT);
  bool biases = !has(r, ARG_NO_BIAS) || has(r, ARG_QKV_BIAS);
  if (is_delta(r) && !(norms && has(r, ARG_OUT_GATE) && says(r, ARG_VARIANT, "gated_delta_net")))
    return wrong(r, ARG_VARIANT, "gated_delta_net with --qk-layernorm and --attention-output-gate");
  if (latent && has(r, ARG_GROUPED))
    return wrong(r, ARG_GROUPED, "--group-query-attention or --multi-latent-attention, not both");
  if (!experts && !norms && !latent && !r->out->plan.mtp) return PZ_OK;
  const char *what = experts  ? "experts"
                     : latent ? "latent attention"
                     : norms  ? "norms of query and key"
                              : "multi-token prediction";
  if (!has(r, ARG_SWIGLU) || biases)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: %s in a model with %s is not covered; accepted: with --swiglu and "
                   "--disable-bias-linear, without --add-qkv-bias",
                   r->name, what, biases ? "biases" : "gelu");
  if ((latent && !experts) || (r->out->plan.mtp && !latent && !is_delta(r)))
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: %s without %s is not covered; accepted: with it",
                   r->name, latent ? "--multi-latent-attention" : "--mtp-num-layers",
                   latent ? "--num-experts" : "--multi-latent-attention");
  return PZ_OK;
}

static bool is_rotary(const struct reader *r) {
  return says(r, ARG_POSITION_TYPE, "rope") || has(r, ARG_ROTARY);
}

/* As Megatron writes it, or its DeepSpeed branch. */
static bool is_rms(const struct reader *r) {
  return says(r, ARG_NORM, "RMSNorm") || says(r, ARG_NORM, "rmsnorm");
}

/* Nemotron's alone. */
static enum pz_status check_letters(struct reader *r) {
  if (!has(r, ARG_SQUARED) || has(r, ARG_SWIGLU) || !is_rms(r) || !has(r, ARG_NO_BIAS) ||
      !says(r, ARG_POSITION_TYPE, "none") || has(r, ARG_QK_NORM) || has(r, ARG_LATENT))
    return wrong(r, ARG_PATTERN,
                 "with it --squared-relu, --normalization RMSNorm, --disable-bias-linear and "
                 "--position-embedding-type none, as Nemotron has them");
  if (!strchr(r->letters, 'E') != !has_experts(r))
    return wrong(r, ARG_PATTERN, "a letter E with --num-experts, and none without");
  return has_experts(r) ? need(r, ARG_SHARED_FFN, "moe-shared-expert-intermediate-size") : PZ_OK;
}

static enum pz_status check_shape(struct reader *r) {
  bool gated = has(r, ARG_SWIGLU), rms = is_rms(r), rotary = is_rotary(r);
  enum pz_status status = need(r, ARG_HIDDEN, "hidden-size");
  if (status == PZ_OK) status = need(r, ARG_HEADS, "num-attention-heads");
  if (status == PZ_OK) status = check_hybrid_arguments(r);
  if (status == PZ_OK && r->letters) return check_letters(r);
  if (status == PZ_OK && !says(r, ARG_NORM, "layernorm") && !is_rms(r))
    status = need_word(r, ARG_NORM, "LayerNorm or RMSNorm");
  if (status == PZ_OK) status = need_word(r, ARG_POSITION_TYPE, "learned_absolute or rope");
  if (status != PZ_OK) return status;
  if (gated != rms || (gated && !rotary))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: a model with %s, %s and %s is not covered; accepted: GPT (gelu, LayerNorm) "
                   "or Llama (--swiglu, --normalization RMSNorm, --position-embedding-type rope)",
                   r->name, gated ? "swiglu" : "gelu", rms ? "RMSNorm" : "LayerNorm",
                   rotary ? "rotary positions" : "learned positions");
  if (!gated && count(r, ARG_KV_HEADS, r->g[ARG_HEADS].n) != r->g[ARG_HEADS].n)
    return wrong(r, ARG_KV_HEADS, "--num-attention-heads, or with --swiglu");
  if (!gated && has(r, ARG_GROUPED) && r->g[ARG_GROUPS].n != r->g[ARG_HEADS].n)
    return pz_fail(
        r->err, PZ_BAD_INPUT,
        "%s:%u: --group-query-attention with gelu is not covered; accepted: with --swiglu", r->name,
        r->g[ARG_GROUPED].line);
  return check_new_shape(r);
}

static double dropout(const struct reader *r, int v) { return has(r, v) ? r->g[v].real : 0.1; }

static enum pz_status read_shape(struct reader *r, struct shape *x) {
  enum pz_status status = check_shape(r);
  if (status != PZ_OK) return status;
  int64_t hidden = r->g[ARG_HIDDEN].n, heads = r->g[ARG_HEADS].n;
  bool gated = has(r, ARG_SWIGLU);
  *x = (struct shape){.layers = r->g[ARG_LAYERS].n,
                      .hidden = hidden,
                      .heads = heads,
                      .head_dim = count(r, ARG_KV_CHANNELS, hidden / heads),
                      .kv_heads = has(r, ARG_GROUPED) ? count(r, ARG_GROUPS, 1)
                                                      : count(r, ARG_KV_HEADS, heads),
                      .ffn = count(r, ARG_FFN, gated ? hidden * 8 / 3 / 64 * 64 : 4 * hidden),
                      .positions = count(r, ARG_POSITIONS, count(r, PZ_PLAN_SEQ, 0)),
                      .hidden_dropout = dropout(r, ARG_HIDDEN_DROPOUT),
                      .attention_dropout = dropout(r, ARG_ATTENTION_DROPOUT)};
  if (!has(r, ARG_KV_CHANNELS) && !has(r, ARG_LATENT) && hidden % heads)
    return wrong(r, ARG_HEADS, "a number that divides --hidden-size, or --kv-channels");
  if (!gated && !r->letters && x->head_dim * heads != hidden)
    return wrong(r, ARG_KV_CHANNELS, "hidden-size / num-attention-heads, or with --swiglu");
  return read_vocab(r, &x->vocab);
}

/* What a model with experts can be: with latent attention DeepSeek-V3's, with norms of query and key Qwen3's, else
 * Mixtral's. */
static enum pz_status check_experts(struct reader *r, int64_t width, const char *layers) {
  int64_t experts = r->g[ARG_EXPERTS].n, shared = count(r, ARG_SHARED_FFN, 0);
  bool latent = has(r, ARG_LATENT), norms = has(r, ARG_QK_NORM);
  if (count(r, ARG_TOPK, 2) > experts) return wrong(r, ARG_EXPERTS, "at least the top k");
  if (experts % r->out->plan.ep) return wrong(r, PZ_PLAN_EP, "a number that divides the experts");
  if (latent && strchr(layers + strspn(layers, "0"), '0'))
    return wrong(r, ARG_EXPERT_LAYERS, "dense layers at the start alone, with latent attention");
  if (latent && shared % width)
    return wrong(r, ARG_SHARED_FFN, "a multiple of --moe-ffn-hidden-size");
  if (latent && !norms)
    note(r, "no --qk-layernorm: norms of the latent queries, keys and values are predicted all the "
            "same");
  if (latent) return need(r, ARG_KV_RANK, "kv-lora-rank");
  if (is_delta(r)) return need(r, ARG_SHARED_FFN, "moe-shared-expert-intermediate-size");
  if (shared) return wrong(r, ARG_SHARED_FFN, "with it --multi-latent-attention");
  if (!norms && strchr(layers, '0'))
    return wrong(r, ARG_EXPERT_LAYERS,
                 "experts in every layer, or --qk-layernorm or --multi-latent-attention");
  return PZ_OK;
}

static void put(FILE *out, const char *name, int64_t n) {
  fprintf(out, ",\"%s\":%" PRId64, name, n);
}

static void put_truth(FILE *out, const char *name, bool on) {
  fprintf(out, ",\"%s\":%s", name, on ? "true" : "false");
}

static void put_latent(const struct reader *r, int64_t width, const char *layers, FILE *out) {
  put(out, "n_routed_experts", r->g[ARG_EXPERTS].n);
  put(out, "n_shared_experts", count(r, ARG_SHARED_FFN, 0) / width);
  put(out, "first_k_dense_replace", (int64_t)strspn(layers, "0"));
  put(out, "n_group", count(r, ARG_EXPERT_GROUPS, 1));
  put(out, "topk_group", count(r, ARG_GROUP_TOPK, 1));
  if (has(r, ARG_Q_RANK))
    put(out, "q_lora_rank", r->g[ARG_Q_RANK].n);
  else
    fputs(",\"q_lora_rank\":null", out);
  put(out, "kv_lora_rank", r->g[ARG_KV_RANK].n);
  put(out, "qk_nope_head_dim", count(r, ARG_NOPE_DIM, 128));
  put(out, "qk_rope_head_dim", count(r, ARG_ROPE_DIM, 64));
  put(out, "v_head_dim", count(r, ARG_V_DIM, 128));
  put(out, "num_nextn_predict_layers", count(r, ARG_PREDICT_LAYERS, 0));
}

static void put_experts(const struct reader *r, int64_t width, const char *layers, FILE *out) {
  const char *between = ",\"mlp_only_layers\":[";
  put(out, "num_experts_per_tok", count(r, ARG_TOPK, 2));
  put(out, "moe_intermediate_size", width);
  if (has(r, ARG_LATENT)) {
    put_latent(r, width, layers, out);
    return;
  }
  put(out, has(r, ARG_QK_NORM) ? "num_experts" : "num_local_experts", r->g[ARG_EXPERTS].n);
  for (size_t i = 0; layers[i]; i++) {
    if (layers[i] == '1') continue;
    fprintf(out, "%s%zu", between, i);
    between = ",";
  }
  if (strchr(layers, '0')) fputc(']', out);
}

/* What all configurations but GPT-2's call alike. */
static void put_shape(const struct reader *r, const struct shape *x, FILE *out) {
  put(out, "hidden_size", x->hidden);
  put(out, "num_attention_heads", x->heads);
  put(out, "intermediate_size", x->ffn);
  put(out, "vocab_size", x->vocab);
  put(out, "max_position_embeddings", x->positions);
  put_truth(out, "tie_word_embeddings", !has(r, ARG_UNTIED));
  fprintf(out, ",\"attention_dropout\":%g", x->attention_dropout);
}

static void put_nemotron(const struct reader *r, const struct shape *x, int64_t width, FILE *out) {
  int64_t dim = count(r, ARG_MAMBA_HEAD_DIM, 64);
  put_shape(r, x, out);
  put(out, "num_key_value_heads", x->kv_heads);
  put(out, "head_dim", x->head_dim);
  fprintf(out, ",\"hidden_dropout\":%g", x->hidden_dropout);
  fprintf(out, ",\"hybrid_override_pattern\":\"%s\"", r->letters);
  put(out, "mamba_num_heads", count(r, ARG_MAMBA_HEADS, pz_max(2 * x->hidden / dim, 1)));
  put(out, "mamba_head_dim", dim);
  put(out, "ssm_state_size", count(r, ARG_MAMBA_STATE, 128));
  put(out, "n_groups", count(r, ARG_MAMBA_GROUPS, 8));
  put(out, "num_nextn_predict_layers", count(r, ARG_PREDICT_LAYERS, 0));
  if (*r->predict) fprintf(out, ",\"mtp_hybrid_override_pattern\":\"%s\"", r->predict);
  if (!has_experts(r)) return;
  put(out, "n_routed_experts", r->g[ARG_EXPERTS].n);
  put(out, "num_experts_per_tok", count(r, ARG_TOPK, 2));
  put(out, "moe_intermediate_size", width);
  put(out, "moe_shared_expert_intermediate_size", r->g[ARG_SHARED_FFN].n);
  if (has(r, ARG_MOE_LATENT)) put(out, "moe_latent_size", r->g[ARG_MOE_LATENT].n);
  put(out, "n_group", count(r, ARG_EXPERT_GROUPS, 1));
  put(out, "topk_group", count(r, ARG_GROUP_TOPK, 1));
}

static void put_delta(const struct reader *r, FILE *out) {
  double part = has(r, ARG_ROTARY_PART) ? strtod(r->g[ARG_ROTARY_PART].text, NULL) : 1;
  put(out, "full_attention_interval", count(r, ARG_DELTA_PERIOD, 4));
  put(out, "linear_conv_kernel_dim", count(r, ARG_DELTA_CONV, 4));
  put(out, "linear_key_head_dim", count(r, ARG_DELTA_KEY_DIM, 128));
  put(out, "linear_value_head_dim", count(r, ARG_DELTA_VALUE_DIM, 128));
  put(out, "linear_num_key_heads", count(r, ARG_DELTA_KEYS, 16));
  put(out, "linear_num_value_heads", count(r, ARG_DELTA_VALUES, 32));
  if (has_experts(r)) put(out, "shared_expert_intermediate_size", r->g[ARG_SHARED_FFN].n);
  if (part >= 0 && part <= 1) fprintf(out, ",\"partial_rotary_factor\":%g", part);
  put(out, "mtp_num_hidden_layers", count(r, ARG_PREDICT_LAYERS, 0));
}

static void put_gpt2(const struct reader *r, const struct shape *x, FILE *out) {
  put(out, "n_embd", x->hidden);
  put(out, "n_layer", x->layers);
  put(out, "n_head", x->heads);
  put(out, "n_inner", x->ffn);
  put(out, "vocab_size", x->vocab);
  put(out, "n_positions", x->positions);
  fprintf(out, ",\"resid_pdrop\":%g,\"embd_pdrop\":%g,\"attn_pdrop\":%g", x->hidden_dropout,
          x->hidden_dropout, x->attention_dropout);
  put_truth(out, "tie_word_embeddings", !has(r, ARG_UNTIED));
}

static void put_llama(const struct reader *r, const struct shape *x, FILE *out) {
  bool latent = has(r, ARG_LATENT), biases = !has(r, ARG_NO_BIAS);
  put(out, "num_hidden_layers", x->layers);
  put_shape(r, x, out);
  if (!has(r, ARG_SWIGLU)) {
    fprintf(out,
            ",\"hidden_act\":\"gelu\",\"hidden_dropout\":%g,\"rotary_pct\":1.0,"
            "\"use_parallel_residual\":false",
            x->hidden_dropout);
    return;
  }
  fputs(",\"hidden_act\":\"silu\"", out);
  put(out, "num_key_value_heads", latent ? x->heads : x->kv_heads);
  if (!latent) put(out, "head_dim", x->head_dim);
  if (has_experts(r) || (has(r, ARG_QKV_BIAS) && !biases)) return;
  put_truth(out, "attention_bias", biases);
  put_truth(out, "mlp_bias", biases);
}

/* The family that its shape is of: Llama's (Qwen2's with a bias on query, key and value alone), GPT-2's, or with rotary
 * positions GPT-NeoX's without its parallel residual. */
static const char *family_of(const struct reader *r) {
  bool norms = has(r, ARG_QK_NORM);
  if (r->letters) return "nemotron_h";
  if (is_delta(r)) return has_experts(r) ? "qwen3_next" : "qwen3_5_text";
  if (has_experts(r)) return has(r, ARG_LATENT) ? "deepseek_v3" : norms ? "qwen3_moe" : "mixtral";
  if (!has(r, ARG_SWIGLU)) return is_rotary(r) ? "gpt_neox" : "gpt2";
  return has(r, ARG_QKV_BIAS) && has(r, ARG_NO_BIAS) ? "qwen2" : norms ? "qwen3" : "llama";
}

/* The model as a configuration. */
static const char *config_text(const struct reader *r, const struct shape *x, int64_t width,
                               const char *layers) {
  struct pz_buffer b = {.text = NULL};
  FILE *out = pz_buffer_stream(&b);
  if (!out) return NULL;
  fprintf(out, "{\"model_type\":\"%s\"", family_of(r));
  if (r->letters)
    put_nemotron(r, x, width, out);
  else if (has(r, ARG_SWIGLU) || is_rotary(r))
    put_llama(r, x, out);
  else
    put_gpt2(r, x, out);
  if (layers) put_experts(r, width, layers, out);
  if (is_delta(r)) put_delta(r, out);
  fputc('}', out);
  char *text = pz_buffer_close(out) ? pz_arena_strdup(r->arena, b.text) : NULL;
  pz_free(b.text);
  return text;
}

static enum pz_status read_model(struct reader *r) {
  struct shape x = {.layers = 0};
  struct pz_run_plan *run = r->out;
  const char *layers = NULL;
  bool experts = has_experts(r), gated = has(r, ARG_SWIGLU);
  enum pz_status status = read_shape(r, &x);
  if (status != PZ_OK) return status;
  int64_t width = count(r, ARG_EXPERT_FFN, x.ffn);
  if (r->letters) experts = false; /* which layers have them, the letters say */
  if (experts) status = expert_layers(r, &layers);
  if (experts && status == PZ_OK) status = check_experts(r, width, layers);
  if (status != PZ_OK) return status;
  if (experts && !has(r, ARG_LATENT) && !has(r, ARG_QK_NORM))
    x.ffn = width; /* Mixtral's layers are all of experts */
  run->model = pz_arena_printf(r->arena, "%s %" PRId64 " x %" PRId64,
                               r->letters || is_delta(r) ? "hybrid"
                               : experts                 ? "MoE"
                               : gated                   ? "Llama"
                                                         : "GPT",
                               x.layers, x.hidden);
  run->config = config_text(r, &x, width, layers);
  if (!run->model || !run->config) return no_memory(r);
  r->out->layers = x.layers;
  r->out->vocab = x.vocab;
  if (gated && x.hidden_dropout > 0)
    note(r, "dropout of hidden states is not counted for Llama's shape (--hidden-dropout "
            "0 turns it off; Megatron's default is 0.1)");
  return PZ_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static enum pz_status read_all(struct reader *r, const char *text, size_t bytes) {
  static enum pz_status (*const steps[])(struct reader *) = {
      read_numbers, read_devices,   read_batch,   read_stages,  read_recompute, read_sharding,
      read_overlap, read_precision, read_experts, read_kernels, read_model};
  enum pz_status status =
      pz_shell_read(r->name, text, bytes, r->o->set, r->arena, &r->text, r->err);
  if (status == PZ_OK) status = read_words(r);
  if (status == PZ_OK) status = read_letters(r);
  if (status == PZ_OK) status = need(r, ARG_LAYERS, "num-layers");
  for (size_t i = 0; i < sizeof steps / sizeof *steps && status == PZ_OK; i++) status = steps[i](r);
  for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
    if (!r->out->from[origins[i].field])
      mark(r, origins[i].field, origins[i].argument, origins[i].argument);
  return status == PZ_OK && r->lost ? no_memory(r) : status;
}

enum pz_status pz_megatron_read(const char *name, const char *text, size_t bytes,
                                const struct pz_run_plan_options *o, struct pz_arena *arena,
                                struct pz_run_plan *out, struct pz_error *err) {
  struct pz_run_plan m = {.size = sizeof m, .megatron = true};
  struct reader *r = pz_arena_alloc(arena, 1, sizeof *r);
  if (!r) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  *r = (struct reader){.name = name,
                       .o = o,
                       .arena = arena,
                       .document = text,
                       .document_bytes = bytes,
                       .out = &m,
                       .err = err};
  pz_vec_init(&r->ignored, arena, sizeof(const char *));
  pz_vec_init(&r->notes, arena, sizeof(const char *));
  enum pz_status status = read_all(r, text, bytes);
  if (status != PZ_OK) return status;
  m.megatron = !has(r, ARG_DEEPSPEED);
  m.from[PZ_PLAN_FRAMEWORK] = m.megatron ? "Megatron's arguments" : "--deepspeed";
  if (m.plan.moment_bytes > 0) pz_moments_settle(&m.plan, has_experts(r));
  m.ignored = r->ignored.items;
  m.n_ignored = r->ignored.n;
  m.notes = r->notes.items;
  m.n_notes = r->notes.n;
  *out = m;
  return PZ_OK;
}
