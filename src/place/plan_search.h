/* The fastest training plan: over tensor, sequence, context and expert parallelism, stages and chunks, replicas,
 * microbatch, ZeRO and recomputation, within memory, on whole nodes.  Every plan of the space is priced, or excluded
 * by a lower bound or by its memory, so what is found is the best by the model.
 *
 * The space.  tp divides heads, KV heads and what else the model's layers demand, and stays inside the innermost
 * network level unless it is pinned; sequence parallelism where tp divides a device's part of the sequence; cp as the
 * question says, with flash attention, where its double divides the sequence.  Of models with experts ep as the
 * question says: powers of two up to 1,024 that divide the experts, and their number; it divides tp x cp x dp, each
 * expert lies on one device, and tp above 1 goes with sequence parallelism; ep 1: experts are divided as the other
 * layers are.  mbs is at most 128, and dp times mbs divides the batch.  A job takes whole nodes, the largest power of
 * two of each node's devices (64 of a domain of 72), or a part of one; others stay idle.  Stages have at least one
 * layer. Interleaving where stages divide the microbatches, and chunks the layers or two more than these (embedding
 * and head count as one layer each).  Frameworks with zero bubble: also ZB-H1 and ZB-2P without chunks, and ZB-V with
 * two, whose number is bound as that of interleaved ones, or DualPipe where the framework has it, with an even number
 * of stages and of microbatches, at least two of these for each stage.  Layers are divided evenly (pz_plan_blocks); or
 * all chunks but the first and the last have m layers, m the mean rounded up or one more, and these two the rest in
 * any way, at most m each; two chunks in any way.  At most 1,024 chunks, and 2^24 passes of a step.  ZeRO 0 to 3 where
 * a stage has replicas of all or of experts, 2 and 3 with stages only where the framework can; over common.shard
 * replicas where that is set and divides them.  Recomputation: none; selective; alternate where the framework has it;
 * full of each stage's first n layers of a chunk, n of each stage (or of all alike, as always in DualPipe) the fewest
 * that memory asks for, or for the least memory those that bring it.  Where a plan fits without recomputation, the
 * same with it is slower and counts as excluded by a bound.  "full" pinned means the same fewest layers, "half" only
 * where it is pinned. That fewer layers are faster is certain but for ZB-H1 and ZB-2P, which take what is ready first:
 * there as a rule. */
#ifndef PZ_PLACE_PLAN_SEARCH_H
#define PZ_PLACE_PLAN_SEARCH_H

#include "place/step_model.h"

struct pz_plan_question {
  struct pz_training_model model;
  const struct pz_chip *chip;
  const struct pz_cluster *net; /* NULL: the chip's own link */
  int64_t devices, batch;
  /* what is the same in every plan: framework, execution, overlap, grad_bytes, attention library, constants */
  struct pz_training_plan common;
  /* PZ_FREE, or pinned */
  int64_t tp, sp, pp, vpp, dp, mbs, zero, recompute;
  int64_t cp;       /* pinned too, 0: to that of `common`; PZ_FREE: powers of two up to 32 */
  int64_t ep;       /* the same; PZ_FREE: powers of two, and the number of experts */
  bool uniform;     /* the same recomputation in every stage */
  bool all_devices; /* none may stay idle */
  bool even;        /* layers divided evenly (pz_plan_blocks) and in no other way */
  enum pz_plan_objective objective;
  uint32_t top;     /* plans to return; 0: 1 */
  unsigned threads; /* 0: one per processor */
  /* of a finder: what it finds out is kept there for finders of other threads and ranks, under a number that those of the
   * same question alone have, whatever chip and network; NULL: nowhere */
  const struct pz_shared_table *shared;
  uint32_t shared_as;
};

struct pz_found_plan {
  struct pz_training_plan plan; /* stage_recompute: in the arena */
  struct pz_prediction p;
};

struct pz_found_plans {
  struct pz_found_plan *list; /* best first */
  uint32_t n;                 /* 0: nothing fits */
  struct pz_plan_certificate certificate;
  struct pz_found_plan
      least; /* where nothing fits: the plan of the space that needs least memory, priced */
  bool has_least;
};

/* Every degree free, one plan; the caller adds model, chip, network, devices, batch, common. */
struct pz_plan_question pz_plan_question_default(void);

/* PZ_BAD_USE where the question has no plan at all (the message says why); n 0 where none fits.  The arena holds the
 * plans.  Deterministic, whatever the threads. */
PZ_NODISCARD enum pz_status pz_plan_search(const struct pz_plan_question *q, struct pz_arena *arena,
                                           struct pz_found_plans *out, struct pz_error *err);

/* ---- many chips ----------------------------------------------------------------------------- */

/* The same question of one chip after another, none of them calibrated, each in a network of its own with as many
 * devices inside its innermost level: graphs, memory and the times of products are kept.  For one thread. */
struct pz_plan_finder;

/* The question's chip and network are the first.  Its objective must be time, its top 1, its texts and constants outlive
 * the finder.  Errors as pz_plan_search. */
PZ_NODISCARD enum pz_status pz_plan_finder_new(const struct pz_plan_question *q,
                                               struct pz_plan_finder **out, struct pz_error *err);
void pz_plan_finder_free(struct pz_plan_finder *f); /* accepts NULL */

/* No plan on this chip has a shorter step, or one shorter than enough_s: products on arrays that are never short of data,
 * lanes and compulsory bytes of element-wise operators, collectives that show, and the layers that memory makes the
 * slowest stage compute.  Some ten microseconds, when the chip's HBM, array and link have been met before. */
PZ_NODISCARD enum pz_status pz_plan_finder_floor_s(struct pz_plan_finder *f,
                                                   const struct pz_chip *chip,
                                                   const struct pz_cluster *net, double enough_s,
                                                   double *floor_s, struct pz_error *err);

/* The same with mapped products and exposed collectives; where no step can be shorter than `enough_s`, at least that. */
PZ_NODISCARD enum pz_status pz_plan_finder_bound_s(struct pz_plan_finder *f,
                                                   const struct pz_chip *chip,
                                                   const struct pz_cluster *net, double enough_s,
                                                   double *bound_s, struct pz_error *err);

/* The step, without its simulation, that the plan of the lowest bound of the last call of pz_plan_finder_bound_s has on
 * another chip, by the relaxation: how much a resource matters.  HUGE_VAL where there is none. */
PZ_NODISCARD enum pz_status pz_plan_finder_again_s(struct pz_plan_finder *f,
                                                   const struct pz_chip *chip,
                                                   const struct pz_cluster *net, double *step_s,
                                                   struct pz_error *err);

/* Energy of a step on all devices beside static power: multiply-accumulates with their operands from the cores' buffers,
 * lanes, bytes of HBM and, of products, the least that the global buffer allows; none for collectives.  At this square
 * of the voltage (pz_tech_voltage2).  Of a plan that the finder has found on this chip. */
PZ_NODISCARD enum pz_status pz_plan_finder_plan_j(struct pz_plan_finder *f,
                                                  const struct pz_chip *chip, double voltage2,
                                                  const struct pz_training_plan *plan,
                                                  double *joules, struct pz_error *err);

/* No plan takes less on this chip, nor on one of its technology and array with a smaller global buffer: what is computed
 * without recomputation, in the shape where that takes least. */
PZ_NODISCARD enum pz_status pz_plan_finder_least_j(struct pz_plan_finder *f,
                                                   const struct pz_chip *chip, double voltage2,
                                                   double *joules, struct pz_error *err);

/* The fastest plan with a step shorter than cutoff_s (HUGE_VAL: any); out->n 0: there is none.  The list lives until the
 * next call. */
PZ_NODISCARD enum pz_status pz_plan_finder_find(struct pz_plan_finder *f,
                                                const struct pz_chip *chip,
                                                const struct pz_cluster *net, double cutoff_s,
                                                struct pz_found_plans *out, struct pz_error *err);

#endif
