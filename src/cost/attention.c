/* Time and energy of flash attention.
 *
 * An item is a block of queries of one head, on which one core works.  Terms: GEMMs of blocks of
 * queries and keys, the softmax of their scores, a fixed time at the beginning and the end of each
 * item, start-up, HBM traffic, and for serving a kernel that moves keys and values to a cache.  HBM
 * traffic overlaps with everything but the start-up and this kernel.  Simplifications: items are
 * spread evenly over the cores except for the longest one; causal attention computes square blocks
 * as a whole if the mask crosses them; kernels of libraries differ only in constants. */
#include "cost/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "cost/power.h"
#include "cost/vector.h"
#include "workload/op.h"

/* The head width for which calibrations state row_s. */
static const double STATED_WIDTH = 128;

/* GEMMs of a direction: two forward, and five backward, which computes the scores again. */
static const double GEMMS[] = {[PZ_FORWARD] = 2, [PZ_BACKWARD] = 5};

/* Returns the kernel attention_LIBRARY or attention_LIBRARY_bwd of a chip, or NULL. */
const struct pz_kernel *pz_attention_kernel(const struct pz_chip *chip, const char *library,
                                            enum pz_direction direction) {
  char kind[sizeof chip->calibration.kernels[0].kind];
  int length = snprintf(kind, sizeof kind, "attention%s%s%s", library ? "_" : "",
                        library ? library : "", direction == PZ_BACKWARD ? "_bwd" : "");
  return length < (int)sizeof kind ? pz_chip_kernel(chip, kind) : NULL;
}

/* Returns whether PyTorch pads the heads of cuDNN attention.  cuDNN accepts heads whose width is a
 * multiple of 8.  Others are padded for FlashAttention 2, whose kernels are compiled for multiples
 * of 32 (scaled_dot_product_attention; kernel_traits of FlashAttention).  A width above 128 is the
 * mean of two widths (latent attention), and not padded. */
static bool is_padded(const struct pz_attention_work *attention) {
  bool is_one_width = (double)attention->dims.k <= STATED_WIDTH;
  bool is_cudnn = attention->library && strcmp(attention->library, "cudnn") == 0;
  return is_cudnn && is_one_width && attention->dims.k % 8 != 0;
}

/* Sets *out to the measured kernel that runs: the first that the chip has of the library's kernel,
 * the default, cuDNN's and FlashAttention 2's.  A library without a backward kernel gets its
 * forward kernel with more work.  Returns false if the chip has none of them. */
static bool find_kernel(const struct pz_chip *chip, const struct pz_attention_work *attention,
                        struct pz_kernel *out) {
  const char *const libraries[] = {is_padded(attention) ? "fa2" : attention->library, NULL, "cudnn",
                                   "fa2"};
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    const struct pz_kernel *kernel = pz_attention_kernel(chip, libraries[i], attention->direction);
    const struct pz_kernel *forward = pz_attention_kernel(chip, libraries[i], PZ_FORWARD);
    if (!kernel && !forward) continue;
    *out = kernel ? *kernel : *forward;
    double more_work = kernel ? 1 : GEMMS[attention->direction] / GEMMS[PZ_FORWARD];
    out->row_s *= more_work;
    out->cycles *= more_work;
    return true;
  }
  return false;
}

/* Returns the seconds of a measured kernel for all items, without HBM traffic: the work of the mean
 * core and the time by which the last core ends later, at least the time of the longest item.
 * Causal attention computes the part computed_part of the scores.
 *
 * GEMMs and softmax of different blocks of keys overlap in part, so the root of the sum of their
 * squares is used.  Backward kernels of GPUs hold five operands of a block at a time, so that heads
 * wider than 128 leave smaller blocks: cuDNN with keys of 192 and values of 128 takes 1.11 times as
 * long on a GB200 (cudnn-frontend's tables) and 1.2 on a B200 (SimuMax's).  The root of width / 128
 * lies between: 1.14 at 166, the mean width of their GEMMs. */
static double measured_s(const struct pz_chip *chip, const struct pz_attention_work *attention,
                         const struct pz_kernel *kernel, double items, double computed_part) {
  const struct pz_dims *dims = &attention->dims;
  double padded_width = is_padded(attention) ? 32 * ceil((double)dims->k / 32) : (double)dims->k;
  double all_cores = (double)chip->tensor.cores, least_s = HUGE_VAL;
  double core_rate = pz_chip_tensor_flop_per_s(chip) * kernel->efficiency / all_cores;
  bool has_smaller_blocks =
      chip->execution == PZ_CHIP_STREAM && attention->direction == PZ_BACKWARD;
  double block_slowdown = 1;
  if (has_smaller_blocks && (double)dims->k > STATED_WIDTH)
    block_slowdown = sqrt((double)dims->k / STATED_WIDTH);
  double gemm_s = block_slowdown * 2 * GEMMS[attention->direction] * padded_width / core_rate;
  double ends_s = kernel->row_s * padded_width / STATED_WIDTH; /* beginning and end of an item */
  /* With more tensor cores than vector cores, items that run at the same time get fewer lanes each
   * and the longest one ends later, so a kernel may be faster if it leaves tensor cores idle. */
  double cores = fmin((double)chip->vector.cores, all_cores);
  for (bool is_last = false; !is_last; cores = fmin(2 * cores, all_cores)) {
    is_last = cores >= all_cores;
    /* The items that run at the same time share the vector lanes. */
    double softmax_s = kernel->cycles / (pz_chip_vector_op_per_s(chip) / fmin(cores, items));
    /* hypot() is avoided because its result differs between libraries. */
    double score_s = sqrt(gemm_s * gemm_s + softmax_s * softmax_s);
    double item_s = kernel->queries * (double)dims->n * score_s;
    double pieces = 1; /* into which the keys of an item are cut, so that idle cores get work */
    if (attention->cache_bytes > 0) pieces = fmin(kernel->splits, fmax(cores / items, 1));
    double longest_s = ends_s + item_s / pieces;
    double mean_s = items / cores * (ends_s + computed_part * item_s);
    double tail_s = attention->causal ? kernel->tail * longest_s : 0;
    least_s = fmin(least_s, fmax(mean_s + tail_s, longest_s));
  }
  return least_s;
}

/* Returns the part of m x n scores that a causal kernel computes.  If each of m queries has at most
 * n keys, the scores are a band of m x n without a triangle of n^2 / 2 at the first queries, which
 * leaves the part 1 - r / 2 with r = n / m.  Blocks of `queries` queries and keys at the edges of
 * the band are computed as a whole; half of each is beyond the edge. */
double pz_attention_causal_part(const struct pz_dims *dims, int64_t span, double queries) {
  double m = (double)(span > dims->m ? span : dims->m), n = (double)dims->n, r = fmin(n / m, 1);
  double edges = queries / n * (2 - r) / 2;
  return fmin(1 - r / 2 + edges, fmax(m / n, 1));
}

/* Estimates flash attention on a chip, by its measured kernel or else from the data sheet: sets
 * *out to latency, energy and bottleneck, and *work to the energy and the time of each resource.
 * HBM traffic overlaps with the compute; start-up and the kernel that fills the cache do not. */
void pz_attention_cost(const struct pz_chip *chip, const struct pz_attention_work *attention,
                       struct pz_estimate *out, struct pz_work *work) {
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  const struct pz_dims *dims = &attention->dims;
  struct pz_kernel kernel = pz_kernel_none();
  bool is_measured = find_kernel(chip, attention, &kernel);
  double n = (double)dims->n, computed_part = 1;
  if (attention->causal)
    computed_part = pz_attention_causal_part(dims, attention->span, kernel.queries);
  double items = (double)dims->batch * ceil((double)dims->m / kernel.queries);
  double item_flop = 2 * GEMMS[attention->direction] * kernel.queries * n * (double)dims->k;
  double scores = items * kernel.queries * n * computed_part;
  double softmax_cycles = pz_vector_cycles(chip, PZ_OP_SOFTMAX, PZ_FORWARD);
  double softmax_s = scores * softmax_cycles / pz_chip_vector_op_per_s(chip);
  double compute_s;
  if (is_measured) {
    compute_s = measured_s(chip, attention, &kernel, items, computed_part);
  } else {
    /* On a chip known only by its data sheet, the softmax overlaps with the GEMMs, and the cores
     * work in rounds of one item each.  A causal mask shortens rounds to computed_part on average;
     * some items have all keys. */
    double cores = (double)chip->tensor.cores, rounds = ceil(items / cores);
    double core_rate =
        pz_chip_tensor_flop_per_s(chip) * chip->calibration.tensor_efficiency / cores;
    double whole_items = fmax(rounds * computed_part, 1); /* of one core, one after the other */
    compute_s = fmax(whole_items * item_flop / core_rate, softmax_s);
  }
  double hbm_s =
      attention->bytes / (pz_chip_hbm_bytes_per_s(chip) * chip->calibration.hbm_read_efficiency);
  double startup_s = is_measured ? kernel.startup_s : chip->calibration.startup_s;
  double write_s = 0; /* of the kernel that moves keys and values to a paged cache */
  if (attention->cache_bytes > 0) {
    const struct pz_kernel *write = pz_chip_kernel(chip, "cache_write");
    double efficiency = write ? write->hbm_efficiency : chip->calibration.hbm_write_efficiency;
    write_s = (write ? write->startup_s : 0) +
              attention->cache_bytes / (pz_chip_hbm_bytes_per_s(chip) * efficiency);
  }
  double work_s = fmax(hbm_s, compute_s);
  double cycles = is_measured ? kernel.cycles : softmax_cycles;
  *work = (struct pz_work){
      .core_j = pz_power_attention_j(chip, items * item_flop * computed_part / 2, scores, cycles),
      .outside_j = (attention->bytes + attention->cache_bytes) * tech->hbm_j,
      .startup_s = startup_s + write_s,
      .core_s = compute_s,
      .hbm_s = hbm_s,
      .array_s = compute_s, /* the kernel uses tensor cores and vector lanes all the time */
      .lane_s = compute_s};
  *out = (struct pz_estimate){.latency_s = startup_s + work_s + write_s,
                              .energy_j = work->core_j + work->outside_j,
                              .hbm_s = hbm_s + write_s,
                              .bound = hbm_s >= work_s ? PZ_BOUND_HBM : PZ_BOUND_COMPUTE};
  if (startup_s > work_s) out->bound = PZ_BOUND_STARTUP;
}
