/* DeepSpeed: ds_config.json.  The width of tensor parallelism is the topology's, which a script
 * makes; it stands here for that script to read. */
#include <inttypes.h>

#include "report/emit.h"

void pz_emit_deepspeed(const struct pz_launch *l, FILE *out) {
  fprintf(out, "{\n");
  fprintf(out, "  \"train_batch_size\": %" PRId64 ",\n", l->batch);
  fprintf(out, "  \"train_micro_batch_size_per_gpu\": %" PRId64 ",\n", l->microbatch);
  fprintf(out, "  \"gradient_accumulation_steps\": %" PRId64 ",\n", l->rounds);
  fprintf(out,
          "  \"pipeline\": {\"stages\": %" PRId64 ", \"activation_checkpoint_interval\": %d},\n",
          l->stages, l->recompute ? 1 : 0);
  fprintf(out, "  \"tensor_parallel\": {\"autotp_size\": %" PRId64 "},\n", l->tensor);
  fprintf(out, "  \"zero_optimization\": {\"stage\": 0},\n");
  fprintf(out, "  \"bf16\": {\"enabled\": true}\n");
  fprintf(out, "}\n");
}
