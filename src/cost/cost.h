/* Latency, energy and bottleneck of any operator of a workload on a chip. */
#ifndef PZ_COST_COST_H
#define PZ_COST_COST_H

#include "core/map.h"
#include "core/vec.h"
#include "cost/grouped.h"
#include "cost/network.h"
#include "cost/power.h"
#include "cost/product_times.h"
#include "cost/vector.h"

/* A chip with its network, and the estimates made so far, kept by operator and chip: chips that
 * agree in all that a mapping depends on share them.  One per thread. */
struct pz_cost {
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_arena arena;
  struct pz_map seen;     /* shape -> index of a mapping */
  struct pz_vec mappings; /* struct pz_mapping */
  uint64_t chip_key;
  double static_watts;            /* that operators take beside the energy of what they do */
  struct pz_power_law power;      /* of a chip that nobody measured */
  const char *attention_library;  /* whose flash attention graphs run; NULL: the chip's default */
  bool causal;                    /* flash attention of graphs skips the upper half of the scores */
  struct pz_product_times *times; /* of products, for many chips; NULL: each is mapped */
  uint64_t asked, found;
};

/* Operators one after the other; pz_cost_new and pz_cost_free are the same on the heap. */
void pz_cost_init(struct pz_cost *cost, const struct pz_chip *chip, const struct pz_cluster *net);
/* Go on with another chip; what is known stays known. */
void pz_cost_set_chip(struct pz_cost *cost, const struct pz_chip *chip,
                      const struct pz_cluster *net);

void pz_cost_release(struct pz_cost *cost);

/* The same as an object that is released when the call ends, or with pz_close(). */
struct pz_cost *pz_cost_create(struct pz_call *call, const struct pz_chip *chip,
                               const struct pz_cluster *net);

/* Like pz_cost_product(), pz_cost_grouped() and pz_cost_op_work(), but raise errors. */
struct pz_mapping pz_estimate_product(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_product *product);
struct pz_mapping pz_estimate_grouped(struct pz_call *call, struct pz_cost *cost,
                                      const struct pz_grouped *grouped);
struct pz_estimate pz_estimate_op(struct pz_call *call, struct pz_cost *cost,
                                  const struct pz_op *op, struct pz_work *work);

/* A product of experts.  Errors as pz_cost_product. */
PZ_NODISCARD enum pz_status pz_cost_grouped(struct pz_cost *cost, const struct pz_grouped *g,
                                            struct pz_mapping *out, struct pz_error *err);

/* A mapped product. */
struct pz_work pz_cost_mapped_work(const struct pz_chip *c, double macs, enum pz_format format,
                                   const struct pz_mapping *o);

/* The optimizer's pass over so many bytes of parameters at a part of the HBM rate, on a chip that nobody measured at the clock
 * that its watts allow, with its static power. */
void pz_cost_update(const struct pz_cost *cost, double bytes, double params, double efficiency,
                    struct pz_power *out);

/* Latency and energy of a mapped product at the clock that the watts of a chip allow that nobody measured; others stay. */
void pz_cost_within_watts(const struct pz_cost *cost, double macs, enum pz_format format,
                          struct pz_mapping *o);

/* pz_cost_op; and what the operator does, and its time, at the chip's clock, nothing of a collective. */
PZ_NODISCARD enum pz_status pz_cost_op_work(struct pz_cost *cost, const struct pz_op *op,
                                            struct pz_estimate *out, struct pz_work *w,
                                            struct pz_error *err);

/* What a product operator adds to its product: bytes beyond its operands and result (residuals,
 * masks, what is kept; negative where several heads share an operand), and the vector tail, which
 * runs beside the product, tile by tile. */
struct pz_product_extra {
  double hbm_s;    /* of the extra bytes */
  double tail_ops; /* lane operations */
  double energy_j;
};

struct pz_product_extra pz_cost_extra(const struct pz_chip *c, const struct pz_op *op);

/* Latency without start-up of a product that takes core_s on the cores and hbm_s at the memory,
 * with what the operator adds. */
static inline double pz_cost_with_extra_s(const struct pz_product_extra *x, double core_s,
                                          double hbm_s, double lane_ops_per_s) {
  double tail_s = x->tail_ops / lane_ops_per_s, all_hbm_s = hbm_s + x->hbm_s;
  double s = core_s > tail_s ? core_s : tail_s;
  return s > all_hbm_s ? s : all_hbm_s;
}

#endif
