#include "cost/beside_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "cost/beside.h"
#include "cost/constants.h"
#include "cost/ops_table.h"

const char *const pz_beside_names[PZ_BESIDE_WHATS] = {
    "resident copy", "copy engine device to device", "to the host", "from the host"};

static const char *beside_name(const void *ctx, size_t i) {
  (void)ctx;
  return i < PZ_BESIDE_WHATS ? pz_beside_names[i] : NULL;
}

/* ---- columns -------------------------------------------------------------------------------- */

enum { COMPUTE, BESIDE, M, N, K, SMS, ALONE_US, TOGETHER_US, USED, COLUMNS = USED + 3 };

static const char *const heads[COLUMNS] = {"compute",
                                           "beside",
                                           "m",
                                           "n",
                                           "k",
                                           "sms",
                                           "compute_alone_us", /* from here on times */
                                           "compute_together_us",
                                           "slowdown", /* from here on not used */
                                           "side_alone_gb_s",
                                           "side_together_gb_s"};

struct reader {
  const char *name;
  const struct pz_csv *csv;
  const struct pz_chip *chip;
  uint32_t at[COLUMNS];
  char where[300]; /* the row being read */
  struct pz_error *err;
};

static const char *head_name(const void *ctx, size_t i) {
  (void)ctx;
  return i < COLUMNS ? heads[i] : NULL;
}

static enum pz_status find_columns(struct reader *r) {
  char list[300];
  pz_text_join(list, sizeof list, head_name, NULL);
  for (int i = 0; i < COLUMNS; i++) {
    r->at[i] = pz_csv_column(r->csv, heads[i]);
    if (r->at[i] == PZ_NONE && i < USED)
      return pz_fail(r->err, PZ_BAD_INPUT, "%s:1: no column '%s'; accepted: %s", r->name, heads[i],
                     list);
  }
  for (uint32_t c = 0; c < r->csv->columns; c++) {
    int i = 0;
    while (i < COLUMNS && strcmp(heads[i], r->csv->cells[c]) != 0) i++;
    if (i == COLUMNS)
      return pz_fail(r->err, PZ_BAD_INPUT, "%s:1: unknown column '%.40s'; accepted: %s", r->name,
                     r->csv->cells[c], list);
  }
  if (r->csv->rows > PZ_BESIDE_MOST_ROWS)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s: more than %d rows", r->name, PZ_BESIDE_MOST_ROWS);
  return PZ_OK;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static const char GEMM[] = "gemm", ATTENTION[] = "attention";

/* Words of column `compute`. */
static const char *compute_name(const void *ctx, size_t i) {
  (void)ctx;
  if (i < 2) return i == 0 ? GEMM : ATTENTION;
  for (uint32_t op = 0; pz_ops_name(op); op++)
    if (pz_ops_elementwise(op) && i-- == 2) return pz_ops_name(op);
  return NULL;
}

/* The place of a word in a list of names, or PZ_NONE. */
static uint32_t name_index(pz_name_at *name, const char *word) {
  uint32_t i = 0;
  while (name(NULL, i) && strcmp(name(NULL, i), word) != 0) i++;
  return name(NULL, i) ? i : PZ_NONE;
}

static enum pz_status read_word(const struct reader *r, uint32_t row, int column, pz_name_at *name,
                                uint32_t *out) {
  const char *word = pz_csv_cell(r->csv, row, r->at[column]);
  char list[1024];
  *out = name_index(name, word);
  if (*out != PZ_NONE) return PZ_OK;
  return pz_fail(r->err, PZ_BAD_INPUT, "%s: column '%s' is '%.40s'; accepted: %s", r->where,
                 heads[column], word, pz_text_join(list, sizeof list, name, NULL));
}

static enum pz_status read_count(const struct reader *r, uint32_t row, int column, double least,
                                 int64_t *out) {
  double v = 0;
  enum pz_status status = pz_csv_number(r->name, r->csv, row, r->at[column], 0x1p40, &v, r->err);
  if (status != PZ_OK) return status;
  if (v < least || v != floor(v))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: column '%s' is '%.40s'; accepted: an integer from %.0f to 2^40", r->where,
                   heads[column], pz_csv_cell(r->csv, row, r->at[column]), least);
  *out = (int64_t)v;
  return PZ_OK;
}

static enum pz_status read_us(const struct reader *r, uint32_t row, int column, double *seconds) {
  double us = 0;
  enum pz_status status = pz_csv_number(r->name, r->csv, row, r->at[column], 1e15, &us, r->err);
  if (status != PZ_OK) return status;
  if (!(us >= 1e-6))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: column '%s' is '%.40s'; accepted: microseconds, 1e-6 or more", r->where,
                   heads[column], pz_csv_cell(r->csv, row, r->at[column]));
  *seconds = us * 1e-6;
  return PZ_OK;
}

/* Cores are held by resident kernels, and some are left. */
static enum pz_status check_sms(const struct reader *r, const struct pz_beside_row *row) {
  bool resident = row->beside == PZ_BESIDE_RESIDENT;
  int64_t cores = r->chip->tensor.cores;
  if (!resident && row->sms != 0)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: sms is %lld beside '%s', which holds no cores; accepted: 0", r->where,
                   (long long)row->sms, pz_beside_names[row->beside]);
  if (resident && r->chip->execution == PZ_CHIP_STREAM && (row->sms < 1 || row->sms >= cores))
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: sms is %lld; accepted: fewer than the %lld cores of %.40s, at least 1",
                   r->where, (long long)row->sms, (long long)cores, r->chip->name);
  return PZ_OK;
}

static enum pz_status read_row(struct reader *r, uint32_t i, struct pz_beside_row *row) {
  uint32_t compute = 0, beside = 0;
  *row = (struct pz_beside_row){.reason = ""};
  snprintf(r->where, sizeof r->where, "%.250s:%u", r->name, r->csv->lines[i]);
  enum pz_status status = read_word(r, i, COMPUTE, compute_name, &compute);
  if (status == PZ_OK) status = read_word(r, i, BESIDE, beside_name, &beside);
  if (status != PZ_OK) return status;
  row->compute = compute_name(NULL, compute);
  row->beside = (enum pz_beside_what)beside;
  status = read_count(r, i, M, 1, &row->m);
  if (status == PZ_OK) status = read_count(r, i, N, 1, &row->n);
  if (status == PZ_OK) status = read_count(r, i, K, compute < 2 ? 1 : 0, &row->k);
  if (status == PZ_OK) status = read_count(r, i, SMS, 0, &row->sms);
  if (status == PZ_OK) status = read_us(r, i, ALONE_US, &row->alone_s);
  if (status == PZ_OK) status = read_us(r, i, TOGETHER_US, &row->together_s);
  if (status == PZ_OK) status = check_sms(r, row);
  if (status == PZ_OK && (double)row->m * (double)row->n > 0x1p53)
    status = pz_fail(r->err, PZ_BAD_INPUT, "%s: m x n is more than 2^53 values", r->where);
  return status;
}

/* ---- predicting ----------------------------------------------------------------------------- */

static double row_slowdown(const struct pz_chip *c, const struct pz_beside_row *row) {
  const struct pz_constants *k = &pz_constants_default;
  struct pz_dims dims = {1, row->m, row->n, row->k};
  if (row->beside != PZ_BESIDE_RESIDENT) return 1; /* the host's transfers have their own engines */
  double part = (double)row->sms / (double)c->tensor.cores;
  return row->compute == GEMM        ? pz_beside_gemm(k, c, &dims, part)
         : row->compute == ATTENTION ? pz_beside_attention(k, part)
                                     : pz_beside_elementwise(k, part);
}

static enum pz_status predict_row(struct pz_cost *cost, struct pz_beside_row *row,
                                  struct pz_error *err) {
  struct pz_ops_row op = {.batch = 1, .m = row->m, .n = row->n, .k = row->k};
  if (row->beside == PZ_BESIDE_ENGINE)
    row->reason = "copies within the device by its copy engine are not modelled";
  else if (row->beside == PZ_BESIDE_RESIDENT && cost->chip.execution != PZ_CHIP_STREAM)
    row->reason = "links of this chip have engines of their own: no kernels hold its cores";
  else
    row->slowdown = row_slowdown(&cost->chip, row);
  if (row->compute == ATTENTION) return PZ_OK;
  while (strcmp(pz_ops_name(op.op), row->compute) != 0) op.op++;
  double us = 0;
  enum pz_status status = pz_ops_us(cost, &op, &us, err);
  row->own_alone_s = us * 1e-6;
  return status;
}

enum pz_status pz_beside_predict(struct pz_cost *cost, const char *name, const struct pz_csv *csv,
                                 struct pz_arena *arena, const struct pz_beside_row **rows,
                                 struct pz_error *err) {
  struct reader r = {.name = name, .csv = csv, .chip = &cost->chip, .err = err};
  enum pz_status status = find_columns(&r);
  if (status != PZ_OK) return status;
  struct pz_beside_row *out = pz_arena_alloc(arena, csv->rows, sizeof *out);
  if (!out) return pz_fail(err, PZ_NO_MEMORY, "%s: out of memory", name);
  for (uint32_t i = 0; i < csv->rows && status == PZ_OK; i++) {
    status = read_row(&r, i, &out[i]);
    if (status == PZ_OK) status = predict_row(cost, &out[i], err);
  }
  if (status == PZ_OK) *rows = out;
  return status;
}
