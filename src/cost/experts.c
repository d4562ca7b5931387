/* Time of routed experts as a serving library runs them: two grouped GEMMs, by the fastest of a
 * tuned kernel's tiles, plus what happens around them.  Constants are `experts_*` of constants.def.
 *
 * Simplifications: the device with the most rows determines the time; kernels follow each other
 * without gaps in one CUDA graph, whose start-up is a constant; casts, permutations and the
 * activation take the time of their bytes. */
#include "cost/experts.h"

#include <math.h>

#include "core/num.h"
#include "cost/constants.h"
#include "cost/formats.h"
#include "workload/op.h"

/* ---- loads ----------------------------------------------------------------------------------- */

/* Returns the integral of x^(n-1) from a to b, which is log(b / a) for n = 0. */
static double power_integral(double n, double a, double b) {
  return fabs(n) < 1e-9 ? log(b / a) : (pow(b, n) - pow(a, n)) / n;
}

/* Returns the expected load of the device with the most rows (a row is a token at one of its
 * experts).  Skewed loads are those of AIConfigurator's collectors, with which measured tables were
 * made: the relative load of each expert is a sample of the density x^-skew between 1 and 0.8 times
 * the tokens, or between 0.01 and 2 if there are no more rows than experts.  Samples are scaled so
 * that there are tokens x topk rows, and a device has the sum of its experts' samples.  The largest
 * of n normal variables is about sqrt(2 ln n) - 0.55 deviations above the mean. */
struct pz_experts_load pz_experts_load(const struct pz_experts_work *work) {
  double tokens = (double)work->tokens, experts = (double)work->experts, ep = (double)work->ep;
  double pairs = tokens * (double)work->topk; /* pairs of a token and one of its experts */
  double local_experts = experts / ep, even_rows = ceil(pairs / ep);
  double even_touched = fmin(even_rows, local_experts);
  struct pz_experts_load load = {even_rows, ceil(even_rows / even_touched), even_touched};
  if (work->skew <= 0) return load;
  /* Mean and variance of an expert's sample, and from them the largest sum of a device.  The limits
   * of samples are the collectors', but the upper one is never below that of sparse loads (2). */
  bool is_sparse = pairs <= experts;
  double smallest_sample = is_sparse ? 0.01 : 1;
  double largest_sample = is_sparse ? 2 : fmax(2, 0.8 * tokens);
  double normalisation = power_integral(1 - work->skew, smallest_sample, largest_sample);
  double mean = power_integral(2 - work->skew, smallest_sample, largest_sample) / normalisation;
  double mean_square =
      power_integral(3 - work->skew, smallest_sample, largest_sample) / normalisation;
  double deviations = fmax(0, sqrt(2 * log(ep)) - 0.55);
  double busiest_sum =
      local_experts * mean + deviations * sqrt(fmax(0, mean_square - mean * mean) * local_experts);
  double scale = pairs / (experts * mean);
  /* The busiest expert: the largest of n samples is about the quantile n / (n + 1). */
  double quantile = experts / (experts + 1), n = 1 - work->skew;
  double smallest_power = pow(smallest_sample, n), largest_power = pow(largest_sample, n);
  double expected_largest =
      fabs(n) < 1e-9 ? smallest_sample * pow(largest_sample / smallest_sample, quantile)
                     : pow(smallest_power + quantile * (largest_power - smallest_power), 1 / n);
  load.rows = fmax(1, fmin(fmin(busiest_sum, local_experts * expected_largest) * scale,
                           fmin(pairs, tokens * local_experts)));
  /* The number of experts with rows, and the rows of the busiest one. */
  if (is_sparse) { /* nearly every row has a different expert */
    load.touched = fmin(load.rows, local_experts);
    load.largest = ceil(load.rows / load.touched);
    return load;
  }
  load.largest = fmax(1, fmin(fmin(expected_largest * scale, tokens), load.rows));
  /* An expert whose expected load is less than half a row has no rows. */
  double without_rows =
      power_integral(1 - work->skew, smallest_sample,
                     pz_fmax(smallest_sample, pz_fmin(largest_sample, 0.5 / scale))) /
      normalisation;
  load.touched = fmax(1, fmin(load.rows - load.largest + 1, local_experts * (1 - without_rows)));
  return load;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Returns the seconds in which a vector kernel (enum pz_op_kind) moves its bytes once started. */
static double move_s(const struct pz_chip *chip, int kind, double rows, double cols,
                     double bytes_per_value) {
  double bytes = rows * cols * bytes_per_value;
  struct pz_vector_work work = {kind, PZ_FORWARD, (int64_t)rows, (int64_t)cols, bytes, true};
  struct pz_vector_time time;
  pz_vector_time(chip, &work, &time);
  return fmax(time.hbm_s, time.glb_s);
}

/* Returns the seconds of both grouped GEMMs of the experts, from the hidden size to the inner width
 * and back, without their start-up.  In a benchmark loop, the weights of one GEMM pass through the
 * global buffer between two calls of the other (beside_bytes). */
static double gemms_s(struct pz_call *call, struct pz_cost *cost,
                      const struct pz_experts_work *work, const struct pz_experts_load *load) {
  const struct pz_constants *constants = &pz_constants_default;
  const struct pz_kernel *kernel = pz_chip_kernel(&cost->chip, "experts");
  double hbm_efficiency = kernel ? kernel->hbm_efficiency : constants->experts_hbm_efficiency;
  /* In a burst no power limit acts.  The HBM rate is practically unlimited, so that mappings are
   * those with the least arithmetic; HBM traffic is added with the kernel's own part of the HBM
   * rate (pz_grouped_set_hbm_traffic). */
  static const double UNLIMITED = 1e6;
  struct pz_chip burst = cost->chip;
  struct pz_calibration *calibration = &burst.calibration;
  calibration->tensor_efficiency = kernel ? kernel->efficiency : constants->experts_efficiency;
  calibration->throttle = 1;
  calibration->fp8_speedup = 2;
  calibration->hbm_read_efficiency = calibration->hbm_write_efficiency = UNLIMITED;
  int64_t inner_width = work->inter / work->tp, first_width = (work->gated ? 2 : 1) * inner_width;
  double weight_row_bytes = (work->fp8 ? 1 : 2) * (double)work->hidden * load->touched;
  struct pz_grouped_tuned first_tuned = {hbm_efficiency, constants->experts_smooth,
                                         weight_row_bytes * (double)inner_width};
  struct pz_grouped_tuned second_tuned = first_tuned;
  second_tuned.beside_bytes = weight_row_bytes * (double)first_width;
  struct pz_grouped first_gemm = {.experts = (int64_t)ceil(load->touched),
                                  .tokens = (int64_t)ceil(load->rows),
                                  .n = first_width,
                                  .k = work->hidden,
                                  .largest = work->skew > 0 ? (int64_t)ceil(load->largest) : 0,
                                  .warm = true,
                                  .tuned = &first_tuned};
  struct pz_grouped second_gemm = first_gemm;
  second_gemm.n = work->hidden;
  second_gemm.k = inner_width;
  second_gemm.tuned = &second_tuned;
  struct pz_mapping first, second;
  if (work->fp8) {
    first = pz_estimate_narrow_grouped(call, cost, &burst, PZ_FORMAT_FP8_CURRENT, &first_gemm);
    second = pz_estimate_narrow_grouped(call, cost, &burst, PZ_FORMAT_FP8_CURRENT, &second_gemm);
  } else {
    first = pz_estimate_grouped(call, cost, &burst, &first_gemm);
    second = pz_estimate_grouped(call, cost, &burst, &second_gemm);
  }
  return first.latency_s - first.startup_s + second.latency_s - second.startup_s;
}

/* Returns the seconds of a repeated call of the routed experts of one device. */
double pz_experts_s(struct pz_call *call, struct pz_cost *cost,
                    const struct pz_experts_work *work) {
  const int64_t sizes[] = {work->tokens,  work->hidden, work->inter, work->topk,
                           work->experts, work->tp,     work->ep};
  static const char *const names[] = {"tokens", "hidden", "inter", "topk", "experts", "tp", "ep"};
  for (int i = 0; i < 7; i++)
    if (sizes[i] < 1 || sizes[i] > 1LL << 40)
      pz_raise(call, PZ_BAD_INPUT, "experts: %s is %lld; accepted: 1 to 2^40", names[i],
               (long long)sizes[i]);
  if (work->topk > work->experts || work->experts % work->ep || work->inter % work->tp)
    pz_raise(call, PZ_BAD_INPUT,
             "experts: %lld of %lld experts of %lld values over ep %lld and tp %lld; accepted: "
             "topk up to the experts, ep that divides them, tp that divides inter",
             (long long)work->topk, (long long)work->experts, (long long)work->inter,
             (long long)work->ep, (long long)work->tp);
  struct pz_experts_load load = pz_experts_load(work);
  double gemm_s = gemms_s(call, cost, work, &load);

  /* Everything but the GEMMs: start-up, choice and sorting of the experts, the cast of the inputs,
   * permutation, activation with its cast, and the permutation back. */
  const struct pz_constants *constants = &pz_constants_default;
  const struct pz_chip *chip = &cost->chip;
  double tokens = (double)work->tokens, hidden = (double)work->hidden;
  double inner_width = (double)(work->inter / work->tp);
  double local_experts = (double)(work->experts / work->ep);
  double operand_bytes = work->fp8 ? 1 : 2, pairs = tokens * (double)work->topk;
  double s = constants->experts_startup_s + constants->experts_choice_s * (double)work->topk +
             constants->experts_group_s * local_experts;
  s += (constants->experts_row_s * load.rows + constants->experts_pair_s * pairs) /
       (double)chip->vector.cores;
  static const double CAST_BYTES = 3; /* of a value: 2 are read, 1 is written */
  if (work->fp8) s += move_s(chip, PZ_OP_CAST, tokens, hidden, CAST_BYTES);
  s += move_s(chip, PZ_OP_DISPATCH, load.rows, hidden, 2 * operand_bytes);
  s += move_s(chip, PZ_OP_SWIGLU, load.rows, inner_width, (work->gated ? 4 : 2) + operand_bytes);
  s += move_s(chip, PZ_OP_DISPATCH, load.rows + tokens, hidden, 2);
  return gemm_s + s;
}
