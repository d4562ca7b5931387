/* Filling a plan (plan_fill.h), and checking whether its fields agree with each other.  Which
 * combinations of fields a framework supports is in framework_rules.c. */
#include "plan/plan_fill.h"

#include <string.h>

#include "chip/chip.h"
#include "core/text.h"
#include "plan/framework_rules.h"
#include "plan/plan_fields.h"

static const int64_t MOST_DEVICES = 1 << 24; /* the range of the field `devices`, too */

/* Libraries of attention kernels for which chips may be calibrated. */
static const char *const attention_libraries[] = {"fa1", "fa2", "fa3", "cudnn", "pallas", NULL};

/* Checks that fields about recomputation and offload are given only with the recomputation or
 * offload that they refine. */
static void check_memory_savings(struct pz_call *call, const struct pz_plan *plan) {
  const char *recompute = pz_recomputation_names[plan->recompute];
  bool is_full = plan->recompute == PZ_RECOMPUTATION_FULL;
  if (plan->recompute_layers && !is_full)
    pz_raise(call, PZ_BAD_USE, "recompute_layers %lld with recompute %s; accepted: full",
             (long long)plan->recompute_layers, recompute);
  if (plan->stage_recompute && !is_full)
    pz_raise(call, PZ_BAD_USE, "stage_recompute with recompute %s; accepted: full", recompute);
  if (plan->recompute_modules && plan->recompute != PZ_RECOMPUTATION_SELECTIVE)
    pz_raise(call, PZ_BAD_USE, "recompute_modules with recompute %s; accepted: selective",
             recompute);
  pz_require_stage_recompute(call, plan);
  bool states_activations = plan->offload_layers || plan->offload_modules;
  if (states_activations && !(plan->offload & PZ_OFFLOAD_ACTIVATIONS))
    pz_raise(call, PZ_BAD_USE, "%s without offload activations; accepted: with it",
             plan->offload_layers ? "offload_layers" : "offload_modules");
  if (plan->offload_fraction > 0 && !(plan->offload & PZ_OFFLOAD_OPTIMIZER))
    pz_raise(call, PZ_BAD_USE, "offload_fraction without offload optimizer; accepted: with it");
}

/* Sets unset degrees of parallelism, devices, batch, and the size of the groups that ZeRO shards
 * over, and checks that they divide each other. */
static void fill_degrees(struct pz_call *call, struct pz_plan *plan) {
  int64_t *const degrees[] = {&plan->tp, &plan->cp, &plan->ep, &plan->pp, &plan->vpp, &plan->mbs};
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
    if (!*degrees[i]) *degrees[i] = 1;
  if (!(plan->imbalance > 0)) plan->imbalance = 1;
  /* devices = tp x cp x pp x dp: `replica` is the devices of one replica, of which there are dp */
  int64_t replica = plan->tp * plan->cp * plan->pp;
  if (plan->devices && plan->devices % replica)
    pz_raise(
        call, PZ_BAD_USE,
        "%lld devices are not divided by tp %lld x cp %lld x pp %lld; accepted: multiples of %lld",
        (long long)plan->devices, (long long)plan->tp, (long long)plan->cp, (long long)plan->pp,
        (long long)replica);
  int64_t replicas = plan->devices ? plan->devices / replica : 1;
  if (plan->devices && plan->dp && plan->dp != replicas)
    pz_raise(call, PZ_BAD_USE,
             "dp %lld with %lld devices, tp %lld and pp %lld; accepted: dp %lld, or no dp",
             (long long)plan->dp, (long long)plan->devices, (long long)plan->tp,
             (long long)plan->pp, (long long)replicas);
  if (!plan->dp) plan->dp = replicas;
  if (plan->dp > MOST_DEVICES / replica)
    pz_raise(call, PZ_BAD_USE, "tp %lld x pp %lld x dp %lld; accepted: at most 2^24 devices",
             (long long)plan->tp, (long long)plan->pp, (long long)plan->dp);
  plan->devices = replica * plan->dp;
  if (!plan->batch) plan->batch = plan->mbs * plan->dp;
  if (plan->batch % (plan->mbs * plan->dp))
    pz_raise(call, PZ_BAD_USE,
             "a batch of %lld is not divided by mbs %lld x dp %lld; accepted: multiples of %lld",
             (long long)plan->batch, (long long)plan->mbs, (long long)plan->dp,
             (long long)(plan->mbs * plan->dp));
  /* Experts are divided over ep x etp of the devices of a stage, ZeRO over `shard` replicas. */
  int64_t stage_devices = plan->tp * plan->cp * plan->dp, etp = pz_plan_etp(plan);
  if (stage_devices % (plan->ep * etp))
    pz_raise(call, PZ_BAD_USE,
             "ep %lld x etp %lld with tp x cp x dp %lld; accepted: divisors of that",
             (long long)plan->ep, (long long)etp, (long long)stage_devices);
  int64_t most_shards = plan->dp * plan->cp;
  if (!plan->shard) plan->shard = most_shards;
  if (most_shards % plan->shard)
    pz_raise(call, PZ_BAD_USE, "shard %lld with dp x cp %lld; accepted: divisors of that",
             (long long)plan->shard, (long long)most_shards);
}

/* Sets an unset pipeline order, and checks that stages, chunks and microbatches allow the order. */
static void fill_pipeline(struct pz_call *call, struct pz_plan *plan) {
  int64_t microbatches = plan->batch / (plan->mbs * plan->dp);
  if (plan->pipeline < 0)
    plan->pipeline = plan->vpp > 1 ? PZ_PIPELINE_INTERLEAVED : PZ_PIPELINE_1F1B;
  /* with one stage, all orders of one chunk are the same */
  if (plan->pp == 1 && pz_pipeline_chunks((enum pz_pipeline_order)plan->pipeline) == 1)
    plan->pipeline = PZ_PIPELINE_1F1B;
  /* chunks per stage that the order requires: 2 in a V, 1, or any number above 1 (interleaved) */
  uint32_t chunks = pz_pipeline_chunks((enum pz_pipeline_order)plan->pipeline);
  bool is_interleaved = chunks == 0;
  const char *name = pz_pipeline_names[plan->pipeline];
  if (chunks == 2 && plan->vpp == 1) plan->vpp = 2;
  if (chunks == 2 && plan->vpp != 2)
    pz_raise(call, PZ_BAD_USE, "pipeline %s with vpp %lld; accepted: 2", name,
             (long long)plan->vpp);
  if (chunks < 2 && (plan->vpp > 1) != is_interleaved)
    pz_raise(call, PZ_BAD_USE, "pipeline %s with vpp %lld; accepted: %s", name,
             (long long)plan->vpp,
             plan->vpp > 1 ? "interleaved, or vpp 1" : "1f1b, gpipe, zb-h1, zb-2p, or vpp above 1");
  if (plan->vpp > 1 && plan->pp == 1)
    pz_raise(call, PZ_BAD_USE, "vpp %lld with one stage; accepted: 1, or pp above 1",
             (long long)plan->vpp);
  if (is_interleaved && microbatches % plan->pp)
    pz_raise(call, PZ_BAD_USE,
             "%lld microbatches a replica interleaved over %lld stages; accepted: multiples "
             "of %lld, that is batches that are multiples of %lld",
             (long long)microbatches, (long long)plan->pp, (long long)plan->pp,
             (long long)(plan->pp * plan->mbs * plan->dp));
  /* the published schedules of DualPipe and DualPipeV fill all stages twice */
  bool is_dualpipe = plan->pipeline == PZ_PIPELINE_DUALPIPE;
  bool fills_twice = is_dualpipe || plan->pipeline == PZ_PIPELINE_DUALPIPE_V;
  if (is_dualpipe && plan->pp % 2)
    pz_raise(call, PZ_BAD_USE, "pipeline dualpipe with pp %lld; accepted: even pp",
             (long long)plan->pp);
  if (fills_twice && (microbatches < 2 * plan->pp || (is_dualpipe && microbatches % 2)))
    pz_raise(call, PZ_BAD_USE,
             "pipeline %s over %lld stages with %lld microbatches a replica; accepted: %s%lld "
             "and more, that is batches of %lld and more",
             name, (long long)plan->pp, (long long)microbatches,
             is_dualpipe ? "even numbers, " : "", (long long)(2 * plan->pp),
             (long long)(2 * plan->pp * plan->mbs * plan->dp));
}

/* Sets unset fields to the framework's defaults, adapted to the precisions that the chip supports
 * and to the other fields of the plan.  The chip may be NULL. */
static void fill_defaults(struct pz_plan *plan, const struct pz_chip *chip) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  const struct pz_framework_defaults *defaults = &framework->plan;
  if (plan->sp < 0) plan->sp = 1;
  if (plan->tp == 1) plan->sp = 0;
  if (plan->cp_form < 0) plan->cp_form = PZ_CONTEXT_RING;
  if (plan->precision < 0) {
    bool has_bf16 = !chip || pz_chip_can_run(chip, PZ_PRECISION_BF16, NULL) == PZ_OK;
    plan->precision = has_bf16 ? PZ_PRECISION_BF16 : PZ_PRECISION_FP16;
  }
  if (plan->dispatcher < 0) plan->dispatcher = (int)framework->dispatcher;
  if (plan->cuda_graphs < 0) plan->cuda_graphs = 0;
  if (plan->halves < 0) plan->halves = 0;
  if (plan->recompute < 0) {
    bool selects_modules = plan->recompute_modules || framework->recompute_modules;
    plan->recompute = selects_modules ? PZ_RECOMPUTATION_SELECTIVE : (int)defaults->recompute;
  }
  if (plan->zero < 0) plan->zero = defaults->zero;
  if (plan->attention < 0) plan->attention = (int)defaults->attention;
  if (plan->execution < 0) plan->execution = (int)defaults->execution;
  if (plan->grad_bytes <= 0) plan->grad_bytes = defaults->grad_bytes;
  if (!plan->attention_library) plan->attention_library = defaults->attention_library;
  if (!plan->attention_library) plan->attention_library = "";
  if (plan->overlap >= 0) return;
  /* The rules then remove from the default overlaps those that the framework lacks in this plan. */
  plan->overlap = defaults->overlap;
  plan->overlap = pz_framework_overlap(plan, NULL);
}

/* Adapts the default execution of the framework to the chip, or checks the given execution, and
 * checks that the halves of a microbatch can be scheduled against each other.  GPUs run kernels in a stream; other chips run the operators of a compiled program one after
 * another (serial) or on several groups of cores at the same time (scheduled). */
static void fill_execution(struct pz_call *call, struct pz_plan *plan, bool is_given,
                           const struct pz_chip *chip) {
  bool is_stream = chip && chip->execution == PZ_CHIP_STREAM;
  bool is_serial = chip && chip->execution == PZ_CHIP_SERIAL;
  if (is_serial && !is_given && plan->execution == PZ_EXECUTION_SCHEDULED)
    plan->execution = PZ_EXECUTION_SERIAL;
  if (is_stream && !is_given && plan->execution >= PZ_EXECUTION_SERIAL)
    plan->execution = PZ_EXECUTION_GRAPH;
  if (is_stream && plan->execution >= PZ_EXECUTION_SERIAL)
    pz_raise(call, PZ_BAD_USE,
             "execution %s on chip %s, which runs kernels in a stream; accepted: eager, "
             "compile, graph",
             pz_execution_names[plan->execution], chip->name);
  if (plan->halves > 0 && (plan->execution != PZ_EXECUTION_SCHEDULED || plan->mbs % 2))
    pz_raise(call, PZ_BAD_USE,
             "halves of a microbatch of %lld, execution %s; accepted: an even mbs with "
             "execution scheduled",
             (long long)plan->mbs, pz_execution_names[plan->execution]);
}

/* Sets the 8-bit recipe and the precision of activations if they are unset, and checks that fields of
 * narrow precisions are given only with one, and that the chip (NULL: any) supports the precision. */
void pz_fill_plan_precision(struct pz_call *call, struct pz_plan *plan,
                            const struct pz_chip *chip) {
  const char *precision = pz_precision_names[plan->precision];
  const struct pz_framework *framework = pz_plan_framework(plan);
  bool is_fp8 = plan->precision == PZ_PRECISION_FP8;
  if (plan->fp8_recipe < 0 && is_fp8) {
    bool has_mxfp8 = framework->transformer_engine && chip && pz_chip_has_nvfp4(chip);
    plan->fp8_recipe = has_mxfp8 ? PZ_FP8_MX : (int)framework->fp8_recipe;
  }
  if (plan->act_precision < 0) plan->act_precision = 0;
  if (plan->fp8_recipe >= 0 && !is_fp8)
    pz_raise(call, PZ_BAD_USE, "fp8_recipe %s with precision %s; accepted: fp8",
             pz_fp8_recipe_names[plan->fp8_recipe], precision);
  const char *given_16bit = plan->bf16_modules ? "bf16_modules" : NULL;
  if (plan->bf16_first_layers) given_16bit = "bf16_first_layers";
  if (plan->bf16_layers) given_16bit = "bf16_layers";
  if (given_16bit && !pz_plan_format(plan))
    pz_raise(call, PZ_BAD_USE, "%s with precision %s; accepted: fp8, nvfp4", given_16bit,
             precision);
  bool scales_blocks = !chip || chip->tensor.scale_block > 0 || pz_chip_has_nvfp4(chip);
  bool lacks_block_scales = chip && pz_chip_built(chip) && !scales_blocks;
  if (plan->fp8_recipe == PZ_FP8_MX && lacks_block_scales)
    pz_raise(call, PZ_BAD_USE,
             "fp8_recipe mxfp8 on chip %s, whose tensor cores do not scale blocks; accepted: "
             "delayed, current, blockwise",
             chip->name);
  if (chip)
    pz_must(call, pz_chip_can_run(chip, (enum pz_precision)plan->precision, pz_call_error(call)));
}

/* Sets all unset fields of a plan, and checks that they agree.  A field is only set after those from
 * which its value follows.  The plan is unchanged if an error is raised. */
void pz_fill_plan(struct pz_call *call, struct pz_plan *plan, const struct pz_chip *chip) {
  struct pz_plan filled = *plan;
  struct pz_lora lora;
  char names[80];
  pz_require_plan_ranges(call, &filled);
  if (filled.framework < 0) {
    bool is_gpu = !chip || chip->execution == PZ_CHIP_STREAM;
    filled.framework = pz_framework_default(chip);
    /* Megatron-LM does not train adapters */
    if (pz_plan_trains_adapters(plan) && is_gpu) filled.framework = pz_framework_find("nemo");
  }
  const char *library = filled.attention_library;
  bool is_known = !library || !*library; /* the framework's default is used */
  for (int i = 0; attention_libraries[i] && !is_known; i++)
    is_known = strcmp(attention_libraries[i], library) == 0;
  if (!is_known)
    pz_raise(call, PZ_BAD_USE, "attention_library is '%.40s'; accepted: %s", library,
             pz_text_join(names, sizeof names, pz_name_in_list, attention_libraries));
  pz_must(call, pz_lora_parse(filled.peft, &lora, pz_call_error(call)));
  if (!lora.rank) filled.peft = NULL;
  fill_degrees(call, &filled);
  fill_pipeline(call, &filled);
  fill_defaults(&filled, chip);
  check_memory_savings(call, &filled);
  fill_execution(call, &filled, plan->execution >= 0, chip);
  pz_fill_plan_precision(call, &filled, chip);
  *plan = filled;
}

/* Arguments of fill_in_border(). */
struct fill_request {
  struct pz_plan *plan;
  const struct pz_chip *chip;
};

/* Fills a plan within a border, so that pz_try_fill_plan() can return false instead of raising an
 * error. */
static void fill_in_border(struct pz_call *call, void *ctx) {
  const struct fill_request *request = ctx;
  pz_fill_plan(call, request->plan, request->chip);
}

bool pz_try_fill_plan(struct pz_plan *plan, const struct pz_chip *chip, struct pz_error *why) {
  struct fill_request request = {plan, chip};
  return pz_border(fill_in_border, &request, why) == PZ_OK;
}

/* Returns the devices that a plan asks for before it is filled: the stated number, or the product of
 * the degrees that are set, at most MOST_DEVICES. */
int64_t pz_plan_asked_devices(const struct pz_plan *plan) {
  const int64_t degrees[] = {plan->tp, plan->cp, plan->pp, plan->dp};
  double devices = 1;
  if (plan->devices > 0) return plan->devices;
  for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
    if (degrees[i] > 0) devices *= (double)degrees[i];
  return devices < (double)MOST_DEVICES ? (int64_t)devices : MOST_DEVICES;
}
