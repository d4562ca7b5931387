/* No predicted step is below physics: random plans of random models on random machines against lower bounds that are
 * computed here, from the plan, the operators of the graph and the data sheets alone, without any efficiency.
 *
 *     PHAZE_FLOORS=2000 test_floors     so many cases; PHAZE_FLOORS_CSV=FILE writes the counts, PHAZE_FLOORS_DIR=DIR
 *                                       the networks of the cases that fail, for the printed commands
 *
 * Of a case: b bytes of a tensor, a group of n devices, every s-th one (tp innermost, then cp, dp, pp; experts: etp, ep,
 * their replicas), u of them at most in one unit of the levels below level l (a device, a node ...).
 *
 *   network   What must enter a unit, by each of its interfaces; all members of a unit have such a group and each
 *             interface one direction, so that the mean over a unit's devices bounds the busiest.
 *               all-gather, reduce-scatter   b (1/u - 1/n), what the unit has not, once; an all-reduce is both
 *               all-to-all                   b (n - u) / n
 *               experts' all-to-all          k copies of a token go to the units that their experts are in, once to each:
 *                                            of U = n/u units U (1 - (1 - 1/U)^k) at random, fewer where the model says so
 *               stages                       what a stage receives of activations and of their gradients
 *             They cross a boundary with all interfaces of the levels outside it; between devices of one node, with those
 *             of level 0: there b (m - 1) / n, of the m members of a node.  Left out: what could be saved or found
 *             another way (gathers and rings that backward repeats, recomputation but of whole layers by a framework that
 *             replays forward), networks that add up or copy.
 *             Gradients and weights: ZeRO 0 an all-reduce, 1 a scatter and a gather once a step; without stages ZeRO 2
 *             scatters and ZeRO 3 also gathers, twice, with every microbatch, but of a layer at each turn once.
 *   flop      GEMMs of the busiest stage over the peak of their precision, causal attention half (backward four GEMMs);
 *             and 6 FLOP a parameter and token of the whole model over all devices
 *   hbm       weights of the busiest stage, read forward and backward with every microbatch but for what the cache holds,
 *             and 24 B a parameter that the optimizer reads and writes (its state, in fp32)
 *   faster    a level twice as fast does not make the step longer
 *   context   without stages, up to 8,192 tokens, cp 2 in place of twice the replicas is not more than 0.3% faster
 *   alone     no plan has more throughput a device than a single device with memory without limit (in 1%), whose
 *             microbatches are as large as it likes */
#include "unit/testing.h"

#include <math.h>
#include <stdio.h>

#include "chip/chip.h"
#include "core/alloc.h"
#include "core/num.h"
#include "plan/framework_rules.h"
#include "plan/plan_fields.h"
#include "plan/plan_fill.h"
#include "step/predict.h"
#include "step/training_memory.h"
#include "step_borders.h"
#include "unit/chip_borders.h"
#include "unit/plan_borders.h"
#include "workload/op.h"

enum kind { NETWORK, FLOP, HBM, FASTER, CONTEXT, ALONE, KINDS };
static const char *const kind_names[KINDS] = {"network", "flop",    "hbm",
                                              "faster",  "context", "alone"};

static const char *const models[] = {
    "llama3-8b",       "llama3-70b",  "gpt3-175b",   "qwen3-30b-a3b", "mixtral-8x7b",
    "qwen3-235b-a22b", "deepseek-v3", "gpt-oss-20b", "gemma3-27b",    "qwen2.5-7b"};
static const struct machine {
  const char *chip, *cluster;
} machines[] = {{"h100", "dgx-h100"},       {"a100-80", "dgx-a100"},  {"gb200", "nvl72-gb200"},
                {"b200", "dgx-b200"},       {"h800", "h800-8x50"},    {"h200", "dgx-h200"},
                {"tpuv5p", "tpuv5p-pod"},   {"tpuv5e", "tpuv5e-pod"}, {"tpuv6e", "tpuv6e-pod"},
                {"a100-80", "a100-8x6.25"}, {"gb300", "nvl72-gb300"}};

#define LENGTH(list) (sizeof(list) / sizeof *(list))

struct sample {
  int number;
  const char *model;
  const struct machine *machine;
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_plan plan;
  double step_s;
};

struct counts {
  int cases, tried[KINDS], failed[KINDS];
  double worst[KINDS]; /* floor over step */
};

/* ---- random plans --------------------------------------------------------------------------- */

static int64_t below(uint64_t *r, int64_t n) { return pz_random_below(r, (uint32_t)n); }

static int64_t power(uint64_t *r, int64_t most) {
  int64_t n = 1, logs = 0;
  while (n * 2 <= most) n *= 2, logs++;
  return (int64_t)1 << below(r, logs + 1);
}

/* A degree of what is left of the devices, most often a small one. */
static int64_t degree(uint64_t *r, int64_t *left, int64_t most) {
  int64_t n = below(r, 2) ? power(r, pz_min(*left, most)) : 1;
  if (*left % n) n = 1;
  *left /= n;
  return n;
}

static void draw_network(uint64_t *r, struct sample *c) {
  int64_t which = below(r, 3), level = below(r, c->net.n_levels);
  double by = exp(log(100) * (double)below(r, 10001) / 10000);
  for (int l = 0; which && l < c->net.n_levels; l++)
    if (which == 2 || l == level) c->net.level[l].bytes_per_s /= by;
  for (int l = 1; l < c->net.n_levels; l++) /* none is faster than the one inside it */
    c->net.level[l].bytes_per_s =
        pz_fmin(c->net.level[l].bytes_per_s, c->net.level[l - 1].bytes_per_s);
}

static void draw_pipeline(uint64_t *r, struct pz_plan *p) {
  if (p->pp == 1) return;
  int64_t which = below(r, 3);
  if (which == 1) p->vpp = 2 + below(r, 3);
  if (which == 2) p->pipeline = (int)below(r, PZ_PIPELINES);
  if (p->pipeline == PZ_PIPELINE_INTERLEAVED) p->vpp = 2;
}

static struct pz_plan draw_plan(uint64_t *r) {
  struct pz_plan p = pz_plan_default();
  int64_t left = power(r, 4096), devices = left;
  if (below(r, 8) == 0) left = devices = devices * 3 / 2 > 1 ? devices * 3 / 2 : 1;
  p.devices = devices;
  p.tp = degree(r, &left, 64);
  p.pp = degree(r, &left, 32);
  p.cp = degree(r, &left, 32);
  p.dp = left;
  p.ep = below(r, 2) ? power(r, pz_min(128, p.tp * p.cp * p.dp)) : 1;
  if (p.ep > 1 && below(r, 4) == 0) p.etp = power(r, p.tp);
  p.vpp = 1;
  draw_pipeline(r, &p);
  p.mbs = power(r, 4);
  p.seq = power(r, 128) * 1024;
  const int64_t rounds[] = {1, 1, 2, p.pp, 2 * p.pp, 4 * p.pp};
  p.batch = p.mbs * p.dp * rounds[below(r, LENGTH(rounds))];
  p.zero = (int)below(r, 4);
  if (p.zero && below(r, 3) == 0) p.shard = power(r, p.dp * p.cp);
  p.recompute = (int)below(r, PZ_RECOMPUTATIONS);
  p.sp = (int)below(r, 4) > 0;
  p.cp_form = below(r, 3) == 0;
  const int overlap[] = {-1, (int)below(r, PZ_OVERLAP_ALL + 1), PZ_OVERLAP_ALL, PZ_OVERLAP_ALL};
  p.overlap = overlap[below(r, LENGTH(overlap))];
  p.precision = below(r, 4) == 0;
  p.execution = below(r, 3) ? -1 : (int)below(r, PZ_EXECUTIONS);
  int frameworks = 0;
  while (pz_framework_names[frameworks]) frameworks++;
  p.framework = below(r, 3) ? -1 : (int)below(r, frameworks);
  uint64_t more = *r; /* numbers of their own, so that the other fields are as without these */
  p.dispatcher = (int)below(&more, PZ_DISPATCHERS + 1) - 1;
  if (below(&more, 4) == 0) p.cuda_graphs = (int)below(&more, PZ_GRAPH_ALL + 1);
  return p;
}

static bool can_run(const struct sample *c) {
  struct pz_model_shape shape;
  bool known = try_load_model_shape(c->model, &shape, NULL) == PZ_OK;
  return pz_framework_can_run(&c->plan, known ? &shape : NULL, NULL);
}

static bool price(const struct sample *c, const struct pz_plan *plan, const struct pz_cluster *net,
                  double *step_s) {
  struct pz_job job = {.model = c->model, .chip = &c->chip, .net = net};
  struct pz_plan p = *plan;
  struct pz_prediction found;
  if (try_fill_plan(&p, &c->chip, NULL) != PZ_OK) return false;
  if (try_predict(&job, &p, &found, NULL) != PZ_OK) return false;
  *step_s = found.step_s;
  return true;
}

/* The next case that is a plan; every second one a plan that its framework runs. */
static void draw(uint64_t *r, int number, struct sample *c) {
  struct pz_error err = {0};
  for (;;) {
    c->number = number;
    c->model = models[below(r, LENGTH(models))];
    c->machine = &machines[below(r, LENGTH(machines))];
    assert_int_equal(pz_test_chip_read(c->machine->chip, &c->chip, &err), PZ_OK);
    assert_int_equal(pz_cluster_load(c->machine->cluster, &c->net, &err), PZ_OK);
    c->plan = draw_plan(r);
    if (try_fill_plan(&c->plan, &c->chip, NULL) != PZ_OK) continue;
    if (pz_cluster_reach(&c->net, c->plan.devices, "devices", NULL) != PZ_OK) continue;
    if (number % 2 && !can_run(c)) continue;
    draw_network(r, c);
    if (price(c, &c->plan, &c->net, &c->step_s)) return;
  }
}

/* ---- what a device does --------------------------------------------------------------------- */

/* Bytes of a device: that enter units below each level by its interfaces, that come from others of its node. */
struct traffic {
  double cut[PZ_CLUSTER_MOST_LEVELS], node;
};

/* Of one layer or of a stage, for a microbatch. */
struct work {
  struct traffic traffic;
  double tensor_s;           /* of GEMMs at the peak */
  double weight_bytes[2];    /* by direction */
  double dense, expert;      /* parameters */
  double dense_ends, layers; /* of these before and behind the repeated layers; number of these */
};

static double members(const struct pz_cluster *net, int l, double n, int64_t stride) {
  if (l == 0) return 1;
  return pz_fmin(n, (double)((net->level[l - 1].devices - 1) / stride + 1));
}

/* Surely in one node, of some group. */
static double node_members(const struct pz_cluster *net, double n, int64_t stride) {
  return pz_fmax(1, pz_fmin(n, (double)(net->level[0].devices / stride)));
}

static void add_shared(struct traffic *t, const struct pz_cluster *net, double n, int64_t stride,
                       double bytes) {
  if (n <= 1) return;
  for (int l = 0; l < net->n_levels; l++)
    t->cut[l] += bytes * (1 / members(net, l, n, stride) - 1 / n);
  t->node += bytes * (node_members(net, n, stride) - 1) / n;
}

static void add_own(struct traffic *t, const struct pz_cluster *net, double n, int64_t stride,
                    double bytes) {
  if (n <= 1) return;
  for (int l = 0; l < net->n_levels; l++) t->cut[l] += bytes * (1 - members(net, l, n, stride) / n);
  t->node += bytes * (node_members(net, n, stride) - 1) / n;
}

/* Of n units so many get one of k copies or more. */
static double reached(double n, double k) { return n * (1 - pow(1 - 1 / n, k)); }

static void add_experts(struct traffic *t, const struct sample *c, const struct pz_workload *w,
                        double bytes) {
  double n = (double)pz_plan_ep(&c->plan), k = (double)w->experts_per_token;
  int64_t stride = pz_plan_etp(&c->plan);
  double node = node_members(&c->net, n, stride);
  if (n <= 1) return;
  if (c->plan.precision == PZ_PRECISION_FP8) bytes /= 2;
  for (int l = 0; l < c->net.n_levels; l++) {
    double units = n / members(&c->net, l, n, stride), most = units;
    if (w->expert_groups) most = pz_fmin(units, (double)w->expert_groups * (l ? 1 : node));
    if (units > 1) t->cut[l] += reached(most, k) / k * (1 - 1 / units) * bytes;
  }
  if (!w->expert_groups) t->node += (node - 1) / n * reached(n, k) / k * bytes;
}

static void add_collective(const struct sample *c, const struct pz_workload *w,
                           const struct pz_op *op, struct traffic *t) {
  double most = (double)pz_max(op->bytes_read, op->bytes_written),
         least = (double)pz_min(op->bytes_read, op->bytes_written), n = (double)op->dims.batch;
  if (strstr(op->name, "gather_again")) return;
  if (op->peers == PZ_PEERS_EXPERT)
    add_experts(t, c, w, (double)op->bytes_written);
  else if (op->peers != PZ_PEERS_CONTEXT)
    add_shared(t, &c->net, n, 1, op->kind == PZ_OP_ALL_REDUCE ? 2 * most : most);
  else if (op->kind == PZ_OP_ALL_TO_ALL)
    add_own(t, &c->net, n, c->plan.tp, most);
  else if (most >= n * least)
    add_shared(t, &c->net, n, c->plan.tp, most);
  else
    t->cut[0] += most - least; /* neighbours alone */
}

static void add_gemm(const struct sample *c, const struct pz_workload *w, bool block,
                     const struct pz_op *op, struct work *x) {
  bool fp8 = block && c->plan.precision == PZ_PRECISION_FP8;
  bool core = op->kind == PZ_OP_ATTENTION || (op->dims.batch > 1 && !op->grouped);
  double flop = (double)op->matmul_flop, peak = pz_chip_tensor_flop_per_s(&c->chip);
  if (op->replicated) return; /* could be divided */
  if (core && w->causal) flop /= 2;
  if (op->kind == PZ_OP_ATTENTION && op->direction == PZ_BACKWARD) flop *= 0.8;
  x->tensor_s += flop / (fp8 && !core ? 2 * peak : peak);
  x->weight_bytes[op->direction] += (double)op->weight_bytes / (fp8 ? 2 : 1);
}

static void add_traffic(struct traffic *to, const struct traffic *from, double times) {
  for (int l = 0; l < PZ_CLUSTER_MOST_LEVELS; l++) to->cut[l] += times * from->cut[l];
  to->node += times * from->node;
}

/* Every layer from its input alone, forward as it was: all its collectives but the last. */
static bool replays(const struct pz_plan *p) {
  return p->recompute == PZ_RECOMPUTATION_FULL && !p->recompute_layers &&
         !pz_framework_compiles(pz_plan_framework(p));
}

static struct work layer_work(const struct sample *c, const struct pz_workload *w,
                              const struct pz_layer *l) {
  struct work x = {.dense = (double)(l->params - l->expert_params),
                   .expert = (double)l->expert_params};
  bool block = pz_is_block(l);
  *(block ? &x.layers : &x.dense_ends) = block ? 1 : x.dense;
  for (int d = PZ_FORWARD; d <= PZ_BACKWARD; d++) {
    struct traffic before_last = x.traffic;
    for (uint32_t i = 0; i < l->ops[d].n; i++) {
      const struct pz_op *op = &l->ops[d].op[i];
      if (op->op_class == PZ_CLASS_COLLECTIVE && op->dims.batch > 1) {
        before_last = x.traffic;
        add_collective(c, w, op, &x.traffic);
      } else if (op->matmul_flop) {
        add_gemm(c, w, block, op, &x);
      }
    }
    if (d == PZ_FORWARD && block && replays(&c->plan)) add_traffic(&x.traffic, &before_last, 1);
  }
  return x;
}

/* `part` of the microbatches. */
static void add_work(struct work *to, const struct work *from, double times, double part) {
  add_traffic(&to->traffic, &from->traffic, times * part);
  to->tensor_s += times * part * from->tensor_s;
  for (int d = 0; d < 2; d++) to->weight_bytes[d] += times * part * from->weight_bytes[d];
  to->dense += times * from->dense;
  to->expert += times * from->expert;
  to->dense_ends += times * from->dense_ends;
  to->layers += times * from->layers;
}

/* ---- what a stage does ---------------------------------------------------------------------- */

/* A model in the slice of a plan. */
struct slice {
  const struct sample *c;
  struct pz_workload *w;
  struct pz_layer_kinds kinds;
  struct pz_arena arena; /* of kinds */
  struct pz_pipeline_shape shape;
};

/* Activations from the stage before, gradients from the one behind. */
static void add_transfers(const struct slice *s, uint32_t chunk, double part, struct traffic *t) {
  const struct pz_plan *p = &s->c->plan;
  const struct pz_cluster *net = &s->c->net;
  uint32_t last = s->shape.stages * s->shape.chunks - 1,
           here = pz_pipeline_stage_of(&s->shape, chunk);
  if (s->shape.order == PZ_PIPELINE_DUALPIPE) last = s->shape.stages - 1;
  double from = 0;
  from += chunk > 0 && pz_pipeline_stage_of(&s->shape, chunk - 1) != here;
  from += chunk < last && pz_pipeline_stage_of(&s->shape, chunk + 1) != here;
  double bytes = part * from * (double)s->w->layers[s->kinds.layer[0]].output_bytes /
                 (double)(p->sp ? 1 : p->tp);
  int64_t stride = p->tp * pz_plan_replicas(p);
  t->cut[0] += bytes;
  for (int l = 1; l < net->n_levels; l++)
    if (stride >= net->level[l - 1].devices) t->cut[l] += bytes;
  if (stride * p->pp <= net->level[0].devices) t->node += bytes;
}

static struct work stage_work(const struct slice *s, uint32_t stage) {
  const struct pz_plan *p = &s->c->plan;
  struct work sum = {.tensor_s = 0};
  double part = 1.0 / pz_pipeline_copies(s->shape.order);
  for (uint32_t slot = 0; slot < pz_pipeline_slots(&s->shape); slot++) {
    uint32_t chunk = pz_pipeline_chunk_at(&s->shape, stage, slot);
    int64_t blocks = pz_plan_chunk_layers(p, s->kinds.n_blocks, chunk),
            start = pz_plan_layers_before(p, s->kinds.n_blocks, chunk);
    uint32_t kind = 0;
    for (uint32_t i = 0; i < s->w->n_layers; i++) {
      const struct pz_layer *l = &s->w->layers[i];
      bool repeated = kind < s->kinds.n && s->kinds.layer[kind] == i, before = kind == 0;
      double n = 0;
      if (repeated)
        n = (double)pz_kind_count(&s->kinds, kind++, start, blocks);
      else if (before ? chunk == 0 : (int64_t)chunk == p->pp * p->vpp - 1)
        n = (double)l->count;
      struct work one = layer_work(s->c, s->w, l);
      add_work(&sum, &one, n, part);
    }
    add_transfers(s, chunk, part, &sum.traffic);
  }
  return sum;
}

/* Gradients and weights of a step. */
static void add_exchange(const struct sample *c, double params, double ends, double layers,
                         int64_t replicas, int64_t shards, int64_t stride, struct traffic *t) {
  const struct pz_plan *p = &c->plan;
  double rounds = p->pp == 1 ? (double)(p->batch / (p->mbs * p->dp)) : 1,
         weight = p->precision == PZ_PRECISION_FP8 ? 1 : 2;
  double bytes = 0;
  if (p->zero == 0) bytes = params * 2 * p->grad_bytes;
  if (p->zero == 1 || (p->zero > 1 && p->pp > 1)) bytes = params * (p->grad_bytes + weight);
  if (p->zero == 2 && p->pp == 1) bytes = params * (rounds * p->grad_bytes + weight);
  if (p->zero == 3 && p->pp == 1) {
    double twice = 2 * (params - ends) * (1 - 1 / pz_fmax(1, layers));
    bytes = rounds * (params * p->grad_bytes + (ends + twice) * weight);
  }
  add_shared(t, &c->net, (double)shards, stride, bytes);
  add_shared(t, &c->net, (double)(replicas / shards), stride * shards,
             2 * p->grad_bytes * params / (double)shards);
}

static void add_exchanges(const struct sample *c, const struct work *x, struct traffic *t) {
  const struct pz_plan *p = &c->plan;
  add_exchange(c, x->dense, x->dense_ends, x->layers, pz_plan_replicas(p), pz_plan_shards(p), p->tp,
               t);
  add_exchange(c, x->expert, 0, x->layers, pz_plan_expert_replicas(p), pz_plan_expert_shards(p),
               pz_plan_ep(p) * pz_plan_etp(p), t);
}

static double traffic_s(const struct sample *c, const struct traffic *t) {
  double s = t->node / c->net.level[0].bytes_per_s, rate = 0;
  for (int l = c->net.n_levels - 1; l >= 0; l--) {
    rate += c->net.level[l].bytes_per_s;
    s = pz_fmax(s, t->cut[l] / rate);
  }
  return s;
}

static double hbm_s(const struct sample *c, const struct work *x, double microbatches) {
  const struct pz_plan *p = &c->plan;
  bool zero = p->zero > 0;
  double bytes = 0;
  for (int d = 0; d < 2; d++)
    bytes += microbatches * pz_fmax(0, x->weight_bytes[d] - (double)c->chip.glb_bytes);
  double own = x->dense / (zero ? (double)pz_plan_shards(p) : 1) +
               x->expert / (zero ? (double)pz_plan_expert_shards(p) : 1);
  bytes += own * pz_fmin(24, pz_plan_framework(p)->optimizer_bytes);
  return bytes / pz_chip_hbm_bytes_per_s(&c->chip);
}

/* 6 FLOP a parameter and token, without look-ups. */
static double model_s(const struct sample *c, const struct pz_workload *w) {
  double params = (double)w->totals.active_params - (double)(w->positions * w->hidden);
  if (!w->layers[w->n_layers - 1].tied_params) params -= (double)(w->vocab * w->hidden);
  double flop = 6 * params * (double)(c->plan.batch * w->options.seq);
  double peak = pz_chip_tensor_flop_per_s(&c->chip);
  return flop / (peak * (c->plan.precision == PZ_PRECISION_FP8 ? 2 : 1)) / (double)c->plan.devices;
}

static bool slice_of(const struct sample *c, struct slice *s) {
  const struct pz_plan *p = &c->plan;
  struct pz_workload_options o = pz_workload_options_default();
  o.seq = p->seq;
  o.mbs = p->mbs;
  o.tp = p->tp;
  o.cp = p->cp;
  o.cp_form = (enum pz_context_form)p->cp_form;
  o.ep = p->ep;
  o.etp = p->ep > 1 ? pz_plan_etp(p) : p->etp;
  o.sequence_parallel = p->sp && p->tp > 1;
  o.attention = (enum pz_attention)p->attention;
  o.kernels = PZ_KERNELS_POINTWISE;
  *s = (struct slice){.c = c, .shape = pz_plan_pipeline_shape(p)};
  if (pz_workload_load(c->model, &o, &s->w, NULL) != PZ_OK) return false;
  return try_layer_kinds(s->w, &s->arena, &s->kinds, NULL) == PZ_OK;
}

static void find_floors(const struct sample *c, double floor_s[KINDS]) {
  struct slice s;
  assert_true(slice_of(c, &s));
  double n = (double)(c->plan.batch / (c->plan.mbs * c->plan.dp));
  floor_s[FLOP] = model_s(c, s.w);
  for (int64_t k = 0; k < c->plan.pp; k++) {
    struct work x = stage_work(&s, (uint32_t)k);
    struct traffic t = {.node = 0};
    add_traffic(&t, &x.traffic, n);
    add_exchanges(c, &x, &t);
    floor_s[NETWORK] = pz_fmax(floor_s[NETWORK], traffic_s(c, &t));
    floor_s[FLOP] = pz_fmax(floor_s[FLOP], n * x.tensor_s);
    floor_s[HBM] = pz_fmax(floor_s[HBM], hbm_s(c, &x, n));
  }
  pz_arena_release(&s.arena);
  pz_workload_free(s.w);
}

/* ---- the checks ----------------------------------------------------------------------------- */

/* The network with its rates, or as a file. */
static void print_network(const struct sample *c) {
  const char *dir = getenv("PHAZE_FLOORS_DIR");
  char path[512], *text = NULL;
  FILE *f = NULL;
  if (dir) snprintf(path, sizeof path, "%s/%d.json", dir, c->number), f = fopen(path, "w");
  if (f && pz_cluster_text(&c->net, &text, NULL) == PZ_OK) {
    printf(" --cluster %s", path);
    fputs(text, f);
  } else {
    printf(" --cluster %s", c->machine->cluster);
    for (int l = 0; l < c->net.n_levels; l++)
      printf("%s%s %.4g GB/s%s", l ? ", " : " [", c->net.level[l].name,
             c->net.level[l].bytes_per_s / 1e9, l + 1 == c->net.n_levels ? "]" : "");
  }
  if (f) fclose(f);
  pz_free(text);
}

static void print_plan(const struct pz_plan *p) {
  char text[PZ_FIELD_TEXT_MOST];
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const struct pz_plan_field_info *i = pz_plan_field((enum pz_plan_field)f);
    if (f == PZ_PLAN_SP) {
      printf(" --%ssp", p->sp ? "" : "no-");
    } else if (!pz_plan_is_unset(p, (enum pz_plan_field)f) && i->kind != PZ_PLAN_KIND_FLAG &&
               f != PZ_PLAN_IMBALANCE && f != PZ_PLAN_ATTENTION_LIBRARY) {
      printf(" --");
      for (const char *at = i->name; *at; at++) putchar(*at == '_' ? '-' : *at);
      printf(" %s", f == PZ_PLAN_OVERLAP /* all of it, what the plan has no use for too */
                        ? pz_set_text(i->names, p->overlap, text, sizeof text)
                        : pz_plan_field_text(p, (enum pz_plan_field)f, text, sizeof text));
    }
  }
}

/* `least_s` is what the step of the plan may not be below. */
static void check(const struct sample *c, const struct pz_plan *plan, enum kind k, double least_s,
                  double step_s, struct counts *n) {
  n->tried[k]++;
  if (step_s > 0) n->worst[k] = pz_fmax(n->worst[k], least_s / step_s);
  if (step_s >= least_s * (1 - 1e-9)) return;
  n->failed[k]++;
  printf("%s: %.6g s below %.6g s (%.3g times): phaze predict %s --chip %s", kind_names[k], step_s,
         least_s, least_s / step_s, c->model, c->machine->chip);
  print_network(c);
  print_plan(plan);
  printf("\n");
}

static void check_faster(const struct sample *c, struct counts *n) {
  for (int l = 0; l < c->net.n_levels; l++) {
    struct pz_cluster net = c->net;
    double s;
    net.level[l].bytes_per_s *= 2;
    if (pz_test_cluster_check(&net, NULL) == PZ_OK && price(c, &c->plan, &net, &s))
      check(c, &c->plan, FASTER, s, c->step_s, n);
  }
}

/* The same plan without stages and context, short, and with cp 2 in place of half the replicas. */
static void check_context(const struct sample *c, struct counts *n) {
  struct pz_plan p = c->plan;
  double s, with_s;
  p.dp *= p.pp * p.cp;
  p.pp = p.vpp = p.cp = 1;
  p.pipeline = PZ_PIPELINE_1F1B;
  p.shard = 0;
  p.seq = pz_min(p.seq, 8192);
  p.batch = p.mbs * p.dp * (1 + c->number % 4);
  if (p.dp % 2) return;
  struct pz_plan with = p;
  with.dp /= 2;
  with.cp = 2;
  if (price(c, &p, &c->net, &s) && price(c, &with, &c->net, &with_s))
    check(c, &with, CONTEXT, s * 0.997, with_s, n);
}

/* One device, with some sizes of a microbatch. */
static void check_alone(const struct sample *c, struct counts *n) {
  const struct pz_plan *p = &c->plan;
  const int64_t sizes[] = {p->mbs,         p->mbs * 2, p->mbs * p->tp * p->cp,
                           p->mbs * p->ep, p->mbs * 8, pz_min(p->batch, 16 * p->mbs),
                           p->batch};
  struct pz_plan one = *p;
  double best_s = HUGE_VAL, s;
  one.tp = one.cp = one.pp = one.vpp = one.ep = one.dp = one.devices = 1;
  one.etp = one.zero = one.sp = 0;
  one.shard = 0;
  one.pipeline = PZ_PIPELINE_1F1B;
  for (size_t i = 0; i < LENGTH(sizes); i++) {
    one.mbs = sizes[i];
    bool twice = false;
    for (size_t j = 0; j < i; j++) twice |= sizes[j] == sizes[i];
    if (!twice && one.batch % one.mbs == 0 && price(c, &one, &c->net, &s))
      best_s = pz_fmin(best_s, s);
  }
  if (best_s < HUGE_VAL) check(c, p, ALONE, best_s / (double)p->devices / 1.01, c->step_s, n);
}

static void check_floors(const struct sample *c, struct counts *n) {
  double floor_s[KINDS] = {0};
  find_floors(c, floor_s);
  for (int k = NETWORK; k <= HBM; k++) check(c, &c->plan, (enum kind)k, floor_s[k], c->step_s, n);
}

static void write_counts(const struct counts *n) {
  const char *path = getenv("PHAZE_FLOORS_CSV");
  FILE *f = path ? fopen(path, "w") : NULL;
  for (int k = 0; k < KINDS; k++)
    printf("%-8s %6d compared, %5d below, floor at most %.4f of the step\n", kind_names[k],
           n->tried[k], n->failed[k], n->worst[k]);
  if (!f) return;
  fprintf(f, "kind,cases,compared,below,most_of_step\n");
  for (int k = 0; k < KINDS; k++)
    fprintf(f, "%s,%d,%d,%d,%.4f\n", kind_names[k], n->cases, n->tried[k], n->failed[k],
            n->worst[k]);
  fclose(f);
}

/* Bounds of plans that are found by hand: 8.03 billion parameters on 16 devices in two nodes.  All-reduce, 8 B a
 * parameter: 15/16 enter a device, by 450 + 50 GB/s; half of it, divided by eight interfaces, a node.  Slower
 * interfaces, 1 GB/s: the node's. */
static void bounds_by_hand(void **state) {
  (void)state;
  static const double infiniband[] = {50e9, 1e9};
  static const struct machine h100 = {"h100", "dgx-h100"};
  for (size_t i = 0; i < LENGTH(infiniband); i++) {
    struct sample c = {.model = "llama3-8b", .machine = &h100, .plan = pz_plan_default()};
    double floor_s[KINDS] = {0}, bytes = 8 * 8030261248.0, tokens = 16 * 1024;
    assert_int_equal(pz_test_chip_read(h100.chip, &c.chip, NULL), PZ_OK);
    assert_int_equal(pz_cluster_load(h100.cluster, &c.net, NULL), PZ_OK);
    c.net.level[1].bytes_per_s = infiniband[i];
    c.plan.devices = c.plan.batch = 16;
    c.plan.seq = 1024;
    assert_int_equal(try_fill_plan(&c.plan, &c.chip, NULL), PZ_OK);
    find_floors(&c, floor_s);
    double device_s = bytes * 15 / 16 / (450e9 + infiniband[i]),
           node_s = bytes / 2 / 8 / infiniband[i];
    assert_true(fabs(floor_s[NETWORK] / fmax(device_s, node_s) - 1) < 1e-9);
    /* parameters without the look-up of 525 million; attention is 2% more */
    double peak = pz_chip_tensor_flop_per_s(&c.chip), flop = 6 * 7504924672.0 * tokens / 16;
    assert_true(floor_s[FLOP] > flop / peak && floor_s[FLOP] < 1.05 * flop / peak);
    double hbm = 24 * 8030261248.0 / pz_chip_hbm_bytes_per_s(&c.chip);
    assert_true(floor_s[HBM] > hbm && floor_s[HBM] < 1.2 * hbm);
  }
}

static void steps_are_above_physics(void **state) {
  (void)state;
  const char *asked = getenv("PHAZE_FLOORS");
  struct counts n = {.cases = asked ? (int)strtol(asked, NULL, 10) : pz_test_part(300)};
  uint64_t r = 20;
  for (int i = 0; i < n.cases; i++) {
    struct sample c;
    draw(&r, i, &c);
    check_floors(&c, &n);
    check_faster(&c, &n);
    check_context(&c, &n);
    check_alone(&c, &n);
  }
  write_counts(&n);
  for (int k = 0; k < KINDS; k++)
    if (n.failed[k]) fail_msg("%s: %d steps are below the bound", kind_names[k], n.failed[k]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(bounds_by_hand),
                                     cmocka_unit_test(steps_are_above_physics)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
