#include "report/emit.h"

#include <string.h>

const char *const pz_emit_names[] = {"none", "megatron", "deepspeed", "torchtitan", "nemo", NULL};

/* As the names. */
static const struct {
  pz_emit_fn *print;
  pz_note_fn *note; /* NULL: there is never anything to say */
} targets[] = {{NULL, NULL},
               {pz_emit_megatron, NULL},
               {pz_emit_deepspeed, pz_note_deepspeed},
               {pz_emit_torchtitan, pz_note_torchtitan},
               {pz_emit_nemo, pz_note_nemo}};

struct pz_launch pz_launch_of(const struct pz_planned *p) {
  int64_t d = p->plan->d, rounds = (p->model->p.microbatches + d - 1) / d;
  return (struct pz_launch){.plan = p,
                            .stages = p->plan->n_stages,
                            .tensor = p->model->p.widths[p->plan->width].t,
                            .replicas = d,
                            .microbatch = p->model->mbs,
                            .seq = p->model->seq,
                            .rounds = rounds,
                            .batch = rounds * d * p->model->mbs,
                            .recompute = p->recompute};
}

static const char *layer_name(const struct pz_launch *l, uint32_t stage, uint32_t i) {
  return l->plan->model->parts[l->plan->plan->stages[stage].layers[i]].name;
}

const char *pz_launch_stranger(const struct pz_launch *l) {
  for (uint32_t k = 0; k < l->plan->plan->n_stages; k++)
    for (uint32_t i = 0; i < l->plan->plan->stages[k].n; i++)
      if (pz_launch_layer(l, k, i) == PZ_LAUNCH_BLOCK && strcmp(layer_name(l, k, i), "block") != 0)
        return layer_name(l, k, i);
  return NULL;
}

enum pz_launch_layer pz_launch_layer(const struct pz_launch *l, uint32_t stage, uint32_t i) {
  const char *name = layer_name(l, stage, i);
  if (strcmp(name, "embedding") == 0) return PZ_LAUNCH_EMBEDDING;
  return strcmp(name, "head") == 0 ? PZ_LAUNCH_HEAD : PZ_LAUNCH_BLOCK;
}

void pz_emit(int i, const struct pz_launch *l, FILE *out) { targets[i].print(l, out); }

bool pz_emit_note(int i, const struct pz_launch *l, char *buf, size_t size) {
  buf[0] = '\0';
  if (targets[i].note) targets[i].note(l, buf, size);
  return buf[0] != '\0';
}
