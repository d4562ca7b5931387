#include "cost/vector.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "workload/op.h"

/* Cycles per value, forward and backward.  Those of the original system: add, relu, norms 1/1 and
 * mul 1/2; dropout 2/1; softmax 10 and a summing pass / 2; silu 12/2; tanh 27/2; mean 10/10; sin,
 * cos 13/2; powers and roots 15/16. GELU, which it took for ReLU, costs its tanh and eight simple
 * steps, backward twice the simple ones and the tanh again; what moves data costs 1. */
static const unsigned char cycles[PZ_OP_KINDS][2] = {
    [PZ_OP_ADD] = {1, 1},         [PZ_OP_BIAS] = {1, 1},
    [PZ_OP_MUL] = {1, 2},         [PZ_OP_SCALE] = {1, 1},
    [PZ_OP_SCALE_MASK] = {2, 1},  [PZ_OP_POW] = {15, 16},
    [PZ_OP_MEAN] = {10, 10},      [PZ_OP_RSQRT] = {15, 16},
    [PZ_OP_TANH] = {27, 2},       [PZ_OP_COS] = {13, 2},
    [PZ_OP_SIN] = {13, 2},        [PZ_OP_ROTATE_HALF] = {1, 1},
    [PZ_OP_CONCAT] = {1, 1},      [PZ_OP_CAST] = {1, 1},
    [PZ_OP_COPY] = {1, 1},        [PZ_OP_REPEAT] = {1, 1},
    [PZ_OP_GELU] = {35, 43},      [PZ_OP_RELU] = {1, 1},
    [PZ_OP_SILU] = {12, 2},       [PZ_OP_SWIGLU] = {13, 4},
    [PZ_OP_SOFTMAX] = {11, 2},    [PZ_OP_LOG_SOFTMAX] = {11, 2},
    [PZ_OP_NLL_LOSS] = {1, 1},    [PZ_OP_CROSS_ENTROPY] = {12, 3},
    [PZ_OP_LAYERNORM] = {1, 1},   [PZ_OP_RMSNORM] = {1, 1},
    [PZ_OP_DROPOUT] = {2, 1},     [PZ_OP_ROTARY] = {3, 3},
    [PZ_OP_EMBEDDING] = {1, 1},   [PZ_OP_REDUCE] = {1, 1},
    [PZ_OP_TOPK] = {1, 1},        [PZ_OP_DISPATCH] = {1, 1},
    [PZ_OP_COMBINE] = {2, 3},     [PZ_OP_SIGMOID] = {11, 2},
    [PZ_OP_SORT] = {1, 1},        [PZ_OP_GATHER_ROWS] = {1, 1},
    [PZ_OP_SCATTER_ADD] = {1, 1}, [PZ_OP_CONV1D] = {45, 90},
    [PZ_OP_DELTA_RULE] = {30, 0}, /* a step of one token, for a value of its state */
};

/* A thread of a block takes this many values of a row; a core runs so many threads (CUDA limits).
 */
static const double VALUES_PER_THREAD = 8, MOST_THREADS = 1024, THREADS_PER_CORE = 2048;

/* A block's time grows with its row up to here; it loads the rest of longer rows beside its
 * reductions.  As measured (softmax on an H200): the same time from 4,096 to 14,336 values. */
static const double MOST_BLOCK_VALUES = 4096;

/* Operators whose kernels are those of others: whole rows move, whatever the order, or are added up. */
static const char *kernel_name(int kind, enum pz_direction *direction) {
  bool adds = kind == (*direction == PZ_FORWARD ? PZ_OP_SCATTER_ADD : PZ_OP_GATHER_ROWS);
  if (kind != PZ_OP_SORT && kind != PZ_OP_GATHER_ROWS && kind != PZ_OP_SCATTER_ADD)
    return pz_op_info(kind)->name;
  *direction = PZ_FORWARD;
  return pz_op_info(adds ? PZ_OP_SCATTER_ADD : PZ_OP_DISPATCH)->name;
}

/* The kernel of an operator or of its derivative, or NULL. */
static const struct pz_kernel *own_kernel(const struct pz_chip *c, int kind,
                                          enum pz_direction direction) {
  const char *name = kernel_name(kind, &direction);
  char derivative[sizeof c->calibration.kernels[0].kind];
  const struct pz_kernel *k = NULL;
  if (c->calibration.n_kernels == 0) return NULL;
  if (direction == PZ_BACKWARD &&
      snprintf(derivative, sizeof derivative, "%s_bwd", name) < (int)sizeof derivative)
    k = pz_chip_kernel(c, derivative);
  return k ? k : pz_chip_kernel(c, name);
}

static const struct pz_kernel *kernel_of(const struct pz_chip *c, const struct pz_vector_work *w) {
  const struct pz_kernel *k = own_kernel(c, w->kind, w->direction);
  return k ? k : pz_chip_kernel(c, "default");
}

double pz_vector_cycles(const struct pz_chip *c, int kind, enum pz_direction direction) {
  const struct pz_kernel *own = own_kernel(c, kind, direction);
  return own ? own->cycles : cycles[kind][direction];
}

static double lane_seconds(const struct pz_chip *c, double values, double per_value) {
  double lanes = (double)(c->vector.lanes * c->vector.cores);
  return ceil(values / lanes) * per_value / c->clock_hz;
}

/* Long rows, one block of threads each, in waves of as many blocks as the cores have threads for;
 * all but the first overlap. */
static double block_seconds(const struct pz_chip *c, const struct pz_kernel *k, double rows,
                            double cols) {
  double threads = fmin(MOST_THREADS, cols / VALUES_PER_THREAD);
  double waves = rows * threads / THREADS_PER_CORE / (double)c->vector.cores;
  return fmax(1, waves) * (k->block_row_s + k->block_value_s * fmin(cols, MOST_BLOCK_VALUES));
}

/* The default kernel stands for many operators: their own cycles count. */
static double cycles_of(const struct pz_chip *c, const struct pz_vector_work *w,
                        const struct pz_kernel *k) {
  return strcmp(k->kind, "default") == 0 ? pz_vector_cycles(c, w->kind, w->direction) : k->cycles;
}

/* Until a kernel draws the full rate of HBM it has moved BUFFERS (no unit) times the global buffer: with hbm_ramp_s from casts
 * of 20 MB to 5 GB on H100 to GB300 (NVIDIA AIConfigurator, fp8_quant.static).  Only Blackwell's presets have the ramp. */
static double ramp_s(const struct pz_chip *c, double bytes) {
  static const double BUFFERS = 2.4;
  return c->calibration.hbm_ramp_s * fmin(1, bytes / (BUFFERS * (double)c->glb_bytes));
}

static void measured_time(const struct pz_chip *c, const struct pz_vector_work *w,
                          const struct pz_kernel *k, struct pz_vector_time *o) {
  double rows = (double)w->rows, cols = (double)w->cols, values = rows * cols;
  double bytes = k->bytes_per_value > 0 ? k->bytes_per_value * values : w->bytes;
  double again = k->long_row && w->cols > k->long_row ? 1 + k->long_row_again : 1;
  double rate = pz_chip_hbm_bytes_per_s(c) * k->hbm_efficiency;
  o->moved = again; /* past the global buffer: rows that lie there are not slower */
  o->startup_s = k->startup_s;
  o->rows_s = k->value_latency_s * cols + ceil(rows / (double)c->vector.cores) * k->row_s;
  o->hbm_s = (again * bytes / rate + ramp_s(c, bytes)) * (w->warm ? pz_cold_part(c, w->bytes) : 1);
  o->glb_s = bytes / (c->glb_bytes_per_s * c->calibration.glb_efficiency);
  bool block = k->block_from && w->cols > k->block_from;
  o->compute_s =
      block ? block_seconds(c, k, rows, cols) : lane_seconds(c, values, cycles_of(c, w, k));
}

static void described_time(const struct pz_chip *c, const struct pz_vector_work *w,
                           struct pz_vector_time *o) {
  const struct pz_calibration *cal = &c->calibration;
  double rate =
      pz_chip_hbm_bytes_per_s(c) * fmin(cal->hbm_read_efficiency, cal->hbm_write_efficiency);
  o->startup_s = cal->startup_s;
  o->compute_s = lane_seconds(c, (double)w->rows * (double)w->cols, cycles[w->kind][w->direction]);
  o->hbm_s = w->bytes / rate * (w->warm ? pz_cold_part(c, w->bytes) : 1);
  o->glb_s = w->bytes / (c->glb_bytes_per_s * cal->glb_efficiency);
}

static void time_with(const struct pz_chip *c, const struct pz_kernel *k,
                      const struct pz_vector_work *w, struct pz_vector_time *out) {
  struct pz_vector_time o = {.moved = 1};
  if (k)
    measured_time(c, w, k, &o);
  else
    described_time(c, w, &o);
  if (!c->rules.vector_memory) o.hbm_s = o.glb_s = 0;
  *out = o;
  pz_vector_conclude(out);
}

void pz_vector_time(const struct pz_chip *c, const struct pz_vector_work *w,
                    struct pz_vector_time *out) {
  time_with(c, kernel_of(c, w), w, out);
}

void pz_vector_named(const struct pz_chip *c, const char *kernel, const struct pz_vector_work *w,
                     struct pz_vector_time *out) {
  const struct pz_kernel *k = pz_chip_kernel(c, kernel);
  time_with(c, k ? k : kernel_of(c, w), w, out);
}

void pz_vector_conclude(struct pz_vector_time *t) {
  double work = fmax(t->compute_s, fmax(t->hbm_s, t->glb_s));
  t->latency_s = t->startup_s + t->rows_s + work;
  t->bound = t->startup_s > t->rows_s + work            ? PZ_BOUND_STARTUP
             : t->rows_s > work || t->compute_s >= work ? PZ_BOUND_COMPUTE
             : t->hbm_s >= work                         ? PZ_BOUND_HBM
                                                        : PZ_BOUND_GLB;
}
