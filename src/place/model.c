#include "place/model.h"

#include <math.h>

#include "schedule/layer.h"
#include "schedule/solve.h"

struct maker {
  struct pz_cost *cost;
  const struct pz_place_options *o;
  struct pz_arena *arena;
  struct pz_place_model *out;
  struct pz_error *err;
};

/* The schedule of a layer in one direction: its makespan, and how long the link is busy in it. */
static enum pz_status schedule(struct maker *m, const struct pz_ops *ops, double *s,
                               double *link_s) {
  struct pz_layer_options kind = {PZ_MODES_ALL, PZ_EXCLUSIVE_ALL};
  struct pz_solve_options effort = {.steps = m->o->steps};
  struct pz_problem p;
  struct pz_schedule made;
  struct pz_arena arena;
  pz_arena_init(&arena, m->arena->mem);
  enum pz_status status = pz_layer_problem(m->cost, ops, &kind, &arena, &p, m->err);
  if (status == PZ_OK) status = pz_schedule_solve(&p, &effort, &arena, &made, m->err);
  if (status == PZ_OK) {
    *s = made.makespan;
    for (uint32_t i = 0; i < p.n; i++)
      if (p.tasks[i].modes[made.slots[i].mode].use[PZ_LINK])
        *link_s += made.slots[i].end - made.slots[i].start;
    double gap = made.makespan > 0 ? 1 - made.lower_bound / made.makespan : 0;
    m->out->n_open += made.outcome != PZ_OUTCOME_OPTIMAL;
    m->out->worst_gap = fmax(m->out->worst_gap, gap);
  }
  pz_arena_release(&arena);
  return status;
}

static enum pz_status make_layer(struct maker *m, const struct pz_layer *l, bool wide,
                                 struct pz_place_layer *out, struct pz_place_part *part) {
  enum { BYTES = 2 }; /* of a parameter */
  *out = (struct pz_place_layer){.param_bytes = BYTES * (double)(l->params + l->tied_params),
                                 .act_bytes = (double)l->activation_bytes,
                                 .tensor_parallel = wide};
  part->name = pz_arena_strdup(m->arena, l->name);
  if (!part->name) return pz_fail(m->err, PZ_NO_MEMORY, "out of memory for the placement");
  enum pz_status status = schedule(m, &l->ops[PZ_FORWARD], &out->fwd_s, &part->link_s[PZ_FORWARD]);
  if (status == PZ_OK)
    status = schedule(m, &l->ops[PZ_BACKWARD], &out->bwd_s, &part->link_s[PZ_BACKWARD]);
  return status;
}

/* Layers one by one, as often as they stand in the model, each with an edge to the next. */
static enum pz_status make_width(struct maker *m, const struct pz_workload *w,
                                 struct pz_place_width *out, const struct pz_place_part **parts) {
  uint32_t n = (uint32_t)w->totals.layers, at = 0;
  struct pz_place_layer *layers = pz_arena_alloc(m->arena, n, sizeof *layers);
  struct pz_place_edge *edges = pz_arena_alloc(m->arena, n, sizeof *edges);
  struct pz_place_part *list = pz_arena_alloc(m->arena, n, sizeof *list);
  if (!layers || !edges || !list)
    return pz_fail(m->err, PZ_NO_MEMORY, "out of memory for the placement");
  for (uint32_t i = 0; i < w->n_layers; i++) {
    struct pz_place_layer one;
    struct pz_place_part part = {0};
    enum pz_status status = make_layer(m, &w->layers[i], w->options.tp > 1, &one, &part);
    if (status != PZ_OK) return status;
    for (int64_t k = 0; k < w->layers[i].count && at < n; k++, at++) {
      layers[at] = one;
      layers[at].id = at;
      list[at] = part;
      edges[at] = (struct pz_place_edge){at, at + 1, (double)w->layers[i].output_bytes};
    }
  }
  *out = (struct pz_place_width){
      .t = w->options.tp, .layers = layers, .edges = edges, .n = at, .n_edges = at ? at - 1 : 0};
  *parts = list;
  return PZ_OK;
}

static enum pz_status set_width(struct maker *m, const char *model, struct pz_workload_options wo,
                                struct pz_place_width *width) {
  struct pz_workload *w = NULL;
  wo.tp = m->o->width;
  enum pz_status status = pz_workload_load(model, &wo, &w, m->err);
  if (status != PZ_OK) return status;
  if (w->totals.layers > PZ_PLACE_MOST_LAYERS)
    status = pz_fail(m->err, PZ_LIMIT, "%lld layers; accepted: at most %d",
                     (long long)w->totals.layers, PZ_PLACE_MOST_LAYERS);
  else
    status = make_width(m, w, width, &m->out->parts);
  m->out->mbs = w->options.mbs;
  m->out->seq = w->options.seq;
  pz_workload_free(w);
  return status;
}

/* Products of one sample, forward and backward, of the undivided model. */
static enum pz_status count_flop(const char *model, struct pz_workload_options wo, double *flop,
                                 struct pz_error *err) {
  struct pz_workload *w = NULL;
  wo.tp = 1;
  enum pz_status status = pz_workload_load(model, &wo, &w, err);
  if (status != PZ_OK) return status;
  *flop = (double)(w->totals.matmul_forward_flop + w->totals.matmul_backward_flop) /
          (double)w->options.mbs;
  pz_workload_free(w);
  return PZ_OK;
}

enum pz_status pz_place_model(struct pz_cost *cost, const char *model,
                              const struct pz_workload_options *workload,
                              const struct pz_place_options *o, bool recompute,
                              struct pz_arena *arena, struct pz_place_model *out,
                              struct pz_error *err) {
  struct maker m = {.cost = cost, .o = o, .arena = arena, .out = out, .err = err};
  *out = (struct pz_place_model){.p = {.hbm_bytes = o->hbm_bytes,
                                       .bytes_per_s = cost->chip.link_bytes_per_s,
                                       .devices = o->devices,
                                       .state = o->state,
                                       .recompute = recompute}};
  struct pz_place_width *width = pz_arena_alloc(arena, 1, sizeof *width);
  if (!width) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the placement");
  out->p.widths = width;
  out->p.n_widths = 1;
  enum pz_status status = count_flop(model, *workload, &out->sample_flop, err);
  if (status == PZ_OK) status = set_width(&m, model, *workload, width);
  out->p.microbatches = out->mbs ? (o->batch + out->mbs - 1) / out->mbs : 0;
  return status;
}
