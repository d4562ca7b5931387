/* Trace events for Perfetto (ui.perfetto.dev) or chrome://tracing: named threads of processes, and
 * spans of time on them.  The format is Google's "Trace Event Format"; times are microseconds. */
#ifndef PZ_CORE_TRACE_EVENTS_H
#define PZ_CORE_TRACE_EVENTS_H

#include "core/json.h"
#include "core/vec.h"

struct pz_trace_events {
  struct pz_call *call;
  struct pz_vec events;
  json_t *root; /* the document */
  json_t *list; /* the document's array of events: first names, at the end the others */
};

/* Returns an empty trace, freed when the call ends; viewers show the unit, "ms" or "ns". */
struct pz_trace_events *pz_trace_begin(struct pz_call *call, const char *unit);

/* Names a process (`kind` is "process_name", thread 0) or a thread (`kind` is "thread_name").
 * Takes over the reference to the name, which is NULL for a text that is not UTF-8. */
void pz_trace_name(struct pz_trace_events *trace, const char *kind, int process, int thread,
                   json_t *name);

/* Convert between microseconds and ticks of 1/1024 us, which are exact in binary, so that an event
 * never ends after the start of the next one on its thread: viewers drop overlapping events. */
int64_t pz_trace_ticks(double us);
double pz_trace_us(int64_t ticks);

/* Adds an event that begins at a tick.  Takes over the reference, NULL if memory ran out. */
void pz_trace_add(struct pz_trace_events *trace, int64_t tick, json_t *event);

enum { PZ_TRACE_PROCESS = 1 }; /* the process ID of all spans */

/* Adds a span from span_s[0] to span_s[1] on a thread, unless it is empty.  Its name is `kind`,
 * followed by the number of the microbatch unless that is negative. */
void pz_trace_span(struct pz_trace_events *trace, int thread, const char *kind, int64_t microbatch,
                   const double span_s[2]);

/* Returns the trace as JSON, names first and then events by time, which the caller of a public
 * function frees with pz_text_free(). */
char *pz_trace_take(struct pz_trace_events *trace);

#endif
