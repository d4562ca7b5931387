/* Megatron-LM: flags of its training scripts; the pipeline layout flag needs core 0.13. */
#include <inttypes.h>

#include "report/emit.h"

/* Et*18|t*21|t*20L: which layers each stage has. */
static void put_layout(const struct pz_launch *l, FILE *out) {
  const struct pz_plan *plan = l->plan->plan;
  for (uint32_t k = 0; k < plan->n_stages; k++) {
    uint32_t blocks = 0;
    if (k) fputc('|', out);
    for (uint32_t i = 0; i < plan->stages[k].n; i++) {
      enum pz_launch_layer layer = pz_launch_layer(l, k, i);
      blocks += layer == PZ_LAUNCH_BLOCK;
      if (layer == PZ_LAUNCH_EMBEDDING) fputc('E', out);
    }
    if (blocks) fprintf(out, blocks > 1 ? "t*%" PRIu32 : "t", blocks);
    if (pz_launch_layer(l, k, plan->stages[k].n - 1) == PZ_LAUNCH_HEAD)
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
