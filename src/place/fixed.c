#include "place/fixed.h"

#include <math.h>

#include "place/cost.h"

static const struct pz_place_width *find_width(const struct pz_place_problem *p, int64_t t) {
  for (uint32_t i = 0; i < p->n_widths; i++)
    if (p->widths[i].t == t) return &p->widths[i];
  return NULL;
}

static uint32_t even_stage(const struct pz_fixed *f, int64_t id) {
  if (id < 0) return 0;
  if (id >= f->layers) return (uint32_t)f->stages - 1;
  int64_t k = id * f->stages / f->layers; /* the largest k with floor(k L / p) <= id */
  while ((k + 1) * f->layers / f->stages <= id) k++;
  return (uint32_t)k;
}

static uint32_t compat_stage(const struct pz_fixed *f, uint32_t node) {
  int64_t each = (f->layers + f->stages - 1) / f->stages;
  return node < f->layers ? (uint32_t)(node / each) : (uint32_t)f->stages - 1;
}

static enum pz_status divide(const struct pz_fixed *f, const struct pz_place_width *w,
                             enum pz_fixed_split split, uint32_t *stage, struct pz_error *err) {
  for (uint32_t i = 0; i < w->n; i++) {
    bool even = split == PZ_SPLIT_EVEN;
    stage[i] = even ? even_stage(f, w->layers[i].id) : compat_stage(f, i);
  }
  for (uint32_t e = 0; e < w->n_edges; e++)
    if (stage[w->edges[e].from] > stage[w->edges[e].to])
      return pz_fail(err, PZ_NO_ANSWER, "an edge of the graph goes back from stage %u to stage %u",
                     stage[w->edges[e].from] + 1, stage[w->edges[e].to] + 1);
  return PZ_OK;
}

static enum pz_status evaluate(const struct pz_place_problem *p, const struct pz_fixed *f,
                               const struct pz_place_width *w, enum pz_fixed_split split,
                               enum pz_semantics semantics, const uint32_t *stage, double *time_s,
                               struct pz_error *err) {
  double maxload = 0, params = 0, devices = 0;
  uint32_t n = (uint32_t)f->stages;
  for (uint32_t k = 0; k < n; k++) {
    struct pz_stage_sum s = pz_stage_sum(p, w, stage, k);
    double memory = pz_stage_sum_memory(p, &s, n - k);
    if (memory > p->hbm_bytes)
      return pz_fail(err, PZ_NO_ANSWER, "stage %u of %u needs %.4g bytes, a device has %.4g", k + 1,
                     n, memory, p->hbm_bytes);
    maxload = fmax(maxload, pz_stage_sum_load_s(p, &s, n - k));
    devices += s.tensor_parallel || split == PZ_SPLIT_COMPAT ? (double)w->t : 1;
    if (k == 0 || semantics == PZ_SEMANTICS_CORRECTED) params = fmax(params, s.param_bytes);
  }
  if (devices * (double)f->d > (double)p->devices)
    return pz_fail(err, PZ_NO_ANSWER, "it needs %.0f devices, there are %lld",
                   devices * (double)f->d, (long long)p->devices);
  *time_s = pz_place_time_s(p, maxload, n, f->d, params);
  return PZ_OK;
}

enum pz_status pz_fixed_time(const struct pz_place_problem *p, const struct pz_fixed *f,
                             enum pz_fixed_split split, enum pz_semantics semantics, double *time_s,
                             struct pz_error *err) {
  const struct pz_place_width *w = find_width(p, f->t);
  if (!f->given) return pz_fail(err, PZ_NO_ANSWER, "not given");
  if (!w)
    return pz_fail(err, PZ_NO_ANSWER, "no layers are given for tensor-parallel degree %lld",
                   (long long)f->t);
  if (f->stages > f->layers || f->stages > PZ_PLACE_MOST_LAYERS)
    return pz_fail(err, PZ_NO_ANSWER, "%lld stages are too many for %lld layers",
                   (long long)f->stages, (long long)f->layers);
  if (f->d > p->microbatches)
    return pz_fail(err, PZ_NO_ANSWER, "%lld replicas are too many for %lld microbatches",
                   (long long)f->d, (long long)p->microbatches);
  uint32_t stage[PZ_PLACE_MOST_LAYERS];
  struct pz_place_problem q = pz_place_within(p, pz_place_domain(p, f->stages * f->t * f->d));
  enum pz_status status = divide(f, w, split, stage, err);
  return status == PZ_OK ? evaluate(&q, f, w, split, semantics, stage, time_s, err) : status;
}
