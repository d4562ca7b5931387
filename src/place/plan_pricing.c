#include "place/plan_pricing.h"

#include <math.h>
#include <string.h>

#include "core/num.h"

/* Of two plans that are worth the same: the one with less to set up. */
static bool simpler(const struct pz_plan *a, const struct pz_plan *b) {
  if (pz_plan_cp(a) != pz_plan_cp(b)) return pz_plan_cp(a) < pz_plan_cp(b);
  if (pz_plan_ep(a) != pz_plan_ep(b)) return pz_plan_ep(a) < pz_plan_ep(b);
  if (a->halves != b->halves) return a->halves < b->halves;
  if (a->vpp != b->vpp) return a->vpp < b->vpp;
  if (a->pp != b->pp) return a->pp < b->pp;
  if (a->tp != b->tp) return a->tp < b->tp;
  if (a->zero != b->zero) return a->zero < b->zero;
  bool again = a->recompute != PZ_RECOMPUTATION_NONE;
  if (again != (b->recompute != PZ_RECOMPUTATION_NONE)) return !again;
  return a->offload < b->offload;
}

/* Also of bounds: a plan that comes before another does so by its bounds too. */
static bool is_before(const struct pz_plan_pricing *s, const struct pz_found_plan *a,
                      const struct pz_found_plan *b) {
  double x = pz_plan_value(s->space, &a->plan, a->p.step_s, a->p.needed_bytes),
         y = pz_plan_value(s->space, &b->plan, b->p.step_s, b->p.needed_bytes);
  if (x != y) return x < y;
  if (a->p.step_s != b->p.step_s) return a->p.step_s < b->p.step_s;
  return simpler(&a->plan, &b->plan);
}

enum pz_status pz_plan_pricing_copy(struct pz_plan_pricing *s, const struct pz_found_plan *one,
                                    struct pz_found_plan *out) {
  size_t n = (size_t)one->plan.pp;
  *out = *one;
  if (!one->plan.stage_recompute) return PZ_OK;
  int64_t *stages = pz_arena_alloc(s->arena, n, sizeof *stages);
  if (!stages) return pz_plan_no_memory(s->space);
  out->plan.stage_recompute = memcpy(stages, one->plan.stage_recompute, n * sizeof *stages);
  return PZ_OK;
}

static enum pz_status keep(struct pz_plan_pricing *s, const struct pz_found_plan *found) {
  struct pz_found_plan one;
  enum pz_status status = pz_plan_pricing_copy(s, found, &one);
  if (status != PZ_OK) return status;
  uint32_t at = s->found.n < s->top ? s->found.n++ : s->found.n - 1;
  for (; at > 0 && is_before(s, &one, &s->found.list[at - 1]); at--)
    s->found.list[at] = s->found.list[at - 1];
  s->found.list[at] = one;
  return PZ_OK;
}

/* Of a plan that needs more than this no more need be known. */
static double most_bytes(const struct pz_plan_pricing *s) {
  const struct pz_found_plans *f = &s->found;
  if (s->memory->keeps) return s->memory->hbm_bytes;
  if (!f->n)
    return f->has_least ? pz_fmax(s->memory->hbm_bytes, f->least.p.needed_bytes) : HUGE_VAL;
  bool memory = s->space->q->objective == PZ_PLAN_MEMORY && f->n == s->top;
  return memory ? f->list[f->n - 1].p.needed_bytes : s->memory->hbm_bytes;
}

/* Where nothing has been found to fit: the plan that needs least. */
static void note_least(struct pz_plan_pricing *s, const struct pz_step_shape *x,
                       const struct pz_plan *p, double bytes) {
  if (s->memory->keeps || s->found.n || bytes == HUGE_VAL ||
      (s->found.has_least && bytes >= s->found.least.p.needed_bytes))
    return;
  s->found.has_least = true;
  s->found.least = (struct pz_found_plan){.plan = *p, .p = {.needed_bytes = bytes}};
  s->least_shape = x;
  if (!p->stage_recompute) return;
  memcpy(s->least_stages, p->stage_recompute, (size_t)p->pp * sizeof *s->least_stages);
  s->found.least.plan.stage_recompute = s->least_stages;
}

/* Could a plan with this bound of its time, or bytes, be among the best?  */
static bool promises(const struct pz_plan_pricing *s, const struct pz_plan *p, double bound_s,
                     double bytes) {
  if (s->cutoff_s > 0 && bound_s >= s->cutoff_s) return false;
  if (s->found.n < s->top) return true;
  struct pz_found_plan one = {.plan = *p, .p = {.step_s = bound_s, .needed_bytes = bytes}};
  return is_before(s, &one, &s->found.list[s->found.n - 1]);
}

enum pz_status pz_plan_pricing_add(struct pz_plan_pricing *s, const struct pz_step_shape *x,
                                   const struct pz_plan *p) {
  struct pz_found_plan one = {.plan = *p};
  enum pz_status status = pz_step_price(x->m, p, &one.p, NULL, s->space->err);
  if (status != PZ_OK) return status;
  s->found.certificate.solved++;
  return promises(s, p, one.p.step_s, one.p.needed_bytes) ? keep(s, &one) : PZ_OK;
}

enum pz_status pz_plan_pricing_least_s(struct pz_plan_pricing *s, const struct pz_step_shape *x,
                                       const struct pz_plan *least, double *bound_s) {
  const struct pz_plan *first = &s->first;
  bool same = s->first_s >= 0 && first->recompute == least->recompute &&
              first->overlap == least->overlap && first->offload == least->offload &&
              first->offload_fraction == least->offload_fraction;
  if (same) return *bound_s = s->first_s, PZ_OK;
  enum pz_status status = pz_step_bound(x->m, least, bound_s, s->space->err);
  if (status == PZ_OK && s->first_s < 0) s->first = *least, s->first_s = *bound_s;
  return status;
}

/* Can a bound exclude plans already? */
static bool has_rival(const struct pz_plan_pricing *s) {
  return s->found.n == s->top || s->cutoff_s > 0;
}

/* A plan on its way: excluded by the bound before memory has asked for anything, by memory, by the bound with what it
 * asks for, or simulated. */
static enum pz_status try_way(struct pz_plan_pricing *s, const struct pz_step_shape *x,
                              struct pz_plan *p, bool all_overlap) {
  struct pz_plan_certificate *c = &s->found.certificate;
  bool asks = p->recompute == PZ_RECOMPUTATION_FULL || pz_plan_chooses_layers(s->space->q, p),
       memory = s->space->q->objective == PZ_PLAN_MEMORY;
  enum pz_status status = PZ_OK;
  double bound = 0, bytes = 0;
  if (!memory && has_rival(s)) {
    struct pz_plan least = pz_plan_unburdened(p);
    if (s->most_overlap_s >= 0 && !promises(s, &least, s->most_overlap_s, 0))
      return c->by_bound++, PZ_OK;
    status = pz_plan_pricing_least_s(s, x, &least, &bound);
    if (status != PZ_OK) return status;
    if (all_overlap) s->most_overlap_s = bound;
    if (!promises(s, &least, bound, 0)) return c->by_bound++, PZ_OK;
  }
  s->memory->enough_bytes = most_bytes(s);
  s->memory->least = !s->found.n && !s->memory->keeps;
  status = pz_plan_memory_bytes(s->memory, x, p, &bytes);
  if (status != PZ_OK) return status;
  if (bytes > s->memory->hbm_bytes) note_least(s, x, p, bytes);
  if (bytes > pz_fmin(s->memory->hbm_bytes, most_bytes(s))) return c->by_memory++, PZ_OK;
  if ((asks || memory) && has_rival(s)) {
    status = pz_step_bound(x->m, p, &bound, s->space->err);
    if (status != PZ_OK) return status;
    if (!promises(s, p, bound, bytes)) return c->by_bound++, PZ_OK;
  }
  return pz_plan_pricing_add(s, x, p);
}

/* Where nothing need be recomputed or be away, that only takes time. */
static enum pz_status try_plan(void *ctx, const struct pz_step_shape *x, struct pz_plan *p) {
  struct pz_plan_pricing *s = ctx;
  struct pz_plan_certificate *c = &s->found.certificate;
  enum pz_status status = PZ_OK;
  uint64_t before = c->by_memory;
  s->first_s = -1;
  pz_progress_add(s->space->q->progress, 0);
  if (pz_plan_question_over(s->space->q)) return pz_plan_stopped(s->space);
  for (size_t i = 0; i < pz_plan_space_ways(s->space) && status == PZ_OK; i++) {
    bool first = i < s->space->overlaps, all_overlap = i % s->space->overlaps == 0;
    if (all_overlap) s->most_overlap_s = -1;
    if (!pz_plan_space_take(s->space, p, i)) continue;
    if (s->kind >= 0 && pz_plan_kind(p) != s->kind) continue;
    c->plans++;
    bool pinned = s->space->q->pinned & PZ_PLAN_PIN(RECOMPUTE) || s->space->way[0].activations;
    bool fits = s->space->ways.allowed[0] && c->by_memory == before;
    if (!first && !pinned && s->space->q->objective != PZ_PLAN_MEMORY && fits)
      c->by_bound++;
    else
      status = try_way(s, x, p, all_overlap);
  }
  return status;
}

bool pz_plan_pricing_promises(const struct pz_plan_pricing *s, const struct pz_plan_grid *g) {
  struct pz_plan p = pz_plan_grid_plan(s->space, g);
  return promises(s, &p, g->bound_s, 0);
}

enum pz_status pz_plan_pricing_grid(struct pz_plan_pricing *s, const struct pz_plan_grid *g) {
  if (pz_plan_pricing_promises(s, g)) return pz_plan_space_each(s->space, g, false, try_plan, s);
  if (pz_plan_question_over(s->space->q)) return pz_plan_stopped(s->space);
  uint64_t plans;
  enum pz_status status = pz_plan_space_count(s->space, g, &plans);
  s->found.certificate.plans += plans;
  s->found.certificate.by_bound += plans;
  return status;
}

enum pz_status pz_plan_pricing_begin(struct pz_plan_pricing *s, struct pz_plan_space *space,
                                     struct pz_plan_memory *memory, struct pz_arena *arena) {
  *s = (struct pz_plan_pricing){.space = space, .memory = memory, .arena = arena, .kind = -1};
  s->top = space->q->top ? space->q->top : 1;
  if (space->q->deadline_s > 0) {
    double step_tokens = (double)(space->q->plan.batch * space->seq);
    s->cutoff_s = space->q->deadline_s / ceil(space->q->tokens / step_tokens);
  }
  s->least_stages = pz_arena_alloc(arena, (size_t)space->n_blocks + 2, sizeof *s->least_stages);
  s->found.list = pz_arena_alloc(arena, s->top, sizeof *s->found.list);
  return s->least_stages && s->found.list ? PZ_OK : pz_plan_no_memory(space);
}
