/* Patterns: norms, activations, rotary embeddings, biases, masks and attention, which exporters
 * split into elementary nodes, are found by their structure and become one operator each.
 *
 * The matchers start at a characteristic node (Sqrt for a norm, Erf for GELU, Softmax for
 * attention) and follow producers and consumers, ignoring conversions.  A pattern is applied by
 * giving its last node the inputs of the whole pattern and its kind (fuse_node).  Nodes whose
 * results are no longer read are removed later. */
#include <math.h>

#include "onnx/passes.h"

enum {
  DEEPEST = 6, /* most element-wise nodes between an activation function and its argument */
  LONGEST = 6, /* most nodes of a chain that is followed */
};

/* ---- following the graph -------------------------------------------------------------------- */

/* Returns whether a node is of this type and not part of a pattern.  The node may be NULL. */
static bool is_plain(const struct pz_onnx_node *node, const char *type) {
  return node && node->fused < 0 && strcmp(node->type, type) == 0;
}

/* Returns the node that produces a value, or NULL. */
static const struct pz_onnx_node *find_producer(const struct pz_onnx_graph *graph, uint32_t id) {
  uint32_t node = id == PZ_NONE ? PZ_NONE : pz_onnx_value(graph, id)->producer;
  return node == PZ_NONE ? NULL : pz_onnx_node(graph, node);
}

/* Returns the value from which a value was converted, or the value itself. */
static uint32_t skip_conversions(const struct pz_onnx_graph *graph, uint32_t id) {
  const struct pz_onnx_node *node = find_producer(graph, id);
  while ((is_plain(node, "Cast") || is_plain(node, "Identity")) && pz_onnx_input(node, 0)) {
    id = node->in[0];
    node = find_producer(graph, id);
  }
  return id;
}

/* Returns the only node that reads a value, after any conversions, or NULL. *read_value receives
 * the index of the value that this node reads, which conversions may have made from value `id`. */
static struct pz_onnx_node *find_only_consumer(const struct pz_onnx_graph *graph, uint32_t id,
                                               uint32_t *read_value) {
  for (int i = 0; i < LONGEST; i++) {
    const struct pz_onnx_value *input = pz_onnx_value(graph, id);
    if (input->n_consumers != 1 || input->output) return NULL;
    struct pz_onnx_node *node = pz_onnx_node(graph, graph->consumers[input->first_consumer]);
    *read_value = id;
    if (!(is_plain(node, "Cast") || is_plain(node, "Identity"))) return node;
    if (!pz_onnx_result(node, 0)) return NULL;
    id = node->out[0];
  }
  return NULL;
}

/* Returns the operand of a two-operand node that is not value `id`, or PZ_NONE. */
static uint32_t other_operand(const struct pz_onnx_node *node, uint32_t id) {
  if (node->n_in != 2) return PZ_NONE;
  return node->in[0] == id ? node->in[1] : node->in[0];
}

/* Returns whether a value is a single number that is known without running the model. */
static bool is_number(const struct pz_onnx_graph *graph, uint32_t id) {
  int64_t n;
  if (id == PZ_NONE) return false;
  const struct pz_onnx_value *input = pz_onnx_value(graph, id);
  if (input->has_real) return true;
  return input->initializer && input->rank >= 0 && pz_onnx_count_elements(input, &n) && n == 1;
}

/* Returns the operand of a two-operand node whose other operand is a number, or PZ_NONE. */
static uint32_t operand_beside_number(const struct pz_onnx_node *node) {
  if (node->n_in != 2) return PZ_NONE;
  if (is_number(node->graph, node->in[0])) return node->in[1];
  return is_number(node->graph, node->in[1]) ? node->in[0] : PZ_NONE;
}

/* Returns whether a value is an initializer, or converted from one, and not a single number. */
static bool is_weight(const struct pz_onnx_graph *graph, uint32_t id) {
  id = skip_conversions(graph, id);
  return id != PZ_NONE && pz_onnx_value(graph, id)->initializer && !is_number(graph, id);
}

/* Returns whether a value is an initializer, a part of one, or a view of one. */
static bool is_weight_view(const struct pz_onnx_graph *graph, uint32_t id) {
  for (int i = 0; i < LONGEST && id != PZ_NONE; i++) {
    const struct pz_onnx_node *node = find_producer(graph, id);
    if (!node) return is_weight(graph, id);
    bool view = node->op->lower == PZ_LOWER_VIEW || node->op->shape == PZ_SHAPE_SPLIT;
    if (!view || !node->n_in) return false;
    id = node->in[0];
  }
  return false;
}

/* Makes a node stand for a whole pattern, as an operator of this kind (PZ_OP_*) with the inputs
 * `in`, up to four of them; PZ_NONE ends the list. */
static void fuse_node(struct pz_call *call, struct pz_onnx_node *node, int kind,
                      const uint32_t in[4]) {
  uint32_t n = 0;
  while (n < 4 && in[n] != PZ_NONE) n++;
  node->in = pz_copy(call, in, n, sizeof *in);
  node->n_in = n;
  node->fused = kind;
}

/* ---- norms: (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) * scale + shift ----------- */

/* Returns x if a value is mean(x^2), otherwise PZ_NONE. */
static uint32_t match_mean_square(const struct pz_onnx_graph *graph, uint32_t id) {
  const struct pz_onnx_node *mean = find_producer(graph, skip_conversions(graph, id));
  if (!is_plain(mean, "ReduceMean") || !mean->n_in) return PZ_NONE;
  const struct pz_onnx_node *square = find_producer(graph, skip_conversions(graph, mean->in[0]));
  if (!square || square->n_in != 2) return PZ_NONE;
  uint32_t deviation = skip_conversions(graph, square->in[0]);
  if (is_plain(square, "Pow") && square->in[1] != PZ_NONE) {
    const struct pz_onnx_value *exponent = pz_onnx_value(graph, square->in[1]);
    if (exponent->has_real && fabs(exponent->real - 2) < 1e-3) return deviation;
  }
  bool multiplies_itself =
      is_plain(square, "Mul") && skip_conversions(graph, square->in[1]) == deviation;
  return multiplies_itself ? deviation : PZ_NONE;
}

/* Finds a multiplication by a weight (scale) and an addition of a weight (shift) after the node
 * `last`, and stores the weights in in[1] and in[2].  Returns the last node of the pattern. */
static struct pz_onnx_node *match_scale_and_shift(struct pz_onnx_node *last, uint32_t in[4]) {
  const struct pz_onnx_graph *graph = last->graph;
  uint32_t read_value = PZ_NONE;
  struct pz_onnx_node *scaling = find_only_consumer(graph, last->out[0], &read_value);
  if (!is_plain(scaling, "Mul") || !pz_onnx_result(scaling, 0)) return last;
  /* The scale is a weight, or the weight in 1 + weight. */
  uint32_t scale = other_operand(scaling, read_value);
  const struct pz_onnx_node *offset = find_producer(graph, skip_conversions(graph, scale));
  bool may_add_one = !is_weight_view(graph, scale) && is_plain(offset, "Add") && offset->n_in == 2;
  for (int i = 0; i < 2 && may_add_one; i++)
    if (is_number(graph, offset->in[i]) && is_weight_view(graph, offset->in[1 - i])) {
      scale = offset->in[1 - i];
      break;
    }
  if (!is_weight_view(graph, scale)) return last;
  in[1] = skip_conversions(graph, scale);
  struct pz_onnx_node *sum = find_only_consumer(graph, scaling->out[0], &read_value);
  if (!is_plain(sum, "Add") || !pz_onnx_result(sum, 0)) return scaling;
  uint32_t shift = other_operand(sum, read_value);
  if (!is_weight_view(graph, shift)) return scaling;
  in[2] = skip_conversions(graph, shift);
  return sum;
}

/* Fuses a norm, (x - mean(x)) / sqrt(mean((x - mean(x))^2) + epsilon) with scale and shift.
 * `root` is its square root.  A norm that does not subtract the mean is an RMS norm. */
static void fuse_norm(struct pz_call *call, const struct pz_onnx_node *root) {
  const struct pz_onnx_graph *graph = root->graph;
  if (!pz_onnx_result(root, 0) || !pz_onnx_input(root, 0)) return;
  /* The mean square of `deviation` is under the root, with or without epsilon. */
  const struct pz_onnx_node *sum = find_producer(graph, skip_conversions(graph, root->in[0]));
  bool adds_epsilon = is_plain(sum, "Add") && sum->n_in == 2;
  uint32_t mean_square = adds_epsilon ? operand_beside_number(sum) : root->in[0];
  uint32_t deviation = mean_square == PZ_NONE ? PZ_NONE : match_mean_square(graph, mean_square);
  if (deviation == PZ_NONE) return;
  /* It is divided by the root, or multiplied by 1 / root. */
  uint32_t read_value;
  struct pz_onnx_node *last = find_only_consumer(graph, root->out[0], &read_value);
  bool inverts =
      is_plain(last, "Reciprocal") || (is_plain(last, "Div") && is_number(graph, last->in[0]));
  if (inverts && pz_onnx_result(last, 0))
    last = find_only_consumer(graph, last->out[0], &read_value);
  if (!(is_plain(last, "Mul") || is_plain(last, "Div")) || !pz_onnx_result(last, 0)) return;
  if (skip_conversions(graph, other_operand(last, read_value)) != deviation) return;
  /* `deviation` is x - mean(x) in a layer norm, and x in an RMS norm. */
  const struct pz_onnx_node *difference = find_producer(graph, deviation);
  uint32_t x = deviation;
  if (is_plain(difference, "Sub") && difference->n_in == 2) {
    const struct pz_onnx_node *mean =
        find_producer(graph, skip_conversions(graph, difference->in[1]));
    uint32_t minuend = skip_conversions(graph, difference->in[0]);
    bool is_mean = is_plain(mean, "ReduceMean") && mean->n_in;
    if (is_mean && skip_conversions(graph, mean->in[0]) == minuend) x = minuend;
  }
  uint32_t in[4] = {x, PZ_NONE, PZ_NONE, PZ_NONE};
  last = match_scale_and_shift(last, in);
  fuse_node(call, last, x == deviation ? PZ_OP_RMSNORM : PZ_OP_LAYERNORM, in);
}

/* Fuses a group norm: a reshape to groups, an instance norm, a reshape back, and scale and shift.
 * The value in groups is the fourth input, because its shape is needed later. */
static void fuse_group_norm(struct pz_call *call, const struct pz_onnx_node *norm) {
  const struct pz_onnx_node *groups = norm->n_in ? find_producer(norm->graph, norm->in[0]) : NULL;
  uint32_t read_value;
  if (!is_plain(groups, "Reshape") || !pz_onnx_input(groups, 0) || !pz_onnx_result(norm, 0)) return;
  struct pz_onnx_node *back = find_only_consumer(norm->graph, norm->out[0], &read_value);
  if (!is_plain(back, "Reshape") || !pz_onnx_result(back, 0)) return;
  uint32_t in[4] = {groups->in[0], PZ_NONE, PZ_NONE, norm->in[0]};
  struct pz_onnx_node *last = match_scale_and_shift(back, in);
  if (in[2] != PZ_NONE) fuse_node(call, last, PZ_OP_LAYERNORM, in);
}

/* ---- activations ---------------------------------------------------------------------------- */

/* Returns whether a value is an element-wise function of `source` and numbers, of at most `depth`
 * nodes. */
static bool is_function_of(const struct pz_onnx_graph *graph, uint32_t id, uint32_t source,
                           int depth) {
  if (id == PZ_NONE) return false;
  id = skip_conversions(graph, id);
  if (id == source) return true;
  const struct pz_onnx_node *node = find_producer(graph, id);
  if (!node || node->fused >= 0 || !node->op->elementwise || depth == 0) return false;
  for (uint32_t i = 0; i < node->n_in; i++)
    if (!is_number(graph, node->in[i]) && !is_function_of(graph, node->in[i], source, depth - 1))
      return false;
  return node->n_in > 0;
}

/* Fuses x f(x), with additions and multiplications of numbers in between, such as SiLU and all
 * forms of GELU. `function` is the node that computes f.  Its result is followed from consumer to
 * consumer: numbers scale or shift f(x), then a product multiplies it by x, and further numbers may
 * scale the product.  The last node of this chain becomes the fused operator. */
static void fuse_activation(struct pz_call *call, const struct pz_onnx_node *function, int kind) {
  const struct pz_onnx_graph *graph = function->graph;
  if (!pz_onnx_result(function, 0) || !pz_onnx_input(function, 0)) return;
  struct pz_onnx_node *last = NULL; /* last node of the pattern, at or after the product */
  uint32_t source = PZ_NONE;        /* x, which is known from the product on */
  uint32_t via = function->out[0];
  for (int i = 0; i < LONGEST; i++) {
    struct pz_onnx_node *node = find_only_consumer(graph, last ? last->out[0] : via, &via);
    bool scales = is_plain(node, "Mul") || is_plain(node, "Div");
    bool shifts = is_plain(node, "Add") || is_plain(node, "Sub");
    if (!(scales || shifts) || node->n_in != 2 || !pz_onnx_result(node, 0)) break;
    uint32_t operand = other_operand(node, via);
    bool before_product = source == PZ_NONE;
    if (is_number(graph, operand) && (before_product || scales)) {
      if (before_product)
        via = node->out[0];
      else
        last = node;
      continue;
    }
    if (!before_product || !is_plain(node, "Mul")) break;
    /* The factor is x, or x times a number. */
    source = skip_conversions(graph, operand);
    const struct pz_onnx_node *scaling = find_producer(graph, source);
    if (!is_function_of(graph, function->in[0], source, DEEPEST) &&
        (is_plain(scaling, "Mul") || is_plain(scaling, "Div")))
      source = skip_conversions(graph, operand_beside_number(scaling));
    bool is_source = source != PZ_NONE;
    if (!is_source || !is_function_of(graph, function->in[0], source, DEEPEST)) break;
    last = node;
  }
  if (last) fuse_node(call, last, kind, (uint32_t[4]){source, PZ_NONE, PZ_NONE, PZ_NONE});
}

/* Fuses the gated activation silu(x) * y. */
static void fuse_gated_activation(struct pz_call *call, const struct pz_onnx_node *silu) {
  const struct pz_onnx_graph *graph = silu->graph;
  uint32_t read_value;
  struct pz_onnx_node *product = find_only_consumer(graph, silu->out[0], &read_value);
  if (!is_plain(product, "Mul") || product->n_in != 2) return;
  uint32_t factor = other_operand(product, read_value);
  if (factor == PZ_NONE || is_number(graph, factor) || is_weight(graph, factor)) return;
  fuse_node(call, product, PZ_OP_SWIGLU, (uint32_t[4]){silu->in[0], factor, PZ_NONE, PZ_NONE});
}

/* ---- rotary embeddings: x cos + rotate_half(x) sin ------------------------------------------ */

/* Returns whether a node is a plain view of its first input.  The node may be NULL. */
static bool is_view(const struct pz_onnx_node *node) {
  return node && node->fused < 0 && node->op->lower == PZ_LOWER_VIEW && pz_onnx_input(node, 0);
}

/* Returns the node that produces a value, before any views, or NULL. */
static const struct pz_onnx_node *producer_before_views(const struct pz_onnx_graph *graph,
                                                        uint32_t id) {
  const struct pz_onnx_node *node = find_producer(graph, id);
  for (int i = 0; i < LONGEST && is_view(node); i++) node = find_producer(graph, node->in[0]);
  return node;
}

/* Returns x if a value is a Slice, Split or Gather of x, before any views, otherwise PZ_NONE. */
static uint32_t match_columns(const struct pz_onnx_graph *graph, uint32_t id) {
  const struct pz_onnx_node *node = producer_before_views(graph, id);
  bool selects = is_plain(node, "Slice") || is_plain(node, "Split") || is_plain(node, "Gather");
  return selects && node->n_in ? node->in[0] : PZ_NONE;
}

/* Fuses a rotary embedding, x cos + rotate_half(x) sin.  `rotation` is rotate_half(x), a
 * concatenation of -x2 and x1, where x1 and x2 are the halves of x, or its even and odd columns. */
static void fuse_rotary(struct pz_call *call, const struct pz_onnx_node *rotation) {
  const struct pz_onnx_graph *graph = rotation->graph;
  uint32_t read_value;
  if (rotation->n_in != 2 || !pz_onnx_result(rotation, 0)) return;
  const struct pz_onnx_node *negation = producer_before_views(graph, rotation->in[0]);
  if (!is_plain(negation, "Neg") || !negation->n_in) return;
  uint32_t x = match_columns(graph, negation->in[0]);
  if (x == PZ_NONE || x != match_columns(graph, rotation->in[1])) return;
  /* The rotation is multiplied by the sines, and the product is added to x times the cosines. */
  struct pz_onnx_node *sine_product = find_only_consumer(graph, rotation->out[0], &read_value);
  for (int i = 0; i < LONGEST && is_view(sine_product) && pz_onnx_result(sine_product, 0); i++)
    sine_product = find_only_consumer(graph, sine_product->out[0], &read_value);
  if (!is_plain(sine_product, "Mul") || !pz_onnx_result(sine_product, 0)) return;
  uint32_t sines = other_operand(sine_product, read_value);
  struct pz_onnx_node *sum = find_only_consumer(graph, sine_product->out[0], &read_value);
  if (!is_plain(sum, "Add") || sines == PZ_NONE) return;
  const struct pz_onnx_node *cosine_product =
      find_producer(graph, skip_conversions(graph, other_operand(sum, read_value)));
  if (!is_plain(cosine_product, "Mul") || cosine_product->n_in != 2) return;
  bool x_is_left = skip_conversions(graph, cosine_product->in[0]) == skip_conversions(graph, x);
  bool x_is_right = skip_conversions(graph, cosine_product->in[1]) == skip_conversions(graph, x);
  if (!x_is_left && !x_is_right) return;
  uint32_t cosines = cosine_product->in[x_is_left ? 1 : 0];
  if (cosines == PZ_NONE) return;
  pz_onnx_value(graph, cosines)->constant_table = true;
  pz_onnx_value(graph, sines)->constant_table = true;
  fuse_node(call, sum, PZ_OP_ROTARY, (uint32_t[4]){x, cosines, sines, PZ_NONE});
}

/* ---- biases and guards ---------------------------------------------------------------------- */

/* Fuses a product with its bias, x W + b, where b is as wide as the result. */
static void fuse_bias(struct pz_call *call, const struct pz_onnx_node *product) {
  const struct pz_onnx_graph *graph = product->graph;
  uint32_t read_value;
  if (product->n_in != 2 || !pz_onnx_result(product, 0) || !is_weight_view(graph, product->in[1]))
    return;
  struct pz_onnx_node *sum = find_only_consumer(graph, product->out[0], &read_value);
  if (!is_plain(sum, "Add") || !pz_onnx_result(sum, 0)) return;
  uint32_t bias = other_operand(sum, read_value);
  if (bias == PZ_NONE || !is_weight_view(graph, bias)) return;
  const struct pz_onnx_value *bias_value = pz_onnx_value(graph, bias);
  const struct pz_onnx_value *result = pz_onnx_value(graph, read_value);
  if (bias_value->rank < 1 || bias_value->rank > result->rank ||
      pz_onnx_value(graph, product->in[1])->rank != 2)
    return;
  for (int i = 0; i < bias_value->rank; i++) {
    bool is_last = i + 1 == bias_value->rank; /* all other dimensions of the bias must be 1 */
    int64_t wanted = is_last ? result->dim[result->rank - 1] : 1;
    if (bias_value->dim[i] != wanted) return;
  }
  fuse_node(call, sum, PZ_OP_MATMUL, (uint32_t[4]){product->in[0], product->in[1], bias, PZ_NONE});
}

/* Replaces where(isnan(x), 0, x) with x.  Exporters add this guard because the softmax of a
 * completely masked row is not a number. */
static void remove_nan_guard(struct pz_onnx_node *node) {
  if (node->n_in != 3) return;
  const struct pz_onnx_node *test =
      find_producer(node->graph, skip_conversions(node->graph, node->in[0]));
  if (!is_plain(test, "IsNaN") || !test->n_in || test->in[0] != node->in[2]) return;
  if (!is_number(node->graph, node->in[1])) return;
  node->type = "Identity";
  node->op = pz_onnx_op_find("", node->type);
  node->in = &node->in[2];
  node->n_in = 1;
}

/* Tries the pattern that starts at the type of each node.  Only biases are fused if `eager`. */
void pz_onnx_fuse_patterns(struct pz_call *call, struct pz_onnx_graph *graph, bool eager) {
  for (uint32_t i = 0; i < graph->nodes.n; i++) {
    struct pz_onnx_node *node = pz_onnx_node(graph, i);
    if (is_plain(node, "MatMul"))
      fuse_bias(call, node);
    else if (eager)
      continue;
    else if (is_plain(node, "Sqrt"))
      fuse_norm(call, node);
    else if (is_plain(node, "InstanceNormalization"))
      fuse_group_norm(call, node);
    else if (is_plain(node, "Erf") || is_plain(node, "Tanh"))
      fuse_activation(call, node, PZ_OP_GELU);
    else if (is_plain(node, "Sigmoid") || is_plain(node, "HardSigmoid"))
      fuse_activation(call, node, PZ_OP_SILU);
    else if (is_plain(node, "Concat"))
      fuse_rotary(call, node);
    else if (is_plain(node, "Where"))
      remove_nan_guard(node);
    else if (node->fused == PZ_OP_SILU)
      fuse_gated_activation(call, node);
  }
}

/* Follows every softmax back to the product that computes the scores, through element-wise nodes
 * such as scaling and masking, and forward to the product with the values, and fuses all of
 * them. */
void pz_onnx_fuse_attention(struct pz_call *call, struct pz_onnx_graph *graph) {
  for (uint32_t n = 0; n < graph->nodes.n; n++) {
    const struct pz_onnx_node *softmax = pz_onnx_node(graph, n);
    if (!is_plain(softmax, "Softmax") || !pz_onnx_result(softmax, 0) || !pz_onnx_input(softmax, 0))
      continue;
    /* Follow the activation among the inputs of element-wise nodes back to the scores. */
    const struct pz_onnx_node *scores =
        find_producer(graph, skip_conversions(graph, softmax->in[0]));
    for (int i = 0; i < LONGEST && scores && scores->op->elementwise && scores->n_in; i++) {
      uint32_t next = PZ_NONE;
      for (uint32_t k = 0; k < scores->n_in; k++) {
        const struct pz_onnx_value *input = pz_onnx_input(scores, k);
        if (input && input->role == PZ_ONNX_ACTIVATION) next = scores->in[k];
      }
      scores = next == PZ_NONE ? NULL : find_producer(graph, skip_conversions(graph, next));
    }
    uint32_t read_value = PZ_NONE;
    struct pz_onnx_node *context = find_only_consumer(graph, softmax->out[0], &read_value);
    if (!is_plain(scores, "MatMul") || !is_plain(context, "MatMul") || scores->n_in != 2) continue;
    if (context->n_in != 2 || context->in[0] != read_value || !pz_onnx_result(context, 0)) continue;
    const struct pz_onnx_value *query = pz_onnx_input(scores, 0);
    const struct pz_onnx_value *key = pz_onnx_input(scores, 1);
    if (!query || !key || context->in[1] == PZ_NONE) continue;
    if (query->role != PZ_ONNX_ACTIVATION || key->role != PZ_ONNX_ACTIVATION) continue;
    if (query->rank < 3 || key->rank != query->rank) continue;
    fuse_node(call, context, PZ_OP_ATTENTION,
              (uint32_t[4]){scores->in[0], scores->in[1], context->in[1], PZ_NONE});
  }
}

/* Fuses (scores * number) + mask: the sum reads the scores directly, and its work includes the
 * scaling. */
void pz_onnx_fuse_masks(struct pz_onnx_graph *graph) {
  for (uint32_t i = 0; i < graph->nodes.n; i++) {
    struct pz_onnx_node *sum = pz_onnx_node(graph, i);
    if (!is_plain(sum, "Add") || sum->n_in != 2 || !pz_onnx_result(sum, 0)) continue;
    for (int k = 0; k < 2; k++) { /* input k may be the mask, and the other input the product */
      if (sum->in[0] == PZ_NONE || sum->in[1] == PZ_NONE) break;
      const struct pz_onnx_value *mask = pz_onnx_value(graph, sum->in[k]);
      const struct pz_onnx_value *scaled = pz_onnx_value(graph, sum->in[1 - k]);
      if (mask->role != PZ_ONNX_DATA || is_number(graph, sum->in[k])) continue;
      if (scaled->role != PZ_ONNX_ACTIVATION || scaled->n_consumers != 1) continue;
      const struct pz_onnx_node *scaling = find_producer(graph, sum->in[1 - k]);
      if (!(is_plain(scaling, "Mul") || is_plain(scaling, "Div")) || scaling->n_in != 2) continue;
      for (int s = 0; s < 2; s++)
        if (is_number(graph, scaling->in[s]) && scaling->in[1 - s] != PZ_NONE) {
          sum->in[1 - k] = scaling->in[1 - s];
          break;
        }
    }
  }
}
