/* Tables and Gantt charts of solved schedules.  A chart is a table that is built twice: without
 * bars, to measure the other columns, and with bars of the width that these leave. */
#include "report/schedule_table.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "report/table.h"

static const char *const direction_names[] = {"forward", "backward"};

/* Writes the layer and its pass, "block backward", or the name of an instance, and returns buf. */
const char *pz_scheduled_title(const struct pz_layer_schedule *schedule, char buf[256]) {
  snprintf(buf, 256, schedule->layer ? "%s %s" : "%s",
           schedule->layer ? schedule->layer : schedule->model,
           direction_names[schedule->direction]);
  return buf;
}

/* Returns the gap of a schedule relative to its makespan, or 0 if the makespan is 0. */
double pz_schedule_gap(double makespan, double lower_bound) {
  return makespan > 0 ? (makespan - lower_bound) / makespan : 0;
}

/* Returns "optimal", or the gap in percent, which it writes into buf. */
const char *pz_scheduled_gap_text(double gap, bool optimal, char buf[16]) {
  if (optimal) return "optimal";
  snprintf(buf, 16, gap < 5e-5 ? "<0.01%%" : "%.2f%%", 100 * gap);
  return buf;
}

/* ---- table ---------------------------------------------------------------------------------- */

/* A row in microseconds: one schedule, or the sum of the schedules of all layers, by their
 * count. */
struct schedule_row {
  const char *layer;
  enum pz_direction direction;
  int64_t count, operators; /* count: how often the layer occurs; 0 in a row of totals */
  double us, bound_us, serial_us;
  double used_us[PZ_RESOURCES]; /* used fraction of the resource, times microseconds */
  bool optimal;
};

/* Prints the rows.  A resource that no schedule uses has no column. */
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
  for (int resource = 0; resource < PZ_RESOURCES; resource++) {
    for (uint32_t i = 0; i < n; i++)
      if (rows[i].used_us[resource] > 0) shown[resource] = true;
    if (shown[resource]) heads[columns++] = resource_heads[resource];
  }
  heads[columns] = ">speedup";
  struct pz_table *table = pz_table_with(call, heads);
  int decimals = most_us < 1e5 ? 2 : most_us < 1e6 ? 1 : 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct schedule_row *row = &rows[i];
    char gap[16], count[24] = "";
    if (row->count) snprintf(count, sizeof count, "%" PRId64, row->count);
    double relative_gap = pz_schedule_gap(row->us, row->bound_us);
    pz_table_cells(table, "%s|%s|%s|%" PRId64 "|%.*f|%.*f|%s", row->layer, count,
                   direction_names[row->direction], row->operators, decimals, row->us, decimals,
                   row->bound_us, pz_scheduled_gap_text(relative_gap, row->optimal, gap));
    for (int resource = 0; resource < PZ_RESOURCES; resource++)
      if (shown[resource])
        pz_table_cell(table, "%.0f%%", row->us > 0 ? 100 * row->used_us[resource] / row->us : 0);
    pz_table_cell(table, "%.2fx", row->us > 0 ? row->serial_us / row->us : 1);
  }
  pz_table_print(table, 0, out);
}

/* Prints a row for each schedule and, if `total`, for the sum of each pass over all layers. */
void pz_schedules_table(struct pz_call *call, const struct pz_layer_schedule *const *list,
                        uint32_t n, bool total, FILE *out) {
  struct schedule_row *rows = pz_alloc(call, (size_t)n + 2, sizeof *rows);
  for (enum pz_direction direction = PZ_FORWARD; direction <= PZ_BACKWARD; direction++)
    rows[n + direction] =
        (struct schedule_row){.layer = "model", .direction = direction, .optimal = true};
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_layer_schedule *schedule = list[i];
    struct schedule_row *row = &rows[i];
    *row = (struct schedule_row){.layer = schedule->layer,
                                 .direction = schedule->direction,
                                 .count = schedule->count,
                                 .operators = schedule->n_operators,
                                 .us = schedule->makespan_s * 1e6,
                                 .bound_us = schedule->lower_bound_s * 1e6,
                                 .serial_us = schedule->serial_s * 1e6,
                                 .optimal = schedule->optimal};
    for (int resource = 0; resource < PZ_RESOURCES; resource++)
      row->used_us[resource] = schedule->use[resource] * row->us;
    /* Adds the schedule to the total of its pass over all layers. */
    struct schedule_row *sum = &rows[n + schedule->direction];
    double count = (double)row->count;
    sum->operators += row->operators * row->count;
    sum->us += row->us * count;
    sum->bound_us += row->bound_us * count;
    sum->serial_us += row->serial_us * count;
    sum->optimal = sum->optimal && row->optimal;
    for (int resource = 0; resource < PZ_RESOURCES; resource++)
      sum->used_us[resource] += row->used_us[resource] * count;
  }
  print_rows(call, rows, total ? n + 2 : n, out);
}

/* ---- statistics ----------------------------------------------------------------------------- */

/* Sums the counters of each technique over the schedules; raised bounds are in microseconds. */
void pz_schedules_statistics(struct pz_call *call, const struct pz_layer_schedule *const *list,
                             uint32_t n, FILE *out) {
  struct pz_table *table =
      pz_table_new(call, "technique|>calls|>steps|>prunes|>incumbents|>bound raised");
  bool any = false;
  for (uint32_t k = 0; n && k < list[0]->n_techniques; k++) {
    struct pz_technique_count sum = {0};
    for (uint32_t i = 0; i < n; i++) {
      const struct pz_technique_count *count = &list[i]->techniques[k];
      sum.calls += count->calls;
      sum.steps += count->steps;
      sum.prunes += count->prunes;
      sum.incumbents += count->incumbents;
      sum.raised += count->raised * (list[i]->layer ? 1e6 : 1);
    }
    bool used = sum.calls || sum.steps || sum.prunes || sum.incumbents || sum.raised > 0;
    if (!used) continue;
    any = true;
    pz_table_cells(table, "%s|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%.2f",
                   list[0]->techniques[k].name, sum.calls, sum.steps, sum.prunes, sum.incumbents,
                   sum.raised);
  }
  if (any) pz_table_print(table, 0, out);
}

/* ---- operators that are shown --------------------------------------------------------------- */

/* Compares pointers to operators by start, then end, then position in their array, for qsort. */
static int compare_starts(const void *a, const void *b) {
  const struct pz_scheduled_operator *first = *(const struct pz_scheduled_operator *const *)a;
  const struct pz_scheduled_operator *second = *(const struct pz_scheduled_operator *const *)b;
  if (first->start_s != second->start_s) return first->start_s < second->start_s ? -1 : 1;
  if (first->end_s != second->end_s) return first->end_s < second->end_s ? -1 : 1;
  return (first > second) - (first < second);
}

/* Returns the operators that take time, sorted by start, and their number in *n.  Operators of
 * PZ_CLASS_NONE only change shapes. */
const struct pz_scheduled_operator **
pz_shown_operators(struct pz_call *call, const struct pz_layer_schedule *schedule, uint32_t *n) {
  const struct pz_scheduled_operator **shown = pz_alloc(call, schedule->n_operators, sizeof *shown);
  *n = 0;
  for (uint32_t i = 0; i < schedule->n_operators; i++)
    if (schedule->operators[i].op_class != PZ_CLASS_NONE) shown[(*n)++] = &schedule->operators[i];
  qsort(shown, *n, sizeof *shown, compare_starts);
  return shown;
}

/* ---- Gantt charts --------------------------------------------------------------------------- */

enum { LONGEST_NAME = 32, LEAST_BAR = 20, MOST_BAR = 60 };

/* Returns "8t" for 8 tensor cores, "4t+2v" with vector cores, "8t+link" with the link, or the
 * mode's own name, which is "link", or "single" and "intra" in two-mode problems. */
static const char *mode_text(const struct pz_scheduled_operator *op, char buf[48]) {
  long long tensor = op->tensor_cores, vector = op->vector_cores;
  const char *link = op->used[PZ_LINK] > 0 ? "+link" : "";
  bool mode_is_number = strchr("0123456789", *op->mode) != NULL;
  if (!mode_is_number) return op->mode;
  if (tensor && vector)
    snprintf(buf, 48, "%lldt+%lldv%s", tensor, vector, link);
  else if (tensor)
    snprintf(buf, 48, "%lldt%s", tensor, link);
  else
    snprintf(buf, 48, "%lldv%s", vector, link);
  return buf;
}

/* Adds the time of an operator as a bar of '#' (tensor cores), '~' (collectives) or '=' (vector
 * cores), of at least one character. '|' marks an operator without duration. */
static void append_bar(struct pz_table *table, const struct pz_scheduled_operator *op,
                       double makespan, int width) {
  char bar[MOST_BAR + 1], letter = '=';
  int from = makespan > 0 ? (int)(op->start_s / makespan * width) : 0;
  int to = makespan > 0 ? (int)(op->end_s / makespan * width + 0.5) : 0;
  if (from >= width) from = width - 1;
  if (to <= from) to = from + 1;
  if (to > width) to = width;
  if (op->op_class == PZ_CLASS_TENSOR || op->op_class == PZ_CLASS_FUSED) letter = '#';
  if (op->op_class == PZ_CLASS_COLLECTIVE) letter = '~';
  memset(bar, ' ', sizeof bar);
  memset(bar + from, op->end_s > op->start_s ? letter : '|', (size_t)(to - from));
  bar[to] = '\0';
  pz_table_cell(table, "%s", bar);
}

/* Returns the chart with bars of that width, or without bars if it is 0. */
static struct pz_table *build_chart(struct pz_call *call, const struct pz_layer_schedule *schedule,
                                    const struct pz_scheduled_operator *const *operators,
                                    uint32_t n, int bar_width) {
  struct pz_table *table = pz_table_new(call, schedule->layer ? ">op|operator|mode|>start|>end|"
                                                              : ">op|mode|>start|>end|");
  double to_us = schedule->layer ? 1e6 : 1;
  double most_us = schedule->makespan_s * to_us;
  int decimals = most_us < 1e5 ? 2 : most_us < 1e6 ? 1 : 0;
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_scheduled_operator *op = operators[i];
    char name[LONGEST_NAME + 1], mode[48];
    if (schedule->layer) {
      /* Shortens a long name to "NAME..", but keeps " (1)", the half of a microbatch. */
      bool is_long = strlen(op->name) > LONGEST_NAME;
      const char *half = is_long ? op->name + strlen(op->name) - 4 : "";
      if (strncmp(half, " (", 2) != 0) half = "";
      pz_text_copy(name, sizeof name - (is_long ? 2 + strlen(half) : 0), op->name);
      if (is_long) snprintf(name + strlen(name), sizeof name - strlen(name), "..%s", half);
      pz_table_cells(table, "%" PRId64 "|%s|%s|%.*f|%.*f", op->id, name, mode_text(op, mode),
                     decimals, op->start_s * to_us, decimals, op->end_s * to_us);
    } else {
      pz_table_cells(table, "%" PRId64 "|%s|%.9g|%.9g", op->id, mode_text(op, mode),
                     op->start_s * to_us, op->end_s * to_us);
    }
    if (bar_width)
      append_bar(table, op, schedule->makespan_s, bar_width);
    else
      pz_table_cell(table, "%s", "");
  }
  return table;
}

/* Prints the chart with bars as wide as the other columns leave room for. */
void pz_gantt_chart(struct pz_call *call, const struct pz_layer_schedule *schedule, FILE *out) {
  uint32_t n;
  const struct pz_scheduled_operator **operators = pz_shown_operators(call, schedule, &n);
  const struct pz_table *without_bars = build_chart(call, schedule, operators, n, 0);
  int width = PZ_GANTT_COLUMNS - pz_table_width(without_bars);
  if (width < LEAST_BAR) width = LEAST_BAR;
  if (width > MOST_BAR) width = MOST_BAR;
  pz_table_print(build_chart(call, schedule, operators, n, width), 0, out);
  uint32_t n_hidden = schedule->n_operators - n;
  if (n_hidden)
    fprintf(out, "not shown: %" PRIu32 " operator%s of zero duration\n", n_hidden,
            pz_text_s(n_hidden));
}
