/* Attention: projections of query, key and value, positions, scores, softmax, context, and the
 * output projection.
 *
 * * pz_part_attention() builds the self-attention of a block.  Ordinary attention (project_qkv),
 * latent attention (project_latent) and the choice of keys of sparse attention (choose_keys)
 * differ in how they compute query, key and value. build_attention() is common: flash attention is
 * one operator, and standard attention writes its scores to memory.
 *
 * * With context parallelism, a device has the tokens of two pieces of every sample, one from each
 * end of the sequence, so that causal attention is balanced (Megatron-LM; Brandon et al., arXiv
 * 2311.09431).  Before attention, the devices exchange data in one of two forms.  In form "ring",
 * the keys and values of the other devices pass one part after another (Liu et al., arXiv
 * 2310.01889), in backward again and with their gradients; with a window or chunk, only the parts
 * that it reaches pass.  In form "all-to-all", the devices exchange query, key and value of all
 * tokens for a share of the heads, and the result back (Jacobs et al., DeepSpeed Ulysses, arXiv
 * 2309.14509). */
#include "workload/parts.h"

#include <inttypes.h>

#include "core/num.h"

/* ---- context parallelism --------------------------------------------------------------------- */

/* Refuses a context-parallel degree that does not fit the model.  Each device has two pieces of
 * every sample, so 2 cp must divide the sequence length. */
void pz_check_context(struct pz_call *call, const char *model, const struct pz_arch *arch,
                      const struct pz_workload_options *options) {
  int64_t cp = options->cp;
  if (cp == 1) return;
  if (options->attention != PZ_ATTENTION_FLASH)
    pz_raise(call, PZ_BAD_USE,
             "context-parallel degree %" PRId64 " with standard attention; accepted: flash", cp);
  if (options->seq % (2 * cp))
    pz_raise(call, PZ_BAD_USE,
             "context-parallel degree %" PRId64 " with %" PRId64
             " tokens; accepted: degrees of which twice divides them",
             cp, options->seq);
  if (options->cp_form != PZ_CONTEXT_ALL_TO_ALL) return;
  /* Form all-to-all divides the heads of a tensor-parallel device once more, over cp devices. */
  const struct {
    const char *name;
    int64_t count;
  } heads[] = {{"attention heads", arch->heads / options->tp},
               {"key/value heads", pz_max(arch->kv_heads / options->tp, 1)}};
  for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
    if (heads[i].count % cp)
      pz_raise(call, PZ_BAD_USE,
               "context-parallel degree %" PRId64 " in form all-to-all does not divide the %" PRId64
               " %s that a device has of %s; accepted: a divisor, or form ring",
               cp, heads[i].count, heads[i].name, model);
}

/* Returns whether context parallelism divides the heads: a device computes attention of all tokens
 * for its share of the heads. */
static bool divides_heads(const struct pz_builder *builder) {
  return builder->options->cp > 1 && builder->options->cp_form == PZ_CONTEXT_ALL_TO_ALL;
}

/* Returns how many keys of a sample this device's attention reads: its own and those of others.
 * Without a window or chunk, it reads all keys; otherwise, of the others' keys, only those just
 * before each of its two pieces of the sequence. */
int64_t pz_context_keys(const struct pz_builder *builder, const struct pz_arch *arch) {
  int64_t seq = builder->options->seq, cp = builder->options->cp, other_keys = seq;
  if (arch->chunk && arch->chunk < seq) {
    /* Piece i needs the keys of its chunk that precede its first token, i * piece_tokens.  A device
     * has two of the 2 cp pieces, so the mean over the cp devices is the sum over all pieces
     * divided by cp. */
    int64_t keys_before = 0, piece_tokens = seq / (2 * cp);
    for (int64_t i = 0; i < 2 * cp; i++) keys_before += i * piece_tokens % arch->chunk;
    other_keys = pz_ceil_div(keys_before, cp);
  } else if (arch->window && arch->window < seq) {
    other_keys = 2 * (arch->window - 1); /* a window contains the token itself */
  }
  return pz_min(seq, builder->local_seq + other_keys);
}

/* Gathers the keys or values of n_keys tokens of each sample from the context group, as rows of
 * `width` values.  Memory holds the part of one other device at a time. */
static uint32_t gather_keys(struct pz_builder *builder, const char *name, uint32_t input,
                            int64_t n_keys, int64_t width) {
  int64_t mbs = builder->options->mbs, local_seq = builder->local_seq;
  uint32_t keys = pz_build_exchange(builder, PZ_OP_ALL_GATHER, PZ_PEERS_CONTEXT, name, input,
                                    PZ_SHAPE(mbs * n_keys, width));
  pz_graph_tensor(builder->graph, keys)->held = mbs * pz_min(local_seq, n_keys - local_seq) * width;
  return keys;
}

/* Replaces query, key and value of this device's tokens by those that its attention reads: in form
 * all-to-all those of all tokens for a share of the heads, and in form ring its own queries and the
 * keys and values of other devices' tokens too. */
static void exchange_qkv(struct pz_builder *builder, const struct pz_arch *arch, uint32_t qkv[3]) {
  static const char *const rings[] = {"ring.query", "ring.key", "ring.value"},
                           *const heads[] = {"to_heads.query", "to_heads.key", "to_heads.value"};
  int64_t cp = builder->options->cp, tokens = builder->tokens;
  if (cp <= 1) return;
  int64_t n_keys = pz_context_keys(builder, arch);
  for (int i = 0; i < 3; i++) {
    int64_t width = pz_graph_tensor(builder->graph, qkv[i])->elems / tokens;
    if (divides_heads(builder)) {
      qkv[i] = pz_build_exchange(builder, PZ_OP_ALL_TO_ALL, PZ_PEERS_CONTEXT, heads[i], qkv[i],
                                 PZ_SHAPE(tokens * cp, width / cp));
    } else if (i > 0 && n_keys > builder->local_seq) {
      /* Sparse attention exchanges one latent vector instead of the key and the value, which count
       * as one half of it each. */
      if (arch->index_topk) width = pz_ceil_div(arch->kv_rank + arch->rotary_dims, 2);
      qkv[i] = gather_keys(builder, rings[i], qkv[i], n_keys, width);
    }
  }
}

/* Sizes of attention on this device.  A sequence has `chunks` chunks (1 without chunked attention)
 * of `queries` queries each.  A query attends to at most `keys` keys: all of them, those of a
 * window, or those of its chunk, where the last chunk counts as a whole one.  `span` is the number
 * of queries of all devices that attend to the same keys. */
struct attention_sizes {
  int64_t heads, kv_heads, head_dim, value_dim, batch, seq;
  int64_t chunks, queries, keys, span;
};

/* Returns the greatest common divisor of two numbers (Euclid). */
static int64_t common_divisor(int64_t a, int64_t b) { return b ? common_divisor(b, a % b) : a; }

/* Returns the sizes of attention on this device.  Windows and chunks reduce its keys, and context
 * parallelism reduces its queries (form ring) or its heads (form all-to-all). */
static struct attention_sizes find_sizes(const struct pz_builder *builder,
                                         const struct pz_arch *arch) {
  const struct pz_workload_options *options = builder->options;
  bool by_heads = divides_heads(builder);
  int64_t seq = options->seq, query_parts = by_heads ? 1 : pz_max(options->cp, 1);
  int64_t head_parts = options->tp * (by_heads ? options->cp : 1);
  struct attention_sizes sizes = {.heads = arch->heads / head_parts,
                                  .kv_heads = pz_max(arch->kv_heads / head_parts, 1),
                                  .head_dim = arch->head_dim,
                                  .value_dim = arch->value_dim ? arch->value_dim : arch->head_dim,
                                  .batch = options->mbs,
                                  .seq = seq / query_parts,
                                  .chunks = 1,
                                  .queries = seq / query_parts,
                                  .keys = seq,
                                  .span = seq};
  /* Eager code computes all scores and masks those outside of a window or chunk. */
  bool writes_all_scores = builder->eager && options->attention == PZ_ATTENTION_STANDARD;
  if (writes_all_scores) return sizes;
  if (arch->chunk && arch->chunk < seq) {
    /* The devices divide whole chunks as far as possible, and then the queries of each chunk. */
    int64_t chunks = pz_ceil_div(seq, arch->chunk);
    int64_t whole_chunk_parts = common_divisor(chunks, query_parts);
    sizes.chunks = chunks / whole_chunk_parts;
    sizes.queries = pz_ceil_div(arch->chunk, query_parts / whole_chunk_parts);
    sizes.keys = arch->chunk;
    sizes.span = arch->chunk;
  } else if (arch->window && arch->window < seq) {
    sizes.keys = arch->window;
  } else if (arch->index_topk) {
    sizes.keys = pz_min(arch->index_topk, seq);
  }
  return sizes;
}

/* ---- projections ----------------------------------------------------------------------------- */

/* Names of the operators that project to attention and from it. */
struct attention_names {
  const char *enter, *query, *key, *value, *out;
};

/* The names of self-attention and of cross-attention. */
static const struct attention_names SELF = {"qkv", "query", "key", "value", "attention_out"},
                                    CROSS = {"cross_query", "cross_query", "cross_key",
                                             "cross_value", "cross_out"};

/* Projects the input to queries, keys or values of `heads` heads. */
static uint32_t project_heads(struct pz_builder *builder, const struct pz_arch *arch,
                              const char *name, uint32_t input, int64_t heads) {
  return pz_build_linear(builder, &(struct pz_linear){.name = name,
                                                      .input = input,
                                                      .in = arch->hidden,
                                                      .out = heads * arch->head_dim,
                                                      .divide = PZ_DIVIDE_COLUMNS,
                                                      .bias = arch->qkv_bias});
}

/* Projects the query.  If attention has an output gate, the same projection computes it, and *gate
 * receives a view of the gate; otherwise *gate is PZ_NONE. */
static uint32_t project_query(struct pz_builder *builder, const struct pz_arch *arch,
                              const char *name, uint32_t input, uint32_t *gate) {
  int64_t width = arch->heads / builder->options->tp * arch->head_dim;
  int64_t heads = arch->out_gate ? 2 * arch->heads : arch->heads;
  uint32_t query = project_heads(builder, arch, name, input, heads), parts[2];
  *gate = PZ_NONE;
  if (!arch->out_gate) return query;
  struct pz_split split = {
      .name = "split_gate", .whole = query, .widths = {width, width}, .names = {"query", "gate"}};
  pz_build_split(builder, &split, parts);
  *gate = parts[1];
  return parts[0];
}

/* Returns whether devices share key/value heads.  Norms over all heads and latent attention do not
 * allow it, because they need whole heads. */
bool pz_attention_shares(const struct pz_arch *arch, int64_t tp) {
  return arch->kv_heads && !arch->kv_rank && arch->qk_norm != PZ_QK_NORM_WIDTH &&
         tp > arch->kv_heads && tp % arch->kv_heads == 0 &&
         arch->kv_heads * arch->head_dim % tp == 0;
}

/* Redistributes the projections if there are fewer key/value heads than devices, where each device
 * has projected only a part of a head (Megatron Core, get_query_key_value_tensors in
 * transformer/attention.py).
 *
 * * All results are gathered, their columns are reordered (_gather_along_last_dim in
 * tensor_parallel/mappings.py), and each device copies its queries with the key and value of their
 * head.  In backward, the columns of other devices are zero, and scattering adds up the gradients.
 * qkv receives query, key, value, and the gate or PZ_NONE. */
static void share_heads(struct pz_builder *builder, const struct pz_arch *arch,
                        const uint32_t projected[3], uint32_t qkv[4]) {
  static const char *const names[] = {"query_own", "key_own", "value_own", "gate_own"};
  int64_t query_width = arch->heads / builder->options->tp * arch->head_dim;
  int64_t key_width = arch->head_dim; /* one key/value head */
  int64_t all_heads = (arch->out_gate ? 2 : 1) * arch->heads + 2 * arch->kv_heads;
  struct pz_op_spec gather = {.kind = PZ_OP_ALL_GATHER,
                              .name = "kv_group.gather",
                              .in = {projected[0], projected[1], projected[2], PZ_NONE},
                              .shape = PZ_SHAPE(builder->tokens, all_heads * arch->head_dim)};
  uint32_t whole = pz_build_op(builder, &gather);
  pz_graph_tensor(builder->graph, whole)->split = false; /* every device has all columns */
  struct pz_split split = {
      .name = "kv_group.split",
      .whole = pz_build_unary(builder, PZ_OP_COPY, "kv_group.order", whole),
      .widths = {query_width, key_width, key_width, query_width},
      .names = {"query_part", "key_part", "value_part", arch->out_gate ? "gate_part" : NULL}};
  qkv[3] = PZ_NONE;
  pz_build_split(builder, &split, qkv);
  for (int i = 0; i < 4 && split.names[i]; i++)
    qkv[i] = pz_build_op(builder, &(struct pz_op_spec){.kind = PZ_OP_COPY,
                                                       .name = names[i],
                                                       .in = {qkv[i], PZ_NONE},
                                                       .divides = true});
}

/* Projects query, key, value, and the output gate, whose entry of qkv is PZ_NONE if the model has
 * none.  Keys and values are projected from `source`, which differs from the input only in
 * cross-attention. */
static void project_qkv(struct pz_builder *builder, const struct pz_arch *arch,
                        const struct attention_names *names, uint32_t input, uint32_t source,
                        uint32_t qkv[4]) {
  bool is_cross = input != source;
  int64_t tp = builder->options->tp, all_heads = arch->heads + 2 * arch->kv_heads;
  input = pz_build_enter(builder, names->enter, input);
  source = is_cross ? pz_build_enter(builder, names->key, source) : input;
  if (pz_attention_shares(arch, tp)) {
    /* Each device projects its share of all columns, which share_heads() redistributes. */
    int64_t gate_heads = arch->out_gate ? arch->heads : 0;
    uint32_t projected[3] = {PZ_NONE, PZ_NONE, PZ_NONE};
    if (arch->fused_qkv) {
      projected[0] = project_heads(builder, arch, "qkv", input, all_heads + gate_heads);
    } else {
      projected[0] = project_heads(builder, arch, "query", input, arch->heads + gate_heads);
      projected[1] = project_heads(builder, arch, "key", input, arch->kv_heads);
      projected[2] = project_heads(builder, arch, "value", input, arch->kv_heads);
    }
    share_heads(builder, arch, projected, qkv);
    return;
  }
  if (!arch->fused_qkv) {
    qkv[0] = project_query(builder, arch, names->query, input, &qkv[3]);
    qkv[1] = project_heads(builder, arch, names->key, source, arch->kv_heads);
    qkv[2] = project_heads(builder, arch, names->value, source, arch->kv_heads);
    return;
  }
  /* One projection computes query, key and value, which are views of its result. */
  int64_t query_width = arch->heads / tp * arch->head_dim;
  int64_t key_width = arch->kv_heads / tp * arch->head_dim;
  struct pz_split split = {.name = "split_heads",
                           .whole = project_heads(builder, arch, "qkv", input, all_heads),
                           .widths = {query_width, key_width, key_width},
                           .names = {"query", "key", "value"}};
  pz_build_split(builder, &split, qkv);
  qkv[3] = PZ_NONE;
}

/* ---- latent attention (DeepSeek-V2, arXiv 2405.04434) ---------------------------------------- */

/* Adds a linear layer outside of the tensor-parallel region that computes a small latent vector,
 * from which query, key or value are projected inside of the region. */
static uint32_t latent_linear(struct pz_builder *builder, const char *name, uint32_t input,
                              int64_t in, int64_t out, bool bias) {
  return pz_build_linear(builder, &(struct pz_linear){.name = name,
                                                      .input = input,
                                                      .in = in,
                                                      .out = out,
                                                      .bias = bias,
                                                      .outside_regions = true});
}

/* Adds a linear layer inside of the tensor-parallel region, which the group divides by heads. */
static uint32_t linear_by_heads(struct pz_builder *builder, const char *name, uint32_t input,
                                int64_t in, int64_t out) {
  return pz_build_linear(
      builder,
      &(struct pz_linear){
          .name = name, .input = input, .in = in, .out = out, .divide = PZ_DIVIDE_COLUMNS});
}

/* Sets qkv to query, key and value of latent attention.  Queries are projected from query_latent
 * or, if the model has none (q_rank is 0), from the input.  All heads share the rotated part of the
 * key. */
static void project_latent(struct pz_builder *builder, const struct pz_arch *arch, uint32_t input,
                           uint32_t query_latent, uint32_t qkv[3]) {
  int64_t heads = arch->heads / builder->options->tp, rotary_dims = arch->rotary_dims;
  int64_t plain_dims = arch->head_dim - rotary_dims, query_width = arch->heads * arch->head_dim;
  uint32_t query;
  if (arch->q_rank) {
    query = pz_build_enter(builder, "query_latent", query_latent);
    query = linear_by_heads(builder, "query_up", query, arch->q_rank, query_width);
  } else {
    query = pz_build_enter(builder, "query", input);
    query = linear_by_heads(builder, "query", query, arch->hidden, query_width);
  }
  qkv[0] = pz_kernel_rotary(builder, "query_rotary", query, rotary_dims, arch->head_dim);

  /* The latent vector and the common part of the key are columns of one projection, and the keys
   * and values of all heads are columns of a second one. */
  uint32_t down[2], up[2];
  uint32_t latent = latent_linear(builder, "kv_down", input, arch->hidden,
                                  arch->kv_rank + rotary_dims, arch->qkv_bias);
  struct pz_split latent_split = {.name = "kv_split",
                                  .whole = pz_build_enter(builder, "kv_latent", latent),
                                  .widths = {arch->kv_rank, rotary_dims},
                                  .names = {"kv_latent", "key_common"}};
  pz_build_split(builder, &latent_split, down);
  down[0] = pz_kernel_rmsnorm(builder, "kv_down_norm", down[0], arch->kv_rank, PZ_NORM_INSIDE);
  struct pz_split head_split = {.name = "kv_heads",
                                .whole =
                                    linear_by_heads(builder, "kv_up", down[0], arch->kv_rank,
                                                    arch->heads * (plain_dims + arch->value_dim)),
                                .widths = {heads * plain_dims, heads * arch->value_dim},
                                .names = {"key_own", "value"}};
  pz_build_split(builder, &head_split, up);

  /* Each head's key consists of its own part and a copy of the rotated common part. */
  uint32_t rotated = pz_kernel_rotary(builder, "key_rotary", down[1], rotary_dims, rotary_dims);
  rotated = pz_build_op(
      builder, &(struct pz_op_spec){.kind = PZ_OP_REPEAT,
                                    .name = "key_rotary.repeat",
                                    .in = {rotated, PZ_NONE},
                                    .shape = PZ_SHAPE(builder->tokens, heads * rotary_dims),
                                    .divides = true});
  qkv[1] = pz_build_shaped(builder, PZ_OP_CONCAT, "key", up[0], rotated,
                           PZ_SHAPE(builder->tokens, heads * arch->head_dim));
  qkv[2] = up[1];
}

/* ---- sparse attention (DeepSeek-V3.2, arXiv 2512.02556, section 2.1) ------------------------- */

/* Returns the positions of the keys that the indexer chooses for each token.
 *
 * * Every device of the tensor-parallel group computes all projections of the indexer, which are
 * small.  The scores of its heads are weighted by the token and added up.  The scores of all keys
 * before a token, half of the sequence on average, pass through memory in parts. */
static uint32_t choose_keys(struct pz_builder *builder, const struct pz_arch *arch, uint32_t input,
                            uint32_t query_latent) {
  const struct pz_workload_options *options = builder->options;
  const bool has_bias = false, has_affine_norm = true;
  int64_t width = arch->index_heads * arch->index_dim, rotary_dims = arch->rotary_dims;
  /* queries of all heads of the indexer, multiplied by the token's weight of the head */
  uint32_t query =
      latent_linear(builder, "index_query", query_latent, arch->q_rank, width, has_bias);
  uint32_t weight =
      latent_linear(builder, "index_weight", input, arch->hidden, arch->index_heads, has_bias);
  query = pz_build_enter(builder, "index_query", query);
  query = pz_kernel_rotary(builder, "index_query_rotary", query, rotary_dims, arch->index_dim);
  weight = pz_build_enter(builder, "index_weight", weight);
  query = pz_build_binary(builder, PZ_OP_MUL, "index_weighted", query, weight);

  /* one key for each token, which all heads of the indexer share */
  uint32_t key =
      latent_linear(builder, "index_key", input, arch->hidden, arch->index_dim, has_bias);
  key = pz_kernel_layernorm(builder, "index_key_norm", key, arch->index_dim, has_affine_norm);
  key = pz_build_enter(builder, "index_key", key);
  key = pz_kernel_rotary(builder, "index_key_rotary", key, rotary_dims, arch->index_dim);
  if (options->cp > 1)
    key = gather_keys(builder, "ring.index_key", key, options->seq, arch->index_dim);

  /* scores of each token and each key before it, and the choice of the largest ones */
  static const int64_t MOST_HELD_SCORES = INT64_C(1) << 26; /* elements in memory at a time */
  int64_t keys_before = pz_ceil_div(options->seq, 2);
  struct pz_contraction product = {.name = "index_scores",
                                   .left = query,
                                   .right = key,
                                   .bias = PZ_NONE,
                                   .dims = {options->mbs, builder->local_seq, keys_before, width},
                                   .shape =
                                       PZ_SHAPE(options->mbs, builder->local_seq, keys_before)};
  uint32_t scores = pz_build_contraction(builder, &product);
  struct pz_tensor *tensor = pz_graph_tensor(builder->graph, scores);
  tensor->held = pz_min(MOST_HELD_SCORES, tensor->elems);
  int64_t chosen = pz_min(arch->index_topk, options->seq);
  return pz_build_shaped(builder, PZ_OP_COPY, "index_choice", scores, PZ_NONE,
                         PZ_SHAPE(builder->tokens, chosen));
}

/* ---- scores and context ---------------------------------------------------------------------- */

/* Scales and masks the attention scores: one operator in fused kernels, several in eager code. */
static uint32_t scale_and_mask(struct pz_builder *builder, const struct pz_arch *arch,
                               const struct attention_sizes *sizes, uint32_t scores) {
  const struct pz_workload_options *options = builder->options;
  if (!builder->eager) {
    if (arch->caps_scores) scores = pz_kernel_cap(builder, "score_cap", scores);
    uint32_t mask =
        pz_build_data(builder, "mask", PZ_B16,
                      PZ_SHAPE(options->mbs * sizes->chunks, sizes->queries, sizes->keys));
    return pz_build_binary(builder, PZ_OP_SCALE_MASK, "scale_mask", scores, mask);
  }
  if (!arch->scale_query) scores = pz_build_unary(builder, PZ_OP_SCALE, "scale", scores);
  if (arch->caps_scores) scores = pz_kernel_cap(builder, "score_cap", scores);
  bool selects = arch->causal_mask_buffer; /* a stored mask of bytes selects the scores */
  if (selects) {
    uint32_t mask = pz_build_data(builder, "mask", PZ_BYTE, PZ_SHAPE(options->seq, options->seq));
    return pz_build_binary(builder, PZ_OP_MUL, "select_mask", scores, mask);
  }
  uint32_t mask =
      pz_build_data(builder, "mask", PZ_B16, PZ_SHAPE(options->mbs, options->seq, options->seq));
  return pz_build_binary(builder, PZ_OP_ADD, "add_mask", scores, mask);
}

/* Returns the attention sinks, a learned logit of each head that enters the softmax without a
 * value, or PZ_NONE if the model has none. */
static uint32_t build_sinks(struct pz_builder *builder, const struct pz_arch *arch) {
  if (!arch->attention_sinks) return PZ_NONE;
  struct pz_shape shape = PZ_SHAPE(arch->heads / builder->options->tp);
  return pz_build_param(builder, "sinks", shape, arch->heads, false);
}

/* Adds standard attention, which writes scores and probabilities to memory.  `index` is the tensor
 * of keys that sparse attention chose, or PZ_NONE. */
static uint32_t attend_standard(struct pz_builder *builder, const struct pz_arch *arch,
                                const struct attention_sizes *sizes, uint32_t qkv[3],
                                uint32_t index) {
  if (builder->eager) {
    /* Eager code repeats key and value for each query head, and arranges heads before tokens,
     * which is a view of one sample but copies several. */
    static const char *const repeat_names[] = {"", "key_repeat", "value_repeat"};
    static const char *const copy_names[] = {"query_copy", "key_copy", "value_copy"};
    for (int i = 0; i < 3; i++) {
      bool is_grouped = i > 0 && sizes->heads != sizes->kv_heads;
      if (is_grouped)
        qkv[i] =
            pz_build_shaped(builder, PZ_OP_REPEAT, repeat_names[i], qkv[i], PZ_NONE,
                            PZ_SHAPE(sizes->batch * sizes->seq, sizes->heads * sizes->head_dim));
      else if (sizes->batch > 1)
        qkv[i] = pz_build_unary(builder, PZ_OP_COPY, copy_names[i], qkv[i]);
    }
  }
  int64_t batch = sizes->batch * sizes->heads * sizes->chunks;
  struct pz_contraction score_product = {
      .name = "scores",
      .left = qkv[0],
      .right = qkv[1],
      .bias = PZ_NONE,
      .dims = {batch, sizes->queries, sizes->keys, sizes->head_dim},
      .shape = PZ_SHAPE(batch, sizes->queries, sizes->keys)};
  uint32_t scores = pz_build_contraction(builder, &score_product);
  scores = scale_and_mask(builder, arch, sizes, scores);
  if (index != PZ_NONE) scores = pz_build_binary(builder, PZ_OP_MUL, "index_mask", scores, index);
  uint32_t weights =
      pz_kernel_softmax(builder, "softmax", scores, build_sinks(builder, arch), arch->softmax_f32);
  weights = pz_kernel_dropout(builder, "attention_dropout", weights, arch->drop_attn);
  struct pz_contraction context_product = {
      .name = "context",
      .left = weights,
      .right = qkv[2],
      .bias = PZ_NONE,
      .dims = {batch, sizes->queries, sizes->value_dim, sizes->keys},
      .shape = PZ_SHAPE(sizes->batch * sizes->heads, sizes->seq, sizes->value_dim)};
  uint32_t context = pz_build_contraction(builder, &context_product);
  return builder->eager ? pz_build_unary(builder, PZ_OP_COPY, "merge_heads", context) : context;
}

/* Adds flash attention as one operator.  Sparse attention that reads fewer keys than there are
 * multiplies queries by the latent vectors of keys and values, as in decoding (FlashMLA's sparse
 * kernels); projecting queries and context then costs as much as projecting keys and values. */
static uint32_t attend_flash(struct pz_builder *builder, const struct pz_arch *arch,
                             const struct attention_sizes *sizes, const uint32_t qkv[3],
                             uint32_t index) {
  int64_t batch = sizes->batch * sizes->heads * sizes->chunks;
  struct pz_flash flash = {
      .name = "flash_attention",
      .in = {qkv[0], qkv[1], qkv[2], arch->index_heads ? index : build_sinks(builder, arch)},
      .dims = {batch, sizes->queries, sizes->keys, sizes->head_dim},
      .value_dim = sizes->value_dim,
      .span = sizes->span,
      .shape = PZ_SHAPE(sizes->batch * sizes->heads, sizes->seq, sizes->value_dim)};
  bool reads_latents = arch->index_topk && arch->index_topk < sizes->span;
  if (reads_latents) {
    flash.dims.k = arch->kv_rank + arch->rotary_dims;
    flash.value_dim = arch->kv_rank;
  }
  return pz_build_flash(builder, &flash);
}

/* Adds everything after the projections: exchange over the context group, attention, output gate,
 * and output projection.  qkv has query, key, value, and the gate or PZ_NONE.  `index` is the
 * tensor of keys that sparse attention chose, or PZ_NONE. */
static uint32_t build_attention(struct pz_builder *builder, const struct pz_arch *arch,
                                const struct attention_names *names, uint32_t qkv[4],
                                uint32_t index) {
  struct attention_sizes sizes = find_sizes(builder, arch);
  exchange_qkv(builder, arch, qkv);
  uint32_t context = builder->options->attention == PZ_ATTENTION_FLASH
                         ? attend_flash(builder, arch, &sizes, qkv, index)
                         : attend_standard(builder, arch, &sizes, qkv, index);
  if (divides_heads(builder)) {
    int64_t width = pz_graph_tensor(builder->graph, context)->elems / builder->tokens;
    context = pz_build_exchange(builder, PZ_OP_ALL_TO_ALL, PZ_PEERS_CONTEXT, "to_tokens.context",
                                context, PZ_SHAPE(builder->tokens, width));
  }
  if (qkv[3] != PZ_NONE) {
    uint32_t gate = pz_build_unary(builder, PZ_OP_SIGMOID, "attention_gate.sigmoid", qkv[3]);
    context = pz_build_binary(builder, PZ_OP_MUL, "attention_gate", context, gate);
  }
  struct pz_linear out = {.name = names->out,
                          .input = context,
                          .in = arch->heads * sizes.value_dim,
                          .out = arch->hidden,
                          .divide = PZ_DIVIDE_ROWS,
                          .bias = arch->out_bias};
  return pz_build_leave(builder, names->out, pz_build_linear(builder, &out),
                        arch->out_bias ? arch->hidden : 0);
}

/* Adds self-attention, or cross-attention if `source` is another tensor than the input.
 * project_latent() includes norms and rotary positions; ordinary attention adds them here. */
uint32_t pz_part_attention(struct pz_builder *builder, const struct pz_arch *arch, uint32_t input,
                           uint32_t source) {
  const struct attention_names *names = input == source ? &SELF : &CROSS;
  uint32_t qkv[4]; /* query, key, value, and the output gate or PZ_NONE */
  uint32_t index = PZ_NONE;
  if (!arch->kv_rank) { /* ordinary attention */
    project_qkv(builder, arch, names, input, source, qkv);
    if (builder->eager && arch->scale_query)
      qkv[0] = pz_build_unary(builder, PZ_OP_SCALE, "scale_query", qkv[0]);
    static const char *const norm_names[] = {"query_norm", "key_norm"};
    static const char *const rotary_names[] = {"query_rotary", "key_rotary"};
    const int64_t widths[] = {arch->heads * arch->head_dim, arch->kv_heads * arch->head_dim};
    for (int i = 0; i < 2; i++) {
      const char *norm = norm_names[i];
      if (arch->qk_norm == PZ_QK_NORM_HEAD)
        qkv[i] = pz_kernel_rmsnorm(builder, norm, qkv[i], arch->head_dim, PZ_NORM_INSIDE);
      if (arch->qk_norm == PZ_QK_NORM_WIDTH)
        qkv[i] = pz_kernel_rmsnorm_divided(builder, norm, qkv[i], widths[i], widths[i]);
      if (!arch->rotary_dims) continue;
      qkv[i] =
          pz_kernel_rotary(builder, rotary_names[i], qkv[i], arch->rotary_dims, arch->head_dim);
      if (arch->qk_norm == PZ_QK_NORM_PLAIN)
        qkv[i] = pz_kernel_rmsnorm(builder, norm, qkv[i], arch->head_dim, PZ_NORM_PLAIN);
    }
    return build_attention(builder, arch, names, qkv, index);
  }
  uint32_t query_latent = PZ_NONE;
  if (arch->q_rank) {
    query_latent =
        latent_linear(builder, "query_down", input, arch->hidden, arch->q_rank, arch->qkv_bias);
    query_latent =
        pz_kernel_rmsnorm(builder, "query_down_norm", query_latent, arch->q_rank, PZ_NORM_OUTSIDE);
  }
  if (arch->index_heads) index = choose_keys(builder, arch, input, query_latent);
  project_latent(builder, arch, input, query_latent, qkv);
  qkv[3] = PZ_NONE;
  return build_attention(builder, arch, names, qkv, index);
}
