/* Writer of scripts for torchtitan 0.2.2, the last release that reads TOML.  A script creates a
 * configuration (write_job_config) and a Python module that registers the model's shape
 * (write_model_module), because a configuration can only name shapes that are registered.
 * torchtitan_config.c reads both. */
#include <inttypes.h>

#include "launch/launch.h"

/* PyTorch's names of pipeline schedules. */
static const char *const schedules[PZ_PIPELINES] = {[PZ_PIPELINE_1F1B] = "1F1B",
                                                    [PZ_PIPELINE_INTERLEAVED] = "Interleaved1F1B",
                                                    [PZ_PIPELINE_GPIPE] = "GPipe",
                                                    [PZ_PIPELINE_ZB_V] = "ZBVZeroBubble",
                                                    [PZ_PIPELINE_DUALPIPE_V] = "DualPipeV"};

/* ---- the model ------------------------------------------------------------------------------ */

/* Writes an integer argument of the model. */
static void write_keyword(FILE *out, const char *name, int64_t value) {
  fprintf(out, "    %s=%" PRId64 ",\n", name, value);
}

/* Writes the arguments that only Llama has.  torchtitan computes the feed-forward width as 8/3 of
 * the hidden size, times a factor, rounded up to a multiple.  The width itself is written as the
 * multiple, to which any smaller product is rounded up.  If 8/3 of the hidden size is larger, a
 * factor makes the product half of the width. */
static void write_llama_arguments(const struct pz_launch *launch, FILE *out) {
  const struct pz_model_shape *shape = &launch->shape;
  double factor = pz_shape_rope_factor(shape, launch->plan.seq);
  write_keyword(out, "n_kv_heads", shape->kv_heads);
  write_keyword(out, "multiple_of", shape->ffn);
  if (8 * shape->hidden / 3 > shape->ffn)
    fprintf(out, "    ffn_dim_multiplier=%.6g,\n",
            0.5 * (double)shape->ffn / (double)(8 * shape->hidden / 3));
  fprintf(out, "    rope_scaling_args=RoPEScalingArgs(scaling_factor=%.10g",
          factor > 0 ? factor : 1);
  if (shape->rope == PZ_ROPE_LLAMA3)
    fprintf(out,
            ", low_freq_factor=%.10g, high_freq_factor=%.10g,\n"
            "        original_max_position_embeddings=%.10g",
            shape->rope_low, shape->rope_high, shape->rope_original);
  fputs("),\n", out);
}

/* Writes the arguments of experts, which Qwen3 and DeepSeek-V3 share. */
static void write_moe_arguments(const struct pz_model_shape *shape, FILE *out) {
  bool is_deepseek = shape->family == PZ_SHAPE_DEEPSEEK_V3;
  write_keyword(out, "moe_inter_dim", shape->expert_ffn);
  fprintf(out,
          "    moe_args=MoEArgs(\n        num_experts=%" PRId64
          ",\n        num_shared_experts=%" PRId64 ",\n        top_k=%" PRId64
          ",\n        score_func=\"%s\",\n        route_norm=True,\n        route_scale=%.10g,\n"
          "        score_before_experts=False,\n",
          shape->experts, shape->shared_ffn / shape->expert_ffn, shape->topk,
          is_deepseek ? "sigmoid" : "softmax", shape->routed_scale);
  if (shape->groups > 1)
    fprintf(out,
            "        num_expert_groups=%" PRId64 ",\n        num_limited_groups=%" PRId64 ",\n",
            shape->groups, shape->group_topk);
  fputs("    ),\n", out);
}

/* Writes the arguments that only Qwen3 has. */
static void write_qwen_arguments(const struct pz_launch *launch, FILE *out) {
  const struct pz_model_shape *shape = &launch->shape;
  write_keyword(out, "n_kv_heads", shape->kv_heads);
  write_keyword(out, "head_dim", shape->head_dim);
  write_keyword(out, "hidden_dim", shape->ffn);
  fprintf(out, "    qk_norm=True,\n    enable_weight_tying=%s,\n", shape->tied ? "True" : "False");
  if (!shape->experts) return;
  fputs("    moe_enabled=True,\n", out);
  write_moe_arguments(shape, out);
}

/* Writes the arguments that only DeepSeek-V3 has. */
static void write_deepseek_arguments(const struct pz_launch *launch, FILE *out) {
  const struct pz_model_shape *shape = &launch->shape;
  write_keyword(out, "inter_dim", shape->ffn);
  write_keyword(out, "n_dense_layers", shape->dense_layers);
  write_moe_arguments(shape, out);
  write_keyword(out, "q_lora_rank", shape->q_rank);
  write_keyword(out, "kv_lora_rank", shape->kv_rank);
  write_keyword(out, "qk_nope_head_dim", shape->nope_dim);
  write_keyword(out, "qk_rope_head_dim", shape->rope_dim);
  write_keyword(out, "v_head_dim", shape->v_dim);
  if (shape->rope == PZ_ROPE_YARN)
    fprintf(out,
            "    original_seq_len=%.10g,\n    rope_factor=%.10g,\n    beta_fast=%.10g,\n"
            "    beta_slow=%.10g,\n    mscale=%.10g,\n",
            shape->rope_original, shape->rope_factor, shape->rope_fast, shape->rope_slow,
            shape->rope_mscale);
  else
    fputs("    rope_factor=1.0,\n", out); /* the default is 40 */
}

/* The Python package of each model family, its class of arguments, and their writer. */
static const struct package {
  const char *name, *arguments;
  void (*write)(const struct pz_launch *launch, FILE *out);
} packages[PZ_SHAPE_FAMILIES] = {
    [PZ_SHAPE_LLAMA] = {"llama3", "TransformerModelArgs", write_llama_arguments},
    [PZ_SHAPE_QWEN3] = {"qwen3", "Qwen3ModelArgs", write_qwen_arguments},
    [PZ_SHAPE_DEEPSEEK_V3] = {"deepseek_v3", "DeepSeekV3ModelArgs", write_deepseek_arguments}};

/* Writes a model converter in Python, which freezes the model and adds LoRA adapters in 16 bit to
 * the linear layers with these names.  It runs after the converter to 8 bit and derives from the
 * layers which that converter created, because torchao replaces every nn.Linear by its own layer
 * and loses what a subclass has added (torchao/float8/float8_linear_utils.py, swap_linear_layers;
 * torchao/prototype/mx_formats/mx_linear.py, MXLinear.from_float).  The converter's name is the
 * plan's text of the adapters, which torchtitan_config.c reads.  From the first checkpoint only the
 * model's own weights are loaded: dcp.load refuses keys that the checkpoint does not have, and
 * exclude_from_loading names whole states (torchtitan/components/checkpoint.py). */
static void write_adapter_converter(const struct pz_launch *launch, FILE *out) {
  static const struct {
    int module;
    const char *name;
  } layers[] = {
      {PZ_LORA_QUERY, "wq"},      {PZ_LORA_KEY, "wk"},          {PZ_LORA_VALUE, "wv"},
      {PZ_LORA_OUT, "wo"},        {PZ_LORA_GATE, "w1"},         {PZ_LORA_DOWN, "w2"},
      {PZ_LORA_UP, "w3"},         {PZ_LORA_QUERY_DOWN, "wq_a"}, {PZ_LORA_QUERY_UP, "wq_b"},
      {PZ_LORA_KV_DOWN, "wkv_a"}, {PZ_LORA_KV_UP, "wkv_b"}};
  struct pz_lora lora;
  if (!pz_plan_trains_adapters(&launch->plan) ||
      pz_lora_parse(launch->plan.peft, &lora, NULL) != PZ_OK)
    return;
  char input[80] = "x";
  if (lora.dropout > 0)
    snprintf(input, sizeof input, "nn.functional.dropout(x, %.10g, self.training)", lora.dropout);
  fputs("\n\nADAPTED = {", out);
  const char *comma = "";
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    if (lora.modules & layers[i].module) {
      fprintf(out, "%s\"%s\"", comma, layers[i].name);
      comma = ", ";
    }
  fprintf(out,
          "}\n\n\nclass Adapted:\n"
          "    def add_adapter(self):\n"
          "        kept = dict(bias=False, device=self.weight.device, dtype=self.weight.dtype)\n"
          "        self.lora_a = nn.Linear(self.in_features, %" PRId64 ", **kept)\n"
          "        self.lora_b = nn.Linear(%" PRId64 ", self.out_features, **kept)\n\n"
          "    def forward(self, x):\n"
          "        return super().forward(x) + 2.0 * self.lora_b(self.lora_a(%s))\n\n\n"
          "@functools.cache\n"
          "def adapted(linear):\n"
          "    return type(\"Adapted\" + linear.__name__, (Adapted, linear), {})\n\n\n"
          "class Adapters:\n"
          "    def __init__(self, job_config, parallel_dims):\n        pass\n\n"
          "    def convert(self, model):\n"
          "        model.requires_grad_(False)\n"
          "        for name, module in list(model.named_modules()):\n"
          "            if isinstance(module, nn.Linear) and name.rsplit(\".\", 1)[-1] in ADAPTED:\n"
          "                module.__class__ = adapted(type(module))\n"
          "                module.add_adapter()\n"
          "        init_weights = model.init_weights\n\n"
          "        def init(*args, **keywords):\n"
          "            init_weights(*args, **keywords)\n"
          "            for module in model.modules():\n"
          "                if isinstance(module, Adapted):\n"
          "                    nn.init.kaiming_uniform_(module.lora_a.weight, a=5**0.5)\n"
          "                    nn.init.zeros_(module.lora_b.weight)\n\n"
          "        model.init_weights = init\n\n"
          "    def post_optimizer_hook(self, model):\n        pass\n\n\n"
          "register_model_converter(Adapters, \"%s\")\n\n"
          "load_all = CheckpointManager.dcp_load\n\n\n"
          "def load_model(self, state_dict, checkpoint_id, **form):\n"
          "    if checkpoint_id == self.initial_load_path:  # adapters are not in it\n"
          "        state_dict = {k: v for k, v in state_dict.items() if \".lora_\" not in k}\n"
          "    load_all(self, state_dict, checkpoint_id, **form)\n\n\n"
          "CheckpointManager.dcp_load = load_model\n",
          lora.rank, lora.rank, input, launch->plan.peft);
}

/* Writes a here-document with a Python module that registers the model's shape as "phaze". */
static void write_model_module(const struct pz_launch *launch, FILE *out) {
  const struct pz_model_shape *shape = &launch->shape;
  const struct package *package = &packages[shape->family];
  bool adapts = pz_plan_trains_adapters(&launch->plan);
  fprintf(out,
          "cat > \"$RUN_PATH/phaze_model.py\" <<'EOF'\n"
          "%sfrom torchtitan.models.%s import get_train_spec\n"
          "from torchtitan.models.%s.model.args import %s%s\n",
          adapts ? "import functools\n\nfrom torch import nn\n"
                   "from torchtitan.components.checkpoint import CheckpointManager\n"
                 : "",
          package->name, package->name, shape->family == PZ_SHAPE_LLAMA ? "RoPEScalingArgs, " : "",
          package->arguments);
  if (shape->experts) fputs("from torchtitan.models.moe import MoEArgs\n", out);
  if (adapts)
    fputs("from torchtitan.protocols.model_converter import register_model_converter\n", out);
  fprintf(out,
          "from torchtitan.protocols.train_spec import register_train_spec\n\n"
          "spec = get_train_spec()\n"
          "spec.model_args = {\"plan\": %s(\n",
          package->arguments);
  write_keyword(out, "dim", shape->hidden);
  write_keyword(out, "n_layers", shape->layers);
  write_keyword(out, "n_heads", shape->heads);
  write_keyword(out, "vocab_size", shape->vocab);
  write_keyword(out, "max_seq_len",
                shape->positions > launch->plan.seq ? shape->positions : launch->plan.seq);
  fprintf(out, "    norm_eps=%.10g,\n    rope_theta=%.10g,\n", shape->norm_eps, shape->rotary_base);
  package->write(launch, out);
  fputs(")}\nregister_train_spec(\"phaze\", spec)\n", out);
  write_adapter_converter(launch, out);
  fputs("EOF\n\n", out);
}

/* ---- the configuration ---------------------------------------------------------------------- */

/* Writes the table of degrees of parallelism and of the pipeline schedule. */
static void write_parallelism(const struct pz_launch *launch, FILE *out) {
  const struct pz_plan *plan = &launch->plan;
  int64_t shard = plan->zero ? plan->shard / plan->cp : 1;
  fprintf(out,
          "[parallelism]\ndata_parallel_replicate_degree = %" PRId64
          "\ndata_parallel_shard_degree = %" PRId64 "\nfsdp_reshard_after_forward = \"%s\"\n"
          "tensor_parallel_degree = %" PRId64 "\nenable_async_tensor_parallel = %s\n"
          "pipeline_parallel_degree = %" PRId64 "\ncontext_parallel_degree = %" PRId64 "\n"
          "expert_parallel_degree = %" PRId64 "\n",
          plan->dp / shard, shard, plan->zero == 3 ? "always" : "never", plan->tp,
          plan->tp > 1 && plan->overlap & PZ_OVERLAP_TP ? "true" : "false", plan->pp, plan->cp,
          plan->ep);
  if (plan->ep > 1)
    fprintf(out, "expert_tensor_parallel_degree = %" PRId64 "\n", pz_plan_etp(plan));
  if (plan->pp > 1 && plan->pipeline == PZ_PIPELINE_DUALPIPE_V)
    fprintf(out, "pipeline_parallel_expert_parallel_overlap = %s\n",
            plan->ep > 1 && plan->overlap & PZ_OVERLAP_EP ? "true" : "false");
  if (plan->pp > 1) {
    fprintf(out,
            "pipeline_parallel_schedule = \"%s\"\npipeline_parallel_microbatch_size = %" PRId64
            "\n",
            schedules[plan->pipeline], plan->mbs);
    /* the names of the modules of each pipeline chunk */
    int64_t chunks = plan->pp * plan->vpp, layer = 0;
    fputs("module_fqns_per_model_part = [\n", out);
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      int64_t end = layer + pz_plan_chunk_layers(plan, launch->shape.layers, chunk);
      const char *comma = chunk ? "" : ", ";
      fputs(chunk ? "  [" : "  [\"tok_embeddings\"", out);
      for (; layer < end; layer++) {
        fprintf(out, "%s\"layers.%" PRId64 "\"", comma, layer);
        comma = ", ";
      }
      if (chunk == chunks - 1) fprintf(out, "%s\"norm\", \"output\"", comma);
      fputs("],\n", out);
    }
    fputs("]\n", out);
  }
  fputc('\n', out);
}

/* Writes a here-document with torchtitan's configuration. */
static void write_job_config(const struct pz_launch *launch, FILE *out) {
  const struct pz_plan *plan = &launch->plan;
  bool adapts = pz_plan_trains_adapters(plan), is_mx = plan->fp8_recipe == PZ_FP8_MX;
  const char *quantize = NULL;
  if (plan->precision == PZ_PRECISION_FP8) quantize = is_mx ? "mx" : "float8";
  fputs("cat > \"$RUN_PATH/plan.toml\" <<EOF\n"
        "[job]\ndump_folder = $(toml \"$CHECKPOINT_PATH\")\n\n"
        "[model]\nname = \"phaze\"\nflavor = \"plan\"\nhf_assets_path = $(toml \"$TOKENIZER\")\n",
        out);
  if (quantize && adapts)
    fprintf(out, "converters = [\"quantize.linear.%s\", \"%s\"]\n", quantize, plan->peft);
  else if (quantize)
    fprintf(out, "converters = [\"quantize.linear.%s\"]\n", quantize);
  else if (adapts)
    fprintf(out, "converters = [\"%s\"]\n", plan->peft);
  fputs("\n[experimental]\ncustom_import = \"phaze_model\"\n\n"
        "[optimizer]\nname = \"AdamW\"\nlr = ${LR:-1e-4}\n\n"
        "[lr_scheduler]\nwarmup_steps = ${WARMUP_STEPS:-100}\n\n",
        out);
  if (quantize)
    fprintf(out, "[quantize.linear.%s]\n%sfilter_fqns = [\"output\"]\n\n", quantize,
            is_mx ? "recipe_name = \"mxfp8_cublas\"\n" : "");
  /* With a pipeline, the local batch is split into microbatches.  Without one, the local batch is
   * one microbatch, and gradients are accumulated up to the global batch. */
  fprintf(out,
          "[training]\nlocal_batch_size = %" PRId64 "\nglobal_batch_size = %" PRId64
          "\nseq_len = %" PRId64 "\nsteps = ${TRAIN_STEPS:-1000}\nmax_norm = 1.0\n"
          "dataset = $(toml \"${DATASET:-c4}\")\ndataset_path = $(toml \"$DATA_PATH\")\n"
          "mixed_precision_param = \"bfloat16\"\nmixed_precision_reduce = \"float32\"\n\n",
          plan->pp > 1 ? pz_plan_microbatches(plan) * plan->mbs : plan->mbs, plan->batch,
          plan->seq);
  write_parallelism(launch, out);
  bool recomputes_operators = plan->recompute == PZ_RECOMPUTATION_ALTERNATE;
  bool is_selective = recomputes_operators || plan->recompute == PZ_RECOMPUTATION_HALF;
  const char *mode = plan->recompute == PZ_RECOMPUTATION_FULL ? "full" : "none";
  fprintf(out, "[activation_checkpoint]\nmode = \"%s\"\n", is_selective ? "selective" : mode);
  if (is_selective)
    fprintf(out, "selective_ac_option = \"%s\"\n", recomputes_operators ? "op" : "2");
  fprintf(out, "\n[compile]\nenable = %s\ncomponents = [\"model\", \"loss\"]\n\n",
          plan->execution == PZ_EXECUTION_COMPILE ? "true" : "false");
  fprintf(out,
          "[checkpoint]\nenable = true\nfolder = \"checkpoint\"\ninterval = 1000\n%s\n"
          "[metrics]\nlog_freq = 1\nEOF\n\n",
          adapts ? "initial_load_path = $(toml \"$PRETRAINED_CHECKPOINT\")\n" : "");
}

/* Writes the launch script of a job for torchtitan (pz_script_writer). */
void pz_write_torchtitan_script(const struct pz_launch *launch, FILE *out) {
  pz_write_script_head(launch, "torchtitan 0.2.2", out);
  pz_write_required_variable(out, "TORCHTITAN_PATH", "the folder of torchtitan at its tag v0.2.2");
  pz_write_required_variable(out, "DATA_PATH",
                             "the folder of the data set DATASET (c4 by default)");
  pz_write_required_variable(out, "TOKENIZER", "a folder with a Hugging Face tokenizer");
  pz_write_required_variable(out, "CHECKPOINT_PATH", "a folder for checkpoints and logs");
  if (pz_plan_trains_adapters(&launch->plan))
    pz_write_required_variable(out, "PRETRAINED_CHECKPOINT",
                               "weights of the model without adapters, a checkpoint of torchtitan");
  /* torchtitan 0.2.1 lacks the field that is searched for, and releases after 0.2.2 read no TOML */
  fputs("if ! grep -qs context_parallel_load_balancer "
        "\"$TORCHTITAN_PATH/torchtitan/config/job_config.py\"; then\n"
        "  echo \"this script is for torchtitan 0.2.2, and $TORCHTITAN_PATH is another version\" "
        ">&2\n"
        "  exit 1\nfi\n"
        "RUN_PATH=${RUN_PATH:-$(mktemp -d)}\n\n"
        "toml() { # a path as a string of TOML\n"
        "  local s=${1//\\\\/\"\\\\\\\\\"}\n"
        "  s=${s//\\\"/'\\\"'}\n"
        "  s=${s//$'\\n'/'\\n'}\n"
        "  printf '\"%s\"' \"$s\"\n"
        "}\n\n",
        out);
  write_model_module(launch, out);
  write_job_config(launch, out);
  fputs("export PYTHONPATH=$RUN_PATH:$TORCHTITAN_PATH${PYTHONPATH:+:$PYTHONPATH}\n"
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
        out);
  pz_write_torchrun(launch, out);
  fputs("  -m torchtitan.train --job.config_file \"$RUN_PATH/plan.toml\"\n", out);
}
