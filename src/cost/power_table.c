/* A table of operators that ran for seconds, with the power they took (pz_power_table). */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "chip/cold.h"
#include "core/csv.h"
#include "core/held.h"
#include "core/text.h"
#include "cost/attention.h"
#include "cost/cost.h"
#include "cost/formats.h"
#include "cost/power.h"
#include "workload/op.h"

/* ---- the operators -------------------------------------------------------------------------- */

enum form { IDLE, PRODUCT, FP8_PRODUCT, LANE_PRODUCT, VECTOR, ATTENTION, BLOCKS };

/* activity: part of the energy that is control; the rest is of data that change (tensor products: 0.37
 * of 0.37 + 0.33 pJ/FLOP, doi 10.1145/3712285.3759815). */
static const struct known {
  const char *name;
  enum form form;
  int kind;
  const char *kernel;
  double activity;
} known[] = {
    {"idle", IDLE, 0, "", 0},
    {"gemm", PRODUCT, PZ_OP_MATMUL, "", 1},
    {"gemm_zeros", PRODUCT, PZ_OP_MATMUL, "", 0.37 / (0.37 + 0.33)},
    {"fp8_gemm", FP8_PRODUCT, PZ_OP_MATMUL, "", 1},
    {"gemm_fp32", LANE_PRODUCT, PZ_OP_MATMUL, "", 1},
    {"copy", VECTOR, PZ_OP_CAST, "default", 1}, /* PZ_OP_COPY is one that transposes */
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
enum { KNOWN = sizeof known / sizeof *known };

static const char *known_name(const void *ctx, size_t i) {
  (void)ctx;
  return i < KNOWN ? known[i].name : NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

enum { MOST_ROWS = 100000 };
enum { B, M, N, K, CALL_US, WATTS, MHZ, JOULES, FLOP, CAP_W, LOCK_MHZ, COLUMNS };

struct reader {
  const char *name;
  const struct pz_csv *csv;
  uint32_t op, at[COLUMNS];
  double cell[COLUMNS]; /* of the row being read */
  struct pz_error *err;
};

static enum pz_status find_columns(struct reader *r) {
  static const char *const heads[] = {"b",       "m",     "n",       "k",
                                      "call_us", "watts", "sm_mhz",  "joules_per_call",
                                      "flop",    "cap_w", "lock_mhz"};
  r->op = pz_csv_column(r->csv, "op");
  for (int i = 0; i < COLUMNS; i++) r->at[i] = pz_csv_column(r->csv, heads[i]);
  if (r->at[B] == PZ_NONE) r->at[B] = pz_csv_column(r->csv, "batch");
  if (r->op == PZ_NONE || r->at[M] == PZ_NONE || r->at[N] == PZ_NONE || r->at[K] == PZ_NONE)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s:1: a column is missing; accepted: op, b, m, n, k, and call_us, watts, "
                   "sm_mhz, joules_per_call, flop, cap_w, lock_mhz where they are known",
                   r->name);
  return r->csv->rows > MOST_ROWS
             ? pz_fail(r->err, PZ_BAD_INPUT, "%s: more than %d rows", r->name, MOST_ROWS)
             : PZ_OK;
}

static enum pz_status read_row(struct reader *r, uint32_t i, uint32_t *op) {
  const char *text = pz_csv_cell(r->csv, i, r->op);
  char list[512];
  enum pz_status status = PZ_OK;
  for (*op = 0; *op < KNOWN && strcmp(known[*op].name, text) != 0;) (*op)++;
  if (*op == KNOWN)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: unknown operator '%.40s'; accepted: %s", r->name,
                   r->csv->lines[i], text, pz_text_join(list, sizeof list, known_name, NULL));
  for (int c = 0; c < COLUMNS && status == PZ_OK; c++) {
    r->cell[c] = c == B ? 1 : 0;
    if (r->at[c] != PZ_NONE)
      status =
          pz_csv_number(r->name, r->csv, i, r->at[c], c <= K ? 0x1p30 : 1e24, &r->cell[c], r->err);
  }
  if (status != PZ_OK || known[*op].form == IDLE) return status;
  bool product = known[*op].form != VECTOR;
  for (int c = B; c <= (product ? K : N); c++)
    if (r->cell[c] < 1 || r->cell[c] != floor(r->cell[c]))
      return pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: a size is %g; accepted: integers from 1 to 2^30",
                     r->name, r->csv->lines[i], r->cell[c]);
  if (r->cell[B] * r->cell[M] * r->cell[N] > 0x1p53)
    return pz_fail(r->err, PZ_BAD_INPUT, "%s:%u: b x m x n is more than 2^53 values", r->name,
                   r->csv->lines[i]);
  return status;
}

/* ---- work of a call ------------------------------------------------------------------------- */

static enum pz_status out_of_memory(const struct known *op, struct pz_error *err) {
  return pz_fail(err, PZ_NO_MEMORY, "out of memory for %s", op->name);
}

static enum pz_status product_work(struct pz_cost *cost, const struct known *op,
                                   const double cell[COLUMNS], struct pz_work *w,
                                   struct pz_error *err) {
  const struct pz_chip *c = &cost->chip;
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  struct pz_product p = {(int64_t)cell[B], (int64_t)cell[M], (int64_t)cell[N], (int64_t)cell[K],
                         true};
  struct pz_mapping o = {0};
  bool fp8 = op->form == FP8_PRODUCT;
  enum pz_format format = fp8 ? PZ_FORMAT_FP8_DELAYED : PZ_FORMAT_16BIT;
  double macs = cell[B] * cell[M] * cell[N] * cell[K];
  enum pz_status status =
      fp8 ? pz_cost_format_product(cost, format, &p, &o, err) : pz_cost_product(cost, &p, &o, err);
  *w = pz_cost_mapped_work(c, macs, format, &o);
  if (op->form != LANE_PRODUCT) return status;
  /* 32 bits on the lanes, tiles as a 16-bit one's; each lane a multiply-add a cycle */
  w->core_j += macs * (t->lane_j - t->mac_j);
  w->core_s = macs / (pz_chip_vector_op_per_s(c) * c->calibration.tensor_efficiency);
  return status;
}

static void vector_work(const struct pz_chip *c, const struct known *op, const double cell[COLUMNS],
                        struct pz_work *w) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  double values = cell[B] * cell[M] * cell[N], bytes = 2 * 2 * values;
  struct pz_vector_work v = {op->kind,         PZ_FORWARD, (int64_t)(cell[B] * cell[M]),
                             (int64_t)cell[N], bytes,      true};
  struct pz_vector_time s;
  pz_vector_named(c, op->kernel, &v, &s);
  bytes *= s.moved;
  w->core_j = values * pz_power_lane_ops(c, op->kind, PZ_FORWARD) * t->lane_j + bytes * t->glb_j;
  w->outside_j = bytes * pz_cold_part(c, v.bytes) * t->hbm_j;
  w->startup_s = s.startup_s + s.rows_s;
  w->core_s = s.compute_s;
  w->glb_s = s.glb_s;
  w->hbm_s = s.hbm_s;
}

/* Causal; b samples of as many heads as the column flop says, or one. */
static void attention_work(const struct pz_chip *c, const struct known *op,
                           const double cell[COLUMNS], struct pz_work *w) {
  double scores = cell[M] * cell[N] / 2, flop = 4 * cell[B] * scores * cell[K];
  double heads = fmin(fmax(1, floor(cell[FLOP] / flop + 0.5)), 1 << 20);
  double bytes = 2 * 2 * cell[B] * heads * cell[K] * (cell[M] + cell[N]);
  struct pz_attention_work a = {
      .dims = {(int64_t)(cell[B] * heads), (int64_t)cell[M], (int64_t)cell[N], (int64_t)cell[K]},
      .causal = true,
      .library = op->kernel,
      .bytes = bytes * pz_cold_part(c, bytes)};
  struct pz_estimate e;
  pz_attention_cost(c, &a, &e, w);
}

/* Four blocks of a Llama: b samples of m tokens, n wide, heads of 128, four of which share keys and values, MLP k wide;
 * forward and backward, kernels as PyTorch launches them. */
static enum pz_status blocks_work(struct pz_cost *cost, const struct known *op,
                                  const double cell[COLUMNS], struct pz_vec *works,
                                  struct pz_error *err) {
  enum { LAYERS = 4, WIDTH = 128, SHARE = 4 };
  struct pz_workload_options o = pz_workload_options_default();
  struct pz_workload *w = NULL;
  char text[400];
  int64_t heads = (int64_t)cell[N] / WIDTH;
  int length =
      snprintf(text, sizeof text,
               "{\"model_type\": \"llama\", \"num_hidden_layers\": %d, \"hidden_size\": %.0f, "
               "\"num_attention_heads\": %lld, \"num_key_value_heads\": %lld, "
               "\"intermediate_size\": %.0f, \"vocab_size\": %d, "
               "\"max_position_embeddings\": %.0f}",
               LAYERS, cell[N], (long long)heads, (long long)(heads + SHARE - 1) / SHARE, cell[K],
               WIDTH, cell[M]);
  o.seq = (int64_t)cell[M];
  o.mbs = (int64_t)cell[B];
  o.kernels = PZ_KERNELS_OPERATORS;
  o.attention = PZ_ATTENTION_FLASH;
  enum pz_status status = pz_workload_parse(op->name, text, (size_t)length, &o, &w, err);
  cost->causal = true;
  cost->attention_library = op->kernel;
  for (uint32_t l = 0; status == PZ_OK && l < w->n_layers; l++) {
    if (w->layers[l].count != LAYERS) continue; /* embedding and head */
    for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
      for (uint32_t i = 0; i < w->layers[l].ops[d].n && status == PZ_OK; i++) {
        struct pz_estimate ignored;
        struct pz_work one;
        status = pz_cost_op_work(cost, &w->layers[l].ops[d].op[i], &ignored, &one, err);
        for (int n = 0; n < LAYERS && status == PZ_OK; n++)
          if (!pz_vec_push(works, &one)) status = out_of_memory(op, err);
      }
  }
  pz_workload_free(w);
  return status;
}

/* What one call runs, one after the other. */
static enum pz_status works_of(struct pz_cost *cost, const struct known *op,
                               const double cell[COLUMNS], struct pz_vec *works,
                               struct pz_error *err) {
  struct pz_work w = {0};
  enum pz_status status = PZ_OK;
  works->n = 0;
  switch (op->form) {
  case IDLE: return PZ_OK;
  case BLOCKS: return blocks_work(cost, op, cell, works, err);
  case VECTOR: vector_work(&cost->chip, op, cell, &w); break;
  case ATTENTION: attention_work(&cost->chip, op, cell, &w); break;
  default: status = product_work(cost, op, cell, &w, err);
  }
  w.core_j *= op->activity;
  if (status == PZ_OK && !pz_vec_push(works, &w)) return out_of_memory(op, err);
  return status;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* Each at its own clock; the clock is the mean over time. */
static void run_works(const struct pz_power_law *law, const struct pz_vec *works, double interval_s,
                      struct pz_power *out) {
  struct pz_power sum = {0};
  for (uint32_t i = 0; i < works->n; i++) {
    struct pz_power p;
    pz_power_run(law, pz_vec_at(works, struct pz_work, i), works->n > 1 ? 0 : interval_s, &p);
    sum.latency_s += p.latency_s;
    sum.joules += p.joules;
    sum.clock_hz += p.clock_hz * p.latency_s;
  }
  double time = fmax(sum.latency_s, works->n > 1 ? 0 : interval_s);
  sum.watts = time > 0 ? sum.joules / time : 0;
  sum.clock_hz = sum.latency_s > 0 ? sum.clock_hz / sum.latency_s : 0;
  *out = sum;
}

/* `cool`: the chip without the fitted slower rate of long products, `warm`: with it. */
static enum pz_status predict_row(struct pz_cost *cool, struct pz_cost *warm, struct reader *r,
                                  uint32_t i, struct pz_vec *works, struct pz_power_row *out) {
  uint32_t at;
  enum pz_status status = read_row(r, i, &at);
  if (status != PZ_OK) return status;
  const struct known *op = &known[at];
  const double *cell = r->cell;
  *out = (struct pz_power_row){.op = op->name,
                               .m = (int64_t)cell[M],
                               .n = (int64_t)cell[N],
                               .k = (int64_t)cell[K],
                               .cap_watts = cell[CAP_W],
                               .lock_hz = cell[LOCK_MHZ] * 1e6,
                               .call_s = cell[CALL_US] / 1e6,
                               .watts = cell[WATTS],
                               .clock_hz = cell[MHZ] * 1e6,
                               .joules = cell[JOULES]};
  status = works_of(warm, op, cell, works, r->err);
  for (uint32_t w = 0; w < works->n; w++) {
    const struct pz_work *one = pz_vec_at(works, struct pz_work, w);
    out->throttled_s += pz_work_s(one);
  }
  if (status == PZ_OK) status = works_of(cool, op, cell, works, r->err);
  if (status != PZ_OK) return status;
  struct pz_power_law law = pz_power_law_of(&cool->chip);
  if (out->cap_watts > 0) law.watts = out->cap_watts;
  if (out->lock_hz > 0) law.most_hz = fmin(law.most_hz, out->lock_hz);
  run_works(&law, works, 0, &out->sustained);
  run_works(&law, works, out->call_s, &out->called);
  if (op->form == IDLE) out->sustained.watts = out->called.watts = pz_power_idle_watts(&cool->chip);
  return PZ_OK;
}

static enum pz_status predict_rows(const struct pz_chip *chip, struct reader *r,
                                   struct pz_arena *arena, struct pz_power_table *out) {
  struct pz_chip without = *chip;
  struct pz_cost cool, warm;
  struct pz_vec works;
  /* a GPU's own rates of products and attention were measured at the clock that its watts left */
  enum pz_status status = find_columns(r);
  if (status == PZ_OK && chip->execution == PZ_CHIP_STREAM)
    status = pz_chip_set_class(&without, NULL, r->err);
  without.calibration.throttle = 1;
  if (status != PZ_OK) return status;
  out->rows = pz_arena_alloc(arena, r->csv->rows, sizeof *out->rows);
  if (!out->rows) return pz_fail(r->err, PZ_NO_MEMORY, "%s: out of memory", r->name);
  pz_vec_init(&works, arena, sizeof(struct pz_work));
  pz_cost_init(&cool, &without, NULL);
  pz_cost_init(&warm, chip, NULL);
  for (; out->n_rows < r->csv->rows && status == PZ_OK; out->n_rows++)
    status = predict_row(&cool, &warm, r, out->n_rows, &works, &out->rows[out->n_rows]);
  pz_cost_release(&cool);
  pz_cost_release(&warm);
  return status;
}

enum pz_status pz_power_table(const struct pz_chip *chip, const char *name, const char *text,
                              size_t bytes, struct pz_power_table **out, struct pz_error *err) {
  struct pz_csv csv;
  struct reader r = {.name = name, .csv = &csv, .err = err};
  struct pz_arena *arena;
  void *made = NULL;
  enum pz_status status = pz_chip_check(chip, err);
  if (status == PZ_OK) status = pz_need_each(err, {name, "name"}, {text, "text"}, {out, "out"});
  if (status == PZ_OK) status = pz_held_new(sizeof **out, name, &made, &arena, err);
  if (status != PZ_OK) return status;
  status = pz_csv_parse(name, text, bytes, arena, &csv, err);
  if (status == PZ_OK) status = predict_rows(chip, &r, arena, made);
  return pz_held_give(status, made, out);
}

void pz_power_table_free(struct pz_power_table *t) { pz_held_free(t); }
