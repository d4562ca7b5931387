/* NeMo: a program for Megatron Bridge, which took the place of NeMo 2's recipes. */
#include <inttypes.h>

#include "launch/megatron_core.h"

static const char *truth(bool on) { return on ? "True" : "False"; }

/* CUDA graphs of anything, which need a random state of their own. */
static bool captures(const struct pz_plan *p) {
  return p->execution == PZ_EXECUTION_GRAPH || p->cuda_graphs > 0;
}

/* Fused kernels, as predicted: Megatron-LM's arguments and Bridge's own models have them, its bare classes have not
 * (models/gpt_provider.py; models/llama/llama_bridge.py; router and permutation in models/deepseek and the recipes).
 * Without the activation's act_precision has no effect (megatron/core/transformer/mlp.py).  Shared experts
 * beside the dispatcher, as Bridge gives them to nemotron_h, refuse every dispatcher but alltoall
 * (megatron/core/transformer/transformer_config.py, moe_shared_expert_overlap), and are not predicted. */
static void put_fusions(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  if (s->gated || s->bias) fputs("model.bias_activation_fusion = True\n", out);
  fputs("model.bias_dropout_fusion = True\n", out);
  if (s->rotary_base > 0 && !s->kv_rank) fputs("model.apply_rope_fusion = True\n", out);
  if (s->experts) fputs("model.moe_permute_fusion = True\nmodel.moe_router_fusion = True\n", out);
  if (s->shared_ffn) fputs("model.moe_shared_expert_overlap = False\n", out);
}

static void put_model(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  fprintf(out, "model = %s()\n",
          s->kv_rank                         ? "MLAModelProvider"
          : s->family == PZ_SHAPE_NEMOTRON_H ? "HybridModelProvider"
                                             : "GPTModelProvider");
  if (s->family == PZ_SHAPE_NEMOTRON_H) fputs("model.is_hybrid_model = True\n", out);
  if (s->family == PZ_SHAPE_QWEN3_NEXT)
    fputs("model.transformer_layer_spec = "
          "get_transformer_block_with_experimental_attention_variant_spec\n"
          "model.hetereogenous_dist_checkpoint = True\n",
          out);
  else if (s->family != PZ_SHAPE_NEMOTRON_H && (s->experts || s->kv_rank))
    /* the default is one kind of layer for all */
    fputs("model.transformer_layer_spec = lambda config, vp_stage=None: "
          "get_gpt_decoder_block_spec(\n"
          "    config, use_transformer_engine=True, vp_stage=vp_stage)\n",
          out);
  pz_core_model(l, PZ_LAUNCH_BRIDGE, out);
  put_fusions(l, out);
  pz_launch_number(l, PZ_PLAN_SEQ, PZ_LAUNCH_BRIDGE, "model.", " = ", out);
  fprintf(out,
          "model.vocab_size = %" PRId64 "\nmodel.should_pad_vocab = True\n"
          "model.make_vocab_size_divisible_by = 128\n\n",
          s->vocab);
  pz_core_parallel(l, PZ_LAUNCH_BRIDGE, out);
  pz_core_recompute(l, PZ_LAUNCH_BRIDGE, out);
  if (captures(&l->plan)) fputs("model.use_te_rng_tracker = True\n", out);
  if (l->plan.zero > 1)
    fputs("model.gradient_accumulation_fusion = False\nmodel.init_model_with_meta_device = True\n",
          out);
  fputc('\n', out);
}

static void put_ddp(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  fprintf(out,
          "ddp = DistributedDataParallelConfig(\n    use_distributed_optimizer=%s,\n"
          "    overlap_grad_reduce=%s,\n    overlap_param_gather=%s,\n"
          "    grad_reduce_in_fp32=%s,\n    num_distributed_optimizer_instances=%" PRId64 ",\n",
          truth(p->zero > 0), truth(pz_plan_overlaps(&l->plan, PZ_OVERLAP_GRAD)),
          truth(pz_plan_overlaps(&l->plan, PZ_OVERLAP_PARAM)), truth(p->grad_bytes == 4),
          p->zero ? pz_plan_replicas(p) / p->shard : 1);
  if (p->zero > 1)
    fprintf(out, "    use_megatron_fsdp=True,\n    data_parallel_sharding_strategy=\"%s\",\n",
            pz_core_strategies[p->zero]);
  fputs(")\n\n", out);
}

static void put_precision(const struct pz_plan *p, FILE *out) {
  const char *format = pz_core_fp8_format(p);
  if (format)
    fprintf(out, "precision.fp8 = \"%s\"\nprecision.fp8_recipe = \"%s\"\n", format,
            pz_core_fp8_recipes[p->fp8_recipe]);
  if (pz_plan_8bit_weights(p)) fputs("precision.fp8_param_gather = True\n", out);
  if (pz_plan_8bit_weights(p) && p->fp8_recipe == PZ_FP8_MX)
    fputs("precision.reuse_grad_buf_for_mxfp8_param_ag = True\n", out);
  if (p->precision == PZ_PRECISION_NVFP4)
    fputs("precision.fp4 = \"e2m1\"\nprecision.fp4_recipe = \"nvfp4\"\n", out);
  if (pz_plan_wide_layers(p))
    fprintf(out,
            "precision.first_last_layers_bf16 = True\n"
            "precision.num_layers_at_start_in_bf16 = %" PRId64 "\n"
            "precision.num_layers_at_end_in_bf16 = %" PRId64 "\n",
            p->bf16_first_layers, p->bf16_layers);
  if (p->act_precision > 0) fputs("model.activation_func_fp8_input_store = True\n", out);
}

/* Adapters are trained on samples of prompt and completion, padded to the sequence length that is predicted; generated data
 * stand in for these too.  With them a context in parts needs the loss of each token (training/config.py, validate). */
static void put_data(const struct pz_launch *l, FILE *out) {
  bool adapts = pz_plan_adapts(&l->plan);
  fputs("mock = os.environ.get(\"MOCK_DATA\") == \"1\"\n", out);
  fprintf(out,
          "dataset = GPTDatasetConfig(\n    random_seed=1234,\n    seq_length=%" PRId64
          ",\n    blend=None,\n    blend_per_split=None,\n"
          "    data_path=%s,\n    split=\"99,1,0\",\n"
          "    dataloader_type=\"single\",\n    reset_position_ids=False,\n"
          "    reset_attention_mask=False,\n    eod_mask_loss=False,\n)\n",
          l->plan.seq, adapts ? "None" : "None if mock else os.environ[\"DATA_PATH\"]");
  if (adapts)
    fprintf(out,
            "if not mock:\n    dataset = GPTSFTDatasetConfig(\n        seq_length=%" PRId64
            ",\n        dataset_root=os.environ[\"DATA_PATH\"],\n"
            "        dataset_kwargs={\"pad_to_max_length\": True},\n"
            "        do_validation=False,\n        do_test=False,\n    )\n",
            l->plan.seq);
  if (adapts && l->plan.cp > 1)
    fputs("model.calculate_per_token_loss = True\nddp.average_in_collective = False\n", out);
  fprintf(out,
          "tokenizer = TokenizerConfig(\n"
          "    tokenizer_type=\"NullTokenizer\" if mock else \"HuggingFaceTokenizer\",\n"
          "    tokenizer_model=None if mock else os.environ[\"TOKENIZER\"],\n"
          "    vocab_size=%" PRId64 ",\n)\n\n",
          l->shape.vocab);
}

static void put_training(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  fprintf(out,
          "precision = get_mixed_precision_config(\"%s_mixed\")\n"
          "precision.grad_reduce_in_fp32 = %s\n",
          p->precision == PZ_PRECISION_FP16 ? "fp16" : "bf16", truth(p->grad_bytes == 4));
  put_precision(p, out);
  fprintf(out,
          "\ntrain_iters = int(os.environ.get(\"TRAIN_ITERS\", \"1000\"))\n"
          "optimizer, scheduler = distributed_fused_adam_with_cosine_annealing(\n"
          "    lr_warmup_iters=train_iters // 100, lr_decay_iters=None,\n"
          "    max_lr=float(os.environ.get(\"LR\", \"1e-4\")), min_lr=1e-5,\n)\n"
          "optimizer.use_distributed_optimizer = %s\n",
          truth(p->zero > 0));
  const char *moments = pz_core_moments(l);
  const char *type = !moments ? "" : *moments == 'b' ? "torch.bfloat16" : "torch.uint8";
  if (pz_core_is_aware(l)) fputs("optimizer.use_precision_aware_optimizer = True\n", out);
  if (moments)
    fprintf(out, "optimizer.exp_avg_dtype = %s\noptimizer.exp_avg_sq_dtype = %s\n", type, type);
  if (p->main_params == PZ_MAIN_FP16) fputs("optimizer.main_params_dtype = torch.float16\n", out);
  if (pz_plan_away(p) > 0)
    fprintf(out,
            "optimizer.optimizer_cpu_offload = True\noptimizer.optimizer_offload_fraction = %.10g\n"
            "optimizer.overlap_cpu_optimizer_d2h_h2d = True\n",
            pz_plan_away(p));
  fputc('\n', out);
  fprintf(out,
          "train = TrainingConfig(\n"
          "    train_iters=train_iters,\n"
          "    global_batch_size=%" PRId64 ",\n    micro_batch_size=%" PRId64 ",\n)\n\n",
          p->batch, p->mbs);
  put_data(l, out);
}

/* One line, which bridge_program.c reads.  alpha twice the rank, as in recipes of fine-tuning. */
static void put_adapters(const struct pz_launch *l, FILE *out) {
  static const struct {
    int modules;
    const char *name;
  } layers[] = {{PZ_LORA_QUERY | PZ_LORA_KEY | PZ_LORA_VALUE, "linear_qkv"},
                {PZ_LORA_OUT, "linear_proj"},
                {PZ_LORA_GATE | PZ_LORA_UP, "linear_fc1"},
                {PZ_LORA_DOWN, "linear_fc2"},
                {PZ_LORA_QUERY, "linear_q_proj"},
                {PZ_LORA_QUERY_DOWN, "linear_q_down_proj"},
                {PZ_LORA_QUERY_UP, "linear_q_up_proj"},
                {PZ_LORA_KV_DOWN, "linear_kv_down_proj"},
                {PZ_LORA_KV_UP, "linear_kv_up_proj"},
                {PZ_LORA_SSM_IN, "in_proj"},
                {PZ_LORA_SSM_OUT, "out_proj"}};
  enum { LATENT = PZ_LORA_QUERY_DOWN | PZ_LORA_QUERY_UP | PZ_LORA_KV_DOWN | PZ_LORA_KV_UP };
  const char *comma = "";
  struct pz_lora lora;
  if (!pz_plan_adapts(&l->plan) || pz_lora_parse(l->plan.peft, &lora, NULL) != PZ_OK) return;
  /* those that the model has */
  if (!l->shape.kv_rank) lora.modules &= ~LATENT;
  if (l->shape.kv_rank && lora.modules & PZ_LORA_QUERY)
    lora.modules &= ~(PZ_LORA_KEY | PZ_LORA_VALUE);
  if (l->shape.kv_rank && l->shape.q_rank) lora.modules &= ~PZ_LORA_QUERY;
  if (!l->shape.recurrence.heads) lora.modules &= ~(PZ_LORA_SSM_IN | PZ_LORA_SSM_OUT);
  fputs("peft = LoRA(target_modules=[", out);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    if ((lora.modules & layers[i].modules) != layers[i].modules) continue;
    lora.modules &= ~layers[i].modules;
    fprintf(out, "%s\"%s\"", comma, layers[i].name);
    comma = ", ";
  }
  fprintf(out, "], dim=%" PRId64 ", alpha=%" PRId64 ", dropout=%.10g)\n\n", lora.rank,
          2 * lora.rank, lora.dropout);
}

static void put_program(const struct pz_launch *l, FILE *out) {
  bool adapts = pz_plan_adapts(&l->plan);
  fputs("cat > \"$RUN_PATH/train.py\" <<'EOF'\n"
        "import os\nimport sys\n\nimport torch\nimport torch.nn.functional as F\n"
        "from megatron.bridge.package_info import __version__\n\n"
        "release = tuple(int(n) for n in __version__.split(\".\")[:2])\n"
        "if release < (0, 6):\n"
        "    sys.exit(f\"this script is for Megatron Bridge 0.6 or later, and this is "
        "{__version__}\")\n\n"
        "from megatron.core.models.gpt.gpt_layer_specs import get_gpt_decoder_block_spec\n"
        "from megatron.core.transformer.enums import AttnBackend\n\n"
        "from megatron.bridge.models.gpt_provider import GPTModelProvider\n",
        out);
  if (l->shape.kv_rank)
    fputs("from megatron.bridge.models.mla_provider import MLAModelProvider\n", out);
  if (l->shape.family == PZ_SHAPE_NEMOTRON_H)
    fputs("from megatron.bridge.models.hybrid.hybrid_provider import HybridModelProvider\n"
          "from megatron.core.activations import squared_relu\n",
          out);
  if (l->shape.family == PZ_SHAPE_QWEN3_NEXT)
    fputs("from megatron.core.models.gpt.experimental_attention_variant_module_specs import (\n"
          "    get_transformer_block_with_experimental_attention_variant_spec,\n)\n",
          out);
  fprintf(
      out,
      "%s%sfrom megatron.bridge.recipes.utils.optimizer_utils import (\n"
      "    distributed_fused_adam_with_cosine_annealing,\n)\n"
      "from megatron.bridge.training.config import (\n    CheckpointConfig,\n    ConfigContainer,\n"
      "    DistributedDataParallelConfig,\n    GPTDatasetConfig,\n    LoggerConfig,\n"
      "    RNGConfig,\n    TokenizerConfig,\n    TrainingConfig,\n    ValidationConfig,\n)\n"
      "from megatron.bridge.training.gpt_step import forward_step\n"
      "from megatron.bridge.training.mixed_precision import get_mixed_precision_config\n"
      "from megatron.bridge.training.%s\n\n",
      adapts ? "from megatron.bridge.data.builders.gpt_sft import GPTSFTDatasetConfig\n" : "",
      adapts ? "from megatron.bridge.peft.lora import LoRA\n" : "",
      adapts ? "finetune import finetune" : "pretrain import pretrain");
  put_model(l, out);
  put_ddp(l, out);
  put_training(l, out);
  put_adapters(l, out);
  fprintf(out,
          "%s(ConfigContainer(\n    model=model,\n    train=train,\n"
          "    validation=ValidationConfig(eval_interval=1000, eval_iters=0),\n"
          "    optimizer=optimizer,\n    scheduler=scheduler,\n    ddp=ddp,\n    dataset=dataset,\n"
          "    logger=LoggerConfig(log_interval=1),\n    tokenizer=tokenizer,\n"
          "%s    checkpoint=CheckpointConfig(\n%s        save=os.environ[\"CHECKPOINT_PATH\"],\n"
          "        load=os.environ[\"CHECKPOINT_PATH\"],\n        save_interval=1000,\n"
          "        ckpt_format=\"%s\",\n    ),\n    mixed_precision=precision,\n"
          "    rng=RNGConfig(te_rng_tracker=%s),\n), forward_step)\nEOF\n\n",
          adapts ? "finetune" : "pretrain", adapts ? "    peft=peft,\n" : "",
          adapts ? "        pretrained_checkpoint=os.environ[\"PRETRAINED_CHECKPOINT\"],\n" : "",
          l->plan.zero > 1 ? "fsdp_dtensor" : "torch_dist", truth(captures(&l->plan)));
}

void pz_launch_nemo(const struct pz_launch *l, FILE *out) {
  pz_launch_head(l, "NeMo's Megatron Bridge (0.6 to 0.7)", out);
  pz_launch_need(out, "CHECKPOINT_PATH", "a folder for checkpoints");
  if (pz_plan_adapts(&l->plan))
    pz_launch_need(out, "PRETRAINED_CHECKPOINT",
                   "weights of the model, a checkpoint of Megatron Core");
  fprintf(out,
          "if [[ ${MOCK_DATA:-0} != 1 ]]; then\n"
          "  : \"${DATA_PATH:?set it to %s, or MOCK_DATA to 1}\"\n"
          "  : \"${TOKENIZER:?set it to a Hugging Face tokenizer, or MOCK_DATA to 1}\"\nfi\n"
          "RUN_PATH=${RUN_PATH:-$(mktemp -d)}\n"
          "export CHECKPOINT_PATH DATA_PATH TOKENIZER MOCK_DATA\n",
          pz_plan_adapts(&l->plan) ? "a folder with training.jsonl, of input and output each"
                                   : "the prefix of a .bin and .idx data set");
  if (pz_plan_adapts(&l->plan)) fputs("export PRETRAINED_CHECKPOINT\n", out);
  pz_core_environment(l, PZ_LAUNCH_BRIDGE, out);
  put_program(l, out);
  pz_launch_torchrun(l, out);
  fputs("  \"$RUN_PATH/train.py\"\n", out);
}
