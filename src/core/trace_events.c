/* Events are collected in a vector and sorted by time when the trace ends. */
#include "core/trace_events.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const double TICKS_PER_US = 1024;

struct event {
  int64_t tick;
  uint32_t serial; /* events at equal times keep the order in which they were added */
  json_t *json;
};

void pz_trace_begin(struct pz_trace_events *t, const char *unit) {
  *t = (struct pz_trace_events){.all = json_array(), .unit = unit, .good = true};
  pz_arena_init(&t->arena, NULL);
  pz_vec_init(&t->events, &t->arena, sizeof(struct event));
}

void pz_trace_name(struct pz_trace_events *t, const char *what, int process, int thread,
                   json_t *name) {
  json_t *e = json_pack("{s:s,s:s,s:i,s:i,s:{s:o}}", "name", what, "ph", "M", "pid", process, "tid",
                        thread, "args", "name", name ? name : json_string("(not UTF-8)"));
  t->good = json_array_append_new(t->all, e) == 0 && t->good;
}

int64_t pz_trace_ticks(double us) { return (int64_t)floor(us * TICKS_PER_US + 0.5); }

double pz_trace_us(int64_t ticks) { return (double)ticks / TICKS_PER_US; }

void pz_trace_add(struct pz_trace_events *t, int64_t tick, json_t *event) {
  struct event e = {tick, t->events.n, event};
  if (event && pz_vec_push(&t->events, &e)) return;
  json_decref(event);
  t->good = false;
}

void pz_trace_span(struct pz_trace_events *t, int thread, const char *kind, int64_t microbatch,
                   const double span_s[2]) {
  int64_t start = pz_trace_ticks(span_s[0] * 1e6), end = pz_trace_ticks(span_s[1] * 1e6);
  char name[48];
  if (!(span_s[1] > span_s[0])) return;
  if (microbatch >= 0)
    snprintf(name, sizeof name, "%s %" PRId64, kind, microbatch);
  else
    snprintf(name, sizeof name, "%s", kind);
  pz_trace_add(t, start,
               json_pack("{s:s,s:s,s:s,s:i,s:i,s:f,s:f}", "name", name, "cat", kind, "ph", "X",
                         "pid", PZ_TRACE_PROCESS, "tid", thread, "ts", pz_trace_us(start), "dur",
                         pz_trace_us(end - start)));
}

static int by_time(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  if (x->tick != y->tick) return x->tick < y->tick ? -1 : 1;
  return (x->serial > y->serial) - (x->serial < y->serial);
}

enum pz_status pz_trace_end(struct pz_trace_events *t, char **text, struct pz_error *err) {
  if (t->events.n) qsort(t->events.items, t->events.n, sizeof(struct event), by_time);
  for (uint32_t i = 0; i < t->events.n; i++)
    if (json_array_append_new(t->all, pz_vec_at(&t->events, struct event, i)->json) != 0)
      t->good = false;
  json_t *root = json_pack("{s:s,s:o}", "displayTimeUnit", t->unit, "traceEvents", t->all);
  enum pz_status status = t->good && root
                              ? pz_json_text(root, text, err)
                              : pz_fail(err, PZ_NO_MEMORY, "out of memory for the trace");
  json_decref(root);
  pz_arena_release(&t->arena);
  return status;
}
