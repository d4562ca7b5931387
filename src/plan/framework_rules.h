/* What a training framework can run: one predicate for the search of place, the scripts of launch, the changes of tune and the warnings of
 * predict.  A rule is a row of framework_rules.def, with its source in the framework's own code. */
#ifndef PZ_PLAN_FRAMEWORK_RULES_H
#define PZ_PLAN_FRAMEWORK_RULES_H

#include "plan/model_shape.h"
#include "plan/plan.h"

/* Can the plan's framework run it for this model?  NULL stands for an unknown model.  If not, `why`, which may be NULL, gets PZ_BAD_USE and says what
 * the framework has instead.  The plan is filled, or one of a search. */
bool pz_framework_can_run(const struct pz_plan *p, const struct pz_model_shape *m,
                          struct pz_error *why);

/* Does the framework train models of this shape at all? */
bool pz_framework_trains(int framework, const struct pz_model_shape *m, struct pz_error *why);

/* Returns the overlap that the framework has for this plan by default: without what it cannot overlap here, and with what it always
 * overlaps. */
int pz_framework_overlap(const struct pz_plan *p, const struct pz_model_shape *m);

/* The same for many plans of one framework, whose rules are found once: all of them, or those of a group by what they
 * look at, so that a search need not ask again what has not changed.  The plan of an overlap is told of it. */
enum pz_rule_group {
  PZ_RULE_PLAIN,      /* neither of these */
  PZ_RULE_SHARDS,     /* the ZeRO stage, or how layers are divided */
  PZ_RULE_RECOMPUTES, /* the recomputation */
  PZ_RULE_GROUPS
};
enum { PZ_RULES_MOST = 192 };
struct pz_rule_list {
  int framework, n, n_overlap;
  int end[PZ_RULE_GROUPS]; /* of each group, which stand one after another */
  bool divides;            /* one looks at the division of layers */
  uint8_t rule[PZ_RULES_MOST], overlap[PZ_RULES_MOST];
};
struct pz_rule_list pz_rule_list_of(int framework);
bool pz_rule_list_allows(const struct pz_rule_list *list, const struct pz_plan *p,
                         const struct pz_model_shape *m, struct pz_error *why);
bool pz_rule_group_allows(const struct pz_rule_list *list, enum pz_rule_group g,
                          const struct pz_plan *p, const struct pz_model_shape *m);
int pz_rule_list_overlap(const struct pz_rule_list *list, struct pz_plan *p,
                         const struct pz_model_shape *m);

/* What a search may switch on besides the framework's defaults, on a chip, without the software that the user lacks (a set
 * of enum pz_software): a set with 1 << dispatcher, modules of CUDA graphs, overlap of which each plan has what it can. */
unsigned pz_framework_dispatchers(int framework, const struct pz_chip *c, int without);
int pz_framework_graph_modules(int framework, const struct pz_chip *c,
                               const struct pz_model_shape *m, int without);
int pz_framework_overlaps(int framework, int without);

/* How the framework recomputes whole layers of this plan: as many in each stage as wanted, as many in all of them, or all
 * layers. */
enum pz_recompute_form { PZ_RECOMPUTE_BY_STAGE, PZ_RECOMPUTE_ALIKE, PZ_RECOMPUTE_ALL };
enum pz_recompute_form pz_framework_recompute_form(const struct pz_plan *p);

#endif
