#include "report/gantt.h"

#include <inttypes.h>
#include <string.h>

#include "core/text.h"
#include "report/table.h"

enum { LONGEST_NAME = 32, LEAST_BAR = 20, MOST_BAR = 60 };

struct chart {
  const struct pz_layer_schedule *s;
  const struct pz_scheduled_operator **order; /* that are shown */
  uint32_t n;
};

static const char *name_text(const char *name, char buf[LONGEST_NAME + 1]) {
  if (strlen(name) <= LONGEST_NAME) return name;
  char cut[LONGEST_NAME - 1];
  size_t n = strlen(name) - 4; /* which half of a microbatch stands at the end */
  const char *half = strncmp(name + n, " (", 2) == 0 ? name + n : "";
  pz_text_copy(cut, sizeof cut - strlen(half), name);
  snprintf(buf, LONGEST_NAME + 1, "%s..%s", cut, half);
  return buf;
}

/* "8t", "4t+2v", "8t+link", "link"; "single" and "intra" of the two-mode problem. */
static const char *mode_text(const struct pz_scheduled_operator *o, char buf[48]) {
  long long tensor = o->tensor_cores, vector = o->vector_cores;
  const char *link = o->used[PZ_LINK] > 0 ? "+link" : "";
  if (!strchr("0123456789", *o->mode)) return o->mode;
  if (tensor && vector)
    snprintf(buf, 48, "%lldt+%lldv%s", tensor, vector, link);
  else
    snprintf(buf, 48, "%lld%c%s", tensor ? tensor : vector, tensor ? 't' : 'v', link);
  return buf;
}

static void time_cell(struct pz_table *t, const struct pz_layer_schedule *s, double time) {
  double to_us = pz_scheduled_us(s);
  if (s->layer)
    pz_table_cell(t, "%.*f", pz_scheduled_decimals(s->makespan_s * to_us), time * to_us);
  else
    pz_table_cell(t, "%.9g", time * to_us);
}

static char ink(enum pz_op_class c) {
  switch (c) {
  case PZ_CLASS_TENSOR:
  case PZ_CLASS_FUSED: return '#';
  case PZ_CLASS_COLLECTIVE: return '~';
  case PZ_CLASS_VECTOR:
  case PZ_CLASS_NONE: break;
  }
  return '=';
}

/* At least one character, so that nothing is invisible; '|' has no length at all. */
static void bar_cell(struct pz_table *t, const struct pz_scheduled_operator *o, double makespan,
                     int width) {
  char buf[MOST_BAR + 1];
  int from = makespan > 0 ? (int)(o->start_s / makespan * width) : 0;
  int to = makespan > 0 ? (int)(o->end_s / makespan * width + 0.5) : 0;
  if (from >= width) from = width - 1;
  if (to <= from) to = from + 1;
  if (to > width) to = width;
  memset(buf, ' ', sizeof buf);
  memset(buf + from, o->end_s > o->start_s ? ink(o->op_class) : '|', (size_t)(to - from));
  buf[to] = '\0';
  pz_table_cell(t, "%s", buf);
}

/* The rows with bars of a width; 0: without. */
static void fill(const struct chart *c, struct pz_table *t, struct pz_arena *arena, int width) {
  static const char *const of_layer[] = {">op", "operator", "mode", ">start", ">end", "", NULL};
  static const char *const of_instance[] = {">op", "mode", ">start", ">end", "", NULL};
  pz_table_init(t, arena, c->s->layer ? of_layer : of_instance);
  for (uint32_t i = 0; i < c->n; i++) {
    const struct pz_scheduled_operator *o = c->order[i];
    char name[LONGEST_NAME + 1], mode[48];
    pz_table_cell(t, "%" PRId64, o->id);
    if (c->s->layer) pz_table_cell(t, "%s", name_text(o->name, name));
    pz_table_cell(t, "%s", mode_text(o, mode));
    time_cell(t, c->s, o->start_s);
    time_cell(t, c->s, o->end_s);
    if (width)
      bar_cell(t, o, c->s->makespan_s, width);
    else
      pz_table_cell(t, "%s", "");
  }
}

/* Set twice: the bars get what the other columns leave. */
enum pz_status pz_gantt_print(const struct pz_layer_schedule *s, struct pz_arena *arena,
                              FILE *out) {
  struct chart c = {.s = s};
  struct pz_table t;
  c.order = pz_scheduled_order(s, arena, &c.n);
  if (!c.order) return PZ_NO_MEMORY;
  fill(&c, &t, arena, 0);
  int left = PZ_GANTT_COLUMNS - pz_table_width(&t);
  fill(&c, &t, arena, left < LEAST_BAR ? LEAST_BAR : left > MOST_BAR ? MOST_BAR : left);
  enum pz_status status = pz_table_print(&t, 0, out);
  uint32_t hidden = s->n_operators - c.n;
  if (hidden)
    fprintf(out, "not shown: %" PRIu32 " operator%s of zero duration\n", hidden,
            hidden == 1 ? "" : "s");
  return status;
}
