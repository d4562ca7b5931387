/* Options of a workload: their defaults, the checks that hold for every model, and the text that
 * describes adapters (LoRA).
 *
 * Adapters are written "lora:RANK:MODULES[:DROPOUT]" (pz_lora_parse).  The modules are named as in
 * Megatron Core, whose linear layers may join several of other frameworks, or as in Hugging Face,
 * torchtune and torchtitan. */
#include "workload/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "workload/family.h"

const char *const pz_kernels_names[] = {"fused",     "eager",     "modules",
                                        "pointwise", "operators", NULL};
const char *const pz_attention_names[] = {"standard", "flash", NULL};
const char *const pz_recompute_names[] = {"none", "full", NULL};
const char *const pz_unknown_ops_names[] = {"refuse", "vector", NULL};
const char *const pz_context_names[] = {"ring", "all-to-all", NULL};

/* ---- adapters -------------------------------------------------------------------------------- */

/* Largest rank, and longest description, of adapters. */
enum { LORA_MOST_RANK = 1 << 16, LORA_MOST_BYTES = 400 };

/* Sets of adapter modules. */
enum {
  LORA_QKV = PZ_LORA_QUERY | PZ_LORA_KEY | PZ_LORA_VALUE,
  LORA_LATENT = PZ_LORA_QUERY_DOWN | PZ_LORA_QUERY_UP | PZ_LORA_KV_DOWN | PZ_LORA_KV_UP,
  LORA_ATTENTION = LORA_QKV | PZ_LORA_OUT | LORA_LATENT,
  LORA_MLP = PZ_LORA_GATE | PZ_LORA_UP | PZ_LORA_DOWN,
  LORA_ALL = LORA_ATTENTION | LORA_MLP | PZ_LORA_SSM_IN | PZ_LORA_SSM_OUT
};

/* Names of adapter modules: two collective names, the modules of Megatron Core, and those of
 * Hugging Face's, torchtune's and torchtitan's models. */
static const struct {
  const char *word;
  int modules;
} lora_words[] = {{"all", LORA_ALL | PZ_LORA_AS_FRAMEWORK},
                  {"attention", LORA_ATTENTION | PZ_LORA_AS_FRAMEWORK},
                  {"linear_qkv", LORA_QKV | PZ_LORA_SHARED},
                  {"linear_proj", PZ_LORA_OUT | PZ_LORA_SHARED},
                  {"linear_fc1", PZ_LORA_GATE | PZ_LORA_UP | PZ_LORA_SHARED},
                  {"linear_fc2", PZ_LORA_DOWN | PZ_LORA_SHARED},
                  {"linear_q_proj", PZ_LORA_QUERY},
                  {"linear_q_down_proj", PZ_LORA_QUERY_DOWN},
                  {"linear_q_up_proj", PZ_LORA_QUERY_UP},
                  {"linear_kv_down_proj", PZ_LORA_KV_DOWN},
                  {"linear_kv_up_proj", PZ_LORA_KV_UP},
                  {"in_proj", PZ_LORA_SSM_IN},
                  {"out_proj", PZ_LORA_SSM_OUT},
                  {"q", PZ_LORA_QUERY},
                  {"k", PZ_LORA_KEY},
                  {"v", PZ_LORA_VALUE},
                  {"o", PZ_LORA_OUT},
                  {"gate", PZ_LORA_GATE},
                  {"up", PZ_LORA_UP},
                  {"down", PZ_LORA_DOWN},
                  {"q_proj", PZ_LORA_QUERY},
                  {"k_proj", PZ_LORA_KEY},
                  {"v_proj", PZ_LORA_VALUE},
                  {"o_proj", PZ_LORA_OUT},
                  {"gate_proj", PZ_LORA_GATE},
                  {"up_proj", PZ_LORA_UP},
                  {"down_proj", PZ_LORA_DOWN}};

enum { N_LORA_WORDS = sizeof lora_words / sizeof *lora_words, N_COLLECTIVE_WORDS = 2 };

/* Returns name i of an adapter module, or NULL after the last one (a callback of pz_text_join). */
static const char *lora_word(const void *ctx, size_t i) {
  (void)ctx;
  return i < N_LORA_WORDS ? lora_words[i].word : NULL;
}

/* Returns the set of adapter modules in a list such as "q+k+v", which ends at `end`.  Refuses
 * unknown modules and lists that name a module twice. */
static int read_lora_modules(struct pz_call *call, const char *list, const char *end) {
  const char *word = list;
  int modules = 0;
  for (;;) {
    size_t length = strcspn(word, "+:"), i = 0;
    while (i < N_LORA_WORDS &&
           (strlen(lora_words[i].word) != length || memcmp(lora_words[i].word, word, length) != 0))
      i++;
    if (i == N_LORA_WORDS) {
      char words[600];
      pz_raise(call, PZ_BAD_USE, "peft has no module '%.*s'; accepted, with + between: %s",
               length < 60 ? (int)length : 60, word,
               pz_text_join(words, sizeof words, lora_word, NULL));
    }
    if (modules & lora_words[i].modules & LORA_ALL)
      pz_raise(call, PZ_BAD_USE, "peft names a layer again with '%s'; accepted: each once",
               lora_words[i].word);
    modules |= lora_words[i].modules;
    word += length;
    if (word == end) return modules;
    word++;
  }
}

/* Returns whether adapters belong to only some of the linear layers that Megatron Core joins:
 * query, key and value in one, gate and up in another one. */
bool pz_lora_divides(const struct pz_lora *lora) {
  static const int joint[] = {LORA_QKV, PZ_LORA_GATE | PZ_LORA_UP};
  for (size_t i = 0; i < sizeof joint / sizeof *joint; i++) {
    int adapted = lora->modules & joint[i];
    if (adapted && adapted != joint[i]) return true;
  }
  return false;
}

/* Writes the names of adapter modules into buf, such as "linear_qkv, linear_proj", and returns buf.
 * Megatron's names, which may stand for several modules, come first in the table. */
static char *spell_lora_modules(int modules, char *buf, size_t size) {
  size_t used = 0;
  *buf = '\0';
  for (size_t i = N_COLLECTIVE_WORDS; i < N_LORA_WORDS && used < size; i++) {
    int named = lora_words[i].modules & LORA_ALL;
    if ((modules & named) != named) continue;
    modules &= ~named;
    used += (size_t)snprintf(buf + used, size - used, "%s%s", used ? ", " : "", lora_words[i].word);
  }
  return buf;
}

/* Refuses adapters of layers that the model lacks.  "all" and "attention" stand for those modules
 * that it has, and linear_fc1 of a model without gates is the up projection alone. */
void pz_check_adapters(struct pz_call *call, const char *model, const struct pz_lora *lora,
                       int found) {
  int requested = lora->modules & LORA_ALL, missing = requested & ~found;
  bool is_collective = lora->modules & PZ_LORA_AS_FRAMEWORK; /* "all" or "attention" */
  if (!requested) return;
  bool requests_all = requested == LORA_ALL;
  if (is_collective && requested & found) missing &= requests_all ? 0 : ~LORA_ATTENTION;
  if (requested & found & PZ_LORA_UP) missing &= ~PZ_LORA_GATE;
  if (!missing) return;
  if (found & PZ_LORA_UP) found |= PZ_LORA_GATE; /* so that linear_fc1 is among the names */
  char missing_names[200], found_names[200];
  pz_raise(call, PZ_BAD_USE, "%s has no layers %s for adapters (peft); accepted: %s", model,
           spell_lora_modules(missing, missing_names, sizeof missing_names),
           spell_lora_modules(found, found_names, sizeof found_names));
}

/* Parses the description of adapters ("lora:RANK:MODULES[:DROPOUT]", or "none").  It has no blanks,
 * because launch scripts contain it unquoted. */
static struct pz_lora read_lora(struct pz_call *call, const char *text) {
  struct pz_lora lora = {.rank = 0};
  if (!text || !*text || strcmp(text, "none") == 0) return lora;
  static const char prefix[] = "lora:";
  const size_t prefix_length = sizeof prefix - 1;
  const char *modules = NULL, *modules_end = NULL;
  char *end = NULL;
  bool valid = strncmp(text, prefix, prefix_length) == 0 && strlen(text) <= LORA_MOST_BYTES &&
               !strpbrk(text, " \t\n\v\f\r");
  if (valid) {
    lora.rank = strtoll(text + prefix_length, &end, 10);
    valid = lora.rank >= 1 && lora.rank <= LORA_MOST_RANK && *end == ':';
  }
  if (valid) {
    modules = end + 1;
    modules_end = modules + strcspn(modules, ":");
  }
  if (valid && *modules_end) {
    const char *dropout = modules_end + 1;
    lora.dropout = strtod(dropout, &end);
    valid = end > dropout && !*end && lora.dropout >= 0 && lora.dropout < 1;
  }
  if (!valid)
    pz_raise(call, PZ_BAD_USE,
             "peft is '%.60s'; accepted: none, or lora:RANK:MODULES or "
             "lora:RANK:MODULES:DROPOUT with a rank from 1 to %d and a dropout below 1",
             text, LORA_MOST_RANK);
  lora.modules = read_lora_modules(call, modules, modules_end);
  return lora;
}

/* Arguments of pz_lora_parse(). */
struct lora_arguments {
  const char *text;
  struct pz_lora *out;
};

/* Parses adapters inside of a protected call (a callback of pz_border). */
static void parse_lora(struct pz_call *call, void *ctx) {
  const struct lora_arguments *args = ctx;
  *args->out = read_lora(call, args->text);
}

enum pz_status pz_lora_parse(const char *text, struct pz_lora *out, struct pz_error *err) {
  struct lora_arguments args = {text, out};
  return pz_border(parse_lora, &args, err);
}

/* ---- options --------------------------------------------------------------------------------- */

struct pz_workload_options pz_workload_options_default(void) {
  return (struct pz_workload_options){
      .size = sizeof(struct pz_workload_options), .mbs = 1, .tp = 1, .dropout = -1};
}

/* Copies the options of a caller over their defaults, and parses the description of adapters. */
void pz_copy_workload_options(struct pz_call *call, struct pz_workload_options *copy,
                              const struct pz_workload_options *given) {
  *copy = pz_workload_options_default();
  pz_require_options(call, copy, sizeof *copy, given, "pz_workload_options_default");
  if (copy->peft) copy->lora = read_lora(call, copy->peft);
}

/* Raises an error for values that no model accepts. */
void pz_check_workload_options(struct pz_call *call, const struct pz_workload_options *options,
                               int64_t least) {
  pz_require_range(call, "sequence length", options->seq, least, 1 << 24);
  pz_require_range(call, "microbatch size", options->mbs, 1, 1 << 20);
  pz_require_range(call, "tensor-parallel degree", options->tp, 1, 65536);
  pz_require_range(call, "context-parallel degree", options->cp, 0, 65536);
  pz_require_range(call, "cp_form", (int64_t)options->cp_form, 0, PZ_CONTEXT_ALL_TO_ALL);
  pz_require_range(call, "expert-parallel degree", options->ep, 0, 65536);
  pz_require_range(call, "expert-tensor-parallel degree", options->etp, 0, 65536);
  bool has_even_load = options->imbalance == 0;
  if (!has_even_load && !(options->imbalance >= 1 && options->imbalance <= 1e6))
    pz_raise(call, PZ_BAD_USE, "imbalance %g; accepted: 1 to 1e6", options->imbalance);
  pz_require_range(call, "slice", options->slice, 0, options->tp - 1);
  pz_require_range(call, "number of layers", options->num_layers, least, PZ_RANGE_LAYERS.max);
  pz_require_range(call, "vocab_multiple", options->vocab_multiple, 0, INT64_C(1) << 31);
  pz_require_range(call, "kernels", (int64_t)options->kernels, 0, PZ_KERNELS_OPERATORS);
  pz_require_range(call, "attention", (int64_t)options->attention, 0, PZ_ATTENTION_FLASH);
  pz_require_range(call, "recompute", (int64_t)options->recompute, 0, PZ_RECOMPUTE_FULL);
  pz_require_range(call, "unknown_ops", (int64_t)options->unknown_ops, 0, PZ_UNKNOWN_VECTOR);
  pz_require_range(call, "rank of adapters", options->lora.rank, 0, LORA_MOST_RANK);
  if (options->lora.rank > 0 && options->lora.rank % options->tp)
    pz_raise(call, PZ_BAD_USE,
             "adapters of rank %lld over %lld devices; accepted: a tensor-parallel degree that "
             "divides the rank",
             (long long)options->lora.rank, (long long)options->tp);
}
