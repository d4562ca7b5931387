#include "place/plan_frontier.h"

#include <math.h>
#include <string.h>

enum { MOST_BYTES = 256 << 20, MOST_COUNTS = 64 };

/* ---- in one piece ------------------------------------------------------------------------------- */

/* A frontier while it is made: plans none of which is never slower than another, and the counts of their stages. */
struct listed_plan {
  struct pz_plan plan;
  uint32_t first_count, n_counts;
};

struct frontier_list {
  struct pz_plan_frontiers *s;
  struct pz_arena arena;
  struct pz_vec plans, counts; /* struct listed_plan, struct pz_term_counts */
};

static void begin_list(struct frontier_list *list, struct pz_plan_frontiers *s) {
  *list = (struct frontier_list){.s = s};
  pz_arena_init(&list->arena, NULL);
  pz_vec_init(&list->plans, &list->arena, sizeof(struct listed_plan));
  pz_vec_init(&list->counts, &list->arena, sizeof(struct pz_term_counts));
}

_Static_assert(sizeof(struct pz_frontier) % sizeof(double) == 0 &&
                   sizeof(struct pz_frontier_plan) % sizeof(double) == 0,
               "counts lie behind the plans");

/* The i-th of all: pz_terms_of(f->kinds) of them. */
static const double *counts_from(const struct pz_frontier *f, uint32_t i) {
  const double *all = (const double *)(const void *)(pz_frontier_plans(f) + f->n_plans);
  return all + (size_t)i * pz_terms_of(f->kinds);
}

static const int64_t *stages_from(const struct pz_frontier *f, uint32_t first) {
  return (const int64_t *)(const void *)counts_from(f, f->n_counts) + first;
}

static size_t frontier_bytes(const struct pz_frontier *f) {
  return sizeof *f + f->n_plans * sizeof(struct pz_frontier_plan) +
         (size_t)f->n_counts * pz_terms_of(f->kinds) * sizeof(double) +
         f->n_stages * sizeof(int64_t);
}

/* NULL: out of memory. */
static struct pz_frontier *pack(struct frontier_list *list, uint32_t kinds) {
  struct pz_frontier head = {list->plans.n, list->counts.n, 0, kinds};
  for (uint32_t i = 0; i < head.n_plans; i++) {
    const struct pz_plan *p = &pz_vec_at(&list->plans, struct listed_plan, i)->plan;
    if (p->stage_recompute) head.n_stages += (uint32_t)p->pp;
  }
  struct pz_frontier *f = pz_arena_alloc(&list->arena, 1, frontier_bytes(&head));
  if (!f) return NULL;
  *f = head;
  struct pz_frontier_plan *plans = (struct pz_frontier_plan *)(f + 1);
  double *counts = (double *)(void *)(plans + f->n_plans);
  int64_t *stages = (int64_t *)(void *)(counts + (size_t)f->n_counts * pz_terms_of(kinds));
  uint32_t stage = 0;
  for (uint32_t i = 0; i < f->n_plans; i++) {
    const struct listed_plan *p = pz_vec_at(&list->plans, struct listed_plan, i);
    const struct pz_plan *x = &p->plan;
    plans[i] = (struct pz_frontier_plan){.first_count = p->first_count,
                                         .n_counts = p->n_counts,
                                         .first_stage = x->stage_recompute ? stage : PZ_NONE,
                                         .vpp = (int32_t)x->vpp,
                                         .first_layers = (int32_t)x->first_layers,
                                         .last_layers = (int32_t)x->last_layers,
                                         .recompute_layers = (int32_t)x->recompute_layers,
                                         .zero = (uint8_t)x->zero,
                                         .pipeline = (uint8_t)x->pipeline,
                                         .recompute = (uint8_t)x->recompute};
    for (int64_t k = 0; x->stage_recompute && k < x->pp; k++)
      stages[stage++] = x->stage_recompute[k];
  }
  for (uint32_t i = 0; i < f->n_counts; i++)
    for (uint32_t k = 0; k < pz_terms_of(kinds); k++)
      *counts++ = pz_vec_at(&list->counts, struct pz_term_counts, i)->n[pz_term_at(kinds, k)];
  return f;
}

struct pz_plan pz_frontier_unpack(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                                  const struct pz_plan_space *space, const struct pz_plan_grid *g) {
  struct pz_plan plan = pz_plan_grid_plan(space, g);
  plan.vpp = p->vpp;
  plan.first_layers = p->first_layers;
  plan.last_layers = p->last_layers;
  plan.recompute_layers = p->recompute_layers;
  plan.zero = p->zero;
  plan.pipeline = p->pipeline;
  plan.recompute = p->recompute;
  plan.stage_recompute = p->first_stage == PZ_NONE ? NULL : stages_from(f, p->first_stage);
  plan.n_stage_recompute = plan.pp;
  pz_plan_space_settle(space, &plan);
  return plan;
}

/* The longest stage of the plan. */
double pz_frontier_plan_s(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                          const struct pz_term_seconds *t) {
  uint32_t n = pz_terms_of(f->kinds);
  const double *counts = counts_from(f, p->first_count);
  double most = 0;
  for (uint32_t i = 0; i < p->n_counts; i++, counts += n) {
    double s = 0;
    for (uint32_t k = 0; k < n; k++) s += counts[k] * t->s[k];
    most = pz_fmax(most, s);
  }
  return most * (1 - 1e-9);
}

double pz_frontier_least_s(const struct pz_frontier *f, const struct pz_term_seconds *t) {
  double least = HUGE_VAL;
  for (uint32_t i = 0; i < f->n_plans; i++)
    least = pz_fmin(least, pz_frontier_plan_s(f, &pz_frontier_plans(f)[i], t));
  return least;
}

/* ---- counts of plans ---------------------------------------------------------------------------- */

static bool counts_below(const struct pz_term_counts *a, const struct pz_term_counts *b) {
  for (int i = 0; i < PZ_TERMS; i++)
    if (a->n[i] > b->n[i]) return false;
  return true;
}

/* Is a plan with these counts never slower than the other? */
static bool all_counts_below(const struct pz_term_counts *a, uint32_t n_a,
                             const struct pz_term_counts *b, uint32_t n_b) {
  for (uint32_t i = 0; i < n_a; i++) {
    bool below = false;
    for (uint32_t k = 0; k < n_b && !below; k++) below = counts_below(&a[i], &b[k]);
    if (!below) return false;
  }
  return true;
}

/* Of each stage with what runs before it, without ones that are below another.  The waiting of the plan's devices counts as
 * more of every term. */
static uint32_t plan_counts(const struct pz_plan_question *q, const struct pz_step_shape *x,
                            const struct pz_plan *p, struct pz_term_counts out[MOST_COUNTS]) {
  struct pz_term_counts before = {{0}};
  double waiting = pz_step_waiting(q->job.constants, q->job.net, pz_plan_devices(p));
  double microbatches = (double)pz_plan_microbatches(p) * (1 + waiting);
  uint32_t n = 0;
  for (int64_t k = 0; k < p->pp; k++) {
    struct pz_term_counts own = before;
    for (int64_t c = 0; c < p->vpp; c++)
      pz_term_counts_add(x, p, c * p->pp + k, microbatches, &own);
    pz_term_counts_add(x, p, k, 1 + waiting, &before);
    if (all_counts_below(&own, 1, out, n)) continue;
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++)
      if (!counts_below(&out[i], &own)) out[left++] = out[i];
    n = left;
    if (n < MOST_COUNTS) out[n++] = own; /* fewer only make the bound lower */
  }
  return n;
}

/* Has the list a plan that is never slower?  Of a grid (p) with the same layers in every chunk: these decide what the
 * largest stage updates and exchanges, and what hides that and transfers; of a shape (p NULL) by the counts alone. */
static bool is_dominated(const struct frontier_list *f, const struct pz_plan *p,
                         const struct pz_term_counts *counts, uint32_t n) {
  for (uint32_t i = 0; i < f->plans.n; i++) {
    const struct listed_plan *q = pz_vec_at(&f->plans, struct listed_plan, i);
    bool same =
        !p || (q->plan.zero == p->zero && q->plan.pipeline == p->pipeline &&
               q->plan.overlap == p->overlap && q->plan.vpp == p->vpp &&
               q->plan.first_layers == p->first_layers && q->plan.last_layers == p->last_layers);
    if (same && all_counts_below(pz_vec_at(&f->counts, struct pz_term_counts, q->first_count),
                                 q->n_counts, counts, n))
      return true;
  }
  return false;
}

static enum pz_status add_plan(struct frontier_list *f, struct listed_plan one,
                               const struct pz_term_counts *counts) {
  one.first_count = f->counts.n;
  if (one.plan.stage_recompute) {
    size_t stages = (size_t)one.plan.pp;
    int64_t *copy = pz_arena_alloc(&f->arena, stages, sizeof *copy);
    if (!copy) return pz_plan_no_memory(f->s->space);
    one.plan.stage_recompute = memcpy(copy, one.plan.stage_recompute, stages * sizeof *copy);
  }
  for (uint32_t i = 0; i < one.n_counts; i++)
    if (!pz_vec_push(&f->counts, &counts[i])) return pz_plan_no_memory(f->s->space);
  return pz_vec_push(&f->plans, &one) ? PZ_OK : pz_plan_no_memory(f->s->space);
}

/* ---- frontiers that are known ------------------------------------------------------------------- */

static void begin_frontiers(struct pz_plan_frontiers *s) {
  pz_arena_init(&s->arena, NULL);
  pz_map_init(&s->at, &s->arena);
  pz_vec_init(&s->known, &s->arena, sizeof(const struct pz_frontier *));
}

void pz_plan_frontiers_init(struct pz_plan_frontiers *s, struct pz_plan_space *space,
                            struct pz_plan_memory *memory) {
  *s = (struct pz_plan_frontiers){.space = space, .memory = memory};
  begin_frontiers(s);
}

void pz_plan_frontiers_release(struct pz_plan_frontiers *s) { pz_arena_release(&s->arena); }

void pz_plan_frontiers_trim(struct pz_plan_frontiers *s) {
  if (s->arena.total_bytes <= MOST_BYTES) return;
  pz_arena_release(&s->arena);
  begin_frontiers(s);
}

/* Frontiers of grids, with their number, and of shapes, with -1 - theirs. */
struct frontier_key {
  int64_t of, question, item, hbm_bytes;
};

static struct frontier_key frontier_key(const struct pz_plan_frontiers *s, int64_t item) {
  return (struct frontier_key){PZ_SHARED_FRONTIER, s->space->q->shared_as, item,
                               (int64_t)s->memory->hbm_bytes};
}

static enum pz_status note_frontier(struct pz_plan_frontiers *s, const struct frontier_key *key,
                                    const struct pz_frontier *one) {
  uint32_t at = s->known.n;
  bool noted = pz_vec_push(&s->known, &one) && pz_map_put(&s->at, key, sizeof *key, at) == PZ_OK;
  return noted ? PZ_OK : pz_plan_no_memory(s->space);
}

/* One that has been made: by this finder, or by another.  NULL: none has. */
static enum pz_status known_frontier(struct pz_plan_frontiers *s, const struct frontier_key *key,
                                     const struct pz_frontier **out) {
  uint32_t at = pz_map_get(&s->at, key, sizeof *key);
  if (at != PZ_NONE) return *out = *pz_vec_at(&s->known, const struct pz_frontier *, at), PZ_OK;
  *out = pz_shared_table_get(s->space->q->shared, key, sizeof *key);
  return *out ? note_frontier(s, key, *out) : PZ_OK;
}

/* A list that is made, unless `status` says it is not, kept for this finder and others. */
static enum pz_status end_list(struct frontier_list *list, enum pz_status status,
                               const struct frontier_key *key, const struct pz_step_shape *x,
                               const struct pz_frontier **out) {
  struct pz_plan_frontiers *s = list->s;
  const struct pz_frontier *one = status == PZ_OK ? pack(list, x->m->kinds.n) : NULL;
  if (one) {
    size_t bytes = frontier_bytes(one);
    *out = pz_shared_table_put(s->space->q->shared, key, sizeof *key, one, bytes);
    void *own = *out ? NULL : pz_arena_alloc(&s->arena, 1, bytes);
    if (own) *out = memcpy(own, one, bytes);
  }
  pz_arena_release(&list->arena);
  if (status != PZ_OK) return status;
  return *out ? note_frontier(s, key, *out) : pz_plan_no_memory(s->space);
}

/* ---- of a grid, of a shape ---------------------------------------------------------------------- */

/* The plan on each way that memory asks for. */
static enum pz_status collect_plan(void *ctx, const struct pz_step_shape *x, struct pz_plan *p) {
  struct frontier_list *list = ctx;
  const struct pz_plan_memory *memory = list->s->memory;
  struct pz_term_counts counts[MOST_COUNTS];
  if (pz_plan_question_over(list->s->space->q)) return pz_plan_stopped(list->s->space);
  for (size_t i = 0; i < pz_plan_space_ways(list->s->space); i++) {
    if (!pz_plan_space_take(list->s->space, p, i)) continue;
    bool full = p->recompute == PZ_RECOMPUTATION_FULL;
    struct pz_plan least = pz_plan_unburdened(p);
    uint32_t n = plan_counts(list->s->space->q, x, &least, counts);
    if (is_dominated(list, p, counts, n)) continue;
    if (pz_plan_memory_once(memory, x, p) > memory->hbm_bytes) continue;
    enum pz_status status = PZ_OK;
    if (full) n = plan_counts(list->s->space->q, x, p, counts);
    if (!full || !is_dominated(list, p, counts, n))
      status = add_plan(list, (struct listed_plan){*p, 0, n}, counts);
    if (status != PZ_OK || i == 0) return status;
  }
  return PZ_OK;
}

enum pz_status pz_plan_frontier_grid(struct pz_plan_frontiers *s, uint32_t grid,
                                     const struct pz_frontier **out) {
  const struct pz_step_shape *x = pz_shape_at(s->space, pz_grid_at(s->space, grid)->shape);
  grid += pz_shape_at(s->space, x->like)->first_grid - x->first_grid;
  struct frontier_key key = frontier_key(s, grid);
  enum pz_status status = known_frontier(s, &key, out);
  if (status != PZ_OK || *out) return status;
  const struct pz_plan_grid *g = pz_grid_at(s->space, grid);
  struct frontier_list list;
  begin_list(&list, s);
  status = pz_plan_space_each(s->space, g, true, collect_plan, &list);
  return end_list(&list, status, &key, pz_shape_at(s->space, g->shape), out);
}

/* Plans of all grids of a shape, none of whose stages take less than another's whatever the chip, by layers, what is
 * recomputed of them and the ends alone. */
static enum pz_status merge_frontier(const struct pz_frontier *from, struct frontier_list *to) {
  for (uint32_t i = 0; i < from->n_plans; i++) {
    const struct pz_frontier_plan *p = &pz_frontier_plans(from)[i];
    struct pz_term_counts counts[MOST_COUNTS];
    for (uint32_t c = 0; c < p->n_counts; c++) {
      counts[c] = (struct pz_term_counts){{0}};
      for (uint32_t k = 0; k < pz_terms_of(from->kinds); k++)
        counts[c].n[pz_term_at(from->kinds, k)] = counts_from(from, p->first_count + c)[k];
    }
    if (is_dominated(to, NULL, counts, p->n_counts)) continue;
    enum pz_status status = add_plan(to, (struct listed_plan){.n_counts = p->n_counts}, counts);
    if (status != PZ_OK) return status;
  }
  return PZ_OK;
}

enum pz_status pz_plan_frontier_shape(struct pz_plan_frontiers *s, uint32_t shape,
                                      const struct pz_frontier **out) {
  shape = pz_shape_at(s->space, shape)->like;
  const struct pz_step_shape *x = pz_shape_at(s->space, shape);
  struct frontier_key key = frontier_key(s, -1 - (int64_t)shape);
  enum pz_status status = known_frontier(s, &key, out);
  if (status != PZ_OK || *out) return status;
  struct frontier_list all;
  begin_list(&all, s);
  for (uint32_t i = x->first_grid; i < x->first_grid + x->n_grids && status == PZ_OK; i++) {
    const struct pz_frontier *one = NULL;
    status = pz_plan_frontier_grid(s, i, &one);
    if (status == PZ_OK) status = merge_frontier(one, &all);
  }
  return end_list(&all, status, &key, x, out);
}
