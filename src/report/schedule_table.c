/* JSON and tables of solved schedules.  Every row of the table is a sum of schedules, weighted by how often the layer occurs; a
 * row of a single schedule is a sum of one. */
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

static double relative_gap(double makespan, double bound) {
  return makespan > 0 ? (makespan - bound) / makespan : 0;
}

double pz_scheduled_gap(const struct pz_layer_schedule *s) {
  return relative_gap(s->makespan_s, s->lower_bound_s);
}

const char *pz_scheduled_gap_text(double part, bool optimal, char buf[16]) {
  if (optimal) return "optimal";
  snprintf(buf, 16, part < 5e-5 ? "<0.01%%" : "%.2f%%", 100 * part);
  return buf;
}

int pz_scheduled_decimals(double most_us) {
  if (most_us < 1e5) return 2;
  return most_us < 1e6 ? 1 : 0;
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static bool did_something(const struct pz_technique_count *n) {
  return n->calls || n->steps || n->prunes || n->incumbents || n->raised > 0;
}

/* Counters of the techniques that did something, by name. */
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
  json_t *o = json_object(), *ops = json_array(), *use = json_object();
  if (s->layer) {
    json_object_set_new(o, "layer", json_string(s->layer));
    json_object_set_new(o, "count", json_integer((json_int_t)s->count));
    json_object_set_new(o, "direction", json_string(direction_names[s->direction]));
  }
  for (int r = 0; r < PZ_RESOURCES; r++)
    json_object_set_new(use, resource_keys[r], s->limits[r] ? json_real(s->use[r]) : json_null());
  for (uint32_t i = 0; i < s->n_operators; i++) {
    const struct pz_scheduled_operator *op = &s->operators[i];
    json_array_append_new(
        ops, json_pack("{s:I,s:s,s:s,s:s,s:f,s:f,s:{s:I,s:I}}", "id", (json_int_t)op->id, "name",
                       op->name, "class", pz_op_class_name(op->op_class), "mode", op->mode, "start",
                       op->start_s, "end", op->end_s, "cores", "tensor",
                       (json_int_t)op->tensor_held, "vector", (json_int_t)op->vector_held));
  }
  json_t *rest = json_pack("{s:f,s:f,s:f,s:s,s:s,s:I,s:o,s:f,s:o,s:o,s:o}", "makespan",
                           s->makespan_s, "lower_bound", s->lower_bound_s, "gap",
                           pz_scheduled_gap(s), "outcome", s->optimal ? "optimal" : "feasible",
                           "stop", stop_names[s->stop], "steps", (json_int_t)s->steps, "seconds",
                           solve_s >= 0 ? json_real(solve_s) : json_null(), "serial", s->serial_s,
                           "utilisation", use, "statistics", statistics_json(s), "ops", ops);
  bool complete = json_object_update(o, rest) == 0;
  json_decref(rest);
  if (complete) return o;
  json_decref(o);
  return NULL;
}

json_t *pz_scheduled_plan_json(const struct pz_plan_schedules *s) { return pz_plan_json(&s->plan); }

/* ---- table ---------------------------------------------------------------------------------- */

struct schedule_row {
  const char *layer;
  enum pz_direction direction;
  int64_t count, operators; /* count: how often the layer occurs; 0 in a row of totals */
  double us, bound_us, serial_us;
  double used_us[PZ_RESOURCES]; /* used fraction of the resource x time */
  bool optimal;
};

static struct schedule_row row_of_schedule(const struct pz_layer_schedule *s) {
  struct schedule_row r = {.layer = s->layer,
                           .direction = s->direction,
                           .count = s->count,
                           .operators = s->n_operators,
                           .us = s->makespan_s * 1e6,
                           .bound_us = s->lower_bound_s * 1e6,
                           .serial_us = s->serial_s * 1e6,
                           .optimal = s->optimal};
  for (int k = 0; k < PZ_RESOURCES; k++) r.used_us[k] = s->use[k] * r.us;
  return r;
}

static void add_to_total(struct schedule_row *total, const struct schedule_row *r) {
  double times = (double)r->count;
  total->operators += r->operators * r->count;
  total->us += r->us * times;
  total->bound_us += r->bound_us * times;
  total->serial_us += r->serial_us * times;
  total->optimal = total->optimal && r->optimal;
  for (int k = 0; k < PZ_RESOURCES; k++) total->used_us[k] += r->used_us[k] * times;
}

static void append_row(struct pz_table *t, const struct schedule_row *r,
                       const bool shown[PZ_RESOURCES], int decimals) {
  char gap[16];
  pz_table_cell(t, "%s", r->layer);
  if (r->count)
    pz_table_cell(t, "%" PRId64, r->count);
  else
    pz_table_cell(t, "%s", "");
  pz_table_cell(t, "%s", direction_names[r->direction]);
  pz_table_cell(t, "%" PRId64, r->operators);
  pz_table_cell(t, "%.*f", decimals, r->us);
  pz_table_cell(t, "%.*f", decimals, r->bound_us);
  pz_table_cell(t, "%s", pz_scheduled_gap_text(relative_gap(r->us, r->bound_us), r->optimal, gap));
  for (int k = 0; k < PZ_RESOURCES; k++)
    if (shown[k]) pz_table_cell(t, "%.0f%%", r->us > 0 ? 100 * r->used_us[k] / r->us : 0);
  pz_table_cell(t, "%.2fx", r->us > 0 ? r->serial_us / r->us : 1);
}

/* Resources that no schedule uses have no column. */
static void print_rows(struct pz_call *call, const struct schedule_row *rows, uint32_t n,
                       FILE *out) {
  static const char *const resource_heads[PZ_RESOURCES] = {">tensor", ">vector", ">link",
                                                           ">hbm",    ">glb",    ">power"};
  const char *heads[PZ_TABLE_MOST_COLUMNS] = {"layer", ">x",     "pass", ">ops",
                                              ">us",   ">bound", ">gap"};
  bool shown[PZ_RESOURCES] = {false};
  int columns = 7;
  double most_us = 0;
  for (uint32_t i = 0; i < n; i++) most_us = fmax(most_us, rows[i].us);
  for (int k = 0; k < PZ_RESOURCES; k++) {
    for (uint32_t i = 0; i < n; i++)
      if (rows[i].used_us[k] > 0) shown[k] = true;
    if (shown[k]) heads[columns++] = resource_heads[k];
  }
  heads[columns] = ">speedup";
  struct pz_table *t = pz_table_new(call, heads);
  for (uint32_t i = 0; i < n; i++) append_row(t, &rows[i], shown, pz_scheduled_decimals(most_us));
  pz_table_write(call, t, 0, out);
}

void pz_schedules_table(struct pz_call *call, const struct pz_layer_schedule *const *list,
                        uint32_t n, bool total, FILE *out) {
  struct schedule_row *rows = pz_alloc(call, (size_t)n + 2, sizeof *rows);
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
    rows[n + d] = (struct schedule_row){.layer = "model", .direction = d, .optimal = true};
  for (uint32_t i = 0; i < n; i++) {
    rows[i] = row_of_schedule(list[i]);
    add_to_total(&rows[n + list[i]->direction], &rows[i]);
  }
  print_rows(call, rows, total ? n + 2 : n, out);
}

/* ---- statistics ----------------------------------------------------------------------------- */

void pz_schedules_statistics(struct pz_call *call, const struct pz_layer_schedule *const *list,
                             uint32_t n, FILE *out) {
  static const char *const heads[] = {"technique",   ">calls",        ">steps", ">prunes",
                                      ">incumbents", ">bound raised", NULL};
  struct pz_table *t = pz_table_new(call, heads);
  bool any = false;
  for (uint32_t k = 0; n && k < list[0]->n_techniques; k++) {
    struct pz_technique_count sum = {0};
    for (uint32_t i = 0; i < n; i++) {
      const struct pz_technique_count *count = &list[i]->techniques[k];
      sum.calls += count->calls;
      sum.steps += count->steps;
      sum.prunes += count->prunes;
      sum.incumbents += count->incumbents;
      sum.raised += count->raised * pz_scheduled_us(list[i]);
    }
    if (!did_something(&sum)) continue;
    any = true;
    pz_table_cell(t, "%s", list[0]->techniques[k].name);
    pz_table_cell(t, "%" PRId64, sum.calls);
    pz_table_cell(t, "%" PRId64, sum.steps);
    pz_table_cell(t, "%" PRId64, sum.prunes);
    pz_table_cell(t, "%" PRId64, sum.incumbents);
    pz_table_cell(t, "%.2f", sum.raised);
  }
  if (any) pz_table_write(call, t, 0, out);
}

/* ---- operators that are shown --------------------------------------------------------------- */

/* For qsort; equal operators keep their order. */
static int compare_starts(const void *a, const void *b) {
  const struct pz_scheduled_operator *x = *(const struct pz_scheduled_operator *const *)a;
  const struct pz_scheduled_operator *y = *(const struct pz_scheduled_operator *const *)b;
  if (x->start_s != y->start_s) return x->start_s < y->start_s ? -1 : 1;
  if (x->end_s != y->end_s) return x->end_s < y->end_s ? -1 : 1;
  return (x > y) - (x < y);
}

const struct pz_scheduled_operator **
pz_shown_operators(struct pz_call *call, const struct pz_layer_schedule *s, uint32_t *n) {
  const struct pz_scheduled_operator **shown = pz_alloc(call, s->n_operators, sizeof *shown);
  *n = 0;
  for (uint32_t i = 0; i < s->n_operators; i++)
    if (s->operators[i].op_class != PZ_CLASS_NONE) shown[(*n)++] = &s->operators[i];
  qsort(shown, *n, sizeof *shown, compare_starts);
  return shown;
}

/* ---- for callers that return a status ------------------------------------------------------- */

struct schedules_printing {
  const struct pz_layer_schedule *const *list;
  uint32_t n;
  bool total;
  FILE *out;
};

static void print_table(struct pz_call *call, void *ctx) {
  const struct schedules_printing *x = ctx;
  pz_schedules_table(call, x->list, x->n, x->total, x->out);
}

enum pz_status pz_scheduled_table(const struct pz_layer_schedule *const *list, uint32_t n,
                                  bool total, struct pz_arena *arena, FILE *out) {
  struct schedules_printing x = {list, n, total, out};
  (void)arena;
  return pz_border(print_table, &x, NULL);
}

static void print_statistics(struct pz_call *call, void *ctx) {
  const struct schedules_printing *x = ctx;
  pz_schedules_statistics(call, x->list, x->n, x->out);
}

enum pz_status pz_scheduled_statistics(const struct pz_layer_schedule *const *list, uint32_t n,
                                       struct pz_arena *arena, FILE *out) {
  struct schedules_printing x = {list, n, false, out};
  (void)arena;
  return pz_border(print_statistics, &x, NULL);
}
