/* phaze place --devices LIST: how the best plan scales with the number of devices. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/place_training.h"
#include "core/text.h"
#include "report/table.h"
#include "report/training_json.h"

static const double DAY_S = 86400;

/* A scaling with what a run costs in each row, where that is asked for. */
struct priced_scaling {
  struct pz_place_job *j;
  const struct pz_scaling *s;
  struct pz_run_cost *cost; /* by row; NULL: not asked for */
  uint32_t best;    /* the row that costs least of those that end by the deadline; n_rows: none */
  uint32_t nearest; /* the row that ends first */
};

static enum pz_status price_rows(struct priced_scaling *x) {
  const struct pz_scaling *s = x->s;
  enum pz_status status = PZ_OK;
  x->best = x->nearest = s->n_rows;
  if (!x->j->q->t->tokens) return PZ_OK;
  x->cost = pz_arena_alloc(&x->j->arena, s->n_rows, sizeof *x->cost);
  if (!x->cost) return PZ_NO_MEMORY;
  for (uint32_t i = 0; i < s->n_rows && status == PZ_OK; i++) {
    const struct pz_training_plans *p = s->rows[i].plans;
    const struct pz_run_cost *c = x->cost;
    if (!p->n) continue;
    status = pz_place_cost(x->j, p->runs[0], &x->cost[i]);
    if (x->nearest == s->n_rows || c[i].seconds < c[x->nearest].seconds) x->nearest = i;
    if (p->late) continue;
    if (x->best == s->n_rows || c[i].device_hours < c[x->best].device_hours) x->best = i;
  }
  x->j->late = x->best == s->n_rows;
  return status;
}

static json_t *row_json(const struct priced_scaling *all, uint32_t i) {
  const struct pz_scaling_row *x = &all->s->rows[i];
  const struct pz_training_plans *f = x->plans;
  json_t *j = json_pack("{s:I,s:I,s:b,s:o}", "devices", (json_int_t)x->devices, "batch",
                        (json_int_t)x->batch, "fits", f->n > 0, "certificate",
                        pz_plan_certificate_json(&f->certificate));
  if (f->stopped) json_object_set_new(j, "stopped", json_true());
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
  if (!all->cost) return j;
  json_object_set_new(j, "cost", pz_run_cost_json(&all->cost[i]));
  json_object_set_new(j, "cheapest", json_boolean(i == all->best));
  if (all->j->q->t->deadline) json_object_set_new(j, "late", json_boolean(f->late));
  return j;
}

static enum pz_status tell_json(const struct priced_scaling *x) {
  const struct pz_place_job *j = x->j;
  const struct pz_scaling *s = x->s;
  json_t *rows = json_array();
  for (uint32_t i = 0; i < s->n_rows; i++) json_array_append_new(rows, row_json(x, i));
  json_t *out = json_pack("{s:o,s:s,s:s?,s:s,s:o}", "model", json_string(j->q->model), "chip",
                          j->machine.chip.name, "cluster", pz_machine_net_name(&j->machine),
                          "scaling", s->weak ? "weak" : "strong", "rows", rows);
  json_object_set_new(out, "warnings", pz_machine_warnings(&j->machine));
  return pz_command_json(out, j->err);
}

static void row_cells(struct pz_table *t, const struct priced_scaling *all, uint32_t i) {
  const struct pz_scaling_row *x = &all->s->rows[i];
  const struct pz_training_run *r = x->run;
  const struct pz_run_cost *c = all->cost ? &all->cost[i] : NULL;
  bool price = all->j->q->t->price > 0;
  char rate[32], text[PZ_PLAN_TEXT_MOST];
  pz_table_cell(t, "%" PRId64, x->devices);
  pz_table_cell(t, "%" PRId64, x->batch);
  if (!r) {
    for (int k = 0; k < 4 + (c ? 1 + price : 0); k++) pz_table_cell(t, "-");
    pz_table_cell(t, x->plans->stopped ? "not found in time" : "nothing fits");
    return;
  }
  pz_plan_text(&r->plan, text, sizeof text);
  pz_table_cell(t, "%.4g", r->p.step_s);
  pz_table_cell(t, "%s", pz_text_number(rate, sizeof rate, x->tokens_per_s_per_device));
  pz_table_cell(t, "%.1f%%", 100 * x->efficiency);
  pz_table_cell(t, "%.1f%%", 100 * r->p.mfu);
  if (c) pz_table_cell(t, "%.1f%s", c->seconds / DAY_S, x->plans->late ? " late" : "");
  if (c && price) pz_table_number(t, c->dollars);
  if (r->plan.devices < x->devices)
    snprintf(text + strlen(text), sizeof text - strlen(text), ", %" PRId64 " idle",
             x->devices - r->plan.devices);
  char gap[40] = "";
  if (x->plans->stopped)
    snprintf(gap, sizeof gap, " (so far, gap %.3g%%)", 100 * x->plans->certificate.gap);
  pz_table_cell(t, "%s%s", text, gap);
}

/* What the table is asked for: the row to rent. */
static void print_best(const struct priced_scaling *x) {
  const struct pz_place_training_settings *t = x->j->q->t;
  bool late = x->best == x->s->n_rows;
  uint32_t at = late ? x->nearest : x->best;
  const struct pz_run_cost *c = &x->cost[at];
  const struct pz_training_run *run = x->s->rows[at].run;
  int64_t n = run->plan.devices;
  char text[40];
  if (late)
    printf("\nno number of devices ends within %s; nearest: %" PRId64 " device%s, %.1f days",
           t->deadline, n, pz_text_s((double)n), c->seconds / DAY_S);
  else
    printf("\n%s%s%s: %" PRId64 " device%s, %.1f days",
           t->price > 0 ? "cheapest" : "fewest device-hours", t->deadline ? " within " : "",
           t->deadline ? t->deadline : "", n, pz_text_s((double)n), c->seconds / DAY_S);
  printf(", %s device-hours", pz_text_count(text, sizeof text, (int64_t)(c->device_hours + 0.5)));
  if (t->price > 0) printf(", $%s", pz_text_count(text, sizeof text, (int64_t)(c->dollars + 0.5)));
  if (run->expected.runs) printf("; +-%.0f%%", 100 * run->expected.error);
  putchar('\n');
}

static enum pz_status print(const struct priced_scaling *x) {
  struct pz_place_job *j = x->j;
  const struct pz_scaling *s = x->s;
  const char *heads[] = {">devices",    ">batch", ">s per step", ">tokens/s/device",
                         ">efficiency", ">MFU",   NULL,          NULL,
                         NULL,          NULL};
  size_t n = 6;
  if (x->cost) heads[n++] = ">days";
  if (x->cost && j->q->t->price > 0) heads[n++] = ">dollars";
  heads[n] = "best plan";
  const char *net = pz_machine_net_name(&j->machine);
  char name[256];
  struct pz_table t;
  pz_table_init(&t, &j->arena, heads);
  for (uint32_t i = 0; i < s->n_rows; i++) row_cells(&t, x, i);
  printf("%s on %s%s%s: %s scaling, the best plan for each number of devices\n\n",
         pz_text_plain(pz_text_copy(name, sizeof name, j->q->model)), j->machine.chip.name,
         net ? " in " : "", net ? net : "", s->weak ? "weak" : "strong");
  enum pz_status status = pz_table_print(&t, 0, stdout);
  if (status == PZ_OK && x->cost) print_best(x);
  return status;
}

enum pz_status pz_place_scaling(struct pz_place_job *j) {
  struct pz_scaling *s = NULL;
  enum pz_status status =
      pz_training_scale(j->q->model, &j->machine.chip, pz_machine_net(&j->machine), &j->options,
                        &j->q->devices, j->q->t->batch_per_device, &s, j->err);
  if (status == PZ_OK && j->q->t->report)
    status = pz_predict_write_page(j->q->t->report, j->q->model, &j->machine, s, j->err);
  struct priced_scaling x = {.j = j, .s = s};
  if (status == PZ_OK) status = price_rows(&x);
  if (status == PZ_OK) status = j->q->json ? tell_json(&x) : print(&x);
  pz_scaling_free(s);
  return status;
}
