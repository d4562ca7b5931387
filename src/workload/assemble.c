#include "workload/assemble.h"

#include <string.h>

#include "core/num.h"
#include "workload/passes.h"

struct pz_owned *pz_owned_new(const struct pz_mem *mem) {
  struct pz_arena arena;
  pz_arena_init(&arena, mem);
  struct pz_owned *o = pz_arena_alloc(&arena, 1, sizeof *o);
  if (o) o->arena = arena;
  return o;
}

void pz_workload_free(struct pz_workload *w) {
  if (!w) return;
  struct pz_owned *o = (struct pz_owned *)w;
  struct pz_arena arena = o->arena; /* the arena holds `o` itself */
  pz_arena_release(&arena);
}

/* ---- layers --------------------------------------------------------------------------------- */

/* Full recomputation: backward begins with the forward again, and only the input is kept. */
static enum pz_status recompute(struct pz_graph *g, struct pz_layer *layer) {
  struct pz_vec ops;
  pz_vec_init(&ops, g->arena, sizeof(struct pz_op));
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
    for (uint32_t i = 0; i < g->ops[d].n; i++)
      if (!pz_vec_push(&ops, pz_graph_op(g, d, i))) return PZ_NO_MEMORY;
  g->ops[PZ_BACKWARD] = ops;
  uint32_t *saved = pz_arena_alloc(g->arena, 1, sizeof *saved);
  if (!saved) return PZ_NO_MEMORY;
  *saved = g->input;
  layer->saved = saved;
  layer->n_saved = 1;
  layer->activation_bytes = pz_tensor_bytes(pz_graph_tensor(g, g->input));
  return PZ_OK;
}

static void describe(const struct pz_builder *b, const struct pz_graph *g, struct pz_layer *layer) {
  layer->tensors = g->tensors.items;
  layer->n_tensors = g->tensors.n;
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
    layer->ops[d] = (struct pz_ops){g->ops[d].items, g->ops[d].n};
  layer->input = g->input;
  layer->output = g->output;
  layer->output_grad = g->output_grad;
  layer->params = b->params;
  layer->split_params = b->split_params;
  layer->tied_params = b->repeats ? 0 : b->tied_params;
  layer->model_params = b->model_params;
  layer->group_grad_params = b->repeats ? 0 : b->group_grad_params;
  layer->expert_params = b->expert_params;
  layer->model_expert_params = b->model_expert_params;
  layer->trained_params = b->trained_params;
  layer->trained_expert_params = b->trained_expert_params;
  layer->model_trained_params =
      b->options->lora.rank > 0 ? b->model_trained_params : b->model_params;
}

static enum pz_status build_layer(struct pz_owned *o, const struct pz_layer_plan *plan,
                                  struct pz_layer *layer) {
  const struct pz_workload_options *opt = &o->w.options;
  struct pz_graph g;
  struct pz_builder b;
  pz_graph_init(&g, &o->arena);
  pz_builder_init(&b, &g, opt);
  plan->build(&b, plan->ctx);
  enum pz_status status = b.status;
  if (status == PZ_OK) status = pz_backward_derive(&g, opt);
  if (status == PZ_OK && !pz_kernels_eager(opt->kernels)) status = pz_fuse(&g, opt->kernels);
  if (status == PZ_OK) status = pz_memory_layer(&g, opt, layer);
  if (status == PZ_OK && plan->repeated && opt->recompute == PZ_RECOMPUTE_FULL)
    status = recompute(&g, layer);
  if (status == PZ_OK) status = pz_graph_account(&g);
  layer->name = plan->name;
  layer->count = plan->count;
  layer->buffer_bytes = plan->buffer_bytes;
  describe(&b, &g, layer);
  o->adaptable |= b.adapting.found;
  return status;
}

/* ---- order -------------------------------------------------------------------------------------- */

/* The longest unit that is looked for: twice the longest that models have. */
enum { LONGEST_UNIT = 16 };

/* How often the first `unit` of n layers stand one after the other. */
static uint32_t repeats_of(const uint32_t *layer, uint32_t n, uint32_t unit) {
  uint32_t r = 1;
  while ((r + 1) * unit <= n && memcmp(layer, layer + r * unit, unit * sizeof *layer) == 0) r++;
  return r;
}

/* The unit at the front that covers most of the rest by repetition; of equals the shortest. */
static uint32_t best_unit(const uint32_t *layer, uint32_t n) {
  uint32_t best = 1, most = repeats_of(layer, n, 1);
  for (uint32_t u = 2; u <= LONGEST_UNIT && 2 * u <= n; u++) {
    uint32_t r = repeats_of(layer, n, u);
    if (r < 2 || r * u <= most) continue;
    best = u;
    most = r * u;
  }
  return best;
}

static bool add_segment(struct pz_vec *list, const uint32_t *unit, uint32_t n, int64_t repeats) {
  uint32_t *copy = pz_arena_alloc(list->arena, n, sizeof *copy);
  if (!copy) return false;
  memcpy(copy, unit, n * sizeof *copy);
  return pz_vec_push(list, &(struct pz_segment){copy, n, repeats}) != NULL;
}

enum pz_status pz_order_set(struct pz_workload *w, const uint32_t *layer, uint32_t n,
                            struct pz_arena *arena) {
  struct pz_vec list;
  pz_vec_init(&list, arena, sizeof(struct pz_segment));
  for (uint32_t i = 0; i < n;) {
    uint32_t unit = best_unit(layer + i, n - i), r = repeats_of(layer + i, n - i, unit);
    if (!add_segment(&list, layer + i, unit, r)) return PZ_NO_MEMORY;
    i += unit * r;
  }
  w->order = list.items;
  w->n_order = list.n;
  return PZ_OK;
}

/* Every layer `count` times, one kind after the other. */
static enum pz_status order_grouped(struct pz_workload *w, struct pz_arena *arena) {
  struct pz_vec list;
  pz_vec_init(&list, arena, sizeof(struct pz_segment));
  for (uint32_t i = 0; i < w->n_layers; i++)
    if (!add_segment(&list, &i, 1, w->layers[i].count)) return PZ_NO_MEMORY;
  w->order = list.items;
  w->n_order = list.n;
  return PZ_OK;
}

/* ---- totals --------------------------------------------------------------------------------- */

static bool add_times(int64_t *acc, int64_t v, int64_t count) {
  return pz_mul(&v, count) && pz_add(acc, v);
}

static bool add_ops(struct pz_totals *t, const struct pz_layer *l, enum pz_direction d) {
  int64_t *flop = d == PZ_FORWARD ? &t->forward_flop : &t->backward_flop;
  int64_t *matmul = d == PZ_FORWARD ? &t->matmul_forward_flop : &t->matmul_backward_flop;
  for (uint32_t i = 0; i < l->ops[d].n; i++)
    if (!add_times(flop, l->ops[d].op[i].flop, l->count) ||
        !add_times(matmul, l->ops[d].op[i].matmul_flop, l->count))
      return false;
  return add_times(&t->ops, l->ops[d].n, l->count);
}

/* Parameters that a token meets: of the routed experts those that it is sent to. */
static int64_t active_params(const struct pz_workload *w, const struct pz_layer *l) {
  int64_t all = l->model_expert_params;
  if (!all || !w->experts) return l->model_params;
  return l->model_params - all + all / w->experts * w->experts_per_token;
}

static enum pz_status sum_up(struct pz_workload *w) {
  struct pz_totals *t = &w->totals;
  for (uint32_t i = 0; i < w->n_layers; i++) {
    const struct pz_layer *l = &w->layers[i];
    bool ok = add_times(&t->params, l->params, l->count) &&
              add_times(&t->model_params, l->model_params, l->count) &&
              add_times(&t->model_trained_params, l->model_trained_params, l->count) &&
              add_times(&t->split_params, l->split_params, l->count) &&
              add_times(&t->expert_params, l->expert_params, l->count) &&
              add_times(&t->active_params, active_params(w, l), l->count) &&
              add_times(&t->activation_bytes, l->activation_bytes, l->count) &&
              pz_add(&t->activation_bytes, l->shared_bytes) && add_ops(t, l, PZ_FORWARD) &&
              add_ops(t, l, PZ_BACKWARD);
    if (!ok) return PZ_LIMIT;
    t->layers += l->count;
  }
  return add_times(&t->param_bytes, t->params, 2) ? pz_memory_peak(w, &t->peak_bytes) : PZ_LIMIT;
}

/* Which layers each one reads. */
static enum pz_status connect(struct pz_owned *o, const struct pz_layer_plan *plan, uint32_t i,
                              struct pz_layer *layer) {
  layer->n_from = plan->from ? plan->n_from : i > 0;
  uint32_t *from = pz_arena_alloc(&o->arena, layer->n_from, sizeof *from);
  if (!from) return PZ_NO_MEMORY;
  for (uint32_t k = 0; k < layer->n_from; k++) from[k] = plan->from ? plan->from[k] : i - 1;
  layer->from = from;
  return PZ_OK;
}

enum pz_status pz_assemble(struct pz_owned *o, const struct pz_layer_plan *plan, uint32_t n) {
  struct pz_layer *layers = pz_arena_alloc(&o->arena, n, sizeof *layers);
  enum pz_status status = layers ? PZ_OK : PZ_NO_MEMORY;
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    status = build_layer(o, &plan[i], &layers[i]);
    if (status == PZ_OK) status = connect(o, &plan[i], i, &layers[i]);
  }
  o->w.layers = layers;
  o->w.n_layers = n;
  if (status == PZ_OK && !o->w.order) status = order_grouped(&o->w, &o->arena);
  return status == PZ_OK ? sum_up(&o->w) : status;
}

enum pz_status pz_assemble_fail(const char *name, enum pz_status status, struct pz_error *err) {
  if (status == PZ_LIMIT)
    return pz_fail(err, status,
                   "%s: a size at this sequence length and microbatch exceeds the limits "
                   "(2^50 bytes per tensor, 2^63 FLOP in total)",
                   name);
  return pz_fail(err, status, "%s: %s", name,
                 status == PZ_NO_MEMORY ? "out of memory" : "internal error");
}
