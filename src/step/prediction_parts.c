#include "step/prediction_parts.h"

#include <math.h>

#include "cost/constants.h"

#define TIME(f, label)                                                                             \
  { #f, label, offsetof(struct pz_training_parts, f), 0 }
#define TIME_HIDDEN(f, label, h)                                                                   \
  { #f, label, offsetof(struct pz_training_parts, f), offsetof(struct pz_prediction, h) }
#define HELD(f, label)                                                                             \
  { #f, label, offsetof(struct pz_training_memory, f), 0 }

static const struct pz_part_info times[] = {
    TIME(products_s, "products"),
    TIME(attention_s, "attention"),
    TIME(elementwise_s, "element-wise"),
    TIME(launch_s, "launches"),
    TIME_HIDDEN(tensor_s, "tensor-parallel collectives", tensor_hidden_s),
    TIME_HIDDEN(expert_s, "experts' all-to-all", expert_hidden_s),
    TIME(transfer_s, "stage transfers"),
    TIME(bubble_s, "pipeline bubble"),
    TIME_HIDDEN(gradient_s, "gradient exchange", gradient_hidden_s),
    TIME(optimizer_s, "optimizer")};

static const struct pz_part_info memory[] = {HELD(weight_bytes, "weights"),
                                             HELD(gradient_bytes, "gradients"),
                                             HELD(optimizer_bytes, "optimizer"),
                                             HELD(activation_bytes, "activations"),
                                             HELD(work_bytes, "work of a layer"),
                                             HELD(logit_bytes, "logits and loss"),
                                             HELD(communication_bytes, "communication"),
                                             HELD(reserve_bytes, "libraries")};

const struct pz_part_info *pz_time_part_at(size_t i) {
  return i < sizeof times / sizeof *times ? &times[i] : NULL;
}

const struct pz_part_info *pz_memory_part_at(size_t i) {
  return i < sizeof memory / sizeof *memory ? &memory[i] : NULL;
}

/* A pass takes (kernels^n + launches^n)^(1/n); what it takes longer than the kernels is told as launches. */
bool pz_launch_bound(const struct pz_training_parts *x) {
  double kernels_s = x->products_s + x->attention_s + x->elementwise_s + x->tensor_s + x->expert_s;
  return x->launch_s > kernels_s * (pow(2, 1 / pz_constants_default.smooth) - 1);
}

const struct pz_part_info *pz_grown_part(const struct pz_prediction *best,
                                         const struct pz_prediction *other, double *grew_s) {
  const struct pz_part_info *most = NULL, *part;
  *grew_s = 0;
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
    double grew = pz_time_part(&other->parts, part) - pz_time_part(&best->parts, part);
    if (!(grew > *grew_s)) continue;
    *grew_s = grew;
    most = part;
  }
  return most;
}
