/* Recurrent layers of hybrids: Mamba-2, the gated delta rule, Mamba.  Operators and what they save are those of Megatron
 * Core (ssm/mamba_mixer.py, ssm/gated_delta_net.py) and of the libraries that it calls. */
#include "workload/parts.h"

#include <inttypes.h>

#include "core/num.h"

/* This device's part, of tensor parallelism and, where `cp` is more than 1, of the heads over the context group.  Groups
 * that are fewer than its devices are repeated. */
struct slice {
  int64_t heads, groups, inner, keys; /* keys: width of B or C, of key or query */
};

static struct slice slice_of(const struct pz_recurrence *r, int64_t tp, int64_t cp) {
  int64_t heads = r->heads / tp / cp, groups = pz_max(r->groups / tp / cp, 1);
  return (struct slice){heads, groups, heads * r->head_dim, groups * r->state};
}

enum pz_status pz_recurrence_check(const char *name, const struct pz_arch *a,
                                   const struct pz_workload_options *o, struct pz_error *err) {
  const struct pz_recurrence *r = &a->recurrence;
  if (!r->heads || o->cp == 1) return PZ_OK;
  if (r->mixer == PZ_MIXER_MAMBA)
    return pz_fail(err, PZ_BAD_USE,
                   "context-parallel degree %" PRId64
                   " with Mamba layers (%s); accepted: 1, or Mamba-2",
                   o->cp, name);
  int64_t heads = r->heads / o->tp, groups = r->groups / o->tp;
  bool even = groups % o->cp == 0 || (o->cp % groups == 0 && r->mixer == PZ_MIXER_MAMBA2);
  if (heads % o->cp == 0 && even) return PZ_OK;
  return pz_fail(err, PZ_BAD_USE,
                 "context-parallel degree %" PRId64 " does not divide the %" PRId64
                 " heads and %" PRId64
                 " groups that a device has of the recurrent layers of %s; accepted: a divisor",
                 o->cp, heads, groups, name);
}

/* ---- what all have in common ---------------------------------------------------------------- */

static uint32_t recurrence_linear(struct pz_builder *b, const struct pz_arch *a, const char *name,
                                  uint32_t x, int64_t out) {
  return pz_build_linear(b, &(struct pz_linear){.name = name,
                                                .x = pz_build_enter(b, name, x),
                                                .in = a->hidden,
                                                .out = out,
                                                .divide = PZ_DIVIDE_COLUMNS,
                                                .bias = a->recurrence.proj_bias});
}

static uint32_t recurrence_out(struct pz_builder *b, const struct pz_arch *a, const char *name,
                               uint32_t x) {
  const struct pz_recurrence *r = &a->recurrence;
  struct pz_linear l = {.name = name,
                        .x = x,
                        .in = r->heads * r->head_dim,
                        .out = a->hidden,
                        .divide = PZ_DIVIDE_ROWS,
                        .bias = r->proj_bias};
  return pz_build_leave(b, name, pz_build_linear(b, &l), r->proj_bias ? a->hidden : 0);
}

/* The libraries want the tokens of a sample one after the other, Megatron Core has the samples of a token so; parts of
 * a context group are to be put in order, too. */
static uint32_t by_samples(struct pz_builder *b, const char *name, uint32_t x) {
  bool there = b->options->mbs == 1 && b->options->cp == 1;
  return there ? x : pz_build_step(b, PZ_OP_COPY, name, x, PZ_NONE);
}

/* A context group exchanges tokens for heads before the convolution and heads for tokens behind it (Megatron
 * Core, ssm/mamba_context_parallel.py). */
static uint32_t to_heads(struct pz_builder *b, uint32_t x, int64_t width) {
  if (b->options->cp == 1) return x;
  return pz_context_exchange(b, "to_heads", x, PZ_SHAPE(b->tokens * b->options->cp, width));
}

static uint32_t to_tokens(struct pz_builder *b, uint32_t x, int64_t width) {
  x = by_samples(b, "to_tokens.order", x);
  if (b->options->cp == 1) return x;
  return pz_context_exchange(b, "to_tokens", x, PZ_SHAPE(b->tokens, width));
}

/* A parameter with a value, or `each`, for every head or channel. */
static uint32_t vector(struct pz_builder *b, const char *name, int64_t n, int64_t each) {
  return pz_build_param(b, name, PZ_SHAPE(n / b->options->tp, each), n * each, false);
}

/* Depthwise over the last tokens, with SiLU. */
static uint32_t convolve(struct pz_builder *b, const struct pz_recurrence *r, const char *name,
                         uint32_t x, int64_t channels) {
  char part[PZ_BUILD_NAME];
  uint32_t w = vector(b, pz_build_name(part, name, "weight"), channels, r->conv);
  uint32_t bias =
      r->conv_bias ? vector(b, pz_build_name(part, name, "bias"), channels, 1) : PZ_NONE;
  return pz_build_op(
      b, &(struct pz_emit){.kind = PZ_OP_CONV1D, .name = name, .in = {x, w, bias, PZ_NONE}});
}

/* ---- Mamba-2 -------------------------------------------------------------------------------- */

/* One kernel of the library makes convolution, scan and gate; it saves its input and the result before the gate
 * (state-spaces/mamba, ops/triton/ssd_combined.py: MambaSplitConv1dScanCombinedFn). */
static uint32_t mamba2(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  const struct pz_recurrence *r = &a->recurrence;
  const struct pz_workload_options *o = b->options;
  struct slice all = slice_of(r, 1, 1), own = slice_of(r, o->tp, 1), z = slice_of(r, o->tp, o->cp);
  int64_t rows = b->tokens * o->cp, chunk = pz_min(r->chunk, o->seq);
  x = recurrence_linear(b, a, "mamba_in", x, 2 * all.inner + 2 * all.keys + all.heads);
  x = by_samples(b, "to_heads.order", to_heads(b, x, 2 * z.inner + 2 * z.keys + z.heads));
  struct pz_split split = {.name = "mamba_split",
                           .x = x,
                           .parts = 3,
                           .widths = {z.inner, z.inner + 2 * z.keys, z.heads},
                           .names = {"gate", "xbc", "dt"}};
  uint32_t part[3];
  pz_build_split(b, &split, part);
  uint32_t xbc = convolve(b, r, "mamba_conv", part[1], all.inner + 2 * all.keys);
  struct pz_scan scan = {.kind = PZ_OP_SSM_SCAN,
                         .name = "mamba_scan",
                         .in = {xbc, part[0], part[2], vector(b, "a_log", r->heads, 1),
                                vector(b, "d", r->heads, 1), vector(b, "dt_bias", r->heads, 1),
                                PZ_NONE},
                         .dims = {o->mbs * z.heads, o->seq, r->state, r->head_dim},
                         .groups = o->mbs * z.groups,
                         .span = chunk,
                         .shape = PZ_SHAPE(rows, z.inner),
                         .saved = PZ_SHAPE(rows, z.inner)};
  uint32_t y = to_tokens(b, pz_build_scan(b, &scan), own.inner);
  if (r->norms == 1)
    y = pz_kernel_rmsnorm_divided(b, "mamba_norm", y, all.inner);
  else if (r->norms)
    y = pz_kernel_rmsnorm_groups(b, "mamba_norm", y, all.inner, all.inner / r->norms);
  return recurrence_out(b, a, "mamba_out", y);
}

/* ---- gated delta rule ----------------------------------------------------------------------- */

/* All parts are written anew: for the convolution with the tokens of a channel side by side, behind it as the kernels of
 * the rule want them, query and key once for every value head.  They make both of unit length, and save that in place of
 * them. */
static uint32_t delta_rule(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  const struct pz_recurrence *r = &a->recurrence;
  const struct pz_workload_options *o = b->options;
  struct slice all = slice_of(r, 1, 1), own = slice_of(r, o->tp, 1), z = slice_of(r, o->tp, o->cp);
  int64_t rows = b->tokens * o->cp, chunk = pz_min(r->chunk, o->seq);
  x = recurrence_linear(b, a, "delta_in", x, 2 * all.inner + 2 * all.keys + 2 * all.heads);
  struct pz_split split = {.name = "delta_split",
                           .x = to_heads(b, x, 2 * z.inner + 2 * z.keys + 2 * z.heads),
                           .parts = 4,
                           .widths = {z.inner + 2 * z.keys, z.inner, z.heads, z.heads},
                           .names = {"qkv", "gate", "beta", "decay"}};
  uint32_t part[4], qkv[3];
  pz_build_split(b, &split, part);
  part[0] = pz_build_step(b, PZ_OP_COPY, "delta_conv.transpose", part[0], PZ_NONE);
  part[1] = pz_build_step(b, PZ_OP_COPY, "delta_gate.copy", part[1], PZ_NONE);
  part[2] = pz_build_step(b, PZ_OP_SIGMOID, "delta_beta", part[2], PZ_NONE);
  part[3] = pz_build_step(b, PZ_OP_COPY, "delta_decay", part[3], PZ_NONE);
  struct pz_split heads = {.name = "delta_heads",
                           .x = convolve(b, r, "delta_conv", part[0], all.inner + 2 * all.keys),
                           .parts = 3,
                           .widths = {z.keys, z.keys, z.inner},
                           .names = {"query", "key", "value"}};
  pz_build_split(b, &heads, qkv);
  int spread = z.heads == z.groups ? PZ_OP_COPY : PZ_OP_REPEAT;
  struct pz_shape keys = PZ_SHAPE(rows, z.heads * r->state);
  struct pz_scan rule = {.kind = PZ_OP_DELTA_RULE,
                         .name = "delta_rule",
                         .in = {pz_build_shaped(b, spread, "delta_query", qkv[0], PZ_NONE, keys),
                                pz_build_shaped(b, spread, "delta_key", qkv[1], PZ_NONE, keys),
                                pz_build_step(b, PZ_OP_COPY, "delta_value", qkv[2], PZ_NONE),
                                part[2], part[3], vector(b, "a_log", r->heads, 1),
                                vector(b, "dt_bias", r->heads, 1), PZ_NONE},
                         .dims = {o->mbs * z.heads, o->seq, r->head_dim, r->state},
                         .span = chunk,
                         .shape = PZ_SHAPE(rows, z.inner),
                         .saved = PZ_SHAPE(rows, z.heads, chunk)};
  uint32_t y = pz_kernel_rmsnorm_inside(b, "delta_norm", pz_build_scan(b, &rule), r->head_dim);
  y = pz_kernel_gated(b, "delta_gate", PZ_ACT_SILU, part[1], y);
  return recurrence_out(b, a, "delta_out", to_tokens(b, y, own.inner));
}

/* ---- Mamba ---------------------------------------------------------------------------------- */

/* Steps, B and C are projected from the result of the convolution, each with a norm (Jamba).  The scan has a decay for
 * each value of a state; as a chunk of so many tokens has of a head. */
static uint32_t mamba(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  const struct pz_recurrence *r = &a->recurrence;
  const struct pz_workload_options *o = b->options;
  int64_t inner = r->heads / o->tp;
  struct pz_split halves = {.name = "mamba_split",
                            .x = recurrence_linear(b, a, "mamba_in", x, 2 * r->heads),
                            .parts = 2,
                            .widths = {inner, inner},
                            .names = {"x", "gate"}};
  struct pz_split steps = {.name = "mamba_steps",
                           .parts = 3,
                           .widths = {r->dt_rank, r->state, r->state},
                           .names = {"dt", "b", "c"}};
  static const char *const norms[] = {"mamba_dt_norm", "mamba_b_norm", "mamba_c_norm"};
  uint32_t part[2], dbc[3];
  pz_build_split(b, &halves, part);
  part[0] = convolve(b, r, "mamba_conv", part[0], r->heads);
  steps.x = pz_build_linear(b, &(struct pz_linear){.name = "mamba_select",
                                                   .x = part[0],
                                                   .in = r->heads,
                                                   .out = r->dt_rank + 2 * r->state,
                                                   .divide = PZ_DIVIDE_ROWS});
  if (o->tp > 1) steps.x = pz_build_all_reduce(b, "mamba_select", steps.x);
  pz_build_split(b, &steps, dbc);
  for (int i = 0; i < 3; i++)
    dbc[i] = pz_kernel_rmsnorm_inside(b, norms[i], dbc[i], steps.widths[i]);
  uint32_t dt = pz_build_linear(b, &(struct pz_linear){.name = "mamba_dt",
                                                       .x = dbc[0],
                                                       .in = r->dt_rank,
                                                       .out = r->heads,
                                                       .divide = PZ_DIVIDE_COLUMNS,
                                                       .bias = true});
  struct pz_scan scan = {.kind = PZ_OP_SSM_SCAN,
                         .name = "mamba_scan",
                         .in = {part[0], dt, dbc[1], dbc[2], part[1],
                                vector(b, "a_log", r->heads, r->state), vector(b, "d", r->heads, 1),
                                PZ_NONE},
                         .dims = {o->mbs * inner, o->seq, r->state, 1},
                         .span = pz_min(r->state, o->seq),
                         .shape = PZ_SHAPE(b->tokens, inner),
                         .saved = PZ_SHAPE(b->tokens, inner)};
  return recurrence_out(b, a, "mamba_out", pz_build_scan(b, &scan));
}

uint32_t pz_part_recurrence(struct pz_builder *b, const struct pz_arch *a, uint32_t x) {
  switch (a->recurrence.mixer) {
  case PZ_MIXER_DELTA: return delta_rule(b, a, x);
  case PZ_MIXER_MAMBA: return mamba(b, a, x);
  default: return mamba2(b, a, x);
  }
}
