#include "place/plan_finder.h"

#include <math.h>
#include <stdlib.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/shared_table.h"
#include "cost/power.h"
#include "place/plan_frontier.h"
#include "place/plan_pricing.h"
#include "step/step_energy.h"

struct ranked {
  double bound_s;
  uint32_t shape;
};

struct pz_plan_finder {
  struct pz_plan_question q;
  struct pz_arena arena, plans; /* what is kept; of the last search */
  struct pz_plan_space space;
  struct pz_plan_memory memory;
  struct pz_plan_pricing pricing;
  struct pz_plan_frontiers frontiers;
  struct pz_term_tables terms;
  struct pz_product_times *own_times; /* where the question has none */
  struct pz_error unused;
  uint32_t last_best;       /* shape */
  uint32_t first_shape;     /* which others that share do not begin with */
  struct ranked *ranked;    /* by shape */
  struct pz_vec open;       /* grids of a shape that promise something */
  struct pz_plan promising; /* the plan with the lowest bound */
  struct pz_step_shape *promising_shape;
};

/* All that a time depends on. */
static uint64_t chip_key(const struct pz_chip *c, const struct pz_cluster *net) {
  struct pz_power_law law = pz_power_law_of(c);
  double v[14 + 3 * PZ_CLUSTER_MOST_LEVELS] = {
      (double)c->tensor.cores,       (double)c->tensor.rows,  (double)c->tensor.cols,
      (double)c->tensor.local_bytes, (double)c->vector.cores, (double)c->vector.lanes,
      (double)c->glb_bytes,          c->glb_bytes_per_s,      c->clock_hz,
      pz_chip_hbm_bytes_per_s(c),    c->rules.nested_mapping, c->cold ? law.watts : 0,
      c->cold ? law.mm2 : 0,         c->bounds_others};
  for (int l = 0; l < net->n_levels; l++) {
    v[14 + 3 * l] = (double)net->level[l].devices;
    v[15 + 3 * l] = net->level[l].bytes_per_s;
    v[16 + 3 * l] = net->level[l].latency_s;
  }
  return pz_hash(v, sizeof v) | 1;
}

static enum pz_status time_shape(struct pz_plan_finder *f, struct pz_step_shape *x,
                                 const struct pz_chip *chip, const struct pz_cluster *net,
                                 uint64_t key) {
  struct pz_plan p = pz_step_shape_plan(&f->q, x);
  if (x->timed_for == key) return PZ_OK;
  enum pz_status status = pz_step_model_set_chip(x->m, chip, net, &p, f->terms.times, &x->err);
  if (status == PZ_OK) status = pz_step_shape_time(&f->space, x);
  x->timed_for = status == PZ_OK ? key : 0;
  return status == PZ_OK ? PZ_OK : pz_fail(f->space.err, status, "%s", x->err.message);
}

/* The waiting of a plan on all devices: with fewer the work of each grows by more than the waiting falls. */
static double with_waiting(const struct pz_plan_question *q) {
  return 1 + pz_step_waiting(q->job.constants, q->job.net, q->plan.devices);
}

static double shape_bound_s(const struct pz_plan_question *q, const struct pz_step_shape *x) {
  return pz_fmin(x->time[0].once_s, x->time[0].several_s) * pz_step_shape_share(q, x) *
         with_waiting(q) * (1 - 1e-9);
}

static int by_rank(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  if (x->bound_s != y->bound_s) return x->bound_s < y->bound_s ? -1 : 1;
  return (x->shape > y->shape) - (x->shape < y->shape);
}

static void set_question(struct pz_plan_finder *f, const struct pz_chip *chip,
                         const struct pz_cluster *net, double cutoff_s, struct pz_error *err) {
  struct pz_found_plan *list = f->pricing.found.list;
  f->q.job.chip = chip;
  f->q.job.net = net;
  f->space.err = err ? err : &f->unused;
  f->pricing.cutoff_s = cutoff_s;
  f->pricing.found = (struct pz_found_plans){.list = list};
  pz_plan_memory_set_chip(&f->memory, chip);
}

static double rates_bound_s(const struct pz_plan_finder *f, const struct pz_term_rates *r,
                            uint32_t shape) {
  enum pz_term_measure m = pz_term_measure_of(&f->terms, r, shape);
  return pz_term_s(&f->terms, r, shape, PZ_TERM_WHOLE, m) * f->terms.share[shape] *
         with_waiting(&f->q);
}

/* No plan of the shape that the HBM holds is faster. */
static enum pz_status shape_rates_bound_s(struct pz_plan_finder *f, const struct pz_term_rates *r,
                                          uint32_t shape, double *out) {
  const struct pz_frontier *plans = NULL;
  struct pz_term_seconds t;
  enum pz_status status = pz_plan_frontier_shape(&f->frontiers, shape, &plans);
  if (status != PZ_OK) return status;
  enum pz_term_measure m = pz_term_measure_of(&f->terms, r, shape);
  for (uint32_t k = 0; k < pz_terms_of(plans->kinds); k++)
    t.s[k] = pz_term_s(&f->terms, r, shape, pz_term_at(plans->kinds, k), m);
  return *out = pz_frontier_least_s(plans, &t), PZ_OK;
}

/* Shapes that may have a step below the limit, most promising first; how many. */
static enum pz_status rank_shapes(struct pz_plan_finder *f, const struct pz_chip *chip,
                                  const struct pz_cluster *net, double limit_s, uint32_t *n) {
  struct pz_term_rates r;
  enum pz_status status = pz_term_rates_of(&f->terms, chip, net, &r);
  *n = 0;
  for (uint32_t k = 0; k < f->space.shapes.n && status == PZ_OK; k++) {
    uint32_t i = (f->first_shape + k) % f->space.shapes.n;
    double s = rates_bound_s(f, &r, i);
    if (s >= limit_s) continue;
    if (limit_s < HUGE_VAL) status = shape_rates_bound_s(f, &r, i, &s);
    if (s < limit_s) f->ranked[(*n)++] = (struct ranked){s, i};
  }
  qsort(f->ranked, *n, sizeof *f->ranked, by_rank);
  return status;
}

enum pz_status pz_plan_finder_floor_s(struct pz_plan_finder *f, const struct pz_chip *chip,
                                      const struct pz_cluster *net, double enough_s, double *out,
                                      struct pz_error *err) {
  struct pz_term_rates r;
  double least = enough_s, s;
  set_question(f, chip, net, enough_s, err);
  enum pz_status status = pz_term_rates_of(&f->terms, chip, net, &r);
  /* the one that was best before is likely to be so again */
  for (uint32_t k = 0; k <= f->space.shapes.n && status == PZ_OK; k++) {
    uint32_t i = k ? (f->first_shape + k - 1) % f->space.shapes.n : f->last_best;
    if (rates_bound_s(f, &r, i) >= least) continue;
    status = shape_rates_bound_s(f, &r, i, &s);
    if (status == PZ_OK && s < least) least = s, f->last_best = i;
  }
  return *out = least, status;
}

/* What layers take on the chip that the shape is timed for; nothing for transfers. */
static enum pz_status shape_seconds(const struct pz_plan_space *s, struct pz_step_shape *x,
                                    struct pz_term_seconds *out) {
  static const int how[] = {PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_FULL,
                            PZ_RECOMPUTATION_SELECTIVE};
  struct pz_plan p = pz_step_shape_least(s->q, x);
  double t[PZ_TERMS] = {0};
  for (int h = 0; h < 3; h++) {
    p.recompute = how[h];
    enum pz_status status = pz_step_model_time(x->m, &p, 2, PZ_TIMING_BOUND, s->err);
    if (status != PZ_OK) return status;
    const struct pz_model_steps *m = x->m->steps;
    for (uint32_t k = 0; k < x->m->kinds.n; k++)
      t[(uint32_t)h * PZ_TERM_KINDS + k] =
          h ? pz_fmax(0, pz_layer_step_s(&m->again[k]) - pz_layer_step_s(&m->block[k]))
            : pz_layer_step_s(&m->block[k]);
    t[PZ_TERM_ENDS] = pz_layer_step_s(&m->before);
    t[PZ_TERM_ENDS + 1] = pz_layer_step_s(&m->after);
  }
  uint32_t kinds = x->m->kinds.n;
  for (uint32_t k = 0; k < pz_terms_of(kinds); k++) out->s[k] = t[pz_term_at(kinds, k)];
  return PZ_OK;
}

/* The least bound of the grid's plans, where it is below *least_s. */
static enum pz_status bound_grid(struct pz_plan_finder *f, struct pz_step_shape *x, uint32_t grid,
                                 const struct pz_term_seconds *t, double *least_s) {
  const struct pz_frontier *plans;
  enum pz_status status = pz_plan_frontier_grid(&f->frontiers, grid, &plans);
  for (uint32_t i = 0; status == PZ_OK && i < plans->n_plans; i++) {
    const struct pz_frontier_plan *p = &pz_frontier_plans(plans)[i];
    struct pz_plan plan = pz_frontier_unpack(plans, p, &f->space, pz_grid_at(&f->space, grid));
    double s;
    /* gradients of one microbatch need not be added up */
    double part =
        pz_plan_microbatches(&plan) == 1 ? pz_fmin(1, x->time[0].once_s / x->time[0].several_s) : 1;
    if (pz_frontier_plan_s(plans, p, t) * part >= *least_s) continue;
    status = pz_step_bound(x->m, &plan, &s, f->space.err);
    if (status != PZ_OK || s * (1 - 1e-9) >= *least_s) continue;
    *least_s = s * (1 - 1e-9);
    f->promising = plan;
    f->promising_shape = x;
  }
  return status;
}

/* The least bound of the shape's plans on a chip, where it is below *least_s. */
static enum pz_status bound_shape_on(struct pz_plan_finder *f, struct pz_step_shape *x,
                                     const struct pz_chip *chip, double *least_s) {
  const struct pz_plan_space *s = &f->space;
  struct pz_term_seconds t;
  if (pz_plan_question_over(&f->q)) return pz_plan_stopped(s);
  enum pz_status status = time_shape(f, x, chip, f->q.job.net, chip_key(chip, f->q.job.net));
  if (status != PZ_OK || shape_bound_s(&f->q, x) >= *least_s) return status;
  status = shape_seconds(s, x, &t);
  for (uint32_t i = x->first_grid; i < x->first_grid + x->n_grids && status == PZ_OK; i++)
    if (pz_plan_grid_bound_s(s->q, x, pz_grid_at(s, i)) * (1 - 1e-9) < *least_s)
      status = bound_grid(f, x, i, &t, least_s);
  return status;
}

/* The same on the question's chip: the relaxation of nested mappings, whose times are kept, often says enough. */
static enum pz_status bound_shape(struct pz_plan_finder *f, struct pz_step_shape *x,
                                  double *least_s) {
  struct pz_chip relaxed = *f->q.job.chip;
  double least = *least_s;
  enum pz_status status = PZ_OK;
  bool timed = x->timed_for == chip_key(f->q.job.chip, f->q.job.net);
  if (relaxed.rules.nested_mapping && !timed) {
    relaxed.rules.nested_mapping = false;
    relaxed.bounds_others = true;
    status = bound_shape_on(f, x, &relaxed, &least);
    if (status != PZ_OK || !(least < *least_s)) return status;
  }
  return bound_shape_on(f, x, f->q.job.chip, least_s);
}

enum pz_status pz_plan_finder_bound_s(struct pz_plan_finder *f, const struct pz_chip *chip,
                                      const struct pz_cluster *net, double enough_s,
                                      double *bound_s, struct pz_error *err) {
  double least = enough_s;
  pz_plan_frontiers_trim(&f->frontiers);
  set_question(f, chip, net, enough_s, err);
  f->promising_shape = NULL;
  uint32_t n = 0;
  enum pz_status ranked = rank_shapes(f, chip, net, enough_s, &n);
  if (ranked != PZ_OK) return ranked;
  for (uint32_t i = 0; i < n && f->ranked[i].bound_s < least; i++) {
    struct pz_step_shape *x = pz_shape_at(&f->space, f->ranked[i].shape);
    enum pz_status status = bound_shape(f, x, &least);
    if (status != PZ_OK) return status;
  }
  return *bound_s = least, PZ_OK;
}

enum pz_status pz_plan_finder_again_s(struct pz_plan_finder *f, const struct pz_chip *chip,
                                      const struct pz_cluster *net, double *step_s,
                                      struct pz_error *err) {
  struct pz_chip relaxed = *chip;
  relaxed.rules.nested_mapping = false;
  *step_s = HUGE_VAL;
  if (!f->promising_shape) return PZ_OK;
  set_question(f, &relaxed, net, HUGE_VAL, err);
  enum pz_status status = time_shape(f, f->promising_shape, &relaxed, net, chip_key(&relaxed, net));
  if (status != PZ_OK) return status;
  return pz_step_bound(f->promising_shape->m, &f->promising, step_s, f->space.err);
}

/* Grids of a shape that promise something, in the order of their bounds. */
static enum pz_status find_in_shape(struct pz_plan_finder *f, struct pz_step_shape *x) {
  enum pz_status status = PZ_OK;
  f->open.n = 0;
  for (uint32_t i = x->first_grid; i < x->first_grid + x->n_grids; i++) {
    struct pz_plan_grid *g = pz_grid_at(&f->space, i);
    g->bound = g->bound_s = pz_plan_grid_bound_s(&f->q, x, g);
    if (pz_plan_pricing_promises(&f->pricing, g) && !pz_vec_push(&f->open, g))
      return pz_plan_no_memory(&f->space);
  }
  pz_plan_grids_sort(&f->open);
  for (uint32_t i = 0; i < f->open.n && status == PZ_OK; i++) {
    const struct pz_plan_grid *g = pz_vec_at(&f->open, struct pz_plan_grid, i);
    if (!pz_plan_pricing_promises(&f->pricing, g)) break;
    status = pz_plan_pricing_grid(&f->pricing, g);
  }
  return status;
}

enum pz_status pz_plan_finder_find(struct pz_plan_finder *f, const struct pz_chip *chip,
                                   const struct pz_cluster *net, double cutoff_s,
                                   struct pz_found_plans *out, double *least_s,
                                   struct pz_error *err) {
  const struct pz_found_plans *found = &f->pricing.found;
  uint32_t n = 0;
  pz_arena_release(&f->plans);
  pz_arena_init(&f->plans, NULL);
  enum pz_status status = pz_plan_finder_bound_s(f, chip, net, cutoff_s, least_s, err);
  /* the plan with the lowest bound first: few are faster */
  if (status == PZ_OK && f->promising_shape)
    status = pz_plan_pricing_add(&f->pricing, f->promising_shape, &f->promising);
  if (status == PZ_OK && f->promising_shape) {
    double limit_s = found->n ? found->list[0].p.step_s : cutoff_s;
    status = rank_shapes(f, chip, net, limit_s, &n);
  }
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    double limit_s = found->n ? found->list[0].p.step_s : cutoff_s, bound_s = limit_s;
    struct pz_step_shape *x = pz_shape_at(&f->space, f->ranked[i].shape);
    if (f->ranked[i].bound_s >= limit_s) break;
    status = bound_shape(f, x, &bound_s);
    if (status == PZ_OK && bound_s < limit_s) status = find_in_shape(f, x);
  }
  if (status == PZ_OK) *out = *found;
  if (found->n && !f->terms.scheduled) *least_s = found->list[0].p.step_s;
  if (found->n) *least_s = pz_fmin(*least_s, found->list[0].p.step_s);
  return status;
}

enum pz_status pz_plan_finder_least_j(struct pz_plan_finder *f, const struct pz_chip *chip,
                                      double voltage2, double *joules, struct pz_error *err) {
  f->space.err = err ? err : &f->unused;
  return pz_term_least_j(&f->terms, chip, voltage2, joules);
}

enum pz_status pz_plan_finder_plan_j(struct pz_plan_finder *f, const struct pz_chip *chip,
                                     const struct pz_cluster *net, const struct pz_plan *plan,
                                     double params, double *joules, struct pz_error *err) {
  f->space.err = err ? err : &f->unused;
  for (uint32_t i = 0; i < f->space.shapes.n; i++) {
    struct pz_step_shape *x = pz_shape_at(&f->space, i);
    if (x->tp != plan->tp || x->cp != pz_plan_cp(plan) || x->mbs != plan->mbs ||
        x->ep != pz_plan_ep(plan) || (x->tp > 1 && x->sp != plan->sp) || x->halves != plan->halves)
      continue;
    enum pz_status status = time_shape(f, x, chip, net, chip_key(chip, net));
    return status == PZ_OK ? pz_step_dynamic_j(x->m, plan, params, joules, f->space.err) : status;
  }
  return pz_fail(f->space.err, PZ_BAD_USE, "a plan of another finder");
}

static enum pz_status begin_finder(struct pz_plan_finder *f, struct pz_error *err) {
  struct pz_plan_space *s = &f->space;
  enum pz_status status = pz_plan_space_list(s, err);
  if (status == PZ_OK) status = pz_plan_memory_begin(&f->memory, &f->arena);
  if (status == PZ_OK) status = pz_plan_pricing_begin(&f->pricing, s, &f->memory, &f->arena);
  if (status == PZ_OK) status = pz_term_tables_begin(&f->terms);
  if (status != PZ_OK) return status;
  f->first_shape = (uint32_t)(pz_shared_table_turn(f->q.shared) * s->shapes.n);
  for (uint32_t i = 0; i < s->grids.n; i++) { /* those of each shape one after another */
    struct pz_step_shape *x = pz_shape_at(s, pz_grid_at(s, i)->shape);
    if (!x->n_grids++) x->first_grid = i, x->never_once = true;
    x->never_once &= s->q->plan.batch > x->mbs * pz_grid_at(s, i)->dp;
  }
  for (uint32_t i = 0; i < s->shapes.n; i++) { /* halves come behind the whole */
    struct pz_step_shape *x = pz_shape_at(s, i), *y = i ? x - 1 : x;
    bool same = x->tp == y->tp && x->cp == y->cp && x->ep == y->ep && x->mbs == y->mbs &&
                x->sp == y->sp && x->n_grids == y->n_grids;
    x->like = same && x->halves && !y->halves ? i - 1 : i;
  }
  f->ranked = pz_arena_alloc(&f->arena, s->shapes.n, sizeof *f->ranked);
  if (!f->ranked) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  f->pricing.arena = &f->plans;
  return PZ_OK;
}

enum pz_status pz_plan_finder_new(const struct pz_plan_question *q, struct pz_plan_finder **out,
                                  struct pz_error *err) {
  struct pz_plan_finder *f = pz_calloc(1, sizeof *f);
  if (!f) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  f->q = *q;
  pz_arena_init(&f->arena, NULL);
  pz_arena_init(&f->plans, NULL);
  pz_vec_init(&f->open, &f->arena, sizeof(struct pz_plan_grid));
  pz_plan_space_init(&f->space, &f->q, &f->arena);
  pz_plan_memory_init(&f->memory, &f->space, true);
  pz_plan_frontiers_init(&f->frontiers, &f->space, &f->memory);
  pz_term_tables_init(&f->terms, &f->space, &f->arena);
  /* shapes are timed again for every chip: at first the relaxation will do */
  struct pz_chip first = *q->job.chip;
  first.rules.nested_mapping = false;
  f->q.job.chip = &first;
  enum pz_status status =
      q->job.times ? PZ_OK : pz_product_times_new(q->shared, &f->own_times, err);
  if (f->own_times) f->q.job.times = f->own_times;
  if (status == PZ_OK) status = begin_finder(f, err);
  f->q.job.chip = q->job.chip;
  if (status == PZ_OK)
    *out = f;
  else
    pz_plan_finder_free(f);
  return status;
}

void pz_plan_finder_free(struct pz_plan_finder *f) {
  if (!f) return;
  pz_plan_space_release(&f->space);
  pz_plan_memory_release(&f->memory);
  pz_plan_frontiers_release(&f->frontiers);
  pz_product_times_free(f->own_times);
  pz_arena_release(&f->plans);
  pz_arena_release(&f->arena);
  pz_free(f);
}
