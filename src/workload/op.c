#include "workload/op.h"

/* FLOP per element: additions, multiplications, comparisons, divisions and transcendental functions
 * count one each; moving or converting data counts none.  Backward counts the work for all inputs.
 */
#define TEN PZ_CLASS_TENSOR
#define VEC PZ_CLASS_VECTOR
#define COL PZ_CLASS_COLLECTIVE
#define NON PZ_CLASS_NONE
#define PASS PZ_GRAD_PASS
#define POINT PZ_GRAD_POINTWISE
#define NOTHING 0
#define IN0 PZ_SAVE_IN0
#define REST PZ_SAVE_REST
#define ALL_IN (PZ_SAVE_IN0 | PZ_SAVE_REST)
#define OUT PZ_SAVE_OUT
#define AUX PZ_SAVE_AUX

static const struct pz_op_info table[PZ_OP_KINDS] = {
    [PZ_OP_MATMUL] = {"matmul", TEN, PZ_GRAD_PRODUCT, ALL_IN, false, {0, 0}},
    [PZ_OP_ATTENTION] = {"attention", PZ_CLASS_FUSED, POINT, ALL_IN | OUT | AUX, false, {0, 0}},
    [PZ_OP_ADD] = {"add", VEC, PASS, NOTHING, true, {1, 1}},
    [PZ_OP_BIAS] = {"bias", VEC, PASS, NOTHING, true, {1, 1}},
    [PZ_OP_MUL] = {"mul", VEC, POINT, ALL_IN, true, {1, 2}},
    [PZ_OP_SCALE] = {"scale", VEC, POINT, NOTHING, true, {1, 1}},
    [PZ_OP_SCALE_MASK] = {"scale_mask", VEC, POINT, NOTHING, true, {2, 1}},
    [PZ_OP_POW] = {"pow", VEC, POINT, IN0, true, {2, 3}},
    [PZ_OP_MEAN] = {"mean", VEC, POINT, NOTHING, false, {1, 1}},
    [PZ_OP_RSQRT] = {"rsqrt", VEC, POINT, OUT, true, {2, 3}},
    [PZ_OP_TANH] = {"tanh", VEC, POINT, OUT, true, {1, 3}},
    [PZ_OP_COS] = {"cos", VEC, PZ_GRAD_NONE, NOTHING, true, {1, 0}},
    [PZ_OP_SIN] = {"sin", VEC, PZ_GRAD_NONE, NOTHING, true, {1, 0}},
    [PZ_OP_ROTATE_HALF] = {"rotate_half", VEC, POINT, NOTHING, false, {1, 1}},
    [PZ_OP_CONCAT] = {"concat", VEC, PZ_GRAD_JOIN, NOTHING, false, {0, 0}},
    [PZ_OP_CAST] = {"cast", VEC, POINT, NOTHING, true, {0, 0}},
    [PZ_OP_COPY] = {"copy", VEC, POINT, NOTHING, false, {0, 0}},
    [PZ_OP_REPEAT] = {"repeat", VEC, POINT, NOTHING, false, {0, 1}},
    [PZ_OP_GELU] = {"gelu", VEC, POINT, IN0, true, {9, 16}},
    [PZ_OP_RELU] = {"relu", VEC, POINT, OUT, true, {1, 1}},
    [PZ_OP_SILU] = {"silu", VEC, POINT, IN0, true, {5, 8}},
    [PZ_OP_SWIGLU] = {"swiglu", VEC, POINT, ALL_IN, true, {6, 11}},
    [PZ_OP_SIGMOID] = {"sigmoid", VEC, POINT, OUT, true, {4, 3}},
    [PZ_OP_SOFTMAX] = {"softmax", VEC, POINT, OUT, false, {5, 4}},
    [PZ_OP_LOG_SOFTMAX] = {"log_softmax", VEC, POINT, OUT, false, {5, 4}},
    [PZ_OP_NLL_LOSS] = {"nll_loss", VEC, POINT, REST, false, {0, 0}},
    [PZ_OP_CROSS_ENTROPY] = {"cross_entropy", VEC, POINT, ALL_IN | AUX, false, {5, 4}},
    [PZ_OP_LAYERNORM] = {"layernorm", VEC, POINT, ALL_IN | AUX, false, {8, 14}},
    [PZ_OP_RMSNORM] = {"rmsnorm", VEC, POINT, ALL_IN | AUX, false, {5, 10}},
    [PZ_OP_DROPOUT] = {"dropout", VEC, POINT, AUX, true, {2, 2}},
    [PZ_OP_ROTARY] = {"rotary", VEC, POINT, REST, true, {3, 3}},
    [PZ_OP_EMBEDDING] = {"embedding", VEC, POINT, IN0, false, {0, 1}},
    [PZ_OP_REDUCE] = {"reduce", VEC, PZ_GRAD_NONE, NOTHING, false, {1, 1}},
    [PZ_OP_TOPK] = {"topk", VEC, POINT, AUX, false, {1, 1}},
    [PZ_OP_DISPATCH] = {"dispatch", VEC, POINT, REST, false, {0, 1}},
    [PZ_OP_GATHER_ROWS] = {"gather_rows", VEC, POINT, REST, false, {0, 1}},
    [PZ_OP_SCATTER_ADD] = {"scatter_add", VEC, POINT, REST, false, {1, 0}},
    [PZ_OP_SORT] = {"sort", VEC, POINT, NOTHING, false, {0, 0}},
    [PZ_OP_COMBINE] = {"combine", VEC, POINT, ALL_IN, false, {2, 3}},
    [PZ_OP_SPLIT] = {"split", NON, PZ_GRAD_SPLIT, NOTHING, false, {0, 0}},
    [PZ_OP_TP_ENTER] = {"tp_enter", NON, PZ_GRAD_COLLECTIVE, NOTHING, false, {0, 0}},
    [PZ_OP_ALL_REDUCE] = {"all_reduce", COL, PZ_GRAD_COLLECTIVE, NOTHING, false, {0, 0}},
    [PZ_OP_ALL_GATHER] = {"all_gather", COL, PZ_GRAD_COLLECTIVE, NOTHING, false, {0, 0}},
    [PZ_OP_REDUCE_SCATTER] = {"reduce_scatter", COL, PZ_GRAD_COLLECTIVE, NOTHING, false, {0, 0}},
    [PZ_OP_ALL_TO_ALL] = {"all_to_all", COL, PZ_GRAD_COLLECTIVE, NOTHING, false, {0, 0}},
    [PZ_OP_GATHER_COLUMNS] = {"gather_columns", COL, PZ_GRAD_COLLECTIVE, NOTHING, false, {0, 0}},
};

const struct pz_op_info *pz_op_info(int kind) {
  return kind >= 0 && kind < PZ_OP_KINDS ? &table[kind] : NULL;
}

const char *pz_op_kind_name(int kind) {
  const struct pz_op_info *info = pz_op_info(kind);
  return info ? info->name : "unknown";
}

const char *pz_op_class_name(enum pz_op_class c) {
  static const char *const name[] = {"tensor", "vector", "fused", "none", "collective"};
  return (size_t)c < sizeof name / sizeof *name ? name[c] : "unknown";
}
