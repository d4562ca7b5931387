/* Reads a table of training runs and predicts its rows (run_table.h).
 *
 * Each row becomes a request: the shape of its model as a configuration (run_model.c), its plan,
 * chip and network.  Numbers that are none and unknown columns are errors of the table.  Words
 * that the model does not cover, and plans that cannot be, are the reason of a row that is not
 * predicted.  Rows are predicted in parallel.  The last sections collect errors by group and write
 * the table with its predictions. */
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

/* The columns that are read.  The fields of the plan follow; plan_fields.def has the names of
 * their columns. */
enum column {
  ID,
  GROUP,
  QUALITY,
  STEP_TIME,
  PEAK_BYTES,
  MODEL,
  LAYERS,
  HIDDEN,
  HEADS,
  KV_HEADS,
  HEAD_DIM,
  FFN,
  MLP,
  VOCAB,
  EXPERTS,
  TOPK,
  EXPERT_FFN,
  SHARED_EXPERTS,
  DENSE_LAYERS,
  MLA,
  CHIP,
  CLUSTER,
  SHARED_FFN,
  SSM,
  LAYER_PATTERN,
  MOE_LATENT,
  /* words of which the model covers some: covered_words */
  KIND,
  ROUTING,
  VISION,
  OPTIMIZER,
  PLAN, /* from here on: fields of the plan */
  COLUMNS = PLAN + PZ_PLAN_FIELDS
};

static const char *const heads[PLAN] = {
    "id",      "group",      "quality",    "step_time_s",    "peak_bytes",   "model", "layers",
    "hidden",  "heads",      "kv_heads",   "head_dim",       "ffn",          "mlp",   "vocab",
    "experts", "topk",       "expert_ffn", "shared_experts", "dense_layers", "mla",   "chip",
    "cluster", "shared_ffn", "ssm",        "layer_pattern",  "moe_latent",   "kind",  "routing",
    "vision",  "optimizer"};

/* Columns for notes about a run (its source, what else was measured), which are accepted but not
 * used. */
static const char *const notes[] = {"source",
                                    "assumed",
                                    "notes",
                                    "recipe",
                                    "window",
                                    "peak_kind",
                                    "node_watts",
                                    "tok_s_dev",
                                    "tflops_dev",
                                    "flags",
                                    "family",
                                    "case",
                                    "env",
                                    "env_vars",
                                    "test_type",
                                    "golden_date",
                                    "config_date",
                                    "config_as_of",
                                    "n_gpus_how",
                                    "vocab_how",
                                    "iterations",
                                    "peak_bytes_first",
                                    "allocated_bytes",
                                    "iteration_time_s"};
enum { NOTES = sizeof notes / sizeof *notes };

/* A row with all of these fields is a published run, which leaves no field to the framework. */
static const uint64_t fields_of_run =
    PZ_PLAN_PIN(SEQ) | PZ_PLAN_PIN(DEVICES) | PZ_PLAN_PIN(PRECISION) | PZ_PLAN_PIN(ATTENTION) |
    PZ_PLAN_PIN(TP) | PZ_PLAN_PIN(SP) | PZ_PLAN_PIN(PP) | PZ_PLAN_PIN(VPP) | PZ_PLAN_PIN(CP) |
    PZ_PLAN_PIN(DP) | PZ_PLAN_PIN(ZERO) | PZ_PLAN_PIN(MBS) | PZ_PLAN_PIN(BATCH) |
    PZ_PLAN_PIN(RECOMPUTE) | PZ_PLAN_PIN(OVERLAP) | PZ_PLAN_PIN(EXECUTION) | PZ_PLAN_PIN(PIPELINE) |
    PZ_PLAN_PIN(FRAMEWORK) | PZ_PLAN_PIN(GRAD_BYTES) | PZ_PLAN_PIN(ATTENTION_LIBRARY);

/* Returns the heading of a column. */
static const char *column_heading(int column) {
  if (column < PLAN) return heads[column];
  const struct pz_plan_field_info *plan_field_info =
      pz_plan_field((enum pz_plan_field)(column - PLAN));
  return plan_field_info->column ? plan_field_info->column : plan_field_info->name;
}

struct reader {
  const char *name; /* of the table */
  const struct pz_csv *csv;
  uint32_t at[COLUMNS]; /* where each column is in the table, or PZ_NONE if it is absent */
  uint32_t row;         /* the current row */
  const struct pz_run_terms *terms;
};

/* Returns the text of a cell of the current row; chip and cluster of rows without one are those of
 * the terms. */
static const char *cell_text(const struct reader *reader, int column) {
  const char *text = reader->at[column] == PZ_NONE
                         ? ""
                         : pz_csv_cell(reader->csv, reader->row, reader->at[column]);
  const char *usual = column == CHIP      ? reader->terms->chip
                      : column == CLUSTER ? reader->terms->cluster
                                          : NULL;
  return *text || !usual ? text : usual;
}

/* Lists the accepted columns: all but list-valued fields of the plan, then the notes. */
static const char *column_name(const void *ctx, size_t i) {
  (void)ctx;
  for (int column = 0; column < COLUMNS; column++) {
    bool list = column >= PLAN &&
                pz_plan_field((enum pz_plan_field)(column - PLAN))->kind >= PZ_PLAN_KIND_LIST;
    if (!list && i-- == 0) return column_heading(column);
  }
  return i < NOTES ? notes[i] : NULL;
}

/* Like column_name(), without the notes, for suggestions after a misspelt name. */
static const char *read_column_name(const void *ctx, size_t i) {
  const char *name = column_name(ctx, i);
  return name == notes[0] ? NULL : name;
}

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

static bool is_column(const char *name) {
  if (is_result(name)) return true;
  const char *known;
  for (size_t i = 0; (known = column_name(NULL, i)); i++)
    if (strcmp(known, name) == 0) return true;
  return false;
}

static void find_columns(struct pz_call *call, struct reader *reader) {
  char all[800], meant[160];
  for (uint32_t column = 0; column < reader->csv->columns; column++)
    if (!is_column(reader->csv->cells[column]))
      pz_raise(
          call, PZ_BAD_INPUT, "%s:1: unknown column '%.40s'%s; accepted: %s", reader->name,
          reader->csv->cells[column],
          pz_text_meant(meant, sizeof meant, reader->csv->cells[column], read_column_name, NULL),
          pz_text_join(all, sizeof all, column_name, NULL));
  for (int column = 0; column < COLUMNS; column++)
    reader->at[column] = pz_csv_column(reader->csv, column_heading(column));
  bool model = reader->at[MODEL] != PZ_NONE || reader->at[LAYERS] != PZ_NONE;
  if (model && (reader->at[CHIP] != PZ_NONE || reader->terms->chip)) return;
  pz_raise(call, PZ_BAD_INPUT,
           "%s:1: no column '%s'; accepted: a table of runs with the columns model (or the "
           "model's shape: layers, hidden, heads, ffn, mlp, vocab), chip, and those of the "
           "plan that a run is to have",
           reader->name, model ? "chip" : "model");
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

static int64_t read_count(struct pz_call *call, const struct reader *reader, int column) {
  double number = read_number(call, reader, column);
  if (number != floor(number) || number > 1e15)
    pz_raise(call, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: an integer up to 1e15",
             reader->name, reader->csv->lines[reader->row], column_heading(column),
             cell_text(reader, column));
  return (int64_t)number;
}

/* ---- a row ---------------------------------------------------------------------------------- */

/* A row as a question to the predictor. */
struct pz_run_request {
  struct pz_run_model model;
  struct pz_plan plan;
  struct pz_job job;
  char config[PZ_RUN_CONFIG];
  char adapters[200]; /* of the plan, with what the row leaves out */
  struct pz_chip chip;
  struct pz_cluster net;
  bool has_net; /* else the chip's own link */
};

/* Returns whether a table has the field as a number, not as a word. */
static bool is_number_field(const struct pz_plan_field_info *plan_field_info) {
  return plan_field_info->kind != PZ_PLAN_KIND_CHOICE &&
         plan_field_info->kind != PZ_PLAN_KIND_SET && plan_field_info->kind < PZ_PLAN_KIND_TEXT;
}

/* Reads the numeric fields of the plan.  The prediction checks their ranges. */
static void read_plan(struct pz_call *call, const struct reader *reader, struct pz_plan *plan) {
  *plan = pz_plan_default();
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const struct pz_plan_field_info *plan_field_info = pz_plan_field((enum pz_plan_field)f);
    if (!is_number_field(plan_field_info) || !*cell_text(reader, PLAN + f)) continue;
    bool real = plan_field_info->kind == PZ_PLAN_KIND_REAL;
    double number =
        real ? read_number(call, reader, PLAN + f) : (double)read_count(call, reader, PLAN + f);
    pz_plan_field_store(plan, (enum pz_plan_field)f, number);
  }
  if (plan->sp > 0) plan->sp = 1;
}

static void read_numbers(struct pz_call *call, const struct reader *reader,
                         struct pz_run_request *request) {
  const struct {
    int column;
    int64_t *to;
  } list[] = {{LAYERS, &request->model.layers},
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
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    *list[i].to = read_count(call, reader, list[i].column);
  if (*cell_text(reader, MLA) &&
      sscanf(cell_text(reader, MLA),
             "%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64,
             &request->model.q_rank, &request->model.kv_rank, &request->model.rope_dim,
             &request->model.nope_dim, &request->model.value_dim) != 5)
    pz_raise(call, PZ_BAD_INPUT,
             "%s:%u: column 'mla' is '%.40s'; accepted: query rank/key-value "
             "rank/rope/nope/value dimension",
             reader->name, reader->csv->lines[reader->row], cell_text(reader, MLA));
  read_plan(call, reader, &request->plan);
}

static bool cell_is(const struct reader *reader, int column, const char *word) {
  return strcmp(cell_text(reader, column), word) == 0;
}

/* ---- words that are not covered ---- */

/* The accepted words of columns that do not change the prediction.  Experts get even loads,
 * whatever the routing. */
static const struct {
  int column;
  const char *words[7];
} covered_words[] = {
    {KIND, {"pretrain", "sft", "lora", "vlm-pretrain", "vlm-sft", "vlm-lora"}},
    {ROUTING, {"forced balance", "natural"}},
    {OPTIMIZER, {"adam", "adamw"}},
};

__attribute__((format(printf, 2, 3))) static bool refuse_row(struct pz_run_row *row,
                                                             const char *form, ...) {
  va_list args;
  va_start(args, form);
  vsnprintf(row->reason, sizeof row->reason, form, args);
  va_end(args);
  return false;
}

static const char *word_of(const void *ctx, size_t i) { return ((const char *const *)ctx)[i]; }

static bool refuse_word(const struct reader *reader, int column, const char *const *words,
                        struct pz_run_row *row) {
  char list[120];
  return refuse_row(row, "%s '%.60s' is not covered; accepted: %s", column_heading(column),
                    cell_text(reader, column), pz_text_join(list, sizeof list, word_of, words));
}

/* Returns false with a reason if the run trains on images: neither the layers of a vision tower
 * nor the images of a sample are predicted.  A vision-language model that is trained on text is
 * its language model. */
static bool vision_is_covered(const struct reader *reader, struct pz_run_row *row) {
  static const char text_only[] = "text only";
  const char *said = cell_text(reader, VISION);
  size_t n = strlen(said), end = sizeof text_only - 1;
  if (!*said && strncmp(cell_text(reader, KIND), "vlm-", 4) != 0) return true;
  if (strcmp(said, "none") == 0 || (n >= end && strcmp(said + n - end, text_only) == 0))
    return true;
  return refuse_row(row,
                    "%s '%.60s': a vision tower and the images of a sample are not predicted; "
                    "accepted: vision none, or text only",
                    *said ? "vision" : "kind", *said ? said : cell_text(reader, KIND));
}

static bool words_are_covered(const struct reader *reader, struct pz_run_row *row) {
  for (size_t i = 0; i < sizeof covered_words / sizeof *covered_words; i++) {
    const char *const *word = covered_words[i].words,
                      *said = cell_text(reader, covered_words[i].column);
    while (*said && *word && strcmp(*word, said) != 0) word++;
    if (*said && !*word)
      return refuse_word(reader, covered_words[i].column, covered_words[i].words, row);
  }
  return vision_is_covered(reader, row);
}

/* CUDA graphs: of the whole iteration or of whole layers, which is another execution, or of
 * modules with + or , between, also behind who captures them (te, mcore).  moe is all of a layer
 * with experts, whose loads are then fixed (Megatron Core, CudaGraphScope.moe): whole layers,
 * beside attention and, of a hybrid, mamba.  False: a word is not known. */
static bool read_cuda_graphs(const char *at, bool hybrid, struct pz_plan *plan) {
  static const char *const words[] = {"attn",           "mlp",   "moe_router",
                                      "moe_preprocess", "mamba", "layers",
                                      "full_iteration", "moe",   NULL};
  enum { MODULES = 5, MOE = 7 };
  const char *colon = strchr(at, ':');
  bool experts = false;
  if (colon && strncmp(at, "te:", 3) != 0 && strncmp(at, "mcore:", 6) != 0) return false;
  plan->cuda_graphs = 0;
  if (strcmp(at, "none") == 0) return true;
  at = colon ? colon + 1 : at;
  if (!*at) return false;
  for (; *at; at += strcspn(at, "+,"), at += *at != 0) {
    size_t n = strcspn(at, "+,"), i = 0;
    while (words[i] && (strlen(words[i]) != n || strncmp(words[i], at, n) != 0)) i++;
    if (!words[i]) return false;
    if (i < MODULES)
      plan->cuda_graphs |= 1 << i;
    else if (i < MOE)
      plan->execution = PZ_EXECUTION_GRAPH;
    experts |= i == MOE;
  }
  int others = PZ_GRAPH_ATTENTION | (hybrid ? PZ_GRAPH_MAMBA : 0);
  if (experts) plan->execution = PZ_EXECUTION_GRAPH;
  return !experts || (plan->cuda_graphs & others) == others;
}

/* Returns whether the table says that a column was assumed, because the source of the run does not
 * state it. */
static bool is_assumed(const struct reader *reader, const char *column) {
  uint32_t at = pz_csv_column(reader->csv, "assumed");
  return at != PZ_NONE && strstr(pz_csv_cell(reader->csv, reader->row, at), column);
}

/* Reads recomputation: a word of the plan, or "other:" followed by "every second layer", by a
 * policy of what is saved, or by modules.  Returns false for other words. */
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

/* Reads "last 14 layers", "first layer" or "first and last 2 layers".  Returns the number of
 * characters read; 0 for other words. */
static int read_end_layers(const char *at, struct pz_plan *plan) {
  static const struct {
    const char *word;
    bool first, last;
  } list[] = {{"first and last ", true, true}, {"first ", true, false}, {"last ", false, true}};
  size_t i = 0, begin;
  int64_t n = 1;
  int digits = 0;
  while (i < 3 && strncmp(at, list[i].word, strlen(list[i].word)) != 0) i++;
  if (i == 3) return 0;
  begin = strlen(list[i].word);
  if (sscanf(at + begin, "%6" SCNd64 " %n", &n, &digits) == 1) begin += (size_t)digits;
  if (n < 1 || strncmp(at + begin, "layer", 5) != 0) return 0;
  if (list[i].first) plan->bf16_first_layers = n;
  if (list[i].last) plan->bf16_layers = n;
  return (int)begin + 5 + (at[begin + 5] == 's');
}

/* Reads which modules have more bits: "bf16: qkv, attention out, last 14 layers; mxfp8: mamba
 * out".  Embedding, head, router and norms always have 16.  Returns false for other words. */
static bool read_wider_modules(const char *at, struct pz_plan *plan) {
  static const struct {
    const char *word;
    int modules; /* of PZ_WIDE_ALL; of nvfp4 where it is another */
    int of_nvfp4;
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
  for (; *at; at += strspn(at, ",; ")) {
    size_t i = 0, most = sizeof words / sizeof *words;
    int end = 0;
    while (i < most && strncmp(at, words[i].word, strlen(words[i].word)) != 0) i++;
    if (i < most) {
      plan->bf16_modules |= nvfp4 && words[i].of_nvfp4 ? words[i].of_nvfp4 : words[i].modules;
      end = (int)strlen(words[i].word);
    } else {
      end = read_end_layers(at, plan);
    }
    at += end;
    if (!end || (*at && !strchr(",; ", *at) && at[-1] != ' ')) return false;
  }
  return true;
}

/* Returns a recipe in words: "fp8 hybrid, delayed scaling", "mxfp8", or as Megatron and Megatron
 * Bridge call it (Fp8Recipe in megatron/core/enums.py: tensorwise; training/mixed_precision.py
 * of Bridge: subchannel is blockwise).  Its precision, or PZ_PRECISIONS where it says none, or
 * -1 if other words, or two recipes. */
static int read_fp8_recipe(const char *at, size_t bytes, struct pz_plan *plan) {
  enum { NONE = -1, NVFP4 = -2, FP8 = -3, NOTHING = -4 };
  static const struct {
    const char *word;
    int recipe;
  } words[] = {{"none", NONE},
               {"nvfp4", NVFP4},
               {"fp8", FP8},
               {"hybrid", NOTHING}, /* e4m3, and e5m2 for gradients */
               {"e4m3", NOTHING},
               {"scaling", NOTHING},
               {"mxfp8", PZ_FP8_MX},
               {"fp8-mx", PZ_FP8_MX},
               {"delayed", PZ_FP8_DELAYED},
               {"fp8-ds", PZ_FP8_DELAYED},
               {"current", PZ_FP8_CURRENT},
               {"tensorwise", PZ_FP8_CURRENT},
               {"fp8-cs", PZ_FP8_CURRENT},
               {"blockwise", PZ_FP8_BLOCKWISE},
               {"subchannel", PZ_FP8_BLOCKWISE},
               {"fp8-sc", PZ_FP8_BLOCKWISE}};
  enum { WORDS = sizeof words / sizeof *words };
  int said = NOTHING;
  for (const char *end = at + bytes; at < end; at += strspn(at, ", ")) {
    size_t n = strcspn(at, ", ;"), i = 0;
    while (i < WORDS && !pz_text_is(at, n, words[i].word)) i++;
    int recipe = i < WORDS ? words[i].recipe : NOTHING;
    bool more = said == FP8 && recipe >= 0; /* fp8 with a recipe */
    if (i == WORDS || (recipe != NOTHING && said != NOTHING && !more)) return -1;
    if (recipe != NOTHING) said = recipe;
    at += n;
  }
  if (said >= 0) plan->fp8_recipe = said;
  return said == NOTHING ? -1
         : said == NONE  ? PZ_PRECISIONS
         : said == NVFP4 ? PZ_PRECISION_NVFP4
                         : PZ_PRECISION_FP8;
}

/* Reads a quantisation recipe, followed by the modules that have more bits.  Returns false if it
 * is not covered, or contradicts the precision of the row. */
static bool read_quantisation(const char *word, struct pz_plan *plan) {
  int64_t first = 0, last = 0;
  int end = 0;
  const char *more = strstr(word, " in layers 0-");
  if (!more) more = strchr(word, ';');
  int precision = read_fp8_recipe(word, more ? (size_t)(more - word) : strlen(word), plan);
  if (precision < 0) return false;
  if (precision != PZ_PRECISIONS && plan->precision < 0) plan->precision = precision;
  if (precision != PZ_PRECISIONS && plan->precision != precision) return false;
  if (!more) return true;
  if (*more == ';') return read_wider_modules(more + strspn(more, "; "), plan);
  if (sscanf(more, " in layers 0-%*d, bf16 in %6" SCNd64 "-%6" SCNd64 " and the head%n", &first,
             &last, &end) != 2 ||
      !end || more[end] || last < first)
    return false;
  plan->bf16_layers = last - first + 1;
  return true;
}

/* Reads what is offloaded to the host, separated by ";": "activations of 20 layers" (of each
 * chunk), "activations: MODULES", "optimizer 50%" (of its state), or a word of the plan.  Returns
 * false for other words. */
static bool read_offload(const char *word, struct pz_plan *plan) {
  static const char modules[] = "activations: ";
  char one[120];
  int offload = 0;
  for (; *word; word += strspn(word, "; ")) {
    size_t n = strcspn(word, ";");
    int end = 0, percent = 0;
    if (n >= sizeof one) return false;
    snprintf(one, sizeof one, "%.*s", (int)n, word);
    word += n;
    const char *list =
        strncmp(one, modules, sizeof modules - 1) == 0 ? one + sizeof modules - 1 : NULL;
    if (sscanf(one, "activations of %6" SCNd64 " layers%n", &plan->offload_layers, &end) == 1 &&
        end)
      plan->offload = PZ_OFFLOAD_ACTIVATIONS;
    else if (sscanf(one, "optimizer %3d%%%n", &percent, &end) == 1 && end && percent > 0 &&
             percent <= 100)
      plan->offload = PZ_OFFLOAD_OPTIMIZER, plan->offload_fraction = percent / 100.0;
    else if (list && pz_try_plan_field(plan, PZ_PLAN_OFFLOAD_MODULES, list, NULL))
      plan->offload = PZ_OFFLOAD_ACTIVATIONS;
    else if (list || !pz_try_plan_field(plan, PZ_PLAN_OFFLOAD, one, NULL))
      return false;
    if (end && one[end]) return false;
    offload |= plan->offload;
  }
  plan->offload = offload;
  return true;
}

/* Checks a word for attention that says which layers have it or which keys it reads; the kernels
 * are flash attention.  The model must say the same by its shape or name.  Returns what the model
 * has to say, "" if it does, and NULL for other words. */
static const char *attention_layers(const struct reader *reader, const struct pz_run_model *model,
                                    const char *word) {
  static const struct {
    const char *word, *pattern, *wanted;
    const char *keys[3]; /* of a config.json */
  } list[] = {{"hybrid",
               NULL,
               "ssm and layer_pattern with a letter for each layer",
               {"\"mamba_", "\"linear_", "\"hybrid_override_pattern\""}},
              {"dsa", "DSA: ", "layer_pattern 'DSA: indexer NxN top N'", {"\"index_topk\""}},
              {"window",
               "window ",
               "layer_pattern 'window N in every second layer, sinks'",
               {"\"sliding_window\""}}};
  enum { LIST = sizeof list / sizeof *list };
  const struct pz_preset *preset = model->layers ? NULL : pz_preset_find(cell_text(reader, MODEL));
  size_t i = 0;
  while (i < LIST && strcmp(list[i].word, word) != 0) i++;
  if (i == LIST) return NULL;
  bool known = list[i].pattern
                   ? strncmp(model->layers_as, list[i].pattern, strlen(list[i].pattern)) == 0
                   : pz_run_model_hybrid(model);
  for (int k = 0; preset && k < 3 && list[i].keys[k]; k++)
    known |= strstr(preset->config, list[i].keys[k]) != NULL;
  return known ? "" : list[i].wanted;
}

/* Reads the fields that are words.  Returns false with a reason if one of them is not covered. */
static bool read_choices(const struct reader *reader, struct pz_run_request *request,
                         struct pz_run_row *row) {
  static const char *const mlps[] = {"gelu", "swiglu", "geglu", "relu2", NULL};
  struct pz_plan *plan = &request->plan;
  struct pz_error why = {0};
  request->model.ssm = cell_text(reader, SSM);
  request->model.layers_as = cell_text(reader, LAYER_PATTERN);
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const struct pz_plan_field_info *plan_field_info = pz_plan_field((enum pz_plan_field)f);
    const char *word = cell_text(reader, PLAN + f);
    if (is_number_field(plan_field_info) || !*word) continue;
    const char *wanted =
        f == PZ_PLAN_ATTENTION ? attention_layers(reader, &request->model, word) : NULL;
    if (wanted && *wanted)
      return refuse_row(row,
                        "attention '%.20s' of a model whose layers are not known; accepted: %s, or "
                        "the name of a built-in model that has it",
                        word, wanted);
    if (wanted) word = "flash";
    bool known = f == PZ_PLAN_RECOMPUTE    ? read_recompute(word, plan)
                 : f == PZ_PLAN_FP8_RECIPE ? read_quantisation(word, plan)
                 : f == PZ_PLAN_OFFLOAD    ? read_offload(word, plan)
                 : f == PZ_PLAN_CUDA_GRAPHS
                     ? read_cuda_graphs(word, pz_run_model_hybrid(&request->model), plan)
                     : pz_try_plan_field(plan, (enum pz_plan_field)f, word, &why);
    if (!known && f == PZ_PLAN_CUDA_GRAPHS)
      return refuse_row(
          row,
          "cuda_graphs '%.60s' is not covered; accepted: none, full_iteration, or te: "
          "or mcore: with layers; attn, mlp, moe_router, moe_preprocess, mamba with + or , "
          "between, "
          "moe with attn and all others",
          word);
    if (!known && f == PZ_PLAN_FP8_RECIPE)
      return refuse_row(
          row,
          "quant '%.30s' is not covered%s%s; accepted: none, nvfp4, mxfp8, or fp8 with delayed, "
          "current, blockwise scaling; then bf16: qkv, attention out, mamba out, last N layers",
          word, plan->precision < 0 ? "" : " with precision ",
          plan->precision < 0 ? "" : pz_precision_names[plan->precision]);
    if (!known && plan_field_info->names)
      return refuse_word(reader, PLAN + f, plan_field_info->names, row);
    if (!known) return refuse_row(row, "%s", why.message);
  }
  for (size_t i = 0; *cell_text(reader, MLP) && !cell_is(reader, MLP, mlps[i]);)
    if (!mlps[++i]) return refuse_word(reader, MLP, mlps, row);
  /* of a run that says everything else an empty cell is none */
  static const uint64_t may_be_empty = PZ_PLAN_PIN(OVERLAP) | PZ_PLAN_PIN(ATTENTION_LIBRARY);
  if (((pz_plan_given(plan) | may_be_empty) & fields_of_run) == fields_of_run) {
    if (reader->at[PLAN + PZ_PLAN_ATTENTION_LIBRARY] != PZ_NONE)
      plan->attention_library = cell_text(reader, PLAN + PZ_PLAN_ATTENTION_LIBRARY);
    if (reader->at[PLAN + PZ_PLAN_OVERLAP] != PZ_NONE && plan->overlap < 0) plan->overlap = 0;
  }
  return words_are_covered(reader, row);
}

/* MLPerf's fine-tuning: dropout 0.1 before adapters, by its rules, and of context parallelism an
 * all-to-all of heads (train.py and cp_comm_type in
 * NVIDIA/benchmarks/llama2_70b_lora/implementations of github.com/mlcommons/training_results_v5.0,
 * and of the results of others).  Where cp does not divide the key/value heads of a device, which
 * Transformer Engine's all-to-all asks for (AttnFuncWithCPAndQKVOA2A), a ring (its p2p). */
static void set_mlperf_rules(struct pz_call *call, const struct reader *reader,
                             struct pz_run_request *request, struct pz_plan *plan) {
  struct pz_lora lora;
  struct pz_model_shape shape;
  int64_t groups = request->model.kv_heads ? request->model.kv_heads : request->model.heads;
  if (!request->model.layers && pz_try_model_shape(call, cell_text(reader, MODEL), NULL, &shape))
    groups = shape.kv_heads;
  bool divides = groups / pz_max(plan->tp, 1) % pz_plan_cp(plan) == 0;
  if (plan->cp_form < 0) plan->cp_form = divides ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
  int n = snprintf(request->adapters, sizeof request->adapters, "%s:0.1", plan->peft);
  bool fits = n > 0 && (size_t)n < sizeof request->adapters;
  if (fits && pz_lora_parse(request->adapters, &lora, NULL) == PZ_OK)
    plan->peft = request->adapters;
}

/* Completes a published run, whose table states all fields: defaults of the recipes that tables
 * leave out. */
static void complete_published_run(const struct reader *reader, struct pz_run_request *request,
                                   struct pz_plan *plan) {
  if (!request->model.experts || !plan->ep) plan->ep = 1;
  if (plan->cp_form < 0) plan->cp_form = PZ_CONTEXT_RING;
  /* a row that names its dispatcher is as its recipe has it: without CUDA graphs where none are
   * named */
  if (plan->dispatcher >= 0 && plan->cuda_graphs < 0 &&
      reader->at[PLAN + PZ_PLAN_CUDA_GRAPHS] != PZ_NONE)
    plan->cuda_graphs = 0;
  bool drops = strstr(cell_text(reader, MODEL), "tokendrop") != NULL;
  /* in a table that names dispatchers, a recipe that names none has Megatron Core's all-to-all on
   * nodes of 8 devices (Qwen3's of Megatron Bridge, moe_token_dispatcher_type in
   * scripts/performance/configs/qwen), but for DeepSeek's family, and HybridEP in larger domains,
   * if it drops no tokens; other runs over nodes are published with DeepEP or its like */
  bool recipe = plan->framework == pz_framework_find("nemo"),
       domain = request->chip.calibration.host_launch > 1;
  if (plan->dispatcher < 0 && reader->at[PLAN + PZ_PLAN_DISPATCHER] != PZ_NONE)
    plan->dispatcher = recipe && domain && !drops                      ? PZ_DISPATCHER_HYBRIDEP
                       : recipe && (domain || !request->model.kv_rank) ? PZ_DISPATCHER_ALLTOALL
                                                                       : PZ_DISPATCHER_DEEPEP;
  /* experts padded to a capacity have shapes that do not change: such recipes capture whole
   * iterations (scripts/performance/configs/qwen3 of Megatron Bridge, apply_moe_token_drop and
   * cuda_graph_scope full_iteration) */
  if (drops) plan->execution = PZ_EXECUTION_GRAPH;
  /* others with experts for GB200 and GB300 attention, router and the preparation of the dispatch
   * (their cuda_graph_scope) */
  if (recipe && domain && request->model.experts && plan->cuda_graphs < 0)
    plan->cuda_graphs = PZ_GRAPH_ATTENTION | PZ_GRAPH_ROUTER | PZ_GRAPH_PREPARATION;
  if (plan->cuda_graphs < 0) plan->cuda_graphs = 0;
  if (plan->recompute == PZ_RECOMPUTATION_NONE && pz_plan_framework(plan)->recompute_modules)
    plan->recompute = PZ_RECOMPUTATION_SELECTIVE;
  /* MaxText has flash attention where nothing else is asked */
  if (plan->framework == pz_framework_find("maxtext") && is_assumed(reader, "attention"))
    plan->attention = PZ_ATTENTION_FLASH;
  if (pz_framework_compiles(pz_plan_framework(plan))) {
    /* Sets what XLA does, whatever the table says: collectives run beside compute, activations
     * between layers are divided over the tensor-parallel group, weights over a slice (the
     * innermost level), and without stages a replica's samples are one microbatch (tables have
     * those of a device). */
    const struct pz_cluster *net = &request->net;
    int64_t slice = net->level[0].devices / pz_max(1, plan->tp);
    plan->overlap |= PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM | PZ_OVERLAP_TP;
    plan->sp = plan->tp > 1;
    if (plan->pp == 1 && plan->dp > 0) plan->mbs = pz_max(plan->mbs, plan->batch / plan->dp);
    if (plan->zero == 3 && slice > 0 && plan->dp > slice && plan->dp % slice == 0)
      plan->shard = slice;
  }
}

/* Loads the cluster of the row, or else the standard cluster of its chip, or else the chip's own
 * link. */
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
  bool known = pz_cluster_standard(request->chip.name, &request->net);
  if (!known && pz_chip_built(&request->chip) && devices > PZ_SERVER_DEVICES)
    pz_raise(call, PZ_BAD_USE,
             "no cluster, and none is known for %s; accepted: a name in column 'cluster'",
             request->chip.name);
  request->has_net = known && pz_cluster_needed(&request->net, devices);
  if (request->has_net) pz_must(call, pz_cluster_reach(&request->net, devices, "n_dev", err));
}

/* Loads the chip and the network of a row, and fills in its plan. */
static void complete_request(struct pz_call *call, const struct reader *reader,
                             struct pz_run_request *request) {
  pz_chip_read(call, cell_text(reader, CHIP), &request->chip);
  if (reader->terms->cold && !request->chip.cold)
    pz_chip_make_cold(call, &request->chip, reader->terms->cold);
  /* Checks the precision.  In a table, bf16 stands for 16 bit of the kind that the chip has. */
  struct pz_plan *plan = &request->plan;
  if (plan->precision == PZ_PRECISION_BF16 &&
      pz_chip_can_run(&request->chip, PZ_PRECISION_BF16, NULL) != PZ_OK)
    plan->precision = PZ_PRECISION_FP16;
  if (plan->precision >= 0)
    pz_must(call, pz_chip_can_run(&request->chip, (enum pz_precision)plan->precision,
                                  pz_call_error(call)));
  load_cluster(call, reader, request);
  if (reader->terms->no_network) {
    /* Remove network. */
    struct pz_network n = {.cluster = request->net, .own_link = !request->has_net};
    pz_network_make_instant(&n, &request->chip, pz_plan_asked_devices(&request->plan));
    request->net = n.cluster;
    request->has_net = true;
  }
  if (strncmp(cell_text(reader, GROUP), "mlperf", 6) == 0 &&
      pz_plan_trains_adapters(&request->plan))
    set_mlperf_rules(call, reader, request, &request->plan);
  if ((pz_plan_given(&request->plan) & fields_of_run) != fields_of_run) {
    /* where no kernels were measured any library (ck, fsdpa, nki, ...) is the chip's attention */
    const char *library = request->plan.attention_library;
    bool own = library && *library && pz_attention_kernel(&request->chip, library, PZ_FORWARD);
    if (request->chip.cold && !own)
      request->plan.attention_library = ""; /* the class has one of its own */
    pz_fill_plan(call, &request->plan, &request->chip);
    return;
  }
  complete_published_run(reader, request, &request->plan);
  pz_fill_plan_precision(call, &request->plan, &request->chip);
}

/* Reads the shape of the row's model, if it has one; otherwise its name is that of a built-in
 * model or of a file.  Returns false with a reason if the shape is incomplete. */
static bool read_shape(const struct reader *reader, struct pz_run_request *request,
                       struct pz_run_row *row) {
  static const int needed[] = {HIDDEN, HEADS, FFN, MLP, VOCAB, PLAN + PZ_PLAN_SEQ};
  if (!request->model.layers && !*cell_text(reader, MODEL))
    return refuse_row(row, "no model; accepted: a name in column model, or its shape");
  for (int column = SHARED_FFN; column <= MOE_LATENT && !request->model.layers; column++)
    if (*cell_text(reader, column) && !cell_is(reader, column, "none"))
      return refuse_row(row, "%s '%.60s' of a model by its name; accepted: the whole shape",
                        column_heading(column), cell_text(reader, column));
  if (!request->model.layers) return true;
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!*cell_text(reader, needed[i]))
      return refuse_row(row, "the model has %lld layers and no %s; accepted: the whole shape",
                        (long long)request->model.layers, column_heading(needed[i]));
  if (!request->model.kv_heads) request->model.kv_heads = request->model.heads;
  if (!request->model.head_dim && request->model.heads)
    request->model.head_dim = request->model.hidden / request->model.heads;
  request->model.seq = request->plan.seq;
  request->model.mlp = cell_text(reader, MLP);
  /* adapters of plain PyTorch are on projections of their own, not on joint ones */
  request->model.plain = request->plan.framework >= 0 &&
                         pz_plan_framework(&request->plan)->plain_decoders &&
                         !pz_plan_trains_adapters(&request->plan);
  request->model.own_head = request->plan.framework == pz_framework_find("torch");
  return pz_run_model_config(&request->model, request->config, row->reason);
}

/* ---- the table ------------------------------------------------------------------------------ */

struct table_job {
  struct reader reader;
  struct pz_run_request *requests;
  struct pz_run_row *rows;
  struct pz_progress *progress;
};

struct row_completion {
  const struct reader *reader;
  struct pz_run_request *request;
};

static void complete_row(struct pz_call *call, void *ctx) {
  struct row_completion *row_completion = ctx;
  complete_request(call, row_completion->reader, row_completion->request);
}

/* Stores why a row is not predicted.  Running out of memory is an error of the whole table. */
static void note_reason(struct pz_call *call, const struct pz_error *why, struct pz_run_row *row) {
  pz_raise_if_memory(call, why);
  pz_text_copy(row->reason, sizeof row->reason, why->message);
}

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
  struct row_completion row_completion = {reader, request};
  if (pz_border(complete_row, &row_completion, &why) != PZ_OK) {
    note_reason(call, &why, row);
    return;
  }
  row->devices = pz_plan_asked_devices(&request->plan);
  row->hbm_bytes = (double)pz_chip_hbm_bytes(&request->chip);
  (void)read_shape(reader, request, row);
}

struct row_prediction {
  const struct pz_job *job;
  const struct pz_plan *plan;
  struct pz_prediction p;
};

static void predict_request(struct pz_call *call, void *ctx) {
  struct row_prediction *row_prediction = ctx;
  row_prediction->p = pz_predict(call, row_prediction->job, row_prediction->plan, NULL);
}

static void predict_row(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct table_job *job = ctx;
  struct pz_run_row *row = &job->rows[i];
  struct pz_run_request *request = &job->requests[i];
  struct row_prediction row_prediction = {.job = &request->job, .plan = &request->plan};
  struct pz_error why = {0};
  (void)worker;
  pz_progress_add(job->progress, 1);
  if (row->reason[0] || pz_progress_stopped(job->progress)) return;
  row->predicted = pz_border(predict_request, &row_prediction, &why) == PZ_OK;
  if (row->predicted)
    row->p = row_prediction.p;
  else
    note_reason(task, &why, row);
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

/* Predictions of the rows again with other constants of unmeasured chips. */
struct again_job {
  const struct pz_run_table *table;
  const struct pz_cold *cold;
  const bool *wanted;
  double *step_s;
};

struct again_row {
  const struct pz_run_request *request;
  const struct pz_cold *cold;
  double step_s;
};

static void predict_with_constants(struct pz_call *call, void *ctx) {
  struct again_row *again_row = ctx;
  struct pz_chip chip = again_row->request->chip;
  struct pz_job job = again_row->request->job;
  pz_chip_set_class(call, &chip, again_row->cold);
  job.chip = &chip;
  again_row->step_s = pz_predict(call, &job, &again_row->request->plan, NULL).step_s;
}

static void predict_again(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct again_job *job = ctx;
  struct again_row again_row = {.request = &job->table->requests[i], .cold = job->cold};
  struct pz_error why = {0};
  (void)worker;
  job->step_s[i] = 0;
  if (!job->wanted[i] || !job->table->rows[i].predicted) return;
  enum pz_status status = pz_border(predict_with_constants, &again_row, &why);
  pz_raise_if_memory(task, &why);
  if (status == PZ_OK) job->step_s[i] = again_row.step_s;
}

void pz_run_table_again(struct pz_call *call, const struct pz_run_table *table,
                        const struct pz_cold *cold, const bool *wanted, unsigned threads,
                        double *step_s) {
  struct again_job job = {table, cold, wanted, step_s};
  struct pz_pool *pool = pz_pool_open(call, threads);
  pz_pool_run(call, pool, table->n_rows, predict_again, &job);
  pz_close(call, pool);
}

/* ---- for programs --------------------------------------------------------------------------- */

/* The object of pz_runs_predict().  The public struct comes first, so that its address is that of
 * the object. */
struct held_runs {
  struct pz_runs runs;
  struct pz_run_table table;
};

void pz_errors_time(struct pz_errors *group, const char *id, double error) {
  group->n++;
  group->mean += fabs(error);
  group->bias += error;
  if (group->worst_id && fabs(error) <= fabs(group->worst)) return;
  group->worst = error;
  group->worst_id = id;
}

void pz_errors_memory(struct pz_errors *group, double error) {
  group->n_memory++;
  group->memory_mean += fabs(error);
  group->memory_bias += error;
  if (fabs(error) > fabs(group->memory_worst)) group->memory_worst = error;
}

static void add_row_errors(struct pz_errors *group, const struct pz_run_row *row) {
  if (row->predicted && row->measured_s > 0)
    pz_errors_time(group, row->id, row->p.step_s / row->measured_s - 1);
  else
    group->not_predicted++;
  if (row->predicted && row->measured_bytes > 0)
    pz_errors_memory(group, row->p.peak_bytes / row->measured_bytes - 1);
}

void pz_errors_finish(struct pz_errors *group) {
  double n = group->n ? (double)group->n : (double)NAN,
         m = group->n_memory ? (double)group->n_memory : (double)NAN;
  group->mean /= n;
  group->bias /= n;
  group->memory_mean /= m;
  group->memory_bias /= m;
  if (!group->n) group->worst = (double)NAN;
  if (!group->n_memory) group->memory_worst = (double)NAN;
}

static struct pz_errors *find_group(struct pz_errors *list, uint32_t *n, const char *name) {
  for (uint32_t i = 0; i < *n; i++)
    if (strcmp(list[i].name, name) == 0) return &list[i];
  list[*n] = (struct pz_errors){.name = name, .kind = PZ_POINT_RUN};
  return &list[(*n)++];
}

/* Collects the errors of the groups of rows, and of all of them as the last group: rows of quality
 * ok, or all others.  Returns the number of groups. */
static uint32_t collect_errors(const struct pz_run_table *table, bool ok, struct pz_errors *list) {
  struct pz_errors all = {.name = ok ? "all" : "all others", .kind = PZ_POINT_RUN};
  uint32_t n = 0;
  for (uint32_t i = 0; i < table->n_rows; i++) {
    const struct pz_run_row *row = &table->rows[i];
    if ((strcmp(row->quality, "ok") == 0) != ok) continue;
    add_row_errors(find_group(list, &n, row->group), row);
    add_row_errors(&all, row);
  }
  if (n || ok) list[n++] = all;
  for (uint32_t i = 0; i < n; i++) pz_errors_finish(&list[i]);
  return n;
}

struct runs_args {
  struct pz_run_terms terms;
  const char *name, *text;
  size_t bytes;
  struct pz_runs **out;
};

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

/* ---- the table with what was predicted ------------------------------------------------------ */

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

struct csv_args {
  const struct pz_runs *runs;
  char **text;
  size_t *bytes;
};

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
