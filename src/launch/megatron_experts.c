/* Experts and latent attention among Megatron's arguments: the degrees of their grid, and the model's configuration: with
 * latent attention that of DeepSeek-V3, with norms of query and key that of Qwen3, else Mixtral's. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/num.h"
#include "launch/megatron_reader.h"

bool pz_megatron_has_experts(const struct pz_megatron_reader *r) {
  return pz_megatron_count(r, PZ_ARG_EXPERTS, 0) > 0;
}

/* ---- the plan ------------------------------------------------------------------------------- */

/* Rows up to a capacity: padded to it every device computes so many, else what comes counts as even. */
static enum pz_status read_capacity(struct pz_megatron_reader *r) {
  const struct pz_megatron_given *g = &r->g[PZ_ARG_CAPACITY];
  if (!g->set) return PZ_OK;
  char *end = NULL;
  double factor = strtod(g->text, &end);
  if (!*g->text || *end || !(factor >= 1 && factor <= 1e6))
    return pz_megatron_wrong(r, g,
                             "a number from 1; experts that get less than the mean are not "
                             "covered");
  if (!pz_megatron_has(r, PZ_ARG_PADS))
    return pz_megatron_add_text(
        r, &r->notes, "--moe-expert-capacity-factor without padding: an even load is predicted");
  r->out->run.plan.imbalance = factor;
  return pz_megatron_mark(r, PZ_PLAN_IMBALANCE, PZ_ARG_CAPACITY, PZ_ARG_CAPACITY);
}

/* Its default, allgather, gathers all tokens on every device. */
static enum pz_status check_dispatcher(struct pz_megatron_reader *r) {
  static const char *const covered[] = {"alltoall", "flex", NULL};
  if (r->out->run.plan.ep == 1) return PZ_OK;
  if (!pz_megatron_has(r, PZ_ARG_DISPATCHER))
    return pz_megatron_wrong(r, &r->g[PZ_ARG_EP],
                             "with it --moe-token-dispatcher-type alltoall or flex (the default, "
                             "allgather, is not covered)");
  return pz_megatron_need_word(r, PZ_ARG_DISPATCHER, covered,
                               "alltoall or flex; other dispatchers are not covered");
}

static enum pz_status check_overlap(struct pz_megatron_reader *r) {
  const struct pz_plan *o = &r->out->run.plan;
  if (!pz_megatron_has(r, PZ_ARG_OVERLAP_EP)) return PZ_OK;
  if (o->ep == 1 || (o->pp > 1 && o->vpp == 1) || o->recompute == PZ_RECOMPUTATION_FULL ||
      o->recompute_modules & PZ_MODULE_EXPERTS)
    return pz_megatron_wrong(r, &r->g[PZ_ARG_OVERLAP_EP],
                             "with it --expert-model-parallel-size above 1, chunks where there are "
                             "stages, and no recomputation of whole layers or of moe");
  return pz_megatron_mark(r, PZ_PLAN_OVERLAP, PZ_ARG_OVERLAP_EP, PZ_ARG_OVERLAP_EP);
}

/* Experts are divided as the other layers are, unless told. */
enum pz_status pz_megatron_read_experts(struct pz_megatron_reader *r) {
  struct pz_plan *o = &r->out->run.plan;
  o->ep = pz_megatron_count(r, PZ_ARG_EP, 1);
  o->mtp = pz_megatron_count(r, PZ_ARG_PREDICT_LAYERS, 0) > 0;
  if (!pz_megatron_has_experts(r)) {
    if (o->ep > 1) return pz_megatron_wrong(r, &r->g[PZ_ARG_EP], "1, or with it --num-experts");
    o->overlap &= ~PZ_OVERLAP_EP;
    return PZ_OK;
  }
  o->etp = pz_megatron_count(r, PZ_ARG_ETP, o->tp);
  if (o->tp > 1 && !o->sp)
    return pz_fail(r->err, PZ_BAD_INPUT,
                   "%s: experts with --tensor-model-parallel-size above 1; accepted: with it "
                   "--sequence-parallel",
                   r->name);
  enum pz_status status = check_dispatcher(r);
  if (status == PZ_OK) status = check_overlap(r);
  if (status == PZ_OK) status = read_capacity(r);
  if (status == PZ_OK) status = pz_megatron_mark(r, PZ_PLAN_EP, PZ_ARG_EP, PZ_ARG_EP);
  if (status == PZ_OK) status = pz_megatron_mark(r, PZ_PLAN_ETP, PZ_ARG_ETP, PZ_ARG_ETP);
  if (status == PZ_OK)
    status = pz_megatron_mark(r, PZ_PLAN_MTP, PZ_ARG_PREDICT_LAYERS, PZ_ARG_PREDICT_LAYERS);
  if (status == PZ_OK && !pz_megatron_has(r, PZ_ARG_GROUPED_PRODUCTS))
    status = pz_megatron_add_text(
        r, &r->notes, "no --moe-grouped-gemm: the experts' products are predicted as grouped ones");
  return status;
}

/* ---- which layers have them ----------------------------------------------------------------- */

/* Python's ([0]*3+[1]*58): lists in sums, repeated.  A pattern is a text of 0 and 1. */
struct pattern {
  const char *at;
  struct pz_arena *arena;
  size_t most; /* layers */
  int depth;
  bool bad;
};

static const char *pattern_sum(struct pattern *p);

static void skip_spaces(struct pattern *p) { p->at += strspn(p->at, " "); }

static const char *pattern_fail(struct pattern *p) {
  p->bad = true;
  return "";
}

/* [0, 1, 1] */
static const char *pattern_list(struct pattern *p) {
  char *out = pz_arena_alloc(p->arena, p->most + 1, 1);
  size_t n = 0;
  if (!out) return pattern_fail(p);
  for (p->at++;; p->at++) {
    skip_spaces(p);
    if ((*p->at != '0' && *p->at != '1') || n == p->most) return pattern_fail(p);
    out[n++] = *p->at++;
    skip_spaces(p);
    if (*p->at == ']') break;
    if (*p->at != ',') return pattern_fail(p);
  }
  p->at++;
  out[n] = '\0';
  return out;
}

/* A list or a sum in brackets, times a number. */
static const char *pattern_term(struct pattern *p) {
  const char *one;
  skip_spaces(p);
  if (*p->at == '(' && p->depth < 8) {
    p->at++;
    p->depth++;
    one = pattern_sum(p);
    p->depth--;
    if (p->bad || *p->at != ')') return pattern_fail(p);
    p->at++;
  } else if (*p->at == '[') {
    one = pattern_list(p);
  } else {
    return pattern_fail(p);
  }
  skip_spaces(p);
  if (p->bad || *p->at != '*') return one;
  p->at++;
  skip_spaces(p);
  size_t digits = strspn(p->at, "0123456789"), n = strlen(one);
  unsigned long times = digits && digits < 8 ? strtoul(p->at, NULL, 10) : p->most + 1;
  if (times > p->most || n * times > p->most) return pattern_fail(p);
  p->at += digits;
  skip_spaces(p);
  char *all = pz_arena_alloc(p->arena, n * times + 1, 1);
  if (!all) return pattern_fail(p);
  for (size_t i = 0; i < times; i++) memcpy(all + i * n, one, n);
  all[n * times] = '\0';
  return all;
}

static const char *pattern_sum(struct pattern *p) {
  const char *sum = pattern_term(p);
  while (!p->bad && *p->at == '+') {
    p->at++;
    const char *next = pattern_term(p);
    if (p->bad || strlen(sum) + strlen(next) > p->most) return pattern_fail(p);
    sum = pz_arena_printf(p->arena, "%s%s", sum, next);
    if (!sum) return pattern_fail(p);
  }
  return sum;
}

/* A text with 1 for each layer that has experts: all, every n-th from the first, or as a list says. */
static enum pz_status expert_layers(struct pz_megatron_reader *r, const char **out) {
  const struct pz_megatron_given *g = &r->g[PZ_ARG_EXPERT_LAYERS];
  size_t layers = (size_t)r->g[PZ_ARG_LAYERS].n;
  struct pattern p = {.at = g->set ? g->text : "1", .arena = r->arena, .most = layers};
  static const char accepted[] = "a number of layers, or a list with 0 or 1 for each layer";
  if (layers > 65536) return pz_megatron_wrong(r, &r->g[PZ_ARG_LAYERS], "at most 65536");
  size_t digits = strspn(p.at, "0123456789");
  if (digits && !p.at[digits]) {
    unsigned long every = digits < 8 ? strtoul(p.at, NULL, 10) : 0;
    char *text = pz_arena_alloc(r->arena, layers + 1, 1);
    if (!text) return pz_megatron_no_memory(r);
    if (!every) return pz_megatron_wrong(r, g, accepted);
    for (size_t i = 0; i < layers; i++) text[i] = i % every ? '0' : '1';
    text[layers] = '\0';
    *out = text;
    return PZ_OK;
  }
  *out = pattern_sum(&p);
  if (p.bad || *p.at || strlen(*out) != layers) return pz_megatron_wrong(r, g, accepted);
  return PZ_OK;
}

/* ---- the configuration ---------------------------------------------------------------------- */

/* ,"mlp_only_layers":[0,1]; "" where all have experts. */
static const char *dense_list(struct pz_megatron_reader *r, const char *layers) {
  const char *text = "";
  for (size_t i = 0; layers[i] && text; i++)
    if (layers[i] == '0') text = pz_arena_printf(r->arena, "%s%s%zu", text, *text ? "," : "", i);
  return text && *text ? pz_arena_printf(r->arena, ",\"mlp_only_layers\":[%s]", text) : text;
}

static enum pz_status deepseek_config(struct pz_megatron_reader *r, const char *layers,
                                      int64_t width, const char **fields) {
  int64_t dense = (int64_t)strspn(layers, "0"), shared = pz_megatron_count(r, PZ_ARG_SHARED_FFN, 0);
  enum pz_status status = pz_megatron_need(r, PZ_ARG_KV_RANK, "kv-lora-rank");
  if (status != PZ_OK) return status;
  if (strchr(layers + dense, '0'))
    return pz_megatron_wrong(r, &r->g[PZ_ARG_EXPERT_LAYERS],
                             "dense layers at the start alone, with latent attention");
  if (shared % width)
    return pz_megatron_wrong(r, &r->g[PZ_ARG_SHARED_FFN], "a multiple of --moe-ffn-hidden-size");
  char rank[32] = "null";
  if (pz_megatron_has(r, PZ_ARG_Q_RANK))
    snprintf(rank, sizeof rank, "%" PRId64, r->g[PZ_ARG_Q_RANK].n);
  *fields = pz_arena_printf(
      r->arena,
      ",\"n_routed_experts\":%" PRId64 ",\"n_shared_experts\":%" PRId64
      ",\"first_k_dense_replace\":%" PRId64 ",\"n_group\":%" PRId64 ",\"topk_group\":%" PRId64
      ",\"q_lora_rank\":%s,\"kv_lora_rank\":%" PRId64 ",\"qk_nope_head_dim\":%" PRId64
      ",\"qk_rope_head_dim\":%" PRId64 ",\"v_head_dim\":%" PRId64
      ",\"num_nextn_predict_layers\":%" PRId64,
      r->g[PZ_ARG_EXPERTS].n, shared / width, dense, pz_megatron_count(r, PZ_ARG_EXPERT_GROUPS, 1),
      pz_megatron_count(r, PZ_ARG_GROUP_TOPK, 1), rank, r->g[PZ_ARG_KV_RANK].n,
      pz_megatron_count(r, PZ_ARG_NOPE_DIM, 128), pz_megatron_count(r, PZ_ARG_ROPE_DIM, 64),
      pz_megatron_count(r, PZ_ARG_V_DIM, 128), pz_megatron_count(r, PZ_ARG_PREDICT_LAYERS, 0));
  if (*fields && !pz_megatron_has(r, PZ_ARG_QK_NORM))
    return pz_megatron_add_text(r, &r->notes,
                                "no --qk-layernorm: norms of the latent queries, keys and values "
                                "are predicted all the same");
  return PZ_OK;
}

static enum pz_status plain_config(struct pz_megatron_reader *r, const char *layers,
                                   const char **family, const char **fields) {
  bool norms = pz_megatron_has(r, PZ_ARG_QK_NORM);
  *family = norms ? "qwen3_moe" : "mixtral";
  if (pz_megatron_count(r, PZ_ARG_SHARED_FFN, 0))
    return pz_megatron_wrong(r, &r->g[PZ_ARG_SHARED_FFN], "with it --multi-latent-attention");
  if (pz_megatron_count(r, PZ_ARG_PREDICT_LAYERS, 0))
    return pz_megatron_wrong(r, &r->g[PZ_ARG_PREDICT_LAYERS], "0, or --multi-latent-attention");
  if (!norms && strchr(layers, '0'))
    return pz_megatron_wrong(
        r, &r->g[PZ_ARG_EXPERT_LAYERS],
        "experts in every layer, or --qk-layernorm or --multi-latent-attention");
  const char *dense = norms ? dense_list(r, layers) : "";
  *fields = dense ? pz_arena_printf(r->arena, ",\"%s\":%" PRId64 "%s",
                                    norms ? "num_experts" : "num_local_experts",
                                    r->g[PZ_ARG_EXPERTS].n, dense)
                  : NULL;
  return PZ_OK;
}

enum pz_status pz_megatron_expert_config(struct pz_megatron_reader *r, const char **family,
                                         const char **fields) {
  const char *layers = NULL;
  int64_t ffn = pz_megatron_count(r, PZ_ARG_FFN, 4 * r->g[PZ_ARG_HIDDEN].n);
  int64_t width = pz_megatron_count(r, PZ_ARG_EXPERT_FFN, ffn);
  int64_t experts = r->g[PZ_ARG_EXPERTS].n, topk = pz_megatron_count(r, PZ_ARG_TOPK, 2);
  bool latent = pz_megatron_has(r, PZ_ARG_LATENT);
  if (topk > experts) return pz_megatron_wrong(r, &r->g[PZ_ARG_EXPERTS], "at least the top k");
  if (experts % r->out->run.plan.ep)
    return pz_megatron_wrong(r, &r->g[PZ_ARG_EP], "a number that divides the experts");
  if (!latent && !pz_megatron_has(r, PZ_ARG_QK_NORM) && width != ffn)
    ffn = width; /* Mixtral's layers are all of experts */
  enum pz_status status = expert_layers(r, &layers);
  if (status == PZ_OK && latent) {
    *family = "deepseek_v3";
    status = deepseek_config(r, layers, width, fields);
  } else if (status == PZ_OK) {
    status = plain_config(r, layers, family, fields);
  }
  if (status != PZ_OK) return status;
  if (*fields)
    *fields =
        pz_arena_printf(r->arena,
                        ",\"num_experts_per_tok\":%" PRId64 ",\"moe_intermediate_size\":%" PRId64
                        ",\"intermediate_size\":%" PRId64 "%s",
                        topk, width, ffn, *fields);
  return *fields ? PZ_OK : pz_megatron_no_memory(r);
}
