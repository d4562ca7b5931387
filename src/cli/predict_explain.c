/* phaze predict --explain: where every field of the plan comes from, and the constants of the model
 * that count for this plan. */
#include <stdio.h>
#include <string.h>

#include "cli/predict_options.h"
#include "report/table.h"
#include "step/prediction.h"

/* ---- the plan ------------------------------------------------------------------------------- */

/* Where the value of a field comes from; `buf` may hold it. */
static const char *field_from(const struct pz_predicted *x, enum pz_plan_field f, char *buf,
                              size_t size) {
  const char *from = pz_plan_field(f)->from;
  if (!pz_plan_is_unset(&x->s->plan, f)) return "given";
  if (f == PZ_PLAN_FRAMEWORK && x->machine.chip.execution == PZ_CHIP_SCHEDULED)
    return "default on such a chip";
  if (f == PZ_PLAN_SP && x->run->plan.tp == 1) return "off without tensor parallelism";
  if (f == PZ_PLAN_DP && !x->s->plan.devices) return "default";
  if (from) return from;
  snprintf(buf, size, "default of %s", pz_framework_names[x->run->plan.framework]);
  return buf;
}

/* Fields that say something for this plan. */
static bool is_explained(const struct pz_plan *p, enum pz_plan_field f) {
  if (f == PZ_PLAN_RECOMPUTE_LAYERS || f == PZ_PLAN_FIRST_LAYERS || f == PZ_PLAN_LAST_LAYERS)
    return !pz_plan_is_unset(p, f);
  return pz_plan_field_told(p, f);
}

static enum pz_status explain_plan(const struct pz_predicted *x, struct pz_arena *arena) {
  static const char *const heads[] = {"plan", "value", "from", NULL};
  const struct pz_plan *p = &x->run->plan;
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    char value[PZ_FIELD_TEXT_MOST], from[64];
    if (!is_explained(p, f)) continue;
    pz_plan_field_text(p, f, value, sizeof value);
    bool best = f == PZ_PLAN_ATTENTION_LIBRARY && strcmp(value, "-") == 0;
    pz_table_cell(&t, "%s", pz_plan_field(f)->name);
    pz_table_cell(&t, "%s", best ? "the chip's best" : value);
    pz_table_cell(&t, "%s", field_from(x, f, from, sizeof from));
  }
  putchar('\n');
  return pz_table_print(&t, 0, stdout);
}

static json_t *from_json(const struct pz_predicted *x) {
  json_t *j = json_object();
  for (int i = 0; i < PZ_PLAN_FIELDS; i++) {
    enum pz_plan_field f = (enum pz_plan_field)i;
    char from[64];
    if (is_explained(&x->run->plan, f))
      json_object_set_new(j, pz_plan_field(f)->name,
                          json_string(field_from(x, f, from, sizeof from)));
  }
  return j;
}

/* ---- constants ------------------------------------------------------------------------------ */

static void change_cell(struct pz_table *t, double change) {
  if (change > 5e-6 || change < -5e-6)
    pz_table_cell(t, "%+.2f%%", 100 * change);
  else
    pz_table_cell(t, "-");
}

static enum pz_status effects(const struct pz_predicted *x, struct pz_arena *arena,
                              struct pz_constant_effect **list, uint32_t *n, struct pz_error *err) {
  struct pz_job job = pz_predicted_job(x);
  return pz_constant_effects(&job, &x->run->plan, arena, list, n, err);
}

static enum pz_status explain_constants(const struct pz_predicted *x, struct pz_arena *arena,
                                        struct pz_error *err) {
  static const char *const heads[] = {"constant", ">value", "unit",   ">step",
                                      ">memory",  "part",   "source", NULL};
  struct pz_constant_effect *list = NULL;
  struct pz_table t;
  uint32_t n = 0;
  enum pz_status status = effects(x, arena, &list, &n, err);
  if (status != PZ_OK) return status;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < n; i++) {
    pz_table_cell(&t, "%s", list[i].info->name);
    pz_table_cell(&t, "%g", list[i].value);
    pz_table_cell(&t, "%s", list[i].info->unit[0] ? list[i].info->unit : "-");
    change_cell(&t, list[i].step_change);
    change_cell(&t, list[i].memory_change);
    pz_table_cell(&t, "%s", list[i].part);
    pz_table_cell(&t, "%s: %s", list[i].info->kind, list[i].info->source);
  }
  printf(
      "\nConstants that count for this plan; step, memory: the change if one is a tenth larger.\n"
      "Rates of the chip and of the network are in 'phaze chip %s' and its cluster.\n",
      x->machine.chip.name);
  return pz_table_print(&t, 0, stdout);
}

enum pz_status pz_predict_explain(const struct pz_predicted *x, struct pz_error *err) {
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  enum pz_status status = explain_plan(x, &arena);
  if (status == PZ_OK) status = explain_constants(x, &arena, err);
  pz_arena_release(&arena);
  return status;
}

enum pz_status pz_predict_explain_json(const struct pz_predicted *x, json_t **out,
                                       struct pz_error *err) {
  struct pz_constant_effect *list = NULL;
  struct pz_arena arena;
  uint32_t n = 0;
  pz_arena_init(&arena, NULL);
  enum pz_status status = effects(x, &arena, &list, &n, err);
  json_t *constants = json_array();
  for (uint32_t i = 0; i < n; i++)
    json_array_append_new(constants,
                          json_pack("{s:s,s:f,s:s,s:s,s:s,s:s,s:f,s:f}", "name", list[i].info->name,
                                    "value", list[i].value, "unit", list[i].info->unit, "kind",
                                    list[i].info->kind, "source", list[i].info->source, "part",
                                    list[i].part, "step_change", list[i].step_change,
                                    "memory_change", list[i].memory_change));
  pz_arena_release(&arena);
  *out = json_pack("{s:o,s:f,s:o}", "from", from_json(x), "raised_by", 0.1, "constants", constants);
  return status;
}
