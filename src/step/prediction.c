/* The terms of a prediction by name, and which constants make a difference for it
 * (prediction.h). */
#include "step/prediction.h"

#include <math.h>
#include <string.h>

#include "core/vec.h"

/* ---- terms by name -------------------------------------------------------------------------- */

#define TIME(f, label)                                                                             \
  { #f, label, offsetof(struct pz_training_parts, f), 0 }
#define TIME_HIDDEN(f, label, h)                                                                   \
  { #f, label, offsetof(struct pz_training_parts, f), offsetof(struct pz_prediction, h) }
#define HELD(f, label)                                                                             \
  { #f, label, offsetof(struct pz_training_memory, f), 0 }

static const struct pz_part_info times[] = {
    TIME(products_s, "GEMMs"),
    TIME(attention_s, "attention"),
    TIME(elementwise_s, "element-wise"),
    TIME(launch_s, "launches"),
    TIME_HIDDEN(tensor_s, "tensor-parallel collectives", tensor_hidden_s),
    TIME_HIDDEN(expert_s, "experts' all-to-all", expert_hidden_s),
    TIME(transfer_s, "stage transfers"),
    TIME(bubble_s, "pipeline bubble"),
    TIME_HIDDEN(gradient_s, "gradient exchange", gradient_hidden_s),
    TIME(waiting_s, "waiting for stragglers"),
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

const char *pz_time_part_label(const struct pz_prediction *prediction,
                               const struct pz_part_info *part) {
  bool scans = prediction->scan_layers > 0 &&
               part->offset == offsetof(struct pz_training_parts, attention_s);
  return scans ? "attention and scans" : part->label;
}

const struct pz_part_info *pz_memory_part_at(size_t i) {
  return i < sizeof memory / sizeof *memory ? &memory[i] : NULL;
}

/* A pass takes (kernels^n + launches^n)^(1/n); what it takes longer than the kernels is printed as
 * launches. */
bool pz_launch_bound(const struct pz_training_parts *training_parts) {
  double kernels_s = training_parts->products_s + training_parts->attention_s +
                     training_parts->elementwise_s + training_parts->tensor_s +
                     training_parts->expert_s;
  return training_parts->launch_s > kernels_s * (pow(2, 1 / pz_constants_default.smooth) - 1);
}

/* ---- constants that count ------------------------------------------------------------------- */

static const double RAISE = 1.1, NOTHING = 1e-9;

/* Returns the label of the term that differs most between two predictions.  The bubble follows the
 * other terms, so that it is named only if it alone differs. */
static const char *changed_part(const struct pz_prediction *a, const struct pz_prediction *b) {
  const struct pz_part_info *part_info;
  const char *found = "memory";
  double most = NOTHING * a->step_s;
  for (size_t i = 0; (part_info = pz_time_part_at(i)); i++) {
    double by = fabs(pz_time_part(&b->parts, part_info) - pz_time_part(&a->parts, part_info));
    if (part_info->offset == offsetof(struct pz_training_parts, bubble_s)) by /= 1e6;
    if (by <= most) continue;
    most = by;
    found = pz_time_part_label(a, part_info);
  }
  return found;
}

static struct pz_constant_effect raise_one(struct pz_call *call, const struct pz_job *job,
                                           const struct pz_plan *plan,
                                           const struct pz_prediction *before,
                                           const struct pz_constant_info *info) {
  struct pz_constants raised = pz_constants_default;
  struct pz_job with = *job;
  double value;
  memcpy(&value, (const char *)&raised + info->offset, sizeof value);
  double more = value * RAISE;
  memcpy((char *)&raised + info->offset, &more, sizeof more);
  with.constants = &raised;
  struct pz_prediction prediction = pz_predict(call, &with, plan, NULL);
  return (struct pz_constant_effect){.name = info->name,
                                     .unit = info->unit,
                                     .kind = info->kind,
                                     .source = info->source,
                                     .value = value,
                                     .step_change = prediction.step_s / before->step_s - 1,
                                     .memory_change =
                                         prediction.peak_bytes / before->peak_bytes - 1,
                                     .part = changed_part(before, &prediction)};
}

struct pz_constant_effect *pz_constant_effects(struct pz_call *call, const struct pz_job *job,
                                               const struct pz_plan *plan, uint32_t *n) {
  const struct pz_constant_info *info;
  struct pz_vec found;
  pz_vec_init(&found, call->arena, sizeof(struct pz_constant_effect));
  struct pz_prediction before = pz_predict(call, job, plan, NULL);
  for (size_t i = 0; (info = pz_constant_at(i)); i++) {
    struct pz_constant_effect effect = raise_one(call, job, plan, &before, info);
    if (fabs(effect.step_change) > NOTHING || fabs(effect.memory_change) > NOTHING)
      pz_append(call, &found, &effect);
  }
  *n = found.n;
  return found.items;
}
