/* Reads tables of kernels that ran beside communication, and predicts their slowdown. */
#include "cost/beside_table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "cost/beside.h"
#include "cost/constants.h"
#include "cost/ops_table.h"

const char *const pz_beside_names[PZ_BESIDE_ACTIVITIES + 1] = {
    "resident copy", "copy engine device to device", "to the host", "from the host", NULL};

enum { COMPUTE, BESIDE, M, N, K, SMS, ALONE_US, TOGETHER_US, N_USED, COLUMNS = N_USED + 3 };

/* The columns of a table.  The last three are accepted and ignored. */
static const char *const column_names[COLUMNS + 1] = {"compute",
                                                      "beside",
                                                      "m",
                                                      "n",
                                                      "k",
                                                      "sms",
                                                      "compute_alone_us",
                                                      "compute_together_us",
                                                      "slowdown",
                                                      "side_alone_gb_s",
                                                      "side_together_gb_s",
                                                      NULL};

struct beside_reader {
  struct pz_call *call;
  const char *name;
  const struct pz_csv *csv;
  const struct pz_chip *chip;
  uint32_t column[COLUMNS];
  uint32_t row, line; /* the row that is being read, and its line in the file */
};

static const char GEMM[] = "gemm", ATTENTION[] = "attention";

/* Returns word i of column `compute` (GEMM, attention, element-wise operators), or NULL. */
static const char *compute_name(const void *ctx, size_t i) {
  (void)ctx;
  if (i == 0) return GEMM;
  if (i == 1) return ATTENTION;
  size_t found = 2;
  for (uint32_t op = 0; pz_ops_name(op); op++) {
    if (!pz_ops_is_elementwise(op)) continue;
    if (found == i) return pz_ops_name(op);
    found++;
  }
  return NULL;
}

/* Raises an error for a column's value in the row at hand; `accepted` says what would be right. */
static _Noreturn void refuse_cell(const struct beside_reader *reader, int column,
                                  const char *accepted) {
  pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: column '%s' is '%.40s'; accepted: %s", reader->name,
           reader->line, column_names[column],
           pz_csv_cell(reader->csv, reader->row, reader->column[column]), accepted);
}

/* Returns the index of a column's word in the list name(ctx, 0), ...; another word is an error. */
static uint32_t read_word(const struct beside_reader *reader, int column, pz_name_at *name,
                          const void *ctx) {
  const char *word = pz_csv_cell(reader->csv, reader->row, reader->column[column]);
  char list[1024];
  for (uint32_t i = 0; name(ctx, i); i++)
    if (strcmp(name(ctx, i), word) == 0) return i;
  refuse_cell(reader, column, pz_text_join(list, sizeof list, name, ctx));
}

/* Reads a column's integer, which must be at least `least`. */
static int64_t read_count(const struct beside_reader *reader, int column, double least) {
  double value = pz_csv_real(reader->call, reader->name, reader->csv, reader->row,
                             reader->column[column], 0x1p40);
  char accepted[60];
  snprintf(accepted, sizeof accepted, "an integer from %.0f to 2^40", least);
  if (value < least || value != floor(value)) refuse_cell(reader, column, accepted);
  return (int64_t)value;
}

/* Reads a time in microseconds, and returns it in seconds. */
static double read_seconds(const struct beside_reader *reader, int column) {
  double us = pz_csv_real(reader->call, reader->name, reader->csv, reader->row,
                          reader->column[column], 1e15);
  if (!(us >= 1e-6)) refuse_cell(reader, column, "microseconds, 1e-6 or more");
  return us * 1e-6;
}

/* Reads row i and checks that its values agree with each other and with the chip. */
static void read_row(struct beside_reader *reader, uint32_t i, struct pz_beside_row *row) {
  reader->row = i;
  reader->line = reader->csv->lines[i];
  row->reason = "";
  uint32_t compute = read_word(reader, COMPUTE, compute_name, NULL);
  row->compute = compute_name(NULL, compute);
  row->beside =
      (enum pz_beside_activity)read_word(reader, BESIDE, pz_name_in_list, pz_beside_names);
  bool is_elementwise = compute >= 2;
  row->m = read_count(reader, M, 1);
  row->n = read_count(reader, N, 1);
  row->k = read_count(reader, K, is_elementwise ? 0 : 1);
  row->sms = read_count(reader, SMS, 0);
  row->alone_s = read_seconds(reader, ALONE_US);
  row->together_s = read_seconds(reader, TOGETHER_US);
  bool is_resident = row->beside == PZ_BESIDE_RESIDENT;
  int64_t cores = reader->chip->tensor.cores;
  if (!is_resident && row->sms != 0)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: sms is %lld beside '%s', which holds no cores; accepted: 0", reader->name,
             reader->line, (long long)row->sms, pz_beside_names[row->beside]);
  bool in_range = row->sms >= 1 && row->sms < cores;
  if (is_resident && reader->chip->execution == PZ_CHIP_STREAM && !in_range)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s:%u: sms is %lld; accepted: fewer than the %lld cores of %.40s, at least 1",
             reader->name, reader->line, (long long)row->sms, (long long)cores, reader->chip->name);
  if ((double)row->m * (double)row->n > 0x1p53)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: m x n is more than 2^53 values", reader->name,
             reader->line);
}

/* Returns the rows of a table with their predicted slowdown, and with the predicted time alone. */
const struct pz_beside_row *pz_beside_predict_csv(struct pz_call *call, struct pz_cost *cost,
                                                  const char *name, const struct pz_csv *csv) {
  struct beside_reader reader = {.call = call, .name = name, .csv = csv, .chip = &cost->chip};
  const struct pz_constants *constants = &pz_constants_default;
  char list[300];
  pz_text_join(list, sizeof list, pz_name_in_list, column_names);
  for (int i = 0; i < COLUMNS; i++) {
    reader.column[i] = pz_csv_column(csv, column_names[i]);
    if (reader.column[i] == PZ_NONE && i < N_USED)
      pz_raise(call, PZ_BAD_INPUT, "%s:1: no column '%s'; accepted: %s", name, column_names[i],
               list);
  }
  for (uint32_t c = 0; c < csv->columns; c++) {
    int i = 0;
    while (i < COLUMNS && strcmp(column_names[i], csv->cells[c]) != 0) i++;
    if (i == COLUMNS)
      pz_raise(call, PZ_BAD_INPUT, "%s:1: unknown column '%.40s'; accepted: %s", name,
               csv->cells[c], list);
  }
  if (csv->rows > PZ_BESIDE_MOST_ROWS)
    pz_raise(call, PZ_BAD_INPUT, "%s: more than %d rows", name, PZ_BESIDE_MOST_ROWS);
  struct pz_beside_row *rows = pz_alloc(call, csv->rows, sizeof *rows);
  for (uint32_t i = 0; i < csv->rows; i++) {
    struct pz_beside_row *row = &rows[i];
    read_row(&reader, i, row);
    double occupied = (double)row->sms / (double)cost->chip.tensor.cores;
    const struct pz_dims dims = {1, row->m, row->n, row->k};
    if (row->beside == PZ_BESIDE_ENGINE)
      row->reason = "copies within the device by its copy engine are not modelled";
    else if (row->beside == PZ_BESIDE_RESIDENT && cost->chip.execution != PZ_CHIP_STREAM)
      row->reason = "links of this chip have engines of their own: no kernels hold its cores";
    else if (row->beside != PZ_BESIDE_RESIDENT)
      row->slowdown = 1; /* transfers to and from the host use engines of their own */
    else if (row->compute == ATTENTION)
      row->slowdown = pz_beside_attention(constants, occupied);
    else if (row->compute == GEMM)
      row->slowdown = pz_beside_gemm(constants, &cost->chip, &dims, occupied);
    else
      row->slowdown = pz_beside_elementwise(constants, occupied);
    if (row->compute == ATTENTION) continue; /* its heads are unknown */
    struct pz_ops_row op = {
        .op = pz_ops_find(row->compute), .batch = 1, .m = row->m, .n = row->n, .k = row->k};
    row->own_alone_s = pz_ops_predicted_us(call, cost, &op) * 1e-6;
  }
  return rows;
}
