/* The question that a search for training plans answers, and the answer.
 *
 * pz_plan_question_make() builds a question from a plan with unset fields, and pz_find_plans()
 * answers it.  The comment of pz_find_plans() defines the space of plans; plan_space.c lists it,
 * plan_memory.c and plan_pricing.c price its plans, and plan_search.c puts them together.
 * pz_plan_finder (plan_finder.h) answers the same question for many chips. */
#ifndef PZ_PLACE_PLAN_QUESTION_H
#define PZ_PLACE_PLAN_QUESTION_H

#include "core/call.h"
#include "core/progress.h"
#include "step/step_model.h"

/* A question for the best training plans. */
struct pz_plan_question {
  struct pz_job job;
  /* States devices, batch, sequence length, the fields that all plans have in common (framework,
   * attention, execution etc.), the values of pinned fields, and the wanted overlap, of which every
   * plan has what its framework can overlap. */
  struct pz_plan plan;
  /* Set of the searched fields that every plan must have exactly as in `plan`. */
  uint64_t pinned;

  /* The search also chooses dispatcher and CUDA graphs, unless they are in fixed_features. */
  bool searches_features;
  uint64_t fixed_features; /* a set of PZ_PLAN_PIN(DISPATCHER) and PZ_PLAN_PIN(CUDA_GRAPHS) */
  int without;             /* a set of enum pz_software that the user lacks */

  bool uniform;     /* every stage recomputes the same number of layers */
  bool all_devices; /* plans must use all devices */
  bool only_even;   /* only even divisions of layers (pz_plan_chunk_layers) are searched */

  enum pz_plan_objective objective;
  /* Plans are rated by step x (1 + expected error); see step/expected_error.h. */
  bool counts_risk;
  /* Plans whose value is within this fraction of the best one tie with it, or 0 if none do. */
  double tie;
  /* A run over this number of tokens must end within deadline_s, or 0 if there is no deadline. */
  double tokens, deadline_s;
  uint32_t top; /* number of plans to return; 0 means 1 */
  /* number of further plans to return, each the best of another kind (pz_plan_kind) */
  uint32_t n_alternatives;

  unsigned threads;             /* number of threads, or 0 for one per processor */
  struct pz_progress *progress; /* may be NULL; the search stops when it is cancelled */
  double end_s; /* the search stops at this time of pz_clock_s(), or 0 if no time limit */
  /* The time limit of a larger search that this one is part of, or NULL. */
  const struct pz_ending *ending;

  /* A table through which finders of several threads and ranks share frontiers and tables, or
   * NULL if they share nothing.  Finders of the same question, whatever their chip and network,
   * have the same number `sharing_key`. */
  const struct pz_shared_table *shared;
  uint32_t sharing_key;
};

/* A plan with its prediction. */
struct pz_found_plan {
  struct pz_plan plan; /* its stage_recompute is in the memory of the results */
  struct pz_prediction p;
};

/* The answer of a search. */
struct pz_found_plans {
  /* The n best plans, and after them the best plans of n_kinds other kinds, each best first. */
  struct pz_found_plan *list;
  uint32_t n, n_kinds; /* n is 0 if no plan fits */
  struct pz_plan_certificate certificate;
  /* The simplest plan that ties with the best; may be the best itself. */
  struct pz_found_plan simplest;
  struct pz_found_plan least; /* if no plan fits: the plan that needs the least memory, priced */
  bool has_least;
  bool late; /* no plan meets the deadline; the listed plans are the fastest that fit */
  /* The search was stopped: the list has the best plans so far, and the certificate a gap. */
  bool stopped;
  int64_t experts;   /* number of experts of the model */
  char warning[200]; /* warning about the model for the user, or "" */
};

/* Returns the question for a plan that may leave fields unset: these get the framework's defaults,
 * and the overlap that the framework can switch on besides.  Only the fields in `pinned` are
 * pinned.  Raises the errors of pz_fill_plan(). */
struct pz_plan_question pz_plan_question_make(struct pz_call *call, const struct pz_job *job,
                                              const struct pz_plan *plan, uint64_t pinned);

enum { PZ_PLAN_KINDS = 64 };

/* Returns the kind of a plan, a number below PZ_PLAN_KINDS: the set of techniques that it uses,
 * with a bit each for tensor, context, pipeline and expert parallelism, ZeRO 3, and offload. */
static inline int pz_plan_kind(const struct pz_plan *plan) {
  return (plan->tp > 1) | (pz_plan_cp(plan) > 1) << 1 | (plan->pp > 1) << 2 |
         (pz_plan_ep(plan) > 1) << 3 | (plan->zero == 3) << 4 | (plan->offload != 0) << 5;
}
enum {
  PZ_GRID_KINDS = 15, /* the four bits for parallelism, which all plans of a grid share */
  PZ_ZERO_3_KIND = 16,
  PZ_OFFLOAD_KIND = 32
};

/* True if a field of the question is not pinned, or is pinned to this value. */
#define PZ_PLAN_ALLOWS(question, ID, field, value)                                                 \
  (!((question)->pinned & PZ_PLAN_PIN(ID)) || (question)->plan.field == (value))

/* Finds the best training plan over tensor, sequence, context and expert parallelism, stages and
 * chunks, replicas, microbatch size, ZeRO stage, recomputation and offload, within memory and on
 * whole nodes.  Every plan of the space is priced, or excluded by a lower bound or by its memory,
 * so the result is the best plan by the model.
 *
 * The space contains the plans that the framework can run (pz_framework_can_run) with:
 * - tp that divides the heads, the KV heads and whatever else the model's layers require, and that
 *   stays within a node (pz_cluster_node) unless it is pinned; sequence parallelism where tp
 *   divides a device's part of the sequence.
 * - cp: powers of two up to 32, or as pinned, with flash attention, where 2 cp divides the
 *   sequence.
 * - ep: for models with experts, powers of two up to 1,024 that divide the experts, and the number
 *   of experts.  ep divides tp x cp x dp, and each expert is on one device.  With ep 1 experts are
 *   divided like the other layers.
 * - mbs up to 128; dp times mbs divides the batch.
 * - devices: a part of one node, or of several nodes all devices or the largest power of two (64 of
 *   a domain of 72), the same number in each.  The other devices are idle.
 * - stages with at least one layer.  Interleaving where the stages divide the microbatches, and the
 *   chunks divide the layers or the layers plus two (embedding and head count as one layer each).
 *   Where the framework has them: ZB-H1, ZB-2P without chunks, ZB-V and DualPipeV with two chunks
 *   under the condition of interleaving, and DualPipe with an even number of stages and an even
 *   number of microbatches, at least two per stage.
 * - layers divided evenly (pz_plan_chunk_layers), or unevenly: all chunks but the first and the
 *   last have m layers, m being the rounded-up mean or one more, and the first and the last divide
 *   the rest in any way with at most m each.  Two chunks divide the layers in any way.  At most
 *   1,024 chunks and 2^24 passes per step.
 * - ZeRO stages 0 to 3 where a stage has replicas of all or of expert parameters.  Otherwise stage
 *   0, and stage 1 where only that stage offers a pinned field, moments of fewer bits, or 8-bit
 *   weights.  plan.shard limits the group of replicas that state is sharded over, where it divides
 *   them.
 * - recomputation: none, selective, alternate, or full recomputation of the first n layers of each
 *   chunk.  n is chosen per stage as the smallest number with which the stage fits (the same for
 *   all stages in DualPipe, or all layers, if the framework has nothing else).  For the objective
 *   "memory" n is the number with the least memory, whatever the deadline.  If a plan fits without
 *   recomputation, the same plan with recomputation is slower and counts as excluded by a bound.
 *   (A stage that waits for a slower one may hide more of its gradients behind recomputation;
 *   0.004% was seen.)  A pinned "full" means the same smallest n; "half" and GPipe are used only if
 *   they are pinned, "half" also if the framework cannot choose the number of layers.
 * - offload, where plan.offload allows it: activations of the fewest layers per chunk that memory
 *   requires (or of plan.offload_layers or plan.offload_modules), with no or all of these layers
 *   fully recomputed; and optimizer state of 0, 1/4, 1/2, 3/4 or all parameters (or of
 *   plan.offload_fraction).
 *
 * Raises PZ_BAD_USE if the question has no plan at all, PZ_NO_ANSWER if the framework has none for
 * the model or the time was over before one was found, and PZ_STOPPED if the search was cancelled
 * before.  The result has n = 0 if no plan fits.  It is deterministic for any number of threads,
 * unless the search stops early. */
struct pz_found_plans *pz_find_plans(struct pz_call *call, const struct pz_plan_question *question);

#endif
