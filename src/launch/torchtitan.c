/* torchtitan 0.2.2, the last release: a configuration in TOML, and a module that registers the
 * model's shape (its configurations name shapes of the package alone). */
#include <inttypes.h>
#include <string.h>

#include "launch/launch.h"
#include "place/training_options.h"

/* ---- what it refuses ------------------------------------------------------------------------ */

static enum pz_status check_shape(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_launch_shape *s = &l->shape;
  bool llama = s->family == PZ_LAUNCH_LLAMA;
  if (s->family == PZ_LAUNCH_GPT2 || s->family == PZ_LAUNCH_MIXTRAL)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan has no model of the shape of %s (%s); accepted: llama, qwen3, "
                   "deepseek_v3",
                   l->model, pz_launch_family_names[s->family]);
  if (s->qkv_bias)
    return pz_fail(err, PZ_BAD_USE, "torchtitan has no biases, %s does; accepted: models without",
                   l->model);
  if (llama && s->tied)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan's llama3 does not tie embedding and head, as %s does; accepted: "
                   "tie_word_embeddings false",
                   l->model);
  if (llama && s->head_dim * s->heads != s->hidden)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan's llama3 has heads of hidden / heads, %s of %" PRId64
                   "; accepted: %" PRId64,
                   l->model, s->head_dim, s->hidden / s->heads);
  if (s->tied && l->plan.pp > 1)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan does not tie embedding and head across stages; accepted: pp 1");
  return PZ_OK;
}

static enum pz_status check_sharding(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  int64_t replicas = pz_launch_replicas(l);
  bool one_axis = p->tp == 1 && p->pp == 1 && p->cp == 1;
  if (replicas == 1 && !one_axis)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan trains in bf16 through its data parallelism alone; accepted with tp "
                   "or pp: dp above 1");
  if (replicas > 1 && p->zero == 1)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan does not shard the optimizer alone (ZeRO stage 1); accepted: 2, 3, "
                   "or 0 without tp, cp and pp");
  if (replicas > 1 && p->zero == 0 && !one_axis)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan does not replicate weights (ZeRO stage 0) beside tp %" PRId64
                   ", cp %" PRId64 " and pp %" PRId64 "; accepted: ZeRO stage 2 or 3",
                   p->tp, p->cp, p->pp);
  if (replicas > 1 && p->zero && (p->shard == 1 || p->shard % p->cp))
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan shards over at least two replicas, with all parts of a context "
                   "(shard %" PRId64 ", cp %" PRId64 "); accepted: multiples of cp above 1",
                   p->shard, p->cp);
  if (p->grad_bytes != 4)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan with gradients of %g bytes in the exchange; accepted: 4 (float32)",
                   p->grad_bytes);
  return PZ_OK;
}

/* The experts' grid lies within the devices over which weights are sharded; the all-to-all is hidden in DualPipeV alone,
 * without checkpointing (parallel_dims.py, dual_pipe_v.py). */
static enum pz_status check_experts(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  int64_t etp = pz_options_etp(p), region = p->tp * (p->zero ? p->shard : p->cp);
  if (p->mtp)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan has no multi-token prediction; accepted: a plan without mtp");
  if (!l->shape.experts) return PZ_OK;
  if (etp != p->tp && (p->ep == 1 || etp != 1))
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan with ep %" PRId64 " and etp %" PRId64 "; accepted: etp %" PRId64
                   "%s",
                   p->ep, etp, p->tp, p->ep > 1 ? " or 1" : "");
  if (p->ep > 1 && region % (p->ep * etp))
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan with ep %" PRId64 " and etp %" PRId64
                   " where weights are sharded over %" PRId64
                   " devices with tp; accepted: degrees whose product divides that",
                   p->ep, etp, region);
  if (p->ep > 1 && p->overlap & PZ_OVERLAP_EP &&
      (p->pp == 1 || p->pipeline != PZ_PIPELINE_DUALPIPE_V ||
       p->recompute != PZ_RECOMPUTATION_NONE))
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan overlaps the experts' all-to-all (ep) in the dualpipe-v order "
                   "without recomputation alone; accepted: those, or an overlap without ep");
  return PZ_OK;
}

static enum pz_status check_overlap(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  int always = pz_launch_replicas(l) == 1 ? 0
               : p->zero                  ? PZ_OVERLAP_GRAD | PZ_OVERLAP_PARAM
                                          : PZ_OVERLAP_GRAD;
  if ((p->overlap & always) != always)
    return pz_fail(err, PZ_BAD_USE, "torchtitan always overlaps %s; accepted: an overlap with %s",
                   p->zero ? "gradients and weights" : "gradients",
                   p->zero ? "grad,param" : "grad");
  if (p->tp > 1 && p->overlap & PZ_OVERLAP_TP && p->execution != PZ_EXECUTION_COMPILE)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan overlaps tensor-parallel collectives in compiled layers alone; "
                   "accepted: execution compile, or an overlap without tp");
  if (p->pp > 1 && p->overlap & PZ_OVERLAP_P2P)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan does not overlap transfers between stages; accepted: an overlap "
                   "without p2p");
  if (p->tp > 1 && !p->sequence_parallel)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan's tensor parallelism is always with sequence parallelism; accepted: "
                   "sequence parallelism, or tp 1");
  return PZ_OK;
}

static enum pz_status check_kernels(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  const char *library = p->attention_library ? p->attention_library : "";
  if (p->execution == PZ_EXECUTION_GRAPH)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan has no CUDA graphs; accepted: execution eager, compile");
  if (p->recompute == PZ_RECOMPUTATION_SELECTIVE)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan does not recompute the attention core alone; accepted: none, full, "
                   "alternate, half");
  if (p->recompute_layers)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan does not recompute a part of the layers of a stage "
                   "(recompute_layers %" PRId64 "); accepted: all of them",
                   p->recompute_layers);
  if (p->attention != PZ_ATTENTION_FLASH ||
      (*library && strcmp(library, "fa2") != 0 && strcmp(library, "cudnn") != 0))
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan runs PyTorch's fused attention; accepted: flash of fa2, cudnn, or "
                   "no library named");
  return PZ_OK;
}

/* PyTorch's names of schedules; NULL: there is none. */
static const char *const orders[PZ_PIPELINES] = {[PZ_PIPELINE_1F1B] = "1F1B",
                                                 [PZ_PIPELINE_INTERLEAVED] = "Interleaved1F1B",
                                                 [PZ_PIPELINE_GPIPE] = "GPipe",
                                                 [PZ_PIPELINE_ZB_V] = "ZBVZeroBubble",
                                                 [PZ_PIPELINE_DUALPIPE_V] = "DualPipeV"};

static enum pz_status check_pipeline(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  int64_t rounds = pz_launch_rounds(l);
  if (p->pp > 1 && !orders[p->pipeline])
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan has no %s order of the pipeline; accepted: 1f1b, interleaved, "
                   "gpipe, zb-v, dualpipe-v",
                   pz_pipeline_names[p->pipeline]);
  if (p->pp > 1 && pz_is_v_pipeline((enum pz_pipeline_order)p->pipeline) &&
      p->execution == PZ_EXECUTION_COMPILE)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan does not compile layers whose gradients of weights are found apart "
                   "(%s); accepted: execution eager, or another order",
                   pz_pipeline_names[p->pipeline]);
  if (p->seq % (p->tp * (p->cp > 1 ? 2 * p->cp : 1)))
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan with %" PRId64 " tokens, tp %" PRId64 " and cp %" PRId64
                   "; accepted: multiples of tp x 2 cp",
                   p->seq, p->tp, p->cp);
  if (p->pp > 1 && p->vpp == 1 && rounds < p->pp)
    return pz_fail(err, PZ_BAD_USE,
                   "torchtitan with %" PRId64 " microbatch%s a replica for %" PRId64
                   " stages; accepted: at least as many as stages",
                   rounds, rounds == 1 ? "" : "es", p->pp);
  return PZ_OK;
}

static enum pz_status check(const struct pz_launch *l, struct pz_error *err) {
  enum pz_status status = check_shape(l, err);
  if (status == PZ_OK) status = check_sharding(l, err);
  if (status == PZ_OK) status = check_experts(l, err);
  if (status == PZ_OK) status = check_overlap(l, err);
  if (status == PZ_OK) status = check_kernels(l, err);
  return status == PZ_OK ? check_pipeline(l, err) : status;
}

/* ---- the model ------------------------------------------------------------------------------ */

static void put(FILE *out, const char *name, int64_t value) {
  fprintf(out, "    %s=%" PRId64 ",\n", name, value);
}

/* Its feed-forward width is 8/3 of the hidden one, times a factor, up to a multiple: the width
 * itself is the multiple, and the factor brings the product below it. */
static void put_llama(const struct pz_launch_shape *s, FILE *out) {
  put(out, "n_kv_heads", s->kv_heads);
  put(out, "multiple_of", s->ffn);
  if (8 * s->hidden / 3 > s->ffn)
    fprintf(out, "    ffn_dim_multiplier=%.6g,\n",
            0.5 * (double)s->ffn / (double)(8 * s->hidden / 3));
}

static void put_experts(const struct pz_launch_shape *s, FILE *out) {
  bool v3 = s->family == PZ_LAUNCH_DEEPSEEK_V3;
  put(out, "moe_inter_dim", s->expert_ffn);
  fprintf(out,
          "    moe_args=MoEArgs(\n        num_experts=%" PRId64
          ",\n        num_shared_experts=%" PRId64 ",\n        top_k=%" PRId64
          ",\n        score_func=\"%s\",\n        route_norm=True,\n        route_scale=%.10g,\n"
          "        score_before_experts=False,\n",
          s->experts, s->shared_ffn / s->expert_ffn, s->topk, v3 ? "sigmoid" : "softmax",
          s->routed_scale);
  if (s->groups > 1)
    fprintf(out,
            "        num_expert_groups=%" PRId64 ",\n        num_limited_groups=%" PRId64 ",\n",
            s->groups, s->group_topk);
  fputs("    ),\n", out);
}

static void put_qwen(const struct pz_launch_shape *s, FILE *out) {
  put(out, "n_kv_heads", s->kv_heads);
  put(out, "head_dim", s->head_dim);
  put(out, "hidden_dim", s->ffn);
  fprintf(out, "    qk_norm=True,\n    enable_weight_tying=%s,\n", s->tied ? "True" : "False");
  if (!s->experts) return;
  fputs("    moe_enabled=True,\n", out);
  put_experts(s, out);
}

static void put_deepseek(const struct pz_launch_shape *s, FILE *out) {
  put(out, "inter_dim", s->ffn);
  put(out, "n_dense_layers", s->dense_layers);
  put_experts(s, out);
  put(out, "q_lora_rank", s->q_rank);
  put(out, "kv_lora_rank", s->kv_rank);
  put(out, "qk_nope_head_dim", s->nope_dim);
  put(out, "qk_rope_head_dim", s->rope_dim);
  put(out, "v_head_dim", s->v_dim);
}

/* The package of each family, the class of its arguments, and what is its own. */
static const struct package {
  const char *name, *arguments;
  void (*put)(const struct pz_launch_shape *s, FILE *out);
} packages[PZ_LAUNCH_FAMILIES] = {
    [PZ_LAUNCH_LLAMA] = {"llama3", "TransformerModelArgs", put_llama},
    [PZ_LAUNCH_QWEN3] = {"qwen3", "Qwen3ModelArgs", put_qwen},
    [PZ_LAUNCH_DEEPSEEK_V3] = {"deepseek_v3", "DeepSeekV3ModelArgs", put_deepseek}};

static void put_module(const struct pz_launch *l, FILE *out) {
  const struct pz_launch_shape *s = &l->shape;
  const struct package *k = &packages[s->family];
  fprintf(out,
          "cat > \"$RUN_PATH/phaze_model.py\" <<'EOF'\n"
          "from torchtitan.models.%s import get_train_spec\n"
          "from torchtitan.models.%s.model.args import %s\n",
          k->name, k->name, k->arguments);
  if (s->experts) fputs("from torchtitan.models.moe import MoEArgs\n", out);
  fprintf(out,
          "from torchtitan.protocols.train_spec import register_train_spec\n\n"
          "spec = get_train_spec()\n"
          "spec.model_args = {\"plan\": %s(\n",
          k->arguments);
  put(out, "dim", s->hidden);
  put(out, "n_layers", s->layers);
  put(out, "n_heads", s->heads);
  put(out, "vocab_size", s->vocab);
  put(out, "max_seq_len", s->positions > l->plan.seq ? s->positions : l->plan.seq);
  fprintf(out, "    norm_eps=%.10g,\n    rope_theta=%.10g,\n", s->norm_eps, s->rotary_base);
  k->put(s, out);
  fputs(")}\nregister_train_spec(\"phaze\", spec)\nEOF\n\n", out);
}

/* ---- the configuration ---------------------------------------------------------------------- */

static void put_stages(const struct pz_launch *l, FILE *out) {
  int64_t n = l->plan.pp * l->plan.vpp, layer = 0;
  fputs("module_fqns_per_model_part = [\n", out);
  for (int64_t j = 0; j < n; j++) {
    const char *comma = "";
    fputs("  [", out);
    if (j == 0) fprintf(out, "\"tok_embeddings\""), comma = ", ";
    for (int64_t i = pz_launch_chunk(l, j); i > 0; i--, comma = ", ")
      fprintf(out, "%s\"layers.%" PRId64 "\"", comma, layer++);
    if (j == n - 1) fprintf(out, "%s\"norm\", \"output\"", comma);
    fputs("],\n", out);
  }
  fputs("]\n", out);
}

static void put_parallel(const struct pz_launch *l, FILE *out) {
  const struct pz_training_options *p = &l->plan;
  int64_t shard = p->zero ? p->shard / p->cp : 1;
  fprintf(out,
          "[parallelism]\ndata_parallel_replicate_degree = %" PRId64
          "\ndata_parallel_shard_degree = %" PRId64 "\nfsdp_reshard_after_forward = \"%s\"\n"
          "tensor_parallel_degree = %" PRId64 "\nenable_async_tensor_parallel = %s\n"
          "pipeline_parallel_degree = %" PRId64 "\ncontext_parallel_degree = %" PRId64 "\n"
          "expert_parallel_degree = %" PRId64 "\n",
          p->dp / shard, shard, p->zero == 3 ? "always" : "never", p->tp,
          p->tp > 1 && p->overlap & PZ_OVERLAP_TP ? "true" : "false", p->pp, p->cp, p->ep);
  if (p->ep > 1) fprintf(out, "expert_tensor_parallel_degree = %" PRId64 "\n", pz_options_etp(p));
  if (p->pp > 1 && p->pipeline == PZ_PIPELINE_DUALPIPE_V)
    fprintf(out, "pipeline_parallel_expert_parallel_overlap = %s\n",
            p->ep > 1 && p->overlap & PZ_OVERLAP_EP ? "true" : "false");
  if (p->pp > 1) {
    fprintf(out,
            "pipeline_parallel_schedule = \"%s\"\npipeline_parallel_microbatch_size = %" PRId64
            "\n",
            orders[p->pipeline], p->mbs);
    put_stages(l, out);
  }
  fputc('\n', out);
}

/* A pipeline cuts its local batch into microbatches; without one the local batch is what runs at
 * once, and the rest is accumulated. */
static void put_training(const struct pz_launch *l, FILE *out) {
  const struct pz_training_options *p = &l->plan;
  fprintf(out,
          "[training]\nlocal_batch_size = %" PRId64 "\nglobal_batch_size = %" PRId64
          "\nseq_len = %" PRId64 "\nsteps = ${TRAIN_STEPS:-1000}\nmax_norm = 1.0\n"
          "dataset = \"${DATASET:-c4}\"\ndataset_path = \"$DATA_PATH\"\n"
          "mixed_precision_param = \"bfloat16\"\nmixed_precision_reduce = \"float32\"\n\n",
          p->pp > 1 ? pz_launch_rounds(l) * p->mbs : p->mbs, p->batch, p->seq);
}

static void put_recompute(const struct pz_launch *l, FILE *out) {
  int r = l->plan.recompute;
  bool part = r == PZ_RECOMPUTATION_ALTERNATE || r == PZ_RECOMPUTATION_HALF;
  fprintf(out, "[activation_checkpoint]\nmode = \"%s\"\n",
          part                         ? "selective"
          : r == PZ_RECOMPUTATION_FULL ? "full"
                                       : "none");
  if (part)
    fprintf(out, "selective_ac_option = \"%s\"\n", r == PZ_RECOMPUTATION_ALTERNATE ? "op" : "2");
  fprintf(out, "\n[compile]\nenable = %s\ncomponents = [\"model\", \"loss\"]\n\n",
          l->plan.execution == PZ_EXECUTION_COMPILE ? "true" : "false");
}

static void put_config(const struct pz_launch *l, FILE *out) {
  bool fp8 = l->plan.precision == PZ_PRECISION_FP8;
  fprintf(out,
          "cat > \"$RUN_PATH/plan.toml\" <<EOF\n"
          "[job]\ndump_folder = \"$CHECKPOINT_PATH\"\n\n"
          "[model]\nname = \"phaze\"\nflavor = \"plan\"\nhf_assets_path = \"$TOKENIZER\"\n%s\n"
          "[experimental]\ncustom_import = \"phaze_model\"\n\n"
          "[optimizer]\nname = \"AdamW\"\nlr = ${LR:-1e-4}\n\n"
          "[lr_scheduler]\nwarmup_steps = ${WARMUP_STEPS:-100}\n\n",
          fp8 ? "converters = [\"quantize.linear.float8\"]\n" : "");
  if (fp8) fputs("[quantize.linear.float8]\nfilter_fqns = [\"output\"]\n\n", out);
  put_training(l, out);
  put_parallel(l, out);
  put_recompute(l, out);
  fputs("[checkpoint]\nenable = true\nfolder = \"checkpoint\"\ninterval = 1000\n\n"
        "[metrics]\nlog_freq = 1\nEOF\n\n",
        out);
}

static void print(const struct pz_launch *l, FILE *out) {
  pz_launch_head(l, "torchtitan 0.2.2", out);
  pz_launch_need(out, "TORCHTITAN_PATH", "the folder of torchtitan at its tag v0.2.2");
  pz_launch_need(out, "DATA_PATH", "the folder of the data set DATASET (c4 by default)");
  pz_launch_need(out, "TOKENIZER", "a folder with a Hugging Face tokenizer");
  pz_launch_need(out, "CHECKPOINT_PATH", "a folder for checkpoints and logs");
  fputs("if [[ ! -e $TORCHTITAN_PATH/torchtitan/config/job_config.py ]]; then\n"
        "  echo \"$TORCHTITAN_PATH is not torchtitan 0.2, the last that reads TOML\" >&2\n"
        "  exit 1\nfi\n"
        "RUN_PATH=${RUN_PATH:-$(mktemp -d)}\n\n",
        out);
  put_module(l, out);
  put_config(l, out);
  fputs("export PYTHONPATH=$RUN_PATH:$TORCHTITAN_PATH${PYTHONPATH:+:$PYTHONPATH}\n"
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
        out);
  pz_launch_torchrun(l, out);
  fputs("  -m torchtitan.train --job.config_file \"$RUN_PATH/plan.toml\"\n", out);
}

const struct pz_launch_framework pz_launch_torchtitan = {"torchtitan", check, print};
