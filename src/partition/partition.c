#include "partition/partition.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/num.h"
#include "partition/model.h"
#include "partition/stage_sum.h"

#define NO_MEMORY "out of memory for the plan"

static const struct pz_stage *slowest_stage(const struct pz_place_solution *plan) {
  const struct pz_stage *slowest = &plan->stages[0];
  for (uint32_t k = 1; k < plan->n_stages; k++)
    if (plan->stages[k].load_s > slowest->load_s) slowest = &plan->stages[k];
  return slowest;
}

/* All stages wait for the slowest, so the step is what it does, and the time it waits itself. */
static struct pz_step_parts step_parts(const struct pz_place_model *m,
                                       const struct pz_place_solution *plan) {
  const struct pz_stage *s = slowest_stage(plan);
  const struct pz_place_width *w = &m->p.widths[plan->width];
  double own = 0, link = 0, microbatches = (double)pz_ceil_div(m->p.microbatches, plan->d);
  bool again = m->p.recompute && s != &plan->stages[plan->n_stages - 1];
  for (uint32_t i = 0; i < s->n; i++) {
    const struct pz_place_layer *l = &w->layers[s->layers[i]];
    const double *link_s = m->parts[s->layers[i]].link_s;
    own += l->fwd_s * (again ? 2 : 1) + l->bwd_s;
    link += link_s[PZ_FORWARD] * (again ? 2 : 1) + link_s[PZ_BACKWARD];
  }
  return (struct pz_step_parts){.compute_s = microbatches * (own - link),
                                .collectives_s = microbatches * link,
                                .transfers_s = microbatches * fmax(0, s->load_s - own),
                                .bubble_s = plan->maxload_s * (plan->n_stages - 1),
                                .exchange_s = plan->allreduce_s};
}

/* ---- stages --------------------------------------------------------------------------------- */

/* How many layers from the i-th of the stage on have its name. */
static uint32_t same_name(const struct pz_place_model *m, const struct pz_stage *s, uint32_t i) {
  uint32_t n = 1;
  while (i + n < s->n && strcmp(m->parts[s->layers[i + n]].name, m->parts[s->layers[i]].name) == 0)
    n++;
  return n;
}

static enum pz_status list_layers(const struct pz_place_model *m, const struct pz_stage *s,
                                  struct pz_arena *arena, struct pz_partition_stage *out) {
  for (uint32_t i = 0; i < s->n; i += same_name(m, s, i)) out->n_layers++;
  struct pz_partition_layers *list = pz_arena_alloc(arena, out->n_layers, sizeof *list);
  if (!list) return PZ_NO_MEMORY;
  for (uint32_t i = 0, k = 0; i < s->n; i += list[k++].count) {
    list[k] = (struct pz_partition_layers){pz_arena_strdup(arena, m->parts[s->layers[i]].name),
                                           same_name(m, s, i)};
    if (!list[k].name) return PZ_NO_MEMORY;
  }
  out->layers = list;
  out->layer_count = s->n;
  return PZ_OK;
}

/* memory = state P + A + (i - 1) K of the i-th stage from the end (problem.h), told apart. */
static struct pz_partition_stage stage_numbers(const struct pz_place_problem *p,
                                               const struct pz_stage *s,
                                               const struct pz_stage_sum *sum, uint32_t from_end) {
  bool again = p->recompute && from_end > 1;
  return (struct pz_partition_stage){
      .devices = s->devices,
      .forward_s = sum->forward_s,
      .backward_s = again ? sum->recompute_s : sum->backward_s,
      .load_s = s->load_s,
      .param_bytes = sum->param_bytes,
      .optimizer_bytes = (p->state - 1) * sum->param_bytes,
      .activation_bytes = sum->act_bytes,
      .in_flight_bytes = (from_end - 1) * (p->recompute ? sum->in_bytes : sum->act_bytes),
      .memory_bytes = s->memory_bytes};
}

static enum pz_status make_stages(const struct pz_place_model *m,
                                  const struct pz_place_solution *plan, struct pz_arena *arena,
                                  struct pz_partition *out) {
  const struct pz_place_width *w = &m->p.widths[plan->width];
  uint32_t stage[PZ_PLACE_MOST_LAYERS];
  enum pz_status status = PZ_OK;
  out->stages = pz_arena_alloc(arena, plan->n_stages, sizeof *out->stages);
  if (!out->stages) return PZ_NO_MEMORY;
  for (uint32_t k = 0; k < plan->n_stages; k++)
    for (uint32_t i = 0; i < plan->stages[k].n; i++) stage[plan->stages[k].layers[i]] = k;
  for (uint32_t k = 0; k < plan->n_stages && status == PZ_OK; k++) {
    struct pz_stage_sum sum = pz_stage_sum(&m->p, w, stage, k);
    out->stages[k] = stage_numbers(&m->p, &plan->stages[k], &sum, plan->n_stages - k);
    out->devices_used += plan->stages[k].devices * plan->d;
    status = list_layers(m, &plan->stages[k], arena, &out->stages[k]);
  }
  return status;
}

/* ---- the call ------------------------------------------------------------------------------- */

enum pz_status pz_partition_make(const struct pz_place_model *m,
                                 const struct pz_place_solution *plan, double lower_bound_s,
                                 struct pz_arena *arena, struct pz_partition *out,
                                 struct pz_error *err) {
  struct pz_partition made = {.pp = plan->n_stages,
                              .tp = m->p.widths[plan->width].t,
                              .dp = plan->d,
                              .batch = m->batch,
                              .mbs = m->mbs,
                              .seq = m->seq,
                              .microbatches = pz_ceil_div(m->p.microbatches, plan->d),
                              .recompute = m->p.recompute,
                              .hbm_bytes = m->p.hbm_bytes,
                              .step_s = plan->time_s,
                              .lower_bound_s = lower_bound_s,
                              .slowest_stage_s = plan->maxload_s,
                              .parts = step_parts(m, plan),
                              .samples_per_s = (double)m->batch / plan->time_s,
                              .tokens_per_s = (double)(m->batch * m->seq) / plan->time_s,
                              .n_open_schedules = m->n_open,
                              .worst_schedule_gap = m->worst_gap};
  if (make_stages(m, plan, arena, &made) != PZ_OK) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  double peak = (double)made.devices_used * m->peak_flop_per_s;
  made.flop_utilisation = m->sample_flop * (double)m->batch / (plan->time_s * peak);
  *out = made;
  return PZ_OK;
}

const char *pz_partition_stage_text(const struct pz_partition_stage *s, char *buf, size_t size) {
  size_t at = 0;
  if (size) buf[0] = '\0';
  for (uint32_t i = 0; i < s->n_layers && at + 1 < size; i++) {
    const struct pz_partition_layers *l = &s->layers[i];
    int wrote = snprintf(buf + at, size - at, l->count > 1 ? "%s%s x %u" : "%s%s", at ? ", " : "",
                         l->name, l->count);
    at += wrote > 0 ? (size_t)wrote : 0;
  }
  return buf;
}
