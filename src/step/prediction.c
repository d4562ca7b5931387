/* The terms of a prediction by name, and the constants that change it (prediction.h). */
#include "step/prediction.h"

#include <math.h>
#include <string.h>

#include "core/vec.h"

/* ---- terms by name -------------------------------------------------------------------------- */

#define TIME(member, label)                                                                        \
  { #member, label, offsetof(struct pz_training_parts, member), 0 }
#define TIME_HIDDEN(part, label, hidden)                                                           \
  { #part, label, offsetof(struct pz_training_parts, part), offsetof(struct pz_prediction, hidden) }
#define MEMORY(member, label)                                                                      \
  { #member, label, offsetof(struct pz_training_memory, member), 0 }

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

static const struct pz_part_info memory[] = {MEMORY(weight_bytes, "weights"),
                                             MEMORY(gradient_bytes, "gradients"),
                                             MEMORY(optimizer_bytes, "optimizer"),
                                             MEMORY(activation_bytes, "activations"),
                                             MEMORY(work_bytes, "work of a layer"),
                                             MEMORY(logit_bytes, "logits and loss"),
                                             MEMORY(communication_bytes, "communication"),
                                             MEMORY(reserve_bytes, "libraries")};

/* Returns the i-th term of the step time, or NULL after the last. */
const struct pz_part_info *pz_time_part_at(size_t i) {
  return i < sizeof times / sizeof *times ? &times[i] : NULL;
}

/* Returns the label of a time term; that of attention names scans if the model has any. */
const char *pz_time_part_label(const struct pz_prediction *prediction,
                               const struct pz_part_info *part) {
  bool scans = prediction->scan_layers > 0 &&
               part->offset == offsetof(struct pz_training_parts, attention_s);
  return scans ? "attention and scans" : part->label;
}

/* Returns the i-th term of the peak memory, or NULL after the last. */
const struct pz_part_info *pz_memory_part_at(size_t i) {
  return i < sizeof memory / sizeof *memory ? &memory[i] : NULL;
}

/* Returns whether launches take longer than kernels.  A pass takes (kernels^n + launches^n)^(1/n).
 * The launch term is the excess over the kernels, which reaches this limit if both are equal. */
bool pz_launch_bound(const struct pz_training_parts *parts) {
  double kernels_s = parts->products_s + parts->attention_s + parts->elementwise_s +
                     parts->tensor_s + parts->expert_s;
  return parts->launch_s > kernels_s * (pow(2, 1 / pz_constants_default.smooth) - 1);
}

/* ---- effects of constants ------------------------------------------------------------------- */

/* The factor by which a constant is raised, and the relative change that counts as none. */
static const double RAISE = 1.1, NO_CHANGE = 1e-9;

/* Returns the label of the time term that differs most between two predictions, or "memory".
 * The pipeline bubble depends on the other terms, so it is named only if no other term differs. */
static const char *changed_part(const struct pz_prediction *before,
                                const struct pz_prediction *after) {
  const struct pz_part_info *part;
  const char *label = "memory";
  double largest_change = NO_CHANGE * before->step_s;
  for (size_t i = 0; (part = pz_time_part_at(i)); i++) {
    double change = fabs(pz_time_part(&after->parts, part) - pz_time_part(&before->parts, part));
    if (part->offset == offsetof(struct pz_training_parts, bubble_s)) change /= 1e6;
    if (change <= largest_change) continue;
    largest_change = change;
    label = pz_time_part_label(before, part);
  }
  return label;
}

/* Predicts the plan again with each constant raised, and returns those that change it. */
struct pz_constant_effect *pz_constant_effects(struct pz_call *call, const struct pz_job *job,
                                               const struct pz_plan *plan, uint32_t *n) {
  const struct pz_constant_info *info;
  struct pz_vec found;
  pz_vec_init(&found, call->arena, sizeof(struct pz_constant_effect));
  struct pz_prediction before = pz_predict(call, job, plan, NULL);
  for (size_t i = 0; (info = pz_constant_at(i)); i++) {
    struct pz_constants raised = pz_constants_default;
    struct pz_job raised_job = *job;
    double value, raised_value;
    memcpy(&value, (const char *)&raised + info->offset, sizeof value);
    raised_value = value * RAISE;
    memcpy((char *)&raised + info->offset, &raised_value, sizeof raised_value);
    raised_job.constants = &raised;
    struct pz_prediction after = pz_predict(call, &raised_job, plan, NULL);
    struct pz_constant_effect effect = {.name = info->name,
                                        .unit = info->unit,
                                        .kind = info->kind,
                                        .source = info->source,
                                        .value = value,
                                        .step_change = after.step_s / before.step_s - 1,
                                        .memory_change = after.peak_bytes / before.peak_bytes - 1,
                                        .part = changed_part(&before, &after)};
    if (fabs(effect.step_change) > NO_CHANGE || fabs(effect.memory_change) > NO_CHANGE)
      pz_append(call, &found, &effect);
  }
  *n = found.n;
  return found.items;
}
