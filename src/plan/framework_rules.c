#include "plan/framework_rules.h"

#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "workload/workload.h"

/* Frameworks as a set; ANY: those too of which nothing else is known. */
enum { CORE = 1, TITAN = 2, DEEPSPEED = 4, MAXTEXT = 8, AUTOMODEL = 16, OTHERS = 32, ANY = 63 };

static unsigned framework_bit(const struct pz_framework *f) {
  return f->rules ? (unsigned)f->rules : OTHERS;
}

/* ---- words of the rules --------------------------------------------------------------------- */

static const int of_experts = PZ_MODULE_ACTIVATION | PZ_MODULE_EXPERTS | PZ_MODULE_SHARED;

#define overlaps(what) (p->overlap & (int)PZ_OVERLAP_##what)
#define uses_library(name) (p->attention_library && strcmp(p->attention_library, name) == 0)

/* Numbers for each stage that come to one number for all? */
static bool recomputed_alike(const struct pz_plan *p, const struct pz_model_shape *m) {
  struct pz_plan alike = *p;
  return m->layers && pz_plan_unify_recompute(&alike, m->layers);
}

/* Are only some layers of a chunk recomputed? */
static bool some_layers(const struct pz_plan *p, const struct pz_model_shape *m) {
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(p);
  if (!p->recompute_layers && !p->stage_recompute) return false;
  if (!m->layers) return true;
  for (int64_t j = 0; j < p->pp * p->vpp; j++) {
    int64_t n = pz_plan_chunk_layers(p, m->layers, j);
    if (pz_plan_recomputed_layers(p, pz_pipeline_stage_of(&shape, (uint32_t)j), n) < n) return true;
  }
  return false;
}

static bool divides_joint_layers(const struct pz_plan *p) {
  struct pz_lora lora;
  return pz_lora_parse(p->peft, &lora, NULL) == PZ_OK && pz_lora_divides(&lora);
}

static int64_t rank_of_adapters(const struct pz_plan *p) {
  struct pz_lora lora;
  return pz_lora_parse(p->peft, &lora, NULL) == PZ_OK ? lora.rank : 0;
}

static bool adapts_feed_forward(const struct pz_plan *p) {
  struct pz_lora lora;
  return pz_lora_parse(p->peft, &lora, NULL) == PZ_OK &&
         lora.modules & (PZ_LORA_GATE | PZ_LORA_UP | PZ_LORA_DOWN);
}

/* Do activations go to the host layer by layer, not module by module? */
static bool whole_layers_away(const struct pz_plan *p) {
  return p->offload & PZ_OFFLOAD_ACTIVATIONS && !p->offload_modules;
}

/* ---- the table ------------------------------------------------------------------------------ */

struct rule {
  const char *name;
  unsigned frameworks;
  bool (*refuses)(const struct pz_plan *p, const struct pz_model_shape *m,
                  const struct pz_framework *f);
  const char *has, *source;
  int drops, adds; /* overlap */
  enum pz_recompute_form form;
  enum pz_rule_group looks;
  bool divides; /* ... at the division of layers */
};

#define RULE(called, whom, when, ...)                                                              \
  static bool called(const struct pz_plan *p, const struct pz_model_shape *m,                      \
                     const struct pz_framework *f) {                                               \
    (void)p, (void)m, (void)f;                                                                     \
    return when;                                                                                   \
  }
#include "plan/framework_rules.def"
#undef RULE

#define SHARDS PZ_RULE_SHARDS
#define RECOMPUTES PZ_RULE_RECOMPUTES

static const struct rule rules[] = {
#define RULE(called, whom, when, ...)                                                              \
  {.name = #called, .frameworks = whom, .refuses = called, .has = __VA_ARGS__},
#include "plan/framework_rules.def"
#undef RULE
};
enum { RULES = sizeof rules / sizeof *rules };

static const struct pz_model_shape unknown_model = {.family = PZ_SHAPE_OTHER};

struct pz_rule_list pz_rule_list_of(int framework) {
  struct pz_rule_list list = {.framework = framework};
  unsigned bit = framework_bit(pz_framework_at(framework));
  _Static_assert(sizeof rules / sizeof *rules <= PZ_RULES_MOST, "a list holds all rules");
  for (int g = 0; g < PZ_RULE_GROUPS; g++) {
    for (int i = 0; i < RULES; i++)
      if (rules[i].frameworks & bit && (int)rules[i].looks == g) list.rule[list.n++] = (uint8_t)i;
    list.end[g] = list.n;
  }
  for (int i = 0; i < RULES; i++) {
    if (!(rules[i].frameworks & bit)) continue;
    list.divides |= rules[i].divides;
    if (rules[i].drops || rules[i].adds) list.overlap[list.n_overlap++] = (uint8_t)i;
  }
  return list;
}

static bool can_between(const struct pz_rule_list *list, int first, int end,
                        const struct pz_plan *p, const struct pz_model_shape *m,
                        struct pz_error *why) {
  const struct pz_framework *f = pz_framework_at(list->framework);
  if (!m) m = &unknown_model;
  for (int i = first; i < end; i++) {
    const struct rule *r = &rules[list->rule[i]];
    if (!r->refuses(p, m, f)) continue;
    if (why)
      (void)!pz_fail(why, PZ_BAD_USE, "%s cannot run this plan: it has %s (%s)", f->name, r->has,
                     r->source);
    return false;
  }
  return true;
}

bool pz_rule_list_allows(const struct pz_rule_list *list, const struct pz_plan *p,
                         const struct pz_model_shape *m, struct pz_error *why) {
  return can_between(list, 0, list->n, p, m, why);
}

bool pz_rule_group_allows(const struct pz_rule_list *list, enum pz_rule_group g,
                          const struct pz_plan *p, const struct pz_model_shape *m) {
  return can_between(list, g ? list->end[g - 1] : 0, list->end[g], p, m, NULL);
}

int pz_rule_list_overlap(const struct pz_rule_list *list, struct pz_plan *p,
                         const struct pz_model_shape *m) {
  const struct pz_framework *f = pz_framework_at(list->framework);
  if (!m) m = &unknown_model;
  for (int i = 0; i < list->n_overlap; i++) {
    const struct rule *r = &rules[list->overlap[i]];
    if (r->refuses(p, m, f)) p->overlap = (p->overlap & ~r->drops) | r->adds;
  }
  return p->overlap;
}

bool pz_framework_can_run(const struct pz_plan *p, const struct pz_model_shape *m,
                          struct pz_error *why) {
  struct pz_rule_list list = pz_rule_list_of(p->framework);
  return pz_rule_list_allows(&list, p, m, why);
}

int pz_framework_overlap(const struct pz_plan *p, const struct pz_model_shape *m) {
  struct pz_rule_list list = pz_rule_list_of(p->framework);
  struct pz_plan x = *p;
  return pz_rule_list_overlap(&list, &x, m);
}

/* Chips that Transformer Engine, DeepEP and HybridEP have kernels for. */
static bool has_engine(const struct pz_chip *c) {
  static const char *const lines[] = {"a100", "hopper", "blackwell"};
  bool has = false;
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    has |= strcmp(pz_chip_line(c->name), lines[i]) == 0;
  return has;
}

/* Megatron Bridge: training/flex_dispatcher_backend.py, and its recipes, which have HybridEP on Blackwell alone. */
unsigned pz_framework_dispatchers(int framework, const struct pz_chip *c, int without) {
  const struct pz_framework *f = pz_framework_at(framework);
  bool blackwell = strcmp(pz_chip_line(c->name), "blackwell") == 0;
  bool domain = strncmp(c->name, "gb", 2) == 0;
  if (framework_bit(f) != CORE) return 1U << f->dispatcher;
  unsigned set = 1U << PZ_DISPATCHER_ALLTOALL;
  if (has_engine(c) && !domain && !(without & PZ_SOFTWARE_DEEPEP))
    set |= 1U << PZ_DISPATCHER_DEEPEP;
  if (blackwell && !(without & PZ_SOFTWARE_HYBRIDEP)) set |= 1U << PZ_DISPATCHER_HYBRIDEP;
  return set;
}

int pz_framework_graph_modules(int framework, const struct pz_chip *c,
                               const struct pz_model_shape *m, int without) {
  bool can = framework_bit(pz_framework_at(framework)) == CORE && has_engine(c);
  if (!can || without & (PZ_SOFTWARE_TE | PZ_SOFTWARE_GRAPHS)) return 0;
  return PZ_GRAPH_ATTENTION | (m->recurrence.heads ? PZ_GRAPH_MAMBA : 0) |
         (m->experts ? PZ_GRAPH_ROUTER | PZ_GRAPH_PREPARATION : PZ_GRAPH_MLP);
}

int pz_framework_overlaps(int framework, int without) {
  const struct pz_framework *f = pz_framework_at(framework);
  bool engine = framework_bit(f) != CORE || !(without & PZ_SOFTWARE_TE);
  if (!f->rules) return f->plan.overlap | f->free_overlap;
  return engine ? PZ_OVERLAP_ALL : PZ_OVERLAP_ALL & ~PZ_OVERLAP_TP;
}

enum pz_recompute_form pz_framework_recompute_form(const struct pz_plan *p) {
  const struct pz_framework *f = pz_plan_framework(p);
  unsigned bit = framework_bit(f);
  struct pz_plan some = *p;
  enum pz_recompute_form form = PZ_RECOMPUTE_BY_STAGE;
  some.recompute = PZ_RECOMPUTATION_FULL;
  some.recompute_layers = 1;
  some.stage_recompute = NULL;
  for (int i = 0; i < RULES; i++) {
    const struct rule *r = &rules[i];
    if (!(r->frameworks & bit) || r->form <= form) continue;
    /* of an unknown model one layer is some of them: of chunks of one layer it is all, and no number to choose either */
    if (r->form == PZ_RECOMPUTE_ALIKE || r->refuses(&some, &unknown_model, f)) form = r->form;
  }
  return form;
}

/* ---- models --------------------------------------------------------------------------------- */

static bool has_no(int framework, const struct pz_model_shape *m, const char *accepted,
                   struct pz_error *why) {
  if (why)
    (void)!pz_fail(why, PZ_BAD_USE, "%s has no model of the shape of %s (%s); accepted: %s",
                   pz_framework_names[framework], m->name, pz_shape_family_names[m->family],
                   accepted);
  return false;
}

/* Rotary positions that a framework cannot be told to stretch: NULL, or what it can. */
static const char *refused_rope(unsigned bit, const struct pz_model_shape *m) {
  bool yarn = m->rope == PZ_ROPE_YARN, llama3 = m->rope == PZ_ROPE_LLAMA3;
  if (m->rope == PZ_ROPE_PLAIN || !(bit & (CORE | TITAN | DEEPSPEED))) return NULL;
  if (bit == DEEPSPEED) return "rotary positions that are not stretched (no rope_scaling)";
  if (bit == TITAN && m->family == PZ_SHAPE_QWEN3) return "no rope_scaling in models of qwen3";
  if (m->kv_rank ? !yarn : !llama3)
    return m->kv_rank ? "rope_scaling of yarn, with latent attention"
                      : "rope_scaling of llama3, without latent attention";
  if (bit == CORE && llama3 &&
      (m->rope_low != 1 || m->rope_high != 4 || m->rope_original != 8192)) /* RotaryEmbedding */
    return "rope_scaling with low_freq_factor 1, high_freq_factor 4 and 8192 original positions";
  if (bit == CORE && yarn && /* MLATransformerConfig: no arguments */
      (m->rope_fast != 32 || m->rope_slow != 1 || m->rope_original != 4096))
    return "rope_scaling with beta_fast 32, beta_slow 1 and 4096 original positions";
  if (bit == TITAN && yarn && m->rope_mscale != m->rope_mscale_all)
    return "rope_scaling whose mscale and mscale_all_dim are equal";
  return NULL;
}

bool pz_framework_trains(int framework, const struct pz_model_shape *m, struct pz_error *why) {
  unsigned bit = framework_bit(pz_framework_at(framework));
  bool llama = m->family == PZ_SHAPE_LLAMA;
  /* of other families nothing is known: predictions alone, where the framework may have them */
  if (m->family == PZ_SHAPE_OTHER && !(bit & (TITAN | DEEPSPEED))) return true;
  if (m->family == PZ_SHAPE_OTHER && bit == TITAN)
    return has_no(framework, m, "llama, qwen3, deepseek_v3", why);
  if (bit == TITAN && (m->family == PZ_SHAPE_GPT2 || m->family == PZ_SHAPE_MIXTRAL ||
                       m->family == PZ_SHAPE_NEMOTRON_H || m->family == PZ_SHAPE_QWEN3_NEXT))
    return has_no(framework, m, "llama, qwen3, deepseek_v3", why);
  if (bit == TITAN && m->qkv_bias) return has_no(framework, m, "models without biases", why);
  if (bit == TITAN && llama && m->tied)
    return has_no(framework, m, "embedding and head that are not tied", why);
  if (bit == TITAN && llama && m->head_dim * m->heads != m->hidden)
    return has_no(framework, m, "heads of hidden / heads", why);
  if (bit == DEEPSPEED && m->family != PZ_SHAPE_GPT2 && !llama)
    return has_no(framework, m, "gpt2, llama", why);
  if (bit == DEEPSPEED && m->qkv_bias && !m->bias)
    return has_no(framework, m, "biases in all linear layers or in none", why);
  if (bit & (CORE | DEEPSPEED) && m->rotary_base != (double)(int64_t)m->rotary_base)
    return has_no(framework, m, "a rotary base that is a whole number", why);
  const char *rope = refused_rope(bit, m);
  return rope ? has_no(framework, m, rope, why) : true;
}
