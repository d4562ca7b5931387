/* Writer of scripts for NeMo: a Python program for Megatron Bridge, which replaced NeMo 2's
 * recipes. pz_write_nemo_script() writes the shell part, and write_program() the Python part:
 * imports, the model, the distributed optimizer, training, and LoRA adapters.  bridge_program.c
 * reads such programs. */
#include <inttypes.h>

#include "launch/megatron_core.h"

/* Returns a truth value as Python spells it. */
static const char *python_truth(bool on) { return on ? "True" : "False"; }

/* Writes the model's provider and its fields. */
static void write_model_provider(const struct pz_launch *launch, FILE *out) {
  const struct pz_model_shape *shape = &launch->shape;
  bool is_nemotron = shape->family == PZ_SHAPE_NEMOTRON_H;
  const char *provider = is_nemotron ? "HybridModelProvider" : "GPTModelProvider";
  if (shape->kv_rank) provider = "MLAModelProvider";
  fprintf(out, "model = %s()\n", provider);
  if (is_nemotron) fputs("model.is_hybrid_model = True\n", out);
  if (shape->family == PZ_SHAPE_QWEN3_NEXT)
    fputs("model.transformer_layer_spec = "
          "get_transformer_block_with_experimental_attention_variant_spec\n"
          "model.hetereogenous_dist_checkpoint = True\n",
          out);
  else if (!is_nemotron && (shape->experts || shape->kv_rank))
    /* without this specification, all layers would have the same structure */
    fputs("model.transformer_layer_spec = lambda config, vp_stage=None: "
          "get_gpt_decoder_block_spec(\n"
          "    config, use_transformer_engine=True, vp_stage=vp_stage)\n",
          out);
  pz_core_write_model(launch, PZ_LAUNCH_BRIDGE, out);
  /* The prediction assumes fused kernels.  Megatron-LM's arguments and Bridge's own models turn
   * them on, but Bridge's plain classes do not (models/gpt_provider.py;
   * models/llama/llama_bridge.py; router and permutation in models/deepseek and the recipes).
   * Without the fused activation, act_precision has no effect
   * (megatron/core/transformer/mlp.py). */
  if (shape->gated || shape->bias) fputs("model.bias_activation_fusion = True\n", out);
  fputs("model.bias_dropout_fusion = True\n", out);
  if (shape->rotary_base > 0 && !shape->kv_rank) fputs("model.apply_rope_fusion = True\n", out);
  if (shape->experts)
    fputs("model.moe_permute_fusion = True\nmodel.moe_router_fusion = True\n", out);
  /* Bridge turns the overlap of shared experts on for nemotron_h.  Only the dispatcher alltoall
   * accepts it (megatron/core/transformer/transformer_config.py, moe_shared_expert_overlap), and it
   * is not predicted. */
  if (shape->shared_ffn) fputs("model.moe_shared_expert_overlap = False\n", out);
  pz_write_plan_field(launch, PZ_PLAN_SEQ, PZ_LAUNCH_BRIDGE, out);
  fprintf(out,
          "model.vocab_size = %" PRId64 "\nmodel.should_pad_vocab = True\n"
          "model.make_vocab_size_divisible_by = 128\n\n",
          shape->vocab);
  pz_core_write_parallelism(launch, PZ_LAUNCH_BRIDGE, out);
  pz_core_write_recomputation(launch, PZ_LAUNCH_BRIDGE, out);
  if (launch->plan.execution == PZ_EXECUTION_GRAPH || launch->plan.cuda_graphs > 0)
    fputs("model.use_te_rng_tracker = True\n", out); /* CUDA graphs require this generator */
  if (launch->plan.zero > 1)
    fputs("model.gradient_accumulation_fusion = False\nmodel.init_model_with_meta_device = True\n",
          out);
  fputc('\n', out);
}

/* Writes the fields of 8-bit and 4-bit precision. */
static void write_precision(const struct pz_plan *plan, FILE *out) {
  const char *format = pz_core_fp8_format(plan);
  if (format)
    fprintf(out, "precision.fp8 = \"%s\"\nprecision.fp8_recipe = \"%s\"\n", format,
            pz_core_fp8_recipes[plan->fp8_recipe]);
  if (pz_plan_keeps_8bit_weights(plan)) fputs("precision.fp8_param_gather = True\n", out);
  if (pz_plan_keeps_8bit_weights(plan) && plan->fp8_recipe == PZ_FP8_MX)
    fputs("precision.reuse_grad_buf_for_mxfp8_param_ag = True\n", out);
  if (plan->precision == PZ_PRECISION_NVFP4)
    fputs("precision.fp4 = \"e2m1\"\nprecision.fp4_recipe = \"nvfp4\"\n", out);
  if (plan->bf16_layers || plan->bf16_first_layers)
    fprintf(out,
            "precision.first_last_layers_bf16 = True\n"
            "precision.num_layers_at_start_in_bf16 = %" PRId64 "\n"
            "precision.num_layers_at_end_in_bf16 = %" PRId64 "\n",
            plan->bf16_first_layers, plan->bf16_layers);
  if (plan->act_precision > 0) fputs("model.activation_func_fp8_input_store = True\n", out);
}

/* Writes the data set.  Adapters are trained on pairs of a prompt and a completion, padded to the
 * predicted sequence length, or on generated data.  With such pairs, context parallelism requires
 * the loss of each token (training/config.py, validate). */
static void write_dataset(const struct pz_launch *launch, FILE *out) {
  bool adapts = pz_plan_trains_adapters(&launch->plan);
  fputs("mock = os.environ.get(\"MOCK_DATA\") == \"1\"\n", out);
  fprintf(out,
          "dataset = GPTDatasetConfig(\n    random_seed=1234,\n    seq_length=%" PRId64
          ",\n    blend=None,\n    blend_per_split=None,\n"
          "    data_path=%s,\n    split=\"99,1,0\",\n"
          "    dataloader_type=\"single\",\n    reset_position_ids=False,\n"
          "    reset_attention_mask=False,\n    eod_mask_loss=False,\n)\n",
          launch->plan.seq, adapts ? "None" : "None if mock else os.environ[\"DATA_PATH\"]");
  if (adapts)
    fprintf(out,
            "if not mock:\n    dataset = GPTSFTDatasetConfig(\n        seq_length=%" PRId64
            ",\n        dataset_root=os.environ[\"DATA_PATH\"],\n"
            "        dataset_kwargs={\"pad_to_max_length\": True},\n"
            "        do_validation=False,\n        do_test=False,\n    )\n",
            launch->plan.seq);
  if (adapts && launch->plan.cp > 1)
    fputs("model.calculate_per_token_loss = True\nddp.average_in_collective = False\n", out);
  fprintf(out,
          "tokenizer = TokenizerConfig(\n"
          "    tokenizer_type=\"NullTokenizer\" if mock else \"HuggingFaceTokenizer\",\n"
          "    tokenizer_model=None if mock else os.environ[\"TOKENIZER\"],\n"
          "    vocab_size=%" PRId64 ",\n)\n\n",
          launch->shape.vocab);
}

/* Writes the distributed optimizer, precision, optimizer, steps, batch sizes, and the data set. */
static void write_training_config(const struct pz_launch *launch, FILE *out) {
  const struct pz_plan *plan = &launch->plan;
  fprintf(out,
          "ddp = DistributedDataParallelConfig(\n    use_distributed_optimizer=%s,\n"
          "    overlap_grad_reduce=%s,\n    overlap_param_gather=%s,\n"
          "    grad_reduce_in_fp32=%s,\n    num_distributed_optimizer_instances=%" PRId64 ",\n",
          python_truth(plan->zero > 0), python_truth(plan->overlap & PZ_OVERLAP_GRAD),
          python_truth(plan->overlap & PZ_OVERLAP_PARAM), python_truth(plan->grad_bytes == 4),
          plan->zero ? pz_plan_replicas(plan) / plan->shard : 1);
  if (plan->zero > 1)
    fprintf(out, "    use_megatron_fsdp=True,\n    data_parallel_sharding_strategy=\"%s\",\n",
            pz_core_strategies[plan->zero]);
  fputs(")\n\n", out);
  fprintf(out,
          "precision = get_mixed_precision_config(\"%s_mixed\")\n"
          "precision.grad_reduce_in_fp32 = %s\n",
          plan->precision == PZ_PRECISION_FP16 ? "fp16" : "bf16",
          python_truth(plan->grad_bytes == 4));
  write_precision(plan, out);
  fprintf(out,
          "\ntrain_iters = int(os.environ.get(\"TRAIN_ITERS\", \"1000\"))\n"
          "optimizer, scheduler = distributed_fused_adam_with_cosine_annealing(\n"
          "    lr_warmup_iters=train_iters // 100, lr_decay_iters=None,\n"
          "    max_lr=float(os.environ.get(\"LR\", \"1e-4\")), min_lr=1e-5,\n)\n"
          "optimizer.use_distributed_optimizer = %s\n",
          python_truth(plan->zero > 0));
  const char *moments = pz_core_moment_type(launch);
  const char *type = moments && *moments == 'b' ? "torch.bfloat16" : "torch.uint8";
  if (pz_core_is_precision_aware(launch))
    fputs("optimizer.use_precision_aware_optimizer = True\n", out);
  if (moments)
    fprintf(out, "optimizer.exp_avg_dtype = %s\noptimizer.exp_avg_sq_dtype = %s\n", type, type);
  if (plan->main_params == PZ_MAIN_FP16)
    fputs("optimizer.main_params_dtype = torch.float16\n", out);
  if (pz_plan_host_optimizer_fraction(plan) > 0)
    fprintf(out,
            "optimizer.optimizer_cpu_offload = True\noptimizer.optimizer_offload_fraction = %.10g\n"
            "optimizer.overlap_cpu_optimizer_d2h_h2d = True\n",
            pz_plan_host_optimizer_fraction(plan));
  fputc('\n', out);
  fprintf(out,
          "train = TrainingConfig(\n"
          "    train_iters=train_iters,\n"
          "    global_batch_size=%" PRId64 ",\n    micro_batch_size=%" PRId64 ",\n)\n\n",
          plan->batch, plan->mbs);
  write_dataset(launch, out);
}

/* Writes the LoRA adapters on one line, as bridge_program.c reads them; alpha is twice the rank,
 * as in recipes of fine-tuning. */
static void write_lora(const struct pz_launch *launch, FILE *out) {
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
  if (!pz_plan_trains_adapters(&launch->plan) ||
      pz_lora_parse(launch->plan.peft, &lora, NULL) != PZ_OK)
    return;
  /* remove adapters of layers that the model does not have */
  if (!launch->shape.kv_rank) lora.modules &= ~LATENT;
  if (launch->shape.kv_rank && lora.modules & PZ_LORA_QUERY)
    lora.modules &= ~(PZ_LORA_KEY | PZ_LORA_VALUE);
  if (launch->shape.kv_rank && launch->shape.q_rank) lora.modules &= ~PZ_LORA_QUERY;
  if (!launch->shape.recurrence.heads) lora.modules &= ~(PZ_LORA_SSM_IN | PZ_LORA_SSM_OUT);
  fputs("peft = LoRA(target_modules=[", out);
  /* a layer that joins several modules is named if all of them have adapters */
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
    if ((lora.modules & layers[i].modules) != layers[i].modules) continue;
    lora.modules &= ~layers[i].modules;
    fprintf(out, "%s\"%s\"", comma, layers[i].name);
    comma = ", ";
  }
  fprintf(out, "], dim=%" PRId64 ", alpha=%" PRId64 ", dropout=%.10g)\n\n", lora.rank,
          2 * lora.rank, lora.dropout);
}

/* Writes a here-document with the Python program that trains the model. */
static void write_program(const struct pz_launch *launch, FILE *out) {
  bool adapts = pz_plan_trains_adapters(&launch->plan);
  bool uses_graphs = launch->plan.execution == PZ_EXECUTION_GRAPH || launch->plan.cuda_graphs > 0;
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
  if (launch->shape.kv_rank)
    fputs("from megatron.bridge.models.mla_provider import MLAModelProvider\n", out);
  if (launch->shape.family == PZ_SHAPE_NEMOTRON_H)
    fputs("from megatron.bridge.models.hybrid.hybrid_provider import HybridModelProvider\n"
          "from megatron.core.activations import squared_relu\n",
          out);
  if (launch->shape.family == PZ_SHAPE_QWEN3_NEXT)
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
  write_model_provider(launch, out);
  write_training_config(launch, out);
  write_lora(launch, out);
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
          launch->plan.zero > 1 ? "fsdp_dtensor" : "torch_dist", python_truth(uses_graphs));
}

/* Writes the launch script of a job for Megatron Bridge (pz_script_writer). */
void pz_write_nemo_script(const struct pz_launch *launch, FILE *out) {
  pz_write_script_head(launch, "NeMo's Megatron Bridge (0.6 to 0.7)", out);
  pz_write_required_variable(out, "CHECKPOINT_PATH", "a folder for checkpoints");
  if (pz_plan_trains_adapters(&launch->plan))
    pz_write_required_variable(out, "PRETRAINED_CHECKPOINT",
                               "weights of the model, a checkpoint of Megatron Core");
  fprintf(out,
          "if [[ ${MOCK_DATA:-0} != 1 ]]; then\n"
          "  : \"${DATA_PATH:?set it to %s, or MOCK_DATA to 1}\"\n"
          "  : \"${TOKENIZER:?set it to a Hugging Face tokenizer, or MOCK_DATA to 1}\"\nfi\n"
          "RUN_PATH=${RUN_PATH:-$(mktemp -d)}\n"
          "export CHECKPOINT_PATH DATA_PATH TOKENIZER MOCK_DATA\n",
          pz_plan_trains_adapters(&launch->plan)
              ? "a folder with training.jsonl, of input and output each"
              : "the prefix of a .bin and .idx data set");
  if (pz_plan_trains_adapters(&launch->plan)) fputs("export PRETRAINED_CHECKPOINT\n", out);
  pz_core_write_environment(launch, PZ_LAUNCH_BRIDGE, out);
  write_program(launch, out);
  pz_write_torchrun(launch, out);
  fputs("  \"$RUN_PATH/train.py\"\n", out);
}
