#include "place/plan_frontier.h"

#include <string.h>

#include "core/num.h"
#include "core/shared_table.h"

enum { MOST_BYTES = 256 << 20 };

static bool counts_below(const struct pz_part_counts *a, const struct pz_part_counts *b) {
  for (int i = 0; i < PZ_PART_TERMS; i++)
    if (a->n[i] > b->n[i]) return false;
  return true;
}

/* Of each stage with what runs before it, without ones that are below another. */
static uint32_t plan_counts(const struct pz_step_shape *x, const struct pz_plan *p,
                            struct pz_part_counts out[PZ_FRONTIER_MOST_COUNTS]) {
  struct pz_part_counts before = {{0}};
  double rounds = (double)pz_plan_microbatches(p);
  uint32_t n = 0;
  for (int64_t k = 0; k < p->pp; k++) {
    struct pz_part_counts own = before;
    bool below = false;
    for (int64_t c = 0; c < p->vpp; c++) pz_part_counts_add(x, p, c * p->pp + k, rounds, &own);
    pz_part_counts_add(x, p, k, 1, &before);
    for (uint32_t i = 0; i < n && !below; i++) below = counts_below(&own, &out[i]);
    if (below) continue;
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++)
      if (!counts_below(&out[i], &own)) out[left++] = out[i];
    n = left;
    if (n < PZ_FRONTIER_MOST_COUNTS) out[n++] = own; /* fewer only make the bound lower */
  }
  return n;
}

/* Is a plan with these counts never slower than the other? */
static bool all_counts_below(const struct pz_part_counts *a, uint32_t n_a,
                             const struct pz_part_counts *b, uint32_t n_b) {
  for (uint32_t i = 0; i < n_a; i++) {
    bool below = false;
    for (uint32_t k = 0; k < n_b && !below; k++) below = counts_below(&a[i], &b[k]);
    if (!below) return false;
  }
  return true;
}

static double stage_layers(const struct pz_step_shape *x, const struct pz_plan *p) {
  double most = 0;
  for (int64_t k = 0; k < p->pp; k++) {
    double n = 0;
    for (int64_t c = 0; c < p->vpp; c++)
      n += (double)pz_plan_blocks(p, x->m->n_blocks, c * p->pp + k);
    most = pz_fmax(most, n + (k == 0) + (k == p->pp - 1));
  }
  return most;
}

static bool is_dominated(const struct pz_frontier_list *f, const struct pz_plan *p, double params,
                         const struct pz_part_counts *counts, uint32_t n) {
  for (uint32_t i = 0; i < f->plans.n; i++) {
    const struct pz_listed_plan *q = pz_vec_at(&f->plans, struct pz_listed_plan, i);
    bool same = q->plan.zero == p->zero && q->plan.pipeline == p->pipeline && q->params <= params;
    if (same && all_counts_below(pz_vec_at(&f->counts, struct pz_part_counts, q->first_count),
                                 q->n_counts, counts, n))
      return true;
  }
  return false;
}

static enum pz_status add_to_frontier(struct pz_plan_frontiers *s, const struct pz_plan *p,
                                      double params, const struct pz_part_counts *counts,
                                      uint32_t n) {
  struct pz_frontier_list *f = s->collect;
  struct pz_listed_plan one = {*p, params, f->counts.n, n};
  if (p->stage_recompute) {
    int64_t *copy = pz_arena_alloc(f->plans.arena, (size_t)p->pp, sizeof *copy);
    if (!copy) return pz_fail(s->space->err, PZ_NO_MEMORY, "out of memory for the plans");
    memcpy(copy, p->stage_recompute, (size_t)p->pp * sizeof *copy);
    one.plan.stage_recompute = copy;
  }
  for (uint32_t i = 0; i < n; i++)
    if (!pz_vec_push(&f->counts, &counts[i]))
      return pz_fail(s->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  if (!pz_vec_push(&f->plans, &one))
    return pz_fail(s->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  return PZ_OK;
}

/* The plan with each recomputation that memory asks for. */
static enum pz_status collect_plan(void *ctx, const struct pz_step_shape *x, struct pz_plan *p) {
  struct pz_plan_frontiers *s = ctx;
  struct pz_part_counts counts[PZ_FRONTIER_MOST_COUNTS];
  double params = stage_layers(x, p);
  for (size_t i = 0; i < PZ_PLAN_RECOMPUTATIONS; i++) {
    bool full = pz_plan_recomputations[i] == PZ_RECOMPUTATION_FULL;
    if (!pz_plan_space_recompute(s->space, p, i)) continue;
    if (full) p->recompute = PZ_RECOMPUTATION_NONE;
    uint32_t n = plan_counts(x, p, counts);
    if (is_dominated(s->collect, p, params, counts, n)) {
      if (i == 0) return PZ_OK;
      continue;
    }
    if (pz_plan_memory_once(s->memory, x, p, full) > s->memory->hbm_bytes) continue;
    enum pz_status status = PZ_OK;
    if (full) n = plan_counts(x, p, counts);
    if (!full || !is_dominated(s->collect, p, params, counts, n))
      status = add_to_frontier(s, p, params, counts, n);
    if (status != PZ_OK || i == 0) return status;
  }
  return PZ_OK;
}

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
  if (pz_vec_push(&s->known, &one) && pz_map_put(&s->at, key, sizeof *key, at) == PZ_OK)
    return PZ_OK;
  return pz_fail(s->space->err, PZ_NO_MEMORY, "out of memory for the plans");
}

/* One that has been made: by this finder, or by another.  NULL: none has. */
static enum pz_status known_frontier(struct pz_plan_frontiers *s, const struct frontier_key *key,
                                     const struct pz_frontier **out) {
  uint32_t at = pz_map_get(&s->at, key, sizeof *key);
  if (at != PZ_NONE) return *out = *pz_vec_at(&s->known, const struct pz_frontier *, at), PZ_OK;
  *out = pz_shared_table_get(s->space->q->shared, key, sizeof *key);
  return *out ? note_frontier(s, key, *out) : PZ_OK;
}

/* Keep a list for this finder and others. */
static enum pz_status keep_frontier(struct pz_plan_frontiers *s, const struct frontier_key *key,
                                    const struct pz_frontier_list *list, uint32_t kinds,
                                    const struct pz_frontier **out) {
  const struct pz_frontier *one = pz_frontier_pack(list, kinds, list->plans.arena);
  if (!one) return pz_fail(s->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  size_t bytes = pz_frontier_bytes(one);
  *out = pz_shared_table_put(s->space->q->shared, key, sizeof *key, one, bytes);
  void *own = *out ? NULL : pz_arena_alloc(&s->arena, 1, bytes);
  if (own) *out = memcpy(own, one, bytes);
  if (*out) return note_frontier(s, key, *out);
  return pz_fail(s->space->err, PZ_NO_MEMORY, "out of memory for the plans");
}

enum pz_status pz_plan_frontier_grid(struct pz_plan_frontiers *s, uint32_t grid,
                                     const struct pz_frontier **out) {
  struct frontier_key key = frontier_key(s, grid);
  enum pz_status status = known_frontier(s, &key, out);
  if (status != PZ_OK || *out) return status;
  const struct pz_plan_grid *g = pz_vec_at(&s->space->grids, struct pz_plan_grid, grid);
  const struct pz_step_shape *x = pz_vec_at(&s->space->shapes, struct pz_step_shape, g->shape);
  struct pz_arena arena;
  struct pz_frontier_list list;
  pz_arena_init(&arena, NULL);
  pz_frontier_list_init(&list, &arena);
  s->collect = &list;
  status = pz_plan_space_each(s->space, g, true, collect_plan, s);
  s->collect = NULL;
  if (status == PZ_OK) status = keep_frontier(s, &key, &list, x->m->kinds.n, out);
  pz_arena_release(&arena);
  return status;
}

/* The counts of a plan's stages, with nothing for transfers. */
static void unpack_counts(const struct pz_frontier *f, const struct pz_frontier_plan *p,
                          struct pz_part_counts out[PZ_FRONTIER_MOST_COUNTS]) {
  for (uint32_t i = 0; i < p->n_counts; i++) {
    const double *counts = pz_frontier_counts(f, p->first_count + i);
    out[i] = (struct pz_part_counts){{0}};
    for (uint32_t k = 0; k < pz_part_terms(f->kinds); k++)
      out[i].n[pz_part_term_at(f->kinds, k)] = counts[k];
  }
}

/* Plans of all grids of a shape, none of whose stages take less than another's whatever the chip, by layers, what is
 * computed again of them and the ends alone. */
static enum pz_status merge_frontier(struct pz_plan_frontiers *s, const struct pz_frontier *from,
                                     struct pz_frontier_list *to) {
  for (uint32_t i = 0; i < from->n_plans; i++) {
    const struct pz_frontier_plan *plan = &pz_frontier_plans(from)[i];
    struct pz_listed_plan one = {.first_count = to->counts.n, .n_counts = plan->n_counts};
    struct pz_part_counts counts[PZ_FRONTIER_MOST_COUNTS];
    unpack_counts(from, plan, counts);
    bool dominated = false;
    for (uint32_t k = 0; k < to->plans.n && !dominated; k++) {
      const struct pz_listed_plan *p = pz_vec_at(&to->plans, struct pz_listed_plan, k);
      dominated = all_counts_below(pz_vec_at(&to->counts, struct pz_part_counts, p->first_count),
                                   p->n_counts, counts, one.n_counts);
    }
    if (dominated) continue;
    for (uint32_t k = 0; k < one.n_counts; k++)
      if (!pz_vec_push(&to->counts, &counts[k]))
        return pz_fail(s->space->err, PZ_NO_MEMORY, "out of memory for the plans");
    if (!pz_vec_push(&to->plans, &one))
      return pz_fail(s->space->err, PZ_NO_MEMORY, "out of memory for the plans");
  }
  return PZ_OK;
}

enum pz_status pz_plan_frontier_shape(struct pz_plan_frontiers *s, uint32_t shape,
                                      const struct pz_frontier **out) {
  const struct pz_step_shape *x = pz_vec_at(&s->space->shapes, struct pz_step_shape, shape);
  struct frontier_key key = frontier_key(s, -1 - (int64_t)shape);
  enum pz_status status = known_frontier(s, &key, out);
  if (status != PZ_OK || *out) return status;
  struct pz_arena arena;
  struct pz_frontier_list all;
  pz_arena_init(&arena, NULL);
  pz_frontier_list_init(&all, &arena);
  for (uint32_t i = x->first_grid; i < x->first_grid + x->n_grids && status == PZ_OK; i++) {
    const struct pz_frontier *one = NULL;
    status = pz_plan_frontier_grid(s, i, &one);
    if (status == PZ_OK) status = merge_frontier(s, one, &all);
  }
  if (status == PZ_OK) status = keep_frontier(s, &key, &all, x->m->kinds.n, out);
  pz_arena_release(&arena);
  return status;
}
