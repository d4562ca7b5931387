/* The time of a vector operator, from the data sheet or from the measured kernel of a calibration.
 *
 * Terms: start-up of a kernel; a time for each row (row_s, value_latency_s), since a kernel
 * finishes its rows one after the other; lane cycles; HBM traffic, which ramps up to its rate;
 * traffic of the global buffer.  Lane cycles and traffic overlap. Simplifications: an operator has
 * one rate for reads and writes; a chip known by its data sheet has no start-up per row. */
#include "cost/vector.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "workload/op.h"

/* Cycles of a lane for one value, forward and backward.  They are those of the original system:
 * add, relu, norms 1/1 and mul 1/2; dropout 2/1; softmax 10 and a summing pass / 2; silu 12/2; tanh
 * 27/2; mean 10/10; sin, cos 13/2; powers and roots 15/16. It took GELU for ReLU; here GELU costs
 * its tanh and eight simple steps, and backward twice the simple steps and the tanh again.
 * Operators that only move data cost 1. */
static const unsigned char lane_cycles[PZ_OP_KINDS][2] = {
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
    [PZ_OP_DELTA_RULE] = {30, 0}, /* one token, for a value of its state */
};

/* Returns the measured kernel of an operator (`kind` is an enum pz_op_kind), or NULL if there is
 * none.  In the backward direction, the kernel of the derivative is preferred if it was measured.
 * Sorting, gathering and scattering of rows run kernels of other operators in both directions:
 * whole rows are moved, whatever the order, or added up. */
static const struct pz_kernel *find_kernel(const struct pz_chip *chip, int kind,
                                           enum pz_direction direction) {
  bool moves_rows = kind == PZ_OP_SORT || kind == PZ_OP_GATHER_ROWS || kind == PZ_OP_SCATTER_ADD;
  if (moves_rows) {
    bool adds_rows = kind == (direction == PZ_FORWARD ? PZ_OP_SCATTER_ADD : PZ_OP_GATHER_ROWS);
    direction = PZ_FORWARD;
    kind = adds_rows ? PZ_OP_SCATTER_ADD : PZ_OP_DISPATCH;
  }
  const char *name = pz_op_info(kind)->name;
  char derivative[sizeof chip->calibration.kernels[0].kind];
  const struct pz_kernel *kernel = NULL;
  if (chip->calibration.n_kernels == 0) return NULL;
  if (direction == PZ_BACKWARD &&
      snprintf(derivative, sizeof derivative, "%s_bwd", name) < (int)sizeof derivative)
    kernel = pz_chip_kernel(chip, derivative);
  return kernel ? kernel : pz_chip_kernel(chip, name);
}

/* Returns the cycles of a lane for one value, of the measured kernel if there is one. */
double pz_vector_cycles(const struct pz_chip *chip, int kind, enum pz_direction direction) {
  const struct pz_kernel *kernel = find_kernel(chip, kind, direction);
  return kernel ? kernel->cycles : lane_cycles[kind][direction];
}

/* Sets *out to the times of a measured kernel.  A kernel reaches the full rate of HBM after it has
 * moved RAMP_BUFFERS times the global buffer, which costs hbm_ramp_s (fitted to casts of 20 MB to 5
 * GB on H100 to GB300: NVIDIA AIConfigurator, fp8_quant.static; only the presets of Blackwell have
 * it). Rows beyond long_row do not stay on the core and are read again.  The default kernel stands
 * for many operators, so the cycles of the operator itself replace those of the kernel.
 *
 * Each row beyond block_from runs on one thread block.  The blocks run in waves that fill the
 * threads of all cores and overlap except for the first.  A thread has 8 values of a row, a block
 * at most 1,024 threads, and a core 2,048 (limits of CUDA).  The time of a block grows with its row
 * up to 4,096 values, and the rest of longer rows is loaded during its reductions: softmax on an
 * H200 takes the same time from 4,096 to 14,336 values. */
static void time_measured(const struct pz_chip *chip, const struct pz_kernel *kernel,
                          const struct pz_vector_work *work, struct pz_vector_time *out) {
  static const double VALUES_PER_THREAD = 8, MOST_THREADS = 1024, THREADS_PER_CORE = 2048;
  static const double MOST_BLOCK_VALUES = 4096, RAMP_BUFFERS = 2.4;
  double rows = (double)work->rows, cols = (double)work->cols, values = rows * cols;
  double bytes = kernel->bytes_per_value > 0 ? kernel->bytes_per_value * values : work->bytes;
  bool reads_again = kernel->long_row && work->cols > kernel->long_row;
  out->moved = reads_again ? 1 + kernel->long_row_again : 1;
  out->startup_s = kernel->startup_s;
  out->rows_s =
      kernel->value_latency_s * cols + ceil(rows / (double)chip->vector.cores) * kernel->row_s;
  double rate = pz_chip_hbm_bytes_per_s(chip) * kernel->hbm_efficiency;
  double ramp_s =
      chip->calibration.hbm_ramp_s * fmin(1, bytes / (RAMP_BUFFERS * (double)chip->glb_bytes));
  double cold = work->warm ? pz_cold_part(chip, work->bytes) : 1;
  out->hbm_s = (out->moved * bytes / rate + ramp_s) * cold;
  out->glb_s = bytes / (chip->glb_bytes_per_s * chip->calibration.glb_efficiency);
  if (kernel->block_from && work->cols > kernel->block_from) {
    double threads = fmin(MOST_THREADS, cols / VALUES_PER_THREAD);
    double waves = rows * threads / THREADS_PER_CORE / (double)chip->vector.cores;
    double block_s = kernel->block_row_s + kernel->block_value_s * fmin(cols, MOST_BLOCK_VALUES);
    out->compute_s = fmax(1, waves) * block_s;
    return;
  }
  bool is_default = strcmp(kernel->kind, "default") == 0;
  double cycles = is_default ? pz_vector_cycles(chip, work->kind, work->direction) : kernel->cycles;
  double lanes = (double)(chip->vector.lanes * chip->vector.cores);
  out->compute_s = ceil(values / lanes) * cycles / chip->clock_hz;
}

/* Sets *out to the time of an operator by a measured kernel: the named one, or else its own. */
void pz_vector_named(const struct pz_chip *chip, const char *kernel_kind,
                     const struct pz_vector_work *work, struct pz_vector_time *out) {
  const struct pz_kernel *kernel = kernel_kind ? pz_chip_kernel(chip, kernel_kind) : NULL;
  if (!kernel) kernel = find_kernel(chip, work->kind, work->direction);
  if (!kernel) kernel = pz_chip_kernel(chip, "default");
  *out = (struct pz_vector_time){.moved = 1};
  if (kernel)
    time_measured(chip, kernel, work, out);
  else {
    /* The chip is known only by its data sheet. */
    const struct pz_calibration *calibration = &chip->calibration;
    double rate = pz_chip_hbm_bytes_per_s(chip) *
                  fmin(calibration->hbm_read_efficiency, calibration->hbm_write_efficiency);
    double values = (double)work->rows * (double)work->cols;
    out->startup_s = calibration->startup_s;
    double lanes = (double)(chip->vector.lanes * chip->vector.cores);
    out->compute_s =
        ceil(values / lanes) * lane_cycles[work->kind][work->direction] / chip->clock_hz;
    out->hbm_s = work->bytes / rate * (work->warm ? pz_cold_part(chip, work->bytes) : 1);
    out->glb_s = work->bytes / (chip->glb_bytes_per_s * calibration->glb_efficiency);
  }
  if (!chip->rules.vector_memory) out->hbm_s = out->glb_s = 0;
  pz_vector_conclude(out);
}

void pz_vector_time(const struct pz_chip *chip, const struct pz_vector_work *work,
                    struct pz_vector_time *out) {
  pz_vector_named(chip, NULL, work, out);
}

/* Sets latency and bound: the time of rows and of the longest resource follow the start-up. */
void pz_vector_conclude(struct pz_vector_time *time) {
  double work_s = fmax(time->compute_s, fmax(time->hbm_s, time->glb_s));
  time->latency_s = time->startup_s + time->rows_s + work_s;
  if (time->startup_s > time->rows_s + work_s)
    time->bound = PZ_BOUND_STARTUP;
  else if (time->rows_s > work_s || time->compute_s >= work_s)
    time->bound = PZ_BOUND_COMPUTE;
  else
    time->bound = time->hbm_s >= work_s ? PZ_BOUND_HBM : PZ_BOUND_GLB;
}
