#include "partition/problem.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/map.h"
#include "core/num.h"
#include "core/vec.h"

#define NO_MEMORY "out of memory for the placement"
enum { MOST_CUTS = 1024 };

/* A possible stage, from a cut to a later one. */
struct stage_cost {
  double stash_s, recompute_s; /* load: with activations kept, or forward again */
  double work_s;               /* forward and backward alone: grows with the stage */
  double recompute_work_s;     /* the same when it is not the last: with the forward again */
  double param_bytes, act_bytes, in_bytes;
  bool tensor_parallel;
};

/* What is known of plans at one width.  A cut is a set of layers closed under predecessors (a
 * downset); a stage is the difference of two.  On a chain, cuts are prefixes.  For the last k stages,
 * c of them on one device, that begin at a cut: the least maxload, and where the first of them ends.
 */
struct table {
  const struct pz_place_problem *p;
  const struct pz_place_width *w;
  const uint64_t *cuts;          /* sets of layers, `words` each; NULL: prefixes */
  uint32_t n_cuts, words;        /* from the empty one to the whole, each after those within it */
  struct stage_cost *costs;      /* [from * n_cuts + to] */
  uint32_t most_stages, classes; /* classes: how many stages may be on one device, and none */
  double *least;                 /* [(k * classes + c) * n_cuts + cut] */
  uint32_t *end;
  double cap_bytes;   /* stages have at most so many parameters */
  double most_params; /* of one layer */
  double *rounds;     /* by number of stages: the least number of microbatches' times */
  double *limit_s;    /* by k: a better plan's last k stages have loads below this */
  double limit_of;    /* the time of the plan it must be better than */
};

/* The best plan so far. */
struct best {
  struct pz_replicas r;
  uint32_t n_stages;                   /* 0: none at this width */
  uint32_t ends[PZ_PLACE_MOST_LAYERS]; /* of its stages, as cuts */
};

static size_t at(const struct table *x, uint32_t k, uint32_t c, uint32_t cut) {
  return ((size_t)k * x->classes + c) * x->n_cuts + cut;
}

static struct stage_cost *cost(const struct table *x, uint32_t from, uint32_t to) {
  return &x->costs[(size_t)from * x->n_cuts + to];
}

/* Load and memory of the i-th stage from the end (problem.h). */
static double load_s(const struct table *x, const struct stage_cost *c, uint32_t i) {
  return x->p->recompute && i > 1 ? c->recompute_s : c->stash_s;
}

static double memory_bytes(const struct table *x, const struct stage_cost *c, uint32_t i) {
  double kept = x->p->recompute ? c->in_bytes : c->act_bytes;
  return x->p->state * c->param_bytes + c->act_bytes + (double)(i - 1) * kept;
}

/* ---- cuts ----------------------------------------------------------------------------------- */

static bool has(const uint64_t *set, uint32_t i) { return set[i / 64] >> (i % 64) & 1; }

static bool is_within(const uint64_t *set, const uint64_t *other, uint32_t words) {
  for (uint32_t w = 0; w < words; w++)
    if (set[w] & ~other[w]) return false;
  return true;
}

static bool in_stage(const struct table *x, uint32_t from, uint32_t to, uint32_t layer) {
  if (!x->cuts) return layer >= from && layer < to;
  return has(&x->cuts[(size_t)to * x->words], layer) &&
         !has(&x->cuts[(size_t)from * x->words], layer);
}

static bool is_stage(const struct table *x, uint32_t from, uint32_t to) {
  if (from >= to || !x->cuts) return from < to;
  return is_within(&x->cuts[(size_t)from * x->words], &x->cuts[(size_t)to * x->words], x->words);
}

static bool is_chain(const struct pz_place_width *w) {
  bool linked[PZ_PLACE_MOST_LAYERS] = {false};
  for (uint32_t e = 0; e < w->n_edges; e++)
    if (w->edges[e].to == w->edges[e].from + 1) linked[w->edges[e].from] = true;
  for (uint32_t i = 0; i + 1 < w->n; i++)
    if (!linked[i]) return false;
  return true;
}

/* All cuts, breadth first: each comes after those within it. */
static enum pz_status find_cuts(struct table *x, struct pz_arena *arena, struct pz_error *err) {
  uint32_t n = x->w->n, words = (n + 63) / 64;
  size_t bytes = words * sizeof(uint64_t);
  struct pz_vec list;
  struct pz_map seen;
  uint64_t *next = pz_arena_alloc(arena, words, sizeof *next);
  uint64_t *before = pz_arena_alloc(arena, (size_t)n * words, sizeof *before); /* by layer */
  pz_vec_init(&list, arena, bytes);
  pz_map_init(&seen, arena);
  bool ok = next && before && pz_vec_push(&list, NULL);
  for (uint32_t e = 0; ok && e < x->w->n_edges; e++) {
    const struct pz_place_edge *edge = &x->w->edges[e];
    before[(size_t)edge->to * words + edge->from / 64] |= UINT64_C(1) << (edge->from % 64);
  }
  for (uint32_t cut = 0; ok && cut < list.n && list.n <= MOST_CUTS; cut++)
    for (uint32_t i = 0; ok && i < n; i++) {
      memcpy(next, (char *)list.items + cut * bytes, bytes);
      if (has(next, i) || !is_within(&before[(size_t)i * words], next, words)) continue;
      next[i / 64] |= UINT64_C(1) << (i % 64);
      if (pz_map_get(&seen, next, bytes) != PZ_NONE) continue;
      ok = pz_map_put(&seen, next, bytes, 0) == PZ_OK && pz_vec_push(&list, next);
    }
  if (!ok) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  if (list.n > MOST_CUTS)
    return pz_fail(err, PZ_BAD_INPUT,
                   "the layers branch too much: more than %d cuts into two parts", MOST_CUTS);
  x->cuts = list.items;
  x->n_cuts = list.n;
  x->words = words;
  return PZ_OK;
}

/* ---- costs of stages ------------------------------------------------------------------------ */

/* In any graph.  latest: when what a layer waits for arrives, forward and backward. */
static void cost_stage(const struct table *x, uint32_t from, uint32_t to, double *latest[2]) {
  const struct pz_place_width *w = x->w;
  struct stage_cost *c = cost(x, from, to);
  double fw = 0, bw = 0, again = 0, sum_bwd = 0;
  for (int d = 0; d < 2; d++) memset(latest[d], 0, w->n * sizeof *latest[d]);
  for (uint32_t e = 0; e < w->n_edges; e++) {
    const struct pz_place_edge *edge = &w->edges[e];
    bool leaves = in_stage(x, from, to, edge->from), enters = in_stage(x, from, to, edge->to);
    if (leaves == enters) continue; /* inside, or elsewhere */
    double *arrival = enters ? &latest[PZ_FORWARD][edge->to] : &latest[PZ_BACKWARD][edge->from];
    *arrival = pz_fmax(*arrival, edge->bytes / x->p->bytes_per_s);
    if (enters) c->in_bytes += edge->bytes;
  }
  for (uint32_t i = 0; i < w->n; i++) {
    if (!in_stage(x, from, to, i)) continue;
    const struct pz_place_layer *l = &w->layers[i];
    fw = pz_fmax(fw, latest[PZ_FORWARD][i]) + l->fwd_s;
    again += l->fwd_s;
    c->param_bytes += l->param_bytes;
    c->act_bytes += l->act_bytes;
    c->tensor_parallel = c->tensor_parallel || l->tensor_parallel;
  }
  for (uint32_t i = w->n; i-- > 0;) {
    if (!in_stage(x, from, to, i)) continue;
    bw = pz_fmax(bw, latest[PZ_BACKWARD][i]) + w->layers[i].bwd_s;
    sum_bwd += w->layers[i].bwd_s;
  }
  c->stash_s = fw + bw;
  c->recompute_s = fw + pz_fmax(bw, again + sum_bwd);
  c->work_s = again + sum_bwd;
  c->recompute_work_s = c->work_s + (x->p->recompute ? again : 0);
}

/* On a chain, for every stage that begins at `from`: what goes forward, sums, and what enters. */
static void cost_forward(const struct table *x, uint32_t from, double *latest, double *bytes) {
  const struct pz_place_width *w = x->w;
  struct stage_cost sum = {0};
  memset(latest, 0, w->n * sizeof *latest);
  memset(bytes, 0, w->n * sizeof *bytes);
  for (uint32_t e = 0; e < w->n_edges; e++) {
    const struct pz_place_edge *edge = &w->edges[e];
    if (edge->from >= from || edge->to < from) continue;
    latest[edge->to] = pz_fmax(latest[edge->to], edge->bytes / x->p->bytes_per_s);
    bytes[edge->to] += edge->bytes;
  }
  for (uint32_t i = from; i < w->n; i++) {
    const struct pz_place_layer *l = &w->layers[i];
    sum.stash_s = pz_fmax(sum.stash_s, latest[i]) + l->fwd_s;
    sum.recompute_s += l->fwd_s; /* forward again */
    sum.work_s += l->fwd_s + l->bwd_s;
    sum.recompute_work_s += (x->p->recompute ? 2 : 1) * l->fwd_s + l->bwd_s;
    sum.param_bytes += l->param_bytes;
    sum.act_bytes += l->act_bytes;
    sum.in_bytes += bytes[i];
    sum.tensor_parallel = sum.tensor_parallel || l->tensor_parallel;
    *cost(x, from, i + 1) = sum;
  }
}

/* Then for every stage that ends at `to`: what goes backward. */
static void cost_backward(const struct table *x, uint32_t to, double *latest) {
  const struct pz_place_width *w = x->w;
  double bw = 0, sum_bwd = 0;
  memset(latest, 0, w->n * sizeof *latest);
  for (uint32_t e = 0; e < w->n_edges; e++) {
    const struct pz_place_edge *edge = &w->edges[e];
    if (edge->from < to && edge->to >= to)
      latest[edge->from] = pz_fmax(latest[edge->from], edge->bytes / x->p->bytes_per_s);
  }
  for (uint32_t i = to; i-- > 0;) {
    struct stage_cost *c = cost(x, i, to);
    bw = pz_fmax(bw, latest[i]) + w->layers[i].bwd_s;
    sum_bwd += w->layers[i].bwd_s;
    double fw = c->stash_s, again = c->recompute_s;
    c->stash_s = fw + bw;
    c->recompute_s = fw + pz_fmax(bw, again + sum_bwd);
  }
}

static enum pz_status cost_stages(struct table *x, struct pz_arena *arena, struct pz_error *err) {
  enum pz_status status = is_chain(x->w) ? PZ_OK : find_cuts(x, arena, err);
  if (status != PZ_OK) return status;
  uint32_t n = x->n_cuts;
  double *latest[2] = {pz_arena_alloc(arena, x->w->n, sizeof(double)),
                       pz_arena_alloc(arena, x->w->n, sizeof(double))};
  x->costs = pz_arena_alloc(arena, (size_t)n * n, sizeof *x->costs);
  if (!latest[0] || !latest[1] || !x->costs) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t i = 0; !x->cuts && i + 1 < n; i++) cost_forward(x, i, latest[0], latest[1]);
  for (uint32_t i = 1; !x->cuts && i < n; i++) cost_backward(x, i, latest[0]);
  for (uint32_t a = 0; x->cuts && a < n; a++)
    for (uint32_t b = a + 1; b < n; b++)
      if (is_stage(x, a, b)) cost_stage(x, a, b, latest);
  return PZ_OK;
}

/* ---- one stage ------------------------------------------------------------------------------ */

static int64_t devices(const struct table *x, uint32_t k, uint32_t c) {
  return (int64_t)(k - c) * x->w->t + c;
}

static bool on_one_device(const struct table *x, const struct stage_cost *c) {
  return x->w->t > 1 && !c->tensor_parallel;
}

static bool fits(const struct table *x, const struct stage_cost *c, uint32_t i) {
  return memory_bytes(x, c, i) <= x->p->hbm_bytes && c->param_bytes <= x->cap_bytes;
}

/* The k-th stage from the end runs from `from` to `to`: better than what is known? */
static void try_stage(struct table *x, uint32_t k, uint32_t from, uint32_t to) {
  const struct stage_cost *stage = cost(x, from, to);
  if (!fits(x, stage, k)) return;
  double load = load_s(x, stage, k);
  bool single = on_one_device(x, stage);
  for (uint32_t c = single; c < x->classes; c++) {
    double most = pz_fmax(load, x->least[at(x, k - 1, c - single, to)]);
    size_t here = at(x, k, c, from);
    if (most >= x->least[here]) continue;
    x->least[here] = most;
    x->end[here] = to;
  }
}

/* ---- what need not be looked at ------------------------------------------------------------- */

/* On a chain work grows with the stage.  Too long: nothing more to find from here (k > 1). */
static bool too_long(const struct table *x, uint32_t k, uint32_t from, uint32_t to, double limit) {
  const struct stage_cost *stage = cost(x, from, to);
  double worst = 0;
  if (x->p->state * stage->param_bytes + stage->act_bytes > x->p->hbm_bytes) return true;
  for (uint32_t c = 0; c < x->classes; c++) worst = pz_fmax(worst, x->least[at(x, k, c, from)]);
  return stage->recompute_work_s >= worst || stage->recompute_work_s >= limit;
}

/* Too short: what is left is more than k - 1 stages can take, of which the last computes less.  The
 * first end that is not. */
static uint32_t first_end(const struct table *x, uint32_t k, uint32_t from, double limit) {
  uint32_t n = x->n_cuts, low = from + 1, high = n - k;
  const struct stage_cost *all = cost(x, from, n - 1);
  double light = all->recompute_work_s - all->work_s; /* at most, that the last computes less */
  double least =
      all->recompute_work_s - (k - 1) * limit - pz_fmax(0, light < limit ? light : limit);
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (cost(x, from, middle)->recompute_work_s < least * (1 - 1e-12))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static void fill_cell(struct table *x, uint32_t k, uint32_t from, double limit) {
  uint32_t n = x->n_cuts;
  if (x->cuts) {
    for (uint32_t to = from + 1; to < n; to++)
      if (is_stage(x, from, to)) try_stage(x, k, from, to);
    return;
  }
  if (from + k >= n || cost(x, from, n - 1)->work_s >= limit * k ||
      cost(x, from, n - 1)->recompute_work_s >= limit * (k + 1))
    return;
  for (uint32_t to = first_end(x, k, from, limit); to + k <= n; to++) {
    if (too_long(x, k, from, to, limit)) return;
    try_stage(x, k, from, to);
  }
}

/* The fewest stages, from `s` on, that a better plan can have of which the last k begin here: those
 * before them must take the work before it. */
static uint32_t fewest_stages(const struct table *x, uint32_t k, uint32_t from, uint32_t s) {
  if (x->cuts || from == 0) return s;
  double before = cost(x, 0, from)->recompute_work_s;
  if (s == k) s++;
  while (s <= x->most_stages && (s - k) * (x->limit_of / x->rounds[s]) <= before) s++;
  return s;
}

static void fill_row(struct table *x, uint32_t k, const struct best *b) {
  uint32_t n = x->n_cuts, most = x->most_stages, s = k;
  if (x->limit_of != b->r.time_s) { /* loads that beat it, of the last k stages or more */
    x->limit_of = b->r.time_s;
    for (uint32_t i = most; i > 0; i--)
      x->limit_s[i] = pz_fmax(i < most ? x->limit_s[i + 1] : 0, x->limit_of / x->rounds[i]);
  }
  for (uint32_t c = 0; c < x->classes; c++)
    for (uint32_t cut = 0; cut < n; cut++) x->least[at(x, k, c, cut)] = DBL_MAX;
  for (uint32_t from = 0; from + 1 < n; from++) {
    s = fewest_stages(x, k, from, s);
    if (s > most) return;
    if (k == 1)
      try_stage(x, 1, from, n - 1);
    else
      fill_cell(x, k, from, x->limit_s[s]);
  }
}

/* ---- plans ---------------------------------------------------------------------------------- */

/* s stages, c of them on one device, the first of which ends here. */
static void keep(const struct table *x, struct best *b, struct pz_replicas r, uint32_t s,
                 uint32_t c, uint32_t first_end) {
  uint32_t cut = first_end, single = c - on_one_device(x, cost(x, 0, first_end));
  b->r = r;
  b->n_stages = s;
  b->ends[0] = first_end;
  for (uint32_t k = s - 1; k > 0; k--) {
    uint32_t to = x->end[at(x, k, single, cut)];
    single -= on_one_device(x, cost(x, cut, to));
    b->ends[s - k] = cut = to;
  }
}

/* May plans of s or more stages be better? */
static bool more_to_find(const struct table *x, const struct best *b, uint32_t s) {
  double work = cost(x, 0, x->n_cuts - 1)->work_s;
  for (; s <= x->most_stages; s++)
    if (work / s * x->rounds[s] < b->r.time_s) return true;
  return false;
}

/* The first stage is charged: for each length of it the least maxload of the rest. */
static void solve_original(struct table *x, struct best *b) {
  for (uint32_t s = 1; s <= x->most_stages && more_to_find(x, b, s); s++) {
    for (uint32_t to = 1; to < x->n_cuts; to++) {
      const struct stage_cost *first = cost(x, 0, to);
      bool single = on_one_device(x, first);
      if (!is_stage(x, 0, to) || !fits(x, first, s)) continue;
      for (uint32_t c = single; c < x->classes; c++) {
        double maxload = pz_fmax(load_s(x, first, s), x->least[at(x, s - 1, c - single, to)]);
        int64_t n = devices(x, s, c);
        if (maxload == DBL_MAX || n > x->p->devices) continue;
        struct pz_replicas r =
            pz_place_best_d(x->p, maxload, s, n, first->param_bytes, b->r.time_s);
        if (r.d) keep(x, b, r, s, c, to);
      }
    }
    if (s < x->most_stages) fill_row(x, s, b);
  }
}

/* ---- the largest stage charged -------------------------------------------------------------- */

/* Parameters of the largest stage of the plan in the table. */
static double largest(const struct table *x, uint32_t s, uint32_t c) {
  double most = 0;
  for (uint32_t k = s, cut = 0; k > 0; k--) {
    uint32_t to = x->end[at(x, k, c, cut)];
    const struct stage_cost *stage = cost(x, cut, to);
    most = pz_fmax(most, stage->param_bytes);
    c -= on_one_device(x, stage);
    cut = to;
  }
  return most;
}

/* The plan of s stages in the table.  Returns parameters that the largest stage of a better plan of
 * this maxload stays below, 0 if there is none: its time grows with them, and is no better at those
 * of the plan found.  Bisection from the even share; the upper end is safe. */
static double try_whole(const struct table *x, struct best *b, uint32_t s, uint32_t c) {
  double maxload = x->least[at(x, s, c, 0)];
  int64_t n = devices(x, s, c);
  if (maxload == DBL_MAX || n > x->p->devices) return 0;
  double params = largest(x, s, c);
  struct pz_replicas r = pz_place_best_d(x->p, maxload, s, n, params, b->r.time_s);
  if (r.d) keep(x, b, r, s, c, x->end[at(x, s, c, 0)]);
  double share = pz_fmax(cost(x, 0, x->n_cuts - 1)->param_bytes / s, x->most_params);
  if (!pz_place_best_d(x->p, maxload, s, n, share, b->r.time_s).d) return 0;
  for (int probe = 0; probe < 12; probe++) {
    double middle = (share + params) / 2;
    if (pz_place_best_d(x->p, maxload, s, n, middle, b->r.time_s).d)
      share = middle;
    else
      params = middle;
  }
  return params;
}

/* Least maxload with stages of at most so many parameters, for a falling limit: each step takes the
 * largest stage of a plan that could still be beaten out of reach. */
static void solve_corrected(struct table *x, struct best *b) {
  uint32_t last = x->most_stages; /* plans of more stages are settled */
  for (x->cap_bytes = DBL_MAX;;) {
    double most = 0;
    uint32_t open = 0;
    for (uint32_t s = 1; s <= last && more_to_find(x, b, s); s++) {
      fill_row(x, s, b);
      for (uint32_t c = 0; c < x->classes; c++) {
        double params = try_whole(x, b, s, c);
        if (params > 0) open = s;
        most = pz_fmax(most, params);
      }
    }
    if (most <= 0) return;
    last = open;
    x->cap_bytes = nextafter(most, 0);
  }
}

/* ---- an initial upper bound ------------------------------------------------------------------ */

/* Stages from the end, each as long as its load stays below `load`: the time of that plan, DBL_MAX
 * if it takes more than s stages or something does not fit. */
static double greedy_time(const struct table *x, uint32_t s, double load) {
  double maxload = 0, params = 0;
  uint32_t cut = x->n_cuts - 1, k = 0, single = 0;
  while (cut > 0 && k++ < s) {
    uint32_t from = cut;
    while (from > 0 && load_s(x, cost(x, from - 1, cut), k) <= load &&
           fits(x, cost(x, from - 1, cut), k))
      from--;
    if (from == cut) return DBL_MAX;
    const struct stage_cost *c = cost(x, from, cut);
    maxload = pz_fmax(maxload, load_s(x, c, k));
    params = x->p->semantics == PZ_SEMANTICS_CORRECTED ? pz_fmax(params, c->param_bytes)
                                                       : c->param_bytes;
    single += on_one_device(x, c);
    cut = from;
  }
  if (cut > 0 || devices(x, k, single) > x->p->devices) return DBL_MAX;
  return pz_place_best_d(x->p, maxload, k, devices(x, k, single), params, DBL_MAX).time_s;
}

/* A time that some plan has, near the best: what cannot beat it need not be looked at.  The dynamic
 * program finds that plan or a better one. */
static void initial_upper_bound(const struct table *x, struct best *b) {
  if (x->cuts) return;
  double work = cost(x, 0, x->n_cuts - 1)->work_s, time = b->r.time_s;
  for (uint32_t s = 1; s <= x->most_stages; s += 1 + s / 3) {
    double low = work / s, high = 4 * low;
    for (int probe = 0; probe < 8; probe++) {
      double middle = (low + high) / 2, now = greedy_time(x, s, middle);
      time = now < time ? now : time;
      if (now < DBL_MAX)
        high = middle;
      else
        low = middle;
    }
  }
  double limit = time < DBL_MAX ? pz_fmax(time * (1 + 1e-9), nextafter(time, DBL_MAX)) : DBL_MAX;
  b->r.time_s = pz_fmin(b->r.time_s, limit);
}

/* ---- the call ------------------------------------------------------------------------------- */

static enum pz_status make_table(struct table *x, struct pz_arena *arena, struct pz_error *err) {
  const struct pz_place_problem *p = x->p;
  enum pz_status status = cost_stages(x, arena, err);
  if (status != PZ_OK) return status;
  size_t row = (size_t)x->classes * x->n_cuts, n = (x->most_stages + (size_t)1) * row;
  x->least = pz_arena_alloc(arena, n, sizeof *x->least);
  x->end = pz_arena_alloc(arena, n, sizeof *x->end);
  x->rounds = pz_arena_alloc(arena, x->most_stages + 1, sizeof *x->rounds);
  x->limit_s = pz_arena_alloc(arena, x->most_stages + 1, sizeof *x->limit_s);
  if (!x->least || !x->end || !x->rounds || !x->limit_s)
    return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  for (size_t i = 0; i < row; i++) x->least[i] = DBL_MAX;
  x->least[at(x, 0, 0, x->n_cuts - 1)] = 0;    /* no stages, after all layers */
  int64_t each = x->classes > 1 ? 1 : x->w->t; /* devices of a stage, at least */
  for (uint32_t s = 1; s <= x->most_stages; s++) {
    int64_t d = pz_min(p->devices / (s * each), p->microbatches);
    int64_t rounds = d < 1 ? 0 : pz_ceil_div(p->microbatches, d) + s - 1;
    x->rounds[s] = d < 1 ? DBL_MAX : (double)rounds;
  }
  for (uint32_t i = 0; i < x->w->n; i++)
    x->most_params = pz_fmax(x->most_params, x->w->layers[i].param_bytes);
  return PZ_OK;
}

static enum pz_status describe(const struct table *x, const struct best *b, struct pz_arena *arena,
                               struct pz_place_solution *out, struct pz_error *err) {
  const struct pz_place_width *w = x->w;
  double params = 0;
  uint32_t *list = pz_arena_alloc(arena, w->n, sizeof *list);
  *out =
      (struct pz_place_solution){.width = (uint32_t)(w - x->p->widths),
                                 .d = b->r.d,
                                 .stages = pz_arena_alloc(arena, b->n_stages, sizeof *out->stages),
                                 .n_stages = b->n_stages,
                                 .time_s = b->r.time_s};
  if (!list || !out->stages) return pz_fail(err, PZ_NO_MEMORY, NO_MEMORY);
  for (uint32_t k = 0, from = 0; k < b->n_stages; from = b->ends[k++]) {
    const struct stage_cost *c = cost(x, from, b->ends[k]);
    struct pz_stage *s = &out->stages[k];
    *s = (struct pz_stage){.layers = list,
                           .devices = c->tensor_parallel ? w->t : 1,
                           .load_s = load_s(x, c, b->n_stages - k),
                           .param_bytes = c->param_bytes,
                           .memory_bytes = memory_bytes(x, c, b->n_stages - k)};
    for (uint32_t i = 0; i < w->n; i++)
      if (in_stage(x, from, b->ends[k], i)) list[s->n++] = i;
    list += s->n;
    out->maxload_s = pz_fmax(out->maxload_s, s->load_s);
    if (k == 0 || x->p->semantics == PZ_SEMANTICS_CORRECTED)
      params = pz_fmax(params, c->param_bytes);
  }
  out->allreduce_s = pz_place_allreduce_s(x->p, b->r.d, params);
  return PZ_OK;
}

/* Plans at one width that are better than the best so far; tables are large and go with it. */
static enum pz_status solve_width(const struct pz_place_problem *p, const struct pz_place_width *w,
                                  struct best *b, struct pz_arena *arena,
                                  struct pz_place_solution *out, struct pz_error *err) {
  struct table x = {.p = p,
                    .w = w,
                    .n_cuts = w->n + 1,
                    .most_stages = (uint32_t)pz_min(p->devices, w->n),
                    .classes = 1,
                    .cap_bytes = DBL_MAX,
                    .limit_of = -1};
  struct pz_arena tables;
  for (uint32_t i = 0; i < w->n && w->t > 1; i++) x.classes += !w->layers[i].tensor_parallel;
  pz_arena_init(&tables, arena->mem);
  b->n_stages = 0;
  enum pz_status status = make_table(&x, &tables, err);
  if (status == PZ_OK) {
    initial_upper_bound(&x, b);
    if (p->semantics == PZ_SEMANTICS_ORIGINAL)
      solve_original(&x, b);
    else
      solve_corrected(&x, b);
    if (b->n_stages) status = describe(&x, b, arena, out, err);
  }
  pz_arena_release(&tables);
  return status;
}

/* Every domain by itself, the smallest first: of equally fast plans the one on fewer devices. */
enum pz_status pz_place_solve(const struct pz_place_problem *p, double limit_s,
                              struct pz_arena *arena, struct pz_place_solution *out,
                              struct pz_error *err) {
  struct pz_place_solution best = {0};
  for (uint32_t i = 0; i <= p->n_domains; i++) {
    struct pz_place_problem q = pz_place_within(p, i);
    struct pz_place_solution plan = {0};
    struct best b;
    b.r.time_s = limit_s < DBL_MAX ? nextafter(limit_s, DBL_MAX) : DBL_MAX;
    for (uint32_t w = 0; w < p->n_widths; w++) {
      enum pz_status status = solve_width(&q, &p->widths[w], &b, arena, &plan, err);
      if (status != PZ_OK) return status;
    }
    if (!plan.n_stages || (best.n_stages && plan.time_s >= best.time_s)) continue;
    best = plan;
    best.domain = i;
    limit_s = plan.time_s;
  }
  if (!best.n_stages) return pz_fail(err, PZ_NO_ANSWER, "no feasible plan");
  *out = best;
  return PZ_OK;
}

/* ---- what would fit ------------------------------------------------------------------------- */

static bool try_with(const struct pz_place_problem *p, double bytes, struct pz_fit *out) {
  struct pz_place_problem q = *p;
  struct pz_place_solution plan = {0};
  struct pz_arena arena;
  struct pz_error none = {0};
  q.hbm_bytes = bytes;
  pz_arena_init(&arena, NULL);
  bool fits = pz_place_solve(&q, DBL_MAX, &arena, &plan, &none) == PZ_OK;
  for (uint32_t k = 0; fits && k < plan.n_stages; k++) {
    const struct pz_stage *s = &plan.stages[k];
    const struct pz_place_layer *layers = p->widths[plan.width].layers;
    if (k && s->memory_bytes <= out->memory_bytes) continue;
    *out = (struct pz_fit){.hbm_bytes = bytes,
                           .stage = k,
                           .n_stages = plan.n_stages,
                           .n_layers = s->n,
                           .first = layers[s->layers[0]].id,
                           .last = layers[s->layers[s->n - 1]].id,
                           .param_bytes = s->param_bytes,
                           .memory_bytes = s->memory_bytes};
  }
  pz_arena_release(&arena);
  return fits;
}

struct pz_fit pz_fit_least(const struct pz_place_problem *p) {
  struct pz_fit fit = {.hbm_bytes = DBL_MAX};
  double low = p->hbm_bytes, high = low > 1 ? 2 * low : 2;
  while (!try_with(p, high, &fit)) {
    low = high;
    if ((high *= 2) > 1e30) return (struct pz_fit){.hbm_bytes = DBL_MAX};
  }
  while (high > 1.001 * low) {
    double middle = (low + high) / 2;
    if (try_with(p, middle, &fit))
      high = middle;
    else
      low = middle;
  }
  return fit;
}
