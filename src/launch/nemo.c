/* NeMo: a program for Megatron Bridge, which took the place of NeMo 2's recipes. */
#include <inttypes.h>

#include "launch/megatron_core.h"

static void put(FILE *out, const char *field, int64_t value) {
  fprintf(out, "model.%s = %" PRId64 "\n", field, value);
}

static void put_plan(const struct pz_launch *l, enum pz_plan_field f, FILE *out) {
  pz_launch_number(l, f, PZ_LAUNCH_BRIDGE, "model.", " = ", out);
}

static const char *truth(bool on) { return on ? "True" : "False"; }

/* ---- the model ------------------------------------------------------------------------------ */

static void put_experts(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  bool v3 = s->family == PZ_SHAPE_DEEPSEEK_V3;
  put(out, "num_moe_experts", s->experts);
  put(out, "moe_router_topk", s->topk);
  put(out, "moe_ffn_hidden_size", s->expert_ffn);
  if (s->shared_ffn) put(out, "moe_shared_expert_intermediate_size", s->shared_ffn);
  fprintf(out, "model.moe_layer_freq = [0] * %" PRId64 " + [1] * %" PRId64 "\n", s->dense_layers,
          s->layers - s->dense_layers);
  fprintf(out,
          "model.moe_grouped_gemm = True\nmodel.moe_token_dispatcher_type = \"alltoall\"\n"
          "model.moe_router_load_balancing_type = \"%s\"\nmodel.moe_aux_loss_coeff = %s\n"
          "model.moe_router_pre_softmax = %s\n",
          v3 ? "seq_aux_loss" : "aux_loss", v3 ? "1e-4" : "1e-2", truth(v3 || s->topk == 1));
  if (v3)
    fprintf(out,
            "model.moe_router_score_function = \"sigmoid\"\n"
            "model.moe_router_enable_expert_bias = True\n"
            "model.moe_router_topk_scaling_factor = %.10g\n",
            s->routed_scale);
  if (s->groups > 1) {
    put(out, "moe_router_num_groups", s->groups);
    put(out, "moe_router_group_topk", s->group_topk);
  }
}

static void put_attention(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  put(out, "num_attention_heads", s->heads);
  if (s->kv_rank) {
    if (s->q_rank) put(out, "q_lora_rank", s->q_rank);
    put(out, "kv_lora_rank", s->kv_rank);
    put(out, "qk_head_dim", s->nope_dim);
    put(out, "qk_pos_emb_head_dim", s->rope_dim);
    put(out, "v_head_dim", s->v_dim);
    if (s->rope == PZ_ROPE_YARN)
      fprintf(out,
              "model.rope_type = \"yarn\"\nmodel.rotary_scaling_factor = %.10g\n"
              "model.original_max_position_embeddings = %.10g\nmodel.mscale = %.10g\n"
              "model.mscale_all_dim = %.10g\n",
              s->rope_factor, s->rope_original, s->rope_mscale, s->rope_mscale_all);
    else
      fputs("model.rope_type = \"rope\"\n", out);
    fputs("model.apply_rope_fusion = False\n", out);
  } else {
    put(out, "num_query_groups", s->kv_heads);
    put(out, "kv_channels", s->head_dim);
  }
  fprintf(out, "model.qk_layernorm = %s\nmodel.attention_backend = AttnBackend.%s\n",
          truth(s->qk_norm), pz_core_attention(l));
}

static void put_model(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  double factor = pz_shape_rope_factor(s, l->plan.seq);
  if (factor > 0) /* of this class it is a field in every version */
    fprintf(out, "model = Llama31ModelProvider(rope_scaling_factor=%.10g)\n", factor);
  else
    fprintf(out, "model = %s()\n", s->kv_rank ? "MLAModelProvider" : "GPTModelProvider");
  if (s->experts || s->kv_rank) /* the default is one kind of layer for all */
    fputs("model.transformer_layer_spec = lambda config, vp_stage=None: "
          "get_gpt_decoder_block_spec(\n"
          "    config, use_transformer_engine=True, vp_stage=vp_stage)\n",
          out);
  put(out, "num_layers", s->layers);
  put(out, "hidden_size", s->hidden);
  put(out, "ffn_hidden_size", s->ffn);
  put_attention(l, out);
  put_plan(l, PZ_PLAN_SEQ, out);
  put(out, "vocab_size", s->vocab);
  fputs("model.should_pad_vocab = True\n", out);
  if (s->rotary_base > 0) {
    fputs("model.position_embedding_type = \"rope\"\n", out);
    put(out, "rotary_base", (int64_t)s->rotary_base);
  } else {
    fputs("model.position_embedding_type = \"learned_absolute\"\n", out);
  }
  fprintf(out,
          "model.normalization = \"%s\"\nmodel.layernorm_epsilon = %.10g\n"
          "model.gated_linear_unit = %s\nmodel.activation_func = F.%s\n"
          "model.add_bias_linear = %s\nmodel.add_qkv_bias = %s\n"
          "model.share_embeddings_and_output_weights = %s\n"
          "model.attention_dropout = %.10g\nmodel.hidden_dropout = %.10g\n",
          s->gated ? "RMSNorm" : "LayerNorm", s->norm_eps, truth(s->gated),
          s->gated ? "silu" : "gelu", truth(s->bias), truth(s->qkv_bias), truth(s->tied),
          pz_launch_drop(l, s->drop_attention), pz_launch_drop(l, s->drop_hidden));
  if (s->experts) put_experts(l, out);
  if (pz_core_predict_layers(l)) put(out, "mtp_num_layers", pz_core_predict_layers(l));
  fputc('\n', out);
}

/* ---- the plan ------------------------------------------------------------------------------- */

static void put_division(const struct pz_launch *l, FILE *out) {
  enum pz_core_division d = pz_core_division(l);
  if (l->plan.vpp > 1) put_plan(l, PZ_PLAN_VPP, out);
  if (d == PZ_CORE_ENDS) {
    put_plan(l, PZ_PLAN_FIRST_LAYERS, out);
    put_plan(l, PZ_PLAN_LAST_LAYERS, out);
  }
  if (d == PZ_CORE_LAYERS)
    fputs("model.account_for_embedding_in_pipeline_split = True\n"
          "model.account_for_loss_in_pipeline_split = True\n",
          out);
  if (d != PZ_CORE_LAYOUT) return;
  fputs("model.pipeline_model_parallel_layout = \"", out);
  pz_core_layout(l, out);
  fputs("\"\n", out);
}

static void put_recompute(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  if (p->recompute == PZ_RECOMPUTATION_SELECTIVE) {
    fputs("model.recompute_granularity = \"selective\"\nmodel.recompute_modules = [", out);
    pz_core_modules(l, "\"", ", ", out);
    fputs("]\n", out);
  }
  if (p->recompute != PZ_RECOMPUTATION_FULL) return;
  fprintf(out, "model.recompute_granularity = \"full\"\nmodel.recompute_method = \"%s\"\n",
          p->recompute_layers ? "block" : "uniform");
  put(out, "recompute_num_layers", p->recompute_layers ? p->recompute_layers : 1);
}

static void put_parallel(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  bool p2p = pz_plan_overlaps(&l->plan, PZ_OVERLAP_P2P);
  put_plan(l, PZ_PLAN_TP, out);
  fprintf(out, "model.sequence_parallel = %s\n", truth(p->sp));
  put_plan(l, PZ_PLAN_PP, out);
  fputs("model.pipeline_dtype = torch.bfloat16\n", out);
  put_division(l, out);
  put_plan(l, PZ_PLAN_CP, out);
  if (p->cp > 1)
    fprintf(out, "model.cp_comm_type = \"%s\"\n",
            p->cp_form == PZ_CONTEXT_ALL_TO_ALL ? "a2a" : "p2p");
  if (l->shape.experts) {
    put_plan(l, PZ_PLAN_EP, out);
    put_plan(l, PZ_PLAN_ETP, out);
    fprintf(out, "model.overlap_moe_expert_parallel_comm = %s\n",
            truth(pz_plan_overlaps(&l->plan, PZ_OVERLAP_EP)));
  }
  fprintf(out,
          "model.tp_comm_overlap = %s\nmodel.overlap_p2p_comm = %s\nmodel.batch_p2p_comm = %s\n",
          truth(pz_plan_overlaps(&l->plan, PZ_OVERLAP_TP)), truth(p2p), truth(!p2p));
  put_recompute(l, out);
  if (p->execution == PZ_EXECUTION_GRAPH)
    fputs("model.cuda_graph_impl = \"local\"\nmodel.use_te_rng_tracker = True\n", out);
  if (pz_core_sharding(l))
    fputs("model.gradient_accumulation_fusion = False\nmodel.init_model_with_meta_device = True\n",
          out);
  fputc('\n', out);
}

static void put_ddp(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  const char *fsdp = pz_core_sharding(l);
  fprintf(out,
          "ddp = DistributedDataParallelConfig(\n    use_distributed_optimizer=%s,\n"
          "    overlap_grad_reduce=%s,\n    overlap_param_gather=%s,\n"
          "    grad_reduce_in_fp32=%s,\n    num_distributed_optimizer_instances=%" PRId64 ",\n",
          truth(p->zero > 0), truth(pz_plan_overlaps(&l->plan, PZ_OVERLAP_GRAD)),
          truth(pz_plan_overlaps(&l->plan, PZ_OVERLAP_PARAM)), truth(p->grad_bytes == 4),
          p->zero ? pz_plan_replicas(p) / p->shard : 1);
  if (fsdp)
    fprintf(out, "    use_megatron_fsdp=True,\n    data_parallel_sharding_strategy=\"%s\",\n",
            fsdp);
  fputs(")\n\n", out);
}

static void put_training(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  fprintf(out,
          "precision = get_mixed_precision_config(\"bf16_mixed\")\n"
          "precision.grad_reduce_in_fp32 = %s\n%s\n"
          "train_iters = int(os.environ.get(\"TRAIN_ITERS\", \"1000\"))\n"
          "optimizer, scheduler = distributed_fused_adam_with_cosine_annealing(\n"
          "    lr_warmup_iters=train_iters // 100, lr_decay_iters=None,\n"
          "    max_lr=float(os.environ.get(\"LR\", \"1e-4\")), min_lr=1e-5,\n)\n"
          "optimizer.use_distributed_optimizer = %s\n\n",
          truth(p->grad_bytes == 4),
          p->precision == PZ_PRECISION_FP8
              ? "precision.fp8 = \"hybrid\"\nprecision.fp8_recipe = \"tensorwise\"\n"
              : "",
          truth(p->zero > 0));
  fprintf(out,
          "train = TrainingConfig(\n"
          "    train_iters=train_iters,\n"
          "    global_batch_size=%" PRId64 ",\n    micro_batch_size=%" PRId64 ",\n)\n\n",
          p->batch, p->mbs);
  fprintf(out,
          "mock = os.environ.get(\"MOCK_DATA\") == \"1\"\n"
          "dataset = GPTDatasetConfig(\n    random_seed=1234,\n    seq_length=%" PRId64
          ",\n    blend=None,\n    blend_per_split=None,\n"
          "    data_path=None if mock else os.environ[\"DATA_PATH\"],\n    split=\"99,1,0\",\n"
          "    dataloader_type=\"single\",\n    reset_position_ids=False,\n"
          "    reset_attention_mask=False,\n    eod_mask_loss=False,\n)\n"
          "tokenizer = TokenizerConfig(\n"
          "    tokenizer_type=\"NullTokenizer\" if mock else \"HuggingFaceTokenizer\",\n"
          "    tokenizer_model=None if mock else os.environ[\"TOKENIZER\"],\n"
          "    vocab_size=%" PRId64 ",\n)\n\n",
          p->seq, l->shape.vocab);
}

static void put_program(const struct pz_launch *l, FILE *out) {
  fputs("cat > \"$RUN_PATH/train.py\" <<'EOF'\n"
        "import os\n\nimport torch\nimport torch.nn.functional as F\n"
        "from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec\n"
        "from megatron.core.transformer.enums import AttnBackend\n\n"
        "from megatron.bridge.models.gpt_provider import GPTModelProvider\n",
        out);
  if (l->shape.kv_rank)
    fputs("from megatron.bridge.models.mla_provider import MLAModelProvider\n", out);
  if (pz_shape_rope_factor(&l->shape, l->plan.seq) > 0)
    fputs("from megatron.bridge.models.llama.llama_provider import Llama31ModelProvider\n", out);
  fputs(
      "from megatron.bridge.recipes.utils.optimizer_utils import (\n"
      "    distributed_fused_adam_with_cosine_annealing,\n)\n"
      "from megatron.bridge.training.config import (\n    CheckpointConfig,\n    ConfigContainer,\n"
      "    DistributedDataParallelConfig,\n    GPTDatasetConfig,\n    LoggerConfig,\n"
      "    RNGConfig,\n    TokenizerConfig,\n    TrainingConfig,\n    ValidationConfig,\n)\n"
      "from megatron.bridge.training.gpt_step import forward_step\n"
      "from megatron.bridge.training.mixed_precision import get_mixed_precision_config\n"
      "from megatron.bridge.training.pretrain import pretrain\n\n",
      out);
  put_model(l, out);
  put_parallel(l, out);
  put_ddp(l, out);
  put_training(l, out);
  fprintf(out,
          "pretrain(ConfigContainer(\n    model=model,\n    train=train,\n"
          "    validation=ValidationConfig(eval_interval=1000, eval_iters=0),\n"
          "    optimizer=optimizer,\n    scheduler=scheduler,\n    ddp=ddp,\n    dataset=dataset,\n"
          "    logger=LoggerConfig(log_interval=1),\n    tokenizer=tokenizer,\n"
          "    checkpoint=CheckpointConfig(\n        save=os.environ[\"CHECKPOINT_PATH\"],\n"
          "        load=os.environ[\"CHECKPOINT_PATH\"],\n        save_interval=1000,\n"
          "        ckpt_format=\"%s\",\n    ),\n    mixed_precision=precision,\n"
          "    rng=RNGConfig(te_rng_tracker=%s),\n), forward_step)\nEOF\n\n",
          pz_core_sharding(l) ? "fsdp_dtensor" : "torch_dist",
          truth(l->plan.execution == PZ_EXECUTION_GRAPH));
}

void pz_launch_nemo(const struct pz_launch *l, FILE *out) {
  pz_launch_head(l, "NeMo's Megatron Bridge", out);
  pz_launch_need(out, "CHECKPOINT_PATH", "a folder for checkpoints");
  fputs(
      "if [[ ${MOCK_DATA:-0} != 1 ]]; then\n"
      "  : \"${DATA_PATH:?set it to the prefix of a .bin and .idx data set, or MOCK_DATA to 1}\"\n"
      "  : \"${TOKENIZER:?set it to a Hugging Face tokenizer, or MOCK_DATA to 1}\"\nfi\n"
      "RUN_PATH=${RUN_PATH:-$(mktemp -d)}\n"
      "export CHECKPOINT_PATH DATA_PATH TOKENIZER MOCK_DATA\n",
      out);
  pz_core_environment(l, out);
  put_program(l, out);
  pz_launch_torchrun(l, out);
  fputs("  \"$RUN_PATH/train.py\"\n", out);
}
