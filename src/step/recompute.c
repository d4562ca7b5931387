/* Recomputed operators and bytes of a layer (recompute.h).
 *
 * Operators are assigned to modules by the beginnings of their names, which the graph builder gives
 * them: find_bits() looks a name up in a table of prefixes. */
#include "step/recompute.h"

#include <string.h>

#include "core/num.h"
#include "workload/passes.h"

/* ---- tables of words ------------------------------------------------------------------------ */

/* The GEMMs whose results policy "minimal" saves. */
static const int MINIMAL = PZ_SAVED_QKV | PZ_SAVED_OUT | PZ_SAVED_MLP_IN | PZ_SAVED_MLP_OUT;

/* The bits that a word, or a prefix, stands for.  A table ends with a NULL word. */
struct word_bits {
  const char *word;
  int bits;
};

/* Sets *bits to those of all words in the text, which are separated by any of the characters in
 * `separators` and end before the character `stop`.  Returns false for an unknown word. */
static bool parse_words(const char *text, const char *separators, char stop,
                        const struct word_bits *table, int *bits) {
  int set = 0;
  text += strspn(text, separators);
  while (*text && *text != stop) {
    size_t n = strcspn(text, separators), i = 0;
    while (table[i].word && (strlen(table[i].word) != n || memcmp(table[i].word, text, n) != 0))
      i++;
    if (!table[i].word) return false;
    set |= table[i].bits;
    text += n;
    text += strspn(text, separators);
  }
  *bits = set;
  return true;
}

/* Returns the bits of the first prefix in the table with which the name begins, or 0. */
static int find_bits(const char *name, const struct word_bits *table) {
  while (table->word && strncmp(name, table->word, strlen(table->word)) != 0) table++;
  return table->bits;
}

/* Parses a saving policy, such as "minimal" or "custom: qkv kept", into a set of GEMMs. */
bool pz_saved_parse(const char *policy, int *saved) {
  static const struct word_bits policies[] = {{"minimal", MINIMAL},
                                              {"minimal_with_context", MINIMAL | PZ_SAVED_CONTEXT},
                                              {"custom", PZ_SAVED_QKV | PZ_SAVED_HOST},
                                              {NULL, 0}};
  /* words without a GEMM are about the layer's input, which is always saved */
  static const struct word_bits words[] = {{"context", PZ_SAVED_CONTEXT}, {"v", PZ_SAVED_QKV},
                                           {"mlpwo", PZ_SAVED_MLP_OUT},   {"recomputed", 0},
                                           {"out_proj", PZ_SAVED_OUT},    {"layer", 0},
                                           {"mlpwi", PZ_SAVED_MLP_IN},    {"input", 0},
                                           {"qkv", PZ_SAVED_QKV},         {"kept", 0},
                                           {"q", PZ_SAVED_QKV},           {"rest", 0},
                                           {"k", PZ_SAVED_QKV},           {NULL, 0}};
  static const char custom[] = "custom:";
  for (const struct word_bits *known = policies; known->word; known++)
    if (strcmp(known->word, policy) == 0) {
      *saved = known->bits;
      return true;
    }
  return strncmp(policy, custom, sizeof custom - 1) == 0 &&
         parse_words(policy + sizeof custom - 1, " ", 0, words, saved);
}

/* Parses names of modules into a set of enum pz_module.  "dense" ("dense mlp") adds nothing. */
bool pz_modules_parse(const char *names, int *modules) {
  static const struct word_bits words[] = {
      {"shared_experts", PZ_MODULE_SHARED}, {"mla_up_proj", PZ_MODULE_UP}, {"norm", PZ_MODULE_NORM},
      {"moe_act", PZ_MODULE_ACTIVATION},    {"core_attn", PZ_MODULE_CORE}, {"mlp", PZ_MODULE_MLP},
      {"layernorm", PZ_MODULE_NORM},        {"moe", PZ_MODULE_EXPERTS},    {"dense", 0},
      {"act", PZ_MODULE_ACTIVATION},        {"up_proj", PZ_MODULE_UP},     {NULL, 0}};
  return parse_words(names, " ,+", '(', words, modules) && *modules; /* a remark is in brackets */
}

/* ---- operators ------------------------------------------------------------------------------ */

/* Returns which GEMM of a saving policy an operator is, as a bit, or 0. */
static int saved_gemm(const struct pz_op *op) {
  static const struct word_bits gemms[] = {
      {"qkv", PZ_SAVED_QKV},          {"query", PZ_SAVED_QKV},
      {"key", PZ_SAVED_QKV},          {"value", PZ_SAVED_QKV},
      {"context", PZ_SAVED_CONTEXT},  {"attention_out", PZ_SAVED_OUT},
      {"mlp_up", PZ_SAVED_MLP_IN},    {"mlp_gate", PZ_SAVED_MLP_IN},
      {"mlp_down", PZ_SAVED_MLP_OUT}, {NULL, 0}};
  if (op->kind == PZ_OP_ATTENTION) return PZ_SAVED_CONTEXT;
  bool gemm = op->op_class == PZ_CLASS_TENSOR || op->op_class == PZ_CLASS_FUSED;
  return gemm ? find_bits(op->name, gemms) : 0;
}

/* Returns whether full recomputation leaves out what is saved or not read. */
bool pz_recomputes_needed(const struct pz_plan *plan) {
  return plan->recompute == PZ_RECOMPUTATION_FULL &&
         (plan->saved || pz_framework_compiles(pz_plan_framework(plan)));
}

/* Returns a flag for each forward operator that is recomputed.  Goes backward over the pass: an
 * operator is recomputed if one of its results is needed, and then what it reads is needed too. */
const bool *pz_recompute_ops(struct pz_call *call, const struct pz_layer *layer, int saved) {
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  const struct pz_tensor *tensors = layer->tensors;
  bool *needed = pz_alloc(call, layer->n_tensors, sizeof *needed);
  bool *recomputed = pz_alloc(call, ops->n, sizeof *recomputed);
  for (uint32_t i = 0; i < layer->n_saved; i++) needed[layer->saved[i]] = true;
  for (uint32_t i = ops->n; i > 0; i--) {
    const struct pz_op *op = &ops->op[i - 1];
    bool is_needed = false;
    for (uint32_t k = 0; k < op->n_out; k++) is_needed |= needed[tensors[op->out[k]].storage];
    recomputed[i - 1] = is_needed && !(saved_gemm(op) & saved);
    for (uint32_t k = 0; k < op->n_in && recomputed[i - 1]; k++)
      needed[tensors[op->in[k]].storage] = true;
  }
  return recomputed;
}

/* Returns the bytes that a layer saves on the device: its input, and the results of these GEMMs. */
double pz_saved_bytes(const struct pz_layer *layer, int saved) {
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  double input_bytes = (double)layer->output_bytes, sum = input_bytes;
  if (saved & PZ_SAVED_HOST) return 0;
  for (uint32_t i = 0; i < ops->n; i++) {
    const struct pz_op *op = &ops->op[i];
    if (!op->n_out || !(saved_gemm(op) & saved)) continue;
    const struct pz_tensor *result = &layer->tensors[op->out[0]];
    double result_bytes = (double)(result->elems * result->elem_bytes);
    /* The results of these two GEMMs are summed over the tensor-parallel group and added to the
     * residual stream, which enters the layer as its input.  With sequence parallelism, a device
     * saves only its share of the sum, which is as large as its share of the input. */
    bool is_sum = saved_gemm(op) & (PZ_SAVED_OUT | PZ_SAVED_MLP_OUT);
    sum += is_sum ? pz_fmin(result_bytes, input_bytes) : result_bytes;
  }
  return sum;
}

/* Returns whether a forward operator belongs to one of the modules, by its name. */
bool pz_in_modules(const struct pz_layer *layer, const struct pz_op *op, int modules) {
  static const struct word_bits names[] = {{"attention_norm", PZ_MODULE_NORM},
                                           {"mlp_norm", PZ_MODULE_NORM},
                                           {"query_up", PZ_MODULE_UP},
                                           {"query_rotary", PZ_MODULE_UP},
                                           {"kv_up", PZ_MODULE_UP},
                                           {"key", PZ_MODULE_UP},
                                           {"shared", PZ_MODULE_SHARED},
                                           {"dispatch", PZ_MODULE_EXPERTS},
                                           {"combine", PZ_MODULE_EXPERTS},
                                           {"latent_", PZ_MODULE_EXPERTS},
                                           {NULL, 0}};
  /* other operators of the feed-forward layer, dense or with routed experts */
  static const struct word_bits dense[] = {{"mlp_", PZ_MODULE_MLP}, {NULL, 0}};
  static const struct word_bits routed[] = {{"mlp_act", PZ_MODULE_ACTIVATION | PZ_MODULE_EXPERTS},
                                            {"mlp_", PZ_MODULE_EXPERTS},
                                            {NULL, 0}};
  if (op->kind == PZ_OP_ATTENTION) return modules & PZ_MODULE_CORE;
  int module = find_bits(op->name, names);
  if (!module) module = find_bits(op->name, layer->model_expert_params > 0 ? routed : dense);
  return modules & module;
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Returns whether one of n tensors of a layer shares this storage. */
static bool includes_storage(const struct pz_layer *layer, const uint32_t *tensors, uint32_t n,
                             uint32_t storage) {
  for (uint32_t i = 0; i < n; i++)
    if (layer->tensors[tensors[i]].storage == storage) return true;
  return false;
}

/* Returns the bytes of the i-th saved tensor of a layer, saved in 16, 8 or 4 bit (`form`). */
static double saved_tensor_bytes(const struct pz_layer *layer, uint32_t i,
                                 enum pz_saved_form form) {
  const struct pz_tensor *tensor = &layer->tensors[layer->saved[i]];
  return (double)(tensor->elems * tensor->elem_bytes -
                  pz_saved_less(tensor, layer->saved_by[i], form));
}

/* Returns the saved bytes of a layer that are recomputed instead if `modules` are: those of all
 * saved tensors that an operator of the modules writes. */
double pz_modules_bytes(const struct pz_layer *layer, int modules, enum pz_saved_form form) {
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  double bytes = 0;
  for (uint32_t i = 0; i < layer->n_saved; i++) {
    bool recomputed = false;
    for (uint32_t k = 0; k < ops->n && !recomputed; k++) {
      const struct pz_op *op = &ops->op[k];
      recomputed = includes_storage(layer, op->out, op->n_out, layer->saved[i]) &&
                   pz_in_modules(layer, op, modules);
    }
    if (recomputed) bytes += saved_tensor_bytes(layer, i, form);
  }
  return bytes;
}

/* Returns whether a forward operator belongs to one of the modules whose inputs go to the host. */
static bool is_offloaded(const struct pz_layer *layer, const struct pz_op *op, int modules) {
  static const struct word_bits names[] = {{"attention_norm", PZ_AWAY_ATTENTION_NORM},
                                           {"qkv", PZ_AWAY_QKV},
                                           {"query", PZ_AWAY_QKV},
                                           {"kv_", PZ_AWAY_QKV},
                                           {"key", PZ_AWAY_QKV},
                                           {"value", PZ_AWAY_QKV},
                                           {"attention_out", PZ_AWAY_PROJECTION},
                                           {"mlp_norm", PZ_AWAY_MLP_NORM},
                                           {NULL, 0}};
  static const struct word_bits routed[] = {
      {"mlp_up", PZ_AWAY_EXPERT_UP | PZ_AWAY_EXPERTS},
      {"mlp_gate", PZ_AWAY_EXPERT_UP | PZ_AWAY_EXPERTS},
      {"mlp_act", PZ_AWAY_EXPERT_ACTIVATION | PZ_AWAY_EXPERTS},
      {"mlp_", PZ_AWAY_EXPERTS},
      {NULL, 0}};
  if (op->kind == PZ_OP_ATTENTION) return modules & PZ_AWAY_CORE;
  int module = find_bits(op->name, names);
  if (!module && layer->model_expert_params > 0) module = find_bits(op->name, routed);
  return modules & module;
}

/* Returns the bytes of saved inputs of `modules` that `recomputed` modules do not compute again. */
double pz_offloaded_bytes(const struct pz_layer *layer, int modules, int recomputed,
                          enum pz_saved_form form) {
  const struct pz_ops *ops = &layer->ops[PZ_FORWARD];
  double bytes = 0;
  for (uint32_t i = 0; i < layer->n_saved; i++) {
    uint32_t storage = layer->saved[i];
    bool offloaded = false, again = false;
    for (uint32_t k = 0; k < ops->n; k++) {
      const struct pz_op *op = &ops->op[k];
      bool writes = includes_storage(layer, op->out, op->n_out, storage);
      bool reads = includes_storage(layer, op->in, op->n_in, storage);
      again = again || (writes && pz_in_modules(layer, op, recomputed));
      offloaded = offloaded || (reads && is_offloaded(layer, op, modules));
    }
    if (offloaded && !again) bytes += saved_tensor_bytes(layer, i, form);
  }
  return bytes;
}
