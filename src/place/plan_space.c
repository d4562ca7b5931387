#include "place/plan_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/pool.h"
#include "core/text.h"
#include "plan/plan_fill.h"
#include "workload/workload.h"

enum { MOST_MBS = 128, MOST_CHUNKS = 1024, MOST_CP = 32, MOST_EP = 1024, MOST_LAYERS = 1024 };

/* Of plans that a framework is asked about before there are any. */
enum { MOST_REPLICAS = 1 << 20 };

/* Models that are held beside those of shapes whose plans are priced, some hundred kilobytes each. */
enum { MOST_MODELS = 1024 };

enum pz_status pz_plan_no_memory(const struct pz_plan_space *s) {
  return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
}

enum pz_status pz_plan_stopped(const struct pz_plan_space *s) {
  return pz_fail(s->err, PZ_STOPPED, "stopped");
}

/* ---- a shape ----------------------------------------------------------------------------------- */

struct pz_plan pz_step_shape_plan(const struct pz_plan_question *q,
                                  const struct pz_step_shape *shape) {
  struct pz_plan p = q->plan;
  p.tp = shape->tp;
  p.sp = shape->sp;
  p.cp = shape->cp;
  p.ep = shape->ep;
  p.mbs = shape->mbs;
  p.halves = shape->halves;
  p.pp = p.vpp = p.dp = 1;
  p.pipeline = PZ_PIPELINE_1F1B;
  p.first_layers = p.last_layers = 0;
  p.zero = 0;
  p.recompute = PZ_RECOMPUTATION_NONE;
  p.recompute_layers = 0;
  p.stage_recompute = NULL;
  p.offload = p.offload_modules = 0;
  p.offload_layers = 0;
  p.offload_fraction = 0;
  return p;
}

enum pz_status pz_step_shape_open(const struct pz_plan_question *q, struct pz_step_shape *x,
                                  struct pz_error *err) {
  struct pz_plan p = pz_step_shape_plan(q, x);
  if (x->m) return PZ_OK;
  return pz_step_model_new(&q->job, &p, &x->m, err);
}

struct pz_plan pz_step_shape_least(const struct pz_plan_question *q,
                                   const struct pz_step_shape *shape) {
  struct pz_plan p = pz_step_shape_plan(q, shape);
  /* sharded plans do not cast weights in every pass, and add up the least of their gradients */
  p.zero = q->pinned & PZ_PLAN_PIN(ZERO) ? (int)pz_min(q->plan.zero, 2) : 2;
  p.dp = pz_max(1, q->plan.devices / (p.tp * p.cp));
  return p;
}

static void close_shape(struct pz_step_shape *x) {
  pz_step_model_free(x->m);
  x->m = NULL;
}

/* ---- variants ---------------------------------------------------------------------------------- */

static void set_variant(const struct pz_plan_space *s, uint32_t variant, struct pz_plan *p) {
  p->dispatcher = s->variant[variant].dispatcher;
  p->cuda_graphs = s->variant[variant].cuda_graphs;
}

/* A dispatcher has nothing to do where no tokens are sent. */
static bool has_variant(const struct pz_plan_space *s, const struct pz_step_shape *x,
                        uint32_t variant) {
  return x->ep > 1 || s->variant[variant].dispatcher == s->variant[0].dispatcher;
}

/* Each dispatcher that the framework has on the chip, without CUDA graphs and with graphs of all that it can capture.  The
 * first variant is what the question says, or the framework's default. */
static void list_variants(struct pz_plan_space *s) {
  const struct pz_plan_question *q = s->q;
  uint64_t open = q->switches ? ~q->fixed : 0;
  int own = q->plan.dispatcher, graphs = 0;
  unsigned dispatchers = 0;
  if (open & PZ_PLAN_PIN(DISPATCHER) && s->model.experts)
    dispatchers = pz_framework_dispatchers(q->plan.framework, q->job.chip, q->without);
  if (open & PZ_PLAN_PIN(CUDA_GRAPHS))
    graphs = pz_framework_graphs(q->plan.framework, q->job.chip, &s->model, q->without);
  for (int d = -1; d < PZ_DISPATCHERS; d++) {
    int dispatcher = d < 0 ? own : d;
    if (d >= 0 && (d == own || !(dispatchers >> d & 1))) continue;
    s->variant[s->n_variants++] = (struct pz_plan_variant){dispatcher, q->plan.cuda_graphs};
    if (graphs && graphs != q->plan.cuda_graphs)
      s->variant[s->n_variants++] = (struct pz_plan_variant){dispatcher, graphs};
  }
}

/* ---- times of a shape -------------------------------------------------------------------------- */

static double kernels_s(const struct pz_pass *p) {
  return p->products_s + p->attention_s + p->elementwise_s;
}

/* Seconds of a microbatch through all layers, without recomputation.  On a torus collectives depend on the job's size:
 * there kernels alone. */
static enum pz_status order_s(const struct pz_plan_space *space, struct pz_step_shape *x,
                              uint32_t variant, int64_t microbatches, enum pz_pipeline_order order,
                              double *out) {
  struct pz_plan p = pz_step_shape_least(space->q, x);
  set_variant(space, variant, &p);
  const struct pz_step_model *m = x->m;
  p.pipeline = (int)order;
  enum pz_status status = pz_step_model_time(x->m, &p, microbatches, PZ_TIMING_BOUND, &x->err);
  if (status != PZ_OK) return status;
  bool torus = m->cost.net.n_levels && m->cost.net.level[0].n_axes;
  *out = pz_layer_step_s(&m->steps->before) + pz_layer_step_s(&m->steps->after);
  for (uint32_t k = 0; k < m->kinds.n; k++)
    *out += (double)m->w->layers[m->kinds.layer[k]].count * pz_layer_step_s(&m->steps->block[k]);
  if (!torus) return PZ_OK;
  *out = 0;
  for (uint32_t l = 0; l < m->w->n_layers; l++)
    *out += (double)m->w->layers[l].count *
            (kernels_s(&m->kernels[l].forward) + kernels_s(&m->kernels[l].backward));
  return PZ_OK;
}

/* In whatever order is fastest: in some tokens on their way to experts do not show. */
static enum pz_status microbatch_s(const struct pz_plan_space *s, struct pz_step_shape *x,
                                   uint32_t variant, int64_t microbatches, double *out) {
  static const enum pz_pipeline_order orders[] = {PZ_PIPELINE_1F1B, PZ_PIPELINE_DUALPIPE_V,
                                                  PZ_PIPELINE_DUALPIPE};
  enum pz_status status = PZ_OK;
  *out = HUGE_VAL;
  for (size_t i = 0; i < sizeof orders / sizeof *orders && status == PZ_OK; i++) {
    double one = HUGE_VAL;
    if (!i || (x->ep > 1 && s->orders >> orders[i] & 1))
      status = order_s(s, x, variant, microbatches, orders[i], &one);
    *out = pz_fmin(*out, one);
  }
  return status;
}

enum pz_status pz_step_shape_time(const struct pz_plan_space *s, struct pz_step_shape *x) {
  enum pz_status status = PZ_OK;
  for (uint32_t v = 0; v < s->n_variants && status == PZ_OK; v++) {
    struct pz_shape_time *t = &x->time[v];
    if (!has_variant(s, x, v)) continue;
    status = microbatch_s(s, x, v, 2, &t->several_s);
    t->once_s = t->several_s;
    if (status == PZ_OK && !x->never_once) status = microbatch_s(s, x, v, 1, &t->once_s);
  }
  return status;
}

double pz_step_shape_share(const struct pz_plan_question *q, const struct pz_step_shape *x) {
  return (double)(q->plan.batch * x->tp * x->cp) / (double)(x->mbs * q->plan.devices);
}

/* ---- what a plan is worth --------------------------------------------------------------------- */

double pz_plan_value(const struct pz_plan_space *s, const struct pz_plan *p, double step_s,
                     double needed_bytes) {
  if (s->q->objective == PZ_PLAN_MEMORY) return needed_bytes;
  if (s->q->counted) step_s *= 1 + pz_risk_error(&s->risk, pz_plan_features(p, &s->features));
  return s->q->objective == PZ_PLAN_COST ? step_s * (double)pz_plan_devices(p) : step_s;
}

static void find_risk(struct pz_plan_space *s, const struct pz_step_model *m) {
  const struct pz_plan_question *q = s->q;
  s->features = (struct pz_feature_context){
      .experts = s->model.experts > 0, .layers = s->n_blocks, .node = s->node};
  for (uint32_t l = 0; l < m->w->n_layers; l++)
    for (uint32_t i = 0; i < m->w->layers[l].ops[PZ_FORWARD].n; i++) {
      const struct pz_op *op = &m->w->layers[l].ops[PZ_FORWARD].op[i];
      s->features.scans |= pz_op_is_scan(op->kind);
      s->features.sparse |= strncmp(op->name, "index_", 6) == 0;
    }
  struct pz_risk_question r = {.chip = q->job.chip,
                               .net = q->plan.devices > s->node ? q->job.net : NULL,
                               .experts = s->features.experts,
                               .precision = q->plan.precision,
                               .devices = q->plan.devices,
                               .seq = m->seq};
  if (q->counted) s->risk = pz_risk_built_in(&r);
}

/* ---- what the framework can run ------------------------------------------------------------- */

void pz_plan_space_settle(const struct pz_plan_space *s, struct pz_plan *p) {
  p->devices = pz_plan_devices(p);
  p->seq = s->seq;
  p->overlap = s->q->plan.overlap;
  if (!(s->q->pinned & PZ_PLAN_PIN(OVERLAP))) (void)pz_rule_list_overlap(&s->rules, p, &s->model);
}

static const enum pz_recomputation recomputations[PZ_PLAN_RECOMPUTATIONS] = {
    PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_SELECTIVE, PZ_RECOMPUTATION_ALTERNATE,
    PZ_RECOMPUTATION_HALF, PZ_RECOMPUTATION_FULL};

static void set_recompute(struct pz_plan *p, enum pz_recomputation how) {
  p->recompute = (int)how;
  p->recompute_layers = 0;
  p->stage_recompute = NULL;
}

/* What a plan has on the host: nothing, what the question says, or all of what it allows. */
static void set_offload(const struct pz_plan_space *s, struct pz_plan *p,
                        const struct pz_plan_way *w) {
  const struct pz_plan *q = &s->q->plan;
  p->offload = (w->activations ? (int)PZ_OFFLOAD_ACTIVATIONS : 0) |
               (w->fraction > 0 ? (int)PZ_OFFLOAD_OPTIMIZER : 0);
  p->offload_layers = w->activations ? q->offload_layers : 0;
  p->offload_modules = w->activations ? q->offload_modules : 0;
  p->offload_fraction = w->fraction;
}

struct pz_plan pz_plan_unburdened(const struct pz_plan *p) {
  struct pz_plan x = *p;
  if (x.recompute == PZ_RECOMPUTATION_FULL) set_recompute(&x, PZ_RECOMPUTATION_NONE);
  x.offload &= ~(int)PZ_OFFLOAD_ACTIVATIONS; /* of what is recomputed less goes to the host */
  return x;
}

static void take(const struct pz_plan_space *s, struct pz_plan *p, const struct pz_plan_way *w) {
  set_recompute(p, w->recompute);
  set_offload(s, p, w);
}

/* May a plan with the way's recomputation have its activations on the host, of one layer or of all? */
static bool can_recompute(const struct pz_plan_space *s, struct pz_plan *p) {
  struct pz_plan one = *p;
  if (pz_rule_list_group_can(&s->rules, PZ_RULE_RECOMPUTES, p, &s->model)) return true;
  one.offload_layers = 1;
  return pz_plan_chooses_layers(s->q, p) &&
         pz_rule_list_group_can(&s->rules, PZ_RULE_RECOMPUTES, &one, &s->model);
}

/* May the plan go this way, by the question and by its framework?  The plan is told of it. */
static bool allows(const struct pz_plan_space *s, struct pz_plan *p, const struct pz_plan_way *w) {
  take(s, p, w);
  if (!(s->recomputations >> w->recompute & 1)) return false;
  pz_plan_space_settle(s, p);
  return pz_rule_list_group_can(&s->rules, PZ_RULE_PLAIN, p, &s->model) &&
         pz_rule_list_group_can(&s->rules, PZ_RULE_SHARDS, p, &s->model) && can_recompute(s, p);
}

static bool is_alone(const struct pz_plan *p) {
  return pz_plan_replicas(p) == 1 && pz_plan_expert_replicas(p) == 1;
}

/* Moments of fewer bits go with a sharded optimizer, without replicas too, but not on the host: it depends on the way.  So
 * do weights in 8 bit alone. */
static bool has_smaller_state(const struct pz_plan_space *s, const struct pz_plan *p) {
  struct pz_plan whole = *p;
  bool experts = s->model.experts > 0;
  whole.zero = 0;
  const struct pz_framework *f = pz_plan_framework(p);
  if (f->engine && !(f->fp8_weight_bytes > 0) && pz_plan_8bit_weights(p)) return true;
  return pz_plan_moment_bytes(p, experts) < pz_plan_moment_bytes(&whole, experts);
}

/* Overlap that costs software or certainty.  With less of it no step is faster, but one may count as less. */
static const int dear[] = {0, PZ_OVERLAP_EP, PZ_OVERLAP_TP, PZ_OVERLAP_EP | PZ_OVERLAP_TP};

/* Overlaps of the plan, which has all that it can. */
static uint64_t count_overlaps(const struct pz_plan_space *s, const struct pz_plan *p) {
  uint64_t n = 0;
  for (size_t i = 0; i < s->overlaps; i++) n += (pz_plan_overlap(p) & dear[i]) == dear[i];
  return n;
}

/* Ways of a plan that the plain rules allow; of one with ZeRO but without replicas those that it has not without, or with
 * moments of more bits. */
static void find_ways(struct pz_plan_space *s, struct pz_plan *p) {
  bool can = true, known = false; /* by the rules that do not look at them */
  bool vain = p->zero && is_alone(p) && !(s->q->pinned & PZ_PLAN_PIN(ZERO));
  s->ways.n = 0;
  for (size_t i = 0; i < s->n_ways; i++) {
    s->ways.allowed[i] = false;
    if (!(s->recomputations >> s->way[i].recompute & 1) || (known && !can)) continue;
    take(s, p, &s->way[i]);
    /* of the overlaps only that of experts depends on the recomputation */
    if (!known || p->ep > 1) pz_plan_space_settle(s, p);
    if (!known) can = pz_rule_list_group_can(&s->rules, PZ_RULE_SHARDS, p, &s->model);
    known = true;
    s->ways.allowed[i] = can && can_recompute(s, p);
    s->ways.overlap[i] = p->overlap;
    if (vain && s->ways.allowed[i] && !has_smaller_state(s, p)) {
      struct pz_plan whole = *p;
      whole.zero = 0;
      s->ways.allowed[i] = !allows(s, &whole, &s->way[i]);
    }
    if (s->ways.allowed[i]) s->ways.n += count_overlaps(s, p);
  }
}

/* Of the optimizer nothing, or what the question says, or quarters; of activations none, or some. */
static void list_ways(struct pz_plan_space *s) {
  const struct pz_plan *p = &s->q->plan;
  bool optimizer = p->offload & PZ_OFFLOAD_OPTIMIZER, away = p->offload & PZ_OFFLOAD_ACTIVATIONS;
  int quarters = optimizer && !(p->offload_fraction > 0) ? PZ_PLAN_FRACTIONS : 1;
  int first = away && (p->offload_layers || p->offload_modules);
  bool some = s->q->switches && s->q->counted && !(s->q->pinned & PZ_PLAN_PIN(OVERLAP));
  s->overlaps = some ? sizeof dear / sizeof *dear : 1;
  s->n_ways = 0;
  for (int q = 0; q < quarters; q++)
    for (int a = first; a <= away; a++)
      for (size_t i = 0; i < PZ_PLAN_RECOMPUTATIONS; i++)
        s->way[s->n_ways++] = (struct pz_plan_way){recomputations[i], a,
                                                   quarters > 1 ? q / 4.0 : p->offload_fraction};
}

/* A plan whose sizes divide whatever must, with this ZeRO stage. */
static struct pz_plan probe(const struct pz_plan_space *s, int64_t pp, int zero) {
  struct pz_plan p = s->q->plan;
  p.tp = p.cp = p.ep = p.mbs = p.vpp = 1;
  p.etp = p.shard = p.seq = 0;
  p.sp = p.pipeline = 0;
  p.pp = pp;
  p.dp = 2;
  p.batch = 64;
  p.zero = zero;
  take(s, &p, &(struct pz_plan_way){PZ_RECOMPUTATION_NONE, false, 0});
  return p;
}

static bool can_probe(struct pz_plan *p, const struct pz_model_shape *m) {
  p->overlap = pz_framework_overlap(p, m);
  return pz_framework_can(p, m, NULL);
}

/* Recomputations that are asked for, and that the framework has at all.  Every second layer is no better than half of
 * the layers, where the framework can choose these. */
static unsigned list_recomputations(const struct pz_plan_space *s) {
  unsigned set = 0;
  if (s->q->pinned & PZ_PLAN_PIN(RECOMPUTE)) return 1U << s->q->plan.recompute;
  for (int how = 0; how < PZ_RECOMPUTATIONS; how++)
    for (int zero = 0; zero <= 3; zero++) {
      struct pz_plan p = probe(s, 1, zero);
      bool chosen = pz_framework_recompute(&p) != PZ_RECOMPUTE_ALL;
      set_recompute(&p, (enum pz_recomputation)how);
      if (!(how == PZ_RECOMPUTATION_HALF && chosen) && can_probe(&p, NULL)) set |= 1U << how;
    }
  return set;
}

/* Orders of a pipeline that the framework has at all.  GPipe is no better than 1F1B: only where it is asked for. */
static unsigned list_orders(const struct pz_plan_space *s) {
  struct pz_model_shape any = s->model;
  unsigned set = 0;
  any.tied = false;
  any.layers = 0;
  for (int i = 0; i < PZ_PIPELINES; i++)
    for (int zero = 0; zero <= 3; zero++) {
      struct pz_plan p = probe(s, 4, zero);
      uint32_t chunks = pz_pipeline_chunks((enum pz_pipeline_order)i);
      p.vpp = chunks ? chunks : 2;
      p.pipeline = i;
      if (i == PZ_PIPELINE_GPIPE && !(s->q->pinned & PZ_PLAN_PIN(PIPELINE))) continue;
      if (can_probe(&p, &any)) set |= 1U << i;
    }
  return set;
}

bool pz_plan_space_take(const struct pz_plan_space *s, struct pz_plan *p, size_t way) {
  size_t k = way / s->overlaps;
  int without = dear[way % s->overlaps];
  take(s, p, &s->way[k]);
  p->overlap = s->ways.overlap[k];
  bool has = (pz_plan_overlap(p) & without) == without;
  p->overlap &= ~without;
  return has && s->ways.allowed[k];
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* Whole nodes; of each the largest power of two of its devices (64 of a domain of 72); or a part of one. */
static bool on_nodes(const struct pz_plan_space *s, int64_t devices) {
  int64_t part = 1, all = s->q->plan.devices;
  while (2 * part <= s->node) part *= 2;
  if (devices > all || (s->q->all_devices && devices != all)) return false;
  if (devices <= s->node || devices % s->node == 0) return true;
  return devices % part == 0 && devices / part <= (all % s->node ? all / part : all / s->node);
}

static enum pz_status list_divisors(struct pz_plan_space *s) {
  const struct pz_plan *q = &s->q->plan;
  for (int64_t d = 1; d <= pz_min(q->batch, q->devices); d++)
    if (q->batch % d == 0 && !pz_vec_push(&s->divisors, &d)) return pz_plan_no_memory(s);
  return PZ_OK;
}

/* Could the framework run a plan of this shape?  Rules ask for one stage or several, and for replicas: one or several, a
 * number that ep or the group of shards divides, or just this group. */
static bool can_run(const struct pz_plan_space *s, const struct pz_step_shape *x) {
  struct pz_plan p = pz_step_shape_plan(s->q, x);
  int64_t shard = pz_max(p.shard, 1);
  const int64_t replicas[] = {1, x->ep, 2 * x->ep, shard, shard / x->cp, 2 * shard * x->ep};
  for (size_t i = 0; i < 8 * sizeof replicas / sizeof *replicas; i++) {
    p.pp = i & 1 ? 2 : 1;
    p.zero = i >> 1 & 3;
    p.dp = pz_max(pz_min(replicas[i >> 3], MOST_REPLICAS), 1);
    p.batch = 4 * p.mbs * p.dp;
    if (p.pp > 1 && s->n_blocks < 2) continue;
    for (size_t k = 0; k < s->n_ways; k++)
      if (allows(s, &p, &s->way[k])) return true;
  }
  return false;
}

/* Does the model allow groups of these sizes? */
static bool can_divide(const struct pz_plan_space *s, const struct pz_workload *w,
                       const struct pz_step_shape *x) {
  const struct pz_plan_question *q = s->q;
  int64_t seq = w->options.seq, part = seq / x->cp;
  if (!pz_heads_divide(w->heads, w->kv_heads, x->tp)) return false;
  if (x->cp > 1 && (seq % (2 * x->cp) || q->plan.attention != PZ_ATTENTION_FLASH)) return false;
  if (x->tp * x->cp > q->plan.devices || q->plan.batch % x->mbs || (x->sp && part % x->tp))
    return false;
  return PZ_PLAN_ALLOWS(q, TP, tp, x->tp) && PZ_PLAN_ALLOWS(q, MBS, mbs, x->mbs) &&
         (x->tp == 1 || PZ_PLAN_ALLOWS(q, SP, sp, x->sp)) &&
         PZ_PLAN_ALLOWS(q, HALVES, halves, x->halves) && can_run(s, x);
}

/* The expert-parallel degree after this one, powers of two that divide the experts, and their number; 0: none. */
static int64_t next_ep(const struct pz_plan_question *q, int64_t experts, int64_t ep) {
  int64_t most = pz_min(experts, pz_min(q->plan.devices, MOST_EP)), next = 2 * ep;
  if (q->pinned & PZ_PLAN_PIN(EP)) return 0;
  while (next <= most && experts % next) next *= 2;
  return next <= most ? next : ep < experts && experts == most ? experts : 0;
}

static enum pz_status add_shapes(struct pz_plan_space *s, const struct pz_workload *w) {
  const struct pz_plan_question *q = s->q;
  const struct pz_plan *p = &q->plan;
  bool pinned_cp = q->pinned & PZ_PLAN_PIN(CP);
  int64_t most_tp = q->pinned & PZ_PLAN_PIN(TP) ? p->tp : pz_min(s->node, p->devices);
  int64_t most_cp = pinned_cp ? pz_plan_cp(p) : MOST_CP, first_cp = pinned_cp ? most_cp : 1;
  int64_t most_mbs = pz_min(p->batch, q->pinned & PZ_PLAN_PIN(MBS) ? p->mbs : MOST_MBS);
  int64_t first_ep = q->pinned & PZ_PLAN_PIN(EP) ? pz_plan_ep(p) : 1;
  int may_halve = pz_step_is_scheduled(q->job.chip, p);
  struct pz_step_shape x = {.tp = 1};
  for (x.tp = 1; x.tp <= most_tp; x.tp++)
    for (x.cp = first_cp; x.cp <= most_cp; x.cp *= 2)
      for (x.mbs = 1; x.mbs <= most_mbs; x.mbs++)
        for (int sp = 0; sp <= (x.tp > 1); sp++)
          for (x.ep = first_ep; x.ep; x.ep = next_ep(q, w->experts, x.ep))
            for (int halves = 0; halves <= may_halve; halves++) {
              x.sp = sp;
              x.halves = halves;
              if (can_divide(s, w, &x) && !pz_vec_push(&s->shapes, &x)) return pz_plan_no_memory(s);
            }
  return PZ_OK;
}

static void make_shape(void *ctx, size_t i, unsigned worker) {
  struct pz_plan_space *s = ctx;
  struct pz_step_shape *x = pz_shape_at(s, (uint32_t)i);
  (void)worker;
  pz_progress_add(s->q->progress, 1);
  x->status = pz_plan_question_over(s->q) ? pz_fail(&x->err, PZ_STOPPED, "stopped")
                                          : pz_step_shape_open(s->q, x, &x->err);
  if (x->status == PZ_OK) x->status = pz_step_shape_time(s, x);
  if (i >= MOST_MODELS) close_shape(x);
}

/* A model for every shape; those that the model's layers do not allow are left out. */
static enum pz_status make_shapes(struct pz_plan_space *s) {
  struct pz_pool *pool = NULL;
  enum pz_status status = pz_pool_new(s->q->threads, &pool, s->err);
  if (status != PZ_OK) return status;
  pz_progress_next(s->q->progress, "shapes", "shapes", s->shapes.n);
  pz_pool_for(pool, s->shapes.n, make_shape, s);
  pz_pool_free(pool);
  pz_progress_finish(s->q->progress, NULL);
  uint32_t n = 0;
  struct pz_error refused = {0};
  for (uint32_t i = 0; i < s->shapes.n; i++) {
    struct pz_step_shape x = *pz_shape_at(s, i);
    bool no_plan = x.status == PZ_BAD_USE || x.status == PZ_BAD_INPUT || x.status == PZ_LIMIT;
    if (no_plan && !refused.status) refused = x.err;
    if (x.status != PZ_OK && !no_plan && status == PZ_OK)
      status = pz_fail(s->err, x.status, "%s", x.err.message);
    if (x.status == PZ_OK)
      *pz_shape_at(s, n++) = x;
    else
      close_shape(&x);
  }
  s->shapes.n = n;
  if (status == PZ_OK && !n && refused.status)
    return pz_fail(s->err, refused.status, "%s", refused.message);
  return status;
}

/* ---- grids ----------------------------------------------------------------------------------- */

struct pz_plan pz_plan_grid_plan(const struct pz_plan_space *s, const struct pz_plan_grid *g) {
  struct pz_plan p = pz_step_shape_plan(s->q, pz_shape_at(s, g->shape));
  set_variant(s, g->variant, &p);
  p.overlap = 0; /* each plan has its own, and no plan of the grid counts as less than without */
  p.pp = g->pp;
  p.dp = g->dp;
  return p;
}

double pz_plan_grid_bound_s(const struct pz_plan_question *q, const struct pz_step_shape *x,
                            const struct pz_plan_grid *g) {
  int64_t microbatches = q->plan.batch / (x->mbs * g->dp);
  const struct pz_shape_time *t = &x->time[g->variant];
  double all = microbatches == 1 ? t->once_s : t->several_s;
  double waiting = pz_step_waiting(q->job.constants, q->job.net, x->tp * x->cp * g->pp * g->dp);
  return (double)microbatches * all / (double)g->pp * (1 + waiting);
}

static enum pz_status add_grids(struct pz_plan_space *s) {
  const struct pz_plan_question *q = s->q;
  for (uint32_t i = 0; i < s->shapes.n; i++) {
    const struct pz_step_shape *x = pz_shape_at(s, i);
    int64_t group = x->tp * x->cp, most_pp = pz_min(s->n_blocks, q->plan.devices / group);
    if (pz_plan_question_over(q)) return pz_plan_stopped(s);
    for (int64_t pp = 1; pp <= most_pp; pp++)
      for (uint32_t d = 0; d < s->divisors.n; d++) {
        int64_t dp = *pz_vec_at(&s->divisors, int64_t, d);
        if (dp > q->plan.devices / (group * pp)) break;
        if (!PZ_PLAN_ALLOWS(q, PP, pp, pp) || !PZ_PLAN_ALLOWS(q, DP, dp, dp) ||
            q->plan.batch % (dp * x->mbs))
          continue;
        struct pz_plan_grid g = {.shape = i, .pp = pp, .dp = dp};
        struct pz_plan p = pz_plan_grid_plan(s, &g);
        bool experts = group * dp % (pz_plan_ep(&p) * pz_plan_etp(&p)) == 0; /* all of a stage */
        if (!experts || !on_nodes(s, group * pp * dp)) continue;
        for (g.variant = 0; g.variant < s->n_variants; g.variant++) {
          if (!has_variant(s, x, g.variant)) continue;
          p = pz_plan_grid_plan(s, &g);
          g.bound_s = pz_plan_grid_bound_s(s->q, x, &g);
          g.bound = pz_plan_value(s, &p, g.bound_s, 0);
          if (!pz_vec_push(&s->grids, &g)) return pz_plan_no_memory(s);
        }
      }
  }
  return PZ_OK;
}

/* ---- plans of a grid --------------------------------------------------------------------------- */

/* May stages have so many chunks, in this order? */
static bool can_order(const struct pz_plan *p, int64_t blocks) {
  int64_t n = p->pp * p->vpp, microbatches = p->batch / (p->mbs * p->dp);
  struct pz_pipeline_shape shape = pz_plan_shape(p);
  bool v = pz_is_v_pipeline(shape.order);
  if (n > MOST_CHUNKS || 2.0 * (double)n * (double)microbatches > PZ_PIPELINE_MOST_EVENTS)
    return false;
  if (v && pz_pipeline_check(&shape, NULL) != PZ_OK) return false;
  if (p->vpp == 1) return blocks >= p->pp;
  return p->pp > 1 && (v || microbatches % p->pp == 0);
}

/* May stages have so many chunks, in any order? */
static bool can_chunk(const struct pz_plan *p, int64_t blocks) {
  int64_t n = p->pp * p->vpp;
  return p->vpp == 1 || (blocks + 2 >= n && (blocks % n == 0 || (blocks + 2) % n == 0));
}

/* Orders of so many chunks; one stage has no order. */
static bool has_order(const struct pz_plan_space *s, const struct pz_plan *p,
                      enum pz_pipeline_order order) {
  uint32_t chunks = pz_pipeline_chunks(order);
  if (s->q->pinned & PZ_PLAN_PIN(PIPELINE) && s->q->plan.pipeline != (int)order) return false;
  if (p->pp == 1) return order == PZ_PIPELINE_1F1B;
  return s->orders >> order & 1 && (chunks ? p->vpp == (int64_t)chunks : p->vpp > 1);
}

/* Without replicas nothing is sharded, but a framework may have the optimizer on the host, or its state in fewer bits, in
 * stage 1 alone. */
static bool can_shard(const struct pz_plan_space *s, const struct pz_plan *p) {
  return PZ_PLAN_ALLOWS(s->q, ZERO, zero, p->zero) &&
         (s->q->pinned & PZ_PLAN_PIN(ZERO) || !is_alone(p) || p->zero <= 1);
}

static bool add_division(struct pz_plan_space *s, int64_t first, int64_t last) {
  struct pz_plan_division d = {first, last};
  return pz_vec_push(&s->divisions, &d);
}

/* Even; and where every chunk between has m layers, the fewest that do or one more, all ways to divide the rest between
 * the first and the last so that neither has more. */
static enum pz_status list_divisions(struct pz_plan_space *s, const struct pz_plan *p,
                                     int64_t blocks) {
  int64_t n = p->pp * p->vpp, fewest = pz_ceil_div(blocks, n);
  int64_t even_first = pz_plan_blocks(p, blocks, 0), even_last = pz_plan_blocks(p, blocks, n - 1);
  s->divisions.n = 0;
  bool good = add_division(s, 0, 0);
  for (int64_t m = fewest; !s->q->even && n > 1 && m <= fewest + (n > 2) && good; m++) {
    int64_t ends = blocks - (n - 2) * m, most = n == 2 ? blocks - 1 : m;
    for (int64_t f = pz_max(1, ends - most); f <= pz_min(most, ends - 1) && good; f++)
      if (f != even_first || ends - f != even_last) good = add_division(s, f, ends - f);
  }
  return good ? PZ_OK : pz_plan_no_memory(s);
}

/* Sharded optimizer state takes less time and less memory than whole one, where the framework has it. */
static bool is_superfluous(const struct pz_plan_space *s, const struct pz_plan *p) {
  struct pz_plan sharded = *p;
  sharded.zero = 1;
  return p->zero == 0 && pz_plan_replicas(p) > 1 && !p->shard && p->grad_bytes >= 2 &&
         PZ_PLAN_ALLOWS(s->q, ZERO, zero, 1) && allows(s, &sharded, &s->way[0]);
}

/* What is done with the plans of a grid; fn NULL: they are counted. */
struct visit {
  bool dominant;
  pz_plan_fn *fn;
  void *ctx;
  uint64_t plans;
  /* what rules said of plans of the grid with chunks, however many: of dense models they do not count these */
  struct pz_plan_ways ways[PZ_PIPELINES][4]; /* by order and ZeRO stage */
  bool can[PZ_PIPELINES], known[PZ_PIPELINES];
};

/* Plans of a grid with these chunks.  Rules tell an uneven division from an even one, not one uneven division from
 * another. */
static enum pz_status visit_chunks(struct pz_plan_space *s, const struct pz_step_shape *x,
                                   struct pz_plan *p, struct visit *v) {
  int order = p->pipeline;
  bool alike = p->vpp > 1 && !s->model.experts && !s->rules.divides;
  bool known = alike && v->known[order];
  take(s, p, &s->way[0]);
  p->zero = 0;
  if (!known) {
    pz_plan_space_settle(s, p);
    v->can[order] = pz_rule_list_group_can(&s->rules, PZ_RULE_PLAIN, p, &s->model);
  }
  if (!v->can[order]) return PZ_OK;
  enum pz_status status = list_divisions(s, p, s->n_blocks);
  for (; p->zero <= 3 && status == PZ_OK; p->zero++) {
    if (!can_shard(s, p) || (v->dominant && is_superfluous(s, p))) continue;
    if (known) s->ways = v->ways[order][p->zero];
    for (uint32_t i = 0; i < s->divisions.n && status == PZ_OK; i++) {
      const struct pz_plan_division *d = pz_vec_at(&s->divisions, struct pz_plan_division, i);
      p->first_layers = d->first;
      p->last_layers = d->last;
      if (!known && (i == 0 || (i == 1 && s->rules.divides))) find_ways(s, p);
      if (v->fn && s->ways.n) status = v->fn(v->ctx, x, p);
      v->plans += s->ways.n;
    }
    v->ways[order][p->zero] = s->ways;
    p->first_layers = p->last_layers = 0;
  }
  v->known[order] = alike;
  return status;
}

static enum pz_status visit_grid(struct pz_plan_space *s, const struct pz_plan_grid *g,
                                 struct visit *v) {
  struct pz_plan p = pz_plan_grid_plan(s, g);
  enum pz_status status = PZ_OK;
  int64_t most_vpp = p.pp == 1 ? 1 : (s->n_blocks + 2) / p.pp;
  for (int64_t k = 1; k <= most_vpp && status == PZ_OK; k++) {
    p.vpp = v->dominant ? most_vpp + 1 - k : k; /* more chunks make others superfluous */
    if (!PZ_PLAN_ALLOWS(s->q, VPP, vpp, p.vpp) || !can_chunk(&p, s->n_blocks)) continue;
    for (int i = 0; i < PZ_PIPELINES && status == PZ_OK; i++) {
      p.pipeline = i;
      if (has_order(s, &p, (enum pz_pipeline_order)i) && can_order(&p, s->n_blocks))
        status = visit_chunks(s, pz_shape_at(s, g->shape), &p, v);
    }
  }
  return status;
}

enum pz_status pz_plan_space_each(struct pz_plan_space *s, const struct pz_plan_grid *g,
                                  bool dominant, pz_plan_fn *fn, void *ctx) {
  struct visit v = {.dominant = dominant, .fn = fn, .ctx = ctx};
  enum pz_status status = pz_step_shape_open(s->q, pz_shape_at(s, g->shape), s->err);
  return status == PZ_OK ? visit_grid(s, g, &v) : status;
}

enum pz_status pz_plan_space_count(struct pz_plan_space *s, const struct pz_plan_grid *g,
                                   uint64_t *plans) {
  struct visit v = {.fn = NULL};
  enum pz_status status = visit_grid(s, g, &v);
  *plans = v.plans;
  return status;
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* tp that the model's heads do not allow is the likeliest reason. */
static enum pz_status refuse_tp(const struct pz_plan_space *s, const struct pz_workload *w) {
  int64_t tp = s->q->plan.tp, kv = w->kv_heads ? w->kv_heads : w->heads;
  if (!(s->q->pinned & PZ_PLAN_PIN(TP)) || pz_heads_divide(w->heads, w->kv_heads, tp)) return PZ_OK;
  return pz_fail(
      s->err, PZ_BAD_USE,
      "tp %lld does not divide the attention heads of %s (%lld, %lld for keys and "
      "values); accepted: divisors of the former that divide the latter or are multiples of it",
      (long long)tp, s->q->job.model, (long long)w->heads, (long long)kv);
}

/* The framework refuses every plan with the pinned fields: why, if so. */
static enum pz_status refuse_framework(const struct pz_plan_space *s) {
  struct pz_plan p = s->q->plan;
  struct pz_error why = {0};
  uint64_t pinned = s->q->pinned;
  int64_t *const degrees[] = {&p.tp, &p.cp, &p.ep, &p.pp, &p.vpp, &p.mbs};
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
    if (!*degrees[i]) *degrees[i] = 1;
  bool staged = p.vpp > 1 || (pinned & PZ_PLAN_PIN(PIPELINE) && p.pipeline != PZ_PIPELINE_1F1B);
  if (staged && !(pinned & PZ_PLAN_PIN(PP))) p.pp = 2;
  uint32_t chunks =
      pinned & PZ_PLAN_PIN(PIPELINE) ? pz_pipeline_chunks((enum pz_pipeline_order)p.pipeline) : 1;
  if (!(pinned & PZ_PLAN_PIN(VPP)) && chunks != 1) p.vpp = 2;
  int64_t most = pz_max(p.devices / (p.tp * pz_plan_cp(&p) * p.pp), 1);
  p.sp = pinned & PZ_PLAN_PIN(SP) ? p.sp : p.tp > 1;
  if (!(pinned & PZ_PLAN_PIN(PIPELINE)))
    p.pipeline = p.vpp > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B;
  if (!(pinned & PZ_PLAN_PIN(RECOMPUTE))) p.recompute = PZ_RECOMPUTATION_NONE;
  set_offload(s, &p, &s->way[0]);
  for (int i = 0; i < 8; i++) {
    int64_t dp = (i & 1 ? 1 : 2) * p.ep * pz_max(p.shard, 1);
    if (!(pinned & PZ_PLAN_PIN(DP))) p.dp = pz_min(dp, most);
    if (!(pinned & PZ_PLAN_PIN(ZERO))) p.zero = i >> 1;
    p.batch = 4 * p.mbs * p.dp * p.pp;
    pz_plan_space_settle(s, &p);
    if (pz_rule_list_can(&s->rules, &p, &s->model, &why)) return PZ_OK;
  }
  return pz_fail(s->err, PZ_NO_ANSWER, "no plan with these fields: %s", why.message);
}

enum pz_status pz_plan_space_empty(const struct pz_plan_space *s) {
  enum pz_status status = refuse_framework(s);
  if (status != PZ_OK) return status;
  return pz_fail(
      s->err, PZ_BAD_USE,
      "no plan has these degrees: tp must divide the heads, tp x cp x pp x dp fill whole "
      "nodes of %lld devices up to %lld, mbs x dp divide the batch of %lld, pp x vpp the "
      "layers",
      (long long)s->node, (long long)s->q->plan.devices, (long long)s->q->plan.batch);
}

/* Heads and layers of the model, from its graph for one device. */
static enum pz_status list_shapes(struct pz_plan_space *s) {
  struct pz_step_shape one = {.tp = 1, .cp = 1, .ep = 1, .mbs = 1};
  struct pz_plan p = pz_step_shape_plan(s->q, &one);
  struct pz_step_model *m = NULL;
  struct pz_error why = {0};
  int64_t devices = s->q->plan.devices;
  enum pz_status status = pz_step_model_new(&s->q->job, &p, &m, s->err);
  if (status != PZ_OK) return status;
  s->n_blocks = m->n_blocks;
  pz_text_copy(s->warning, sizeof s->warning, m->w->warning ? m->w->warning : "");
  status = pz_model_shape_of(s->q->job.model, s->q->job.config, m->w, m->n_blocks, &s->model);
  if (status != PZ_OK) status = pz_fail(s->err, status, "out of memory for the plans");
  s->node = m->cost.net.n_levels ? pz_min(pz_cluster_node(&m->cost.net), devices) : devices;
  if (status == PZ_OK && !m->cost.net.n_levels && devices > 1)
    status =
        pz_fail(s->err, PZ_BAD_INPUT, "chip %s has no link between devices; accepted: a cluster",
                s->q->job.chip->name);
  if (status == PZ_OK && m->w->totals.layers > MOST_LAYERS)
    status = pz_fail(s->err, PZ_LIMIT, "%s has %lld layers; accepted: at most %d", m->w->model,
                     (long long)m->w->totals.layers, MOST_LAYERS);
  if (status == PZ_OK && !pz_framework_trains(s->q->plan.framework, &s->model, &why))
    status = pz_fail(s->err, PZ_NO_ANSWER, "%s", why.message);
  if (status == PZ_OK) status = pz_plan_check_counts(&s->q->plan, s->n_blocks, s->err);
  if (status == PZ_OK) status = refuse_tp(s, m->w);
  if (status == PZ_OK) status = list_divisors(s);
  s->seq = m->seq;
  if (status == PZ_OK) find_risk(s, m);
  s->rules = pz_rule_list_of(s->q->plan.framework);
  s->orders = list_orders(s);
  s->recomputations = list_recomputations(s);
  list_variants(s);
  list_ways(s);
  if (status == PZ_OK) status = add_shapes(s, m->w);
  pz_step_model_free(m);
  return status;
}

static int by_bound(const void *a, const void *b) {
  const struct pz_plan_grid *x = a, *y = b;
  if (x->bound != y->bound) return x->bound < y->bound ? -1 : 1;
  if (x->shape != y->shape) return x->shape < y->shape ? -1 : 1;
  if (x->variant != y->variant) return x->variant < y->variant ? -1 : 1;
  return x->pp != y->pp ? (x->pp < y->pp ? -1 : 1) : (x->dp > y->dp) - (x->dp < y->dp);
}

void pz_plan_grids_sort(struct pz_vec *grids) {
  qsort(grids->items, grids->n, sizeof(struct pz_plan_grid), by_bound);
}

void pz_plan_space_init(struct pz_plan_space *s, const struct pz_plan_question *q,
                        struct pz_arena *arena) {
  *s = (struct pz_plan_space){.q = q};
  pz_vec_init(&s->shapes, arena, sizeof(struct pz_step_shape));
  pz_vec_init(&s->grids, arena, sizeof(struct pz_plan_grid));
  pz_vec_init(&s->divisions, arena, sizeof(struct pz_plan_division));
  pz_vec_init(&s->divisors, arena, sizeof(int64_t));
}

enum pz_status pz_plan_space_list(struct pz_plan_space *s, struct pz_error *err) {
  s->err = err;
  enum pz_status status = list_shapes(s);
  if (status == PZ_OK) status = make_shapes(s);
  if (status == PZ_OK) status = add_grids(s);
  return status == PZ_OK && !s->grids.n ? pz_plan_space_empty(s) : status;
}

void pz_plan_space_release(struct pz_plan_space *s) {
  for (uint32_t i = 0; i < s->shapes.n; i++) close_shape(pz_shape_at(s, i));
}
