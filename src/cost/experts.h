/* The routed experts of one device as a serving library runs them: choice of the top k experts from
 * given logits, permutation, 8-bit casts, grouped GEMMs, activation and permutation back, all in
 * one CUDA graph.  Tables of measured operators have such rows (AIConfigurator's moe). */
#ifndef PZ_COST_EXPERTS_H
#define PZ_COST_EXPERTS_H

#include "cost/cost.h"

struct pz_experts_work {
  int64_t tokens;        /* tokens of all devices of the group */
  int64_t hidden, inter; /* hidden size, and inner width of an expert */
  int64_t topk, experts; /* experts that a token chooses, and experts of the layer */
  int64_t tp, ep; /* a device has experts / ep experts, and inter / tp of the inner width of each */
  double skew;    /* exponent of the power law of the experts' loads, or 0 if all are equal */
  bool gated;     /* an expert has three matrices rather than two */
  bool fp8;
};

/* The load of the device with the most rows.  A row is one token at one expert. */
struct pz_experts_load {
  double rows, largest; /* rows of all its experts, and rows of its busiest expert */
  double touched;       /* number of its experts that have rows */
};

/* Returns the expected load of the device with the most rows. */
struct pz_experts_load pz_experts_load(const struct pz_experts_work *work);

/* Returns the seconds of a repeated call in a burst.  The weights are uninitialised memory, which
 * draws little power, so that the power limit does not act.  Raises PZ_BAD_INPUT for sizes below 1
 * and for parallel degrees that do not divide what they split. */
double pz_experts_s(struct pz_call *call, struct pz_cost *cost, const struct pz_experts_work *work);

#endif
