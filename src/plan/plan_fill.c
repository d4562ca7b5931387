#include "plan/plan_fill.h"

#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "plan/framework_rules.h"
#include "plan/plan_fields.h"

static const int64_t MOST = 1 << 24;

/* ---- checks --------------------------------------------------------------------------------- */

/* Libraries of attention kernels that chips are, or may be, calibrated for. */
static const char *const libraries[] = {"fa1", "fa2", "fa3", "cudnn", "pallas", NULL};

static const char *library_at(const void *ctx, size_t i) {
  (void)ctx;
  return libraries[i];
}

static enum pz_status check_library(const char *name, struct pz_error *err) {
  char names[80];
  if (!name || !*name) return PZ_OK;
  for (size_t i = 0; libraries[i]; i++)
    if (strcmp(libraries[i], name) == 0) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE, "attention_library is '%.40s'; accepted: %s", name,
                 pz_text_join(names, sizeof names, library_at, NULL));
}

static enum pz_status check_recompute(const struct pz_plan *p, struct pz_error *err) {
  const char *how = pz_recomputation_names[p->recompute];
  bool full = p->recompute == PZ_RECOMPUTATION_FULL;
  if (p->recompute_layers && !full)
    return pz_fail(err, PZ_BAD_USE, "recompute_layers %lld with recompute %s; accepted: full",
                   (long long)p->recompute_layers, how);
  if (p->stage_recompute && !full)
    return pz_fail(err, PZ_BAD_USE, "stage_recompute with recompute %s; accepted: full", how);
  if (p->recompute_modules && p->recompute != PZ_RECOMPUTATION_SELECTIVE)
    return pz_fail(err, PZ_BAD_USE, "recompute_modules with recompute %s; accepted: selective",
                   how);
  return pz_plan_check_stages(p, err);
}

static enum pz_status check_offload(const struct pz_plan *p, struct pz_error *err) {
  if ((p->offload_layers || p->offload_modules) && !(p->offload & PZ_OFFLOAD_ACTIVATIONS))
    return pz_fail(err, PZ_BAD_USE, "%s without offload activations; accepted: with it",
                   p->offload_layers ? "offload_layers" : "offload_modules");
  if (p->offload_fraction > 0 && !(p->offload & PZ_OFFLOAD_OPTIMIZER))
    return pz_fail(err, PZ_BAD_USE,
                   "offload_fraction without offload optimizer; accepted: with it");
  return PZ_OK;
}

/* ---- what is unset -------------------------------------------------------------------------- */

/* Devices, their division, and the batch. */
static enum pz_status fill_degrees(struct pz_plan *p, struct pz_error *err) {
  int64_t *const ones[] = {&p->tp, &p->cp, &p->ep, &p->pp, &p->vpp, &p->mbs};
  for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
    if (!*ones[i]) *ones[i] = 1;
  if (!(p->imbalance > 0)) p->imbalance = 1;
  int64_t replica = p->tp * p->cp * p->pp;
  if (p->devices && p->devices % replica)
    return pz_fail(
        err, PZ_BAD_USE,
        "%lld devices are not divided by tp %lld x cp %lld x pp %lld; accepted: multiples of %lld",
        (long long)p->devices, (long long)p->tp, (long long)p->cp, (long long)p->pp,
        (long long)replica);
  if (p->devices && p->dp && p->dp != p->devices / replica)
    return pz_fail(err, PZ_BAD_USE,
                   "dp %lld with %lld devices, tp %lld and pp %lld; accepted: dp %lld, or no dp",
                   (long long)p->dp, (long long)p->devices, (long long)p->tp, (long long)p->pp,
                   (long long)(p->devices / replica));
  if (!p->dp) p->dp = p->devices ? p->devices / replica : 1;
  if (p->dp > MOST / replica)
    return pz_fail(err, PZ_BAD_USE, "tp %lld x pp %lld x dp %lld; accepted: at most 2^24 devices",
                   (long long)p->tp, (long long)p->pp, (long long)p->dp);
  p->devices = replica * p->dp;
  if (!p->batch) p->batch = p->mbs * p->dp;
  if (p->batch % (p->mbs * p->dp))
    return pz_fail(
        err, PZ_BAD_USE,
        "a batch of %lld is not divided by mbs %lld x dp %lld; accepted: multiples of %lld",
        (long long)p->batch, (long long)p->mbs, (long long)p->dp, (long long)(p->mbs * p->dp));
  int64_t group = p->tp * p->cp * p->dp, etp = pz_plan_etp(p), most = p->dp * p->cp;
  if (group % (p->ep * etp))
    return pz_fail(err, PZ_BAD_USE,
                   "ep %lld x etp %lld with tp x cp x dp %lld; accepted: divisors of that",
                   (long long)p->ep, (long long)etp, (long long)group);
  if (!p->shard) p->shard = most;
  if (most % p->shard)
    return pz_fail(err, PZ_BAD_USE, "shard %lld with dp x cp %lld; accepted: divisors of that",
                   (long long)p->shard, (long long)most);
  return PZ_OK;
}

/* DualPipe's published orders are of so many microbatches and stages. */
static enum pz_status check_dualpipe(const struct pz_plan *p, struct pz_error *err) {
  int64_t microbatches = p->batch / (p->mbs * p->dp);
  bool both_ends = p->pipeline == PZ_PIPELINE_DUALPIPE;
  if (both_ends && p->pp % 2)
    return pz_fail(err, PZ_BAD_USE, "pipeline dualpipe with pp %lld; accepted: even pp",
                   (long long)p->pp);
  if (microbatches < 2 * p->pp || (both_ends && microbatches % 2))
    return pz_fail(
        err, PZ_BAD_USE,
        "pipeline %s over %lld stages with %lld microbatches a replica; accepted: %s%lld "
        "and more, that is batches of %lld and more",
        pz_pipeline_names[p->pipeline], (long long)p->pp, (long long)microbatches,
        both_ends ? "even numbers, " : "", (long long)(2 * p->pp),
        (long long)(2 * p->pp * p->mbs * p->dp));
  return PZ_OK;
}

static enum pz_status fill_pipeline(struct pz_plan *p, struct pz_error *err) {
  int64_t microbatches = p->batch / (p->mbs * p->dp);
  if (p->pipeline < 0) p->pipeline = p->vpp > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B;
  bool alone = p->pp == 1 && pz_pipeline_chunks((enum pz_pipeline_order)p->pipeline) == 1;
  if (alone) p->pipeline = PZ_PIPELINE_1F1B; /* microbatches of one stage follow each other */
  uint32_t need = pz_pipeline_chunks((enum pz_pipeline_order)p->pipeline);
  if (need == 2 && p->vpp == 1) p->vpp = 2;
  if (need == 2 && p->vpp != 2)
    return pz_fail(err, PZ_BAD_USE, "pipeline %s with vpp %lld; accepted: 2",
                   pz_pipeline_names[p->pipeline], (long long)p->vpp);
  if (need < 2 && (p->vpp > 1) != (need == 0))
    return pz_fail(err, PZ_BAD_USE, "pipeline %s with vpp %lld; accepted: %s",
                   pz_pipeline_names[p->pipeline], (long long)p->vpp,
                   p->vpp > 1 ? "interleaved, or vpp 1"
                              : "1f1b, gpipe, zb-h1, zb-2p, or vpp above 1");
  if (p->vpp > 1 && p->pp == 1)
    return pz_fail(err, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
                   (long long)p->vpp);
  if (need == 0 && microbatches % p->pp)
    return pz_fail(err, PZ_BAD_USE,
                   "%lld microbatches a replica interleaved over %lld stages; accepted: multiples "
                   "of %lld, that is batches that are multiples of %lld",
                   (long long)microbatches, (long long)p->pp, (long long)p->pp,
                   (long long)(p->pp * p->mbs * p->dp));
  if (p->pipeline == PZ_PIPELINE_DUALPIPE_V || p->pipeline == PZ_PIPELINE_DUALPIPE)
    return check_dualpipe(p, err);
  return PZ_OK;
}

static void fill_defaults(struct pz_plan *p, const struct pz_chip *chip) {
  const struct pz_framework *f = pz_plan_framework(p);
  const struct pz_framework_defaults *d = &f->plan;
  if (p->sp < 0) p->sp = 1;
  if (p->tp == 1) p->sp = 0;
  if (p->cp_form < 0) p->cp_form = PZ_CONTEXT_RING;
  if (p->precision < 0)
    p->precision = !chip || pz_chip_can_run(chip, PZ_PRECISION_BF16, NULL) == PZ_OK
                       ? PZ_PRECISION_BF16
                       : PZ_PRECISION_FP16;
  if (p->dispatcher < 0) p->dispatcher = (int)f->dispatcher;
  if (p->cuda_graphs < 0) p->cuda_graphs = 0;
  if (p->halves < 0) p->halves = 0;
  if (p->recompute < 0)
    p->recompute =
        p->recompute_modules || f->modules ? PZ_RECOMPUTATION_SELECTIVE : (int)d->recompute;
  if (p->zero < 0) p->zero = d->zero;
  if (p->attention < 0) p->attention = (int)d->attention;
  if (p->execution < 0) p->execution = (int)d->execution;
  if (p->grad_bytes <= 0) p->grad_bytes = d->grad_bytes;
  if (!p->attention_library)
    p->attention_library = d->attention_library ? d->attention_library : "";
  if (p->overlap >= 0) return;
  p->overlap = d->overlap;
  p->overlap = pz_framework_overlap(p, NULL); /* what it can do for such a plan */
}

/* Cores are scheduled, and halves run beside each other, only on chips made for it, and on those that run operators one
 * after another where the plan says so. */
static enum pz_status check_execution(struct pz_plan *p, bool asked, const struct pz_chip *chip,
                                      struct pz_error *err) {
  bool stream = chip && chip->execution == PZ_CHIP_STREAM;
  bool serial = chip && chip->execution == PZ_CHIP_SERIAL;
  if (serial && !asked && p->execution == PZ_EXECUTION_SCHEDULED)
    p->execution = PZ_EXECUTION_SERIAL;
  if (stream && !asked && p->execution >= PZ_EXECUTION_SERIAL) p->execution = PZ_EXECUTION_GRAPH;
  if (stream && p->execution >= PZ_EXECUTION_SERIAL)
    return pz_fail(err, PZ_BAD_USE,
                   "execution %s on chip %s, which runs kernels in a stream; accepted: eager, "
                   "compile, graph",
                   pz_execution_names[p->execution], chip->name);
  if (p->halves > 0 && (p->execution != PZ_EXECUTION_SCHEDULED || p->mbs % 2))
    return pz_fail(err, PZ_BAD_USE,
                   "halves of a microbatch of %lld, execution %s; accepted: an even mbs with "
                   "execution scheduled",
                   (long long)p->mbs, pz_execution_names[p->execution]);
  return PZ_OK;
}

enum pz_status pz_plan_fill_precision(struct pz_plan *p, const struct pz_chip *chip,
                                      struct pz_error *err) {
  const char *name = pz_precision_names[p->precision];
  const struct pz_framework *f = pz_plan_framework(p);
  if (p->fp8_recipe < 0 && p->precision == PZ_PRECISION_FP8)
    p->fp8_recipe = f->engine && chip && pz_chip_has_nvfp4(chip) ? PZ_FP8_MX : (int)f->fp8_recipe;
  if (p->act_precision < 0) p->act_precision = 0;
  if (p->fp8_recipe >= 0 && p->precision != PZ_PRECISION_FP8)
    return pz_fail(err, PZ_BAD_USE, "fp8_recipe %s with precision %s; accepted: fp8",
                   pz_fp8_recipe_names[p->fp8_recipe], name);
  if ((pz_plan_wide_layers(p) || p->bf16_modules) && !pz_plan_format(p))
    return pz_fail(err, PZ_BAD_USE, "%s with precision %s; accepted: fp8, nvfp4",
                   p->bf16_layers         ? "bf16_layers"
                   : p->bf16_first_layers ? "bf16_first_layers"
                                          : "bf16_modules",
                   name);
  if (p->fp8_recipe == PZ_FP8_MX && chip && pz_chip_built(chip) && !pz_chip_scales_blocks(chip))
    return pz_fail(err, PZ_BAD_USE,
                   "fp8_recipe mxfp8 on chip %s, whose tensor cores do not scale blocks; accepted: "
                   "delayed, current, blockwise",
                   chip->name);
  return chip ? pz_chip_can_run(chip, (enum pz_precision)p->precision, err) : PZ_OK;
}

static enum pz_status fill_adapters(struct pz_plan *p, struct pz_error *err) {
  struct pz_lora lora;
  enum pz_status status = pz_lora_parse(p->peft, &lora, err);
  if (status == PZ_OK && !lora.rank) p->peft = NULL;
  return status;
}

enum pz_status pz_plan_fill(struct pz_plan *p, const struct pz_chip *chip, struct pz_error *err) {
  struct pz_plan own = *p;
  enum pz_status status = pz_plan_check_ranges(&own, err);
  if (own.framework < 0) own.framework = pz_framework_default(chip);
  if (p->framework < 0 && pz_plan_adapts(p) && (!chip || chip->execution == PZ_CHIP_STREAM))
    own.framework = pz_framework_find("nemo"); /* Megatron-LM has no adapters */
  if (status == PZ_OK) status = check_library(own.attention_library, err);
  if (status == PZ_OK) status = fill_adapters(&own, err);
  if (status == PZ_OK) status = fill_degrees(&own, err);
  if (status == PZ_OK) status = fill_pipeline(&own, err);
  if (status != PZ_OK) return status;
  fill_defaults(&own, chip);
  status = check_recompute(&own, err);
  if (status == PZ_OK) status = check_offload(&own, err);
  if (status == PZ_OK) status = check_execution(&own, p->execution >= 0, chip, err);
  if (status == PZ_OK) status = pz_plan_fill_precision(&own, chip, err);
  if (status == PZ_OK) *p = own;
  return status;
}

int64_t pz_plan_asked_devices(const struct pz_plan *p) {
  const int64_t degrees[] = {p->tp, p->cp, p->pp, p->dp};
  double n = 1;
  if (p->devices > 0) return p->devices;
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
    n *= degrees[i] > 0 ? (double)degrees[i] : 1;
  return n < (double)MOST ? (int64_t)n : MOST;
}
