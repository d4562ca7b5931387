/* Self-attention, standard (scores are written to memory) or flash (they are not). */
#include "workload/parts.h"

#include <inttypes.h>

#include "core/num.h"

/* ---- context parallelism ------------------------------------------------------------------------ */

/* ---- which can be --------------------------------------------------------------------------- */

static enum pz_status check_heads(const char *name, const struct pz_arch *a,
                                  const struct pz_workload_options *o, struct pz_error *err) {
  const struct {
    const char *what;
    int64_t n;
  } list[] = {{"attention heads", a->heads / o->tp},
              {"key/value heads", pz_max(a->kv_heads / o->tp, 1)}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i].n % o->cp)
      return pz_fail(err, PZ_BAD_USE,
                     "context-parallel degree %" PRId64
                     " in form all-to-all does not divide the %" PRId64
                     " %s that a device has of %s; accepted: a divisor, or form ring",
                     o->cp, list[i].n, list[i].what, name);
  return PZ_OK;
}

enum pz_status pz_context_check(const char *name, const struct pz_arch *a,
                                const struct pz_workload_options *o, struct pz_error *err) {
  if (o->cp == 1) return PZ_OK;
  if (o->attention != PZ_ATTENTION_FLASH)
    return pz_fail(err, PZ_BAD_USE,
                   "context-parallel degree %" PRId64 " with standard attention; accepted: flash",
                   o->cp);
  if (o->seq % (2 * o->cp))
    return pz_fail(err, PZ_BAD_USE,
                   "context-parallel degree %" PRId64 " with %" PRId64
                   " tokens; accepted: degrees of which twice divides them",
                   o->cp, o->seq);
  return o->cp_form == PZ_CONTEXT_ALL_TO_ALL ? check_heads(name, a, o, err) : PZ_OK;
}

/* Does attention run on part of the heads? */
static bool context_by_heads(const struct pz_builder *b) {
  return b->options->cp > 1 && b->options->cp_form == PZ_CONTEXT_ALL_TO_ALL;
}

/* Parts into which the queries of an attention are divided. */
static int64_t context_parts(const struct pz_builder *b) {
  return b->options->cp > 1 && !context_by_heads(b) ? b->options->cp : 1;
}

/* ---- what it reads -------------------------------------------------------------------------- */

/* Keys of its chunk before a piece, of both pieces of a device, on average over devices. */
static int64_t chunk_keys(int64_t seq, int64_t cp, int64_t chunk) {
  int64_t sum = 0, piece = seq / (2 * cp);
  for (int64_t i = 0; i < 2 * cp; i++) sum += i * piece % chunk;
  return pz_ceil_div(sum, cp);
}

int64_t pz_context_keys(const struct pz_builder *b, const struct pz_arch *a) {
  int64_t seq = b->options->seq, more = seq;
  if (a->chunk && a->chunk < seq)
    more = chunk_keys(seq, b->options->cp, a->chunk);
  else if (a->window && a->window < seq)
    more = 2 * (a->window - 1);
  return pz_min(seq, b->part + more);
}

/* ---- operators ------------------------------------------------------------------------------ */

static uint32_t context_join(struct pz_builder *b, int kind, const char *name, uint32_t x,
                             struct pz_shape shape) {
  return pz_build_op(b, &(struct pz_emit){.kind = kind,
                                          .name = name,
                                          .in = {x, PZ_NONE},
                                          .shape = shape,
                                          .peers = PZ_PEERS_CONTEXT});
}

static int64_t row_width(const struct pz_builder *b, uint32_t x) {
  return pz_graph_tensor(b->graph, x)->elems / b->tokens;
}

/* Parts of other devices pass, rows of so many values (0: as wide as x): memory holds one beside the own. */
static uint32_t gather_keys(struct pz_builder *b, const char *name, uint32_t x, int64_t keys,
                            int64_t width) {
  if (b->status != PZ_OK || x == PZ_NONE) return PZ_NONE;
  if (!width) width = row_width(b, x);
  uint32_t y = context_join(b, PZ_OP_ALL_GATHER, name, x, PZ_SHAPE(b->options->mbs * keys, width));
  if (y == PZ_NONE) return y;
  pz_graph_tensor(b->graph, y)->held = b->options->mbs * pz_min(b->part, keys - b->part) * width;
  return y;
}

uint32_t pz_context_exchange(struct pz_builder *b, const char *name, uint32_t x,
                             struct pz_shape shape) {
  return context_join(b, PZ_OP_ALL_TO_ALL, name, x, shape);
}

static uint32_t exchange(struct pz_builder *b, const char *name, uint32_t x, bool to_heads) {
  if (b->status != PZ_OK || x == PZ_NONE) return PZ_NONE;
  int64_t c = b->options->cp, width = row_width(b, x);
  struct pz_shape shape =
      to_heads ? PZ_SHAPE(b->tokens * c, width / c) : PZ_SHAPE(b->tokens, width);
  return pz_context_exchange(b, name, x, shape);
}

/* Into attention (query, key and value become what it reads) and out of it. */
static void context_enter(struct pz_builder *b, const struct pz_arch *a, uint32_t qkv[3]) {
  static const char *const rings[] = {"ring.query", "ring.key", "ring.value"},
                           *const heads[] = {"to_heads.query", "to_heads.key", "to_heads.value"};
  if (b->options->cp <= 1) return;
  int64_t keys = pz_context_keys(b, a);
  /* of chosen keys the vectors that they are made from pass, in place of keys and of values */
  int64_t width = a->index_topk ? pz_ceil_div(a->kv_rank + a->rotary_dims, 2) : 0;
  for (int i = 0; i < 3; i++) {
    if (context_by_heads(b))
      qkv[i] = exchange(b, heads[i], qkv[i], true);
    else if (i > 0 && keys > b->part)
      qkv[i] = gather_keys(b, rings[i], qkv[i], keys, width);
  }
}

static uint32_t context_leave(struct pz_builder *b, uint32_t context) {
  return context_by_heads(b) ? exchange(b, "to_tokens.context", context, false) : context;
}

/* ---- attention ---------------------------------------------------------------------------------- */

/* This slice's sizes.  A sequence is cut into `chunks` of so many queries, which attend to so many
 * keys each: all of them, those of a window, or those of their chunk (the last counts as a whole
 * one).  Of `span` queries this device has `queries`. */
struct sizes {
  int64_t heads, kv_heads, head_dim, value_dim, batch, seq;
  int64_t chunks, queries, keys, span;
};

/* Eager code writes all scores and masks those that do not count. */
static bool all_scores(const struct pz_builder *b) {
  return pz_eager(b) && b->options->attention == PZ_ATTENTION_STANDARD;
}

static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

static struct sizes sizes_of(const struct pz_builder *b, const struct pz_arch *a) {
  const struct pz_workload_options *o = b->options;
  int64_t seq = o->seq, parts = context_parts(b), heads = o->tp * (context_by_heads(b) ? o->cp : 1);
  struct sizes z = {.heads = a->heads / heads,
                    .kv_heads = pz_max(a->kv_heads / heads, 1),
                    .head_dim = a->head_dim,
                    .value_dim = a->value_dim ? a->value_dim : a->head_dim,
                    .batch = o->mbs,
                    .seq = seq / parts,
                    .chunks = 1,
                    .queries = seq / parts,
                    .keys = seq,
                    .span = seq};
  if (all_scores(b)) return z;
  if (a->chunk && a->chunk < seq) {
    int64_t chunks = pz_ceil_div(seq, a->chunk), whole = common_divisor(chunks, parts);
    z.chunks = chunks / whole;
    z.queries = pz_ceil_div(a->chunk, parts / whole);
    z.keys = z.span = a->chunk;
  } else if (a->window && a->window < seq) {
    z.keys = a->window;
  } else if (a->index_topk) {
    z.keys = pz_min(a->index_topk, seq);
  }
  return z;
}

static uint32_t project(struct pz_builder *b, const struct pz_arch *a, const char *name, uint32_t x,
                        int64_t heads) {
  return pz_build_linear(b, &(struct pz_linear){.name = name,
                                                .x = x,
                                                .in = a->hidden,
                                                .out = heads * a->head_dim,
                                                .divide = PZ_DIVIDE_COLUMNS,
                                                .bias = a->qkv_bias});
}

/* Names of the projections of self-attention and of cross-attention. */
struct attention_names {
  const char *enter, *query, *key, *value, *out;
};

static const struct attention_names SELF = {"qkv", "query", "key", "value", "attention_out"},
                                    CROSS = {"cross_query", "cross_query", "cross_key",
                                             "cross_value", "cross_out"};

/* Query and, where attention has one, the gate of its result: one projection, a view for each. */
static uint32_t project_query(struct pz_builder *b, const struct pz_arch *a, const char *name,
                              uint32_t x, uint32_t *gate) {
  int64_t width = a->heads / b->options->tp * a->head_dim;
  uint32_t q = project(b, a, name, x, a->out_gate ? 2 * a->heads : a->heads), part[2];
  *gate = PZ_NONE;
  if (!a->out_gate) return q;
  struct pz_split split = {.name = "split_gate",
                           .x = q,
                           .parts = 2,
                           .widths = {width, width},
                           .names = {"query", "gate"}};
  pz_build_split(b, &split, part);
  *gate = part[1];
  return part[0];
}

/* ---- key/value heads that devices share ------------------------------------------------------ */

bool pz_attention_shares(const struct pz_arch *a, int64_t tp) {
  return a->kv_heads && !a->kv_rank && a->qk_norm != PZ_QK_NORM_WIDTH && tp > a->kv_heads &&
         tp % a->kv_heads == 0 && a->kv_heads * a->head_dim % tp == 0;
}

/* With fewer key/value heads than devices (Megatron Core, get_query_key_value_tensors in transformer/attention.py)
 * projections stay divided, and a device makes part of a head.  All results are gathered, their columns put in order
 * (_gather_along_last_dim in tensor_parallel/mappings.py), and each device takes its queries, and the key and value of
 * their head, as tensors of their own.  Backward what others took is zero, and gradients are added up where they are
 * scattered. */
static void share_heads(struct pz_builder *b, const struct pz_arch *a, const uint32_t made[3],
                        uint32_t qkv[4]) {
  static const char *const own[] = {"query_own", "key_own", "value_own", "gate_own"};
  int64_t query = a->heads / b->options->tp * a->head_dim, key = a->head_dim,
          all = ((a->out_gate ? 2 : 1) * a->heads + 2 * a->kv_heads) * a->head_dim;
  struct pz_emit gather = {.kind = PZ_OP_ALL_GATHER,
                           .name = "kv_group.gather",
                           .in = {made[0], made[1], made[2], PZ_NONE},
                           .shape = PZ_SHAPE(b->tokens, all)};
  uint32_t whole = pz_build_op(b, &gather);
  if (whole == PZ_NONE) return;
  pz_graph_tensor(b->graph, whole)->split = false;
  struct pz_split split = {.name = "kv_group.split",
                           .x = pz_build_step(b, PZ_OP_COPY, "kv_group.order", whole, PZ_NONE),
                           .parts = a->out_gate ? 4 : 3,
                           .widths = {query, key, key, query},
                           .names = {"query_part", "key_part", "value_part", "gate_part"}};
  pz_build_split(b, &split, qkv);
  for (int i = 0; i < split.parts; i++)
    qkv[i] = pz_build_op(
        b, &(struct pz_emit){
               .kind = PZ_OP_COPY, .name = own[i], .in = {qkv[i], PZ_NONE}, .divides = true});
}

static void project_shared(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                           uint32_t qkv[4]) {
  int64_t query = a->out_gate ? 2 * a->heads : a->heads;
  uint32_t made[3] = {PZ_NONE, PZ_NONE, PZ_NONE};
  for (int i = 0; i < 4; i++) qkv[i] = PZ_NONE;
  made[0] = a->fused_qkv ? project(b, a, "qkv", x, query + 2 * a->kv_heads)
                         : project(b, a, "query", x, query);
  if (!a->fused_qkv) {
    made[1] = project(b, a, "key", x, a->kv_heads);
    made[2] = project(b, a, "value", x, a->kv_heads);
  }
  share_heads(b, a, made, qkv);
}

/* Query, key, value, and the gate or PZ_NONE.  Keys and values are of `y`, which is x but in cross-attention. */
static void project_qkv(struct pz_builder *b, const struct pz_arch *a,
                        const struct attention_names *n, uint32_t x, uint32_t y, uint32_t qkv[4]) {
  bool cross = x != y;
  x = pz_build_enter(b, n->enter, x);
  y = cross ? pz_build_enter(b, n->key, y) : x;
  if (pz_attention_shares(a, b->options->tp)) {
    project_shared(b, a, x, qkv);
    return;
  }
  if (!a->fused_qkv) {
    qkv[0] = project_query(b, a, n->query, x, &qkv[3]);
    qkv[1] = project(b, a, n->key, y, a->kv_heads);
    qkv[2] = project(b, a, n->value, y, a->kv_heads);
    return;
  }
  int64_t query = a->heads / b->options->tp * a->head_dim,
          key = a->kv_heads / b->options->tp * a->head_dim;
  uint32_t all = project(b, a, "qkv", x, a->heads + 2 * a->kv_heads);
  struct pz_split split = {.name = "split_heads",
                           .x = all,
                           .parts = 3,
                           .widths = {query, key, key},
                           .names = {"query", "key", "value"}};
  pz_build_split(b, &split, qkv);
  qkv[3] = PZ_NONE;
}

/* ---- latent attention ----------------------------------------------------------------------- */

/* Query, key and value of latent attention (DeepSeek-V2, arXiv 2405.04434).  The vectors that they are
 * made from are small: they are computed outside the tensor-parallel region and enter it in place of
 * the layer's input. */
static uint32_t latent_linear(struct pz_builder *b, const char *name, uint32_t x, int64_t in,
                              int64_t out, bool bias) {
  return pz_build_linear(
      b, &(struct pz_linear){
             .name = name, .x = x, .in = in, .out = out, .bias = bias, .outside = true});
}

static uint32_t latent_by_heads(struct pz_builder *b, const char *name, uint32_t x, int64_t in,
                                int64_t out) {
  return pz_build_linear(
      b,
      &(struct pz_linear){.name = name, .x = x, .in = in, .out = out, .divide = PZ_DIVIDE_COLUMNS});
}

/* The vector that queries are made from; PZ_NONE: they are made from the layer's input. */
static uint32_t query_vector(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  if (!a->q_rank) return PZ_NONE;
  uint32_t q = latent_linear(b, "query_down", x, a->hidden, a->q_rank, a->qkv_bias);
  return pz_kernel_rmsnorm(b, "query_down_norm", q, a->q_rank);
}

static uint32_t latent_query(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                             uint32_t q) {
  int64_t width = a->heads * a->head_dim;
  if (a->q_rank) {
    q = latent_by_heads(b, "query_up", pz_build_enter(b, "query_latent", q), a->q_rank, width);
  } else {
    q = latent_by_heads(b, "query", pz_build_enter(b, "query", x), a->hidden, width);
  }
  return pz_kernel_rotary(b, "query_rotary", q, a->rotary_dims, a->head_dim);
}

static void latent_split(struct pz_builder *b, const char *name, uint32_t x,
                         const char *const names[2], const int64_t widths[2], uint32_t part[2]) {
  struct pz_split s = {.name = name,
                       .x = x,
                       .parts = 2,
                       .widths = {widths[0], widths[1]},
                       .names = {names[0], names[1]}};
  pz_build_split(b, &s, part);
}

/* The rotated part is one for all heads. */
static uint32_t latent_key(struct pz_builder *b, const struct pz_arch *a, uint32_t own,
                           uint32_t common) {
  int64_t heads = a->heads / b->options->tp;
  uint32_t turned = pz_kernel_rotary(b, "key_rotary", common, a->rotary_dims, a->rotary_dims);
  turned = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_REPEAT,
                                            .name = "key_rotary.repeat",
                                            .in = {turned, PZ_NONE},
                                            .shape = PZ_SHAPE(b->tokens, heads * a->rotary_dims),
                                            .divides = true});
  return pz_build_shaped(b, PZ_OP_CONCAT, "key", own, turned,
                         PZ_SHAPE(b->tokens, heads * a->head_dim));
}

static void latent_qkv(struct pz_builder *b, const struct pz_arch *a, uint32_t x, uint32_t vector,
                       uint32_t qkv[3]) {
  static const char *const latent[] = {"kv_latent", "key_common"}, *const own[] = {"key_own",
                                                                                   "value"};
  int64_t heads = a->heads / b->options->tp, nope = a->head_dim - a->rotary_dims;
  const int64_t latent_widths[] = {a->kv_rank, a->rotary_dims},
                own_widths[] = {heads * nope, heads * a->value_dim};
  uint32_t down[2], up[2];
  qkv[0] = latent_query(b, a, x, vector);
  uint32_t c = latent_linear(b, "kv_down", x, a->hidden, a->kv_rank + a->rotary_dims, a->qkv_bias);
  latent_split(b, "kv_split", pz_build_enter(b, "kv_latent", c), latent, latent_widths, down);
  down[0] = pz_kernel_rmsnorm_inside(b, "kv_down_norm", down[0], a->kv_rank);
  uint32_t kv = latent_by_heads(b, "kv_up", down[0], a->kv_rank, a->heads * (nope + a->value_dim));
  latent_split(b, "kv_heads", kv, own, own_widths, up);
  qkv[1] = latent_key(b, a, up[0], down[1]);
  qkv[2] = up[1];
}

/* ---- sparse attention ------------------------------------------------------------------------ */

/* Keys of a token: those that the indexer's scores choose.  Its projections are small and on every device of the
 * tensor-parallel group; heads' products are weighted by the token and added up (arXiv 2512.02556, 2.1). */
static uint32_t index_query(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                            uint32_t vector) {
  int64_t width = a->index_heads * a->index_dim;
  uint32_t q = latent_linear(b, "index_query", vector, a->q_rank, width, false);
  uint32_t w = latent_linear(b, "index_weight", x, a->hidden, a->index_heads, false);
  q = pz_build_enter(b, "index_query", q);
  q = pz_kernel_rotary(b, "index_query_rotary", q, a->rotary_dims, a->index_dim);
  return pz_build_step(b, PZ_OP_MUL, "index_weighted", q, pz_build_enter(b, "index_weight", w));
}

static uint32_t index_key(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  uint32_t k = latent_linear(b, "index_key", x, a->hidden, a->index_dim, false);
  k = pz_kernel_layernorm(b, "index_key_norm", k, a->index_dim, true);
  k = pz_build_enter(b, "index_key", k);
  k = pz_kernel_rotary(b, "index_key_rotary", k, a->rotary_dims, a->index_dim);
  return b->options->cp > 1 ? gather_keys(b, "ring.index_key", k, b->options->seq, 0) : k;
}

/* Positions of the chosen keys.  Scores of all keys before a token, half of them on average, pass through memory. */
static uint32_t choose_keys(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                            uint32_t vector) {
  if (!a->index_heads) return PZ_NONE;
  int64_t before = pz_ceil_div(b->options->seq, 2), most = INT64_C(1) << 26;
  struct pz_contract c = {.name = "index_scores",
                          .a = index_query(b, a, x, vector),
                          .c = index_key(b, a, x),
                          .bias = PZ_NONE,
                          .dims = {b->options->mbs, b->part, before, a->index_heads * a->index_dim},
                          .shape = PZ_SHAPE(b->options->mbs, b->part, before)};
  uint32_t scores = pz_build_contract(b, &c);
  if (scores == PZ_NONE) return PZ_NONE;
  pz_graph_tensor(b->graph, scores)->held = pz_min(most, pz_graph_tensor(b->graph, scores)->elems);
  return pz_build_shaped(b, PZ_OP_COPY, "index_choice", scores, PZ_NONE,
                         PZ_SHAPE(b->tokens, pz_min(a->index_topk, b->options->seq)));
}

/* Of fewer keys than there are, queries meet the vectors that keys and values are made from (FlashMLA's sparse kernels:
 * as in decoding), whose projections take as long as those of keys and values. */
static void meet_vectors(const struct pz_arch *a, struct pz_flash *f) {
  if (!a->index_topk || a->index_topk >= f->span) return;
  f->dims.k = a->kv_rank + a->rotary_dims;
  f->value_dim = a->kv_rank;
}

/* ---- scores and context --------------------------------------------------------------------- */

/* Norms and positions of query and key. */
static void rotate(struct pz_builder *b, const struct pz_arch *a, uint32_t qk[2]) {
  static const char *const norm[] = {"query_norm", "key_norm"}, *const rotary[] = {"query_rotary",
                                                                                   "key_rotary"};
  const int64_t heads[] = {a->heads, a->kv_heads};
  for (int i = 0; i < 2; i++) {
    if (a->qk_norm == PZ_QK_NORM_HEAD)
      qk[i] = pz_kernel_rmsnorm_inside(b, norm[i], qk[i], a->head_dim);
    if (a->qk_norm == PZ_QK_NORM_WIDTH)
      qk[i] = pz_kernel_rmsnorm_divided(b, norm[i], qk[i], heads[i] * a->head_dim);
    if (a->rotary_dims) qk[i] = pz_kernel_rotary(b, rotary[i], qk[i], a->rotary_dims, a->head_dim);
    if (a->rotary_dims && a->qk_norm == PZ_QK_NORM_PLAIN)
      qk[i] = pz_kernel_rmsnorm_plain(b, norm[i], qk[i], a->head_dim);
  }
}

/* The framework's batched product wants key and value once for each query head, and heads in front
 * of tokens: with one sample that is a view, with more it is a copy. */
static void arrange_eager(struct pz_builder *b, const struct sizes *z, uint32_t qkv[3]) {
  static const char *const repeat[] = {"", "key_repeat", "value_repeat"};
  static const char *const copy[] = {"query_copy", "key_copy", "value_copy"};
  for (int i = 0; i < 3; i++) {
    bool grouped = i > 0 && z->heads != z->kv_heads;
    if (grouped)
      qkv[i] = pz_build_shaped(b, PZ_OP_REPEAT, repeat[i], qkv[i], PZ_NONE,
                               PZ_SHAPE(z->batch * z->seq, z->heads * z->head_dim));
    else if (z->batch > 1)
      qkv[i] = pz_build_step(b, PZ_OP_COPY, copy[i], qkv[i], PZ_NONE);
  }
}

static uint32_t scale_and_mask(struct pz_builder *b, const struct pz_arch *a, const struct sizes *z,
                               uint32_t scores) {
  const struct pz_workload_options *o = b->options;
  if (!pz_eager(b)) {
    if (a->score_cap) scores = pz_kernel_cap(b, "score_cap", scores);
    uint32_t all =
        pz_build_data(b, "mask", PZ_B16, PZ_SHAPE(o->mbs * z->chunks, z->queries, z->keys));
    return pz_build_step(b, PZ_OP_SCALE_MASK, "scale_mask", scores, all);
  }
  if (!a->scale_query) scores = pz_build_step(b, PZ_OP_SCALE, "scale", scores, PZ_NONE);
  if (a->score_cap) scores = pz_kernel_cap(b, "score_cap", scores);
  if (a->causal_mask_buffer) { /* masked by selection */
    uint32_t kept = pz_build_data(b, "mask", PZ_BYTE, PZ_SHAPE(o->seq, o->seq));
    return pz_build_step(b, PZ_OP_MUL, "select_mask", scores, kept);
  }
  uint32_t mask = pz_build_data(b, "mask", PZ_B16, PZ_SHAPE(o->mbs, o->seq, o->seq));
  return pz_kernel_add(b, "add_mask", scores, mask);
}

/* A logit of each head that takes part in the softmax and has no value. */
static uint32_t sinks(struct pz_builder *b, const struct pz_arch *a) {
  struct pz_shape shape = PZ_SHAPE(a->heads / b->options->tp);
  return a->sinks ? pz_build_param(b, "sinks", shape, a->heads, false) : PZ_NONE;
}

static struct pz_shape context_shape(const struct sizes *z) {
  return PZ_SHAPE(z->batch * z->heads, z->seq, z->value_dim);
}

static uint32_t standard(struct pz_builder *b, const struct pz_arch *a, const struct sizes *z,
                         uint32_t qkv[3], uint32_t index) {
  if (pz_eager(b)) arrange_eager(b, z, qkv);
  int64_t batch = z->batch * z->heads * z->chunks;
  struct pz_dims qk = {batch, z->queries, z->keys, z->head_dim},
                 av = {batch, z->queries, z->value_dim, z->keys};
  uint32_t s =
      pz_build_contract(b, &(struct pz_contract){.name = "scores",
                                                 .a = qkv[0],
                                                 .c = qkv[1],
                                                 .bias = PZ_NONE,
                                                 .dims = qk,
                                                 .shape = PZ_SHAPE(batch, z->queries, z->keys)});
  s = scale_and_mask(b, a, z, s);
  if (index != PZ_NONE) s = pz_build_step(b, PZ_OP_MUL, "index_mask", s, index);
  s = pz_kernel_softmax(b, "softmax", s, sinks(b, a), a->softmax_f32);
  s = pz_kernel_dropout(b, "attention_dropout", s, a->drop_attn);
  uint32_t context = pz_build_contract(b, &(struct pz_contract){.name = "context",
                                                                .a = s,
                                                                .c = qkv[2],
                                                                .bias = PZ_NONE,
                                                                .dims = av,
                                                                .shape = context_shape(z)});
  return pz_eager(b) ? pz_build_step(b, PZ_OP_COPY, "merge_heads", context, PZ_NONE) : context;
}

static uint32_t flash(struct pz_builder *b, const struct pz_arch *a, const struct sizes *z,
                      const uint32_t qkv[3], uint32_t index) {
  struct pz_flash f = {.name = "flash_attention",
                       .in = {qkv[0], qkv[1], qkv[2], a->index_heads ? index : sinks(b, a)},
                       .dims = {z->batch * z->heads * z->chunks, z->queries, z->keys, z->head_dim},
                       .value_dim = z->value_dim,
                       .span = z->span,
                       .shape = context_shape(z)};
  meet_vectors(a, &f);
  return pz_build_flash(b, &f);
}

static uint32_t attend(struct pz_builder *b, const struct pz_arch *a,
                       const struct attention_names *n, uint32_t qkv[4], uint32_t index) {
  struct sizes z = sizes_of(b, a);
  context_enter(b, a, qkv);
  uint32_t context = b->options->attention == PZ_ATTENTION_FLASH ? flash(b, a, &z, qkv, index)
                                                                 : standard(b, a, &z, qkv, index);
  context = context_leave(b, context);
  if (qkv[3] != PZ_NONE) {
    uint32_t open = pz_build_step(b, PZ_OP_SIGMOID, "attention_gate.sigmoid", qkv[3], PZ_NONE);
    context = pz_build_step(b, PZ_OP_MUL, "attention_gate", context, open);
  }
  struct pz_linear out = {.name = n->out,
                          .x = context,
                          .in = a->heads * z.value_dim,
                          .out = a->hidden,
                          .divide = PZ_DIVIDE_ROWS,
                          .bias = a->out_bias};
  return pz_build_leave(b, n->out, pz_build_linear(b, &out), a->out_bias ? a->hidden : 0);
}

uint32_t pz_part_attention(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  uint32_t qkv[4], index = PZ_NONE;
  if (a->kv_rank) {
    uint32_t vector = query_vector(b, a, x);
    index = choose_keys(b, a, x, vector);
    latent_qkv(b, a, x, vector, qkv);
    qkv[3] = PZ_NONE;
  } else {
    project_qkv(b, a, &SELF, x, x, qkv);
    if (pz_eager(b) && a->scale_query)
      qkv[0] = pz_build_step(b, PZ_OP_SCALE, "scale_query", qkv[0], PZ_NONE);
    rotate(b, a, qkv);
  }
  return attend(b, a, &SELF, qkv, index);
}

uint32_t pz_part_cross_attention(struct pz_builder *b, const struct pz_arch *a, uint32_t x,
                                 uint32_t y) {
  uint32_t qkv[4];
  project_qkv(b, a, &CROSS, x, y, qkv);
  return attend(b, a, &CROSS, qkv, PZ_NONE);
}
