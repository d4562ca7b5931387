/* Plans whose values are as good as equal to the model: of those within the question's tie of the best, the simplest.
 *
 * Simpler is, one after another: fewer kinds of parallelism (tensor, context, expert, pipeline; data parallelism is in
 * all); smaller degrees (devices of a replica, ep, chunks); 1F1B; layers that divide evenly; less recomputation; a smaller
 * microbatch; a lower ZeRO stage.  Grids are looked through from the simplest on, so that most are left out by their
 * degrees alone. */
#include <stdlib.h>

#include "core/num.h"
#include "place/plan_pricing.h"

enum { KEY = 10, DEGREES = 3 }; /* numbers of a key; those that a grid decides */

struct tie_key {
  int64_t v[KEY];
};

static struct tie_key tie_key(const struct pz_plan *p, int64_t blocks) {
  int64_t recomputed = 0;
  struct pz_pipeline_shape shape = pz_plan_shape(p);
  for (int64_t j = 0; p->recompute == PZ_RECOMPUTATION_FULL && j < p->pp * p->vpp; j++)
    recomputed += pz_plan_recomputed(p, pz_pipeline_stage_of(&shape, (uint32_t)j),
                                     pz_plan_blocks(p, blocks, j));
  static const int64_t rank[PZ_RECOMPUTATIONS] = {[PZ_RECOMPUTATION_SELECTIVE] = 1,
                                                  [PZ_RECOMPUTATION_ALTERNATE] = 2,
                                                  [PZ_RECOMPUTATION_HALF] = 3,
                                                  [PZ_RECOMPUTATION_FULL] = 4};
  bool none = p->recompute == PZ_RECOMPUTATION_FULL && !recomputed; /* of no layer */
  return (struct tie_key){{(p->tp > 1) + (pz_plan_cp(p) > 1) + (pz_plan_ep(p) > 1) + (p->pp > 1),
                           p->tp * pz_plan_cp(p) * p->pp, pz_plan_ep(p), p->vpp,
                           p->pipeline > PZ_PIPELINE_INTERLEAVED, p->first_layers || p->last_layers,
                           none ? 0 : rank[p->recompute], recomputed, p->mbs, p->zero}};
}

/* By the first n numbers: negative, 0 or positive. */
static int compare_keys(const struct tie_key *a, const struct tie_key *b, int n) {
  for (int i = 0; i < n; i++)
    if (a->v[i] != b->v[i]) return a->v[i] < b->v[i] ? -1 : 1;
  return 0;
}

struct ties {
  struct pz_plan_pricing *s;
  double limit; /* of the value */
  struct tie_key best;
};

static struct tie_key grid_key(const struct pz_plan_space *space, const struct pz_plan_grid *g) {
  const struct pz_step_shape *x = pz_vec_at(&space->shapes, struct pz_step_shape, g->shape);
  struct pz_plan p = pz_step_shape_plan(space->q, x);
  p.pp = g->pp;
  p.dp = g->dp;
  return tie_key(&p, space->n_blocks);
}

static bool within(const struct ties *t, const struct pz_plan *p, double step_s) {
  return pz_plan_value(t->s->space->q, p, step_s, 0) <= t->limit;
}

/* One plan with its recomputation: is it simpler, equal in value, and does it fit? */
static enum pz_status try_simpler(struct ties *t, const struct pz_step_shape *x, struct pz_plan *p,
                                  bool full) {
  struct pz_plan_pricing *s = t->s;
  int64_t blocks = s->space->n_blocks;
  double bound = 0, bytes = 0;
  struct pz_found_plan one;
  struct tie_key key = tie_key(p, blocks);
  /* the least that it may come to: none at all is a way of its own, unless full is pinned */
  if (full) key.v[6] = !(s->space->q->pinned & PZ_PLAN_PIN(RECOMPUTE));
  if (compare_keys(&key, &t->best, full ? 7 : KEY) > 0) return PZ_OK;
  if (full) p->recompute = PZ_RECOMPUTATION_NONE;
  enum pz_status status = pz_step_bound(x->m, p, &bound, s->space->err);
  if (status != PZ_OK || !within(t, p, bound)) return status;
  s->memory->enough_bytes = s->memory->hbm_bytes;
  s->memory->least = false;
  status = pz_plan_memory_bytes(s->memory, x, p, full, &bytes);
  if (status != PZ_OK || bytes > s->memory->hbm_bytes) return status;
  key = tie_key(p, blocks);
  if (compare_keys(&key, &t->best, KEY) >= 0) return PZ_OK;
  one.plan = *p;
  status = pz_step_price(x->m, p, &one.p, NULL, s->space->err);
  if (status != PZ_OK || !within(t, p, one.p.step_s)) return status;
  t->best = key;
  return pz_found_plan_copy(&one, s->arena, &s->found.simplest, s->space->err);
}

static enum pz_status try_ways(void *ctx, const struct pz_step_shape *x, struct pz_plan *p) {
  struct ties *t = ctx;
  enum pz_status status = PZ_OK;
  for (size_t i = 0; i < PZ_PLAN_RECOMPUTATIONS && status == PZ_OK; i++)
    if (pz_plan_space_recompute(t->s->space, p, i))
      status = try_simpler(t, x, p, pz_plan_recomputations[i] == PZ_RECOMPUTATION_FULL);
  return status;
}

/* A grid that may have a tie. */
struct candidate {
  struct tie_key key;
  uint32_t grid;
};

static int by_simplicity(const void *a, const void *b) {
  const struct candidate *x = a, *y = b;
  int c = compare_keys(&x->key, &y->key, DEGREES);
  return c ? c : (x->grid > y->grid) - (x->grid < y->grid);
}

enum pz_status pz_plan_pricing_ties(struct pz_plan_pricing *s) {
  const struct pz_plan_question *q = s->space->q;
  const struct pz_vec *grids = &s->space->grids;
  const struct pz_found_plan *best = &s->found.list[0];
  double value = pz_plan_value(q, &best->plan, best->p.step_s, best->p.peak_bytes);
  struct ties t = {
      .s = s, .limit = value * (1 + q->tie), .best = tie_key(&best->plan, s->space->n_blocks)};
  s->found.simplest = *best;
  if (!(q->tie > 0) || q->objective == PZ_PLAN_MEMORY) return PZ_OK;
  struct candidate *list = pz_arena_alloc(s->arena, grids->n, sizeof *list);
  if (!list) return pz_fail(s->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  uint32_t n = 0;
  for (uint32_t i = 0; i < grids->n; i++) {
    const struct pz_plan_grid *g = pz_vec_at(grids, struct pz_plan_grid, i);
    if (g->bound <= t.limit) list[n++] = (struct candidate){grid_key(s->space, g), i};
  }
  qsort(list, n, sizeof *list, by_simplicity);
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    if (compare_keys(&list[i].key, &t.best, DEGREES) > 0) break;
    const struct pz_plan_grid *g = pz_vec_at(grids, struct pz_plan_grid, list[i].grid);
    status = pz_plan_space_each(s->space, g, false, try_ways, &t);
  }
  return status;
}
