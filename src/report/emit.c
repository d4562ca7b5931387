#include "report/emit.h"

#include <string.h>

const char *const pz_emit_names[] = {"none", "megatron", "deepspeed", "torchtitan", "nemo", NULL};

/* As the names. */
static const struct {
  pz_emit_fn *print;
  pz_emit_note_fn *note; /* NULL: there is never anything to say */
} targets[] = {{NULL, NULL},
               {pz_emit_megatron, NULL},
               {pz_emit_deepspeed, pz_note_deepspeed},
               {pz_emit_torchtitan, pz_note_torchtitan},
               {pz_emit_nemo, pz_note_nemo}};

struct pz_launch pz_launch_of(const struct pz_model_plan *p) {
  return (struct pz_launch){.plan = p,
                            .stages = p->n_stages,
                            .tensor = p->tensor_parallel,
                            .replicas = p->data_parallel,
                            .microbatch = p->microbatch_samples,
                            .seq = p->seq_tokens,
                            .rounds = p->microbatches,
                            .batch = p->microbatches * p->data_parallel * p->microbatch_samples,
                            .recompute = p->recompute};
}

const char *pz_launch_stranger(const struct pz_launch *l) {
  for (uint32_t k = 0; k < l->plan->n_stages; k++)
    for (uint32_t i = 0; i < l->plan->stages[k].n_layers; i++) {
      const char *name = l->plan->stages[k].layers[i].name;
      if (pz_launch_layer(name) == PZ_LAUNCH_BLOCK && strcmp(name, "block") != 0) return name;
    }
  return NULL;
}

enum pz_launch_layer pz_launch_layer(const char *name) {
  if (strcmp(name, "embedding") == 0) return PZ_LAUNCH_EMBEDDING;
  return strcmp(name, "head") == 0 ? PZ_LAUNCH_HEAD : PZ_LAUNCH_BLOCK;
}

void pz_emit(int i, const struct pz_launch *l, FILE *out) { targets[i].print(l, out); }

bool pz_emit_note(int i, const struct pz_launch *l, char *buf, size_t size) {
  buf[0] = '\0';
  if (targets[i].note) targets[i].note(l, buf, size);
  return buf[0] != '\0';
}
