#include "partition/problem.h"

#include <math.h>

#include "core/num.h"

#define NO_MEMORY "out of memory for the bounds"

/* ---- what memory allows --------------------------------------------------------------------- */

static double memory_of(const struct pz_place_bound *x, double params, double acts, uint32_t i,
                        bool first) {
  double kept = x->p.recompute ? (first ? 0 : x->edge_bytes) : acts;
  return x->p.state * params + acts + (double)(i - 1) * kept;
}

/* Stages from the end, each as long as memory allows: no plan needs fewer.  One that begins the model
 * keeps nothing that enters it, so it may fit where a shorter one does not. */
static uint32_t fewest(const struct pz_place_bound *x) {
  const struct pz_place_width *w = &x->p.widths[0];
  uint32_t to = w->n;
  for (uint32_t i = 1; i <= w->n; i++) {
    double params = 0, acts = 0;
    uint32_t from = to; /* where the i-th can begin at the earliest */
    for (uint32_t at = to; at > 0; at--) {
      params += w->layers[at - 1].param_bytes;
      acts += w->layers[at - 1].act_bytes;
      if (from == at && memory_of(x, params, acts, i, false) <= x->p.hbm_bytes) from = at - 1;
    }
    if (from == 0 || memory_of(x, params, acts, i, true) <= x->p.hbm_bytes) return i;
    to = from;
  }
  return w->n + 1;
}

/* A first stage of the cheapest layer alone must fit beside what is in flight. */
static bool one_fits(const struct pz_place_bound *x, uint32_t s) {
  const struct pz_place_width *w = &x->p.widths[0];
  for (uint32_t i = 0; i < w->n; i++)
    if (memory_of(x, w->layers[i].param_bytes, w->layers[i].act_bytes, s, true) <= x->p.hbm_bytes)
      return true;
  return false;
}

/* ---- tables --------------------------------------------------------------------------------- */

static int64_t most_replicas(const struct pz_place_problem *p, uint32_t s) {
  return pz_min(p->devices / ((int64_t)s * p->widths[0].t), p->microbatches);
}

/* Of s stages the largest has an even share and the largest layer; the first has the first layer.
 */
static enum pz_status init_domain(struct pz_place_bound *x, struct pz_arena *arena,
                                  struct pz_error *err) {
  const struct pz_place_problem *p = &x->p;
  const struct pz_place_width *w = &p->widths[0];
  double all = 0, most = 0;
  for (uint32_t i = 0; i < x->n_runs; i++)
    if (x->runs[i] > x->runs[x->main_run]) x->main_run = i;
  for (uint32_t e = 0; e < w->n_edges; e++)
    if (e == 0 || w->edges[e].bytes < x->edge_bytes) x->edge_bytes = w->edges[e].bytes;
  x->transfer_s = x->edge_bytes / p->bytes_per_s;
  x->share = (double)(p->microbatches * w->t) / (double)p->devices * (1 - 1e-12);
  x->least_stages = fewest(x);
  x->most_stages = w->n;
  while (x->most_stages > 0 &&
         (most_replicas(p, x->most_stages) < 1 || !one_fits(x, x->most_stages)))
    x->most_stages--;
  x->params = pz_arena_alloc(arena, (size_t)x->most_stages + 1, sizeof *x->params);
  x->rounds = pz_arena_alloc(arena, (size_t)x->most_stages + 1, sizeof *x->rounds);
  if (!x->params || !x->rounds) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t i = 0; i < w->n; i++) {
    all += w->layers[i].param_bytes;
    most = fmax(most, w->layers[i].param_bytes);
  }
  for (uint32_t s = 1; s <= x->most_stages; s++) {
    bool largest = p->semantics == PZ_SEMANTICS_CORRECTED;
    x->params[s] = s == 1 ? all : largest ? fmax(all / s, most) : w->layers[0].param_bytes;
    int64_t least = pz_ceil_div(p->microbatches, most_replicas(p, s)) + s - 1;
    x->rounds[s] = (double)least;
  }
  return PZ_OK;
}

enum pz_status pz_place_bound_init(struct pz_place_bound *x, const struct pz_place_problem *p,
                                   const uint32_t *runs, uint32_t n_runs, struct pz_arena *arena,
                                   struct pz_error *err) {
  struct pz_place_bound *inner = pz_arena_alloc(arena, p->n_domains, sizeof *inner);
  if (!inner) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i <= p->n_domains && status == PZ_OK; i++) {
    struct pz_place_bound *at = i < p->n_domains ? &inner[i] : x;
    *at = (struct pz_place_bound){.p = pz_place_within(p, i), .runs = runs, .n_runs = n_runs};
    status = init_domain(at, arena, err);
  }
  x->inner = inner;
  x->n_inner = p->n_domains;
  return status;
}

/* Sums here are made in another order than the solver's. */
static const double SLACK = 1 - 1e-9;

/* ---- the bound ------------------------------------------------------------------------------ */

struct work {
  double fwd_s, bwd_s, most_s; /* of all layers; of the longest one */
  double forward_part;         /* the largest part that forward has of a layer */
  double main_fwd_s, main_bwd_s, main_n;
  double first_fwd_s, first_bwd_s, last_s; /* of the layers at both ends, if not repeated ones */
};

static struct work sum(const struct pz_place_bound *x, const double *fwd_s, const double *bwd_s) {
  uint32_t last = x->n_runs - 1;
  struct work w = {.main_fwd_s = fwd_s[x->main_run],
                   .main_bwd_s = bwd_s[x->main_run],
                   .main_n = x->runs[x->main_run]};
  for (uint32_t i = 0; i < x->n_runs; i++) {
    double n = x->runs[i], both = fwd_s[i] + bwd_s[i];
    w.fwd_s += n * fwd_s[i];
    w.bwd_s += n * bwd_s[i];
    w.most_s = pz_fmax(w.most_s, both);
    if (fwd_s[i] > w.forward_part * both) w.forward_part = fwd_s[i] / both;
  }
  if (x->main_run > 0) w.first_fwd_s = fwd_s[0], w.first_bwd_s = bwd_s[0];
  if (x->main_run < last) w.last_s = fwd_s[last] + bwd_s[last];
  return w;
}

/* Stages of one kind: with k repeated layers the load is at least offset + k each, in two ways. */
struct stage_kind {
  double count;
  double offset[2], each[2];
};

/* Repeated layers that such a stage can have under a load. */
static double layer_capacity(const struct stage_kind *k, double load) {
  double most = HUGE_VAL;
  for (int i = 0; i < 2; i++) {
    double n = (load - k->offset[i]) / k->each[i];
    if (n < most) most = n;
  }
  if (!(most < PZ_PLACE_MOST_LAYERS)) return PZ_PLACE_MOST_LAYERS;
  return most > 0 ? (double)(int64_t)(most * (1 + 1e-12)) : 0;
}

/* The least load from `load` on under which the stages can have n repeated layers.  It goes
 * from one load at which a kind can have one more to the next. */
static double least_load(const struct stage_kind kinds[3], double n, double load) {
  for (int tries = 0; tries < 32; tries++) {
    double all = 0, next = HUGE_VAL;
    for (int i = 0; i < 3; i++) {
      const struct stage_kind *k = &kinds[i];
      double own = layer_capacity(k, load), more = k->offset[0] + (own + 1) * k->each[0];
      more = pz_fmax(more, k->offset[1] + (own + 1) * k->each[1]);
      all += k->count * own;
      if (k->count > 0 && more < next) next = more;
    }
    if (all >= n || !(next > load)) break;
    load = next;
  }
  return load;
}

/* Keeping activations, two stages or more: some stage has its even share; stages inside wait for
 * two transfers, those at the ends for one. */
static double kept_load(const struct pz_place_bound *x, const struct work *w, double s,
                        double load) {
  double both = w->main_fwd_s + w->main_bwd_s, t = x->transfer_s;
  double first = t + w->first_fwd_s + w->first_bwd_s, last = t + w->last_s;
  const struct stage_kind kinds[3] = {{1, {first, first}, {both, both}},
                                      {s - 2, {2 * t, 2 * t}, {both, both}},
                                      {1, {last, last}, {both, both}}};
  return least_load(kinds, w->main_n, load);
}

/* Recomputing: stages but the last compute forward twice, and meanwhile the gradient arrives. */
static double recompute_load(const struct pz_place_bound *x, const struct work *w, double s,
                             double load) {
  double once = w->main_fwd_s + w->main_bwd_s, twice = once + w->main_fwd_s, t = x->transfer_s;
  double first = w->first_fwd_s + w->first_bwd_s, last = t + w->last_s;
  const struct stage_kind kinds[3] = {{1, {first + w->first_fwd_s, t + first}, {twice, once}},
                                      {s - 2, {t, 2 * t}, {twice, once}},
                                      {1, {last, last}, {once, once}}};
  return least_load(kinds, w->main_n, load);
}

/* The even share of the work and of the transfers. */
static double even_load(const struct pz_place_bound *x, const struct work *w, double s) {
  double once = w->fwd_s + w->bwd_s;
  if (s == 1) return once;
  return x->p.recompute ? (once + w->fwd_s + (s - 1) * x->transfer_s) / (s + w->forward_part)
                        : (once + 2 * (s - 1) * x->transfer_s) / s;
}

static double domain_time_s(const struct pz_place_bound *x, const double *fwd_s,
                            const double *bwd_s, double limit_s) {
  struct work w = sum(x, fwd_s, bwd_s);
  double best = HUGE_VAL;
  if (x->least_stages > x->most_stages) return HUGE_VAL;
  if ((w.fwd_s + w.bwd_s) * x->share >= limit_s) return limit_s;
  for (uint32_t s = x->least_stages; s <= x->most_stages; s++) {
    double load = pz_fmax(even_load(x, &w, s), w.most_s), most = best < limit_s ? best : limit_s;
    if (load * SLACK * x->rounds[s] >= most) continue;
    if (s > 1) load = x->p.recompute ? recompute_load(x, &w, s, load) : kept_load(x, &w, s, load);
    load *= SLACK;
    if (load * x->rounds[s] >= most) continue;
    struct pz_replicas r =
        pz_place_best_d(&x->p, load, s, (int64_t)s * x->p.widths[0].t, x->params[s], HUGE_VAL);
    best = pz_fmin(best, r.time_s); /* DBL_MAX: none */
  }
  return best < HUGE_VAL ? best : limit_s;
}

double pz_place_bound_time_s(const struct pz_place_bound *x, const double *fwd_s,
                             const double *bwd_s, double limit_s) {
  double best = domain_time_s(x, fwd_s, bwd_s, limit_s);
  for (uint32_t i = 0; i < x->n_inner; i++) {
    double now = domain_time_s(&x->inner[i], fwd_s, bwd_s, best < limit_s ? best : limit_s);
    best = now < best ? now : best;
  }
  return best;
}
