#include <math.h>
#include <string.h>

#include "chip/chip.h"
#include "core/num.h"
#include "cost/constants.h"
#include "cost/network.h"
#include "place/layer_time.h"
#include "place/training_memory.h"
#include "workload/op.h"
#include "workload/workload.h"

/* ---- stages --------------------------------------------------------------------------------- */

/* The model: what stands before the repeated layer, that layer, what stands behind. */
struct model_time {
  struct pz_layer_time before, block, after;
  int64_t n_blocks;
  double block_params, before_params, after_params, tied_params; /* on a device */
  const struct pz_layer *block_layer;
};

static void add_layer(struct pz_layer_time *sum, const struct pz_layer_time *t, double times) {
  pz_pass_add(&sum->forward, &t->forward, times);
  pz_pass_add(&sum->backward, &t->backward, times);
  sum->forward_s += times * t->forward_s;
  sum->backward_s += times * t->backward_s;
  sum->launch_s += times * t->launch_s;
  sum->hidden_s += times * t->hidden_s;
}

/* Of a model with one layer: the one with most operators. */
static uint32_t repeated_layer(const struct pz_workload *w) {
  uint32_t most = 0;
  for (uint32_t i = 1; i < w->n_layers; i++)
    if (w->layers[i].count > w->layers[most].count ||
        (w->layers[i].count == w->layers[most].count &&
         w->layers[i].ops[PZ_FORWARD].n > w->layers[most].ops[PZ_FORWARD].n))
      most = i;
  return most;
}

static enum pz_status time_model(struct pz_step_work *w, struct model_time *m) {
  uint32_t block = repeated_layer(w->w);
  *m = (struct model_time){.n_blocks = w->w->layers[block].count,
                           .block_layer = &w->w->layers[block]};
  m->block_params = (double)m->block_layer->params;
  for (uint32_t i = 0; i < w->w->n_layers; i++) {
    const struct pz_layer *l = &w->w->layers[i];
    struct pz_layer_time t;
    enum pz_status status = pz_layer_time(w, l, i == block, &t);
    if (status != PZ_OK) return status;
    if (i == block)
      m->block = t;
    else
      add_layer(i < block ? &m->before : &m->after, &t, (double)l->count);
    if (i != block) *(i < block ? &m->before_params : &m->after_params) += (double)l->params;
    m->tied_params += (double)l->tied_params;
  }
  return PZ_OK;
}

static int64_t stage_blocks(const struct pz_training_plan *p, const struct model_time *m,
                            int64_t stage) {
  int64_t blocks = 0;
  for (int64_t c = 0; c < p->vpp; c++)
    blocks += pz_chunk_blocks(m->n_blocks, p->pp * p->vpp, c * p->pp + stage);
  return blocks;
}

static enum pz_status simulate(const struct pz_step_work *w, const struct model_time *m,
                               int64_t rounds, struct pz_prediction *out) {
  const struct pz_training_plan *plan = w->plan;
  int64_t n = plan->pp * plan->vpp;
  struct pz_arena arena;
  struct pz_pipeline_run run;
  double bytes =
      (double)m->block_layer->output_bytes / (double)(plan->sequence_parallel ? 1 : plan->tp);
  double send_s = pz_network_s(w->k, w->net, PZ_COLLECTIVE_SEND, bytes,
                               (struct pz_group){2, plan->tp * plan->dp});
  if (!(plan->overlap & PZ_OVERLAP_P2P)) send_s += w->k->synchronise_s;
  if (plan->pp == 1) send_s = 0;
  if (plan->overlap & PZ_OVERLAP_P2P) send_s *= 1 - w->k->hidden_part;
  pz_arena_init(&arena, NULL);
  double *f = pz_arena_alloc(&arena, (size_t)n, sizeof *f),
         *b = pz_arena_alloc(&arena, (size_t)n, sizeof *b);
  enum pz_status status =
      f && b ? PZ_OK : pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the prediction");
  for (int64_t j = 0; j < n && status == PZ_OK; j++) {
    double blocks = (double)pz_chunk_blocks(m->n_blocks, n, j);
    /* a stage sends and receives on its own stream: both ways take its time */
    f[j] = blocks * m->block.forward_s + send_s;
    b[j] = blocks * m->block.backward_s + send_s;
    if (j == 0) f[j] += m->before.forward_s, b[j] += m->before.backward_s;
    if (j == n - 1) f[j] += m->after.forward_s, b[j] += m->after.backward_s;
  }
  struct pz_pipeline p = {.stages = (uint32_t)plan->pp,
                          .chunks = (uint32_t)plan->vpp,
                          .microbatches = (uint32_t)rounds,
                          .order = plan->vpp > 1 ? PZ_PIPELINE_INTERLEAVED : plan->order,
                          .forward_s = f,
                          .backward_s = b};
  bool keep = w->detail && !w->detail->no_events;
  if (status == PZ_OK)
    status = pz_pipeline_simulate(&p, keep, keep ? w->detail->arena : &arena, &run, w->err);
  if (status == PZ_OK) {
    if (keep) w->detail->run = run;
    out->step_s = run.end_s;
    out->bound_s = pz_pipeline_bound_s(&p);
    out->parts.transfer_s = plan->pp > 1 ? 2 * send_s * (double)(plan->vpp * rounds) : 0;
  }
  pz_arena_release(&arena);
  return status;
}

/* ---- gradients and optimizer ---------------------------------------------------------------- */

/* Parameters of a stage, of a device; a head that is the embedding has a copy in the last stage. */
static double params_of(const struct pz_training_plan *p, const struct model_time *m,
                        int64_t stage) {
  double n = (double)stage_blocks(p, m, stage) * m->block_params;
  if (stage == 0) n += m->before_params;
  if (stage == p->pp - 1) n += m->after_params + (p->pp > 1 ? m->tied_params : 0);
  return n;
}

static double stage_params(const struct pz_training_plan *p, const struct model_time *m) {
  double most = 0;
  for (int64_t k = 0; k < p->pp; k++) most = pz_fmax(most, params_of(p, m, k));
  return most;
}

/* Both copies of a tied matrix get the sum of their gradients. */
static double tied_s(const struct pz_step_work *w, const struct model_time *m) {
  const struct pz_training_plan *p = w->plan;
  if (p->pp == 1 || !(m->tied_params > 0)) return 0;
  struct pz_group ends = {2, p->tp * p->dp * (p->pp - 1)};
  return pz_network_s(w->k, w->net, PZ_COLLECTIVE_ALL_REDUCE, m->tied_params * p->grad_bytes, ends);
}

/* All-reduce of the shards between groups that each hold a whole copy (hybrid sharding). */
static double between_copies_s(const struct pz_step_work *w, double params) {
  const struct pz_training_plan *p = w->plan;
  int64_t shards = pz_plan_shards(p), copies = p->dp / shards;
  if (copies == 1) return 0;
  struct pz_group g = {copies, p->tp * shards};
  double bytes = params / (double)shards * p->grad_bytes;
  return 2 * (double)(copies - 1) / (double)copies * bytes / pz_network_rate(w->k, w->net, g);
}

static void exchange(const struct pz_step_work *w, const struct model_time *m, int64_t rounds,
                     struct pz_prediction *out) {
  const struct pz_training_plan *p = w->plan;
  int64_t shards = pz_plan_shards(p);
  struct pz_group g = {shards, p->tp};
  double params = stage_params(p, m), compute = out->step_s, total, exposed;
  out->parts.gradient_s = tied_s(w, m);
  if (p->dp == 1) return;
  double rate = pz_network_rate(w->k, w->net, g);
  if (p->framework->node_gather && w->net->n_levels > 1 &&
      shards * p->tp > w->net->level[0].devices)
    rate /= (double)pz_max(1, w->net->level[0].devices / p->tp);
  double part = (double)(shards - 1) / (double)shards;
  bool compiled = pz_framework_compiles(p->framework);
  bool overlap = p->overlap & (PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM);
  if (p->zero == 3) {
    total = part * params * (4 + p->grad_bytes) / rate * (double)rounds;
    /* on a GPU they take SMs and memory from the kernels beside them */
    bool stream = w->cost.chip.execution == PZ_CHIP_STREAM;
    double hidden = stream ? w->k->sharded_hidden_part : w->k->hidden_part;
    if (!overlap) hidden = 0;
    exposed = pz_fmax(compute, total) + (1 - hidden) * pz_fmin(compute, total) - compute;
  } else {
    total = part * params * (p->zero ? p->grad_bytes + 2 : 2 * p->grad_bytes) / rate;
    exposed = overlap ? total * (1 - w->k->hidden_part) : total;
  }
  double copies_s = between_copies_s(w, params);
  total += copies_s;
  /* a compiled loop over layers has all its gradients at its end */
  exposed += overlap && !compiled ? copies_s * (1 - w->k->hidden_part) : copies_s;
  out->parts.gradient_s += exposed;
  out->gradient_hidden_s = total - exposed;
}

static void optimize(const struct pz_step_work *w, const struct model_time *m,
                     struct pz_prediction *out) {
  const struct pz_training_plan *p = w->plan;
  double own = stage_params(p, m) / (double)(p->zero ? pz_plan_shards(p) : 1);
  out->parts.optimizer_s = own * p->framework->optimizer_bytes /
                           (pz_chip_hbm_bytes_per_s(&w->cost.chip) * w->k->optimizer_efficiency);
}

/* ---- the parts of a step -------------------------------------------------------------------- */

/* All that a stage does for a microbatch. */
static struct pz_layer_time stage_time(const struct pz_training_plan *p, const struct model_time *m,
                                       int64_t stage) {
  struct pz_layer_time sum = {.forward_s = 0};
  add_layer(&sum, &m->block, (double)stage_blocks(p, m, stage));
  if (stage == 0) add_layer(&sum, &m->before, 1);
  if (stage == p->pp - 1) add_layer(&sum, &m->after, 1);
  return sum;
}

static struct pz_layer_time slowest_stage(const struct pz_training_plan *p,
                                          const struct model_time *m) {
  struct pz_layer_time most = {.forward_s = 0};
  for (int64_t k = 0; k < p->pp; k++) {
    struct pz_layer_time t = stage_time(p, m, k);
    if (t.forward_s + t.backward_s > most.forward_s + most.backward_s) most = t;
  }
  return most;
}

/* What the slowest stage does for all microbatches; the rest of the pipeline's time is the bubble. */
static void tell_parts(const struct pz_step_work *w, const struct model_time *m, int64_t rounds,
                       struct pz_prediction *out) {
  struct pz_layer_time sum = slowest_stage(w->plan, m);
  double n = (double)rounds;
  struct pz_training_parts *x = &out->parts;
  x->products_s = n * (sum.forward.products_s + sum.backward.products_s);
  x->attention_s = n * (sum.forward.attention_s + sum.backward.attention_s);
  x->elementwise_s = n * (sum.forward.elementwise_s + sum.backward.elementwise_s);
  x->tensor_s = n * (sum.forward.collectives_s + sum.backward.collectives_s);
  x->launch_s = n * sum.launch_s;
  out->tensor_hidden_s = n * sum.hidden_s;
  x->bubble_s = pz_fmax(0, out->step_s - x->products_s - x->attention_s - x->elementwise_s -
                               x->tensor_s - x->launch_s - x->transfer_s);
}

/* FLOP a token of what the plan computes again: forward is a third of a layer's products. */
static double again_flop(const struct pz_step_work *w, double attention_flop) {
  const struct pz_layer *l = &w->w->layers[repeated_layer(w->w)];
  double products = 2 * (double)l->model_params * (double)l->count, core = attention_flop / 3;
  switch (w->plan->recompute) {
  case PZ_RECOMPUTATION_FULL: return (products + core) * pz_recomputed_part(w->plan, l);
  case PZ_RECOMPUTATION_HALF: return (products + core) / 2;
  case PZ_RECOMPUTATION_ALTERNATE: return products / 2;
  case PZ_RECOMPUTATION_SELECTIVE: return core;
  default: return 0;
  }
}

/* Parameters of products: all but those of the embedding, which looks rows up, unless the head has
 * the same matrix. */
static double product_params(const struct pz_workload *x) {
  double n = 0;
  if (!x->hidden) return (double)x->totals.model_params; /* an ONNX file says nothing of it */
  for (uint32_t i = repeated_layer(x); i < x->n_layers; i++) {
    const struct pz_layer *l = &x->layers[i];
    n += (double)l->model_params * (double)l->count;
    if (l->tied_params) n += (double)x->vocab * (double)x->hidden;
  }
  return n;
}

/* MFU counts 6 FLOP a parameter and token, attention in full, without the embedding's look-up. */
static void tell_rates(const struct pz_step_work *w, struct pz_prediction *out) {
  const struct pz_training_plan *p = w->plan;
  const struct pz_workload *x = w->w;
  double tokens = (double)(p->batch * x->options.seq), devices = (double)(p->tp * p->pp * p->dp);
  double layers = (double)x->layers[repeated_layer(x)].count;
  double attention = 12 * layers * (double)x->hidden * (double)x->options.seq;
  double flop = 6 * product_params(x) + attention;
  out->tokens = tokens;
  out->params = (double)x->totals.model_params;
  out->samples_per_s = (double)p->batch / out->step_s;
  out->tokens_per_s_per_device = tokens / out->step_s / devices;
  out->mfu = flop * out->tokens_per_s_per_device / pz_chip_tensor_flop_per_s(&w->cost.chip);
  out->hfu = out->mfu * (1 + again_flop(w, attention) / flop);
}

/* ---- memory --------------------------------------------------------------------------------- */

static enum pz_status tell_memory(const struct pz_step_work *w, const struct model_time *m,
                                  struct pz_prediction *out) {
  const struct pz_training_plan *p = w->plan;
  struct pz_memory_model model = {
      .w = w->kept, .block = repeated_layer(w->kept), .n_blocks = m->n_blocks};
  model.core_bytes = pz_core_bytes(w->kept, &w->kept->layers[model.block]);
  struct pz_training_memory *stages = NULL;
  if (w->detail) {
    stages = pz_arena_alloc(w->detail->arena, (size_t)p->pp, sizeof *stages);
    if (!stages) return pz_fail(w->err, PZ_NO_MEMORY, "out of memory for the prediction");
    w->detail->stages = stages;
  }
  for (int64_t k = 0; k < p->pp; k++) {
    struct pz_training_memory one = pz_training_memory(&model, p, w->rounds, k);
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

static enum pz_status check_plan(const struct pz_training_plan *p, struct pz_error *err) {
  const struct {
    const char *name;
    int64_t v;
  } list[] = {{"tp", p->tp}, {"pp", p->pp},   {"vpp", p->vpp},
              {"dp", p->dp}, {"mbs", p->mbs}, {"batch", p->batch}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i].v < 1 || list[i].v > 1 << 24)
      return pz_fail(err, PZ_BAD_USE, "%s %lld; accepted: 1 to 2^24", list[i].name,
                     (long long)list[i].v);
  if (p->zero < 0 || p->zero > 3)
    return pz_fail(err, PZ_BAD_USE, "zero %d; accepted: 0 to 3", p->zero);
  if (p->recompute_layers < 0)
    return pz_fail(err, PZ_BAD_USE, "%lld layers to recompute; accepted: 0 or more",
                   (long long)p->recompute_layers);
  if (p->vpp > 1 && p->pp == 1)
    return pz_fail(err, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
                   (long long)p->vpp);
  if (p->batch < p->mbs * p->dp)
    return pz_fail(err, PZ_BAD_USE,
                   "a batch of %lld is less than one microbatch of %lld on each of %lld replicas",
                   (long long)p->batch, (long long)p->mbs, (long long)p->dp);
  return PZ_OK;
}

static enum pz_kernels kernels_of(const struct pz_chip *chip, const struct pz_training_plan *p) {
  if (chip->execution == PZ_CHIP_SCHEDULED) return PZ_KERNELS_FUSED;
  return p->execution == PZ_EXECUTION_EAGER ? p->framework->kernels : PZ_KERNELS_POINTWISE;
}

static enum pz_status load(const struct pz_training_model *m, enum pz_kernels kernels,
                           const struct pz_training_plan *p, struct pz_workload **out,
                           struct pz_error *err) {
  struct pz_workload_options o = pz_workload_options_default();
  o.seq = m->seq;
  o.mbs = p->mbs;
  o.tp = p->tp;
  o.sequence_parallel = p->sequence_parallel && p->tp > 1;
  o.attention = m->attention;
  o.kernels = kernels;
  if (!p->framework->dropout) o.dropout = 0;
  return m->config ? pz_workload_parse(m->name, m->config, strlen(m->config), &o, out, err)
                   : pz_workload_load(m->name, &o, out, err);
}

static enum pz_status predict(struct pz_step_work *w, struct pz_prediction *out) {
  const struct pz_training_plan *p = w->plan;
  struct model_time m;
  int64_t rounds = pz_ceil_div(p->batch, p->mbs * p->dp);
  if (p->vpp > 1) rounds = pz_ceil_div(rounds, p->pp) * p->pp;
  w->rounds = rounds;
  enum pz_status status = time_model(w, &m);
  int64_t chunks = p->pp * p->vpp;
  if (status == PZ_OK && m.n_blocks < chunks && m.n_blocks + 2 != chunks)
    status =
        pz_fail(w->err, PZ_BAD_USE,
                "%lld layers in %lld chunks (pp %lld x vpp %lld); accepted: pp x vpp at most %lld",
                (long long)m.n_blocks, (long long)chunks, (long long)p->pp, (long long)p->vpp,
                (long long)m.n_blocks);
  if (status == PZ_OK) status = simulate(w, &m, rounds, out);
  if (status != PZ_OK) return status;
  out->microbatches = rounds;
  tell_parts(w, &m, rounds, out);
  exchange(w, &m, rounds, out);
  optimize(w, &m, out);
  out->step_s += out->parts.gradient_s + out->parts.optimizer_s;
  tell_rates(w, out);
  return tell_memory(w, &m, out);
}

static enum pz_status check_dense(const struct pz_workload *x, struct pz_error *err) {
  for (uint32_t i = 0; i < x->n_layers; i++)
    for (uint32_t t = 0; t < x->layers[i].n_tensors; t++)
      if (x->layers[i].tensors[t].experts)
        return pz_fail(err, PZ_BAD_INPUT,
                       "%s has experts, which predictions do not cover; accepted: dense models",
                       x->model);
  return PZ_OK;
}

enum pz_status pz_predict(const struct pz_training_model *model, const struct pz_chip *chip,
                          const struct pz_cluster *net, const struct pz_training_plan *plan,
                          struct pz_prediction *out, struct pz_prediction_detail *detail,
                          struct pz_error *err) {
  struct pz_workload *made = NULL, *kept = NULL;
  struct pz_prediction found = {0};
  enum pz_kernels kernels = kernels_of(chip, plan);
  enum pz_status status = check_plan(plan, err);
  if (status == PZ_OK) status = load(model, kernels, plan, &made, err);
  /* times of gates, rotary embeddings and losses are known as a whole; memory by operator */
  if (status == PZ_OK && kernels == PZ_KERNELS_MODULES)
    status = load(model, PZ_KERNELS_OPERATORS, plan, &kept, err);
  if (status != PZ_OK) {
    pz_workload_free(made);
    return status;
  }
  struct pz_step_work w = {.plan = plan,
                           .k = plan->constants ? plan->constants : &pz_constants_default,
                           .w = made,
                           .kept = kept ? kept : made,
                           .detail = detail,
                           .err = err};
  struct pz_chip with = *chip;
  with.calibration.throttle = 1 + (with.calibration.throttle - 1) * w.k->throttle_part;
  pz_cost_init(&w.cost, &with, net);
  w.cost.net.devices = plan->tp * plan->pp * plan->dp; /* of the job: its part of a torus */
  w.cost.causal = made->causal;
  w.cost.attention_library =
      plan->framework->attention ? plan->framework->attention : plan->attention_library;
  w.net = &w.cost.net;
  if (!w.net->n_levels && plan->tp * plan->pp * plan->dp > 1)
    status = pz_fail(err, PZ_BAD_INPUT, "chip %s has no link between devices; accepted: --cluster",
                     chip->name);
  if (status == PZ_OK) status = check_dense(made, err);
  if (status == PZ_OK) status = predict(&w, &found);
  if (status == PZ_OK) *out = found;
  pz_cost_release(&w.cost);
  pz_workload_free(made);
  pz_workload_free(kept);
  return status;
}
