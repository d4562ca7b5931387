/* The search for training plans: its best is the best of all plans of the space that the framework can run, listed here
 * one by one; of those within the tie none is simpler than the one it says; more devices, memory or bandwidth are never
 * slower; published plans are never faster; prices do not depend on what was priced before; bounds are below prices. */
#include "unit/core_borders.h"
#include "unit/testing.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "core/alloc.h"
#include "core/csv.h"
#include "core/file.h"
#include "core/num.h"
#include "cost/constants.h"
#include "place/plan_question.h"
#include "plan/framework_rules.h"

#include "plan/pipeline_order.h"
#include "plan/plan_fields.h"
#include "step/expected_error.h"
#include "step/recompute.h"
#include "step/run_table.h"
#include "step_borders.h"
#include "unit/chip_borders.h"
#include "unit/plan_borders.h"

/* ---- random questions ----------------------------------------------------------------------- */

struct random_case {
  char config[768];
  struct pz_chip chip;
  struct pz_cluster net;
  struct pz_plan_question q;
  int64_t layers, heads, kv_heads, experts, seq;
  bool hybrid;                   /* state-space layers */
  struct pz_constants constants; /* with much waiting, also of few devices, in some cases */
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

/* Mamba-2, attention, experts and feed-forwards one after another, or delta nets with every second layer attention. */
static void random_hybrid(uint64_t *r, struct random_case *c, int64_t dim, int64_t vocab,
                          int64_t seq) {
  char pattern[16] = "";
  bool delta = below(r, 3) == 0;
  for (int64_t i = 0; i < c->layers; i++) pattern[i] = "M*-E"[i < 2 ? i : below(r, 4)];
  if (!delta && strchr(pattern, 'E')) c->experts = 8;
  int n =
      snprintf(c->config, sizeof c->config,
               "{\"model_type\":\"%s\",\"hidden_size\":%lld,\"num_hidden_layers\":%lld,"
               "\"num_attention_heads\":%lld,\"num_key_value_heads\":%lld,\"head_dim\":%lld,"
               "\"intermediate_size\":%lld,\"vocab_size\":%lld,\"max_position_embeddings\":%lld,",
               delta ? "qwen3_5_text" : "nemotron_h", (long long)(c->heads * dim),
               (long long)c->layers, (long long)c->heads, (long long)c->kv_heads, (long long)dim,
               (long long)(3 * c->heads * dim), (long long)vocab, (long long)seq);
  char *end = c->config + n;
  size_t left = sizeof c->config - (size_t)n;
  if (delta)
    snprintf(end, left,
             "\"full_attention_interval\":2,\"linear_num_key_heads\":%lld,"
             "\"linear_num_value_heads\":%lld,\"linear_key_head_dim\":16,"
             "\"linear_value_head_dim\":32,\"linear_conv_kernel_dim\":4}",
             (long long)c->heads, (long long)(2 * c->heads));
  else
    snprintf(end, left,
             "\"hybrid_override_pattern\":\"%s\",\"mamba_num_heads\":%lld,\"mamba_head_dim\":32,"
             "\"ssm_state_size\":16,\"n_groups\":%lld,\"conv_kernel\":4,\"chunk_size\":64%s}",
             pattern, (long long)(2 * c->heads), (long long)c->heads,
             c->experts
                 ? ",\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_latent_size\":32,"
                   "\"moe_intermediate_size\":64,\"n_shared_experts\":1,"
                   "\"moe_shared_expert_intermediate_size\":64"
                 : "");
}

static void random_model(uint64_t *r, struct random_case *c) {
  static const int64_t heads[] = {2, 4, 6, 8}, seqs[] = {128, 256, 512, 1024};
  c->layers = 2 + below(r, 5);
  c->heads = c->kv_heads = pick(r, heads, 4);
  int64_t seq = pick(r, seqs, 4), dim = 16 << below(r, 3), hidden = c->heads * dim;
  int64_t vocab = 96 * (1 + below(r, 100));
  c->experts = 0;
  c->hybrid = below(r, 6) == 0;
  if (c->hybrid) {
    random_hybrid(r, c, dim, vocab, seq);
  } else if (below(r, 5) < 2) {
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
  c->seq = seq;
}

/* Most often one that the framework trains. */
static void random_trained_model(uint64_t *r, struct random_case *c, int framework) {
  bool trained = false;
  for (int i = 0; i < 20 && !trained; i++) {
    struct pz_model_shape shape;
    random_model(r, c);
    trained = try_parse_model_shape("small", c->config, strlen(c->config), &shape, NULL) != PZ_OK ||
              pz_framework_trains(framework, &shape, NULL) || !below(r, 20);
  }
}

static void random_machine(uint64_t *r, struct random_case *c) {
  static const char *const chips[] = {"a100-80", "h100", "b200"};
  struct pz_error err = {0};
  assert_int_equal(pz_test_chip_read(chips[below(r, 3)], &c->chip, &err), PZ_OK);
  if (below(r, 4) == 0)
    c->chip.correction = (struct pz_correction){.gemms = between(r, 0.6, 1.6),
                                                .attention = between(r, 0.6, 1.6),
                                                .elementwise = between(r, 0.6, 1.6),
                                                .launches = between(r, 0.6, 1.6),
                                                .collectives = between(r, 0.6, 1.6)};
  static const int64_t nodes[] = {2, 4, 8, 4, 8, 6};
  int64_t node = pick(r, nodes, 6);
  c->net = (struct pz_cluster){.name = "made up", .devices = 4096, .n_levels = 2, .scales = true};
  c->net.level[0] = (struct pz_level){.name = "node", .devices = node, .latency_s = 1e-6};
  c->net.level[1] = (struct pz_level){.name = "cluster", .devices = 4096, .latency_s = 5e-6};
  c->net.level[0].bytes_per_s = between(r, 1e10, 1e12);
  c->net.level[0].mesh = c->net.level[0].bytes_per_s > 4e11; /* some of them */
  c->net.level[1].bytes_per_s = between(r, 1e9, 1e11);
}

enum { LAUNCHABLE = 4, FRAMEWORKS = 10 };
static const char *const frameworks[FRAMEWORKS] = {
    "megatron", "nemo",    "torchtitan",  "deepspeed", /* these have launch scripts */
    "maxtext",  "hai-llm", "zero-bubble", "compiled",  "torch", "automodel"};

/* What every plan has: as the framework does it, or anything. */
static void random_common(uint64_t *r, const struct pz_chip *chip, int64_t layers,
                          struct pz_plan *p) {
  uint32_t executions = chip->execution == PZ_CHIP_STREAM ? PZ_EXECUTION_SERIAL : PZ_EXECUTIONS;
  if (!below(r, 3)) p->imbalance = between(r, 1, 2);
  if (below(r, 4)) p->overlap = (int)below(r, PZ_OVERLAP_ALL + 1);
  if (!below(r, 3)) p->execution = (int)below(r, executions);
  if (!below(r, 3)) p->grad_bytes = below(r, 2) ? 4 : 2;
  if (!below(r, 4)) p->attention = (int)below(r, 2);
  uint64_t own = *r + 1; /* the other draws stay as they are */
  if (!below(&own, 8)) p->moment_bytes = 2;
  if (!below(&own, 8)) p->main_params = PZ_MAIN_FP16;
  if (below(&own, 3)) return;
  static const int precisions[] = {PZ_PRECISION_FP8, PZ_PRECISION_NVFP4};
  int precision = precisions[below(&own, 2)];
  if (pz_chip_can_run(chip, (enum pz_precision)precision, NULL) != PZ_OK) return;
  p->precision = precision;
  if (precision == PZ_PRECISION_FP8 && below(&own, 2))
    p->fp8_recipe = (int)below(
        &own, chip->tensor.scale_block > 0 || pz_chip_has_nvfp4(chip) ? PZ_FP8_RECIPES : PZ_FP8_MX);
  if (!below(&own, 3)) p->bf16_layers = 1 + below(&own, (uint32_t)pz_min(layers, 4));
  if (!below(&own, 4)) p->act_precision = 1;
  if (!below(&own, 3) && p->bf16_layers < layers)
    p->bf16_first_layers = 1 + below(&own, (uint32_t)pz_min(layers - p->bf16_layers, 4));
}

#define PIN(id, field, v) (q->plan.field = (v), q->pinned |= PZ_PLAN_PIN(id))

static void random_pins(uint64_t *r, struct random_case *c, uint32_t pins) {
  struct pz_plan_question *q = &c->q;
  if (!below(r, pins)) PIN(TP, tp, 1 << below(r, 3));
  if (!below(r, pins)) PIN(SP, sp, (int)below(r, 2));
  if (!below(r, pins)) PIN(PP, pp, 1 + below(r, 4));
  if (!below(r, pins)) PIN(VPP, vpp, 1 + below(r, 2));
  if (!below(r, pins)) PIN(DP, dp, 1 + below(r, 4));
  if (below(r, 3)) PIN(MBS, mbs, 1 + below(r, 4)); /* each is a model to make */
  if (!below(r, pins)) PIN(ZERO, zero, (int)below(r, 4));
  if (!below(r, pins)) PIN(RECOMPUTE, recompute, (int)below(r, PZ_RECOMPUTATIONS));
  if (!below(r, 3 * pins)) PIN(PIPELINE, pipeline, (int)below(r, PZ_PIPELINES));
  if (!below(r, 2 * pins)) q->pinned |= PZ_PLAN_PIN(OVERLAP);
  if (!below(r, 3)) PIN(CP, cp, 1 << below(r, 3));
  if (!below(r, 3)) q->pinned &= ~PZ_PLAN_PIN(CP);
  q->pinned &= ~PZ_PLAN_PIN(EP);
  if (c->experts && !below(r, 4)) PIN(EP, ep, below(r, 2) ? 1 : 1 << below(r, 4));
  if (!below(r, 8)) q->plan.shard = 1 + below(r, (uint32_t)pz_min(q->plan.devices, 4));
}

/* What may be on the host, or has to be. */
static void random_offload(uint64_t *r, int64_t layers, struct pz_plan *p) {
  p->offload = (int)below(r, PZ_OFFLOAD_ALL + 1);
  bool away = p->offload & PZ_OFFLOAD_ACTIVATIONS;
  if (away && !below(r, 4)) p->offload_layers = 1 + below(r, (uint32_t)pz_min(layers, 3));
  if (away && !p->offload_layers && !below(r, 4))
    p->offload_modules = 1 + (int)below(r, PZ_AWAY_ALL);
  if (p->offload & PZ_OFFLOAD_OPTIMIZER && !below(r, 3)) p->offload_fraction = between(r, 0.1, 1);
}

/* A question to a framework; `pins`: one of so many fields is pinned; 0: none but cp and ep, to 1. */
static void random_case_of(uint64_t *r, struct random_case *c, int framework, uint32_t pins) {
  static const int64_t batches[] = {4, 6, 8, 12, 16, 24, 32, 48, 64};
  struct pz_plan p = pz_plan_default();
  struct pz_plan_question *q = &c->q;
  struct pz_error err = {0};
  static const char *const adapters[] = {"lora:8:all", "lora:4:attention", "lora:16:linear_fc2"};
  p.framework = framework;
  random_trained_model(r, c, framework);
  /* any model has linear_fc2 but one of hybrid layers */
  if (pz_framework_at(framework)->adapters && !below(r, 3))
    p.peft = adapters[below(r, c->hybrid ? 2 : 3)];
  random_machine(r, c);
  random_common(r, &c->chip, c->layers, &p);
  p.seq = c->seq;
  p.devices = 1 + below(r, 32);
  p.batch = pick(r, batches, 9);
  struct pz_job job = {.model = "small", .config = c->config, .chip = &c->chip, .net = &c->net};
  c->constants = pz_constants_default;
  if (c->net.level[1].bytes_per_s > 3e10) c->constants.waiting = 0.3, c->constants.waiting_from = 3;
  job.constants = &c->constants;
  if (try_make_question(&job, &p, 0, q, &err) != PZ_OK) fail_msg("%s", err.message);
  q->threads = 1;
  PIN(CP, cp, 1);
  PIN(EP, ep, 1);
  if (!pins) return;
  random_pins(r, c, pins);
  if (!below(r, 3)) random_offload(r, c->layers, &q->plan);
  q->uniform = !below(r, 3);
  q->all_devices = !below(r, 6);
  q->only_even = !below(r, 8);
  q->objective = (enum pz_plan_objective)below(r, PZ_PLAN_OBJECTIVES);
  q->tie = below(r, 2) ? 0.01 : below(r, 2) ? 0.1 : 0;
  q->top = below(r, 3) ? 1 : 4;
  uint64_t own = *r + 2; /* the other draws stay as they are */
  q->counts_risk = below(&own, 2);
  q->searches_features = below(&own, 3) == 0;
  if (q->objective == PZ_PLAN_TIME && below(&own, 2)) q->n_alternatives = PZ_PLAN_KINDS;
  if (!q->searches_features) return;
  if (below(&own, 4) == 0)
    q->fixed_features = below(&own, 2) ? PZ_PLAN_PIN(DISPATCHER) : PZ_PLAN_PIN(CUDA_GRAPHS);
  if (below(&own, 4) == 0) q->without = (int)below(&own, 16);
  q->plan.overlap = pz_framework_overlaps(framework, q->without);
}

static void random_case(uint64_t *r, struct random_case *c, uint32_t pins) {
  random_case_of(r, c, pz_framework_find(frameworks[below(r, FRAMEWORKS)]), pins);
}

/* ---- every plan ----------------------------------------------------------------------------- */

/* How simple a plan is, the most important number first: kinds of parallelism, degrees, order, division, recomputation,
 * microbatch, ZeRO. */
enum { SIMPLE = 13 };

static struct pz_feature_context features_of(const struct random_case *c) {
  return (struct pz_feature_context){.experts = c->experts > 0,
                                     .scans = c->hybrid,
                                     .layers = c->layers,
                                     .node = pz_min(c->net.level[0].devices, c->q.plan.devices)};
}

static struct pz_risk risk_of(const struct random_case *c) {
  const struct pz_plan_question *q = &c->q;
  struct pz_feature_context f = features_of(c);
  struct pz_risk_question of = {.chip = &c->chip,
                                .net = q->plan.devices > f.node ? &c->net : NULL,
                                .experts = f.experts,
                                .precision = q->plan.precision,
                                .devices = q->plan.devices,
                                .seq = c->seq};
  return pz_risk_built_in(&of);
}

static int64_t unseen_of(const struct random_case *c, const struct pz_plan *p) {
  struct pz_feature_context f = features_of(c);
  struct pz_risk r = risk_of(c);
  return c->q.counts_risk ? pz_risk_unseen(&r, pz_plan_features(p, &f), NULL) : 0;
}

struct simplicity {
  int64_t v[SIMPLE];
};

static struct simplicity simplicity_of(const struct random_case *c, const struct pz_plan *p) {
  int64_t layers = c->layers;
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(p);
  int64_t rank[PZ_RECOMPUTATIONS] = {0, 1, 4, 2, 3}, recomputed = 0, how = rank[p->recompute];
  if (p->recompute == PZ_RECOMPUTATION_FULL) {
    for (int64_t j = 0; j < p->pp * p->vpp; j++)
      recomputed += pz_plan_recomputed_layers(p, pz_pipeline_stage_of(&shape, (uint32_t)j),
                                              pz_plan_chunk_layers(p, layers, j));
    if (!recomputed) how = 0;
  }
  int64_t away = 0;
  for (int64_t j = 0; p->offload & PZ_OFFLOAD_ACTIVATIONS && j < p->pp * p->vpp; j++) {
    int64_t n = pz_plan_chunk_layers(p, layers, j);
    away += p->offload_layers ? pz_min(p->offload_layers, n) : n;
  }
  int64_t part = p->offload & PZ_OFFLOAD_OPTIMIZER ? (int64_t)(1e6 * p->offload_fraction) : 0;
  int64_t kinds = (p->tp > 1) + (p->cp > 1) + (p->ep > 1) + (p->pp > 1);
  bool plain = p->pipeline == PZ_PIPELINE_1F1B || p->pipeline == PZ_PIPELINE_INTERLEAVED;
  return (struct simplicity){{unseen_of(c, p), kinds, p->tp * p->cp * p->pp, p->ep, p->vpp, !plain,
                              p->first_layers || p->last_layers, how, recomputed, part, away,
                              p->mbs, p->zero}};
}

static int compare_simplicity(const struct simplicity *a, const struct simplicity *b) {
  for (int i = 0; i < SIMPLE; i++)
    if (a->v[i] != b->v[i]) return a->v[i] < b->v[i] ? -1 : 1;
  return 0;
}

/* A plan that fits. */
struct priced {
  double value, step_s;
  int kind;
  struct simplicity simplicity;
};

/* The plans of a question, listed from the text of plan_question.h. */
struct listing {
  struct random_case *c;
  struct pz_model_shape shape;
  struct pz_step_model *m; /* of the plans with this tp, cp, ep, sp and mbs */
  double hbm_bytes;
  uint64_t plans;
  double *values; /* of plans that fit, one for each recomputation */
  uint32_t n, cap;
  struct priced *priced; /* every one that fits, with every recomputation */
  uint32_t n_priced, cap_priced;
  double least_bytes;
  int without; /* overlap that plans at hand have not though they can */
  uint64_t *random;
};

static double usable_bytes(const struct pz_chip *chip) {
  return pz_usable_bytes(chip, &pz_constants_default);
}

/* Counted time by what a prediction says of its own error, which is told of each plan anew. */
static double value_by(const struct random_case *c, const struct pz_plan *p,
                       const struct pz_prediction *x) {
  const struct pz_plan_question *q = &c->q;
  double s = x->step_s;
  if (q->objective == PZ_PLAN_MEMORY) return x->needed_bytes;
  if (q->counts_risk) {
    struct pz_feature_context f = features_of(c);
    struct pz_risk r = risk_of(c);
    s *= 1 + pz_risk_error(&r, pz_plan_features(p, &f));
  }
  return q->objective == PZ_PLAN_COST ? s * (double)pz_plan_devices(p) : s;
}

/* What is sought of the plan, HUGE_VAL where it does not fit; now and then by a model of its own. */
static double value_of(struct listing *l, const struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  struct pz_prediction x, y;
  struct pz_error err = {0};
  if (try_step_price(l->m, p, &x, &err) != PZ_OK) fail_msg("%s", err.message);
  if (below(l->random, 200) == 0) {
    if (try_predict(&q->job, p, &y, &err) != PZ_OK) fail_msg("%s", err.message);
    assert_true(x.step_s == y.step_s && x.needed_bytes == y.needed_bytes);
  }
  if (x.host_bytes > x.usable_host_bytes) return HUGE_VAL;
  l->least_bytes = fmin(l->least_bytes, x.needed_bytes);
  if (x.needed_bytes > l->hbm_bytes) return HUGE_VAL;
  if (l->n_priced == l->cap_priced) {
    l->cap_priced = 2 * l->cap_priced + 256;
    l->priced = realloc(l->priced, l->cap_priced * sizeof *l->priced);
    assert_non_null(l->priced);
  }
  double value = value_by(l->c, p, &x);
  l->priced[l->n_priced++] =
      (struct priced){value, x.step_s, pz_plan_kind(p), simplicity_of(l->c, p)};
  return value;
}

/* The overlap that the framework has for such a plan, unless one is asked for; can it run the plan? */
static bool can_run(const struct listing *l, struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  p->devices = pz_plan_devices(p);
  p->overlap = q->plan.overlap;
  if (!(q->pinned & PZ_PLAN_PIN(OVERLAP))) p->overlap = pz_framework_overlap(p, &l->shape);
  if ((pz_plan_effective_overlap(p) & l->without) != l->without) return false;
  p->overlap &= ~l->without;
  return pz_framework_can_run(p, &l->shape, NULL);
}

/* The most layers that a chunk of the stage has. */
static int64_t most_layers(const struct listing *l, const struct pz_plan *p, int64_t stage) {
  bool v = p->pipeline == PZ_PIPELINE_ZB_V || p->pipeline == PZ_PIPELINE_DUALPIPE_V;
  int64_t most = 0;
  for (int64_t c = 0; c < p->vpp; c++) {
    int64_t chunk = v && c ? 2 * p->pp - 1 - stage : c * p->pp + stage;
    most = pz_max(most, pz_plan_chunk_layers(p, l->c->layers, chunk));
  }
  return most;
}

/* The next numbers of layers by stage, or of all stages alike; false: there are no more. */
static bool next_layers(const struct pz_plan *p, bool alike, const int64_t *most, int64_t *layers) {
  int64_t k = 0, all = 0, n = layers[0] + 1;
  for (int64_t i = 0; i < p->pp; i++) all = pz_max(all, most[i]);
  if (alike)
    for (; k < p->pp; k++) layers[k] = n;
  else
    while (k < p->pp && ++layers[k] > most[k]) layers[k++] = 0;
  return alike ? n <= all : k < p->pp;
}

/* Full recomputation: every number of layers of each stage that the framework can run, or of all stages alike; and
 * none, where that fits. */
static double value_of_full(struct listing *l, struct pz_plan p) {
  int64_t layers[16] = {0}, most[16];
  bool alike = l->c->q.uniform || p.pipeline == PZ_PIPELINE_DUALPIPE;
  double best = HUGE_VAL;
  for (int64_t k = 0; k < p.pp; k++) most[k] = most_layers(l, &p, k);
  p.recompute = PZ_RECOMPUTATION_NONE;
  assert_true(pz_framework_can_run(&p, &l->shape, NULL));
  for (bool more = true; more; more = next_layers(&p, alike, most, layers)) {
    if (pz_framework_can_run(&p, &l->shape, NULL)) best = fmin(best, value_of(l, &p));
    p.recompute = PZ_RECOMPUTATION_FULL;
    p.stage_recompute = layers;
    p.n_stage_recompute = p.pp;
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

/* Half of the layers are in the space where the framework has no number of layers to choose. */
static bool has_half(const struct listing *l, const struct pz_plan *p) {
  struct pz_plan one = *p;
  one.pp = one.vpp = 1;
  one.first_layers = one.last_layers = 0;
  return l->c->q.pinned & PZ_PLAN_PIN(RECOMPUTE) ||
         pz_framework_recompute_form(&one) == PZ_RECOMPUTE_ALL;
}

/* Activations of 1 to all layers of each chunk on the host, as far as the framework can run it: fewer are never slower, so
 * that the fewest that fit count alone, but for the least memory. */
static double value_of_away(struct listing *l, struct pz_plan p) {
  int64_t most = 0;
  double best = HUGE_VAL;
  for (int64_t k = 0; k < p.pp; k++) most = pz_max(most, most_layers(l, &p, k));
  for (int64_t n = 1; n <= most; n++) {
    p.offload_layers = n < most ? n : 0;
    double v = pz_framework_can_run(&p, &l->shape, NULL) ? value_of(l, &p) : HUGE_VAL;
    bool first = best == HUGE_VAL;
    if (v < HUGE_VAL && !first && l->c->q.objective != PZ_PLAN_MEMORY) {
      assert_true(v >= best);
      l->n_priced--;
    } else {
      best = fmin(best, v);
    }
  }
  return best;
}

/* May it run with activations of one layer, or of all, on the host? */
static bool can_run_away(const struct listing *l, struct pz_plan *p, bool chooses) {
  struct pz_plan one = *p;
  one.offload_layers = 1;
  return can_run(l, p) || (chooses && can_run(l, &one));
}

/* One replica has nothing to shard: ZeRO 1 counts where the framework cannot run the plan without or has moments of fewer
 * bits or 8-bit weights alone with it, further stages never. */
static bool shards_in_vain(const struct listing *l, const struct pz_plan *p, bool chooses) {
  struct pz_plan whole = *p;
  whole.zero = 0;
  return p->zero && p->dp * p->cp == 1 && pz_plan_expert_replicas(p) == 1 &&
         !(l->c->q.pinned & PZ_PLAN_PIN(ZERO)) &&
         (p->zero > 1 ||
          (can_run_away(l, &whole, chooses) &&
           !(strcmp(pz_plan_framework(p)->name, "nemo") == 0 && pz_plan_keeps_8bit_weights(p)) &&
           pz_plan_moment_bytes(p, l->c->experts) == pz_plan_moment_bytes(&whole, l->c->experts)));
}

/* Every recomputation, with and without activations on the host where these may be there, for a part of the optimizer there;
 * with less time or cost asked for, those of plans that fit without are no candidates of the list: they are slower, which
 * is seen by some of them. */
static void list_recomputations(struct listing *l, struct pz_plan *p, bool away, bool first,
                                bool *fits) {
  const struct pz_plan_question *q = &l->c->q;
  bool pinned = q->plan.offload_layers || q->plan.offload_modules, chooses = away && !pinned;
  for (int r = 0; r < PZ_RECOMPUTATIONS; r++) {
    p->recompute = r;
    p->recompute_layers = 0;
    p->stage_recompute = NULL;
    if (!PZ_PLAN_ALLOWS(q, RECOMPUTE, recompute, r) || !can_run_away(l, p, chooses)) continue;
    if (shards_in_vain(l, p, chooses)) continue;
    if (r == PZ_RECOMPUTATION_HALF && !has_half(l, p)) continue;
    l->plans++;
    bool slower = *fits && q->objective != PZ_PLAN_MEMORY;
    if (slower && below(l->random, 4)) continue;
    /* full recomputation of some layers, or none: with activations on the host where a chunk has no more than one */
    bool some = !away || pz_framework_recompute_form(p) != PZ_RECOMPUTE_ALL;
    double v = chooses                              ? value_of_away(l, *p)
               : r == PZ_RECOMPUTATION_FULL && some ? value_of_full(l, *p)
                                                    : value_of(l, p);
    if (!slower) add_value(l, v);
    if (r == PZ_RECOMPUTATION_NONE && first && !(q->pinned & PZ_PLAN_PIN(RECOMPUTE)))
      *fits = v < HUGE_VAL;
  }
}

static void list_ways_with(struct listing *l, struct pz_plan *p) {
  const struct pz_plan *q = &l->c->q.plan;
  bool optimizer = q->offload & PZ_OFFLOAD_OPTIMIZER, fits = false;
  for (int part = 0; part <= (optimizer ? 4 : 0); part++) {
    double fraction = q->offload_fraction > 0 ? q->offload_fraction : part / 4.0;
    if (part && q->offload_fraction > 0) break;
    for (int away = 0; away <= (q->offload & PZ_OFFLOAD_ACTIVATIONS); away++) {
      if (!away && (q->offload_layers || q->offload_modules)) continue;
      p->offload = away | (fraction > 0 ? (int)PZ_OFFLOAD_OPTIMIZER : 0);
      p->offload_layers = away ? q->offload_layers : 0;
      p->offload_modules = away ? q->offload_modules : 0;
      p->offload_fraction = fraction;
      list_recomputations(l, p, away, !part && !away, &fits);
    }
  }
}

/* With each part of the overlap that the framework has for such a plan. */
static void list_ways(struct listing *l, struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  static const int parts[] = {0, PZ_OVERLAP_EP, PZ_OVERLAP_TP, PZ_OVERLAP_EP | PZ_OVERLAP_TP};
  bool some = q->searches_features && q->counts_risk && !(q->pinned & PZ_PLAN_PIN(OVERLAP));
  for (int i = 0; i < (some ? 4 : 1); i++) {
    l->without = parts[i];
    list_ways_with(l, p);
  }
  if (!some && q->searches_features && !(q->pinned & PZ_PLAN_PIN(OVERLAP)) &&
      !below(l->random, 4)) {
    uint64_t plans = l->plans; /* none of these is better than one with all overlap */
    uint32_t n = l->n;
    l->without = parts[1 + below(l->random, 3)];
    list_ways_with(l, p);
    l->plans = plans;
    l->n = n;
  }
  l->without = 0;
}

/* All pairs of layers for the first and the last chunk that the space has. */
static void list_divisions(struct listing *l, struct pz_plan *p) {
  int64_t n = p->pp * p->vpp, least = (l->c->layers + n - 1) / n;
  p->first_layers = p->last_layers = 0;
  int64_t first = pz_plan_chunk_layers(p, l->c->layers, 0),
          last = pz_plan_chunk_layers(p, l->c->layers, n - 1);
  list_ways(l, p);
  for (int64_t f = 1; f < l->c->layers && n > 1 && !l->c->q.only_even; f++)
    for (int64_t e = 1; f + e <= l->c->layers; e++) {
      int64_t rest = l->c->layers - f - e, m = n > 2 ? rest / (n - 2) : 0;
      if (n == 2 ? rest != 0 : rest % (n - 2) != 0 || m < least || m > least + 1) continue;
      if (n > 2 && (f > m || e > m)) continue;
      if (f == first && e == last) continue;
      p->first_layers = f;
      p->last_layers = e;
      list_ways(l, p);
    }
}

static void list_zero(struct listing *l, struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  for (p->zero = 0; p->zero <= 3; p->zero++)
    if (PZ_PLAN_ALLOWS(q, ZERO, zero, p->zero)) list_divisions(l, p);
}

/* Orders of so many chunks and microbatches; one stage has no order. */
static bool has_order(const struct pz_plan_question *q, const struct pz_plan *p, int64_t layers) {
  int64_t microbatches = q->plan.batch / (p->mbs * p->dp), n = p->pp * p->vpp;
  bool even = layers % n == 0 || (layers + 2) % n == 0;
  if (!PZ_PLAN_ALLOWS(q, PIPELINE, pipeline, p->pipeline)) return false;
  if (p->vpp > 1 && (p->pp == 1 || !even || n > layers + 2)) return false;
  switch (p->pipeline) {
  case PZ_PIPELINE_1F1B: return p->vpp == 1;
  case PZ_PIPELINE_INTERLEAVED: return p->vpp > 1 && microbatches % p->pp == 0;
  case PZ_PIPELINE_GPIPE: return p->pp > 1 && p->vpp == 1 && q->pinned & PZ_PLAN_PIN(PIPELINE);
  case PZ_PIPELINE_ZB_V: return p->vpp == 2;
  case PZ_PIPELINE_DUALPIPE_V: return p->vpp == 2 && microbatches >= 2 * p->pp;
  case PZ_PIPELINE_DUALPIPE:
    return p->pp > 1 && p->vpp == 1 && p->pp % 2 == 0 && microbatches % 2 == 0 &&
           microbatches >= 2 * p->pp;
  default: return p->pp > 1 && p->vpp == 1;
  }
}

static void list_stages(struct listing *l, struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  for (p->vpp = 1; p->vpp <= l->c->layers + 2; p->vpp++)
    for (p->pipeline = 0; p->pipeline < PZ_PIPELINES; p->pipeline++)
      if (PZ_PLAN_ALLOWS(q, VPP, vpp, p->vpp) && has_order(q, p, l->c->layers)) list_zero(l, p);
}

static void list_grids(struct listing *l, struct pz_plan *p) {
  const struct pz_plan_question *q = &l->c->q;
  int64_t node = l->c->net.level[0].devices, part = node == 6 ? 4 : node, all = q->plan.devices,
          n = all % node ? all / part : all / node;
  for (p->pp = 1; p->pp <= l->c->layers; p->pp++)
    for (p->dp = 1; p->dp <= p->batch; p->dp++) {
      int64_t devices = p->tp * p->cp * p->pp * p->dp;
      bool whole =
          devices <= node || devices % node == 0 || (devices % part == 0 && devices / part <= n);
      if (!PZ_PLAN_ALLOWS(q, PP, pp, p->pp) || !PZ_PLAN_ALLOWS(q, DP, dp, p->dp) ||
          p->batch % (p->mbs * p->dp))
        continue;
      if (devices > all || !(whole || devices == all)) continue;
      if (!whole && all > node) continue;
      if (q->all_devices && devices != all) continue;
      if (p->tp * p->cp * p->dp % (p->ep * pz_plan_etp(p))) continue;
      list_stages(l, p);
    }
}

/* All plans with one size of a microbatch and of the groups. */
static void list_shape(struct listing *l, struct pz_plan p) {
  const struct pz_plan_question *q = &l->c->q;
  struct pz_error err = {0};
  if (!PZ_PLAN_ALLOWS(q, TP, tp, p.tp) || !PZ_PLAN_ALLOWS(q, MBS, mbs, p.mbs)) return;
  if (p.tp > 1 && !PZ_PLAN_ALLOWS(q, SP, sp, p.sp)) return;
  int64_t kv = l->c->kv_heads;
  if (l->c->heads % p.tp || (kv % p.tp && p.tp % kv) || p.batch % p.mbs) return;
  if (p.tp * p.cp > q->plan.devices || (p.sp && p.seq / p.cp % p.tp)) return;
  if (p.cp > 1 && (p.seq % (2 * p.cp) || p.attention != PZ_ATTENTION_FLASH)) return;
  if (try_step_model_new(&q->job, &p, &l->m, &err) != PZ_OK) return;
  list_grids(l, &p);
  pz_step_model_free(l->m);
}

/* Every dispatcher that the framework has on such a chip, with and without CUDA graphs. */
static void list_switches(struct listing *l, struct pz_plan p) {
  const struct pz_plan_question *q = &l->c->q;
  unsigned dispatchers = 1U << p.dispatcher;
  int modules = 0;
  if (q->searches_features && !(q->fixed_features & PZ_PLAN_PIN(DISPATCHER)) && p.ep > 1)
    dispatchers |= pz_framework_dispatchers(p.framework, &l->c->chip, q->without);
  if (q->searches_features && !(q->fixed_features & PZ_PLAN_PIN(CUDA_GRAPHS)))
    modules = pz_framework_graph_modules(p.framework, &l->c->chip, &l->shape, q->without);
  for (int graphs = 0; graphs <= (modules > 0); graphs++)
    for (int d = 0; d < PZ_DISPATCHERS; d++) {
      if (!(dispatchers >> d & 1)) continue;
      struct pz_plan one = p;
      one.dispatcher = d;
      if (graphs) one.cuda_graphs = modules;
      list_shape(l, one);
    }
}

/* Experts on as many devices as there are, or on a power of two. */
static void list_experts(struct listing *l, struct pz_plan p) {
  int64_t experts = pz_max(l->c->experts, 1);
  for (p.ep = 1; p.ep <= experts; p.ep++)
    if (experts % p.ep == 0 && ((p.ep & (p.ep - 1)) == 0 || p.ep == experts) &&
        PZ_PLAN_ALLOWS(&l->c->q, EP, ep, p.ep))
      list_switches(l, p);
}

/* One stage, one replica. */
static struct pz_plan plain_plan(const struct pz_plan_question *q) {
  struct pz_plan p = q->plan;
  p.tp = p.cp = p.ep = p.mbs = p.pp = p.vpp = p.dp = 1;
  p.sp = p.zero = 0;
  p.pipeline = PZ_PIPELINE_1F1B;
  p.recompute = PZ_RECOMPUTATION_NONE;
  return p;
}

static void list_all(struct listing *l) {
  const struct pz_plan_question *q = &l->c->q;
  struct pz_plan p = plain_plan(q);
  struct pz_error err = {0};
  if (try_step_model_new(&q->job, &p, &l->m, &err) != PZ_OK) fail_msg("%s", err.message);
  l->shape = try_describe_model(q->job.model, q->job.config, l->m->workload, l->m->n_blocks);
  pz_step_model_free(l->m);
  if (!pz_framework_trains(p.framework, &l->shape, NULL)) return;
  int64_t node = l->c->net.level[0].devices;
  for (p.tp = 1; p.tp <= pz_max(node, q->pinned & PZ_PLAN_PIN(TP) ? q->plan.tp : 1); p.tp++)
    for (p.cp = 1; p.cp <= 32; p.cp *= 2)
      for (p.mbs = 1; p.mbs <= p.batch; p.mbs++)
        for (p.sp = 0; p.sp <= (p.tp > 1); p.sp++)
          if (PZ_PLAN_ALLOWS(q, CP, cp, p.cp)) list_experts(l, p);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* ---- the best of all ------------------------------------------------------------------------ */

static double found_value(const struct random_case *c, const struct pz_found_plan *f) {
  return value_by(c, &f->plan, &f->p);
}

/* HBM so that some plans fit and others do not, or none: between the least that a plan needs and what the best needs. */
static void shrink_memory(uint64_t *r, struct random_case *c) {
  struct pz_plan_question q = c->q;
  struct pz_found_plans least, best;
  struct pz_arena arena;
  q.top = 1;
  pz_arena_init(&arena);
  q.objective = PZ_PLAN_MEMORY;
  enum pz_status status = try_find_plans(&q, &arena, &least, NULL);
  q.objective = PZ_PLAN_TIME;
  if (status == PZ_OK) status = try_find_plans(&q, &arena, &best, NULL);
  if (status == PZ_OK && least.n && best.n) {
    double low = least.list[0].p.needed_bytes, high = best.list[0].p.needed_bytes;
    double bytes = below(r, 5) ? low + (high - low) * below(r, 1000) / 1000 : 0.99 * low;
    c->chip.hbm.bytes_per_stack =
        (int64_t)((bytes + pz_reserved_bytes(&c->chip, &pz_constants_default)) /
                  (double)c->chip.hbm.stacks) +
        1;
    uint64_t own = *r;
    if (least.list[0].p.host_bytes > 0 && below(&own, 2)) /* some of it has room on the host */
      c->chip.host_bytes =
          between(&own, 0.1, 1.2) * least.list[0].p.host_bytes / pz_constants_default.host_job_part;
  }
  pz_arena_release(&arena);
}

struct tally {
  int none, tight, wrong, experts, answered, simpler;
  uint64_t plans;
};

static void tell_case(int i, const struct random_case *c) {
  const struct pz_plan_question *q = &c->q;
  print_message(
      "case %d: %s, %lld devices in %lld, batch %lld, %s, counted %d, switches %d, uniform %d, tie "
      "%g, shard %lld;",
      i, c->config, (long long)q->plan.devices, (long long)c->net.level[0].devices,
      (long long)q->plan.batch, pz_plan_objective_names[q->objective], q->counts_risk,
      q->searches_features, q->uniform, q->tie, (long long)q->plan.shard);
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    static const uint64_t common =
        PZ_PLAN_PIN(FRAMEWORK) | PZ_PLAN_PIN(OVERLAP) | PZ_PLAN_PIN(EXECUTION) |
        PZ_PLAN_PIN(ATTENTION) | PZ_PLAN_PIN(PRECISION) | PZ_PLAN_PIN(FP8_RECIPE) |
        PZ_PLAN_PIN(BF16_LAYERS) | PZ_PLAN_PIN(OFFLOAD) | PZ_PLAN_PIN(OFFLOAD_LAYERS) |
        PZ_PLAN_PIN(OFFLOAD_MODULES) | PZ_PLAN_PIN(OFFLOAD_FRACTION) | PZ_PLAN_PIN(PEFT) |
        PZ_PLAN_PIN(MOMENT_BYTES) | PZ_PLAN_PIN(MAIN_PARAMS);
    char text[PZ_FIELD_TEXT_MOST];
    if ((q->pinned | common) >> f & 1)
      print_message(" %s%s %s", pz_plan_field((enum pz_plan_field)f)->name,
                    q->pinned >> f & 1 ? "" : " (common)",
                    pz_plan_field_text(&q->plan, (enum pz_plan_field)f, text, sizeof text));
  }
  print_message("\n");
}

static bool same_value(double a, double b) { return fabs(a - b) <= 1e-12 * fabs(b); }

/* Compare what was found with the list; false: they differ. */
static bool agrees(const struct listing *l, enum pz_status status,
                   const struct pz_found_plans *found) {
  const struct pz_plan_question *q = &l->c->q;
  if (!l->plans) return status == PZ_BAD_USE || status == PZ_NO_ANSWER;
  if (status != PZ_OK) return print_message("refused: %lld plans\n", (long long)l->plans), false;
  const struct pz_plan_certificate *c = &found->certificate;
  if (c->plans != l->plans || c->plans != c->solved + c->by_bound + c->by_memory || c->gap != 0)
    return print_message("%lld plans, %lld in the certificate\n", (long long)l->plans,
                         (long long)c->plans),
           false;
  if (found->n != pz_min(l->n, q->top))
    return print_message("%u plans fit, %u found\n", l->n, found->n), false;
  if (!l->n && l->least_bytes == HUGE_VAL) return !found->has_least; /* the host holds none */
  if (!l->n && !(found->has_least && same_value(found->least.p.needed_bytes, l->least_bytes)))
    return print_message("the least is %.12g bytes, found %.12g\n", l->least_bytes,
                         found->has_least ? found->least.p.needed_bytes : 0),
           false;
  if (!l->n) return true;
  for (uint32_t i = 0; i < found->n; i++) {
    const struct pz_plan *p = &found->list[i].plan;
    if (!same_value(found_value(l->c, &found->list[i]), l->values[i]))
      return print_message("number %u of the best: %.12g, found %.12g\n", i, l->values[i],
                           found_value(l->c, &found->list[i])),
             false;
    if (p->recompute && !simplicity_of(l->c, p).v[7])
      return print_message("number %u of the best recomputes no layer in full\n", i), false;
  }
  return !found->has_least;
}

/* Nothing that was priced is better than the best, or simpler than the simplest of those within the tie. */
static bool is_simplest(const struct listing *l, const struct pz_found_plans *found) {
  const struct pz_plan_question *q = &l->c->q;
  const struct pz_found_plan *own = &found->simplest;
  double best = found_value(l->c, &found->list[0]), tie = q->objective == PZ_PLAN_TIME ? q->tie : 0;
  struct simplicity simplest = simplicity_of(l->c, &own->plan), least = simplest;
  if (found_value(l->c, own) > best * (1 + tie) || own->p.needed_bytes > l->hbm_bytes)
    return print_message("simplest: %.12g, best %.12g\n", found_value(l->c, own), best), false;
  for (uint32_t i = 0; i < l->n_priced; i++) {
    const struct priced *x = &l->priced[i];
    if (x->value < best * (1 - 1e-12))
      return print_message("best %.12g, priced %.12g\n", best, x->value), false;
    if (tie > 0 && x->value <= best * (1 + tie) * (1 - 1e-12) &&
        compare_simplicity(&x->simplicity, &least) < 0)
      least = x->simplicity;
  }
  if (compare_simplicity(&least, &simplest) == 0) return true;
  print_message("simplest:");
  for (int i = 0; i < SIMPLE; i++)
    print_message(" %lld (%lld)", (long long)simplest.v[i], (long long)least.v[i]);
  return print_message("\n"), false;
}

/* Of each other kind whose plans are not too slow, the best is found, in order; checked where that is asked for. */
static bool has_kinds(const struct listing *l, const struct pz_found_plans *found) {
  double best[PZ_PLAN_KINDS], before = 0;
  uint32_t n = 0;
  if (!l->c->q.n_alternatives) return found->n_kinds == 0;
  for (int k = 0; k < PZ_PLAN_KINDS; k++) best[k] = HUGE_VAL;
  for (uint32_t i = 0; i < l->n_priced; i++) {
    const struct priced *x = &l->priced[i];
    if (x->step_s < 1.25 * found->list[0].p.step_s) best[x->kind] = fmin(best[x->kind], x->value);
  }
  best[pz_plan_kind(&found->simplest.plan)] = HUGE_VAL;
  for (int k = 0; k < PZ_PLAN_KINDS; k++) n += best[k] < HUGE_VAL;
  if (found->n_kinds != n) return print_message("%u kinds, found %u\n", n, found->n_kinds), false;
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_found_plan *f = &found->list[found->n + i];
    double value = found_value(l->c, f), right = best[pz_plan_kind(&f->plan)];
    if (!same_value(value, right) || value < before)
      return print_message("kind %d: %.12g, found %.12g\n", pz_plan_kind(&f->plan), right, value),
             false;
    before = value;
  }
  return true;
}

/* The plan itself, by a model of its own. */
static bool predicts(const struct pz_plan_question *q, const struct pz_found_plan *f) {
  struct pz_prediction p;
  struct pz_error err = {0};
  if (try_predict(&q->job, &f->plan, &p, &err) != PZ_OK) return false;
  return p.step_s == f->p.step_s && p.peak_bytes == f->p.peak_bytes && p.mfu == f->p.mfu;
}

static void compare_listing(uint64_t *r, int i, struct random_case *c, struct tally *t) {
  struct pz_found_plans found = {0};
  struct pz_arena arena;
  struct pz_error err = {0};
  struct listing l = {
      .c = c, .hbm_bytes = usable_bytes(&c->chip), .least_bytes = HUGE_VAL, .random = r};
  list_all(&l);
  if (l.n) qsort(l.values, l.n, sizeof *l.values, ascending);
  pz_arena_init(&arena);
  enum pz_status status = try_find_plans(&c->q, &arena, &found, &err);
  bool good = agrees(&l, status, &found), answered = status == PZ_OK && found.n;
  if (good && status == PZ_OK && (found.n || found.has_least))
    good = predicts(&c->q, found.n ? &found.list[found.n - 1] : &found.least);
  if (good && answered)
    good = is_simplest(&l, &found) && predicts(&c->q, &found.simplest) && has_kinds(&l, &found);
  if (!good) {
    tell_case(i, c);
    if (status != PZ_OK) print_message("%s\n", err.message);
    t->wrong++;
  }
  t->plans += l.plans;
  t->experts += l.plans && c->experts > 0;
  t->none += status == PZ_OK && !l.n;
  t->tight += status == PZ_OK && found.certificate.by_memory > 0;
  t->answered += answered;
  t->simpler += answered && found.simplest.p.step_s != found.list[0].p.step_s;
  free(l.values);
  free(l.priced);
  pz_arena_release(&arena);
}

static void one_listing(uint64_t *r, int i, int framework, struct tally *t) {
  struct random_case c;
  random_case_of(r, &c, framework, below(r, 2) ? 3 : 6);
  if (below(r, 2)) shrink_memory(r, &c);
  compare_listing(r, i, &c, t);
}

/* So many questions of each framework that have an answer, and as many without as come between; more of those that have
 * launch scripts.  PHAZE_TEST_SEED=N draws others. */
static void equals_brute_force(void **state) {
  (void)state;
  const char *seed = getenv("PHAZE_TEST_SEED");
  uint64_t r = seed ? strtoull(seed, NULL, 10) : 20;
  int n = pz_test_part(600), wrong = 0;
  for (int f = 0; f < FRAMEWORKS; f++) {
    struct tally t = {0};
    int answered = f < LAUNCHABLE ? n / 6 : n / 15, i = 0;
    for (; t.answered < answered && i < 60 * answered; i++)
      one_listing(&r, i, pz_framework_find(frameworks[f]), &t);
    print_message("  %s: %d of %d cases have an answer, %d have experts, %lld plans; memory "
                  "binds in %d, nothing fits in %d; in %d another plan is simpler; %d differ\n",
                  frameworks[f], t.answered, i, t.experts, (long long)t.plans, t.tight, t.none,
                  t.simpler, t.wrong);
    assert_int_equal(t.answered, answered);
    wrong += t.wrong;
  }
  assert_int_equal(wrong, 0);
}

/* A dense model of so many layers. */
static void dense_case(uint64_t *r, struct random_case *c, const char *framework, int64_t layers) {
  do random_case_of(r, c, pz_framework_find(framework), 0);
  while (c->hybrid || c->experts || c->layers != layers);
}

/* What few random questions ask: without replicas ZeRO 1 has moments of fewer bits where the optimizer is on the device,
 * and one of several fractions on the host says nothing of the next; with activations on the host full recomputation is of
 * all layers, also where no chunk has more than one; full recomputation that memory does not ask for is none. */
static void rare_questions_equal_brute_force(void **state) {
  (void)state;
  uint64_t r = 3;
  struct random_case c;
  struct pz_plan_question *q = &c.q;
  struct tally t = {0};
  dense_case(&r, &c, "hai-llm", 3);
  q->plan.devices = 2;
  q->plan.moment_bytes = 0;
  q->plan.offload = PZ_OFFLOAD_OPTIMIZER;
  PIN(MBS, mbs, 1);
  compare_listing(&r, 0, &c, &t);
  dense_case(&r, &c, "zero-bubble", 2);
  q->plan.devices = 2;
  q->plan.offload = PZ_OFFLOAD_ACTIVATIONS;
  q->plan.offload_layers = 1;
  q->uniform = true;
  q->top = 4;
  PIN(MBS, mbs, 1);
  PIN(PP, pp, 2);
  PIN(VPP, vpp, 2);
  compare_listing(&r, 1, &c, &t);
  dense_case(&r, &c, "hai-llm", 3);
  PIN(MBS, mbs, 1);
  PIN(RECOMPUTE, recompute, PZ_RECOMPUTATION_FULL);
  compare_listing(&r, 2, &c, &t);
  dense_case(&r, &c, "nemo", 3); /* ZeRO 1 of one replica has weights in 8 bit alone */
  q->plan.devices = 1;
  q->plan.precision = PZ_PRECISION_FP8;
  q->plan.fp8_recipe = PZ_FP8_CURRENT;
  q->objective = PZ_PLAN_MEMORY;
  compare_listing(&r, 3, &c, &t);
  assert_int_equal(t.answered, 4);
  assert_int_equal(t.wrong, 0);
}

/* ---- more is never slower ------------------------------------------------------------------- */

/* Seconds of the best step; HUGE_VAL: nothing fits or there is no plan. */
static double best_s(const struct pz_plan_question *q) {
  struct pz_found_plans found = {0};
  struct pz_arena arena;
  pz_arena_init(&arena);
  enum pz_status status = try_find_plans(q, &arena, &found, NULL);
  double s = status == PZ_OK && found.n ? found.list[0].p.step_s : HUGE_VAL;
  pz_arena_release(&arena);
  return s;
}

static void more_is_never_slower(void **state) {
  (void)state;
  static const char *const what[] = {"devices", "memory", "bandwidth in a node",
                                     "bandwidth of the cluster", "lower latency"};
  uint64_t r = 300;
  int n = pz_test_part(300), wrong = 0;
  for (int i = 0; i < n; i++) {
    struct random_case c;
    random_case(&r, &c, 0);
    struct pz_plan_question *q = &c.q;
    q->uniform = !below(&r, 3);
    if (below(&r, 8)) PIN(MBS, mbs, 1 + below(&r, 2)); /* few models to make */
    if (below(&r, 2)) shrink_memory(&r, &c);
    double before = best_s(&c.q);
    for (int k = 0; k < 5; k++) {
      struct random_case d = c;
      double times = between(&r, 1.01, 8);
      d.q.job.chip = &d.chip;
      d.q.job.net = &d.net;
      d.q.job.constants = &d.constants;
      if (k == 0) d.q.plan.devices += c.net.level[0].devices * (1 + below(&r, 4));
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
    assert_int_equal(pz_test_chip_read("tpuv5e", &s->c.chip, &err), PZ_OK);
    assert_int_equal(pz_cluster_load("tpuv5e-pod", &s->c.net, &err), PZ_OK);
    q->plan.framework = pz_framework_find(below(r, 2) ? "maxtext" : "jax");
    q->plan.precision = PZ_PRECISION_BF16; /* what this chip has */
    q->plan.fp8_recipe = -1;
    q->plan.bf16_layers = q->plan.bf16_first_layers = 0;
  }
  s->plan = plain_plan(q);
  s->plan.tp = s->c.kv_heads % 2 ? 1 : 1 + below(r, 2);
  s->plan.sp = s->plan.tp > 1 && below(r, 2);
  s->plan.mbs = 1 + below(r, 4);
  s->plan.cp =
      q->plan.attention == PZ_ATTENTION_FLASH && !torus && !s->c.hybrid ? 1 << below(r, 3) : 1;
  bool can = s->plan.tp == 1 || s->plan.sp;
  s->plan.ep = s->c.experts && can && !torus ? 1 + below(r, 2) : 1;
  s->plan.batch = 64;
  if (try_step_model_new(&q->job, &s->plan, &s->m, &err) != PZ_OK) fail_msg("%s", err.message);
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
  other.pipeline = (int)below(r, PZ_PIPELINES);
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(&other);
  if (below(r, 2) && pz_pipeline_can_run(&shape)) p.pipeline = other.pipeline;
  p.zero = (int)below(r, 4);
  p.overlap = (int)below(r, PZ_OVERLAP_ALL + 1);
  p.recompute = (int)below(r, PZ_RECOMPUTATIONS);
  p.recompute_layers = below(r, 3);
  p.saved = below(r, 2) ? (int)below(r, 32) : 0;
  if (p.pp * p.vpp > 2 && below(r, 2)) {
    p.first_layers = 1;
    p.last_layers = 1 + below(r, (uint32_t)(layers - p.pp * p.vpp + 1));
  }
  for (int64_t k = 0; k < p.pp; k++) again[k] = below(r, (uint32_t)layers);
  p.n_stage_recompute = p.pp;
  if (below(r, 2)) p.stage_recompute = again;
  if (!below(r, 3)) random_offload(r, s->c.layers, &p);
  return p;
}

static bool same_prediction(const struct pz_prediction *a, const struct pz_prediction *b) {
  return a->step_s == b->step_s && a->bound_s == b->bound_s && a->peak_bytes == b->peak_bytes &&
         a->mfu == b->mfu && a->hfu == b->hfu && a->microbatches == b->microbatches &&
         a->peak_stage == b->peak_stage && a->gradient_hidden_s == b->gradient_hidden_s &&
         a->tensor_hidden_s == b->tensor_hidden_s && a->host_bytes == b->host_bytes &&
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
      if (try_predict(&q->job, &plans[k], &own[k], &err) != PZ_OK) fail_msg("%s", err.message);
    }
    for (int k = 0; k < 3 * PLANS; k++, priced++) {
      int at = (int)below(&r, PLANS);
      double bound;
      if (below(&r, 4) == 0)
        assert_int_equal(try_step_bound(s.m, &plans[below(&r, PLANS)], &bound, &err), PZ_OK);
      assert_int_equal(try_step_price(s.m, &plans[at], &one, &err), PZ_OK);
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
static bool bound_is_below(struct shared *s, const struct pz_plan *p, struct distance *kinds) {
  struct pz_prediction one;
  struct pz_error err = {0};
  double bound;
  assert_int_equal(try_step_bound(s->m, p, &bound, &err), PZ_OK);
  assert_int_equal(try_step_price(s->m, p, &one, &err), PZ_OK);
  bool even = !p->stage_recompute && !p->first_layers && s->c.layers % (p->pp * p->vpp) == 0;
  bool zero_bubble = pz_pipeline_splits_backward(pz_plan_pipeline_shape(p).order);
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
  assert_true(kinds[0].n == 0 || mean <= 0.03);
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
  long long vocab = number(x, "vocab");
  bool gated = strcmp(word(x, "mlp"), "swiglu") == 0;
  if (gated || f->plain_decoders)
    snprintf(x->config, sizeof x->config,
             "{\"model_type\":\"%s\",\"hidden_act\":\"%s\",\"hidden_size\":%lld,"
             "\"num_hidden_layers\":%lld,\"num_attention_heads\":%lld,"
             "\"num_key_value_heads\":%lld,\"head_dim\":%lld,\"intermediate_size\":%lld,"
             "\"vocab_size\":%lld,\"max_position_embeddings\":%lld}",
             f->plain_decoders ? "decoder" : "llama", gated ? "silu" : "gelu", number(x, "hidden"),
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

/* Fields of the plan, by the columns that they have in tables of runs. */
static struct pz_plan row_plan(const struct row_question *x) {
  struct pz_plan p = pz_plan_default();
  for (int f = 0; f < PZ_PLAN_FIELDS; f++) {
    const struct pz_plan_field_info *info = pz_plan_field((enum pz_plan_field)f);
    uint32_t at = pz_csv_column(x->csv, info->column ? info->column : info->name);
    if (at == PZ_NONE || info->kind >= PZ_PLAN_KIND_LIST) continue;
    const char *text = pz_csv_cell(x->csv, x->row, at);
    if (*text) (void)!try_read_plan_field(&p, (enum pz_plan_field)f, text, NULL);
  }
  if (p.overlap < 0) p.overlap = 0;
  p.overlap &= ~(int)PZ_OVERLAP_EP;
  if (p.recompute < 0) p.recompute = PZ_RECOMPUTATION_NONE; /* words that tables alone have */
  if (!(p.grad_bytes > 0)) p.grad_bytes = 4;
  p.sp = p.sp > 0;
  p.zero = p.zero < 0 ? 0 : p.zero;
  p.mtp = false;
  return p;
}

static void row_question(const struct pz_csv *csv, uint32_t row, struct row_question *x) {
  struct pz_error err = {0};
  *x = (struct row_question){.csv = csv, .row = row};
  struct pz_plan own = row_plan(x), p = own;
  const struct pz_framework *f = pz_plan_framework(&own);
  assert_int_equal(pz_test_chip_read(word(x, "chip"), &x->chip, &err), PZ_OK);
  assert_int_equal(pz_cluster_load(word(x, "cluster"), &x->net, &err), PZ_OK);
  assert_int_equal(pz_cluster_reach(&x->net, p.devices, "n_dev", &err), PZ_OK);
  row_config(x, f);
  struct pz_job job = {.model = "row", .config = x->config, .chip = &x->chip, .net = &x->net};
  p.ep = p.etp = p.shard = p.recompute_layers = p.recompute_modules = 0;
  p.saved = 0;
  if (try_make_question(&job, &p, 0, &x->q, &err) != PZ_OK) fail_msg("%s", err.message);
  struct pz_plan_question *q = &x->q;
  q->plan.attention_library = word(x, "attn_kernel");
  if (own.cp <= 1) PIN(CP, cp, 1);
  if (own.pipeline == PZ_PIPELINE_GPIPE) q->pinned |= PZ_PLAN_PIN(PIPELINE);
  snprintf(x->key, sizeof x->key, "%s %s %s %lld %lld %lld %lld %s %s %s %s %s %s %s %s", x->config,
           word(x, "chip"), word(x, "cluster"), (long long)p.devices, (long long)p.batch,
           (long long)p.seq, (long long)pz_min(own.cp, 2),
           own.pipeline == PZ_PIPELINE_GPIPE ? "gpipe" : "", word(x, "precision"), f->name,
           word(x, "attention"), word(x, "attn_kernel"), word(x, "overlap"), word(x, "execution"),
           word(x, "grad_bytes"));
}

/* Can the framework run the row's own plan?  Some of the published ones are of its past or of a fork. */
static bool runs_own_plan(struct row_question *x) {
  struct pz_model_shape shape;
  struct pz_plan own = row_plan(x);
  own.devices = pz_plan_devices(&own);
  row_config(x, pz_plan_framework(&own));
  bool known = try_parse_model_shape("row", x->config, strlen(x->config), &shape, NULL) == PZ_OK;
  return pz_framework_can_run(&own, known ? &shape : NULL, NULL);
}

/* Does the space know such a run?  A graphics processor, whose plan fits. */
static bool is_asked(const struct pz_csv *csv, uint32_t i, const struct pz_run_row *row) {
  struct row_question x = {.csv = csv, .row = i};
  struct pz_chip chip;
  struct pz_error err = {0};
  if (!row->predicted || strncmp(word(&x, "chip"), "tpu", 3) == 0) return false;
  if (pz_framework_compiles(pz_framework_at(pz_framework_find(word(&x, "framework")))))
    return false;
  assert_int_equal(pz_test_chip_read(word(&x, "chip"), &chip, &err), PZ_OK);
  /* graphs that the recipe has and the row does not name are not in the question */
  bool recipe = *word(&x, "experts") && strcmp(word(&x, "framework"), "nemo") == 0;
  if (recipe && (chip.calibration.host_launch > 1 || strstr(word(&x, "model"), "tokendrop")))
    return false;
  return row->p.needed_bytes <= usable_bytes(&chip);
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
  uint32_t asked = 0, wrong = 0, n = 0, other = 0, step = (uint32_t)(600 / pz_test_part(200));
  pz_arena_init(&arena);
  if (pz_file_read(path, PZ_CSV_MOST_BYTES, &text, &bytes, &err) != PZ_OK) return false;
  assert_int_equal(try_read_runs(path, text, bytes, 2, &arena, &t, &err), PZ_OK);
  struct known *known = calloc(t.n_rows, sizeof *known);
  assert_non_null(known);
  for (uint32_t i = 0; i < t.n_rows; i += step) {
    if (!is_asked(&t.csv, i, &t.rows[i])) continue;
    struct row_question x = {.csv = &t.csv, .row = i};
    if (!runs_own_plan(&x)) {
      other++;
      continue;
    }
    double best = best_of_row(&t.csv, i, known, &n), own = t.rows[i].p.step_s;
    asked++;
    if (best <= own * (1 + 1e-9)) continue;
    print_message("%s: its own plan %.6g s, the best %.6g s\n", t.rows[i].id, own, best);
    wrong++;
  }
  print_message("  %u rows, %u questions, %u faster than the best; %u that the framework refuses\n",
                asked, n, wrong, other);
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
  if (!pz_test_has(PZ_TEST_SHARED "published/runs.csv")) skip();
  assert_true(rows_of(PZ_TEST_SHARED "published/runs.csv"));
}

/* ---- threads -------------------------------------------------------------------------------- */

static bool same_plans(const struct pz_found_plans *a, const struct pz_found_plans *b) {
  if (a->n != b->n || memcmp(&a->certificate, &b->certificate, sizeof a->certificate)) return false;
  for (uint32_t i = 0; i < a->n; i++) {
    const struct pz_plan *x = &a->list[i].plan, *y = &b->list[i].plan;
    if (!same_prediction(&a->list[i].p, &b->list[i].p)) return false;
    if (x->tp != y->tp || x->cp != y->cp || x->ep != y->ep || x->pipeline != y->pipeline ||
        x->pp != y->pp || x->vpp != y->vpp || x->dp != y->dp || x->mbs != y->mbs ||
        x->zero != y->zero || x->recompute != y->recompute || x->sp != y->sp ||
        x->first_layers != y->first_layers || x->last_layers != y->last_layers ||
        x->recompute_layers != y->recompute_layers || !x->stage_recompute != !y->stage_recompute)
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
    pz_arena_init(&arena);
    random_case(&r, &c, 6);
    if (below(&r, 2)) shrink_memory(&r, &c);
    c.q.top = 8;
    enum pz_status status[3];
    for (unsigned t = 0; t < 3; t++) {
      c.q.threads = 1u << t;
      status[t] = try_find_plans(&c.q, &arena, &found[t], NULL);
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

static bool is_tie(const struct random_case *c, const struct pz_found_plan *a,
                   const struct pz_found_plan *b) {
  return found_value(c, a) == found_value(c, b) && a->p.step_s == b->p.step_s;
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
    pz_arena_init(&arena);
    random_case(&r, &c, 6);
    c.q.top = 1 + below(&r, 4);
    enum pz_status status = try_find_plans(&c.q, &arena, &few, NULL);
    c.q.top = 200;
    if (status == PZ_OK) assert_int_equal(try_find_plans(&c.q, &arena, &many, NULL), PZ_OK);
    for (uint32_t k = 0; status == PZ_OK && k + 1 < many.n; k++) {
      if (!is_tie(&c, &many.list[k], &many.list[k + 1])) continue;
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
  assert_true(ordered > 0 || !ties); /* few questions may have none */
}

/* ---- questions that have no answer ---------------------------------------------------------- */

static void refuses(struct random_case *c, enum pz_status expected, const char *what) {
  struct pz_found_plans found;
  struct pz_arena arena;
  struct pz_error err = {0};
  pz_arena_init(&arena);
  if (try_find_plans(&c->q, &arena, &found, &err) != expected)
    fail_msg("not '%s': %s", what, err.message);
  if (!strstr(err.message, what)) fail_msg("%s", err.message);
  pz_arena_release(&arena);
}

static void questions_without_plans_are_errors(void **state) {
  (void)state;
  uint64_t r = 1;
  struct random_case c;
  struct pz_plan_question *q = &c.q;
  do random_case_of(&r, &c, pz_framework_find("megatron"), 0);
  while (c.hybrid || c.experts);
  struct pz_plan_question asked = c.q;
  PIN(TP, tp, 7);
  refuses(&c, PZ_BAD_USE, "tp 7 does not divide the attention heads");
  *q = asked;
  PIN(VPP, vpp, 5);
  PIN(PP, pp, 1);
  refuses(&c, PZ_BAD_USE, "no plan has these degrees");
  *q = asked;
  PIN(ZERO, zero, 3);
  PIN(PP, pp, 2);
  refuses(&c, PZ_NO_ANSWER, "not with a pipeline");
  *q = asked;
  q->plan.execution = PZ_EXECUTION_COMPILE;
  refuses(&c, PZ_NO_ANSWER, "layers that are not compiled");
  *q = asked;
  q->plan.precision = PZ_PRECISION_FP8;
  q->plan.bf16_layers = c.layers + 1;
  refuses(&c, PZ_BAD_USE, "bf16_layers");
  q->plan.bf16_layers = 1;
  q->plan.bf16_first_layers = c.layers;
  refuses(&c, PZ_BAD_USE, "bf16_layers and bf16_first_layers");
  *q = asked;
  q->plan.offload = PZ_OFFLOAD_ACTIVATIONS;
  q->plan.offload_layers = c.layers + 1;
  refuses(&c, PZ_BAD_USE, "layers; accepted: 1 to");
  *q = asked;
  q->plan.devices = 0;
  refuses(&c, PZ_BAD_USE, "accepted: 1 to");
  *q = asked;
  q->plan.batch = 1 << 25;
  refuses(&c, PZ_BAD_USE, "accepted: 1 to");
  *q = asked;
  q->top = 1001;
  refuses(&c, PZ_BAD_USE, "accepted: 0 to 1000");
  *q = asked;
  q->tie = 1.5;
  refuses(&c, PZ_BAD_USE, "accepted: 0 to 1");
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
  pz_arena_init(&arena);
  enum pz_status status = try_find_plans(&c->q, &arena, &found, err);
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
    struct pz_model_shape shape;
    do { /* a shape that is known: the message of a refusal that nobody reads may do without memory */
      random_case_of(&r, &c, pz_framework_find("megatron"), 0);
    } while (try_parse_model_shape("small", c.config, strlen(c.config), &shape, NULL) != PZ_OK);
    struct pz_plan_question *q = &c.q;
    q->plan.devices = 4;
    q->plan.batch = 4;
    PIN(TP, tp, c.kv_heads % 2 ? 1 : 2);
    PIN(MBS, mbs, 1);
    q->top = 3;
    q->tie = 0.01;
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

/* False once the phase whose name is the context has begun. */
static bool until_phase(void *ctx, const struct pz_progress_state *s) {
  return strcmp(s->phase, ctx) != 0;
}

/* Before a plan is known there is no answer; after that the best so far is, with a gap of 0 where no other can be better. */
static void a_stopped_search_answers(void **state) {
  (void)state;
  struct pz_chip chip;
  struct pz_training_plans *all = NULL, *p = NULL;
  struct pz_training_place_options o = pz_training_place_options_default();
  assert_int_equal(pz_test_chip_read("h100", &chip, NULL), PZ_OK);
  o.plan.devices = 8;
  o.plan.batch = 64;
  o.tie = 0.01;
  assert_int_equal(pz_training_place("gpt2", &chip, NULL, &o, &all, NULL), PZ_OK);
  assert_false(all->stopped);
  o.progress = until_phase;
  o.ctx = "shapes";
  assert_int_equal(pz_training_place("gpt2", &chip, NULL, &o, &p, NULL), PZ_STOPPED);
  o.ctx = "simplest";
  assert_int_equal(pz_training_place("gpt2", &chip, NULL, &o, &p, NULL), PZ_OK);
  assert_true(p->stopped && p->n == 1 && p->certificate.gap == 0);
  const struct pz_training_run *fastest = all->fastest ? all->fastest : all->runs[0];
  assert_true(p->runs[0]->p.step_s == fastest->p.step_s);
  pz_training_plans_free(p);
  pz_training_plans_free(all);
  o.progress = NULL;
  o.seconds = 1e-9;
  assert_int_equal(pz_training_place("gpt2", &chip, NULL, &o, &p, NULL), PZ_NO_ANSWER);
  o.seconds = -1;
  assert_int_equal(pz_training_place("gpt2", &chip, NULL, &o, &p, NULL), PZ_BAD_USE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equals_brute_force),
      cmocka_unit_test(rare_questions_equal_brute_force),
      cmocka_unit_test(more_is_never_slower),
      cmocka_unit_test(pricing_has_no_memory),
      cmocka_unit_test(bounds_are_below_prices),
      cmocka_unit_test(published_plans_are_not_faster),
      cmocka_unit_test(threads_agree),
      cmocka_unit_test(the_simplest_of_equal_plans_comes_first),
      cmocka_unit_test(questions_without_plans_are_errors),
      cmocka_unit_test(failed_allocations_are_reported),
      cmocka_unit_test(a_stopped_search_answers),
  };
  static const struct pz_allocator allocator = {take, resize, give, &counter};
  if (pz_alloc_use(&allocator, NULL) != PZ_OK) return 1;
  return pz_test_end(cmocka_run_group_tests(tests, NULL, NULL));
}
