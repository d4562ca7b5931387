#include "report/gantt.h"

#include <inttypes.h>
#include <string.h>

#include "core/text.h"
#include "report/table.h"

enum { LONGEST_NAME = 32, LEAST_BAR = 20, MOST_BAR = 60 };

struct chart {
  const struct pz_scheduled *s;
  const uint32_t *order; /* tasks that are shown */
  uint32_t n;
};

static const char *name_text(const char *name, char buf[LONGEST_NAME + 1]) {
  if (strlen(name) <= LONGEST_NAME) return name;
  char cut[LONGEST_NAME - 1];
  snprintf(buf, LONGEST_NAME + 1, "%s..", pz_text_copy(cut, sizeof cut, name));
  return buf;
}

/* "8t", "4t+2v", "link"; "single" and "intra" of the two-mode problem. */
static const char *mode_text(const struct pz_mode *m, char buf[32]) {
  int tensor = m->use[PZ_TENSOR_CORES], vector = m->use[PZ_VECTOR_CORES];
  if (m->label <= PZ_MODE_NONE) return pz_mode_name(m, buf);
  if (tensor && vector)
    snprintf(buf, 32, "%dt+%dv", tensor, vector);
  else
    snprintf(buf, 32, "%d%c", tensor ? tensor : vector, tensor ? 't' : 'v');
  return buf;
}

static void time_cell(struct pz_table *t, const struct pz_scheduled *s, double time) {
  double us = time * s->to_us, most = s->schedule.makespan * s->to_us;
  if (s->layer)
    pz_table_cell(t, "%.*f", pz_scheduled_decimals(most), us);
  else
    pz_table_cell(t, "%.9g", us);
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
static void bar_cell(struct pz_table *t, const struct pz_slot *slot, double makespan, char c,
                     int width) {
  char buf[MOST_BAR + 1];
  int from = makespan > 0 ? (int)(slot->start / makespan * width) : 0;
  int to = makespan > 0 ? (int)(slot->end / makespan * width + 0.5) : 0;
  if (from >= width) from = width - 1;
  if (to <= from) to = from + 1;
  if (to > width) to = width;
  memset(buf, ' ', sizeof buf);
  memset(buf + from, slot->end > slot->start ? c : '|', (size_t)(to - from));
  buf[to] = '\0';
  pz_table_cell(t, "%s", buf);
}

/* The rows with bars of a width; 0: without. */
static void fill(const struct chart *c, struct pz_table *t, struct pz_arena *arena, int width) {
  static const char *const of_layer[] = {">op", "operator", "mode", ">start", ">end", "", NULL};
  static const char *const of_instance[] = {">op", "mode", ">start", ">end", "", NULL};
  pz_table_init(t, arena, c->s->layer ? of_layer : of_instance);
  for (uint32_t i = 0; i < c->n; i++) {
    const struct pz_task *task = &c->s->problem.tasks[c->order[i]];
    const struct pz_slot *slot = &c->s->schedule.slots[c->order[i]];
    char name[LONGEST_NAME + 1], mode[32];
    pz_table_cell(t, "%" PRId64, task->id);
    if (c->s->layer) pz_table_cell(t, "%s", name_text(task->name, name));
    pz_table_cell(t, "%s", mode_text(&task->modes[slot->mode], mode));
    time_cell(t, c->s, slot->start);
    time_cell(t, c->s, slot->end);
    if (width)
      bar_cell(t, slot, c->s->schedule.makespan, ink(task->op_class), width);
    else
      pz_table_cell(t, "%s", "");
  }
}

/* Set twice: the bars get what the other columns leave. */
enum pz_status pz_gantt_print(const struct pz_scheduled *s, struct pz_arena *arena, FILE *out) {
  struct chart c = {.s = s};
  struct pz_table t;
  c.order = pz_scheduled_order(s, arena, &c.n);
  if (!c.order) return PZ_NO_MEMORY;
  fill(&c, &t, arena, 0);
  int left = PZ_GANTT_COLUMNS - pz_table_width(&t);
  fill(&c, &t, arena, left < LEAST_BAR ? LEAST_BAR : left > MOST_BAR ? MOST_BAR : left);
  enum pz_status status = pz_table_print(&t, 0, out);
  uint32_t hidden = s->problem.n - c.n;
  if (hidden)
    fprintf(out, "not shown: %" PRIu32 " operator%s of zero duration\n", hidden,
            hidden == 1 ? "" : "s");
  return status;
}
