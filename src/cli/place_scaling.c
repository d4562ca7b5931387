/* phaze place --devices LIST: how the best plan scales with the number of devices. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/place_training.h"
#include "cli/plan_page.h"
#include "core/text.h"
#include "place/found_plan_json.h"
#include "plan/plan_text.h"
#include "report/table.h"

struct row {
  int64_t devices, batch;
  struct pz_training_plans *found;
  double rate; /* tokens/s of each device at hand; 0: nothing fits */
};

/* Idle devices are paid for: they count. */
static double rate_of(const struct row *x) {
  if (!x->found->n) return 0;
  const struct pz_prediction *p = &x->found->runs[0]->p;
  return p->tokens / p->step_s / (double)x->devices;
}

static enum pz_status search_row(struct pz_place_job *j, struct row *x) {
  struct pz_training_place_options o = j->options;
  struct pz_error why = {0};
  o.plan.devices = x->devices;
  if (j->q->t->batch_per_device) o.plan.batch = j->q->t->batch_per_device * x->devices;
  x->batch = o.plan.batch;
  enum pz_status status = pz_place_search(j, &j->machine.chip, &o, &x->found, &why);
  if (status != PZ_OK)
    return pz_fail(j->err, status, "%" PRId64 " device%s: %s", x->devices,
                   pz_text_s((double)x->devices), why.message);
  x->rate = rate_of(x);
  return PZ_OK;
}

/* The rate of the fewest devices on which a plan fits. */
static double first_rate(const struct row *list, int n) {
  for (int i = 0; i < n; i++)
    if (list[i].rate > 0) return list[i].rate;
  return 0;
}

/* ---- told ----------------------------------------------------------------------------------- */

static json_t *row_json(const struct row *x, double first) {
  const struct pz_training_plans *f = x->found;
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
  json_object_set_new(j, "tokens_per_s_per_device", json_real(x->rate));
  json_object_set_new(j, "efficiency", json_real(x->rate / first));
  json_object_set_new(j, "plan", pz_found_plan_json(r, NULL));
  return j;
}

static enum pz_status tell_json(const struct pz_place_job *j, const struct row *list, int n) {
  json_t *rows = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(rows, row_json(&list[i], first_rate(list, n)));
  json_t *out =
      json_pack("{s:o,s:s,s:s?,s:s,s:o}", "model", json_string(j->q->model), "chip",
                j->machine.chip.name, "cluster", j->machine.own_link ? NULL : j->machine.net.name,
                "scaling", j->q->t->batch_per_device ? "weak" : "strong", "rows", rows);
  json_object_set_new(out, "warnings", pz_machine_warnings(&j->machine));
  return pz_command_json(out, j->err);
}

static enum pz_status print_row(struct pz_table *t, const struct row *x, double first) {
  pz_table_cell(t, "%" PRId64, x->devices);
  pz_table_cell(t, "%" PRId64, x->batch);
  if (!x->found->n) {
    for (int i = 0; i < 4; i++) pz_table_cell(t, "-");
    pz_table_cell(t, "nothing fits");
    return PZ_OK;
  }
  const struct pz_training_run *r = x->found->runs[0];
  const char *text = pz_found_plan_text(r, t->arena);
  char rate[32];
  if (!text) return PZ_NO_MEMORY;
  pz_table_cell(t, "%.4g", r->p.step_s);
  pz_table_cell(t, "%s", pz_text_number(rate, sizeof rate, x->rate));
  pz_table_cell(t, "%.1f%%", 100 * x->rate / first);
  pz_table_cell(t, "%.1f%%", 100 * r->p.mfu);
  if (r->plan.devices < x->devices)
    pz_table_cell(t, "%s, %" PRId64 " idle", text, x->devices - r->plan.devices);
  else
    pz_table_cell(t, "%s", text);
  return PZ_OK;
}

static enum pz_status print(struct pz_place_job *j, const struct row *list, int n) {
  static const char *const heads[] = {">devices",    ">batch", ">s per step", ">tokens/s/device",
                                      ">efficiency", ">MFU",   "best plan",   NULL};
  const struct pz_machine *m = &j->machine;
  char name[256];
  struct pz_table t;
  enum pz_status status = PZ_OK;
  pz_table_init(&t, &j->arena, heads);
  for (int i = 0; i < n && status == PZ_OK; i++)
    status = print_row(&t, &list[i], first_rate(list, n));
  if (status != PZ_OK) return status;
  printf("%s on %s%s%s: %s scaling, the best plan for each number of devices\n\n",
         pz_text_plain(pz_text_copy(name, sizeof name, j->q->model)), m->chip.name,
         m->own_link ? "" : " in ", m->own_link ? "" : m->net.name,
         j->q->t->batch_per_device ? "weak" : "strong");
  return pz_table_print(&t, 0, stdout);
}

static enum pz_status write_page(struct pz_place_job *j, const struct row *list, int n) {
  struct pz_plan_page_row *rows = pz_arena_alloc(&j->arena, (size_t)n, sizeof *rows);
  if (!rows) return PZ_NO_MEMORY;
  for (int i = 0; i < n; i++) {
    const struct row *x = &list[i];
    rows[i] = (struct pz_plan_page_row){x->devices, x->batch,
                                        x->found->n ? x->found->runs[0] : NULL, x->rate};
  }
  struct pz_plan_page page = {.path = j->q->t->report,
                              .model = j->q->model,
                              .machine = &j->machine,
                              .weak = j->q->t->batch_per_device > 0,
                              .rows = rows,
                              .n = (uint32_t)n};
  return pz_plan_page_write(&page, &j->arena, j->err);
}

enum pz_status pz_place_scaling(struct pz_place_job *j) {
  int n = j->q->devices.n;
  struct row *list = pz_arena_alloc(&j->arena, (size_t)n, sizeof *list);
  enum pz_status status = list ? PZ_OK : PZ_NO_MEMORY;
  for (int i = 0; list && i < n; i++) list[i] = (struct row){.devices = j->q->devices.v[i]};
  for (int i = 0; i < n && status == PZ_OK; i++) status = search_row(j, &list[i]);
  if (status == PZ_OK && !(first_rate(list, n) > 0))
    status = pz_place_nothing_fits(j, list[n - 1].found);
  if (status == PZ_OK && j->q->t->report) status = write_page(j, list, n);
  if (status == PZ_OK) status = j->q->json ? tell_json(j, list, n) : print(j, list, n);
  for (int i = 0; list && i < n; i++) pz_training_plans_free(list[i].found);
  return status;
}
