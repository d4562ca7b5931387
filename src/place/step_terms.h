/* Terms of a training step, from which lower bounds for many chips follow.
 *
 * The terms are the layers of each kind, what is recomputed of them, the operators before the first
 * and after the last layer, and the transfers between stages.  How often a plan runs each term
 * (pz_term_counts_add) does not depend on the chip.  The time of a term (pz_term_s) does not depend
 * on stages and replicas.  Its lower bound consists of the work that every chip has to do, GEMMs on
 * arrays that never wait for data, and exposed collectives, at the rates of the chip.  Tables by
 * shape and term are kept from chip to chip. */
#ifndef PZ_PLACE_STEP_TERMS_H
#define PZ_PLACE_STEP_TERMS_H

#include "core/map.h"
#include "core/num.h"
#include "cost/product_times.h"
#include "place/plan_space.h"

/* The order of the terms: layers by kind, full recomputation by kind, selective recomputation by
 * kind, the operators before the first and after the last layer, transfers. */
enum { PZ_TERM_KINDS = 3 };
enum { PZ_TERM_ENDS = 3 * PZ_TERM_KINDS, PZ_TERM_SEND = PZ_TERM_ENDS + 2, PZ_TERMS };

/* The columns of a table, which has a row for each shape.  In place of transfers, a row has a whole
 * microbatch without recomputation.  The second half of a row has the same terms with only the
 * operators of the longest path, for scheduled passes of whole microbatches. */
enum { PZ_TERM_WHOLE = PZ_TERM_SEND, PZ_TERM_PATH = PZ_TERMS, PZ_TERM_ROW = 2 * PZ_TERMS };

/* How often each term runs. */
struct pz_term_counts {
  double n[PZ_TERMS];
};

/* Adds to the counts how often `times` executions of a chunk of a plan run each term. */
void pz_term_counts_add(const struct pz_step_shape *shape, const struct pz_plan *plan,
                        int64_t chunk, double times, struct pz_term_counts *counts);

/* Returns the number of terms of a model with this many kinds of layers, without transfers. */
static inline uint32_t pz_terms_of(uint32_t kinds) { return 3 * kinds + 2; }

/* Returns the index, below PZ_TERMS, of the i-th term of a model with this many kinds of layers. */
static inline uint32_t pz_term_at(uint32_t kinds, uint32_t i) {
  return i < 3 * kinds ? i / kinds * PZ_TERM_KINDS + i % kinds : PZ_TERM_ENDS + i - 3 * kinds;
}

/* Seconds of the terms that the model has (pz_term_at). */
struct pz_term_seconds {
  double s[PZ_TERMS];
};

/* The least work of a term on the resources of a chip, which does not depend on the chip. */
struct pz_term_work {
  double attention_flop; /* operations of attention on the tensor cores */
  double attention_ops;  /* operations of attention on the lanes */
  double ops, bytes;     /* lane operations and HBM bytes of element-wise operators */
  double tail_ops;       /* lane operations at the end of GEMMs */
  double macs;           /* multiply-accumulates of GEMMs */
};

/* Tables of the work and the time of each term. */
struct pz_term_tables {
  struct pz_plan_space *space;
  bool scheduled; /* passes are scheduled, so that operators may run at the same time */
  struct pz_arena *arena;
  struct pz_product_times *times; /* table of GEMM times of the question */
  struct pz_term_work *work;      /* by shape and term */
  double *share;                  /* pz_step_shape_share() of each shape */

  struct pz_map gemm_index; /* from the size of a GEMM to the index in `gemms` */
  struct pz_vec gemms,
      uses;            /* struct pz_product, struct gemm_use; the uses of a shape are adjacent */
  uint32_t *first_use; /* by shape */
  double *gemm_value;  /* value of each GEMM for the table that is being computed */
  double *sums;        /* the table that is being computed */

  /* Finished tables by shape and term, with a key for each array, buffer or network: cycles of
   * GEMMs, HBM bytes of GEMMs, and seconds of collectives. */
  struct pz_map table_index;
  struct pz_vec tables; /* const double * */
};

/* Initializes the tables of a listed space, and opens all its shapes.  The arena of the call holds
 * the tables.  Raises PZ_LIMIT if the model has too many kinds of layers. */
void pz_term_tables_init(struct pz_call *call, struct pz_term_tables *tables,
                         struct pz_plan_space *space);

/* Seconds per unit of work on each resource of a chip, and by shape and term the cycles of GEMMs
 * and the seconds of collectives. */
struct pz_term_rates {
  double cycle, mac, flop, op, byte;
  const double *cycles, *collectives;
  const double *path_collectives; /* for scheduled passes: collective seconds on the longest path */
};

/* Returns the rates of a chip in a network, with the tables that apply to it. */
struct pz_term_rates pz_term_rates_of(struct pz_call *call, struct pz_term_tables *tables,
                                      const struct pz_chip *chip, const struct pz_cluster *net);

/* What limits a scheduled pass: a resource, or a path of operators that wait for each other. */
enum pz_term_measure {
  PZ_MEASURE_TENSOR,
  PZ_MEASURE_LANES,
  PZ_MEASURE_MEMORY,
  PZ_MEASURE_LINK,
  PZ_MEASURE_PATH,
  PZ_TERM_MEASURES
};

/* Returns the seconds of a term whose operators run one after another: GEMMs of `cycles`, the
 * seconds of its `collectives`, attention, and element-wise operators, each limited by its slowest
 * resource. */
static inline double pz_term_serial_s(const struct pz_term_work *work,
                                      const struct pz_term_rates *rates, double cycles,
                                      double collectives) {
  double gemm_s = pz_fmax(cycles * rates->cycle, work->macs * rates->mac);
  return pz_fmax(gemm_s, work->tail_ops * rates->op) + collectives +
         pz_fmax(work->attention_flop * rates->flop, work->attention_ops * rates->op) +
         pz_fmax(work->ops * rates->op, work->bytes * rates->byte);
}

/* Returns a lower bound of the seconds of a scheduled term: its load of one resource, or the length
 * of its longest path.  `at` is the index of the term in the tables. */
static inline double pz_term_load_s(const struct pz_term_tables *tables,
                                    const struct pz_term_rates *rates, size_t at,
                                    enum pz_term_measure measure) {
  const struct pz_term_work *work = &tables->work[at];
  switch (measure) {
  case PZ_MEASURE_TENSOR:
    return pz_fmax(rates->cycles[at] * rates->cycle, work->macs * rates->mac) +
           work->attention_flop * rates->flop;
  case PZ_MEASURE_LANES: return (work->tail_ops + work->attention_ops + work->ops) * rates->op;
  case PZ_MEASURE_MEMORY: return work->bytes * rates->byte;
  case PZ_MEASURE_LINK: return rates->collectives[at];
  default:
    at += PZ_TERM_PATH;
    return pz_term_serial_s(&tables->work[at], rates, rates->cycles[at],
                            rates->path_collectives[at]);
  }
}

/* Returns the resource, or the path, that gives the largest lower bound of a whole microbatch.  All
 * terms of a bound must be summed by the same measure, because one term may use a resource that
 * another one leaves idle. */
static inline enum pz_term_measure pz_term_measure_of(const struct pz_term_tables *tables,
                                                      const struct pz_term_rates *rates,
                                                      uint32_t shape) {
  size_t whole = (size_t)shape * PZ_TERM_ROW + PZ_TERM_WHOLE;
  enum pz_term_measure best = PZ_MEASURE_TENSOR;
  double most_s = 0;
  for (enum pz_term_measure measure = 0; tables->scheduled && measure < PZ_TERM_MEASURES;
       measure++) {
    double s = pz_term_load_s(tables, rates, whole, measure);
    if (s > most_s) {
      most_s = s;
      best = measure;
    }
  }
  return best;
}

/* Returns a lower bound of the seconds of a term in a shape, by one measure if passes are
 * scheduled. */
static inline double pz_term_s(const struct pz_term_tables *tables,
                               const struct pz_term_rates *rates, uint32_t shape, uint32_t term,
                               enum pz_term_measure measure) {
  size_t at = (size_t)shape * PZ_TERM_ROW + term;
  double s = tables->scheduled ? pz_term_load_s(tables, rates, at, measure)
                               : pz_term_serial_s(&tables->work[at], rates, rates->cycles[at],
                                                  rates->collectives[at]);
  return s * (1 - 1e-9); /* covers the rounding of sums in another order */
}

/* Returns a lower bound of the energy of a step on all devices, besides static power
 * (place/plan_finder.h defines what counts): that of all microbatches without recomputation, in the
 * shape that needs least. */
double pz_term_least_j(struct pz_call *call, struct pz_term_tables *tables,
                       const struct pz_chip *chip, double voltage2);

#endif
