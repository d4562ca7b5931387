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

#include "place/plan_question.h"

/* PZ_BAD_USE where the question has no plan at all (the message says why); n 0 where none fits.  The arena holds the
 * plans.  Deterministic, whatever the threads. */
PZ_NODISCARD enum pz_status pz_plan_search(const struct pz_plan_question *q, struct pz_arena *arena,
                                           struct pz_found_plans *out, struct pz_error *err);

#endif
