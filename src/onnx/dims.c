/* Correspondence of dimensions between the inputs and the result of a node, and Einsum equations.
 *
 * pz_onnx_source_dim() has one case for each way in which operators arrange the dimensions of
 * their result.  All other operators broadcast, so dimensions correspond from the right. */
#include "onnx/graph.h"

#include "core/num.h"

/* Letter indices from this one on stand for the dimensions of an ellipsis; the last index is the
 * rightmost dimension. */
enum { FIRST_UNNAMED = 52 };

static const char alphabet[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/* Reads a term of the equation that begins at *at, in which an ellipsis stands for `unnamed`
 * dimensions.  Returns false if the term is invalid. */
static bool read_einsum_term(const uint8_t *text, size_t length, size_t *at, int unnamed,
                             struct pz_onnx_term *term) {
  *term = (struct pz_onnx_term){0};
  for (; *at < length && text[*at] != ',' && text[*at] != '-'; ++*at) {
    if (text[*at] == ' ') continue;
    if (*at + 3 <= length && memcmp(text + *at, "...", 3) == 0) {
      for (int i = 0; i < unnamed && term->rank < PZ_ONNX_MOST_RANK; i++)
        term->letter[term->rank++] = (uint8_t)(PZ_EINSUM_MOST_LETTERS - unnamed + i);
      *at += 2;
      continue;
    }
    const char *place = text[*at] ? strchr(alphabet, text[*at]) : NULL;
    if (!place || term->rank == PZ_ONNX_MOST_RANK) return false;
    term->letter[term->rank++] = (uint8_t)(place - alphabet);
  }
  return true;
}

/* Reads the equation of an Einsum node; false if it is not supported or does not fit the shapes. */
bool pz_onnx_einsum_read(const struct pz_onnx_node *node, struct pz_onnx_einsum *einsum) {
  const Onnx__AttributeProto *equation = pz_onnx_attribute(node, "equation");
  if (!equation || !equation->has_s || node->n_in < 1 || node->n_in > 2) return false;
  const uint8_t *text = equation->s.data;
  size_t length = equation->s.len, at = 0;
  int most_unnamed = 0; /* most dimensions of an operand that its ellipsis stands for */
  *einsum = (struct pz_onnx_einsum){0};
  for (uint32_t k = 0; k < node->n_in; k++) {
    const struct pz_onnx_value *value = pz_onnx_input(node, k);
    struct pz_onnx_term named, *term = &einsum->in[k];
    size_t start = at;
    if (!value || value->rank < 0) return false;
    if (!read_einsum_term(text, length, &start, 0, &named)) return false;
    int unnamed = value->rank - named.rank;
    if (unnamed < 0 || unnamed > PZ_EINSUM_MOST_LETTERS - FIRST_UNNAMED) return false;
    if (!read_einsum_term(text, length, &at, unnamed, term)) return false;
    if (term->rank != value->rank) return false;
    if (unnamed > most_unnamed) most_unnamed = unnamed;
    for (int i = 0; i < value->rank; i++) {
      int64_t *size = &einsum->size[term->letter[i]];
      if (*size > 1 && value->dim[i] > 1 && *size != value->dim[i]) return false;
      if (value->dim[i] > *size) *size = value->dim[i];
    }
    char separator = k + 1 < node->n_in ? ',' : '-';
    if (at >= length || text[at] != separator) return false;
    at++;
  }
  if (at >= length || text[at] != '>') return false;
  at++;
  return read_einsum_term(text, length, &at, most_unnamed, &einsum->out) && at == length;
}

/* Returns the dimension of a term that a letter stands for, or -1 if the term lacks the letter. */
static int find_letter(const struct pz_onnx_term *term, int letter) {
  for (int i = 0; i < term->rank; i++)
    if (term->letter[i] == letter) return i;
  return -1;
}

/* A letter of both operands is a batch dimension if the result has it.  Any letter that the result
 * lacks is summed over. */
bool pz_onnx_einsum_product(const struct pz_onnx_node *node, struct pz_dims *dims) {
  struct pz_onnx_einsum einsum;
  if (node->n_in != 2 || !pz_onnx_einsum_read(node, &einsum)) return false;
  *dims = (struct pz_dims){1, 1, 1, 1};
  for (int letter = 0; letter < PZ_EINSUM_MOST_LETTERS; letter++) {
    bool left = find_letter(&einsum.in[0], letter) >= 0;
    bool right = find_letter(&einsum.in[1], letter) >= 0;
    bool in_result = find_letter(&einsum.out, letter) >= 0;
    if (!left && !right) continue;
    int64_t *side = &dims->n;
    if (left && right)
      side = in_result ? &dims->batch : &dims->k;
    else if (left)
      side = in_result ? &dims->m : &dims->k;
    if (!pz_mul(side, einsum.size[letter])) return false;
  }
  return true;
}

/* Returns the dimension of an operand of a MatMul that becomes dimension `dim` of the result, or
 * -1.  `left` tells whether it is the left operand.  The outer dimensions broadcast, rows come from
 * the left operand, and columns from the right one. */
static int matmul_source_dim(const struct pz_onnx_value *input, bool left, int other_rank,
                             int result_rank, int dim) {
  bool rows = left ? input->rank > 1 : other_rank > 1;
  bool columns = left ? other_rank > 1 : input->rank > 1;
  int outer = result_rank - rows - columns;
  if (dim < outer) return dim - (outer - (input->rank - 2));
  if (left) return rows && dim == outer ? input->rank - 2 : -1;
  return columns && dim == result_rank - 1 ? input->rank - 1 : -1;
}

/* Returns the dimension of an input of a Gather that becomes dimension `dim` of the result, or -1.
 * The dimensions of the indices replace the axis of the table. */
static int gather_source_dim(const struct pz_onnx_node *node, uint32_t input_index, int dim) {
  const struct pz_onnx_value *input = pz_onnx_input(node, 0), *indices = pz_onnx_input(node, 1);
  if (!input || !indices || indices->rank < 0) return -1;
  int axis = pz_onnx_axis_from_front(pz_onnx_int_attribute(node, "axis", 0), input->rank);
  if (axis < 0) return -1;
  bool from_indices = dim >= axis && dim < axis + indices->rank;
  if (input_index > 0) return from_indices ? dim - axis : -1;
  if (from_indices) return -1;
  return dim < axis ? dim : dim + 1 - indices->rank;
}

/* Returns the dimension of the input that becomes dimension `dim` of the result of a Squeeze or
 * Unsqueeze, or -1.  The dimensions that are neither dropped nor added keep their order. */
static int squeeze_source_dim(const struct pz_onnx_node *node, const struct pz_onnx_value *input,
                              const struct pz_onnx_value *output, int dim) {
  bool adds = node->op->shape == PZ_SHAPE_UNSQUEEZE;
  size_t count;
  const int64_t *axes = pz_onnx_ints_argument(node, "axes", 1, &count);
  int rank = adds ? output->rank : input->rank, n_kept = 0;
  for (int i = 0; i < rank; i++) {
    bool listed = !adds && count == 0 && input->dim[i] == 1;
    for (size_t k = 0; k < count; k++)
      listed = listed || pz_onnx_axis_from_front(axes[k], rank) == i;
    if (listed) continue;
    int source = adds ? n_kept : i, result = adds ? i : n_kept;
    if (result == dim && source < input->rank) return source;
    n_kept++;
  }
  return -1;
}

/* Operators without a case below broadcast, so that dimensions correspond from the right. */
int pz_onnx_source_dim(const struct pz_onnx_node *node, const struct pz_onnx_value *output,
                       uint32_t input_index, int dim) {
  const struct pz_onnx_value *input = pz_onnx_input(node, input_index);
  if (!input || input->rank < 0) return -1;
  const struct pz_onnx_value *other = pz_onnx_input(node, 1 - input_index);
  int from_right = dim - (output->rank - input->rank), source = -1;
  struct pz_onnx_einsum einsum;
  size_t count;
  const int64_t *perm;
  switch (node->op->shape) {
  case PZ_SHAPE_RESHAPE:
  case PZ_SHAPE_FLATTEN:
  case PZ_SHAPE_SHAPE:
  case PZ_SHAPE_FILLED:
  case PZ_SHAPE_RANGE:
  case PZ_SHAPE_CONSTANT: return -1;
  case PZ_SHAPE_MATMUL:
    if (input_index < 2 && other)
      source = matmul_source_dim(input, input_index == 0, other->rank, output->rank, dim);
    break;
  case PZ_SHAPE_GEMM:
    if (input_index == 0 && dim == 0) source = pz_onnx_int_attribute(node, "transA", 0) != 0;
    break;
  case PZ_SHAPE_TRANSPOSE:
    perm = pz_onnx_ints_attribute(node, "perm", &count);
    if (input_index == 0)
      source = (int)count == output->rank ? (int)perm[dim] : output->rank - 1 - dim;
    break;
  case PZ_SHAPE_GATHER:
    if (input_index < 2) source = gather_source_dim(node, input_index, dim);
    break;
  case PZ_SHAPE_SQUEEZE:
  case PZ_SHAPE_UNSQUEEZE:
    if (input_index == 0) source = squeeze_source_dim(node, input, output, dim);
    break;
  case PZ_SHAPE_REDUCE:
  case PZ_SHAPE_ARG:
    if (input_index == 0 && pz_onnx_int_attribute(node, "keepdims", 1))
      source = from_right;
    else if (input_index == 0 && dim == 0)
      source = 0;
    break;
  case PZ_SHAPE_EXPAND:
  case PZ_SHAPE_TILE:
    if (input_index == 0) source = from_right;
    break;
  case PZ_SHAPE_EINSUM:
    if (input_index < 2 && pz_onnx_einsum_read(node, &einsum) && einsum.out.rank == output->rank)
      source = find_letter(&einsum.in[input_index], einsum.out.letter[dim]);
    break;
  default: source = from_right;
  }
  return source >= 0 && source < input->rank ? source : -1;
}
