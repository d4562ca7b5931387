/* Lists the space of training plans (plan_space.h).
 *
 * pz_plan_space_list() reads the model and the framework's rules (read_model), lists all shapes that model, question and
 * framework allow (list_shapes), makes a model of a step for each of them on several threads and times its layers
 * (open_shapes), and derives grids with their lower bounds (list_grids).  pz_plan_grid_visit() then enumerates the plans
 * of one grid.  For each plan, find_ways() notes in which ways it may be run.
 *
 * Rules of the framework are asked as early as possible and for as many plans at once as their groups allow
 * (plan/framework_rules.h), because most plans of a large space are only counted. */
#include "place/plan_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/pool.h"
#include "core/text.h"
#include "plan/plan_fill.h"
#include "workload/workload.h"

enum { MAX_MBS = 128, MAX_CHUNKS = 1024, MAX_CP = 32, MAX_EP = 1024, MAX_LAYERS = 1024 };

/* The largest number of replicas with which framework_can_run() asks the framework's rules. */
enum { MAX_PROBED_REPLICAS = 1 << 20 };

/* Shapes that keep their model from the start; a model has some hundred kilobytes.  Others make it when it is needed. */
enum { MAX_OPEN_MODELS = 1024 };

/* Layers of the first and the last chunk; 0, 0 stands for the even division. */
struct plan_division {
  int64_t first, last;
};

void pz_plan_space_check_stop(struct pz_call *call, const struct pz_plan_space *s) {
  if (pz_plan_question_over(s->q)) pz_raise(call, PZ_STOPPED, "stopped");
}

static void finish_progress(void *progress) { pz_progress_finish(progress, NULL); }

void pz_plan_begin_progress(struct pz_call *call, const struct pz_plan_question *q,
                            const char *label, const char *unit, uint64_t total) {
  pz_progress_next(q->progress, label, unit, total);
  if (q->progress) pz_defer(call, finish_progress, q->progress);
}

/* ---- a shape -------------------------------------------------------------------------------- */

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

struct pz_plan pz_step_shape_fastest(const struct pz_plan_question *q,
                                     const struct pz_step_shape *shape) {
  struct pz_plan p = pz_step_shape_plan(q, shape);
  /* sharded plans do not cast weights in every pass, and with ZeRO 2 they add up the fewest gradients */
  p.zero = q->pinned & PZ_PLAN_PIN(ZERO) ? (int)pz_min(q->plan.zero, 2) : 2;
  p.dp = pz_max(1, q->plan.devices / (p.tp * p.cp));
  return p;
}

void pz_step_shape_open(struct pz_call *call, const struct pz_plan_question *q,
                        struct pz_step_shape *x) {
  if (x->model) return;
  struct pz_plan p = pz_step_shape_plan(q, x);
  x->model = pz_step_model_new(call, &q->job, &p);
  pz_undefer(call, x->model);
}

static void close_shape(struct pz_step_shape *x) {
  pz_step_model_free(x->model);
  x->model = NULL;
}

double pz_step_shape_share(const struct pz_plan_question *q, const struct pz_step_shape *x) {
  return (double)(q->plan.batch * x->tp * x->cp) / (double)(x->mbs * q->plan.devices);
}

/* ---- variants ------------------------------------------------------------------------------- */

static void set_variant(const struct pz_plan_space *s, uint32_t variant, struct pz_plan *p) {
  p->dispatcher = s->variant[variant].dispatcher;
  p->cuda_graphs = s->variant[variant].cuda_graphs;
}

/* Without expert parallelism no tokens are sent, and the dispatcher makes no difference. */
static bool has_variant(const struct pz_plan_space *s, const struct pz_step_shape *x,
                        uint32_t variant) {
  return x->ep > 1 || s->variant[variant].dispatcher == s->variant[0].dispatcher;
}

/* Lists each dispatcher that the framework has on the chip, without CUDA graphs and with graphs of all that it can
 * capture.  The first variant is what the question says, or the framework's default. */
static void list_variants(struct pz_plan_space *s) {
  const struct pz_plan_question *q = s->q;
  uint64_t open = q->switches ? ~q->fixed : 0;
  int own = q->plan.dispatcher;
  int graphs = 0;
  unsigned dispatchers = 0;
  if (open & PZ_PLAN_PIN(DISPATCHER) && s->model.experts)
    dispatchers = pz_framework_dispatchers(q->plan.framework, q->job.chip, q->without);
  if (open & PZ_PLAN_PIN(CUDA_GRAPHS))
    graphs = pz_framework_graph_modules(q->plan.framework, q->job.chip, &s->model, q->without);
  for (int d = -1; d < PZ_DISPATCHERS; d++) {
    int dispatcher = d < 0 ? own : d;
    if (d >= 0 && (d == own || !(dispatchers >> d & 1))) continue;
    s->variant[s->n_variants++] = (struct pz_plan_variant){dispatcher, q->plan.cuda_graphs};
    if (graphs && graphs != q->plan.cuda_graphs)
      s->variant[s->n_variants++] = (struct pz_plan_variant){dispatcher, graphs};
  }
}

/* ---- times of a shape ----------------------------------------------------------------------- */

static double kernels_s(const struct pz_pass *p) {
  return p->products_s + p->attention_s + p->elementwise_s;
}

/* Seconds of a microbatch through all layers in a pipeline order, without recomputation.  On a torus the time of
 * collectives depends on the size of the job, so that only kernels are counted. */
static double microbatch_in_order_s(struct pz_call *call, const struct pz_plan_space *space,
                                    struct pz_step_shape *x, uint32_t variant, int64_t microbatches,
                                    enum pz_pipeline_order order) {
  struct pz_plan p = pz_step_shape_fastest(space->q, x);
  set_variant(space, variant, &p);
  p.pipeline = (int)order;
  pz_step_model_time(call, x->model, &p, microbatches, PZ_TIMING_BOUND);
  const struct pz_step_model *m = x->model;
  bool torus = m->cost.net.n_levels && m->cost.net.level[0].n_axes;
  double total_s = 0;
  if (torus) {
    for (uint32_t l = 0; l < m->w->n_layers; l++)
      total_s += (double)m->w->layers[l].count *
                 (kernels_s(&m->kernels[l].forward) + kernels_s(&m->kernels[l].backward));
    return total_s;
  }
  total_s = pz_layer_step_s(&m->steps->before) + pz_layer_step_s(&m->steps->after);
  for (uint32_t k = 0; k < m->kinds.n; k++)
    total_s += (double)m->w->layers[m->kinds.layer[k]].count * pz_layer_step_s(&m->steps->block[k]);
  return total_s;
}

/* The same in the fastest of the framework's orders: some hide the transfer of tokens to experts. */
static double fastest_microbatch_s(struct pz_call *call, const struct pz_plan_space *s,
                                   struct pz_step_shape *x, uint32_t variant,
                                   int64_t microbatches) {
  static const enum pz_pipeline_order hiding[] = {PZ_PIPELINE_DUALPIPE_V, PZ_PIPELINE_DUALPIPE};
  double least_s = microbatch_in_order_s(call, s, x, variant, microbatches, PZ_PIPELINE_1F1B);
  for (size_t i = 0; i < sizeof hiding / sizeof *hiding && x->ep > 1; i++)
    if (s->pipeline_orders >> hiding[i] & 1)
      least_s =
          pz_fmin(least_s, microbatch_in_order_s(call, s, x, variant, microbatches, hiding[i]));
  return least_s;
}

void pz_step_shape_time(struct pz_call *call, const struct pz_plan_space *s,
                        struct pz_step_shape *x) {
  for (uint32_t v = 0; v < s->n_variants; v++) {
    struct pz_shape_time *t = &x->time[v];
    if (!has_variant(s, x, v)) continue;
    t->several_s = fastest_microbatch_s(call, s, x, v, 2);
    t->single_s = t->several_s;
    if (!x->always_several) t->single_s = fastest_microbatch_s(call, s, x, v, 1);
  }
}

/* ---- the value of a plan -------------------------------------------------------------------- */

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

/* ---- ways ----------------------------------------------------------------------------------- */

void pz_plan_set_derived(const struct pz_plan_space *s, struct pz_plan *p) {
  p->devices = pz_plan_devices(p);
  p->seq = s->seq;
  p->overlap = s->q->plan.overlap;
  if (!(s->q->pinned & PZ_PLAN_PIN(OVERLAP))) (void)pz_rule_list_overlap(&s->rules, p, &s->model);
}

static void set_recompute(struct pz_plan *p, enum pz_recomputation how) {
  p->recompute = (int)how;
  p->recompute_layers = 0;
  p->stage_recompute = NULL;
}

/* Offloads nothing, what the question says, or all that the question allows. */
static void set_offload(const struct pz_plan_space *s, struct pz_plan *p,
                        const struct pz_plan_way *w) {
  const struct pz_plan *q = &s->q->plan;
  p->offload = (w->activations ? (int)PZ_OFFLOAD_ACTIVATIONS : 0) |
               (w->fraction > 0 ? (int)PZ_OFFLOAD_OPTIMIZER : 0);
  p->offload_layers = w->activations ? q->offload_layers : 0;
  p->offload_modules = w->activations ? q->offload_modules : 0;
  p->offload_fraction = w->fraction;
}

static void set_way(const struct pz_plan_space *s, struct pz_plan *p, const struct pz_plan_way *w) {
  set_recompute(p, w->recompute);
  set_offload(s, p, w);
}

struct pz_plan pz_plan_relaxed(const struct pz_plan *p) {
  struct pz_plan x = *p;
  if (x.recompute == PZ_RECOMPUTATION_FULL) set_recompute(&x, PZ_RECOMPUTATION_NONE);
  x.offload &= ~(int)PZ_OFFLOAD_ACTIVATIONS; /* recomputed layers send less to the host */
  return x;
}

/* Whether the recomputation of a plan is possible together with its offloaded activations, of one layer or of all. */
static bool can_recompute(const struct pz_plan_space *s, struct pz_plan *p) {
  if (pz_rule_group_allows(&s->rules, PZ_RULE_RECOMPUTES, p, &s->model)) return true;
  if (!pz_plan_offload_is_open(s->q, p)) return false;
  struct pz_plan one = *p;
  one.offload_layers = 1;
  return pz_rule_group_allows(&s->rules, PZ_RULE_RECOMPUTES, &one, &s->model);
}

/* Sets the way in the plan.  Returns whether question and framework allow it. */
static bool set_allowed_way(const struct pz_plan_space *s, struct pz_plan *p,
                            const struct pz_plan_way *w) {
  set_way(s, p, w);
  if (!(s->recomputations >> w->recompute & 1)) return false;
  pz_plan_set_derived(s, p);
  return pz_rule_group_allows(&s->rules, PZ_RULE_PLAIN, p, &s->model) &&
         pz_rule_group_allows(&s->rules, PZ_RULE_SHARDS, p, &s->model) && can_recompute(s, p);
}

static bool has_no_replicas(const struct pz_plan *p) {
  return pz_plan_replicas(p) == 1 && pz_plan_expert_replicas(p) == 1;
}

/* Whether ZeRO makes the plan's state smaller even without replicas.  Some frameworks have moments of fewer bits, and
 * 8-bit weights, only with a sharded optimizer and not with one on the host, so that this depends on the way. */
static bool has_smaller_state(const struct pz_plan_space *s, const struct pz_plan *p) {
  const struct pz_framework *f = pz_plan_framework(p);
  bool experts = s->model.experts > 0;
  struct pz_plan whole = *p;
  whole.zero = 0;
  if (f->transformer_engine && !(f->fp8_weight_bytes > 0) && pz_plan_keeps_8bit_weights(p))
    return true;
  return pz_plan_moment_bytes(p, experts) < pz_plan_moment_bytes(&whole, experts);
}

/* Overlap that requires further software or is less certain.  A step without it is never faster, but its plan may have a
 * better value, because its expected error is smaller. */
static const int optional_overlap[] = {0, PZ_OVERLAP_EP, PZ_OVERLAP_TP,
                                       PZ_OVERLAP_EP | PZ_OVERLAP_TP};

/* Notes the ways of a plan that the plain rules allow.  A plan with ZeRO but without replicas has only the ways that it
 * does not have without ZeRO, and those whose state is smaller with ZeRO. */
static void find_ways(struct pz_plan_space *s, struct pz_plan *p) {
  bool shards_nothing = p->zero && has_no_replicas(p) && !(s->q->pinned & PZ_PLAN_PIN(ZERO));
  bool can_shard = true, asked = false; /* these rules do not depend on the way */
  s->ways.n = 0;
  for (size_t i = 0; i < s->n_ways; i++) {
    s->ways.allowed[i] = false;
    bool has_recomputation = s->recomputations >> s->way[i].recompute & 1;
    if (!has_recomputation || (asked && !can_shard)) continue;
    set_way(s, p, &s->way[i]);
    /* only the overlap of experts depends on the recomputation */
    if (!asked || p->ep > 1) pz_plan_set_derived(s, p);
    if (!asked) can_shard = pz_rule_group_allows(&s->rules, PZ_RULE_SHARDS, p, &s->model);
    asked = true;
    s->ways.allowed[i] = can_shard && can_recompute(s, p);
    s->ways.overlap[i] = p->overlap;
    if (shards_nothing && s->ways.allowed[i] && !has_smaller_state(s, p)) {
      struct pz_plan whole = *p;
      whole.zero = 0;
      s->ways.allowed[i] = !set_allowed_way(s, &whole, &s->way[i]);
    }
    for (size_t k = 0; k < s->n_overlaps && s->ways.allowed[i]; k++)
      s->ways.n += (pz_plan_effective_overlap(p) & optional_overlap[k]) == optional_overlap[k];
  }
}

bool pz_plan_apply_way(const struct pz_plan_space *s, struct pz_plan *p, size_t way) {
  size_t k = way / s->n_overlaps;
  int without = optional_overlap[way % s->n_overlaps];
  set_way(s, p, &s->way[k]);
  p->overlap = s->ways.overlap[k];
  bool has = (pz_plan_effective_overlap(p) & without) == without;
  p->overlap &= ~without;
  return has && s->ways.allowed[k];
}

/* Lists recomputations, each with no or some offloaded activations, and with no offloaded optimizer state, with the
 * question's fraction of it, or with each quarter. */
static void list_ways(struct pz_plan_space *s) {
  static const enum pz_recomputation recomputations[PZ_PLAN_RECOMPUTATIONS] = {
      PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_SELECTIVE, PZ_RECOMPUTATION_ALTERNATE,
      PZ_RECOMPUTATION_HALF, PZ_RECOMPUTATION_FULL};
  const struct pz_plan *p = &s->q->plan;
  bool optimizer = p->offload & PZ_OFFLOAD_OPTIMIZER;
  bool activations = p->offload & PZ_OFFLOAD_ACTIVATIONS;
  bool always_activations = activations && (p->offload_layers || p->offload_modules);
  int fractions = optimizer && !(p->offload_fraction > 0) ? PZ_PLAN_FRACTIONS : 1;
  bool varies = s->q->switches && s->q->counted && !(s->q->pinned & PZ_PLAN_PIN(OVERLAP));
  s->n_overlaps = varies ? sizeof optional_overlap / sizeof *optional_overlap : 1;
  s->n_ways = 0;
  for (int quarter = 0; quarter < fractions; quarter++)
    for (int a = always_activations; a <= activations; a++)
      for (size_t i = 0; i < PZ_PLAN_RECOMPUTATIONS; i++)
        s->way[s->n_ways++] = (struct pz_plan_way){
            recomputations[i], a, fractions > 1 ? quarter / 4.0 : p->offload_fraction};
}

/* ---- what the framework has at all ---------------------------------------------------------- */

/* A plan whose sizes satisfy every divisibility rule, with this ZeRO stage. */
static struct pz_plan probe_plan(const struct pz_plan_space *s, int64_t pp, int zero) {
  struct pz_plan p = s->q->plan;
  p.tp = p.cp = p.ep = p.mbs = p.vpp = 1;
  p.etp = p.shard = p.seq = 0;
  p.sp = p.pipeline = 0;
  p.pp = pp;
  p.dp = 2;
  p.batch = 64;
  p.zero = zero;
  set_way(s, &p, &(struct pz_plan_way){PZ_RECOMPUTATION_NONE, false, 0});
  return p;
}

static bool framework_runs_probe(struct pz_plan *p, const struct pz_model_shape *m) {
  p->overlap = pz_framework_overlap(p, m);
  return pz_framework_can_run(p, m, NULL);
}

/* The set of recomputations that the question allows and the framework has.  Half of the layers is no better than full
 * recomputation of a chosen number, so that it is left out where the framework can choose the number. */
static unsigned find_recomputations(const struct pz_plan_space *s) {
  unsigned set = 0;
  if (s->q->pinned & PZ_PLAN_PIN(RECOMPUTE)) return 1U << s->q->plan.recompute;
  for (int how = 0; how < PZ_RECOMPUTATIONS; how++)
    for (int zero = 0; zero <= 3; zero++) {
      struct pz_plan p = probe_plan(s, 1, zero);
      bool chooses_layers = pz_framework_recompute_form(&p) != PZ_RECOMPUTE_ALL;
      set_recompute(&p, (enum pz_recomputation)how);
      if (how == PZ_RECOMPUTATION_HALF && chooses_layers) continue;
      if (framework_runs_probe(&p, NULL)) set |= 1U << how;
    }
  return set;
}

/* The set of pipeline orders that the framework has.  GPipe is no better than 1F1B and is used only if it is pinned. */
static unsigned find_pipeline_orders(const struct pz_plan_space *s) {
  struct pz_model_shape any = s->model;
  unsigned set = 0;
  any.tied = false;
  any.layers = 0;
  for (int i = 0; i < PZ_PIPELINES; i++)
    for (int zero = 0; zero <= 3; zero++) {
      struct pz_plan p = probe_plan(s, 4, zero);
      uint32_t chunks = pz_pipeline_chunks((enum pz_pipeline_order)i);
      p.vpp = chunks ? chunks : 2;
      p.pipeline = i;
      if (i == PZ_PIPELINE_GPIPE && !(s->q->pinned & PZ_PLAN_PIN(PIPELINE))) continue;
      if (framework_runs_probe(&p, &any)) set |= 1U << i;
    }
  return set;
}

/* ---- shapes --------------------------------------------------------------------------------- */

/* Whether the framework could run some plan of this shape.  Rules distinguish one stage from several, and ask for
 * replicas: one, several, a number that ep or the sharding group divides, or exactly this group. */
static bool framework_can_run(const struct pz_plan_space *s, const struct pz_step_shape *x) {
  struct pz_plan p = pz_step_shape_plan(s->q, x);
  int64_t shard = pz_max(p.shard, 1);
  const int64_t replicas[] = {1, x->ep, 2 * x->ep, shard, shard / x->cp, 2 * shard * x->ep};
  for (size_t r = 0; r < sizeof replicas / sizeof *replicas; r++)
    for (int zero = 0; zero <= 3; zero++)
      for (int64_t pp = 1; pp <= 2; pp++) {
        p.pp = pp;
        p.zero = zero;
        p.dp = pz_max(pz_min(replicas[r], MAX_PROBED_REPLICAS), 1);
        p.batch = 4 * p.mbs * p.dp;
        if (pp > 1 && s->n_blocks < 2) continue;
        for (size_t k = 0; k < s->n_ways; k++)
          if (set_allowed_way(s, &p, &s->way[k])) return true;
      }
  return false;
}

/* Whether model, question and framework allow this shape. */
static bool can_have_shape(const struct pz_plan_space *s, const struct pz_workload *w,
                           const struct pz_step_shape *x) {
  const struct pz_plan_question *q = s->q;
  int64_t seq = w->options.seq;
  if (!pz_heads_divide(w->heads, w->kv_heads, x->tp)) return false;
  if (x->cp > 1 && (seq % (2 * x->cp) || q->plan.attention != PZ_ATTENTION_FLASH)) return false;
  if (x->tp * x->cp > q->plan.devices || q->plan.batch % x->mbs) return false;
  if (x->sp && seq / x->cp % x->tp) return false;
  bool allowed = PZ_PLAN_ALLOWS(q, TP, tp, x->tp) && PZ_PLAN_ALLOWS(q, MBS, mbs, x->mbs) &&
                 (x->tp == 1 || PZ_PLAN_ALLOWS(q, SP, sp, x->sp)) &&
                 PZ_PLAN_ALLOWS(q, HALVES, halves, x->halves);
  return allowed && framework_can_run(s, x);
}

/* The expert-parallel degree after `ep`: powers of two that divide the experts, then their number; 0 after the last. */
static int64_t next_ep(const struct pz_plan_question *q, int64_t experts, int64_t ep) {
  int64_t most = pz_min(experts, pz_min(q->plan.devices, MAX_EP));
  int64_t next = 2 * ep;
  if (q->pinned & PZ_PLAN_PIN(EP)) return 0;
  while (next <= most && experts % next) next *= 2;
  if (next <= most) return next;
  return ep < experts && experts == most ? experts : 0;
}

static void list_shapes(struct pz_call *call, struct pz_plan_space *s,
                        const struct pz_workload *w) {
  const struct pz_plan_question *q = s->q;
  const struct pz_plan *p = &q->plan;
  bool pinned_cp = q->pinned & PZ_PLAN_PIN(CP);
  int64_t most_tp = q->pinned & PZ_PLAN_PIN(TP) ? p->tp : pz_min(s->node, p->devices);
  int64_t most_cp = pinned_cp ? pz_plan_cp(p) : MAX_CP;
  int64_t first_cp = pinned_cp ? most_cp : 1;
  int64_t most_mbs = pz_min(p->batch, q->pinned & PZ_PLAN_PIN(MBS) ? p->mbs : MAX_MBS);
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
              if (can_have_shape(s, w, &x)) pz_append(call, &s->shapes, &x);
            }
}

/* Shapes that are opened in parallel.  The layers of a model may not allow a shape; why is in its refusal. */
struct shape_opening {
  struct pz_plan_space *space;
  struct pz_error *refusal; /* by shape */
};

struct opened_shape {
  struct pz_plan_space *space;
  struct pz_step_shape *shape;
};

static void open_and_time_shape(struct pz_call *call, void *ctx) {
  struct opened_shape *opened = ctx;
  pz_step_shape_open(call, opened->space->q, opened->shape);
  pz_step_shape_time(call, opened->space, opened->shape);
}

static void open_shape_task(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct shape_opening *opening = ctx;
  struct pz_plan_space *s = opening->space;
  struct opened_shape opened = {s, pz_shape_at(s, (uint32_t)i)};
  struct pz_error *refusal = &opening->refusal[i];
  (void)worker;
  pz_progress_add(s->q->progress, 1);
  pz_plan_space_check_stop(task, s);
  enum pz_status status = pz_border(open_and_time_shape, &opened, refusal);
  bool refused = status == PZ_BAD_USE || status == PZ_BAD_INPUT || status == PZ_LIMIT;
  if (status != PZ_OK && !refused) pz_raise_again(task, refusal);
  if (i >= MAX_OPEN_MODELS) close_shape(opened.shape);
}

/* Makes a model for every shape, and removes the shapes that the model's layers do not allow. */
static void open_shapes(struct pz_call *call, struct pz_plan_space *s) {
  struct pz_call scratch = pz_scratch(call);
  struct pz_error *refusals = pz_alloc(&scratch, s->shapes.n, sizeof *refusals);
  struct shape_opening opening = {s, refusals};
  struct pz_pool *pool = pz_pool_open(call, s->q->threads);
  pz_plan_begin_progress(call, s->q, "shapes", "shapes", s->shapes.n);
  pz_pool_run(call, pool, s->shapes.n, open_shape_task, &opening);
  if (s->q->progress) pz_close(call, s->q->progress);
  pz_close(call, pool);
  const struct pz_error *first_refusal = NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->shapes.n; i++) {
    struct pz_step_shape *x = pz_shape_at(s, i);
    if (refusals[i].status == PZ_OK) {
      *pz_shape_at(s, n++) = *x;
      continue;
    }
    if (!first_refusal) first_refusal = &refusals[i];
    close_shape(x);
  }
  s->shapes.n = n;
  if (!n && first_refusal) pz_raise_again(call, first_refusal);
  pz_scratch_end(&scratch);
}

/* ---- grids ---------------------------------------------------------------------------------- */

struct pz_plan pz_plan_grid_plan(const struct pz_plan_space *s, const struct pz_plan_grid *g) {
  struct pz_plan p = pz_step_shape_plan(s->q, pz_shape_at(s, g->shape));
  set_variant(s, g->variant, &p);
  p.overlap =
      0; /* plans set their own; the value of every plan of the grid is at least that without overlap */
  p.pp = g->pp;
  p.dp = g->dp;
  return p;
}

double pz_plan_grid_bound_s(const struct pz_plan_question *q, const struct pz_step_shape *x,
                            const struct pz_plan_grid *g) {
  int64_t microbatches = q->plan.batch / (x->mbs * g->dp);
  const struct pz_shape_time *t = &x->time[g->variant];
  double all = microbatches == 1 ? t->single_s : t->several_s;
  double waiting = pz_step_waiting(q->job.constants, q->job.net, x->tp * x->cp * g->pp * g->dp);
  return (double)microbatches * all / (double)g->pp * (1 + waiting);
}

/* Whether a job may use this number of devices: a part of one node, whole nodes, or of each node the largest power of
 * two of its devices (64 of a domain of 72). */
static bool fills_nodes(const struct pz_plan_space *s, int64_t devices) {
  int64_t part = 1, all = s->q->plan.devices;
  while (2 * part <= s->node) part *= 2;
  if (devices > all || (s->q->all_devices && devices != all)) return false;
  if (devices <= s->node || devices % s->node == 0) return true;
  return devices % part == 0 && devices / part <= (all % s->node ? all / part : all / s->node);
}

/* Adds the grid in all its variants, if question and nodes allow it. */
static void add_grid(struct pz_call *call, struct pz_plan_space *s, struct pz_plan_grid grid) {
  const struct pz_plan_question *q = s->q;
  const struct pz_step_shape *x = pz_shape_at(s, grid.shape);
  int64_t group = x->tp * x->cp;
  if (!PZ_PLAN_ALLOWS(q, PP, pp, grid.pp) || !PZ_PLAN_ALLOWS(q, DP, dp, grid.dp)) return;
  if (q->plan.batch % (grid.dp * x->mbs)) return;
  struct pz_plan p = pz_plan_grid_plan(s, &grid);
  bool experts_divide = group * grid.dp % (pz_plan_ep(&p) * pz_plan_etp(&p)) == 0;
  if (!experts_divide || !fills_nodes(s, group * grid.pp * grid.dp)) return;
  for (grid.variant = 0; grid.variant < s->n_variants; grid.variant++) {
    if (!has_variant(s, x, grid.variant)) continue;
    p = pz_plan_grid_plan(s, &grid);
    grid.bound_s = pz_plan_grid_bound_s(q, x, &grid);
    grid.bound = pz_plan_value(s, &p, grid.bound_s, 0);
    pz_append(call, &s->grids, &grid);
  }
}

static void list_grids(struct pz_call *call, struct pz_plan_space *s) {
  const struct pz_plan_question *q = s->q;
  for (uint32_t i = 0; i < s->shapes.n; i++) {
    const struct pz_step_shape *x = pz_shape_at(s, i);
    int64_t group = x->tp * x->cp;
    int64_t most_pp = pz_min(s->n_blocks, q->plan.devices / group);
    pz_plan_space_check_stop(call, s);
    for (int64_t pp = 1; pp <= most_pp; pp++)
      for (uint32_t d = 0; d < s->divisors.n; d++) {
        int64_t dp = *pz_vec_at(&s->divisors, int64_t, d);
        if (dp > q->plan.devices / (group * pp)) break;
        add_grid(call, s, (struct pz_plan_grid){.shape = i, .pp = pp, .dp = dp});
      }
  }
}

static int by_bound(const void *a, const void *b) {
  const struct pz_plan_grid *x = a, *y = b;
  if (x->bound != y->bound) return x->bound < y->bound ? -1 : 1;
  if (x->shape != y->shape) return x->shape < y->shape ? -1 : 1;
  if (x->variant != y->variant) return x->variant < y->variant ? -1 : 1;
  if (x->pp != y->pp) return x->pp < y->pp ? -1 : 1;
  return (x->dp > y->dp) - (x->dp < y->dp);
}

void pz_plan_grids_sort(struct pz_vec *grids) {
  qsort(grids->items, grids->n, sizeof(struct pz_plan_grid), by_bound);
}

/* ---- plans of a grid ------------------------------------------------------------------------ */

/* Whether the layers can be divided over this many chunks, in any pipeline order. */
static bool can_chunk(const struct pz_plan *p, int64_t blocks) {
  int64_t n = p->pp * p->vpp;
  return p->vpp == 1 || (blocks + 2 >= n && (blocks % n == 0 || (blocks + 2) % n == 0));
}

/* Whether the pipeline order of the plan exists for its number of chunks.  A single stage counts as 1F1B. */
static bool has_order(const struct pz_plan_space *s, const struct pz_plan *p,
                      enum pz_pipeline_order order) {
  uint32_t chunks = pz_pipeline_chunks(order);
  if (s->q->pinned & PZ_PLAN_PIN(PIPELINE) && s->q->plan.pipeline != (int)order) return false;
  if (p->pp == 1) return order == PZ_PIPELINE_1F1B;
  return s->pipeline_orders >> order & 1 && (chunks ? p->vpp == (int64_t)chunks : p->vpp > 1);
}

/* Whether layers and microbatches of the plan allow its pipeline order. */
static bool can_order(const struct pz_plan *p, int64_t blocks) {
  int64_t n = p->pp * p->vpp, microbatches = p->batch / (p->mbs * p->dp);
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(p);
  bool v = pz_is_v_pipeline(shape.order);
  if (n > MAX_CHUNKS || 2.0 * (double)n * (double)microbatches > PZ_PIPELINE_MOST_EVENTS)
    return false;
  if (v && !pz_pipeline_can_run(&shape)) return false;
  if (p->vpp == 1) return blocks >= p->pp;
  return p->pp > 1 && (v || microbatches % p->pp == 0);
}

/* Whether the ZeRO stage of the plan makes sense.  Without replicas nothing is sharded, but a framework may offer an
 * optimizer on the host, or state in fewer bits, in stage 1 only. */
static bool can_shard(const struct pz_plan_space *s, const struct pz_plan *p) {
  if (s->q->pinned & PZ_PLAN_PIN(ZERO)) return s->q->plan.zero == p->zero;
  return !has_no_replicas(p) || p->zero <= 1;
}

/* Whether ZeRO 1 is possible instead of ZeRO 0: sharded optimizer state takes less time and less memory. */
static bool is_dominated_by_zero_1(const struct pz_plan_space *s, const struct pz_plan *p) {
  struct pz_plan sharded = *p;
  sharded.zero = 1;
  return p->zero == 0 && pz_plan_replicas(p) > 1 && !p->shard && p->grad_bytes >= 2 &&
         PZ_PLAN_ALLOWS(s->q, ZERO, zero, 1) && set_allowed_way(s, &sharded, &s->way[0]);
}

/* Lists how the layers may be divided among the chunks of the pipeline: evenly, or with m layers in each chunk between the
 * first and the last.  m is the mean rounded up, or one more.  The first and the last chunk share the remaining layers in
 * every way in which neither has more than m. */
static void list_divisions(struct pz_call *call, struct pz_plan_space *s, const struct pz_plan *p) {
  int64_t blocks = s->n_blocks, n = p->pp * p->vpp, mean = pz_ceil_div(blocks, n);
  int64_t even_first = pz_plan_chunk_layers(p, blocks, 0),
          even_last = pz_plan_chunk_layers(p, blocks, n - 1);
  s->divisions.n = 0;
  pz_append(call, &s->divisions, NULL);
  if (s->q->even || n == 1) return;
  for (int64_t m = mean; m <= mean + (n > 2); m++) {
    int64_t rest = blocks - (n - 2) * m, most = n == 2 ? blocks - 1 : m;
    for (int64_t first = pz_max(1, rest - most); first <= pz_min(most, rest - 1); first++) {
      struct plan_division division = {first, rest - first};
      bool even = first == even_first && rest - first == even_last;
      if (!even) pz_append(call, &s->divisions, &division);
    }
  }
}

/* A walk over the plans of a grid.  Without fn they are only counted. */
struct grid_visit {
  bool dominant;
  pz_plan_fn *fn;
  void *ctx;
  uint64_t plans;
  /* What the rules said about plans of the grid with several chunks, by order and ZeRO stage.  For dense models the
   * answer does not depend on the number of chunks. */
  struct pz_plan_ways ways[PZ_PIPELINES][4];
  bool can_run[PZ_PIPELINES], known[PZ_PIPELINES];
};

/* Visits the plans of a grid with given chunks and pipeline order.  Rules distinguish an uneven division from the even
 * one, but not uneven divisions from each other. */
static void visit_chunks(struct pz_call *call, struct pz_plan_space *s, struct pz_step_shape *x,
                         struct pz_plan *p, struct grid_visit *visit) {
  int order = p->pipeline;
  bool alike = p->vpp > 1 && !s->model.experts && !s->rules.divides;
  bool known = alike && visit->known[order];
  set_way(s, p, &s->way[0]);
  p->zero = 0;
  if (!known) {
    pz_plan_set_derived(s, p);
    visit->can_run[order] = pz_rule_group_allows(&s->rules, PZ_RULE_PLAIN, p, &s->model);
  }
  if (!visit->can_run[order]) return;
  list_divisions(call, s, p);
  for (; p->zero <= 3; p->zero++) {
    if (!can_shard(s, p) || (visit->dominant && is_dominated_by_zero_1(s, p))) continue;
    if (known) s->ways = visit->ways[order][p->zero];
    for (uint32_t i = 0; i < s->divisions.n; i++) {
      const struct plan_division *d = pz_vec_at(&s->divisions, struct plan_division, i);
      p->first_layers = d->first;
      p->last_layers = d->last;
      if (!known && (i == 0 || (i == 1 && s->rules.divides))) find_ways(s, p);
      if (visit->fn && s->ways.n) visit->fn(call, visit->ctx, x, p);
      visit->plans += s->ways.n;
    }
    visit->ways[order][p->zero] = s->ways;
    p->first_layers = p->last_layers = 0;
  }
  visit->known[order] = alike;
}

static void visit_grid(struct pz_call *call, struct pz_plan_space *s, const struct pz_plan_grid *g,
                       struct grid_visit *visit) {
  struct pz_step_shape *x = pz_shape_at(s, g->shape);
  struct pz_plan p = pz_plan_grid_plan(s, g);
  int64_t most_vpp = p.pp == 1 ? 1 : (s->n_blocks + 2) / p.pp;
  for (int64_t k = 1; k <= most_vpp; k++) {
    p.vpp = visit->dominant ? most_vpp + 1 - k : k; /* plans with more chunks dominate others */
    if (!PZ_PLAN_ALLOWS(s->q, VPP, vpp, p.vpp) || !can_chunk(&p, s->n_blocks)) continue;
    for (int i = 0; i < PZ_PIPELINES; i++) {
      p.pipeline = i;
      if (has_order(s, &p, (enum pz_pipeline_order)i) && can_order(&p, s->n_blocks))
        visit_chunks(call, s, x, &p, visit);
    }
  }
}

void pz_plan_grid_visit(struct pz_call *call, struct pz_plan_space *s, const struct pz_plan_grid *g,
                        bool dominant, pz_plan_fn *fn, void *ctx) {
  struct grid_visit visit = {.dominant = dominant, .fn = fn, .ctx = ctx};
  pz_step_shape_open(call, s->q, pz_shape_at(s, g->shape));
  visit_grid(call, s, g, &visit);
}

uint64_t pz_plan_grid_count(struct pz_call *call, struct pz_plan_space *s,
                            const struct pz_plan_grid *g) {
  struct grid_visit visit = {.fn = NULL};
  visit_grid(call, s, g, &visit);
  return visit.plans;
}

/* ---- errors --------------------------------------------------------------------------------- */

/* Raises an error if the pinned tp does not divide the heads, the likeliest reason for an empty space. */
static void check_pinned_tp(struct pz_call *call, const struct pz_plan_space *s,
                            const struct pz_workload *w) {
  int64_t tp = s->q->plan.tp, kv = w->kv_heads ? w->kv_heads : w->heads;
  if (!(s->q->pinned & PZ_PLAN_PIN(TP)) || pz_heads_divide(w->heads, w->kv_heads, tp)) return;
  pz_raise(
      call, PZ_BAD_USE,
      "tp %lld does not divide the attention heads of %s (%lld, %lld for keys and "
      "values); accepted: divisors of the former that divide the latter or are multiples of it",
      (long long)tp, s->q->job.model, (long long)w->heads, (long long)kv);
}

/* Raises an error with the reason if the framework refuses every plan with the pinned fields. */
static void check_framework(struct pz_call *call, const struct pz_plan_space *s) {
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
  int64_t most_dp = pz_max(p.devices / (p.tp * pz_plan_cp(&p) * p.pp), 1);
  p.sp = pinned & PZ_PLAN_PIN(SP) ? p.sp : p.tp > 1;
  if (!(pinned & PZ_PLAN_PIN(PIPELINE)))
    p.pipeline = p.vpp > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B;
  if (!(pinned & PZ_PLAN_PIN(RECOMPUTE))) p.recompute = PZ_RECOMPUTATION_NONE;
  set_offload(s, &p, &s->way[0]);
  for (int zero = 0; zero <= 3; zero++)
    for (int times = 2; times >= 1; times--) {
      int64_t dp = times * p.ep * pz_max(p.shard, 1);
      if (!(pinned & PZ_PLAN_PIN(DP))) p.dp = pz_min(dp, most_dp);
      if (!(pinned & PZ_PLAN_PIN(ZERO))) p.zero = zero;
      p.batch = 4 * p.mbs * p.dp * p.pp;
      pz_plan_set_derived(s, &p);
      if (pz_rule_list_allows(&s->rules, &p, &s->model, &why)) return;
    }
  pz_raise(call, PZ_NO_ANSWER, "no plan with these fields: %s", why.message);
}

_Noreturn void pz_plan_space_refuse(struct pz_call *call, const struct pz_plan_space *s) {
  check_framework(call, s);
  pz_raise(call, PZ_BAD_USE,
           "no plan has these degrees: tp must divide the heads, tp x cp x pp x dp fill whole "
           "nodes of %lld devices up to %lld, mbs x dp divide the batch of %lld, pp x vpp the "
           "layers",
           (long long)s->node, (long long)s->q->plan.devices, (long long)s->q->plan.batch);
}

/* ---- the whole space ------------------------------------------------------------------------ */

/* Reads heads and layers from the model's graph for one device, finds out what the framework has, and lists the shapes. */
static void read_model(struct pz_call *call, struct pz_plan_space *s) {
  const struct pz_plan_question *q = s->q;
  struct pz_step_shape one = {.tp = 1, .cp = 1, .ep = 1, .mbs = 1};
  int64_t devices = q->plan.devices;
  struct pz_error why = {0};
  struct pz_plan plan = pz_step_shape_plan(q, &one);
  struct pz_step_model *m = pz_step_model_new(call, &q->job, &plan);
  s->n_blocks = m->n_blocks;
  pz_text_copy(s->warning, sizeof s->warning, m->w->warning ? m->w->warning : "");
  s->model = pz_model_shape_or_other(call, q->job.model, q->job.config, m->w, m->n_blocks);
  s->node = m->cost.net.n_levels ? pz_min(pz_cluster_node(&m->cost.net), devices) : devices;
  if (!m->cost.net.n_levels && devices > 1)
    pz_raise(call, PZ_BAD_INPUT, "chip %s has no link between devices; accepted: a cluster",
             q->job.chip->name);
  if (m->w->totals.layers > MAX_LAYERS)
    pz_raise(call, PZ_LIMIT, "%s has %lld layers; accepted: at most %d", m->w->model,
             (long long)m->w->totals.layers, MAX_LAYERS);
  if (!pz_framework_trains(q->plan.framework, &s->model, &why))
    pz_raise(call, PZ_NO_ANSWER, "%s", why.message);
  pz_require_layer_counts(call, &q->plan, s->n_blocks);
  check_pinned_tp(call, s, m->w);
  for (int64_t d = 1; d <= pz_min(q->plan.batch, devices); d++)
    if (q->plan.batch % d == 0) pz_append(call, &s->divisors, &d);
  s->seq = m->seq;
  find_risk(s, m);
  s->rules = pz_rule_list_of(q->plan.framework);
  s->pipeline_orders = find_pipeline_orders(s);
  s->recomputations = find_recomputations(s);
  list_variants(s);
  list_ways(s);
  list_shapes(call, s, m->w);
  pz_close(call, m);
}

void pz_plan_space_init(struct pz_plan_space *s, const struct pz_plan_question *q,
                        struct pz_arena *arena) {
  *s = (struct pz_plan_space){.q = q};
  pz_vec_init(&s->shapes, arena, sizeof(struct pz_step_shape));
  pz_vec_init(&s->grids, arena, sizeof(struct pz_plan_grid));
  pz_vec_init(&s->divisions, arena, sizeof(struct plan_division));
  pz_vec_init(&s->divisors, arena, sizeof(int64_t));
}

void pz_plan_space_list(struct pz_call *call, struct pz_plan_space *s) {
  read_model(call, s);
  open_shapes(call, s);
  list_grids(call, s);
  if (!s->grids.n) pz_plan_space_refuse(call, s);
}

void pz_plan_space_release(void *space) {
  struct pz_plan_space *s = space;
  for (uint32_t i = 0; i < s->shapes.n; i++) close_shape(pz_shape_at(s, i));
}
