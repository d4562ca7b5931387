/* Finds the best training plan for one chip after another (plan_finder.h).
 *
 * Shapes are ranked by a bound from rates and tables of terms (rank_shapes).  Only the most promising ones are timed on
 * the chip (time_shape), which takes most of the time, and bounded by the plans of their frontiers (bound_shape).
 * pz_finder_best() prices the plan with the lowest bound first, because few plans are faster, and then the grids of the
 * shapes that are left. */
#include "place/plan_finder.h"

#include <math.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "core/shared_table.h"
#include "cost/power.h"
#include "place/plan_frontier.h"
#include "place/plan_pricing.h"
#include "step/step_energy.h"

struct ranked_shape {
  double bound_s;
  uint32_t shape;
};

struct pz_plan_finder {
  struct pz_plan_question q;
  struct pz_plan_space space;
  struct pz_plan_memory memory;
  struct pz_plan_pricing pricing;
  struct pz_plan_frontiers frontiers;
  struct pz_term_tables terms;
  struct pz_arena best_plans;         /* of the last call of pz_finder_best() */
  struct pz_product_times *own_times; /* if the question has none */
  /* Where to begin, so that finders which share frontiers make different ones. */
  uint32_t first_shape;
  uint32_t last_best_shape;              /* the shape with the least floor of the last chip */
  struct ranked_shape *ranked;           /* by shape */
  struct pz_vec open_grids;              /* grids of a shape that could have the best plan */
  struct pz_plan promising;              /* the plan with the lowest bound on the last chip, */
  struct pz_step_shape *promising_shape; /* and its shape; NULL: none */
};

/* ---- a chip --------------------------------------------------------------------------------- */

/* A hash of everything that layer times depend on; never 0. */
static uint64_t chip_key(struct pz_finder_chip on) {
  const struct pz_chip *c = on.chip;
  struct pz_power_law law = pz_power_law_of(c);
  double v[14 + 3 * PZ_CLUSTER_MOST_LEVELS] = {
      (double)c->tensor.cores,       (double)c->tensor.rows,  (double)c->tensor.cols,
      (double)c->tensor.local_bytes, (double)c->vector.cores, (double)c->vector.lanes,
      (double)c->glb_bytes,          c->glb_bytes_per_s,      c->clock_hz,
      pz_chip_hbm_bytes_per_s(c),    c->rules.nested_mapping, c->cold ? law.watts : 0,
      c->cold ? law.mm2 : 0,         c->bounds_others};
  for (int l = 0; l < on.net->n_levels; l++) {
    v[14 + 3 * l] = (double)on.net->level[l].devices;
    v[15 + 3 * l] = on.net->level[l].bytes_per_s;
    v[16 + 3 * l] = on.net->level[l].latency_s;
  }
  return pz_hash(v, sizeof v) | 1;
}

/* Makes this chip the question's, and forgets the plans that were found for the last one. */
static void set_chip(struct pz_plan_finder *f, struct pz_finder_chip on, double cutoff_s) {
  struct pz_found_plan *list = f->pricing.found.list;
  f->q.job.chip = on.chip;
  f->q.job.net = on.net;
  f->pricing.cutoff_s = cutoff_s;
  f->pricing.found = (struct pz_found_plans){.list = list};
  pz_plan_memory_set_chip(&f->memory, on.chip);
}

/* Times the layers of a shape on a chip, unless that was done last. */
static void time_shape(struct pz_call *call, struct pz_plan_finder *f, struct pz_step_shape *x,
                       struct pz_finder_chip on) {
  uint64_t key = chip_key(on);
  struct pz_plan p = pz_step_shape_plan(&f->q, x);
  if (x->timed_for == key) return;
  x->timed_for = 0;
  pz_step_model_set_chip(call, x->model, on.chip, on.net, &p, f->terms.times);
  pz_step_shape_time(call, &f->space, x);
  x->timed_for = key;
}

/* ---- bounds from rates ---------------------------------------------------------------------- */

/* Factor for the waiting of a plan on all devices.  With fewer devices, the work of each grows by more than the waiting
 * falls. */
static double waiting_factor(const struct pz_plan_question *q) {
  return 1 + pz_step_waiting(q->job.constants, q->job.net, q->plan.devices);
}

/* A lower bound of all plans of a shape from its whole microbatch. */
static double whole_shape_s(const struct pz_plan_finder *f, const struct pz_term_rates *r,
                            uint32_t shape) {
  enum pz_term_measure m = pz_term_measure_of(&f->terms, r, shape);
  return pz_term_s(&f->terms, r, shape, PZ_TERM_WHOLE, m) * f->terms.share[shape] *
         waiting_factor(&f->q);
}

/* A lower bound of the plans of a shape that fit in the HBM, from its frontier. */
static double shape_frontier_s(struct pz_call *call, struct pz_plan_finder *f,
                               const struct pz_term_rates *r, uint32_t shape) {
  const struct pz_frontier *plans = pz_plan_frontier_shape(call, &f->frontiers, shape);
  enum pz_term_measure m = pz_term_measure_of(&f->terms, r, shape);
  struct pz_term_seconds t;
  for (uint32_t k = 0; k < pz_terms_of(plans->kinds); k++)
    t.s[k] = pz_term_s(&f->terms, r, shape, pz_term_at(plans->kinds, k), m);
  return pz_frontier_least_s(plans, &t);
}

double pz_finder_floor_s(struct pz_call *call, struct pz_plan_finder *f, struct pz_finder_chip on,
                         double enough_s) {
  set_chip(f, on, enough_s);
  struct pz_term_rates r = pz_term_rates_of(call, &f->terms, on.chip, on.net);
  double least_s = enough_s;
  /* the best shape of the last chip comes first, because it is likely to be the best again */
  for (uint32_t k = 0; k <= f->space.shapes.n; k++) {
    uint32_t i = k ? (f->first_shape + k - 1) % f->space.shapes.n : f->last_best_shape;
    if (whole_shape_s(f, &r, i) >= least_s) continue;
    double s = shape_frontier_s(call, f, &r, i);
    if (s >= least_s) continue;
    least_s = s;
    f->last_best_shape = i;
  }
  return least_s;
}

static int by_rank(const void *a, const void *b) {
  const struct ranked_shape *x = a, *y = b;
  if (x->bound_s != y->bound_s) return x->bound_s < y->bound_s ? -1 : 1;
  return (x->shape > y->shape) - (x->shape < y->shape);
}

/* Lists the shapes that may have a step below the limit in f->ranked, lowest bound first.  Returns their number. */
static uint32_t rank_shapes(struct pz_call *call, struct pz_plan_finder *f,
                            struct pz_finder_chip on, double limit_s) {
  struct pz_term_rates r = pz_term_rates_of(call, &f->terms, on.chip, on.net);
  uint32_t n = 0;
  for (uint32_t k = 0; k < f->space.shapes.n; k++) {
    uint32_t i = (f->first_shape + k) % f->space.shapes.n;
    double s = whole_shape_s(f, &r, i);
    if (s >= limit_s) continue;
    if (limit_s < HUGE_VAL) s = shape_frontier_s(call, f, &r, i);
    if (s < limit_s) f->ranked[n++] = (struct ranked_shape){s, i};
  }
  qsort(f->ranked, n, sizeof *f->ranked, by_rank);
  return n;
}

/* ---- bounds from layer times ---------------------------------------------------------------- */

/* The times of a shape's terms on the chip that it is timed for, without transfers. */
static struct pz_term_seconds timed_terms(struct pz_call *call, const struct pz_plan_space *s,
                                          struct pz_step_shape *x) {
  static const int recomputations[] = {PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_FULL,
                                       PZ_RECOMPUTATION_SELECTIVE};
  struct pz_plan p = pz_step_shape_fastest(s->q, x);
  uint32_t kinds = x->model->kinds.n;
  double t[PZ_TERMS] = {0};
  for (uint32_t r = 0; r < 3; r++) {
    p.recompute = recomputations[r];
    pz_step_model_time(call, x->model, &p, 2, PZ_TIMING_BOUND);
    const struct pz_model_steps *m = x->model->steps;
    for (uint32_t k = 0; k < kinds; k++) {
      double block_s = pz_layer_step_s(&m->block[k]);
      double again_s = pz_layer_step_s(&m->again[k]);
      t[r * PZ_TERM_KINDS + k] = r == 0 ? block_s : pz_fmax(0, again_s - block_s);
    }
    t[PZ_TERM_ENDS] = pz_layer_step_s(&m->before);
    t[PZ_TERM_ENDS + 1] = pz_layer_step_s(&m->after);
  }
  struct pz_term_seconds terms = {{0}};
  for (uint32_t k = 0; k < pz_terms_of(kinds); k++) terms.s[k] = t[pz_term_at(kinds, k)];
  return terms;
}

/* Lowers *least_s to the least bound of the grid's plans, and remembers the plan that has it. */
static void bound_grid(struct pz_call *call, struct pz_plan_finder *f, struct pz_step_shape *x,
                       uint32_t grid, const struct pz_term_seconds *t, double *least_s) {
  const struct pz_frontier *plans = pz_plan_frontier_grid(call, &f->frontiers, grid);
  for (uint32_t i = 0; i < plans->n_plans; i++) {
    const struct pz_frontier_plan *p = &pz_frontier_plans(plans)[i];
    struct pz_plan plan = pz_frontier_unpack(plans, p, &f->space, pz_grid_at(&f->space, grid));
    /* gradients of a single microbatch need not be added up */
    double single = 1;
    if (pz_plan_microbatches(&plan) == 1)
      single = pz_fmin(1, x->time[0].single_s / x->time[0].several_s);
    if (pz_frontier_plan_s(plans, p, t) * single >= *least_s) continue;
    double s = pz_step_bound(call, x->model, &plan);
    if (s * (1 - 1e-9) >= *least_s) continue;
    *least_s = s * (1 - 1e-9);
    f->promising = plan;
    f->promising_shape = x;
  }
}

/* Lowers *least_s to the least bound of the shape's plans on a chip in the question's network. */
static void bound_shape_on(struct pz_call *call, struct pz_plan_finder *f, struct pz_step_shape *x,
                           const struct pz_chip *chip, double *least_s) {
  const struct pz_plan_space *s = &f->space;
  pz_plan_space_check_stop(call, s);
  time_shape(call, f, x, (struct pz_finder_chip){chip, f->q.job.net});
  double layers_s = pz_fmin(x->time[0].single_s, x->time[0].several_s) *
                    pz_step_shape_share(s->q, x) * waiting_factor(s->q) * (1 - 1e-9);
  if (layers_s >= *least_s) return;
  struct pz_term_seconds t = timed_terms(call, s, x);
  for (uint32_t i = x->first_grid; i < x->first_grid + x->n_grids; i++)
    if (pz_plan_grid_bound_s(s->q, x, pz_grid_at(s, i)) * (1 - 1e-9) < *least_s)
      bound_grid(call, f, x, i, &t, least_s);
}

/* Lowers *least_s to the least bound of the shape's plans on the question's chip.  The relaxation without nested
 * mappings, whose times are stored, is often sufficient to exclude the shape. */
static void bound_shape(struct pz_call *call, struct pz_plan_finder *f, struct pz_step_shape *x,
                        double *least_s) {
  struct pz_finder_chip own = {f->q.job.chip, f->q.job.net};
  if (own.chip->rules.nested_mapping && x->timed_for != chip_key(own)) {
    struct pz_chip relaxed = *own.chip;
    double relaxed_s = *least_s;
    relaxed.rules.nested_mapping = false;
    relaxed.bounds_others = true;
    bound_shape_on(call, f, x, &relaxed, &relaxed_s);
    if (!(relaxed_s < *least_s)) return;
  }
  bound_shape_on(call, f, x, own.chip, least_s);
}

double pz_finder_bound_s(struct pz_call *call, struct pz_plan_finder *f, struct pz_finder_chip on,
                         double enough_s) {
  double least_s = enough_s;
  pz_plan_frontiers_trim(&f->frontiers);
  set_chip(f, on, enough_s);
  f->promising_shape = NULL;
  uint32_t n = rank_shapes(call, f, on, enough_s);
  for (uint32_t i = 0; i < n && f->ranked[i].bound_s < least_s; i++)
    bound_shape(call, f, pz_shape_at(&f->space, f->ranked[i].shape), &least_s);
  return least_s;
}

double pz_finder_promising_s(struct pz_call *call, struct pz_plan_finder *f,
                             struct pz_finder_chip on) {
  struct pz_chip relaxed = *on.chip;
  struct pz_finder_chip on_relaxed = {&relaxed, on.net};
  relaxed.rules.nested_mapping = false;
  if (!f->promising_shape) return HUGE_VAL;
  set_chip(f, on_relaxed, HUGE_VAL);
  time_shape(call, f, f->promising_shape, on_relaxed);
  return pz_step_bound(call, f->promising_shape->model, &f->promising);
}

/* ---- the best plan -------------------------------------------------------------------------- */

/* Prices the grids of a shape that could have the best plan, lowest bound first. */
static void price_shape(struct pz_call *call, struct pz_plan_finder *f,
                        const struct pz_step_shape *x) {
  f->open_grids.n = 0;
  for (uint32_t i = x->first_grid; i < x->first_grid + x->n_grids; i++) {
    struct pz_plan_grid *g = pz_grid_at(&f->space, i);
    g->bound_s = pz_plan_grid_bound_s(&f->q, x, g);
    g->bound = g->bound_s;
    if (pz_plan_pricing_promises(&f->pricing, g)) pz_append(call, &f->open_grids, g);
  }
  pz_plan_grids_sort(&f->open_grids);
  for (uint32_t i = 0; i < f->open_grids.n; i++) {
    const struct pz_plan_grid *g = pz_vec_at(&f->open_grids, struct pz_plan_grid, i);
    if (!pz_plan_pricing_promises(&f->pricing, g)) break;
    pz_plan_pricing_grid(call, &f->pricing, g);
  }
}

struct pz_found_plans pz_finder_best(struct pz_call *call, struct pz_plan_finder *f,
                                     struct pz_finder_chip on, double cutoff_s, double *least_s) {
  const struct pz_found_plans *found = &f->pricing.found;
  pz_arena_release(&f->best_plans);
  pz_arena_init(&f->best_plans, NULL);
  *least_s = pz_finder_bound_s(call, f, on, cutoff_s);
  if (!f->promising_shape) return *found;
  pz_plan_pricing_add(call, &f->pricing, f->promising_shape, &f->promising);
  double limit_s = found->n ? found->list[0].p.step_s : cutoff_s;
  uint32_t n = rank_shapes(call, f, on, limit_s);
  for (uint32_t i = 0; i < n; i++) {
    limit_s = found->n ? found->list[0].p.step_s : cutoff_s;
    if (f->ranked[i].bound_s >= limit_s) break;
    struct pz_step_shape *x = pz_shape_at(&f->space, f->ranked[i].shape);
    double bound_s = limit_s;
    bound_shape(call, f, x, &bound_s);
    if (bound_s < limit_s) price_shape(call, f, x);
  }
  if (found->n) {
    double step_s = found->list[0].p.step_s;
    *least_s = f->terms.scheduled ? pz_fmin(*least_s, step_s) : step_s;
  }
  return *found;
}

/* ---- energy --------------------------------------------------------------------------------- */

double pz_finder_least_j(struct pz_call *call, struct pz_plan_finder *f, const struct pz_chip *chip,
                         double voltage2) {
  return pz_term_least_j(call, &f->terms, chip, voltage2);
}

double pz_finder_plan_j(struct pz_call *call, struct pz_plan_finder *f, struct pz_finder_chip on,
                        const struct pz_plan *plan, double params) {
  for (uint32_t i = 0; i < f->space.shapes.n; i++) {
    struct pz_step_shape *x = pz_shape_at(&f->space, i);
    bool same_sp = x->tp == 1 || x->sp == plan->sp;
    bool same = x->tp == plan->tp && x->cp == pz_plan_cp(plan) && x->mbs == plan->mbs &&
                x->ep == pz_plan_ep(plan) && same_sp && x->halves == plan->halves;
    if (!same) continue;
    time_shape(call, f, x, on);
    return pz_step_dynamic_j(call, x->model, plan, params);
  }
  pz_raise(call, PZ_BAD_USE, "a plan of another finder");
}

/* ---- a finder ------------------------------------------------------------------------------- */

/* Sets the grids of each shape, and the shape that has the same plans. */
static void link_shapes(struct pz_plan_space *s) {
  for (uint32_t i = 0; i < s->grids.n; i++) { /* the grids of a shape are adjacent */
    const struct pz_plan_grid *g = pz_grid_at(s, i);
    struct pz_step_shape *x = pz_shape_at(s, g->shape);
    if (!x->n_grids) {
      x->first_grid = i;
      x->always_several = true;
    }
    x->n_grids++;
    x->always_several &= s->q->plan.batch > x->mbs * g->dp;
  }
  for (uint32_t i = 0; i < s->shapes.n; i++) { /* a shape with halves follows the same without */
    struct pz_step_shape *x = pz_shape_at(s, i);
    x->representative = i;
    if (!i) continue;
    const struct pz_step_shape *y = x - 1;
    bool same = x->tp == y->tp && x->cp == y->cp && x->ep == y->ep && x->mbs == y->mbs &&
                x->sp == y->sp && x->n_grids == y->n_grids;
    if (same && x->halves && !y->halves) x->representative = i - 1;
  }
}

/* Frees what the finder owns besides its arena. */
static void release_finder(void *finder) {
  struct pz_plan_finder *f = finder;
  pz_plan_space_release(&f->space);
  pz_plan_memory_release(&f->memory);
  pz_plan_frontiers_release(&f->frontiers);
  pz_product_times_free(f->own_times);
  pz_arena_release(&f->best_plans);
}

struct pz_plan_finder *pz_finder_new(struct pz_call *call, const struct pz_plan_question *q) {
  struct pz_call own;
  struct pz_plan_finder *f = pz_object_new(call, sizeof *f, &own);
  struct pz_chip *relaxed = pz_copy(call, q->job.chip, 1, sizeof *relaxed);
  f->q = *q;
  pz_arena_init(&f->best_plans, NULL);
  pz_vec_init(&f->open_grids, own.arena, sizeof(struct pz_plan_grid));
  pz_plan_space_init(&f->space, &f->q, own.arena);
  pz_arena_init(&f->memory.cache_arena, NULL);
  pz_plan_frontiers_init(&f->frontiers, &f->space, &f->memory);
  pz_defer(call, release_finder, f);
  struct pz_plan_space *s = &f->space;
  /* shapes are timed again for every chip; at first the relaxation without nested mappings is sufficient */
  relaxed->rules.nested_mapping = false;
  f->q.job.chip = relaxed;
  if (!q->job.times)
    pz_must(call, pz_product_times_new(q->shared, &f->own_times, pz_call_error(call)));
  if (f->own_times) f->q.job.times = f->own_times;
  pz_plan_space_list(call, s);
  pz_plan_memory_init(&own, &f->memory, s, true);
  pz_plan_pricing_init(&own, &f->pricing, s, &f->memory, &f->best_plans);
  pz_term_tables_init(&own, &f->terms, s);
  link_shapes(s);
  f->first_shape = (uint32_t)(pz_shared_table_turn(f->q.shared) * s->shapes.n);
  f->ranked = pz_alloc(&own, s->shapes.n, sizeof *f->ranked);
  f->q.job.chip = q->job.chip;
  pz_undefer(call, f); /* release_finder */
  return pz_object_keep(call, f);
}

void pz_plan_finder_free(struct pz_plan_finder *f) {
  if (f) release_finder(f);
  pz_object_free(f);
}
