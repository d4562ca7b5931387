#include "step/recompute.h"

#include <string.h>

#include "core/num.h"
#include "workload/passes.h"

/* ---- names ---------------------------------------------------------------------------------- */

static const int MINIMAL = PZ_SAVED_QKV | PZ_SAVED_OUT | PZ_SAVED_MLP_IN | PZ_SAVED_MLP_OUT;

/* Bits that a word, or what begins with it, stands for; a list ends with NULL. */
struct word {
  const char *word;
  int bits;
};

/* A set of words with gaps between them, up to `stop` (0: the end); false: an unknown word. */
static bool read_words(const char *text, const char *gaps, char stop, const struct word *known,
                       int *out) {
  int set = 0;
  for (text += strspn(text, gaps); *text && *text != stop; text += strspn(text, gaps)) {
    size_t n = strcspn(text, gaps), i = 0;
    while (known[i].word && (strlen(known[i].word) != n || memcmp(known[i].word, text, n) != 0))
      i++;
    if (!known[i].word) return false;
    set |= known[i].bits;
    text += n;
  }
  *out = set;
  return true;
}

/* Of the first word that the name begins with. */
static int bits_of(const char *name, const struct word *known) {
  while (known->word && strncmp(name, known->word, strlen(known->word)) != 0) known++;
  return known->bits;
}

bool pz_saved_parse(const char *policy, int *out) {
  static const struct word policies[] = {{"minimal", MINIMAL},
                                         {"minimal_with_context", MINIMAL | PZ_SAVED_CONTEXT},
                                         {"custom", PZ_SAVED_QKV | PZ_SAVED_HOST},
                                         {NULL, 0}};
  /* those without a GEMM are about the layer's input, which is always saved */
  static const struct word words[] = {{"q", PZ_SAVED_QKV},
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
                                      {"recomputed", 0},
                                      {NULL, 0}};
  static const char list[] = "custom:";
  for (const struct word *x = policies; x->word; x++)
    if (strcmp(x->word, policy) == 0) return *out = x->bits, true;
  return strncmp(policy, list, sizeof list - 1) == 0 &&
         read_words(policy + sizeof list - 1, " ", 0, words, out);
}

/* ---- operators ------------------------------------------------------------------------------ */

/* The bit of the GEMM that an operator is; 0: none of them. */
static int gemm_of(const struct pz_op *op) {
  static const struct word gemms[] = {
      {"qkv", PZ_SAVED_QKV},          {"query", PZ_SAVED_QKV},
      {"key", PZ_SAVED_QKV},          {"value", PZ_SAVED_QKV},
      {"context", PZ_SAVED_CONTEXT},  {"attention_out", PZ_SAVED_OUT},
      {"mlp_up", PZ_SAVED_MLP_IN},    {"mlp_gate", PZ_SAVED_MLP_IN},
      {"mlp_down", PZ_SAVED_MLP_OUT}, {NULL, 0}};
  if (op->kind == PZ_OP_ATTENTION) return PZ_SAVED_CONTEXT;
  bool gemm = op->op_class == PZ_CLASS_TENSOR || op->op_class == PZ_CLASS_FUSED;
  return gemm ? bits_of(op->name, gemms) : 0;
}

bool pz_recomputes_needed(const struct pz_plan *p) {
  return p->recompute == PZ_RECOMPUTATION_FULL &&
         (p->saved || pz_framework_compiles(pz_plan_framework(p)));
}

/* Backwards over the forward pass: an operator is recomputed if a result of it is needed, and then
 * what it reads is needed too. */
const bool *pz_recompute_ops(struct pz_call *call, const struct pz_layer *l, int saved) {
  bool *need = pz_alloc(call, l->n_tensors, sizeof *need);
  bool *recomputed = pz_alloc(call, l->ops[PZ_FORWARD].n, sizeof *recomputed);
  for (uint32_t i = 0; i < l->n_saved; i++) need[l->saved[i]] = true;
  for (uint32_t i = l->ops[PZ_FORWARD].n; i-- > 0;) {
    const struct pz_op *op = &l->ops[PZ_FORWARD].op[i];
    bool wanted = false;
    for (uint32_t o = 0; o < op->n_out; o++) wanted |= need[l->tensors[op->out[o]].storage];
    recomputed[i] = wanted && !(gemm_of(op) & saved);
    for (uint32_t k = 0; k < op->n_in && recomputed[i]; k++)
      need[l->tensors[op->in[k]].storage] = true;
  }
  return recomputed;
}

double pz_saved_bytes(const struct pz_layer *l, int saved) {
  double bytes = (double)l->output_bytes, sum = bytes;
  if (saved & PZ_SAVED_HOST) return 0;
  for (uint32_t i = 0; i < l->ops[PZ_FORWARD].n; i++) {
    const struct pz_op *op = &l->ops[PZ_FORWARD].op[i];
    const struct pz_tensor *t = op->n_out ? &l->tensors[op->out[0]] : NULL;
    if (!t || !(gemm_of(op) & saved)) continue;
    double result = (double)(t->elems * t->elem_bytes);
    /* a sum over the tensor-parallel group is saved when it is divided again */
    bool is_sum = gemm_of(op) & (PZ_SAVED_OUT | PZ_SAVED_MLP_OUT);
    sum += is_sum ? pz_fmin(result, bytes) : result;
  }
  return sum;
}

/* ---- modules -------------------------------------------------------------------------------- */

bool pz_modules_parse(const char *names, int *out) {
  static const struct word known[] = {{"layernorm", PZ_MODULE_NORM},
                                      {"norm", PZ_MODULE_NORM},
                                      {"moe_act", PZ_MODULE_ACTIVATION},
                                      {"act", PZ_MODULE_ACTIVATION},
                                      {"mla_up_proj", PZ_MODULE_UP},
                                      {"up_proj", PZ_MODULE_UP},
                                      {"mlp", PZ_MODULE_MLP},
                                      {"moe", PZ_MODULE_EXPERTS},
                                      {"shared_experts", PZ_MODULE_SHARED},
                                      {"core_attn", PZ_MODULE_CORE},
                                      {"dense", 0}, /* as in "dense mlp" */
                                      {NULL, 0}};
  int set;
  if (!read_words(names, " ,+", '(', known, &set)) return false; /* in brackets: a remark */
  *out = set;
  return set != 0;
}

bool pz_in_modules(const struct pz_layer *l, const struct pz_op *op, int modules) {
  static const struct word names[] = {{"attention_norm", PZ_MODULE_NORM},
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
  /* of the feed-forward layer, where no name above fits */
  static const struct word dense[] = {{"mlp_", PZ_MODULE_MLP}, {NULL, 0}};
  static const struct word routed[] = {{"mlp_act", PZ_MODULE_ACTIVATION | PZ_MODULE_EXPERTS},
                                       {"mlp_", PZ_MODULE_EXPERTS},
                                       {NULL, 0}};
  if (op->kind == PZ_OP_ATTENTION) return modules & PZ_MODULE_CORE;
  int module = bits_of(op->name, names);
  if (!module) module = bits_of(op->name, l->model_expert_params > 0 ? routed : dense);
  return modules & module;
}

/* What backward alone reads: the results of the modules' operators but for the last of each chain, which
 * others read. */
double pz_modules_bytes(const struct pz_layer *l, int modules, enum pz_saved_form form) {
  double bytes = 0;
  for (uint32_t i = 0; i < l->n_saved; i++) {
    const struct pz_tensor *t = &l->tensors[l->saved[i]];
    for (uint32_t k = 0; k < l->ops[PZ_FORWARD].n; k++) {
      const struct pz_op *op = &l->ops[PZ_FORWARD].op[k];
      bool makes = false;
      for (uint32_t o = 0; o < op->n_out; o++)
        makes = makes || l->tensors[op->out[o]].storage == l->saved[i];
      if (!makes || !pz_in_modules(l, op, modules)) continue;
      bytes += (double)(t->elems * t->elem_bytes - pz_saved_less(t, l->saved_by[i], form));
      break;
    }
  }
  return bytes;
}

/* ---- modules whose inputs go to the host ----------------------------------------------------- */

static bool is_offloaded(const struct pz_layer *l, const struct pz_op *op, int modules) {
  static const struct word names[] = {{"attention_norm", PZ_AWAY_ATTENTION_NORM},
                                      {"qkv", PZ_AWAY_QKV},
                                      {"query", PZ_AWAY_QKV},
                                      {"kv_", PZ_AWAY_QKV},
                                      {"key", PZ_AWAY_QKV},
                                      {"value", PZ_AWAY_QKV},
                                      {"attention_out", PZ_AWAY_PROJECTION},
                                      {"mlp_norm", PZ_AWAY_MLP_NORM},
                                      {NULL, 0}};
  static const struct word routed[] = {{"mlp_up", PZ_AWAY_EXPERT_UP | PZ_AWAY_EXPERTS},
                                       {"mlp_gate", PZ_AWAY_EXPERT_UP | PZ_AWAY_EXPERTS},
                                       {"mlp_act", PZ_AWAY_EXPERT_ACTIVATION | PZ_AWAY_EXPERTS},
                                       {"mlp_", PZ_AWAY_EXPERTS},
                                       {NULL, 0}};
  if (op->kind == PZ_OP_ATTENTION) return modules & PZ_AWAY_CORE;
  int module = bits_of(op->name, names);
  if (!module && l->model_expert_params > 0) module = bits_of(op->name, routed);
  return modules & module;
}

/* What operators of these modules read, but for what is recomputed. */
double pz_offloaded_bytes(const struct pz_layer *l, int modules, int recomputed,
                          enum pz_saved_form form) {
  double bytes = 0;
  for (uint32_t i = 0; i < l->n_saved; i++) {
    const struct pz_tensor *t = &l->tensors[l->saved[i]];
    bool away = false, again = false;
    for (uint32_t k = 0; k < l->ops[PZ_FORWARD].n; k++) {
      const struct pz_op *op = &l->ops[PZ_FORWARD].op[k];
      for (uint32_t o = 0; o < op->n_out; o++)
        again = again ||
                (l->tensors[op->out[o]].storage == l->saved[i] && pz_in_modules(l, op, recomputed));
      for (uint32_t n = 0; n < op->n_in; n++)
        away =
            away || (l->tensors[op->in[n]].storage == l->saved[i] && is_offloaded(l, op, modules));
    }
    if (away && !again)
      bytes += (double)(t->elems * t->elem_bytes - pz_saved_less(t, l->saved_by[i], form));
  }
  return bytes;
}
