#include "cost/scan.h"

#include <math.h>

#include "cost/constants.h"
#include "cost/mapper.h"
#include "cost/vector.h"
#include "workload/op.h"

/* For each token of a head, with a chunk of C tokens (of Mamba-2's scores in C k, (C + BLOCK) / 2: blocks of BLOCK tokens
 * skip those that come later): multiply-accumulates in n k, C k, C n and C C; bytes beside those of
 * inputs and results in k, n, C, and for each chunk in n k.  States are in fp32 (Mamba-2) or 16 bit. */
struct part {
  double nk, ck, cn, cc;
  double k_bytes, n_bytes, c_bytes, state_bytes;
};

/* Kernels, `blocks` of them with a block of threads for each chunk of a head, and those that pass over chunks `passes`
 * times.  B and C of Mamba-2, and their product, are of a group of heads: GROUP (no unit) is one over its heads, those of
 * Nemotron; the operator's own bytes are right for any. */
#define GROUP 0.125

static const struct kernels {
  double kernels, blocks, passes;
  struct part all, pass;
  double exponentials; /* in C: decays of the scores */
} forms[2][2] = {
    /* sums of the decays, C B of a group, states of chunks, their passing on, output */
    {{.kernels = 6,
      .blocks = 2,
      .all = {2, 1, GROUP, 0, 2, 4 * GROUP, 8 * GROUP, 8},
      .pass = {.state_bytes = 8},
      .exponentials = 1},
     /* the first four again; gradients of states from the output, passed back; of x, B, C, C B, its factors, decays */
     {.kernels = 15,
      .blocks = 6,
      .all = {5, 3, 3 * GROUP, 0, 16, 8 * GROUP, 24 * GROUP, 14},
      .pass = {.state_bytes = 20},
      .exponentials = 3}},
    /* both norms, sums, K K^T with its inverse, new keys and values, states, output */
    {{.kernels = 7,
      .blocks = 3,
      .passes = 1,
      .all = {1, 3, 2, 0, 10, 4, 4, 2},
      .pass = {2, 0, 0, 0, 4, 4, 0, 2},
      .exponentials = 1},
     /* new keys and values and states again; local gradients of values, states backwards, gradients of queries, keys and
      * decays, of the inverse, sums */
     {.kernels = 12,
      .blocks = 5,
      .passes = 2,
      .all = {3, 10, 5, 2, 30, 14, 4, 4},
      .pass = {5, 0, 0, 0, 10, 10, 0, 4},
      .exponentials = 2}},
};

/* The delta rule of serving libraries: K K^T is written in fp32, its inverse a kernel of its own. */
static const struct kernels served_delta = {.kernels = 8,
                                            .blocks = 4,
                                            .passes = 1,
                                            .all = {1, 3, 2, 0, 10, 4, 12, 2},
                                            .pass = {2, 0, 0, 0, 4, 4, 0, 2},
                                            .exponentials = 1};

static bool is_tuned(const struct pz_scan_work *w) {
  return w->kind == PZ_OP_DELTA_RULE && w->direction == PZ_FORWARD && !w->served;
}

static const struct kernels *form_of(const struct pz_scan_work *w) {
  if (w->served && w->kind == PZ_OP_DELTA_RULE) return &served_delta;
  return &forms[w->kind == PZ_OP_DELTA_RULE][w->direction];
}

static double chunks_of(const struct pz_scan_work *w) {
  return ceil((double)w->dims.m / (double)w->chunk);
}

/* Tokens of a chunk that one of them is multiplied with, on average. */
static double scores_of(const struct pz_scan_work *w) {
  static const double BLOCK = 64;
  double c = (double)w->chunk;
  return w->kind == PZ_OP_SSM_SCAN && c > BLOCK ? (c + BLOCK) / 2 : c;
}

/* Kernels compute whole chunks. */
static double part_macs(const struct pz_scan_work *w, const struct part *p) {
  double n = (double)w->dims.n, k = (double)w->dims.k, c = (double)w->chunk;
  return (double)w->dims.batch * chunks_of(w) * c *
         (p->nk * n * k + p->ck * scores_of(w) * k + p->cn * c * n + p->cc * c * c);
}

static double part_bytes(const struct pz_scan_work *w, const struct part *p) {
  double n = (double)w->dims.n, k = (double)w->dims.k, c = (double)w->chunk;
  return (double)w->dims.batch *
         ((double)w->dims.m * (p->k_bytes * k + p->n_bytes * n + p->c_bytes * c) +
          chunks_of(w) * p->state_bytes * n * k);
}

struct pz_scan_counts pz_scan_counts(const struct pz_scan_work *w) {
  static const double CYCLES = 12; /* an exponential and a product, as a softmax has */
  const struct kernels *f = form_of(w);
  double scores = (double)w->dims.batch * (double)w->dims.m * scores_of(w);
  return (struct pz_scan_counts){
      .macs = fmax(w->macs, part_macs(w, &f->all) + part_macs(w, &f->pass)),
      .bytes = w->bytes + part_bytes(w, &f->all) + part_bytes(w, &f->pass),
      .lane_ops = f->exponentials * CYCLES * scores,
      .kernels = f->kernels};
}

struct pz_scan_work pz_scan_work_of(const struct pz_op *op) {
  return (struct pz_scan_work){.kind = op->kind,
                               .direction = op->direction,
                               .dims = op->dims,
                               .chunk = op->span > 0 ? op->span : op->dims.m,
                               .bytes = (double)(op->bytes_read + op->bytes_written),
                               .macs = (double)op->matmul_flop / 2};
}

/* Multiply-accumulates of the chip in a second.  On GPUs, Triton's products of small tiles wait for each other: as many in
 * a cycle of a core of Hopper, Blackwell and Ada, about those of its attention (chip/cold.def: 334).  Elsewhere a systolic
 * array is filled anew for the tokens of each chunk, and holds only as much as the widths have. */
static double scan_rate(const struct pz_chip *c, const struct pz_scan_work *w) {
  double n = (double)w->dims.n, k = (double)w->dims.k, chunk = (double)w->chunk;
  double rows = (double)c->tensor.rows, cols = (double)c->tensor.cols;
  double cores_hz = (double)c->tensor.cores * c->clock_hz;
  if (c->execution == PZ_CHIP_STREAM) {
    const struct pz_constants *constants = &pz_constants_default;
    return cores_hz * fmin(rows * cols / constants->scan_tuned, constants->scan_products);
  }
  rows = fmin(rows, fmin(n, k));
  cols = fmin(cols, fmax(n, k));
  double filled = c->rules.fill ? chunk / (chunk + rows + cols) : 1;
  return cores_hz * c->calibration.tensor_efficiency * filled * rows * cols;
}

/* Arithmetic and memory of one kernel overlap in part: the root of their squares, as in attention. */
static double overlapped(double a, double b) { return sqrt(a * a + b * b); }

void pz_scan_time(const struct pz_chip *c, const struct pz_scan_work *w, struct pz_scan_time *out) {
  static const double THIRD = 1.0 / 3; /* of all bytes, that one kernel has of another */
  const struct pz_constants *k = &pz_constants_default;
  const struct kernels *f = form_of(w);
  const struct pz_kernel *other = pz_chip_kernel(c, "default");
  struct pz_scan_counts all = pz_scan_counts(w);
  bool stream = c->execution == PZ_CHIP_STREAM;
  double reached =
      other ? other->hbm_efficiency
            : fmin(c->calibration.hbm_read_efficiency, c->calibration.hbm_write_efficiency);
  double cold = w->warm ? pz_cold_part(c, THIRD * all.bytes) : 1;
  double byte_s = fmax(cold / (pz_chip_hbm_bytes_per_s(c) * reached),
                       1 / (c->glb_bytes_per_s * c->calibration.glb_efficiency));
  double tuned = stream && is_tuned(w) ? k->scan_tuned : 1;
  double mac_s = 1 / (tuned * scan_rate(c, w)), pass_macs = part_macs(w, &f->pass),
         pass_bytes = part_bytes(w, &f->pass);
  double lane_s = all.lane_ops / pz_chip_vector_op_per_s(c);
  double block_s = k->scan_block / (tuned * (double)c->tensor.cores * c->clock_hz);
  double blocks_s = stream ? f->blocks * (double)w->dims.batch * chunks_of(w) * block_s : 0;
  /* decays between two products */
  double all_compute_s = (all.macs - pass_macs) * mac_s + lane_s + blocks_s;
  double all_s = overlapped(all_compute_s, (all.bytes - pass_bytes) * byte_s);
  double pass_s = overlapped(pass_macs * mac_s, pass_bytes * byte_s);
  /* a chunk's state waits for the one before; the first has gone through all kernels */
  double part = fmin(1, (double)w->dims.m / (double)w->chunk);
  double wait_s = f->passes * k->scan_step / (tuned * c->clock_hz) * chunks_of(w);
  double first_s = f->passes * k->scan_chunk * part / (tuned * c->clock_hz);
  if (!stream) wait_s = first_s = 0;
  *out = (struct pz_scan_time){
      .startup_s = stream ? f->kernels * k->scan_kernel_s : c->calibration.startup_s,
      .compute_s = all_compute_s + first_s + fmax(pass_macs * mac_s, wait_s),
      .hbm_s = all.bytes * byte_s,
      .lane_s = lane_s,
      .work_s = first_s + all_s + cbrt(pass_s * pass_s * pass_s + wait_s * wait_s * wait_s)};
}
