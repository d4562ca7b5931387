#include "partition/model.h"

#include "schedule/model/layer.h"
#include "schedule/solve.h"

#define NO_MEMORY "out of memory for the placement"

static double link_seconds(const struct pz_problem *p, const struct pz_slot *slots) {
  double s = 0;
  for (uint32_t i = 0; i < p->n; i++)
    if (p->tasks[i].modes[slots[i].mode].use[PZ_LINK]) s += slots[i].end - slots[i].start;
  return s;
}

enum pz_status pz_layer_schedule(struct pz_cost *cost, const struct pz_ops *ops, int64_t steps,
                                 const struct pz_mem *mem, struct pz_layer_time *out,
                                 struct pz_error *err) {
  struct pz_layer_options kind = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options effort = {.steps = steps};
  struct pz_problem p;
  struct pz_schedule made;
  struct pz_arena arena;
  pz_arena_init(&arena, mem);
  enum pz_status status = pz_layer_problem(cost, ops, &kind, &arena, &p, err);
  if (status == PZ_OK) status = pz_schedule_solve(&p, &effort, &arena, &made, err);
  if (status == PZ_OK)
    *out = (struct pz_layer_time){.s = made.makespan,
                                  .least_s = made.lower_bound,
                                  .link_s = link_seconds(&p, made.slots),
                                  .open = made.outcome != PZ_OUTCOME_OPTIMAL};
  pz_arena_release(&arena);
  return status;
}

static struct pz_place_layer place_layer(const struct pz_workload *w, const struct pz_layer *l,
                                         const struct pz_layer_time times[2]) {
  enum { BYTES = 2 }; /* of a parameter */
  return (struct pz_place_layer){.fwd_s = times[PZ_FORWARD].s,
                                 .bwd_s = times[PZ_BACKWARD].s,
                                 .param_bytes = BYTES * (double)(l->params + l->tied_params),
                                 .act_bytes = (double)l->activation_bytes,
                                 .tensor_parallel = w->options.tp > 1};
}

enum pz_status pz_place_chain(const struct pz_workload *w, const struct pz_layer_time (*times)[2],
                              struct pz_arena *arena, struct pz_place_width *out,
                              const struct pz_place_part **parts, struct pz_error *err) {
  uint32_t n = (uint32_t)w->totals.layers, at = 0;
  struct pz_place_layer *layers = pz_arena_alloc(arena, n, sizeof *layers);
  struct pz_place_edge *edges = pz_arena_alloc(arena, n, sizeof *edges);
  struct pz_place_part *list = pz_arena_alloc(arena, parts ? n : 0, sizeof *list);
  if (!layers || !edges || !list) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t i = 0; i < w->n_layers; i++) {
    const struct pz_layer *l = &w->layers[i];
    const char *name = parts ? pz_arena_strdup(arena, l->name) : "";
    if (!name) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
    for (int64_t k = 0; k < l->count && at < n; k++, at++) {
      layers[at] = place_layer(w, l, times[i]);
      layers[at].id = at;
      edges[at] = (struct pz_place_edge){at, at + 1, (double)l->output_bytes};
      if (parts) list[at] = (struct pz_place_part){name, {times[i][0].link_s, times[i][1].link_s}};
    }
  }
  *out = (struct pz_place_width){
      .t = w->options.tp, .layers = layers, .edges = edges, .n = at, .n_edges = at ? at - 1 : 0};
  if (parts) *parts = list;
  return PZ_OK;
}

struct pz_place_problem pz_place_problem_on(const struct pz_cluster *net, int64_t devices,
                                            double hbm_bytes, double state, int64_t microbatches,
                                            bool recompute) {
  const struct pz_level *all = pz_cluster_level(net, devices);
  struct pz_place_problem p = {.hbm_bytes = hbm_bytes,
                               .bytes_per_s = all ? all->bytes_per_s : 0,
                               .devices = devices,
                               .microbatches = microbatches,
                               .state = state,
                               .recompute = recompute,
                               .n_widths = 1};
  for (int i = 0; all && &net->level[i] < all; i++)
    p.domains[p.n_domains++] =
        (struct pz_place_domain){net->level[i].devices, net->level[i].bytes_per_s};
  return p;
}
