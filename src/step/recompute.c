#include "step/recompute.h"

#include <string.h>

#include "core/alloc.h"
#include "workload/op.h"

/* ---- names ---------------------------------------------------------------------------------- */

static const int MINIMAL = PZ_SAVED_QKV | PZ_SAVED_OUT | PZ_SAVED_MLP_IN | PZ_SAVED_MLP_OUT;

/* Words of a list; those without a product are about the layer's input, which is always saved. */
static const struct {
  const char *word;
  int saved;
} words[] = {{"q", PZ_SAVED_QKV},
             {"k", PZ_SAVED_QKV},
             {"v", PZ_SAVED_QKV},
             {"qkv", PZ_SAVED_QKV},
             {"context", PZ_SAVED_CONTEXT},
             {"out_proj", PZ_SAVED_OUT},
             {"mlpwi", PZ_SAVED_MLP_IN},
             {"mlpwo", PZ_SAVED_MLP_OUT},
             {"layer", 0},
             {"input", 0},
             {"kept", 0},
             {"rest", 0},
             {"recomputed", 0}};

static bool parse_list(const char *text, int *out) {
  int saved = 0;
  for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
    size_t n = strcspn(text, " "), i = 0;
    while (i < sizeof words / sizeof *words &&
           (strlen(words[i].word) != n || memcmp(words[i].word, text, n) != 0))
      i++;
    if (i == sizeof words / sizeof *words) return false;
    saved |= words[i].saved;
    text += n;
  }
  *out = saved;
  return true;
}

bool pz_saved_parse(const char *policy, int *out) {
  static const struct {
    const char *name;
    int saved;
  } policies[] = {{"minimal", MINIMAL},
                  {"minimal_with_context", MINIMAL | PZ_SAVED_CONTEXT},
                  {"custom", PZ_SAVED_QKV}};
  static const char list[] = "custom:";
  for (size_t i = 0; i < sizeof policies / sizeof *policies; i++)
    if (strcmp(policies[i].name, policy) == 0) {
      *out = policies[i].saved;
      return true;
    }
  return strncmp(policy, list, sizeof list - 1) == 0 && parse_list(policy + sizeof list - 1, out);
}

/* ---- operators ------------------------------------------------------------------------------ */

static bool begins(const char *name, const char *with) {
  return strncmp(name, with, strlen(with)) == 0;
}

static int product_of(const struct pz_op *op) {
  static const struct {
    const char *name;
    int saved;
  } products[] = {
      {"qkv", PZ_SAVED_QKV},       {"query", PZ_SAVED_QKV},       {"key", PZ_SAVED_QKV},
      {"value", PZ_SAVED_QKV},     {"context", PZ_SAVED_CONTEXT}, {"attention_out", PZ_SAVED_OUT},
      {"mlp_up", PZ_SAVED_MLP_IN}, {"mlp_gate", PZ_SAVED_MLP_IN}, {"mlp_down", PZ_SAVED_MLP_OUT}};
  if (op->kind == PZ_OP_ATTENTION) return PZ_SAVED_CONTEXT;
  if (op->op_class != PZ_CLASS_TENSOR && op->op_class != PZ_CLASS_FUSED) return 0;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++)
    if (begins(op->name, products[i].name)) return products[i].saved;
  return 0;
}

/* Backwards over the forward pass: an operator runs again if a result of it is needed, and then
 * what it reads is needed too. */
enum pz_status pz_recompute_ops(const struct pz_layer *l, int saved, bool *again,
                                struct pz_error *err) {
  bool *need = pz_calloc(l->n_tensors, sizeof *need);
  if (!need) return pz_fail(err, PZ_NO_MEMORY, "out of memory for the prediction");
  for (uint32_t i = 0; i < l->n_saved; i++) need[l->saved[i]] = true;
  for (uint32_t i = l->ops[PZ_FORWARD].n; i-- > 0;) {
    const struct pz_op *op = &l->ops[PZ_FORWARD].op[i];
    bool wanted = false;
    for (uint32_t o = 0; o < op->n_out; o++) wanted |= need[l->tensors[op->out[o]].storage];
    again[i] = wanted && !(product_of(op) & saved);
    for (uint32_t k = 0; k < op->n_in && again[i]; k++) need[l->tensors[op->in[k]].storage] = true;
  }
  pz_free(need);
  return PZ_OK;
}

double pz_saved_bytes(const struct pz_layer *l, int saved) {
  double bytes = (double)l->output_bytes;
  for (uint32_t i = 0; i < l->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = &l->ops[PZ_FORWARD].op[i];
    const struct pz_tensor *t = op->n_out ? &l->tensors[op->out[0]] : NULL;
    if (t && (product_of(op) & saved)) bytes += (double)(t->elems * t->elem_bytes);
  }
  return bytes;
}

/* ---- modules -------------------------------------------------------------------------------- */

bool pz_modules_parse(const char *names, int *out) {
  static const struct {
    const char *name;
    int module;
  } known[] = {{"layernorm", PZ_MODULE_NORM},
               {"norm", PZ_MODULE_NORM},
               {"moe_act", PZ_MODULE_ACTIVATION},
               {"act", PZ_MODULE_ACTIVATION},
               {"mla_up_proj", PZ_MODULE_UP},
               {"up_proj", PZ_MODULE_UP},
               {"mlp", PZ_MODULE_MLP},
               {"moe", PZ_MODULE_EXPERTS},
               {"shared_experts", PZ_MODULE_SHARED},
               {"core_attn", PZ_MODULE_CORE},
               {"dense", 0}}; /* as in "dense mlp" */
  static const char gaps[] = " ,+";
  int set = 0;
  for (names += strspn(names, gaps); *names; names += strspn(names, gaps)) {
    size_t n = strcspn(names, gaps), i = 0;
    if (*names == '(') break; /* a remark */
    while (i < sizeof known / sizeof *known &&
           (strlen(known[i].name) != n || memcmp(known[i].name, names, n) != 0))
      i++;
    if (i == sizeof known / sizeof *known) return false;
    set |= known[i].module;
    names += n;
  }
  *out = set;
  return set != 0;
}

static bool has_experts(const struct pz_layer *l) { return l->model_expert_params > 0; }

bool pz_in_modules(const struct pz_layer *l, const struct pz_op *op, int modules) {
  static const struct {
    const char *name;
    int module;
  } rows[] = {{"attention_norm", PZ_MODULE_NORM},
              {"mlp_norm", PZ_MODULE_NORM},
              {"query_up", PZ_MODULE_UP},
              {"query_rotary", PZ_MODULE_UP},
              {"kv_up", PZ_MODULE_UP},
              {"key", PZ_MODULE_UP},
              {"shared", PZ_MODULE_SHARED},
              {"dispatch", PZ_MODULE_EXPERTS},
              {"combine", PZ_MODULE_EXPERTS}};
  int module = 0;
  if (op->kind == PZ_OP_ATTENTION) return modules & PZ_MODULE_CORE;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (begins(op->name, rows[i].name)) module = rows[i].module;
  if (begins(op->name, "mlp_act") && has_experts(l))
    module = PZ_MODULE_ACTIVATION | PZ_MODULE_EXPERTS;
  else if (begins(op->name, "mlp_") && !(module & PZ_MODULE_NORM))
    module = has_experts(l) ? PZ_MODULE_EXPERTS : PZ_MODULE_MLP;
  return modules & module;
}

/* What is read again by backward alone: the results of the modules' operators but for the last of each chain, which
 * others read. */
double pz_modules_bytes(const struct pz_layer *l, int modules) {
  double bytes = 0;
  for (uint32_t i = 0; i < l->n_saved; i++) {
    const struct pz_tensor *t = &l->tensors[l->saved[i]];
    for (uint32_t k = 0; k < l->ops[PZ_FORWARD].n; k++) {
      const struct pz_op *op = &l->ops[PZ_FORWARD].op[k];
      bool makes = false;
      for (uint32_t o = 0; o < op->n_out; o++)
        makes = makes || l->tensors[op->out[o]].storage == l->saved[i];
      if (!makes || !pz_in_modules(l, op, modules)) continue;
      bytes += (double)(t->elems * t->elem_bytes);
      break;
    }
  }
  return bytes;
}
