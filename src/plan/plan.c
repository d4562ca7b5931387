/* Quantities that follow from the fields of a plan (plan.h): the division of layers among chunks
 * and the recomputed ones, the bytes of optimizer state per parameter, microbatches and overlap.
 * The checks at the end refuse plans whose numbers contradict each other or do not suit the
 * layers of the model. */
#include "plan/plan.h"

#include "core/num.h"

const char *const pz_evaluator_names[] = {"default", "training", "original", NULL};

static const int64_t MOST_DEGREE = 1 << 24;

/* Divides the repeated layers of a model among the chunks of the pipeline.  In the result, chunks with
 * an index below n_longer have a layer more than the other chunks between the first and the last. */
struct pz_plan_layers pz_plan_layers(const struct pz_plan *plan, int64_t layers) {
  int64_t chunks = plan->pp * plan->vpp, first = plan->first_layers, last = plan->last_layers;
  if (first || last) {
    int64_t rest = layers - first - last, middle_chunks = pz_max(chunks - 2, 1);
    /* the middle chunks begin with index 1 */
    return (struct pz_plan_layers){chunks, first, last, rest / middle_chunks,
                                   rest % middle_chunks + 1};
  }
  int64_t each = layers / chunks, n_longer = layers % chunks;
  /* embedding and head count as a layer each if all chunks are then even */
  bool ends_hold_one_less = n_longer && (layers + 2) % chunks == 0;
  if (ends_hold_one_less) {
    each = (layers + 2) / chunks;
    return (struct pz_plan_layers){chunks, each - 1, each - 1, each, 0};
  }
  return (struct pz_plan_layers){chunks, each + (n_longer > 0), each, each, n_longer};
}

int64_t pz_plan_chunk_layers(const struct pz_plan *plan, int64_t layers, int64_t chunk) {
  struct pz_plan_layers division = pz_plan_layers(plan, layers);
  return pz_layers_at(&division, chunk);
}

int64_t pz_plan_layers_before(const struct pz_plan *plan, int64_t layers, int64_t chunk) {
  struct pz_plan_layers division = pz_plan_layers(plan, layers);
  return pz_layers_before(&division, chunk);
}

bool pz_plan_is_even(const struct pz_plan *plan, int64_t layers) {
  for (int64_t chunk = 1; chunk < plan->pp * plan->vpp; chunk++)
    if (pz_plan_chunk_layers(plan, layers, chunk) != pz_plan_chunk_layers(plan, layers, 0))
      return false;
  return true;
}

/* Returns how many of the `layers` layers of a chunk on this stage are recomputed. */
int64_t pz_plan_recomputed_layers(const struct pz_plan *plan, int64_t stage, int64_t layers) {
  int64_t recomputed = plan->recompute_layers ? plan->recompute_layers : layers;
  if (plan->stage_recompute) recomputed = plan->stage_recompute[stage];
  switch (plan->recompute) {
  case PZ_RECOMPUTATION_NONE: return 0;
  case PZ_RECOMPUTATION_HALF: return (layers + 1) / 2;
  case PZ_RECOMPUTATION_FULL: return pz_min(recomputed, layers);
  default: return layers;
  }
}

int pz_plan_recomputed_modules(const struct pz_plan *plan) {
  return plan->recompute == PZ_RECOMPUTATION_SELECTIVE ? pz_plan_selective_modules(plan) : 0;
}

/* Returns the modules that selective recomputation recomputes: those of the plan, or the framework's
 * default if the plan states none.  0 stands for core attention alone. */
int pz_plan_selective_modules(const struct pz_plan *plan) {
  int by_default = pz_plan_framework(plan)->recompute_modules;
  bool core_alone = plan->recompute_modules == (int)PZ_MODULE_CORE;
  /* a framework without default modules recomputes core attention, for which 0 stands */
  if (!plan->recompute_modules || (!by_default && core_alone)) return by_default;
  return plan->recompute_modules;
}

/* Replaces the numbers of recomputed layers by stage by one number for all stages, the largest of
 * them.  Returns false, and leaves the plan unchanged, if that would recompute other layers. */
bool pz_plan_unify_recompute(struct pz_plan *plan, int64_t layers) {
  struct pz_plan unified = *plan;
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  if (!plan->stage_recompute) return true;
  unified.stage_recompute = NULL;
  unified.recompute_layers = 0;
  for (int64_t stage = 0; stage < plan->pp; stage++)
    unified.recompute_layers = pz_max(unified.recompute_layers, plan->stage_recompute[stage]);
  if (!unified.recompute_layers) unified.recompute = PZ_RECOMPUTATION_NONE;
  for (int64_t chunk = 0; chunk < plan->pp * plan->vpp; chunk++) {
    int64_t chunk_layers = pz_plan_chunk_layers(plan, layers, chunk),
            stage = pz_pipeline_stage_of(&shape, (uint32_t)chunk);
    if (pz_plan_recomputed_layers(plan, stage, chunk_layers) !=
        pz_plan_recomputed_layers(&unified, stage, chunk_layers))
      return false;
  }
  *plan = unified;
  return true;
}

/* Returns the bytes of one of Adam's two moments per parameter. */
double pz_plan_moment_bytes(const struct pz_plan *plan, bool experts) {
  static const double FP32_BYTES = 4;
  const struct pz_framework *framework = pz_plan_framework(plan);
  if (plan->moment_bytes > 0) return plan->moment_bytes;
  /* defaults below fp32 need a sharded optimizer on the device */
  double by_default = experts ? framework->expert_moment_bytes : framework->moment_bytes;
  bool on_host = pz_plan_host_optimizer_fraction(plan) > 0;
  return by_default > 0 && plan->zero && !on_host ? by_default : FP32_BYTES;
}

enum pz_format pz_plan_format(const struct pz_plan *plan) {
  if (plan->precision == PZ_PRECISION_NVFP4) return PZ_FORMAT_NVFP4;
  if (plan->precision != PZ_PRECISION_FP8) return PZ_FORMAT_16BIT;
  return (enum pz_format)(PZ_FORMAT_FP8_DELAYED + (plan->fp8_recipe > 0 ? plan->fp8_recipe : 0));
}

/* Returns the bytes per parameter of the optimizer's master copy of a 16-bit weight: those that the
 * plan states, or the framework's default. */
double pz_plan_master_bytes(const struct pz_plan *plan, bool experts) {
  static const double bytes[PZ_MAIN_KINDS] = {
      [PZ_MAIN_FP32] = 4, [PZ_MAIN_FP16] = 2, [PZ_MAIN_REMAINDERS] = 2};
  const struct pz_framework *framework = pz_plan_framework(plan);
  if (plan->main_params >= 0) return bytes[plan->main_params];
  /* Megatron's default: with short moments, only the bits of the fp32 copy that bf16 lacks */
  bool has_bf16_weights = plan->precision == PZ_PRECISION_BF16 ||
                          (plan->precision != PZ_PRECISION_FP16 && framework->fp8_weight_bytes > 0);
  bool has_short_moments = pz_plan_moment_bytes(plan, experts) < bytes[PZ_MAIN_FP32];
  bool keeps_remainders =
      framework->rules & PZ_RULES_CORE && plan->zero == 1 && has_bf16_weights && has_short_moments;
  return bytes[keeps_remainders ? PZ_MAIN_REMAINDERS : PZ_MAIN_FP32];
}

/* Returns the HBM bytes of an Adam step per parameter: those of the framework's default state, less twice the
 * bytes that shorter moments and master copies save, because a step reads and writes them. */
double pz_plan_optimizer_bytes(const struct pz_plan *plan, bool experts) {
  static const double MOMENTS = 2, READ_AND_WRITTEN = 2;
  static const double BYTES_WITHOUT_MASTER_COPY = 16; /* weight, gradient, two moments, all fp32 */
  const struct pz_framework *framework = pz_plan_framework(plan);
  struct pz_plan by_default = *plan;
  by_default.moment_bytes = 0;
  by_default.main_params = PZ_AS_FRAMEWORK;
  double saved_bytes =
      MOMENTS * (pz_plan_moment_bytes(&by_default, experts) - pz_plan_moment_bytes(plan, experts));
  if (framework->state_bytes > BYTES_WITHOUT_MASTER_COPY)
    saved_bytes += pz_plan_master_bytes(&by_default, experts) - pz_plan_master_bytes(plan, experts);
  return pz_fmax(0, framework->optimizer_bytes - READ_AND_WRITTEN * saved_bytes);
}

int64_t pz_plan_offloaded_layers(const struct pz_plan *plan, int64_t layers) {
  if (!(plan->offload & PZ_OFFLOAD_ACTIVATIONS)) return 0;
  return plan->offload_layers ? pz_min(plan->offload_layers, layers) : layers;
}

double pz_plan_host_optimizer_fraction(const struct pz_plan *plan) {
  if (!(plan->offload & PZ_OFFLOAD_OPTIMIZER)) return 0;
  return plan->offload_fraction > 0 ? plan->offload_fraction : 1;
}

/* Returns the overlaps of a plan without those of communication that it does not have: of gradients
 * and weights with one replica, of tensor, pipeline and expert parallelism with a degree of 1. */
int pz_plan_effective_overlap(const struct pz_plan *plan) {
  bool has_degrees = plan->dp && plan->tp;
  bool no_replicas =
      has_degrees && pz_plan_replicas(plan) == 1 && pz_plan_expert_replicas(plan) <= 1;
  int overlap = plan->overlap;
  if (no_replicas) overlap &= ~(int)PZ_OVERLAP_GRAD;
  if (no_replicas || !plan->zero) overlap &= ~(int)PZ_OVERLAP_PARAM;
  if (plan->tp <= 1) overlap &= ~(int)PZ_OVERLAP_TP;
  if (plan->pp <= 1) overlap &= ~(int)PZ_OVERLAP_P2P;
  if (plan->ep <= 1) overlap &= ~(int)PZ_OVERLAP_EP;
  return overlap;
}

struct pz_pipeline_shape pz_plan_pipeline_shape(const struct pz_plan *plan) {
  enum pz_pipeline_order order = (enum pz_pipeline_order)plan->pipeline;
  bool is_interleaved = plan->vpp > 1 && !pz_is_v_pipeline(order);
  if (is_interleaved) order = PZ_PIPELINE_INTERLEAVED;
  return (struct pz_pipeline_shape){order, (uint32_t)plan->pp, (uint32_t)plan->vpp,
                                    (uint32_t)pz_plan_microbatches(plan)};
}

/* Returns the number of microbatches of a replica in a step.  The interleaved order rounds it up to a
 * multiple of the stages, because each chunk runs that many microbatches in turn. */
int64_t pz_plan_microbatches(const struct pz_plan *plan) {
  int64_t microbatches = pz_ceil_div(plan->batch, plan->mbs * plan->dp);
  bool is_interleaved = plan->vpp > 1 && !pz_is_v_pipeline((enum pz_pipeline_order)plan->pipeline);
  return is_interleaved ? pz_ceil_div(microbatches, plan->pp) * plan->pp : microbatches;
}

bool pz_plan_autocasts(const struct pz_plan *plan) {
  return pz_plan_framework(plan)->rules == PZ_RULES_TITAN && !pz_plan_shards_state(plan) &&
         plan->tp == 1 && plan->pp == 1 && plan->cp == 1;
}

void pz_require_stage_recompute(struct pz_call *call, const struct pz_plan *plan) {
  if (!plan->stage_recompute) return;
  if (plan->n_stage_recompute != plan->pp)
    pz_raise(call, PZ_BAD_USE, "stage_recompute has %lld numbers; accepted: pp of them, %lld",
             (long long)plan->n_stage_recompute, (long long)plan->pp);
  for (int64_t stage = 0; stage < plan->pp; stage++)
    pz_require_range(call, "stage_recompute", plan->stage_recompute[stage], 0, MOST_DEGREE);
}

/* Raises an error if a number of the plan is out of its range or contradicts another one. */
void pz_require_plan(struct pz_call *call, const struct pz_plan *plan) {
  const struct {
    const char *name;
    int64_t value;
  } degrees[] = {{"tp", plan->tp},      {"pp", plan->pp},         {"vpp", plan->vpp},
                 {"dp", plan->dp},      {"cp", pz_plan_cp(plan)}, {"mbs", plan->mbs},
                 {"batch", plan->batch}};
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
    if (degrees[i].value < 1 || degrees[i].value > MOST_DEGREE)
      pz_raise(call, PZ_BAD_USE, "%s %lld; accepted: 1 to 2^24", degrees[i].name,
               (long long)degrees[i].value);
  int64_t stage_devices = plan->tp * pz_plan_replicas(plan);
  int64_t expert_grid = pz_plan_ep(plan) * pz_plan_etp(plan);
  bool in_range =
      plan->ep >= 0 && plan->etp >= 0 && plan->ep <= MOST_DEGREE && plan->etp <= MOST_DEGREE;
  if (!in_range || stage_devices % expert_grid)
    pz_raise(call, PZ_BAD_USE,
             "experts over ep %lld x etp %lld with %lld devices a stage (tp x cp x dp); accepted: "
             "degrees whose product divides these",
             (long long)pz_plan_ep(plan), (long long)pz_plan_etp(plan), (long long)stage_devices);
  if (plan->imbalance != 0 && !(plan->imbalance >= 1 && plan->imbalance <= 1e6))
    pz_raise(call, PZ_BAD_USE, "imbalance %g; accepted: 1 and more", plan->imbalance);
  if (plan->zero < 0 || plan->zero > 3)
    pz_raise(call, PZ_BAD_USE, "zero %d; accepted: 0 to 3", plan->zero);
  if (plan->recompute_layers < 0)
    pz_raise(call, PZ_BAD_USE, "%lld layers to recompute; accepted: 0 or more",
             (long long)plan->recompute_layers);
  if (plan->vpp > PZ_PLAN_MOST_CHUNKS)
    pz_raise(call, PZ_BAD_USE, "vpp %lld; accepted: at most %d", (long long)plan->vpp,
             PZ_PLAN_MOST_CHUNKS);
  if (plan->vpp > 1 && plan->pp == 1)
    pz_raise(call, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
             (long long)plan->vpp);
  if (plan->batch < plan->mbs * plan->dp)
    pz_raise(call, PZ_BAD_USE,
             "a batch of %lld is less than one microbatch of %lld on each of %lld replicas",
             (long long)plan->batch, (long long)plan->mbs, (long long)plan->dp);
  bool has_end_layers = plan->first_layers || plan->last_layers;
  if (has_end_layers && (plan->first_layers < 1 || plan->last_layers < 1))
    pz_raise(call, PZ_BAD_USE,
             "%lld layers in the first chunk and %lld in the last; accepted: 1 and more",
             (long long)plan->first_layers, (long long)plan->last_layers);
  if (has_end_layers && plan->pp * plan->vpp < 2)
    pz_raise(call, PZ_BAD_USE,
             "layers of the first and the last chunk with one chunk; accepted: pp above 1");
}

void pz_require_layer_counts(struct pz_call *call, const struct pz_plan *plan, int64_t layers) {
  const struct {
    const char *name;
    int64_t n;
  } counts[] = {{"bf16_layers and bf16_first_layers", plan->bf16_layers + plan->bf16_first_layers},
                {"offload_layers", plan->offload_layers}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    if (counts[i].n > layers)
      pz_raise(call, PZ_BAD_USE, "%s %lld of a model with %lld layers; accepted: 1 to %lld",
               counts[i].name, (long long)counts[i].n, (long long)layers, (long long)layers);
}

/* Raises an error if a model with `layers` layers cannot be divided among the chunks of the plan. */
void pz_require_chunks(struct pz_call *call, const struct pz_plan *plan, int64_t layers) {
  int64_t chunks = plan->pp * plan->vpp, end_layers = plan->first_layers + plan->last_layers;
  bool fits = layers - end_layers >= chunks - 2; /* each middle chunk needs a layer */
  if (chunks == 2) fits = end_layers == layers;
  if (end_layers && !fits)
    pz_raise(call, PZ_BAD_USE,
             "%lld layers, %lld of them in the first and %lld in the last of %lld chunks; "
             "accepted: one for every chunk between, none where there is none",
             (long long)layers, (long long)plan->first_layers, (long long)plan->last_layers,
             (long long)chunks);
  /* with two chunks more than layers, embedding and head are chunks of their own */
  if (layers < chunks && layers + 2 != chunks)
    pz_raise(call, PZ_BAD_USE,
             "%lld layers in %lld chunks (pp %lld x vpp %lld); accepted: pp x vpp at most %lld",
             (long long)layers, (long long)chunks, (long long)plan->pp, (long long)plan->vpp,
             (long long)layers);
}
