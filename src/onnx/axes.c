/* Imports at a microbatch size or sequence length other than the exported one.
 *
 * Every dimension is a product of factors, some of which are the batch or the sequence size.  The
 * factors of inputs are known, and those of constants are guessed from their sizes
 * (factor_sources).  Those of results follow from node to node (factor_result), also through
 * reshapes, which divide and merge dimensions (factor_reshape).  Finally, every batch and sequence
 * factor gets its new size (apply_new_sizes).  A changed factor that cannot be followed is an
 * error. */
#include <inttypes.h>
#include <stdio.h>

#include "core/num.h"
#include "onnx/passes.h"

/* Returns the batch axis of an input, which is the first one unless the user states another, or -1
 * if the input has none. */
static int batch_axis(const struct pz_workload_options *options,
                      const struct pz_onnx_value *value) {
  if (!options->batch_dim) return 0;
  size_t n = strlen(value->name);
  bool names_input =
      strncmp(options->batch_dim, value->name, n) == 0 && options->batch_dim[n] == ':';
  if (names_input) {
    const char *digit = options->batch_dim + n + 1;
    bool valid = digit[0] >= '0' && digit[0] < '0' + PZ_ONNX_MOST_RANK && !digit[1];
    return valid ? digit[0] - '0' : -1;
  }
  for (int i = 0; i < value->rank; i++)
    if (value->symbols && value->symbols[i] && strcmp(value->symbols[i], options->batch_dim) == 0)
      return i;
  return -1;
}

/* The first input with a batch axis and the first one of token ids determine the sizes. */
struct pz_onnx_sizes pz_onnx_exported_sizes(struct pz_call *call, const struct pz_onnx_graph *graph,
                                            const struct pz_workload_options *options) {
  struct pz_onnx_sizes sizes = {0};
  for (uint32_t i = 0; i < graph->inputs.n; i++) {
    const struct pz_onnx_value *value =
        pz_onnx_value(graph, *pz_vec_at(&graph->inputs, uint32_t, i));
    if (value->initializer) continue;
    int axis = value->rank < 1 ? -1 : batch_axis(options, value);
    bool token_ids = value->rank == 2 && value->type && !pz_onnx_is_float(value->type);
    if (axis >= 0 && axis < value->rank && !sizes.batch) sizes.batch = value->dim[axis];
    if (token_ids && !sizes.seq) sizes.seq = value->dim[axis == 1 ? 0 : 1];
  }
  if (options->batch_dim && !sizes.batch)
    pz_raise(call, PZ_BAD_USE,
             "%s: no input has the batch dimension '%.100s'; accepted: the name of a "
             "symbolic dimension, or INPUT:AXIS",
             graph->file, options->batch_dim);
  return sizes;
}

/* A change of the batch and sequence sizes of a graph. */
struct rescaling {
  struct pz_onnx_graph *graph;
  const struct pz_workload_options *options;
  struct pz_onnx_sizes exported, wanted;
};

/* Returns whether a factor of a dimension is this axis, the batch or the sequence. */
static bool dim_has_axis(const struct pz_onnx_factored_dim *dim, enum pz_onnx_axis axis) {
  for (int i = 0; i < dim->n; i++)
    if (dim->factor[i].axis == axis) return true;
  return false;
}

/* Returns a dimension of a constant or of a computed mask as one factor.  A dimension of the
 * exported sequence length is the sequence; dimension 0, if it has the exported batch size, is the
 * batch. */
static struct pz_onnx_factored_dim guess_dim(const struct rescaling *rescaling, int64_t size,
                                             int position) {
  struct pz_onnx_factored_dim dim = {1, {{size, PZ_AXIS_NONE}}};
  if (size > 1 && size == rescaling->exported.seq) dim.factor[0].axis = PZ_AXIS_SEQ;
  if (position == 0 && size > 1 && size == rescaling->exported.batch)
    dim.factor[0].axis = PZ_AXIS_BATCH;
  return dim;
}

/* Gives a value dimensions of one factor each, without axes. */
static void init_factors(struct pz_call *call, struct pz_onnx_value *value) {
  size_t rank = value->rank > 0 ? (size_t)value->rank : 0;
  value->factored_dim = pz_alloc(call, rank, sizeof *value->factored_dim);
  for (size_t i = 0; i < rank; i++)
    value->factored_dim[i] = (struct pz_onnx_factored_dim){1, {{value->dim[i], PZ_AXIS_NONE}}};
}

/* Sets the factors of all values that no node computes.  Dimensions of inputs are the batch or the
 * sequence by their position and size.  Parameters do not depend on these, but constants may. */
static void factor_sources(struct pz_call *call, const struct rescaling *rescaling) {
  struct pz_onnx_graph *graph = rescaling->graph;
  for (uint32_t i = 0; i < graph->inputs.n; i++) {
    struct pz_onnx_value *value = pz_onnx_value(graph, *pz_vec_at(&graph->inputs, uint32_t, i));
    if (value->initializer || value->rank < 1) continue;
    init_factors(call, value);
    int axis = batch_axis(rescaling->options, value);
    /* Token ids and masks, and embeddings (samples x tokens x features), have a sequence. */
    bool has_sequence = !pz_onnx_is_float(value->type) || value->rank == 3;
    for (int d = 0; d < value->rank; d++) {
      bool may_be_batch = d == axis || (axis < 0 && d == 0);
      bool may_be_sequence = has_sequence && (d < 2 || value->rank != 3);
      if (may_be_batch && value->dim[d] == rescaling->exported.batch)
        value->factored_dim[d].factor[0].axis = PZ_AXIS_BATCH;
      else if (may_be_sequence && value->dim[d] == rescaling->exported.seq)
        value->factored_dim[d].factor[0].axis = PZ_AXIS_SEQ;
    }
  }
  for (uint32_t i = 0; i < graph->values.n; i++) {
    struct pz_onnx_value *value = pz_onnx_value(graph, i);
    if (value->factored_dim || value->producer != PZ_NONE) continue;
    init_factors(call, value);
    bool is_parameter = pz_onnx_is_float(value->type) && !value->constant_table;
    for (int d = 0; d < value->rank && !is_parameter; d++)
      value->factored_dim[d] = guess_dim(rescaling, value->dim[d], d);
  }
}

/* The factors of all dimensions of an input.  Factors before `next` are used up. */
struct factor_list {
  int n, next;
  struct {
    int64_t size;
    enum pz_onnx_axis axis;
  } item[PZ_ONNX_MOST_RANK * PZ_ONNX_MOST_FACTORS];
};

/* Appends a factor to a dimension.  Returns false if the dimension has too many factors. */
static bool append_factor(struct pz_onnx_factored_dim *dim, int64_t size, enum pz_onnx_axis axis) {
  bool merge = axis == PZ_AXIS_NONE && dim->n && dim->factor[dim->n - 1].axis == PZ_AXIS_NONE;
  if (merge) return pz_mul(&dim->factor[dim->n - 1].size, size);
  if (dim->n == PZ_ONNX_MOST_FACTORS) return false;
  dim->factor[dim->n].size = size;
  dim->factor[dim->n].axis = axis;
  dim->n++;
  return true;
}

/* Moves factors from the front of the list to *dim until their product is `size`.  Returns false if
 * no such division exists.  next_size is the size of the dimension after *dim, or 0 if *dim is the
 * last one.
 *
 * A factor without axis may be divided between dimensions.  A factor of size 1 is the batch or the
 * sequence of an export with one sample or token, and could belong to *dim or to the next
 * dimension.  It is left for the next one if that has size 1 or gets only a part of the next factor
 * above 1: if 8 tokens x 1 sample x 64 features become 8 x 4 x 16, the dimension of size 4 has the
 * heads of all samples, so it contains the batch. */
static bool fill_dimension(struct factor_list *list, int64_t size, int64_t next_size,
                           struct pz_onnx_factored_dim *dim) {
  int64_t remaining = size; /* product of the factors that are still missing */
  *dim = (struct pz_onnx_factored_dim){0};
  while (remaining > 1) {
    if (list->next >= list->n) return false;
    int64_t factor = list->item[list->next].size;
    enum pz_onnx_axis axis = list->item[list->next].axis;
    if (factor > 0 && remaining % factor == 0) {
      if (!append_factor(dim, factor, axis)) return false;
      remaining /= factor;
      list->next++;
    } else if (axis == PZ_AXIS_NONE && factor > 0 && factor % remaining == 0) {
      if (!append_factor(dim, remaining, axis)) return false;
      list->item[list->next].size = factor / remaining;
      remaining = 1;
    } else {
      return false;
    }
  }
  /* Append factors of size 1, up to one that belongs to the next dimension. */
  int64_t next_factor = 1; /* the next factor above 1 */
  for (int i = list->next; i < list->n && next_factor == 1; i++) next_factor = list->item[i].size;
  bool rest_is_for_next = size > 1 && next_size > 0 && (next_size == 1 || next_size < next_factor);
  while (!rest_is_for_next && list->next < list->n && list->item[list->next].size == 1) {
    if (!append_factor(dim, 1, list->item[list->next].axis)) return false;
    list->next++;
    rest_is_for_next = size == 1; /* a dimension of size 1 gets only one of them */
  }
  return true;
}

/* Distributes the factors of an input over the dimensions of its reshaped form, in order.  Returns
 * false if they do not fit.  Factors of size 1 that are left over go to the last dimension. */
static bool factor_reshape(const struct pz_onnx_value *input, struct pz_onnx_value *output) {
  struct factor_list list = {0};
  for (int i = 0; i < input->rank; i++)
    for (int k = 0; k < input->factored_dim[i].n; k++) {
      int64_t size = input->factored_dim[i].factor[k].size;
      enum pz_onnx_axis axis = input->factored_dim[i].factor[k].axis;
      if (axis == PZ_AXIS_NONE && size == 1) continue;
      list.item[list.n].size = size;
      list.item[list.n].axis = axis;
      list.n++;
    }
  for (int j = 0; j < output->rank; j++) {
    int64_t next_size = j + 1 < output->rank ? output->dim[j + 1] : 0;
    if (!fill_dimension(&list, output->dim[j], next_size, &output->factored_dim[j])) return false;
    if (!output->factored_dim[j].n)
      output->factored_dim[j] = (struct pz_onnx_factored_dim){1, {{output->dim[j], PZ_AXIS_NONE}}};
  }
  for (; list.next < list.n && output->rank > 0; list.next++) {
    if (list.item[list.next].size != 1) return false;
    if (!append_factor(&output->factored_dim[output->rank - 1], 1, list.item[list.next].axis))
      return false;
  }
  return true;
}

/* Returns whether a dimension of a value has a factor that is this axis. */
static bool value_has_axis(const struct pz_onnx_value *input, enum pz_onnx_axis axis) {
  for (int i = 0; input->factored_dim && i < input->rank; i++)
    if (dim_has_axis(&input->factored_dim[i], axis)) return true;
  return false;
}

/* Raises the error that a node loses the batch or the sequence dimension. */
static _Noreturn void raise_lost_axis(struct pz_call *call, const struct rescaling *rescaling,
                                      const struct pz_onnx_node *node, enum pz_onnx_axis axis) {
  bool batch = axis == PZ_AXIS_BATCH;
  pz_onnx_raise(call, node, PZ_BAD_USE,
                "the %s dimension cannot be followed through it; accepted: %s %" PRId64
                " as exported",
                batch ? "batch" : "sequence", batch ? "--mbs" : "--seq",
                batch ? rescaling->exported.batch : rescaling->exported.seq);
}

/* Returns whether the result of a node may lack an axis that an input has.  Reductions and
 * selections remove axes.  A product sums over one axis, which cannot be the batch. */
static bool may_drop_axis(const struct pz_onnx_node *node, enum pz_onnx_axis axis) {
  switch (node->op->lower) {
  case PZ_LOWER_MATMUL:
  case PZ_LOWER_GEMM:
  case PZ_LOWER_EINSUM: return axis != PZ_AXIS_BATCH;
  case PZ_LOWER_CONV:
  case PZ_LOWER_NORM:
  case PZ_LOWER_BINARY:
  case PZ_LOWER_CONCAT: return false;
  case PZ_LOWER_VIEW: return node->op->shape == PZ_SHAPE_SQUEEZE;
  default: return !node->op->elementwise && node->op->shape != PZ_SHAPE_POOL;
  }
}

/* Raises an error if a node loses an axis whose size changes, because later sizes would be wrong.
 * Values with known integers are shapes, which have no axes. */
static void check_axes_kept(struct pz_call *call, const struct rescaling *rescaling,
                            const struct pz_onnx_node *node, const struct pz_onnx_value *output) {
  static const enum pz_onnx_axis axes[] = {PZ_AXIS_BATCH, PZ_AXIS_SEQ};
  const bool changes[] = {rescaling->wanted.batch != rescaling->exported.batch,
                          rescaling->wanted.seq != rescaling->exported.seq};
  for (int i = 0; i < 2; i++) {
    if (!changes[i] || output->ints) continue;
    if (may_drop_axis(node, axes[i]) || value_has_axis(output, axes[i])) continue;
    for (uint32_t k = 0; k < node->n_in; k++) {
      const struct pz_onnx_value *input = pz_onnx_input(node, k);
      if (input && !input->ints && value_has_axis(input, axes[i]))
        raise_lost_axis(call, rescaling, node, axes[i]);
    }
  }
}

/* Sets the factors of a result.  Each dimension gets the factors of the corresponding dimension of
 * an input, if the sizes agree.  Inputs with a batch or sequence axis take precedence. */
static void factor_result(struct pz_call *call, const struct rescaling *rescaling,
                          const struct pz_onnx_node *node, struct pz_onnx_value *output) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0);
  enum pz_onnx_shape_rule rule = node->op->shape;
  if (rule == PZ_SHAPE_RESHAPE || rule == PZ_SHAPE_FLATTEN) {
    bool has_axes = input && input->rank >= 0 &&
                    (value_has_axis(input, PZ_AXIS_BATCH) || value_has_axis(input, PZ_AXIS_SEQ));
    if (has_axes && !factor_reshape(input, output)) {
      bool batch_changes = rescaling->wanted.batch != rescaling->exported.batch;
      raise_lost_axis(call, rescaling, node, batch_changes ? PZ_AXIS_BATCH : PZ_AXIS_SEQ);
    }
    return;
  }
  bool computed = rule == PZ_SHAPE_FILLED || rule == PZ_SHAPE_RANGE || rule == PZ_SHAPE_CONSTANT ||
                  node->op->lower == PZ_LOWER_EXPAND;
  for (int i = 0; i < output->rank; i++) {
    if (computed) output->factored_dim[i] = guess_dim(rescaling, output->dim[i], i);
    for (uint32_t k = 0; k < node->n_in; k++) {
      input = pz_onnx_input(node, k);
      int from = pz_onnx_source_dim(node, output, k, i);
      if (!input || !input->factored_dim || from < 0) continue;
      if (input->dim[from] != output->dim[i]) continue; /* it is broadcast */
      const struct pz_onnx_factored_dim *dim = &output->factored_dim[i];
      if (!dim_has_axis(dim, PZ_AXIS_BATCH) && !dim_has_axis(dim, PZ_AXIS_SEQ))
        output->factored_dim[i] = input->factored_dim[from];
    }
  }
}

/* Replaces the batch and sequence factors of all dimensions by the new sizes. */
static void apply_new_sizes(struct pz_call *call, const struct rescaling *rescaling) {
  for (uint32_t i = 0; i < rescaling->graph->values.n; i++) {
    struct pz_onnx_value *value = pz_onnx_value(rescaling->graph, i);
    for (int d = 0; value->factored_dim && d < value->rank; d++) {
      const struct pz_onnx_factored_dim *dim = &value->factored_dim[d];
      bool fits = true;
      value->dim[d] = 1;
      for (int k = 0; k < dim->n && fits; k++) {
        int64_t factor = dim->factor[k].size;
        if (dim->factor[k].axis == PZ_AXIS_BATCH) factor = rescaling->wanted.batch;
        if (dim->factor[k].axis == PZ_AXIS_SEQ) factor = rescaling->wanted.seq;
        fits = pz_mul(&value->dim[d], factor);
      }
      if (!fits || value->dim[d] < 0 || value->dim[d] > PZ_ONNX_MOST_DIM)
        pz_raise(call, PZ_LIMIT, "%s: tensor '%.120s' becomes too large", rescaling->graph->file,
                 value->name);
    }
  }
}

/* Follows batch and sequence through the graph, unless both keep the exported sizes. */
void pz_onnx_rescale(struct pz_call *call, struct pz_onnx_graph *graph,
                     const struct pz_workload_options *options,
                     const struct pz_onnx_sizes *exported) {
  struct rescaling rescaling = {
      .graph = graph, .options = options, .exported = *exported, .wanted = *exported};
  if (!exported->seq && options->seq)
    pz_raise(call, PZ_BAD_USE,
             "%s has no sequence dimension (an integer input of samples x tokens); --seq "
             "cannot change it",
             graph->file);
  if (!exported->batch && options->mbs != 1)
    pz_raise(call, PZ_BAD_USE,
             "%s has no batch dimension; accepted: --batch-dim INPUT:AXIS to name it", graph->file);
  if (options->seq) rescaling.wanted.seq = options->seq;
  if (exported->batch) rescaling.wanted.batch = options->mbs;
  if (rescaling.wanted.batch == exported->batch && rescaling.wanted.seq == exported->seq) return;
  factor_sources(call, &rescaling);
  for (uint32_t i = 0; i < graph->nodes.n; i++) {
    const struct pz_onnx_node *node = pz_onnx_node(graph, i);
    for (uint32_t j = 0; j < node->n_out; j++) {
      struct pz_onnx_value *output = pz_onnx_result(node, j);
      if (!output) continue;
      init_factors(call, output);
      if (output->rank < 0) continue;
      factor_result(call, &rescaling, node, output);
      if (j == 0) check_axes_kept(call, &rescaling, node, output);
    }
  }
  apply_new_sizes(call, &rescaling);
}
