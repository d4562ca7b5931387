/* Tables of single operators: the operators that are known, the reader of a table, and the
 * predicted time of a row.
 *
 * Each operator of a table has a form (enum form), which says how its row is read and which part of
 * the cost model predicts it: GEMMs by the mapper, attention, scans, vector operators and
 * collectives by their own models.  Benchmarks call an operator in a loop, so that data that fits
 * in the global buffer is read from there; the models take this into account where they are told
 * that the data are warm.  Nothing in this file is fitted. */
#include "cost/ops_table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "cost/attention.h"
#include "cost/constants.h"
#include "cost/experts.h"
#include "cost/formats.h"
#include "cost/grouped.h"
#include "cost/network.h"
#include "cost/scan.h"
#include "workload/op.h"

/* ---- operators ------------------------------------------------------------------------------- */

enum form {
  GEMM,
  FP8_GEMM,
  FP8_LINEAR,       /* an fp8 GEMM with the cast of its activations, whose scale is found first */
  FP8_BLOCK_LINEAR, /* an fp8 GEMM with a cast to one scale for each block of activations */
  NVFP4_LINEAR,     /* a 4-bit GEMM with the cast of its activations */
  GROUPED_GEMM,
  EXPERTS,
  COLLECTIVE,
  DISPATCH, /* tokens are sent to their experts, or (PZ_BACKWARD) back and summed */
  ATTENTION,
  LIBRARY_ATTENTION,
  SERVED_ATTENTION, /* keys and values are written to a paged cache first */
  LATENT_ATTENTION, /* multi-head latent attention; its latent vector is written to the cache */
  SCAN,
  SCAN_STEP, /* a scan of one token, which reads and writes the state */
  CONV,
  CONV_CHANNELS, /* a convolution with one thread block for each channel of a sample */
  CONV_STEP,     /* a convolution of one token, which shifts the tokens before it */
  VECTOR,        /* from here on element-wise operators */
  SWIGLU,
  ADAMW
};

static const struct operator_info {
  const char *name; /* name of the operator in tables */
  enum form form;
  int kind;                    /* enum pz_op_kind or enum pz_collective */
  enum pz_direction direction; /* of vector operators and attention; backward DISPATCH is combine */
  double bytes;                /* bytes moved for each value with 16-bit operands */
  const char *kernel;          /* kernel of the calibration, as pz_ops_kernel() returns it */
  const char *library;         /* library of attention */
  bool silicon_only;           /* occurs only in the tables of cost/silicon_table.h */
} operators[] = {
    {"gemm", GEMM, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"gemm_fwd", GEMM, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"gemm_dgrad", GEMM, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"gemm_wgrad", GEMM, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"bmm", GEMM, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"bmm_qk", GEMM, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"bmm_av", GEMM, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"fp8_gemm", FP8_GEMM, PZ_OP_MATMUL, PZ_FORWARD, 0, NULL, NULL, false},
    {"grouped_gemm", GROUPED_GEMM, PZ_OP_MATMUL, PZ_FORWARD, 0, "grouped", NULL, false},
    {"flash_causal", ATTENTION, PZ_OP_ATTENTION, PZ_FORWARD, 0, "attention", NULL, false},
    {"flash_fwd", LIBRARY_ATTENTION, PZ_OP_ATTENTION, PZ_FORWARD, 0, "attention_fa2", "fa2", false},
    {"flash_bwd", LIBRARY_ATTENTION, PZ_OP_ATTENTION, PZ_BACKWARD, 0, "attention_fa2_bwd", "fa2",
     false},
    {"cudnn_fwd", LIBRARY_ATTENTION, PZ_OP_ATTENTION, PZ_FORWARD, 0, "attention_cudnn", "cudnn",
     false},
    {"cudnn_bwd", LIBRARY_ATTENTION, PZ_OP_ATTENTION, PZ_BACKWARD, 0, "attention_cudnn_bwd",
     "cudnn", false},
    {"softmax", VECTOR, PZ_OP_SOFTMAX, PZ_FORWARD, 4, "softmax", NULL, false},
    {"softmax_fwd", VECTOR, PZ_OP_SOFTMAX, PZ_FORWARD, 4, "softmax", NULL, false},
    {"softmax_bwd", VECTOR, PZ_OP_SOFTMAX, PZ_BACKWARD, 6, "softmax_bwd", NULL, false},
    {"layernorm", VECTOR, PZ_OP_LAYERNORM, PZ_FORWARD, 4, "layernorm", NULL, false},
    {"layernorm_fwd", VECTOR, PZ_OP_LAYERNORM, PZ_FORWARD, 4, "layernorm", NULL, false},
    {"layernorm_bwd", VECTOR, PZ_OP_LAYERNORM, PZ_BACKWARD, 6, "layernorm_bwd", NULL, false},
    {"rmsnorm", VECTOR, PZ_OP_RMSNORM, PZ_FORWARD, 4, "rmsnorm", NULL, false},
    {"rmsnorm_fwd", VECTOR, PZ_OP_RMSNORM, PZ_FORWARD, 4, "rmsnorm", NULL, false},
    {"rmsnorm_bwd", VECTOR, PZ_OP_RMSNORM, PZ_BACKWARD, 6, "rmsnorm_bwd", NULL, false},
    {"gelu", VECTOR, PZ_OP_GELU, PZ_FORWARD, 4, "gelu", NULL, false},
    {"gelu_fwd", VECTOR, PZ_OP_GELU, PZ_FORWARD, 4, "gelu_tanh", NULL, false},
    {"gelu_bwd", VECTOR, PZ_OP_GELU, PZ_BACKWARD, 6, "gelu_tanh_bwd", NULL, false},
    {"silu", VECTOR, PZ_OP_SILU, PZ_FORWARD, 4, "silu", NULL, false},
    {"silu_fwd", VECTOR, PZ_OP_SILU, PZ_FORWARD, 4, "silu", NULL, false},
    {"silu_bwd", VECTOR, PZ_OP_SILU, PZ_BACKWARD, 6, "silu_bwd", NULL, false},
    {"silu_mul", SWIGLU, PZ_OP_SILU, PZ_FORWARD, 4, NULL, NULL, false},
    {"silu_mul_fwd", SWIGLU, PZ_OP_SILU, PZ_FORWARD, 4, NULL, NULL, false},
    {"silu_mul_bwd", SWIGLU, PZ_OP_SILU, PZ_BACKWARD, 6, NULL, NULL, false},
    {"relu", VECTOR, PZ_OP_RELU, PZ_FORWARD, 4, "relu", NULL, false},
    {"relu_fwd", VECTOR, PZ_OP_RELU, PZ_FORWARD, 4, "relu", NULL, false},
    {"relu_bwd", VECTOR, PZ_OP_RELU, PZ_BACKWARD, 6, "relu_bwd", NULL, false},
    {"add", VECTOR, PZ_OP_ADD, PZ_FORWARD, 6, "add", NULL, false},
    {"add_fwd", VECTOR, PZ_OP_ADD, PZ_FORWARD, 6, "add", NULL, false},
    {"mul", VECTOR, PZ_OP_MUL, PZ_FORWARD, 6, "mul", NULL, false},
    {"dropout", VECTOR, PZ_OP_DROPOUT, PZ_FORWARD, 5, "dropout", NULL, false},
    {"dropout_fwd", VECTOR, PZ_OP_DROPOUT, PZ_FORWARD, 5, "dropout", NULL, false},
    {"transpose_copy", VECTOR, PZ_OP_COPY, PZ_FORWARD, 4, "copy", NULL, false},
    {"permute", VECTOR, PZ_OP_DISPATCH, PZ_FORWARD, 4, "dispatch", NULL, false},
    {"fp8_cast", VECTOR, PZ_OP_CAST, PZ_FORWARD, 13, "fp8_cast", NULL, false},
    {"embedding", VECTOR, PZ_OP_EMBEDDING, PZ_FORWARD, 4, "embedding", NULL, false},
    {"cross_entropy", VECTOR, PZ_OP_CROSS_ENTROPY, PZ_FORWARD, 2, "cross_entropy", NULL, false},
    {"cross_entropy_fp32_fwd", VECTOR, PZ_OP_CROSS_ENTROPY, PZ_FORWARD, 14, "cross_entropy", NULL,
     false},
    {"cross_entropy_fp32_bwd", VECTOR, PZ_OP_CROSS_ENTROPY, PZ_BACKWARD, 10, "cross_entropy_bwd",
     NULL, false},
    {"adamw_fp32", ADAMW, PZ_OP_ADD, PZ_FORWARD, 28, "adamw", NULL, false},
    {"fp8_linear", FP8_LINEAR, PZ_OP_MATMUL, PZ_FORWARD, 0, NULL, NULL, true},
    {"fp8_block_linear", FP8_BLOCK_LINEAR, PZ_OP_MATMUL, PZ_FORWARD, 0, NULL, NULL, true},
    {"nvfp4_linear", NVFP4_LINEAR, PZ_OP_MATMUL, PZ_FORWARD, 0, NULL, NULL, true},
    {"experts", EXPERTS, PZ_OP_MATMUL, PZ_FORWARD, 0, "experts", NULL, true},
    {"experts_fp8", EXPERTS, PZ_OP_MATMUL, PZ_FORWARD, 0, "experts", NULL, true},
    {"experts_fp8_block", EXPERTS, PZ_OP_MATMUL, PZ_FORWARD, 0, NULL, NULL, true},
    {"prefill", SERVED_ATTENTION, PZ_OP_ATTENTION, PZ_FORWARD, 0, "attention", NULL, true},
    {"mla_prefill", LATENT_ATTENTION, PZ_OP_ATTENTION, PZ_FORWARD, 0, "attention", NULL, true},
    {"encoder", LIBRARY_ATTENTION, PZ_OP_ATTENTION, PZ_FORWARD, 0, "attention", NULL, true},
    {"ssm_scan", SCAN, PZ_OP_SSM_SCAN, PZ_FORWARD, 0, NULL, NULL, true},
    {"delta_rule", SCAN, PZ_OP_DELTA_RULE, PZ_FORWARD, 0, NULL, NULL, true},
    {"delta_rule_step", SCAN_STEP, PZ_OP_DELTA_RULE, PZ_FORWARD, 8, NULL, NULL, true},
    {"conv1d", CONV, PZ_OP_CONV1D, PZ_FORWARD, 4, NULL, NULL, true},
    {"conv1d_rows", CONV_CHANNELS, PZ_OP_CONV1D, PZ_FORWARD, 4, NULL, NULL, true},
    {"conv1d_step", CONV_STEP, PZ_OP_CONV1D, PZ_FORWARD, 4, NULL, NULL, true},
    {"all_reduce", COLLECTIVE, PZ_COLLECTIVE_ALL_REDUCE, PZ_FORWARD, 0, "link", NULL, true},
    {"all_gather", COLLECTIVE, PZ_COLLECTIVE_ALL_GATHER, PZ_FORWARD, 0, "link", NULL, true},
    {"reduce_scatter", COLLECTIVE, PZ_COLLECTIVE_REDUCE_SCATTER, PZ_FORWARD, 0, "link", NULL, true},
    {"alltoall", COLLECTIVE, PZ_COLLECTIVE_ALL_TO_ALL, PZ_FORWARD, 0, "link", NULL, true},
    {"dispatch", DISPATCH, PZ_OP_ALL_TO_ALL, PZ_FORWARD, 1 + 4.0 / 128, NULL, NULL, true},
    {"combine", DISPATCH, PZ_OP_ALL_TO_ALL, PZ_BACKWARD, 2, NULL, NULL, true},
};
enum { OPERATORS = sizeof operators / sizeof *operators };

const char *pz_ops_name(uint32_t op) { return op < OPERATORS ? operators[op].name : NULL; }

uint32_t pz_ops_find(const char *name) {
  uint32_t op = 0;
  while (strcmp(operators[op].name, name) != 0) op++;
  return op;
}

bool pz_ops_is_elementwise(uint32_t op) { return operators[op].form >= VECTOR; }

/* Attention libraries: the part of a kernel's name that identifies the library in tables, the name
 * of the library, and its kernel in a calibration. */
static const struct {
  const char *part, *name, *kernel;
} libraries[] = {{"fa4", "fa4", "attention_fa4"},
                 {"fa3", "fa3", "attention_fa3"},
                 {"fa2", "fa2", "attention_fa2"},
                 {"trtllm", "trtllm", "attention_trtllm"}};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

/* Returns the attention library that a kernel's name contains, or NULL. */
const char *pz_ops_library(const char *kernel) {
  for (int i = 0; i < LIBRARIES; i++)
    if (strstr(kernel, libraries[i].part)) return libraries[i].name;
  return NULL;
}

/* Returns the kernel of the calibration that determines the time of a row. */
const char *pz_ops_kernel(const struct pz_ops_row *row) {
  for (int i = 0; i < LIBRARIES && row->library; i++)
    if (strcmp(row->library, libraries[i].name) == 0) return libraries[i].kernel;
  return operators[row->op].kernel;
}

/* Returns the reason why a chip cannot run a row, or NULL if it can. */
const char *pz_ops_not_on(const struct pz_chip *chip, const struct pz_ops_row *row) {
  const struct operator_info *op = &operators[row->op];
  bool is_fp8 = op->form == FP8_GEMM || op->form == FP8_LINEAR || op->form == FP8_BLOCK_LINEAR ||
                (op->form == EXPERTS && strcmp(op->name, "experts") != 0);
  bool is_network = op->form == COLLECTIVE || op->form == DISPATCH;
  struct pz_cluster net;
  if (is_fp8 && pz_chip_can_run(chip, PZ_PRECISION_FP8, NULL) != PZ_OK)
    return "the chip does not multiply 8-bit values";
  if (op->form == NVFP4_LINEAR && pz_chip_can_run(chip, PZ_PRECISION_NVFP4, NULL) != PZ_OK)
    return "the chip does not multiply 4-bit values";
  if (op->form == DISPATCH && chip->execution != PZ_CHIP_STREAM) return "DeepEP runs on GPUs";
  if (is_network && !(chip->link_bytes_per_s > 0)) return "the chip has no link";
  if (is_network && row->nodes > 1 && !pz_cluster_standard(chip->name, &net))
    return "no network between nodes of this chip is known";
  return NULL;
}

/* Describes a row for people: its operator and sizes. */
const char *pz_ops_describe(struct pz_call *call, const struct pz_ops_row *row) {
  const struct operator_info *op = &operators[row->op];
  const char *name = op->name;
  long long b = row->batch, m = row->m, n = row->n, k = row->k;
  switch (op->form) {
  case COLLECTIVE: return pz_format(call, "%s of %lld bytes, %lld devices", name, n, b);
  case DISPATCH:
    return pz_format(
        call, "%s of %lld tokens of %lld, top %lld, %lld devices on %lld nodes, %lld cores", name,
        m, k, (long long)row->topk, b, (long long)row->nodes, (long long)row->sms);
  case EXPERTS:
    return pz_format(call, "%s: %lld tokens, %lld of %lld experts of %lld x %lld, tp %lld, ep %lld",
                     name, m, (long long)row->topk, b, k, n, (long long)row->tp,
                     (long long)row->ep);
  case SCAN:
  case SCAN_STEP:
    return pz_format(call, "%s of %lld x %lld tokens, %lld heads of %lld x %lld", name, b, m,
                     (long long)row->heads, n, k);
  default: break;
  }
  const char *text = pz_format(call, "%s %lld x %lld x %lld x %lld", name, b, m, n, k);
  if (row->heads)
    text = pz_format(call, "%s, heads=%lld;kv=%lld;causal=%d", text, (long long)row->heads,
                     (long long)row->kv_heads, row->causal);
  if (op->form == GROUPED_GEMM && row->largest)
    text = pz_format(call, "%s, skewed;max=%lld", text, (long long)row->largest);
  return text;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { OP, BATCH, M, N, K, EXTRA, COLUMNS };

static const char *const column_names[COLUMNS] = {"op", "batch", "m", "n", "k", "extra"};

struct ops_reader {
  struct pz_call *call;
  const char *name;
  const struct pz_csv *csv;
  uint32_t column[COLUMNS]; /* index of each column, or PZ_NONE if the table does not have it */
};

/* Returns the integer that `text` is, from `least` to 2^40.  Messages call it `field`. */
static int64_t read_size(const struct ops_reader *reader, uint32_t line, const char *field,
                         const char *text, int64_t least) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno || value < least || value > 1LL << 40)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: %s is '%.40s'; accepted: an integer from %d to 2^40", reader->name, line,
             field, text, (int)least);
  return value;
}

/* Reads one word of column `extra`: KEY=VALUE, or for a grouped GEMM "even" or "skewed". */
static void read_extra_word(const struct ops_reader *reader, const char *word,
                            struct pz_ops_row *row) {
  bool is_grouped = operators[row->op].form == GROUPED_GEMM;
  int64_t causal = row->causal;
  const struct {
    const char *key;
    bool of_grouped; /* of a grouped GEMM, or else of attention */
    int64_t least, *value;
  } keys[] = {{"heads", false, 1, &row->heads},
              {"kv", false, 1, &row->kv_heads},
              {"causal", false, 0, &causal},
              {"max", true, 1, &row->largest}};
  if (is_grouped && (strcmp(word, "even") == 0 || strcmp(word, "skewed") == 0)) return;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    size_t length = strlen(keys[i].key);
    bool has_key = strncmp(word, keys[i].key, length) == 0 && word[length] == '=';
    if (!has_key || keys[i].of_grouped != is_grouped) continue;
    char field[40];
    snprintf(field, sizeof field, "extra, %s", keys[i].key);
    *keys[i].value = read_size(reader, row->line, field, word + length + 1, keys[i].least);
    row->causal = causal != 0;
    return;
  }
  pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: column 'extra' has '%.40s'; accepted: %s",
           reader->name, row->line, word,
           is_grouped ? "even or skewed;max=TOKENS" : "heads=H;kv=H;causal=0 or 1");
}

/* Checks that the sizes of a row fit together and to its operator. */
static void check_row(const struct ops_reader *reader, const struct pz_ops_row *row) {
  const struct operator_info *op = &operators[row->op];
  double values = (double)row->batch * (double)row->m * (double)row->n;
  if (values > 0x1p53 || values * (double)row->heads > 0x1p53)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: batch x m x n is more than 2^53 values",
             reader->name, row->line);
  if (op->form == LIBRARY_ATTENTION && row->heads < 1)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: %s without heads; accepted: heads=H;kv=H;causal=0 or 1 in column 'extra'",
             reader->name, row->line, op->name);
  if (row->kv_heads > row->heads)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: kv is %lld; accepted: at most heads, %lld",
             reader->name, row->line, (long long)row->kv_heads, (long long)row->heads);
  if (op->form == GROUPED_GEMM && (row->batch > row->m || row->largest > row->m))
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: %lld experts, the largest of %lld tokens; accepted: at most m, %lld",
             reader->name, row->line, (long long)row->batch, (long long)row->largest,
             (long long)row->m);
}

/* Returns operator i of tables with a column `op`, or NULL after the last (a pz_name_at). */
static const char *table_operator_name(const void *ctx, size_t i) {
  (void)ctx;
  for (size_t op = 0; op < OPERATORS; op++) {
    if (operators[op].silicon_only) continue;
    if (i == 0) return operators[op].name;
    i--;
  }
  return NULL;
}

/* Reads row i: its operator, sizes, and column `extra`. */
static struct pz_ops_row read_row(const struct ops_reader *reader, uint32_t i) {
  const struct pz_csv *csv = reader->csv;
  const char *name = pz_csv_cell(csv, i, reader->column[OP]);
  struct pz_ops_row row = {.table = reader->name, .line = csv->lines[i]};
  while (row.op < OPERATORS &&
         (operators[row.op].silicon_only || strcmp(operators[row.op].name, name) != 0))
    row.op++;
  if (row.op == OPERATORS) {
    char list[1024];
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: unknown operator '%.40s'; accepted: %s",
             reader->name, row.line, name,
             pz_text_join(list, sizeof list, table_operator_name, NULL));
  }
  enum form form = operators[row.op].form;
  int64_t *const sizes[] = {NULL, &row.batch, &row.m, &row.n, &row.k};
  for (int c = BATCH; c <= K; c++) {
    char field[40];
    snprintf(field, sizeof field, "column '%s'", column_names[c]);
    int64_t least = c == K && pz_ops_is_elementwise(row.op) ? 0 : 1;
    *sizes[c] = read_size(reader, row.line, field, pz_csv_cell(csv, i, reader->column[c]), least);
  }
  bool has_extra = form == LIBRARY_ATTENTION || form == GROUPED_GEMM;
  if (has_extra && reader->column[EXTRA] != PZ_NONE) {
    const char *text = pz_csv_cell(csv, i, reader->column[EXTRA]);
    char words[128], *rest;
    if (strlen(text) >= sizeof words)
      pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: column 'extra' is longer than %d characters",
               reader->name, row.line, (int)sizeof words - 1);
    pz_text_copy(words, sizeof words, text);
    for (char *word = words; word && *word; word = rest) {
      rest = strchr(word, ';');
      if (rest) {
        *rest = '\0';
        rest++;
      }
      read_extra_word(reader, word, &row);
    }
  }
  if (row.kv_heads == 0) row.kv_heads = row.heads;
  check_row(reader, &row);
  return row;
}

struct pz_ops_row *pz_ops_read_csv(struct pz_call *call, const char *name,
                                   const struct pz_csv *csv) {
  struct ops_reader reader = {.call = call, .name = name, .csv = csv};
  for (int i = 0; i < COLUMNS; i++) {
    reader.column[i] = pz_csv_column(csv, column_names[i]);
    if (reader.column[i] == PZ_NONE && i == BATCH) reader.column[i] = pz_csv_column(csv, "b");
    if (reader.column[i] == PZ_NONE && i != EXTRA)
      pz_raise(call, PZ_BAD_INPUT,
               "%s:1: no column '%s'; accepted: a table with op, batch, m, n, k", name,
               column_names[i]);
  }
  struct pz_ops_row *rows = pz_alloc(call, csv->rows, sizeof *rows);
  for (uint32_t i = 0; i < csv->rows; i++) rows[i] = read_row(&reader, i);
  return rows;
}

/* Returns a measured time in microseconds from a cell in microseconds or milliseconds. */
double pz_ops_read_time(struct pz_call *call, const struct pz_ops_cell *cell, bool milliseconds) {
  char *end;
  double us = strtod(cell->text, &end) * (milliseconds ? 1e3 : 1);
  if (end == cell->text || *end || !(us >= 0.01 && us <= 1e9))
    pz_raise(call, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: %s", cell->table,
             cell->line, cell->column, cell->text,
             milliseconds ? "1e-5 to 1e6 milliseconds" : "0.01 to 1e9 microseconds");
  return us;
}

/* ---- predicting: seconds of one call of a benchmark loop ------------------------------------- */

/* Returns the seconds of attention, which reads queries, keys and values and writes its result, and
 * backward also reads and writes their gradients.  A row of form ATTENTION has its heads in the
 * batch.  Serving kernels first copy to the cache: keys and values, or the latent vector that all
 * heads share. */
static double attention_s(const struct pz_chip *chip, const struct pz_ops_row *row) {
  static const double LATENT_WIDTH = 576; /* 512, and 64 of the rotary part (DeepSeek-V3) */
  const struct operator_info *op = &operators[row->op];
  int64_t heads = op->form == ATTENTION ? 1 : row->heads;
  int64_t kv_heads = op->form == ATTENTION ? 1 : row->kv_heads;
  /* Forward, two tensors are as large as the queries and two as the keys; backward, twice as
   * many. */
  double tensors = op->direction == PZ_FORWARD ? 2 : 4;
  double bytes = 2 * tensors * (double)row->batch * (double)row->k *
                 ((double)heads * (double)row->m + (double)kv_heads * (double)row->n);
  double cached_width = 0;
  if (op->form == SERVED_ATTENTION) cached_width = 2 * (double)row->kv_heads * (double)row->k;
  if (op->form == LATENT_ATTENTION) cached_width = LATENT_WIDTH;
  struct pz_attention_work work = {.dims = {row->batch * heads, row->m, row->n, row->k},
                                   .direction = op->direction,
                                   .causal = op->form == ATTENTION || row->causal,
                                   .library = row->library ? row->library : op->library,
                                   .bytes = bytes * pz_cold_part(chip, bytes),
                                   .cache_bytes =
                                       4 * (double)row->batch * (double)row->m * cached_width};
  struct pz_estimate estimate;
  struct pz_work ignored;
  pz_attention_cost(chip, &work, &estimate, &ignored);
  return estimate.latency_s;
}

/* Returns the seconds of a scan.  Serving kernels begin and end with a state in fp32 for each
 * sample, which SGLang (delta rule) reads and writes: 8 bytes a value.  TensorRT-LLM (Mamba-2) is
 * taken to move three times these bytes for zeros and copies, because samples of one chunk take
 * longer than the chunks of long samples.  A token has two 16-bit tensors over the heads and two
 * over the groups of heads (4 bytes a value), and two decays of each head in fp32 (8 bytes). */
static double scan_s(const struct pz_chip *chip, const struct pz_ops_row *row) {
  const struct operator_info *op = &operators[row->op];
  double n = (double)row->n, k = (double)row->k, heads = (double)row->heads;
  double groups = (double)row->kv_heads, batch = (double)row->batch;
  bool is_delta_rule = op->kind == PZ_OP_DELTA_RULE;
  double token_bytes =
      4 * heads * (is_delta_rule ? n : k) + 4 * groups * (is_delta_rule ? k : n) + 8 * heads;
  double state_bytes = (is_delta_rule ? 8 : 24) * heads * n * k;
  struct pz_scan_work work = {.kind = op->kind,
                              .direction = op->direction,
                              .dims = {row->batch * row->heads, row->m, row->n, row->k},
                              .chunk = row->chunk,
                              .bytes = batch * ((double)row->m * token_bytes + state_bytes),
                              .warm = true,
                              .served = true};
  struct pz_scan_time time;
  pz_scan_time(chip, &work, &time);
  return time.startup_s + time.work_s;
}

/* Returns the seconds of a vector operator that moves `bytes` for each value.  Benchmarks call a
 * backward operator after its forward one, whose result, gradient and inputs displace a part of the
 * data from the global buffer.  This part is read from HBM. */
static double vector_s(const struct pz_chip *chip, const struct pz_ops_row *row, int kind,
                       enum pz_direction direction, double bytes) {
  const char *kernel = operators[row->op].kernel ? operators[row->op].kernel : "";
  double values = (double)row->batch * (double)row->m * (double)row->n;
  struct pz_vector_work work = {kind, direction, row->batch * row->m, row->n, values * bytes, true};
  struct pz_vector_time time;
  pz_vector_named(chip, kernel, &work, &time);
  if (direction == PZ_FORWARD) return time.latency_s;
  /* Between two calls, the forward operator writes its 16-bit result as well. */
  double warm_s = time.latency_s, cold = pz_cold_part(chip, values * (bytes + 2));
  work.warm = false;
  pz_vector_named(chip, kernel, &work, &time);
  return cold * time.latency_s + (1 - cold) * warm_s;
}

/* Returns the seconds of a causal convolution of width 4, or of one token of a scan, which reads
 * and writes the state in fp32.  On GPUs, a thread block also waits for loads that depend on each
 * other (waits: 1 for a whole block, less for a short one), and all blocks together take at least
 * blocks_s.  Data that are changed in place occupy the global buffer once rather than twice. */
static double state_kernel_s(const struct pz_chip *chip, const struct pz_ops_row *row) {
  static const int64_t WIDTH = 4; /* tokens that a convolution combines */
  /* tokens of a sample in a thread block: BLOCK_M of _causal_conv1d_fwd_kernel in vLLM */
  static const int64_t BLOCK_TOKENS = 8;
  const struct pz_constants *constants = &pz_constants_default;
  const struct operator_info *op = &operators[row->op];
  bool is_gpu = chip->execution == PZ_CHIP_STREAM;
  int64_t rows = row->batch * row->m, cols = row->n;
  double waits = fmin(1, (double)row->m / (double)BLOCK_TOKENS), blocks_s = 0;
  if (op->form == SCAN_STEP) {
    rows = row->batch * row->heads;
    cols = row->n * row->k;
    waits = 1;
  } else if (op->form == CONV_STEP) { /* moves the tokens before its one token too */
    rows = row->batch * WIDTH;
    waits = 0;
  } else if (op->form == CONV_CHANNELS && is_gpu) {
    double blocks = (double)row->batch * (double)row->n;
    blocks_s = blocks * (constants->conv_block / ((double)chip->vector.cores * chip->clock_hz));
  }
  double bytes = (double)rows * (double)cols * op->bytes;
  struct pz_vector_work work = {op->kind, op->direction, rows, cols, bytes, false};
  struct pz_vector_time time;
  pz_vector_time(chip, &work, &time);
  time.compute_s = fmax(time.compute_s, blocks_s);
  time.hbm_s *= pz_cold_part(chip, (op->form != CONV ? 0.5 : 1) * bytes);
  if (is_gpu) time.rows_s += waits * constants->state_block / chip->clock_hz;
  pz_vector_conclude(&time);
  return time.latency_s;
}

/* Returns the seconds of a collective, or of DeepEP, which dispatches 8-bit values with a 4-byte
 * scale for 128 of them and sends 16-bit sums back.  The network is one node of row->batch devices
 * joined by the chip's link, or the standard cluster of the chip. */
static double network_s(struct pz_call *call, const struct pz_chip *chip,
                        const struct pz_ops_row *row) {
  const struct operator_info *op = &operators[row->op];
  if (!(chip->link_bytes_per_s > 0))
    pz_raise(call, PZ_BAD_INPUT, "%s:%u: chip %s has no link; accepted: one with a link",
             row->table, row->line, chip->name);
  struct pz_cluster net = pz_cluster_flat(row->batch, chip->link_bytes_per_s, chip->link_latency_s);
  if (row->nodes > 1 && !pz_cluster_standard(chip->name, &net))
    pz_raise(call, PZ_BAD_INPUT,
             "%s:%u: no cluster of chip %s is known; accepted: rows of one node", row->table,
             row->line, chip->name);
  net.level[0].collectives = chip->collectives;
  struct pz_group group = {row->batch, 1};
  enum pz_collective kind = (enum pz_collective)op->kind;
  if (op->form == COLLECTIVE)
    return pz_network_time(&pz_constants_default, &net, kind, (double)row->n, group).s;
  struct pz_dispatch dispatch = {.dispatcher = PZ_DISPATCHER_DEEPEP,
                                 .combine = op->direction == PZ_BACKWARD,
                                 .tokens = (double)row->m,
                                 .token_bytes = op->bytes * (double)row->k,
                                 .experts = (double)row->topk,
                                 .cores = (double)row->sms,
                                 .group = group};
  return pz_dispatch_time(&pz_constants_default, &net, &dispatch).s;
}

/* Returns the seconds of a GEMM of any format, with the cast of activations in a linear layer. */
static double gemm_s(struct pz_call *call, struct pz_cost *cost, const struct pz_ops_row *row) {
  struct pz_product product = {row->batch, row->m, row->n, row->k, true};
  struct pz_grouped grouped = {row->batch, row->m, row->n, row->k, row->largest, true, NULL};
  struct pz_mapping mapping;
  double macs = (double)row->m * (double)row->n * (double)row->k;
  enum form form = operators[row->op].form;
  if (form == GEMM) {
    mapping = pz_estimate_product(call, cost, &cost->chip, &product);
    pz_cost_within_watts(&cost->power, &cost->chip, (double)row->batch * macs, PZ_FORMAT_16BIT,
                         &mapping);
    return mapping.latency_s;
  }
  if (form == GROUPED_GEMM) {
    mapping = pz_estimate_grouped(call, cost, &cost->chip, &grouped);
    pz_cost_within_watts(&cost->power, &cost->chip, macs, PZ_FORMAT_16BIT, &mapping);
    return mapping.latency_s;
  }
  enum pz_format format = PZ_FORMAT_FP8_CURRENT;
  if (form == FP8_BLOCK_LINEAR) format = PZ_FORMAT_FP8_BLOCK;
  if (form == NVFP4_LINEAR) format = PZ_FORMAT_NVFP4;
  mapping = pz_estimate_narrow_product(call, cost, format, &product);
  struct pz_vector_time cast = {0};
  if (form != FP8_GEMM) pz_cost_serving_cast(&cost->chip, format, row->m, row->k, &cast);
  return mapping.latency_s + cast.latency_s;
}

/* Returns the microseconds of an operator in a benchmark loop. */
double pz_ops_predicted_us(struct pz_call *call, struct pz_cost *cost,
                           const struct pz_ops_row *row) {
  const struct pz_chip *chip = &cost->chip;
  const struct operator_info *op = &operators[row->op];
  double s = 0;
  switch (op->form) {
  case ATTENTION:
  case LIBRARY_ATTENTION:
  case SERVED_ATTENTION:
  case LATENT_ATTENTION: s = attention_s(chip, row); break;
  case EXPERTS: {
    bool is_fp8 = strcmp(op->name, "experts") != 0;
    struct pz_experts_work work = {row->m,  row->k,  row->n,    row->topk,  row->batch,
                                   row->tp, row->ep, row->skew, row->gated, is_fp8};
    s = pz_experts_s(call, cost, &work);
    break;
  }
  case COLLECTIVE:
  case DISPATCH: s = network_s(call, chip, row); break;
  case SCAN: s = scan_s(chip, row); break;
  case SCAN_STEP:
  case CONV:
  case CONV_CHANNELS:
  case CONV_STEP: s = state_kernel_s(chip, row); break;
  case VECTOR: s = vector_s(chip, row, op->kind, op->direction, op->bytes); break;
  case SWIGLU: { /* silu(x) * y in two kernels, and one more multiplication backward */
    double multiplications = op->direction == PZ_FORWARD ? 1 : 2;
    static const double MUL_BYTES = 6; /* two 16-bit values read, one written */
    s = multiplications * vector_s(chip, row, PZ_OP_MUL, PZ_FORWARD, MUL_BYTES) +
        vector_s(chip, row, PZ_OP_SILU, op->direction, op->bytes);
    break;
  }
  case ADAMW: {
    struct pz_estimate estimate;
    pz_cost_optimizer(chip, (double)row->m * (double)row->n, op->bytes, &estimate);
    s = estimate.latency_s;
    break;
  }
  default: s = gemm_s(call, cost, row);
  }
  if (row->alone) s += pz_constants_default.graph_s;
  return s * 1e6;
}

/* ---- the public function --------------------------------------------------------------------- */

struct cost_table_args {
  struct pz_cost *cost;
  const char *name, *text;
  size_t bytes;
  struct pz_op_times **out;
};

/* The body of pz_cost_table(): predicts every row of a table. */
static void predict_table(struct pz_call *call, void *ctx) {
  const struct cost_table_args *args = ctx;
  struct pz_call own;
  pz_require(call, args->cost, "cost");
  pz_require(call, args->name, "name");
  pz_require(call, args->text, "text");
  pz_require(call, args->out, "out");
  struct pz_op_times *times = pz_object_new(call, sizeof *times, &own);
  const struct pz_csv *csv = pz_csv_read(call, args->name, args->text, args->bytes);
  if (pz_csv_column(csv, "predicted_us") != PZ_NONE)
    pz_raise(call, PZ_BAD_INPUT, "%s:1: the column 'predicted_us' already exists", args->name);
  const struct pz_ops_row *rows = pz_ops_read_csv(call, args->name, csv);
  times->rows = pz_alloc(&own, csv->rows, sizeof *times->rows);
  times->n_rows = csv->rows;
  for (uint32_t i = 0; i < csv->rows; i++) {
    const struct pz_ops_row *row = &rows[i];
    double us = pz_ops_predicted_us(call, args->cost, row);
    times->rows[i] =
        (struct pz_op_time){pz_ops_name(row->op), row->batch, row->m, row->n, row->k, us, row->us};
  }
  *args->out = pz_object_keep(call, times);
}

enum pz_status pz_cost_table(struct pz_cost *cost, const char *name, const char *text, size_t bytes,
                             struct pz_op_times **out, struct pz_error *err) {
  struct cost_table_args args = {cost, name, text, bytes, out};
  return pz_border(predict_table, &args, err);
}

void pz_op_times_free(struct pz_op_times *times) { pz_object_free(times); }
