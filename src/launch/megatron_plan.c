/* Reader of Megatron-LM's arguments: from the values of arguments to the training plan.
 *
 * pz_read_megatron_plan() reads one group of fields after another, in the order in which they
 * depend on each other, and finally notes the argument that each field comes from.  Defaults are
 * those of megatron/training/arguments.py (core 0.15). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "launch/megatron_core.h"
#include "launch/megatron_reader.h"
#include "launch/run_readers.h"

enum { MOST_DEVICES = 1 << 24 };

/* ---- degrees, devices and batch ------------------------------------------------------------- */

/* Reads batch sizes, sequence length, degrees of parallelism (or 1) and sequence parallelism. */
static void read_degrees(struct pz_megatron_reader *reader) {
  static const enum pz_plan_field fields[] = {PZ_PLAN_MBS, PZ_PLAN_BATCH, PZ_PLAN_SEQ,
                                              PZ_PLAN_TP,  PZ_PLAN_CP,    PZ_PLAN_PP};
  struct pz_plan *plan = &reader->run->plan;
  bool bf16 = pz_given(reader, ARG_BF16), fp16 = pz_given(reader, ARG_FP16);
  *plan = pz_plan_default();
  plan->framework = pz_framework_find(pz_given(reader, ARG_DEEPSPEED) ? "deepspeed" : "megatron");
  plan->mbs = plan->tp = plan->cp = plan->pp = plan->vpp = plan->ep = 1;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
    if (pz_given(reader, (int)fields[i]))
      pz_plan_field_store(plan, fields[i], (double)reader->given[fields[i]].count);
  plan->cp_form =
      pz_given_is(reader, ARG_CP_COMM_TYPE, "a2a") ? PZ_CONTEXT_ALL_TO_ALL : PZ_CONTEXT_RING;
  plan->sp = pz_given(reader, ARG_SP) && plan->tp > 1;
  if (pz_given(reader, ARG_SP) && plan->tp == 1)
    pz_megatron_add_note(
        reader, "--sequence-parallel has no effect without --tensor-model-parallel-size above 1");
  if (bf16 && fp16) pz_reject_given(reader, ARG_FP16, "--fp16 or --bf16, not both");
  if (!bf16 && !fp16)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s: neither --bf16 nor --fp16; accepted: one of them, 32-bit "
             "training is not covered",
             reader->name);
  pz_need_given_word(reader, ARG_CP_COMM_TYPE, "p2p or a2a; others are not covered");
}

/* Returns the number of nodes, or of processes per node, that torchrun's argument states.  If the
 * argument is not given, or asks the batch system at run time, returns `slurm`, the number in
 * Slurm's comments, or `absent` if that is 0. */
static int64_t launched_count(struct pz_megatron_reader *reader, int argument, int64_t slurm,
                              int64_t absent) {
  const struct pz_given_argument *given = &reader->given[argument];
  const char *unknown = given->unknown;
  bool asks_slurm = unknown && (strstr(unknown, "SLURM_") || strstr(unknown, "NNODES"));
  if (given->is_given && !(asks_slurm && slurm)) return pz_read_given_count(reader, argument);
  return slurm ? slurm : absent;
}

/* Returns the number in a comment for Slurm, such as 8 in "gpu:h100:8", or 0 if there is none. */
static int64_t slurm_count(const struct pz_megatron_reader *reader, int argument) {
  const struct pz_given_argument *given = &reader->given[argument];
  if (!given->is_given || given->unknown) return 0;
  const char *colon = strrchr(given->text, ':');
  long n = strtol(colon ? colon + 1 : given->text, NULL, 10);
  return n > 0 && n <= 1 << 20 ? n : 0;
}

/* Reads the number of devices from the user's option, torchrun's arguments, or Slurm's comments. */
static void read_devices(struct pz_megatron_reader *reader) {
  struct pz_run_plan *run = reader->run;
  if (reader->options->devices) {
    run->plan.devices = reader->options->devices;
    run->from[PZ_PLAN_DEVICES] = "--devices";
    return;
  }
  int64_t slurm_gpus = slurm_count(reader, ARG_BATCH_GPUS);
  if (!slurm_gpus) slurm_gpus = slurm_count(reader, ARG_BATCH_GRES);
  if (!slurm_gpus) slurm_gpus = slurm_count(reader, ARG_BATCH_TASKS);
  int64_t slurm_nodes = slurm_count(reader, ARG_BATCH_NODES);
  int64_t nodes = launched_count(reader, ARG_NODES, slurm_nodes, 1);
  int64_t processes = launched_count(reader, ARG_PROCESSES_PER_NODE, slurm_gpus, 0);
  if (!processes || (double)nodes * (double)processes > MOST_DEVICES)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s: the number of devices is not stated; accepted: --devices N, or torchrun's "
             "--nnodes and --nproc_per_node (at most 2^24 together)",
             reader->name);
  run->plan.devices = nodes * processes;
  run->from[PZ_PLAN_DEVICES] =
      pz_format(reader->call, "%" PRId64 " x %" PRId64 " processes", nodes, processes);
}

/* ---- pipeline stages ------------------------------------------------------------------------ */

/* Reads the number of layers of the first and the last stage, if they differ from those of the
 * other stages.  `layers_and_ends` is the number of layers, including the embedding and the loss if
 * the arguments count these as layers. */
static void read_end_stages(struct pz_megatron_reader *reader, int64_t layers_and_ends) {
  struct pz_plan *plan = &reader->run->plan;
  int64_t layers = reader->given[ARG_LAYERS].count;
  int64_t first = pz_given_count(reader, PZ_PLAN_FIRST_LAYERS, 0);
  int64_t last = pz_given_count(reader, PZ_PLAN_LAST_LAYERS, 0);
  int given_end = first ? PZ_PLAN_FIRST_LAYERS : PZ_PLAN_LAST_LAYERS;
  if ((first || last) && plan->vpp > 1) pz_reject_given(reader, given_end, "stages without chunks");
  if (plan->pp == 1) return;
  if (first || last) {
    int64_t others = plan->pp - (first > 0) - (last > 0), rest = layers - first - last;
    bool divides = others ? rest % others == 0 : rest == 0;
    if (rest < 0 || !divides)
      pz_reject_given(reader, given_end, "as many as leave the other stages whole layers");
    int64_t middle = others ? rest / others : 0;
    plan->first_layers = first ? first : middle;
    plan->last_layers = last ? last : middle;
  } else if (layers_and_ends > layers) {
    int64_t even = layers_and_ends / (plan->pp * plan->vpp);
    reader->run->ends_as_layers = true;
    plan->first_layers = even - pz_given(reader, ARG_EMBEDDING_AS_LAYER);
    plan->last_layers = even - pz_given(reader, ARG_LOSS_AS_LAYER);
  }
}

/* Sets the plan's chunks from chunks[i], the number of layers of chunk i of n, which an argument
 * states.  Raises an error with the rule `accepted` if a plan cannot have these chunks. */
static void divide_layers(struct pz_megatron_reader *reader, int argument, const int64_t *chunks,
                          uint32_t n, const char *accepted) {
  struct pz_plan *plan = &reader->run->plan;
  if (!pz_plan_divide_layers(plan, chunks, n)) pz_reject_given(reader, argument, accepted);
  pz_set_origin(reader, PZ_PLAN_VPP, argument, argument);
  if (plan->first_layers) pz_set_origin(reader, PZ_PLAN_FIRST_LAYERS, argument, argument);
  if (plan->last_layers) pz_set_origin(reader, PZ_PLAN_LAST_LAYERS, argument, argument);
}

/* Reads a pipeline layout such as Et*18|t*21|t*20,L into the plan's chunks.  Bars separate chunks,
 * and each t is a layer; E, m and L are the embedding, multi-token prediction and the loss. */
static void read_layout(struct pz_megatron_reader *reader) {
  static const char accepted[] =
      "as many layers t as --num-layers, in chunks that the stages divide, those between the first "
      "and the last as even as can be";
  enum { MOST_CHUNKS = 4096, MOST_REPEATED = 1 << 20 };
  int64_t *chunks = pz_alloc(reader->call, MOST_CHUNKS, sizeof *chunks), layers = 0;
  uint32_t n = 1;
  const char *at = reader->given[ARG_LAYOUT].text;
  while (*at) {
    char kind = *at;
    unsigned long times = 1;
    at++;
    if (kind == ',') continue;
    if (kind == '|' && n < MOST_CHUNKS) {
      n++;
      continue;
    }
    if (!strchr("EtmL", kind)) pz_reject_given(reader, ARG_LAYOUT, accepted);
    if (*at == '*') {
      char *end;
      times = strtoul(at + 1, &end, 10);
      if (end == at + 1 || times > MOST_REPEATED) pz_reject_given(reader, ARG_LAYOUT, accepted);
      at = end;
    }
    if (kind != 't') continue;
    chunks[n - 1] += (int64_t)times;
    layers += (int64_t)times;
  }
  if (layers != reader->given[ARG_LAYERS].count) pz_reject_given(reader, ARG_LAYOUT, accepted);
  divide_layers(reader, ARG_LAYOUT, chunks, n, accepted);
}

/* Reads how layers are divided into pipeline stages and chunks: by a layout of all chunks, by the
 * bars in the layer pattern of a hybrid, or by numbers of chunks and layers. */
static void read_stages(struct pz_megatron_reader *reader) {
  static const char divisor[] = "a number that divides the layers of a stage";
  struct pz_plan *plan = &reader->run->plan;
  bool states_ends =
      pz_given(reader, PZ_PLAN_FIRST_LAYERS) || pz_given(reader, PZ_PLAN_LAST_LAYERS);
  int64_t layers = reader->given[ARG_LAYERS].count;
  layers += pz_given(reader, ARG_EMBEDDING_AS_LAYER);
  layers += pz_given(reader, ARG_LOSS_AS_LAYER);
  int64_t stage_layers = layers / plan->pp; /* with the ends that arguments count as layers */
  int64_t chunk_layers = pz_given_count(reader, ARG_CHUNK_LAYERS, 0);
  if (pz_given(reader, ARG_ZBH1) && plan->pp > 1) {
    plan->pipeline = PZ_PIPELINE_ZB_H1;
    pz_set_origin(reader, PZ_PLAN_PIPELINE, ARG_ZBH1, ARG_ZBH1);
  }
  if (pz_given(reader, ARG_LAYOUT)) {
    read_layout(reader);
    return;
  }
  if (reader->layer_letters && strchr(reader->given[ARG_PATTERN].text, '|')) {
    static const char accepted[] = "bars between chunks that the stages divide, those between the "
                                   "first and the last as even as can be";
    int64_t *chunks = pz_alloc(reader->call, PZ_MOST_MIXED_LAYERS + 1, sizeof *chunks);
    uint32_t n = 1;
    for (const char *at = reader->given[ARG_PATTERN].text; *at && *at != '/'; at++) {
      if (*at != '|')
        chunks[n - 1]++;
      else
        n++;
      if (n > PZ_MOST_MIXED_LAYERS) pz_reject_given(reader, ARG_PATTERN, accepted);
    }
    divide_layers(reader, ARG_PATTERN, chunks, n, accepted);
    return;
  }
  plan->vpp = pz_given_count(reader, PZ_PLAN_VPP, 1);
  reader->run->chunks_by_rank = pz_given(reader, PZ_PLAN_VPP);
  if (chunk_layers && pz_given(reader, PZ_PLAN_VPP))
    pz_reject_given(reader, PZ_PLAN_VPP, "it or --num-layers-per-virtual-pipeline-stage, not both");
  if (!states_ends && layers % plan->pp)
    pz_reject_given(reader, PZ_PLAN_PP,
                    "a number that divides the layers, or --decoder-first-pipeline-num-"
                    "layers and --decoder-last-pipeline-num-layers");
  if (chunk_layers && (stage_layers % chunk_layers || stage_layers < chunk_layers))
    pz_reject_given(reader, ARG_CHUNK_LAYERS, divisor);
  if (!chunk_layers && !states_ends && stage_layers % plan->vpp)
    pz_reject_given(reader, PZ_PLAN_VPP, divisor);
  if (chunk_layers) plan->vpp = stage_layers / chunk_layers;
  if (plan->pp == 1 && plan->vpp > 1)
    pz_reject_given(reader, chunk_layers ? (int)ARG_CHUNK_LAYERS : (int)PZ_PLAN_VPP,
                    "with it --pipeline-model-parallel-size above 1");
  read_end_stages(reader, layers);
}

/* ---- recomputation -------------------------------------------------------------------------- */

/* Reads which activations are recomputed: none, those of all layers or of some layers of each stage
 * ("full"), or those of modules ("selective"). */
static void read_recomputation(struct pz_megatron_reader *reader) {
  struct pz_plan *plan = &reader->run->plan;
  pz_need_given_word(reader, ARG_RECOMPUTE_GRANULARITY, "full or selective");
  pz_need_given_word(reader, ARG_RECOMPUTE_METHOD, "uniform or block");
  bool is_full =
      pz_given_is(reader, ARG_RECOMPUTE_GRANULARITY, "full") && !pz_given(reader, ARG_SELECTIVE);
  bool is_selective = !is_full && (pz_given(reader, ARG_SELECTIVE) ||
                                   pz_given_is(reader, ARG_RECOMPUTE_GRANULARITY, "selective") ||
                                   pz_given(reader, ARG_RECOMPUTE_EXPERTS));
  bool has_method = pz_given(reader, ARG_RECOMPUTE_METHOD);
  bool has_full_only_argument = has_method || pz_given(reader, ARG_RECOMPUTE_LAYERS);
  plan->recompute = PZ_RECOMPUTATION_NONE;
  if (is_selective) plan->recompute = PZ_RECOMPUTATION_SELECTIVE;
  if (is_full) plan->recompute = PZ_RECOMPUTATION_FULL;
  if (is_selective && has_full_only_argument)
    pz_reject_given(reader, has_method ? ARG_RECOMPUTE_METHOD : ARG_RECOMPUTE_LAYERS,
                    "with it --recompute-granularity full, not selective");
  if (!is_full && has_full_only_argument)
    pz_megatron_add_note(reader,
                         "--recompute-method and --recompute-num-layers have no effect without "
                         "--recompute-granularity");
  if (is_full && !has_method)
    pz_reject_given(reader, ARG_RECOMPUTE_GRANULARITY,
                    "with it --recompute-method uniform or block");
  if (is_full && pz_given_is(reader, ARG_RECOMPUTE_METHOD, "block")) {
    pz_need_given(reader, ARG_RECOMPUTE_LAYERS,
                  "recompute-num-layers (with --recompute-method block)");
    /* the limit is the number of layers of the longest stage: first, last, or between them */
    int64_t end_layers = plan->first_layers + plan->last_layers;
    int64_t middle_stages = plan->pp - (plan->first_layers > 0) - (plan->last_layers > 0);
    int64_t middle_layers = pz_max(reader->given[ARG_LAYERS].count - end_layers, 0);
    int64_t middle_chunk =
        pz_ceil_div(pz_ceil_div(middle_layers, pz_max(middle_stages, 1)), plan->vpp);
    int64_t most = plan->vpp * pz_max(middle_chunk, pz_max(plan->first_layers, plan->last_layers));
    plan->recompute_layers = reader->given[ARG_RECOMPUTE_LAYERS].count;
    if (plan->recompute_layers > most)
      pz_reject_given(
          reader, ARG_RECOMPUTE_LAYERS,
          pz_format(reader->call, "at most the layers of a pipeline stage (%" PRId64 ")", most));
  } else if (is_full && pz_given_count(reader, ARG_RECOMPUTE_LAYERS, 1) > 1) {
    pz_reject_given(
        reader, ARG_RECOMPUTE_LAYERS,
        "1; recomputing units of several layers (--recompute-method uniform) is not covered");
  }
  if (!is_selective) return;
  int modules = 0; /* recomputed modules; the attention core alone is the plan's default, 0 */
  if (pz_given(reader, ARG_RECOMPUTE_MODULES)) {
    struct pz_plan asked = *plan;
    if (!pz_try_plan_field(&asked, PZ_PLAN_RECOMPUTE_MODULES,
                           reader->given[ARG_RECOMPUTE_MODULES].text, NULL))
      pz_reject_given(reader, ARG_RECOMPUTE_MODULES,
                      "layernorm, moe_act, mla_up_proj, mlp, moe, shared_experts, core_attn");
    modules = asked.recompute_modules;
  }
  if (pz_given(reader, ARG_RECOMPUTE_EXPERTS))
    modules = PZ_MODULE_EXPERTS | (modules ? modules : PZ_MODULE_CORE);
  plan->recompute_modules = modules == PZ_MODULE_CORE ? 0 : modules;
  if (modules)
    pz_set_origin(reader, PZ_PLAN_RECOMPUTE_MODULES, ARG_RECOMPUTE_MODULES, ARG_RECOMPUTE_EXPERTS);
}

/* ---- sharding and the optimizer ------------------------------------------------------------- */

/* Reads the ZeRO stage.  The distributed optimizer is stage 1, Megatron FSDP has the stage of its
 * strategy, PyTorch's FSDP2 is stage 2 or 3, and DeepSpeed states the stage. */
static void read_sharding(struct pz_megatron_reader *reader) {
  struct pz_plan *plan = &reader->run->plan;
  pz_need_given_word(reader, ARG_SHARDING_STRATEGY,
                     "no_shard, optim, optim_grads or optim_grads_params");
  bool fsdp = pz_given(reader, ARG_FSDP), fsdp2 = pz_given(reader, ARG_FSDP2);
  plan->zero = pz_given(reader, ARG_DISTRIBUTED_OPTIMIZER) && !fsdp;
  for (int stage = 1; fsdp && stage < 4; stage++)
    if (pz_given_is(reader, ARG_SHARDING_STRATEGY, pz_core_strategies[stage])) plan->zero = stage;
  if (fsdp2) {
    plan->zero = pz_given(reader, ARG_FSDP2_NO_RESHARD) ? 2 : 3;
    bool excluded = plan->pp > 1 || pz_given_count(reader, PZ_PLAN_EP, 1) > 1 ||
                    pz_given(reader, ARG_DISTRIBUTED_OPTIMIZER) || pz_given(reader, ARG_FP16) ||
                    !pz_given(reader, ARG_UNTIED);
    if (excluded)
      pz_reject_given(reader, ARG_FSDP2,
                      "with it --untie-embeddings-and-output-weights and --bf16, one pipeline "
                      "stage, no expert parallelism and no --use-distributed-optimizer");
  }
  int64_t stage = pz_given_count(reader, ARG_ZERO_STAGE, 0);
  if (stage > 3 || (stage && !pz_given(reader, ARG_DEEPSPEED)))
    pz_reject_given(reader, ARG_ZERO_STAGE, "0 to 3, with it --deepspeed");
  if (stage) plan->zero = (int)stage;
  int64_t copies = pz_given_count(reader, ARG_OPTIMIZER_INSTANCES, 1);
  int64_t replicas = plan->devices / (plan->tp * plan->pp);
  if (copies == 1 || !plan->zero) return;
  if (replicas % copies)
    pz_reject_given(reader, ARG_OPTIMIZER_INSTANCES, "a number that divides the replicas");
  plan->shard = replicas / copies;
}

/* Reads the types of Adam's moments and of its main copy of the weights, and which share of the
 * optimizer runs on the host.  By default, a precision-aware optimizer stores only those bits of
 * the main copy that the bf16 weights lack. */
static void read_optimizer(struct pz_megatron_reader *reader) {
  static const char types[] = "fp32, bf16 or fp8; others are not covered";
  struct pz_plan *plan = &reader->run->plan;
  bool aware = pz_given(reader, ARG_PRECISION_AWARE),
       on_host = pz_given(reader, ARG_OFFLOAD_OPTIMIZER);
  const struct pz_given_argument *first = &reader->given[ARG_FIRST_MOMENT];
  const struct pz_given_argument *second = &reader->given[ARG_SECOND_MOMENT];
  const struct pz_given_argument *fraction = &reader->given[ARG_OFFLOAD_FRACTION];
  pz_need_given_word(reader, ARG_FIRST_MOMENT, types);
  pz_need_given_word(reader, ARG_SECOND_MOMENT, types);
  const char *type = first->is_given ? first->text : "fp32";
  if (strcmp(type, second->is_given ? second->text : "fp32") != 0)
    pz_reject_given(reader, second->is_given ? ARG_SECOND_MOMENT : ARG_FIRST_MOMENT,
                    "the same type for both moments");
  if (strcmp(type, "fp32") != 0) {
    if (!aware)
      pz_reject_given(reader, ARG_FIRST_MOMENT, "with it --use-precision-aware-optimizer");
    plan->moment_bytes = strcmp(type, "bf16") == 0 ? 2 : 1;
    pz_set_origin(reader, PZ_PLAN_MOMENT_BYTES, ARG_FIRST_MOMENT, ARG_FIRST_MOMENT);
  }
  if (on_host) {
    plan->offload |= PZ_OFFLOAD_OPTIMIZER;
    bool is_read = !fraction->is_given ||
                   (!fraction->unknown &&
                    pz_try_plan_field(plan, PZ_PLAN_OFFLOAD_FRACTION, fraction->text, NULL));
    if (!is_read) pz_reject_given(reader, ARG_OFFLOAD_FRACTION, "a number from 0.01 to 1");
    if (plan->offload_fraction == 1) plan->offload_fraction = 0; /* all of it, the default */
  }
  pz_need_given_word(reader, ARG_MAIN_PARAMS, "fp32 or fp16; others are not covered");
  bool has_fp32_moments = !(plan->moment_bytes > 0);
  if (!aware || on_host) return;
  if (pz_given_is(reader, ARG_MAIN_PARAMS, "fp16"))
    plan->main_params = PZ_MAIN_FP16;
  else if (has_fp32_moments && plan->zero == 1 && pz_given(reader, ARG_BF16))
    plan->main_params = PZ_MAIN_REMAINDERS;
  pz_set_origin(reader, PZ_PLAN_MAIN_PARAMS, ARG_MAIN_PARAMS, ARG_PRECISION_AWARE);
}

/* ---- overlap and offloading ----------------------------------------------------------------- */

/* Reads which communication overlaps with compute, and which activations are saved on the host:
 * those of whole layers, those of modules, or those that DeepSpeed's recomputation saves.
 * Transfers between stages overlap only if stages have chunks, and then by default. */
static void read_overlap_and_offloading(struct pz_megatron_reader *reader) {
  struct pz_run_plan *run = reader->run;
  struct pz_plan *plan = &run->plan;
  bool grad = pz_given(reader, ARG_OVERLAP_GRAD), param = pz_given(reader, ARG_OVERLAP_PARAM);
  bool tp = pz_given(reader, ARG_OVERLAP_TP);
  run->p2p_off = pz_given(reader, ARG_NO_OVERLAP_P2P);
  plan->overlap = 0;
  if (grad) plan->overlap |= PZ_OVERLAP_GRAD;
  if (param) plan->overlap |= PZ_OVERLAP_PARAM;
  if (tp) plan->overlap |= PZ_OVERLAP_TP;
  if (pz_given(reader, ARG_OVERLAP_EP)) plan->overlap |= PZ_OVERLAP_EP;
  if (plan->vpp > 1 && !run->p2p_off) plan->overlap |= PZ_OVERLAP_P2P;
  plan->grad_bytes = pz_given(reader, ARG_GRAD_BF16) ? 2 : 4;
  plan->fused_loss =
      pz_given(reader, ARG_LOSS_FUSION) && pz_given_is(reader, ARG_LOSS_KERNEL, "te");
  if (param && !(plan->zero && grad))
    pz_reject_given(reader, ARG_OVERLAP_PARAM,
                    "with it --overlap-grad-reduce and --use-distributed-optimizer");
  if (tp && plan->tp > 1 && !pz_given(reader, ARG_SP))
    pz_reject_given(reader, ARG_OVERLAP_TP, "with it --sequence-parallel");
  plan->offload_layers = pz_given_count(reader, (int)PZ_PLAN_OFFLOAD_LAYERS, 0);
  if (pz_given(reader, ARG_CPU_OFFLOADING) && !plan->offload_layers)
    pz_reject_given(reader, ARG_CPU_OFFLOADING, "with it --cpu-offloading-num-layers");
  if (pz_given(reader, ARG_FINE_GRAINED_OFFLOAD)) {
    const struct pz_given_argument *modules = &reader->given[ARG_OFFLOAD_MODULES];
    if (!modules->is_given ||
        !pz_try_plan_field(plan, PZ_PLAN_OFFLOAD_MODULES, modules->text, NULL))
      pz_reject_given(reader, ARG_FINE_GRAINED_OFFLOAD,
                      "with it --offload-modules of attn_norm, qkv_linear, core_attn, attn_proj, "
                      "mlp_norm, expert_fc1, moe_act, fused_group_mlp");
  }
  if (plan->offload_layers || plan->offload_modules || pz_given(reader, ARG_CHECKPOINT_IN_CPU))
    plan->offload |= PZ_OFFLOAD_ACTIVATIONS;
  if (pz_given(reader, ARG_CPU_OPTIMIZER)) plan->offload |= PZ_OFFLOAD_OPTIMIZER;
}

/* ---- precision and kernels ------------------------------------------------------------------ */

/* Reads the precision of GEMMs, and the layers at both ends that stay in 16 bit. */
static void read_precision(struct pz_megatron_reader *reader) {
  struct pz_plan *plan = &reader->run->plan;
  bool fp8 = pz_given(reader, ARG_FP8) || pz_given(reader, ARG_FP8_FORMAT);
  bool fp4 = pz_given(reader, ARG_FP4_FORMAT);
  plan->precision = pz_given(reader, ARG_FP16) ? PZ_PRECISION_FP16 : PZ_PRECISION_BF16;
  if (fp8) plan->precision = PZ_PRECISION_FP8;
  if (fp4) plan->precision = PZ_PRECISION_NVFP4;
  plan->act_precision = pz_given(reader, ARG_FP8_ACTIVATION);
  pz_need_given_word(reader, ARG_FP8_FORMAT, "hybrid or e4m3");
  pz_need_given_word(reader, ARG_FP4_FORMAT, "e2m1");
  if (fp4 && fp8) pz_reject_given(reader, ARG_FP4_FORMAT, "--fp4-format or --fp8-format, not both");
  if (fp4) pz_need_given_word(reader, ARG_FP4_RECIPE, "nvfp4; others are not covered");
  if (fp8) {
    pz_need_given_word(reader, ARG_FP8_RECIPE, "delayed, tensorwise, blockwise or mxfp8");
    plan->fp8_recipe = PZ_FP8_DELAYED;
    if (pz_given_is(reader, ARG_FP8_RECIPE, "tensorwise")) plan->fp8_recipe = PZ_FP8_CURRENT;
    if (pz_given_is(reader, ARG_FP8_RECIPE, "blockwise")) plan->fp8_recipe = PZ_FP8_BLOCKWISE;
    if (pz_given_is(reader, ARG_FP8_RECIPE, "mxfp8")) plan->fp8_recipe = PZ_FP8_MX;
  }
  if (pz_given(reader, ARG_BF16_END_LAYERS)) { /* one layer in 16 bit at each end by default */
    plan->bf16_first_layers = pz_given_count(reader, ARG_BF16_FIRST_LAYERS, 1);
    plan->bf16_layers = pz_given_count(reader, ARG_BF16_LAST_LAYERS, 1);
  }
}

/* Reads the attention kernel and the use of CUDA graphs.  Graphs capture modules, or the whole step
 * if no scope or a full iteration is given. */
static void read_kernels(struct pz_megatron_reader *reader) {
  struct pz_plan *plan = &reader->run->plan;
  pz_need_given_word(reader, ARG_ATTENTION_BACKEND, "auto, flash, fused, unfused or local");
  pz_need_given_word(reader, ARG_IMPLEMENTATION, "local or transformer_engine");
  pz_need_given_word(reader, ARG_CUDA_GRAPH_IMPL,
                     "none, local, transformer_engine or full_iteration");
  bool flash = pz_given(reader, ARG_FLASH);
  bool flash1 = pz_given(reader, ARG_FLASH1), flash2 = pz_given(reader, ARG_FLASH2);
  bool is_unfused = pz_given_is(reader, ARG_ATTENTION_BACKEND, "unfused") ||
                    pz_given_is(reader, ARG_ATTENTION_BACKEND, "local") ||
                    (pz_given_is(reader, ARG_IMPLEMENTATION, "local") && !flash);
  if (pz_given(reader, ARG_DEEPSPEED)) is_unfused = !flash && !flash1 && !flash2;
  plan->attention = is_unfused ? PZ_ATTENTION_STANDARD : PZ_ATTENTION_FLASH;
  plan->attention_library = "";
  if (pz_given_is(reader, ARG_ATTENTION_BACKEND, "fused")) plan->attention_library = "cudnn";
  if (flash2 || pz_given_is(reader, ARG_ATTENTION_BACKEND, "flash"))
    plan->attention_library = "fa2";
  if (flash1) plan->attention_library = "fa1";
  if (plan->attention_library[0])
    pz_set_origin(reader, PZ_PLAN_ATTENTION_LIBRARY, ARG_ATTENTION_BACKEND, ARG_ATTENTION_BACKEND);
  bool has_graphs =
      pz_given(reader, ARG_CUDA_GRAPH) ||
      (pz_given(reader, ARG_CUDA_GRAPH_IMPL) && !pz_given_is(reader, ARG_CUDA_GRAPH_IMPL, "none"));
  bool of_modules = has_graphs && pz_given(reader, ARG_CUDA_GRAPH_SCOPE) &&
                    !pz_given_is(reader, ARG_CUDA_GRAPH_SCOPE, "full") &&
                    !pz_given_is(reader, ARG_CUDA_GRAPH_SCOPE, "full_iteration");
  plan->execution = has_graphs && !of_modules ? PZ_EXECUTION_GRAPH : PZ_EXECUTION_EAGER;
  if (!of_modules) return;
  pz_set_origin(reader, PZ_PLAN_CUDA_GRAPHS, ARG_CUDA_GRAPH_SCOPE, ARG_CUDA_GRAPH_SCOPE);
  if (!pz_try_plan_field(plan, PZ_PLAN_CUDA_GRAPHS, reader->given[ARG_CUDA_GRAPH_SCOPE].text, NULL))
    pz_reject_given(reader, ARG_CUDA_GRAPH_SCOPE,
                    "full_iteration, or attn, mlp, moe_router, moe_preprocess, mamba");
}

/* ---- experts -------------------------------------------------------------------------------- */

/* Reads the dispatcher, which sends tokens to experts.  The default of flex is DeepEP.  Megatron's
 * own default, allgather, which gathers all tokens on every device, is not covered. */
static void read_dispatcher(struct pz_megatron_reader *reader) {
  struct pz_plan *plan = &reader->run->plan;
  bool flex = pz_given_is(reader, ARG_DISPATCHER, "flex");
  plan->dispatcher = PZ_DISPATCHER_ALLTOALL;
  if (flex) plan->dispatcher = PZ_DISPATCHER_DEEPEP;
  if (flex && pz_given_is(reader, ARG_FLEX_BACKEND, "hybridep"))
    plan->dispatcher = PZ_DISPATCHER_HYBRIDEP;
  pz_set_origin(reader, PZ_PLAN_DISPATCHER, flex ? ARG_FLEX_BACKEND : ARG_DISPATCHER,
                ARG_DISPATCHER);
  if (plan->ep == 1) return;
  if (!pz_given(reader, ARG_DISPATCHER))
    pz_reject_given(reader, PZ_PLAN_EP,
                    "with it --moe-token-dispatcher-type alltoall or flex (the default, "
                    "allgather, is not covered)");
  pz_need_given_word(reader, ARG_DISPATCHER, "alltoall or flex; other dispatchers are not covered");
  if (flex)
    pz_need_given_word(reader, ARG_FLEX_BACKEND,
                       "deepep or hybridep; other backends are not covered");
}

/* Reads expert parallelism.  By default, experts have the tensor parallelism of the other layers.
 * If the rows of each expert are padded to a capacity, every device computes that many rows;
 * otherwise an even load is assumed. */
static void read_expert_parallelism(struct pz_megatron_reader *reader) {
  struct pz_plan *plan = &reader->run->plan;
  plan->ep = pz_given_count(reader, PZ_PLAN_EP, 1);
  plan->mtp = pz_given_count(reader, ARG_PREDICT_LAYERS, 0) > 0;
  if (!pz_has_experts(reader)) {
    if (plan->ep > 1) pz_reject_given(reader, PZ_PLAN_EP, "1, or with it --num-experts");
    plan->overlap &= ~PZ_OVERLAP_EP;
    return;
  }
  plan->etp = pz_given_count(reader, PZ_PLAN_ETP, plan->tp);
  if (plan->tp > 1 && !plan->sp)
    pz_raise(reader->call, PZ_BAD_INPUT,
             "%s: experts with --tensor-model-parallel-size above 1; accepted: with it "
             "--sequence-parallel",
             reader->name);
  read_dispatcher(reader);
  if (pz_given(reader, ARG_OVERLAP_EP)) {
    bool lacks_chunks = plan->pp > 1 && plan->vpp == 1;
    bool recomputes =
        plan->recompute == PZ_RECOMPUTATION_FULL || plan->recompute_modules & PZ_MODULE_EXPERTS;
    if (plan->ep == 1 || lacks_chunks || recomputes)
      pz_reject_given(reader, ARG_OVERLAP_EP,
                      "with it --expert-model-parallel-size above 1, chunks where there are "
                      "stages, and no recomputation of whole layers or of moe");
    pz_set_origin(reader, PZ_PLAN_OVERLAP, ARG_OVERLAP_EP, ARG_OVERLAP_EP);
  }
  /* the capacity is a multiple of the mean rows of an expert */
  const struct pz_given_argument *capacity = &reader->given[ARG_CAPACITY];
  if (capacity->is_given) {
    char *end = NULL;
    double factor = strtod(capacity->text, &end);
    if (!*capacity->text || *end || !(factor >= 1 && factor <= 1e6))
      pz_reject_given(reader, ARG_CAPACITY,
                      "a number from 1; experts that get less than the mean are not covered");
    if (pz_given(reader, ARG_PAD_TO_CAPACITY)) {
      plan->imbalance = factor;
      pz_set_origin(reader, PZ_PLAN_IMBALANCE, ARG_CAPACITY, ARG_CAPACITY);
    } else {
      pz_megatron_add_note(
          reader, "--moe-expert-capacity-factor without padding: an even load is predicted");
    }
  }
  if (!pz_given(reader, ARG_GROUPED_GEMM))
    pz_megatron_add_note(
        reader, "no --moe-grouped-gemm: the experts' products are predicted as grouped ones");
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Notes in run.from which argument each field of the plan comes from, unless its reader has done
 * so.  If a field has several arguments, the first one that is given counts. */
static void set_origins(struct pz_megatron_reader *reader) {
  /* clang-format off */
  static const struct { int field, argument; } origins[] = {
      {PZ_PLAN_MBS, PZ_PLAN_MBS}, {PZ_PLAN_BATCH, PZ_PLAN_BATCH}, {PZ_PLAN_SEQ, PZ_PLAN_SEQ}, {PZ_PLAN_TP, PZ_PLAN_TP}, {PZ_PLAN_CP, PZ_PLAN_CP},
      {PZ_PLAN_PP, PZ_PLAN_PP}, {PZ_PLAN_EP, PZ_PLAN_EP}, {PZ_PLAN_ETP, PZ_PLAN_ETP}, {PZ_PLAN_SP, ARG_SP}, {PZ_PLAN_MTP, ARG_PREDICT_LAYERS},
      {PZ_PLAN_FIRST_LAYERS, PZ_PLAN_FIRST_LAYERS}, {PZ_PLAN_FIRST_LAYERS, ARG_EMBEDDING_AS_LAYER},
      {PZ_PLAN_LAST_LAYERS, PZ_PLAN_LAST_LAYERS}, {PZ_PLAN_LAST_LAYERS, ARG_LOSS_AS_LAYER},
      {PZ_PLAN_VPP, ARG_CHUNK_LAYERS}, {PZ_PLAN_VPP, PZ_PLAN_VPP}, {PZ_PLAN_RECOMPUTE, ARG_SELECTIVE}, {PZ_PLAN_RECOMPUTE, ARG_RECOMPUTE_GRANULARITY},
      {PZ_PLAN_RECOMPUTE_LAYERS, ARG_RECOMPUTE_LAYERS}, {PZ_PLAN_ZERO, ARG_FSDP2}, {PZ_PLAN_ZERO, ARG_FSDP}, {PZ_PLAN_ZERO, ARG_DISTRIBUTED_OPTIMIZER},
      {PZ_PLAN_ZERO, ARG_ZERO_STAGE}, {PZ_PLAN_SHARD, ARG_OPTIMIZER_INSTANCES}, {PZ_PLAN_OFFLOAD, ARG_OFFLOAD_OPTIMIZER}, {PZ_PLAN_OFFLOAD, ARG_FINE_GRAINED_OFFLOAD},
      {PZ_PLAN_OFFLOAD, PZ_PLAN_OFFLOAD_LAYERS}, {PZ_PLAN_OFFLOAD, ARG_CHECKPOINT_IN_CPU}, {PZ_PLAN_OFFLOAD, ARG_CPU_OPTIMIZER},
      {PZ_PLAN_OVERLAP, ARG_OVERLAP_TP}, {PZ_PLAN_OVERLAP, ARG_OVERLAP_PARAM}, {PZ_PLAN_OVERLAP, ARG_OVERLAP_GRAD},
      {PZ_PLAN_GRAD_BYTES, ARG_GRAD_BF16}, {PZ_PLAN_FUSED_LOSS, ARG_LOSS_KERNEL}, {PZ_PLAN_FUSED_LOSS, ARG_LOSS_FUSION},
      {PZ_PLAN_BF16_FIRST_LAYERS, ARG_BF16_FIRST_LAYERS}, {PZ_PLAN_BF16_FIRST_LAYERS, ARG_BF16_END_LAYERS}, {PZ_PLAN_BF16_LAYERS, ARG_BF16_LAST_LAYERS},
      {PZ_PLAN_BF16_LAYERS, ARG_BF16_END_LAYERS}, {PZ_PLAN_PRECISION, ARG_FP4_FORMAT}, {PZ_PLAN_PRECISION, ARG_FP8}, {PZ_PLAN_PRECISION, ARG_FP8_FORMAT},
      {PZ_PLAN_PRECISION, ARG_BF16}, {PZ_PLAN_PRECISION, ARG_FP16}, {PZ_PLAN_ACT_PRECISION, ARG_FP8_ACTIVATION},
      {PZ_PLAN_FP8_RECIPE, ARG_FP8_RECIPE}, {PZ_PLAN_FP8_RECIPE, ARG_FP8_FORMAT}, {PZ_PLAN_EXECUTION, ARG_CUDA_GRAPH}, {PZ_PLAN_EXECUTION, ARG_CUDA_GRAPH_IMPL},
      {PZ_PLAN_ATTENTION, ARG_ATTENTION_BACKEND}, {PZ_PLAN_ATTENTION, ARG_FLASH}, {PZ_PLAN_ATTENTION, ARG_IMPLEMENTATION}, {PZ_RUN_MODEL, ARG_LAYERS},
  };
  /* clang-format on */
  for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
    if (!reader->run->from[origins[i].field])
      pz_set_origin(reader, origins[i].field, origins[i].argument, origins[i].argument);
}

/* Reads the plan from the arguments into the run. */
void pz_read_megatron_plan(struct pz_megatron_reader *reader) {
  read_degrees(reader);
  read_devices(reader);
  pz_need_given(reader, PZ_PLAN_MBS, "micro-batch-size");
  pz_need_given(reader, PZ_PLAN_SEQ, "seq-length");
  int64_t seq = reader->given[PZ_PLAN_SEQ].count;
  if (pz_given_count(reader, ARG_POSITIONS, seq) < seq)
    pz_reject_given(reader, ARG_POSITIONS,
                    pz_format(reader->call, "at least --seq-length (%" PRId64 ")", seq));
  if (pz_given(reader, ARG_RAMPUP))
    pz_megatron_add_note(reader,
                         "--rampup-batch-size: the prediction is of the full global batch size");
  read_stages(reader);
  read_recomputation(reader);
  read_sharding(reader);
  read_overlap_and_offloading(reader);
  if (pz_given(reader, ARG_DEEPSPEED))
    pz_read_deepspeed_config(reader);
  else
    read_optimizer(reader);
  read_precision(reader);
  read_expert_parallelism(reader);
  read_kernels(reader);
  set_origins(reader);
}
