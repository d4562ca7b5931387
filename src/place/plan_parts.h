/* Parts of a training step: layers of each kind, what is computed again of them, what lies before and behind them, and
 * transfers between stages.  How often each runs does not depend on the chip; what each takes does not depend on stages
 * and replicas. */
#ifndef PZ_PLACE_PLAN_PARTS_H
#define PZ_PLACE_PLAN_PARTS_H

#include "place/step_shape.h"

/* Layers by kind; of these fully, selectively computed again; before, behind; transfers. */
enum { PZ_PART_KINDS = 3 };
enum { PZ_PART_ENDS = 3 * PZ_PART_KINDS, PZ_PART_SEND = PZ_PART_ENDS + 2, PZ_PART_TERMS };

/* Tables by shape and part have in place of transfers all of a microbatch without recomputation. */
enum { PZ_PART_WHOLE = PZ_PART_SEND, PZ_PART_NUMBERS };

/* How many of each part run. */
struct pz_part_counts {
  double n[PZ_PART_TERMS];
};

/* Parts that a model with so many kinds of layers has, transfers left out; the part that is the i-th of them. */
static inline uint32_t pz_part_terms(uint32_t kinds) { return 3 * kinds + 2; }
static inline uint32_t pz_part_term_at(uint32_t kinds, uint32_t i) {
  return i < 3 * kinds ? i / kinds * PZ_PART_KINDS + i % kinds : PZ_PART_ENDS + i - 3 * kinds;
}

/* Seconds of each that the model has (pz_part_term_at). */
struct pz_part_seconds {
  double s[PZ_PART_TERMS];
};

/* Adds those of a chunk of the plan, `times` as often. */
void pz_part_counts_add(const struct pz_step_shape *x, const struct pz_plan *p, int64_t chunk,
                        double times, struct pz_part_counts *out);

/* How often the part runs in one microbatch without recomputation. */
double pz_part_layers(const struct pz_step_shape *x, int part);

/* Every operator of each part, `times` that often.  `saved`: GEMMs whose results are saved (pz_recompute_ops).  Ends with
 * what fn returns where that is not PZ_OK. */
typedef enum pz_status pz_part_op_fn(void *ctx, const struct pz_op *op, int part, double times);
PZ_NODISCARD enum pz_status pz_part_ops(const struct pz_step_shape *x, int saved, pz_part_op_fn *fn,
                                        void *ctx, struct pz_error *err);

#endif
