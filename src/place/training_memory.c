#include "place/training_memory.h"

#include "core/num.h"
#include "place/recompute.h"

/* Bytes of a parameter in mixed precision: 16-bit weights, fp32 master copy and two moments (Adam);
 * gradients are the rest of the framework's state. */
static const double WEIGHT_BYTES = 2, OPTIMIZER_STATE_BYTES = 12;

double pz_training_memory_sum(const struct pz_training_memory *m) {
  return m->weight_bytes + m->gradient_bytes + m->optimizer_bytes + m->activation_bytes +
         m->logit_bytes;
}

/* Layers before and after the repeated one, if the stage has them. */
static bool has_layer(const struct pz_memory_model *m, const struct pz_training_plan *p,
                      uint32_t layer, int64_t stage) {
  return layer < m->block ? stage == 0 : layer > m->block && stage == p->pp - 1;
}

/* A copy of a tied matrix stands on both stages. */
static double outer_params(const struct pz_memory_model *m, const struct pz_training_plan *p,
                           int64_t stage) {
  double n = 0;
  for (uint32_t i = 0; i < m->w->n_layers; i++) {
    const struct pz_layer *l = &m->w->layers[i];
    if (i != m->block && has_layer(m, p, i, stage))
      n += (double)(l->params + (p->pp > 1 ? l->tied_params : 0)) * (double)l->count;
  }
  return n;
}

/* Activations that a block keeps for backward. */
static double kept_bytes(const struct pz_memory_model *m, const struct pz_training_plan *p) {
  const struct pz_layer *l = &m->w->layers[m->block];
  double all = (double)l->activation_bytes, input = (double)l->output_bytes;
  switch (p->recompute) {
  case PZ_RECOMPUTATION_FULL: return pz_recompute_kept_bytes(l, p->kept);
  case PZ_RECOMPUTATION_HALF: return (all + input) / 2;
  case PZ_RECOMPUTATION_SELECTIVE: return all - m->core_bytes;
  default: return all;
  }
}

/* Microbatches, in parts of a stage, that wait for their backward. */
static double in_flight(const struct pz_training_plan *p, int64_t rounds, int64_t stage) {
  if (p->vpp == 1 && p->order == PZ_PIPELINE_GPIPE) return (double)rounds;
  if (p->vpp == 1) return (double)pz_min(rounds, p->pp - stage);
  int64_t chunks = (p->vpp - 1) * p->pp + 2 * (p->pp - stage - 1) + 1;
  return (double)pz_min(chunks, rounds * p->vpp) / (double)p->vpp;
}

/* The head at its peak, and what the layer at hand needs beside what it keeps. */
static double work_bytes(const struct pz_memory_model *m, const struct pz_training_plan *p,
                         int64_t stage) {
  const struct pz_layer *block = &m->w->layers[m->block];
  double most = p->recompute == PZ_RECOMPUTATION_FULL || p->recompute == PZ_RECOMPUTATION_HALF
                    ? (double)block->activation_bytes
                    : 0;
  for (uint32_t i = 0; i < m->w->n_layers; i++)
    if (i != m->block && has_layer(m, p, i, stage))
      most = pz_fmax(most, (double)pz_max(m->w->layers[i].live[PZ_FORWARD].peak_bytes,
                                          m->w->layers[i].live[PZ_FORWARD].net_bytes +
                                              m->w->layers[i].live[PZ_BACKWARD].peak_bytes));
  return most;
}

struct pz_training_memory pz_training_memory(const struct pz_memory_model *m,
                                             const struct pz_training_plan *p, int64_t rounds,
                                             int64_t stage, double blocks) {
  const struct pz_layer *block = &m->w->layers[m->block];
  double n = blocks * (double)block->params + outer_params(m, p, stage),
         d = (double)pz_plan_shards(p);
  double gradient = p->framework->state_bytes - WEIGHT_BYTES - OPTIMIZER_STATE_BYTES;
  return (struct pz_training_memory){
      .weight_bytes = n * WEIGHT_BYTES / (p->zero > 2 ? d : 1),
      .gradient_bytes = n * gradient / (p->zero > 1 ? d : 1),
      .optimizer_bytes = n * OPTIMIZER_STATE_BYTES / (p->zero ? d : 1),
      .activation_bytes = blocks * kept_bytes(m, p) * in_flight(p, rounds, stage),
      .logit_bytes = work_bytes(m, p, stage)};
}
