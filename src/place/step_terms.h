/* Terms of a training step, from which lower bounds for many chips follow.
 *
 * The terms are the layers of each kind, what is recomputed of them, what runs before and after them, and the transfers
 * between stages.  How often each term runs (pz_term_counts_add) does not depend on the chip.  How long it takes
 * (pz_term_s) does not depend on stages and replicas.  It is bounded from below by the work that no chip saves, by GEMMs
 * on arrays that never wait for data, and by exposed collectives, at the rates of the chip.  Tables by shape and term are
 * stored from chip to chip. */
#ifndef PZ_PLACE_STEP_TERMS_H
#define PZ_PLACE_STEP_TERMS_H

#include "core/map.h"
#include "core/num.h"
#include "cost/product_times.h"
#include "place/plan_space.h"

/* Terms in this order: layers by kind, full recomputation by kind, selective recomputation by kind, what runs before the
 * first and after the last layer, transfers. */
enum { PZ_TERM_KINDS = 3 };
enum { PZ_TERM_ENDS = 3 * PZ_TERM_KINDS, PZ_TERM_SEND = PZ_TERM_ENDS + 2, PZ_TERMS };

/* A row of a table has in place of transfers a whole microbatch without recomputation.  For scheduled passes without
 * halves, a second part of the row has the same terms with only the operators of the longest path. */
enum { PZ_TERM_WHOLE = PZ_TERM_SEND, PZ_TERM_PATH = PZ_TERMS, PZ_TERM_ROW = 2 * PZ_TERMS };

/* ---- how often each term runs --------------------------------------------------------------- */

struct pz_term_counts {
  double n[PZ_TERMS];
};

/* Adds the terms of a chunk of the plan, multiplied by `times`. */
void pz_term_counts_add(const struct pz_step_shape *x, const struct pz_plan *p, int64_t chunk,
                        double times, struct pz_term_counts *counts);

/* The number of terms of a model with this many kinds of layers, without transfers, and the index of the i-th of them. */
static inline uint32_t pz_terms_of(uint32_t kinds) { return 3 * kinds + 2; }
static inline uint32_t pz_term_at(uint32_t kinds, uint32_t i) {
  return i < 3 * kinds ? i / kinds * PZ_TERM_KINDS + i % kinds : PZ_TERM_ENDS + i - 3 * kinds;
}

/* ---- how long each term takes --------------------------------------------------------------- */

/* Seconds of the i-th term that the model has (pz_term_at). */
struct pz_term_seconds {
  double s[PZ_TERMS];
};

/* Work on the resources of a chip that no chip saves. */
struct pz_term_work {
  double attention_flop, attention_ops; /* of attention, on arrays and on lanes */
  double ops, bytes;                    /* of element-wise operators */
  double tail_ops;                      /* of lanes, besides GEMMs */
  double macs;                          /* of GEMMs */
};

struct pz_term_tables {
  struct pz_plan_space *space;
  bool scheduled; /* operators may run at the same time (execution by schedules) */
  struct pz_arena *arena;
  struct pz_product_times *times; /* the question's */
  struct pz_term_work *work;      /* by shape and term */
  double *share;                  /* by shape: pz_step_shape_share() */

  struct pz_map gemm_index; /* by size */
  struct pz_vec gemms,
      uses;            /* struct pz_product, struct gemm_use; the uses of a shape are adjacent */
  uint32_t *first_use; /* by shape */
  double *gemm_value;  /* by GEMM, of the table in the making */
  double *sums;        /* by shape and term, of the table in the making */

  /* Finished tables by shape and term: cycles of GEMMs on an array, bytes of GEMMs, collectives in a network. */
  struct pz_map table_index;
  struct pz_vec tables; /* const double * */
};

/* Makes the tables of a listed space, and opens all its shapes; the call's arena holds the tables and must outlive
 * them.  Raises PZ_LIMIT if the model has too many kinds of layers. */
void pz_term_tables_init(struct pz_call *call, struct pz_term_tables *t,
                         struct pz_plan_space *space);

/* Seconds per unit of each resource of a chip, cycles of GEMMs and seconds of collectives by shape and term. */
struct pz_term_rates {
  double cycle, mac, flop, op, byte;
  const double *cycles, *collectives;
  const double *path_collectives; /* for schedules: collectives that nothing on a path can hide */
};

struct pz_term_rates pz_term_rates_of(struct pz_call *call, struct pz_term_tables *t,
                                      const struct pz_chip *chip, const struct pz_cluster *net);

/* What bounds the passes of a schedule: one resource, or operators that wait for each other. */
enum pz_term_measure {
  PZ_MEASURE_TENSOR,
  PZ_MEASURE_LANES,
  PZ_MEASURE_MEMORY,
  PZ_MEASURE_LINK,
  PZ_MEASURE_PATH,
  PZ_TERM_MEASURES
};

/* Time of a term whose operators run one after another. */
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

/* The measure that is largest for a microbatch.  The terms of a bound must all be added up by the same measure, because
 * one term may use what another leaves idle. */
static inline enum pz_term_measure
pz_term_measure_of(const struct pz_term_tables *t, const struct pz_term_rates *r, uint32_t shape) {
  size_t whole = (size_t)shape * PZ_TERM_ROW + PZ_TERM_WHOLE;
  enum pz_term_measure best = PZ_MEASURE_TENSOR;
  double most_s = 0;
  for (enum pz_term_measure m = 0; t->scheduled && m < PZ_TERM_MEASURES; m++) {
    double s = pz_term_load_s(t, r, whole, m);
    if (s > most_s) {
      most_s = s;
      best = m;
    }
  }
  return best;
}

/* A lower bound of the time of a term of a shape, by the measure if passes are scheduled. */
static inline double pz_term_s(const struct pz_term_tables *t, const struct pz_term_rates *r,
                               uint32_t shape, uint32_t term, enum pz_term_measure m) {
  size_t at = (size_t)shape * PZ_TERM_ROW + term;
  double s = t->scheduled ? pz_term_load_s(t, r, at, m)
                          : pz_term_serial_s(&t->work[at], r, r->cycles[at], r->collectives[at]);
  return s * (1 - 1e-9); /* the step adds up the same numbers in another order */
}

/* ---- energy --------------------------------------------------------------------------------- */

/* A lower bound of the energy of a step on all devices, besides static power (place/plan_finder.h defines what counts):
 * that of all microbatches without recomputation, in the shape that needs least. */
double pz_term_least_j(struct pz_call *call, struct pz_term_tables *t, const struct pz_chip *chip,
                       double voltage2);

#endif
