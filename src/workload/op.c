/* The table of operator kinds (ops.def) as data, and the names of kinds and classes. */
#include "workload/op.h"

#include <string.h>

/* Short names for the sets of PZ_SAVE_* in ops.def. */
enum { NOTHING = 0, IN0 = PZ_SAVE_IN0, REST = PZ_SAVE_REST, ALL_IN = IN0 | REST };
enum { OUT = PZ_SAVE_OUT, AUX = PZ_SAVE_AUX };

static const struct pz_op_info op_table[] = {
#define OP(kind, name, op_class, grad, saves, elementwise, forward, backward)                      \
  {name, PZ_CLASS_##op_class, PZ_GRAD_##grad, saves, elementwise, {forward, backward}},
#include "workload/ops.def"
};

/* Returns the row of ops.def of a kind, or NULL if it is unknown. */
const struct pz_op_info *pz_op_info(int kind) {
  return kind >= 0 && kind < PZ_OP_KINDS ? &op_table[kind] : NULL;
}

const char *pz_op_kind_name(int kind) {
  const struct pz_op_info *info = pz_op_info(kind);
  return info ? info->name : "unknown";
}

const char *pz_op_class_name(enum pz_op_class op_class) {
  static const char *const names[] = {"tensor", "vector", "fused", "none", "collective"};
  return (size_t)op_class < sizeof names / sizeof *names ? names[op_class] : "unknown";
}

bool pz_op_adapts(const struct pz_op *op) { return strstr(op->name, ".adapter_") != NULL; }
