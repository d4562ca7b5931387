/* The question of a search for training plans, and its answer. */
#ifndef PZ_PLACE_PLAN_QUESTION_H
#define PZ_PLACE_PLAN_QUESTION_H

#include "core/progress.h"
#include "step/step_model.h"

struct pz_plan_question {
  struct pz_job job;
  /* devices, batch, seq; what is the same in every plan (framework, attention, execution ...); pinned fields; and the
   * overlap that is wanted, of which each plan has what its framework can do there */
  struct pz_plan plan;
  uint64_t pinned; /* searched fields that are as in `plan`; overlap: exactly that */
  bool
      switches; /* what the framework can switch on is searched: the dispatcher of experts' tokens and CUDA graphs, unless
                       `fixed` has them */
  uint64_t fixed;   /* a set of PZ_PLAN_PIN(DISPATCHER), PZ_PLAN_PIN(CUDA_GRAPHS) */
  int without;      /* a set of enum pz_software that the user lacks */
  bool uniform;     /* the same recomputation in every stage */
  bool all_devices; /* none may stay idle */
  bool even;        /* layers divided evenly (pz_plan_blocks) and in no other way */
  enum pz_plan_objective objective;
  bool
      counted; /* steps count as 1 + the error that is to be expected of them (step/expected_error.h) times as long */
  double tie;  /* plans whose value is within this part of the best's are equal to it; 0: none is */
  double tokens, deadline_s; /* a run over so many tokens ends by then; deadline 0: whenever */
  uint32_t top;              /* plans to return; 0: 1 */
  uint32_t
      kinds; /* besides, the best plans of so many other kinds than the simplest's (pz_plan_kind) */
  unsigned threads;               /* 0: one per processor */
  struct pz_progress *progress;   /* NULL: none; the search ends when it is cancelled */
  double end_s;                   /* of pz_clock_s: it ends then; 0: when all is decided */
  const struct pz_ending *ending; /* of the work that this search is a part of; NULL: none */
  /* of a finder: what it finds out is kept there for finders of other threads and ranks, under a number that those of the
   * same question alone have, whatever chip and network; NULL: nowhere */
  const struct pz_shared_table *shared;
  uint32_t shared_as;
};

struct pz_found_plan {
  struct pz_plan plan; /* stage_recompute: in the arena */
  struct pz_prediction p;
};

struct pz_found_plans {
  struct pz_found_plan *list; /* best first; behind them those of other kinds, best first */
  uint32_t n, n_kinds;        /* n 0: nothing fits */
  struct pz_plan_certificate certificate;
  struct pz_found_plan
      simplest; /* with a tie: the simplest plan that is equal to the best; may be the best */
  struct pz_found_plan
      least; /* where nothing fits: the plan of the space that needs least memory, priced */
  bool has_least;
  bool late;         /* no plan ends by the deadline: these are the fastest that fit */
  bool stopped;      /* before all was decided: the best so far, with the certificate's gap */
  int64_t experts;   /* of the model */
  char warning[200]; /* of the model: "" or what its user should know */
};

/* The question of a plan that may leave fields unset: the framework's defaults filled in, and the overlap that it can have
 * besides; nothing is pinned but what `pinned` says.  Errors as pz_plan_fill. */
PZ_NODISCARD enum pz_status pz_plan_question_of(const struct pz_job *job,
                                                const struct pz_plan *plan, uint64_t pinned,
                                                struct pz_plan_question *out, struct pz_error *err);

/* Plans differ in kind by what they have at all: tensor, context, pipeline and expert parallelism, ZeRO-3, offload.  A
 * number below PZ_PLAN_KINDS. */
enum { PZ_PLAN_KINDS = 64 };
static inline int pz_plan_kind(const struct pz_plan *p) {
  return (p->tp > 1) | (pz_plan_cp(p) > 1) << 1 | (p->pp > 1) << 2 | (pz_plan_ep(p) > 1) << 3 |
         (p->zero == 3) << 4 | (p->offload != 0) << 5;
}
enum {
  PZ_GRID_KINDS = 15,
  PZ_ZERO_3_KIND = 16,
  PZ_OFFLOAD_KIND = 32
}; /* the first: what a grid decides of it */

/* May a field have the value v? */
#define PZ_PLAN_ALLOWS(q, ID, field, v) (!((q)->pinned & PZ_PLAN_PIN(ID)) || (q)->plan.field == (v))

/* Is the search to end, cancelled or at its time? */
static inline bool pz_plan_question_over(const struct pz_plan_question *q) {
  return pz_progress_stopped(q->progress) || (q->end_s > 0 && pz_clock_s() > q->end_s) ||
         pz_ending_is_here(q->ending);
}

/* The fastest training plan: over tensor, sequence, context and expert parallelism, stages and chunks, replicas,
 * microbatch, ZeRO and recomputation, within memory, on whole nodes.  Every plan of the space is priced, or excluded
 * by a lower bound or by its memory, so what is found is the best by the model.
 *
 * The space: plans that the framework can run (pz_framework_can), of these: tp divides heads, KV heads and what else
 * the model's layers demand, and stays inside a node (pz_cluster_node) unless it is pinned; sequence parallelism where
 * tp divides a device's part of the sequence; cp powers of two up to 32 (or as pinned), with flash attention, where its
 * double divides the sequence.  Of models with experts ep: powers of two up to 1,024 that divide the experts, and their
 * number; it divides tp x cp x dp, each expert lies on one device; ep 1: experts are divided as the other layers are.
 * mbs is at most 128, and dp times mbs divides the batch.  A job takes a part of one node, or of several all devices or
 * the largest power of two (64 of a domain of 72), the same of each; others stay idle.  Stages have at least one layer.
 * Interleaving where stages divide the microbatches, and chunks the layers or two more than these (embedding and head
 * count as one layer each).  Where the framework has them: ZB-H1, ZB-2P without chunks, ZB-V and DualPipeV with two,
 * whose number is bound as that of interleaved ones, and DualPipe with an even number of stages and of microbatches, at
 * least two of these for each stage.  Layers are divided evenly (pz_plan_blocks); or all chunks but the first and the
 * last have m layers, m the mean rounded up or one more, and these two the rest in any way, at most m each; two chunks
 * in any way.  At most 1,024 chunks, and 2^24 passes of a step.  ZeRO 0 to 3 where a stage has replicas of all or of
 * experts, else 0, and 1 where that alone has a field, moments of fewer bits or weights in 8 bit alone; over plan.shard replicas where that is
 * set and divides them.  Recomputation: none; selective; alternate; full of each stage's first n layers of a chunk, n
 * of each stage (of all alike, or all layers, where the framework has nothing else, and alike in DualPipe) the fewest
 * that memory asks for, or for the least memory those that bring it, whatever the deadline.  Where a plan fits without
 * recomputation, the same with it is slower and counts as excluded by a bound (but where a stage that waits for a
 * slower one hides more of its gradients behind it: 0.004% was seen).  "full" pinned means the same fewest layers;
 * "half" and GPipe only where they are pinned, "half" also where the framework has no number of layers to choose.
 * Where plan.offload allows it, also activations on the host, of the fewest layers of each chunk that memory asks for
 * (or of plan.offload_layers, or of plan.offload_modules), with none of the layers recomputed in full or with all; and
 * the state of 0, 1/4, 1/2, 3/4 or all of the parameters (or of plan.offload_fraction).
 *
 * PZ_BAD_USE where the question has no plan at all, PZ_NO_ANSWER where the framework has none for the model (the message
 * says why, or that the time was over before one was found), PZ_STOPPED where it was cancelled before; n 0 where none fits.
 * The arena holds the plans.  Deterministic, whatever the threads, unless it is stopped. */
PZ_NODISCARD enum pz_status pz_plan_search(const struct pz_plan_question *q, struct pz_arena *arena,
                                           struct pz_found_plans *out, struct pz_error *err);

#endif
