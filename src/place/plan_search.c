#include <stdlib.h>
#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "place/plan_pricing.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"

const char *const pz_plan_objective_names[] = {"time", "memory", "cost", NULL};
const char *const pz_plan_risk_names[] = {"counted", "none", NULL};
const char *const pz_software_names[] = {"te", "deepep", "hybridep", "cuda-graphs", NULL};

/* ---- the question --------------------------------------------------------------------------- */

enum pz_status pz_plan_question_of(const struct pz_job *job, const struct pz_plan *plan,
                                   uint64_t pinned, struct pz_plan_question *out,
                                   struct pz_error *err) {
  struct pz_plan_question q = {.job = *job, .plan = *plan, .pinned = pinned, .top = 1};
  /* the framework's defaults are those of one device: what is counted or searched is for the search */
  struct pz_plan one = *plan, none = pz_plan_default();
  uint64_t searched = pz_plan_searched();
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_kind kind = pz_plan_field((enum pz_plan_field)i)->kind;
    if (kind == PZ_PLAN_KIND_COUNT || kind >= PZ_PLAN_KIND_LIST) searched |= UINT64_C(1) << i;
    if (searched >> i & 1) pz_plan_field_copy(&one, &none, (enum pz_plan_field)i);
  }
  one.recompute_modules = 0;
  enum pz_status status = pz_plan_fill(&one, job->chip, err);
  if (status != PZ_OK) return status;
  const struct pz_framework *f = pz_plan_framework(&one);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++)
    if (!(searched >> i & 1) && pz_plan_is_unset(plan, (enum pz_plan_field)i))
      pz_plan_field_copy(&q.plan, &one, (enum pz_plan_field)i);
  if (plan->overlap < 0) q.plan.overlap = f->plan.overlap | f->turns_on;
  if (!(pinned & PZ_PLAN_PIN(RECOMPUTE)) || plan->recompute != PZ_RECOMPUTATION_SELECTIVE)
    q.plan.recompute_modules = 0;
  return *out = q, PZ_OK;
}

static enum pz_status check_question(const struct pz_plan_question *q, struct pz_error *err) {
  const struct pz_plan *p = &q->plan;
  enum pz_status status = pz_need_range("devices", p->devices, 1, 1 << 24, err);
  if (status == PZ_OK) status = pz_need_range("batch", p->batch, 1, 1 << 24, err);
  if (status == PZ_OK) status = pz_need_range("top", q->top, 0, 1000, err);
  if (status == PZ_OK && (p->shard < 0 || p->shard > p->devices))
    status = pz_fail(err, PZ_BAD_USE, "sharding over %lld replicas; accepted: 0 (all) to %lld",
                     (long long)p->shard, (long long)p->devices);
  if (status == PZ_OK && p->offload_layers && !(p->offload & PZ_OFFLOAD_ACTIVATIONS))
    status =
        pz_fail(err, PZ_BAD_USE, "offload_layers without offload activations; accepted: with it");
  if (status == PZ_OK && !(q->tie >= 0 && q->tie <= 1))
    status = pz_fail(err, PZ_BAD_USE, "tie %g; accepted: 0 to 1", q->tie);
  if (status == PZ_OK && !(q->deadline_s >= 0 && q->deadline_s <= 1e30))
    status = pz_fail(err, PZ_BAD_USE, "deadline_s %g; accepted: 0 (none) to 1e30", q->deadline_s);
  if (status == PZ_OK && q->deadline_s > 0 && !(q->tokens >= 1 && q->tokens <= 1e30))
    status = pz_fail(err, PZ_BAD_USE, "tokens %g with a deadline; accepted: 1 to 1e30", q->tokens);
  return status;
}

/* ---- ties ----------------------------------------------------------------------------------- */

/* Plans whose values are as good as equal to the model: of those within the question's tie of the best, the simplest.
 * Simpler is, one after another: less that no validated run has, where time is counted; fewer kinds of parallelism (tensor, context, expert, pipeline; data parallelism is in
 * all); smaller degrees (devices of a replica, ep, chunks); 1F1B; layers that divide evenly; less recomputation; less on
 * the host; a smaller microbatch; a lower ZeRO stage.  Grids are looked through from the simplest on, so that most are left out by their
 * degrees alone. */
enum {
  KEY = 13,
  DEGREES = 4
}; /* numbers of a key; those that a grid decides, the first at least */
enum { RECOMPUTED = 7, LAYERS_AWAY = 10 };

struct tie_key {
  int64_t v[KEY];
};

static struct tie_key tie_key(const struct pz_plan_space *space, const struct pz_plan *p) {
  int64_t blocks = space->n_blocks;
  unsigned unseen = 0;
  if (space->q->counted)
    unseen = pz_risk_unseen(&space->risk, pz_plan_features(p, &space->features), NULL);
  int64_t recomputed = 0, away = 0;
  struct pz_pipeline_shape shape = pz_plan_shape(p);
  for (int64_t j = 0; p->offload && j < p->pp * p->vpp; j++)
    away += pz_plan_offloaded(p, pz_plan_blocks(p, blocks, j));
  for (int64_t j = 0; p->recompute == PZ_RECOMPUTATION_FULL && j < p->pp * p->vpp; j++)
    recomputed += pz_plan_recomputed(p, pz_pipeline_stage_of(&shape, (uint32_t)j),
                                     pz_plan_blocks(p, blocks, j));
  static const int64_t rank[PZ_RECOMPUTATIONS] = {[PZ_RECOMPUTATION_SELECTIVE] = 1,
                                                  [PZ_RECOMPUTATION_ALTERNATE] = 2,
                                                  [PZ_RECOMPUTATION_HALF] = 3,
                                                  [PZ_RECOMPUTATION_FULL] = 4};
  return (struct tie_key){
      {unseen, (p->tp > 1) + (pz_plan_cp(p) > 1) + (pz_plan_ep(p) > 1) + (p->pp > 1),
       p->tp * pz_plan_cp(p) * p->pp, pz_plan_ep(p), p->vpp, p->pipeline > PZ_PIPELINE_INTERLEAVED,
       p->first_layers || p->last_layers, rank[p->recompute], recomputed,
       (int64_t)(1e6 * pz_plan_away(p)), away, p->mbs, p->zero}};
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
  struct pz_plan p = pz_plan_grid_plan(space, g);
  return tie_key(space, &p);
}

static bool within(const struct ties *t, const struct pz_plan *p, double step_s) {
  double cutoff_s = t->s->cutoff_s;
  return (!(cutoff_s > 0) || step_s <= cutoff_s) &&
         pz_plan_value(t->s->space, p, step_s, 0) <= t->limit;
}

/* One plan on its way: is it simpler, equal in value, and does it fit? */
static enum pz_status try_simpler(struct ties *t, const struct pz_step_shape *x,
                                  struct pz_plan *p) {
  struct pz_plan_pricing *s = t->s;
  double bound = 0, bytes = 0;
  bool away = pz_plan_chooses_layers(s->space->q, p);
  bool full = p->recompute == PZ_RECOMPUTATION_FULL && !away;
  struct pz_found_plan one;
  struct tie_key key = tie_key(s->space, p);
  /* the least that it may come to: none at all is a way of its own, unless full is pinned */
  if (full) key.v[RECOMPUTED] = !(s->space->q->pinned & PZ_PLAN_PIN(RECOMPUTE));
  int known = full ? RECOMPUTED + 1 : away ? LAYERS_AWAY : KEY;
  if (compare_keys(&key, &t->best, known) > 0) return PZ_OK;
  struct pz_plan least = pz_plan_unburdened(p);
  enum pz_status status = pz_plan_pricing_least_s(s, x, &least, &bound);
  if (status != PZ_OK || !within(t, p, bound)) return status;
  s->memory->enough_bytes = s->memory->hbm_bytes;
  s->memory->least = false;
  status = pz_plan_memory_bytes(s->memory, x, p, &bytes);
  if (status != PZ_OK || bytes > s->memory->hbm_bytes) return status;
  key = tie_key(s->space, p);
  if (compare_keys(&key, &t->best, KEY) >= 0) return PZ_OK;
  one.plan = *p;
  status = pz_step_price(x->m, p, &one.p, NULL, s->space->err);
  if (status != PZ_OK || !within(t, p, one.p.step_s)) return status;
  t->best = key;
  return pz_plan_pricing_copy(s, &one, &s->found.simplest);
}

static enum pz_status try_ways(void *ctx, const struct pz_step_shape *x, struct pz_plan *p) {
  struct ties *t = ctx;
  enum pz_status status = PZ_OK;
  t->s->first_s = -1;
  pz_progress_add(t->s->space->q->progress, 0);
  if (pz_plan_question_over(t->s->space->q)) return PZ_STOPPED;
  for (size_t i = 0; i < pz_plan_space_ways(t->s->space) && status == PZ_OK; i++)
    if (pz_plan_space_take(t->s->space, p, i)) status = try_simpler(t, x, p);
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

/* A search that ends early ends well where it has a plan. */
static enum pz_status pricing_stop(struct pz_plan_pricing *s, enum pz_status status) {
  if (status != PZ_STOPPED || !s->found.n) return status;
  s->found.stopped = true;
  if (s->space->err) *s->space->err = (struct pz_error){0};
  return PZ_OK;
}

static enum pz_status find_simplest(struct pz_plan_pricing *s) {
  const struct pz_plan_question *q = s->space->q;
  const struct pz_vec *grids = &s->space->grids;
  const struct pz_found_plan *best = &s->found.list[0];
  double value = pz_plan_value(s->space, &best->plan, best->p.step_s, best->p.needed_bytes);
  struct ties t = {.s = s, .limit = value * (1 + q->tie), .best = tie_key(s->space, &best->plan)};
  s->found.simplest = *best;
  if (!(q->tie > 0) || q->objective != PZ_PLAN_TIME || s->found.stopped) return PZ_OK;
  struct candidate *list = pz_arena_alloc(s->arena, grids->n, sizeof *list);
  if (!list) return pz_plan_no_memory(s->space);
  uint32_t n = 0;
  for (uint32_t i = 0; i < grids->n; i++) {
    const struct pz_plan_grid *g = pz_grid_at(s->space, i);
    if (g->bound <= t.limit) list[n++] = (struct candidate){grid_key(s->space, g), i};
  }
  qsort(list, n, sizeof *list, by_simplicity);
  pz_progress_next(q->progress, "simplest", "grids", n);
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    if (compare_keys(&list[i].key, &t.best, DEGREES) > 0) break;
    const struct pz_plan_grid *g = pz_grid_at(s->space, list[i].grid);
    status = pz_plan_space_each(s->space, g, false, try_ways, &t);
    pz_progress_add(q->progress, 1);
  }
  pz_progress_finish(q->progress, NULL);
  return pricing_stop(s, status);
}

/* ---- the search ----------------------------------------------------------------------------- */

static enum pz_status price_grids(struct pz_plan_pricing *s) {
  struct pz_plan_space *space = s->space;
  struct pz_found_plan *least = &s->found.least;
  enum pz_status status = PZ_OK;
  pz_plan_grids_sort(&space->grids);
  pz_progress_next(space->q->progress, "plans", "grids", space->grids.n);
  for (uint32_t i = 0; i < space->grids.n && status == PZ_OK && !s->found.stopped; i++) {
    const struct pz_plan_grid *g = pz_grid_at(space, i);
    status = pricing_stop(s, pz_plan_pricing_grid(s, g));
    if (s->found.stopped) { /* no plan of this grid or a later one is better than its bound */
      const struct pz_found_plan *best = &s->found.list[0];
      double value = pz_plan_value(space, &best->plan, best->p.step_s, best->p.needed_bytes);
      s->found.certificate.gap = pz_fmax(0, 1 - g->bound / value);
    }
    pz_progress_add(space->q->progress, 1);
  }
  pz_progress_finish(space->q->progress, NULL);
  if (status == PZ_OK && !s->found.certificate.plans) return pz_plan_space_empty(space);
  if (s->found.n) s->found.has_least = false;
  if (status != PZ_OK || !s->found.has_least) return status;
  return pz_step_price(s->least_shape->m, &least->plan, &least->p, NULL, space->err);
}

/* ---- other kinds ---------------------------------------------------------------------------- */

/* A kind whose best plan takes longer than this times the best of all is not listed.  Chosen. */
static const double CANDIDATE = 1.25;

/* Could a plan of the grid be of this kind?  The framework may have no ZeRO-3 there. */
static bool may_be(const struct pz_plan_space *space, struct pz_plan p, int kind) {
  if ((pz_plan_kind(&p) ^ kind) & PZ_GRID_KINDS) return false;
  p.zero = kind & PZ_ZERO_3_KIND ? 3 : 0;
  pz_plan_space_settle(space, &p);
  return !p.zero || pz_rule_list_group_can(&space->rules, PZ_RULE_SHARDS, &p, &space->model);
}

/* The best plan of a kind, if one fits. */
static enum pz_status find_kind(const struct pz_plan_pricing *from, int kind,
                                struct pz_found_plan *best, bool *has) {
  struct pz_plan_pricing s = *from;
  enum pz_status status = PZ_OK;
  s.found = (struct pz_found_plans){.list = best};
  s.top = 1;
  s.kind = kind;
  double limit_s = CANDIDATE * from->found.list[0].p.step_s;
  s.cutoff_s = s.cutoff_s > 0 ? pz_fmin(s.cutoff_s, limit_s) : limit_s;
  for (uint32_t i = 0; i < s.space->grids.n && status == PZ_OK; i++) {
    const struct pz_plan_grid *g = pz_grid_at(s.space, i);
    if (!pz_plan_pricing_promises(&s, g) || !may_be(s.space, pz_plan_grid_plan(s.space, g), kind))
      continue;
    status = pz_plan_pricing_grid(&s, g);
  }
  *has = s.found.n > 0;
  return status;
}

static int by_counted(const struct pz_plan_space *space, const struct pz_found_plan *a,
                      const struct pz_found_plan *b) {
  double x = pz_plan_value(space, &a->plan, a->p.step_s, a->p.needed_bytes),
         y = pz_plan_value(space, &b->plan, b->p.step_s, b->p.needed_bytes);
  return (x > y) - (x < y);
}

static enum pz_status find_kinds(struct pz_plan_pricing *s) {
  struct pz_found_plans *f = &s->found;
  enum pz_status status = PZ_OK;
  struct pz_found_plan *list = pz_arena_alloc(s->arena, f->n + PZ_PLAN_KINDS, sizeof *list);
  if (!list) return pz_plan_no_memory(s->space);
  memcpy(list, f->list, f->n * sizeof *list);
  f->list = list;
  for (int kind = 0; kind < PZ_PLAN_KINDS && status == PZ_OK; kind++) {
    struct pz_found_plan one;
    bool has = false;
    bool away = kind & PZ_OFFLOAD_KIND;
    if (kind == pz_plan_kind(&f->simplest.plan) || (away && !s->space->q->plan.offload)) continue;
    status = find_kind(s, kind, &one, &has);
    uint32_t at = f->n + f->n_kinds;
    if (status != PZ_OK || !has) continue;
    for (; at > f->n && by_counted(s->space, &one, &list[at - 1]) < 0; at--)
      list[at] = list[at - 1];
    list[at] = one;
    f->n_kinds++;
  }
  if (f->n_kinds > s->space->q->kinds) f->n_kinds = s->space->q->kinds;
  if (status == PZ_STOPPED && s->space->err) *s->space->err = (struct pz_error){0};
  return status == PZ_STOPPED ? PZ_OK : status; /* the best plan itself is proved */
}

static enum pz_status search_space(const struct pz_plan_question *q, struct pz_arena *arena,
                                   struct pz_found_plans *out, struct pz_error *err) {
  struct pz_arena work;
  struct pz_plan_space space;
  struct pz_plan_memory memory;
  struct pz_plan_pricing pricing;
  enum pz_status status = check_question(q, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&work, NULL);
  pz_plan_space_init(&space, q, &work);
  pz_plan_memory_init(&memory, &space, false);
  pz_plan_memory_set_chip(&memory, q->job.chip);
  status = pz_plan_space_list(&space, err);
  if (status == PZ_OK) status = pz_plan_memory_begin(&memory, &work);
  if (status == PZ_OK) status = pz_plan_pricing_begin(&pricing, &space, &memory, arena);
  if (status == PZ_OK) status = price_grids(&pricing);
  if (status == PZ_OK && pricing.found.n) status = find_simplest(&pricing);
  if (status == PZ_OK && pricing.found.n && q->kinds && !pricing.found.stopped)
    status = find_kinds(&pricing);
  if (status == PZ_OK) {
    pricing.found.experts = space.model.experts;
    pz_text_copy(pricing.found.warning, sizeof pricing.found.warning, space.warning);
    *out = pricing.found;
  }
  pz_plan_memory_release(&memory);
  pz_plan_space_release(&space);
  pz_arena_release(&work);
  return status;
}

enum pz_status pz_plan_search(const struct pz_plan_question *q, struct pz_arena *arena,
                              struct pz_found_plans *out, struct pz_error *err) {
  enum pz_status status = search_space(q, arena, out, err);
  if (status == PZ_STOPPED && !q->ending && !pz_progress_stopped(q->progress)) {
    if (err) *err = (struct pz_error){0};
    return pz_fail(err, PZ_NO_ANSWER,
                   "the time was over before a plan was found that fits; accepted: more seconds");
  }
  if (status != PZ_OK || out->n || !(q->deadline_s > 0)) return status;
  struct pz_plan_question fastest = *q;
  fastest.deadline_s = 0;
  fastest.objective = PZ_PLAN_TIME;
  status = search_space(&fastest, arena, out, err);
  if (status == PZ_OK) out->late = out->n > 0;
  return status;
}
