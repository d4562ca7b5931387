/* Writer of scripts for Megatron-LM: pretrain_gpt.py, or pretrain_hybrid.py, with its arguments.
 *
 * pz_write_megatron_script() finds the releases of Megatron Core that have all arguments of the
 * plan (find_releases), writes a check of the installed release into the script, and then the lists
 * of arguments. Arguments that are also fields of Megatron Bridge are written by
 * megatron_core.c. */
#include <inttypes.h>

#include "launch/megatron_core.h"

/* Writes the arguments of the optimizer, its sharding, and the overlap of its collectives. */
static void write_optimizer_arguments(const struct pz_launch *launch, FILE *out) {
  const struct pz_plan *plan = &launch->plan;
  const char *moments = pz_core_moment_type(launch);
  pz_write_if(out, plan->zero > 0, "--use-distributed-optimizer");
  pz_write_if(out, pz_core_is_precision_aware(launch), "--use-precision-aware-optimizer");
  if (moments) fprintf(out, "  --exp-avg-dtype %s\n  --exp-avg-sq-dtype %s\n", moments, moments);
  pz_write_if(out, plan->main_params == PZ_MAIN_FP16, "--main-params-dtype fp16");
  if (pz_plan_host_optimizer_fraction(plan) > 0)
    fprintf(out,
            "  --optimizer-cpu-offload\n  --optimizer-offload-fraction %.10g\n"
            "  --overlap-cpu-optimizer-d2h-h2d\n",
            pz_plan_host_optimizer_fraction(plan));
  if (plan->zero > 1)
    fprintf(out,
            "  --use-megatron-fsdp\n  --data-parallel-sharding-strategy %s\n"
            "  --no-gradient-accumulation-fusion\n  --init-model-with-meta-device\n"
            "  --ckpt-format fsdp_dtensor\n",
            pz_core_strategies[plan->zero]);
  if (plan->zero && plan->shard < pz_plan_replicas(plan))
    fprintf(out, "  --num-distributed-optimizer-instances %" PRId64 "\n",
            pz_plan_replicas(plan) / plan->shard);
  pz_write_if(out, plan->overlap & PZ_OVERLAP_GRAD, "--overlap-grad-reduce");
  pz_write_if(out, plan->overlap & PZ_OVERLAP_PARAM, "--overlap-param-gather");
}

/* Writes TRAINING_ARGS: batch, learning rate, precision, recomputation and checkpoints. */
static void write_training_arguments(const struct pz_launch *launch, FILE *out) {
  const struct pz_plan *plan = &launch->plan;
  fputs("TRAINING_ARGS=(\n", out);
  pz_write_plan_field(launch, PZ_PLAN_MBS, PZ_LAUNCH_MEGATRON, out);
  pz_write_plan_field(launch, PZ_PLAN_BATCH, PZ_LAUNCH_MEGATRON, out);
  pz_write_plan_field(launch, PZ_PLAN_SEQ, PZ_LAUNCH_MEGATRON, out);
  pz_write_schedule_arguments(launch, out);
  const char *format = pz_core_fp8_format(plan);
  if (format)
    fprintf(out, "  --fp8-format %s\n  --fp8-recipe %s\n", format,
            pz_core_fp8_recipes[plan->fp8_recipe]);
  pz_write_if(out, plan->precision == PZ_PRECISION_NVFP4,
              "--fp4-format e2m1\n  --fp4-recipe nvfp4");
  if (plan->bf16_layers || plan->bf16_first_layers)
    fprintf(out,
            "  --first-last-layers-bf16\n  --num-layers-at-start-in-bf16 %" PRId64 "\n"
            "  --num-layers-at-end-in-bf16 %" PRId64 "\n",
            plan->bf16_first_layers, plan->bf16_layers);
  pz_write_if(out, true, "--make-vocab-size-divisible-by 128");
  pz_write_if(out, plan->grad_bytes == 2, "--grad-reduce-in-bf16");
  pz_core_write_recomputation(launch, PZ_LAUNCH_MEGATRON, out);
  /* kernels of causal attention do not need the mask, of seq x seq entries for each sample */
  pz_write_if(out, true, "--no-create-attention-mask-in-dataloader");
  /* Megatron divides the iterations by this interval, which has no default from core 0.16 on */
  pz_write_if(out, true, "--eval-interval 1000");
  pz_write_saving_arguments(out);
}

/* Minor versions of Megatron Core that scripts were tested with: 0.14 to 0.20. */
enum { OLDEST_CORE = 14, NEWEST_CORE = 20 };

struct core_releases {
  int oldest, newest; /* minor versions: 0.oldest to 0.newest */
};

/* Returns the releases of Megatron Core that have all arguments of the plan.  Source:
 * megatron/training/arguments.py of each release (tests/data/launch_options.csv).  From 0.19 on it
 * refuses Transformer Engine's loss. */
static struct core_releases find_releases(const struct pz_launch *launch) {
  const struct pz_plan *plan = &launch->plan;
  const struct pz_model_shape *shape = &launch->shape;
  bool offloads = plan->offload & PZ_OFFLOAD_ACTIVATIONS;
  bool hybridep = pz_plan_dispatcher(plan) == PZ_DISPATCHER_HYBRIDEP && pz_plan_ep(plan) > 1;
  const struct {
    bool is_used;
    int oldest; /* the minor version that introduced the feature's arguments */
  } features[] = {
      {plan->precision == PZ_PRECISION_NVFP4, 15},
      {plan->precision == PZ_PRECISION_FP16 && shape->experts, 16},
      {plan->cuda_graphs > 0 || offloads || hybridep || shape->kv_heads % plan->tp, 16},
      {plan->execution == PZ_EXECUTION_GRAPH && plan->recompute != PZ_RECOMPUTATION_NONE, 16},
      {shape->family == PZ_SHAPE_QWEN3_NEXT, plan->cp > 1 ? 18 : 16},
      {shape->family == PZ_SHAPE_NEMOTRON_H, 18},
      {offloads && plan->offload_modules & PZ_AWAY_EXPERTS, 19}};
  struct core_releases releases = {OLDEST_CORE, plan->fused_loss ? 18 : NEWEST_CORE};
  for (size_t i = 0; i < sizeof features / sizeof *features; i++)
    if (features[i].is_used && features[i].oldest > releases.oldest)
      releases.oldest = features[i].oldest;
  return releases;
}

/* Writes shell commands that stop the script on other releases, and warn above NEWEST_CORE. */
static void write_release_check(struct core_releases releases, FILE *out) {
  fprintf(
      out,
      "core=0\n"
      "if [[ $(cat \"$MEGATRON_PATH/megatron/core/package_info.py\") =~ MINOR\\ =\\ ([0-9]+) ]]; "
      "then core=${BASH_REMATCH[1]}; fi\n"
      "if ((core < %d",
      releases.oldest);
  if (releases.newest < NEWEST_CORE) fprintf(out, " || core > %d", releases.newest);
  fprintf(
      out,
      ")); then\n"
      "  echo \"this script is for Megatron Core 0.%d to 0.%d, and $MEGATRON_PATH has 0.$core\" "
      ">&2\n"
      "  exit 1\n"
      "elif ((core > %d)); then\n"
      "  echo \"Megatron Core 0.$core is newer than 0.%d, the last that this script was held "
      "against\" >&2\nfi\n",
      releases.oldest, releases.newest, NEWEST_CORE, NEWEST_CORE);
}

/* Writes the launch script of a job for Megatron-LM (pz_script_writer). */
void pz_write_megatron_script(const struct pz_launch *launch, FILE *out) {
  struct core_releases releases = find_releases(launch);
  char name[60];
  snprintf(name, sizeof name, "Megatron-LM (core 0.%d to 0.%d)", releases.oldest, releases.newest);
  pz_write_script_head(launch, name, out);
  pz_write_required_variable(out, "MEGATRON_PATH", "the folder of Megatron-LM");
  pz_write_required_variable(out, "CHECKPOINT_PATH", "a folder for checkpoints");
  write_release_check(releases, out);
  pz_core_write_environment(launch, PZ_LAUNCH_MEGATRON, out);
  fputs("MODEL_ARGS=(\n", out);
  pz_core_write_model(launch, PZ_LAUNCH_MEGATRON, out);
  fputs(")\n\nPARALLEL_ARGS=(\n", out);
  pz_core_write_parallelism(launch, PZ_LAUNCH_MEGATRON, out);
  write_optimizer_arguments(launch, out);
  fputs(")\n\n", out);
  write_training_arguments(launch, out);
  /* DATA_ARGS: generated data, or a data set with its tokenizer */
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
      launch->shape.vocab - 1, launch->shape.vocab);
  pz_write_torchrun(launch, out);
  fprintf(out, "  \"$MEGATRON_PATH/pretrain_%s.py\" \\\n",
          launch->shape.family == PZ_SHAPE_NEMOTRON_H ? "hybrid" : "gpt");
  fputs("  \"${MODEL_ARGS[@]}\" \"${PARALLEL_ARGS[@]}\" \"${TRAINING_ARGS[@]}\" "
        "\"${DATA_ARGS[@]}\"\n",
        out);
}
