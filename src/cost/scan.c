/* Counts and times of chunked scans.  Terms: a start-up for each kernel; GEMMs, lanes and thread
 * blocks of the kernels for all chunks, overlapped in part with their memory traffic; and the pass
 * over the chunks, in which each chunk waits for the state of the one before.  Simplifications: all
 * GEMMs of a kernel reach the same rate; memory traffic beside inputs and results is that of
 * intermediate tensors, each written and read once. */
#include "cost/scan.h"

#include <math.h>

#include "cost/constants.h"
#include "cost/mapper.h"
#include "cost/vector.h"
#include "workload/op.h"

/* Coefficients of one token of a head with chunks of C tokens.  Multiply-accumulates: in n k (nk),
 * C k (ck), C n (cn) and C C (cc); Mamba-2's scores in C k count (C + BLOCK) / 2, since blocks of
 * BLOCK tokens skip those that come later.  Bytes besides inputs and results: in k, n and C, and of
 * each chunk in n k (state_bytes).  States are in fp32 (Mamba-2) or 16 bits. */
struct token_counts {
  double nk, ck, cn, cc;
  double k_bytes, n_bytes, c_bytes, state_bytes;
};

/* B and C of Mamba-2 and their product belong to a group of heads: one over the heads of a group,
 * those of Nemotron.  The operator's own bytes are right for any group. */
#define GROUP 0.125

/* The kernels of each operator and direction. */
static const struct scan_kernels {
  double kernels; /* number of kernels */
  double blocks;  /* number of kernels with one thread block for each chunk of a head */
  double passes;  /* number of kernels that pass over the chunks in order */
  struct token_counts all_chunks, pass; /* kernels that work on all chunks, and those of the pass */
  double exponentials;                  /* exponentials for each score (its decay) */
} scan_kernels[2][2] = {
    /* Mamba-2 forward: sums of decays, C B of a group, states of chunks, their pass, output */
    {{.kernels = 6,
      .blocks = 2,
      .all_chunks = {2, 1, GROUP, 0, 2, 4 * GROUP, 8 * GROUP, 8},
      .pass = {.state_bytes = 8},
      .exponentials = 1},
     /* Mamba-2 backward: the first four kernels again, and gradients of states, x, B, C and
      * decays */
     {.kernels = 15,
      .blocks = 6,
      .all_chunks = {5, 3, 3 * GROUP, 0, 16, 8 * GROUP, 24 * GROUP, 14},
      .pass = {.state_bytes = 20},
      .exponentials = 3}},
    /* Delta rule forward: norms, sums, K K^T and inverse, new keys and values, states, output */
    {{.kernels = 7,
      .blocks = 3,
      .passes = 1,
      .all_chunks = {1, 3, 2, 0, 10, 4, 4, 2},
      .pass = {2, 0, 0, 0, 4, 4, 0, 2},
      .exponentials = 1},
     /* Delta rule backward: new keys and values and states again, gradients of values inside a
      * chunk, of states, queries, keys, decays and of the inverse, and sums */
     {.kernels = 12,
      .blocks = 5,
      .passes = 2,
      .all_chunks = {3, 10, 5, 2, 30, 14, 4, 4},
      .pass = {5, 0, 0, 0, 10, 10, 0, 4},
      .exponentials = 2}},
};

/* The delta rule of serving libraries, which write K K^T in fp32 and invert it separately. */
static const struct scan_kernels served_delta = {.kernels = 8,
                                                 .blocks = 4,
                                                 .passes = 1,
                                                 .all_chunks = {1, 3, 2, 0, 10, 4, 12, 2},
                                                 .pass = {2, 0, 0, 0, 4, 4, 0, 2},
                                                 .exponentials = 1};

/* Returns the row of scan_kernels for an operator, or the kernels of serving libraries. */
static const struct scan_kernels *find_kernels(const struct pz_scan_work *work) {
  bool is_delta_rule = work->kind == PZ_OP_DELTA_RULE;
  if (work->served && is_delta_rule) return &served_delta;
  return &scan_kernels[is_delta_rule][work->direction];
}

/* Returns what the kernels of a scan compute, read and write: the sum of the kernels that work on
 * all chunks in parallel, and of the pass that hands the state (n x k values for each head) from
 * chunk to chunk.  For each token of a head, struct token_counts has the coefficients of products
 * of n, k and the chunk's length, such as nk for multiply-accumulates with the state.  The last
 * chunk of a sample counts as a whole one in multiply-accumulates.  Mamba-2 skips blocks of BLOCK
 * later tokens. */
struct pz_scan_counts pz_scan_counts(const struct pz_scan_work *work) {
  static const double BLOCK = 64;
  static const double CYCLES = 12; /* an exponential and a multiplication, as in a softmax */
  const struct scan_kernels *kernels = find_kernels(work);
  double n = (double)work->dims.n, k = (double)work->dims.k, chunk = (double)work->chunk;
  double heads = (double)work->dims.batch, tokens = (double)work->dims.m;
  double chunks = ceil(tokens / chunk);
  bool skips_blocks = work->kind == PZ_OP_SSM_SCAN && chunk > BLOCK;
  double scores = skips_blocks ? (chunk + BLOCK) / 2 : chunk; /* mean number for a token */
  const struct token_counts *const parts[] = {&kernels->all_chunks, &kernels->pass};
  double macs[2], bytes[2];
  for (int i = 0; i < 2; i++) {
    const struct token_counts *token = parts[i];
    double token_bytes = token->k_bytes * k + token->n_bytes * n + token->c_bytes * chunk;
    double token_macs = token->nk * n * k + token->ck * scores * k + token->cn * chunk * n +
                        token->cc * chunk * chunk;
    macs[i] = heads * chunks * chunk * token_macs;
    bytes[i] = heads * (tokens * token_bytes + chunks * token->state_bytes * n * k);
  }
  return (struct pz_scan_counts){.macs = fmax(work->macs, macs[0] + macs[1]),
                                 .bytes = work->bytes + bytes[0] + bytes[1],
                                 .pass_macs = macs[1],
                                 .pass_bytes = bytes[1],
                                 .lane_ops =
                                     kernels->exponentials * CYCLES * (heads * tokens * scores),
                                 .kernels = kernels->kernels};
}

/* Returns the work of an operator of a graph. */
struct pz_scan_work pz_scan_work_of(const struct pz_op *op) {
  return (struct pz_scan_work){.kind = op->kind,
                               .direction = op->direction,
                               .dims = op->dims,
                               .chunk = op->span > 0 ? op->span : op->dims.m,
                               .bytes = (double)(op->bytes_read + op->bytes_written),
                               .macs = (double)op->matmul_flop / 2};
}

/* Returns the multiply-accumulates of the chip in a second.  On GPUs, Triton's GEMMs of small tiles
 * wait for each other and reach scan_products in a cycle of a core of Hopper, Blackwell and Ada,
 * similar to attention (chip/cold.def: 334).  On other chips, a systolic array is filled anew for
 * each chunk, and widths that are shorter than the array leave a part of it unused. */
static double macs_per_s(const struct pz_chip *chip, const struct pz_scan_work *work) {
  double n = (double)work->dims.n, k = (double)work->dims.k, chunk = (double)work->chunk;
  double rows = (double)chip->tensor.rows, cols = (double)chip->tensor.cols;
  double cores_hz = (double)chip->tensor.cores * chip->clock_hz;
  if (chip->execution == PZ_CHIP_STREAM) {
    const struct pz_constants *constants = &pz_constants_default;
    return cores_hz * fmin(rows * cols / constants->scan_tuned, constants->scan_products);
  }
  rows = fmin(rows, fmin(n, k));
  cols = fmin(cols, fmax(n, k));
  double filled = chip->rules.fill ? chunk / (chunk + rows + cols) : 1;
  return cores_hz * chip->calibration.tensor_efficiency * filled * rows * cols;
}

/* Sets *out to the times of a scan: its kernels that work on all chunks at a time, and the pass
 * that hands the state from one chunk to the next. */
void pz_scan_time(const struct pz_chip *chip, const struct pz_scan_work *work,
                  struct pz_scan_time *out) {
  /* About a third of all bytes are intermediate tensors that the next kernel reads. */
  static const double THIRD = 1.0 / 3;
  const struct pz_constants *constants = &pz_constants_default;
  const struct pz_calibration *calibration = &chip->calibration;
  const struct scan_kernels *kernels = find_kernels(work);
  const struct pz_kernel *default_kernel = pz_chip_kernel(chip, "default");
  struct pz_scan_counts total = pz_scan_counts(work);
  bool is_gpu = chip->execution == PZ_CHIP_STREAM;
  bool is_tuned =
      is_gpu && work->kind == PZ_OP_DELTA_RULE && work->direction == PZ_FORWARD && !work->served;
  double tuned = is_tuned ? constants->scan_tuned : 1;

  double hbm_efficiency = fmin(calibration->hbm_read_efficiency, calibration->hbm_write_efficiency);
  if (default_kernel) hbm_efficiency = default_kernel->hbm_efficiency;
  double cold = work->warm ? pz_cold_part(chip, THIRD * total.bytes) : 1;
  double byte_s = fmax(cold / (pz_chip_hbm_bytes_per_s(chip) * hbm_efficiency),
                       1 / (chip->glb_bytes_per_s * calibration->glb_efficiency));
  double mac_s = 1 / (tuned * macs_per_s(chip, work));
  double lane_s = total.lane_ops / pz_chip_vector_op_per_s(chip);
  double block_s = constants->scan_block / (tuned * (double)chip->tensor.cores * chip->clock_hz);
  double chunks = ceil((double)work->dims.m / (double)work->chunk);
  double blocks_s = is_gpu ? kernels->blocks * (double)work->dims.batch * chunks * block_s : 0;

  /* Decays are computed between the GEMMs of a chunk, and overlap with neither.  Arithmetic and
   * memory traffic overlap in part: the root of the sum of their squares, as in attention. */
  double chunks_compute_s = (total.macs - total.pass_macs) * mac_s + lane_s + blocks_s;
  double chunks_memory_s = (total.bytes - total.pass_bytes) * byte_s;
  double all_chunks_s =
      sqrt(chunks_compute_s * chunks_compute_s + chunks_memory_s * chunks_memory_s);

  /* In the pass, a chunk waits for the state of the one before, and the first for all kernels. */
  double pass_compute_s = total.pass_macs * mac_s, pass_memory_s = total.pass_bytes * byte_s;
  double pass_s = sqrt(pass_compute_s * pass_compute_s + pass_memory_s * pass_memory_s);
  double first_part = fmin(1, (double)work->dims.m / (double)work->chunk);
  double wait_s = kernels->passes * constants->scan_step / (tuned * chip->clock_hz) * chunks;
  double first_s = kernels->passes * constants->scan_chunk * first_part / (tuned * chip->clock_hz);
  if (!is_gpu) wait_s = first_s = 0;
  *out = (struct pz_scan_time){
      .startup_s = is_gpu ? kernels->kernels * constants->scan_kernel_s : calibration->startup_s,
      .compute_s = chunks_compute_s + first_s + fmax(pass_compute_s, wait_s),
      .hbm_s = total.bytes * byte_s,
      .lane_s = lane_s,
      .work_s = first_s + all_chunks_s + cbrt(pass_s * pass_s * pass_s + wait_s * wait_s * wait_s)};
}
