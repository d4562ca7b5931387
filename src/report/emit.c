#include "report/emit.h"

#include <string.h>

const char *const pz_emit_names[] = {"none", "megatron", "deepspeed", "torchtitan", "nemo", NULL};

/* As the names. */
static const struct {
  pz_emit_fn *print;
  bool takes_stages;
} targets[] = {{NULL, false},
               {pz_emit_megatron, true},
               {pz_emit_deepspeed, false},
               {pz_emit_torchtitan, true},
               {pz_emit_nemo, false}};

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

enum pz_launch_layer pz_launch_layer(const struct pz_launch *l, uint32_t stage, uint32_t i) {
  const char *name = l->plan->model->parts[l->plan->plan->stages[stage].layers[i]].name;
  if (strcmp(name, "embedding") == 0) return PZ_LAUNCH_EMBEDDING;
  return strcmp(name, "head") == 0 ? PZ_LAUNCH_HEAD : PZ_LAUNCH_BLOCK;
}

void pz_emit(int i, const struct pz_launch *l, FILE *out) { targets[i].print(l, out); }

bool pz_emit_takes_stages(int i) { return targets[i].takes_stages; }
