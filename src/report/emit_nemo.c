/* NeMo 2: overrides for a recipe, as 'nemo llm pretrain --factory RECIPE' takes them.  What recipes
 * set and the plan has not is set back. */
#include <inttypes.h>

#include "report/emit.h"

void pz_emit_nemo(const struct pz_launch *l, FILE *out) {
  fprintf(out, "trainer.strategy.tensor_model_parallel_size=%" PRId64 "\n", l->tensor);
  fprintf(out, "trainer.strategy.pipeline_model_parallel_size=%" PRId64 "\n", l->stages);
  fputs("trainer.strategy.virtual_pipeline_model_parallel_size=None\n"
        "trainer.strategy.context_parallel_size=1\n"
        "trainer.strategy.sequence_parallel=False\n",
        out);
  fprintf(out, "data.micro_batch_size=%" PRId64 "\n", l->microbatch);
  fprintf(out, "data.global_batch_size=%" PRId64 "\n", l->batch);
  fprintf(out, "data.seq_length=%" PRId64 "\n", l->seq);
  fprintf(out, "model.config.seq_length=%" PRId64 "\n", l->seq);
  if (l->recompute)
    fputs("model.config.recompute_granularity=full\n"
          "model.config.recompute_method=uniform\n"
          "model.config.recompute_num_layers=1\n",
          out);
  else
    fputs("model.config.recompute_granularity=None\n", out);
}

void pz_note_nemo(const struct pz_launch *l, char *buf, size_t size) {
  if (l->stages > 1)
    snprintf(buf, size, "nemo divides the layers into stages by itself; --json has the plan's");
}
