/* The explanation of a prediction (--explain): a table of the fields of the plan with the source of each value, and a
 * table of the constants of the model that change this prediction. */
#include <stdio.h>

#include "cli/predict_options.h"
#include "report/table.h"

static void append_change(struct pz_table *t, double change) {
  if (change > 5e-6 || change < -5e-6)
    pz_table_cell(t, "%+.2f%%", 100 * change);
  else
    pz_table_cell(t, "-");
}

void pz_predict_explain(struct pz_call *call, const struct pz_predicted *x,
                        const struct pz_explanation *e) {
  static const char *const field_heads[] = {"plan", "value", "from", NULL};
  static const char *const constant_heads[] = {"constant", ">value", "unit",   ">step",
                                               ">memory",  "part",   "source", NULL};
  struct pz_table fields, constants;
  pz_table_init(&fields, call->arena, field_heads);
  for (uint32_t i = 0; i < e->n_fields; i++) {
    pz_table_cell(&fields, "%s", e->fields[i].name);
    pz_table_cell(&fields, "%s", e->fields[i].value);
    pz_table_cell(&fields, "%s", e->fields[i].from);
  }
  putchar('\n');
  pz_must(call, pz_table_print(&fields, 0, stdout));
  pz_table_init(&constants, call->arena, constant_heads);
  for (uint32_t i = 0; i < e->n_constants; i++) {
    const struct pz_constant_effect *c = &e->constants[i];
    pz_table_cell(&constants, "%s", c->name);
    pz_table_cell(&constants, "%g", c->value);
    pz_table_cell(&constants, "%s", c->unit[0] ? c->unit : "-");
    append_change(&constants, c->step_change);
    append_change(&constants, c->memory_change);
    pz_table_cell(&constants, "%s", c->part);
    pz_table_cell(&constants, "%s: %s", c->kind, c->source);
  }
  printf(
      "\nConstants that count for this plan; step, memory: the change if one is a tenth larger.\n"
      "Rates of the chip and of the network are in 'phaze chip %s' and its cluster.\n",
      x->machine->chip.name);
  pz_must(call, pz_table_print(&constants, 0, stdout));
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
