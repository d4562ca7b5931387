#include "cost/ops_table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/held.h"
#include "core/text.h"
#include "cost/attention.h"
#include "cost/constants.h"
#include "cost/experts.h"
#include "cost/formats.h"
#include "cost/grouped.h"
#include "cost/network.h"
#include "cost/scan.h"
#include "workload/op.h"

/* ---- the operators -------------------------------------------------------------------------- */

enum form {
  PRODUCT,
  FP8_PRODUCT,
  FP8_LINEAR,       /* a scale of the activations is found, and they are cast first */
  FP8_BLOCK_LINEAR, /* the same by blocks, in one pass */
  NVFP4_LINEAR,     /* the same in 4 bit */
  GROUPED,
  EXPERTS,
  COLLECTIVE,
  DISPATCH, /* tokens to their experts, or (PZ_BACKWARD) back and added up */
  ATTENTION,
  LIBRARY_ATTENTION,
  SERVED_ATTENTION, /* keys and values are written to a paged cache first */
  LATENT_ATTENTION, /* the same, of the latent vector of all heads */
  SCAN,
  SCAN_STEP, /* of one token: a state is read and written */
  CONV,
  CONV_ROWS, /* a block of threads for each channel of a sample, whose tokens lie side by side */
  CONV_STEP, /* of one token: those before it are read and written */
  VECTOR,
  SWIGLU,
  ADAMW
};

/* Operators by the names tables use; kind: enum pz_op_kind, or pz_collective; bytes a value of them
 * moves at 16 bit; kernel: see pz_ops_kernel; library: of attention. */
static const struct known {
  const char *name;
  enum form form;
  int kind;
  enum pz_direction direction;
  double bytes;
  const char *kernel, *library;
  bool silicon; /* only in the tables of silicon_table.h */
} known[] = {
    {"gemm", PRODUCT, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"gemm_fwd", PRODUCT, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"gemm_dgrad", PRODUCT, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"gemm_wgrad", PRODUCT, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"bmm", PRODUCT, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"bmm_qk", PRODUCT, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"bmm_av", PRODUCT, PZ_OP_MATMUL, PZ_FORWARD, 0, "", NULL, false},
    {"fp8_gemm", FP8_PRODUCT, PZ_OP_MATMUL, PZ_FORWARD, 0, NULL, NULL, false},
    {"grouped_gemm", GROUPED, PZ_OP_MATMUL, PZ_FORWARD, 0, "grouped", NULL, false},
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
    {"conv1d_rows", CONV_ROWS, PZ_OP_CONV1D, PZ_FORWARD, 4, NULL, NULL, true},
    {"conv1d_step", CONV_STEP, PZ_OP_CONV1D, PZ_FORWARD, 4, NULL, NULL, true},
    {"all_reduce", COLLECTIVE, PZ_COLLECTIVE_ALL_REDUCE, PZ_FORWARD, 0, "link", NULL, true},
    {"all_gather", COLLECTIVE, PZ_COLLECTIVE_ALL_GATHER, PZ_FORWARD, 0, "link", NULL, true},
    {"reduce_scatter", COLLECTIVE, PZ_COLLECTIVE_REDUCE_SCATTER, PZ_FORWARD, 0, "link", NULL, true},
    {"alltoall", COLLECTIVE, PZ_COLLECTIVE_ALL_TO_ALL, PZ_FORWARD, 0, "link", NULL, true},
    {"dispatch", DISPATCH, PZ_OP_ALL_TO_ALL, PZ_FORWARD, 1 + 4.0 / 128, NULL, NULL, true},
    {"combine", DISPATCH, PZ_OP_ALL_TO_ALL, PZ_BACKWARD, 2, NULL, NULL, true},
};
enum { KNOWN = sizeof known / sizeof *known };

/* Of tables with a column `op`: the i-th. */
static const char *own_name(const void *ctx, size_t i) {
  (void)ctx;
  size_t op = 0;
  for (; op < KNOWN; op++)
    if (!known[op].silicon && i-- == 0) break;
  return op < KNOWN ? known[op].name : NULL;
}

const char *pz_ops_name(uint32_t op) { return op < KNOWN ? known[op].name : NULL; }

uint32_t pz_ops_find(const char *name) {
  uint32_t op = 0;
  while (strcmp(known[op].name, name) != 0) op++;
  return op;
}

bool pz_ops_elementwise(uint32_t op) { return known[op].form >= VECTOR; }

/* Libraries of attention: what their kernels have in their names, as tables tell them, and the
 * kernel of a calibration. */
static const struct {
  const char *part, *name, *kernel;
} libraries[] = {{"fa4", "fa4", "attention_fa4"},
                 {"fa3", "fa3", "attention_fa3"},
                 {"fa2", "fa2", "attention_fa2"},
                 {"trtllm", "trtllm", "attention_trtllm"}};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

const char *pz_ops_library(const char *kernel) {
  for (int i = 0; i < LIBRARIES; i++)
    if (strstr(kernel, libraries[i].part)) return libraries[i].name;
  return NULL;
}

const char *pz_ops_kernel(const struct pz_ops_row *row) {
  for (int i = 0; i < LIBRARIES && row->library; i++)
    if (strcmp(row->library, libraries[i].name) == 0) return libraries[i].kernel;
  return known[row->op].kernel;
}

/* ---- reading -------------------------------------------------------------------------------- */

enum { OP, BATCH, M, N, K, EXTRA, COLUMNS };

struct reader {
  const char *name;
  const struct pz_csv *csv;
  uint32_t at[COLUMNS];
  char where[300]; /* the row being read */
  struct pz_error *err;
};

static enum pz_status find_columns(struct reader *r) {
  static const char *const heads[] = {"op", "batch", "m", "n", "k", "extra"};
  for (int i = 0; i < COLUMNS; i++) {
    r->at[i] = pz_csv_column(r->csv, heads[i]);
    if (r->at[i] == PZ_NONE && i == BATCH) r->at[i] = pz_csv_column(r->csv, "b");
    if (r->at[i] == PZ_NONE && i != EXTRA)
      return pz_fail(r->err, PZ_BAD_INPUT,
                     "%s:1: no column '%s'; accepted: a table with op, batch, m, n, k", r->name,
                     heads[i]);
  }
  return PZ_OK;
}

static enum pz_status read_size(const struct reader *r, const char *what, const char *text,
                                int64_t least, int64_t *out) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (end == text || *end || errno || v < least || v > 1LL << 40)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: %s is '%.40s'; accepted: an integer from %d to 2^40",
                   r->where, what, text, (int)least);
  *out = v;
  return PZ_OK;
}

/* One KEY=VALUE of column extra; false: a word without a value. */
static enum pz_status read_extra_word(const struct reader *r, const char *word,
                                      struct pz_ops_row *row) {
  static const char *const attention[] = {"heads=", "kv=", "causal="}, *const expert[] = {"max="};
  int64_t causal = row->causal;
  int64_t *const values[] = {&row->heads, &row->kv_heads, &causal};
  bool grouped = known[row->op].form == GROUPED;
  if (grouped && (strcmp(word, "even") == 0 || strcmp(word, "skewed") == 0)) return PZ_OK;
  for (size_t i = 0; i < (grouped ? 1 : 3); i++) {
    const char *key = grouped ? expert[i] : attention[i];
    size_t n = strlen(key);
    if (strncmp(word, key, n) != 0) continue;
    char what[40];
    snprintf(what, sizeof what, "extra, %.*s", (int)n - 1, key);
    enum pz_status status =
        read_size(r, what, word + n, i < 2, grouped ? &row->largest : values[i]);
    row->causal = causal != 0;
    return status;
  }
  return pz_fail(r->err, PZ_BAD_INPUT, "%s: column 'extra' has '%.40s'; accepted: %s", r->where,
                 word, grouped ? "even or skewed;max=TOKENS" : "heads=H;kv=H;causal=0 or 1");
}

static enum pz_status read_extra(const struct reader *r, const char *text, struct pz_ops_row *row) {
  char copy[128];
  enum pz_status status = PZ_OK;
  if (strlen(text) >= sizeof copy)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: column 'extra' is longer than %d characters",
                   r->where, (int)sizeof copy - 1);
  pz_text_copy(copy, sizeof copy, text);
  for (char *word = copy, *next; word && *word && status == PZ_OK; word = next) {
    next = strchr(word, ';');
    if (next) *next++ = '\0';
    status = read_extra_word(r, word, row);
  }
  return status;
}

/* What the form of the operator asks of a row. */
static enum pz_status check_row(const struct reader *r, const struct pz_ops_row *row) {
  enum form form = known[row->op].form;
  double values = (double)row->batch * (double)row->m * (double)row->n;
  if (values > 0x1p53 || values * (double)row->heads > 0x1p53)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: batch x m x n is more than 2^53 values", r->where);
  if (form == LIBRARY_ATTENTION && row->heads < 1)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: %s without heads; accepted: heads=H;kv=H;causal=0 or 1 in column 'extra'",
                   r->where, known[row->op].name);
  if (row->kv_heads > row->heads)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: kv is %lld; accepted: at most heads, %lld", r->where,
                   (long long)row->kv_heads, (long long)row->heads);
  if (form == GROUPED && (row->batch > row->m || row->largest > row->m))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: %lld experts, the largest of %lld tokens; accepted: at most m, %lld",
                   r->where, (long long)row->batch, (long long)row->largest, (long long)row->m);
  return PZ_OK;
}

static enum pz_status read_row(struct reader *r, uint32_t i, struct pz_ops_row *row) {
  static const char *const what[] = {"", "column 'batch'", "column 'm'", "column 'n'",
                                     "column 'k'"};
  const char *op = pz_csv_cell(r->csv, i, r->at[OP]);
  char list[1024];
  *row = (struct pz_ops_row){.table = r->name, .line = r->csv->lines[i]};
  int64_t *const size[] = {NULL, &row->batch, &row->m, &row->n, &row->k};
  snprintf(r->where, sizeof r->where, "%.250s:%u", r->name, row->line);
  while (row->op < KNOWN && (known[row->op].silicon || strcmp(known[row->op].name, op) != 0))
    row->op++;
  if (row->op == KNOWN)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: unknown operator '%.40s'; accepted: %s", r->where, op,
                   pz_text_join(list, sizeof list, own_name, NULL));
  enum form form = known[row->op].form;
  enum pz_status status = PZ_OK;
  for (int c = BATCH; c <= K && status == PZ_OK; c++)
    status = read_size(r, what[c], pz_csv_cell(r->csv, i, r->at[c]),
                       c == K && form >= VECTOR ? 0 : 1, size[c]);
  bool extra = r->at[EXTRA] != PZ_NONE && (form == LIBRARY_ATTENTION || form == GROUPED);
  if (status == PZ_OK && extra) status = read_extra(r, pz_csv_cell(r->csv, i, r->at[EXTRA]), row);
  if (row->kv_heads == 0) row->kv_heads = row->heads;
  return status == PZ_OK ? check_row(r, row) : status;
}

enum pz_status pz_ops_read(const char *name, const struct pz_csv *csv, struct pz_arena *arena,
                           const struct pz_ops_row **rows, struct pz_error *err) {
  struct reader r = {.name = name, .csv = csv, .err = err};
  struct pz_ops_row *out = pz_arena_alloc(arena, csv->rows, sizeof *out);
  if (!out) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  enum pz_status status = find_columns(&r);
  for (uint32_t i = 0; i < csv->rows && status == PZ_OK; i++) status = read_row(&r, i, &out[i]);
  if (status == PZ_OK) *rows = out;
  return status;
}

enum pz_status pz_ops_read_us(const char *where, const char *column, const char *text,
                              bool milliseconds, double *us, struct pz_error *err) {
  char *end;
  double v = strtod(text, &end) * (milliseconds ? 1e3 : 1);
  if (end == text || *end || !(v >= 0.01 && v <= 1e9))
    return pz_fail(err, PZ_BAD_INPUT, "%s: column '%s' is '%.40s'; accepted: %s", where, column,
                   text, milliseconds ? "1e-5 to 1e6 milliseconds" : "0.01 to 1e9 microseconds");
  *us = v;
  return PZ_OK;
}

const char *pz_ops_text(const struct pz_ops_row *row, struct pz_arena *arena) {
  const struct known *op = &known[row->op];
  const char *name = op->name;
  long long b = row->batch, m = row->m, n = row->n, k = row->k;
  if (op->form == COLLECTIVE)
    return pz_arena_printf(arena, "%s of %lld bytes, %lld devices", name, n, b);
  if (op->form == DISPATCH)
    return pz_arena_printf(
        arena, "%s of %lld tokens of %lld, top %lld, %lld devices on %lld nodes, %lld cores", name,
        m, k, (long long)row->topk, b, (long long)row->nodes, (long long)row->sms);
  if (op->form == EXPERTS)
    return pz_arena_printf(
        arena, "%s: %lld tokens, %lld of %lld experts of %lld x %lld, tp %lld, ep %lld", name, m,
        (long long)row->topk, b, k, n, (long long)row->tp, (long long)row->ep);
  if (op->form == SCAN || op->form == SCAN_STEP)
    return pz_arena_printf(arena, "%s of %lld x %lld tokens, %lld heads of %lld x %lld", name, b, m,
                           (long long)row->heads, n, k);
  const char *text = pz_arena_printf(arena, "%s %lld x %lld x %lld x %lld", name, b, m, n, k);
  if (text && row->heads)
    text = pz_arena_printf(arena, "%s, heads=%lld;kv=%lld;causal=%d", text, (long long)row->heads,
                           (long long)row->kv_heads, row->causal);
  if (text && op->form == GROUPED && row->largest)
    text = pz_arena_printf(arena, "%s, skewed;max=%lld", text, (long long)row->largest);
  return text;
}

/* ---- predicting ----------------------------------------------------------------------------- */

/* Values of a token in the cache of latent attention: 512, and 64 of the rotary part (DeepSeek-V3). */
static const double LATENT = 576;

static double attention_s(const struct pz_chip *c, const struct pz_ops_row *row) {
  const struct known *op = &known[row->op];
  int64_t heads = op->form == ATTENTION ? 1 : row->heads;
  int64_t kv = op->form == ATTENTION ? 1 : row->kv_heads;
  double passes = op->direction == PZ_FORWARD ? 2 : 4;
  double bytes = 2 * passes * (double)row->batch * (double)row->k *
                 ((double)heads * (double)row->m + (double)kv * (double)row->n);
  /* keys and values, or the latent vector of all heads, read and written */
  double cached = op->form == SERVED_ATTENTION   ? 2 * (double)row->kv_heads * (double)row->k
                  : op->form == LATENT_ATTENTION ? LATENT
                                                 : 0;
  struct pz_attention_work a = {.dims = {row->batch * heads, row->m, row->n, row->k},
                                .direction = op->direction,
                                .causal = op->form == ATTENTION || row->causal,
                                .library = row->library ? row->library : op->library,
                                .bytes = bytes * pz_cold_part(c, bytes),
                                .cache_bytes = 4 * (double)row->batch * (double)row->m * cached};
  struct pz_estimate e;
  struct pz_work w;
  pz_attention_cost(c, &a, &e, &w);
  return e.latency_s;
}

/* With states in fp32 that a sample begins and ends with, as serving has them: read and written (SGLang), or (TensorRT-LLM)
 * as much again for zeros and copies: its samples of one chunk take so much longer than chunks of long ones. */
static double scan_s(const struct pz_chip *c, const struct pz_ops_row *row) {
  const struct known *op = &known[row->op];
  double n = (double)row->n, k = (double)row->k, heads = (double)row->heads,
         groups = (double)row->kv_heads, b = (double)row->batch;
  bool delta = op->kind == PZ_OP_DELTA_RULE;
  double token = 4 * heads * (delta ? n : k) + 4 * groups * (delta ? k : n) + 8 * heads;
  double ends = (delta ? 8 : 24) * heads * n * k;
  struct pz_scan_work w = {.kind = op->kind,
                           .direction = op->direction,
                           .dims = {row->batch * row->heads, row->m, row->n, row->k},
                           .chunk = row->chunk,
                           .bytes = b * ((double)row->m * token + ends),
                           .warm = true,
                           .served = true};
  struct pz_scan_time t;
  pz_scan_time(c, &w, &t);
  return t.startup_s + t.work_s;
}

static double vector_s(const struct pz_chip *c, const struct pz_ops_row *row, int kind,
                       enum pz_direction direction, double bytes) {
  double values = (double)row->batch * (double)row->m * (double)row->n;
  struct pz_vector_work w = {kind, direction, row->batch * row->m, row->n, values * bytes, true};
  struct pz_vector_time t;
  pz_vector_named(c, known[row->op].kernel ? known[row->op].kernel : "", &w, &t);
  if (direction == PZ_FORWARD) return t.latency_s;
  /* a derivative is measured behind its forward: result, gradient and both inputs pass by */
  double warm_s = t.latency_s, cold = pz_cold_part(c, values * (bytes + 2));
  w.warm = false;
  pz_vector_named(c, known[row->op].kernel ? known[row->op].kernel : "", &w, &t);
  return cold * t.latency_s + (1 - cold) * warm_s;
}

/* `blocks_s`: of its blocks of threads at least; `waits`: of the loads of a block that wait for each other.  What is
 * changed in place takes half of its traffic of the global buffer. */
static double state_kernel_s(const struct pz_chip *c, const struct pz_vector_work *w,
                             double blocks_s, double waits, bool in_place) {
  struct pz_vector_time t;
  pz_vector_time(c, w, &t);
  t.compute_s = fmax(t.compute_s, blocks_s);
  t.hbm_s *= pz_cold_part(c, (in_place ? 0.5 : 1) * w->bytes);
  if (c->execution == PZ_CHIP_STREAM)
    t.rows_s += waits * pz_constants_default.state_block / c->clock_hz;
  pz_vector_conclude(&t);
  return t.latency_s;
}

/* A state in fp32 is read, changed and written. */
static double scan_step_s(const struct pz_chip *c, const struct pz_ops_row *row) {
  const struct known *op = &known[row->op];
  int64_t rows = row->batch * row->heads, cols = row->n * row->k;
  struct pz_vector_work w = {
      op->kind, op->direction, rows, cols, (double)rows * (double)cols * op->bytes, false};
  return state_kernel_s(c, &w, 0, 1, true);
}

/* A block has eight tokens of each sample; a step moves the values before its own too. */
static double conv_s(const struct pz_chip *c, const struct pz_ops_row *row) {
  static const int64_t WIDTH = 4, TOKENS = 8;
  const struct known *op = &known[row->op];
  bool step = op->form == CONV_STEP;
  int64_t rows = row->batch * (step ? WIDTH : row->m);
  struct pz_vector_work w = {
      op->kind, op->direction, rows, row->n, (double)rows * (double)row->n * op->bytes, false};
  double waits = step ? 0 : fmin(1, (double)row->m / (double)TOKENS);
  double blocks = op->form == CONV_ROWS && c->execution == PZ_CHIP_STREAM
                      ? (double)row->batch * (double)row->n
                      : 0;
  double block_s = pz_constants_default.conv_block / ((double)c->vector.cores * c->clock_hz);
  return state_kernel_s(c, &w, blocks * block_s, waits, op->form != CONV);
}

/* silu(x) y in two kernels; its derivative: two products, and that of silu. */
static double swiglu_s(const struct pz_chip *c, const struct pz_ops_row *row) {
  const struct known *op = &known[row->op];
  double products = op->direction == PZ_FORWARD ? 1 : 2;
  return products * vector_s(c, row, PZ_OP_MUL, PZ_FORWARD, 6) +
         vector_s(c, row, PZ_OP_SILU, op->direction, op->bytes);
}

static double adamw_s(const struct pz_chip *c, const struct pz_ops_row *row) {
  struct pz_estimate e;
  pz_cost_optimizer(c, (double)row->m * (double)row->n, known[row->op].bytes, &e);
  return e.latency_s;
}

/* One node of `batch` devices, joined by the chip's link, or nodes of the cluster that such chips stand in. */
static enum pz_status network_of(const struct pz_chip *c, const struct pz_ops_row *row,
                                 struct pz_cluster *net, struct pz_error *err) {
  if (!(c->link_bytes_per_s > 0))
    return pz_fail(err, PZ_BAD_INPUT, "%s:%u: chip %s has no link; accepted: one with a link",
                   row->table, row->line, c->name);
  *net = pz_cluster_flat(row->batch, c->link_bytes_per_s, c->link_latency_s);
  if (row->nodes > 1 && !pz_cluster_standard(c->name, net))
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s:%u: no cluster of chip %s is known; accepted: rows of one node", row->table,
                   row->line, c->name);
  net->level[0].collectives = c->collectives;
  return PZ_OK;
}

const char *pz_ops_not_on(const struct pz_chip *c, const struct pz_ops_row *row) {
  enum form form = known[row->op].form;
  bool fp8 = form == FP8_PRODUCT || form == FP8_LINEAR || form == FP8_BLOCK_LINEAR ||
             (form == EXPERTS && strcmp(known[row->op].name, "experts") != 0);
  bool network = form == COLLECTIVE || form == DISPATCH;
  struct pz_cluster net;
  if (fp8 && pz_chip_can_run(c, PZ_PRECISION_FP8, NULL) != PZ_OK)
    return "the chip does not multiply 8-bit values";
  if (form == NVFP4_LINEAR && pz_chip_can_run(c, PZ_PRECISION_NVFP4, NULL) != PZ_OK)
    return "the chip does not multiply 4-bit values";
  if (form == DISPATCH && c->execution != PZ_CHIP_STREAM) return "DeepEP runs on GPUs";
  if (network && !(c->link_bytes_per_s > 0)) return "the chip has no link";
  if (network && row->nodes > 1 && !pz_cluster_standard(c->name, &net))
    return "no network between nodes of this chip is known";
  return NULL;
}

static enum pz_status collective_s(const struct pz_chip *c, const struct pz_ops_row *row, double *s,
                                   struct pz_error *err) {
  struct pz_cluster net;
  enum pz_status status = network_of(c, row, &net, err);
  if (status == PZ_OK)
    *s = pz_network_s(&pz_constants_default, &net, (enum pz_collective)known[row->op].kind,
                      (double)row->n, (struct pz_group){row->batch, 1});
  return status;
}

/* DeepEP sends 8-bit values with a scale of 4 bytes for every 128, and 16-bit sums back. */
static enum pz_status dispatch_s(const struct pz_chip *c, const struct pz_ops_row *row, double *s,
                                 struct pz_error *err) {
  struct pz_dispatch d = {.dispatcher = PZ_DISPATCHER_DEEPEP,
                          .combine = known[row->op].direction == PZ_BACKWARD,
                          .tokens = (double)row->m,
                          .token_bytes = known[row->op].bytes * (double)row->k,
                          .experts = (double)row->topk,
                          .cores = (double)row->sms,
                          .group = {row->batch, 1}};
  struct pz_cluster net;
  enum pz_status status = network_of(c, row, &net, err);
  if (status == PZ_OK) *s = pz_dispatch_time(&pz_constants_default, &net, &d).s;
  return status;
}

static enum pz_status experts_s(struct pz_cost *cost, const struct pz_ops_row *row, double *s,
                                struct pz_error *err) {
  struct pz_experts_work w = {.tokens = row->m,
                              .hidden = row->k,
                              .inter = row->n,
                              .topk = row->topk,
                              .experts = row->batch,
                              .tp = row->tp,
                              .ep = row->ep,
                              .skew = row->skew,
                              .gated = row->gated,
                              .fp8 = strcmp(known[row->op].name, "experts") != 0};
  return pz_experts_cost(cost, &w, s, err);
}

static enum pz_status product_s(struct pz_cost *cost, const struct pz_ops_row *row, double *s,
                                struct pz_error *err) {
  struct pz_product p = {row->batch, row->m, row->n, row->k, true};
  struct pz_grouped g = {row->batch, row->m, row->n, row->k, row->largest, true, NULL};
  struct pz_mapping o = {0};
  enum form form = known[row->op].form;
  enum pz_format format = form == FP8_BLOCK_LINEAR ? PZ_FORMAT_FP8_BLOCK
                          : form == NVFP4_LINEAR   ? PZ_FORMAT_NVFP4
                                                   : PZ_FORMAT_FP8_CURRENT;
  enum pz_status status = form == PRODUCT   ? pz_cost_product(cost, &p, &o, err)
                          : form == GROUPED ? pz_cost_grouped(cost, &g, &o, err)
                                            : pz_cost_format_product(cost, format, &p, &o, err);
  struct pz_vector_time cast = {0};
  if (form == FP8_LINEAR || form == FP8_BLOCK_LINEAR || form == NVFP4_LINEAR)
    pz_cost_serving_cast(&cost->chip, format, row->m, row->k, &cast);
  double macs = (double)p.m * (double)p.n * (double)p.k;
  if (form == PRODUCT) pz_cost_within_watts(cost, (double)p.batch * macs, PZ_FORMAT_16BIT, &o);
  if (form == GROUPED) pz_cost_within_watts(cost, macs, PZ_FORMAT_16BIT, &o);
  *s = o.latency_s + cast.latency_s;
  return status;
}

enum pz_status pz_ops_us(struct pz_cost *cost, const struct pz_ops_row *row, double *us,
                         struct pz_error *err) {
  const struct pz_chip *c = &cost->chip;
  const struct known *op = &known[row->op];
  enum pz_status status = PZ_OK;
  double s = 0;
  switch (op->form) {
  case ATTENTION:
  case LIBRARY_ATTENTION:
  case SERVED_ATTENTION:
  case LATENT_ATTENTION: s = attention_s(c, row); break;
  case EXPERTS: status = experts_s(cost, row, &s, err); break;
  case COLLECTIVE: status = collective_s(c, row, &s, err); break;
  case DISPATCH: status = dispatch_s(c, row, &s, err); break;
  case SCAN: s = scan_s(c, row); break;
  case SCAN_STEP: s = scan_step_s(c, row); break;
  case CONV:
  case CONV_ROWS:
  case CONV_STEP: s = conv_s(c, row); break;
  case VECTOR: s = vector_s(c, row, op->kind, op->direction, op->bytes); break;
  case SWIGLU: s = swiglu_s(c, row); break;
  case ADAMW: s = adamw_s(c, row); break;
  default: status = product_s(cost, row, &s, err);
  }
  if (row->alone) s += pz_constants_default.graph_s;
  if (status == PZ_OK) *us = s * 1e6;
  return status;
}

static enum pz_status predict_rows(struct pz_cost *cost, const char *name, const struct pz_csv *csv,
                                   struct pz_arena *arena, struct pz_op_times *out,
                                   struct pz_error *err) {
  const struct pz_ops_row *rows = NULL;
  out->rows = pz_arena_alloc(arena, csv->rows, sizeof *out->rows);
  if (!out->rows) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  if (pz_csv_column(csv, "predicted_us") != PZ_NONE)
    return pz_fail(err, PZ_BAD_INPUT, "%s:1: the column 'predicted_us' already exists", name);
  enum pz_status status = pz_ops_read(name, csv, arena, &rows, err);
  for (uint32_t i = 0; i < csv->rows && status == PZ_OK; i++) {
    const struct pz_ops_row *r = &rows[i];
    struct pz_op_time *t = &out->rows[out->n_rows++];
    *t = (struct pz_op_time){pz_ops_name(r->op), r->batch, r->m, r->n, r->k, 0, r->us};
    status = pz_ops_us(cost, r, &t->us, err);
  }
  return status;
}

enum pz_status pz_cost_table(struct pz_cost *cost, const char *name, const char *text, size_t bytes,
                             struct pz_op_times **out, struct pz_error *err) {
  struct pz_csv csv;
  struct pz_arena *arena;
  void *made = NULL;
  enum pz_status status =
      pz_need_each(err, {cost, "cost"}, {name, "name"}, {text, "text"}, {out, "out"});
  if (status == PZ_OK) status = pz_held_new(sizeof **out, name, &made, &arena, err);
  if (status != PZ_OK) return status;
  status = pz_csv_parse(name, text, bytes, arena, &csv, err);
  if (status == PZ_OK) status = predict_rows(cost, name, &csv, arena, made, err);
  return pz_held_give(status, made, out);
}

void pz_op_times_free(struct pz_op_times *t) { pz_held_free(t); }
