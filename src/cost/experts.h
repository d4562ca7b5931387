/* The routed experts of one device as a serving library runs them: top-k of given logits, permutation, 8-bit casts,
 * grouped products, activation, permutation back, all in one CUDA graph.  Tables of measured operators have such rows
 * (AIConfigurator's moe); the products are those of a training step, by the fastest of a tuned kernel's tiles. */
#ifndef PZ_COST_EXPERTS_H
#define PZ_COST_EXPERTS_H

#include "cost/cost.h"

struct pz_experts_work {
  int64_t tokens; /* of all devices of the group */
  int64_t hidden, inter, topk, experts;
  int64_t tp, ep; /* a device holds experts / ep of them, inter / tp of each */
  double skew;    /* exponent of the power law that experts' loads follow; 0: all alike */
  bool gated;     /* three matrices for each expert, else two */
  bool fp8;
};

/* Rows of the device with the most, and how they lie on its experts. */
struct pz_experts_load {
  double rows, largest; /* of all its experts, of the one with the most */
  double touched;       /* experts that have rows */
};

/* Loads of a power law are samples of the density x^-skew from 1 to 0.8 tokens (0.01 to 2 where there are fewer rows
 * than experts), scaled to tokens x topk rows: their mean and deviation say what the device with the most has. */
struct pz_experts_load pz_experts_load(const struct pz_experts_work *w);

/* Seconds of a repeated call in a burst, with weights that were not set: little power, so that nothing throttles.
 * PZ_BAD_INPUT for sizes below 1 or parts that do not divide. */
PZ_NODISCARD enum pz_status pz_experts_cost(struct pz_cost *cost, const struct pz_experts_work *w,
                                            double *s, struct pz_error *err);

/* Like pz_experts_cost(), but raises errors. */
double pz_experts_s(struct pz_call *call, struct pz_cost *cost, const struct pz_experts_work *work);

#endif
