/* Models and plans in the terms of Megatron Core, for both of its launchers.
 *
 * write_name() writes "  --name " for Megatron-LM or "model.name = " for Megatron Bridge, and the
 * functions after it write a name with its value, so that each property is written in one place for
 * both.  The functions pz_core_write_...() write properties in their order in a script. */
#include "launch/megatron_core.h"

#include <inttypes.h>
#include <string.h>

const char *const pz_core_strategies[4] = {"no_shard", "optim", "optim_grads",
                                           "optim_grads_params"};

/* ---- one property --------------------------------------------------------------------------- */

/* Where, and for which launcher, properties of a model or plan are written. */
struct core_writer {
  const struct pz_launch *launch;
  bool bridge; /* writes for Megatron Bridge rather than Megatron-LM */
  FILE *out;
};

/* Arguments of Megatron-LM whose field in Megatron Bridge has another name. */
static const char *const renamed_arguments[][2] = {{"num-experts", "num_moe_experts"},
                                                   {"norm-epsilon", "layernorm_epsilon"},
                                                   {"swiglu", "gated_linear_unit"}};

/* Writes "  --name " for Megatron-LM, or "model.name = " for Megatron Bridge. */
static void write_name(const struct core_writer *writer, const char *name) {
  if (!writer->bridge) {
    fprintf(writer->out, "  --%s ", name);
    return;
  }
  for (size_t i = 0; i < sizeof renamed_arguments / sizeof *renamed_arguments; i++)
    if (strcmp(renamed_arguments[i][0], name) == 0) name = renamed_arguments[i][1];
  fputs("model.", writer->out);
  for (; *name; name++) fputc(*name == '-' ? '_' : *name, writer->out);
  fputs(" = ", writer->out);
}

/* Writes a property with an integer value. */
static void write_integer(const struct core_writer *writer, const char *name, int64_t value) {
  write_name(writer, name);
  fprintf(writer->out, "%" PRId64 "\n", value);
}

/* Writes a property with a real value. */
static void write_real(const struct core_writer *writer, const char *name, double value) {
  write_name(writer, name);
  fprintf(writer->out, "%.10g\n", value);
}

/* Writes a property whose value is a word, as a Python string for Megatron Bridge. */
static void write_word(const struct core_writer *writer, const char *name, const char *word) {
  write_name(writer, name);
  fprintf(writer->out, writer->bridge ? "\"%s\"\n" : "%s\n", word);
}

/* Writes a truth value: for Megatron Bridge always, for Megatron-LM as a flag if it is true. */
static void write_flag(const struct core_writer *writer, const char *name, bool on) {
  if (writer->bridge) {
    write_name(writer, name);
    fputs(on ? "True\n" : "False\n", writer->out);
  } else if (on) {
    fprintf(writer->out, "  --%s\n", name);
  }
}

/* Writes a truth value that Megatron-LM's argument turns off, and Bridge's field turns on. */
static void write_negated_flag(const struct core_writer *writer, const char *argument,
                               const char *field, bool on) {
  write_flag(writer, writer->bridge ? field : argument, writer->bridge ? on : !on);
}

/* Writes a field of the plan under the name that the launcher has for it. */
static void write_core_field(const struct core_writer *writer, enum pz_plan_field field) {
  enum pz_launcher launcher = writer->bridge ? PZ_LAUNCH_BRIDGE : PZ_LAUNCH_MEGATRON;
  pz_write_plan_field(writer->launch, field, launcher, writer->out);
}

/* Writes names[i] for each bit i of `set`, as strings of a Python list or as words of a shell. */
static void write_set(const char *const *names, int set, bool bridge, FILE *out) {
  const char *gap = "", *quote = bridge ? "\"" : "";
  for (int i = 0; names[i]; i++) {
    if (!(set >> i & 1)) continue;
    fprintf(out, "%s%s%s%s", gap, quote, names[i], quote);
    gap = bridge ? ", " : " ";
  }
}

/* Writes a property whose value is a set of names. */
static void write_set_field(const struct core_writer *writer, const char *name,
                            const char *const *names, int set) {
  write_name(writer, name);
  if (writer->bridge) fputs("[", writer->out);
  write_set(names, set, writer->bridge, writer->out);
  fputs(writer->bridge ? "]\n" : "\n", writer->out);
}

/* ---- the model ------------------------------------------------------------------------------ */

/* Writes the properties of experts, of the router, and of the dispatcher of tokens. */
static void write_expert_fields(const struct core_writer *writer) {
  const struct pz_model_shape *shape = &writer->launch->shape;
  const struct pz_plan *plan = &writer->launch->plan;
  bool is_v3 = shape->family == PZ_SHAPE_DEEPSEEK_V3;
  bool sigmoid_router = is_v3 || shape->sigmoid;
  /* "flex" dispatches tokens by DeepEP or HybridEP and requires experts on several devices */
  bool uses_flex = pz_plan_dispatcher(plan) != PZ_DISPATCHER_ALLTOALL && pz_plan_ep(plan) > 1;
  bool uses_deepep = pz_plan_dispatcher(plan) == PZ_DISPATCHER_DEEPEP;
  /* Megatron-LM advises fp32 for 32 experts or more, and DeepEP needs it. */
  bool fp32_router = shape->experts >= 32 || uses_flex;
  const char *quote = writer->bridge ? "" : "'";
  write_integer(writer, "num-experts", shape->experts);
  write_integer(writer, "moe-router-topk", shape->topk);
  write_integer(writer, "moe-ffn-hidden-size", shape->expert_ffn);
  if (shape->latent) write_integer(writer, "moe-latent-size", shape->latent);
  if (shape->shared_ffn)
    write_integer(writer, "moe-shared-expert-intermediate-size", shape->shared_ffn);
  if (shape->shared_gate) write_flag(writer, "moe-shared-expert-gate", true);
  if (shape->family == PZ_SHAPE_NEMOTRON_H) { /* its layer pattern says which layers have experts */
    write_integer(writer, "moe-layer-freq", 1);
    write_flag(writer, "use-fused-weighted-squared-relu", true);
  } else {
    write_name(writer, "moe-layer-freq");
    fprintf(writer->out, "%s(", quote);
    if (shape->dense_layers) fprintf(writer->out, "[0]*%" PRId64 "+", shape->dense_layers);
    fprintf(writer->out, "[1]*%" PRId64 ")%s\n", shape->layers - shape->dense_layers, quote);
  }
  write_flag(writer, "moe-grouped-gemm", true);
  write_word(writer, "moe-token-dispatcher-type", uses_flex ? "flex" : "alltoall");
  if (uses_flex && uses_deepep && !writer->bridge)
    write_flag(writer, "moe-enable-deepep", true); /* this name exists in core 0.14 too */
  else if (uses_flex)
    write_word(writer, "moe-flex-dispatcher-backend",
               pz_dispatcher_names[pz_plan_dispatcher(plan)]);
  /* coefficients of DeepSeek-V3 (arXiv:2412.19437) and Switch Transformers (arXiv:2101.03961) */
  write_word(writer, "moe-router-load-balancing-type",
             sigmoid_router ? "seq_aux_loss" : "aux_loss");
  write_real(writer, "moe-aux-loss-coeff", sigmoid_router ? 1e-4 : 1e-2);
  if (fp32_router) write_word(writer, "moe-router-dtype", "fp32");
  write_flag(writer, "moe-router-pre-softmax", is_v3 || shape->topk == 1);
  if (sigmoid_router) {
    write_word(writer, "moe-router-score-function", "sigmoid");
    write_flag(writer, "moe-router-enable-expert-bias", true);
    write_real(writer, "moe-router-topk-scaling-factor", shape->routed_scale);
  }
  if (shape->groups > 1) {
    write_integer(writer, "moe-router-num-groups", shape->groups);
    write_integer(writer, "moe-router-group-topk", shape->group_topk);
  }
}

/* Writes heads, head dimensions and the attention kernel. */
static void write_attention(const struct core_writer *writer) {
  const struct pz_model_shape *shape = &writer->launch->shape;
  const struct pz_plan *plan = &writer->launch->plan;
  write_integer(writer, "num-attention-heads", shape->heads);
  if (shape->kv_rank) { /* multi-head latent attention */
    bool yarn = shape->rope == PZ_ROPE_YARN;
    if (!writer->bridge) fputs("  --multi-latent-attention\n", writer->out);
    if (shape->q_rank) write_integer(writer, "q-lora-rank", shape->q_rank);
    write_integer(writer, "kv-lora-rank", shape->kv_rank);
    write_integer(writer, "qk-head-dim", shape->nope_dim);
    write_integer(writer, "qk-pos-emb-head-dim", shape->rope_dim);
    write_integer(writer, "v-head-dim", shape->v_dim);
    write_word(writer, "rope-type", yarn ? "yarn" : "rope");
    if (yarn) {
      write_real(writer, "rotary-scaling-factor", shape->rope_factor);
      if (writer->bridge)
        write_real(writer, "original-max-position-embeddings", shape->rope_original);
      write_real(writer, "mscale", shape->rope_mscale);
      write_real(writer, "mscale-all-dim", shape->rope_mscale_all);
    }
    if (!yarn || writer->bridge) /* recent Megatron-LM fuses RoPE only with YaRN */
      write_negated_flag(writer, "no-rope-fusion", "apply-rope-fusion", false);
  } else {
    bool is_grouped = shape->kv_heads != shape->heads;
    if (is_grouped && !writer->bridge) fputs("  --group-query-attention\n", writer->out);
    if (is_grouped || writer->bridge) write_integer(writer, "num-query-groups", shape->kv_heads);
    write_integer(writer, "kv-channels", shape->head_dim);
  }
  write_flag(writer, "qk-layernorm", shape->qk_norm);
  if (shape->out_gate) write_flag(writer, "attention-output-gate", true);
  const char *backend = "flash";
  if (plan->attention == PZ_ATTENTION_STANDARD)
    backend = "unfused";
  else if (!plan->attention_library || !*plan->attention_library)
    backend = "auto";
  else if (strcmp(plan->attention_library, "cudnn") == 0)
    backend = "fused";
  write_name(writer, "attention-backend");
  fprintf(writer->out, "%s%s\n", writer->bridge ? "AttnBackend." : "", backend);
}

/* Writes the number and kind of positions: learned, rotary with its scaling, or none. */
static void write_positions(const struct core_writer *writer) {
  const struct pz_model_shape *shape = &writer->launch->shape;
  int64_t seq = writer->launch->plan.seq;
  double factor = pz_shape_rope_factor(shape, seq);
  if (!writer->bridge)
    write_integer(writer, "max-position-embeddings",
                  shape->positions > seq ? shape->positions : seq);
  const char *type = "learned_absolute";
  if (shape->family == PZ_SHAPE_NEMOTRON_H) type = "none";
  if (shape->rotary_base > 0) type = "rope";
  write_word(writer, "position-embedding-type", type);
  if (shape->rotary_base > 0) write_integer(writer, "rotary-base", (int64_t)shape->rotary_base);
  if (shape->rotary_part < 1) write_real(writer, "rotary-percent", shape->rotary_part);
  if (factor > 0) {
    write_flag(writer, writer->bridge ? "rope-scaling" : "use-rope-scaling", true);
    write_real(writer, "rope-scaling-factor", factor);
  }
}

/* ---- hybrids: models that mix attention with Mamba layers or gated delta nets --------------- */

/* Writes a letter for each layer, with bars between the chunks of the pipeline, and for each layer
 * of multi-token prediction a slash and its letters
 * (megatron/core/ssm/mamba_hybrid_layer_allocation.py: PIPE, MTP_SEPARATOR). */
static void write_layer_pattern(const struct core_writer *writer) {
  const struct pz_plan *plan = &writer->launch->plan;
  const struct pz_model_shape *shape = &writer->launch->shape;
  const char *quote = writer->bridge ? "\"" : "'";
  int64_t layer = 0;
  write_name(writer, "hybrid-layer-pattern");
  fputs(quote, writer->out);
  for (int64_t chunk = 0; chunk < plan->pp * plan->vpp; chunk++) {
    int64_t layers = pz_plan_chunk_layers(plan, shape->layers, chunk);
    if (chunk) fputc('|', writer->out);
    fprintf(writer->out, "%.*s", (int)layers, shape->pattern + layer);
    layer += layers;
  }
  for (int64_t i = 0; plan->mtp && i < shape->predict_layers; i++)
    fprintf(writer->out, "/%s", shape->predict);
  fprintf(writer->out, "%s\n", quote);
}

/* Writes the properties of a hybrid of gated delta nets and full attention, which is in the last
 * of every `period` layers, or in the layers that a list does not mark with 1. */
static void write_gated_delta_net(const struct core_writer *writer) {
  const struct pz_model_shape *shape = &writer->launch->shape;
  const struct pz_recurrence *recurrence = &shape->recurrence;
  /* the period of full attention ('*'), or 0 if a list must state the layers */
  const char *first = strchr(shape->pattern, '*');
  int64_t period = first ? first - shape->pattern + 1 : 0;
  for (int64_t i = 0; i < shape->layers && period; i++)
    if ((shape->pattern[i] == '*') != ((i + 1) % period == 0)) period = 0;
  write_word(writer, "experimental-attention-variant", "gated_delta_net");
  if (period) {
    write_integer(writer, "linear-attention-freq", period);
  } else {
    write_name(writer, "linear-attention-freq");
    fputs(writer->bridge ? "[" : "'[", writer->out);
    for (int64_t i = 0; i < shape->layers; i++)
      fprintf(writer->out, "%s%d", i ? "," : "", shape->pattern[i] == 'L');
    fputs(writer->bridge ? "]\n" : "]'\n", writer->out);
  }
  write_integer(writer, "linear-conv-kernel-dim", recurrence->conv_tokens);
  write_integer(writer, "linear-key-head-dim", recurrence->state);
  write_integer(writer, "linear-value-head-dim", recurrence->head_dim);
  write_integer(writer, "linear-num-key-heads", recurrence->groups);
  write_integer(writer, "linear-num-value-heads", recurrence->heads);
  write_flag(writer, writer->bridge ? "layernorm-zero-centered-gamma" : "apply-layernorm-1p", true);
}

/* Writes the shape of a model, and how the plan trains it: dropout, prediction layers, and loss. */
void pz_core_write_model(const struct pz_launch *launch, enum pz_launcher launcher, FILE *out) {
  const struct core_writer writer = {launch, launcher == PZ_LAUNCH_BRIDGE, out};
  const struct pz_model_shape *shape = &launch->shape;
  bool has_dropout = pz_plan_framework(&launch->plan)->dropout;
  write_integer(&writer, "num-layers", shape->layers);
  write_integer(&writer, "hidden-size", shape->hidden);
  write_integer(&writer, "ffn-hidden-size", shape->ffn);
  write_attention(&writer);
  write_positions(&writer);
  write_word(&writer, "normalization", shape->gated || shape->squared ? "RMSNorm" : "LayerNorm");
  write_real(&writer, "norm-epsilon", shape->norm_eps);
  write_flag(&writer, "swiglu", shape->gated);
  if (!writer.bridge) write_flag(&writer, "squared-relu", shape->squared);
  const char *activation = shape->squared ? "squared_relu" : "F.gelu";
  if (shape->gated) activation = "F.silu";
  if (writer.bridge) fprintf(out, "model.activation_func = %s\n", activation);
  if (shape->family == PZ_SHAPE_NEMOTRON_H) {
    const struct pz_recurrence *recurrence = &shape->recurrence;
    if (!writer.bridge)
      fputs("  --spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec\n", out);
    write_layer_pattern(&writer);
    write_integer(&writer, "mamba-num-heads", recurrence->heads);
    write_integer(&writer, "mamba-head-dim", recurrence->head_dim);
    write_integer(&writer, "mamba-state-dim", recurrence->state);
    write_integer(&writer, "mamba-num-groups", recurrence->groups);
  }
  if (shape->family == PZ_SHAPE_QWEN3_NEXT) write_gated_delta_net(&writer);
  write_negated_flag(&writer, "disable-bias-linear", "add-bias-linear", shape->bias);
  write_flag(&writer, "add-qkv-bias", shape->qkv_bias && (writer.bridge || !shape->bias));
  write_negated_flag(&writer, "untie-embeddings-and-output-weights",
                     "share-embeddings-and-output-weights", shape->tied);
  write_real(&writer, "attention-dropout", has_dropout ? shape->drop_attention : 0);
  write_real(&writer, "hidden-dropout", has_dropout ? shape->drop_hidden : 0);
  if (shape->experts) write_expert_fields(&writer);
  if (launch->plan.mtp) write_integer(&writer, "mtp-num-layers", shape->predict_layers);
  if (launch->plan.mtp && shape->predict_repeats && shape->predict_layers > 1)
    write_flag(&writer, "mtp-use-repeated-layer", true);
  bool fused = launch->plan.fused_loss || writer.bridge;
  write_flag(&writer, "cross-entropy-loss-fusion", fused);
  if (fused) write_word(&writer, "cross-entropy-fusion-impl", "te");
}

/* Returns whether the optimizer's state has other types than fp32 or is on the host. */
bool pz_core_is_precision_aware(const struct pz_launch *launch) {
  return pz_core_moment_type(launch) || launch->plan.main_params > PZ_MAIN_FP32 ||
         pz_plan_host_optimizer_fraction(&launch->plan) > 0;
}

/* Returns the type of Adam's moments, or NULL for fp32. */
const char *pz_core_moment_type(const struct pz_launch *launch) {
  double bytes = pz_plan_moment_bytes(&launch->plan, launch->shape.experts > 0);
  if (bytes == 2) return "bf16";
  return bytes == 1 ? "fp8" : NULL;
}

/* ---- the plan ------------------------------------------------------------------------------- */

/* Writes a pipeline layout such as Et*18|t*21|t*20,L. */
void pz_core_write_layout(const struct pz_plan *plan, int64_t layers, int64_t prediction_layers,
                          FILE *out) {
  int64_t chunks = plan->pp * plan->vpp, chunk_layers = 0;
  for (int64_t chunk = 0; chunk < chunks; chunk++) {
    chunk_layers = pz_plan_chunk_layers(plan, layers, chunk);
    fputs(chunk ? "|" : "E", out);
    if (chunk_layers == 1) fputc('t', out);
    if (chunk_layers > 1) fprintf(out, "t*%" PRId64, chunk_layers);
  }
  if (chunk_layers > 1) fputc(',', out);
  for (int64_t i = 0; i < prediction_layers; i++) fputc('m', out);
  fputc('L', out);
}

/* Writes how layers are divided into pipeline stages, in the shortest form that states it: evenly;
 * by the layers of the first and last stage, if the others are even and have no chunks; with the
 * embedding and the loss each counted as a layer; or by a layout of every chunk, which for
 * Megatron-LM also states the number of chunks. */
static void write_division(const struct core_writer *writer) {
  const struct pz_plan *plan = &writer->launch->plan;
  const struct pz_model_shape *shape = &writer->launch->shape;
  int64_t layers = shape->layers;
  if (shape->family == PZ_SHAPE_NEMOTRON_H) return; /* its layer pattern states the division */
  bool even = pz_plan_is_even(plan, layers);
  bool has_ends = plan->first_layers || plan->last_layers;
  int64_t middle_stages = plan->pp - 2;
  int64_t middle_layers = layers - plan->first_layers - plan->last_layers;
  bool middle_is_even = middle_stages ? middle_layers % middle_stages == 0 : middle_layers == 0;
  bool by_ends = !even && has_ends && plan->vpp == 1 && middle_is_even;
  int64_t layers_and_ends = layers + 2; /* with the embedding and the loss */
  bool counts_ends = !even && !has_ends && layers_and_ends % (plan->pp * plan->vpp) == 0;
  bool by_layout = !even && !by_ends && !counts_ends;
  if (plan->vpp > 1 && (writer->bridge || !by_layout)) write_core_field(writer, PZ_PLAN_VPP);
  if (by_ends) {
    write_core_field(writer, PZ_PLAN_FIRST_LAYERS);
    write_core_field(writer, PZ_PLAN_LAST_LAYERS);
  }
  if (counts_ends) {
    write_flag(writer, "account-for-embedding-in-pipeline-split", true);
    write_flag(writer, "account-for-loss-in-pipeline-split", true);
  }
  if (!by_layout) return;
  const char *quote = writer->bridge ? "\"" : "'";
  write_name(writer, "pipeline-model-parallel-layout");
  fputs(quote, writer->out);
  pz_core_write_layout(plan, layers, plan->mtp ? shape->predict_layers : 0, writer->out);
  fprintf(writer->out, "%s\n", quote);
}

/* Writes the plan's degrees of parallelism, its pipeline stages, and which transfers overlap. */
void pz_core_write_parallelism(const struct pz_launch *launch, enum pz_launcher launcher,
                               FILE *out) {
  const struct core_writer writer = {launch, launcher == PZ_LAUNCH_BRIDGE, out};
  const struct pz_plan *plan = &launch->plan;
  write_core_field(&writer, PZ_PLAN_TP);
  write_flag(&writer, "sequence-parallel", plan->sp);
  write_core_field(&writer, PZ_PLAN_PP);
  if (writer.bridge)
    fprintf(out, "model.pipeline_dtype = torch.%s\n",
            plan->precision == PZ_PRECISION_FP16 ? "float16" : "bfloat16");
  write_division(&writer);
  write_core_field(&writer, PZ_PLAN_CP);
  if (plan->cp > 1)
    write_word(&writer, "cp-comm-type", plan->cp_form == PZ_CONTEXT_ALL_TO_ALL ? "a2a" : "p2p");
  if (launch->shape.experts) {
    write_core_field(&writer, PZ_PLAN_EP);
    write_core_field(&writer, PZ_PLAN_ETP);
    write_flag(&writer, "overlap-moe-expert-parallel-comm", plan->overlap & PZ_OVERLAP_EP);
  }
  write_flag(&writer, "tp-comm-overlap", plan->overlap & PZ_OVERLAP_TP);
  bool p2p = plan->overlap & PZ_OVERLAP_P2P;
  if (plan->vpp > 1 || writer.bridge)
    write_negated_flag(&writer, "no-overlap-p2p-communication", "overlap-p2p-comm", p2p);
  if (writer.bridge) fprintf(out, "model.batch_p2p_comm = %s\n", p2p ? "False" : "True");
}

/* Returns the modules that selective recomputation recomputes, the attention core by default. */
static int recomputed_modules(const struct pz_plan *plan) {
  int modules = pz_plan_recomputed_modules(plan);
  return modules ? modules : PZ_MODULE_CORE;
}

void pz_core_write_modules(const struct pz_plan *plan, FILE *out) {
  write_set(pz_module_names, recomputed_modules(plan), false, out);
}

/* Writes recomputation, activations on the host, and CUDA graphs. */
void pz_core_write_recomputation(const struct pz_launch *launch, enum pz_launcher launcher,
                                 FILE *out) {
  const struct core_writer writer = {launch, launcher == PZ_LAUNCH_BRIDGE, out};
  const struct pz_plan *plan = &launch->plan;
  if (plan->recompute == PZ_RECOMPUTATION_SELECTIVE) {
    write_word(&writer, "recompute-granularity", "selective");
    write_set_field(&writer, "recompute-modules", pz_module_names, recomputed_modules(plan));
  }
  if (plan->recompute == PZ_RECOMPUTATION_FULL) {
    write_word(&writer, "recompute-granularity", "full");
    write_word(&writer, "recompute-method", plan->recompute_layers ? "block" : "uniform");
    write_integer(&writer, "recompute-num-layers",
                  plan->recompute_layers ? plan->recompute_layers : 1);
  }
  bool offloads = plan->offload & PZ_OFFLOAD_ACTIVATIONS;
  if (offloads && plan->offload_modules) {
    write_flag(&writer, "fine-grained-activation-offloading", true);
    if (plan->offload_modules & PZ_AWAY_EXPERTS)
      write_flag(&writer, "use-transformer-engine-op-fuser", true);
    write_set_field(&writer, "offload-modules", pz_offload_module_names, plan->offload_modules);
  } else if (offloads) {
    if (writer.bridge)
      fputs("model.cpu_offloading = True\nmodel.cpu_offloading_weights = False\n", out);
    write_core_field(&writer, PZ_PLAN_OFFLOAD_LAYERS);
  }
  if (plan->execution == PZ_EXECUTION_GRAPH) {
    /* core 0.14 has this name of the argument too */
    fputs(writer.bridge ? "model.cuda_graph_impl = \"local\"\n" : "  --enable-cuda-graph\n", out);
  } else if (plan->cuda_graphs > 0) {
    write_word(&writer, "cuda-graph-impl", "transformer_engine");
    write_set_field(&writer, "cuda-graph-scope", pz_graph_module_names, plan->cuda_graphs);
  }
}

/* Exports the number of hardware queues, and an implementation of offloading.  With one queue,
 * kernels and collectives start in the order in which they are issued, which overlapping
 * tensor-parallel communication requires.  Gathering sharded weights and dispatching rows to
 * experts during compute require several queues.  Blackwell keeps the order with any number of
 * queues, and Megatron Bridge uses 32 (scripts/performance/perf_plugins.py:
 * _set_num_cuda_device_max_connections).  From Transformer Engine 2.10 on, only its first
 * implementation of offloading moves modules to the host without their weights, and both launchers
 * refuse to start without it (Megatron Bridge: training/config.py,
 * _validate_fine_grained_activation_offloading; megatron/training/arguments.py). */
void pz_core_write_environment(const struct pz_launch *launch, enum pz_launcher launcher,
                               FILE *out) {
  bool many_queues =
      (launch->plan.overlap & PZ_OVERLAP_EP) || (launcher == PZ_LAUNCH_BRIDGE && launch->blackwell);
  bool offloads_modules =
      launch->plan.offload & PZ_OFFLOAD_ACTIVATIONS && launch->plan.offload_modules;
  if (offloads_modules) fputs("export NVTE_CPU_OFFLOAD_V1=1\n", out);
  if (launch->plan.zero > 1)
    fputs("unset CUDA_DEVICE_MAX_CONNECTIONS\n\n", out);
  else
    fprintf(out, "export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-%d}\n\n",
            many_queues ? 32 : 1);
}

const char *const pz_core_fp8_recipes[] = {"delayed", "tensorwise", "blockwise", "mxfp8", NULL};

/* Returns the format of 8-bit GEMMs, or NULL if the plan has none. */
const char *pz_core_fp8_format(const struct pz_plan *plan) {
  if (plan->precision != PZ_PRECISION_FP8) return NULL;
  return plan->fp8_recipe == PZ_FP8_MX || plan->fp8_recipe == PZ_FP8_BLOCKWISE ? "e4m3" : "hybrid";
}
