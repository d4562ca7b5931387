/* DeepSpeed: pretrain_gpt.py of Megatron-DeepSpeed with its arguments, and DeepSpeed's
 * configuration in JSON. */
#include <inttypes.h>
#include <string.h>

#include "launch/launch.h"
#include "place/training_options.h"

/* ---- what it refuses ------------------------------------------------------------------------ */

static enum pz_status check_shape(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_launch_shape *s = &l->shape;
  if (s->family != PZ_LAUNCH_GPT2 && s->family != PZ_LAUNCH_LLAMA)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed's Megatron has no model of the shape of %s (%s); accepted: gpt2, "
                   "llama",
                   l->model, pz_launch_family_names[s->family]);
  if (s->qkv_bias && !s->bias)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed's Megatron has no bias of query, key and value alone, as %s has; "
                   "accepted: biases in all linear layers or in none",
                   l->model);
  if (s->rotary_base == 0 && l->plan.seq > s->positions)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed with %" PRId64 " tokens: %s has %" PRId64
                   " learned positions; accepted: at most that",
                   l->plan.seq, l->model, s->positions);
  if (s->rotary_base != (double)(int64_t)s->rotary_base)
    return pz_fail(err, PZ_BAD_USE, "deepspeed with a rotary base of %g; accepted: whole numbers",
                   s->rotary_base);
  return PZ_OK;
}

static enum pz_status check_pipeline(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  bool zero_bubble = p->pipeline == PZ_PIPELINE_ZB_H1;
  if (p->vpp > 1 || (p->pp > 1 && p->pipeline != PZ_PIPELINE_1F1B && !zero_bubble))
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed has no %s order of the pipeline; accepted: 1f1b or zb-h1, with vpp 1",
                   pz_pipeline_names[p->pipeline]);
  if (p->pp > 1 && zero_bubble && p->sequence_parallel)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed's zb-h1 order has no sequence parallelism; accepted: none, or 1f1b");
  if (p->pp > 1 && p->zero > 1)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed refuses ZeRO stage %d with a pipeline; accepted: 0 or 1, or pp 1",
                   p->zero);
  if (!pz_launch_even(l))
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed divides %" PRId64 " layers evenly over %" PRId64
                   " stages; accepted: a number of stages that divides them",
                   l->shape.layers, p->pp);
  return PZ_OK;
}

static enum pz_status check_shards(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  if (p->cp > 1)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed's Megatron has no context parallelism; accepted: cp 1");
  if (p->precision != PZ_PRECISION_BF16)
    return pz_fail(err, PZ_BAD_USE, "deepspeed with precision %s; accepted: bf16",
                   pz_precision_names[p->precision]);
  if (p->zero && p->shard < p->dp)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed shards over all %" PRId64 " replicas; accepted: shard %" PRId64,
                   p->dp, p->dp);
  if (p->grad_bytes != 2 && p->grad_bytes != 4)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed with gradients of %g bytes; accepted: 4 (fp32) or 2 (bf16)",
                   p->grad_bytes);
  return PZ_OK;
}

static enum pz_status check_overlap(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  if (p->overlap & PZ_OVERLAP_GRAD && p->dp > 1 && p->zero < 2)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed overlaps gradients in ZeRO stages 2 and 3 alone; accepted: those, or "
                   "an overlap without grad");
  if (p->overlap & PZ_OVERLAP_PARAM && (p->zero == 1 || p->zero == 2))
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed gathers weights beside compute in ZeRO stage 3 alone; accepted: "
                   "that, or an overlap without param");
  if (p->overlap & PZ_OVERLAP_TP && p->tp > 1)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed does not overlap tensor-parallel collectives; accepted: an overlap "
                   "without tp");
  if (p->overlap & PZ_OVERLAP_P2P && p->pp > 1)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed does not overlap transfers between stages; accepted: an overlap "
                   "without p2p");
  return PZ_OK;
}

static enum pz_status check_kernels(const struct pz_launch *l, struct pz_error *err) {
  const struct pz_training_options *p = &l->plan;
  const char *library = p->attention_library ? p->attention_library : "";
  if (p->execution != PZ_EXECUTION_EAGER)
    return pz_fail(err, PZ_BAD_USE, "deepspeed's Megatron has no execution '%s'; accepted: eager",
                   pz_execution_names[p->execution]);
  if (p->recompute > PZ_RECOMPUTATION_FULL)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed has no recomputation '%s'; accepted: none, selective, full",
                   pz_recomputation_names[p->recompute]);
  if (pz_options_modules(p) & ~(unsigned)PZ_MODULE_CORE)
    return pz_fail(
        err, PZ_BAD_USE,
        "deepspeed's Megatron recomputes no other module than core_attn; accepted: that, "
        "or recompute full");
  if (p->recompute_layers && p->pp > 1)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed's pipeline does not recompute a part of the layers of a stage "
                   "(recompute_layers %" PRId64 "); accepted: all of them, or pp 1",
                   p->recompute_layers);
  if (p->attention == PZ_ATTENTION_FLASH && *library && strcmp(library, "fa1") != 0 &&
      strcmp(library, "fa2") != 0)
    return pz_fail(err, PZ_BAD_USE,
                   "deepspeed has no attention kernels of %s; accepted: fa1, fa2, or none named",
                   library);
  return PZ_OK;
}

static enum pz_status check(const struct pz_launch *l, struct pz_error *err) {
  enum pz_status status = check_shape(l, err);
  if (status == PZ_OK) status = check_pipeline(l, err);
  if (status == PZ_OK) status = check_shards(l, err);
  if (status == PZ_OK) status = check_overlap(l, err);
  return status == PZ_OK ? check_kernels(l, err) : status;
}

/* ---- the arguments -------------------------------------------------------------------------- */

static void put(FILE *out, const char *flag, int64_t value) {
  fprintf(out, "  %s %" PRId64 "\n", flag, value);
}

static void put_if(FILE *out, bool on, const char *flags) {
  if (on) fprintf(out, "  %s\n", flags);
}

static void put_model(const struct pz_launch *l, FILE *out) {
  const struct pz_launch_shape *s = &l->shape;
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
  put_if(out, s->gated, "--swiglu");
  put_if(out, !s->bias, "--disable-bias-linear");
  put_if(out, !s->tied, "--untie-embeddings-and-output-weights");
  fprintf(out, "  --attention-dropout %.10g\n  --hidden-dropout %.10g\n",
          pz_launch_drop(l, s->drop_attention), pz_launch_drop(l, s->drop_hidden));
  fputs("  --no-query-key-layer-scaling\n", out);
  if (l->plan.attention == PZ_ATTENTION_FLASH)
    fprintf(out, "  --use-flash-attn-v%d\n", strcmp(l->plan.attention_library, "fa1") ? 2 : 1);
  fputs(")\n\n", out);
}

/* A pipeline of one stage is none: ZeRO stages 2 and 3 refuse even that. */
static void put_parallel(const struct pz_launch *l, FILE *out) {
  const struct pz_training_options *p = &l->plan;
  fputs("PARALLEL_ARGS=(\n", out);
  put(out, "--tensor-model-parallel-size", p->tp);
  put_if(out, p->sequence_parallel, "--sequence-parallel");
  put(out, "--pipeline-model-parallel-size", p->pp);
  put_if(out, p->pp == 1, "--no-pipeline-parallel");
  put_if(out, p->pp > 1 && p->pipeline == PZ_PIPELINE_ZB_H1, "--enable-zbh1-pipeline");
  put(out, "--zero-stage", p->zero);
  fputs("  --deepspeed\n  --deepspeed_config \"$RUN_PATH/deepspeed.json\"\n"
        "  --distributed-backend nccl\n)\n\n",
        out);
}

static void put_recompute(const struct pz_training_options *p, FILE *out) {
  if (p->recompute == PZ_RECOMPUTATION_SELECTIVE)
    fputs("  --recompute-granularity selective\n", out);
  if (p->recompute != PZ_RECOMPUTATION_FULL) return;
  fprintf(out,
          "  --deepspeed-activation-checkpointing\n  --recompute-granularity full\n"
          "  --recompute-method %s\n",
          p->recompute_layers ? "block" : "uniform");
  put(out, "--recompute-num-layers", p->recompute_layers ? p->recompute_layers : 1);
}

static void put_training(const struct pz_launch *l, FILE *out) {
  const struct pz_training_options *p = &l->plan;
  fputs("TRAINING_ARGS=(\n", out);
  put(out, "--micro-batch-size", p->mbs);
  put(out, "--global-batch-size", p->batch);
  put(out, "--seq-length", p->seq);
  fputs("  --train-iters \"${TRAIN_ITERS:-1000}\"\n"
        "  --lr \"${LR:-1e-4}\"\n  --min-lr \"${MIN_LR:-1e-5}\"\n  --lr-decay-style cosine\n"
        "  --weight-decay 0.1\n  --adam-beta2 0.95\n  --clip-grad 1.0\n  --bf16\n",
        out);
  put_recompute(p, out);
  fprintf(out,
          "  --data-path \"$DATA_PATH\"\n  --split '99,1,0'\n"
          "  --tokenizer-type HFTokenizer\n  --tokenizer-model \"$TOKENIZER\"\n"
          "  --vocab-size %" PRId64 "\n"
          "  --log-interval 1\n  --eval-iters 0\n"
          "  --save \"$CHECKPOINT_PATH\"\n  --load \"$CHECKPOINT_PATH\"\n  --save-interval 1000\n"
          ")\n\n",
          l->shape.vocab);
}

/* ---- the configuration ---------------------------------------------------------------------- */

static void put_config(const struct pz_launch *l, FILE *out) {
  const struct pz_training_options *p = &l->plan;
  bool overlap = p->zero > 1 && p->overlap & PZ_OVERLAP_GRAD;
  fprintf(out,
          "cat > \"$RUN_PATH/deepspeed.json\" <<'EOF'\n{\n"
          "  \"train_batch_size\": %" PRId64 ",\n  \"train_micro_batch_size_per_gpu\": %" PRId64
          ",\n  \"gradient_accumulation_steps\": %" PRId64 ",\n  \"steps_per_print\": 10,\n"
          "  \"gradient_clipping\": 1.0,\n  \"communication_data_type\": \"%s\",\n"
          "  \"data_types\": {\"grad_accum_dtype\": \"fp32\"},\n  \"bf16\": {\"enabled\": true},\n"
          "  \"zero_optimization\": {\n    \"stage\": %d",
          p->batch, p->mbs, pz_launch_rounds(l), p->grad_bytes == 2 ? "bf16" : "fp32", p->zero);
  if (p->zero) fprintf(out, ",\n    \"overlap_comm\": %s", overlap ? "true" : "false");
  if (p->zero == 3 && !(p->overlap & PZ_OVERLAP_PARAM))
    fputs(",\n    \"stage3_prefetch_bucket_size\": 0", out);
  fputs("\n  }\n}\nEOF\n\n", out);
}

static void print(const struct pz_launch *l, FILE *out) {
  pz_launch_head(l, "Megatron-DeepSpeed", out);
  pz_launch_need(out, "MEGATRON_DEEPSPEED_PATH", "the folder of Megatron-DeepSpeed");
  pz_launch_need(out, "DATA_PATH", "the prefix of a .bin and .idx data set");
  pz_launch_need(out, "TOKENIZER", "a Hugging Face tokenizer");
  pz_launch_need(out, "CHECKPOINT_PATH", "a folder for checkpoints");
  fputs("RUN_PATH=${RUN_PATH:-$(mktemp -d)}\nexport "
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

const struct pz_launch_framework pz_launch_deepspeed = {"deepspeed", check, print};
