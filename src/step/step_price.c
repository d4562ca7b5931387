/* What a plan takes: the pipeline of its stages, exchange of gradients, optimizer, memory. */
#include "chip/chip.h"
#include "core/num.h"
#include "cost/constants.h"
#include "cost/network.h"
#include "plan/pipeline_order.h"
#include "step/step_model.h"

/* A plan being priced. */
struct pricing {
  struct pz_step_model *m;
  const struct pz_plan *plan;
  int64_t microbatches; /* microbatches of a replica */
  struct pz_pipeline_shape shape;
  double send_s;                /* of a transfer between stages, on a stage's own stream */
  struct pz_step_params params; /* of the stage with most */
};

/* ---- stages --------------------------------------------------------------------------------- */

/* Of all layers of a chunk, those of one kind; of these, those recomputed. */
static int64_t chunk_kind(const struct pricing *x, int64_t chunk, uint32_t kind,
                          int64_t *recomputed) {
  const struct pz_plan *p = x->plan;
  const struct pz_layer_kinds *k = &x->m->kinds;
  int64_t n = pz_plan_blocks(p, x->m->n_blocks, chunk);
  int64_t a = pz_plan_recomputed(p, pz_pipeline_stage_of(&x->shape, (uint32_t)chunk), n);
  if (k->n == 1) return *recomputed = a, n;
  int64_t start = pz_plan_start(p, x->m->n_blocks, chunk);
  *recomputed = pz_kind_count(k, kind, start, a);
  return pz_kind_count(k, kind, start, n);
}

/* The chunk that a stage holds in one of its slots. */
static int64_t chunk_at(const struct pricing *x, int64_t stage, uint32_t slot) {
  return pz_pipeline_chunk_at(&x->shape, (uint32_t)stage, slot);
}

static int64_t last_chunk(const struct pricing *x) { return x->plan->pp * x->plan->vpp - 1; }

/* a stage sends and receives on its own stream: both ways take its time */
static double transfer_s(const struct pricing *x) {
  const struct pz_plan *p = x->plan;
  const struct pz_constants *k = x->m->k;
  if (p->pp == 1) return 0;
  double bytes =
      (double)x->m->w->layers[x->m->kinds.layer[0]].output_bytes / (double)(p->sp ? 1 : p->tp);
  double s = pz_network_s(k, &x->m->cost.net, PZ_COLLECTIVE_SEND, bytes,
                          (struct pz_group){2, p->tp * pz_plan_replicas(p)});
  /* gradients of weights fill the wait for a transfer */
  bool hides = (p->overlap & PZ_OVERLAP_P2P) ||
               pz_pipeline_parts_backward((enum pz_pipeline_order)p->pipeline);
  return hides ? s * (1 - k->hidden_part) : s + k->synchronise_s;
}

static void chunk_times(const struct pricing *x, double *f, double *b, double *w) {
  const struct pz_plan *p = x->plan;
  const struct pz_model_steps *t = &x->m->steps;
  int64_t n = p->pp * p->vpp;
  for (int64_t j = 0; j < n; j++) {
    f[j] = b[j] = w[j] = 0;
    for (uint32_t k = 0; k < x->m->kinds.n; k++) {
      int64_t recomputed, blocks = chunk_kind(x, j, k, &recomputed);
      f[j] += (double)blocks * t->block[k].forward_s;
      b[j] += (double)(blocks - recomputed) * t->block[k].backward_s +
              (double)recomputed * t->again[k].backward_s;
      w[j] += (double)blocks * t->block[k].backward.weight_s;
    }
    f[j] += x->send_s;
    b[j] += x->send_s;
    if (j == 0) f[j] += t->before.forward_s, b[j] += t->before.backward_s;
    if (j < n - 1) continue;
    f[j] += t->after.forward_s;
    b[j] += t->after.backward_s;
    w[j] += t->after.backward.weight_s;
  }
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

static enum pz_status simulate(const struct pricing *x, struct pz_prediction *out,
                               struct pz_prediction_detail *detail, struct pz_error *err) {
  int64_t n = x->plan->pp * x->plan->vpp;
  struct pz_arena arena;
  struct pz_pipeline_run run;
  pz_arena_init(&arena, NULL);
  double *f = pz_arena_alloc(&arena, (size_t)n, sizeof *f),
         *b = pz_arena_alloc(&arena, (size_t)n, sizeof *b),
         *w = pz_arena_alloc(&arena, (size_t)n, sizeof *w);
  bool keep = detail && !detail->no_events;
  enum pz_status status =
      f && b && w ? PZ_OK : pz_fail(err, PZ_NO_MEMORY, "out of memory for the prediction");
  if (status == PZ_OK) {
    chunk_times(x, f, b, w);
    struct pz_pipeline p = pipeline_of(x, f, b, w);
    status = pz_pipeline_simulate(&p, keep, keep ? detail->arena : &arena, &run, err);
    out->bound_s = pz_pipeline_bound_s(&p);
  }
  if (status == PZ_OK) {
    if (keep) detail->run = run;
    out->step_s = run.end_s;
    out->parts.transfer_s = 2 * x->send_s * (double)(x->plan->vpp * x->microbatches);
  }
  pz_arena_release(&arena);
  return status;
}

/* ---- gradients and optimizer ---------------------------------------------------------------- */

static void add_params(struct pz_step_params *to, const struct pz_step_params *n) {
  to->dense += n->dense;
  to->expert += n->expert;
}

/* Parameters of a stage, of a device; a head that is the embedding has a copy in the last stage. */
static struct pz_step_params params_of(const struct pricing *x, int64_t stage) {
  const struct pz_step_model *m = x->m;
  struct pz_step_params n = {0, 0};
  for (uint32_t c = 0; c < pz_pipeline_slots(&x->shape); c++) {
    int64_t chunk = chunk_at(x, stage, c);
    for (uint32_t k = 0; k < m->kinds.n; k++) {
      int64_t recomputed, blocks = chunk_kind(x, chunk, k, &recomputed);
      n.dense += (double)blocks * m->block_params[k].dense;
      n.expert += (double)blocks * m->block_params[k].expert;
    }
    if (chunk == 0) add_params(&n, &m->before_params);
    if (chunk == last_chunk(x)) add_params(&n, &m->after_params);
    if (chunk == last_chunk(x) && pz_pipeline_parts_ends(&x->shape)) n.dense += m->tied_params;
  }
  return n;
}

/* Of the stage with most. */
static struct pz_step_params stage_params(const struct pricing *x) {
  struct pz_step_params most = {0, 0};
  for (int64_t k = 0; k < x->plan->pp; k++) {
    struct pz_step_params n = params_of(x, k);
    if (n.dense + n.expert > most.dense + most.expert) most = n;
  }
  return most;
}

/* Both copies of a tied matrix get the sum of their gradients. */
static double tied_s(const struct pricing *x) {
  const struct pz_plan *p = x->plan;
  if (!pz_pipeline_parts_ends(&x->shape) || !(x->m->tied_params > 0)) return 0;
  struct pz_group ends = {2, p->tp * pz_plan_replicas(p) * (p->pp - 1)};
  return pz_network_s(x->m->k, &x->m->cost.net, PZ_COLLECTIVE_ALL_REDUCE,
                      x->m->tied_params * p->grad_bytes, ends);
}

/* Parameters that a group of devices has alike. */
struct holders {
  double params;
  int64_t replicas, shards, stride;
};

/* All-reduce of the shards between groups that each hold a whole copy (hybrid sharding). */
static double between_copies_s(const struct pricing *x, const struct holders *h) {
  int64_t copies = h->replicas / h->shards;
  if (copies <= 1) return 0;
  struct pz_group g = {copies, h->stride * h->shards};
  double bytes = h->params / (double)h->shards * x->plan->grad_bytes;
  return 2 * (double)(copies - 1) / (double)copies * bytes /
         pz_network_rate(x->m->k, &x->m->cost.net, g);
}

/* Two gathers and a scatter of every layer go round rings whose every member passes on what it gets: trees do not help
 * them. */
static double gathers_s(const struct pricing *x, int64_t members) {
  double layers = (double)(x->m->n_blocks + x->m->w->n_layers - 1);
  return 3 * layers * (x->m->k->latency_s + x->m->k->hop_s * (double)(members - 1));
}

/* Bytes/s at which they exchange. */
static double exchange_rate(const struct pricing *x, const struct holders *h) {
  const struct pz_cluster *net = &x->m->cost.net;
  double rate = pz_network_rate(x->m->k, net, (struct pz_group){h->shards, h->stride});
  if (pz_plan_framework(x->plan)->node_gather && net->n_levels > 1 &&
      h->shards * h->stride > net->level[0].devices)
    rate /= (double)pz_max(1, net->level[0].devices / h->stride);
  return rate;
}

/* The exchange of one group: all of it, and what shows beside `compute`. */
struct exchanged {
  double total_s, exposed_s;
};

static struct exchanged exchange_of(const struct pricing *x, const struct holders *h,
                                    double compute) {
  const struct pz_plan *p = x->plan;
  const struct pz_constants *k = x->m->k;
  struct exchanged e = {0, 0};
  if (h->replicas <= 1 || !(h->params > 0)) return e;
  double rate = exchange_rate(x, h), part = (double)(h->shards - 1) / (double)h->shards;
  bool compiled = pz_framework_compiles(pz_plan_framework(p));
  bool overlap = p->overlap & (PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM);
  /* with stages weights stay gathered from the first microbatch to the last */
  if (p->zero == 3 && p->pp == 1) {
    e.total_s = (part * h->params * (4 + p->grad_bytes) / rate + gathers_s(x, h->shards)) *
                (double)x->microbatches;
    /* on a GPU they take SMs and memory from the kernels beside them */
    bool stream = x->m->cost.chip.execution == PZ_CHIP_STREAM;
    double hidden = stream ? k->sharded_hidden_part : k->hidden_part;
    if (!overlap) hidden = 0;
    e.exposed_s =
        pz_fmax(compute, e.total_s) + (1 - hidden) * pz_fmin(compute, e.total_s) - compute;
  } else {
    /* gradients that are sharded are exchanged with every microbatch; with stages they stay whole till the last */
    double scatters = p->zero == 2 && p->pp == 1 ? (double)x->microbatches : 1;
    e.total_s =
        part * h->params * (p->zero ? p->grad_bytes * scatters + 2 : 2 * p->grad_bytes) / rate;
    e.exposed_s = overlap ? e.total_s * (1 - k->hidden_part) : e.total_s;
  }
  double copies_s = between_copies_s(x, h);
  e.total_s += copies_s;
  /* a compiled loop over layers has all its gradients at its end */
  e.exposed_s += overlap && !compiled ? copies_s * (1 - k->hidden_part) : copies_s;
  return e;
}

/* Who holds the dense parameters of the largest stage, or its experts, which lie on a grid of their own; with two copies of
 * every stage twice as many devices. */
static struct holders holders_of(const struct pricing *x, bool experts) {
  const struct pz_plan *p = x->plan;
  int64_t copies = pz_pipeline_copies(x->shape.order), sharing = pz_plan_hybrid(p) ? 1 : copies;
  if (experts)
    return (struct holders){x->params.expert, pz_plan_expert_replicas(p) * copies,
                            pz_plan_expert_shards(p) * sharing, pz_plan_ep(p) * pz_plan_etp(p)};
  return (struct holders){x->params.dense, pz_plan_replicas(p) * copies,
                          pz_plan_shards(p) * sharing, p->tp};
}

static void exchange(const struct pricing *x, struct pz_prediction *out) {
  struct holders dense = holders_of(x, false), expert = holders_of(x, true);
  struct exchanged a = exchange_of(x, &dense, out->step_s),
                   b = exchange_of(x, &expert, out->step_s);
  double exposed = a.exposed_s + b.exposed_s;
  out->parts.gradient_s = tied_s(x) + exposed;
  out->gradient_hidden_s =
      pz_fmax(0, a.total_s + b.total_s - exposed); /* where nothing hides, of rounding */
}

static void optimize(const struct pricing *x, struct pz_prediction *out) {
  const struct pz_plan *p = x->plan;
  struct holders dense = holders_of(x, false), expert = holders_of(x, true);
  double own = dense.params / (double)(p->zero ? dense.shards : 1) +
               expert.params / (double)(p->zero ? expert.shards : 1);
  out->parts.optimizer_s =
      own * pz_plan_framework(p)->optimizer_bytes /
      (pz_chip_hbm_bytes_per_s(&x->m->cost.chip) * x->m->k->optimizer_efficiency);
}

/* ---- the terms of a step -------------------------------------------------------------------- */

/* All that a stage does for a microbatch, of each of its copies. */
static struct pz_layer_step stage_step(const struct pricing *x, int64_t stage) {
  const struct pz_model_steps *t = &x->m->steps;
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

static struct pz_layer_step slowest_stage(const struct pricing *x) {
  struct pz_layer_step most = {.forward_s = 0};
  for (int64_t k = 0; k < x->plan->pp; k++) {
    struct pz_layer_step t = stage_step(x, k);
    if (t.forward_s + t.backward_s > most.forward_s + most.backward_s) most = t;
  }
  return most;
}

/* What the slowest stage does for all microbatches; the rest of the pipeline's time is the bubble. */
static void find_terms(const struct pricing *x, struct pz_prediction *out) {
  struct pz_layer_step sum = slowest_stage(x);
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
  t->bubble_s = pz_fmax(0, out->step_s - t->products_s - t->attention_s - t->elementwise_s -
                               t->tensor_s - t->expert_s - t->launch_s - t->transfer_s);
}

/* Parameters that a token meets in a layer, of the undivided model: of routed experts those chosen. */
static double active_params(const struct pz_workload *w, const struct pz_layer *l) {
  double expert = (double)l->model_expert_params, all = (double)l->model_params;
  if (!w->experts) return all;
  return all - expert * (1 - (double)w->experts_per_token / (double)w->experts);
}

static double block_params(const struct pz_step_model *m) {
  double n = 0;
  for (uint32_t k = 0; k < m->kinds.n; k++) {
    const struct pz_layer *l = &m->w->layers[m->kinds.layer[k]];
    n += active_params(m->w, l) * (double)l->count;
  }
  return n;
}

/* FLOP a token of what the plan recomputes: forward is a third of a layer's GEMMs. */
static double recompute_flop(const struct pricing *x, double attention_flop) {
  double gemms = 2 * block_params(x->m), core = attention_flop / 3;
  int64_t n = 0;
  for (int64_t j = 0; j <= last_chunk(x); j++)
    n += pz_plan_recomputed(x->plan, pz_pipeline_stage_of(&x->shape, (uint32_t)j),
                            pz_plan_blocks(x->plan, x->m->n_blocks, j));
  switch (x->plan->recompute) {
  case PZ_RECOMPUTATION_ALTERNATE: return gemms / 2;
  case PZ_RECOMPUTATION_SELECTIVE: return core;
  default: return (gemms + core) * (double)n / (double)x->m->n_blocks;
  }
}

/* Parameters of GEMMs that a token meets: all but those of the embedding, which looks vectors up, unless the head
 * has the same matrix. */
static double product_params(const struct pz_step_model *m) {
  const struct pz_workload *x = m->w;
  double n = block_params(m);
  if (!x->hidden) return (double)x->totals.model_params; /* an ONNX file says nothing of it */
  for (uint32_t i = m->kinds.layer[0] + 1; i < x->n_layers; i++) {
    const struct pz_layer *l = &x->layers[i];
    if (l->tied_params) n += (double)x->vocab * (double)x->hidden;
    if (!pz_is_block(l)) n += active_params(x, l) * (double)l->count;
  }
  return n;
}

/* MFU counts 6 FLOP a parameter and token, attention in full, without the embedding's look-up. */
static void find_rates(const struct pricing *x, struct pz_prediction *out) {
  const struct pz_plan *p = x->plan;
  const struct pz_workload *w = x->m->w;
  double tokens = (double)(p->batch * x->m->seq), devices = (double)pz_plan_devices(p);
  double width = w->head_dim ? (double)w->heads * (double)w->head_dim : (double)w->hidden;
  double attention = 12 * (double)x->m->n_blocks * width * (double)x->m->seq;
  double flop = 6 * product_params(x->m) + attention;
  out->tokens = tokens;
  out->params = (double)w->totals.model_params;
  out->active_params = (double)w->totals.active_params;
  out->samples_per_s = (double)p->batch / out->step_s;
  out->tokens_per_s_per_device = tokens / out->step_s / devices;
  double peak =
      pz_chip_tensor_flop_per_s(&x->m->cost.chip) * (p->precision == PZ_PRECISION_FP8 ? 2 : 1);
  out->mfu = flop * out->tokens_per_s_per_device / peak;
  out->hfu = out->mfu * (1 + recompute_flop(x, attention) / flop);
}

static enum pz_status find_memory(const struct pricing *x, struct pz_prediction *out,
                                  struct pz_prediction_detail *detail, struct pz_error *err) {
  struct pz_training_memory *stages = NULL;
  if (detail) {
    stages = pz_arena_alloc(detail->arena, (size_t)x->plan->pp, sizeof *stages);
    if (!stages) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the prediction");
    detail->stages = stages;
    detail->layers = x->m->n_blocks;
  }
  out->usable_bytes = pz_usable_bytes(&x->m->cost.chip, x->m->k);
  for (int64_t k = 0; k < x->plan->pp; k++) {
    struct pz_training_memory one = pz_training_memory(&x->m->memory, x->plan, x->microbatches, k);
    double bytes = pz_training_memory_sum(&one);
    if (stages) stages[k] = one;
    if (bytes <= out->peak_bytes) continue;
    out->peak_bytes = bytes;
    out->peak = one;
    out->peak_stage = (uint32_t)k;
  }
  return PZ_OK;
}

/* ---- the whole ------------------------------------------------------------------------------ */

static enum pz_status begin(struct pz_step_model *m, const struct pz_plan *plan, struct pricing *x,
                            struct pz_error *err) {
  enum pz_status status = pz_plan_check(plan, err);
  if (status == PZ_OK) status = pz_plan_check_layers(plan, m->n_blocks, err);
  if (status == PZ_OK && !m->cost.net.n_levels && pz_plan_devices(plan) > 1)
    status = pz_fail(err, PZ_BAD_INPUT, "chip %s has no link between devices; accepted: a cluster",
                     m->cost.chip.name);
  *x = (struct pricing){.m = m, .plan = plan};
  if (status != PZ_OK) return status;
  x->microbatches = pz_plan_microbatches(plan);
  x->shape = pz_plan_shape(plan);
  status = pz_pipeline_check(&x->shape, err);
  if (status != PZ_OK) return status;
  status = pz_step_model_time(m, plan, x->microbatches, err);
  if (status != PZ_OK) return status;
  x->send_s = transfer_s(x);
  x->params = stage_params(x);
  return status;
}

enum pz_status pz_step_price(struct pz_step_model *m, const struct pz_plan *plan,
                             struct pz_prediction *out, struct pz_prediction_detail *detail,
                             struct pz_error *err) {
  struct pricing x;
  struct pz_prediction found = {0};
  enum pz_status status = begin(m, plan, &x, err);
  if (status == PZ_OK) status = simulate(&x, &found, detail, err);
  if (status != PZ_OK) return status;
  found.microbatches = x.microbatches;
  find_terms(&x, &found);
  exchange(&x, &found);
  optimize(&x, &found);
  found.step_s += found.parts.gradient_s + found.parts.optimizer_s;
  find_rates(&x, &found);
  status = find_memory(&x, &found, detail, err);
  if (status == PZ_OK) *out = found;
  return status;
}

enum pz_status pz_step_bound(struct pz_step_model *m, const struct pz_plan *plan, double *step_s,
                             struct pz_error *err) {
  enum { MOST_CHUNKS = 1024 };
  double f[MOST_CHUNKS], b[MOST_CHUNKS], w[MOST_CHUNKS];
  struct pricing x;
  struct pz_prediction found = {0};
  if (plan->pp * plan->vpp > MOST_CHUNKS)
    return pz_fail(err, PZ_LIMIT, "%lld chunks; accepted: at most %d",
                   (long long)(plan->pp * plan->vpp), MOST_CHUNKS);
  enum pz_status status = begin(m, plan, &x, err);
  if (status != PZ_OK) return status;
  chunk_times(&x, f, b, w);
  struct pz_pipeline p = pipeline_of(&x, f, b, w);
  found.step_s = pz_pipeline_bound_s(&p);
  exchange(&x, &found);
  optimize(&x, &found);
  *step_s = found.step_s + found.parts.gradient_s + found.parts.optimizer_s;
  return PZ_OK;
}

enum pz_status pz_predict(const struct pz_job *job, const struct pz_plan *plan,
                          struct pz_prediction *out, struct pz_prediction_detail *detail,
                          struct pz_error *err) {
  struct pz_step_model *m = NULL;
  enum pz_status status = pz_plan_check(plan, err);
  if (status == PZ_OK) status = pz_step_model_new(job, plan, &m, err);
  if (status == PZ_OK) status = pz_step_price(m, plan, out, detail, err);
  pz_step_model_free(m);
  return status;
}
