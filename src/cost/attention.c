#include "cost/attention.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "chip/chip.h"
#include "cost/power.h"
#include "cost/vector.h"
#include "workload/op.h"

/* The head width that row_s is stated for. */
static const double WIDTH = 128;

static double products_of(enum pz_direction d) { return d == PZ_FORWARD ? 2 : 5; }

/* Backward of GPUs holds five operands of a block at a time: heads wider than 128 leave smaller blocks.  cuDNN with keys of 192
 * and values of 128: 1.11 times as long on a GB200 (cudnn-frontend's tables), 1.2 on a B200 (SimuMax's).  The root of
 * width over WIDTH (no unit) lies between: 1.14 at 166, the mean width of their products. */
static double wide_part(const struct pz_chip *c, const struct pz_attention_work *a) {
  double width = (double)a->dims.k;
  bool smaller = c->execution == PZ_CHIP_STREAM && a->direction == PZ_BACKWARD;
  return smaller && width > WIDTH ? sqrt(width / WIDTH) : 1;
}

const struct pz_kernel *pz_attention_kernel(const struct pz_chip *c, const char *library,
                                            enum pz_direction direction) {
  char kind[sizeof c->calibration.kernels[0].kind];
  int n = snprintf(kind, sizeof kind, "attention%s%s%s", library ? "_" : "", library ? library : "",
                   direction == PZ_BACKWARD ? "_bwd" : "");
  return n < (int)sizeof kind ? pz_chip_kernel(c, kind) : NULL;
}

/* cuDNN takes heads whose width is a multiple of 8.  PyTorch pads others for FlashAttention 2, whose kernels are compiled for
 * multiples of 32 (scaled_dot_product_attention; kernel_traits of FlashAttention).  Above WIDTH, a width is the mean of two (latent attention). */
static bool is_padded(const struct pz_attention_work *a) {
  bool one_width = (double)a->dims.k <= WIDTH;
  return a->library && strcmp(a->library, "cudnn") == 0 && one_width && a->dims.k % 8 != 0;
}

/* The kernel that runs: of the library or the default; false where the chip has none. */
static bool find_kernel(const struct pz_chip *c, const struct pz_attention_work *a,
                        struct pz_kernel *out) {
  const char *const libraries[] = {is_padded(a) ? "fa2" : a->library, NULL, "cudnn", "fa2"};
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    const struct pz_kernel *own = pz_attention_kernel(c, libraries[i], a->direction),
                           *forward = pz_attention_kernel(c, libraries[i], PZ_FORWARD);
    if (!own && !forward) continue;
    *out = own ? *own : *forward;
    double more = own ? 1 : products_of(a->direction) / products_of(PZ_FORWARD);
    out->row_s *= more;
    out->cycles *= more;
    return true;
  }
  return false;
}

/* Arithmetic as described: every item of a round takes as long as the longest. */
static double described_s(const struct pz_chip *c, double items, double item_flop, double part) {
  double cores = (double)c->tensor.cores;
  double rate = pz_chip_tensor_flop_per_s(c) * c->calibration.tensor_efficiency / cores;
  return fmax(ceil(items / cores) * part, 1) * item_flop / rate;
}

/* Arithmetic as measured.  Products and softmax of different blocks of keys overlap in part: the
 * root of their squares.  Items of a causal kernel differ in length, so that the cores end apart. */
static double measured_on(const struct pz_chip *c, const struct pz_attention_work *a,
                          const struct pz_kernel *k, double items, double part, double cores) {
  const struct pz_dims *d = &a->dims;
  double width = is_padded(a) ? 32 * ceil((double)d->k / 32) : (double)d->k;
  double rate = pz_chip_tensor_flop_per_s(c) * k->efficiency / (double)c->tensor.cores;
  double product_s = wide_part(c, a) * 2 * products_of(a->direction) * width / rate;
  /* lanes are divided among the items that run at a time */
  double softmax_s = k->cycles / (pz_chip_vector_op_per_s(c) / fmin(cores, items));
  double both_s =
      sqrt(product_s * product_s + softmax_s * softmax_s); /* hypot differs by library */
  double row_s = k->queries * (double)d->n * both_s;
  double ends_s = k->row_s * width / WIDTH;
  double pieces = a->cache_bytes > 0 ? fmin(k->splits, fmax(cores / items, 1)) : 1;
  double longest_s = ends_s + row_s / pieces;
  double mean_s = items / cores * (ends_s + part * row_s);
  return fmax(mean_s + (a->causal ? k->tail * longest_s : 0), longest_s);
}

/* With more tensor cores than vector cores, each of the items in flight gets fewer lanes, and the longest one ends later.  The
 * kernel may therefore leave some tensor cores idle: the fastest number of cores counts. */
static double measured_s(const struct pz_chip *c, const struct pz_attention_work *a,
                         const struct pz_kernel *k, double items, double part) {
  double all = (double)c->tensor.cores, s = measured_on(c, a, k, items, part, all);
  for (double cores = (double)c->vector.cores; cores < all; cores *= 2)
    s = fmin(s, measured_on(c, a, k, items, part, cores));
  return s;
}

double pz_attention_causal_part(const struct pz_dims *d, int64_t span, double queries) {
  double m = (double)(span > d->m ? span : d->m), n = (double)d->n, r = fmin(n / m, 1);
  double edges = queries / n * (2 - r) / 2;
  return fmin(1 - r / 2 + edges, fmax(m / n, 1));
}

/* Keys and values on their way to a paged cache, by a kernel of its own. */
static double cache_s(const struct pz_chip *c, double bytes) {
  const struct pz_kernel *k = pz_chip_kernel(c, "cache_write");
  double part = k ? k->hbm_efficiency : c->calibration.hbm_write_efficiency;
  return bytes > 0 ? (k ? k->startup_s : 0) + bytes / (pz_chip_hbm_bytes_per_s(c) * part) : 0;
}

void pz_attention_cost(const struct pz_chip *c, const struct pz_attention_work *a,
                       struct pz_estimate *out, struct pz_work *w) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  const struct pz_dims *d = &a->dims;
  struct pz_kernel k = pz_kernel_none();
  bool measured = find_kernel(c, a, &k);
  double n = (double)d->n, part = a->causal ? pz_attention_causal_part(d, a->span, k.queries) : 1;
  double items = (double)d->batch * ceil((double)d->m / k.queries);
  double item_flop = 2 * products_of(a->direction) * k.queries * n * (double)d->k;
  double scores = items * k.queries * n * part;
  double cycles = measured ? k.cycles : pz_vector_cycles(c, PZ_OP_SOFTMAX, PZ_FORWARD);
  double softmax_s =
      scores * pz_vector_cycles(c, PZ_OP_SOFTMAX, PZ_FORWARD) / pz_chip_vector_op_per_s(c);
  double compute_s = measured ? measured_s(c, a, &k, items, part)
                              : fmax(described_s(c, items, item_flop, part), softmax_s);
  double hbm_s = a->bytes / (pz_chip_hbm_bytes_per_s(c) * c->calibration.hbm_read_efficiency);
  double start_s = measured ? k.startup_s : c->calibration.startup_s;
  double write_s = cache_s(c, a->cache_bytes);
  double work_s = fmax(hbm_s, compute_s);
  *w = (struct pz_work){.core_j =
                            pz_power_attention_j(c, items * item_flop * part / 2, scores, cycles),
                        .outside_j = (a->bytes + a->cache_bytes) * t->hbm_j,
                        .startup_s = start_s + write_s,
                        .core_s = compute_s,
                        .hbm_s = hbm_s,
                        .array_s = compute_s,
                        .lane_s = compute_s};
  *out = (struct pz_estimate){.latency_s = start_s + work_s + write_s,
                              .energy_j = w->core_j + w->outside_j,
                              .hbm_s = hbm_s + write_s,
                              .bound = start_s > work_s  ? PZ_BOUND_STARTUP
                                       : hbm_s >= work_s ? PZ_BOUND_HBM
                                                         : PZ_BOUND_COMPUTE};
}
