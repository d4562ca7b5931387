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
  pz_launch_words(out, true, "--make-vocab-size-divisible-by 128");
  pz_launch_words(out, p->grad_bytes == 2, "--grad-reduce-in-bf16");
  pz_core_recompute(l, PZ_LAUNCH_MEGATRON, out);
  /* It would be of tokens x tokens for every sample, and the kernels of causal attention need none. */
  pz_launch_words(out, true, "--no-create-attention-mask-in-dataloader");
  /* From core 0.16 on it has no default, and training divides the iterations by it. */
  pz_launch_words(out, true, "--eval-interval 1000");
  pz_launch_saving(out);
}

static void put_data(const struct pz_launch *l, FILE *out) {
  fprintf(
      out,
      "if [[ ${MOCK_DATA:-0} == 1 ]]; then\n"
      "  # before core 0.18 this tokenizer has a token more\n"
      "  DATA_ARGS=(--mock-data --tokenizer-type NullTokenizer --vocab-size %" PRId64 ")\n"
      "else\n"
      "  : \"${DATA_PATH:?set it to the prefix of a .bin and .idx data set, or MOCK_DATA to 1}\"\n"
      "  : \"${TOKENIZER:?set it to a Hugging Face tokenizer, or MOCK_DATA to 1}\"\n"
      "  DATA_ARGS=(--data-path \"$DATA_PATH\" --split '99,1,0'\n"
      "    --tokenizer-type HuggingFaceTokenizer --tokenizer-model \"$TOKENIZER\" --vocab-size "
      "%" PRId64 ")\n"
      "fi\n\n",
      l->shape.vocab - 1, l->shape.vocab);
}

/* Releases of Megatron Core, 0.least to 0.most, whose arguments the plan's are.  Sources: megatron/training/arguments.py of
 * each release (tests/data/launch_options.csv).  From 0.19 on it refuses Transformer Engine's loss. */
enum { OLDEST_CORE = 14, NEWEST_CORE = 20 };

struct releases {
  int least, most;
};

static struct releases releases_of(const struct pz_launch *l) {
  const struct pz_plan *p = &l->plan;
  const struct pz_model_shape *s = &l->shape;
  bool away = p->offload & PZ_OFFLOAD_ACTIVATIONS;
  bool hybridep = pz_plan_dispatcher(p) == PZ_DISPATCHER_HYBRIDEP && pz_plan_ep(p) > 1;
  const struct {
    bool has;
    int least;
  } needs[] = {{p->precision == PZ_PRECISION_NVFP4, 15},
               {p->precision == PZ_PRECISION_FP16 && s->experts, 16},
               {p->cuda_graphs > 0 || away || hybridep || s->kv_heads % p->tp, 16},
               {p->execution == PZ_EXECUTION_GRAPH && p->recompute != PZ_RECOMPUTATION_NONE, 16},
               {s->family == PZ_SHAPE_QWEN3_NEXT, p->cp > 1 ? 18 : 16},
               {s->family == PZ_SHAPE_NEMOTRON_H, 18},
               {away && p->offload_modules & PZ_AWAY_EXPERTS, 19}};
  struct releases r = {OLDEST_CORE, p->fused_loss ? 18 : NEWEST_CORE};
  for (size_t i = 0; i < sizeof needs / sizeof *needs; i++)
    if (needs[i].has && needs[i].least > r.least) r.least = needs[i].least;
  return r;
}

/* A script stops with releases that it is not for, and says where a release is newer than those that it was held against. */
static void put_release_check(struct releases r, FILE *out) {
  fprintf(
      out,
      "core=0\n"
      "if [[ $(cat \"$MEGATRON_PATH/megatron/core/package_info.py\") =~ MINOR\\ =\\ ([0-9]+) ]]; "
      "then core=${BASH_REMATCH[1]}; fi\n"
      "if ((core < %d",
      r.least);
  if (r.most < NEWEST_CORE) fprintf(out, " || core > %d", r.most);
  fprintf(
      out,
      ")); then\n"
      "  echo \"this script is for Megatron Core 0.%d to 0.%d, and $MEGATRON_PATH has 0.$core\" "
      ">&2\n"
      "  exit 1\n"
      "elif ((core > %d)); then\n"
      "  echo \"Megatron Core 0.$core is newer than 0.%d, the last that this script was held "
      "against\" >&2\nfi\n",
      r.least, r.most, NEWEST_CORE, NEWEST_CORE);
}

void pz_launch_megatron(const struct pz_launch *l, FILE *out) {
  struct releases r = releases_of(l);
  char name[60];
  snprintf(name, sizeof name, "Megatron-LM (core 0.%d to 0.%d)", r.least, r.most);
  pz_launch_head(l, name, out);
  pz_launch_need(out, "MEGATRON_PATH", "the folder of Megatron-LM");
  pz_launch_need(out, "CHECKPOINT_PATH", "a folder for checkpoints");
  put_release_check(r, out);
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
