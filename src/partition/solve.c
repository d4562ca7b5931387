#include "partition/solve.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "partition/stages.h"

/* What is known of plans at one width.  For the last k stages, c of them on one device, that begin
 * at a cut: the least maxload, and where the first of them ends. */
struct table {
  const struct pz_place_problem *p;
  const struct pz_stages *s;
  enum pz_semantics semantics;
  int64_t t;
  uint32_t most_stages, classes; /* classes: how many stages may be on one device, and none */
  double *least;                 /* [(k * classes + c) * n_cuts + cut] */
  uint32_t *end;
  double cap_bytes;   /* stages have at most so many parameters */
  double most_params; /* of one layer */
  double *rounds;     /* by number of stages: the least number of microbatches' times */
  double *limit_s;    /* by k: a better plan's last k stages have loads below this */
  double limit_of;    /* the time of the plan it must be better than */
};

/* The best plan so far, at any width. */
struct best {
  double time_s;
  uint32_t n_stages, n_single, first_end, width;
  int64_t d;
  uint32_t *ends; /* of its stages, as cuts */
};

static double more(double a, double b) { return a > b ? a : b; } /* no NaN here */

static size_t at(const struct table *x, uint32_t k, uint32_t c, uint32_t cut) {
  return ((size_t)k * x->classes + c) * x->s->n_cuts + cut;
}

static const struct pz_stage_cost *cost(const struct table *x, uint32_t from, uint32_t to) {
  return &x->s->cost[(size_t)from * x->s->n_cuts + to];
}

static int64_t devices(const struct table *x, uint32_t k, uint32_t c) {
  return (int64_t)(k - c) * x->t + c;
}

static bool on_one_device(const struct table *x, const struct pz_stage_cost *c) {
  return x->t > 1 && !c->tensor_parallel;
}

static bool fits(const struct table *x, const struct pz_stage_cost *c, uint32_t i) {
  return pz_stage_memory(x->p, c, i) <= x->p->hbm_bytes && c->param_bytes <= x->cap_bytes;
}

/* The k-th stage from the end runs from `from` to `to`: better than what is known? */
static void try_stage(struct table *x, uint32_t k, uint32_t from, uint32_t to) {
  const struct pz_stage_cost *stage = cost(x, from, to);
  if (!fits(x, stage, k)) return;
  double load = pz_stage_load_s(x->p, stage, k);
  bool single = on_one_device(x, stage), last = to + 1 == x->s->n_cuts;
  for (uint32_t c = single; c < x->classes; c++) {
    double rest =
        k == 1 ? (last && c == single ? 0 : DBL_MAX) : x->least[at(x, k - 1, c - single, to)];
    double most = more(load, rest);
    size_t here = at(x, k, c, from);
    if (most >= x->least[here]) continue;
    x->least[here] = most;
    x->end[here] = to;
  }
}

/* ---- what need not be looked at ------------------------------------------------------------- */

/* Loads of plans that beat the best: for the last k stages of plans with more of them. */
static void set_limits(struct table *x, const struct best *b) {
  if (x->limit_of == b->time_s) return;
  x->limit_of = b->time_s;
  x->limit_s[x->most_stages + 1] = 0;
  for (uint32_t s = x->most_stages; s > 0; s--)
    x->limit_s[s] = more(x->limit_s[s + 1], b->time_s / x->rounds[s]);
}

/* On a chain work grows with the stage.  Too long: nothing more to find from here (k > 1). */
static bool too_long(const struct table *x, uint32_t k, uint32_t from, uint32_t to, double limit) {
  const struct pz_stage_cost *stage = cost(x, from, to);
  double worst = 0;
  if (x->p->state * stage->param_bytes + stage->act_bytes > x->p->hbm_bytes) return true;
  for (uint32_t c = 0; c < x->classes; c++) worst = more(worst, x->least[at(x, k, c, from)]);
  return stage->recompute_work_s >= worst || stage->recompute_work_s >= limit;
}

/* Too short: what is left is more than k - 1 stages can take, of which the last computes less.  The
 * first end that is not. */
static uint32_t first_end(const struct table *x, uint32_t k, uint32_t from, double limit) {
  uint32_t n = x->s->n_cuts, low = from + 1, high = n - k;
  const struct pz_stage_cost *all = cost(x, from, n - 1);
  double light = all->recompute_work_s - all->work_s; /* at most, that the last computes less */
  double least = all->recompute_work_s - (k - 1) * limit - more(0, light < limit ? light : limit);
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
  uint32_t n = x->s->n_cuts;
  if (x->s->cuts) {
    for (uint32_t to = from + 1; to < n; to++)
      if (pz_stages_has(x->s, from, to)) try_stage(x, k, from, to);
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
  if (x->s->cuts || from == 0) return s;
  double before = cost(x, 0, from)->recompute_work_s;
  if (s == k) s++;
  while (s <= x->most_stages && (s - k) * (x->limit_of / x->rounds[s]) <= before) s++;
  return s;
}

static void fill_row(struct table *x, uint32_t k, const struct best *b) {
  uint32_t n = x->s->n_cuts, s = k;
  set_limits(x, b);
  for (uint32_t c = 0; c < x->classes; c++)
    for (uint32_t cut = 0; cut < n; cut++) x->least[at(x, k, c, cut)] = DBL_MAX;
  for (uint32_t from = 0; from + 1 < n; from++) {
    s = fewest_stages(x, k, from, s);
    if (s > x->most_stages) return;
    if (k == 1)
      try_stage(x, 1, from, n - 1);
    else
      fill_cell(x, k, from, x->limit_s[s]);
  }
}

/* ---- plans ---------------------------------------------------------------------------------- */

static void keep(struct table *x, struct best *b, double time, uint32_t s, uint32_t c,
                 uint32_t first_end, int64_t d) {
  *b = (struct best){.time_s = time,
                     .n_stages = s,
                     .n_single = c,
                     .first_end = first_end,
                     .width = (uint32_t)(x->s->w - x->p->widths),
                     .d = d,
                     .ends = b->ends};
  uint32_t cut = first_end, single = c - on_one_device(x, cost(x, 0, first_end));
  b->ends[0] = first_end;
  for (uint32_t k = s - 1; k > 0; k--) {
    uint32_t to = x->end[at(x, k, single, cut)];
    single -= on_one_device(x, cost(x, cut, to));
    b->ends[s - k] = cut = to;
  }
}

/* Plans of s stages, c of them on one device, whose first stage ends here. */
static void try_first(struct table *x, struct best *b, uint32_t s, uint32_t c, uint32_t to) {
  const struct pz_stage_cost *first = cost(x, 0, to);
  bool single = on_one_device(x, first), all = to + 1 == x->s->n_cuts;
  if (single > c || !fits(x, first, s)) return;
  double rest =
      s == 1 ? (all && c == single ? 0 : DBL_MAX) : x->least[at(x, s - 1, c - single, to)];
  double maxload = more(pz_stage_load_s(x->p, first, s), rest);
  int64_t d = 0, n = devices(x, s, c);
  if (maxload == DBL_MAX || n > x->p->devices) return;
  double time = pz_place_best_d(x->p, maxload, s, n, first->param_bytes, b->time_s, &d);
  if (time < b->time_s) keep(x, b, time, s, c, to, d);
}

/* May plans of s or more stages be better? */
static bool more_to_find(const struct table *x, const struct best *b, uint32_t s) {
  double work = cost(x, 0, x->s->n_cuts - 1)->work_s;
  for (; s <= x->most_stages; s++)
    if (work / s * x->rounds[s] < b->time_s) return true;
  return false;
}

/* The first stage is charged: for each length of it the least maxload of the rest. */
static void solve_original(struct table *x, struct best *b) {
  uint32_t n = x->s->n_cuts;
  for (uint32_t s = 1; s <= x->most_stages && more_to_find(x, b, s); s++) {
    for (uint32_t to = 1; to < n; to++)
      for (uint32_t c = 0; c < x->classes && pz_stages_has(x->s, 0, to); c++)
        try_first(x, b, s, c, to);
    if (s < x->most_stages) fill_row(x, s, b);
  }
}

/* ---- the largest stage charged -------------------------------------------------------------- */

/* Parameters of the largest stage of the plan in the table. */
static double largest(const struct table *x, uint32_t s, uint32_t c) {
  double most = 0;
  for (uint32_t k = s, cut = 0; k > 0; k--) {
    uint32_t to = x->end[at(x, k, c, cut)];
    const struct pz_stage_cost *stage = cost(x, cut, to);
    most = more(most, stage->param_bytes);
    c -= on_one_device(x, stage);
    cut = to;
  }
  return most;
}

static void keep_whole(struct table *x, struct best *b, double time, uint32_t s, uint32_t c,
                       int64_t d) {
  keep(x, b, time, s, c, x->end[at(x, s, c, 0)], d);
}

/* Parameters that the largest stage of a better plan stays below: the time of this maxload grows with
 * them, and is no better at `params`.  Bisection from `share`, where it is; the upper end is safe. */
static double better_below(const struct table *x, const struct best *b, double maxload, uint32_t s,
                           int64_t n, double share, double params) {
  int64_t d = 0;
  for (int probe = 0; probe < 12; probe++) {
    double middle = (share + params) / 2;
    if (pz_place_best_d(x->p, maxload, s, n, middle, b->time_s, &d) < b->time_s)
      share = middle;
    else
      params = middle;
  }
  return params;
}

/* The plan of s stages in the table.  Returns what its largest stage must stay below if fewer
 * parameters might still give a better plan, 0 if not. */
static double try_whole(struct table *x, struct best *b, uint32_t s, uint32_t c) {
  double maxload = x->least[at(x, s, c, 0)];
  int64_t d = 0, n = devices(x, s, c);
  if (maxload == DBL_MAX || n > x->p->devices) return 0;
  double params = largest(x, s, c);
  double time = pz_place_best_d(x->p, maxload, s, n, params, b->time_s, &d);
  if (time < b->time_s) keep_whole(x, b, time, s, c, d);
  double share = more(cost(x, 0, x->s->n_cuts - 1)->param_bytes / s, x->most_params);
  bool open = pz_place_best_d(x->p, maxload, s, n, share, b->time_s, &d) < b->time_s;
  return open ? better_below(x, b, maxload, s, n, share, params) : 0;
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
        most = more(most, params);
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
  uint32_t cut = x->s->n_cuts - 1, k = 0, single = 0;
  while (cut > 0 && k++ < s) {
    uint32_t from = cut;
    while (from > 0 && pz_stage_load_s(x->p, cost(x, from - 1, cut), k) <= load &&
           fits(x, cost(x, from - 1, cut), k))
      from--;
    if (from == cut) return DBL_MAX;
    const struct pz_stage_cost *c = cost(x, from, cut);
    maxload = more(maxload, pz_stage_load_s(x->p, c, k));
    params = x->semantics == PZ_SEMANTICS_CORRECTED ? more(params, c->param_bytes) : c->param_bytes;
    single += on_one_device(x, c);
    cut = from;
  }
  int64_t d = 0;
  if (cut > 0 || devices(x, k, single) > x->p->devices) return DBL_MAX;
  return pz_place_best_d(x->p, maxload, k, devices(x, k, single), params, DBL_MAX, &d);
}

/* A time that some plan has, near the best: what cannot beat it need not be looked at.  The dynamic
 * program finds that plan or a better one. */
static void initial_upper_bound(const struct table *x, struct best *b) {
  if (x->s->cuts) return;
  double work = cost(x, 0, x->s->n_cuts - 1)->work_s, time = b->time_s;
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
  double limit = time < DBL_MAX ? more(time * (1 + 1e-9), nextafter(time, DBL_MAX)) : DBL_MAX;
  if (limit < b->time_s) *b = (struct best){.time_s = limit, .ends = b->ends};
}

/* ---- the call ------------------------------------------------------------------------------- */

/* Each stage takes one device, or t where every layer is tensor parallel. */
static void set_rounds(struct table *x) {
  const struct pz_place_problem *p = x->p;
  int64_t each = x->classes > 1 ? 1 : x->t;
  for (uint32_t s = 1; s <= x->most_stages; s++) {
    int64_t d =
        p->devices / (s * each) < p->microbatches ? p->devices / (s * each) : p->microbatches;
    int64_t rounds = d < 1 ? 0 : (p->microbatches + d - 1) / d + s - 1;
    x->rounds[s] = d < 1 ? DBL_MAX : (double)rounds;
  }
}

static uint32_t count_small(const struct pz_place_width *w) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->n && w->t > 1; i++) n += !w->layers[i].tensor_parallel;
  return n;
}

static enum pz_status solve_width(const struct pz_place_problem *p, const struct pz_place_width *w,
                                  enum pz_semantics semantics, struct pz_arena *arena,
                                  struct pz_stages *s, struct best *b, struct pz_error *err) {
  struct table x = {.p = p,
                    .s = s,
                    .semantics = semantics,
                    .t = w->t,
                    .most_stages = p->devices < w->n ? (uint32_t)p->devices : w->n,
                    .classes = count_small(w) + 1,
                    .cap_bytes = DBL_MAX,
                    .limit_of = -1};
  enum pz_status status = pz_stages_make(p, w, arena, s, err);
  if (status != PZ_OK) return status;
  size_t n = ((size_t)x.most_stages + 1) * x.classes * s->n_cuts;
  x.least = pz_arena_alloc(arena, n, sizeof *x.least);
  x.end = pz_arena_alloc(arena, n, sizeof *x.end);
  x.rounds = pz_arena_alloc(arena, x.most_stages + 1, sizeof *x.rounds);
  x.limit_s = pz_arena_alloc(arena, x.most_stages + 2, sizeof *x.limit_s);
  if (!x.least || !x.end || !x.rounds || !x.limit_s)
    return pz_fail(err, PZ_NO_MEMORY, "out of memory for the placement");
  set_rounds(&x);
  for (uint32_t i = 0; i < w->n; i++) x.most_params = more(x.most_params, w->layers[i].param_bytes);
  initial_upper_bound(&x, b);
  if (semantics == PZ_SEMANTICS_ORIGINAL)
    solve_original(&x, b);
  else
    solve_corrected(&x, b);
  return PZ_OK;
}

static enum pz_status describe(const struct pz_place_problem *p, const struct pz_stages *s,
                               enum pz_semantics semantics, const struct best *b,
                               struct pz_arena *arena, struct pz_place_solution *out,
                               struct pz_error *err) {
  double params = 0;
  *out = (struct pz_place_solution){.width = b->width, .d = b->d, .n_stages = b->n_stages};
  out->stages = pz_arena_alloc(arena, b->n_stages, sizeof *out->stages);
  for (uint32_t k = 0, from = 0; k < b->n_stages && out->stages; from = b->ends[k++]) {
    const struct pz_stage_cost *c = &s->cost[(size_t)from * s->n_cuts + b->ends[k]];
    uint32_t *list = pz_arena_alloc(arena, s->w->n, sizeof *list);
    if (!list) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the placement");
    out->stages[k] = (struct pz_stage){.layers = list,
                                       .n = pz_stages_layers(s, from, b->ends[k], list),
                                       .devices = c->tensor_parallel ? s->w->t : 1,
                                       .load_s = pz_stage_load_s(p, c, b->n_stages - k),
                                       .param_bytes = c->param_bytes,
                                       .memory_bytes = pz_stage_memory(p, c, b->n_stages - k)};
    out->maxload_s = more(out->maxload_s, out->stages[k].load_s);
    if (k == 0 || semantics == PZ_SEMANTICS_CORRECTED) params = more(params, c->param_bytes);
  }
  if (!out->stages) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the placement");
  out->allreduce_s = pz_place_allreduce_s(p, b->d, params);
  out->time_s = b->time_s;
  return PZ_OK;
}

/* Tables are large: those of the width at hand and of the best one so far, in `kept`. */
static enum pz_status solve_widths(const struct pz_place_problem *p, enum pz_semantics semantics,
                                   struct best *b, struct pz_arena *kept, struct pz_stages *stages,
                                   struct pz_error *err) {
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < p->n_widths && status == PZ_OK; i++) {
    struct pz_arena work;
    struct pz_stages now;
    pz_arena_init(&work, kept->mem);
    status = solve_width(p, &p->widths[i], semantics, &work, &now, b, err);
    bool best = status == PZ_OK && b->n_stages && b->width == i;
    pz_arena_release(best ? kept : &work);
    if (best) *kept = work, *stages = now;
  }
  if (status == PZ_OK && !b->n_stages) status = pz_fail(err, PZ_NO_ANSWER, "no feasible plan");
  return status;
}

enum pz_status pz_place_solve(const struct pz_place_problem *p, enum pz_semantics semantics,
                              struct pz_arena *arena, struct pz_place_solution *out,
                              struct pz_error *err) {
  return pz_place_solve_within(p, semantics, DBL_MAX, arena, out, err);
}

/* In one domain, or in the whole network. */
static enum pz_status solve_domain(const struct pz_place_problem *p, enum pz_semantics semantics,
                                   double limit_s, struct pz_arena *arena,
                                   struct pz_place_solution *out, struct pz_error *err) {
  struct pz_arena tables;
  struct best b = {.time_s = limit_s < DBL_MAX ? nextafter(limit_s, DBL_MAX) : DBL_MAX};
  struct pz_stages stages = {0};
  uint32_t most = 1;
  for (uint32_t i = 0; i < p->n_widths; i++)
    if (p->widths[i].n > most) most = p->widths[i].n;
  b.ends = pz_arena_alloc(arena, most, sizeof *b.ends);
  if (!b.ends) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the placement");
  pz_arena_init(&tables, arena->mem);
  enum pz_status status = solve_widths(p, semantics, &b, &tables, &stages, err);
  if (status == PZ_OK && stages.w) status = describe(p, &stages, semantics, &b, arena, out, err);
  pz_arena_release(&tables);
  return status;
}

/* Every domain by itself, the smallest first: of equally fast plans the one on fewer devices. */
enum pz_status pz_place_solve_within(const struct pz_place_problem *p, enum pz_semantics semantics,
                                     double limit_s, struct pz_arena *arena,
                                     struct pz_place_solution *out, struct pz_error *err) {
  struct pz_place_solution best = {0};
  for (uint32_t i = 0; i <= p->n_domains; i++) {
    struct pz_place_problem q = pz_place_within(p, i);
    struct pz_error none = {0};
    struct pz_place_solution plan;
    enum pz_status status = solve_domain(&q, semantics, limit_s, arena, &plan, &none);
    if (status != PZ_OK && status != PZ_NO_ANSWER) return pz_fail(err, status, "%s", none.message);
    if (status != PZ_OK || (best.n_stages && plan.time_s >= best.time_s)) continue;
    best = plan;
    best.domain = i;
    limit_s = plan.time_s;
  }
  if (!best.n_stages) return pz_fail(err, PZ_NO_ANSWER, "no feasible plan");
  *out = best;
  return PZ_OK;
}
