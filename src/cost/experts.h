/* The routed experts of one device as a serving library runs them: choice of the top k experts
 * from given logits, permutation, 8-bit casts, grouped GEMMs, activation and permutation back, all
 * in one CUDA graph.  Tables of measured operators have such rows (AIConfigurator's moe). */
#ifndef PZ_COST_EXPERTS_H
#define PZ_COST_EXPERTS_H

#include "cost/cost.h"

struct pz_experts_work {
  int64_t tokens; /* of all devices of the group */
  int64_t hidden, inter, topk, experts;
  int64_t tp, ep; /* a device has experts / ep experts, and inter / tp of the inner width of each */
  double skew;    /* exponent of the power law of the experts' loads, or 0 if all are equal */
  bool gated;     /* an expert has three matrices rather than two */
  bool fp8;
};

/* The load of the device with the most rows.  A row is one token at one expert. */
struct pz_experts_load {
  double rows, largest; /* rows of all its experts, and of the expert with the most */
  double touched;       /* experts that have rows */
};

struct pz_experts_load pz_experts_load(const struct pz_experts_work *work);

/* Seconds of a repeated call in a burst, with weights that were not set: they draw little power,
 * so that nothing is throttled. Raises PZ_BAD_INPUT for sizes below 1 and for degrees that do not
 * divide. */
double pz_experts_s(struct pz_call *call, struct pz_cost *cost, const struct pz_experts_work *work);

#endif
