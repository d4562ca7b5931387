/* phaze place --devices LIST: how the best plan scales with the number of devices. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/place_training.h"
#include "core/text.h"
#include "report/table.h"
#include "report/training_json.h"

static json_t *row_json(const struct pz_scaling_row *x) {
  const struct pz_training_plans *f = x->plans;
  json_t *j = json_pack("{s:I,s:I,s:b,s:o}", "devices", (json_int_t)x->devices, "batch",
                        (json_int_t)x->batch, "fits", f->n > 0, "certificate",
                        pz_plan_certificate_json(&f->certificate));
  if (!f->n) return j;
  const struct pz_training_run *r = f->runs[0];
  json_object_set_new(j, "step_s", json_real(r->p.step_s));
  json_object_set_new(j, "mfu", json_real(r->p.mfu));
  json_object_set_new(j, "mfu_conventional", json_real(r->p.mfu_conventional));
  json_object_set_new(j, "devices_used", json_integer((json_int_t)r->plan.devices));
  json_object_set_new(j, "tokens_per_s", json_real(r->p.tokens / r->p.step_s));
  json_object_set_new(j, "tokens_per_s_per_device", json_real(x->tokens_per_s_per_device));
  json_object_set_new(j, "efficiency", json_real(x->efficiency));
  json_object_set_new(j, "plan", pz_found_plan_json(r, NULL));
  return j;
}

static enum pz_status tell_json(const struct pz_place_job *j, const struct pz_scaling *s) {
  json_t *rows = json_array();
  for (uint32_t i = 0; i < s->n_rows; i++) json_array_append_new(rows, row_json(&s->rows[i]));
  json_t *out = json_pack("{s:o,s:s,s:s?,s:s,s:o}", "model", json_string(j->q->model), "chip",
                          j->machine.chip.name, "cluster", pz_machine_net_name(&j->machine),
                          "scaling", s->weak ? "weak" : "strong", "rows", rows);
  json_object_set_new(out, "warnings", pz_machine_warnings(&j->machine));
  return pz_command_json(out, j->err);
}

static void row_cells(struct pz_table *t, const struct pz_scaling_row *x) {
  const struct pz_training_run *r = x->run;
  char rate[32], text[PZ_PLAN_TEXT_MOST];
  pz_table_cell(t, "%" PRId64, x->devices);
  pz_table_cell(t, "%" PRId64, x->batch);
  if (!r) {
    for (int i = 0; i < 4; i++) pz_table_cell(t, "-");
    pz_table_cell(t, "nothing fits");
    return;
  }
  pz_plan_text(&r->plan, text, sizeof text);
  pz_table_cell(t, "%.4g", r->p.step_s);
  pz_table_cell(t, "%s", pz_text_number(rate, sizeof rate, x->tokens_per_s_per_device));
  pz_table_cell(t, "%.1f%%", 100 * x->efficiency);
  pz_table_cell(t, "%.1f%%", 100 * r->p.mfu);
  if (r->plan.devices < x->devices)
    pz_table_cell(t, "%s, %" PRId64 " idle", text, x->devices - r->plan.devices);
  else
    pz_table_cell(t, "%s", text);
}

static enum pz_status print(struct pz_place_job *j, const struct pz_scaling *s) {
  static const char *const heads[] = {">devices",    ">batch", ">s per step", ">tokens/s/device",
                                      ">efficiency", ">MFU",   "best plan",   NULL};
  const char *net = pz_machine_net_name(&j->machine);
  char name[256];
  struct pz_table t;
  pz_table_init(&t, &j->arena, heads);
  for (uint32_t i = 0; i < s->n_rows; i++) row_cells(&t, &s->rows[i]);
  printf("%s on %s%s%s: %s scaling, the best plan for each number of devices\n\n",
         pz_text_plain(pz_text_copy(name, sizeof name, j->q->model)), j->machine.chip.name,
         net ? " in " : "", net ? net : "", s->weak ? "weak" : "strong");
  return pz_table_print(&t, 0, stdout);
}

enum pz_status pz_place_scaling(struct pz_place_job *j) {
  struct pz_scaling *s = NULL;
  enum pz_status status =
      pz_training_scale(j->q->model, &j->machine.chip, pz_machine_net(&j->machine), &j->options,
                        &j->q->devices, j->q->t->batch_per_device, &s, j->err);
  if (status == PZ_OK && j->q->t->report)
    status = pz_predict_write_page(j->q->t->report, j->q->model, &j->machine, s, j->err);
  if (status == PZ_OK) status = j->q->json ? tell_json(j, s) : print(j, s);
  pz_scaling_free(s);
  return status;
}
