#include "place/plan_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/num.h"
#include "core/pool.h"
#include "core/vec.h"
#include "cost/constants.h"

const char *const pz_plan_objective_names[] = {"time", "memory", "cost", NULL};

enum { MOST_MBS = 64, MOST_CHUNKS = 1024, MOST_DIVISIONS = 8 };

/* One size of a microbatch and of the tensor-parallel group. */
struct shape {
  int64_t tp, mbs;
  bool sp;
  struct pz_step_model *m;
  struct pz_model_steps base; /* of plans with several microbatches, without recomputation */
  double kernels_s;           /* of a microbatch through all layers: no plan takes less */
  enum pz_status status;
  struct pz_error err;
};

/* Stages and replicas of a shape, with a bound for all plans that have them. */
struct grid {
  uint32_t shape;
  int64_t pp, dp;
  double bound;
};

struct search {
  const struct pz_plan_question *q;
  struct pz_arena *arena;
  struct pz_error *err;
  struct pz_vec shapes, grids;
  struct pz_found_plans found;
  uint32_t top;
  double hbm_bytes;
  int64_t node;
  int64_t *again; /* of every stage */
};

/* ---- the space ------------------------------------------------------------------------------ */

static bool allows(int64_t pin, int64_t v) { return pin == PZ_FREE || pin == v; }

/* Whole nodes, or a part of one. */
static bool on_nodes(const struct search *s, int64_t devices) {
  if (devices > s->q->devices) return false;
  if (s->q->all_devices && devices != s->q->devices) return false;
  return devices <= s->node || devices % s->node == 0;
}

static enum pz_status add_shapes(struct search *s, const struct pz_workload *w) {
  const struct pz_plan_question *q = s->q;
  int64_t kv = w->kv_heads ? w->kv_heads : 1, heads = w->heads ? w->heads : 1;
  int64_t most_tp = q->tp == PZ_FREE ? pz_min(s->node, q->devices) : q->tp;
  for (int64_t tp = 1; tp <= most_tp; tp++)
    for (int64_t mbs = 1; mbs <= pz_min(q->batch, q->mbs == PZ_FREE ? MOST_MBS : q->mbs); mbs++)
      for (int sp = 0; sp <= (tp > 1); sp++) {
        if (heads % tp || kv % tp || q->batch % mbs) continue;
        if (sp && w->options.seq % tp) continue;
        if (!allows(q->tp, tp) || !allows(q->mbs, mbs) || (tp > 1 && !allows(q->sp, sp))) continue;
        struct shape one = {.tp = tp, .mbs = mbs, .sp = sp};
        if (!pz_vec_push(&s->shapes, &one))
          return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
      }
  return PZ_OK;
}

static struct pz_training_plan plan_of(const struct search *s, const struct shape *shape) {
  struct pz_training_plan p = s->q->common;
  p.tp = shape->tp;
  p.mbs = shape->mbs;
  p.sequence_parallel = shape->sp;
  p.batch = s->q->batch;
  p.pp = p.vpp = p.dp = 1;
  p.recompute = PZ_RECOMPUTATION_NONE;
  p.recompute_layers = 0;
  p.stage_recompute = NULL;
  p.first_layers = p.last_layers = 0;
  p.zero = 0;
  return p;
}

static double pass_s(const struct pz_pass *p) {
  return p->products_s + p->attention_s + p->elementwise_s;
}

static double kernels_of(const struct pz_layer_kernels *k) {
  return pass_s(&k->forward) + pass_s(&k->backward);
}

static void make_shape(void *ctx, size_t i, unsigned worker) {
  struct search *s = ctx;
  struct shape *shape = pz_vec_at(&s->shapes, struct shape, (uint32_t)i);
  struct pz_training_plan p = plan_of(s, shape);
  (void)worker;
  shape->status =
      pz_step_model_new(&s->q->model, s->q->chip, s->q->net, &p, &shape->m, &shape->err);
  p.batch = 2 * p.mbs;
  if (shape->status == PZ_OK) shape->status = pz_step_model_time(shape->m, &p, 2, &shape->err);
  if (shape->status != PZ_OK) return;
  shape->base = shape->m->steps;
  for (uint32_t l = 0; l < shape->m->w->n_layers; l++)
    shape->kernels_s += (double)shape->m->w->layers[l].count * kernels_of(&shape->m->kernels[l]);
}

/* Chunks a stage may have. */
static bool can_interleave(const struct search *s, const struct pz_training_plan *p,
                           int64_t blocks) {
  int64_t n = p->pp * p->vpp, rounds = p->batch / (p->mbs * p->dp);
  (void)s;
  if (p->vpp == 1) return blocks >= p->pp;
  return p->pp > 1 && rounds % p->pp == 0 && n <= MOST_CHUNKS && blocks >= n &&
         (blocks % n == 0 || (blocks + 2) % n == 0);
}

static bool can_shard(const struct search *s, const struct pz_training_plan *p, int zero) {
  if (!allows(s->q->zero, zero) && p->dp > 1) return false;
  if (p->dp == 1) return zero == (s->q->zero == PZ_FREE ? 0 : s->q->zero);
  return zero < 2 || p->pp == 1 || p->framework->shards_stages;
}

/* Layers of the first and the last chunk: even, and for every size of the others the split that levels the two ends,
 * and its neighbours. */
static int divisions(const struct shape *x, const struct pz_training_plan *p, int64_t out[][2]) {
  const struct pz_model_steps *t = &x->base;
  int64_t blocks = x->m->n_blocks, n = p->pp * p->vpp;
  int found = 0;
  out[found][0] = out[found][1] = 0;
  found++;
  if (n < 2) return found;
  double block = t->block.forward_s + t->block.backward_s;
  double lean =
      (t->after.forward_s + t->after.backward_s - t->before.forward_s - t->before.backward_s) /
      block;
  for (int64_t m = pz_ceil_div(blocks, n);
       m <= pz_ceil_div(blocks, n) + 1 && found < MOST_DIVISIONS; m++) {
    int64_t ends = n == 2 ? blocks : blocks - (n - 2) * m;
    if (ends < 2 || (n > 2 && ends > 2 * m)) continue;
    for (int d = -1; d <= 1 && found < MOST_DIVISIONS; d++) {
      int64_t last = (int64_t)floor(((double)ends - lean) / 2) + d;
      last = pz_max(1, pz_min(last, ends - 1));
      bool known =
          (ends - last == pz_plan_blocks(p, blocks, 0)) && last == pz_plan_blocks(p, blocks, n - 1);
      for (int i = 0; i < found; i++)
        known = known || (out[i][0] == ends - last && out[i][1] == last);
      if (known || (n > 2 && (ends - last > m || last > m))) continue;
      out[found][0] = ends - last;
      out[found][1] = last;
      found++;
    }
    if (n == 2) break;
  }
  return found;
}

/* ---- pricing -------------------------------------------------------------------------------- */

static double value_of(const struct search *s, const struct pz_training_plan *p, double step_s,
                       double peak_bytes) {
  switch (s->q->objective) {
  case PZ_PLAN_MEMORY: return peak_bytes;
  case PZ_PLAN_COST: return step_s * (double)(p->tp * p->pp * p->dp);
  default: return step_s;
  }
}

/* Nothing at or above this is kept. */
static double worst_kept(const struct search *s) {
  if (s->found.n < s->top) return INFINITY;
  const struct pz_found_plan *last = &s->found.list[s->found.n - 1];
  return value_of(s, &last->plan, last->p.step_s, last->p.peak_bytes);
}

/* Among equal ones the plan with fewer parts, so that the answer does not depend on the order. */
static bool is_before(const struct search *s, const struct pz_found_plan *a,
                      const struct pz_found_plan *b) {
  double x = value_of(s, &a->plan, a->p.step_s, a->p.peak_bytes),
         y = value_of(s, &b->plan, b->p.step_s, b->p.peak_bytes);
  if (x != y) return x < y;
  return a->p.step_s < b->p.step_s;
}

static enum pz_status keep(struct search *s, struct pz_found_plan *one) {
  if (one->plan.stage_recompute) {
    int64_t *copy = pz_arena_alloc(s->arena, (size_t)one->plan.pp, sizeof *copy);
    if (!copy) return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
    memcpy(copy, one->plan.stage_recompute, (size_t)one->plan.pp * sizeof *copy);
    one->plan.stage_recompute = copy;
  }
  uint32_t at = s->found.n < s->top ? s->found.n++ : s->found.n - 1;
  while (at > 0 && is_before(s, one, &s->found.list[at - 1])) {
    s->found.list[at] = s->found.list[at - 1];
    at--;
  }
  s->found.list[at] = *one;
  return PZ_OK;
}

static double stage_bytes(const struct shape *x, const struct pz_training_plan *p, int64_t stage) {
  struct pz_training_memory m = pz_step_memory(x->m, p, stage);
  return pz_training_memory_sum(&m);
}

static void note_least(struct search *s, const struct pz_training_plan *p, double bytes) {
  if (s->found.n || (s->found.has_least && bytes >= s->found.least.p.peak_bytes)) return;
  s->found.has_least = true;
  s->found.least = (struct pz_found_plan){.plan = *p, .p = {.peak_bytes = bytes}};
  s->found.least.plan.stage_recompute = NULL;
}

/* Does every stage fit?  The first and the last hold most as a rule. */
static bool fits(struct search *s, const struct shape *x, const struct pz_training_plan *p) {
  double most = pz_fmax(stage_bytes(x, p, 0), stage_bytes(x, p, p->pp - 1));
  if (most > s->hbm_bytes) return note_least(s, p, most), false;
  for (int64_t k = 1; k < p->pp - 1; k++)
    if (stage_bytes(x, p, k) > s->hbm_bytes) return false;
  return true;
}

static int64_t chunk_layers(const struct shape *x, const struct pz_training_plan *p,
                            int64_t stage) {
  int64_t most = 0;
  for (int64_t c = 0; c < p->vpp; c++)
    most = pz_max(most, pz_plan_blocks(p, x->m->n_blocks, c * p->pp + stage));
  return most;
}

/* The fewest layers of a chunk of the stage that are computed again, so that it fits; -1: none do. */
static int64_t fewest(struct search *s, const struct shape *x, const struct pz_training_plan *p,
                      int64_t stage) {
  int64_t low = 1, high = chunk_layers(x, p, stage);
  s->again[stage] = 0;
  if (stage_bytes(x, p, stage) <= s->hbm_bytes) return 0;
  s->again[stage] = high;
  double bytes = stage_bytes(x, p, stage);
  if (bytes > s->hbm_bytes) return note_least(s, p, bytes), -1;
  while (low < high) {
    int64_t middle = (low + high) / 2;
    s->again[stage] = middle;
    if (stage_bytes(x, p, stage) <= s->hbm_bytes)
      high = middle;
    else
      low = middle + 1;
  }
  return s->again[stage] = low;
}

/* Full recomputation where memory asks for it; false: it does not fit. */
static bool recompute_fewest(struct search *s, const struct shape *x, struct pz_training_plan *p) {
  int64_t most = 0;
  p->recompute = PZ_RECOMPUTATION_FULL;
  p->stage_recompute = s->again;
  for (int64_t k = 0; k < p->pp; k++) s->again[k] = chunk_layers(x, p, k);
  if (stage_bytes(x, p, 0) > s->hbm_bytes) return note_least(s, p, stage_bytes(x, p, 0)), false;
  for (int64_t k = 0; k < p->pp; k++) {
    int64_t n = fewest(s, x, p, k);
    if (n < 0) return false;
    most = pz_max(most, n);
  }
  if (!s->q->uniform) return true;
  p->stage_recompute = NULL;
  p->recompute_layers = most;
  if (most == 0) p->recompute = PZ_RECOMPUTATION_NONE;
  return true;
}

/* Can a plan as good as this bound still be among the best? */
static bool promises(const struct search *s, const struct pz_training_plan *p, double bound_s) {
  double bytes = 0; /* nothing is known of it */
  return value_of(s, p, bound_s, bytes) < worst_kept(s) || s->q->objective == PZ_PLAN_MEMORY;
}

static enum pz_status simulate(struct search *s, const struct shape *x,
                               const struct pz_training_plan *p) {
  struct pz_found_plan one = {.plan = *p};
  enum pz_status status = pz_step_price(x->m, p, &one.p, NULL, s->err);
  if (status != PZ_OK) return status;
  s->found.certificate.solved++;
  if (one.p.peak_bytes > s->hbm_bytes) return PZ_OK;
  if (!(value_of(s, p, one.p.step_s, one.p.peak_bytes) < worst_kept(s))) return PZ_OK;
  return keep(s, &one);
}

/* The bound of a plan with this recomputation, and if it promises enough the plan. */
static enum pz_status try_recompute(struct search *s, const struct shape *x,
                                    struct pz_training_plan *p, enum pz_recomputation how) {
  struct pz_plan_certificate *c = &s->found.certificate;
  double bound;
  p->recompute = how == PZ_RECOMPUTATION_FULL ? PZ_RECOMPUTATION_NONE : how;
  p->stage_recompute = NULL;
  p->recompute_layers = 0;
  enum pz_status status = pz_step_bound(x->m, p, &bound, s->err);
  if (status != PZ_OK) return status;
  if (!promises(s, p, bound)) return c->by_bound++, PZ_OK;
  bool good = how == PZ_RECOMPUTATION_FULL ? recompute_fewest(s, x, p) : fits(s, x, p);
  if (!good) return c->by_memory++, PZ_OK;
  status = pz_step_bound(x->m, p, &bound, s->err);
  if (status != PZ_OK) return status;
  if (!promises(s, p, bound)) return c->by_bound++, PZ_OK;
  return simulate(s, x, p);
}

/* Where nothing need be computed again, computing it again only takes time. */
static enum pz_status try_plan(struct search *s, const struct shape *x,
                               struct pz_training_plan *p) {
  static const enum pz_recomputation list[] = {PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_SELECTIVE,
                                               PZ_RECOMPUTATION_FULL};
  struct pz_plan_certificate *c = &s->found.certificate;
  enum pz_status status = PZ_OK;
  uint64_t no_memory = c->by_memory;
  for (size_t i = 0; i < 3 && status == PZ_OK; i++) {
    if (!allows(s->q->recompute, (int64_t)list[i])) continue;
    c->plans++;
    bool needless = i > 0 && s->q->recompute == PZ_FREE && c->by_memory == no_memory;
    if (needless)
      c->by_bound++;
    else
      status = try_recompute(s, x, p, list[i]);
  }
  return status;
}

/* ---- grids ---------------------------------------------------------------------------------- */

/* Plans of a stage grid, each made known to `each`, or only counted. */
static enum pz_status each_plan(struct search *s, const struct grid *g, bool count) {
  const struct shape *x = pz_vec_at(&s->shapes, struct shape, g->shape);
  struct pz_training_plan p = plan_of(s, x);
  enum pz_status status = PZ_OK;
  int modes = s->q->recompute == PZ_FREE ? 3 : 1;
  p.pp = g->pp;
  p.dp = g->dp;
  int64_t most_vpp = p.pp == 1 ? 1 : x->m->n_blocks / p.pp + 1;
  for (p.vpp = 1; p.vpp <= most_vpp && status == PZ_OK; p.vpp++) {
    int64_t ends[MOST_DIVISIONS][2];
    if (!allows(s->q->vpp, p.vpp) || !can_interleave(s, &p, x->m->n_blocks)) continue;
    p.first_layers = p.last_layers = 0;
    int n = divisions(x, &p, ends);
    for (int zero = 0; zero <= 3; zero++) {
      if (!can_shard(s, &p, zero)) continue;
      p.zero = zero;
      for (int i = 0; i < n && status == PZ_OK; i++) {
        p.first_layers = ends[i][0];
        p.last_layers = ends[i][1];
        if (count) {
          s->found.certificate.plans += (uint64_t)modes;
          s->found.certificate.by_bound += (uint64_t)modes;
        } else {
          status = try_plan(s, x, &p);
        }
      }
    }
  }
  return status;
}

static double step_of(const struct pz_layer_step *t) { return t->forward_s + t->backward_s; }

/* No plan of the grid is faster: its stages share all layers at best evenly, and nothing else takes time.  With one
 * microbatch nothing is added up, and on a torus collectives depend on the job: then kernels alone. */
static double grid_bound(const struct search *s, const struct shape *x, const struct grid *g) {
  const struct pz_model_steps *t = &x->base;
  int64_t rounds = s->q->batch / (x->mbs * g->dp);
  double all =
      (double)x->m->n_blocks * step_of(&t->block) + step_of(&t->before) + step_of(&t->after);
  bool torus = x->m->cost.net.n_levels && x->m->cost.net.level[0].n_axes;
  if (rounds == 1 || torus) all = x->kernels_s;
  struct pz_training_plan p = {.tp = x->tp, .pp = g->pp, .dp = g->dp};
  return s->q->objective == PZ_PLAN_MEMORY
             ? 0
             : value_of(s, &p, (double)rounds * all / (double)g->pp, 0);
}

static enum pz_status add_grids(struct search *s) {
  const struct pz_plan_question *q = s->q;
  for (uint32_t i = 0; i < s->shapes.n; i++) {
    const struct shape *x = pz_vec_at(&s->shapes, struct shape, i);
    int64_t most_pp = pz_min(x->m->n_blocks, q->devices / x->tp);
    for (int64_t pp = 1; pp <= most_pp; pp++)
      for (int64_t dp = 1; dp <= q->devices / (x->tp * pp) && dp * x->mbs <= q->batch; dp++) {
        if (!allows(q->pp, pp) || !allows(q->dp, dp) || q->batch % (dp * x->mbs)) continue;
        if (!on_nodes(s, x->tp * pp * dp)) continue;
        struct grid g = {.shape = i, .pp = pp, .dp = dp};
        g.bound = grid_bound(s, x, &g);
        if (!pz_vec_push(&s->grids, &g))
          return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
      }
  }
  return PZ_OK;
}

static int by_bound(const void *a, const void *b) {
  const struct grid *x = a, *y = b;
  if (x->bound != y->bound) return x->bound < y->bound ? -1 : 1;
  if (x->shape != y->shape) return x->shape < y->shape ? -1 : 1;
  return x->pp != y->pp ? (x->pp < y->pp ? -1 : 1) : (x->dp > y->dp) - (x->dp < y->dp);
}

/* ---- the whole ------------------------------------------------------------------------------ */

static enum pz_status make_shapes(struct search *s) {
  struct pz_pool *pool = NULL;
  enum pz_status status = pz_pool_new(s->q->threads, &pool, s->err);
  if (status != PZ_OK) return status;
  pz_pool_for(pool, s->shapes.n, make_shape, s);
  pz_pool_free(pool);
  for (uint32_t i = 0; i < s->shapes.n; i++) {
    const struct shape *x = pz_vec_at(&s->shapes, struct shape, i);
    if (x->status != PZ_OK) return pz_fail(s->err, x->status, "%s", x->err.message);
  }
  return PZ_OK;
}

static enum pz_status run(struct search *s) {
  enum pz_status status = make_shapes(s);
  if (status == PZ_OK) status = add_grids(s);
  if (status != PZ_OK) return status;
  if (!s->grids.n)
    return pz_fail(s->err, PZ_BAD_USE,
                   "no plan has these degrees: tp must divide the heads, tp x pp x dp fill whole "
                   "nodes of %lld devices "
                   "up to %lld, mbs x dp divide the batch of %lld",
                   (long long)s->node, (long long)s->q->devices, (long long)s->q->batch);
  qsort(s->grids.items, s->grids.n, sizeof(struct grid), by_bound);
  for (uint32_t i = 0; i < s->grids.n && status == PZ_OK; i++) {
    const struct grid *g = pz_vec_at(&s->grids, struct grid, i);
    status = each_plan(s, g, !(g->bound < worst_kept(s)) && s->q->objective != PZ_PLAN_MEMORY);
  }
  return status;
}

static enum pz_status check(const struct pz_plan_question *q, struct pz_error *err) {
  if (q->devices < 1 || q->devices > 1 << 24)
    return pz_fail(err, PZ_BAD_USE, "%lld devices; accepted: 1 to 2^24", (long long)q->devices);
  if (q->batch < 1 || q->batch > 1 << 24)
    return pz_fail(err, PZ_BAD_USE, "a batch of %lld; accepted: 1 to 2^24", (long long)q->batch);
  if (q->top > 1000)
    return pz_fail(err, PZ_BAD_USE, "%u best plans; accepted: at most 1000", q->top);
  return PZ_OK;
}

/* Heads and layers of the model, from its graph for one device. */
static enum pz_status begin(struct search *s) {
  struct shape one = {.tp = 1, .mbs = 1};
  struct pz_training_plan p = plan_of(s, &one);
  struct pz_step_model *m = NULL;
  enum pz_status status = pz_step_model_new(&s->q->model, s->q->chip, s->q->net, &p, &m, s->err);
  if (status != PZ_OK) return status;
  s->node =
      m->cost.net.n_levels ? pz_min(m->cost.net.level[0].devices, s->q->devices) : s->q->devices;
  if (!m->cost.net.n_levels && s->q->devices > 1)
    status = pz_fail(s->err, PZ_BAD_INPUT,
                     "chip %s has no link between devices; accepted: --cluster", s->q->chip->name);
  if (status == PZ_OK) status = add_shapes(s, m->w);
  s->again = pz_arena_alloc(s->arena, (size_t)m->n_blocks + 2, sizeof *s->again);
  s->found.list = pz_arena_alloc(s->arena, s->top, sizeof *s->found.list);
  if (status == PZ_OK && (!s->again || !s->found.list))
    status = pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
  pz_step_model_free(m);
  return status;
}

struct pz_plan_question pz_plan_question_default(void) {
  return (struct pz_plan_question){.tp = PZ_FREE,
                                   .sp = PZ_FREE,
                                   .pp = PZ_FREE,
                                   .vpp = PZ_FREE,
                                   .dp = PZ_FREE,
                                   .mbs = PZ_FREE,
                                   .zero = PZ_FREE,
                                   .recompute = PZ_FREE,
                                   .top = 1};
}

enum pz_status pz_plan_search(const struct pz_plan_question *q, struct pz_arena *arena,
                              struct pz_found_plans *out, struct pz_error *err) {
  struct pz_arena work;
  struct search s = {.q = q, .arena = arena, .err = err, .top = q->top ? q->top : 1};
  enum pz_status status = check(q, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&work, NULL);
  pz_vec_init(&s.shapes, &work, sizeof(struct shape));
  pz_vec_init(&s.grids, &work, sizeof(struct grid));
  const struct pz_constants *k = q->common.constants;
  s.hbm_bytes = (double)pz_chip_hbm_bytes(q->chip) * (k ? k : &pz_constants_default)->usable_part;
  status = begin(&s);
  if (status == PZ_OK) status = run(&s);
  for (uint32_t i = 0; i < s.shapes.n; i++)
    pz_step_model_free(pz_vec_at(&s.shapes, struct shape, i)->m);
  pz_arena_release(&work);
  if (status == PZ_OK) *out = s.found;
  return status;
}
