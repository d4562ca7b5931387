#include "partition/fixed.h"

#include <math.h>

#include "partition/stage_sum.h"

#define NO_MEMORY "out of memory for the expert plan"

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

/* The layers of stage k, in the arena; NULL: no memory. */
static const uint32_t *stage_layers(const uint32_t *stage, uint32_t n, uint32_t k,
                                    struct pz_arena *arena, uint32_t *n_out) {
  uint32_t *list = pz_arena_alloc(arena, n, sizeof *list);
  *n_out = 0;
  for (uint32_t i = 0; i < n && list; i++)
    if (stage[i] == k) list[(*n_out)++] = i;
  return list;
}

/* The stages with what they take, and the time. */
static enum pz_status evaluate(const struct pz_place_problem *p, const struct pz_place_width *w,
                               enum pz_fixed_split split, enum pz_semantics semantics,
                               const uint32_t *stage, struct pz_arena *arena,
                               struct pz_place_solution *plan, struct pz_error *err) {
  double params = 0, devices = 0;
  uint32_t n = plan->n_stages;
  for (uint32_t k = 0; k < n; k++) {
    struct pz_stage *out = &plan->stages[k];
    struct pz_stage_sum s = pz_stage_sum(p, w, stage, k);
    *out = (struct pz_stage){.devices = s.tensor_parallel || split == PZ_SPLIT_COMPAT ? w->t : 1,
                             .load_s = pz_stage_sum_load_s(p, &s, n - k),
                             .param_bytes = s.param_bytes,
                             .memory_bytes = pz_stage_sum_memory(p, &s, n - k)};
    out->layers = stage_layers(stage, w->n, k, arena, &out->n);
    if (!out->layers) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
    if (out->memory_bytes > p->hbm_bytes)
      return pz_fail(err, PZ_NO_ANSWER, "stage %u of %u needs %.4g bytes, a device has %.4g", k + 1,
                     n, out->memory_bytes, p->hbm_bytes);
    plan->maxload_s = fmax(plan->maxload_s, out->load_s);
    devices += (double)out->devices;
    if (k == 0 || semantics == PZ_SEMANTICS_CORRECTED) params = fmax(params, s.param_bytes);
  }
  if (devices * (double)plan->d > (double)p->devices)
    return pz_fail(err, PZ_NO_ANSWER, "it needs %.0f devices, there are %lld",
                   devices * (double)plan->d, (long long)p->devices);
  plan->allreduce_s = pz_place_allreduce_s(p, plan->d, params);
  plan->time_s = pz_place_time_s(p, plan->maxload_s, n, plan->d, params);
  return PZ_OK;
}

static enum pz_status check_degrees(const struct pz_place_problem *p, const struct pz_fixed *f,
                                    const struct pz_place_width *w, struct pz_error *err) {
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
  return PZ_OK;
}

enum pz_status pz_fixed_plan(const struct pz_place_problem *p, const struct pz_fixed *f,
                             enum pz_fixed_split split, enum pz_semantics semantics,
                             struct pz_arena *arena, struct pz_place_solution *out,
                             struct pz_error *err) {
  const struct pz_place_width *w = find_width(p, f->t);
  enum pz_status status = check_degrees(p, f, w, err);
  if (status != PZ_OK || !w) return status;
  uint32_t stage[PZ_PLACE_MOST_LAYERS];
  struct pz_place_solution plan = {.width = (uint32_t)(w - p->widths),
                                   .domain = pz_place_domain(p, f->stages * f->t * f->d),
                                   .d = f->d,
                                   .n_stages = (uint32_t)f->stages};
  struct pz_place_problem q = pz_place_within(p, plan.domain);
  plan.stages = pz_arena_alloc(arena, plan.n_stages, sizeof *plan.stages);
  if (!plan.stages) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  status = divide(f, w, split, stage, err);
  if (status == PZ_OK) status = evaluate(&q, w, split, semantics, stage, arena, &plan, err);
  if (status == PZ_OK) *out = plan;
  return status;
}

enum pz_status pz_fixed_time(const struct pz_place_problem *p, const struct pz_fixed *f,
                             enum pz_fixed_split split, enum pz_semantics semantics, double *time_s,
                             struct pz_error *err) {
  struct pz_arena arena;
  struct pz_place_solution plan;
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_fixed_plan(p, f, split, semantics, &arena, &plan, err);
  if (status == PZ_OK) *time_s = plan.time_s;
  pz_arena_release(&arena);
  return status;
}
