#include "report/schedule_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan_fields.h"
#include "report/table.h"

static const char *const stop_names[] = {"proved", "steps", "time"};
static const char *const direction_names[] = {"forward", "backward"};
static const char *const resource_keys[PZ_RESOURCES] = {"tensor", "vector", "link",
                                                        "hbm",    "glb",    "power"};

const char *pz_scheduled_title(const struct pz_layer_schedule *s, char buf[256]) {
  snprintf(buf, 256, s->layer ? "%s %s" : "%s", s->layer ? s->layer : s->model,
           direction_names[s->direction]);
  return buf;
}

static double gap(double makespan, double bound) {
  return makespan > 0 ? (makespan - bound) / makespan : 0;
}

double pz_scheduled_gap(const struct pz_layer_schedule *s) {
  return gap(s->makespan_s, s->lower_bound_s);
}

const char *pz_scheduled_gap_text(double part, bool optimal, char buf[16]) {
  if (optimal) return "optimal";
  snprintf(buf, 16, part < 5e-5 ? "<0.01%%" : "%.2f%%", 100 * part);
  return buf;
}

int pz_scheduled_decimals(double most_us) { return most_us < 1e5 ? 2 : most_us < 1e6 ? 1 : 0; }

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *op_json(const struct pz_scheduled_operator *o) {
  return json_pack("{s:I,s:s,s:s,s:s,s:f,s:f,s:{s:I,s:I}}", "id", (json_int_t)o->id, "name",
                   o->name, "class", pz_op_class_name(o->op_class), "mode", o->mode, "start",
                   o->start_s, "end", o->end_s, "cores", "tensor", (json_int_t)o->tensor_held,
                   "vector", (json_int_t)o->vector_held);
}

static json_t *use_json(const struct pz_layer_schedule *s) {
  json_t *o = json_object();
  for (int r = 0; r < PZ_RESOURCES; r++)
    json_object_set_new(o, resource_keys[r], s->limits[r] ? json_real(s->use[r]) : json_null());
  return o;
}

static bool did_something(const struct pz_technique_count *n) {
  return n->calls || n->steps || n->prunes || n->incumbents || n->raised > 0;
}

/* Techniques that did something. */
static json_t *statistics_json(const struct pz_layer_schedule *s) {
  json_t *o = json_object();
  for (uint32_t t = 0; t < s->n_techniques; t++) {
    const struct pz_technique_count *n = &s->techniques[t];
    if (!did_something(n)) continue;
    json_object_set_new(o, n->name,
                        json_pack("{s:I,s:I,s:I,s:I,s:f}", "calls", (json_int_t)n->calls, "steps",
                                  (json_int_t)n->steps, "prunes", (json_int_t)n->prunes,
                                  "incumbents", (json_int_t)n->incumbents, "bound_raised",
                                  n->raised));
  }
  return o;
}

json_t *pz_scheduled_json(const struct pz_layer_schedule *s, double solve_s) {
  json_t *ops = json_array();
  for (uint32_t i = 0; i < s->n_operators; i++)
    json_array_append_new(ops, op_json(&s->operators[i]));
  json_t *o = s->layer ? json_pack("{s:s,s:I,s:s}", "layer", s->layer, "count",
                                   (json_int_t)s->count, "direction", direction_names[s->direction])
                       : json_object();
  json_t *rest = json_pack(
      "{s:f,s:f,s:f,s:s,s:s,s:I,s:o,s:f,s:o,s:o,s:o}", "makespan", s->makespan_s, "lower_bound",
      s->lower_bound_s, "gap", pz_scheduled_gap(s), "outcome", s->optimal ? "optimal" : "feasible",
      "stop", stop_names[s->stop], "steps", (json_int_t)s->steps, "seconds",
      solve_s >= 0 ? json_real(solve_s) : json_null(), "serial", s->serial_s, "utilisation",
      use_json(s), "statistics", statistics_json(s), "ops", ops);
  bool whole = json_object_update(o, rest) == 0;
  json_decref(rest);
  if (whole) return o;
  json_decref(o);
  return NULL;
}

json_t *pz_scheduled_plan_json(const struct pz_plan_schedules *s) { return pz_plan_json(&s->plan); }

/* ---- table ---------------------------------------------------------------------------------- */

/* What a row says: one schedule, or several one after another. */
struct row {
  const char *layer;
  enum pz_direction direction;
  int64_t count, ops; /* count 0: not shown */
  double us, bound_us, serial_us;
  double used_us[PZ_RESOURCES]; /* share x time */
  bool optimal;
};

static struct row row_of(const struct pz_layer_schedule *s) {
  struct row r = {.layer = s->layer,
                  .direction = s->direction,
                  .count = s->count,
                  .ops = s->n_operators,
                  .us = s->makespan_s * 1e6,
                  .bound_us = s->lower_bound_s * 1e6,
                  .serial_us = s->serial_s * 1e6,
                  .optimal = s->optimal};
  for (int k = 0; k < PZ_RESOURCES; k++) r.used_us[k] = s->use[k] * r.us;
  return r;
}

static void add_row(struct row *sum, const struct row *r) {
  double times = (double)r->count;
  sum->ops += r->ops * r->count;
  sum->us += r->us * times;
  sum->bound_us += r->bound_us * times;
  sum->serial_us += r->serial_us * times;
  sum->optimal = sum->optimal && r->optimal;
  for (int k = 0; k < PZ_RESOURCES; k++) sum->used_us[k] += r->used_us[k] * times;
}

/* Title of a resource's column, or NULL where no schedule uses it. */
static void used_columns(const struct row *rows, uint32_t n, const char *shown[PZ_RESOURCES]) {
  static const char *const heads[PZ_RESOURCES] = {">tensor", ">vector", ">link",
                                                  ">hbm",    ">glb",    ">power"};
  for (int k = 0; k < PZ_RESOURCES; k++) {
    shown[k] = NULL;
    for (uint32_t i = 0; i < n; i++)
      if (rows[i].used_us[k] > 0) shown[k] = heads[k];
  }
}

static void print_row(struct pz_table *t, const struct row *r, const char *const *shown,
                      int decimals) {
  char buf[16];
  pz_table_cell(t, "%s", r->layer);
  if (r->count)
    pz_table_cell(t, "%" PRId64, r->count);
  else
    pz_table_cell(t, "%s", "");
  pz_table_cell(t, "%s", direction_names[r->direction]);
  pz_table_cell(t, "%" PRId64, r->ops);
  pz_table_cell(t, "%.*f", decimals, r->us);
  pz_table_cell(t, "%.*f", decimals, r->bound_us);
  pz_table_cell(t, "%s", pz_scheduled_gap_text(gap(r->us, r->bound_us), r->optimal, buf));
  for (int k = 0; k < PZ_RESOURCES; k++)
    if (shown[k]) pz_table_cell(t, "%.0f%%", r->us > 0 ? 100 * r->used_us[k] / r->us : 0);
  pz_table_cell(t, "%.2fx", r->us > 0 ? r->serial_us / r->us : 1);
}

static enum pz_status print_rows(const struct row *rows, uint32_t n, struct pz_arena *arena,
                                 FILE *out) {
  const char *heads[PZ_TABLE_MOST_COLUMNS] = {"layer", ">x",     "pass", ">ops",
                                              ">us",   ">bound", ">gap"};
  const char *shown[PZ_RESOURCES];
  struct pz_table t;
  int columns = 7;
  double most = 0;
  used_columns(rows, n, shown);
  for (int k = 0; k < PZ_RESOURCES; k++)
    if (shown[k]) heads[columns++] = shown[k];
  heads[columns] = ">speedup";
  pz_table_init(&t, arena, heads);
  for (uint32_t i = 0; i < n; i++) most = fmax(most, rows[i].us);
  for (uint32_t i = 0; i < n; i++) print_row(&t, &rows[i], shown, pz_scheduled_decimals(most));
  return pz_table_print(&t, 0, out);
}

enum pz_status pz_scheduled_table(const struct pz_layer_schedule *const *list, uint32_t n,
                                  bool total, struct pz_arena *arena, FILE *out) {
  struct row *rows = pz_arena_alloc(arena, (size_t)n + 2, sizeof *rows);
  if (!rows) return PZ_NO_MEMORY;
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
    rows[n + d] = (struct row){.layer = "model", .direction = d, .optimal = true};
  for (uint32_t i = 0; i < n; i++) {
    rows[i] = row_of(list[i]);
    add_row(&rows[n + list[i]->direction], &rows[i]);
  }
  return print_rows(rows, total ? n + 2 : n, arena, out);
}

/* ---- statistics ----------------------------------------------------------------------------- */

static void add_count(struct pz_technique_count *sum, const struct pz_technique_count *n,
                      double to_us) {
  sum->calls += n->calls;
  sum->steps += n->steps;
  sum->prunes += n->prunes;
  sum->incumbents += n->incumbents;
  sum->raised += n->raised * to_us;
}

enum pz_status pz_scheduled_statistics(const struct pz_layer_schedule *const *list, uint32_t n,
                                       struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"technique",   ">calls",        ">steps", ">prunes",
                                      ">incumbents", ">bound raised", NULL};
  struct pz_table t;
  bool any = false;
  pz_table_init(&t, arena, heads);
  for (uint32_t k = 0; n && k < list[0]->n_techniques; k++) {
    struct pz_technique_count sum = {0};
    for (uint32_t i = 0; i < n; i++)
      add_count(&sum, &list[i]->techniques[k], pz_scheduled_us(list[i]));
    if (!did_something(&sum)) continue;
    any = true;
    pz_table_cell(&t, "%s", list[0]->techniques[k].name);
    pz_table_cell(&t, "%" PRId64, sum.calls);
    pz_table_cell(&t, "%" PRId64, sum.steps);
    pz_table_cell(&t, "%" PRId64, sum.prunes);
    pz_table_cell(&t, "%" PRId64, sum.incumbents);
    pz_table_cell(&t, "%.2f", sum.raised);
  }
  return any ? pz_table_print(&t, 0, out) : PZ_OK;
}

/* By start and end; equal ones as they are listed. */
static int by_start(const void *a, const void *b) {
  const struct pz_scheduled_operator *x = *(const struct pz_scheduled_operator *const *)a,
                                     *y = *(const struct pz_scheduled_operator *const *)b;
  if (x->start_s != y->start_s) return x->start_s < y->start_s ? -1 : 1;
  if (x->end_s != y->end_s) return x->end_s < y->end_s ? -1 : 1;
  return (x > y) - (x < y);
}

const struct pz_scheduled_operator **pz_scheduled_order(const struct pz_layer_schedule *s,
                                                        struct pz_arena *arena, uint32_t *n) {
  const struct pz_scheduled_operator **order = pz_arena_alloc(arena, s->n_operators, sizeof *order);
  *n = 0;
  for (uint32_t i = 0; order && i < s->n_operators; i++)
    if (s->operators[i].op_class != PZ_CLASS_NONE) order[(*n)++] = &s->operators[i];
  if (order) qsort(order, *n, sizeof *order, by_start);
  return order;
}
