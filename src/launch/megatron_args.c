/* Reader of Megatron-LM's arguments: from the words of a launch script to the values of arguments.
 *
 * pz_megatron_read() splits the script into words (shell_words.h).  read_words() finds the
 * arguments among them, including misspelt ones, and read_argument() looks each one up: in the
 * plan's fields and megatron_arguments.def, in the table of arguments that are not covered, and in
 * the list of those that do not change the step.  Other files then turn the values into a plan and
 * a model (megatron_reader.h). */
#include "launch/megatron_args.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "launch/megatron_reader.h"
#include "launch/run_readers.h"

enum { MOST_NOTES_ON_WORDS = 20, MOST_IGNORED = 1000, MOST_COMPARED = 4096, MOST_NUMBER = 1 << 26 };

/* ---- tables --------------------------------------------------------------------------------- */

/* The types of arguments' values, which megatron_arguments.def describes. */
enum kind { FLAG, COUNT, AMOUNT, REAL, WORD, LIST };

/* Arguments that are read. */
static const struct argument {
  const char *name;
  enum kind kind;
  int value;     /* the number of the argument: ARG_... or PZ_PLAN_... */
  bool is_slurm; /* an option of Slurm in a comment #SBATCH, not an argument of Megatron */
} arguments[] = {
#define ARGUMENT(id, kind, name) {name, kind, ARG_##id, false},
#define ALSO(value, kind, name) {name, kind, value, false},
#define SBATCH(id, kind, name) {name, kind, ARG_##id, true},
#include "launch/megatron_arguments.def"
};
enum { N_ARGUMENTS = sizeof arguments / sizeof *arguments };

/* clang-format off */
/* Arguments that change the step and are not covered.  A final star stands for any rest. */
static const struct refused_argument {
  const char *name;
  const char *effect;  /* what the argument changes, for messages */
  const char *neutral; /* a value that has no effect, or NULL */
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
    {"checkpoint-activations", "an argument of old versions (now --recompute-activations or --recompute-granularity)", NULL}};
/* clang-format on */
enum { N_REFUSALS = sizeof refusals / sizeof *refusals };

/* clang-format off */
/* Arguments that do not change the time of a step.  A * stands for any end of a name. */
static const char *const neutral_arguments[] = {
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
    /* arguments of forks of Megatron-LM and of their checkpoint converters */
    "transformer-type", "patch-size", "target-tensor-model-parallel-size", "target-pipeline-model-parallel-size",
    /* Megatron-DeepSpeed */
    "deepspeed-config", "deepspeed-activation-checkpointing", "no-pipeline-parallel", "layernorm-epsilon", "no-query-key-layer-scaling",
    /* launchers */
    "ntasks*", "nodes", "gres*", "gpus*", "cpus-per-task", "container-*", "no-container-*", "export*", "job-name", "output", "error", "label", "mpi",
    "time", "partition", "account", "kill-on-bad-exit", "hostfile", "hostname", "help", "module", "no-python", NULL,
};
/* clang-format on */

/* ---- names ---------------------------------------------------------------------------------- */

/* Returns a dash for an underscore, and any other character unchanged. */
static char with_dash(char c) { return c == '_' ? '-' : c; }

/* Returns whether a name, up to its "=", matches a pattern of the tables.  Dashes and underscores
 * are the same, and a star at the end of the pattern matches any rest. */
static bool name_matches(const char *pattern, const char *name) {
  for (; *pattern && *pattern != '*'; pattern++, name++)
    if (with_dash(*pattern) != with_dash(*name)) return false;
  return *pattern == '*' || !*name || *name == '=';
}

/* Returns whether a name matches a list of patterns, some of which may begin with "--". */
bool pz_name_is_among(const char *const *patterns, const char *name) {
  for (; patterns && *patterns; patterns++) {
    const char *pattern = strncmp(*patterns, "--", 2) == 0 ? *patterns + 2 : *patterns;
    if (name_matches(pattern, name)) return true;
  }
  return false;
}

/* Returns Megatron's argument for a field of the plan, without its dashes, or NULL. */
static const char *plan_argument_name(int field) {
  const char *name = pz_plan_field((enum pz_plan_field)field)->in[PZ_LAUNCH_MEGATRON];
  return name ? name + 2 : NULL;
}

/* Copies to *out the table row of an argument that is read or, if `is_slurm`, of an option of
 * Slurm.  Returns false if there is none. */
static bool find_argument(const char *name, bool is_slurm, struct argument *out) {
  for (int field = 0; field < PZ_PLAN_FIELDS && !is_slurm; field++) {
    const char *plan_argument = plan_argument_name(field);
    if (!plan_argument || !name_matches(plan_argument, name)) continue;
    *out = (struct argument){plan_argument, COUNT, field, false};
    return true;
  }
  for (size_t i = 0; i < N_ARGUMENTS; i++) {
    if (arguments[i].is_slurm != is_slurm || !name_matches(arguments[i].name, name)) continue;
    *out = arguments[i];
    return true;
  }
  return false;
}

/* Returns whether an argument, given without its dashes, is read. */
bool pz_megatron_reads(const char *name) {
  struct argument found;
  return find_argument(name, false, &found);
}

/* Returns the table row of an argument that is not covered, or NULL. */
static const struct refused_argument *find_refused(const char *name) {
  for (size_t i = 0; i < N_REFUSALS; i++)
    if (name_matches(refusals[i].name, name)) return &refusals[i];
  return NULL;
}

/* Returns the i-th name that a misspelt word may stand for, or NULL after the last (pz_name_at):
 * an argument of the plan's fields, another one that is read, or one that is refused by its full
 * name. */
static const char *suggested_name(const void *ctx, size_t i) {
  size_t n = 0;
  (void)ctx;
  for (int field = 0; field < PZ_PLAN_FIELDS; field++) {
    const char *name = plan_argument_name(field);
    if (name && n == i) return name;
    n += name != NULL;
  }
  for (size_t k = 0; k < N_ARGUMENTS; k++) {
    if (!arguments[k].is_slurm && n == i) return arguments[k].name;
    n += !arguments[k].is_slurm;
  }
  for (size_t k = 0; k < N_REFUSALS; k++) {
    bool is_full_name = !strchr(refusals[k].name, '*');
    if (is_full_name && n == i) return refusals[k].name;
    n += is_full_name;
  }
  return NULL;
}

/* Returns the name of the argument that a misspelt word is probably meant for, or NULL: that of a
 * plan's field such as "tp", one that differs only in dashes and underscores, or a similar name.
 * NULL is also returned for the full name of an argument without effect on the step, which is not
 * misspelt. */
static const char *find_meant_name(struct pz_megatron_reader *reader, const char *given) {
  char name[80];
  struct argument found;
  pz_text_copy(name, sizeof name, given);
  name[strcspn(name, "=")] = '\0';
  enum pz_plan_field field = pz_plan_field_find(name);
  for (char *c = name; *c; c++) *c = with_dash(*c);
  if (field != PZ_PLAN_FIELDS && plan_argument_name((int)field))
    return plan_argument_name((int)field);
  if (find_argument(name, false, &found)) return found.name;
  bool too_many = reader->n_compared > MOST_COMPARED; /* each comparison goes through all names */
  reader->n_compared++;
  if (too_many) return NULL;
  /* a match with a pattern such as data-* proves nothing, because misspelt names match it too */
  for (const char *const *known = neutral_arguments; *known; known++) {
    bool is_pattern = strchr(*known, '*') != NULL;
    if (!is_pattern && name_matches(*known, name)) return NULL;
  }
  return pz_text_misspelt(name, suggested_name, NULL);
}

/* ---- values that were given ----------------------------------------------------------------- */

bool pz_given(const struct pz_megatron_reader *reader, int argument) {
  return reader->given[argument].is_given;
}

int64_t pz_given_count(const struct pz_megatron_reader *reader, int argument, int64_t absent) {
  return pz_given(reader, argument) ? reader->given[argument].count : absent;
}

bool pz_given_is(const struct pz_megatron_reader *reader, int argument, const char *text) {
  return pz_given(reader, argument) && strcmp(reader->given[argument].text, text) == 0;
}

/* Raises the error that an argument has a wrong value; `accepted` is the rule. */
_Noreturn void pz_reject_given(struct pz_megatron_reader *reader, int argument,
                               const char *accepted) {
  const struct pz_given_argument *given = &reader->given[argument];
  const char *value = given->text ? given->text : "without a value";
  if (given->is_flag) value = "";
  pz_raise_at(reader->call, PZ_BAD_INPUT, reader->name, (int)given->line, 0,
              "%s:%u: --%s%s%.60s; accepted: %s", reader->name, given->line, given->name,
              *value ? " " : "", value, accepted);
}

/* Raises an error if an argument was not given; `name` is its name. */
void pz_need_given(struct pz_megatron_reader *reader, int argument, const char *name) {
  if (!pz_given(reader, argument))
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s: no --%s among the arguments; accepted: a plan in JSON, torchtitan's TOML, or a "
             "script with them",
             reader->name, name);
}

/* Raises an error if an argument was given with a word that is not in `accepted`, such as "auto,
 * flash or local; others are not covered".  Text after a semicolon is only shown in the message. */
void pz_need_given_word(struct pz_megatron_reader *reader, int argument, const char *accepted) {
  if (!pz_given(reader, argument)) return;
  const char *given = reader->given[argument].text;
  const char *word = accepted;
  while (*word && *word != ';') {
    size_t n = strcspn(word, ", ;");
    bool is_conjunction = n == 2 && memcmp(word, "or", n) == 0;
    if (!is_conjunction && n == strlen(given) && memcmp(word, given, n) == 0) return;
    word += n;
    word += strspn(word, ", ");
  }
  pz_reject_given(reader, argument, accepted);
}

/* Notes that a field of the plan comes from `argument`, or from `other` if only that was given. */
void pz_set_origin(struct pz_megatron_reader *reader, int field, int argument, int other) {
  const struct pz_given_argument *given = &reader->given[argument];
  if (!given->is_given) given = &reader->given[other];
  if (given->is_given)
    reader->run->from[field] = pz_format(reader->call, "--%s, line %u", given->name, given->line);
}

void pz_megatron_add_note(struct pz_megatron_reader *reader, const char *note) {
  pz_append(reader->call, &reader->notes, &note);
}

/* Lists a name as ignored, once. */
void pz_add_ignored(struct pz_megatron_reader *reader, const char *name) {
  for (uint32_t i = 0; i < reader->ignored.n; i++)
    if (strcmp(*pz_vec_at(&reader->ignored, const char *, i), name) == 0) return;
  if (reader->ignored.n < MOST_IGNORED) pz_append(reader->call, &reader->ignored, &name);
}

/* ---- reading one argument ------------------------------------------------------------------- */

/* Returns the i-th word of the script. */
static struct pz_shell_word *word_at(const struct pz_megatron_reader *reader, uint32_t i) {
  return pz_vec_at(&reader->words.words, struct pz_shell_word, i);
}

/* Parses the text of an argument as a number and stores it in the argument's count or real. */
static void read_number(struct pz_megatron_reader *reader, int argument, enum kind kind) {
  struct pz_given_argument *given = &reader->given[argument];
  if (given->unknown)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: --%s is '%.60s', and %s has no value in the text; accepted: --set "
             "NAME=VALUE, or a number in its place",
             reader->name, given->line, given->name, given->text, given->unknown);
  if (kind == REAL) {
    char *end = NULL;
    given->real = strtod(given->text, &end);
    bool is_fraction = *given->text && !*end && given->real >= 0 && given->real < 1;
    if (!is_fraction) pz_reject_given(reader, argument, "a number from 0 to below 1");
    return;
  }
  size_t digits = strspn(given->text, "0123456789");
  int64_t least = kind == COUNT ? 1 : 0;
  bool is_number = digits > 0 && digits <= 9 && !given->text[digits];
  if (is_number) given->count = strtoll(given->text, NULL, 10);
  if (!is_number || given->count < least || given->count > MOST_NUMBER)
    pz_reject_given(reader, argument,
                    kind == AMOUNT ? "an integer from 0 to 2^26" : "an integer from 1 to 2^26");
}

/* Returns the text of an argument as an integer from 1 to 2^26. */
int64_t pz_read_given_count(struct pz_megatron_reader *reader, int argument) {
  read_number(reader, argument, COUNT);
  return reader->given[argument].count;
}

/* Returns the value of the argument at word i: the text after `equals`, otherwise the next word, or
 * for a list all words up to the next argument, joined by blanks.  Returns NULL if there is none.
 * *unknown is set to a part whose value is unknown, or NULL. */
static const char *find_value(const struct pz_megatron_reader *reader, uint32_t i,
                              const char *equals, bool is_list, const char **unknown) {
  const char *text = equals ? equals + 1 : NULL;
  *unknown = equals ? word_at(reader, i)->unknown : NULL;
  bool needs_more_words = !text || is_list;
  for (uint32_t k = i + 1; k < reader->words.words.n && needs_more_words; k++) {
    const struct pz_shell_word *word = word_at(reader, k);
    if (word->is_first || strncmp(word->text, "--", 2) == 0) break;
    if (text && strlen(text) > PZ_SHELL_MOST_VALUE) break;
    if (word->unknown) *unknown = word->unknown;
    text = text ? pz_format(reader->call, "%s %s", text, word->text) : word->text;
    needs_more_words = is_list;
  }
  return text;
}

/* Stores the value of an argument.  If it is given twice with different values, the last one
 * counts, as in Python's argparse, and a note says so, except for tokenizers, which may differ
 * between branches of a script. */
static void store_argument(struct pz_megatron_reader *reader, const struct argument *argument,
                           uint32_t line, const char *text, const char *unknown) {
  struct pz_given_argument *given = &reader->given[argument->value];
  struct pz_given_argument old = *given;
  bool is_flag = argument->kind == FLAG;
  bool is_number = argument->kind == COUNT || argument->kind == AMOUNT || argument->kind == REAL;
  *given = (struct pz_given_argument){.is_given = true,
                                      .is_flag = is_flag,
                                      .name = argument->name,
                                      .text = is_flag ? NULL : text,
                                      .unknown = is_flag ? NULL : unknown,
                                      .line = line};
  if (!is_flag && !text) pz_reject_given(reader, argument->value, "a value behind it");
  bool changes = old.is_given && old.text && given->text && strcmp(old.text, given->text) != 0;
  if (changes && argument->value != ARG_TOKENIZER && reader->notes.n < MOST_NOTES_ON_WORDS)
    pz_megatron_add_note(
        reader, pz_text_plain(pz_format(
                    reader->call, "--%s is %.40s in line %u and %.40s in line %u: the last counts",
                    given->name, old.text, old.line, given->text, given->line)));
  if (is_number) read_number(reader, argument->value, argument->kind);
}

/* Raises the error that an argument is not covered, unless its value is the one without effect. */
static void refuse_argument(struct pz_megatron_reader *reader,
                            const struct refused_argument *refused, const char *name, uint32_t line,
                            const char *value) {
  if (refused->neutral && value && strcmp(value, refused->neutral) == 0) return;
  bool shows_value = value && refused->neutral;
  pz_raise_at(reader->call, PZ_BAD_INPUT, reader->name, (int)line, 0,
              "%s:%u: --%.60s%s%.40s is not covered: %s; accepted: %s%sthe run without it "
              "(--ignore %.60s)",
              reader->name, line, name, shows_value ? " " : "", shows_value ? value : "",
              refused->effect, refused->neutral ? refused->neutral : "",
              refused->neutral ? ", or " : "", name);
}

/* Raises an error if an argument was given that applies only to other kinds of models than the one
 * that the script trains. */
void pz_refuse_uncovered(struct pz_megatron_reader *reader, int argument) {
  const struct pz_given_argument *given = &reader->given[argument];
  const struct refused_argument *refused = given->is_given ? find_refused(given->name) : NULL;
  if (refused) refuse_argument(reader, refused, given->name, given->line, given->text);
}

/* Raises the error about a word that looks like a misspelt argument. */
static _Noreturn void fail_misspelt(struct pz_megatron_reader *reader,
                                    const struct pz_shell_word *word, const char *name,
                                    const char *meant) {
  int length = (int)strcspn(word->text, "="), name_length = (int)strcspn(name, "=");
  pz_raise_at(reader->call, PZ_BAD_INPUT, reader->name, (int)word->line, 0,
              "%s:%u: '%.*s' is no argument; did you mean --%s? (--ignore %.*s leaves it out)",
              reader->name, word->line, length, word->text, meant,
              name_length < 60 ? name_length : 60, name);
}

enum { ANY_VALUES = 1 << 30 }; /* an unlimited number of values */

/* Reads the argument at word i: stores the value of one that is read, lists one without effect on
 * the step, and raises an error for one that is misspelt or not covered, unless the user ignores
 * it.  Returns how many of the following words may be its values. */
static int read_argument(struct pz_megatron_reader *reader, uint32_t i) {
  const struct pz_shell_word *word = word_at(reader, i);
  const char *equals = strchr(word->text, '='), *unknown;
  enum { DASHES = 2, LONGEST_NAME = 78 };
  size_t n = (equals ? (size_t)(equals - word->text) : strlen(word->text)) - DASHES;
  char *name = pz_format(reader->call, "%.*s", n < LONGEST_NAME ? (int)n : (int)LONGEST_NAME,
                         word->text + DASHES);
  struct argument argument = {.kind = FLAG};
  pz_text_plain(name);
  bool is_known = find_argument(name, word->is_slurm, &argument);
  bool is_left_out = !word->is_slurm && pz_name_is_among(reader->options->ignore, name);
  bool is_list = argument.kind == LIST; /* `argument` is a FLAG if the name is unknown */
  const char *value = find_value(reader, i, equals, is_list, &unknown);
  int n_values = argument.kind != FLAG && !equals;
  if (!is_known || is_list) n_values = ANY_VALUES;
  if (is_known && !is_left_out) {
    store_argument(reader, &argument, word->line, value, unknown);
    return n_values;
  }
  const struct refused_argument *refused = is_known ? NULL : find_refused(name);
  /* a name that no table lists in full, but at most by a pattern, may be misspelt */
  bool has_exact_name =
      is_known || is_left_out || word->is_slurm || (refused && !strchr(refused->name, '*'));
  const char *meant = has_exact_name ? NULL : find_meant_name(reader, name);
  if (meant) fail_misspelt(reader, word, name, meant);
  bool is_neutral = word->is_slurm || pz_name_is_among(neutral_arguments, name);
  if (!is_known && is_neutral) return n_values;
  if (is_left_out && (is_known || refused))
    pz_megatron_add_note(reader, pz_format(reader->call, "--%s is left out%s%s", name,
                                           refused ? ": " : "", refused ? refused->effect : ""));
  else if (refused)
    refuse_argument(reader, refused, name, word->line, value);
  else
    pz_add_ignored(reader, name);
  return n_values;
}

/* ---- finding arguments among words ---------------------------------------------------------- */

/* Returns whether a word is an argument of the training program, rather than of its launcher. */
static bool is_program_argument(const struct pz_shell_word *word) {
  struct argument argument;
  bool has_dashes = !word->is_slurm && strncmp(word->text, "--", 2) == 0;
  if (!has_dashes || !find_argument(word->text + 2, false, &argument)) return false;
  return argument.value != ARG_NODES && argument.value != ARG_PROCESSES_PER_NODE;
}

/* Handles a word among the program's arguments that is neither an argument with two dashes nor the
 * value of one.  Its first `prefix` bytes are dashes or the name of an object.  It is an error if
 * the rest is similar to an argument, or, without a prefix, exactly the name of one.  Otherwise a
 * note lists the word, unless the user ignores it. */
static void read_stray_word(struct pz_megatron_reader *reader, const struct pz_shell_word *word,
                            size_t prefix) {
  struct argument argument;
  const char *name = word->text + prefix, *meant = NULL;
  if (prefix)
    meant = find_meant_name(reader, name);
  else if (find_argument(name, false, &argument))
    meant = argument.name;
  if (pz_name_is_among(reader->options->ignore, name)) return;
  if (meant) fail_misspelt(reader, word, name, meant);
  if (reader->notes.n < MOST_NOTES_ON_WORDS)
    pz_megatron_add_note(reader,
                         pz_text_plain(pz_format(reader->call, "line %u: '%.60s' is not understood",
                                                 word->line, word->text)));
}

/* Returns the length of the object's name and the dot in an override of a configuration,
 * "model.tensor_model_parallel_size=8", or 0 if the word has another form. */
static size_t override_prefix(const char *text) {
  static const char *const objects[] = {"model.", "train.", "ddp.", "optimizer.", "trainer."};
  if (!strchr(text, '=')) return 0;
  for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
    if (strncmp(text, objects[i], strlen(objects[i])) == 0) return strlen(objects[i]);
  return 0;
}

/* Reads the arguments of the training program and Slurm's options among the words of the script.
 * Words that look like misspelt arguments are errors or notes (read_stray_word); words of other
 * commands and values of arguments are skipped. */
static void read_words(struct pz_megatron_reader *reader) {
  /* Documents and mails replace a shell's dashes by typographic ones (U+2010 to U+2015, U+2212). */
  static const char all_dashes[] = "-\xe2\x80\x88\x90\x91\x92\x93\x94\x95";
  static const struct argument slurm_nodes = {"nodes", WORD, ARG_BATCH_NODES, true};
  uint32_t n_words = reader->words.words.n;
  bool in_list = false;    /* the current line or list has arguments of the training program */
  bool in_program = false; /* the word follows the program's name or its first argument */
  int n_values = 0;        /* how many words may still be values of the last argument */
  for (uint32_t i = 0; i < n_words; i++) {
    const struct pz_shell_word *word = word_at(reader, i);
    const char *text = word->text;
    size_t dashes = strspn(text, all_dashes), n = strlen(text), override = override_prefix(text);
    bool is_typographic = dashes > strspn(text, "-");
    bool has_dashes_and_name = dashes && isalpha((unsigned char)text[dashes]);
    bool is_program_file = !dashes && n > 3 && strcmp(text + n - 3, ".py") == 0;
    struct argument argument;
    if (word->is_first) { /* look ahead, because a launcher may precede the program's arguments */
      in_list = is_program_argument(word);
      for (uint32_t k = i + 1; k < n_words && !word_at(reader, k)->is_first && !in_list; k++)
        in_list = is_program_argument(word_at(reader, k));
      in_program = in_list && dashes;
      n_values = ANY_VALUES;
    }
    bool is_argument = dashes > 1 && !is_typographic && n > 2; /* --name */
    if (is_argument) {
      n_values = read_argument(reader, i);
      in_program = in_program || (in_list && is_program_argument(word));
    } else if (word->is_slurm) {
      const char *unknown, *value = find_value(reader, i, NULL, false, &unknown);
      if (strcmp(text, "-N") == 0) store_argument(reader, &slurm_nodes, word->line, value, unknown);
    } else if (has_dashes_and_name &&
               (in_program || (is_typographic && find_meant_name(reader, text + dashes)))) {
      /* one dash, or dashes that a shell does not know */
      read_stray_word(reader, word, dashes);
      n_values = ANY_VALUES;
    } else if (override) {
      read_stray_word(reader, word, override);
    } else if (in_list && is_program_file) {
      in_program = true;
      n_values = ANY_VALUES;
    } else if (in_list && strpbrk(text, "-_") && find_argument(text, false, &argument)) {
      read_stray_word(reader, word, 0); /* the name of an argument without dashes */
    } else if (n_values) {
      if (n_values < ANY_VALUES) n_values--; /* a value, which read_argument() has read */
    } else if (in_program && n && !word->unknown) {
      read_stray_word(reader, word, 0); /* one word more than the last argument has values */
    }
  }
}

/* ---- the run -------------------------------------------------------------------------------- */

/* Reads a run from the arguments in a text; `name` stands for the text in messages. */
void pz_megatron_read(struct pz_call *call, const char *name, const char *text, size_t bytes,
                      const struct pz_run_plan_options *options, struct pz_run_plan *run) {
  struct pz_megatron_reader *reader = pz_alloc(call, 1, sizeof *reader);
  *run = (struct pz_run_plan){.size = sizeof *run, .megatron = true};
  reader->call = call;
  reader->name = name;
  reader->text = text;
  reader->bytes = bytes;
  reader->options = options;
  reader->run = run;
  pz_vec_init(&reader->ignored, call->arena, sizeof(const char *));
  pz_vec_init(&reader->notes, call->arena, sizeof(const char *));
  reader->words = pz_shell_read(call, name, text, bytes, options->set);
  read_words(reader);
  /* note the first lines with arguments in branches that the script may not run */
  const char *lines = "";
  uint32_t n_lines = 0, last_line = 0;
  for (uint32_t i = 0; i < reader->words.words.n && n_lines < MOST_NOTES_ON_WORDS; i++) {
    const struct pz_shell_word *word = word_at(reader, i);
    bool is_argument = strncmp(word->text, "--", 2) == 0;
    if (!word->guessed || word->line == last_line || !is_argument) continue;
    lines = pz_format(call, "%s%s%u", lines, n_lines ? ", " : "", word->line);
    last_line = word->line;
    n_lines++;
  }
  if (n_lines)
    pz_megatron_add_note(reader, pz_format(call,
                                           "arguments in line%s %s%s count, though the text does "
                                           "not decide whether they are run",
                                           pz_text_s(n_lines), lines,
                                           n_lines < MOST_NOTES_ON_WORDS ? "" : " ..."));
  pz_read_layer_letters(reader);
  pz_need_given(reader, ARG_LAYERS, "num-layers");
  pz_read_megatron_plan(reader);
  pz_read_megatron_model(reader);
  run->megatron = !pz_given(reader, ARG_DEEPSPEED);
  run->from[PZ_PLAN_FRAMEWORK] = run->megatron ? "Megatron's arguments" : "--deepspeed";
  if (run->plan.moment_bytes > 0) pz_plan_settle_moments(&run->plan, pz_has_experts(reader));
  run->ignored = reader->ignored.items;
  run->n_ignored = reader->ignored.n;
  run->notes = reader->notes.items;
  run->n_notes = reader->notes.n;
}
