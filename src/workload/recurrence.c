/* Recurrent layers of hybrid models: Mamba-2, the gated delta rule, and Mamba.
 *
 * Each has a function that adds a projection, a causal convolution over the last tokens, a scan in
 * chunks, a norm or gate, and an output projection.  The operators and the tensors that they save
 * are those of Megatron Core (ssm/mamba_mixer.py, ssm/gated_delta_net.py) and of the libraries
 * that it calls. */
#include "workload/parts.h"

#include <inttypes.h>

#include "core/num.h"

/* Sizes of a recurrence on one device.  `inner` is the width of its heads together, and `keys` is
 * that of B or C (Mamba-2) or of key or query (delta rule). */
struct recurrence_sizes {
  int64_t heads, groups, inner, keys;
};

/* Returns the sizes on one of the tp * cp devices that divide the heads.  If there are fewer groups
 * than devices, several devices have the same group. */
static struct recurrence_sizes find_sizes(const struct pz_recurrence *recurrence, int64_t tp,
                                          int64_t cp) {
  int64_t heads = recurrence->heads / tp / cp, groups = pz_max(recurrence->groups / tp / cp, 1);
  return (struct recurrence_sizes){heads, groups, heads * recurrence->head_dim,
                                   groups * recurrence->state};
}

/* Refuses a context-parallel degree that does not divide the heads and groups of a device. */
void pz_check_recurrence(struct pz_call *call, const char *model, const struct pz_arch *arch,
                         const struct pz_workload_options *options) {
  const struct pz_recurrence *recurrence = &arch->recurrence;
  int64_t cp = options->cp;
  if (!recurrence->heads || cp == 1) return;
  if (recurrence->mixer == PZ_MIXER_MAMBA)
    pz_raise(call, PZ_BAD_USE,
             "context-parallel degree %" PRId64 " with Mamba layers (%s); accepted: 1, or Mamba-2",
             cp, model);
  int64_t heads = recurrence->heads / options->tp, groups = recurrence->groups / options->tp;
  /* several devices of Mamba-2 may have the same group */
  bool shares_groups = cp % groups == 0 && recurrence->mixer == PZ_MIXER_MAMBA2;
  bool divides_groups = groups % cp == 0 || shares_groups;
  if (heads % cp || !divides_groups)
    pz_raise(call, PZ_BAD_USE,
             "context-parallel degree %" PRId64 " does not divide the %" PRId64
             " heads and %" PRId64
             " groups that a device has of the recurrent layers of %s; accepted: a divisor",
             cp, heads, groups, model);
}

/* ---- common parts ---------------------------------------------------------------------------- */

/* Enters the tensor-parallel region and projects to `out` columns, which its devices divide. */
static uint32_t project_in(struct pz_builder *builder, const struct pz_arch *arch, const char *name,
                           uint32_t input, int64_t out) {
  return pz_build_linear(builder, &(struct pz_linear){.name = name,
                                                      .input = pz_build_enter(builder, name, input),
                                                      .in = arch->hidden,
                                                      .out = out,
                                                      .divide = PZ_DIVIDE_COLUMNS,
                                                      .bias = arch->recurrence.proj_bias});
}

/* Projects all heads to the hidden width and leaves the region. */
static uint32_t project_out(struct pz_builder *builder, const struct pz_arch *arch,
                            const char *name, uint32_t input) {
  const struct pz_recurrence *recurrence = &arch->recurrence;
  struct pz_linear linear = {.name = name,
                             .input = input,
                             .in = recurrence->heads * recurrence->head_dim,
                             .out = arch->hidden,
                             .divide = PZ_DIVIDE_ROWS,
                             .bias = recurrence->proj_bias};
  return pz_build_leave(builder, name, pz_build_linear(builder, &linear),
                        recurrence->proj_bias ? arch->hidden : 0);
}

/* Copies rows so that the tokens of a sample are consecutive, as the libraries expect.  Megatron
 * Core stores the samples of a token consecutively, and the two parts of the sequence that each
 * device of a context group has must be put in order. */
static uint32_t order_by_samples(struct pz_builder *builder, const char *name, uint32_t input) {
  bool is_ordered = builder->options->mbs == 1 && builder->options->cp == 1;
  return is_ordered ? input : pz_build_unary(builder, PZ_OP_COPY, name, input);
}

/* Exchanges heads for tokens over the context group after the scan: returns rows of `width` values
 * for this device's tokens. */
static uint32_t exchange_to_tokens(struct pz_builder *builder, uint32_t input, int64_t width) {
  input = order_by_samples(builder, "to_tokens.order", input);
  return pz_build_exchange(builder, PZ_OP_ALL_TO_ALL, PZ_PEERS_CONTEXT, "to_tokens", input,
                           PZ_SHAPE(builder->tokens, width));
}

/* Adds a parameter of n heads or channels, each with `values` values, divided over the group. */
static uint32_t add_head_param(struct pz_builder *builder, const char *name, int64_t n,
                               int64_t values) {
  return pz_build_param(builder, name, PZ_SHAPE(n / builder->options->tp, values), n * values,
                        false);
}

/* Adds a depthwise convolution over the last tokens, with SiLU. */
static uint32_t build_convolution(struct pz_builder *builder,
                                  const struct pz_recurrence *recurrence, const char *name,
                                  uint32_t input, int64_t channels) {
  char part[PZ_BUILD_NAME];
  uint32_t bias = PZ_NONE, weight = add_head_param(builder, pz_build_name(part, name, "weight"),
                                                   channels, recurrence->conv_tokens);
  if (recurrence->conv_bias)
    bias = add_head_param(builder, pz_build_name(part, name, "bias"), channels, 1);
  return pz_build_op(builder, &(struct pz_op_spec){.kind = PZ_OP_CONV1D,
                                                   .name = name,
                                                   .in = {input, weight, bias, PZ_NONE}});
}

/* ---- Mamba-2 --------------------------------------------------------------------------------- */

/* Adds a Mamba-2 layer.  One kernel of the library computes convolution, scan and gate, and saves
 * its input and the result before the gate (state-spaces/mamba, ops/triton/ssd_combined.py:
 * MambaSplitConv1dScanCombinedFn). */
static uint32_t build_mamba2(struct pz_builder *builder, const struct pz_arch *arch,
                             uint32_t input) {
  const struct pz_recurrence *recurrence = &arch->recurrence;
  const struct pz_workload_options *options = builder->options;
  /* sizes of the model, of a tensor-parallel device, and of one between the two exchanges */
  struct recurrence_sizes all = find_sizes(recurrence, 1, 1),
                          by_tp = find_sizes(recurrence, options->tp, 1);
  struct recurrence_sizes local = find_sizes(recurrence, options->tp, options->cp);
  int64_t rows = builder->tokens * options->cp, chunk = pz_min(recurrence->chunk, options->seq);
  uint32_t projected =
      project_in(builder, arch, "mamba_in", input, 2 * all.inner + 2 * all.keys + all.heads);
  /* The context group exchanges tokens for heads before the convolution (Megatron Core,
   * ssm/mamba_context_parallel.py). */
  projected = pz_build_exchange(builder, PZ_OP_ALL_TO_ALL, PZ_PEERS_CONTEXT, "to_heads", projected,
                                PZ_SHAPE(rows, 2 * local.inner + 2 * local.keys + local.heads));
  struct pz_split split = {.name = "mamba_split",
                           .whole = order_by_samples(builder, "to_heads.order", projected),
                           .widths = {local.inner, local.inner + 2 * local.keys, local.heads},
                           .names = {"gate", "xbc", "dt"}};
  uint32_t part[3];
  pz_build_split(builder, &split, part);
  uint32_t gate = part[0], dt = part[2];
  uint32_t xbc =
      build_convolution(builder, recurrence, "mamba_conv", part[1], all.inner + 2 * all.keys);
  uint32_t a_log = add_head_param(builder, "a_log", recurrence->heads, 1);
  uint32_t d = add_head_param(builder, "d", recurrence->heads, 1);
  uint32_t dt_bias = add_head_param(builder, "dt_bias", recurrence->heads, 1);
  struct pz_scan scan = {
      .kind = PZ_OP_SSM_SCAN,
      .name = "mamba_scan",
      .in = {xbc, gate, dt, a_log, d, dt_bias, PZ_NONE},
      .dims = {options->mbs * local.heads, options->seq, recurrence->state, recurrence->head_dim},
      .groups = options->mbs * local.groups,
      .span = chunk,
      .shape = PZ_SHAPE(rows, local.inner),
      .saved = PZ_SHAPE(rows, local.inner)};
  uint32_t result = exchange_to_tokens(builder, pz_build_scan(builder, &scan), by_tp.inner);
  if (recurrence->norms)
    result = pz_kernel_rmsnorm_divided(builder, "mamba_norm", result, all.inner,
                                       all.inner / recurrence->norms);
  return project_out(builder, arch, "mamba_out", result);
}

/* ---- gated delta rule ------------------------------------------------------------------------ */

/* Adds a gated delta rule.  All parts of the projection are copied: before the convolution, so
 * that the tokens of a channel are consecutive, and after it into the layout of the rule's
 * kernels, query and key once for every value head.  The kernels normalize query and key to unit
 * length and save both. */
static uint32_t build_delta_rule(struct pz_builder *builder, const struct pz_arch *arch,
                                 uint32_t input) {
  const struct pz_recurrence *recurrence = &arch->recurrence;
  const struct pz_workload_options *options = builder->options;
  /* sizes of the model, of a tensor-parallel device, and of one between the two exchanges */
  struct recurrence_sizes all = find_sizes(recurrence, 1, 1),
                          by_tp = find_sizes(recurrence, options->tp, 1);
  struct recurrence_sizes local = find_sizes(recurrence, options->tp, options->cp);
  int64_t rows = builder->tokens * options->cp, chunk = pz_min(recurrence->chunk, options->seq);
  uint32_t projected =
      project_in(builder, arch, "delta_in", input, 2 * all.inner + 2 * all.keys + 2 * all.heads);
  int64_t qkv_width = local.inner + 2 * local.keys;
  struct pz_split split = {
      .name = "delta_split",
      .whole = pz_build_exchange(builder, PZ_OP_ALL_TO_ALL, PZ_PEERS_CONTEXT, "to_heads", projected,
                                 PZ_SHAPE(rows, qkv_width + local.inner + 2 * local.heads)),
      .widths = {qkv_width, local.inner, local.heads, local.heads},
      .names = {"qkv", "gate", "beta", "decay"}};
  uint32_t part[4], qkv[3];
  pz_build_split(builder, &split, part);
  /* the parts before the convolution, and query, key and value after it */
  uint32_t channels = pz_build_unary(builder, PZ_OP_COPY, "delta_conv.transpose", part[0]);
  uint32_t gate = pz_build_unary(builder, PZ_OP_COPY, "delta_gate.copy", part[1]);
  uint32_t beta = pz_build_unary(builder, PZ_OP_SIGMOID, "delta_beta", part[2]);
  uint32_t decay = pz_build_unary(builder, PZ_OP_COPY, "delta_decay", part[3]);
  struct pz_split heads = {.name = "delta_heads",
                           .whole = build_convolution(builder, recurrence, "delta_conv", channels,
                                                      all.inner + 2 * all.keys),
                           .widths = {local.keys, local.keys, local.inner},
                           .names = {"query", "key", "value"}};
  pz_build_split(builder, &heads, qkv);
  bool has_key_per_head = local.heads == local.groups;
  int copy_kind = has_key_per_head ? PZ_OP_COPY : PZ_OP_REPEAT;
  struct pz_shape key_shape = PZ_SHAPE(rows, local.heads * recurrence->state);
  uint32_t query = pz_build_shaped(builder, copy_kind, "delta_query", qkv[0], PZ_NONE, key_shape);
  uint32_t key = pz_build_shaped(builder, copy_kind, "delta_key", qkv[1], PZ_NONE, key_shape);
  uint32_t value = pz_build_unary(builder, PZ_OP_COPY, "delta_value", qkv[2]);
  uint32_t a_log = add_head_param(builder, "a_log", recurrence->heads, 1);
  uint32_t dt_bias = add_head_param(builder, "dt_bias", recurrence->heads, 1);
  struct pz_scan rule = {
      .kind = PZ_OP_DELTA_RULE,
      .name = "delta_rule",
      .in = {query, key, value, beta, decay, a_log, dt_bias, PZ_NONE},
      .dims = {options->mbs * local.heads, options->seq, recurrence->head_dim, recurrence->state},
      .span = chunk,
      .shape = PZ_SHAPE(rows, local.inner),
      .saved = PZ_SHAPE(rows, local.heads, chunk)};
  uint32_t result = pz_build_scan(builder, &rule);
  result = pz_kernel_rmsnorm(builder, "delta_norm", result, recurrence->head_dim, PZ_NORM_INSIDE);
  result = pz_kernel_gated(builder, "delta_gate", PZ_ACT_SILU, gate, result);
  return project_out(builder, arch, "delta_out", exchange_to_tokens(builder, result, by_tp.inner));
}

/* ---- Mamba ----------------------------------------------------------------------------------- */

/* Adds a Mamba layer, whose heads are channels of one value.  Steps (dt), B and C are projected
 * from the result of the convolution, each with a norm (Jamba).  Every value of a state has its own
 * decay, so a token of the scan costs as much as in Mamba-2 with chunks as long as the state. */
static uint32_t build_mamba(struct pz_builder *builder, const struct pz_arch *arch,
                            uint32_t input) {
  const struct pz_recurrence *recurrence = &arch->recurrence;
  const struct pz_workload_options *options = builder->options;
  int64_t inner = recurrence->heads / options->tp, state = recurrence->state;
  struct pz_split halves = {.name = "mamba_split",
                            .whole =
                                project_in(builder, arch, "mamba_in", input, 2 * recurrence->heads),
                            .widths = {inner, inner},
                            .names = {"x", "gate"}};
  uint32_t half[2], dbc[3];
  pz_build_split(builder, &halves, half);
  uint32_t gate = half[1];
  uint32_t x = build_convolution(builder, recurrence, "mamba_conv", half[0], recurrence->heads);

  /* steps, B and C, which every device computes from its share of the channels and sums up */
  uint32_t selected =
      pz_build_linear(builder, &(struct pz_linear){.name = "mamba_select",
                                                   .input = x,
                                                   .in = recurrence->heads,
                                                   .out = recurrence->dt_rank + 2 * state,
                                                   .divide = PZ_DIVIDE_ROWS});
  if (options->tp > 1) selected = pz_build_all_reduce(builder, "mamba_select", selected);
  struct pz_split steps = {.name = "mamba_steps",
                           .whole = selected,
                           .widths = {recurrence->dt_rank, state, state},
                           .names = {"dt", "b", "c"}};
  static const char *const norms[] = {"mamba_dt_norm", "mamba_b_norm", "mamba_c_norm"};
  pz_build_split(builder, &steps, dbc);
  for (int i = 0; i < 3; i++)
    dbc[i] = pz_kernel_rmsnorm(builder, norms[i], dbc[i], steps.widths[i], PZ_NORM_INSIDE);
  uint32_t dt = pz_build_linear(builder, &(struct pz_linear){.name = "mamba_dt",
                                                             .input = dbc[0],
                                                             .in = recurrence->dt_rank,
                                                             .out = recurrence->heads,
                                                             .divide = PZ_DIVIDE_COLUMNS,
                                                             .bias = true});
  uint32_t a_log = add_head_param(builder, "a_log", recurrence->heads, state);
  uint32_t d = add_head_param(builder, "d", recurrence->heads, 1);
  struct pz_scan scan = {.kind = PZ_OP_SSM_SCAN,
                         .name = "mamba_scan",
                         .in = {x, dt, dbc[1], dbc[2], gate, a_log, d, PZ_NONE},
                         .dims = {options->mbs * inner, options->seq, state, 1},
                         .span = pz_min(state, options->seq),
                         .shape = PZ_SHAPE(builder->tokens, inner),
                         .saved = PZ_SHAPE(builder->tokens, inner)};
  return project_out(builder, arch, "mamba_out", pz_build_scan(builder, &scan));
}

uint32_t pz_part_recurrence(struct pz_builder *builder, const struct pz_arch *arch,
                            uint32_t input) {
  switch (arch->recurrence.mixer) {
  case PZ_MIXER_DELTA: return build_delta_rule(builder, arch, input);
  case PZ_MIXER_MAMBA: return build_mamba(builder, arch, input);
  default: return build_mamba2(builder, arch, input);
  }
}
