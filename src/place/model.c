#include "place/model.h"

#include <math.h>

#include "schedule/model/layer.h"
#include "schedule/solve.h"

#define NO_MEMORY "out of memory for the placement"

struct maker {
  struct pz_cost *cost;
  const struct pz_place_options *o;
  struct pz_arena *arena;
  struct pz_place_model *out;
  struct pz_error *err;
};

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

static enum pz_status schedule_all(struct maker *m, const struct pz_workload *w,
                                   struct pz_layer_time (*times)[2]) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int d = PZ_FORWARD; d <= PZ_BACKWARD && status == PZ_OK; d++) {
      struct pz_layer_time *t = &times[i][d];
      status =
          pz_layer_schedule(m->cost, &w->layers[i].ops[d], m->o->steps, m->arena->mem, t, m->err);
      if (status != PZ_OK) return status;
      m->out->n_open += t->open;
      m->out->worst_gap = fmax(m->out->worst_gap, t->s > 0 ? 1 - t->least_s / t->s : 0);
    }
  return status;
}

static enum pz_status make_width(struct maker *m, const struct pz_workload *w,
                                 struct pz_place_width *width) {
  if (w->totals.layers > PZ_PLACE_MOST_LAYERS)
    return pz_fail(m->err, PZ_LIMIT, "%lld layers; accepted: at most %d",
                   (long long)w->totals.layers, PZ_PLACE_MOST_LAYERS);
  struct pz_layer_time(*times)[2] = pz_arena_alloc(m->arena, w->n_layers, sizeof *times);
  if (!times) return pz_fail(m->err, PZ_NO_MEMORY, NO_MEMORY);
  enum pz_status status = schedule_all(m, w, times);
  if (status != PZ_OK) return status;
  return pz_place_chain(w, (const struct pz_layer_time(*)[2])times, m->arena, width, &m->out->parts,
                        m->err);
}

static enum pz_status set_width(struct maker *m, const char *model, struct pz_workload_options wo,
                                struct pz_place_width *width) {
  struct pz_workload *w = NULL;
  wo.tp = m->o->width;
  enum pz_status status = pz_workload_load(model, &wo, &w, m->err);
  if (status != PZ_OK) return status;
  status = make_width(m, w, width);
  m->out->mbs = w->options.mbs;
  m->out->seq = w->options.seq;
  pz_workload_free(w);
  return status;
}

/* Products of one sample, forward and backward, of the undivided model, which may be too large to
 * count for more. */
static enum pz_status count_flop(const char *model, struct pz_workload_options wo, double *flop,
                                 struct pz_error *err) {
  struct pz_workload *w = NULL;
  wo.tp = wo.mbs = 1;
  enum pz_status status = pz_workload_load(model, &wo, &w, err);
  if (status != PZ_OK) return status;
  *flop = (double)(w->totals.matmul_forward_flop + w->totals.matmul_backward_flop);
  pz_workload_free(w);
  return PZ_OK;
}

void pz_place_network(struct pz_place_problem *p, const struct pz_cluster *net) {
  const struct pz_level *all = pz_cluster_level(net, p->devices);
  p->bytes_per_s = all ? all->bytes_per_s : 0;
  p->n_domains = 0;
  for (int i = 0; all && &net->level[i] < all; i++)
    p->domains[p->n_domains++] =
        (struct pz_place_domain){net->level[i].devices, net->level[i].bytes_per_s};
}

enum pz_status pz_place_model(struct pz_cost *cost, const char *model,
                              const struct pz_workload_options *workload,
                              const struct pz_place_options *o, bool recompute,
                              struct pz_arena *arena, struct pz_place_model *out,
                              struct pz_error *err) {
  struct maker m = {.cost = cost, .o = o, .arena = arena, .out = out, .err = err};
  *out = (struct pz_place_model){.p = {.hbm_bytes = o->hbm_bytes,
                                       .devices = o->devices,
                                       .state = o->state,
                                       .recompute = recompute}};
  pz_place_network(&out->p, &cost->net);
  struct pz_place_width *width = pz_arena_alloc(arena, 1, sizeof *width);
  if (!width) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  out->p.widths = width;
  out->p.n_widths = 1;
  enum pz_status status = count_flop(model, *workload, &out->sample_flop, err);
  if (status == PZ_OK) status = set_width(&m, model, *workload, width);
  out->p.microbatches = out->mbs ? (o->batch + out->mbs - 1) / out->mbs : 0;
  return status;
}
