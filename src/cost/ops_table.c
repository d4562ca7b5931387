#include "cost/ops_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "workload/op.h"

/* Operators by the names tables use, and the bytes a value of them moves at 16 bit. */
static const struct {
  const char *name;
  int kind;
  double bytes;
} known[] = {
    {"gemm", PZ_OP_MATMUL, 0},
    {"bmm_qk", PZ_OP_MATMUL, 0},
    {"bmm_av", PZ_OP_MATMUL, 0},
    {"bmm", PZ_OP_MATMUL, 0},
    {"flash_causal", PZ_OP_ATTENTION, 0},
    {"softmax", PZ_OP_SOFTMAX, 4},
    {"layernorm", PZ_OP_LAYERNORM, 4},
    {"rmsnorm", PZ_OP_RMSNORM, 4},
    {"gelu", PZ_OP_GELU, 4},
    {"silu", PZ_OP_SILU, 4},
    {"relu", PZ_OP_RELU, 4},
    {"add", PZ_OP_ADD, 6},
    {"mul", PZ_OP_MUL, 6},
    {"dropout", PZ_OP_DROPOUT, 5},
    {"transpose_copy", PZ_OP_COPY, 4},
    {"embedding", PZ_OP_EMBEDDING, 4},
    {"cross_entropy", PZ_OP_CROSS_ENTROPY, 2},
};
enum { KNOWN = sizeof known / sizeof *known };

static const char *known_name(const void *ctx, size_t i) {
  (void)ctx;
  return i < KNOWN ? known[i].name : NULL;
}

struct row {
  size_t op;
  int64_t v[4]; /* batch, m, n, k */
};

static const char *const columns[] = {"op", "batch", "m", "n", "k"};

static enum pz_status read_size(const char *where, const char *head, const char *text,
                                int64_t least, int64_t *out, struct pz_error *err) {
  char *end;
  errno = 0;
  long long v = strtoll(text, &end, 10);
  if (end == text || *end || errno || v < least || v > 1LL << 40)
    return pz_fail(err, PZ_BAD_INPUT,
                   "%s: column '%s' is '%.40s'; accepted: an integer from %d to 2^40", where, head,
                   text, (int)least);
  *out = v;
  return PZ_OK;
}

static enum pz_status read_row(const char *name, const struct pz_csv *csv, const uint32_t at[5],
                               uint32_t r, struct row *row, struct pz_error *err) {
  const char *op = pz_csv_cell(csv, r, at[0]);
  char list[256], where[300];
  snprintf(where, sizeof where, "%.250s:%u", name, csv->lines[r]);
  for (row->op = 0; row->op < KNOWN && strcmp(known[row->op].name, op) != 0; row->op++) {
  }
  if (row->op == KNOWN)
    return pz_fail(err, PZ_BAD_INPUT, "%s: unknown operator '%.40s'; accepted: %s", where, op,
                   pz_text_join(list, sizeof list, known_name, NULL));
  bool product = known[row->op].kind == PZ_OP_MATMUL || known[row->op].kind == PZ_OP_ATTENTION;
  for (int i = 0; i < 4; i++) {
    enum pz_status status = read_size(where, columns[i + 1], pz_csv_cell(csv, r, at[i + 1]),
                                      i == 3 && !product ? 0 : 1, &row->v[i], err);
    if (status != PZ_OK) return status;
  }
  double values = (double)row->v[0] * (double)row->v[1] * (double)row->v[2];
  if (values > 9007199254740992.0)
    return pz_fail(err, PZ_BAD_INPUT, "%s: batch x m x n is more than 2^53 values", where);
  return PZ_OK;
}

static double flash_us(const struct pz_chip *c, const struct row *row) {
  struct pz_dims d = {row->v[0], row->v[1], row->v[2], row->v[3]};
  double bytes = 2 * 2.0 * (double)d.batch * (double)(d.m + d.n) * (double)d.k;
  struct pz_estimate e;
  pz_cost_flash(c, &d, 2, true, bytes * pz_cold_part(c, bytes), &e);
  return e.latency_s * 1e6;
}

static double vector_us(const struct pz_chip *c, const struct row *row) {
  double values = (double)row->v[0] * (double)row->v[1] * (double)row->v[2];
  struct pz_vector_work w = {known[row->op].kind,           PZ_FORWARD,
                             row->v[0] * row->v[1],         row->v[2],
                             values * known[row->op].bytes, true};
  struct pz_vector_time t;
  pz_vector_time(c, &w, &t);
  return t.latency_s * 1e6;
}

static enum pz_status predict(struct pz_cost *cost, const struct row *row, double *us,
                              struct pz_error *err) {
  if (known[row->op].kind == PZ_OP_ATTENTION) {
    *us = flash_us(&cost->chip, row);
    return PZ_OK;
  }
  if (known[row->op].kind != PZ_OP_MATMUL) {
    *us = vector_us(&cost->chip, row);
    return PZ_OK;
  }
  struct pz_product p = {row->v[0], row->v[1], row->v[2], row->v[3], true};
  struct pz_mapping o;
  enum pz_status status = pz_cost_product(cost, &p, &o, err);
  if (status == PZ_OK) *us = o.latency_s * 1e6;
  return status;
}

enum pz_status pz_ops_predict(struct pz_cost *cost, const char *name, const struct pz_csv *csv,
                              struct pz_arena *arena, const double **us, struct pz_error *err) {
  uint32_t at[5];
  double *out = pz_arena_alloc(arena, csv->rows, sizeof *out);
  if (!out) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  for (int i = 0; i < 5; i++) {
    at[i] = pz_csv_column(csv, columns[i]);
    if (at[i] == PZ_NONE)
      return pz_fail(err, PZ_BAD_INPUT,
                     "%s:1: no column '%s'; accepted: a table with op, batch, m, n, k", name,
                     columns[i]);
  }
  if (pz_csv_column(csv, "predicted_us") != PZ_NONE)
    return pz_fail(err, PZ_BAD_INPUT, "%s:1: the column 'predicted_us' already exists", name);
  for (uint32_t r = 0; r < csv->rows; r++) {
    struct row row;
    enum pz_status status = read_row(name, csv, at, r, &row, err);
    if (status == PZ_OK) status = predict(cost, &row, &out[r], err);
    if (status != PZ_OK) return status;
  }
  *us = out;
  return PZ_OK;
}
