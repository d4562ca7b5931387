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

/* Releases the events of a trace that was not taken (pz_close_fn). */
static void release_events(void *ctx) {
  struct pz_trace_events *trace = ctx;
  for (uint32_t i = 0; i < trace->events.n; i++)
    json_decref(pz_vec_at(&trace->events, struct event, i)->json);
}

/* Returns an empty trace; viewers show times in the unit, "ms" or "ns". */
struct pz_trace_events *pz_trace_begin(struct pz_call *call, const char *unit) {
  struct pz_trace_events *trace = pz_alloc(call, 1, sizeof *trace);
  trace->call = call;
  trace->root =
      pz_json_built(call, json_pack("{s:s,s:[]}", "displayTimeUnit", unit, "traceEvents"));
  trace->list = json_object_get(trace->root, "traceEvents");
  pz_vec_init(&trace->events, call->arena, sizeof(struct event));
  pz_defer(call, release_events, trace);
  return trace;
}

/* Names a process (`kind` "process_name") or a thread ("thread_name"); takes over `name`. */
void pz_trace_name(struct pz_trace_events *trace, const char *kind, int process, int thread,
                   json_t *name) {
  json_t *event =
      json_pack("{s:s,s:s,s:i,s:i,s:{s:o}}", "name", kind, "ph", "M", "pid", process, "tid", thread,
                "args", "name", name ? name : json_string("(not UTF-8)"));
  if (json_array_append_new(trace->list, event) != 0) pz_raise_memory(trace->call, "the trace");
}

int64_t pz_trace_ticks(double us) { return (int64_t)floor(us * TICKS_PER_US + 0.5); }

double pz_trace_us(int64_t ticks) { return (double)ticks / TICKS_PER_US; }

/* Adds an event that begins at a tick, and takes over the reference to it. */
void pz_trace_add(struct pz_trace_events *trace, int64_t tick, json_t *event) {
  pz_json_built(trace->call, event); /* the event is released if the vector cannot grow */
  struct event *added = pz_append(trace->call, &trace->events, NULL);
  *added = (struct event){tick, trace->events.n - 1, event};
  pz_undefer(trace->call, event);
}

/* Adds a span of time on a thread, unless it is empty. */
void pz_trace_span(struct pz_trace_events *trace, int thread, const char *kind, int64_t microbatch,
                   const double span_s[2]) {
  int64_t start = pz_trace_ticks(span_s[0] * 1e6), end = pz_trace_ticks(span_s[1] * 1e6);
  char name[48];
  if (!(span_s[1] > span_s[0])) return;
  if (microbatch >= 0)
    snprintf(name, sizeof name, "%s %" PRId64, kind, microbatch);
  else
    snprintf(name, sizeof name, "%s", kind);
  pz_trace_add(trace, start,
               json_pack("{s:s,s:s,s:s,s:i,s:i,s:f,s:f}", "name", name, "cat", kind, "ph", "X",
                         "pid", PZ_TRACE_PROCESS, "tid", thread, "ts", pz_trace_us(start), "dur",
                         pz_trace_us(end - start)));
}

/* Orders events by time and then by the order in which they were added, for qsort(). */
static int compare_events(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  if (x->tick != y->tick) return x->tick < y->tick ? -1 : 1;
  return (x->serial > y->serial) - (x->serial < y->serial);
}

/* Returns the trace as JSON with its events in order of time. */
char *pz_trace_take(struct pz_trace_events *trace) {
  struct event *events = trace->events.items;
  uint32_t n = trace->events.n;
  if (n) qsort(events, n, sizeof *events, compare_events);
  for (uint32_t i = 0; i < n; i++) {
    json_t *json = events[i].json;
    events[i].json = NULL;
    if (json_array_append_new(trace->list, json) != 0) pz_raise_memory(trace->call, "the trace");
  }
  char *text = pz_json_take(trace->call, trace->root);
  pz_close(trace->call, trace);
  pz_close(trace->call, trace->root);
  return text;
}
