/* DeepSpeed: pretrain_gpt.py of Megatron-DeepSpeed with its arguments, and DeepSpeed's
 * configuration in JSON. */
#include <inttypes.h>
#include <string.h>

#include "launch/launch.h"

/* ---- the arguments -------------------------------------------------------------------------- */

static void put(FILE *out, const char *flag, int64_t value) {
  fprintf(out, "  %s %" PRId64 "\n", flag, value);
}

static void put_plan(const struct pz_launch *l, enum pz_plan_field f, FILE *out) {
  pz_launch_number(l, f, PZ_LAUNCH_DEEPSPEED, "  ", " ", out);
}

static void put_model(const struct pz_launch *l, FILE *out) {
  const struct pz_model_shape *s = &l->shape;
  fputs("MODEL_ARGS=(\n", out);
  put(out, "--num-layers", s->layers);
  put(out, "--hidden-size", s->hidden);
  put(out, "--ffn-hidden-size", s->ffn);
  put(out, "--num-attention-heads", s->heads);
  put(out, "--num-key-value-heads", s->kv_heads);
  put(out, "--kv-channels", s->head_dim);
  put(out, "--max-position-embeddings", s->positions > l->plan.seq ? s->positions : l->plan.seq);
  if (s->rotary_base > 0) {
    fputs("  --use-rotary-position-embeddings\n", out);
    put(out, "--rotary-position-embeddings-theta", (int64_t)s->rotary_base);
  }
  fprintf(out, "  --normalization %s\n  --layernorm-epsilon %.10g\n",
          s->gated ? "rmsnorm" : "layernorm", s->norm_eps);
  pz_launch_words(out, s->gated, "--swiglu");
  pz_launch_words(out, !s->bias, "--disable-bias-linear");
  pz_launch_words(out, !s->tied, "--untie-embeddings-and-output-weights");
  fprintf(out, "  --attention-dropout %.10g\n  --hidden-dropout %.10g\n",
          pz_launch_drop(l, s->drop_attention), pz_launch_drop(l, s->drop_hidden));
  fputs("  --no-query-key-layer-scaling\n", out);
  if (l->plan.attention == PZ_ATTENTION_FLASH)
    fprintf(out, "  --use-flash-attn-v%d\n", strcmp(l->plan.attention_library, "fa1") ? 2 : 1);
  fputs(")\n\n", out);
}

/* A pipeline of one stage is none: ZeRO stages 2 and 3 refuse even that. */
static void put_parallel(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  fputs("PARALLEL_ARGS=(\n", out);
  put_plan(l, PZ_PLAN_TP, out);
  pz_launch_words(out, p->sp, "--sequence-parallel");
  put_plan(l, PZ_PLAN_PP, out);
  pz_launch_words(out, p->pp == 1, "--no-pipeline-parallel");
  pz_launch_words(out, p->pp > 1 && p->pipeline == PZ_PIPELINE_ZB_H1, "--enable-zbh1-pipeline");
  put_plan(l, PZ_PLAN_ZERO, out);
  fputs("  --deepspeed\n  --deepspeed_config \"$RUN_PATH/deepspeed.json\"\n"
        "  --distributed-backend nccl\n)\n\n",
        out);
}

static void put_recompute(const struct pz_plan *p, FILE *out) {
  if (p->recompute == PZ_RECOMPUTATION_SELECTIVE)
    fputs("  --recompute-granularity selective\n", out);
  if (p->recompute != PZ_RECOMPUTATION_FULL) return;
  fprintf(out,
          "  --deepspeed-activation-checkpointing\n  --recompute-granularity full\n"
          "  --recompute-method %s\n",
          p->recompute_layers ? "block" : "uniform");
  put(out, "--recompute-num-layers", p->recompute_layers ? p->recompute_layers : 1);
  pz_launch_words(out, p->offload & PZ_OFFLOAD_ACTIVATIONS, "--checkpoint-in-cpu");
}

static void put_training(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  fputs("TRAINING_ARGS=(\n", out);
  put_plan(l, PZ_PLAN_MBS, out);
  put_plan(l, PZ_PLAN_BATCH, out);
  put_plan(l, PZ_PLAN_SEQ, out);
  pz_launch_schedule(l, out);
  put_recompute(p, out);
  pz_launch_words(out, pz_plan_away(p) > 0, "--cpu-optimizer");
  fprintf(out,
          "  --data-path \"$DATA_PATH\"\n  --split '99,1,0'\n"
          "  --tokenizer-type HFTokenizer\n  --tokenizer-model \"$TOKENIZER\"\n"
          "  --vocab-size %" PRId64 "\n  --make-vocab-size-divisible-by 128\n",
          l->shape.vocab);
  pz_launch_saving(out);
}

/* ---- the configuration ---------------------------------------------------------------------- */

/* Matrices of a layer on one device of a tensor-parallel group. */
static int64_t layer_params(const struct pz_launch *l) {
  const struct pz_model_shape *s = &l->shape;
  int64_t attention = 2 * (s->heads + s->kv_heads) * s->head_dim;
  return s->hidden * (attention + (s->gated ? 3 : 2) * s->ffn) / l->plan.tp;
}

/* Stage 3 as it is predicted (step/step_price.c, step/training_memory.c): weights are gathered layer by layer, the next one
 * beside the layer at hand where the plan overlaps param, and once for the backward pass with what it recomputes; gradients
 * are scattered layer by layer.  DeepSpeed would fetch ahead until max_live_parameters are there, and gathers beside compute
 * with overlap_comm alone (runtime/zero/partitioned_param_coordinator.py, parameter_offload.py).  Vectors stay whole, as a
 * collective each would cost more than their bytes. */
static void put_fetching(const struct pz_launch *l, FILE *out) {
  int64_t layer = layer_params(l);
  fprintf(out,
          ",\n    \"stage3_prefetch_bucket_size\": %" PRId64
          ",\n    \"stage3_max_live_parameters\": %" PRId64
          ",\n    \"stage3_max_reuse_distance\": %" PRId64
          ",\n    \"stage3_param_persistence_threshold\": %" PRId64
          ",\n    \"reduce_bucket_size\": %" PRId64,
          l->plan.overlap & PZ_OVERLAP_PARAM ? layer : 0, 2 * layer, 2 * layer,
          10 * l->shape.hidden, layer);
}

static void put_config(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  const char *half = p->precision == PZ_PRECISION_FP16 ? "fp16" : "bf16";
  bool overlap = p->zero > 1 && p->overlap & PZ_OVERLAP_GRAD;
  fprintf(out,
          "cat > \"$RUN_PATH/deepspeed.json\" <<'EOF'\n{\n"
          "  \"train_batch_size\": %" PRId64 ",\n  \"train_micro_batch_size_per_gpu\": %" PRId64
          ",\n  \"gradient_accumulation_steps\": %" PRId64 ",\n  \"steps_per_print\": 10,\n"
          "  \"gradient_clipping\": 1.0,\n  \"communication_data_type\": \"%s\",\n"
          "  \"data_types\": {\"grad_accum_dtype\": \"fp32\"},\n  \"%s\": {\"enabled\": true},\n"
          "  \"zero_optimization\": {\n    \"stage\": %d",
          p->batch, p->mbs, pz_plan_microbatches(&l->plan), p->grad_bytes == 2 ? half : "fp32",
          half, p->zero);
  if (p->zero) fprintf(out, ",\n    \"overlap_comm\": %s", overlap ? "true" : "false");
  if (p->zero == 3) put_fetching(l, out);
  if (pz_plan_away(p) > 0)
    fputs(",\n    \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}", out);
  fputs("\n  }\n}\nEOF\n\n", out);
}

void pz_launch_deepspeed(const struct pz_launch *l, FILE *out) {
  pz_launch_head(l, "Megatron-DeepSpeed (DeepSpeed 0.17 to 0.19)", out);
  pz_launch_need(out, "MEGATRON_DEEPSPEED_PATH", "the folder of Megatron-DeepSpeed");
  pz_launch_need(out, "DATA_PATH", "the prefix of a .bin and .idx data set");
  pz_launch_need(out, "TOKENIZER", "a Hugging Face tokenizer");
  pz_launch_need(out, "CHECKPOINT_PATH", "a folder for checkpoints");
  /* its pretrain_gpt.py imports modules that older releases have not */
  fputs("python3 - <<'EOF'\n"
        "import sys\nfrom importlib.metadata import version\n\n"
        "found = version(\"deepspeed\")\n"
        "if tuple(int(n) for n in found.split(\".\")[:2]) < (0, 17):\n"
        "    sys.exit(f\"this script is for DeepSpeed 0.17 or later, and this is {found}\")\nEOF\n"
        "RUN_PATH=${RUN_PATH:-$(mktemp -d)}\nexport "
        "CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}\n\n",
        out);
  put_config(l, out);
  put_model(l, out);
  put_parallel(l, out);
  put_training(l, out);
  pz_launch_torchrun(l, out);
  fputs("  \"$MEGATRON_DEEPSPEED_PATH/pretrain_gpt.py\" \\\n"
        "  \"${MODEL_ARGS[@]}\" \"${PARALLEL_ARGS[@]}\" \"${TRAINING_ARGS[@]}\"\n",
        out);
}
