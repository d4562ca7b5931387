/* Query, key and value of latent attention (DeepSeek-V2, arXiv 2405.04434).  The vectors that they are
 * made from are small: they are computed outside the tensor-parallel region and enter it in place of
 * the layer's input. */
#include "workload/parts.h"

static uint32_t linear(struct pz_builder *b, const char *name, uint32_t x, int64_t in, int64_t out,
                       bool bias) {
  return pz_build_linear(
      b, &(struct pz_linear){
             .name = name, .x = x, .in = in, .out = out, .bias = bias, .outside = true});
}

static uint32_t by_heads(struct pz_builder *b, const char *name, uint32_t x, int64_t in,
                         int64_t out) {
  return pz_build_linear(
      b,
      &(struct pz_linear){.name = name, .x = x, .in = in, .out = out, .divide = PZ_DIVIDE_COLUMNS});
}

static uint32_t query(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  int64_t width = a->heads * a->head_dim;
  uint32_t q;
  if (a->q_rank) {
    q = linear(b, "query_down", x, a->hidden, a->q_rank, a->qkv_bias);
    q = pz_kernel_rmsnorm(b, "query_down_norm", q, a->q_rank);
    q = by_heads(b, "query_up", pz_build_enter(b, "query_latent", q), a->q_rank, width);
  } else {
    q = by_heads(b, "query", pz_build_enter(b, "query", x), a->hidden, width);
  }
  return pz_kernel_rotary(b, "query_rotary", q, a->rotary_dims, a->head_dim);
}

static void split(struct pz_builder *b, const char *name, uint32_t x, const char *const names[2],
                  const int64_t widths[2], uint32_t part[2]) {
  struct pz_split s = {.name = name,
                       .x = x,
                       .parts = 2,
                       .widths = {widths[0], widths[1]},
                       .names = {names[0], names[1]}};
  pz_build_split(b, &s, part);
}

/* The rotated part is one for all heads. */
static uint32_t key(struct pz_builder *b, const struct pz_arch *a, uint32_t own, uint32_t common) {
  int64_t heads = a->heads / b->options->tp;
  uint32_t turned = pz_kernel_rotary(b, "key_rotary", common, a->rotary_dims, a->rotary_dims);
  turned = pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_REPEAT,
                                            .name = "key_rotary.repeat",
                                            .in = {turned, PZ_NONE},
                                            .shape = PZ_SHAPE(b->tokens, heads * a->rotary_dims),
                                            .divides = true});
  return pz_build_op(b, &(struct pz_emit){.kind = PZ_OP_CONCAT,
                                          .name = "key",
                                          .in = {own, turned, PZ_NONE},
                                          .shape = PZ_SHAPE(b->tokens, heads * a->head_dim)});
}

void pz_latent_qkv(struct pz_builder *b, const struct pz_arch *a, uint32_t x, uint32_t qkv[3]) {
  static const char *const latent[] = {"kv_latent", "key_common"}, *const own[] = {"key_own",
                                                                                   "value"};
  int64_t heads = a->heads / b->options->tp, nope = a->head_dim - a->rotary_dims;
  const int64_t latent_widths[] = {a->kv_rank, a->rotary_dims},
                own_widths[] = {heads * nope, heads * a->value_dim};
  uint32_t down[2], up[2];
  qkv[0] = query(b, a, x);
  uint32_t c = linear(b, "kv_down", x, a->hidden, a->kv_rank + a->rotary_dims, a->qkv_bias);
  split(b, "kv_split", pz_build_enter(b, "kv_latent", c), latent, latent_widths, down);
  down[0] = pz_kernel_rmsnorm_inside(b, "kv_down_norm", down[0], a->kv_rank);
  uint32_t kv = by_heads(b, "kv_up", down[0], a->kv_rank, a->heads * (nope + a->value_dim));
  split(b, "kv_heads", kv, own, own_widths, up);
  qkv[1] = key(b, a, up[0], down[1]);
  qkv[2] = up[1];
}
