/* DeepSpeed: ds_config.json (0.16.4 or later for tensor parallelism without a pipeline).  Pipeline
 * stages and their tensor-parallel degree are a topology that the training script builds, not keys
 * of the configuration: a note on stderr says how. */
#include <inttypes.h>

#include "report/emit.h"

void pz_emit_deepspeed(const struct pz_launch *l, FILE *out) {
  fprintf(out, "{\n");
  fprintf(out, "  \"train_batch_size\": %" PRId64 ",\n", l->batch);
  fprintf(out, "  \"train_micro_batch_size_per_gpu\": %" PRId64 ",\n", l->microbatch);
  fprintf(out, "  \"gradient_accumulation_steps\": %" PRId64 ",\n", l->rounds);
  if (l->stages > 1)
    fprintf(out,
            "  \"pipeline\": {\"stages\": %" PRId64 ", \"activation_checkpoint_interval\": %d},\n",
            l->stages, l->recompute ? 1 : 0);
  else if (l->tensor > 1)
    fprintf(out, "  \"tensor_parallel\": {\"autotp_size\": %" PRId64 "},\n", l->tensor);
  fprintf(out, "  \"zero_optimization\": {\"stage\": 0},\n");
  fprintf(out, "  \"bf16\": {\"enabled\": true}\n");
  fprintf(out, "}\n");
}

void pz_note_deepspeed(const struct pz_launch *l, char *buf, size_t size) {
  if (l->stages > 1)
    snprintf(buf, size,
             "build the pipeline in the script: "
             "PipelineModule(topology=PipeModelDataParallelTopology("
             "num_pp=%" PRId64 ", num_mp=%" PRId64 ", num_dp=%" PRId64
             ")); its partition_method divides the layers; --json has the planned stages",
             l->stages, l->tensor, l->replicas);
  else if (l->recompute)
    snprintf(buf, size, "recompute in the script: deepspeed.checkpointing around each block");
}
