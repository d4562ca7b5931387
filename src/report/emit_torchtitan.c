/* torchtitan 0.2, the last version that reads TOML: the parts of a training configuration that the
 * plan determines.  Module names are those of its Llama. */
#include <inttypes.h>

#include "report/emit.h"

static void put_stage(const struct pz_plan_stage *s, uint32_t *block, FILE *out) {
  uint32_t n = 0;
  fputs("  [", out);
  for (uint32_t i = 0; i < s->n_layers; i++)
    for (uint32_t c = 0; c < s->layers[i].count; c++) {
      if (n++) fputs(", ", out);
      switch (pz_launch_layer(s->layers[i].name)) {
      case PZ_LAUNCH_EMBEDDING: fputs("\"tok_embeddings\"", out); break;
      case PZ_LAUNCH_HEAD: fputs("\"norm\", \"output\"", out); break;
      case PZ_LAUNCH_BLOCK: fprintf(out, "\"layers.%" PRIu32 "\"", (*block)++); break;
      }
    }
  fputs("],\n", out);
}

/* Its pipelines need at least one microbatch per stage. */
void pz_note_torchtitan(const struct pz_launch *l, char *buf, size_t size) {
  if (l->rounds < l->stages)
    snprintf(buf, size,
             "torchtitan rejects this plan: it needs as many microbatches as stages; this plan has "
             "%" PRId64 " for %" PRId64,
             l->rounds, l->stages);
}

void pz_emit_torchtitan(const struct pz_launch *l, FILE *out) {
  uint32_t block = 0;
  char note[200] = "";
  /* a pipeline cuts its local batch into microbatches; without one it is what runs at once */
  int64_t local = l->stages > 1 ? l->rounds * l->microbatch : l->microbatch;
  fprintf(out, "# for torchtitan 0.2; module names of its Llama\n");
  pz_note_torchtitan(l, note, sizeof note);
  if (note[0]) fprintf(out, "# %s\n", note);
  fprintf(out, "[training]\n");
  fprintf(out, "local_batch_size = %" PRId64 "\n", local);
  fprintf(out, "global_batch_size = %" PRId64 "\n", l->batch);
  fprintf(out, "seq_len = %" PRId64 "\n\n", l->seq);
  fprintf(out, "[parallelism]\n");
  fprintf(out, "data_parallel_replicate_degree = %" PRId64 "\n", l->replicas);
  fprintf(out, "data_parallel_shard_degree = 1\n");
  fprintf(out, "tensor_parallel_degree = %" PRId64 "\n", l->tensor);
  fprintf(out, "pipeline_parallel_degree = %" PRId64 "\n", l->stages);
  if (l->stages > 1) {
    fprintf(out, "pipeline_parallel_schedule = \"1F1B\"\n");
    fprintf(out, "pipeline_parallel_microbatch_size = %" PRId64 "\n", l->microbatch);
    fprintf(out, "module_fqns_per_model_part = [\n");
    for (uint32_t k = 0; k < l->plan->n_stages; k++) put_stage(&l->plan->stages[k], &block, out);
    fprintf(out, "]\n");
  }
  fprintf(out, "\n[activation_checkpoint]\nmode = \"%s\"\n", l->recompute ? "full" : "none");
}
