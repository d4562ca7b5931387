#include "step/rank_alone.h"

#include "core/num.h"
#include "step/training_memory.h"

/* A network in which nothing takes time. */
static struct pz_cluster no_network(int64_t devices) {
  struct pz_cluster net = {
      .name = "none", .devices = devices, .stated_devices = devices, .n_levels = 1};
  net.level[0] = (struct pz_level){
      .name = "none", .devices = devices, .bytes_per_s = 1e18, .latency_s = 1e-15};
  return net;
}

/* Time in which a stage computes; a forward and a backward pass that run as one have the same times. */
static double busy_s(const struct pz_pipeline_run *run, uint32_t stage) {
  double busy = 0, until = 0;
  for (uint32_t i = 0; i < run->n_events; i++) {
    const struct pz_pipeline_event *e = &run->events[i];
    if (e->stage != stage || e->end_s <= until) continue;
    busy += e->end_s - pz_fmax(e->start_s, until);
    until = e->end_s;
  }
  return busy;
}

enum pz_status pz_rank_alone(const struct pz_job *job, const struct pz_plan *plan, int64_t stage,
                             int64_t microbatches, struct pz_rank_alone *out,
                             struct pz_error *err) {
  struct pz_arena arena;
  struct pz_cluster net = no_network(plan->devices);
  struct pz_job alone = *job;
  struct pz_prediction p;
  struct pz_prediction_detail detail = {.arena = &arena};
  alone.net = &net;
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_predict(&alone, plan, &p, &detail, err);
  if (status == PZ_OK) {
    const struct pz_training_memory *m = &detail.stages[stage];
    double most = 0; /* optimizer state of the stage whose update is priced */
    for (int64_t k = 0; k < plan->pp; k++) most = pz_fmax(most, detail.stages[k].optimizer_bytes);
    double part = most > 0 ? m->optimizer_bytes / most : 1;
    double passes_s = busy_s(&detail.run, (uint32_t)stage);
    *out = (struct pz_rank_alone){
        .compute_s =
            passes_s * (double)microbatches / (double)p.microbatches + part * p.parts.optimizer_s,
        .static_bytes = m->weight_bytes + m->gradient_bytes + m->optimizer_bytes,
        .peak_bytes = pz_training_memory_sum(m) - m->reserve_bytes,
        .reserved_bytes = pz_training_memory_sum(m),
        .microbatches = p.microbatches};
  }
  pz_arena_release(&arena);
  return status;
}
