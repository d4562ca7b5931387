/* Time and energy of flash attention.
 *
 * Terms: GEMMs of blocks of queries and keys, the softmax of their scores, the ends of an item,
 * start-up, HBM traffic, and for serving a kernel that moves keys and values to a cache.  HBM
 * traffic overlaps with everything but the start-up.  Simplifications: items are spread evenly over
 * the cores except for the longest one; scores are exact blocks; the kernels of all libraries have
 * the same form, with different constants. */
#include "cost/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "cost/power.h"
#include "cost/vector.h"
#include "workload/op.h"

/* The head width for which row_s is stated. */
static const double STATED_WIDTH = 128;

/* GEMMs of queries x keys x width: two forward; five backward, which computes the scores again. */
static double count_gemms(enum pz_direction direction) { return direction == PZ_FORWARD ? 2 : 5; }

const struct pz_kernel *pz_attention_kernel(const struct pz_chip *chip, const char *library,
                                            enum pz_direction direction) {
  char kind[sizeof chip->calibration.kernels[0].kind];
  int n = snprintf(kind, sizeof kind, "attention%s%s%s", library ? "_" : "", library ? library : "",
                   direction == PZ_BACKWARD ? "_bwd" : "");
  return n < (int)sizeof kind ? pz_chip_kernel(chip, kind) : NULL;
}

/* Returns whether heads are padded.  cuDNN accepts heads whose width is a multiple of 8.  PyTorch
 * pads others for FlashAttention 2, whose kernels are compiled for multiples of 32
 * (scaled_dot_product_attention; kernel_traits of FlashAttention).  A width above 128 is the mean
 * of two widths (latent attention), and not padded. */
static bool is_padded(const struct pz_attention_work *attention) {
  bool is_one_width = (double)attention->dims.k <= STATED_WIDTH;
  bool is_cudnn = attention->library && strcmp(attention->library, "cudnn") == 0;
  return is_cudnn && is_one_width && attention->dims.k % 8 != 0;
}

/* Finds the kernel that runs: of the library, the default, or cuDNN's or FlashAttention
 * 2's.  Returns false if the chip has none. */
static bool find_kernel(const struct pz_chip *chip, const struct pz_attention_work *attention,
                        struct pz_kernel *out) {
  const char *const libraries[] = {is_padded(attention) ? "fa2" : attention->library, NULL, "cudnn",
                                   "fa2"};
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    const struct pz_kernel *own = pz_attention_kernel(chip, libraries[i], attention->direction);
    const struct pz_kernel *forward = pz_attention_kernel(chip, libraries[i], PZ_FORWARD);
    if (!own && !forward) continue;
    *out = own ? *own : *forward;
    double more_work = own ? 1 : count_gemms(attention->direction) / count_gemms(PZ_FORWARD);
    out->row_s *= more_work;
    out->cycles *= more_work;
    return true;
  }
  return false;
}

/* The time of a measured kernel on so many cores, without HBM traffic.  `part` of the scores are
 * computed.
 *
 * GEMMs and softmax of different blocks of keys overlap in part; the root of the sum of their
 * squares is used.  Backward kernels of GPUs hold five operands of a block at a time, so that heads
 * wider than 128 leave smaller blocks: cuDNN with keys of 192 and values of 128 takes 1.11 times
 * as long on a GB200 (cudnn-frontend's tables) and 1.2 on a B200 (SimuMax's).  The root of width /
 * 128 lies between: 1.14 at 166, the mean width of their GEMMs. */
static double measured_on_cores_s(const struct pz_chip *chip,
                                  const struct pz_attention_work *attention,
                                  const struct pz_kernel *kernel, double items, double part,
                                  double cores) {
  const struct pz_dims *dims = &attention->dims;
  double width = is_padded(attention) ? 32 * ceil((double)dims->k / 32) : (double)dims->k;
  double core_rate =
      pz_chip_tensor_flop_per_s(chip) * kernel->efficiency / (double)chip->tensor.cores;
  bool has_smaller_blocks =
      chip->execution == PZ_CHIP_STREAM && attention->direction == PZ_BACKWARD;
  double wide = 1;
  if (has_smaller_blocks && (double)dims->k > STATED_WIDTH)
    wide = sqrt((double)dims->k / STATED_WIDTH);
  double gemm_s = wide * 2 * count_gemms(attention->direction) * width / core_rate;
  /* lanes are divided among the items that run at the same time */
  double softmax_s = kernel->cycles / (pz_chip_vector_op_per_s(chip) / fmin(cores, items));
  /* not hypot(), whose result differs between libraries */
  double score_s = sqrt(gemm_s * gemm_s + softmax_s * softmax_s);
  double item_s = kernel->queries * (double)dims->n * score_s;
  double ends_s = kernel->row_s * width / STATED_WIDTH;
  double pieces = 1;
  if (attention->cache_bytes > 0) pieces = fmin(kernel->splits, fmax(cores / items, 1));
  double longest_s = ends_s + item_s / pieces;
  double mean_s = items / cores * (ends_s + part * item_s);
  double tail_s = attention->causal ? kernel->tail * longest_s : 0;
  return fmax(mean_s + tail_s, longest_s);
}

/* With more tensor cores than vector cores, each of the items that run at the same time gets fewer
 * lanes, and the longest one ends later.  The kernel may therefore leave tensor cores idle: the
 * fastest number of cores counts. */
static double measured_s(const struct pz_chip *chip, const struct pz_attention_work *attention,
                         const struct pz_kernel *kernel, double items, double part) {
  double all_cores = (double)chip->tensor.cores;
  double s = measured_on_cores_s(chip, attention, kernel, items, part, all_cores);
  for (double cores = (double)chip->vector.cores; cores < all_cores; cores *= 2)
    s = fmin(s, measured_on_cores_s(chip, attention, kernel, items, part, cores));
  return s;
}

/* Returns the time on a chip that is known by its data sheet: every item of a round takes as
 * long as the longest, and the softmax overlaps. */
static double described_s(const struct pz_chip *chip, double items, double item_flop, double part,
                          double softmax_s) {
  double cores = (double)chip->tensor.cores;
  double core_rate = pz_chip_tensor_flop_per_s(chip) * chip->calibration.tensor_efficiency / cores;
  return fmax(fmax(ceil(items / cores) * part, 1) * item_flop / core_rate, softmax_s);
}

/* A band of n of `span` keys for each query has the part 1 - r/2 of its n x m scores, r = n /
 * span, because the first queries have fewer keys; blocks of queries at the edges of the band are
 * computed whole. */
double pz_attention_causal_part(const struct pz_dims *dims, int64_t span, double queries) {
  double m = (double)(span > dims->m ? span : dims->m), n = (double)dims->n, r = fmin(n / m, 1);
  double edges = queries / n * (2 - r) / 2;
  return fmin(1 - r / 2 + edges, fmax(m / n, 1));
}

/* Returns the time of the kernel that moves keys and values to a paged cache. */
static double cache_write_s(const struct pz_chip *chip, double bytes) {
  const struct pz_kernel *kernel = pz_chip_kernel(chip, "cache_write");
  double efficiency = kernel ? kernel->hbm_efficiency : chip->calibration.hbm_write_efficiency;
  double startup_s = kernel ? kernel->startup_s : 0;
  if (!(bytes > 0)) return 0;
  return startup_s + bytes / (pz_chip_hbm_bytes_per_s(chip) * efficiency);
}

void pz_attention_cost(const struct pz_chip *chip, const struct pz_attention_work *attention,
                       struct pz_estimate *out, struct pz_work *work) {
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  const struct pz_dims *dims = &attention->dims;
  struct pz_kernel kernel = pz_kernel_none();
  bool is_measured = find_kernel(chip, attention, &kernel);
  double n = (double)dims->n, part = 1;
  if (attention->causal) part = pz_attention_causal_part(dims, attention->span, kernel.queries);
  double items = (double)dims->batch * ceil((double)dims->m / kernel.queries);
  double item_flop = 2 * count_gemms(attention->direction) * kernel.queries * n * (double)dims->k;
  double scores = items * kernel.queries * n * part;
  double softmax_cycles = pz_vector_cycles(chip, PZ_OP_SOFTMAX, PZ_FORWARD);
  double softmax_s = scores * softmax_cycles / pz_chip_vector_op_per_s(chip);
  double compute_s = is_measured ? measured_s(chip, attention, &kernel, items, part)
                                 : described_s(chip, items, item_flop, part, softmax_s);
  double hbm_s =
      attention->bytes / (pz_chip_hbm_bytes_per_s(chip) * chip->calibration.hbm_read_efficiency);
  double startup_s = is_measured ? kernel.startup_s : chip->calibration.startup_s;
  double write_s = cache_write_s(chip, attention->cache_bytes);
  double work_s = fmax(hbm_s, compute_s);
  double cycles = is_measured ? kernel.cycles : softmax_cycles;
  *work = (struct pz_work){
      .core_j = pz_power_attention_j(chip, items * item_flop * part / 2, scores, cycles),
      .outside_j = (attention->bytes + attention->cache_bytes) * tech->hbm_j,
      .startup_s = startup_s + write_s,
      .core_s = compute_s,
      .hbm_s = hbm_s,
      .array_s = compute_s,
      .lane_s = compute_s};
  *out = (struct pz_estimate){.latency_s = startup_s + work_s + write_s,
                              .energy_j = work->core_j + work->outside_j,
                              .hbm_s = hbm_s + write_s,
                              .bound = hbm_s >= work_s ? PZ_BOUND_HBM : PZ_BOUND_COMPUTE};
  if (startup_s > work_s) out->bound = PZ_BOUND_STARTUP;
}
