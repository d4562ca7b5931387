/* Computes and stores frontiers of plans (plan_frontier.h).
 *
 * pz_plan_frontier_grid() visits the plans of a grid and lists those that fit and that no listed
 * plan dominates (add_grid_plan).  pz_plan_frontier_shape() merges the frontiers of the grids of a
 * shape by their counts alone.  store_frontier() packs a finished list into one piece of memory and
 * stores it for this finder and others. */
#include "place/plan_frontier.h"

#include <math.h>
#include <string.h>

/* Limits of the memory of all frontiers, and of the stages of a plan that are compared. */
enum { MAX_FRONTIER_BYTES = 256 << 20, MAX_PLAN_COUNTS = 64 };

/* ---- the packed form ------------------------------------------------------------------------ */

_Static_assert(sizeof(struct pz_frontier) % sizeof(double) == 0 &&
                   sizeof(struct pz_frontier_plan) % sizeof(double) == 0,
               "counts are stored after the plans");

/* Returns row i of the frontier's counts: how often a stage of a plan runs each term. */
static const double *frontier_counts(const struct pz_frontier *frontier, uint32_t i) {
  const double *first_counts =
      (const double *)(const void *)(pz_frontier_plans(frontier) + frontier->n_plans);
  return first_counts + (size_t)i * pz_terms_of(frontier->kinds);
}

/* A plan of a frontier under construction, with its rows in the list of counts. */
struct listed_plan {
  struct pz_plan plan;
  uint32_t first_count, n_counts;
};

/* A frontier under construction: plans that no other plan dominates, and their counts. */
struct frontier_list {
  struct pz_plan_frontiers *frontiers;
  struct pz_call memory;       /* intermediate memory of the list */
  struct pz_vec plans, counts; /* struct listed_plan; struct pz_term_counts, by stage */
};

/* Returns an empty list with intermediate memory of its own. */
static struct frontier_list begin_list(struct pz_call *call, struct pz_plan_frontiers *frontiers) {
  struct frontier_list list = {.frontiers = frontiers, .memory = pz_scratch(call)};
  pz_vec_init(&list.plans, list.memory.arena, sizeof(struct listed_plan));
  pz_vec_init(&list.counts, list.memory.arena, sizeof(struct pz_term_counts));
  return list;
}

/* Returns the plan of a grid with the fields of a packed plan. */
struct pz_plan pz_frontier_unpack(const struct pz_frontier *frontier,
                                  const struct pz_frontier_plan *packed,
                                  const struct pz_plan_space *space,
                                  const struct pz_plan_grid *grid) {
  const int64_t *stages =
      (const int64_t *)(const void *)frontier_counts(frontier, frontier->n_counts);
  struct pz_plan plan = pz_plan_grid_plan(space, grid);
  plan.vpp = packed->vpp;
  plan.first_layers = packed->first_layers;
  plan.last_layers = packed->last_layers;
  plan.recompute_layers = packed->recompute_layers;
  plan.zero = packed->zero;
  plan.pipeline = packed->pipeline;
  plan.recompute = packed->recompute;
  plan.stage_recompute = packed->first_stage == PZ_NONE ? NULL : stages + packed->first_stage;
  plan.n_stage_recompute = plan.pp;
  pz_plan_set_derived(space, &plan);
  return plan;
}

/* Returns a lower bound of the pipeline's time in seconds: the longest stage, whose time is the sum
 * of its counts times the seconds of the terms. */
double pz_frontier_plan_s(const struct pz_frontier *frontier, const struct pz_frontier_plan *plan,
                          const struct pz_term_seconds *seconds) {
  uint32_t n = pz_terms_of(frontier->kinds);
  const double *counts = frontier_counts(frontier, plan->first_count);
  double longest_s = 0;
  for (uint32_t i = 0; i < plan->n_counts; i++, counts += n) {
    double stage_s = 0;
    for (uint32_t k = 0; k < n; k++) stage_s += counts[k] * seconds->s[k];
    longest_s = pz_fmax(longest_s, stage_s);
  }
  /* the margin covers rounding: the step sums the terms in another order */
  return longest_s * (1 - 1e-9);
}

/* Returns the least lower bound of the plans of a frontier, in seconds. */
double pz_frontier_least_s(const struct pz_frontier *frontier,
                           const struct pz_term_seconds *seconds) {
  const struct pz_frontier_plan *plans = pz_frontier_plans(frontier);
  double least_s = HUGE_VAL;
  for (uint32_t i = 0; i < frontier->n_plans; i++)
    least_s = pz_fmin(least_s, pz_frontier_plan_s(frontier, &plans[i], seconds));
  return least_s;
}

/* ---- dominance ------------------------------------------------------------------------------ */

/* Returns whether a plan whose stages have the first counts is never slower than one with the
 * second: each of its stages runs every term at most as often as some stage of the other plan. */
static bool never_slower(const struct pz_term_counts *first, uint32_t n_first,
                         const struct pz_term_counts *second, uint32_t n_second) {
  for (uint32_t i = 0; i < n_first; i++) {
    bool is_never_longest = false; /* some stage of the other plan takes at least as long */
    for (uint32_t k = 0; k < n_second && !is_never_longest; k++) {
      is_never_longest = true;
      for (int term = 0; term < PZ_TERMS && is_never_longest; term++)
        is_never_longest = first[i].n[term] <= second[k].n[term];
    }
    if (!is_never_longest) return false;
  }
  return true;
}

/* Computes how often each stage of a plan runs each term, including the earlier stages through
 * which the first microbatch passes (fill_counts).  Leaves out stages that others dominate.
 * Waiting for other devices raises all counts.  Returns the number of stages in `counts`. */
static uint32_t plan_counts(const struct pz_plan_question *question,
                            const struct pz_step_shape *shape, const struct pz_plan *plan,
                            struct pz_term_counts counts[MAX_PLAN_COUNTS]) {
  struct pz_term_counts fill_counts = {{0}};
  double waiting =
      pz_step_waiting(question->job.constants, question->job.net, pz_plan_devices(plan));
  double microbatches = (double)pz_plan_microbatches(plan) * (1 + waiting);
  uint32_t n = 0;
  for (int64_t k = 0; k < plan->pp; k++) {
    struct pz_term_counts stage_counts = fill_counts;
    for (int64_t slot = 0; slot < plan->vpp; slot++)
      pz_term_counts_add(shape, plan, slot * plan->pp + k, microbatches, &stage_counts);
    pz_term_counts_add(shape, plan, k, 1 + waiting, &fill_counts);
    if (never_slower(&stage_counts, 1, counts, n)) continue;
    /* remove earlier stages that are never longer than this one */
    uint32_t n_kept = 0;
    for (uint32_t i = 0; i < n; i++)
      if (!never_slower(&counts[i], 1, &stage_counts, 1)) counts[n_kept++] = counts[i];
    n = n_kept;
    if (n < MAX_PLAN_COUNTS) /* without room, the stage is left out, which only lowers the bound */
      counts[n++] = stage_counts;
  }
  return n;
}

/* Returns whether some listed plan is never slower than a plan with these counts.  In the
 * frontier of a grid, `plan` is given, and only plans with the same layers in every chunk are
 * compared, because these determine what the largest stage updates and exchanges, and what hides
 * transfers.  In the frontier of a shape, `plan` is NULL, and only counts are compared. */
static bool is_dominated(const struct frontier_list *list, const struct pz_plan *plan,
                         const struct pz_term_counts *counts, uint32_t n_counts) {
  for (uint32_t i = 0; i < list->plans.n; i++) {
    const struct listed_plan *listed = pz_vec_at(&list->plans, struct listed_plan, i);
    const struct pz_plan *other = &listed->plan;
    bool is_comparable = !plan || (other->zero == plan->zero && other->pipeline == plan->pipeline &&
                                   other->overlap == plan->overlap && other->vpp == plan->vpp &&
                                   other->first_layers == plan->first_layers &&
                                   other->last_layers == plan->last_layers);
    if (is_comparable &&
        never_slower(pz_vec_at(&list->counts, struct pz_term_counts, listed->first_count),
                     listed->n_counts, counts, n_counts))
      return true;
  }
  return false;
}

/* ---- stored frontiers ----------------------------------------------------------------------- */

/* Makes an empty store of frontiers. */
void pz_plan_frontiers_init(struct pz_plan_frontiers *frontiers, struct pz_plan_space *space,
                            struct pz_plan_memory *memory) {
  *frontiers = (struct pz_plan_frontiers){.space = space, .memory = memory};
  pz_arena_init(&frontiers->arena);
  pz_map_init(&frontiers->index, &frontiers->arena);
  pz_vec_init(&frontiers->stored, &frontiers->arena, sizeof(const struct pz_frontier *));
}

/* Empties the store if it uses more than MAX_FRONTIER_BYTES. */
void pz_plan_frontiers_trim(struct pz_plan_frontiers *frontiers) {
  if (frontiers->arena.total_bytes <= MAX_FRONTIER_BYTES) return;
  pz_arena_release(&frontiers->arena);
  pz_plan_frontiers_init(frontiers, frontiers->space, frontiers->memory);
}

/* The key by which a frontier is stored. */
struct frontier_key {
  int64_t table, question;
  int64_t owner; /* the index of a grid, or -1 - the index of a shape */
  int64_t hbm_bytes;
};

/* Adds a frontier to the index of this finder, which finds it by the key. */
static void note_frontier(struct pz_call *call, struct pz_plan_frontiers *frontiers,
                          const struct frontier_key *key, const struct pz_frontier *frontier) {
  uint32_t at = frontiers->stored.n;
  pz_append(call, &frontiers->stored, &frontier);
  pz_map_set(call, &frontiers->index, key, sizeof *key, at);
}

/* Returns a frontier that this finder or another one has computed, or NULL. */
static const struct pz_frontier *find_frontier(struct pz_call *call,
                                               struct pz_plan_frontiers *frontiers,
                                               const struct frontier_key *key) {
  uint32_t at = pz_map_get(&frontiers->index, key, sizeof *key);
  if (at != PZ_NONE) return *pz_vec_at(&frontiers->stored, const struct pz_frontier *, at);
  const struct pz_frontier *frontier =
      pz_shared_table_get(frontiers->space->question->shared, key, sizeof *key);
  if (frontier) note_frontier(call, frontiers, key, frontier);
  return frontier;
}

/* Packs a finished list into one piece of memory, stores it for all finders, and frees the list. */
static const struct pz_frontier *store_frontier(struct pz_call *call, struct frontier_list *list,
                                                const struct frontier_key *key,
                                                const struct pz_step_shape *shape) {
  struct pz_plan_frontiers *frontiers = list->frontiers;
  struct pz_call in_frontiers = pz_call_in(call, &frontiers->arena);
  uint32_t kinds = shape->model->kinds.n, terms = pz_terms_of(kinds), stage = 0;
  struct pz_frontier head = {.n_plans = list->plans.n, .n_counts = list->counts.n, .kinds = kinds};
  for (uint32_t i = 0; i < head.n_plans; i++) {
    const struct pz_plan *plan = &pz_vec_at(&list->plans, struct listed_plan, i)->plan;
    if (plan->stage_recompute) head.n_stages += (uint32_t)plan->pp;
  }
  size_t bytes = sizeof head + head.n_plans * sizeof(struct pz_frontier_plan) +
                 (size_t)head.n_counts * terms * sizeof(double) + head.n_stages * sizeof(int64_t);
  /* the parts of the packed form: header, plans, counts, recomputed layers by stage */
  struct pz_frontier *packed = pz_alloc(&list->memory, 1, bytes);
  *packed = head;
  struct pz_frontier_plan *plans = (struct pz_frontier_plan *)(packed + 1);
  double *counts = (double *)(void *)(plans + head.n_plans);
  int64_t *stages = (int64_t *)(void *)(counts + (size_t)head.n_counts * terms);
  for (uint32_t i = 0; i < head.n_plans; i++) {
    const struct listed_plan *listed = pz_vec_at(&list->plans, struct listed_plan, i);
    const struct pz_plan *plan = &listed->plan;
    plans[i] = (struct pz_frontier_plan){.first_count = listed->first_count,
                                         .n_counts = listed->n_counts,
                                         .first_stage = plan->stage_recompute ? stage : PZ_NONE,
                                         .vpp = (int32_t)plan->vpp,
                                         .first_layers = (int32_t)plan->first_layers,
                                         .last_layers = (int32_t)plan->last_layers,
                                         .recompute_layers = (int32_t)plan->recompute_layers,
                                         .zero = (uint8_t)plan->zero,
                                         .pipeline = (uint8_t)plan->pipeline,
                                         .recompute = (uint8_t)plan->recompute};
    for (int64_t k = 0; plan->stage_recompute && k < plan->pp; k++)
      stages[stage++] = plan->stage_recompute[k];
  }
  for (uint32_t i = 0; i < head.n_counts; i++)
    for (uint32_t k = 0; k < terms; k++)
      *counts++ = pz_vec_at(&list->counts, struct pz_term_counts, i)->n[pz_term_at(kinds, k)];
  const struct pz_frontier *stored =
      pz_shared_table_put(frontiers->space->question->shared, key, sizeof *key, packed, bytes);
  if (!stored) stored = pz_copy(&in_frontiers, packed, 1, bytes);
  pz_scratch_end(&list->memory);
  note_frontier(call, frontiers, key, stored);
  return stored;
}

/* ---- the frontier of a grid, and of a shape ------------------------------------------------- */

/* Appends a plan to a frontier under construction, with a copy of its recomputed layers and
 * counts. */
static void list_plan(struct frontier_list *list, struct listed_plan listed,
                      const struct pz_term_counts *counts) {
  listed.first_count = list->counts.n;
  if (listed.plan.stage_recompute)
    listed.plan.stage_recompute =
        pz_copy(&list->memory, listed.plan.stage_recompute, (size_t)listed.plan.pp,
                sizeof *listed.plan.stage_recompute);
  for (uint32_t i = 0; i < listed.n_counts; i++)
    pz_append(&list->memory, &list->counts, &counts[i]);
  pz_append(&list->memory, &list->plans, &listed);
}

/* Adds a plan to the frontier of its grid, once for each way to save memory in which it fits and is
 * not dominated.  If it fits in the first way, which saves none, the other ways are only slower. */
static void add_grid_plan(struct pz_call *call, void *ctx, struct pz_step_shape *shape,
                          struct pz_plan *plan) {
  struct frontier_list *list = ctx;
  const struct pz_plan_space *space = list->frontiers->space;
  const struct pz_plan_memory *memory = list->frontiers->memory;
  struct pz_term_counts counts[MAX_PLAN_COUNTS];
  pz_plan_space_check_stop(call, space);
  for (size_t i = 0; i < space->n_ways * space->n_overlaps; i++) {
    if (!pz_plan_apply_way(space, plan, i)) continue;
    bool is_full = plan->recompute == PZ_RECOMPUTATION_FULL;
    /* if the relaxation of a plan is dominated, the plan is, too */
    struct pz_plan relaxed = pz_plan_relaxed(plan);
    uint32_t n = plan_counts(space->question, shape, &relaxed, counts);
    if (is_dominated(list, plan, counts, n)) continue;
    if (pz_plan_memory_once(memory, shape, plan) > memory->hbm_bytes) continue;
    /* the number of recomputed layers is chosen now, and adds to the counts */
    if (is_full) n = plan_counts(space->question, shape, plan, counts);
    if (!is_full || !is_dominated(list, plan, counts, n))
      list_plan(list, (struct listed_plan){*plan, 0, n}, counts);
    if (i == 0) return;
  }
}

/* Returns the frontier of a grid: its plans that fit and that no other plan dominates. */
const struct pz_frontier *
pz_plan_frontier_grid(struct pz_call *call, struct pz_plan_frontiers *frontiers, uint32_t grid) {
  const struct pz_step_shape *shape =
      pz_shape_at(frontiers->space, pz_grid_at(frontiers->space, grid)->shape);
  /* a shape has the frontiers of its representative, whose grids are in the same order */
  grid += pz_shape_at(frontiers->space, shape->representative)->first_grid - shape->first_grid;
  struct frontier_key key = {PZ_SHARED_FRONTIER, frontiers->space->question->sharing_key, grid,
                             (int64_t)frontiers->memory->hbm_bytes};
  const struct pz_frontier *stored = find_frontier(call, frontiers, &key);
  if (stored) return stored;
  const struct pz_plan_grid *plan_grid = pz_grid_at(frontiers->space, grid);
  struct frontier_list list = begin_list(call, frontiers);
  pz_plan_grid_visit(call, frontiers->space, plan_grid, PZ_VISIT_DOMINANT, add_grid_plan, &list);
  return store_frontier(call, &list, &key, pz_shape_at(frontiers->space, plan_grid->shape));
}

/* Returns the frontier of a shape: the plans of its grids whose counts no other plan dominates. */
const struct pz_frontier *
pz_plan_frontier_shape(struct pz_call *call, struct pz_plan_frontiers *frontiers, uint32_t shape) {
  shape = pz_shape_at(frontiers->space, shape)->representative;
  const struct pz_step_shape *step_shape = pz_shape_at(frontiers->space, shape);
  struct frontier_key key = {PZ_SHARED_FRONTIER, frontiers->space->question->sharing_key,
                             -1 - (int64_t)shape, (int64_t)frontiers->memory->hbm_bytes};
  const struct pz_frontier *stored = find_frontier(call, frontiers, &key);
  if (stored) return stored;
  struct frontier_list list = begin_list(call, frontiers);
  for (uint32_t i = step_shape->first_grid; i < step_shape->first_grid + step_shape->n_grids; i++) {
    const struct pz_frontier *from = pz_plan_frontier_grid(call, frontiers, i);
    for (uint32_t k = 0; k < from->n_plans; k++) {
      const struct pz_frontier_plan *plan = &pz_frontier_plans(from)[k];
      struct pz_term_counts counts[MAX_PLAN_COUNTS]; /* unpacked */
      for (uint32_t stage = 0; stage < plan->n_counts; stage++) {
        const double *row = frontier_counts(from, plan->first_count + stage);
        counts[stage] = (struct pz_term_counts){{0}};
        for (uint32_t term = 0; term < pz_terms_of(from->kinds); term++)
          counts[stage].n[pz_term_at(from->kinds, term)] = row[term];
      }
      if (!is_dominated(&list, NULL, counts, plan->n_counts))
        list_plan(&list, (struct listed_plan){.n_counts = plan->n_counts}, counts);
    }
  }
  return store_frontier(call, &list, &key, step_shape);
}
