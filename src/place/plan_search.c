#include "place/plan_search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/num.h"
#include "core/pool.h"
#include "core/vec.h"
#include "cost/constants.h"
#include "place/problem.h"

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
  for (int64_t m = fewest; n > 1 && m <= fewest + (n > 2) && good; m++) {
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
  if (s->found.n || (s->found.has_least && bytes >= s->found.least.p.peak_bytes)) return;
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
  if (!memory && s->found.n) return HUGE_VAL;
  p->recompute = PZ_RECOMPUTATION_FULL;
  p->stage_recompute = s->again;
  double least = least_peak(s, x, p);
  if (least > most_bytes(s)) return HUGE_VAL;
  return recompute_within(s, x, p, least) ? least : HUGE_VAL;
}

/* ---- one plan ------------------------------------------------------------------------------- */

/* Could a plan with this bound of its time, or bytes, be among the best?  */
static bool promises(const struct search *s, const struct pz_training_plan *p, double bound_s,
                     double bytes) {
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
  if (s->found.n < s->top) return PZ_OK;
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
  double bytes = full ? recompute_fewest(s, x, p) : peak_bytes(s, x, p);
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

/* ---- grids ---------------------------------------------------------------------------------- */

/* Plans of a grid with these chunks, or only their number. */
static enum pz_status each_division(struct search *s, const struct shape *x,
                                    struct pz_training_plan *p, bool count) {
  enum pz_status status = list_divisions(s, p, s->n_blocks);
  for (p->zero = 0; p->zero <= 3; p->zero++) {
    if (!can_shard(s, p, p->zero)) continue;
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
      status = try_plan(s, x, p);
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
  for (p.vpp = 1; p.vpp <= most_vpp && status == PZ_OK; p.vpp++) {
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
