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

/* Beside the fields of the plan, whose columns plan_fields.def names. */
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

/* What people note beside a run: where it is from, what else was measured.  Not read. */
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

/* A row with all of these is a run as it was published, nothing of it left to a framework. */
static const uint64_t fields_of_run =
    PZ_PLAN_PIN(SEQ) | PZ_PLAN_PIN(DEVICES) | PZ_PLAN_PIN(PRECISION) | PZ_PLAN_PIN(ATTENTION) |
    PZ_PLAN_PIN(TP) | PZ_PLAN_PIN(SP) | PZ_PLAN_PIN(PP) | PZ_PLAN_PIN(VPP) | PZ_PLAN_PIN(CP) |
    PZ_PLAN_PIN(DP) | PZ_PLAN_PIN(ZERO) | PZ_PLAN_PIN(MBS) | PZ_PLAN_PIN(BATCH) |
    PZ_PLAN_PIN(RECOMPUTE) | PZ_PLAN_PIN(OVERLAP) | PZ_PLAN_PIN(EXECUTION) | PZ_PLAN_PIN(PIPELINE) |
    PZ_PLAN_PIN(FRAMEWORK) | PZ_PLAN_PIN(GRAD_BYTES) | PZ_PLAN_PIN(ATTENTION_LIBRARY);

static const char *head(int c) {
  if (c < PLAN) return heads[c];
  const struct pz_plan_field_info *x = pz_plan_field((enum pz_plan_field)(c - PLAN));
  return x->column ? x->column : x->name;
}

struct reader {
  const char *name;
  const struct pz_csv *csv;
  uint32_t at[COLUMNS];
  uint32_t row;
  const struct pz_run_terms *terms;
};

static const char *cell(const struct reader *r, int c) {
  const char *text = r->at[c] == PZ_NONE ? "" : pz_csv_cell(r->csv, r->row, r->at[c]);
  const char *usual = c == CHIP ? r->terms->chip : c == CLUSTER ? r->terms->cluster : NULL;
  return *text || !usual ? text : usual;
}

/* Of a plan all but lists. */
static const char *column_name(const void *ctx, size_t i) {
  (void)ctx;
  for (int c = 0; c < COLUMNS; c++) {
    bool list =
        c >= PLAN && pz_plan_field((enum pz_plan_field)(c - PLAN))->kind >= PZ_PLAN_KIND_LIST;
    if (!list && i-- == 0) return head(c);
  }
  return i < NOTES ? notes[i] : NULL;
}

/* Without the notes, for what may have been meant. */
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

static void find_columns(struct pz_call *call, struct reader *r) {
  char all[800], meant[160];
  for (uint32_t c = 0; c < r->csv->columns; c++)
    if (!is_column(r->csv->cells[c]))
      pz_raise(call, PZ_BAD_INPUT, "%s:1: unknown column '%.40s'%s; accepted: %s", r->name,
               r->csv->cells[c],
               pz_text_meant(meant, sizeof meant, r->csv->cells[c], read_column_name, NULL),
               pz_text_join(all, sizeof all, column_name, NULL));
  for (int c = 0; c < COLUMNS; c++) r->at[c] = pz_csv_column(r->csv, head(c));
  bool model = r->at[MODEL] != PZ_NONE || r->at[LAYERS] != PZ_NONE;
  if (model && (r->at[CHIP] != PZ_NONE || r->terms->chip)) return;
  pz_raise(call, PZ_BAD_INPUT,
           "%s:1: no column '%s'; accepted: a table of runs with the columns model (or the "
           "model's shape: layers, hidden, heads, ffn, mlp, vocab), chip, and those of the "
           "plan that a run is to have",
           r->name, model ? "chip" : "model");
}

/* A number; 0 where the cell is empty. */
static double read_number(struct pz_call *call, const struct reader *r, int c) {
  const char *text = cell(r, c);
  char *end;
  if (!*text) return 0;
  errno = 0;
  double number = strtod(text, &end);
  if (*end || errno || !(number >= 0 && number < 1e18))
    pz_raise(call, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: a number from 0 to 1e18",
             r->name, r->csv->lines[r->row], head(c), text);
  return number;
}

static int64_t read_count(struct pz_call *call, const struct reader *r, int c) {
  double number = read_number(call, r, c);
  if (number != floor(number) || number > 1e15)
    pz_raise(call, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: an integer up to 1e15",
             r->name, r->csv->lines[r->row], head(c), cell(r, c));
  return (int64_t)number;
}

/* ---- a row ---------------------------------------------------------------------------------- */

/* A row as it is asked. */
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

/* Is the field a number in a table? */
static bool is_number(const struct pz_plan_field_info *x) {
  return x->kind != PZ_PLAN_KIND_CHOICE && x->kind != PZ_PLAN_KIND_SET &&
         x->kind < PZ_PLAN_KIND_TEXT;
}

/* Numbers of the plan; whether they are in range is for the prediction to say. */
static void read_plan(struct pz_call *call, const struct reader *r, struct pz_plan *p) {
  *p = pz_plan_default();
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const struct pz_plan_field_info *x = pz_plan_field((enum pz_plan_field)f);
    if (!is_number(x) || !*cell(r, PLAN + f)) continue;
    bool real = x->kind == PZ_PLAN_KIND_REAL;
    double number = real ? read_number(call, r, PLAN + f) : (double)read_count(call, r, PLAN + f);
    pz_plan_field_store(p, (enum pz_plan_field)f, number);
  }
  if (p->sp > 0) p->sp = 1;
}

static void read_numbers(struct pz_call *call, const struct reader *r, struct pz_run_request *q) {
  const struct {
    int c;
    int64_t *to;
  } list[] = {{LAYERS, &q->model.layers},
              {HIDDEN, &q->model.hidden},
              {HEADS, &q->model.heads},
              {KV_HEADS, &q->model.kv_heads},
              {HEAD_DIM, &q->model.head_dim},
              {FFN, &q->model.ffn},
              {VOCAB, &q->model.vocab},
              {EXPERTS, &q->model.experts},
              {TOPK, &q->model.topk},
              {EXPERT_FFN, &q->model.expert_ffn},
              {SHARED_EXPERTS, &q->model.shared_experts},
              {SHARED_FFN, &q->model.shared_ffn},
              {DENSE_LAYERS, &q->model.dense_layers},
              {MOE_LATENT, &q->model.moe_latent},
              {PLAN + PZ_PLAN_MTP, &q->model.mtp}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    *list[i].to = read_count(call, r, list[i].c);
  if (*cell(r, MLA) &&
      sscanf(cell(r, MLA), "%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64 "/%5" SCNd64,
             &q->model.q_rank, &q->model.kv_rank, &q->model.rope_dim, &q->model.nope_dim,
             &q->model.value_dim) != 5)
    pz_raise(call, PZ_BAD_INPUT,
             "%s:%u: column 'mla' is '%.40s'; accepted: query rank/key-value "
             "rank/rope/nope/value dimension",
             r->name, r->csv->lines[r->row], cell(r, MLA));
  read_plan(call, r, &q->plan);
}

static bool says(const struct reader *r, int c, const char *word) {
  return strcmp(cell(r, c), word) == 0;
}

/* ---- words that are not covered ---- */

/* Words of a column that change nothing, or that the model covers by what it does anyway: experts get
 * even loads. */
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

static bool refuse_word(const struct reader *r, int c, const char *const *words,
                        struct pz_run_row *row) {
  char list[120];
  return refuse_row(row, "%s '%.60s' is not covered; accepted: %s", head(c), cell(r, c),
                    pz_text_join(list, sizeof list, word_of, words));
}

/* Vision-language models trained on text are their language model.  Else a tower computes on images, frozen or not, and
 * neither its layers nor the images of a sample are predicted. */
static bool vision_is_covered(const struct reader *r, struct pz_run_row *row) {
  static const char text_only[] = "text only";
  const char *said = cell(r, VISION);
  size_t n = strlen(said), end = sizeof text_only - 1;
  if (!*said && strncmp(cell(r, KIND), "vlm-", 4) != 0) return true;
  if (strcmp(said, "none") == 0 || (n >= end && strcmp(said + n - end, text_only) == 0))
    return true;
  return refuse_row(row,
                    "%s '%.60s': a vision tower and the images of a sample are not predicted; "
                    "accepted: vision none, or text only",
                    *said ? "vision" : "kind", *said ? said : cell(r, KIND));
}

static bool words_are_covered(const struct reader *r, struct pz_run_row *row) {
  for (size_t i = 0; i < sizeof covered_words / sizeof *covered_words; i++) {
    const char *const *word = covered_words[i].words, *said = cell(r, covered_words[i].column);
    while (*said && *word && strcmp(*word, said) != 0) word++;
    if (*said && !*word)
      return refuse_word(r, covered_words[i].column, covered_words[i].words, row);
  }
  return vision_is_covered(r, row);
}

/* CUDA graphs: of the whole iteration or of whole layers, which is another execution, or of modules with + or , between,
 * also behind who captures them (te, mcore).  moe is all of a layer with experts, whose loads are then fixed (Megatron
 * Core, CudaGraphScope.moe): whole layers, beside attention and, of a hybrid, mamba.  False: a word is not known. */
static bool read_graphs(const char *at, bool hybrid, struct pz_plan *p) {
  static const char *const words[] = {"attn",           "mlp",   "moe_router",
                                      "moe_preprocess", "mamba", "layers",
                                      "full_iteration", "moe",   NULL};
  enum { MODULES = 5, MOE = 7 };
  const char *colon = strchr(at, ':');
  bool experts = false;
  if (colon && strncmp(at, "te:", 3) != 0 && strncmp(at, "mcore:", 6) != 0) return false;
  p->cuda_graphs = 0;
  if (strcmp(at, "none") == 0) return true;
  at = colon ? colon + 1 : at;
  if (!*at) return false;
  for (; *at; at += strcspn(at, "+,"), at += *at != 0) {
    size_t n = strcspn(at, "+,"), i = 0;
    while (words[i] && (strlen(words[i]) != n || strncmp(words[i], at, n) != 0)) i++;
    if (!words[i]) return false;
    if (i < MODULES)
      p->cuda_graphs |= 1 << i;
    else if (i < MOE)
      p->execution = PZ_EXECUTION_GRAPH;
    experts |= i == MOE;
  }
  int others = PZ_GRAPH_ATTENTION | (hybrid ? PZ_GRAPH_MAMBA : 0);
  if (experts) p->execution = PZ_EXECUTION_GRAPH;
  return !experts || (p->cuda_graphs & others) == others;
}

/* Is a column among those that the source does not state?  A table need not say. */
static bool is_assumed(const struct reader *r, const char *column) {
  uint32_t at = pz_csv_column(r->csv, "assumed");
  return at != PZ_NONE && strstr(pz_csv_cell(r->csv, r->row, at), column);
}

/* Recomputation: a word, or "other:" and every second layer, a policy of what is saved, or modules. */
static bool read_recompute(const char *word, struct pz_plan *p) {
  if (strncmp(word, "other:", 6) != 0)
    return *word && pz_try_plan_field(p, PZ_PLAN_RECOMPUTE, word, NULL) &&
           p->recompute != PZ_RECOMPUTATION_HALF;
  word += 6;
  int64_t first = 0;
  if (sscanf(word, "full, first %6" SCNd64 " layers of each chunk", &first) == 1 && first > 0) {
    p->recompute = PZ_RECOMPUTATION_FULL;
    p->recompute_layers = first;
  } else if (strcmp(word, "every second layer") == 0)
    p->recompute = PZ_RECOMPUTATION_HALF;
  else if (pz_saved_parse(word, &p->saved))
    p->recompute = PZ_RECOMPUTATION_FULL;
  else if (pz_modules_parse(word, &p->recompute_modules))
    p->recompute = PZ_RECOMPUTATION_SELECTIVE;
  else
    return false;
  return true;
}

/* "last 14 layers", "first layer", "first and last 2 layers": characters read; 0: other words. */
static int read_ends(const char *at, struct pz_plan *p) {
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
  if (list[i].first) p->bf16_first_layers = n;
  if (list[i].last) p->bf16_layers = n;
  return (int)begin + 5 + (at[begin + 5] == 's');
}

/* "bf16: qkv, attention out, last 14 layers; mxfp8: mamba out": what has more bits.  Embedding, head, router and norms
 * have 16 whatever is said. */
static bool read_wide(const char *at, struct pz_plan *p) {
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
  bool nvfp4 = p->precision == PZ_PRECISION_NVFP4;
  for (; *at; at += strspn(at, ",; ")) {
    size_t i = 0, most = sizeof words / sizeof *words;
    int end = 0;
    while (i < most && strncmp(at, words[i].word, strlen(words[i].word)) != 0) i++;
    if (i < most) {
      p->bf16_modules |= nvfp4 && words[i].of_nvfp4 ? words[i].of_nvfp4 : words[i].modules;
      end = (int)strlen(words[i].word);
    } else {
      end = read_ends(at, p);
    }
    at += end;
    if (!end || (*at && !strchr(",; ", *at) && at[-1] != ' ')) return false;
  }
  return true;
}

/* A recipe in words: "fp8 hybrid, delayed scaling", "mxfp8", or as Megatron and Megatron Bridge call it (Fp8Recipe in
 * megatron/core/enums.py: tensorwise; training/mixed_precision.py of Bridge: subchannel is blockwise).  Its precision, or
 * PZ_PRECISIONS where it says none; -1: other words, or two recipes. */
static int read_fp8_recipe(const char *at, size_t bytes, struct pz_plan *p) {
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
  if (said >= 0) p->fp8_recipe = said;
  return said == NOTHING ? -1
         : said == NONE  ? PZ_PRECISIONS
         : said == NVFP4 ? PZ_PRECISION_NVFP4
                         : PZ_PRECISION_FP8;
}

/* What is quantised: a recipe, and after it what has more bits.  False: not covered, or not the row's precision. */
static bool read_quant(const char *word, struct pz_plan *p) {
  int64_t first = 0, last = 0;
  int end = 0;
  const char *more = strstr(word, " in layers 0-");
  if (!more) more = strchr(word, ';');
  int precision = read_fp8_recipe(word, more ? (size_t)(more - word) : strlen(word), p);
  if (precision < 0) return false;
  if (precision != PZ_PRECISIONS && p->precision < 0) p->precision = precision;
  if (precision != PZ_PRECISIONS && p->precision != precision) return false;
  if (!more) return true;
  if (*more == ';') return read_wide(more + strspn(more, "; "), p);
  if (sscanf(more, " in layers 0-%*d, bf16 in %6" SCNd64 "-%6" SCNd64 " and the head%n", &first,
             &last, &end) != 2 ||
      !end || more[end] || last < first)
    return false;
  p->bf16_layers = last - first + 1;
  return true;
}

/* What is on the host, with ; between: "activations of 20 layers", of whole layers of each chunk; "activations: MODULES";
 * "optimizer 50%", of so much of its state; or the plan's words.  False: not covered. */
static bool read_offload(const char *word, struct pz_plan *p) {
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
    if (sscanf(one, "activations of %6" SCNd64 " layers%n", &p->offload_layers, &end) == 1 && end)
      p->offload = PZ_OFFLOAD_ACTIVATIONS;
    else if (sscanf(one, "optimizer %3d%%%n", &percent, &end) == 1 && end && percent > 0 &&
             percent <= 100)
      p->offload = PZ_OFFLOAD_OPTIMIZER, p->offload_fraction = percent / 100.0;
    else if (list && pz_try_plan_field(p, PZ_PLAN_OFFLOAD_MODULES, list, NULL))
      p->offload = PZ_OFFLOAD_ACTIVATIONS;
    else if (list || !pz_try_plan_field(p, PZ_PLAN_OFFLOAD, one, NULL))
      return false;
    if (end && one[end]) return false;
    offload |= p->offload;
  }
  p->offload = offload;
  return true;
}

/* Words of attention that say which layers have it or which keys it reads, as the model's shape or name does too; the
 * kernels are flash attention.  What the model has to say; "": it does; NULL: another word. */
static const char *attention_layers(const struct reader *r, const struct pz_run_model *m,
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
  const struct pz_preset *preset = m->layers ? NULL : pz_preset_find(cell(r, MODEL));
  size_t i = 0;
  while (i < LIST && strcmp(list[i].word, word) != 0) i++;
  if (i == LIST) return NULL;
  bool known = list[i].pattern
                   ? strncmp(m->layers_as, list[i].pattern, strlen(list[i].pattern)) == 0
                   : pz_run_model_hybrid(m);
  for (int k = 0; preset && k < 3 && list[i].keys[k]; k++)
    known |= strstr(preset->config, list[i].keys[k]) != NULL;
  return known ? "" : list[i].wanted;
}

/* The row's words as choices; false: one is not covered. */
static bool read_choices(const struct reader *r, struct pz_run_request *q, struct pz_run_row *row) {
  static const char *const mlps[] = {"gelu", "swiglu", "geglu", "relu2", NULL};
  struct pz_plan *p = &q->plan;
  struct pz_error why = {0};
  q->model.ssm = cell(r, SSM);
  q->model.layers_as = cell(r, LAYER_PATTERN);
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const struct pz_plan_field_info *x = pz_plan_field((enum pz_plan_field)f);
    const char *word = cell(r, PLAN + f);
    if (is_number(x) || !*word) continue;
    const char *wanted = f == PZ_PLAN_ATTENTION ? attention_layers(r, &q->model, word) : NULL;
    if (wanted && *wanted)
      return refuse_row(row,
                        "attention '%.20s' of a model whose layers are not known; accepted: %s, or "
                        "the name of a built-in model that has it",
                        word, wanted);
    if (wanted) word = "flash";
    bool known = f == PZ_PLAN_RECOMPUTE    ? read_recompute(word, p)
                 : f == PZ_PLAN_FP8_RECIPE ? read_quant(word, p)
                 : f == PZ_PLAN_OFFLOAD    ? read_offload(word, p)
                 : f == PZ_PLAN_CUDA_GRAPHS
                     ? read_graphs(word, pz_run_model_hybrid(&q->model), p)
                     : pz_try_plan_field(p, (enum pz_plan_field)f, word, &why);
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
          word, p->precision < 0 ? "" : " with precision ",
          p->precision < 0 ? "" : pz_precision_names[p->precision]);
    if (!known && x->names) return refuse_word(r, PLAN + f, x->names, row);
    if (!known) return refuse_row(row, "%s", why.message);
  }
  for (size_t i = 0; *cell(r, MLP) && !says(r, MLP, mlps[i]);)
    if (!mlps[++i]) return refuse_word(r, MLP, mlps, row);
  /* of a run that says everything else an empty cell is none */
  static const uint64_t may_be_empty = PZ_PLAN_PIN(OVERLAP) | PZ_PLAN_PIN(ATTENTION_LIBRARY);
  if (((pz_plan_given(p) | may_be_empty) & fields_of_run) == fields_of_run) {
    if (r->at[PLAN + PZ_PLAN_ATTENTION_LIBRARY] != PZ_NONE)
      p->attention_library = cell(r, PLAN + PZ_PLAN_ATTENTION_LIBRARY);
    if (r->at[PLAN + PZ_PLAN_OVERLAP] != PZ_NONE && p->overlap < 0) p->overlap = 0;
  }
  return words_are_covered(r, row);
}

/* What XLA does whatever a table says: collectives run beside compute, activations between layers are
 * divided over the tensor-parallel group, weights over a slice (the innermost level), and without
 * stages a replica's samples are one microbatch (tables have those of a device). */
static void compile(const struct pz_cluster *net, struct pz_plan *p) {
  int64_t slice = net->level[0].devices / pz_max(1, p->tp);
  p->overlap |= PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM | PZ_OVERLAP_TP;
  p->sp = p->tp > 1;
  if (p->pp == 1 && p->dp > 0) p->mbs = pz_max(p->mbs, p->batch / p->dp);
  if (p->zero == 3 && slice > 0 && p->dp > slice && p->dp % slice == 0) p->shard = slice;
}

/* MLPerf's fine-tuning: dropout 0.1 before adapters, by its rules, and of context parallelism an all-to-all of heads
 * (train.py and cp_comm_type in NVIDIA/benchmarks/llama2_70b_lora/implementations of
 * github.com/mlcommons/training_results_v5.0, and of the results of others).  Where cp does not divide the key/value heads
 * of a device, which Transformer Engine's all-to-all asks for (AttnFuncWithCPAndQKVOA2A), a ring (its p2p). */
static void read_mlperf(struct pz_call *call, const struct reader *r, struct pz_run_request *q,
                        struct pz_plan *p) {
  struct pz_lora lora;
  struct pz_model_shape shape;
  int64_t groups = q->model.kv_heads ? q->model.kv_heads : q->model.heads;
  if (!q->model.layers && pz_try_model_shape(call, cell(r, MODEL), NULL, &shape))
    groups = shape.kv_heads;
  bool divides = groups / pz_max(p->tp, 1) % pz_plan_cp(p) == 0;
  if (p->cp_form < 0) p->cp_form = divides ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
  int n = snprintf(q->adapters, sizeof q->adapters, "%s:0.1", p->peft);
  bool fits = n > 0 && (size_t)n < sizeof q->adapters;
  if (fits && pz_lora_parse(q->adapters, &lora, NULL) == PZ_OK) p->peft = q->adapters;
}

/* Of a run that says everything: what tables say in words of their own. */
static void read_published(const struct reader *r, struct pz_run_request *q, struct pz_plan *p) {
  if (!q->model.experts || !p->ep) p->ep = 1;
  if (p->cp_form < 0) p->cp_form = PZ_CONTEXT_RING;
  /* a row that names its dispatcher is as its recipe has it: without CUDA graphs where none are named */
  if (p->dispatcher >= 0 && p->cuda_graphs < 0 && r->at[PLAN + PZ_PLAN_CUDA_GRAPHS] != PZ_NONE)
    p->cuda_graphs = 0;
  bool drops = strstr(cell(r, MODEL), "tokendrop") != NULL;
  /* in a table that names dispatchers, a recipe that names none has Megatron Core's all-to-all on nodes of 8 devices
   * (Qwen3's of Megatron Bridge, moe_token_dispatcher_type in scripts/performance/configs/qwen), but for DeepSeek's
   * family, and HybridEP in larger domains, if it drops no tokens; other runs over nodes are published with DeepEP or its
   * like */
  bool recipe = p->framework == pz_framework_find("nemo"),
       domain = q->chip.calibration.host_launch > 1;
  if (p->dispatcher < 0 && r->at[PLAN + PZ_PLAN_DISPATCHER] != PZ_NONE)
    p->dispatcher = recipe && domain && !drops                ? PZ_DISPATCHER_HYBRIDEP
                    : recipe && (domain || !q->model.kv_rank) ? PZ_DISPATCHER_ALLTOALL
                                                              : PZ_DISPATCHER_DEEPEP;
  /* experts padded to a capacity have shapes that do not change: such recipes capture whole iterations
   * (scripts/performance/configs/qwen3 of Megatron Bridge, apply_moe_token_drop and cuda_graph_scope full_iteration) */
  if (drops) p->execution = PZ_EXECUTION_GRAPH;
  /* others with experts for GB200 and GB300 attention, router and the preparation of the dispatch (their cuda_graph_scope) */
  if (recipe && domain && q->model.experts && p->cuda_graphs < 0)
    p->cuda_graphs = PZ_GRAPH_ATTENTION | PZ_GRAPH_ROUTER | PZ_GRAPH_PREPARATION;
  if (p->cuda_graphs < 0) p->cuda_graphs = 0;
  if (p->recompute == PZ_RECOMPUTATION_NONE && pz_plan_framework(p)->recompute_modules)
    p->recompute = PZ_RECOMPUTATION_SELECTIVE;
  /* MaxText has flash attention where nothing else is asked */
  if (p->framework == pz_framework_find("maxtext") && is_assumed(r, "attention"))
    p->attention = PZ_ATTENTION_FLASH;
  if (pz_framework_compiles(pz_plan_framework(p))) compile(&q->net, p);
}

/* The row's cluster; without one what the chip stands in, or its own link. */
static void load_cluster(struct pz_call *call, const struct reader *r, struct pz_run_request *q) {
  struct pz_error *err = pz_call_error(call);
  int64_t devices = pz_plan_asked_devices(&q->plan);
  q->has_net = true;
  if (*cell(r, CLUSTER)) {
    pz_must(call, pz_cluster_load(cell(r, CLUSTER), &q->net, err));
    pz_must(call, pz_cluster_reach(&q->net, pz_max(devices, 1), "n_dev", err));
    return;
  }
  bool known = pz_cluster_standard(q->chip.name, &q->net);
  if (!known && pz_chip_built(&q->chip) && devices > PZ_SERVER_DEVICES)
    pz_raise(call, PZ_BAD_USE,
             "no cluster, and none is known for %s; accepted: a name in column 'cluster'",
             q->chip.name);
  q->has_net = known && pz_cluster_needed(&q->net, devices);
  if (q->has_net) pz_must(call, pz_cluster_reach(&q->net, devices, "n_dev", err));
}

static void leave_out_network(struct pz_run_request *q) {
  struct pz_network n = {.cluster = q->net, .own_link = !q->has_net};
  pz_network_make_instant(&n, &q->chip, pz_plan_asked_devices(&q->plan));
  q->net = n.cluster;
  q->has_net = true;
}

/* In a table bf16 is 16 bit, of the kind that the chip has. */
static void fit_precision(struct pz_call *call, struct pz_run_request *q) {
  struct pz_plan *p = &q->plan;
  if (p->precision == PZ_PRECISION_BF16 &&
      pz_chip_can_run(&q->chip, PZ_PRECISION_BF16, NULL) != PZ_OK)
    p->precision = PZ_PRECISION_FP16;
  if (p->precision >= 0)
    pz_must(call, pz_chip_can_run(&q->chip, (enum pz_precision)p->precision, pz_call_error(call)));
}

/* Chip, network, and the plan with nothing unset. */
static void complete(struct pz_call *call, const struct reader *r, struct pz_run_request *q) {
  pz_chip_read(call, cell(r, CHIP), &q->chip);
  if (r->terms->cold && !q->chip.cold) pz_chip_make_cold(call, &q->chip, r->terms->cold);
  fit_precision(call, q);
  load_cluster(call, r, q);
  if (r->terms->no_network) leave_out_network(q);
  if (strncmp(cell(r, GROUP), "mlperf", 6) == 0 && pz_plan_trains_adapters(&q->plan))
    read_mlperf(call, r, q, &q->plan);
  if ((pz_plan_given(&q->plan) & fields_of_run) != fields_of_run) {
    /* where no kernels were measured any library (ck, fsdpa, nki, ...) is the chip's attention */
    const char *library = q->plan.attention_library;
    bool own = library && *library && pz_attention_kernel(&q->chip, library, PZ_FORWARD);
    if (q->chip.cold && !own) q->plan.attention_library = ""; /* the class has one of its own */
    pz_fill_plan(call, &q->plan, &q->chip);
    return;
  }
  read_published(r, q, &q->plan);
  pz_fill_plan_precision(call, &q->plan, &q->chip);
}

/* The shape of the row's model, or none: then its name is that of a preset or of a file. */
static bool read_shape(const struct reader *r, struct pz_run_request *q, struct pz_run_row *row) {
  static const int needed[] = {HIDDEN, HEADS, FFN, MLP, VOCAB, PLAN + PZ_PLAN_SEQ};
  if (!q->model.layers && !*cell(r, MODEL))
    return refuse_row(row, "no model; accepted: a name in column model, or its shape");
  for (int c = SHARED_FFN; c <= MOE_LATENT && !q->model.layers; c++)
    if (*cell(r, c) && !says(r, c, "none"))
      return refuse_row(row, "%s '%.60s' of a model by its name; accepted: the whole shape",
                        head(c), cell(r, c));
  if (!q->model.layers) return true;
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!*cell(r, needed[i]))
      return refuse_row(row, "the model has %lld layers and no %s; accepted: the whole shape",
                        (long long)q->model.layers, head(needed[i]));
  if (!q->model.kv_heads) q->model.kv_heads = q->model.heads;
  if (!q->model.head_dim && q->model.heads) q->model.head_dim = q->model.hidden / q->model.heads;
  q->model.seq = q->plan.seq;
  q->model.mlp = cell(r, MLP);
  /* adapters of plain PyTorch are on projections of their own, not on joint ones */
  q->model.plain = q->plan.framework >= 0 && pz_plan_framework(&q->plan)->plain_decoders &&
                   !pz_plan_trains_adapters(&q->plan);
  q->model.own_head = q->plan.framework == pz_framework_find("torch");
  return pz_run_model_config(&q->model, q->config, row->reason);
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
  struct row_completion *x = ctx;
  complete(call, x->reader, x->request);
}

/* Why the row is not predicted; running out of memory is an error of the table. */
static void note_reason(struct pz_call *call, const struct pz_error *why, struct pz_run_row *row) {
  if (why->status == PZ_NO_MEMORY) pz_raise_again(call, why);
  pz_text_copy(row->reason, sizeof row->reason, why->message);
}

static void read_row(struct pz_call *call, struct table_job *j, uint32_t i) {
  struct reader *r = &j->reader;
  struct pz_run_request *q = &j->requests[i];
  struct pz_run_row *row = &j->rows[i];
  r->row = i;
  *row = (struct pz_run_row){.id = *cell(r, ID) ? cell(r, ID) : cell(r, MODEL),
                             .group = cell(r, GROUP),
                             .quality = *cell(r, QUALITY) ? cell(r, QUALITY) : "ok",
                             .plan = &q->plan};
  read_numbers(call, r, q);
  row->measured_s = read_number(call, r, STEP_TIME);
  row->measured_bytes = read_number(call, r, PEAK_BYTES);
  if (!read_choices(r, q, row)) return;
  struct pz_error why = {0};
  struct row_completion x = {r, q};
  if (pz_border(complete_row, &x, &why) != PZ_OK) {
    note_reason(call, &why, row);
    return;
  }
  row->devices = pz_plan_asked_devices(&q->plan);
  row->hbm_bytes = (double)pz_chip_hbm_bytes(&q->chip);
  (void)read_shape(r, q, row);
}

struct row_prediction {
  const struct pz_job *job;
  const struct pz_plan *plan;
  struct pz_prediction p;
};

static void predict_request(struct pz_call *call, void *ctx) {
  struct row_prediction *x = ctx;
  x->p = pz_predict(call, x->job, x->plan, NULL);
}

static void predict_row(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct table_job *j = ctx;
  struct pz_run_row *row = &j->rows[i];
  struct pz_run_request *q = &j->requests[i];
  struct row_prediction x = {.job = &q->job, .plan = &q->plan};
  struct pz_error why = {0};
  (void)worker;
  pz_progress_add(j->progress, 1);
  if (row->reason[0] || pz_progress_stopped(j->progress)) return;
  row->predicted = pz_border(predict_request, &x, &why) == PZ_OK;
  if (row->predicted)
    row->p = x.p;
  else
    note_reason(task, &why, row);
}

void pz_run_table_read(struct pz_call *call, const struct pz_run_terms *terms, const char *name,
                       const char *text, size_t bytes, struct pz_run_table *out) {
  struct pz_run_table t = {.csv = *pz_csv_read(call, name, text, bytes)};
  struct table_job j = {.reader = {.name = name, .csv = &t.csv, .terms = terms},
                        .progress = terms->progress};
  j.requests = t.requests = pz_alloc(call, t.csv.rows, sizeof *j.requests);
  j.rows = t.rows = pz_alloc(call, t.csv.rows, sizeof *t.rows);
  find_columns(call, &j.reader);
  for (uint32_t i = 0; i < t.csv.rows; i++) {
    read_row(call, &j, i);
    struct pz_run_request *q = &j.requests[i];
    q->job = (struct pz_job){.model = q->model.layers ? t.rows[i].id : cell(&j.reader, MODEL),
                             .config = q->model.layers ? q->config : NULL,
                             .chip = &q->chip,
                             .net = q->has_net ? &q->net : NULL,
                             .constants = terms->constants};
  }
  struct pz_pool *pool = pz_pool_open(call, terms->threads);
  pz_progress_next(j.progress, name, "runs", t.csv.rows);
  pz_pool_run(call, pool, t.csv.rows, predict_row, &j);
  pz_progress_finish(j.progress, NULL);
  pz_close(call, pool);
  if (pz_progress_stopped(j.progress)) pz_raise(call, PZ_STOPPED, "stopped");
  t.n_rows = t.csv.rows;
  *out = t;
}

const struct pz_job *pz_run_table_job(const struct pz_run_table *t, uint32_t row) {
  return &t->requests[row].job;
}

/* Rows of a table with other constants of chips that nobody measured. */
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
  struct again_row *x = ctx;
  struct pz_chip chip = x->request->chip;
  struct pz_job job = x->request->job;
  pz_chip_set_class(call, &chip, x->cold);
  job.chip = &chip;
  x->step_s = pz_predict(call, &job, &x->request->plan, NULL).step_s;
}

static void predict_again(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct again_job *j = ctx;
  struct again_row x = {.request = &j->table->requests[i], .cold = j->cold};
  struct pz_error why = {0};
  (void)worker;
  j->step_s[i] = 0;
  if (!j->wanted[i] || !j->table->rows[i].predicted) return;
  enum pz_status status = pz_border(predict_with_constants, &x, &why);
  if (status == PZ_NO_MEMORY) pz_raise_again(task, &why);
  if (status == PZ_OK) j->step_s[i] = x.step_s;
}

void pz_run_table_again(struct pz_call *call, const struct pz_run_table *t,
                        const struct pz_cold *cold, const bool *wanted, unsigned threads,
                        double *step_s) {
  struct again_job j = {t, cold, wanted, step_s};
  struct pz_pool *pool = pz_pool_open(call, threads);
  pz_pool_run(call, pool, t->n_rows, predict_again, &j);
  pz_close(call, pool);
}

/* ---- for programs --------------------------------------------------------------------------- */

/* What a caller holds: the rows stand first. */
struct held_runs {
  struct pz_runs runs;
  struct pz_run_table table;
};

void pz_errors_time(struct pz_errors *g, const char *id, double e) {
  g->n++;
  g->mean += fabs(e);
  g->bias += e;
  if (g->worst_id && fabs(e) <= fabs(g->worst)) return;
  g->worst = e;
  g->worst_id = id;
}

void pz_errors_memory(struct pz_errors *g, double e) {
  g->n_memory++;
  g->memory_mean += fabs(e);
  g->memory_bias += e;
  if (fabs(e) > fabs(g->memory_worst)) g->memory_worst = e;
}

static void group_add(struct pz_errors *g, const struct pz_run_row *row) {
  if (row->predicted && row->measured_s > 0)
    pz_errors_time(g, row->id, row->p.step_s / row->measured_s - 1);
  else
    g->not_predicted++;
  if (row->predicted && row->measured_bytes > 0)
    pz_errors_memory(g, row->p.peak_bytes / row->measured_bytes - 1);
}

void pz_errors_finish(struct pz_errors *g) {
  double n = g->n ? (double)g->n : (double)NAN, m = g->n_memory ? (double)g->n_memory : (double)NAN;
  g->mean /= n;
  g->bias /= n;
  g->memory_mean /= m;
  g->memory_bias /= m;
  if (!g->n) g->worst = (double)NAN;
  if (!g->n_memory) g->memory_worst = (double)NAN;
}

static struct pz_errors *group_of(struct pz_errors *list, uint32_t *n, const char *name) {
  for (uint32_t i = 0; i < *n; i++)
    if (strcmp(list[i].name, name) == 0) return &list[i];
  list[*n] = (struct pz_errors){.name = name, .kind = PZ_POINT_RUN};
  return &list[(*n)++];
}

/* Groups of the rows of quality ok, or of the others, and all of them together as the last. */
static uint32_t collect(const struct pz_run_table *t, bool ok, struct pz_errors *list) {
  struct pz_errors all = {.name = ok ? "all" : "all others", .kind = PZ_POINT_RUN};
  uint32_t n = 0;
  for (uint32_t i = 0; i < t->n_rows; i++) {
    const struct pz_run_row *row = &t->rows[i];
    if ((strcmp(row->quality, "ok") == 0) != ok) continue;
    group_add(group_of(list, &n, row->group), row);
    group_add(&all, row);
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
  struct runs_args *x = ctx;
  struct pz_call own;
  pz_require(call, x->name, "name");
  pz_require(call, x->text, "text");
  pz_require(call, x->out, "out");
  struct held_runs *h = pz_object_new(call, sizeof *h, &own);
  struct pz_runs *r = &h->runs;
  pz_run_table_read(&own, &x->terms, x->name, x->text, x->bytes, &h->table);
  r->rows = h->table.rows;
  r->n_rows = h->table.n_rows;
  r->groups = pz_alloc(&own, (size_t)r->n_rows + 1, sizeof *r->groups);
  r->apart = pz_alloc(&own, (size_t)r->n_rows + 1, sizeof *r->apart);
  r->n_groups = collect(&h->table, true, r->groups);
  r->n_apart = collect(&h->table, false, r->apart);
  *x->out = pz_object_keep(call, r);
}

enum pz_status pz_runs_predict(const char *name, const char *text, size_t bytes, unsigned threads,
                               struct pz_runs **out, struct pz_error *err) {
  struct runs_args x = {{.threads = threads}, name, text, bytes, out};
  return pz_border(predict_runs, &x, err);
}

enum pz_status pz_runs_predict_alone(const char *name, const char *text, size_t bytes,
                                     unsigned threads, struct pz_runs **out, struct pz_error *err) {
  struct runs_args x = {{.no_network = true, .threads = threads}, name, text, bytes, out};
  return pz_border(predict_runs, &x, err);
}

void pz_runs_free(struct pz_runs *r) { pz_object_free(r); }

/* ---- the table with what was predicted ------------------------------------------------------ */

static void put_row(const struct pz_run_table *t, uint32_t i, FILE *out) {
  const struct pz_run_row *row = &t->rows[i];
  const struct pz_prediction *p = &row->p;
  const struct pz_part_info *part;
  for (uint32_t c = 0; c < t->csv.columns; c++) {
    if (is_result(t->csv.cells[c])) continue;
    pz_csv_put(pz_csv_cell(&t->csv, i, c), out);
    fputc(',', out);
  }
  if (row->predicted) fprintf(out, "%.6g", p->step_s);
  fputc(',', out);
  if (row->predicted && row->measured_s > 0) fprintf(out, "%.5f", p->step_s / row->measured_s - 1);
  fputc(',', out);
  if (row->predicted) fprintf(out, "%.0f", p->peak_bytes);
  fputc(',', out);
  if (row->predicted && row->measured_bytes > 0)
    fprintf(out, "%.5f", p->peak_bytes / row->measured_bytes - 1);
  fputc(',', out);
  if (row->predicted) fputc(pz_prediction_fits(p) ? '1' : '0', out);
  for (size_t k = 0; (part = pz_time_part_at(k)); k++) {
    fputc(',', out);
    if (row->predicted) fprintf(out, "%.5g", pz_time_part(&p->parts, part));
  }
  if (row->predicted)
    fprintf(out, ",%.5g,%.5g,%.5g,", p->tensor_hidden_s, p->expert_hidden_s, p->gradient_hidden_s);
  else
    fputs(",,,,", out);
  pz_csv_put(row->reason, out);
  fputc('\n', out);
}

static void put_heads(const struct pz_run_table *t, FILE *out) {
  const struct pz_part_info *part;
  for (uint32_t c = 0; c < t->csv.columns; c++) {
    if (is_result(t->csv.cells[c])) continue;
    pz_csv_put(t->csv.cells[c], out);
    fputc(',', out);
  }
  fputs("predicted_step_s,error,predicted_peak_bytes,memory_error,fits", out);
  for (size_t k = 0; (part = pz_time_part_at(k)); k++) fprintf(out, ",%s", part->key);
  fputs(",tensor_hidden_s,expert_hidden_s,gradient_hidden_s,reason\n", out);
}

struct csv_args {
  const struct pz_runs *runs;
  char **text;
  size_t *bytes;
};

static void write_csv(struct pz_call *call, void *ctx) {
  struct csv_args *x = ctx;
  pz_require(call, x->runs, "runs");
  pz_require(call, x->text, "text");
  pz_require(call, x->bytes, "bytes");
  const struct pz_run_table *t = &((const struct held_runs *)(const void *)x->runs)->table;
  struct pz_buffer *csv = pz_buffer_new(call);
  FILE *out = pz_buffer_open(call, csv);
  put_heads(t, out);
  for (uint32_t i = 0; i < t->n_rows; i++) put_row(t, i, out);
  pz_buffer_flush(call, out);
  *x->bytes = csv->bytes;
  *x->text = pz_buffer_take(call, csv);
}

enum pz_status pz_runs_csv(const struct pz_runs *r, char **text, size_t *bytes,
                           struct pz_error *err) {
  struct csv_args x = {r, text, bytes};
  return pz_border(write_csv, &x, err);
}
