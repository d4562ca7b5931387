/* Reader of tables of operators measured on real chips.
 *
 * A table is of one kind, which is known by a column that only that kind has.  Columns of the same
 * meaning have several names, listed in `columns`.  Tables in the form of AIConfigurator's
 * collectors contain operators that are not modelled; whatever is unknown in them makes a row
 * without a prediction, while it is an error in the shorter form, which people write by hand. */
#include "cost/silicon_table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/text.h"
#include "cost/constants.h"

/* ---- columns --------------------------------------------------------------------------------- */

enum kind { GEMM, ATTENTION, EXPERTS, COLLECTIVE, DISPATCH, OTHER, KINDS };

/* The fields of a row.  A field is the meaning of one or more columns; `columns` tells which kinds
 * of tables have it.  The numbering continues from one enum to the next. */

/* Fields of all kinds of tables, and the sizes of GEMMs. */
enum { CHIP, TIME, SUSTAINED, WATTS, FLAG, DTYPE, M, N, K };
/* Fields of attention. */
enum { PHASE = K + 1, KV_DTYPE, BATCH, SEQ, PREFIX, HEADS, KV_HEADS, WIDTH, WINDOW };
/* Fields of routed experts; the dispatch of tokens to experts has some of them. */
enum { TOKENS = WINDOW + 1, HIDDEN, INTER, TOPK, COUNT, TP, EP, DISTRIBUTION, GATED };
/* Fields of collectives, of the dispatch, and (PARAMS and KIND) of other operators. */
enum { OPERATION = GATED + 1, DEVICES, BYTES, LIBRARY, NODES, SMS, NOTIFY, PARAMS, KIND };
/* The number of fields, which also marks a column that is not used. */
enum { FIELDS = KIND + 1, UNUSED = FIELDS };

#define IN(kind) (1u << (kind))
#define ALL (IN(KINDS) - 1)

/* The names of columns, their meaning in the tables of some kinds, and the factor that converts
 * their numbers to microseconds, bytes or counts. */
static const struct column_info {
  const char *name;
  int field;
  unsigned kinds; /* set of IN(kind) */
  double unit;
} columns[] = {
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
    {"message_size", BYTES, IN(COLLECTIVE), 0}, /* counts elements: see read_collective() */
    {"backend", LIBRARY, IN(COLLECTIVE), 0},
    {"kernel_source", LIBRARY, IN(COLLECTIVE), 0},
    {"mode", LIBRARY, IN(DISPATCH), 0},
    {"nodes", NODES, IN(DISPATCH), 1},
    {"sms", SMS, IN(DISPATCH), 1},
    {"notify_us", NOTIFY, IN(DISPATCH), 1},
    {"params", PARAMS, IN(OTHER), 0},
    {"kind", KIND, IN(OTHER), 0},
    /* Facts about the measurement, which are not used. */
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
enum { COLUMNS = sizeof columns / sizeof *columns };

static const struct {
  const char *name;
  int mark;      /* field that only this kind of table has */
  int n;         /* number of fields that the table must have */
  int needs[10]; /* the `n` required fields, followed by one that most rows need */
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

struct silicon_reader {
  struct pz_call *call;
  const char *name;
  const struct pz_csv *csv;
  enum kind kind;
  bool collected;          /* the table has the form of AIConfigurator's collectors */
  const char *unknown;     /* reason why no row is predicted, or NULL if the kind is known */
  uint32_t column[FIELDS]; /* index of the column of each field, or PZ_NONE */
  double unit[FIELDS];     /* factor of each column to microseconds, bytes or counts */
  uint32_t row, line;      /* the row that is being read, and its line in the file */
};

/* Returns the name that messages give to a field: the first in tables of a kind. */
static const char *field_name(enum kind kind, int field) {
  int i = 0;
  while (columns[i].field != field || !(columns[i].kinds & IN(kind))) i++;
  return columns[i].name;
}

/* Returns the meaning of the column `name` in tables of a kind, or NULL if it has none. */
static const struct column_info *find_column(enum kind kind, const char *name) {
  for (int i = 0; i < COLUMNS; i++)
    if ((columns[i].kinds & IN(kind)) && strcmp(columns[i].name, name) == 0) return &columns[i];
  return NULL;
}

/* Sets reader->kind, and finds the column of each field of tables of this kind.  If several columns
 * mean the same, the first one counts. */
static void find_fields(struct silicon_reader *reader, enum kind kind) {
  reader->kind = kind;
  for (int f = 0; f < FIELDS; f++) reader->column[f] = PZ_NONE;
  for (uint32_t c = 0; c < reader->csv->columns; c++) {
    const struct column_info *info = find_column(kind, reader->csv->cells[c]);
    if (!info || info->field == UNUSED || reader->column[info->field] != PZ_NONE) continue;
    reader->column[info->field] = c;
    reader->unit[info->field] = info->unit;
  }
}

/* Finds the kind of a table by the column that only this kind has (mark).  A table in the
 * collectors' form without such a column is of OTHER.  Returns false if the table is of no kind. */
static bool find_kind(struct silicon_reader *reader) {
  static const char *const collector_columns[] = {"device", "op_name", "latency"};
  reader->collected = true;
  for (size_t i = 0; i < sizeof collector_columns / sizeof *collector_columns; i++)
    if (pz_csv_column(reader->csv, collector_columns[i]) == PZ_NONE) reader->collected = false;
  for (enum kind kind = 0; kind < KINDS; kind++) {
    find_fields(reader, kind);
    if (reader->column[kinds[kind].mark] != PZ_NONE) return true;
  }
  return reader->collected;
}

/* Returns whether a table has the columns of one of the kinds. */
bool pz_silicon_is(const struct pz_csv *csv) {
  struct silicon_reader reader = {.csv = csv};
  return pz_csv_column(csv, "op") == PZ_NONE && find_kind(&reader);
}

/* Writes the kinds of tables with the columns that they need into buf, for messages. */
char *pz_silicon_accepted(char *buf, size_t size) {
  size_t n = 0;
  *buf = '\0';
  for (int k = 0; k < OTHER && n < size; k++) {
    n += (size_t)snprintf(buf + n, size - n, "%s%s (", k ? "; " : "", kinds[k].name);
    for (int i = 0; kinds[k].needs[i] && n < size; i++)
      n += (size_t)snprintf(buf + n, size - n, "%s, ", field_name((enum kind)k, kinds[k].needs[i]));
    if (n < size) n += (size_t)snprintf(buf + n, size - n, "us)");
  }
  return buf;
}

/* Reports a column that is unknown or missing, as `problem` says.  It is an error, except in a
 * table in the collectors' form, where it is the reason why no row is predicted. */
static void report_column(struct silicon_reader *reader, const char *problem, const char *column) {
  char accepted[1000] = "";
  size_t n = 0;
  const char *kind = kinds[reader->kind].name;
  for (int i = 0; i < COLUMNS && n < sizeof accepted; i++)
    if (columns[i].kinds & IN(reader->kind))
      n += (size_t)snprintf(accepted + n, sizeof accepted - n, "%s%s", n ? ", " : "",
                            columns[i].name);
  if (!reader->collected)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:1: %s '%.40s' of %s; accepted: %s", reader->name,
             problem, column, kind, accepted);
  reader->unknown = pz_format(reader->call, "%s '%.40s' of %s", problem, column, kind);
  find_fields(reader, OTHER);
}

/* Checks that no two columns mean the same, all columns are known, and none is missing. */
static void check_columns(struct silicon_reader *reader) {
  const struct pz_csv *csv = reader->csv;
  enum kind kind = reader->kind;
  for (uint32_t c = 0; c < csv->columns; c++) {
    const struct column_info *info = find_column(kind, csv->cells[c]);
    if (info && info->field != UNUSED && reader->column[info->field] != c)
      pz_raise(reader->call, PZ_BAD_INPUT,
               "%s:1: columns '%s' and '%s' mean the same; accepted: one of them", reader->name,
               csv->cells[reader->column[info->field]], info->name);
  }
  if (kind == OTHER) return;
  for (uint32_t c = 0; c < csv->columns; c++)
    if (!find_column(kind, csv->cells[c])) {
      report_column(reader, "unknown column", csv->cells[c]);
      return;
    }
  for (int i = 0; i < kinds[kind].n; i++)
    if (reader->column[kinds[kind].needs[i]] == PZ_NONE) {
      report_column(reader, "no column", field_name(kind, kinds[kind].needs[i]));
      return;
    }
  if (reader->column[TIME] == PZ_NONE && reader->column[SUSTAINED] == PZ_NONE)
    report_column(reader, "no column", "us");
}

/* ---- cells ----------------------------------------------------------------------------------- */

/* Returns whether the table has a column for a field. */
static bool has_field(const struct silicon_reader *reader, int field) {
  return reader->column[field] != PZ_NONE;
}

/* Returns the text of a field in the row that is being read, or "". */
static const char *cell(const struct silicon_reader *reader, int field) {
  return has_field(reader, field) ? pz_csv_cell(reader->csv, reader->row, reader->column[field])
                                  : "";
}

/* Raises an error for a field's value in the row at hand; `accepted` says what would be right. */
static _Noreturn void refuse_cell(const struct silicon_reader *reader, int field,
                                  const char *accepted) {
  const char *name = has_field(reader, field) ? reader->csv->cells[reader->column[field]]
                                              : field_name(reader->kind, field);
  pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: %s", reader->name,
           reader->line, name, cell(reader, field), accepted);
}

/* A word of a column, and its value in the enum before its list; rows with 0 are not predicted. */
struct word {
  const char *name;
  int value;
};

/* Returns word i of a list of struct word, or NULL after the last (a pz_name_at). */
static const char *word_name(const void *list, size_t i) {
  return ((const struct word *)list)[i].name;
}

/* Returns the element of `list` that is the word of a field.  An unknown word is an error, except
 * in a table in the collectors' form, where NULL is returned. */
static const struct word *read_word(const struct silicon_reader *reader, int field,
                                    const struct word *list) {
  char accepted[700];
  for (const struct word *word = list; word->name; word++)
    if (strcmp(word->name, cell(reader, field)) == 0) return word;
  if (reader->collected) return NULL;
  refuse_cell(reader, field, pz_text_join(accepted, sizeof accepted, word_name, list));
}

/* Returns the integer in a field, which must be from `least` to 2^40. */
static int64_t read_count(const struct silicon_reader *reader, int field, double least) {
  const char *text = cell(reader, field);
  char *end, accepted[60];
  double value = strtod(text, &end);
  bool in_range = value >= least && value <= 0x1p40 && value == floor(value);
  if (*text && !*end && in_range) return (int64_t)value;
  snprintf(accepted, sizeof accepted, "an integer from %.0f to 2^40", least);
  refuse_cell(reader, field, accepted);
}

/* A field that contains a count, and the member of a row that receives it. */
struct count {
  int field;
  int64_t *member;
};

/* Reads n counts of at least 1.  Members whose fields the table lacks stay unchanged. */
static void read_counts(const struct silicon_reader *reader, const struct count *counts, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (has_field(reader, counts[i].field))
      *counts[i].member = read_count(reader, counts[i].field, 1);
}

/* Returns the time in a field in microseconds, whatever the unit of its column. */
static double read_time_us(const struct silicon_reader *reader, int field) {
  const struct pz_ops_cell time = {reader->name, reader->line,
                                   reader->csv->cells[reader->column[field]], cell(reader, field)};
  return pz_ops_read_time(reader->call, &time, reader->unit[field] > 1);
}

/* Names of chips in tables, including those that CUDA reports, and their presets. */
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

/* Returns the i-th name that a chip may have in tables, or NULL after the last (a pz_name_at). */
static const char *chip_name(const void *ctx, size_t i) {
  (void)ctx;
  return i < CHIPS ? chips[i].name : pz_chip_preset_name(i - CHIPS);
}

/* ---- the kinds of rows -----------------------------------------------------------------------
 *
 * Each function reads the row of one kind of table and returns true.  It returns false if the
 * operator or its data type is unknown in a table in the collectors' form. */

/* Types of operands: bits of a value, with one scale or one for each block.  BITS_OTHER (0) is
 * known but not predicted.  The tables bits_names and `ops` below are in this order. */
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

/* Marks a row as not predicted, for `reason`; errors are reported under `group`.  Returns true, the
 * result of the functions that read a row. */
static bool set_reason(struct pz_ops_row *row, const char *group, const char *reason) {
  row->group = group;
  row->reason = reason;
  return true;
}

/* Reads a GEMM.  Its time is that of a loop that runs until the power limit acts (sustained), or of
 * a burst of milliseconds, multiplied by the constant `burst`. Rows with watts are sustained. */
static bool read_gemm(const struct silicon_reader *reader, struct pz_ops_row *row) {
  static const char *const ops[] = {NULL, "gemm", "fp8_linear", "fp8_block_linear", "nvfp4_linear"};
  static const int64_t LARGE = 1024; /* errors of smaller GEMMs are reported separately */
  const struct count counts[] = {{M, &row->m}, {N, &row->n}, {K, &row->k}};
  row->batch = 1;
  const struct word *dtype = read_word(reader, DTYPE, dtypes);
  if (!dtype) return false;
  read_counts(reader, counts, 3);
  double watts = 0;
  if (has_field(reader, WATTS))
    watts = pz_csv_real(reader->call, reader->name, reader->csv, reader->row, reader->column[WATTS],
                        1e6);
  bool has_sustained = has_field(reader, SUSTAINED), sustained = has_sustained || watts > 0;
  if (has_sustained && !*cell(reader, SUSTAINED))
    return set_reason(row, "GEMMs without a sustained time", "no time of a sustained loop");
  row->us = read_time_us(reader, has_sustained ? SUSTAINED : TIME);
  if (!dtype->value)
    return set_reason(row, pz_format(reader->call, "gemm %s", dtype->name),
                      "GEMMs with operands of this type are not modelled");
  if (!sustained) row->us *= pz_constants_default.burst;
  row->op = pz_ops_find(ops[dtype->value]);
  bool large = row->m >= LARGE && row->n >= LARGE && row->k >= LARGE;
  row->group = pz_format(reader->call, "%sgemm %s%s", large ? "" : "small ",
                         bits_names[dtype->value], sustained ? " sustained" : "");
  return true;
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

/* Reads attention in serving.  Only 16-bit prefill without a cached prefix is predicted. */
static bool read_attention(const struct silicon_reader *reader, struct pz_ops_row *row) {
  static const char *const ops[] = {NULL, "prefill", "encoder", "mla_prefill"};
  static const char *const names[] = {NULL, "prefill", "encoder", "latent prefill"};
  static const int64_t LONG = 2048; /* errors of shorter sequences are reported separately */
  /* The mean width of keys (128 + 64) and values (128) of DeepSeek-V3. */
  static const int64_t LATENT_WIDTH = 160;
  const struct count counts[] = {{BATCH, &row->batch},
                                 {SEQ, &row->m},
                                 {HEADS, &row->heads},
                                 {KV_HEADS, &row->kv_heads},
                                 {WIDTH, &row->k}};
  const struct word *phase = read_word(reader, PHASE, phases);
  if (!phase) return false;
  const struct word *dtype = read_word(reader, DTYPE, dtypes);
  if (!dtype) return false;
  const struct word *kv_dtype =
      has_field(reader, KV_DTYPE) ? read_word(reader, KV_DTYPE, dtypes) : dtype;
  if (!kv_dtype) return false;
  read_counts(reader, counts, 5);
  int64_t prefix = has_field(reader, PREFIX) ? read_count(reader, PREFIX, 0) : 0;
  int64_t window = has_field(reader, WINDOW) ? read_count(reader, WINDOW, 0) : 0;
  row->us = read_time_us(reader, TIME);
  if (!phase->value)
    return set_reason(row, pz_format(reader->call, "%s attention", phase->name),
                      "decoding is not modelled");
  if (dtype->value != BITS_16 || kv_dtype->value != BITS_16)
    return set_reason(row, "attention with 8-bit keys",
                      "attention with operands of this type is not modelled");
  if (prefix > 0)
    return set_reason(row, "attention with a cached prefix", "a cached prefix is not modelled");
  bool is_latent = phase->value == PHASE_LATENT;
  if (!has_field(reader, WIDTH) && !is_latent) {
    if (reader->collected) return false;
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:1: no column 'head_dim' of attention; accepted: with it", reader->name);
  }
  if (row->kv_heads == 0) row->kv_heads = row->heads;
  if (row->kv_heads > row->heads)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: %lld kv heads; accepted: at most heads, %lld",
             reader->name, reader->line, (long long)row->kv_heads, (long long)row->heads);
  if (is_latent) row->k = LATENT_WIDTH;
  row->op = pz_ops_find(ops[phase->value]);
  row->causal = phase->value != PHASE_ENCODER;
  row->library = pz_ops_library(cell(reader, LIBRARY));
  row->n = window > 0 && window < row->m ? window : row->m;
  const char *suffix = row->causal && row->m < LONG ? ", short" : "";
  if (window > 0) suffix = ", window";
  row->group = pz_format(reader->call, "%s attention bf16%s", names[phase->value], suffix);
  return true;
}

/* Reads routed experts.  Their loads are balanced, or follow a power law (power_law_SKEW). */
static bool read_experts(const struct silicon_reader *reader, struct pz_ops_row *row) {
  static const char *const ops[] = {NULL, "experts", "experts_fp8", "experts_fp8_block", NULL};
  static const char LAW[] = "power_law_"; /* followed by the exponent */
  const struct count counts[] = {{TOKENS, &row->m},  {HIDDEN, &row->k},    {INTER, &row->n},
                                 {TOPK, &row->topk}, {COUNT, &row->batch}, {TP, &row->tp},
                                 {EP, &row->ep}};
  const struct word *dtype = read_word(reader, DTYPE, dtypes);
  if (!dtype) return false;
  read_counts(reader, counts, 7);
  row->gated = has_field(reader, GATED) ? read_count(reader, GATED, 0) > 0 : true;
  const char *distribution = cell(reader, DISTRIBUTION);
  if (strcmp(distribution, "balanced") != 0) {
    char *end = NULL;
    if (strncmp(distribution, LAW, sizeof LAW - 1) == 0)
      row->skew = strtod(distribution + sizeof LAW - 1, &end);
    bool is_power_law = end && !*end && row->skew > 0 && row->skew <= 10;
    if (!is_power_law && reader->collected) return false;
    if (!is_power_law)
      refuse_cell(reader, DISTRIBUTION, "balanced or power_law_A, A above 0 and at most 10");
  }
  row->us = read_time_us(reader, TIME);
  if (row->topk > row->batch || row->ep > row->batch || row->tp > row->n)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: top %lld and ep %lld of %lld experts, tp %lld of %lld; accepted: at most "
             "as many as there are",
             reader->name, reader->line, (long long)row->topk, (long long)row->ep,
             (long long)row->batch, (long long)row->tp, (long long)row->n);
  row->group =
      pz_format(reader->call, "experts %s%s", dtype->value ? bits_names[dtype->value] : dtype->name,
                row->skew > 0 ? " skewed" : " balanced");
  if (!ops[dtype->value])
    return set_reason(row, row->group, "experts with operands of this type are not modelled");
  if (row->batch % row->ep || row->n % row->tp)
    return set_reason(row, row->group,
                      "devices with different parts of the experts are not modelled");
  row->op = pz_ops_find(ops[dtype->value]);
  return true;
}

static const struct word operations[] = {
    {"all_reduce", 1}, {"all_gather", 1}, {"reduce_scatter", 1}, {"alltoall", 1}, {NULL, 0}};

/* Reads a collective.  Only those of NCCL are predicted, not the kernels of frameworks. */
static bool read_collective(const struct silicon_reader *reader, struct pz_ops_row *row) {
  static const double LARGE_BYTES = 1e6; /* errors of smaller tensors are reported separately */
  const struct word *operation = read_word(reader, OPERATION, operations);
  if (!operation) return false;
  const struct word *dtype = read_word(reader, DTYPE, dtypes);
  if (!dtype) return false;
  row->batch = read_count(reader, DEVICES, 2);
  row->n = read_count(reader, BYTES, 1);
  row->us = read_time_us(reader, TIME);
  bool counts_elements = reader->unit[BYTES] == 0; /* column message_size of the collectors */
  if (counts_elements && dtype->value == BITS_16) row->n *= 2;
  row->m = 1;
  row->op = pz_ops_find(operation->name);
  const char *library = cell(reader, LIBRARY);
  if (strcmp(library, "nccl") != 0 && strcmp(library, "NCCL") != 0)
    return set_reason(row, "custom collectives", "a framework's own kernel, not NCCL's");
  bool large = (double)row->n > LARGE_BYTES;
  if (row->batch == 4 || row->batch == 8)
    row->group = large ? "nccl 4 and 8 GPUs above 1 MB" : "nccl 4 and 8 GPUs up to 1 MB";
  else
    row->group = pz_format(reader->call, "nccl %lld GPUs %s 1 MB", (long long)row->batch,
                           large ? "above" : "up to");
  return true;
}

static const struct word dispatchers[] = {{"deepep_normal", 1},
                                          {"deepep_ll", 0},
                                          {"trtllm_NVLinkOneSided", 0},
                                          {"trtllm_NVLinkTwoSided", 0},
                                          {NULL, 0}};
static const struct word dispatches[] = {
    {"dispatch", 1}, {"combine", 1}, {"prepare", 0}, {"combine_low_precision", 0}, {NULL, 0}};

/* Reads a dispatch or combine.  The notification between nodes has a separate column. */
static bool read_dispatch(const struct silicon_reader *reader, struct pz_ops_row *row) {
  static const int64_t LONG = 1024; /* errors of fewer tokens are reported separately */
  int64_t experts = INT64_MAX;
  const struct count counts[] = {{NODES, &row->nodes},
                                 {TOKENS, &row->m},
                                 {HIDDEN, &row->k},
                                 {TOPK, &row->topk},
                                 {COUNT, &experts}};
  const struct word *dispatcher = read_word(reader, LIBRARY, dispatchers);
  if (!dispatcher) return false;
  const struct word *operation = read_word(reader, OPERATION, dispatches);
  if (!operation) return false;
  row->batch = read_count(reader, DEVICES, 2);
  read_counts(reader, counts, 5);
  row->us = read_time_us(reader, TIME);
  if (has_field(reader, NOTIFY))
    row->us += pz_csv_real(reader->call, reader->name, reader->csv, reader->row,
                           reader->column[NOTIFY], 1e9);
  if (row->batch % row->nodes || row->topk > experts)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: %lld GPUs of %lld nodes, top %lld of %lld experts; accepted: as many GPUs "
             "in each node, at most as many experts as there are",
             reader->name, reader->line, (long long)row->batch, (long long)row->nodes,
             (long long)row->topk, (long long)experts);
  if (!dispatcher->value || !operation->value)
    return set_reason(row, pz_format(reader->call, "%s %s", operation->name, dispatcher->name),
                      "kernels of this dispatcher are not modelled");
  row->op = pz_ops_find(operation->name);
  if (row->nodes > 1)
    row->group =
        pz_format(reader->call, "%s deepep, %lld nodes", operation->name, (long long)row->nodes);
  else
    row->group =
        pz_format(reader->call, "%s deepep%s", operation->name, row->m < LONG ? ", short" : "");
  row->sms = read_count(reader, SMS, 1);
  return true;
}

/* Operators of state-space layers in tables of kind OTHER: their kind in the table, the name in
 * ops_table.h, and the group under which errors are reported. */
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

/* Sets the sizes of a state-space operator in *row.  They have the collectors' names, and are
 * members of the JSON object `params`, or columns of the table if `params` is NULL. */
static void read_scan_sizes(const struct silicon_reader *reader, const json_t *params,
                            bool is_mamba, struct pz_ops_row *row) {
  static const int64_t MOST = 1 << 24;
  const struct {
    const char *key[2]; /* of the delta rule, of Mamba-2 */
    int64_t *member;
  } sizes[] = {
      {{"batch_size", "batch_size"}, &row->batch}, {{"seq_len", "seq_len"}, &row->m},
      {{"head_v_dim", "d_state"}, &row->n},        {{"head_k_dim", "head_dim"}, &row->k},
      {{"num_v_heads", "nheads"}, &row->heads},    {{"num_k_heads", "n_groups"}, &row->kv_heads},
      {{NULL, "chunk_size"}, &row->chunk}};
  row->chunk = 64; /* the only chunk size of the delta rule's kernels */
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const char *key = sizes[i].key[is_mamba];
    if (!key) continue;
    int64_t value = 0;
    if (params) {
      const json_t *member = json_object_get(params, key);
      if (json_is_integer(member)) value = json_integer_value(member);
    } else {
      uint32_t column = pz_csv_column(reader->csv, key);
      if (column != PZ_NONE)
        value = strtoll(pz_csv_cell(reader->csv, reader->row, column), NULL, 10);
    }
    if (value < 1 || value > MOST)
      pz_raise(reader->call, PZ_BAD_INPUT,
               "%s:%u: no usable '%s'; accepted: an integer from 1 to 2^24", reader->name,
               reader->line, key);
    *sizes[i].member = value;
  }
}

/* Reads an operator of a state-space layer; all others are not predicted.  Its kind is a column of
 * its own, or two columns of the collectors. */
static bool read_other(const struct silicon_reader *reader, struct pz_ops_row *row) {
  const struct scan_kind *scan = NULL;
  char kind[100];
  uint32_t op = pz_csv_column(reader->csv, "op_name");
  uint32_t kernel = pz_csv_column(reader->csv, "kernel_source");
  snprintf(kind, sizeof kind, "%s", cell(reader, KIND));
  if (reader->collected && op != PZ_NONE && kernel != PZ_NONE)
    snprintf(kind, sizeof kind, "%.40s.%.55s", pz_csv_cell(reader->csv, reader->row, op),
             pz_csv_cell(reader->csv, reader->row, kernel));
  for (size_t i = 0; i < sizeof scan_kinds / sizeof *scan_kinds && !reader->unknown; i++)
    if (strcmp(scan_kinds[i].kind, kind) == 0) scan = &scan_kinds[i];
  if (!scan)
    return set_reason(row, "other operators", reader->unknown ? reader->unknown : "not modelled");
  bool is_mamba = strncmp(scan->kind, "mamba2", 6) == 0;
  if (reader->collected) {
    read_scan_sizes(reader, NULL, is_mamba, row);
  } else {
    const char *text = cell(reader, PARAMS),
               *where = pz_format(reader->call, "%s:%u", reader->name, reader->line);
    json_t *params = pz_json_read(reader->call, where, text, strlen(text));
    read_scan_sizes(reader, params, is_mamba, row);
    pz_close(reader->call, params);
  }
  if (!has_field(reader, TIME))
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:1: no column 'us' of others; accepted: with it",
             reader->name);
  row->us = read_time_us(reader, TIME);
  row->op = pz_ops_find(scan->op);
  row->group = scan->group;
  row->alone = is_mamba;
  if (strncmp(scan->op, "conv1d", 6) != 0) return true;
  /* A convolution has a number of channels instead of heads: the widths of queries, keys and values
   * of all heads (delta rule), or of x, B and C (Mamba-2). */
  row->n = is_mamba ? row->heads * row->k + 2 * row->kv_heads * row->n
                    : row->heads * row->n + 2 * row->kv_heads * row->k;
  row->heads = row->kv_heads = row->chunk = 0;
  row->k = 1;
  return true;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Returns row i, read by the function for the kind of the table.  Rows of chips without a preset
 * and of unknown operators have a reason why they are not predicted. */
static struct pz_ops_row read_row(struct silicon_reader *reader, uint32_t i) {
  typedef bool read_row_fn(const struct silicon_reader *reader, struct pz_ops_row *row);
  static read_row_fn *const readers[KINDS] = {read_gemm,       read_attention, read_experts,
                                              read_collective, read_dispatch,  read_other};
  struct pz_ops_row row = {.table = reader->name, .line = reader->csv->lines[i]};
  reader->row = i;
  reader->line = row.line;
  bool has_chip = has_field(reader, CHIP);
  const char *chip = cell(reader, CHIP);
  char list[700];
  for (size_t c = 0; has_chip && !row.chip && chip_name(NULL, c); c++)
    if (strcmp(chip_name(NULL, c), chip) == 0)
      row.chip = c < CHIPS ? chips[c].preset : chip_name(NULL, c);
  if (has_chip && !row.chip && !reader->collected)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: unknown chip '%.40s'; accepted: %s", reader->name,
             reader->line, chip, pz_text_join(list, sizeof list, chip_name, NULL));
  if (has_chip && !row.chip) {
    row.chip = chip;
    set_reason(&row, pz_format(reader->call, "operators of %.60s", chip), "no preset of this chip");
    return row;
  }
  if (!readers[reader->kind](reader, &row)) {
    set_reason(&row, "other operators", "the operator or its type is not known");
    return row;
  }
  const char *flag = cell(reader, FLAG);
  row.slow = strcmp(flag, "slow") == 0;
  if (*flag && !row.slow) refuse_cell(reader, FLAG, "slow or nothing");
  double b = (double)row.batch, m = (double)row.m, n = (double)row.n, k = (double)row.k;
  double values = b * fmax(1, (double)row.heads) * fmax(m * n, fmax(m * k, n * k));
  if (values * fmax(1, (double)row.topk) > 0x1p53)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: an operand has more than 2^53 values",
             reader->name, reader->line);
  return row;
}

/* Reads all rows of a table; those that are not predicted have a reason. */
const struct pz_ops_row *pz_silicon_read_csv(struct pz_call *call, const char *name,
                                             const struct pz_csv *csv) {
  struct silicon_reader reader = {.call = call, .name = name, .csv = csv};
  char list[700];
  if (!find_kind(&reader))
    pz_raise(call, PZ_BAD_INPUT, "%s:1: unknown columns; accepted: those of %s", name,
             pz_silicon_accepted(list, sizeof list));
  check_columns(&reader);
  struct pz_ops_row *rows = pz_alloc(call, csv->rows, sizeof *rows);
  for (uint32_t i = 0; i < csv->rows; i++) rows[i] = read_row(&reader, i);
  return rows;
}
