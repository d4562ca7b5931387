#include "cost/cost.h"

#include <math.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "cost/attention.h"
#include "cost/power.h"
#include "cost/scan.h"
#include "workload/op.h"

static void init_in(struct pz_arena *arena, struct pz_cost *cost, const struct pz_chip *chip,
                    const struct pz_cluster *net) {
  pz_map_init(&cost->seen, arena);
  pz_vec_init(&cost->mappings, arena, sizeof(struct pz_mapping));
  pz_cost_set_chip(cost, chip, net);
}

void pz_cost_init(struct pz_cost *cost, const struct pz_chip *chip, const struct pz_cluster *net) {
  *cost = (struct pz_cost){0};
  pz_arena_init(&cost->arena, NULL);
  init_in(&cost->arena, cost, chip, net);
}

struct pz_cost *pz_cost_create(struct pz_call *call, const struct pz_chip *chip,
                               const struct pz_cluster *net) {
  struct pz_call own;
  struct pz_cost *cost = pz_object_new(call, sizeof *cost, &own);
  init_in(own.arena, cost, chip, net);
  return cost;
}

/* All that a mapping depends on, and nothing else: padding between fields must not count. */
static uint64_t fingerprint(const struct pz_chip *c) {
  const struct pz_tensor_cores *t = &c->tensor;
  const struct pz_calibration *k = &c->calibration;
  const double v[] = {(double)t->cores,
                      (double)t->rows,
                      (double)t->cols,
                      (double)t->local_bytes,
                      (double)t->register_bytes,
                      t->local_bytes_per_s,
                      t->local_total_bytes_per_s,
                      (double)c->glb_bytes,
                      c->glb_bytes_per_s,
                      pz_chip_hbm_bytes_per_s(c),
                      c->clock_hz,
                      c->rules.fill,
                      c->rules.duplex,
                      c->rules.partitioned,
                      c->rules.double_buffer,
                      c->rules.nested_mapping,
                      (double)c->rules.operand_bytes,
                      (double)c->rules.sum_bytes,
                      k->startup_s,
                      k->batched_startup_s,
                      k->item_s,
                      k->tile_value_s,
                      k->tensor_efficiency,
                      k->glb_efficiency,
                      k->hbm_read_efficiency,
                      k->hbm_write_efficiency,
                      k->multicast,
                      k->boost_s,
                      k->throttle,
                      k->even_rows,
                      k->odd_rows,
                      k->warm_from_bytes,
                      k->warm_to_bytes,
                      (double)k->most_tile_values,
                      (double)k->most_splits,
                      (double)k->least_split_k,
                      (double)k->n_tiles,
                      (double)c->tech,
                      c->glb_core_bytes};
  return pz_hash(v, sizeof v) ^ pz_hash(k->tiles, (size_t)k->n_tiles * sizeof *k->tiles);
}

void pz_cost_set_chip(struct pz_cost *cost, const struct pz_chip *chip,
                      const struct pz_cluster *net) {
  bool link = chip->link_bytes_per_s > 0;
  cost->chip = *chip;
  cost->static_watts = pz_power_static_watts(chip);
  cost->chip_key = fingerprint(chip) ^ (uint64_t)chip->cold;
  if (chip->cold) cost->power = pz_power_law_of(chip);
  cost->net = net ? *net
              : link
                  ? pz_cluster_flat(INT64_C(1) << 32, chip->link_bytes_per_s, chip->link_latency_s)
                  : (struct pz_cluster){0};
  pz_cluster_join_equal(&cost->net);
  cost->net.level[0].collectives = pz_cluster_facts(&cost->net, &chip->collectives);
}

void pz_cost_release(struct pz_cost *cost) {
  if (cost) pz_arena_release(&cost->arena);
}

struct cost_arguments {
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  struct pz_cost **out;
};

static void new_cost(struct pz_call *call, void *ctx) {
  const struct cost_arguments *args = ctx;
  pz_chip_check(call, args->chip);
  if (args->net) pz_cluster_check(call, args->net);
  pz_require(call, args->out, "out");
  struct pz_cost *cost = pz_malloc(sizeof *cost);
  if (!cost) pz_raise(call, PZ_NO_MEMORY, "out of memory for the estimates");
  pz_cost_init(cost, args->chip, args->net);
  *args->out = cost;
}

enum pz_status pz_cost_new(const struct pz_chip *chip, const struct pz_cluster *net,
                           struct pz_cost **out, struct pz_error *err) {
  struct cost_arguments args = {chip, net, out};
  return pz_border(new_cost, &args, err);
}

void pz_cost_free(struct pz_cost *cost) {
  if (cost) pz_cost_release(cost);
  pz_free(cost);
}

const struct pz_chip *pz_cost_chip(const struct pz_cost *cost) { return &cost->chip; }

void pz_cost_counts(const struct pz_cost *cost, uint64_t *asked, uint64_t *found) {
  if (asked) *asked = cost->asked;
  if (found) *found = cost->found;
}

/* Maps a product on tiles of a library.  For GPUs known only by their data sheet, the tiles are those that are fastest at the
 * clock that their technology sustains: where the power limit lowers the clock, arithmetic that HBM would hide does not stay
 * hidden.  For them, and if `by_hbm` is false, the HBM rate does not influence the choice. */
static enum pz_status map_product(const struct pz_cost *cost, const struct pz_product *p,
                                  bool by_hbm, struct pz_mapping *out, struct pz_error *err) {
  static const double UNLIMITED = 1e9;
  struct pz_chip chip = cost->chip;
  bool cold_gpu = chip.cold && chip.calibration.n_tiles;
  if (!cold_gpu && by_hbm) return pz_map_product(p, &chip, out, err);
  chip.hbm.bytes_per_s_per_stack *= UNLIMITED;
  if (cold_gpu) {
    double hz = fmin(chip.clock_hz, pz_tech_at(chip.tech)->reference_hz);
    chip.calibration.tile_value_s *= chip.clock_hz / hz;
    chip.clock_hz = hz;
    chip.glb_bytes_per_s =
        fmin(chip.glb_bytes_per_s, (double)chip.tensor.cores * chip.glb_core_bytes * hz);
  }
  enum pz_status status = pz_map_product(p, &chip, out, err);
  if (status != PZ_OK) return status;
  out->compute_s *= chip.clock_hz / cost->chip.clock_hz;
  out->glb_s *= chip.glb_bytes_per_s / cost->chip.glb_bytes_per_s;
  out->hbm_s *= UNLIMITED;
  out->least_hbm_s *= UNLIMITED;
  out->latency_s =
      out->startup_s + fmax(fmax(out->compute_s, out->hbm_s), fmax(out->glb_s, out->local_s));
  return PZ_OK;
}

static enum pz_status cached_product(struct pz_cost *cost, const struct pz_product *p, bool by_hbm,
                                     struct pz_mapping *out, struct pz_error *err) {
  if (cost->times) return pz_product_times_get(cost->times, p, &cost->chip, out, err);
  const int64_t key[] = {p->batch, p->m, p->n, p->k, p->warm, by_hbm, (int64_t)cost->chip_key};
  uint32_t at = pz_map_get(&cost->seen, key, sizeof key);
  cost->asked++;
  if (at != PZ_NONE) {
    cost->found++;
    *out = *pz_vec_at(&cost->mappings, struct pz_mapping, at);
    return PZ_OK;
  }
  enum pz_status status = map_product(cost, p, by_hbm, out, err);
  if (status != PZ_OK) return status;
  uint32_t index = cost->mappings.n;
  if (!pz_vec_push(&cost->mappings, out) ||
      pz_map_put(&cost->seen, key, sizeof key, index) != PZ_OK)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the cache of estimates");
  return PZ_OK;
}

enum pz_status pz_cost_product(struct pz_cost *cost, const struct pz_product *p,
                               struct pz_mapping *out, struct pz_error *err) {
  if (!cost || !p || !out) return pz_need(NULL, !cost ? "cost" : !p ? "product" : "out", err);
  return cached_product(cost, p, true, out, err);
}

/* The HBM traffic of a grouped product is not that of a batch of products (pz_grouped_bytes), so that HBM does not influence
 * which tiles a library chooses. */
enum pz_status pz_cost_grouped(struct pz_cost *cost, const struct pz_grouped *g,
                               struct pz_mapping *out, struct pz_error *err) {
  bool has_tiles = cost->chip.calibration.n_tiles > 0, tuned = g->tuned && has_tiles;
  for (int i = 0; i == 0 || (tuned && pz_grouped_tile(i)); i++) {
    struct pz_product p = pz_grouped_product(&cost->chip, g, tuned ? pz_grouped_tile(i) : 0);
    struct pz_mapping o;
    enum pz_status status = cached_product(cost, &p, !has_tiles, &o, err);
    if (status != PZ_OK) return status;
    pz_grouped_bytes(&cost->chip, g, &o);
    if (i == 0 || o.latency_s < out->latency_s) *out = o;
  }
  return PZ_OK;
}

/* Lane operations of the vector tail of a fused operator, and their energy. */
static double tail_ops(const struct pz_chip *c, const struct pz_op *op, double *energy_j) {
  double ops = 0;
  for (uint32_t i = 0; i < op->n_tail; i++)
    ops += (double)op->tail[i].elems * pz_vector_cycles(c, op->tail[i].kind, op->tail[i].direction);
  *energy_j += ops * pz_tech_at(c->tech)->lane_j;
  return ops;
}

struct pz_product_extra pz_cost_extra(const struct pz_chip *c, const struct pz_op *op) {
  const struct pz_dims *d = &op->dims;
  double b = (double)d->batch, m = (double)d->m, n = (double)d->n, k = (double)d->k;
  double bytes = (double)(op->bytes_read + op->bytes_written) -
                 b * (m * k + k * n + m * n) * (double)c->rules.operand_bytes;
  double rate = pz_chip_hbm_bytes_per_s(c) * c->calibration.hbm_write_efficiency;
  struct pz_product_extra x = {.hbm_s = bytes / rate,
                               .energy_j = bytes * pz_tech_at(c->tech)->hbm_j};
  x.tail_ops = tail_ops(c, op, &x.energy_j);
  return x;
}

/* That the product moves between HBM and the chip at least. */
static double least_bytes(const struct pz_chip *c, const struct pz_mapping *o) {
  return o->least_hbm_s * pz_chip_hbm_bytes_per_s(c) * c->calibration.hbm_read_efficiency;
}

/* The clock that the watts of a chip allow that nobody measured decides about time and energy. */
static void run_within_watts(const struct pz_cost *cost, const struct pz_work *w,
                             struct pz_estimate *e) {
  struct pz_power p;
  pz_power_run(&cost->power, w, 0, &p);
  e->utilisation *= p.latency_s > 0 ? e->latency_s / p.latency_s : 1;
  e->latency_s = p.latency_s;
  e->energy_j = p.joules;
}

/* Do on-chip buffers deliver a fixed number of bytes per cycle, so that their rates follow the clock?  On all chips but GPUs. */
static bool buffers_follow(const struct pz_chip *c) { return c->execution != PZ_CHIP_STREAM; }

struct pz_work pz_cost_mapped_work(const struct pz_chip *c, double macs, enum pz_format format,
                                   const struct pz_mapping *o) {
  double array_s = fmax(fmax(o->compute_s, o->glb_s), o->local_s);
  double part = pz_power_width_part(format), core_s = buffers_follow(c) ? array_s : o->compute_s;
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  if (c->bounds_others)
    core_s = format == PZ_FORMAT_16BIT ? 2 * macs / pz_chip_tensor_flop_per_s(c) : 0;
  return (struct pz_work){.core_j = part * pz_power_product_j(c, macs),
                          .outside_j = least_bytes(c, o) * (t->hbm_j + t->glb_j),
                          .startup_s = o->startup_s,
                          .core_s = core_s,
                          .hbm_s = o->hbm_s,
                          .array_s = array_s,
                          .glb_s = o->glb_s};
}

void pz_cost_within_watts(const struct pz_cost *cost, double macs, enum pz_format format,
                          struct pz_mapping *o) {
  if (!cost->chip.cold) return;
  struct pz_estimate e = {.latency_s = o->latency_s};
  struct pz_work w = pz_cost_mapped_work(&cost->chip, macs, format, o);
  run_within_watts(cost, &w, &e);
  o->latency_s = e.latency_s;
  o->energy_j = e.energy_j;
}

static enum pz_status product_cost(struct pz_cost *cost, const struct pz_op *op,
                                   struct pz_estimate *out, struct pz_work *w,
                                   struct pz_error *err) {
  const struct pz_chip *c = &cost->chip;
  struct pz_product p = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  struct pz_grouped g = {p.batch, p.batch * p.m, p.n, p.k, 0, false, NULL};
  struct pz_mapping o;
  bool grouped = op->grouped && c->calibration.n_tiles, gradient = grouped && !op->weight_bytes;
  if (gradient) p.k = pz_grouped_rows(p.k);
  enum pz_status status = grouped && !gradient ? pz_cost_grouped(cost, &g, &o, err)
                                               : pz_cost_product(cost, &p, &o, err);
  if (status != PZ_OK) return status;
  struct pz_product_extra x = pz_cost_extra(c, op);
  double hbm_s = fmax(0, o.hbm_s + x.hbm_s), lanes = pz_chip_vector_op_per_s(c);
  double mapped_s = fmax(fmax(o.compute_s, o.glb_s), o.local_s), tail_s = x.tail_ops / lanes;
  double core_s = fmax(mapped_s, tail_s);
  out->latency_s = o.startup_s + pz_cost_with_extra_s(&x, mapped_s, o.hbm_s, lanes);
  out->energy_j = o.energy_j + x.energy_j;
  out->hbm_s = hbm_s;
  out->glb_s = o.glb_s;
  out->utilisation = (double)op->matmul_flop / (pz_chip_tensor_flop_per_s(c) * out->latency_s);
  out->bound = o.bound == PZ_BOUND_STARTUP && o.startup_s > fmax(core_s, hbm_s) ? PZ_BOUND_STARTUP
               : hbm_s > core_s                                                 ? PZ_BOUND_HBM
               : tail_s >= core_s || o.compute_s >= core_s                      ? PZ_BOUND_COMPUTE
               : o.glb_s >= core_s                                              ? PZ_BOUND_GLB
                                                                                : PZ_BOUND_LOCAL;
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  double macs =
      (double)op->dims.batch * (double)op->dims.m * (double)op->dims.n * (double)op->dims.k;
  *w = pz_cost_mapped_work(c, macs, PZ_FORMAT_16BIT, &o);
  w->core_j += x.tail_ops * t->lane_j;
  w->outside_j = fmax(0, w->outside_j + x.energy_j - x.tail_ops * t->lane_j);
  w->core_s = fmax(w->core_s, tail_s);
  w->hbm_s = hbm_s;
  w->lane_s = tail_s;
  return PZ_OK;
}

static void vector_cost(const struct pz_cost *cost, const struct pz_op *op, struct pz_estimate *out,
                        struct pz_work *work) {
  const struct pz_chip *c = &cost->chip;
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  double bytes = (double)(op->bytes_read + op->bytes_written);
  double values = (double)op->dims.m * (double)op->dims.n;
  struct pz_vector_work w = {op->kind, op->direction, op->dims.m, op->dims.n, bytes, false};
  struct pz_vector_time time;
  if (op->strided)
    pz_vector_named(c, "strided", &w, &time);
  else
    pz_vector_time(c, &w, &time);
  /* a product of two inputs that a kernel of its own forms first */
  if (c->calibration.n_kernels)
    time.rows_s += 3 * (double)op->scratch_bytes /
                   (pz_chip_hbm_bytes_per_s(c) * c->calibration.hbm_read_efficiency);
  bytes *= time.moved;
  double energy = values * pz_power_lane_ops(c, op->kind, op->direction) * t->lane_j +
                  bytes * (t->hbm_j + t->glb_j);
  time.compute_s += tail_ops(c, op, &energy) / pz_chip_vector_op_per_s(c);
  pz_vector_conclude(&time);
  out->latency_s = time.latency_s;
  out->energy_j = energy;
  out->hbm_s = time.hbm_s;
  out->glb_s = time.glb_s;
  out->bound = time.bound;
  *work = (struct pz_work){.core_j = energy - bytes * t->hbm_j,
                           .outside_j = bytes * t->hbm_j,
                           .startup_s = time.startup_s + time.rows_s,
                           .core_s = buffers_follow(c) ? fmax(time.compute_s, time.glb_s)
                                                       : time.compute_s,
                           .hbm_s = time.hbm_s,
                           .lane_s = time.compute_s,
                           .glb_s = time.glb_s};
}

static void flash_cost(const struct pz_cost *cost, const struct pz_op *op, struct pz_estimate *out,
                       struct pz_work *w) {
  const struct pz_chip *c = &cost->chip;
  struct pz_attention_work a = {.dims = op->dims,
                                .direction = op->direction,
                                .causal = cost->causal,
                                .library = cost->attention_library,
                                .span = op->span,
                                .bytes = (double)(op->bytes_read + op->bytes_written)};
  pz_attention_cost(c, &a, out, w);
  out->utilisation = (double)op->matmul_flop / (pz_chip_tensor_flop_per_s(c) * out->latency_s);
}

static void scan_cost(const struct pz_cost *cost, const struct pz_op *op, struct pz_estimate *out,
                      struct pz_work *w) {
  const struct pz_chip *c = &cost->chip;
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  struct pz_scan_work scan = pz_scan_work_of(op);
  struct pz_scan_counts n = pz_scan_counts(&scan);
  struct pz_scan_time s;
  pz_scan_time(c, &scan, &s);
  *w = (struct pz_work){.core_j = pz_power_product_j(c, n.macs) + n.lane_ops * t->lane_j +
                                  n.bytes * t->glb_j,
                        .outside_j = n.bytes * t->hbm_j,
                        .startup_s = s.startup_s,
                        .core_s = s.compute_s,
                        .hbm_s = s.hbm_s,
                        .array_s = s.work_s,
                        .lane_s = s.lane_s};
  *out = (struct pz_estimate){.latency_s = s.startup_s + s.work_s,
                              .energy_j = w->core_j + w->outside_j,
                              .hbm_s = s.hbm_s,
                              .bound = s.startup_s > s.work_s   ? PZ_BOUND_STARTUP
                                       : s.hbm_s >= s.compute_s ? PZ_BOUND_HBM
                                                                : PZ_BOUND_COMPUTE};
  out->utilisation = (double)op->matmul_flop / (pz_chip_tensor_flop_per_s(c) * out->latency_s);
}

static enum pz_status collective_cost(const struct pz_cost *cost, const struct pz_op *op,
                                      struct pz_estimate *out, struct pz_error *err) {
  if (cost->net.n_levels == 0)
    return pz_fail(err, PZ_BAD_USE,
                   "chip %s has no link for '%s'; accepted: a chip with a link, or --cluster",
                   cost->chip.name, op->name);
  if (op->dims.batch > cost->net.devices)
    return pz_fail(err, PZ_BAD_USE,
                   "a group of %lld devices is larger than cluster %s, which has %lld",
                   (long long)op->dims.batch, cost->net.name, (long long)cost->net.devices);
  double bytes = (double)(op->bytes_read > op->bytes_written ? op->bytes_read : op->bytes_written);
  enum pz_collective kind = op->kind == PZ_OP_ALL_REDUCE       ? PZ_COLLECTIVE_ALL_REDUCE
                            : op->kind == PZ_OP_REDUCE_SCATTER ? PZ_COLLECTIVE_REDUCE_SCATTER
                            : op->kind == PZ_OP_ALL_TO_ALL     ? PZ_COLLECTIVE_ALL_TO_ALL
                                                               : PZ_COLLECTIVE_ALL_GATHER;
  out->latency_s = pz_collective_s(&cost->net, kind, bytes, op->dims.batch);
  double group = (double)op->dims.batch, halves = kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  out->energy_j = halves * (group - 1) / group * bytes * pz_tech_at(cost->chip.tech)->link_j;
  out->hbm_s = fmin(out->latency_s, (double)(op->bytes_read + op->bytes_written) /
                                        pz_chip_hbm_bytes_per_s(&cost->chip));
  out->bound = PZ_BOUND_LINK;
  return PZ_OK;
}

/* At the chip's clock, without static power; a collective has no work of its own. */
static enum pz_status op_cost(struct pz_cost *cost, const struct pz_op *op, struct pz_estimate *e,
                              struct pz_work *w, struct pz_error *err) {
  enum pz_status status = PZ_OK;
  *e = (struct pz_estimate){.bound = PZ_BOUND_STARTUP};
  *w = (struct pz_work){0};
  if (op->kind == PZ_OP_ATTENTION)
    flash_cost(cost, op, e, w);
  else if (pz_op_is_scan(op->kind))
    scan_cost(cost, op, e, w);
  else if (op->matmul_flop)
    status = product_cost(cost, op, e, w, err);
  else if (op->op_class == PZ_CLASS_COLLECTIVE)
    status = collective_cost(cost, op, e, err);
  else if (op->op_class == PZ_CLASS_VECTOR)
    vector_cost(cost, op, e, w);
  return status;
}

enum pz_status pz_cost_op_work(struct pz_cost *cost, const struct pz_op *op,
                               struct pz_estimate *out, struct pz_work *w, struct pz_error *err) {
  struct pz_estimate e;
  enum pz_status status = op_cost(cost, op, &e, w, err);
  if (status != PZ_OK) return status;
  if (!cost->chip.cold || op->op_class == PZ_CLASS_COLLECTIVE)
    e.energy_j += e.latency_s * cost->static_watts;
  else
    run_within_watts(cost, w, &e);
  return *out = e, PZ_OK;
}

/* Of a program, which may have changed it. */
static enum pz_status check_op(const struct pz_op *op, struct pz_error *err) {
  enum pz_status s = pz_need(op->name, "the operator's name", err);
  if (s == PZ_OK) s = pz_need_range("kind", op->kind, 0, PZ_OP_KINDS - 1, err);
  if (s == PZ_OK) s = pz_need_range("op_class", (int64_t)op->op_class, 0, PZ_CLASS_COLLECTIVE, err);
  if (s == PZ_OK) s = pz_need_range("direction", (int64_t)op->direction, 0, PZ_BACKWARD, err);
  if (s == PZ_OK) s = pz_need_range("peers", (int64_t)op->peers, 0, PZ_PEERS_CONTEXT, err);
  if (s == PZ_OK && op->n_tail) s = pz_need(op->tail, "tail", err);
  for (uint32_t i = 0; i < op->n_tail && s == PZ_OK; i++)
    s = pz_need_range("kind of a tail", op->tail[i].kind, 0, PZ_OP_KINDS - 1, err);
  return s;
}

enum pz_status pz_cost_op(struct pz_cost *cost, const struct pz_op *op, struct pz_estimate *out,
                          struct pz_error *err) {
  struct pz_work w;
  if (!cost || !op || !out) return pz_need(NULL, !cost ? "cost" : !op ? "op" : "out", err);
  enum pz_status status = check_op(op, err);
  if (status != PZ_OK) return status;
  return pz_cost_op_work(cost, op, out, &w, err);
}

/* Adam on one parameter: ten products and sums, a root (15 cycles), a division (10). */
static const double CYCLES = 35;

void pz_cost_update(const struct pz_cost *cost, double bytes, double params, double efficiency,
                    struct pz_power *out) {
  const struct pz_chip *c = &cost->chip;
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  struct pz_work w = {.core_j = params * CYCLES * t->lane_j,
                      .outside_j = bytes * t->hbm_j,
                      .core_s = params * CYCLES / pz_chip_vector_op_per_s(c),
                      .hbm_s = bytes / (pz_chip_hbm_bytes_per_s(c) * efficiency)};
  if (!(bytes > 0)) w = (struct pz_work){0}; /* the framework has none */
  if (c->cold)
    pz_power_run(&cost->power, &w, 0, out);
  else
    *out = (struct pz_power){.latency_s = w.hbm_s, .joules = w.core_j + w.outside_j};
}

void pz_cost_optimizer(const struct pz_chip *c, double params, double bytes_per_param,
                       struct pz_estimate *out) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  struct pz_vector_work w = {PZ_OP_ADD, PZ_FORWARD, (int64_t)params, 1, params * bytes_per_param,
                             false};
  struct pz_vector_time time;
  pz_vector_named(c, "adamw", &w, &time);
  time.compute_s = params * CYCLES / pz_chip_vector_op_per_s(c);
  pz_vector_conclude(&time);
  *out =
      (struct pz_estimate){.latency_s = time.latency_s,
                           .energy_j = params * (CYCLES * t->lane_j + bytes_per_param * t->hbm_j),
                           .bound = time.bound};
}

/* ---- for callers that raise errors ------------------------------------------------------------ */

struct pz_mapping pz_estimate_product(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_product *product) {
  struct pz_mapping mapping;
  pz_must(call, pz_cost_product(cost, product, &mapping, pz_call_error(call)));
  return mapping;
}

struct pz_mapping pz_estimate_grouped(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_grouped *grouped) {
  struct pz_mapping mapping;
  pz_must(call, pz_cost_grouped(cost, grouped, &mapping, pz_call_error(call)));
  return mapping;
}

struct pz_estimate pz_estimate_op(struct pz_call *call, struct pz_cost *cost,
                                  const struct pz_op *op, struct pz_work *work) {
  struct pz_estimate estimate;
  pz_must(call, pz_cost_op_work(cost, op, &estimate, work, pz_call_error(call)));
  return estimate;
}
