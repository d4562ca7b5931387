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

/* Returns the integral of x^(n-1) from a to b. */
static double power_integral(double n, double a, double b) {
  return fabs(n) < 1e-9 ? log(b / a) : (pow(b, n) - pow(a, n)) / n;
}

/* Returns the value below which a part u of the samples of the density x^-skew on [a, b] lies. */
static double power_quantile(double skew, double u, double a, double b) {
  double n = 1 - skew;
  return fabs(n) < 1e-9 ? a * pow(b / a, u) : pow(pow(a, n) + u * (pow(b, n) - pow(a, n)), 1 / n);
}

/* Skewed loads are samples of the density x^-skew from 1 to 0.8 tokens (0.01 to 2 if there are
 * fewer rows than experts), as AIConfigurator's collectors draw them, scaled so that there are
 * tokens x topk rows.  Their mean and deviation determine what the device with the most rows has:
 * the largest of ep sums of `local` samples each, and of n normal variables the largest is about
 * sqrt(2 ln n) - 0.55 deviations above the mean. */
struct pz_experts_load pz_experts_load(const struct pz_experts_work *work) {
  double tokens = (double)work->tokens, experts = (double)work->experts, ep = (double)work->ep;
  double pairs = tokens * (double)work->topk, local = experts / ep, even = ceil(pairs / ep);
  struct pz_experts_load load = {even, ceil(even / fmin(even, local)), fmin(even, local)};
  if (work->skew <= 0) return load;
  bool is_sparse = pairs <= experts;
  double a = is_sparse ? 0.01 : 1, b = is_sparse ? 2 : fmax(2, 0.8 * tokens);
  double all = power_integral(1 - work->skew, a, b);
  double mean = power_integral(2 - work->skew, a, b) / all;
  double square = power_integral(3 - work->skew, a, b) / all;
  double deviations = fmax(0, sqrt(2 * log(ep)) - 0.55);
  double most = local * mean + deviations * sqrt(fmax(0, square - mean * mean) * local);
  double scale = pairs / (experts * mean);
  double top = power_quantile(work->skew, experts / (experts + 1), a, b);
  load.rows = fmax(1, fmin(fmin(most, local * top) * scale, fmin(pairs, tokens * local)));
  if (is_sparse) { /* each row has an expert of its own */
    load.touched = fmin(load.rows, local);
    load.largest = ceil(load.rows / load.touched);
    return load;
  }
  load.largest = fmax(1, fmin(fmin(top * scale, tokens), load.rows));
  /* experts with less than half a row have none */
  double without_rows =
      power_integral(1 - work->skew, a, pz_fmax(a, pz_fmin(b, 0.5 / scale))) / all;
  load.touched = fmax(1, fmin(load.rows - load.largest + 1, local * (1 - without_rows)));
  return load;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Returns the time in which a vector kernel moves its bytes, without its start-up, which is
 * counted for all kernels together. */
static double move_s(const struct pz_chip *chip, int kind, double rows, double cols,
                     double bytes_per_value) {
  double bytes = rows * cols * bytes_per_value;
  struct pz_vector_work work = {kind, PZ_FORWARD, (int64_t)rows, (int64_t)cols, bytes, true};
  struct pz_vector_time time;
  pz_vector_time(chip, &work, &time);
  return fmax(time.hbm_s, time.glb_s);
}

/* Everything but the GEMMs: values that move, thread blocks that start for each row, rows that are
 * counted and sorted. */
static double around_gemms_s(const struct pz_chip *chip, const struct pz_experts_work *work,
                             const struct pz_experts_load *load) {
  const struct pz_constants *k = &pz_constants_default;
  double tokens = (double)work->tokens, hidden = (double)work->hidden;
  double inter = (double)(work->inter / work->tp), local = (double)(work->experts / work->ep);
  double operand_bytes = work->fp8 ? 1 : 2, pairs = tokens * (double)work->topk;
  double s =
      k->experts_startup_s + k->experts_choice_s * (double)work->topk + k->experts_group_s * local;
  s += (k->experts_row_s * load->rows + k->experts_pair_s * pairs) / (double)chip->vector.cores;
  if (work->fp8) s += move_s(chip, PZ_OP_CAST, tokens, hidden, 3);
  s += move_s(chip, PZ_OP_DISPATCH, load->rows, hidden, 2 * operand_bytes);
  s += move_s(chip, PZ_OP_SWIGLU, load->rows, inter, (work->gated ? 4 : 2) + operand_bytes);
  return s + move_s(chip, PZ_OP_DISPATCH, load->rows + tokens, hidden, 2);
}

/* Returns the chip in a burst, in which no power limit acts.  Its HBM rate is practically
 * unlimited, so that mappings are those with the least arithmetic; HBM traffic is added with the
 * tuned kernel's own part of the HBM rate (pz_grouped_set_hbm_traffic). */
static struct pz_chip burst_chip(const struct pz_chip *chip) {
  static const double UNLIMITED = 1e6;
  const struct pz_kernel *kernel = pz_chip_kernel(chip, "experts");
  struct pz_chip burst = *chip;
  struct pz_calibration *k = &burst.calibration;
  k->tensor_efficiency = kernel ? kernel->efficiency : pz_constants_default.experts_efficiency;
  k->throttle = 1;
  k->fp8_speedup = 2;
  k->hbm_read_efficiency = k->hbm_write_efficiency = UNLIMITED;
  return burst;
}

/* Both grouped GEMMs, to the inner width and back, without their start-up.  Each touches the
 * weights of the other before it is called again. */
static double gemms_s(struct pz_call *call, struct pz_cost *cost,
                      const struct pz_experts_work *work, const struct pz_experts_load *load) {
  const struct pz_constants *k = &pz_constants_default;
  const struct pz_kernel *kernel = pz_chip_kernel(&cost->chip, "experts");
  struct pz_chip burst = burst_chip(&cost->chip);
  int64_t inter = work->inter / work->tp, up_width = (work->gated ? 2 : 1) * inter;
  double row_bytes = (work->fp8 ? 1 : 2) * (double)work->hidden * load->touched;
  struct pz_grouped_tuned tuned_up = {kernel ? kernel->hbm_efficiency : k->experts_hbm_efficiency,
                                      k->experts_smooth, row_bytes * (double)inter};
  struct pz_grouped_tuned tuned_down = tuned_up;
  tuned_down.beside_bytes = row_bytes * (double)up_width;
  struct pz_grouped up = {.experts = (int64_t)ceil(load->touched),
                          .tokens = (int64_t)ceil(load->rows),
                          .n = up_width,
                          .k = work->hidden,
                          .largest = work->skew > 0 ? (int64_t)ceil(load->largest) : 0,
                          .warm = true,
                          .tuned = &tuned_up};
  struct pz_grouped down = up;
  down.n = work->hidden;
  down.k = inter;
  down.tuned = &tuned_down;
  struct pz_mapping first, second;
  if (work->fp8) {
    first = pz_estimate_narrow_grouped(call, cost, &burst, PZ_FORMAT_FP8_CURRENT, &up);
    second = pz_estimate_narrow_grouped(call, cost, &burst, PZ_FORMAT_FP8_CURRENT, &down);
  } else {
    first = pz_estimate_grouped(call, cost, &burst, &up);
    second = pz_estimate_grouped(call, cost, &burst, &down);
  }
  return first.latency_s - first.startup_s + second.latency_s - second.startup_s;
}

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
  return gemms_s(call, cost, work, &load) + around_gemms_s(&cost->chip, work, &load);
}
