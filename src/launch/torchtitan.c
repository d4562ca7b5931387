/* torchtitan 0.2.2, the last release: a configuration in TOML, and a module that registers the
 * model's shape (its configurations name shapes of the package alone). */
#include <inttypes.h>

#include "launch/launch.h"

/* PyTorch's names of schedules. */
static const char *const orders[PZ_PIPELINES] = {[PZ_PIPELINE_1F1B] = "1F1B",
                                                 [PZ_PIPELINE_INTERLEAVED] = "Interleaved1F1B",
                                                 [PZ_PIPELINE_GPIPE] = "GPipe",
                                                 [PZ_PIPELINE_ZB_V] = "ZBVZeroBubble",
                                                 [PZ_PIPELINE_DUALPIPE_V] = "DualPipeV"};

/* ---- the model ------------------------------------------------------------------------------ */

static void put(FILE *out, const char *name, int64_t value) {
  fprintf(out, "    %s=%" PRId64 ",\n", name, value);
}

/* Its feed-forward width is 8/3 of the hidden one, times a factor, up to a multiple: the width
 * itself is the multiple, and the factor brings the product below it. */
static void put_llama(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  double factor = pz_shape_rope_factor(s, l->plan.seq);
  put(out, "n_kv_heads", s->kv_heads);
  put(out, "multiple_of", s->ffn);
  if (8 * s->hidden / 3 > s->ffn)
    fprintf(out, "    ffn_dim_multiplier=%.6g,\n",
            0.5 * (double)s->ffn / (double)(8 * s->hidden / 3));
  fprintf(out, "    rope_scaling_args=RoPEScalingArgs(scaling_factor=%.10g",
          factor > 0 ? factor : 1);
  if (s->rope == PZ_ROPE_LLAMA3)
    fprintf(out,
            ", low_freq_factor=%.10g, high_freq_factor=%.10g,\n"
            "        original_max_position_embeddings=%.10g",
            s->rope_low, s->rope_high, s->rope_original);
  fputs("),\n", out);
}

static void put_experts(const struct pz_model_shape *s, FILE *out) {
  bool v3 = s->family == PZ_SHAPE_DEEPSEEK_V3;
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

static void put_qwen(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  put(out, "n_kv_heads", s->kv_heads);
  put(out, "head_dim", s->head_dim);
  put(out, "hidden_dim", s->ffn);
  fprintf(out, "    qk_norm=True,\n    enable_weight_tying=%s,\n", s->tied ? "True" : "False");
  if (!s->experts) return;
  fputs("    moe_enabled=True,\n", out);
  put_experts(s, out);
}

static void put_deepseek(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  put(out, "inter_dim", s->ffn);
  put(out, "n_dense_layers", s->dense_layers);
  put_experts(s, out);
  put(out, "q_lora_rank", s->q_rank);
  put(out, "kv_lora_rank", s->kv_rank);
  put(out, "qk_nope_head_dim", s->nope_dim);
  put(out, "qk_rope_head_dim", s->rope_dim);
  put(out, "v_head_dim", s->v_dim);
  if (s->rope == PZ_ROPE_YARN)
    fprintf(out,
            "    original_seq_len=%.10g,\n    rope_factor=%.10g,\n    beta_fast=%.10g,\n"
            "    beta_slow=%.10g,\n    mscale=%.10g,\n",
            s->rope_original, s->rope_factor, s->rope_fast, s->rope_slow, s->rope_mscale);
  else
    fputs("    rope_factor=1.0,\n", out); /* its default is 40 */
}

/* The package of each family, the class of its arguments, and what is its own. */
static const struct package {
  const char *name, *arguments;
  void (*put)(const struct pz_launch *l, FILE *out);
} packages[PZ_SHAPE_FAMILIES] = {
    [PZ_SHAPE_LLAMA] = {"llama3", "TransformerModelArgs", put_llama},
    [PZ_SHAPE_QWEN3] = {"qwen3", "Qwen3ModelArgs", put_qwen},
    [PZ_SHAPE_DEEPSEEK_V3] = {"deepseek_v3", "DeepSeekV3ModelArgs", put_deepseek}};

/* A converter that freezes the model and gives linear layers of these names adapters, which stay in 16 bit.  It comes
 * after the converter to 8 bit and derives from the layers that this has made: torchao makes its own layer of whatever
 * is an nn.Linear, without what a subclass has added (torchao/float8/float8_linear_utils.py, swap_linear_layers;
 * torchao/prototype/mx_formats/mx_linear.py, MXLinear.from_float).  Its name is what the plan says: torchtitan_config.c
 * reads it.  Of the first checkpoint the model's own weights are loaded: dcp.load refuses keys that it does not have, and
 * exclude_from_loading names whole states alone (torchtitan/components/checkpoint.py). */
static void put_adapters(const struct pz_launch *l, FILE *out) {
  static const struct {
    int module;
    const char *name;
  } layers[] = {
      {PZ_LORA_QUERY, "wq"},      {PZ_LORA_KEY, "wk"},          {PZ_LORA_VALUE, "wv"},
      {PZ_LORA_OUT, "wo"},        {PZ_LORA_GATE, "w1"},         {PZ_LORA_DOWN, "w2"},
      {PZ_LORA_UP, "w3"},         {PZ_LORA_QUERY_DOWN, "wq_a"}, {PZ_LORA_QUERY_UP, "wq_b"},
      {PZ_LORA_KV_DOWN, "wkv_a"}, {PZ_LORA_KV_UP, "wkv_b"}};
  struct pz_lora lora;
  if (!pz_plan_adapts(&l->plan) || pz_lora_parse(l->plan.peft, &lora, NULL) != PZ_OK) return;
  char read[80] = "x";
  if (lora.dropout > 0)
    snprintf(read, sizeof read, "nn.functional.dropout(x, %.10g, self.training)", lora.dropout);
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
          lora.rank, lora.rank, read, l->plan.peft);
}

static void put_module(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  const struct package *k = &packages[s->family];
  bool adapts = pz_plan_adapts(&l->plan);
  fprintf(out,
          "cat > \"$RUN_PATH/phaze_model.py\" <<'EOF'\n"
          "%sfrom torchtitan.models.%s import get_train_spec\n"
          "from torchtitan.models.%s.model.args import %s%s\n",
          adapts ? "import functools\n\nfrom torch import nn\n"
                   "from torchtitan.components.checkpoint import CheckpointManager\n"
                 : "",
          k->name, k->name, s->family == PZ_SHAPE_LLAMA ? "RoPEScalingArgs, " : "", k->arguments);
  if (s->experts) fputs("from torchtitan.models.moe import MoEArgs\n", out);
  if (adapts)
    fputs("from torchtitan.protocols.model_converter import register_model_converter\n", out);
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
  k->put(l, out);
  fputs(")}\nregister_train_spec(\"phaze\", spec)\n", out);
  put_adapters(l, out);
  fputs("EOF\n\n", out);
}

/* ---- the configuration ---------------------------------------------------------------------- */

static void put_stages(const struct pz_launch *l, FILE *out) {
  int64_t n = l->plan.pp * l->plan.vpp, layer = 0;
  fputs("module_fqns_per_model_part = [\n", out);
  for (int64_t j = 0; j < n; j++) {
    const char *comma = "";
    fputs("  [", out);
    if (j == 0) fprintf(out, "\"tok_embeddings\""), comma = ", ";
    for (int64_t i = pz_plan_blocks(&l->plan, l->shape.layers, j); i > 0; i--, comma = ", ")
      fprintf(out, "%s\"layers.%" PRId64 "\"", comma, layer++);
    if (j == n - 1) fprintf(out, "%s\"norm\", \"output\"", comma);
    fputs("],\n", out);
  }
  fputs("]\n", out);
}

static void put_parallel(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  int64_t shard = p->zero ? p->shard / p->cp : 1;
  fprintf(out,
          "[parallelism]\ndata_parallel_replicate_degree = %" PRId64
          "\ndata_parallel_shard_degree = %" PRId64 "\nfsdp_reshard_after_forward = \"%s\"\n"
          "tensor_parallel_degree = %" PRId64 "\nenable_async_tensor_parallel = %s\n"
          "pipeline_parallel_degree = %" PRId64 "\ncontext_parallel_degree = %" PRId64 "\n"
          "expert_parallel_degree = %" PRId64 "\n",
          p->dp / shard, shard, p->zero == 3 ? "always" : "never", p->tp,
          p->tp > 1 && p->overlap & PZ_OVERLAP_TP ? "true" : "false", p->pp, p->cp, p->ep);
  if (p->ep > 1) fprintf(out, "expert_tensor_parallel_degree = %" PRId64 "\n", pz_plan_etp(p));
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
  const struct pz_plan *p = &l->plan;
  fprintf(out,
          "[training]\nlocal_batch_size = %" PRId64 "\nglobal_batch_size = %" PRId64
          "\nseq_len = %" PRId64 "\nsteps = ${TRAIN_STEPS:-1000}\nmax_norm = 1.0\n"
          "dataset = $(toml \"${DATASET:-c4}\")\ndataset_path = $(toml \"$DATA_PATH\")\n"
          "mixed_precision_param = \"bfloat16\"\nmixed_precision_reduce = \"float32\"\n\n",
          p->pp > 1 ? pz_plan_microbatches(&l->plan) * p->mbs : p->mbs, p->batch, p->seq);
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
  const char *quantize = l->plan.precision != PZ_PRECISION_FP8 ? NULL
                         : l->plan.fp8_recipe == PZ_FP8_MX     ? "mx"
                                                               : "float8";
  bool adapts = pz_plan_adapts(&l->plan);
  char converters[512] = "";
  if (quantize || adapts)
    snprintf(converters, sizeof converters, "converters = [%s%s%s%s%s%s]\n",
             quantize ? "\"quantize.linear." : "", quantize ? quantize : "", quantize ? "\"" : "",
             adapts ? (quantize ? ", \"" : "\"") : "", adapts ? l->plan.peft : "",
             adapts ? "\"" : "");
  fprintf(
      out,
      "cat > \"$RUN_PATH/plan.toml\" <<EOF\n"
      "[job]\ndump_folder = $(toml \"$CHECKPOINT_PATH\")\n\n"
      "[model]\nname = \"phaze\"\nflavor = \"plan\"\nhf_assets_path = $(toml \"$TOKENIZER\")\n%s\n"
      "[experimental]\ncustom_import = \"phaze_model\"\n\n"
      "[optimizer]\nname = \"AdamW\"\nlr = ${LR:-1e-4}\n\n"
      "[lr_scheduler]\nwarmup_steps = ${WARMUP_STEPS:-100}\n\n",
      converters);
  if (quantize)
    fprintf(out, "[quantize.linear.%s]\n%sfilter_fqns = [\"output\"]\n\n", quantize,
            *quantize == 'm' ? "recipe_name = \"mxfp8_cublas\"\n" : "");
  put_training(l, out);
  put_parallel(l, out);
  put_recompute(l, out);
  fprintf(out,
          "[checkpoint]\nenable = true\nfolder = \"checkpoint\"\ninterval = 1000\n%s\n"
          "[metrics]\nlog_freq = 1\nEOF\n\n",
          adapts ? "initial_load_path = $(toml \"$PRETRAINED_CHECKPOINT\")\n" : "");
}

void pz_launch_torchtitan(const struct pz_launch *l, FILE *out) {
  pz_launch_head(l, "torchtitan 0.2.2", out);
  pz_launch_need(out, "TORCHTITAN_PATH", "the folder of torchtitan at its tag v0.2.2");
  pz_launch_need(out, "DATA_PATH", "the folder of the data set DATASET (c4 by default)");
  pz_launch_need(out, "TOKENIZER", "a folder with a Hugging Face tokenizer");
  pz_launch_need(out, "CHECKPOINT_PATH", "a folder for checkpoints and logs");
  if (pz_plan_adapts(&l->plan))
    pz_launch_need(out, "PRETRAINED_CHECKPOINT",
                   "weights of the model without adapters, a checkpoint of torchtitan");
  /* a field that 0.2.2 has and 0.2.1 has not; later versions read no TOML */
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
  put_module(l, out);
  put_config(l, out);
  fputs("export PYTHONPATH=$RUN_PATH:$TORCHTITAN_PATH${PYTHONPATH:+:$PYTHONPATH}\n"
        "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n",
        out);
  pz_launch_torchrun(l, out);
  fputs("  -m torchtitan.train --job.config_file \"$RUN_PATH/plan.toml\"\n", out);
}
