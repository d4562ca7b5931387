#include "plan/plan.h"

#include "core/num.h"

/* How chips and plans are judged: of a search and of a place. */
const char *const pz_evaluator_names[] = {"default", "training", "original", NULL};

static const int64_t MOST = 1 << 24;

/* ---- layers --------------------------------------------------------------------------------- */

struct pz_plan_layers pz_plan_layers(const struct pz_plan *p, int64_t blocks) {
  int64_t n = p->pp * p->vpp, each = blocks / n, more = blocks % n;
  if (p->first_layers || p->last_layers) {
    int64_t rest = blocks - p->first_layers - p->last_layers, others = pz_max(n - 2, 1);
    return (struct pz_plan_layers){n, p->first_layers, p->last_layers, rest / others,
                                   rest % others + 1};
  }
  if (more && (blocks + 2) % n == 0) {
    each = (blocks + 2) / n;
    return (struct pz_plan_layers){n, each - 1, each - 1, each, 0};
  }
  return (struct pz_plan_layers){n, each + (more > 0), each, each, more};
}

int64_t pz_plan_blocks(const struct pz_plan *p, int64_t blocks, int64_t chunk) {
  struct pz_plan_layers l = pz_plan_layers(p, blocks);
  return pz_layers_at(&l, chunk);
}

int64_t pz_plan_start(const struct pz_plan *p, int64_t blocks, int64_t chunk) {
  struct pz_plan_layers l = pz_plan_layers(p, blocks);
  return pz_layers_before(&l, chunk);
}

bool pz_plan_is_even(const struct pz_plan *p, int64_t blocks) {
  for (int64_t j = 1; j < p->pp * p->vpp; j++)
    if (pz_plan_blocks(p, blocks, j) != pz_plan_blocks(p, blocks, 0)) return false;
  return true;
}

int64_t pz_plan_recomputed(const struct pz_plan *p, int64_t stage, int64_t blocks) {
  int64_t n = p->stage_recompute    ? p->stage_recompute[stage]
              : p->recompute_layers ? p->recompute_layers
                                    : blocks;
  switch (p->recompute) {
  case PZ_RECOMPUTATION_NONE: return 0;
  case PZ_RECOMPUTATION_HALF: return (blocks + 1) / 2;
  case PZ_RECOMPUTATION_FULL: return pz_min(n, blocks);
  default: return blocks;
  }
}

int pz_plan_modules(const struct pz_plan *p) {
  return p->recompute == PZ_RECOMPUTATION_SELECTIVE ? pz_plan_selected(p) : 0;
}

int pz_plan_selected(const struct pz_plan *p) {
  int own = pz_plan_framework(p)->modules, core = PZ_MODULE_CORE;
  if (!p->recompute_modules || (!own && p->recompute_modules == core)) return own;
  return p->recompute_modules;
}

bool pz_plan_recompute_alike(struct pz_plan *p, int64_t blocks) {
  struct pz_plan alike = *p;
  struct pz_pipeline_shape shape = pz_plan_shape(p);
  if (!p->stage_recompute) return true;
  alike.stage_recompute = NULL;
  alike.recompute_layers = 0;
  for (int64_t k = 0; k < p->pp; k++)
    alike.recompute_layers = pz_max(alike.recompute_layers, p->stage_recompute[k]);
  if (!alike.recompute_layers) alike.recompute = PZ_RECOMPUTATION_NONE;
  for (int64_t j = 0; j < p->pp * p->vpp; j++) {
    int64_t n = pz_plan_blocks(p, blocks, j), k = pz_pipeline_stage_of(&shape, (uint32_t)j);
    if (pz_plan_recomputed(p, k, n) != pz_plan_recomputed(&alike, k, n)) return false;
  }
  *p = alike;
  return true;
}

double pz_plan_moment_bytes(const struct pz_plan *p, bool experts) {
  static const double fp32 = 4;
  const struct pz_framework *f = pz_plan_framework(p);
  double own = experts ? f->expert_moment_bytes : f->moment_bytes;
  if (p->moment_bytes > 0) return p->moment_bytes;
  return own > 0 && p->zero && !(pz_plan_away(p) > 0) ? own : fp32; /* on the host they are fp32 */
}

enum pz_format pz_plan_format(const struct pz_plan *p) {
  if (p->precision == PZ_PRECISION_NVFP4) return PZ_FORMAT_NVFP4;
  if (p->precision != PZ_PRECISION_FP8) return PZ_FORMAT_16BIT;
  return (enum pz_format)(PZ_FORMAT_FP8_DELAYED + (p->fp8_recipe > 0 ? p->fp8_recipe : 0));
}

double pz_plan_main_bytes(const struct pz_plan *p, bool experts) {
  static const double bytes[PZ_MAIN_KINDS] = {
      [PZ_MAIN_FP32] = 4, [PZ_MAIN_FP16] = 2, [PZ_MAIN_REMAINDERS] = 2};
  const struct pz_framework *f = pz_plan_framework(p);
  bool bf16 = p->precision == PZ_PRECISION_BF16 ||
              (p->precision != PZ_PRECISION_FP16 && f->fp8_weight_bytes > 0);
  bool remainders = f->rules & PZ_RULES_CORE && p->zero == 1 && bf16 &&
                    pz_plan_moment_bytes(p, experts) < bytes[PZ_MAIN_FP32];
  return bytes[p->main_params >= 0 ? p->main_params
               : remainders        ? PZ_MAIN_REMAINDERS
                                   : PZ_MAIN_FP32];
}

double pz_plan_optimizer_bytes(const struct pz_plan *p, bool experts) {
  static const double MOMENTS = 2, READ_AND_WRITTEN = 2, OWN_STATE_BYTES = 16;
  const struct pz_framework *f = pz_plan_framework(p);
  struct pz_plan plain = *p;
  plain.moment_bytes = 0;
  plain.main_params = PZ_AS_FRAMEWORK;
  double fewer =
      MOMENTS * (pz_plan_moment_bytes(&plain, experts) - pz_plan_moment_bytes(p, experts));
  if (f->state_bytes > OWN_STATE_BYTES) /* weights have copies */
    fewer += pz_plan_main_bytes(&plain, experts) - pz_plan_main_bytes(p, experts);
  return pz_fmax(0, f->optimizer_bytes - READ_AND_WRITTEN * fewer);
}

int64_t pz_plan_offloaded(const struct pz_plan *p, int64_t blocks) {
  if (!(p->offload & PZ_OFFLOAD_ACTIVATIONS)) return 0;
  return p->offload_layers ? pz_min(p->offload_layers, blocks) : blocks;
}

double pz_plan_away(const struct pz_plan *p) {
  if (!(p->offload & PZ_OFFLOAD_OPTIMIZER)) return 0;
  return p->offload_fraction > 0 ? p->offload_fraction : 1;
}

enum pz_loss pz_plan_loss(const struct pz_plan *p) {
  return p->fused_loss ? PZ_LOSS_IN_PLACE : pz_plan_framework(p)->loss;
}

int pz_plan_overlap(const struct pz_plan *p) {
  bool alone = p->dp && p->tp && pz_plan_replicas(p) == 1 && pz_plan_expert_replicas(p) <= 1;
  int none = (alone ? (int)PZ_OVERLAP_GRAD : 0) | (alone || !p->zero ? (int)PZ_OVERLAP_PARAM : 0) |
             (p->tp > 1 ? 0 : (int)PZ_OVERLAP_TP) | (p->pp > 1 ? 0 : (int)PZ_OVERLAP_P2P) |
             (p->ep > 1 ? 0 : (int)PZ_OVERLAP_EP);
  return p->overlap & ~none;
}

struct pz_pipeline_shape pz_plan_shape(const struct pz_plan *p) {
  enum pz_pipeline_order order = (enum pz_pipeline_order)p->pipeline;
  bool chunks = p->vpp > 1 && !pz_is_v_pipeline(order);
  return (struct pz_pipeline_shape){.order = chunks ? PZ_PIPELINE_INTERLEAVED : order,
                                    .stages = (uint32_t)p->pp,
                                    .chunks = (uint32_t)p->vpp,
                                    .microbatches = (uint32_t)pz_plan_microbatches(p)};
}

int64_t pz_plan_microbatches(const struct pz_plan *p) {
  int64_t n = pz_ceil_div(p->batch, p->mbs * p->dp);
  bool interleaved = p->vpp > 1 && !pz_is_v_pipeline((enum pz_pipeline_order)p->pipeline);
  return interleaved ? pz_ceil_div(n, p->pp) * p->pp : n;
}

/* ---- checks --------------------------------------------------------------------------------- */

static enum pz_status check_division(const struct pz_plan *p, struct pz_error *err) {
  if (!p->first_layers && !p->last_layers) return PZ_OK;
  if (p->first_layers < 1 || p->last_layers < 1)
    return pz_fail(err, PZ_BAD_USE,
                   "%lld layers in the first chunk and %lld in the last; accepted: 1 and more",
                   (long long)p->first_layers, (long long)p->last_layers);
  if (p->pp * p->vpp < 2)
    return pz_fail(err, PZ_BAD_USE,
                   "layers of the first and the last chunk with one chunk; accepted: pp above 1");
  return PZ_OK;
}

enum pz_status pz_plan_check_stages(const struct pz_plan *p, struct pz_error *err) {
  if (p->stage_recompute && p->n_stage_recompute != p->pp)
    return pz_fail(err, PZ_BAD_USE, "stage_recompute has %lld numbers; accepted: pp of them, %lld",
                   (long long)p->n_stage_recompute, (long long)p->pp);
  enum pz_status status = PZ_OK;
  for (int64_t k = 0; p->stage_recompute && k < p->pp && status == PZ_OK; k++)
    status = pz_need_range("stage_recompute", p->stage_recompute[k], 0, MOST, err);
  return status;
}

enum pz_status pz_plan_check(const struct pz_plan *p, struct pz_error *err) {
  const struct {
    const char *name;
    int64_t v;
  } list[] = {{"tp", p->tp},         {"pp", p->pp},   {"vpp", p->vpp},    {"dp", p->dp},
              {"cp", pz_plan_cp(p)}, {"mbs", p->mbs}, {"batch", p->batch}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i].v < 1 || list[i].v > MOST)
      return pz_fail(err, PZ_BAD_USE, "%s %lld; accepted: 1 to 2^24", list[i].name,
                     (long long)list[i].v);
  int64_t group = p->tp * pz_plan_replicas(p), grid = pz_plan_ep(p) * pz_plan_etp(p);
  if (p->ep < 0 || p->etp < 0 || p->ep > MOST || p->etp > MOST || group % grid)
    return pz_fail(
        err, PZ_BAD_USE,
        "experts over ep %lld x etp %lld with %lld devices a stage (tp x cp x dp); accepted: "
        "degrees whose product divides these",
        (long long)pz_plan_ep(p), (long long)pz_plan_etp(p), (long long)group);
  if (p->imbalance != 0 && !(p->imbalance >= 1 && p->imbalance <= 1e6))
    return pz_fail(err, PZ_BAD_USE, "imbalance %g; accepted: 1 and more", p->imbalance);
  if (p->zero < 0 || p->zero > 3)
    return pz_fail(err, PZ_BAD_USE, "zero %d; accepted: 0 to 3", p->zero);
  if (p->recompute_layers < 0)
    return pz_fail(err, PZ_BAD_USE, "%lld layers to recompute; accepted: 0 or more",
                   (long long)p->recompute_layers);
  if (p->vpp > PZ_PLAN_MOST_CHUNKS)
    return pz_fail(err, PZ_BAD_USE, "vpp %lld; accepted: at most %d", (long long)p->vpp,
                   PZ_PLAN_MOST_CHUNKS);
  if (p->vpp > 1 && p->pp == 1)
    return pz_fail(err, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
                   (long long)p->vpp);
  if (p->batch < p->mbs * p->dp)
    return pz_fail(err, PZ_BAD_USE,
                   "a batch of %lld is less than one microbatch of %lld on each of %lld replicas",
                   (long long)p->batch, (long long)p->mbs, (long long)p->dp);
  return check_division(p, err);
}

enum pz_status pz_plan_check_counts(const struct pz_plan *p, int64_t blocks, struct pz_error *err) {
  const struct {
    const char *name;
    int64_t n;
  } counts[] = {{"bf16_layers and bf16_first_layers", pz_plan_wide_layers(p)},
                {"offload_layers", p->offload_layers}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    if (counts[i].n > blocks)
      return pz_fail(err, PZ_BAD_USE, "%s %lld of a model with %lld layers; accepted: 1 to %lld",
                     counts[i].name, (long long)counts[i].n, (long long)blocks, (long long)blocks);
  return PZ_OK;
}

enum pz_status pz_plan_check_layers(const struct pz_plan *p, int64_t blocks, struct pz_error *err) {
  int64_t chunks = p->pp * p->vpp, ends = p->first_layers + p->last_layers;
  if (ends && (chunks == 2 ? ends != blocks : blocks - ends < chunks - 2))
    return pz_fail(err, PZ_BAD_USE,
                   "%lld layers, %lld of them in the first and %lld in the last of %lld chunks; "
                   "accepted: one for every chunk between, none where there is none",
                   (long long)blocks, (long long)p->first_layers, (long long)p->last_layers,
                   (long long)chunks);
  if (blocks >= chunks || blocks + 2 == chunks) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE,
                 "%lld layers in %lld chunks (pp %lld x vpp %lld); accepted: pp x vpp at most %lld",
                 (long long)blocks, (long long)chunks, (long long)p->pp, (long long)p->vpp,
                 (long long)blocks);
}

bool pz_plan_autocasts(const struct pz_plan *p) {
  return pz_plan_framework(p)->rules == PZ_RULES_TITAN && !pz_plan_divides(p) && p->tp == 1 &&
         p->pp == 1 && p->cp == 1;
}
