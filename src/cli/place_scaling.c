/* phaze place --devices LIST: how the best plan scales with the number of devices.  pz_place_scaling() searches once for
 * each number with pz_training_scale(), price_rows() adds the cost of a run to each row, and the rows are printed as a
 * table or as JSON.  The last line of the table names the row that is cheapest within the deadline. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/place_training.h"
#include "core/text.h"
#include "report/table.h"
#include "report/training_json.h"

static const double DAY_S = 86400;

/* A scaling with the cost of a run in each row, if --tokens asks for it. */
struct priced_scaling {
  struct pz_place_job *j;
  const struct pz_scaling *s;
  struct pz_run_cost *cost; /* of each row; NULL: not asked for */
  uint32_t cheapest; /* row with the least device-hours that ends by the deadline; n_rows: none */
  uint32_t soonest;  /* row that ends first */
};

static void price_rows(struct pz_call *call, struct priced_scaling *x) {
  const uint32_t none = x->s->n_rows;
  struct pz_run_cost *cost = pz_alloc(call, x->s->n_rows, sizeof *cost);
  x->cost = cost;
  for (uint32_t i = 0; i < x->s->n_rows; i++) {
    const struct pz_training_plans *p = x->s->rows[i].plans;
    if (!p->n) continue;
    cost[i] = pz_place_cost(call, x->j, p->runs[0]);
    if (x->soonest == none || cost[i].seconds < cost[x->soonest].seconds) x->soonest = i;
    if (p->late) continue;
    if (x->cheapest == none || cost[i].device_hours < cost[x->cheapest].device_hours)
      x->cheapest = i;
  }
  x->j->late = x->cheapest == none;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *row_json(const struct priced_scaling *x, uint32_t i) {
  const struct pz_scaling_row *row = &x->s->rows[i];
  const struct pz_training_plans *p = row->plans;
  json_t *j = json_pack("{s:I,s:I,s:b,s:o}", "devices", (json_int_t)row->devices, "batch",
                        (json_int_t)row->batch, "fits", p->n > 0, "certificate",
                        pz_plan_certificate_json(&p->certificate));
  if (p->stopped) json_object_set_new(j, "stopped", json_true());
  if (!p->n) return j;
  const struct pz_training_run *r = p->runs[0];
  json_object_set_new(j, "step_s", json_real(r->p.step_s));
  json_object_set_new(j, "mfu", json_real(r->p.mfu));
  json_object_set_new(j, "mfu_conventional", json_real(r->p.mfu_conventional));
  json_object_set_new(j, "devices_used", json_integer((json_int_t)r->plan.devices));
  json_object_set_new(j, "tokens_per_s", json_real(r->p.tokens / r->p.step_s));
  json_object_set_new(j, "tokens_per_s_per_device", json_real(row->tokens_per_s_per_device));
  json_object_set_new(j, "efficiency", json_real(row->efficiency));
  json_object_set_new(j, "plan", pz_found_plan_json(r, NULL));
  if (!x->cost) return j;
  json_object_set_new(j, "cost", pz_run_cost_json(&x->cost[i]));
  json_object_set_new(j, "cheapest", json_boolean(i == x->cheapest));
  if (x->j->t->deadline) json_object_set_new(j, "late", json_boolean(p->late));
  return j;
}

static void print_scaling_json(struct pz_call *call, const struct priced_scaling *x) {
  const struct pz_place_job *j = x->j;
  json_t *rows = json_array();
  for (uint32_t i = 0; i < x->s->n_rows; i++) json_array_append_new(rows, row_json(x, i));
  json_t *out = json_pack("{s:o,s:s,s:s?,s:s,s:o}", "model", json_string(j->model), "chip",
                          j->machine->chip.name, "cluster", pz_machine_net_name(j->machine),
                          "scaling", x->s->weak ? "weak" : "strong", "rows", rows);
  json_object_set_new(out, "warnings", pz_machine_warnings(j->machine));
  pz_command_print_json(call, out);
}

/* ---- text ----------------------------------------------------------------------------------- */

static void append_row(struct pz_table *t, const struct priced_scaling *x, uint32_t i) {
  const struct pz_scaling_row *row = &x->s->rows[i];
  const struct pz_training_run *r = row->run;
  const struct pz_run_cost *c = x->cost ? &x->cost[i] : NULL;
  bool price = c && x->j->t->price > 0;
  char rate[32], text[PZ_PLAN_TEXT_MOST], gap[40] = "";
  pz_table_cell(t, "%" PRId64, row->devices);
  pz_table_cell(t, "%" PRId64, row->batch);
  if (!r) {
    int empty = 4;
    if (c) empty++;
    if (price) empty++;
    for (int k = 0; k < empty; k++) pz_table_cell(t, "-");
    pz_table_cell(t, row->plans->stopped ? "not found in time" : "nothing fits");
    return;
  }
  pz_table_cell(t, "%.4g", r->p.step_s);
  pz_table_cell(t, "%s", pz_text_number(rate, sizeof rate, row->tokens_per_s_per_device));
  pz_table_cell(t, "%.1f%%", 100 * row->efficiency);
  pz_table_cell(t, "%.1f%%", 100 * r->p.mfu);
  if (c) pz_table_cell(t, "%.1f%s", c->seconds / DAY_S, row->plans->late ? " late" : "");
  if (price) pz_table_number(t, c->dollars);
  pz_plan_text(&r->plan, text, sizeof text);
  size_t n = strlen(text);
  if (r->plan.devices < row->devices)
    snprintf(text + n, sizeof text - n, ", %" PRId64 " idle", row->devices - r->plan.devices);
  if (row->plans->stopped)
    snprintf(gap, sizeof gap, " (so far, gap %.3g%%)", 100 * row->plans->certificate.gap);
  pz_table_cell(t, "%s%s", text, gap);
}

/* Prints the row to rent: the cheapest within the deadline, or the one that ends first if all are late. */
static void print_recommendation(const struct priced_scaling *x) {
  const struct pz_place_training_settings *t = x->j->t;
  bool late = x->cheapest == x->s->n_rows;
  uint32_t row = late ? x->soonest : x->cheapest;
  const struct pz_run_cost *c = &x->cost[row];
  const struct pz_training_run *run = x->s->rows[row].run;
  int64_t n = run->plan.devices;
  char text[40];
  if (late)
    printf("\nno number of devices ends within %s; nearest", t->deadline);
  else
    printf("\n%s%s%s", t->price > 0 ? "cheapest" : "fewest device-hours",
           t->deadline ? " within " : "", t->deadline ? t->deadline : "");
  printf(": %" PRId64 " device%s, %.1f days", n, pz_text_s((double)n), c->seconds / DAY_S);
  printf(", %s device-hours", pz_text_count(text, sizeof text, (int64_t)(c->device_hours + 0.5)));
  if (t->price > 0) printf(", $%s", pz_text_count(text, sizeof text, (int64_t)(c->dollars + 0.5)));
  if (run->expected.runs) printf("; +-%.0f%%", 100 * run->expected.error);
  putchar('\n');
}

static void print_scaling(struct pz_call *call, const struct priced_scaling *x) {
  const struct pz_place_job *j = x->j;
  const char *heads[10] = {">devices",         ">batch",      ">s per step",
                           ">tokens/s/device", ">efficiency", ">MFU"};
  size_t n = 6;
  if (x->cost) heads[n++] = ">days";
  if (x->cost && j->t->price > 0) heads[n++] = ">dollars";
  heads[n] = "best plan";
  const char *net = pz_machine_net_name(j->machine);
  char name[256];
  struct pz_table t;
  pz_table_init(&t, call->arena, heads);
  for (uint32_t i = 0; i < x->s->n_rows; i++) append_row(&t, x, i);
  printf("%s on %s%s%s: %s scaling, the best plan for each number of devices\n\n",
         pz_text_plain(pz_text_copy(name, sizeof name, j->model)), j->machine->chip.name,
         net ? " in " : "", net ? net : "", x->s->weak ? "weak" : "strong");
  pz_must(call, pz_table_print(&t, 0, stdout));
  if (x->cost) print_recommendation(x);
}

static void free_scaling(void *scaling) { pz_scaling_free(scaling); }

void pz_place_scaling(struct pz_call *call, struct pz_place_job *j) {
  struct pz_scaling *s = NULL;
  pz_must(call,
          pz_training_scale(j->model, &j->machine->chip, pz_machine_net(j->machine), &j->options,
                            &j->devices, j->t->batch_per_device, &s, pz_call_error(call)));
  pz_defer(call, free_scaling, s);
  if (j->t->report) pz_predict_write_page(call, j->t->report, j->model, j->machine, s);
  struct priced_scaling x = {.j = j, .s = s, .cheapest = s->n_rows, .soonest = s->n_rows};
  if (j->t->tokens) price_rows(call, &x);
  if (j->json)
    print_scaling_json(call, &x);
  else
    print_scaling(call, &x);
}
