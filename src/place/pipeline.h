/* A pipeline, event by event: when every stage runs every microbatch, in the order in which training
 * frameworks issue them.
 *
 * Orders: GPipe runs all forwards, then all backwards (Huang et al., NeurIPS 2019); 1F1B warms up
 * with one forward for each later stage and then alternates (Narayanan et al., PipeDream-Flush, ICML
 * 2021); interleaved 1F1B gives each stage several chunks of layers (Narayanan et al., Megatron-LM,
 * SC 2021). */
#ifndef PZ_PLACE_PIPELINE_H
#define PZ_PLACE_PIPELINE_H

#include "core/arena.h"

enum { PZ_PIPELINE_MOST_EVENTS = 1 << 24 };

/* Times of one microbatch, by chunk and then stage: chunk c of stage k stands at c * stages + k. */
struct pz_pipeline {
  uint32_t stages, chunks; /* chunks of layers a stage has; 1 unless interleaved */
  uint32_t microbatches;
  enum pz_pipeline_order order;
  const double *forward_s, *backward_s;
  const double
      *weight_s; /* of backward_s: gradients of weights, where the order parts them; NULL: 0 */
  double
      transfer_s; /* of a microbatch from one chunk to the next, either way; the sender goes on */
};

struct pz_pipeline_run {
  double end_s;                     /* of the last event */
  struct pz_pipeline_event *events; /* stage by stage, each in its order; NULL: not asked for */
  uint32_t n_events;
};

/* Run it.  PZ_BAD_USE: no stages, microbatches or chunks, more than one chunk where the order has
 * none, or microbatches that interleaving cannot divide by the stages; PZ_LIMIT: more than
 * PZ_PIPELINE_MOST_EVENTS.  With `keep` the arena holds every event.  Cost: linear in the events. */
PZ_NODISCARD enum pz_status pz_pipeline_simulate(const struct pz_pipeline *p, bool keep,
                                                 struct pz_arena *arena,
                                                 struct pz_pipeline_run *out, struct pz_error *err);

/* No order of the 1F1B kind ends earlier: max over stages k of M L_k + the passes before it, where
 * L is forward and backward of a stage's chunks.  Cheap. */
double pz_pipeline_bound_s(const struct pz_pipeline *p);

#endif
