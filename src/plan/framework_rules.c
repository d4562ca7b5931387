/* The rules of training frameworks (framework_rules.h).
 *
 * framework_rules.def has one row for each rule.  It is included twice: first each row becomes a
 * function that tells whether the rule refuses a plan, then a row of rules[].  A rule list has the
 * numbers of the rules of one framework, ordered by group, so that a search asks only the rules
 * whose fields have changed.  pz_framework_trains() refuses models that a framework does not have,
 * or whose launch script cannot be written. */
#include "plan/framework_rules.h"

#include <string.h>

#include "core/num.h"
#include "core/text.h"
#include "workload/workload.h"

/* Sets of frameworks by their rules.  OTHERS are frameworks about which nothing else is known. */
enum { CORE = 1, TITAN = 2, DEEPSPEED = 4, MAXTEXT = 8, AUTOMODEL = 16, OTHERS = 32, ANY = 63 };

/* Returns the framework's member of the sets CORE, TITAN, and so on. */
static unsigned framework_bit(const struct pz_framework *framework) {
  return framework->rules ? (unsigned)framework->rules : OTHERS;
}

static const int expert_modules = PZ_MODULE_ACTIVATION | PZ_MODULE_EXPERTS | PZ_MODULE_SHARED;

#define overlaps(what) (plan->overlap & (int)PZ_OVERLAP_##what)
#define uses_library(name) (plan->attention_library && strcmp(plan->attention_library, name) == 0)

/* Returns whether one number of recomputed layers, the same for all stages, recomputes the same
 * layers as the stage_recompute of a plan. */
static bool recomputes_alike(const struct pz_plan *plan, const struct pz_model_shape *model) {
  struct pz_plan unified = *plan;
  return model->layers && pz_plan_unify_recompute(&unified, model->layers);
}

/* Returns whether some chunk of the pipeline recomputes only a part of its layers.  For a model of
 * unknown size this is assumed if the plan states a number of recomputed layers. */
static bool recomputes_some_layers(const struct pz_plan *plan, const struct pz_model_shape *model) {
  struct pz_pipeline_shape shape = pz_plan_pipeline_shape(plan);
  if (!plan->recompute_layers && !plan->stage_recompute) return false;
  if (!model->layers) return true;
  for (int64_t chunk = 0; chunk < plan->pp * plan->vpp; chunk++) {
    int64_t layers = pz_plan_chunk_layers(plan, model->layers, chunk);
    int64_t stage = pz_pipeline_stage_of(&shape, (uint32_t)chunk);
    if (pz_plan_recomputed_layers(plan, stage, layers) < layers) return true;
  }
  return false;
}

/* Returns the low-rank adapters of a plan.  Their rank is 0 if the plan has none. */
static struct pz_lora adapters_of(const struct pz_plan *plan) {
  struct pz_lora lora;
  bool has_adapters = pz_lora_parse(plan->peft, &lora, NULL) == PZ_OK;
  return has_adapters ? lora : (struct pz_lora){.rank = 0};
}

/* Returns whether adapters are on a part of a linear layer that Megatron Core joins from several,
 * such as query without key and value. */
static bool adapts_part_of_joint_layers(const struct pz_plan *plan) {
  struct pz_lora lora = adapters_of(plan);
  return pz_lora_divides(&lora);
}

/* Returns whether activations are offloaded layer by layer, and not module by module. */
static bool offloads_whole_layers(const struct pz_plan *plan) {
  return plan->offload & PZ_OFFLOAD_ACTIVATIONS && !plan->offload_modules;
}

struct rule {
  const char *name;
  unsigned frameworks; /* a set of CORE, TITAN, ... */
  bool (*refuses)(const struct pz_plan *plan, const struct pz_model_shape *model,
                  const struct pz_framework *framework);
  const char *message; /* what the framework supports instead, and which plans it accepts */
  const char *source;  /* the place in the framework's code or documents that states the rule */
  int drops, adds; /* overlaps that pz_framework_overlap() removes or adds where the rule refuses */
  enum pz_recompute_form form; /* how layers can be recomputed where the rule applies */
  enum pz_rule_group group;    /* the fields on which the rule depends */
  bool depends_on_division;    /* the rule depends on the division of layers among chunks */
};

/* First pass: a function for each rule. */
#define RULE(called, whom, when, ...)                                                              \
  static bool called(const struct pz_plan *plan, const struct pz_model_shape *model,               \
                     const struct pz_framework *framework) {                                       \
    (void)plan, (void)model, (void)framework;                                                      \
    return when;                                                                                   \
  }
#include "plan/framework_rules.def"
#undef RULE

#define SHARDS PZ_RULE_SHARDS
#define RECOMPUTES PZ_RULE_RECOMPUTES

/* Second pass: the table. */
static const struct rule rules[] = {
#define RULE(called, whom, when, ...)                                                              \
  {.name = #called, .frameworks = whom, .refuses = called, .message = __VA_ARGS__},
#include "plan/framework_rules.def"
#undef RULE
};
enum { RULES = sizeof rules / sizeof *rules };

static const struct pz_model_shape unknown_model = {.family = PZ_SHAPE_OTHER};

/* Returns the rules of a framework, sorted by group, and those of them that change the overlap. */
struct pz_rule_list pz_rule_list_of(int framework) {
  struct pz_rule_list list = {.framework = framework};
  unsigned bit = framework_bit(pz_framework_at(framework));
  _Static_assert(sizeof rules / sizeof *rules <= PZ_RULES_MOST, "a list holds all rules");
  for (int group = 0; group < PZ_RULE_GROUPS; group++) {
    for (int i = 0; i < RULES; i++)
      if (rules[i].frameworks & bit && (int)rules[i].group == group)
        list.rule[list.n++] = (uint8_t)i;
    list.end[group] = list.n;
  }
  for (int i = 0; i < RULES; i++) {
    if (!(rules[i].frameworks & bit)) continue;
    list.depends_on_division |= rules[i].depends_on_division;
    if (rules[i].drops || rules[i].adds) list.overlap[list.n_overlap++] = (uint8_t)i;
  }
  return list;
}

/* Returns whether the rules of one group (PZ_RULE_GROUPS stands for all groups) allow the plan.  If
 * not, stores the reason in *why unless it is NULL.  The list is sorted by group, and list->end has
 * the position after each group. */
bool pz_rules_allow(const struct pz_rule_list *list, enum pz_rule_group group,
                    const struct pz_plan *plan, const struct pz_model_shape *model,
                    struct pz_error *why) {
  const struct pz_framework *framework = pz_framework_at(list->framework);
  bool is_all = group == PZ_RULE_GROUPS;
  int first = is_all || group == 0 ? 0 : list->end[group - 1],
      end = is_all ? list->n : list->end[group];
  if (!model) model = &unknown_model;
  for (int i = first; i < end; i++) {
    const struct rule *rule = &rules[list->rule[i]];
    if (!rule->refuses(plan, model, framework)) continue;
    if (why)
      (void)!pz_fail(why, PZ_BAD_USE, "%s cannot run this plan: it has %s (%s)", framework->name,
                     rule->message, rule->source);
    return false;
  }
  return true;
}

/* Adapts the overlap of a plan to its framework, and returns it.  Each rule of the list that refuses the
 * plan drops overlaps that the framework does not support, or adds those that it always has. */
int pz_rule_list_overlap(const struct pz_rule_list *list, struct pz_plan *plan,
                         const struct pz_model_shape *model) {
  const struct pz_framework *framework = pz_framework_at(list->framework);
  if (!model) model = &unknown_model;
  for (int i = 0; i < list->n_overlap; i++) {
    const struct rule *rule = &rules[list->overlap[i]];
    if (rule->refuses(plan, model, framework))
      plan->overlap = (plan->overlap & ~rule->drops) | rule->adds;
  }
  return plan->overlap;
}

bool pz_framework_can_run(const struct pz_plan *plan, const struct pz_model_shape *model,
                          struct pz_error *why) {
  struct pz_rule_list list = pz_rule_list_of(plan->framework);
  return pz_rules_allow(&list, PZ_RULE_GROUPS, plan, model, why);
}

int pz_framework_overlap(const struct pz_plan *plan, const struct pz_model_shape *model) {
  struct pz_rule_list list = pz_rule_list_of(plan->framework);
  struct pz_plan copy = *plan;
  return pz_rule_list_overlap(&list, &copy, model);
}

/* Returns whether Transformer Engine, DeepEP and HybridEP have kernels for the chip's architecture.
 * */
static bool has_transformer_engine(const struct pz_chip *chip) {
  static const char *const lines[] = {"a100", "hopper", "blackwell"};
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strcmp(pz_chip_line(chip->name), lines[i]) == 0) return true;
  return false;
}

/* Returns a bit for each dispatcher of expert tokens that the framework offers on this chip, if the
 * user lacks the software in the set `without`. */
unsigned pz_framework_dispatchers(int framework, const struct pz_chip *chip, int without) {
  const struct pz_framework *info = pz_framework_at(framework);
  if (framework_bit(info) != CORE) return 1U << info->dispatcher;
  /* source: training/flex_dispatcher_backend.py of Megatron Bridge, and its recipes, which use
   * HybridEP on Blackwell only */
  bool is_blackwell = strcmp(pz_chip_line(chip->name), "blackwell") == 0;
  bool is_nvlink_domain = strncmp(chip->name, "gb", 2) == 0;
  unsigned dispatchers = 1U << PZ_DISPATCHER_ALLTOALL;
  if (has_transformer_engine(chip) && !is_nvlink_domain && !(without & PZ_SOFTWARE_DEEPEP))
    dispatchers |= 1U << PZ_DISPATCHER_DEEPEP;
  if (is_blackwell && !(without & PZ_SOFTWARE_HYBRIDEP))
    dispatchers |= 1U << PZ_DISPATCHER_HYBRIDEP;
  return dispatchers;
}

/* Only Megatron Core with Transformer Engine captures single modules of layers. */
int pz_framework_graph_modules(int framework, const struct pz_chip *chip,
                               const struct pz_model_shape *model, int without) {
  bool can_capture =
      framework_bit(pz_framework_at(framework)) == CORE && has_transformer_engine(chip);
  if (!can_capture || without & (PZ_SOFTWARE_TE | PZ_SOFTWARE_GRAPHS)) return 0;
  int modules = PZ_GRAPH_ATTENTION;
  if (model->recurrence.heads) modules |= PZ_GRAPH_MAMBA;
  return modules | (model->experts ? PZ_GRAPH_ROUTER | PZ_GRAPH_PREPARATION : PZ_GRAPH_MLP);
}

int pz_framework_overlaps(int framework, int without) {
  const struct pz_framework *info = pz_framework_at(framework);
  if (!info->rules) return info->plan.overlap | info->free_overlap;
  bool lacks_engine = framework_bit(info) == CORE && without & PZ_SOFTWARE_TE;
  return lacks_engine ? PZ_OVERLAP_ALL & ~PZ_OVERLAP_TP : PZ_OVERLAP_ALL;
}

/* Returns how freely the framework lets the number of recomputed layers be chosen: the strictest form
 * of its rules that demand equal numbers, or refuse a plan that recomputes one layer of a chunk. */
enum pz_recompute_form pz_framework_recompute_form(const struct pz_plan *plan) {
  const struct pz_framework *framework = pz_plan_framework(plan);
  unsigned bit = framework_bit(framework);
  struct pz_plan one_layer = *plan;
  enum pz_recompute_form form = PZ_RECOMPUTE_BY_STAGE;
  one_layer.recompute = PZ_RECOMPUTATION_FULL;
  one_layer.recompute_layers = 1;
  one_layer.stage_recompute = NULL;
  for (int i = 0; i < RULES; i++) {
    const struct rule *rule = &rules[i];
    if (!(rule->frameworks & bit) || rule->form <= form) continue;
    /* for an unknown model, one layer counts as a part of a chunk */
    if (rule->form == PZ_RECOMPUTE_ALIKE || rule->refuses(&one_layer, &unknown_model, framework))
      form = rule->form;
  }
  return form;
}

/* Returns which scaling of rotary positions the frameworks with this bit accept, if they cannot be
 * configured to scale them as the model does, otherwise NULL. */
static const char *find_accepted_rope(unsigned bit, const struct pz_model_shape *model) {
  bool is_yarn = model->rope == PZ_ROPE_YARN, is_llama3 = model->rope == PZ_ROPE_LLAMA3;
  bool is_latent = model->kv_rank > 0;
  if (model->rope == PZ_ROPE_PLAIN || !(bit & (CORE | TITAN | DEEPSPEED))) return NULL;
  if (bit == DEEPSPEED) return "rotary positions that are not stretched (no rope_scaling)";
  if (bit == TITAN && model->family == PZ_SHAPE_QWEN3) return "no rope_scaling in models of qwen3";
  if (is_latent && !is_yarn) return "rope_scaling of yarn, with latent attention";
  if (!is_latent && !is_llama3) return "rope_scaling of llama3, without latent attention";
  /* Megatron Core fixes these values in RotaryEmbedding and in MLATransformerConfig */
  bool core_llama3 = model->rope_low == 1 && model->rope_high == 4 && model->rope_original == 8192;
  bool core_yarn = model->rope_fast == 32 && model->rope_slow == 1 && model->rope_original == 4096;
  if (bit == CORE && is_llama3 && !core_llama3)
    return "rope_scaling with low_freq_factor 1, high_freq_factor 4 and 8192 original positions";
  if (bit == CORE && is_yarn && !core_yarn)
    return "rope_scaling with beta_fast 32, beta_slow 1 and 4096 original positions";
  if (bit == TITAN && is_yarn && model->rope_mscale != model->rope_mscale_all)
    return "rope_scaling whose mscale and mscale_all_dim are equal";
  return NULL;
}

/* Returns whether the framework can train this model; if not, stores the accepted models in *why
 * unless it is NULL.  Checks the framework's families of models, and then their biases, tied weights,
 * heads and rotary positions. */
bool pz_framework_trains(int framework, const struct pz_model_shape *model, struct pz_error *why) {
  unsigned bit = framework_bit(pz_framework_at(framework));
  enum pz_shape_family family = model->family;
  bool is_llama = family == PZ_SHAPE_LLAMA, other = family == PZ_SHAPE_OTHER;
  bool titan_lacks_family = other || family == PZ_SHAPE_GPT2 || family == PZ_SHAPE_MIXTRAL ||
                            family == PZ_SHAPE_NEMOTRON_H || family == PZ_SHAPE_QWEN3_NEXT;
  /* other frameworks may train models of other families, for which no launch script is written */
  if (other && !(bit & (TITAN | DEEPSPEED))) return true;
  const char *accepted = NULL;
  if (bit == TITAN && titan_lacks_family)
    accepted = "llama, qwen3, deepseek_v3";
  else if (bit == TITAN && model->qkv_bias)
    accepted = "models without biases";
  else if (bit == TITAN && is_llama && model->tied)
    accepted = "embedding and head that are not tied";
  else if (bit == TITAN && is_llama && model->head_dim * model->heads != model->hidden)
    accepted = "heads of hidden / heads";
  else if (bit == DEEPSPEED && family != PZ_SHAPE_GPT2 && !is_llama)
    accepted = "gpt2, llama";
  else if (bit == DEEPSPEED && model->qkv_bias && !model->bias)
    accepted = "biases in all linear layers or in none";
  else if (bit & (CORE | DEEPSPEED) && model->rotary_base != (double)(int64_t)model->rotary_base)
    accepted = "a rotary base that is a whole number";
  else
    accepted = find_accepted_rope(bit, model);
  if (accepted && why)
    (void)!pz_fail(why, PZ_BAD_USE, "%s has no model of the shape of %s (%s); accepted: %s",
                   pz_framework_names[framework], model->name, pz_shape_family_names[family],
                   accepted);
  return !accepted;
}
