/* What a plan takes: the pipeline of its stages, exchange of gradients, optimizer, memory. */
#include <math.h>

#include "chip/chip.h"
#include "core/num.h"
#include "cost/beside.h"
#include "cost/constants.h"
#include "plan/model_shape.h"
#include "plan/pipeline_order.h"
#include "step/pass_schedule.h"
#include "step/step_energy.h"
#include "step/step_model.h"
#include "step/step_rates.h"

/* A plan being priced. */
struct pricing {
  struct pz_step_model *m;
  const struct pz_plan *plan;
  int64_t microbatches; /* microbatches of a replica */
  struct pz_pipeline_shape shape;
  struct pz_plan_layers layers;
  struct pz_wire_time send;     /* a transfer between stages */
  bool hides_send;              /* beside a chunk's pass */
  struct pz_step_params params; /* of the stage with most */
  double host_bytes_per_s;      /* of a device, each way */
  /* of the link by which a device reaches its host, and the interfaces between nodes: how much of the time in which
   * activations come or go, or in which an interface is busy, it is busy itself */
  double away_part, outer_part;
};

/* ---- stages --------------------------------------------------------------------------------- */

/* Of all layers of a chunk, those of one kind; of these, those recomputed. */
static int64_t chunk_kind(const struct pricing *x, int64_t chunk, uint32_t kind,
                          int64_t *recomputed) {
  const struct pz_plan *p = x->plan;
  const struct pz_layer_kinds *k = &x->m->kinds;
  int64_t n = pz_layers_at(&x->layers, chunk);
  int64_t a = 0;
  if (p->recompute != PZ_RECOMPUTATION_NONE)
    a = pz_plan_recomputed_layers(p, pz_pipeline_stage_of(&x->shape, (uint32_t)chunk), n);
  if (k->n == 1) return *recomputed = a, n;
  int64_t start = pz_layers_before(&x->layers, chunk);
  *recomputed = pz_kind_count(k, kind, start, a);
  return pz_kind_count(k, kind, start, n);
}

int64_t pz_step_recomputed(struct pz_step_model *m, const struct pz_plan *plan, uint32_t kind) {
  struct pricing x = {.m = m,
                      .plan = plan,
                      .shape = pz_plan_pipeline_shape(plan),
                      .layers = pz_plan_layers(plan, m->n_blocks)};
  int64_t sum = 0, recomputed;
  for (int64_t chunk = 0; chunk < plan->pp * plan->vpp; chunk++) {
    (void)chunk_kind(&x, chunk, kind, &recomputed);
    sum += recomputed;
  }
  return sum;
}

/* The chunk that a stage holds in one of its slots. */
static int64_t chunk_at(const struct pricing *x, int64_t stage, uint32_t slot) {
  return pz_pipeline_chunk_at(&x->shape, (uint32_t)stage, slot);
}

static int64_t last_chunk(const struct pricing *x) { return x->plan->pp * x->plan->vpp - 1; }

/* ---- windows: compute that collectives may run beside ---------------------------------------- */

/* Passes of layers: their seconds, those of kernels in them, alone and beside collectives, and of busy links; of activations
 * on their way to the host or back, and for which the passes wait for these. */
struct window {
  double s, kernels_s, slowed_s, busy_s[PZ_WIRES], away_s, waits_s;
};

static void add_window(struct window *to, const struct pz_pass *p, double s, double times) {
  to->s += times * s;
  to->kernels_s += times * pz_kernels_s(p);
  to->slowed_s += times * p->slowed_s;
  for (int i = 0; i < PZ_WIRES; i++) to->busy_s[i] += times * p->busy_s[i];
}

/* Activations go to the host and come back beside the pass, at the link's rate and at no other cost (ref/h200/overlap.csv).
 * Behind a PCIe switch with its interface (DGX H100 user guide, network modules) a device has one link for both: what
 * leaves the node takes of it. */
static double host_link_s(const struct pricing *x, double away_s, double outer_s) {
  return away_s > 0 ? pz_fmax(away_s, x->away_part * away_s + x->outer_part * outer_s) : 0;
}

/* What a collective adds to a window: it slows the kernels in it, waits for links that others keep busy, and may be longer
 * than all of it.  While the window's own collectives run, or the host launches, nothing is slowed. */
static double exposed_s(const struct pricing *x, const struct window *w,
                        const struct pz_wire_time *t) {
  double slowdown = w->kernels_s > 0 ? pz_fmax(1, w->slowed_s / w->kernels_s) : 1;
  double kernels = w->s > 0 ? pz_fmin(1, w->kernels_s / w->s) : 0;
  double s = pz_beside_exposed_s(t->s, w->s, 1 / (1 - kernels * (1 - 1 / slowdown)));
  for (int i = 0; i < PZ_WIRES; i++) s = pz_fmax(s, t->busy_s[i] + w->busy_s[i] - w->s);
  double outer_s = t->busy_s[PZ_WIRE_OUTER] + w->busy_s[PZ_WIRE_OUTER];
  s = pz_fmax(s, host_link_s(x, w->away_s, outer_s) - w->s - w->waits_s);
  return pz_fmax(0, s);
}

/* A chunk's passes for one microbatch. */
struct chunk_windows {
  struct window forward, backward;
};

static void add_layers(struct chunk_windows *c, const struct pz_layer_step *t, double forward,
                       double backward) {
  add_window(&c->forward, &t->forward, t->forward_s, forward);
  add_window(&c->backward, &t->backward, t->backward_s, backward);
}

/* What is left at the end of a pass shows. */
static void wait_for_host(const struct pricing *x, double away_s, struct window *w) {
  w->away_s = away_s;
  w->waits_s = pz_fmax(0, host_link_s(x, away_s, w->busy_s[PZ_WIRE_OUTER]) - w->s);
}

static struct chunk_windows chunk_windows(const struct pricing *x, int64_t chunk) {
  const struct pz_model_steps *t = x->m->steps;
  struct chunk_windows c = {{.s = 0}, {.s = 0}};
  for (uint32_t k = 0; k < x->m->kinds.n; k++) {
    int64_t recomputed, n = chunk_kind(x, chunk, k, &recomputed);
    add_layers(&c, &t->block[k], (double)n, (double)(n - recomputed));
    if (recomputed) add_layers(&c, &t->again[k], 0, (double)recomputed);
  }
  if (chunk == 0) add_layers(&c, &t->before, 1, 1);
  if (chunk == last_chunk(x)) add_layers(&c, &t->after, 1, 1);
  if (x->plan->offload & PZ_OFFLOAD_ACTIVATIONS) {
    double away_s = pz_away_bytes(&x->m->memory, x->plan, chunk) / x->host_bytes_per_s;
    wait_for_host(x, away_s, &c.forward);
    wait_for_host(x, away_s, &c.backward);
  }
  return c;
}

/* ---- transfers between stages ---------------------------------------------------------------- */

static void find_send(struct pricing *x) {
  const struct pz_plan *p = x->plan;
  if (p->pp == 1) return;
  double bytes =
      (double)x->m->w->layers[x->m->kinds.layer[0]].output_bytes / (double)(p->sp ? 1 : p->tp);
  x->send = pz_network_time(x->m->k, &x->m->cost.net, PZ_COLLECTIVE_SEND, bytes,
                            (struct pz_group){2, p->tp * pz_plan_replicas(p)});
  /* gradients of weights fill the wait for a transfer */
  x->hides_send = (p->overlap & PZ_OVERLAP_P2P) ||
                  pz_pipeline_splits_backward((enum pz_pipeline_order)p->pipeline);
}

/* A stage sends and receives on its own stream: both ways take its time.  Beside a pass, or the host and the device wait
 * for each other. */
static double send_s(const struct pricing *x, const struct window *pass) {
  if (x->plan->pp == 1) return 0;
  double wait_s = x->m->cost.net.instant ? 0 : x->m->k->synchronise_s;
  return x->hides_send ? exposed_s(x, pass, &x->send) : x->send.s + wait_s;
}

/* ---- stages in time -------------------------------------------------------------------------- */

/* Forward, backward and of these weight gradients of a chunk. */
static void chunk_time(const struct pricing *x, int64_t chunk, double *f, double *b, double *w) {
  const struct pz_model_steps *t = x->m->steps;
  struct chunk_windows c = chunk_windows(x, chunk);
  *f = c.forward.s + send_s(x, &c.forward) + c.forward.waits_s;
  *b = c.backward.s + send_s(x, &c.backward) + c.backward.waits_s;
  *w = chunk == last_chunk(x) ? t->after.backward.weight_s : 0;
  for (uint32_t k = 0; k < x->m->kinds.n; k++) {
    int64_t recomputed;
    *w += (double)chunk_kind(x, chunk, k, &recomputed) * t->block[k].backward.weight_s;
  }
}

/* Are two chunks without an end of the model alike? */
static bool same_chunk(const struct pricing *x, int64_t a, int64_t b) {
  int64_t recomputed_a, recomputed_b;
  return x->m->kinds.n == 1 && a > 0 && b < last_chunk(x) &&
         chunk_kind(x, a, 0, &recomputed_a) == chunk_kind(x, b, 0, &recomputed_b) &&
         recomputed_a == recomputed_b;
}

static void chunk_times(const struct pricing *x, double *f, double *b, double *w) {
  for (int64_t j = 0; j <= last_chunk(x); j++)
    if (j && same_chunk(x, j - 1, j))
      f[j] = f[j - 1], b[j] = b[j - 1], w[j] = w[j - 1];
    else
      chunk_time(x, j, &f[j], &b[j], &w[j]);
}

static struct pz_pipeline pipeline_of(const struct pricing *x, const double *f, const double *b,
                                      const double *w) {
  const struct pz_plan *p = x->plan;
  return (struct pz_pipeline){.stages = (uint32_t)p->pp,
                              .chunks = (uint32_t)p->vpp,
                              .microbatches = (uint32_t)x->microbatches,
                              .order = x->shape.order,
                              .forward_s = f,
                              .backward_s = b,
                              .weight_s = w};
}

static void simulate(struct pz_call *call, const struct pricing *x, struct pz_prediction *out,
                     struct pz_prediction_detail *detail) {
  size_t n = (size_t)(x->plan->pp * x->plan->vpp);
  struct pz_call work = pz_step_model_work(call, x->m);
  double *f = pz_alloc(&work, n, sizeof *f), *b = pz_alloc(&work, n, sizeof *b),
         *w = pz_alloc(&work, n, sizeof *w);
  bool keep = detail && !detail->no_events;
  chunk_times(x, f, b, w);
  struct pz_pipeline p = pipeline_of(x, f, b, w);
  struct pz_pipeline_run run = pz_pipeline_simulate(&work, &p, keep ? call : NULL);
  if (keep) detail->run = run;
  out->bound_s = pz_pipeline_bound_s(&p);
  out->step_s = run.end_s;
}

/* ---- gradients and optimizer ---------------------------------------------------------------- */

/* Parameters of a stage, of a device; a head that is the embedding has a copy in the last stage. */
static struct pz_step_params params_of(const struct pricing *x, int64_t stage) {
  const struct pz_step_model *m = x->m;
  struct pz_step_params n = {.dense = 0};
  for (uint32_t c = 0; c < pz_pipeline_slots(&x->shape); c++) {
    int64_t chunk = chunk_at(x, stage, c);
    for (uint32_t k = 0; k < m->kinds.n; k++) {
      int64_t recomputed, blocks = chunk_kind(x, chunk, k, &recomputed);
      pz_step_params_add(&n, &m->block_params[k], (double)blocks);
    }
    if (chunk == 0) pz_step_params_add(&n, &m->before_params, 1);
    if (chunk == last_chunk(x)) pz_step_params_add(&n, &m->after_params, 1);
    if (chunk == last_chunk(x) && pz_pipeline_separates_ends(&x->shape)) {
      n.dense += m->tied_params;
      n.trained += m->tied_params;
    }
  }
  return n;
}

/* Of the stage with most. */
static struct pz_step_params stage_params(const struct pricing *x) {
  struct pz_step_params most = {.dense = 0};
  for (int64_t k = 0; k < x->plan->pp; k++) {
    struct pz_step_params n = params_of(x, k);
    if (n.dense + n.expert > most.dense + most.expert) most = n;
  }
  return most;
}

/* Both copies of a tied matrix get the sum of their gradients. */
static double tied_s(const struct pricing *x) {
  const struct pz_plan *p = x->plan;
  if (!pz_pipeline_separates_ends(&x->shape) || !(x->m->tied_params > 0)) return 0;
  struct pz_group ends = {2, p->tp * pz_plan_replicas(p) * (p->pp - 1)};
  return pz_network_s(x->m->k, &x->m->cost.net, PZ_COLLECTIVE_ALL_REDUCE,
                      x->m->tied_params * p->grad_bytes, ends);
}

/* Parameters that a group of devices has alike. */
struct holders {
  double params, trained;
  int64_t replicas, shards, stride;
};

/* What replicas exchange in a microbatch: in its forward pass, in its backward pass, with the last one besides. */
struct traffic {
  struct pz_wire_time gather, regather, scatter, last;
};

/* So many collectives over `bytes` of every member of the group. */
static struct pz_wire_time passes_of(const struct pricing *x, const struct holders *h,
                                     enum pz_collective kind, double bytes, double n) {
  const struct pz_cluster *net = &x->m->cost.net;
  double times = 1;
  struct pz_wire_time one, all = {.s = 0};
  if (pz_plan_framework(x->plan)->node_gather && net->n_levels > 1 &&
      h->shards * h->stride > net->level[0].devices)
    times = (double)pz_max(1, net->level[0].devices / h->stride);
  one = pz_network_time(x->m->k, net, kind, times * bytes / n,
                        (struct pz_group){h->shards, h->stride});
  pz_wire_add(&all, &one, n);
  return all;
}

/* Collectives of one exchange: one for every layer, or one for every bucket of parameters. */
static double collectives_of(const struct pricing *x, const struct holders *h) {
  const struct pz_constants *k = x->m->k;
  if (pz_plan_gathers_per_layer(x->plan)) return (double)(x->m->n_blocks + x->m->w->n_layers - 1);
  return ceil(h->trained / pz_fmax(k->bucket_params, k->replica_params * (double)h->replicas));
}

static void add_traffic(const struct pricing *x, const struct holders *h, struct traffic *t) {
  static const double WEIGHT_BYTES = 2;
  const struct pz_plan *p = x->plan;
  if (h->replicas <= 1 || !(h->params > 0)) return;
  double n = collectives_of(x, h), gathered = p->zero > 2 ? h->params : h->trained;
  enum pz_collective reduce = p->zero ? PZ_COLLECTIVE_REDUCE_SCATTER : PZ_COLLECTIVE_ALL_REDUCE;
  struct pz_wire_time gather =
                          passes_of(x, h, PZ_COLLECTIVE_ALL_GATHER, gathered * WEIGHT_BYTES, n),
                      scatter = passes_of(x, h, reduce, h->trained * p->grad_bytes, n);
  if (pz_plan_gathers_per_layer(p)) pz_wire_add(&t->regather, &gather, 1);
  if (p->zero) pz_wire_add(&t->gather, &gather, 1);
  pz_wire_add(&t->scatter, &scatter, 1);
  /* all-reduce of the shards between groups that each hold a whole copy (hybrid sharding) */
  struct pz_group copies = {h->replicas / h->shards, h->stride * h->shards};
  if (copies.devices <= 1) return;
  double bytes = h->trained / (double)h->shards * p->grad_bytes;
  struct pz_wire_time reduced =
      pz_network_time(x->m->k, &x->m->cost.net, PZ_COLLECTIVE_ALL_REDUCE, bytes / n, copies);
  pz_wire_add(&t->last, &reduced, n);
}

/* Who holds the dense parameters of the largest stage, or its experts, which lie on a grid of their own; with two copies of
 * every stage twice as many devices. */
static struct holders holders_of(const struct pricing *x, bool experts) {
  const struct pz_plan *p = x->plan;
  int64_t copies = pz_pipeline_copies(x->shape.order),
          sharing = pz_plan_is_hybrid_sharded(p) ? 1 : copies;
  if (experts)
    return (struct holders){x->params.expert, x->params.trained_expert,
                            pz_plan_expert_replicas(p) * copies, pz_plan_expert_shards(p) * sharing,
                            pz_plan_ep(p) * pz_plan_etp(p)};
  return (struct holders){x->params.dense, x->params.trained, pz_plan_replicas(p) * copies,
                          pz_plan_shards(p) * sharing, p->tp};
}

/* The passes of a microbatch through the first stage, whose backward is the last of the pipeline. */
static struct chunk_windows stage_windows(const struct pricing *x) {
  struct chunk_windows all = {{.s = 0}, {.s = 0}};
  double part = 1.0 / (double)pz_pipeline_copies(x->shape.order);
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&x->shape); slot++) {
    struct chunk_windows c = chunk_windows(x, chunk_at(x, 0, slot));
    struct window *to[] = {&all.forward, &all.backward}, *from[] = {&c.forward, &c.backward};
    for (int d = 0; d < 2; d++) {
      to[d]->s += part * (from[d]->s + send_s(x, from[d]));
      to[d]->kernels_s += part * from[d]->kernels_s;
      to[d]->slowed_s += part * from[d]->slowed_s;
      to[d]->away_s += part * from[d]->away_s;
      to[d]->waits_s += part * from[d]->waits_s;
      for (int i = 0; i < PZ_WIRES; i++) to[d]->busy_s[i] += part * from[d]->busy_s[i];
      if (x->plan->pp > 1)
        for (int i = 0; i < PZ_WIRES; i++) to[d]->busy_s[i] += part * x->send.busy_s[i];
    }
  }
  return all;
}

/* Beside a window where the plan overlaps it, or alone. */
struct beside {
  struct pz_wire_time in;
  double alone_s;
};

/* Of collectives of every layer those of what lies before and behind the repeated layers have nothing beside them, and those
 * of the first or the last; in a compiled loop over layers those for the first of the four groups of GEMMs of each. */
static double alone_part(const struct pricing *x) {
  static const double GROUPS = 4;
  const struct pz_step_model *m = x->m;
  if (!pz_plan_gathers_per_layer(x->plan)) return 0;
  if (pz_framework_compiles(pz_plan_framework(x->plan))) return 1 / GROUPS;
  double all = x->params.dense + x->params.expert,
         ends = m->before_params.dense + m->after_params.dense,
         layer = m->block_params[0].dense + m->block_params[0].expert;
  return pz_fmin(1, (ends + layer) / all);
}

static void add_beside(const struct pricing *x, struct beside *b, const struct pz_wire_time *t,
                       bool overlaps) {
  double alone = overlaps ? alone_part(x) : 1;
  b->alone_s += alone * t->s;
  pz_wire_add(&b->in, t, 1 - alone);
}

static double both_s(const struct pricing *x, const struct window *w, const struct beside *b) {
  return b->alone_s + exposed_s(x, w, &b->in);
}

static struct window scaled_window(const struct window *w, double times) {
  struct window all = {times * w->s, times * w->kernels_s, times * w->slowed_s,
                       {0},          times * w->away_s,    times * w->waits_s};
  for (int i = 0; i < PZ_WIRES; i++) all.busy_s[i] = times * w->busy_s[i];
  return all;
}

/* The exchange once a step, beside a stage's passes of a microbatch.  Interleaved stages exchange chunk by chunk, each beside
 * the passes of a whole group of microbatches through the chunks between.  One chunk has less: weights of the first are
 * gathered beside its own pass, gradients of the last leave behind it (Megatron Core, schedules.py: param_sync_func,
 * grad_sync_func). */
static double once_s(const struct pricing *x, const struct window *w, const struct beside *b,
                     bool gradients) {
  double chunks = (double)x->plan->vpp;
  if (x->shape.order != PZ_PIPELINE_INTERLEAVED || chunks < 2 || pz_plan_gathers_per_layer(x->plan))
    return both_s(x, w, b);
  double group = (double)pz_min(x->plan->pp, x->microbatches), own = gradients ? 0 : 1;
  struct window pass = scaled_window(w, own / chunks),
                passes = scaled_window(w, ((chunks - 1) * group + own) / chunks);
  struct beside chunk = {.alone_s = b->alone_s / chunks};
  pz_wire_add(&chunk.in, &b->in, 1 / chunks);
  return pz_fmax(both_s(x, &pass, &chunk), both_s(x, &passes, b));
}

static double exchange_j(const struct pricing *x, const struct holders *h) {
  double others = 1 - 1 / (double)h->replicas;
  return h->trained * others * pz_exchange_bytes(x->plan) *
         pz_tech_at(x->m->cost.chip.tech)->link_j;
}

/* Links that are busy beside kernels take their watts, and these take so much longer. */
static double watts_s(const struct pricing *x, double hidden_s, double all_s) {
  struct pz_pass_power power = pz_pass_power_of(&x->m->cost.chip);
  struct holders dense = holders_of(x, false), expert = holders_of(x, true);
  if (!(power.room_watts > 0 && hidden_s > 0)) return 0;
  double s = (exchange_j(x, &dense) + exchange_j(x, &expert)) / power.room_watts;
  return hidden_s * pz_fmin(1, s / all_s);
}

static void exchange(const struct pricing *x, struct pz_prediction *out) {
  const struct pz_plan *p = x->plan;
  struct holders dense = holders_of(x, false), expert = holders_of(x, true);
  struct traffic t = {.gather = {.s = 0}};
  struct beside forward = {.alone_s = 0}, backward = {.alone_s = 0}, last;
  bool grad = p->overlap & PZ_OVERLAP_GRAD, param = p->overlap & PZ_OVERLAP_PARAM;
  double gathers = pz_plan_gathers_per_layer(p) ? (double)x->microbatches : 1;
  double scatters = pz_plan_scatters_per_microbatch(p) ? (double)x->microbatches : 1;
  add_traffic(x, &dense, &t);
  add_traffic(x, &expert, &t);
  out->parts.gradient_s = tied_s(x);
  if (!(t.scatter.s + t.last.s > 0)) return;
  struct chunk_windows w = stage_windows(x);
  add_beside(x, &forward, &t.gather, param);
  add_beside(x, &backward, &t.regather, param);
  add_beside(x, &backward, &t.scatter, grad);
  last = backward;
  /* a compiled loop over layers has all its gradients at its end */
  bool compiled = pz_framework_compiles(pz_plan_framework(p));
  if (compiled || !grad)
    last.alone_s += t.last.s;
  else
    pz_wire_add(&last.in, &t.last, 1);
  double exposed = (gathers > 1 ? gathers * both_s(x, &w.forward, &forward)
                                : once_s(x, &w.forward, &forward, false)) +
                   (scatters - 1) * both_s(x, &w.backward, &backward) +
                   once_s(x, &w.backward, &last, true);
  double all = gathers * (t.gather.s + t.regather.s) + scatters * t.scatter.s + t.last.s;
  out->gradient_hidden_s = pz_fmax(0, all - exposed); /* where nothing hides, of rounding */
  out->parts.gradient_s += exposed + watts_s(x, out->gradient_hidden_s, all);
}

/* Adam on the host: gradients go down and weights come back beside it, each way at the link's rate. */
static double host_update_s(const struct pricing *x, double params) {
  static const double DOWN_BYTES = 4;
  return params * pz_fmax(x->m->k->host_update_bytes / x->m->k->host_update_bytes_per_s,
                          DOWN_BYTES / x->host_bytes_per_s);
}

static void optimize(const struct pricing *x, struct pz_prediction *out) {
  const struct pz_plan *p = x->plan;
  struct holders dense = holders_of(x, false), expert = holders_of(x, true);
  double own = dense.trained / (double)(p->zero ? dense.shards : 1) +
               expert.trained / (double)(p->zero ? expert.shards : 1);
  double away = pz_plan_host_optimizer_fraction(p), here = own * (1 - away);
  struct pz_power update =
      pz_cost_optimizer_step(&x->m->cost, here * pz_plan_optimizer_bytes(p, x->m->memory.experts),
                             here, x->m->k->optimizer_efficiency);
  out->parts.optimizer_s = pz_corrected(x->m->cost.chip.correction.elementwise) * update.latency_s;
  if (away > 0)
    out->parts.optimizer_s = pz_fmax(out->parts.optimizer_s, host_update_s(x, own * away));
}

/* ---- the terms of a step -------------------------------------------------------------------- */

/* All that a stage does for a microbatch, of each of its copies. */
static struct pz_layer_step stage_step(const struct pricing *x, int64_t stage) {
  const struct pz_model_steps *t = x->m->steps;
  struct pz_layer_step sum = {.forward_s = 0};
  double part = 1.0 / (double)pz_pipeline_copies(x->shape.order); /* of the microbatches */
  for (uint32_t c = 0; c < pz_pipeline_slots(&x->shape); c++) {
    int64_t chunk = chunk_at(x, stage, c);
    for (uint32_t k = 0; k < x->m->kinds.n; k++) {
      int64_t recomputed, n = chunk_kind(x, chunk, k, &recomputed);
      pz_layer_step_add(&sum, &t->block[k], part * (double)(n - recomputed));
      pz_layer_step_add(&sum, &t->again[k], part * (double)recomputed);
    }
    if (chunk == 0) pz_layer_step_add(&sum, &t->before, part);
    if (chunk == last_chunk(x)) pz_layer_step_add(&sum, &t->after, part);
  }
  return sum;
}

static struct pz_layer_step slowest_stage(const struct pricing *x, int64_t *stage) {
  struct pz_layer_step most = {.forward_s = 0};
  *stage = 0;
  for (int64_t k = 0; k < x->plan->pp; k++) {
    struct pz_layer_step t = stage_step(x, k);
    if (t.forward_s + t.backward_s > most.forward_s + most.backward_s) most = t, *stage = k;
  }
  return most;
}

/* Transfers that show in a stage, of a microbatch. */
static double transfers_s(const struct pricing *x, int64_t stage) {
  double s = 0, part = 1.0 / (double)pz_pipeline_copies(x->shape.order);
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&x->shape) && x->plan->pp > 1; slot++) {
    struct chunk_windows c = chunk_windows(x, chunk_at(x, stage, slot));
    s += part * (send_s(x, &c.forward) + send_s(x, &c.backward));
  }
  return s;
}

/* The same of activations on their way to the host and back. */
static double host_s(const struct pricing *x, int64_t stage) {
  double s = 0, part = 1.0 / (double)pz_pipeline_copies(x->shape.order);
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&x->shape) && x->plan->offload; slot++) {
    struct chunk_windows c = chunk_windows(x, chunk_at(x, stage, slot));
    s += part * (c.forward.waits_s + c.backward.waits_s);
  }
  return s;
}

/* What the slowest stage does for all microbatches; the rest of the pipeline's time is the bubble. */
static void find_terms(const struct pricing *x, struct pz_prediction *out) {
  int64_t slowest;
  struct pz_layer_step sum = slowest_stage(x, &slowest);
  double n = (double)x->microbatches;
  struct pz_training_parts *t = &out->parts;
  t->products_s = n * (sum.forward.products_s + sum.backward.products_s);
  t->attention_s = n * (sum.forward.attention_s + sum.backward.attention_s);
  t->elementwise_s = n * (sum.forward.elementwise_s + sum.backward.elementwise_s);
  t->tensor_s = n * (sum.forward.collectives_s + sum.backward.collectives_s);
  t->launch_s = n * sum.launch_s;
  t->expert_s = n * (sum.forward.expert_s + sum.backward.expert_s);
  out->tensor_hidden_s = n * sum.hidden_s;
  out->expert_hidden_s = n * sum.expert_hidden_s;
  out->offload_s = n * host_s(x, slowest);
  t->transfer_s = n * transfers_s(x, slowest) + out->offload_s;
  t->bubble_s = pz_fmax(0, out->step_s - t->products_s - t->attention_s - t->elementwise_s -
                               t->tensor_s - t->expert_s - t->launch_s - t->transfer_s);
}

/* What a device of a stage does in a step: its passes, and exchange and optimizer of its own parameters. */
static double busy_s(const struct pricing *x, int64_t stage) {
  struct pricing own = *x;
  struct pz_prediction one = {0};
  struct pz_layer_step t = stage_step(x, stage);
  own.params = params_of(x, stage);
  exchange(&own, &one);
  optimize(&own, &one);
  double passes_s = t.forward_s + t.backward_s + transfers_s(x, stage) + host_s(x, stage);
  return (double)x->microbatches * passes_s + one.parts.gradient_s + one.parts.optimizer_s;
}

static void find_stage_times(struct pz_call *call, const struct pricing *x,
                             struct pz_prediction_detail *detail) {
  detail->stage_s = pz_alloc(call, (size_t)x->plan->pp, sizeof *detail->stage_s);
  for (int64_t k = 0; k < x->plan->pp; k++) detail->stage_s[k] = busy_s(x, k);
}

static void find_memory(struct pz_call *call, const struct pricing *x, struct pz_prediction *out,
                        struct pz_prediction_detail *detail) {
  struct pz_training_memory *stages = NULL;
  double *reserved = NULL;
  if (detail) {
    stages = pz_alloc(call, (size_t)x->plan->pp, sizeof *stages);
    reserved = pz_alloc(call, (size_t)x->plan->pp, sizeof *reserved);
    detail->stages = stages;
    detail->reserved_bytes = reserved;
    detail->layers = x->m->n_blocks;
  }
  out->usable_bytes = pz_usable_bytes(&x->m->cost.chip, x->m->k);
  out->usable_host_bytes = pz_usable_host_bytes(&x->m->cost.chip, x->m->k);
  for (int64_t k = 0; k < x->plan->pp; k++) {
    struct pz_training_memory one = pz_training_memory(&x->m->memory, x->plan, x->microbatches, k);
    double bytes = pz_training_memory_sum(&one);
    if (stages) stages[k] = one;
    struct pz_reserved all = pz_reserved_of(&x->m->memory, x->m->k, x->plan, &one);
    if (reserved) reserved[k] = all.bytes;
    if (all.high > out->needed_bytes) {
      out->needed_bytes = all.high;
      out->reserved_bytes = all.bytes;
      out->reserved_low_bytes = all.low;
    }
    out->host_bytes = pz_fmax(out->host_bytes, pz_step_host_bytes(x->m, x->plan, k));
    if (bytes <= out->peak_bytes) continue;
    out->peak_bytes = bytes;
    out->peak = one;
    out->peak_stage = (uint32_t)k;
  }
}

/* ---- the whole ------------------------------------------------------------------------------ */

void pz_step_check(struct pz_call *call, const struct pz_step_model *m,
                   const struct pz_plan *plan) {
  pz_require_plan(call, plan);
  pz_require_chunks(call, plan, m->n_blocks);
  pz_require_layer_counts(call, plan, m->n_blocks);
  if (!m->cost.net.n_levels && pz_plan_devices(plan) > 1)
    pz_raise(call, PZ_BAD_INPUT, "chip %s has no link between devices; accepted: a cluster",
             m->cost.chip.name);
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  pz_require_pipeline(call, &shape);
}

/* The link to the host is as wide as the host's rate, or as the interface behind the same switch needs it. */
static void find_host_link(struct pricing *x) {
  const struct pz_chip *c = &x->m->cost.chip;
  const struct pz_cluster *net = &x->m->cost.net;
  double host = c->host_bytes_per_s > 0 ? c->host_bytes_per_s : x->m->k->host_bytes_per_s;
  bool shared = net->n_levels > 1 && !c->host_own_link;
  double outer = shared ? net->level[1].bytes_per_s : 0;
  double link = pz_fmax(host, outer);
  x->host_bytes_per_s = host;
  x->away_part = host / link;
  x->outer_part = shared ? pz_network_outer_rate(x->m->k, &net->level[1]) / link : 0;
}

static struct pricing begin(struct pz_call *call, struct pz_step_model *m,
                            const struct pz_plan *plan, enum pz_timing timing) {
  pz_step_check(call, m, plan);
  struct pricing x = {.m = m,
                      .plan = plan,
                      .microbatches = pz_plan_microbatches(plan),
                      .shape = pz_plan_pipeline_shape(plan),
                      .layers = pz_plan_layers(plan, m->n_blocks)};
  pz_step_model_time(call, m, plan, x.microbatches, timing);
  find_host_link(&x);
  find_send(&x);
  x.params = stage_params(&x);
  return x;
}

double pz_step_waiting(const struct pz_constants *k, const struct pz_cluster *net,
                       int64_t devices) {
  const struct pz_constants *c = k ? k : &pz_constants_default;
  if (net && net->instant) return 0;
  return c->waiting * pz_fmax(0, log((double)devices / c->waiting_from));
}

static double waiting_of(const struct pz_step_model *m, const struct pz_plan *plan) {
  return pz_step_waiting(m->k, &m->cost.net, pz_plan_devices(plan));
}

struct pz_prediction pz_step_price(struct pz_call *call, struct pz_step_model *m,
                                   const struct pz_plan *plan,
                                   struct pz_prediction_detail *detail) {
  struct pz_prediction found = {0};
  struct pricing x = begin(call, m, plan, PZ_TIMING_SOLVED);
  simulate(call, &x, &found, detail);
  found.microbatches = x.microbatches;
  find_terms(&x, &found);
  exchange(&x, &found);
  optimize(&x, &found);
  found.step_s += found.parts.gradient_s + found.parts.optimizer_s;
  found.parts.waiting_s = waiting_of(m, plan) * found.step_s;
  found.step_s += found.parts.waiting_s;
  struct pz_call work = pz_step_model_work(call, m);
  pz_step_rates(&work, m, plan, &found);
  if (detail) find_stage_times(call, &x, detail);
  find_memory(call, &x, &found, detail);
  return found;
}

double pz_step_bound(struct pz_call *call, struct pz_step_model *m, const struct pz_plan *plan) {
  enum { MOST_CHUNKS = 1024 };
  double f[MOST_CHUNKS], b[MOST_CHUNKS], w[MOST_CHUNKS];
  struct pz_prediction found = {0};
  if (plan->pp * plan->vpp > MOST_CHUNKS)
    pz_raise(call, PZ_LIMIT, "%lld chunks; accepted: at most %d", (long long)(plan->pp * plan->vpp),
             MOST_CHUNKS);
  struct pricing x = begin(call, m, plan, PZ_TIMING_BOUND);
  chunk_times(&x, f, b, w);
  struct pz_pipeline p = pipeline_of(&x, f, b, w);
  found.step_s = pz_pipeline_bound_s(&p);
  exchange(&x, &found);
  optimize(&x, &found);
  return (found.step_s + found.parts.gradient_s + found.parts.optimizer_s) *
         (1 + waiting_of(m, plan));
}

struct pz_prediction pz_predict(struct pz_call *call, const struct pz_job *job,
                                const struct pz_plan *plan, struct pz_prediction_detail *detail) {
  pz_require_plan(call, plan);
  struct pz_step_model *m = pz_step_model_new(call, job, plan);
  struct pz_prediction prediction = pz_step_price(call, m, plan, detail);
  if (detail && detail->model)
    *detail->model = pz_model_shape_or_other(call, job->model, job->config, m->w, m->n_blocks);
  pz_close(call, m);
  return prediction;
}
