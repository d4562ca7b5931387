/* Reads a table of training runs and predicts its rows (run_table.h).
 *
 * Each row becomes a request: the shape of its model as a configuration (run_model.c), its plan,
 * chip and network.  Malformed numbers and unknown columns are errors of the table.  A row whose
 * words the model does not cover, or whose plan is impossible, is not predicted and has a reason.
 * Rows are predicted in parallel.  The last sections collect errors and write the table. */
#include "step/run_table.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/num.h"
#include "core/pool.h"
#include "core/text.h"
#include "cost/attention.h"
#include "plan/model_shape.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "step/prediction.h"
#include "step/recompute.h"
#include "step/run_model.h"
#include "workload/workload.h"

/* ---- columns -------------------------------------------------------------------------------- */

/* The columns that are read: those of the run and its model (words_are_covered() checks the last
 * four), then from PLAN on the fields of the plan (plan_fields.def). */
#define MODEL_COLUMNS(X)                                                                           \
  X(ID, "id"), X(GROUP, "group"), X(QUALITY, "quality"), X(STEP_TIME, "step_time_s"),              \
      X(PEAK_BYTES, "peak_bytes"), X(MODEL, "model"), X(LAYERS, "layers"), X(HIDDEN, "hidden"),    \
      X(HEADS, "heads"), X(KV_HEADS, "kv_heads"), X(HEAD_DIM, "head_dim"), X(FFN, "ffn"),          \
      X(MLP, "mlp"), X(VOCAB, "vocab"), X(EXPERTS, "experts"), X(TOPK, "topk"),                    \
      X(EXPERT_FFN, "expert_ffn"), X(SHARED_EXPERTS, "shared_experts"),                            \
      X(DENSE_LAYERS, "dense_layers"), X(MLA, "mla"), X(CHIP, "chip"), X(CLUSTER, "cluster"),      \
      X(SHARED_FFN, "shared_ffn"), X(SSM, "ssm"), X(LAYER_PATTERN, "layer_pattern"),               \
      X(MOE_LATENT, "moe_latent"), X(KIND, "kind"), X(ROUTING, "routing"), X(VISION, "vision"),    \
      X(OPTIMIZER, "optimizer")
#define COLUMN_ID(id, name) id
#define COLUMN_NAME(id, name) name
enum column { MODEL_COLUMNS(COLUMN_ID), PLAN, COLUMNS = PLAN + PZ_PLAN_FIELDS };
static const char *const model_columns[PLAN] = {MODEL_COLUMNS(COLUMN_NAME)};

/* Columns for notes about a run and for further measurements, which are accepted but not used. */
static const char *const notes[] = {
    "source",     "assumed",   "notes",      "recipe",      "window",      "peak_kind",
    "node_watts", "tok_s_dev", "tflops_dev", "flags",       "family",      "case",
    "env",        "env_vars",  "test_type",  "golden_date", "config_date", "config_as_of",
    "n_gpus_how", "vocab_how", "iterations"};
static const char *const measurements[] = {"peak_bytes_first", "allocated_bytes",
                                           "iteration_time_s"};
enum {
  NOTES = sizeof notes / sizeof *notes,
  MEASUREMENTS = sizeof measurements / sizeof *measurements
};

/* A row with all of these fields is a published run: none is left to the framework's default. */
static const uint64_t published_fields =
    PZ_PLAN_PIN(SEQ) | PZ_PLAN_PIN(DEVICES) | PZ_PLAN_PIN(PRECISION) | PZ_PLAN_PIN(ATTENTION) |
    PZ_PLAN_PIN(TP) | PZ_PLAN_PIN(SP) | PZ_PLAN_PIN(PP) | PZ_PLAN_PIN(VPP) | PZ_PLAN_PIN(CP) |
    PZ_PLAN_PIN(DP) | PZ_PLAN_PIN(ZERO) | PZ_PLAN_PIN(MBS) | PZ_PLAN_PIN(BATCH) |
    PZ_PLAN_PIN(RECOMPUTE) | PZ_PLAN_PIN(OVERLAP) | PZ_PLAN_PIN(EXECUTION) | PZ_PLAN_PIN(PIPELINE) |
    PZ_PLAN_PIN(FRAMEWORK) | PZ_PLAN_PIN(GRAD_BYTES) | PZ_PLAN_PIN(ATTENTION_LIBRARY);

/* Returns the heading of a column in the table. */
static const char *column_heading(int column) {
  if (column < PLAN) return model_columns[column];
  const struct pz_plan_field_info *field = pz_plan_field((enum pz_plan_field)(column - PLAN));
  return field->column ? field->column : field->name;
}

/* The table and its current row. */
struct reader {
  const char *name; /* name of the table, for messages */
  const struct pz_csv *csv;
  uint32_t positions[COLUMNS]; /* index of each column in the table, or PZ_NONE */
  uint32_t row;                /* index of the current row */
  const struct pz_run_terms *terms;
};

/* Returns the text of a cell of the current row, or the default of a chip or cluster. */
static const char *cell_text(const struct reader *reader, int column) {
  uint32_t position = reader->positions[column];
  const char *text = position == PZ_NONE ? "" : pz_csv_cell(reader->csv, reader->row, position);
  const char *default_text = NULL;
  if (column == CHIP) default_text = reader->terms->chip;
  if (column == CLUSTER) default_text = reader->terms->cluster;
  return *text || !default_text ? text : default_text;
}

/* Returns the name of the i-th accepted column, or NULL after the last: the columns that are read,
 * notes, and further measurements.  Fields of the plan that are lists have no column. */
static const char *column_name(const void *ctx, size_t i) {
  (void)ctx;
  for (int column = 0; column < COLUMNS; column++) {
    bool list = column >= PLAN &&
                pz_plan_field((enum pz_plan_field)(column - PLAN))->kind >= PZ_PLAN_KIND_LIST;
    if (list) continue;
    if (i == 0) return column_heading(column);
    i--;
  }
  if (i < NOTES) return notes[i];
  return i < NOTES + MEASUREMENTS ? measurements[i - NOTES] : NULL;
}

/* Like column_name(), but ends before the notes, for suggestions after a misspelt name. */
static const char *suggested_column_name(const void *ctx, size_t i) {
  const char *name = column_name(ctx, i);
  bool is_first_note = name == notes[0];
  return is_first_note ? NULL : name;
}

/* Returns whether a column contains earlier predictions, which are ignored and written anew. */
static bool is_result(const char *column) {
  static const char *const results[] = {
      "predicted_step_s", "error",           "predicted_peak_bytes", "memory_error", "fits",
      "tensor_hidden_s",  "expert_hidden_s", "gradient_hidden_s",    "reason"};
  const struct pz_part_info *part;
  for (size_t i = 0; i < sizeof results / sizeof *results; i++)
    if (strcmp(results[i], column) == 0) return true;
  for (size_t k = 0; (part = pz_time_part_at(k)); k++)
    if (strcmp(part->key, column) == 0) return true;
  return false;
}

/* Finds the position of each column in the table.  Raises an error for an unknown column, and if
 * the table has no model (a name or a shape) or no chip. */
static void find_columns(struct pz_call *call, struct reader *reader) {
  char accepted[800], suggestion[160];
  for (uint32_t column = 0; column < reader->csv->columns; column++) {
    const char *heading = reader->csv->cells[column], *known = NULL;
    for (size_t i = 0; (known = column_name(NULL, i)); i++)
      if (strcmp(known, heading) == 0) break;
    if (known || is_result(heading)) continue;
    pz_raise(call, PZ_BAD_INPUT, "%s:1: unknown column '%.40s'%s; accepted: %s", reader->name,
             heading,
             pz_text_meant(suggestion, sizeof suggestion, heading, suggested_column_name, NULL),
             pz_text_join(accepted, sizeof accepted, column_name, NULL));
  }
  for (int column = 0; column < COLUMNS; column++)
    reader->positions[column] = pz_csv_column(reader->csv, column_heading(column));
  bool has_model = reader->positions[MODEL] != PZ_NONE || reader->positions[LAYERS] != PZ_NONE;
  if (has_model && (reader->positions[CHIP] != PZ_NONE || reader->terms->chip)) return;
  pz_raise(call, PZ_BAD_INPUT,
           "%s:1: no column '%s'; accepted: a table of runs with the columns model (or the "
           "model's shape: layers, hidden, heads, ffn, mlp, vocab), chip, and those of the "
           "plan that a run is to have",
           reader->name, has_model ? "chip" : "model");
}

/* Returns the number in a cell of the current row, or 0 if the cell is empty. */
static double read_number(struct pz_call *call, const struct reader *reader, int column) {
  const char *text = cell_text(reader, column);
  char *end;
  if (!*text) return 0;
  errno = 0;
  double number = strtod(text, &end);
  if (*end || errno || !(number >= 0 && number < 1e18))
    pz_raise(call, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: a number from 0 to 1e18",
             reader->name, reader->csv->lines[reader->row], column_heading(column), text);
  return number;
}

/* Like read_number(), but the number must be an integer. */
static int64_t read_count(struct pz_call *call, const struct reader *reader, int column) {
  double number = read_number(call, reader, column);
  if (number != floor(number) || number > 1e15)
    pz_raise(call, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: an integer up to 1e15",
             reader->name, reader->csv->lines[reader->row], column_heading(column),
             cell_text(reader, column));
  return (int64_t)number;
}

/* ---- a row ---------------------------------------------------------------------------------- */

/* What is predicted for a row: its model, plan, chip and network. */
struct pz_run_request {
  struct pz_run_model model;
  struct pz_plan plan;
  struct pz_job job;
  char config[PZ_RUN_CONFIG];
  char adapters[200]; /* the text of plan.peft with MLPerf's dropout added */
  struct pz_chip chip;
  struct pz_cluster net;
  bool has_net; /* otherwise the chip's own link is the network */
};

/* Returns whether a field of the plan is a number in a table, not a word. */
static bool is_number_field(const struct pz_plan_field_info *field) {
  return field->kind != PZ_PLAN_KIND_CHOICE && field->kind != PZ_PLAN_KIND_SET &&
         field->kind < PZ_PLAN_KIND_TEXT;
}

/* Reads the numeric columns of the current row: the shape of the model, and the numeric fields of
 * the plan, whose ranges the prediction checks. */
static void read_numbers(struct pz_call *call, const struct reader *reader,
                         struct pz_run_request *request) {
  const struct {
    int column;
    int64_t *value;
  } counts[] = {{LAYERS, &request->model.layers},
                {HIDDEN, &request->model.hidden},
                {HEADS, &request->model.heads},
                {KV_HEADS, &request->model.kv_heads},
                {HEAD_DIM, &request->model.head_dim},
                {FFN, &request->model.ffn},
                {VOCAB, &request->model.vocab},
                {EXPERTS, &request->model.experts},
                {TOPK, &request->model.topk},
                {EXPERT_FFN, &request->model.expert_ffn},
                {SHARED_EXPERTS, &request->model.shared_experts},
                {SHARED_FFN, &request->model.shared_ffn},
                {DENSE_LAYERS, &request->model.dense_layers},
                {MOE_LATENT, &request->model.moe_latent},
                {PLAN + PZ_PLAN_MTP, &request->model.mtp}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    *counts[i].value = read_count(call, reader, counts[i].column);
  const char *mla = cell_text(reader, MLA);
  if (*mla && sscanf(mla, "%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64,
                     &request->model.q_rank, &request->model.kv_rank, &request->model.rope_dim,
                     &request->model.nope_dim, &request->model.value_dim) != 5)
    pz_raise(call, PZ_BAD_INPUT,
             "%s:%u: column 'mla' is '%.40s'; accepted: query rank/key-value "
             "rank/rope/nope/value dimension",
             reader->name, reader->csv->lines[reader->row], mla);
  request->plan = pz_plan_default();
  for (int field = 0; field < PZ_PLAN_FIELDS; field++) {
    const struct pz_plan_field_info *info = pz_plan_field((enum pz_plan_field)field);
    if (!is_number_field(info) || !*cell_text(reader, PLAN + field)) continue;
    bool is_real = info->kind == PZ_PLAN_KIND_REAL;
    double number = is_real ? read_number(call, reader, PLAN + field)
                            : (double)read_count(call, reader, PLAN + field);
    pz_plan_field_store(&request->plan, (enum pz_plan_field)field, number);
  }
  if (request->plan.sp > 0) request->plan.sp = 1;
}

/* ---- words ---------------------------------------------------------------------------------- */

/* Accepted words of columns that do not change the prediction.  The load of experts is even. */
static const struct {
  int column;
  const char *words[7];
} covered_words[] = {
    {KIND, {"pretrain", "sft", "lora", "vlm-pretrain", "vlm-sft", "vlm-lora"}},
    {ROUTING, {"forced balance", "natural"}},
    {OPTIMIZER, {"adam", "adamw"}},
};

/* Stores the reason why a row is not predicted.  Returns false. */
__attribute__((format(printf, 2, 3))) static bool refuse_row(struct pz_run_row *row,
                                                             const char *form, ...) {
  va_list args;
  va_start(args, form);
  vsnprintf(row->reason, sizeof row->reason, form, args);
  va_end(args);
  return false;
}

/* Refuses the word in a column and lists the accepted ones.  Returns false. */
static bool refuse_word(const struct reader *reader, int column, const char *const *words,
                        struct pz_run_row *row) {
  char accepted[120];
  return refuse_row(row, "%s '%.60s' is not covered; accepted: %s", column_heading(column),
                    cell_text(reader, column),
                    pz_text_join(accepted, sizeof accepted, pz_name_in_list, words));
}

/* Returns whether the words of a row's columns without influence are accepted, and whether it
 * trains on text alone, because neither a vision tower nor images are predicted.  Otherwise stores
 * the reason. A vision-language model that is trained on text counts as its language model. */
static bool words_are_covered(const struct reader *reader, struct pz_run_row *row) {
  static const char text_only[] = "text only";
  for (size_t i = 0; i < sizeof covered_words / sizeof *covered_words; i++) {
    const char *const *word = covered_words[i].words;
    const char *text = cell_text(reader, covered_words[i].column);
    if (!*text) continue;
    while (*word && strcmp(*word, text) != 0) word++;
    if (!*word) return refuse_word(reader, covered_words[i].column, covered_words[i].words, row);
  }
  const char *vision = cell_text(reader, VISION), *kind = cell_text(reader, KIND);
  size_t n = strlen(vision), end = sizeof text_only - 1;
  bool is_text_only = n >= end && strcmp(vision + n - end, text_only) == 0;
  if (strcmp(vision, "none") == 0 || is_text_only) return true;
  if (!*vision && strncmp(kind, "vlm-", 4) != 0) return true;
  return refuse_row(row,
                    "%s '%.60s': a vision tower and the images of a sample are not predicted; "
                    "accepted: vision none, or text only",
                    *vision ? "vision" : "kind", *vision ? vision : kind);
}

/* Reads which modules are captured in CUDA graphs: words separated by "+" or ",", optionally after
 * the library that captures them ("te:" or "mcore:").  The first MODULES words are bits of
 * plan->cuda_graphs in their order.  Graphs of whole layers or iterations set plan->execution, and
 * so does "moe", which captures all of a layer with experts (Megatron Core, CudaGraphScope.moe) and
 * requires attention and the mamba layers of a hybrid.  Returns false for unknown words. */
static bool read_cuda_graphs(const char *text, bool hybrid, struct pz_plan *plan) {
  static const char *const words[] = {"attn",           "mlp",   "moe_router",
                                      "moe_preprocess", "mamba", "layers",
                                      "full_iteration", "moe",   NULL};
  enum { MODULES = 5, MOE = 7 };
  const char *colon = strchr(text, ':');
  bool captures_experts = false;
  if (colon && strncmp(text, "te:", 3) != 0 && strncmp(text, "mcore:", 6) != 0) return false;
  plan->cuda_graphs = 0;
  if (strcmp(text, "none") == 0) return true;
  text = colon ? colon + 1 : text;
  if (!*text) return false;
  while (*text) {
    size_t n = strcspn(text, "+,"), i = 0;
    while (words[i] && (strlen(words[i]) != n || strncmp(words[i], text, n) != 0)) i++;
    text += n;
    if (*text) text++;
    if (!words[i]) return false;
    if (i < MODULES)
      plan->cuda_graphs |= 1 << i;
    else if (i < MOE)
      plan->execution = PZ_EXECUTION_GRAPH;
    captures_experts |= i == MOE;
  }
  int required = PZ_GRAPH_ATTENTION | (hybrid ? PZ_GRAPH_MAMBA : 0);
  if (captures_experts) plan->execution = PZ_EXECUTION_GRAPH;
  return !captures_experts || (plan->cuda_graphs & required) == required;
}

/* Reads recomputation: a word of the plan, or "other:" followed by the first layers of each chunk,
 * "every second layer", a policy of saved results, or modules.  Returns false for other words. */
static bool read_recompute(const char *word, struct pz_plan *plan) {
  if (strncmp(word, "other:", 6) != 0)
    return *word && pz_try_plan_field(plan, PZ_PLAN_RECOMPUTE, word, NULL) &&
           plan->recompute != PZ_RECOMPUTATION_HALF;
  word += 6;
  int64_t first = 0;
  if (sscanf(word, "full, first %6" SCNd64 " layers of each chunk", &first) == 1 && first > 0) {
    plan->recompute = PZ_RECOMPUTATION_FULL;
    plan->recompute_layers = first;
  } else if (strcmp(word, "every second layer") == 0)
    plan->recompute = PZ_RECOMPUTATION_HALF;
  else if (pz_saved_parse(word, &plan->saved))
    plan->recompute = PZ_RECOMPUTATION_FULL;
  else if (pz_modules_parse(word, &plan->recompute_modules))
    plan->recompute = PZ_RECOMPUTATION_SELECTIVE;
  else
    return false;
  return true;
}

/* Reads which layers at the ends of the model have 16 bits: "last 14 layers", "first layer" or
 * "first and last 2 layers".  Returns the number of characters read, or 0 for other words. */
static int read_end_layers(const char *text, struct pz_plan *plan) {
  static const struct {
    const char *word;
    bool first, last;
  } forms[] = {{"first and last ", true, true}, {"first ", true, false}, {"last ", false, true}};
  size_t i = 0, offset;
  int64_t layers = 1;
  int n_read = 0;
  while (i < 3 && strncmp(text, forms[i].word, strlen(forms[i].word)) != 0) i++;
  if (i == 3) return 0;
  offset = strlen(forms[i].word);
  if (sscanf(text + offset, "%6" SCNd64 " %n", &layers, &n_read) == 1) offset += (size_t)n_read;
  if (layers < 1 || strncmp(text + offset, "layer", 5) != 0) return 0;
  if (forms[i].first) plan->bf16_first_layers = layers;
  if (forms[i].last) plan->bf16_layers = layers;
  return (int)offset + 5 + (text[offset + 5] == 's');
}

/* Reads which modules of an 8-bit or 4-bit plan have a wider format: "bf16: qkv, attention out,
 * last 14 layers; mxfp8: mamba out".  Embedding, head, router and norms always have 16 bits.
 * Returns false for other words. */
static bool read_wider_modules(const char *text, struct pz_plan *plan) {
  static const struct {
    const char *word;
    int modules;       /* modules as bits of PZ_WIDE_ALL */
    int nvfp4_modules; /* replaces `modules` in an NVFP4 plan unless it is 0 */
  } words[] = {{"bf16: ", 0, 0},
               {"mxfp8: mamba out", PZ_WIDE_MAMBA_OUT, 0},
               {"mamba out", PZ_WIDE_MAMBA_OUT, PZ_WIDE_MAMBA_OUT_BF16},
               {"qkv", PZ_WIDE_ATTENTION, 0},
               {"attention out", PZ_WIDE_ATTENTION, 0},
               {"latent projections", PZ_WIDE_LATENT, 0},
               {"mtp", PZ_WIDE_PREDICT, 0},
               {"embedding", 0, 0},
               {"head", 0, 0},
               {"router", 0, 0},
               {"norms", 0, 0}};
  bool nvfp4 = plan->precision == PZ_PRECISION_NVFP4;
  for (; *text; text += strspn(text, ",; ")) {
    size_t i = 0, n_words = sizeof words / sizeof *words;
    int length = 0;
    while (i < n_words && strncmp(text, words[i].word, strlen(words[i].word)) != 0) i++;
    if (i < n_words) {
      bool has_own = nvfp4 && words[i].nvfp4_modules;
      plan->bf16_modules |= has_own ? words[i].nvfp4_modules : words[i].modules;
      length = (int)strlen(words[i].word);
    } else {
      length = read_end_layers(text, plan);
    }
    text += length;
    if (!length) return false;
    bool ends_word = !*text || strchr(",; ", *text) || text[-1] == ' ';
    if (!ends_word) return false;
  }
  return true;
}

/* Reads a quantisation recipe, such as "fp8 hybrid, delayed scaling" or "mxfp8", also in the words
 * of Megatron (Fp8Recipe in megatron/core/enums.py) and of Megatron Bridge
 * (training/mixed_precision.py); "hybrid" is e4m3 values and e5m2 gradients.  Returns its
 * precision, PZ_PRECISIONS for "none", or -1 for unknown words or two recipes. */
static int read_fp8_recipe(const char *text, size_t bytes, struct pz_plan *plan) {
  /* besides enum pz_fp8_recipe; NOTHING stands for words that do not decide the recipe */
  enum { NONE = -1, NVFP4 = -2, FP8 = -3, NOTHING = -4 };
  static const int UNKNOWN = -1;
  static const struct {
    const char *word;
    int recipe;
  } words[] = {{"subchannel", PZ_FP8_BLOCKWISE}, {"fp8-mx", PZ_FP8_MX},
               {"blockwise", PZ_FP8_BLOCKWISE},  {"scaling", NOTHING},
               {"tensorwise", PZ_FP8_CURRENT},   {"mxfp8", PZ_FP8_MX},
               {"fp8-sc", PZ_FP8_BLOCKWISE},     {"hybrid", NOTHING},
               {"delayed", PZ_FP8_DELAYED},      {"e4m3", NOTHING},
               {"current", PZ_FP8_CURRENT},      {"nvfp4", NVFP4},
               {"fp8-ds", PZ_FP8_DELAYED},       {"none", NONE},
               {"fp8-cs", PZ_FP8_CURRENT},       {"fp8", FP8}};
  enum { WORDS = sizeof words / sizeof *words };
  int recipe = NOTHING;
  for (const char *end = text + bytes; text < end; text += strspn(text, ", ")) {
    size_t n = strcspn(text, ", ;"), i = 0;
    while (i < WORDS && !pz_text_is(text, n, words[i].word)) i++;
    int word_recipe = i < WORDS ? words[i].recipe : NOTHING;
    bool specifies_fp8 = recipe == FP8 && word_recipe >= 0;
    bool is_second = word_recipe != NOTHING && recipe != NOTHING && !specifies_fp8;
    if (i == WORDS || is_second) return UNKNOWN;
    if (word_recipe != NOTHING) recipe = word_recipe;
    text += n;
  }
  if (recipe >= 0) plan->fp8_recipe = recipe;
  if (recipe == NOTHING) return UNKNOWN;
  if (recipe == NONE) return PZ_PRECISIONS;
  return recipe == NVFP4 ? PZ_PRECISION_NVFP4 : PZ_PRECISION_FP8;
}

/* Reads the name of a quantisation recipe into the plan; modules or layers in a wider format may
 * follow it.  Returns false if the recipe is not supported or contradicts the row's precision. */
static bool read_quantisation(const char *text, struct pz_plan *plan) {
  int64_t first = 0, last = 0;
  int length = 0;
  const char *wide_modules = strstr(text, " in layers 0-");
  if (!wide_modules) wide_modules = strchr(text, ';');
  int precision =
      read_fp8_recipe(text, wide_modules ? (size_t)(wide_modules - text) : strlen(text), plan);
  if (precision < 0) return false;
  if (precision != PZ_PRECISIONS && plan->precision < 0) plan->precision = precision;
  if (precision != PZ_PRECISIONS && plan->precision != precision) return false;
  if (!wide_modules) return true;
  if (*wide_modules == ';')
    return read_wider_modules(wide_modules + strspn(wide_modules, "; "), plan);
  if (sscanf(wide_modules, " in layers 0-%*d, bf16 in %6" SCNd64 "-%6" SCNd64 " and the head%n",
             &first, &last, &length) != 2 ||
      !length || wide_modules[length] || last < first)
    return false;
  plan->bf16_layers = last - first + 1;
  return true;
}

/* Reads what is offloaded to the host, separated by ";": "activations of 20 layers" (of each
 * chunk), "activations: MODULES", "optimizer 50%" (of its state), or a word of the plan.
 * Returns false for other words. */
static bool read_offload(const char *text, struct pz_plan *plan) {
  static const char modules[] = "activations: ";
  char item[120];
  int offload = 0;
  for (; *text; text += strspn(text, "; ")) {
    size_t item_length = strcspn(text, ";");
    int length = 0, percent = 0;
    if (item_length >= sizeof item) return false;
    snprintf(item, sizeof item, "%.*s", (int)item_length, text);
    text += item_length;
    const char *module_list =
        strncmp(item, modules, sizeof modules - 1) == 0 ? item + sizeof modules - 1 : NULL;
    if (sscanf(item, "activations of %6" SCNd64 " layers%n", &plan->offload_layers, &length) == 1 &&
        length)
      plan->offload = PZ_OFFLOAD_ACTIVATIONS;
    else if (sscanf(item, "optimizer %3d%%%n", &percent, &length) == 1 && length && percent > 0 &&
             percent <= 100) {
      plan->offload = PZ_OFFLOAD_OPTIMIZER;
      plan->offload_fraction = percent / 100.0;
    } else if (module_list && pz_try_plan_field(plan, PZ_PLAN_OFFLOAD_MODULES, module_list, NULL))
      plan->offload = PZ_OFFLOAD_ACTIVATIONS;
    else if (module_list || !pz_try_plan_field(plan, PZ_PLAN_OFFLOAD, item, NULL))
      return false;
    if (length && item[length]) return false;
    offload |= plan->offload;
  }
  plan->offload = offload;
  return true;
}

/* Checks a word of column attention that describes layers instead of a kernel ("hybrid", "dsa",
 * "window").  Returns "" if the model has such layers by its shape or its name, otherwise the
 * columns that its shape must state; returns NULL for a word that names a kernel. */
static const char *attention_layers(const struct reader *reader, const struct pz_run_model *model,
                                    const char *word) {
  static const struct {
    const char *word, *pattern, *requirement;
    const char *keys[3]; /* in the config.json of such a built-in model */
  } kinds[] = {{"hybrid",
                NULL,
                "ssm and layer_pattern with a letter for each layer",
                {"\"mamba_", "\"linear_", "\"hybrid_override_pattern\""}},
               {"dsa", "DSA: ", "layer_pattern 'DSA: indexer NxN top N'", {"\"index_topk\""}},
               {"window",
                "window ",
                "layer_pattern 'window N in every second layer, sinks'",
                {"\"sliding_window\""}}};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  const struct pz_preset *preset = model->layers ? NULL : pz_preset_find(cell_text(reader, MODEL));
  size_t i = 0;
  while (i < KINDS && strcmp(kinds[i].word, word) != 0) i++;
  if (i == KINDS) return NULL;
  bool matches = kinds[i].pattern
                     ? strncmp(model->layers_as, kinds[i].pattern, strlen(kinds[i].pattern)) == 0
                     : pz_run_model_hybrid(model);
  for (int k = 0; preset && k < 3 && kinds[i].keys[k]; k++)
    matches |= strstr(preset->config, kinds[i].keys[k]) != NULL;
  return matches ? "" : kinds[i].requirement;
}

/* Reads the fields that are words.  Returns false with a reason if one of them is not covered. */
static bool read_choices(const struct reader *reader, struct pz_run_request *request,
                         struct pz_run_row *row) {
  static const char *const mlps[] = {"gelu", "swiglu", "geglu", "relu2", NULL};
  struct pz_plan *plan = &request->plan;
  struct pz_error why = {0};
  request->model.ssm = cell_text(reader, SSM);
  request->model.layers_as = cell_text(reader, LAYER_PATTERN);
  for (int field = 0; field < PZ_PLAN_FIELDS; field++) {
    const struct pz_plan_field_info *info = pz_plan_field((enum pz_plan_field)field);
    const char *word = cell_text(reader, PLAN + field);
    if (is_number_field(info) || !*word) continue;
    const char *requirement =
        field == PZ_PLAN_ATTENTION ? attention_layers(reader, &request->model, word) : NULL;
    if (requirement && *requirement)
      return refuse_row(row,
                        "attention '%.20s' of a model whose layers are not known; accepted: %s, or "
                        "the name of a built-in model that has it",
                        word, requirement);
    if (requirement) word = "flash"; /* the kernels of such layers */
    bool covered;
    switch (field) {
    case PZ_PLAN_RECOMPUTE: covered = read_recompute(word, plan); break;
    case PZ_PLAN_FP8_RECIPE: covered = read_quantisation(word, plan); break;
    case PZ_PLAN_OFFLOAD: covered = read_offload(word, plan); break;
    case PZ_PLAN_CUDA_GRAPHS:
      covered = read_cuda_graphs(word, pz_run_model_hybrid(&request->model), plan);
      break;
    default: covered = pz_try_plan_field(plan, (enum pz_plan_field)field, word, &why);
    }
    if (!covered && field == PZ_PLAN_CUDA_GRAPHS)
      return refuse_row(
          row,
          "cuda_graphs '%.60s' is not covered; accepted: none, full_iteration, or te: "
          "or mcore: with layers; attn, mlp, moe_router, moe_preprocess, mamba with + or , "
          "between, "
          "moe with attn and all others",
          word);
    if (!covered && field == PZ_PLAN_FP8_RECIPE)
      return refuse_row(
          row,
          "quant '%.30s' is not covered%s%s; accepted: none, nvfp4, mxfp8, or fp8 with delayed, "
          "current, blockwise scaling; then bf16: qkv, attention out, mamba out, last N layers",
          word, plan->precision < 0 ? "" : " with precision ",
          plan->precision < 0 ? "" : pz_precision_names[plan->precision]);
    if (!covered && info->names) return refuse_word(reader, PLAN + field, info->names, row);
    if (!covered) return refuse_row(row, "%s", why.message);
  }
  size_t mlp = 0;
  while (mlps[mlp] && strcmp(cell_text(reader, MLP), mlps[mlp]) != 0) mlp++;
  if (*cell_text(reader, MLP) && !mlps[mlp]) return refuse_word(reader, MLP, mlps, row);
  /* in a row that states all other fields, these are empty if the run has none */
  static const uint64_t may_be_empty = PZ_PLAN_PIN(OVERLAP) | PZ_PLAN_PIN(ATTENTION_LIBRARY);
  if (((pz_plan_given(plan) | may_be_empty) & published_fields) == published_fields) {
    if (reader->positions[PLAN + PZ_PLAN_ATTENTION_LIBRARY] != PZ_NONE)
      plan->attention_library = cell_text(reader, PLAN + PZ_PLAN_ATTENTION_LIBRARY);
    if (reader->positions[PLAN + PZ_PLAN_OVERLAP] != PZ_NONE && plan->overlap < 0)
      plan->overlap = 0;
  }
  return words_are_covered(reader, row);
}

/* Completes a fine-tuning run of MLPerf: dropout 0.1 before adapters, and context parallelism by
 * an all-to-all of heads (train.py and cp_comm_type in
 * NVIDIA/benchmarks/llama2_70b_lora/implementations of
 * github.com/mlcommons/training_results_v5.0).  If cp does not divide the key/value heads of a
 * device, Transformer Engine requires a ring (AttnFuncWithCPAndQKVOA2A). */
static void set_mlperf_rules(struct pz_call *call, const struct reader *reader,
                             struct pz_run_request *request, struct pz_plan *plan) {
  struct pz_lora lora;
  struct pz_model_shape shape;
  int64_t kv_heads = request->model.kv_heads ? request->model.kv_heads : request->model.heads;
  if (!request->model.layers && pz_try_model_shape(call, cell_text(reader, MODEL), NULL, &shape))
    kv_heads = shape.kv_heads;
  bool cp_divides_heads = kv_heads / pz_max(plan->tp, 1) % pz_plan_cp(plan) == 0;
  if (plan->cp_form < 0) plan->cp_form = cp_divides_heads ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
  int length = snprintf(request->adapters, sizeof request->adapters, "%s:0.1", plan->peft);
  bool fits = length > 0 && (size_t)length < sizeof request->adapters;
  if (fits && pz_lora_parse(request->adapters, &lora, NULL) == PZ_OK)
    plan->peft = request->adapters;
}

/* Completes the plan of a published run (published_fields) with defaults of its recipe that tables
 * leave out: context parallelism, dispatcher, CUDA graphs, recomputation, and rules of XLA. */
static void complete_published_run(const struct reader *reader, struct pz_run_request *request,
                                   struct pz_plan *plan) {
  if (!request->model.experts || !plan->ep) plan->ep = 1;
  if (plan->cp_form < 0) plan->cp_form = PZ_CONTEXT_RING;
  /* a row that names its dispatcher states its CUDA graphs too */
  if (plan->dispatcher >= 0 && plan->cuda_graphs < 0 &&
      reader->positions[PLAN + PZ_PLAN_CUDA_GRAPHS] != PZ_NONE)
    plan->cuda_graphs = 0;
  bool drops_tokens = strstr(cell_text(reader, MODEL), "tokendrop") != NULL;
  /* If a table has dispatchers and a recipe of Megatron Bridge states none, it uses HybridEP in
   * NVLink domains of more than 8 devices unless it drops tokens, DeepEP for the DeepSeek family
   * on smaller nodes, and otherwise the all-to-all of Megatron Core (moe_token_dispatcher_type
   * in scripts/performance/configs/qwen).  Other runs use DeepEP or a similar library. */
  bool is_bridge = plan->framework == pz_framework_find("nemo");
  /* as GB200 and GB300, the built-in chips with a slower host (Grace), have */
  bool is_large_domain = request->chip.calibration.host_launch > 1;
  if (plan->dispatcher < 0 && reader->positions[PLAN + PZ_PLAN_DISPATCHER] != PZ_NONE) {
    plan->dispatcher = PZ_DISPATCHER_DEEPEP;
    if (is_bridge && (is_large_domain || !request->model.kv_rank))
      plan->dispatcher = PZ_DISPATCHER_ALLTOALL;
    if (is_bridge && is_large_domain && !drops_tokens) plan->dispatcher = PZ_DISPATCHER_HYBRIDEP;
  }
  /* token dropping pads experts to a fixed shape, so that these recipes capture whole iterations
   * (apply_moe_token_drop in scripts/performance/configs/qwen3 of Megatron Bridge) */
  if (drops_tokens) plan->execution = PZ_EXECUTION_GRAPH;
  /* other recipes with experts for GB200 and GB300 capture these modules (cuda_graph_scope) */
  if (is_bridge && is_large_domain && request->model.experts && plan->cuda_graphs < 0)
    plan->cuda_graphs = PZ_GRAPH_ATTENTION | PZ_GRAPH_ROUTER | PZ_GRAPH_PREPARATION;
  if (plan->cuda_graphs < 0) plan->cuda_graphs = 0;
  /* a framework with default modules recomputes them even if the run states no recomputation */
  if (plan->recompute == PZ_RECOMPUTATION_NONE && pz_plan_framework(plan)->recompute_modules)
    plan->recompute = PZ_RECOMPUTATION_SELECTIVE;
  /* flash attention is the default of MaxText; column "assumed" lists the fields of the plan that
   * the source of the run does not state */
  uint32_t position = pz_csv_column(reader->csv, "assumed");
  const char *assumed = position == PZ_NONE ? "" : pz_csv_cell(reader->csv, reader->row, position);
  if (plan->framework == pz_framework_find("maxtext") && strstr(assumed, "attention"))
    plan->attention = PZ_ATTENTION_FLASH;
  if (pz_framework_compiles(pz_plan_framework(plan))) {
    /* XLA overlaps collectives with compute, divides activations between layers over the
     * tensor-parallel group, shards weights over a slice (the innermost level), and without
     * stages runs a replica's samples as one microbatch. */
    const struct pz_cluster *net = &request->net;
    int64_t slice = net->level[0].devices / pz_max(1, plan->tp);
    plan->overlap |= PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM | PZ_OVERLAP_TP;
    plan->sp = plan->tp > 1;
    if (plan->pp == 1 && plan->dp > 0) plan->mbs = pz_max(plan->mbs, plan->batch / plan->dp);
    if (plan->zero == 3 && slice > 0 && plan->dp > slice && plan->dp % slice == 0)
      plan->shard = slice;
  }
}

/* Loads the cluster of the row, by default the chip's standard cluster or else its own link. */
static void load_cluster(struct pz_call *call, const struct reader *reader,
                         struct pz_run_request *request) {
  struct pz_error *err = pz_call_error(call);
  int64_t devices = pz_plan_asked_devices(&request->plan);
  request->has_net = true;
  if (*cell_text(reader, CLUSTER)) {
    pz_must(call, pz_cluster_load(cell_text(reader, CLUSTER), &request->net, err));
    pz_must(call, pz_cluster_reach(&request->net, pz_max(devices, 1), "n_dev", err));
    return;
  }
  bool is_known = pz_cluster_standard(request->chip.name, &request->net);
  if (!is_known && pz_chip_built(&request->chip) && devices > PZ_SERVER_DEVICES)
    pz_raise(call, PZ_BAD_USE,
             "no cluster, and none is known for %s; accepted: a name in column 'cluster'",
             request->chip.name);
  request->has_net = is_known && pz_cluster_needed(&request->net, devices);
  if (request->has_net) pz_must(call, pz_cluster_reach(&request->net, devices, "n_dev", err));
}

/* The arguments of complete_request(). */
struct completion {
  const struct reader *reader;
  struct pz_run_request *request;
};

/* Loads the chip and the network of a row, and fills in its plan: with the defaults of the
 * framework, or for a published run with those of its recipe.  Raises an error if there is no such
 * chip or cluster, or the plan is impossible. */
static void complete_request(struct pz_call *call, void *ctx) {
  const struct reader *reader = ((struct completion *)ctx)->reader;
  struct pz_run_request *request = ((struct completion *)ctx)->request;
  pz_chip_read(call, cell_text(reader, CHIP), &request->chip);
  if (reader->terms->cold && !request->chip.cold)
    pz_chip_make_cold(call, &request->chip, reader->terms->cold);
  /* in a table, bf16 stands for the 16-bit format that the chip has */
  struct pz_plan *plan = &request->plan;
  if (plan->precision == PZ_PRECISION_BF16 &&
      pz_chip_can_run(&request->chip, PZ_PRECISION_BF16, NULL) != PZ_OK)
    plan->precision = PZ_PRECISION_FP16;
  if (plan->precision >= 0)
    pz_must(call, pz_chip_can_run(&request->chip, (enum pz_precision)plan->precision,
                                  pz_call_error(call)));
  load_cluster(call, reader, request);
  if (reader->terms->no_network) {
    struct pz_network network = {.cluster = request->net, .own_link = !request->has_net};
    pz_network_make_instant(&network, &request->chip, pz_plan_asked_devices(plan));
    request->net = network.cluster;
    request->has_net = true;
  }
  if (strncmp(cell_text(reader, GROUP), "mlperf", 6) == 0 && pz_plan_trains_adapters(plan))
    set_mlperf_rules(call, reader, request, plan);
  if ((pz_plan_given(plan) & published_fields) != published_fields) {
    /* without measured kernels, any library (ck, fsdpa, nki, ...) is the chip's attention */
    const char *library = plan->attention_library;
    bool is_measured =
        library && *library && pz_attention_kernel(&request->chip, library, PZ_FORWARD);
    if (request->chip.cold && !is_measured) plan->attention_library = "";
    pz_fill_plan(call, plan, &request->chip);
    return;
  }
  complete_published_run(reader, request, plan);
  pz_fill_plan_precision(call, plan, &request->chip);
}

/* Writes the shape of the row's model as a configuration, if the row has one; otherwise the model's
 * name is that of a built-in model or a file.  Returns false with a reason for a partial shape. */
static bool read_shape(const struct reader *reader, struct pz_run_request *request,
                       struct pz_run_row *row) {
  static const int required[] = {HIDDEN, HEADS, FFN, MLP, VOCAB, PLAN + PZ_PLAN_SEQ};
  if (!request->model.layers && !*cell_text(reader, MODEL))
    return refuse_row(row, "no model; accepted: a name in column model, or its shape");
  for (int column = SHARED_FFN; column <= MOE_LATENT && !request->model.layers; column++) {
    const char *text = cell_text(reader, column);
    if (*text && strcmp(text, "none") != 0)
      return refuse_row(row, "%s '%.60s' of a model by its name; accepted: the whole shape",
                        column_heading(column), text);
  }
  if (!request->model.layers) return true;
  for (size_t i = 0; i < sizeof required / sizeof *required; i++)
    if (!*cell_text(reader, required[i]))
      return refuse_row(row, "the model has %lld layers and no %s; accepted: the whole shape",
                        (long long)request->model.layers, column_heading(required[i]));
  if (!request->model.kv_heads) request->model.kv_heads = request->model.heads;
  if (!request->model.head_dim && request->model.heads)
    request->model.head_dim = request->model.hidden / request->model.heads;
  request->model.seq = request->plan.seq;
  request->model.mlp = cell_text(reader, MLP);
  /* adapters of plain PyTorch are on separate projections, not on fused ones */
  request->model.plain = request->plan.framework >= 0 &&
                         pz_plan_framework(&request->plan)->plain_decoders &&
                         !pz_plan_trains_adapters(&request->plan);
  request->model.own_head = request->plan.framework == pz_framework_find("torch");
  return pz_run_model_config(&request->model, request->config, row->reason);
}

/* ---- the table ------------------------------------------------------------------------------ */

/* A table whose rows are predicted in parallel. */
struct table_job {
  struct reader reader;
  struct pz_run_request *requests;
  struct pz_run_row *rows;
  struct pz_progress *progress;
};

/* Reads a row into its request, or stores the reason why it is not predicted.  Running out of
 * memory is an error of the whole table. */
static void read_row(struct pz_call *call, struct table_job *job, uint32_t i) {
  struct reader *reader = &job->reader;
  struct pz_run_request *request = &job->requests[i];
  struct pz_run_row *row = &job->rows[i];
  reader->row = i;
  *row = (struct pz_run_row){
      .id = *cell_text(reader, ID) ? cell_text(reader, ID) : cell_text(reader, MODEL),
      .group = cell_text(reader, GROUP),
      .quality = *cell_text(reader, QUALITY) ? cell_text(reader, QUALITY) : "ok",
      .plan = &request->plan};
  read_numbers(call, reader, request);
  row->measured_s = read_number(call, reader, STEP_TIME);
  row->measured_bytes = read_number(call, reader, PEAK_BYTES);
  if (!read_choices(reader, request, row)) return;
  struct pz_error why = {0};
  struct completion completion = {reader, request};
  if (pz_border(complete_request, &completion, &why) != PZ_OK) {
    pz_raise_if_memory(call, &why);
    pz_text_copy(row->reason, sizeof row->reason, why.message);
    return;
  }
  row->devices = pz_plan_asked_devices(&request->plan);
  row->hbm_bytes = (double)pz_chip_hbm_bytes(&request->chip);
  (void)read_shape(reader, request, row); /* a failure is in row->reason */
}

/* A run to be predicted, and its prediction. */
struct run_prediction {
  const struct pz_run_request *request;
  const struct pz_cold *chip_constants; /* replace those of its unmeasured chip; NULL: none do */
  struct pz_prediction prediction;
};

/* Predicts a run and stores the prediction in it.  The calibration of an unmeasured chip follows
 * from the constants of its class (chip/cold.h).  If the run gives other constants, a copy of the
 * chip gets the calibration that follows from those; the chip itself is used again later. */
static void predict_request(struct pz_call *call, void *ctx) {
  struct run_prediction *run = ctx;
  struct pz_job job = run->request->job;
  struct pz_chip chip;
  if (run->chip_constants) {
    chip = run->request->chip;
    pz_chip_set_class(call, &chip, run->chip_constants);
    job.chip = &chip;
  }
  run->prediction = pz_predict(call, &job, &run->request->plan, NULL);
}

/* Pool task: predicts row i of a table, or stores the reason why it cannot be predicted. */
static void predict_row(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct table_job *job = ctx;
  struct pz_run_row *row = &job->rows[i];
  struct run_prediction run = {.request = &job->requests[i]};
  struct pz_error why = {0};
  (void)worker;
  pz_progress_add(job->progress, 1);
  if (row->reason[0] || pz_progress_stopped(job->progress)) return;
  row->predicted = pz_border(predict_request, &run, &why) == PZ_OK;
  pz_raise_if_memory(task, &why);
  pz_text_copy(row->reason, sizeof row->reason, why.message);
  if (row->predicted) row->p = run.prediction;
}

void pz_run_table_read(struct pz_call *call, const struct pz_run_terms *terms, const char *name,
                       const char *text, size_t bytes, struct pz_run_table *out) {
  struct pz_run_table table = {.csv = *pz_csv_read(call, name, text, bytes)};
  struct table_job job = {.reader = {.name = name, .csv = &table.csv, .terms = terms},
                          .progress = terms->progress};
  job.requests = table.requests = pz_alloc(call, table.csv.rows, sizeof *job.requests);
  job.rows = table.rows = pz_alloc(call, table.csv.rows, sizeof *table.rows);
  find_columns(call, &job.reader);
  for (uint32_t i = 0; i < table.csv.rows; i++) {
    read_row(call, &job, i);
    struct pz_run_request *request = &job.requests[i];
    request->job = (struct pz_job){.model = request->model.layers ? table.rows[i].id
                                                                  : cell_text(&job.reader, MODEL),
                                   .config = request->model.layers ? request->config : NULL,
                                   .chip = &request->chip,
                                   .net = request->has_net ? &request->net : NULL,
                                   .constants = terms->constants};
  }
  struct pz_pool *pool = pz_pool_open(call, terms->threads);
  pz_progress_next(job.progress, name, "runs", table.csv.rows);
  pz_pool_run(call, pool, table.csv.rows, predict_row, &job);
  pz_progress_finish(job.progress, NULL);
  pz_close(call, pool);
  if (pz_progress_stopped(job.progress)) pz_raise(call, PZ_STOPPED, "stopped");
  table.n_rows = table.csv.rows;
  *out = table;
}

const struct pz_job *pz_run_table_job(const struct pz_run_table *table, uint32_t row) {
  return &table->requests[row].job;
}

/* The arguments of pz_run_table_again(). */
struct repredict_job {
  const struct pz_run_table *table;
  const struct pz_cold *chip_constants;
  const bool *wanted;
  double *step_s;
};

/* Pool task: sets step_s[i] to the step time of run i under the given constants, or to 0 if the run
 * is not wanted, was not predicted, or cannot be predicted with them. */
static void repredict_row_at(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct repredict_job *job = ctx;
  struct run_prediction run = {.request = &job->table->requests[i],
                               .chip_constants = job->chip_constants};
  struct pz_error why = {0};
  (void)worker;
  job->step_s[i] = 0;
  if (!job->wanted[i] || !job->table->rows[i].predicted) return;
  enum pz_status status = pz_border(predict_request, &run, &why);
  pz_raise_if_memory(task, &why);
  if (status == PZ_OK) job->step_s[i] = run.prediction.step_s;
}

/* Predicts the rows with a true `wanted` again, with other constants of unmeasured chips. */
void pz_run_table_again(struct pz_call *call, const struct pz_run_table *table,
                        const struct pz_cold *chip_constants, const bool *wanted, unsigned threads,
                        double *step_s) {
  struct repredict_job job = {table, chip_constants, wanted, step_s};
  struct pz_pool *pool = pz_pool_open(call, threads);
  pz_pool_run(call, pool, table->n_rows, repredict_row_at, &job);
  pz_close(call, pool);
}

/* ---- errors by group, and the interface ----------------------------------------------------- */

/* The object of pz_runs_predict(), whose address is that of its first member, the public struct. */
struct held_runs {
  struct pz_runs runs;
  struct pz_run_table table;
};

/* Adds the relative error of a step time to the sums of a group. */
void pz_errors_time(struct pz_errors *group, const char *id, double error) {
  group->n++;
  group->mean += fabs(error);
  group->bias += error;
  if (group->worst_id && fabs(error) <= fabs(group->worst)) return;
  group->worst = error;
  group->worst_id = id;
}

/* Adds the relative error of a peak memory to the sums of a group. */
void pz_errors_memory(struct pz_errors *group, double error) {
  group->n_memory++;
  group->memory_mean += fabs(error);
  group->memory_bias += error;
  if (fabs(error) > fabs(group->memory_worst)) group->memory_worst = error;
}

/* Adds the time and the memory error of a row to a group, as far as both are measured. */
static void add_row_errors(struct pz_errors *group, const struct pz_run_row *row) {
  if (row->predicted && row->measured_s > 0)
    pz_errors_time(group, row->id, row->p.step_s / row->measured_s - 1);
  else
    group->not_predicted++;
  if (row->predicted && row->measured_bytes > 0)
    pz_errors_memory(group, row->p.peak_bytes / row->measured_bytes - 1);
}

/* Turns the sums of a group into means.  Means of no errors are NaN. */
void pz_errors_finish(struct pz_errors *group) {
  double n_times = group->n ? (double)group->n : (double)NAN;
  double n_memory = group->n_memory ? (double)group->n_memory : (double)NAN;
  group->mean /= n_times;
  group->bias /= n_times;
  group->memory_mean /= n_memory;
  group->memory_bias /= n_memory;
  if (!group->n) group->worst = (double)NAN;
  if (!group->n_memory) group->memory_worst = (double)NAN;
}

/* Lists the mean errors of the rows of quality "ok" (`ok`), or of all others, by group; the last
 * element is over all groups.  Returns the number of elements. */
static uint32_t collect_errors(const struct pz_run_table *table, bool ok, struct pz_errors *list) {
  struct pz_errors all = {.name = ok ? "all" : "all others", .kind = PZ_POINT_RUN};
  uint32_t n = 0;
  for (uint32_t i = 0; i < table->n_rows; i++) {
    const struct pz_run_row *row = &table->rows[i];
    bool is_ok = strcmp(row->quality, "ok") == 0;
    if (is_ok != ok) continue;
    uint32_t group = 0;
    while (group < n && strcmp(list[group].name, row->group) != 0) group++;
    if (group == n) list[n++] = (struct pz_errors){.name = row->group, .kind = PZ_POINT_RUN};
    add_row_errors(&list[group], row);
    add_row_errors(&all, row);
  }
  if (n || ok) list[n++] = all;
  for (uint32_t i = 0; i < n; i++) pz_errors_finish(&list[i]);
  return n;
}

/* The arguments of pz_runs_predict(). */
struct runs_args {
  struct pz_run_terms terms;
  const char *name, *text;
  size_t bytes;
  struct pz_runs **out;
};

/* Checks the arguments, reads and predicts the table, and sums up its errors. */
static void predict_runs(struct pz_call *call, void *ctx) {
  struct runs_args *args = ctx;
  struct pz_call own;
  pz_require(call, args->name, "name");
  pz_require(call, args->text, "text");
  pz_require(call, args->out, "out");
  struct held_runs *held_runs = pz_object_new(call, sizeof *held_runs, &own);
  struct pz_runs *runs = &held_runs->runs;
  pz_run_table_read(&own, &args->terms, args->name, args->text, args->bytes, &held_runs->table);
  runs->rows = held_runs->table.rows;
  runs->n_rows = held_runs->table.n_rows;
  runs->groups = pz_alloc(&own, (size_t)runs->n_rows + 1, sizeof *runs->groups);
  runs->apart = pz_alloc(&own, (size_t)runs->n_rows + 1, sizeof *runs->apart);
  runs->n_groups = collect_errors(&held_runs->table, true, runs->groups);
  runs->n_apart = collect_errors(&held_runs->table, false, runs->apart);
  *args->out = pz_object_keep(call, runs);
}

enum pz_status pz_runs_predict(const char *name, const char *text, size_t bytes, unsigned threads,
                               struct pz_runs **out, struct pz_error *err) {
  struct runs_args args = {{.threads = threads}, name, text, bytes, out};
  return pz_border(predict_runs, &args, err);
}

enum pz_status pz_runs_predict_alone(const char *name, const char *text, size_t bytes,
                                     unsigned threads, struct pz_runs **out, struct pz_error *err) {
  struct runs_args args = {{.no_network = true, .threads = threads}, name, text, bytes, out};
  return pz_border(predict_runs, &args, err);
}

void pz_runs_free(struct pz_runs *runs) { pz_object_free(runs); }

/* ---- the table with its predictions --------------------------------------------------------- */

/* Writes a row without earlier predictions, then its prediction in the columns of write_csv(). */
static void write_row(const struct pz_run_table *table, uint32_t i, FILE *out) {
  const struct pz_run_row *row = &table->rows[i];
  const struct pz_prediction *prediction = &row->p;
  const struct pz_part_info *part;
  for (uint32_t column = 0; column < table->csv.columns; column++) {
    if (is_result(table->csv.cells[column])) continue;
    pz_csv_put(pz_csv_cell(&table->csv, i, column), out);
    fputc(',', out);
  }
  if (row->predicted) fprintf(out, "%.6g", prediction->step_s);
  fputc(',', out);
  if (row->predicted && row->measured_s > 0)
    fprintf(out, "%.5f", prediction->step_s / row->measured_s - 1);
  fputc(',', out);
  if (row->predicted) fprintf(out, "%.0f", prediction->peak_bytes);
  fputc(',', out);
  if (row->predicted && row->measured_bytes > 0)
    fprintf(out, "%.5f", prediction->peak_bytes / row->measured_bytes - 1);
  fputc(',', out);
  if (row->predicted) fputc(pz_prediction_fits(prediction) ? '1' : '0', out);
  for (size_t k = 0; (part = pz_time_part_at(k)); k++) {
    fputc(',', out);
    if (row->predicted) fprintf(out, "%.5g", pz_time_part(&prediction->parts, part));
  }
  if (row->predicted)
    fprintf(out, ",%.5g,%.5g,%.5g,", prediction->tensor_hidden_s, prediction->expert_hidden_s,
            prediction->gradient_hidden_s);
  else
    fputs(",,,,", out);
  pz_csv_put(row->reason, out);
  fputc('\n', out);
}

/* The arguments of pz_runs_csv(). */
struct csv_args {
  const struct pz_runs *runs;
  char **text;
  size_t *bytes;
};

/* Writes the table with its predictions as CSV into a text that the caller frees. */
static void write_csv(struct pz_call *call, void *ctx) {
  struct csv_args *args = ctx;
  pz_require(call, args->runs, "runs");
  pz_require(call, args->text, "text");
  pz_require(call, args->bytes, "bytes");
  const struct pz_run_table *table = &((const struct held_runs *)(const void *)args->runs)->table;
  struct pz_buffer *csv = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, csv);
  const struct pz_part_info *part;
  for (uint32_t column = 0; column < table->csv.columns; column++) {
    if (is_result(table->csv.cells[column])) continue;
    pz_csv_put(table->csv.cells[column], out);
    fputc(',', out);
  }
  fputs("predicted_step_s,error,predicted_peak_bytes,memory_error,fits", out);
  for (size_t k = 0; (part = pz_time_part_at(k)); k++) fprintf(out, ",%s", part->key);
  fputs(",tensor_hidden_s,expert_hidden_s,gradient_hidden_s,reason\n", out);
  for (uint32_t i = 0; i < table->n_rows; i++) write_row(table, i, out);
  pz_buffer_flush(call, out);
  *args->bytes = csv->bytes;
  *args->text = pz_buffer_take(call, csv);
}

enum pz_status pz_runs_csv(const struct pz_runs *runs, char **text, size_t *bytes,
                           struct pz_error *err) {
  struct csv_args args = {runs, text, bytes};
  return pz_border(write_csv, &args, err);
}
