/* Latency, energy and bottleneck of any operator of a workload on a chip in its network. */
#ifndef PZ_COST_COST_H
#define PZ_COST_COST_H

#include "core/map.h"
#include "core/vec.h"
#include "cost/grouped.h"
#include "cost/network.h"
#include "cost/power.h"
#include "cost/product_times.h"
#include "cost/vector.h"

/* A chip with its network, and a cache of the GEMM mappings that were found so far.  The cache is
 * kept when the chip changes: chips that agree in everything that a mapping depends on share its
 * entries.  For one thread. */
struct pz_cost {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_arena arena;     /* memory of the cache, if pz_cost_init() made the cost model */
  struct pz_map seen;        /* maps GEMM shape and chip to an index of `mappings` */
  struct pz_vec mappings;    /* mappings found so far, struct pz_mapping */
  uint64_t chip_key;         /* hash of everything in the chip that a mapping depends on */
  double static_watts;       /* static power of a measured chip, added to its operators' energy */
  struct pz_power_law power; /* power law of an unmeasured chip */
  const char *attention_library;  /* library of flash attention, or NULL for the chip's default */
  bool causal;                    /* whether flash attention of graphs is causal */
  struct pz_product_times *times; /* replaces the cache in searches over chips, usually NULL */
  uint64_t asked, found;          /* lookups and hits of the cache */
};

/* Initialises a cost model, which pz_cost_release() frees.  If `net` is NULL, its network has one
 * level, with the chip's link. */
void pz_cost_init(struct pz_cost *cost, const struct pz_chip *chip, const struct pz_cluster *net);
void pz_cost_release(void *cost); /* of type struct pz_cost; for pz_defer(), too */

/* Creates a cost model that is released when the call ends, or with pz_close(). */
struct pz_cost *pz_cost_create(struct pz_call *call, const struct pz_chip *chip,
                               const struct pz_cluster *net);

/* Replaces chip and network, and keeps the cache, because its keys contain the chip's numbers. */
void pz_cost_set_chip(struct pz_cost *cost, const struct pz_chip *chip,
                      const struct pz_cluster *net);

/* Estimates an operator, including static power.  *work receives what the operator does and its
 * times at the chip's nominal clock; a collective has no work.  `work` may be NULL.  Raises
 * PZ_BAD_USE for a collective that the network cannot run. */
struct pz_estimate pz_estimate_op(struct pz_call *call, struct pz_cost *cost,
                                  const struct pz_op *op, struct pz_work *work);

/* Finds the fastest mapping of a GEMM, or of the grouped GEMM of experts, on cost->chip or a
 * variant of it, in the cache if possible.  Raises PZ_BAD_INPUT as pz_find_mapping() does. */
struct pz_mapping pz_estimate_product(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_chip *chip, const struct pz_product *product);
struct pz_mapping pz_estimate_grouped(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_chip *chip, const struct pz_grouped *grouped);

/* Returns the work of a GEMM of `macs` multiply-accumulates with this mapping: its energy, and the
 * seconds for which it needs each resource of the chip. */
struct pz_work pz_cost_mapped_work(const struct pz_chip *chip, double macs, enum pz_format format,
                                   const struct pz_mapping *mapping);

/* Sets latency and energy of a mapped GEMM to those at the clock that the power limit of an
 * unmeasured chip allows.  Does nothing for a measured chip. */
void pz_cost_within_watts(const struct pz_power_law *law, const struct pz_chip *chip, double macs,
                          enum pz_format format, struct pz_mapping *mapping);

/* Returns the cost of an optimizer step that moves `bytes` at `efficiency` of the HBM rate. */
struct pz_power pz_cost_optimizer_step(const struct pz_cost *cost, double bytes, double params,
                                       double efficiency);

/* The work of a GEMM operator besides its GEMM.  It moves bytes beyond its operands and result
 * (residuals, masks, saved activations; negative if several heads share an operand).  It also
 * applies its tail, the element-wise operators that are fused with it, to each tile of the result
 * while the GEMM runs. */
struct pz_product_extra {
  double hbm_s;    /* HBM time of the extra bytes */
  double tail_ops; /* vector operations of the tail */
  double energy_j; /* energy of the extra bytes and of the tail */
};

/* Returns the work of a GEMM operator besides its GEMM. */
struct pz_product_extra pz_cost_extra(const struct pz_chip *chip, const struct pz_op *op);

/* Returns the latency of a GEMM operator without start-up: the longest of its GEMM on the cores
 * (core_s), of its tail, and of all HBM traffic (that of the GEMM takes hbm_s). */
static inline double pz_cost_with_extra_s(const struct pz_product_extra *extra, double core_s,
                                          double hbm_s, double lane_ops_per_s) {
  double tail_s = extra->tail_ops / lane_ops_per_s, total_hbm_s = hbm_s + extra->hbm_s;
  double longest_s = core_s > tail_s ? core_s : tail_s;
  return longest_s > total_hbm_s ? longest_s : total_hbm_s;
}

#endif
