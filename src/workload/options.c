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

/* ---- adapters ------------------------------------------------------------------------------- */

enum { LORA_MOST_RANK = 1 << 16, LORA_MOST_BYTES = 400 };

enum {
  LORA_QKV = PZ_LORA_QUERY | PZ_LORA_KEY | PZ_LORA_VALUE,
  LORA_LATENT = PZ_LORA_QUERY_DOWN | PZ_LORA_QUERY_UP | PZ_LORA_KV_DOWN | PZ_LORA_KV_UP,
  LORA_ATTENTION = LORA_QKV | PZ_LORA_OUT | LORA_LATENT,
  LORA_MLP = PZ_LORA_GATE | PZ_LORA_UP | PZ_LORA_DOWN,
  LORA_ALL = LORA_ATTENTION | LORA_MLP | PZ_LORA_SSM_IN | PZ_LORA_SSM_OUT
};

/* Names of Megatron Core's modules, then those of Hugging Face's, torchtune's and torchtitan's models. */
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

static const char *lora_word(const void *ctx, size_t i) {
  (void)ctx;
  return i < sizeof lora_words / sizeof *lora_words ? lora_words[i].word : NULL;
}

static enum pz_status lora_modules(const char *at, const char *end, int *out,
                                   struct pz_error *err) {
  char words[600];
  for (*out = 0;; at++) {
    size_t n = strcspn(at, "+:"), i = 0;
    while (lora_word(NULL, i) &&
           (strlen(lora_words[i].word) != n || memcmp(lora_words[i].word, at, n) != 0))
      i++;
    if (!lora_word(NULL, i))
      return pz_fail(err, PZ_BAD_USE, "peft has no module '%.*s'; accepted, with + between: %s",
                     n < 60 ? (int)n : 60, at, pz_text_join(words, sizeof words, lora_word, NULL));
    if (*out & lora_words[i].modules & LORA_ALL)
      return pz_fail(err, PZ_BAD_USE, "peft names a layer again with '%s'; accepted: each once",
                     lora_words[i].word);
    *out |= lora_words[i].modules;
    at += n;
    if (at == end) return PZ_OK;
  }
}

bool pz_lora_divides(const struct pz_lora *lora) {
  static const int joint[] = {LORA_QKV, PZ_LORA_GATE | PZ_LORA_UP};
  for (size_t i = 0; i < sizeof joint / sizeof *joint; i++)
    if (lora->modules & joint[i] && (lora->modules & joint[i]) != joint[i]) return true;
  return false;
}

/* "linear_qkv, linear_proj": Megatron's name of those that have one, into buf.  Returns buf. */
static char *lora_names(int modules, char *buf, size_t size) {
  size_t at = 0;
  *buf = '\0';
  for (size_t i = 2; lora_word(NULL, i) && at < size; i++) { /* all and attention are before */
    int own = lora_words[i].modules & LORA_ALL;
    if ((modules & own) != own) continue;
    modules &= ~own;
    at += (size_t)snprintf(buf + at, size - at, "%s%s", at ? ", " : "", lora_words[i].word);
  }
  return buf;
}

/* `all` and `attention` are what the model has of them. */
enum pz_status pz_lora_check(const char *model, const struct pz_lora *lora, int found,
                             struct pz_error *err) {
  char names[200], had[200];
  int asked = lora->modules & LORA_ALL, missing = asked & ~found;
  if (!asked) return PZ_OK;
  if (lora->modules & PZ_LORA_AS_FRAMEWORK && asked & found)
    missing &= asked == LORA_ALL ? 0 : ~LORA_ATTENTION;
  if (asked & found & PZ_LORA_UP) missing &= ~PZ_LORA_GATE; /* linear_fc1 without a gate */
  if (!missing) return PZ_OK;
  if (found & PZ_LORA_UP) found |= PZ_LORA_GATE;
  return pz_fail(err, PZ_BAD_USE, "%s has no layers %s for adapters (peft); accepted: %s", model,
                 lora_names(missing, names, sizeof names), lora_names(found, had, sizeof had));
}

enum pz_status pz_lora_parse(const char *text, struct pz_lora *out, struct pz_error *err) {
  *out = (struct pz_lora){.rank = 0};
  if (!text || !*text || strcmp(text, "none") == 0) return PZ_OK;
  char *at = NULL;
  /* without spaces: launch scripts have it as it is */
  bool word = strncmp(text, "lora:", 5) == 0 && strlen(text) <= LORA_MOST_BYTES &&
              !strpbrk(text, " \t\n\v\f\r");
  long long rank = word ? strtoll(text + 5, &at, 10) : 0;
  bool ok = rank >= 1 && rank <= LORA_MOST_RANK && *at == ':';
  const char *end = ok ? at + 1 + strcspn(at + 1, ":") : NULL;
  double dropout = ok && *end ? strtod(end + 1, &at) : 0;
  ok = ok && (!*end || (at > end + 1 && !*at && dropout >= 0 && dropout < 1));
  if (!ok)
    return pz_fail(err, PZ_BAD_USE,
                   "peft is '%.60s'; accepted: none, or lora:RANK:MODULES or "
                   "lora:RANK:MODULES:DROPOUT with a rank from 1 to %d and a dropout below 1",
                   text, LORA_MOST_RANK);
  *out = (struct pz_lora){.rank = rank, .dropout = dropout};
  return lora_modules(strchr(text + 5, ':') + 1, end, &out->modules, err);
}

struct pz_workload_options pz_workload_options_default(void) {
  return (struct pz_workload_options){
      .size = sizeof(struct pz_workload_options), .mbs = 1, .tp = 1, .dropout = -1};
}

enum pz_status pz_workload_options_take(const struct pz_workload_options *caller,
                                        struct pz_workload_options *out, struct pz_error *err) {
  *out = pz_workload_options_default();
  enum pz_status status =
      pz_sized_take(out, sizeof *out, caller, "pz_workload_options_default", err);
  return status == PZ_OK && out->peft ? pz_lora_parse(out->peft, &out->lora, err) : status;
}

enum pz_status pz_workload_options_check(const struct pz_workload_options *o, int64_t least,
                                         struct pz_error *err) {
  enum pz_status s = pz_need_range("sequence length", o->seq, least, 1 << 24, err);
  if (s == PZ_OK) s = pz_need_range("microbatch size", o->mbs, 1, 1 << 20, err);
  if (s == PZ_OK) s = pz_need_range("tensor-parallel degree", o->tp, 1, 65536, err);
  if (s == PZ_OK) s = pz_need_range("context-parallel degree", o->cp, 0, 65536, err);
  if (s == PZ_OK) s = pz_need_range("cp_form", (int64_t)o->cp_form, 0, PZ_CONTEXT_ALL_TO_ALL, err);
  if (s == PZ_OK) s = pz_need_range("expert-parallel degree", o->ep, 0, 65536, err);
  if (s == PZ_OK) s = pz_need_range("expert-tensor-parallel degree", o->etp, 0, 65536, err);
  if (s == PZ_OK && !(o->imbalance == 0 || (o->imbalance >= 1 && o->imbalance <= 1e6)))
    s = pz_fail(err, PZ_BAD_USE, "imbalance %g; accepted: 1 to 1e6", o->imbalance);
  if (s == PZ_OK) s = pz_need_range("slice", o->slice, 0, o->tp - 1, err);
  if (s == PZ_OK)
    s = pz_need_range("number of layers", o->num_layers, least, PZ_RANGE_LAYERS.max, err);
  if (s == PZ_OK) s = pz_need_range("vocab_multiple", o->vocab_multiple, 0, INT64_C(1) << 31, err);
  if (s == PZ_OK) s = pz_need_range("kernels", (int64_t)o->kernels, 0, PZ_KERNELS_OPERATORS, err);
  if (s == PZ_OK) s = pz_need_range("attention", (int64_t)o->attention, 0, PZ_ATTENTION_FLASH, err);
  if (s == PZ_OK) s = pz_need_range("recompute", (int64_t)o->recompute, 0, PZ_RECOMPUTE_FULL, err);
  if (s == PZ_OK)
    s = pz_need_range("unknown_ops", (int64_t)o->unknown_ops, 0, PZ_UNKNOWN_VECTOR, err);
  if (s == PZ_OK) s = pz_need_range("rank of adapters", o->lora.rank, 0, LORA_MOST_RANK, err);
  if (s == PZ_OK && o->lora.rank > 0 && o->lora.rank % o->tp)
    return pz_fail(
        err, PZ_BAD_USE,
        "adapters of rank %lld over %lld devices; accepted: a tensor-parallel degree that "
        "divides the rank",
        (long long)o->lora.rank, (long long)o->tp);
  return s;
}
