/* The table of ONNX operator types: the rule by which the shape of the result is inferred
 * (shape.c), how the operator is lowered (layer.c), the kind as which its work is counted, and
 * whether it is element-wise.  Types of other domains than ai.onnx are unknown.  Unknown types
 * count as element-wise work if the user accepts them. */
#include "onnx/graph.h"

#define S(x) PZ_SHAPE_##x
#define L(x) PZ_LOWER_##x
#define K(x) PZ_OP_##x

/* Types that are treated alike share a row.  Their kind is the one with the most similar work per
 * element and saved activations: tanh saves its result, pow its input. */
static const struct pz_onnx_op op_table[] = {
    {"Abs Acos Asin Atan Cos Log Sin Tan", S(SAME), L(VECTOR), K(POW), true},
    {"Add Mean Sub Sum", S(BROADCAST), L(BINARY), K(ADD), true},
    {"And BitwiseAnd BitwiseOr Equal Greater GreaterOrEqual Less LessOrEqual Or Xor", S(BROADCAST),
     L(DATA), K(ADD), true},
    {"ArgMax ArgMin", S(ARG), L(DATA), K(MEAN), false},
    {"AveragePool MaxPool", S(POOL), L(VECTOR), K(MEAN), false},
    {"BatchNormalization GroupNormalization InstanceNormalization LayerNormalization", S(SAME),
     L(NORM), K(LAYERNORM), false},
    {"BitwiseNot IsInf IsNaN Not", S(SAME), L(DATA), K(ADD), true},
    {"Cast CastLike", S(SAME), L(VIEW), K(CAST), true},
    {"Ceil Floor Neg Round Sign Trilu", S(SAME), L(VECTOR), K(SCALE), true},
    {"Celu Elu HardSwish Selu Softplus Softsign", S(SAME), L(VECTOR), K(SILU), true},
    {"Clip HardSigmoid LeakyRelu Relu ThresholdedRelu", S(SAME), L(VECTOR), K(RELU), true},
    {"Concat", S(CONCAT), L(CONCAT), K(CONCAT), false},
    {"Constant", S(CONSTANT), L(DATA), K(COPY), false},
    {"ConstantOfShape", S(FILLED), L(DATA), K(COPY), false},
    {"Conv", S(CONV), L(CONV), K(MATMUL), false},
    {"ConvTranspose", S(CONV_TRANSPOSE), L(CONV), K(MATMUL), false},
    {"CumSum", S(SAME), L(VECTOR), K(SCALE), false},
    {"DepthToSpace SpaceToDepth", S(DEPTH), L(VECTOR), K(COPY), false},
    {"Div Max Min Mod Mul", S(BROADCAST), L(BINARY), K(MUL), true},
    {"Dropout", S(SAME), L(VIEW), K(DROPOUT), true},
    {"Einsum", S(EINSUM), L(EINSUM), K(MATMUL), false},
    {"Erf Gelu Mish", S(SAME), L(VECTOR), K(GELU), true},
    {"Exp Sigmoid Tanh", S(SAME), L(VECTOR), K(TANH), true},
    {"Expand", S(EXPAND), L(EXPAND), K(REPEAT), false},
    {"EyeLike RandomNormalLike RandomUniformLike", S(SAME), L(DATA), K(COPY), false},
    {"Flatten", S(FLATTEN), L(VIEW), K(COPY), false},
    {"Gather", S(GATHER), L(GATHER), K(EMBEDDING), false},
    {"GatherElements", S(INDEXED), L(VECTOR), K(DISPATCH), false},
    {"GatherND", S(GATHER_ND), L(VECTOR), K(DISPATCH), false},
    {"Gemm", S(GEMM), L(GEMM), K(MATMUL), false},
    {"GlobalAveragePool GlobalMaxPool", S(GLOBAL_POOL), L(VECTOR), K(MEAN), false},
    {"GridSample", S(UNKNOWN), L(VECTOR), K(COMBINE), false},
    {"Identity", S(SAME), L(VIEW), K(COPY), true},
    {"If Loop Scan SequenceMap", S(UNKNOWN), L(REFUSE), K(COPY), false},
    {"LRN", S(SAME), L(VECTOR), K(LAYERNORM), false},
    {"LogSoftmax", S(SAME), L(VECTOR), K(LOG_SOFTMAX), false},
    {"LpNormalization Softmax", S(SAME), L(VECTOR), K(SOFTMAX), false},
    {"MatMul", S(MATMUL), L(MATMUL), K(MATMUL), false},
    {"NonZero", S(NON_ZERO), L(DATA), K(COPY), false},
    {"OneHot", S(ONE_HOT), L(DATA), K(COPY), false},
    {"PRelu", S(SAME), L(BINARY), K(MUL), true},
    {"Pad", S(PAD), L(VECTOR), K(COPY), false},
    {"Pow", S(BROADCAST), L(BINARY), K(POW), true},
    {"RMSNormalization", S(SAME), L(NORM), K(RMSNORM), false},
    {"RandomNormal", S(UNKNOWN), L(DATA), K(COPY), false},
    {"Range", S(RANGE), L(DATA), K(COPY), false},
    {"Reciprocal Sqrt", S(SAME), L(VECTOR), K(RSQRT), true},
    {"ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
     "ReduceSumSquare",
     S(REDUCE), L(VECTOR), K(MEAN), false},
    {"Reshape", S(RESHAPE), L(VIEW), K(COPY), false},
    {"Resize Upsample", S(RESIZE), L(VECTOR), K(REPEAT), false},
    {"ScatterElements ScatterND", S(SAME), L(VECTOR), K(COPY), false},
    {"Shape", S(SHAPE), L(DATA), K(COPY), false},
    {"Size", S(SCALAR), L(DATA), K(COPY), false},
    {"Slice", S(SLICE), L(PART), K(SPLIT), false},
    {"Split", S(SPLIT), L(PART), K(SPLIT), false},
    {"Squeeze", S(SQUEEZE), L(VIEW), K(COPY), false},
    {"Tile", S(TILE), L(EXPAND), K(REPEAT), false},
    {"TopK", S(TOPK), L(VECTOR), K(TOPK), false},
    {"Transpose", S(TRANSPOSE), L(VIEW), K(COPY), false},
    {"Unsqueeze", S(UNSQUEEZE), L(VIEW), K(COPY), false},
    {"Where", S(BROADCAST), L(BINARY), K(SCALE_MASK), true},
};

const struct pz_onnx_op pz_onnx_unknown_op = {"?", S(UNKNOWN), L(VECTOR), K(MUL), false};

/* Returns the table row of an operator type, or NULL if the type is unknown. */
const struct pz_onnx_op *pz_onnx_op_find(const char *domain, const char *type) {
  size_t length = strlen(type);
  if (domain[0]) return NULL;
  for (size_t i = 0; i < sizeof op_table / sizeof *op_table; i++) {
    const char *word = op_table[i].types;
    while (*word) {
      size_t word_length = strcspn(word, " ");
      if (word_length == length && memcmp(word, type, length) == 0) return &op_table[i];
      word += word_length;
      if (*word == ' ') word++;
    }
  }
  return NULL;
}
