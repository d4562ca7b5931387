#include "cost/silicon_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/text.h"
#include "cost/constants.h"

/* ---- columns -------------------------------------------------------------------------------- */

enum kind { GEMM, ATTENTION, EXPERTS, COLLECTIVE, DISPATCH, OTHER, KINDS };

enum field {
  CHIP,
  TIME,
  SUSTAINED,
  WATTS,
  FLAG,
  DTYPE,
  M,
  N,
  K,
  PHASE,
  KV_DTYPE,
  BATCH,
  SEQ,
  PREFIX,
  HEADS,
  KV_HEADS,
  WIDTH,
  WINDOW,
  TOKENS,
  HIDDEN,
  INTER,
  TOPK,
  COUNT,
  TP,
  EP,
  DISTRIBUTION,
  GATED,
  OPERATION,
  DEVICES,
  BYTES,
  LIBRARY,
  NODES,
  SMS,
  NOTIFY,
  PARAMS,
  KIND,
  FIELDS,
  UNUSED = FIELDS
};

#define IN(kind) (1u << (kind))
#define ALL (IN(KINDS) - 1)

/* Columns by name and the kinds that have them.  Names in one line mean the same.  `unit`: what a
 * number in it is multiplied by. */
static const struct head {
  const char *name;
  enum field field;
  unsigned kinds;
  double unit;
} heads[] = {
    {"chip", CHIP, ALL, 0},
    {"device", CHIP, ALL, 0},
    {"us", TIME, ALL, 1},
    {"latency", TIME, ALL, 1e3},
    {"us_power", SUSTAINED, IN(GEMM), 1},
    {"power", WATTS, ALL, 1},
    {"flag", FLAG, ALL, 0},
    {"dtype", DTYPE, IN(GEMM) | IN(EXPERTS) | IN(COLLECTIVE), 0},
    {"gemm_dtype", DTYPE, IN(GEMM), 0},
    {"m", M, IN(GEMM), 1},
    {"n", N, IN(GEMM), 1},
    {"k", K, IN(GEMM), 1},
    {"phase", PHASE, IN(ATTENTION), 0},
    {"op_name", PHASE, IN(ATTENTION), 0},
    {"q_dtype", DTYPE, IN(ATTENTION), 0},
    {"attn_dtype", DTYPE, IN(ATTENTION), 0},
    {"mla_dtype", DTYPE, IN(ATTENTION), 0},
    {"kv_dtype", KV_DTYPE, IN(ATTENTION), 0},
    {"kv_cache_dtype", KV_DTYPE, IN(ATTENTION), 0},
    {"batch", BATCH, IN(ATTENTION), 1},
    {"batch_size", BATCH, IN(ATTENTION), 1},
    {"seq", SEQ, IN(ATTENTION), 1},
    {"isl", SEQ, IN(ATTENTION), 1},
    {"seqlen", SEQ, IN(ATTENTION), 1},
    {"step", PREFIX, IN(ATTENTION), 1},
    {"heads", HEADS, IN(ATTENTION), 1},
    {"num_heads", HEADS, IN(ATTENTION), 1},
    {"kv_heads", KV_HEADS, IN(ATTENTION), 1},
    {"num_key_value_heads", KV_HEADS, IN(ATTENTION), 1},
    {"head_dim", WIDTH, IN(ATTENTION), 1},
    {"window", WINDOW, IN(ATTENTION), 1},
    {"window_size", WINDOW, IN(ATTENTION), 1},
    {"kernel", LIBRARY, IN(ATTENTION), 0},
    {"kernel_source", LIBRARY, IN(ATTENTION), 0},
    {"moe_dtype", DTYPE, IN(EXPERTS), 0},
    {"tokens", TOKENS, IN(EXPERTS) | IN(DISPATCH), 1},
    {"num_tokens", TOKENS, IN(EXPERTS), 1},
    {"hidden", HIDDEN, IN(EXPERTS) | IN(DISPATCH), 1},
    {"hidden_size", HIDDEN, IN(EXPERTS), 1},
    {"inter", INTER, IN(EXPERTS), 1},
    {"inter_size", INTER, IN(EXPERTS), 1},
    {"topk", TOPK, IN(EXPERTS) | IN(DISPATCH), 1},
    {"experts", COUNT, IN(EXPERTS) | IN(DISPATCH), 1},
    {"num_experts", COUNT, IN(EXPERTS), 1},
    {"tp", TP, IN(EXPERTS), 1},
    {"moe_tp_size", TP, IN(EXPERTS), 1},
    {"ep", EP, IN(EXPERTS), 1},
    {"moe_ep_size", EP, IN(EXPERTS), 1},
    {"distribution", DISTRIBUTION, IN(EXPERTS), 0},
    {"gated", GATED, IN(EXPERTS), 1},
    {"operation", OPERATION, IN(COLLECTIVE) | IN(DISPATCH), 0},
    {"op_name", OPERATION, IN(COLLECTIVE), 0},
    {"nccl_dtype", DTYPE, IN(COLLECTIVE), 0},
    {"allreduce_dtype", DTYPE, IN(COLLECTIVE), 0},
    {"gpus", DEVICES, IN(COLLECTIVE) | IN(DISPATCH), 1},
    {"num_gpus", DEVICES, IN(COLLECTIVE), 1},
    {"bytes", BYTES, IN(COLLECTIVE), 1},
    {"message_size", BYTES, IN(COLLECTIVE), 0}, /* elements: see read_collective */
    {"backend", LIBRARY, IN(COLLECTIVE), 0},
    {"kernel_source", LIBRARY, IN(COLLECTIVE), 0},
    {"mode", LIBRARY, IN(DISPATCH), 0},
    {"nodes", NODES, IN(DISPATCH), 1},
    {"sms", SMS, IN(DISPATCH), 1},
    {"notify_us", NOTIFY, IN(DISPATCH), 1},
    {"params", PARAMS, IN(OTHER), 0},
    {"kind", KIND, IN(OTHER), 0},
    /* facts about the measurement, read by nobody */
    {"framework", UNUSED, ALL, 0},
    {"version", UNUSED, ALL, 0},
    {"backend", UNUSED, ALL & ~IN(COLLECTIVE), 0},
    {"kernel", UNUSED, ALL & ~IN(ATTENTION), 0},
    {"kernel_source", UNUSED, ALL & ~IN(COLLECTIVE) & ~IN(ATTENTION), 0},
    {"op_name", UNUSED, IN(GEMM) | IN(EXPERTS), 0},
    {"power_limit", UNUSED, ALL, 0},
    {"dtype", UNUSED, IN(DISPATCH), 0},
    {"quant_us", UNUSED, IN(GEMM), 0},
    {"us_sglang", UNUSED, IN(GEMM), 0},
    {"us_trtllm", UNUSED, IN(GEMM), 0},
    {"us_vllm", UNUSED, IN(GEMM), 0},
    {"power_w", UNUSED, IN(GEMM), 0},
    {"power_backend", UNUSED, IN(GEMM), 0},
    {"beam_width", UNUSED, IN(ATTENTION), 0},
    {"tp_size", UNUSED, IN(ATTENTION), 0},
    {"mode", UNUSED, IN(COLLECTIVE), 0},
    {"implementation", UNUSED, IN(COLLECTIVE), 0},
};
enum { HEADS_N = sizeof heads / sizeof *heads };

/* A kind is known by the column `mark`, and needs others; what is left of a table of OTHER is not
 * looked at. */
static const struct {
  const char *name;
  enum field mark;
  int n;
  enum field needs[10]; /* n of them, then one that most rows need */
} kinds[KINDS] = {
    [GEMM] = {"GEMMs", K, 4, {DTYPE, M, N, K}},
    [ATTENTION] = {"attention", SEQ, 5, {PHASE, DTYPE, BATCH, SEQ, HEADS, WIDTH}},
    [EXPERTS] = {"experts",
                 INTER,
                 9,
                 {DTYPE, TOKENS, HIDDEN, INTER, TOPK, COUNT, TP, EP, DISTRIBUTION}},
    [COLLECTIVE] = {"collectives", BYTES, 4, {OPERATION, DTYPE, DEVICES, BYTES}},
    [DISPATCH] = {"dispatch",
                  SMS,
                  8,
                  {LIBRARY, OPERATION, NODES, DEVICES, TOKENS, HIDDEN, TOPK, SMS}},
    [OTHER] = {"others", PARAMS, 1, {PARAMS}},
};

struct reader {
  const char *name;
  const struct pz_csv *csv;
  enum kind kind;
  bool collected;      /* in the collectors' own form */
  const char *unknown; /* why all its rows are of unknown kind; NULL: they are not */
  uint32_t at[FIELDS]; /* column of a field; PZ_NONE: none */
  double unit[FIELDS];
  uint32_t row;
  char where[300]; /* the row being read */
  struct pz_error *err;
};

/* The first name of a field in tables of a kind. */
static const char *field_name(enum kind kind, enum field f) {
  int i = 0;
  while (heads[i].field != f || !(heads[i].kinds & IN(kind))) i++;
  return heads[i].name;
}

static const struct head *find_head(enum kind kind, const char *name) {
  for (int i = 0; i < HEADS_N; i++)
    if ((heads[i].kinds & IN(kind)) && strcmp(heads[i].name, name) == 0) return &heads[i];
  return NULL;
}

static void find_fields(struct reader *r, enum kind kind) {
  r->kind = kind;
  for (int f = 0; f < FIELDS; f++) r->at[f] = PZ_NONE;
  for (uint32_t c = 0; c < r->csv->columns; c++) {
    const struct head *h = find_head(kind, r->csv->cells[c]);
    if (!h || h->field == UNUSED || r->at[h->field] != PZ_NONE) continue;
    r->at[h->field] = c;
    r->unit[h->field] = h->unit;
  }
}

/* In the form that AIConfigurator's collectors write?  What is not known in such a table is of operators that are not
 * modelled, no mistake. */
static bool is_collected(const struct pz_csv *csv) {
  static const char *const own[] = {"device", "op_name", "latency"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (pz_csv_column(csv, own[i]) == PZ_NONE) return false;
  return true;
}

static bool find_kind(struct reader *r) {
  r->collected = is_collected(r->csv);
  for (enum kind k = 0; k < KINDS; k++) {
    find_fields(r, k);
    if (r->at[kinds[k].mark] != PZ_NONE) return true;
  }
  return r->collected; /* as OTHER */
}

bool pz_silicon_is(const struct pz_csv *csv) {
  struct reader r = {.csv = csv};
  return pz_csv_column(csv, "op") == PZ_NONE && find_kind(&r);
}

char *pz_silicon_accepted(char *buf, size_t size) {
  size_t n = 0;
  *buf = '\0';
  for (int k = 0; k < OTHER; k++) {
    n += (size_t)snprintf(buf + n, size - n, "%s%s (", k ? "; " : "", kinds[k].name);
    for (int i = 0; kinds[k].needs[i] && n < size; i++)
      n += (size_t)snprintf(buf + n, size - n, "%s, ", field_name((enum kind)k, kinds[k].needs[i]));
    if (n < size) n += (size_t)snprintf(buf + n, size - n, "us)");
    if (n >= size) break;
  }
  return buf;
}

/* Two columns of one meaning: us and latency, chip and device. */
static enum pz_status check_twice(const struct reader *r) {
  for (uint32_t c = 0; c < r->csv->columns; c++) {
    const struct head *h = find_head(r->kind, r->csv->cells[c]);
    if (h && h->field != UNUSED && r->at[h->field] != c)
      return pz_fail(r->err, PZ_BAD_INPUT,
                     "%s:1: columns '%s' and '%s' mean the same; accepted: one of them", r->name,
                     r->csv->cells[r->at[h->field]], h->name);
  }
  return PZ_OK;
}

/* What is wrong with the columns; a table in the collectors' form is then one of OTHER. */
static enum pz_status wrong_columns(struct reader *r, struct pz_arena *arena, const char *what,
                                    const char *column) {
  char list[1000] = "";
  size_t n = 0;
  const char *kind = kinds[r->kind].name;
  for (int i = 0; i < HEADS_N; i++)
    if ((heads[i].kinds & IN(r->kind)) && n < sizeof list)
      n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", heads[i].name);
  if (!r->collected)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s:1: %s '%.40s' of %s; accepted: %s", r->name, what,
                   column, kind, list);
  r->unknown = pz_arena_printf(arena, "%s '%.40s' of %s", what, column, kind);
  find_fields(r, OTHER);
  return r->unknown ? PZ_OK : pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
}

static enum pz_status check_columns(struct reader *r, struct pz_arena *arena) {
  enum kind kind = r->kind;
  if (kind == OTHER) return PZ_OK;
  for (uint32_t c = 0; c < r->csv->columns; c++)
    if (!find_head(kind, r->csv->cells[c]))
      return wrong_columns(r, arena, "unknown column", r->csv->cells[c]);
  for (int i = 0; i < kinds[kind].n; i++)
    if (r->at[kinds[kind].needs[i]] == PZ_NONE)
      return wrong_columns(r, arena, "no column", field_name(kind, kinds[kind].needs[i]));
  if (r->at[TIME] == PZ_NONE && r->at[SUSTAINED] == PZ_NONE)
    return wrong_columns(r, arena, "no column", "us");
  return PZ_OK;
}

/* ---- cells ---------------------------------------------------------------------------------- */

static const char *cell(const struct reader *r, enum field f) {
  return r->at[f] == PZ_NONE ? "" : pz_csv_cell(r->csv, r->row, r->at[f]);
}

/* What a word means: `use` is the reader's own, 0 for what is not predicted. */
struct word {
  const char *name;
  int use;
};

static const char *word_name(const void *ctx, size_t i) {
  return ((const struct word *)ctx)[i].name;
}

/* The word of a column in a list that ends with NULL.  PZ_NO_ANSWER: none of it, which is no mistake. */
static enum pz_status read_word(const struct reader *r, enum field f, const struct word *list,
                                const struct word **out) {
  const char *text = cell(r, f);
  char accepted[700];
  for (*out = list; (*out)->name; (*out)++)
    if (strcmp((*out)->name, text) == 0) return PZ_OK;
  if (r->collected) return PZ_NO_ANSWER;
  return pz_fail(r->err, PZ_BAD_INPUT, "%s: column '%s' is '%.40s'; accepted: %s", r->where,
                 r->at[f] == PZ_NONE ? field_name(r->kind, f) : r->csv->cells[r->at[f]], text,
                 pz_text_join(accepted, sizeof accepted, word_name, list));
}

static enum pz_status read_count(const struct reader *r, enum field f, double least, int64_t *out) {
  char *end;
  double v = strtod(cell(r, f), &end);
  if (*end || !(v >= least && v <= 0x1p40) || v != floor(v) || !*cell(r, f))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: column '%s' is '%.40s'; accepted: an integer from %.0f to 2^40", r->where,
                   r->csv->cells[r->at[f]], cell(r, f), least);
  *out = (int64_t)v;
  return PZ_OK;
}

/* Counts from 1 of several columns; those that the table lacks stay. */
struct count {
  enum field field;
  int64_t *to;
};

static enum pz_status read_counts(const struct reader *r, const struct count *list, size_t n) {
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < n && status == PZ_OK; i++)
    if (r->at[list[i].field] != PZ_NONE) status = read_count(r, list[i].field, 1, list[i].to);
  return status;
}

static enum pz_status read_us(const struct reader *r, enum field f, double *us) {
  return pz_ops_read_us(r->where, r->csv->cells[r->at[f]], cell(r, f), r->unit[f] > 1, us, r->err);
}

/* Names of chips in tables, as CUDA reports them too, and the presets they mean. */
static const struct {
  const char *name, *preset;
} chips[] = {
    {"a100", "a100-80"},
    {"NVIDIA A100-SXM4-80GB", "a100-80"},
    {"NVIDIA A100-SXM4-40GB", "a100-40"},
    {"NVIDIA H100 80GB HBM3", "h100"},
    {"NVIDIA H200", "h200"},
    {"NVIDIA B200", "b200"},
    {"NVIDIA B300 SXM6 AC", "b300"},
    {"NVIDIA GB200", "gb200"},
    {"NVIDIA GB300", "gb300"},
    {"NVIDIA L40S", "l40s"},
    {"Tesla V100-SXM2-32GB", "v100"},
};
enum { CHIPS = sizeof chips / sizeof *chips };

static const char *chip_name(const void *ctx, size_t i) {
  (void)ctx;
  return i < CHIPS ? chips[i].name : pz_chip_preset_name(i - CHIPS);
}

/* PZ_NO_ANSWER: a device without a preset, which is no mistake. */
static enum pz_status read_chip(const struct reader *r, struct pz_ops_row *row) {
  const char *text = cell(r, CHIP);
  char list[700];
  if (r->at[CHIP] == PZ_NONE) return PZ_OK;
  for (size_t i = 0; chip_name(NULL, i); i++)
    if (strcmp(chip_name(NULL, i), text) == 0) {
      row->chip = i < CHIPS ? chips[i].preset : chip_name(NULL, i);
      return PZ_OK;
    }
  if (r->collected) return PZ_NO_ANSWER;
  return pz_fail(r->err, PZ_BAD_INPUT, "%s: unknown chip '%.40s'; accepted: %s", r->where, text,
                 pz_text_join(list, sizeof list, chip_name, NULL));
}

/* ---- kinds ---------------------------------------------------------------------------------- */

enum { BITS_OTHER, BITS_16, BITS_8, BITS_8_BLOCK, BITS_4 };

static const struct word dtypes[] = {{"bf16", BITS_16},
                                     {"bfloat16", BITS_16},
                                     {"fp16", BITS_16},
                                     {"float16", BITS_16},
                                     {"half", BITS_16},
                                     {"fp8", BITS_8},
                                     {"fp8_block", BITS_8_BLOCK},
                                     {"int8", 0},
                                     {"nvfp4", BITS_4},
                                     {"int8_sq", 0},
                                     {"sq", 0},
                                     {"fp8_static", 0},
                                     {"fp8_ootb", 0},
                                     {"int8_wo", 0},
                                     {"int4_wo", 0},
                                     {"awq", 0},
                                     {"gptq", 0},
                                     {"w4afp8", 0},
                                     {"w4a16_mxfp4", 0},
                                     {"w4a8_mxfp4_mxfp8", 0},
                                     {NULL, 0}};

static const char *const bits_names[] = {"", "bf16", "fp8", "fp8_block", "nvfp4"};

static void set_reason(struct pz_ops_row *row, const char *group, const char *reason) {
  row->group = group;
  row->reason = reason;
}

static enum pz_status read_gemm(const struct reader *r, struct pz_arena *arena,
                                struct pz_ops_row *row) {
  static const char *const ops[] = {NULL, "gemm", "fp8_linear", "fp8_block_linear", "nvfp4_linear"};
  static const int64_t LARGE = 1024;
  const struct count counts[] = {{M, &row->m}, {N, &row->n}, {K, &row->k}};
  const struct word *dtype;
  double watts = 0;
  row->batch = 1;
  enum pz_status status = read_word(r, DTYPE, dtypes, &dtype);
  if (status == PZ_OK) status = read_counts(r, counts, 3);
  if (status == PZ_OK && r->at[WATTS] != PZ_NONE)
    status = pz_csv_number(r->name, r->csv, r->row, r->at[WATTS], 1e6, &watts, r->err);
  if (status != PZ_OK) return status;
  bool looped = r->at[SUSTAINED] != PZ_NONE || watts > 0;
  if (r->at[SUSTAINED] != PZ_NONE && !*cell(r, SUSTAINED))
    return set_reason(row, "GEMMs without a sustained time", "no time of a sustained loop"), PZ_OK;
  status = read_us(r, r->at[SUSTAINED] != PZ_NONE ? SUSTAINED : TIME, &row->us);
  if (status != PZ_OK) return status;
  if (!dtype->use)
    return set_reason(row, pz_arena_printf(arena, "gemm %s", dtype->name),
                      "GEMMs with operands of this type are not modelled"),
           PZ_OK;
  if (!looped) row->us *= pz_constants_default.burst;
  row->op = pz_ops_find(ops[dtype->use]);
  bool large = row->m >= LARGE && row->n >= LARGE && row->k >= LARGE;
  row->group = pz_arena_printf(arena, "%sgemm %s%s", large ? "" : "small ", bits_names[dtype->use],
                               looped ? " sustained" : "");
  return PZ_OK;
}

enum { PHASE_OTHER, PHASE_PREFILL, PHASE_ENCODER, PHASE_LATENT };

static const struct word phases[] = {{"prefill", PHASE_PREFILL},
                                     {"context_attention", PHASE_PREFILL},
                                     {"encoder", PHASE_ENCODER},
                                     {"encoder_attention", PHASE_ENCODER},
                                     {"decode", 0},
                                     {"generation_attention", 0},
                                     {"mla_prefill", PHASE_LATENT},
                                     {"mla_context", PHASE_LATENT},
                                     {"mla_decode", 0},
                                     {"mla_generation", 0},
                                     {NULL, 0}};

static enum pz_status read_attention(const struct reader *r, struct pz_arena *arena,
                                     struct pz_ops_row *row) {
  static const char *const ops[] = {NULL, "prefill", "encoder", "mla_prefill"},
                           *const names[] = {NULL, "prefill", "encoder", "latent prefill"};
  static const int64_t LONG = 2048;
  static const int64_t LATENT_WIDTH = 160; /* mean of 128 + 64 of keys and 128 of values */
  int64_t prefix = 0, window = 0;
  const struct count counts[] = {{BATCH, &row->batch},
                                 {SEQ, &row->m},
                                 {HEADS, &row->heads},
                                 {KV_HEADS, &row->kv_heads},
                                 {WIDTH, &row->k}};
  const struct word *phase, *dtype, *kv = NULL;
  enum pz_status status = read_word(r, PHASE, phases, &phase);
  if (status == PZ_OK) status = read_word(r, DTYPE, dtypes, &dtype);
  if (status == PZ_OK && r->at[KV_DTYPE] != PZ_NONE) status = read_word(r, KV_DTYPE, dtypes, &kv);
  if (status == PZ_OK) status = read_counts(r, counts, 5);
  if (status == PZ_OK && r->at[PREFIX] != PZ_NONE) status = read_count(r, PREFIX, 0, &prefix);
  if (status == PZ_OK && r->at[WINDOW] != PZ_NONE) status = read_count(r, WINDOW, 0, &window);
  if (status == PZ_OK) status = read_us(r, TIME, &row->us);
  if (status != PZ_OK) return status;
  if (!phase->use)
    return set_reason(row, pz_arena_printf(arena, "%s attention", phase->name),
                      "decoding is not modelled"),
           PZ_OK;
  if (dtype->use != BITS_16 || (kv && kv->use != BITS_16))
    return set_reason(row, "attention with 8-bit keys",
                      "attention with operands of this type is not modelled"),
           PZ_OK;
  if (prefix > 0)
    return set_reason(row, "attention with a cached prefix", "a cached prefix is not modelled"),
           PZ_OK;
  if (r->at[WIDTH] == PZ_NONE && phase->use != PHASE_LATENT)
    return r->collected
               ? PZ_NO_ANSWER
               : pz_fail(r->err, PZ_BAD_INPUT,
                         "%s:1: no column 'head_dim' of attention; accepted: with it", r->name);
  if (row->kv_heads == 0) row->kv_heads = row->heads;
  if (row->kv_heads > row->heads)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: %lld kv heads; accepted: at most heads, %lld",
                   r->where, (long long)row->kv_heads, (long long)row->heads);
  if (phase->use == PHASE_LATENT) row->k = LATENT_WIDTH;
  row->op = pz_ops_find(ops[phase->use]);
  row->causal = phase->use != PHASE_ENCODER;
  row->library = pz_ops_library(cell(r, LIBRARY));
  row->n = window > 0 && window < row->m ? window : row->m;
  row->group = pz_arena_printf(arena, "%s attention bf16%s", names[phase->use],
                               window > 0                     ? ", window"
                               : row->causal && row->m < LONG ? ", short"
                                                              : "");
  return PZ_OK;
}

/* balanced or power_law_EXPONENT. */
static enum pz_status read_distribution(const struct reader *r, double *skew) {
  static const char LAW[] = "power_law_";
  const char *text = cell(r, DISTRIBUTION);
  char *end = NULL;
  *skew = 0;
  if (strcmp(text, "balanced") == 0) return PZ_OK;
  if (strncmp(text, LAW, sizeof LAW - 1) == 0) *skew = strtod(text + sizeof LAW - 1, &end);
  if (end && !*end && *skew > 0 && *skew <= 10) return PZ_OK;
  if (r->collected) return PZ_NO_ANSWER;
  return pz_fail(r->err, PZ_BAD_INPUT,
                 "%s: column 'distribution' is '%.40s'; accepted: balanced or power_law_A, A above "
                 "0 and at most 10",
                 r->where, text);
}

static enum pz_status read_experts(const struct reader *r, struct pz_arena *arena,
                                   struct pz_ops_row *row) {
  static const char *const ops[] = {NULL, "experts", "experts_fp8", "experts_fp8_block", NULL};
  int64_t gated = 1;
  const struct count counts[] = {{TOKENS, &row->m},  {HIDDEN, &row->k},    {INTER, &row->n},
                                 {TOPK, &row->topk}, {COUNT, &row->batch}, {TP, &row->tp},
                                 {EP, &row->ep}};
  const struct word *dtype;
  enum pz_status status = read_word(r, DTYPE, dtypes, &dtype);
  if (status == PZ_OK) status = read_counts(r, counts, 7);
  if (status == PZ_OK && r->at[GATED] != PZ_NONE) status = read_count(r, GATED, 0, &gated);
  if (status == PZ_OK) status = read_distribution(r, &row->skew);
  if (status == PZ_OK) status = read_us(r, TIME, &row->us);
  if (status != PZ_OK) return status;
  if (row->topk > row->batch || row->ep > row->batch || row->tp > row->n)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: top %lld and ep %lld of %lld experts, tp %lld of %lld; accepted: at most "
                   "as many as there are",
                   r->where, (long long)row->topk, (long long)row->ep, (long long)row->batch,
                   (long long)row->tp, (long long)row->n);
  row->gated = gated > 0;
  row->group =
      pz_arena_printf(arena, "experts %s%s", dtype->use ? bits_names[dtype->use] : dtype->name,
                      row->skew > 0 ? " skewed" : " balanced");
  if (!ops[dtype->use])
    set_reason(row, row->group, "experts with operands of this type are not modelled");
  else if (row->batch % row->ep || row->n % row->tp)
    set_reason(row, row->group, "devices with different parts of the experts are not modelled");
  else
    row->op = pz_ops_find(ops[dtype->use]);
  return PZ_OK;
}

static const struct word operations[] = {
    {"all_reduce", 1}, {"all_gather", 1}, {"reduce_scatter", 1}, {"alltoall", 1}, {NULL, 0}};

static enum pz_status read_collective(const struct reader *r, struct pz_arena *arena,
                                      struct pz_ops_row *row) {
  static const double LARGE = 1e6;
  const struct word *dtype, *operation;
  enum pz_status status = read_word(r, OPERATION, operations, &operation);
  if (status == PZ_OK) status = read_word(r, DTYPE, dtypes, &dtype);
  if (status == PZ_OK) status = read_count(r, DEVICES, 2, &row->batch);
  if (status == PZ_OK) status = read_count(r, BYTES, 1, &row->n);
  if (status == PZ_OK) status = read_us(r, TIME, &row->us);
  if (status != PZ_OK) return status;
  /* the collectors' message_size counts elements */
  if (r->unit[BYTES] == 0 && dtype->use == BITS_16) row->n *= 2;
  row->m = 1;
  row->op = pz_ops_find(operation->name);
  const char *library = cell(r, LIBRARY);
  if (strcmp(library, "nccl") != 0 && strcmp(library, "NCCL") != 0)
    return set_reason(row, "custom collectives", "a framework's own kernel, not NCCL's"), PZ_OK;
  bool large = (double)row->n > LARGE;
  if (row->batch == 4 || row->batch == 8)
    row->group = large ? "nccl 4 and 8 GPUs above 1 MB" : "nccl 4 and 8 GPUs up to 1 MB";
  else
    row->group = pz_arena_printf(arena, "nccl %lld GPUs %s 1 MB", (long long)row->batch,
                                 large ? "above" : "up to");
  return PZ_OK;
}

static const struct word dispatchers[] = {{"deepep_normal", 1},
                                          {"deepep_ll", 0},
                                          {"trtllm_NVLinkOneSided", 0},
                                          {"trtllm_NVLinkTwoSided", 0},
                                          {NULL, 0}};
static const struct word dispatches[] = {
    {"dispatch", 1}, {"combine", 1}, {"prepare", 0}, {"combine_low_precision", 0}, {NULL, 0}};

/* Between nodes the time of the notification counts too. */
static enum pz_status read_dispatch_us(const struct reader *r, struct pz_ops_row *row) {
  double notify = 0;
  enum pz_status status = read_us(r, TIME, &row->us);
  if (status == PZ_OK && r->at[NOTIFY] != PZ_NONE)
    status = pz_csv_number(r->name, r->csv, r->row, r->at[NOTIFY], 1e9, &notify, r->err);
  row->us += notify;
  return status;
}

static enum pz_status read_dispatch(const struct reader *r, struct pz_arena *arena,
                                    struct pz_ops_row *row) {
  static const int64_t MANY = 1024;
  int64_t experts = INT64_MAX;
  const struct count counts[] = {{NODES, &row->nodes},
                                 {TOKENS, &row->m},
                                 {HIDDEN, &row->k},
                                 {TOPK, &row->topk},
                                 {COUNT, &experts}};
  const struct word *dispatcher, *operation;
  enum pz_status status = read_word(r, LIBRARY, dispatchers, &dispatcher);
  if (status == PZ_OK) status = read_word(r, OPERATION, dispatches, &operation);
  if (status == PZ_OK) status = read_count(r, DEVICES, 2, &row->batch);
  if (status == PZ_OK) status = read_counts(r, counts, 5);
  if (status == PZ_OK) status = read_dispatch_us(r, row);
  if (status != PZ_OK) return status;
  if (row->batch % row->nodes || row->topk > experts)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: %lld GPUs of %lld nodes, top %lld of %lld experts; accepted: as many GPUs "
                   "in each node, at most as many experts as there are",
                   r->where, (long long)row->batch, (long long)row->nodes, (long long)row->topk,
                   (long long)experts);
  if (!dispatcher->use || !operation->use)
    return set_reason(row, pz_arena_printf(arena, "%s %s", operation->name, dispatcher->name),
                      "kernels of this dispatcher are not modelled"),
           PZ_OK;
  row->op = pz_ops_find(operation->name);
  row->group =
      row->nodes > 1
          ? pz_arena_printf(arena, "%s deepep, %lld nodes", operation->name, (long long)row->nodes)
          : pz_arena_printf(arena, "%s deepep%s", operation->name, row->m < MANY ? ", short" : "");
  return read_count(r, SMS, 1, &row->sms);
}

/* Operators of state-space layers among the others: sizes in the collectors' names, as JSON or (in the collectors' form) as
 * columns. */
static const struct scan_kind {
  const char *kind, *op, *group;
} scan_kinds[] = {
    {"mamba2.mamba_chunk_scan_combined", "ssm_scan", "mamba2 scan"},
    {"mamba2.causal_conv1d_fn", "conv1d_rows", "mamba2 conv1d"},
    {"mamba2.causal_conv1d_update", "conv1d_step", "mamba2 conv1d step"},
    {"gdn.chunk_gated_delta_rule", "delta_rule", "gdn delta rule"},
    {"gdn.fused_recurrent_gated_delta_rule", "delta_rule_step", "gdn delta rule step"},
    {"gdn.fused_recurrent_gated_delta_rule_packed_decode", "delta_rule_step",
     "gdn delta rule step"},
    {"gdn.causal_conv1d_fn", "conv1d", "gdn conv1d"},
    {"gdn.causal_conv1d_update", "conv1d_step", "gdn conv1d step"},
};

/* Is a size of the row there and usable? */
static bool read_param(const struct reader *r, const json_t *params, const char *key,
                       int64_t *out) {
  static const int64_t MOST = 1 << 24;
  if (params) {
    const json_t *v = json_object_get(params, key);
    *out = json_is_integer(v) ? json_integer_value(v) : 0;
  } else {
    uint32_t at = pz_csv_column(r->csv, key);
    *out = at == PZ_NONE ? 0 : strtoll(pz_csv_cell(r->csv, r->row, at), NULL, 10);
  }
  return *out >= 1 && *out <= MOST;
}

static enum pz_status read_params(const struct reader *r, const json_t *params, bool mamba,
                                  struct pz_ops_row *row) {
  static const int64_t CHUNK = 64; /* of the delta rule's kernels */
  const struct {
    const char *key[2]; /* by mamba */
    int64_t *to;
  } sizes[] = {
      {{"batch_size", "batch_size"}, &row->batch}, {{"seq_len", "seq_len"}, &row->m},
      {{"head_v_dim", "d_state"}, &row->n},        {{"head_k_dim", "head_dim"}, &row->k},
      {{"num_v_heads", "nheads"}, &row->heads},    {{"num_k_heads", "n_groups"}, &row->kv_heads},
      {{NULL, "chunk_size"}, &row->chunk}};
  row->chunk = CHUNK;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const char *key = sizes[i].key[mamba];
    if (key && !read_param(r, params, key, sizes[i].to))
      return pz_fail(r->err, PZ_BAD_INPUT,
                     "%s: no usable '%s'; accepted: an integer from 1 to 2^24", r->where, key);
  }
  return PZ_OK;
}

static const struct scan_kind *find_scan(const struct reader *r) {
  char kind[100];
  uint32_t op = pz_csv_column(r->csv, "op_name"), kernel = pz_csv_column(r->csv, "kernel_source");
  snprintf(kind, sizeof kind, "%s", cell(r, KIND));
  if (r->collected && op != PZ_NONE && kernel != PZ_NONE)
    snprintf(kind, sizeof kind, "%.40s.%.55s", pz_csv_cell(r->csv, r->row, op),
             pz_csv_cell(r->csv, r->row, kernel));
  for (size_t i = 0; i < sizeof scan_kinds / sizeof *scan_kinds; i++)
    if (strcmp(scan_kinds[i].kind, kind) == 0) return &scan_kinds[i];
  return NULL;
}

static enum pz_status read_other(const struct reader *r, struct pz_arena *arena,
                                 struct pz_ops_row *row) {
  const struct scan_kind *k = r->unknown ? NULL : find_scan(r);
  const char *text = cell(r, PARAMS);
  json_t *params = NULL;
  (void)arena;
  if (!k)
    return set_reason(row, "other operators", r->unknown ? r->unknown : "not modelled"), PZ_OK;
  bool mamba = strncmp(k->kind, "mamba2", 6) == 0;
  enum pz_status status =
      r->collected ? PZ_OK : pz_json_parse(r->where, text, strlen(text), &params, r->err);
  if (status == PZ_OK) status = read_params(r, params, mamba, row);
  json_decref(params);
  if (status == PZ_OK && r->at[TIME] == PZ_NONE)
    status =
        pz_fail(r->err, PZ_BAD_INPUT, "%s:1: no column 'us' of others; accepted: with it", r->name);
  if (status == PZ_OK) status = read_us(r, TIME, &row->us);
  if (status != PZ_OK) return status;
  row->op = pz_ops_find(k->op);
  row->group = k->group;
  row->alone = mamba;
  if (strncmp(k->op, "conv1d", 6) != 0) return PZ_OK;
  /* queries, keys and values, or x, B and C, of all heads */
  row->n = mamba ? row->heads * row->k + 2 * row->kv_heads * row->n
                 : row->heads * row->n + 2 * row->kv_heads * row->k;
  row->heads = row->kv_heads = row->chunk = 0;
  row->k = 1;
  return PZ_OK;
}

/* ---- tables --------------------------------------------------------------------------------- */

typedef enum pz_status read_fn(const struct reader *r, struct pz_arena *arena,
                               struct pz_ops_row *row);

static enum pz_status read_row(struct reader *r, uint32_t i, struct pz_arena *arena,
                               struct pz_ops_row *row) {
  static read_fn *const readers[KINDS] = {read_gemm,       read_attention, read_experts,
                                          read_collective, read_dispatch,  read_other};
  *row = (struct pz_ops_row){.table = r->name, .line = r->csv->lines[i]};
  r->row = i;
  snprintf(r->where, sizeof r->where, "%.250s:%u", r->name, row->line);
  enum pz_status status = read_chip(r, row);
  if (status == PZ_NO_ANSWER) { /* named as it is; nothing else of the row counts */
    row->chip = cell(r, CHIP);
    set_reason(row, pz_arena_printf(arena, "operators of %.60s", row->chip),
               "no preset of this chip");
    return row->group ? PZ_OK : pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
  }
  if (status == PZ_OK) status = readers[r->kind](r, arena, row);
  if (status == PZ_NO_ANSWER)
    return set_reason(row, "other operators", "the operator or its type is not known"), PZ_OK;
  if (status != PZ_OK) return status;
  if (!row->group) return pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
  const char *flag = cell(r, FLAG);
  row->slow = strcmp(flag, "slow") == 0;
  if (*flag && !row->slow)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: column 'flag' is '%.40s'; accepted: slow or nothing",
                   r->where, flag);
  double b = (double)row->batch, m = (double)row->m, n = (double)row->n, k = (double)row->k;
  double values = b * fmax(1, (double)row->heads) * fmax(m * n, fmax(m * k, n * k));
  if (values * fmax(1, (double)row->topk) > 0x1p53)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: an operand has more than 2^53 values", r->where);
  return PZ_OK;
}

enum pz_status pz_silicon_read(const char *name, const struct pz_csv *csv, struct pz_arena *arena,
                               const struct pz_ops_row **rows, struct pz_error *err) {
  struct reader r = {.name = name, .csv = csv, .err = err};
  char list[700];
  if (!find_kind(&r))
    return pz_fail(err, PZ_BAD_INPUT, "%s:1: unknown columns; accepted: those of %s", name,
                   pz_silicon_accepted(list, sizeof list));
  struct pz_ops_row *out = pz_arena_alloc(arena, csv->rows, sizeof *out);
  if (!out) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  enum pz_status status = check_twice(&r);
  if (status == PZ_OK) status = check_columns(&r, arena);
  for (uint32_t i = 0; i < csv->rows && status == PZ_OK; i++)
    status = read_row(&r, i, arena, &out[i]);
  if (status == PZ_OK) *rows = out;
  return status;
}
