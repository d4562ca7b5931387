/* What the parts of a step take at least on a chip, by its rates: work that no chip saves, products on arrays that are
 * never short of data, collectives that show.  Tables by shape and part, kept from chip to chip. */
#ifndef PZ_PLACE_PART_RATES_H
#define PZ_PLACE_PART_RATES_H

#include "core/map.h"
#include "core/num.h"
#include "cost/product_times.h"
#include "place/part_work.h"
#include "place/plan_space.h"

struct pz_part_tables {
  struct pz_plan_space *space;
  struct pz_arena *arena;
  struct pz_product_times *times;
  struct pz_part_work *work; /* by shape and part */
  double *share;             /* by shape: part of all microbatches that a device works on */
  struct pz_map product_at;  /* by size */
  struct pz_vec products,
      uses; /* struct pz_product; where they are used, those of a shape together */
  uint32_t *first_use;
  double *product_number; /* of the table at hand */
  double *sums;           /* by shape and part, for a moment */
  struct pz_map array_at, traffic_at;
  struct pz_vec arrays;  /* const double *: cycles of products by shape and part */
  struct pz_vec traffic; /* double *: their bytes */
  struct pz_vec nets;    /* seconds of collectives by shape and part, of each network */
};

void pz_part_tables_init(struct pz_part_tables *t, struct pz_plan_space *space,
                         struct pz_arena *arena);
void pz_part_tables_release(struct pz_part_tables *t);

/* When the space is listed: opens all shapes.  PZ_LIMIT: too many kinds of layers. */
PZ_NODISCARD enum pz_status pz_part_tables_begin(struct pz_part_tables *t);

/* Seconds of one unit of each resource of a chip; what products and collectives take. */
struct pz_part_rates {
  double cycle, flop, op, byte;
  const double *cycles, *collectives;
};

PZ_NODISCARD enum pz_status pz_part_rates_of(struct pz_part_tables *t, const struct pz_chip *c,
                                             const struct pz_cluster *net, struct pz_part_rates *r);

/* Bytes of HBM that products move at least, by shape and part. */
PZ_NODISCARD enum pz_status pz_part_traffic(struct pz_part_tables *t, const struct pz_chip *c,
                                            const double **out);

static inline size_t pz_part_at(uint32_t shape, int part) {
  return (size_t)shape * PZ_PART_NUMBERS + (size_t)part;
}

/* What a part of a shape takes at least. */
static inline double pz_part_s(const struct pz_part_tables *t, const struct pz_part_rates *r,
                               uint32_t shape, int part) {
  size_t at = pz_part_at(shape, part);
  const struct pz_part_work *w = &t->work[at];
  double s = pz_fmax(r->cycles[at] * r->cycle, w->tail_ops * r->op) + r->collectives[at] +
             pz_fmax(w->attention_flop * r->flop, w->attention_ops * r->op) +
             pz_fmax(w->ops * r->op, w->bytes * r->byte);
  /* sums in another order */
  return s * (1 - 1e-9);
}

#endif
