/* Trace events for Perfetto (ui.perfetto.dev) or chrome://tracing: named threads of one process, and
 * spans of time on them.  The format is Google's "Trace Event Format"; times are microseconds. */
#ifndef PZ_CORE_TRACE_EVENTS_H
#define PZ_CORE_TRACE_EVENTS_H

#include "core/json.h"

struct pz_trace_events {
  json_t *events;
  bool good; /* there was memory for all of them */
};

void pz_trace_begin(struct pz_trace_events *t);

/* "process_name" (thread 0) or "thread_name"; takes over the reference; NULL: a text that is
 * not UTF-8. */
void pz_trace_name(struct pz_trace_events *t, const char *what, int thread, json_t *name);

/* From start to end on a thread; `microbatch` -1: no number behind the name.  One that takes no time
 * is left out.  Spans that do not overlap in seconds do not in the file. */
void pz_trace_span(struct pz_trace_events *t, int thread, const char *kind, int64_t microbatch,
                   const double span_s[2]);

/* The JSON text (the caller's to pz_free); gives back the events in any case. */
PZ_NODISCARD enum pz_status pz_trace_end(struct pz_trace_events *t, char **text,
                                         struct pz_error *err);

#endif
