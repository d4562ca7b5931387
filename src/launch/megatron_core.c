#include "launch/megatron_core.h"

#include <inttypes.h>
#include <string.h>

const char *const pz_core_strategies[4] = {"no_shard", "optim", "optim_grads",
                                           "optim_grads_params"};

/* ---- one fact ------------------------------------------------------------------------------- */

struct writer {
  const struct pz_launch *l;
  bool bridge;
  FILE *out;
};

/* Fields that are not called as their argument is. */
static const char *const other_names[][2] = {{"num-experts", "num_moe_experts"},
                                             {"norm-epsilon", "layernorm_epsilon"},
                                             {"swiglu", "gated_linear_unit"}};

/* "  --name " or "model.name = ". */
static void put_name(const struct writer *w, const char *name) {
  if (!w->bridge) {
    fprintf(w->out, "  --%s ", name);
    return;
  }
  for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
    if (strcmp(other_names[i][0], name) == 0) name = other_names[i][1];
  fputs("model.", w->out);
  for (; *name; name++) fputc(*name == '-' ? '_' : *name, w->out);
  fputs(" = ", w->out);
}

static void put(const struct writer *w, const char *name, int64_t value) {
  put_name(w, name);
  fprintf(w->out, "%" PRId64 "\n", value);
}

static void put_real(const struct writer *w, const char *name, double value) {
  put_name(w, name);
  fprintf(w->out, "%.10g\n", value);
}

static void put_word(const struct writer *w, const char *name, const char *word) {
  put_name(w, name);
  fprintf(w->out, w->bridge ? "\"%s\"\n" : "%s\n", word);
}

/* A field is always told, an argument where it is on. */
static void put_flag(const struct writer *w, const char *name, bool on) {
  if (w->bridge) {
    put_name(w, name);
    fputs(on ? "True\n" : "False\n", w->out);
  } else if (on) {
    fprintf(w->out, "  --%s\n", name);
  }
}

/* A flag by which Megatron-LM turns off what Bridge turns on. */
static void put_unless(const struct writer *w, const char *argument, const char *field, bool on) {
  put_flag(w, w->bridge ? field : argument, w->bridge == on);
}

static void put_plan(const struct writer *w, enum pz_plan_field f) {
  pz_launch_number(w->l, f, w->bridge ? PZ_LAUNCH_BRIDGE : PZ_LAUNCH_MEGATRON,
                   w->bridge ? "model." : "  ", w->bridge ? " = " : " ", w->out);
}

/* Lines that one of them has by itself. */
static void put_own(const struct writer *w, bool bridge, const char *lines) {
  if (w->bridge == bridge) fputs(lines, w->out);
}

/* ---- the model ------------------------------------------------------------------------------ */

/* DeepEP and HybridEP are backends of the flexible dispatcher, which needs experts on several devices. */
static bool is_flex(const struct pz_plan *p) {
  return pz_plan_dispatcher(p) != PZ_DISPATCHER_ALLTOALL && pz_plan_ep(p) > 1;
}

static void put_dispatcher(const struct writer *w) {
  const struct pz_plan *p = &w->l->plan;
  put_word(w, "moe-token-dispatcher-type", is_flex(p) ? "flex" : "alltoall");
  if (is_flex(p) && !w->bridge && pz_plan_dispatcher(p) == PZ_DISPATCHER_DEEPEP)
    put_flag(w, "moe-enable-deepep", true); /* the name that core 0.14 has too */
  else if (is_flex(p))
    put_word(w, "moe-flex-dispatcher-backend", pz_dispatcher_names[pz_plan_dispatcher(p)]);
}

static void put_experts(const struct writer *w) {
  const struct pz_model_shape *s = &w->l->shape;
  bool v3 = s->family == PZ_SHAPE_DEEPSEEK_V3 || s->sigmoid;
  const char *quote = w->bridge ? "" : "'";
  put(w, "num-experts", s->experts);
  put(w, "moe-router-topk", s->topk);
  put(w, "moe-ffn-hidden-size", s->expert_ffn);
  if (s->latent) put(w, "moe-latent-size", s->latent);
  if (s->shared_ffn) put(w, "moe-shared-expert-intermediate-size", s->shared_ffn);
  if (s->shared_gate) put_flag(w, "moe-shared-expert-gate", true);
  if (s->family == PZ_SHAPE_NEMOTRON_H) { /* the pattern says which */
    put(w, "moe-layer-freq", 1);
    put_flag(w, "use-fused-weighted-squared-relu", true);
  } else {
    put_name(w, "moe-layer-freq");
    fprintf(w->out, "%s(", quote);
    if (s->dense_layers) fprintf(w->out, "[0]*%" PRId64 "+", s->dense_layers);
    fprintf(w->out, "[1]*%" PRId64 ")%s\n", s->layers - s->dense_layers, quote);
  }
  put_flag(w, "moe-grouped-gemm", true);
  put_dispatcher(w);
  put_word(w, "moe-router-load-balancing-type", v3 ? "seq_aux_loss" : "aux_loss");
  put_real(w, "moe-aux-loss-coeff", v3 ? 1e-4 : 1e-2);
  if (s->experts >= 32 || is_flex(&w->l->plan)) /* as it advises for so many; as DeepEP needs */
    put_word(w, "moe-router-dtype", "fp32");
  put_flag(w, "moe-router-pre-softmax", s->family == PZ_SHAPE_DEEPSEEK_V3 || s->topk == 1);
  if (v3) {
    put_word(w, "moe-router-score-function", "sigmoid");
    put_flag(w, "moe-router-enable-expert-bias", true);
    put_real(w, "moe-router-topk-scaling-factor", s->routed_scale);
  }
  if (s->groups > 1) {
    put(w, "moe-router-num-groups", s->groups);
    put(w, "moe-router-group-topk", s->group_topk);
  }
}

static void put_latent(const struct writer *w) {
  const struct pz_model_shape *s = &w->l->shape;
  bool yarn = s->rope == PZ_ROPE_YARN;
  put_own(w, false, "  --multi-latent-attention\n");
  if (s->q_rank) put(w, "q-lora-rank", s->q_rank);
  put(w, "kv-lora-rank", s->kv_rank);
  put(w, "qk-head-dim", s->nope_dim);
  put(w, "qk-pos-emb-head-dim", s->rope_dim);
  put(w, "v-head-dim", s->v_dim);
  put_word(w, "rope-type", yarn ? "yarn" : "rope");
  if (yarn) {
    put_real(w, "rotary-scaling-factor", s->rope_factor);
    if (w->bridge) put_real(w, "original-max-position-embeddings", s->rope_original);
    put_real(w, "mscale", s->rope_mscale);
    put_real(w, "mscale-all-dim", s->rope_mscale_all);
  }
  if (!yarn || w->bridge) /* fused with YaRN alone, in recent versions */
    put_unless(w, "no-rope-fusion", "apply-rope-fusion", false);
}

/* The attention backend that the plan asks for. */
static const char *backend(const struct pz_plan *p) {
  if (p->attention == PZ_ATTENTION_STANDARD) return "unfused";
  if (!p->attention_library || !*p->attention_library) return "auto";
  return strcmp(p->attention_library, "cudnn") == 0 ? "fused" : "flash";
}

static void put_attention(const struct writer *w) {
  const struct pz_model_shape *s = &w->l->shape;
  put(w, "num-attention-heads", s->heads);
  if (s->kv_rank) {
    put_latent(w);
  } else {
    if (s->kv_heads != s->heads) put_own(w, false, "  --group-query-attention\n");
    if (s->kv_heads != s->heads || w->bridge) put(w, "num-query-groups", s->kv_heads);
    put(w, "kv-channels", s->head_dim);
  }
  put_flag(w, "qk-layernorm", s->qk_norm);
  if (s->out_gate) put_flag(w, "attention-output-gate", true);
  put_name(w, "attention-backend");
  fprintf(w->out, "%s%s\n", w->bridge ? "AttnBackend." : "", backend(&w->l->plan));
}

static void put_positions(const struct writer *w) {
  const struct pz_model_shape *s = &w->l->shape;
  int64_t seq = w->l->plan.seq;
  double factor = pz_shape_rope_factor(s, seq);
  if (!w->bridge) put(w, "max-position-embeddings", s->positions > seq ? s->positions : seq);
  bool none = s->family == PZ_SHAPE_NEMOTRON_H;
  put_word(w, "position-embedding-type",
           s->rotary_base > 0 ? "rope"
           : none             ? "none"
                              : "learned_absolute");
  if (s->rotary_base > 0) put(w, "rotary-base", (int64_t)s->rotary_base);
  if (s->rotary_part < 1) put_real(w, "rotary-percent", s->rotary_part);
  if (factor > 0) {
    put_flag(w, w->bridge ? "rope-scaling" : "use-rope-scaling", true);
    put_real(w, "rope-scaling-factor", factor);
  }
}

/* ---- hybrids -------------------------------------------------------------------------------- */

/* Letters of the layers, with the stages and chunks told apart, and those of each layer that predicts
 * (megatron/core/ssm/mamba_hybrid_layer_allocation.py: PIPE, MTP_SEPARATOR). */
static void put_pattern(const struct writer *w) {
  const struct pz_plan *p = &w->l->plan;
  const struct pz_model_shape *s = &w->l->shape;
  const char *quote = w->bridge ? "\"" : "'";
  int64_t layer = 0;
  put_name(w, "hybrid-layer-pattern");
  fputs(quote, w->out);
  for (int64_t j = 0; j < p->pp * p->vpp; j++) {
    if (j) fputc('|', w->out);
    for (int64_t i = pz_plan_blocks(p, s->layers, j); i > 0; i--)
      fputc(s->pattern[layer++], w->out);
  }
  for (int64_t i = p->mtp ? s->predict_layers : 0; i > 0; i--) fprintf(w->out, "/%s", s->predict);
  fprintf(w->out, "%s\n", quote);
}

static void put_mamba(const struct writer *w) {
  const struct pz_recurrence *r = &w->l->shape.recurrence;
  put_own(w, false, "  --spec megatron.core.models.hybrid.hybrid_layer_specs hybrid_stack_spec\n");
  put_pattern(w);
  put(w, "mamba-num-heads", r->heads);
  put(w, "mamba-head-dim", r->head_dim);
  put(w, "mamba-state-dim", r->state);
  put(w, "mamba-num-groups", r->groups);
}

/* One layer of so many, the last, attends; or layer by layer. */
static void put_delta(const struct writer *w) {
  const struct pz_model_shape *s = &w->l->shape;
  const struct pz_recurrence *r = &s->recurrence;
  const char *first = strchr(s->pattern, '*');
  int64_t period = first ? first - s->pattern + 1 : 0;
  for (int64_t i = 0; i < s->layers && period; i++)
    if ((s->pattern[i] == '*') != ((i + 1) % period == 0)) period = 0;
  put_word(w, "experimental-attention-variant", "gated_delta_net");
  if (period) {
    put(w, "linear-attention-freq", period);
  } else {
    put_name(w, "linear-attention-freq");
    fputs(w->bridge ? "[" : "'[", w->out);
    for (int64_t i = 0; i < s->layers; i++)
      fprintf(w->out, "%s%d", i ? "," : "", s->pattern[i] == 'L');
    fputs(w->bridge ? "]\n" : "]'\n", w->out);
  }
  put(w, "linear-conv-kernel-dim", r->conv);
  put(w, "linear-key-head-dim", r->state);
  put(w, "linear-value-head-dim", r->head_dim);
  put(w, "linear-num-key-heads", r->groups);
  put(w, "linear-num-value-heads", r->heads);
  put_flag(w, w->bridge ? "layernorm-zero-centered-gamma" : "apply-layernorm-1p", true);
}

void pz_core_model(const struct pz_launch *l, enum pz_launcher whose, FILE *out) {
  const struct writer w = {l, whose == PZ_LAUNCH_BRIDGE, out};
  const struct pz_model_shape *s = &l->shape;
  put(&w, "num-layers", s->layers);
  put(&w, "hidden-size", s->hidden);
  put(&w, "ffn-hidden-size", s->ffn);
  put_attention(&w);
  put_positions(&w);
  put_word(&w, "normalization", s->gated || s->squared ? "RMSNorm" : "LayerNorm");
  put_real(&w, "norm-epsilon", s->norm_eps);
  put_flag(&w, "swiglu", s->gated);
  if (!w.bridge) put_flag(&w, "squared-relu", s->squared);
  put_own(&w, true,
          s->gated     ? "model.activation_func = F.silu\n"
          : s->squared ? "model.activation_func = squared_relu\n"
                       : "model.activation_func = F.gelu\n");
  if (s->family == PZ_SHAPE_NEMOTRON_H) put_mamba(&w);
  if (s->family == PZ_SHAPE_QWEN3_NEXT) put_delta(&w);
  put_unless(&w, "disable-bias-linear", "add-bias-linear", s->bias);
  put_flag(&w, "add-qkv-bias", s->qkv_bias && (w.bridge || !s->bias));
  put_unless(&w, "untie-embeddings-and-output-weights", "share-embeddings-and-output-weights",
             s->tied);
  put_real(&w, "attention-dropout", pz_launch_drop(l, s->drop_attention));
  put_real(&w, "hidden-dropout", pz_launch_drop(l, s->drop_hidden));
  if (s->experts) put_experts(&w);
  if (l->plan.mtp) put(&w, "mtp-num-layers", s->predict_layers);
  if (l->plan.mtp && s->predict_repeats && s->predict_layers > 1)
    put_flag(&w, "mtp-use-repeated-layer", true);
  bool fused = l->plan.fused_loss || w.bridge;
  put_flag(&w, "cross-entropy-loss-fusion", fused);
  if (fused) put_word(&w, "cross-entropy-fusion-impl", "te");
}

bool pz_core_is_aware(const struct pz_launch *l) {
  return pz_core_moments(l) || l->plan.main_params > PZ_MAIN_FP32 || pz_plan_away(&l->plan) > 0;
}

const char *pz_core_moments(const struct pz_launch *l) {
  double bytes = pz_plan_moment_bytes(&l->plan, l->shape.experts > 0);
  return bytes == 2 ? "bf16" : bytes == 1 ? "fp8" : NULL;
}

/* ---- the plan ------------------------------------------------------------------------------- */

void pz_core_layout(const struct pz_plan *p, int64_t layers, int64_t predict, FILE *out) {
  for (int64_t j = 0, n = p->pp * p->vpp; j < n; j++) {
    int64_t here = pz_plan_blocks(p, layers, j);
    fputs(j ? "|" : "E", out);
    if (here) fprintf(out, here > 1 ? "t*%" PRId64 : "t", here);
    if (j < n - 1) continue;
    if (here > 1) fputc(',', out);
    for (int64_t i = 0; i < predict; i++) fputc('m', out);
    fputc('L', out);
  }
}

/* The numbers of first and last stage go with other stages that are alike, and without chunks. */
static bool by_ends(const struct pz_plan *p, int64_t layers) {
  int64_t middle = p->pp - 2, rest = layers - p->first_layers - p->last_layers;
  return p->vpp == 1 && (middle ? rest % middle == 0 : rest == 0);
}

/* Evenly; by the layers of the first and the last stage; with embedding and loss as a layer each; or chunk by chunk,
 * which for Megatron-LM tells the number of chunks too. */
static void put_division(const struct writer *w) {
  const struct pz_plan *p = &w->l->plan;
  int64_t layers = w->l->shape.layers;
  if (w->l->shape.family == PZ_SHAPE_NEMOTRON_H) return; /* the pattern has it */
  bool even = pz_plan_is_even(p, layers), told = p->first_layers || p->last_layers;
  bool ends = !even && told && by_ends(p, layers);
  bool count = !even && !told && (layers + 2) % (p->pp * p->vpp) == 0;
  bool layout = !even && !ends && !count;
  if (p->vpp > 1 && (w->bridge || !layout)) put_plan(w, PZ_PLAN_VPP);
  if (ends) {
    put_plan(w, PZ_PLAN_FIRST_LAYERS);
    put_plan(w, PZ_PLAN_LAST_LAYERS);
  }
  if (count) {
    put_flag(w, "account-for-embedding-in-pipeline-split", true);
    put_flag(w, "account-for-loss-in-pipeline-split", true);
  }
  if (!layout) return;
  const char *quote = w->bridge ? "\"" : "'";
  put_name(w, "pipeline-model-parallel-layout");
  fputs(quote, w->out);
  pz_core_layout(p, layers, p->mtp ? w->l->shape.predict_layers : 0, w->out);
  fprintf(w->out, "%s\n", quote);
}

void pz_core_parallel(const struct pz_launch *l, enum pz_launcher whose, FILE *out) {
  const struct writer w = {l, whose == PZ_LAUNCH_BRIDGE, out};
  const struct pz_plan *p = &l->plan;
  put_plan(&w, PZ_PLAN_TP);
  put_flag(&w, "sequence-parallel", p->sp);
  put_plan(&w, PZ_PLAN_PP);
  put_own(&w, true,
          p->precision == PZ_PRECISION_FP16 ? "model.pipeline_dtype = torch.float16\n"
                                            : "model.pipeline_dtype = torch.bfloat16\n");
  put_division(&w);
  put_plan(&w, PZ_PLAN_CP);
  if (p->cp > 1) put_word(&w, "cp-comm-type", p->cp_form == PZ_CONTEXT_ALL_TO_ALL ? "a2a" : "p2p");
  if (l->shape.experts) {
    put_plan(&w, PZ_PLAN_EP);
    put_plan(&w, PZ_PLAN_ETP);
    put_flag(&w, "overlap-moe-expert-parallel-comm", pz_plan_overlaps(p, PZ_OVERLAP_EP));
  }
  put_flag(&w, "tp-comm-overlap", pz_plan_overlaps(p, PZ_OVERLAP_TP));
  bool p2p = pz_plan_overlaps(p, PZ_OVERLAP_P2P);
  if (p->vpp > 1 || w.bridge)
    put_unless(&w, "no-overlap-p2p-communication", "overlap-p2p-comm", p2p);
  put_own(&w, true, p2p ? "model.batch_p2p_comm = False\n" : "model.batch_p2p_comm = True\n");
}

/* Words of a set, of Megatron Bridge as Python's strings. */
static void put_set(const char *const *names, int set, bool bridge, FILE *out) {
  const char *gap = "", *quote = bridge ? "\"" : "";
  for (int i = 0; names[i]; i++) {
    if (!(set >> i & 1)) continue;
    fprintf(out, "%s%s%s%s", gap, quote, names[i], quote);
    gap = bridge ? ", " : " ";
  }
}

void pz_core_modules(const struct pz_plan *p, bool bridge, FILE *out) {
  int set = pz_plan_modules(p);
  put_set(pz_module_names, set ? set : PZ_MODULE_CORE, bridge, out);
}

static void put_offload(const struct writer *w) {
  const struct pz_plan *p = &w->l->plan;
  if (!(p->offload & PZ_OFFLOAD_ACTIVATIONS)) return;
  if (!p->offload_modules) {
    put_own(w, true, "model.cpu_offloading = True\nmodel.cpu_offloading_weights = False\n");
    put_plan(w, PZ_PLAN_OFFLOAD_LAYERS);
    return;
  }
  put_flag(w, "fine-grained-activation-offloading", true);
  if (p->offload_modules & PZ_AWAY_EXPERTS) put_flag(w, "use-transformer-engine-op-fuser", true);
  put_name(w, "offload-modules");
  put_own(w, true, "[");
  put_set(pz_offload_module_names, p->offload_modules, w->bridge, w->out);
  fputs(w->bridge ? "]\n" : "\n", w->out);
}

void pz_core_recompute(const struct pz_launch *l, enum pz_launcher whose, FILE *out) {
  const struct writer w = {l, whose == PZ_LAUNCH_BRIDGE, out};
  const struct pz_plan *p = &l->plan;
  if (p->recompute == PZ_RECOMPUTATION_SELECTIVE) {
    put_word(&w, "recompute-granularity", "selective");
    put_name(&w, "recompute-modules");
    put_own(&w, true, "[");
    pz_core_modules(p, w.bridge, out);
    fputs(w.bridge ? "]\n" : "\n", out);
  }
  if (p->recompute == PZ_RECOMPUTATION_FULL) {
    put_word(&w, "recompute-granularity", "full");
    put_word(&w, "recompute-method", p->recompute_layers ? "block" : "uniform");
    put(&w, "recompute-num-layers", p->recompute_layers ? p->recompute_layers : 1);
  }
  put_offload(&w);
  if (p->execution == PZ_EXECUTION_GRAPH) {
    put_own(&w, false, "  --enable-cuda-graph\n"); /* the name that core 0.14 has too */
    put_own(&w, true, "model.cuda_graph_impl = \"local\"\n");
  } else if (p->cuda_graphs > 0) {
    put_word(&w, "cuda-graph-impl", "transformer_engine");
    put_name(&w, "cuda-graph-scope");
    put_own(&w, true, "[");
    put_set(pz_graph_module_names, p->cuda_graphs, w.bridge, out);
    fputs(w.bridge ? "]\n" : "\n", out);
  }
}

/* Kernels and collectives are issued in one order where tensor parallelism overlaps them; sharded weights are gathered,
 * and rows moved to experts, beside them.  On Blackwell the order needs no single queue, and Megatron Bridge
 * takes 32 (scripts/performance/perf_plugins.py: _set_num_cuda_device_max_connections).  From Transformer Engine 2.10
 * modules go to the host without their weights by its first implementation alone, and both refuse to start without it
 * (Megatron Bridge: training/config.py, _validate_fine_grained_activation_offloading; megatron/training/arguments.py). */
void pz_core_environment(const struct pz_launch *l, enum pz_launcher whose, FILE *out) {
  bool many =
      pz_plan_overlaps(&l->plan, PZ_OVERLAP_EP) || (whose == PZ_LAUNCH_BRIDGE && l->blackwell);
  bool modules = l->plan.offload & PZ_OFFLOAD_ACTIVATIONS && l->plan.offload_modules;
  if (modules) fputs("export NVTE_CPU_OFFLOAD_V1=1\n", out);
  if (l->plan.zero > 1)
    fputs("unset CUDA_DEVICE_MAX_CONNECTIONS\n\n", out);
  else
    fprintf(out, "export CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-%d}\n\n",
            many ? 32 : 1);
}

const char *const pz_core_fp8_recipes[] = {"delayed", "tensorwise", "blockwise", "mxfp8", NULL};

const char *pz_core_fp8_format(const struct pz_plan *p) {
  if (p->precision != PZ_PRECISION_FP8) return NULL;
  return p->fp8_recipe == PZ_FP8_MX || p->fp8_recipe == PZ_FP8_BLOCKWISE ? "e4m3" : "hybrid";
}
