#include "partition/stage_sum.h"

#include <math.h>

/* When everything that layer i of stage k waits for is there; backward: gradients. */
static double inputs_s(const struct pz_place_problem *p, const struct pz_place_width *w,
                       const uint32_t *stage, uint32_t i, bool backward) {
  double t = 0;
  for (uint32_t e = 0; e < w->n_edges; e++) {
    uint32_t self = backward ? w->edges[e].from : w->edges[e].to;
    uint32_t other = backward ? w->edges[e].to : w->edges[e].from;
    if (self == i && stage[other] != stage[i]) t = fmax(t, w->edges[e].bytes / p->bytes_per_s);
  }
  return t;
}

static double backward_s(const struct pz_place_problem *p, const struct pz_place_width *w,
                         const uint32_t *stage, uint32_t k, double from_s) {
  double t = from_s;
  for (uint32_t i = w->n; i-- > 0;)
    if (stage[i] == k) t = fmax(t, inputs_s(p, w, stage, i, true)) + w->layers[i].bwd_s;
  return t;
}

struct pz_stage_sum pz_stage_sum(const struct pz_place_problem *p, const struct pz_place_width *w,
                                 const uint32_t *stage, uint32_t k) {
  struct pz_stage_sum s = {0};
  double again = 0;
  for (uint32_t i = 0; i < w->n; i++) {
    if (stage[i] != k) continue;
    const struct pz_place_layer *l = &w->layers[i];
    s.forward_s = fmax(s.forward_s, inputs_s(p, w, stage, i, false)) + l->fwd_s;
    again += l->fwd_s;
    s.param_bytes += l->param_bytes;
    s.act_bytes += l->act_bytes;
    s.tensor_parallel = s.tensor_parallel || l->tensor_parallel;
  }
  for (uint32_t e = 0; e < w->n_edges; e++)
    if (stage[w->edges[e].to] == k && stage[w->edges[e].from] != k) s.in_bytes += w->edges[e].bytes;
  s.backward_s = backward_s(p, w, stage, k, 0);
  s.recompute_s = backward_s(p, w, stage, k, again);
  return s;
}

double pz_stage_sum_load_s(const struct pz_place_problem *p, const struct pz_stage_sum *s,
                           uint32_t i) {
  return s->forward_s + (p->recompute && i > 1 ? s->recompute_s : s->backward_s);
}

double pz_stage_sum_memory(const struct pz_place_problem *p, const struct pz_stage_sum *s,
                           uint32_t i) {
  double kept = p->recompute ? s->in_bytes : s->act_bytes;
  return p->state * s->param_bytes + s->act_bytes + (i - 1) * kept;
}
