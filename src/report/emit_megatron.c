/* Megatron-LM: flags of its training scripts; the pipeline layout flag needs core 0.13. */
#include <inttypes.h>

#include "report/emit.h"

/* Et*18|t*21|t*20L: which layers each stage has. */
static void put_layout(const struct pz_launch *l, FILE *out) {
  for (uint32_t k = 0; k < l->plan->n_stages; k++) {
    const struct pz_plan_stage *s = &l->plan->stages[k];
    uint32_t blocks = 0;
    if (k) fputc('|', out);
    for (uint32_t i = 0; i < s->n_layers; i++) {
      enum pz_launch_layer layer = pz_launch_layer(s->layers[i].name);
      if (layer == PZ_LAUNCH_BLOCK) blocks += s->layers[i].count;
      for (uint32_t c = 0; layer == PZ_LAUNCH_EMBEDDING && c < s->layers[i].count; c++)
        fputc('E', out);
    }
    if (blocks) fprintf(out, blocks > 1 ? "t*%" PRIu32 : "t", blocks);
    if (pz_launch_layer(s->layers[s->n_layers - 1].name) == PZ_LAUNCH_HEAD)
      fputs(blocks > 1 ? ",L" : "L", out);
  }
}

void pz_emit_megatron(const struct pz_launch *l, FILE *out) {
  fprintf(out, "--tensor-model-parallel-size %" PRId64 "\n", l->tensor);
  fprintf(out, "--pipeline-model-parallel-size %" PRId64 "\n", l->stages);
  if (l->stages > 1) {
    fputs("--pipeline-model-parallel-layout '", out);
    put_layout(l, out);
    fputs("'\n", out);
  }
  fprintf(out, "--micro-batch-size %" PRId64 "\n", l->microbatch);
  fprintf(out, "--global-batch-size %" PRId64 "\n", l->batch);
  fprintf(out, "--seq-length %" PRId64 "\n", l->seq);
  if (l->recompute)
    fputs("--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n",
          out);
  fputs("--bf16\n", out);
}
