/* One rank of a plan alone (rank_alone.h): predicted on an instant network, for its
 * microbatches. */
#include "step/rank_alone.h"

#include "chip/chip.h"
#include "core/num.h"
#include "step/training_memory.h"

/* Returns the time and memory of a rank of a stage on a network without delays.  Its time is that
 * of its microbatches, and of the optimizer's update once.  Between two steps it holds weights,
 * gradients and optimizer state.
 *
 * ZeRO stages 2 and 3 count as FSDP, which shards weights and gradients between steps in both.  The
 * predicted memory is that within a step, when FSDP may keep gathered weights too (in stage 2).
 * For FSDP, the bytes between steps therefore follow from the optimizer state, which has as many
 * shards, but not with offloading, or with adapters, whose frozen weights have no such state. */
struct pz_rank_alone pz_rank_alone(struct pz_call *call, const struct pz_job *job,
                                   const struct pz_plan *plan, int64_t stage,
                                   int64_t microbatches) {
  static const double GRADIENT_BYTES = 4, MOMENT_BYTES = 4; /* in fp32 */
  struct pz_network no_network = {.own_link = !job->net};
  struct pz_job alone = *job;
  struct pz_prediction_detail detail = {.no_events = true};
  if (job->net) no_network.cluster = *job->net;
  pz_network_make_instant(&no_network, job->chip, plan->devices);
  alone.net = &no_network.cluster;
  struct pz_prediction prediction = pz_predict(call, &alone, plan, &detail);
  const struct pz_training_memory *memory = &detail.stages[stage];
  double static_bytes = memory->weight_bytes + memory->gradient_bytes + memory->optimizer_bytes;
  const struct pz_framework *framework = pz_plan_framework(plan);
  /* Bytes per parameter.  The framework's state has two fp32 moments; the plan's may be shorter. */
  double weight_and_gradient_bytes = framework->weight_bytes + GRADIENT_BYTES;
  double optimizer_bytes = framework->state_bytes - framework->weight_bytes - GRADIENT_BYTES;
  bool sets_moments = plan->moment_bytes > 0;
  if (sets_moments) optimizer_bytes -= 2 * (MOMENT_BYTES - plan->moment_bytes);
  bool is_fsdp = plan->zero >= 2 && !pz_plan_trains_adapters(plan) && !plan->offload;
  if (is_fsdp && optimizer_bytes > 0)
    static_bytes = memory->optimizer_bytes * (1 + weight_and_gradient_bytes / optimizer_bytes);
  double update_s = pz_fmin(prediction.parts.optimizer_s, detail.stage_s[stage]);
  double microbatch_part = (double)microbatches / (double)prediction.microbatches;
  return (struct pz_rank_alone){.compute_s =
                                    microbatch_part * (detail.stage_s[stage] - update_s) + update_s,
                                .static_bytes = static_bytes,
                                .peak_bytes = pz_training_memory_sum(memory),
                                .reserved_bytes = detail.reserved_bytes[stage],
                                .microbatches = prediction.microbatches};
}
