/* Assembling a workload: layers, their order, and totals.
 *
 * pz_assemble() runs, for each layer of a list, the builder and the passes over its graph (build_layer): backward,
 * fusion, memory, accounting.  The order of the layers is described by units that repeat (pz_describe_order), and the
 * totals of the model are summed up with overflow checks (sum_totals). */
#include "workload/assemble.h"

#include <string.h>

#include "core/num.h"
#include "workload/passes.h"

/* The arena holds the struct that it is a member of. */
void pz_workload_free(struct pz_workload *w) {
  if (!w) return;
  struct pz_arena arena = ((struct pz_owned *)w)->arena;
  pz_arena_release(&arena);
}

static void free_owned(void *owned) { pz_workload_free(&((struct pz_owned *)owned)->w); }

struct pz_owned *pz_owned_new(struct pz_call *call, struct pz_call *own) {
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  struct pz_owned *o = pz_arena_alloc(&arena, 1, sizeof *o);
  if (!o) pz_raise(call, PZ_NO_MEMORY, "out of memory for a model");
  o->arena = arena;
  pz_defer(call, free_owned, o);
  *own = pz_call_in(call, &o->arena);
  return o;
}

void pz_build_must(struct pz_call *call, const char *model, enum pz_status status) {
  if (status == PZ_OK) return;
  if (status == PZ_LIMIT)
    pz_raise(call, status,
             "%s: a size at this sequence length and microbatch exceeds the limits "
             "(2^50 bytes per tensor, 2^63 FLOP in total)",
             model);
  pz_raise(call, status, "%s: %s", model,
           status == PZ_NO_MEMORY ? "out of memory" : "internal error");
}

/* ---- layers --------------------------------------------------------------------------------- */

/* Full recomputation: backward begins with the forward operators, and only the input is saved. */
static void recompute_layer(struct pz_call *own, struct pz_graph *g, struct pz_layer *layer) {
  struct pz_vec ops;
  pz_vec_init(&ops, own->arena, sizeof(struct pz_op));
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
    for (uint32_t i = 0; i < g->ops[d].n; i++) pz_append(own, &ops, pz_graph_op(g, d, i));
  g->ops[PZ_BACKWARD] = ops;
  layer->saved = pz_copy(own, &g->input, 1, sizeof g->input);
  layer->n_saved = 1;
  layer->activation_bytes = pz_tensor_bytes(pz_graph_tensor(g, g->input));
}

/* Copies what a graph and its builder say of a layer. */
static void copy_sizes(const struct pz_builder *b, const struct pz_graph *g,
                       struct pz_layer *layer) {
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

static void build_layer(struct pz_call *own, struct pz_owned *o, const struct pz_layer_plan *plan,
                        struct pz_layer *layer) {
  const struct pz_workload_options *options = &o->w.options;
  const char *model = o->w.model;
  struct pz_graph g;
  struct pz_builder b;
  pz_graph_init(&g, own->arena);
  pz_builder_init(&b, &g, options);
  plan->build(&b, plan->ctx);
  pz_build_must(own, model, b.status);
  pz_build_must(own, model, pz_backward_derive(&g, options));
  if (!pz_kernels_eager(options->kernels)) pz_build_must(own, model, pz_fuse(&g, options->kernels));
  pz_build_must(own, model, pz_memory_layer(&g, options, layer));
  if (plan->repeated && options->recompute == PZ_RECOMPUTE_FULL) recompute_layer(own, &g, layer);
  pz_build_must(own, model, pz_graph_account(&g));
  layer->name = plan->name;
  layer->count = plan->count;
  layer->buffer_bytes = plan->buffer_bytes;
  copy_sizes(&b, &g, layer);
  o->adaptable |= b.adapting.found;
}

/* ---- order of the layers -------------------------------------------------------------------- */

/* The longest unit that is looked for, twice the longest one of known models. */
enum { LONGEST_UNIT = 16 };

/* Counts how often the first `unit` of n layers repeat without a gap. */
static uint32_t count_repeats(const uint32_t *layer, uint32_t n, uint32_t unit) {
  uint32_t count = 1;
  while ((count + 1) * unit <= n && memcmp(layer, layer + count * unit, unit * sizeof *layer) == 0)
    count++;
  return count;
}

/* Appends a unit that repeats.  The vector allocates where the call does. */
static void append_unit(struct pz_call *call, struct pz_vec *units, const uint32_t *layer,
                        uint32_t n, int64_t repeats) {
  struct pz_segment unit = {pz_copy(call, layer, n, sizeof *layer), n, repeats};
  pz_append(call, units, &unit);
}

/* At each position, the unit is chosen that covers most of the rest by repetition, and the shortest of these. */
void pz_describe_order(struct pz_call *call, struct pz_workload *w, const uint32_t *layer,
                       uint32_t n) {
  struct pz_vec units;
  pz_vec_init(&units, call->arena, sizeof(struct pz_segment));
  uint32_t at = 0;
  while (at < n) {
    const uint32_t *rest = layer + at;
    uint32_t n_rest = n - at, unit = 1, repeats = count_repeats(rest, n_rest, 1);
    for (uint32_t longer = 2; longer <= LONGEST_UNIT && 2 * longer <= n_rest; longer++) {
      uint32_t count = count_repeats(rest, n_rest, longer);
      if (count < 2 || count * longer <= repeats * unit) continue;
      unit = longer;
      repeats = count;
    }
    append_unit(call, &units, rest, unit, repeats);
    at += unit * repeats;
  }
  w->order = units.items;
  w->n_order = units.n;
}

/* The default order: each layer `count` times, one after the other. */
static void describe_listed_order(struct pz_call *own, struct pz_workload *w) {
  struct pz_vec units;
  pz_vec_init(&units, own->arena, sizeof(struct pz_segment));
  for (uint32_t i = 0; i < w->n_layers; i++) append_unit(own, &units, &i, 1, w->layers[i].count);
  w->order = units.items;
  w->n_order = units.n;
}

/* ---- totals --------------------------------------------------------------------------------- */

/* *total += value * count.  Returns false if it overflows. */
static bool add_times(int64_t *total, int64_t value, int64_t count) {
  return pz_mul(&value, count) && pz_add(total, value);
}

static bool add_operators(struct pz_totals *t, const struct pz_layer *l, enum pz_direction d) {
  int64_t *flop = d == PZ_FORWARD ? &t->forward_flop : &t->backward_flop;
  int64_t *matmul_flop = d == PZ_FORWARD ? &t->matmul_forward_flop : &t->matmul_backward_flop;
  for (uint32_t i = 0; i < l->ops[d].n; i++) {
    const struct pz_op *op = &l->ops[d].op[i];
    if (!add_times(flop, op->flop, l->count)) return false;
    if (!add_times(matmul_flop, op->matmul_flop, l->count)) return false;
  }
  return add_times(&t->ops, l->ops[d].n, l->count);
}

/* The parameters that a token uses: of the routed experts, those that it is sent to. */
static int64_t active_params(const struct pz_workload *w, const struct pz_layer *l) {
  int64_t routed = l->model_expert_params;
  if (!routed || !w->experts) return l->model_params;
  return l->model_params - routed + routed / w->experts * w->experts_per_token;
}

static void sum_totals(struct pz_call *own, struct pz_workload *w) {
  struct pz_totals *t = &w->totals;
  bool fits = true;
  for (uint32_t i = 0; i < w->n_layers && fits; i++) {
    const struct pz_layer *l = &w->layers[i];
    fits = add_times(&t->params, l->params, l->count) &&
           add_times(&t->model_params, l->model_params, l->count) &&
           add_times(&t->model_trained_params, l->model_trained_params, l->count) &&
           add_times(&t->split_params, l->split_params, l->count) &&
           add_times(&t->expert_params, l->expert_params, l->count) &&
           add_times(&t->active_params, active_params(w, l), l->count) &&
           add_times(&t->activation_bytes, l->activation_bytes, l->count) &&
           pz_add(&t->activation_bytes, l->shared_bytes) && add_operators(t, l, PZ_FORWARD) &&
           add_operators(t, l, PZ_BACKWARD);
    t->layers += l->count;
  }
  if (!fits || !add_times(&t->param_bytes, t->params, PZ_B16))
    pz_build_must(own, w->model, PZ_LIMIT);
  pz_build_must(own, w->model, pz_memory_peak(w, &t->peak_bytes));
}

void pz_assemble(struct pz_call *own, struct pz_owned *o, const struct pz_layer_plan *plan,
                 uint32_t n) {
  struct pz_layer *layers = pz_alloc(own, n, sizeof *layers);
  for (uint32_t i = 0; i < n; i++) {
    build_layer(own, o, &plan[i], &layers[i]);
    const uint32_t before = i - 1, *from = plan[i].from ? plan[i].from : &before;
    uint32_t n_from = i > 0;
    if (plan[i].from) n_from = plan[i].n_from;
    layers[i].n_from = n_from;
    layers[i].from = pz_copy(own, from, n_from, sizeof *from);
  }
  o->w.layers = layers;
  o->w.n_layers = n;
  if (!o->w.order) describe_listed_order(own, &o->w);
  sum_totals(own, &o->w);
}

/* ---- for callers that return a status ------------------------------------------------------- */

struct order_arguments {
  struct pz_workload *w;
  const uint32_t *layer;
  uint32_t n;
  struct pz_arena *arena;
};

static void set_order(struct pz_call *call, void *ctx) {
  const struct order_arguments *x = ctx;
  struct pz_call own = pz_call_in(call, x->arena);
  pz_describe_order(&own, x->w, x->layer, x->n);
}

enum pz_status pz_order_set(struct pz_workload *w, const uint32_t *layer, uint32_t n,
                            struct pz_arena *arena) {
  struct order_arguments x = {w, layer, n, arena};
  return pz_border(set_order, &x, NULL);
}
