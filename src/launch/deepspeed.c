/* Writer of scripts for DeepSpeed: pretrain_gpt.py of Megatron-DeepSpeed with its arguments, and
 * DeepSpeed's configuration in JSON.  pz_write_deepspeed_script() writes the environment, the
 * configuration, and the lists of arguments, in this order. */
#include <inttypes.h>
#include <string.h>

#include "launch/launch.h"

/* ---- the arguments -------------------------------------------------------------------------- */

/* Writes an argument with an integer value on a line of its own. */
static void write_integer(FILE *out, const char *flag, int64_t value) {
  fprintf(out, "  %s %" PRId64 "\n", flag, value);
}

/* Writes MODEL_ARGS, the list of arguments that describe the model's shape. */
static void write_model_arguments(const struct pz_launch *launch, FILE *out) {
  const struct pz_model_shape *shape = &launch->shape;
  bool has_dropout = pz_plan_framework(&launch->plan)->dropout;
  fputs("MODEL_ARGS=(\n", out);
  write_integer(out, "--num-layers", shape->layers);
  write_integer(out, "--hidden-size", shape->hidden);
  write_integer(out, "--ffn-hidden-size", shape->ffn);
  write_integer(out, "--num-attention-heads", shape->heads);
  write_integer(out, "--num-key-value-heads", shape->kv_heads);
  write_integer(out, "--kv-channels", shape->head_dim);
  write_integer(out, "--max-position-embeddings",
                shape->positions > launch->plan.seq ? shape->positions : launch->plan.seq);
  if (shape->rotary_base > 0) {
    fputs("  --use-rotary-position-embeddings\n", out);
    write_integer(out, "--rotary-position-embeddings-theta", (int64_t)shape->rotary_base);
  }
  fprintf(out, "  --normalization %s\n  --layernorm-epsilon %.10g\n",
          shape->gated ? "rmsnorm" : "layernorm", shape->norm_eps);
  pz_write_if(out, shape->gated, "--swiglu");
  pz_write_if(out, !shape->bias, "--disable-bias-linear");
  pz_write_if(out, !shape->tied, "--untie-embeddings-and-output-weights");
  fprintf(out, "  --attention-dropout %.10g\n  --hidden-dropout %.10g\n",
          has_dropout ? shape->drop_attention : 0, has_dropout ? shape->drop_hidden : 0);
  fputs("  --no-query-key-layer-scaling\n", out);
  if (launch->plan.attention == PZ_ATTENTION_FLASH)
    fprintf(out, "  --use-flash-attn-v%d\n", strcmp(launch->plan.attention_library, "fa1") ? 2 : 1);
  fputs(")\n\n", out);
}

/* Writes TRAINING_ARGS: batch, learning rate, recomputation, offloading, data and checkpoints. */
static void write_training_arguments(const struct pz_launch *launch, FILE *out) {
  const struct pz_plan *plan = &launch->plan;
  fputs("TRAINING_ARGS=(\n", out);
  pz_write_plan_field(launch, PZ_PLAN_MBS, PZ_LAUNCH_DEEPSPEED, out);
  pz_write_plan_field(launch, PZ_PLAN_BATCH, PZ_LAUNCH_DEEPSPEED, out);
  pz_write_plan_field(launch, PZ_PLAN_SEQ, PZ_LAUNCH_DEEPSPEED, out);
  pz_write_schedule_arguments(launch, out);
  pz_write_if(out, plan->recompute == PZ_RECOMPUTATION_SELECTIVE,
              "--recompute-granularity selective");
  if (plan->recompute == PZ_RECOMPUTATION_FULL) {
    fprintf(out,
            "  --deepspeed-activation-checkpointing\n  --recompute-granularity full\n"
            "  --recompute-method %s\n",
            plan->recompute_layers ? "block" : "uniform");
    write_integer(out, "--recompute-num-layers",
                  plan->recompute_layers ? plan->recompute_layers : 1);
    pz_write_if(out, plan->offload & PZ_OFFLOAD_ACTIVATIONS, "--checkpoint-in-cpu");
  }
  pz_write_if(out, pz_plan_host_optimizer_fraction(plan) > 0, "--cpu-optimizer");
  fprintf(out,
          "  --data-path \"$DATA_PATH\"\n  --split '99,1,0'\n"
          "  --tokenizer-type HFTokenizer\n  --tokenizer-model \"$TOKENIZER\"\n"
          "  --vocab-size %" PRId64 "\n  --make-vocab-size-divisible-by 128\n",
          launch->shape.vocab);
  pz_write_saving_arguments(out);
}

/* ---- the configuration ---------------------------------------------------------------------- */

/* Writes a here-document with DeepSpeed's configuration. */
static void write_deepspeed_config(const struct pz_launch *launch, FILE *out) {
  const struct pz_plan *plan = &launch->plan;
  const char *type_16bit = plan->precision == PZ_PRECISION_FP16 ? "fp16" : "bf16";
  bool overlap = plan->zero > 1 && plan->overlap & PZ_OVERLAP_GRAD;
  fprintf(out,
          "cat > \"$RUN_PATH/deepspeed.json\" <<'EOF'\n{\n"
          "  \"train_batch_size\": %" PRId64 ",\n  \"train_micro_batch_size_per_gpu\": %" PRId64
          ",\n  \"gradient_accumulation_steps\": %" PRId64 ",\n  \"steps_per_print\": 10,\n"
          "  \"gradient_clipping\": 1.0,\n  \"communication_data_type\": \"%s\",\n"
          "  \"data_types\": {\"grad_accum_dtype\": \"fp32\"},\n  \"%s\": {\"enabled\": true},\n"
          "  \"zero_optimization\": {\n    \"stage\": %d",
          plan->batch, plan->mbs, pz_plan_microbatches(&launch->plan),
          plan->grad_bytes == 2 ? type_16bit : "fp32", type_16bit, plan->zero);
  if (plan->zero) fprintf(out, ",\n    \"overlap_comm\": %s", overlap ? "true" : "false");
  if (plan->zero == 3) {
    /* The settings make ZeRO stage 3 run as it is predicted (step/step_price.c,
     * step/training_memory.c).  Weights are gathered layer by layer, with the next layer
     * prefetched if the plan overlaps parameter gathering, and once more for the backward pass
     * with its recomputation; gradients are scattered layer by layer.  By default DeepSpeed would
     * prefetch up to max_live_parameters, and would overlap gathering with compute only with
     * overlap_comm (runtime/zero/partitioned_param_coordinator.py, parameter_offload.py).
     * Vectors are not sharded, because a collective for each would cost more than their bytes. */
    const struct pz_model_shape *shape = &launch->shape;
    int64_t attention = 2 * (shape->heads + shape->kv_heads) * shape->head_dim;
    /* Parameters of a layer's matrices on one tensor-parallel rank: those of attention, and two of
     * the feed-forward part, or three if it is gated. */
    int64_t layer_parameters =
        shape->hidden * (attention + (shape->gated ? 3 : 2) * shape->ffn) / launch->plan.tp;
    bool prefetches = launch->plan.overlap & PZ_OVERLAP_PARAM;
    fprintf(out,
            ",\n    \"stage3_prefetch_bucket_size\": %" PRId64
            ",\n    \"stage3_max_live_parameters\": %" PRId64
            ",\n    \"stage3_max_reuse_distance\": %" PRId64
            ",\n    \"stage3_param_persistence_threshold\": %" PRId64
            ",\n    \"reduce_bucket_size\": %" PRId64,
            prefetches ? layer_parameters : 0, 2 * layer_parameters, 2 * layer_parameters,
            10 * shape->hidden, layer_parameters);
  }
  if (pz_plan_host_optimizer_fraction(plan) > 0)
    fputs(",\n    \"offload_optimizer\": {\"device\": \"cpu\", \"pin_memory\": true}", out);
  fputs("\n  }\n}\nEOF\n\n", out);
}

/* Writes the launch script of a job for Megatron-DeepSpeed (pz_script_writer). */
void pz_write_deepspeed_script(const struct pz_launch *launch, FILE *out) {
  pz_write_script_head(launch, "Megatron-DeepSpeed (DeepSpeed 0.17 to 0.19)", out);
  pz_write_required_variable(out, "MEGATRON_DEEPSPEED_PATH", "the folder of Megatron-DeepSpeed");
  pz_write_required_variable(out, "DATA_PATH", "the prefix of a .bin and .idx data set");
  pz_write_required_variable(out, "TOKENIZER", "a Hugging Face tokenizer");
  pz_write_required_variable(out, "CHECKPOINT_PATH", "a folder for checkpoints");
  /* pretrain_gpt.py imports modules that releases of DeepSpeed before 0.17 do not have */
  fputs("python3 - <<'EOF'\n"
        "import sys\nfrom importlib.metadata import version\n\n"
        "found = version(\"deepspeed\")\n"
        "if tuple(int(n) for n in found.split(\".\")[:2]) < (0, 17):\n"
        "    sys.exit(f\"this script is for DeepSpeed 0.17 or later, and this is {found}\")\nEOF\n"
        "RUN_PATH=${RUN_PATH:-$(mktemp -d)}\nexport "
        "CUDA_DEVICE_MAX_CONNECTIONS=${CUDA_DEVICE_MAX_CONNECTIONS:-1}\n\n",
        out);
  write_deepspeed_config(launch, out);
  write_model_arguments(launch, out);
  /* with one stage the pipeline is turned off: ZeRO stages 2 and 3 refuse to run with it */
  const struct pz_plan *plan = &launch->plan;
  fputs("PARALLEL_ARGS=(\n", out);
  pz_write_plan_field(launch, PZ_PLAN_TP, PZ_LAUNCH_DEEPSPEED, out);
  pz_write_if(out, plan->sp, "--sequence-parallel");
  pz_write_plan_field(launch, PZ_PLAN_PP, PZ_LAUNCH_DEEPSPEED, out);
  pz_write_if(out, plan->pp == 1, "--no-pipeline-parallel");
  pz_write_if(out, plan->pp > 1 && plan->pipeline == PZ_PIPELINE_ZB_H1, "--enable-zbh1-pipeline");
  pz_write_plan_field(launch, PZ_PLAN_ZERO, PZ_LAUNCH_DEEPSPEED, out);
  fputs("  --deepspeed\n  --deepspeed_config \"$RUN_PATH/deepspeed.json\"\n"
        "  --distributed-backend nccl\n)\n\n",
        out);
  write_training_arguments(launch, out);
  pz_write_torchrun(launch, out);
  fputs("  \"$MEGATRON_DEEPSPEED_PATH/pretrain_gpt.py\" \\\n"
        "  \"${MODEL_ARGS[@]}\" \"${PARALLEL_ARGS[@]}\" \"${TRAINING_ARGS[@]}\"\n",
        out);
}
