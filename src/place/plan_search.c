#include "place/plan_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/map.h"
#include "core/num.h"
#include "core/pool.h"
#include "core/shared_table.h"
#include "core/vec.h"
#include "cost/constants.h"
#include "place/problem.h"
#include "place/recompute.h"
#include "workload/op.h"

const char *const pz_plan_objective_names[] = {"time", "memory", "cost", NULL};

enum { MOST_MBS = 128, MOST_CHUNKS = 1024, MOST_CP = 32, MOST_EP = 1024 };

/* Models that are held beside those of shapes whose plans are priced, some hundred kilobytes each. */
enum { MOST_MODELS = 1024 };

/* One size of a microbatch and of the tensor-parallel, context-parallel and expert-parallel groups. */
struct shape {
  int64_t tp, cp, ep, mbs;
  bool sp;
  struct pz_step_model *m; /* NULL: made again when a plan is priced */
  double once_s,
      several_s; /* a microbatch through all layers, as the only one and as one of several */
  uint32_t first_grid, n_grids;
  uint64_t timed_for; /* key of the chip */
  enum pz_status status;
  struct pz_error err;
};

/* Stages and replicas of a shape, with a bound for all plans that have them. */
struct grid {
  uint32_t shape;
  int64_t pp, dp;
  double bound_s, bound; /* of the step, of what is sought */
};

/* Layers of the first and the last chunk; 0: even. */
struct division {
  int64_t first, last;
};

struct search {
  const struct pz_plan_question *q;
  struct pz_arena *arena;
  struct pz_error *err;
  struct pz_vec shapes, grids, divisions;
  struct pz_vec divisors; /* of the batch, up to the devices: int64_t */
  struct pz_found_plans found;
  uint32_t top;
  double hbm_bytes;
  int64_t node, n_blocks;
  int64_t *again, *least_again; /* layers computed again, of every stage */
  const struct shape *least_shape;

  /* of many chips */
  double cutoff_s;               /* longer steps do not matter; 0: all do */
  struct kept_memory *kept;      /* what plans need; NULL: one chip */
  struct frontier_list *collect; /* plans of a grid go there instead of being priced */
};

/* ---- the space ------------------------------------------------------------------------------ */

static bool allows(int64_t pin, int64_t v) { return pin == PZ_FREE || pin == v; }

/* The largest power of two of a node's devices: 64 of a domain of 72. */
static int64_t even_part(int64_t node) {
  int64_t part = 1;
  while (2 * part <= node) part *= 2;
  return part;
}

/* Whole nodes, the even part of each, or a part of one. */
static bool on_nodes(const struct search *s, int64_t devices) {
  int64_t part = even_part(s->node), all = s->q->devices;
  if (devices > all || (s->q->all_devices && devices != all)) return false;
  if (devices <= s->node || devices % s->node == 0) return true;
  return devices % part == 0 && devices / part <= (all % s->node ? all / part : all / s->node);
}

static enum pz_status list_divisors(struct search *s) {
  for (int64_t d = 1; d <= pz_min(s->q->batch, s->q->devices); d++)
    if (s->q->batch % d == 0 && !pz_vec_push(&s->divisors, &d))
      return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
  return PZ_OK;
}

/* Does the model allow groups of these sizes? */
static bool can_divide(const struct search *s, const struct pz_workload *w, const struct shape *x) {
  const struct pz_plan_question *q = s->q;
  int64_t seq = w->options.seq, part = seq / x->cp;
  if ((w->heads && w->heads % x->tp) || (w->kv_heads && w->kv_heads % x->tp)) return false;
  if (x->cp > 1 && (seq % (2 * x->cp) || q->model.attention != PZ_ATTENTION_FLASH)) return false;
  if (x->tp * x->cp > q->devices || q->batch % x->mbs || (x->sp && part % x->tp)) return false;
  if (x->ep > 1 && x->tp > 1 && !x->sp) return false;
  return allows(q->tp, x->tp) && allows(q->mbs, x->mbs) && (x->tp == 1 || allows(q->sp, x->sp));
}

/* Expert-parallel degrees: the pinned one; powers of two that divide the experts, and these. */
struct degrees {
  int64_t v[16];
  int n;
};

static struct degrees expert_degrees(const struct pz_plan_question *q, int64_t experts) {
  struct degrees d = {.n = 0};
  int64_t most = pz_min(experts, pz_min(q->devices, MOST_EP));
  if (q->ep != PZ_FREE) {
    d.v[d.n++] = q->ep ? q->ep : pz_plan_ep(&q->common);
    return d;
  }
  d.v[d.n++] = 1;
  for (int64_t e = 2; e <= most; e *= 2)
    if (experts % e == 0) d.v[d.n++] = e;
  if (experts > 1 && experts == most && even_part(experts) != experts) d.v[d.n++] = experts;
  return d;
}

/* All shapes of these two degrees. */
static bool add_shapes_of(struct search *s, const struct pz_workload *w, struct shape x) {
  int64_t most_mbs = pz_min(s->q->batch, s->q->mbs == PZ_FREE ? MOST_MBS : s->q->mbs);
  struct degrees d = expert_degrees(s->q, w->experts);
  for (x.mbs = 1; x.mbs <= most_mbs; x.mbs++)
    for (int sp = 0; sp <= (x.tp > 1); sp++)
      for (int i = 0; i < d.n; i++) {
        x.sp = sp;
        x.ep = d.v[i];
        if (can_divide(s, w, &x) && !pz_vec_push(&s->shapes, &x)) return false;
      }
  return true;
}

static enum pz_status add_shapes(struct search *s, const struct pz_workload *w) {
  const struct pz_plan_question *q = s->q;
  int64_t most_tp = q->tp == PZ_FREE ? pz_min(s->node, q->devices) : q->tp;
  int64_t cp = q->cp ? q->cp : pz_plan_cp(&q->common), most_cp = cp == PZ_FREE ? MOST_CP : cp;
  struct shape x = {.tp = 1};
  for (x.tp = 1; x.tp <= most_tp; x.tp++)
    for (x.cp = cp == PZ_FREE ? 1 : cp; x.cp <= most_cp; x.cp *= 2)
      if (!add_shapes_of(s, w, x))
        return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
  return PZ_OK;
}

static struct pz_training_plan plan_of(const struct search *s, const struct shape *shape) {
  struct pz_training_plan p = s->q->common;
  p.tp = shape->tp;
  p.cp = shape->cp;
  p.ep = shape->ep;
  if (s->q->ep) p.etp = 0;
  p.mbs = shape->mbs;
  p.sequence_parallel = shape->sp;
  p.batch = s->q->batch;
  p.pp = p.vpp = p.dp = 1;
  p.recompute = PZ_RECOMPUTATION_NONE;
  p.recompute_layers = 0;
  p.stage_recompute = NULL;
  p.first_layers = p.last_layers = 0;
  p.zero = 0;
  return p;
}

static double step_of(const struct pz_layer_step *t) { return t->forward_s + t->backward_s; }

static double kernels_s(const struct pz_pass *p) {
  return p->products_s + p->attention_s + p->elementwise_s;
}

/* Seconds of a microbatch through all layers, without recomputation.  On a torus collectives depend on the job's size:
 * there kernels alone. */
static enum pz_status order_s(const struct search *s, struct shape *x, int64_t rounds,
                              enum pz_pipeline_order order, double *out) {
  struct pz_training_plan p = plan_of(s, x);
  const struct pz_step_model *m = x->m;
  p.order = order;
  enum pz_status status = pz_step_model_time(x->m, &p, rounds, &x->err);
  if (status != PZ_OK) return status;
  bool torus = m->cost.net.n_levels && m->cost.net.level[0].n_axes;
  *out = step_of(&m->steps.before) + step_of(&m->steps.after);
  for (uint32_t k = 0; k < m->kinds.n; k++)
    *out += (double)m->w->layers[m->kinds.layer[k]].count * step_of(&m->steps.block[k]);
  if (!torus) return PZ_OK;
  *out = 0;
  for (uint32_t l = 0; l < m->w->n_layers; l++)
    *out += (double)m->w->layers[l].count *
            (kernels_s(&m->kernels[l].forward) + kernels_s(&m->kernels[l].backward));
  return PZ_OK;
}

/* In whatever order is fastest: in some rows on their way to experts do not show. */
static enum pz_status microbatch_s(const struct search *s, struct shape *x, int64_t rounds,
                                   double *out) {
  double other = HUGE_VAL;
  enum pz_status status = order_s(s, x, rounds, s->q->common.order, out);
  if (status == PZ_OK && s->q->common.framework->dualpipe)
    status = order_s(s, x, rounds, PZ_PIPELINE_DUALPIPE, &other);
  *out = pz_fmin(*out, other);
  return status;
}

static enum pz_status open_shape(const struct search *s, struct shape *x, struct pz_error *err) {
  struct pz_training_plan p = plan_of(s, x);
  if (x->m) return PZ_OK;
  return pz_step_model_new(&s->q->model, s->q->chip, s->q->net, &p, &x->m, err);
}

static void close_shape(struct shape *x) {
  pz_step_model_free(x->m);
  x->m = NULL;
}

static void make_shape(void *ctx, size_t i, unsigned worker) {
  struct search *s = ctx;
  struct shape *x = pz_vec_at(&s->shapes, struct shape, (uint32_t)i);
  (void)worker;
  x->status = open_shape(s, x, &x->err);
  if (x->status == PZ_OK) x->status = microbatch_s(s, x, 1, &x->once_s);
  if (x->status == PZ_OK) x->status = microbatch_s(s, x, 2, &x->several_s);
  if (i >= MOST_MODELS) close_shape(x);
}

/* May stages have so many chunks, in this order? */
static bool can_order(const struct pz_training_plan *p, int64_t blocks) {
  int64_t n = p->pp * p->vpp, rounds = p->batch / (p->mbs * p->dp);
  struct pz_pipeline_shape shape = pz_plan_shape(p);
  bool v = pz_is_v_pipeline(shape.order);
  if (n > MOST_CHUNKS || 2.0 * (double)n * (double)rounds > PZ_PIPELINE_MOST_EVENTS) return false;
  if (v && pz_pipeline_check(&shape, NULL) != PZ_OK) return false;
  if (p->vpp == 1) return blocks >= p->pp;
  return p->pp > 1 && (v || rounds % p->pp == 0) && blocks + 2 >= n &&
         (blocks % n == 0 || (blocks + 2) % n == 0);
}

/* Orders besides the common one, by framework; one stage has no order. */
static bool has_order(const struct search *s, const struct pz_training_plan *p,
                      enum pz_pipeline_order order) {
  const struct pz_framework *f = p->framework;
  if (order == s->q->common.order) return true;
  if (p->pp == 1) return false;
  switch (order) {
  case PZ_PIPELINE_ZB_H1:
  case PZ_PIPELINE_ZB_2P: return p->vpp == 1 && f->zero_bubble;
  case PZ_PIPELINE_ZB_V: return p->vpp == 2 && f->zero_bubble && !f->dualpipe;
  case PZ_PIPELINE_DUALPIPE: return p->vpp == 1 && f->dualpipe;
  default: return false;
  }
}

static bool can_shard(const struct search *s, const struct pz_training_plan *p, int zero) {
  if (pz_plan_replicas(p) == 1 && pz_plan_expert_replicas(p) == 1)
    return zero == (s->q->zero == PZ_FREE ? 0 : s->q->zero);
  if (zero && p->shard && pz_plan_replicas(p) % p->shard) return false;
  return allows(s->q->zero, zero) && (zero < 2 || p->pp == 1 || p->framework->shards_stages);
}

static bool add_division(struct search *s, int64_t first, int64_t last) {
  struct division d = {first, last};
  return pz_vec_push(&s->divisions, &d);
}

/* Even; and where every chunk between has m layers, the fewest that do or one more, all ways to divide the rest between
 * the first and the last so that neither has more. */
static enum pz_status list_divisions(struct search *s, const struct pz_training_plan *p,
                                     int64_t blocks) {
  int64_t n = p->pp * p->vpp, fewest = pz_ceil_div(blocks, n);
  int64_t even_first = pz_plan_blocks(p, blocks, 0), even_last = pz_plan_blocks(p, blocks, n - 1);
  s->divisions.n = 0;
  bool good = add_division(s, 0, 0);
  for (int64_t m = fewest; !s->q->even && n > 1 && m <= fewest + (n > 2) && good; m++) {
    int64_t ends = blocks - (n - 2) * m, most = n == 2 ? blocks - 1 : m;
    for (int64_t f = pz_max(1, ends - most); f <= pz_min(most, ends - 1) && good; f++)
      if (f != even_first || ends - f != even_last) good = add_division(s, f, ends - f);
  }
  return good ? PZ_OK : pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
}

/* ---- pricing -------------------------------------------------------------------------------- */

static double value_of(const struct search *s, const struct pz_training_plan *p, double step_s,
                       double peak_bytes) {
  switch (s->q->objective) {
  case PZ_PLAN_MEMORY: return peak_bytes;
  case PZ_PLAN_COST: return step_s * (double)pz_plan_devices(p);
  default: return step_s;
  }
}

/* Of two plans that are worth the same: the one with less to set up. */
static bool simpler(const struct pz_training_plan *a, const struct pz_training_plan *b) {
  if (pz_plan_cp(a) != pz_plan_cp(b)) return pz_plan_cp(a) < pz_plan_cp(b);
  if (pz_plan_ep(a) != pz_plan_ep(b)) return pz_plan_ep(a) < pz_plan_ep(b);
  if (a->vpp != b->vpp) return a->vpp < b->vpp;
  if (a->pp != b->pp) return a->pp < b->pp;
  if (a->tp != b->tp) return a->tp < b->tp;
  if (a->zero != b->zero) return a->zero < b->zero;
  return a->recompute == PZ_RECOMPUTATION_NONE && b->recompute != PZ_RECOMPUTATION_NONE;
}

/* Also of bounds: a plan that comes before another does so by its bounds too. */
static bool is_before(const struct search *s, const struct pz_found_plan *a,
                      const struct pz_found_plan *b) {
  double x = value_of(s, &a->plan, a->p.step_s, a->p.peak_bytes),
         y = value_of(s, &b->plan, b->p.step_s, b->p.peak_bytes);
  if (x != y) return x < y;
  if (a->p.step_s != b->p.step_s) return a->p.step_s < b->p.step_s;
  return simpler(&a->plan, &b->plan);
}

static enum pz_status keep(struct search *s, struct pz_found_plan *one) {
  if (one->plan.stage_recompute) {
    int64_t *copy = pz_arena_alloc(s->arena, (size_t)one->plan.pp, sizeof *copy);
    if (!copy) return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
    memcpy(copy, one->plan.stage_recompute, (size_t)one->plan.pp * sizeof *copy);
    one->plan.stage_recompute = copy;
  }
  uint32_t at = s->found.n < s->top ? s->found.n++ : s->found.n - 1;
  while (at > 0 && is_before(s, one, &s->found.list[at - 1])) {
    s->found.list[at] = s->found.list[at - 1];
    at--;
  }
  s->found.list[at] = *one;
  return PZ_OK;
}

static double stage_bytes(const struct shape *x, const struct pz_training_plan *p, int64_t stage) {
  struct pz_training_memory m = pz_step_memory(x->m, p, stage);
  return pz_training_memory_sum(&m);
}

/* Of a plan that needs more than this no more need be known. */
static double most_bytes(const struct search *s) {
  const struct pz_found_plans *f = &s->found;
  if (s->kept) return s->hbm_bytes;
  if (!f->n) return f->has_least ? pz_fmax(s->hbm_bytes, f->least.p.peak_bytes) : HUGE_VAL;
  bool memory = s->q->objective == PZ_PLAN_MEMORY && f->n == s->top;
  return memory ? f->list[f->n - 1].p.peak_bytes : s->hbm_bytes;
}

/* Stages in an order that begins with the first and the last, which hold most as a rule. */
static int64_t stage_at(const struct pz_training_plan *p, int64_t i) {
  return i == 0 ? 0 : i == 1 ? p->pp - 1 : i - 1;
}

/* The largest stage, or one with more than matters. */
static double peak_bytes(const struct search *s, const struct shape *x,
                         const struct pz_training_plan *p) {
  double most = 0, enough = most_bytes(s);
  for (int64_t i = 0; i < p->pp && most <= enough; i++)
    most = pz_fmax(most, stage_bytes(x, p, stage_at(p, i)));
  return most;
}

/* Where nothing has been found to fit: the plan that needs least. */
static void note_least(struct search *s, const struct shape *x, const struct pz_training_plan *p,
                       double bytes) {
  if (s->kept || s->found.n || (s->found.has_least && bytes >= s->found.least.p.peak_bytes)) return;
  s->found.has_least = true;
  s->found.least = (struct pz_found_plan){.plan = *p, .p = {.peak_bytes = bytes}};
  s->least_shape = x;
  if (!p->stage_recompute) return;
  memcpy(s->least_again, p->stage_recompute, (size_t)p->pp * sizeof *s->least_again);
  s->found.least.plan.stage_recompute = s->least_again;
}

/* ---- recomputation -------------------------------------------------------------------------- */

/* The most layers that a chunk of the stage has. */
static int64_t chunk_layers(const struct shape *x, const struct pz_training_plan *p,
                            int64_t stage) {
  struct pz_pipeline_shape shape = pz_plan_shape(p);
  int64_t most = 0;
  for (uint32_t c = 0; c < pz_pipeline_slots(&shape); c++) {
    int64_t chunk = pz_pipeline_chunk_at(&shape, (uint32_t)stage, c);
    most = pz_max(most, pz_plan_blocks(p, x->m->n_blocks, chunk));
  }
  return most;
}

/* So many of the n layers from `start` on end with the last one of a kind; 0: there is none of it. */
static int64_t last_of_kind(const struct pz_layer_kinds *k, uint32_t kind, int64_t start,
                            int64_t n) {
  int64_t all = pz_kind_count(k, kind, start, n);
  if (!all) return 0;
  while (pz_kind_count(k, kind, start, n - 1) == all) n--;
  return n;
}

/* More than `low` layers computed again with which all of a kind in one of the stage's chunks are, its last one too,
 * whose result is then made a second time: that may take more memory than one layer less.  The fewest such, or one more
 * than there are. */
static int64_t next_rise(const struct shape *x, const struct pz_training_plan *p, int64_t stage,
                         int64_t low) {
  struct pz_pipeline_shape shape = pz_plan_shape(p);
  const struct pz_layer_kinds *k = &x->m->kinds;
  int64_t rise = chunk_layers(x, p, stage) + 1;
  for (uint32_t c = 0; c < pz_pipeline_slots(&shape); c++) {
    int64_t chunk = pz_pipeline_chunk_at(&shape, (uint32_t)stage, c);
    int64_t n = pz_plan_blocks(p, k->n_blocks, chunk);
    int64_t start = k->n > 1 ? pz_plan_start(p, k->n_blocks, chunk) : 0;
    for (uint32_t i = 0; i < k->n; i++) {
      int64_t at = last_of_kind(k, i, start, n);
      if (at > low) rise = pz_min(rise, at);
    }
  }
  return rise;
}

/* Must all stages compute as many layers again?  In DualPipe two stages hold each chunk. */
static bool is_uniform(const struct search *s, const struct pz_training_plan *p) {
  return s->q->uniform || p->order == PZ_PIPELINE_DUALPIPE;
}

static double bytes_with(const struct search *s, const struct shape *x,
                         const struct pz_training_plan *p, int64_t stage, int64_t layers) {
  s->again[stage] = layers;
  return stage_bytes(x, p, stage);
}

/* The fewest layers from `low` to `high`, between which bytes fall with every layer, with which the stage stays within
 * the limit; -1: none do. */
static int64_t fewest_from(const struct search *s, const struct shape *x,
                           const struct pz_training_plan *p, int64_t stage, double limit,
                           int64_t low, int64_t high) {
  if (low > high || bytes_with(s, x, p, stage, high) > limit) return -1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (bytes_with(s, x, p, stage, middle) <= limit)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* The same of all layers. */
static int64_t fewest(const struct search *s, const struct shape *x,
                      const struct pz_training_plan *p, int64_t stage, double limit) {
  int64_t most = chunk_layers(x, p, stage), n = -1;
  for (int64_t low = 0, rise; low <= most && n < 0; low = rise) {
    rise = next_rise(x, p, stage, low);
    n = fewest_from(s, x, p, stage, limit, low, rise - 1);
  }
  return n;
}

/* Bytes of the stage with the recomputation that leaves the fewest. */
static double least_bytes(const struct search *s, const struct shape *x,
                          const struct pz_training_plan *p, int64_t stage) {
  int64_t most = chunk_layers(x, p, stage);
  double least = HUGE_VAL;
  for (int64_t low = 0, rise; low <= most; low = rise) {
    rise = next_rise(x, p, stage, low);
    least = pz_fmin(least, bytes_with(s, x, p, stage, rise - 1));
  }
  return least;
}

static int64_t most_layers(const struct shape *x, const struct pz_training_plan *p) {
  int64_t most = 0;
  for (int64_t k = 0; k < p->pp; k++) most = pz_max(most, chunk_layers(x, p, k));
  return most;
}

static double peak_with(const struct search *s, const struct shape *x,
                        const struct pz_training_plan *p, int64_t layers, double enough) {
  double most = 0;
  for (int64_t i = 0; i < p->pp && most <= enough; i++)
    most = pz_fmax(most, bytes_with(s, x, p, stage_at(p, i), layers));
  return most;
}

/* The least peak that recomputation can bring, or a bound of it that is more than matters. */
static double least_peak(const struct search *s, const struct shape *x,
                         const struct pz_training_plan *p) {
  double peak = 0, enough = most_bytes(s);
  for (int64_t i = 0; i < p->pp && peak <= enough; i++)
    peak = pz_fmax(peak, least_bytes(s, x, p, stage_at(p, i)));
  if (!is_uniform(s, p) || peak > enough) return peak;
  peak = HUGE_VAL;
  for (int64_t n = 0; n <= most_layers(x, p); n++)
    peak = pz_fmin(peak, peak_with(s, x, p, n, pz_fmin(peak, enough)));
  return peak;
}

/* The same layers of every stage, at least so many. */
static bool recompute_alike(const struct search *s, const struct shape *x,
                            struct pz_training_plan *p, double limit, int64_t from) {
  int64_t n = from, most = most_layers(x, p);
  while (n <= most && peak_with(s, x, p, n, limit) > limit) n++;
  p->stage_recompute = NULL;
  p->recompute_layers = n;
  if (n == 0) p->recompute = PZ_RECOMPUTATION_NONE;
  return n <= most;
}

/* Full recomputation of as few layers as the limit asks for; false: it is not enough. */
static bool recompute_within(const struct search *s, const struct shape *x,
                             struct pz_training_plan *p, double limit) {
  int64_t most = 0;
  p->recompute = PZ_RECOMPUTATION_FULL;
  p->stage_recompute = s->again;
  for (int64_t i = 0; i < p->pp; i++) {
    int64_t k = stage_at(p, i), n = fewest(s, x, p, k, limit);
    if (n < 0) return false;
    s->again[k] = n;
    most = pz_max(most, n);
  }
  return !is_uniform(s, p) || recompute_alike(s, x, p, limit, most);
}

/* Full recomputation: as little as memory asks for, or as brings the least memory.  The peak, or a bound of it that is
 * within HBM if it is. */
static double recompute_fewest(const struct search *s, const struct shape *x,
                               struct pz_training_plan *p) {
  bool memory = s->q->objective == PZ_PLAN_MEMORY;
  if (!memory && recompute_within(s, x, p, s->hbm_bytes)) return s->hbm_bytes;
  if (!memory && (s->found.n || s->kept)) return HUGE_VAL;
  p->recompute = PZ_RECOMPUTATION_FULL;
  p->stage_recompute = s->again;
  double least = least_peak(s, x, p);
  if (least > most_bytes(s)) return HUGE_VAL;
  return recompute_within(s, x, p, least) ? least : HUGE_VAL;
}

/* ---- memory of plans on many chips ---------------------------------------------------------- */

enum { MOST_KEPT_BYTES = 256 << 20 };

/* What a plan needs with this much HBM: bytes, and the recomputation that brings them. */
struct needed {
  double bytes;
  enum pz_recomputation recompute;
  int64_t layers;
  const int64_t *stages;
};

struct kept_memory {
  struct pz_arena arena;
  struct pz_map map;
  struct pz_vec needed; /* struct needed */
};

static void begin_kept(struct kept_memory *k) {
  pz_arena_init(&k->arena, NULL);
  pz_map_init(&k->map, &k->arena);
  pz_vec_init(&k->needed, &k->arena, sizeof(struct needed));
}

static double find_bytes(const struct search *s, const struct shape *x, struct pz_training_plan *p,
                         bool full) {
  return full ? recompute_fewest(s, x, p) : peak_bytes(s, x, p);
}

static enum pz_status keep_needed(struct kept_memory *k, const int64_t *key, size_t bytes,
                                  const struct pz_training_plan *p, struct needed *n) {
  uint32_t at = k->needed.n;
  if (n->stages) {
    int64_t *copy = pz_arena_alloc(&k->arena, (size_t)p->pp, sizeof *copy);
    if (!copy) return PZ_NO_MEMORY;
    memcpy(copy, n->stages, (size_t)p->pp * sizeof *copy);
    n->stages = copy;
  }
  if (!pz_vec_push(&k->needed, n)) return PZ_NO_MEMORY;
  return pz_map_put(&k->map, key, bytes, at);
}

/* Bytes of the plan, whose recomputation is set where it is chosen. */
static enum pz_status needed_bytes(struct search *s, const struct shape *x,
                                   struct pz_training_plan *p, bool full, double *bytes) {
  struct kept_memory *k = s->kept;
  /* those of a frontier are asked for once */
  if (!k || s->collect) return *bytes = find_bytes(s, x, p, full), PZ_OK;
  if (k->arena.total_bytes > MOST_KEPT_BYTES) {
    pz_arena_release(&k->arena);
    begin_kept(k);
  }
  const int64_t key[] = {x - pz_vec_at(&s->shapes, struct shape, 0),
                         p->pp,
                         p->vpp,
                         p->dp,
                         p->zero,
                         p->first_layers,
                         p->last_layers,
                         (int64_t)p->order,
                         (int64_t)p->recompute,
                         full,
                         (int64_t)s->hbm_bytes};
  uint32_t at = pz_map_get(&k->map, key, sizeof key);
  struct needed n;
  if (at == PZ_NONE) {
    n.bytes = find_bytes(s, x, p, full);
    bool fits = n.bytes <= s->hbm_bytes;
    n.recompute = p->recompute;
    n.layers = p->recompute_layers;
    n.stages = fits ? p->stage_recompute : NULL;
    if (keep_needed(k, key, sizeof key, p, &n) != PZ_OK)
      return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
  } else {
    n = *pz_vec_at(&k->needed, struct needed, at);
  }
  p->recompute = n.recompute;
  p->recompute_layers = n.layers;
  p->stage_recompute = n.stages;
  return *bytes = n.bytes, PZ_OK;
}

/* ---- one plan ------------------------------------------------------------------------------- */

/* Could a plan with this bound of its time, or bytes, be among the best?  */
static bool promises(const struct search *s, const struct pz_training_plan *p, double bound_s,
                     double bytes) {
  if (s->cutoff_s > 0 && bound_s >= s->cutoff_s) return false;
  if (s->found.n < s->top) return true;
  struct pz_found_plan one = {.plan = *p, .p = {.step_s = bound_s, .peak_bytes = bytes}};
  return is_before(s, &one, &s->found.list[s->found.n - 1]);
}

static enum pz_status simulate(struct search *s, const struct shape *x,
                               const struct pz_training_plan *p) {
  struct pz_found_plan one = {.plan = *p};
  enum pz_status status = pz_step_price(x->m, p, &one.p, NULL, s->err);
  if (status != PZ_OK) return status;
  s->found.certificate.solved++;
  return promises(s, p, one.p.step_s, one.p.peak_bytes) ? keep(s, &one) : PZ_OK;
}

/* Does the lower bound of the plan's step exclude it? */
static enum pz_status check_bound(const struct search *s, const struct shape *x,
                                  const struct pz_training_plan *p, double bytes, bool *excluded) {
  double bound;
  *excluded = false;
  if (s->found.n < s->top && !(s->cutoff_s > 0)) return PZ_OK;
  enum pz_status status = pz_step_bound(x->m, p, &bound, s->err);
  if (status == PZ_OK) *excluded = !promises(s, p, bound, bytes);
  return status;
}

/* A plan with this recomputation: excluded by the bound without it, by memory, by the bound with it, or simulated. */
static enum pz_status try_recompute(struct search *s, const struct shape *x,
                                    struct pz_training_plan *p, enum pz_recomputation how) {
  struct pz_plan_certificate *c = &s->found.certificate;
  bool full = how == PZ_RECOMPUTATION_FULL, memory = s->q->objective == PZ_PLAN_MEMORY;
  bool excluded = false;
  enum pz_status status = PZ_OK;
  p->recompute = full ? PZ_RECOMPUTATION_NONE : how;
  p->stage_recompute = NULL;
  p->recompute_layers = 0;
  if (!memory) status = check_bound(s, x, p, 0, &excluded);
  if (status != PZ_OK) return status;
  if (excluded) return c->by_bound++, PZ_OK;
  double bytes = 0;
  status = needed_bytes(s, x, p, full, &bytes);
  if (status != PZ_OK) return status;
  if (bytes > s->hbm_bytes) note_least(s, x, p, bytes);
  if (bytes > pz_fmin(s->hbm_bytes, most_bytes(s))) return c->by_memory++, PZ_OK;
  if (full || memory) status = check_bound(s, x, p, bytes, &excluded);
  if (status != PZ_OK) return status;
  if (excluded) return c->by_bound++, PZ_OK;
  return simulate(s, x, p);
}

static const enum pz_recomputation modes[] = {PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_SELECTIVE,
                                              PZ_RECOMPUTATION_ALTERNATE, PZ_RECOMPUTATION_HALF,
                                              PZ_RECOMPUTATION_FULL};

enum { MODES = sizeof modes / sizeof *modes };

/* Frameworks offer torchtitan's selection or not; every second layer is no better than half of the layers. */
static bool has_mode(const struct search *s, enum pz_recomputation how) {
  if (s->q->recompute != PZ_FREE) return s->q->recompute == (int64_t)how;
  if (how == PZ_RECOMPUTATION_ALTERNATE)
    return s->q->common.framework->plan.recompute == PZ_RECOMPUTATION_ALTERNATE;
  return how != PZ_RECOMPUTATION_HALF;
}

static uint64_t n_modes(const struct search *s) {
  uint64_t n = 0;
  for (size_t i = 0; i < MODES; i++) n += has_mode(s, modes[i]);
  return n;
}

/* Where nothing need be computed again, computing it again only takes time. */
static enum pz_status try_plan(struct search *s, const struct shape *x,
                               struct pz_training_plan *p) {
  struct pz_plan_certificate *c = &s->found.certificate;
  enum pz_status status = PZ_OK;
  uint64_t before = c->by_memory;
  for (size_t i = 0; i < MODES && status == PZ_OK; i++) {
    if (!has_mode(s, modes[i])) continue;
    c->plans++;
    if (i && s->q->recompute == PZ_FREE && s->q->objective != PZ_PLAN_MEMORY &&
        c->by_memory == before)
      c->by_bound++;
    else
      status = try_recompute(s, x, p, modes[i]);
  }
  return status;
}

/* What needs least is told in full where nothing fits. */
static enum pz_status price_least(struct search *s) {
  struct pz_found_plan *least = &s->found.least;
  if (s->found.n) s->found.has_least = false;
  if (!s->found.has_least) return PZ_OK;
  return pz_step_price(s->least_shape->m, &least->plan, &least->p, NULL, s->err);
}

/* ---- plans that may be best on some chip ---------------------------------------------------- */

/* The pipeline's lower bound is the largest, over the stages, of a sum of what a layer takes, its recomputation, the
 * layers at the ends and transfers: here how many of each.  None of these numbers depends on the chip. */
enum { MOST_KINDS = 3 };
enum { FORM_ENDS = 3 * MOST_KINDS, FORM_SEND = FORM_ENDS + 2, FORM_TERMS };

struct form {
  double
      n[FORM_TERMS]; /* layers; of these fully, selectively computed again; before, behind; send */
};

/* Seconds of each that the model has (term_at). */
struct form_times {
  double s[FORM_TERMS];
};

enum { MOST_FORMS = 64 };

/* A plan of the list: where its forms are. */
struct listed_plan {
  struct pz_training_plan plan;
  double params; /* of the largest stage */
  uint32_t first_form, n_forms;
};

/* Plans of a grid with so much HBM, none of which another one is never slower than. */
struct frontier_list {
  struct pz_vec plans; /* struct listed_plan */
  struct pz_vec forms; /* struct form */
};

static bool form_below(const struct form *a, const struct form *b) {
  for (int i = 0; i < FORM_TERMS; i++)
    if (a->n[i] > b->n[i]) return false;
  return true;
}

/* Layers of a chunk by kind; of these computed again. */
static void add_chunk(const struct shape *x, const struct pz_training_plan *p, int64_t chunk,
                      double times, struct form *f) {
  const struct pz_layer_kinds *k = &x->m->kinds;
  int64_t n = pz_plan_blocks(p, x->m->n_blocks, chunk);
  int64_t start = pz_plan_start(p, x->m->n_blocks, chunk);
  int64_t again = pz_plan_again(p, chunk % p->pp, n);
  int how = p->recompute == PZ_RECOMPUTATION_SELECTIVE ? 2 : 1;
  for (uint32_t i = 0; i < k->n; i++) {
    f->n[i] += times * (double)pz_kind_count(k, i, start, n);
    if (again) f->n[how * MOST_KINDS + (int)i] += times * (double)pz_kind_count(k, i, start, again);
  }
  if (chunk == 0) f->n[FORM_ENDS] += times;
  if (chunk == p->pp * p->vpp - 1) f->n[FORM_ENDS + 1] += times;
  f->n[FORM_SEND] += 2 * times;
}

/* Those of the stages, without ones that are below another. */
static uint32_t plan_forms(const struct shape *x, const struct pz_training_plan *p,
                           struct form out[MOST_FORMS]) {
  struct form before = {{0}};
  double rounds = (double)pz_plan_rounds(p);
  uint32_t n = 0;
  for (int64_t k = 0; k < p->pp; k++) {
    struct form f = before;
    bool below = false;
    for (int64_t c = 0; c < p->vpp; c++) add_chunk(x, p, c * p->pp + k, rounds, &f);
    add_chunk(x, p, k, 1, &before);
    for (uint32_t i = 0; i < n && !below; i++) below = form_below(&f, &out[i]);
    if (below) continue;
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++)
      if (!form_below(&out[i], &f)) out[left++] = out[i];
    n = left;
    if (n < MOST_FORMS) out[n++] = f; /* fewer only make the bound lower */
  }
  return n;
}

/* Is a plan with these forms never slower than the other? */
static bool forms_below(const struct form *a, uint32_t n_a, const struct form *b, uint32_t n_b) {
  for (uint32_t i = 0; i < n_a; i++) {
    bool below = false;
    for (uint32_t k = 0; k < n_b && !below; k++) below = form_below(&a[i], &b[k]);
    if (!below) return false;
  }
  return true;
}

static double stage_layers(const struct shape *x, const struct pz_training_plan *p) {
  double most = 0;
  for (int64_t k = 0; k < p->pp; k++) {
    double n = 0;
    for (int64_t c = 0; c < p->vpp; c++)
      n += (double)pz_plan_blocks(p, x->m->n_blocks, c * p->pp + k);
    most = pz_fmax(most, n + (k == 0) + (k == p->pp - 1));
  }
  return most;
}

static bool is_dominated(const struct frontier_list *f, const struct pz_training_plan *p,
                         double params, const struct form *forms, uint32_t n) {
  for (uint32_t i = 0; i < f->plans.n; i++) {
    const struct listed_plan *q = pz_vec_at(&f->plans, struct listed_plan, i);
    bool same = q->plan.zero == p->zero && q->plan.order == p->order && q->params <= params;
    if (same && forms_below(pz_vec_at(&f->forms, struct form, q->first_form), q->n_forms, forms, n))
      return true;
  }
  return false;
}

static enum pz_status add_to_frontier(struct search *s, const struct pz_training_plan *p,
                                      double params, const struct form *forms, uint32_t n) {
  struct frontier_list *f = s->collect;
  struct listed_plan one = {*p, params, f->forms.n, n};
  if (p->stage_recompute) {
    int64_t *copy = pz_arena_alloc(f->plans.arena, (size_t)p->pp, sizeof *copy);
    if (!copy) return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
    memcpy(copy, p->stage_recompute, (size_t)p->pp * sizeof *copy);
    one.plan.stage_recompute = copy;
  }
  for (uint32_t i = 0; i < n; i++)
    if (!pz_vec_push(&f->forms, &forms[i]))
      return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
  if (!pz_vec_push(&f->plans, &one))
    return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
  return PZ_OK;
}

/* The plan with each recomputation that memory asks for. */
static enum pz_status collect_plan(struct search *s, const struct shape *x,
                                   struct pz_training_plan *p) {
  struct form forms[MOST_FORMS];
  double params = stage_layers(x, p);
  for (size_t i = 0; i < MODES; i++) {
    bool full = modes[i] == PZ_RECOMPUTATION_FULL;
    double bytes = 0;
    if (!has_mode(s, modes[i])) continue;
    p->recompute = full ? PZ_RECOMPUTATION_NONE : modes[i];
    p->stage_recompute = NULL;
    p->recompute_layers = 0;
    uint32_t n = plan_forms(x, p, forms);
    if (is_dominated(s->collect, p, params, forms, n)) {
      if (i == 0) return PZ_OK;
      continue;
    }
    enum pz_status status = needed_bytes(s, x, p, full, &bytes);
    if (status != PZ_OK) return status;
    if (bytes > s->hbm_bytes) continue;
    if (full) n = plan_forms(x, p, forms);
    if (!full || !is_dominated(s->collect, p, params, forms, n))
      status = add_to_frontier(s, p, params, forms, n);
    if (status != PZ_OK || i == 0) return status;
  }
  return PZ_OK;
}

/* ---- grids ---------------------------------------------------------------------------------- */

/* Sharded optimizer state takes less time and less memory than whole one. */
static bool is_superfluous(const struct search *s, const struct pz_training_plan *p) {
  return p->zero == 0 && pz_plan_replicas(p) > 1 && !p->shard && p->grad_bytes >= 2 &&
         allows(s->q->zero, 1);
}

/* Plans of a grid with these chunks, or only their number. */
static enum pz_status each_division(struct search *s, const struct shape *x,
                                    struct pz_training_plan *p, bool count) {
  enum pz_status status = list_divisions(s, p, s->n_blocks);
  for (p->zero = 0; p->zero <= 3; p->zero++) {
    if (!can_shard(s, p, p->zero)) continue;
    if (s->collect && is_superfluous(s, p)) continue;
    if (count) {
      uint64_t n = s->divisions.n * n_modes(s);
      s->found.certificate.plans += n;
      s->found.certificate.by_bound += n;
      continue;
    }
    for (uint32_t i = 0; i < s->divisions.n && status == PZ_OK; i++) {
      const struct division *d = pz_vec_at(&s->divisions, struct division, i);
      p->first_layers = d->first;
      p->last_layers = d->last;
      status = s->collect ? collect_plan(s, x, p) : try_plan(s, x, p);
    }
  }
  return status;
}

static enum pz_status each_plan(struct search *s, const struct grid *g, bool count) {
  struct shape *x = pz_vec_at(&s->shapes, struct shape, g->shape);
  struct pz_training_plan p = plan_of(s, x);
  enum pz_status status = count ? PZ_OK : open_shape(s, x, s->err);
  p.pp = g->pp;
  p.dp = g->dp;
  int64_t most_vpp = p.pp == 1 ? 1 : (s->n_blocks + 2) / p.pp;
  for (int64_t v = 1; v <= most_vpp && status == PZ_OK; v++) {
    p.vpp = s->collect ? most_vpp + 1 - v : v; /* more chunks make others superfluous */
    if (!allows(s->q->vpp, p.vpp)) continue;
    for (int i = 0; i < PZ_PIPELINES && status == PZ_OK; i++) {
      p.order = (enum pz_pipeline_order)i;
      p.first_layers = p.last_layers = 0;
      if (has_order(s, &p, p.order) && can_order(&p, s->n_blocks))
        status = each_division(s, x, &p, count);
    }
  }
  return status;
}

/* No plan of the grid is faster: its stages share all layers at best evenly, and nothing else takes time. */
static double grid_bound(const struct search *s, const struct shape *x, const struct grid *g) {
  int64_t rounds = s->q->batch / (x->mbs * g->dp);
  double all = rounds == 1 ? x->once_s : x->several_s;
  return (double)rounds * all / (double)g->pp;
}

static bool grid_promises(const struct search *s, const struct grid *g) {
  const struct shape *x = pz_vec_at(&s->shapes, struct shape, g->shape);
  struct pz_training_plan p = {.tp = x->tp, .cp = x->cp, .ep = x->ep, .pp = g->pp, .dp = g->dp};
  return promises(s, &p, g->bound_s, 0);
}

/* Devices that share the experts of a stage. */
static int64_t expert_grid(const struct search *s, const struct shape *x) {
  struct pz_training_plan p = plan_of(s, x);
  return pz_plan_ep(&p) * pz_plan_etp(&p);
}

static enum pz_status add_grids(struct search *s) {
  const struct pz_plan_question *q = s->q;
  for (uint32_t i = 0; i < s->shapes.n; i++) {
    const struct shape *x = pz_vec_at(&s->shapes, struct shape, i);
    int64_t group = x->tp * x->cp, most_pp = pz_min(s->n_blocks, q->devices / group);
    for (int64_t pp = 1; pp <= most_pp; pp++)
      for (uint32_t d = 0; d < s->divisors.n; d++) {
        int64_t dp = *pz_vec_at(&s->divisors, int64_t, d);
        if (dp > q->devices / (group * pp)) break;
        if (!allows(q->pp, pp) || !allows(q->dp, dp) || q->batch % (dp * x->mbs)) continue;
        if (!on_nodes(s, group * pp * dp) || group * dp % expert_grid(s, x)) continue;
        struct grid g = {.shape = i, .pp = pp, .dp = dp};
        struct pz_training_plan p = {.tp = x->tp, .cp = x->cp, .pp = pp, .dp = dp};
        g.bound_s = grid_bound(s, x, &g);
        g.bound = value_of(s, &p, g.bound_s, 0);
        if (!pz_vec_push(&s->grids, &g))
          return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
      }
  }
  return PZ_OK;
}

static int by_bound(const void *a, const void *b) {
  const struct grid *x = a, *y = b;
  if (x->bound != y->bound) return x->bound < y->bound ? -1 : 1;
  if (x->shape != y->shape) return x->shape < y->shape ? -1 : 1;
  return x->pp != y->pp ? (x->pp < y->pp ? -1 : 1) : (x->dp > y->dp) - (x->dp < y->dp);
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* A model for every shape; those that the model's layers do not allow are left out. */
static enum pz_status make_shapes(struct search *s) {
  struct pz_pool *pool = NULL;
  enum pz_status status = pz_pool_new(s->q->threads, &pool, s->err);
  if (status != PZ_OK) return status;
  pz_pool_for(pool, s->shapes.n, make_shape, s);
  pz_pool_free(pool);
  uint32_t n = 0;
  struct pz_error refused = {0};
  for (uint32_t i = 0; i < s->shapes.n; i++) {
    struct shape x = *pz_vec_at(&s->shapes, struct shape, i);
    bool no_plan = x.status == PZ_BAD_USE || x.status == PZ_BAD_INPUT || x.status == PZ_LIMIT;
    if (no_plan && !refused.status) refused = x.err;
    if (x.status != PZ_OK && !no_plan && status == PZ_OK)
      status = pz_fail(s->err, x.status, "%s", x.err.message);
    if (x.status == PZ_OK)
      *pz_vec_at(&s->shapes, struct shape, n++) = x;
    else
      close_shape(&x);
  }
  s->shapes.n = n;
  if (status == PZ_OK && !n && refused.status)
    return pz_fail(s->err, refused.status, "%s", refused.message);
  return status;
}

static enum pz_status no_plan(const struct search *s) {
  return pz_fail(
      s->err, PZ_BAD_USE,
      "no plan has these degrees: tp must divide the heads, tp x cp x pp x dp fill whole "
      "nodes of %lld devices up to %lld, mbs x dp divide the batch of %lld, pp x vpp the "
      "layers",
      (long long)s->node, (long long)s->q->devices, (long long)s->q->batch);
}

static enum pz_status run(struct search *s) {
  enum pz_status status = make_shapes(s);
  if (status == PZ_OK) status = add_grids(s);
  if (status != PZ_OK) return status;
  if (!s->grids.n) return no_plan(s);
  qsort(s->grids.items, s->grids.n, sizeof(struct grid), by_bound);
  for (uint32_t i = 0; i < s->grids.n && status == PZ_OK; i++) {
    const struct grid *g = pz_vec_at(&s->grids, struct grid, i);
    status = each_plan(s, g, !grid_promises(s, g));
  }
  if (status == PZ_OK && !s->found.certificate.plans) return no_plan(s);
  return status == PZ_OK ? price_least(s) : status;
}

static enum pz_status check(const struct pz_plan_question *q, struct pz_error *err) {
  if (q->devices < 1 || q->devices > 1 << 24)
    return pz_fail(err, PZ_BAD_USE, "%lld devices; accepted: 1 to 2^24", (long long)q->devices);
  if (q->batch < 1 || q->batch > 1 << 24)
    return pz_fail(err, PZ_BAD_USE, "a batch of %lld; accepted: 1 to 2^24", (long long)q->batch);
  if (q->common.shard < 0 || q->common.shard > q->devices)
    return pz_fail(err, PZ_BAD_USE, "sharding over %lld replicas; accepted: 0 (all) to %lld",
                   (long long)q->common.shard, (long long)q->devices);
  if (q->cp < PZ_FREE || q->cp > 1 << 24)
    return pz_fail(err, PZ_BAD_USE, "cp %lld; accepted: 1 to 2^24", (long long)q->cp);
  if (q->ep < PZ_FREE || q->ep > 1 << 16)
    return pz_fail(err, PZ_BAD_USE, "ep %lld; accepted: 1 to 2^16", (long long)q->ep);
  if (q->top > 1000)
    return pz_fail(err, PZ_BAD_USE, "%u best plans; accepted: at most 1000", q->top);
  return PZ_OK;
}

/* Heads and layers of the model, from its graph for one device. */
static enum pz_status begin(struct search *s) {
  struct shape one = {.tp = 1, .cp = 1, .ep = 1, .mbs = 1};
  struct pz_training_plan p = plan_of(s, &one);
  struct pz_step_model *m = NULL;
  enum pz_status status = pz_step_model_new(&s->q->model, s->q->chip, s->q->net, &p, &m, s->err);
  if (status != PZ_OK) return status;
  s->n_blocks = m->n_blocks;
  s->node =
      m->cost.net.n_levels ? pz_min(m->cost.net.level[0].devices, s->q->devices) : s->q->devices;
  if (!m->cost.net.n_levels && s->q->devices > 1)
    status = pz_fail(s->err, PZ_BAD_INPUT,
                     "chip %s has no link between devices; accepted: --cluster", s->q->chip->name);
  if (status == PZ_OK && m->w->totals.layers > PZ_PLACE_MOST_LAYERS)
    status = pz_fail(s->err, PZ_LIMIT, "%s has %lld layers; accepted: at most %d", m->w->model,
                     (long long)m->w->totals.layers, PZ_PLACE_MOST_LAYERS);
  if (status == PZ_OK) status = list_divisors(s);
  if (status == PZ_OK) status = add_shapes(s, m->w);
  s->again = pz_arena_alloc(s->arena, (size_t)m->n_blocks + 2, sizeof *s->again);
  s->least_again = pz_arena_alloc(s->arena, (size_t)m->n_blocks + 2, sizeof *s->least_again);
  s->found.list = pz_arena_alloc(s->arena, s->top, sizeof *s->found.list);
  if (status == PZ_OK && (!s->again || !s->least_again || !s->found.list))
    status = pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
  pz_step_model_free(m);
  return status;
}

struct pz_plan_question pz_plan_question_default(void) {
  return (struct pz_plan_question){.tp = PZ_FREE,
                                   .cp = PZ_FREE,
                                   .ep = PZ_FREE,
                                   .sp = PZ_FREE,
                                   .pp = PZ_FREE,
                                   .vpp = PZ_FREE,
                                   .dp = PZ_FREE,
                                   .mbs = PZ_FREE,
                                   .zero = PZ_FREE,
                                   .recompute = PZ_FREE,
                                   .top = 1};
}

enum pz_status pz_plan_search(const struct pz_plan_question *q, struct pz_arena *arena,
                              struct pz_found_plans *out, struct pz_error *err) {
  struct pz_arena work;
  struct search s = {.q = q, .arena = arena, .err = err, .top = q->top ? q->top : 1};
  enum pz_status status = check(q, err);
  if (status != PZ_OK) return status;
  pz_arena_init(&work, NULL);
  pz_vec_init(&s.shapes, &work, sizeof(struct shape));
  pz_vec_init(&s.grids, &work, sizeof(struct grid));
  pz_vec_init(&s.divisions, &work, sizeof(struct division));
  pz_vec_init(&s.divisors, &work, sizeof(int64_t));
  const struct pz_constants *k = q->common.constants;
  s.hbm_bytes = (double)pz_chip_hbm_bytes(q->chip) * (k ? k : &pz_constants_default)->usable_part;
  status = begin(&s);
  if (status == PZ_OK) status = run(&s);
  for (uint32_t i = 0; i < s.shapes.n; i++) close_shape(pz_vec_at(&s.shapes, struct shape, i));
  pz_arena_release(&work);
  if (status == PZ_OK) *out = s.found;
  return status;
}

/* ---- many chips ----------------------------------------------------------------------------- */

/* What a part of a shape takes of lanes and memory, and attention of arrays and lanes. */
struct work {
  double attention_flop, attention_ops, ops, bytes;
  double tail_ops; /* of lanes, beside products */
  double macs;     /* of products */
};

/* Parts are the terms of a form but the last, and all of a microbatch. */
enum { WHOLE = FORM_SEND, NUMBERS };

/* A product of a shape, so many times in a part. */
struct product_use {
  uint32_t product;
  int part;
  double times;
};

struct net_entry {
  uint64_t key;
  double *s; /* of collectives, by shape and part */
};

struct pz_plan_finder {
  struct pz_plan_question q;
  struct work *work; /* by shape and part */
  double *share;
  struct pz_map array_at, product_at;
  struct pz_vec products,
      uses; /* struct pz_product, struct product_use: those of a shape together */
  uint32_t *first_use;
  double *product_cycles;
  double *sums; /* by shape and part, for a moment */
  struct pz_map traffic_at;
  struct pz_vec traffic;      /* bytes of products by shape and part */
  struct pz_vec arrays, nets; /* cycles of products by shape and part, struct net_entry */
  uint32_t last_best;         /* shape */
  uint32_t first_shape;       /* which others that share do not begin with */
  struct pz_arena arena, plans, frontier_arena;
  struct search s;
  struct kept_memory kept;
  struct pz_product_times *times;
  struct pz_error unused;
  struct ranked {
    double bound_s;
    uint32_t shape;
  } * ranked; /* by shape */
  struct pz_map frontier_at;
  struct pz_vec frontiers;           /* const struct frontier * */
  struct pz_vec open;                /* grids of a shape that promise something */
  struct pz_training_plan promising; /* the plan with the lowest bound */
  struct shape *promising_shape;
};

/* Chips with one resource that is finite: what an operator takes of it, whatever the rest. */
enum resource { ARRAYS, LANES, MEMORY, RESOURCES };

static struct pz_chip lone_chip(const struct pz_chip *like, enum resource r) {
  static const double ENDLESS = 1e18;
  enum { MANY = 1 << 20 };
  struct pz_chip c = *like;
  c.clock_hz = 1;
  c.tensor.rows = c.tensor.cols = r == ARRAYS ? 1 : 1 << 14;
  c.tensor.cores = r == ARRAYS ? 1 : MANY;
  c.vector.cores = c.vector.lanes = r == LANES ? 1 : MANY;
  c.glb_bytes_per_s = ENDLESS;
  c.hbm.stacks = 1;
  c.hbm.bytes_per_s_per_stack = r == MEMORY ? 1 : ENDLESS;
  return c;
}

/* Rows may go to experts and back by products, and be sorted or not. */
static bool is_moved(const struct pz_op *op) {
  return op->kind == PZ_OP_DISPATCH || op->kind == PZ_OP_COMBINE || op->kind == PZ_OP_SORT;
}

static bool is_product(const struct pz_op *op) {
  return op->matmul_flop && op->kind != PZ_OP_ATTENTION;
}

static enum pz_status add_work(const struct shape *x, struct pz_cost cost[RESOURCES],
                               const struct pz_op *op, double times, struct work *f,
                               struct pz_error *err) {
  bool attention = op->kind == PZ_OP_ATTENTION;
  struct pz_op one = *op;
  struct pz_estimate e[RESOURCES];
  if (op->op_class == PZ_CLASS_NONE || op->op_class == PZ_CLASS_COLLECTIVE || is_moved(op))
    return PZ_OK;
  if (is_product(op)) {
    const struct pz_dims *d = &op->dims;
    f->macs += times * (double)d->batch * (double)d->m * (double)d->n * (double)d->k;
    f->tail_ops += times * pz_cost_extra(&cost[LANES].chip, op).tail_ops;
    return PZ_OK;
  }
  if (attention && one.dims.n == x->m->w->options.seq) one.dims.n = x->m->seq;
  for (enum resource r = 0; r < RESOURCES; r++) {
    enum pz_status status = pz_cost_op(&cost[r], &one, &e[r], err);
    if (status != PZ_OK) return status;
  }
  if (attention) {
    f->attention_flop += times * 2 * e[ARRAYS].latency_s;
    f->attention_ops += times * e[LANES].latency_s;
  } else {
    f->ops += times * e[LANES].latency_s;
    f->bytes += times * e[MEMORY].latency_s;
  }
  return PZ_OK;
}

/* Calls fn for every operator of a shape that runs in a part of its plans: layers, what is computed again of them, what
 * lies before and behind them. */
typedef enum pz_status each_op_fn(void *ctx, const struct pz_op *op, int part, double times);

static enum pz_status each_again(struct search *s, const struct pz_layer *l, uint32_t kind,
                                 each_op_fn *fn, void *ctx) {
  const struct pz_ops *ops = &l->ops[PZ_FORWARD];
  bool *again = pz_calloc(ops->n + 1, sizeof *again);
  if (!again) return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
  enum pz_status status = pz_recompute_ops(l, s->q->common.kept, again, s->err);
  for (uint32_t i = 0; i < ops->n && status == PZ_OK; i++) {
    if (again[i]) status = fn(ctx, &ops->op[i], MOST_KINDS + (int)kind, 1);
    if (status == PZ_OK && ops->op[i].kind == PZ_OP_ATTENTION)
      status = fn(ctx, &ops->op[i], 2 * MOST_KINDS + (int)kind, 1);
  }
  pz_free(again);
  return status;
}

static enum pz_status each_op(struct search *s, const struct shape *x, each_op_fn *fn, void *ctx) {
  const struct pz_workload *w = x->m->w;
  enum pz_status status = PZ_OK;
  uint32_t kind = 0;
  for (uint32_t l = 0; l < w->n_layers && status == PZ_OK; l++) {
    const struct pz_layer *layer = &w->layers[l];
    bool block = kind < x->m->kinds.n && x->m->kinds.layer[kind] == l;
    int part = block ? (int)kind : FORM_ENDS + (kind > 0);
    double times = block ? 1 : (double)layer->count;
    for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
      for (uint32_t i = 0; i < layer->ops[d].n && status == PZ_OK; i++)
        status = fn(ctx, &layer->ops[d].op[i], part, times);
    if (block && status == PZ_OK) status = each_again(s, layer, kind++, fn, ctx);
  }
  return status;
}

struct working {
  const struct shape *x;
  struct pz_cost cost[RESOURCES];
  struct work *work;
  struct pz_error *err;
};

static enum pz_status add_op_work(void *ctx, const struct pz_op *op, int part, double times) {
  struct working *w = ctx;
  return add_work(w->x, w->cost, op, times, &w->work[part], w->err);
}

/* Repeated layers of each part in one microbatch without recomputation. */
static double part_count(const struct shape *x, int part) {
  if (part >= FORM_ENDS) return 1;
  return part < (int)x->m->kinds.n ? (double)x->m->w->layers[x->m->kinds.layer[part]].count : 0;
}

static enum pz_status find_work(struct search *s, const struct shape *x, struct work *out) {
  struct working w = {.x = x, .work = out, .err = s->err};
  for (enum resource r = 0; r < RESOURCES; r++) {
    struct pz_chip c = lone_chip(s->q->chip, r);
    pz_cost_init(&w.cost[r], &c, NULL);
    w.cost[r].causal = x->m->cost.causal;
    w.cost[r].attention_library = x->m->cost.attention_library;
  }
  enum pz_status status = each_op(s, x, add_op_work, &w);
  for (enum resource r = 0; r < RESOURCES; r++) pz_cost_release(&w.cost[r]);
  for (int p = 0; p < FORM_SEND; p++) {
    double n = part_count(x, p);
    out[WHOLE].attention_flop += n * out[p].attention_flop;
    out[WHOLE].attention_ops += n * out[p].attention_ops;
    out[WHOLE].ops += n * out[p].ops;
    out[WHOLE].bytes += n * out[p].bytes;
    out[WHOLE].tail_ops += n * out[p].tail_ops;
    out[WHOLE].macs += n * out[p].macs;
  }
  return status;
}

/* ---- cycles of products on an array, collectives of a network -------------------------------- */

/* Of every shape and part of its plans. */
static double *new_numbers(struct pz_plan_finder *f) {
  return pz_arena_alloc(&f->arena, f->s.shapes.n, NUMBERS * sizeof(double));
}

static void add_whole(const struct shape *x, double *v) {
  for (int p = 0; p < FORM_SEND; p++) v[WHOLE] += part_count(x, p) * v[p];
}

struct using {
  struct pz_plan_finder *f;
};

/* Products are few: shapes with as many tokens on a device have the same. */
static enum pz_status add_op_product(void *ctx, const struct pz_op *op, int part, double times) {
  struct pz_plan_finder *f = ((struct using *)ctx)->f;
  if (op->op_class == PZ_CLASS_NONE || op->op_class == PZ_CLASS_COLLECTIVE || is_moved(op) ||
      !is_product(op))
    return PZ_OK;
  struct pz_product p = {op->dims.batch, op->dims.m, op->dims.n, op->dims.k, false};
  const int64_t key[] = {p.batch, p.m, p.n, p.k};
  uint32_t at = pz_map_get(&f->product_at, key, sizeof key);
  if (at == PZ_NONE) {
    at = f->products.n;
    if (!pz_vec_push(&f->products, &p) || pz_map_put(&f->product_at, key, sizeof key, at) != PZ_OK)
      return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
  }
  struct product_use one = {at, part, times};
  if (!pz_vec_push(&f->uses, &one))
    return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
  return PZ_OK;
}

static enum pz_status find_products(struct pz_plan_finder *f) {
  struct using u = {f};
  uint32_t n = f->s.shapes.n;
  enum pz_status status = PZ_OK;
  f->first_use = pz_arena_alloc(&f->arena, n + 1, sizeof *f->first_use);
  if (!f->first_use) return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    status = each_op(&f->s, pz_vec_at(&f->s.shapes, struct shape, i), add_op_product, &u);
    f->first_use[i + 1] = f->uses.n;
  }
  f->product_cycles = pz_arena_alloc(&f->arena, f->products.n, sizeof(double));
  f->sums = new_numbers(f);
  return f->product_cycles && f->sums
             ? status
             : pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
}

static enum pz_status map_products(struct pz_plan_finder *f, const struct pz_chip *c) {
  for (uint32_t i = 0; i < f->products.n; i++) {
    const struct pz_product *p = pz_vec_at(&f->products, struct pz_product, i);
    enum pz_status status = pz_product_core_s(p, c, &f->product_cycles[i], f->s.err);
    if (status != PZ_OK) return status;
    f->product_cycles[i] *= c->clock_hz;
  }
  return PZ_OK;
}

/* The numbers of products at hand, summed by shape and part. */
static void add_products(const struct pz_plan_finder *f, double *out) {
  for (uint32_t i = 0; i < f->s.shapes.n; i++) {
    double *one = out + (size_t)i * NUMBERS;
    for (uint32_t k = f->first_use[i]; k < f->first_use[i + 1]; k++) {
      const struct product_use *u = pz_vec_at(&f->uses, struct product_use, k);
      one[u->part] += u->times * f->product_cycles[u->product];
    }
    add_whole(pz_vec_at(&f->s.shapes, struct shape, i), one);
  }
}

static enum pz_status sum_cycles(struct pz_plan_finder *f, const struct pz_chip *c, const void *key,
                                 size_t key_bytes, const double **out) {
  size_t bytes = (size_t)f->s.shapes.n * NUMBERS * sizeof(double);
  memset(f->sums, 0, bytes);
  enum pz_status status = map_products(f, c);
  if (status != PZ_OK) return status;
  add_products(f, f->sums);
  *out = pz_shared_table_put(f->q.shared, key, key_bytes, f->sums, bytes);
  if (*out) return PZ_OK;
  double *own = new_numbers(f);
  if (!own) return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
  memcpy(own, f->sums, bytes);
  return *out = own, PZ_OK;
}

/* On one core with its part of the global buffer's rate: several cores take no less of all their cycles together. */
static enum pz_status array_cycles(struct pz_plan_finder *f, const struct pz_chip *chip,
                                   const double **out) {
  struct pz_chip c = *chip;
  c.rules.nested_mapping = false;
  c.tensor.cores = 1;
  c.tensor.local_bytes_per_s = c.tensor.local_total_bytes_per_s = 0;
  c.clock_hz = 1e9;
  c.glb_bytes_per_s = chip->glb_bytes_per_s / (double)chip->tensor.cores / chip->clock_hz * 1e9;
  c.glb_bytes = INT64_C(1) << 40;
  c.hbm.bytes_per_s_per_stack = 1e18;
  const double key[] = {PZ_SHARED_CYCLES,
                        f->q.shared_as,
                        (double)chip->tensor.rows,
                        (double)chip->tensor.cols,
                        (double)chip->tensor.local_bytes,
                        (double)chip->tensor.register_bytes,
                        c.glb_bytes_per_s,
                        chip->rules.fill,
                        chip->rules.duplex,
                        chip->rules.partitioned,
                        chip->rules.double_buffer,
                        (double)chip->rules.operand_bytes,
                        (double)chip->rules.sum_bytes};
  uint32_t at = pz_map_get(&f->array_at, key, sizeof key);
  if (at != PZ_NONE) return *out = *pz_vec_at(&f->arrays, const double *, at), PZ_OK;
  const double *cycles = pz_shared_table_get(f->q.shared, key, sizeof key);
  enum pz_status status = cycles ? PZ_OK : sum_cycles(f, &c, key, sizeof key, &cycles);
  if (status != PZ_OK) return status;
  at = f->arrays.n;
  if (!pz_vec_push(&f->arrays, &cycles) || pz_map_put(&f->array_at, key, sizeof key, at) != PZ_OK)
    return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
  return *out = cycles, PZ_OK;
}

/* Bytes of HBM that products move at least, by shape and part. */
static enum pz_status product_traffic(struct pz_plan_finder *f, const struct pz_chip *c,
                                      const double **out) {
  const int64_t key[] = {c->tensor.rows, c->tensor.cols, c->glb_bytes};
  uint32_t at = pz_map_get(&f->traffic_at, key, sizeof key);
  if (at != PZ_NONE) return *out = *pz_vec_at(&f->traffic, double *, at), PZ_OK;
  double *bytes = new_numbers(f);
  if (!bytes) return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
  for (uint32_t i = 0; i < f->products.n; i++) {
    const struct pz_product *p = pz_vec_at(&f->products, struct pz_product, i);
    enum pz_status status =
        pz_product_times_hbm_bytes(f->times, p, c, &f->product_cycles[i], f->s.err);
    if (status != PZ_OK) return status;
  }
  add_products(f, bytes);
  at = f->traffic.n;
  if (!pz_vec_push(&f->traffic, &bytes) || pz_map_put(&f->traffic_at, key, sizeof key, at) != PZ_OK)
    return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
  return *out = bytes, PZ_OK;
}

static double shown_s(const struct pz_layer_step *t) {
  return t->forward.collectives_s + t->backward.collectives_s + t->forward.expert_s +
         t->backward.expert_s;
}

/* Collectives that show on a chip beside whose attention everything hides that can. */
static enum pz_status shape_collectives(struct pz_plan_finder *f, struct shape *x,
                                        const struct pz_cluster *net, double *out) {
  struct pz_training_plan p = plan_of(&f->s, x);
  struct pz_chip slow = *f->q.chip;
  slow.clock_hz = 1;
  slow.rules.nested_mapping = false;
  slow.hbm.bytes_per_s_per_stack = slow.glb_bytes_per_s = 1;
  p.recompute = PZ_RECOMPUTATION_FULL;
  x->timed_for = 0;
  enum pz_status status = pz_step_model_set_chip(x->m, &slow, net, &p, f->times, f->s.err);
  if (status == PZ_OK) status = pz_step_model_time(x->m, &p, 2, f->s.err);
  if (status != PZ_OK) return status;
  const struct pz_model_steps *m = &x->m->steps;
  for (uint32_t k = 0; k < x->m->kinds.n; k++) {
    out[k] = shown_s(&m->block[k]);
    out[MOST_KINDS + k] = pz_fmax(0, shown_s(&m->again[k]) - out[k]);
  }
  out[FORM_ENDS] = shown_s(&m->before);
  out[FORM_ENDS + 1] = shown_s(&m->after);
  add_whole(x, out);
  return PZ_OK;
}

static uint64_t net_key(const struct pz_cluster *net) {
  double v[2 * PZ_CLUSTER_MOST_LEVELS] = {0};
  for (int l = 0; l < net->n_levels; l++) {
    v[2 * l] = (double)net->level[l].devices;
    v[2 * l + 1] = net->level[l].bytes_per_s;
  }
  return pz_hash(v, sizeof v);
}

static enum pz_status net_collectives(struct pz_plan_finder *f, const struct pz_cluster *net,
                                      const double **out) {
  struct net_entry one = {net_key(net), NULL};
  enum pz_status status = PZ_OK;
  for (uint32_t i = 0; i < f->nets.n; i++) {
    const struct net_entry *e = pz_vec_at(&f->nets, struct net_entry, i);
    if (e->key == one.key) return *out = e->s, PZ_OK;
  }
  one.s = new_numbers(f);
  if (!one.s) return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
  for (uint32_t i = 0; i < f->s.shapes.n && status == PZ_OK; i++)
    status = shape_collectives(f, pz_vec_at(&f->s.shapes, struct shape, i), net,
                               one.s + (size_t)i * NUMBERS);
  if (status == PZ_OK && !pz_vec_push(&f->nets, &one))
    status = pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
  if (status == PZ_OK) *out = one.s;
  return status;
}

/* ---- lower bounds by rates ------------------------------------------------------------------ */

/* The part of all microbatches that every device has to work on, if all have the same. */
static double share(const struct pz_plan_question *q, const struct shape *x) {
  return (double)(q->batch * x->tp * x->cp) / (double)(x->mbs * q->devices);
}

/* Seconds of one unit of each resource of a chip; what products and collectives take. */
struct rates {
  double cycle, flop, op, byte;
  const double *cycles, *collectives;
};

static enum pz_status find_rates(struct pz_plan_finder *f, const struct pz_chip *c,
                                 const struct pz_cluster *net, struct rates *r) {
  *r = (struct rates){.cycle = 1 / ((double)c->tensor.cores * c->clock_hz),
                      .flop = 1 / pz_chip_tensor_flop_per_s(c),
                      .op = 1 / pz_chip_vector_op_per_s(c),
                      .byte = 1 / pz_chip_hbm_bytes_per_s(c)};
  enum pz_status status = array_cycles(f, c, &r->cycles);
  return status == PZ_OK ? net_collectives(f, net, &r->collectives) : status;
}

/* What a part of a shape takes at least. */
static double part_s(const struct pz_plan_finder *f, const struct rates *r, uint32_t shape,
                     int part) {
  const struct work *w = &f->work[(size_t)shape * NUMBERS + (size_t)part];
  size_t at = (size_t)shape * NUMBERS + (size_t)part;
  double s = pz_fmax(r->cycles[at] * r->cycle, w->tail_ops * r->op) + r->collectives[at] +
             pz_fmax(w->attention_flop * r->flop, w->attention_ops * r->op) +
             pz_fmax(w->ops * r->op, w->bytes * r->byte);
  /* sums in another order */
  return s * (1 - 1e-9);
}

static double floor_s(const struct pz_plan_finder *f, const struct rates *r, uint32_t shape) {
  return part_s(f, r, shape, WHOLE) * f->share[shape];
}

/* All that a time depends on. */
static uint64_t chip_key(const struct pz_chip *c, const struct pz_cluster *net) {
  double v[12 + 2 * PZ_CLUSTER_MOST_LEVELS] = {
      (double)c->tensor.cores,       (double)c->tensor.rows,  (double)c->tensor.cols,
      (double)c->tensor.local_bytes, (double)c->vector.cores, (double)c->vector.lanes,
      (double)c->glb_bytes,          c->glb_bytes_per_s,      c->clock_hz,
      pz_chip_hbm_bytes_per_s(c),    c->rules.nested_mapping};
  for (int l = 0; l < net->n_levels; l++) {
    v[12 + 2 * l] = (double)net->level[l].devices;
    v[13 + 2 * l] = net->level[l].bytes_per_s;
  }
  return pz_hash(v, sizeof v) | 1;
}

static enum pz_status time_shape(struct pz_plan_finder *f, struct shape *x,
                                 const struct pz_chip *chip, const struct pz_cluster *net,
                                 uint64_t key) {
  struct pz_training_plan p = plan_of(&f->s, x);
  if (x->timed_for == key) return PZ_OK;
  enum pz_status status = pz_step_model_set_chip(x->m, chip, net, &p, f->times, &x->err);
  if (status == PZ_OK) status = microbatch_s(&f->s, x, 1, &x->once_s);
  if (status == PZ_OK) status = microbatch_s(&f->s, x, 2, &x->several_s);
  x->timed_for = status == PZ_OK ? key : 0;
  return status == PZ_OK ? PZ_OK : pz_fail(f->s.err, status, "%s", x->err.message);
}

static double shape_bound_s(const struct pz_plan_question *q, const struct shape *x) {
  return pz_fmin(x->once_s, x->several_s) * share(q, x) * (1 - 1e-9);
}

static int by_rank(const void *a, const void *b) {
  const struct ranked *x = a, *y = b;
  if (x->bound_s != y->bound_s) return x->bound_s < y->bound_s ? -1 : 1;
  return (x->shape > y->shape) - (x->shape < y->shape);
}

static void set_question(struct pz_plan_finder *f, const struct pz_chip *chip,
                         const struct pz_cluster *net, double cutoff_s, struct pz_error *err) {
  const struct pz_constants *k = f->q.common.constants;
  struct pz_found_plan *list = f->s.found.list;
  f->q.chip = chip;
  f->q.net = net;
  f->s.err = err ? err : &f->unused;
  f->s.cutoff_s = cutoff_s;
  f->s.hbm_bytes = (double)pz_chip_hbm_bytes(chip) * (k ? k : &pz_constants_default)->usable_part;
  f->s.found = (struct pz_found_plans){.list = list};
}

/* ---- bounds of plans on many chips ---------------------------------------------------------- */

/* A plan of a grid, or a form of a shape's stages: what differs from the others'. */
struct frontier_plan {
  uint32_t first_form, n_forms;
  uint32_t first_stage; /* layers computed again by stage; PZ_NONE: of all alike */
  int32_t vpp, first_layers, last_layers, recompute_layers;
  uint8_t zero, order, recompute;
};

/* Plans, then terms of forms (double), then layers of stages (int64_t), in one piece without pointers: other processes
 * may have made it.  Of a form the terms that a model with so many kinds of layers has; transfers are left out. */
struct frontier {
  uint32_t n_plans, n_forms, n_stages, kinds;
};

static uint32_t n_terms(uint32_t kinds) { return 3 * kinds + 2; }

/* The place in a form of term i. */
static uint32_t term_at(uint32_t kinds, uint32_t i) {
  return i < 3 * kinds ? i / kinds * MOST_KINDS + i % kinds : FORM_ENDS + i - 3 * kinds;
}

static size_t frontier_bytes(const struct frontier *f) {
  return sizeof *f + f->n_plans * sizeof(struct frontier_plan) +
         (size_t)f->n_forms * n_terms(f->kinds) * sizeof(double) + f->n_stages * sizeof(int64_t);
}

static const struct frontier_plan *frontier_plans(const struct frontier *f) {
  return (const struct frontier_plan *)(f + 1);
}

static const double *frontier_form(const struct frontier *f, uint32_t i) {
  const double *terms = (const double *)(const void *)(frontier_plans(f) + f->n_plans);
  return terms + (size_t)i * n_terms(f->kinds);
}

static const int64_t *frontier_stages(const struct frontier *f, uint32_t first) {
  return (const int64_t *)(const void *)frontier_form(f, f->n_forms) + first;
}

static void begin_frontiers(struct pz_plan_finder *f) {
  pz_arena_init(&f->frontier_arena, NULL);
  pz_map_init(&f->frontier_at, &f->frontier_arena);
  pz_vec_init(&f->frontiers, &f->frontier_arena, sizeof(const struct frontier *));
}

static struct frontier_plan pack_plan(const struct listed_plan *p, uint32_t first_stage) {
  const struct pz_training_plan *x = &p->plan;
  return (struct frontier_plan){.first_form = p->first_form,
                                .n_forms = p->n_forms,
                                .first_stage = x->stage_recompute ? first_stage : PZ_NONE,
                                .vpp = (int32_t)x->vpp,
                                .first_layers = (int32_t)x->first_layers,
                                .last_layers = (int32_t)x->last_layers,
                                .recompute_layers = (int32_t)x->recompute_layers,
                                .zero = (uint8_t)x->zero,
                                .order = (uint8_t)x->order,
                                .recompute = (uint8_t)x->recompute};
}

static struct pz_training_plan unpack_plan(const struct search *s, const struct shape *x,
                                           const struct grid *g, const struct frontier *f,
                                           const struct frontier_plan *p) {
  struct pz_training_plan plan = plan_of(s, x);
  plan.pp = g->pp;
  plan.dp = g->dp;
  plan.vpp = p->vpp;
  plan.first_layers = p->first_layers;
  plan.last_layers = p->last_layers;
  plan.recompute_layers = p->recompute_layers;
  plan.zero = p->zero;
  plan.order = (enum pz_pipeline_order)p->order;
  plan.recompute = (enum pz_recomputation)p->recompute;
  plan.stage_recompute = p->first_stage == PZ_NONE ? NULL : frontier_stages(f, p->first_stage);
  return plan;
}

/* The list in one piece. */
static struct frontier *pack_frontier(const struct frontier_list *list, uint32_t kinds,
                                      struct pz_arena *arena) {
  struct frontier head = {list->plans.n, list->forms.n, 0, kinds};
  for (uint32_t i = 0; i < list->plans.n; i++) {
    const struct pz_training_plan *p = &pz_vec_at(&list->plans, struct listed_plan, i)->plan;
    if (p->stage_recompute) head.n_stages += (uint32_t)p->pp;
  }
  struct frontier *f = pz_arena_alloc(arena, 1, frontier_bytes(&head));
  if (!f) return NULL;
  *f = head;
  struct frontier_plan *plans = (struct frontier_plan *)(f + 1);
  double *terms = (double *)(void *)(plans + f->n_plans);
  int64_t *stages = (int64_t *)(void *)(terms + (size_t)f->n_forms * n_terms(kinds)),
          *stage = stages;
  for (uint32_t i = 0; i < f->n_plans; i++) {
    const struct listed_plan *p = pz_vec_at(&list->plans, struct listed_plan, i);
    plans[i] = pack_plan(p, (uint32_t)(stage - stages));
    for (int64_t k = 0; p->plan.stage_recompute && k < p->plan.pp; k++)
      *stage++ = p->plan.stage_recompute[k];
  }
  for (uint32_t i = 0; i < f->n_forms; i++)
    for (uint32_t k = 0; k < n_terms(kinds); k++)
      *terms++ = pz_vec_at(&list->forms, struct form, i)->n[term_at(kinds, k)];
  return f;
}

/* Frontiers of grids, with their number, and of shapes, with -1 - theirs. */
struct frontier_key {
  int64_t of, question, item, hbm_bytes;
};

static struct frontier_key frontier_key(const struct pz_plan_finder *f, int64_t item) {
  return (struct frontier_key){PZ_SHARED_FRONTIER, f->q.shared_as, item, (int64_t)f->s.hbm_bytes};
}

/* One that has been made: by this finder, or by another.  NULL: none has. */
static enum pz_status known_frontier(struct pz_plan_finder *f, const struct frontier_key *key,
                                     const struct frontier **out) {
  uint32_t at = pz_map_get(&f->frontier_at, key, sizeof *key);
  if (at != PZ_NONE) return *out = *pz_vec_at(&f->frontiers, const struct frontier *, at), PZ_OK;
  *out = pz_shared_table_get(f->q.shared, key, sizeof *key);
  if (!*out) return PZ_OK;
  at = f->frontiers.n;
  if (pz_vec_push(&f->frontiers, out) && pz_map_put(&f->frontier_at, key, sizeof *key, at) == PZ_OK)
    return PZ_OK;
  return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
}

/* Keep a list for this finder and others. */
static enum pz_status keep_frontier(struct pz_plan_finder *f, const struct frontier_key *key,
                                    const struct frontier_list *list, uint32_t kinds,
                                    const struct frontier **out) {
  struct frontier *one = pack_frontier(list, kinds, list->plans.arena);
  uint32_t at = f->frontiers.n;
  if (one) {
    size_t bytes = frontier_bytes(one);
    *out = pz_shared_table_put(f->q.shared, key, sizeof *key, one, bytes);
    void *own = *out ? NULL : pz_arena_alloc(&f->frontier_arena, 1, bytes);
    if (own) *out = memcpy(own, one, bytes);
    if (*out && pz_vec_push(&f->frontiers, out) &&
        pz_map_put(&f->frontier_at, key, sizeof *key, at) == PZ_OK)
      return PZ_OK;
  }
  return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
}

static void begin_list(struct frontier_list *list, struct pz_arena *arena) {
  pz_arena_init(arena, NULL);
  pz_vec_init(&list->plans, arena, sizeof(struct listed_plan));
  pz_vec_init(&list->forms, arena, sizeof(struct form));
}

/* Of a grid with the HBM at hand, made when it is first asked for. */
static enum pz_status frontier_of(struct pz_plan_finder *f, uint32_t grid,
                                  const struct frontier **out) {
  struct search *s = &f->s;
  struct frontier_key key = frontier_key(f, grid);
  enum pz_status status = known_frontier(f, &key, out);
  if (status != PZ_OK || *out) return status;
  struct pz_arena arena;
  struct frontier_list list;
  const struct grid *g = pz_vec_at(&s->grids, struct grid, grid);
  begin_list(&list, &arena);
  s->collect = &list;
  status = each_plan(s, g, false);
  s->collect = NULL;
  if (status == PZ_OK)
    status = keep_frontier(f, &key, &list,
                           pz_vec_at(&s->shapes, struct shape, g->shape)->m->kinds.n, out);
  pz_arena_release(&arena);
  return status;
}

/* ---- the bound of a shape ------------------------------------------------------------------- */

/* Plans of all grids of a shape, none of whose stages take less than another's whatever the chip, by layers, what is
 * computed again of them and the ends alone. */
static enum pz_status merge_frontier(struct pz_plan_finder *f, const struct frontier *from,
                                     struct frontier_list *to) {
  for (uint32_t i = 0; i < from->n_plans; i++) {
    const struct frontier_plan *plan = &frontier_plans(from)[i];
    struct listed_plan one = {.first_form = to->forms.n, .n_forms = plan->n_forms};
    struct form forms[MOST_FORMS] = {{{0}}};
    for (uint32_t k = 0; k < one.n_forms; k++)
      for (uint32_t t = 0; t < n_terms(from->kinds); t++)
        forms[k].n[term_at(from->kinds, t)] = frontier_form(from, plan->first_form + k)[t];
    bool dominated = false;
    for (uint32_t k = 0; k < to->plans.n && !dominated; k++) {
      const struct listed_plan *p = pz_vec_at(&to->plans, struct listed_plan, k);
      dominated = forms_below(pz_vec_at(&to->forms, struct form, p->first_form), p->n_forms, forms,
                              one.n_forms);
    }
    if (dominated) continue;
    for (uint32_t k = 0; k < one.n_forms; k++)
      if (!pz_vec_push(&to->forms, &forms[k]))
        return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
    if (!pz_vec_push(&to->plans, &one))
      return pz_fail(f->s.err, PZ_NO_MEMORY, "out of memory for the plans");
  }
  return PZ_OK;
}

static enum pz_status shape_frontier(struct pz_plan_finder *f, uint32_t shape,
                                     const struct frontier **out) {
  const struct shape *x = pz_vec_at(&f->s.shapes, struct shape, shape);
  struct frontier_key key = frontier_key(f, -1 - (int64_t)shape);
  enum pz_status status = known_frontier(f, &key, out);
  if (status != PZ_OK || *out) return status;
  struct pz_arena arena;
  struct frontier_list all;
  begin_list(&all, &arena);
  for (uint32_t i = x->first_grid; i < x->first_grid + x->n_grids && status == PZ_OK; i++) {
    const struct frontier *one = NULL;
    status = frontier_of(f, i, &one);
    if (status == PZ_OK) status = merge_frontier(f, one, &all);
  }
  if (status == PZ_OK) status = keep_frontier(f, &key, &all, x->m->kinds.n, out);
  pz_arena_release(&arena);
  return status;
}

/* The longest stage of a plan; t: seconds of the terms of a form. */
static double forms_s(const struct frontier *f, const struct frontier_plan *p, const double *t) {
  uint32_t n = n_terms(f->kinds);
  const double *form = frontier_form(f, p->first_form);
  double most = 0;
  for (uint32_t i = 0; i < p->n_forms; i++, form += n) {
    double s = 0;
    for (uint32_t k = 0; k < n; k++) s += form[k] * t[k];
    most = pz_fmax(most, s);
  }
  return most * (1 - 1e-9);
}

/* No plan of the shape that the HBM holds is faster. */
static enum pz_status shape_floor_s(struct pz_plan_finder *f, const struct rates *r, uint32_t shape,
                                    double *out) {
  const struct frontier *plans = NULL;
  double t[FORM_TERMS], least = HUGE_VAL;
  enum pz_status status = shape_frontier(f, shape, &plans);
  if (status != PZ_OK) return status;
  for (uint32_t k = 0; k < n_terms(plans->kinds); k++)
    t[k] = part_s(f, r, shape, (int)term_at(plans->kinds, k));
  for (uint32_t i = 0; i < plans->n_plans; i++)
    least = pz_fmin(least, forms_s(plans, &frontier_plans(plans)[i], t));
  return *out = least, PZ_OK;
}

/* Shapes that may have a step below the limit, most promising first; how many. */
static enum pz_status rank_shapes(struct pz_plan_finder *f, const struct pz_chip *chip,
                                  const struct pz_cluster *net, double limit_s, uint32_t *n) {
  struct rates r;
  enum pz_status status = find_rates(f, chip, net, &r);
  *n = 0;
  for (uint32_t k = 0; k < f->s.shapes.n && status == PZ_OK; k++) {
    uint32_t i = (f->first_shape + k) % f->s.shapes.n;
    double s = floor_s(f, &r, i);
    if (s >= limit_s) continue;
    if (limit_s < HUGE_VAL) status = shape_floor_s(f, &r, i, &s);
    if (s < limit_s) f->ranked[(*n)++] = (struct ranked){s, i};
  }
  qsort(f->ranked, *n, sizeof *f->ranked, by_rank);
  return status;
}

enum pz_status pz_plan_finder_floor_s(struct pz_plan_finder *f, const struct pz_chip *chip,
                                      const struct pz_cluster *net, double enough_s, double *out,
                                      struct pz_error *err) {
  struct rates r;
  double least = enough_s, s;
  set_question(f, chip, net, enough_s, err);
  enum pz_status status = find_rates(f, chip, net, &r);
  /* the one that was best before is likely to be so again */
  for (uint32_t k = 0; k <= f->s.shapes.n && status == PZ_OK; k++) {
    uint32_t i = k ? (f->first_shape + k - 1) % f->s.shapes.n : f->last_best;
    if (floor_s(f, &r, i) >= least) continue;
    status = shape_floor_s(f, &r, i, &s);
    if (s < least) least = s, f->last_best = i;
  }
  return *out = least, status;
}

/* What layers take on the chip that the shape is timed for; nothing for transfers. */
static enum pz_status form_times(const struct search *s, struct shape *x, struct form_times *out) {
  static const enum pz_recomputation how[] = {PZ_RECOMPUTATION_NONE, PZ_RECOMPUTATION_FULL,
                                              PZ_RECOMPUTATION_SELECTIVE};
  struct pz_training_plan p = plan_of(s, x);
  double t[FORM_TERMS] = {0};
  for (int h = 0; h < 3; h++) {
    p.recompute = how[h];
    enum pz_status status = pz_step_model_time(x->m, &p, 2, s->err);
    if (status != PZ_OK) return status;
    const struct pz_model_steps *m = &x->m->steps;
    for (uint32_t k = 0; k < x->m->kinds.n; k++)
      t[(uint32_t)h * MOST_KINDS + k] =
          h ? pz_fmax(0, step_of(&m->again[k]) - step_of(&m->block[k])) : step_of(&m->block[k]);
    t[FORM_ENDS] = step_of(&m->before);
    t[FORM_ENDS + 1] = step_of(&m->after);
  }
  for (uint32_t k = 0; k < n_terms(x->m->kinds.n); k++) out->s[k] = t[term_at(x->m->kinds.n, k)];
  return PZ_OK;
}

/* The least bound of the grid's plans, where it is below *least_s. */
static enum pz_status bound_grid(struct pz_plan_finder *f, struct shape *x, uint32_t grid,
                                 const struct form_times *t, double *least_s) {
  const struct frontier *plans;
  enum pz_status status = frontier_of(f, grid, &plans);
  for (uint32_t i = 0; status == PZ_OK && i < plans->n_plans; i++) {
    const struct frontier_plan *p = &frontier_plans(plans)[i];
    struct pz_training_plan plan =
        unpack_plan(&f->s, x, pz_vec_at(&f->s.grids, struct grid, grid), plans, p);
    double s;
    /* gradients of one microbatch need not be added up */
    double part = pz_plan_rounds(&plan) == 1 ? pz_fmin(1, x->once_s / x->several_s) : 1;
    if (forms_s(plans, p, t->s) * part >= *least_s) continue;
    status = pz_step_bound(x->m, &plan, &s, f->s.err);
    if (status != PZ_OK || s * (1 - 1e-9) >= *least_s) continue;
    *least_s = s * (1 - 1e-9);
    f->promising = plan;
    f->promising_shape = x;
  }
  return status;
}

/* The least bound of the shape's plans on a chip, where it is below *least_s. */
static enum pz_status bound_shape_on(struct pz_plan_finder *f, struct shape *x,
                                     const struct pz_chip *chip, double *least_s) {
  struct search *s = &f->s;
  struct form_times t;
  enum pz_status status = time_shape(f, x, chip, f->q.net, chip_key(chip, f->q.net));
  if (status != PZ_OK || shape_bound_s(&f->q, x) >= *least_s) return status;
  status = form_times(s, x, &t);
  for (uint32_t i = x->first_grid; i < x->first_grid + x->n_grids && status == PZ_OK; i++)
    if (grid_bound(s, x, pz_vec_at(&s->grids, struct grid, i)) * (1 - 1e-9) < *least_s)
      status = bound_grid(f, x, i, &t, least_s);
  return status;
}

/* The same on the question's chip: the relaxation of nested mappings, whose times are kept, often says enough. */
static enum pz_status bound_shape(struct pz_plan_finder *f, struct shape *x, double *least_s) {
  struct pz_chip relaxed = *f->q.chip;
  double least = *least_s;
  enum pz_status status = PZ_OK;
  if (relaxed.rules.nested_mapping) {
    relaxed.rules.nested_mapping = false;
    status = bound_shape_on(f, x, &relaxed, &least);
    if (status != PZ_OK || !(least < *least_s)) return status;
  }
  return bound_shape_on(f, x, f->q.chip, least_s);
}

enum pz_status pz_plan_finder_bound_s(struct pz_plan_finder *f, const struct pz_chip *chip,
                                      const struct pz_cluster *net, double enough_s,
                                      double *bound_s, struct pz_error *err) {
  double least = enough_s;
  if (f->frontier_arena.total_bytes > MOST_KEPT_BYTES) {
    pz_arena_release(&f->frontier_arena);
    begin_frontiers(f);
  }
  set_question(f, chip, net, enough_s, err);
  f->promising_shape = NULL;
  uint32_t n = 0;
  enum pz_status ranked = rank_shapes(f, chip, net, enough_s, &n);
  if (ranked != PZ_OK) return ranked;
  for (uint32_t i = 0; i < n && f->ranked[i].bound_s < least; i++) {
    struct shape *x = pz_vec_at(&f->s.shapes, struct shape, f->ranked[i].shape);
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
  return pz_step_bound(f->promising_shape->m, &f->promising, step_s, f->s.err);
}

/* Grids of a shape that promise something, in the order of their bounds. */
static enum pz_status find_in_shape(struct pz_plan_finder *f, struct shape *x) {
  struct search *s = &f->s;
  enum pz_status status = PZ_OK;
  f->open.n = 0;
  for (uint32_t i = x->first_grid; i < x->first_grid + x->n_grids; i++) {
    struct grid *g = pz_vec_at(&s->grids, struct grid, i);
    g->bound = g->bound_s = grid_bound(s, x, g);
    if (grid_promises(s, g) && !pz_vec_push(&f->open, g))
      return pz_fail(s->err, PZ_NO_MEMORY, "out of memory for the plans");
  }
  qsort(f->open.items, f->open.n, sizeof(struct grid), by_bound);
  for (uint32_t i = 0; i < f->open.n && status == PZ_OK; i++) {
    const struct grid *g = pz_vec_at(&f->open, struct grid, i);
    if (!grid_promises(s, g)) break;
    status = each_plan(s, g, false);
  }
  return status;
}

/* The plan with the lowest bound, priced: few are faster. */
static enum pz_status find_first(struct pz_plan_finder *f, const struct pz_chip *chip,
                                 const struct pz_cluster *net, double cutoff_s,
                                 struct pz_error *err) {
  double bound_s;
  enum pz_status status = pz_plan_finder_bound_s(f, chip, net, cutoff_s, &bound_s, err);
  if (status == PZ_OK && f->promising_shape)
    status = simulate(&f->s, f->promising_shape, &f->promising);
  return status;
}

enum pz_status pz_plan_finder_find(struct pz_plan_finder *f, const struct pz_chip *chip,
                                   const struct pz_cluster *net, double cutoff_s,
                                   struct pz_found_plans *out, struct pz_error *err) {
  struct search *s = &f->s;
  uint32_t n = 0;
  pz_arena_release(&f->plans);
  pz_arena_init(&f->plans, NULL);
  enum pz_status status = find_first(f, chip, net, cutoff_s, err);
  if (status == PZ_OK && f->promising_shape) {
    double limit_s = s->found.n ? s->found.list[0].p.step_s : cutoff_s;
    status = rank_shapes(f, chip, net, limit_s, &n);
  }
  for (uint32_t i = 0; i < n && status == PZ_OK; i++) {
    double limit_s = s->found.n ? s->found.list[0].p.step_s : cutoff_s, bound_s = limit_s;
    struct shape *x = pz_vec_at(&s->shapes, struct shape, f->ranked[i].shape);
    if (f->ranked[i].bound_s >= limit_s) break;
    status = bound_shape(f, x, &bound_s);
    if (status == PZ_OK && bound_s < limit_s) status = find_in_shape(f, x);
  }
  if (status == PZ_OK) *out = s->found;
  return status;
}

/* ---- energy --------------------------------------------------------------------------------- */

/* Of a part of a shape on one device, as the bill has it (chip/bill.c). */
static double part_j(const struct pz_plan_finder *f, const struct pz_chip *c, double voltage2,
                     const double *traffic, size_t at) {
  const struct pz_tech_info *t = pz_tech_at(c->tech);
  const struct work *w = &f->work[at];
  double mac_j = t->mac_j + pz_chip_local_bytes_per_mac(c) * t->local_j;
  return voltage2 * ((w->macs + w->attention_flop / 2) * mac_j +
                     (w->attention_ops + w->ops + w->tail_ops) * t->lane_j) +
         (w->bytes + traffic[at]) * (t->hbm_j + t->glb_j);
}

enum pz_status pz_plan_finder_least_j(struct pz_plan_finder *f, const struct pz_chip *chip,
                                      double voltage2, double *joules, struct pz_error *err) {
  const double *traffic = NULL;
  double least = HUGE_VAL;
  f->s.err = err ? err : &f->unused;
  enum pz_status status = product_traffic(f, chip, &traffic);
  if (status != PZ_OK) return status;
  for (uint32_t i = 0; i < f->s.shapes.n; i++)
    least = pz_fmin(least,
                    f->share[i] * part_j(f, chip, voltage2, traffic, (size_t)i * NUMBERS + WHOLE));
  /* sums in another order */
  return *joules = least * (double)f->q.devices * (1 - 1e-9), PZ_OK;
}

/* The shape of a plan; shapes.n: none. */
static uint32_t shape_of(const struct pz_plan_finder *f, const struct pz_training_plan *p) {
  uint32_t i = 0;
  for (; i < f->s.shapes.n; i++) {
    const struct shape *x = pz_vec_at(&f->s.shapes, struct shape, i);
    if (x->tp == p->tp && x->cp == pz_plan_cp(p) && x->mbs == p->mbs && x->ep == pz_plan_ep(p) &&
        (x->tp == 1 || x->sp == p->sequence_parallel))
      break;
  }
  return i;
}

enum pz_status pz_plan_finder_plan_j(struct pz_plan_finder *f, const struct pz_chip *chip,
                                     double voltage2, const struct pz_training_plan *plan,
                                     double *joules, struct pz_error *err) {
  const double *traffic = NULL;
  struct form all = {{0}};
  double sum = 0;
  uint32_t shape = shape_of(f, plan);
  if (shape == f->s.shapes.n) return pz_fail(err, PZ_BAD_USE, "a plan of another finder");
  f->s.err = err ? err : &f->unused;
  enum pz_status status = product_traffic(f, chip, &traffic);
  if (status != PZ_OK) return status;
  const struct shape *x = pz_vec_at(&f->s.shapes, struct shape, shape);
  for (int64_t c = 0; c < plan->pp * plan->vpp; c++) add_chunk(x, plan, c, 1, &all);
  for (int p = 0; p < FORM_SEND; p++)
    sum += all.n[p] * part_j(f, chip, voltage2, traffic, (size_t)shape * NUMBERS + (size_t)p);
  double group = (double)(x->tp * x->cp), microbatches = (double)(f->q.batch / x->mbs);
  return *joules = sum * group * microbatches, PZ_OK;
}

/* Grids of each shape one after another. */
static void index_grids(struct search *s) {
  for (uint32_t i = 0; i < s->grids.n; i++) {
    struct shape *x =
        pz_vec_at(&s->shapes, struct shape, pz_vec_at(&s->grids, struct grid, i)->shape);
    if (!x->n_grids++) x->first_grid = i;
  }
}

static enum pz_status begin_finder(struct pz_plan_finder *f, struct pz_error *err) {
  struct search *s = &f->s;
  s->err = err;
  enum pz_status status = pz_product_times_new(f->q.shared, &f->times, err);
  if (status == PZ_OK) status = begin(s);
  if (status == PZ_OK) status = make_shapes(s);
  if (status == PZ_OK) status = add_grids(s);
  if (status == PZ_OK && !s->grids.n) status = no_plan(s);
  if (status != PZ_OK) return status;
  f->work = pz_arena_alloc(&f->arena, s->shapes.n, NUMBERS * sizeof *f->work);
  f->share = pz_arena_alloc(&f->arena, s->shapes.n, sizeof *f->share);
  if (!f->work || !f->share) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  for (uint32_t i = 0; i < s->shapes.n && status == PZ_OK; i++) {
    struct shape *x = pz_vec_at(&s->shapes, struct shape, i);
    status = open_shape(s, x, err);
    if (status != PZ_OK) return status;
    if (x->m->kinds.n > MOST_KINDS)
      return pz_fail(err, PZ_LIMIT, "%u kinds of layers; accepted: at most %d", x->m->kinds.n,
                     MOST_KINDS);
    f->share[i] = share(&f->q, x);
    status = find_work(s, x, f->work + (size_t)i * NUMBERS);
  }
  if (status == PZ_OK) status = find_products(f);
  if (status != PZ_OK) return status;
  f->first_shape = (uint32_t)(pz_shared_table_turn(f->q.shared) * s->shapes.n);
  index_grids(s);
  f->ranked = pz_arena_alloc(&f->arena, s->shapes.n, sizeof *f->ranked);
  if (!f->ranked) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  s->kept = &f->kept;
  s->arena = &f->plans;
  return PZ_OK;
}

enum pz_status pz_plan_finder_new(const struct pz_plan_question *q, struct pz_plan_finder **out,
                                  struct pz_error *err) {
  enum pz_status status = check(q, err);
  if (status != PZ_OK) return status;
  struct pz_plan_finder *f = pz_calloc(1, sizeof *f);
  if (!f) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the plans");
  pz_arena_init(&f->arena, NULL);
  pz_arena_init(&f->plans, NULL);
  begin_kept(&f->kept);
  begin_frontiers(f);
  f->q = *q;
  f->s = (struct search){.q = &f->q, .arena = &f->arena, .top = 1};
  pz_vec_init(&f->s.shapes, &f->arena, sizeof(struct shape));
  pz_vec_init(&f->s.grids, &f->arena, sizeof(struct grid));
  pz_vec_init(&f->s.divisions, &f->arena, sizeof(struct division));
  pz_vec_init(&f->s.divisors, &f->arena, sizeof(int64_t));
  pz_vec_init(&f->open, &f->arena, sizeof(struct grid));
  pz_map_init(&f->array_at, &f->arena);
  pz_map_init(&f->product_at, &f->arena);
  pz_vec_init(&f->products, &f->arena, sizeof(struct pz_product));
  pz_vec_init(&f->uses, &f->arena, sizeof(struct product_use));
  pz_vec_init(&f->arrays, &f->arena, sizeof(const double *));
  pz_vec_init(&f->nets, &f->arena, sizeof(struct net_entry));
  pz_map_init(&f->traffic_at, &f->arena);
  pz_vec_init(&f->traffic, &f->arena, sizeof(double *));
  /* shapes are timed again for every chip: at first the relaxation will do */
  struct pz_chip first = *q->chip;
  first.rules.nested_mapping = false;
  f->q.chip = &first;
  status = begin_finder(f, err);
  f->q.chip = q->chip;
  if (status == PZ_OK)
    *out = f;
  else
    pz_plan_finder_free(f);
  return status;
}

void pz_plan_finder_free(struct pz_plan_finder *f) {
  if (!f) return;
  for (uint32_t i = 0; i < f->s.shapes.n; i++)
    close_shape(pz_vec_at(&f->s.shapes, struct shape, i));
  pz_product_times_free(f->times);
  pz_arena_release(&f->kept.arena);
  pz_arena_release(&f->frontier_arena);
  pz_arena_release(&f->plans);
  pz_arena_release(&f->arena);
  pz_free(f);
}
