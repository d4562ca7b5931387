/* Which plans a training framework can run.  The search of place, the launch scripts, the changes
 * that tune suggests and the warnings of predict all ask the same rules.  A rule is a row of
 * framework_rules.def with its source in the framework's code.
 *
 * A model shape of NULL stands for an unknown model, which no rule about models refuses. */
#ifndef PZ_PLAN_FRAMEWORK_RULES_H
#define PZ_PLAN_FRAMEWORK_RULES_H

#include "plan/model_shape.h"
#include "plan/plan.h"

/* Returns whether the framework of a plan can run it for this model.  If not, sets *why, which may
 * be NULL, to PZ_BAD_USE with a message that says which rule refuses the plan and what is
 * accepted. */
bool pz_framework_can_run(const struct pz_plan *plan, const struct pz_model_shape *model,
                          struct pz_error *why);

/* Returns whether the framework can train this model.  If not, sets *why, which may be NULL. */
bool pz_framework_trains(int framework, const struct pz_model_shape *model, struct pz_error *why);

/* Returns the plan's overlap (a set of enum pz_overlap) without what the framework cannot overlap
 * in this plan, and with what it always overlaps. */
int pz_framework_overlap(const struct pz_plan *plan, const struct pz_model_shape *model);

/* Rules by the fields that they depend on.  A search, which asks about millions of plans, asks a
 * group again only when one of its fields has changed. */
enum pz_rule_group {
  PZ_RULE_PLAIN,      /* depends on none of the fields below */
  PZ_RULE_SHARDS,     /* depends on the ZeRO stage, or on the division of layers among chunks */
  PZ_RULE_RECOMPUTES, /* depends on recomputation or offload */
  PZ_RULE_GROUPS
};

/* The rules of one framework, listed once for many plans. */
enum { PZ_RULES_MOST = 192 };
struct pz_rule_list {
  int framework;
  uint8_t rule[PZ_RULES_MOST]; /* row numbers of framework_rules.def, by group */
  /* number of rules; position in rule[] after the last rule of each group */
  int n, end[PZ_RULE_GROUPS];
  uint8_t overlap[PZ_RULES_MOST]; /* the n_overlap rules that change the overlap */
  int n_overlap;
  bool depends_on_division; /* a rule depends on the division of layers among chunks */
};
struct pz_rule_list pz_rule_list_of(int framework);

/* Like pz_framework_can_run(), with the rules of one group, or all rules with PZ_RULE_GROUPS. */
bool pz_rules_allow(const struct pz_rule_list *list, enum pz_rule_group group,
                    const struct pz_plan *plan, const struct pz_model_shape *model,
                    struct pz_error *why);

/* Like pz_framework_overlap(), and also stores the overlap in the plan. */
int pz_rule_list_overlap(const struct pz_rule_list *list, struct pz_plan *plan,
                         const struct pz_model_shape *model);

/* Returns the dispatchers that a search may choose from on this chip, as a set of bits 1 << enum
 * pz_dispatcher.  `without` is a set of software (enum pz_software) that the user lacks. */
unsigned pz_framework_dispatchers(int framework, const struct pz_chip *chip, int without);

/* Returns the set of modules (enum pz_graph_module) that CUDA graphs can capture, without the
 * software that the user lacks. */
int pz_framework_graph_modules(int framework, const struct pz_chip *chip,
                               const struct pz_model_shape *model, int without);

/* Returns the set of overlaps that a search may switch on, without the software that the user
 * lacks.  Each plan uses those that the rules allow for it. */
int pz_framework_overlaps(int framework, int without);

/* How freely the number of fully recomputed layers can be chosen. */
enum pz_recompute_form {
  PZ_RECOMPUTE_BY_STAGE, /* each stage may have its own number */
  PZ_RECOMPUTE_ALIKE,    /* all stages have the same number */
  PZ_RECOMPUTE_ALL       /* either all layers or none */
};
/* Returns how freely the framework of a plan lets the number of recomputed layers be chosen. */
enum pz_recompute_form pz_framework_recompute_form(const struct pz_plan *plan);

#endif
