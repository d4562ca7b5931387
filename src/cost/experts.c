#include "cost/experts.h"

#include <math.h>

#include "core/num.h"
#include "cost/constants.h"
#include "cost/formats.h"
#include "workload/op.h"

/* ---- loads ---------------------------------------------------------------------------------- */

/* The integral of x^(n-1) from a to b. */
static double power_integral(double n, double a, double b) {
  return fabs(n) < 1e-9 ? log(b / a) : (pow(b, n) - pow(a, n)) / n;
}

/* The value that a part u of the samples stays below. */
static double power_quantile(double skew, double u, double a, double b) {
  double n = 1 - skew;
  return fabs(n) < 1e-9 ? a * pow(b / a, u) : pow(pow(a, n) + u * (pow(b, n) - pow(a, n)), 1 / n);
}

struct pz_experts_load pz_experts_load(const struct pz_experts_work *w) {
  double tokens = (double)w->tokens, experts = (double)w->experts, ep = (double)w->ep;
  double pairs = tokens * (double)w->topk, local = experts / ep, even = ceil(pairs / ep);
  struct pz_experts_load l = {even, ceil(even / fmin(even, local)), fmin(even, local)};
  if (w->skew <= 0) return l;
  bool few = pairs <= experts;
  double a = few ? 0.01 : 1, b = few ? 2 : fmax(2, 0.8 * tokens);
  double all = power_integral(1 - w->skew, a, b);
  double mean = power_integral(2 - w->skew, a, b) / all;
  double square = power_integral(3 - w->skew, a, b) / all;
  /* the largest of ep sums of local samples each: of n normal ones, sqrt(2 ln n) - 0.55 deviations above the mean */
  double above = fmax(0, sqrt(2 * log(ep)) - 0.55);
  double most = local * mean + above * sqrt(fmax(0, square - mean * mean) * local);
  double scale = pairs / (experts * mean);
  double top = power_quantile(w->skew, experts / (experts + 1), a, b);
  l.rows = fmax(1, fmin(fmin(most, local * top) * scale, fmin(pairs, tokens * local)));
  if (few) { /* each row has an expert of its own */
    l.touched = fmin(l.rows, local);
    l.largest = ceil(l.rows / l.touched);
    return l;
  }
  l.largest = fmax(1, fmin(fmin(top * scale, tokens), l.rows));
  /* experts of fewer than half a row have none */
  double none = power_integral(1 - w->skew, a, pz_fmax(a, pz_fmin(b, 0.5 / scale))) / all;
  l.touched = fmax(1, fmin(l.rows - l.largest + 1, local * (1 - none)));
  return l;
}

/* Sentinel, of no measurement: so many times the HBM rate that HBM never binds. */
static const double UNLIMITED = 1e6;

/* ---- kernels -------------------------------------------------------------------------------- */

static double move_s(const struct pz_chip *c, int kind, double rows, double cols,
                     double bytes_per_value) {
  double bytes = rows * cols * bytes_per_value;
  struct pz_vector_work v = {kind, PZ_FORWARD, (int64_t)rows, (int64_t)cols, bytes, true};
  struct pz_vector_time t;
  pz_vector_time(c, &v, &t);
  return fmax(t.hbm_s, t.glb_s); /* starts and rows are counted for all kernels together */
}

/* All but the products: values that move, blocks that start for each row, rows that are counted and sorted. */
static double around_s(const struct pz_chip *c, const struct pz_experts_work *w,
                       const struct pz_experts_load *l) {
  const struct pz_constants *k = &pz_constants_default;
  double tokens = (double)w->tokens, hidden = (double)w->hidden, inter = (double)(w->inter / w->tp),
         local = (double)(w->experts / w->ep);
  double operand = w->fp8 ? 1 : 2, pairs = tokens * (double)w->topk;
  double s =
      k->experts_startup_s + k->experts_choice_s * (double)w->topk + k->experts_group_s * local;
  s += (k->experts_row_s * l->rows + k->experts_pair_s * pairs) / (double)c->vector.cores;
  if (w->fp8) s += move_s(c, PZ_OP_CAST, tokens, hidden, 3);
  s += move_s(c, PZ_OP_DISPATCH, l->rows, hidden, 2 * operand);
  s += move_s(c, PZ_OP_SWIGLU, l->rows, inter, (w->gated ? 4 : 2) + operand);
  return s + move_s(c, PZ_OP_DISPATCH, l->rows + tokens, hidden, 2);
}

/* For products of a burst: no power limit acts.  Mappings are those with the least arithmetic: what HBM takes is added
 * with the kernel's own part of its rate. */
static struct pz_chip burst_chip(const struct pz_chip *c) {
  const struct pz_kernel *own = pz_chip_kernel(c, "experts");
  struct pz_chip burst = *c;
  struct pz_calibration *k = &burst.calibration;
  k->tensor_efficiency = own ? own->efficiency : pz_constants_default.experts_efficiency;
  k->throttle = 1;
  k->fp8_speedup = 2;
  k->hbm_read_efficiency = k->hbm_write_efficiency = UNLIMITED;
  return burst;
}

static enum pz_status products_s(struct pz_cost *cost, const struct pz_experts_work *w,
                                 const struct pz_experts_load *l, double *s, struct pz_error *err) {
  int64_t inter = w->inter / w->tp, first = (w->gated ? 2 : 1) * inter;
  const struct pz_constants *c = &pz_constants_default;
  const struct pz_kernel *own = pz_chip_kernel(&cost->chip, "experts");
  double values = (w->fp8 ? 1 : 2) * (double)w->hidden * l->touched;
  struct pz_grouped_tuned tuned = {own ? own->hbm_efficiency : c->experts_hbm_efficiency,
                                   c->experts_smooth, values * (double)inter};
  struct pz_grouped_tuned tuned_down = tuned;
  tuned_down.beside_bytes = values * (double)first;
  struct pz_grouped up = {.experts = (int64_t)ceil(l->touched),
                          .tokens = (int64_t)ceil(l->rows),
                          .n = first,
                          .k = w->hidden,
                          .largest = w->skew > 0 ? (int64_t)ceil(l->largest) : 0,
                          .warm = true,
                          .tuned = &tuned};
  struct pz_grouped down = up;
  down.n = w->hidden;
  down.k = inter;
  down.tuned = &tuned_down;
  struct pz_mapping o = {0}, p = {0};
  enum pz_status status = w->fp8 ? pz_cost_format_grouped(cost, PZ_FORMAT_FP8_CURRENT, &up, &o, err)
                                 : pz_cost_grouped(cost, &up, &o, err);
  if (status == PZ_OK)
    status = w->fp8 ? pz_cost_format_grouped(cost, PZ_FORMAT_FP8_CURRENT, &down, &p, err)
                    : pz_cost_grouped(cost, &down, &p, err);
  *s = o.latency_s - o.startup_s + p.latency_s - p.startup_s;
  return status;
}

static enum pz_status check_work(const struct pz_experts_work *w, struct pz_error *err) {
  const int64_t v[] = {w->tokens, w->hidden, w->inter, w->topk, w->experts, w->tp, w->ep};
  static const char *const name[] = {"tokens", "hidden", "inter", "topk", "experts", "tp", "ep"};
  for (int i = 0; i < 7; i++)
    if (v[i] < 1 || v[i] > 1LL << 40)
      return pz_fail(err, PZ_BAD_INPUT, "experts: %s is %lld; accepted: 1 to 2^40", name[i],
                     (long long)v[i]);
  if (w->topk > w->experts || w->experts % w->ep || w->inter % w->tp)
    return pz_fail(
        err, PZ_BAD_INPUT,
        "experts: %lld of %lld experts of %lld values over ep %lld and tp %lld; accepted: "
        "topk up to the experts, ep that divides them, tp that divides inter",
        (long long)w->topk, (long long)w->experts, (long long)w->inter, (long long)w->ep,
        (long long)w->tp);
  return PZ_OK;
}

enum pz_status pz_experts_cost(struct pz_cost *cost, const struct pz_experts_work *w, double *s,
                               struct pz_error *err) {
  enum pz_status status = check_work(w, err);
  if (status != PZ_OK) return status;
  struct pz_chip chip = cost->chip, burst = burst_chip(&chip);
  struct pz_cluster net = cost->net;
  struct pz_experts_load load = pz_experts_load(w);
  double products = 0;
  pz_cost_set_chip(cost, &burst, &net);
  status = products_s(cost, w, &load, &products, err);
  pz_cost_set_chip(cost, &chip, &net);
  if (status == PZ_OK) *s = products + around_s(&chip, w, &load);
  return status;
}

double pz_experts_s(struct pz_call *call, struct pz_cost *cost,
                    const struct pz_experts_work *work) {
  double s;
  pz_must(call, pz_experts_cost(cost, work, &s, pz_call_error(call)));
  return s;
}
