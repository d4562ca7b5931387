/* Trace events for Perfetto (ui.perfetto.dev) or chrome://tracing: named threads of processes, and spans of time on them.
 * The format is Google's "Trace Event Format"; times are microseconds. */
#ifndef PZ_CORE_TRACE_EVENTS_H
#define PZ_CORE_TRACE_EVENTS_H

#include "core/json.h"
#include "core/vec.h"

struct pz_trace_events {
  struct pz_arena arena;
  struct pz_vec events;
  json_t *all;      /* names, and in the end events */
  const char *unit; /* that viewers show: "ms" or "ns" */
  bool good;        /* there was memory for all of them */
};

void pz_trace_begin(struct pz_trace_events *t, const char *unit);

/* "process_name" (thread 0) or "thread_name"; takes over the reference; NULL: a text that is not UTF-8. */
void pz_trace_name(struct pz_trace_events *t, const char *what, int process, int thread,
                   json_t *name);

/* Times are whole 1024ths of a microsecond.  They are exact in binary, so the end of an event is not after the start of the
 * next on its thread, also in viewers that cut both to nanoseconds and drop what overlaps. */
int64_t pz_trace_ticks(double us);
double pz_trace_us(int64_t ticks);

/* An event that begins then; takes over the reference; NULL: there was no memory for it. */
void pz_trace_add(struct pz_trace_events *t, int64_t tick, json_t *event);

/* From start to end on a thread of the process PZ_TRACE_PROCESS; `microbatch` -1: no number behind the name.  One that
 * takes no time is left out. */
enum { PZ_TRACE_PROCESS = 1 };
void pz_trace_span(struct pz_trace_events *t, int thread, const char *kind, int64_t microbatch,
                   const double span_s[2]);

/* The JSON text (the caller's to pz_free), names first, then events in order of time; gives back the events in any case. */
PZ_NODISCARD enum pz_status pz_trace_end(struct pz_trace_events *t, char **text,
                                         struct pz_error *err);

#endif
