#include "place/training_options.h"

#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "place/pipeline_order.h"

const char *const pz_recomputation_names[] = {"none",      "selective", "full",
                                              "alternate", "half",      NULL};
const char *const pz_execution_names[] = {"eager", "compile", "graph", NULL};
const char *const pz_precision_names[] = {"bf16", "fp8", NULL};
const char *const pz_overlap_names[] = {"grad", "param", "tp", "p2p", "ep", NULL};
const char *const pz_module_names[] = {"layernorm", "moe_act",        "mla_up_proj", "mlp",
                                       "moe",       "shared_experts", "core_attn",   NULL};
const char *const pz_pipeline_names[] = {"1f1b", "interleaved", "gpipe",    "zb-h1", "zb-2p",
                                         "zb-v", "dualpipe-v",  "dualpipe", NULL};

static const int64_t MOST = 1 << 24;

struct pz_training_options pz_training_options_default(void) {
  return (struct pz_training_options){.size = sizeof(struct pz_training_options),
                                      .framework = "megatron",
                                      .tp = 1,
                                      .pp = 1,
                                      .vpp = 1,
                                      .mbs = 1,
                                      .sequence_parallel = PZ_AS_FRAMEWORK,
                                      .recompute = PZ_AS_FRAMEWORK,
                                      .zero = PZ_AS_FRAMEWORK,
                                      .attention = PZ_AS_FRAMEWORK,
                                      .pipeline = PZ_AS_FRAMEWORK,
                                      .overlap = PZ_AS_FRAMEWORK,
                                      .execution = PZ_AS_FRAMEWORK};
}

/* ---- checks --------------------------------------------------------------------------------- */

static enum pz_status check_ranges(const struct pz_training_options *o, struct pz_error *err) {
  const struct {
    const char *name;
    int64_t v, min, max;
  } list[] = {{"devices", o->devices, 0, MOST},
              {"tp", o->tp, 1, MOST},
              {"pp", o->pp, 1, MOST},
              {"vpp", o->vpp, 1, MOST},
              {"dp", o->dp, 0, MOST},
              {"mbs", o->mbs, 1, MOST},
              {"cp", o->cp, 0, 1 << 20},
              {"cp_form", o->cp_form, 0, PZ_CONTEXT_ALL_TO_ALL},
              {"ep", o->ep, 0, 1 << 20},
              {"etp", o->etp, 0, 1 << 20},
              {"precision", o->precision, 0, PZ_PRECISIONS - 1},
              {"batch", o->batch, 0, MOST},
              {"seq", o->seq, 0, MOST},
              {"shard", o->shard, 0, MOST},
              {"recompute_layers", o->recompute_layers, 0, MOST},
              {"first_layers", o->first_layers, 0, MOST},
              {"last_layers", o->last_layers, 0, MOST},
              {"sequence_parallel", o->sequence_parallel, PZ_AS_FRAMEWORK, 1},
              {"recompute", o->recompute, PZ_AS_FRAMEWORK, PZ_RECOMPUTATIONS - 1},
              {"zero", o->zero, PZ_AS_FRAMEWORK, 3},
              {"attention", o->attention, PZ_AS_FRAMEWORK, PZ_ATTENTION_FLASH},
              {"pipeline", o->pipeline, PZ_AS_FRAMEWORK, PZ_PIPELINES - 1},
              {"overlap", o->overlap, PZ_AS_FRAMEWORK, PZ_OVERLAP_ALL},
              {"execution", o->execution, PZ_AS_FRAMEWORK, PZ_EXECUTIONS - 1},
              {"recompute_modules", o->recompute_modules, 0, PZ_MODULE_ALL}};
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < sizeof list / sizeof *list && status == PZ_OK; i++)
    status = pz_need_range(list[i].name, list[i].v, list[i].min, list[i].max, err);
  if (status == PZ_OK && o->imbalance != 0 && !(o->imbalance >= 1 && o->imbalance <= 1e6))
    status = pz_fail(err, PZ_BAD_USE, "imbalance %g; accepted: 1 to 1e6", o->imbalance);
  if (status == PZ_OK && !(o->grad_bytes >= 0 && o->grad_bytes <= 8))
    status = pz_fail(err, PZ_BAD_USE, "grad_bytes %g; accepted: 0 to 8", o->grad_bytes);
  return status;
}

/* Libraries of attention kernels that chips are, or may be, calibrated for. */
static const char *const libraries[] = {"fa1", "fa2", "fa3", "cudnn", "pallas", NULL};

static const char *library_name(const void *ctx, size_t i) {
  (void)ctx;
  return libraries[i];
}

static enum pz_status check_library(const char *name, struct pz_error *err) {
  char names[80];
  if (!name || !*name) return PZ_OK;
  for (size_t i = 0; libraries[i]; i++)
    if (strcmp(libraries[i], name) == 0) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE, "unknown attention library '%.40s'; accepted: %s", name,
                 pz_text_join(names, sizeof names, library_name, NULL));
}

/* Devices, their division, and the batch. */
static enum pz_status fill_degrees(struct pz_training_options *o, struct pz_error *err) {
  if (!o->cp) o->cp = 1;
  int64_t replica = o->tp * o->cp * o->pp;
  if (o->devices && o->devices % replica)
    return pz_fail(
        err, PZ_BAD_USE,
        "%lld devices are not divided by tp %lld x cp %lld x pp %lld; accepted: multiples of %lld",
        (long long)o->devices, (long long)o->tp, (long long)o->cp, (long long)o->pp,
        (long long)replica);
  if (o->devices && o->dp && o->dp != o->devices / replica)
    return pz_fail(err, PZ_BAD_USE,
                   "dp %lld with %lld devices, tp %lld and pp %lld; accepted: dp %lld, or no dp",
                   (long long)o->dp, (long long)o->devices, (long long)o->tp, (long long)o->pp,
                   (long long)(o->devices / replica));
  if (!o->dp) o->dp = o->devices ? o->devices / replica : 1;
  if (o->dp > MOST / replica)
    return pz_fail(err, PZ_BAD_USE, "tp %lld x pp %lld x dp %lld; accepted: at most 2^24 devices",
                   (long long)o->tp, (long long)o->pp, (long long)o->dp);
  o->devices = replica * o->dp;
  if (!o->batch) o->batch = o->mbs * o->dp;
  if (o->batch % (o->mbs * o->dp))
    return pz_fail(
        err, PZ_BAD_USE,
        "a batch of %lld is not divided by mbs %lld x dp %lld; accepted: multiples of %lld",
        (long long)o->batch, (long long)o->mbs, (long long)o->dp, (long long)(o->mbs * o->dp));
  if (!o->ep) o->ep = 1;
  if (!(o->imbalance > 0)) o->imbalance = 1;
  int64_t group = o->tp * o->cp * o->dp, etp = pz_options_etp(o);
  if (group % (o->ep * etp))
    return pz_fail(err, PZ_BAD_USE,
                   "ep %lld x etp %lld with tp x cp x dp %lld; accepted: divisors of that",
                   (long long)o->ep, (long long)etp, (long long)group);
  int64_t most = o->dp * o->cp;
  if (!o->shard) o->shard = most;
  if (most % o->shard)
    return pz_fail(err, PZ_BAD_USE, "shard %lld with dp x cp %lld; accepted: divisors of that",
                   (long long)o->shard, (long long)most);
  return PZ_OK;
}

/* The published orders are of so many microbatches and stages. */
static enum pz_status check_dualpipe(const struct pz_training_options *o, struct pz_error *err) {
  int64_t rounds = o->batch / (o->mbs * o->dp);
  bool both_ends = o->pipeline == PZ_PIPELINE_DUALPIPE;
  if (both_ends && o->pp % 2)
    return pz_fail(err, PZ_BAD_USE, "pipeline dualpipe with pp %lld; accepted: even pp",
                   (long long)o->pp);
  if (rounds < 2 * o->pp || (both_ends && rounds % 2))
    return pz_fail(
        err, PZ_BAD_USE,
        "pipeline %s over %lld stages with %lld microbatches a replica; accepted: %s%lld "
        "and more, that is batches of %lld and more",
        pz_pipeline_names[o->pipeline], (long long)o->pp, (long long)rounds,
        both_ends ? "even numbers, " : "", (long long)(2 * o->pp),
        (long long)(2 * o->pp * o->mbs * o->dp));
  return PZ_OK;
}

static enum pz_status fill_pipeline(struct pz_training_options *o, struct pz_error *err) {
  int64_t rounds = o->batch / (o->mbs * o->dp);
  if (o->pipeline < 0) o->pipeline = o->vpp > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B;
  uint32_t need = pz_pipeline_chunks((enum pz_pipeline_order)o->pipeline);
  if (need == 2 && o->vpp == 1) o->vpp = 2;
  if (need == 2 && o->vpp != 2)
    return pz_fail(err, PZ_BAD_USE, "pipeline %s with vpp %lld; accepted: 2",
                   pz_pipeline_names[o->pipeline], (long long)o->vpp);
  if (need < 2 && (o->vpp > 1) != (need == 0))
    return pz_fail(err, PZ_BAD_USE, "pipeline %s with vpp %lld; accepted: %s",
                   pz_pipeline_names[o->pipeline], (long long)o->vpp,
                   o->vpp > 1 ? "interleaved, or vpp 1"
                              : "1f1b, gpipe, zb-h1, zb-2p, or vpp above 1");
  if (o->vpp > 1 && o->pp == 1)
    return pz_fail(err, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
                   (long long)o->vpp);
  if (need == 0 && rounds % o->pp)
    return pz_fail(err, PZ_BAD_USE,
                   "%lld microbatches a replica interleaved over %lld stages; accepted: multiples "
                   "of %lld, that is batches that are multiples of %lld",
                   (long long)rounds, (long long)o->pp, (long long)o->pp,
                   (long long)(o->pp * o->mbs * o->dp));
  if (o->pipeline == PZ_PIPELINE_DUALPIPE_V || o->pipeline == PZ_PIPELINE_DUALPIPE)
    return check_dualpipe(o, err);
  return PZ_OK;
}

static enum pz_status check_recompute(const struct pz_training_options *o, struct pz_error *err) {
  const char *how = pz_recomputation_names[o->recompute];
  if (o->recompute_layers && o->recompute != PZ_RECOMPUTATION_FULL)
    return pz_fail(err, PZ_BAD_USE, "recompute_layers %lld with recompute %s; accepted: full",
                   (long long)o->recompute_layers, how);
  if (o->stage_recompute && o->recompute != PZ_RECOMPUTATION_FULL)
    return pz_fail(err, PZ_BAD_USE, "stage_recompute with recompute %s; accepted: full", how);
  if (o->recompute_modules && o->recompute != PZ_RECOMPUTATION_SELECTIVE)
    return pz_fail(err, PZ_BAD_USE, "recompute_modules with recompute %s; accepted: selective",
                   how);
  enum pz_status status = PZ_OK;
  for (int64_t k = 0; o->stage_recompute && k < o->pp && status == PZ_OK; k++)
    status = pz_need_range("stage_recompute", o->stage_recompute[k], 0, MOST, err);
  return status;
}

/* ---- habits --------------------------------------------------------------------------------- */

static void fill_habits(struct pz_training_options *o, const struct pz_framework *f) {
  const struct pz_framework_defaults *d = &f->plan;
  if (o->sequence_parallel < 0) o->sequence_parallel = 1;
  if (o->tp == 1) o->sequence_parallel = 0;
  if (o->recompute < 0)
    o->recompute =
        o->recompute_modules || f->modules ? PZ_RECOMPUTATION_SELECTIVE : (int)d->recompute;
  if (o->zero < 0) o->zero = d->zero;
  if (o->attention < 0) o->attention = (int)d->attention;
  if (o->overlap < 0) o->overlap = (int)d->overlap;
  if (o->execution < 0) o->execution = (int)d->execution;
  if (o->grad_bytes <= 0) o->grad_bytes = d->grad_bytes;
  if (!o->attention_library)
    o->attention_library = d->attention_library ? d->attention_library : "";
}

enum pz_status pz_training_options_fill(struct pz_training_options *o, struct pz_error *err) {
  char names[400];
  struct pz_training_options own = *o;
  enum pz_status status = pz_need(o->framework, "framework", err);
  if (status != PZ_OK) return status;
  const struct pz_framework *f = pz_framework_find(o->framework);
  if (!f)
    return pz_fail(err, PZ_BAD_USE, "unknown framework '%.60s'; accepted: %s", o->framework,
                   pz_text_join(names, sizeof names, pz_framework_name, NULL));
  own.framework = f->name;
  status = check_ranges(&own, err);
  if (status == PZ_OK) status = check_library(own.attention_library, err);
  if (status == PZ_OK) status = fill_degrees(&own, err);
  if (status == PZ_OK) status = fill_pipeline(&own, err);
  if (status != PZ_OK) return status;
  fill_habits(&own, f);
  status = check_recompute(&own, err);
  if (status == PZ_OK) *o = own;
  return status;
}

int64_t pz_options_etp(const struct pz_training_options *o) {
  return o->etp ? o->etp : o->ep > 1 ? 1 : o->tp;
}

unsigned pz_options_overlap(const struct pz_training_options *o) {
  return (unsigned)o->overlap & ~(o->ep > 1 ? 0U : (unsigned)PZ_OVERLAP_EP);
}

unsigned pz_options_modules(const struct pz_training_options *o) {
  if (o->recompute != PZ_RECOMPUTATION_SELECTIVE) return 0;
  return o->recompute_modules ? o->recompute_modules : pz_framework_find(o->framework)->modules;
}

struct pz_training_plan pz_training_plan_of(const struct pz_training_options *o) {
  const struct pz_framework *f = pz_framework_find(o->framework);
  unsigned modules = o->recompute_modules ? o->recompute_modules : f ? f->modules : 0;
  return (struct pz_training_plan){.tp = o->tp,
                                   .pp = o->pp,
                                   .vpp = o->vpp,
                                   .dp = o->dp,
                                   .sequence_parallel = o->sequence_parallel > 0,
                                   .cp = o->cp,
                                   .cp_form = (enum pz_context_form)o->cp_form,
                                   .ep = o->ep,
                                   .etp = o->etp,
                                   .imbalance = o->imbalance,
                                   .precision = (enum pz_precision)o->precision,
                                   .mbs = o->mbs,
                                   .batch = o->batch,
                                   .recompute = (enum pz_recomputation)o->recompute,
                                   .recompute_layers = o->recompute_layers,
                                   .stage_recompute = o->stage_recompute,
                                   .modules = modules,
                                   .first_layers = o->first_layers,
                                   .last_layers = o->last_layers,
                                   .zero = o->zero,
                                   .shard = o->shard,
                                   .order = (enum pz_pipeline_order)o->pipeline,
                                   .overlap = (unsigned)o->overlap,
                                   .execution = (enum pz_execution)o->execution,
                                   .grad_bytes = o->grad_bytes,
                                   .framework = f,
                                   .attention_library = o->attention_library};
}

struct pz_training_model pz_training_model_of(const char *model,
                                              const struct pz_training_options *o) {
  return (struct pz_training_model){
      .name = model, .seq = o->seq, .attention = (enum pz_attention)o->attention, .mtp = o->mtp};
}
