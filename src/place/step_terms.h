/* Terms of a training step: layers of each kind, what is recomputed of them, what lies before and behind them, and
 * transfers between stages.  How often each runs does not depend on the chip; what each takes does not depend on stages
 * and replicas: by a chip's rates at least the work that no chip saves, GEMMs on arrays that are never short of data, and
 * collectives that show.  Tables by shape and term are kept from chip to chip. */
#ifndef PZ_PLACE_STEP_TERMS_H
#define PZ_PLACE_STEP_TERMS_H

#include "core/map.h"
#include "core/num.h"
#include "cost/product_times.h"
#include "place/plan_space.h"

/* Layers by kind; of these fully, selectively recomputed; before, behind; transfers. */
enum { PZ_TERM_KINDS = 3 };
enum { PZ_TERM_ENDS = 3 * PZ_TERM_KINDS, PZ_TERM_SEND = PZ_TERM_ENDS + 2, PZ_TERMS };

/* Tables have in place of transfers all of a microbatch without recomputation; and behind all terms the same of operators
 * that wait for each other alone, where there are no halves (schedules). */
enum { PZ_TERM_WHOLE = PZ_TERM_SEND, PZ_TERM_PATH = PZ_TERMS, PZ_TERM_ROW = 2 * PZ_TERMS };

/* ---- how often each runs ------------------------------------------------------------------------ */

struct pz_term_counts {
  double n[PZ_TERMS];
};

/* Adds those of a chunk of the plan, `times` as often. */
void pz_term_counts_add(const struct pz_step_shape *x, const struct pz_plan *p, int64_t chunk,
                        double times, struct pz_term_counts *out);

/* Terms that a model with so many kinds of layers has, transfers left out; the i-th of them. */
static inline uint32_t pz_terms_of(uint32_t kinds) { return 3 * kinds + 2; }
static inline uint32_t pz_term_at(uint32_t kinds, uint32_t i) {
  return i < 3 * kinds ? i / kinds * PZ_TERM_KINDS + i % kinds : PZ_TERM_ENDS + i - 3 * kinds;
}

/* ---- what each takes ---------------------------------------------------------------------------- */

/* Seconds of each that the model has (pz_term_at). */
struct pz_term_seconds {
  double s[PZ_TERMS];
};

/* Of a chip's resources, whatever the chip. */
struct pz_term_work {
  double attention_flop, attention_ops, ops, bytes; /* of attention; of element-wise operators */
  double tail_ops;                                  /* of lanes, beside GEMMs */
  double macs;                                      /* of GEMMs */
};

struct pz_term_tables {
  struct pz_plan_space *space;
  bool scheduled; /* operators run beside each other */
  struct pz_arena *arena;
  struct pz_product_times *times; /* the question's */
  struct pz_term_work *work;      /* by shape and term */
  double *share;                  /* by shape: part of all microbatches that a device works on */
  struct pz_map gemm_at;          /* by size */
  struct pz_vec gemms, uses; /* struct pz_product; where they are used, those of a shape together */
  uint32_t *first_use;
  double *gemm_number; /* of the table at hand */
  double *sums;        /* by shape and term, for a moment */
  /* const double * by shape and term: cycles of GEMMs on an array, their bytes, seconds of collectives in a network */
  struct pz_map table_at;
  struct pz_vec tables;
};

void pz_term_tables_init(struct pz_term_tables *t, struct pz_plan_space *space,
                         struct pz_arena *arena);

/* When the space is listed: opens all shapes.  PZ_LIMIT: too many kinds of layers. */
PZ_NODISCARD enum pz_status pz_term_tables_begin(struct pz_term_tables *t);

/* Seconds of one unit of each resource of a chip; what GEMMs and collectives take. */
struct pz_term_rates {
  double cycle, mac, flop, op, byte;
  const double *cycles, *collectives;
  const double *path_collectives; /* of schedules: those that nothing can hide on a path */
};

PZ_NODISCARD enum pz_status pz_term_rates_of(struct pz_term_tables *t, const struct pz_chip *c,
                                             const struct pz_cluster *net, struct pz_term_rates *r);

/* What bounds the passes of a schedule: a resource, or operators that wait for each other. */
enum pz_term_measure {
  PZ_MEASURE_TENSOR,
  PZ_MEASURE_LANES,
  PZ_MEASURE_MEMORY,
  PZ_MEASURE_LINK,
  PZ_MEASURE_PATH,
  PZ_TERM_MEASURES
};

/* Operators one after another. */
static inline double pz_term_serial_s(const struct pz_term_work *w, const struct pz_term_rates *r,
                                      double cycles, double collectives) {
  double gemm_s = pz_fmax(cycles * r->cycle, w->macs * r->mac);
  return pz_fmax(gemm_s, w->tail_ops * r->op) + collectives +
         pz_fmax(w->attention_flop * r->flop, w->attention_ops * r->op) +
         pz_fmax(w->ops * r->op, w->bytes * r->byte);
}

static inline double pz_term_load_s(const struct pz_term_tables *t, const struct pz_term_rates *r,
                                    size_t at, enum pz_term_measure m) {
  const struct pz_term_work *w = &t->work[at];
  switch (m) {
  case PZ_MEASURE_TENSOR:
    return pz_fmax(r->cycles[at] * r->cycle, w->macs * r->mac) + w->attention_flop * r->flop;
  case PZ_MEASURE_LANES: return (w->tail_ops + w->attention_ops + w->ops) * r->op;
  case PZ_MEASURE_MEMORY: return w->bytes * r->byte;
  case PZ_MEASURE_LINK: return r->collectives[at];
  default:
    at += PZ_TERM_PATH;
    return pz_term_serial_s(&t->work[at], r, r->cycles[at], r->path_collectives[at]);
  }
}

/* The measure that is largest for a microbatch: terms are added up by one, since what one of them leaves idle another may
 * use. */
static inline enum pz_term_measure
pz_term_measure_of(const struct pz_term_tables *t, const struct pz_term_rates *r, uint32_t shape) {
  size_t whole = (size_t)shape * PZ_TERM_ROW + PZ_TERM_WHOLE;
  enum pz_term_measure best = PZ_MEASURE_TENSOR;
  double most = 0;
  for (enum pz_term_measure m = 0; t->scheduled && m < PZ_TERM_MEASURES; m++) {
    double s = pz_term_load_s(t, r, whole, m);
    if (s > most) most = s, best = m;
  }
  return best;
}

/* What a term of a shape takes at least, by a measure where passes are scheduled. */
static inline double pz_term_s(const struct pz_term_tables *t, const struct pz_term_rates *r,
                               uint32_t shape, uint32_t term, enum pz_term_measure m) {
  size_t at = (size_t)shape * PZ_TERM_ROW + term;
  double s = t->scheduled ? pz_term_load_s(t, r, at, m)
                          : pz_term_serial_s(&t->work[at], r, r->cycles[at], r->collectives[at]);
  /* sums in another order */
  return s * (1 - 1e-9);
}

/* ---- energy ------------------------------------------------------------------------------------- */

/* Beside static power (place/plan_finder.h says what counts), of all devices: without recomputation, in the shape where
 * that takes least. */
PZ_NODISCARD enum pz_status pz_term_least_j(struct pz_term_tables *t, const struct pz_chip *chip,
                                            double voltage2, double *joules);

#endif
