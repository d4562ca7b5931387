/* The cost of one operator: which model estimates it, and how its time follows from the parts.
 *
 * Terms.  A GEMM takes the largest of arithmetic, traffic of the local and global buffers and HBM
 * traffic of its best mapping (cost/mapper.h), plus a start-up time.  Vector operators
 * (cost/vector.h), attention (cost/attention.h), state-space scans (cost/scan.h) and collectives
 * (cost/network.h) have models of their own.  Energy is the energy of what an operator does plus
 * the static power of the chip for its latency.
 *
 * Simplifications.
 *  - Operators run one after the other; nothing of one is left in a buffer for the next.
 *  - Everything in an operator overlaps perfectly except its start-up.  The element-wise tail of a
 *    GEMM runs while other tiles are multiplied.
 *  - On measured chips the power limit is part of the calibration.  On chips known only by their
 *    data sheet each operator runs at its own constant clock (cost/power.h).
 *  - A collective of a graph is a ring inside each level of the network (pz_collective_s()).
 *
 * This file knows nothing of layers, pipelines or training plans. */
#include "cost/cost.h"

#include <math.h>

#include "cost/attention.h"
#include "cost/mapper.h"
#include "cost/scan.h"
#include "workload/op.h"

/* ---- the object and its cache ---------------------------------------------------------------- */

/* Returns a hash of every number of a chip that a mapping depends on. */
static uint64_t mapping_fingerprint(const struct pz_chip *chip) {
  const struct pz_tensor_cores *tensor_cores = &chip->tensor;
  const struct pz_calibration *calibration = &chip->calibration;
  const double values[] = {(double)tensor_cores->cores,
                           (double)tensor_cores->rows,
                           (double)tensor_cores->cols,
                           (double)tensor_cores->local_bytes,
                           (double)tensor_cores->register_bytes,
                           tensor_cores->local_bytes_per_s,
                           tensor_cores->local_total_bytes_per_s,
                           (double)chip->glb_bytes,
                           chip->glb_bytes_per_s,
                           pz_chip_hbm_bytes_per_s(chip),
                           chip->clock_hz,
                           chip->rules.fill,
                           chip->rules.duplex,
                           chip->rules.partitioned,
                           chip->rules.double_buffer,
                           chip->rules.nested_mapping,
                           (double)chip->rules.operand_bytes,
                           (double)chip->rules.sum_bytes,
                           calibration->startup_s,
                           calibration->batched_startup_s,
                           calibration->item_s,
                           calibration->tile_value_s,
                           calibration->tensor_efficiency,
                           calibration->glb_efficiency,
                           calibration->hbm_read_efficiency,
                           calibration->hbm_write_efficiency,
                           calibration->multicast,
                           calibration->boost_s,
                           calibration->throttle,
                           calibration->even_rows,
                           calibration->odd_rows,
                           calibration->warm_from_bytes,
                           calibration->warm_to_bytes,
                           (double)calibration->most_tile_values,
                           (double)calibration->most_splits,
                           (double)calibration->least_split_k,
                           (double)calibration->n_tiles,
                           (double)chip->tech,
                           chip->glb_core_bytes};
  uint64_t numbers = pz_hash(values, sizeof values);
  uint64_t tiles =
      pz_hash(calibration->tiles, (size_t)calibration->n_tiles * sizeof *calibration->tiles);
  return numbers ^ tiles ^ (uint64_t)chip->cold;
}

/* Replaces the chip and all numbers that are derived from it.  The network is `net`, or if this is
 * NULL, one level with the links of the chip, or none if the chip has no links. */
void pz_cost_set_chip(struct pz_cost *cost, const struct pz_chip *chip,
                      const struct pz_cluster *net) {
  static const int64_t ANY_DEVICES = INT64_C(1) << 32; /* more than any group has */
  cost->chip = *chip;
  cost->static_watts = pz_power_static_watts(chip);
  cost->chip_key = mapping_fingerprint(chip);
  if (chip->cold) cost->power = pz_power_law_of(chip);
  if (net)
    cost->net = *net;
  else if (chip->link_bytes_per_s > 0)
    cost->net = pz_cluster_flat(ANY_DEVICES, chip->link_bytes_per_s, chip->link_latency_s);
  else
    cost->net = (struct pz_cluster){0};
  pz_cluster_join_equal(&cost->net);
  cost->net.level[0].collectives = pz_cluster_facts(&cost->net, &chip->collectives);
}

void pz_cost_init(struct pz_cost *cost, const struct pz_chip *chip, const struct pz_cluster *net) {
  *cost = (struct pz_cost){0};
  pz_arena_init(&cost->arena);
  pz_map_init(&cost->seen, &cost->arena);
  pz_vec_init(&cost->mappings, &cost->arena, sizeof(struct pz_mapping));
  pz_cost_set_chip(cost, chip, net);
}

void pz_cost_release(void *cost) {
  if (cost) pz_arena_release(&((struct pz_cost *)cost)->arena);
}

struct pz_cost *pz_cost_create(struct pz_call *call, const struct pz_chip *chip,
                               const struct pz_cluster *net) {
  struct pz_call own;
  struct pz_cost *cost = pz_object_new(call, sizeof *cost, &own);
  pz_map_init(&cost->seen, own.arena);
  pz_vec_init(&cost->mappings, own.arena, sizeof(struct pz_mapping));
  pz_cost_set_chip(cost, chip, net);
  return cost;
}

/* ---- GEMMs ----------------------------------------------------------------------------------- */

/* Finds the mapping of a GEMM, with its times on the nominal chip.  HBM traffic influences the
 * choice of the mapping, except in two cases: `by_hbm` is false, or the chip is a GPU known only by
 * its data sheet (chip.cold).  In both, the mapping is found with a practically unlimited HBM rate,
 * and its times are then scaled back.  For such a GPU, the tiles are moreover those that are
 * fastest at the clock that its technology sustains, because arithmetic that HBM traffic hides at
 * the nominal clock does not stay hidden if the power limit lowers the clock. */
static struct pz_mapping find_uncached_mapping(struct pz_call *call, const struct pz_chip *nominal,
                                               const struct pz_product *product, bool by_hbm) {
  static const double UNLIMITED = 1e9;
  bool is_cold_gpu = nominal->cold && nominal->calibration.n_tiles;
  if (!is_cold_gpu && by_hbm) return pz_find_mapping(call, product, nominal);
  struct pz_chip chip = *nominal;
  chip.hbm.bytes_per_s_per_stack *= UNLIMITED;
  if (is_cold_gpu) {
    double sustained_hz = fmin(chip.clock_hz, pz_tech_at(chip.tech)->reference_hz);
    chip.calibration.tile_value_s *= chip.clock_hz / sustained_hz;
    chip.clock_hz = sustained_hz;
    chip.glb_bytes_per_s =
        fmin(chip.glb_bytes_per_s, (double)chip.tensor.cores * chip.glb_core_bytes * sustained_hz);
  }
  struct pz_mapping mapping = pz_find_mapping(call, product, &chip);
  mapping.compute_s *= chip.clock_hz / nominal->clock_hz;
  mapping.glb_s *= chip.glb_bytes_per_s / nominal->glb_bytes_per_s;
  mapping.hbm_s *= UNLIMITED;
  mapping.least_hbm_s *= UNLIMITED;
  mapping.latency_s = mapping.startup_s + fmax(fmax(mapping.compute_s, mapping.hbm_s),
                                               fmax(mapping.glb_s, mapping.local_s));
  return mapping;
}

/* Returns the mapping of a GEMM on a chip, from the cache if it is there.  chip_key is the chip's
 * fingerprint.  HBM traffic influences the choice of tiles only if `by_hbm` is true.  Searches over
 * chips set cost->times, a cache for many chips that is used instead (product_times.h). */
static struct pz_mapping cached_mapping(struct pz_call *call, struct pz_cost *cost,
                                        const struct pz_chip *chip, uint64_t chip_key,
                                        const struct pz_product *product, bool by_hbm) {
  if (cost->times) return pz_product_times_mapping(call, cost->times, product, chip);
  const int64_t key[] = {product->batch, product->m, product->n,       product->k,
                         product->warm,  by_hbm,     (int64_t)chip_key};
  uint32_t found = pz_map_get(&cost->seen, key, sizeof key);
  cost->asked++;
  if (found != PZ_NONE) {
    cost->found++;
    return *pz_vec_at(&cost->mappings, struct pz_mapping, found);
  }
  struct pz_mapping mapping = find_uncached_mapping(call, chip, product, by_hbm);
  uint32_t index = cost->mappings.n;
  pz_append(call, &cost->mappings, &mapping);
  pz_map_set(call, &cost->seen, key, sizeof key, index);
  return mapping;
}

/* Returns the fastest mapping of a GEMM. */
struct pz_mapping pz_estimate_product(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_chip *chip,
                                      const struct pz_product *product) {
  uint64_t chip_key = chip == &cost->chip ? cost->chip_key : mapping_fingerprint(chip);
  return cached_mapping(call, cost, chip, chip_key, product, true);
}

/* Returns the fastest mapping of a grouped GEMM: that of a batch of GEMMs with as many tiles. A
 * tuned kernel uses the fastest of its tiles, of TILE_ROWS rows. Because the HBM traffic of the
 * batch is not that of the grouped GEMM, it does not influence which tiles a library chooses. */
struct pz_mapping pz_estimate_grouped(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_chip *chip,
                                      const struct pz_grouped *grouped) {
  static const int64_t TILE_ROWS[] = {16, 32, 64, 128, 256};
  bool has_tiles = chip->calibration.n_tiles > 0, is_tuned = grouped->tuned && has_tiles;
  uint64_t chip_key = chip == &cost->chip ? cost->chip_key : mapping_fingerprint(chip);
  size_t n_tiles = is_tuned ? sizeof TILE_ROWS / sizeof *TILE_ROWS : 1;
  struct pz_mapping best;
  for (size_t i = 0; i < n_tiles; i++) {
    int64_t tile_rows = is_tuned ? TILE_ROWS[i] : 0; /* 0: the tile of a training library */
    struct pz_product product = pz_grouped_product(chip, grouped, tile_rows);
    bool by_hbm = !has_tiles;
    struct pz_mapping mapping = cached_mapping(call, cost, chip, chip_key, &product, by_hbm);
    pz_grouped_set_hbm_traffic(chip, grouped, &mapping);
    if (i == 0 || mapping.latency_s < best.latency_s) best = mapping;
  }
  return best;
}

/* Returns the vector operations of an operator's tail, and adds their energy to *energy_j. */
static double add_tail_ops(const struct pz_chip *chip, const struct pz_op *op, double *energy_j) {
  double ops = 0;
  for (uint32_t i = 0; i < op->n_tail; i++)
    ops +=
        (double)op->tail[i].elems * pz_vector_cycles(chip, op->tail[i].kind, op->tail[i].direction);
  *energy_j += ops * pz_tech_at(chip->tech)->lane_j;
  return ops;
}

/* Returns the work of a GEMM operator besides its GEMM: HBM traffic beyond its operands and
 * results, and its tail, which are the element-wise operators that are fused with it. */
struct pz_product_extra pz_cost_extra(const struct pz_chip *chip, const struct pz_op *op) {
  const struct pz_dims *dims = &op->dims;
  double batch = (double)dims->batch, m = (double)dims->m, n = (double)dims->n, k = (double)dims->k;
  double gemm_bytes = batch * (m * k + k * n + m * n) * (double)chip->rules.operand_bytes;
  double bytes = (double)(op->bytes_read + op->bytes_written) - gemm_bytes;
  double rate = pz_chip_hbm_bytes_per_s(chip) * chip->calibration.hbm_write_efficiency;
  struct pz_product_extra extra = {.hbm_s = bytes / rate,
                                   .energy_j = bytes * pz_tech_at(chip->tech)->hbm_j};
  extra.tail_ops = add_tail_ops(chip, op, &extra.energy_j);
  return extra;
}

/* Returns the work of a GEMM with this mapping: its energy, and the seconds for which it needs each
 * resource of the chip.  If the chip serves as a bound for others, both are lower bounds. */
struct pz_work pz_cost_mapped_work(const struct pz_chip *chip, double macs, enum pz_format format,
                                   const struct pz_mapping *mapping) {
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  double array_s = fmax(fmax(mapping->compute_s, mapping->glb_s), mapping->local_s);
  /* The rates of buffers are proportional to the clock on all chips but GPUs. */
  double core_s = chip->execution != PZ_CHIP_STREAM ? array_s : mapping->compute_s;
  /* A bound counts the multiplications alone, which any mapping needs, and only in 16 bits. */
  if (chip->bounds_others)
    core_s = format == PZ_FORMAT_16BIT ? 2 * macs / pz_chip_tensor_flop_per_s(chip) : 0;
  double least_hbm_bytes =
      mapping->least_hbm_s * pz_chip_hbm_bytes_per_s(chip) * chip->calibration.hbm_read_efficiency;
  return (struct pz_work){.core_j = pz_power_width_part(format) * pz_power_product_j(chip, macs),
                          .outside_j = least_hbm_bytes * (tech->hbm_j + tech->glb_j),
                          .startup_s = mapping->startup_s,
                          .core_s = core_s,
                          .hbm_s = mapping->hbm_s,
                          .array_s = array_s,
                          .glb_s = mapping->glb_s};
}

/* Sets latency and energy of a GEMM on an unmeasured chip to those within its power limit. */
void pz_cost_within_watts(const struct pz_power_law *law, const struct pz_chip *chip, double macs,
                          enum pz_format format, struct pz_mapping *mapping) {
  if (!chip->cold) return;
  struct pz_work work = pz_cost_mapped_work(chip, macs, format, mapping);
  struct pz_power power;
  pz_power_run(law, &work, 0, &power);
  mapping->latency_s = power.latency_s;
  mapping->energy_j = power.joules;
}

/* ---- operators -------------------------------------------------------------------------------
 *
 * Each function sets *out and *work to the operator's estimate and work at the chip's nominal clock
 * and without static power. */

/* Estimates a GEMM with its tail, the element-wise operators that are applied to its result.  On
 * chips with a library of kernels, the weight gradients of experts are a batch of GEMMs that sum
 * over the tokens of each expert, and all other GEMMs of experts are grouped GEMMs. */
static void estimate_gemm_op(struct pz_call *call, struct pz_cost *cost, const struct pz_op *op,
                             struct pz_estimate *out, struct pz_work *work) {
  const struct pz_chip *chip = &cost->chip;
  struct pz_product product = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  struct pz_grouped grouped = {
      product.batch, product.batch * product.m, product.n, product.k, 0, false, NULL};
  bool is_of_experts = op->grouped && chip->calibration.n_tiles;
  bool is_weight_gradient = is_of_experts && !op->weight_bytes;
  if (is_weight_gradient) product.k = pz_grouped_gradient_rows(product.k);
  struct pz_mapping mapping = is_of_experts && !is_weight_gradient
                                  ? pz_estimate_grouped(call, cost, chip, &grouped)
                                  : pz_estimate_product(call, cost, chip, &product);
  struct pz_product_extra extra = pz_cost_extra(chip, op);
  double lane_ops_per_s = pz_chip_vector_op_per_s(chip);
  double hbm_s = fmax(0, mapping.hbm_s + extra.hbm_s), tail_s = extra.tail_ops / lane_ops_per_s;
  double mapped_s = fmax(fmax(mapping.compute_s, mapping.glb_s), mapping.local_s);
  double core_s = fmax(mapped_s, tail_s);
  out->latency_s =
      mapping.startup_s + pz_cost_with_extra_s(&extra, mapped_s, mapping.hbm_s, lane_ops_per_s);
  out->energy_j = mapping.energy_j + extra.energy_j;
  out->hbm_s = hbm_s;
  out->glb_s = mapping.glb_s;
  out->utilisation = (double)op->matmul_flop / (pz_chip_tensor_flop_per_s(chip) * out->latency_s);
  bool startup_is_longest = mapping.startup_s > fmax(core_s, hbm_s);
  if (mapping.bound == PZ_BOUND_STARTUP && startup_is_longest)
    out->bound = PZ_BOUND_STARTUP;
  else if (hbm_s > core_s)
    out->bound = PZ_BOUND_HBM;
  else if (tail_s >= core_s || mapping.compute_s >= core_s)
    out->bound = PZ_BOUND_COMPUTE;
  else
    out->bound = mapping.glb_s >= core_s ? PZ_BOUND_GLB : PZ_BOUND_LOCAL;

  double macs =
      (double)op->dims.batch * (double)op->dims.m * (double)op->dims.n * (double)op->dims.k;
  double tail_j = extra.tail_ops * pz_tech_at(chip->tech)->lane_j;
  *work = pz_cost_mapped_work(chip, macs, PZ_FORMAT_16BIT, &mapping);
  work->core_j += tail_j;
  work->outside_j = fmax(0, work->outside_j + extra.energy_j - tail_j);
  work->core_s = fmax(work->core_s, tail_s);
  work->hbm_s = hbm_s;
  work->lane_s = tail_s;
}

/* Estimates a vector operator with its element-wise tail. */
static void estimate_vector_op(const struct pz_cost *cost, const struct pz_op *op,
                               struct pz_estimate *out, struct pz_work *work) {
  const struct pz_chip *chip = &cost->chip;
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  double bytes = (double)(op->bytes_read + op->bytes_written);
  double values = (double)op->dims.m * (double)op->dims.n;
  struct pz_vector_work vector = {op->kind, op->direction, op->dims.m, op->dims.n, bytes, false};
  struct pz_vector_time time;
  if (op->strided)
    pz_vector_named(chip, "strided", &vector, &time);
  else
    pz_vector_time(chip, &vector, &time);
  /* The framework of a measured chip first multiplies two of the inputs in a separate kernel, which
   * reads both and writes their product. */
  if (chip->calibration.n_kernels)
    time.rows_s += 3 * (double)op->scratch_bytes /
                   (pz_chip_hbm_bytes_per_s(chip) * chip->calibration.hbm_read_efficiency);
  bytes *= time.moved;
  double energy_j = values * pz_power_lane_ops(chip, op->kind, op->direction) * tech->lane_j +
                    bytes * (tech->hbm_j + tech->glb_j);
  time.compute_s += add_tail_ops(chip, op, &energy_j) / pz_chip_vector_op_per_s(chip);
  pz_vector_conclude(&time);
  out->latency_s = time.latency_s;
  out->energy_j = energy_j;
  out->hbm_s = time.hbm_s;
  out->glb_s = time.glb_s;
  out->bound = time.bound;
  double core_s = time.compute_s;
  if (chip->execution != PZ_CHIP_STREAM) core_s = fmax(time.compute_s, time.glb_s);
  *work = (struct pz_work){.core_j = energy_j - bytes * tech->hbm_j,
                           .outside_j = bytes * tech->hbm_j,
                           .startup_s = time.startup_s + time.rows_s,
                           .core_s = core_s,
                           .hbm_s = time.hbm_s,
                           .lane_s = time.compute_s,
                           .glb_s = time.glb_s};
}

/* Estimates a chunked scan of a state-space layer. */
static void estimate_scan_op(const struct pz_cost *cost, const struct pz_op *op,
                             struct pz_estimate *out, struct pz_work *work) {
  const struct pz_chip *chip = &cost->chip;
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  struct pz_scan_work scan = pz_scan_work_of(op);
  struct pz_scan_counts counts = pz_scan_counts(&scan);
  struct pz_scan_time time;
  pz_scan_time(chip, &scan, &time);
  *work = (struct pz_work){.core_j = pz_power_product_j(chip, counts.macs) +
                                     counts.lane_ops * tech->lane_j + counts.bytes * tech->glb_j,
                           .outside_j = counts.bytes * tech->hbm_j,
                           .startup_s = time.startup_s,
                           .core_s = time.compute_s,
                           .hbm_s = time.hbm_s,
                           .array_s = time.work_s,
                           .lane_s = time.lane_s};
  *out = (struct pz_estimate){.latency_s = time.startup_s + time.work_s,
                              .energy_j = work->core_j + work->outside_j,
                              .hbm_s = time.hbm_s,
                              .bound = PZ_BOUND_COMPUTE};
  if (time.startup_s > time.work_s)
    out->bound = PZ_BOUND_STARTUP;
  else if (time.hbm_s >= time.compute_s)
    out->bound = PZ_BOUND_HBM;
  out->utilisation = (double)op->matmul_flop / (pz_chip_tensor_flop_per_s(chip) * out->latency_s);
}

/* Estimates a collective.  A pass of a ring over g devices sends (g-1)/g of the tensor, and an
 * all-reduce has two passes.  Raises PZ_BAD_USE if the network cannot run it. */
static void estimate_collective_op(struct pz_call *call, const struct pz_cost *cost,
                                   const struct pz_op *op, struct pz_estimate *out) {
  if (cost->net.n_levels == 0)
    pz_raise(call, PZ_BAD_USE,
             "chip %s has no link for '%s'; accepted: a chip with a link, or --cluster",
             cost->chip.name, op->name);
  if (op->dims.batch > cost->net.devices)
    pz_raise(call, PZ_BAD_USE, "a group of %lld devices is larger than cluster %s, which has %lld",
             (long long)op->dims.batch, cost->net.name, (long long)cost->net.devices);
  double bytes = (double)(op->bytes_read > op->bytes_written ? op->bytes_read : op->bytes_written);
  enum pz_collective kind = PZ_COLLECTIVE_ALL_GATHER;
  if (op->kind == PZ_OP_ALL_REDUCE) kind = PZ_COLLECTIVE_ALL_REDUCE;
  if (op->kind == PZ_OP_REDUCE_SCATTER) kind = PZ_COLLECTIVE_REDUCE_SCATTER;
  if (op->kind == PZ_OP_ALL_TO_ALL) kind = PZ_COLLECTIVE_ALL_TO_ALL;
  out->latency_s = pz_collective_s(&cost->net, kind, bytes, op->dims.batch);
  double group = (double)op->dims.batch, passes = kind == PZ_COLLECTIVE_ALL_REDUCE ? 2 : 1;
  out->energy_j = passes * (group - 1) / group * bytes * pz_tech_at(cost->chip.tech)->link_j;
  out->hbm_s = fmin(out->latency_s, (double)(op->bytes_read + op->bytes_written) /
                                        pz_chip_hbm_bytes_per_s(&cost->chip));
  out->bound = PZ_BOUND_LINK;
}

/* Returns the estimate of an operator by the model for its kind.  Static power is added, or on an
 * unmeasured chip the clock that its power limit allows is found. */
struct pz_estimate pz_estimate_op(struct pz_call *call, struct pz_cost *cost,
                                  const struct pz_op *op, struct pz_work *work) {
  struct pz_estimate estimate = {.bound = PZ_BOUND_STARTUP};
  struct pz_work ignored_work;
  if (!work) work = &ignored_work;
  *work = (struct pz_work){0};
  if (op->kind == PZ_OP_ATTENTION) {
    struct pz_attention_work attention = {.dims = op->dims,
                                          .direction = op->direction,
                                          .causal = cost->causal,
                                          .library = cost->attention_library,
                                          .span = op->span,
                                          .bytes = (double)(op->bytes_read + op->bytes_written)};
    pz_attention_cost(&cost->chip, &attention, &estimate, work);
    estimate.utilisation =
        (double)op->matmul_flop / (pz_chip_tensor_flop_per_s(&cost->chip) * estimate.latency_s);
  } else if (pz_op_is_scan(op->kind))
    estimate_scan_op(cost, op, &estimate, work);
  else if (op->matmul_flop)
    estimate_gemm_op(call, cost, op, &estimate, work);
  else if (op->op_class == PZ_CLASS_COLLECTIVE)
    estimate_collective_op(call, cost, op, &estimate);
  else if (op->op_class == PZ_CLASS_VECTOR)
    estimate_vector_op(cost, op, &estimate, work);

  if (!cost->chip.cold || op->op_class == PZ_CLASS_COLLECTIVE) {
    estimate.energy_j += estimate.latency_s * cost->static_watts;
    return estimate;
  }
  struct pz_power power;
  pz_power_run(&cost->power, work, 0, &power);
  estimate.utilisation *= power.latency_s > 0 ? estimate.latency_s / power.latency_s : 1;
  estimate.latency_s = power.latency_s;
  estimate.energy_j = power.joules;
  return estimate;
}

/* ---- the optimizer --------------------------------------------------------------------------- */

/* Cycles of a vector lane in which Adam updates one parameter: ten multiplications and additions, a
 * root (15 cycles) and a division (10 cycles). */
static const double ADAM_CYCLES = 35;

/* Returns time and energy of an Adam step that moves `bytes` at `efficiency` of the HBM rate. */
struct pz_power pz_cost_optimizer_step(const struct pz_cost *cost, double bytes, double params,
                                       double efficiency) {
  const struct pz_chip *chip = &cost->chip;
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  struct pz_work work = {.core_j = params * ADAM_CYCLES * tech->lane_j,
                         .outside_j = bytes * tech->hbm_j,
                         .core_s = params * ADAM_CYCLES / pz_chip_vector_op_per_s(chip),
                         .hbm_s = bytes / (pz_chip_hbm_bytes_per_s(chip) * efficiency)};
  if (!(bytes > 0)) work = (struct pz_work){0}; /* no parameters are updated */
  struct pz_power power = {.latency_s = work.hbm_s, .joules = work.core_j + work.outside_j};
  if (chip->cold) pz_power_run(&cost->power, &work, 0, &power);
  return power;
}

/* Sets *out to the estimate of Adam as one vector kernel; each parameter moves bytes_per_param. */
void pz_cost_optimizer(const struct pz_chip *chip, double params, double bytes_per_param,
                       struct pz_estimate *out) {
  const struct pz_tech_info *tech = pz_tech_at(chip->tech);
  double bytes = params * bytes_per_param;
  struct pz_vector_work vector = {PZ_OP_ADD, PZ_FORWARD, (int64_t)params, 1, bytes, false};
  struct pz_vector_time time;
  pz_vector_named(chip, "adamw", &vector, &time);
  time.compute_s = params * ADAM_CYCLES / pz_chip_vector_op_per_s(chip);
  pz_vector_conclude(&time);
  double param_j = ADAM_CYCLES * tech->lane_j + bytes_per_param * tech->hbm_j;
  *out = (struct pz_estimate){
      .latency_s = time.latency_s, .energy_j = params * param_j, .bound = time.bound};
}

/* ---- the public functions -------------------------------------------------------------------- */

/* The arguments of the public functions, each of which uses some of them. */
struct cost_args {
  const struct pz_chip *chip;
  const struct pz_cluster *net;
  struct pz_cost *cost, **new_cost;
  const struct pz_op *op;
  struct pz_estimate *estimate;
  const struct pz_product *product;
  struct pz_mapping *mapping;
};

/* The body of pz_cost_new(). */
static void create_cost(struct pz_call *call, void *ctx) {
  const struct cost_args *args = ctx;
  pz_chip_check(call, args->chip);
  if (args->net) pz_cluster_check(call, args->net);
  pz_require(call, args->new_cost, "out");
  *args->new_cost = pz_object_keep(call, pz_cost_create(call, args->chip, args->net));
}

enum pz_status pz_cost_new(const struct pz_chip *chip, const struct pz_cluster *net,
                           struct pz_cost **out, struct pz_error *err) {
  struct cost_args args = {.chip = chip, .net = net, .new_cost = out};
  return pz_border(create_cost, &args, err);
}

void pz_cost_free(struct pz_cost *cost) { pz_object_free(cost); }

const struct pz_chip *pz_cost_chip(const struct pz_cost *cost) { return &cost->chip; }

void pz_cost_counts(const struct pz_cost *cost, uint64_t *asked, uint64_t *found) {
  if (asked) *asked = cost->asked;
  if (found) *found = cost->found;
}

/* The body of pz_cost_op(), whose operator the caller may have made or changed. */
static void estimate_checked_op(struct pz_call *call, void *ctx) {
  const struct cost_args *args = ctx;
  const struct pz_op *op = args->op;
  pz_require(call, args->cost, "cost");
  pz_require(call, op, "op");
  pz_require(call, args->estimate, "out");
  pz_require(call, op->name, "the operator's name");
  pz_require_range(call, "kind", op->kind, 0, PZ_OP_KINDS - 1);
  pz_require_range(call, "op_class", (int64_t)op->op_class, 0, PZ_CLASS_COLLECTIVE);
  pz_require_range(call, "direction", (int64_t)op->direction, 0, PZ_BACKWARD);
  pz_require_range(call, "peers", (int64_t)op->peers, 0, PZ_PEERS_CONTEXT);
  if (op->n_tail) pz_require(call, op->tail, "tail");
  for (uint32_t i = 0; i < op->n_tail; i++)
    pz_require_range(call, "kind of a tail", op->tail[i].kind, 0, PZ_OP_KINDS - 1);
  *args->estimate = pz_estimate_op(call, args->cost, op, NULL);
}

enum pz_status pz_cost_op(struct pz_cost *cost, const struct pz_op *op, struct pz_estimate *out,
                          struct pz_error *err) {
  struct cost_args args = {.cost = cost, .op = op, .estimate = out};
  return pz_border(estimate_checked_op, &args, err);
}

/* The body of pz_cost_product(). */
static void estimate_checked_product(struct pz_call *call, void *ctx) {
  const struct cost_args *args = ctx;
  pz_require(call, args->cost, "cost");
  pz_require(call, args->product, "product");
  pz_require(call, args->mapping, "out");
  *args->mapping = pz_estimate_product(call, args->cost, &args->cost->chip, args->product);
}

enum pz_status pz_cost_product(struct pz_cost *cost, const struct pz_product *product,
                               struct pz_mapping *out, struct pz_error *err) {
  struct cost_args args = {.cost = cost, .product = product, .mapping = out};
  return pz_border(estimate_checked_product, &args, err);
}
