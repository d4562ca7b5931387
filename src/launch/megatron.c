/* Megatron-LM: pretrain_gpt.py, or pretrain_hybrid.py, with its arguments. */
#include <inttypes.h>

#include "launch/megatron_core.h"

static void put_plan(const struct pz_launch *l, enum pz_plan_field f, FILE *out) {
  pz_launch_number(l, f, PZ_LAUNCH_MEGATRON, "  ", " ", out);
}

static void put_sharding(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  const char *moments = pz_core_moments(l);
  pz_launch_words(out, p->zero > 0, "--use-distributed-optimizer");
  pz_launch_words(out, pz_core_is_aware(l), "--use-precision-aware-optimizer");
  if (moments) fprintf(out, "  --exp-avg-dtype %s\n  --exp-avg-sq-dtype %s\n", moments, moments);
  pz_launch_words(out, p->main_params == PZ_MAIN_FP16, "--main-params-dtype fp16");
  if (pz_plan_away(p) > 0)
    fprintf(out,
            "  --optimizer-cpu-offload\n  --optimizer-offload-fraction %.10g\n"
            "  --overlap-cpu-optimizer-d2h-h2d\n",
            pz_plan_away(p));
  if (p->zero > 1)
    fprintf(out,
            "  --use-megatron-fsdp\n  --data-parallel-sharding-strategy %s\n"
            "  --no-gradient-accumulation-fusion\n  --init-model-with-meta-device\n"
            "  --ckpt-format fsdp_dtensor\n",
            pz_core_strategies[p->zero]);
  if (p->zero && p->shard < pz_plan_replicas(p))
    fprintf(out, "  --num-distributed-optimizer-instances %" PRId64 "\n",
            pz_plan_replicas(p) / p->shard);
  pz_launch_words(out, pz_plan_overlaps(p, PZ_OVERLAP_GRAD), "--overlap-grad-reduce");
  pz_launch_words(out, pz_plan_overlaps(p, PZ_OVERLAP_PARAM), "--overlap-param-gather");
}

static void put_training(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *p = &l->plan;
  fputs("TRAINING_ARGS=(\n", out);
  put_plan(l, PZ_PLAN_MBS, out);
  put_plan(l, PZ_PLAN_BATCH, out);
  put_plan(l, PZ_PLAN_SEQ, out);
  pz_launch_schedule(l, out);
  const char *format = pz_core_fp8_format(p);
  if (format)
    fprintf(out, "  --fp8-format %s\n  --fp8-recipe %s\n", format,
            pz_core_fp8_recipes[p->fp8_recipe]);
  pz_launch_words(out, p->precision == PZ_PRECISION_NVFP4,
                  "--fp4-format e2m1\n  --fp4-recipe nvfp4");
  if (pz_plan_wide_layers(p))
    fprintf(out,
            "  --first-last-layers-bf16\n  --num-layers-at-start-in-bf16 %" PRId64 "\n"
            "  --num-layers-at-end-in-bf16 %" PRId64 "\n",
            p->bf16_first_layers, p->bf16_layers);
  pz_launch_words(out, p->act_precision > 0, "--activation-func-fp8-input-store");
  pz_launch_words(out, true, "--make-vocab-size-divisible-by 128");
  pz_launch_words(out, p->grad_bytes == 2, "--grad-reduce-in-bf16");
  pz_core_recompute(l, PZ_LAUNCH_MEGATRON, out);
  /* From core 0.16 on it has no default, and training divides the iterations by it. */
  pz_launch_words(out, true, "--eval-interval 1000");
  pz_launch_saving(out);
}

static void put_data(const struct pz_launch *l, FILE *out) {
  fprintf(
      out,
      "if [[ ${MOCK_DATA:-0} == 1 ]]; then\n"
      "  DATA_ARGS=(--mock-data --tokenizer-type NullTokenizer --vocab-size %" PRId64 ")\n"
      "else\n"
      "  : \"${DATA_PATH:?set it to the prefix of a .bin and .idx data set, or MOCK_DATA to 1}\"\n"
      "  : \"${TOKENIZER:?set it to a Hugging Face tokenizer, or MOCK_DATA to 1}\"\n"
      "  DATA_ARGS=(--data-path \"$DATA_PATH\" --split '99,1,0'\n"
      "    --tokenizer-type HuggingFaceTokenizer --tokenizer-model \"$TOKENIZER\" --vocab-size "
      "%" PRId64 ")\n"
      "fi\n\n",
      l->shape.vocab, l->shape.vocab);
}

void pz_launch_megatron(const struct pz_launch *l, FILE *out) {
  pz_launch_head(l, "Megatron-LM", out);
  pz_launch_need(out, "MEGATRON_PATH", "the folder of Megatron-LM");
  pz_launch_need(out, "CHECKPOINT_PATH", "a folder for checkpoints");
  pz_core_environment(l, PZ_LAUNCH_MEGATRON, out);
  fputs("MODEL_ARGS=(\n", out);
  pz_core_model(l, PZ_LAUNCH_MEGATRON, out);
  fputs(")\n\nPARALLEL_ARGS=(\n", out);
  pz_core_parallel(l, PZ_LAUNCH_MEGATRON, out);
  put_sharding(l, out);
  fputs(")\n\n", out);
  put_training(l, out);
  put_data(l, out);
  pz_launch_torchrun(l, out);
  fprintf(out, "  \"$MEGATRON_PATH/pretrain_%s.py\" \\\n",
          l->shape.family == PZ_SHAPE_NEMOTRON_H ? "hybrid" : "gpt");
  fputs("  \"${MODEL_ARGS[@]}\" \"${PARALLEL_ARGS[@]}\" \"${TRAINING_ARGS[@]}\" "
        "\"${DATA_ARGS[@]}\"\n",
        out);
}
