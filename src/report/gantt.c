/* Text Gantt charts: the chart is a table, whose bar column gets the width that the other columns leave.  It is therefore built
 * twice, first without bars to measure the other columns. */
#include "report/gantt.h"

#include <inttypes.h>
#include <string.h>

#include "core/text.h"
#include "report/table.h"

enum { LONGEST_NAME = 32, LEAST_BAR = 20, MOST_BAR = 60 };

/* Shortens a long name to "NAME.." and keeps a suffix such as " (1)", which says which half of a microbatch it is. */
static const char *short_name(const char *name, char buf[LONGEST_NAME + 1]) {
  if (strlen(name) <= LONGEST_NAME) return name;
  char cut[LONGEST_NAME - 1];
  const char *last_four = name + strlen(name) - 4;
  const char *half = strncmp(last_four, " (", 2) == 0 ? last_four : "";
  pz_text_copy(cut, sizeof cut - strlen(half), name);
  snprintf(buf, LONGEST_NAME + 1, "%s..%s", cut, half);
  return buf;
}

/* Returns "8t" for 8 tensor cores, "4t+2v" with vector cores, "8t+link" with the link, or the mode's own name, which is
 * "link", or "single" and "intra" in two-mode problems. */
static const char *mode_text(const struct pz_scheduled_operator *o, char buf[48]) {
  long long tensor = o->tensor_cores, vector = o->vector_cores;
  const char *link = o->used[PZ_LINK] > 0 ? "+link" : "";
  bool mode_is_number = strchr("0123456789", *o->mode) != NULL;
  if (!mode_is_number) return o->mode;
  if (tensor && vector)
    snprintf(buf, 48, "%lldt+%lldv%s", tensor, vector, link);
  else if (tensor)
    snprintf(buf, 48, "%lldt%s", tensor, link);
  else
    snprintf(buf, 48, "%lldv%s", vector, link);
  return buf;
}

static void time_cell(struct pz_table *t, const struct pz_layer_schedule *s, double time) {
  double to_us = pz_scheduled_us(s);
  if (s->layer)
    pz_table_cell(t, "%.*f", pz_scheduled_decimals(s->makespan_s * to_us), time * to_us);
  else
    pz_table_cell(t, "%.9g", time * to_us);
}

static char bar_letter(enum pz_op_class c) {
  switch (c) {
  case PZ_CLASS_TENSOR:
  case PZ_CLASS_FUSED: return '#';
  case PZ_CLASS_COLLECTIVE: return '~';
  case PZ_CLASS_VECTOR:
  case PZ_CLASS_NONE: break;
  }
  return '=';
}

/* Every bar has at least one character, so that nothing is invisible; '|' marks an operator without duration. */
static void bar_cell(struct pz_table *t, const struct pz_scheduled_operator *o, double makespan,
                     int width) {
  char buf[MOST_BAR + 1];
  int from = makespan > 0 ? (int)(o->start_s / makespan * width) : 0;
  int to = makespan > 0 ? (int)(o->end_s / makespan * width + 0.5) : 0;
  if (from >= width) from = width - 1;
  if (to <= from) to = from + 1;
  if (to > width) to = width;
  memset(buf, ' ', sizeof buf);
  memset(buf + from, o->end_s > o->start_s ? bar_letter(o->op_class) : '|', (size_t)(to - from));
  buf[to] = '\0';
  pz_table_cell(t, "%s", buf);
}

/* Returns the chart with bars of that width, or without bars if it is 0. */
static struct pz_table *build_chart(struct pz_call *call, const struct pz_layer_schedule *s,
                                    const struct pz_scheduled_operator *const *operators,
                                    uint32_t n, int bar_width) {
  static const char *const layer_heads[] = {">op", "operator", "mode", ">start", ">end", "", NULL};
  static const char *const instance_heads[] = {">op", "mode", ">start", ">end", "", NULL};
  struct pz_table *t = pz_table_new(call, s->layer ? layer_heads : instance_heads);
  for (uint32_t i = 0; i < n; i++) {
    const struct pz_scheduled_operator *o = operators[i];
    char name[LONGEST_NAME + 1], mode[48];
    pz_table_cell(t, "%" PRId64, o->id);
    if (s->layer) pz_table_cell(t, "%s", short_name(o->name, name));
    pz_table_cell(t, "%s", mode_text(o, mode));
    time_cell(t, s, o->start_s);
    time_cell(t, s, o->end_s);
    if (bar_width)
      bar_cell(t, o, s->makespan_s, bar_width);
    else
      pz_table_cell(t, "%s", "");
  }
  return t;
}

void pz_gantt_chart(struct pz_call *call, const struct pz_layer_schedule *s, FILE *out) {
  uint32_t n;
  const struct pz_scheduled_operator **operators = pz_shown_operators(call, s, &n);
  struct pz_table *without_bars = build_chart(call, s, operators, n, 0);
  int width = PZ_GANTT_COLUMNS - pz_table_width(without_bars);
  if (width < LEAST_BAR) width = LEAST_BAR;
  if (width > MOST_BAR) width = MOST_BAR;
  pz_table_write(call, build_chart(call, s, operators, n, width), 0, out);
  uint32_t hidden = s->n_operators - n;
  if (hidden)
    fprintf(out, "not shown: %" PRIu32 " operator%s of zero duration\n", hidden, pz_text_s(hidden));
}

/* ---- for callers that return a status ------------------------------------------------------- */

struct gantt_printing {
  const struct pz_layer_schedule *schedule;
  FILE *out;
};

static void print_gantt(struct pz_call *call, void *ctx) {
  const struct gantt_printing *x = ctx;
  pz_gantt_chart(call, x->schedule, x->out);
}

enum pz_status pz_gantt_print(const struct pz_layer_schedule *s, struct pz_arena *arena,
                              FILE *out) {
  struct gantt_printing x = {s, out};
  (void)arena;
  return pz_border(print_gantt, &x, NULL);
}
