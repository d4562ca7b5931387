/* The search for training plans: its best is the best of all plans of the space, listed here one by one; more devices,
 * memory or bandwidth are never slower; published plans are never faster; prices do not depend on what was priced before;
 * bounds are below prices. */
#include "unit/testing.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/num.h"
#include "cost/constants.h"
#include "plan/pipeline_order.h"
#include "place/plan_question.h"
#include "step/recompute.h"
#include "step/run_table.h"

/* ---- random questions ----------------------------------------------------------------------- */

struct random_case {
  char config[768];
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_plan_question q;
  int64_t layers, heads, kv_heads, experts;
};

static uint32_t below(uint64_t *r, uint32_t n) { return pz_random_below(r, n); }

static int64_t pick(uint64_t *r, const int64_t *list, uint32_t n) { return list[below(r, n)]; }

static double between(uint64_t *r, double low, double high) {
  return low * pow(high / low, (double)below(r, 1 << 20) / (1 << 20));
}

/* Models with experts, in some of them after dense layers. */
static void random_experts(uint64_t *r, struct random_case *c, int64_t dim, int64_t vocab,
                           int64_t seq) {
  static const int64_t numbers[] = {2, 4, 6, 8, 12};
  static const struct {
    const char *own, *experts, *ffn;
  } families[] = {
      {"\"model_type\":\"mixtral\"", "num_local_experts", "intermediate_size"},
      {"\"model_type\":\"qwen3_moe\",\"decoder_sparse_step\":2,\"intermediate_size\":384,"
       "\"norm_topk_prob\":true",
       "num_experts", "moe_intermediate_size"},
      {"\"model_type\":\"deepseek_v3\",\"first_k_dense_replace\":1,\"n_group\":1,"
       "\"topk_group\":1,\"q_lora_rank\":32,\"kv_lora_rank\":16,\"qk_nope_head_dim\":16,"
       "\"qk_rope_head_dim\":16,\"v_head_dim\":16,\"intermediate_size\":384,"
       "\"n_shared_experts\":1",
       "n_routed_experts", "moe_intermediate_size"}};
  uint32_t family = below(r, 3);
  c->experts = pick(r, numbers, 5);
  if (family < 2 && c->heads % 2 == 0 && below(r, 2)) c->kv_heads /= 2;
  snprintf(c->config, sizeof c->config,
           "{%s,\"%s\":%lld,\"%s\":%lld,\"hidden_act\":\"silu\",\"hidden_size\":%lld,"
           "\"num_hidden_layers\":%lld,\"num_attention_heads\":%lld,"
           "\"num_key_value_heads\":%lld,\"vocab_size\":%lld,"
           "\"max_position_embeddings\":%lld,\"num_experts_per_tok\":%u}",
           families[family].own, families[family].experts, (long long)c->experts,
           families[family].ffn, (long long)(48 << below(r, 3)), (long long)(c->heads * dim),
           (long long)c->layers, (long long)c->heads, (long long)c->kv_heads, (long long)vocab,
           (long long)seq, 1 + below(r, 2));
}

static void random_model(uint64_t *r, struct random_case *c) {
  static const int64_t heads[] = {2, 4, 6, 8}, seqs[] = {128, 256, 512, 1024};
  c->layers = 2 + below(r, 5);
  c->heads = c->kv_heads = pick(r, heads, 4);
  int64_t seq = pick(r, seqs, 4), dim = 16 << below(r, 3), hidden = c->heads * dim;
  int64_t vocab = 96 * (1 + below(r, 100));
  c->experts = 0;
  if (below(r, 5) < 2) {
    random_experts(r, c, dim, vocab, seq);
  } else if (below(r, 2)) {
    if (c->heads % 2 == 0 && below(r, 2)) c->kv_heads /= 2;
    snprintf(c->config, sizeof c->config,
             "{\"model_type\":\"llama\",\"hidden_act\":\"silu\",\"hidden_size\":%lld,"
             "\"num_hidden_layers\":%lld,\"num_attention_heads\":%lld,"
             "\"num_key_value_heads\":%lld,\"intermediate_size\":%lld,\"vocab_size\":%lld,"
             "\"max_position_embeddings\":%lld}",
             (long long)hidden, (long long)c->layers, (long long)c->heads, (long long)c->kv_heads,
             (long long)(3 * hidden), (long long)vocab, (long long)seq);
  } else {
    snprintf(c->config, sizeof c->config,
             "{\"model_type\":\"gpt2\",\"n_embd\":%lld,\"n_layer\":%lld,\"n_head\":%lld,"
             "\"n_inner\":%lld,\"vocab_size\":%lld,\"n_positions\":%lld}",
             (long long)hidden, (long long)c->layers, (long long)c->heads, (long long)(4 * hidden),
             (long long)vocab, (long long)seq);
  }
  c->q.model = (struct pz_training_model){
      .name = "small", .config = c->config, .seq = seq, .attention = below(r, 2)};
}

static void random_machine(uint64_t *r, struct random_case *c) {
  static const char *const chips[] = {"a100-80", "h100", "b200"};
  struct pz_error err = {0};
  assert_int_equal(pz_chip_load(chips[below(r, 3)], &c->chip, &err), PZ_OK);
  static const int64_t nodes[] = {2, 4, 8, 4, 8, 6};
  int64_t node = pick(r, nodes, 6);
  c->net = (struct pz_cluster){.name = "made up", .devices = 4096, .n_levels = 2, .scales = true};
  c->net.level[0] = (struct pz_level){.name = "node", .devices = node, .latency_s = 1e-6};
  c->net.level[1] = (struct pz_level){.name = "cluster", .devices = 4096, .latency_s = 5e-6};
  c->net.level[0].bytes_per_s = between(r, 1e10, 1e12);
  c->net.level[1].bytes_per_s = between(r, 1e9, 1e11);
  c->q.chip = &c->chip;
  c->q.net = &c->net;
}

static void random_common(uint64_t *r, struct pz_plan *p) {
  static const char *const frameworks[] = {"megatron", "torchtitan",  "nemo",
                                           "torch",    "zero-bubble", "hai-llm"};
  *p = (struct pz_plan){.framework = pz_framework_find(frameworks[below(r, 6)])};
  if (!below(r, 3)) p->imbalance = between(r, 1, 2);
  p->overlap = below(r, PZ_OVERLAP_ALL + 1) & PZ_OVERLAP_ALL;
  p->execution = (enum pz_execution)below(r, 3);
  p->grad_bytes = below(r, 2) ? 4 : 2;
  static const enum pz_pipeline_order orders[] = {
      PZ_PIPELINE_1F1B, PZ_PIPELINE_1F1B, PZ_PIPELINE_GPIPE, PZ_PIPELINE_ZB_H1, PZ_PIPELINE_ZB_2P};
  p->order = orders[below(r, 5)];
}

/* `pins`: one of so many fields is pinned; 0: none. */
static void random_case(uint64_t *r, struct random_case *c, uint32_t pins) {
  static const int64_t batches[] = {4, 6, 8, 12, 16, 24, 32, 48, 64};
  struct pz_plan_question *q = &c->q;
  *q = pz_plan_question_default();
  random_model(r, c);
  random_machine(r, c);
  random_common(r, &q->common);
  q->devices = 1 + below(r, 32);
  q->batch = pick(r, batches, 9);
  q->threads = 1;
  if (!pins) return;
  if (!below(r, pins)) q->tp = 1 << below(r, 3);
  if (!below(r, pins)) q->sp = below(r, 2);
  if (!below(r, pins)) q->pp = 1 + below(r, 4);
  if (!below(r, pins)) q->vpp = 1 + below(r, 2);
  if (!below(r, pins)) q->dp = 1 + below(r, 4);
  if (below(r, 3)) q->mbs = 1 + below(r, 4); /* each is a model to make */
  if (!below(r, pins)) q->zero = below(r, 4);
  if (!below(r, pins)) q->recompute = below(r, PZ_RECOMPUTATIONS);
  if (!below(r, 3)) q->cp = below(r, 3) ? 1 << below(r, 3) : PZ_FREE;
  q->ep = PZ_FREE;
  if (c->experts && !below(r, 4)) q->ep = below(r, 2) ? 0 : 1 << below(r, 4);
  q->uniform = !below(r, 3);
  q->all_devices = !below(r, 6);
  q->objective = (enum pz_plan_objective)below(r, PZ_PLAN_OBJECTIVES);
  q->top = below(r, 3) ? 1 : 4;
}

/* ---- every plan ----------------------------------------------------------------------------- */

/* The plans of a question, listed from the text of plan_search.h. */
struct listing {
  struct random_case *c;
  struct pz_step_model *m; /* of the plans with this tp, cp, ep, sp and mbs */
  double hbm_bytes;
  uint64_t plans;
  double *values; /* of plans that fit, one for each recomputation; NULL: counted only */
  uint32_t n, cap;
  double least_bytes;
  uint64_t *random;
};

static bool takes(int64_t pin, int64_t v) { return pin == PZ_FREE || pin == v; }

static double usable_bytes(const struct pz_chip *chip) {
  return (double)pz_chip_hbm_bytes(chip) * pz_constants_default.usable_part;
}

/* What is sought of the plan, HUGE_VAL where it does not fit; now and then by a model of its own. */
static double value_of(struct listing *l, const struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  struct pz_prediction x, y;
  struct pz_error err = {0};
  if (pz_step_price(l->m, p, &x, NULL, &err) != PZ_OK) fail_msg("%s", err.message);
  if (below(l->random, 200) == 0) {
    if (pz_predict(&q->model, q->chip, q->net, p, &y, NULL, &err) != PZ_OK)
      fail_msg("%s", err.message);
    assert_true(x.step_s == y.step_s && x.peak_bytes == y.peak_bytes);
  }
  l->least_bytes = fmin(l->least_bytes, x.peak_bytes);
  if (x.peak_bytes > l->hbm_bytes) return HUGE_VAL;
  if (q->objective == PZ_PLAN_MEMORY) return x.peak_bytes;
  return q->objective == PZ_PLAN_COST ? x.step_s * (double)pz_plan_devices(p) : x.step_s;
}

/* Full recomputation: every number of layers, of all stages alike or of each. */
static double value_of_full(struct listing *l, struct pz_plan *p) {
  int64_t again[16] = {0}, most[16], all = 0;
  double best = HUGE_VAL;
  for (int64_t k = 0; k < p->pp; k++) {
    most[k] = 0;
    for (int64_t c = 0; c < p->vpp; c++) {
      int64_t chunk = p->order == PZ_PIPELINE_ZB_V && c ? 2 * p->pp - 1 - k : c * p->pp + k;
      most[k] = pz_max(most[k], pz_plan_blocks(p, l->c->layers, chunk));
    }
    all = pz_max(all, most[k]);
  }
  p->stage_recompute = again;
  if (l->c->q.uniform || p->order == PZ_PIPELINE_DUALPIPE) {
    for (int64_t n = 0; n <= all; n++) {
      for (int64_t k = 0; k < p->pp; k++) again[k] = n;
      best = fmin(best, value_of(l, p));
    }
    return best;
  }
  for (int64_t k = 0; k < p->pp;) {
    best = fmin(best, value_of(l, p));
    for (k = 0; k < p->pp && ++again[k] > most[k]; k++) again[k] = 0;
  }
  return best;
}

static void add_value(struct listing *l, double v) {
  if (v == HUGE_VAL) return;
  if (l->n == l->cap) {
    l->cap = 2 * l->cap + 64;
    l->values = realloc(l->values, l->cap * sizeof *l->values);
    assert_non_null(l->values);
  }
  l->values[l->n++] = v;
}

/* Every recomputation; with less time or cost asked for, none where a plan fits without. */
static void list_recomputations(struct listing *l, struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  bool fits = false, titan = strcmp(p->framework->name, "torchtitan") == 0;
  for (int r = 0; r < PZ_RECOMPUTATIONS; r++) {
    if (!takes(q->recompute, r)) continue;
    if (q->recompute == PZ_FREE && r == PZ_RECOMPUTATION_HALF) continue;
    if (q->recompute == PZ_FREE && r == PZ_RECOMPUTATION_ALTERNATE && !titan) continue;
    l->plans++;
    if (fits && q->objective != PZ_PLAN_MEMORY) continue;
    p->recompute = (enum pz_recomputation)r;
    p->stage_recompute = NULL;
    double v = r == PZ_RECOMPUTATION_FULL ? value_of_full(l, p) : value_of(l, p);
    add_value(l, v);
    if (r == PZ_RECOMPUTATION_NONE) fits = v < HUGE_VAL;
  }
}

/* All pairs of layers for the first and the last chunk that the space has. */
static void list_divisions(struct listing *l, struct pz_plan *p) {
  int64_t n = p->pp * p->vpp, least = (l->c->layers + n - 1) / n;
  p->first_layers = p->last_layers = 0;
  int64_t first = pz_plan_blocks(p, l->c->layers, 0), last = pz_plan_blocks(p, l->c->layers, n - 1);
  list_recomputations(l, p);
  for (int64_t f = 1; f < l->c->layers && n > 1; f++)
    for (int64_t e = 1; f + e <= l->c->layers; e++) {
      int64_t rest = l->c->layers - f - e, m = n > 2 ? rest / (n - 2) : 0;
      if (n == 2 ? rest != 0 : rest % (n - 2) != 0 || m < least || m > least + 1) continue;
      if (n > 2 && (f > m || e > m)) continue;
      if (f == first && e == last) continue;
      p->first_layers = f;
      p->last_layers = e;
      list_recomputations(l, p);
    }
}

static void list_zero(struct listing *l, struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  bool alone = p->dp * p->cp == 1 && pz_plan_expert_replicas(p) == 1;
  for (p->zero = 0; p->zero <= 3; p->zero++) {
    bool stages = p->pp > 1 && !p->framework->shards_stages;
    if (alone ? p->zero != (q->zero == PZ_FREE ? 0 : q->zero)
              : !takes(q->zero, p->zero) || (p->zero > 1 && stages))
      continue;
    list_divisions(l, p);
  }
}

/* Has the framework this order of several stages? */
static bool has_order(const struct pz_plan *p, enum pz_pipeline_order common) {
  const char *f = p->framework->name;
  bool zero_bubble = strcmp(f, "zero-bubble") == 0, hai = strcmp(f, "hai-llm") == 0;
  if (p->order == common) return true;
  if (p->pp == 1) return false;
  if (p->order == PZ_PIPELINE_ZB_V) return zero_bubble && p->vpp == 2;
  if (p->order == PZ_PIPELINE_DUALPIPE) return hai && p->vpp == 1;
  bool old = p->order == PZ_PIPELINE_ZB_H1 || p->order == PZ_PIPELINE_ZB_2P;
  return old && (zero_bubble || hai) && p->vpp == 1;
}

static void list_stages(struct listing *l, struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  int64_t rounds = q->batch / (p->mbs * p->dp), layers = l->c->layers;
  enum pz_pipeline_order common = q->common.order;
  for (p->vpp = 1; p->vpp <= layers + 2; p->vpp++)
    for (int o = 0; o < PZ_PIPELINES; o++) {
      int64_t n = p->pp * p->vpp;
      bool even = layers % n == 0 || (layers + 2) % n == 0;
      p->order = (enum pz_pipeline_order)o;
      if (!takes(q->vpp, p->vpp) || !has_order(p, common)) continue;
      if (p->vpp > 1 && (p->pp == 1 || !even || n > layers + 2)) continue;
      if (p->vpp > 1 && p->order != PZ_PIPELINE_ZB_V && rounds % p->pp) continue;
      if (p->order == PZ_PIPELINE_DUALPIPE && (p->pp % 2 || rounds % 2 || rounds < 2 * p->pp))
        continue;
      list_zero(l, p);
    }
  p->order = common;
}

static void list_grids(struct listing *l, struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  int64_t node = l->c->net.level[0].devices;
  for (p->pp = 1; p->pp <= l->c->layers; p->pp++)
    for (p->dp = 1; p->dp <= q->batch; p->dp++) {
      int64_t devices = p->tp * p->cp * p->pp * p->dp;
      int64_t part = node == 6 ? 4 : node,
              n = q->devices % node ? q->devices / part : q->devices / node;
      bool whole =
          devices <= node || devices % node == 0 || (devices % part == 0 && devices / part <= n);
      if (!takes(q->pp, p->pp) || !takes(q->dp, p->dp) || q->batch % (p->mbs * p->dp)) continue;
      if (devices > q->devices || !(whole || devices == q->devices)) continue;
      if (!whole && q->devices > node) continue;
      if (q->all_devices && devices != q->devices) continue;
      if (p->tp * p->cp * p->dp % (p->ep * (p->ep > 1 ? 1 : p->tp))) continue;
      list_stages(l, p);
    }
}

/* All plans with one size of a microbatch and of the two groups. */
static void list_shape(struct listing *l, struct pz_plan p) {
  const struct pz_plan_question *q = &l->c->q;
  struct pz_error err = {0};
  int64_t seq = q->model.seq / p.cp;
  if (!takes(q->tp, p.tp) || !takes(q->mbs, p.mbs)) return;
  if (p.tp > 1 && !takes(q->sp, p.sp)) return;
  if (l->c->heads % p.tp || l->c->kv_heads % p.tp || q->batch % p.mbs) return;
  if (p.tp * p.cp > q->devices || (p.sp && seq % p.tp)) return;
  p.pp = p.vpp = p.dp = 1;
  if (pz_step_model_new(&q->model, q->chip, q->net, &p, &l->m, &err) != PZ_OK) return;
  list_grids(l, &p);
  pz_step_model_free(l->m);
}

/* Experts on as many devices as there are, or on a power of two. */
static void list_experts(struct listing *l, struct pz_plan p) {
  int64_t pin = l->c->q.ep ? l->c->q.ep : 1, experts = pz_max(l->c->experts, 1);
  for (p.ep = 1; p.ep <= experts; p.ep++)
    if (experts % p.ep == 0 && ((p.ep & (p.ep - 1)) == 0 || p.ep == experts) && takes(pin, p.ep))
      list_shape(l, p);
}

static void list_all(struct listing *l) {
  const struct pz_plan_question *q = &l->c->q;
  struct pz_plan p = q->common;
  p.batch = q->batch;
  for (p.tp = 1; p.tp <= pz_max(l->c->net.level[0].devices, q->tp); p.tp++)
    for (p.cp = 1; p.cp <= 32; p.cp *= 2)
      for (p.mbs = 1; p.mbs <= q->batch; p.mbs++)
        for (int sp = 0; sp <= (p.tp > 1); sp++) {
          p.sp = sp;
          if (takes(q->cp ? q->cp : 1, p.cp)) list_experts(l, p);
        }
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* ---- the best of all ------------------------------------------------------------------------ */

static double found_value(const struct pz_plan_question *q, const struct pz_found_plan *f) {
  if (q->objective == PZ_PLAN_MEMORY) return f->p.peak_bytes;
  double devices = (double)pz_plan_devices(&f->plan);
  return q->objective == PZ_PLAN_COST ? f->p.step_s * devices : f->p.step_s;
}

/* HBM so that some plans fit and others do not, or none: between the least that a plan needs and what the best needs. */
static void shrink_memory(uint64_t *r, struct random_case *c) {
  struct pz_plan_question q = c->q;
  struct pz_found_plans least, best;
  struct pz_arena arena;
  q.top = 1;
  pz_arena_init(&arena, NULL);
  q.objective = PZ_PLAN_MEMORY;
  enum pz_status status = pz_plan_search(&q, &arena, &least, NULL);
  q.objective = PZ_PLAN_TIME;
  if (status == PZ_OK) status = pz_plan_search(&q, &arena, &best, NULL);
  if (status == PZ_OK && least.n && best.n) {
    double low = least.list[0].p.peak_bytes, high = best.list[0].p.peak_bytes;
    double bytes = below(r, 5) ? low + (high - low) * below(r, 1000) / 1000 : 0.99 * low;
    c->chip.hbm.bytes_per_stack =
        (int64_t)(bytes / pz_constants_default.usable_part / (double)c->chip.hbm.stacks) + 1;
  }
  pz_arena_release(&arena);
}

struct tally {
  int none, tight, wrong, experts;
  uint64_t plans;
};

static void tell_case(int i, const struct random_case *c) {
  const struct pz_plan_question *q = &c->q;
  print_message(
      "case %d: %s, %lld devices in %lld, batch %lld, %s; tp %lld sp %lld pp %lld vpp "
      "%lld dp %lld mbs %lld zero %lld recompute %lld, cp %lld ep %lld, order %s, uniform %d, %s\n",
      i, c->config, (long long)q->devices, (long long)c->net.level[0].devices, (long long)q->batch,
      q->common.framework->name, (long long)q->tp, (long long)q->sp, (long long)q->pp,
      (long long)q->vpp, (long long)q->dp, (long long)q->mbs, (long long)q->zero,
      (long long)q->recompute, (long long)q->cp, (long long)q->ep,
      pz_pipeline_names[q->common.order], q->uniform, pz_plan_objective_names[q->objective]);
}

static bool same_value(double a, double b) { return fabs(a - b) <= 1e-12 * fabs(b); }

/* Compare what was found with the list; false: they differ. */
static bool agrees(const struct listing *l, enum pz_status status,
                   const struct pz_found_plans *found) {
  const struct pz_plan_question *q = &l->c->q;
  if (!l->plans) return status == PZ_BAD_USE;
  if (status != PZ_OK) return print_message("refused: %lld plans\n", (long long)l->plans), false;
  const struct pz_plan_certificate *c = &found->certificate;
  if (c->plans != l->plans || c->plans != c->solved + c->by_bound + c->by_memory || c->gap != 0)
    return print_message("%lld plans, %lld in the certificate\n", (long long)l->plans,
                         (long long)c->plans),
           false;
  if (found->n != pz_min(l->n, q->top))
    return print_message("%u plans fit, %u found\n", l->n, found->n), false;
  if (!l->n) return found->has_least && same_value(found->least.p.peak_bytes, l->least_bytes);
  for (uint32_t i = 0; i < found->n; i++)
    if (!same_value(found_value(q, &found->list[i]), l->values[i]))
      return print_message("number %u of the best: %.12g, found %.12g\n", i, l->values[i],
                           found_value(q, &found->list[i])),
             false;
  return !found->has_least;
}

/* The plan itself, by a model of its own. */
static bool predicts(const struct pz_plan_question *q, const struct pz_found_plan *f) {
  struct pz_prediction p;
  struct pz_error err = {0};
  if (pz_predict(&q->model, q->chip, q->net, &f->plan, &p, NULL, &err) != PZ_OK) return false;
  return p.step_s == f->p.step_s && p.peak_bytes == f->p.peak_bytes && p.mfu == f->p.mfu;
}

static void one_listing(uint64_t *r, int i, struct tally *t) {
  struct random_case c;
  struct pz_found_plans found = {0};
  struct pz_arena arena;
  struct pz_error err = {0};
  random_case(r, &c, 3);
  if (below(r, 2)) shrink_memory(r, &c);
  struct listing l = {
      .c = &c, .hbm_bytes = usable_bytes(&c.chip), .least_bytes = HUGE_VAL, .random = r};
  list_all(&l);
  if (l.n) qsort(l.values, l.n, sizeof *l.values, ascending);
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_plan_search(&c.q, &arena, &found, &err);
  bool good = agrees(&l, status, &found);
  if (good && status == PZ_OK)
    good = predicts(&c.q, found.n ? &found.list[found.n - 1] : &found.least);
  if (!good) {
    tell_case(i, &c);
    t->wrong++;
  }
  t->plans += l.plans;
  t->experts += c.experts > 0;
  t->none += status == PZ_OK && !l.n;
  t->tight += status == PZ_OK && found.certificate.by_memory > 0;
  free(l.values);
  pz_arena_release(&arena);
}

static void equals_brute_force(void **state) {
  (void)state;
  struct tally t = {0};
  uint64_t r = 20;
  int n = pz_test_part(500);
  for (int i = 0; i < n; i++) one_listing(&r, i, &t);
  print_message("  %d cases, %d with experts, %lld plans; memory binds in %d, nothing fits in %d; "
                "%d differ\n",
                n, t.experts, (long long)t.plans, t.tight, t.none, t.wrong);
  assert_int_equal(t.wrong, 0);
}

/* ---- more is never slower ------------------------------------------------------------------- */

/* Seconds of the best step; HUGE_VAL: nothing fits or there is no plan. */
static double best_s(const struct pz_plan_question *q) {
  struct pz_found_plans found = {0};
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_plan_search(q, &arena, &found, NULL);
  double s = status == PZ_OK && found.n ? found.list[0].p.step_s : HUGE_VAL;
  pz_arena_release(&arena);
  return s;
}

/* Not so with zero bubble, which takes what is ready first: a faster pass may change the order for the worse (Graham,
 * SIAM J. Appl. Math. 17, 1969), in one of some thousand cases. */
static void more_is_never_slower(void **state) {
  (void)state;
  static const char *const what[] = {"devices", "memory", "bandwidth in a node",
                                     "bandwidth of the cluster", "lower latency"};
  uint64_t r = 300;
  int n = pz_test_part(300), wrong = 0;
  for (int i = 0; i < n; i++) {
    struct random_case c;
    random_case(&r, &c, 0);
    if (c.q.common.order != PZ_PIPELINE_GPIPE) c.q.common.order = PZ_PIPELINE_1F1B;
    if (c.q.common.framework->zero_bubble) c.q.common.framework = pz_framework_find("megatron");
    c.q.uniform = !below(&r, 3);
    if (below(&r, 8)) c.q.mbs = 1 + below(&r, 2); /* few models to make */
    if (below(&r, 2)) shrink_memory(&r, &c);
    double before = best_s(&c.q);
    for (int k = 0; k < 5; k++) {
      struct random_case d = c;
      double times = between(&r, 1.01, 8);
      d.q.chip = &d.chip;
      d.q.net = &d.net;
      if (k == 0) d.q.devices += c.net.level[0].devices * (1 + below(&r, 4));
      if (k == 1)
        d.chip.hbm.bytes_per_stack = (int64_t)(times * (double)c.chip.hbm.bytes_per_stack);
      if (k == 2) d.net.level[0].bytes_per_s *= times;
      if (k == 3) d.net.level[1].bytes_per_s *= times;
      if (k == 4) d.net.level[0].latency_s /= times, d.net.level[1].latency_s /= times;
      double after = best_s(&d.q);
      if (after <= before * (1 + 1e-12)) continue;
      print_message("more %s: %.9g s, before %.9g s\n", what[k], after, before);
      tell_case(i, &c);
      wrong++;
    }
  }
  assert_int_equal(wrong, 0);
}

/* ---- one model for many plans --------------------------------------------------------------- */

/* A model with the machine and one shape of plans. */
struct shared {
  struct random_case c;
  struct pz_plan plan; /* tp, sp, mbs and what all plans share */
  struct pz_step_model *m;
};

/* Now and then on a torus, where collectives depend on the size of the job. */
static void random_shared(uint64_t *r, struct shared *s, bool torus) {
  struct pz_error err = {0};
  struct pz_plan_question *q = &s->c.q;
  random_case(r, &s->c, 0);
  if (torus) {
    assert_int_equal(pz_chip_load("tpuv5e", &s->c.chip, &err), PZ_OK);
    assert_int_equal(pz_cluster_load("tpuv5e-pod", &s->c.net, &err), PZ_OK);
    q->common.framework = pz_framework_find(below(r, 2) ? "maxtext" : "jax");
  }
  s->plan = q->common;
  s->plan.tp = s->c.kv_heads % 2 ? 1 : 1 + below(r, 2);
  s->plan.sp = s->plan.tp > 1 && below(r, 2);
  s->plan.mbs = 1 + below(r, 4);
  s->plan.cp = q->model.attention == PZ_ATTENTION_FLASH && !torus ? 1 << below(r, 3) : 1;
  s->plan.pp = s->plan.vpp = s->plan.dp = 1;
  bool can = s->plan.tp == 1 || s->plan.sp;
  s->plan.ep = s->c.experts && can && !torus ? 1 + below(r, 2) : 1;
  s->plan.batch = 64;
  if (pz_step_model_new(&q->model, q->chip, q->net, &s->plan, &s->m, &err) != PZ_OK)
    fail_msg("%s", err.message);
}

/* Any plan of the shape, of one microbatch or several, with any recomputation. */
static struct pz_plan random_plan(uint64_t *r, const struct shared *s, int64_t *again) {
  struct pz_plan p = s->plan;
  int64_t layers = s->c.layers;
  p.pp = 1 + below(r, (uint32_t)layers);
  p.vpp = p.pp > 1 && below(r, 2) ? 1 + below(r, (uint32_t)(layers / p.pp)) : 1;
  p.dp = p.ep * (1 + below(r, 4));
  p.batch = p.mbs * p.dp * (below(r, 3) ? 1 + below(r, 24) : 1);
  struct pz_plan other = p;
  other.order = (enum pz_pipeline_order)below(r, PZ_PIPELINES);
  struct pz_pipeline_shape shape = pz_plan_shape(&other);
  if (below(r, 2) && pz_pipeline_check(&shape, NULL) == PZ_OK) p.order = other.order;
  p.zero = (int)below(r, 4);
  p.overlap = below(r, PZ_OVERLAP_ALL + 1) & PZ_OVERLAP_ALL;
  p.recompute = (enum pz_recomputation)below(r, PZ_RECOMPUTATIONS);
  p.recompute_layers = below(r, 3);
  p.kept = below(r, 2) ? below(r, 32) : 0;
  if (p.pp * p.vpp > 2 && below(r, 2)) {
    p.first_layers = 1;
    p.last_layers = 1 + below(r, (uint32_t)(layers - p.pp * p.vpp + 1));
  }
  for (int64_t k = 0; k < p.pp; k++) again[k] = below(r, (uint32_t)layers);
  if (below(r, 2)) p.stage_recompute = again;
  return p;
}

static bool same_prediction(const struct pz_prediction *a, const struct pz_prediction *b) {
  return a->step_s == b->step_s && a->bound_s == b->bound_s && a->peak_bytes == b->peak_bytes &&
         a->mfu == b->mfu && a->hfu == b->hfu && a->microbatches == b->microbatches &&
         a->peak_stage == b->peak_stage && a->gradient_hidden_s == b->gradient_hidden_s &&
         a->tensor_hidden_s == b->tensor_hidden_s &&
         memcmp(&a->parts, &b->parts, sizeof a->parts) == 0 &&
         memcmp(&a->peak, &b->peak, sizeof a->peak) == 0;
}

/* Prices do not depend on the plans priced before. */
static void pricing_has_no_memory(void **state) {
  (void)state;
  enum { PLANS = 10 };
  uint64_t r = 4;
  int n = pz_test_part(60), priced = 0, wrong = 0;
  for (int i = 0; i < n; i++) {
    struct shared s;
    struct pz_plan plans[PLANS];
    struct pz_prediction own[PLANS], one;
    struct pz_error err = {0};
    int64_t again[PLANS][8];
    random_shared(&r, &s, i % 4 == 0);
    const struct pz_plan_question *q = &s.c.q;
    for (int k = 0; k < PLANS; k++) {
      plans[k] = random_plan(&r, &s, again[k]);
      if (pz_predict(&q->model, q->chip, q->net, &plans[k], &own[k], NULL, &err) != PZ_OK)
        fail_msg("%s", err.message);
    }
    for (int k = 0; k < 3 * PLANS; k++, priced++) {
      int at = (int)below(&r, PLANS);
      double bound;
      if (below(&r, 4) == 0)
        assert_int_equal(pz_step_bound(s.m, &plans[below(&r, PLANS)], &bound, &err), PZ_OK);
      assert_int_equal(pz_step_price(s.m, &plans[at], &one, NULL, &err), PZ_OK);
      wrong += !same_prediction(&one, &own[at]);
    }
    pz_step_model_free(s.m);
  }
  print_message("  %d prices, %d differ\n", priced, wrong);
  assert_int_equal(wrong, 0);
}

/* Of a kind of plans with even stages: the distance of the bound to the price. */
struct distance {
  double sum;
  int n;
};

/* False: the bound of this plan is above its price. */
static bool bound_is_below(struct shared *s, const struct pz_plan *p,
                           struct distance *kinds) {
  struct pz_prediction one;
  struct pz_error err = {0};
  double bound;
  assert_int_equal(pz_step_bound(s->m, p, &bound, &err), PZ_OK);
  assert_int_equal(pz_step_price(s->m, p, &one, NULL, &err), PZ_OK);
  bool even = !p->stage_recompute && !p->first_layers && s->c.layers % (p->pp * p->vpp) == 0;
  bool zero_bubble = pz_pipeline_parts_backward(pz_plan_shape(p).order);
  if (even && p->pp > 1) {
    kinds[zero_bubble].sum += 1 - bound / one.step_s;
    kinds[zero_bubble].n++;
  }
  return bound <= one.step_s * (1 + 1e-12);
}

/* Bounds are below prices, and near them where stages are even; not so near where zero bubble fills gaps. */
static void bounds_are_below_prices(void **state) {
  (void)state;
  uint64_t r = 5;
  int n = pz_test_part(200), wrong = 0;
  struct distance kinds[2] = {{.n = 0}, {.n = 0}};
  for (int i = 0; i < n; i++) {
    struct shared s;
    random_shared(&r, &s, i % 8 == 0);
    for (int k = 0; k < 10; k++) {
      int64_t again[8];
      struct pz_plan p = random_plan(&r, &s, again);
      wrong += !bound_is_below(&s, &p, kinds);
    }
    pz_step_model_free(s.m);
  }
  double mean = kinds[0].sum / kinds[0].n, zero = kinds[1].sum / kinds[1].n;
  print_message(
      "  %d plans, %d wrong; with even stages %.2f%% below (%d), zero bubble %.1f%% (%d)\n", 10 * n,
      wrong, 100 * mean, kinds[0].n, 100 * zero, kinds[1].n);
  assert_int_equal(wrong, 0);
  assert_true(mean <= 0.03);
}

/* ---- published plans ------------------------------------------------------------------------ */

/* A row of a table of runs as a question, with what no plan changes pinned to the row's. */
struct row_question {
  const struct pz_csv *csv;
  uint32_t row;
  char key[1024], config[640]; /* rows with the same key have the same best plan */
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_plan_question q;
};

static const char *word(const struct row_question *x, const char *column) {
  return pz_csv_cell(x->csv, x->row, pz_csv_column(x->csv, column));
}

static long long number(const struct row_question *x, const char *column) {
  return strtoll(word(x, column), NULL, 10);
}

/* As run_table.c does it. */
static void row_config(struct row_question *x, const struct pz_framework *f) {
  long long unit = 128 * number(x, "tp"), vocab = (number(x, "vocab") + unit - 1) / unit * unit;
  bool gated = strcmp(word(x, "mlp"), "swiglu") == 0;
  if (gated || f->decoder)
    snprintf(x->config, sizeof x->config,
             "{\"model_type\":\"%s\",\"hidden_act\":\"%s\",\"hidden_size\":%lld,"
             "\"num_hidden_layers\":%lld,\"num_attention_heads\":%lld,"
             "\"num_key_value_heads\":%lld,\"head_dim\":%lld,\"intermediate_size\":%lld,"
             "\"vocab_size\":%lld,\"max_position_embeddings\":%lld}",
             f->decoder ? "decoder" : "llama", gated ? "silu" : "gelu", number(x, "hidden"),
             number(x, "layers"), number(x, "heads"), number(x, "kv_heads"), number(x, "head_dim"),
             number(x, "ffn"), vocab, number(x, "seq"));
  else
    snprintf(x->config, sizeof x->config,
             "{\"model_type\":\"gpt2\",\"n_embd\":%lld,\"n_layer\":%lld,\"n_head\":%lld,"
             "\"n_inner\":%lld,\"vocab_size\":%lld,\"n_positions\":%lld,"
             "\"tie_word_embeddings\":%s}",
             number(x, "hidden"), number(x, "layers"), number(x, "heads"), number(x, "ffn"), vocab,
             number(x, "seq"), strcmp(f->name, "torch") == 0 ? "false" : "true");
}

static int word_at(const char *const *list, const char *w) {
  int i = 0;
  while (strcmp(list[i], w) != 0) i++;
  return i;
}

static void row_common(struct row_question *x, const struct pz_framework *f) {
  static const char *const executions[] = {"eager", "compile", "graph"};
  const char *overlap = word(x, "overlap"), *bytes = word(x, "grad_bytes");
  struct pz_plan *p = &x->q.common;
  *p = (struct pz_plan){.framework = f, .attention_library = word(x, "attn_kernel")};
  p->execution = (enum pz_execution)word_at(executions, word(x, "execution"));
  p->order = (enum pz_pipeline_order)word_at(pz_pipeline_names, word(x, "pipeline"));
  p->precision = strcmp(word(x, "precision"), "fp8") == 0 ? PZ_PRECISION_FP8 : PZ_PRECISION_BF16;
  p->grad_bytes = *bytes ? strtod(bytes, NULL) : 4;
  if (strstr(overlap, "grad")) p->overlap |= PZ_OVERLAP_GRAD;
  if (strstr(overlap, "param")) p->overlap |= PZ_OVERLAP_PARAM;
  if (strstr(overlap, "tp")) p->overlap |= PZ_OVERLAP_TP;
  if (strstr(overlap, "p2p")) p->overlap |= PZ_OVERLAP_P2P;
}

static void row_question(const struct pz_csv *csv, uint32_t row, struct row_question *x) {
  struct pz_error err = {0};
  *x = (struct row_question){.csv = csv, .row = row, .q = pz_plan_question_default()};
  const struct pz_framework *f = pz_framework_find(word(x, "framework"));
  assert_int_equal(pz_chip_load(word(x, "chip"), &x->chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load(word(x, "cluster"), &x->net, &err), PZ_OK);
  x->q.devices = number(x, "n_dev");
  assert_int_equal(pz_cluster_reach(&x->net, x->q.devices, "n_dev", &err), PZ_OK);
  row_config(x, f);
  row_common(x, f);
  x->q.model = (struct pz_training_model){
      .name = "row",
      .config = x->config,
      .seq = number(x, "seq"),
      .attention = (enum pz_attention)word_at(pz_attention_names, word(x, "attention"))};
  x->q.chip = &x->chip;
  x->q.net = &x->net;
  x->q.batch = number(x, "gbs");
  x->q.cp = number(x, "cp") > 1 ? PZ_FREE : 1;
  x->q.threads = 0;
  snprintf(x->key, sizeof x->key, "%s %s %s %lld %lld %lld %lld %s %s %s %s %s %s %s %s", x->config,
           word(x, "chip"), word(x, "cluster"), (long long)x->q.devices, (long long)x->q.batch,
           (long long)x->q.model.seq, (long long)x->q.cp, word(x, "pipeline"), word(x, "precision"),
           f->name, word(x, "attention"), word(x, "attn_kernel"), word(x, "overlap"),
           word(x, "execution"), word(x, "grad_bytes"));
}

/* Does the space know such a run?  A graphics processor, whose plan fits. */
static bool is_asked(const struct pz_csv *csv, uint32_t i, const struct pz_run_row *row) {
  struct row_question x = {.csv = csv, .row = i};
  struct pz_chip chip;
  struct pz_error err = {0};
  if (!row->predicted || strncmp(word(&x, "chip"), "tpu", 3) == 0) return false;
  if (pz_framework_compiles(pz_framework_find(word(&x, "framework")))) return false;
  assert_int_equal(pz_chip_load(word(&x, "chip"), &chip, &err), PZ_OK);
  return row->p.peak_bytes <= usable_bytes(&chip);
}

struct known {
  char *key;
  double best_s;
};

/* The table's questions, each asked once. */
static double best_of_row(const struct pz_csv *csv, uint32_t i, struct known *known, uint32_t *n) {
  struct row_question x;
  row_question(csv, i, &x);
  for (uint32_t k = 0; k < *n; k++)
    if (strcmp(known[k].key, x.key) == 0) return known[k].best_s;
  known[*n].key = strdup(x.key);
  return known[(*n)++].best_s = best_s(&x.q);
}

/* False: there is no such table. */
static bool rows_of(const char *path) {
  char *text = NULL;
  size_t bytes = 0;
  struct pz_arena arena;
  struct pz_run_table t;
  struct pz_error err = {0};
  uint32_t asked = 0, wrong = 0, n = 0, step = (uint32_t)(600 / pz_test_part(200));
  pz_arena_init(&arena, NULL);
  if (pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, &err) != PZ_OK) return false;
  assert_int_equal(pz_run_table_read(path, text, bytes, 2, &arena, &t, &err), PZ_OK);
  struct known *known = calloc(t.n_rows, sizeof *known);
  assert_non_null(known);
  for (uint32_t i = 0; i < t.n_rows; i += step) {
    if (!is_asked(&t.csv, i, &t.rows[i])) continue;
    double best = best_of_row(&t.csv, i, known, &n), own = t.rows[i].p.step_s;
    asked++;
    if (best <= own * (1 + 1e-9)) continue;
    print_message("%s: its own plan %.6g s, the best %.6g s\n", t.rows[i].id, own, best);
    wrong++;
  }
  print_message("  %u rows, %u questions, %u faster than the best\n", asked, n, wrong);
  for (uint32_t k = 0; k < n; k++) free(known[k].key);
  free(known);
  pz_free(text);
  pz_arena_release(&arena);
  assert_int_equal(wrong, 0);
  return true;
}

/* No published run has a plan that is faster than the best: of the rows beside this test, and of the whole table. */
static void published_plans_are_not_faster(void **state) {
  (void)state;
  assert_true(rows_of(PHAZE_TEST_DATA "/runs.csv"));
  if (!rows_of(PHAZE_TEST_DATA "/../../../shared/ref/published/runs.csv"))
    print_message("no ../shared/ref/published/runs.csv: skipped\n");
}

/* ---- threads -------------------------------------------------------------------------------- */

static bool same_plans(const struct pz_found_plans *a, const struct pz_found_plans *b) {
  if (a->n != b->n || memcmp(&a->certificate, &b->certificate, sizeof a->certificate)) return false;
  for (uint32_t i = 0; i < a->n; i++) {
    const struct pz_plan *x = &a->list[i].plan, *y = &b->list[i].plan;
    if (!same_prediction(&a->list[i].p, &b->list[i].p)) return false;
    if (x->tp != y->tp || x->cp != y->cp || x->ep != y->ep || x->order != y->order ||
        x->pp != y->pp || x->vpp != y->vpp || x->dp != y->dp || x->mbs != y->mbs ||
        x->zero != y->zero || x->recompute != y->recompute ||
        x->sp != y->sp || x->first_layers != y->first_layers ||
        x->last_layers != y->last_layers || x->recompute_layers != y->recompute_layers ||
        !x->stage_recompute != !y->stage_recompute)
      return false;
    for (int64_t k = 0; x->stage_recompute && k < x->pp; k++)
      if (x->stage_recompute[k] != y->stage_recompute[k]) return false;
  }
  return true;
}

static void threads_agree(void **state) {
  (void)state;
  uint64_t r = 7;
  for (int i = 0; i < pz_test_part(30); i++) {
    struct random_case c;
    struct pz_arena arena;
    struct pz_found_plans found[3];
    pz_arena_init(&arena, NULL);
    random_case(&r, &c, 6);
    if (below(&r, 2)) shrink_memory(&r, &c);
    c.q.top = 8;
    enum pz_status status[3];
    for (unsigned t = 0; t < 3; t++) {
      c.q.threads = 1u << t;
      status[t] = pz_plan_search(&c.q, &arena, &found[t], NULL);
      assert_int_equal(status[t], status[0]);
      if (status[t] == PZ_OK) assert_true(same_plans(&found[t], &found[0]));
    }
    pz_arena_release(&arena);
  }
}

/* ---- ties ----------------------------------------------------------------------------------- */

/* What makes a plan less simple, the most important first. */
static void complexity(const struct pz_plan *p, int64_t out[7]) {
  const int64_t list[] = {pz_plan_cp(p),
                          pz_plan_ep(p),
                          p->vpp,
                          p->pp,
                          p->tp,
                          p->zero,
                          p->recompute != PZ_RECOMPUTATION_NONE};
  memcpy(out, list, sizeof list);
}

static int by_complexity(const struct pz_plan *a, const struct pz_plan *b) {
  int64_t x[7], y[7];
  complexity(a, x);
  complexity(b, y);
  for (int i = 0; i < 7; i++)
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  return 0;
}

static bool is_tie(const struct pz_plan_question *q, const struct pz_found_plan *a,
                   const struct pz_found_plan *b) {
  return found_value(q, a) == found_value(q, b) && a->p.step_s == b->p.step_s;
}

/* Plans with the same time come in the order of what they set up, however many are asked for: the first of few is the
 * first of many. */
static void the_simplest_of_equal_plans_comes_first(void **state) {
  (void)state;
  uint64_t r = 31;
  int ties = 0, ordered = 0;
  for (int i = 0; i < pz_test_part(120); i++) {
    struct random_case c;
    struct pz_arena arena;
    struct pz_found_plans few = {0}, many = {0};
    pz_arena_init(&arena, NULL);
    random_case(&r, &c, 6);
    c.q.top = 1 + below(&r, 4);
    enum pz_status status = pz_plan_search(&c.q, &arena, &few, NULL);
    c.q.top = 200;
    if (status == PZ_OK) assert_int_equal(pz_plan_search(&c.q, &arena, &many, NULL), PZ_OK);
    for (uint32_t k = 0; status == PZ_OK && k + 1 < many.n; k++) {
      if (!is_tie(&c.q, &many.list[k], &many.list[k + 1])) continue;
      int order = by_complexity(&many.list[k].plan, &many.list[k + 1].plan);
      assert_true(order <= 0);
      ties++;
      ordered += order < 0;
    }
    for (uint32_t k = 0; status == PZ_OK && k < few.n; k++)
      assert_int_equal(by_complexity(&few.list[k].plan, &many.list[k].plan), 0);
    pz_arena_release(&arena);
  }
  print_message("  %d pairs of plans with the same time, %d of them told apart\n", ties, ordered);
  assert_true(ordered > 0);
}

/* ---- questions that have no answer ---------------------------------------------------------- */

static void refuses(struct random_case *c, const char *what) {
  struct pz_found_plans found;
  struct pz_arena arena;
  struct pz_error err = {0};
  pz_arena_init(&arena, NULL);
  assert_int_equal(pz_plan_search(&c->q, &arena, &found, &err), PZ_BAD_USE);
  if (!strstr(err.message, what)) fail_msg("%s", err.message);
  pz_arena_release(&arena);
}

static void questions_without_plans_are_errors(void **state) {
  (void)state;
  uint64_t r = 1;
  struct random_case c;
  random_case(&r, &c, 0);
  struct pz_plan_question q = c.q;
  c.q.tp = 7;
  refuses(&c, "no plan has these degrees");
  c.q = q;
  c.q.vpp = 5;
  refuses(&c, "no plan has these degrees");
  c.q = q;
  c.q.zero = 3;
  c.q.pp = c.q.dp = 2;
  c.q.common.framework = pz_framework_find("megatron");
  refuses(&c, "no plan has these degrees");
  c.q = q;
  c.q.devices = 0;
  refuses(&c, "accepted: 1 to 2^24");
  c.q = q;
  c.q.batch = 1 << 25;
  refuses(&c, "accepted: 1 to 2^24");
  c.q = q;
  c.q.top = 1001;
  refuses(&c, "at most 1000");
}

/* ---- no memory ------------------------------------------------------------------------------ */

static struct counter {
  atomic_long calls, live;
  long fail_at; /* negative: never */
} counter = {.fail_at = -1};

static void *take(void *ctx, size_t bytes) {
  struct counter *c = ctx;
  if (atomic_fetch_add(&c->calls, 1) == c->fail_at) return NULL;
  atomic_fetch_add(&c->live, 1);
  return malloc(bytes);
}

static void *resize(void *ctx, void *block, size_t bytes) {
  struct counter *c = ctx;
  if (atomic_fetch_add(&c->calls, 1) == c->fail_at) return NULL;
  atomic_fetch_add(&c->live, !block);
  return realloc(block, bytes);
}

static void give(void *ctx, void *block) {
  struct counter *c = ctx;
  atomic_fetch_add(&c->live, -1);
  free(block);
}

static enum pz_status search_failing(const struct random_case *c, long fail_at,
                                     struct pz_error *err) {
  struct pz_found_plans found;
  struct pz_arena arena;
  atomic_store(&counter.calls, 0);
  counter.fail_at = fail_at;
  pz_arena_init(&arena, NULL);
  enum pz_status status = pz_plan_search(&c->q, &arena, &found, err);
  pz_arena_release(&arena);
  counter.fail_at = -1;
  return status;
}

/* Every allocation in turn fails. */
static void failed_allocations_are_reported(void **state) {
  (void)state;
  uint64_t r = 9;
  for (int i = 0; i < 3; i++) {
    struct random_case c;
    random_case(&r, &c, 0);
    c.q.devices = 4;
    c.q.batch = 4;
    c.q.tp = c.kv_heads % 2 ? 1 : 2;
    c.q.mbs = 1;
    c.q.top = 3;
    long live = atomic_load(&counter.live);
    assert_int_equal(search_failing(&c, -1, NULL), PZ_OK);
    long calls = atomic_load(&counter.calls), step = pz_max(1, calls / pz_test_part(400));
    assert_int_equal(atomic_load(&counter.live), live);
    for (long k = 0; k < calls; k += step) {
      struct pz_error err = {0};
      assert_int_equal(search_failing(&c, k, &err), PZ_NO_MEMORY);
      assert_non_null(strstr(err.message, "out of memory"));
      assert_int_equal(atomic_load(&counter.live), live);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equals_brute_force),
      cmocka_unit_test(more_is_never_slower),
      cmocka_unit_test(pricing_has_no_memory),
      cmocka_unit_test(bounds_are_below_prices),
      cmocka_unit_test(published_plans_are_not_faster),
      cmocka_unit_test(threads_agree),
      cmocka_unit_test(the_simplest_of_equal_plans_comes_first),
      cmocka_unit_test(questions_without_plans_are_errors),
      cmocka_unit_test(failed_allocations_are_reported),
  };
  static const struct pz_allocator allocator = {take, resize, give, &counter};
  if (pz_alloc_use(&allocator, NULL) != PZ_OK) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
