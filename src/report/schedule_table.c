#include "report/schedule_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/table.h"

static const char *const outcome_names[] = {"optimal", "feasible"};
static const char *const stop_names[] = {"proved", "steps", "time"};
static const char *const direction_names[] = {"forward", "backward"};
static const char *const resource_keys[PZ_RESOURCES] = {"tensor", "vector", "link", "hbm", "glb"};

static double gap(double makespan, double bound) {
  return makespan > 0 ? (makespan - bound) / makespan : 0;
}

double pz_scheduled_gap(const struct pz_scheduled *s) {
  return gap(s->schedule.makespan, s->schedule.lower_bound);
}

const char *pz_scheduled_gap_text(double part, bool optimal, char buf[16]) {
  if (optimal) return "optimal";
  snprintf(buf, 16, part < 5e-5 ? "<0.01%%" : "%.2f%%", 100 * part);
  return buf;
}

int pz_scheduled_decimals(double most_us) { return most_us < 1e5 ? 2 : most_us < 1e6 ? 1 : 0; }

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *op_json(const struct pz_task *t, const struct pz_slot *slot) {
  const struct pz_mode *m = &t->modes[slot->mode];
  char buf[16];
  return json_pack("{s:I,s:s,s:s,s:s,s:f,s:f,s:{s:i,s:i}}", "id", (json_int_t)t->id, "name",
                   t->name, "class", pz_op_class_name(t->op_class), "mode", pz_mode_name(m, buf),
                   "start", slot->start, "end", slot->end, "cores", "tensor",
                   (int)m->use[PZ_TENSOR_CORES], "vector", (int)m->use[PZ_VECTOR_CORES]);
}

/* Is the rate part of the problem?  Cores and link always are. */
static bool counts(const struct pz_problem *p, int r) {
  if (r != PZ_HBM_RATE && r != PZ_GLB_RATE) return true;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t m = 0; m < p->tasks[i].n_modes; m++)
      if (p->tasks[i].modes[m].use[r]) return true;
  return false;
}

static json_t *use_json(const struct pz_scheduled *s) {
  double share[PZ_RESOURCES];
  json_t *o = json_object();
  pz_schedule_use(&s->problem, s->schedule.slots, s->schedule.makespan, share);
  for (int r = 0; r < PZ_RESOURCES; r++)
    json_object_set_new(o, resource_keys[r],
                        counts(&s->problem, r) ? json_real(share[r]) : json_null());
  return o;
}

static bool did_something(const struct pz_technique_count *n) {
  return n->calls || n->steps || n->prunes || n->incumbents || n->raised > 0;
}

/* Techniques that did something. */
static json_t *statistics_json(const struct pz_solve_statistics *s) {
  json_t *o = json_object();
  for (enum pz_technique t = 0; t < PZ_TECHNIQUES; t++) {
    const struct pz_technique_count *n = &s->by[t];
    if (!did_something(n)) continue;
    json_object_set_new(o, pz_technique_name(t),
                        json_pack("{s:I,s:I,s:I,s:I,s:f}", "calls", (json_int_t)n->calls, "steps",
                                  (json_int_t)n->steps, "prunes", (json_int_t)n->prunes,
                                  "incumbents", (json_int_t)n->incumbents, "bound_raised",
                                  n->raised));
  }
  return o;
}

json_t *pz_scheduled_json(const struct pz_scheduled *s) {
  const struct pz_schedule *d = &s->schedule;
  json_t *ops = json_array();
  for (uint32_t i = 0; i < s->problem.n; i++)
    json_array_append_new(ops, op_json(&s->problem.tasks[i], &d->slots[i]));
  json_t *o = s->layer ? json_pack("{s:s,s:I,s:s}", "layer", s->layer, "count",
                                   (json_int_t)s->count, "direction", direction_names[s->direction])
                       : json_object();
  json_t *rest = json_pack("{s:f,s:f,s:f,s:s,s:s,s:I,s:f,s:f,s:o,s:o,s:o}", "makespan", d->makespan,
                           "lower_bound", d->lower_bound, "gap", pz_scheduled_gap(s), "outcome",
                           outcome_names[d->outcome], "stop", stop_names[d->stop], "steps",
                           (json_int_t)d->steps, "seconds", s->solve_s, "serial",
                           pz_problem_serial(&s->problem), "utilisation", use_json(s), "statistics",
                           statistics_json(&d->statistics), "ops", ops);
  bool whole = json_object_update(o, rest) == 0;
  json_decref(rest);
  if (whole) return o;
  json_decref(o);
  return NULL;
}

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

static struct row row_of(const struct pz_scheduled *s) {
  const struct pz_schedule *d = &s->schedule;
  struct row r = {.layer = s->layer,
                  .direction = s->direction,
                  .count = s->count,
                  .ops = s->problem.n,
                  .us = d->makespan * s->to_us,
                  .bound_us = d->lower_bound * s->to_us,
                  .serial_us = pz_problem_serial(&s->problem) * s->to_us,
                  .optimal = d->outcome == PZ_OUTCOME_OPTIMAL};
  pz_schedule_use(&s->problem, d->slots, d->makespan, r.used_us);
  for (int k = 0; k < PZ_RESOURCES; k++) r.used_us[k] *= r.us;
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
  static const char *const heads[PZ_RESOURCES] = {">tensor", ">vector", ">link", ">hbm", ">glb"};
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

enum pz_status pz_scheduled_table(const struct pz_scheduled *list, uint32_t n, bool total,
                                  struct pz_arena *arena, FILE *out) {
  struct row *rows = pz_arena_alloc(arena, (size_t)n + 2, sizeof *rows);
  if (!rows) return PZ_NO_MEMORY;
  for (enum pz_direction d = PZ_FORWARD; d <= PZ_BACKWARD; d++)
    rows[n + d] = (struct row){.layer = "model", .direction = d, .optimal = true};
  for (uint32_t i = 0; i < n; i++) {
    rows[i] = row_of(&list[i]);
    add_row(&rows[n + list[i].direction], &rows[i]);
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

enum pz_status pz_scheduled_statistics(const struct pz_scheduled *list, uint32_t n,
                                       struct pz_arena *arena, FILE *out) {
  static const char *const heads[] = {"technique",   ">calls",        ">steps", ">prunes",
                                      ">incumbents", ">bound raised", NULL};
  struct pz_table t;
  bool any = false;
  pz_table_init(&t, arena, heads);
  for (enum pz_technique k = 0; k < PZ_TECHNIQUES; k++) {
    struct pz_technique_count sum = {0};
    for (uint32_t i = 0; i < n; i++)
      add_count(&sum, &list[i].schedule.statistics.by[k], list[i].to_us);
    if (!did_something(&sum)) continue;
    any = true;
    pz_table_cell(&t, "%s", pz_technique_name(k));
    pz_table_cell(&t, "%" PRId64, sum.calls);
    pz_table_cell(&t, "%" PRId64, sum.steps);
    pz_table_cell(&t, "%" PRId64, sum.prunes);
    pz_table_cell(&t, "%" PRId64, sum.incumbents);
    pz_table_cell(&t, "%.2f", sum.raised);
  }
  return any ? pz_table_print(&t, 0, out) : PZ_OK;
}

/* qsort has no context: keys are copied beside the index. */
struct place {
  double start, end;
  uint32_t task;
};

static int by_start(const void *a, const void *b) {
  const struct place *x = a, *y = b;
  if (x->start != y->start) return x->start < y->start ? -1 : 1;
  if (x->end != y->end) return x->end < y->end ? -1 : 1;
  return (x->task > y->task) - (x->task < y->task);
}

const uint32_t *pz_scheduled_order(const struct pz_scheduled *s, struct pz_arena *arena,
                                   uint32_t *n) {
  struct place *places = pz_arena_alloc(arena, s->problem.n, sizeof *places);
  uint32_t *order = pz_arena_alloc(arena, s->problem.n, sizeof *order);
  *n = 0;
  if (!places || !order) return NULL;
  for (uint32_t i = 0; i < s->problem.n; i++)
    if (s->problem.tasks[i].op_class != PZ_CLASS_NONE)
      places[(*n)++] = (struct place){s->schedule.slots[i].start, s->schedule.slots[i].end, i};
  qsort(places, *n, sizeof *places, by_start);
  for (uint32_t i = 0; i < *n; i++) order[i] = places[i].task;
  return order;
}
