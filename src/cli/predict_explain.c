/* phaze predict --explain: where every field of the plan comes from, and the constants of the model
 * that count for this plan. */
#include <stdio.h>

#include "cli/predict_options.h"
#include "report/table.h"

static enum pz_status print_fields(const struct pz_explanation *e, struct pz_arena *arena) {
  static const char *const heads[] = {"plan", "value", "from", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < e->n_fields; i++) {
    pz_table_cell(&t, "%s", e->fields[i].name);
    pz_table_cell(&t, "%s", e->fields[i].value);
    pz_table_cell(&t, "%s", e->fields[i].from);
  }
  putchar('\n');
  return pz_table_print(&t, 0, stdout);
}

static void change_cell(struct pz_table *t, double change) {
  if (change > 5e-6 || change < -5e-6)
    pz_table_cell(t, "%+.2f%%", 100 * change);
  else
    pz_table_cell(t, "-");
}

static enum pz_status print_constants(const struct pz_explanation *e, const char *chip,
                                      struct pz_arena *arena) {
  static const char *const heads[] = {"constant", ">value", "unit",   ">step",
                                      ">memory",  "part",   "source", NULL};
  struct pz_table t;
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < e->n_constants; i++) {
    const struct pz_constant_effect *c = &e->constants[i];
    pz_table_cell(&t, "%s", c->name);
    pz_table_cell(&t, "%g", c->value);
    pz_table_cell(&t, "%s", c->unit[0] ? c->unit : "-");
    change_cell(&t, c->step_change);
    change_cell(&t, c->memory_change);
    pz_table_cell(&t, "%s", c->part);
    pz_table_cell(&t, "%s: %s", c->kind, c->source);
  }
  printf(
      "\nConstants that count for this plan; step, memory: the change if one is a tenth larger.\n"
      "Rates of the chip and of the network are in 'phaze chip %s' and its cluster.\n",
      chip);
  return pz_table_print(&t, 0, stdout);
}

enum pz_status pz_predict_explain(const struct pz_predicted *x, const struct pz_explanation *e) {
  struct pz_arena arena;
  pz_arena_init(&arena, NULL);
  enum pz_status status = print_fields(e, &arena);
  if (status == PZ_OK) status = print_constants(e, x->machine.chip.name, &arena);
  pz_arena_release(&arena);
  return status;
}

json_t *pz_predict_explain_json(const struct pz_explanation *e) {
  json_t *from = json_object(), *constants = json_array();
  for (uint32_t i = 0; i < e->n_fields; i++)
    json_object_set_new(from, e->fields[i].name, json_string(e->fields[i].from));
  for (uint32_t i = 0; i < e->n_constants; i++) {
    const struct pz_constant_effect *c = &e->constants[i];
    json_array_append_new(constants, json_pack("{s:s,s:f,s:s,s:s,s:s,s:s,s:f,s:f}", "name", c->name,
                                               "value", c->value, "unit", c->unit, "kind", c->kind,
                                               "source", c->source, "part", c->part, "step_change",
                                               c->step_change, "memory_change", c->memory_change));
  }
  return json_pack("{s:o,s:f,s:o}", "from", from, "raised_by", e->raised_by, "constants",
                   constants);
}
