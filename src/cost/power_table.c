/* Predicts the power of operators that ran for seconds, from a table of such measurements
 * (pz_power_table).
 *
 * A row is one operator, called again and again.  Its calls do some work (struct pz_work of
 * cost/power.h), from which pz_power_run() finds the clock that the power limit allows, the time of
 * a call and the watts.  The chip is taken without its measured slowdown at the power limit,
 * because the slowdown is what is predicted here. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "chip/cold.h"
#include "core/csv.h"
#include "core/text.h"
#include "cost/attention.h"
#include "cost/cost.h"
#include "cost/formats.h"
#include "cost/power.h"
#include "workload/op.h"
#include "workload/workload.h"

/* ---- operators ------------------------------------------------------------------------------- */

enum form { IDLE, GEMM, FP8_GEMM, LANE_GEMM, VECTOR, ATTENTION, BLOCKS };

static const struct operator_info {
  const char *name; /* name of the operator in tables */
  enum form form;
  int kind;           /* enum pz_op_kind */
  const char *kernel; /* kernel of the calibration, or library of attention */
  /* The part of the energy that the operator uses with its data.  Operands of zeros need only the
   * energy of control; in a multiply-accumulate of tensor cores, control takes 0.37 and changing
   * data 0.33 pJ/FLOP (doi 10.1145/3712285.3759815). */
  double activity;
} operators[] = {
    {"idle", IDLE, 0, "", 0},
    {"gemm", GEMM, PZ_OP_MATMUL, "", 1},
    {"gemm_zeros", GEMM, PZ_OP_MATMUL, "", 0.37 / (0.37 + 0.33)},
    {"fp8_gemm", FP8_GEMM, PZ_OP_MATMUL, "", 1},
    {"gemm_fp32", LANE_GEMM, PZ_OP_MATMUL, "", 1},
    {"copy", VECTOR, PZ_OP_CAST, "default", 1}, /* PZ_OP_COPY would transpose */
    {"copy_in_L2", VECTOR, PZ_OP_CAST, "default", 1},
    {"relu", VECTOR, PZ_OP_RELU, "relu", 1},
    {"gelu", VECTOR, PZ_OP_GELU, "gelu", 1},
    {"silu", VECTOR, PZ_OP_SILU, "silu", 1},
    {"rmsnorm", VECTOR, PZ_OP_RMSNORM, "rmsnorm", 1},
    {"layernorm", VECTOR, PZ_OP_LAYERNORM, "layernorm", 1},
    {"softmax", VECTOR, PZ_OP_SOFTMAX, "softmax", 1},
    {"flash", ATTENTION, PZ_OP_ATTENTION, "fa2", 1},
    {"cudnn", ATTENTION, PZ_OP_ATTENTION, "cudnn", 1},
    {"blocks4_fwd_bwd", BLOCKS, 0, "cudnn", 1},
};
enum { OPERATORS = sizeof operators / sizeof *operators };

/* Returns the name of operator i, or NULL after the last (a pz_name_at). */
static const char *operator_name(const void *ctx, size_t i) {
  (void)ctx;
  return i < OPERATORS ? operators[i].name : NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { MOST_ROWS = 100000 };
enum { B, M, N, K, CALL_US, WATTS, MHZ, JOULES, FLOP, CAP_W, LOCK_MHZ, COLUMNS };

struct power_reader {
  struct pz_call *call;
  const char *name;
  const struct pz_csv *csv;
  uint32_t op_column, column[COLUMNS];
  double cell[COLUMNS]; /* numbers of the row that is being read */
};

/* Reads the numbers of row i into reader->cell, and returns its operator.  Sizes must be integers,
 * of which vector operators need no k and an idle chip none. */
static const struct operator_info *read_row(struct power_reader *reader, uint32_t i) {
  const char *name = pz_csv_cell(reader->csv, i, reader->op_column);
  uint32_t line = reader->csv->lines[i];
  const struct operator_info *op = operators;
  char list[512];
  while (op < operators + OPERATORS && strcmp(op->name, name) != 0) op++;
  if (op == operators + OPERATORS)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: unknown operator '%.40s'; accepted: %s",
             reader->name, line, name, pz_text_join(list, sizeof list, operator_name, NULL));
  for (int c = 0; c < COLUMNS; c++) {
    double most = c <= K ? 0x1p30 : 1e24;
    reader->cell[c] = c == B ? 1 : 0;
    if (reader->column[c] != PZ_NONE)
      reader->cell[c] =
          pz_csv_real(reader->call, reader->name, reader->csv, i, reader->column[c], most);
  }
  if (op->form == IDLE) return op;
  int last_size = op->form == VECTOR ? N : K;
  for (int c = B; c <= last_size; c++)
    if (reader->cell[c] < 1 || reader->cell[c] != floor(reader->cell[c]))
      pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: a size is %g; accepted: integers from 1 to 2^30",
               reader->name, line, reader->cell[c]);
  if (reader->cell[B] * reader->cell[M] * reader->cell[N] > 0x1p53)
    pz_raise(reader->call, PZ_BAD_INPUT, "%s:%u: b x m x n is more than 2^53 values", reader->name,
             line);
  return op;
}

/* ---- the work of a call ---------------------------------------------------------------------- */

/* Returns the work of a GEMM on the tensor cores.  A LANE_GEMM runs in 32 bits on the vector lanes,
 * one multiply-add per lane and cycle, with the traffic of a 16-bit GEMM. */
static struct pz_work gemm_work(struct pz_call *call, struct pz_cost *cost,
                                const struct operator_info *op, const double cell[COLUMNS]) {
  const struct pz_chip *chip = &cost->chip;
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  struct pz_product product = {(int64_t)cell[B], (int64_t)cell[M], (int64_t)cell[N],
                               (int64_t)cell[K], true};
  double macs = cell[B] * cell[M] * cell[N] * cell[K];
  if (op->form == FP8_GEMM) {
    struct pz_mapping narrow =
        pz_estimate_narrow_product(call, cost, PZ_FORMAT_FP8_DELAYED, &product);
    return pz_cost_mapped_work(chip, macs, PZ_FORMAT_FP8_DELAYED, &narrow);
  }
  struct pz_mapping mapping = pz_estimate_product(call, cost, chip, &product);
  struct pz_work work = pz_cost_mapped_work(chip, macs, PZ_FORMAT_16BIT, &mapping);
  if (op->form == LANE_GEMM) {
    work.core_j += macs * (tech->lane_j - tech->mac_j);
    work.core_s = macs / (pz_chip_vector_op_per_s(chip) * chip->calibration.tensor_efficiency);
  }
  return work;
}

/* Returns the work of a vector operator that reads and writes 16-bit values.  Data that fit in the
 * global buffer stay there between calls. */
static struct pz_work vector_work(const struct pz_chip *chip, const struct operator_info *op,
                                  const double cell[COLUMNS]) {
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  double values = cell[B] * cell[M] * cell[N], bytes = 2 * 2 * values; /* 2 read, 2 written */
  struct pz_vector_work vector = {op->kind,         PZ_FORWARD, (int64_t)(cell[B] * cell[M]),
                                  (int64_t)cell[N], bytes,      true};
  struct pz_vector_time time;
  pz_vector_named(chip, op->kernel, &vector, &time);
  bytes *= time.moved;
  double lane_ops = values * pz_power_lane_ops(chip, op->kind, PZ_FORWARD);
  return (struct pz_work){.core_j = lane_ops * tech->lane_j + bytes * tech->glb_j,
                          .outside_j = bytes * pz_cold_part(chip, vector.bytes) * tech->hbm_j,
                          .startup_s = time.startup_s + time.rows_s,
                          .core_s = time.compute_s,
                          .glb_s = time.glb_s,
                          .hbm_s = time.hbm_s};
}

/* Returns the work of causal forward attention.  Its number of heads follows from column flop. */
static struct pz_work attention_work(const struct pz_chip *chip, const struct operator_info *op,
                                     const double cell[COLUMNS]) {
  double scores = cell[M] * cell[N] / 2, head_flop = 4 * cell[B] * scores * cell[K];
  double heads = fmin(fmax(1, floor(cell[FLOP] / head_flop + 0.5)), 1 << 20);
  /* Queries and results have m rows, keys and values n, all of 2 bytes a value. */
  double bytes = 2 * 2 * cell[B] * heads * cell[K] * (cell[M] + cell[N]);
  struct pz_attention_work attention = {
      .dims = {(int64_t)(cell[B] * heads), (int64_t)cell[M], (int64_t)cell[N], (int64_t)cell[K]},
      .causal = true,
      .library = op->kernel,
      .bytes = bytes * pz_cold_part(chip, bytes)};
  struct pz_estimate ignored;
  struct pz_work work;
  pz_attention_cost(chip, &attention, &ignored, &work);
  return work;
}

/* Appends the work of forward and backward of four Llama layers with kernels as PyTorch launches
 * them: b samples of m tokens, hidden size n, heads of width 128, four of which share keys and
 * values, and an MLP of width k. */
static void append_block_works(struct pz_call *call, struct pz_cost *cost,
                               const struct operator_info *op, const double cell[COLUMNS],
                               struct pz_vec *works) {
  enum { LAYERS = 4, WIDTH = 128, SHARE = 4 };
  struct pz_workload_options options = pz_workload_options_default();
  struct pz_workload *workload = NULL;
  long long heads = (int64_t)cell[N] / WIDTH;
  const char *config =
      pz_format(call,
                "{\"model_type\": \"llama\", \"num_hidden_layers\": %d, \"hidden_size\": %.0f, "
                "\"num_attention_heads\": %lld, \"num_key_value_heads\": %lld, "
                "\"intermediate_size\": %.0f, \"vocab_size\": %d, "
                "\"max_position_embeddings\": %.0f}",
                LAYERS, cell[N], heads, (heads + SHARE - 1) / SHARE, cell[K], WIDTH, cell[M]);
  options.seq = (int64_t)cell[M];
  options.mbs = (int64_t)cell[B];
  options.kernels = PZ_KERNELS_OPERATORS;
  options.attention = PZ_ATTENTION_FLASH;
  pz_must(call, pz_workload_parse(op->name, config, strlen(config), &options, &workload,
                                  pz_call_error(call)));
  pz_defer(call, pz_workload_close, workload);
  cost->causal = true;
  cost->attention_library = op->kernel;
  for (uint32_t i_layer = 0; i_layer < workload->n_layers; i_layer++) {
    const struct pz_layer *layer = &workload->layers[i_layer];
    if (layer->count != LAYERS) continue; /* embedding and head */
    for (int direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++)
      for (uint32_t i = 0; i < layer->ops[direction].n; i++) {
        struct pz_work work;
        (void)pz_estimate_op(call, cost, &layer->ops[direction].op[i], &work);
        for (int repeat = 0; repeat < LAYERS; repeat++) pz_append(call, works, &work);
      }
  }
  pz_close(call, workload);
}

/* Sets `works` to the work (struct pz_work) of everything that a call runs, in order. */
static void list_works(struct pz_call *call, struct pz_cost *cost, const struct operator_info *op,
                       const double cell[COLUMNS], struct pz_vec *works) {
  struct pz_work work;
  works->n = 0;
  switch (op->form) {
  case IDLE: return;
  case BLOCKS: append_block_works(call, cost, op, cell, works); return;
  case VECTOR: work = vector_work(&cost->chip, op, cell); break;
  case ATTENTION: work = attention_work(&cost->chip, op, cell); break;
  default: work = gemm_work(call, cost, op, cell);
  }
  work.core_j *= op->activity;
  pz_append(call, works, &work);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Returns time, power and energy of a call that does its works one after the other, each at a clock
 * of its own; the reported clock is the mean over time.  A single work begins every interval_s if
 * longer. */
static struct pz_power run_works(const struct pz_power_law *law, const struct pz_vec *works,
                                 double interval_s) {
  struct pz_power sum = {0};
  if (works->n > 1) interval_s = 0;
  for (uint32_t i = 0; i < works->n; i++) {
    struct pz_power power;
    pz_power_run(law, pz_vec_at(works, struct pz_work, i), interval_s, &power);
    sum.latency_s += power.latency_s;
    sum.joules += power.joules;
    sum.clock_hz += power.clock_hz * power.latency_s;
  }
  double time_s = fmax(sum.latency_s, interval_s);
  sum.watts = time_s > 0 ? sum.joules / time_s : 0;
  sum.clock_hz = sum.latency_s > 0 ? sum.clock_hz / sum.latency_s : 0;
  return sum;
}

/* Returns row i with its prediction.  `throttled` is the cost model of the chip with its measured
 * slowdown at the power limit, and `unthrottled` the one without it.  `works` is scratch space. */
static struct pz_power_row predict_row(struct power_reader *reader, struct pz_cost *unthrottled,
                                       struct pz_cost *throttled, uint32_t i,
                                       struct pz_vec *works) {
  const struct operator_info *op = read_row(reader, i);
  const double *cell = reader->cell;
  struct pz_power_row row = {.op = op->name,
                             .m = (int64_t)cell[M],
                             .n = (int64_t)cell[N],
                             .k = (int64_t)cell[K],
                             .cap_watts = cell[CAP_W],
                             .lock_hz = cell[LOCK_MHZ] * 1e6,
                             .call_s = cell[CALL_US] / 1e6,
                             .watts = cell[WATTS],
                             .clock_hz = cell[MHZ] * 1e6,
                             .joules = cell[JOULES]};
  list_works(reader->call, throttled, op, cell, works);
  for (uint32_t w = 0; w < works->n; w++)
    row.throttled_s += pz_work_s(pz_vec_at(works, struct pz_work, w));
  list_works(reader->call, unthrottled, op, cell, works);
  struct pz_power_law law = pz_power_law_of(&unthrottled->chip);
  if (row.cap_watts > 0) law.watts = row.cap_watts;
  if (row.lock_hz > 0) law.most_hz = fmin(law.most_hz, row.lock_hz);
  row.sustained = run_works(&law, works, 0);
  row.called = run_works(&law, works, row.call_s);
  if (op->form == IDLE)
    row.sustained.watts = row.called.watts = pz_power_idle_watts(&unthrottled->chip);
  return row;
}

struct power_table_args {
  const struct pz_chip *chip;
  const char *name, *text;
  size_t bytes;
  struct pz_power_table **out;
};

/* The body of pz_power_table(): predicts every row of the table. */
static void predict_power_table(struct pz_call *call, void *ctx) {
  static const char *const names[COLUMNS] = {"b",       "m",     "n",       "k",
                                             "call_us", "watts", "sm_mhz",  "joules_per_call",
                                             "flop",    "cap_w", "lock_mhz"};
  const struct power_table_args *args = ctx;
  struct pz_call own;
  pz_chip_check(call, args->chip);
  pz_require(call, args->name, "name");
  pz_require(call, args->text, "text");
  pz_require(call, args->out, "out");
  struct pz_power_table *table = pz_object_new(call, sizeof *table, &own);
  const struct pz_csv *csv = pz_csv_read(call, args->name, args->text, args->bytes);
  struct power_reader reader = {.call = call, .name = args->name, .csv = csv};
  uint32_t *column = reader.column;
  reader.op_column = pz_csv_column(csv, "op");
  for (int i = 0; i < COLUMNS; i++) column[i] = pz_csv_column(csv, names[i]);
  if (column[B] == PZ_NONE) column[B] = pz_csv_column(csv, "batch");
  bool has_sizes = column[M] != PZ_NONE && column[N] != PZ_NONE && column[K] != PZ_NONE;
  if (reader.op_column == PZ_NONE || !has_sizes)
    pz_raise(call, PZ_BAD_INPUT,
             "%s:1: a column is missing; accepted: op, b, m, n, k, and call_us, watts, "
             "sm_mhz, joules_per_call, flop, cap_w, lock_mhz where they are known",
             args->name);
  if (csv->rows > MOST_ROWS)
    pz_raise(call, PZ_BAD_INPUT, "%s: more than %d rows", args->name, MOST_ROWS);
  /* Makes the chip without the slowdown at its power limit, which is predicted here.  A GPU's
   * calibration was measured at the clock that the limit allowed, so the slowdown is in its rates:
   * they are replaced by those of unmeasured GPUs (NULL: the usual constants of chip/cold.def),
   * which are relative to the peak at the actual clock.  `throttle` is the factor by which long
   * GEMMs are slower at the limit; 1 turns it off. */
  struct pz_chip unthrottled = *args->chip;
  if (args->chip->execution == PZ_CHIP_STREAM) pz_chip_set_class(call, &unthrottled, NULL);
  unthrottled.calibration.throttle = 1;
  struct pz_cost *unthrottled_cost = pz_cost_create(call, &unthrottled, NULL);
  struct pz_cost *throttled_cost = pz_cost_create(call, args->chip, NULL);
  struct pz_vec works;
  pz_vec_init(&works, call->arena, sizeof(struct pz_work));
  table->rows = pz_alloc(&own, csv->rows, sizeof *table->rows);
  table->n_rows = csv->rows;
  for (uint32_t i = 0; i < csv->rows; i++)
    table->rows[i] = predict_row(&reader, unthrottled_cost, throttled_cost, i, &works);
  *args->out = pz_object_keep(call, table);
}

enum pz_status pz_power_table(const struct pz_chip *chip, const char *name, const char *text,
                              size_t bytes, struct pz_power_table **out, struct pz_error *err) {
  struct power_table_args args = {chip, name, text, bytes, out};
  return pz_border(predict_power_table, &args, err);
}

void pz_power_table_free(struct pz_power_table *table) { pz_object_free(table); }
