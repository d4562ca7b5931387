/* Makes and stores frontiers of plans (plan_frontier.h).
 *
 * pz_plan_frontier_grid() visits the plans of a grid and lists those that fit and that no listed plan dominates
 * (add_grid_plan).  pz_plan_frontier_shape() merges the frontiers of all grids of a shape by their counts alone.  A
 * finished list is packed into one piece of memory (pack_frontier) and stored (store_frontier). */
#include "place/plan_frontier.h"

#include <math.h>
#include <string.h>

enum { MAX_FRONTIER_BYTES = 256 << 20, MAX_PLAN_COUNTS = 64 };

/* ---- the packed form ------------------------------------------------------------------------ */

_Static_assert(sizeof(struct pz_frontier) % sizeof(double) == 0 &&
                   sizeof(struct pz_frontier_plan) % sizeof(double) == 0,
               "counts are stored after the plans");

/* The i-th of all counts, which has pz_terms_of(f->kinds) numbers. */
static const double *frontier_counts(const struct pz_frontier *f, uint32_t i) {
  const double *all = (const double *)(const void *)(pz_frontier_plans(f) + f->n_plans);
  return all + (size_t)i * pz_terms_of(f->kinds);
}

static size_t frontier_bytes(const struct pz_frontier *f) {
  return sizeof *f + f->n_plans * sizeof(struct pz_frontier_plan) +
         (size_t)f->n_counts * pz_terms_of(f->kinds) * sizeof(double) +
         f->n_stages * sizeof(int64_t);
}

/* A frontier in the making: plans that no other plan dominates, and the counts of their stages. */
struct listed_plan {
  struct pz_plan plan;
  uint32_t first_count, n_counts;
};

struct frontier_list {
  struct pz_plan_frontiers *frontiers;
  struct pz_call memory;       /* intermediate memory of the list */
  struct pz_vec plans, counts; /* struct listed_plan, struct pz_term_counts */
};

static struct frontier_list begin_list(struct pz_call *call, struct pz_plan_frontiers *s) {
  struct frontier_list list = {.frontiers = s, .memory = pz_scratch(call)};
  pz_vec_init(&list.plans, list.memory.arena, sizeof(struct listed_plan));
  pz_vec_init(&list.counts, list.memory.arena, sizeof(struct pz_term_counts));
  return list;
}

static const struct pz_frontier *pack_frontier(struct frontier_list *list, uint32_t kinds) {
  struct pz_frontier head = {list->plans.n, list->counts.n, 0, kinds};
  for (uint32_t i = 0; i < head.n_plans; i++) {
    const struct pz_plan *p = &pz_vec_at(&list->plans, struct listed_plan, i)->plan;
    if (p->stage_recompute) head.n_stages += (uint32_t)p->pp;
  }
  struct pz_frontier *f = pz_alloc(&list->memory, 1, frontier_bytes(&head));
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
  const int64_t *stages = (const int64_t *)(const void *)frontier_counts(f, f->n_counts);
  struct pz_plan plan = pz_plan_grid_plan(space, g);
  plan.vpp = p->vpp;
  plan.first_layers = p->first_layers;
  plan.last_layers = p->last_layers;
  plan.recompute_layers = p->recompute_layers;
  plan.zero = p->zero;
  plan.pipeline = p->pipeline;
  plan.recompute = p->recompute;
  plan.stage_recompute = p->first_stage == PZ_NONE ? NULL : stages + p->first_stage;
  plan.n_stage_recompute = plan.pp;
  pz_plan_set_derived(space, &plan);
  return plan;
}

double pz_frontier_plan_s(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                          const struct pz_term_seconds *t) {
  uint32_t n = pz_terms_of(f->kinds);
  const double *counts = frontier_counts(f, p->first_count);
  double longest_s = 0;
  for (uint32_t i = 0; i < p->n_counts; i++, counts += n) {
    double s = 0;
    for (uint32_t k = 0; k < n; k++) s += counts[k] * t->s[k];
    longest_s = pz_fmax(longest_s, s);
  }
  return longest_s * (1 - 1e-9); /* the step adds up the same terms in another order */
}

double pz_frontier_least_s(const struct pz_frontier *f, const struct pz_term_seconds *t) {
  double least = HUGE_VAL;
  for (uint32_t i = 0; i < f->n_plans; i++)
    least = pz_fmin(least, pz_frontier_plan_s(f, &pz_frontier_plans(f)[i], t));
  return least;
}

/* ---- dominance ------------------------------------------------------------------------------ */

static bool counts_at_most(const struct pz_term_counts *a, const struct pz_term_counts *b) {
  for (int i = 0; i < PZ_TERMS; i++)
    if (a->n[i] > b->n[i]) return false;
  return true;
}

/* Whether a plan with the counts a is never slower than one with the counts b: each stage of a runs at most what some
 * stage of b runs. */
static bool never_slower(const struct pz_term_counts *a, uint32_t n_a,
                         const struct pz_term_counts *b, uint32_t n_b) {
  for (uint32_t i = 0; i < n_a; i++) {
    bool below = false;
    for (uint32_t k = 0; k < n_b && !below; k++) below = counts_at_most(&a[i], &b[k]);
    if (!below) return false;
  }
  return true;
}

/* Computes the counts of each stage together with what runs before it, and leaves out stages that another one dominates.
 * The time that devices wait for each other counts as more of every term.  Returns the number of counts. */
static uint32_t plan_counts(const struct pz_plan_question *q, const struct pz_step_shape *x,
                            const struct pz_plan *p, struct pz_term_counts out[MAX_PLAN_COUNTS]) {
  struct pz_term_counts before = {{0}};
  double waiting = pz_step_waiting(q->job.constants, q->job.net, pz_plan_devices(p));
  double microbatches = (double)pz_plan_microbatches(p) * (1 + waiting);
  uint32_t n = 0;
  for (int64_t k = 0; k < p->pp; k++) {
    struct pz_term_counts own = before;
    for (int64_t c = 0; c < p->vpp; c++)
      pz_term_counts_add(x, p, c * p->pp + k, microbatches, &own);
    pz_term_counts_add(x, p, k, 1 + waiting, &before);
    if (never_slower(&own, 1, out, n)) continue;
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++)
      if (!counts_at_most(&out[i], &own)) out[left++] = out[i];
    n = left;
    if (n < MAX_PLAN_COUNTS) out[n++] = own; /* a missing stage only lowers the bound */
  }
  return n;
}

/* Whether a listed plan is never slower.  For plans of a grid, p is given and only plans with the same layers in every
 * chunk are compared, because these decide what the largest stage updates and exchanges, and what hides that and
 * transfers.  For a shape, p is NULL and only counts are compared. */
static bool is_dominated(const struct frontier_list *list, const struct pz_plan *p,
                         const struct pz_term_counts *counts, uint32_t n) {
  for (uint32_t i = 0; i < list->plans.n; i++) {
    const struct listed_plan *l = pz_vec_at(&list->plans, struct listed_plan, i);
    const struct pz_plan *o = &l->plan;
    bool comparable =
        !p || (o->zero == p->zero && o->pipeline == p->pipeline && o->overlap == p->overlap &&
               o->vpp == p->vpp && o->first_layers == p->first_layers &&
               o->last_layers == p->last_layers);
    if (comparable && never_slower(pz_vec_at(&list->counts, struct pz_term_counts, l->first_count),
                                   l->n_counts, counts, n))
      return true;
  }
  return false;
}

/* ---- stored frontiers ----------------------------------------------------------------------- */

static void begin_frontiers(struct pz_plan_frontiers *s) {
  pz_arena_init(&s->arena, NULL);
  pz_map_init(&s->index, &s->arena);
  pz_vec_init(&s->known, &s->arena, sizeof(const struct pz_frontier *));
}

void pz_plan_frontiers_init(struct pz_plan_frontiers *s, struct pz_plan_space *space,
                            struct pz_plan_memory *memory) {
  *s = (struct pz_plan_frontiers){.space = space, .memory = memory};
  begin_frontiers(s);
}

void pz_plan_frontiers_release(struct pz_plan_frontiers *s) { pz_arena_release(&s->arena); }

void pz_plan_frontiers_trim(struct pz_plan_frontiers *s) {
  if (s->arena.total_bytes <= MAX_FRONTIER_BYTES) return;
  pz_arena_release(&s->arena);
  begin_frontiers(s);
}

struct frontier_key {
  int64_t table, question;
  int64_t item; /* a grid by its number, a shape by -1 - its number */
  int64_t hbm_bytes;
};

static struct frontier_key frontier_key(const struct pz_plan_frontiers *s, int64_t item) {
  return (struct frontier_key){PZ_SHARED_FRONTIER, s->space->q->shared_as, item,
                               (int64_t)s->memory->hbm_bytes};
}

static void note_frontier(struct pz_call *call, struct pz_plan_frontiers *s,
                          const struct frontier_key *key, const struct pz_frontier *f) {
  uint32_t at = s->known.n;
  pz_append(call, &s->known, &f);
  pz_map_set(call, &s->index, key, sizeof *key, at);
}

/* A frontier that this finder or another one has made, or NULL. */
static const struct pz_frontier *find_frontier(struct pz_call *call, struct pz_plan_frontiers *s,
                                               const struct frontier_key *key) {
  uint32_t at = pz_map_get(&s->index, key, sizeof *key);
  if (at != PZ_NONE) return *pz_vec_at(&s->known, const struct pz_frontier *, at);
  const struct pz_frontier *f = pz_shared_table_get(s->space->q->shared, key, sizeof *key);
  if (f) note_frontier(call, s, key, f);
  return f;
}

/* Stores a finished list for this finder and others, and ends it. */
static const struct pz_frontier *store_frontier(struct pz_call *call, struct frontier_list *list,
                                                const struct frontier_key *key,
                                                const struct pz_step_shape *x) {
  struct pz_plan_frontiers *s = list->frontiers;
  struct pz_call own = pz_call_in(call, &s->arena);
  const struct pz_frontier *packed = pack_frontier(list, x->model->kinds.n);
  size_t bytes = frontier_bytes(packed);
  const struct pz_frontier *stored =
      pz_shared_table_put(s->space->q->shared, key, sizeof *key, packed, bytes);
  if (!stored) stored = pz_copy(&own, packed, 1, bytes);
  pz_scratch_end(&list->memory);
  note_frontier(call, s, key, stored);
  return stored;
}

/* ---- the frontier of a grid, and of a shape ------------------------------------------------- */

static void list_plan(struct frontier_list *list, struct listed_plan one,
                      const struct pz_term_counts *counts) {
  one.first_count = list->counts.n;
  if (one.plan.stage_recompute)
    one.plan.stage_recompute = pz_copy(&list->memory, one.plan.stage_recompute, (size_t)one.plan.pp,
                                       sizeof *one.plan.stage_recompute);
  for (uint32_t i = 0; i < one.n_counts; i++) pz_append(&list->memory, &list->counts, &counts[i]);
  pz_append(&list->memory, &list->plans, &one);
}

/* Lists the plan in each of its ways that fits, unless it is dominated.  If it fits in the first way, the others are only
 * slower. */
static void add_grid_plan(struct pz_call *call, void *ctx, struct pz_step_shape *x,
                          struct pz_plan *p) {
  struct frontier_list *list = ctx;
  const struct pz_plan_space *space = list->frontiers->space;
  const struct pz_plan_memory *memory = list->frontiers->memory;
  struct pz_term_counts counts[MAX_PLAN_COUNTS];
  pz_plan_space_check_stop(call, space);
  for (size_t i = 0; i < pz_plan_space_ways(space); i++) {
    if (!pz_plan_apply_way(space, p, i)) continue;
    bool full = p->recompute == PZ_RECOMPUTATION_FULL;
    struct pz_plan relaxed = pz_plan_relaxed(p);
    uint32_t n = plan_counts(space->q, x, &relaxed, counts);
    if (is_dominated(list, p, counts, n)) continue;
    if (pz_plan_memory_once(memory, x, p) > memory->hbm_bytes) continue;
    if (full) n = plan_counts(space->q, x, p, counts);
    if (!full || !is_dominated(list, p, counts, n))
      list_plan(list, (struct listed_plan){*p, 0, n}, counts);
    if (i == 0) return;
  }
}

const struct pz_frontier *pz_plan_frontier_grid(struct pz_call *call, struct pz_plan_frontiers *s,
                                                uint32_t grid) {
  const struct pz_step_shape *x = pz_shape_at(s->space, pz_grid_at(s->space, grid)->shape);
  grid += pz_shape_at(s->space, x->representative)->first_grid - x->first_grid;
  struct frontier_key key = frontier_key(s, grid);
  const struct pz_frontier *known = find_frontier(call, s, &key);
  if (known) return known;
  const struct pz_plan_grid *g = pz_grid_at(s->space, grid);
  struct frontier_list list = begin_list(call, s);
  pz_plan_grid_visit(call, s->space, g, true, add_grid_plan, &list);
  return store_frontier(call, &list, &key, pz_shape_at(s->space, g->shape));
}

/* Adds the plans of a grid's frontier to that of its shape, by their counts. */
static void merge_frontier(struct frontier_list *list, const struct pz_frontier *from) {
  for (uint32_t i = 0; i < from->n_plans; i++) {
    const struct pz_frontier_plan *p = &pz_frontier_plans(from)[i];
    struct pz_term_counts counts[MAX_PLAN_COUNTS];
    for (uint32_t c = 0; c < p->n_counts; c++) {
      counts[c] = (struct pz_term_counts){{0}};
      for (uint32_t k = 0; k < pz_terms_of(from->kinds); k++)
        counts[c].n[pz_term_at(from->kinds, k)] = frontier_counts(from, p->first_count + c)[k];
    }
    if (!is_dominated(list, NULL, counts, p->n_counts))
      list_plan(list, (struct listed_plan){.n_counts = p->n_counts}, counts);
  }
}

const struct pz_frontier *pz_plan_frontier_shape(struct pz_call *call, struct pz_plan_frontiers *s,
                                                 uint32_t shape) {
  shape = pz_shape_at(s->space, shape)->representative;
  const struct pz_step_shape *x = pz_shape_at(s->space, shape);
  struct frontier_key key = frontier_key(s, -1 - (int64_t)shape);
  const struct pz_frontier *known = find_frontier(call, s, &key);
  if (known) return known;
  struct frontier_list list = begin_list(call, s);
  for (uint32_t i = x->first_grid; i < x->first_grid + x->n_grids; i++)
    merge_frontier(&list, pz_plan_frontier_grid(call, s, i));
  return store_frontier(call, &list, &key, x);
}
