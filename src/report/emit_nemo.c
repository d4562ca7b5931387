/* NeMo 2: overrides for a recipe of 'nemo llm pretrain --factory RECIPE'.  Features that recipes
 * turn on and the plan does not use are turned off. */
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
    snprintf(buf, size,
             "NeMo divides the layers into stages by itself; --json has the planned stages");
}
