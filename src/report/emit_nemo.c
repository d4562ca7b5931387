/* NeMo: the parts of a megatron_gpt configuration (YAML) that the plan decides. */
#include <inttypes.h>

#include "report/emit.h"

void pz_emit_nemo(const struct pz_launch *l, FILE *out) {
  const char *granularity = l->recompute ? "full" : "null";
  fprintf(out, "trainer:\n  precision: bf16\n");
  fprintf(out, "model:\n");
  fprintf(out, "  micro_batch_size: %" PRId64 "\n", l->microbatch);
  fprintf(out, "  global_batch_size: %" PRId64 "\n", l->batch);
  fprintf(out, "  tensor_model_parallel_size: %" PRId64 "\n", l->tensor);
  fprintf(out, "  pipeline_model_parallel_size: %" PRId64 "\n", l->stages);
  fprintf(out, "  encoder_seq_length: %" PRId64 "\n", l->seq);
  fprintf(out, "  activations_checkpoint_granularity: %s\n", granularity);
  if (l->recompute)
    fprintf(out,
            "  activations_checkpoint_method: uniform\n  activations_checkpoint_num_layers: 1\n");
}
