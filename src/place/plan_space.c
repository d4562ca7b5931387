/* Lists the space of training plans (plan_space.h).
 *
 * pz_plan_space_list() reads the model and the rules of the framework (read_model), lists all
 * shapes that model, question and framework allow (list_shapes), makes a step model of each shape
 * on several threads and computes its layer times (open_shapes), and lists the grids with lower
 * bounds (add_grid).  pz_plan_grid_visit() enumerates the plans of one grid.  For each plan,
 * find_ways() determines in which ways it can be run.
 *
 * Most plans of a large space are only counted.  Therefore each group of the framework's rules
 * (plan/framework_rules.h) is asked once for as many plans as possible. */
#include "place/plan_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/pool.h"
#include "core/text.h"
#include "plan/plan_fill.h"
#include "workload/workload.h"

/* Limits of the searched degrees (place/plan_question.h), and of the replicas with which
 * framework_can_run() probes. */
enum { MAX_MBS = 128, MAX_CHUNKS = 1024, MAX_CP = 32, MAX_EP = 1024, MAX_LAYERS = 1024 };
enum { MAX_PROBED_REPLICAS = 1 << 20 };

/* Only the first shapes keep their step models, which have some hundred
 * kilobytes each; others make them when they are needed. */
enum { MAX_OPEN_MODELS = 1024 };

/* A division of the layers among the chunks of a pipeline, by the numbers of layers of the first
 * and the last chunk.  Two zeroes stand for the even division. */
struct plan_division {
  int64_t first, last;
};

/* Raises PZ_STOPPED if the user or a time limit has ended the search. */
void pz_plan_space_check_stop(struct pz_call *call, const struct pz_plan_space *space) {
  const struct pz_plan_question *question = space->question;
  bool is_time_over = question->end_s > 0 && pz_clock_s() > question->end_s;
  if (pz_progress_stopped(question->progress) || is_time_over ||
      pz_ending_is_here(question->ending))
    pz_raise(call, PZ_STOPPED, "stopped");
}

/* Begins a phase of the progress bar, which counts `total` units. */
void pz_plan_begin_progress(struct pz_call *call, const struct pz_plan_question *question,
                            const char *label, const char *unit, uint64_t total) {
  pz_progress_next(question->progress, label, unit, total);
  if (question->progress) pz_defer(call, pz_progress_close, question->progress);
}

/* Returns the plan of a shape with one stage, one replica, and no way to save memory. */
struct pz_plan pz_step_shape_plan(const struct pz_plan_question *question,
                                  const struct pz_step_shape *shape) {
  struct pz_plan plan = question->plan;
  plan.tp = shape->tp;
  plan.sp = shape->sp;
  plan.cp = shape->cp;
  plan.ep = shape->ep;
  plan.mbs = shape->mbs;
  plan.halves = shape->halves;
  plan.pp = plan.vpp = plan.dp = 1;
  plan.pipeline = PZ_PIPELINE_1F1B;
  plan.first_layers = plan.last_layers = 0;
  plan.zero = 0;
  plan.recompute = PZ_RECOMPUTATION_NONE;
  plan.recompute_layers = 0;
  plan.stage_recompute = NULL;
  plan.offload = plan.offload_modules = 0;
  plan.offload_layers = 0;
  plan.offload_fraction = 0;
  return plan;
}

/* Returns the plan of a shape whose layers take the least time, with many replicas and ZeRO. */
struct pz_plan pz_step_shape_fastest(const struct pz_plan_question *question,
                                     const struct pz_step_shape *shape) {
  struct pz_plan plan = pz_step_shape_plan(question, shape);
  /* sharded plans do not cast weights in every pass, and ZeRO 2 accumulates the fewest gradients */
  plan.zero = question->pinned & PZ_PLAN_PIN(ZERO) ? (int)pz_min(question->plan.zero, 2) : 2;
  plan.dp = pz_max(1, question->plan.devices / (plan.tp * plan.cp));
  return plan;
}

/* Makes the step model of a shape unless it exists.  It stays when the call ends. */
void pz_step_shape_open(struct pz_call *call, const struct pz_plan_question *question,
                        struct pz_step_shape *shape) {
  if (shape->model) return;
  struct pz_plan plan = pz_step_shape_plan(question, shape);
  shape->model = pz_step_model_new(call, &question->job, &plan);
  pz_undefer(call, shape->model);
}

/* Returns the microbatches of each device if all had equal shares of the batch. */
double pz_step_shape_share(const struct pz_plan_question *question,
                           const struct pz_step_shape *shape) {
  return (double)(question->plan.batch * shape->tp * shape->cp) /
         (double)(shape->mbs * question->plan.devices);
}

/* Lists the variants: each dispatcher of tokens to experts that the framework has on this chip,
 * with the CUDA graphs of the question, and with graphs of all modules that the framework can
 * capture.  The first variant is that of the question. */
static void list_variants(struct pz_plan_space *space) {
  const struct pz_plan_question *question = space->question;
  const struct pz_plan *given = &question->plan;
  uint64_t open_fields = question->searches_features ? ~question->fixed_features : 0;
  int graphs = given->cuda_graphs;
  unsigned dispatchers = 0;
  if (open_fields & PZ_PLAN_PIN(DISPATCHER) && space->model.experts)
    dispatchers = pz_framework_dispatchers(given->framework, question->job.chip, question->without);
  if (open_fields & PZ_PLAN_PIN(CUDA_GRAPHS))
    graphs = pz_framework_graph_modules(given->framework, question->job.chip, &space->model,
                                        question->without);
  enum { GIVEN = -1 }; /* the dispatcher of the question, which comes first */
  for (int i = GIVEN; i < PZ_DISPATCHERS; i++) {
    int dispatcher = i == GIVEN ? given->dispatcher : i;
    if (i != GIVEN && (i == given->dispatcher || !(dispatchers >> i & 1))) continue;
    space->variant[space->n_variants++] = (struct pz_plan_variant){dispatcher, given->cuda_graphs};
    if (graphs && graphs != given->cuda_graphs)
      space->variant[space->n_variants++] = (struct pz_plan_variant){dispatcher, graphs};
  }
}

/* Returns the seconds of one of `microbatches` microbatches through all layers, in a pipeline order
 * and without recomputation.  On a torus only kernels are counted, because there the time of
 * collectives depends on the size of the job. */
static double microbatch_in_order_s(struct pz_call *call, const struct pz_plan_space *space,
                                    struct pz_step_shape *shape, uint32_t variant,
                                    int64_t microbatches, enum pz_pipeline_order order) {
  struct pz_plan plan = pz_step_shape_fastest(space->question, shape);
  const struct pz_step_model *model = shape->model;
  const struct pz_workload *workload = model->workload;
  plan.dispatcher = space->variant[variant].dispatcher;
  plan.cuda_graphs = space->variant[variant].cuda_graphs;
  plan.pipeline = (int)order;
  pz_step_model_time(call, shape->model, &plan, microbatches, PZ_TIMING_BOUND);
  bool is_torus = model->cost.net.n_levels && model->cost.net.level[0].n_axes;
  double total_s = 0;
  if (is_torus) {
    for (uint32_t l = 0; l < workload->n_layers; l++) {
      const struct pz_pass *forward = &model->kernels[l].forward;
      const struct pz_pass *backward = &model->kernels[l].backward;
      double forward_s = forward->gemm_s + forward->attention_s + forward->elementwise_s;
      double backward_s = backward->gemm_s + backward->attention_s + backward->elementwise_s;
      total_s += (double)workload->layers[l].count * (forward_s + backward_s);
    }
    return total_s;
  }
  total_s = pz_layer_step_s(&model->steps->before) + pz_layer_step_s(&model->steps->after);
  for (uint32_t k = 0; k < model->kinds.n; k++)
    total_s += (double)workload->layers[model->kinds.layer[k]].count *
               pz_layer_step_s(&model->steps->block[k]);
  return total_s;
}

/* Returns the least seconds of a microbatch in any pipeline order of the framework.  Only DualPipe
 * and DualPipeV make layers faster than 1F1B: they hide the transfer of tokens to experts. */
static double fastest_microbatch_s(struct pz_call *call, const struct pz_plan_space *space,
                                   struct pz_step_shape *shape, uint32_t variant,
                                   int64_t microbatches) {
  static const enum pz_pipeline_order hiding_orders[] = {PZ_PIPELINE_DUALPIPE_V,
                                                         PZ_PIPELINE_DUALPIPE};
  double least_s =
      microbatch_in_order_s(call, space, shape, variant, microbatches, PZ_PIPELINE_1F1B);
  for (size_t i = 0; i < sizeof hiding_orders / sizeof *hiding_orders && shape->ep > 1; i++) {
    if (!(space->pipeline_orders >> hiding_orders[i] & 1)) continue;
    double order_s =
        microbatch_in_order_s(call, space, shape, variant, microbatches, hiding_orders[i]);
    least_s = pz_fmin(least_s, order_s);
  }
  return least_s;
}

/* Sets the seconds of a microbatch of a shape in every variant.  Without expert parallelism no
 * tokens are sent, so that variants with another dispatcher are skipped. */
void pz_step_shape_time(struct pz_call *call, const struct pz_plan_space *space,
                        struct pz_step_shape *shape) {
  for (uint32_t variant = 0; variant < space->n_variants; variant++) {
    struct pz_shape_time *time = &shape->time[variant];
    bool same_dispatcher = space->variant[variant].dispatcher == space->variant[0].dispatcher;
    if (shape->ep == 1 && !same_dispatcher) continue;
    time->several_s = fastest_microbatch_s(call, space, shape, variant, 2); /* 2: several */
    time->single_s = time->several_s;
    if (!shape->always_several)
      time->single_s = fastest_microbatch_s(call, space, shape, variant, 1);
  }
}

/* Returns what the search minimises: bytes, seconds, or device-seconds (cost).  Times are raised by
 * the expected error of their prediction if the question counts it. */
double pz_plan_value(const struct pz_plan_space *space, const struct pz_plan *plan, double step_s,
                     double needed_bytes) {
  const struct pz_plan_question *question = space->question;
  if (question->objective == PZ_PLAN_MEMORY) return needed_bytes;
  if (question->counts_risk)
    step_s *= 1 + pz_risk_error(&space->risk, pz_plan_features(plan, &space->features));
  if (question->objective == PZ_PLAN_COST) return step_s * (double)pz_plan_devices(plan);
  return step_s;
}

/* Determines the features that all plans share, and the expected error of each feature. */
static void find_risk(struct pz_plan_space *space, const struct pz_step_model *model) {
  const struct pz_plan_question *question = space->question;
  space->features = (struct pz_feature_context){.experts = space->model.experts > 0,
                                                .layers = space->n_layers,
                                                .node = space->devices_per_node};
  for (uint32_t l = 0; l < model->workload->n_layers; l++)
    for (uint32_t i = 0; i < model->workload->layers[l].ops[PZ_FORWARD].n; i++) {
      const struct pz_op *op = &model->workload->layers[l].ops[PZ_FORWARD].op[i];
      space->features.scans |= pz_op_is_scan(op->kind);
      space->features.sparse |= strncmp(op->name, "index_", 6) == 0;
    }
  if (!question->counts_risk) return;
  bool one_node = question->plan.devices <= space->devices_per_node;
  struct pz_risk_question risk = {.chip = question->job.chip,
                                  .net = one_node ? NULL : question->job.net,
                                  .experts = space->features.experts,
                                  .precision = question->plan.precision,
                                  .devices = question->plan.devices,
                                  .seq = model->seq};
  space->risk = pz_risk_built_in(&risk);
}

/* ---- ways ----------------------------------------------------------------------------------- */

/* Sets devices, sequence length and overlap of a plan, which follow from its other fields. */
void pz_plan_set_derived(const struct pz_plan_space *space, struct pz_plan *plan) {
  plan->devices = pz_plan_devices(plan);
  plan->seq = space->seq;
  plan->overlap = space->question->plan.overlap;
  if (!(space->question->pinned & PZ_PLAN_PIN(OVERLAP)))
    (void)pz_rule_list_overlap(&space->rules, plan, &space->model);
}

/* Sets the offload of a way to save memory: activations of the layers or modules that the question
 * states, and a fraction of the optimizer. */
static void set_offload(const struct pz_plan_space *space, struct pz_plan *plan,
                        const struct pz_plan_way *way) {
  const struct pz_plan *given = &space->question->plan;
  plan->offload = (way->activations ? (int)PZ_OFFLOAD_ACTIVATIONS : 0) |
                  (way->fraction > 0 ? (int)PZ_OFFLOAD_OPTIMIZER : 0);
  plan->offload_layers = way->activations ? given->offload_layers : 0;
  plan->offload_modules = way->activations ? given->offload_modules : 0;
  plan->offload_fraction = way->fraction;
}

/* Applies a way to save memory to a plan: its offload, and its recomputation of all layers, unless
 * memory decides their number later. */
static void set_way(const struct pz_plan_space *space, struct pz_plan *plan,
                    const struct pz_plan_way *way) {
  plan->recompute = (int)way->recompute;
  plan->recompute_layers = 0;
  plan->stage_recompute = NULL;
  set_offload(space, plan, way);
}

/* Returns the plan without full recomputation and activation offload, for lower bounds. */
struct pz_plan pz_plan_relaxed(const struct pz_plan *plan) {
  struct pz_plan relaxed = *plan;
  if (plan->recompute == PZ_RECOMPUTATION_FULL) {
    relaxed.recompute = PZ_RECOMPUTATION_NONE;
    relaxed.recompute_layers = 0;
    relaxed.stage_recompute = NULL;
  }
  relaxed.offload &= ~(int)PZ_OFFLOAD_ACTIVATIONS; /* recomputed layers send less to the host */
  return relaxed;
}

/* Returns whether the framework allows the plan's recomputation and offload.  If memory is to
 * choose the number of offloaded layers, either one layer or all must be allowed. */
static bool can_recompute(const struct pz_plan_space *space, struct pz_plan *plan) {
  if (pz_rules_allow(&space->rules, PZ_RULE_RECOMPUTES, plan, &space->model, NULL)) return true;
  if (!pz_plan_offload_is_open(space->question, plan)) return false;
  struct pz_plan one_layer = *plan;
  one_layer.offload_layers = 1;
  return pz_rules_allow(&space->rules, PZ_RULE_RECOMPUTES, &one_layer, &space->model, NULL);
}

/* Applies a way to save memory to a plan.  Returns whether question and framework then allow it. */
static bool set_allowed_way(const struct pz_plan_space *space, struct pz_plan *plan,
                            const struct pz_plan_way *way) {
  set_way(space, plan, way);
  if (!(space->recomputations >> way->recompute & 1)) return false;
  pz_plan_set_derived(space, plan);
  return pz_rules_allow(&space->rules, PZ_RULE_PLAIN, plan, &space->model, NULL) &&
         pz_rules_allow(&space->rules, PZ_RULE_SHARDS, plan, &space->model, NULL) &&
         can_recompute(space, plan);
}

/* Overlaps that a plan is also tried without, because they require further software or are less
 * certain.  A step without them is never faster, but the plan may be rated better because its
 * expected error is smaller. */
static const int optional_overlap[] = {0, PZ_OVERLAP_EP, PZ_OVERLAP_TP,
                                       PZ_OVERLAP_EP | PZ_OVERLAP_TP};

/* Finds the combinations of recomputation and offload ("ways") with which the framework can run a
 * plan that its plain rules allow, and stores them in space->ways.  ZeRO without replicas, which
 * shards nothing, is only allowed if the framework lacks the way without ZeRO, or has moments of
 * fewer bits or 8-bit weights only with a sharded optimizer. */
static void find_ways(struct pz_plan_space *space, struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  bool experts = space->model.experts > 0;
  bool has_replicas = pz_plan_replicas(plan) > 1 || pz_plan_expert_replicas(plan) > 1;
  bool is_pinned = space->question->pinned & PZ_PLAN_PIN(ZERO);
  bool shards_nothing = plan->zero && !has_replicas && !is_pinned;
  bool can_drop_16bit_weights = framework->transformer_engine && !(framework->fp8_weight_bytes > 0);
  bool can_shard = true, knows_can_shard = false; /* the same for all ways */
  space->ways.n = 0;
  for (size_t i = 0; i < space->n_ways; i++) {
    space->ways.allowed[i] = false;
    bool has_recomputation = space->recomputations >> space->way[i].recompute & 1;
    if (!has_recomputation || !can_shard) continue;
    set_way(space, plan, &space->way[i]);
    /* without expert parallelism the overlap does not depend on the way */
    if (!knows_can_shard || plan->ep > 1) pz_plan_set_derived(space, plan);
    if (!knows_can_shard)
      can_shard = pz_rules_allow(&space->rules, PZ_RULE_SHARDS, plan, &space->model, NULL);
    knows_can_shard = true;
    space->ways.allowed[i] = can_shard && can_recompute(space, plan);
    space->ways.overlap[i] = plan->overlap;
    if (shards_nothing && space->ways.allowed[i]) {
      struct pz_plan unsharded = *plan;
      unsharded.zero = 0;
      bool has_smaller_state =
          (can_drop_16bit_weights && pz_plan_keeps_8bit_weights(plan)) ||
          pz_plan_moment_bytes(plan, experts) < pz_plan_moment_bytes(&unsharded, experts);
      space->ways.allowed[i] =
          has_smaller_state || !set_allowed_way(space, &unsharded, &space->way[i]);
    }
    for (size_t k = 0; k < space->n_overlaps && space->ways.allowed[i]; k++) {
      int removed = optional_overlap[k]; /* counts only if the plan has this overlap */
      space->ways.n += (pz_plan_effective_overlap(plan) & removed) == removed;
    }
  }
}

/* Applies a combination of a way to save memory and a removed overlap to a plan.  Returns whether
 * the framework allows the way, and the plan has the overlap that is removed. */
bool pz_plan_apply_way(const struct pz_plan_space *space, struct pz_plan *plan, size_t choice) {
  size_t i = choice / space->n_overlaps;
  int removed = optional_overlap[choice % space->n_overlaps];
  set_way(space, plan, &space->way[i]);
  plan->overlap = space->ways.overlap[i];
  bool has_overlap = (pz_plan_effective_overlap(plan) & removed) == removed;
  plan->overlap &= ~removed;
  return has_overlap && space->ways.allowed[i];
}

/* Lists the ways to save memory: each recomputation, without and with offloaded activations, and
 * with the fraction of the optimizer on the host that the question states, or if it states none,
 * with 0, 1/4, 1/2, 3/4 and 1.  Also sets how many overlaps are tried with each way. */
static void list_ways(struct pz_plan_space *space) {
  static const enum pz_recomputation recomputations[PZ_PLAN_RECOMPUTATIONS] = {
      PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_SELECTIVE, PZ_RECOMPUTATION_ALTERNATE,
      PZ_RECOMPUTATION_HALF, PZ_RECOMPUTATION_FULL};
  const struct pz_plan *plan = &space->question->plan;
  bool optimizer = plan->offload & PZ_OFFLOAD_OPTIMIZER;
  bool activations = plan->offload & PZ_OFFLOAD_ACTIVATIONS;
  bool always_activations = activations && (plan->offload_layers || plan->offload_modules);
  int fractions = optimizer && !(plan->offload_fraction > 0) ? PZ_PLAN_FRACTIONS : 1;
  bool tries_less_overlap = space->question->searches_features && space->question->counts_risk &&
                            !(space->question->pinned & PZ_PLAN_PIN(OVERLAP));
  space->n_overlaps = tries_less_overlap ? sizeof optional_overlap / sizeof *optional_overlap : 1;
  space->n_ways = 0;
  for (int quarter = 0; quarter < fractions; quarter++)
    for (int offloads = always_activations; offloads <= activations; offloads++)
      for (size_t i = 0; i < PZ_PLAN_RECOMPUTATIONS; i++)
        space->way[space->n_ways++] = (struct pz_plan_way){
            recomputations[i], offloads, fractions > 1 ? quarter / 4.0 : plan->offload_fraction};
}

/* ---- what the framework supports ------------------------------------------------------------ */

/* Returns a plan with pp stages and this ZeRO stage, for asking what a framework supports.  Its
 * other degrees and its batch satisfy every rule about divisibility. */
static struct pz_plan probe_plan(const struct pz_plan_space *space, int64_t pp, int zero) {
  struct pz_plan plan = space->question->plan;
  plan.tp = plan.cp = plan.ep = plan.mbs = plan.vpp = 1;
  plan.etp = plan.shard = plan.seq = 0;
  plan.sp = plan.pipeline = 0;
  plan.pp = pp;
  plan.dp = 2;
  plan.batch = 64;
  plan.zero = zero;
  set_way(space, &plan, &(struct pz_plan_way){PZ_RECOMPUTATION_NONE, false, 0});
  return plan;
}

/* Returns the set of recomputations (bits 1 << enum) that question and framework allow.
 * Recomputing every second layer is no better than full recomputation of a chosen number of layers,
 * and is left out if the framework can choose the number. */
static unsigned find_recomputations(const struct pz_plan_space *space) {
  unsigned recomputations = 0;
  if (space->question->pinned & PZ_PLAN_PIN(RECOMPUTE))
    return 1U << space->question->plan.recompute;
  for (int mode = 0; mode < PZ_RECOMPUTATIONS; mode++)
    for (int zero = 0; zero <= 3; zero++) {
      struct pz_plan plan = probe_plan(space, 1, zero);
      bool chooses_layers = pz_framework_recompute_form(&plan) != PZ_RECOMPUTE_ALL;
      plan.recompute = mode;
      if (mode == PZ_RECOMPUTATION_HALF && chooses_layers) continue;
      plan.overlap = pz_framework_overlap(&plan, NULL);
      if (pz_framework_can_run(&plan, NULL, NULL)) recomputations |= 1U << mode;
    }
  return recomputations;
}

/* Returns the set of pipeline orders (bits 1 << enum) that the framework has.  GPipe is no better
 * than 1F1B and is used only if it is pinned. */
static unsigned find_pipeline_orders(const struct pz_plan_space *space) {
  /* a model whose embedding and number of layers exclude no order */
  struct pz_model_shape any_size = space->model;
  unsigned orders = 0;
  any_size.tied = false;
  any_size.layers = 0;
  for (int i = 0; i < PZ_PIPELINES; i++)
    for (int zero = 0; zero <= 3; zero++) {
      struct pz_plan plan = probe_plan(space, 4, zero);
      uint32_t required_vpp = pz_pipeline_chunks((enum pz_pipeline_order)i);
      plan.vpp = required_vpp ? required_vpp : 2; /* interleaving has no required number */
      plan.pipeline = i;
      if (i == PZ_PIPELINE_GPIPE && !(space->question->pinned & PZ_PLAN_PIN(PIPELINE))) continue;
      plan.overlap = pz_framework_overlap(&plan, &any_size);
      if (pz_framework_can_run(&plan, &any_size, NULL)) orders |= 1U << i;
    }
  return orders;
}

/* ---- shapes --------------------------------------------------------------------------------- */

/* Returns whether the framework could run some plan of this shape.  It probes plans with each
 * combination of recomputation and offload (a way), each ZeRO stage, one and two pipeline stages,
 * and the data-parallel degrees that rules distinguish: none, and multiples of ep and of the group
 * of devices over which ZeRO shards (shard). */
static bool framework_can_run(const struct pz_plan_space *space,
                              const struct pz_step_shape *shape) {
  struct pz_plan plan = pz_step_shape_plan(space->question, shape);
  int64_t shard = pz_max(plan.shard, 1);
  const int64_t degrees[] = {
      1,
      shape->ep, /* enough replicas for all experts, then twice as many */
      2 * shape->ep,
      shard,                /* a multiple of the sharding group */
      shard / shape->cp,    /* exactly this group, in which context-parallel devices count too */
      2 * shard * shape->ep /* several groups, and several replicas of the experts */
  };
  for (size_t index = 0; index < sizeof degrees / sizeof *degrees; index++)
    for (int zero = 0; zero <= 3; zero++)
      for (int64_t pp = 1; pp <= 2; pp++) {
        plan.pp = pp;
        plan.zero = zero;
        plan.dp = pz_max(pz_min(degrees[index], MAX_PROBED_REPLICAS), 1);
        plan.batch = 4 * plan.mbs * plan.dp; /* 4 microbatches, which the stages divide */
        if (pp > 1 && space->n_layers < 2) continue;
        for (size_t k = 0; k < space->n_ways; k++)
          if (set_allowed_way(space, &plan, &space->way[k])) return true;
      }
  return false;
}

/* Returns whether a shape divides the heads, the sequence and the batch, and whether the question
 * and the framework allow it.  Context parallelism gives each device two parts of the sequence. */
static bool can_have_shape(const struct pz_plan_space *space, const struct pz_workload *workload,
                           const struct pz_step_shape *shape) {
  const struct pz_plan_question *question = space->question;
  int64_t seq = workload->options.seq;
  bool has_flash = question->plan.attention == PZ_ATTENTION_FLASH;
  if (!pz_heads_divide(workload->heads, workload->kv_heads, shape->tp)) return false;
  if (shape->cp > 1 && (seq % (2 * shape->cp) || !has_flash)) return false;
  if (shape->tp * shape->cp > question->plan.devices) return false;
  if (question->plan.batch % shape->mbs) return false;
  if (shape->sp && seq / shape->cp % shape->tp) return false;
  bool allowed = PZ_PLAN_ALLOWS(question, TP, tp, shape->tp) &&
                 PZ_PLAN_ALLOWS(question, MBS, mbs, shape->mbs) &&
                 (shape->tp == 1 || PZ_PLAN_ALLOWS(question, SP, sp, shape->sp)) &&
                 PZ_PLAN_ALLOWS(question, HALVES, halves, shape->halves);
  return allowed && framework_can_run(space, shape);
}

/* Returns the expert-parallel degree to try after `ep`: powers of two that divide the number of
 * experts, then this number itself.  Returns 0 after the last one. */
static int64_t next_ep(const struct pz_plan_question *question, int64_t experts, int64_t ep) {
  int64_t most = pz_min(experts, pz_min(question->plan.devices, MAX_EP));
  int64_t next = 2 * ep;
  if (question->pinned & PZ_PLAN_PIN(EP)) return 0;
  while (next <= most && experts % next) next *= 2;
  if (next <= most) return next;
  return ep < experts && experts == most ? experts : 0;
}

/* Lists the shapes that model, question and framework allow. */
static void list_shapes(struct pz_call *call, struct pz_plan_space *space,
                        const struct pz_workload *workload) {
  const struct pz_plan_question *question = space->question;
  const struct pz_plan *plan = &question->plan;
  uint64_t pinned = question->pinned;
  int64_t most_tp = pz_min(space->devices_per_node, plan->devices);
  int64_t first_cp = 1, most_cp = MAX_CP, most_mbs = MAX_MBS, first_ep = 1;
  if (pinned & PZ_PLAN_PIN(TP)) most_tp = plan->tp;
  if (pinned & PZ_PLAN_PIN(CP)) first_cp = most_cp = pz_plan_cp(plan);
  if (pinned & PZ_PLAN_PIN(MBS)) most_mbs = plan->mbs;
  if (pinned & PZ_PLAN_PIN(EP)) first_ep = pz_plan_ep(plan);
  most_mbs = pz_min(plan->batch, most_mbs);
  int may_run_halves = pz_step_is_scheduled(question->job.chip, plan);
  struct pz_step_shape shape = {.tp = 1};
  for (shape.tp = 1; shape.tp <= most_tp; shape.tp++)
    for (shape.cp = first_cp; shape.cp <= most_cp; shape.cp *= 2)
      for (shape.mbs = 1; shape.mbs <= most_mbs; shape.mbs++)
        for (int sp = 0; sp <= (shape.tp > 1); sp++)
          for (shape.ep = first_ep; shape.ep; /* next_ep() returns 0 at the end */
               shape.ep = next_ep(question, workload->experts, shape.ep))
            for (int halves = 0; halves <= may_run_halves; halves++) {
              shape.sp = sp;
              shape.halves = halves;
              if (can_have_shape(space, workload, &shape)) pz_append(call, &space->shapes, &shape);
            }
}

/* Shapes that are opened in parallel. */
struct shape_opening {
  struct pz_plan_space *space;
  struct pz_error *refusal; /* the error of each shape that the layers of the model do not allow */
};

/* The arguments of open_and_time_shape(), which is called within a border. */
struct opened_shape {
  struct pz_plan_space *space;
  struct pz_step_shape *shape;
};

/* Makes the step model of a shape, and computes its layer times. */
static void open_and_time_shape(struct pz_call *call, void *ctx) {
  struct opened_shape *opened = ctx;
  pz_step_shape_open(call, opened->space->question, opened->shape);
  pz_step_shape_time(call, opened->space, opened->shape);
}

/* Makes and times the step model of shape i.  Errors that only concern this shape are stored,
 * others are raised again. */
static void open_shape_task(struct pz_call *task, void *ctx, size_t i, unsigned worker) {
  struct shape_opening *opening = ctx;
  struct pz_plan_space *space = opening->space;
  struct opened_shape opened = {space, pz_shape_at(space, (uint32_t)i)};
  struct pz_error *refusal = &opening->refusal[i];
  (void)worker;
  pz_progress_add(space->question->progress, 1);
  pz_plan_space_check_stop(task, space);
  enum pz_status status = pz_border(open_and_time_shape, &opened, refusal);
  bool refused = status == PZ_BAD_USE || status == PZ_BAD_INPUT || status == PZ_LIMIT;
  if (status != PZ_OK && !refused) pz_raise_again(task, refusal);
  if (i < MAX_OPEN_MODELS) return;
  pz_step_model_free(opened.shape->model);
  opened.shape->model = NULL;
}

/* Makes and times the step models of all shapes in parallel, and removes shapes without one. */
static void open_shapes(struct pz_call *call, struct pz_plan_space *space) {
  struct pz_call scratch = pz_scratch(call);
  struct pz_error *refusals = pz_alloc(&scratch, space->shapes.n, sizeof *refusals);
  struct shape_opening opening = {space, refusals};
  struct pz_pool *pool = pz_pool_open(call, space->question->threads);
  pz_plan_begin_progress(call, space->question, "shapes", "shapes", space->shapes.n);
  pz_pool_run(call, pool, space->shapes.n, open_shape_task, &opening);
  if (space->question->progress) pz_close(call, space->question->progress);
  pz_close(call, pool);
  const struct pz_error *first_refusal = NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; i < space->shapes.n; i++) {
    struct pz_step_shape *shape = pz_shape_at(space, i);
    if (refusals[i].status == PZ_OK) {
      *pz_shape_at(space, n++) = *shape;
      continue;
    }
    if (!first_refusal) first_refusal = &refusals[i];
    pz_step_model_free(shape->model);
  }
  space->shapes.n = n;
  if (!n && first_refusal) pz_raise_again(call, first_refusal);
  pz_scratch_end(&scratch);
}

/* ---- grids ---------------------------------------------------------------------------------- */

/* Returns the plan of a grid (a shape with pp and dp) with one chunk per stage and no way to save
 * memory. */
struct pz_plan pz_plan_grid_plan(const struct pz_plan_space *space,
                                 const struct pz_plan_grid *grid) {
  struct pz_plan plan = pz_step_shape_plan(space->question, pz_shape_at(space, grid->shape));
  plan.dispatcher = space->variant[grid->variant].dispatcher;
  plan.cuda_graphs = space->variant[grid->variant].cuda_graphs;
  plan.overlap = 0; /* because overlaps only add expected error, the value is a lower bound */
  plan.pp = grid->pp;
  plan.dp = grid->dp;
  return plan;
}

/* Returns a lower bound, in seconds, of the step of all plans of a grid: the layers of all
 * microbatches, divided evenly among the stages, and the waiting of devices for each other. */
double pz_plan_grid_bound_s(const struct pz_plan_question *question,
                            const struct pz_step_shape *shape, const struct pz_plan_grid *grid) {
  int64_t microbatches = question->plan.batch / (shape->mbs * grid->dp);
  const struct pz_shape_time *time = &shape->time[grid->variant];
  double microbatch_s = microbatches == 1 ? time->single_s : time->several_s;
  double waiting = pz_step_waiting(question->job.constants, question->job.net,
                                   shape->tp * shape->cp * grid->pp * grid->dp);
  return (double)microbatches * microbatch_s / (double)grid->pp * (1 + waiting);
}

/* Appends a grid, once for each variant that matters for its shape, if question, batch and experts
 * allow its stages and replicas.  Its devices must be a part of one node, whole nodes, or in each
 * of several nodes the largest power of two (64 devices in a node of 72). */
static void add_grid(struct pz_call *call, struct pz_plan_space *space, struct pz_plan_grid grid) {
  const struct pz_plan_question *question = space->question;
  const struct pz_step_shape *shape = pz_shape_at(space, grid.shape);
  int64_t group_devices = shape->tp * shape->cp;
  if (!PZ_PLAN_ALLOWS(question, PP, pp, grid.pp) || !PZ_PLAN_ALLOWS(question, DP, dp, grid.dp))
    return;
  if (question->plan.batch % (grid.dp * shape->mbs)) return;
  struct pz_plan plan = pz_plan_grid_plan(space, &grid);
  bool experts_divide = group_devices * grid.dp % (pz_plan_ep(&plan) * pz_plan_etp(&plan)) == 0;
  int64_t devices = group_devices * grid.pp * grid.dp, available = question->plan.devices;
  int64_t node_part = 1, node = space->devices_per_node;
  bool has_devices = devices <= available && (!question->all_devices || devices == available);
  if (!experts_divide || !has_devices) return;
  while (2 * node_part <= node) node_part *= 2; /* the largest power of two */
  bool fills_nodes = devices <= node || devices % node == 0;
  if (!fills_nodes) { /* uses node_part devices of each of several nodes */
    int64_t most_parts = available % node ? available / node_part : available / node;
    if (devices % node_part || devices / node_part > most_parts) return;
  }
  for (grid.variant = 0; grid.variant < space->n_variants; grid.variant++) {
    bool same_dispatcher = space->variant[grid.variant].dispatcher == space->variant[0].dispatcher;
    if (shape->ep == 1 && !same_dispatcher) continue;
    plan = pz_plan_grid_plan(space, &grid);
    grid.bound_s = pz_plan_grid_bound_s(question, shape, &grid);
    grid.bound = pz_plan_value(space, &plan, grid.bound_s, 0);
    pz_append(call, &space->grids, &grid);
  }
}

/* Compares two grids for qsort(): by bound, and equal bounds by the order of listing. */
int pz_plan_grid_order(const void *a, const void *b) {
  const struct pz_plan_grid *first = a, *second = b;
  if (first->bound != second->bound) return first->bound < second->bound ? -1 : 1;
  if (first->shape != second->shape) return first->shape < second->shape ? -1 : 1;
  if (first->variant != second->variant) return first->variant < second->variant ? -1 : 1;
  if (first->pp != second->pp) return first->pp < second->pp ? -1 : 1;
  return (first->dp > second->dp) - (first->dp < second->dp);
}

/* ---- plans of a grid ------------------------------------------------------------------------ */

/* Returns whether question, framework, layers and microbatches allow the plan's pipeline order with
 * its chunks per stage (vpp).  With a single stage all orders are the same and count as 1F1B. */
static bool can_order(const struct pz_plan_space *space, const struct pz_plan *plan) {
  int64_t chunks = plan->pp * plan->vpp, microbatches = plan->batch / (plan->mbs * plan->dp);
  if (!PZ_PLAN_ALLOWS(space->question, PIPELINE, pipeline, plan->pipeline)) return false;
  if (plan->pp == 1) {
    if (plan->pipeline != PZ_PIPELINE_1F1B) return false;
  } else {
    int64_t required_vpp = pz_pipeline_chunks((enum pz_pipeline_order)plan->pipeline);
    /* interleaving has no required number, but more than one chunk */
    bool has_vpp = required_vpp ? plan->vpp == required_vpp : plan->vpp > 1;
    if (!(space->pipeline_orders >> plan->pipeline & 1) || !has_vpp) return false;
  }
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  bool is_v = pz_is_v_pipeline(shape.order);
  double events = 2.0 * (double)chunks * (double)microbatches; /* forward and backward passes */
  if (chunks > MAX_CHUNKS || events > PZ_PIPELINE_MOST_EVENTS) return false;
  if (is_v && !pz_pipeline_can_run(&shape)) return false;
  if (plan->vpp == 1) return space->n_layers >= plan->pp; /* each stage has a layer */
  bool can_interleave = is_v || microbatches % plan->pp == 0;
  return plan->pp > 1 && can_interleave;
}

/* Returns whether the plan's ZeRO stage is tried.  Stage 1 is tried even without replicas, because
 * some frameworks have an optimizer on the host, or state in fewer bits, only with it.  With
 * PZ_VISIT_DOMINANT, stage 0 is left out if stage 1 is possible and never worse. */
static bool tries_zero_stage(const struct pz_plan_space *space, const struct pz_plan *plan,
                             enum pz_plan_visit which) {
  bool is_pinned = space->question->pinned & PZ_PLAN_PIN(ZERO);
  bool has_replicas = pz_plan_replicas(plan) > 1 || pz_plan_expert_replicas(plan) > 1;
  if (is_pinned && space->question->plan.zero != plan->zero) return false;
  if (!is_pinned && !has_replicas && plan->zero > 1) return false;
  if (which == PZ_VISIT_ALL || plan->zero > 0) return true;
  struct pz_plan sharded = *plan;
  sharded.zero = 1;
  bool stage_1_is_better = pz_plan_replicas(plan) > 1 && !plan->shard && plan->grad_bytes >= 2;
  return !(stage_1_is_better && PZ_PLAN_ALLOWS(space->question, ZERO, zero, 1) &&
           set_allowed_way(space, &sharded, &space->way[0]));
}

/* Lists the divisions of the layers among the chunks: the even one, and those in which every chunk
 * between the first and the last has middle_layers, the rounded-up mean or one more.  The first and
 * the last chunk then share the remaining end_layers, with at most middle_layers each.  Two chunks
 * share all layers in every way. */
static void list_divisions(struct pz_call *call, struct pz_plan_space *space,
                           const struct pz_plan *plan) {
  int64_t layers = space->n_layers, chunks = plan->pp * plan->vpp;
  int64_t mean_layers = pz_ceil_div(layers, chunks);
  int64_t even_first = pz_plan_chunk_layers(plan, layers, 0);
  int64_t even_last = pz_plan_chunk_layers(plan, layers, chunks - 1);
  space->divisions.n = 0;
  pz_append(call, &space->divisions, NULL); /* zeroes, which stand for the even division */
  if (space->question->only_even || chunks == 1) return;
  int64_t most_middle_layers = chunks > 2 ? mean_layers + 1 : mean_layers;
  for (int64_t middle_layers = mean_layers; middle_layers <= most_middle_layers; middle_layers++) {
    int64_t end_layers = layers - (chunks - 2) * middle_layers;
    int64_t most = chunks == 2 ? layers - 1 : middle_layers;
    for (int64_t first = pz_max(1, end_layers - most); first <= pz_min(most, end_layers - 1);
         first++) {
      struct plan_division division = {first, end_layers - first};
      bool is_even = first == even_first && end_layers - first == even_last;
      if (!is_even) pz_append(call, &space->divisions, &division);
    }
  }
}

/* An enumeration of the plans of a grid.  Without fn they are only counted. */
struct grid_visit {
  enum pz_plan_visit which;
  pz_plan_fn *fn;
  void *ctx;
  uint64_t plans; /* number of plans, each counted in all its ways */
  /* Answers of the rules for plans with several chunks per stage, by pipeline order and ZeRO
   * stage.  For dense models they do not depend on the number of chunks. */
  struct pz_plan_ways ways[PZ_PIPELINES][4];
  bool can_run[PZ_PIPELINES], is_cached[PZ_PIPELINES];
};

/* Visits the plans of a grid with the chunks and the pipeline order of `plan`, for every ZeRO stage
 * and division of layers.  Rules are asked only where their answer may differ: for the even
 * division and the first uneven one, and again for other chunks unless the answers are cached. */
static void visit_chunks(struct pz_call *call, struct pz_plan_space *space,
                         struct pz_step_shape *shape, struct pz_plan *plan,
                         struct grid_visit *visit) {
  int order = plan->pipeline;
  bool can_cache = plan->vpp > 1 && !space->model.experts && !space->rules.depends_on_division;
  bool is_cached = can_cache && visit->is_cached[order];
  set_way(space, plan, &space->way[0]);
  plan->zero = 0;
  if (!is_cached) {
    pz_plan_set_derived(space, plan);
    visit->can_run[order] = pz_rules_allow(&space->rules, PZ_RULE_PLAIN, plan, &space->model, NULL);
  }
  if (!visit->can_run[order]) return;
  list_divisions(call, space, plan);
  for (; plan->zero <= 3; plan->zero++) {
    if (!tries_zero_stage(space, plan, visit->which)) continue;
    if (is_cached) space->ways = visit->ways[order][plan->zero];
    for (uint32_t i = 0; i < space->divisions.n; i++) {
      const struct plan_division *division = pz_vec_at(&space->divisions, struct plan_division, i);
      bool is_even = i == 0, is_first_uneven = i == 1;
      bool is_new_case = is_even || (is_first_uneven && space->rules.depends_on_division);
      plan->first_layers = division->first;
      plan->last_layers = division->last;
      if (!is_cached && is_new_case) find_ways(space, plan);
      if (visit->fn && space->ways.n) visit->fn(call, visit->ctx, shape, plan);
      visit->plans += space->ways.n;
    }
    visit->ways[order][plan->zero] = space->ways;
    plan->first_layers = plan->last_layers = 0;
  }
  visit->is_cached[order] = can_cache;
}

/* Calls fn for the plans of a grid with every number of chunks and every pipeline order, unless fn
 * is NULL.  Returns the number of plans, each counted once for every way in which it can be run. */
uint64_t pz_plan_grid_visit(struct pz_call *call, struct pz_plan_space *space,
                            const struct pz_plan_grid *grid, enum pz_plan_visit which,
                            pz_plan_fn *fn, void *ctx) {
  struct grid_visit visit = {.which = which, .fn = fn, .ctx = ctx};
  struct pz_step_shape *shape = pz_shape_at(space, grid->shape);
  if (fn) pz_step_shape_open(call, space->question, shape);
  struct pz_plan plan = pz_plan_grid_plan(space, grid);
  int64_t most_vpp = plan.pp == 1 ? 1 : (space->n_layers + 2) / plan.pp;
  for (int64_t k = 1; k <= most_vpp; k++) {
    /* plans with more chunks dominate others and come first */
    plan.vpp = which == PZ_VISIT_DOMINANT ? most_vpp + 1 - k : k;
    /* several chunks per stage must divide the layers, or the layers plus embedding and head */
    int64_t layers = space->n_layers, chunks = plan.pp * plan.vpp;
    bool can_divide = layers % chunks == 0 || (layers + 2) % chunks == 0;
    bool can_chunk = plan.vpp == 1 || (layers + 2 >= chunks && can_divide);
    if (!can_chunk || !PZ_PLAN_ALLOWS(space->question, VPP, vpp, plan.vpp)) continue;
    for (int i = 0; i < PZ_PIPELINES; i++) {
      plan.pipeline = i;
      if (can_order(space, &plan)) visit_chunks(call, space, shape, &plan, &visit);
    }
  }
  return visit.plans;
}

/* Raises an error that says why the space is empty: the framework refuses every plan with the
 * pinned fields, or else the degrees divide nothing.  Asks its rules about plans with small values
 * of the other fields, every ZeRO stage, and the fewest possible replicas or twice as many. */
_Noreturn void pz_plan_space_refuse(struct pz_call *call, const struct pz_plan_space *space) {
  struct pz_plan plan = space->question->plan;
  struct pz_error why = {0};
  uint64_t pinned = space->question->pinned;
  int64_t *const degrees[] = {&plan.tp, &plan.cp, &plan.ep, &plan.pp, &plan.vpp, &plan.mbs};
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
    if (!*degrees[i]) *degrees[i] = 1;
  bool needs_stages =
      plan.vpp > 1 || (pinned & PZ_PLAN_PIN(PIPELINE) && plan.pipeline != PZ_PIPELINE_1F1B);
  if (needs_stages && !(pinned & PZ_PLAN_PIN(PP))) plan.pp = 2;
  uint32_t required_vpp = pinned & PZ_PLAN_PIN(PIPELINE)
                              ? pz_pipeline_chunks((enum pz_pipeline_order)plan.pipeline)
                              : 1;
  if (!(pinned & PZ_PLAN_PIN(VPP)) && required_vpp != 1) plan.vpp = 2;
  int64_t most_dp = pz_max(plan.devices / (plan.tp * pz_plan_cp(&plan) * plan.pp), 1);
  plan.sp = pinned & PZ_PLAN_PIN(SP) ? plan.sp : plan.tp > 1;
  if (!(pinned & PZ_PLAN_PIN(PIPELINE)))
    plan.pipeline = plan.vpp > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B;
  if (!(pinned & PZ_PLAN_PIN(RECOMPUTE))) plan.recompute = PZ_RECOMPUTATION_NONE;
  set_offload(space, &plan, &space->way[0]);
  /* ask the rules of the framework */
  bool is_allowed = false;
  for (int zero = 0; zero <= 3 && !is_allowed; zero++)
    for (int multiple = 2; multiple >= 1 && !is_allowed; multiple--) {
      int64_t dp = multiple * plan.ep * pz_max(plan.shard, 1);
      if (!(pinned & PZ_PLAN_PIN(DP))) plan.dp = pz_min(dp, most_dp);
      if (!(pinned & PZ_PLAN_PIN(ZERO))) plan.zero = zero;
      plan.batch = 4 * plan.mbs * plan.dp * plan.pp;
      pz_plan_set_derived(space, &plan);
      is_allowed = pz_rules_allow(&space->rules, PZ_RULE_GROUPS, &plan, &space->model, &why);
    }
  if (!is_allowed) pz_raise(call, PZ_NO_ANSWER, "no plan with these fields: %s", why.message);
  pz_raise(call, PZ_BAD_USE,
           "no plan has these degrees: tp must divide the heads, tp x cp x pp x dp fill whole "
           "nodes of %lld devices up to %lld, mbs x dp divide the batch of %lld, pp x vpp the "
           "layers",
           (long long)space->devices_per_node, (long long)space->question->plan.devices,
           (long long)space->question->plan.batch);
}

/* ---- the whole space ------------------------------------------------------------------------ */

/* Reads and checks heads and layers of the model's graph on one device, determines what the
 * framework supports, and lists the variants, ways to save memory, and shapes of the space. */
static void read_model(struct pz_call *call, struct pz_plan_space *space) {
  const struct pz_plan_question *question = space->question;
  struct pz_step_shape one_device = {.tp = 1, .cp = 1, .ep = 1, .mbs = 1};
  int64_t devices = question->plan.devices;
  struct pz_error why = {0};
  struct pz_plan plan = pz_step_shape_plan(question, &one_device);
  struct pz_step_model *model = pz_step_model_new(call, &question->job, &plan);
  space->n_layers = model->n_blocks;
  pz_text_copy(space->warning, sizeof space->warning,
               model->workload->warning ? model->workload->warning : "");
  space->model = pz_model_shape_or_other(call, question->job.model, question->job.config,
                                         model->workload, model->n_blocks);
  space->devices_per_node =
      model->cost.net.n_levels ? pz_min(pz_cluster_node(&model->cost.net), devices) : devices;
  if (!model->cost.net.n_levels && devices > 1)
    pz_raise(call, PZ_BAD_INPUT, "chip %s has no link between devices; accepted: a cluster",
             question->job.chip->name);
  if (model->workload->totals.layers > MAX_LAYERS)
    pz_raise(call, PZ_LIMIT, "%s has %lld layers; accepted: at most %d", model->workload->model,
             (long long)model->workload->totals.layers, MAX_LAYERS);
  if (!pz_framework_trains(question->plan.framework, &space->model, &why))
    pz_raise(call, PZ_NO_ANSWER, "%s", why.message);
  pz_require_layer_counts(call, &question->plan, space->n_layers);
  const struct pz_workload *workload = model->workload;
  int64_t tp = question->plan.tp, heads = workload->heads, kv_heads = workload->kv_heads;
  if (question->pinned & PZ_PLAN_PIN(TP) && !pz_heads_divide(heads, kv_heads, tp))
    pz_raise(
        call, PZ_BAD_USE,
        "tp %lld does not divide the attention heads of %s (%lld, %lld for keys and "
        "values); accepted: divisors of the former that divide the latter or are multiples of it",
        (long long)tp, question->job.model, (long long)heads,
        (long long)(kv_heads ? kv_heads : heads));
  for (int64_t divisor = 1; divisor <= pz_min(question->plan.batch, devices); divisor++)
    if (question->plan.batch % divisor == 0) pz_append(call, &space->divisors, &divisor);
  space->seq = model->seq;
  find_risk(space, model);
  space->rules = pz_rule_list_of(question->plan.framework);
  space->pipeline_orders = find_pipeline_orders(space);
  space->recomputations = find_recomputations(space);
  list_variants(space);
  list_ways(space);
  list_shapes(call, space, workload);
  pz_close(call, model);
}

/* Sets the space to an empty one, whose lists are in the arena. */
void pz_plan_space_init(struct pz_plan_space *space, const struct pz_plan_question *question,
                        struct pz_arena *arena) {
  *space = (struct pz_plan_space){.question = question};
  pz_vec_init(&space->shapes, arena, sizeof(struct pz_step_shape));
  pz_vec_init(&space->grids, arena, sizeof(struct pz_plan_grid));
  pz_vec_init(&space->divisions, arena, sizeof(struct plan_division));
  pz_vec_init(&space->divisors, arena, sizeof(int64_t));
}

/* Lists the shapes, and their grids with lower bounds. */
void pz_plan_space_list(struct pz_call *call, struct pz_plan_space *space) {
  read_model(call, space);
  open_shapes(call, space);
  int64_t devices = space->question->plan.devices;
  for (uint32_t i = 0; i < space->shapes.n; i++) {
    const struct pz_step_shape *shape = pz_shape_at(space, i);
    int64_t stage_devices = shape->tp * shape->cp; /* devices of one stage of a replica */
    pz_plan_space_check_stop(call, space);
    for (int64_t pp = 1; pp <= pz_min(space->n_layers, devices / stage_devices); pp++)
      for (uint32_t k = 0; k < space->divisors.n; k++) {
        int64_t dp = *pz_vec_at(&space->divisors, int64_t, k);
        if (dp > devices / (stage_devices * pp)) break;
        add_grid(call, space, (struct pz_plan_grid){.shape = i, .pp = pp, .dp = dp});
      }
  }
  if (!space->grids.n) pz_plan_space_refuse(call, space);
}

/* Frees the step models of all shapes; a pz_close_fn. */
void pz_plan_space_release(void *space) {
  struct pz_plan_space *plan_space = space;
  for (uint32_t i = 0; i < plan_space->shapes.n; i++)
    pz_step_model_free(pz_shape_at(plan_space, i)->model);
}
