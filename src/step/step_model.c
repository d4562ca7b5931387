#include "step/step_model.h"

#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "cost/beside.h"
#include "cost/constants.h"
#include "plan/pipeline_order.h"
#include "step/wide_layers.h"
#include "workload/workload.h"

/* ---- making it ------------------------------------------------------------------------------ */

static enum pz_kernels kernels_of(const struct pz_chip *chip, const struct pz_plan *p) {
  if (chip->execution != PZ_CHIP_STREAM) return PZ_KERNELS_FUSED;
  return p->execution == PZ_EXECUTION_EAGER ? pz_plan_framework(p)->kernels : PZ_KERNELS_POINTWISE;
}

bool pz_step_is_scheduled(const struct pz_chip *chip, const struct pz_plan *p) {
  return chip->execution != PZ_CHIP_STREAM && p->execution == PZ_EXECUTION_SCHEDULED &&
         !pz_pipeline_splits_backward((enum pz_pipeline_order)p->pipeline);
}

static int chains_of(const struct pz_plan *p) { return p->halves > 0 ? 2 : 1; }

/* Loads the model's graph into *out, which the step model frees. */
static void load(struct pz_call *call, const struct pz_job *j, enum pz_kernels kernels,
                 const struct pz_plan *p, int64_t mbs, struct pz_workload **out) {
  struct pz_error *err = pz_call_error(call);
  struct pz_workload_options o = pz_workload_options_default();
  o.seq = p->seq;
  o.cp = pz_plan_cp(p);
  o.cp_form = p->cp_form > 0 ? (enum pz_context_form)p->cp_form : PZ_CONTEXT_RING;
  o.mbs = mbs;
  o.tp = p->tp;
  o.ep = pz_plan_ep(p);
  o.etp = p->etp ? p->etp : 0;
  if (o.ep > 1) o.etp = pz_plan_etp(p);
  o.sequence_parallel = p->sp && p->tp > 1;
  o.attention = (enum pz_attention)p->attention;
  o.kernels = kernels;
  o.mtp = p->mtp;
  o.imbalance = p->imbalance;
  o.vocab_multiple = pz_plan_vocab_multiple(p);
  if (!pz_plan_framework(p)->dropout) o.dropout = 0;
  pz_must(call, pz_lora_parse(p->peft, &o.lora, err));
  if (pz_plan_framework(p)->rules == PZ_RULES_CORE) /* share_expert_adapters of Megatron Bridge */
    o.lora.modules |=
        (int)PZ_LORA_SHARED_EXPERTS | (pz_lora_divides(&o.lora) ? 0 : (int)PZ_LORA_SHARED);
  if (j->config)
    pz_must(call, pz_workload_parse(j->model, j->config, strlen(j->config), &o, out, err));
  else
    pz_must(call, pz_workload_load(j->model, &o, out, err));
  bool predict = p->bf16_modules & PZ_WIDE_PREDICT;
  if (pz_plan_16bit_layers(p) || predict)
    pz_wide_layers(call, *out, p->bf16_first_layers, p->bf16_layers, predict);
}

/* Kernels are timed for an even load, and take longer by the imbalance; memory is that of the fullest device. */
static void load_all(struct pz_call *call, struct pz_step_model *m, const struct pz_job *job,
                     const struct pz_plan *plan) {
  enum pz_kernels kernels = kernels_of(job->chip, plan);
  struct pz_plan even = *plan;
  even.imbalance = m->imbalance = 1;
  load(call, job, kernels, &even, plan->mbs, &m->w);
  if (plan->halves > 0) load(call, job, kernels, &even, plan->mbs / 2, &m->half);
  if (!m->w->experts || !(plan->imbalance > 1)) return;
  load(call, job, kernels, plan, plan->mbs, &m->fullest);
  m->imbalance = m->fullest->options.imbalance;
}

static struct pz_step_params params_of(const struct pz_layer *l) {
  double expert = (double)l->expert_params;
  double trained = (double)l->trained_expert_params;
  return (struct pz_step_params){(double)l->params - expert, expert,
                                 (double)l->trained_params - trained, trained};
}

static void count_params(struct pz_step_model *m, const struct pz_plan *plan) {
  uint32_t kind = 0;
  for (uint32_t i = 0; i < m->w->n_layers; i++) {
    const struct pz_layer *l = &m->w->layers[i];
    struct pz_step_params n = params_of(l);
    if (!pz_plan_trains_adapters(plan)) m->tied_params += (double)l->tied_params;
    if (kind < m->kinds.n && m->kinds.layer[kind] == i) {
      m->block_params[kind++] = n;
      continue;
    }
    struct pz_step_params *to = kind ? &m->after_params : &m->before_params;
    pz_step_params_add(to, &n, (double)l->count);
  }
}

static void use_chip(struct pz_step_model *m, const struct pz_chip *chip,
                     const struct pz_cluster *net, const struct pz_plan *plan) {
  pz_cost_init(&m->cost, chip, net);
  pz_cluster_correct(&m->cost.net, &chip->correction);
  m->cost.causal = m->w->causal;
  m->cost.attention_library = pz_plan_framework(plan)->attention
                                  ? pz_plan_framework(plan)->attention
                                  : plan->attention_library;
}

static struct pz_step_context context(struct pz_step_model *m, const struct pz_plan *plan,
                                      int64_t microbatches) {
  int chains = chains_of(plan);
  double beside = m->cost.net.instant ? 0 : pz_beside_cores(m->k, &m->cost.chip);
  /* gradients of the second half are added to those of the first */
  if (chains > 1) microbatches = pz_max(2, microbatches);
  return (struct pz_step_context){.cost = &m->cost,
                                  .k = m->k,
                                  .net = &m->cost.net,
                                  .plan = plan,
                                  .seq = m->seq / pz_plan_cp(plan),
                                  .mbs = plan->mbs / chains,
                                  .scheduled = m->runs && pz_step_is_scheduled(&m->cost.chip, plan),
                                  .chains = chains,
                                  .solved = m->solved,
                                  .flash = m->w->options.attention == PZ_ATTENTION_FLASH,
                                  .adapted =
                                      m->w->options.lora.rank ? m->w->options.lora.modules : 0,
                                  .experts_per_token = m->w->experts_per_token,
                                  .expert_groups = m->w->expert_groups,
                                  .imbalance = m->imbalance,
                                  .microbatches = microbatches,
                                  .gathers = pz_plan_gathers_per_layer(plan),
                                  .beside = beside};
}

/* GEMMs of repeated layers alone. */
static enum pz_format format_of(const struct pz_layer *l, const struct pz_plan *plan) {
  return pz_is_block(l) && !l->wide ? pz_plan_format(plan) : PZ_FORMAT_16BIT;
}

struct pz_step_context pz_step_layer_context(struct pz_step_model *m, const struct pz_plan *plan,
                                             uint32_t layer) {
  m->cost.net.devices = pz_plan_devices(plan); /* of the job: its part of a torus */
  struct pz_step_context c = context(m, plan, pz_plan_microbatches(plan));
  c.format = format_of(&pz_step_pass(m)->layers[layer], plan);
  c.solver_steps = PZ_PASS_STEPS;
  return c;
}

static void time_kernels(struct pz_call *call, struct pz_step_model *m, const struct pz_plan *plan,
                         struct pz_kernels_of *of) {
  struct pz_step_context c = context(m, plan, 1);
  const struct pz_workload *w = pz_step_pass(m);
  for (uint32_t i = 0; i < w->n_layers; i++) {
    c.format = format_of(&w->layers[i], plan);
    pz_layer_kernels(call, &c, &w->layers[i], &of->kernels[i]);
  }
  of->dispatcher = (int)pz_plan_dispatcher(plan);
  of->cuda_graphs = plan->cuda_graphs;
  m->kernels = of->kernels;
}

/* Kernels of the chip at hand: those of one kind of plan alone are known. */
static void time_first(struct pz_call *call, struct pz_step_model *m, const struct pz_plan *plan) {
  for (int i = 0; i < 2 * PZ_TIMED_PLANS; i++) m->by[i].timed = false;
  m->n_of = 1;
  time_kernels(call, m, plan, &m->of[0]);
}

/* The kernels of such a plan, timed when one is met first. */
static void use_kernels(struct pz_call *call, struct pz_step_model *m, const struct pz_plan *plan) {
  int dispatcher = (int)pz_plan_dispatcher(plan);
  for (int i = 0; i < m->n_of; i++)
    if (m->of[i].dispatcher == dispatcher && m->of[i].cuda_graphs == plan->cuda_graphs) {
      m->kernels = m->of[i].kernels;
      return;
    }
  if (m->runs || m->n_of == PZ_STEP_VARIANTS) {
    time_first(call, m, plan);
    return;
  }
  struct pz_kernels_of *of = &m->of[m->n_of];
  struct pz_call own = pz_call_in(call, &m->arena);
  if (!of->kernels) of->kernels = pz_alloc(&own, m->w->n_layers, sizeof *of->kernels);
  time_kernels(call, m, plan, of);
  m->n_of++;
}

static void make_runs(struct pz_call *own, struct pz_step_model *m) {
  const struct pz_workload *w = pz_step_pass(m);
  size_t n = 0;
  for (uint32_t i = 0; i < w->n_layers; i++)
    n += w->layers[i].ops[PZ_FORWARD].n + w->layers[i].ops[PZ_BACKWARD].n;
  m->runs = pz_alloc(own, n + 1, sizeof *m->runs);
  m->solved = pz_solved_passes_new(own);
  n = 0;
  for (uint32_t i = 0; i < w->n_layers; i++)
    for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
      m->kernels[i].runs[d] = m->runs + n;
      n += w->layers[i].ops[d].n;
    }
}

static void make_tables(struct pz_call *own, struct pz_step_model *m, bool scheduled) {
  m->kernels = m->of[0].kernels = pz_alloc(own, m->w->n_layers, sizeof *m->kernels);
  m->block_params = pz_alloc(own, m->kinds.n, sizeof *m->block_params);
  for (int i = 0; i < 2 * PZ_TIMED_PLANS; i++) {
    struct pz_model_steps *s = &m->by[i].steps;
    s->block = pz_alloc(own, m->kinds.n, sizeof *s->block);
    s->again = pz_alloc(own, m->kinds.n, sizeof *s->again);
  }
  m->steps = &m->by[0].steps;
  if (scheduled) make_runs(own, m);
}

struct pz_step_model *pz_step_model_new(struct pz_call *call, const struct pz_job *job,
                                        const struct pz_plan *plan) {
  struct pz_step_model *m = pz_calloc(1, sizeof *m);
  if (!m) pz_raise(call, PZ_NO_MEMORY, "out of memory for the prediction");
  pz_defer(call, pz_step_model_free, m);
  struct pz_call own = pz_call_in(call, &m->arena);
  m->k = job->constants ? job->constants : &pz_constants_default;
  load_all(call, m, job, plan);
  m->kinds = pz_layer_kinds_of(&own, m->w);
  make_tables(&own, m, pz_step_is_scheduled(job->chip, plan));
  m->seq = m->w->options.seq;
  m->n_blocks = m->kinds.n_blocks;
  count_params(m, plan);
  use_chip(m, job->chip, job->net, plan);
  m->cost.times = job->times;
  m->memory = pz_memory_model_of(m->fullest ? m->fullest : m->w, &m->kinds, job->chip, plan);
  time_first(call, m, plan);
  return m;
}

void pz_step_model_set_chip(struct pz_call *call, struct pz_step_model *m,
                            const struct pz_chip *chip, const struct pz_cluster *net,
                            const struct pz_plan *plan, struct pz_product_times *times) {
  pz_cost_release(&m->cost);
  use_chip(m, chip, net, plan);
  m->cost.times = times;
  pz_solved_passes_clear(m->solved);
  time_first(call, m, plan);
}

void pz_step_model_free(void *model) {
  struct pz_step_model *m = model;
  if (!m) return;
  if (m->cost.chip.name[0]) pz_cost_release(&m->cost);
  pz_solved_passes_clear(m->solved);
  pz_workload_free(m->half);
  pz_workload_free(m->fullest);
  pz_workload_free(m->w);
  pz_arena_release(&m->work);
  pz_arena_release(&m->arena);
  pz_free(m);
}

struct pz_call pz_step_model_work(const struct pz_call *call, struct pz_step_model *m) {
  pz_arena_release(&m->work);
  return pz_call_in(call, &m->work);
}

/* ---- layers of a plan ----------------------------------------------------------------------- */

static bool same(const struct pz_steps_key *a, const struct pz_steps_key *b) {
  return a->recompute == b->recompute && a->overlap == b->overlap && a->saved == b->saved &&
         a->modules == b->modules && a->pipeline == b->pipeline && a->dispatcher == b->dispatcher &&
         a->cuda_graphs == b->cuda_graphs && a->devices == b->devices && a->shards == b->shards &&
         a->expert_shards == b->expert_shards && a->several == b->several &&
         a->gathers == b->gathers && a->autocasts == b->autocasts;
}

/* The part of a torus that a job has decides about its collectives; other networks do not care. */
static int64_t key_devices(const struct pz_step_model *m) {
  for (int i = 0; i < m->cost.net.n_levels; i++)
    if (m->cost.net.level[i].n_axes) return m->cost.net.devices;
  return 0;
}

void pz_step_model_time(struct pz_call *call, struct pz_step_model *m, const struct pz_plan *plan,
                        int64_t microbatches, enum pz_timing timing) {
  m->cost.net.devices = pz_plan_devices(plan); /* of the job: its part of a torus */
  use_kernels(call, m, plan);
  bool often = pz_plan_scatters_per_microbatch(plan);
  struct pz_steps_key key = {.recompute = plan->recompute,
                             .overlap = plan->overlap & (int)(PZ_OVERLAP_TP | PZ_OVERLAP_EP),
                             .saved = plan->saved,
                             .modules = pz_plan_recomputed_modules(plan),
                             .pipeline = plan->pipeline,
                             .dispatcher = (int)pz_plan_dispatcher(plan),
                             .cuda_graphs = plan->cuda_graphs,
                             .devices = key_devices(m),
                             .shards = often ? pz_plan_shards(plan) : 1,
                             .expert_shards = often ? pz_plan_expert_shards(plan) : 1,
                             .several = microbatches > 1,
                             .gathers = pz_plan_gathers_per_layer(plan),
                             .autocasts = pz_plan_autocasts(plan)};
  struct pz_step_context c = context(m, plan, microbatches);
  if (!c.scheduled) timing = PZ_TIMING_BOUND;
  if (timing == PZ_TIMING_SOLVED) c.solver_steps = PZ_PASS_STEPS;
  struct pz_timed_steps *all = m->by + (timing == PZ_TIMING_SOLVED ? PZ_TIMED_PLANS : 0);
  for (int i = 0; i < PZ_TIMED_PLANS; i++)
    if (all[i].timed && same(&key, &all[i].key)) {
      m->steps = &all[i].steps;
      return;
    }
  struct pz_call work = pz_step_model_work(call, m);
  struct pz_timed_steps *timed = &all[m->n_timed++ % PZ_TIMED_PLANS];
  struct pz_model_steps *t = &timed->steps;
  m->steps = t;
  uint32_t kind = 0;
  t->before = t->after = (struct pz_layer_step){.forward_s = 0};
  timed->timed = false;
  for (uint32_t i = 0; i < m->w->n_layers; i++) {
    const struct pz_layer *l = &pz_step_pass(m)->layers[i];
    c.format = format_of(l, plan);
    struct pz_layer_step one = pz_layer_step(&work, &c, l, &m->kernels[i], false);
    if (kind == m->kinds.n || m->kinds.layer[kind] != i) {
      pz_layer_step_add(kind ? &t->after : &t->before, &one, (double)l->count);
      continue;
    }
    t->block[kind] = t->again[kind] = one;
    if (plan->recompute != PZ_RECOMPUTATION_NONE)
      t->again[kind] = pz_layer_step(&work, &c, l, &m->kernels[i], true);
    kind++;
  }
  timed->key = key;
  timed->timed = true;
}

double pz_step_host_bytes(const struct pz_step_model *m, const struct pz_plan *plan,
                          int64_t stage) {
  return pz_host_bytes(&m->memory, plan, pz_plan_microbatches(plan), stage);
}

struct pz_training_memory pz_step_memory(const struct pz_step_model *m, const struct pz_plan *plan,
                                         int64_t stage) {
  return pz_training_memory(&m->memory, plan, pz_plan_microbatches(plan), stage);
}

double pz_step_needed_bytes(const struct pz_step_model *m, const struct pz_plan *plan,
                            int64_t stage) {
  struct pz_training_memory peak = pz_step_memory(m, plan, stage);
  return pz_reserved_of(&m->memory, m->k, plan, &peak).high;
}
